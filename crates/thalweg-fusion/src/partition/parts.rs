//! Parts of plans that were found before, in whatever segment. ../../../../docs/planner.md ("Near misses") has the idea.
//!
//! In: components, each with the partition that a search has found for it. Out: that partition for a component that looks
//! alike; for one that has grown or changed, the partitions that its search may begin from.
//!
//! Always true: what comes out are sets of stores, of operations that the component has. Whether they are kernels is asked
//! like of any others.

use super::canonical::magnitude;
use super::facts::Facts;
use crate::cost::Costs;
use crate::segment::{Mode, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::is_constant;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_ir::{Arg, DType, InputKind, RelArg, RelOp, View};

/// Operations of all parts that are kept; beyond, it starts over.
const MOST: usize = 1 << 17;
const SHARE_NEW: usize = 3;
/// A part is found by its first operations, whatever follows, at every so many of them.
const STRETCH: usize = 16;
/// How far the footprints of two segments may be apart for a plan of the one to be as good for the other: so many times
/// twice as large.
const DOUBLINGS: u32 = 2;

/// Parts of plans that were found before: of one device, for one setting of the search's effort.
#[derive(Default)]
pub struct Parts(Mutex<Known>);

/// Parts as a search has them at hand.
#[derive(Clone, Copy)]
pub struct AtHand<'p> {
    /// The parts.
    pub parts: &'p Parts,
    /// Where a search that was ended is gone on with: asked now and then; it may wait, and says whether to go on.
    pub further: Option<&'p dyn Fn() -> bool>,
}

#[derive(Default)]
struct Known {
    /// What things take by all that is known.
    costs: Option<Costs>,
    /// By what they look like, in the canonical order and as recorded.
    alike: FxHashMap<u64, Vec<Arc<Part>>>,
    /// By their operations as recorded, by these without the last one, and by every [`STRETCH`] of them.
    near: FxHashMap<u64, Vec<Arc<Part>>>,
    /// Operations of all of them.
    ops: usize,
}

/// How far the search for a partition came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// To its end.
    Ended,
    /// Its budget ended.
    Stopped,
    /// It began from other partitions, and went to the end from there.
    Grown,
}

impl Standing {
    /// Of a search that began from nothing or where it had stopped, and came to its end or not.
    pub fn of(complete: bool) -> Standing {
        if complete { Standing::Ended } else { Standing::Stopped }
    }
}

/// A component with its partition.
pub(super) struct Part {
    alike: Look,
    recorded: Look,
    /// For each operation, as recorded, its place in the canonical order.
    canonical: Vec<u32>,
    /// What each kernel stores, by place as recorded.
    kernels: Vec<Vec<u32>>,
    /// About how much its segment reads and writes.
    footprint: u32,
    pub standing: Standing,
    /// Found quickly: nothing that anybody else begins with.
    pub quick: bool,
}

/// What a component looks like: its operations in some order with their arguments by place in it, which of them must be
/// stored, and about how large they are; where inputs lie that are not row-major; and how it is planned.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Look {
    ops: Vec<(RelOp, bool, u32)>,
    views: Vec<(DType, Option<View>)>,
    mode: Mode,
}

/// About how much a segment reads and writes.
fn doublings(facts: &Facts<'_>) -> u32 {
    facts.footprint.checked_ilog2().unwrap_or(0)
}

impl Look {
    /// Of these operations, in this order.
    pub fn of(facts: &Facts<'_>, ops: &[usize]) -> Look {
        let seg = facts.ix.seg;
        let place: FxHashMap<usize, usize> = ops.iter().enumerate().map(|(at, &i)| (i, at)).collect();
        let mut inputs: Vec<ValueId> = vec![];
        let mut number: FxHashMap<ValueId, usize> = FxHashMap::default();
        let look = ops.iter().map(|&i| {
            let mut op = seg.ops[i];
            for (to, arg) in op.args.iter_mut().zip(seg.ops[i].args()) {
                let mut input = |v: ValueId| {
                    let at = *number.entry(v).or_insert_with(|| {
                        inputs.push(v);
                        inputs.len() - 1
                    });
                    let contiguous = match v {
                        ValueId::Input(n) => seg.inputs[n].1.is_contiguous(),
                        ValueId::Op(_) => true,
                    };
                    let (dtype, rank) = (facts.ix.dtype(v), facts.ix.shape(v).rank());
                    RelArg::input(at, InputKind { dtype, rank, contiguous })
                };
                *to = match arg {
                    Arg::Op(a) if place.contains_key(&a) => RelArg::op(place[&a]),
                    // A constant belongs to no component; what it is made of says enough.
                    Arg::Op(a) if is_constant(seg.ops[a].op) => RelArg::SCALAR,
                    // What another turn of a loop hands over is in memory, as inputs are.
                    Arg::Op(a) => input(ValueId::Op(a)),
                    Arg::Input(a) => input(ValueId::Input(a)),
                    Arg::Scalar => RelArg::SCALAR,
                    Arg::None => RelArg::NONE,
                };
            }
            (op, facts.required.has(i), magnitude(seg.shapes[i]))
        });
        let ops = look.collect();
        // Where an input lies matters only if it is not row-major.
        let strided = |v: &ValueId| match v {
            ValueId::Input(n) => Some(seg.inputs[*n].1).filter(|v| !v.is_contiguous()),
            ValueId::Op(_) => None,
        };
        let views = inputs.iter().map(|v| (facts.ix.dtype(*v), strided(v))).collect();
        Look { ops, views, mode: seg.mode }
    }

    fn hash(&self) -> u64 {
        let mut h = FxHasher::default();
        Hash::hash(self, &mut h);
        h.finish()
    }

    /// Of each first stretch of the operations a number, whatever has to be stored and whatever their sizes are.
    fn stretches(&self) -> Vec<u64> {
        let mut h = FxHasher::default();
        self.mode.hash(&mut h);
        let after = |(op, _, _): &(RelOp, bool, u32)| {
            op.hash(&mut h);
            h.finish()
        };
        self.ops.iter().map(after).collect()
    }

    /// Whether these operations begin with the other's first ones.
    fn begins_with(&self, other: &Look, first: usize) -> bool {
        self.mode == other.mode
            && first <= self.ops.len().min(other.ops.len())
            && self.ops.iter().zip(&other.ops).take(first).all(|(a, b)| a.0 == b.0)
    }
}

impl Part {
    /// What each kernel stores, as operations of a component that looks alike, these in the canonical order.
    fn stores(&self, ranked: &[usize]) -> Vec<Vec<usize>> {
        self.with(|at| Some(ranked[self.canonical[at] as usize]))
    }

    /// The same for operations that were recorded as its own were, as far as they go.
    fn stores_recorded(&self, ops: &[usize]) -> Vec<Vec<usize>> {
        self.with(|at| ops.get(at).copied())
    }

    fn with(&self, op: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
        let stores = |places: &Vec<u32>| {
            let mut stores: Vec<usize> = places.iter().filter_map(|&at| op(at as usize)).collect();
            stores.sort_unstable();
            stores
        };
        self.kernels.iter().map(stores).filter(|s| !s.is_empty()).collect()
    }

    /// Whether its search came to the end, for sizes like those; where somebody waits, what was done then is enough.
    fn is_like(&self, look: &Look, long: usize, quickly: bool) -> bool {
        let sizes = self.recorded.ops.iter().zip(&look.ops).take(long).all(|(a, b)| a.2 == b.2);
        sizes && (quickly || self.standing != Standing::Stopped && !self.quick)
    }
}

/// What the search for a component may begin from.
pub(super) struct Begun {
    /// What each kernel of the partitions that are known stores.
    pub kernels: Vec<Vec<usize>>,
    /// Operations that no partition knows.
    pub new: Vec<usize>,
    /// Whether what is known was searched for to the end, for sizes like these: moves between its kernels gain nothing.
    pub converged: bool,
}

impl Parts {
    /// None yet.
    pub fn new() -> Parts {
        Parts::default()
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        *self.known() = Known::default();
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        let known = self.known();
        let mut all: Vec<*const Part> = known.alike.values().flatten().map(Arc::as_ptr).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What a panic leaves are maps of what is known.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Says what things take: what was found where they took something else is forgotten.
    pub(super) fn by(&self, costs: &Costs) {
        let mut known = self.known();
        if known.costs.as_ref() != Some(costs) {
            *known = Known { costs: Some(costs.clone()), ..Known::default() };
        }
    }

    /// The part that looks like these operations, of a segment about as large, and what its kernels store of them: as they
    /// were recorded, or in the canonical order (whose ties are broken by all of a segment). `quickly`: one that was found
    /// quickly will do.
    pub(super) fn alike(
        &self,
        facts: &Facts<'_>,
        (ops, ranked): (&[usize], &[usize]),
        (recorded, look): (&Look, &Look),
        quickly: bool,
    ) -> Option<(Arc<Part>, Vec<Vec<usize>>)> {
        let known = self.known();
        let apart = |p: &&Arc<Part>| p.footprint.abs_diff(doublings(facts));
        let find = |look: &Look, of: fn(&Part) -> &Look| {
            let fits = |p: &&Arc<Part>| (quickly || !p.quick) && of(p) == look && apart(p) <= DOUBLINGS;
            known.alike.get(&look.hash())?.iter().filter(fits).min_by_key(apart).cloned()
        };
        let as_recorded = find(recorded, |p| &p.recorded).map(|p| (p.stores_recorded(ops), p));
        let found = as_recorded.or_else(|| find(look, |p| &p.alike).map(|p| (p.stores(ranked), p)));
        found.map(|(stores, part)| (part, stores))
    }

    /// What the search for these operations, ascending, may begin from: parts that have all but the last few of them.
    /// `split` parts operations that share nothing.
    pub(super) fn near(
        &self,
        facts: &Facts<'_>,
        (ops, whole): (&[usize], &Look),
        quickly: bool,
        split: impl Fn(&[usize]) -> Vec<Vec<usize>>,
    ) -> Option<Begun> {
        if ops.is_empty() || self.known().near.is_empty() {
            return None;
        }
        let stretches = whole.stretches();
        let new_operations = TUNABLES.max_new_operations.get();
        let least = ops.len() - (ops.len() / SHARE_NEW).max(new_operations).min(ops.len() - 1);
        let long = (least..=ops.len()).rev();
        for long in long.filter(|&long| long + new_operations >= ops.len() || long.is_multiple_of(STRETCH)) {
            let (old, new) = ops.split_at(long);
            let begun = |kernels, converged| Begun { kernels, new: new.to_vec(), converged };
            if let Some(part) = self.of_stretch(whole, stretches[long - 1], long, quickly) {
                return Some(begun(part.stores_recorded(old), part.is_like(whole, long, quickly)));
            }
            if new.is_empty() || !TUNABLES.max_new_operations.admits(new.len()) {
                continue;
            }
            let apart = split(old);
            if apart.len() < 2 {
                continue;
            }
            let (mut kernels, mut converged) = (vec![], true);
            let all = apart.iter().all(|ops| {
                let look = Look::of(facts, ops);
                let last = look.stretches()[ops.len() - 1];
                let Some(part) = self.of_stretch(&look, last, ops.len(), quickly) else { return false };
                // Of one that goes on, something else may follow.
                if part.recorded.ops.len() > ops.len() + 1 {
                    return false;
                }
                kernels.extend(part.stores_recorded(ops));
                converged &= part.is_like(&look, ops.len(), quickly);
                true
            });
            if all {
                return Some(begun(kernels, converged));
            }
        }
        None
    }

    /// Of the parts with so many first operations of these, the one that differs least in what has to be stored.
    fn of_stretch(&self, look: &Look, hash: u64, long: usize, quickly: bool) -> Option<Arc<Part>> {
        let known = self.known();
        let fits = |p: &&Arc<Part>| (quickly || !p.quick) && look.begins_with(&p.recorded, long);
        let other =
            |p: &&Arc<Part>| p.recorded.ops.iter().zip(&look.ops).take(long).filter(|(a, b)| a.1 != b.1).count();
        known.near.get(&hash)?.iter().rev().filter(fits).min_by_key(other).cloned()
    }

    /// Keeps what was found for operations, ascending, which the canonical order has as `ranked`: what each kernel stores.
    pub(super) fn keep(
        &self,
        facts: &Facts<'_>,
        (ops, ranked): (&[usize], &[usize]),
        (recorded, alike): (Look, Look),
        stores: &[Vec<usize>],
        (standing, quick): (Standing, bool),
    ) {
        let place: FxHashMap<usize, u32> = ops.iter().enumerate().map(|(at, &i)| (i, at as u32)).collect();
        let mut canonical = vec![0; ops.len()];
        ranked.iter().enumerate().for_each(|(at, i)| canonical[place[i] as usize] = at as u32);
        let kernels = stores.iter().map(|k| k.iter().map(|s| place[s]).collect()).collect();
        let (hashes, stretches) = ([alike.hash(), recorded.hash()], recorded.stretches());
        let footprint = doublings(facts);
        let part = Arc::new(Part { alike, recorded, canonical, kernels, footprint, standing, quick });
        let mut known = self.known();
        let same = |p: &Arc<Part>| p.alike == part.alike && p.footprint == part.footprint;
        match known.alike.get(&hashes[0]).and_then(|all| all.iter().find(|p| same(p))) {
            // What took long is not lost to what did not.
            Some(before) if quick && !before.quick => return,
            Some(_) => {}
            None => known.ops += ops.len(),
        }
        if known.ops > MOST {
            *known = Known { costs: known.costs.take(), ops: ops.len(), ..Known::default() };
        }
        for hash in hashes {
            let all = known.alike.entry(hash).or_default();
            all.retain(|p| !same(p));
            all.push(part.clone());
        }
        let of_stretch = |&(at, _): &(usize, &u64)| at + 2 >= ops.len() || (at + 1).is_multiple_of(STRETCH);
        for (_, &hash) in stretches.iter().enumerate().filter(of_stretch) {
            let near = known.near.entry(hash).or_default();
            near.retain(|p| !same(p));
            if TUNABLES.max_part_variants.reached_by(near.len()) {
                near.remove(0);
            }
            near.push(part.clone());
        }
    }
}
