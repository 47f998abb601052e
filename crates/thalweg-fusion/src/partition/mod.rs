//! From a segment to a plan: which operations share a kernel. ../../../../docs/planner.md has the idea.
//!
//! * `facts`: what holds for every plan of the segment.
//! * `kernels`: candidates for kernels, written by [`crate::write`] or refused by one of its rules, and what they would
//!   take.
//! * `reach`: what a kernel would compute.
//! * `contractions`: candidates around a matrix product.
//! * `run_order`: kernels in the order in which they run.
//! * `canonical`: an order of the operations that breaks all ties.
//! * `components`: the parts of a segment that are planned by themselves; `search`: the best plan of each; `parts`: those
//!   that were found before.
//! * `periodic`: the plan of a loop's turn, repeated; `turns`: the same at once, turn by turn.
//! * `siblings`: products of one input in one launch.
//! * `horizontal`: short kernels of a finished plan in one launch.
//! * `log`: what the search decides, as events.
//! * `stored`: plans as bytes, and back, whatever the bytes are.
//! * `alternatives`: other plans that are worth measuring.
//! * `why`: what keeps two kernels of a plan from being one, for explanations.
//!
//! Which kernels there are does not depend on the order in which independent operations were recorded. The order in
//! which they run does, and with it which of the short ones share a launch: a program's own order keeps few values
//! alive at a time.

mod alternatives;
mod canonical;
mod components;
mod contractions;
mod facts;
mod horizontal;
mod kernels;
mod log;
mod parts;
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
pub use parts::{AtHand, Parts};
pub use search::{Effort, NoPlan};
pub use stored::{PLANNER, class_question, question};
pub(crate) use why::why;

/// A plan, and how it was come by.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Picoseconds that it takes, as the cost model has it; 0 where fusion is off, as nobody chooses by it.
    pub time: u64,
    /// Whether the search came to its end; otherwise the budget did.
    pub complete: bool,
    /// Operations written into candidates for kernels.
    pub visits: u64,
    /// What came of partitions that were found before, for other segments: with any, another process might have found
    /// another plan.
    pub parts: PartsUsed,
}

/// Plans a segment.
///
/// # Errors
/// Where there is no legal plan: see [`NoPlan`].
pub fn plan(segment: Segment<'_>, costs: &Costs, effort: Effort) -> Result<Planned, NoPlan> {
    plan_with(segment, costs, effort, None)
}

/// The same, where partitions that were found before are at hand.
///
/// # Errors
/// Where there is no legal plan: see [`NoPlan`].
pub fn plan_with(
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    at_hand: Option<AtHand<'_>>,
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

/// The quick plan of a loop, found for a turn; `None` where the segment is no loop of many turns.
pub fn plan_of_turns(segment: Segment<'_>, costs: &Costs, at_hand: AtHand<'_>) -> Option<Planned> {
    at_hand.parts.by(costs);
    let (facts, state, (visits, parts)) = turns::plan(segment, costs, Some(at_hand))?;
    Some(Planned { plan: finish(&facts, &state), time: state.time, complete: false, visits, parts })
}

/// Whether a segment is nothing but turns of a loop: then it comes again, however seldom it was met.
pub fn is_of_turns(segment: &Segment<'_>) -> bool {
    segment.mode.fused && periodic::Loop::of(segment, 0).is_some_and(|l| l.begin == 0)
}

/// Plans a segment with the moves that pay; `None` where there are none, or no plan.
fn plan_rewritten(segment: Segment<'_>, costs: &Costs, effort: Effort, at_hand: Option<AtHand<'_>>) -> Option<Planned> {
    let rewrite = Rewrite::of(&segment);
    let rewritten = rewrite.apply(&segment)?;
    let planned = plan_as_written(rewritten.segment(&segment), costs, effort, at_hand).ok()?;
    Some(Planned { plan: Plan { rewrite, ..planned.plan }, ..planned })
}

/// Plans a segment's operations as they are.
fn plan_as_written(
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    at_hand: Option<AtHand<'_>>,
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

/// The plan that a state is.
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
        let (kernels, readers, times) = siblings::together(&facts.ix, (plan.kernels, readers, times));
        plan.kernels = horizontal::group(&facts.ix, kernels, &readers, times);
    }
    plan
}
