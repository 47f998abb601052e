//! Derivatives of folds and scans by user-defined combines, of first and second order, against differences and against
//! equivalent operations.

use crate::counting::{counted, pinned};
use crate::differences::{check, numbers};
use thalweg::kernel::Row;
use thalweg::prelude::*;
use thalweg::{grad, grad_graph};

/// ln Σ eˣ, by a maximum and a sum.
#[kernel(row)]
fn logsumexp<F: Real>(x: &Row<F>) -> F {
    let none = (F::lit(f64::NEG_INFINITY), 0.0);
    let (m, s) = x.map(|x| (x, 1.0)).fold(none, |(m1, s1), (m2, s2)| {
        let m = m1.max(m2);
        (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
    });
    m + s.ln()
}

/// Mean and variance, combined by Chan's formula.
#[kernel(row)]
fn moments<F: Real>(x: &Row<F>) -> (F, F) {
    let (n, mean, m2) = x.map(|x| (1.0, x, 0.0)).fold((0.0, 0.0, 0.0), |(n1, a1, q1), (n2, a2, q2)| {
        let (n, d) = (n1 + n2, a2 - a1);
        let share = n2 / if n > 0.0 { n } else { 1.0 };
        (n, a1 + d * share, q1 + q2 + d * d * n1 * share)
    });
    (mean, m2 / n)
}

/// Products of quaternions with two of four components: associative, but not commutative.
#[kernel(row)]
fn turns<F: Real>(x: &Row<F>, y: &Row<F>) -> (Row<F>, Row<F>) {
    let all = x.zip(y).map(|(x, y)| (x, y, 0.5 * x, 0.25)).scan(|(a, b, c, d), (e, f, g, h)| {
        (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        )
    });
    (all.map(|(a, _, _, _)| a), all.map(|(_, _, _, d)| d))
}

/// The logarithm of running sums of exponentials, from the end.
#[kernel(row)]
fn behind<F: Real>(x: &Row<F>) -> Row<F> {
    x.map(|x| (x, 1.0))
        .scan_reverse(|(m1, s1), (m2, s2)| {
            let m = m1.max(m2);
            (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
        })
        .map(|(m, s)| m + s.ln())
}

#[test]
fn folds_have_derivatives_of_both_orders() {
    for n in [1, 2, 7, 12] {
        let x = numbers(3, [2, n], -1.5, 1.5);
        check("logsumexp", std::slice::from_ref(&x), &|x| logsumexp::on(&x[0]));
        check("logsumexp, along", &[x.t()], &|x| logsumexp::along(0, &x[0]));
        check("variance", &[x], &|x| {
            let (mean, variance) = moments::on(&x[0]);
            mean.square() + variance.square()
        });
    }
}

#[test]
fn any_scan_has_derivatives_of_both_orders() {
    for n in [1, 2, 5, 9] {
        let (x, y) = (numbers(5, [2, n], -0.9, 0.9), numbers(6, [2, n], -0.9, 0.9));
        check("turns", &[x.clone(), y], &|x| {
            let (a, d) = turns::on(&x[0], &x[1]);
            a * d.sin()
        });
        check("behind", &[x], &|x| behind::on(&x[0]).square());
    }
}

#[test]
fn orders_are_those_of_what_the_library_has() {
    let x = numbers(8, [3, 70], -4.0, 4.0).tracked();
    let both = |y: Tensor| {
        let first = grad_graph(&y.square().sum(..), &x);
        let third = grad_graph(&grad_graph(&first.square().sum(..), &x).sum(..), &x);
        [first, third].map(|g| g.to_vec::<f64>().unwrap())
    };
    let (got, want) = (both(logsumexp::on(&x)), both(x.logsumexp(1)));
    for (got, want) in got.iter().zip(&want) {
        got.iter().zip(want).for_each(|(g, w)| assert!((g - w).abs() < 1e-8 * w.abs().max(1.0), "{g} is not {w}"));
    }
    let slope = |y: Tensor| grad(&y.square().sum(..), &x).to_vec::<f64>().unwrap();
    let (got, want) = (slope(behind::on(&x)), slope(x.flip(1).logcumsumexp(1).flip(1)));
    got.iter().zip(&want).for_each(|(g, w)| assert!((g - w).abs() < 1e-9 * w.abs().max(1.0), "{g} is not {w}"));
}

/// The value of a differentiated scan is computed as without differentiation.
#[test]
fn a_forward_pass_is_what_it_is_without_a_gradient() {
    let _pinned = pinned();
    let x = numbers(9, [64, 300], -1.0, 1.0);
    let (plain, c) = counted(|| behind::on(&x));
    let leaf = x.tracked();
    let (own, d) = counted(|| behind::on(&leaf));
    assert_eq!((c.kernels, c.bytes_written), (1, 8 * 64 * 300), "{c:?}");
    assert_eq!((d.kernels, d.bytes_read), (c.kernels, c.bytes_read), "{d:?}");
    assert_eq!(own.to_vec::<f64>().unwrap(), plain.to_vec::<f64>().unwrap());
}
