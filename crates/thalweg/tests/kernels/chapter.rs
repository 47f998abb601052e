//! The kernels of docs/custom-kernels.md: on numbers, as one kernel each, and their gradients.

#[path = "../../examples/kernels.rs"]
#[allow(dead_code, reason = "what it prints is not looked at")]
pub mod program;

use crate::counting::{counted, pinned};
use crate::differences::{check, first_order, numbers};
use program::*;
use thalweg::kernel::Field;
use thalweg::prelude::*;

/// Each kernel of the chapter is one launch that writes only its result, and makes no plan when it is called again.
#[test]
fn each_is_one_kernel() {
    let _pinned = pinned();
    for (name, kernel) in all(64) {
        drop(counted(&kernel));
        let (y, c) = counted(&kernel);
        assert_eq!((c.kernels, c.bytes_written, c.plans_made), (1, 4 * y.numel() as u64, 0), "{name}: {c:?}");
    }
}

#[test]
fn clouds_are_the_same_on_numbers() {
    let y = clouds::over([5, 40]).on(3, 4.5, 3).to_vec::<f32>().unwrap();
    for (p, y) in y.iter().enumerate() {
        let want = clouds([(p / 40) as i32, (p % 40) as i32], 3, 4.5f32, 3);
        assert!((y - want).abs() < 1e-5, "{p}: {y} {want}");
    }
    assert!(y.contains(&0.0) && y.iter().any(|y| *y > 0.5));
}

#[test]
fn loops_are_the_same_on_numbers() {
    // A product of the index may be contracted, and the number of iterations depends on its last bit.
    let turns = thalweg::with_strict(true, || mandelbrot::over([30, 40]).on(-1.3, -2.0, 0.07).to_vec::<i32>()).unwrap();
    for (p, turns) in turns.iter().enumerate() {
        assert_eq!(*turns, mandelbrot([(p / 40) as i32, (p % 40) as i32], -1.3f32, -2.0, 0.07).get(), "{p}");
    }
    assert!(turns.contains(&200) && turns.contains(&1));
    let mean: Vec<f32> = (0..300).map(|i| i as f32 * 0.02 - 3.0).collect();
    let e = kepler::on(Tensor::new(mean.clone()), 0.6).to_vec::<f32>().unwrap();
    for (e, mean) in e.into_iter().zip(mean) {
        assert!((e - 0.6 * e.sin() - mean).abs() < 1e-5 && (e - kepler(mean, 0.6)).abs() < 1e-5, "{mean}: {e}");
    }
    let steps = collatz::on(Tensor::arange_with(29, DType::I32) + 1).to_vec::<i32>().unwrap();
    assert_eq!((steps[0], steps[26], collatz::<f32>(27).get()), (0, 111, 111));
}

#[test]
fn gradients_against_differences() {
    let u = numbers(1, [5, 4], 0.6, 1.4);
    let one = std::slice::from_ref(&u);
    check("leaky", one, &|x| leaky::on(&x[0], 0.3));
    check("cube_root", one, &|x| cube_root::on(&x[0]));
    check("black_scholes", one, &|x| black_scholes::on(&x[0], 1.0, 0.5, 0.02, &x[0] * 0.3).0);
    check("heat", one, &|x| heat::over([5, 4]).on(&x[0], 0.2).square());
    check("recurrence", one, &|x| recurrence::on(&(&x[0] * 0.5), x[0].square()));
    first_order("softmax", one, &|x| softmax::on(&(&x[0] * 3.0)));
    check("warp", one, &|x| warp::over([5, 4]).on(&x[0], 0.4, &x[0] * 0.3));
    let of = Field::<f64, 2>::new(&u.to_vec::<f64>().unwrap(), [5, 4]);
    let y = heat::over([5, 4]).on(&u, 0.2).to_vec::<f64>().unwrap();
    assert!((0..20).all(|p| (y[p] - heat([p as i32 / 4, p as i32 % 4], &of, 0.2)).abs() < 1e-14));
}
