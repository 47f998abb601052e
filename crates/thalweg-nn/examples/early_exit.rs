//! A network with early exits: its depth depends on the data.
//!
//!     cargo run --release -p thalweg-nn --example early_exit
//!     cargo run --release -p thalweg-nn --example early_exit -- --unfused
//!
//! Each layer has an exit (Teerapittayanon and others 2016). The network is trained on the sum of the losses of all
//! exits. Afterwards a batch goes through the layers, and samples that are confident at an exit leave there: plain Rust
//! shrinks the batch, so that its size differs each time. The digits are those of the example `digits`.

mod common;

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use thalweg::{ClassLoss, Csv, CsvOptions};
use thalweg_nn::data::{DataLoader, Dataset, Rows};
use thalweg_nn::optim::{AdamW, Optimizer, Schedule};
use thalweg_nn::prelude::*;

const WIDTH: usize = 64;
const LAYERS: usize = 6;

#[derive(Module, Clone)]
struct Layer {
    inner: Linear,
    norm: LayerNorm,
    exit: Linear,
}

#[derive(Module, Clone)]
struct Net {
    first: Linear,
    layers: Vec<Layer>,
}

impl Net {
    fn new() -> Net {
        let layer =
            |_| Layer { inner: Linear::new(WIDTH, WIDTH), norm: LayerNorm::new([WIDTH]), exit: Linear::new(WIDTH, 10) };
        Net { first: Linear::new(64, WIDTH), layers: (0..LAYERS).map(layer).collect() }
    }

    /// Sum of the losses at all exits.
    fn loss(&self, [x, digits]: &[Tensor; 2]) -> Tensor {
        let mut x = self.first.forward(x);
        let mut losses = vec![];
        for layer in &self.layers {
            x = layer.step(&x);
            losses.push(layer.exit.forward(&x).cross_entropy_with(digits, &ClassLoss::default().smoothing(0.02)));
        }
        losses.into_iter().reduce(|a, b| a + b).expect("there are layers")
    }

    /// Digits of a batch, and the number of layers each took: a sample leaves at the first exit with a probability of
    /// at least `sure`.
    fn classify(&self, x: &Tensor, sure: f64) -> Result<(Vec<i64>, Vec<usize>), thalweg::Error> {
        let count = x.dims()[0];
        let (mut digits, mut depths) = (vec![0; count], vec![0; count]);
        // Indices of samples that have not left.
        let mut inside: Vec<i64> = (0..count as i64).collect();
        let mut x = self.first.forward(x);
        for (depth, layer) in self.layers.iter().enumerate() {
            x = layer.step(&x);
            let p = layer.exit.forward(&x).softmax(1);
            let (best, class) = (p.amax(1).to_vec::<f32>()?, p.argmax(1).to_vec::<i64>()?);
            let last = depth + 1 == self.layers.len();
            let stays = |i: usize| !last && (best[i] as f64) < sure;
            for i in (0..inside.len()).filter(|&i| !stays(i)) {
                (digits[inside[i] as usize], depths[inside[i] as usize]) = (class[i], depth + 1);
            }
            let places: Vec<i64> = (0..inside.len()).filter(|&i| stays(i)).map(|i| i as i64).collect();
            if places.is_empty() {
                break;
            }
            inside = places.iter().map(|&i| inside[i as usize]).collect();
            x = x.index_select(0, &Tensor::new(places));
        }
        Ok((digits, depths))
    }
}

impl Layer {
    fn step(&self, x: &Tensor) -> Tensor {
        x + self.inner.forward(&self.norm.forward(x)).relu()
    }
}

fn read() -> Result<[[Tensor; 2]; 2], Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv");
    let table = Csv::open(path, CsvOptions::default())?;
    let pixels: Vec<&str> = table.names()[..64].iter().map(String::as_str).collect();
    let all = Rows::new([table.numbers(&pixels)? / 16.0, table.numbers(&["digit"])?.reshape([-1]).cast(DType::I64)]);
    let count = all.len() - all.len() / 5;
    let mut parts = DataLoader::new(all, count).shuffled(2026).epoch(0);
    let mut part = || parts.next().expect("two batches");
    Ok([part()?, part()?])
}

fn main() -> Result<(), Box<dyn Error>> {
    thalweg::with_fusion(!std::env::args().any(|a| a == "--unfused"), run)
}

fn run() -> Result<(), Box<dyn Error>> {
    manual_seed(1);
    let [train, test] = read()?;
    let loader = DataLoader::new(Rows::new(train), 64).shuffled(7).drop_last();
    let (mut net, mut optimizer) = (Net::new(), AdamW::new(0.0).weight_decay(0.02));
    let epochs = 30;
    let steps = epochs * loader.batches() as u64;
    let rate = Schedule::cosine(3e-3, 1e-5, steps).warmup(50);
    let mut progress = common::Progress::new("early_exit", steps);
    let mut losses = vec![];
    for epoch in 0..epochs {
        for batch in loader.epoch(epoch) {
            optimizer.set_rate(rate.at(losses.len() as u64));
            let loss = net.loss(&batch?);
            optimizer.step(&mut net, &loss.backward());
            let loss: f32 = loss.item()?;
            progress.step(loss, 64);
            losses.push(loss);
        }
    }
    let time = progress.finish().as_secs_f64();
    println!(
        "{} parameters, {steps} steps in {time:.1} s ({:.2} ms each)",
        net.num_parameters(),
        time * 1e3 / steps as f64
    );
    common::write_curves(&std::env::temp_dir().join("early_exit.svg"), "Loss of all exits", &[("training", &losses)])?;
    let right: Vec<i64> = test[1].to_vec()?;
    for sure in [1.1, 0.99, 0.95, 0.9, 0.7, 0.0] {
        let (mut taken, mut found) = (f64::INFINITY, None);
        for _ in 0..5 {
            let begin = Instant::now();
            found = Some(thalweg::no_grad(|| net.classify(&test[0], sure))?);
            taken = taken.min(begin.elapsed().as_secs_f64());
        }
        let (digits, depths) = found.expect("five times");
        let share = digits.iter().zip(&right).filter(|(a, b)| a == b).count() as f64 / right.len() as f64;
        let leave: Vec<usize> = (1..=LAYERS).map(|d| depths.iter().filter(|&&e| e == d).count()).collect();
        println!(
            "sure at {:>4.0} %: {:.2} layers on average, {:.2} % right, {:.2} ms; leave at {leave:?}",
            sure * 100.0,
            depths.iter().sum::<usize>() as f64 / depths.len() as f64,
            share * 100.0,
            taken * 1e3,
        );
    }
    Ok(())
}
