//! Folds over several axes of non-contiguous operands: one kernel that reads every element once, in any layout.

#![allow(clippy::reversed_empty_ranges, reason = "a negative end counts from the end")]

use crate::counting::{counted, pinned};
use thalweg::Tensor;
use thalweg_stream::{Mode, mode, set_mode};

const F32: u64 = 4;

/// Small integers, whose sums are exact in any order.
fn numbers(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    let x = (Tensor::arange_with(n, thalweg::DType::I64) * 7 + 3) % 11;
    let x = x.cast(thalweg::DType::F32).reshape(shape.to_vec());
    thalweg::synchronize().unwrap();
    x
}

/// Runs `f` in strict mode, unfused, and by default in `kernels` kernels that read that many bytes.
#[track_caller]
fn exact(f: &dyn Fn() -> Tensor, kernels: u64, bytes: u64) {
    let before = mode();
    set_mode(Mode { strict: true, fused: false, ..before });
    let want = f().to_vec::<f32>().unwrap();
    set_mode(Mode { strict: true, ..before });
    assert_eq!(f().to_vec::<f32>().unwrap(), want, "strictly");
    set_mode(before);
    let (got, counted) = counted(f);
    assert_eq!(got.to_vec::<f32>().unwrap(), want);
    assert_eq!((counted.kernels, counted.bytes_read), (kernels, bytes));
}

#[test]
fn the_order_of_axes_in_memory_makes_no_difference() {
    let _pinned = pinned();
    let x = numbers(&[300, 700]);
    let all = 300 * 700 * F32;
    exact(&|| x.square().sum(..), 1, all);
    exact(&|| x.t().square().sum(..), 1, all);
    let images = numbers(&[3, 5, 40, 30]);
    let all = 3 * 5 * 40 * 30 * F32;
    exact(&|| images.permute([0, 2, 3, 1]).sum([1, 2, 3]), 1, all);
    exact(&|| images.permute([3, 0, 1, 2]).square().sum([0, 2, 3]), 1, all);
}

#[test]
fn what_is_broadcast_along_some_axes_is_read_once() {
    let _pinned = pinned();
    let (x, rows, columns) = (numbers(&[64, 1000]), numbers(&[64]), numbers(&[1000]));
    let all = 64 * 1000 * F32;
    exact(&|| (&x * rows.unsqueeze(1)).sum(..), 1, all + 64 * F32);
    exact(&|| (&x * &columns).sum(..), 1, all + 1000 * F32);
    // Short runs, which are gathered into panels.
    let (last, three) = (numbers(&[2000, 3]), numbers(&[3]));
    exact(&|| (&last + &three).sum(..), 1, (2000 * 3 + 3) * F32);
    let (images, channels) = (numbers(&[3, 5, 40, 30]), numbers(&[5, 1, 1]));
    exact(&|| (&images * &channels).sum([1, 2, 3]), 1, (3 * 5 * 40 * 30 + 5) * F32);
}

#[test]
fn parts_of_a_tensor_fold_where_they_lie() {
    let _pinned = pinned();
    let x = numbers(&[66, 1002]);
    exact(&|| x.slice((1..-1, 1..-1)).square().sum(..), 1, 64 * 1000 * F32);
    exact(&|| x.slice((.., 100..140)).sum(..), 1, 66 * 40 * F32);
    exact(&|| x.slice((.., 100..140)).t().square().sum(..), 1, 66 * 40 * F32);
}

#[test]
fn folds_of_windows_run_across_them() {
    let _pinned = pinned();
    let x = numbers(&[40, 300]);
    exact(&|| x.window(0, 3, 1).window(1, 3, 1).sum([2, 3]), 1, 40 * 300 * F32);
    exact(&|| x.window(1, 16, 1).sum(-1), 1, 40 * 300 * F32);
}

#[test]
fn results_at_every_point_are_kept_beside_those_of_rows() {
    let _pinned = pinned();
    let x = numbers(&[20, 30, 40]);
    // The transpose is written in its own order, and folded in memory order.
    let both = || {
        let y = x.permute([1, 2, 0]) * 2.0;
        let sum = y.sum([1, 2]);
        let (y, sum) = (y.sum(0).sum(..), sum.sum(..));
        y - sum
    };
    assert_eq!(both().to_vec::<f32>().unwrap(), [0.0]);
    let centred = || {
        let y = x.permute([0, 2, 1]);
        &y - y.mean_keepdim([1, 2])
    };
    let before = mode();
    set_mode(Mode { strict: true, fused: false, ..before });
    let want = centred().to_vec::<f32>().unwrap();
    set_mode(before);
    let got = centred().to_vec::<f32>().unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4));
}
