//! PyTorch's operator database: values, gradients and second derivatives of 476 entries, in every mode, against the
//! results that bench/golden_opdb.py writes into golden.bin. bench/opdb_table.txt maps each of the 703 entries to
//! Thalweg.
//!
//! `OPDB=softplus cargo test -p thalweg --test opdb` runs the samples of one entry, `OPDB=features` those of entries that
//! need a feature of the crate.

mod algebra;
mod call;
mod elementwise;
mod exceptions;
mod networks;
mod record;
mod reductions;
mod structure;

use call::Call;
use exceptions::{Aspect, excepted};
use record::{Array, Expected, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thalweg::prelude::*;
use thalweg::{Effort, bf16, grad_graph, set_search_effort, set_tiers, with_fusion, with_reference, with_strict};

/// Outputs of a sample in Thalweg; `None` if it uses an option that Thalweg does not have.
fn outputs(entry: &str, call: &Call) -> Option<Vec<Tensor>> {
    elementwise::call(entry, call)
        .or_else(|| reductions::call(entry, call))
        .or_else(|| structure::call(entry, call))
        .or_else(|| networks::call(entry, call))
        .or_else(|| algebra::call(entry, call))
}

/// Fixed odd multiples of 1/64, exact in every float dtype, as in bench/golden_opdb.py.
fn cotangent(y: &Tensor, k: usize, step: usize, first: usize) -> Tensor {
    let number = |i: usize| ((i * step + first + 5 * k) % 64) as f64 / 32.0 - 63.0 / 64.0;
    let numbers: Vec<f64> = (0..y.numel()).map(number).collect();
    Tensor::from_slice(&numbers, y.dims().to_vec()).cast(y.dtype())
}

/// Samples compared so far, and their differences.
#[derive(Default)]
struct Report {
    compared: BTreeSet<String>,
    left_out: BTreeMap<String, usize>,
    samples: usize,
    differing: Vec<(String, bool, Aspect, String)>,
}

/// Relative tolerance: relative to the largest number of the tensor, at special points to the number itself.
fn tolerance(dtype: DType, aspect: Aspect) -> f64 {
    match (dtype, aspect) {
        (DType::F64, Aspect::Value) => 2e-10,
        (DType::F64, _) => 2e-9,
        (DType::F32, Aspect::Value) => 4e-6,
        (DType::F32, _) => 2e-5,
        (DType::F16, _) => 2e-3,
        (DType::BF16, Aspect::Value) => 1.6e-2,
        (DType::BF16, _) => 4e-2,
        _ => 0.0,
    }
}

/// A number of f64 rounded to a narrower dtype.
fn rounded(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(v as f32),
        DType::BF16 => bf16::from_f64(v).into(),
        _ => v,
    }
}

/// Expected result.
struct Wanted<'a> {
    expected: &'a Array,
    /// PyTorch's result in f64 for the same arguments: in a narrower dtype either is right, since PyTorch's own steps round.
    exact: Option<&'a Array>,
    /// Values of the function, if derivatives are compared one by one.
    values: Option<&'a [f64]>,
    /// First derivatives, for second ones.
    slopes: Option<&'a [f64]>,
    aspect: Aspect,
    special: bool,
}

impl Wanted<'_> {
    /// Whether an element of a derivative is undefined: the function's value there (its row's, for a reduction) is NaN,
    /// or for a second derivative the value or the first one is not finite, or the value is subnormal.
    fn nowhere(&self, i: usize, count: usize) -> bool {
        let at =
            |all: &[f64]| (!all.is_empty() && count.is_multiple_of(all.len())).then(|| all[i / (count / all.len())]);
        match (self.aspect, self.values.and_then(at), self.slopes.and_then(at)) {
            (Aspect::Gradient, Some(v), _) => v.is_nan(),
            (Aspect::Second, Some(v), Some(s)) => !v.is_finite() || !s.is_finite() || v.is_subnormal(),
            _ => false,
        }
    }

    /// The first difference of a result.
    fn difference(&self, got: &Tensor) -> Option<String> {
        let Wanted { expected, aspect, special, .. } = *self;
        if got.dims() != expected.dims {
            return Some(format!("shape {:?} for {:?}", got.dims(), expected.dims));
        }
        if got.dtype() != expected.dtype {
            return Some(format!("dtype {} for {}", got.dtype(), expected.dtype));
        }
        if got.dtype() == DType::I64 {
            return match got.to_vec::<i64>() {
                Ok(found) if found == expected.integers() => None,
                Ok(found) => Some(format!("{found:?} for {:?}", expected.integers())),
                Err(e) => Some(e.to_string()),
            };
        }
        let found = match got.to_f64_vec() {
            Ok(found) => found,
            Err(e) => return Some(e.to_string()),
        };
        let numbers = expected.numbers();
        let exact = self.exact.map(|a| a.numbers().iter().map(|&v| rounded(v, expected.dtype)).collect::<Vec<_>>());
        let (derivative, relative) = (aspect != Aspect::Value, tolerance(expected.dtype, aspect));
        // Smallest normal and largest number of the dtype, and the magnitude below which differences are rounding.
        let (least, most, small) = match expected.dtype {
            DType::F64 => (f64::MIN_POSITIVE, f64::MAX, 1e-3),
            DType::F32 => (f32::MIN_POSITIVE.into(), f32::MAX.into(), 1.0),
            _ => (f32::MIN_POSITIVE.into(), f32::MAX.into(), 0.5),
        };
        // Derivatives are compared relative to about 1.
        let slope = match (expected.dtype, aspect) {
            (DType::F64, Aspect::Second) => 1e-9,
            (DType::F64, _) => 4.0 * least,
            _ => 3e-8,
        };
        let largest = numbers.iter().filter(|v| v.is_finite()).fold(small, |a: f64, v| a.max(v.abs()));
        let close = |f: f64, e: f64| {
            let bound = match (special, derivative) {
                (false, _) => relative * largest,
                (true, true) => relative * f.abs().max(e.abs()) + slope,
                (true, false) => relative * f.abs().max(e.abs()) + least / 50.0,
            };
            // At special points PyTorch's derivative formulas have 0·∞, and the last bit decides what overflows.
            let undefined = special
                && derivative
                && (e.is_nan() || e.abs() > most / 8.0 && (f.is_nan() || f == e.signum() * f64::INFINITY));
            f == e || e.is_nan() && f.is_nan() || undefined || f.is_finite() && (f - e).abs() <= bound
        };
        for (i, (&f, &e)) in found.iter().zip(&numbers).enumerate() {
            if !self.nowhere(i, found.len()) && !close(f, e) && !exact.as_ref().is_some_and(|x| close(f, x[i])) {
                return Some(format!("element {i} of {}: {f:e} for {e:e}", found.len()));
            }
        }
        None
    }
}

/// Compares one sample in one dtype.
fn compare(record: &Record, expected: &Expected, report: &mut Report) {
    let entry = &record.entry;
    let graded = expected.first.is_some();
    let call = Call::new(record, expected.dtype, graded);
    let Some(outputs) = outputs(entry, &call) else {
        *report.left_out.entry(entry.clone()).or_default() += 1;
        return;
    };
    report.samples += 1;
    report.compared.insert(entry.clone());
    let mut differs =
        |aspect: Aspect, what: String| report.differing.push((entry.clone(), record.special, aspect, what));
    if outputs.len() != expected.outputs.len() {
        return differs(Aspect::Value, format!("{} results for {}", outputs.len(), expected.outputs.len()));
    }
    let special = record.special;
    let exact = record.expected.iter().find(|e| e.dtype == DType::F64 && expected.dtype != DType::F64);
    let values = special.then(|| expected.outputs[0].0.numbers());
    let slopes: Vec<Vec<f64>> = expected.first.iter().flatten().map(Array::numbers).collect();
    let wanted = |aspect, expected, exact, k: usize| {
        let slopes = slopes.get(k).map(Vec::as_slice);
        Wanted { expected, exact, values: values.as_deref(), slopes, aspect, special }
    };
    let about = |what: String| format!("{}{}: {what}", expected.dtype, if special { " special" } else { "" });
    // Everything is recorded before anything is read: one segment.
    let counting = outputs.iter().zip(&expected.outputs).enumerate().filter(|(_, (_, (_, counts)))| *counts);
    let loss = counting.map(|(k, (y, _))| (y * cotangent(y, k, 37, 11)).sum(..)).reduce(|a, b| a + b);
    let first = expected.first.as_ref().map(|_| grad_graph(&loss.expect("a result counts"), &call.leaves));
    let second = expected.second.as_ref().zip(first.as_ref()).map(|(_, slopes)| {
        let tracked = slopes.iter().enumerate().filter(|(_, g)| g.is_tracked());
        let total = tracked.map(|(k, g)| (g * cotangent(g, k, 41, 7)).sum(..)).reduce(|a, b| a + b);
        match total {
            Some(total) => grad_graph(&total, &call.leaves),
            None => call.leaves.iter().map(Tensor::zeros_like).collect(),
        }
    });
    for (k, (y, (e, _))) in outputs.iter().zip(&expected.outputs).enumerate() {
        let exact = exact.filter(|x| x.outputs.len() == outputs.len()).map(|x| &x.outputs[k].0);
        if let Some(d) = wanted(Aspect::Value, e, exact.filter(|x| x.dims == e.dims), k).difference(y) {
            differs(Aspect::Value, about(format!("result {k}: {d}")));
        }
    }
    for (k, (g, e)) in first.iter().flatten().zip(expected.first.iter().flatten()).enumerate() {
        let exact = exact.and_then(|x| x.first.as_ref()).map(|x| &x[k]);
        if let Some(d) = wanted(Aspect::Gradient, e, exact, k).difference(g) {
            differs(Aspect::Gradient, about(format!("gradient {k}: {d}")));
        }
    }
    for (k, (g, e)) in second.iter().flatten().zip(expected.second.iter().flatten()).enumerate() {
        if let Some(d) = wanted(Aspect::Second, e, None, k).difference(g) {
            differs(Aspect::Second, about(format!("second derivative {k}: {d}")));
        }
    }
}

/// Runs all samples, and fails if one differs without an exception.
fn run() {
    let records = record::records();
    let wanted = std::env::var("OPDB").ok();
    let mut report = Report::default();
    let chosen = |entry: &str| match wanted.as_deref() {
        None => true,
        Some("features") => of_linalg(entry) || of_fft(entry),
        Some(name) => name == entry,
    };
    let entries: BTreeSet<&str> = records.iter().map(|r| r.entry.as_str()).filter(|e| chosen(e)).collect();
    for record in records.iter().filter(|r| chosen(&r.entry)) {
        // Special points of a narrow dtype run in that dtype only.
        let dtypes = if record.special { 1 } else { record.expected.len() };
        for expected in &record.expected[..dtypes] {
            let done = catch_unwind(AssertUnwindSafe(|| compare(record, expected, &mut report)));
            if let Err(panic) = done {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| t.to_string()));
                let what = format!("{}: panics: {}", expected.dtype, text.unwrap_or_default());
                report.differing.push((record.entry.clone(), record.special, Aspect::Value, what));
            }
        }
    }
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failed = 0;
    for (entry, special, aspect, what) in &report.differing {
        if excepted(entry, *special, *aspect) {
            continue;
        }
        failed += 1;
        let count = shown.entry(entry).or_default();
        *count += 1;
        if *count <= 4 {
            eprintln!("{entry}: {aspect:?}: {what}");
        }
    }
    println!("{} samples of {} entries; left out: {:?}", report.samples, report.compared.len(), report.left_out);
    assert_eq!(failed, 0, "differences in {} entries: {:?}", shown.len(), shown.keys());
    let without: Vec<_> = entries.iter().filter(|e| !report.compared.contains(**e)).collect();
    let feature_off =
        |entry: &str| !cfg!(feature = "fft") && of_fft(entry) || !cfg!(feature = "linalg") && of_linalg(entry);
    assert!(without.iter().all(|e| feature_off(e)), "no sample compared: {without:?}");
}

/// Whether an entry is a Fourier transform, of the feature `fft`.
fn of_fft(entry: &str) -> bool {
    entry.starts_with("fft.")
}

/// Whether an entry is a decomposition or a solver, of the feature `linalg`. (Some of `linalg.…` need no feature.)
fn of_linalg(entry: &str) -> bool {
    ["linalg.", "svd", "cholesky_solve", "matrix_exp", "logdet", "pinverse", "triangular_solve", "norm:nuc"]
        .iter()
        .any(|l| entry.starts_with(l))
}

/// Runs every sample by a plan from a short search.
fn planned() {
    let (tiers, effort) = (set_tiers(false), set_search_effort(Effort::Visits(100)));
    run();
    set_tiers(tiers);
    set_search_effort(effort);
}

#[test]
fn fused() {
    planned();
}

#[test]
fn unfused() {
    with_fusion(false, run);
}

#[test]
fn strict() {
    with_strict(true, planned);
}

#[test]
fn reference() {
    with_reference(run);
}
