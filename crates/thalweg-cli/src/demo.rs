//! `thalweg demo`: three GELUs as plain eager code, with and without fusion.

use crate::failure::{During, Outcome, failure};
use crate::measure::{Runs, counted, time};
use crate::report;
use crate::workloads::{Size, gelu_custom, gelu_erf};
use clap::Args;
use std::path::{Path, PathBuf};
use thalweg::Bandwidth;
use thalweg::prelude::*;
use thalweg::{Counters, explain, manual_seed, with_fusion, with_reference};

/// Number of values compared with the reference interpreter; larger tensors are sampled.
const CHECKED: usize = 65_536;

/// Arguments of `thalweg demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// Your own array instead of random numbers
    #[arg(long, value_name = "X.NPY")]
    input: Option<PathBuf>,
    /// Where to write its GELU
    #[arg(long, value_name = "Y.NPY")]
    output: Option<PathBuf>,
    /// Size of the random array: [4, 512, 2048] or [32, 512, 2048]
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Where to write the explanation
    #[arg(long, value_name = "FILE", default_value = "thalweg-demo.html")]
    html: PathBuf,
}

/// One of the demo's three GELUs, with its name.
struct Form {
    name: &'static str,
    about: &'static str,
    gelu: fn(&Tensor) -> Tensor,
}

const FORMS: [Form; 3] = [
    Form { name: "gelu_ref", about: "Tensor::gelu", gelu: |x| x.gelu() },
    Form { name: "gelu_erf", about: "x * ((x / SQRT_2).erf() + 1.0) / 2.0", gelu: gelu_erf },
    Form { name: "gelu_custom", about: "the same, erf written by hand", gelu: gelu_custom },
];

/// Measurements of one form in one mode.
struct Measured {
    median_ms: f64,
    work: Counters,
}

impl Measured {
    /// Fraction of the memory bandwidth that was achieved.
    fn bandwidth_fraction(&self, bandwidth: Bandwidth) -> f64 {
        let bytes = self.work.bytes_read + self.work.bytes_written;
        bytes as f64 / (self.median_ms / 1e3) / bandwidth.all
    }
}

impl Demo {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let device = Device::try_default()?;
        let x = self.array()?;
        crate::out!("Thalweg {} on {}: {}", env!("CARGO_PKG_VERSION"), device.name(), device.describe());
        let bar = report::progress(2 + 2 * FORMS.len() as u64);
        bar.set_message("memory bandwidth");
        let bandwidth = device.bandwidth()?;
        bar.inc(1);
        let mut cached = false;
        bar.suspend(|| {
            let bytes = (x.numel() * x.dtype().size()) as u64;
            let origin = self.input.as_deref().map_or("random".into(), |p| p.display().to_string());
            crate::out!(
                "memory: {} measured, {} with one thread",
                report::rate(bandwidth.all),
                report::rate(bandwidth.one)
            );
            crate::out!("x: {}{}, {}, {origin}\n", x.dtype(), x.shape(), report::size(bytes));
            crate::out!("{}", heading());
        });
        for form in &FORMS {
            let mut both = Vec::new();
            for fused in [true, false] {
                bar.set_message(format!("{} {}", form.name, if fused { "fused" } else { "unfused" }));
                let measured = with_fusion(fused, || measure(form, &x))?;
                bar.inc(1);
                let name = if fused { form.name } else { "" };
                let share = measured.bandwidth_fraction(bandwidth);
                cached |= share > 1.0;
                bar.suspend(|| crate::out!("{}", row(name, fused, &measured, share)));
                both.push(measured);
            }
            let (checked, error) = check(form, &x)?;
            let times = both[1].median_ms / both[0].median_ms;
            bar.suspend(|| {
                crate::out!("  {}: {times:.1} times as fast fused", form.about);
                crate::out!("  {}\n", verdict(checked, x.numel(), error));
            });
        }
        bar.set_message("explanation");
        let (outputs, explanation) = explain(|| FORMS.each_ref().map(|f| run(f, &x)));
        let [y, ..] = outputs;
        let y = y?;
        std::fs::write(&self.html, explanation.html("Three GELUs, as Thalweg ran them")).during(self.html.display())?;
        bar.finish_and_clear();
        if cached {
            crate::out!("Over 100 %: faster than copying memory (caches, results written in place).");
        }
        crate::out!("Which operations shared a kernel, and why: {}", self.html.display());
        if let Some(path) = &self.output {
            y.write_npy(path)?;
            crate::out!("GELU of x: {}", path.display());
        }
        Ok(())
    }

    /// The user's array as floats, or random numbers.
    fn array(&self) -> Outcome<Tensor> {
        let x = match &self.input {
            Some(path) => read(path)?,
            None => {
                manual_seed(1);
                Tensor::randn([if self.size == Size::Large { 32 } else { 4 }, 512, 2048])
            }
        };
        thalweg::synchronize()?;
        Ok(x)
    }
}

fn read(path: &Path) -> Outcome<Tensor> {
    let x = Tensor::read_npy(path)?;
    if x.numel() == 0 {
        return Err(failure(format!("{}: the array of shape {} has no elements", path.display(), x.shape())));
    }
    if x.dtype().is_float() {
        return Ok(x);
    }
    crate::out!("{}: {} is taken as f32", path.display(), x.dtype());
    Ok(x.cast(DType::F32))
}

/// Runs a form and waits for its result.
fn run(form: &Form, x: &Tensor) -> Outcome<Tensor> {
    let y = (form.gelu)(x);
    thalweg::synchronize()?;
    Ok(y)
}

fn measure(form: &Form, x: &Tensor) -> Outcome<Measured> {
    let times = time(Runs::LOOK, || run(form, x).map(drop))?;
    let (_, work) = counted(|| run(form, x))?;
    Ok(Measured { median_ms: times.median(), work })
}

fn heading() -> String {
    format!(
        "{:<12} {:<8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "", "kernels", "read", "written", "allocated", "ms", "bandwidth"
    )
}

fn row(name: &str, fused: bool, m: &Measured, share: f64) -> String {
    format!(
        "{name:<12} {:<8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>7.0} %",
        if fused { "fused" } else { "unfused" },
        m.work.kernels,
        report::size(m.work.bytes_read),
        report::size(m.work.bytes_written),
        report::size(m.work.bytes_allocated),
        report::ms(m.median_ms),
        100.0 * share
    )
}

/// Compares with the reference interpreter. Returns the number of compared values and the result of the comparison.
fn check(form: &Form, x: &Tensor) -> Outcome<(usize, Compared)> {
    let count = x.numel();
    // An odd step samples every lane and every thread's part.
    let step = if count <= CHECKED { 1 } else { (count / CHECKED) | 1 };
    let sample = |t: &Tensor| t.reshape([count]).slice((..).by(step as i64));
    let y = run(form, x)?;
    let (x, y) = (sample(x), sample(&y).to_f64_vec()?);
    let expected = with_reference(|| (form.gelu)(&x).to_f64_vec())?;
    Ok((y.len(), compare(&x.to_f64_vec()?, &y, &expected, x.dtype())))
}

/// Result of a comparison with the reference interpreter.
struct Compared {
    /// Largest absolute difference.
    largest: f64,
    /// Whether all differences are within the bound.
    agree: bool,
}

fn compare(x: &[f64], y: &[f64], expected: &[f64], dtype: DType) -> Compared {
    let epsilon = match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f32::EPSILON as f64,
        DType::F16 => 2f64.powi(-10),
        _ => 2f64.powi(-7),
    };
    let mut found = Compared { largest: 0.0, agree: true };
    for ((x, y), e) in x.iter().zip(y).zip(expected) {
        if y == e || (y.is_nan() && e.is_nan()) {
            continue;
        }
        let difference = (y - e).abs();
        // About forty roundings, relative to the magnitude of the intermediate sums.
        found.agree &= difference <= 16.0 * epsilon * x.abs().max(1.0);
        found.largest = found.largest.max(if difference.is_nan() { f64::INFINITY } else { difference });
    }
    found
}

fn verdict(checked: usize, of: usize, found: Compared) -> String {
    let which = if checked == of {
        format!("all {} values", report::grouped(of as u64))
    } else {
        format!("{} values", report::grouped(checked as u64))
    };
    let says = if found.agree { "agree with" } else { "DIFFER FROM" };
    format!("{which} {says} the reference interpreter's: largest error {:.1e}", found.largest)
}
