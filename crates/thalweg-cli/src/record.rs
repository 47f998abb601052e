//! The workload `record`: cost of recording an operation, Tensor API included, in a segment seen before.
//!
//! Only recording is timed: 300 operations of small_chain on a tensor of four elements, whose execution follows after
//! the clock has stopped. Measured with one plan in the store, and with ten thousand, including a segment learned last.

use crate::failure::Outcome;
use crate::measure::{Times, Work, counted, median, ms_since};
use crate::report;
use crate::workloads::chain;
use serde::Serialize;
use std::time::Instant;
use thalweg::Tensor;
use thalweg::plan_store;

/// Number of operations of one repetition.
const OPERATIONS: f64 = 300.0;
/// Number of timed repetitions.
const TURNS: usize = 400;
/// Number of plans stored for the second measurement.
const PLANS: usize = 10_000;

/// Measured cost of recording operations.
#[derive(Serialize, Debug)]
pub struct Recording {
    /// Nanoseconds per operation with one plan stored.
    record_ns: f64,
    /// Nanoseconds per operation with ten thousand plans stored.
    record_ns_10k: f64,
    /// Nanoseconds per operation with ten thousand plans, on the segment learned last.
    record_ns_10k_last: f64,
    /// Number of plans in the store at the second measurement.
    plans_stored: usize,
}

impl Recording {
    /// Additional lines of the table.
    pub fn lines(&self) -> String {
        format!(
            "\n  an operation: {:.1} ns with 1 plan stored; with {} plans {:.1} ns,\n  on the stretch learned last {:.1} ns",
            self.record_ns,
            report::grouped(self.plans_stored as u64),
            self.record_ns_10k,
            self.record_ns_10k_last
        )
    }
}

/// Measures the times of recording in milliseconds, sorted; the execution that follows is not timed.
fn turns(x: &Tensor, stretch: fn(&Tensor) -> Tensor) -> Outcome<Vec<f64>> {
    let mut times = Vec::with_capacity(TURNS);
    for turn in 0..TURNS + 20 {
        let begin = Instant::now();
        let y = stretch(x);
        let ms = ms_since(begin);
        y.to_vec::<f32>()?;
        if turn >= 20 {
            times.push(ms);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn ns(times: &[f64]) -> f64 {
    median(times) * 1e6 / OPERATIONS
}

/// A unique segment: six operations that encode `number` in base six, after a first one that differs from the chain's.
fn unique_segment(number: usize, x: &Tensor) -> Tensor {
    let mut digits = number;
    let mut y = x.abs();
    for _ in 0..6 {
        y = match digits % 6 {
            0 => y.tanh(),
            1 => &y + 0.5,
            2 => y.abs(),
            3 => -&y,
            4 => y.relu(),
            _ => &y * 1.5,
        };
        digits /= 6;
    }
    y
}

/// The chain with a different first operation, so that it leaves the others' path in the recognizer at once.
fn late(x: &Tensor) -> Tensor {
    let mut y = x.neg();
    for _ in 0..99 {
        y = &y * 1.0001 + 0.0001;
        y = y.tanh();
    }
    y.neg().sqrt()
}

/// Measures the cost of recording. The times are those of whole repetitions with one plan stored.
pub fn measure() -> Outcome<(Times, Work, Recording)> {
    // The measurement runs on a new thread, whose stream knows no plans.
    let thread = std::thread::spawn(measure_here);
    thread.join().unwrap_or_else(|_| Err(crate::failure::failure("the measuring thread panicked")))
}

fn measure_here() -> Outcome<(Times, Work, Recording)> {
    let x = Tensor::randn([4]);
    thalweg::synchronize()?;
    let begin = thalweg::counters();
    let cold = {
        let start = Instant::now();
        chain(&x).to_vec::<f32>()?;
        ms_since(start)
    };
    let one_plan = turns(&x, chain)?;
    let (_, one) = counted(|| Ok(chain(&x).to_vec::<f32>()?))?;
    let work = Work::new(one, thalweg::counters() - begin);
    let bar = report::progress(PLANS as u64);
    bar.set_message("plans stored");
    for number in 0..PLANS {
        unique_segment(number, &x).to_vec::<f32>()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let many = turns(&x, chain)?;
    let last = turns(&x, late)?;
    let recording = Recording {
        record_ns: ns(&one_plan),
        record_ns_10k: ns(&many),
        record_ns_10k_last: ns(&last),
        plans_stored: plan_store().plans,
    };
    Ok((Times::new(cold, one_plan), work, recording))
}
