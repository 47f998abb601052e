//! Log of the search: `tracing` events with the target `thalweg::plan`.
//!
//! Each considered move is an event at level trace: the move, its operations, the predicted picoseconds before and
//! after, and the verdict: taken, `slower`, or the rule that forbids it. Each plan is an event at level debug, and so
//! is each group. Operations are written as in explanations: number and name.
//!
//! Always true: without a subscriber that wants them, nothing is formatted.

use super::Planned;
use super::facts::Facts;
use crate::plan::KernelPlan;
use crate::segment::Segment;
use crate::write::rules::Rule;
use std::fmt;
use thalweg_ir::RelOp;
use tracing::{Level, event, event_enabled};

const TARGET: &str = "thalweg::plan";

/// Kind of move from one plan to another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    /// Merges reductions over the same rows, and their producers, into the kernel that uses them.
    AbsorbRows,
    /// Merges two kernels.
    Merge,
    /// Recomputes a stored value wherever it is needed.
    ComputeAgain,
    /// Stores all values that a kernel computes for more points than they have elements.
    Hoist,
    /// Stores a value that is computed several times.
    Store,
    /// Stores a value that one kernel computes, which splits that kernel.
    Split,
    /// Moves a store to another kernel.
    Relocate,
}

/// Logs a considered move; `about` are its operations, `next` is the time of the resulting plan.
pub(super) fn considered(facts: &Facts<'_>, what: Move, about: &[usize], before: u64, next: Result<u64, Rule>) {
    if !event_enabled!(target: TARGET, Level::TRACE) {
        return;
    }
    let about = Operations(facts.ix.seg.ops, about);
    match next {
        Ok(after) => {
            let verdict = if after < before { "taken" } else { "slower" };
            event!(target: TARGET, Level::TRACE, ?what, %about, before_ps = before, after_ps = after, verdict);
        }
        Err(rule) => {
            event!(target: TARGET, Level::TRACE, ?what, %about, before_ps = before, verdict = "forbidden", %rule)
        }
    }
}

/// Logs a plan that was found.
pub(super) fn planned(segment: &Segment<'_>, planned: &Planned) {
    if !event_enabled!(target: TARGET, Level::DEBUG) {
        return;
    }
    let &Planned { ref plan, time, complete, visits, .. } = planned;
    let operations = segment.ops.len();
    let kernels = plan.kernel_count();
    event!(target: TARGET, Level::DEBUG, operations, kernels, time_ps = time, visits, complete, "plan");
    for (n, kernel) in plan.kernels.iter().enumerate() {
        let parts = kernel.parts();
        for part in parts {
            let (stores, computes): (Vec<usize>, Vec<usize>) = (part.writes().collect(), part.ops().collect());
            let (stores, computes) = (Operations(segment.ops, &stores), Operations(segment.ops, &computes));
            let grouped = parts.len() > 1;
            let opaque = matches!(part, KernelPlan::Opaque { .. });
            event!(target: TARGET, Level::DEBUG, kernel = n, grouped, opaque, %stores, %computes, "kernel");
        }
    }
}

/// Formats operations by number and name.
struct Operations<'a>(&'a [RelOp], &'a [usize]);

impl fmt::Display for Operations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, &i) in self.1.iter().enumerate() {
            write!(f, "{}{i} {}", if n > 0 { ", " } else { "" }, self.0[i].op.name())?;
        }
        Ok(())
    }
}
