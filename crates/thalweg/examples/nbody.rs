//! N-body simulation with all pairs and leapfrog steps, which conserves energy. One kernel per step computes all forces
//! without writing a distance to memory.
//!
//!     cargo run --release -p thalweg --example nbody

use std::time::Instant;
use thalweg::prelude::*;

/// Softening length, which limits forces between close bodies.
const SOFT: f64 = 0.05;

/// The acceleration of each body by all others.
fn pull(x: &Tensor, m: &Tensor) -> Tensor {
    let apart = x.unsqueeze(0) - x.unsqueeze(1);
    let near = apart.square().sum_keepdim(2) + SOFT * SOFT;
    (apart * (m.unsqueeze(0).unsqueeze(2) / (near.sqrt() * near))).sum(1)
}

fn energy(x: &Tensor, v: &Tensor, m: &Tensor) -> Result<f64, Error> {
    let apart = (x.unsqueeze(0) - x.unsqueeze(1)).square().sum(2) + SOFT * SOFT;
    let pairs = m.outer(m) / apart.sqrt();
    let own = m.square().sum(..) / SOFT;
    let bound = (pairs.sum(..) - own) * 0.5;
    ((v.square().sum(1) * m).sum(..) * 0.5 - bound).item_f64()
}

fn main() -> Result<(), Error> {
    thalweg::manual_seed(2);
    let (n, dt) = (1000, 0.005);
    let m = Tensor::full_with(n, 1.0 / n as f64, DType::F64);
    let mut x = Tensor::randn_with((n, 3), DType::F64);
    let mut v = Tensor::randn_with((n, 3), DType::F64) * 0.3;
    let mut a = pull(&x, &m);
    let first = energy(&x, &v, &m)?;
    println!("{:>6} {:>12} {:>14} {:>10}", "time", "energy", "off by", "spread");
    let begin = Instant::now();
    for step in 0..=200 {
        if step % 50 == 0 {
            let e = energy(&x, &v, &m)?;
            let spread = x.norm(1).median(..).item_f64()?;
            println!("{:>6.2} {e:>12.6} {:>14.2e} {spread:>10.4}", step as f64 * dt, (e - first) / first);
        }
        v += &a * (dt / 2.0);
        x += &v * dt;
        a = pull(&x, &m);
        v += &a * (dt / 2.0);
    }
    thalweg::synchronize()?;
    let pairs = 201.0 * (n * n) as f64;
    println!("{:.1} ns a pair", begin.elapsed().as_secs_f64() * 1e9 / pairs);
    Ok(())
}
