//! Plans of loops: the plan of a few iterations is searched for and repeated for all of them.
//!
//! In: a segment whose operations repeat with a period. Out: a plan in which a span of one to three iterations in the
//! middle repeats. None if the search does not plan a few iterations periodically, or the repeated plan is illegal. So
//! the search never sees more than nineteen iterations, whatever the loop's length.
//!
//! Always true: such a plan consists of kernels that the planner allows ([`Kernels::get`]), like any other.

use super::kernels::Kernels;
use super::search::{Effort, State};
use crate::period::turns;
use crate::segment::{BitSet, Segment};
use crate::tunable::TUNABLES;
use std::ops::Range;

/// Maximum number of iterations that one kernel spans, and so of the span that is repeated.
const MAX_SPAN_ITERATIONS: usize = 3;
/// Divisor of the number of iterations that are not searched: a common multiple of all span lengths (1 to 3), so that
/// whole spans fill the gap.
const MULTIPLE: usize = 6;

/// Loop in a segment: the operations before it, and its iterations up to the segment's end.
pub(super) struct Loop {
    /// Number of operations before the loop.
    pub begin: usize,
    /// Number of operations of an iteration.
    pub period: usize,
    /// Number of iterations.
    pub turns: usize,
    /// Number of iterations that are searched.
    few: usize,
}

/// Searches for the plan of a segment that is a loop; also returns whether the search completed. `None` if the segment
/// is no such loop, or a repeated plan is not legal.
pub(super) fn search(kernels: &mut Kernels<'_, '_>, effort: Effort) -> Option<(State, bool)> {
    let seg = kernels.facts.ix.seg;
    if !seg.mode.fused || effort == Effort::None {
        return None;
    }
    // If the first and last iterations leave no repeating span, a few more iterations may.
    [0, MULTIPLE].into_iter().find_map(|more| of_few(kernels, &Loop::of(&seg, more)?, effort))
}

/// Searches for the plan of a few iterations, and repeats it for all iterations. Adds the visits and the partial plans
/// used to those of `kernels`.
fn of_few(kernels: &mut Kernels<'_, '_>, found: &Loop, effort: Effort) -> Option<(State, bool)> {
    let seg = kernels.facts.ix.seg;
    let (live, few) = (found.live(&seg), found.begin + found.few * found.period);
    let count = |of: fn(&thalweg_ir::RelOp) -> usize| seg.ops[..few].iter().map(of).sum::<usize>();
    let ints = count(|o| o.int_count());
    let scalars = count(|o| o.args().filter(|a| *a == thalweg_ir::Arg::Scalar).count());
    let short = Segment {
        ops: &seg.ops[..few],
        live: &live,
        shapes: &seg.shapes[..few],
        ints: &seg.ints[..ints],
        scalars: &seg.scalars[..scalars],
        ..seg
    };
    let facts = super::facts::Facts::new(short);
    let mut of_few = Kernels::with(&facts, kernels.costs, (kernels.at_hand, kernels.quickly));
    let (state, complete) = of_few.search_all(effort).ok()?;
    kernels.visits += of_few.visits;
    kernels.parts = kernels.parts.and(of_few.parts);
    let few = state.kernels.iter().map(|k| (k.stores.clone(), k.candidate.ops().to_vec())).collect();
    let all = found.repeated(few)?;
    let mut stored = kernels.facts.required.clone();
    all.iter().flatten().for_each(|&s| stored.insert(s));
    let state = kernels.state_of(&all, &stored)?;
    // Each required result is stored exactly once.
    let once = all.iter().map(Vec::len).sum::<usize>() == stored.count();
    (once && state.check(kernels.facts).is_ok()).then_some((state, complete))
}

impl Loop {
    /// Loop up to the segment's end, if it has more iterations than are searched, and all but the last two have equal
    /// sizes and live results. `more`: iterations to search beyond the minimum.
    pub fn of(seg: &Segment<'_>, more: usize) -> Option<Loop> {
        if !TUNABLES.min_periodic_operations.reached_by(seg.ops.len()) {
            return None;
        }
        let (period, turns) = turns(seg.ops)?;
        let least = TUNABLES.min_searched_iterations.size();
        let few = least + turns.checked_sub(least)? % MULTIPLE + more;
        let found = Loop { begin: seg.ops.len() - period * turns, period, turns, few };
        let n = seg.ops.len();
        let alike = |i: usize| seg.shapes[i] == seg.shapes[i + period];
        let live = |i: usize| seg.live.has(i) == seg.live.has(i + period);
        let middle = found.begin + period..n.saturating_sub(3 * period);
        (turns > few && (found.begin..n - period).all(alike) && middle.into_iter().all(live)).then_some(found)
    }

    /// Live results of the searched iterations: their last two end like the segment.
    fn live(&self, seg: &Segment<'_>) -> BitSet {
        let (n, few) = (seg.ops.len(), self.begin + self.few * self.period);
        let last = few - 2 * self.period;
        let mut live = BitSet::new(few);
        let is_live = |&i: &usize| seg.live.has(if i < last { i } else { i + n - few });
        (0..few).filter(is_live).for_each(|i| live.insert(i));
        live
    }

    /// Range of the operations of iteration `number`; iteration 0 includes the operations before the loop.
    pub fn turn(&self, number: usize) -> Range<usize> {
        let first = if number == 0 { 0 } else { self.begin + number * self.period };
        first..self.begin + (number + 1) * self.period
    }

    /// Stores of all kernels of all iterations, repeated from those of a few iterations; `None` if no span repeats.
    fn repeated(&self, few: Vec<Stored>) -> Option<Vec<Vec<usize>>> {
        let of_turn = |number: usize, by: usize| {
            let turn = self.turn(number);
            let begins = move |k: &&Stored| k.0.first().is_some_and(|s| turn.contains(s));
            // Operations before the loop are the same for all iterations.
            let later =
                |ops: &[usize]| ops.iter().map(|&o| if o < self.begin { o } else { o + by * self.period }).collect();
            let mut kernels: Vec<Stored> = few.iter().filter(begins).map(|k| (later(&k.0), later(&k.1))).collect();
            kernels.sort_unstable();
            kernels
        };
        // A span of iterations followed by an equal one, in stores and in everything its kernels compute; the last two
        // iterations end the loop.
        let places = (1..=MAX_SPAN_ITERATIONS)
            .flat_map(|long| (1..self.few.saturating_sub(2 * long + 1)).map(move |at| (at, long)));
        let again = |&(at, long): &(usize, usize)| (at..at + long).all(|t| of_turn(t, long) == of_turn(t + long, 0));
        let (at, long) = places.into_iter().find(again)?;
        let more = self.turns - self.few;
        let first = (0..at).map(|t| (t, 0));
        let repeated = (0..more / long).flat_map(|n| (at..at + long).map(move |t| (t, n * long)));
        let rest = (at..self.few).map(|t| (t, more));
        Some(first.chain(repeated).chain(rest).flat_map(|(t, by)| of_turn(t, by)).map(|k| k.0).collect())
    }
}

/// Kernel of a few iterations: its stores, and all operations that it computes.
type Stored = (Vec<usize>, Vec<usize>);
