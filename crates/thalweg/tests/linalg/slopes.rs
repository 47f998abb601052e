//! Gradients, against PyTorch's and against differences of first and second order.

use crate::differences::{check, first_order, numbers};
use crate::golden::Golden;
use thalweg::MatrixNorm::*;
use thalweg::prelude::*;

/// Compares with PyTorch's gradients.
pub fn golden(g: &mut Golden, [a, spd, tall, wide]: &[Tensor; 4]) {
    let weights = g.take("weights");
    let mut slope = |name: &str, x: &Tensor, f: &dyn Fn(&Tensor) -> Tensor| {
        let leaf = x.tracked();
        let y = f(&leaf);
        let [m, n] = y.dims()[y.rank() - 2..] else { unreachable!() };
        let loss = (y * weights.slice((..m as i64, ..n as i64))).sum(..);
        g.check(&format!("slope_{name}"), &loss.backward()[&leaf]);
    };
    slope("cholesky", spd, &|x| x.cholesky());
    slope("inv", a, &|x| x.inv());
    slope("det", a, &|x| x.det().unsqueeze(0));
    slope("pinv", tall, &|x| x.pinv(None));
    slope("svd_square", a, &|x| {
        let (u, s, vt) = x.svd();
        (u.tril(0) * s.unsqueeze(-2)).matmul(&vt).square()
    });
    slope("svdvals", wide, &|x| x.svdvals().unsqueeze(0));
    slope("eigh", spd, &|x| x.eigh().1.square());
    slope("eig", a, &|x| {
        let (w, v) = x.eig();
        v.abs() * w.abs().unsqueeze(-2)
    });
    slope("qr_wide", wide, &|x| x.qr().1.square());
    slope("lu", tall, &|x| {
        let (_, l, u) = x.lu();
        l.matmul(&u.square())
    });
    slope("matrix_exp", a, &|x| x.matrix_exp());
}

/// Matrices with well separated singular values and eigenvalues.
fn matrix(seed: u64, dims: &[usize]) -> Tensor {
    let (m, n) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let spread = Tensor::eye_with(m, n, DType::F64) * (Tensor::arange_with(n, DType::F64) * 1.5 + 2.0);
    numbers(seed, dims, -1.0, 1.0) + spread
}

fn symmetric(x: &Tensor) -> Tensor {
    x + x.t()
}

fn positive(x: &Tensor) -> Tensor {
    x.matmul(&x.t()) + Tensor::eye_with(x.dims()[x.rank() - 1], x.dims()[x.rank() - 1], DType::F64)
}

fn pair((a, b): (Tensor, Tensor)) -> Tensor {
    Tensor::cat(&[a.flatten(), b.flatten()], 0)
}

fn three((a, b, c): (Tensor, Tensor, Tensor)) -> Tensor {
    Tensor::cat(&[a.flatten(), b.flatten(), c.flatten()], 0)
}

#[test]
fn of_what_is_solved() {
    let (a, b, v) = (matrix(1, &[2, 3, 3]), numbers(2, [2, 3, 2], -1.0, 1.0), numbers(3, [3], -1.0, 1.0));
    check("cholesky", std::slice::from_ref(&a), &|x| positive(&x[0]).cholesky());
    check("cholesky_solve", &[a.clone(), b.clone()], &|x| positive(&x[0]).cholesky().cholesky_solve(&x[1]));
    check("solve", &[a.clone(), b.clone()], &|x| x[0].solve(&x[1]));
    check("solve, broadcast", &[a.clone(), v.clone()], &|x| x[0].solve(&x[1]));
    for upper in [false, true] {
        check("solve_triangular", &[a.clone(), b.clone()], &|x| x[0].solve_triangular(&x[1], upper));
        check("solve_unit_triangular", &[a.clone(), v.clone()], &|x| x[0].solve_unit_triangular(&x[1], upper));
    }
    check("inv", std::slice::from_ref(&a), &|x| x[0].inv());
    check("det", std::slice::from_ref(&a), &|x| x[0].det());
    check("slogdet", std::slice::from_ref(&a), &|x| x[0].slogdet().1);
    check("lu_solve", &[a.clone(), b], &|x| {
        let (lu, order) = x[0].lu_factor();
        lu.lu_solve(&order, &x[1])
    });
    check("matrix_exp", &[a * 0.3], &|x| x[0].matrix_exp());
}

#[test]
fn of_decompositions() {
    for dims in [&[2, 3, 3][..], &[4, 2], &[2, 4]] {
        let a = [matrix(4, dims)];
        let pairs = |x: &Tensor| {
            let (u, s, vt) = x.svd();
            // Products of each vector with itself, and of the two together, which do not depend on signs.
            let of = |u: Tensor, v: Tensor| (u.unsqueeze(-1) * v.unsqueeze(-2)).flatten();
            Tensor::cat(&[of(u.t(), u.t()), of(vt.clone(), vt.clone()), of(u.t(), vt), s.flatten()], 0)
        };
        check("svd", &a, &|x| pairs(&x[0]));
        check("svdvals", &a, &|x| x[0].svdvals());
        check("qr", &a, &|x| pair(x[0].qr()));
        check("lu", &a, &|x| three(x[0].lu()));
        check("pinv", &a, &|x| x[0].pinv(None));
        let b = numbers(5, [dims[dims.len() - 2], 2], -1.0, 1.0);
        check("lstsq", &[a[0].clone(), b], &|x| x[0].lstsq(&x[1], None));
    }
    check("qr_complete", &[matrix(6, &[2, 4])], &|x| pair(x[0].qr_complete()));
    let a = [matrix(7, &[2, 3, 3])];
    check("eigh", &a, &|x| {
        let (w, v) = symmetric(&x[0]).eigh();
        Tensor::cat(&[(v.t().unsqueeze(-1) * v.t().unsqueeze(-2)).flatten(), w.flatten()], 0)
    });
    check("eigvalsh", &a, &|x| symmetric(&x[0]).eigvalsh());
}

#[test]
fn of_eigenvalues_that_are_complex() {
    // Two real eigenvalues and a complex pair.
    let turn =
        Tensor::new([[0.3, -1.0, 0.2, 0.1], [1.2, 0.5, -0.3, 0.2], [0.1, 0.2, 3.0, 0.4], [0.3, -0.1, 0.2, -2.0]]);
    check("eig", std::slice::from_ref(&turn), &|x| {
        let (w, v) = x[0].eig();
        Tensor::cat(&[v.abs_square().flatten(), w.re, w.im.square()], 0)
    });
    first_order("eigvals", &[turn], &|x| x[0].eigvals().abs());
}

/// The derivative of a determinant exists where the inverse does not.
#[test]
fn of_a_singular_determinant() {
    let a = Tensor::new([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, -1.0, 2.0]]);
    first_order("det", &[a], &|x| x[0].det());
    let zero = Tensor::zeros_with([2, 2], DType::F64).tracked();
    assert_eq!(zero.det().backward()[&zero].to_vec::<f64>().unwrap(), [0.0; 4]);
}

#[test]
fn of_norms() {
    let a = [matrix(8, &[3, 3])];
    for norm in [Frobenius, Nuclear, Two, MinusTwo, One, MinusOne, Infinity, MinusInfinity] {
        first_order("matrix_norm", &a, &|x| x[0].matrix_norm(norm));
        first_order("cond", &a, &|x| x[0].cond(norm));
    }
}
