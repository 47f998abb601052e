//! `#[kernel(row)]`: folds and scans by user-defined combines.

use crate::assert_mistake;
use crate::counting::{counted, pinned};
use thalweg::kernel::{Int, Row};
use thalweg::prelude::*;
use thalweg::{grad, grad_graph, with_fusion, with_reference, with_strict};

/// Softmax with the maximum exponent and the sum in one fold (Milakov and Gimelshein 2018).
#[kernel(row)]
fn softmax<F: Real>(x: Row<F>) -> Row<F> {
    let (m, s) = x.map(|x| (x, 1.0)).fold((F::lit(f64::NEG_INFINITY), 0.0), |(m1, s1), (m2, s2)| {
        let m = m1.max(m2);
        (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
    });
    x.map(|x| (x - m).exp() / s)
}

/// h[t] = a[t] h[t-1] + b[t].
#[kernel(row)]
fn recurrence<F: Real>(a: &Row<F>, b: &Row<F>) -> Row<F> {
    a.zip(b).scan(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2)).map(|(_, h)| h)
}

/// h[t] = a[t] h[t+1] + b[t].
#[kernel(row)]
fn backwards<F: Real>(a: &Row<F>, b: &Row<F>) -> Row<F> {
    a.zip(b).scan_reverse(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2)).map(|(_, h)| h)
}

/// The maximum of each row, its first index, and the differences to it.
#[kernel(row)]
fn largest<F: Real>(x: Row<F>, scale: F) -> (F, i32, Row<F>) {
    let first = |(v1, i1): (F, Int<F>), (v2, i2): (F, Int<F>)| {
        if v2 > v1 || v2 == v1 && i2 < i1 { (v2, i2) } else { (v1, i1) }
    };
    let (v, i) = x.zip(&x.places()).fold((F::lit(f64::NEG_INFINITY), i32::MAX), first);
    (v, i, x.map(|x| scale * (v - x)))
}

/// A scan by a non-commutative combine: the last number that is not 0.
#[kernel(row)]
fn last_of<F: Real>(x: Row<F>) -> Row<F> {
    x.scan(|a, b| if b == 0.0 { a } else { b })
}

#[kernel(row)]
fn total<F: Real>(x: Row<F>) -> (F, Row<F>) {
    (x.fold(0.0, |a, b| a + b), x.scan(|a, b| a + b))
}

fn numbers(n: usize, salt: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + salt * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn tensor(shape: [usize; 2], salt: usize) -> Tensor {
    Tensor::new(numbers(shape[0] * shape[1], salt)).reshape([shape[0] as i64, shape[1] as i64])
}

fn close(got: &[f32], want: &[f32], relative: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= relative * w.abs().max(1e-3), "{g} is not {w}, at {i}");
    }
}

#[test]
fn a_softmax_of_ones_own_is_the_softmax() {
    for shape in [[3, 1], [4, 7], [5, 64], [2, 1000], [1, 10_000], [300, 33]] {
        let x = tensor(shape, 1) * 20;
        close(&softmax::on(&x).to_vec::<f32>().unwrap(), &x.softmax(-1).to_vec::<f32>().unwrap(), 2e-6);
        close(&softmax::along(0, &x).to_vec::<f32>().unwrap(), &x.softmax(0).to_vec::<f32>().unwrap(), 2e-6);
    }
}

#[test]
fn a_recurrence_is_what_a_loop_gives() {
    for shape in [[1, 1], [3, 5], [2, 64], [4, 65], [3, 200], [2, 4096], [1, 10_007]] {
        let (a, b) = (tensor(shape, 2), tensor(shape, 3));
        let [rows, n] = shape;
        let (x, y) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
        let (mut forward, mut back) = (vec![0f32; rows * n], vec![0f32; rows * n]);
        for r in 0..rows {
            let (mut h, mut g) = (0.0f64, 0.0f64);
            for i in 0..n {
                let (f, k) = (r * n + i, r * n + n - 1 - i);
                h = f64::from(x[f]) * h + f64::from(y[f]);
                g = f64::from(x[k]) * g + f64::from(y[k]);
                (forward[f], back[k]) = (h as f32, g as f32);
            }
        }
        close(&recurrence::on(&a, &b).to_vec::<f32>().unwrap(), &forward, 1e-3);
        close(&backwards::on(&a, &b).to_vec::<f32>().unwrap(), &back, 1e-3);
        let (t, u) = (a.t(), b.t());
        close(&recurrence::along(0, &t, &u).t().to_vec::<f32>().unwrap(), &forward, 1e-3);
        close(&backwards::along(0, &t, &u).t().to_vec::<f32>().unwrap(), &back, 1e-3);
    }
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// A row of a tensor as a row on numbers.
fn on_numbers(x: &Tensor, row: usize) -> Row<f32> {
    let n = x.dims()[1];
    Row::new(&x.to_vec::<f32>().unwrap()[row * n..][..n])
}

#[test]
fn numbers_interpreter_and_kernels_have_the_same_bits() {
    for shape in [[2, 1], [3, 64], [3, 65], [2, 500], [1, 5000]] {
        let (a, b) = (tensor(shape, 4), tensor(shape, 5));
        let run = || with_strict(true, || recurrence::on(&a, &b));
        let fused = bits(&run());
        assert_eq!(fused, bits(&with_fusion(false, run)), "{shape:?}");
        assert_eq!(fused, bits(&with_reference(run)), "{shape:?}");
        let numbers: Vec<u32> = (0..shape[0])
            .flat_map(|r| recurrence(&on_numbers(&a, r), &on_numbers(&b, r)).elements().to_vec())
            .map(f32::to_bits)
            .collect();
        assert_eq!(fused, numbers, "{shape:?}");
        let across = with_strict(true, || backwards::along(0, a.t(), b.t()).t());
        assert_eq!(bits(&across), bits(&with_strict(true, || backwards::on(&a, &b))), "{shape:?}");
    }
}

#[test]
fn a_softmax_of_ones_own_is_one_kernel_with_its_neighbours() {
    let _pinned = pinned();
    let (x, bias) = (tensor([64, 1000], 6), tensor([1, 1000], 7));
    let run = || (softmax::on(&(&x * 3 + &bias)) * 2).sqrt();
    drop(run().to_vec::<f32>().unwrap());
    let (_, c) = counted(run);
    assert_eq!(c.kernels, 1, "{c:?}");
    assert_eq!((c.bytes_read, c.bytes_written), (4 * (64_000 + 1000), 4 * 64_000), "{c:?}");
    let strict = || with_strict(true, run);
    assert_eq!(bits(&strict()), bits(&with_fusion(false, strict)));
}

#[test]
fn a_recurrence_is_one_kernel_with_what_it_is_made_of() {
    let _pinned = pinned();
    let (a, b) = (tensor([16, 3000], 8), tensor([16, 3000], 9));
    let run = || recurrence::on(a.sigmoid(), &(&b * 0.5)).tanh();
    drop(run().to_vec::<f32>().unwrap());
    let (_, c) = counted(run);
    assert_eq!(c.kernels, 1, "{c:?}");
    assert_eq!((c.bytes_read, c.bytes_written), (8 * 48_000, 4 * 48_000), "{c:?}");
    let strict = || with_strict(true, run);
    assert_eq!(bits(&strict()), bits(&with_fusion(false, strict)));
}

#[test]
fn results_have_a_row_or_an_element_a_row() {
    let x = Tensor::new([[1.0f32, 5.0, 2.0, 5.0], [-3.0, -7.0, -3.0, -9.0]]);
    let (v, i, below) = largest::on(&x, Tensor::new([1.0f32, 10.0]));
    assert_eq!((v.dims(), i.dims(), below.dims()), (&[2][..], &[2][..], &[2, 4][..]));
    assert_eq!(v.to_vec::<f32>().unwrap(), [5.0, -3.0]);
    assert_eq!(i.to_vec::<i32>().unwrap(), [1, 0]);
    assert_eq!(below.to_vec::<f32>().unwrap(), [4.0, 0.0, 3.0, 0.0, 0.0, 40.0, 0.0, 60.0]);
    let (v, i, below) = largest::along(0, &x, 1.0);
    assert_eq!(v.to_vec::<f32>().unwrap(), [1.0, 5.0, 2.0, 5.0]);
    assert_eq!((i.to_vec::<i32>().unwrap(), below.dims()), (vec![0; 4], &[2, 4][..]));
    let (v, i, below) = largest(Row::new([1.0f32, 5.0, 2.0]), 1.0);
    assert_eq!((v, i.get(), below.elements()), (5.0, 1, &[4.0, 0.0, 3.0][..]));
    // No elements: the identity.
    let (v, i, _) = largest::on(Tensor::zeros([2, 0]), 1.0);
    assert_eq!(v.to_vec::<f32>().unwrap(), [f32::NEG_INFINITY; 2]);
    assert_eq!(i.to_vec::<i32>().unwrap(), [i32::MAX; 2]);
}

#[test]
fn what_is_a_row_of_the_table_is_that() {
    let _pinned = pinned();
    let x = tensor([8, 100], 10);
    let (sum, running) = total::on(&x);
    assert_eq!(bits(&sum), bits(&x.sum(1)));
    assert_eq!(bits(&running), bits(&x.cumsum(1)));
    let t = x.tracked();
    assert_eq!(grad(&total::on(&t).0.sum(..), &t).to_vec::<f32>().unwrap(), [1.0; 800]);
}

#[test]
fn narrow_floats_go_through_in_f32() {
    let x = tensor([4, 300], 11).cast(DType::BF16);
    let (got, want) = (softmax::on(&x), x.softmax(-1));
    assert_eq!(got.dtype(), DType::BF16);
    let both = [got, want].map(|t| t.cast(DType::F32).to_vec::<f32>().unwrap());
    close(&both[0], &both[1], 1e-2);
}

#[test]
fn gradients_are_those_of_the_same_by_other_means() {
    let x = (tensor([3, 130], 12) * 4).cast(DType::F64).tracked();
    let weights = tensor([3, 130], 13).cast(DType::F64);
    let of = |y: Tensor| grad(&(y * &weights).sum(..), &x).to_vec::<f64>().unwrap();
    let (got, want) = (of(softmax::on(&x)), of(x.softmax(-1)));
    got.iter().zip(&want).for_each(|(g, w)| assert!((g - w).abs() < 1e-12, "{g} is not {w}"));
    for reverse in [false, true] {
        let (a, b) = (tensor([2, 70], 14).cast(DType::F64).tracked(), tensor([2, 70], 15).cast(DType::F64).tracked());
        let weights = tensor([2, 70], 16).cast(DType::F64);
        let own = |a: &Tensor, b: &Tensor| if reverse { backwards::on(a, b) } else { recurrence::on(a, b) };
        let slow = |a: &Tensor, b: &Tensor| {
            let (mut h, mut all) = (Tensor::zeros_with([2, 1], DType::F64), vec![]);
            for i in 0..70 {
                let i = if reverse { 69 - i } else { i };
                h = a.slice((.., i..i + 1)) * &h + b.slice((.., i..i + 1));
                all.push(h.clone());
            }
            if reverse {
                all.reverse();
            }
            Tensor::cat(&all, 1)
        };
        let first = |y: Tensor| grad_graph(&(y.square() * &weights).sum(..), [&a, &b]);
        let second = |[x, y]: [Tensor; 2]| grad(&(x.square().sum(..) + y.square().sum(..)), [&a, &b]);
        let all = [own(&a, &b), slow(&a, &b)].map(|y| {
            let once = first(y);
            let twice = second(once.clone());
            once.into_iter().chain(twice).map(|g| g.to_vec::<f64>().unwrap()).collect::<Vec<_>>()
        });
        for (order, (got, want)) in all[0].iter().zip(&all[1]).enumerate() {
            for (g, w) in got.iter().zip(want) {
                assert!((g - w).abs() <= 1e-9 * w.abs().max(1.0), "{g} is not {w} ({order}, {reverse})");
            }
        }
    }
}

#[test]
fn mistakes_are_told_at_the_line_of_the_call() {
    let x = tensor([4, 5], 17);
    assert_mistake(|| drop(softmax::along(2, &x)), &["softmax", "axis 2"]);
    assert_mistake(|| drop(recurrence::on(&x, tensor([4, 6], 1))), &["recurrence", "`b`", "[4, 6]"]);
    assert_mistake(|| drop(largest::on(&x, tensor([4, 5], 1))), &["largest", "`scale`", "an element a row"]);
    assert_mistake(|| drop(softmax::on(2.0)), &["softmax", "no operand is a tensor"]);
}
