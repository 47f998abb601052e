//! The workloads: one definition for all measurements, the same as in `bench/peers.py`.
//!
//! A workload is plain eager code over inputs that are computed once. Sizes: `small` for a processor with a few cores,
//! `large` for a GPU.

pub mod array;
pub mod blocks;
pub mod folds;
pub mod training;
pub mod transformers;

use crate::failure::{Outcome, failure};
use crate::new_code;
use clap::ValueEnum;
use std::cell::RefCell;
use std::f64::consts::SQRT_2;
use std::path::Path;
use thalweg::{Conv, DType, MatmulPrecision, Pool, Tensor, manual_seed};

/// The size class of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Size {
    /// For a processor with a few cores.
    Small,
    /// For a GPU.
    Large,
}

/// Workload with its inputs.
pub struct Workload {
    /// Name of the workload.
    pub name: String,
    inputs: RefCell<Vec<Tensor>>,
    /// Number of leading results that replace the leading inputs in the next run, such as the state of a training step.
    carried: usize,
    call: Call,
    /// Whether results are read back, rather than only waited for.
    read: bool,
}

impl Workload {
    /// Records the workload; returns its results, the first of which replace the inputs that they are carried to.
    pub fn record(&self) -> Vec<Tensor> {
        let mut inputs = self.inputs.borrow_mut();
        let out = (self.call)(&inputs);
        inputs[..self.carried].clone_from_slice(&out[..self.carried]);
        out
    }

    /// Runs the workload once and waits for its results.
    pub fn run(&self) -> Outcome {
        let out = self.record();
        if self.read {
            for tensor in out {
                tensor.to_vec::<f32>()?;
            }
            return Ok(());
        }
        thalweg::synchronize()?;
        Ok(())
    }

    /// Whether results are read back, so that each run waits.
    pub fn reads(&self) -> bool {
        self.read
    }

    /// Runs the workload `times` times, all enqueued before waiting, unless results are read back.
    pub fn run_many(&self, times: usize) -> Outcome {
        if times == 1 || self.read {
            return (0..times).try_for_each(|_| self.run());
        }
        for _ in 0..times {
            let out = self.record();
            thalweg::flush();
            drop(out);
        }
        thalweg::synchronize()?;
        Ok(())
    }

    /// Writes inputs and results, to compare with other libraries: NAME.input0.npy, NAME.output0.npy, …
    pub fn write(&self, folder: &Path) -> Outcome {
        let inputs = self.inputs.borrow().clone();
        let results = self.record();
        for (kind, tensors) in [("input", &inputs), ("output", &results)] {
            for (n, tensor) in tensors.iter().enumerate() {
                // Dtypes that NumPy lacks are written as f32.
                let wide = if tensor.dtype() == DType::F64 { tensor.clone() } else { tensor.cast(DType::F32) };
                wide.write_npy(folder.join(format!("{}.{kind}{n}.npy", self.name)))?;
            }
        }
        Ok(())
    }

    /// Runs the workload once and reads a value of each result, which reports errors.
    pub fn check(&self) -> Outcome {
        for tensor in self.record() {
            let count = tensor.numel();
            tensor.reshape([count]).narrow(0, 0, 1).to_f64_vec()?;
        }
        Ok(())
    }
}

/// Definition of a workload.
pub struct Entry {
    /// Name of the workload.
    pub name: &'static str,
    /// Short description of what it computes.
    pub about: &'static str,
    make: Make,
}

/// Function that records a workload from its inputs.
type Call = fn(&[Tensor]) -> Vec<Tensor>;
/// Function that makes a workload's inputs, and returns them with the function to call.
type Make = fn(Size) -> (Vec<Tensor>, Call);

/// Names and descriptions of workloads that are not tensor code in this process.
pub const OTHERS: &[(&str, &str)] = &[
    ("dyn_shapes", "gelu_custom on 64 shapes, one call each, compiles included"),
    ("cold_start", "a fresh process, until the first gelu_custom on [32, 32] is read"),
    ("record", "time to record an operation on a recognised stretch"),
];

/// Groups of workloads that `all` leaves out.
pub const GROUPS: &[(&str, &[Entry])] = &[
    ("array", array::ALL),
    ("blocks", blocks::ALL),
    ("folds", folds::ALL),
    ("transformers", transformers::ALL),
    ("training", training::ALL),
];

/// Workloads that are tensor code in this process.
pub const ALL: &[Entry] = &[
    Entry { name: "gelu_ref", about: "GELU by Tensor::gelu", make: |s| (gelu_input(s), |x| vec![x[0].gelu()]) },
    Entry { name: "gelu_erf", about: "GELU written with erf", make: |s| (gelu_input(s), |x| vec![gelu_erf(&x[0])]) },
    Entry {
        name: "gelu_custom",
        about: "GELU with erf written by hand, 46 operations",
        make: |s| (gelu_input(s), |x| vec![gelu_custom(&x[0])]),
    },
    Entry { name: "hub", about: "six branches of one tensor, sums over both axes", make: |s| (square(s), hub) },
    Entry { name: "softmax", about: "over the last axis, five operations", make: |s| (rows(s), softmax_workload) },
    Entry { name: "layernorm", about: "over the last axis, with scale and shift", make: layernorm },
    Entry { name: "rmsnorm_swiglu", about: "RMS norm, then a gated product", make: rmsnorm_swiglu },
    Entry { name: "matmul", about: "a@b, f32", make: |s| matmul(s, [1, 4096, 4096, 4096], DType::F32) },
    Entry { name: "matmul_tf32", about: "the same in TF32", make: |s| matmul(s, [1, 4096, 4096, 4096], DType::F32) },
    Entry { name: "matmul_bf16", about: "the same in bf16", make: |s| matmul(s, [1, 4096, 4096, 4096], DType::BF16) },
    Entry { name: "matmul_f64", about: "half the size in f64", make: |s| matmul(s, [1, 2048, 2048, 2048], DType::F64) },
    Entry { name: "matmul_batched", about: "64 products, f32", make: |s| matmul(s, [64, 512, 512, 512], DType::F32) },
    Entry { name: "matvec", about: "one row by a matrix, f32", make: |s| matmul(s, [1, 1, 4096, 4096], DType::F32) },
    Entry { name: "matmul_gelu", about: "gelu(a@b + bias), f32", make: |s| matmul_gelu(s, DType::F32) },
    Entry { name: "matmul_gelu_tf32", about: "the same in TF32", make: |s| matmul_gelu(s, DType::F32) },
    Entry { name: "matmul_gelu_bf16", about: "the same in bf16", make: |s| matmul_gelu(s, DType::BF16) },
    Entry { name: "small_chain", about: "300 operations on [32, 32], read once", make: small_chain },
    Entry { name: "attention", about: "softmax(q@kᵀ/√d + mask)@v, f32", make: |s| attention(s, DType::F32) },
    Entry { name: "attention_tf32", about: "the same in TF32", make: |s| attention(s, DType::F32) },
    Entry { name: "attention_bf16", about: "the same in bf16", make: |s| attention(s, DType::BF16) },
    Entry { name: "conv2d", about: "3×3 over 64 channels of 56×56, f32", make: |s| conv2d(s, 1) },
    Entry { name: "depthwise", about: "the same, each channel by itself", make: |s| conv2d(s, 64) },
    Entry { name: "conv2d_relu", about: "the first with a bias and relu behind", make: conv2d_relu },
    Entry {
        name: "max_pool",
        about: "3×3 by 2 over 64 channels of 112×112",
        make: |s| (vec![Tensor::randn([images(s), 64, 112, 112])], |x| vec![x[0].max_pool2d(pool(2))]),
    },
    Entry {
        name: "avg_pool",
        about: "3×3 by 1 over 64 channels of 56×56",
        make: |s| (vec![Tensor::randn([images(s), 64, 56, 56])], |x| vec![x[0].avg_pool2d(pool(1))]),
    },
    Entry {
        name: "train_mlp",
        about: "784-512-512-10, batch 128: forward, backward, Adam",
        make: |_| (training::mlp(), training::train_mlp),
    },
    Entry {
        name: "train_conv",
        about: "two convolutions with norms and pooling, 64 images of 8×8: forward, backward, Adam",
        make: |_| (training::conv_net(), training::train_conv),
    },
];

/// All workloads that are tensor code in this process, including those of groups.
fn entries() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().chain(GROUPS.iter().flat_map(|g| g.1))
}

/// Makes a workload with computed inputs. The suffix `_bf16` selects bf16 inputs, `_tf32` f32 GEMMs in TF32.
pub fn prepare(name: &str, size: Size) -> Outcome<Workload> {
    let of = |name: &str| entries().find(|e| e.name == name);
    let suffixed = || of(name.strip_suffix("_bf16").or_else(|| name.strip_suffix("_tf32"))?);
    let found = of(name);
    let Some(entry) = found.or_else(suffixed) else { return Err(unknown(name)) };
    manual_seed(1);
    // The precision applies to everything that this thread records from now on; a process measures one workload after
    // another.
    let tf32 = name.ends_with("_tf32");
    thalweg::set_matmul_precision(if tf32 { MatmulPrecision::High } else { MatmulPrecision::Highest });
    let (mut inputs, call) = (entry.make)(size);
    if found.is_none() && !tf32 {
        let floats = inputs.iter_mut().filter(|t| t.dtype() == DType::F32);
        floats.for_each(|t| *t = t.cast(DType::BF16));
    }
    thalweg::synchronize()?;
    let carried = training::carried(entry.name, inputs.len());
    let inputs = RefCell::new(inputs);
    Ok(Workload { name: name.to_string(), inputs, carried, call, read: name == "small_chain" })
}

/// Failure for an unknown name.
pub fn unknown(name: &str) -> crate::failure::Failure {
    let names: Vec<&str> = entries()
        .map(|e| e.name)
        .chain(OTHERS.iter().map(|o| o.0))
        .chain(new_code::ALL.iter().map(|f| f.name))
        .collect();
    failure(format!("no workload is called {name:?}; there are: {}", names.join(" ")))
}

/// Random weights with about unit gain.
fn weight(shape: &[usize]) -> Tensor {
    let inputs: usize = shape[1..].iter().product();
    Tensor::randn(shape.to_vec()) / (inputs as f64).sqrt()
}

fn gelu_input(size: Size) -> Vec<Tensor> {
    vec![Tensor::randn([if size == Size::Large { 32 } else { 4 }, 512, 2048])]
}

fn square(size: Size) -> Vec<Tensor> {
    let n = if size == Size::Large { 4096 } else { 1024 };
    vec![Tensor::randn([n, n])]
}

fn rows_shape(size: Size) -> [usize; 2] {
    if size == Size::Large { [8192, 4096] } else { [2048, 1024] }
}

fn rows(size: Size) -> Vec<Tensor> {
    vec![Tensor::randn(rows_shape(size))]
}

/// `x·(erf(x/√2) + 1)/2`.
pub fn gelu_erf(x: &Tensor) -> Tensor {
    x * ((x / SQRT_2).erf() + 1.0) / 2.0
}

/// erf for x ≥ 0 by Abramowitz and Stegun's formula 7.1.26.
fn erf_positive(x: &Tensor) -> Tensor {
    let t: Tensor = 1.0 / (x.abs() * 0.3275911 + 1.0);
    let sum = ((((&t * 1.061405429 - 1.453152027) * &t + 1.421413741) * &t - 0.284496736) * &t + 0.254829592) * &t;
    -(sum * (-x * x).exp()) + 1.0
}

/// GELU with erf written by hand: both branches are computed for every element, and one is selected.
pub fn gelu_custom(x: &Tensor) -> Tensor {
    let z = x / SQRT_2;
    let erf = z.gt(0.0).where_(erf_positive(&z), -erf_positive(&-&z));
    x * (erf + 1.0) / 2.0
}

fn hub(x: &[Tensor]) -> Vec<Tensor> {
    let h = (&x[0] * 1.5 + 0.25).tanh();
    let c0 = &h / ((&h * &h).sum_keepdim(1) + 1.0);
    let c1 = (&h - h.mean_keepdim(0)).relu();
    let c2 = (&h - h.amax_keepdim(1)).exp();
    let c3 = &h * (h.sin() * h.cos()).sum_keepdim(0);
    let c4 = &h + (&h * 3.0).tanh().mean_keepdim(1);
    let c5 = h.exp().sum_keepdim(1).log() * &h;
    let out = (c0 + c1) * (c2 + 1.0) + c3.relu() * c4 - c5;
    let sums = out.sum(1);
    vec![out, sums]
}

/// Softmax over the last axis as separate operations.
fn softmax(x: &Tensor) -> Tensor {
    let e = (x - x.amax_keepdim(-1)).exp();
    &e / e.sum_keepdim(-1)
}

fn softmax_workload(x: &[Tensor]) -> Vec<Tensor> {
    vec![softmax(&x[0])]
}

fn layernorm(size: Size) -> (Vec<Tensor>, Call) {
    let [n, m] = rows_shape(size);
    let inputs = vec![Tensor::randn([n, m]), Tensor::randn([m]), Tensor::randn([m])];
    (inputs, |x| {
        let centred = &x[0] - x[0].mean_keepdim(-1);
        let variance = (&centred * &centred).mean_keepdim(-1);
        vec![centred / (variance + 1e-5).sqrt() * &x[1] + &x[2]]
    })
}

fn rmsnorm_swiglu(size: Size) -> (Vec<Tensor>, Call) {
    let [n, m] = rows_shape(size);
    let inputs = vec![Tensor::randn([n, m]), Tensor::randn([m]), Tensor::randn([n, m])];
    (inputs, |x| {
        let y = &x[0] / ((&x[0] * &x[0]).mean_keepdim(-1) + 1e-5).sqrt() * &x[1];
        vec![&y * y.sigmoid() * &x[2]]
    })
}

/// Batched products of `[m, k]` and `[k, n]`. The small size has an eighth of each of m, k and n.
fn matmul(size: Size, sizes: [usize; 4], dtype: DType) -> (Vec<Tensor>, Call) {
    let [count, m, k, n] = if size == Size::Large { sizes } else { sizes.map(|n| n.div_ceil(8)) };
    let shapes = if count == 1 { [vec![m, k], vec![k, n]] } else { [vec![count, m, k], vec![count, k, n]] };
    (shapes.map(|s| Tensor::randn(s).cast(dtype)).to_vec(), |x| vec![x[0].matmul(&x[1])])
}

fn matmul_gelu(size: Size, dtype: DType) -> (Vec<Tensor>, Call) {
    let n = if size == Size::Large { 4096 } else { 512 };
    let inputs = [Tensor::randn([n, n]), Tensor::randn([n, n]), Tensor::randn([n])];
    (inputs.map(|t| t.cast(dtype)).to_vec(), |x| vec![(x[0].matmul(&x[1]) + &x[2]).gelu()])
}

fn small_chain(_: Size) -> (Vec<Tensor>, Call) {
    (vec![Tensor::randn([32, 32])], |x| vec![chain(&x[0])])
}

/// Chain of 300 element-wise operations: three, 100 times.
pub fn chain(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..100 {
        y = &y * 1.0001 + 0.0001;
        y = y.tanh();
    }
    y
}

fn attention(size: Size, dtype: DType) -> (Vec<Tensor>, Call) {
    let (heads, n, d) = if size == Size::Large { (64, 2048, 64) } else { (8, 512, 64) };
    let qkv = [0; 3].map(|_| Tensor::randn([heads, n, d]).cast(dtype));
    let mask = Tensor::tri(n, n, 0).gt(0.0).where_(Tensor::zeros([n, n]), f64::NEG_INFINITY).cast(dtype);
    let mut inputs = qkv.to_vec();
    inputs.push(mask);
    (inputs, |x| {
        let scale = (x[0].size(-1) as f64).sqrt();
        let scores = x[0].matmul(&x[1].transpose(-1, -2)) / scale + &x[3];
        vec![softmax(&scores).matmul(&x[2])]
    })
}

fn images(size: Size) -> usize {
    if size == Size::Large { 256 } else { 16 }
}

/// 3×3 convolution from 64 channels to 64 in `groups` groups; images keep their size.
fn conv2d(size: Size, groups: usize) -> (Vec<Tensor>, Call) {
    let inputs = vec![Tensor::randn([images(size), 64, 56, 56]), Tensor::randn([64, 64 / groups, 3, 3])];
    (inputs, |x| {
        let groups = 64 / x[1].size(1);
        vec![x[0].conv2d(&x[1], None, Conv::default().padding(1).groups(groups))]
    })
}

fn conv2d_relu(size: Size) -> (Vec<Tensor>, Call) {
    let (mut inputs, _) = conv2d(size, 1);
    inputs.push(Tensor::randn([64]));
    (inputs, |x| vec![x[0].conv2d(&x[1], Some(&x[2]), Conv::default().padding(1)).relu()])
}

/// 3×3 pooling with this stride.
fn pool(stride: usize) -> Pool<2> {
    Pool::new(3).stride(stride).padding(1)
}

/// Inputs of dyn_shapes: gelu_custom runs on `[b, 2048]` (large: `[64·b, 2048]`) for b from 1 to 64.
pub fn dyn_shapes_inputs(size: Size) -> Outcome<Vec<Tensor>> {
    manual_seed(1);
    let rows = if size == Size::Large { 64 } else { 1 };
    let inputs = (1..=64).map(|b| Tensor::randn([b * rows, 2048])).collect();
    thalweg::synchronize()?;
    Ok(inputs)
}
