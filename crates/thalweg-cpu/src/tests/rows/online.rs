//! Tests of online reductions of rows beyond the caches: they are accurate for ill-conditioned data, and have the same
//! bits on any number of threads.

use super::*;
use thalweg_ir::Scalar;

/// Runs a kernel, which `build` adds to, over `rows` rows of the elements `x` of a dtype; f64 is computed in f64, other
/// dtypes in f32.
fn run(x: &[f64], rows: usize, dtype: DType, strict: bool, build: impl Fn(&mut Case, NodeId, NodeId)) -> Vec<Vec<f64>> {
    over(&domain(&[rows, x.len() / rows], &[1]), x, dtype, strict, build)
}

/// Like [`run`], over any domain.
fn over(
    domain: &Domain,
    x: &[f64],
    dtype: DType,
    strict: bool,
    build: impl Fn(&mut Case, NodeId, NodeId),
) -> Vec<Vec<f64>> {
    let n: usize = domain.folded.iter().map(|&a| domain.shape[a]).product();
    let compute = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let mut case = Case::new(domain, Orientation::InnerAxis);
    let node = case.input(&mut Lcg(1), dtype, Lies::Dense, false);
    for (to, &v) in case.operands[0].chunks_exact_mut(dtype.size()).zip(x) {
        // SAFETY: the chunk has space for an element.
        unsafe { write(to.as_mut_ptr(), dtype, Scalar::Float(v)) };
    }
    let node = case.b.cast(node, compute);
    let count = case.b.scalar(0, compute);
    build(&mut case, node, count);
    let mut made = case.finish();
    made.0.strict = strict;
    let scalars = [Scalar::Float(n as f64).to_bits(compute)];
    let mut wanted: Option<Vec<Vec<u8>>> = None;
    for isa in Choice::all() {
        for threads in if isa == Choice::Tile { vec![1, 8] } else { vec![1, 2, 8] } {
            let device = CpuDevice::with(CpuOptions { threads, parallel_ns: 0.0, isa });
            let got = launch(&device, Orientation::InnerAxis, &made, &scalars);
            let wanted = wanted.get_or_insert_with(|| got.clone());
            for (a, b) in wanted[1..].iter().zip(&got[1..]) {
                same(compute, a, b).unwrap_or_else(|why| panic!("{isa:?}, {threads} threads: {why}"));
            }
        }
    }
    let floats = |bytes: &Vec<u8>| {
        // SAFETY: each chunk is an element.
        bytes
            .chunks_exact(compute.size())
            .map(|c| unsafe { super::super::read(c.as_ptr(), compute) }.to_f64())
            .collect()
    };
    wanted.unwrap()[1..].iter().map(floats).collect()
}

/// Builds a kernel that stores the mean, the variance and the standard deviation of each row.
fn variance(case: &mut Case, x: NodeId, n: NodeId) {
    let (mean, v) = moments(case, x, n);
    let s = op(case, ElementOp::Sqrt, &[v]);
    case.output(mean, true);
    case.output(v, true);
    case.output(s, true);
}

fn moments(case: &mut Case, x: NodeId, n: NodeId) -> (NodeId, NodeId) {
    let s = case.b.fold(Monoid::Sum, x);
    let mean = op(case, ElementOp::Div, &[s, n]);
    let d = op(case, ElementOp::Sub, &[x, mean]);
    let q = op(case, ElementOp::Square, &[d]);
    let q = case.b.fold(Monoid::Sum, q);
    (mean, op(case, ElementOp::Div, &[q, n]))
}

/// Builds a log-sum-exp in which an infinite maximum is replaced by 0.
fn log_sum_exp(case: &mut Case, x: NodeId, _: NodeId) {
    let m = case.b.fold(Monoid::Max, x);
    let zero = case.b.constant(Scalar::Int(0), case.b.body().dtype(x));
    let finite = op(case, ElementOp::IsFinite, &[m]);
    let m = op(case, ElementOp::Where, &[finite, m, zero]);
    let d = op(case, ElementOp::Sub, &[x, m]);
    let e = op(case, ElementOp::Exp, &[d]);
    let s = case.b.fold(Monoid::Sum, e);
    let l = op(case, ElementOp::Log, &[s]);
    let y = op(case, ElementOp::Add, &[l, m]);
    case.output(y, true);
}

fn soft(case: &mut Case, x: NodeId, _: NodeId) {
    let m = case.b.fold(Monoid::Max, x);
    let d = op(case, ElementOp::Sub, &[x, m]);
    let e = op(case, ElementOp::Exp, &[d]);
    let s = case.b.fold(Monoid::Sum, e);
    let y = op(case, ElementOp::Div, &[e, s]);
    case.output(y, false);
}

/// Builds the sum of the `power`th powers of the deviations from the mean (a central moment times n).
fn higher(power: u8) -> impl Fn(&mut Case, NodeId, NodeId) {
    move |case, x, n| {
        let s = case.b.fold(Monoid::Sum, x);
        let mean = op(case, ElementOp::Div, &[s, n]);
        let d = op(case, ElementOp::Sub, &[x, mean]);
        let mut q = op(case, ElementOp::Square, &[d]);
        if power == 3 {
            q = op(case, ElementOp::Mul, &[q, d]);
        } else {
            q = op(case, ElementOp::Square, &[q]);
        }
        let q = case.b.fold(Monoid::Sum, q);
        case.output(q, true);
    }
}

/// Builds the sum of squared deviations with the correction of the two-pass algorithm (minus the squared sum of
/// deviations over n), and the sum of deviations.
fn corrected(case: &mut Case, x: NodeId, n: NodeId) {
    let s = case.b.fold(Monoid::Sum, x);
    let mean = op(case, ElementOp::Div, &[s, n]);
    let d = op(case, ElementOp::Sub, &[x, mean]);
    let q = op(case, ElementOp::Square, &[d]);
    let (q, left) = (case.b.fold(Monoid::Sum, q), case.b.fold(Monoid::Sum, d));
    let square = op(case, ElementOp::Square, &[left]);
    let square = op(case, ElementOp::Div, &[square, n]);
    let y = op(case, ElementOp::Sub, &[q, square]);
    case.output(y, true);
    case.output(left, true);
}

/// Builds the variance with weights `x²`.
fn weighted(case: &mut Case, x: NodeId, _: NodeId) {
    let w = op(case, ElementOp::Square, &[x]);
    let wx = op(case, ElementOp::Mul, &[w, x]);
    let (total, sum) = (case.b.fold(Monoid::Sum, w), case.b.fold(Monoid::Sum, wx));
    let mean = op(case, ElementOp::Div, &[sum, total]);
    let d = op(case, ElementOp::Sub, &[x, mean]);
    let q = op(case, ElementOp::Square, &[d]);
    let q = op(case, ElementOp::Mul, &[q, w]);
    let q = case.b.fold(Monoid::Sum, q);
    let v = op(case, ElementOp::Div, &[q, total]);
    case.output(v, true);
}

/// Builds the entropy of a softmax, and the expectation of `x²` under it.
fn entropy(case: &mut Case, x: NodeId, _: NodeId) {
    let m = case.b.fold(Monoid::Max, x);
    let d = op(case, ElementOp::Sub, &[x, m]);
    let e = op(case, ElementOp::Exp, &[d]);
    let de = op(case, ElementOp::Mul, &[d, e]);
    let square = op(case, ElementOp::Square, &[x]);
    let we = op(case, ElementOp::Mul, &[square, e]);
    let [s, t, w] = [e, de, we].map(|node| case.b.fold(Monoid::Sum, node));
    let log = op(case, ElementOp::Log, &[s]);
    let mean = op(case, ElementOp::Div, &[t, s]);
    let h = op(case, ElementOp::Sub, &[log, mean]);
    let expected = op(case, ElementOp::Div, &[w, s]);
    case.output(h, true);
    case.output(expected, true);
}

/// Builds the number of elements that equal the maximum, and the sum of their squares.
fn largest(case: &mut Case, x: NodeId, _: NodeId) {
    let m = case.b.fold(Monoid::Max, x);
    let dtype = case.b.body().dtype(x);
    let [one, zero] = [1, 0].map(|v| case.b.constant(Scalar::Int(v), dtype));
    let hit = op(case, ElementOp::Eq, &[x, m]);
    let square = op(case, ElementOp::Square, &[x]);
    for value in [one, square] {
        let y = op(case, ElementOp::Where, &[hit, value, zero]);
        let y = case.b.fold(Monoid::Sum, y);
        case.output(y, true);
    }
}

/// Generates `n` approximately normal numbers around `mean`.
fn numbers(n: usize, mean: f64) -> Vec<f64> {
    let mut rng = Lcg(n as u64);
    (0..n).map(|_| mean + (0..4).map(|_| rng.value()).sum::<f64>() / 9.0).collect()
}

/// Mean and variance of the values rounded to a dtype, relative to the last element: a sum of large numbers would lose
/// the required digits even in f64.
fn exact(x: &[f64], dtype: DType) -> [f64; 2] {
    let (last, n) = (dtype.round(x[x.len() - 1]), x.len() as f64);
    let x: Vec<f64> = x.iter().map(|&v| dtype.round(v) - last).collect();
    let mean = x.iter().sum::<f64>() / n;
    [mean + last, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n]
}

fn near(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{got}, not {want}");
}

#[test]
fn a_variance_is_right_wherever_the_mean_lies() {
    for (n, mean, dtype, relative) in [
        (1_000_000, 0.3, DType::F32, 2e-6),
        (1_000_003, 1e6, DType::F32, 2e-6),
        (262_145, -7.0, DType::BF16, 2e-6),
        (300_000, 1e12, DType::F64, 1e-12),
    ] {
        let x = numbers(n, mean);
        let [_, v] = exact(&x, dtype);
        let got = run(&x, 1, dtype, false, variance);
        near(got[1][0], v, relative);
        near(got[2][0], v.sqrt(), relative);
    }
    // The first element is far from the rest.
    let mut x = numbers(500_000, 1.0);
    x[0] = 1e8;
    let [mean, v] = exact(&x, DType::F32);
    let got = run(&x, 1, DType::F32, false, variance);
    near(got[0][0], mean, 1e-5);
    // The squares of the rest of its block are half an ulp of its own square.
    near(got[1][0], v, 2e-5);
}

#[test]
fn several_rows_and_folds_beside_a_variance() {
    let (rows, n) = (3, 140_001);
    let x = numbers(rows * n, 4.0);
    let got = run(&x, rows, DType::F32, false, |case, x, n| {
        let largest = case.b.fold(Monoid::Max, x);
        let (mean, v) = moments(case, x, n);
        let d = op(case, ElementOp::Sub, &[x, mean]);
        let root = op(case, ElementOp::Sqrt, &[v]);
        let y = op(case, ElementOp::Div, &[d, root]);
        case.output(largest, true);
        case.output(y, false);
        case.output(mean, true);
    });
    for (r, row) in x.chunks(n).enumerate() {
        let row: Vec<f64> = row.iter().map(|&v| v as f32 as f64).collect();
        let [mean, v] = exact(&row, DType::F32);
        assert_eq!(got[0][r], row.iter().copied().fold(f64::MIN, f64::max));
        near(got[2][r], mean, 1e-6);
        for (i, v) in row.iter().map(|x| (x - mean) / v.sqrt()).enumerate() {
            assert!((got[1][r * n + i] - v).abs() < 1e-5 * (1.0 + v.abs()), "{} {v}", got[1][r * n + i]);
        }
    }
}

/// Tests rows of several runs, whose blocks have different lengths.
#[test]
fn rows_of_several_runs() {
    let [a, b, c] = [40, 2, 4500];
    let x = numbers(a * b * c, 1e4);
    let got = over(&domain(&[a, b, c], &[0, 2]), &x, DType::F32, false, variance);
    for (row, &got) in got[1].iter().enumerate() {
        let own: Vec<f64> = x.chunks(c).skip(row).step_by(b).flatten().copied().collect();
        near(got, exact(&own, DType::F32)[1], 2e-6);
    }
}

#[test]
fn exponentials_are_those_of_two_passes() {
    let n = 1_000_001;
    let mut x = numbers(n, 0.0);
    // Blocks of only -inf, and maxima that come late.
    x[..9000].fill(f64::NEG_INFINITY);
    x[n - 3] = 60.0;
    x[40_000] = 59.0;
    let stored: Vec<f64> = x.iter().map(|&v| v as f32 as f64).collect();
    let total: f64 = stored.iter().map(|v| (v - 60.0).exp()).sum();
    near(run(&x, 1, DType::F32, false, log_sum_exp)[0][0], total.ln() + 60.0, 1e-6);
    let got = &run(&x, 1, DType::F32, false, soft)[0];
    for (got, x) in got.iter().zip(&stored) {
        near(*got, (x - 60.0).exp() / total, 1e-5);
    }
    let low = numbers(200_000, -1000.0);
    let total: f64 = low.iter().map(|v| (v + 1000.0).exp()).sum();
    near(run(&low, 1, DType::F64, false, log_sum_exp)[0][0], total.ln() - 1000.0, 1e-14);
}

#[test]
fn what_is_not_finite_gives_what_two_passes_give() {
    let ends = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN];
    for (i, special) in ends.into_iter().enumerate() {
        let mut x = numbers(150_000, 1.0);
        match i {
            0 => x.fill(special),
            _ => x[77_777] = special,
        }
        for build in [variance, log_sum_exp, soft, weighted, entropy, largest] {
            // Strict bodies run two passes.
            let (got, want) = (run(&x, 1, DType::F32, false, build), run(&x, 1, DType::F32, true, build));
            for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
                let same = got == want || got.is_nan() && want.is_nan() || (got - want).abs() < 1e-5 * want.abs();
                assert!(same, "{special}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn moments_are_right_wherever_the_mean_lies() {
    for (mean, dtype, relative) in [(0.3, DType::F32, 3e-5), (1e4, DType::F32, 3e-5), (1e9, DType::F64, 1e-9)] {
        let mut x = numbers(700_001, mean);
        // Makes the distribution asymmetric.
        x.iter_mut().step_by(7).for_each(|v| *v += 1.0);
        let last = dtype.round(x[x.len() - 1]);
        let about: Vec<f64> = x.iter().map(|&v| dtype.round(v) - last).collect();
        let center = about.iter().sum::<f64>() / about.len() as f64;
        for power in [3, 4] {
            let want: f64 = about.iter().map(|v| (v - center).powi(power)).sum();
            near(run(&x, 1, dtype, false, higher(power as u8))[0][0], want, relative);
        }
    }
}

/// Tests that a body's own sum of deviations from the rounded mean is not replaced by 0, since the body corrects the
/// sum of squares by it.
#[test]
fn what_a_body_corrects_by_itself_is_not_corrected_before() {
    let x = numbers(1_000_003, 1e6);
    let [mean, v] = exact(&x, DType::F32);
    let got = run(&x, 1, DType::F32, false, corrected);
    near(got[0][0], v * x.len() as f64, 2e-5);
    // The mean is off by at most one ulp: 0.06.
    let rounded = ((x.iter().map(|&v| v as f32 as f64).sum::<f64>() as f32) / x.len() as f32) as f64;
    let want = (mean - rounded) * x.len() as f64;
    assert!((got[1][0] - want).abs() < 0.07 * x.len() as f64, "{} {want}", got[1][0]);
    assert!(got[1][0].abs() > 1.0 || want.abs() < 2.0, "{} {want}", got[1][0]);
}

#[test]
fn weights_and_entropies_are_those_of_two_passes() {
    let n = 500_001;
    let mut x = numbers(n, 2.0);
    x[123_456] = 14.0;
    let stored: Vec<f64> = x.iter().map(|&v| v as f32 as f64).collect();
    let total: f64 = stored.iter().map(|v| v * v).sum();
    let mean = stored.iter().map(|v| v * v * v).sum::<f64>() / total;
    let want = stored.iter().map(|v| v * v * (v - mean).powi(2)).sum::<f64>() / total;
    near(run(&x, 1, DType::F32, false, weighted)[0][0], want, 1e-5);
    let weights: Vec<f64> = stored.iter().map(|v| (v - 14.0).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let want = sum.ln() - stored.iter().zip(&weights).map(|(v, w)| (v - 14.0) * w).sum::<f64>() / sum;
    let got = run(&x, 1, DType::F32, false, entropy);
    near(got[0][0], want, 1e-5);
    near(got[1][0], stored.iter().zip(&weights).map(|(v, w)| v * v * w).sum::<f64>() / sum, 1e-5);
}

#[test]
fn the_largest_are_counted_where_they_stand() {
    let mut x = numbers(400_001, 0.0);
    (1_000..300_000).step_by(1_000).for_each(|i| x[i] = 9.0);
    let got = run(&x, 1, DType::F32, false, largest);
    assert_eq!((got[0][0], got[1][0]), (299.0, 299.0 * 81.0));
    // Zeros of either sign are equal maxima.
    let mut x = vec![-1.0; 400_001];
    (x[5], x[390_000]) = (-0.0, 0.0);
    assert_eq!(run(&x, 1, DType::F32, false, largest)[0][0], 2.0);
}
