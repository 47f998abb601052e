//! Host operations.

use crate::assert_mistake;
use crate::counting::{counted, pinned, randn};
use crate::differences::{check, numbers};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thalweg::prelude::*;
use thalweg::{Backward, HostOp, grad};

/// `x` cubed, on the host.
fn cubes() -> HostOp {
    HostOp::new(
        "cubes",
        |x| [(*x[0].shape(), x[0].dtype())],
        |x, y| {
            y[0].slice_mut::<f64>().iter_mut().zip(x[0].slice::<f64>()).for_each(|(y, x)| *y = x * x * x);
            Ok(())
        },
    )
}

/// The sums of rows, which fail for a negative one, and their signs.
fn sums() -> HostOp {
    HostOp::new(
        "sums",
        |x: &[Tensor]| [([x[0].dims()[0]], DType::F32), ([x[0].dims()[0]], DType::Bool)],
        |x, y| {
            let width = x[0].shape()[1];
            let sums: Vec<f32> = x[0].slice::<f32>().chunks(width).map(|row| row.iter().sum()).collect();
            if let Some(row) = sums.iter().position(|s| *s < 0.0) {
                return Err(format!("row {row} is negative").into());
            }
            y[0].slice_mut::<f32>().copy_from_slice(&sums);
            y[1].slice_mut::<bool>().iter_mut().zip(&sums).for_each(|(y, s)| *y = *s > 0.0);
            Ok(())
        },
    )
}

#[test]
fn it_runs_between_other_operations() {
    let x = Tensor::new([[1.0f32, 2.0], [3.0, -3.0]]);
    let all = sums().on_all(&(&x * 2.0));
    assert_eq!((all[0].dims(), all[1].dtype()), (&[2usize][..], DType::Bool));
    let y = all[1].where_(&all[0] + 1.0, 100.0);
    assert_eq!(y.to_vec::<f32>().unwrap(), [7.0, 100.0]);
    // Views, empty tensors, results that are views again.
    let t = numbers(1, [3, 4], -1.0, 1.0);
    let got = cubes().on(&t.t().slice((1..3, ..))).t();
    let want = t.powi(3).slice((.., 1..3));
    let apart = (got - want).abs().amax(..).item::<f64>().unwrap();
    assert!(apart < 1e-15, "{apart}");
    assert!(cubes().on(&Tensor::zeros_with([0, 3], DType::F64)).to_vec::<f64>().unwrap().is_empty());
}

/// A host operation runs once, when a result is needed, and costs no kernel and no bytes but those of its operands and
/// results.
#[test]
fn it_costs_its_own_call_and_nothing_else() {
    let _pinned = pinned();
    let x = randn([64, 32]).abs();
    thalweg::synchronize().unwrap();
    let step = || {
        let all = sums().on_all(&(&x * 2.0).sqrt());
        let y = (&all[0] * 0.5).tanh() + all[1].where_(1.0, 0.0);
        drop(all);
        y
    };
    let (y, c) = counted(step);
    // Its operand is written, and the next kernel reads its result.
    let (rows, all) = (64, 64 * 32);
    assert_eq!((c.host_calls, c.kernels, c.segments), (1, 2, 2), "{c:?}");
    assert_eq!((c.bytes_read, c.bytes_written), (4 * all + 5 * rows, 4 * all + 4 * rows), "{c:?}");
    drop(y);
    // A loop of such steps makes no plan after the second iteration, and reading twice calls once.
    drop(counted(step));
    let (y, c) = counted(step);
    assert_eq!((c.host_calls, c.plans_made, c.kernels), (1, 0, 2), "{c:?}");
    let (_, c) = counted(|| (y.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap()));
    assert_eq!((c.host_calls, c.kernels), (0, 0));
    // Without a reader it does not run, and its operands are not computed.
    let (_, c) = counted(|| drop(sums().on_all(&(&x * 2.0))));
    assert_eq!((c.host_calls, c.kernels, c.bytes_written), (0, 0, 0), "{c:?}");
}

#[test]
fn its_error_is_the_error_of_the_read() {
    let x = Tensor::new([[1.0f32, 2.0], [3.0, -4.0]]);
    let all = sums().on_all(&x);
    let after = &all[0] + 1.0;
    let other = &x + 1.0;
    let error = all[0].to_vec::<f32>().unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("sums: row 1 is negative, at ") && message.contains("host.rs:"), "{message}");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(all[1].to_vec::<bool>().unwrap_err().to_string(), message);
    assert!(matches!(after.to_vec::<f32>(), Err(Error::Failed(cause)) if cause.to_string().contains("row 1")));
    // Everything else continues, and so does the operation on valid operands.
    assert_eq!(other.to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0, -3.0]);
    assert_eq!(sums().on_all(&x.abs())[0].to_vec::<f32>().unwrap(), [3.0, 7.0]);
    // A panic, such as a wrong slice, and operands that have failed themselves.
    let panics = HostOp::new(
        "wrong",
        |x: &[Tensor]| [(*x[0].shape(), DType::F32)],
        |x, _| {
            x[0].slice::<i32>();
            Ok(())
        },
    );
    let error = panics.on(&x).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("wrong: it panicked: a slice of i32 was asked for, but its dtype is f32"), "{error}");
    let error = panics.on(&all[0]).to_vec::<f32>().unwrap_err();
    assert!(matches!(&error, Error::Failed(cause) if cause.to_string().contains("row 1")), "{error}");
}

/// The function of a host operation may compute with tensors itself, on the recording thread, and be triggered by
/// another thread.
#[test]
fn it_may_compute_with_tensors() {
    let scale = Tensor::new([2.0f32, 3.0]);
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let op = HostOp::new(
        "nested",
        |x: &[Tensor]| [(*x[0].shape(), DType::F32)],
        move |x, y| {
            seen.fetch_add(1, Relaxed);
            let x = Tensor::from_slice(x[0].slice::<f32>(), *x[0].shape());
            y[0].slice_mut::<f32>().copy_from_slice(&(x * &scale).to_vec::<f32>()?);
            Ok(())
        },
    );
    let x = Tensor::new([1.0f32, 1.0]);
    let y = op.on(&op.on(&(&x + 1.0)));
    // Triggered while an operation is recorded.
    assert_eq!((&y + 1.0).to_vec::<f32>().unwrap(), [9.0, 19.0]);
    let z = op.on(&(&x * 3.0));
    let readers: Vec<_> = (0..4).map(|_| z.clone()).map(|z| std::thread::spawn(move || z.to_vec::<f32>())).collect();
    readers.into_iter().for_each(|r| assert_eq!(r.join().unwrap().unwrap(), [6.0, 9.0]));
    assert_eq!(calls.load(Relaxed), 3);
}

#[test]
fn gradients_are_its_own() {
    let cubes = cubes().backward(|Backward { inputs, gradients, .. }: Backward<Vec<Tensor>, Vec<Tensor>>| {
        [&gradients[0] * inputs[0].square() * 3.0]
    });
    check("cubes", &[numbers(1, [2, 3], -1.0, 1.0)], &|x| (cubes.on(&(&x[0] * 2.0)) + 1.0).square());
    let x = Tensor::new([1.0f64]).tracked();
    assert_mistake(
        || drop(super::host::cubes().on(&x)),
        &["cubes: operand 0 of shape [1] is tracked, and the operation has no backward", ".backward(..)", ".detach()"],
    );
    assert!(!thalweg::no_grad(|| super::host::cubes().on(&x)).is_tracked());
    // Several results: the bool one has no gradient.
    let sums = sums().backward(|b: Backward<Vec<Tensor>, Vec<Tensor>>| {
        [b.gradients[0].unsqueeze(1).broadcast_to(*b.inputs[0].shape())]
    });
    let x = Tensor::new([[1.0f32, 2.0]]).tracked();
    let all = sums.on_all(&x);
    assert_eq!((all[0].is_tracked(), all[1].is_tracked()), (true, false));
    assert_eq!(grad(&(&all[0] * 5.0).sum(..), &x).to_vec::<f32>().unwrap(), [5.0, 5.0]);
    assert_mistake(|| drop(sums.on(&x)), &["sums: it has 2 results, not one"]);
}

/// A copy of any dtype, by bytes.
fn copy() -> HostOp {
    HostOp::new(
        "copy",
        |x: &[Tensor]| [(*x[0].shape(), x[0].dtype())],
        |x, y| {
            y[0].fill(|bytes| bytes.copy_from_slice(x[0].bytes()));
            Ok(())
        },
    )
}

#[test]
fn bytes_of_any_dtype_are_read_and_written() {
    let x = Tensor::new([[0.0f64, 1.0, 3.0], [0.0, 2.0, 1.0]]);
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8, DType::Bool] {
        let x = x.cast(dtype);
        let views = [x.clone(), x.t(), x.slice((.., 1..)), Tensor::zeros_with([0, 2], dtype)];
        for view in views {
            let copied = copy().on(&view);
            assert_eq!((copied.shape(), copied.dtype()), (view.shape(), dtype));
            assert_eq!(copied.to_f64_vec().unwrap(), view.to_f64_vec().unwrap());
        }
    }
    // Bytes that are no bool count as true.
    let odd = HostOp::new(
        "odd",
        |_: &[Tensor]| [([2], DType::Bool)],
        |_, y| {
            y[0].fill(|bytes| bytes[1] = 7);
            Ok(())
        },
    );
    assert_eq!(odd.on(&Tensor::new(0i32)).to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn a_failed_operand_is_reported_to_the_operation() {
    let (calls, reports) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (called, reported) = (calls.clone(), reports.clone());
    let op = HostOp::new(
        "checked",
        |x: &[Tensor]| [(*x[0].shape(), x[0].dtype())],
        move |_, _| {
            called.fetch_add(1, Relaxed);
            Ok(())
        },
    );
    let op = op.on_failed_operand(move |error| {
        assert!(error.to_string().contains("index"), "{error}");
        reported.fetch_add(1, Relaxed);
    });
    let rows = |index: i64| Tensor::new([1.0f32, 2.0]).index_select(0, &Tensor::new([index]));
    assert!(op.on(&rows(1)).to_vec::<f32>().is_ok());
    assert_eq!((calls.load(Relaxed), reports.load(Relaxed)), (1, 0));
    let failed = op.on(&rows(5));
    for _ in 0..2 {
        assert!(failed.to_vec::<f32>().unwrap_err().to_string().contains("index"));
    }
    assert_eq!((calls.load(Relaxed), reports.load(Relaxed)), (1, 1));
}
