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

/// Compares gradients of a scalar function with central differences along three random directions of each input: if one
/// element of a gradient is wrong, so is its product with almost every direction. Six evaluations an input, where
/// elements one by one take two each: for the message of a failure, and for inputs of up to three elements.
fn assert_slopes(name: &str, f: &dyn Fn(&[Tensor]) -> Tensor, xs: &[Tensor], got: &[Vec<f64>], tolerance: f64) {
    assert_eq!(got.len(), xs.len(), "{name}");
    for (i, (got, x)) in got.iter().zip(xs).enumerate() {
        let (n, values) = (x.numel(), x.to_vec::<f64>().unwrap());
        assert_eq!(got.len(), n, "{name}: input {i}");
        let value = |direction: &[f64], h: f64| {
            let list: Vec<f64> = values.iter().zip(direction).map(|(v, d)| v + h * d).collect();
            let mut moved = xs.to_vec();
            moved[i] = Tensor::from_slice(&list, *x.shape());
            f(&moved).item::<f64>().unwrap()
        };
        let slope = |direction: &[f64]| (value(direction, 1e-5) - value(direction, -1e-5)) / 2e-5;
        let unit = |at: usize| (0..n).map(|k| f64::from(k == at)).collect::<Vec<f64>>();
        let mut random = fastrand::Rng::with_seed(n as u64);
        let directions: Vec<Vec<f64>> = match n {
            0..=3 => (0..n).map(unit).collect(),
            _ => (0..3)
                .map(|_| (0..n).map(|_| (0.5 + 0.5 * random.f64()) * [-1.0, 1.0][random.usize(..2)]).collect())
                .collect(),
        };
        let scale = got.iter().fold(1.0, |m: f64, v| m.max(v.abs())) * (n as f64).sqrt();
        let agree = |direction: &Vec<f64>| {
            let along: f64 = got.iter().zip(direction).map(|(g, d)| g * d).sum();
            (along - slope(direction)).abs() <= tolerance * scale
        };
        if !directions.iter().all(agree) {
            let want: Vec<f64> = (0..n).map(|at| slope(&unit(at))).collect();
            panic!("{name}: input {i}: the gradient, and differences:\n{got:?}\n{want:?}");
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
    assert_slopes(&format!("{name}, second order"), &slopes, xs, &got, 1e-5);
}

/// Compares only the first derivatives.
pub fn first_order(name: &str, xs: &[Tensor], f: Function<'_>) {
    let got = by_rules(f, xs);
    assert_slopes(name, &|xs| weighted(&f(xs)), xs, &got, 1e-6);
}

/// A scalar of several gradients.
fn total(gradients: &[Tensor]) -> Tensor {
    let parts = gradients.iter().enumerate().map(|(i, g)| (g * numbers(7 + i as u64, *g.shape(), 0.5, 1.5)).sum(..));
    parts.reduce(|a, b| a + b).unwrap()
}
