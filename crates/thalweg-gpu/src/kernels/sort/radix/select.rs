//! Lowering of radix sorts of rows of scratch memory: a launch that counts, and one for each digit.

use crate::kernels::Skeleton;
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::kernels::scan::RowScan;
use crate::kernels::sort::radix::params::RadixSortArguments;
use crate::kernels::sort::radix::{DIGITS, passes, tile};
use crate::kernels::sort::{SortClass, SortPass};
use crate::params::RuntimeArgument;
use crate::target::{COUNTERS, Target};
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_ir::ScanOp;
use thalweg_ir::tunable::Tunable;
use thalweg_kernel::Moved;

/// Maximum number of points of a row at which merges take no more launches than radix passes, for elements of `size`
/// bytes.
fn merged(size: usize) -> &'static Tunable {
    match size {
        1 => &TUNABLES.max_merged_1,
        2 => &TUNABLES.max_merged_2,
        4 => &TUNABLES.max_merged_4,
        _ => &TUNABLES.max_merged_8,
    }
}

/// Whether rows are long enough for a radix sort to be faster than a merge sort.
pub fn fits(sort: &RowScan) -> bool {
    let counters = sort.rows.saturating_mul(passes(sort.dtype) * DIGITS + 1);
    let tiles = sort.rows.saturating_mul(sort.points.div_ceil(tile(sort.dtype)));
    let counted = sort.points < 1 << 31 && counters <= COUNTERS && tiles < 1 << 31;
    counted && !merged(sort.dtype.size()).admits(sort.points)
}

/// Adds the launches of a radix sort to a plan.
pub fn add(sort: RowScan, plan: &mut Plan, target: &dyn Target) {
    let RowScan { op, dtype, rows, points: n, .. } = sort;
    let (passes, tiles, total) = (passes(dtype), n.div_ceil(tile(dtype)), rows * n);
    let places = op == ScanOp::Argsort;
    let mut region = |bytes: usize| {
        plan.scratch.push(bytes.max(64));
        RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0)
    };
    let starts = region(4 * rows * passes * (DIGITS + 1));
    let elements = [0; 2].map(|_| region(dtype.size() * total));
    let own_places = [0; 2].map(|_| if places { region(4 * total) } else { starts });
    // Traffic without skipped passes; the last pass writes the result.
    let (element, place) = ((dtype.size() * total) as u64, if places { 4 * total as u64 } else { 0 });
    let result = if places { 8 * total as u64 } else { element };
    plan.moved += Moved { read: 2 * element, written: result, ..Moved::default() };
    plan.moved += traffic::scratch((passes as u64 - 1) * (element + place));
    let chip = target.chip().multiprocessors as usize;
    let shares = (2 * chip).div_ceil(rows.max(1)).min(tiles);
    let mut stage = |pass, grid: usize, row_blocks_or_pass: usize, counters_or_exchange: RuntimeArgument| {
        let arguments = RadixSortArguments {
            from: RuntimeArgument::Scratch(sort.from, 0),
            to: RuntimeArgument::Scratch(sort.to, 0),
            rows,
            points: n,
            row_stride: sort.row_step,
            point_stride: sort.point_step,
            tiles,
            row_blocks_or_pass,
            digit_offsets: starts,
            first_elements: elements[0],
            second_elements: elements[1],
            first_indices: own_places[0],
            second_indices: own_places[1],
            counters_or_exchange,
        };
        let kernel = Skeleton::Sort(SortClass { op, descending: sort.reverse, dtype, pass });
        plan.stages.push(Draft::new(kernel, [blocks(grid, 1), 1, 1], DIGITS as u32, 0, arguments.fill()));
    };
    stage(SortPass::Histogram, rows * shares, shares, RuntimeArgument::Counters);
    let told = RuntimeArgument::Exchange(8 * (8 + rows * tiles * DIGITS));
    (0..passes).for_each(|pass| stage(SortPass::Digit, rows * tiles, pass, told));
}
