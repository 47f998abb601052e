//! Lowering of tiled GEMMs: a contraction as one kernel over tiles of its result.

use crate::body::gathers;
use crate::kernels::Skeleton;
use crate::kernels::gemm::params::{
    BatchArguments, CopyArguments, FactorArguments, GemmArguments, ProblemArguments, SplitArguments,
};
use crate::kernels::gemm::{BodyClass, Copies, FactorClass, GemmClass, Math, Split, Tile};
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::operands::{BodyArguments, needs as body_needs};
use crate::params::RuntimeArgument;
use crate::space::{Space, divisor};
use crate::target::{Chip, Target};
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, MAX_RANK};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Contraction, ContractionGeometry, Kernel, MapGeometry,
    MatmulGeometry, Moved, Node, Precision, TileBox, TileGeometry, expand, widen_sums,
};
use thalweg_runtime::Error;

/// Bytes of a vector copy from global to shared memory (`cp.async`), which bypasses registers.
pub const COPY: usize = 16;
/// Element sizes in bytes of single-element copies for CUDA cores.
const ELEMENT_COPY_SIZES: [usize; 2] = [4, 8];
/// Element sizes in bytes of copies for tensor cores.
pub const NARROW_COPY_SIZES: [usize; 1] = [2];
/// Element sizes in bytes of copies through registers.
const STAGED_COPY_SIZES: [usize; 4] = [1, 2, 4, 8];
/// Maximum number of rows, of columns, and of terms of all steps in flight, of a tile.
const MAX_TILE_SIDE: usize = 512;
/// Operand index that stands for accumulators, or for results in shared memory.
const NO_OPERAND: u16 = u16::MAX;

/// Whether the contraction can be one kernel: its bodies are maps that are not cut into boxes.
pub fn fits(c: &Contraction, g: &ContractionGeometry) -> bool {
    let map = |k: &Kernel, tiles: &TileGeometry| matches!(k, Kernel::Map(_)) && tiles.boxes.len() == 1;
    let factors = c.factors.iter().zip(&g.factors);
    let mut factors = factors.filter_map(|(f, t)| f.as_deref().zip(t.as_deref()));
    let epilogue = c.epilogue.as_deref().zip(g.epilogue.as_deref());
    is_counted(&g.product)
        && factors.all(|(f, t)| f.inner.is_none() && map(&f.kernel, t))
        && epilogue.is_none_or(|(e, t)| map(&e.kernel, t))
}

/// Whether the indices of rows, columns and terms fit 32 bits, including the out-of-bounds indices of the last tile.
pub fn is_counted(p: &MatmulGeometry) -> bool {
    [p.m, p.n, p.k].iter().all(|&n| n <= i32::MAX as usize - MAX_TILE_SIDE)
}

/// Whether a pitch fits 32 bits, as `cp.async` copies require.
pub fn is_pitch(pitch: isize) -> bool {
    i32::try_from(pitch).is_ok()
}

/// Arithmetic by which a chip computes a contraction.
pub fn math(c: &Contraction, chip: &Chip) -> Math {
    match (c.dtype, c.precision) {
        (_, Precision::Ordered) => Math::Plain,
        (DType::BF16 | DType::F16, _) if chip.capabilities.warpgroup_matrix => Math::Warpgroup,
        (DType::BF16 | DType::F16, _) if chip.capabilities.warp_matrix => Math::Narrow,
        (DType::F32, Precision::Tf32) if chip.capabilities.warp_matrix => Math::Tf32,
        _ => Math::Plain,
    }
}

/// Whether this many blocks keep the chip busy (`busy_percent`).
pub fn is_busy(blocks: usize, chip: &Chip) -> bool {
    let percent = &TUNABLES.busy_percent;
    !percent.side(100 * blocks < percent.get() * chip.multiprocessors as usize)
}

/// Chooses the tile of a contraction: a large one if the result has enough large tiles to keep the chip busy.
pub fn shape(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> Tile {
    let p = &g.product;
    let few_rows = TUNABLES.max_flat_rows.admits(p.m);
    let large = !few_rows && is_busy(g.batches() * p.m.div_ceil(128) * p.n.div_ceil(128), chip);
    let huge = is_busy(g.batches() * p.m.div_ceil(128) * p.n.div_ceil(256), chip);
    let wide = c.accumulator().size() > 4;
    // Few rows and many columns, as a convolution of few channels has.
    let flat = few_rows && is_busy(g.batches() * p.n.div_ceil(256), chip);
    match math(c, chip) {
        Math::Plain if !chip.capabilities.async_copies => staged(c, g, chip),
        Math::Plain if flat && !wide => Tile { m: 64, n: 256, k: 16, warps: [2, 4], stages: 3, blocks: 2 },
        Math::Tf32 if flat => Tile { m: 64, n: 256, k: 16, warps: [2, 4], stages: 3, blocks: 2 },
        Math::Warpgroup if flat => Tile { m: 64, n: 128, k: 64, warps: [4, 1], stages: 3, blocks: 3 },
        Math::Plain if large && !wide => Tile { m: 128, n: 128, k: 16, warps: [2, 4], stages: 3, blocks: 2 },
        Math::Plain => Tile { m: 64, n: 64, k: 16, warps: [2, 4], stages: 3, blocks: 2 },
        Math::Warpgroup if huge => Tile { m: 128, n: 256, k: 64, warps: [8, 1], stages: 4, blocks: 1 },
        Math::Warpgroup if large => Tile { m: 128, n: 128, k: 64, warps: [8, 1], stages: 3, blocks: 2 },
        Math::Warpgroup => Tile { m: 64, n: 64, k: 64, warps: [4, 1], stages: 4, blocks: 3 },
        Math::Narrow if large => Tile { m: 128, n: 128, k: 32, warps: [2, 4], stages: 3, blocks: 2 },
        Math::Narrow => Tile { m: 64, n: 64, k: 32, warps: [2, 2], stages: 4, blocks: 3 },
        Math::Tf32 if large => Tile { m: 128, n: 128, k: 16, warps: [2, 4], stages: 3, blocks: 2 },
        Math::Tf32 => Tile { m: 64, n: 64, k: 16, warps: [2, 2], stages: 4, blocks: 3 },
    }
}

/// Number of pipeline stages of tiles whose operands are copied through registers: one is multiplied while the other is
/// filled.
const STAGED_BUFFERS: u32 = 2;

/// Sides of tiles whose operands are copied through registers: rows and columns.
const STAGED_SIDES: [[u32; 2]; 12] = [
    [128, 128],
    [128, 64],
    [64, 128],
    [64, 256],
    [64, 64],
    [128, 32],
    [32, 128],
    [32, 32],
    [128, 16],
    [16, 128],
    [64, 16],
    [16, 64],
];

/// Time of a load from shared memory, in multiplications: what a tile costs beyond its multiplications.
const SHARED_LOAD: usize = 2;

/// Tile of a chip without asynchronous copies, with as many terms a step as shared memory holds, up to 16.
///
/// Sides are those of the least time: waves of tiles, times multiplications and loads of a thread. Example: 64 columns
/// of any number of rows take tiles of 128 × 64.
fn staged(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> Tile {
    let p = &g.product;
    // Narrow floats are stored as f32.
    let size = if c.dtype.size() == 2 && c.dtype.is_float() { 4 } else { c.dtype.size() as u32 };
    let pad = (COPY as u32 / size).max(1);
    let of = |[m, n]: [u32; 2], k: u32| Tile { m, n, k, warps: [2, 4], stages: STAGED_BUFFERS, blocks: 2 };
    // Each thread copies at least one element of either operand in a step.
    let steps = |[m, n]: [u32; 2]| [16, 8, 4].into_iter().filter(move |k| m.min(n) * k >= 256);
    let fits = |tile: &Tile| tile.stages * (tile.m + tile.n + 2 * pad) * tile.k * size <= chip.shared;
    let time = |tile: &Tile| {
        let (m, n) = (tile.m as usize, tile.n as usize);
        let tiles = g.batches() * p.m.div_ceil(m) * p.n.div_ceil(n);
        tiles.div_ceil(chip.multiprocessors as usize) * (m * n / 256 + SHARED_LOAD * (m + n) / 16)
    };
    // Accumulators of 8 bytes take twice the registers.
    let most = if c.accumulator().size() > 4 { 64 * 64 } else { 128 * 128 };
    let sides = STAGED_SIDES.iter().filter(|[m, n]| m * n <= most);
    let tiles = sides.filter_map(|&sides| steps(sides).map(|k| of(sides, k)).find(fits));
    tiles.min_by_key(time).unwrap_or(of([32, 32], 8))
}

/// Number of blocks that share the terms of a tile (split-K): several if tiles are few and terms many. The number
/// depends only on sizes and chip, and partial sums are added in order, so results are deterministic.
pub fn split_k(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> usize {
    let p = &g.product;
    let tile = shape(c, g, chip);
    let tiles = g.batches() * p.m.div_ceil(tile.m as usize) * p.n.div_ceil(tile.n as usize);
    let steps = p.k.div_ceil(tile.k as usize);
    if c.precision == Precision::Ordered || tiles == 0 || !matches!(c.accumulator().size(), 4 | 8) {
        return 1;
    }
    let free = chip.multiprocessors as usize / tiles;
    let least = (TUNABLES.min_split_terms.size() / tile.k as usize).max(TUNABLES.min_split_steps.size());
    let most = free.min(steps / least).clamp(1, TUNABLES.max_splits.size());
    // Every split has at least one step.
    steps.div_ceil(steps.div_ceil(most).max(1)).max(1)
}

/// Operand index by which a body reads the accumulators (in shared memory or registers), if it does.
fn sums(operands: &[u16]) -> Option<u16> {
    operands.iter().position(|&o| o == NO_OPERAND).map(|o| o as u16)
}

/// Body of a contraction (prologue or epilogue) with its domain, and its operands among those of the contraction.
pub struct LoweredBody {
    pub body: Body,
    pub space: Space,
    pub groups: [usize; 2],
    pub geometry: MapGeometry,
    /// The contraction's operand for each operand of the body; [`NO_OPERAND`] for accumulators or results in shared
    /// memory.
    operands: Vec<u16>,
    first_scalar: u16,
}

impl LoweredBody {
    /// Lowers a body that computes: operations that the device lacks are expanded.
    pub fn new(
        body: &Body,
        tiles: &TileGeometry,
        lanes: usize,
        operands: Vec<u16>,
        (first_scalar, target): (u16, &dyn Target),
    ) -> LoweredBody {
        let body = expand(&widen_sums(body, sums(&operands)), &|op, dtype| target.is_native(op, dtype));
        LoweredBody::of(body, tiles, lanes, operands, first_scalar)
    }

    /// Lowers a body that only loads, converts and stores.
    pub fn copying(body: &Body, tiles: &TileGeometry, lanes: usize, operands: Vec<u16>) -> LoweredBody {
        LoweredBody::of(widen_sums(body, sums(&operands)), tiles, lanes, operands, 0)
    }

    fn of(body: Body, tiles: &TileGeometry, lanes: usize, operands: Vec<u16>, first_scalar: u16) -> LoweredBody {
        let geometry = tiles.boxes[0].geometry.clone();
        let accesses = (&body.accesses[..], &geometry.accesses[..]);
        let (space, groups) = Space::grouped(&tiles.extents, [tiles.rows, tiles.columns], accesses, lanes);
        LoweredBody { body, space, groups, geometry, operands, first_scalar }
    }

    /// Body that passes its result to the kernel. Its operands are the contraction's from `first` on, except operand
    /// `sums`, which is in shared memory or registers. `reads` is the number of its operands, `sums` included.
    pub fn reading(
        body: &Body,
        tiles: &TileGeometry,
        lanes: usize,
        (first, reads, sums): (u16, u16, u16),
        others: (u16, &dyn Target),
    ) -> LoweredBody {
        let number = |o: u16| if o == sums { NO_OPERAND } else { first + o - u16::from(o > sums) };
        let operands = (0..reads).map(number).chain([NO_OPERAND]).collect();
        LoweredBody::new(body, tiles, lanes, operands, others)
    }

    /// Class key of the body.
    pub fn class(&self) -> BodyClass {
        let groups = self.groups.map(|g| g as u8);
        BodyClass { body: self.body.clone(), space: self.space.class.clone(), groups }
    }

    /// Values of the body's kernel arguments. Records the minimum sizes of its operands in the plan.
    pub fn arguments(&self, plan: &mut Plan) -> BodyArguments {
        let address = |operand: u16, offset: i64| match self.operands[operand as usize] {
            NO_OPERAND => None,
            operand => Some(RuntimeArgument::Operand(operand, offset)),
        };
        plan.checked |= gathers(&self.body);
        let mut own = vec![];
        body_needs(&mut own, &self.body, &self.geometry.accesses);
        let all = own.into_iter().map(|(o, bytes)| (self.operands[o as usize], bytes));
        plan.needs.extend(all.filter(|n| n.0 != NO_OPERAND));
        let space = self.space.arguments(&self.body.accesses, &address);
        BodyArguments::with(&self.body, space, self.first_scalar)
    }
}

/// Load strategy of an operand (A or B), with the values of its arguments.
enum Factor {
    /// Copied in vectors: whether terms are neighbours, operand, offset of the first element, and stride from line to
    /// line or from term to term.
    Copied { along: bool, operand: u16, first: isize, pitch: isize },
    /// Computed by its body. `loaded`: the body only loads a matrix that is in memory.
    Computed { part: LoweredBody, loaded: bool },
    /// Copied element by element, by strides. `along`: whether elements are denser in memory along terms than along
    /// lines.
    Strided { part: LoweredBody, loaded: bool, along: bool },
}

/// Plans the tiled kernel of a contraction for which [`fits`] holds. Without an epilogue, accumulators are stored in
/// dtype `written`.
///
/// # Errors
/// [`Error::Compile`] if rows, columns or terms exceed 32-bit indices ([`is_counted`]).
pub fn plan(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    let chip = target.chip();
    if !is_counted(&g.product) {
        let message =
            format!("{:?} are too many rows, columns or terms for tiles", [g.product.m, g.product.n, g.product.k]);
        return Err(Error::Compile { device: target.device().into(), message });
    }
    let (tile, math) = (shape(c, g, chip), math(c, chip));
    let (p, shares) = (&g.product, split_k(c, g, chip));
    let mut plan = Plan::default();
    let (mut operands, mut scalars) = (0u16, 0u16);
    let factors = [0, 1].map(|n| factor(c, g, n, (tile, math, target), &mut operands, &mut scalars));
    let result = result(c, g, written, operands, (scalars, target));
    let class = GemmClass {
        dtype: c.dtype,
        sums: c.accumulator(),
        math,
        tile,
        copies: copies(p, chip),
        batch: p.batch.len() as u8,
        factors: factors.each_ref().map(|f| match f {
            Factor::Copied { along, .. } => FactorClass::Copied { along: *along },
            Factor::Computed { part, .. } => FactorClass::Computed(part.class()),
            Factor::Strided { part, along, .. } => FactorClass::Strided { part: part.class(), along: *along },
        }),
        result: (result.class(), sums_operand(c)),
        split: (shares > 1).then_some(if chip.capabilities.exchange { Split::Exchanged } else { Split::Stored }),
    };
    let tiles = [p.m.div_ceil(tile.m as usize), p.n.div_ceil(tile.n as usize)];
    let batch = p.batch.iter().enumerate().map(|(i, d)| {
        let stride = |n: usize, stride: isize| match &factors[n] {
            Factor::Copied { .. } => stride,
            Factor::Computed { loaded: true, .. } | Factor::Strided { loaded: true, .. } => {
                p.batch[i + 1..].iter().map(|d| d.0 as isize).product()
            }
            Factor::Computed { part, .. } | Factor::Strided { part, .. } => stride / (part.matrix() as isize).max(1),
        };
        BatchArguments { size: divisor(d.0.max(1)), strides: vec![stride(0, d.1), stride(1, d.2)] }
    });
    let batch = batch.collect();
    let mut of_factors = vec![];
    for (n, factor) in factors.iter().enumerate() {
        of_factors.push(match factor {
            Factor::Copied { operand, first, pitch, .. } => {
                plan.needs.extend(p.reach[n].map(|(_, high)| (*operand, (high + 1) * c.dtype.size())));
                let address = RuntimeArgument::Operand(*operand, *first as i64 * c.dtype.size() as i64);
                FactorArguments::Copied(CopyArguments { address, pitch: *pitch })
            }
            Factor::Computed { part, .. } | Factor::Strided { part, .. } => {
                FactorArguments::Body(part.arguments(&mut plan))
            }
        });
    }
    let of_result = result.arguments(&mut plan);
    plan.moved = moved(&factors, &result, g, c, tile);
    let count = tiles[0] * tiles[1] * g.batches();
    let split = class.split.map(|_| {
        let bytes = count * shares * (tile.m * tile.n) as usize * c.accumulator().size();
        plan.scratch.push(bytes);
        plan.moved += traffic::scratch(bytes as u64);
        SplitArguments {
            steps: p.k.div_ceil(tile.k as usize).div_ceil(shares),
            splits: shares,
            partials: RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0),
            counters: RuntimeArgument::Counters,
        }
    });
    let problem = ProblemArguments {
        rows: p.m,
        columns: p.n,
        terms: p.k,
        row_tiles: tiles[0],
        column_tiles: tiles[1],
        fault: plan.checked,
    };
    let arguments = GemmArguments { problem, batch, factors: of_factors, result: of_result, split };
    let arguments = arguments.fill(&class);
    let (block, shared) = (tile.threads(), class.shared());
    let added = (class.split == Some(Split::Stored)).then(|| GemmClass { split: Some(Split::Added), ..class.clone() });
    let draft = |class, count: usize, arguments| {
        Draft::new(Skeleton::Gemm(Box::new(class)), [blocks(count, 1), 1, 1], block, shared, arguments)
    };
    let again = added.map(|added| draft(added, count, arguments.clone()));
    plan.stages.push(draft(class, count * shares, arguments));
    plan.stages.extend(again);
    Ok(plan)
}

/// Mode of the copies of operands in memory.
fn copies(p: &MatmulGeometry, chip: &Chip) -> Copies {
    let wide = || p.reach.iter().flatten().any(|(_, high)| *high > i32::MAX as usize);
    if chip.capabilities.async_copies { Copies::Async } else { Copies::Registers { wide: wide() } }
}

/// Whether elements at these offsets can be copied in vectors of 16 bytes.
pub fn alignable(mut all: impl Iterator<Item = isize>, size: usize) -> bool {
    all.all(|s| (s * size as isize).rem_euclid(COPY as isize) == 0)
}

/// Offset of the first element of operand `n` (A 0, B 1), and its strides from line to line and from term to term.
pub fn factor_strides(p: &MatmulGeometry, n: usize) -> (isize, isize, isize) {
    if n == 0 { p.a } else { (p.b.0, p.b.2, p.b.1) }
}

/// Chooses how an operand is brought into a tile: copied in vectors of 16 bytes where possible, else computed.
fn factor(
    c: &Contraction,
    g: &ContractionGeometry,
    n: usize,
    (tile, math, target): (Tile, Math, &dyn Target),
    operands: &mut u16,
    scalars: &mut u16,
) -> Factor {
    let (first_operand, first_scalar) = (*operands, *scalars);
    let lines = if n == 0 { tile.m } else { tile.n };
    // Each thread takes at least one vector.
    let lanes = (lines * tile.k / tile.threads()).min(8) as usize;
    if let Some((f, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) {
        let Kernel::Map(body) = &f.kernel else { unreachable!("a factor that fits is a map") };
        let mut own: Vec<u16> = (first_operand..first_operand + f.operands as u16).collect();
        own.push(NO_OPERAND);
        *operands += f.operands as u16;
        *scalars += f.scalars as u16;
        return through(c, n, math, (body, tiles, lanes, own, first_scalar), (false, target));
    }
    *operands += 1;
    let p = &g.product;
    let (first, line, term) = factor_strides(p, n);
    let batch = || p.batch.iter().map(|d| if n == 0 { d.1 } else { d.2 });
    let size = c.dtype.size();
    let count = if n == 0 { p.m } else { p.n };
    let aligned = |pitch: isize| alignable(batch().chain([first, pitch]), size);
    let chip = target.chip();
    // Copies through registers are of single elements of any size.
    let staged = math == Math::Plain && !chip.capabilities.async_copies;
    if staged && (term == 1 || p.k == 1) && is_pitch(line) {
        return Factor::Copied { along: true, operand: first_operand, first, pitch: line };
    }
    if staged && (line == 1 || count == 1) && is_pitch(term) {
        return Factor::Copied { along: false, operand: first_operand, first, pitch: term };
    }
    let apart = math == Math::Plain && ELEMENT_COPY_SIZES.contains(&size);
    let vectors = math != Math::Plain || ELEMENT_COPY_SIZES.contains(&size);
    if (term == 1 || p.k == 1)
        && is_pitch(line)
        && if math == Math::Plain { apart } else { aligned(if count == 1 { 0 } else { line }) }
    {
        return Factor::Copied { along: true, operand: first_operand, first, pitch: line };
    }
    if (line == 1 || count == 1) && is_pitch(term) && vectors && aligned(if p.k == 1 { 0 } else { term }) {
        return Factor::Copied { along: false, operand: first_operand, first, pitch: term };
    }
    let extents: Vec<usize> = p.batch.iter().map(|d| d.0).chain(if n == 0 { [p.m, p.k] } else { [p.k, p.n] }).collect();
    let mut strides = [0; MAX_RANK];
    let of_matrix = if n == 0 { [line, term] } else { [term, line] };
    batch().chain(of_matrix).zip(&mut strides).for_each(|(from, to)| *to = from);
    let (body, tiles) = copy_of(c.dtype, c.dtype, extents, (first, strides, p.reach[n]), math == Math::Plain);
    through(c, n, math, (&body, &tiles, lanes, vec![first_operand, NO_OPERAND], 0), (true, target))
}

/// Operand computed by its body, or copied element by element. Copies are possible if the body only loads, and elements
/// have the right size: 4 or 8 bytes on CUDA cores, 2 bytes for tensor cores.
fn through(
    c: &Contraction,
    n: usize,
    math: Math,
    (body, tiles, lanes, operands, scalar): (&Body, &TileGeometry, usize, Vec<u16>, u16),
    (loaded, target): (bool, &dyn Target),
) -> Factor {
    if !is_strided(c.dtype, copied_sizes(math, target.chip()), body, tiles) {
        return Factor::Computed { part: LoweredBody::new(body, tiles, lanes, operands, (scalar, target)), loaded };
    }
    let part = LoweredBody::copying(body, tiles, 1, operands);
    // Density of elements along lines and along terms: extent by stride.
    let read = part.body.accesses.iter().position(|a| a.operand == Some(0)).unwrap_or(0);
    let innermost = |dims: std::ops::Range<usize>| {
        let of = |d: usize| part.space.extents[d] as f64 / part.space.steps[read].1[d].unsigned_abs().max(1) as f64;
        // A side of extent 1 has no dimension.
        dims.last().map_or(1.0, of)
    };
    let (batch, matrix) = (part.groups[0], part.groups[0] + part.groups[1]);
    let (rows, columns) = (innermost(batch..matrix), innermost(matrix..part.space.extents.len()));
    let along = if n == 0 { columns > rows } else { rows > columns };
    Factor::Strided { part, loaded, along }
}

/// Element sizes in bytes of single elements that are copied to shared memory.
fn copied_sizes(math: Math, chip: &Chip) -> &'static [usize] {
    match math {
        Math::Narrow | Math::Warpgroup => &NARROW_COPY_SIZES,
        _ if chip.capabilities.async_copies => &ELEMENT_COPY_SIZES,
        _ => &STAGED_COPY_SIZES,
    }
}

/// Whether an operand's body only loads by strides, in the dtype that the arithmetic takes and of one of these sizes in
/// bytes.
pub fn is_strided(dtype: DType, sizes: &[usize], body: &Body, tiles: &TileGeometry) -> bool {
    let [store] = &body.stores[..] else { return false };
    let Node::Load { access } = body.nodes[store.node.0 as usize] else { return false };
    sizes.contains(&dtype.size())
        && body.accesses[access as usize].dtype == dtype
        && body.nodes.len() == 1
        && tiles.boxes[0].geometry.accesses.iter().all(|a| a.map.is_none())
}

/// Whether operand `n` has a body that only loads by strides, element by element.
pub fn is_windowed(c: &Contraction, g: &ContractionGeometry, n: usize, chip: &Chip) -> bool {
    let Some((f, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) else { return false };
    matches!(&f.kernel, Kernel::Map(body) if is_strided(c.dtype, copied_sizes(math(c, chip), chip), body, tiles))
}

/// Builds a copy body over `[batch…, rows, columns]`, which loads elements of dtype `from` and stores them as `to`.
pub fn copy_of(
    from: DType,
    to: DType,
    extents: Vec<usize>,
    (base, strides, reach): (isize, [isize; MAX_RANK], Option<(usize, usize)>),
    strict: bool,
) -> (Body, TileGeometry) {
    let mut b = BodyBuilder::new(strict);
    let lane = extents.len() - 1;
    let class = match strides[lane] {
        1 => AccessClass::Contiguous,
        0 => AccessClass::Uniform,
        _ => AccessClass::Strided,
    };
    let read = b.access(Access { operand: Some(0), dtype: from, class, per_row: false });
    let load = b.node(Node::Load { access: read });
    let value = b.cast(load, to);
    let write = b.access(Access::contiguous(1, to));
    b.store(value, write);
    let points: usize = extents.iter().product();
    let mut row_major = [0; MAX_RANK];
    let mut step = 1;
    for d in (0..extents.len()).rev() {
        row_major[d] = step as isize;
        step *= extents[d];
    }
    let distinct = extents.iter().zip(&strides).filter(|d| *d.1 != 0).map(|d| d.0).product();
    let whole = points.checked_sub(1).map(|high| (0, high));
    let accesses = vec![
        AccessGeometry { base, strides, map: None, reach, distinct },
        AccessGeometry { base: 0, strides: row_major, map: None, reach: whole, distinct: points },
    ];
    let geometry = MapGeometry { extents: extents.clone(), accesses };
    let tiles = TileGeometry {
        rows: lane - 1,
        columns: lane,
        boxes: vec![TileBox { origin: vec![0; extents.len()], geometry }],
        extents,
    };
    (b.finish(), tiles)
}

/// Operand index by which the epilogue reads the accumulators; 0 without an epilogue.
pub fn sums_operand(c: &Contraction) -> u16 {
    c.epilogue.as_ref().map_or(0, |e| e.sums)
}

/// The epilogue, or the body that stores the accumulators.
pub fn result(
    c: &Contraction,
    g: &ContractionGeometry,
    written: DType,
    operands: u16,
    others: (u16, &dyn Target),
) -> LoweredBody {
    if let Some((e, tiles)) = c.epilogue.as_deref().zip(g.epilogue.as_deref()) {
        let Kernel::Map(body) = &e.kernel else { unreachable!("an epilogue that fits is a map") };
        let number = |o: u16| match o {
            o if o == e.sums => NO_OPERAND,
            o => operands + o - u16::from(o > e.sums),
        };
        return LoweredBody::new(body, tiles, 8, (0..e.reads + e.writes).map(number).collect(), others);
    }
    let p = &g.product;
    let extents: Vec<usize> = p.batch.iter().map(|d| d.0).chain([p.m, p.n]).collect();
    let mut strides = [0; MAX_RANK];
    let mut step = 1;
    for d in (0..extents.len()).rev() {
        strides[d] = step;
        step *= extents[d] as isize;
    }
    let strict = c.precision == Precision::Ordered;
    let (body, tiles) = copy_of(c.accumulator(), written, extents, (0, strides, None), strict);
    LoweredBody::copying(&body, &tiles, 8, vec![NO_OPERAND, operands])
}

/// Memory traffic: each block reads its rows of A and columns of B; everything else is read once.
fn moved(factors: &[Factor; 2], result: &LoweredBody, g: &ContractionGeometry, c: &Contraction, tile: Tile) -> Moved {
    let p = &g.product;
    let again = [p.n.div_ceil(tile.n as usize), p.m.div_ceil(tile.m as usize)];
    let lines = [p.m, p.n];
    let mut all = Moved::default();
    for (n, factor) in factors.iter().enumerate() {
        let read = match factor {
            Factor::Copied { .. } => (g.batches() * lines[n] * p.k * c.dtype.size()) as u64,
            // An operand may be broadcast over the batch.
            Factor::Computed { part, loaded: true } | Factor::Strided { part, loaded: true, .. } => part.read(None),
            Factor::Computed { part, .. } | Factor::Strided { part, .. } => {
                part.read(None) * (g.batches() / (part.points() / part.matrix()).max(1)) as u64
            }
        };
        all.read += read * again[n] as u64;
    }
    all.read += result.read(Some(sums_operand(c)));
    all.written += traffic::map(&result.body, &result.geometry.extents, &result.geometry.accesses).written;
    all
}

impl LoweredBody {
    /// Number of points of the body's domain, in all matrices of the batch.
    fn points(&self) -> usize {
        self.space.extents.iter().product()
    }

    /// Number of points of one matrix of the body's domain.
    pub fn matrix(&self) -> usize {
        self.space.extents[self.groups[0]..].iter().product()
    }

    /// Bytes that the body reads from memory, except for operand `shared`, which is in shared memory.
    pub fn read(&self, shared: Option<u16>) -> u64 {
        let mut body = self.body.clone();
        body.accesses.iter_mut().filter(|a| shared.is_some() && a.operand == shared).for_each(|a| a.operand = None);
        traffic::map(&body, &self.geometry.extents, &self.geometry.accesses).read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Capabilities;

    /// Chip with the workgroup memory that WebGPU guarantees.
    fn small() -> Chip {
        let capabilities = Capabilities {
            warp_matrix: false,
            warpgroup_matrix: false,
            tensor_maps: false,
            exchange: false,
            warps: false,
            async_copies: false,
            dynamic_shared: false,
            groups: false,
            held_scans: false,
            wide_atomics: false,
        };
        Chip {
            name: "small".into(),
            sm: 0,
            capabilities,
            multiprocessors: 16,
            threads: 2048,
            registers: 65_536,
            shared: 16 << 10,
            l2: 1 << 20,
            memory: 1 << 30,
            bandwidth: 50.0,
            clock: 1.0,
            arguments: 4096,
            faults: 16,
            compiler: String::new(),
        }
    }

    #[test]
    fn tiles_without_asynchronous_copies_fit_the_memory_and_follow_the_shape() {
        let tile = |dtype: DType, [m, n, k]: [usize; 3]| {
            let (a, b) = ((0, k as isize, 1), (0, n as isize, 1));
            let product = MatmulGeometry { batch: vec![], m, n, k, a, b, reach: [None, None] };
            let geometry = ContractionGeometry::unfused(product);
            let c = Contraction::unfused(dtype, Precision::Full);
            let tile = shape(&c, &geometry, &small());
            let class = GemmClass {
                dtype,
                sums: c.accumulator(),
                math: Math::Plain,
                tile,
                copies: Copies::Registers { wide: false },
                batch: 0,
                factors: [FactorClass::Copied { along: true }, FactorClass::Copied { along: false }],
                result: (result(&c, &geometry, dtype, 2, (0, &NoTarget)).class(), 0),
                split: None,
            };
            assert!(class.shared() <= 16 << 10, "{dtype} {m} {n}: {} bytes", class.shared());
            assert_eq!(tile.threads(), 256);
            [tile.m, tile.n]
        };
        for dtype in [DType::I8, DType::BF16, DType::F32, DType::I64] {
            for sizes in [[1, 1, 1], [33, 700, 5], [64, 64, 64], [900, 20, 70], [2000, 2000, 100]] {
                tile(dtype, sizes);
            }
        }
        assert_eq!(tile(DType::F32, [2048, 2048, 64]), [128, 128]);
        assert_eq!(tile(DType::F32, [4096, 64, 64]), [128, 64]);
        assert_eq!(tile(DType::F32, [16, 16, 64]), [32, 32]);
    }

    /// Target of which nothing but operations is asked.
    struct NoTarget;

    impl Target for NoTarget {
        fn device(&self) -> &str {
            "none"
        }

        fn chip(&self) -> &Chip {
            unreachable!("no chip is asked for")
        }

        fn is_native(&self, _: thalweg_ir::ElementOp, _: DType) -> bool {
            true
        }

        fn map(&self, _: &crate::maps::TensorMap) -> Option<[u64; crate::maps::MAP_WORDS]> {
            None
        }

        fn product(&self, _: &crate::product::Product) -> Option<usize> {
            None
        }

        fn convolution(&self, _: &thalweg_ir::Convolution) -> Option<usize> {
            None
        }
    }
}
