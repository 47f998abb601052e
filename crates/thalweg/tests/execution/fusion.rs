//! Fusion, checked by counters and explanations: a missed fusion leaves every value right.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg_stream::explain;

/// GELU with the error function of Abramowitz and Stegun 7.1.26 written by hand, both sides of it computed.
fn gelu_custom(x: &Tensor) -> Tensor {
    fn erf_positive(x: &Tensor) -> Tensor {
        let t = 1.0 / (x.abs() * 0.3275911 + 1.0);
        let p = ((((&t * 1.061405429 + -1.453152027) * &t + 1.421413741) * &t + -0.284496736) * &t + 0.254829592) * &t;
        -(p * (-x * x).exp()) + 1.0
    }
    let s = x / std::f64::consts::SQRT_2;
    let erf = s.gt(0.0).where_(erf_positive(&s), -erf_positive(&-&s));
    x * (erf + 1.0) / 2.0
}

#[test]
fn the_three_operation_example_moves_as_many_bytes_as_it_must() {
    let _pinned = pinned();
    let run = |fused: bool| {
        thalweg::with_fusion(fused, || {
            let ((out, e), c) = counted(|| {
                explain(|| {
                    let x = Tensor::rand([32, 32]);
                    let y = Tensor::rand([32, 32]);
                    let tmp1 = &x + &y;
                    let tmp2 = tmp1 * &x;
                    let out = tmp2 * &y;
                    (x, y, out)
                })
            });
            let t = e.totals();
            assert_eq!(
                [t.kernels, t.bytes_allocated, t.bytes_read_measured, t.bytes_written_measured].map(|v| v as u64),
                [c.kernels, c.bytes_allocated, c.bytes_read, c.bytes_written],
                "the explanation says what was counted"
            );
            (out.2.to_vec::<f32>().unwrap().len(), c, e)
        })
    };
    let (n, unfused, _) = run(false);
    assert_eq!(n, 1024);
    let moved = (unfused.bytes_allocated, unfused.bytes_read, unfused.bytes_written, unfused.kernels);
    assert_eq!(moved, (20_480, 24_576, 20_480, 5));
    let (_, fused, e) = run(true);
    assert_eq!((fused.bytes_allocated, fused.bytes_read, fused.bytes_written, fused.kernels), (12_288, 0, 12_288, 1));
    let u = e.unfused();
    assert_eq!((u.bytes_allocated, u.bytes_read, u.bytes_written), (20_480, 24_576, 20_480));
}

#[test]
fn the_three_operations_on_given_data() {
    let _pinned = pinned();
    let (x, y) = (randn([32, 32]), randn([32, 32]));
    let (out, c) = counted(|| (&x + &y) * &x * &y);
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written, c.bytes_allocated), (1, 8192, 4096, 4096));
    drop(out);
}

#[test]
fn gelu_by_hand_is_one_kernel_with_one_exponential() {
    let _pinned = pinned();
    let x = randn([64, 64]);
    let ((y, e), c) = counted(|| explain(|| gelu_custom(&x)));
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 4096 * 4, 4096 * 4));
    assert!(e.segments[0].operations.len() > 35);
    drop(y);
}

#[test]
fn one_plan_serves_every_batch_size() {
    let _pinned = pinned();
    // Otherwise there is a second plan, without the random numbers that nobody reads.
    thalweg::set_deferring(false);
    let run = |b: usize| {
        let x = Tensor::randn([b, 48]);
        gelu_custom(&x).to_vec::<f32>().unwrap()
    };
    let (_, first) = counted(|| run(1));
    assert_eq!(first.plans_made, 1);
    let (_, rest) = counted(|| (2..=64).for_each(|b| drop(run(b))));
    assert_eq!((rest.plans_made, rest.plans_found, rest.programs_compiled), (0, 63, 0));
    assert_eq!(rest.instances_made, 63);
}

#[test]
fn a_thousand_scalars_make_one_plan_and_few_programs() {
    let _pinned = pinned();
    let x = randn([100]);
    let run = |s: f64| ((&x * s + 0.5) * 2.0 + s).to_vec::<f32>().unwrap();
    let (_, c) = counted(|| {
        for i in 0..1000 {
            // Equal to another scalar now and then, which must not cause another plan.
            run(if i == 0 { 2.0 } else { i as f64 * 0.25 });
        }
    });
    assert_eq!((c.plans_made, c.plans_found), (1, 999));
    assert!(c.programs_compiled <= 3, "{c:?}");
}

#[test]
fn a_long_loop_without_a_read_converges() {
    let _pinned = pinned();
    let turns = |n: usize| {
        let mut y = randn([64]);
        for _ in 0..n {
            y = (y * 1.0001 + 0.0001).tanh();
        }
        y.to_vec::<f32>().unwrap()
    };
    let (_, short) = counted(|| turns(10_000));
    assert!(short.plans_made <= 4, "{short:?}");
    let (_, again) = counted(|| turns(10_000));
    assert_eq!(again.plans_made, 0, "{again:?}");
    let (_, longer) = counted(|| turns(30_000));
    assert!(longer.plans_made <= 1, "one for another rest at the end: {longer:?}");
}

#[test]
fn a_loop_of_any_length_of_body_converges() {
    let _pinned = pinned();
    let w = randn([16]);
    for body in [5, 37, 300] {
        let turns = |n: usize| {
            let mut y = randn([16]);
            for _ in 0..n {
                for k in 0..body {
                    y = if k % 3 == 0 { &y * &w } else { y.tanh() };
                }
            }
            y.to_vec::<f32>().unwrap()
        };
        let (_, c) = counted(|| turns(60));
        assert!(c.plans_made <= 5, "body of {body}: {c:?}");
        let (_, again) = counted(|| turns(60));
        assert_eq!(again.plans_made, 0, "body of {body}");
    }
}

#[test]
fn an_exit_that_depends_on_data_makes_no_new_plans() {
    let _pinned = pinned();
    let run = |limit: f32| {
        let mut y = Tensor::full([8], 1.0);
        let mut turns = 0;
        while y.index_axis(0, 0).item::<f32>().unwrap() < limit {
            y = y * 1.5 + 0.25;
            turns += 1;
        }
        turns
    };
    let (n, first) = counted(|| run(10.0));
    assert!(n > 3 && first.plans_made <= 3, "{first:?}");
    let (_, more) = counted(|| (run(100.0), run(5.0), run(1e6)));
    assert_eq!(more.plans_made, 0);
}

#[test]
fn drops_and_clones_of_temporaries_do_not_change_the_plan() {
    let _pinned = pinned();
    let x = randn([40]);
    let (_, first) = counted(|| {
        let t = &x * 2.0;
        let u = t.exp();
        let y = &u + &t;
        drop((t, u));
        y.to_vec::<f32>().unwrap()
    });
    let (_, other) = counted(|| {
        let t = &x * 2.0;
        let extra = t.clone();
        let u = extra.exp();
        drop(t);
        let y = &u + extra;
        let held = u.clone();
        drop(u);
        drop(held);
        y.to_vec::<f32>().unwrap()
    });
    assert_eq!((first.plans_made, other.plans_made, other.plans_found), (1, 0, 1));
}

#[test]
fn diamonds_and_several_outputs_share_a_kernel() {
    let _pinned = pinned();
    let x = randn([33, 7]);
    let (_, c) = counted(|| {
        let h = (&x * 1.5).tanh();
        let (a, b) = (h.exp(), h.sin());
        let sum = &a + &b;
        (a, b, sum)
    });
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 231 * 4, 3 * 231 * 4));
}

#[test]
fn siblings_read_their_input_once() {
    let _pinned = pinned();
    let x = randn([1000]);
    let (_, c) = counted(|| (x.exp(), x.sin(), x.sqrt()));
    assert_eq!((c.kernels, c.bytes_read), (1, 4000));
}

#[test]
fn views_of_inputs_and_intermediates_fuse() {
    let _pinned = pinned();
    let (x, b) = (randn([12, 8]), randn([8]));
    let (y, c) = counted(|| {
        let t = (&x + &b).exp();
        t.t().slice((.., (..).by(-1))).reshape([4, 24]) * 2.0
    });
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, (96 + 8) * 4, 96 * 4));
    assert_eq!(y.dims(), [4, 24]);
}

#[test]
fn pad_and_cat_are_selects_inside_a_kernel() {
    let _pinned = pinned();
    let (x, y) = (randn([4, 6]), randn([2, 6]));
    let (_, c) = counted(|| {
        let both = Tensor::cat(&[x.exp(), &y * 2.0], 0);
        both.pad([(1, 1), (0, 2)], Border::Constant(0.5.into())) + 1.0
    });
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 36 * 4, 8 * 8 * 4));
}

#[test]
fn casts_and_mixed_dtypes_stay_in_one_kernel() {
    let _pinned = pinned();
    let x = randn([50]);
    let n = Tensor::arange(0..50);
    thalweg::synchronize().unwrap();
    let (_, c) = counted(|| {
        let k = (&x * 10.0).cast(DType::I32).cast(DType::F32);
        k.cast(DType::BF16).cast(DType::F32) + n.cast(DType::F32)
    });
    assert_eq!(c.kernels, 1);
}

#[test]
fn dead_intermediates_are_not_computed() {
    let _pinned = pinned();
    let x = randn([64]);
    let (_, c) = counted(|| {
        let unused = x.exp().matmul(&x);
        let y = &x + 1.0;
        drop(unused);
        y
    });
    assert_eq!((c.kernels, c.bytes_written), (1, 256));
}

#[test]
fn a_dear_producer_of_several_kernels_is_stored_and_a_cheap_one_computed_again() {
    let _pinned = pinned();
    let x = randn([512, 512]);
    let dear = || {
        let h = x.tanh().erf().exp().sin();
        (h.slice((0..511, ..)) + 1.0, h.t() * 2.0, h.slice((1..512, ..)) * h.slice((0..511, ..)))
    };
    let (_, e) = explain(dear);
    let stored: Vec<&str> = e.segments[0].edges.iter().map(|e| e.reason.as_str()).collect();
    assert!(stored.iter().any(|r| r.contains("cheaper")), "{e}");
    let cheap = || {
        let h = &x + 1.0;
        (h.slice((0..511, ..)) * 2.0, h.t() * 2.0)
    };
    let (_, e) = explain(cheap);
    assert!(e.segments[0].edges.is_empty(), "{e}");
}

#[test]
fn a_small_dear_producer_is_not_computed_for_every_row() {
    let _pinned = pinned();
    let (x, b) = (randn([4096, 64]), randn([64]));
    let (_, c) = counted(|| &x + b.exp().log1p().tanh());
    assert_eq!(c.kernels, 2);
    let (_, c) = counted(|| &x + (&b + 1.0));
    assert_eq!(c.kernels, 1);
}

#[test]
fn a_dying_input_gives_its_memory_to_the_result() {
    let _pinned = pinned();
    let x = randn([1000]);
    let (y, c) = counted(move || x * 2.0 + 1.0);
    assert_eq!((c.bytes_allocated, c.reused_in_place), (0, 1));
    let (z, c) = counted(|| &y + 1.0);
    assert_eq!((c.bytes_allocated, c.reused_in_place), (4000, 0));
    let view = z.slice(((..).by(-1),));
    thalweg::synchronize().unwrap();
    let (w, c) = counted(move || z + 1.0);
    assert_eq!(c.reused_in_place, 0, "a view still needs the memory");
    assert_ne!(view.to_vec::<f32>().unwrap()[0], w.to_vec::<f32>().unwrap()[999]);
}

#[test]
fn live_views_are_views_of_memory() {
    let _pinned = pinned();
    let x = randn([10, 20]);
    let (t, c) = counted(|| x.t().slice((3..7, ..)));
    assert_eq!((c.kernels, c.bytes_written), (0, 0));
    let (back, whole) = (t.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    assert_eq!(back[1], whole[20 + 3]);
}

#[test]
fn a_value_and_a_shift_of_it_are_not_written_in_one_kernel() {
    let _pinned = pinned();
    // Rule 1: the shifted read could see elements that the same kernel has not written yet.
    let x = randn([300]);
    let (out, e) = explain(|| {
        let h = (&x * 2.0).erf().exp().tanh().sin().cos();
        let shifted = h.slice((1..300,)) + 1.0;
        (h, shifted)
    });
    let h = out.0.to_vec::<f32>().unwrap();
    assert_eq!(out.1.to_vec::<f32>().unwrap(), h[1..].iter().map(|v| v + 1.0).collect::<Vec<_>>(), "{e}");
    assert!(e.segments[0].kernels.iter().all(|k| k.writes.len() == 1), "{e}");
}

#[test]
fn kernels_stay_acyclic_around_a_reduction() {
    let _pinned = pinned();
    // h and its sum over one axis come first; an operation that needs that sum and a sum over the other axis cannot be
    // in their kernel.
    let x = randn([64, 32]);
    let (y, e) = explain(|| {
        let h = x.exp();
        let y = (&h / h.sum_keepdim(0)).sum_keepdim(1) * h.sum_keepdim(0) + &h;
        (h, y)
    });
    assert_eq!(e.segments[0].kernels.len(), 2, "{e}");
    let (h, y) = (y.0.to_vec::<f32>().unwrap(), y.1.to_vec::<f32>().unwrap());
    let columns: Vec<f32> = (0..32).map(|c| (0..64).map(|r| h[r * 32 + c]).sum()).collect();
    for r in 0..64 {
        let share: f32 = (0..32).map(|c| h[r * 32 + c] / columns[c]).sum();
        for c in 0..32 {
            let want = share * columns[c] + h[r * 32 + c];
            assert!((y[r * 32 + c] - want).abs() < 1e-4 * want, "{} for {want}", y[r * 32 + c]);
        }
    }
}

#[test]
fn equal_shapes_by_chance_are_checked_again() {
    let _pinned = pinned();
    // Rule 3: two tensors of one shape share a kernel until they differ.
    let run = |m: usize, n: usize| {
        let (a, b, s) = (randn([m]), randn([n]), randn([1]));
        let (out, c) = counted(|| (&a * &s, &b * &s));
        assert_eq!(out.0.dims(), [m]);
        let (sa, sv) = (a.to_vec::<f32>().unwrap(), s.item::<f32>().unwrap());
        assert_eq!(out.0.to_vec::<f32>().unwrap(), sa.iter().map(|v| v * sv).collect::<Vec<_>>());
        assert_eq!(out.1.dims(), [n]);
        c.plans_made
    };
    assert_eq!(run(30, 30), 1);
    assert!(run(30, 40) <= 1);
    assert_eq!((run(50, 50), run(20, 60)), (0, 0));
}

#[test]
fn recording_order_of_independent_operations_does_not_change_the_kernels() {
    let _pinned = pinned();
    let (x, y) = (randn([128]), randn([128]));
    let shape_of = |e: &thalweg_fusion::Explanation| {
        let mut k: Vec<(usize, usize, usize)> =
            e.segments[0].kernels.iter().map(|k| (k.operations.len(), k.bytes_read, k.bytes_written)).collect();
        k.sort_unstable();
        k
    };
    let (_a, one) = explain(|| {
        let a = x.exp() + 1.0;
        let b = y.sin() * 2.0;
        (&a * &b, a.sum(..), b)
    });
    let (_b, two) = explain(|| {
        let b = y.sin();
        let a = x.exp();
        let b = b * 2.0;
        let a = a + 1.0;
        let s = a.sum(..);
        (&a * &b, s, b)
    });
    assert_eq!(shape_of(&one), shape_of(&two), "{one}\n{two}");
}

#[test]
fn index_and_values_of_a_scatter_are_computed_in_its_kernel() {
    let _pinned = pinned();
    let n = 100_000;
    let (base, at, v) = (randn([1000]), Tensor::randint(0..500, [n]), randn([n]));
    thalweg::synchronize().unwrap();
    let (sums, c) = counted(|| base.scatter_add(0, &(&at * 2), &v * 2.0 + 1.0));
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 4000 + 12 * n as u64, 4000));
    // A constant is no tensor, and an index common to all columns is computed once, so that neither is read for each
    // value.
    let (counts, c) = counted(|| base.zeros_like().scatter_add(0, &at, 1));
    assert_eq!((c.kernels, c.bytes_read), (2, 4000 + 8 * n as u64));
    let (table, rows) = (randn([50, 64]), Tensor::randint(0..50, [300]));
    let gradient = randn([300, 64]);
    let (sum, c) = counted(|| table.index_add(0, &rows, &gradient * 0.5));
    assert_eq!((c.kernels, c.bytes_read), (1, 4 * 50 * 64 + 8 * 300 + 4 * 300 * 64));
    // A value with another reader is stored, or recomputed if that is cheaper.
    let (both, c) = counted(|| {
        let w = (&v * 2.0).tanh();
        (base.scatter_add(0, &at, &w), w)
    });
    assert_eq!(c.kernels, 2);
    drop((sums, counts, sum, both));
}

#[test]
fn a_value_at_many_places_and_long_chains_that_meet_are_planned() {
    let _pinned = pinned();
    let x = randn([64, 16]);
    let windows = || {
        let e = x.tanh();
        (0..30).map(|i| e.slice((i..i + 32, ..))).reduce(|a, b| a + b).unwrap()
    };
    let chain = |n: usize, by: f64| (0..n).fold(x.clone(), |a, _| a * by);
    let meet = || chain(1024, 0.999).gt(0.0).where_(chain(1023, 1.001), chain(1022, 1.002));
    for program in [&windows as &dyn Fn() -> Tensor, &meet] {
        let fused = program().to_vec::<f32>().unwrap();
        let unfused = thalweg::with_fusion(false, || program().to_vec::<f32>().unwrap());
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        assert!(fused.iter().zip(&unfused).all(near));
    }
}
