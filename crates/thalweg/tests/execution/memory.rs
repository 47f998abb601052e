//! Memory: arenas compared with the live bytes, peaks as planned, and networks within half of the memory that they
//! take.
//!
//! The networks are generated from a seed: forward passes whose activations are needed again in the backward pass, or
//! much later.

use crate::counting::pinned;
use thalweg::prelude::*;
use thalweg::{Counters, Explanation, counters, explain};

/// Parameters drawn from a seed; a repeated request returns the same ones.
struct Network {
    rng: fastrand::Rng,
    rows: usize,
    width: usize,
    layers: usize,
    held: Vec<Tensor>,
    at: usize,
}

impl Network {
    fn new(seed: u64) -> Network {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (rows, width, layers) = (256 * rng.usize(4..12), 16 * rng.usize(2..5), rng.usize(10..15));
        Network { rng, rows, width, layers, held: vec![], at: 0 }
    }

    /// A tensor that the caller holds.
    fn given(&mut self, shape: [usize; 2], scale: f64) -> Tensor {
        self.at += 1;
        if self.at > self.held.len() {
            let data: Vec<f32> =
                (0..shape[0] * shape[1]).map(|_| ((self.rng.f64() - 0.5) * 2.0 * scale) as f32).collect();
            self.held.push(Tensor::from(data).reshape(shape));
        }
        self.held[self.at - 1].clone()
    }

    fn x(&mut self) -> Tensor {
        self.given([self.rows, self.width], 1.0)
    }

    fn weight(&mut self, from: usize) -> Tensor {
        self.given([from, self.width], 1.7 / (from as f64).sqrt())
    }

    fn weights(&mut self) -> Vec<Tensor> {
        (0..self.layers).map(|_| self.weight(self.width)).collect()
    }
}

type Build = fn(&mut Network) -> Vec<Tensor>;

fn norm(x: &Tensor) -> Tensor {
    x.layer_norm(-1, 1e-5)
}

/// A training step: the gradients need the activations of all layers.
fn deep_mlp(n: &mut Network) -> Vec<Tensor> {
    let (mut acts, weights) = (vec![n.x()], n.weights());
    for w in &weights {
        acts.push(norm(&acts[acts.len() - 1].matmul(w)).gelu());
    }
    let mut grad = acts[acts.len() - 1].tanh();
    let mut out = vec![];
    for (l, w) in weights.iter().enumerate().rev() {
        grad = &grad * (1.0 - acts[l + 1].tanh());
        out.push(acts[l].t().matmul(&grad));
        grad = grad.matmul(&w.t());
    }
    out
}

fn residual_chain(n: &mut Network) -> Vec<Tensor> {
    let (mut h, weights) = (n.x(), n.weights());
    let mut inner = vec![];
    for w in &weights {
        let t = norm(&h).matmul(w).tanh();
        h = &h + &t * 0.5;
        inner.push(t);
    }
    let mut grad = &h * 2.0;
    let mut out = vec![h.mean(0)];
    for (t, w) in inner.iter().zip(&weights).rev() {
        let own = &grad * (1.0 - t * t);
        out.push(t.t().matmul(&own));
        grad = &grad + own.matmul(&w.t());
    }
    out.push(grad.sum(0));
    out
}

fn long_skips(n: &mut Network) -> Vec<Tensor> {
    let (mut h, down, up) = (n.x(), n.weights(), n.weights());
    let mut skips = vec![];
    for w in &down {
        h = norm(&h.matmul(w)).relu();
        skips.push(h.clone());
    }
    for (w, skip) in up.iter().zip(skips.iter().rev()) {
        h = (norm(&h.matmul(w)) + skip).gelu();
    }
    vec![h.mean(0), h.amax(0)]
}

fn concatenations(n: &mut Network) -> Vec<Tensor> {
    let mut features = vec![n.x()];
    for _ in 0..n.layers {
        let last = &features[features.len().saturating_sub(2)..];
        let w = n.weight(n.width * last.len());
        features.push(norm(&Tensor::cat(last, 1).matmul(&w)).silu());
    }
    let mut g = n.x();
    for f in features.iter().rev() {
        let w = n.weight(2 * n.width);
        g = Tensor::cat(&[&g, f], 1).matmul(&w).tanh();
    }
    vec![g.sum(0)]
}

fn attention(n: &mut Network) -> Vec<Tensor> {
    let (rows, width, time) = (n.rows, n.width, 32);
    let batched = |t: &Tensor| t.reshape([rows / time, time, width]);
    let mut h = n.x();
    let mut kept = vec![];
    for _ in 0..n.layers / 2 {
        let [q, k, v] = [0; 3].map(|_| batched(&h.matmul(&n.weight(n.width))));
        let weights = (q.matmul(&k.transpose(1, 2)) * 0.2).softmax(-1);
        let mixed = weights.matmul(&v).reshape([rows, width]);
        h = norm(&(&h + mixed.matmul(&n.weight(n.width))));
        kept.push((weights, v));
    }
    let mut g = batched(&h);
    let mut out = vec![];
    for (weights, v) in kept.iter().rev() {
        g = (weights.transpose(1, 2).matmul(&g) * 0.5 + v).tanh();
        out.push(g.sum([0, 1]));
    }
    out
}

/// Network in which every branch is scaled by a function of all branches.
fn branches(n: &mut Network) -> Vec<Tensor> {
    let (x, weights) = (n.x(), n.weights());
    let all: Vec<Tensor> = weights.iter().map(|w| x.matmul(w).cumsum(1)).collect();
    let sums: Vec<Tensor> = all.iter().map(|b| b.matmul(&n.given([n.width, 1], 1.0)).abs().mean(..)).collect();
    let total = sums.iter().skip(1).fold(sums[0].clone(), |a, b| a + b);
    all.iter().map(|b| (b / &total).matmul(&n.given([n.width, 2], 1.0)).sum(0)).collect()
}

fn mixed_dtypes(n: &mut Network) -> Vec<Tensor> {
    let (x, weights) = (n.x(), n.weights());
    let mut h = x.cast(DType::BF16);
    let mut kept = vec![];
    for (l, w) in weights.iter().enumerate() {
        let z = norm(&h.matmul(&w.cast(DType::BF16)).cast(DType::F32)).gelu();
        h = z.cast(DType::BF16);
        let narrow = [DType::F16, DType::F32, DType::BF16][l % 3];
        kept.push(z.cast(narrow));
    }
    let mut g = h.cast(DType::F32);
    let mut out = vec![];
    for (z, w) in kept.iter().zip(&weights).rev() {
        g = (&g * z.cast(DType::F32)).matmul(&w.t());
        out.push(g.cast(DType::F64).mean(0));
    }
    out
}

fn recurrent(n: &mut Network) -> Vec<Tensor> {
    let (x, w, u) = (n.x(), n.weight(n.width), n.weight(n.width));
    let mut states = vec![x.clone()];
    for t in 0..n.layers {
        let input = &x * (1.0 + t as f64 * 0.1);
        states.push((states[t].matmul(&w) + input.matmul(&u)).tanh());
    }
    let mut g = states[n.layers].clone();
    let mut dw = Tensor::zeros([n.width, n.width]);
    for t in (0..n.layers).rev() {
        g = &g * (1.0 - states[t + 1].square());
        dw += states[t].t().matmul(&g);
        g = g.matmul(&w.t());
    }
    vec![dw, g.sum(0)]
}

/// Sorts, running sums and random masks, used again in reverse.
fn scans(n: &mut Network) -> Vec<Tensor> {
    let (mut h, mut random) = (n.x(), Generator::seed(7));
    let mut kept = vec![];
    for l in 0..n.layers {
        h = match l % 3 {
            0 => h.sort(1, false) + random.rand([n.rows, n.width]),
            1 => norm(&h.cumsum(1)),
            _ => random.dropout(&h.matmul(&n.weight(n.width)), 0.2),
        };
        kept.push(h.clone());
    }
    let mut g = h.cumsum(0) * 1e-3;
    for k in kept.iter().rev() {
        g = norm(&(&g + k)).cumsum(1);
    }
    vec![g.mean(0)]
}

fn random_graph(n: &mut Network) -> Vec<Tensor> {
    let mut rng = fastrand::Rng::with_seed(n.width as u64 * 131 + n.rows as u64);
    let mut nodes = vec![n.x()];
    for _ in 0..2 * n.layers {
        let near = nodes.len().saturating_sub(4);
        let a = nodes[rng.usize(near..nodes.len())].clone();
        let b = nodes[rng.usize(near..nodes.len())].clone();
        nodes.push(match rng.u8(0..4) {
            0 | 1 => norm(&a.matmul(&n.weight(n.width))),
            2 => (a.matmul(&n.weight(n.width)) + b).tanh(),
            _ => a.cumsum(1).tanh() * b,
        });
    }
    let mut g = nodes[nodes.len() - 1].clone();
    for node in nodes.iter().rev().step_by(2) {
        g = (g.matmul(&n.weight(n.width)) * node).tanh();
    }
    vec![g.sum(0)]
}

const NETWORKS: [(&str, Build); 10] = [
    ("deep mlp", deep_mlp),
    ("residual chain", residual_chain),
    ("long skips", long_skips),
    ("concatenations", concatenations),
    ("attention", attention),
    ("branches", branches),
    ("mixed dtypes", mixed_dtypes),
    ("recurrent", recurrent),
    ("scans", scans),
    ("random graph", random_graph),
];

/// Result and memory of a run of a network.
struct Ran {
    values: Result<Vec<Vec<u8>>, Error>,
    explanation: Explanation,
    counted: Counters,
    /// Bytes in use before, and the rise at the peak.
    before: usize,
    rise: usize,
}

fn run(network: &mut Network, build: Build, strict: bool) -> Ran {
    let device = Device::default();
    network.at = 0;
    thalweg::synchronize().unwrap();
    device.reset_peak();
    let (before, counted) = (device.memory().in_use, counters());
    let (out, explanation) = explain(|| thalweg::with_strict(strict, || build(network)));
    let (rise, counted) = (device.memory().peak - before, counters() - counted);
    let bits = |t: &Tensor| -> Result<Vec<u8>, Error> {
        Ok(t.cast(DType::F64).to_vec::<f64>()?.iter().flat_map(|v| v.to_bits().to_le_bytes()).collect())
    };
    let limit = device.memory().limit;
    device.set_memory_limit(None);
    let values = out.iter().map(bits).collect();
    device.set_memory_limit(limit);
    Ran { values, explanation, counted, before, rise }
}

/// The network after a warm-up: the caller's tensors exist.
fn warm(seed: u64, build: Build) -> Network {
    let mut network = Network::new(seed);
    drop(build(&mut network));
    thalweg::synchronize().unwrap();
    network.held.iter().for_each(|t| drop(t.slice((0, 0)).to_vec::<f32>().unwrap()));
    network
}

#[test]
fn an_arena_is_hardly_larger_than_what_is_alive_at_once() {
    let _pinned = pinned();
    for (seed, (name, build)) in NETWORKS.into_iter().enumerate() {
        let free = run(&mut warm(seed as u64, build), build, true);
        let t = free.explanation.totals();
        assert!(t.arena > 0 && t.arena as f64 <= 1.15 * t.arena_live as f64, "{name}: {t:?}");
        // Blocks of the pool are up to an eighth larger than requested.
        assert!(free.rise <= t.peak && t.peak - free.rise <= free.rise / 8, "{name}: {} bytes, {t:?}", free.rise);
        assert_eq!(free.counted.arena_bytes, t.arena as u64, "{name}");
    }
}

#[test]
fn half_of_the_memory_gives_the_same_bits() {
    let _pinned = pinned();
    let mut again = 0;
    for (seed, (name, build)) in NETWORKS.into_iter().enumerate() {
        let mut network = warm(seed as u64, build);
        let free = run(&mut network, build, true);
        Device::default().set_memory_limit(Some(free.before + free.rise / 2));
        let tight = run(&mut network, build, true);
        Device::default().set_memory_limit(None);
        assert!(tight.rise <= free.rise / 2, "{name}");
        let (tight_values, values) = (tight.values.unwrap_or_else(|e| panic!("{name}: {e}")), free.values.unwrap());
        assert!(tight_values == values, "{name}: other values under the limit");
        let t = tight.explanation.totals();
        assert_eq!(t.repeated as u64, tight.counted.recomputed_launches, "{name}");
        assert_eq!(
            [t.kernels, t.bytes_read_measured, t.bytes_written_measured, t.bytes_allocated].map(|v| v as u64),
            [
                tight.counted.kernels,
                tight.counted.bytes_read,
                tight.counted.bytes_written,
                tight.counted.bytes_allocated
            ],
            "{name}"
        );
        again += t.repeated;
    }
    assert!(again > 0);
}

#[test]
fn half_of_the_memory_gives_nearly_the_same_values_where_plans_may_round_otherwise() {
    let _pinned = pinned();
    for (seed, (name, build)) in NETWORKS.into_iter().enumerate() {
        let mut network = warm(seed as u64, build);
        let free = run(&mut network, build, false);
        Device::default().set_memory_limit(Some(free.before + free.rise / 2));
        let tight = run(&mut network, build, false);
        Device::default().set_memory_limit(None);
        for (a, b) in free.values.unwrap().iter().zip(&tight.values.unwrap_or_else(|e| panic!("{name}: {e}"))) {
            let [a, b] = [a, b].map(|v| -> Vec<f64> {
                v.chunks(8).map(|c| f64::from_bits(u64::from_le_bytes(c.try_into().unwrap()))).collect()
            });
            let size = a.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            let off = a.iter().zip(&b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
            assert!(off <= 0.02 * size, "{name}: {off} off, of {size}");
        }
    }
}

#[test]
fn a_limit_that_nothing_fits_is_an_error_that_says_what_is_needed() {
    let _pinned = pinned();
    let device = Device::default();
    for (seed, (name, build)) in NETWORKS.into_iter().enumerate() {
        let mut network = warm(seed as u64, build);
        device.set_memory_limit(Some(1024));
        let e = run(&mut network, build, true).values.unwrap_err();
        device.set_memory_limit(None);
        let cause = match &e {
            Error::Failed(cause) => &**cause,
            e => e,
        };
        let Error::OutOfMemory { requested, limit: Some(1024), .. } = cause else { panic!("{name}: {e:?}") };
        assert!(*requested > 1024 && e.to_string().contains("limit 1.0 KiB"), "{name}: {e}");
        assert!(run(&mut network, build, true).values.is_ok(), "{name}: afterwards");
    }
}

/// The cost of half of the memory: `cargo test --release -p thalweg --test execution memory:: -- --ignored --nocapture`.
#[test]
#[ignore = "a report"]
fn report() {
    let _pinned = pinned();
    println!(
        "{:<16} {:>9} {:>9} {:>6} {:>9} {:>9} {:>7} {:>6}",
        "network", "live", "arena", "ratio", "peak", "half", "again", "time"
    );
    for (seed, (name, build)) in NETWORKS.into_iter().enumerate() {
        let mut network = warm(seed as u64, build);
        let fastest = |network: &mut Network| {
            let times = (0..9).map(|_| {
                thalweg::launch_times(|| {
                    network.at = 0;
                    thalweg::with_strict(true, || build(network))
                })
                .1
                .iter()
                .sum::<u64>()
            });
            times.min().unwrap()
        };
        let (free, time) = (run(&mut network, build, true), fastest(&mut network));
        Device::default().set_memory_limit(Some(free.before + free.rise / 2));
        let tight = run(&mut network, build, true);
        let slower = fastest(&mut network);
        Device::default().set_memory_limit(None);
        let (a, b) = (free.explanation.totals(), tight.explanation.totals());
        let kib = |n: usize| format!("{}K", n >> 10);
        println!(
            "{name:<16} {:>9} {:>9} {:>6.3} {:>9} {:>9} {:>3}/{:<3} {:>6.2}{}",
            kib(a.arena_live),
            kib(a.arena),
            a.arena as f64 / a.arena_live as f64,
            kib(free.rise),
            kib(tight.rise),
            b.repeated,
            a.kernels,
            slower as f64 / time as f64,
            tight.values.err().map(|e| format!("  {e}")).unwrap_or_default()
        );
    }
}
