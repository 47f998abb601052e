//! Checks decompositions on a GPU against the CPU (products of factors, values, errors), and times them in the GPU's
//! library and on the host.
//!
//! `cargo run --release -p thalweg --features linalg,cuda --example decompositions [cuda:0] [checks|times]`. The work
//! is done in child processes, and continues after one that crashes. It prints every failure, and exits with 1 if there
//! are any. It reports operations that ran on the host because cuSOLVER is missing.

mod held;

use held::Case;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thalweg::counters;
use thalweg::prelude::*;

/// Duration of the timings, in the library and on the host.
const TIMING_DURATION: Duration = Duration::from_secs(25);
/// Maximum time without output of a child process.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().cloned().unwrap_or_else(|| "cuda:0".into());
    match arguments.get(1).map(String::as_str) {
        Some("own-checks") => return checks(&name, arguments[2].parse().expect("a number")),
        Some("own-times") => return times(&name, arguments[2].parse().expect("a number")),
        _ => {}
    }
    println!("{name}: {}", Device::from_name(&name)?.describe());
    let only = arguments.get(1).map(String::as_str);
    let mut failed = 0;
    if only != Some("times") {
        failed += all_checks(&name);
    }
    // Timings of the emulated GPU are meaningless.
    if only != Some("checks") && name != "cuda:emulated" {
        all_times(&name);
    }
    println!("\n{failed} failures");
    std::process::exit(i32::from(failed > 0));
}

/// Runs a part of the program in child processes, restarting after each crash; passes every line to `said`. Returns the
/// reasons of the crashes.
fn in_processes(name: &str, what: &str, library: bool, said: &mut dyn FnMut(&str)) -> Vec<String> {
    let (mut from, mut ended) = (0, vec![]);
    loop {
        let own = std::env::current_exe().expect("it runs");
        let mut command = Command::new(own);
        command.args([name, what, &from.to_string()]).stdout(Stdio::piped());
        if !library {
            command.env("THALWEG_CUSOLVER", "off");
        }
        let mut child = command.spawn().expect("a process");
        let (to, lines) = mpsc::channel();
        let out = child.stdout.take().expect("it is piped");
        let reader = std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(to.send(line)));
        });
        let (mut begun, mut quiet) = (None, false);
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.strip_prefix("begin ").and_then(|l| l.split_once(' ')) {
                    Some((number, what)) => begun = Some((number.parse::<usize>().unwrap_or(0), what.to_string())),
                    None => said(&line),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    quiet = true;
                    let _ = child.kill();
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait().expect("it ends");
        let _ = reader.join();
        if status.success() {
            return ended;
        }
        let why = if quiet { "it did not end".to_string() } else { status.to_string() };
        match begun {
            Some((number, what)) if number >= from => {
                ended.push(format!("{what}: {why}"));
                from = number + 1;
            }
            _ => {
                ended.push(format!("{what} from {from} on did not begin: {why}"));
                return ended;
            }
        }
    }
}

/// Counter of started items, which reports each; items before `from` are skipped.
struct Begun {
    from: usize,
    next: Cell<usize>,
}

impl Begun {
    fn begin(&self, what: &str) -> bool {
        let number = self.next.replace(self.next.get() + 1);
        if number >= self.from {
            println!("begin {number} {what}");
            let _ = std::io::stdout().flush();
        }
        number >= self.from
    }
}

/// Exits the process if its device is lost: it is restarted.
fn end_if_lost(error: &str) {
    if error.contains("can compute nothing more") || error.contains("CUDA_LAUNCH_BLOCKING") {
        std::process::exit(3);
    }
}

fn all_checks(name: &str) -> usize {
    let (mut fine, mut failed) = (0, vec![]);
    let ended = in_processes(name, "own-checks", true, &mut |line| match line.split_once(' ') {
        Some(("fine", _)) => fine += 1,
        _ => {
            println!("{line}");
            failed.push(line.to_string());
        }
    });
    ended.iter().for_each(|why| println!("ENDED  {why}"));
    println!("{fine} operations are what they should be, {} are not", failed.len() + ended.len());
    failed.len() + ended.len()
}

fn checks(name: &str, from: usize) -> Result<(), Error> {
    let gpu = Device::from_name(name)?;
    let there = |x: &Tensor| x.to_device(gpu);
    let shapes: &[(&[usize], usize, usize)] = match name {
        "cuda:emulated" => &[(&[], 1, 1), (&[], 5, 5), (&[2, 3], 4, 4), (&[3], 6, 2), (&[], 2, 5)],
        _ => &[
            (&[], 1, 1),
            (&[], 2, 2),
            (&[], 33, 33),
            (&[], 300, 300),
            (&[], 257, 40),
            (&[], 40, 257),
            (&[], 1000, 3),
            (&[2, 3], 4, 4),
            (&[1000], 8, 8),
            (&[70], 32, 32),
            (&[5], 33, 33),
            (&[3], 100, 100),
            (&[40], 9, 5),
            (&[40], 5, 9),
            (&[4], 150, 90),
            (&[20], 256, 256),
        ],
    };
    let begun = Begun { from, next: Cell::new(0) };
    for dtype in [DType::F32, DType::F64] {
        for &(lead, m, n) in shapes {
            manual_seed(1);
            let case = Case { dtype, lead: lead.to_vec(), m, n };
            let of = format!("of {dtype}{lead:?} [{m}, {n}]");
            let calls = Cell::new(counters());
            let begin = |what: &str| begun.begin(&format!("{what} {of}"));
            // The counters are those of one operation.
            let check = |what: &str| {
                calls.set(counters());
                begin(what)
            };
            let tell = |what: &str, off: &Result<f64, Error>| {
                match off {
                    Ok(off) if *off <= 1.0 => println!("fine {what} {of}: {off:.2}"),
                    Ok(off) => println!("OFF  {what} {of}: {off:.1} times what is allowed"),
                    Err(error) => {
                        println!("ERROR  {what} {of}: {error}");
                        end_if_lost(&error.to_string());
                    }
                }
                let _ = std::io::stdout().flush();
            };
            case.all(&there, &check, &|what, off| {
                tell(what, off);
                let c = counters() - calls.get();
                if c.library_calls == 0 {
                    println!("HOST  {what} {of}: no call of the library");
                }
            });
        }
        let of = format!("errors of {dtype}");
        if begun.begin(&of) {
            for (what, got, want) in held::errors(&there, dtype) {
                if got == want {
                    println!("fine {what}: {got}");
                } else {
                    println!("OFF  {what}, {of}: {got:?}, and not {want:?}");
                    end_if_lost(&got);
                }
            }
        }
    }
    Ok(())
}

/// Operation to be timed.
type Timed = (&'static str, fn(&Tensor) -> Tensor);

const OPERATIONS: [Timed; 12] = [
    ("cholesky", |x| x.cholesky()),
    ("solve", |x| x.solve(&x.narrow(-1, 0, 1))),
    ("inv", Tensor::inv),
    ("lu_factor", |x| x.lu_factor().0),
    ("slogdet", |x| x.slogdet().1),
    ("qr", |x| x.qr().0),
    ("solve_triangular", |x| x.solve_triangular(x, false)),
    ("eigh", |x| x.eigh().1),
    ("eigvalsh", Tensor::eigvalsh),
    ("svd", |x| x.svd().0),
    ("svdvals", Tensor::svdvals),
    ("svd of a tall one", |x| x.narrow(-1, 0, (x.dims()[x.rank() - 1] / 4).max(1)).svd().0),
];

const SIZES: [(&[usize], usize); 7] =
    [(&[20_000], 8), (&[2000], 32), (&[], 100), (&[], 500), (&[], 1000), (&[200], 100), (&[], 3000)];

fn all_times(name: &str) {
    let mut all: [HashMap<String, String>; 2] = Default::default();
    let mut order: Vec<String> = vec![];
    for (library, all) in [true, false].into_iter().zip(&mut all) {
        let ended = in_processes(name, "own-times", library, &mut |line| {
            if let Some((what, ms)) = line.strip_prefix("time ").and_then(|l| l.split_once(": ")) {
                if !order.iter().any(|o| o == what) {
                    order.push(what.into());
                }
                all.insert(what.into(), ms.into());
            }
        });
        ended.iter().for_each(|why| println!("ENDED  {why} (library: {library})"));
    }
    println!("\n| least ms, f32 | by the library | on the host |\n|---|---|---|");
    for what in order {
        let of = |all: &HashMap<String, String>| all.get(&what).cloned().unwrap_or_else(|| "-".into());
        println!("| {what} | {} | {} |", of(&all[0]), of(&all[1]));
    }
}

/// Minimum times in ms, including the copy of one number to the host: at least one run, more for short ones.
fn times(name: &str, from: usize) -> Result<(), Error> {
    let gpu = Device::from_name(name)?;
    let (begun, start) = (Begun { from, next: Cell::new(0) }, Instant::now());
    let library = !thalweg::environment::CUSOLVER.is("off");
    for (lead, n) in SIZES {
        let shape = [lead, &[n, n]].concat();
        let x = Tensor::randn_with(&shape[..], (DType::F32, gpu));
        let x = x.matmul(&x.t()) * (1.0 / n as f32) + Tensor::eye_with(n, n, (DType::F32, gpu));
        x.flatten().slice(0).item::<f32>()?;
        for (what, f) in OPERATIONS {
            let what = format!("{what} {lead:?} {n}²");
            // Skips operations that take minutes on the host, and all after the time limit.
            let long = !library && (n >= 3000 || (n >= 1000 && what.starts_with('s') && what.contains("vd")));
            if start.elapsed() > TIMING_DURATION || long || !begun.begin(&what) {
                continue;
            }
            // The first run compiles.
            let (mut least, mut spent, mut runs) = (f64::INFINITY, 0.0, 0);
            while runs < 3 || (spent < 100.0 && runs < 1000) {
                let start = Instant::now();
                if let Err(error) = f(&x).flatten().slice(0).item::<f32>() {
                    println!("time {what}: {error}");
                    end_if_lost(&error.to_string());
                    break;
                }
                let ms = start.elapsed().as_secs_f64() * 1e3;
                (least, spent, runs) = (least.min(ms), spent + if runs > 0 { ms } else { 0.0 }, runs + 1);
                if ms > 1000.0 {
                    break;
                }
            }
            println!("time {what}: {least:.3}");
            let _ = std::io::stdout().flush();
        }
    }
    Ok(())
}
