//! Quick plans of loops: one iteration is searched for, all iterations are planned like it, and values passed between
//! iterations are stored.
//!
//! In: a segment whose operations repeat with a period. Out: a plan, for segments that somebody waits for; none if the
//! segment is no loop. [`super::periodic`] finds better plans, since a kernel may span several iterations, and takes a
//! hundred times as long.
//!
//! Always true: as in any plan, the kernels are those that the planner allows ([`Kernels::get`]).

use super::Planner;
use super::facts::Facts;
use super::kernels::{Kernels, PartsUsed};
use super::periodic::Loop;
use super::search::{Component, Effort, State};
use crate::segment::{BitSet, Segment};
use std::ops::Range;
use thalweg_ir::Arg;

/// Budget per operation of an iteration, in visits: enough for the obvious moves.
const VISITS: u64 = 10;

impl<'p> Planner<'p> {
    /// Plan of the loop that the segment is, with the facts for plans that store values passed between iterations.
    pub(super) fn repeat_iterations(&self) -> Option<(Facts<'p>, State, (u64, PartsUsed))> {
        let segment = self.segment;
        let found = Loop::of(&segment, 0).filter(|_| segment.mode.fused)?;
        let facts = Facts::with(segment, found.carried_values(&segment));
        let mut kernels = Kernels::with(&facts, self.costs, (self.at_hand, true));
        let mut all = State { stored: facts.required.clone(), kernels: vec![], time: 0 };
        let mut before: Option<IterationPlan> = None;
        for number in 0..found.turns {
            let ops = found.turn(number);
            let as_before = before.as_ref().filter(|b| b.is_like(&facts, &ops));
            let state = match as_before.and_then(|b| b.repeated(&mut kernels, &ops)) {
                Some(state) => state,
                None => {
                    let component = Component { ops: facts.needed.within(&ops).collect() };
                    let effort = Effort::Visits(VISITS * component.ops.len() as u64);
                    let state = kernels.solved(&component, effort).ok()?.state;
                    before = Some(IterationPlan::new(ops, &state));
                    state
                }
            };
            all.stored.union(&state.stored);
            all.time += state.time;
            all.kernels.extend(state.kernels);
        }
        let (legal, visits) = (all.check(&facts).is_ok(), (kernels.visits, kernels.parts));
        legal.then_some((facts, all, visits))
    }
}

impl Loop {
    /// Values that one iteration passes to another, directly or through views: the links between kernels of different
    /// iterations.
    fn carried_values(&self, segment: &Segment<'_>) -> BitSet {
        let turn = |i: usize| i.saturating_sub(self.begin) / self.period;
        let mut handed = BitSet::new(segment.ops.len());
        for (i, op) in segment.ops.iter().enumerate().filter(|(_, o)| !o.op.is_view()) {
            for mut arg in op.args() {
                // A view takes no work.
                while let Arg::Op(a) = arg
                    && segment.ops[a].op.is_view()
                {
                    arg = segment.ops[a].args().next().unwrap_or(Arg::None);
                }
                if let Arg::Op(a) = arg
                    && turn(a) != turn(i)
                {
                    handed.insert(a);
                }
            }
        }
        handed
    }
}

/// Plan of one iteration, which is repeated for others.
struct IterationPlan {
    ops: Range<usize>,
    /// Stores of each kernel.
    kernels: Vec<Vec<usize>>,
}

impl IterationPlan {
    fn new(ops: Range<usize>, state: &State) -> IterationPlan {
        IterationPlan { ops, kernels: state.kernels.iter().map(|k| k.stores.clone()).collect() }
    }

    /// Whether another iteration has the same length, the same needed operations and the same required stores.
    fn is_like(&self, facts: &Facts<'_>, other: &Range<usize>) -> bool {
        let same = |set: &BitSet| self.ops.clone().zip(other.clone()).all(|(a, b)| set.has(a) == set.has(b));
        self.ops.len() == other.len() && same(&facts.needed) && same(&facts.required)
    }

    /// Applies the plan to another iteration; `None` if it is not legal there.
    fn repeated(&self, kernels: &mut Kernels<'_, '_>, other: &Range<usize>) -> Option<State> {
        let later = |s: &usize| s - self.ops.start + other.start;
        let stores: Vec<Vec<usize>> = self.kernels.iter().map(|k| k.iter().map(later).collect()).collect();
        let mut stored = kernels.facts.required.clone();
        stores.iter().flatten().for_each(|&s| stored.insert(s));
        kernels.state_of(&stores, &stored)
    }
}
