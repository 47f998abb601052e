//! Scans and sorts: the results of the host, however rows are split among blocks.

use crate::{counted, emulated};
use thalweg::prelude::*;

/// Numbers with ties, zeros of both signs, and a NaN if the dtype has it and there are enough elements.
fn scattered(shape: [usize; 2], dtype: DType) -> Tensor {
    let n = shape[0] * shape[1];
    let number = |i: usize| match i {
        7 => -0.0,
        8 => 0.0,
        i => ((i * 7919 % 1009) as f64 - 504.0) / 64.0,
    };
    let mut all: Vec<f64> = (0..n).map(number).collect();
    if n > 200 && dtype.is_float() {
        all[n - 100] = f64::NAN;
    }
    let scale = if dtype.is_float() { 1.0 } else { 64.0 };
    let all: Vec<f64> = all.iter().map(|x| x * scale).collect();
    Tensor::from_slice(&all, shape).cast(dtype)
}

/// Elements as f64, converted by the host: a cast on the GPU would be one more kernel to compile.
fn wide(x: &Tensor) -> Vec<f64> {
    x.to_device(Device::cpu()).unwrap().cast(DType::F64).to_vec::<f64>().unwrap()
}

/// Compares `f` on both devices: up to a rounding of the dtype, or `exactly`.
fn compare(what: &str, x: &Tensor, exactly: bool, f: impl Fn(&Tensor) -> Tensor) {
    let here = f(x);
    let there = f(&x.to_device(emulated()).unwrap());
    assert_eq!((here.dims(), here.dtype()), (there.dims(), there.dtype()));
    let close = match x.dtype() {
        DType::BF16 | DType::F16 => 1e-2,
        DType::F32 => 1e-6,
        _ => 1e-12,
    };
    for (i, (a, b)) in wide(&here).iter().zip(&wide(&there)).enumerate() {
        let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let near = !exactly && (a - b).abs() <= close * a.abs().max(1.0);
        assert!(same || near, "{what} of {:?} {:?}, {i}: {a} and not {b}", x.dtype(), x.dims());
    }
}

/// Rows and points for every code path: short, one iteration, several, chunks; alone, and with others. Compiling takes
/// the time, so not every combination is tested.
const ROWS: [[usize; 2]; 9] =
    [[1, 1], [67, 3], [40, 16], [5, 255], [2, 257], [3, 1000], [2, 2049], [3, 8193], [1, 20000]];
const DTYPES: [DType; 4] = [DType::I64, DType::BF16, DType::F64, DType::F16];

#[test]
fn running_sums_are_those_of_the_host() {
    for (i, shape) in ROWS.into_iter().enumerate() {
        let x = scattered(shape, DType::F32);
        let other = scattered(shape, DTYPES[i % 4]);
        let (x, other) = if i % 2 == 0 { (x, other) } else { (other, x) };
        compare("cumsum", &x, !x.dtype().is_float(), |x| x.cumsum(1));
        compare("cumsum_reverse", &other, !other.dtype().is_float(), |x| x.cumsum_reverse(1));
    }
    for shape in [[0, 5], [5, 0]] {
        compare("cumsum", &scattered(shape, DType::F32), true, |x| x.cumsum(1));
    }
}

#[test]
fn running_extremes_are_those_of_the_host() {
    for (i, shape) in ROWS.into_iter().enumerate() {
        let x = scattered(shape, DType::F32);
        match i % 3 {
            0 => compare("cummax", &x, true, |x| x.cummax(1)),
            1 => compare("cummin_reverse", &x, true, |x| x.cummin_reverse(1)),
            _ => compare("cummax_reverse", &scattered(shape, DType::I32), true, |x| x.cummax_reverse(1)),
        }
    }
}

#[test]
fn running_logarithms_and_products_are_those_of_the_host() {
    for (i, shape) in ROWS.into_iter().enumerate() {
        let x = scattered(shape, DType::F32);
        if i % 2 == 0 {
            compare("logcumsumexp", &x, false, |x| x.logcumsumexp(1));
            compare("cumprod", &scattered(shape, DType::I64), true, |x| x.cumprod(1));
        } else {
            compare("logcumsumexp_reverse", &x, false, |x| x.logcumsumexp_reverse(1));
            compare("cumprod", &(1.0 + x * 1e-3), false, |x| x.cumprod_reverse(1));
        }
    }
}

#[test]
fn scans_of_columns_are_those_of_the_host() {
    for (i, shape) in [[4, 100], [1, 40], [9, 8], [300, 3], [70, 33], [1000, 12], [2100, 40]].into_iter().enumerate() {
        let x = scattered(shape, DType::F32);
        compare("cumsum", &x, false, |x| x.cumsum(0));
        match i % 3 {
            0 => compare("cumsum", &scattered(shape, DType::I64), true, |x| x.cumsum_reverse(0)),
            1 => compare("cummax", &scattered(shape, DType::BF16), true, |x| x.cummax_reverse(0)),
            _ => compare("cumprod", &(1.0 + x * 1e-3), false, |x| x.cumprod(0)),
        }
    }
    compare("sort", &scattered([300, 3], DType::F32), true, |x| x.sort(0, true));
    compare("argsort", &scattered([2100, 2], DType::I64), true, |x| x.argsort(0, false));
}

#[test]
fn sorts_are_those_of_the_host() {
    for (i, shape) in ROWS.into_iter().enumerate() {
        let x = scattered(shape, if i % 2 == 0 { DType::F32 } else { DTYPES[i % 4] });
        compare("sort", &x, true, |x| x.sort(1, i % 4 < 2));
        compare("sort", &scattered(shape, DTYPES[(i + 1) % 4]), true, |x| x.sort(1, true));
    }
    for shape in [[0, 5], [5, 0]] {
        compare("argsort", &scattered(shape, DType::F32), true, |x| x.argsort(1, false));
    }
}

#[test]
fn places_of_sorts_are_those_of_the_host() {
    for (i, shape) in ROWS.into_iter().enumerate() {
        let x = scattered(shape, [DType::F32, DType::I16, DType::F64, DType::BF16, DType::I64][i % 5]);
        compare("argsort", &x, true, |x| x.argsort(1, i % 2 == 0));
        // Many ties.
        let bytes = (scattered(shape, DType::I32) % 5).cast(DType::U8);
        compare("argsort", &bytes, true, |x| x.argsort(1, i % 2 == 1));
    }
}

/// Rows long enough for a radix sort; of all dtypes, with ties, and with digits in which all keys agree.
#[test]
fn long_rows_are_sorted_by_digits() {
    let dtypes = [
        (DType::U8, 5_000),
        (DType::I8, 9_001),
        (DType::Bool, 5_000),
        (DType::BF16, 20_000),
        (DType::I16, 9_000),
        (DType::F16, 9_000),
        (DType::F32, 40_000),
        (DType::I32, 40_001),
        (DType::U32, 33_000),
        (DType::I64, 140_000),
        (DType::F64, 140_000),
    ];
    for (i, (dtype, n)) in dtypes.into_iter().enumerate() {
        let spread = |shape| scattered(shape, DType::F64) * if dtype == DType::U8 { 3.0 } else { 2500.0 };
        let x = match dtype {
            DType::F64 => spread([1, n]),
            DType::Bool => scattered([1, n], DType::I32).gt(100),
            DType::U8 | DType::U32 => spread([1, n]).abs().cast(dtype),
            DType::I8 => (scattered([2, n], DType::I32) % 100).cast(dtype),
            dtype if dtype.is_float() => spread([2, n]).cast(dtype),
            DType::I16 => spread([1, n]).clamp(-30_000.0, 30_000.0).cast(dtype),
            _ => spread([2, n]).cast(dtype),
        };
        compare("sort", &x, true, |x| x.sort(1, i % 2 == 0));
        compare("argsort", &x, true, |x| x.argsort(1, i % 2 == 1));
    }
    // All equal, and in columns.
    compare("argsort", &Tensor::full([1, 40_000], 2.5f32), true, |x| x.argsort(1, false));
    compare("sort", &scattered([40_000, 3], DType::F32), true, |x| x.sort(0, true));
}

#[test]
fn few_long_rows_are_shared_by_blocks() {
    let launches = |shape: [usize; 2], f: &dyn Fn(&Tensor) -> Tensor| {
        let x = scattered(shape, DType::F32).to_device(emulated()).unwrap();
        thalweg::synchronize().unwrap();
        let (y, c) = counted(|| {
            let y = f(&x);
            thalweg::synchronize().unwrap();
            y
        });
        assert_eq!((y.dims(), c.kernels), (&shape[..], 1));
        c.device_launches
    };
    // In the registers of one block, or of several that exchange prefixes.
    assert_eq!(launches([1, 20000], &|x| x.cumsum(1)), 1);
    assert_eq!(launches([3, 8193], &|x| x.cumsum(1)), 1);
    assert_eq!(launches([2, 40000], &|x| x.cumsum_reverse(1)), 1);
    // Columns: elements to a buffer, folds of chunks, the scan, and the result from there. For products of floats there
    // are no folds.
    assert_eq!(launches([2100, 40], &|x| x.cumsum(0)), 4);
    assert_eq!(launches([1, 8192], &|x| x.cumprod(1)), 3);
    // Sorted runs, and merges.
    assert_eq!(launches([30, 256], &|x| x.sort(1, false)), 3);
    assert_eq!(launches([1, 2048], &|x| x.argsort(1, false)), 3);
    assert_eq!(launches([1, 20000], &|x| x.sort(1, false)), 3 + 4);
    // Or radix passes: counts, then one digit after the other.
    assert_eq!(launches([2, 40_000], &|x| x.sort(1, false)), 3 + 4);
}

/// Rows of several tiles, of several groups of 32 tiles, and of more groups than a warp looks back at.
#[test]
fn long_rows_are_passed_on_from_tile_to_tile() {
    for (i, shape) in [[2, 70_000], [3, 50_001], [1, 1_200_001]].into_iter().enumerate() {
        let x = scattered(shape, DType::F32);
        compare("cumsum", &x, false, |x| x.cumsum(1));
        if i < 2 {
            compare("cumsum_reverse", &scattered(shape, DTYPES[i]), i == 0, |x| x.cumsum_reverse(1));
            compare("cummax_reverse", &x, true, |x| x.cummax_reverse(1));
            compare("logcumsumexp", &x, false, |x| x.logcumsumexp(1));
        }
    }
}

/// The prologue and the epilogue of a scan stay in registers, in rows that fit a block and in longer ones.
#[test]
fn maps_before_and_behind_a_scan_are_in_its_kernel() {
    for n in [1000, 5000, 40_000] {
        let f = |x: &Tensor| (x * 0.5).exp().cumsum(1) / (x.abs() + 1.0);
        let x = scattered([2, n], DType::F32).cummax(1);
        compare("between maps", &x, false, f);
        let x = x.to_device(emulated()).unwrap();
        thalweg::synchronize().unwrap();
        let (_y, c) = counted(|| {
            let y = f(&x);
            thalweg::synchronize().unwrap();
            y
        });
        assert_eq!((c.kernels, c.device_launches, c.scratch_bytes), (1, 1, 0), "{n}");
        assert_eq!([c.bytes_read, c.bytes_written], [2 * 4 * n as u64; 2], "{n}: each element once");
    }
    // Folds before it, with a value of the row in between: a fold and a pass for long rows.
    for (n, launches) in [(3000, 1), (40_000, 2)] {
        let f = |x: &Tensor| (x - x.amax_keepdim(1)).exp().cumsum(1);
        let x = scattered([2, n], DType::F32).cummax(1);
        compare("behind a fold", &x, false, f);
        let x = x.to_device(emulated()).unwrap();
        thalweg::synchronize().unwrap();
        let (_y, c) = counted(|| {
            let y = f(&x);
            thalweg::synchronize().unwrap();
            y
        });
        assert_eq!((c.kernels, c.device_launches), (1, launches), "{n}");
    }
}

#[test]
fn a_running_sum_has_the_same_bits_whoever_shares_its_row() {
    // Enough rows for a block each, and one of them alone; rows split among several blocks.
    for (n, rows) in [(8200, 264), (40_000, 3)] {
        let row: Vec<f64> = (0..n).map(|i| ((i * 7919 % 1009) as f64 - 504.0) / 7.0).collect();
        let x = Tensor::from_slice(&row, [1, n]).to_device(emulated()).unwrap();
        let bits = |x: &Tensor| -> Vec<u64> { wide(x).iter().map(|x| x.to_bits()).collect() };
        let many = x.expand([rows, n]).cumsum(1);
        thalweg::synchronize().unwrap();
        let many = many.narrow(0, rows / 2, 1);
        assert_eq!(bits(&x.cumsum(1)), bits(&many));
    }
}
