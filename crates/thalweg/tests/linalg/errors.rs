//! Failures that depend on values are errors of the read; mistakes panic at the caller's line.

use crate::mistake::assert_mistake_at;
use thalweg::MatrixNorm::{self, One, Two};
use thalweg::prelude::*;

fn assert_mistake(f: impl FnOnce(), parts: &[&str]) {
    assert_mistake_at("linalg/", f, parts);
}

fn nan() -> Tensor {
    Tensor::new([[1.0f32, f32::NAN], [2.0, 3.0]])
}

#[test]
fn a_matrix_that_does_not_do_is_named() {
    let good = Tensor::eye(2);
    let bad = Tensor::new([[1.0f32, 2.0], [2.0, 4.0]]);
    let batch = Tensor::stack(&[&good, &good, &good, &good, &bad, &bad], 0).reshape([2, 3, 2, 2]);
    let message = |x: Tensor| x.to_f64_vec().unwrap_err().to_string();
    let line = line!() + 1;
    let told = message(batch.inv());
    assert!(told.starts_with("inv: matrix [1, 1]: singular: pivot 1 is 0, at "), "{told}");
    assert!(told.contains(&format!("linalg/errors.rs:{line}:")), "{told}");
    for (told, want) in [
        (message(bad.solve(&good)), "solve: singular: pivot 1 is 0"),
        (message((-&good).cholesky()), "cholesky: not positive definite: the leading minor of order 1"),
        (message(bad.cholesky()), "cholesky: not positive definite"),
        (message(nan().t().cholesky()), "cholesky: not positive definite"),
        (
            message((&good - 1.0).solve_triangular(&good, false)),
            "solve_triangular: singular: element 0 of the diagonal",
        ),
        (message(nan().svd().1), "svd: there is NaN or infinity in it"),
        (message(nan().svdvals()), "svdvals: there is NaN or infinity"),
        (message(nan().t().eigh().0), "eigh: there is NaN or infinity"),
        (message((&good / 0.0).eigvalsh()), "eigvalsh: there is NaN or infinity"),
        (message(nan().eig().0.re), "eig: there is NaN or infinity"),
        (
            message(good.lu_solve(&Tensor::new([1i64, 1]), &good)),
            "lu_solve: the order of rows is no permutation: 1 at 1",
        ),
        (
            message(good.lu_solve(&Tensor::new([0i64, -1]), &good)),
            "lu_solve: the order of rows is no permutation: -1 at 1",
        ),
        (message(nan().pinv(None)), "a value this depends on could not be computed: svd"),
    ] {
        assert!(told.starts_with(want), "{told:?} is not {want:?}");
    }
    // Independent values are fine, and operations that do not check for NaN propagate it.
    assert_eq!(good.inv().to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 1.0]);
    let all_nan = |x: Tensor| x.to_vec::<f32>().unwrap().iter().all(|v| v.is_nan());
    assert!(all_nan(nan().det()) && all_nan(nan().slogdet().0) && all_nan(nan().matrix_exp()));
    assert!(nan().solve(&good).to_vec::<f32>().unwrap().iter().any(|v| v.is_nan()));
    assert!(nan().qr().1.to_vec::<f32>().unwrap().iter().any(|v| v.is_nan()));
    assert!(nan().lu().2.to_vec::<f32>().unwrap().iter().any(|v| v.is_nan()));
    // A triangle that is not read may hold anything.
    assert_eq!(nan().eigvalsh().to_vec::<f32>().unwrap().len(), 2);
    assert_eq!((nan() * Tensor::new([[1.0f32, 1.0], [0.1, 1.0]])).cholesky().to_vec::<f32>().unwrap()[1], 0.0);
}

#[test]
fn singular_matrices_have_values_where_they_can() {
    let bad = Tensor::new([[1.0f64, 2.0], [2.0, 4.0]]);
    let value = |x: Tensor| x.item::<f64>().unwrap();
    assert_eq!(value(bad.det()), 0.0);
    let (sign, log) = bad.slogdet();
    assert_eq!((value(sign), value(log)), (0.0, f64::NEG_INFINITY));
    assert_eq!(value(bad.cond(One)), f64::INFINITY);
    assert!(value(bad.cond(Two)) > 1e15);
    // One of the norms of these is 0, and that of the inverse is infinite.
    let all = [MatrixNorm::Frobenius, MatrixNorm::Nuclear, Two, One, MatrixNorm::Infinity, MatrixNorm::MinusTwo];
    let none = Tensor::zeros_with([2, 2, 2], DType::F64);
    for norm in all.into_iter().chain([MatrixNorm::MinusOne, MatrixNorm::MinusInfinity]) {
        assert_eq!(none.cond(norm).to_vec::<f64>().unwrap(), [f64::INFINITY; 2], "{norm:?}");
    }
    let first = Tensor::new([[1.0f64, 0.0], [0.0, 0.0]]);
    assert_eq!(value(first.cond(MatrixNorm::MinusOne)), f64::INFINITY);
    assert_eq!(value(first.cond(MatrixNorm::MinusTwo)), 0.0);
    assert_eq!(value(Tensor::eye(2).cast(DType::F64).cond(MatrixNorm::MinusInfinity)), 1.0);
    assert_eq!(Tensor::zeros([0, 0]).cond(MatrixNorm::Frobenius).item::<f32>().unwrap(), 0.0);
    assert_eq!(bad.matrix_rank(None).item::<i64>().unwrap(), 1);
    let (_, l, u) = bad.lu();
    assert!(value((l.matmul(&u) - bad.flip(0)).abs().amax(..)) < 1e-15);
}

#[test]
fn mistakes_panic_at_the_line() {
    let (rect, square) = (Tensor::zeros([2, 3]), Tensor::eye(2));
    assert_mistake(|| drop(rect.inv()), &["inv: takes square matrices, not shape [2, 3]"]);
    assert_mistake(|| drop(rect.cholesky()), &["cholesky: takes square matrices, not shape [2, 3]"]);
    assert_mistake(|| drop(Tensor::zeros([3]).svd()), &["svd: takes matrices, not shape [3]"]);
    assert_mistake(|| drop(square.cast(DType::F16).qr()), &["qr: takes f32 or f64, not f16", ".cast(DType::F32)"]);
    assert_mistake(|| drop(square.cast(DType::I32).det()), &["det: takes f32 or f64, not i32"]);
    assert_mistake(
        || drop(square.solve(&Tensor::zeros([3, 1]))),
        &["solve: matrices of shape [2, 2] do not go with shape [3, 1]"],
    );
    assert_mistake(|| drop(square.solve(&square.cast(DType::F64))), &["solve: dtypes f32 and f64 differ"]);
    assert_mistake(
        || drop(square.lu_solve(&square, &square)),
        &["lu_solve: an order of rows is i64[2], not f32[2, 2]"],
    );
    assert_mistake(|| drop(rect.cond(One)), &["cond: takes square matrices"]);
    assert_mistake(|| drop(rect.t().tracked().qr_complete()), &["qr_complete: there is no gradient for shape [3, 2]"]);
    assert_mistake(|| drop(square.tracked().svd_full()), &["svd: operand 0 of shape [2, 2] is tracked"]);
}
