//! Serialized plans: a plan found once need not be searched for again.
//!
//! In: a plan, and later its bytes with the segment. Out: the plan again. The bytes hold only the moves of a rewrite
//! and the stores of each kernel, as JSON. The planner derives the rest: kernels, their order, groups, outputs.
//!
//! Always true: any bytes give a legal plan of the segment or none. They name stored operations, and a set of stores
//! becomes a kernel only through [`Kernels::get`], as in the search. So bytes from anywhere can make a segment slower,
//! but not wrong.

use super::Planned;
use super::facts::Facts;
use super::kernels::Kernels;
use super::search::Effort;
use crate::class::SegmentClass;
use crate::cost::Costs;
use crate::plan::Plan;
use crate::rewrite::Rewrite;
use crate::scalars::ScalarClasses;
use crate::segment::{BitSet, Segment};
use crate::write::rules::is_constant;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// Version of the planner, a hash of its sources. Another version may find other plans, and may interpret constants
/// differently.
pub const PLANNER: &str = env!("THALWEG_PLANNER");

/// Serialized form of a plan.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// Whether the search completed.
    complete: bool,
    /// Rewrite of the segment; absent if empty.
    #[serde(default, skip_serializing_if = "Rewrite::is_empty")]
    rewrite: Rewrite,
    /// Operations that each kernel stores, ascending.
    kernels: Vec<Vec<u32>>,
}

impl Planned {
    /// Serializes the plan.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.plan.kernels.iter().flat_map(|k| k.parts());
        let stores = |mut stores: Vec<u32>| {
            stores.sort_unstable();
            stores
        };
        let kernels = parts.map(|part| stores(part.writes().map(|s| s as u32).collect())).collect();
        let (complete, rewrite) = (self.complete, self.plan.rewrite.clone());
        serde_json::to_vec(&Stored { complete, rewrite, kernels }).expect("plain numbers become JSON")
    }

    /// Plan that [`Planned::to_bytes`] wrote for this segment; `None` if the bytes are not a legal plan of it.
    pub fn from_bytes(bytes: &[u8], segment: Segment<'_>, costs: &Costs) -> Option<Planned> {
        let stored: Stored = serde_json::from_slice(bytes).ok()?;
        let rewritten = match stored.rewrite.is_empty() {
            true => None,
            false => Some(stored.rewrite.apply(&segment)?),
        };
        let facts = Facts::new(rewritten.as_ref().map_or(segment, |r| r.segment(&segment)));
        let kernels: Vec<Vec<usize>> = stored.kernels.iter().map(|k| k.iter().map(|&s| s as usize).collect()).collect();
        let all = stores(&facts, &kernels)?;
        let mut made = Kernels::new(&facts, costs);
        let state = made.legal_state_of(&kernels, &all)?;
        let plan = Plan { rewrite: stored.rewrite, ..facts.finish(&state) };
        let (time, visits, parts) = (state.time, made.visits, made.parts);
        Some(Planned { plan, time, complete: stored.complete, visits, parts })
    }
}

/// Set of all stores of the kernels. `None` unless no kernel is empty, nothing is stored twice, everything required is
/// stored, and everything else may be stored.
fn stores(facts: &Facts<'_>, kernels: &[Vec<usize>]) -> Option<BitSet> {
    let seg = facts.ix.seg;
    let mut all = BitSet::new(seg.ops.len());
    for kernel in kernels {
        if kernel.is_empty() || !kernel.is_sorted() || !seg.mode.fused && kernel.len() > 1 {
            return None;
        }
        for &s in kernel {
            let op = seg.ops.get(s)?.op;
            let choice = seg.mode.fused && facts.needed.has(s) && !op.is_view() && !is_constant(op);
            if all.has(s) || !facts.required.has(s) && !choice {
                return None;
            }
            all.insert(s);
        }
    }
    facts.required.iter().all(|s| all.has(s)).then_some(all)
}

/// Key of a plan: everything that it depends on, as bytes. Equal bytes mean equal plans. Sizes are included, so a plan
/// that is read is the one that the search would have found, and results do not depend on what other processes did
/// before.
pub fn question(segment: &Segment<'_>, costs: &Costs, effort: Effort) -> Vec<u8> {
    let mut bytes = Bytes(PLANNER.as_bytes().to_vec());
    (costs.id(), effort, segment.mode).hash(&mut bytes);
    (segment.ops, segment.live, segment.shapes, segment.ints, segment.inputs).hash(&mut bytes);
    ScalarClasses::new(segment.scalars).hash(&mut bytes);
    bytes.0
}

/// Key without sizes, for a plan that all sizes of a class share.
pub fn class_question(segment: &Segment<'_>, class: &SegmentClass, costs: &Costs, effort: Effort) -> Vec<u8> {
    let mut bytes = Bytes(PLANNER.as_bytes().to_vec());
    (costs.id(), effort, segment.mode).hash(&mut bytes);
    (segment.ops, segment.live, class).hash(&mut bytes);
    ScalarClasses::new(segment.scalars).hash(&mut bytes);
    bytes.0
}

/// Hasher that collects the bytes instead of hashing them.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("the bytes themselves are asked for")
    }
}
