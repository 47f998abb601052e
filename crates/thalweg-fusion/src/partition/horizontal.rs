//! Horizontal fusion: independent short kernels of a finished plan, grouped into one launch.
//!
//! In: the kernels in order of running, and the kernels that read from each. Out: the same kernels, some as
//! [`KernelPlan::Group`], in an order in which each still runs after those it reads from. It does not depend on how the
//! partition was found.
//!
//! Kernels get *levels*. Kernels of one level do not depend on each other, so grouping any of them keeps the graph
//! acyclic. A kernel near the end of the plan gets the latest level, one near its beginning the earliest: parameter
//! updates are grouped at the end, whenever their gradients are known, and tensor initializations at the beginning.
//! Linear in the kernels and their reads.
//!
//! **What pays.** A launch costs the stream about 0.6 µs on one thread; one that wakes threads 7 µs more, and at its
//! end they wait for the last. A member of a group costs 0.1 µs. So a group takes maps of up to half a millisecond (on
//! 16 threads that is 60 µs, of which waking and waiting are a quarter). It takes row kernels, each of which runs on
//! one thread, if a launch of their own would not wake others. Limits below protect data that is still in cache when it
//! is read, memory that an output could reuse, and memory for outputs.

use crate::plan::{KernelPlan, Plan};
use crate::segment::{Indexed, ValueId};
use crate::tunable::TUNABLES;
use std::collections::{BTreeSet, HashMap};

/// Maximum predicted time of a map (`MAP_PS`) and of a row kernel (`ROWS_PS`) that join a group, in picoseconds.
const MAP_PS: u64 = 500_000_000;
const ROWS_PS: u64 = 30_000_000;
/// Maximum bytes of new memory that a group writes. They are in use at once, in addition to what was before.
const NEW_BYTES: usize = 256 << 20;

/// Properties of a kernel that decide about its group.
struct Size {
    /// Whether the kernel may join a group.
    part: bool,
    /// Number of bytes read and written.
    moved: usize,
    /// Number of bytes written that cannot reuse an input's memory.
    new: usize,
    /// Large values that the kernel reads, each with whether an output could reuse its memory.
    takes: Vec<(ValueId, bool)>,
    /// Whether the kernel reads or writes data that stays in cache only if little runs between writer and reader.
    near: bool,
}

/// Kernels of one level that run as one launch.
struct Group {
    level: usize,
    kernels: Vec<usize>,
    near: bool,
    moved: usize,
    new: usize,
    takes: HashMap<ValueId, bool>,
}

/// Groups kernels. `readers` lists the kernels that read from each, all of them later; `times` are predicted times.
pub(super) fn group(
    ix: &Indexed<'_>,
    kernels: Vec<KernelPlan>,
    readers: &[Vec<usize>],
    times: Vec<u64>,
) -> Vec<KernelPlan> {
    if kernels.len() < 2 {
        return kernels;
    }
    let sizes = sizes(ix, &kernels, &times);
    let groups = groups(&sizes, &levels(&sizes, readers));
    if groups.len() == kernels.len() {
        return kernels;
    }
    let order = order(&groups, readers);
    let mut kernels: Vec<Option<KernelPlan>> = kernels.into_iter().map(Some).collect();
    let mut take = |k: usize| kernels[k].take().expect("a kernel is in one group");
    let made = order.iter().map(|&g| match groups[g][..] {
        [one] => take(one),
        ref all => KernelPlan::Group { parts: all.iter().map(|&k| take(k)).collect() },
    });
    made.collect()
}

/// Plan with the members of its groups as separate kernels; `None` if it has no groups.
pub(super) fn ungrouped(plan: &Plan) -> Option<Plan> {
    let grouped = plan.kernels.iter().any(|k| matches!(k, KernelPlan::Group { .. }));
    let kernels = || plan.kernels.iter().flat_map(|k| k.parts().iter().cloned()).collect();
    grouped.then(|| Plan { kernels: kernels(), ..plan.clone() })
}

fn sizes(ix: &Indexed<'_>, kernels: &[KernelPlan], times: &[u64]) -> Vec<Size> {
    // Kernel that computed each operation last. A kernel reads from others what it does not compute itself.
    let mut computed = vec![usize::MAX; ix.seg.ops.len()];
    let mut seen: HashMap<ValueId, usize> = HashMap::new();
    let mut written_by = vec![usize::MAX; ix.seg.ops.len()];
    // Bytes moved by all kernels before and including each one.
    let cache = TUNABLES.group_cache_bytes.get();
    let mut total = 0;
    let mut until = Vec::with_capacity(kernels.len());
    let mut sizes: Vec<Size> = Vec::with_capacity(kernels.len());
    for (k, kernel) in kernels.iter().enumerate() {
        kernel.ops().for_each(|i| computed[i] = k);
        let mut reads = vec![];
        for (_, v) in kernel.ops().flat_map(|i| ix.tensors(i)) {
            let outside = !matches!(v, ValueId::Op(a) if computed[a] == k);
            if outside && seen.insert(v, k) != Some(k) {
                reads.push(v);
            }
        }
        let mut near = false;
        for &v in &reads {
            let ValueId::Op(a) = v else { continue };
            let from = written_by[a];
            if from != usize::MAX && total - until[from] <= cache && ix.bytes(v) <= cache {
                sizes[from].near = true;
                near = true;
            }
        }
        let mut places: HashMap<usize, usize> = HashMap::new();
        reads.iter().for_each(|&v| *places.entry(ix.bytes(v)).or_default() += 1);
        let (mut written, mut new, mut taken) = (0, 0, vec![]);
        for s in kernel.writes() {
            let bytes = ix.bytes(ValueId::Op(s));
            (written, written_by[s]) = (written + bytes, k);
            match places.get_mut(&bytes).filter(|n| **n > 0) {
                Some(n) => *n -= 1,
                None => new += bytes,
            }
            taken.push(bytes);
        }
        let large = reads.iter().filter(|&&v| TUNABLES.min_replaced_bytes.reached_by(ix.bytes(v)));
        let takes = large.map(|&v| (v, taken.contains(&ix.bytes(v)))).collect();
        let moved = written + reads.iter().map(|&v| ix.bytes(v)).sum::<usize>();
        total += moved;
        until.push(total);
        sizes.push(Size { part: is_short(kernel, times[k]), moved, new, takes, near });
    }
    sizes
}

/// Whether a kernel is short enough to join a group.
fn is_short(kernel: &KernelPlan, time: u64) -> bool {
    let KernelPlan::Map { rows, .. } = kernel else { return false };
    time <= if rows.is_some() { ROWS_PS } else { MAP_PS }
}

/// Level of each kernel: higher than those of all kernels it reads from.
fn levels(sizes: &[Size], readers: &[Vec<usize>]) -> Vec<usize> {
    let n = readers.len();
    // Longest paths from the first kernels and to the last ones.
    let (mut depth, mut height) = (vec![0usize; n], vec![0usize; n]);
    for k in 0..n {
        for &r in &readers[k] {
            debug_assert!(r > k, "kernels are in the order of running");
            depth[r] = depth[r].max(depth[k] + 1);
        }
    }
    for k in (0..n).rev() {
        height[k] = readers[k].iter().map(|&r| height[r] + 1).max().unwrap_or(0);
    }
    let last = depth.iter().copied().max().unwrap_or(0);
    // A kernel that reads from another has more depth and less height. So if the first of the two is late, the second
    // is too.
    let mut level: Vec<usize> =
        (0..n).map(|k| if height[k] < depth[k] { last - height[k] } else { depth[k] }).collect();
    // Kernels without dependences join the level with the most members.
    let mut parts = vec![0; last + 1];
    (0..n).filter(|&k| sizes[k].part).for_each(|k| parts[level[k]] += 1);
    let fullest = (0..=last).max_by_key(|&l| (parts[l], last - l)).unwrap_or(0);
    (0..n).filter(|&k| depth[k] == 0 && height[k] == 0).for_each(|k| level[k] = fullest);
    level
}

/// Kernels of each launch, ascending: the members of a group, or a single kernel.
fn groups(sizes: &[Size], levels: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Group> = vec![];
    // Newest groups of each level, cache-sensitive ones separate from the rest.
    let mut open: HashMap<(usize, bool), Vec<usize>> = HashMap::new();
    let mut single = vec![];
    for (k, size) in sizes.iter().enumerate() {
        if !size.part {
            single.push(vec![k]);
            continue;
        }
        let open = open.entry((levels[k], size.near)).or_default();
        let fits = open.iter().rev().take(TUNABLES.max_tried_groups.size()).copied().find(|&b| groups[b].fits(size));
        let b = fits.unwrap_or_else(|| {
            groups.push(Group::new(levels[k], size.near));
            open.push(groups.len() - 1);
            groups.len() - 1
        });
        groups[b].add(k, size);
    }
    debug_assert!(groups.iter().all(|b| b.kernels.iter().all(|&k| levels[k] == b.level)));
    single.extend(groups.into_iter().map(|b| b.kernels));
    single
}

impl Group {
    fn new(level: usize, near: bool) -> Group {
        Group { level, kernels: vec![], near, moved: 0, new: 0, takes: HashMap::new() }
    }

    fn fits(&self, size: &Size) -> bool {
        (!self.near || TUNABLES.group_cache_bytes.admits(self.moved + size.moved))
            && self.new + size.new <= NEW_BYTES
            && size.takes.iter().all(|(v, take)| self.takes.get(v).is_none_or(|other| !take && !other))
    }

    fn add(&mut self, k: usize, size: &Size) {
        self.kernels.push(k);
        self.moved += size.moved;
        self.new += size.new;
        for &(v, take) in &size.takes {
            *self.takes.entry(v).or_default() |= take;
        }
    }
}

/// Order of the groups in which each runs after those it reads from. Among ready groups, the one whose first kernel
/// comes first is next.
pub(super) fn order(groups: &[Vec<usize>], readers: &[Vec<usize>]) -> Vec<usize> {
    let mut group = vec![0; readers.len()];
    for (g, all) in groups.iter().enumerate() {
        all.iter().for_each(|&k| group[k] = g);
    }
    let mut waits = vec![0; groups.len()];
    readers.iter().flatten().for_each(|&r| waits[group[r]] += 1);
    let first = |g: usize| (groups[g][0], g);
    let mut ready: BTreeSet<(usize, usize)> = (0..groups.len()).filter(|&g| waits[g] == 0).map(first).collect();
    let mut order = Vec::with_capacity(groups.len());
    while let Some((_, g)) = ready.pop_first() {
        order.push(g);
        for &r in groups[g].iter().flat_map(|&k| &readers[k]) {
            waits[group[r]] -= 1;
            if waits[group[r]] == 0 {
                ready.insert(first(group[r]));
            }
        }
    }
    assert_eq!(order.len(), groups.len(), "groups leave the kernels of a plan acyclic");
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(part: bool, near: bool) -> Size {
        Size { part, moved: 1000, new: 0, takes: vec![], near }
    }

    /// Groups, in the order of running, of kernels that may all join a group, except those listed in `apart`.
    fn grouped(readers: &[Vec<usize>], apart: &[usize]) -> Vec<Vec<usize>> {
        let sizes: Vec<Size> = (0..readers.len()).map(|k| size(!apart.contains(&k), false)).collect();
        let groups = groups(&sizes, &levels(&sizes, readers));
        order(&groups, readers).into_iter().map(|g| groups[g].clone()).collect()
    }

    #[test]
    fn updates_are_grouped_after_the_last_gradient() {
        // Products 0 to 3, each reading the one before, and an update from each.
        let readers = [vec![1, 4], vec![2, 5], vec![3, 6], vec![7], vec![], vec![], vec![], vec![]];
        assert_eq!(grouped(&readers, &[0, 1, 2, 3]), [vec![0], vec![1], vec![2], vec![3], vec![4, 5, 6, 7]]);
    }

    #[test]
    fn early_results_are_grouped_before_their_first_use() {
        // Weights 0 to 2; products 3 to 5 in a chain, each with one of them.
        let readers = [vec![3], vec![4], vec![5], vec![4], vec![5], vec![]];
        assert_eq!(grouped(&readers, &[3, 4, 5]), [vec![0, 1, 2], vec![3], vec![4], vec![5]]);
    }

    #[test]
    fn what_depends_on_nothing_goes_where_most_is() {
        let readers = [vec![1], vec![2, 3, 4], vec![], vec![], vec![], vec![]];
        assert_eq!(grouped(&readers, &[0, 1]), [vec![0], vec![1], vec![2, 3, 4, 5]]);
    }

    #[test]
    fn kernels_stay_acyclic() {
        // Random graphs; `order` panics on a cycle.
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        for _ in 0..500 {
            let n = 2 + below(30);
            let dense = 1 + below(8);
            let readers: Vec<Vec<usize>> =
                (0..n).map(|k| (k + 1..n).filter(|_| below(dense + 2) == 0).collect()).collect();
            let apart: Vec<usize> = (0..n).filter(|_| below(3) == 0).collect();
            let groups = grouped(&readers, &apart);
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn neighbours_are_grouped_while_they_stay_in_cache() {
        let sizes: Vec<Size> = (0..10).map(|_| Size { moved: 300 << 10, ..size(true, true) }).collect();
        assert!(groups(&sizes, &[0; 10]).iter().all(|g| g.len() <= 3));
        let new: Vec<Size> = (0..4).map(|_| Size { new: 100 << 20, ..size(true, false) }).collect();
        assert_eq!(groups(&new, &[0; 4]), [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn a_large_value_that_may_be_taken_over_has_one_reader() {
        let x = ValueId::Input(0);
        let reads = |take| Size { takes: vec![(x, take)], ..size(true, false) };
        assert_eq!(groups(&[reads(true), reads(false)], &[0, 0]).len(), 2);
        assert_eq!(groups(&[reads(false), reads(false), reads(false)], &[0, 0, 0]).len(), 1);
    }
}
