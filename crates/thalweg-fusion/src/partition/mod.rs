//! Partition of a segment into kernels: the planner. ../../../../docs/planner.md has the idea.
//!
//! * `facts`: facts that hold for every plan of the segment.
//! * `kernels`: candidate kernels, written by [`crate::write`] or rejected by one of its rules, and their predicted
//!   times.
//! * `reach`: the operations of a candidate kernel.
//! * `contractions`: candidates around a matrix product.
//! * `run_order`: the order in which kernels run.
//! * `canonical`: the order of operations that breaks all ties.
//! * `components`: parts of a segment that are planned separately; `search`: the best plan of each; `partition_cache`: known
//!   plans of components.
//! * `periodic`: the plan of a loop's iteration, repeated; `turns`: a quick version, one iteration at a time.
//! * `siblings`: products of one operand in one launch.
//! * `horizontal`: short kernels of a finished plan in one launch.
//! * `log`: events about the search's decisions.
//! * `stored`: serialization of plans; any bytes are safe to read.
//! * `alternatives`: other plans that are worth measuring.
//! * `why`: reasons why two kernels of a plan are not one, for explanations.
//!
//! The set of kernels does not depend on the order in which independent operations were recorded. The order in which
//! they run does, and with it which short kernels share a launch: the program's own order keeps few values alive at a
//! time.

mod alternatives;
mod canonical;
mod components;
mod contractions;
mod facts;
mod horizontal;
mod kernels;
mod log;
mod partition_cache;
mod periodic;
mod reach;
mod run_order;
mod search;
mod siblings;
mod stored;
mod structure;
#[cfg(test)]
pub(crate) mod tests;
mod turns;
mod why;

use crate::cost::Costs;
use crate::plan::Plan;
use crate::rewrite::Rewrite;
use crate::segment::Segment;
use crate::tunable::TUNABLES;
use kernels::Kernels;
use search::State;

pub use alternatives::alternatives;
pub(crate) use facts::Facts;
pub use kernels::PartsUsed;
pub use partition_cache::{AvailablePlans, PartitionCache};
pub use search::{Effort, NoPlan};
pub use stored::{PLANNER, class_question, question};
pub(crate) use why::why;

/// Plan, with an account of the search that found it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Predicted picoseconds; 0 without fusion, where there is no choice.
    pub time: u64,
    /// Whether the search completed; otherwise its budget ended it.
    pub complete: bool,
    /// Number of visits, the effort of the search: one per candidate kernel looked up, and one per operation of each
    /// new candidate.
    pub visits: u64,
    /// Number of partial plans used that are known from other segments. If there are any, another process might find
    /// another plan.
    pub parts: PartsUsed,
}

/// Plans a segment.
///
/// # Errors
/// When there is no legal plan: see [`NoPlan`].
pub fn plan(segment: Segment<'_>, costs: &Costs, effort: Effort) -> Result<Planned, NoPlan> {
    plan_with(segment, costs, effort, None)
}

/// Plans a segment, with known partial plans.
///
/// # Errors
/// When there is no legal plan: see [`NoPlan`].
pub fn plan_with(
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    at_hand: Option<AvailablePlans<'_>>,
) -> Result<Planned, NoPlan> {
    Planner { segment, costs, effort, at_hand }.plan()
}

/// Quick plan of a loop, found for one iteration; `None` if the segment is not a loop of many iterations.
pub fn plan_of_turns(segment: Segment<'_>, costs: &Costs, at_hand: AvailablePlans<'_>) -> Option<Planned> {
    at_hand.parts.by(costs);
    Planner { segment, costs, effort: Effort::Quick, at_hand: Some(at_hand) }.of_turns()
}

/// Whether a segment consists of iterations of a loop only: then it will recur, however rarely it has occurred so far.
pub fn is_of_turns(segment: &Segment<'_>) -> bool {
    segment.mode.fused && periodic::Loop::of(segment, 0).is_some_and(|l| l.begin == 0)
}

/// Segment to plan, with the arguments of every strategy of planning it.
#[derive(Clone, Copy)]
struct Planner<'p> {
    segment: Segment<'p>,
    costs: &'p Costs,
    effort: Effort,
    /// Known partial plans.
    at_hand: Option<AvailablePlans<'p>>,
}

impl Planner<'_> {
    /// Plan of the segment, with a rewrite that pays or as written: the faster of the two; in a quick search, or for a
    /// large segment, the one with the rewrite if there is one.
    fn plan(&self) -> Result<Planned, NoPlan> {
        if let Some(at_hand) = self.at_hand {
            at_hand.parts.by(self.costs);
        }
        let Some(rewritten) = self.rewritten() else { return self.as_written() };
        if !TUNABLES.max_planned_twice.admits(self.segment.ops.len()) || self.effort == Effort::Quick {
            return Ok(rewritten);
        }
        let Ok(written) = self.as_written() else { return Ok(rewritten) };
        let (visits, parts) = (rewritten.visits + written.visits, rewritten.parts.and(written.parts));
        let better = if written.time < rewritten.time { written } else { rewritten };
        Ok(Planned { visits, parts, ..better })
    }

    /// Plan of the segment with a rewrite that pays; `None` if there is no such rewrite, or no plan.
    fn rewritten(&self) -> Option<Planned> {
        let rewrite = Rewrite::of(&self.segment);
        let rewritten = rewrite.apply(&self.segment)?;
        let of_rewritten = Planner { segment: rewritten.segment(&self.segment), ..*self };
        let planned = of_rewritten.as_written().ok()?;
        Some(Planned { plan: Plan { rewrite, ..planned.plan }, ..planned })
    }

    /// Plan of the segment without rewriting it.
    fn as_written(&self) -> Result<Planned, NoPlan> {
        let quickly = self.effort == Effort::Quick;
        if quickly && let Some(planned) = self.of_turns() {
            log::planned(&self.segment, &planned);
            return Ok(planned);
        }
        let facts = Facts::new(self.segment);
        let mut kernels = Kernels::with(&facts, self.costs, (self.at_hand, quickly));
        let (state, complete) = match periodic::search(&mut kernels, self.effort) {
            Some(found) => found,
            None => kernels.search_all(self.effort)?,
        };
        let visits = kernels.visited();
        let plan = facts.finish(&state);
        let planned = Planned { plan, time: state.time, complete, visits, parts: kernels.parts };
        log::planned(&self.segment, &planned);
        Ok(planned)
    }

    /// Quick plan of a loop; see [`turns`].
    fn of_turns(&self) -> Option<Planned> {
        let (facts, state, (visits, parts)) = self.repeat_iterations()?;
        Some(Planned { plan: facts.finish(&state), time: state.time, complete: false, visits, parts })
    }
}

impl Facts<'_> {
    /// Plan of a final state.
    fn finish(&self, state: &State) -> Plan {
        let first = |k: usize| state.kernels[k].stores[0];
        let reads = state.reads();
        let order = run_order::run_order(&reads, first).expect("the kernels of a plan are acyclic");
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &k)| place[k] = at);
        let mut readers = vec![vec![]; order.len()];
        for (k, from) in reads.iter().enumerate() {
            from.iter().for_each(|&f| readers[place[f]].push(place[k]));
        }
        let (kernels, times) =
            order.iter().map(|&k| (state.kernels[k].candidate.plan.clone(), state.kernels[k].time)).unzip();
        let mut plan = Plan { kernels, outputs: self.outputs.clone(), rewrite: Rewrite::default() };
        if self.ix.seg.mode.fused {
            let (kernels, readers, times) = siblings::group_siblings(&self.ix, (plan.kernels, readers, times));
            plan.kernels = horizontal::group(&self.ix, kernels, &readers, times);
        }
        plan
    }
}
