//! `thalweg regret`: what the cost model did not foresee. Each workload runs as a program would, fifty calls or more;
//! then its plan is timed beside those that a program can have without a search, and its kernels beside their
//! predictions.

use crate::failure::{Outcome, failure};
use crate::measure::{NO_TRIALS, median};
use crate::workloads::{self, Size, Workload};
use clap::Args;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thalweg::{Effort, Explanation, explain_steady, set_measuring, set_search_effort};

/// Number of calls before anything is timed (`CALLS`), and the minimum time that they take (`RUN`): the budget of plans
/// that compete is a share of it.
const CALLS: usize = 50;
const RUN: Duration = Duration::from_millis(1000);
/// Minimum and maximum number of timed calls of each plan (`ROUNDS`), and the time after which the minimum is enough
/// (`TIME`).
const ROUNDS: (usize, usize) = (7, 101);
const TIME: Duration = Duration::from_millis(1500);
/// Maximum ratio of the plan's time to that of a plan without a search.
const BAR: f64 = 1.05;

/// Arguments of `thalweg regret`.
#[derive(Args, Debug)]
pub struct Regret {
    /// The workload; without one, all of them
    workload: Option<String>,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Print one JSON object per workload
    #[arg(long)]
    json: bool,
}

/// Plans of a workload that are timed, in this order.
const PLANS: [&str; 3] = ["planned", "unfused", "unsearched"];

/// Median microseconds of a call by each of [`PLANS`], and the explanation of the first.
struct Row {
    name: String,
    us: [f64; 3],
    explanation: Explanation,
}

impl Row {
    /// Ratio of the plan's time to the fastest of the others.
    fn ratio(&self) -> f64 {
        self.us[0] / self.us[1].min(self.us[2])
    }
}

impl Regret {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let names: Vec<String> = match &self.workload {
            Some(name) => vec![name.clone()],
            None => workloads::ALL.iter().map(|e| e.name.to_string()).collect(),
        };
        if !self.json {
            crate::out!(
                "{:<22} {:>10} {:>10} {:>10} {:>6}  µs a call",
                "workload",
                PLANS[0],
                PLANS[1],
                PLANS[2],
                "ratio"
            );
        }
        let mut rows = vec![];
        for name in names {
            let row = measure(&name, self.size)?;
            if self.json {
                print_json(&row);
            } else {
                print(&row);
            }
            rows.push(row);
        }
        if !self.json && rows.len() > 1 {
            let slower = rows.iter().filter(|r| r.ratio() > BAR).count();
            let off: usize = rows.iter().map(|r| r.explanation.mispredicted().len()).sum();
            crate::out!(
                "{} workloads: {slower} slower than {BAR} of a plan without a search; {off} kernels",
                rows.len()
            );
            crate::out!("mispredicted by more than 1.5");
        }
        Ok(())
    }
}

/// Times a workload's plan beside others, and its kernels.
fn measure(name: &str, size: Size) -> Outcome<Row> {
    let workload = workloads::prepare(name, size)?;
    let (begin, mut calls) = (Instant::now(), 0);
    while calls < CALLS || begin.elapsed() < RUN {
        workload.run()?;
        calls += 1;
    }
    let share = set_measuring(Some(NO_TRIALS));
    let us = std::thread::scope(|scope| -> Outcome<[f64; 3]> {
        // A thread that has met none of the workload's code, so that the plan is that of its own effort.
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel::<Outcome<f64>>();
        scope.spawn(move || {
            set_search_effort(Effort::None);
            set_measuring(None);
            let workload = workloads::prepare(name, size);
            while asked.recv().is_ok() {
                let us = workload.as_ref().map_err(|e| failure(e.to_string())).and_then(timed);
                if answer.send(us).is_err() {
                    return;
                }
            }
        });
        let mut times = [const { vec![] }; 3];
        let begin = Instant::now();
        for round in 0..=ROUNDS.1 {
            if round > ROUNDS.0 && begin.elapsed() > TIME {
                break;
            }
            let planned = timed(&workload)?;
            let unfused = thalweg::with_fusion(false, || timed(&workload))?;
            ask.send(()).and(Ok(())).map_err(|e| failure(e.to_string()))?;
            let unsearched = answered.recv().map_err(|e| failure(e.to_string()))??;
            // The first round plans, compiles and brings memory back into the caches.
            if round > 0 {
                times.iter_mut().zip([planned, unfused, unsearched]).for_each(|(all, us)| all.push(us));
            }
        }
        Ok(times.map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            median(&times)
        }))
    });
    set_measuring(share);
    let (outcome, explanation) = explain_steady(|| workload.run());
    outcome?;
    Ok(Row { name: name.to_string(), us: us?, explanation })
}

/// Runs a workload once; returns the microseconds.
fn timed(workload: &Workload) -> Outcome<f64> {
    let begin = Instant::now();
    workload.run()?;
    Ok(begin.elapsed().as_secs_f64() * 1e6)
}

fn print(row: &Row) {
    let [planned, unfused, unsearched] = row.us;
    let mark = if row.ratio() > BAR { "  slower" } else { "" };
    let name: String = row.name.chars().take(22).collect();
    crate::out!("{name:<22} {planned:>10.1} {unfused:>10.1} {unsearched:>10.1} {:>6.2}{mark}", row.ratio());
    let micros = |ns: u64| ns as f64 / 1e3;
    for (s, k) in row.explanation.mispredicted() {
        let kernel = &row.explanation.segments[s].kernels[k];
        let predicted = micros(kernel.predicted_ns * kernel.launches as u64);
        let (measured, kind) = (micros(kernel.measured_ns), kernel.kind);
        let learned =
            if kernel.correction > 1.0 { format!(", corrected by {:.1}", kernel.correction) } else { String::new() };
        crate::out!("  {kind} over {}: {measured:.1} µs, {predicted:.1} predicted{learned}", kernel.domain);
        crate::out!("    {}", kernel.class);
        // Why the plan has this kernel: the values that it passes on or gets are in memory for a reason.
        let edges = row.explanation.segments[s].edges.iter().filter(|e| e.to == k || e.from == k);
        for edge in edges.take(2) {
            crate::out!("    kernel {} to {}: {}", edge.from, edge.to, edge.reason);
        }
    }
}

fn print_json(row: &Row) {
    let kernels = row.explanation.segments.iter().flat_map(|s| &s.kernels).filter(|k| k.launches > 0);
    let kernels: Vec<serde_json::Value> = kernels
        .map(|k| {
            serde_json::json!({
                "kind": k.kind, "domain": k.domain, "class": k.class, "correction": k.correction,
                "predicted_ns": k.predicted_ns * k.launches as u64, "measured_ns": k.measured_ns,
            })
        })
        .collect();
    let us: serde_json::Map<String, serde_json::Value> =
        PLANS.iter().zip(row.us).map(|(name, us)| (name.to_string(), us.into())).collect();
    crate::out!("{}", serde_json::json!({ "workload": row.name, "us": us, "kernels": kernels }));
}
