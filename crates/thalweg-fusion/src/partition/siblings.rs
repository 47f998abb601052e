//! Sibling products: products of one operand in one launch, such as queries, keys and values, or a gate and the values
//! it scales.
//!
//! In: the kernels of a finished plan in order of running. Out: the same, where products with one left operand and one
//! shape form a [`KernelPlan::Group`]: one launch with one last wave of tiles instead of several. Only on devices with
//! tile contractions, and for narrow floats, whose tiles a block processes one after the other.
//!
//! Always true: kernels of a group have equal depth in the plan, so none waits for another, and the result is in order
//! of running.

use super::horizontal::order;
use crate::plan::{KernelPlan, Products};
use crate::segment::{Indexed, ValueId};
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use thalweg_ir::{DType, Shape};
use thalweg_kernel::Contracts;

/// Maximum predicted time, in picoseconds, of a product that joins a group. A longer one has enough waves by itself.
const MAX_GROUPED_PS: u64 = 200_000_000;

/// Kernels in order of running, the indices of the kernels that read from each, and the predicted time of each in
/// picoseconds.
pub(super) type Run = (Vec<KernelPlan>, Vec<Vec<usize>>, Vec<u64>);

/// Groups sibling products; see the module.
pub(super) fn group_siblings(ix: &Indexed<'_>, (kernels, readers, times): Run) -> Run {
    if ix.seg.mode.contracts != Contracts::Tiles || ix.seg.mode.strict {
        return (kernels, readers, times);
    }
    let mut depth = vec![0usize; kernels.len()];
    for (k, after) in readers.iter().enumerate() {
        after.iter().for_each(|&r| depth[r] = depth[r].max(depth[k] + 1));
    }
    // Kernels of each launch, newest launch by key, and launch of each kernel.
    let mut launches: Vec<Vec<usize>> = vec![];
    let mut open: FxHashMap<Key, usize> = FxHashMap::default();
    let mut launch_of = vec![0; kernels.len()];
    for (k, kernel) in kernels.iter().enumerate() {
        let key = Key::of(ix, kernel, depth[k]).filter(|_| times[k] <= MAX_GROUPED_PS);
        let room = key
            .and_then(|key| open.get(&key).copied())
            .filter(|&l| !TUNABLES.max_siblings.reached_by(launches[l].len()));
        let launch = room.unwrap_or_else(|| {
            launches.push(vec![]);
            launches.len() - 1
        });
        key.map(|key| open.insert(key, launch));
        launches[launch].push(k);
        launch_of[k] = launch;
    }
    if launches.len() == kernels.len() {
        return (kernels, readers, times);
    }
    let order = order(&launches, &readers);
    let mut place = vec![0; launches.len()];
    order.iter().enumerate().for_each(|(at, &l)| place[l] = at);
    let mut kernels: Vec<Option<KernelPlan>> = kernels.into_iter().map(Some).collect();
    let mut made: Run = (vec![], vec![], vec![]);
    for &l in &order {
        let own = &launches[l];
        let mut parts: Vec<KernelPlan> = own.iter().map(|&k| kernels[k].take().expect("it is in one launch")).collect();
        made.0.push(if parts.len() == 1 { parts.remove(0) } else { KernelPlan::Group { parts } });
        let after: BTreeSet<usize> = own.iter().flat_map(|&k| &readers[k]).map(|&r| place[launch_of[r]]).collect();
        made.1.push(after.into_iter().collect());
        made.2.push(own.iter().map(|&k| times[k]).sum());
    }
    made
}

/// Key of a group: properties that all of its kernels share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    left: ValueId,
    shapes: [Shape; 2],
    dtype: DType,
    depth: usize,
}

impl Key {
    fn of(ix: &Indexed<'_>, kernel: &KernelPlan, depth: usize) -> Option<Key> {
        let KernelPlan::Contraction { products, .. } = kernel else { return None };
        let Products { product, inner: None, left_rows: None, rows: None } = *products else { return None };
        let dtype = ix.seg.ops[product].dtype;
        let left = ix.tensors(product).next()?.1;
        let narrow = matches!(dtype, DType::BF16 | DType::F16);
        narrow.then(|| Key { left, shapes: [ix.shape(left), ix.seg.shapes[product]], dtype, depth })
    }
}
