//! Reference of operations along an axis: scans, sorts, gather, scatter.

use super::{Array, ravel, unravel};
use crate::order::{self, SCAN_BLOCK};
use std::cmp::Ordering;
use thalweg_ir::monoid::Partial;
use thalweg_ir::{COMPONENT, DType, Loop, Monoid, Op, REVERSE, RelOp, Scalar, ScanOp, ScatterOp, Shape};

/// Order used by sorts: numerical, with -0 equal to +0 and NaN above everything.
pub fn order(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        _ => a.to_i128().cmp(&b.to_i128()),
    }
}

/// Evaluates a scan of every row along the axis that `attr` encodes.
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

/// Component of the user-defined fold or scan of every row: in the components' dtypes, in the order that is part of the
/// meaning.
pub(super) fn combined(rel: &RelOp, of: Loop, args: &[&Array], shape: Shape) -> Array {
    let fold = matches!(rel.op, Op::FoldBy(_));
    let from = args[0].shape;
    let axis = if fold { (rel.attr & 0xFF).trailing_zeros() } else { rel.attr & 0xFF } as usize;
    let (n, component) = (from[axis], (rel.attr >> COMPONENT) as usize);
    let step: usize = from[axis + 1..].iter().product();
    let combine = |a: &Vec<Scalar>, b: &Vec<Scalar>| super::looped::combined(of, a, b);
    let rows = (0..shape.numel() / if fold { 1 } else { n.max(1) }).map(|r| (r / step) * step * n + r % step);
    let mut out = vec![Scalar::Int(0); shape.numel()];
    for (r, first) in rows.enumerate() {
        let element = |i: usize| args.iter().map(|a| a.get(first + i * step)).collect::<Vec<_>>();
        let mut row: Vec<Vec<Scalar>> = (0..n).map(element).collect();
        if fold {
            let identity = of.identity().zip(&of.region().args).map(|(bits, &d)| Scalar::from_bits(bits, d)).collect();
            out[r] = order::fold_by(row, identity, combine)[component];
            continue;
        }
        let reverse = rel.attr & REVERSE != 0;
        if reverse {
            row.reverse();
        }
        order::scan_by(&mut row, &combine);
        for (i, v) in row.into_iter().enumerate() {
            let i = if reverse { n - 1 - i } else { i };
            out[first + i * step] = v[component];
        }
    }
    Array::from_fn(shape, rel.dtype, |p| out[p])
}

/// Scan of one row of elements of a dtype, not yet rounded.
pub fn scan_row(op: ScanOp, reverse: bool, dtype: DType, row: &[Scalar]) -> Vec<Scalar> {
    if matches!(op, ScanOp::Sort | ScanOp::Argsort) {
        let mut places: Vec<usize> = (0..row.len()).collect();
        // Sorts by the reversed order instead of reversing a sort: equal elements keep their order either way.
        places.sort_by(|&i, &j| if reverse { order(row[j], row[i]) } else { order(row[i], row[j]) });
        let element = |i: usize| if op == ScanOp::Sort { row[i] } else { Scalar::Int(i as i64) };
        return places.into_iter().map(element).collect();
    }
    let monoid = op.monoid().expect("what is no sort runs a monoid");
    assert!(monoid.row().takes.has(dtype) || dtype == DType::Bool, "{}: takes no {dtype}", op.name());
    let carried = if dtype.is_float() { DType::F64 } else { Monoid::widest(dtype) };
    let mut out = vec![Scalar::Int(0); row.len()];
    let mut places: Vec<usize> = (0..row.len()).collect();
    if reverse {
        places.reverse();
    }
    // For a sum of floats: prefix at the start of the block, and the block's own total.
    let blocks = op == ScanOp::Sum && dtype.is_float();
    let mut running = Partial::neutral(monoid, carried);
    let (mut begin, mut total) = (running.clone(), running.clone());
    for (n, i) in places.into_iter().enumerate() {
        if blocks && n > 0 && n.is_multiple_of(SCAN_BLOCK) {
            begin.put(&std::mem::replace(&mut total, Partial::neutral(monoid, carried)));
            running = begin.clone();
        }
        if blocks {
            total.push(row[i]);
        }
        running.push(row[i]);
        out[i] = running.result();
    }
    out
}

/// Out-of-range index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// Name of the operation.
    pub op: &'static str,
    /// The index that is out of range.
    pub index: i64,
    /// Axis that is indexed.
    pub axis: usize,
    /// Size of the axis.
    pub size: usize,
}

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OutOfRange { op, index, axis, size } = self;
        write!(f, "{op}: index {index} is out of range for axis {axis} of size {size}")
    }
}

/// Checks the indices of an operation against the size of the axis. The error is the first index, in row-major order,
/// that is out of range.
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

/// Evaluates a scatter: values are combined one by one in row-major order, and each result is rounded to the tensor's
/// dtype, since elements accumulate in place.
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

/// Combination of an element and a scattered value.
pub fn put(op: ScatterOp, dtype: DType, old: Scalar, value: Scalar) -> Scalar {
    let Some(monoid) = op.monoid() else { return value };
    let carried = if dtype.is_float() { DType::F64 } else { Monoid::widest(dtype) };
    let mut both = Partial::of(monoid, carried, old);
    both.push(value);
    match both.result() {
        Scalar::Float(v) => Scalar::Float(dtype.round(v)),
        other => Scalar::integer(dtype.wrap(other.to_i64()), dtype),
    }
}
