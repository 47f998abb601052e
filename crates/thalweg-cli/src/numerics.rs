//! `thalweg numerics`: errors of sums, statistics, softmax and scans on hard inputs: many terms, a large mean, a few
//! huge elements.
//!
//! Exact values are computed in f64 from the same f32 elements, with compensated sums (Neumaier 1974), element by
//! element. Errors are in ulp of the exact value in f32, or relative. The command fails if a bound is exceeded.

use crate::failure::{Outcome, failure};
use clap::Args;
use thalweg::prelude::*;

/// Number of elements that are copied to the host at a time.
const PART: usize = 1 << 20;

/// Arguments of `thalweg numerics`.
#[derive(Args, Debug)]
pub struct Numerics {
    /// Maximum elements of a sum; 10^8 take 400 MB and some seconds
    #[arg(long, value_name = "N", default_value = "100000000", value_parser = clap::value_parser!(u64).range(1000..))]
    elements: u64,
}

/// Descriptions of the bounds that were exceeded.
#[derive(Default)]
struct Report {
    out: Vec<String>,
}

impl Report {
    /// Records an error that exceeds its bound; returns the word for the table.
    fn judge(&mut self, what: impl FnOnce() -> String, error: f64, bound: f64) -> &'static str {
        if error <= bound {
            return "yes";
        }
        self.out.push(what());
        "NO"
    }
}

impl Numerics {
    /// Runs the command; fails if a bound is exceeded.
    pub fn run(self) -> Outcome {
        let (mut report, most) = (Report::default(), self.elements as usize);
        sums(&mut report, most)?;
        statistics(&mut report, most)?;
        softmaxes(&mut report)?;
        others(&mut report)?;
        if report.out.is_empty() { Ok(()) } else { Err(failure(format!("out of bound: {}", report.out.join(", ")))) }
    }
}

/// Compensated sum in f64, which serves as the exact result.
#[derive(Clone, Copy, Default)]
struct Exact {
    sum: f64,
    lost: f64,
}

impl Exact {
    fn add(&mut self, v: f64) {
        let sum = self.sum + v;
        self.lost += if self.sum.abs() >= v.abs() { (self.sum - sum) + v } else { (v - sum) + self.sum };
        self.sum = sum;
    }

    fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// Compensated sum of `f` over the elements.
fn exact(x: &Tensor, f: impl Fn(f64) -> f64) -> Outcome<f64> {
    let mut sum = Exact::default();
    let flat = x.flatten();
    let n = flat.numel();
    for start in (0..n).step_by(PART) {
        let part = flat.narrow(0, start, PART.min(n - start)).to_vec::<f32>()?;
        part.into_iter().for_each(|v| sum.add(f(v as f64)));
    }
    Ok(sum.value())
}

/// Unit in the last place of f32 at this value.
fn ulp(v: f64) -> f64 {
    let exponent = v.abs().max(f32::MIN_POSITIVE as f64).log2().floor() as i32;
    2f64.powi(exponent - 23)
}

fn item(x: &Tensor) -> Outcome<f64> {
    Ok(x.item::<f32>()? as f64)
}

fn relative(got: f64, want: f64) -> f64 {
    (got - want).abs() / want.abs()
}

/// Data that a sum is measured on.
#[derive(Clone, Copy)]
enum Kind {
    Uniform,
    Normal,
    Shifted(f64),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Uniform => "uniform".into(),
            Kind::Normal => "normal".into(),
            Kind::Shifted(0.0) => Kind::Normal.name(),
            Kind::Shifted(mean) => format!("{mean:.0e} + normal"),
        }
    }

    fn make(self, shape: &[usize]) -> Outcome<Tensor> {
        let mut random = Generator::seed(1);
        let shape = Shape::new(shape);
        let x = match self {
            Kind::Uniform => random.rand(shape),
            Kind::Normal => random.randn(shape),
            Kind::Shifted(mean) => random.randn(shape) + mean,
        };
        thalweg::synchronize()?;
        Ok(x)
    }
}

fn up_to(most: usize, sizes: &[usize]) -> impl Iterator<Item = usize> {
    sizes.iter().copied().filter(move |&n| n <= most)
}

/// Measures sums and means. If terms cancel, the error of any sum is relative to the sum of their magnitudes, so it is
/// given in ulp of that.
fn sums(report: &mut Report, most: usize) -> Outcome {
    crate::out!("Sums of f32 against f64, in ulp of the sum of magnitudes; bound: 2 log2 n\n");
    crate::out!("{:<16} {:>10} {:>9} {:>9} {:>9} {:>8} {:>5}", "data", "n", "sum", "mean", "columns", "bound", "met");
    for kind in [Kind::Uniform, Kind::Normal, Kind::Shifted(1e6)] {
        for n in up_to(most, &[10_000, 1_000_000, 100_000_000]) {
            let x = kind.make(&[n / 1000, 1000])?;
            let (want, size) = (exact(&x, |v| v)?, exact(&x, f64::abs)?);
            let sum = (item(&x.sum(..))? - want).abs() / ulp(size);
            let count = n as f64;
            let mean = (item(&x.mean(..))? - want / count).abs() / ulp(size / count);
            let columns = columns(&x)?;
            let bound = 2.0 * count.log2();
            let met = report.judge(|| format!("sum of {n} {}", kind.name()), sum.max(mean).max(columns), bound);
            crate::out!("{:<16} {n:>10} {sum:>9.2} {mean:>9.2} {columns:>9.2} {bound:>8.1} {met:>5}", kind.name());
        }
    }
    Ok(())
}

/// Largest error of the column sums of a matrix, in ulp of the column's sum of magnitudes.
fn columns(x: &Tensor) -> Outcome<f64> {
    let (rows, width) = (x.dims()[0], x.dims()[1]);
    let got = x.sum(0).to_vec::<f32>()?;
    let (mut sums, mut sizes) = (vec![Exact::default(); width], vec![0f64; width]);
    let each = (PART / width).max(1);
    for start in (0..rows).step_by(each) {
        let part = x.narrow(0, start, each.min(rows - start)).to_vec::<f32>()?;
        for row in part.chunks_exact(width) {
            for ((sum, size), &v) in sums.iter_mut().zip(&mut sizes).zip(row) {
                sum.add(v as f64);
                *size += (v as f64).abs();
            }
        }
    }
    let errors = got.iter().zip(&sums).zip(&sizes).map(|((&g, s), &m)| (g as f64 - s.value()).abs() / ulp(m));
    Ok(errors.fold(0.0, f64::max))
}

/// Measures variance, standard deviation and layer norm of data with a large mean: a relative error of 2·10⁻⁷ per
/// rounding, and the mean itself is off by up to half an ulp.
fn statistics(report: &mut Report, most: usize) -> Outcome {
    crate::out!("\nVariance and deviation of f32 with spread 1: relative error; layer_norm of");
    crate::out!("such rows: largest absolute error. Bounds: 2e-6 and 2e-5, and what the mean");
    crate::out!("rounded to f32 adds, half an ulp of it (1e6: 0.03), squared for the variance\n");
    crate::out!("{:<16} {:>10} {:>10} {:>10} {:>11} {:>5}", "data", "n", "var", "std", "layer_norm", "met");
    for mean in [0.0, 1e3, 1e6] {
        for n in up_to(most, &[1_000, 10_000, 100_000, 1_000_000, 10_000_000]) {
            let x = Kind::Shifted(mean).make(&[n])?;
            let count = n as f64;
            let centre = exact(&x, |v| v)? / count;
            let var = exact(&x, |v| (v - centre) * (v - centre))? / count;
            let errors = [relative(item(&x.var(..))?, var), relative(item(&x.std(..))?, var.sqrt())];
            let normal = (n <= PART).then(|| layer_norm(&x, centre, var)).transpose()?;
            // Effect of an error of half an ulp of the mean: its square on the variance, linear on each element.
            let shift = ulp(mean) / 2.0;
            let bound = 2e-6 + shift * shift;
            let worst = errors[0].max(errors[1]);
            let allowed = 2e-5 + shift;
            let within = if normal.unwrap_or(0.0) <= allowed { worst } else { f64::INFINITY };
            let met = report.judge(|| format!("variance of {n} at {mean:e}"), within, bound);
            let normal = normal.map_or("-".into(), |e| format!("{e:.2e}"));
            let name = Kind::Shifted(mean).name();
            crate::out!("{name:<16} {n:>10} {:>10.2e} {:>10.2e} {normal:>11} {met:>5}", errors[0], errors[1]);
        }
    }
    Ok(())
}

fn layer_norm(x: &Tensor, mean: f64, var: f64) -> Outcome<f64> {
    const EPS: f64 = 1e-5;
    let got = x.layer_norm(0, EPS).to_vec::<f32>()?;
    let scale = 1.0 / (var + EPS).sqrt();
    let errors = got.iter().zip(x.to_vec::<f32>()?).map(|(&g, v)| (g as f64 - (v as f64 - mean) * scale).abs());
    Ok(errors.fold(0.0, f64::max))
}

/// Measures softmax, log-softmax and logsumexp over rows that overflow unless the maximum is subtracted first.
fn softmaxes(report: &mut Report) -> Outcome {
    const N: usize = 1000;
    crate::out!("\nSoftmax over rows of {N} f32: largest relative error (log_softmax of what is");
    crate::out!("less than 1: absolute), and how far the row's sum is from 1; bound: 2e-6\n");
    crate::out!(
        "{:<24} {:>10} {:>12} {:>10} {:>10} {:>5}",
        "row",
        "softmax",
        "log_softmax",
        "logsumexp",
        "sum - 1",
        "met"
    );
    let infinite = f64::NEG_INFINITY;
    let first = |v: f64| move |x: &Tensor| x.positions(0, DType::I64).eq(0).where_(v, x);
    let every = move |x: &Tensor| (x.positions(0, DType::I64) % 3).eq(0).where_(infinite, x);
    type MakeInput = Box<dyn Fn(&Tensor) -> Tensor>;
    let rows: [(&str, MakeInput); 6] = [
        ("normal", Box::new(|x| x.clone())),
        ("1e6 + normal", Box::new(|x| x + 1e6)),
        ("-1e6 + normal", Box::new(|x| x - 1e6)),
        ("normal, one 1e30", Box::new(first(1e30))),
        ("normal, a third -inf", Box::new(every)),
        ("all -inf", Box::new(move |x| x.full_like(infinite))),
    ];
    for (name, make) in rows {
        let x = make(&Kind::Normal.make(&[N])?);
        let values: Vec<f64> = x.to_vec::<f32>()?.into_iter().map(f64::from).collect();
        let soft = x.softmax(0).to_vec::<f32>()?;
        let logs = x.log_softmax(0).to_vec::<f32>()?;
        let whole = item(&x.logsumexp(0))?;
        let largest = values.iter().copied().fold(infinite, f64::max);
        if largest == infinite {
            let nan = soft.iter().chain(&logs).all(|v| v.is_nan());
            let right = nan && whole == infinite;
            let met = report.judge(|| name.into(), if right { 0.0 } else { 1.0 }, 0.0);
            crate::out!("{name:<24} {:>10} {:>12} {:>10} {:>10} {met:>5}", soft[0], logs[0], whole, "NaN");
            continue;
        }
        let mut total = Exact::default();
        values.iter().for_each(|v| total.add((v - largest).exp()));
        let log = total.value().ln();
        // Values below the smallest normal f32 may be 0.
        let tiny = f32::MIN_POSITIVE as f64;
        let soft_errors = soft.iter().zip(&values).map(|(&g, v)| {
            let want = (v - largest).exp() / total.value();
            if want < tiny { (g as f64 - want).abs() / tiny } else { relative(g as f64, want) }
        });
        let log_errors = logs.iter().zip(&values).map(|(&g, v)| {
            let want = v - largest - log;
            // For huge values rounding errors are huge, so the error is relative to the value.
            if g as f64 == want { 0.0 } else { (g as f64 - want).abs() / want.abs().max(1.0) }
        });
        let errors = [soft_errors.fold(0.0, f64::max), log_errors.fold(0.0, f64::max)];
        let lse = relative(whole, largest + log);
        let mut row = Exact::default();
        soft.iter().for_each(|&v| row.add(v as f64));
        let off = (row.value() - 1.0).abs();
        let worst = errors[0].max(errors[1]).max(lse).max(off);
        let met = report.judge(|| format!("softmax of {name}"), worst, 2e-6);
        crate::out!("{name:<24} {:>10.2e} {:>12.2e} {lse:>10.2e} {off:>10.2e} {met:>5}", errors[0], errors[1]);
    }
    Ok(())
}

/// Measures scans, norms and products.
fn others(report: &mut Report) -> Outcome {
    crate::out!("\nScans, norms and products of f32\n");
    crate::out!("{:<42} {:>18} {:>9} {:>5}", "what", "result", "bound", "met");
    let mut line = |what: &str, result: String, bound: &str, kept: bool| {
        let met = report.judge(|| what.into(), if kept { 0.0 } else { 1.0 }, 0.0);
        crate::out!("{what:<42} {result:>18} {bound:>9} {met:>5}");
    };
    for kind in [Kind::Uniform, Kind::Normal] {
        let x = kind.make(&[1_000_000])?;
        let (values, got) = (x.to_vec::<f32>()?, x.cumsum(0).to_vec::<f32>()?);
        let (mut sum, mut worst) = (Exact::default(), 0f64);
        for (&v, &g) in values.iter().zip(&got) {
            sum.add(v as f64);
            worst = worst.max((g as f64 - sum.value()).abs() / ulp(sum.value()));
        }
        line(&format!("cumsum of 10^6 {}", kind.name()), format!("{worst:.3} ulp"), "0.501", worst <= 0.501);
    }
    let x = Kind::Uniform.make(&[100_000])? * 1e-3 + 1.0;
    let want = exact(&x, f64::ln)?.exp();
    let got = item(&x.prod(..))?;
    let off = (got - want).abs() / ulp(want);
    line("prod of 10^5 near 1", format!("{off:.1} ulp"), "316", off <= (1e5f64).sqrt());
    let norm = |v: f64| item(&Tensor::full([1000], v).norm(..));
    let off = relative(norm(5e17)?, 5e17 * 1000f64.sqrt());
    line("norm of 1000 times 5e17: relative error", format!("{off:.1e}"), "1e-6", off <= 1e-6);
    let high = norm(1e20)?;
    line("norm of 1000 times 1e20: squares overflow", format!("{high}"), "inf", high == f64::INFINITY);
    let low = norm(1e-25)?;
    line("norm of 1000 times 1e-25: squares vanish", format!("{low}"), "0", low == 0.0);
    let most = item(&Tensor::full([1000], 3e38).norm_p(f64::INFINITY, ..))?;
    line("norm_p(inf) of 1000 times 3e38", format!("{most:.1e}"), "3e38", most == 3e38f32 as f64);
    Ok(())
}
