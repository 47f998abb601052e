//! Measures the host time of a run of sixty kernels, without recording: `THALWEG_DEVICE=cuda cargo run --release -p
//! thalweg --features cuda --example submit`, and again with `THALWEG_CUDA_GRAPHS=off` for the same without graphs.

use std::time::{Duration, Instant};
use thalweg::prelude::*;
use thalweg::{counters, with_fusion};

/// Sixty operations that are one kernel each: fusion is off.
fn chain(all: &[Tensor]) -> Vec<Tensor> {
    vec![(0..30).fold(all[0].clone(), |y, _| y * 1.5 + &all[0])]
}

/// Thirty pairs of kernels that cannot fuse: sums along one axis, and along the other.
fn rows(all: &[Tensor]) -> Vec<Tensor> {
    vec![(0..30).fold(all[0].clone(), |y, _| (&y - y.sum(1).unsqueeze(1)).softmax(0))]
}

/// A chain of thirty matrix products.
fn products(all: &[Tensor]) -> Vec<Tensor> {
    let y = (0..30).fold(all[0].clone(), |y, _| y.matmul(&all[1]));
    vec![y, all[1].clone()]
}

/// A step of Adam on each parameter with its gradient and moments.
fn adam(all: &[Tensor]) -> Vec<Tensor> {
    let step = |s: &[Tensor]| {
        let (m, v) = (&s[2] * 0.9 + &s[1] * 0.1, &s[3] * 0.999 + s[1].square() * 0.001);
        [&s[0] - &m / (v.sqrt() + 1e-8) * 0.01, s[1].clone(), m, v]
    };
    all.chunks_exact(4).flat_map(step).collect()
}

fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn measure(name: &str, runs: usize, fused: bool, mut x: Vec<Tensor>, f: impl Fn(&[Tensor]) -> Vec<Tensor>) {
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
        // As in a loop: the next iteration uses the results of this one.
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
    let x = || vec![Tensor::full([64, 64], 0.5)];
    measure("60 maps, unfused", runs, false, x(), chain);
    measure("30 sums and softmaxes, fused", runs, true, x(), rows);
    let matrices = |n: usize| vec![Tensor::full([n, n], 0.5), Tensor::full([n, n], 1.0 / n as f64)];
    for n in [64, 256] {
        measure(&format!("30 products of {n}"), runs / 2, true, matrices(n), products);
    }
    for large in [1, 256] {
        let parameters = (0..800).map(|i| Tensor::full([(64 + (i / 4) * 37 % 300) * large], 0.5)).collect();
        measure(&format!("Adam, 200 parameters of {} or so", 200 * large), runs / 4, true, parameters, adam);
    }
}
