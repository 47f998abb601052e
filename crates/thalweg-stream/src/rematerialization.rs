//! Saved and dropped values of gradient tapes: at a cut some values that only a tape holds are written, and the others
//! are *left* (dropped), to be recomputed.
//!
//! In: a segment with its live and kept sets. Out: a [`Decision`] by [`thalweg_fusion::keep`], and for each dropped
//! value the operations that compute it ([`Recomputation`]). An operation that uses such a value records these again, in the
//! current segment, where they are planned with everything else. A read of such a value runs them alone.
//!
//! Always true: the inputs of these operations have been computed when a value gets its recipe. So recomputing a
//! dropped value never goes back beyond one segment.

use crate::DeviceRef;
use crate::index_error::outcomes;
use crate::outside::{Outside, part_on};
use crate::setting::{Setting, setting};
use crate::site::Site;
use crate::value::{LeftOver, Recomputation, Recompute, Remade, Storage, Value};
use std::sync::{Arc, Mutex};
use thalweg_fusion::{BitSet, Keep, OwnedSegment, Question, Subgraph, ValueId};
use thalweg_runtime::{Error, count};

/// Decision about saved and dropped values at a cut, reused at later cuts with the same question.
#[derive(Debug)]
pub(crate) struct Decision {
    /// Question that was decided: live results, results held by a tape alone, inputs that die here, sizes, and memory
    /// budget.
    pub live: BitSet,
    pub kept: BitSet,
    pub dying: BitSet,
    pub sizes: Box<[i64]>,
    room: Option<usize>,
    /// Decision of the planner.
    pub keep: Keep,
    /// Subgraph that recomputes the dropped values.
    subgraph: Arc<Subgraph>,
    /// Dropped values: the operation of each in the segment and in the subgraph, and the inputs that it depends on.
    left: Vec<(usize, usize, Vec<u32>)>,
}

impl Decision {
    pub(crate) fn new(question: &Question<'_>, sizes: &[i64], costs: &thalweg_fusion::Costs) -> Decision {
        let keep = thalweg_fusion::keep(question, costs);
        let (segment, live) = (question.segment, question.segment.live);
        // Ancestors of the dropped values, down to values that are written.
        let mut needed = BitSet::new(segment.ops.len());
        keep.left.iter().for_each(|i| needed.insert(i));
        for i in (0..segment.ops.len()).rev().filter(|&i| !live.has(i) && !keep.written.has(i)) {
            if needed.has(i) {
                for arg in segment.ops[i].args() {
                    if let thalweg_ir::Arg::Op(o) = arg
                        && !live.has(o)
                        && !keep.written.has(o)
                    {
                        needed.insert(o);
                    }
                }
            }
        }
        let subgraph = Subgraph::of(segment, &needed);
        let of = |i: usize| {
            let at = subgraph.place(i).expect("it is among what is needed");
            (i, at, subgraph.needed(at, |_| false).1.iter().map(|n| n as u32).collect())
        };
        let left = keep.left.iter().map(of).collect();
        Decision {
            live: live.clone(),
            kept: question.kept.clone(),
            dying: question.dying.clone(),
            sizes: sizes.into(),
            room: question.room,
            keep,
            subgraph: Arc::new(subgraph),
            left,
        }
    }

    /// Whether the decision answers the same question, with memory budget `room`.
    pub(crate) fn answers(
        &self,
        (live, kept, dying): (&BitSet, &BitSet, &BitSet),
        sizes: &[i64],
        room: Option<usize>,
    ) -> bool {
        let peak = self.keep.peak;
        let fits = match (room, self.room) {
            (None, made) => made.is_none_or(|m| peak <= m && self.keep.is_usual()),
            (Some(room), None) => peak <= room,
            // A decision for up to an eighth less budget is reused. If nothing fitted then, nothing fits into slightly
            // more.
            (Some(room), Some(made)) if peak <= made => {
                peak <= room && (made >= room - room / 8 || self.keep.is_usual())
            }
            (Some(room), Some(made)) => room <= made + made / 8,
        };
        fits && *live == self.live && *kept == self.kept && *dying == self.dying && *self.sizes == *sizes
    }

    /// Recipes of the dropped values, each with its operation's index, from `values` and `inputs` of the segment.
    pub(crate) fn recipes(
        &self,
        device: DeviceRef,
        (stream, mode): (u32, crate::Mode),
        (values, inputs): (&[Arc<Value>], &[Option<Arc<Value>>]),
        (scalars, sites): (&[u64], &[(u32, Site)]),
    ) -> Vec<(usize, Arc<dyn Recompute>)> {
        let scalars = self.subgraph.scalars.iter().map(|&s| scalars[s as usize]).collect();
        let recorded = Mutex::new((0, vec![]));
        let of_subgraph = |&(i, site): &(u32, Site)| Some((self.subgraph.place(i as usize)? as u32, site));
        let sites = sites.iter().filter_map(of_subgraph).collect();
        let left = Arc::new(LeftOver { subgraph: self.subgraph.clone(), scalars, sites, mode, recorded });
        let input = |n: u32| match self.subgraph.inputs[n as usize] {
            ValueId::Op(o) => values[o].clone(),
            ValueId::Input(i) => inputs[i].clone().expect("inputs are there before a run"),
        };
        let of = |(i, at, needs): &(usize, usize, Vec<u32>)| {
            let inputs = needs.iter().map(|&n| (n, input(n))).collect();
            let again = Recomputation { left: left.clone(), at: *at, inputs };
            (*i, Arc::new(LeftValue { device, stream, again }) as Arc<dyn Recompute>)
        };
        self.left.iter().map(of).collect()
    }
}

/// Recipe of one dropped value.
#[derive(Debug)]
struct LeftValue {
    device: DeviceRef,
    stream: u32,
    again: Recomputation,
}

impl LeftValue {
    /// Runs the recomputing operations without a stream.
    fn run(&self) -> Result<Storage, Error> {
        let Recomputation { left, at, inputs } = &self.again;
        inputs.iter().for_each(|(_, v)| v.compute());
        let scalars = left.scalars.clone();
        let whole = OwnedSegment { scalars, ..left.subgraph.segment.clone() };
        let part = Subgraph::of(whole.as_segment(), &left.subgraph.needed(*at, |_| false).0);
        let place = part.place(*at).expect("it is part of it");
        let mut live = BitSet::new(part.from.len());
        live.insert(place);
        let find = |v: &ValueId| {
            let ValueId::Input(n) = *v else { unreachable!("all operations that it needs are part of it") };
            inputs.iter().find(|(i, _)| *i as usize == n).map(|(_, v)| v.clone()).expect("its inputs are kept")
        };
        let inputs: Vec<Arc<Value>> = part.inputs.iter().map(find).collect();
        count(|c| c.values_recomputed += 1);
        let (segment, sizes) = part_on(part.segment, &inputs, &live)?;
        let of_part = |&(i, site): &(u32, Site)| part.from.binary_search(&i).ok().map(|at| (at as u32, site));
        let sites: Vec<(u32, Site)> = left.sites.iter().filter_map(of_part).collect();
        let recorded = (left.mode, self.stream);
        let outside = Outside { device: self.device, recorded, segment: segment.as_segment(), sites: &sites };
        let made = outcomes(&outside, &outside.entry(), &sizes, inputs, &live);
        made.into_iter().nth(place).flatten().expect("it was asked for")
    }
}

impl Recompute for LeftValue {
    fn make(&self, _: usize) -> Remade {
        self.run().into()
    }

    fn recomputation(&self) -> Option<&Recomputation> {
        Some(&self.again)
    }
}

const RECOMPUTING: Setting<bool> = setting!(bool, || !thalweg_runtime::environment::RECOMPUTE.is("off"));

/// Whether values that only a backward pass will read are written only where that beats recomputing them, in segments
/// of the calling thread. On unless `THALWEG_RECOMPUTE=off`, until it is set.
pub fn recomputing() -> bool {
    RECOMPUTING.get()
}

/// Sets [`recomputing`] for the calling thread and returns the old value.
pub fn set_recomputing(on: bool) -> bool {
    RECOMPUTING.set(on)
}
