//! Results that WGSL permits beside the interpreter's.
//!
//! In: a step, its arguments, an element of the device's result. Out: whether one of these alternatives explains it:
//!
//! * subnormal arguments count as 0: the interpreter with 0 in their place, for each subset of the arguments, since an
//!   operation may move one and compute with another;
//! * products are contracted into sums: [`bounds`] of a user-defined combine;
//! * running products are accumulated in f32: an element may be NaN, 0 or infinite where the product of a range of the
//!   elements before leaves the normal numbers of f32.
//!
//! All are computed when the first element differs.

use super::combine_bounds::{Bounded, bounds};
use crate::program::Step;
use crate::tolerance::Tolerance;
use std::cell::OnceCell;
use thalweg_ir::{Op, REVERSE, Scalar, ScanOp};
use thalweg_kernel::reference::{self, Array, Data, RefArg};

/// Alternatives of one step.
pub struct Permitted<'a> {
    step: &'a Step,
    args: &'a [RefArg<'a>],
    flushed: OnceCell<Vec<(Array, Tolerance)>>,
    combined: OnceCell<Option<Vec<Bounded>>>,
    leaves_range: OnceCell<Vec<bool>>,
}

impl<'a> Permitted<'a> {
    /// Alternatives of a step with these arguments.
    pub fn new(step: &'a Step, args: &'a [RefArg<'a>]) -> Permitted<'a> {
        let (flushed, combined, leaves_range) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Permitted { step, args, flushed, combined, leaves_range }
    }

    /// Whether `got` is permitted as element `p` of the result.
    pub fn accepts(&self, p: usize, got: Scalar) -> bool {
        let flushed = self.flushed.get_or_init(|| flushed(self.step, self.args));
        if flushed.iter().any(|(want, tolerance)| tolerance.accepts(p, got, want.get(p))) {
            return true;
        }
        let combined = self.combined.get_or_init(|| bounds(self.step, &arrays(self.args)));
        if let Some(all) = combined {
            return all[p].holds(got);
        }
        let is_lost = matches!(got, Scalar::Float(v) if v == 0.0 || !v.is_finite());
        is_lost && self.leaves_range.get_or_init(|| leaves_range(self.step, self.args)).get(p) == Some(&true)
    }
}

fn arrays<'a>(args: &[RefArg<'a>]) -> Vec<&'a Array> {
    let array = |arg: &RefArg<'a>| match arg {
        RefArg::Array(a) => Some(*a),
        RefArg::Scalar(_) => None,
    };
    args.iter().filter_map(array).collect()
}

/// Whether a number is subnormal in f32, in which all floats are computed.
fn is_subnormal(v: f64) -> bool {
    v != 0.0 && v.abs() < f64::from(f32::MIN_POSITIVE)
}

/// Array with 0 in the place of subnormals; `None` if it has none.
fn without_subnormals(a: &Array) -> Option<Array> {
    let Data::Float(values) = &a.data else { return None };
    let flush = |v: &f64| if is_subnormal(*v) { 0f64.copysign(*v) } else { *v };
    let any = values.iter().any(|v| is_subnormal(*v));
    any.then(|| Array { shape: a.shape, dtype: a.dtype, data: Data::Float(values.iter().map(flush).collect()) })
}

/// Results of the interpreter with 0 in the place of the subnormals of some arguments, for each subset of those that
/// have any.
fn flushed(step: &Step, args: &[RefArg<'_>]) -> Vec<(Array, Tolerance)> {
    // Movement keeps bits.
    if !matches!(
        step.op,
        Op::Element(_) | Op::Cast | Op::Reduce(_) | Op::Scan(_) | Op::Scatter(_) | Op::Matmul | Op::Loop(_)
    ) {
        return vec![];
    }
    let without: Vec<Option<Array>> = args
        .iter()
        .map(|arg| match arg {
            RefArg::Array(a) => without_subnormals(a),
            RefArg::Scalar(_) => None,
        })
        .collect();
    let scalars: Vec<Option<u64>> = args
        .iter()
        .map(|arg| match arg {
            RefArg::Scalar(bits) if step.dtype.is_float() => {
                let value = Scalar::from_bits(*bits, step.dtype).to_f64();
                is_subnormal(value).then(|| Scalar::Float(0f64.copysign(value)).to_bits(step.dtype))
            }
            _ => None,
        })
        .collect();
    let having: Vec<usize> = (0..args.len()).filter(|&i| without[i].is_some() || scalars[i].is_some()).collect();
    let rel = step.rel(step.op);
    let with = |subset: usize| {
        let flushes = |i: usize| having.iter().position(|&h| h == i).is_some_and(|n| subset >> n & 1 == 1);
        let all: Vec<RefArg<'_>> = (0..args.len())
            .map(|i| match (&without[i], scalars[i]) {
                (Some(a), _) if flushes(i) => RefArg::Array(a),
                (_, Some(bits)) if flushes(i) => RefArg::Scalar(bits),
                _ => args[i],
            })
            .collect();
        let want = reference::evaluate(&rel, step.shape, &all, &step.ints);
        let tolerance = Tolerance::of_step(step, &all, Tolerance::of_fast_math);
        (want, tolerance)
    };
    (1..1usize << having.len()).map(with).collect()
}

/// For each element of a running product of floats, whether the product of a range of the elements up to it leaves the
/// normal numbers of f32.
fn leaves_range(step: &Step, args: &[RefArg<'_>]) -> Vec<bool> {
    let (Op::Scan(ScanOp::Prod), Some(RefArg::Array(a))) = (step.op, args.first()) else { return vec![] };
    if !step.dtype.is_float() {
        return vec![];
    }
    let axis = (step.attr & (REVERSE - 1)) as usize;
    let (n, stride) = (a.shape[axis], a.shape[axis + 1..].iter().product::<usize>());
    let mut out = vec![false; a.shape.numel()];
    for first in (0..out.len()).filter(|p| (p / stride).is_multiple_of(n)) {
        // Logarithms of the largest and the smallest product of a range that ends here, the empty one included.
        let (mut most, mut least, mut left) = (0.0f64, 0.0f64, false);
        for i in 0..n {
            let at = first + stride * if step.attr & REVERSE != 0 { n - 1 - i } else { i };
            let size = a.get(at).to_f64().abs().log2();
            // 0 and infinity begin new ranges, which do not leave it by themselves.
            (most, least) = match size.is_finite() {
                true => ((most + size).max(0.0), (least + size).min(0.0)),
                false => (0.0, 0.0),
            };
            left |= most >= 128.0 || least < -126.0;
            out[at] = left;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, ElementOp, Shape};

    fn array(values: &[f32]) -> Array {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array::from_bytes(Shape::new(&[values.len()]), DType::F32, &bytes)
    }

    fn step(op: Op, n: usize) -> Step {
        Step { op, dtype: DType::F32, shape: Shape::new(&[n]), attr: 0, args: vec![], ints: vec![], kept: true }
    }

    #[test]
    fn a_subnormal_argument_counts_as_zero() {
        let (x, y) = (array(&[f32::INFINITY, 1e-40, 3.0]), array(&[1e-40, 1e30, 4.0]));
        let (step, args) = (step(Op::Element(ElementOp::Mul), 3), [RefArg::Array(&x), RefArg::Array(&y)]);
        let permitted = Permitted::new(&step, &args);
        assert!(permitted.accepts(0, Scalar::Float(f64::NAN)) && permitted.accepts(1, Scalar::Float(0.0)));
        assert!(!permitted.accepts(0, Scalar::Float(0.0)) && !permitted.accepts(1, Scalar::Float(1e-9)));
        assert!(!permitted.accepts(2, Scalar::Float(12.5)) && !permitted.accepts(2, Scalar::Float(f64::NAN)));
    }

    #[test]
    fn a_root_of_a_subnormal_may_be_zero_and_no_other_number() {
        let x = array(&[-1e-40, 1e-40, -1.0]);
        let (step, args) = (step(Op::Element(ElementOp::Sqrt), 3), [RefArg::Array(&x)]);
        let permitted = Permitted::new(&step, &args);
        assert!(permitted.accepts(0, Scalar::Float(0.0)) && permitted.accepts(1, Scalar::Float(0.0)));
        assert!(!permitted.accepts(1, Scalar::Float(2e-20)) && !permitted.accepts(2, Scalar::Float(0.0)));
    }

    #[test]
    fn a_running_product_is_lost_only_after_a_range_that_overflows() {
        let x = array(&[1e-30, 1e30, 1e20, 2.0]);
        let (step, args) = (step(Op::Scan(ScanOp::Prod), 4), [RefArg::Array(&x)]);
        let permitted = Permitted::new(&step, &args);
        assert!(
            !permitted.accepts(1, Scalar::Float(f64::INFINITY)) && permitted.accepts(2, Scalar::Float(f64::INFINITY))
        );
        assert!(permitted.accepts(3, Scalar::Float(f64::NAN)) && !permitted.accepts(3, Scalar::Float(1.0)));
    }
}
