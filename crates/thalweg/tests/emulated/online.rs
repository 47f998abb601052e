//! Rows too long for a multiprocessor: folds that depend on an earlier fold run in the same pass over memory.

use super::{counted, emulated};
use thalweg::prelude::*;

/// Rows of numbers around `mean`.
fn rows(shape: [usize; 2], mean: f64) -> Tensor {
    let n = shape[0] * shape[1];
    let numbers: Vec<f32> = (0..n).map(|i| (mean + ((i * 7919) % 2003) as f64 / 500.0 - 2.0) as f32).collect();
    Tensor::new(numbers.as_slice()).reshape(shape)
}

type Formula = fn(&Tensor) -> Tensor;

/// Sums of powers of deviations from a mean. None cancels to less than 1.0 in magnitude.
const FORMULAS: [(&str, Formula); 4] = [
    ("variance", |x| x.var(1)),
    ("fourth moment", |x| (x - x.mean_keepdim(1)).square().square().mean(1)),
    ("kurtosis", |x| {
        let square = (x - x.mean_keepdim(1)).square();
        square.square().mean(1) / square.mean(1).square()
    }),
    ("weighted", |x| ((x - x.mean_keepdim(1)).square() * x.abs()).mean(1)),
];

fn in_f64(f: Formula, x: &Tensor) -> Vec<f64> {
    f(&x.cast(DType::F64)).cast(DType::F64).to_vec::<f64>().unwrap()
}

#[test]
fn long_rows_are_read_once() {
    // A few rows, each split among blocks, one of them long; and one per multiprocessor.
    for (shape, mean) in [([1, 70_003], 1.0), ([3, 40_000], 1000.0), ([140, 34_000], -3.0)] {
        let host = rows(shape, mean);
        let x = host.to_device(emulated()).unwrap();
        thalweg::synchronize().unwrap();
        let bytes = (4 * shape[0] * shape[1]) as u64;
        // Many rows take long here, as does compiling each formula.
        let some = if shape[0] == 1 { &FORMULAS[..] } else { &FORMULAS[..1] };
        for &(name, f) in some {
            let (y, c) = counted(|| f(&x));
            // Partial results of blocks, and a few numbers per row.
            assert!(c.bytes_read < bytes + bytes / 4, "{name} of {shape:?}: {} bytes of {bytes}", c.bytes_read);
            let y = y.to_vec::<f32>().unwrap();
            for (got, want) in y.iter().zip(in_f64(f, &host)) {
                let near = (*got as f64 - want).abs() <= 2e-5 * want.abs().max(0.1);
                assert!(near, "{name} of {shape:?}: {got}, not {want}");
            }
        }
    }
}

/// Variances of several tensors are one grouped launch; each kernel numbers its states from 0, of its own dtype.
#[test]
fn variances_are_grouped() {
    let x = rows([140, 34_000], 1.0).to_device(emulated()).unwrap();
    let y = rows([150, 17_000], -3.0).cast(DType::F64).to_device(emulated()).unwrap();
    thalweg::synchronize().unwrap();
    let (results, c) = counted(|| (x.var(1), y.var(1)));
    assert_eq!((c.kernels, c.device_launches), (1, 1), "{c:?}");
    for (got, of) in [(results.0.cast(DType::F64), x.cast(DType::F64)), (results.1, y)] {
        let want = in_f64(|x| x.var(1), &of.to_device(Device::from_name("cpu").unwrap()).unwrap());
        for (got, want) in got.to_vec::<f64>().unwrap().iter().zip(want) {
            assert!((got - want).abs() <= 2e-5 * want.abs(), "{got}, not {want}");
        }
    }
}

/// Rows with infinities and NaN give the results of two passes.
#[test]
fn what_is_not_finite_gives_what_two_passes_give() {
    type Change = (&'static str, fn(&mut Vec<f32>));
    let changes: [Change; 5] = [
        ("a block of -∞", |v| v[..9000].fill(f32::NEG_INFINITY)),
        ("all -∞", |v| v.fill(f32::NEG_INFINITY)),
        ("one ∞", |v| v[41_000] = f32::INFINITY),
        ("one NaN", |v| v[41_000] = f32::NAN),
        ("far away", |v| v[41_000] = 1e30),
    ];
    for (what, change) in changes {
        let mut numbers = rows([1, 70_003], 0.5).to_vec::<f32>().unwrap();
        change(&mut numbers);
        let x = Tensor::new(numbers.as_slice()).reshape([1, 70_003]);
        let device = x.to_device(emulated()).unwrap();
        for (name, f) in [FORMULAS[0], FORMULAS[1]] {
            let got = f(&device).item::<f32>().unwrap();
            let want = thalweg::with_strict(true, || f(&x).item::<f32>().unwrap());
            let near = (got - want).abs() <= 1e-4 * want.abs();
            let same = got == want || got.is_nan() && want.is_nan() || near;
            assert!(same, "{name} with {what}: {got}, in two passes {want}");
        }
    }
}

/// A thread's first elements may be far from the following ones: little cancels all the same.
#[test]
fn steps_and_slopes_lose_no_digits() {
    let n = 70_003;
    type Elements = fn(usize) -> f32;
    let shapes: [(&str, Elements); 3] = [
        ("a step", |i| if i < 9000 { 0.0 } else { 1000.0 + (i % 7) as f32 }),
        ("a slope", |i| i as f32 * 0.25),
        ("one far away", |i| if i == 0 { 1e4 } else { (i % 11) as f32 }),
    ];
    for (what, f) in shapes {
        let numbers: Vec<f32> = (0..n).map(f).collect();
        let x = Tensor::new(numbers.as_slice()).reshape([1, n]);
        let got = x.to_device(emulated()).unwrap().var(1).item::<f32>().unwrap() as f64;
        let want = in_f64(|x| x.var(1), &x)[0];
        assert!((got - want).abs() <= 2e-6 * want, "{what}: {got}, not {want}");
    }
}
