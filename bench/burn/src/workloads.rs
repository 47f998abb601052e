//! The workloads in Burn: the same operations and sizes as in `crates/thalweg-cli/src/workloads.rs` and `bench/peers.py`.

use burn_tensor::{Device, Distribution, FloatDType, Tensor, TensorData, activation};
use std::f64::consts::SQRT_2;

/// The names, in the order of the tables.
pub const ALL: &[&str] = &[
    "gelu_ref",
    "gelu_erf",
    "gelu_custom",
    "hub",
    "softmax",
    "layernorm",
    "rmsnorm_swiglu",
    "matmul",
    "matmul_bf16",
    "matmul_f64",
    "matmul_batched",
    "matvec",
    "matmul_gelu",
    "matmul_gelu_bf16",
    "small_chain",
    "attention",
    "attention_bf16",
];

/// A result, of whatever rank.
pub trait Output {
    /// Its values, widened.
    fn values(self: Box<Self>) -> Result<Vec<f64>, String>;
}

impl<const D: usize> Output for Tensor<D> {
    fn values(self: Box<Self>) -> Result<Vec<f64>, String> {
        let data = self.try_into_data_as::<f64>().map_err(|why| format!("{why:?}"))?;
        data.try_to_vec::<f64>().map_err(|why| format!("{why:?}"))
    }
}

/// What a call gives.
pub type Outputs = Vec<Box<dyn Output>>;

/// Inputs of a workload, as a shape and values each; without values they are drawn.
pub struct Inputs<'a> {
    device: &'a Device,
    dtype: FloatDType,
    given: Vec<(Vec<usize>, Vec<f32>)>,
    next: usize,
}

impl Inputs<'_> {
    /// The next input, on the device.
    fn take<const D: usize>(&mut self, shape: [usize; D]) -> Tensor<D> {
        let made: Tensor<D> = match self.given.get(self.next) {
            None => Tensor::random(shape, Distribution::Normal(0.0, 1.0), self.device),
            Some((own, values)) => {
                assert_eq!(own.as_slice(), shape.as_slice(), "the shape of input {}", self.next);
                Tensor::from_data(TensorData::new(values.clone(), shape), self.device)
            }
        };
        self.next += 1;
        made.cast(self.dtype)
    }
}

/// A workload with its inputs on the device.
pub struct Workload {
    call: Box<dyn Fn() -> Outputs>,
    /// Whether its result is read back, so that each call waits.
    pub read: bool,
}

impl Workload {
    /// Makes one by its name; `given` are its inputs, or they are drawn.
    pub fn new(name: &str, large: bool, device: &Device, given: Vec<(Vec<usize>, Vec<f32>)>) -> Result<Self, String> {
        let dtype = match name {
            name if name.ends_with("_bf16") => FloatDType::BF16,
            name if name.ends_with("_f64") => FloatDType::F64,
            _ => FloatDType::F32,
        };
        let inputs = Inputs { device, dtype, given, next: 0 };
        let call = prepare(name.trim_end_matches("_bf16").trim_end_matches("_f64"), large, inputs)
            .ok_or_else(|| format!("no workload is called {name:?}; there are: {}", ALL.join(" ")))?;
        device.sync().map_err(|why| format!("{why:?}"))?;
        Ok(Workload { call, read: name == "small_chain" })
    }

    /// Records it, as far as Burn does.
    pub fn record(&self) -> Outputs {
        (self.call)()
    }
}

fn one<const D: usize>(out: Tensor<D>) -> Outputs {
    vec![Box::new(out)]
}

fn prepare(name: &str, large: bool, mut inputs: Inputs) -> Option<Box<dyn Fn() -> Outputs>> {
    let products = |sizes: [usize; 4]| if large { sizes } else { sizes.map(|n| n.div_ceil(8)) };
    let [n, m] = if large { [8192, 4096] } else { [2048, 1024] };
    Some(match name {
        "gelu_ref" | "gelu_erf" | "gelu_custom" => {
            let x = inputs.take([if large { 32 } else { 4 }, 512, 2048]);
            let gelu = match name {
                "gelu_ref" => activation::gelu::<3>,
                "gelu_erf" => gelu_erf,
                _ => gelu_custom,
            };
            Box::new(move || one(gelu(x.clone())))
        }
        "hub" => {
            let n = if large { 4096 } else { 1024 };
            let x = inputs.take([n, n]);
            Box::new(move || hub(x.clone()))
        }
        "softmax" => {
            let x = inputs.take([n, m]);
            Box::new(move || one(softmax(x.clone())))
        }
        "layernorm" => {
            let (x, g, b) = (inputs.take([n, m]), inputs.take([m]), inputs.take([m]));
            Box::new(move || one(layernorm(x.clone(), g.clone(), b.clone())))
        }
        "rmsnorm_swiglu" => {
            let (x, g, z) = (inputs.take([n, m]), inputs.take([m]), inputs.take([n, m]));
            Box::new(move || one(rmsnorm_swiglu(x.clone(), g.clone(), z.clone())))
        }
        "matmul" | "matvec" => {
            // f64 is half as long.
            let side = if inputs.dtype == FloatDType::F64 { 2048 } else { 4096 };
            let [_, m, k, n] = products([1, if name == "matvec" { 1 } else { side }, side, side]);
            let (a, b) = (inputs.take([m, k]), inputs.take([k, n]));
            Box::new(move || one(a.clone().matmul(b.clone())))
        }
        "matmul_batched" => {
            let [count, m, k, n] = products([64, 512, 512, 512]);
            let (a, b) = (inputs.take([count, m, k]), inputs.take([count, k, n]));
            Box::new(move || one(a.clone().matmul(b.clone())))
        }
        "matmul_gelu" => {
            let n = if large { 4096 } else { 512 };
            let (a, b, bias) = (inputs.take([n, n]), inputs.take([n, n]), inputs.take([n]));
            Box::new(move || one(activation::gelu(a.clone().matmul(b.clone()) + bias.clone().unsqueeze())))
        }
        "small_chain" => {
            let y = inputs.take([32, 32]);
            Box::new(move || one(chain(y.clone())))
        }
        "attention" => {
            let (heads, n, d) = if large { (64, 2048, 64) } else { (8, 512, 64) };
            let [q, k, v] = [0; 3].map(|_| inputs.take([heads, n, d]));
            let mask = causal(n, inputs.device).cast(inputs.dtype);
            Box::new(move || one(attention([&q, &k, &v].map(Tensor::clone), mask.clone())))
        }
        _ => return None,
    })
}

fn gelu_erf(x: Tensor<3>) -> Tensor<3> {
    x.clone() * ((x / SQRT_2).erf() + 1.0) / 2.0
}

/// erf for x ≥ 0 by Abramowitz and Stegun's formula 7.1.26.
fn erf_positive<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let t = (x.clone().abs() * 0.3275911 + 1.0).recip();
    let sum = ((((t.clone() * 1.061405429 - 1.453152027) * t.clone() + 1.421413741) * t.clone() - 0.284496736)
        * t.clone()
        + 0.254829592)
        * t;
    -(sum * (-x.clone() * x).exp()) + 1.0
}

/// GELU with erf written by hand: both sides are computed for every element, and one is taken.
pub fn gelu_custom<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let z = x.clone() / SQRT_2;
    let erf = (-erf_positive(-z.clone())).mask_where(z.clone().greater_elem(0.0), erf_positive(z));
    x * (erf + 1.0) / 2.0
}

fn hub(x: Tensor<2>) -> Outputs {
    let h = (x * 1.5 + 0.25).tanh();
    let c0 = h.clone() / ((h.clone() * h.clone()).sum_dim(1) + 1.0);
    let c1 = activation::relu(h.clone() - h.clone().mean_dim(0));
    let c2 = (h.clone() - h.clone().max_dim(1)).exp();
    let c3 = h.clone() * (h.clone().sin() * h.clone().cos()).sum_dim(0);
    let c4 = h.clone() + (h.clone() * 3.0).tanh().mean_dim(1);
    let c5 = h.clone().exp().sum_dim(1).log() * h;
    let out = (c0 + c1) * (c2 + 1.0) + activation::relu(c3) * c4 - c5;
    let sums: Tensor<1> = out.clone().sum_dim(1).squeeze_dim(1);
    vec![Box::new(out), Box::new(sums)]
}

/// Softmax over the last axis as separate operations.
fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let e = (x.clone() - x.max_dim(D - 1)).exp();
    e.clone() / e.sum_dim(D - 1)
}

fn layernorm(x: Tensor<2>, g: Tensor<1>, b: Tensor<1>) -> Tensor<2> {
    let centred = x.clone() - x.mean_dim(1);
    let variance = (centred.clone() * centred.clone()).mean_dim(1);
    centred / (variance + 1e-5).sqrt() * g.unsqueeze() + b.unsqueeze()
}

fn rmsnorm_swiglu(x: Tensor<2>, g: Tensor<1>, z: Tensor<2>) -> Tensor<2> {
    let y = x.clone() / ((x.clone() * x).mean_dim(1) + 1e-5).sqrt() * g.unsqueeze();
    y.clone() * activation::sigmoid(y) * z
}

/// 100 times three operations.
fn chain(mut y: Tensor<2>) -> Tensor<2> {
    for _ in 0..100 {
        y = y * 1.0001 + 0.0001;
        y = y.tanh();
    }
    y
}

/// 0 where a query may see a key, minus infinity elsewhere.
fn causal(n: usize, device: &Device) -> Tensor<3> {
    let values = (0..n * n).map(|i| if i % n <= i / n { 0.0 } else { f32::NEG_INFINITY }).collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(values, [1, n, n]), device)
}

fn attention([q, k, v]: [Tensor<3>; 3], mask: Tensor<3>) -> Tensor<3> {
    let scale = (q.dims()[2] as f64).sqrt();
    softmax(q.matmul(k.swap_dims(1, 2)) / scale + mask).matmul(v)
}
