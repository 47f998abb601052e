//! Array operations: distinct elements, slices of results, folds of operands with different layouts.

#![allow(clippy::reversed_empty_ranges, reason = "a negative end counts from the end")]

use super::{counted, emulated};
use thalweg::prelude::*;

fn on(x: &Tensor) -> Tensor {
    x.to_device(emulated()).unwrap()
}

#[test]
fn distinct_integers_are_counted_where_their_range_is_small() {
    // Counted; a range that is too large; one that overflows i64; too few elements.
    for (n, numbers, range) in [(1 << 16, 300, 1), (1 << 16, 300, 10_000), (1 << 16, 3, i64::MAX), (1000i64, 50, 1i64)]
    {
        let all: Vec<i64> = (0..n).map(|i: i64| (i * 7919 % numbers - numbers / 2).saturating_mul(range)).collect();
        let mut want = all.clone();
        want.sort_unstable();
        want.dedup();
        let x = Tensor::new(&all[..]);
        for x in [x.clone(), on(&x)] {
            assert_eq!(x.unique().unwrap().to_vec::<i64>().unwrap(), want, "{n} {numbers} {range}");
        }
        if range < 100 {
            for dtype in [DType::I16, DType::I32] {
                let own = on(&x.cast(dtype)).unique().unwrap();
                assert_eq!((own.dtype(), own.cast(DType::I64).to_vec::<i64>().unwrap()), (dtype, want.clone()));
            }
        }
    }
    let words = Tensor::new(&[u64::MAX, 3, u64::MAX][..]).broadcast_to([1 << 15, 3]);
    assert_eq!(on(&words).unique().unwrap().to_vec::<u64>().unwrap(), [3, u64::MAX]);
}

#[test]
fn parts_of_a_buffer_are_read_by_themselves() {
    let x = Tensor::new(&(0..5000i64).collect::<Vec<_>>()[..]).reshape([50, 100]);
    let there = on(&x);
    let parts: [fn(&Tensor) -> Tensor; 6] = [
        |x| x.slice((-1, -1)),
        |x| x.slice((3, 10..20)),
        |x| x.slice((3..40, 7)),
        |x| x.flip(0).flip(1),
        |x| x.slice((3..5, 10..20)).t(),
        |x| x.slice((3..5, 10..11)).broadcast_to([2, 4]),
    ];
    for part in parts {
        assert_eq!(part(&there).to_vec::<i64>().unwrap(), part(&x).to_vec::<i64>().unwrap());
    }
}

#[test]
fn folds_over_operands_that_lie_both_ways_go_by_tiles() {
    for (n, dtype) in [(128, DType::F32), (192, DType::BF16), (100, DType::F32), (96, DType::F64)] {
        let whole: Vec<f32> = (0..n * n).map(|i| ((i * 31 % 17) as f32 - 8.0) * 0.25).collect();
        let x = Tensor::from_slice(&whole, [n, n]).cast(dtype);
        let there = on(&x);
        let formulas: [fn(&Tensor) -> Tensor; 3] = [
            |x| (x * x.t()).cast(DType::F64).sum(..),
            |x| (x * x.t()).cast(DType::F64).var(..),
            |x| (x - x.t() * 2.0).cast(DType::F64).argmax(..).cast(DType::F64),
        ];
        for (k, f) in formulas.into_iter().enumerate() {
            let (got, c) = counted(|| f(&there));
            assert_eq!(c.kernels, 1, "{k}");
            let (got, want) = (got.item::<f64>().unwrap(), f(&x).item::<f64>().unwrap());
            assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{k} of {dtype}: {got}, not {want}");
        }
    }
}

#[test]
fn folds_without_borders_take_two_points_at_a_time() {
    let x = Tensor::new(&(0..1 << 20).map(|i| (i % 23) as f32).collect::<Vec<_>>()[..]).reshape([16, 256, 256]);
    let want: f32 = x.slice((.., 1..-1, 1..-1)).sum(..).item().unwrap();
    let padded = x.pad([(0, 4), (0, 0), (0, 0)], 0.0);
    let got: f32 = on(&padded).slice((.., 1..-1, 1..-1)).sum(..).item().unwrap();
    assert!((got - want).abs() <= 1e-6 * want, "{got}, not {want}");
}

#[test]
fn threads_have_several_pairs_of_rows_where_there_are_many() {
    // 63 times 180 threads, the last ones with two pairs of four; rows of whole vectors, and of odd lengths.
    let formulas: [fn(&Tensor, &Tensor) -> Tensor; 4] = [
        |x, y| (x - y).square().sum(-1),
        |x, y| (y - x).abs().amax(-1) + x.slice((.., .., 0)),
        |x, y| (x * y).sum(-1).cast(DType::F64) - (x + y).amin(-1).cast(DType::F64),
        |x, y| x.gt(y).cast(DType::I64).sum(-1).cast(DType::F64),
    ];
    for (n, dtype) in
        [(16, DType::F32), (4, DType::F32), (3, DType::F32), (8, DType::BF16), (6, DType::F64), (1, DType::I32)]
    {
        let points = |count: usize, by: usize| {
            let values: Vec<f32> = (0..count * n).map(|i| ((i * by % 23) as f32 - 11.0) * 0.25).collect();
            Tensor::from_slice(&values, [count, n]).cast(dtype)
        };
        let (x, y) = (points(250, 7), points(180, 13));
        let (near, far) = (on(&x), on(&y));
        for (k, f) in formulas.into_iter().enumerate() {
            let (got, c) = counted(|| f(&near.unsqueeze(1), &far).cast(DType::F64).to_vec::<f64>().unwrap());
            assert_eq!(c.kernels, 1, "{k} of {dtype}");
            let want = f(&x.unsqueeze(1), &y).cast(DType::F64).to_vec::<f64>().unwrap();
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-2 * b.abs().max(1.0);
            assert!(got.len() == 250 * 180 && got.iter().zip(&want).all(|(&a, &b)| close(a, b)), "{k} of {n} {dtype}");
        }
    }
}

/// A kernel whose arguments do not fit a launch is cut: its segment runs by smaller kernels.
#[test]
fn a_kernel_of_too_many_arguments_is_cut() {
    const MANY: usize = 900;
    // Six dimensions, of which no two merge in every operand.
    let turned = |x: &Tensor, i: usize| {
        x.permute([[0, 1, 2, 3, 4, 5], [5, 3, 4, 1, 2, 0], [2, 0, 5, 4, 1, 3]][(i * i * i + i / 7) % 31 % 3])
    };
    let made = |i: usize| Tensor::new(&[i as f32; 64][..]).reshape([2; 6]);
    let operands: Vec<Tensor> = (0..MANY).map(|i| on(&made(i))).collect();
    thalweg::synchronize().unwrap();
    let (sum, c) = counted(|| {
        let first = turned(&operands[0], 0);
        operands.iter().enumerate().skip(1).fold(first, |sum, (i, x)| sum + turned(x, i)).to_vec::<f32>().unwrap()
    });
    assert_eq!(sum, [(MANY * (MANY - 1) / 2) as f32; 64], "{c:?}");
    assert!(c.failed_segments == 0 && c.kernels >= MANY as u64 / 128, "{c:?}");
}
