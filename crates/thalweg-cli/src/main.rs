//! The `thalweg` program: demo, benchmarks, explanations, and diagnostics of the machine.

#[cfg(feature = "wgpu")]
mod adapters;
mod autotune;
mod bandwidth;
mod bench;
mod cache;
mod costs;
mod demo;
mod doctor;
mod explain;
mod failure;
#[cfg(feature = "cuda")]
mod gpus;
mod math;
mod measure;
mod new_code;
mod numerics;
mod predict;
mod processes;
mod record;
mod regret;
mod report;
mod workloads;

use clap::{Parser, Subcommand};
use failure::Outcome;
use std::process::ExitCode;
use thalweg::environment;

/// Eager tensor code that runs as if an expert had written one kernel for each segment of it.
#[derive(Parser, Debug)]
#[command(name = "thalweg", version, max_term_width = 80)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Three GELUs with and without fusion, on random numbers or on your array
    Demo(demo::Demo),
    /// Time a workload, or all of them
    #[command(after_help = after_help())]
    Bench(bench::Bench),
    /// Time reductions and norms out of cache, relative to a memory copy
    Bandwidth(bandwidth::BandwidthCommand),
    /// Show which operations of a workload share a kernel, and why the others do not
    #[command(after_help = after_help())]
    Explain(explain::Explain),
    /// Write a trace of a workload for chrome://tracing or ui.perfetto.dev
    #[command(after_help = after_help())]
    Trace(explain::Trace),
    /// Show where a plan or a kernel took longer than the cost model said
    #[command(after_help = after_help())]
    Regret(regret::Regret),
    /// Compare the planner's predicted kernel times with measured ones
    Predict(predict::Predict),
    /// Show devices, instruction sets, memory and environment
    Doctor(doctor::Doctor),
    /// Show, clear, export or import the disk cache
    Cache(cache::CacheCommand),
    /// Autotune on this machine, and compare with the cost model's plans
    Autotune(autotune::AutotuneCommand),
    /// Measure the error of the vector functions
    Math(math::Math),
    /// Measure the error of sums, statistics, softmax and scans
    Numerics(numerics::Numerics),
    /// Measure the workloads requested on standard input (for bench/run)
    #[command(hide = true)]
    Worker,
    /// Write a workload's inputs and results as .npy files (to compare libraries)
    #[command(hide = true)]
    Results(bench::Results),
}

fn after_help() -> String {
    let named = |entries: &'static [workloads::Entry]| entries.iter().map(|e| (e.name, e.about));
    let list = |head: &str, rows: &mut dyn Iterator<Item = (&str, &str)>| {
        rows.fold(head.to_string(), |text, (name, about)| format!("{text}\n  {name:<21} {about}"))
    };
    let all = list("Workloads:", &mut named(workloads::ALL).chain(workloads::OTHERS.iter().copied()));
    let groups = workloads::GROUPS
        .iter()
        .fold(all, |text, (group, entries)| text + "\n\n" + &list(&format!("Group {group}:"), &mut named(entries)));
    let first = list(&format!("Group {}:", new_code::GROUP), &mut new_code::ALL.iter().map(|f| (f.name, f.about)));
    groups + "\n\n" + &first
}

fn main() -> ExitCode {
    let outcome = processes::child().unwrap_or_else(|| run(Program::parse().command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(why.code())
        }
    }
}

fn run(command: Command) -> Outcome {
    // `doctor` reports errors of the environment; other commands refuse to run.
    if !matches!(command, Command::Doctor(_)) {
        environment::check()?;
        environment::unknown().iter().for_each(|unknown| eprintln!("warning: {unknown}"));
        environment::outdated().iter().for_each(|outdated| eprintln!("warning: {outdated}"));
    }
    if let Command::Bench(bench::Bench { device: Some(device), .. }) = &command {
        choose(device)?;
    }
    // Creating tensors assumes a default device, so that a missing one is reported here.
    if !matches!(command, Command::Doctor(_) | Command::Cache(_)) {
        thalweg::Device::try_default()?;
    }
    match command {
        Command::Demo(demo) => demo.run(),
        Command::Bench(bench) => bench.run(),
        Command::Bandwidth(bandwidth) => bandwidth.run(),
        Command::Explain(explain) => explain.run(),
        Command::Trace(trace) => trace.run(),
        Command::Regret(r) => r.run(),
        Command::Predict(predict) => predict.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Cache(cache) => cache.run(),
        Command::Autotune(autotune) => autotune.run(),
        Command::Math(math) => math.run(),
        Command::Numerics(numerics) => numerics.run(),
        Command::Worker => bench::worker(),
        Command::Results(results) => results.run(),
    }
}

/// Makes a device the default one, here and in child processes.
fn choose(device: &str) -> Outcome {
    thalweg::Device::from_name(device)?;
    // SAFETY: this is the only thread so far, and it does not read the environment meanwhile.
    unsafe { std::env::set_var("THALWEG_DEVICE", device) };
    Ok(())
}
