//! `thalweg bandwidth`: kernels on tensors that exceed the caches, relative to a memory copy in the same run.
//!
//! Each round measures the machine's copy rate (the best copy it can do, streaming stores included; on a GPU the rate
//! of `-x`), then each kernel's rate: the bytes moved by its launches as reported by the device, scratch and further
//! passes included, divided by its time. The ratio uses the copy rate of the same round because the memory of a shared
//! machine varies in speed. The median over rounds is printed.

use crate::failure::Outcome;
use crate::measure::{counted, median, ms_since};
use crate::report;
use crate::workloads::{self, Size};
use clap::Args;
use serde::Serialize;
use std::time::Instant;
use thalweg::{Device, Tensor, manual_seed, synchronize};

/// Number of timed runs of a kernel per round.
const RUNS: usize = 7;

/// Arguments of `thalweg bandwidth`.
#[derive(Args, Debug)]
pub struct BandwidthCommand {
    /// Number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rows and columns of the matrix
    #[arg(long, default_value_t = 8192)]
    size: usize,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Figure {
    kernel: &'static str,
    kernels: u64,
    bytes: u64,
    median_ms: f64,
    bytes_per_second: f64,
    share_of_copying: f64,
}

type Named = (&'static str, fn(&Tensor) -> Tensor);

/// Kernels measured on the matrix.
const ON_MATRIX: &[Named] = &[
    ("x + 1", |x| x + 1.0),
    ("sum of all", |x| x.sum(..)),
    ("sum of rows", |x| x.sum(1)),
    ("sum of columns", |x| x.sum(0)),
    ("sums of both", |x| {
        let (rows, columns) = (x.sum(1), x.sum(0));
        rows.sum(..) + columns.sum(..)
    }),
    ("variance of all", |x| x.var(..)),
    ("argmax of rows", |x| x.argmax(1)),
    ("softmax, columns", |x| x.softmax(0)),
    ("layer_norm, columns", |x| x.layer_norm(0, 1e-5)),
    ("cumsum of rows", |x| x.cumsum(1)),
];

/// Kernels measured on GPUs only; on a CPU they would take seconds.
const ON_GPU: &[Named] = &[
    ("transposed + 1", |x| x.transpose(0, 1) + 1.0),
    ("cumsum of columns", |x| x.cumsum(0)),
    ("cumsum of all", |x| x.reshape([x.numel()]).cumsum(0)),
    ("sort of rows", |x| x.sort(1, false)),
    ("sort of 4 million", |x| x.reshape([x.numel()]).narrow(0, 0, x.numel().min(1 << 22)).sort(0, false)),
    ("index_add of rows", |x| {
        let n = x.size(0);
        let index = (Tensor::arange_with(n as i64, thalweg::DType::I64) * 7 + 3) % (n as i64 / 2);
        Tensor::zeros([n / 2, x.size(1)]).index_add(0, &index, x)
    }),
];

/// Workloads that are measured, too, in their large size.
const WORKLOADS: &[&str] = &["softmax", "layernorm", "rmsnorm_swiglu", "hub"];

/// Reductions over any axes, in their large size.
fn folds() -> impl Iterator<Item = &'static str> {
    workloads::folds::ALL.iter().map(|e| e.name)
}

struct Measured {
    name: &'static str,
    kernels: u64,
    bytes: u64,
    ms: Vec<f64>,
    shares: Vec<f64>,
}

impl BandwidthCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let device = Device::try_default()?;
        let bar = report::progress(
            (self.rounds * (ON_MATRIX.len() + ON_GPU.len() + WORKLOADS.len() + folds().count())) as u64,
        );
        let mut all: Vec<Measured> = vec![];
        let mut copies = vec![];
        let on_gpu = device.name().starts_with("cuda");
        let matrix: Vec<&Named> = ON_MATRIX.iter().chain(ON_GPU.iter().filter(|_| on_gpu)).collect();
        for _ in 0..self.rounds {
            let copy = if on_gpu { negating()? } else { device.bandwidth()?.all };
            copies.push(copy);
            let mut note = |name, run: &dyn Fn() -> Outcome| {
                bar.set_message(name);
                let (ms, kernels, bytes) = once(run)?;
                bar.inc(1);
                let share = bytes as f64 / (ms / 1e3) / copy;
                match all.iter_mut().find(|m| m.name == name) {
                    Some(m) => {
                        m.ms.push(ms);
                        m.shares.push(share);
                    }
                    None => all.push(Measured { name, kernels, bytes, ms: vec![ms], shares: vec![share] }),
                }
                Ok::<(), crate::failure::Failure>(())
            };
            {
                manual_seed(1);
                let x = Tensor::randn([self.size, self.size]);
                synchronize()?;
                for &&(name, f) in &matrix {
                    note(name, &|| {
                        let y = f(&x);
                        synchronize()?;
                        drop(y);
                        Ok(())
                    })?;
                }
            }
            for name in WORKLOADS.iter().copied().chain(folds()) {
                let workload = workloads::prepare(name, Size::Large)?;
                note(name, &|| workload.run())?;
            }
        }
        bar.finish_and_clear();
        self.print(&mut copies, all)
    }

    fn print(&self, copies: &mut [f64], all: Vec<Measured>) -> Outcome {
        copies.sort_by(f64::total_cmp);
        if !self.json {
            crate::out!(
                "the best copy of memory, both ways counted: {} (median of {} rounds)",
                report::rate(median(copies)),
                self.rounds
            );
            crate::out!("moved: bytes that the launches read and write, as the device says; share: of copying");
            crate::out!("{:<20} {:>7} {:>10} {:>10} {:>12} {:>7}", "", "kernels", "moved", "ms", "rate", "share");
        }
        for mut m in all {
            m.ms.sort_by(f64::total_cmp);
            m.shares.sort_by(f64::total_cmp);
            let (ms, share) = (median(&m.ms), median(&m.shares));
            let rate = m.bytes as f64 / (ms / 1e3);
            if self.json {
                let figure = Figure {
                    kernel: m.name,
                    kernels: m.kernels,
                    bytes: m.bytes,
                    median_ms: ms,
                    bytes_per_second: rate,
                    share_of_copying: share,
                };
                crate::out!("{}", serde_json::to_string(&figure)?);
            } else {
                crate::out!(
                    "{:<20} {:>7} {:>10} {:>10} {:>12} {:>6.0}%",
                    m.name,
                    m.kernels,
                    report::size(m.bytes),
                    report::ms(ms),
                    report::rate(rate),
                    share * 100.0
                );
            }
        }
        Ok(())
    }
}

/// Bytes per second read and written when a tensor of 1 GiB is negated.
fn negating() -> Outcome<f64> {
    let x = Tensor::zeros([1 << 28]) + 1.0;
    synchronize()?;
    let (ms, _, bytes) = once(&|| {
        let y = -&x;
        synchronize()?;
        drop(y);
        Ok(())
    })?;
    Ok(bytes as f64 / (ms / 1e3))
}

/// Measures a call: median time in milliseconds, number of kernels, and the bytes that they move.
fn once(run: &dyn Fn() -> Outcome) -> Outcome<(f64, u64, u64)> {
    run()?;
    let ((), work) = counted(run)?;
    let mut times = vec![];
    for _ in 0..RUNS {
        let begin = Instant::now();
        run()?;
        times.push(ms_since(begin));
    }
    times.sort_by(f64::total_cmp);
    Ok((median(&times), work.kernels, work.bytes_read + work.bytes_written))
}
