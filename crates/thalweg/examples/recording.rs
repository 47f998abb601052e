//! Records a segment of some operations that has a plan, repeatedly, and waits only for the last one. Its `callgrind`
//! count divided by the number of operations is the cost of recording one.
//!
//! ```sh
//! cargo build --release --example recording
//! export THALWEG_ISA=avx2 THALWEG_THREADS=1 THALWEG_CACHE=off
//! valgrind --tool=callgrind --toggle-collect='recording::turn' target/release/examples/recording 200
//! ```
//! A word after the number selects the operations: `methods`, calls of a `kernel` (three operations each), of one whose
//! `numbers` change, of a `row` kernel, of one with `places`, of one with a new number each time, so that it is
//! `traced`, of one with a `loop` or with `plain` data, of a `tile`; or `gradients`, a loss and its backward pass
//! (`recording::forward`, `recording::backward`). The program prints the number of operations, and
//! the minimum time to record one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;
use thalweg::kernel::{Edge, Field, Real, Row, Tile};
use thalweg::{Shape, Tensor, kernel};

/// A kernel of three operations.
#[kernel]
fn step<F: Real>(y: F) -> F {
    (y * 1.0001 + 0.0001).tanh()
}

#[kernel]
fn scaled<F: Real>(y: F, scale: F) -> F {
    (y * scale + 0.0001).tanh()
}

#[kernel(row)]
fn normalized<F: Real>(x: &Row<F>) -> Row<F> {
    let most = x.fold(F::lit(f64::NEG_INFINITY), |a, b| a.max(b));
    let sum = x.map(|x| (x - most).exp()).fold(0.0, |a, b| a + b);
    x.map(|x| (x - most).exp() / sum)
}

#[kernel(index)]
fn heat<F: Real>(at: [i32; 2], u: &Field<F, 2>, k: F) -> F {
    let [i, j] = at;
    let u = |di: i32, dj: i32| u.get([i + di, j + dj], Edge::Clamp);
    u(0, 0) + k * (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4.0 * u(0, 0))
}

#[kernel(max_turns = 8)]
fn root<F: Real>(a: F) -> F {
    let mut x = a;
    while (x * x - a).abs() > 1e-6 {
        x = 0.5 * (x + a / x);
    }
    x
}

#[kernel]
fn polynomial<F: Real>(x: F, coefficients: [f64; 3]) -> F {
    let mut y = F::lit(0.0);
    for c in coefficients {
        y = y * x + F::lit(c);
    }
    y
}

#[kernel(tile)]
fn layer<F: Real>(x: &Tile<F>, w: &Tile<F>, b: &Tile<F>) -> Tile<F> {
    (x.dot(w) + b).map(|y| y.tanh())
}

/// Number of calls per iteration: fewer operations than a stream needs to detect a loop.
const CALLS: usize = 25;

/// Number of calls of the kernel with a new number each time.
static CALLED: AtomicU32 = AtomicU32::new(0);

/// Records that many calls, or three methods each; the handles of all but the last are dropped.
#[inline(never)]
fn turn(x: &Tensor, [w, b]: [&Tensor; 2], what: &str) -> Tensor {
    let mut y = x.clone();
    for i in 0..CALLS {
        y = match what {
            "kernel" => step::on(&y),
            "numbers" => scaled::on(&y, 1.0 + i as f32 * 1e-4),
            "row" => normalized::on(&y),
            "places" => heat::over(Shape::new(&[4, 4])).on(&y, 0.1),
            "traced" => heat::over(Shape::new(&[4, 4])).on(&y, 0.1 + 1e-9 * CALLED.fetch_add(1, Relaxed) as f64),
            "loop" => root::on(&y),
            "plain" => polynomial::on(&y, [0.1, 0.5, 0.25]),
            "tile" => layer::on(&y, w, b),
            _ => (&y * 1.0001 + 0.0001).tanh(),
        };
    }
    y
}

/// Records the loss of a recurrent network: ten operations in each of 25 steps.
#[inline(never)]
fn forward(x: &Tensor, [w, b]: [&Tensor; 2]) -> Tensor {
    let mut h = x.clone();
    for i in 0..CALLS {
        let input = x.slice(i as isize % 4..i as isize % 4 + 1);
        let gate = (h.matmul(w) + b).sigmoid();
        h = (&h * &gate + (&input - &h).tanh() * (1.0 - &gate)) * 0.999;
    }
    h.square().sum(..)
}

/// Records the backward pass of [`forward`].
#[inline(never)]
fn backward(loss: &Tensor, w: &Tensor) -> Tensor {
    loss.backward()[w].clone()
}

/// Records forward and backward passes, and prints the minimum time of each operation.
fn gradients(turns: usize, x: &Tensor, [w, b]: [&Tensor; 2]) -> Result<(), thalweg::Error> {
    let (w, b) = (w.tracked(), b.tracked());
    let count = || thalweg::synchronize().map(|()| thalweg::counters().operations);
    let before = count()?;
    drop(forward(x, [&w, &b]).to_vec::<f32>()?);
    let ops = count()? - before;
    for _ in 0..3 {
        backward(&forward(x, [&w, &b]), &w).to_vec::<f32>()?;
    }
    let all = (count()? - before - ops) / 3;
    let mut least = [f64::INFINITY; 3];
    for _ in 0..turns {
        let begun = Instant::now();
        let loss = forward(x, [&w, &b]);
        let recorded = begun.elapsed().as_nanos() as f64;
        let gradient = backward(&loss, &w);
        let passed = begun.elapsed().as_nanos() as f64;
        gradient.to_vec::<f32>()?;
        drop(loss);
        let read = begun.elapsed().as_nanos() as f64;
        for (least, ns) in least.iter_mut().zip([recorded, passed - recorded, read - passed]) {
            *least = least.min(ns);
        }
    }
    let [forward, backward, read] = least;
    let (own, all) = (ops as f64, all as f64);
    println!(
        "gradients: {ops} operations forward, {:.1} ns each, {} backward, {:.1} ns each; cut and run {:.1} ns each",
        forward / own,
        all - own,
        backward / (all - own),
        read / all
    );
    Ok(())
}

fn main() -> Result<(), thalweg::Error> {
    let turns: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(200);
    let what = std::env::args().nth(2).unwrap_or_else(|| "methods".into());
    let x = Tensor::from_slice(&[0.25f32; 16], [4, 4]);
    let (w, b) = (&x * 0.5, Tensor::from_slice(&[0.1f32; 4], [4]));
    thalweg::synchronize()?;
    if what == "gradients" {
        return gradients(turns, &x, [&w, &b]);
    }
    let before = thalweg::counters().operations;
    let mut least = f64::INFINITY;
    for _ in 0..turns {
        let begun = Instant::now();
        let y = turn(&x, [&w, &b], &what);
        least = least.min(begun.elapsed().as_nanos() as f64);
        y.to_vec::<f32>()?;
    }
    let operations = thalweg::counters().operations - before;
    let each = operations as f64 / turns as f64;
    println!("{what}: {operations} operations, {:.1} ns each, {:.0} ns a call", least / each, least / CALLS as f64);
    Ok(())
}
