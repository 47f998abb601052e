//! Plans of loops: the plan of a few turns is searched for and repeated for all of them.
//!
//! In: a segment whose operations repeat with a period. Out: a plan in which a stretch of one to three turns in the
//! middle is planned alike again and again; none where the search does not plan a few turns so, or what it finds is no
//! plan of the whole. So the search never sees more than nineteen turns, whatever the loop's length.
//!
//! Always true: a plan that comes from here is made of kernels that the planner allows ([`Kernels::get`]), as any other.

use super::components::search_all;
use super::kernels::{Kernels, candidate_ops};
use super::search::{Effort, State};
use crate::period::turns;
use crate::segment::{BitSet, Segment};
use crate::tunable::TUNABLES;
use std::ops::Range;

/// Turns of which one kernel may hold parts: what is repeated is a stretch of at most so many.
const TOGETHER: usize = 3;
/// Iterations beyond [`min_searched_iterations`](crate::tunable::PlannerTunables::min_searched_iterations) that are searched are those that
/// leave a multiple of every stretch.
const MULTIPLE: usize = 6;

/// The operations of a loop: those before it, and turns up to the segment's end.
pub(super) struct Loop {
    /// Operations before it.
    pub begin: usize,
    /// Operations of a turn.
    pub period: usize,
    /// How many turns there are.
    pub turns: usize,
    /// Turns that are searched.
    few: usize,
}

/// A plan of the loop that a segment is, and whether the search for a turn's came to its end.
pub(super) fn search(kernels: &mut Kernels<'_, '_>, effort: Effort) -> Option<(State, bool)> {
    let seg = kernels.facts.ix.seg;
    if !seg.mode.fused || effort == Effort::None {
        return None;
    }
    // Where the first turns and the last leave no room for what is repeated, a few more have it.
    [0, MULTIPLE].into_iter().find_map(|more| of_few(kernels, &Loop::of(&seg, more)?, effort))
}

/// The plan of a few turns, repeated.
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
    let (state, complete) = search_all(&mut of_few, effort).ok()?;
    kernels.visits += of_few.visits;
    kernels.parts = kernels.parts.and(of_few.parts);
    let few = state.kernels.iter().map(|k| (k.stores.clone(), candidate_ops(&k.candidate).to_vec())).collect();
    let all = found.repeated(few)?;
    let mut stored = kernels.facts.required.clone();
    all.iter().flatten().for_each(|&s| stored.insert(s));
    let state = State::of(kernels, &all, &stored)?;
    // Whatever has to be stored is, once.
    let once = all.iter().map(Vec::len).sum::<usize>() == stored.count();
    (once && state.check(kernels.facts).is_ok()).then_some((state, complete))
}

impl Loop {
    /// The loop that goes on to the segment's end, if it has more turns than are searched and all but the last two are
    /// alike in sizes and in what is live. `more`: turns that are searched beyond the fewest.
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

    /// What is live of the turns that are searched: their last two end as the segment does.
    fn live(&self, seg: &Segment<'_>) -> BitSet {
        let (n, few) = (seg.ops.len(), self.begin + self.few * self.period);
        let last = few - 2 * self.period;
        let mut live = BitSet::new(few);
        let is_live = |&i: &usize| seg.live.has(if i < last { i } else { i + n - few });
        (0..few).filter(is_live).for_each(|i| live.insert(i));
        live
    }

    /// The operations of a turn; of the first one those before it, too.
    pub fn turn(&self, number: usize) -> Range<usize> {
        let first = if number == 0 { 0 } else { self.begin + number * self.period };
        first..self.begin + (number + 1) * self.period
    }

    /// The kernels of all turns, by their stores, from those of a few; `None` where no stretch of these is repeated.
    fn repeated(&self, few: Vec<Stored>) -> Option<Vec<Vec<usize>>> {
        let of_turn = |number: usize, by: usize| {
            let turn = self.turn(number);
            let begins = move |k: &&Stored| k.0.first().is_some_and(|s| turn.contains(s));
            // What is before the loop is the same for all turns.
            let later =
                |ops: &[usize]| ops.iter().map(|&o| if o < self.begin { o } else { o + by * self.period }).collect();
            let mut kernels: Vec<Stored> = few.iter().filter(begins).map(|k| (later(&k.0), later(&k.1))).collect();
            kernels.sort_unstable();
            kernels
        };
        // A stretch of so many turns from a turn on that is followed by the same once more, stores and all else that
        // its kernels compute; the last two end the loop.
        let places =
            (1..=TOGETHER).flat_map(|long| (1..self.few.saturating_sub(2 * long + 1)).map(move |at| (at, long)));
        let again = |&(at, long): &(usize, usize)| (at..at + long).all(|t| of_turn(t, long) == of_turn(t + long, 0));
        let (at, long) = places.into_iter().find(again)?;
        let more = self.turns - self.few;
        let first = (0..at).map(|t| (t, 0));
        let repeated = (0..more / long).flat_map(|n| (at..at + long).map(move |t| (t, n * long)));
        let rest = (at..self.few).map(|t| (t, more));
        Some(first.chain(repeated).chain(rest).flat_map(|(t, by)| of_turn(t, by)).map(|k| k.0).collect())
    }
}

/// What a kernel stores, and all that it computes.
type Stored = (Vec<usize>, Vec<usize>);
