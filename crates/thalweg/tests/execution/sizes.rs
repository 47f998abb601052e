//! Other sizes of planned code: the same plan and the same programs, and right values, also where the launch is derived
//! from that of other sizes.
//!
//! In a debug build each derived launch is compared with one written anew.

use crate::counting::pinned;
use thalweg::prelude::*;
use thalweg::{counters, with_fusion};

fn tensor(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7 + seed * 13) % 23) as f32 / 8.0 - 1.0).collect();
    Tensor::from_slice(&values, dims)
}

/// Elementwise over `x`, with operands of one element per column, one per row, and a single one.
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
            // Views of other layouts in between: reversed, and permuted.
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
    // One of each size class that the sizes belong to.
    [2, 150, 1000].iter().for_each(|&m| drop(run(m)));
    let before = counters();
    (3..200).filter(|&m| m != 150).for_each(|m| drop(run(m)));
    let c = counters() - before;
    assert_eq!((c.plans_made, c.programs_compiled, c.instances_made), (0, 0, 196));
}

#[test]
fn a_thousand_batch_sizes_are_a_handful_of_plans() {
    let _pinned = pinned();
    let before = counters();
    (1..=1000).for_each(|m| drop(softmax(&in_memory(tensor(&[m, 40], 1)))));
    let c = counters() - before;
    // Sums over the columns of two to four rows are unrolled.
    assert!((1..=5).contains(&c.plans_made), "a plan for each size class, not {}", c.plans_made);
    assert_eq!(c.instances_made, 1000);
}

/// A softmax, and its sums over columns: the best intermediate to store depends on the cost of reading.
fn softmax(x: &Tensor) -> Vec<f32> {
    let e = (x - x.amax_keepdim(-1)).exp();
    let p = &e / e.sum_keepdim(-1);
    (&p * x).sum(0).to_vec().unwrap()
}

/// Every `step`-th column of a tensor, as part of the code that runs.
fn columns(x: &Tensor, step: i64) -> Tensor {
    x.slice((.., thalweg::SliceArg::range(0, None, step)))
}

/// Computes the tensor, so that it is an input of the following segment.
fn in_memory(x: Tensor) -> Tensor {
    thalweg::synchronize().unwrap();
    x
}

/// Number of kernels, of bytes read and of bytes written of a call, which distinguish plans.
fn plan_of(call: &dyn Fn() -> Vec<f32>) -> [u64; 3] {
    let before = counters();
    call();
    let c = counters() - before;
    [c.kernels, c.bytes_read, c.bytes_written]
}

#[test]
fn what_ran_first_does_not_decide_the_plan_of_another_class() {
    let sized = |m: usize, n: usize| move || softmax(&in_memory(tensor(&[m, n], 1)));
    let sliced = |step: usize| move || softmax(&columns(&in_memory(tensor(&[512, 512 * step], 1)), step as i64));
    // A view as an input in its own layout.
    let with_gaps = || softmax(&in_memory(tensor(&[512, 1024], 1).narrow(1, 0, 512)));
    let strided = || softmax(&in_memory(columns(&tensor(&[512, 512 * 16], 1), 16)));
    let transposed = || softmax(&in_memory(tensor(&[512, 512], 1).t()));
    let cases: [[&dyn Fn() -> Vec<f32>; 2]; 4] = [
        [&sized(16, 16), &sized(2048, 512)],
        [&sliced(16), &sliced(1)],
        [&strided, &with_gaps],
        [&strided, &transposed],
    ];
    let mut differ = 0;
    for calls in cases {
        // Each device starts without plans.
        let alone = calls.map(|call| {
            let _pinned = pinned();
            plan_of(call)
        });
        for order in [[0, 1], [1, 0]] {
            let _pinned = pinned();
            let after = order.map(|i| plan_of(calls[i]));
            assert_eq!(after, order.map(|i| alone[i]), "in order {order:?}");
        }
        differ += usize::from(alone[0][0] != alone[1][0]);
    }
    assert!(differ > 0, "or this proves nothing");
}

#[test]
fn more_classes_than_are_planned_for_take_the_plans_of_others() {
    let _pinned = pinned();
    // From the third run on it would be another pattern, with its own classes.
    thalweg::set_deferring(false);
    let layouts = |m: usize| {
        [
            in_memory(tensor(&[m, 2 * m], 1).narrow(1, 0, m)),
            in_memory(tensor(&[m, m], 2).t()),
            in_memory(columns(&tensor(&[m, 3 * m], 3), 3)),
        ]
    };
    let code = |x: &Tensor, y: &Tensor| ((x * 1.5).tanh() * y).sum(1).to_vec::<f32>().unwrap();
    let mut plans_made = 0;
    for m in [16, 96, 300] {
        let (xs, ys) = (layouts(m), layouts(m));
        for (x, y) in xs.iter().flat_map(|x| ys.iter().map(move |y| (x, y))) {
            let before = counters();
            let got = code(x, y);
            plans_made += (counters() - before).plans_made;
            let want = with_fusion(false, || code(x, y));
            assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-4 * w.abs().max(1.0)));
        }
    }
    assert_eq!(plans_made, 16, "of 27 classes");
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
    // Both in one launch, one of them empty, both again.
    for (m, n) in [(4, 5), (6, 5), (0, 7), (0, 8), (9, 2), (3, 0), (5, 0), (2, 6)] {
        let (got, [a, b], kernels) = run(m, n);
        assert_eq!(kernels, 1, "or this proves nothing");
        let want = with_fusion(false, || [chain(&a, 2.0), chain(&b, 3.0)].map(|t| t.to_vec::<f32>().unwrap()));
        assert_eq!(got.each_ref().map(Vec::len), [3 * m, 3 * n]);
        assert!(got.iter().flatten().zip(want.iter().flatten()).all(|(g, w)| (g - w).abs() < 1e-5), "{m}, {n}");
    }
}
