//! Burn on Thalweg's workloads, with the protocol of `bench/peers.py`: fusion and autotune on, data on the device, one JSON
//! object a line.
//!
//!     burn-peer --device cpu WORKLOAD… [--size large]      times of these workloads, or of `all`
//!     burn-peer --device flex --worker                     answers one JSON request a line of standard input
//!     burn-peer --device cpu --check DIR WORKLOAD…         compares results with what `thalweg results` wrote to DIR
//!
//!     burn-peer --devices                                  the devices of this build
//!
//! Devices: `cpu` (cubecl's CPU runtime, which fuses) and `flex` (which does not) in the one workspace, `cuda` in the other.

mod check;
mod workloads;

use burn_tensor::{Device, Distribution, Tensor};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use workloads::{Output, Workload, gelu_custom};

type Outcome<T> = Result<T, String>;

/// What was measured of a workload.
#[derive(Serialize)]
struct Figure {
    workload: String,
    peer: &'static str,
    device: String,
    median_ms: f64,
    min_ms: f64,
    cold_ms: f64,
    runs: usize,
}

/// What a driver asks.
#[derive(Deserialize)]
struct Request {
    workload: String,
    #[serde(default)]
    large: bool,
    /// The least number of timed runs.
    #[serde(default)]
    runs: usize,
    /// Milliseconds after which these are enough.
    #[serde(default)]
    ms: f64,
    /// Nothing is timed: results are compared with those that Thalweg wrote to this folder.
    check: Option<String>,
    /// Calls in the queue before anybody waits.
    #[serde(default)]
    calls_in_flight: usize,
}

/// The devices of this build.
const DEVICES: &[&str] = &[
    #[cfg(feature = "cpu")]
    "cpu",
    #[cfg(feature = "flex")]
    "flex",
    #[cfg(feature = "cuda")]
    "cuda",
];

fn device_called(name: &str) -> Outcome<Device> {
    match name {
        #[cfg(feature = "cpu")]
        "cpu" => Ok(Device::cpu()),
        #[cfg(feature = "flex")]
        "flex" => Ok(Device::flex()),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Device::cuda(0usize)),
        _ => Err(format!("this build has no device called {name:?}")),
    }
}

fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// Measures workloads; keeps the last one with its inputs and its first time.
struct Measured {
    name: String,
    device: Device,
    kept: Option<(String, bool, Workload, f64)>,
}

impl Measured {
    fn wait(&self) -> Outcome<()> {
        self.device.sync().map_err(|why| format!("{why:?}"))
    }

    /// Milliseconds a call, of so many that are started before anybody waits.
    fn once(&self, workload: &Workload, calls: usize) -> Outcome<f64> {
        let begin = Instant::now();
        for call in 0..calls {
            let out = workload.record();
            if workload.read {
                out.into_iter().try_for_each(|o| o.values().map(drop))?;
            } else if call + 1 == calls {
                self.wait()?;
            } else {
                // A result that is dropped before it has been started may never be computed.
                self.device.flush().map_err(|why| format!("{why:?}"))?;
            }
        }
        Ok(ms_since(begin) / calls as f64)
    }

    fn measure(&mut self, ask: &Request) -> Outcome<Figure> {
        match ask.workload.as_str() {
            "cold_start" => return self.children(ask, "--first", 3),
            "dyn_shapes" => return self.children(ask, if ask.large { "--shapes-large" } else { "--shapes" }, 1),
            _ => {}
        }
        if !self.kept.as_ref().is_some_and(|(name, large, ..)| *name == ask.workload && *large == ask.large) {
            // The old one's memory first.
            self.kept = None;
            let workload = Workload::new(&ask.workload, ask.large, &self.device, vec![])?;
            let cold = self.once(&workload, 1)?;
            self.kept = Some((ask.workload.clone(), ask.large, workload, cold));
        }
        let Some((_, _, workload, cold)) = &self.kept else { unreachable!("it was just put there") };
        let calls = if workload.read { 1 } else { ask.calls_in_flight.max(1) };
        for _ in 0..3 {
            self.once(workload, calls)?;
        }
        let (mut times, begin) = (vec![], Instant::now());
        while times.len() < ask.runs || ms_since(begin) < ask.ms {
            times.push(self.once(workload, calls)?);
        }
        Ok(self.figure(&ask.workload, *cold, times))
    }

    /// What a process of its own takes: the whole of it for `--first`, what it says for others.
    fn children(&self, ask: &Request, argument: &str, count: usize) -> Outcome<Figure> {
        let program = std::env::current_exe().map_err(|why| why.to_string())?;
        let mut times = vec![];
        for _ in 0..count {
            let begin = Instant::now();
            let mut command = Command::new(&program);
            command.args(["--device", &self.name, argument]).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(|why| why.to_string())?;
            let mut line = String::new();
            let out = child.stdout.take().ok_or("a child without a standard output")?;
            BufReader::new(out).read_line(&mut line).map_err(|why| why.to_string())?;
            let whole = ms_since(begin);
            child.wait().map_err(|why| why.to_string())?;
            let said: f64 = line.trim().parse().map_err(|_| format!("a child process said {line:?}"))?;
            times.push(if argument == "--first" { whole } else { said });
        }
        Ok(self.figure(&ask.workload, times[0], times))
    }

    fn figure(&self, name: &str, cold: f64, mut times: Vec<f64>) -> Figure {
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let median = if n % 2 == 1 { times[n / 2] } else { f64::midpoint(times[n / 2 - 1], times[n / 2]) };
        Figure {
            workload: name.to_string(),
            peer: "burn",
            device: self.name.clone(),
            median_ms: median,
            min_ms: times[0],
            cold_ms: cold,
            runs: n,
        }
    }

    fn answer(&mut self, ask: &Request) -> String {
        // A workload that Burn cannot run must not end the others.
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match &ask.check {
            Some(folder) => {
                let (name, allowed) = (&ask.workload, check::allowed(&ask.workload));
                let apart = check::difference(Path::new(folder), name, ask.large, &self.device)?;
                Ok(serde_json::json!({ "equal": apart <= allowed, "difference": apart, "allowed": allowed }))
            }
            None => self.measure(ask).map(|figure| serde_json::json!(figure)),
        }));
        let answer = answer.unwrap_or_else(|_| Err("Burn panicked".to_string()));
        answer.unwrap_or_else(|why| serde_json::json!({ "error": why })).to_string()
    }
}

/// The first gelu_custom on [32, 32], read.
fn first(device: &Device) -> Outcome<()> {
    let x = Tensor::<2>::random([32, 32], Distribution::Normal(0.0, 1.0), device);
    let values = Box::new(gelu_custom(x)).values()?;
    say(&values[0].to_string());
    Ok(())
}

/// Milliseconds of gelu_custom on 64 shapes, one call each, compiles included.
fn shapes(device: &Device, large: bool) -> Outcome<()> {
    let wait = || device.sync().map_err(|why| format!("{why:?}"));
    let rows = if large { 64 } else { 1 };
    let normal = Distribution::Normal(0.0, 1.0);
    let inputs: Vec<_> = (1..=64).map(|b| Tensor::<2>::random([b * rows, 2048], normal, device)).collect();
    wait()?;
    let begin = Instant::now();
    for x in inputs {
        let _y = gelu_custom(x);
        wait()?;
    }
    say(&ms_since(begin).to_string());
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("standard output takes a line");
}

fn run() -> Outcome<bool> {
    let (mut device, mut folder, mut names, mut large, mut mode) =
        ("cpu".to_string(), None, vec![], false, String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--devices" {
            say(&DEVICES.join(" "));
            return Ok(true);
        }
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--device" => device = value()?,
            "--size" => large = value()? == "large",
            "--check" => folder = Some(value()?),
            "--worker" | "--first" | "--shapes" | "--shapes-large" => mode = argument,
            "all" => names.extend(workloads::ALL.iter().map(|n| n.to_string())),
            _ => names.push(argument),
        }
    }
    let (name, device) = (device.clone(), device_called(&device)?);
    if let Some(folder) = folder {
        let mut well = true;
        for workload in names {
            let (found, bound) =
                (check::difference(Path::new(&folder), &workload, large, &device), check::allowed(&workload));
            let right = found.as_ref().is_ok_and(|apart| *apart <= bound);
            let said =
                found.map_or_else(|why| why, |apart| format!("{apart:.1e} of the largest value, allowed {bound:.0e}"));
            say(&format!("{workload:<17} {} {said}", if right { "equal:" } else { "DIFFERS:" }));
            well &= right;
        }
        return Ok(well);
    }
    match mode.as_str() {
        "--first" => return first(&device).map(|()| true),
        "--shapes" | "--shapes-large" => return shapes(&device, mode == "--shapes-large").map(|()| true),
        _ => {}
    }
    let mut measured = Measured { name, device, kept: None };
    if mode == "--worker" {
        for line in std::io::stdin().lock().lines() {
            let ask = serde_json::from_str(&line.map_err(|why| why.to_string())?).map_err(|why| why.to_string())?;
            say(&measured.answer(&ask));
        }
        return Ok(true);
    }
    for workload in names {
        let line = measured.answer(&Request { workload, large, runs: 20, ms: 400.0, calls_in_flight: 1, check: None });
        say(&line);
    }
    Ok(true)
}

fn main() -> ExitCode {
    // As on all sides: what an earlier process left on disk would hide what a first call takes.
    for name in ["CUBECL_AUTOTUNE_CACHE", "CUBECL_THROUGHPUT_CACHE"] {
        // SAFETY: no other thread has been started.
        unsafe { std::env::set_var(name, "0") };
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}
