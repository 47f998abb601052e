//! Scatters for the sizes at hand: one of several ways (`write/scatter.rs`), by sizes and chip alone.

use super::scatter_sort;
use crate::class::scatter::{BLOCK, HEAD, ScatterClass, Way};
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use crate::space::divisor;
use crate::target::Chip;
use crate::target::Target;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_ir::tunable::Tunable;
use thalweg_ir::{DType, ScatterOp};
use thalweg_kernel::ScatterGeometry;

/// The dimensions of lines, the innermost last: size, strides of the four, and stride in sorted indices (0 where all
/// have the same).
type Dims = Vec<(usize, [isize; 4], usize)>;

/// The dimensions of lines, and how many sorted rows of indices there are: one for each line whose indices are its own.
fn dimensions(g: &ScatterGeometry) -> (Dims, usize) {
    let mut rows = 1;
    let mut dims: Dims = g.outer.iter().chain(&g.inner).map(|&(d, strides)| (d, strides, 0)).collect();
    for (d, _, sorted) in dims.iter_mut().rev().filter(|d| d.1[1] != 0) {
        *sorted = g.n * rows;
        rows *= *d;
    }
    (dims, rows)
}

/// The way for a scatter whose indices are these many sorted rows.
fn choose(op: ScatterOp, dtype: DType, g: &ScatterGeometry, [lines, rows]: [usize; 2], chip: &Chip) -> Way {
    let multiprocessors = chip.multiprocessors as usize;
    let serial = TUNABLES.max_serial_values.admits(g.n) || TUNABLES.min_busy_lines.reached_by(lines / multiprocessors);
    if serial || lines.saturating_mul(g.n) >= 1 << 37 {
        return Way::Lines(op);
    }
    let atomic = matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64);
    if atomic && matches!(op, ScatterOp::Add | ScatterOp::Max | ScatterOp::Min) {
        return Way::AtOnce(op);
    }
    if op == ScatterOp::Set && g.n < (1 << 31) && g.size < (1 << 31) {
        return Way::Latest;
    }
    let tiles = rows.saturating_mul(scatter_sort::tiles(g.n) * scatter_sort::passes(g.size));
    let most = 1 << 31;
    let costs = |cost: &Tunable| !cost.side(cost.get() * tiles < g.n * multiprocessors);
    if g.n >= most || g.size >= most || tiles >= most / 32 || costs(&TUNABLES.sort_cost) {
        return Way::Lines(op);
    }
    Way::Runs(op)
}

/// Lines that a thread takes as a vector: they lie side by side in tensor, values and result, each vector on its own size,
/// and have their indices in common.
fn lanes(g: &ScatterGeometry, dtype: DType, targets: &[(usize, Word)]) -> usize {
    let most = (16 / dtype.size()).min(8);
    let Some(&(size, innermost)) = g.inner.last() else { return 1 };
    let others = g.outer.iter().chain(g.inner.iter().rev().skip(1)).map(|(_, strides)| strides);
    let vectors = |k: usize| {
        let mut steps = others.clone().map(|s| s[k]).chain([g.steps[k], g.base[k]]);
        innermost[k] == 1 && steps.all(|s| s % most as isize == 0)
    };
    let aligned = |&(_, word): &(usize, Word)| match word {
        Word::Operand(_, offset) | Word::Scratch(_, offset) => offset % (most * dtype.size()) as i64 == 0,
        _ => true,
    };
    let own = targets.iter().filter(|(at, _)| [0, 2, 3].contains(at));
    let fits = size % most == 0 && innermost[1] == 0 && [0, 2, 3].into_iter().all(vectors) && own.clone().all(aligned);
    if fits { most } else { 1 }
}

/// Adds a scatter. `targets`: where tensor, index, values and result are.
pub fn add(plan: &mut Plan, op: ScatterOp, dtype: DType, g: &ScatterGeometry, targets: [Word; 4], target: &dyn Target) {
    launches(plan, (op, dtype, true), g, targets, target);
}

/// Adds what brings the tensor to where the result is, and nothing else.
pub fn copy(
    plan: &mut Plan,
    op: ScatterOp,
    dtype: DType,
    g: &ScatterGeometry,
    targets: [Word; 4],
    target: &dyn Target,
) {
    launches(plan, (op, dtype, false), g, targets, target);
}

fn launches(
    plan: &mut Plan,
    (op, dtype, put): (ScatterOp, DType, bool),
    g: &ScatterGeometry,
    targets: [Word; 4],
    target: &dyn Target,
) {
    let (dims, rows) = dimensions(g);
    let lines: usize = dims.iter().map(|d| d.0).product();
    let mut words = vec![0u64; HEAD];
    words[4..7].copy_from_slice(&[lines, g.n, g.size].map(|v| v as u64));
    words[7..11].copy_from_slice(&g.steps.map(|s| s as u64));
    let sizes = [dtype.size(), 8, dtype.size(), dtype.size()];
    let mut patches = vec![(11, Word::Fault)];
    for (i, target) in targets.into_iter().enumerate() {
        let base = g.base[i] as i64 * sizes[i] as i64;
        let word = match target {
            Word::Operand(o, offset) => Word::Operand(o, offset + base),
            // What is computed is read through a view, too.
            Word::Scratch(region, offset) => Word::Scratch(region, offset + base),
            other => other,
        };
        patches.push((i, word));
    }
    plan.checked = true;
    let most = lanes(g, dtype, &patches);
    let stage = |plan: &mut Plan, way: Way, (threads, across): (usize, bool), patches: Vec<(usize, Word)>| {
        // Where a thread has whole lines, it takes enough of them to keep the chip busy.
        let vectors = match way {
            Way::AtOnce(_) | Way::Clear | Way::Latest => false,
            Way::Lines(_) => {
                let own = lines / most / target.chip().multiprocessors as usize;
                TUNABLES.min_busy_vectors.reached_by(own)
            }
            Way::Copy | Way::Runs(_) | Way::Take => true,
        };
        // Indices are looked at once for all lines that have them in common.
        let (lines, dims) = match way {
            Way::Latest => (rows, dims.iter().filter(|d| d.2 != 0).cloned().collect()),
            _ => (lines, dims.clone()),
        };
        let lanes = if across && vectors { most } else { 1 };
        let (lines, threads) = (lines / lanes, threads / lanes);
        let wide = threads >= 1 << 31;
        let by = |d: usize| if wide { [d.max(1) as u64, 0] } else { divisor(d.max(1)) };
        let mut words = words.clone();
        words[13..15].copy_from_slice(&by(if across { lines } else { threads / lines }));
        words[15..17].copy_from_slice(&[threads as u64, u64::from(across)]);
        for (i, (d, strides, sorted)) in dims.iter().enumerate() {
            // The innermost one is numbered by vectors.
            let vector = if i + 1 == dims.len() { lanes } else { 1 };
            words.extend(by(d / vector));
            words.extend(strides.map(|s| (s * vector as isize) as u64));
            // Of the latest a row has as many as places.
            let each = if matches!(way, Way::Latest | Way::Take) { *sorted / g.n * g.size } else { *sorted };
            words.push((each * vector) as u64);
        }
        let kernel =
            Arc::new(Skeleton::Scatter(ScatterClass { way, dtype, dims: dims.len() as u8, wide, lanes: lanes as u8 }));
        let grid = [blocks(threads, BLOCK as usize), 1, 1];
        plan.stages.push(Draft { kernel, grid, block: BLOCK, shared: 0, words, patches });
    };
    // Neighbours in memory are neighbouring threads: the result is contiguous.
    let across = !g.inner.is_empty();
    let way = choose(op, dtype, g, [lines, rows], target.chip());
    let putting = put && g.n > 0 && lines > 0;
    if way == Way::Latest && putting {
        plan.scratch.push((4 * rows * g.size).max(64));
        patches.push((12, Word::Scratch(plan.scratch.len() as u16 - 1, 0)));
        let of_rows = across && dims.last().is_some_and(|d| d.2 != 0);
        if g.size == 0 {
            return stage(plan, way, (rows * g.n, of_rows), patches);
        }
        stage(plan, Way::Clear, (rows * g.size, false), patches.clone());
        stage(plan, way, (rows * g.n, of_rows), patches.clone());
        return stage(plan, Way::Take, (lines * g.size, across), patches);
    }
    if lines * g.size > 0 {
        stage(plan, Way::Copy, (lines * g.size, across), patches.clone());
    }
    if !putting {
        return;
    }
    match way {
        way @ Way::Runs(_) => {
            let index = patches.iter().find(|p| p.0 == 1).map_or(targets[1], |p| p.1);
            let of_rows: Vec<_> = dims.iter().filter(|d| d.2 != 0).map(|d| (d.0, d.1[1])).collect();
            let region = scatter_sort::add(plan, g, (rows, &of_rows), index);
            patches.push((12, Word::Scratch(region, 0)));
            // Where each line has its own indices, those of one line lie side by side.
            let across = across && dims.last().is_some_and(|d| d.2 == 0);
            stage(plan, way, (lines * g.n, across), patches);
        }
        way @ Way::AtOnce(_) => stage(plan, way, (lines * g.n, across), patches),
        way => stage(plan, way, (lines, true), patches),
    }
}
