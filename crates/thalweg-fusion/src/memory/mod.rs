//! The memory plan: in which order the launches of an instance run, and where each of their results lies.
//!
//! In: an [`Instance`], and of each input the bytes that are given back when it dies ([`Needs`]). Out: a [`Schedule`]:
//! launches, what dies after each, the place of every result, and the most memory that is in use at once. Intermediates
//! share one arena by the time they live (`arena.rs`); what takes over the place of a dying operand has no place of its
//! own; results that stay have allocations of their own, so that none keeps an arena alive. The order is one with a low
//! peak (`order.rs`). Under a limit launches may run twice instead of holding their results (`limit.rs`).
//!
//! Always true: two results that are alive at once lie apart, but for an operand and what is written over it; an
//! operand is there when it is read; every step runs, and one that runs twice finds the operands that it had the first
//! time.

mod arena;
mod layout;
mod limit;
mod order;
#[cfg(test)]
mod tests;

use crate::instance::Instance;
use crate::write::step::Slot;
use arena::Lifetime;

/// What a memory plan is made for.
#[derive(Clone, Copy)]
pub struct Needs<'a> {
    /// Of each input the bytes that go back to the device when the segment lets go of it; 0 where somebody else holds
    /// them, too.
    pub own: &'a [usize],
    /// Whether a written operand of a step may not lie over a read one, whatever [`crate::Step::in_place`] says: the
    /// program reads again.
    pub rereads: &'a dyn Fn(usize, usize) -> bool,
    /// Bytes in use after so many were asked for.
    pub granted: fn(usize) -> usize,
}

/// How an instance runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// The launches in order.
    pub launches: Vec<Launch>,
    /// Bytes of each cell: a result of a launch. The first are [`Instance::buffers`]; those that follow are results of
    /// launches that run again.
    pub cells: Vec<usize>,
    /// Where each cell lies.
    pub places: Vec<Place>,
    /// Where each of [`Instance::outputs`] lies in the end.
    pub outputs: Vec<Slot>,
    /// The arena.
    pub arena: Arena,
    /// The most that is in use at once, beyond what was when the run began.
    pub peak: usize,
    /// Launches of steps that had run before.
    pub repeated: usize,
}

/// One launch of a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Launch {
    /// The step of the instance.
    pub step: usize,
    /// Its operands, buffers being cells. One that is written over is read from where it is written.
    pub operands: Vec<Slot>,
    /// Cells that nothing needs after it.
    pub release: Vec<usize>,
    /// Inputs that nothing needs after it.
    pub release_inputs: Vec<usize>,
}

/// Where a cell lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In an allocation of its own.
    Own,
    /// That many bytes into the arena.
    Arena(usize),
    /// Where an operand lay that dies in the launch that writes the cell.
    Over(Slot),
}

/// The memory that intermediates share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arena {
    /// Its size; 0 for none.
    pub bytes: usize,
    /// The first launch that needs it.
    pub first: usize,
    /// The last one.
    pub last: usize,
    /// The most bytes in it that are alive at once: no arena is smaller.
    pub live: usize,
}

/// The schedule of an instance where memory is no concern: with few bytes in use at once, each step running once.
pub fn schedule(instance: &Instance, needs: &Needs<'_>) -> Schedule {
    let given: Vec<usize> = (0..instance.steps.len()).collect();
    let as_given = layout::lay(instance, needs, &given, instance.fused);
    if !instance.fused || instance.steps.len() < 3 {
        return as_given;
    }
    let other = layout::lay(instance, needs, &order::low(instance, needs.own), true);
    // What was planned stays where that takes hardly more.
    if other.peak < as_given.peak - as_given.peak / 16 { other } else { as_given }
}

/// A schedule that has at most `limit` bytes in use beyond what was when the run began, or the least bytes of any that
/// was found. `time` tells how long a step takes.
///
/// # Errors
/// The bytes in use by the best schedule found.
pub fn schedule_within(
    instance: &Instance,
    needs: &Needs<'_>,
    limit: usize,
    time: &dyn Fn(usize) -> u64,
) -> Result<Schedule, usize> {
    limit::within(instance, needs, limit, time)
}
