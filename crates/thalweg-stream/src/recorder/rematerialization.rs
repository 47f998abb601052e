//! Values that only a tape holds, as the recorder handles them. See [`crate::rematerialization`].

use super::dense::OpHeader;
use super::{Recorder, Wanted};
use crate::calibration::planning_costs;
use crate::mode::Mode;
use crate::rematerialization::{Decision, recomputing};
use crate::site::{site, take_site};
use crate::tunable::TUNABLES;
use crate::value::{Operand, Recomputation, Recompute, Value};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thalweg_fusion::{BitSet, Question};
use thalweg_ir::Arg;
use thalweg_runtime::count;

impl Recorder {
    /// Records an operation some of whose arguments were dropped by their segments, after recomputing these.
    #[cold]
    pub(super) fn record_from_left(&mut self, header: OpHeader<'_>, args: &[Operand<'_>]) -> Arc<Value> {
        // The call site belongs to this operation, not to the operations that recompute its arguments.
        let own = take_site();
        // Recomputed arguments, held until the operation is recorded, so that a cut in between writes them.
        let made: Vec<Option<Arc<Value>>> = args
            .iter()
            .map(|arg| match arg {
                Operand::Value(v) if !v.is_resolved() && v.epoch != self.epoch => self.recompute(header.mode, v),
                _ => None,
            })
            .collect();
        let args: Vec<Operand<'_>> = args
            .iter()
            .zip(&made)
            .map(|(arg, made)| match made {
                Some(v) => Operand::Value(v),
                None => *arg,
            })
            .collect();
        own.into_iter().for_each(site);
        self.record_local(header, &args)
    }

    /// Records the recomputation, in this segment, of a value that its segment dropped; returns the new value. If there
    /// is no recipe for it in this mode, resolves the value instead and returns `None`.
    fn recompute(&mut self, mode: Mode, value: &Arc<Value>) -> Option<Arc<Value>> {
        let recipe = value.recompute_recipe().filter(|r| r.recomputation().is_some_and(|a| a.left.mode == mode));
        let Some(recipe) = recipe else {
            value.compute();
            if !value.is_resolved() {
                value.resolve(value.outcome().map_err(|e| e.poisoned()));
            }
            return None;
        };
        let again = recipe.recomputation().expect("it was asked for");
        Some(self.record_recomputation(mode, again))
    }

    /// Records the operations that recompute a dropped value, except those recorded in this segment already.
    fn record_recomputation(&mut self, mode: Mode, again: &Recomputation) -> Arc<Value> {
        let Recomputation { left, at, inputs } = again;
        let subgraph = &left.subgraph;
        let epoch = self.epoch;
        let lock = || left.recorded.lock().unwrap_or_else(|e| e.into_inner());
        let (of, mut places) = std::mem::take(&mut *lock());
        if of != epoch {
            places.clear();
            places.resize(subgraph.from.len(), None);
        }
        if let Some(place) = places[*at] {
            let recorded = self.values[place as usize].clone();
            *lock() = (epoch, places);
            return recorded;
        }
        let (needed, _) = subgraph.needed(*at, |o| places[o].is_some());
        // Values read by the operations are held, since a cut may come in between. A map, since they are few of the
        // segment's operations, and this runs once for each of the dropped values.
        let mut made: FxHashMap<usize, Arc<Value>> = FxHashMap::default();
        for i in needed.iter() {
            for o in subgraph.segment.ops[i].args().filter_map(|a| if let Arg::Op(o) = a { Some(o) } else { None }) {
                if let Some(place) = places[o] {
                    made.entry(o).or_insert_with(|| self.values[place as usize].clone());
                }
            }
        }
        for i in needed.iter() {
            let rel = subgraph.segment.ops[i];
            let mut scalars = left.scalars[subgraph.scalars_at[i] as usize..].iter();
            let args: Vec<Operand<'_>> = rel
                .args()
                .map(|arg| match arg {
                    Arg::Op(o) => Operand::Value(&made[&o]),
                    Arg::Input(n) => {
                        let input = inputs.binary_search_by_key(&(n as u32), |i| i.0);
                        Operand::Value(&inputs[input.expect("its inputs are kept")].1)
                    }
                    _ => Operand::Scalar(*scalars.next().expect("there is one for each")),
                })
                .collect();
            left.sites_of(i).for_each(site);
            let ints = &subgraph.segment.ints[subgraph.ints[i] as usize..subgraph.ints[i + 1] as usize];
            let (shape, attr) = (subgraph.segment.shapes[i], rel.attr);
            let header = OpHeader { mode, op: rel.op, dtype: rel.dtype, shape, attr, ints };
            let value = self.record_local(header, &args);
            if value.epoch == self.epoch {
                self.again.push(value.index);
                places[i] = Some(value.index);
            }
            made.insert(i, value);
        }
        count(|c| c.operations_recomputed += needed.count() as u64);
        if self.epoch == epoch {
            *lock() = (epoch, places);
        }
        made.remove(at).expect("it was made")
    }

    /// Decides which of the values that only a tape holds are written; these become live. Returns the others with their
    /// recipes.
    pub(super) fn decide(&mut self, wanted: Wanted) -> Vec<(usize, Arc<dyn Recompute>)> {
        if self.kept.count() == 0 {
            return vec![];
        }
        if !self.mode.fused || self.mode.reference || !recomputing() {
            self.live.union(&self.kept);
            return vec![];
        }
        let mut dying = BitSet::new(self.inputs.len());
        for (i, v) in self.inputs.iter().enumerate() {
            if v.as_ref().is_some_and(|v| Arc::strong_count(v) == 1) {
                dying.insert(i);
            }
        }
        let room = self.memory_budget(wanted);
        let key = (&self.live, &self.kept, &dying);
        let at_hand = self.recognizer.decisions().iter().find(|d| d.answers(key, &self.sizes, room)).cloned();
        let decision = at_hand.unwrap_or_else(|| self.decided(&dying, room));
        let values = (self.values.as_slice(), self.inputs.as_slice());
        let left = decision.recipes(self.device, (self.stream, self.mode), values, (&self.scalars, &self.sites));
        self.live.union(&decision.keep.written);
        count(|c| {
            c.values_saved += decision.keep.written.count() as u64;
            c.saved_bytes += decision.keep.bytes as u64;
            c.values_dropped += decision.keep.left.count() as u64;
        });
        self.decision = Some(decision);
        left
    }

    #[cold]
    fn decided(&mut self, dying: &BitSet, room: Option<usize>) -> Arc<Decision> {
        let mut again = BitSet::new(self.ops.len());
        self.again.iter().for_each(|&i| again.insert(i as usize));
        self.planned.clone_from(&self.live);
        let laid = self.laid_out();
        let question = Question { segment: self.segment(&laid), kept: &self.kept, dying, again: &again, room };
        let decision = Arc::new(Decision::new(&question, &self.sizes, &planning_costs(self.device, self.mode)));
        let decisions = self.recognizer.decisions();
        if TUNABLES.max_decisions.reached_by(decisions.len()) {
            decisions.remove(0);
        }
        decisions.push(decision.clone());
        decision
    }

    /// Budget in bytes for saved values and temporaries of the backward pass, if the device has a memory limit: free
    /// memory without the live results, less what one kernel of that pass may need. A segment cut for its length gets
    /// half: more of the forward pass follows.
    fn memory_budget(&self, wanted: Wanted) -> Option<usize> {
        let memory = self.device.device().memory();
        let bytes = |v: &Value| v.shape().numel() * v.dtype().size();
        let live: usize = self.live.iter().map(|i| bytes(&self.values[i])).sum();
        let largest = self.kept.iter().map(|i| bytes(&self.values[i])).max().unwrap_or(0);
        let room = memory.limit?.saturating_sub(memory.in_use + live + 2 * largest);
        Some(if wanted == Wanted::Nothing { room / 2 } else { room })
    }
}
