//! Lowering of TMA GEMMs of two 2-byte operands in memory (sm_90), by warp specialization: one producer thread copies,
//! warpgroups multiply.
//!
//! In: a contraction that [`crate::kernels::gemm::select::fits`]. Out: one launch, or nothing where an operand cannot
//! be copied by boxes.
//!
//! An operand has lines, terms and a batch, each of one dimension or of several (as neighbouring attention heads are).
//! A TMA copy takes a box of 64 terms and some lines, so it must not cross the end of an inner dimension.
//!
//! Always true: the tile depends on sizes, layouts and chip alone.

use crate::body::is_harmless;
use crate::kernels::Skeleton;
use crate::kernels::gemm::Math;
use crate::kernels::gemm::params::{BatchArguments, ProblemArguments};
use crate::kernels::gemm::select::{
    LoweredBody, NARROW_COPY_SIZES, factor_strides, is_counted, is_strided, math, result, sums_operand,
};
use crate::kernels::gemm::tma::params::{FactorDimsArguments, TmaGemmArguments};
use crate::kernels::gemm::tma::{TERMS, TmaFactor, TmaGemmClass, TmaTile};
use crate::kernels::plan::{Draft, Plan};
use crate::maps::{MAP_RANK, TensorMap};
use crate::params::RuntimeArgument;
use crate::space::divisor;
use crate::target::{Chip, Target};
use crate::traffic;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, Kernel, Moved};

/// Tiles, the largest first, with the fraction of the arithmetic's peak rate that each reaches.
const TILES_AND_RATES: [(TmaTile, f64); 4] = [
    (TmaTile { team: 1, m: 128, n: 128, stages: 5 }, 1.0),
    (TmaTile { team: 1, m: 128, n: 64, stages: 7 }, 0.9),
    (TmaTile { team: 1, m: 64, n: 128, stages: 7 }, 0.9),
    (TmaTile { team: 1, m: 64, n: 64, stages: 8 }, 0.7),
];

/// Rows and columns of the tile that a team of two warpgroups may compute.
const SHARED: (u32, u32) = (128, 128);

/// Choice of a TMA tile for a contraction, with the layout of its operands.
pub struct TmaGemm {
    tile: TmaTile,
    factors: [Factor; 2],
    /// Estimated time of all tiles, as the number of multiplications that a multiprocessor would do meanwhile at its
    /// peak rate.
    pub work: f64,
}

/// Operand for TMA copies: extents and strides of its dimensions, the outermost first.
pub struct Factor {
    /// Operand of the contraction, and offset of the first element.
    pub operand: u16,
    pub first: isize,
    /// Whether terms are neighbours in memory.
    pub along: bool,
    terms: Vec<(usize, isize)>,
    lines: Vec<(usize, isize)>,
    batch: Vec<(usize, isize)>,
    /// Stride of each batch dimension of the contraction, in matrices of the operand.
    pub far: Vec<usize>,
    /// Neighbouring result columns per thread (interleaved lines); 0 where lines are copied in memory order.
    interleaved: usize,
}

impl Factor {
    /// Operand `n` of a contraction (A 0, B 1); `None` if the kernel would have to compute it, or to read it through
    /// index maps.
    fn new(c: &Contraction, g: &ContractionGeometry, n: usize, first_operand: u16) -> Option<Factor> {
        let p = &g.product;
        if let Some((f, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) {
            let Kernel::Map(body) = &f.kernel else { return None };
            if f.inner.is_some() || tiles.boxes.len() != 1 || !is_strided(c.dtype, &NARROW_COPY_SIZES, body, tiles) {
                return None;
            }
            let part = LoweredBody::copying(body, tiles, 1, vec![]);
            let read = part.body.accesses.iter().position(|a| a.operand == Some(0))?;
            let (first, steps) = &part.space.steps[read];
            let dims: Vec<_> = part.space.extents.iter().copied().zip(steps.iter().copied()).collect();
            let [batch, rows] = part.groups;
            let (outer, columns) = dims.split_at(batch + rows);
            let (batch, rows) = outer.split_at(batch);
            let (lines, terms) = if n == 0 { (rows, columns) } else { (columns, rows) };
            let matrix = part.matrix().max(1) as isize;
            let far = p.batch.iter().map(|d| (if n == 0 { d.1 } else { d.2 } / matrix) as usize).collect();
            return Factor::lying(first_operand, *first, [terms, lines, batch], far);
        }
        let (first, line, term) = factor_strides(p, n);
        let batch: Vec<_> = p.batch.iter().map(|d| (d.0, if n == 0 { d.1 } else { d.2 })).collect();
        let lines = if n == 0 { p.m } else { p.n };
        Factor::in_memory(first_operand, first, [(p.k, term), (lines, line)], &batch)
    }

    /// Operand that is one matrix of these terms and lines for each product of the batch.
    pub fn in_memory(
        operand: u16,
        first: isize,
        [terms, lines]: [(usize, isize); 2],
        products: &[(usize, isize)],
    ) -> Option<Factor> {
        let mut far = vec![];
        let mut many = 1;
        for &(extent, stride) in products.iter().rev() {
            // A broadcast batch dimension has one matrix.
            far.insert(0, if stride == 0 { 0 } else { many });
            many *= if stride == 0 { 1 } else { extent };
        }
        let batch: Vec<_> = products.iter().copied().filter(|d| d.1 != 0).collect();
        Factor::lying(operand, first, [&[terms], &[lines], &batch], far)
    }

    fn lying(operand: u16, first: isize, dims: [&[(usize, isize)]; 3], far: Vec<usize>) -> Option<Factor> {
        let [terms, lines, batch] = dims.map(<[_]>::to_vec);
        let near = |dims: &[(usize, isize)]| dims.last().is_some_and(|d| d.1 == 1);
        let alone = |dims: &[(usize, isize)]| dims.iter().all(|d| d.0 == 1);
        let along = match () {
            () if near(&terms) => true,
            () if near(&lines) => false,
            () if alone(&terms) => true,
            () if alone(&lines) => false,
            () => return None,
        };
        Some(Factor { operand, first, along, terms, lines, batch, far, interleaved: 0 })
    }

    /// Tensor map for copies of this many lines and terms, in slices of 64 neighbours.
    pub fn map(&self, dtype: DType, [lines, terms]: [u32; 2]) -> Option<TensorMap> {
        let size = dtype.size();
        let whole =
            |dims: &[(usize, isize)], n: u32| dims.len() < 2 || dims[dims.len() - 1].0.is_multiple_of(n as usize);
        let [of_terms, of_lines] = if self.along { [TERMS, lines] } else { [terms, TERMS] };
        if !whole(&self.terms, of_terms) || !whole(&self.lines, of_lines) || self.first < 0 {
            return None;
        }
        let (near, next) = if self.along { (&self.terms, &self.lines) } else { (&self.lines, &self.terms) };
        let (mut dims, mut tile) = (vec![*near.last()?, *next.last()?], [1; MAP_RANK]);
        tile[..2].copy_from_slice(&[TERMS, if self.along { of_lines } else { of_terms }]);
        if self.interleaved > 0 {
            // Line `4·v·block + v·q + 2·e + one` is stored at `4·v·block + 8·e + 2·q + one`: a thread's accumulators
            // are columns `2·q` and `2·q + 1` of every eight.
            let ((all, far), v) = (dims[1], self.interleaved);
            let apart = |n: usize| n as isize * far;
            dims.truncate(1);
            dims.extend([(2, far), (4, apart(v)), (v / 2, apart(2)), (all / (4 * v), apart(4 * v))]);
            tile[1..].copy_from_slice(&[2, 4, v as u32 / 2, of_lines / (4 * v as u32)]);
        }
        for group in [&self.terms[..], &self.lines[..]] {
            dims.extend(group.iter().rev().skip(1));
        }
        dims.extend(self.batch.iter().rev());
        // The stride of a dimension of extent 1 does not matter.
        let bytes = |d: &(usize, isize)| if d.0 == 1 { Some(16) } else { usize::try_from(d.1 * size as isize).ok() };
        let strides = dims[1..].iter().map(bytes).collect::<Option<Vec<_>>>()?;
        let extents = dims.iter().map(|d| d.0).collect();
        let map = TensorMap { f16: dtype == DType::F16, extents, strides, tile };
        let aligned = (self.first as usize * size).is_multiple_of(16) && dims.len() <= MAP_RANK;
        (aligned && map.is_possible()).then_some(map)
    }

    /// Class of the operand's memory layout.
    pub fn class(&self) -> TmaFactor {
        let [terms, lines, batch] = [&self.terms, &self.lines, &self.batch].map(|d| d.len() as u8);
        TmaFactor { along: self.along, terms, lines, batch, interleaved: self.interleaved as u8 }
    }

    /// Returns the operand with its lines interleaved for vectors of `lanes` columns, without the last lines that do
    /// not fill a block of `block` lines. `None` unless the operand is a single K-major matrix.
    fn interleaved(&self, lanes: usize, block: usize) -> Option<Factor> {
        let ([_], [(lines, far)]) = (&self.terms[..], &self.lines[..]) else { return None };
        let lines = lines / block * block;
        let one = self.batch.iter().all(|d| d.0 == 1);
        (self.along && one && lines > 0 && matches!(lanes, 4 | 8)).then(|| Factor {
            interleaved: lanes,
            terms: self.terms.clone(),
            lines: vec![(lines, *far)],
            batch: vec![],
            far: self.far.clone(),
            ..*self
        })
    }

    /// Values of the arguments with the sizes of the operand's dimensions, from which a box's coordinates are computed.
    pub fn dims(&self) -> FactorDimsArguments {
        let inner = |dims: &[(usize, isize)]| dims.iter().skip(1).map(|d| divisor(d.0.max(1))).collect();
        FactorDimsArguments { terms: inner(&self.terms), lines: inner(&self.lines), batch: inner(&self.batch) }
    }
}

/// Whether the contraction can use TMA tiles on that chip; the driver may still refuse to encode the tensor maps.
pub fn fits(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> bool {
    choose(c, g, chip).is_some()
}

/// Chooses the tile of a contraction; `None` where TMA tiles are not possible.
pub fn choose(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> Option<TmaGemm> {
    let p = &g.product;
    if math(c, chip) != Math::Warpgroup || !is_counted(p) || p.m == 0 || p.n == 0 || p.k == 0 || g.batches() == 0 {
        return None;
    }
    let reads = c.factors[0].as_ref().map_or(1, |f| f.operands as u16);
    let factors = [Factor::new(c, g, 0, 0)?, Factor::new(c, g, 1, reads)?];
    let possible =
        |t: &TmaTile| [t.m, t.n].iter().zip(&factors).all(|(&lines, f)| f.map(c.dtype, [lines, TERMS]).is_some());
    let time = |(t, rate): &(TmaTile, f64)| {
        let tiles = g.batches() * p.m.div_ceil(t.m as usize) * p.n.div_ceil(t.n as usize);
        tiles.div_ceil(chip.multiprocessors as usize) as f64 * f64::from(t.m * t.n) * p.k as f64 / rate
    };
    let all =
        TILES_AND_RATES.iter().take(TUNABLES.max_fed_tiles.size()).filter(|t| possible(&t.0)).map(|t| (t.0, time(t)));
    let (tile, work) = all.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(TmaGemm { tile, factors, work })
}

/// Plans the launch of a contraction as a TMA GEMM; `None` if TMA tiles cannot compute it, or the driver cannot encode
/// the tensor maps.
pub fn plan(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Option<Plan> {
    planned(c, g, written, target).map(|p| p.plan)
}

/// Adds one launch for several contractions of one class and size (grouped GEMM). Returns `false`, and adds nothing, if
/// one launch cannot compute them.
pub fn add_grouped(plan: &mut Plan, siblings: &[Sibling<'_>], target: &dyn Target) -> bool {
    let own = |p: &Sibling<'_>| planned(p.contraction, p.geometry, p.contraction.dtype, target);
    let Some(all) = siblings.iter().map(own).collect::<Option<Vec<_>>>() else { return false };
    let Some(first) = all.first() else { return false };
    let draft = &first.plan.stages[0];
    let alike =
        all.iter().all(|p| p.class == first.class && p.sizes == first.sizes && p.plan.checked == first.plan.checked);
    let class = TmaGemmClass { products: siblings.len() as u32, ..first.class.clone() };
    let tiles = first.tiles * siblings.len();
    let fits = 8 * draft.words.len() * siblings.len() <= target.chip().arguments && tiles <= i32::MAX as usize;
    if !alike || !fits {
        return false;
    }
    let from = plan.stages.len();
    for (own, sibling) in all.into_iter().zip(siblings) {
        plan.absorb(own.plan, &sibling.operands, sibling.scalars);
    }
    let (mut words, mut patches) = (vec![], vec![]);
    let (mut block, mut shared) = (0, 0);
    for draft in plan.stages.drain(from..) {
        patches.extend(draft.patches.into_iter().map(|(at, word)| (words.len() + at, word)));
        words.extend(draft.words);
        (block, shared) = (draft.block, draft.shared);
    }
    let grid = [(tiles as u32).min(target.chip().multiprocessors), 1, 1];
    let kernel = Arc::new(Skeleton::TmaGemm(Box::new(class)));
    plan.stages.push(Draft { kernel, grid, block, shared, words, patches, unless_same: None });
    true
}

/// Contraction of a grouped GEMM, with its operands and the index of its first scalar.
pub struct Sibling<'a> {
    pub contraction: &'a Contraction,
    pub geometry: &'a ContractionGeometry,
    pub operands: Vec<RuntimeArgument>,
    pub scalars: u16,
}

/// Planned launch of one contraction.
struct Planned {
    plan: Plan,
    /// Class key of the launch.
    class: TmaGemmClass,
    /// Numbers of rows (M), columns (N) and terms (K).
    sizes: [usize; 3],
    /// Number of tiles of all products of the batch.
    tiles: usize,
}

/// Plans the launch of one contraction by TMA tiles; `None` if they cannot compute it, or the driver cannot encode the
/// tensor maps.
fn planned(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Option<Planned> {
    let chip = target.chip();
    let TmaGemm { tile, mut factors, .. } = choose(c, g, chip)?;
    let (p, mut plan) = (&g.product, Plan::default());
    let both = c.factors.each_ref().map(|f| f.as_ref().map_or([1, 0], |f| [f.operands as u16, f.scalars as u16]));
    let [reads, scalars] = [0, 1].map(|i| both[0][i] + both[1][i]);
    let result = result(c, g, written, reads, (scalars, target));
    let sums = sums_operand(c);
    let of_result = (result.class(), sums);
    let shared = (tile.m, tile.n) == SHARED && TUNABLES.max_team_bytes.admits(of_result.0.loads(sums));
    let mut tile = TmaTile { team: 1 + u32::from(shared), ..tile };
    let of_thread = (tile.m * tile.n / (tile.team * 128)) as usize;
    let few = TUNABLES.max_dealt_sums.admits(of_thread) && is_harmless(&of_result.0.body);
    // Vectors of the result; or rows of any alignment, whose last tile is not interleaved.
    let anywhere = of_result.0.rounded(sums).is_some();
    let lanes = if anywhere { 8 } else { usize::from(of_result.0.space.lanes) };
    let block = if anywhere { tile.n as usize } else { 4 * lanes };
    let whole = p.n.is_multiple_of(block);
    let rest = anywhere && !whole;
    let interleaved = (few && (whole || anywhere)).then(|| factors[1].interleaved(lanes, block)).flatten();
    let mut uninterleaved = None;
    if let Some(factor) = interleaved.filter(|f| f.map(c.dtype, [tile.n, TERMS]).is_some()) {
        let lying = std::mem::replace(&mut factors[1], factor);
        uninterleaved = rest.then_some(Factor { batch: vec![], ..lying });
        // The epilogue needs no buffer in shared memory: the space goes to two more stages.
        tile.stages += 2;
    }
    let mut class = TmaGemmClass {
        dtype: c.dtype,
        tile,
        batch: p.batch.len() as u8,
        factors: factors.each_ref().map(Factor::class),
        result: of_result,
        products: 1,
        rest: uninterleaved.is_some(),
    };
    while class.shared() > chip.shared && class.tile.stages > 2 {
        class.tile.stages -= 1;
    }
    let [row_tiles, column_tiles] = [p.m.div_ceil(tile.m as usize), p.n.div_ceil(tile.n as usize)];
    let tiles = u32::try_from(row_tiles * column_tiles * g.batches()).ok().filter(|&t| t <= i32::MAX as u32)?;
    let batch = p.batch.iter().enumerate().map(|(i, d)| {
        let strides = factors.iter().map(|f| f.far[i] as isize).collect();
        BatchArguments { size: divisor(d.0.max(1)), strides }
    });
    let map = |factor: &Factor, lines: u32| {
        let map = target.map(&factor.map(c.dtype, [lines, TERMS])?)?;
        Some((map, RuntimeArgument::TensorMap(factor.operand, factor.first as i64 * c.dtype.size() as i64)))
    };
    let maps = vec![map(&factors[0], tile.m)?, map(&factors[1], tile.n)?];
    let rest = match &uninterleaved {
        Some(factor) => Some(map(factor, tile.n)?),
        None => None,
    };
    for (n, factor) in factors.iter().enumerate() {
        plan.needs.extend(reach(c, g, n).map(|high| (factor.operand, (high + 1) * c.dtype.size())));
    }
    let of_result = result.arguments(&mut plan);
    let (rows, columns, terms, fault) = (p.m, p.n, p.k, plan.checked);
    let arguments = TmaGemmArguments {
        problem: ProblemArguments { rows, columns, terms, row_tiles, column_tiles, fault },
        tiles: tiles as usize,
        batch: batch.collect(),
        dims: factors.iter().map(Factor::dims).collect(),
        maps,
        rest,
        result: of_result,
        padding: (),
    };
    let arguments = arguments.fill(&class);
    plan.moved = moved(c, g, &result, tile);
    let (grid, block, shared) = ([tiles.min(chip.multiprocessors), 1, 1], class.threads(), class.shared());
    plan.stages.push(Draft::new(Skeleton::TmaGemm(Box::new(class.clone())), grid, block, shared, arguments));
    Some(Planned { plan, class, sizes: [rows, columns, terms], tiles: tiles as usize })
}

/// Offset of the last element that operand `n` has in memory.
fn reach(c: &Contraction, g: &ContractionGeometry, n: usize) -> Option<usize> {
    let Some((f, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) else {
        return g.product.reach[n].map(|r| r.1);
    };
    let Kernel::Map(body) = &f.kernel else { return None };
    let read = body.accesses.iter().position(|a| a.operand == Some(0))?;
    tiles.boxes[0].geometry.accesses[read].reach.map(|r| r.1)
}

/// Memory traffic: lines of A and B once for each tile, everything else once.
fn moved(c: &Contraction, g: &ContractionGeometry, result: &LoweredBody, tile: TmaTile) -> Moved {
    let p = &g.product;
    let again = [p.n.div_ceil(tile.n as usize), p.m.div_ceil(tile.m as usize)];
    let factors: usize = [p.m, p.n].iter().zip(again).map(|(lines, again)| g.batches() * lines * p.k * again).sum();
    let written = traffic::map(&result.body, &result.geometry.extents, &result.geometry.accesses).written;
    Moved { read: (factors * c.dtype.size()) as u64 + result.read(Some(sums_operand(c))), written, ..Moved::default() }
}
