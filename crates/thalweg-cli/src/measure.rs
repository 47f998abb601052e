//! Timing of calls and their counters.

use crate::failure::Outcome;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use thalweg::{Counters, counters, set_reproducible, with_fusion, with_strict};

/// Execution mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Operations share kernels.
    Fused,
    /// Fused, and equal runs give equal bits.
    Reproducible,
    /// Fused, with the bits of unfused runs.
    Strict,
    /// Each operation is a kernel of its own.
    Unfused,
}

impl Mode {
    /// Calls `f` in this mode.
    pub fn apply<R>(self, f: impl FnOnce() -> R) -> R {
        let before = set_reproducible(self == Mode::Reproducible);
        let out = with_fusion(self != Mode::Unfused, || with_strict(self == Mode::Strict, f));
        set_reproducible(before);
        out
    }

    /// Environment variable that makes a child process run in this mode.
    pub fn environment(self) -> Option<(&'static str, &'static str)> {
        match self {
            Mode::Fused => None,
            Mode::Reproducible => Some(("THALWEG_REPRODUCIBLE", "on")),
            Mode::Strict => Some(("THALWEG_STRICT", "on")),
            Mode::Unfused => Some(("THALWEG_FUSION", "off")),
        }
    }
}

/// Numbers of runs that a measurement makes.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Number of untimed runs before the timed ones, including the cold one.
    pub warm_up: usize,
    /// Minimum number of timed runs.
    pub least: usize,
    /// Maximum number of timed runs.
    pub most: usize,
    /// Time of the timed runs after which the minimum number of them is enough.
    pub time: Duration,
}

impl Runs {
    /// Numbers of runs for reported times: at least 20 timed ones.
    pub const FIGURE: Runs = Runs { warm_up: 3, least: 20, most: 2000, time: Duration::from_millis(400) };
    /// Numbers of runs for a quick measurement: five timed ones of a slow call.
    pub const LOOK: Runs = Runs { warm_up: 2, least: 5, most: 200, time: Duration::from_millis(500) };
}

/// Times of a call in milliseconds.
#[derive(Clone, Debug)]
pub struct Times {
    /// Time of the first call.
    pub cold: f64,
    /// Times of the timed calls, sorted.
    pub sorted: Vec<f64>,
}

/// Fraction of the run time for measuring, so small that no plan is tried, while measured winners still run.
pub const NO_TRIALS: f64 = 1e-9;

impl Times {
    /// Median of the timed calls.
    pub fn median(&self) -> f64 {
        median(&self.sorted)
    }

    /// Minimum of the timed calls.
    pub fn min(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    /// Makes times from an unsorted list.
    pub fn new(cold: f64, mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times { cold, sorted: times }
    }
}

/// Median of a sorted list of numbers.
pub fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Milliseconds since `begin`.
pub fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// Times `call`: warm-up runs, then timed runs. Between them it waits for background searches and runs once more: a
/// search occupies a processor and is a one-time cost, like a compiler's work elsewhere.
pub fn time(runs: Runs, mut call: impl FnMut() -> Outcome) -> Outcome<Times> {
    let mut once = || -> Outcome<f64> {
        let begin = Instant::now();
        call()?;
        Ok(ms_since(begin))
    };
    let cold = once()?;
    for _ in 1..runs.warm_up {
        once()?;
    }
    thalweg::finish_searches();
    once()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < runs.least || (times.len() < runs.most && begin.elapsed() < runs.time) {
        times.push(once()?);
    }
    Ok(Times::new(cold, times))
}

/// Counters of one call, and of plans since the first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Number of kernels launched.
    pub kernels: u64,
    /// Number of bytes read by kernels.
    pub bytes_read: u64,
    /// Number of bytes written by kernels.
    pub bytes_written: u64,
    /// Number of bytes allocated for results and intermediates.
    pub bytes_allocated: u64,
    /// Number of operations recorded.
    pub operations: u64,
    /// Number of plans made, over all calls.
    pub plans_made: u64,
    /// Number of segments whose plan was found in the store, over all calls.
    pub plans_found: u64,
    /// Number of plans loaded from the disk cache, over all calls.
    pub plans_loaded: u64,
}

impl Work {
    /// Combines the counters of one call with those of all calls.
    pub fn new(one: Counters, all: Counters) -> Work {
        Work {
            kernels: one.kernels,
            bytes_read: one.bytes_read,
            bytes_written: one.bytes_written,
            bytes_allocated: one.bytes_allocated,
            operations: one.operations,
            plans_made: all.plans_made,
            plans_found: all.plans_found,
            plans_loaded: all.plans_loaded,
        }
    }
}

/// Calls `f`; returns its result and the counters of the call.
pub fn counted<T>(f: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Counters)> {
    let before = counters();
    let out = f()?;
    Ok((out, counters() - before))
}
