//! Records a stretch of 300 operations that was seen before, so many times, and waits for none of it but the last: what
//! `callgrind` counts of it, divided by the operations, is what recording one costs.
//!
//! ```sh
//! cargo build --release --example recording
//! export THALWEG_ISA=avx2 THALWEG_THREADS=1 THALWEG_CACHE=off
//! valgrind --tool=callgrind --toggle-collect='recording::turn' target/release/examples/recording 200
//! ```
//! With the word `kernel` behind the number the operations are three of a `#[kernel]` at a time.

use thalweg::{Tensor, kernel};

/// Three operations.
#[kernel]
fn step<F: thalweg::kernel::Real>(y: F) -> F {
    (y * 1.0001 + 0.0001).tanh()
}

/// 300 operations; the handles of all but the last are dropped on the way.
#[inline(never)]
fn turn(x: &Tensor, kernel: bool) -> Tensor {
    let mut y = x.clone();
    for _ in 0..100 {
        if kernel {
            y = step::on(&y);
            continue;
        }
        y = &y * 1.0001 + 0.0001;
        y = y.tanh();
    }
    y
}

fn main() -> Result<(), thalweg::Error> {
    let turns: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(200);
    let kernel = std::env::args().nth(2).is_some_and(|a| a == "kernel");
    let x = Tensor::new([0.1f32, 0.2, 0.3, 0.4]);
    for _ in 0..turns {
        let y = turn(&x, kernel);
        y.to_vec::<f32>()?;
    }
    println!("{} operations", turns * 300);
    Ok(())
}
