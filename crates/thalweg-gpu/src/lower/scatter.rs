//! Lowering of scatters: chooses one of several strategies (`write/scatter.rs`) by sizes and chip alone.

use super::scatter_sort;
use crate::class::scatter::{BLOCK, EACH, HEAD, ScatterClass, Way};
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

/// Dimensions of lines, the innermost last: extent, strides in tensor, index, values and result, and stride in sorted
/// indices (0 where lines share their indices).
type Dims = Vec<(usize, [isize; 4], usize)>;

/// Dimensions of lines, and number of sorted rows of indices: one for each line with indices of its own.
fn dimensions(g: &ScatterGeometry) -> (Dims, usize) {
    let mut rows = 1;
    let mut dims: Dims = g.outer.iter().chain(&g.inner).map(|&(d, strides)| (d, strides, 0)).collect();
    for (d, _, sorted) in dims.iter_mut().rev().filter(|d| d.1[1] != 0) {
        *sorted = g.n * rows;
        rows *= *d;
    }
    (dims, rows)
}

/// Chooses the strategy of a scatter with this many lines and sorted rows of indices.
fn choose(
    (op, dtype, ordered): (ScatterOp, DType, bool),
    g: &ScatterGeometry,
    [lines, rows]: [usize; 2],
    chip: &Chip,
) -> Way {
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
    // Short runs are faster in one launch. A few long ones among many elements are possible, and worth it from about a
    // million values on, which one thread takes 0.1 s for.
    let long = TUNABLES.min_run_values.reached_by(g.n / g.size.max(1)) || TUNABLES.min_skewed_values.reached_by(g.n);
    let pieces = !ordered && g.n > TUNABLES.piece.size() && long;
    if pieces { Way::Pieces(op) } else { Way::Runs(op) }
}

/// Number of neighbouring lines that a thread takes as a vector: they are contiguous and aligned in tensor, values and
/// result, and share their indices.
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

/// Adds a scatter. `targets`: addresses of tensor, index, values and result.
pub fn add(
    plan: &mut Plan,
    (op, dtype, ordered): (ScatterOp, DType, bool),
    g: &ScatterGeometry,
    targets: [Word; 4],
    target: &dyn Target,
) {
    launches(plan, (op, dtype), Some(ordered), g, targets, target);
}

/// Adds the copy of the tensor to the result, and nothing else.
pub fn copy(
    plan: &mut Plan,
    op: ScatterOp,
    dtype: DType,
    g: &ScatterGeometry,
    targets: [Word; 4],
    target: &dyn Target,
) {
    launches(plan, (op, dtype), None, g, targets, target);
}

fn launches(
    plan: &mut Plan,
    (op, dtype): (ScatterOp, DType),
    put: Option<bool>,
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
            // Computed inputs are read through a view, too.
            Word::Scratch(region, offset) => Word::Scratch(region, offset + base),
            other => other,
        };
        patches.push((i, word));
    }
    plan.checked = true;
    let most = lanes(g, dtype, &patches);
    let stage = |plan: &mut Plan, way: Way, (threads, across): (usize, bool), patches: Vec<(usize, Word)>| {
        // A thread takes vectors of lines only where enough threads remain to keep the chip busy.
        let vectors = match way {
            Way::AtOnce(_) | Way::Clear | Way::Latest => false,
            Way::Lines(_) => {
                let own = lines / most / target.chip().multiprocessors as usize;
                TUNABLES.min_busy_vectors.reached_by(own)
            }
            Way::Copy | Way::Runs(_) | Way::Pieces(_) | Way::Join(_) | Way::Take => true,
        };
        // Indices that several lines share are read once for all of them.
        let (lines, dims) = match way {
            Way::Latest => (rows, dims.iter().filter(|d| d.2 != 0).cloned().collect()),
            _ => (lines, dims.clone()),
        };
        let lanes = if across && vectors { most } else { 1 };
        let (lines, threads) = (lines / lanes, threads / lanes);
        // A warp has what a thread has elsewhere.
        let threads = if matches!(way, Way::Join(_)) { 32 * threads } else { threads };
        let wide = threads >= 1 << 31;
        let by = |d: usize| if wide { [d.max(1) as u64, 0] } else { divisor(d.max(1)) };
        let mut words = words.clone();
        let beside = if matches!(way, Way::Join(_)) { threads / 32 } else { threads } / lines;
        words[13..15].copy_from_slice(&by(if across { lines } else { beside }));
        words[15..17].copy_from_slice(&[threads as u64, u64::from(across)]);
        for (i, (d, strides, sorted)) in dims.iter().enumerate() {
            // The innermost dimension is counted in vectors.
            let vector = if i + 1 == dims.len() { lanes } else { 1 };
            words.extend(by(d / vector));
            words.extend(strides.map(|s| (s * vector as isize) as u64));
            // The table of the latest indices has `size` entries a row.
            let each = if matches!(way, Way::Latest | Way::Take) { *sorted / g.n * g.size } else { *sorted };
            words.push((each * vector) as u64);
        }
        if let Way::Pieces(_) | Way::Join(_) = way {
            words.extend([0, (lines * lanes) as u64, TUNABLES.piece.get() as u64]);
        }
        let kernel =
            Arc::new(Skeleton::Scatter(ScatterClass { way, dtype, dims: dims.len() as u8, wide, lanes: lanes as u8 }));
        let grid = [blocks(threads, BLOCK as usize), 1, 1];
        plan.stages.push(Draft { kernel, grid, block: BLOCK, shared: 0, words, patches });
    };
    // Threads are numbered along memory: the result is contiguous.
    let across = !g.inner.is_empty();
    let way = choose((op, dtype, put.unwrap_or_default()), g, [lines, rows], target.chip());
    let putting = put.is_some() && g.n > 0 && lines > 0;
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
        way @ (Way::Runs(_) | Way::Pieces(_)) => {
            let index = patches.iter().find(|p| p.0 == 1).map_or(targets[1], |p| p.1);
            let of_rows: Vec<_> = dims.iter().filter(|d| d.2 != 0).map(|d| (d.0, d.1[1])).collect();
            let region = scatter_sort::add(plan, g, (rows, &of_rows), index);
            patches.push((12, Word::Scratch(region, 0)));
            // Where each line has its own indices, those of one line lie side by side.
            let across = across && dims.last().is_some_and(|d| d.2 == 0);
            let Way::Pieces(op) = way else { return stage(plan, way, (lines * g.n, across), patches) };
            let pieces = g.n.div_ceil(TUNABLES.piece.get());
            plan.scratch.push((dtype.size() * lines * pieces).max(64));
            patches.push((HEAD + EACH * dims.len(), Word::Scratch(plan.scratch.len() as u16 - 1, 0)));
            stage(plan, way, (lines * g.n, across), patches.clone());
            stage(plan, Way::Join(op), (lines * pieces, across), patches);
        }
        way @ Way::AtOnce(_) => stage(plan, way, (lines * g.n, across), patches),
        way => stage(plan, way, (lines, true), patches),
    }
}
