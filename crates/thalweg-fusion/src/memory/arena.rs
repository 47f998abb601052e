//! Arena packing: offsets for blocks, disjoint for blocks with overlapping lifetimes.
//!
//! In: bytes and lifetime of each block. Out: an offset for each, a multiple of 64, and the bytes of the arena. The
//! best of several placement orders is taken; each block goes into the smallest sufficient gap between the placed
//! blocks that are alive at the same time.

use crate::tunable::TUNABLES;

/// Alignment of blocks in bytes.
const ALIGNMENT: usize = 64;

/// Block to place in the arena, with its lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub bytes: usize,
    /// Index of the first launch at which the block is alive.
    pub first: usize,
    /// Index of the last launch at which the block is alive.
    pub last: usize,
}

impl Lifetime {
    fn overlaps(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Size of the block rounded up to the alignment.
    fn aligned_bytes(&self) -> usize {
        self.bytes.next_multiple_of(ALIGNMENT)
    }
}

/// Maximum number of bytes live at once.
pub(super) fn live(blocks: &[Lifetime], launches: usize) -> usize {
    let (mut born, mut gone) = (vec![0; launches + 1], vec![0; launches + 1]);
    for b in blocks {
        born[b.first] += b.bytes;
        gone[b.last + 1] += b.bytes;
    }
    let mut now = 0;
    let at = |(b, g): (&usize, &usize)| {
        now = now + b - g;
        now
    };
    born.iter().zip(&gone).map(at).max().unwrap_or(0)
}

/// Offset of each block, and the bytes of the arena.
pub(super) fn pack(blocks: &[Lifetime]) -> (Vec<usize>, usize) {
    let size = |n: usize| std::cmp::Reverse(blocks[n].bytes);
    let mut by_start: Vec<usize> = (0..blocks.len()).collect();
    by_start.sort_by_key(|&n| (blocks[n].first, size(n)));
    let mut best = place(blocks, &by_start, true);
    let least = live(blocks, blocks.iter().map(|b| b.last + 1).max().unwrap_or(0));
    if best.1 <= least.next_multiple_of(ALIGNMENT) || !TUNABLES.max_ordered_blocks.admits(blocks.len()) {
        return best;
    }
    let mut by_size = by_start.clone();
    by_size.sort_by_key(|&n| size(n));
    let mut by_time = by_start;
    by_time.sort_by_key(|&n| (std::cmp::Reverse(blocks[n].last - blocks[n].first), size(n)));
    for order in [by_size, by_time] {
        let other = place(blocks, &order, false);
        if other.1 < best.1 {
            best = other;
        }
    }
    best
}

/// Places blocks in the given order; returns their offsets and the bytes of the arena. `by_start`: starts ascend, so
/// blocks that have died need not be visited again.
fn place(blocks: &[Lifetime], order: &[usize], by_start: bool) -> (Vec<usize>, usize) {
    let mut offsets = vec![0usize; blocks.len()];
    let mut bytes = 0;
    // Placed blocks, by offset.
    let mut placed: Vec<usize> = Vec::new();
    for &n in order {
        let block = &blocks[n];
        if by_start {
            placed.retain(|&p| blocks[p].last >= block.first);
        }
        let (mut end, mut best, mut least) = (0usize, None, usize::MAX);
        for &p in placed.iter().filter(|&&p| blocks[p].overlaps(block)) {
            let gap = offsets[p].saturating_sub(end);
            if gap >= block.aligned_bytes() && gap < least {
                (best, least) = (Some(end), gap);
            }
            end = end.max(offsets[p] + blocks[p].aligned_bytes());
        }
        offsets[n] = best.unwrap_or(end);
        bytes = bytes.max(offsets[n] + block.aligned_bytes());
        placed.insert(placed.partition_point(|&p| offsets[p] <= offsets[n]), n);
    }
    (offsets, bytes)
}
