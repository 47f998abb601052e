//! Lowering of scans of rows in scratch memory: which threads have a row, and how chunks of it are divided among
//! blocks.
//!.

use crate::kernels::Skeleton;
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::kernels::scan::params::ScanArguments;
use crate::kernels::scan::{BLOCK, POINTS, RowScan, ScanClass, ScanStrategy};
use crate::params::RuntimeArgument;
use crate::target::Target;
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_ir::ScanOp;

impl RowScan {
    /// Adds the launches of a scan to a plan.
    pub fn add(self, plan: &mut Plan, target: &dyn Target) {
        let RowScan { op, dtype, rows, points: n, .. } = self;
        if rows * n == 0 {
            return;
        }
        plan.moved += traffic::scratch((rows * n * dtype.size()) as u64);
        // A floating-point product in another order may overflow where the ordered one does not.
        if op == ScanOp::Prod && dtype.is_float() {
            return self.launch(plan, ScanStrategy::InOrder, blocks(rows, 32), 32, Division::default());
        }
        if self.point_step != 1 && self.row_step == 1 && TUNABLES.min_across_scan.reached_by(rows) {
            let most = rows.next_power_of_two();
            let deep = n.div_ceil(POINTS).next_power_of_two().clamp(1, BLOCK / most.clamp(8, 32));
            let wide = most.clamp(8, BLOCK / deep);
            return self.add_chunks(plan, target, ScanStrategy::Columns, wide, deep);
        }
        if TUNABLES.max_warp_scan.admits(n) {
            let threads = n.div_ceil(POINTS).next_power_of_two().clamp(1, 32);
            let grid = blocks(rows, BLOCK / threads);
            let division = Division { row_threads_or_chunk: threads, ..Division::default() };
            return self.launch(plan, ScanStrategy::WithinWarp, grid, BLOCK as u32, division);
        }
        // No more warps than the row has points for.
        let deep = n.div_ceil(POINTS).next_power_of_two().clamp(32, BLOCK);
        self.add_chunks(plan, target, ScanStrategy::Blocks, 1, deep);
    }

    /// Adds a scan by blocks of `wide` neighbouring rows, with `deep` threads each.
    fn add_chunks(self, plan: &mut Plan, target: &dyn Target, strategy: ScanStrategy, wide: usize, deep: usize) {
        let (turn, tiles, n) = (deep * POINTS, self.rows.div_ceil(wide), self.points);
        let chunk = n.div_ceil(TUNABLES.max_scan_chunks.size()).next_multiple_of(turn).max(turn);
        let chunks = n.div_ceil(chunk).max(1);
        let chip = target.chip().multiprocessors as usize;
        let few = tiles < 2 * chip && !TUNABLES.max_unsplit_scan.admits(n.div_ceil(turn));
        let most = if few { (4 * chip).div_ceil(tiles.max(1)) } else { 1 };
        let own = chunks.div_ceil(most);
        let shares = chunks.div_ceil(own);
        let grid = blocks(tiles * shares, 1);
        let block = (wide * deep) as u32;
        let division = Division {
            row_threads_or_chunk: chunk,
            row_blocks: shares,
            block_chunks: own,
            row_chunks: chunks,
            only_reduce: false,
            partials: None,
            block_rows: wide,
        };
        if shares == 1 {
            return self.launch(plan, strategy, grid, block, division);
        }
        // The first launch only reads the elements and stores a partial result of each chunk.
        plan.moved.read += (self.rows * n * self.dtype.size()) as u64;
        plan.moved += traffic::scratch((8 * self.rows * chunks) as u64);
        plan.scratch.push((8 * self.rows * chunks).max(64));
        let partials = Some(RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0));
        for only_reduce in [true, false] {
            self.launch(plan, strategy, grid, block, Division { only_reduce, partials, ..division });
        }
    }

    /// Adds one launch to a plan.
    fn launch(self, plan: &mut Plan, strategy: ScanStrategy, grid: u32, block: u32, division: Division) {
        let RowScan { op, reverse, dtype, .. } = self;
        let arguments = ScanArguments {
            from: RuntimeArgument::Scratch(self.from, 0),
            to: RuntimeArgument::Scratch(self.to, 0),
            rows: self.rows,
            points: self.points,
            row_stride: self.row_step,
            point_stride: self.point_step,
            row_threads_or_chunk: division.row_threads_or_chunk,
            row_blocks: division.row_blocks,
            block_chunks: division.block_chunks,
            row_chunks: division.row_chunks,
            only_reduce: division.only_reduce,
            partials: division.partials,
            block_rows: division.block_rows,
        };
        let kernel = Skeleton::Scan(ScanClass { op, reverse, dtype, strategy });
        plan.stages.push(Draft::new(kernel, [grid.max(1), 1, 1], block, 0, arguments.fill()));
    }
}

/// Values of the kernel arguments that divide rows among threads and blocks ([`ScanArguments`]).
#[derive(Clone, Copy, Default)]
struct Division {
    row_threads_or_chunk: usize,
    row_blocks: usize,
    block_chunks: usize,
    row_chunks: usize,
    only_reduce: bool,
    partials: Option<RuntimeArgument>,
    block_rows: usize,
}
