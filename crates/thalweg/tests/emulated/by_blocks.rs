//! Outer-axis reductions split among blocks, on a chip whose cache is too small for a row.

use super::counted;
use thalweg::prelude::*;

/// A chip with a cache of 4 KiB, and at most two co-resident blocks.
fn small() -> Device {
    Device::from_name("cuda:emulated:small").expect("there is a C++ compiler")
}

fn numbers(shape: [usize; 2], dtype: DType) -> Tensor {
    let n = shape[0] * shape[1];
    let list: Vec<f32> = (0..n).map(|i| ((i * 7919) % 2003) as f32 / 500.0 - 2.0).collect();
    Tensor::new(list.as_slice()).reshape(shape).cast(dtype)
}

type Formula = fn(&Tensor) -> Tensor;

/// Formulas with one fold, with two and three in sequence, with several at once, with integers, and with values beside
/// the elements.
const FORMULAS: [(&str, Formula); 6] = [
    ("centred", |x| x - x.mean_keepdim(0)),
    ("softmax", |x| x.softmax(0)),
    ("norm", |x| {
        let d = x - x.mean_keepdim(0);
        &d / (d.square().mean_keepdim(0) + 1e-5).sqrt()
    }),
    ("range", |x| (x - x.amin_keepdim(0)) / (x.amax_keepdim(0) - x.amin_keepdim(0))),
    ("how many are below", |x| x.lt(x.mean_keepdim(0)).cast(DType::I64) - x.gt(0.0).cast(DType::I64).sum_keepdim(0)),
    ("spread", |x| (x - x.amax_keepdim(0)).exp().sum(0)),
];

#[test]
fn columns_are_read_once() {
    // Chunks of a row: one, two with a shorter second one, and rows that do not fill a vector.
    for (shape, dtype) in [
        ([500, 48], DType::F32),
        ([700, 100], DType::F32),
        ([1000, 37], DType::F32),
        ([900, 64], DType::BF16),
        ([600, 30], DType::F64),
    ] {
        let host = numbers(shape, dtype);
        let x = host.to_device(small()).unwrap();
        thalweg::synchronize().unwrap();
        let bytes = (dtype.size() * shape[0] * shape[1]) as u64;
        let some = if dtype == DType::F32 && shape[0] == 700 { &FORMULAS[..] } else { &FORMULAS[1..3] };
        for &(name, f) in some {
            let (y, c) = counted(|| f(&x));
            assert_eq!((c.kernels, c.scratch_bytes), (1, 0), "{name} of {shape:?} {dtype}");
            assert_eq!(c.bytes_read, bytes, "{name} of {shape:?} {dtype}");
            let want = f(&host.cast(DType::F64)).cast(DType::F64).to_vec::<f64>().unwrap();
            let bound = if dtype == DType::BF16 { 1e-2 } else { 2e-6 };
            for (got, want) in y.cast(DType::F64).to_vec::<f64>().unwrap().iter().zip(want) {
                let near = (got - want).abs() <= bound * want.abs().max(1e-3) || (got - want).abs() <= bound;
                assert!(near, "{name} of {shape:?} {dtype}: {got}, not {want}");
            }
        }
    }
}

/// Rows too long for the co-resident blocks are read in every pass.
#[test]
fn longer_rows_are_read_again() {
    let x = numbers([3000, 40], DType::F32).to_device(small()).unwrap();
    thalweg::synchronize().unwrap();
    let (_, c) = counted(|| x.softmax(0));
    assert!(c.bytes_read > 2 * 4 * 3000 * 40, "{} bytes", c.bytes_read);
}

#[test]
fn what_is_not_finite_stays_in_its_column() {
    let mut list = numbers([700, 40], DType::F32).to_vec::<f32>().unwrap();
    (list[600 * 40 + 3], list[7], list[650 * 40 + 9]) = (f32::INFINITY, f32::NAN, f32::NEG_INFINITY);
    let host = Tensor::new(list.as_slice()).reshape([700, 40]);
    let [got, want] = [small(), Device::cpu()].map(|d| {
        let x = host.to_device(d).unwrap();
        (x.softmax(0) * 700.0).to_vec::<f32>().unwrap()
    });
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let near = got.is_nan() && want.is_nan() || (got - want).abs() <= 1e-5 * want.abs().max(1.0);
        assert!(near, "{got}, not {want}, in column {}", at % 40);
    }
}
