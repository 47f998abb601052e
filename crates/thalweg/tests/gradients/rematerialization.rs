//! Values saved for the backward pass at a cut between the passes, by counters; gradients are equal with and without
//! recomputation.

use crate::counting::{counted_alone, pinned, randn};
use thalweg::prelude::*;
use thalweg::{Counters, Gradients, grad, grad_graph, retain_graph};

/// The gradients of `f` in strict mode with the loss read before the pass, and the counters of the cut and of the pass.
fn gradients(leaves: &[&Tensor], f: impl Fn() -> Tensor) -> (Vec<Vec<u32>>, [Counters; 2]) {
    thalweg::with_strict(true, || {
        let (loss, forward) = counted_alone(|| {
            let loss = f();
            loss.item::<f32>().unwrap();
            loss
        });
        let (bits, backward) = counted_alone(|| {
            let gradients = loss.backward();
            leaves.iter().map(|x| bits(&gradients, x)).collect()
        });
        (bits, [forward, backward])
    })
}

fn bits(gradients: &Gradients, x: &Tensor) -> Vec<u32> {
    gradients[x].to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}

/// Compares with a run without recomputation, which must give the same bits; returns the counters.
fn both_ways(leaves: &[&Tensor], f: impl Fn() -> Tensor) -> [Counters; 2] {
    let (again, counted) = gradients(leaves, &f);
    thalweg::set_recomputing(false);
    let (kept, all) = gradients(leaves, &f);
    thalweg::set_recomputing(true);
    assert!(again == kept, "other gradients where values are computed again");
    assert_eq!((all[0].values_dropped, all[1].operations_recomputed), (0, 0));
    counted
}

/// The worked example of docs/gradients.md.
#[test]
fn of_a_layer_the_product_is_written_and_what_follows_from_it_is_not() {
    let _pinned = pinned();
    let (x, w, v) = (randn([256, 192]), randn([192, 320]).tracked(), randn([320, 64]).tracked());
    let layer = || x.matmul(&w).gelu().matmul(&v).square().mean(..);
    let [forward, backward] = both_ways(&[&w, &v], layer);
    // x·w, which gelu's derivative and dv read (through gelu's result), and the second product, which was squared.
    assert_eq!((forward.values_saved, forward.saved_bytes), (2, 4 * 256 * (320 + 64)), "{forward:?}");
    assert!(forward.values_dropped > 0 && backward.operations_recomputed > 0, "{forward:?} {backward:?}");
    assert_eq!(backward.segments, 1, "what is recorded again is part of the backward pass");
}

#[test]
fn what_is_cheap_is_never_written() {
    let _pinned = pinned();
    let w = randn([128, 512]).tracked();
    let [forward, backward] = both_ways(&[&w], || (w.sin() * w.exp()).tanh().sum(..));
    assert_eq!((forward.values_saved, forward.saved_bytes), (0, 0), "{forward:?}");
    assert_eq!((forward.bytes_written, backward.kernels), (4, 1), "{forward:?} {backward:?}");
}

#[test]
fn statistics_of_rows_are_written_and_the_rows_are_not() {
    let _pinned = pinned();
    let (x, w) = (randn([512, 256]).tracked(), randn([256, 256]).tracked());
    let [forward, _] = both_ways(&[&x, &w], || x.layer_norm(-1, 1e-5).matmul(&w).softmax(-1).square().sum(..));
    // Two numbers per row of the norm, two of the softmax, and the product.
    assert!(forward.saved_bytes <= 4 * 512 * (256 + 4), "{forward:?}");
}

#[test]
fn random_numbers_are_the_same_again() {
    let _pinned = pinned();
    let w = randn([64, 512]).tracked();
    let [forward, _] = both_ways(&[&w], || {
        thalweg::manual_seed(3);
        w.dropout(0.5).exp().sum(..)
    });
    // One byte per element says whether it is 0: cheaper than drawing the numbers again.
    assert_eq!(forward.saved_bytes, 64 * 512, "{forward:?}");
}

#[test]
fn a_graph_that_is_retained_is_gone_through_twice_and_differentiated_again() {
    let _pinned = pinned();
    let w = randn([512, 1024]).tracked();
    let loss = (w.sin() * w.exp()).tanh().sum(..);
    loss.item::<f32>().unwrap();
    let first = retain_graph(|| grad(&loss, &w)).to_vec::<f32>().unwrap();
    let (again, c) = counted_alone(|| retain_graph(|| grad(&loss, &w)).to_vec::<f32>().unwrap());
    assert_eq!(first, again);
    assert!(c.operations_recomputed > 0, "{c:?}");
    let slope = grad_graph(&loss, &w);
    slope.sum(..).item::<f32>().unwrap();
    let second = grad(&slope.sum(..), &w).to_vec::<f32>().unwrap();
    let at_once = grad(&grad_graph(&(w.sin() * w.exp()).tanh().sum(..), &w).sum(..), &w).to_vec::<f32>().unwrap();
    for (a, b) in second.iter().zip(&at_once) {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn another_thread_goes_back() {
    let _pinned = pinned();
    let w = randn([512, 1024]).tracked();
    let loss = w.sin().exp().sum(..);
    loss.item::<f32>().unwrap();
    let here = retain_graph(|| grad(&loss, &w)).to_vec::<f32>().unwrap();
    let there = std::thread::scope(|s| s.spawn(|| grad(&loss, &w).to_vec::<f32>().unwrap()).join().unwrap());
    assert_eq!(here, there);
}

#[test]
fn a_value_that_was_left_can_be_read() {
    let _pinned = pinned();
    let (x, w) = (randn([1024, 512]), randn([8, 512]).tracked());
    // A checkpoint passes its saved values to the closure, which reads one.
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let read = seen.clone();
    let h = (&x * &w.sum(0)).exp();
    let want = h.detach().to_vec::<f32>().unwrap();
    let h = (&x * &w.sum(0)).exp();
    let loss = thalweg::checkpoint(
        move |h: Tensor| {
            read.lock().unwrap().push(h.clone());
            h.square()
        },
        &h,
    )
    .sum(..);
    drop(h);
    seen.lock().unwrap().clear();
    loss.item::<f32>().unwrap();
    let (_, c) = counted_alone(|| {
        loss.backward();
        let h = seen.lock().unwrap().pop().unwrap();
        assert_eq!(h.to_vec::<f32>().unwrap(), want);
    });
    assert_eq!(c.values_recomputed, 1, "{c:?}");
}

/// A loop with a read in each iteration: after a few iterations nothing is planned or decided, and memory is constant.
#[test]
fn a_loop_with_a_read_between_the_passes_is_steady() {
    let _pinned = pinned();
    let (x, mut w) = (randn([64, 128]), randn([128, 128]) * 0.1);
    thalweg::synchronize().unwrap();
    let mut step = || {
        let leaf = w.tracked();
        let loss = x.matmul(&leaf).gelu().matmul(&leaf.t()).square().mean(..);
        let value = loss.item::<f32>().unwrap();
        let gradients = loss.backward();
        w = leaf.detach() - &gradients[&leaf] * 0.01;
        drop((leaf, gradients, loss));
        thalweg::synchronize().unwrap();
        value
    };
    for _ in 0..4 {
        step();
    }
    let in_use = Device::default().memory().in_use;
    let (_, c) = counted_alone(&mut step);
    assert_eq!((c.plans_made, c.instances_made, c.segments), (0, 0, 2), "{c:?}");
    assert!(c.values_dropped > 0 && c.saved_bytes > 0, "{c:?}");
    assert_eq!(Device::default().memory().in_use, in_use);
}
