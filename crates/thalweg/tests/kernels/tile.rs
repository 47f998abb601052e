//! `#[kernel(tile)]`: matrix products, reductions, and elementwise functions between them.

use crate::assert_mistake;
use crate::counting::{counted, pinned, randn};
use crate::differences::{check, numbers};
use thalweg::kernel::{Int, Mask, Tile};
use thalweg::prelude::*;
use thalweg::{with_fusion, with_reference, with_strict};

#[kernel]
fn capped<F: Real>(s: F, most: F) -> F {
    most * (s / most).tanh()
}

/// Causal attention with capped scores and a distance penalty.
#[kernel(tile)]
fn attention<F: Real>(q: &Tile<F>, k: &Tile<F>, v: &Tile<F>, scale: F, slope: F) -> Tile<F> {
    let s = q.dot(&k.t()) * scale;
    let s = s.zip(&s.places()).map(|(s, (i, j))| {
        let s = capped(s, F::lit(20.0)) - slope * (i - j).abs() as F;
        if j > i { F::lit(f64::NEG_INFINITY) } else { s }
    });
    let e = (&s - s.max(1)).map(|x| x.exp());
    (&e / e.sum(1)).dot(v)
}

fn attention_by_methods(q: &Tensor, k: &Tensor, v: &Tensor, scale: f64, slope: &Tensor) -> Tensor {
    let n = q.dims()[q.rank() - 2];
    let (i, j) = (Tensor::arange_with(n, DType::I32).reshape([n, 1]), Tensor::arange_with(n, DType::I32));
    let (i, j) = (i.broadcast_to([n, n]), j.broadcast_to([n, n]));
    let s = q.matmul(&k.transpose(-1, -2)) * scale;
    let s = (s / 20.0).tanh() * 20.0 - (&i - &j).abs().cast(q.dtype()) * slope;
    let s = j.gt(&i).where_(f32::NEG_INFINITY, s);
    let e = (&s - s.amax_keepdim(-1)).exp();
    (&e / e.sum_keepdim(-1)).matmul(v)
}

/// Burn's example.
#[kernel(tile)]
fn linear<F: Real>(x: &Tile<F>, w: &Tile<F>, b: &Tile<F>) -> Tile<F> {
    (x.dot(w) + b).map(|y| y.relu())
}

fn tile(x: &Tensor) -> Tile<f32> {
    let [n, m] = [0, 1].map(|axis| x.dims()[axis]);
    Tile::new(x.to_vec::<f32>().unwrap(), [n, m])
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn attention_on_numbers_is_attention_on_tensors() {
    let [q, k, v] = [1, 2, 3].map(|seed| numbers(seed, [9, 5], -2.0, 2.0).cast(DType::F32));
    let want = attention(&tile(&q), &tile(&k), &tile(&v), 0.5, 0.05);
    let run = || attention::on(&q, &k, &v, 0.5, 0.05);
    assert_eq!(*run().shape(), Shape::new(&[9, 5]));
    let want = Tensor::from_slice(want.elements(), [9, 5]);
    assert!(run().allclose(&want, 1e-5, 1e-6).unwrap());
    assert!(attention_by_methods(&q, &k, &v, 0.5, &Tensor::new(0.05f32)).allclose(&want, 1e-5, 1e-6).unwrap());
    // The interpreter agrees with the kernel on numbers.
    assert_eq!(bits(&with_reference(run)), bits(&want));
    let strict = || with_strict(true, run);
    assert_eq!(bits(&strict()), bits(&with_fusion(false, strict)));
}

/// A tile kernel takes the same kernels and bytes as methods, alone and with batches, with a slope per batch as an
/// operand.
#[test]
fn attention_costs_what_methods_cost() {
    for heads in [None, Some(4usize)] {
        let _pinned = pinned();
        let (n, d) = (128usize, 32usize);
        let of = |sizes: &[usize]| Shape::new(&heads.iter().chain(sizes).copied().collect::<Vec<_>>());
        let (q, k, v) = (randn(of(&[n, d])), randn(of(&[n, d])), randn(of(&[n, d])));
        let slope = Tensor::full(of(&[]), 0.05f32);
        thalweg::synchronize().unwrap();
        let slopes = slope.reshape(of(&[1, 1]));
        let (want, m) = counted(|| attention_by_methods(&(&q * 2.0), &k, &v, 0.125, &slopes).tanh());
        let (got, c) = counted(|| attention::on(&q * 2.0, &k, &v, 0.125, &slope).tanh());
        assert_eq!(
            (c.kernels, c.bytes_read, c.bytes_written),
            (m.kernels, m.bytes_read, m.bytes_written),
            "{c:?}\n{m:?}"
        );
        assert_eq!(c.kernels, 1);
        assert!(got.allclose(&want, 1e-5, 1e-5).unwrap());
        let (_, c) = counted(|| attention::on(&q * 2.0, &k, &v, 0.25, &slope).tanh());
        assert_eq!(c.plans_made, 0, "another number is no other plan");
    }
}

#[test]
fn attention_with_numbers_is_one_kernel() {
    let _pinned = pinned();
    let (q, k, v) = (randn([128, 32]), randn([128, 32]), randn([128, 32]));
    thalweg::synchronize().unwrap();
    let (_, c) = counted(|| attention::on(&q, &k, &v, 0.125, 0.05));
    assert_eq!((c.kernels, c.bytes_written), (1, 4 * 128 * 32), "{c:?}");
    let (_, c) = counted(|| attention::on(&q, &k, &v, 0.125, 0.05).tanh());
    assert_eq!((c.kernels, c.bytes_written), (1, 4 * 128 * 32), "{c:?}");
    let (_, c) = counted(|| attention::on(&q * 2.0, &k, &v, 0.125, 0.05).tanh());
    assert_eq!((c.kernels, c.bytes_written), (1, 4 * 128 * 32), "{c:?}");
}

#[test]
fn a_layer_costs_what_methods_cost_in_both_passes() {
    let _pinned = pinned();
    let (x, w, b) = (randn([48, 96]), randn([96, 64]), randn([64]));
    let step = |f: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
        let leaves = [&x, &w, &b].map(Tensor::tracked);
        let loss = (f(&(&leaves[0] * 2.0).tanh(), &leaves[1], &leaves[2]) * 0.5).square().sum(..);
        let [dx, dw, db] = thalweg::grad(&loss, [&leaves[0], &leaves[1], &leaves[2]]);
        thalweg::synchronize().unwrap();
        (dx, dw, db)
    };
    let (want, m) = counted(|| step(&|x, w, b| (x.matmul(w) + b).relu()));
    let (got, c) = counted(|| step(&|x, w, b| linear::on(x, w, b)));
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (m.kernels, m.bytes_read, m.bytes_written), "{c:?}\n{m:?}");
    assert_eq!((c.segments, c.plans_made), (1, 1), "forward and backward are one segment");
    for (got, want) in [(got.0, want.0), (got.1, want.1), (got.2, want.2)] {
        assert!(got.allclose(&want, 1e-4, 1e-3).unwrap());
    }
    assert_eq!(counted(|| step(&|x, w, b| linear::on(x, w, b))).1.plans_made, 0);
}

#[test]
fn gradients_are_those_of_differences() {
    let xs = [numbers(1, [2, 3, 5], -1.0, 1.0), numbers(2, [5, 4], -1.0, 1.0), numbers(3, [4], -0.2, 0.2)];
    check("linear", &xs, &|xs| linear::on(&xs[0], &xs[1], &xs[2]));
    let xs = [1, 2, 3].map(|seed| numbers(seed, [2, 4, 3], -1.0, 1.0));
    check("attention", &xs, &|xs| attention::on(&xs[0], &xs[1], &xs[2], 0.5, 0.05));
    check("online", &xs[..1], &|xs| {
        let (y, s, m) = online::on(&xs[0]);
        y + s * m
    });
}

/// Softmax of columns with one fold, several results, one per row, which broadcast.
#[kernel(tile)]
fn online<F: Real>(x: &Tile<F>) -> (Tile<F>, Tile<F>, Tile<F>) {
    let both = x.map(|x| (x, F::lit(1.0))).fold(0, (F::lit(f64::NEG_INFINITY), F::lit(0.0)), |(m1, s1), (m2, s2)| {
        let m = m1.max(m2);
        (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
    });
    let y = x.zip(&both).map(|(x, (m, s))| (x - m).exp() / s);
    (y, x.sum(1), x.min(0))
}

#[test]
fn folds_of_ones_own_and_several_results() {
    let x = numbers(4, [3, 70, 6], -9.0, 9.0).cast(DType::F32);
    let (y, s, m) = online::on(&x);
    assert!(y.allclose(x.softmax(-2), 1e-5, 1e-7).unwrap());
    assert!(s.allclose(x.sum_keepdim(-1), 1e-5, 1e-5).unwrap());
    assert_eq!(*m.shape(), Shape::new(&[3, 1, 6]));
    assert!(m.allclose(x.amin_keepdim(-2), 0.0, 0.0).unwrap());
    let first = x.slice(0);
    let (y, s, m) = online(&tile(&first));
    let by_reference = with_reference(|| online::on(&first));
    for (got, want) in [(by_reference.0, y), (by_reference.1, s), (by_reference.2, m)] {
        assert_eq!(bits(&got), want.elements().iter().map(|x| x.to_bits()).collect::<Vec<_>>());
    }
}

/// Integers, truth values, plain data, a branch on each, unrolled loops, assignments.
#[kernel(tile)]
fn everything<F: Real, const POWER: usize>(
    x: &Tile<F>,
    mask: &Tile<F, bool>,
    shift: Tile<F, i32>,
    twice: bool,
    weights: [f64; 2],
) -> (Tile<F, i32>, [Tile<F>; 2], Tile<F, bool>) {
    let mut y = x.clone();
    for _ in 1..POWER {
        y = y.dot(x);
    }
    y *= F::lit(weights[0]);
    y += &y.t() * F::lit(weights[1]);
    y -= 1.0;
    let y = if twice { F::lit(0.5) + &y / 0.5 } else { 2.0 * 0.5 - &y };
    let kept = y.zip(mask).map(|(y, on)| if on { y } else { 0.0 });
    let moved = kept.zip(&shift).map(|(y, n)| (y as i32 + n, y > 0.0));
    let places: Tile<F, i32> = moved.map(|(n, _)| n);
    (places, [kept.sum(1).dot(&kept.max(0)), kept / 2.0], moved.map(|(_, up)| up))
}

#[test]
fn integers_truth_values_and_plain_data() {
    let x = numbers(5, [4, 4], -2.0, 2.0).cast(DType::F32);
    let mask = numbers(6, [4, 1], -1.0, 1.0).gt(0.0);
    let shift = Tensor::new([1i32, 2, 3, 4]);
    let (n, [product, half], up) = with_reference(|| everything::on::<3>(&x, &mask, &shift, true, [0.5, -0.25]));
    let on = |m: &Tensor| Tile::<f32, Mask<f32>>::new(m.to_vec::<bool>().unwrap(), [4, 1]);
    let of = Tile::<f32, Int<f32>>::new(shift.to_vec::<i32>().unwrap(), [1, 4]);
    let (wn, [wp, wh], wu) = everything::<f32, 3>(&tile(&x), &on(&mask), of, true, [0.5, -0.25]);
    assert_eq!(n.to_vec::<i32>().unwrap(), wn.elements().iter().map(|n| n.get()).collect::<Vec<_>>());
    assert_eq!(up.to_vec::<bool>().unwrap(), wu.elements().iter().map(|n| n.get()).collect::<Vec<_>>());
    assert_eq!(bits(&product), wp.elements().iter().map(|x| x.to_bits()).collect::<Vec<_>>());
    assert_eq!(bits(&half), wh.elements().iter().map(|x| x.to_bits()).collect::<Vec<_>>());
    let fused = everything::on::<3>(&x, &mask, &shift, true, [0.5, -0.25]);
    assert!(fused.1[0].allclose(&product, 1e-4, 1e-4).unwrap());
    assert!(fused.1[1].allclose(&half, 1e-4, 1e-4).unwrap());
}

#[test]
fn mistakes_are_told_at_the_call() {
    let (x, w) = (randn([3, 5]), randn([4, 6]));
    let b = randn([6]);
    assert_mistake(
        || drop(linear::on(&x, &w, &b)),
        &["dot: tiles of sizes [3, 5] and [4, 6]: 5 columns against 4 rows"],
    );
    let w = randn([5, 4]);
    assert_mistake(|| drop(linear::on(&x, &w, &b)), &["+: tiles of sizes [3, 4] and [1, 6] do not broadcast"]);
    assert_mistake(
        || drop(linear::on(&x, &w, 1.0)),
        &["linear: operand `b` is a number, and a tile has two dimensions"],
    );
    assert_mistake(
        || drop(linear::on(randn([2, 3, 5]), randn([3, 5, 4]), randn([4]))),
        &["linear: operand `w` of shape [3, 5, 4] does not broadcast with batches of [2]"],
    );
    assert_mistake(|| drop(linear::on(&x, w.cast(DType::F64), &b)), &["linear: operands `x` and `w` are f32 and f64"]);
    assert_mistake(|| drop(online::on(randn([0, 3]))), &["min: nothing along axis 0 of a tile of sizes [0, 3]"]);
    assert_mistake(
        || drop(attention::on(randn([3, 4, 4]), &x, &x, 1.0, randn([2]))),
        &["attention: operand `slope` of shape [2] does not broadcast with batches of [3]"],
    );
    // A number operand with several elements has one for each batch.
    let q = randn([4, 4]);
    let y = attention::on(&q, &q, &q, 1.0, Tensor::new([0.5f32, 0.25]));
    assert_eq!(*y.shape(), Shape::new(&[2, 4, 4]));
    assert!(y.slice(1).allclose(attention::on(&q, &q, &q, 1.0, 0.25), 1e-5, 1e-6).unwrap());
}
