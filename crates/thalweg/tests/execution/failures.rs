//! Failures after an index out of range: with deferred results, dropped operands, and host functions in between.

use crate::counting::{counted_alone, pinned};
use thalweg::HostOp;
use thalweg::prelude::*;

fn at(line: u32) -> String {
    format!(", at crates/thalweg/tests/execution/failures.rs:{line}:")
}

fn message(y: &Tensor) -> String {
    y.to_f64_vec().unwrap_err().to_string()
}

#[test]
fn of_results_that_were_not_written_only_those_fail_that_depend_on_it() {
    let _pinned = pinned();
    let (x, good) = (Tensor::ones([3]), Tensor::new([2i64, 1]));
    let (other, bad) = (Tensor::new([0i64, 1]), Tensor::new([2i64, 3]));
    thalweg::synchronize().unwrap();
    let line = line!() + 2;
    let turn = |index: &Tensor| {
        let failed = x.index_select(0, index);
        let right = (&x * 3.0).exp();
        let also = x.index_select(0, &good) + 1.0;
        assert_eq!((&right + also.sum(..)).sum(..).item::<f32>().unwrap() as i64, 72);
        (failed, right, also)
    };
    // Dropped unread, so that they are deferred.
    (0..3).for_each(|_| drop(turn(&other)));
    let ((failed, right, also), c) = counted_alone(|| turn(&bad));
    assert_eq!(c.values_deferred, 4, "and the sum of both");
    assert_eq!(also.to_vec::<f32>().unwrap(), [2.0, 2.0]);
    let want = format!("index_select: index 3 is out of range for axis 0 of size 3{}", at(line));
    assert!(message(&failed).starts_with(&want), "{}", message(&failed));
    assert!((right.to_vec::<f32>().unwrap()[2] - 3f32.exp()).abs() < 1e-4);
    assert!(message(&(&failed + 1.0)).contains(&want), "{}", message(&(&failed + 1.0)));
}

#[test]
fn what_went_with_the_run_fails_what_is_computed_from_it_and_nothing_else() {
    thalweg::with_fusion(false, || {
        let (x, bad) = (Tensor::new([0.0f32, 1.0, 2.0]), Tensor::new([1i64, 7]));
        thalweg::synchronize().unwrap();
        let own = Tensor::new([4.0f32]);
        thalweg::synchronize().unwrap();
        let first = &own + 1.0;
        drop(own);
        let line = line!() + 1;
        let failed = x.gather(0, &bad);
        // After it: of the value that the run released, and of one that is still held.
        let of_own = first.exp();
        drop(first);
        let of_x = x.exp();
        let want = format!("gather: index 7 is out of range for axis 0 of size 3{}", at(line));
        assert!(message(&failed).starts_with(&want), "{}", message(&failed));
        assert_eq!(of_x.to_vec::<f32>().unwrap()[0], 1.0);
        assert!(message(&of_own).contains("out of range"), "{}", message(&of_own));
    });
}

#[test]
fn an_index_that_went_with_the_run_fails_what_is_computed_from_it_and_nothing_else() {
    thalweg::with_fusion(false, || {
        let x = Tensor::new([0.0f32, 1.0, 2.0]);
        let own = Tensor::new([1i64, 7]);
        thalweg::synchronize().unwrap();
        let bad = &own + 1;
        drop(own);
        let failed = x.gather(0, &bad);
        drop(bad);
        let of_x = x.exp();
        assert!(message(&failed).contains("out of range"), "{}", message(&failed));
        assert_eq!(of_x.to_vec::<f32>().unwrap()[0], 1.0);
    });
}

#[test]
fn a_function_on_the_host_that_gathers_takes_no_line_from_whoever_waits_for_it() {
    let reversed = HostOp::new(
        "reversed",
        |x: &[Tensor]| [(*x[0].shape(), x[0].dtype())],
        |x, y| {
            let own = Tensor::from_slice(x[0].slice::<f32>(), [2]);
            let turned = own.index_select(0, &Tensor::new([1i64, 0])).to_vec::<f32>()?;
            y[0].slice_mut::<f32>().copy_from_slice(&turned);
            Ok(())
        },
    );
    let x = reversed.on(&Tensor::new([0.0f32, 1.0]));
    let line = line!() + 1;
    let failed = x.gather(0, &Tensor::new([1i64, 5]));
    let want = format!("gather: index 5 is out of range for axis 0 of size 2{}", at(line));
    assert!(message(&failed).starts_with(&want), "{}", message(&failed));
}

#[test]
fn synchronize_gives_the_error_of_what_it_waited_for_once() {
    let x = Tensor::arange(4);
    thalweg::synchronize().unwrap();
    let before = thalweg::counters();
    let (bad, line) = (x.exp().index_select(0, &Tensor::new([9i64])), line!());
    let good = &x + 1.0;
    let why = thalweg::synchronize().unwrap_err().to_string();
    let want = "index_select: index 9 is out of range for axis 0 of size 4".to_string() + &at(line);
    assert!(why.starts_with(&want), "{why}, not {want}");
    let run = thalweg::counters() - before;
    assert_eq!((run.failed_segments, run.segments_rerun), (1, 1));
    // Independent values are right, dependent ones have the error, and a second wait reports nothing.
    assert_eq!(good.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(message(&bad), why);
    thalweg::synchronize().unwrap();
    // A read has reported the error.
    let bad = x.index_select(0, &Tensor::new([7i64]));
    assert!(message(&bad).contains("index 7"));
    thalweg::synchronize().unwrap();
    // Nobody waits for a flush, or for a cut by a change of mode.
    let bad = x.index_select(0, &Tensor::new([6i64]));
    thalweg::flush();
    assert!(thalweg::synchronize().unwrap_err().to_string().contains("index 6"));
    assert!(message(&bad).contains("index 6"));
    let bad = x.index_select(0, &Tensor::new([5i64]));
    let after = thalweg::with_strict(true, || bad.exp());
    assert!(message(&after).contains("index 5"));
    thalweg::synchronize().unwrap();
    // An asynchronous read reports what a wait would have.
    let reading = x.index_select(0, &Tensor::new([8i64])).to_vec_async::<f32>();
    assert!(reading.wait().unwrap_err().to_string().contains("index 8"));
    thalweg::synchronize().unwrap();
}

/// Indices that the segment computes are read back by one run, however many there are.
#[test]
fn the_index_out_of_range_is_found_by_one_run() {
    let _pinned = pinned();
    let (x, own) = (Tensor::arange(8), Tensor::new([1i64, 3]));
    thalweg::synchronize().unwrap();
    let wrong = line!() + 3;
    let segment = |last: i64| {
        let of = |k: i64| x.index_select(0, &(&own + k % 4));
        let bad = x.index_select(0, &(&own + last));
        ((0..40).map(|k| of(k).sum(..)).collect::<Vec<_>>(), bad)
    };
    let (mut out, explanation) = thalweg::explain(|| {
        let out = segment(5);
        assert!(thalweg::synchronize().is_err());
        out
    });
    let want = format!("index_select: index 8 is out of range for axis 0 of size 8{}", at(wrong));
    assert!(message(&out.1).starts_with(&want), "{}, not {want}", message(&out.1));
    let sums: Vec<f32> = out.0.drain(..).map(|s| s.item::<f32>().unwrap()).collect();
    assert_eq!(sums[..4], [4.0, 6.0, 8.0, 10.0]);
    let runs: Vec<Option<&str>> = explanation.segments.iter().map(|s| s.rerun).collect();
    let reason = Some("for what does not depend on a failed operation");
    assert_eq!(runs, [None, reason, reason], "the segment, indices, results without the wrong one:\n{explanation}");
    let failed = explanation.segments.iter().filter(|s| s.error.is_some()).count();
    assert_eq!(failed, 1);
}
