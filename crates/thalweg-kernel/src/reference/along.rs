//! Meanings of what goes along an axis: scans and sorts, gather, scatter.

use super::{Array, ravel, unravel};
use crate::order::SCAN_BLOCK;
use std::cmp::Ordering;
use thalweg_ir::{DType, REVERSE, RelOp, Scalar, ScanOp, ScatterOp, Shape};

/// The order that sorts go by: numbers as they are (-0 and +0 alike), NaN above all of them.
pub fn order(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        _ => a.to_i64().cmp(&b.to_i64()),
    }
}

/// A scan of every row along the axis that `attr` names.
pub(super) fn scan(op: ScanOp, attr: u32, a: &Array, shape: Shape, dtype: DType) -> Array {
    let (axis, reverse) = ((attr & (REVERSE - 1)) as usize, attr & REVERSE != 0);
    let n = shape[axis];
    let mut out = vec![Scalar::Int(0); shape.numel()];
    let step: usize = shape[axis + 1..].iter().product();
    for first in (0..shape.numel()).filter(|p| (p / step).is_multiple_of(n)) {
        let row: Vec<Scalar> = (0..n).map(|i| a.get(first + i * step)).collect();
        for (i, v) in scan_row(op, reverse, a.dtype, &row).into_iter().enumerate() {
            out[first + i * step] = v;
        }
    }
    Array::from_fn(shape, dtype, |p| out[p])
}

/// A scan of one row of elements of a dtype, not yet rounded.
pub fn scan_row(op: ScanOp, reverse: bool, dtype: DType, row: &[Scalar]) -> Vec<Scalar> {
    if matches!(op, ScanOp::Sort | ScanOp::Argsort) {
        let mut places: Vec<usize> = (0..row.len()).collect();
        // A sort by the contrary order, not the contrary of a sort: equal elements keep their order either way.
        places.sort_by(|&i, &j| if reverse { order(row[j], row[i]) } else { order(row[i], row[j]) });
        let element = |i: usize| if op == ScanOp::Sort { row[i] } else { Scalar::Int(i as i64) };
        return places.into_iter().map(element).collect();
    }
    let mut out = vec![Scalar::Int(0); row.len()];
    let mut places: Vec<usize> = (0..row.len()).collect();
    if reverse {
        places.reverse();
    }
    let mut floats = Running::new(op);
    let mut ints: Option<i64> = None;
    // Of a sum: what the block begins with, and its own total.
    let (mut begin, mut total) = (-0.0, -0.0);
    for (n, i) in places.into_iter().enumerate() {
        if op == ScanOp::Sum && dtype.is_float() {
            if n > 0 && n.is_multiple_of(SCAN_BLOCK) {
                begin += std::mem::replace(&mut total, -0.0);
                floats.value = begin;
            }
            total += row[i].to_f64();
        }
        out[i] = if dtype.is_float() {
            Scalar::Float(floats.next(row[i].to_f64()))
        } else {
            let v = row[i].to_i64();
            let next = match (ints, op) {
                (None, _) => v,
                (Some(s), ScanOp::Sum) => s.wrapping_add(v),
                (Some(s), ScanOp::Prod) => s.wrapping_mul(v),
                (Some(s), ScanOp::Max) => s.max(v),
                (Some(s), ScanOp::Min) => s.min(v),
                (Some(_), other) => panic!("{}: takes floats, not {dtype}", other.name()),
            };
            ints = Some(next);
            Scalar::Int(next)
        };
    }
    out
}

/// A running reduction of floats, in f64.
struct Running {
    op: ScanOp,
    /// The sum, product or extreme; of a sum of exponentials the largest exponent.
    value: f64,
    /// The sum of exponentials, each divided by that of the largest.
    sum: f64,
}

impl Running {
    fn new(op: ScanOp) -> Running {
        let value = match op {
            // -0 is the identity of a sum, so that a sum that begins with -0 is one.
            ScanOp::Sum => -0.0,
            ScanOp::Prod => 1.0,
            ScanOp::Min => f64::INFINITY,
            _ => f64::NEG_INFINITY,
        };
        Running { op, value, sum: 0.0 }
    }

    fn next(&mut self, x: f64) -> f64 {
        let v = self.value;
        match self.op {
            ScanOp::Sum => self.value = v + x,
            ScanOp::Prod => self.value = v * x,
            ScanOp::Max | ScanOp::Min if v.is_nan() || x.is_nan() => self.value = f64::NAN,
            // -0 is less than +0, as in folds.
            ScanOp::Max if x.total_cmp(&v).is_gt() => self.value = x,
            ScanOp::Min if x.total_cmp(&v).is_lt() => self.value = x,
            ScanOp::LogSumExp => {
                if v.is_nan() || x.is_nan() {
                    self.value = f64::NAN;
                } else if x > v {
                    self.sum = if x.is_infinite() { 1.0 } else { self.sum * libm::exp(v - x) + 1.0 };
                    self.value = x;
                } else if x != f64::NEG_INFINITY && v != f64::INFINITY {
                    self.sum += libm::exp(x - v);
                }
                return if self.value.is_finite() { self.value + libm::log(self.sum) } else { self.value };
            }
            _ => {}
        }
        self.value
    }
}

/// An index that names no element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// The operation.
    pub op: &'static str,
    /// The index.
    pub index: i64,
    /// The axis.
    pub axis: usize,
    /// How many elements the axis has.
    pub size: usize,
}

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OutOfRange { op, index, axis, size } = self;
        write!(f, "{op}: index {index} is out of range for axis {axis} of size {size}")
    }
}

/// The first index, in row-major order, that does not name an element of the tensor.
pub(super) fn check_index(rel: &RelOp, a: &Array, index: &Array) -> Result<(), OutOfRange> {
    let axis = rel.attr as usize;
    let size = a.shape[axis];
    for p in 0..index.shape.numel() {
        let i = index.get(p).to_i64();
        if i < 0 || i >= size as i64 {
            return Err(OutOfRange { op: rel.op.name(), index: i, axis, size });
        }
    }
    Ok(())
}

pub(super) fn gather(axis: usize, a: &Array, index: &Array, shape: Shape, dtype: DType) -> Array {
    Array::from_fn(shape, dtype, |p| {
        let mut at = unravel(p, &shape);
        at[axis] = index.get(p).to_i64();
        a.get(ravel(&at, &a.shape))
    })
}

/// Each step is rounded to the tensor's dtype: the elements are accumulated where they lie.
pub(super) fn scatter(op: ScatterOp, axis: usize, args: [&Array; 3], dtype: DType) -> Array {
    let [a, index, values] = args;
    let mut out: Vec<Scalar> = (0..a.shape.numel()).map(|p| a.get(p)).collect();
    for p in 0..index.shape.numel() {
        let mut at = unravel(p, &index.shape);
        at[axis] = index.get(p).to_i64();
        let to = &mut out[ravel(&at, &a.shape)];
        *to = put(op, dtype, *to, values.get(p));
    }
    Array::from_fn(a.shape, dtype, |p| out[p])
}

/// What a scatter makes of an element and the value that meets it.
pub fn put(op: ScatterOp, dtype: DType, old: Scalar, value: Scalar) -> Scalar {
    if op == ScatterOp::Set {
        return value;
    }
    if let (Scalar::Float(a), Scalar::Float(b)) = (old, value) {
        return Scalar::Float(dtype.round(match op {
            ScatterOp::Add => a + b,
            ScatterOp::Prod => a * b,
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            ScatterOp::Max if b.total_cmp(&a).is_gt() => b,
            ScatterOp::Min if b.total_cmp(&a).is_lt() => b,
            _ => a,
        }));
    }
    let (a, b) = (old.to_i64(), value.to_i64());
    Scalar::Int(dtype.wrap(match op {
        ScatterOp::Add => a.wrapping_add(b),
        ScatterOp::Prod => a.wrapping_mul(b),
        ScatterOp::Max => a.max(b),
        _ => a.min(b),
    }))
}
