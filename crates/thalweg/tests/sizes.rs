//! Other sizes of what was planned before: the same plan and the same code, and right values, also where the launch is made from that of other sizes.
//!
//! In a debug build each launch made that way is compared with the one written anew.

mod counting;

use counting::pinned;
use thalweg::prelude::*;
use thalweg::{counters, with_fusion};

fn tensor(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7 + seed * 13) % 23) as f32 / 8.0 - 1.0).collect();
    Tensor::from_slice(&values, dims)
}

/// Elementwise over `x`, with an operand that has one element a column, one a row, and one in all.
fn step(x: &Tensor, column: &Tensor, row: &Tensor, one: &Tensor) -> [Tensor; 2] {
    let h = (x * column + row).tanh();
    let scale = (row * one).exp() + column;
    [&h * &scale - x, h.gt(0.0).where_(&h, &(x * 2.0))]
}

#[test]
fn every_size_has_the_values_of_one_operation_at_a_time() {
    let _pinned = pinned();
    let sizes =
        [[3, 4], [5, 4], [5, 9], [1, 9], [1, 4], [8, 1], [64, 1], [1, 1], [2, 2], [0, 4], [7, 33], [128, 65], [3, 4]];
    for offset in 0..3 {
        for [m, n] in sizes {
            let all = [tensor(&[m, n], 1), tensor(&[n], 2), tensor(&[m, 1], 3), tensor(&[1, 1], 4)];
            // Views of other layouts in between: from behind, and in another order.
            let all = match offset {
                1 => {
                    all.map(|t| tensor(&[t.numel() + 2], 5).narrow(0, 2, t.numel()).reshape(t.shape().dims().to_vec()))
                }
                2 => {
                    let [x, column, row, one] = all;
                    [tensor(&[n, m], 6).transpose(0, 1) + 0.0 * x, column, row, one]
                }
                _ => all,
            };
            let run = || step(&all[0], &all[1], &all[2], &all[3]).map(|t| t.to_vec::<f32>().unwrap());
            let (fused, unfused) = (run(), with_fusion(false, run));
            for (f, u) in fused.iter().flatten().zip(unfused.iter().flatten()) {
                assert!((f - u).abs() <= 1e-5 * u.abs().max(1.0), "[{m}, {n}]: {f}, one at a time {u}");
            }
        }
    }
}

#[test]
fn many_sizes_are_one_plan_and_few_programs() {
    let _pinned = pinned();
    let run = |m: usize| {
        let y = step(&tensor(&[m, 40], 1), &tensor(&[40], 2), &tensor(&[m, 1], 3), &tensor(&[1, 1], 4));
        y.map(|t| t.to_vec::<f32>().unwrap())
    };
    run(2);
    run(1000);
    let before = counters();
    (3..200).for_each(|m| drop(run(m)));
    let c = counters() - before;
    assert_eq!((c.plans_made, c.programs_compiled, c.instances_made), (0, 0, 197));
}

#[test]
fn a_part_that_is_left_of_a_group_is_not_taken_for_another() {
    let _pinned = pinned();
    let chain = |x: &Tensor, by: f64| (x * by + 1.0).tanh();
    let run = |m: usize, n: usize| {
        let (a, b) = (tensor(&[m, 3], 1), tensor(&[n, 3], 2));
        let before = counters();
        let both = [chain(&a, 2.0), chain(&b, 3.0)];
        thalweg::flush();
        let kernels = (counters() - before).kernels;
        (both.map(|t| t.to_vec::<f32>().unwrap()), [a, b], kernels)
    };
    // Both in one launch, one of them with nothing to write, both again.
    for (m, n) in [(4, 5), (6, 5), (0, 7), (0, 8), (9, 2), (3, 0), (5, 0), (2, 6)] {
        let (got, [a, b], kernels) = run(m, n);
        assert_eq!(kernels, 1, "or this proves nothing");
        let want = with_fusion(false, || [chain(&a, 2.0), chain(&b, 3.0)].map(|t| t.to_vec::<f32>().unwrap()));
        assert_eq!(got.each_ref().map(Vec::len), [3 * m, 3 * n]);
        assert!(got.iter().flatten().zip(want.iter().flatten()).all(|(g, w)| (g - w).abs() < 1e-5), "{m}, {n}");
    }
}
