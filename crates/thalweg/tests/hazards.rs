//! The library's environment: other thread pools, threads that end, results that nobody reads, memory shared with
//! others.

mod counting;

use counting::pinned;
use rayon::prelude::*;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use thalweg::Error;
use thalweg::prelude::*;

/// Fails if `f` does not return in time: the tested bug would deadlock.
fn in_time(f: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        f();
        let _ = send.send(());
    });
    receive.recv_timeout(Duration::from_secs(50)).expect("it comes back, and without a panic");
}

#[test]
fn jobs_of_the_callers_own_pool_may_launch_large_kernels() {
    in_time(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| {
            (0..100usize).into_par_iter().with_max_len(1).for_each(|k| {
                let x = Tensor::full([1 << 20], k as f32);
                let y = (x.sin() * x.cos() + 1.0).tanh();
                let all = y.to_vec::<f32>().unwrap();
                assert!(all.iter().all(|v| *v == all[0]));
            });
        });
    });
}

#[test]
fn what_a_gone_thread_left_is_given_back_when_nobody_holds_it() {
    let _pinned = pinned();
    let device = Device::default();
    let in_use = || device.memory().in_use;
    let n = 64 << 10;
    let before = in_use();
    for _ in 0..50 {
        // The thread ends with a pending result that another thread holds and drops unread.
        let y = thread::spawn(move || {
            thalweg::set_default_device(Some(device));
            Tensor::from(vec![1.0f32; n]) * 2.0
        });
        drop(y.join().unwrap());
    }
    let next = move || Tensor::full_with([4], 1.0f32, device).to_vec::<f32>().unwrap();
    thread::spawn(next).join().unwrap();
    let kept = in_use().saturating_sub(before);
    assert!(kept < 10 * 4 * n, "{kept} bytes kept");
}

#[test]
fn a_value_that_fails_between_check_and_use_is_a_failure_of_memory() {
    let huge = Tensor::full([1usize << 46], 1.0f32) + 1.0;
    // The change of mode cuts the stream, and the pending operations fail.
    let y = thalweg::with_fusion(false, || &huge * 2.0);
    let e = y.to_vec::<f32>().unwrap_err();
    assert!(matches!(&e, Error::Failed(cause) if matches!(**cause, Error::OutOfMemory { .. })), "{e:?}");
}

#[test]
fn a_small_result_does_not_take_over_a_large_buffer() {
    let _pinned = pinned();
    let n = 16 << 20;
    let first = {
        let big = Tensor::from(vec![1.0f32; n]);
        let first = big.slice(0..8);
        thalweg::synchronize().unwrap();
        first
    };
    let before = Device::default().memory().in_use;
    let y = first * 2.0;
    thalweg::synchronize().unwrap();
    let after = Device::default().memory().in_use;
    assert!(before.saturating_sub(after) > 2 * n, "{before} bytes in use before, {after} after");
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 8]);
}

#[test]
fn a_program_that_never_repeats_itself_is_not_remembered_without_bound() {
    let x = Tensor::from(vec![1.0f32, -2.0, 3.0]);
    for k in 0..17_000u32 {
        let mut y = x.clone();
        for bit in 0..15 {
            y = if k >> bit & 1 == 1 { -y } else { y.abs() };
        }
        thalweg::synchronize().unwrap();
        drop(y);
    }
    assert!(thalweg::plan_store().patterns <= 1 << 14, "{:?}", thalweg::plan_store());
    assert_eq!((&x * 2.0).to_vec::<f32>().unwrap(), [2.0, -4.0, 6.0]);
}

#[test]
fn operations_on_a_very_large_tensor_fuse_too() {
    let _pinned = pinned();
    let x = Tensor::full([130 << 20], 3.0);
    thalweg::synchronize().unwrap();
    let before = thalweg::counters().kernels;
    let y = (&x + 1) * 2 + &x;
    thalweg::synchronize().unwrap();
    assert_eq!(thalweg::counters().kernels - before, 1);
    assert_eq!(y.slice(5..7).to_vec::<f32>().unwrap(), [11.0, 11.0]);
}
