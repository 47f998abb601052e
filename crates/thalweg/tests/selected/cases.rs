//! Selections on any device: a value that selects is equal in every kernel that computes it, and the difference of
//! equal products is 0.

use thalweg::prelude::*;

/// A chain that rounds in each step, on rows of 64.
fn chain(dtype: DType) -> Tensor {
    let x = Tensor::linspace(-3.0, 3.1, 64 * 20).reshape([20, 64]).cast(dtype);
    ((&x / 3.3 + 0.37) * 1.7).tanh() * 2.9 + &x
}

fn floats(x: Tensor) -> Vec<f64> {
    x.to_f64_vec().unwrap()
}

fn all(x: Tensor) -> bool {
    x.all(..).item::<bool>().unwrap()
}

pub fn extremes_are_elements() {
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
        let s = chain(dtype);
        assert!(all(s.eq(s.amax_keepdim(1)).any(1)), "{dtype:?}: no element equals the maximum");
        let s = chain(dtype);
        let at = s.argmax(1);
        assert!(all(s.gather(1, &at.unsqueeze(1)).squeeze(1).eq(s.amax(1))), "{dtype:?}: the place of the maximum");
        let s = chain(dtype);
        let (largest, at) = s.cummax_with_indices(1);
        assert!(all(s.gather(1, &at).eq(largest)), "{dtype:?}: the places of running maxima");
        let s = chain(dtype);
        assert!(all((&s / s.abs().amax_keepdim(1)).le(1.0)), "{dtype:?}: more than 1 of its maximum");
        let s = chain(dtype);
        let lowest = (s.amax_keepdim(1) - &s).sqrt();
        assert!(!lowest.is_nan().any(..).item::<bool>().unwrap(), "{dtype:?}: more than its maximum");
        let s = chain(dtype);
        let (top, at) = s.topk(5, 1, true);
        assert!(all(s.gather(1, &at).eq(top)), "{dtype:?}: the places of the five largest");
    }
}

pub fn gradients_of_extremes_are_shared_out() {
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        let x = Tensor::linspace(-2.0, 2.0, 7 * 12).reshape([7, 12]).cast(dtype).tracked();
        let g = thalweg::grad(&(&x * 1.3 / 3.3).amax(1).sum(..), &x);
        for (row, sum) in floats(g.cast(DType::F64).sum(1)).into_iter().enumerate() {
            assert!((sum - 1.3 / 3.3).abs() < 0.01, "{dtype:?}: row {row} of an extreme's gradient adds up to {sum}");
        }
        let x = Tensor::linspace(-2.0, 2.0, 64).reshape([1, 1, 8, 8]).cast(dtype).tracked();
        let g = thalweg::grad(&(&x * 1.3 / 3.3).max_pool2d(thalweg::Pool::new(2)).sum(..), &x);
        let sum = floats(g.cast(DType::F64).sum(..))[0];
        assert!((sum - 16.0 * 1.3 / 3.3).abs() < 0.1, "{dtype:?}: a pool's gradient adds up to {sum}");
    }
}

/// Fused and unfused agree: signs, steps, remainders, integers.
pub fn selections_do_not_depend_on_fusion() {
    let of: [fn(&Tensor) -> Tensor; 7] = [
        |s| s.gt(0.5).cast(DType::I64),
        |s| s.floor().cast(DType::I64),
        |s| (s * 8.0).round().cast(DType::I64),
        |s| (s * 5.0).cast(DType::I64),
        |s| (s % 0.75).cast(DType::F64),
        |s| s.argsort(1, false),
        |s| s.cast(DType::F64).ge(0.25).cast(DType::I64),
    ];
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
        for (n, select) in of.iter().enumerate() {
            let fused = floats(select(&chain(dtype)));
            let single = thalweg::with_fusion(false, || floats(select(&chain(dtype))));
            assert_eq!(fused, single, "{dtype:?}, selection {n}");
        }
    }
}

pub fn equal_products_have_no_difference() {
    for dtype in [DType::F32, DType::F64] {
        let a = Tensor::linspace(0.1, 3.7, 1999).cast(dtype);
        let b = &a * 1.0;
        let zero = |what: &str, d: Tensor| assert!(floats(d).iter().all(|v| *v == 0.0), "{dtype:?}: {what}");
        zero("a² - b²", a.square() - b.square());
        zero("a·a - b·b", &a * &a - &b * &b);
        let held = &a * &a;
        thalweg::synchronize().unwrap();
        zero("a held square and a square", &held - &b * &b);
        let c = (&a + 0.7).cos();
        zero("the imaginary part of z·z̄", &a * &c - &c * &b);
        zero("a cross product of a vector with itself", &a * &c - &c * &a * 1.0);
        zero("a determinant of equal rows", &a * &c - &b * &c);
        zero("a sum of opposite products", &a * &c + (-&b) * &c);
        let rows = Tensor::linspace(0.1, 3.7, 37).cast(dtype).unsqueeze(1).expand([37, 64]) * 1.0;
        zero("a variance by moments", rows.square().mean(1) - rows.mean(1).square());
        zero("the same by hand", (&rows * &rows).sum(1) / 64.0 - (rows.sum(1) / 64.0) * (rows.mean(1)));
    }
}
