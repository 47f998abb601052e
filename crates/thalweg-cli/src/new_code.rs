//! The workloads `first_ops` and `first_images`, which never repeat, so that every segment is new; and `first_loop`,
//! the first run of a long loop. `bench/peers.py` has the same programs; both use the same random generator and so do
//! the same work.
//!
//! A run is a seed. Only the process is warmed up: the time is what a user waits for at a cold start.

use crate::failure::Outcome;
use crate::measure::{Times, Work, counted, ms_since};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use thalweg::{DType, Tensor, counters};

/// Number of operations in one run of `first_ops`.
const OPERATIONS: usize = 3000;
/// Number of images in one run of `first_images`.
const IMAGES: usize = 500;
/// Number of rows, and of columns, of an image.
const SIDE: usize = 128;
/// Number of rows, and of columns, of the crop of an image.
const CUT: usize = 96;

/// Seed of the next run; a process that measures again continues with new seeds.
static SEEDS: AtomicU64 = AtomicU64::new(1);

/// Name of the group.
pub const GROUP: &str = "new_code";
/// Former name of the group, accepted for one version.
const FORMER_GROUP: &str = "first_sight";

/// Whether a name given on the command line is that of this group; warns if it is the former one.
pub fn is_group(name: &str) -> bool {
    if name == FORMER_GROUP {
        eprintln!("warning: the group {FORMER_GROUP} is now called {GROUP}");
    }
    name == GROUP || name == FORMER_GROUP
}

/// Workload of the group; one run takes a seed.
pub struct First {
    /// Name of the workload.
    pub name: &'static str,
    /// Short description of what it computes.
    pub about: &'static str,
    run: fn(u64) -> Outcome,
}

/// All workloads of the group.
pub const ALL: &[First] = &[
    First {
        name: "first_ops",
        about: "3,000 random small operations, reads between, a new seed each run",
        run: operations,
    },
    First { name: "first_images", about: "500 random augmentations of images, a new seed each run", run: images },
    First { name: "first_loop", about: "1,000 steps of a stencil on [128, 128]; the first run is cold", run: stencil },
];

/// Measures a workload: `runs` runs, each with a new seed.
pub fn measure(first: &First, runs: usize) -> Outcome<(Times, Work)> {
    let begin = counters();
    let mut times = vec![];
    let mut one = counters() - begin;
    for _ in 0..runs {
        let seed = SEEDS.fetch_add(1, Relaxed);
        let (ms, counted) = counted(|| {
            let begin = Instant::now();
            (first.run)(seed)?;
            Ok(ms_since(begin))
        })?;
        times.push(ms);
        one = counted;
    }
    let cold = times[0];
    Ok((Times::new(cold, times), Work::new(one, counters() - begin)))
}

/// Linear congruential generator (Knuth's MMIX constants); draws use the upper half of the state.
struct Draws(u64);

impl Draws {
    fn new(seed: u64) -> Draws {
        Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }

    /// Draws a number in [0, 1), a multiple of 0.001.
    fn unit(&mut self) -> f64 {
        self.below(1000) as f64 / 1000.0
    }
}

/// Runs random operations on six tensors of `[32, 32]`. About every dozen operations a mean is read and decides the
/// next one.
fn operations(seed: u64) -> Outcome {
    let mut draws = Draws::new(seed);
    let mut pool: Vec<Tensor> =
        (0..6).map(|i| Tensor::arange(1024).reshape([32, 32]) * (0.001 * (i + 1) as f64)).collect();
    let mut done = 0;
    while done < OPERATIONS {
        let (a, b, to) = (draws.below(6), draws.below(6), draws.below(6));
        let (x, y) = (pool[a].clone(), pool[b].clone());
        let (made, count) = match draws.below(16) {
            0 => ((&x + &y) * 0.5, 2),
            1 => (&x - &y, 1),
            2 => ((&x * &y).tanh(), 2),
            3 => (x.maximum(&y), 1),
            4 => (x.minimum(&y), 1),
            5 => (x.tanh(), 1),
            6 => ((-x.abs()).exp(), 3),
            7 => (x.sigmoid(), 1),
            8 => (x.relu(), 1),
            9 => (x.abs().sqrt(), 2),
            10 => (&x * (draws.unit() - 0.5) + draws.unit(), 2),
            11 => (&x - x.sum_keepdim(1) / 32.0, 3),
            12 => (x.t(), 1),
            13 => (&x / (x.abs().amax_keepdim(0) + 1.0), 4),
            14 => (x.gt(&y).where_(&x, &y * 0.5), 3),
            _ => {
                let at = 1 + draws.below(31);
                (Tensor::cat(&[x.slice((at.., ..)), x.slice((..at, ..))], 0), 3)
            }
        };
        pool[to] = made;
        done += count;
        if draws.below(5) == 0 {
            let mean: f32 = pool[a].mean(..).item()?;
            pool[a] = if mean > 0.25 { &pool[a] * 0.5 } else { &pool[a] + 0.75 };
            done += 2;
        }
    }
    for x in &pool {
        x.to_vec::<f32>()?;
    }
    Ok(())
}

/// Runs random augmentations of images: some of seven steps, in random order, with random numbers; each image is read.
fn images(seed: u64) -> Outcome {
    let mut draws = Draws::new(seed);
    let values: Vec<f32> = (0..SIDE * SIDE * 3).map(|i| (i * 7919 % 256) as f32).collect();
    for _ in 0..IMAGES {
        let mut x = Tensor::from_slice(&values, [SIDE, SIDE, 3]) / 255.0;
        let (top, left) = (draws.below(SIDE - CUT + 1), draws.below(SIDE - CUT + 1));
        x = x.slice((top..top + CUT, left..left + CUT, ..));
        for _ in 0..5 {
            x = augmented(&x, &mut draws);
        }
        x.permute([2, 0, 1]).to_vec::<f32>()?;
    }
    Ok(())
}

fn augmented(x: &Tensor, draws: &mut Draws) -> Tensor {
    match draws.below(7) {
        0 => x.flip(1),
        1 => (x * (0.6 + 0.8 * draws.unit())).clamp(0.0, 1.0),
        2 => {
            let mean = x.mean(..);
            ((x - &mean) * (0.6 + 0.8 * draws.unit()) + &mean).clamp(0.0, 1.0)
        }
        3 => {
            let grey = x.mean_keepdim(2);
            let kept = draws.unit();
            x * kept + grey * (1.0 - kept)
        }
        4 => x.abs().powf(0.7 + 0.6 * draws.unit()),
        5 => (x - x.mean_keepdim([0, 1])) / (x.std_keepdim([0, 1]) + 1e-3),
        _ => {
            let (top, size) = (draws.below(CUT / 2), 8 + draws.below(CUT / 4));
            let rows = Tensor::arange(CUT).reshape([CUT, 1, 1]);
            let hidden = rows.ge(top as f64) & rows.lt((top + size) as f64);
            x.masked_fill(&hidden, 0.5)
        }
    }
}

/// Solves the heat equation on a plate with a cold border, for 1,000 steps.
fn stencil(_: u64) -> Outcome {
    let mut heat = Tensor::arange(128 * 128).reshape([128, 128]).cast(DType::F32) * 1e-4;
    for _ in 0..1000 {
        let p = heat.pad([(1, 1), (1, 1)], 0.0);
        let near =
            p.slice((2.., 1..129)) + p.slice((..128, 1..129)) + p.slice((1..129, 2..)) + p.slice((1..129, ..128));
        heat = &heat + (near - &heat * 4.0) * 0.1;
    }
    heat.to_vec::<f32>()?;
    Ok(())
}
