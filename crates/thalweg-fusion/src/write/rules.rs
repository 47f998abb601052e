//! What is allowed. The rules that a kernel of a plan keeps, each with its reason.
//!
//! Whether a set of stores can be one kernel is found out by writing it: an [`Outline`](super::body::Outline) says over
//! which points and rows it would run, and the writer of [`super::body`] follows every value with its index map; both
//! say which [`Rule`] is broken. What concerns several kernels at once is asked of a whole plan in the making
//! (`State::check` of the search). Asking changes nothing.
//!
//! Beside these, a launch has rules of its own, which the instance keeps (`crate::instance`): a result takes the place
//! of a dying input only where the kernel reads each element of it at the point that it writes; and random numbers are
//! a function of key and position alone, so they may be computed anywhere and as often as one likes.
//!
//! Each rule has a test in `partition/tests/legality.rs`.

use crate::segment::Mode;
use crate::tunable::TUNABLES;
use std::fmt;
use thalweg_ir::Op;
use thalweg_kernel::Contracts;

/// Where writing a kernel ends, however little what it computes again is worth storing: each doubling of a tensor
/// (`cat(a, a)`) doubles the maps of all before it.
pub(crate) fn hopeless_maps() -> usize {
    4 * TUNABLES.max_maps.get()
}

/// A rule that a kernel would break.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// Everything that a kernel stores has an element for each of its points, or for each of its rows: it is one loop
    /// nest. Equality of sizes that does not follow from the data flow is an assumption of the plan, checked again for
    /// other sizes.
    OtherPoints,
    /// The reductions and scans in a kernel go along the same rows, whose elements meet in one order: what is reduced
    /// along others has to be complete before it is used. Results over all rows (of a shared pass) are complete only
    /// after the launch.
    OtherRows,
    /// A row's result is used at the points of that row, that of a scan or a matrix product at its own point, and what is read by computed
    /// offsets is not written by the same kernel: other elements may not have been computed.
    ReadElsewhere,
    /// A pass that reductions along rows share with reductions over all rows goes through a row as one dimension, so
    /// that partial results of the columns are one run of memory: all its accesses run through a row with one stride.
    BrokenRows,
    /// What is read by computed offsets lies in memory with strides.
    NoStrides,
    /// A scatter is a kernel by itself, and so are an operation in another language, whose results may be written by one
    /// launch, and a matrix product on a device that has no contractions. (Index and values of a scatter may be computed in
    /// it.)
    Opaque,
    /// A kernel has one matrix product: its tiles are cut for that one.
    SecondProduct,
    /// Of a tensor without elements there are no rows: its reductions are kernels by themselves.
    NoRows,
    /// A value that need not be stored is stored for another kernel to read it.
    Unread,
    /// The kernels with the values between them are acyclic: each runs once, after all that it reads from.
    Cycle,
    /// A kernel computes at most `max_kernel_ops` operations, views and constants not counted, so that compiling stays
    /// linear in practice and code within the instruction cache, of which at most `max_puts` put a part into a tensor; and one operation at most `max_maps` times. As an
    /// operation has three arguments at most, this bounds those of a kernel too, far below the 65,536 operands and
    /// scalars that its body can name. A kernel that folds stores at most `max_fold_stores` values on a GPU.
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

/// Whether an operation is an opaque kernel: one that nothing fuses into.
pub(crate) fn is_opaque(op: Op, mode: Mode) -> bool {
    matches!(op, Op::Scatter(_) | Op::Foreign(_)) || op == Op::Matmul && !contracts(op, mode)
}

/// Whether an operation is a product that shares a kernel with what surrounds it.
pub(crate) fn contracts(op: Op, mode: Mode) -> bool {
    op == Op::Matmul && mode.fused && mode.contracts != Contracts::Bare
}

/// Whether an operation counts among those that a kernel computes: views and constants become no code to speak of.
pub(crate) fn counts(op: Op) -> bool {
    !op.is_view() && !is_constant(op)
}

/// A constant takes no work and no memory to compute.
pub(crate) fn is_constant(op: Op) -> bool {
    matches!(op, Op::Full | Op::Iota)
}
