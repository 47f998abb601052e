//! Folds over axes that do not lie one behind the other in memory, each beside the plain one that reads as many bytes.
//!
//! ```sh
//! cargo run --release --example folds [ROUNDS]
//! ```

#![allow(clippy::reversed_empty_ranges, reason = "a negative end counts from the end")]

use std::time::Instant;
use thalweg::{DType, SliceArg, Tensor, manual_seed, synchronize};

type Fold = (&'static str, fn(&Data) -> Tensor);

struct Data {
    x: Tensor,
    w: Tensor,
    images: Tensor,
    channels: Tensor,
    last: Tensor,
    long: Tensor,
}

/// What is measured. The first is what the others are compared with.
const FOLDS: &[Fold] = &[
    ("x.square().mean(..)", |d| d.x.square().mean(..)),
    ("(x.square() * w[:, None]).mean(..)", |d| (d.x.square() * d.w.unsqueeze(1)).mean(..)),
    ("(x.square() * w).mean(..)", |d| (d.x.square() * &d.w).mean(..)),
    ("x.square().mean(-1).mean(0)", |d| d.x.square().mean(-1).mean(0)),
    ("x.t().square().sum(..)", |d| d.x.t().square().sum(..)),
    ("x[1:-1, 1:-1].square().sum(..)", |d| d.x.slice((1..-1, 1..-1)).square().sum(..)),
    ("x[:, :2048].square().sum(..)", |d| d.x.slice((.., ..2048)).square().sum(..)),
    ("x[::2].square().sum(..)", |d| d.x.slice(SliceArg::range(None, None, 2)).square().sum(..)),
    ("(x * x.t()).sum(..)", |d| (&d.x * d.x.t()).sum(..)),
    ("(images * c).sum([1, 2, 3])", |d| (&d.images * &d.channels).sum([1, 2, 3])),
    ("images.sum([1, 2, 3])", |d| d.images.sum([1, 2, 3])),
    ("images.sum([0, 2, 3])", |d| d.images.sum([0, 2, 3])),
    ("(images * c).square().sum([0, 2, 3])", |d| (&d.images * &d.channels).square().sum([0, 2, 3])),
    ("images[.., 1:-1, 1:-1].sum(..)", |d| d.images.slice((.., .., 1..-1, 1..-1)).sum(..)),
    ("images.permute([0, 2, 3, 1]).sum([1, 2, 3])", |d| d.images.permute([0, 2, 3, 1]).sum([1, 2, 3])),
    ("(last + b).square().sum(..)", |d| (&d.last + &d.w.slice(..3)).square().sum(..)),
    ("x.sum(0)", |d| d.x.sum(0)),
    ("x.t().sum(1)", |d| d.x.t().sum(1)),
    ("x.reshape([64, 64, 4096]).sum([0, 2])", |d| d.x.reshape([64, 64, 4096]).sum([0, 2])),
    ("long.outer(long).exp().sum(..)", |d| d.long.outer(&d.long).exp().sum(..)),
    ("x.window(0, 3).window(1, 3).mean([2, 3])", |d| d.x.window(0, 3, 1).window(1, 3, 1).mean([2, 3])),
    ("x.window(1, 64).mean(-1)", |d| d.x.window(1, 64, 1).mean(-1)),
    ("x.window(1, 64).amax(-1)", |d| d.x.window(1, 64, 1).amax(-1)),
];

fn main() -> Result<(), thalweg::Error> {
    let rounds: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(5);
    let only: Option<String> = std::env::args().nth(2);
    manual_seed(1);
    let x = Tensor::randn([4096, 4096]);
    let data = Data {
        w: Tensor::randn([4096]),
        images: Tensor::randn([16, 64, 128, 128]),
        channels: Tensor::randn([64, 1, 1]),
        last: Tensor::randn([1 << 22, 3]),
        long: Tensor::randn([6000]).cast(DType::F32),
        x,
    };
    synchronize()?;
    let mut times = vec![vec![]; FOLDS.len()];
    for _ in 0..rounds {
        for (n, (name, fold)) in FOLDS.iter().enumerate() {
            if only.as_ref().is_some_and(|o| n > 0 && !name.contains(o.as_str())) {
                continue;
            }
            let mut best = f64::MAX;
            for _ in 0..4 {
                let begin = Instant::now();
                let y = fold(&data);
                synchronize()?;
                drop(y);
                best = best.min(begin.elapsed().as_secs_f64() * 1e3);
            }
            times[n].push(best);
        }
    }
    for (t, (name, _)) in times.iter_mut().zip(FOLDS) {
        t.sort_by(f64::total_cmp);
        if let Some(t) = t.get(t.len() / 2) {
            println!("{name:<46} {t:>9.2} ms");
        }
    }
    Ok(())
}
