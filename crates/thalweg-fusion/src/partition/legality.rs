//! What is allowed. The rules that a kernel of a plan keeps, each with its reason.
//!
//! Whether a set of stores can be one kernel is found out by writing it: [`outline`](super::group::outline) says over which points and rows it would run, and the
//! writer of [`crate::body`] follows every value with its index map; both say which [`Rule`] is broken. What concerns several kernels
//! at once is asked of a whole plan in the making ([`State::check`](super::search::State::check)). Asking changes nothing.
//!
//! Beside these, a launch has rules of its own, which the instance keeps ([`crate::instance`]): a result takes the place of a dying input only where the kernel
//! reads each element of it at the point that it writes; and random numbers are a function of key and position alone, so they may be computed anywhere and
//! as often as one likes.
//!
//! Each rule has a test in `partition/tests/legality.rs`.

use std::fmt;

/// A rule that a kernel would break.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// Everything that a kernel stores has an element for each of its points, or for each of its rows: it is one loop nest. Equality of sizes that does not
    /// follow from the data flow is an assumption of the plan, checked again for other sizes.
    OtherPoints,
    /// The reductions and scans in a kernel go along the same rows, whose elements meet in one order: what is reduced along others has to be complete
    /// before it is used. Results over all rows (of a shared pass) are complete only after the launch.
    OtherRows,
    /// A row's result is used at the points of that row, a scan's at its own point, and what is read by computed offsets is not written by the same
    /// kernel: other elements may not have been computed.
    ReadElsewhere,
    /// What is read by computed offsets, or by a matrix product, lies in memory with strides.
    NoStrides,
    /// A matrix product or scatter is a kernel by itself. (Index and values of a scatter may be computed in it.)
    Opaque,
    /// Of a tensor without elements there are no rows: its reductions are kernels by themselves.
    NoRows,
    /// A value that need not be stored is stored for another kernel to read it.
    Unread,
    /// The kernels with the values between them are acyclic: each runs once, after all that it reads from.
    Cycle,
    /// A kernel computes at most `MAX_KERNEL_OPS` operations, views and constants not counted, so that compiling stays linear in practice and code within the
    /// instruction cache; and one operation at most `MAX_MAPS` times. As an operation has three arguments at most, this bounds those of a kernel too, far
    /// below the 65,536 operands and scalars that its body can name.
    Full,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::OtherPoints => "over another number of points",
            Rule::OtherRows => "reduced along other rows, which have to be complete first",
            Rule::ReadElsewhere => "needed at elements that may not have been computed yet",
            Rule::NoStrides => "read in memory, where strides do not lead to it",
            Rule::Opaque => "runs by itself",
            Rule::NoRows => "a reduction of a tensor without elements runs by itself",
            Rule::Unread => "nobody else reads it",
            Rule::Cycle => "an operation between them has to run first",
            Rule::Full => "the kernel is full",
        })
    }
}

/// An operation that is no kernel even by itself, with all that it reads stored: a defect of the planner, since every operation is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPlan {
    /// The operation's number in the segment.
    pub op: usize,
    /// Its name.
    pub name: &'static str,
    /// The rule that its kernel breaks.
    pub rule: Rule,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}, {}, is no kernel by itself: {}", self.op, self.name, self.rule)
    }
}

impl std::error::Error for NoPlan {}

/// The kernels so that each runs after those it reads from; among those that could run the one with the lowest `first`. `None` where they
/// wait for each other.
pub(crate) fn run_order(reads: &[Vec<usize>], first: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
    let mut readers = vec![vec![]; reads.len()];
    let mut waits = vec![0; reads.len()];
    for (k, from) in reads.iter().enumerate() {
        for &r in from {
            readers[r].push(k);
            waits[k] += 1;
        }
    }
    let mut ready: std::collections::BTreeSet<(usize, usize)> =
        (0..waits.len()).filter(|&k| waits[k] == 0).map(|k| (first(k), k)).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some((_, k)) = ready.pop_first() {
        order.push(k);
        for &r in &readers[k] {
            waits[r] -= 1;
            if waits[r] == 0 {
                ready.insert((first(r), r));
            }
        }
    }
    (order.len() == waits.len()).then_some(order)
}
