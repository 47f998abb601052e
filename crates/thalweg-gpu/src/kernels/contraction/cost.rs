//! Cost model of contractions: one kernel of our own, or several launches around a library's GEMM. It uses rates that
//! were measured on chips of each generation.
//!
//! Always true: the choice depends on the contraction, its sizes and the chip alone, and therefore its bits do.

use crate::kernels::contraction::points;
use crate::kernels::gemm::tma::select as tma;
use crate::kernels::gemm::{Math, Tile, select};
use crate::product;
use crate::target::{Chip, Target};
use crate::tunable::TUNABLES;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, Kernel, Precision, TileGeometry};

/// Cost of a launch in nanoseconds, with its latency hidden as far as possible.
const LAUNCH: f64 = 2_000.0;
/// Memory bandwidth per multiprocessor, in bytes a nanosecond.
const MEMORY: f64 = 32.0;

/// Multiplications a nanosecond per multiprocessor, of our tiles and of the library.
///
/// Measured on an H200 (4096³): our tiles 400 of bf16 and the library 696 Tflop/s, TF32 85 and 350; on sm_80 both are
/// bound by the same instruction.
fn rates(c: &Contraction, chip: &Chip) -> [f64; 2] {
    // Chips with tensor maps are of the Hopper generation or newer.
    let hopper = chip.capabilities.tensor_maps;
    match (c.dtype, c.precision) {
        (DType::BF16 | DType::F16, _) => {
            if hopper {
                [1_450.0, 2_600.0]
            } else {
                [900.0, 1_050.0]
            }
        }
        (DType::F32, Precision::Tf32) => {
            if hopper {
                [320.0, 1_300.0]
            } else {
                [400.0, 520.0]
            }
        }
        (DType::F64, _) => {
            if hopper {
                [80.0, 200.0]
            } else {
                [40.0, 80.0]
            }
        }
        _ => [150.0, 200.0],
    }
}

/// Multiplications a nanosecond per multiprocessor, of TMA tiles.
const TMA_RATE: f64 = 2_500.0;

/// Fraction of the library's rate that remains if rows of 2-byte results, or terms of 2-byte operands, are not a
/// multiple of 16 bytes: the library copies such elements one by one. Measured on an H200: 6.6 ms for 8192 × 50257 ×
/// 768 in bf16, 96 TFLOP/s, 7.1 ms for 8192 × 768 × 50257.
const ODD_SHARE: f64 = 0.15;

/// Whether the library is slow for a large GEMM of 2-byte elements, whose columns (N) or terms (K) are no multiple of 8
/// (`ODD_SHARE`).
pub fn is_odd(c: &Contraction, g: &ContractionGeometry) -> bool {
    let p = &g.product;
    let odd = !p.n.is_multiple_of(8) || !p.k.is_multiple_of(8);
    c.dtype.size() == 2 && odd && TUNABLES.min_odd_product.reached_by(points(g).saturating_mul(p.k))
}

/// Whether tiles of our own may be faster for an unfused GEMM: where the library is slow, or needs a launch for each
/// part of a batch.
pub fn is_own(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> bool {
    let several = || product::launches(c.dtype, c.precision, &g.product).is_some_and(|l| l.places.len() > 1);
    is_odd(c, g) || tma::fits(c, g, chip) && several()
}

/// Rate of our tiles where operands are copied element by element: the copies, not the arithmetic, are the bottleneck.
/// Measured on an H200 with the layers of ResNet-18.
fn windowed(rate: f64, c: &Contraction) -> f64 {
    rate.min(match (c.dtype.size(), c.precision) {
        (2, _) => 450.0,
        (_, Precision::Tf32) => 100.0,
        _ => 60.0,
    })
}

/// Bytes a nanosecond per multiprocessor at which an operand is computed to memory through index maps.
const MAPPED: f64 = 2.5;
/// Maximum size, in elements, of a tile on CUDA cores that runs at a lower rate, and this rate. Each thread of such a
/// tile has only 16 accumulators (4 × 4), for which it reads 8 numbers per term. Measured on an H200.
const LOW_RATE_TILE: u32 = 64 * 64;
const LOW_TILE_RATE: f64 = 35.0;
/// Rows and columns of the library's tiles on CUDA cores. The tiles of a batched GEMM are smaller.
const LIBRARY_TILE: [usize; 2] = [128, 256];
/// Minimum number of terms of a part of the library's split sums (split-K).
const LIBRARY_SPLIT_TERMS: usize = 256;

/// Whether rows and columns of a computed operand are one dimension each, without index maps, so that a tile reads the
/// operand by strides. A convolution's windows are not plain: each tile would repeat their index arithmetic.
fn is_plain(tiles: &TileGeometry) -> bool {
    let one = tiles.columns == tiles.rows + 1 && tiles.extents.len() == tiles.columns + 1;
    one && tiles.boxes.iter().all(|b| b.geometry.accesses.iter().all(|a| a.map.is_none()))
}

/// Whether one kernel of our own is expected to take less time than a library's GEMM with prologues and epilogue in
/// launches of their own. Also true if no library supports the product.
pub fn tiles(c: &Contraction, g: &ContractionGeometry, target: &dyn Target) -> bool {
    let Some(opened) = product::launches(c.dtype, c.precision, &g.product) else { return true };
    if target.product(&opened.product).is_none() {
        return true;
    }
    let chip = target.chip();
    let goes = |n: usize| g.factors[n].as_deref().is_none_or(|f| is_plain(f) || select::is_windowed(c, g, n, chip));
    if !goes(0) || !goes(1) {
        return false;
    }
    let percent = &TUNABLES.library_percent;
    percent.side(100.0 * own_time(c, g, chip) < percent.get() as f64 * opened_time(c, g, chip))
}

/// Estimated nanoseconds of one tiled kernel: of a TMA GEMM if possible, unless split-K tiles are estimated to be
/// faster.
fn own_time(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> f64 {
    match tma_time(c, g, chip) {
        Some(tma) if select::split_k(c, g, chip) > 1 => tma.min(tile_time(c, g, chip)),
        Some(tma) => tma,
        None => tile_time(c, g, chip),
    }
}

/// Whether split-K tiles are estimated to be faster than TMA tiles.
pub fn is_split_k(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> bool {
    select::split_k(c, g, chip) > 1 && tma_time(c, g, chip).is_none_or(|tma| tile_time(c, g, chip) < tma)
}

/// Estimated nanoseconds of a TMA GEMM; `None` if TMA tiles cannot compute the contraction.
fn tma_time(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> Option<f64> {
    tma::choose(c, g, chip).map(|tma| tma.work / TMA_RATE)
}

/// Nanoseconds that split-K adds: storing accumulators, signalling, and reading them again.
const SPLIT_K_COST: f64 = 2_500.0;

/// Estimated nanoseconds of tiles without TMA.
fn tile_time(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> f64 {
    let [mut own, _] = rates(c, chip);
    if (0..2).any(|n| select::is_windowed(c, g, n, chip)) {
        own = windowed(own, c);
    }
    let p = &g.product;
    let tile = select::shape(c, g, chip);
    if select::math(c, chip) == Math::Plain && tile.m * tile.n <= LOW_RATE_TILE {
        own = own.min(LOW_TILE_RATE);
    }
    let blocks = g.batches() * p.m.div_ceil(tile.m as usize) * p.n.div_ceil(tile.n as usize);
    // Number of waves of blocks; the last one takes as long as a full one.
    let rounds = blocks.div_ceil(chip.multiprocessors as usize) as f64;
    let (shares, computed) = (select::split_k(c, g, chip), computed_time(c, g, tile, chip));
    let together = if shares > 1 { SPLIT_K_COST } else { 0.0 };
    rounds * f64::from(tile.m * tile.n) * p.k as f64 / own / shares as f64 + together + computed
}

/// Elements of an operand that a multiprocessor computes a nanosecond in a tile for tensor cores, by a body of few
/// operations. A longer body takes proportionally longer. Measured on an H200: 1.3 for a norm and a cast, 0.2 for a
/// gradient of 16 operations.
const COMPUTED: f64 = 1.3;
const NODES_AT_FULL_RATE: f64 = 4.0;

/// Nanoseconds spent on computing operands in tiles: A is recomputed for every tile of columns, B for every tile of
/// rows. 0 on CUDA cores, where the multiplications take longer and hide this time.
fn computed_time(c: &Contraction, g: &ContractionGeometry, tile: Tile, chip: &Chip) -> f64 {
    if select::math(c, chip) == Math::Plain {
        return 0.0;
    }
    let again = [g.product.n.div_ceil(tile.n as usize), g.product.m.div_ceil(tile.m as usize)];
    let of = |n: usize| {
        let (f, tiles) = c.factors[n].as_deref().zip(g.factors[n].as_deref())?;
        let Kernel::Map(body) = &f.kernel else { return None };
        let length = (body.nodes.len() as f64 / NODES_AT_FULL_RATE).max(1.0);
        (!select::is_windowed(c, g, n, chip)).then(|| tiles.points() as f64 * again[n] as f64 * length / COMPUTED)
    };
    (0..2).filter_map(of).sum::<f64>() / f64::from(chip.multiprocessors)
}

/// Estimated nanoseconds of a library's GEMM with prologues and epilogue in launches of their own, or of a kernel of
/// our own after launches that compute the operands.
fn opened_time(c: &Contraction, g: &ContractionGeometry, chip: &Chip) -> f64 {
    let [_, mut library] = rates(c, chip);
    if is_odd(c, g) {
        library *= ODD_SHARE;
    }
    let many = f64::from(chip.multiprocessors);
    let p = &g.product;
    let mut product = points(g) as f64 * p.k as f64 / (library * many);
    if select::math(c, chip) == Math::Plain {
        let [m, n] = LIBRARY_TILE;
        let tiles = g.batches() * p.m.div_ceil(m) * p.n.div_ceil(n);
        let rounds = tiles.div_ceil(chip.multiprocessors as usize);
        let splits = (chip.multiprocessors as usize / tiles.max(1)).min(p.k / LIBRARY_SPLIT_TERMS).max(1);
        let together = if splits > 1 { SPLIT_K_COST } else { 0.0 };
        let whole = rounds as f64 * (m * n * p.k) as f64 / library / splits as f64 + together;
        product = product.max(if g.batches() == 1 { whole } else { whole / 2.5 });
    }
    let size = c.dtype.size() as f64;
    let (rest, of_rest) = crate::kernels::contraction::without_factors(c, g);
    let parts = product::launches(c.dtype, c.precision, p).map_or(1, |l| l.places.len());
    let mut launches = parts + g.factors.iter().flatten().count();
    if c.epilogue.is_some() {
        product += 2.0 * points(g) as f64 * size / MEMORY / many;
        // The epilogue is fused into the product where the estimate is lower.
        if select::fits(&rest, &of_rest)
            && tma::fits(&rest, &of_rest, chip)
            && own_time(&rest, &of_rest, chip) < product + LAUNCH
        {
            product = own_time(&rest, &of_rest, chip);
        } else {
            launches += 1;
        }
    }
    let factor = |n: usize| {
        let f = g.factors[n].as_deref()?;
        let bytes = f.points() as f64 * size;
        let strided = is_plain(f) || select::is_windowed(c, g, n, chip);
        Some(if strided { 2.0 * bytes / MEMORY } else { bytes / MAPPED + bytes / MEMORY })
    };
    let factors: f64 = (0..2).filter_map(factor).sum();
    product + factors / many + launches as f64 * LAUNCH
}
