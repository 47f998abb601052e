//! Sharing between forward and backward pass: kernels and bytes by counters.

use crate::counting::{counted, counted_alone, pinned, randn};
use thalweg::prelude::*;

/// A step of gradient descent of three layers: eight products (three forward, two for inner activations, three for
/// weights, with the update as epilogue), and the value of the loss. A second step makes no plan.
#[test]
fn a_step_of_a_network_is_its_products() {
    let _pinned = pinned();
    let (x, y) = (randn([64, 96]), Tensor::randint(0..10, [64]));
    let mut weights: Vec<Tensor> = [[96, 128], [128, 128], [128, 10]].iter().map(|&s| randn(s) * 0.1).collect();
    thalweg::synchronize().unwrap();
    let mut step = || {
        let leaves: Vec<Tensor> = weights.iter().map(Tensor::tracked).collect();
        let h = x.matmul(&leaves[0]).relu().matmul(&leaves[1]).relu().matmul(&leaves[2]);
        let loss = h.cross_entropy(&y, Reduction::Mean);
        let gradients = loss.backward();
        weights = leaves.iter().map(|w| w.detach() - &gradients[w] * 0.1).collect();
        drop((leaves, gradients));
        thalweg::synchronize().unwrap();
        loss.item::<f32>().unwrap()
    };
    let (first, c) = counted_alone(&mut step);
    assert_eq!((c.segments, c.plans_made, c.kernels), (1, 1, 9), "{c:?}");
    step();
    let (last, c) = counted_alone(&mut step);
    assert_eq!((c.segments, c.plans_made, c.plans_found, c.kernels), (1, 0, 1, 9), "{c:?}");
    assert!(last < first);
    // The pass reads activations, but not their inputs: relu is differentiated by its result.
    let floats = |n: usize| 4 * n as u64;
    let results = floats(96 * 128 + 128 * 128 + 128 * 10 + 1);
    let activations = floats(2 * 64 * 128 + 64 * 10 + 2 * 64);
    let gradients = floats(2 * 64 * 128 + 64 * 10);
    assert_eq!(c.bytes_written, results + activations + gradients, "{c:?}");
}

/// Rows that fit are read once and written once, forward and backward.
#[test]
fn rows_and_their_gradients_are_one_kernel() {
    let _pinned = pinned();
    let x = randn([32, 256]);
    let bytes = 4 * 32 * 256;
    type Case = (&'static str, fn(&Tensor) -> Tensor);
    let cases: [Case; 5] = [
        ("softmax", |x| x.softmax(-1).square()),
        ("log_softmax", |x| x.log_softmax(-1).square()),
        ("layer_norm", |x| x.layer_norm(-1, 1e-5).gelu()),
        ("rms_norm", |x| x.rms_norm(-1, 1e-5).silu()),
        ("logsumexp", |x| x.logsumexp(-1)),
    ];
    for (name, f) in cases {
        let gradient = || {
            let x = x.tracked();
            f(&x).sum(..).backward()[&x].clone()
        };
        let (_, c) = counted(gradient);
        assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, bytes, bytes), "{name}: {c:?}");
    }
}

/// Unread values are not computed: the value that is differentiated, and the first pass of a `jvp`.
#[test]
fn what_is_not_asked_for_is_not_computed() {
    let _pinned = pinned();
    let (x, dx) = (randn([1000]), randn([1000]));
    let ((_, dy), c) = counted(|| {
        let (y, dy) = thalweg::jvp(|x| x.tanh() * 2.0, &x, &dx);
        drop(y);
        ((), dy)
    });
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 8000, 4000), "{c:?}");
    let want = (1.0 - x.tanh().square()) * 2.0 * &dx;
    assert!(dy.allclose(&want, 1e-5, 1e-6).unwrap());
}
