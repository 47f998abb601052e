//! Gradients against central differences in f64, first and second order.

use thalweg::grad_graph;
use thalweg::prelude::*;

/// Distinct pseudo-random numbers in `low..high`, from a seed.
pub fn numbers(seed: u64, shape: impl Into<thalweg::Shape>, low: f64, high: f64) -> Tensor {
    let shape = shape.into();
    let mut random = fastrand::Rng::with_seed(seed);
    let list: Vec<f64> = (0..shape.numel()).map(|_| low + (high - low) * random.f64()).collect();
    Tensor::from_slice(&list, shape)
}

/// A function of some tensors.
pub type Function<'a> = &'a dyn Fn(&[Tensor]) -> Tensor;

/// The gradients of `Σ f(x)·w` for fixed random weights `w`, by the rules.
fn by_rules(f: &dyn Fn(&[Tensor]) -> Tensor, xs: &[Tensor]) -> Vec<Vec<f64>> {
    let leaves: Vec<Tensor> = xs.iter().map(Tensor::tracked).collect();
    let gradients = weighted(&f(&leaves)).backward();
    leaves.iter().map(|x| gradients[x].to_vec::<f64>().unwrap()).collect()
}

/// A scalar to which every element of a tensor contributes differently.
pub fn weighted(y: &Tensor) -> Tensor {
    let w = numbers(99, *y.shape(), 0.5, 1.5);
    (y * w).sum(..)
}

/// The derivatives of a scalar function by central differences.
fn by_differences(f: &dyn Fn(&[Tensor]) -> Tensor, xs: &[Tensor], h: f64) -> Vec<Vec<f64>> {
    let value = |i: usize, at: usize, d: f64| {
        let mut moved = xs.to_vec();
        let mut list = moved[i].to_vec::<f64>().unwrap();
        list[at] += d;
        moved[i] = Tensor::from_slice(&list, *moved[i].shape());
        f(&moved).item::<f64>().unwrap()
    };
    let slope = |i: usize, at: usize| (value(i, at, h) - value(i, at, -h)) / (2.0 * h);
    (0..xs.len()).map(|i| (0..xs[i].numel()).map(|at| slope(i, at)).collect()).collect()
}

fn assert_close(name: &str, got: &[Vec<f64>], want: &[Vec<f64>], tolerance: f64) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.len(), want.len(), "{name}: input {i}");
        let scale = want.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        for (at, (g, w)) in got.iter().zip(want).enumerate() {
            assert!(
                (g - w).abs() <= tolerance * scale,
                "{name}: input {i}, element {at}: {g}, difference {w}\n{got:?}\n{want:?}"
            );
        }
    }
}

/// Compares the first derivatives of a function with differences of its values, and the second with differences of the
/// first.
pub fn check(name: &str, xs: &[Tensor], f: Function<'_>) {
    first_order(name, xs, f);
    let slopes = |xs: &[Tensor]| -> Tensor {
        let leaves: Vec<Tensor> = xs.iter().map(Tensor::tracked).collect();
        let gradients = grad_graph(&weighted(&f(&leaves)), &leaves);
        total(&gradients)
    };
    let leaves: Vec<Tensor> = xs.iter().map(Tensor::tracked).collect();
    let gradients = grad_graph(&weighted(&f(&leaves)), &leaves);
    let sum = total(&gradients);
    let got: Vec<Vec<f64>> = match sum.is_tracked() {
        true => {
            let second = sum.backward();
            leaves.iter().map(|x| second.get(x).map_or(vec![0.0; x.numel()], |g| g.to_vec::<f64>().unwrap())).collect()
        }
        // A gradient that depends on nothing: differences must be 0, too.
        false => leaves.iter().map(|x| vec![0.0; x.numel()]).collect(),
    };
    let want = by_differences(&slopes, xs, 1e-5);
    assert_close(&format!("{name}, second order"), &got, &want, 1e-5);
}

/// Compares only the first derivatives.
pub fn first_order(name: &str, xs: &[Tensor], f: Function<'_>) {
    let got = by_rules(f, xs);
    let want = by_differences(&|xs| weighted(&f(xs)), xs, 1e-5);
    assert_close(name, &got, &want, 1e-6);
}

/// A scalar of several gradients.
fn total(gradients: &[Tensor]) -> Tensor {
    let parts = gradients.iter().enumerate().map(|(i, g)| (g * numbers(7 + i as u64, *g.shape(), 0.5, 1.5)).sum(..));
    parts.reduce(|a, b| a + b).unwrap()
}
