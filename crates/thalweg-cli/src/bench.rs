//! `thalweg bench`: times of the workloads, as a table or as JSON with one object per line.

use crate::failure::{During, Failure, Outcome};
use crate::measure::{Mode, Runs, Times, Work, counted, time};
use crate::report;
use crate::workloads::{self, Size, Workload};
use crate::{new_code, processes, record};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;
use thalweg::{Device, counters};

/// Arguments of `thalweg bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// A workload, `all`, or a group of workloads
    workload: String,
    /// The device, as in THALWEG_DEVICE
    #[arg(long)]
    pub device: Option<String>,
    /// Fusion and bitwise guarantees
    #[arg(long, value_enum, default_value = "fused")]
    mode: Mode,
    /// Alternate with the default mode for this many rounds and compare
    #[arg(long, value_name = "ROUNDS", default_value_t = 0)]
    against_default: usize,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Calls enqueued before each wait; reported times are per call
    #[arg(long, default_value_t = 1)]
    calls_in_flight: usize,
    /// Calls before the timed ones, the cold one included; use hundreds while plans still compete, as in the first
    /// second on a GPU
    #[arg(long, default_value_t = Runs::FIGURE.warm_up)]
    warm_up: usize,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Measurements of one workload, a line of the output.
#[derive(Serialize, Debug)]
pub struct Figure {
    workload: String,
    device: String,
    mode: Mode,
    median_ms: f64,
    min_ms: f64,
    cold_ms: f64,
    runs: usize,
    #[serde(flatten)]
    work: Work,
    #[serde(flatten)]
    record: Option<record::Recording>,
}

impl Figure {
    fn new(name: &str, mode: Mode, times: &Times, work: Work) -> Outcome<Figure> {
        Ok(Figure {
            workload: name.to_string(),
            device: Device::try_default()?.name().to_string(),
            mode,
            median_ms: times.median(),
            min_ms: times.min(),
            cold_ms: times.cold,
            runs: times.sorted.len(),
            work,
            record: None,
        })
    }
}

/// Measures a workload by name. `kept` caches the last workload with its inputs.
fn measure(
    name: &str,
    (size, mode, calls_in_flight): (Size, Mode, usize),
    runs: Runs,
    kept: &mut Option<(Size, Workload)>,
) -> Outcome<Figure> {
    match name {
        "cold_start" => {
            let (times, work) = processes::cold_start(runs.least, mode)?;
            return Figure::new(name, mode, &times, work);
        }
        "dyn_shapes" => {
            // After one call per shape a process is warm, so each run is a process of its own.
            let (times, work) = processes::dyn_shapes(runs.least, size, mode)?;
            return Figure::new(name, mode, &times, work);
        }
        "record" => {
            let (times, work, recording) = record::measure()?;
            return Ok(Figure { record: Some(recording), ..Figure::new(name, mode, &times, work)? });
        }
        _ => {}
    }
    if let Some(first) = new_code::ALL.iter().find(|w| w.name == name) {
        let (times, work) = mode.apply(|| new_code::measure(first, runs.least))?;
        return Figure::new(name, mode, &times, work);
    }
    if !kept.as_ref().is_some_and(|(s, w)| *s == size && w.name == name) {
        // Free the memory of the previous workload first.
        *kept = None;
        *kept = Some((size, workloads::prepare(name, size)?));
    }
    let Some((_, workload)) = kept else { unreachable!("it was just put there") };
    mode.apply(|| {
        let begin = counters();
        let calls_in_flight = if workload.reads() { 1 } else { calls_in_flight.max(1) };
        let mut times = time(runs, || workload.run_many(calls_in_flight))?;
        times.sorted.iter_mut().for_each(|t| *t /= calls_in_flight as f64);
        let ((), one) = counted(|| workload.run())?;
        let all = counters() - begin;
        workload.check()?;
        Figure::new(name, mode, &times, Work::new(one, all))
    })
}

impl Bench {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let names: Vec<&str> = if self.workload == "all" {
            workloads::ALL.iter().map(|e| e.name).chain(workloads::OTHERS.iter().map(|o| o.0)).collect()
        } else if new_code::is_group(&self.workload) {
            new_code::ALL.iter().map(|f| f.name).collect()
        } else if let Some((_, group)) = workloads::GROUPS.iter().find(|g| g.0 == self.workload) {
            group.iter().map(|e| e.name).collect()
        } else {
            vec![&self.workload]
        };
        let bar = report::progress(names.len() as u64);
        if self.against_default > 0 {
            crate::out!("{:<16} {:>11} {:>11} {:>6}", "workload", "default ms", "this ms", "ratio");
            for name in names {
                bar.set_message(name.to_string());
                let line = self.beside_default(name)?;
                bar.suspend(|| crate::out!("{line}"));
                bar.inc(1);
            }
            bar.finish_and_clear();
            return Ok(());
        }
        if !self.json {
            crate::out!("{}", heading());
        }
        for name in names {
            bar.set_message(name.to_string());
            let runs = Runs { warm_up: self.warm_up.max(1), ..Runs::FIGURE };
            let figure = measure(name, (self.size, self.mode, self.calls_in_flight), runs, &mut None)?;
            let line = if self.json { serde_json::to_string(&figure)? } else { row(&figure) };
            bar.suspend(|| crate::out!("{line}"));
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Alternates a workload between the default mode and the requested one; returns the medians of the rounds' medians
    /// and their ratio.
    fn beside_default(&self, name: &str) -> Outcome<String> {
        let mut times = [vec![], vec![]];
        let (mut kept, runs) = ([None, None], Runs { time: Duration::from_millis(200), ..Runs::FIGURE });
        for _ in 0..self.against_default {
            for (n, mode) in [Mode::Fused, self.mode].into_iter().enumerate() {
                let figure = measure(name, (self.size, mode, self.calls_in_flight), runs, &mut kept[n])?;
                times[n].push(figure.median_ms);
            }
        }
        times.iter_mut().for_each(|t| t.sort_by(f64::total_cmp));
        let [default, this] = times.map(|t| t[t.len() / 2]);
        let ms = |t| report::ms(t);
        Ok(format!("{name:<16} {:>11} {:>11} {:>6.2}", ms(default), ms(this), this / default))
    }
}

fn heading() -> String {
    format!(
        "{:<16} {:>9} {:>9} {:>9} {:>5} {:>7} {:>9} {:>9}",
        "workload", "median ms", "min ms", "cold ms", "runs", "kernels", "read", "written"
    )
}

fn row(f: &Figure) -> String {
    let mut out = format!(
        "{:<16} {:>9} {:>9} {:>9} {:>5} {:>7} {:>9} {:>9}",
        f.workload,
        report::ms(f.median_ms),
        report::ms(f.min_ms),
        report::ms(f.cold_ms),
        f.runs,
        f.work.kernels,
        report::size(f.work.bytes_read),
        report::size(f.work.bytes_written)
    );
    if let Some(recording) = &f.record {
        out.push_str(&recording.lines());
    }
    out
}

/// Arguments of `thalweg results`.
#[derive(Args, Debug)]
pub struct Results {
    /// Output folder
    folder: PathBuf,
    /// Workloads
    #[arg(required = true)]
    workloads: Vec<String>,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
}

impl Results {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        std::fs::create_dir_all(&self.folder).during(self.folder.display())?;
        self.workloads.iter().try_for_each(|name| workloads::prepare(name, self.size)?.write(&self.folder))
    }
}

/// Request of the benchmark driver to a worker process: one line of JSON.
#[derive(Deserialize)]
struct Request {
    workload: String,
    #[serde(default)]
    large: bool,
    #[serde(default)]
    unfused: bool,
    /// Minimum number of timed runs.
    runs: usize,
    /// Milliseconds after which the minimum is enough.
    ms: u64,
    /// Calls enqueued before each wait.
    #[serde(default = "one")]
    calls_in_flight: usize,
}

fn one() -> usize {
    1
}

#[derive(Serialize)]
struct Refusal {
    error: String,
}

/// `thalweg worker`: performs the measurement requested by each line of standard input, until its end. `bench/run`
/// keeps one worker for all its rounds.
pub fn worker() -> Outcome {
    let mut kept = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.during("standard input")?;
        let answer = answer(&line, &mut kept);
        let text = match answer {
            Ok(figure) => serde_json::to_string(&figure)?,
            Err(why) => serde_json::to_string(&Refusal { error: why.to_string() })?,
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).during("standard output")?;
    }
    Ok(())
}

fn answer(line: &str, kept: &mut Option<(Size, Workload)>) -> Result<Figure, Failure> {
    let ask: Request = serde_json::from_str(line)?;
    let size = if ask.large { Size::Large } else { Size::Small };
    let mode = if ask.unfused { Mode::Unfused } else { Mode::Fused };
    let runs = Runs { warm_up: 3, least: ask.runs, most: 100_000, time: Duration::from_millis(ask.ms) };
    measure(&ask.workload, (size, mode, ask.calls_in_flight), runs, kept)
}
