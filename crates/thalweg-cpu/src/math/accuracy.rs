//! Measured accuracy of the math functions.
//!
//! In: a stride over all f32 bit patterns. Out: for each function, the maximum and mean error in ulp of the result,
//! against the `libm` crate in f64 (accurate to about one f64 ulp, 2⁻²⁹ of an f32 ulp). Tests check f64 functions
//! against golden values.

use super::lanes::find_f32;
use super::single::SIN_LIMIT;
use rayon::prelude::*;
use thalweg_ir::{DType, ElementOp};

/// The measured error of one function.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Operation that the function computes.
    pub op: ElementOp,
    /// Dtype of argument and result.
    pub dtype: DType,
    /// Maximum error, in ulp of the exact result. Infinite if a special value (NaN, infinity, the sign of a zero) is
    /// wrong.
    pub max_ulp: f64,
    /// Argument with the maximum error.
    pub at: f64,
    /// Mean error in ulp.
    pub mean_ulp: f64,
    /// Fraction of the arguments that the guard sends to the slow path.
    pub guarded: f64,
}

/// Upper bound on the error in ulp of each unary f32 function, for all 2³² arguments.
pub const BOUNDS_F32: &[(ElementOp, f64)] = &[
    (ElementOp::Exp, 2.0),
    (ElementOp::Exp2, 2.0),
    (ElementOp::Expm1, 2.0),
    (ElementOp::Log, 2.0),
    (ElementOp::Log2, 2.0),
    (ElementOp::Log1p, 2.0),
    (ElementOp::Sin, 2.0),
    (ElementOp::Cos, 2.0),
    (ElementOp::Atan, 2.0),
    (ElementOp::Tanh, 4.0),
    (ElementOp::Sigmoid, 4.0),
    (ElementOp::Erf, 4.0),
    (ElementOp::Erfc, 5.0),
];

/// Size of an f32 ulp at the value `exact`.
fn ulp_f32(exact: f64) -> f64 {
    let exponent = ((exact.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let e = exponent.clamp(-126, 127) - 23;
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// Error of an f32 result in ulp; infinite if a NaN, an infinity or the sign of a zero is wrong.
pub fn error_f32(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got.to_bits() == rounded.to_bits() || got.is_nan() && rounded.is_nan() {
        // The correctly rounded result; a finite one is still up to half an ulp off.
        return if rounded.is_finite() { (got as f64 - exact).abs() / ulp_f32(exact) } else { 0.0 };
    }
    if got.is_nan() || rounded.is_nan() || exact.is_infinite() || exact == 0.0 {
        return f64::INFINITY;
    }
    // Near the largest float, an infinity counts as 2¹²⁸, one step above it.
    let step = |v: f64| v.clamp(-(2f64.powi(128)), 2f64.powi(128));
    (step(got as f64) - step(exact)).abs() / ulp_f32(exact)
}

#[derive(Clone, Copy)]
struct Tally {
    max: f64,
    at: f32,
    sum: f64,
    guarded: u64,
}

fn join(a: Tally, b: Tally) -> Tally {
    let (max, at) = if b.max > a.max { (b.max, b.at) } else { (a.max, a.at) };
    Tally { max, at, sum: a.sum + b.sum, guarded: a.guarded + b.guarded }
}

/// Measures one unary f32 function over every `every`-th bit pattern.
///
/// # Panics
/// If there is no such function.
pub fn measure(op: ElementOp, every: u32) -> Accuracy {
    const BLOCK: u64 = 4096;
    let f = find_f32(op).unwrap_or_else(|| panic!("math has no f32 {}", op.name()));
    let exact = op.row().meaning.float.expect("math functions are on floats");
    let guards = matches!(op, ElementOp::Sin | ElementOp::Cos);
    let count = (1u64 << 32).div_ceil(every as u64);
    let tally = (0..count.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let x: Vec<f32> = (block * BLOCK..count.min((block + 1) * BLOCK))
                .map(|i| f32::from_bits((i * every as u64) as u32))
                .collect();
            let mut y = vec![0.0; x.len()];
            f(&x, &x, &mut y);
            x.iter().zip(&y).fold(Tally { max: 0.0, at: 0.0, sum: 0.0, guarded: 0 }, |t, (&x, &y)| {
                let e = error_f32(y, exact(&[x as f64]));
                let guarded = (guards && x.abs() > SIN_LIMIT) as u64;
                join(t, Tally { max: e, at: x, sum: e, guarded })
            })
        })
        .reduce(|| Tally { max: 0.0, at: 0.0, sum: 0.0, guarded: 0 }, join);
    Accuracy {
        op,
        dtype: DType::F32,
        max_ulp: tally.max,
        at: tally.at as f64,
        mean_ulp: tally.sum / count as f64,
        guarded: tally.guarded as f64 / count as f64,
    }
}

/// Measures all unary f32 functions over every `every`-th bit pattern (1: all of them, minutes per function).
pub fn accuracy_table(every: u32) -> Vec<Accuracy> {
    BOUNDS_F32.iter().map(|&(op, _)| measure(op, every)).collect()
}
