//! What the host spends on a run of sixty kernels, recording apart: `THALWEG_DEVICE=cuda cargo run --release -p thalweg --features cuda --example submit`, and again with
//! `THALWEG_CUDA_GRAPHS=off` for the same without graphs.

use std::time::{Duration, Instant};
use thalweg::prelude::*;
use thalweg::{counters, with_fusion};

/// Sixty operations that become a kernel each: fusion is off.
fn chain(x: &Tensor) -> Tensor {
    (0..30).fold(x.clone(), |y, _| (y * 1.5 + x).clone())
}

/// Thirty times two kernels that no fusion makes one: sums along one axis, and along the other.
fn rows(x: &Tensor) -> Tensor {
    (0..30).fold(x.clone(), |y, _| (&y - y.sum(1).unsqueeze(1)).softmax(0))
}

fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn measure(name: &str, runs: usize, fused: bool, f: impl Fn(&Tensor) -> Tensor) {
    let mut x = Tensor::full([64, 64], 0.5);
    thalweg::synchronize().expect("the device is well");
    let (mut recorded, mut submitted, mut whole, mut before) = (vec![], vec![], vec![], counters());
    for turn in 0..runs {
        if turn == runs / 2 {
            before = counters();
        }
        let start = Instant::now();
        let y = with_fusion(fused, || {
            let y = f(&x);
            recorded.push(start.elapsed());
            thalweg::flush();
            y
        });
        submitted.push(start.elapsed() - recorded[turn]);
        thalweg::synchronize().expect("the device is well");
        whole.push(start.elapsed());
        // What a loop does: the next turn works on what this one gave.
        x = y;
    }
    let c = counters() - before;
    let each = |n: u64| n as f64 / (runs - runs / 2) as f64;
    [&mut recorded, &mut submitted, &mut whole].into_iter().for_each(|t| drop(t.drain(..runs / 2)));
    println!(
        "{name}: {:.1} us to record, {:.1} us to submit, {:.1} us until done; {} kernels, {} launches, {} graphs a run, {} graphs made in all",
        middle(recorded),
        middle(submitted),
        middle(whole),
        each(c.kernels),
        each(c.device_launches),
        each(c.graph_runs),
        counters().graphs_made,
    );
}

fn main() {
    let device = Device::default();
    let runs = if device.name().contains("emulated") { 12 } else { 2000 };
    println!("{}: {}", device.name(), device.describe());
    measure("60 maps, unfused", runs, false, chain);
    measure("30 sums and softmaxes, fused", runs, true, rows);
}
