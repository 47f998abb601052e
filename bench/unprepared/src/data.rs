//! Inputs of the programs: the same numbers in `peers/data.py`, from hashes of their indices.

use thalweg::no_grad;
use thalweg::prelude::*;

/// Results of a call, by name.
pub type Results = Vec<(&'static str, Tensor)>;
/// One call of a program.
pub type Call = Box<dyn FnMut() -> Result<Results, Error>>;

/// Size of a program's inputs, and the numbers they consist of.
pub struct Inputs {
    /// Sizes for a GPU rather than for two CPU cores.
    pub large: bool,
}

/// Finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
    z ^ (z >> 31)
}

/// Uniform numbers in [0, 1).
pub fn uniform_f64(seed: u64, n: usize) -> Vec<f64> {
    let hash = |i: u64| mix(seed.wrapping_mul(1_000_003).wrapping_add(i));
    (0..n as u64).map(|i| (hash(i) >> 40) as f64 / 16777216.0).collect()
}

/// Uniform numbers in [0, 1).
pub fn uniform(seed: u64, n: usize) -> Vec<f32> {
    uniform_f64(seed, n).iter().map(|&x| x as f32).collect()
}

/// Normal numbers by Box and Muller.
pub fn normal_f64(seed: u64, n: usize) -> Vec<f64> {
    let (u, v) = (uniform_f64(seed, n), uniform_f64(seed + 500, n));
    u.iter().zip(&v).map(|(u, v)| (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()).collect()
}

/// Normal numbers.
pub fn normal(seed: u64, n: usize) -> Vec<f32> {
    normal_f64(seed, n).iter().map(|&x| x as f32).collect()
}

/// Integers below a bound.
pub fn integers(seed: u64, n: usize, below: u64) -> Vec<i64> {
    let hash = |i: u64| mix(seed.wrapping_mul(1_000_003).wrapping_add(i));
    (0..n as u64).map(|i| ((hash(i) >> 20) % below) as i64).collect()
}

/// Tensor of f32 values.
pub fn tensor(v: &[f32], shape: impl Into<Shape>) -> Tensor {
    Tensor::from_slice(v, shape)
}

fn count(s: &[usize]) -> usize {
    s.iter().product()
}

/// Uniform number in [0, 1) of an index, of the second family of inputs.
fn hashed(seed: u64, i: u64) -> f64 {
    (mix(seed.wrapping_mul(1_000_003).wrapping_add(mix(i))) >> 40) as f64 / (1u64 << 24) as f64
}

/// Sum of four uniform numbers: roughly normal.
fn hashed_normal(seed: u64, i: u64, scale: f64) -> f64 {
    ((0..4).map(|k| hashed(seed * 4 + k + 77, i)).sum::<f64>() - 2.0) * 3f64.sqrt() * scale
}

impl Inputs {
    /// One of two values by size.
    pub fn pick<T>(&self, small: T, large: T) -> T {
        if self.large { large } else { small }
    }

    /// Uniform f32 in [0, 1).
    pub fn u(&self, seed: u64, s: &[usize]) -> Tensor {
        let v: Vec<f32> = (0..count(s) as u64).map(|i| hashed(seed, i) as f32).collect();
        Tensor::from_slice(&v, s)
    }

    /// Roughly normal f32.
    pub fn n(&self, seed: u64, s: &[usize], scale: f64) -> Tensor {
        let v: Vec<f32> = (0..count(s) as u64).map(|i| hashed_normal(seed, i, scale) as f32).collect();
        Tensor::from_slice(&v, s)
    }

    /// Roughly normal f64.
    pub fn n64(&self, seed: u64, s: &[usize], scale: f64) -> Tensor {
        let v: Vec<f64> = (0..count(s) as u64).map(|i| hashed_normal(seed, i, scale)).collect();
        Tensor::from_slice(&v, s)
    }

    /// Integers below a bound, on the host.
    pub fn ints_vec(&self, seed: u64, below: usize, n: usize) -> Vec<i64> {
        (0..n as u64).map(|i| (hashed(seed, i) * below as f64) as i64).collect()
    }

    /// Integers below a bound.
    pub fn ints(&self, seed: u64, below: usize, s: &[usize]) -> Tensor {
        Tensor::from_slice(&self.ints_vec(seed, below, count(s)), s)
    }

    /// Weight of a linear layer, `[out, in]`.
    pub fn weight(&self, seed: u64, out: usize, inp: usize) -> Tensor {
        self.n(seed, &[out, inp], 1.0 / (inp as f64).sqrt())
    }
}

/// Tracked copies of parameters.
pub fn track(p: &[Tensor]) -> Vec<Tensor> {
    p.iter().map(|t| t.tracked()).collect()
}

/// Adam (Kingma and Ba 2014), written by hand.
pub struct Adam {
    m: Vec<Tensor>,
    v: Vec<Tensor>,
    t: i32,
    lr: f64,
}

impl Adam {
    /// Optimiser of some parameters.
    pub fn new(p: &[Tensor], lr: f64) -> Adam {
        Adam { m: p.iter().map(|t| t.zeros_like()).collect(), v: p.iter().map(|t| t.zeros_like()).collect(), t: 0, lr }
    }

    /// Updates parameters by their gradients.
    pub fn step(&mut self, p: &mut [Tensor], g: &[Tensor]) {
        self.t += 1;
        let (c1, c2) = (1.0 - 0.9f64.powi(self.t), 1.0 - 0.999f64.powi(self.t));
        no_grad(|| {
            for i in 0..p.len() {
                self.m[i] = &self.m[i] * 0.9 + &g[i] * 0.1;
                self.v[i] = &self.v[i] * 0.999 + g[i].square() * 0.001;
                let update = &self.m[i] * (self.lr / c1) / ((&self.v[i] / c2).sqrt() + 1e-8);
                p[i] = (p[i].detach() - update).tracked();
            }
        });
    }
}

/// Gradient descent.
pub fn sgd(p: &mut [Tensor], g: &[Tensor], lr: f64) {
    no_grad(|| p.iter_mut().zip(g).for_each(|(p, g)| *p = (p.detach() - g * lr).tracked()));
}

/// Clips gradients by their global norm.
pub fn clip(g: &mut [Tensor], most: f64) {
    let n = g.iter().map(|t| t.square().sum(..)).reduce(|a, b| a + b).unwrap().sqrt();
    let f = (most / (n + 1e-6)).minimum(1.0);
    g.iter_mut().for_each(|t| *t = &*t * &f);
}

/// Results named by their numbers.
pub fn numbered(values: Vec<Tensor>) -> Results {
    const NAMES: [&str; 7] = ["0", "1", "2", "3", "4", "5", "6"];
    NAMES.into_iter().zip(values).collect()
}
