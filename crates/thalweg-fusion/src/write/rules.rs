//! Legality rules for the kernels of a plan, each with its reason.
//!
//! To find out whether a set of stores can be one kernel, the kernel is written. An [`Outline`](super::body::Outline)
//! gives the points and rows it would run over, and the writer of [`super::body`] follows every value with its index
//! map. Both report the [`Rule`] that is broken. Rules about several kernels at once are checked on a whole candidate
//! plan (`State::check` of the search). Checks have no side effects.
//!
//! Launches have further rules, which the instance keeps (`crate::instance`). A result reuses the memory of a dead
//! input only if the kernel reads each element of the input at the point that overwrites it. Random numbers are a
//! function of key and index alone, so they may be computed anywhere and repeatedly.
//!
//! Each rule has a test in `partition/tests/legality.rs`.

use crate::segment::Mode;
use crate::tunable::TUNABLES;
use std::fmt;
use thalweg_ir::{Op, OpClass};
use thalweg_kernel::Contracts;

/// Maximum number of index maps of one operation at which writing goes on, even if storing a value would not pay. Each
/// doubling of a tensor (`cat(a, a)`) doubles the maps of all its ancestors.
pub(crate) fn hopeless_maps() -> usize {
    4 * TUNABLES.max_maps.get()
}

/// Legality rule that a kernel would break.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// All stores of a kernel have one element per point, or one per row: a kernel is one loop nest. Equality of sizes
    /// that does not follow from the data flow is an assumption of the plan, checked again for other sizes.
    OtherPoints,
    /// Reductions and scans in a kernel go along the same rows, with one order of elements. A reduction along other
    /// rows has to be complete before it is used. Results over all rows (of a shared pass) are complete only after the
    /// launch.
    OtherRows,
    /// A row's result is used only at points of that row; the result of a scan or a matrix product only at its own
    /// point. A source that is read by computed offsets is not written by the same kernel. Other elements may not have
    /// been computed.
    ReadElsewhere,
    /// A pass shared by row reductions and reductions over all rows iterates over a row as one dimension, so that the
    /// partial results of the columns are contiguous: each access has one stride along the row.
    BrokenRows,
    /// A source that is read by computed offsets is in memory with strides.
    NoStrides,
    /// A scatter is a kernel of its own. So is a foreign operation, several results of which may be written by one
    /// launch, and a matrix product on a device without contractions. (A scatter's index and values may be computed in
    /// its kernel.)
    Opaque,
    /// A kernel has one matrix product: its tiles are sized for that one.
    SecondProduct,
    /// A tensor without elements has no rows: its reductions are kernels of their own.
    NoRows,
    /// A value that need not be stored is stored only if another kernel reads it.
    Unread,
    /// Kernels and the values between them form an acyclic graph: each runs once, after everything it reads from.
    Cycle,
    /// A kernel computes at most `max_kernel_ops` operations, without views and constants, so that compile time stays
    /// linear in practice and code fits the instruction cache. At most `max_puts` of them are `Put`s, and one operation
    /// is computed at most `max_maps` times. An operation has at most three arguments, so this bounds those of a kernel
    /// too, far below the 65,536 operands and scalars that its body can name. On a GPU a kernel with folds stores at
    /// most `max_fold_stores` values, and the bodies of all boxes have at most `max_compiled_nodes` nodes.
    Full,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::OtherPoints => "over another number of points",
            Rule::OtherRows => "reduced along other rows, which have to be complete first",
            Rule::ReadElsewhere => "needed at elements that may not have been computed yet",
            Rule::BrokenRows => "an operand has no single stride along the rows that both would share",
            Rule::NoStrides => "read in memory, where strides do not lead to it",
            Rule::Opaque => "runs by itself",
            Rule::SecondProduct => "a kernel has one matrix product",
            Rule::NoRows => "a reduction of a tensor without elements runs by itself",
            Rule::Unread => "nobody else reads it",
            Rule::Cycle => "an operation between them has to run first",
            Rule::Full => "the kernel is full",
        })
    }
}

/// Whether an operation is an opaque kernel: nothing fuses into it.
pub(crate) fn is_opaque(op: Op, mode: Mode) -> bool {
    op.class().has_own_kernel() && !contracts(op, mode)
}

/// Whether an operation is a matrix product that fuses with its neighbours.
pub(crate) fn contracts(op: Op, mode: Mode) -> bool {
    op.class() == OpClass::Matmul && mode.fused && mode.contracts != Contracts::Bare
}

/// Whether an operation counts towards a kernel's size: views and constants generate almost no code.
pub(crate) fn counts(op: Op) -> bool {
    !op.is_view() && !is_constant(op)
}

/// Whether an operation is a constant, which takes no work and no memory.
pub(crate) fn is_constant(op: Op) -> bool {
    op.class() == OpClass::Constant
}
