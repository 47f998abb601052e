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

/// Plan, and how it was found.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Predicted picoseconds; 0 without fusion, where there is no choice.
    pub time: u64,
    /// Whether the search completed; otherwise its budget ended it.
    pub complete: bool,
    /// Operations written into candidate kernels.
    pub visits: u64,
    /// Use of partial plans known from other segments: with any, another process might find another plan.
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
    if let Some(at_hand) = at_hand {
        at_hand.parts.by(costs);
    }
    let as_written = || plan_as_written(segment, costs, effort, at_hand);
    let Some(rewritten) = plan_rewritten(segment, costs, effort, at_hand) else { return as_written() };
    if !TUNABLES.max_planned_twice.admits(segment.ops.len()) || effort == Effort::Quick {
        return Ok(rewritten);
    }
    let Ok(written) = as_written() else { return Ok(rewritten) };
    let (visits, parts) = (rewritten.visits + written.visits, rewritten.parts.and(written.parts));
    let better = if written.time < rewritten.time { written } else { rewritten };
    Ok(Planned { visits, parts, ..better })
}

/// Quick plan of a loop, found for one iteration; `None` if the segment is not a loop of many iterations.
pub fn plan_of_turns(segment: Segment<'_>, costs: &Costs, at_hand: AvailablePlans<'_>) -> Option<Planned> {
    at_hand.parts.by(costs);
    let (facts, state, (visits, parts)) = turns::plan(segment, costs, Some(at_hand))?;
    Some(Planned { plan: finish(&facts, &state), time: state.time, complete: false, visits, parts })
}

/// Whether a segment consists of iterations of a loop only: then it will recur, however rarely it has occurred so far.
pub fn is_of_turns(segment: &Segment<'_>) -> bool {
    segment.mode.fused && periodic::Loop::of(segment, 0).is_some_and(|l| l.begin == 0)
}

/// Plans a segment with a rewrite that pays; `None` if there is no such rewrite, or no plan.
fn plan_rewritten(
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    at_hand: Option<AvailablePlans<'_>>,
) -> Option<Planned> {
    let rewrite = Rewrite::of(&segment);
    let rewritten = rewrite.apply(&segment)?;
    let planned = plan_as_written(rewritten.segment(&segment), costs, effort, at_hand).ok()?;
    Some(Planned { plan: Plan { rewrite, ..planned.plan }, ..planned })
}

/// Plans a segment without rewriting it.
fn plan_as_written(
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    at_hand: Option<AvailablePlans<'_>>,
) -> Result<Planned, NoPlan> {
    let quickly = effort == Effort::Quick;
    if quickly && let Some((facts, state, (visits, parts))) = turns::plan(segment, costs, at_hand) {
        let plan = finish(&facts, &state);
        log::planned(&facts.ix, &plan, state.time, (visits, false));
        return Ok(Planned { plan, time: state.time, complete: false, visits, parts });
    }
    let facts = Facts::new(segment);
    let mut kernels = Kernels::with(&facts, costs, (at_hand, quickly));
    let (state, complete) = match periodic::search(&mut kernels, effort) {
        Some(found) => found,
        None => components::search_all(&mut kernels, effort)?,
    };
    let plan = finish(&facts, &state);
    let visits = kernels.visited();
    log::planned(&facts.ix, &plan, state.time, (visits, complete));
    Ok(Planned { plan, time: state.time, complete, visits, parts: kernels.parts })
}

/// Plan of a final state.
fn finish(facts: &Facts<'_>, state: &State) -> Plan {
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
    let mut plan = Plan { kernels, outputs: facts.outputs.clone(), rewrite: Rewrite::default() };
    if facts.ix.seg.mode.fused {
        let (kernels, readers, times) = siblings::group_siblings(&facts.ix, (plan.kernels, readers, times));
        plan.kernels = horizontal::group(&facts.ix, kernels, &readers, times);
    }
    plan
}
