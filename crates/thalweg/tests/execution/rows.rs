//! Row kernels: reductions that run as one kernel, reading inputs once and writing results once.

use crate::counting::{pinned, pinned_with};
use thalweg::prelude::*;
use thalweg::{Costs, Counters, counters};
use thalweg_stream::explain;

/// Costs with launches of a second, so that plans have as few kernels as possible, and tests check what can be one
/// kernel, independent of the cost model.
fn launches_are_dear() -> Costs {
    Costs { launch: 1e9, ..Costs::typical() }
}

/// The counters of the calling thread while `f` ran; the explanation must agree.
fn counted<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    thalweg::synchronize().unwrap();
    let before = counters();
    let (out, e) = explain(f);
    let c = counters() - before;
    let t = e.totals();
    assert_eq!(
        [t.kernels, t.bytes_read_measured, t.bytes_written_measured].map(|v| v as u64),
        [c.kernels, c.bytes_read, c.bytes_written],
        "{e}"
    );
    (out, c)
}

fn randn(shape: impl Into<thalweg::Shape>) -> Tensor {
    let x = Tensor::randn(shape.into());
    thalweg::synchronize().unwrap();
    x
}

/// Runs `f` fused, checks kernels and bytes, and compares with unfused execution and the interpreter.
fn one_kernel(read: usize, written: usize, f: impl Fn() -> Tensor) {
    let (y, c) = counted(&f);
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, read as u64, written as u64));
    let fused = y.to_vec::<f32>().unwrap();
    let unfused = thalweg::with_fusion(false, || f().to_vec::<f32>().unwrap());
    for (a, b) in fused.iter().zip(&unfused) {
        assert!((a - b).abs() <= 2e-5 * (1.0 + b.abs()), "{a} fused, {b} unfused");
    }
    let strict = |fused| thalweg::with_strict(true, || thalweg::with_fusion(fused, || f().to_vec::<f32>().unwrap()));
    assert_eq!(strict(true), strict(false), "strict: the same bits");
}

const SHAPE: [usize; 3] = [24, 36, 40];
const BYTES: usize = 24 * 36 * 40 * 4;

#[test]
fn softmax_is_one_kernel_along_any_axis() {
    let _pinned = pinned_with(launches_are_dear());
    let x = randn(SHAPE);
    for axis in 0..3 {
        one_kernel(BYTES, BYTES, || {
            let e = (&x - x.amax_keepdim(axis)).exp();
            &e / e.sum_keepdim(axis)
        });
    }
}

#[test]
fn layer_norm_is_one_kernel_along_any_axis() {
    let _pinned = pinned_with(launches_are_dear());
    let x = randn(SHAPE);
    for axis in 0..3 {
        let mut shape = [1; 3];
        shape[axis as usize] = SHAPE[axis as usize];
        let (g, b) = (randn(shape), randn(shape));
        one_kernel(BYTES + 2 * SHAPE[axis as usize] * 4, BYTES, || {
            let centred = &x - x.mean_keepdim(axis);
            let variance = (&centred * &centred).mean_keepdim(axis);
            centred / (variance + 1e-5).sqrt() * &g + &b
        });
    }
}

#[test]
fn rms_norm_and_what_follows_are_one_kernel_along_any_axis() {
    let _pinned = pinned_with(launches_are_dear());
    let (x, z) = (randn(SHAPE), randn(SHAPE));
    for axis in 0..3 {
        let mut shape = [1; 3];
        shape[axis as usize] = SHAPE[axis as usize];
        let g = randn(shape);
        one_kernel(2 * BYTES + SHAPE[axis as usize] * 4, BYTES, || {
            let y = &x / ((&x * &x).mean_keepdim(axis) + 1e-5).sqrt() * &g;
            &y * y.sigmoid() * &z
        });
    }
}

#[test]
fn log_softmax_and_its_loss_are_one_kernel_along_any_axis() {
    let _pinned = pinned_with(launches_are_dear());
    let x = randn(SHAPE);
    for axis in 0..3 {
        let classes = SHAPE[axis as usize];
        let mut kept = SHAPE;
        kept[axis as usize] = 1;
        let targets = (Tensor::rand(kept) * classes as f64).floor().cast(DType::I64);
        thalweg::synchronize().unwrap();
        let rows = BYTES / 4 / classes;
        let mut along = [1; 3];
        along[axis as usize] = classes;
        let numbers = Tensor::arange(classes as i64).cast(DType::I64).reshape(along);
        thalweg::synchronize().unwrap();
        one_kernel(BYTES + rows * 8 + classes * 8, rows * 4, || {
            let shifted = &x - x.amax_keepdim(axis);
            let log_sum = shifted.exp().sum_keepdim(axis).log();
            let picked = numbers.eq(&targets).where_(&shifted, 0.0).sum_keepdim(axis);
            log_sum - picked
        });
    }
}

#[test]
fn several_axes_and_reshapes_between_are_one_kernel() {
    let _pinned = pinned_with(launches_are_dear());
    let x = randn([6, 8, 5, 7]);
    let bytes = 6 * 8 * 5 * 7 * 4;
    // Group norm: statistics under one shape, the result under another.
    let weight = randn([8]);
    one_kernel(bytes + 32, bytes, || {
        let groups = x.reshape([6, 2, 4 * 5 * 7]);
        let centred = &groups - groups.mean_keepdim(-1);
        let variance = (&centred * &centred).mean_keepdim(-1);
        (centred / (variance + 1e-5).sqrt()).reshape([6, 8, 5, 7]) * weight.reshape([8, 1, 1])
    });
    // Batch norm in training: axes with a kept one between.
    one_kernel(bytes, bytes, || {
        let centred = &x - x.mean_keepdim([0, 2, 3]);
        let variance = (&centred * &centred).mean_keepdim([0, 2, 3]);
        centred / (variance + 1e-5).sqrt()
    });
    // Over all elements.
    one_kernel(bytes, bytes, || &x / (&x * &x).sum(..).sqrt());
}

#[test]
fn reductions_of_one_input_share_a_pass() {
    let _pinned = pinned_with(launches_are_dear());
    let x = randn([64, 48]);
    let (out, c) = counted(|| (x.sum(1), (&x * &x).sum(1), x.amax(1), x.exp().mean(1), x.argmax(1)));
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 64 * 48 * 4, 64 * (4 * 4 + 8)));
    drop(out);
}

#[test]
fn statistics_and_the_normalised_come_from_one_kernel() {
    let _pinned = pinned_with(launches_are_dear());
    let x = randn([64, 48]);
    let (out, c) = counted(|| {
        let mean = x.mean_keepdim(1);
        let centred = &x - &mean;
        let deviation = ((&centred * &centred).mean_keepdim(1) + 1e-5).sqrt();
        (centred / &deviation, mean, deviation)
    });
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 64 * 48 * 4, 64 * 48 * 4 + 2 * 64 * 4));
    drop(out);
}

#[test]
fn the_hub_reads_its_tensor_twice() {
    let _pinned = pinned();
    let x = randn([1024, 1024]);
    let (out, c) = counted(|| {
        let h = (&x * 1.5 + 0.25).tanh();
        let c0 = &h / ((&h * &h).sum_keepdim(1) + 1.0);
        let c1 = (&h - h.mean_keepdim(0)).relu();
        let c2 = (&h - h.amax_keepdim(1)).exp();
        let c3 = &h * (h.sin() * h.cos()).sum_keepdim(0);
        let c4 = &h + (&h * 3.0).tanh().mean_keepdim(1);
        let c5 = h.exp().sum_keepdim(1).log() * &h;
        let out = (c0 + c1) * (c2 + 1.0) + c3.relu() * c4 - c5;
        let sums = out.sum(1);
        (out, sums)
    });
    let (tensor, vector) = (1024 * 1024 * 4, 1024 * 4);
    assert!(c.kernels <= 3, "{} kernels", c.kernels);
    // The first kernel stores h, which costs less than recomputing its tanh in the second; x itself is read once.
    assert_eq!((c.bytes_read, c.bytes_written), (2 * tensor + 2 * vector, 2 * tensor + 3 * vector));
    assert_eq!(c.reused_in_place, 1, "the result takes the place of h");
    drop(out);
}

#[test]
fn a_reduction_over_other_rows_is_a_kernel_of_its_own() {
    let _pinned = pinned();
    let x = randn([32, 48]);
    let ((), e) = explain(|| drop((&x / x.sum_keepdim(0) + x.sum_keepdim(1)).to_vec::<f32>().unwrap()));
    let reasons: Vec<&str> = e.segments[0].edges.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!(reasons, ["result of sum over other rows, which has to be complete"], "{e}");
}

#[test]
fn an_empty_row_has_the_identity() {
    let _pinned = pinned();
    let x = Tensor::zeros([3, 0]);
    assert_eq!((x.sum(1) + 1.0).to_vec::<f32>().unwrap(), [1.0; 3]);
    assert_eq!(x.prod(1).to_vec::<f32>().unwrap(), [1.0; 3]);
    assert_eq!(x.sum(0).dims(), [0]);
    assert_eq!(x.sum(..).item::<f32>().unwrap(), 0.0);
}

#[test]
fn one_plan_a_class_and_one_program_serve_every_row_length() {
    let _pinned = pinned();
    let run = |rows: usize, n: usize| {
        let x = randn([rows, n]);
        counted(|| {
            let e = (&x - x.amax_keepdim(-1)).exp();
            &e / e.sum_keepdim(-1)
        })
        .1
    };
    run(20, 64);
    // 1.6 MB is another size class: it is planned, finds the same plan, and so compiles nothing.
    for (rows, n, plans_made) in [(21, 65, 0), (3, 1000, 0), (40, 5000, 1), (64, 32, 0)] {
        let c = run(rows, n);
        assert_eq!((c.plans_made, c.programs_compiled, c.kernels), (plans_made, 0, 1), "{rows} rows of {n}");
    }
}

#[test]
fn sums_over_either_axis_share_a_pass() {
    let _pinned = pinned();
    let (n, m) = (3000, 1300);
    let x = randn([n, m]);
    let bytes = n * m * 4;
    let (out, c) = counted(|| (x.sum(1), x.sum(0), x.abs().amax(0)));
    // Sums over the first axis are partial results of 64 groups of rows, which are written and read once: they exceed
    // the second-level cache.
    let partial = (64 * m * 4) as u64;
    let written = 4 * (n + 2 * m) as u64;
    let moved = (c.kernels, c.bytes_read, c.bytes_written);
    assert_eq!(moved, (1, bytes as u64 + 2 * partial, written + 2 * partial));
    let v = x.to_vec::<f32>().unwrap();
    let (rows, columns) = (out.0.to_vec::<f32>().unwrap(), out.1.to_vec::<f32>().unwrap());
    let close = |got: f32, want: f64| assert!((got as f64 - want).abs() < 1e-4, "{got} for {want}");
    (0..n).for_each(|r| close(rows[r], (0..m).map(|c| v[r * m + c] as f64).sum()));
    (0..m).for_each(|c| close(columns[c], (0..n).map(|r| v[r * m + c] as f64).sum()));
    let largest: Vec<f32> = (0..m).map(|c| (0..n).map(|r| v[r * m + c].abs()).fold(0.0, f32::max)).collect();
    assert_eq!(out.2.to_vec::<f32>().unwrap(), largest);

    // The function of one of the reductions has a small kernel of its own; a row program shares its pass, too.
    let (out, c) = counted(|| {
        let e = (&x - x.amax_keepdim(1)).exp();
        (&e / e.sum_keepdim(1), x.mean(0))
    });
    // Half as many partial results stay in the second-level cache.
    assert_eq!((c.kernels, c.bytes_read), (2, (bytes + m * 4) as u64));
    let mean = out.1.to_vec::<f32>().unwrap();
    (0..m).for_each(|c| close(mean[c], (0..n).map(|r| v[r * m + c] as f64).sum::<f64>() / n as f64));

    // A strict plan keeps the order of each sum: two kernels, which both read x.
    thalweg::with_strict(true, || {
        let (out, c) = counted(|| (x.sum(1), x.sum(0)));
        // The device counts the last strip of columns as wide as the others: at most one row's worth of it.
        let strip = c.bytes_read - 2 * bytes as u64;
        assert!(c.kernels == 2 && strip <= 4 * m as u64, "{} kernels, {strip} bytes beyond two readings", c.kernels);
        drop(out);
    });
}

#[test]
fn a_shared_pass_may_need_what_its_own_kernel_gives() {
    let _pinned = pinned();
    let n = 200;
    let x = randn([n, n]);
    let v = x.to_vec::<f32>().unwrap();
    let strictly = |f: &dyn Fn() -> Tensor| {
        thalweg::with_strict(true, || thalweg::with_fusion(false, || f().to_vec::<f32>().unwrap()))
    };
    let check = |kernels: u64, f: &dyn Fn() -> (Tensor, Tensor)| {
        let (out, c) = counted(f);
        assert_eq!(c.kernels, kernels);
        for (got, want) in [(out.0, strictly(&|| f().0)), (out.1, strictly(&|| f().1))] {
            for (g, w) in got.to_vec::<f32>().unwrap().iter().zip(&want) {
                assert!((g - w).abs() <= 1e-4 * (1.0 + w.abs()), "{g} for {w}");
            }
        }
    };
    // Columns of elements divided by the sum of their row, where the quotient is a result, too: the pass that knows the
    // sum adds up the columns.
    check(1, &|| {
        let e = (&x - x.amax_keepdim(1)).exp();
        let s = e.sum_keepdim(1);
        ((&e / &s).sum(0), s)
    });
    // The sum of another row is not available yet.
    check(2, &|| {
        let s = x.sum(1);
        ((&x * s.reshape([1, n])).sum(0), s)
    });
    let sums: Vec<f64> = v.chunks(n).map(|r| r.iter().map(|&v| v as f64).sum()).collect();
    let got = (&x * x.sum(1).reshape([1, n])).sum(0).to_vec::<f32>().unwrap();
    for (c, g) in got.iter().enumerate() {
        let want: f64 = (0..n).map(|r| v[r * n + c] as f64 * sums[c]).sum();
        assert!((*g as f64 - want).abs() <= 1e-3 * (1.0 + want.abs()), "{g} for {want}");
    }
}

/// Partial results of the columns are one run of memory, so rows whose operands have no single stride are not shared.
#[test]
fn a_shared_pass_has_rows_of_one_dimension() {
    let _pinned = pinned();
    let x = randn([8, 2, 64, 1024]);
    let check = |kernels: u64, mask: Tensor| {
        let f = || {
            let y = &x * &mask;
            (y.sum([2, 3]), y.sum([0, 1]))
        };
        let (out, c) = counted(f);
        assert_eq!(c.kernels, kernels, "mask {}", mask.shape());
        let want = thalweg::with_strict(true, || thalweg::with_fusion(false, f));
        for (got, want) in [(out.0, want.0), (out.1, want.1)] {
            for (g, w) in got.to_vec::<f32>().unwrap().iter().zip(want.to_vec::<f32>().unwrap()) {
                assert!((g - w).abs() <= 1e-4 * (1.0 + w.abs()), "{g} for {w}");
            }
        }
    };
    check(1, randn([1, 1, 64, 1024]));
    check(2, randn([1, 1, 64, 1]));
    check(2, randn([1, 1, 1, 1024]));
}

/// Rows beyond the caches are read once by every fold with a rescaling identity, also by user-defined formulas.
#[test]
fn folds_of_what_differs_from_a_fold_read_a_long_row_once() {
    let _pinned = pinned_with(launches_are_dear());
    let n = 1 << 19;
    let x = randn([2, n]);
    let differs = || &x - x.mean_keepdim(1);
    let below = || &x - x.amax_keepdim(1);
    type Formula<'a> = (&'a str, Box<dyn Fn() -> Tensor + 'a>);
    let formulas: [Formula<'_>; 7] = [
        ("variance", Box::new(|| x.var(1))),
        ("third moment", Box::new(|| (differs().square() * differs()).sum(1))),
        ("kurtosis", Box::new(|| differs().square().square().mean(1) / differs().square().mean(1).square())),
        ("log-sum-exp", Box::new(|| x.logsumexp(1))),
        ("entropy", Box::new(|| (below() * below().exp()).sum(1) / below().exp().sum(1))),
        ("expected", Box::new(|| (below().exp() * x.abs()).sum(1) / below().exp().sum(1))),
        ("arg max", Box::new(|| x.argmax(1).cast(DType::F32))),
    ];
    for (name, f) in &formulas {
        let (y, c) = counted(f);
        let y = y.to_vec::<f32>().unwrap();
        assert_eq!(c.kernels, 1, "{name}");
        assert_eq!(c.bytes_read, 2 * 4 * n as u64, "{name} reads a row twice");
        let (two, c) = counted(|| thalweg::with_strict(true, f));
        assert!(c.bytes_read >= 2 * 2 * 4 * n as u64, "{name}: strictly there are two passes");
        for (a, b) in y.iter().zip(two.to_vec::<f32>().unwrap()) {
            // The third moment of a normal distribution is the small remainder of numbers a thousand times as large.
            let scale = if *name == "third moment" { n as f32 * 1e-2 } else { 0.0 };
            assert!((a - b).abs() <= 2e-5 * b.abs().max(scale), "{name}: {a}, in two passes {b}");
        }
    }
}

/// Channels of small images are rows of short runs, which are gathered, and scattered again where they are stored.
#[test]
fn channels_of_small_images_are_rows_of_one_call() {
    let _pinned = pinned_with(launches_are_dear());
    for [n, c, h, w] in [[40, 6, 4, 4], [7, 3, 5, 3], [100, 2, 8, 8]] {
        let x = randn([n, c, h, w]);
        let centred = || &x - x.mean_keepdim([0, 2, 3]);
        let normed = || centred() / (centred().square().mean_keepdim([0, 2, 3]) + 1e-5).sqrt();
        let bytes = 4 * n * c * h * w;
        one_kernel(bytes, bytes, normed);
        let strict = thalweg::with_strict(true, || normed().to_vec::<f32>().unwrap());
        for (a, b) in normed().to_vec::<f32>().unwrap().iter().zip(&strict) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a}, strictly {b}");
        }
    }
}

/// Windows of 2×2 have dimensions of two points, which are merged by index tables; a border is read by a mask.
#[test]
fn maps_over_windows_are_those_of_their_operations() {
    let _pinned = pinned_with(launches_are_dear());
    for [n, c, h, w] in [[64, 8, 4, 4], [129, 5, 8, 6], [2, 3, 2, 2]] {
        let x = randn([n, c, h, w]);
        let y = x.max_pool2d(thalweg::Pool::new(2));
        let each = |t: &Tensor| t.reshape([n, c, h / 2, 1, w / 2, 1]).expand([n, c, h / 2, 2, w / 2, 2]);
        let largest = || (&x - each(&y).reshape([n, c, h, w])) * each(&y).reshape([n, c, h, w]);
        let bordered = || (&x * 2.0).pad([(0, 0), (0, 0), (1, 1), (1, 1)], 3);
        for f in [&largest as &dyn Fn() -> Tensor, &bordered] {
            let unfused = thalweg::with_fusion(false, || f().to_vec::<f32>().unwrap());
            let fused = thalweg::with_strict(true, || f().to_vec::<f32>().unwrap());
            assert!(fused == unfused);
        }
    }
}

#[test]
fn scans_of_views_have_the_bits_of_scans_of_copies() {
    let x = randn([37, 12, 19]);
    type View = fn(&Tensor) -> Tensor;
    let views: [(&str, View); 5] = [
        ("transposed", |x| x.permute([2, 1, 0])),
        ("every second row", |x| x.slice((.., (..).by(2), ..))),
        ("every third element", |x| x.slice((.., .., (..).by(3)))),
        ("broadcast", |x| x.narrow(1, 3, 1).expand([37, 12, 19])),
        ("flipped", |x| x.flip(2)),
    ];
    for (name, view) in views {
        let scanned = |of: Tensor, axis: usize| {
            let bits = |y: Tensor| y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let own = |f: &dyn Fn(&Tensor, usize) -> Tensor| bits(f(&of, axis));
            let orders = of.argsort(axis, true).to_vec::<i64>().unwrap();
            ([own(&|x, a| x.cumsum(a)), own(&|x, a| x.cumprod(a)), own(&|x, a| x.sort(a, false))], orders)
        };
        for axis in 0..view(&x).rank() {
            let copy = view(&x).deep_copy().unwrap();
            assert_eq!(scanned(view(&x), axis), scanned(copy, axis), "{name}, axis {axis}");
        }
    }
}
