//! A small transformer that learns to write, character by character, from the Psalms and the Proverbs.
//!
//!     cargo run --release -p thalweg-nn --example chars                  some minutes on two cores
//!     cargo run --release -p thalweg-nn --example chars -- 300           number of steps
//!     cargo run --release -p thalweg-nn --example chars -- 300 --explain which operations of a step share a kernel
//!     cargo run --release -p thalweg-nn --example chars -- 300 --unfused one kernel per operation
//!
//! Ctrl-C stops it at any time: it saves every 100 steps, and `--resume` continues from the last save. All output goes
//! to the folder for temporary files: `chars.checkpoint`, `chars.svg`.

mod common;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg::Attention;
use thalweg_nn::optim::{AdamW, Optimizer, Schedule, clip_norm};
use thalweg_nn::prelude::*;
use thalweg_nn::{Checkpoint, Rotary};

/// Context length: maximum number of characters from which the next one is predicted.
const CONTEXT: usize = 64;
const SIZE: usize = 96;
const HEADS: usize = 4;
const LAYERS: usize = 3;
const BATCH: usize = 16;

/// Key-value cache of a layer, `[samples, heads, length, size of a head]`.
type Past = Option<(Tensor, Tensor)>;

#[derive(Module, Clone)]
struct Block {
    norm1: RmsNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    rotary: Rotary,
    out: Linear,
    norm2: RmsNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new() -> Block {
        let square = || Linear::new(SIZE, SIZE).without_bias();
        Block {
            norm1: RmsNorm::new([SIZE]),
            query: square(),
            key: square(),
            value: square(),
            rotary: Rotary::new(SIZE / HEADS),
            out: square(),
            norm2: RmsNorm::new([SIZE]),
            up: Linear::new(SIZE, 4 * SIZE),
            down: Linear::new(4 * SIZE, SIZE),
        }
    }

    /// Applies the block to new vectors that follow those of the cache, and appends their keys and values to it.
    fn forward(&self, x: &Tensor, past: Option<&mut Past>) -> Tensor {
        let (samples, length) = (x.dims()[0], x.dims()[1]);
        let normed = self.norm1.forward(x);
        let heads =
            |layer: &Linear| layer.forward(&normed).reshape([samples, length, HEADS, SIZE / HEADS]).transpose(1, 2);
        let [q, k, v] = [&self.query, &self.key, &self.value].map(heads);
        let seen = match &past {
            Some(Some((keys, _))) => keys.dims()[2],
            _ => 0,
        };
        let (q, mut k, mut v) = (self.rotary.forward(&q, seen), self.rotary.forward(&k, seen), v);
        if let Some(past) = past {
            if let Some((keys, values)) = past.take() {
                (k, v) = (Tensor::cat(&[keys, k], 2), Tensor::cat(&[values, v], 2));
            }
            *past = Some((k.clone(), v.clone()));
        }
        // A single new vector attends to everything; several attend causally.
        let heads = q.scaled_dot_product_attention(&k, &v, Attention::default().causal(length > 1));
        let x = x + self.out.forward(&heads.transpose(1, 2).reshape([samples, length, SIZE]));
        &x + self.down.forward(&self.up.forward(&self.norm2.forward(&x)).gelu())
    }
}

#[derive(Module, Clone)]
struct Gpt {
    characters: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Linear,
}

impl Gpt {
    fn new(characters: usize) -> Gpt {
        Gpt {
            characters: Embedding::new(characters, SIZE),
            blocks: (0..LAYERS).map(|_| Block::new()).collect(),
            norm: RmsNorm::new([SIZE]),
            head: Linear::new(SIZE, characters).without_bias(),
        }
    }

    /// Logits of the character after each position, `[samples, length, characters]`.
    fn forward(&self, index: &Tensor, mut past: Option<&mut [Past]>) -> Tensor {
        let mut x = self.characters.forward(index);
        for (i, block) in self.blocks.iter().enumerate() {
            x = block.forward(&x, past.as_deref_mut().map(|past| &mut past[i]));
        }
        self.head.forward(&self.norm.forward(&x))
    }
}

/// Text as indices into its alphabet, and the alphabet.
struct Text {
    characters: Vec<char>,
    numbers: Vec<i64>,
}

impl Text {
    fn read() -> std::io::Result<Text> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/psalms.txt");
        let text = std::fs::read_to_string(path)?;
        let characters: Vec<char> = text.chars().collect::<std::collections::BTreeSet<char>>().into_iter().collect();
        let numbers = encode(&characters, &text);
        Ok(Text { characters, numbers })
    }
}

/// Indices of characters in a sorted alphabet.
fn encode(characters: &[char], text: &str) -> Vec<i64> {
    text.chars().filter_map(|c| characters.binary_search(&c).ok()).map(|n| n as i64).collect()
}

/// Random sequences and the same ones shifted by one character.
fn batch(text: &Tensor) -> [Tensor; 2] {
    let starts = Tensor::randint(0..(text.numel() - CONTEXT) as i64, [BATCH, 1]);
    let places = starts + Tensor::arange_with(CONTEXT, DType::I64);
    [text.take(&places), text.take(&(places + 1))]
}

fn loss(model: &Gpt, [x, next]: &[Tensor; 2]) -> Tensor {
    model.forward(x, None).transpose(1, 2).cross_entropy(next, Reduction::Mean)
}

/// Trains for one step; the loss is not read yet.
fn step(model: &mut Gpt, optimizer: &mut AdamW, text: &Tensor) -> Tensor {
    let loss = loss(model, &batch(text));
    let mut gradients = loss.backward();
    clip_norm(&mut gradients, 1.0);
    optimizer.step(model, &gradients);
    loss.detach()
}

/// Writes `count` characters after a prompt, each sampled from the softmax.
fn write(model: &Gpt, text: &Text, beginning: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    write!(out, "{beginning}")?;
    let mut context = encode(&text.characters, beginning);
    let mut past: Vec<Past> = vec![None; LAYERS];
    let mut next = context.clone();
    thalweg::no_grad(|| -> Result<(), Box<dyn Error>> {
        for _ in 0..count {
            if context.len() >= CONTEXT {
                // Positions beyond the trained context: restart from the last half.
                context.drain(..CONTEXT / 2);
                (past, next) = (vec![None; LAYERS], context.clone());
            }
            let index = Tensor::from_slice(&next, [1, next.len()]);
            let logits = model.forward(&index, Some(&mut past)).index_axis(1, -1).reshape([-1]) / 0.8;
            // Gumbel-max trick: the argmax of logits plus Gumbel noise is a sample of their softmax.
            let noise = -(-logits.rand_like().clamp(1e-9, 1.0).log()).clamp(1e-9, 1e9).log();
            let drawn: i64 = (logits + noise).argmax(0).item()?;
            write!(out, "{}", text.characters[drawn as usize])?;
            out.flush()?;
            context.push(drawn);
            next = vec![drawn];
        }
        Ok(())
    })?;
    writeln!(out)?;
    Ok(())
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let unfused = arguments.iter().any(|a| a == "--unfused");
    thalweg::with_fusion(!unfused, || run(&arguments))
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let steps: u64 = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(3000);
    manual_seed(1);
    let text = Text::read()?;
    // The last twentieth is the test set.
    let held = text.numbers.len() / 20;
    let (train, test) = text.numbers.split_at(text.numbers.len() - held);
    let (train, test) = (Tensor::new(train), Tensor::new(test));
    let mut model = Gpt::new(text.characters.len());
    let mut optimizer = AdamW::new(0.0).betas((0.9, 0.99)).weight_decay(0.1).decays(|name| name.ends_with("weight"));
    let rate = Schedule::cosine(3e-3, 3e-4, steps).warmup(50.min(steps / 4));
    let mut done = 0;
    let file = temporary("chars.checkpoint");
    if has("--resume") {
        let saved = Checkpoint::load(&file)?;
        model.load_state_dict(&saved.part("model"))?;
        optimizer.load_state_dict(&saved.part("optimizer"))?;
        saved.restore_random()?;
        done = saved.get("step")?;
    }
    println!(
        "{} parameters, {} characters of {} kinds",
        model.num_parameters(),
        text.numbers.len(),
        text.characters.len()
    );
    let mut progress = common::Progress::new("chars", steps - done.min(steps));
    let mut losses = Vec::new();
    while done < steps {
        optimizer.set_rate(rate.at(done));
        let loss: f32 = step(&mut model, &mut optimizer, &train).item()?;
        losses.push(loss);
        progress.step(loss, BATCH * CONTEXT);
        done += 1;
        if done.is_multiple_of(100) {
            let mut saved = Checkpoint::new();
            saved.put("model", model.state_dict());
            saved.put("optimizer", optimizer.state_dict());
            saved.set("step", done);
            saved.save(&file)?;
        }
    }
    let time = progress.finish();
    let mut measured = 0.0;
    for _ in 0..20 {
        measured += thalweg::no_grad(|| loss(&model, &batch(&test))).item::<f32>()? / 20.0;
    }
    let taken = losses.len().max(1);
    println!(
        "{taken} steps in {:.1} s ({:.1} ms each); {measured:.3} nats a character on text that it has not seen",
        time.as_secs_f64(),
        time.as_secs_f64() * 1e3 / taken as f64,
    );
    write(&model, &text, "The LORD ", 400)?;
    common::write_curves(&temporary("chars.svg"), "Loss of a character", &[("training", &losses)])?;
    if has("--explain") {
        println!("{}", thalweg::explain(|| step(&mut model, &mut optimizer, &train)).1);
    }
    Ok(())
}
