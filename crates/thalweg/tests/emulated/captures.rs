//! Captured segments on a device whose launches are asynchronous, and which reports indices later.

use super::{emulated, indices, tensor};
use thalweg::{Capture, CapturedSegment, Tensor, counters, flush};

fn capture(f: impl Fn() -> Vec<Tensor>, operands: &[&Tensor]) -> CapturedSegment {
    flush();
    let capture = Capture::begin(emulated()).expect("nothing waits");
    let results = f();
    let captured = capture.end(operands, &results.iter().collect::<Vec<_>>()).expect("no data was looked at");
    flush();
    captured
}

#[test]
fn submissions_equal_operations_one_by_one() {
    let f = |x: &Tensor, y: &Tensor| vec![(x * y + 1.0).tanh().sum(..), x.reshape([2, 3]).t() * 2.0, x.clone()];
    let numbers = |i: usize| tensor(&[0.5, 1.0, -2.0, i as f32, 3.0, -0.25]);
    let (x, y) = (numbers(0), numbers(1));
    let captured = capture(|| f(&x, &y), &[&x, &y]);
    let before = counters().captured_runs;
    for i in 0..5 {
        let (x, y) = (numbers(i), numbers(i + 3));
        let results = captured.submit(&[&x, &y]).expect("the same layouts");
        for (found, expected) in results.iter().zip(f(&x, &y)) {
            assert_eq!(found.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
        }
    }
    assert_eq!(counters().captured_runs - before, 5);
}

#[test]
fn an_index_out_of_range_is_reported_at_the_read() {
    let x = tensor(&[1.0, 2.0, 3.0]);
    let (good, bad) = (indices(&[2, 0]), indices(&[2, 3]));
    let f = |at: &Tensor| vec![x.index_select(0, at) + 1.0, &x * 2.0];
    let captured = capture(|| f(&good), &[&x, &good]);
    for at in [&good, &bad, &good] {
        let results = captured.submit(&[&x, at]).unwrap();
        let (found, expected) = (results[0].to_vec::<f32>(), f(at)[0].to_vec::<f32>());
        assert_eq!(found.as_ref().ok(), expected.as_ref().ok());
        assert_eq!(found.is_ok(), std::ptr::eq(at, &good));
        assert_eq!(results[1].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    }
}
