//! Lowering of scans of rows in scratch memory: which threads have a row, and how chunks of it are divided among blocks
//! (`write/scan.rs`).

use super::row_scan::RowScan;
use super::sort;
use crate::class::scan::{BLOCK, POINTS, ScanClass, WORDS, Way};
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use crate::target::Target;
use crate::traffic;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_ir::ScanOp;

impl RowScan {
    /// Adds the launches.
    pub fn add(self, plan: &mut Plan, target: &dyn Target) {
        let RowScan { op, dtype, rows, points: n, .. } = self;
        if rows * n == 0 {
            return;
        }
        if matches!(op, ScanOp::Sort | ScanOp::Argsort) {
            if self.is_radix() {
                return self.add_radix(plan, target);
            }
            return sort::add(self, plan);
        }
        plan.moved += traffic::scratch((rows * n * dtype.size()) as u64);
        // Products of floats in another order may overflow where they would underflow.
        if op == ScanOp::Prod && dtype.is_float() {
            return self.draft(plan, Way::InOrder, blocks(rows, 32), 32, &[]);
        }
        if self.point_step != 1 && self.row_step == 1 && TUNABLES.min_across_scan.reached_by(rows) {
            let most = rows.next_power_of_two();
            let deep = n.div_ceil(POINTS).next_power_of_two().clamp(1, BLOCK / most.clamp(8, 32));
            let wide = most.clamp(8, BLOCK / deep);
            return self.add_chunks(plan, target, Way::Across, wide, deep);
        }
        if TUNABLES.max_warp_scan.admits(n) {
            let threads = n.div_ceil(POINTS).next_power_of_two().clamp(1, 32);
            let grid = blocks(rows, BLOCK / threads);
            return self.draft(plan, Way::Short, grid, BLOCK as u32, &[threads]);
        }
        // No more warps than there are points for.
        let deep = n.div_ceil(POINTS).next_power_of_two().clamp(32, BLOCK);
        self.add_chunks(plan, target, Way::Long, 1, deep);
    }

    /// Adds blocks of `wide` neighbouring rows, with `deep` threads each.
    fn add_chunks(self, plan: &mut Plan, target: &dyn Target, way: Way, wide: usize, deep: usize) {
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
        if shares == 1 {
            return self.draft(plan, way, grid, block, &[chunk, 1, own, chunks, 0, 0, wide]);
        }
        // The first launch only reads the elements and stores a partial result of each chunk.
        plan.moved.read += (self.rows * n * self.dtype.size()) as u64;
        plan.moved += traffic::scratch((8 * self.rows * chunks) as u64);
        plan.scratch.push((8 * self.rows * chunks).max(64));
        let region = plan.scratch.len() as u16 - 1;
        for fold in [1, 0] {
            self.draft(plan, way, grid, block, &[chunk, shares, own, chunks, fold, 0, wide]);
            if let Some(stage) = plan.stages.last_mut() {
                stage.patches.push((11, Word::Scratch(region, 0)));
            }
        }
    }

    /// Adds a launch with these words after the sizes.
    fn draft(self, plan: &mut Plan, way: Way, grid: u32, block: u32, more: &[usize]) {
        let mut words = vec![0; WORDS];
        let sizes = [self.rows, self.points, self.row_step, self.point_step];
        words[2..].iter_mut().zip(sizes.iter().chain(more)).for_each(|(w, &v)| *w = v as u64);
        let patches = vec![(0, Word::Scratch(self.from, 0)), (1, Word::Scratch(self.to, 0))];
        let kernel = Arc::new(Skeleton::Scan(ScanClass { way, ..self.class() }));
        plan.stages.push(Draft { kernel, grid: [grid.max(1), 1, 1], block, shared: 0, words, patches });
    }
}
