//! The workload `record`: what recording an operation costs, Tensor API included, where the stretch was seen before.
//!
//! Recording alone is timed: 300 operations of small_chain on a tensor of four elements, whose run comes after the
//! clock has stopped. Once with one plan in the store, and again with ten thousand, among them one learned last.

use crate::failure::Outcome;
use crate::measure::{Times, Work, counted, median, ms_since};
use crate::report;
use crate::workloads::chain;
use serde::Serialize;
use std::time::Instant;
use thalweg::Tensor;
use thalweg::plan_store;

/// Operations of one turn.
const OPERATIONS: f64 = 300.0;
/// Turns timed.
const TURNS: usize = 400;
/// Plans stored for the second figure.
const PLANS: usize = 10_000;

/// What recording costs.
#[derive(Serialize, Debug)]
pub struct Recording {
    /// Nanoseconds an operation, with one plan stored.
    record_ns: f64,
    /// The same with ten thousand plans.
    record_ns_10k: f64,
    /// The same with ten thousand plans, on the stretch that was learned last.
    record_ns_10k_last: f64,
    /// Plans stored then.
    plans_stored: usize,
}

impl Recording {
    /// For the table: what the columns have no room for.
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

/// Milliseconds of recording one turn; the run that follows is not timed.
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

/// A stretch like no other: six operations, its number in base six, after a first one that the chain does not begin
/// with.
fn stretch(number: usize, x: &Tensor) -> Tensor {
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

/// The chain with another beginning, so that it leaves the others' path at once.
fn late(x: &Tensor) -> Tensor {
    let mut y = x.neg();
    for _ in 0..99 {
        y = &y * 1.0001 + 0.0001;
        y = y.tanh();
    }
    y.neg().sqrt()
}

/// Measures all of it. The times are those of whole turns with one plan.
pub fn measure() -> Outcome<(Times, Work, Recording)> {
    // A stream of its own, with nothing known.
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
        stretch(number, &x).to_vec::<f32>()?;
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
