//! Reductions of long windows: the number of steps grows with the logarithm of the length, and values agree with the
//! definition.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg::{DType, grad};

/// Three rows of 300 distinct elements, none close to a neighbour's.
fn rows() -> (Tensor, Vec<f64>) {
    let x: Vec<f32> = (0..900).map(|i| ((i * 7919) % 1009) as f32 / 100.0 - 5.0 + 3.0 * (i / 300) as f32).collect();
    (Tensor::new(x.as_slice()).reshape([3, 300]), x.iter().map(|&v| v as f64).collect())
}

/// A function of each window, row by row.
fn by_definition(x: &[f64], (size, step): (usize, usize), f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    x.chunks(300).flat_map(|row| row.windows(size).step_by(step).map(&f).collect::<Vec<_>>()).collect()
}

fn variance(w: &[f64]) -> f64 {
    let mean = w.iter().sum::<f64>() / w.len() as f64;
    w.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / w.len() as f64
}

fn near(what: &str, got: &Tensor, want: &[f64], relative: f64) {
    let got = got.cast(DType::F64).to_vec::<f64>().unwrap();
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= relative * want.abs().max(1.0), "{what} {i}: {got}, not {want}");
    }
}

#[test]
fn folds_of_every_length_are_those_of_their_elements() {
    let _pinned = pinned();
    let (x, v) = rows();
    for (size, step) in [(17, 1), (31, 1), (32, 1), (33, 1), (64, 1), (64, 2), (64, 40), (100, 1), (257, 1), (300, 1)] {
        let windows = || x.window(1, size, step);
        let check = |what: &str, got: Tensor, relative: f64, f: &dyn Fn(&[f64]) -> f64| {
            near(&format!("{what} of {size} every {step}"), &got, &by_definition(&v, (size, step), f), relative);
        };
        let mean = |w: &[f64]| w.iter().sum::<f64>() / w.len() as f64;
        check("sum", windows().sum(2), 2e-5, &|w| w.iter().sum());
        check("mean", windows().mean_keepdim(-1), 1e-6, &mean);
        check("largest", windows().amax(2), 0.0, &|w| w.iter().copied().fold(f64::MIN, f64::max));
        check("smallest", windows().amin(2), 0.0, &|w| w.iter().copied().fold(f64::MAX, f64::min));
        check("variance", windows().var(2), 1e-5, &variance);
        check("deviation", windows().std_keepdim(2), 1e-5, &|w| variance(w).sqrt());
        // With elementwise functions in between.
        check("squares", windows().square().sum(2), 1e-5, &|w| w.iter().map(|v| v * v).sum());
        check("of bf16", windows().cast(DType::BF16).cast(DType::F32).mean(2), 2e-2, &mean);
        let whole = windows().cast(DType::I32);
        check("of integers", whole.sum(2), 0.0, &|w| w.iter().map(|v| v.trunc()).sum());
        // Jointly with the axis of the windows, and over all axes.
        let all = x.window(1, size, step).sum([1, 2]);
        let want: Vec<f64> = by_definition(&v, (size, step), |w| w.iter().sum());
        let count = want.len() / 3;
        near("of rows", &all, &want.chunks(count).map(|r| r.iter().sum()).collect::<Vec<_>>(), 1e-5);
    }
}

#[test]
fn windows_over_two_axes_are_folded_along_one_after_the_other() {
    let _pinned = pinned();
    let x = randn([40, 50]);
    let v = x.to_vec::<f32>().unwrap();
    let both = || x.window(0, 7, 1).window(1, 20, 1);
    let each = |f: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let window = |r: usize, c: usize| -> Vec<f64> {
            (0..7 * 20).map(|i| v[(r + i / 20) * 50 + c + i % 20] as f64).collect()
        };
        (0..34).flat_map(|r| (0..31).map(move |c| (r, c))).map(|(r, c)| f(&window(r, c))).collect()
    };
    near("means", &both().mean([2, 3]), &each(&|w| w.iter().sum::<f64>() / 140.0), 1e-6);
    near("largest", &both().amax([2, 3]), &each(&|w| w.iter().copied().fold(f64::MIN, f64::max)), 0.0);
    near("variances", &both().var_keepdim([2, 3]), &each(&variance), 1e-5);
    // Over one of the two axes only, each window of the other stays.
    let columns = both().sum(3);
    assert_eq!(columns.dims(), [34, 31, 7]);
    let sums = columns.sum(2);
    near("sums", &sums, &each(&|w| w.iter().sum()), 1e-5);
}

#[test]
fn steps_grow_with_the_logarithm_of_a_window() {
    let _pinned = pinned();
    let x = randn([4, 5000]);
    let recorded = |size: usize| {
        let (_, c) = counted(|| x.window(1, size, 1).amax(2));
        c.operations
    };
    // A window, two slices and one operation per step.
    assert!(recorded(64) <= 1 + 3 * 6 + 3, "{} operations for 64", recorded(64));
    assert!(recorded(2048) <= 1 + 3 * 11 + 3, "{} operations for 2048", recorded(2048));
    // Adjacent windows, and short ones, are plain folds.
    let (_, c) = counted(|| x.window(1, 100, 100).sum(2));
    assert_eq!((c.operations, c.kernels), (2, 1));
    let (_, c) = counted(|| x.window(1, 9, 1).sum(2));
    assert_eq!((c.operations, c.kernels), (2, 1));
}

#[test]
fn infinities_and_nan_stay_in_their_windows() {
    let _pinned = pinned();
    let (_, v) = rows();
    let mut numbers: Vec<f32> = v.iter().map(|&v| v as f32).collect();
    (numbers[50], numbers[150], numbers[420]) = (f32::INFINITY, f32::NAN, f32::NEG_INFINITY);
    let x = Tensor::new(numbers.as_slice()).reshape([3, 300]);
    let wide: Vec<f64> = numbers.iter().map(|&v| v as f64).collect();
    let check = |got: Tensor, f: &dyn Fn(&[f64]) -> f64| {
        let want = by_definition(&wide, (40, 1), f);
        for (i, (got, want)) in got.to_vec::<f32>().unwrap().into_iter().zip(want).enumerate() {
            let same = got as f64 == want || got.is_nan() && want.is_nan() || (got as f64 - want).abs() < 1e-3;
            assert!(same, "{i}: {got}, not {want}");
        }
    };
    check(x.window(1, 40, 1).sum(2), &|w| w.iter().sum());
    check(x.window(1, 40, 1).var(2), &variance);
    let largest = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    check(x.window(1, 40, 1).amax(2), &|w| w.iter().copied().fold(f64::NEG_INFINITY, largest));
}

/// The gradient of a sum over windows counts the windows of each element.
#[test]
fn gradients_flow_through() {
    let _pinned = pinned();
    let (x, v) = rows();
    let leaf = x.tracked();
    let slope = grad(&leaf.window(1, 64, 1).sum(2).sum(..), &leaf);
    let windows = |i: usize| (i % 300 + 1).min(300 - i % 300).min(64).min(237) as f64;
    near("windows", &slope, &(0..900).map(windows).collect::<Vec<_>>(), 1e-6);
    // A maximum that occurs twice shares its gradient, in every window.
    let twice = Tensor::new([1.0f32, 2.0, 2.0, 0.0].repeat(10).as_slice()).tracked();
    let slope = grad(&twice.window(0, 40, 1).amax(1).sum(..), &twice);
    assert_eq!(slope.to_vec::<f32>().unwrap(), [0.0, 0.05, 0.05, 0.0].repeat(10));
    let wanted = grad(&leaf.window(1, 32, 1).var(2).sum(..), &leaf);
    let mut want = vec![0.0; 900];
    for row in 0..3 {
        for start in 0..269 {
            let w = &v[300 * row + start..300 * row + start + 32];
            let mean = w.iter().sum::<f64>() / 32.0;
            (0..32).for_each(|i| want[300 * row + start + i] += 2.0 * (w[i] - mean) / 32.0);
        }
    }
    near("variances", &wanted, &want, 1e-4);
}

/// In strict mode a sum has one order, however it was recorded.
#[test]
fn strict_sums_are_folds() {
    let _pinned = pinned();
    let (x, _) = rows();
    let strictly = |f: &dyn Fn() -> Tensor| thalweg::with_strict(true, || f().to_vec::<f32>().unwrap());
    let at_once = strictly(&|| x.window(1, 50, 1).sum(2));
    let apart = strictly(&|| {
        let windows = x.window(1, 50, 1);
        thalweg::synchronize().unwrap();
        windows.sum(2)
    });
    assert_eq!(at_once, apart);
    let (_, c) = counted(|| thalweg::with_strict(true, || x.window(1, 50, 1).sum(2)));
    assert_eq!(c.operations, 2);
}
