//! Groups: kernels of a finished plan that need nothing of each other and are short enough that a launch of their own
//! matters, put together in one.
//!
//! In: the kernels in the order in which they run, and which ones read from which. Out: the same kernels, some as
//! [`KernelPlan::Group`], in an order in which each still runs after those it reads from. How the partition was found
//! plays no part.
//!
//! Kernels get *levels*: those of one level depend on none of the same, so whatever of them is put together, the
//! kernels stay acyclic. A kernel near the end of the plan is as late as can be, one near its beginning as early:
//! updates of parameters meet at the end, whenever their gradients are known, and tensors that are made meet at the
//! beginning. All of this is linear in kernels and what they read.
//!
//! **What pays.** A launch costs the stream about 0.6 µs on one thread; one that wakes threads 7 µs more, and at its
//! end they wait for the last. A part of a group costs 0.1 µs. So a group takes maps up to half a millisecond (on 16 of
//! them that is 60 µs, of which waking and waiting are a quarter), and rows, of which a part is one thread's, as long
//! as a launch of them would not wake others. What a group must not lose is bounded below: what is still in cache when
//! it is read, memory that an output could take over, memory for outputs.

use crate::plan::{KernelPlan, Plan};
use crate::segment::{Indexed, ValueId};
use crate::tunable::TUNABLES;
use std::collections::{BTreeSet, HashMap};

/// The longest map and the longest row kernel that is a part, in picoseconds of the cost model.
const MAP_PS: u64 = 500_000_000;
const ROWS_PS: u64 = 30_000_000;
/// Bytes that a group writes where no input's memory can be taken: as much memory more than before is held at once.
const NEW_BYTES: usize = 256 << 20;

/// What bundling asks of a kernel.
struct Size {
    /// Whether it may be a part.
    part: bool,
    /// Bytes read and written.
    moved: usize,
    /// Bytes written where no input's memory can be taken.
    new: usize,
    /// Large values that it reads, and whether an output could take their place.
    takes: Vec<(ValueId, bool)>,
    /// Whether it reads, or somebody reads from it, what is in cache only if little runs between the two.
    near: bool,
}

/// Kernels of a level to be put together.
struct Group {
    level: usize,
    kernels: Vec<usize>,
    near: bool,
    moved: usize,
    new: usize,
    takes: HashMap<ValueId, bool>,
}

/// The kernels with what goes together in groups; `readers` are, for each, those that read what it writes, all behind
/// it, and `times` what the cost model says of each.
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

/// The plan with the parts of its groups one by one; `None` where it has none.
pub(super) fn apart(plan: &Plan) -> Option<Plan> {
    let grouped = plan.kernels.iter().any(|k| matches!(k, KernelPlan::Group { .. }));
    let kernels = || plan.kernels.iter().flat_map(|k| k.parts().iter().cloned()).collect();
    grouped.then(|| Plan { kernels: kernels(), ..plan.clone() })
}

fn sizes(ix: &Indexed<'_>, kernels: &[KernelPlan], times: &[u64]) -> Vec<Size> {
    // Which kernel computed an operation last: what it does not compute itself it reads.
    let mut computed = vec![usize::MAX; ix.seg.ops.len()];
    let mut seen: HashMap<ValueId, usize> = HashMap::new();
    let mut written_by = vec![usize::MAX; ix.seg.ops.len()];
    // Bytes that all kernels up to one have moved.
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

/// Whether a kernel is short enough to be a part.
fn is_short(kernel: &KernelPlan, time: u64) -> bool {
    let KernelPlan::Map { rows, .. } = kernel else { return false };
    time <= if rows.is_some() { ROWS_PS } else { MAP_PS }
}

/// The level of each kernel: higher than those of all that it reads from.
fn levels(sizes: &[Size], readers: &[Vec<usize>]) -> Vec<usize> {
    let n = readers.len();
    // The longest ways from the first kernels and to the last ones.
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
    // Of two where one reads from the other, that one has more depth and less height: so if the first is late, the
    // second is too.
    let mut level: Vec<usize> =
        (0..n).map(|k| if height[k] < depth[k] { last - height[k] } else { depth[k] }).collect();
    // What nothing depends on either way goes where most is.
    let mut parts = vec![0; last + 1];
    (0..n).filter(|&k| sizes[k].part).for_each(|k| parts[level[k]] += 1);
    let fullest = (0..=last).max_by_key(|&l| (parts[l], last - l)).unwrap_or(0);
    (0..n).filter(|&k| depth[k] == 0 && height[k] == 0).for_each(|k| level[k] = fullest);
    level
}

/// Kernels by what runs as one, each group ascending.
fn groups(sizes: &[Size], levels: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Group> = vec![];
    // The newest ones of each level, what is near apart from the rest.
    let mut open: HashMap<(usize, bool), Vec<usize>> = HashMap::new();
    let mut single = vec![];
    for (k, size) in sizes.iter().enumerate() {
        if !size.part {
            single.push(vec![k]);
            continue;
        }
        let open = open.entry((levels[k], size.near)).or_default();
        let fits =
            open.iter().rev().take(TUNABLES.max_tried_groups.size()).copied().find(|&b| groups[b].has_room(size));
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

    fn has_room(&self, size: &Size) -> bool {
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

/// The groups in an order in which each runs after those it reads from; of those that could run, the one whose first
/// kernel comes first.
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

    /// Groups and their order for kernels that are all parts but those named.
    fn grouped(readers: &[Vec<usize>], apart: &[usize]) -> Vec<Vec<usize>> {
        let sizes: Vec<Size> = (0..readers.len()).map(|k| size(!apart.contains(&k), false)).collect();
        let groups = groups(&sizes, &levels(&sizes, readers));
        order(&groups, readers).into_iter().map(|g| groups[g].clone()).collect()
    }

    #[test]
    fn updates_meet_behind_the_last_gradient() {
        // Products 0 to 3, each reading the one before, and an update of what each gives.
        let readers = [vec![1, 4], vec![2, 5], vec![3, 6], vec![7], vec![], vec![], vec![], vec![]];
        assert_eq!(grouped(&readers, &[0, 1, 2, 3]), [vec![0], vec![1], vec![2], vec![3], vec![4, 5, 6, 7]]);
    }

    #[test]
    fn what_is_made_first_meets_before_its_first_use() {
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
        // Whatever the graph: `order` refuses what is not.
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
    fn what_is_near_goes_together_while_it_stays_in_cache() {
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
