//! The `thalweg` program: the demo, figures of the workloads, explanations, and a look at the machine.

mod autotune;
mod bandwidth;
mod bench;
mod cache;
mod costs;
mod demo;
mod doctor;
mod explain;
mod failure;
mod first_sight;
#[cfg(feature = "cuda")]
mod gpus;
mod math;
mod measure;
mod numerics;
mod predict;
mod processes;
mod record;
mod report;
mod workloads;

use clap::{Parser, Subcommand};
use failure::Outcome;
use std::process::ExitCode;
use thalweg::environment;

/// Eager tensor code that runs as if an expert had written one kernel for each stretch of it.
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
    /// Time reductions and norms out of cache, beside copying memory
    Bandwidth(bandwidth::BandwidthCommand),
    /// Show which operations of a workload share a kernel, and why the rest do not
    #[command(after_help = after_help())]
    Explain(explain::Explain),
    /// Write a trace of a workload for chrome://tracing or ui.perfetto.dev
    #[command(after_help = after_help())]
    Trace(explain::Trace),
    /// Compare what the planner takes kernels to take with what they take
    Predict(predict::Predict),
    /// Show the devices, their instruction sets and memory, and the environment
    Doctor(doctor::Doctor),
    /// Show, clear, export or import what is kept on disk for later processes
    Cache(cache::CacheCommand),
    /// Let plans compete on this machine, and compare with what the model chose
    Autotune(autotune::AutotuneCommand),
    /// Measure how far the vector functions are from the exact values
    Math(math::Math),
    /// Measure how far sums, statistics and softmax are from the exact values
    Numerics(numerics::Numerics),
    /// Measure what standard input asks for (for bench/run)
    #[command(hide = true)]
    Worker,
    /// Write a workload's inputs and results as .npy files (for peers to compare)
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
    let first =
        list(&format!("Group {}:", first_sight::GROUP), &mut first_sight::ALL.iter().map(|f| (f.name, f.about)));
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
    // The doctor shows what is wrong with the environment; nothing else goes on in a wrong one.
    if !matches!(command, Command::Doctor(_)) {
        environment::check()?;
        environment::unknown().iter().for_each(|unknown| eprintln!("warning: {unknown}"));
    }
    if let Command::Bench(bench::Bench { device: Some(device), .. }) = &command {
        choose(device)?;
    }
    // Tensors are made on the default device without further questions: that there is none is told here.
    if !matches!(command, Command::Doctor(_) | Command::Cache(_)) {
        thalweg::Device::try_default()?;
    }
    match command {
        Command::Demo(demo) => demo.run(),
        Command::Bench(bench) => bench.run(),
        Command::Bandwidth(bandwidth) => bandwidth.run(),
        Command::Explain(explain) => explain.run(),
        Command::Trace(trace) => trace.run(),
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

/// Makes that device the default one, here and in processes started from here.
fn choose(device: &str) -> Outcome {
    thalweg::Device::from_name(device)?;
    // SAFETY: only this thread has been started so far, and it reads no environment meanwhile.
    unsafe { std::env::set_var("THALWEG_DEVICE", device) };
    Ok(())
}
