//! Scans along rows in memory: running sums, products, extremes and logarithms of sums of exponentials. Sorts are in `sort`.
//!
//! In: rows of a region of scratch memory. Out: launches. Floats are accumulated in f64 and each result is rounded once, as on every device.
//!
//! Each thread takes eight neighbouring points: it folds them, the block scans the totals of its threads (a *turn*), and each thread gives out its points. A row is cut into *chunks* of
//! turns, which are put together in order; so where rows are too few to keep the chip busy, several blocks share one: a launch folds each chunk, and in a second one each
//! block begins with what the chunks before its own give.
//!
//! * `text`: what all kernels have, and those whose threads or warps have rows of their own.
//! * `chunked`: the kernels of blocks.
//!
//! Always true: where rows lie along memory, results have the same bits whatever the number of rows and blocks, since chunks follow from the length of a row alone.

mod chunked;
mod text;

use super::sort;
use crate::compiler::Compiler;
use crate::launch::Word;
use crate::program::{Draft, Plan, blocks};
use crate::render::UnitKey;
use crate::traffic;
use text::Text;
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::Moved;

/// A scan of rows of scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct RowScan {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
    /// How many rows.
    pub rows: usize,
    /// Points of a row.
    pub points: usize,
    /// Elements from row to row.
    pub row_step: usize,
    /// Elements from point to point.
    pub point_step: usize,
    /// The region with the elements.
    pub from: u16,
    /// The region for the result; may be the same.
    pub to: u16,
}

/// What decides the source of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanClass {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
    /// How rows are shared.
    pub way: Way,
}

/// Who has a row, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A thread.
    InOrder,
    /// A few threads of a warp.
    Short,
    /// A block of one to eight warps, or several of them.
    Long,
    /// A column of threads of a block, whose neighbours have neighbouring rows; or several.
    Across,
    /// Of a sort: a block has a stretch of a row, or rows that fit one.
    Stretch,
    /// Of a sort: a block has a stretch of two runs that are merged.
    Merge,
}

/// Words: from, to, rows, points, step from row to row, from point to point; threads of a row, or points of a chunk; blocks of a row, chunks of a block, chunks of a row, whether chunks are only folded,
/// partial results, rows of a block.
const WORDS: usize = 13;
/// Threads of a block.
const BLOCK: usize = 256;
/// Points of a thread in a turn.
const POINTS: usize = 8;
/// Points of a warp in a turn.
const WARP: usize = 32 * POINTS;
/// Chunks of a row at most: each block folds the partial results of those before its own.
const CHUNKS: usize = 512;
/// Turns of a row above which blocks may share it.
const LONG: usize = 4;

impl RowScan {
    /// The class of its source, in order.
    pub fn class(&self) -> ScanClass {
        ScanClass { op: self.op, reverse: self.reverse, dtype: self.dtype, way: Way::InOrder }
    }

    /// Adds its launches.
    pub fn add(self, plan: &mut Plan, compiler: &Compiler) {
        let RowScan { op, dtype, rows, points: n, .. } = self;
        if rows * n == 0 {
            return;
        }
        if !matches!(op, ScanOp::Sort | ScanOp::Argsort) {
            plan.moved += traffic::scratch((rows * n * dtype.size()) as u64);
        }
        if matches!(op, ScanOp::Sort | ScanOp::Argsort) {
            return sort::add(self, plan, compiler);
        }
        // Of products in another order one may overflow where the other vanishes.
        if op == ScanOp::Prod && dtype.is_float() {
            return self.draft(plan, compiler, Way::InOrder, blocks(rows, 32), 32, &[]);
        }
        if self.point_step != 1 && self.row_step == 1 && rows >= 8 {
            let most = rows.next_power_of_two();
            let deep = n.div_ceil(POINTS).next_power_of_two().clamp(1, BLOCK / most.clamp(8, 32));
            let wide = most.clamp(8, BLOCK / deep);
            return self.add_chunks(plan, compiler, Way::Across, wide, deep);
        }
        if n <= WARP {
            let threads = n.div_ceil(POINTS).next_power_of_two().clamp(1, 32);
            let grid = blocks(rows, BLOCK / threads);
            return self.draft(plan, compiler, Way::Short, grid, BLOCK as u32, &[threads]);
        }
        // No more warps than have points.
        let deep = n.div_ceil(POINTS).next_power_of_two().clamp(32, BLOCK);
        self.add_chunks(plan, compiler, Way::Long, 1, deep);
    }

    /// Blocks of `wide` rows side by side, `deep` threads for each.
    fn add_chunks(self, plan: &mut Plan, compiler: &Compiler, way: Way, wide: usize, deep: usize) {
        let (turn, tiles, n) = (deep * POINTS, self.rows.div_ceil(wide), self.points);
        let chunk = n.div_ceil(CHUNKS).next_multiple_of(turn).max(turn);
        let chunks = n.div_ceil(chunk).max(1);
        let chip = compiler.chip().multiprocessors as usize;
        let few = tiles < 2 * chip && n > LONG * turn;
        let most = if few { (4 * chip).div_ceil(tiles.max(1)) } else { 1 };
        let own = chunks.div_ceil(most);
        let shares = chunks.div_ceil(own);
        let grid = blocks(tiles * shares, 1);
        let block = (wide * deep) as u32;
        if shares == 1 {
            return self.draft(plan, compiler, way, grid, block, &[chunk, 1, own, chunks, 0, 0, wide]);
        }
        // The first launch only reads the elements, and leaves a partial result of each chunk.
        let elements = (self.rows * n * self.dtype.size()) as u64;
        plan.moved +=
            Moved { read: elements, ..traffic::scratch(0) } + traffic::scratch((8 * self.rows * chunks) as u64);
        plan.scratch.push((8 * self.rows * chunks).max(64));
        let region = plan.scratch.len() as u16 - 1;
        for fold in [1, 0] {
            self.draft(plan, compiler, way, grid, block, &[chunk, shares, own, chunks, fold, 0, wide]);
            if let Some(stage) = plan.stages.last_mut() {
                stage.patches.push((11, Word::Scratch(region, 0)));
            }
        }
    }

    /// A launch with these words behind the sizes.
    fn draft(self, plan: &mut Plan, compiler: &Compiler, way: Way, grid: u32, block: u32, more: &[usize]) {
        let mut words = vec![0; WORDS];
        let sizes = [self.rows, self.points, self.row_step, self.point_step];
        words[2..].iter_mut().zip(sizes.iter().chain(more)).for_each(|(w, &v)| *w = v as u64);
        let patches = vec![(0, Word::Scratch(self.from, 0)), (1, Word::Scratch(self.to, 0))];
        let unit = compiler.unit(UnitKey::Scan(ScanClass { way, ..self.class() }));
        plan.stages.push(Draft { unit, grid: [grid.max(1), 1, 1], block, shared: 0, words, patches });
    }
}

/// The source of a scan with one function, `scan`.
pub fn source(class: &ScanClass) -> String {
    let text = Text::new(class);
    match class.way {
        Way::InOrder => text.in_order(),
        Way::Short => text.short(),
        Way::Long => text.long(),
        Way::Across => text.across(),
        Way::Stretch | Way::Merge => sort::source(class),
    }
}
