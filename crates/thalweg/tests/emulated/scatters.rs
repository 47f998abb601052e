//! Scatters of few rows and many: the bits of the host, for any collisions.

use crate::{counted, emulated, indices, message, tensor, values};
use thalweg::prelude::*;

/// Pseudo-random numbers below `below`.
fn drawn(n: usize, below: u64, seed: u64) -> Vec<i64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    (0..n).map(|_| next() as i64).collect()
}

/// A tensor of dtype with numbers of all magnitudes, so that another order gives another sum.
fn uneven(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let n = shape.iter().product();
    if dtype == DType::I64 {
        let numbers: Vec<i64> = drawn(n, 1000, seed).iter().map(|v| (v - 500) * 0x1234_5678_9abc).collect();
        return Tensor::from_slice(&numbers, shape);
    }
    let numbers: Vec<f32> = drawn(n, 2000, seed).iter().map(|&v| (v as f32 - 1000.0) * 1.37e-3).collect();
    let x = Tensor::from_slice(&numbers, shape);
    if dtype == DType::Bool { x.gt(0.0) } else { x.cast(dtype) }
}

/// All bits of a tensor: dtypes narrower than f32 are exact in it.
fn bits(x: &Tensor) -> Vec<u64> {
    if x.dtype().is_float() {
        x.cast(DType::F32).to_vec::<f32>().unwrap().iter().map(|v| u64::from(v.to_bits())).collect()
    } else {
        x.cast(DType::I64).to_vec::<i64>().unwrap().iter().map(|&v| v as u64).collect()
    }
}

const SCATTERS: [ScatterOp; 5] = [ScatterOp::Set, ScatterOp::Add, ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min];

#[test]
fn scatters_of_few_lines_put_values_in_in_the_order_of_the_index() {
    let on = |x: &Tensor| x.to_device(emulated()).unwrap();
    // Shape of the tensor, axis, indices along it, number of distinct indices, launches that sort and combine.
    let cases: [(&[usize], usize, usize, u64, u64); 6] = [
        (&[300], 0, 1000, 300, 3),
        (&[4, 5], 0, 65, 4, 2),
        (&[70_000], 0, 2500, 70_000, 10),
        (&[3, 40], 1, 700, 7, 2),
        (&[2, 90, 3], 1, 129, 90, 2),
        (&[20, 1], 0, 5000, 3, 4),
    ];
    for (case, &(shape, axis, n, below, launches)) in cases.iter().enumerate() {
        let mut own = shape.to_vec();
        own[axis] = n;
        let numel: usize = own.iter().product();
        // Each operation on a few shapes: compiling takes longer than running.
        for (k, op) in SCATTERS.into_iter().enumerate().filter(|(k, _)| (case + k).is_multiple_of(3)) {
            let dtype = [DType::F32, DType::BF16, DType::F32, DType::Bool][(case + k) % 4];
            let seed = (10 * case + k) as u64;
            let x = uneven(shape, dtype, seed);
            let v = uneven(&own, dtype, seed + 100);
            let index = Tensor::from_slice(&drawn(numel, below, seed + 200), own.as_slice());
            let [a, b, c] = [&x, &v, &index].map(on);
            let (there, c) = counted(|| {
                let y = thalweg::with_strict(true, || a.scatter_reduce(axis, &c, &b, op));
                thalweg::flush();
                y
            });
            // Negative indices are resolved, and the tensor is copied; the last index is found by the kernel that reads
            // its value.
            let launches = if op == ScatterOp::Set { 2 } else { launches };
            assert_eq!(c.device_launches, 2 + launches, "case {case} {op:?}: {c:?}");
            assert_eq!(bits(&there), bits(&x.scatter_reduce(axis, &index, &v, op)), "case {case} {op:?} of {dtype}");
        }
    }
}

#[test]
fn lines_with_the_same_indices_are_sorted_once() {
    // The order of the index.
    thalweg::with_strict(true, || {
        let on = |x: &Tensor| x.to_device(emulated()).unwrap();
        // Negative indices count from the end. In the last case the first dimension has its own indices and the last has
        // none.
        for (shape, axis, n) in [([30, 5], 0, 65), ([7, 900], 1, 400), ([30, 3], 0, 2100)] {
            let mut own = shape;
            own[axis] = n;
            let places: Vec<i64> = drawn(n, 30, 5).iter().map(|i| if i % 3 == 0 { i - 30 } else { *i }).collect();
            let index = Tensor::new(&places[..]);
            let (x, v) = (uneven(&shape, DType::F32, 1), uneven(&own, DType::F32, 2));
            let [a, b, i] = [&x, &v, &index].map(on);
            let passes = if shape[axis] < 256 { 1 } else { 2 };
            let sort = if n <= 2048 { passes } else { 3 * passes };
            let both = || [a.index_add(axis, &i, &b), a.index_copy(axis, &i, &b)];
            let (y, c) = counted(both);
            assert!((6 + sort..=8 + sort).contains(&c.device_launches), "{c:?}");
            assert_eq!(bits(&y[0]), bits(&x.index_add(axis, &index, &v)));
            assert_eq!(bits(&y[1]), bits(&x.index_copy(axis, &index, &v)));
        }
        // Vectors of rows; values not aligned to vectors, and values of two dimensions.
        let index = Tensor::new(&drawn(90, 30, 8)[..]);
        let i = on(&index);
        for dtype in [DType::F32, DType::BF16, DType::I64] {
            let (x, v) = (uneven(&[30, 24], dtype, 1), uneven(&[91, 32], dtype, 2));
            let parts: [fn(&Tensor) -> Tensor; 3] = [
                |v| v.narrow(0, 1, 90).narrow(1, 8, 24),
                |v| v.narrow(0, 0, 90).narrow(1, 1, 24),
                |v| v.narrow(0, 0, 90).narrow(1, 0, 24).flip(1),
            ];
            for part in parts {
                let (got, want) = (on(&x).index_add(0, &i, part(&on(&v))), x.index_add(0, &index, part(&v)));
                assert_eq!(bits(&got), bits(&want), "{dtype}");
            }
        }
        let (x, v) = (uneven(&[5, 30, 3, 8], DType::F32, 1), uneven(&[5, 90, 3, 8], DType::F32, 2));
        let [a, b] = [&x, &v].map(on);
        assert_eq!(bits(&a.index_add(1, &i, &b)), bits(&x.index_add(1, &index, &v)));
        assert_eq!(bits(&a.index_copy(1, &i, &b)), bits(&x.index_copy(1, &index, &v)));

        let index = Tensor::from_slice(&drawn(3 * 200, 11, 6), [3usize, 200, 1]);
        let (x, v) = (uneven(&[3, 11, 4], DType::BF16, 3), uneven(&[3, 200, 4], DType::BF16, 4));
        let [a, b, i] = [&x, &v, &index].map(on);
        assert_eq!(bits(&a.scatter_add(1, &i, &b)), bits(&x.scatter_add(1, &index, &v)));
        // Values that are a constant, and computed ones.
        let flat = index.flatten();
        let there = on(&flat);
        let (x, on_x) = (uneven(&[11], DType::F32, 7), on(&uneven(&[11], DType::F32, 7)));
        assert_eq!(bits(&on_x.index_add(0, &there, 0.1)), bits(&x.index_add(0, &flat, 0.1)));
        let computed = |i: &Tensor| i.cast(DType::F32) * 0.3 - 1.0;
        assert_eq!(
            bits(&on_x.index_add(0, &(&there + 0), computed(&there))),
            bits(&x.index_add(0, &flat, computed(&flat)))
        );
    });
}

#[test]
fn whole_numbers_are_added_all_at_once() {
    // The order of the index.
    thalweg::with_strict(true, || {
        let on = |x: &Tensor| x.to_device(emulated()).unwrap();
        for (shape, axis, n) in [([2, 50], 1, 2100), ([40, 6], 0, 100)] {
            let mut own = shape;
            own[axis] = n;
            let index = Tensor::from_slice(&drawn(own[0] * own[1], 40, 8), own);
            for dtype in [DType::I64, DType::I32] {
                let (x, v) = (uneven(&shape, DType::I64, 1).cast(dtype), uneven(&own, DType::I64, 2).cast(dtype));
                let [a, b, i] = [&x, &v, &index].map(on);
                for op in SCATTERS {
                    let (y, c) = counted(|| a.scatter_reduce(axis, &i, &b, op));
                    let launches = match op {
                        ScatterOp::Set => 2,
                        ScatterOp::Prod if n > 2048 => 4,
                        ScatterOp::Prod => 2,
                        _ => 1,
                    };
                    assert_eq!(c.device_launches, 2 + launches, "{op:?}");
                    assert_eq!(bits(&y), bits(&x.scatter_reduce(axis, &index, &v, op)), "{op:?} of {dtype}");
                }
            }
        }
        let numbers = Tensor::new(&drawn(5000, 256, 9)[..]);
        assert_eq!(bits(&on(&numbers).bincount(0).unwrap()), bits(&numbers.bincount(0).unwrap()));
    });
}

#[test]
fn sums_in_few_places_are_counted_in_tables() {
    let on = |x: &Tensor| x.to_device(emulated()).unwrap();
    // Indices, values; one table per warp, and one for all.
    for (places, n) in [(1, 300), (7, 20_001), (3000, 30_000)] {
        for dtype in [DType::I64, DType::I32, DType::U32, DType::U64] {
            // Large numbers of both signs: the halves of 64 bits carry, and sums wrap.
            let wide: Vec<i64> = drawn(n, u64::MAX, 4).iter().map(|v| v.wrapping_mul(0x0123_4567_89ab_cdef)).collect();
            let v = Tensor::new(&wide[..]).cast(dtype);
            let index = Tensor::new(&drawn(2 * n, places, 5)[..]);
            let to = uneven(&[2 * places as usize], DType::I64, 6).cast(dtype);
            let [a, b, i] = [&to, &v, &index].map(on);
            // Elements of a vector and of a reversed one, a constant; indices and index tensors with gaps.
            let all: [fn(&Tensor, &Tensor, &Tensor) -> Tensor; 4] = [
                |to, i, v| to.index_add(0, &i.narrow(0, 0, v.numel()), v),
                |to, i, v| to.index_add(0, &i.slice(SliceArg::range(None, None, 2)), v.flip(0)),
                |to, i, _| to.slice(SliceArg::range(1, None, 2)).index_add(0, i, -3),
                |to, i, v| to.index_add(0, &(i.narrow(0, 1, v.numel()) / 2), v),
            ];
            for (k, f) in all.into_iter().enumerate().filter(|(k, _)| dtype == DType::I64 || k % 2 == n % 2) {
                if k == 2 && !dtype.is_signed() {
                    continue;
                }
                let (there, c) = counted(|| {
                    let y = f(&a, &i, &b);
                    thalweg::flush();
                    y
                });
                // The copy and the sums, which compute the index themselves; a constant is in the kernel.
                assert_eq!(c.device_launches, if k == 2 { 3 } else { 2 }, "{places} {k} {dtype}: {c:?}");
                assert_eq!(bits(&there), bits(&f(&to, &index, &v)), "{places} {k} {dtype}");
            }
        }
    }
    let x = uneven(&[5000], DType::F32, 1);
    let ((counts, edges), (want, same)) = (on(&x).histogram(10), x.histogram(10));
    assert_eq!((bits(&counts), bits(&edges)), (bits(&want), bits(&same)));
    // An index out of range is reported, also if it was computed.
    let index = on(&Tensor::new(&drawn(1000, 11, 5)[..]));
    let zeros = Tensor::zeros_with([10], (DType::I64, emulated()));
    let said = "index_add: an index is out of range for axis 0 of size 10, at ";
    assert!(message(&zeros.index_add(0, &index, 1).cast(DType::F32)).contains(said));
    assert!(message(&zeros.index_add(0, &(&index + 1), 1).cast(DType::F32)).contains(said));
}

/// Sums in any order along the last axis: the threads of a warp add equal neighbouring indices first. Whole numbers are
/// exact in any order.
#[test]
fn sums_of_equal_neighbours_are_added_by_a_warp() {
    let on = |x: &Tensor| x.to_device(emulated()).unwrap();
    let before = thalweg::set_atomic_sums(true);
    let sorted = |n: usize, below: u64| {
        let mut all = drawn(n, below, 4);
        all.sort_unstable();
        all
    };
    // One element with all values; runs across warps; few equal neighbours; two rows with indices of their own.
    let cases: [(&[usize], Vec<i64>); 5] = [
        (&[5], vec![3; 70]),
        (&[900], sorted(4000, 90)),
        (&[900], sorted(1000, 900)),
        (&[900], drawn(1000, 9, 5)),
        (&[2, 40], [sorted(333, 40), drawn(333, 3, 6)].concat()),
    ];
    for (case, (shape, places)) in cases.iter().enumerate() {
        let mut own = shape.to_vec();
        *own.last_mut().unwrap() = places.len() / own[..own.len() - 1].iter().product::<usize>();
        let index = Tensor::from_slice(places, own.as_slice());
        for dtype in [DType::F32, DType::F64] {
            let v = Tensor::from_slice(&drawn(places.len(), 100, 7), own.as_slice()).cast(dtype);
            let x = Tensor::arange(shape.iter().product::<usize>() as i64).reshape(*shape).cast(dtype);
            let axis = shape.len() - 1;
            let [a, b, i] = [&x, &v, &index].map(on);
            let (got, want) = (a.scatter_add(axis, &i, &b), x.scatter_add(axis, &index, &v));
            assert_eq!(got.to_f64_vec().unwrap(), want.to_f64_vec().unwrap(), "case {case} of {dtype}");
        }
    }
    let mut bad = drawn(100, 9, 8);
    bad[77] = 9;
    let y = on(&Tensor::ones([9])).index_add(0, &on(&Tensor::new(&bad[..])), on(&Tensor::ones([100])));
    assert!(message(&y).starts_with("index_add: an index is out of range for axis 0 of size 9"), "{}", message(&y));
    thalweg::set_atomic_sums(before);
}

#[test]
fn sorted_scatters_tell_of_indices_out_of_range() {
    let told = |x: &Tensor, name: &str, n: usize, bad: i64| {
        let told = message(x);
        assert!(
            told.contains(&format!("{name}: an index is out of range for axis 0 of size {n}, at ")),
            "{bad}: {told}"
        );
    };
    for (size, bad) in [(255usize, 255i64), (256, 256), (256, -257), (9, 1 << 32), (9, i64::MIN), (5, 1 << 40)] {
        let mut places = drawn(300, size as u64, 3);
        places[177] = bad;
        let zeros = tensor(&vec![0.0; size]);
        told(&zeros.index_add(0, &indices(&places), 1.0), "index_add", size, bad);
        told(&zeros.index_copy(0, &indices(&places), 1.0), "index_copy", size, bad);
        let whole = zeros.cast(DType::I64).index_add(0, &indices(&places), 1);
        told(&whole.cast(DType::F32), "index_add", size, bad);
        assert_eq!(values(&zeros.index_add(0, &indices(&places[..170]), 0.0)), vec![0.0; size]);
    }
}

#[test]
fn sorted_scatters_write_over_what_dies() {
    // The order of the index.
    thalweg::with_strict(true, || {
        let v = uneven(&[500, 3], DType::F32, 1);
        let index = Tensor::new(&drawn(500, 20, 2)[..]);
        let want = bits(&Tensor::ones([20, 3]).index_add(0, &index, &v));
        let (there, at) = (v.to_device(emulated()).unwrap(), index.to_device(emulated()).unwrap());
        let (y, c) = counted(|| {
            let x = Tensor::ones_with([20, 3], (DType::F32, emulated()));
            thalweg::flush();
            let y = { x }.index_add(0, &at, &there);
            thalweg::flush();
            y
        });
        assert_eq!(c.reused_in_place, 1, "or this proves nothing");
        assert_eq!(bits(&y), want);
    });
}

/// Elements with many values: their runs are cut into chunks, which are combined by a warp.
#[test]
fn long_runs_are_cut_into_chunks_where_the_order_is_free() {
    let on = |x: &Tensor| x.to_device(emulated()).unwrap();
    // Shape of the tensor, axis, indices, number of distinct indices: one element with all values; runs that begin and
    // end within chunks; lines with indices of their own; lines that share indices, as vectors and not.
    let cases: [(&[usize], usize, usize, u64); 6] = [
        (&[3], 0, 9000, 1),
        (&[3], 0, 1000, 3),
        (&[3, 4], 1, 700, 2),
        (&[2, 5, 3], 1, 1029, 4),
        (&[3, 32], 0, 400, 3),
        (&[5, 2, 16], 1, 300, 1),
    ];
    for (case, &(shape, axis, n, below)) in cases.iter().enumerate() {
        let mut own = shape.to_vec();
        own[axis] = n;
        let shared = case >= 4;
        for (k, op) in SCATTERS[1..].iter().enumerate().filter(|(k, _)| (case + k).is_multiple_of(2)) {
            let dtype = if k > 1 && case % 3 == 0 { DType::BF16 } else { DType::F32 };
            let seed = (10 * case + k) as u64;
            let values = uneven(&own, dtype, seed + 100);
            // Products near one.
            let v = if *op == ScatterOp::Prod { values * 1e-3 + 1.0 } else { values };
            let x = uneven(shape, dtype, seed);
            let mut of_index = own.clone();
            if shared {
                of_index.iter_mut().enumerate().filter(|(d, _)| *d != axis).for_each(|(_, size)| *size = 1);
            }
            let numel: usize = of_index.iter().product();
            let index = Tensor::from_slice(&drawn(numel, below, seed + 200), of_index.as_slice());
            let index = index.expand(own.as_slice());
            let [a, b, c] = [&x, &v, &index].map(on);
            let got = a.scatter_reduce(axis, &c, &b, *op).to_f64_vec().unwrap();
            let want = x.scatter_reduce(axis, &index, &v, *op).to_f64_vec().unwrap();
            let exact = matches!(op, ScatterOp::Max | ScatterOp::Min);
            for (g, w) in got.iter().zip(&want) {
                let near = (g - w).abs() <= if exact { 0.0 } else { 2e-4 * (1.0 + w.abs()) };
                assert!(near, "case {case} {op:?} of {dtype}: {g}, not {w}");
            }
        }
    }
    // An index out of range is an error as before.
    let mut bad = drawn(600, 2, 1);
    bad[300] = 7;
    let y = on(&Tensor::ones([2])).index_add(0, &on(&Tensor::new(&bad[..])), on(&Tensor::ones([600])));
    assert!(message(&y).starts_with("index_add: an index is out of range for axis 0 of size 2"), "{}", message(&y));
}
