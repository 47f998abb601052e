//! 70 programs that were written from the documentation alone, timed from their first call on.
//!
//! `unprepared [--device D] [--size small|large] [--only A,B] [--seconds S] [--results FOLDER] [--timeline] [--explain]` prints one line of JSON a
//! program: times of calls, and when it was planned.

mod data;
mod estimation;
mod grids;
mod learning;
mod models;
mod networks;
mod science;
mod simulation;

use data::{Call, Inputs, Results};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;
use thalweg::{DType, Device, counters, manual_seed};

/// Creates a program's inputs and returns its call.
type Make = Box<dyn Fn(&Inputs) -> Result<Call, thalweg::Error>>;

/// Measurements of a program.
#[derive(Serialize)]
struct Measured {
    program: String,
    first_ms: f64,
    /// Median of the last half of the calls, and the least of these.
    steady_ms: f64,
    best_ms: f64,
    calls: usize,
    /// Seconds from the first call until the last one in which a segment ran without a plan.
    planned_after_s: f64,
    /// Of the last call: kernels, and segments without a plan.
    kernels: u64,
    cold_starts: u64,
    sums: Vec<f64>,
}

struct Arguments {
    device: String,
    large: bool,
    only: Option<String>,
    seconds: f64,
    results: Option<PathBuf>,
    timeline: bool,
    explain: bool,
}

impl Arguments {
    fn read() -> Result<Arguments, Box<dyn Error>> {
        let mut own = Arguments {
            device: "cpu".into(),
            large: false,
            only: None,
            seconds: 4.0,
            results: None,
            timeline: false,
            explain: false,
        };
        let mut left = std::env::args().skip(1);
        while let Some(name) = left.next() {
            let mut value = || left.next().ok_or(format!("{name} takes a value"));
            match name.as_str() {
                "--device" => own.device = value()?,
                "--size" => own.large = value()? == "large",
                "--only" => own.only = Some(value()?),
                "--seconds" => own.seconds = value()?.parse()?,
                "--results" => own.results = Some(value()?.into()),
                "--timeline" => own.timeline = true,
                "--explain" => own.explain = true,
                _ => return Err(format!("no option is called {name}").into()),
            }
        }
        Ok(own)
    }
}

fn programs() -> Vec<(&'static str, Make)> {
    let by_size = simulation::PROGRAMS.iter().chain(science::PROGRAMS);
    let by_size = by_size.map(|&(name, make)| (name, Box::new(move |i: &Inputs| Ok(make(i.large))) as Make));
    let by_inputs = learning::PROGRAMS.iter().chain(networks::PROGRAMS);
    let by_inputs = by_inputs.chain(estimation::PROGRAMS).chain(grids::PROGRAMS).chain(models::PROGRAMS);
    let by_inputs = by_inputs.map(|&(name, make)| (name, Box::new(make) as Make));
    by_size.chain(by_inputs).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read()?;
    thalweg::set_default_device(Some(Device::from_name(&arguments.device)?));
    let is_wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| only.split(',').any(|o| o == name));
    for (name, make) in programs().into_iter().filter(|(name, _)| is_wanted(name)) {
        if arguments.explain {
            explain(name, &make, &arguments)?;
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| measure(name, &make, &arguments))) {
            Ok(Ok(measured)) => println!("{}", serde_json::to_string(&measured)?),
            Ok(Err(error)) => println!("{}", serde_json::json!({ "program": name, "error": error.to_string() })),
            // The hook has printed the message.
            Err(_) => println!("{}", serde_json::json!({ "program": name, "error": "panicked" })),
        }
    }
    Ok(())
}

/// Prints what a call takes once it is planned, and the kernels that take much longer than predicted; on `cuda:absent`
/// only what is predicted.
fn explain(name: &str, make: &Make, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut call = make(&Inputs { large: arguments.large })?;
    thalweg::synchronize()?;
    let begin = Instant::now();
    let absent = arguments.device.ends_with("absent");
    let run = || call().and_then(|results| thalweg::synchronize().map(|()| results)).map(drop);
    let (result, explanation) = if absent { thalweg::explain(run) } else { thalweg::explain_steady(run) };
    if !absent {
        result?;
    }
    let explained_s = begin.elapsed().as_secs_f64();
    let totals = explanation.totals();
    let mut kernels: Vec<_> = explanation.segments.iter().flat_map(|segment| &segment.kernels).collect();
    let predicted_us = kernels.iter().map(|k| k.predicted_ns * k.launches as u64).sum::<u64>() / 1000;
    let measured_us = kernels.iter().map(|k| k.measured_ns).sum::<u64>() / 1000;
    println!(
        "{name}: {} kernels, {predicted_us} us predicted, {measured_us} measured, {} KB read, {} written, after {explained_s:.1} s",
        totals.kernels,
        totals.bytes_read >> 10,
        totals.bytes_written >> 10,
    );
    let mut classes: BTreeMap<&str, (usize, u64, u64)> = BTreeMap::new();
    for kernel in &kernels {
        let (count, predicted, measured) = classes.entry(&kernel.class).or_default();
        *count += kernel.launches;
        *predicted += kernel.predicted_ns * kernel.launches as u64;
        *measured += kernel.measured_ns;
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.sort_by_key(|(_, (_, predicted, measured))| Reverse(*measured as i64 - *predicted as i64));
    for (class, (count, predicted, measured)) in classes.iter().take(8) {
        println!("  {count} of {class}: {} us predicted, {} measured", predicted / 1000, measured / 1000);
    }
    kernels.sort_by_key(|kernel| Reverse(kernel.regret_ns()));
    for kernel in kernels.iter().take(6) {
        println!(
            "  {} operations over {}, {}: {} ns predicted, {} measured",
            kernel.operations.len(),
            kernel.domain,
            kernel.class,
            kernel.predicted_ns,
            kernel.measured_ns,
        );
    }
    Ok(())
}

fn measure(name: &str, make: &Make, arguments: &Arguments) -> Result<Measured, Box<dyn Error>> {
    manual_seed(1);
    let mut call = make(&Inputs { large: arguments.large })?;
    thalweg::synchronize()?;
    let mut times: Vec<f64> = vec![];
    let (mut results, mut last) = (Results::new(), thalweg::Counters::default());
    let mut planned_after_s = 0.0;
    let begin = Instant::now();
    while times.len() < 6 || begin.elapsed().as_secs_f64() < arguments.seconds {
        drop(std::mem::take(&mut results));
        let before = counters();
        let start = Instant::now();
        results = call()?;
        thalweg::synchronize()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        let run = counters() - before;
        let at = begin.elapsed().as_secs_f64();
        if run.cold_starts > 0 {
            planned_after_s = at;
        }
        if arguments.timeline && (times.len() < 3 || run.kernels != last.kernels || run.plan_ns + run.compile_ns > 0) {
            eprintln!(
                "{name} call {} at {at:.1} s: {:.1} ms, {} plans in {} ms, {} programs in {} ms, {} kernels, {} cold",
                times.len(),
                times[times.len() - 1],
                run.plans_made,
                run.plan_ns / 1_000_000,
                run.programs_compiled,
                run.compile_ns / 1_000_000,
                run.kernels,
                run.cold_starts,
            );
        }
        last = run;
    }
    let mut later = times[times.len() / 2..].to_vec();
    later.sort_by(f64::total_cmp);
    Ok(Measured {
        program: name.into(),
        first_ms: times[0],
        steady_ms: later[later.len() / 2],
        best_ms: later[0],
        calls: times.len(),
        planned_after_s,
        kernels: last.kernels,
        cold_starts: last.cold_starts,
        sums: write(name, &results, arguments.results.as_deref())?,
    })
}

/// Writes results as `PROGRAM.RESULT.npy` of f64, and returns their sums.
fn write(name: &str, results: &Results, folder: Option<&Path>) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut sums = vec![];
    for (key, result) in results {
        let values = result.detach().cast(DType::F64);
        sums.push(values.sum(..).item::<f64>()?);
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
            values.write_npy(folder.join(format!("{name}.{key}.npy")))?;
        }
    }
    Ok(sums)
}
