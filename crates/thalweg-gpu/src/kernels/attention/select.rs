//! Lowering of flash attention: a contraction whose operand A is computed from a producer GEMM, as one kernel that
//! reads the keys once.
//!
//! In: weights of one pass ([`thalweg_kernel::weights`]) between two products of operands in memory. Out: one launch.
//! Other forms, and those too large for the registers of a warp, take the unfused fallback.

use crate::kernels::Skeleton;
use crate::kernels::attention::params::AttentionArguments;
use crate::kernels::attention::{AttentionBlock, AttentionClass};
use crate::kernels::gemm::Math;
use crate::kernels::gemm::params::{BatchArguments, CopyArguments};
use crate::kernels::gemm::select::{
    LoweredBody, alignable, factor_strides, is_busy, is_counted, is_pitch, math, result, sums_operand,
};
use crate::kernels::gemm::tma::select::Factor;
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::maps::MAP_WORDS;
use crate::operands::reciprocals;
use crate::params::RuntimeArgument;
use crate::space::divisor;
use crate::target::{Chip, Target};
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_ir::DType;
use thalweg_kernel::{
    CausalMask, Contraction, ContractionGeometry, Inner, Kernel, MatmulGeometry, Moved, Prologue, TileGeometry,
    Weights, causal_mask, expand, scores, weights, widen_sums,
};

/// Maximum number of columns of the result, and of terms of a score: with more, a warp's registers do not hold its
/// accumulators.
const WIDEST: usize = 128;
/// Maximum number of lanes of the score bodies: a thread has two neighbouring keys.
const LANES: usize = 2;

/// Contraction that matches flash attention, with its components.
struct AttentionMatch<'a> {
    inner: &'a Inner,
    of_inner: &'a ContractionGeometry,
    prologue: &'a Prologue,
    tiles: &'a TileGeometry,
    weights: Weights,
    along: [bool; 3],
    math: Math,
}

/// Layout of rows, keys or values: batch strides, offset of the first element, strides from line to line and from term
/// to term.
struct FactorLayout {
    batch: Vec<isize>,
    first: isize,
    line: isize,
    term: isize,
    reach: Option<(usize, usize)>,
}

fn factor_layout(g: &MatmulGeometry, right: bool) -> FactorLayout {
    let batch = g.batch.iter().map(|d| if right { d.2 } else { d.1 }).collect();
    let (first, line, term) = factor_strides(g, right as usize);
    FactorLayout { batch, first, line, term, reach: g.reach[right as usize] }
}

impl FactorLayout {
    /// Whether terms are neighbours; `None` where the operand cannot be copied in vectors of 16 bytes.
    fn along(&self, size: usize) -> Option<bool> {
        let aligned = |pitch| is_pitch(pitch) && alignable(self.batch.iter().copied().chain([self.first, pitch]), size);
        match () {
            () if self.term == 1 && aligned(self.line) => Some(true),
            () if self.line == 1 && aligned(self.term) => Some(false),
            () => None,
        }
    }

    fn pitch(&self, along: bool) -> isize {
        if along { self.line } else { self.term }
    }
}

/// Matches a contraction to flash attention; `None` for others.
fn find<'a>(c: &'a Contraction, g: &'a ContractionGeometry, chip: &Chip) -> Option<AttentionMatch<'a>> {
    let math = math(c, chip);
    let (prologue, tiles) = c.factors[0].as_deref().zip(g.factors[0].as_deref())?;
    let (inner, of_inner) = prologue.inner.as_deref().zip(g.inner.as_deref())?;
    if math == Math::Plain || inner.product.factors.iter().any(Option::is_some) || c.factors[1].is_some() {
        return None;
    }
    let map = |k: &Kernel, t: &TileGeometry| matches!(k, Kernel::Map(_)) && t.boxes.len() == 1;
    let simple = |e: Option<(&thalweg_kernel::Epilogue, &TileGeometry)>| e.is_none_or(|(e, t)| map(&e.kernel, t));
    let both = |c: &'a Contraction, g: &'a ContractionGeometry| c.epilogue.as_deref().zip(g.epilogue.as_deref());
    if !simple(both(c, g)) || !simple(both(&inner.product, of_inner)) || tiles.boxes.len() != 1 {
        return None;
    }
    let body = match &prologue.kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => body,
        _ => return None,
    };
    let (p, q) = (&g.product, &of_inner.product);
    // Weights are row-major, the matrices of the batch one after the other.
    let mut matrix = (p.m * p.k) as isize;
    let mut row_major = true;
    for d in p.batch.iter().rev() {
        row_major &= d.0 == 1 || d.1 == matrix;
        matrix *= d.0 as isize;
    }
    let sizes = |g: &MatmulGeometry| g.batch.iter().map(|d| d.0).collect::<Vec<_>>();
    let fits = row_major && sizes(p) == sizes(q) && [p.n, q.k].iter().all(|&n| (1..=WIDEST).contains(&n));
    if !fits || !is_counted(p) || p.k == 0 || p.m == 0 || q.m != p.m || q.n != p.k || c.dtype != inner.product.dtype {
        return None;
    }
    let size = c.dtype.size();
    let along = [
        factor_layout(q, false).along(size)?,
        factor_layout(q, true).along(size)?,
        factor_layout(p, true).along(size)?,
    ];
    // `weights` is `None` where a weight needs more than one pass.
    let weights = weights(body)?;
    Some(AttentionMatch { inner, of_inner, prologue, tiles, weights, along, math })
}

/// Plans the launch of a contraction that matches flash attention; `None` for others.
pub fn plan(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Option<Plan> {
    let AttentionMatch { inner, of_inner, prologue, tiles, weights, along, math } = find(c, g, target.chip())?;
    let (p, q) = (&g.product, &of_inner.product);
    let (mut plan, size) = (Plan::default(), c.dtype.size());
    // Operands: rows, keys, those of the first product's epilogue, those of the weights, values, and the rest.
    let reads = inner.product.reads() as u16;
    let values = reads + prologue.operands as u16;
    let mut points = vec![];
    let bodies = scores(c)?;
    let epilogue = inner.product.epilogue.as_deref().zip(of_inner.epilogue.as_deref());
    if let (Some((e, t)), [body, _]) = (epilogue, &bodies[..]) {
        points.push((LoweredBody::reading(body, t, LANES, (2, e.reads, e.sums), (0, target)), e.sums));
    }
    let scalars = inner.product.scalars() as u16;
    let reads_of = (reads, prologue.operands as u16 + 1, inner.sums);
    points.push((LoweredBody::reading(&weights.point, tiles, LANES, reads_of, (scalars, target)), inner.sums));
    let (c_reads, c_scalars) = (values + 1, scalars + prologue.scalars as u16);
    let result = result(c, g, written, c_reads, (c_scalars, target));
    let once = weights.once.map(|o| (expand(&o.body, &|op, dtype| target.is_native(op, dtype)), [o.max, o.sum]));
    let seen = causal_mask(c, g);
    let sizes = [q.k, p.n].map(|n| n.next_power_of_two().max(if math == Math::Warpgroup { 64 } else { 16 }) as u32);
    let of_points: Vec<_> = points.iter().map(|(part, sums)| (part.class(), *sums)).collect();
    let loads: usize = of_points.iter().map(|(part, sums)| part.loads(*sums)).sum();
    let tiles = |rows: usize| g.batches() * p.m.div_ceil(rows);
    let mut block = AttentionBlock::tma(sizes, loads, &tiles, target.chip());
    let tma = match math {
        Math::Warpgroup => boxes(c, (p, q), (values, along), block.boxes(sizes), target),
        _ => None,
    };
    if tma.is_none() {
        block = AttentionBlock::all_copy(math, is_busy(g.batches() * p.m.div_ceil(128), target.chip()));
    }
    let class = AttentionClass {
        dtype: c.dtype,
        math,
        block,
        sizes,
        batch: p.batch.len() as u8,
        along,
        tma: tma.as_ref().map(|all| all.each_ref().map(|b| b.0.class())),
        points: of_points,
        // The causal offset is a kernel argument, and not part of the class.
        causal: seen.as_ref().map(|(n, s)| {
            let body = expand(&widen_sums(&s.body, Some(points[*n].1)), &|op, dtype| target.is_native(op, dtype));
            (*n as u8, CausalMask { ahead: 0, body, ..s.clone() })
        }),
        once,
        result: (result.class(), sums_operand(c)),
    };
    if class.shared() > target.chip().shared {
        return None;
    }
    let row_tiles = p.m.div_ceil(class.rows() as usize);
    let batch = p.batch.iter().zip(&q.batch).enumerate().map(|(i, (outer, inner))| {
        let strides = match &tma {
            Some(all) => all.iter().map(|b| b.0.far[i] as isize).collect(),
            None => vec![inner.1, inner.2, outer.2],
        };
        BatchArguments { size: divisor(outer.0.max(1)), strides }
    });
    let batch = batch.collect();
    let (mut copies, mut dims, mut maps) = (vec![], vec![], vec![]);
    for (n, (factor_layout, operand)) in
        [(factor_layout(q, false), 0), (factor_layout(q, true), 1), (factor_layout(p, true), values)].iter().enumerate()
    {
        let first = factor_layout.first as i64 * size as i64;
        match &tma {
            Some(all) => {
                let (factor, map) = &all[n];
                dims.push(factor.dims());
                maps.push((*map, RuntimeArgument::TensorMap(*operand, first)));
            }
            None => {
                let address = RuntimeArgument::Operand(*operand, first);
                copies.push(CopyArguments { address, pitch: factor_layout.pitch(along[n]) });
            }
        }
        plan.needs.extend(factor_layout.reach.map(|(_, high)| (*operand, (high + 1) * size)));
    }
    let of_points = points.iter().map(|(part, _)| part.arguments(&mut plan)).collect();
    let of_once = class.once.as_ref().map(|(body, _)| body);
    let once_scalars =
        of_once.map_or(vec![], |b| (0..b.scalars).map(|s| RuntimeArgument::Scalar(s + scalars)).collect());
    let once_reciprocals = of_once.map_or(vec![], |body| reciprocals(body, scalars));
    let of_result = result.arguments(&mut plan);
    let arguments = AttentionArguments {
        rows: p.m,
        columns: p.n,
        keys: p.k,
        depth: q.k,
        row_tiles,
        fault: plan.checked,
        products: g.batches(),
        batch,
        copies,
        dims,
        points: of_points,
        causal_offset: seen.as_ref().map(|(_, seen)| seen.ahead as isize),
        once_scalars,
        once_reciprocals,
        result: of_result,
        maps,
    };
    let arguments = arguments.fill(&class);
    plan.moved = moved(
        (c, g),
        of_inner,
        &points,
        &result,
        (class.rows() as usize, seen.filter(|s| s.1.moved.is_none()).map(|s| s.1.ahead)),
    );
    let (block, shared, persistent) = (class.threads(), class.shared(), class.block.persistent);
    let all = row_tiles * g.batches();
    let grid = [blocks(if persistent { all.min(target.chip().multiprocessors as usize) } else { all }, 1), 1, 1];
    plan.stages.push(Draft::new(Skeleton::Attention(Box::new(class)), grid, block, shared, arguments));
    Some(plan)
}

impl AttentionBlock {
    /// Block whose rows, keys and values are copied by TMA. `tiles` returns the number of tiles for a number of rows
    /// per block; `loads` is the number of bytes that score bodies load for each score, and hold in registers. If tiles
    /// keep the chip busy, blocks are persistent, and two warpgroups share the keys; or three, if registers suffice and
    /// 64 more rows per block leave no multiprocessors idle. Otherwise blocks have one warpgroup, and several blocks
    /// per multiprocessor hide each other's latency.
    fn tma(sizes: [u32; 2], loads: usize, tiles: &dyn Fn(usize) -> usize, chip: &Chip) -> AttentionBlock {
        let narrow = sizes.iter().all(|&n| n <= 64);
        let room = loads == 0 || narrow && loads <= 4;
        if !room || !is_busy(tiles(128), chip) {
            return AttentionBlock { warps: 4, keys: 64, blocks: if narrow { 3 } else { 2 }, persistent: false };
        }
        let rounds = |rows: usize| tiles(rows).div_ceil(chip.multiprocessors as usize);
        let percent = &TUNABLES.three_warpgroups_percent;
        let pays = || percent.side(percent.get() * rounds(192) <= 100 * rounds(128));
        let three = narrow && loads == 0 && pays();
        AttentionBlock { warps: if three { 12 } else { 8 }, keys: 128, blocks: 1, persistent: true }
    }

    /// A block in which all threads copy. Measured on an H200: blocks of four warps, three of them per multiprocessor,
    /// hide each other's latency.
    fn all_copy(math: Math, many: bool) -> AttentionBlock {
        match (math, many) {
            (Math::Warpgroup, _) => AttentionBlock { warps: 4, keys: 64, blocks: 3, persistent: false },
            (_, true) => AttentionBlock { warps: 8, keys: 64, blocks: 1, persistent: false },
            (_, false) => AttentionBlock { warps: 4, keys: 64, blocks: 2, persistent: false },
        }
    }

    /// Extents in lines and terms of the TMA boxes of rows, keys and values.
    fn boxes(&self, [depth, columns]: [u32; 2]) -> [[u32; 2]; 3] {
        [[16 * self.warps, depth], [self.keys, depth], [columns, self.keys]]
    }
}

/// Rows, keys and values with their tensor maps, for boxes of `counts` lines and terms. `None` where layouts differ, or
/// the driver cannot encode the maps.
fn boxes(
    c: &Contraction,
    (p, q): (&MatmulGeometry, &MatmulGeometry),
    (values, along): (u16, [bool; 3]),
    counts: [[u32; 2]; 3],
    target: &dyn Target,
) -> Option<[(Factor, [u64; MAP_WORDS]); 3]> {
    let one = |n: usize| {
        let (factor_layout, operand, lines, terms) = match n {
            0 => (factor_layout(q, false), 0, q.m, q.k),
            1 => (factor_layout(q, true), 1, q.n, q.k),
            _ => (factor_layout(p, true), values, p.n, p.k),
        };
        let sizes = if n == 2 { &p.batch } else { &q.batch };
        let products: Vec<_> = sizes.iter().map(|d| d.0).zip(factor_layout.batch.iter().copied()).collect();
        let factor = Factor::in_memory(
            operand,
            factor_layout.first,
            [(terms, factor_layout.term), (lines, factor_layout.line)],
            &products,
        )?;
        if factor.along != along[n] {
            return None;
        }
        let map = target.map(&factor.map(c.dtype, counts[n])?)?;
        Some((factor, map))
    };
    Some([one(0)?, one(1)?, one(2)?])
}

/// Memory traffic: each block of rows reads all keys and values that it attends to; all other operands are read once.
fn moved(
    (c, g): (&Contraction, &ContractionGeometry),
    of_inner: &ContractionGeometry,
    points: &[(LoweredBody, u16)],
    result: &LoweredBody,
    (rows, ahead): (usize, Option<i64>),
) -> Moved {
    let (p, q, size) = (&g.product, &of_inner.product, c.dtype.size());
    let seen = |tile: usize| match ahead {
        Some(ahead) => ((tile + 1) * rows) as i64 + ahead - 1,
        None => p.k as i64,
    };
    let keys: i64 = (0..p.m.div_ceil(rows)).map(|tile| seen(tile).clamp(0, p.k as i64)).sum();
    let factors = g.batches() * (p.m * q.k + keys as usize * (q.k + p.n)) * size;
    let mut all = Moved { read: factors as u64, ..Moved::default() };
    for (part, sums) in points.iter().map(|(part, sums)| (part, *sums)).chain([(result, sums_operand(c))]) {
        all.read += part.read(Some(sums));
    }
    all.written += traffic::map(&result.body, &result.geometry.extents, &result.geometry.accesses).written;
    all
}
