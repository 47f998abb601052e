//! Deferred results: results that nobody reads are not written, and are computed if somebody reads them after all.

use crate::counting::{counted_alone as counted, pinned, randn};
use thalweg::prelude::*;

const N: usize = 1000;

/// Holds `y` while `z` is read; `y` is dropped unread.
fn turn(x: &Tensor) -> (Tensor, Vec<f32>) {
    let y = (x * 2.0).tanh();
    let z = (&y + 1.0).exp();
    let read = z.to_vec::<f32>().unwrap();
    (y, read)
}

#[test]
fn what_was_dropped_unread_is_not_written_any_more() {
    let _pinned = pinned();
    let x = randn([N]);
    let written: Vec<u64> = (0..5).map(|_| counted(|| drop(turn(&x))).1.bytes_written).collect();
    let tensor = 4 * N as u64;
    assert_eq!(written, [2 * tensor, 2 * tensor, tensor, tensor, tensor]);
    let (_, c) = counted(|| drop(turn(&x)));
    assert_eq!((c.values_deferred, c.values_recomputed, c.plans_made), (1, 0, 0));
}

#[test]
fn what_is_asked_for_after_all_has_the_same_bits_and_is_written_from_then_on() {
    let _pinned = pinned();
    let x = randn([N]);
    let (first, _) = turn(&x);
    let want = first.to_vec::<f32>().unwrap();
    drop(first);
    // Read once, so never deferred: another pattern does not forget it.
    let other = |x: &Tensor| {
        let y = (x * 2.0).tanh().sin();
        let z = (&y + 1.0).exp();
        (y, z.to_vec::<f32>().unwrap())
    };
    let want_other = written_anyway(|| other(&x).0.to_vec::<f32>().unwrap());
    (0..3).for_each(|_| drop(other(&x)));
    let (y, c) = counted(|| other(&x).0);
    assert_eq!(c.values_deferred, 1);
    let (got, c) = counted(|| y.to_vec::<f32>().unwrap());
    assert_eq!((c.values_recomputed, got), (1, want_other.clone()));
    assert_eq!(y.to_vec::<f32>().unwrap(), want_other, "there now");
    let (_, c) = counted(|| drop(other(&x)));
    assert_eq!(c.values_deferred, 0, "written again");
    assert_eq!(turn(&x).0.to_vec::<f32>().unwrap(), want);
}

fn written_anyway<T>(f: impl FnOnce() -> T) -> T {
    let old = thalweg::set_deferring(false);
    let out = f();
    thalweg::set_deferring(old);
    out
}

#[test]
fn a_deferred_value_is_an_argument_like_any_other() {
    let _pinned = pinned();
    let x = randn([N]);
    (0..3).for_each(|_| drop(turn(&x)));
    let (y, _) = turn(&x);
    let values = x.to_vec::<f32>().unwrap();
    let sum = (&y + 0.0).to_vec::<f32>().unwrap();
    for (s, v) in sum.iter().zip(&values) {
        assert!((s - (2.0 * v).tanh()).abs() < 1e-6);
    }
}

#[test]
fn its_inputs_may_be_gone_and_are_not_written_over() {
    let _pinned = pinned();
    let mut kept = vec![];
    let x = randn([N]);
    for n in 0..6 {
        let own = &x + n as f64;
        thalweg::synchronize().unwrap();
        let y = &own * 3.0;
        let z = (&y + &x).to_vec::<f32>().unwrap();
        assert_eq!(z.len(), N);
        // The last two are held, their inputs dropped.
        if n >= 4 {
            kept.push(y);
        }
    }
    let values = x.to_vec::<f32>().unwrap();
    let noise: Vec<Tensor> = (0..20).map(|_| randn([N])).collect();
    for (n, y) in (4..).zip(kept) {
        let want: Vec<f32> = values.iter().map(|v| (v + n as f32) * 3.0).collect();
        assert_eq!(y.to_vec::<f32>().unwrap(), want);
    }
    drop(noise);
}

#[test]
fn more_is_not_kept_than_is_saved() {
    let _pinned = pinned();
    // The input is larger than the deferred result, and nobody else holds it.
    let turn = || {
        let x = randn([64, N]);
        let y = x.slice((0..1, ..)) * 2.0;
        let z = x.sum(1) + y.sum(1);
        drop(x);
        let read = z.to_vec::<f32>().unwrap();
        drop(y);
        read
    };
    (0..3).for_each(|_| drop(turn()));
    assert_eq!(counted(turn).1.values_deferred, 0);
}

#[test]
fn synchronize_writes_everything() {
    let _pinned = pinned();
    let x = randn([N]);
    for _ in 0..4 {
        let ((y, z), c) = counted(|| {
            let y = (&x * 2.0).tanh();
            let z = (&y + 1.0).exp();
            thalweg::synchronize().unwrap();
            (y, z)
        });
        assert_eq!((c.bytes_written, c.values_deferred), (8 * N as u64, 0));
        drop((y, z));
    }
}

#[test]
fn it_can_be_turned_off() {
    let _pinned = pinned();
    let x = randn([N]);
    written_anyway(|| {
        let deferred: u64 = (0..5).map(|_| counted(|| drop(turn(&x))).1.values_deferred).sum();
        assert_eq!(deferred, 0);
    });
}

#[test]
fn threads_share_a_deferred_value() {
    let _pinned = pinned();
    let x = randn([N]);
    (0..3).for_each(|_| drop(turn(&x)));
    let (y, _) = turn(&x);
    let all: Vec<Vec<f32>> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4).map(|_| s.spawn(|| y.to_vec::<f32>().unwrap())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(all.windows(2).all(|w| w[0] == w[1]));
    assert_eq!(all[0].len(), N);
}

#[test]
fn one_thread_computes_from_what_another_reads() {
    let _pinned = pinned();
    let x = randn([N]);
    (0..3).for_each(|_| drop(turn(&x)));
    let want = written_anyway(|| turn(&x).0.to_vec::<f32>().unwrap());
    let more: Vec<f32> = want.iter().map(|v| v + 1.0).collect();
    // A new pattern each time, because a value that was read once is written from then on: the same values by other
    // operations.
    let turn = |x: &Tensor, number: usize| {
        let digit = |y: Tensor, bit: usize| if number >> bit & 1 == 1 { -(-y) } else { y * 1.0 };
        turn(&(0..9).fold(x.clone(), digit))
    };
    for number in 0..300 {
        std::thread::scope(|s| {
            let own = s.spawn(|| {
                (0..3).for_each(|_| drop(turn(&x, number)));
                let (y, _) = turn(&x, number);
                let barrier = std::sync::Barrier::new(2);
                std::thread::scope(|s| {
                    let other = s.spawn(|| {
                        barrier.wait();
                        y.to_vec::<f32>().unwrap()
                    });
                    barrier.wait();
                    let sum = (&y + 1.0).to_vec::<f32>().unwrap();
                    (other.join().unwrap(), sum)
                })
            });
            assert_eq!(own.join().unwrap(), (want.clone(), more.clone()));
        });
    }
}
