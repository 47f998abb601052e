//! `thalweg explain` and `thalweg trace`: fusion decisions and a timeline of a workload.

use crate::failure::{During, Outcome};
use crate::measure::ms_since;
use crate::workloads::{self, Size, Workload};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use thalweg::{Tensor, Tier, TierRun, explain, explain_steady, tier_runs, trace};

/// Arguments of `thalweg explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// The workload
    workload: String,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show which tier runs it from call to call
    #[arg(long, conflicts_with_all = ["html", "json"])]
    tiers: bool,
    /// Explain the first call, with the plan of the cost model and times that include compilation
    #[arg(long, conflicts_with = "tiers")]
    once: bool,
}

impl Explain {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let workload = prepare(&self.workload, self.size)?;
        if self.tiers {
            return tiers(&*workload);
        }
        let call = || {
            let out = workload();
            thalweg::synchronize().map(|()| out)
        };
        let (outcome, explanation) = if self.once { explain(call) } else { explain_steady(call) };
        if self.json {
            crate::out!("{}", explanation.json());
        }
        if let Some(path) = &self.html {
            std::fs::write(path, explanation.html(&self.workload)).during(path.display())?;
            eprintln!("{}", path.display());
        }
        if !self.json && self.html.is_none() {
            crate::out!("{}", explanation.to_string().trim_end());
        }
        outcome?;
        Ok(())
    }
}

/// Number of calls observed by `--tiers`.
const CALLS: usize = 200;
/// Number of the call after which background searches are waited for. Repeated segments are in search by then.
const WAITED: usize = 3;

/// Prints the tiers that run a workload: a line for the first call, and for each call that differs from the previous
/// one.
fn tiers(workload: &dyn Fn() -> Vec<Tensor>) -> Outcome {
    thalweg::set_tiers(true);
    crate::out!("{:<7} {:<34} {:>8} {:>8} {:>9}", "call", "tier", "segments", "kernels", "ms");
    let mut before: Option<Vec<TierRun>> = None;
    for call in 1..=CALLS {
        let begin = Instant::now();
        let (outcome, runs) = tier_runs(|| {
            let out = workload();
            thalweg::synchronize().map(|()| out)
        });
        let ms = ms_since(begin);
        outcome?;
        if before.as_ref() != Some(&runs) {
            let mut all: Vec<Tier> = runs.iter().map(|r| r.tier).collect();
            all.sort_by_key(|t| t.number());
            all.dedup();
            for (n, tier) in all.iter().enumerate() {
                let of_tier: Vec<&TierRun> = runs.iter().filter(|r| r.tier == *tier).collect();
                let kernels: usize = of_tier.iter().map(|r| r.kernels).sum();
                let (call, ms) = if n == 0 { (call.to_string(), format!("{ms:.3}")) } else { Default::default() };
                crate::out!("{call:<7} {tier:<34} {:>8} {kernels:>8} {ms:>9}", of_tier.len());
            }
        }
        before = Some(runs);
        if call == WAITED {
            thalweg::finish_searches();
        }
    }
    Ok(())
}

/// Arguments of `thalweg trace`.
#[derive(Args, Debug)]
pub struct Trace {
    /// The workload
    workload: String,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Where to write the trace, for chrome://tracing or ui.perfetto.dev
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Trace {
    /// Runs the command: the first call, with planning and compiling, and four more.
    pub fn run(self) -> Outcome {
        let workload = prepare(&self.workload, self.size)?;
        trace::start();
        let outcome = (0..5).try_for_each(|_| {
            let _out = workload();
            thalweg::synchronize()
        });
        let events = trace::finish();
        outcome?;
        std::fs::write(&self.output, events).during(self.output.display())?;
        eprintln!("{}", self.output.display());
        Ok(())
    }
}

/// Closure that records the workload; its inputs are already computed.
fn prepare(name: &str, size: Size) -> Outcome<Box<dyn Fn() -> Vec<Tensor>>> {
    if matches!(name, "cold_start" | "record" | "dyn_shapes" | "example") {
        let x = Tensor::randn([32, 32]);
        let y = Tensor::randn([32, 32]);
        let shapes = if name == "dyn_shapes" { workloads::dyn_shapes_inputs(size)? } else { vec![] };
        thalweg::synchronize()?;
        return Ok(match name {
            "record" => Box::new(move || vec![workloads::chain(&x)]),
            "example" => Box::new(move || vec![(&x + &y) * &x * &y]),
            "dyn_shapes" => Box::new(move || shapes[..2].iter().map(workloads::gelu_custom).collect()),
            _ => Box::new(move || vec![workloads::gelu_custom(&x)]),
        });
    }
    let workload: Workload = workloads::prepare(name, size)?;
    Ok(Box::new(move || workload.record()))
}
