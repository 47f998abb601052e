//! Times the convolutions of ResNet-18 one by one: milliseconds of each, the best of several runs.
//!
//! `cargo run --release -p thalweg --example convolutions [SAMPLES]`

use std::time::Instant;
use thalweg::{Conv, Error, Tensor};

/// Channels, height and width, channels of the result, kernel, stride.
const LAYERS: [(usize, usize, usize, usize, usize); 8] = [
    (3, 224, 64, 7, 2),
    (64, 56, 64, 3, 1),
    (64, 56, 128, 3, 2),
    (128, 28, 128, 3, 1),
    (128, 28, 256, 3, 2),
    (256, 14, 256, 3, 1),
    (256, 14, 512, 3, 2),
    (512, 7, 512, 3, 1),
];

fn main() -> Result<(), Error> {
    let samples = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(16);
    println!("{:>34} {:>9} {:>9}", "layer", "ms", "GFLOP/s");
    for (channels, size, outer, kernel, stride) in LAYERS {
        let x = Tensor::randn([samples, channels, size, size]);
        let w = Tensor::randn([outer, channels, kernel, kernel]);
        let b = Tensor::randn([outer]);
        thalweg::synchronize()?;
        let run = || -> Result<f64, Error> {
            let begin = Instant::now();
            let options = Conv::default().stride(stride).padding(kernel / 2);
            let y = x.conv2d(&w, Some(&b), options).relu();
            thalweg::synchronize()?;
            drop(y);
            Ok(begin.elapsed().as_secs_f64() * 1e3)
        };
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            best = best.min(run()?);
        }
        let out = size.div_ceil(stride);
        let flop = 2 * samples * outer * out * out * channels * kernel * kernel;
        let layer = format!("{channels}x{size}x{size} to {outer}, {kernel}x{kernel} by {stride}");
        println!("{layer:>34} {best:9.2} {:9.1}", flop as f64 / best / 1e6);
    }
    Ok(())
}
