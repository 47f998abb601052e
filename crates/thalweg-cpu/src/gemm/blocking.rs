//! Block sizes of a GEMM: a pure function of its sizes, the micro-kernel and the number of threads. They do not change
//! the bits of the result.

use super::TERMS;
use crate::hardware::PRIVATE_CACHE;
use crate::memory::last_level_cache;
use crate::number::SchemeConstants;
use crate::tunable::TUNABLES;

/// Nanoseconds per fused multiply-add of f32 on one thread, packing included (measured on Zen 3 with AVX2: 75 to 92
/// GFLOP/s, bf16 alike); f64 takes twice that. An instruction that adds several products to a sum takes as long as one
/// that adds a single product (measured on Zen 5 with AVX-512).
const NS_PER_MULTIPLY: f64 = 0.024;
/// Nanoseconds per multiply-add of integers (measured like [`NS_PER_MULTIPLY`]: 60 billion operations a second of i32,
/// 44 of i8).
const NS_PER_INT_MULTIPLY: f64 = 0.04;
/// Nanoseconds per multiply-add of bf16 in tile registers, packing included (measured on Sapphire Rapids).
const NS_PER_TILE_MULTIPLY: f64 = 0.0018;
/// Nanoseconds per byte of the matrix in a GEMV (measured like [`NS_PER_MULTIPLY`], out of cache: 0.04 to 0.05).
const NS_PER_BYTE: f64 = 0.045;

/// Estimated nanoseconds that one thread takes for one product.
pub fn estimate_ns(of: &SchemeConstants, m: usize, n: usize, k: usize) -> f64 {
    let multiplications = m as f64 * n as f64 * k as f64;
    multiplications
        * match of.group {
            _ if m == 1 || n == 1 => NS_PER_BYTE * of.element as f64,
            1 if !of.is_float => NS_PER_INT_MULTIPLY,
            1 if of.element == 8 => 2.0 * NS_PER_MULTIPLY,
            _ if of.step > 1 => NS_PER_TILE_MULTIPLY,
            group => NS_PER_MULTIPLY / group as f64,
        }
}

/// Source of the panels of operand B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Rows of B itself, read in place.
    Direct,
    /// Panels that each task packs for itself, one block at a time.
    Own,
    /// Panels that all threads pack for all tasks. The number is the columns that are packed at a time.
    Shared(usize),
}

/// Bytes of the second-level cache of a core with tile registers: 2 MiB (Sapphire Rapids to Granite Rapids).
const TILE_CACHE: usize = 2 << 20;

/// Number of rows, and of columns, of a block of sums of tile registers. Products of 1024³ and 2048³ took up to 20 %
/// longer with 384 or 512 (measured on Sapphire Rapids), and 10 % with 128.
const TILE_BLOCK: usize = 256;

/// Inputs of the choice of block sizes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub m: usize,
    pub n: usize,
    /// Number of groups of terms ([`crate::number::Scheme::GROUP`]).
    pub k: usize,
    /// Bytes of an accumulator, and of a packed slot.
    pub size: usize,
    /// Number of slots of a step of a tile ([`crate::number::Scheme::STEP`]).
    pub step: usize,
    /// Maximum number of rows, and of columns, of a tile.
    pub tile: [usize; 2],
    /// Stride in bytes between terms of B, if its columns are contiguous in memory (B is row-major).
    pub right_rows: Option<isize>,
    /// Stride in bytes of A, if one of its dimensions is contiguous: between rows, if the terms of a row are contiguous
    /// (A is row-major), or between terms, if rows are (column-major).
    pub left_rows: Option<isize>,
    /// Whether all of B is already packed.
    pub packed: bool,
    /// Whether accumulators are passed to an epilogue in tiles.
    pub tiles: bool,
    pub threads: usize,
}

/// Block sizes of a GEMM, as [`blocking`] chooses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocking {
    /// Number of rows (`rows`) and of columns (`columns`) of a block of c, whose accumulators are completed before the
    /// next block begins.
    pub rows: usize,
    pub columns: usize,
    /// Number of tasks that divide the columns of each block of rows.
    pub groups: usize,
    pub right: Right,
    /// Whether A is read in place instead of packed.
    pub left_direct: bool,
    /// Whether packed rows of A are retained for all terms, from one block of columns to the next.
    pub keeps_left: bool,
}

/// Minimum bytes of each row of B that a task packs at a time ([`Right::Own`]): memory reaches its bandwidth only in
/// long contiguous ranges.
const OWN_BYTES: usize = 4 << 10;

/// Whether `count` cache lines at this stride in bytes map to few cache sets and evict each other.
fn aliases(stride: isize, count: usize) -> bool {
    count > 4 && stride % 1024 == 0
}

/// Chooses the block sizes of a product.
pub fn blocking(s: &Sizes) -> Blocking {
    let [tile_rows, tile_columns] = s.tile;
    let terms = s.k.min(TERMS);
    let private = if s.step > 1 { TILE_CACHE } else { PRIVATE_CACHE };
    // Packed rows take most of the second-level cache, leaving space for streamed data: more rows then share a panel of
    // the right factor.
    let most_rows = match s.step {
        1 => (private * 3 / 8 / (TERMS * s.size) / tile_rows * tile_rows).max(tile_rows),
        _ => TILE_BLOCK + TILE_BLOCK / 8,
    };
    let row_blocks = s.m.div_ceil(most_rows);
    let rows = s.m.div_ceil(row_blocks).next_multiple_of(tile_rows);
    let small_right = TUNABLES.max_direct_factor.admits(s.k * s.n * s.size);
    let direct = s.right_rows.is_some_and(|stride| {
        let near = small_right && !aliases(stride, s.k);
        // A tile reads each of its lines once; a few tiles of rows read a block of terms again, from a private cache.
        near || s.step == 1 && TUNABLES.max_direct_tiles.admits(s.m.div_ceil(tile_rows))
    });
    let left_direct = s.left_rows.is_some_and(|stride| {
        if s.step > 1 {
            // Rows of tiles are read in whole cache lines, which prefetchers follow on few pages only.
            return s.n <= 4 * tile_columns || TUNABLES.max_direct_stride.admits(stride.unsigned_abs() / 2);
        }
        let near = TUNABLES.max_direct_factor.admits(s.m * s.k * s.size)
            || (stride > 0 && TUNABLES.max_direct_stride.admits(stride as usize));
        near && !aliases(stride, tile_rows) && s.n <= 16 * tile_columns
    });
    let row_blocks = s.m.div_ceil(rows);
    let (most_shared, least_shared) = (TUNABLES.max_shared_bytes.size(), TUNABLES.min_shared_columns.size());
    let shared = (last_level_cache() / 4).max(1 << 20).min(most_shared) / (s.k.max(1) * s.size);
    let shared = (shared.max(least_shared) / tile_columns * tile_columns).max(tile_columns);
    let right = match direct {
        _ if s.packed => Right::Shared(s.n),
        true => Right::Direct,
        false if row_blocks == 1 || s.k * s.size * least_shared > 4 * most_shared => Right::Own,
        false => Right::Shared(shared.min(s.n.next_multiple_of(tile_columns))),
    };
    // A task's own packed columns of B, or the sums passed to an epilogue, stay in the second-level cache. Sums that
    // are stored are read once per block of terms, and prefetched.
    let columns = match right {
        // Sums of a single block of terms are finished at once; others stay there beside the rows.
        Right::Own if s.step > 1 => (private / 4 / (terms.max(1) * s.size)).max(TILE_BLOCK),
        _ if s.step > 1 => s.n.div_ceil(s.n.div_ceil(TILE_BLOCK + TILE_BLOCK / 8)).next_multiple_of(tile_columns),
        Right::Own => (PRIVATE_CACHE / 2 / (terms.max(1) * s.size)).max(OWN_BYTES / s.size),
        _ if s.tiles => PRIVATE_CACHE / 4 / (rows.min(s.m) * s.size),
        _ => 3 * PRIVATE_CACHE / 4 / (rows.min(s.m) * s.size),
    };
    let columns = (columns / tile_columns * tile_columns).max(tile_columns);
    let pass = match right {
        Right::Shared(columns) => columns.min(s.n),
        _ => s.n,
    };
    // A few tasks per thread, of at least a few panels each.
    let wanted = if s.threads == 1 { 1 } else { (4 * s.threads).div_ceil(row_blocks) };
    // Each task packs its rows of A by itself.
    let packs = if left_direct {
        usize::MAX
    } else {
        s.threads.div_ceil(row_blocks).max(pass / TUNABLES.min_packed_columns.size())
    };
    let wanted = wanted.min(packs);
    let groups = filling(s.threads, row_blocks, [wanted, pass.div_ceil(2 * tile_columns)]);
    let keeps_left = TUNABLES.max_packed_rows.admits(rows * s.k * s.size);
    Blocking { rows, columns, groups, right, left_direct, keeps_left }
}

/// Number of tasks per block of rows, between the minimum wanted and the maximum possible, that leaves threads idle for
/// the shortest time. Nine tasks occupy two threads for the time of ten; twelve for that of twelve.
fn filling(threads: usize, row_blocks: usize, [wanted, most]: [usize; 2]) -> usize {
    let fewest = wanted.min(most).max(1);
    let idle = |groups: usize| {
        let tasks = row_blocks * groups;
        (tasks.next_multiple_of(threads) - tasks) as f64 / tasks as f64
    };
    let candidates = fewest..=most.min(2 * fewest).max(fewest);
    candidates.min_by(|a, b| idle(*a).total_cmp(&idle(*b))).expect("one number of groups")
}

/// Range `number` of `0..len` split into `parts` ranges of nearly equal size, in multiples of `unit`.
pub fn even(len: usize, parts: usize, unit: usize, number: usize) -> std::ops::Range<usize> {
    let units = len.div_ceil(unit);
    let at = |part: usize| (units * part / parts * unit).min(len);
    at(number)..at(number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_fill_all_threads_where_there_are_columns_enough() {
        // 3 blocks of rows: 9 tasks would leave one of two threads idle for the time of one task.
        assert_eq!(filling(2, 3, [3, 24]), 4);
        assert_eq!(filling(2, 4, [2, 24]), 2);
        assert_eq!(filling(16, 3, [22, 48]), 32);
        // No more groups than the columns allow, and at least one.
        assert_eq!(filling(2, 3, [3, 3]), 3);
        assert_eq!(filling(8, 1, [32, 0]), 1);
        assert_eq!(filling(1, 5, [1, 24]), 1);
    }
}
