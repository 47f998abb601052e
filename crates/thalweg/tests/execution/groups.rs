//! Independent operations of different shapes in one launch (horizontal fusion).

use crate::counting::{counted, pinned};
use thalweg::prelude::*;
use thalweg_stream::explain;

fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

/// Parameters with their moments.
struct Adam {
    p: Vec<Tensor>,
    m: Vec<Tensor>,
    v: Vec<Tensor>,
}

impl Adam {
    fn new(shapes: &[Vec<usize>]) -> Adam {
        let all = |scale: f64| -> Vec<Tensor> {
            shapes.iter().map(|s| Tensor::rand(thalweg::Shape::new(s)) * scale + 0.01).collect()
        };
        let made = Adam { p: all(1.0), m: all(0.1), v: all(0.2) };
        thalweg::synchronize().unwrap();
        made
    }

    /// One parameter's step, as a user writes it.
    fn turn(&mut self, i: usize, g: &Tensor, t: i32) {
        let (b1, b2, lr, eps) = (0.9, 0.999, 1e-3, 1e-8);
        let (c1, c2) = (1.0 - f64::powi(b1, t), 1.0 - f64::powi(b2, t));
        self.m[i] = b1 * &self.m[i] + (1.0 - b1) * g;
        self.v[i] = b2 * &self.v[i] + (1.0 - b2) * g * g;
        self.p[i] = &self.p[i] - lr * (&self.m[i] / c1) / ((&self.v[i] / c2).sqrt() + eps);
    }

    fn step(&mut self, gradients: &[Tensor], t: i32) {
        for (i, g) in gradients.iter().enumerate() {
            self.turn(i, g, t);
        }
    }

    fn copy(&self) -> Adam {
        let all = |of: &[Tensor]| -> Vec<Tensor> { of.iter().map(|t| t + 0.0).collect() };
        let made = Adam { p: all(&self.p), m: all(&self.m), v: all(&self.v) };
        thalweg::synchronize().unwrap();
        made
    }

    fn values(&self) -> Vec<Vec<f32>> {
        self.p.iter().chain(&self.m).chain(&self.v).map(values).collect()
    }
}

/// `n` distinct shapes, from [64] to [512, 512], of one and two dimensions.
fn shapes(n: usize) -> Vec<Vec<usize>> {
    (0..n)
        .map(|i| match i {
            0 => vec![512, 512],
            _ if i % 3 == 0 => vec![8 + i, 64 + 2 * i],
            _ => vec![64 + 17 * (i - 1)],
        })
        .collect()
}

fn gradients(shapes: &[Vec<usize>]) -> Vec<Tensor> {
    let made = shapes.iter().map(|s| Tensor::randn(thalweg::Shape::new(s))).collect();
    thalweg::synchronize().unwrap();
    made
}

#[test]
fn adam_over_two_hundred_shapes_is_a_launch_or_two() {
    let _pinned = pinned();
    let shapes = shapes(200);
    let g = gradients(&shapes);
    let mut adam = Adam::new(&shapes);
    let (mut by_turns, mut unfused) = (adam.copy(), adam.copy());

    // Not the first step, in which 1 - b1 is the same number as c1.
    let (_, first) = counted(|| adam.step(&g, 2));
    assert_eq!((first.operations, first.segments, first.plans_made), (2800, 1, 1), "{first:?}");
    assert!(first.kernels <= 3, "{first:?}");
    // The old p, m and v died with the step, so nothing was allocated.
    assert_eq!((first.reused_in_place, first.bytes_allocated), (600, 0), "{first:?}");

    let (_, second) = counted(|| adam.step(&g, 3));
    assert_eq!((second.plans_made, second.programs_compiled, second.kernels), (0, 0, first.kernels), "{second:?}");
    assert_eq!(second.reused_in_place, 600);

    for t in 2..=3 {
        for (i, g) in g.iter().enumerate() {
            by_turns.turn(i, g, t);
            thalweg::synchronize().unwrap();
        }
        thalweg::with_fusion(false, || unfused.step(&g, t));
    }
    let got = adam.values();
    assert_eq!(got, by_turns.values(), "a group changes no bit");
    for (a, b) in got.iter().flatten().zip(unfused.values().iter().flatten()) {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1e-3), "{a} and {b}");
    }
}

#[test]
fn strict_steps_are_grouped_to_the_same_bits_as_unfused_ones() {
    let _pinned = pinned();
    let shapes = shapes(40);
    let g = gradients(&shapes);
    let mut adam = Adam::new(&shapes);
    let mut unfused = adam.copy();
    let (_, c) = counted(|| thalweg::with_strict(true, || adam.step(&g, 1)));
    assert!(c.kernels <= 2, "{c:?}");
    thalweg::with_strict(true, || thalweg::with_fusion(false, || unfused.step(&g, 1)));
    assert_eq!(adam.values(), unfused.values());
}

#[test]
fn steps_without_a_read_between_converge() {
    let _pinned = pinned();
    let shapes = shapes(100);
    let g = gradients(&shapes);
    let mut adam = Adam::new(&shapes);
    let mut run = |steps: i32| counted(|| (0..steps).for_each(|t| adam.step(&g, t + 1))).1;
    let first = run(20);
    assert!(first.plans_made <= 3 && first.kernels <= 3 * 20, "{first:?}");
    let again = run(20);
    assert_eq!(again.plans_made, 0, "{again:?}");
    assert!(again.kernels <= 2 * 20, "{again:?}");
}

#[test]
fn turns_that_need_nothing_of_each_other_are_cut_late_and_at_the_same_place() {
    let _pinned = pinned();
    let shapes: Vec<Vec<usize>> = (0..900).map(|i| vec![1 + i % 70]).collect();
    let g = gradients(&shapes);
    let mut adam = Adam::new(&shapes);
    let mut run = || counted(|| adam.step(&g, 2)).1;
    // 12,600 operations: more than a segment has.
    let first = run();
    assert!(first.segments == 2 && first.plans_made == 2, "{first:?}");
    assert!(first.kernels <= 2 * 2, "{first:?}");
    let again = run();
    assert_eq!((again.segments, again.plans_made, again.programs_compiled), (2, 0, 0), "{again:?}");
}

#[test]
fn the_explanation_of_a_group_is_short_and_says_what_was_counted() {
    let _pinned = pinned();
    let shapes = shapes(200);
    let g = gradients(&shapes);
    let mut adam = Adam::new(&shapes);
    let ((_, e), c) = counted(|| explain(|| adam.step(&g, 1)));
    let t = e.totals();
    assert_eq!(
        [t.kernels, t.bytes_allocated, t.bytes_read_measured, t.bytes_written_measured].map(|v| v as u64),
        [c.kernels, c.bytes_allocated, c.bytes_read, c.bytes_written]
    );
    let kernels = &e.segments[0].kernels;
    assert!(kernels.len() <= 3);
    assert_eq!(kernels.iter().map(|k| k.parts).sum::<usize>(), 200);
    assert_eq!(kernels.iter().map(|k| k.operations.len()).sum::<usize>(), 2800);
    let text = e.to_string();
    assert!(text.contains("200 parts over different shapes [512, 512], [64]"), "{text}");
    assert!(text.lines().count() < 50 && text.lines().all(|l| l.len() < 160), "{text}");
    assert!(e.html("Adam").contains("200 parts over different shapes"));
    assert!(e.json().contains("\"parts\": 200"));
}

#[test]
fn siblings_of_one_shape_read_their_input_once_and_others_share_the_launch() {
    let _pinned = pinned();
    let x = Tensor::randn([60, 100]);
    let y = Tensor::randn([7]);
    thalweg::synchronize().unwrap();
    let (out, c) = counted(|| (x.exp(), x.t() * 2.0, &y + 1.0, &x + 1.0, x.slice((0..30, ..)).sqrt()));
    // x once for operations of its shape, and again where it is transposed or sliced.
    assert_eq!(c.kernels, 1, "{c:?}");
    let whole = 4 * 6000u64;
    assert!(c.bytes_read <= 2 * whole + whole / 2 + 28, "{c:?}");
    assert_eq!(values(&out.2), values(&y).iter().map(|v| v + 1.0).collect::<Vec<_>>());
    assert_eq!(values(&out.3), values(&x).iter().map(|v| v + 1.0).collect::<Vec<_>>());
}

#[test]
fn what_two_parts_read_is_not_written_over() {
    let _pinned = pinned();
    for n in [10, 1000] {
        let x = Tensor::randn([n, 3]);
        let want = values(&x);
        let ((a, b), c) = counted(move || (&x + 1.0, x.slice((.., 1..3)) * 2.0));
        assert_eq!((c.kernels, c.reused_in_place), (1, 0));
        assert_eq!(values(&a), want.iter().map(|v| v + 1.0).collect::<Vec<_>>());
        let right: Vec<f32> = want.chunks(3).flat_map(|r| [r[1] * 2.0, r[2] * 2.0]).collect();
        assert_eq!(values(&b), right);
    }
}

#[test]
fn rows_and_maps_and_what_is_empty_share_a_launch() {
    let _pinned = pinned();
    let inputs: Vec<Tensor> = [[3, 40], [17, 5], [1, 1], [0, 9], [8, 300]].iter().map(|&s| Tensor::randn(s)).collect();
    thalweg::synchronize().unwrap();
    let run = || -> Vec<Tensor> {
        inputs.iter().flat_map(|x| [x.softmax(1), x.t().exp(), x.sum(0), x.slice((.., 0..1)) * 0.5]).collect()
    };
    let (fused, c) = counted(|| thalweg::with_strict(true, run));
    assert!(c.kernels <= 3, "{c:?}");
    let unfused = thalweg::with_strict(true, || thalweg::with_fusion(false, run));
    for (a, b) in fused.iter().zip(&unfused) {
        assert_eq!((a.dims(), values(a)), (b.dims(), values(b)));
    }
}

#[test]
fn an_index_out_of_range_fails_the_group() {
    let _pinned = pinned();
    let (x, y) = (Tensor::randn([5]), Tensor::randn([9]));
    let index = Tensor::full([3], 7).cast(DType::I64);
    thalweg::synchronize().unwrap();
    let out = (&y * 2.0, x.gather(0, &index));
    let error = out.1.to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("axis 0 of size 5"), "{error}");
}

/// Figures of a step over 200 parameters: `cargo test --release -p thalweg --test execution groups:: -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn measure_adam() {
    for (name, shapes) in [("all sizes", shapes(200)), ("small", (0..200).map(|i| vec![64 + i]).collect())] {
        let g = gradients(&shapes);
        let mut adam = Adam::new(&shapes);
        let mut best = f64::INFINITY;
        for t in 2..60 {
            let (ns, c) = counted(|| {
                let start = std::time::Instant::now();
                adam.step(&g, t);
                thalweg::synchronize().unwrap();
                start.elapsed().as_nanos() as f64
            });
            if c.instances_made > 0 {
                let [plan, compile] = [c.plan_ns, c.compile_ns].map(|ns| ns as f64 / 1e6);
                println!(
                    "{name}, step {t}: {} plans made, {plan:.1} ms planning, {compile:.1} ms compiling",
                    c.plans_made
                );
            } else if ns < best {
                best = ns;
                println!("{name}, step {t}: {:.1} µs, {} kernels, {} segments", ns / 1e3, c.kernels, c.segments);
            }
        }
        let start = std::time::Instant::now();
        for _ in 0..20 {
            drop(explain(|| adam.step(&g, 5)));
        }
        println!("{name}: {:.1} ms with an explanation", start.elapsed().as_secs_f64() * 50.0);
    }
}

/// Figures of planning, by operations.
#[test]
#[ignore = "measures"]
fn measure_planning() {
    for n in [100, 200, 400, 580] {
        let shapes: Vec<Vec<usize>> = (0..n).map(|i| vec![64 + i]).collect();
        let g = gradients(&shapes);
        let (mut ns, turns) = (0, 20);
        for k in 0..turns {
            let mut adam = Adam::new(&shapes[k..]);
            let (_, c) = counted(|| adam.step(&g[k..], 2));
            assert_eq!(c.plans_made, 1);
            ns += c.plan_ns;
        }
        println!("{} operations: {:.2} ms", 14 * n, ns as f64 / 1e6 / turns as f64);
    }
}
