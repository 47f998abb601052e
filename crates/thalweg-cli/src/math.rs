//! `thalweg math`: errors of the vector functions.

use crate::failure::{Outcome, failure};
use clap::Args;

/// Arguments of `thalweg math`.
#[derive(Args, Debug)]
pub struct Math {
    /// Measure every N-th of the 2³² arguments (1: all, minutes per function)
    #[arg(long, value_name = "N", default_value = "1009", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

impl Math {
    /// Runs the command; fails if a function exceeds its bound.
    pub fn run(self) -> Outcome {
        crate::out!("Error in units of the last place of f32, over every {}th bit pattern\n", self.every);
        crate::out!("{:<10} {:>9} {:>16} {:>10} {:>7}", "function", "largest", "at", "mean", "bound");
        let mut out = Vec::new();
        for (a, bound) in thalweg::accuracy(self.every) {
            crate::out!("{:<10} {:>9.3} {:>16.6e} {:>10.4} {:>7.1}", a.op.name(), a.max_ulp, a.at, a.mean_ulp, bound);
            if a.max_ulp > bound {
                out.push(a.op.name());
            }
        }
        if out.is_empty() { Ok(()) } else { Err(failure(format!("out of bound: {}", out.join(", ")))) }
    }
}
