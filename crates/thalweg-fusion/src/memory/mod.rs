//! Memory plan: order of an instance's launches, and location of each result.
//!
//! In: an [`Instance`], and the bytes of each input that are freed when it dies ([`Needs`]). Out: a [`Schedule`]:
//! launches, releases after each, the location of every result, and the peak memory in use. Intermediates share one
//! arena by lifetime (`arena.rs`); a result that reuses a dead operand's memory needs none of its own; outputs have
//! separate allocations, so that none keeps an arena alive. The order has a low peak (`order.rs`). Under a limit
//! launches may run twice instead of holding their results (`limit.rs`).
//!
//! Always true: two results that are alive at once do not overlap, except an operand and the result written over it. An
//! operand exists when it is read. Every step runs, and one that runs twice has the same operands both times.

mod arena;
mod layout;
mod limit;
mod order;
#[cfg(test)]
mod tests;

use crate::instance::Instance;
use crate::write::step::Slot;
use arena::Lifetime;

/// Constraints and inputs of a memory plan.
#[derive(Clone, Copy)]
pub struct Needs<'a> {
    /// Number of bytes of each input that are freed when the segment releases it; 0 if somebody else holds it, too.
    pub own: &'a [usize],
    /// Whether a written operand of a step (arguments: step, operand) may not reuse the memory of a read one,
    /// regardless of [`crate::Step::in_place`]: the program reads that again later.
    pub rereads: &'a dyn Fn(usize, usize) -> bool,
    /// Bytes in use by memory that a step allocates and frees while it runs.
    pub temporary: &'a dyn Fn(usize) -> usize,
    /// Bytes that the allocator actually reserves for a request.
    pub granted: fn(usize) -> usize,
}

/// Execution plan of an instance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// Launches in order.
    pub launches: Vec<Launch>,
    /// Bytes of each cell, which is a result of one launch. The first are [`Instance::buffers`]; those that follow are
    /// results of repeated launches.
    pub cells: Vec<usize>,
    /// Location of each cell.
    pub places: Vec<CellLocation>,
    /// Final memory slot of each of [`Instance::outputs`].
    pub outputs: Vec<Slot>,
    /// Arena shared by intermediates.
    pub arena: Arena,
    /// Peak memory in use, relative to the start of the run.
    pub peak: usize,
    /// Number of repeated launches.
    pub repeated: usize,
}

/// Launch of a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Launch {
    /// Index of the step of the instance.
    pub step: usize,
    /// Operands, with buffers as cells. An operand overwritten in place has the slot of the result.
    pub operands: Vec<Slot>,
    /// Cells released after the launch.
    pub release: Vec<usize>,
    /// Inputs released after the launch.
    pub release_inputs: Vec<usize>,
}

/// Location of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellLocation {
    /// Separate allocation.
    Own,
    /// Offset in bytes into the arena.
    Arena(usize),
    /// In-place reuse: memory of an operand that dies in the launch that writes the cell.
    Over(Slot),
}

/// Memory shared by intermediates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arena {
    /// Size in bytes; 0 if there is no arena.
    pub bytes: usize,
    /// Index of the first launch that needs the arena.
    pub first: usize,
    /// Index of the last launch that needs the arena.
    pub last: usize,
    /// Maximum bytes live in the arena at once: a lower bound of its size.
    pub live: usize,
}

/// Schedule of an instance without a memory limit: a low peak, and each step runs once.
pub fn schedule(instance: &Instance, needs: &Needs<'_>) -> Schedule {
    let given: Vec<usize> = (0..instance.steps.len()).collect();
    let as_given = layout::lay(instance, needs, &given, instance.fused);
    if !instance.fused || instance.steps.len() < 3 {
        return as_given;
    }
    let other = layout::lay(instance, needs, &order::low(instance, needs.own), true);
    // The planned order is kept if its peak is at most a sixteenth higher.
    if other.peak < as_given.peak - as_given.peak / 16 { other } else { as_given }
}

/// Schedule with a peak of at most `limit` bytes, relative to the start of the run. `time` gives the time of a step.
///
/// # Errors
/// The lowest peak that was found, in bytes, if it exceeds the limit.
pub fn schedule_within(
    instance: &Instance,
    needs: &Needs<'_>,
    limit: usize,
    time: &dyn Fn(usize) -> u64,
) -> Result<Schedule, usize> {
    limit::within(instance, needs, limit, time)
}
