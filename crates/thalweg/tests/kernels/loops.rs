//! Loops with data-dependent ends in kernels: on numbers and on tensors, fused with their neighbours.

use crate::assert_mistake;
use crate::counting::{counted, pinned};
use thalweg::kernel::{Edge, Field};
use thalweg::prelude::*;
use thalweg::{Backward, custom_grad, with_fusion, with_strict};

/// Iterations for which `z² + c` stays bounded.
#[kernel]
fn mandelbrot<F: Real>(cx: F, cy: F) -> i32 {
    let (mut x, mut y, mut n) = (0.0, 0.0, 0);
    while x * x + y * y <= 4.0 && n < 100 {
        let next = x * x - y * y + cx;
        y = 2.0 * x * y + cy;
        x = next;
        n += 1;
    }
    n
}

/// Newton's method to convergence.
#[kernel(max_turns = 60)]
fn root<F: Real>(a: F) -> (F, i32) {
    let (mut x, mut n) = (a, 0);
    loop {
        let step = 0.5 * (x - a / x);
        x -= step;
        n += 1;
        if step.abs() <= 1e-6 * x.abs() {
            break;
        }
    }
    (x, n)
}

/// Steps of the Collatz sequence to 1.
#[kernel]
fn collatz<F: Real>(start: i32) -> i32 {
    let (mut n, mut steps) = (start, 0);
    while n > 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

/// A power series with a number of terms per element; odd terms are skipped, and it ends at the first small one.
#[kernel]
fn series<F: Real>(x: F, terms: i32) -> (F, bool) {
    let (mut sum, mut term, mut small) = (0.0, 1.0, false);
    for k in 0..terms {
        term *= x / (k + 1) as F;
        if k % 2 == 1 {
            continue;
        }
        if term.abs() < 1e-3 {
            small = true;
            break;
        }
        sum += term;
    }
    (sum, small)
}

/// A loop in a loop, in a branch.
#[kernel]
fn nested<F: Real>(x: F, n: i32) -> F {
    let mut y = x;
    if x > 0.0 {
        let mut i = 0;
        while i < n {
            let mut z = y;
            for _ in i..n {
                if z > 50.0 {
                    break;
                }
                z = z * 1.5 + x;
            }
            y = 0.5 * (y + z);
            i += 1;
        }
    } else {
        // Does not end for larger values.
        while y < -1.0 || y > 0.0 {
            y *= 0.5;
        }
    }
    y
}

fn grid() -> (Tensor, Tensor) {
    let x = Tensor::linspace(-2.0, 0.6, 61).reshape([1, 61]);
    let y = Tensor::linspace(-1.2, 1.2, 47).reshape([47, 1]);
    (x, y)
}

#[test]
fn loops_on_tensors_are_those_on_numbers() {
    let (x, y) = grid();
    let (xs, ys) = (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
    let want: Vec<i32> = ys.iter().flat_map(|&y| xs.iter().map(move |&x| mandelbrot(x, y).get())).collect();
    assert_eq!(mandelbrot::on(&x, &y).to_vec::<i32>().unwrap(), want);
    assert!(want.contains(&100) && want.iter().any(|&n| n < 3));

    let a: Vec<f32> = [1e-20f32, 0.5, 2.0, 3.0, 1e20, f32::NAN, f32::INFINITY, 0.0, -1.0].repeat(9);
    let (got, turns) = root::on(Tensor::new(a.clone()));
    let (got, turns) = (got.to_vec::<f32>().unwrap(), turns.to_vec::<i32>().unwrap());
    for (i, &a) in a.iter().enumerate() {
        let want = root(a);
        assert!(
            got[i].to_bits() == want.0.to_bits() || got[i].is_nan() && want.0.is_nan(),
            "{a}: {} {}",
            got[i],
            want.0
        );
        assert_eq!(want.1, turns[i], "{a}");
    }

    let starts: Vec<i32> = (-3..700).collect();
    let got = collatz::on(Tensor::new(starts.clone())).to_vec::<i32>().unwrap();
    let want: Vec<i32> = starts.iter().map(|&n| collatz::<f32>(n).get()).collect();
    assert_eq!((got[30], &got), (111, &want));

    let x: Vec<f32> = (0..200).map(|i| i as f32 * 0.03 - 3.0).collect();
    let n: Vec<i32> = (0..200).map(|i| i * 7 % 13 - 2).collect();
    let (sum, small) = series::on(Tensor::new(x.clone()), Tensor::new(n.clone()));
    let y = nested::on(Tensor::new(x.clone()), Tensor::new(n.clone())).to_vec::<f32>().unwrap();
    let (sum, small) = (sum.to_vec::<f32>().unwrap(), small.to_vec::<bool>().unwrap());
    for i in 0..200 {
        let want = series(x[i], n[i]);
        assert_eq!((sum[i], small[i]), (want.0, want.1.get()), "{} {}", x[i], n[i]);
        assert_eq!(y[i], nested(x[i], n[i]), "{} {}", x[i], n[i]);
    }
}

/// For the planner a loop is an operation: its neighbours are in the same kernel, and only the result is written.
#[test]
fn a_loop_between_maps_costs_no_launch_and_no_bytes() {
    let _pinned = pinned();
    let (x, y) = grid();
    let (x, y) = (&x + &y * 0.0, &x * 0.0 + &y);
    let (shade, d) = counted(|| {
        let n = mandelbrot::on(&x * 0.5 + &x * 0.5, y.abs());
        (n.cast(DType::F32) + 1.0).log() * 0.2
    });
    assert_eq!((d.kernels, d.bytes_written as usize), (1, 4 * 47 * 61), "{d:?}");
    assert_eq!(d.bytes_read as usize, 2 * 4 * 47 * 61);
    assert!(shade.to_vec::<f32>().unwrap().iter().all(|v| v.is_finite()));
}

/// Several results of one loop are computed in one kernel, with reductions of their rows.
#[test]
fn the_results_of_a_loop_share_their_turns() {
    let _pinned = pinned();
    let a = Tensor::linspace(0.5, 90.0, 4000).reshape([40, 100]);
    let ((x, n), d) = counted(|| root::on(&a));
    assert_eq!((d.kernels, d.bytes_written), (1, 8 * 4000), "{d:?}");
    let (most, d) = counted(|| root::on(&a).1.amax(1));
    assert_eq!((d.kernels, d.bytes_written), (1, 4 * 40), "{d:?}");
    let (a, n) = (a.to_vec::<f32>().unwrap(), n.to_vec::<i32>().unwrap());
    let want: Vec<i32> = a.iter().map(|&a| root(a).1.get()).collect();
    assert_eq!(n, want);
    let want: Vec<i32> = want.chunks(100).map(|row| *row.iter().max().unwrap()).collect();
    assert_eq!(most.to_vec::<i32>().unwrap(), want);
    assert!((x.to_vec::<f32>().unwrap()[3999] - 90f32.sqrt()).abs() < 1e-5);
}

/// Functions of products and rows, and their operands: fused and unfused have the same bits.
#[test]
fn loops_stand_around_products_and_rows() {
    let (x, w) =
        (Tensor::linspace(-1.0, 1.0, 24 * 40).reshape([24, 40]), Tensor::linspace(0.2, 1.1, 40 * 56).reshape([40, 56]));
    let all = || {
        let into = root::on(x.abs() + 0.1).0.matmul(&w);
        let behind = root::on(x.matmul(&w).abs() + 0.5).0;
        let (rows, turns) = root::on((&behind - behind.mean_keepdim(1)).softmax(1));
        let of_rows = root::on(behind.amax(1)).0;
        [into, &behind * of_rows.reshape([24, 1]), rows, turns.cast(DType::F32)].map(|y| y.to_vec::<f32>().unwrap())
    };
    let fused = with_strict(true, all);
    let unfused = with_strict(true, || with_fusion(false, all));
    assert_eq!(fused, unfused);
    let near = all();
    for (fast, strict) in near[..3].iter().zip(&fused) {
        assert!(fast.iter().zip(strict).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs()));
    }
}

/// One plan for all number operands, and one for each literal iteration count.
#[test]
fn numbers_are_arguments_of_a_loop() {
    #[kernel]
    fn until<F: Real>(x: F, limit: F, factor: F) -> (F, i32) {
        let (mut y, mut n) = (x, 0);
        while y < limit {
            y *= factor;
            n += 1;
        }
        (y, n)
    }
    let _pinned = pinned();
    let x = Tensor::linspace(0.1, 3.0, 1000);
    let mut made = vec![];
    for k in 0..6 {
        let before = thalweg::counters().plans_made;
        let (y, n) = until::on(&x, 10.0 + k as f64, 1.25 + 0.125 * k as f64);
        let (y, n) = (y.to_vec::<f32>().unwrap(), n.to_vec::<i32>().unwrap());
        let want = until(0.1f32, 10.0 + k as f32, 1.25 + 0.125 * k as f32);
        assert_eq!((y[0], n[0]), (want.0, want.1.get()));
        made.push(thalweg::counters().plans_made - before);
    }
    assert_eq!(made[2..], [0; 4], "{made:?}");
    // Calls on numbers only are computed immediately.
    let (y, n) = until::on(x.lt(0.0).where_(&x, 1.0), 8.0, 2.0);
    assert_eq!((y.to_vec::<f32>().unwrap()[0], n.to_vec::<i32>().unwrap()[0]), (8.0, 3));
}

/// The iteration limit is part of a loop's meaning, on numbers and on tensors.
#[test]
fn a_loop_ends_after_the_most_turns() {
    #[kernel(max_turns = 5)]
    fn halves<F: Real>(x: F) -> F {
        let mut y = x;
        while y != 0.0 {
            y *= 0.5;
        }
        y
    }
    assert_eq!(halves(32.0f32), 1.0);
    assert_eq!(halves::on(Tensor::new([32.0f32, 0.0])).to_vec::<f32>().unwrap(), [1.0, 0.0]);

    #[kernel]
    fn forever<F: Real>(x: F) -> F {
        let mut y = x;
        while y > 0.0 {
            y += 1.0;
        }
        y
    }
    let told = std::panic::catch_unwind(|| forever(1.0f32)).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("forever") && told.contains("max_turns"), "{told}");
    assert_eq!(forever(-1.0f32), -1.0);
}

/// Narrow floats are f32 in a loop, and rounded once at its end.
#[test]
fn narrow_floats_are_wide_in_a_loop() {
    let x: Vec<f32> = (1..60).map(|i| i as f32 * 0.5).collect();
    let (y, n) = root::on(Tensor::new(x.clone()).cast(DType::BF16));
    assert_eq!((y.dtype(), n.dtype()), (DType::BF16, DType::I32));
    let (y, n) = (y.cast(DType::F32).to_vec::<f32>().unwrap(), n.to_vec::<i32>().unwrap());
    for (i, &x) in x.iter().enumerate() {
        let want = root(x);
        assert_eq!(want.1, n[i], "{x}");
        assert!((y[i] - want.0).abs() <= want.0 / 256.0, "{x}: {} {}", y[i], want.0);
    }
}

/// A loop has no derivative: a call panics at its line, before anything is recorded. With a user-defined one it has.
#[test]
fn a_loop_that_a_gradient_would_flow_through_is_refused() {
    let x = Tensor::new([2.0f32, 9.0]).tracked();
    assert_mistake(|| drop(root::on(&x)), &["root", "`a`", "custom_grad", "detach"]);
    let y = custom_grad([&x], |[x]| root::on(&x).0, |Backward { outputs: y, gradients: dy, .. }| [dy / (y * 2.0)]);
    let dx = y.sum(..).backward();
    for (got, want) in dx[&x].to_vec::<f32>().unwrap().into_iter().zip([0.5 / 2f32.sqrt(), 0.5 / 3.0]) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
    // Counts have none, like comparisons.
    let c = Tensor::new([0.1f32, 2.0]).tracked();
    assert_eq!(mandelbrot::on(&c, 0.0).to_vec::<i32>().unwrap(), [100, mandelbrot(2.0f32, 0.0).get()]);
    assert_eq!(root::on(x.detach()).1.shape(), x.shape());
}

/// Outside values that a loop reads are arguments, of which there are at most eight.
#[test]
fn mistakes_are_told() {
    #[kernel]
    fn many<F: Real>(a: F, b: F, c: F, d: F, e: F, f: F, g: F, h: F, i: F) -> F {
        let mut x = a;
        while x < b {
            x = ((((x * b + c) * d + e) * f + g) * h + i) * a;
        }
        x
    }
    let t = Tensor::ones([3]);
    assert_mistake(|| drop(many::on(&t, &t, &t, &t, &t, &t, &t, &t, &t)), &["many", "at most 8"]);

    #[kernel(index)]
    fn trail<F: Real>(at: [i32; 1], u: &Field<F, 1>) -> F {
        let [mut i] = at;
        let mut sum = 0.0;
        while i > 0 {
            sum += u.get([i], Edge::Clamp);
            i /= 2;
        }
        sum
    }
    assert_mistake(|| drop(trail::over([3]).on(&t)), &["trail", "`u`", "in a loop"]);
}
