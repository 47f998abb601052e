//! `custom_grad`.

#[path = "../../examples/own_backward.rs"]
mod program;

use crate::assert_mistake;
use crate::counting::{counted, pinned, randn};
use crate::differences::{check, numbers};
use program::fused;
use thalweg::prelude::*;
use thalweg::{Backward, custom_grad, grad, grad_graph, no_grad, retain_graph};

#[test]
fn a_product_with_its_own_backward_is_right_for_all_sizes() {
    for bias in [vec![4], vec![3, 4], vec![1, 4], vec![3, 1], vec![]] {
        let xs =
            [numbers(1, [3, 5], -1.0, 1.0), numbers(2, [5, 4], -1.0, 1.0), numbers(3, Shape::new(&bias), -0.2, 0.2)];
        check("fused", &xs, &|xs| fused(&xs[0], &xs[1], &xs[2]));
    }
}

/// A user-defined rule takes the same kernels and bytes as none, forward and backward, between other operations.
#[test]
fn it_costs_what_the_operations_cost() {
    let _pinned = pinned();
    let (x, w, b) = (randn([48, 96]), randn([96, 64]), randn([64]));
    let step = |f: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
        let leaves = [&x, &w, &b].map(Tensor::tracked);
        let loss = (f(&(&leaves[0] * 2.0).tanh(), &leaves[1], &leaves[2]) * 0.5).square().sum(..);
        let [dx, dw, db] = grad(&loss, [&leaves[0], &leaves[1], &leaves[2]]);
        thalweg::synchronize().unwrap();
        drop(leaves);
        (loss, dx, dw, db)
    };
    let plain = |x: &Tensor, w: &Tensor, b: &Tensor| (x.matmul(w) + b).relu();
    let (want, p) = counted(|| step(&plain));
    let (got, c) = counted(|| step(&fused));
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (p.kernels, p.bytes_read, p.bytes_written), "{c:?}\n{p:?}");
    assert_eq!((c.segments, c.plans_made), (1, 1), "forward and backward are one segment");
    for (got, want) in [(got.1, want.1), (got.2, want.2), (got.3, want.3)] {
        let apart = (got - want).abs().amax(..).item::<f32>().unwrap();
        assert!(apart < 1e-3, "{apart}");
    }
    let (_, c) = counted(|| step(&fused));
    assert_eq!(c.plans_made, 0, "a loop of such steps makes no plan");
}

#[test]
fn the_rule_is_called_once_a_pass_with_all_gradients() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let polar = |r: &Tensor, t: &Tensor| {
        custom_grad(
            (r, t),
            |(r, t)| (&r * t.cos(), r * t.sin()),
            |Backward { inputs: (r, t), outputs: (x, y), gradients: (dx, dy) }| {
                CALLS.fetch_add(1, Relaxed);
                (&dx * t.cos() + &dy * t.sin(), dy * x - dx * y + r * 0.0)
            },
        )
    };
    let xs = [numbers(1, [6], 0.5, 2.0), numbers(2, [6], -1.0, 1.0)];
    check("polar", &xs, &|xs| {
        let (x, y) = polar(&xs[0], &xs[1]);
        x * 2.0 + y.square()
    });
    // One result only: the other's gradient is zero.
    check("polar, x", &xs, &|xs| polar(&xs[0], &xs[1]).0.square());
    let before = CALLS.load(Relaxed);
    let leaves = [xs[0].tracked(), xs[1].tracked()];
    let (x, y) = polar(&leaves[0], &leaves[1]);
    let loss = (x * y).sum(..);
    retain_graph(|| loss.backward());
    loss.backward();
    assert_eq!(CALLS.load(Relaxed) - before, 2);
}

#[test]
fn another_gradient_than_the_function_has() {
    // Straight-through estimator of a step.
    let x = Tensor::new([0.2f32, 1.7]).tracked();
    let y = custom_grad(&x, |x| x.round(), |b| b.gradients);
    assert_eq!(grad(&(y * 3.0).sum(..), &x).to_vec::<f32>().unwrap(), [3.0, 3.0]);
    // An index has no gradient, and results may be of any dtype.
    let (table, index) = (Tensor::new([1.0f32, 2.0, 4.0]).tracked(), Tensor::new([2i64, 0, 2]));
    let (y, at) = custom_grad(
        (&table, &index),
        |(table, index)| (table.gather(0, &index), index),
        |Backward { inputs: (table, index), gradients: (dy, _), .. }| {
            (Some(table.zeros_like().scatter_add(0, &index, &dy)), None)
        },
    );
    assert!(y.is_tracked() && !at.is_tracked());
    assert_eq!(grad(&y.square().sum(..), &table).to_vec::<f32>().unwrap(), [2.0, 0.0, 16.0]);
    // Second derivatives are those of the backward pass.
    let x = Tensor::new(3.0f64).tracked();
    let cube = |x: &Tensor| custom_grad(x, |x| x.powi(3), |b| b.gradients * b.inputs.square() * 3.0);
    let slope = grad_graph(&cube(&x), &x);
    assert_eq!(grad(&slope, &x).item::<f64>().unwrap(), 18.0);
    assert!(!no_grad(|| cube(&x)).is_tracked());
    assert!(!cube(&x.detach()).is_tracked());
    // A result computed from the outputs, one of which nobody holds.
    let exp = |x: &Tensor| custom_grad(x, |x| (x.exp(), x), |b| &b.gradients.0 * &b.outputs.0 + &b.gradients.1).0;
    let slope = grad_graph(&exp(&x), &x);
    let curve = grad_graph(&slope, &x);
    let all = [&slope, &curve, &grad(&curve, &x)].map(|t| (t.item::<f64>().unwrap() - 3f64.exp()).abs() < 1e-12);
    assert_eq!(all, [true; 3]);
}

/// Inputs of a rule that a cut does not save are recomputed, as for any operation.
#[test]
fn a_cut_between_the_passes_keeps_what_the_rule_reads() {
    let _pinned = pinned();
    let x = randn([64, 32]);
    let run = |early: bool| {
        let x = x.tracked();
        let h = (&x * 0.5).exp();
        let y = custom_grad(&h, |h| h.tanh(), |b| b.gradients * (b.outputs.square() * -1.0 + 1.0));
        let loss = y.sum(..);
        drop((h, y));
        if early {
            loss.item::<f32>().unwrap();
        }
        grad(&loss, &x).to_vec::<f32>().unwrap()
    };
    thalweg::with_strict(true, || assert_eq!(run(true), run(false)));
}

#[test]
fn mistakes_name_what_is_wrong() {
    let x = Tensor::new([1.0f32, 2.0]).tracked();
    let w = Tensor::new([1.0f32, 2.0]).tracked();
    assert_mistake(
        || drop(custom_grad(&x, |x| x * &w, |b| b.gradients)),
        &["custom_grad", "[2]", "comes from a tracked tensor that is no input", ".detach()"],
    );
    let y = custom_grad(&x, |x| x.sum(..), |b| b.gradients);
    assert_mistake(|| drop(y.backward()), &["kernels/backward.rs", "gives f32[] for input 0, which is f32[2]"]);
    let y = custom_grad(&x, |x| x * 2.0, |b| b.gradients.cast(DType::F64));
    assert_mistake(|| drop(y.sum(..).backward()), &["gives f64[2] for input 0, which is f32[2]"]);
    let y = custom_grad((&x, &w), |(x, w)| x * w, |b| b.gradients);
    assert_mistake(|| drop(y.sum(..).backward()), &["gives 1 gradients for 2 inputs"]);
    let y = custom_grad(&x, |x| x * 2.0, |b| b.gradients);
    let s = y.sum(..);
    s.backward();
    assert_mistake(|| drop(s.backward()), &["retain_graph"]);
}
