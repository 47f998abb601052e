//! A training step of GPT-2: its cost, and the bytes kept from the forward pass when the loss is read before the
//! backward.
//!
//!     cargo run --release -p thalweg-nn --example gpt2                   the small one: 4 samples of 256 tokens
//!     cargo run --release -p thalweg-nn --example gpt2 -- 12 256         layers and width, with 4,096 tokens
//!     cargo run --release -p thalweg-nn --example gpt2 -- 12 256 --half  also in half of the memory that it takes
//!     ... --save FILE   weights, tokens, loss and gradients, for bench/gpt2.py to compare with PyTorch's
//!     ... --early       the loss is read before the backward pass
//!     ... --sgd         without moments; --half is then half of all that is in use
//!     ... --strict      fused and unfused agree to the bit; --all: nothing is computed again; --explain

#[path = "common/gpt2.rs"]
mod gpt2;

use gpt2::{Gpt2, Size};
use std::error::Error;
use std::time::Instant;
use thalweg_nn::optim::{AdamW, Optimizer, Sgd};
use thalweg_nn::prelude::*;

/// The smallest published size, with a context of 256.
const GPT2_SMALL: Size = Size { tokens: 50_257, context: 256, width: 768, heads: 12, layers: 12 };
const SAMPLES: usize = 4;
const STEPS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let numbers: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let size = match numbers[..] {
        [layers, width] => Size { tokens: 4096, width, heads: width / 64, layers, ..GPT2_SMALL },
        _ => GPT2_SMALL,
    };
    thalweg::set_recomputing(!has("--all"));
    thalweg::with_strict(has("--strict"), || {
        if let Some(at) = arguments.iter().position(|a| a == "--save") {
            return save(size, arguments.get(at + 1).ok_or("--save FILE")?);
        }
        let early = has("--early") || has("--half");
        let step = (early, has("--sgd"), has("--explain"));
        let free = train(size, step)?;
        if has("--half") {
            // Memory in use before a step (parameters and moments) cannot be freed.
            let rise = free.peak - free.before;
            let half = if has("--sgd") { free.peak / 2 } else { free.before + rise / 2 };
            println!("within {:.1} MB:", half as f64 / 1e6);
            Device::default().set_memory_limit(Some(half));
            let tight = train(size, step)?;
            println!(
                "{:.2} times the time; losses {}",
                tight.seconds / free.seconds,
                if tight.losses == free.losses { "the same to the bit" } else { "not the same to the bit" }
            );
        }
        Ok(())
    })
}

struct Trained {
    losses: Vec<f32>,
    seconds: f64,
    /// Bytes in use before a step (`before`), and at its peak (`peak`).
    before: usize,
    peak: usize,
}

/// Trains for some steps on one batch.
fn train(size: Size, (early, sgd, explain): (bool, bool, bool)) -> Result<Trained, Box<dyn Error>> {
    manual_seed(1);
    let (mut model, tokens) = (Gpt2::new(size), tokens(size));
    let (mut plain, mut adam) = (Sgd::new(0.1), AdamW::new(3e-4));
    let mut done = Trained { losses: vec![], seconds: f64::INFINITY, before: 0, peak: 0 };
    thalweg::synchronize()?;
    println!("{} parameters, {} tokens a step", model.num_parameters(), SAMPLES * size.context);
    for step in 0..STEPS {
        let device = Device::default();
        device.reset_peak();
        let (before, counted, begin) = (device.memory().in_use, thalweg::counters(), Instant::now());
        let mut turn = || -> Result<f32, thalweg::Error> {
            let loss = model.loss(&tokens);
            if early {
                loss.item::<f32>()?;
            }
            let gradients = loss.backward();
            match sgd {
                true => plain.step(&mut model, &gradients),
                false => adam.step(&mut model, &gradients),
            };
            drop(gradients);
            let loss = loss.item::<f32>()?;
            thalweg::synchronize()?;
            Ok(loss)
        };
        let loss = match explain && step + 1 == STEPS {
            true => {
                let (loss, why) = thalweg::explain(turn);
                println!("{why}");
                loss?
            }
            false => turn()?,
        };
        let (seconds, c) = (begin.elapsed().as_secs_f64(), thalweg::counters() - counted);
        let peak = device.memory().peak;
        println!(
            "loss {loss:.5}, {seconds:.3} s, {} kernels, {} plans made; {} values kept, {:.2} MB, {} left, {} operations \
             again, {} launches twice; peak {:.1} MB, {:.1} before",
            c.kernels,
            c.plans_made,
            c.values_saved,
            c.saved_bytes as f64 / 1e6,
            c.values_dropped,
            c.operations_recomputed,
            c.recomputed_launches,
            peak as f64 / 1e6,
            before as f64 / 1e6,
        );
        done.losses.push(loss);
        if step > 0 {
            done.seconds = done.seconds.min(seconds);
            (done.before, done.peak) = (before, peak);
        }
    }
    Ok(done)
}

/// A fixed batch whose token numbers come from a formula.
fn tokens(size: Size) -> Tensor {
    let n = SAMPLES * (size.context + 1);
    let tokens: Vec<i64> = (0..n as u64).map(|i| (i * i * 7919 + i * 104_729) as i64 % size.tokens as i64).collect();
    Tensor::from_slice(&tokens, [SAMPLES, size.context + 1])
}

/// Writes weights, tokens, the loss and all gradients to a file.
fn save(size: Size, path: &str) -> Result<(), Box<dyn Error>> {
    manual_seed(1);
    let (model, tokens) = (Gpt2::new(size), tokens(size));
    let loss = model.loss(&tokens);
    let gradients = loss.backward();
    let mut file = model.state_dict();
    for (name, parameter) in model.named_parameters() {
        file.insert(format!("gradient.{name}"), gradients[&parameter].clone());
    }
    file.insert("tokens", tokens);
    file.insert("loss", loss.detach().reshape([1]));
    file.insert("heads", Tensor::new(vec![size.heads as i64]));
    thalweg::write_safetensors(path, file.iter(), &Default::default())?;
    Ok(())
}
