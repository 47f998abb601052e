//! Identities of every matrix, on random shapes, batches, views and both dtypes; and the cost of operations.

use crate::counting::{counted, pinned, randn};
use thalweg::Complex;
use thalweg::prelude::*;

/// The largest difference, relative to the magnitude of the values.
fn apart(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()));
    if a.numel() == 0 {
        return 0.0;
    }
    let f = |x: Tensor| x.cast(DType::F64).item::<f64>().unwrap();
    f((a - b).abs().amax(..)) / f(b.abs().amax(..)).max(1.0)
}

struct Random(fastrand::Rng);

impl Random {
    fn size(&mut self) -> usize {
        match self.0.u32(..8) {
            0 => 0,
            1 => 1,
            2 => self.0.usize(30..70),
            _ => self.0.usize(2..9),
        }
    }

    /// Matrices of that size, with any batch, contiguous or as a view.
    fn matrices(&mut self, m: usize, n: usize, dtype: DType) -> Tensor {
        let batch: Vec<usize> = (0..self.0.usize(..3)).map(|_| self.0.usize(1..4)).collect();
        let full = |m: usize, n: usize| [&batch[..], &[m, n]].concat();
        let (way, mut rng) = (self.0.u32(..3), self.0.fork());
        let mut make = |dims: Vec<usize>| {
            let count = dims.iter().product();
            let list: Vec<f64> = (0..count).map(|_| rng.f64() * 2.0 - 1.0).collect();
            Tensor::from_slice(&list, dims).cast(dtype)
        };
        match way {
            0 => make(full(n, m)).t(),
            1 => make(full(m + 2, n + 1)).narrow(-2, 1, m).narrow(-1, 0, n),
            _ => make(full(m, n)),
        }
    }
}

#[test]
fn of_random_matrices() {
    for seed in 0..120 {
        let mut r = Random(fastrand::Rng::with_seed(seed));
        let (m, n) = (r.size(), r.size());
        let dtype = if r.0.bool() { DType::F32 } else { DType::F64 };
        let close = dtype.float_info().epsilon * 300.0;
        let a = r.matrices(m, n, dtype);
        let near = |what: &str, x: Tensor, y: &Tensor| {
            let d = apart(&x, y);
            assert!(d < close, "seed {seed}: {what} of {dtype}{}: {d:e}", a.shape());
        };
        let unit = |k: usize| Tensor::eye_with(k, k, (dtype, a.device()));
        let own = |x: &Tensor| {
            let k = x.dims()[x.rank() - 1];
            let want = unit(k).broadcast_to(*x.t().matmul(x).shape());
            near("columns at right angles", x.t().matmul(x), &want);
        };
        for (q, r) in [a.qr(), a.qr_complete()] {
            own(&q);
            near("qr", q.matmul(&r), &a);
            near("a triangle", r.triu(0), &r);
        }
        let (p, l, u) = a.lu();
        near("lu", p.matmul(&l).matmul(&u), &a);
        let (u, s, vt) = a.svd();
        own(&u);
        own(&vt.t());
        near("svd", (&u * s.unsqueeze(-2)).matmul(&vt), &a);
        near("svdvals", a.svdvals(), &s);
        let (full_u, full_s, full_vt) = a.svd_full();
        own(&full_u);
        own(&full_vt.t());
        near("svd_full", full_s, &s);
        let p = a.pinv(None);
        near("pinv", a.matmul(&p).matmul(&a), &a);
        if m == n {
            square(&a, n, &near);
        }
    }
}

fn square(a: &Tensor, n: usize, near: &dyn Fn(&str, Tensor, &Tensor)) {
    let unit = Tensor::eye_with(n, n, (a.dtype(), a.device()));
    let safe = a + &unit * 9.0;
    near("inv", safe.matmul(&safe.inv()), &unit.broadcast_to(*a.shape()));
    let b = a.narrow(-1, 0, n.min(2));
    near("solve", safe.matmul(&safe.solve(&b)), &b);
    let (lu, order) = safe.lu_factor();
    near("lu_solve", lu.lu_solve(&order, &b), &safe.solve(&b));
    let spd = a.matmul(&a.t()) + &unit;
    let l = spd.cholesky();
    near("cholesky", l.matmul(&l.t()), &spd);
    near("cholesky_solve", spd.matmul(&l.cholesky_solve(&b)), &b);
    let (w, v) = spd.eigh();
    near("eigh", spd.matmul(&v), &(&v * w.unsqueeze(-2)));
    near("eigvalsh", spd.eigvalsh(), &w);
    let (w, v) = safe.eig();
    let real = thalweg::Complex::real(&safe);
    let (left, right) = (real.matmul(&v), &v * thalweg::Complex { re: w.re.unsqueeze(-2), im: w.im.unsqueeze(-2) });
    near("eig, real", left.re, &right.re);
    near("eig, imaginary", left.im, &right.im);
    near("matrix_exp", (a * 0.5).matrix_exp().matmul(&(a * -0.5).matrix_exp()), &unit.broadcast_to(*a.shape()));
    let (sign, log) = safe.slogdet();
    near("slogdet", sign, &log.ones_like());
    if n < 9 {
        near("det", safe.det(), &log.exp());
    }
}

/// A decomposition costs its call; products and gradients around it are planned as usual.
#[test]
fn it_costs_its_call_and_nothing_else() {
    let _pinned = pinned();
    let (a, b) = (randn([64, 64]) + Tensor::eye(64) * 20.0, randn([64, 3]));
    thalweg::synchronize().unwrap();
    let step = || (&a * 2.0).solve(&(&b + 1.0)).square() * 3.0;
    let (y, c) = counted(step);
    assert_eq!((c.host_calls, c.kernels, c.segments), (1, 2, 2), "{c:?}");
    drop(y);
    let (_, c) = counted(step);
    assert_eq!((c.host_calls, c.plans_made), (1, 0), "{c:?}");
    // Without a reader, nothing runs.
    let (_, c) = counted(|| drop(a.svd()));
    assert_eq!((c.host_calls, c.kernels), (0, 0), "{c:?}");
    // A batch is one call.
    let all = randn([50, 8, 8]);
    thalweg::synchronize().unwrap();
    let (_, c) = counted(|| all.svdvals().to_vec::<f32>().unwrap());
    assert_eq!((c.host_calls, c.kernels), (1, 0), "{c:?}");
}

/// The bits do not depend on the distribution of matrices over threads.
#[test]
fn a_batch_has_the_bits_of_its_matrices() {
    let all = randn([40, 30, 30]);
    let whole = all.svdvals().to_vec::<f32>().unwrap();
    let each: Vec<f32> = (0..40i64).flat_map(|i| all.slice(i).svdvals().to_vec::<f32>().unwrap()).collect();
    assert_eq!(whole, each);
}

#[test]
fn values_of_matrices_whose_squares_are_beyond_the_dtype() {
    manual_seed(4);
    let base = Tensor::randn_with([6, 5], DType::F64);
    let square = base.narrow(0, 0, 5);
    let near = |got: Tensor, want: &Tensor, by: f64, allowed: f64, what: &str| {
        let off = (got.cast(DType::F64) / by - want).abs().amax(..).item::<f64>();
        assert!(matches!(off, Ok(off) if off < allowed), "{what} times {by:e}: {off:?}");
    };
    let all =
        [(DType::F32, [1e-30, 1e19, 1e37].as_slice(), 1e-5), (DType::F64, &[1e-300, 1e-200, 1e155, 1e300], 1e-13)];
    for (dtype, scales, allowed) in all {
        for &by in scales {
            let (a, b) = ((&base * by).cast(dtype), (&square * by).cast(dtype));
            let wide = |x: &Tensor| x.cast(DType::F64);
            let near = |got: Tensor, want: &Tensor, what: &str| near(got, want, by, allowed, what);
            let (u, s, vt) = a.svd();
            near((wide(&u) * wide(&s)).matmul(&wide(&vt)), &base, "svd");
            near(a.svdvals(), &base.svdvals(), "svdvals");
            near(a.svd_full().1, &base.svdvals(), "svd_full");
            let symmetric = square.tril(0) + square.tril(-1).t();
            let (w, v) = b.eigh();
            near((wide(&v) * wide(&w)).matmul(&wide(&v.t())), &symmetric, "eigh");
            near(b.eigvalsh(), &square.eigvalsh(), "eigvalsh");
            let sorted = |x: Tensor| x.sort(-1, false);
            near(sorted(b.eig().0.re), &sorted(square.eigvals().re), "eig");
            near(sorted(b.eigvals().im), &sorted(square.eigvals().im), "eigvals");
            assert_eq!(a.matrix_rank(None).item::<i64>().unwrap(), 5, "{by:e}");
        }
    }
}

/// Decompositions of complex matrices: products of the factors are the matrix, and factors are orthonormal.
#[test]
fn of_random_complex_matrices() {
    for seed in 0..60 {
        let mut r = Random(fastrand::Rng::with_seed(seed));
        let (m, n) = (r.size(), r.size());
        let dtype = if r.0.bool() { DType::F32 } else { DType::F64 };
        let close = dtype.float_info().epsilon * 600.0;
        let state = r.0.fork().u64(..);
        // Two parts of one shape, from the same draw of sizes.
        let part = |m: usize, n: usize| {
            let mut same = Random(fastrand::Rng::with_seed(state));
            let re = same.matrices(m, n, dtype);
            Complex { im: re.flip([-2, -1]) * 0.7 - &re * &re * 0.3, re }
        };
        let near = |what: &str, x: &Complex, y: &Complex| {
            let d = apart(&x.re, &y.re).max(apart(&x.im, &y.im));
            assert!(d < close, "seed {seed}: {what} of {dtype}{}: {d:e}", y.shape());
        };
        let orthonormal = |what: &str, q: &Complex| {
            let k = q.dims()[q.rank() - 1];
            let unit = Tensor::eye_with(k, k, (dtype, q.device())).broadcast_to(*q.adjoint().matmul(q).shape());
            near(what, &q.adjoint().matmul(q), &Complex { im: unit.zeros_like(), re: unit });
        };
        let a = part(m, n);
        let (q, r_) = a.qr();
        near("q r", &q.matmul(&r_), &a);
        orthonormal("q", &q);
        let (q, r_) = a.qr_complete();
        near("complete q r", &q.matmul(&r_), &a);
        orthonormal("complete q", &q);
        let (u, s, vh) = a.svd();
        let scaled = Complex { re: &u.re * s.unsqueeze(-2), im: &u.im * s.unsqueeze(-2) };
        near("svd", &scaled.matmul(&vh), &a);
        orthonormal("u", &u);
        let d = apart(&s, &a.svdvals());
        assert!(d < close, "seed {seed}: singular values differ by {d:e}");
        let (u, _, vh) = a.svd_full();
        orthonormal("full u", &u);
        orthonormal("full v", &vh.adjoint());

        let a = part(n, n);
        let unit = Tensor::eye_with(n, n, (dtype, a.device()));
        let positive = a.matmul(&a.adjoint());
        let positive = Complex { re: &positive.re + unit * 2.0, im: positive.im };
        let l = positive.cholesky();
        near("l lᴴ", &l.matmul(&l.adjoint()), &positive);
        let (w, v) = positive.eigh();
        near("eigh", &positive.matmul(&v), &Complex { re: &v.re * w.unsqueeze(-2), im: &v.im * w.unsqueeze(-2) });
        orthonormal("eigenvectors", &v);
        let (w, v) = a.eig();
        let row = Complex { re: w.re.unsqueeze(-2), im: w.im.unsqueeze(-2) };
        near("eig", &a.matmul(&v), &(&v * row));
        // Determinants: of a positive matrix that of its factor squared, and sign times magnitude.
        if n > 0 && n < 9 {
            let squared = l.re.diagonal(0).square().prod(-1);
            let d = positive.det();
            let apart =
                apart(&(&d.re / &squared), &squared.ones_like()).max(apart(&(&d.im / &squared), &squared.zeros_like()));
            assert!(apart < close, "seed {seed}: the determinant is off by {apart:e}");
            let (sign, log) = a.slogdet();
            let (re, im) = (&sign.re * log.exp(), &sign.im * log.exp());
            near("slogdet", &Complex { re, im }, &a.det());
        }
    }
}
