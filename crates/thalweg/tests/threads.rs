//! Tensors across threads: recorded on eight, shared, read and dropped elsewhere.

mod counting;

use counting::pinned;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use thalweg::counters;
use thalweg::prelude::*;

const THREADS: usize = 8;

fn work(x: &Tensor, k: usize) -> Tensor {
    let t = (x * 2.0 + 1.0).tanh();
    let u = t.exp() - &t;
    if k.is_multiple_of(2) { u.sum(1) } else { u.t() * 0.5 }
}

fn input(seed: u64) -> Tensor {
    Generator::seed(seed).randn([9, 7])
}

#[test]
fn eight_threads_make_share_and_drop() {
    let want: Vec<Vec<f32>> = (0..THREADS).map(|k| work(&input(k as u64), k).to_vec().unwrap()).collect();
    for round in 0..40 {
        let barrier = Arc::new(Barrier::new(THREADS));
        let (send, receive) = mpsc::channel::<(usize, Tensor)>();
        let senders: Vec<_> = (0..THREADS).map(|_| send.clone()).collect();
        drop(send);
        thread::scope(|s| {
            for (k, send) in senders.into_iter().enumerate() {
                let barrier = barrier.clone();
                s.spawn(move || {
                    let x = input(k as u64);
                    barrier.wait();
                    let y = work(&x, k);
                    if (k + round) % 3 == 0 {
                        y.to_vec::<f32>().unwrap();
                    }
                    // Pending or not, the receiver reads it; this thread may have ended by then.
                    send.send((k, y)).unwrap();
                });
            }
            let mut seen = 0;
            for (k, y) in receive {
                assert_eq!(y.to_vec::<f32>().unwrap(), want[k]);
                seen += 1;
            }
            assert_eq!(seen, THREADS);
        });
    }
}

#[test]
fn one_pending_value_is_asked_for_by_all() {
    let want = work(&input(3), 0).to_vec::<f32>().unwrap();
    for _ in 0..40 {
        let y = work(&input(3), 0);
        let barrier = Barrier::new(THREADS);
        thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    barrier.wait();
                    let own = &y * 2.0;
                    let doubled: Vec<f32> = want.iter().map(|v| v * 2.0).collect();
                    assert_eq!(own.to_vec::<f32>().unwrap(), doubled);
                });
            }
            // Its recording thread is blocked here, and must not be needed.
        });
    }
}

#[test]
fn two_threads_that_use_each_others_pending_values_do_not_wait_for_each_other() {
    for _ in 0..50 {
        let (a_send, a_receive) = mpsc::channel::<Tensor>();
        let (b_send, b_receive) = mpsc::channel::<Tensor>();
        thread::scope(|s| {
            let left = s.spawn(move || {
                let a = Tensor::full([64], 1.0) * 3.0;
                a_send.send(a.clone()).unwrap();
                let b = b_receive.recv().unwrap();
                (&a + b).to_vec::<f32>().unwrap()
            });
            let right = s.spawn(move || {
                let b = Tensor::full([64], 2.0) * 5.0;
                b_send.send(b.clone()).unwrap();
                let a = a_receive.recv().unwrap();
                (a + &b).to_vec::<f32>().unwrap()
            });
            assert_eq!(left.join().unwrap(), right.join().unwrap());
        });
    }
}

#[test]
fn a_drop_on_another_thread_at_any_point_changes_neither_values_nor_plan() {
    let _pinned = pinned();
    // Unread results must be written here.
    thalweg::set_deferring(false);
    let steps = 6;
    let run = |at: usize, elsewhere: bool| {
        let x = input(11);
        let mut kept: Vec<Option<Tensor>> = vec![Some(&x * 1.5)];
        for i in 0..steps {
            let next = kept.last().unwrap().as_ref().unwrap().sin() + i as f64;
            kept.push(Some(next));
            if i >= at && i - at < kept.len() - 1 {
                let gone = kept[i - at].take();
                if elsewhere {
                    thread::spawn(move || drop(gone)).join().unwrap();
                }
            }
        }
        let last = kept.pop().unwrap().unwrap();
        drop(kept);
        last.to_vec::<f32>().unwrap()
    };
    let want = run(0, false);
    thalweg::synchronize().unwrap();
    let before = counters();
    for at in 0..steps {
        for elsewhere in [false, true] {
            assert_eq!(run(at, elsewhere), want);
        }
    }
    assert_eq!((counters() - before).plans_made, 0);
}

#[test]
fn a_plan_made_on_one_thread_is_found_by_the_others() {
    let _pinned = pinned();
    let x = input(5);
    thalweg::synchronize().unwrap();
    let run = |x: &Tensor| (x * 0.25).cosh().to_vec::<f32>().unwrap();
    let want = run(&x);
    let made: u64 = thread::scope(|s| {
        let spawned: Vec<_> = (0..THREADS)
            .map(|_| {
                s.spawn(|| {
                    assert_eq!(run(&x), want);
                    counters().plans_made
                })
            })
            .collect();
        spawned.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(made, 0);
}

#[test]
fn a_thread_that_ends_leaves_what_others_hold() {
    let y = thread::spawn(|| work(&input(2), 0)).join().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), work(&input(2), 0).to_vec::<f32>().unwrap());
}
