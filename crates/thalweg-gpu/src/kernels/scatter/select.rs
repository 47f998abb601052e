//! Lowering of scatters: chooses one of several strategies by sizes and chip alone.

use crate::kernels::gemm::select::copy_of;
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::kernels::scatter::index_sort;
use crate::kernels::scatter::params::{ChunkArguments, LineDimArguments, ScatterArguments};
use crate::kernels::scatter::{BLOCK, ScatterClass, ScatterStage};
use crate::kernels::{self, Skeleton, histogram};
use crate::params::RuntimeArgument;
use crate::space::divisor;
use crate::target::{Chip, Target};
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_ir::tunable::Tunable;
use thalweg_ir::{DType, MAX_RANK, Scalar, ScatterOp};
use thalweg_kernel::{
    Access, AccessGeometry, Body, BodyBuilder, Computed, Geometry, Kernel, MapGeometry, Moved, ScatterGeometry,
    ScatterOrder,
};
use thalweg_runtime::Error;

/// Adds a scatter, after the kernels that compute its index and its values. Operands: tensor; index or the operands of
/// its computation; values or the operands of theirs; result.
pub fn add(
    plan: &mut Plan,
    (op, dtype, order): (ScatterOp, DType, ScatterOrder),
    inputs: &[Option<Box<Computed>>; 2],
    geometry: &ScatterGeometry,
    target: &dyn Target,
) -> Result<(), Error> {
    let (mut next, mut scalars) = (1, 0);
    let mut targets = [RuntimeArgument::Operand(0, 0); 4];
    let can_count = target.chip().capabilities.dynamic_shared && has_atomics(dtype, target.chip());
    let counted = can_count && histogram::select::fits(op, dtype, geometry);
    let index = histogram::select::fused(inputs[0].as_deref(), geometry).filter(|_| counted);
    let mut of_index = vec![];
    for (n, input) in inputs.iter().enumerate() {
        if let (0, Some(input), Some(_)) = (n, input, index) {
            of_index.extend((0..input.operands as u16).map(|o| RuntimeArgument::Operand(next + o, 0)));
            next += input.operands as u16;
            scalars += input.scalars as u16;
            continue;
        }
        let Some(input) = input else {
            targets[1 + n] = RuntimeArgument::Operand(next, 0);
            next += 1;
            continue;
        };
        let own = geometry.inputs[n].as_deref().expect("a computed input has a geometry");
        plan.scratch.push(output_bytes(&input.kernel, own));
        let region = plan.scratch.len() as u16 - 1;
        let mut operands: Vec<RuntimeArgument> =
            (0..input.operands as u16).map(|o| RuntimeArgument::Operand(next + o, 0)).collect();
        operands.push(RuntimeArgument::Scratch(region, 0));
        plan.absorb(kernels::plan(&input.kernel, own, target)?, &operands, scalars);
        targets[1 + n] = RuntimeArgument::Scratch(region, 0);
        next += input.operands as u16;
        scalars += input.scalars as u16;
    }
    targets[3] = RuntimeArgument::Operand(next, 0);
    if counted {
        copy(plan, dtype, geometry, targets, target)?;
        let index = index.unwrap_or(histogram::select::Index::Lies(targets[1]));
        histogram::select::add(plan, dtype, geometry, index, (&of_index, targets[2], targets[3]), target);
        return Ok(());
    }
    let before = plan.scratch.iter().sum::<usize>();
    launches(plan, (op, dtype), order, geometry, targets, target)?;
    let scratch = plan.scratch.iter().sum::<usize>() - before;
    plan.moved += traffic::scatter(geometry, dtype.size(), scratch);
    Ok(())
}

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

/// Whether the chip updates elements of a dtype atomically.
fn has_atomics(dtype: DType, chip: &Chip) -> bool {
    dtype.size() == 4 || chip.capabilities.wide_atomics
}

/// Selects the strategy of a scatter over `lines` lines, with `rows` rows of indices to sort.
fn choose(
    (op, dtype, order): (ScatterOp, DType, ScatterOrder),
    g: &ScatterGeometry,
    [lines, rows]: [usize; 2],
    chip: &Chip,
) -> ScatterStage {
    let multiprocessors = chip.multiprocessors as usize;
    let serial = TUNABLES.max_serial_values.admits(g.n) || TUNABLES.min_busy_lines.reached_by(lines / multiprocessors);
    if serial || lines.saturating_mul(g.n) >= 1 << 37 {
        return ScatterStage::Lines(op);
    }
    let has_atomics = has_atomics(dtype, chip);
    let whole = has_atomics && matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64);
    // Additions to one element wait for each other: with many values for each, sorted ones are faster.
    let float = has_atomics
        && op == ScatterOp::Add
        && order == ScatterOrder::Any
        && matches!(dtype, DType::F32 | DType::F64)
        && TUNABLES.max_atomic_values.admits(g.n / g.size.max(1));
    if float || whole && matches!(op, ScatterOp::Add | ScatterOp::Max | ScatterOp::Min) {
        // Neighbouring threads have neighbouring indices of one line.
        let aggregated = float && chip.capabilities.warps && g.inner.is_empty() && g.n >= 32;
        let small = lines.saturating_mul(g.size) < u32::MAX as usize;
        return if aggregated && small { ScatterStage::Aggregated } else { ScatterStage::Atomic(op) };
    }
    if op == ScatterOp::Set && g.n < (1 << 31) && g.size < (1 << 31) {
        return ScatterStage::Latest;
    }
    let tiles = rows.saturating_mul(index_sort::select::tiles(g.n) * index_sort::select::passes(g.size));
    let most = 1 << 31;
    let costs = |cost: &Tunable| !cost.side(cost.get() * tiles < g.n * multiprocessors);
    if g.n >= most || g.size >= most || tiles >= most / 32 || costs(&TUNABLES.sort_cost) {
        return ScatterStage::Lines(op);
    }
    // Short runs are faster in one launch. A few elements may have many values even if the average is low; cutting
    // their runs pays from about a million values on, which take one thread 0.1 s.
    let long = TUNABLES.min_run_values.reached_by(g.n / g.size.max(1)) || TUNABLES.min_skewed_values.reached_by(g.n);
    let chunks = chip.capabilities.warps && order != ScatterOrder::Indices && g.n > TUNABLES.run_chunk.size() && long;
    if chunks { ScatterStage::Chunks(op) } else { ScatterStage::Runs(op) }
}

/// Number of neighbouring lines that a thread takes as a vector: they are contiguous and aligned in tensor, values and
/// result, and share their indices.
fn lanes(g: &ScatterGeometry, dtype: DType, [tensor, _, values, result]: [RuntimeArgument; 4]) -> usize {
    let most = (16 / dtype.size()).min(8);
    let Some(&(size, innermost)) = g.inner.last() else { return 1 };
    let others = g.outer.iter().chain(g.inner.iter().rev().skip(1)).map(|(_, strides)| strides);
    let vectors = |k: usize| {
        let mut steps = others.clone().map(|s| s[k]).chain([g.steps[k], g.base[k]]);
        innermost[k] == 1 && steps.all(|s| s % most as isize == 0)
    };
    let aligned = |word: &RuntimeArgument| match *word {
        RuntimeArgument::Operand(_, offset) | RuntimeArgument::Scratch(_, offset) => {
            offset % (most * dtype.size()) as i64 == 0
        }
        _ => true,
    };
    let own = [tensor, values, result];
    let fits = size % most == 0 && innermost[1] == 0 && [0, 2, 3].into_iter().all(vectors) && own.iter().all(aligned);
    if fits { most } else { 1 }
}

/// Scratch memory of a launch: addresses of the sorted indices (or latest ones) and of the partial results.
#[derive(Clone, Copy, Default)]
struct ScratchAddresses {
    sorted_or_latest: Option<RuntimeArgument>,
    partials: Option<RuntimeArgument>,
}

/// Adds the launch of a map, without its traffic.
fn map(
    plan: &mut Plan,
    (body, geometry): (Body, MapGeometry),
    operands: &[RuntimeArgument],
    target: &dyn Target,
) -> Result<(), Error> {
    let launch = kernels::plan(&Kernel::Map(body), &Geometry::Map(geometry), target)?;
    plan.absorb(Plan { moved: Moved::default(), ..launch }, operands, 0);
    Ok(())
}

/// Adds the copy of the tensor to the result, which is left out where they share memory. `targets`: addresses of tensor,
/// index, values and result.
fn copy(
    plan: &mut Plan,
    dtype: DType,
    g: &ScatterGeometry,
    [tensor, _, _, result]: [RuntimeArgument; 4],
    target: &dyn Target,
) -> Result<(), Error> {
    // Sizes and strides of the tensor in the order of the result, which is contiguous from its first element on; neighbours that continue each
    // other are one dimension.
    let mut dims: Vec<(usize, isize)> = vec![];
    for (size, strides) in g.outer.iter().chain([&(g.size, g.steps)]).chain(&g.inner) {
        let stride = strides[0];
        match dims.last_mut() {
            _ if *size == 1 => {}
            Some(outer) if outer.1 == stride * *size as isize => *outer = (outer.0 * size, stride),
            _ => dims.push((*size, stride)),
        }
    }
    if dims.iter().any(|d| d.0 == 0) {
        return Ok(());
    }
    // A body that copies has two dimensions at least.
    while dims.len() < 2 {
        dims.insert(0, (1, 1));
    }
    let mut strides = [0; MAX_RANK];
    let mut reach = [g.base[0]; 2];
    for (d, &(size, stride)) in dims.iter().enumerate() {
        strides[d] = stride;
        reach[usize::from(stride > 0)] += stride * (size as isize - 1);
    }
    let extents = dims.iter().map(|d| d.0).collect();
    let reach = Some((reach[0] as usize, reach[1] as usize));
    let (body, mut tiles) = copy_of(dtype, dtype, extents, (g.base[0], strides, reach), false);
    let before = plan.stages.len();
    map(plan, (body, tiles.boxes.remove(0).geometry), &[tensor, result], target)?;
    let first = match tensor {
        RuntimeArgument::Operand(o, offset) => {
            RuntimeArgument::Operand(o, offset + g.base[0] as i64 * dtype.size() as i64)
        }
        other => other,
    };
    for draft in &mut plan.stages[before..] {
        draft.unless_same = Some([first, result]);
    }
    Ok(())
}

/// Adds the launch that zeroes `count` numbers of a region of scratch memory.
fn clear(plan: &mut Plan, region: RuntimeArgument, count: usize, target: &dyn Target) -> Result<(), Error> {
    let mut b = BodyBuilder::new(false);
    let zero = b.constant(Scalar::integer(0, DType::U32), DType::U32);
    let write = b.access(Access::contiguous(0, DType::U32));
    b.store(zero, write);
    let mut strides = [0; MAX_RANK];
    strides[0] = 1;
    let access = AccessGeometry { base: 0, strides, map: None, reach: Some((0, count - 1)), distinct: count };
    map(plan, (b.finish(), MapGeometry { extents: vec![count], accesses: vec![access] }), &[region], target)
}

/// Adds the launches of a scatter: the copy of the tensor to the result, and those that apply the values. `targets`:
/// addresses of tensor, index, values and result.
fn launches(
    plan: &mut Plan,
    (op, dtype): (ScatterOp, DType),
    order: ScatterOrder,
    g: &ScatterGeometry,
    targets: [RuntimeArgument; 4],
    target: &dyn Target,
) -> Result<(), Error> {
    let (dims, rows) = dimensions(g);
    let lines: usize = dims.iter().map(|d| d.0).product();
    let all_lines = lines;
    let sizes = [dtype.size(), 8, dtype.size(), dtype.size()];
    let mut addresses = targets;
    for (i, address) in addresses.iter_mut().enumerate() {
        let base = g.base[i] as i64 * sizes[i] as i64;
        *address = match *address {
            RuntimeArgument::Operand(o, offset) => RuntimeArgument::Operand(o, offset + base),
            // Computed inputs are read through a view, too, whose base is added to the offset.
            RuntimeArgument::Scratch(region, offset) => RuntimeArgument::Scratch(region, offset + base),
            other => other,
        };
    }
    plan.checked = true;
    let most = lanes(g, dtype, addresses);
    let launch = |plan: &mut Plan, stage: ScatterStage, (threads, across): (usize, bool), scratch: ScratchAddresses| {
        // A thread takes vectors of lines only where enough threads remain to keep the chip busy.
        let vectors = match stage {
            ScatterStage::Atomic(_) | ScatterStage::Aggregated | ScatterStage::Latest => false,
            ScatterStage::Lines(_) => {
                let own = lines / most / target.chip().multiprocessors as usize;
                TUNABLES.min_busy_vectors.reached_by(own)
            }
            ScatterStage::Runs(_) | ScatterStage::Chunks(_) | ScatterStage::Join(_) | ScatterStage::Take => true,
        };
        // Indices that several lines share are read once for all of them.
        let (lines, dims) = match stage {
            ScatterStage::Latest => (rows, dims.iter().filter(|d| d.2 != 0).cloned().collect()),
            _ => (lines, dims.clone()),
        };
        let lanes = if across && vectors { most } else { 1 };
        let (lines, threads) = (lines / lanes, threads / lanes);
        // A warp of a join has the task that a thread has in other stages.
        let threads = if matches!(stage, ScatterStage::Join(_)) { 32 * threads } else { threads };
        let wide = threads >= 1 << 31;
        let by = |d: usize| if wide { [d.max(1) as u64, 0] } else { divisor(d.max(1)) };
        let beside = if matches!(stage, ScatterStage::Join(_)) { threads / 32 } else { threads } / lines;
        let dim = |(i, (d, strides, sorted)): (usize, &(usize, [isize; 4], usize))| {
            // The innermost dimension is counted in vectors.
            let vector = if i + 1 == dims.len() { lanes } else { 1 };
            let [tensor, index, values, result] = strides.map(|s| s * vector as isize);
            // The table of latest indices has `size` entries a row.
            let each = if matches!(stage, ScatterStage::Latest | ScatterStage::Take) {
                *sorted / g.n * g.size
            } else {
                *sorted
            };
            let sorted = (each * vector) as isize;
            LineDimArguments { size: by(d / vector), tensor, index, values, result, sorted }
        };
        let chunks = matches!(stage, ScatterStage::Chunks(_) | ScatterStage::Join(_)).then(|| ChunkArguments {
            partials: scratch.partials.expect("chunks have partial results"),
            lines: lines * lanes,
            length: TUNABLES.run_chunk.get(),
        });
        let [tensor, index, values, result] = addresses;
        let [tensor_stride, index_stride, values_stride, result_stride] = g.steps;
        let arguments = ScatterArguments {
            tensor,
            index,
            values,
            result,
            lines: all_lines,
            indices: g.n,
            size: g.size,
            tensor_stride,
            index_stride,
            values_stride,
            result_stride,
            fault: true,
            sorted_or_latest: scratch.sorted_or_latest,
            split: by(if across { lines } else { beside }),
            threads,
            across,
            dims: dims.iter().enumerate().map(dim).collect(),
            chunks,
        };
        let class = ScatterClass { stage, dtype, dims: dims.len() as u8, wide, lanes: lanes as u8 };
        let (grid, arguments) = ([blocks(threads, BLOCK as usize), 1, 1], arguments.fill(&class));
        plan.stages.push(Draft::new(Skeleton::Scatter(class), grid, BLOCK, 0, arguments));
    };
    let mut scratch = ScratchAddresses::default();
    // Threads are numbered in the order of the result, which is contiguous.
    let across = !g.inner.is_empty();
    let stage = choose((op, dtype, order), g, [lines, rows], target.chip());
    let putting = g.n > 0 && lines > 0;
    if stage == ScatterStage::Latest && putting {
        plan.scratch.push((4 * rows * g.size).max(64));
        scratch.sorted_or_latest = Some(RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0));
        let of_rows = across && dims.last().is_some_and(|d| d.2 != 0);
        if let Some(region) = scratch.sorted_or_latest.filter(|_| g.size > 0) {
            clear(plan, region, rows * g.size, target)?;
        }
        launch(plan, stage, (rows * g.n, of_rows), scratch);
        if g.size > 0 {
            launch(plan, ScatterStage::Take, (lines * g.size, across), scratch);
        }
        return Ok(());
    }
    copy(plan, dtype, g, targets, target)?;
    if !putting {
        return Ok(());
    }
    match stage {
        stage @ (ScatterStage::Runs(_) | ScatterStage::Chunks(_)) => {
            let of_rows: Vec<_> = dims.iter().filter(|d| d.2 != 0).map(|d| (d.0, d.1[1])).collect();
            let region = index_sort::select::add(plan, g, (rows, &of_rows), addresses[1]);
            scratch.sorted_or_latest = Some(RuntimeArgument::Scratch(region, 0));
            // Where each line has its own indices, those of one line are neighbours.
            let across = across && dims.last().is_some_and(|d| d.2 == 0);
            let ScatterStage::Chunks(op) = stage else {
                launch(plan, stage, (lines * g.n, across), scratch);
                return Ok(());
            };
            let chunks = g.n.div_ceil(TUNABLES.run_chunk.get());
            plan.scratch.push((dtype.size() * lines * chunks).max(64));
            scratch.partials = Some(RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0));
            launch(plan, stage, (lines * g.n, across), scratch);
            launch(plan, ScatterStage::Join(op), (lines * chunks, across), scratch);
        }
        stage @ (ScatterStage::Atomic(_) | ScatterStage::Aggregated) => {
            launch(plan, stage, (lines * g.n, across), scratch);
        }
        stage => launch(plan, stage, (lines, true), scratch),
    }
    Ok(())
}

/// Bytes of a scatter's input that is computed to scratch memory, row-major.
fn output_bytes(kernel: &Kernel, geometry: &Geometry) -> usize {
    let of = |body: &Body, g: &MapGeometry| {
        let last = body.accesses.len() - 1;
        g.accesses[last].reach.map_or(0, |(_, high)| (high + 1) * body.accesses[last].dtype.size())
    };
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(g)) => of(body, g),
        (Kernel::Boxes(bodies), Geometry::Boxes(all)) => {
            bodies.iter().zip(all).map(|(b, g)| of(b, g)).max().unwrap_or(0)
        }
        _ => unreachable!("an input is computed by a map"),
    }
    .max(64)
}
