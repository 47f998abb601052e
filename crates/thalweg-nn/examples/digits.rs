//! Handwritten digits: a perceptron and a small convolutional network on 1797 images of 8×8 pixels.
//!
//!     cargo run --release -p thalweg-nn --example digits
//!     cargo run --release -p thalweg-nn --example digits -- mlp --explain      which operations of a step share a kernel
//!     cargo run --release -p thalweg-nn --example digits -- conv --unfused     one kernel per operation
//!
//! A fifth of the images, chosen at random, is the test set. The learning curves are written to `digits.svg` and the
//! weights to `digits-NET.safetensors`, in the folder for temporary files.

mod common;

use std::error::Error;
use std::path::{Path, PathBuf};
use thalweg::{Csv, CsvOptions, Pool};
use thalweg_nn::data::{DataLoader, Dataset, Rows};
use thalweg_nn::optim::{AdamW, Ema, Optimizer, Schedule};
use thalweg_nn::prelude::*;

#[derive(Module, Clone)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
    drop: Dropout,
    head: Linear,
}

impl Mlp {
    fn new() -> Mlp {
        let (fc1, fc2, head) = (Linear::new(64, 256), Linear::new(256, 256), Linear::new(256, 10));
        Mlp { fc1, fc2, drop: Dropout::new(0.3), head }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.drop.forward(&self.fc1.forward(x).relu());
        self.head.forward(&self.drop.forward(&self.fc2.forward(&x).relu()))
    }
}

#[derive(Module, Clone)]
struct ConvNet {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    drop: Dropout,
    head: Linear,
}

impl ConvNet {
    fn new() -> ConvNet {
        ConvNet {
            conv1: Conv2d::new(1, 16, 3).padding(1).without_bias(),
            norm1: BatchNorm2d::new(16),
            conv2: Conv2d::new(16, 32, 3).padding(1).without_bias(),
            norm2: BatchNorm2d::new(32),
            drop: Dropout::new(0.3),
            head: Linear::new(32 * 2 * 2, 10),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x.reshape([-1, 1, 8, 8]);
        let x = self.norm1.forward(&self.conv1.forward(&x)).relu().max_pool2d(Pool::new(2));
        let x = self.norm2.forward(&self.conv2.forward(&x)).relu().max_pool2d(Pool::new(2));
        self.head.forward(&self.drop.forward(&x.flatten_axes(1, -1)))
    }
}

/// Images with their digits: training set and test set.
struct Digits {
    train: [Tensor; 2],
    test: [Tensor; 2],
}

impl Digits {
    fn read() -> Result<Digits, thalweg::Error> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv");
        let table = Csv::open(path, CsvOptions::default())?;
        let pixels: Vec<&str> = table.names()[..64].iter().map(String::as_str).collect();
        let all =
            Rows::new([table.numbers(&pixels)? / 16.0, table.numbers(&["digit"])?.reshape([-1]).cast(DType::I64)]);
        // One shuffled epoch of two batches: the training set, and the rest.
        let count = all.len() - all.len() / 5;
        let mut parts = DataLoader::new(all, count).shuffled(2026).epoch(0);
        let mut part = || parts.next().expect("two batches").expect("tensors in memory");
        let (train, test) = (part(), part());
        thalweg::synchronize()?;
        Ok(Digits { train, test })
    }
}

/// Interface of both networks.
trait Net: Module + Clone {
    fn forward(&self, x: &Tensor) -> Tensor;
}
impl Net for Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        Mlp::forward(self, x)
    }
}
impl Net for ConvNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        ConvNet::forward(self, x)
    }
}

/// Fraction of digits that are recognized.
fn accuracy(net: &impl Net, [x, digits]: &[Tensor; 2]) -> Result<f32, thalweg::Error> {
    net.forward(x).argmax(1).eq(digits).cast(DType::F32).mean(..).item()
}

/// Trains for one step; the loss is not read yet.
fn step<N: Net>(net: &mut N, optimizer: &mut AdamW, [x, digits]: &[Tensor; 2]) -> Tensor {
    let loss = net.forward(x).cross_entropy_with(digits, &ClassLoss::default().smoothing(0.05));
    optimizer.step(net, &loss.backward());
    loss.detach()
}

fn train<N: Net>(
    name: &str,
    mut net: N,
    digits: &Digits,
    epochs: u64,
    explain: bool,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let loader = DataLoader::new(Rows::new(digits.train.clone()), 64).shuffled(7).drop_last();
    let steps = epochs * loader.batches() as u64;
    let rate = Schedule::cosine(3e-3, 1e-5, steps - 50).warmup(50);
    let mut optimizer = AdamW::new(0.0).weight_decay(0.02).decays(|name| name.ends_with("weight"));
    // The tested model is an average over the last steps.
    let mut average = Ema::new(&net, 0.98);
    let mut progress = common::Progress::new(name, steps);
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        for batch in loader.epoch(epoch) {
            let batch = batch?;
            optimizer.set_rate(rate.at(losses.len() as u64));
            let loss = step(&mut net, &mut optimizer, &batch);
            average.update(&net);
            let loss: f32 = loss.item()?;
            losses.push(loss);
            progress.step(loss, 64);
        }
    }
    let time = progress.finish();
    let right = accuracy(average.model(), &digits.test)?;
    let learned = accuracy(average.model(), &digits.train)?;
    println!(
        "{name}: {} parameters, {steps} steps in {:.1} s ({:.2} ms each), {:.2} % of {} test digits right ({:.2} % of those it learned)",
        net.num_parameters(),
        time.as_secs_f64(),
        time.as_secs_f64() * 1e3 / steps as f64,
        right * 100.0,
        digits.test[1].numel(),
        learned * 100.0,
    );
    average.model().save(temporary(&format!("digits-{name}.safetensors")))?;
    if explain {
        let batch = loader.epoch(0).next().expect("a batch")?;
        let (_, explanation) = thalweg::explain(|| step(&mut net, &mut optimizer, &batch));
        println!("{explanation}");
    }
    Ok(losses)
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    if let Some(other) = arguments.iter().find(|a| !["mlp", "conv", "--explain", "--unfused"].contains(&a.as_str())) {
        return Err(format!("{other}: takes mlp, conv, --explain, --unfused").into());
    }
    let both = !has("mlp") && !has("conv");
    manual_seed(1);
    let digits = Digits::read()?;
    let mut curves: Vec<(&str, Vec<f32>)> = Vec::new();
    thalweg::with_fusion(!has("--unfused"), || -> Result<(), Box<dyn Error>> {
        if both || has("mlp") {
            curves.push(("mlp", train("mlp", Mlp::new(), &digits, 40, has("--explain"))?));
        }
        if both || has("conv") {
            curves.push(("conv", train("conv", ConvNet::new(), &digits, 15, has("--explain"))?));
        }
        Ok(())
    })?;
    let shown: Vec<(&str, &[f32])> = curves.iter().map(|(name, losses)| (*name, losses.as_slice())).collect();
    let path = temporary("digits.svg");
    common::write_curves(&path, "Loss of batches of 64 digits", &shown)?;
    println!("learning curves: {}", path.display());
    Ok(())
}
