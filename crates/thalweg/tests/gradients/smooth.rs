//! Derivatives of composites whose operations have kinks: the function's own derivative where it is smooth; PyTorch's
//! choice at a true kink. (crates/thalweg/tests/opdb has the functions of PyTorch's database at special points.)

use thalweg::prelude::*;
use thalweg::{Attention, grad, grad_graph};

/// First and second derivative of a function of one number.
fn slopes(x: f64, f: impl Fn(&Tensor) -> Tensor) -> [f64; 2] {
    let x = Tensor::new(x).tracked();
    let first = grad_graph(&f(&x).sum(..), &x);
    [first.item().unwrap(), grad(&first, &x).item().unwrap()]
}

fn assert_close(name: &str, got: &[f64], expected: &[f64]) {
    let close = got.len() == expected.len() && got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-12);
    assert!(close, "{name}: {got:?} for {expected:?}");
}

#[test]
fn smooth_composites_have_smooth_derivatives() {
    let zero = Tensor::new(0.0f64);
    assert_close("softplus", &slopes(0.0, |x| x.softplus()), &[0.5, 0.25]);
    assert_close("log_sigmoid", &slopes(0.0, |x| x.log_sigmoid()), &[0.5, -0.25]);
    assert_close("bce", &slopes(0.0, |x| x.bce_with_logits(&zero, Reduction::Sum)), &[0.5, 0.25]);
    let positive = Tensor::new(3.0f64);
    let one = Tensor::new(1.0f64);
    let weighted = |x: &Tensor| x.bce_with_logits_weighted(&one, &positive, Reduction::Sum);
    assert_close("bce weighted", &slopes(0.0, weighted), &[-1.5, 0.75]);
    let log3 = 3f64.ln();
    let sech = 1.0 - 0.6f64 * 0.6;
    assert_close("mish", &slopes(0.0, |x| x.mish())[..1], &[(2f64.ln()).tanh()]);
    assert_close("mish second", &slopes(0.0, |x| x.mish())[1..], &[2.0 * sech * 0.5]);
    assert_close("logaddexp of equals", &slopes(0.0, |x| x.logaddexp(&zero)), &[0.5, 0.25]);
    assert_close("logaddexp apart", &slopes(log3, |x| x.logaddexp(&zero)), &[0.75, 0.1875]);
    let two = 2f64.ln();
    assert_close("logaddexp2 of equals", &slopes(0.0, |x| x.logaddexp2(&zero)), &[0.5, two / 4.0]);
    let pi2 = std::f64::consts::PI.powi(2);
    assert_close("sinc", &slopes(0.0, |x| x.sinc()), &[0.0, -pi2 / 3.0]);
    // On both sides of the change of the derivative from the series to the formula.
    for x in [0.159, 0.16] {
        let t: f64 = x * std::f64::consts::PI;
        let first = (t.cos() - t.sin() / t) / x;
        let second = -pi2 * t.sin() / t - 2.0 * first / x;
        assert_close("sinc beside 0", &slopes(x, |x| x.sinc()), &[first, second]);
    }
    // Relative accuracy where the derivative is small.
    let tail = slopes(-20.0, |x| x.elu(1.0));
    assert!((tail[0] / (-20f64).exp() - 1.0).abs() < 1e-12 && (tail[1] / tail[0] - 1.0).abs() < 1e-12);
}

#[test]
fn kinks_have_pytorchs_subgradient() {
    let zeros = || Tensor::zeros_with([1, 3], DType::F64).tracked();
    let gradient = |f: &dyn Fn(&Tensor) -> Tensor| {
        let x = zeros();
        f(&x).sum(..).backward()[&x].to_f64_vec().unwrap()
    };
    for p in [0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        assert_eq!(gradient(&|x| x.norm_p(p, 1)), [0.0; 3], "norm of order {p}");
    }
    assert_eq!(gradient(&|x| x.norm(1)), [0.0; 3]);
    assert_eq!(gradient(&|x| x.norm_keepdim(..)), [0.0; 3]);
    assert_eq!(gradient(&|x| (x + 2.0).std(1)), [0.0; 3]);
    assert_eq!(gradient(&|x| (x + 2.0).std_with_keepdim(1, 1.0)), [0.0; 3]);
    assert_eq!(gradient(&|x| x.nanstd(1)), [0.0; 3]);
    let other = Tensor::new([[1.0f64, 2.0, 3.0]]);
    let cosine = gradient(&|x| x.cosine_similarity(&other, 1, 1e-8));
    assert!(cosine.iter().all(|g| g.is_finite()), "{cosine:?}");
    // A zero among other elements, in powers below 1 too.
    let x = Tensor::new([0.0f64, 4.0]).tracked();
    assert_eq!(x.norm_p(0.5, 0).backward()[&x].to_f64_vec().unwrap(), [0.0, 1.0]);
    // The distance of a row from itself.
    let x = Tensor::new([[0.0f64, 1.0], [3.0, 5.0]]).tracked();
    let gradients = x.cdist(&x, 2.0).sum(..).backward();
    assert_close("cdist", &gradients[&x].to_f64_vec().unwrap(), &[-1.2, -1.6, 1.2, 1.6]);
    // At the bounds: none of the gradient, or all of it.
    let x = Tensor::new([-3.0f64, -1.0, 0.0, 1.0, 3.0, 6.0]).tracked();
    let at = |y: Tensor| y.sum(..).backward()[&x].to_f64_vec().unwrap();
    assert_eq!(at(x.hardtanh(-1.0, 1.0)), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(at(x.relu6()), [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(at(x.clamp(-1.0, 1.0)), [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(at(x.leaky_relu(0.25)), [0.25, 0.25, 0.25, 1.0, 1.0, 1.0]);
}

/// A query that attends to no key gives 0 and has no gradient, for every kind of mask; the others are not affected.
#[test]
fn attention_of_nothing_has_no_gradient() {
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        let ramp = |n: usize, by: f64| (Tensor::arange_with(n, DType::F64) * by - 0.5).cast(dtype);
        let [q, k, v] = [0.3, -0.2, 0.4].map(|by| ramp(6, by).reshape([3, 2]).tracked());
        // The first query attends to no key, the second to one, the third to all.
        let sees = Tensor::new([[false, false, false], [true, false, false], [true, true, true]]);
        let least = -dtype.float_info().max;
        let added = |hidden: f64| sees.where_(Tensor::zeros_with([3, 3], dtype), hidden);
        let run = |mask: &Tensor| {
            let y = q.scaled_dot_product_attention(&k, &v, Attention::default().mask(mask));
            let gradients = (&y * ramp(6, 0.1).reshape([3, 2])).sum(..).backward();
            [y, gradients[&q].clone(), gradients[&k].clone(), gradients[&v].clone()].map(|t| t.to_f64_vec().unwrap())
        };
        let expected = run(&sees);
        assert!(expected.iter().flatten().all(|v| v.is_finite()), "{dtype}: {expected:?}");
        assert_eq!(expected[0][..2], [0.0, 0.0]);
        assert_eq!(expected[1][..2], [0.0, 0.0]);
        assert!(expected[3].iter().any(|g| *g != 0.0));
        for hidden in [f64::NEG_INFINITY, least] {
            assert_eq!(run(&added(hidden)), expected, "{dtype}, {hidden} added");
        }
    }
}
