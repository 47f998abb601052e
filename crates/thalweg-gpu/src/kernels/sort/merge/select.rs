//! Lowering of merge sorts of rows of scratch memory: a launch that sorts runs, and one for each doubling of runs.
//!.

use crate::kernels::Skeleton;
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::kernels::scan::RowScan;
use crate::kernels::sort::keys::is_wide;
use crate::kernels::sort::merge::params::MergeSortArguments;
use crate::kernels::sort::merge::{BLOCK, RUN};
use crate::kernels::sort::{SortClass, SortPass};
use crate::params::RuntimeArgument;
use crate::traffic;
use thalweg_ir::ScanOp;
use thalweg_kernel::Moved;

/// Adds the launches of a merge sort to a plan.
pub fn add(scan: RowScan, plan: &mut Plan) {
    let RowScan { op, dtype, rows, points: n, row_step, point_step, from, to, .. } = scan;
    let mut region = |bytes: usize| {
        plan.scratch.push(bytes.max(64));
        plan.scratch.len() as u16 - 1
    };
    let total = rows * n;
    let parts = n.div_ceil(RUN).max(1);
    let pairs = (parts > 1).then(|| {
        let keys = [0; 2].map(|_| region(if is_wide(dtype) { 8 } else { 4 } * total));
        (keys, [0; 2].map(|_| region(4 * total)))
    });
    // The result may alias the elements, and some blocks still read them when the first one writes.
    let copy = (parts > 1 && op == ScanOp::Sort && from == to).then(|| region(dtype.size() * total));
    // Keys and indices go through memory before each merge; the result's elements are gathered by index.
    let (elements, merges) = ((total * dtype.size()) as u64, parts.next_power_of_two().ilog2() as u64);
    let pair = ((if is_wide(dtype) { 12 } else { 8 }) * total) as u64;
    let (again, result) = if op == ScanOp::Sort { (elements, elements) } else { (0, 8 * total as u64) };
    plan.moved += Moved { read: elements + again, written: result, ..Moved::default() };
    plan.moved += traffic::scratch(merges * pair);
    plan.moved.written += copy.map_or(0, |_| elements);
    let row = n.next_power_of_two().clamp(8, RUN);
    let tiles = rows.div_ceil(RUN / row) * parts;
    let mut stage = |pass, run: usize, at: usize, last: bool| {
        let scratch = |region: u16| RuntimeArgument::Scratch(region, 0);
        let pair = |of: usize| pairs.map(|(keys, indices)| [scratch(keys[of]), scratch(indices[of])]);
        let (runs, merged) = (pair(at), pair(1 - at));
        let [elements_row_stride, elements_point_stride] = if copy.is_some() { [n, 1] } else { [row_step, point_step] };
        let arguments = MergeSortArguments {
            from: scratch(from),
            to: scratch(to),
            rows,
            points: n,
            row_stride: row_step,
            point_stride: point_step,
            log_row: row.ilog2() as usize,
            row_blocks: parts,
            run,
            last,
            run_keys: runs.map(|r| r[0]),
            run_indices: runs.map(|r| r[1]),
            merged_keys: merged.map(|m| m[0]),
            merged_indices: merged.map(|m| m[1]),
            elements: scratch(copy.unwrap_or(from)),
            elements_row_stride,
            elements_point_stride,
        };
        let grid = [blocks(tiles, 1).max(1), 1, 1];
        let kernel = Skeleton::Sort(SortClass { op, descending: scan.reverse, dtype, pass });
        plan.stages.push(Draft::new(kernel, grid, BLOCK, 0, arguments.fill()));
    };
    stage(SortPass::Runs, 0, 0, parts == 1);
    let (mut run, mut at) = (RUN, 0);
    while run < n {
        stage(SortPass::Merge, run, at, 2 * run >= n);
        (run, at) = (run * 2, 1 - at);
    }
}
