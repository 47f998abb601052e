//! `thalweg autotune`: the gain of autotuning. Every workload and a number of random programs run until their plans
//! have competed; then runs of the plan that the cost model chose alternate with runs of the measured winner, and their
//! medians are compared.

use crate::failure::Outcome;
use crate::measure::{NO_TRIALS, median};
use crate::predict::programs;
use crate::report;
use crate::workloads::{self, Size};
use clap::Args;
use std::time::{Duration, Instant};
use thalweg::{Tensor, counters, explain, set_measuring};

/// Time limit in which the plans of one program compete.
const PATIENCE: Duration = Duration::from_secs(4);
/// Minimum and maximum number of timed pairs (`PAIRS`), and the time after which the minimum is enough (`TIME`).
const PAIRS: (usize, usize) = (25, 300);
const TIME: Duration = Duration::from_millis(1500);
/// Minimum ratio of times that counts as slower (`SLOWER`), and maximum ratio that counts as faster (`FASTER`).
const SLOWER: f64 = 1.03;
const FASTER: f64 = 0.95;

/// Arguments of `thalweg autotune`.
#[derive(Args, Debug)]
pub struct AutotuneCommand {
    /// Random programs besides the workloads
    #[arg(long, value_name = "N", default_value = "50")]
    random: usize,
    /// Seed of the random programs
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Sizes of the workloads
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Only programs whose name contains this text, with an explanation of each
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Measure the cost constants of this device first
    #[arg(long)]
    calibrate: bool,
}

/// Result of one program, a row of the table.
struct Row {
    name: String,
    /// Number of plans that competed; 0 if the program is too short for it.
    plans: usize,
    /// Median times of a call in microseconds, with the measured winner off and on.
    off: f64,
    on: f64,
}

impl AutotuneCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let device = thalweg::Device::try_default()?;
        if self.calibrate {
            device.set_costs(device.calibrate()?);
        }
        let random = programs::random(self.random, self.seed)?;
        let bar = report::progress((workloads::ALL.len() + random.len()) as u64);
        let mut rows = vec![];
        let wanted = |name: &str| self.only.as_ref().is_none_or(|o| name.contains(o.as_str()));
        for entry in workloads::ALL.iter().filter(|e| wanted(e.name)) {
            let workload = workloads::prepare(entry.name, self.size)?;
            rows.push(compete(entry.name.to_string(), &|| workload.record(), self.only.is_some())?);
            bar.inc(1);
        }
        for program in random.into_iter().filter(|p| wanted(&p.to_string())) {
            rows.push(compete(program.to_string(), &|| program.call(), self.only.is_some())?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        print(&rows);
        Ok(())
    }
}

/// Lets the plans of a program compete, then times it with and without the measured winner.
fn compete(name: String, call: &dyn Fn() -> Vec<Tensor>, tell: bool) -> Outcome<Row> {
    let run = || -> Outcome<f64> {
        let begin = Instant::now();
        let out = call();
        thalweg::synchronize()?;
        let us = begin.elapsed().as_secs_f64() * 1e6;
        drop(out);
        Ok(us)
    };
    let share = set_measuring(Some(0.3));
    let (begin, before) = (Instant::now(), counters());
    let segments = {
        run()?;
        (counters() - before).segments
    };
    while begin.elapsed() < PATIENCE && (counters() - before).autotuned < segments {
        run()?;
    }
    let (outcome, told) = explain(|| {
        let out = call();
        thalweg::synchronize().map(|()| out)
    });
    drop(outcome?);
    if tell {
        crate::out!("{told}");
    }
    let plans = told.segments.iter().map(|s| s.autotuning.len()).max().unwrap_or(0);
    let (mut off, mut on) = (vec![], vec![]);
    let begin = Instant::now();
    for n in 0..PAIRS.1 {
        if n >= PAIRS.0 && begin.elapsed() > TIME {
            break;
        }
        // Alternate, each first equally often.
        for measured in [n % 2 == 0, n % 2 == 1] {
            // `None` would disable the measured winner.
            set_measuring(measured.then_some(NO_TRIALS));
            let us = run()?;
            if measured { on.push(us) } else { off.push(us) }
        }
    }
    set_measuring(share);
    off.sort_by(f64::total_cmp);
    on.sort_by(f64::total_cmp);
    Ok(Row { name, plans, off: median(&off), on: median(&on) })
}

fn print(rows: &[Row]) {
    crate::out!("{:<40} {:>5} {:>10} {:>10} {:>6}", "program", "plans", "model µs", "measured", "ratio");
    for r in rows {
        let name: String = r.name.chars().take(40).collect();
        crate::out!("{name:<40} {:>5} {:>10.1} {:>10.1} {:>6.2}", r.plans, r.off, r.on, r.on / r.off);
    }
    let count = |f: &dyn Fn(f64) -> bool| rows.iter().filter(|r| f(r.on / r.off)).count();
    crate::out!(
        "{} programs, {} with plans to compete: {} faster by more than 5 %, {} slower by more than 3 %",
        rows.len(),
        rows.iter().filter(|r| r.plans > 0).count(),
        count(&|ratio| ratio < FASTER),
        count(&|ratio| ratio > SLOWER)
    );
}
