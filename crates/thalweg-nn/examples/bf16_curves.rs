//! Loss curves in f32 and bf16 of a small network with a selection at every stage: a max pool, the choice of two of
//! four experts per row, and a hinge loss on the largest margin.
//!
//! `bench/bf16_curves` runs it next to PyTorch with the same numbers. Run alone, it prints a line every 20 steps: seed,
//! step, and the mean loss in f32 and in bf16 since the last line.
//!
//! ```sh
//! cargo run --release -p thalweg-nn --example bf16_curves -- STEPS SEEDS
//! ```

use thalweg::prelude::*;
use thalweg::{Conv, Pool};

const BATCH: usize = 64;
const SAMPLES: usize = 512;
const CLASSES: usize = 10;
const EXPERTS: usize = 4;
const FEATURES: usize = 8 * 5 * 5;

/// `count` numbers in [-1, 1) that depend only on the stream and the seed; bench/bf16_curves makes the same ones.
fn numbers(count: usize, stream: u32, seed: u32) -> Vec<f32> {
    (0..count as u32)
        .map(|i| {
            let mut h = i.wrapping_mul(2_654_435_761) ^ stream.wrapping_mul(40_503) ^ seed.wrapping_mul(2_246_822_519);
            for _ in 0..2 {
                h = (h ^ (h >> 15)).wrapping_mul(2_246_822_519);
                h = (h ^ (h >> 13)).wrapping_mul(3_266_489_917);
            }
            (h >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Weights in f32; the network computes with them rounded to its dtype.
struct Weights {
    all: Vec<Tensor>,
}

impl Weights {
    fn new(seed: u32) -> Weights {
        let shapes: [(&[usize], f32); 3] =
            [(&[8, 1, 3, 3], 0.5), (&[FEATURES, EXPERTS], 0.1), (&[EXPERTS, FEATURES, CLASSES], 0.1)];
        let all = shapes.iter().enumerate().map(|(n, (shape, scale))| {
            let values = numbers(shape.iter().product(), n as u32, seed);
            Tensor::from_slice(&values, *shape) * *scale
        });
        Weights { all: all.collect() }
    }
}

/// Loss of a batch.
fn loss(x: &Tensor, classes: &Tensor, weights: &[Tensor], dtype: DType) -> Tensor {
    let w: Vec<Tensor> = weights.iter().map(|w| w.cast(dtype)).collect();
    let h = x.cast(dtype).conv2d(&w[0], None, Conv::default()).relu().max_pool2d(Pool::new(2));
    let h = h.reshape([BATCH, FEATURES]);
    let (gates, chosen) = h.matmul(&w[1]).softmax(1).topk(2, 1, true);
    // [experts, rows, classes] permuted to rows first; each row gathers its two chosen experts.
    let of_experts = h.unsqueeze(0).matmul(&w[2]).permute([1, 0, 2]);
    let chosen = chosen.unsqueeze(2).expand([BATCH, 2, CLASSES]);
    let scores = (of_experts.gather(1, &chosen) * gates.unsqueeze(2)).sum(1);
    let own = scores.gather(1, &classes.unsqueeze(1));
    let is_own = Tensor::arange_with(CLASSES as i64, DType::I64).unsqueeze(0).eq(classes.unsqueeze(1));
    let margins = (&scores - own + 1.0) * (-is_own.cast(dtype) + 1.0);
    margins.amax(1).relu().cast(DType::F32).mean(..)
}

fn curve(steps: usize, seed: u32, dtype: DType) -> Result<Vec<f32>, Error> {
    let prototypes = Tensor::from_slice(&numbers(CLASSES * 144, 10, seed), [CLASSES, 1, 12, 12]);
    let classes = Tensor::arange_with(SAMPLES as i64, DType::I64) * 7 % CLASSES as i64;
    let noise = Tensor::from_slice(&numbers(SAMPLES * 144, 11, seed), [SAMPLES, 1, 12, 12]) * 1.5;
    let samples = prototypes.index_select(0, &classes) + noise;
    let mut weights = Weights::new(seed).all;
    let (mut curve, mut sum) = (vec![], Tensor::zeros([]));
    for step in 0..steps {
        let from = step * BATCH % SAMPLES;
        let (x, y) = (samples.slice(from..from + BATCH), classes.slice(from..from + BATCH));
        let tracked: Vec<Tensor> = weights.iter().map(|w| w.clone().tracked()).collect();
        let loss = loss(&x, &y, &tracked, dtype);
        let gradients = loss.backward();
        weights = tracked.iter().map(|w| (w - &gradients[w] * 0.02).detach()).collect();
        sum += loss.detach();
        if step % 20 == 19 {
            curve.push(sum.item::<f32>()? / 20.0);
            sum = Tensor::zeros([]);
        }
    }
    Ok(curve)
}

fn main() -> Result<(), Error> {
    let number = |i: usize, or: usize| std::env::args().nth(i).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (steps, seeds) = (number(1, 2000), number(2, 10));
    for seed in 0..seeds as u32 {
        let [wide, narrow] = [curve(steps, seed, DType::F32)?, curve(steps, seed, DType::BF16)?];
        for (n, (wide, narrow)) in wide.iter().zip(narrow).enumerate() {
            println!("{seed} {} {wide:.5} {narrow:.5}", 20 * (n + 1));
        }
    }
    Ok(())
}
