//! A small transformer that learns to write, character by character, on 1, 2 and 4 ranks: with the same losses.
//!
//!     cargo run --release -p thalweg-dist --example chars               threads of this process
//!     torchrun --no-python --nproc-per-node 4 target/release/examples/chars      processes, by a launcher
//!
//! Each rank computes the gradients of its part of every batch. A last argument is the number of steps.

use thalweg::Attention;
use thalweg_dist::{DataParallel, ReduceOp, World};
use thalweg_nn::MultiheadAttention;
use thalweg_nn::data::{DataLoader, samples};
use thalweg_nn::optim::AdamW;
use thalweg_nn::prelude::*;

/// Number of characters from which the next ones are predicted.
const CONTEXT: usize = 32;
const SIZE: usize = 48;
const BATCH: usize = 16;

#[derive(Module, Clone)]
struct Block {
    norm1: LayerNorm,
    attention: MultiheadAttention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new() -> Block {
        Block {
            norm1: LayerNorm::new([SIZE]),
            attention: MultiheadAttention::new(SIZE, 4),
            norm2: LayerNorm::new([SIZE]),
            up: Linear::new(SIZE, 4 * SIZE),
            down: Linear::new(4 * SIZE, SIZE),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.norm1.forward(x);
        let x = x + self.attention.forward(&y, &y, &y, Attention::default().causal(true));
        &x + self.down.forward(&self.up.forward(&self.norm2.forward(&x)).gelu())
    }
}

#[derive(Module, Clone)]
struct Gpt {
    characters: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(characters: usize) -> Gpt {
        Gpt {
            characters: Embedding::new(characters, SIZE),
            positions: Embedding::new(CONTEXT, SIZE),
            blocks: vec![Block::new(), Block::new()],
            norm: LayerNorm::new([SIZE]),
            head: Linear::new(SIZE, characters),
        }
    }

    /// Logits of the character after each position.
    fn forward(&self, index: &Tensor) -> Tensor {
        let positions = Tensor::arange_with(index.dims()[1], DType::I64);
        let x = self.characters.forward(index) + self.positions.forward(&positions);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.head.forward(&self.norm.forward(&x))
    }
}

/// Text as indices into its alphabet, and the size of that.
fn text() -> std::io::Result<(Vec<i64>, usize)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../thalweg-nn/examples/data/psalms.txt");
    let text = std::fs::read_to_string(path)?;
    let alphabet: Vec<char> = text.chars().collect::<std::collections::BTreeSet<char>>().into_iter().collect();
    let index = |c: char| alphabet.binary_search(&c).expect("a character of the text") as i64;
    Ok((text.chars().map(index).collect(), alphabet.len()))
}

/// Trains as one rank. Returns the loss of each step, over all ranks.
fn train(world: &World, steps: usize) -> Result<Vec<f32>, Error> {
    let (text, alphabet) = text().map_err(|e| Error::Value(e.to_string()))?;
    let sequences = (text.len() - 1) / CONTEXT;
    let sequence = move |i: usize| {
        let of = |start: usize| text[start..start + CONTEXT].to_vec();
        Ok::<_, std::io::Error>((of(i * CONTEXT), of(i * CONTEXT + 1)))
    };
    // One seed on all ranks: the loaders shuffle alike, and each makes its part of every batch.
    let loader = DataLoader::new(samples(sequences, sequence), BATCH).shuffled(7).split(world.size(), world.rank());
    manual_seed(1);
    let mut model = Gpt::new(alphabet);
    let parallel = DataParallel::new(world);
    parallel.broadcast(&mut model)?;
    let mut optimizer = AdamW::new(2e-3);
    let mut losses = vec![];
    for batch in (0..).flat_map(|epoch| loader.epoch(epoch)).take(steps) {
        let (x, next) = batch.map_err(|e| Error::Value(e.to_string()))?;
        let loss = model.forward(&x).transpose(1, 2).cross_entropy(&next, Reduction::Mean);
        let mut gradients = loss.backward();
        parallel.average(&model, &mut gradients);
        parallel.clip_norm(&mut gradients, 1.0);
        parallel.step(&mut optimizer, &mut model, &gradients);
        losses.push(world.all_reduce(&loss.detach(), ReduceOp::Mean).item()?);
    }
    if world.rank() == 0 && world.size() > 1 {
        print!("{}", world.traffic());
    }
    Ok(losses)
}

/// First and last loss.
fn ends(losses: &[f32]) -> (f32, f32) {
    losses.first().copied().zip(losses.last().copied()).unwrap_or_default()
}

fn main() -> Result<(), Error> {
    let steps = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100);
    let world = World::from_env()?;
    if world.size() > 1 {
        let losses = train(&world, steps)?;
        if world.rank() == 0 {
            let (first, last) = ends(&losses);
            println!("{} processes: loss {first:.4} to {last:.4}", world.size());
        }
        return Ok(());
    }
    let mut alone = vec![];
    for size in [1, 2, 4] {
        let start = std::time::Instant::now();
        let losses = World::local(size, |world| train(&world, steps))?.remove(0);
        let time = start.elapsed().as_secs_f64();
        if size == 1 {
            alone = losses.clone();
        }
        let difference = losses.iter().zip(&alone).map(|(a, b)| ((a - b) / b).abs()).fold(0.0, f32::max);
        let (first, last) = ends(&losses);
        println!("{size} ranks: loss {first:.4} to {last:.4} in {time:.1} s, at most {difference:.1e} from one rank's");
    }
    Ok(())
}
