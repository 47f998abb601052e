//! Lowering of merge sorts of rows of scratch memory: a launch that sorts runs, and one for each doubling of runs
//! (`write/sort.rs`).

use super::row_scan::RowScan;
use crate::class::scan::{ScanClass, Way};
use crate::class::sort::{BLOCK, STRETCH, WORDS, is_wide};
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use crate::traffic;
use std::sync::Arc;
use thalweg_ir::ScanOp;
use thalweg_kernel::Moved;

/// Adds the launches of a sort.
pub fn add(scan: RowScan, plan: &mut Plan) {
    let RowScan { op, dtype, rows, points: n, row_step, point_step, from, to, .. } = scan;
    let kernel = |way| Arc::new(Skeleton::Scan(ScanClass { way, ..scan.class() }));
    let mut region = |bytes: usize| {
        plan.scratch.push(bytes.max(64));
        plan.scratch.len() as u16 - 1
    };
    let total = rows * n;
    let parts = n.div_ceil(STRETCH).max(1);
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
    let row = n.next_power_of_two().clamp(8, STRETCH);
    let tiles = rows.div_ceil(STRETCH / row) * parts;
    let mut stage = |way, run: usize, at: usize, last: bool| {
        let mut words = vec![0; WORDS];
        words[2..10].copy_from_slice(
            &[rows, n, row_step, point_step, row.ilog2() as usize, parts, run, usize::from(last)].map(|w| w as u64),
        );
        words[15..17].copy_from_slice(&[row_step, point_step].map(|w| w as u64));
        let mut patches = vec![(0, Word::Scratch(from, 0)), (1, Word::Scratch(to, 0))];
        if let Some((keys, places)) = pairs {
            let own = [keys[at], places[at], keys[1 - at], places[1 - at]];
            patches.extend(own.iter().enumerate().map(|(i, &p)| (10 + i, Word::Scratch(p, 0))));
        }
        patches.push((14, Word::Scratch(copy.unwrap_or(from), 0)));
        if copy.is_some() {
            words[15..17].copy_from_slice(&[n as u64, 1]);
        }
        let grid = [blocks(tiles, 1).max(1), 1, 1];
        plan.stages.push(Draft { kernel: kernel(way), grid, block: BLOCK, shared: 0, words, patches });
    };
    stage(Way::Stretch, 0, 0, parts == 1);
    let (mut run, mut at) = (STRETCH, 0);
    while run < n {
        stage(Way::Merge, run, at, 2 * run >= n);
        (run, at) = (run * 2, 1 - at);
    }
}
