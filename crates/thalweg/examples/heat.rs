//! Heat in a plate with a hot upper edge and cold other edges, until it hardly changes; printed as characters. Each
//! step is one kernel that writes the inner points.
//!
//!     cargo run --release -p thalweg --example heat
#![allow(clippy::reversed_empty_ranges, reason = "-1 counts from the end: clippy does not know")]

use thalweg::prelude::*;

fn main() -> Result<(), Error> {
    let n = 96;
    let mut u = Tensor::zeros((n, n));
    u.set((0, ..), 1);
    let mut steps = 0;
    loop {
        let before = u.clone();
        for _ in 0..500 {
            let here = u.slice((1..-1, 1..-1));
            let near = u.slice((2.., 1..-1)) + u.slice((..-2, 1..-1)) + u.slice((1..-1, 2..)) + u.slice((1..-1, ..-2));
            u.set((1..-1, 1..-1), &here + (near - &here * 4.0) * 0.24);
        }
        steps += 500;
        if (&u - before).abs().amax(..).item_f64()? < 1e-4 {
            break;
        }
    }
    // By symmetry the middle of a square plate has a quarter of the heat.
    let middle = u.slice((n / 2 - 1..n / 2 + 1, n / 2 - 1..n / 2 + 1)).mean(..).item_f64()?;
    println!("after {steps} steps; in the middle {middle:.4}");
    let shades: Vec<char> = " .:-=+*#%@".chars().collect();
    let coarse = u.reshape((n / 4, 4, n / 2, 2)).mean((1, 3));
    for row in &coarse {
        let line: String =
            row.to_vec::<f32>()?.iter().map(|v| shades[((v * 10.0) as usize).min(shades.len() - 1)]).collect();
        println!("{line}");
    }
    Ok(())
}
