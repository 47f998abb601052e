//! Generic kernels: interpreters of bytecode that run any single operation before a kernel is compiled (unfused
//! fallback).
//!
//! In: a kernel and a geometry. Out: a [`Plan`] with the same results whose only sources are the generic kernels;
//! `None` for kernels that they do not cover. They cover maps, kernels in boxes, and rows with folds. They do not cover
//! scans, data-dependent loops, products, scatters, the user's own sources, u16, u64 and bitcasts. In strict mode they
//! do not cover sums and products of floats either, since they add elements in another order: so bits do not depend on
//! the tier.
//!
//! * `code`: bodies as instructions.
//! * `accesses`: descriptors of accesses.

mod accesses;
mod code;
#[cfg(all(test, feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod tests;

use crate::render::elements::is_native;
use crate::render::generic::{SLOT, THREADS, WORDS, has};
use crate::tunable::TUNABLES;
use accesses::Described;
use code::Assembler;
use std::sync::Arc;
use thalweg_gpu::kernels::generic::Width;
use thalweg_gpu::kernels::generic::params::{GenericArguments, GenericParams};
use thalweg_gpu::kernels::plan::MAX_BLOCKS;
use thalweg_gpu::operands::{SCRATCH, address, needs};
use thalweg_gpu::runtime::{Compiler, Unit};
use thalweg_gpu::space::Space;
use thalweg_gpu::traffic::{self, Domain};
use thalweg_gpu::{Chip, Draft, Plan, RuntimeArgument, Skeleton, Target};
use thalweg_ir::{DType, MAX_RANK};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, Fold, Geometry, Kernel, MapGeometry, Node, NodeId, Orientation, Phase,
    RowGeometry, expand, phases, reciprocals, widen,
};

/// Plans a kernel as launches of generic kernels; `None` where they do not cover it.
pub fn plan(kernel: &Kernel, geometry: &Geometry, compiler: &Compiler) -> Option<Plan> {
    let covered = match kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => is_covered(body),
        Kernel::Boxes(bodies) => bodies.iter().all(is_covered),
        _ => false,
    };
    if !covered {
        return None;
    }
    let mut plan = Plan::default();
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(geometry)) => map(&mut plan, body, geometry, compiler)?,
        (Kernel::Boxes(bodies), Geometry::Boxes(boxes)) => {
            bodies.iter().zip(boxes).try_for_each(|(b, g)| map(&mut plan, b, g, compiler))?;
        }
        (Kernel::Rows { body, orientation }, Geometry::Rows(geometry)) => {
            rows(&mut plan, body, *orientation, geometry, compiler)?;
        }
        _ => return None,
    }
    plan.stages.iter().all(|s| s.grid[0] <= MAX_BLOCKS).then_some(plan)
}

/// Whether the generic kernels support all dtypes of a body.
fn is_covered(body: &Body) -> bool {
    let nodes = (0..body.nodes.len()).map(|i| body.dtype(NodeId(i as u32)));
    nodes.chain(body.accesses.iter().map(|a| a.dtype)).all(has)
}

/// Compilation units of the four generic kernels.
pub fn units(compiler: &Compiler) -> [Arc<Unit>; 4] {
    Width::ALL.map(|width| compiler.unit(&Arc::new(Skeleton::Generic(width))))
}

/// Number of generic kernels that are compiled together: the first ones of [`Width::ALL`]. The one with f64 is compiled
/// when it is needed.
const COMMON: usize = 3;

/// Loads or compiles the generic kernels of a plan. If one of them is not on disk, the common ones are compiled with it
/// in parallel: a first run waits for that, and each of them is needed soon.
pub fn compile(needed: &[Arc<Unit>], compiler: &Compiler) {
    if compiler.missing(needed.iter()) > 0 {
        let all = units(compiler);
        compiler.compile(needed.iter().chain(&all[..COMMON]));
    }
}

fn map(plan: &mut Plan, body: &Body, geometry: &MapGeometry, compiler: &Compiler) -> Option<()> {
    let body = &expand(&widen(body), &is_native);
    plan.moved += traffic::map(body, &geometry.extents, &geometry.accesses);
    let phase = &[Phase { body: body.clone(), once: false, scans: vec![], combined: vec![] }];
    let domain = Domain { extents: &geometry.extents, kept: 0, at: &geometry.accesses };
    let n: usize = geometry.extents.iter().product();
    let with = |&width: &Width| {
        let length = points_per_block(n, width, compiler.chip());
        let shape = Shape { deep: THREADS, across: false, chunks: n.div_ceil(length), length };
        Launch { body, phases: phase, domain, width, shape, partials: &[], compiler }.draft()
    };
    push(plan, widths(phase).iter().find_map(with)?);
    needs(&mut plan.needs, body, &geometry.accesses);
    Some(())
}

/// Number of points per block of a map. A small map has one point per thread. A larger one has one to eight per lane of
/// each thread, so that a block's startup cost is spread over more points.
fn points_per_block(n: usize, width: Width, chip: &Chip) -> usize {
    let (threads, lanes) = (THREADS as usize, width.lanes());
    let all = threads * chip.multiprocessors as usize;
    if TUNABLES.max_generic_blocks.admits(n.div_ceil(all)) {
        return threads;
    }
    threads * lanes * (n / (all * lanes * 64)).clamp(1, 8)
}

fn rows(
    plan: &mut Plan,
    body: &Body,
    orientation: Orientation,
    geometry: &RowGeometry,
    compiler: &Compiler,
) -> Option<()> {
    let ordered = |f: &Fold| f.op.row().ordered && body.dtype(f.node).is_float();
    let other = !body.scans.is_empty() || !body.combined.is_empty() || body.stores.iter().any(|s| s.combine.is_some());
    if other || body.strict && body.folds.iter().any(ordered) {
        return None;
    }
    let body = &expand(&reciprocals(&widen(body)), &is_native);
    let phases = phases(body, false);
    if !phases.buffers.is_empty() {
        return None;
    }
    let list = &phases.list;
    let domain = Domain::of(geometry);
    let chips = compiler.chip().multiprocessors as usize;
    let launch = |phases, width, shape| Launch { body, phases, domain, width, shape, partials: &[], compiler };
    let with = |&width: &Width| {
        let mut own = Plan::default();
        let mut shape = Shape::new(geometry.rows(), geometry.row(), orientation == Orientation::OuterAxis, width);
        let blocks = geometry.rows().div_ceil((THREADS / shape.deep) as usize);
        let least = shape.deep as usize * width.lanes() * 2;
        let chunks = (chips * 4).div_ceil(blocks).min(geometry.row() / least).min(1024);
        if chunks > 1 && can_split(list, geometry) {
            shape.length = geometry.row().div_ceil(chunks);
            shape.chunks = geometry.row().div_ceil(shape.length);
            let split = Split { body, list, geometry, chunks: shape.chunks, width, compiler };
            let regions = split.regions(&mut own);
            push(&mut own, Launch { partials: &regions, ..launch(&list[..1], width, shape) }.draft()?);
            push(&mut own, split.rest(&regions)?);
        } else if list.len() > 1 && blocks < chips && !TUNABLES.max_generic_row.admits(geometry.row()) {
            return None;
        } else {
            push(&mut own, launch(list, width, shape).draft()?);
        }
        Some(own)
    };
    let own = widths(list).iter().find_map(with)?;
    let same: Vec<RuntimeArgument> = (0..body.operands).map(|o| RuntimeArgument::Operand(o, 0)).collect();
    plan.absorb(own, &same, 0);
    plan.moved += traffic::whole(list, domain, false, None);
    needs(&mut plan.needs, body, &geometry.accesses);
    Some(())
}

/// Adds a launch to a plan. `checked`: the launch may meet an out-of-range index.
fn push(plan: &mut Plan, (draft, checked): (Draft, bool)) {
    plan.stages.push(draft);
    plan.checked |= checked;
}

/// Candidate widths of the generic kernel, the narrowest first, whose values hold all dtypes of the phases. Any of them
/// may lack an instruction that the phases need.
fn widths(phases: &[Phase]) -> &'static [Width] {
    let mut dtypes = phases.iter().flat_map(|p| {
        let nodes = (0..p.body.nodes.len() as u32).map(|i| p.body.dtype(NodeId(i)));
        nodes.chain(p.body.stores.iter().map(|s| p.body.accesses[s.access as usize].dtype))
    });
    let long = dtypes.any(|d| matches!(d, DType::F64 | DType::I64));
    if long { &[Width::Wide, Width::Double] } else { &[Width::Narrow, Width::Functions] }
}

/// Division of rows among blocks and threads.
#[derive(Clone, Copy)]
struct Shape {
    /// Threads per row.
    deep: u32,
    /// Whether neighbouring threads process neighbouring rows. If not, they process neighbouring points of one row.
    across: bool,
    /// Number of blocks that share a row, and maximum number of points of a row per block.
    chunks: usize,
    length: usize,
}

impl Shape {
    fn new(rows: usize, n: usize, across: bool, width: Width) -> Shape {
        let needed = n.div_ceil(width.lanes()).next_power_of_two().clamp(1, THREADS as usize) as u32;
        let side = (rows.next_power_of_two() as u32).clamp(1, 32);
        let deep = if across { needed.min(THREADS / side) } else { needed };
        Shape { deep, across, chunks: 1, length: n.max(1) }
    }
}

/// Launch of a generic kernel that is being planned.
struct Launch<'a> {
    body: &'a Body,
    phases: &'a [Phase],
    domain: Domain<'a>,
    width: Width,
    shape: Shape,
    /// Indices of the scratch regions that the launch stores partial results to, one for each fold. Empty unless
    /// several blocks share a row.
    partials: &'a [u16],
    compiler: &'a Compiler,
}

impl Launch<'_> {
    /// Returns the draft of the launch, and whether the launch may meet an out-of-range index. `None` where the kernel
    /// of this width cannot run it.
    fn draft(self) -> Option<(Draft, bool)> {
        let Launch { body, domain, shape, .. } = self;
        let Domain { extents, kept, at } = domain;
        let space = Space::new(extents, kept, false, (&body.accesses, at), 1);
        let (params, layout) = GenericParams::new(&space.class, self.partials.len(), body.scalars.into());
        // Constants and instructions follow the scalars.
        let (end, scalars) = (layout.words(), layout.words() - body.scalars as usize);
        if end > WORDS {
            return None;
        }
        let described = Described::new(&params);
        let mut assembler = Assembler::new(self.width, &described, scalars, body.scalars as usize);
        for phase in self.phases {
            assembler.phase(&phase.body, phase.once, shape.deep)?;
        }
        for (f, partial) in params.stores.iter().enumerate() {
            let fold = &self.phases[0].body.folds[f];
            assembler.partial(fold.slot, self.phases[0].body.dtype(fold.node), partial.slot().word())?;
        }
        let gathers = assembler.gathers;
        let (code, begin, held) = assembler.finish()?;
        let log = shape.deep.trailing_zeros() as usize;
        let class = &space.class;
        let packed = log
            | usize::from(shape.across) << 4
            | usize::from(class.wide) << 5
            | usize::from(class.kept) << 8
            | class.rank() << 12;
        let arguments = GenericArguments {
            rows: space.rows(),
            points: space.row(),
            chunks: shape.chunks,
            chunk_points: shape.length,
            shape: packed,
            begin,
            fault: gathers,
            first_dim: params.space.dims.first().map_or(end, |dim| dim.slot().word()),
            descriptors: described.values(&body.accesses, class)?,
            space: space.arguments(&body.accesses, &|operand, offset| Some(address(operand, offset))),
            stores: self.partials.iter().map(|&p| RuntimeArgument::Scratch(p, 0)).collect(),
            numbers: (0..body.scalars).map(RuntimeArgument::Scalar).collect(),
        };
        let mut arguments = arguments.fill(class, self.partials.len(), body.scalars.into());
        arguments.words.extend(code);
        arguments.words.resize(WORDS, 0);
        let blocks = space.rows().div_ceil((THREADS / shape.deep) as usize).checked_mul(shape.chunks)?;
        let grid = [u32::try_from(blocks).ok()?, 1, 1];
        let shared = (held * SLOT) as u32;
        if shared > self.compiler.chip().shared {
            return None;
        }
        Some((Draft::new(Skeleton::Generic(self.width), grid, THREADS, shared, arguments), gathers))
    }
}

/// Whether several blocks may share a row. Requires that all folds are in the first pass, which stores nothing, and
/// that all later phases run once a row and use no index maps.
fn can_split(list: &[Phase], geometry: &RowGeometry) -> bool {
    let Some((first, rest)) = list.split_first() else { return false };
    let mapped = |p: &Phase| {
        let loads = p.body.nodes.iter().filter_map(Node::access).chain(p.body.stores.iter().map(|s| s.access));
        loads.into_iter().any(|a| geometry.accesses[a as usize].map.is_some())
    };
    let alone = !first.once && first.body.stores.is_empty() && !first.body.folds.is_empty();
    alone && geometry.extents.len() < MAX_RANK && rest.iter().all(|p| p.once && !mapped(p))
}

/// Plan of rows that several blocks share: each block stores its partial results, and a second launch combines them.
struct Split<'a> {
    body: &'a Body,
    list: &'a [Phase],
    geometry: &'a RowGeometry,
    chunks: usize,
    width: Width,
    compiler: &'a Compiler,
}

impl Split<'_> {
    fn folds(&self) -> &[Fold] {
        &self.list[0].body.folds
    }

    fn dtype(&self, fold: &Fold) -> DType {
        self.list[0].body.dtype(fold.node)
    }

    /// Adds a scratch region for the partial results of each fold; returns the indices of the regions.
    fn regions(&self, plan: &mut Plan) -> Vec<u16> {
        let mut region = |fold: &Fold| {
            let bytes = self.geometry.rows() * self.chunks * self.dtype(fold).size();
            plan.scratch.push(bytes.max(64));
            plan.moved += traffic::scratch(bytes as u64);
            plan.scratch.len() as u16 - 1
        };
        self.folds().iter().map(&mut region).collect()
    }

    /// Plans the second launch, which combines the partial results and runs the later phases.
    fn rest(&self, regions: &[u16]) -> Option<(Draft, bool)> {
        let kept = self.geometry.kept;
        let mut extents = self.geometry.extents[..kept].to_vec();
        extents.push(self.chunks);
        let mut body = Body { nodes: vec![], stores: vec![], folds: vec![], ..self.list[0].body.clone() };
        let mut at: Vec<AccessGeometry> = self.geometry.accesses.clone();
        for own in &mut at {
            own.strides[kept..].fill(0);
        }
        let mut strides = [0isize; MAX_RANK];
        let mut step = 1;
        for d in (0..extents.len()).rev() {
            strides[d] = step;
            step *= extents[d] as isize;
        }
        for (fold, &region) in self.folds().iter().zip(regions) {
            let (operand, dtype) = (Some(SCRATCH + region), self.dtype(fold));
            body.accesses.push(Access { operand, dtype, class: AccessClass::Contiguous, per_row: false });
            at.push(AccessGeometry { base: 0, strides, map: None, reach: None, distinct: step as usize });
            body.nodes.push(Node::Load { access: body.accesses.len() as u16 - 1 });
            body.folds.push(Fold { node: NodeId(body.nodes.len() as u32 - 1), ..*fold });
        }
        let mut list = vec![Phase { body, once: false, scans: vec![], combined: vec![] }];
        list.extend(self.list[1..].iter().cloned());
        let body = Body { scalars: self.body.scalars, ..list[0].body.clone() };
        let shape = Shape::new(self.geometry.rows(), self.chunks, false, self.width);
        let domain = Domain { extents: &extents, kept, at: &at };
        let (phases, width, compiler) = (&list[..], self.width, self.compiler);
        Launch { body: &body, phases, domain, width, shape, partials: &[], compiler }.draft()
    }
}
