//! User-defined operations on a GPU: kernels, and host functions that read and write its memory.

use super::{counted, emulated, tensor, values};
use thalweg::kernel::{Edge, Field};
use thalweg::prelude::*;
use thalweg::{Backward, HostOp, custom_grad, grad};

#[kernel]
fn gelu<F: Real>(x: F) -> F {
    let t = (0.7978845608 * x * (1.0 + 0.044715 * x * x)).tanh();
    if x < -10.0 { 0.0 } else { 0.5 * x * (1.0 + t) }
}

#[kernel(index)]
fn blur<F: Real>(at: [i32; 1], x: &Field<F, 1>, by: i32) -> F {
    (x.get([at[0] - 1], Edge::Wrap) + x.get([at[0] + by], Edge::Clamp) + x.get([at[0] * 2], Edge::Zero)) / 3.0
}

#[test]
fn a_kernel_is_one_launch_with_what_surrounds_it() {
    let numbers = [-20.0f32, -1.5, -0.0, 0.3, 4.0];
    let x = tensor(&numbers);
    let (y, c) = counted(|| gelu::on(&x * 0.5) + 1.0);
    assert_eq!(c.kernels, 1, "{c:?}");
    for (got, x) in values(&y).into_iter().zip(numbers) {
        assert!((got - (gelu(x * 0.5) + 1.0)).abs() < 1e-6, "{x}: {got}");
    }
    let leaf = x.tracked();
    let slope = grad(&gelu::on(&leaf).sum(..), &leaf);
    let (up, down) = (gelu::on(x.cast(DType::F64) + 1e-5), gelu::on(x.cast(DType::F64) - 1e-5));
    let want = ((up - down) / 2e-5).to_vec::<f64>().unwrap();
    assert!(values(&slope).into_iter().zip(want).all(|(got, want)| (f64::from(got) - want).abs() < 1e-4));
}

#[test]
fn reads_around_a_place_and_at_computed_ones() {
    let numbers = [1.0f32, 2.0, 4.0, 8.0, 16.0];
    let (x, field) = (tensor(&numbers), Field::<f32, 1>::new(&numbers, [5]));
    let (y, c) = counted(|| blur::over([5]).on(&x, 1));
    assert_eq!(c.kernels, 1, "{c:?}");
    let want = |by: i32, at: i32| blur([at], &field, by);
    assert!(values(&y).into_iter().zip(0..).all(|(got, at)| (got - want(1, at)).abs() < 1e-6));
    let by = Tensor::new([3i32, -7, 0, 1, 9]).to_device(emulated()).unwrap();
    let y = blur::over([5]).on(&x, &by);
    let own = [3, -7, 0, 1, 9];
    assert!(values(&y).into_iter().zip(0..).all(|(got, at)| (got - want(own[at as usize], at)).abs() < 1e-6));
}

/// Newton's method to convergence, in a branch, with an integer counter and an inner loop.
#[kernel(max_turns = 40)]
fn roots<F: Real>(a: F) -> (F, i32) {
    let (mut x, mut n) = (1.0, 0);
    if a > 0.0 {
        let mut more = true;
        while more {
            let before = x;
            let mut i = 0;
            while i < n && x < a {
                x = x + 0.125 * (a - x * x) / x;
                i += 1;
            }
            x = 0.5 * (x + a / x);
            n += 1;
            more = (x - before).abs() > 1e-5 * x;
        }
    }
    (x, n)
}

#[test]
fn a_loop_is_a_loop_in_the_kernel_of_what_surrounds_it() {
    let numbers: Vec<f32> = (0..700).map(|i| i as f32 * 0.25 - 20.0).collect();
    let x = tensor(&numbers);
    let ((y, n), c) = counted(|| {
        let (y, n) = roots::on(&x * 2.0);
        (y - 1.0, n)
    });
    assert_eq!((c.kernels, c.bytes_written), (1, 8 * 700), "{c:?}");
    let (y, n) = (values(&y), n.to_vec::<i32>().unwrap());
    for (i, &x) in numbers.iter().enumerate() {
        let want = roots(x * 2.0);
        assert_eq!((y[i], n[i]), (want.0 - 1.0, want.1.get()), "{x}");
    }
}

#[test]
fn loops_stand_around_products_and_rows() {
    let numbers: Vec<f32> = (0..12 * 20).map(|i| (i % 37) as f32 * 0.05 + 0.1).collect();
    let x = tensor(&numbers).reshape([12, 20]);
    let w = tensor(&numbers).reshape([20, 12]);
    let all = || {
        let behind = roots::on(x.matmul(&w)).0;
        let rows = roots::on(behind.softmax(1) * 9.0).0;
        [roots::on(&x).0.matmul(&w), behind, rows].map(|y| values(&y))
    };
    let fused = thalweg::with_strict(true, all);
    assert_eq!(fused, thalweg::with_strict(true, || thalweg::with_fusion(false, all)));
}

#[test]
fn a_function_on_the_host_stands_between_kernels() {
    let cubes = HostOp::new(
        "cubes",
        |x: &[Tensor]| [(*x[0].shape(), DType::F32)],
        |x, y| {
            y[0].slice_mut::<f32>().iter_mut().zip(x[0].slice::<f32>()).for_each(|(y, x)| *y = x * x * x);
            match x[0].slice::<f32>().iter().any(|x| x.is_nan()) {
                true => Err("NaN".into()),
                false => Ok(()),
            }
        },
    )
    .backward(|b: Backward<Vec<Tensor>, Vec<Tensor>>| [&b.gradients[0] * b.inputs[0].square() * 3.0]);
    let x = tensor(&[1.0, -2.0, 3.0]).tracked();
    let (y, c) = counted(|| cubes.on(&(&x * 2.0)) + 1.0);
    assert_eq!((y.device(), c.host_calls, c.kernels), (emulated(), 1, 2), "{c:?}");
    assert_eq!(values(&y), [9.0, -63.0, 217.0]);
    assert_eq!(values(&grad(&y.sum(..), &x)), [24.0, 96.0, 216.0]);
    let error = (cubes.on(&tensor(&[f32::NAN])) + 1.0).to_vec::<f32>().unwrap_err();
    assert!(error.to_string().contains("cubes: NaN, at "), "{error}");
}

#[test]
fn a_backward_pass_of_ones_own() {
    let (x, w) = (tensor(&[1.0, -2.0]).reshape([1, 2]).tracked(), tensor(&[0.5; 6]).reshape([2, 3]).tracked());
    let y = custom_grad(
        [&x, &w],
        |[x, w]| x.matmul(&w).tanh(),
        |Backward { inputs: [x, w], outputs: y, gradients: dy }| {
            let d = dy * (y.square() * -1.0 + 1.0);
            [d.matmul(&w.t()), x.t().matmul(&d)]
        },
    );
    let [dx, dw] = grad(&y.sum(..), [&x, &w]);
    let slope = 1.0 - 0.5f32.tanh().powi(2);
    assert!(values(&dx).into_iter().all(|g| (g - 1.5 * slope).abs() < 1e-6));
    assert!(values(&dw).into_iter().zip([1.0, 1.0, 1.0, -2.0, -2.0, -2.0]).all(|(g, x)| (g - x * slope).abs() < 1e-6));
}
