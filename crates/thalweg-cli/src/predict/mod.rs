//! `thalweg predict`: predicted and measured times of kernels.
//!
//! Every workload and a number of random programs run in rounds of a few calls each, so that noise affects all of them;
//! the median time of each launch is reported. The first call of a round brings the program's memory back into the
//! caches and is not timed.

pub mod programs;

use crate::failure::Outcome;
use crate::measure::median;
use crate::report;
use crate::workloads::{self, Size};
use clap::Args;
use serde::Serialize;
use std::time::{Duration, Instant};
use thalweg::{CostFeatures, Device, KernelReport, MatmulPrecision, Tensor, explain, launch_times};

/// Number of rounds (`TURNS`), and time of a program in each round (`TURN`).
const TURNS: usize = 7;
const TURN: Duration = Duration::from_millis(6);
/// Minimum and maximum number of calls per round.
const CALLS: (usize, usize) = (2, 60);

/// Arguments of `thalweg predict`.
#[derive(Args, Debug)]
pub struct Predict {
    /// Random programs to measure besides the workloads
    #[arg(long, value_name = "N", default_value = "100")]
    random: usize,
    /// Seed of the random programs
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Measure the cost constants of this device first
    #[arg(long)]
    calibrate: bool,
    /// Predict with typical constants (or those expected of a GPU of this size) instead of measured ones
    #[arg(long, conflicts_with = "calibrate")]
    typical: bool,
    /// The device, if not the default one
    #[arg(long)]
    device: Option<String>,
    /// Sizes of the workloads
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Only these workloads, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Print one JSON object per kernel, with the features of its prediction
    #[arg(long)]
    json: bool,
}

/// Program that is measured, with its predictions and times.
struct Subject {
    name: String,
    call: Box<dyn Fn() -> Vec<Tensor>>,
    kernels: Vec<KernelReport>,
    /// Times of each launch, by kernel; empty if the launches differ from the explained ones.
    times: Vec<Vec<f64>>,
    precision: MatmulPrecision,
}

/// Predicted and measured time of one launch.
#[derive(Serialize)]
struct Launch<'a> {
    program: &'a str,
    kernel: usize,
    kind: &'a str,
    domain: &'a str,
    engine: &'a str,
    predicted_us: f64,
    measured_us: f64,
    least_us: f64,
    features: &'a CostFeatures,
}

/// GEMM precision of the workload with this name.
fn precision_of(name: &str) -> MatmulPrecision {
    if name.ends_with("_tf32") { MatmulPrecision::High } else { MatmulPrecision::Highest }
}

impl Subject {
    fn new(name: String, call: Box<dyn Fn() -> Vec<Tensor>>) -> Outcome<Subject> {
        let (outcome, explanation) = explain(|| {
            let out = call();
            thalweg::synchronize().map(|()| out)
        });
        outcome?;
        let kernels = explanation.segments.into_iter().flat_map(|s| s.kernels);
        let kernels: Vec<KernelReport> = kernels.filter(|k| !k.engine.is_empty()).collect();
        let times = vec![vec![]; kernels.len()];
        let precision = precision_of(&name);
        Ok(Subject { name, call, kernels, times, precision })
    }

    fn turn(&mut self) -> Outcome {
        // Preparing another workload has changed the precision.
        thalweg::set_matmul_precision(self.precision);
        let begin = Instant::now();
        for n in 0..CALLS.1 {
            if n > CALLS.0 && begin.elapsed() > TURN {
                break;
            }
            let (outcome, times) = launch_times(|| {
                let _out = (self.call)();
                thalweg::synchronize()
            });
            outcome?;
            if n > 0 && times.len() == self.times.len() {
                self.times.iter_mut().zip(times).for_each(|(all, ns)| all.push(ns as f64 / 1e3));
            }
        }
        Ok(())
    }

    fn launches(&self) -> impl Iterator<Item = Launch<'_>> {
        let measured = self.kernels.iter().zip(&self.times).enumerate().filter(|(_, (_, times))| !times.is_empty());
        measured.map(|(kernel, (k, times))| {
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            Launch {
                program: &self.name,
                kernel,
                kind: k.kind,
                domain: &k.domain,
                engine: &k.engine,
                predicted_us: k.predicted_ns as f64 / 1e3,
                measured_us: median(&sorted),
                least_us: sorted.first().copied().unwrap_or(f64::NAN),
                features: &k.features,
            }
        })
    }

    /// Predicted and measured time of all launches together.
    fn sums(&self) -> (f64, f64) {
        self.launches().fold((0.0, 0.0), |s, l| (s.0 + l.predicted_us, s.1 + l.measured_us))
    }
}

impl Predict {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let device = match &self.device {
            Some(name) => Device::from_name(name)?,
            None => Device::try_default()?,
        };
        let before = thalweg::set_default_device(Some(device));
        let done = self.on(device);
        thalweg::set_default_device(before);
        done
    }

    fn on(self, device: Device) -> Outcome {
        if self.calibrate {
            device.set_costs(device.calibrate()?);
        } else if self.typical {
            device.set_costs((*device.typical_costs()).clone());
        }
        // Run the predicted plans themselves, compiled and without competitors.
        thalweg::set_tiers(false);
        thalweg::set_measuring(None);
        let mut known = vec![];
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|o| o == name);
        for entry in workloads::ALL.iter().filter(|e| wanted(e.name)) {
            let workload = workloads::prepare(entry.name, self.size)?;
            known.push(Subject::new(entry.name.to_string(), Box::new(move || workload.record()))?);
        }
        let random = programs::random(self.random, self.seed)?.into_iter().map(|p| {
            let name = p.to_string();
            Subject::new(name, Box::new(move || p.call()))
        });
        let mut random = random.collect::<Outcome<Vec<Subject>>>()?;
        let bar = report::progress((TURNS * (known.len() + random.len())) as u64);
        for _ in 0..TURNS {
            for subject in known.iter_mut().chain(&mut random) {
                subject.turn()?;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        if self.json {
            for launch in known.iter().chain(&random).flat_map(Subject::launches) {
                crate::out!("{}", serde_json::to_string(&launch)?);
            }
            return Ok(());
        }
        print(&known, &random);
        Ok(())
    }
}

fn print(known: &[Subject], random: &[Subject]) {
    crate::out!("{:<16} {:<31} {:>9} {:>9}  off", "workload", "kernel", "predicted", "measured");
    for l in known.iter().flat_map(Subject::launches) {
        let kernel = format!("{} {} {}", l.kernel, l.kind, l.domain);
        row(&format!("{:<16} {kernel:<31}", l.program), l.predicted_us, l.measured_us);
    }
    crate::out!("\n{:<48} {:>9} {:>9}  off", "random program (µs)", "predicted", "measured");
    for subject in random {
        let (predicted, measured) = subject.sums();
        row(&format!("{:<48}", shortened(&subject.name, 48)), predicted, measured);
    }
    crate::out!("\n{:<24} {:>6} {:>17} {:>13} {:>14}", "", "", "rank correlation", "median error", "within 30 %");
    let kernels = |all: &[Subject]| -> Vec<(f64, f64)> {
        all.iter().flat_map(Subject::launches).map(|l| (l.predicted_us, l.measured_us)).collect()
    };
    summary("kernels of workloads", &kernels(known));
    let sums = |all: &[Subject]| -> Vec<(f64, f64)> { all.iter().map(Subject::sums).filter(|s| s.1 > 0.0).collect() };
    summary("workloads", &sums(known));
    summary("kernels of programs", &kernels(random));
    summary("random programs", &sums(random));
}

fn row(what: &str, predicted: f64, measured: f64) {
    let off = (predicted / measured - 1.0) * 100.0;
    crate::out!("{what} {predicted:>9.1} {measured:>9.1} {off:>+4.0}%");
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

fn summary(what: &str, pairs: &[(f64, f64)]) {
    let mut errors: Vec<f64> = pairs.iter().map(|(p, m)| (p / m - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let near = errors.iter().filter(|&&e| e <= 0.3).count();
    crate::out!(
        "{what:<24} {:>6} {:>17.3} {:>11.0} % {:>12.0} %",
        pairs.len(),
        rank_correlation(pairs),
        100.0 * median(&errors),
        100.0 * near as f64 / pairs.len().max(1) as f64
    );
}

/// Spearman rank correlation.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let (a, b) = (ranks(pairs.iter().map(|p| p.0)), ranks(pairs.iter().map(|p| p.1)));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - middle) * (y - middle)).sum::<f64>();
    sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt()
}

/// Rank of each value, from 0; equal values share the mean of their ranks.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let place = |v: &f64| {
        let below = values.iter().filter(|w| *w < v).count();
        let equal = values.iter().filter(|w| *w == v).count();
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    values.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_correlate() {
        assert_eq!(ranks([3.0, 1.0, 3.0, 7.0].into_iter()), [1.5, 0.0, 1.5, 3.0]);
        let pairs: Vec<(f64, f64)> = (0..10).map(|i| (i as f64, (i * i) as f64)).collect();
        assert!((rank_correlation(&pairs) - 1.0).abs() < 1e-12);
        let back: Vec<(f64, f64)> = pairs.iter().map(|p| (p.0, -p.1)).collect();
        assert!((rank_correlation(&back) + 1.0).abs() < 1e-12);
    }
}
