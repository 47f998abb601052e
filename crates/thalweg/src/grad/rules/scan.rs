//! Rules of scans and sorts.

use super::{Step, zeros};
use crate::{DType, Tensor};
use thalweg_ir::{REVERSE, ScanOp, ScatterOp};

pub(super) fn rule(step: &Step<'_>, op: ScanOp, dy: &Tensor) -> Tensor {
    let (axis, reverse, shape) = (step.axis(), step.attr & REVERSE != 0, step.args[0].shape());
    if dy.numel() == 0 {
        return dy.clone();
    }
    match op {
        ScanOp::Sum => dy.scanned(ScanOp::Sum, axis, !reverse),
        // To the element that is the running extreme; of equal ones to the last in the order of the scan.
        ScanOp::Max | ScanOp::Min => {
            let (x, y) = (step.args[0].value(), step.result());
            let hit = x.eq(y) | x.is_nan();
            let place = dy.positions(axis, DType::I64);
            let from = match reverse {
                false => hit.where_(place, 0).cummax(axis),
                true => hit.where_(place, dy.dims()[axis] as i64 - 1).cummin_reverse(axis),
            };
            zeros(*shape, dy).scattered(ScatterOp::Add, axis, &from, dy)
        }
        ScanOp::Prod => {
            let x = step.args[0].value();
            forward(reverse, axis, [x, dy], |[x, dy]| {
                // ∂y_i/∂x_j is the product of the elements before j and of those from j to i except j. There is no
                // division, so zeros need no special case.
                let n = x.dims()[axis];
                let before = shifted(&x.cumprod(axis).part(axis, (0, 1, n - 1)), axis, 1, 0, 1);
                let next = shifted(&x.part(axis, (1, 1, n - 1)), axis, 0, 1, 0);
                before * recurrence(next, dy.clone(), axis)
            })
        }
        ScanOp::LogSumExp => {
            let (x, y) = (step.args[0].value(), step.result());
            forward(reverse, axis, [x, y, dy], |[x, y, dy]| {
                // ∂y_i/∂x_j = e^(x_j - y_i) = e^(x_j - y_j)·e^(y_j - y_j+1)·…·e^(y_i-1 - y_i), each at most 1.
                let n = x.dims()[axis];
                let next = y.part(axis, (1, 1, n - 1));
                let rises = difference(&y.part(axis, (0, 1, n - 1)), &next).exp();
                recurrence(shifted(&rises, axis, 0, 1, 0), dy.clone(), axis) * difference(x, y).exp()
            })
        }
        ScanOp::Sort => {
            let places = step.args[0].value().scanned(ScanOp::Argsort, axis, reverse);
            zeros(*shape, dy).scattered(ScatterOp::Set, axis, &places, dy)
        }
        ScanOp::Argsort => unreachable!("an index has no gradient"),
    }
}

/// Runs a reverse scan as a forward scan of the flipped arguments.
fn forward<const N: usize>(
    reverse: bool,
    axis: usize,
    args: [&Tensor; N],
    f: impl Fn([&Tensor; N]) -> Tensor,
) -> Tensor {
    if !reverse {
        return f(args);
    }
    let flipped = args.map(|x| x.flip(axis));
    f(std::array::from_fn(|i| &flipped[i])).flip(axis)
}

/// `a - b`; 0 if both are the same infinity: the scan of no terms, or a term beside which all others vanish.
fn difference(a: &Tensor, b: &Tensor) -> Tensor {
    (b.is_inf() & a.eq(b)).where_(0.0, a - b)
}

/// Pads a tensor along an axis with copies of a value.
fn shifted(x: &Tensor, axis: usize, before: usize, behind: usize, value: i64) -> Tensor {
    let mut widths = vec![(0, 0); x.rank()];
    widths[axis] = (before, behind);
    x.pad(&widths, value)
}

/// Solution of the recurrence `r_j = b_j + a_j·r_j+1` along an axis, by doubling: after step `s` each result spans `2ˢ`
/// elements (Kogge and Stone 1973). There is no division, and its operations have derivatives of every order.
fn recurrence(mut a: Tensor, mut b: Tensor, axis: usize) -> Tensor {
    let n = b.dims()[axis];
    let mut span = 1;
    while span < n {
        let ahead = |x: &Tensor| shifted(&x.part(axis, (span as i64, 1, n - span)), axis, 0, span, 0);
        b = &b + &a * ahead(&b);
        a = &a * ahead(&a);
        span *= 2;
    }
    b
}
