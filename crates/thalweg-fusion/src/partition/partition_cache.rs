//! Known plans of components, from any segment. ../../../../docs/planner.md ("Partition cache") has the idea.
//!
//! In: components, each with the partition that a search found for it. Out: that partition, for an equivalent
//! component; for a component that has grown or changed, partitions that its search may start from.
//!
//! Always true: results are sets of stores of operations that the component has. Whether they are legal kernels is
//! checked as for any others.

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

/// Maximum number of operations of all cached components, beyond which the cache is cleared.
const MAX_CACHED_OPS: usize = 1 << 17;
const NEW_OPS_DIVISOR: usize = 3;
/// Interval, in operations, of the prefixes by which a component is indexed. A component is found by its first
/// operations, whatever follows.
const PREFIX_STEP: usize = 16;
/// Maximum difference of the footprints of two segments, in doublings, at which a plan of one counts as good for the
/// other.
const DOUBLINGS: u32 = 2;

/// Cache of known plans of components: for one device and one search effort.
#[derive(Default)]
pub struct PartitionCache(Mutex<CachedPartitions>);

/// Known plans that a search may use.
#[derive(Clone, Copy)]
pub struct AvailablePlans<'p> {
    /// Cache of known plans.
    pub parts: &'p PartitionCache,
    /// Callback of a continued search, called now and then. It may block, and returns whether to go on. `None` for a
    /// first search.
    pub further: Option<&'p dyn Fn() -> bool>,
}

#[derive(Default)]
struct CachedPartitions {
    /// Cost constants that all entries were found with; `None` before the first search.
    costs: Option<Costs>,
    /// Entries by the hash of their form, in canonical order and as recorded.
    alike: FxHashMap<u64, Vec<Arc<PartitionComponent>>>,
    /// Entries by the hash of their operations as recorded, of these without the last one, and of every prefix of a
    /// multiple of [`PREFIX_STEP`] operations.
    near: FxHashMap<u64, Vec<Arc<PartitionComponent>>>,
    /// Number of operations of all entries.
    ops: usize,
}

/// Extent of a component's search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Search from scratch, completed.
    Ended,
    /// Search ended by its budget.
    Stopped,
    /// Search that started from other partitions, completed from there.
    Grown,
}

impl Standing {
    /// Extent of a search from scratch, or of a continued one, given whether it completed within its budget.
    pub fn of(complete: bool) -> Standing {
        if complete { Standing::Ended } else { Standing::Stopped }
    }
}

/// Cached component with its partition.
pub(super) struct PartitionComponent {
    alike: Look,
    recorded: Look,
    /// Canonical rank of each operation, in the order of recording.
    canonical: Vec<u32>,
    /// Stores of each kernel, by index in the order of recording.
    kernels: Vec<Vec<u32>>,
    /// Footprint of the component's segment, as a base-2 logarithm.
    footprint: u32,
    pub standing: Standing,
    /// Whether the partition was found by a quick search; it is then no starting point for other searches.
    pub quick: bool,
}

/// Form of a component, used as its key: operations in some order with arguments by index, required stores, approximate
/// sizes, layouts of inputs that are not row-major, and the mode.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Look {
    ops: Vec<(RelOp, bool, u32)>,
    views: Vec<(DType, Option<View>)>,
    mode: Mode,
}

/// Base-2 logarithm of a segment's footprint.
fn doublings(facts: &Facts<'_>) -> u32 {
    facts.footprint.checked_ilog2().unwrap_or(0)
}

impl Look {
    /// Form of the operations `ops`, in this order.
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
                    // Constants belong to no component and are identified by their use.
                    Arg::Op(a) if is_constant(seg.ops[a].op) => RelArg::SCALAR,
                    // Results of another iteration of a loop are in memory, like inputs.
                    Arg::Op(a) => input(ValueId::Op(a)),
                    Arg::Input(a) => input(ValueId::Input(a)),
                    Arg::Scalar => RelArg::SCALAR,
                    Arg::None => RelArg::NONE,
                };
            }
            (op, facts.required.has(i), magnitude(seg.shapes[i]))
        });
        let ops = look.collect();
        // The layout of an input matters only if it is not row-major.
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

    /// Hash of each prefix of the operations. Required stores and sizes are not hashed.
    fn prefix_hashes(&self) -> Vec<u64> {
        let mut h = FxHasher::default();
        self.mode.hash(&mut h);
        let after = |(op, _, _): &(RelOp, bool, u32)| {
            op.hash(&mut h);
            h.finish()
        };
        self.ops.iter().map(after).collect()
    }

    /// Whether the first `first` operations are equal to those of `other`.
    fn begins_with(&self, other: &Look, first: usize) -> bool {
        self.mode == other.mode
            && first <= self.ops.len().min(other.ops.len())
            && self.ops.iter().zip(&other.ops).take(first).all(|(a, b)| a.0 == b.0)
    }
}

impl PartitionComponent {
    /// Stores of each kernel, mapped to an equivalent component given in canonical order.
    fn stores(&self, ranked: &[usize]) -> Vec<Vec<usize>> {
        self.with(|at| Some(ranked[self.canonical[at] as usize]))
    }

    /// Stores of each kernel, mapped to operations recorded in the same order, as far as these go.
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

    /// Whether the search of this partition completed for sizes like these; with `quickly`, true for any.
    fn is_like(&self, look: &Look, long: usize, quickly: bool) -> bool {
        let sizes = self.recorded.ops.iter().zip(&look.ops).take(long).all(|(a, b)| a.2 == b.2);
        sizes && (quickly || self.standing != Standing::Stopped && !self.quick)
    }
}

/// Starting point for an incremental search of a component.
pub(super) struct Begun {
    /// Stores of each kernel of the known partitions.
    pub kernels: Vec<Vec<usize>>,
    /// Operations that no partition contains.
    pub new: Vec<usize>,
    /// Whether the known part was fully searched for sizes like these. Moves between its kernels then gain nothing.
    pub converged: bool,
}

impl PartitionCache {
    /// Creates an empty cache.
    pub fn new() -> PartitionCache {
        PartitionCache::default()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        *self.known() = CachedPartitions::default();
    }

    /// Number of known components.
    pub fn count(&self) -> usize {
        let known = self.known();
        let mut all: Vec<*const PartitionComponent> = known.alike.values().flatten().map(Arc::as_ptr).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    fn known(&self) -> MutexGuard<'_, CachedPartitions> {
        // A panic leaves valid maps.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets the cost constants, and forgets entries that were found with other constants.
    pub(super) fn by(&self, costs: &Costs) {
        let mut known = self.known();
        if known.costs.as_ref() != Some(costs) {
            *known = CachedPartitions { costs: Some(costs.clone()), ..CachedPartitions::default() };
        }
    }

    /// Known component equivalent to these operations, from a segment of similar size, and the stores of its kernels.
    /// Operations are compared as recorded, or in the canonical order (whose ties are broken by the whole segment).
    /// `quickly` accepts results of quick searches.
    pub(super) fn alike(
        &self,
        facts: &Facts<'_>,
        (ops, ranked): (&[usize], &[usize]),
        (recorded, look): (&Look, &Look),
        quickly: bool,
    ) -> Option<(Arc<PartitionComponent>, Vec<Vec<usize>>)> {
        let known = self.known();
        let apart = |p: &&Arc<PartitionComponent>| p.footprint.abs_diff(doublings(facts));
        let find = |look: &Look, of: fn(&PartitionComponent) -> &Look| {
            let fits = |p: &&Arc<PartitionComponent>| (quickly || !p.quick) && of(p) == look && apart(p) <= DOUBLINGS;
            known.alike.get(&look.hash())?.iter().filter(fits).min_by_key(apart).cloned()
        };
        let as_recorded = find(recorded, |p| &p.recorded).map(|p| (p.stores_recorded(ops), p));
        let found = as_recorded.or_else(|| find(look, |p| &p.alike).map(|p| (p.stores(ranked), p)));
        found.map(|(stores, part)| (part, stores))
    }

    /// Starting point for the search of these operations, ascending: known components that contain all but the last few
    /// of them. `split` divides operations into components.
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
        let prefix_hashes = whole.prefix_hashes();
        let new_operations = TUNABLES.max_new_operations.get();
        let least = ops.len() - (ops.len() / NEW_OPS_DIVISOR).max(new_operations).min(ops.len() - 1);
        let long = (least..=ops.len()).rev();
        for long in long.filter(|&long| long + new_operations >= ops.len() || long.is_multiple_of(PREFIX_STEP)) {
            let (old, new) = ops.split_at(long);
            let begun = |kernels, converged| Begun { kernels, new: new.to_vec(), converged };
            if let Some(part) = self.with_prefix(whole, prefix_hashes[long - 1], long, quickly) {
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
                let last = look.prefix_hashes()[ops.len() - 1];
                let Some(part) = self.with_prefix(&look, last, ops.len(), quickly) else { return false };
                // If the known component goes on, other operations may follow.
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

    /// Among known components with that prefix, the one whose required stores differ least.
    fn with_prefix(&self, look: &Look, hash: u64, long: usize, quickly: bool) -> Option<Arc<PartitionComponent>> {
        let known = self.known();
        let fits = |p: &&Arc<PartitionComponent>| (quickly || !p.quick) && look.begins_with(&p.recorded, long);
        let other = |p: &&Arc<PartitionComponent>| {
            p.recorded.ops.iter().zip(&look.ops).take(long).filter(|(a, b)| a.1 != b.1).count()
        };
        known.near.get(&hash)?.iter().rev().filter(fits).min_by_key(other).cloned()
    }

    /// Saves the stores of each kernel found for operations, ascending; `ranked` is their canonical order. A quick
    /// result does not replace a thorough one.
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
        let (hashes, prefix_hashes) = ([alike.hash(), recorded.hash()], recorded.prefix_hashes());
        let footprint = doublings(facts);
        let part = Arc::new(PartitionComponent { alike, recorded, canonical, kernels, footprint, standing, quick });
        let mut known = self.known();
        let same = |p: &Arc<PartitionComponent>| p.alike == part.alike && p.footprint == part.footprint;
        match known.alike.get(&hashes[0]).and_then(|all| all.iter().find(|p| same(p))) {
            // A quick result does not replace a thorough one.
            Some(before) if quick && !before.quick => return,
            Some(_) => {}
            None => known.ops += ops.len(),
        }
        if known.ops > MAX_CACHED_OPS {
            *known = CachedPartitions { costs: known.costs.take(), ops: ops.len(), ..CachedPartitions::default() };
        }
        for hash in hashes {
            let all = known.alike.entry(hash).or_default();
            all.retain(|p| !same(p));
            all.push(part.clone());
        }
        let of_prefix = |&(at, _): &(usize, &u64)| at + 2 >= ops.len() || (at + 1).is_multiple_of(PREFIX_STEP);
        for (_, &hash) in prefix_hashes.iter().enumerate().filter(of_prefix) {
            let near = known.near.entry(hash).or_default();
            near.retain(|p| !same(p));
            if TUNABLES.max_part_variants.reached_by(near.len()) {
                near.remove(0);
            }
            near.push(part.clone());
        }
    }
}
