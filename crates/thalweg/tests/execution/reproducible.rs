//! Reproducible mode: the same bits at every call, independent of the clock, of other threads and of calibration.

use crate::counting::{counted, device, pinned};
use thalweg::prelude::*;
use thalweg::{Costs, set_default_device, set_measuring, set_reproducible};

/// Code with several plans of similar cost, in which fusion decides whether a product is contracted.
fn stretch(x: &Tensor, w: &Tensor) -> Vec<u32> {
    let h = (x * 1.7 + w).tanh();
    let a = &h * w + x;
    let b = (&a * &h - w).sum_keepdim(-1);
    let c = (&h * 0.3 + &a).softmax(-1) * b;
    let out = (&c * &a + &h).sum(0) + c.amax(0);
    out.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn inputs(rows: usize) -> (Tensor, Tensor) {
    let values = |k: usize| (0..rows * 96).map(move |i| ((i * k) % 1013) as f32 / 507.0 - 1.0).collect::<Vec<_>>();
    (Tensor::from_slice(&values(17), [rows, 96]), Tensor::from_slice(&values(23), [rows, 96]))
}

/// Calls on a new thread and device, after calls with other sizes.
fn on_a_thread(before: Vec<usize>, costs: Option<Costs>, calls: usize) -> Vec<Vec<u32>> {
    std::thread::spawn(move || {
        let own = device();
        if let Some(costs) = costs {
            own.set_costs(costs);
        }
        set_default_device(Some(own));
        set_reproducible(true);
        set_measuring(Some(f64::INFINITY));
        for rows in before {
            let (x, w) = inputs(rows);
            stretch(&x, &w);
        }
        let (x, w) = inputs(64);
        (0..calls).map(|_| stretch(&x, &w)).collect()
    })
    .join()
    .unwrap()
}

#[test]
fn calls_give_the_same_bits_whatever_things_are_said_to_take() {
    let dear = |launch: f64| Costs { launch, ..Costs::typical() };
    let first = on_a_thread(vec![], None, 30);
    assert!(first.iter().all(|bits| *bits == first[0]), "from call to call");
    for costs in [dear(1.0), dear(1e9)] {
        assert_eq!(on_a_thread(vec![], Some(costs), 2)[0], first[0]);
    }
}

#[test]
fn what_other_threads_have_planned_is_not_taken_over() {
    let first = on_a_thread(vec![], None, 1);
    // Threads that met other sizes first have their own plans for the same pattern.
    let others: Vec<_> = [3, 700, 64].map(|rows| std::thread::spawn(move || on_a_thread(vec![rows], None, 1))).into();
    others.into_iter().for_each(|t| drop(t.join().unwrap()));
    assert_eq!(on_a_thread(vec![], None, 1), first);
}

#[test]
fn nothing_competes_and_nothing_is_deferred() {
    let run = || {
        // The default for threads that have recorded nothing yet was set by the tests running concurrently.
        let _pinned = pinned();
        set_measuring(Some(f64::INFINITY));
        let (x, w) = inputs(64);
        // Each of five plans runs ten times at most.
        let calls = || (0..60).for_each(|_| drop(stretch(&x, &w)));
        assert!(!set_reproducible(true));
        let (_, c) = counted(calls);
        assert_eq!((c.autotuned, c.values_deferred), (0, 0));
        assert!(set_reproducible(false));
        // Outside of the mode, the same code has competing plans.
        let (_, c) = counted(calls);
        assert_eq!(c.autotuned, 1);
    };
    std::thread::spawn(run).join().unwrap();
}
