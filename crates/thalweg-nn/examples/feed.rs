//! Training loop with batches from the host: time per step with the batch on the device, and with several kinds of
//! loaders. Run `THALWEG_DEVICE=cuda cargo run --release -p thalweg-nn --features thalweg/cuda --example feed`, and
//! again with `THALWEG_CUDA_QUEUES=off`, where copies and kernels share one stream.

use std::sync::Arc;
use std::time::Instant;
use thalweg_nn::data::{DataLoader, Dataset, SampleError};
use thalweg_nn::optim::{AdamW, Optimizer};
use thalweg_nn::prelude::*;

/// Number of elements per sample (`WIDTH`), of samples per batch (`BATCH`), and of batches (`STEPS`).
const WIDTH: usize = 3072;
const BATCH: usize = 2048;
const STEPS: usize = 200;

#[derive(Module, Clone)]
struct Mlp {
    hidden: Vec<Linear>,
    head: Linear,
}

impl Mlp {
    fn new() -> Mlp {
        let hidden = vec![Linear::new(WIDTH, 2048), Linear::new(2048, 2048), Linear::new(2048, 2048)];
        Mlp { hidden, head: Linear::new(2048, 10) }
    }

    fn loss(&self, x: &Tensor, classes: &Tensor) -> Tensor {
        let x = self.hidden.iter().fold(x.clone(), |x, layer| layer.forward(&x).relu());
        self.head.forward(&x).cross_entropy(classes, Reduction::Mean)
    }
}

/// Rows of a table in host memory, copied unchanged into a batch.
struct Table(Arc<Vec<f32>>);

const ROWS: usize = 4096;

impl Dataset for Table {
    type Batch = (Tensor, Tensor);

    fn len(&self) -> usize {
        BATCH * STEPS
    }

    fn batch(&self, indices: &[usize]) -> Result<(Tensor, Tensor), SampleError> {
        let failed = |e: Error| SampleError { index: indices[0], source: e.into() };
        let rows: Vec<&[f32]> = indices.iter().map(|i| &self.0[i % ROWS * WIDTH..][..WIDTH]).collect();
        let classes: Vec<i64> = indices.iter().map(|i| (i % ROWS % 10) as i64).collect();
        let device = Device::try_default().map_err(failed)?;
        let x = Tensor::try_from_slices(&rows, [rows.len(), WIDTH], device).map_err(failed)?;
        let classes = Tensor::try_from_slice(&classes, [rows.len()], device).map_err(failed)?;
        Ok((x, classes))
    }
}

/// Trains on `batches`; returns milliseconds per step without the first quarter, and the last loss.
fn train(batches: impl Iterator<Item = (Tensor, Tensor)>) -> Result<(f64, f32), Error> {
    thalweg::manual_seed(3);
    let (mut model, mut optimizer) = (Mlp::new(), AdamW::new(1e-4));
    let (mut start, mut loss, mut steps) = (Instant::now(), f32::NAN, 0);
    for (i, (x, classes)) in batches.enumerate() {
        if i == STEPS / 4 {
            thalweg::synchronize()?;
            (start, steps) = (Instant::now(), 0);
        }
        let now = model.loss(&x, &classes);
        optimizer.step(&mut model, &now.backward());
        steps += 1;
        if i % 5 == 4 {
            loss = now.item()?;
        }
    }
    thalweg::synchronize()?;
    Ok((start.elapsed().as_secs_f64() * 1e3 / f64::from(steps), loss))
}

fn main() -> Result<(), Error> {
    println!("{}", Device::default().describe());
    thalweg::set_matmul_precision(thalweg::MatmulPrecision::High);
    let table = Arc::new((0..WIDTH * ROWS).map(|i| ((i * 7919) % 1013) as f32 / 1013.0 - 0.5).collect());
    let data = || Table(Arc::clone(&table));
    let first = DataLoader::new(data(), BATCH).epoch(0).next().expect("there is a batch");
    let (x, classes) = first.map_err(|e| Error::Value(e.to_string()))?;
    let mib = (BATCH * WIDTH * 4) as f64 / (1 << 20) as f64;
    let (ms, _) = train((0..STEPS).map(|_| (x.clone(), classes.clone())))?;
    println!("a batch of {mib:.0} MiB that is on the device: {ms:.3} ms a step");
    for threads in [0, 1, 2, 4] {
        let loader = DataLoader::new(data(), BATCH).shuffled(1).threads(threads);
        let (ms, loss) = train(loader.epoch(0).map(|batch| batch.expect("samples are there")))?;
        println!("a loader with {threads} threads: {ms:.3} ms a step, the last loss {loss:.6}");
    }
    Ok(())
}
