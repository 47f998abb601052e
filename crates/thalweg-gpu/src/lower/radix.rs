//! Lowering of radix sorts of rows of scratch memory: a launch that counts, and one for each digit (`write/radix.rs`).

use super::row_scan::RowScan;
use crate::class::radix::{DIGITS, WORDS, passes, tile};
use crate::class::scan::{ScanClass, Way};
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use crate::target::COUNTERS;
use crate::target::Target;
use crate::traffic;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_ir::ScanOp;
use thalweg_ir::tunable::Tunable;
use thalweg_kernel::Moved;

/// Points of a row of such elements up to which merges are not more launches than passes.
fn merged(size: usize) -> &'static Tunable {
    match size {
        1 => &TUNABLES.max_merged_1,
        2 => &TUNABLES.max_merged_2,
        4 => &TUNABLES.max_merged_4,
        _ => &TUNABLES.max_merged_8,
    }
}

impl RowScan {
    /// Whether its rows are so long that radix passes take less time than merges.
    pub fn is_radix(&self) -> bool {
        let counters = self.rows.saturating_mul(passes(self.dtype) * DIGITS + 1);
        let tiles = self.rows.saturating_mul(self.points.div_ceil(tile(self.dtype)));
        let counted = self.points < 1 << 31 && counters <= COUNTERS && tiles < 1 << 31;
        counted && !merged(self.dtype.size()).admits(self.points)
    }

    /// Adds the launches of a radix sort.
    pub fn add_radix(self, plan: &mut Plan, target: &dyn Target) {
        let RowScan { op, dtype, rows, points: n, .. } = self;
        let (passes, tiles, total) = (passes(dtype), n.div_ceil(tile(dtype)), rows * n);
        let places = op == ScanOp::Argsort;
        let mut region = |bytes: usize| {
            plan.scratch.push(bytes.max(64));
            Word::Scratch(plan.scratch.len() as u16 - 1, 0)
        };
        let starts = region(4 * rows * passes * (DIGITS + 1));
        let elements = [0; 2].map(|_| region(dtype.size() * total));
        let own_places = [0; 2].map(|_| if places { region(4 * total) } else { starts });
        // Traffic if no pass is skipped; the last pass writes the result.
        let (element, place) = ((dtype.size() * total) as u64, if places { 4 * total as u64 } else { 0 });
        let result = if places { 8 * total as u64 } else { element };
        plan.moved += Moved { read: 2 * element, written: result, ..Moved::default() };
        plan.moved += traffic::scratch((passes as u64 - 1) * (element + place));
        let chip = target.chip().multiprocessors as usize;
        let shares = (2 * chip).div_ceil(rows.max(1)).min(tiles);
        let mut stage = |way, grid: usize, which: usize, shared: Word| {
            let mut words = vec![0; WORDS];
            let sizes = [rows, n, self.row_step, self.point_step, tiles, which];
            words[2..8].iter_mut().zip(sizes).for_each(|(w, v)| *w = v as u64);
            let mut patches = vec![(0, Word::Scratch(self.from, 0)), (1, Word::Scratch(self.to, 0)), (8, starts)];
            patches.extend((9..).zip(elements.iter().chain(&own_places).copied()));
            patches.push((13, shared));
            let kernel = Arc::new(Skeleton::Scan(ScanClass { way, ..self.class() }));
            let grid = [blocks(grid, 1), 1, 1];
            plan.stages.push(Draft { kernel, grid, block: DIGITS as u32, shared: 0, words, patches });
        };
        stage(Way::Count, rows * shares, shares, Word::Counters);
        let told = Word::Told(8 * (8 + rows * tiles * DIGITS));
        (0..passes).for_each(|pass| stage(Way::Pass, rows * tiles, pass, told));
    }
}
