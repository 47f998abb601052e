//! Timing a call, and what one call does by the counters.

use crate::failure::Outcome;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use thalweg::{Counters, counters, set_reproducible, with_fusion, with_strict};

/// How operations run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They share kernels.
    Fused,
    /// The same, and equal runs give equal bits.
    Reproducible,
    /// The same, with the bits of unfused runs.
    Strict,
    /// Each is a kernel of its own.
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

    /// What makes a child process run in this mode.
    pub fn environment(self) -> Option<(&'static str, &'static str)> {
        match self {
            Mode::Fused => None,
            Mode::Reproducible => Some(("THALWEG_REPRODUCIBLE", "on")),
            Mode::Strict => Some(("THALWEG_STRICT", "on")),
            Mode::Unfused => Some(("THALWEG_FUSION", "off")),
        }
    }
}

/// How often something is timed.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Runs before the timed ones, the cold one included.
    pub warm_up: usize,
    /// At least so many,
    pub least: usize,
    /// at most so many,
    pub most: usize,
    /// and between these, until so much time has gone.
    pub time: Duration,
}

impl Runs {
    /// For a figure that counts: at least 20.
    pub const FIGURE: Runs = Runs { warm_up: 3, least: 20, most: 2000, time: Duration::from_millis(400) };
    /// For a look: a slow call gets five.
    pub const LOOK: Runs = Runs { warm_up: 2, least: 5, most: 200, time: Duration::from_millis(500) };
}

/// Times of a call, in milliseconds.
#[derive(Clone, Debug)]
pub struct Times {
    /// The first call.
    pub cold: f64,
    /// The timed calls, sorted.
    pub sorted: Vec<f64>,
}

impl Times {
    /// The median of the timed calls.
    pub fn median(&self) -> f64 {
        median(&self.sorted)
    }

    /// The shortest of the timed calls.
    pub fn min(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    /// From unsorted times.
    pub fn new(cold: f64, mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times { cold, sorted: times }
    }
}

/// The median of sorted numbers.
pub fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Milliseconds since then.
pub fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// Times `call`: warm-up, then the timed runs. What is searched for in the background after the warm-up is waited for, and
/// runs once before them: it takes a processor, and belongs to what comes once, as a compiler's work does elsewhere.
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

/// What the counters say of one call, and of the plans since the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Kernels launched.
    pub kernels: u64,
    /// Bytes read by kernels.
    pub bytes_read: u64,
    /// Bytes written by kernels.
    pub bytes_written: u64,
    /// Bytes allocated for results and intermediates.
    pub bytes_allocated: u64,
    /// Operations recorded.
    pub operations: u64,
    /// Plans made, over all calls.
    pub plans_made: u64,
    /// Segments whose plan was there, over all calls.
    pub plans_found: u64,
    /// Plans from the disk cache, over all calls.
    pub plans_loaded: u64,
}

impl Work {
    /// From the counters of one call and those of all of them.
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

/// What `f` returns, and what it counted.
pub fn counted<T>(f: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Counters)> {
    let before = counters();
    let out = f()?;
    Ok((out, counters() - before))
}
