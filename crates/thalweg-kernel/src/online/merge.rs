//! Merging of block results: in f64, pairwise by halves, in the order of the blocks.

use super::{OnlineFold, Rescaling};
use crate::order;
use thalweg_ir::{DType, Monoid, Scalar};

/// Maximum number of lower moments that a block stores.
pub const LOWER: usize = 4;

/// Result of a centred sum `Σ w·(x - m)^p·e^(a·(x - m))` over one block, and what is needed to change its `m`.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct BlockResult {
    /// Number of elements of the block.
    pub points: f64,
    /// Shift `m` that the block used: its own mean or maximum.
    pub shift: f64,
    /// The sum over the block.
    pub result: f64,
    /// Sums with lower powers of `x - m`, in ascending order of the power.
    pub lower: [f64; LOWER],
}

/// Value that a block of `points` elements uses in place of the sum over its row of `row` elements. It is the block's
/// own sum times `row / points`, so the body, which divides by `row`, derives the block's own mean. Both are encoded by
/// [`Scalar::to_bits`].
pub fn own_mean(value: u64, dtype: DType, points: usize, row: usize) -> u64 {
    let v = Scalar::from_bits(value, dtype).to_f64();
    let scaled = v * (row as f64 / points as f64);
    let most = largest(dtype);
    // A finite block stays finite: its squares should become infinite, not NaN.
    Scalar::Float(if v.is_finite() { scaled.clamp(-most, most) } else { scaled }).to_bits(dtype)
}

fn largest(dtype: DType) -> f64 {
    if dtype == DType::F32 { f32::MAX as f64 } else { f64::MAX }
}

/// Value that a block uses in place of its maximum or minimum. A maximum of -∞ (all elements are -∞) becomes the lowest
/// finite number, a minimum of +∞ the largest: elements then differ from it by infinity and not by NaN.
pub fn finite(value: u64, dtype: DType, op: Monoid) -> u64 {
    let v = Scalar::from_bits(value, dtype).to_f64();
    let bound = if op == Monoid::Max { -largest(dtype) } else { largest(dtype) };
    if v.is_infinite() && v.signum() == bound.signum() { Scalar::Float(bound).to_bits(dtype) } else { value }
}

/// Merges the results of blocks for values selected at the row's maximum or minimum. `blocks` gives the extreme of each
/// block and its selected value; only blocks whose extreme equals the row's `extreme` (of dtype `of`) count. All are
/// encoded by [`Scalar::to_bits`].
pub fn chosen(op: Monoid, dtype: DType, (extreme, of): (u64, DType), blocks: impl Iterator<Item = (u64, u64)>) -> u64 {
    let is = |own: u64| {
        let [a, b] = [own, extreme].map(|bits| Scalar::from_bits(bits, of));
        match of.is_float() {
            // Zeros of either sign are equal, as in the body's comparison.
            true => a.to_f64() == b.to_f64() || a.to_f64().is_nan() && b.to_f64().is_nan(),
            false => own == extreme,
        }
    };
    let mut tree = order::Tree::new(op, dtype);
    for (own, result) in blocks {
        tree.push(if is(own) { result } else { op.identity(dtype) });
    }
    tree.take()
}

impl OnlineFold {
    /// Merges block results into the row's centred sum. `parts` are the results of the row's blocks, in order. `total`
    /// is the row's sum of `x`, used if the shift is a multiple of it. `shift` is the row's `m`.
    pub fn whole(&self, parts: &[BlockResult], total: f64, shift: f64, scalars: &[u64]) -> f64 {
        let Rescaling::Shifted { power, rate, weighted, exact, .. } = &self.how else {
            unreachable!("what is chosen is not shifted")
        };
        if !rate.is_none() {
            let rate = rate.value(scalars);
            return pairwise(parts, &|p| exponentials(p, *power, rate, shift));
        }
        // Overflow on the way cannot be corrected.
        let plain = pairwise(parts, &|p| p.result);
        if !plain.is_finite() {
            return plain;
        }
        // Means are relative to the first block's: large ones have no digits left for their differences.
        let origin = parts.first().map_or(0.0, |p| p.shift);
        let about = if *exact { self.about(parts, total, shift, origin) } else { shift - origin };
        match power {
            2 if !weighted => pairwise(parts, &|p| {
                let (left, points) = (p.lower[1], p.points);
                let away = (p.shift - origin) + left / points - about;
                (p.result - left * left / points).max(0.0) + points * away * away
            }),
            _ => pairwise(parts, &|p| translated(p, *power, (p.shift - origin) - about)),
        }
    }

    /// Shift `m` that the merged sum uses, relative to `origin`. The body's mean has the rounding errors of the sum and
    /// of the division. If it equals the exact mean except for these, the exact mean is used. Otherwise it is another
    /// value (such as the sum divided by another number) and is used as it is.
    fn about(&self, parts: &[BlockResult], total: f64, shift: f64, origin: f64) -> f64 {
        let points = pairwise(parts, &|p| p.points);
        let digits = if self.dtype == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON };
        let wanted = total / points;
        if (shift - wanted).abs() > 8.0 * digits * wanted.abs() {
            return shift - origin;
        }
        pairwise(parts, &|p| p.points * ((p.shift - origin) + p.lower[1] / p.points)) / points
    }
}

/// `Σ_q C(power, q)·δ^(power-q)·S_q`: the moment for a shift that is smaller by δ.
fn translated(p: &BlockResult, power: u8, delta: f64) -> f64 {
    let lower = |q: u8| match q {
        q if q == power => p.result,
        q => p.lower[q as usize],
    };
    let (mut sum, mut binomial) = (0.0, 1.0);
    // From the lowest power, whose factor is the largest.
    for q in 0..=power {
        sum += binomial * delta.powi((power - q) as i32) * lower(q);
        binomial = binomial * (power - q) as f64 / (q + 1) as f64;
    }
    sum
}

fn exponentials(p: &BlockResult, power: u8, rate: f64, shift: f64) -> f64 {
    if shift.is_infinite() || shift.is_nan() {
        // All elements are that infinity, or one element is the opposite infinity or NaN: infinity minus itself is NaN.
        return f64::NAN;
    }
    let factor = libm::exp(rate * (p.shift - shift));
    let moment = if power == 0 { p.result } else { translated(p, power, p.shift - shift) };
    // A block whose sum is 0 contributes nothing, however much larger its own shift was; nor does a finite block whose
    // factor underflows.
    let finite = p.result.is_finite() && p.lower[..power as usize].iter().all(|s| s.is_finite());
    if moment == 0.0 || factor == 0.0 && finite { 0.0 } else { moment * factor }
}

/// Sum over blocks, pairwise by halves.
fn pairwise(parts: &[BlockResult], of: &impl Fn(&BlockResult) -> f64) -> f64 {
    match parts {
        [] => 0.0,
        [one] => of(one),
        _ => {
            let (a, b) = parts.split_at(parts.len() / 2);
            pairwise(a, of) + pairwise(b, of)
        }
    }
}
