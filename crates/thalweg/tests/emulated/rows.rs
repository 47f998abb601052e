//! Row kernels: folds and scans by user-defined combines.

use crate::{emulated, values};
use thalweg::kernel::Row;
use thalweg::prelude::*;
use thalweg::{grad, with_strict};

/// h[t] = a[t]·h[t-1] + b[t].
#[kernel(row)]
fn recurrence<F: Real>(a: &Row<F>, b: &Row<F>) -> Row<F> {
    a.zip(b).scan(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2)).map(|(_, h)| h)
}

/// The maximum, its index, and the row minus it.
#[kernel(row)]
fn largest<F: Real>(x: Row<F>) -> (F, i32, Row<F>) {
    let (v, i) = x.zip(&x.places()).fold((F::lit(f64::NEG_INFINITY), i32::MAX), |(v1, i1), (v2, i2)| {
        if v2 > v1 || v2 == v1 && i2 < i1 { (v2, i2) } else { (v1, i1) }
    });
    (v, i, x.map(|x| x - v))
}

/// `largest` without a result row.
#[kernel(row)]
fn top<F: Real>(x: Row<F>) -> (F, i32) {
    x.zip(&x.places()).fold((F::lit(f64::NEG_INFINITY), i32::MAX), |(v1, i1), (v2, i2)| {
        if v2 > v1 || v2 == v1 && i2 < i1 { (v2, i2) } else { (v1, i1) }
    })
}

fn numbers(shape: [usize; 2], salt: usize) -> Tensor {
    let list: Vec<f32> =
        (0..shape[0] * shape[1]).map(|i| ((i * 7919 + salt * 101) % 1009) as f32 / 504.5 - 1.0).collect();
    Tensor::from_slice(&list, shape)
}

/// Row kernels in inner-axis and outer-axis orientation, with rows of one segment, of several, and of segments of
/// segments.
#[test]
fn they_have_the_bits_of_the_cpu() {
    let device = emulated();
    for shape in [[3, 1], [5, 64], [40, 65], [2, 300], [1, 9000]] {
        let (a, b) = (numbers(shape, 1), numbers(shape, 2));
        let on = |d: Device| [&a, &b].map(|t| t.to_device(d).unwrap());
        let both = [a.device(), device].map(|d| {
            let [a, b] = on(d);
            with_strict(true, || {
                let (v, i, below) = largest::on(&a);
                let across = recurrence::along(0, a.t(), b.t()).t();
                let all = [recurrence::on(&a, &b), across, v, below].map(|t| values(&t));
                (all, i.to_vec::<i32>().unwrap())
            })
        });
        assert_eq!(both[0], both[1], "{shape:?}");
    }
}

/// A result folded in the last pass is stored by the launch after the combine, which reads it from memory.
#[test]
fn folds_beside_them_are_kept() {
    let device = emulated();
    for shape in [[3, 1], [5, 64], [2, 300]] {
        let both = [Device::cpu(), device].map(|d| {
            let x = numbers(shape, 5).to_device(d).unwrap();
            with_strict(true, || {
                let (low, (v, i)) = (x.amin_keepdim(1), top::on(&x));
                (values(&low), values(&v), i.to_vec::<i32>().unwrap())
            })
        });
        assert_eq!(both[0], both[1], "{shape:?}");
    }
}

#[test]
fn they_are_differentiated() {
    let (a, b) = (numbers([4, 100], 3), numbers([4, 100], 4));
    let both = [a.device(), emulated()].map(|d| {
        let [a, b] = [&a, &b].map(|t| t.to_device(d).unwrap().tracked());
        let [x, y] = grad(&(recurrence::on(&a, &b).square().sum(..) + largest::on(&a).0.sum(..)), [&a, &b]);
        (values(&x), values(&y))
    });
    let near = |x: &[f32], y: &[f32]| x.iter().zip(y).all(|(x, y)| (x - y).abs() <= 1e-5 * y.abs().max(1.0));
    assert!(near(&both[0].0, &both[1].0) && near(&both[0].1, &both[1].1), "{both:?}");
}
