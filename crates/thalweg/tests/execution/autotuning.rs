//! Autotuning: plans compete, results stay right, and the outcome is saved.

use crate::counting::pinned;
use thalweg::prelude::*;
use thalweg::{counters, explain};

fn hot(x: &Tensor) -> Vec<f32> {
    let h = x.tanh();
    (&h / h.sum_keepdim(0) + &h * h.amax_keepdim(1)).to_vec::<f32>().unwrap()
}

#[test]
fn plans_take_turns_until_one_is_chosen() {
    let _pinned = pinned();
    let x = Tensor::randn([400, 300]);
    thalweg::synchronize().unwrap();
    thalweg::with_strict(true, || {
        thalweg::set_measuring(None);
        let want = hot(&x);
        let before = counters();
        (0..40).for_each(|_| assert_eq!(hot(&x), want));
        assert_eq!((counters() - before).autotuned, 0, "off");
        // Without a time limit, from the first run on.
        thalweg::set_measuring(Some(f64::INFINITY));
        let before = counters();
        let mut runs = 0;
        while (counters() - before).autotuned == 0 {
            assert_eq!(hot(&x), want, "the same bits by every plan");
            runs += 1;
            assert!(runs < 200, "an autotuning ends");
        }
        let (_, e) = explain(|| drop(hot(&x)));
        let plans = &e.segments[0].autotuning;
        assert!(plans.len() > 1 && plans.iter().filter(|p| p.chosen).count() == 1, "{e}");
        assert!(plans.iter().all(|p| p.predicted_ns > 0 && p.measured_ns > 0 && p.runs >= 1), "{e}");
        let before = counters();
        (0..20).for_each(|_| assert_eq!(hot(&x), want));
        assert_eq!((counters() - before).autotuned, 0, "decided once");
    });
}

#[test]
fn nothing_is_measured_before_it_ran_long_enough() {
    let _pinned = pinned();
    let x = Tensor::randn([400, 300]);
    thalweg::synchronize().unwrap();
    thalweg::set_measuring(Some(0.05));
    let before = counters();
    let (_, e) = explain(|| (0..4).for_each(|_| drop(hot(&x))));
    assert_eq!((counters() - before).autotuned, 0);
    assert!(e.segments.iter().all(|s| s.autotuning.is_empty()));
}
