//! Decompositions of complex matrices, by `faer`, of real and imaginary parts.
//!
//! In: complex tensors of square or rectangular matrices. Out: their factors. Always true: a decomposition is one
//! [`HostOp`](crate::HostOp) over both parts, on the host. There are no gradients: a tracked operand panics. Products,
//! systems of equations and singular values, which are derived from real matrices, are in `complex/`.

use super::each::{EachMatrix, Real, ResultShape, host_op};
use super::spectra::{grown, scale_of};
use super::{matrices, squares};
use crate::{Complex, Tensor};
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::householder;
use faer::linalg::lu::partial_pivoting::factor as plu;
use faer::linalg::qr::no_pivoting::factor as qr;
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::{Conj, Mat, MatMut, MatRef, Par};
use thalweg_runtime::Unfit;

/// Complex number of `faer`.
type Number<T> = faer::complex::Complex<T>;

/// Complex matrix of two parts.
fn whole<T: Real>([re, im]: [MatRef<'_, T>; 2]) -> Mat<Number<T>> {
    Mat::from_fn(re.nrows(), re.ncols(), |i, j| Number { re: re[(i, j)], im: im[(i, j)] })
}

/// Complex matrix of two parts without NaN and infinities, scaled by a power of two if squares of its elements would
/// exceed the dtype, and the exponent of that power.
fn finite<T: Real>([re, im]: [MatRef<'_, T>; 2]) -> Result<(Mat<Number<T>>, i32), String> {
    if !re.is_all_finite() || !im.is_all_finite() {
        return Err(Unfit::NotFinite.to_string());
    }
    let mut a = whole([re, im]);
    let places = || (0..re.ncols()).flat_map(|j| (0..re.nrows()).map(move |i| (i, j)));
    let largest = places().map(|at| re[at].wide().abs().max(im[at].wide().abs())).fold(0.0, f64::max);
    let power = scale_of::<T>(largest);
    if power != 0 {
        for at in places() {
            a[at] = Number { re: grown(re[at], power), im: grown(im[at], power) };
        }
    }
    Ok((a, power))
}

/// Value of the matrix before it was scaled.
fn unscaled<T: Real>(x: T, power: i32) -> T {
    if power == 0 { x } else { grown(x, -power) }
}

/// Writes a complex matrix into two parts.
fn split<T: Real>(from: MatRef<'_, Number<T>>, mut re: MatMut<'_, T>, mut im: MatMut<'_, T>) {
    for i in 0..from.nrows() {
        for j in 0..from.ncols() {
            (re[(i, j)], im[(i, j)]) = (from[(i, j)].re, from[(i, j)].im);
        }
    }
}

/// Cholesky decomposition `A = L Lᴴ`, from the lower triangle of A.
#[derive(Clone, Copy)]
struct Cholesky;

impl EachMatrix<2, 2> for Cholesky {
    const NAME: &'static str = "cholesky";

    fn parts(&self, [(n, _), _]: [(usize, usize); 2]) -> [ResultShape; 2] {
        [ResultShape::Matrix(n, n); 2]
    }

    fn run<T: Real>(&self, a: [MatRef<'_, T>; 2], [re, im]: [MatMut<'_, T>; 2], par: Par) -> Result<(), String> {
        let mut work = whole(a);
        let n = work.nrows();
        let scratch = llt::cholesky_in_place_scratch::<Number<T>>(n, par, Default::default());
        let stack = &mut MemBuffer::new(scratch);
        let (no, stack) = (llt::LltRegularization::default(), MemStack::new(stack));
        let done = llt::cholesky_in_place(work.as_mut(), no, par, stack, Default::default());
        if let Err(llt::LltError::NonPositivePivot { index }) = done {
            return Err(Unfit::Minor(index + 1).to_string());
        }
        for i in 0..n {
            if (0..=i).any(|j| !work[(i, j)].re.wide().is_finite() || !work[(i, j)].im.wide().is_finite()) {
                return Err(Unfit::Row(i).to_string());
            }
            for j in i + 1..n {
                work[(i, j)] = Number { re: T::zero_impl(), im: T::zero_impl() };
            }
        }
        split(work.as_ref(), re, im);
        Ok(())
    }
}

/// Pivots of an LU decomposition, and whether the order of its rows is an odd permutation.
fn pivots<T: Real>(a: [MatRef<'_, T>; 2], par: Par) -> (Vec<(f64, f64)>, bool) {
    let mut lu = whole(a);
    let n = lu.nrows();
    let (mut order, mut inverse) = (vec![0usize; n], vec![0usize; n]);
    let scratch = plu::lu_in_place_scratch::<usize, Number<T>>(n, n, par, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    let (info, _) =
        plu::lu_in_place(lu.as_mut(), &mut order, &mut inverse, par, MemStack::new(stack), Default::default());
    let pivots = (0..n).map(|i| (lu[(i, i)].re.wide(), lu[(i, i)].im.wide())).collect();
    (pivots, info.transposition_count % 2 == 1)
}

fn times((a, b): (f64, f64), (c, d): (f64, f64)) -> (f64, f64) {
    (a * c - b * d, a * d + b * c)
}

/// Determinant.
#[derive(Clone, Copy)]
struct Determinant;

impl EachMatrix<2, 2> for Determinant {
    const NAME: &'static str = "det";

    fn parts(&self, _: [(usize, usize); 2]) -> [ResultShape; 2] {
        [ResultShape::Number; 2]
    }

    fn run<T: Real>(
        &self,
        a: [MatRef<'_, T>; 2],
        [mut re, mut im]: [MatMut<'_, T>; 2],
        par: Par,
    ) -> Result<(), String> {
        let (pivots, odd) = pivots(a, par);
        let product = pivots.into_iter().fold((if odd { -1.0 } else { 1.0 }, 0.0), times);
        (re[(0, 0)], im[(0, 0)]) = (T::narrow(product.0), T::narrow(product.1));
        Ok(())
    }
}

/// Sign of the determinant, of magnitude 1 or 0, and the logarithm of the determinant's magnitude.
#[derive(Clone, Copy)]
struct LogDeterminant;

impl EachMatrix<2, 3> for LogDeterminant {
    const NAME: &'static str = "slogdet";

    fn parts(&self, _: [(usize, usize); 2]) -> [ResultShape; 3] {
        [ResultShape::Number; 3]
    }

    fn run<T: Real>(
        &self,
        a: [MatRef<'_, T>; 2],
        [mut re, mut im, mut log]: [MatMut<'_, T>; 3],
        par: Par,
    ) -> Result<(), String> {
        let (pivots, odd) = pivots(a, par);
        let mut sign = (if odd { -1.0 } else { 1.0 }, 0.0);
        let mut sum = 0.0;
        for (x, y) in pivots {
            let size = x.hypot(y);
            sum += size.ln();
            sign = if size == 0.0 { (0.0, 0.0) } else { times(sign, (x / size, y / size)) };
        }
        (re[(0, 0)], im[(0, 0)], log[(0, 0)]) = (T::narrow(sign.0), T::narrow(sign.1), T::narrow(sum));
        Ok(())
    }
}

/// QR decomposition, with min(m, n) columns of Q, or all.
#[derive(Clone, Copy)]
struct Qr {
    complete: bool,
}

impl EachMatrix<2, 4> for Qr {
    const NAME: &'static str = "qr";

    fn parts(&self, [(m, n), _]: [(usize, usize); 2]) -> [ResultShape; 4] {
        let k = if self.complete { m } else { m.min(n) };
        let (q, r) = (ResultShape::Matrix(m, k), ResultShape::Matrix(k, n));
        [q, q, r, r]
    }

    fn run<T: Real>(
        &self,
        a: [MatRef<'_, T>; 2],
        [q_re, q_im, mut r_re, mut r_im]: [MatMut<'_, T>; 4],
        par: Par,
    ) -> Result<(), String> {
        let (m, n, k) = (a[0].nrows(), a[0].ncols(), q_re.ncols());
        let mut full = Mat::<Number<T>>::identity(m, k);
        if m.min(n) > 0 {
            let mut work = whole(a);
            let block = qr::recommended_block_size::<Number<T>>(m, n);
            let mut coefficients = Mat::zeros(block, m.min(n));
            let scratch = qr::qr_in_place_scratch::<Number<T>>(m, n, block, par, Default::default());
            let stack = &mut MemBuffer::new(scratch);
            qr::qr_in_place(work.as_mut(), coefficients.as_mut(), par, MemStack::new(stack), Default::default());
            for i in 0..k.min(n) {
                for j in i..n {
                    (r_re[(i, j)], r_im[(i, j)]) = (work[(i, j)].re, work[(i, j)].im);
                }
            }
            let scratch =
                householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<Number<T>>(m, block, k);
            let stack = &mut MemBuffer::new(scratch);
            householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
                work.get(.., ..m.min(n)),
                coefficients.as_ref(),
                Conj::No,
                full.as_mut(),
                par,
                MemStack::new(stack),
            );
        }
        split(full.as_ref(), q_re, q_im);
        Ok(())
    }
}

/// Singular value decomposition `A = U diag(S) Vᴴ`, with as many vectors as values, or all.
#[derive(Clone, Copy)]
struct Svd {
    full: bool,
}

impl EachMatrix<2, 5> for Svd {
    const NAME: &'static str = "svd";

    fn parts(&self, [(m, n), _]: [(usize, usize); 2]) -> [ResultShape; 5] {
        let k = m.min(n);
        let (left, right) = if self.full { (m, n) } else { (k, k) };
        let (u, vh) = (ResultShape::Matrix(m, left), ResultShape::Matrix(right, n));
        [u, u, ResultShape::Vector(k), vh, vh]
    }

    fn run<T: Real>(
        &self,
        a: [MatRef<'_, T>; 2],
        [u_re, u_im, mut s, mut vh_re, mut vh_im]: [MatMut<'_, T>; 5],
        par: Par,
    ) -> Result<(), String> {
        let (m, n) = a[0].shape();
        if m.min(n) == 0 {
            u_re.diagonal_mut().fill(T::one_impl());
            vh_re.diagonal_mut().fill(T::one_impl());
            return Ok(());
        }
        let (a, power) = finite(a)?;
        let vectors = if self.full { ComputeSvdVectors::Full } else { ComputeSvdVectors::Thin };
        let (mut left, mut right) = (Mat::zeros(m, u_re.ncols()), Mat::zeros(n, vh_re.nrows()));
        let mut values = Diag::zeros(m.min(n));
        let scratch = svd::svd_scratch::<Number<T>>(m, n, vectors, vectors, par, Default::default());
        let stack = &mut MemBuffer::new(scratch);
        svd::svd(
            a.as_ref(),
            values.as_mut(),
            Some(left.as_mut()),
            Some(right.as_mut()),
            par,
            MemStack::new(stack),
            Default::default(),
        )
        .map_err(|_| Unfit::NoEnd.to_string())?;
        split(left.as_ref(), u_re, u_im);
        for (i, value) in values.column_vector().iter().enumerate() {
            s[(i, 0)] = unscaled(value.re, power);
        }
        for i in 0..right.ncols() {
            for j in 0..n {
                (vh_re[(i, j)], vh_im[(i, j)]) = (right[(j, i)].re, -right[(j, i)].im);
            }
        }
        Ok(())
    }
}

/// Eigenvalues of a Hermitian matrix in ascending order, and its eigenvectors as columns. Reads the lower triangle.
#[derive(Clone, Copy)]
struct Hermitian;

impl EachMatrix<2, 3> for Hermitian {
    const NAME: &'static str = "eigh";

    fn parts(&self, [(n, _), _]: [(usize, usize); 2]) -> [ResultShape; 3] {
        [ResultShape::Vector(n), ResultShape::Matrix(n, n), ResultShape::Matrix(n, n)]
    }

    fn run<T: Real>(&self, a: [MatRef<'_, T>; 2], [mut w, re, im]: [MatMut<'_, T>; 3], par: Par) -> Result<(), String> {
        let n = a[0].nrows();
        if n == 0 {
            return Ok(());
        }
        let (a, power) = finite(a)?;
        let (mut values, mut vectors) = (Diag::zeros(n), Mat::zeros(n, n));
        let yes = ComputeEigenvectors::Yes;
        let scratch = evd::self_adjoint_evd_scratch::<Number<T>>(n, yes, par, Default::default());
        let stack = &mut MemBuffer::new(scratch);
        let (w_out, v_out) = (values.as_mut(), Some(vectors.as_mut()));
        evd::self_adjoint_evd(a.as_ref(), w_out, v_out, par, MemStack::new(stack), Default::default())
            .map_err(|_| Unfit::NoEnd.to_string())?;
        for (i, value) in values.column_vector().iter().enumerate() {
            w[(i, 0)] = unscaled(value.re, power);
        }
        split(vectors.as_ref(), re, im);
        Ok(())
    }
}

/// Eigenvalues of a square matrix, and its eigenvectors as columns of Euclidean norm 1.
#[derive(Clone, Copy)]
struct General;

impl EachMatrix<2, 4> for General {
    const NAME: &'static str = "eig";

    fn parts(&self, [(n, _), _]: [(usize, usize); 2]) -> [ResultShape; 4] {
        let (w, v) = (ResultShape::Vector(n), ResultShape::Matrix(n, n));
        [w, w, v, v]
    }

    fn run<T: Real>(
        &self,
        a: [MatRef<'_, T>; 2],
        [mut w_re, mut w_im, re, im]: [MatMut<'_, T>; 4],
        par: Par,
    ) -> Result<(), String> {
        let n = a[0].nrows();
        if n == 0 {
            return Ok(());
        }
        let (a, power) = finite(a)?;
        let (mut values, mut vectors) = (Diag::zeros(n), Mat::zeros(n, n));
        let (no, yes) = (ComputeEigenvectors::No, ComputeEigenvectors::Yes);
        let stack = &mut MemBuffer::new(evd::evd_scratch::<Number<T>>(n, no, yes, par, Default::default()));
        let (w_out, v_out) = (values.as_mut(), Some(vectors.as_mut()));
        evd::evd_cplx(a.as_ref(), w_out, None, v_out, par, MemStack::new(stack), Default::default())
            .map_err(|_| Unfit::NoEnd.to_string())?;
        for (i, value) in values.column_vector().iter().enumerate() {
            (w_re[(i, 0)], w_im[(i, 0)]) = (unscaled(value.re, power), unscaled(value.im, power));
        }
        for j in 0..n {
            let square = |v: Number<T>| v.re.wide().powi(2) + v.im.wide().powi(2);
            let scale = T::narrow(1.0 / (0..n).map(|i| square(vectors[(i, j)])).sum::<f64>().sqrt());
            for i in 0..n {
                let v = vectors[(i, j)];
                vectors[(i, j)] = Number { re: v.re * scale, im: v.im * scale };
            }
        }
        split(vectors.as_ref(), re, im);
        Ok(())
    }
}

/// Pairs consecutive results as complex numbers.
fn pair(all: &mut impl Iterator<Item = Tensor>) -> Complex {
    let mut part = || all.next().expect("a result for each part");
    Complex { re: part(), im: part() }
}

/// Decompositions of complex matrices, batched over the leading dimensions. They take parts of f32 and f64 and need the
/// feature `linalg`. There are no gradients. NaN and infinity are an error where a result is read, except for
/// determinants and `qr`, where they propagate.
impl Complex {
    /// The lower triangular `L` of a Hermitian positive definite `A = L Lᴴ`, as `numpy.linalg.cholesky`. Reads the lower
    /// triangle. A matrix that is not positive definite is an error where the result is read.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(2.0, 0.0), (0.0, -1.0), (0.0, 1.0), (2.0, 0.0)], [2, 2]);
    /// let l = a.cholesky();
    /// assert!(l.matmul(&l.adjoint()).allclose(&a, 0.0, 1e-12)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or are tracked.
    #[track_caller]
    pub fn cholesky(&self) -> Complex {
        squares("cholesky", &self.re);
        pair(&mut host_op(Cholesky).on_all((&self.re, &self.im)).into_iter())
    }

    /// The determinants of square matrices, as `numpy.linalg.det`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(0.0, 1.0), (0.0, 0.0), (5.0, 0.0), (3.0, 0.0)], [2, 2]);
    /// assert!(a.det().allclose(&Complex::full_with([], (0.0, 3.0), a.dtype()), 1e-12, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or are tracked.
    #[track_caller]
    pub fn det(&self) -> Complex {
        squares("det", &self.re);
        pair(&mut host_op(Determinant).on_all((&self.re, &self.im)).into_iter())
    }

    /// The signs of determinants, which have magnitude 1 (0 for singular matrices), and the logarithms of their
    /// magnitudes, as `numpy.linalg.slogdet`.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or are tracked.
    #[track_caller]
    pub fn slogdet(&self) -> (Complex, Tensor) {
        squares("slogdet", &self.re);
        let mut all = host_op(LogDeterminant).on_all((&self.re, &self.im)).into_iter();
        (pair(&mut all), all.next().expect("three results"))
    }

    /// `Q` and `R` of `A = Q R`, orthonormal columns and an upper triangular matrix, in reduced form, as
    /// `numpy.linalg.qr`.
    ///
    /// # Panics
    /// When there are no matrices, or not of f32 or f64, or they are tracked.
    #[track_caller]
    pub fn qr(&self) -> (Complex, Complex) {
        self.qr_of(false)
    }

    /// [`qr`](Complex::qr) with all columns of Q, as `numpy.linalg.qr` with `mode="complete"`.
    ///
    /// # Panics
    /// As [`qr`](Complex::qr).
    #[track_caller]
    pub fn qr_complete(&self) -> (Complex, Complex) {
        self.qr_of(true)
    }

    #[track_caller]
    fn qr_of(&self, complete: bool) -> (Complex, Complex) {
        matrices("qr", &self.re);
        let mut all = host_op(Qr { complete }).on_all((&self.re, &self.im)).into_iter();
        (pair(&mut all), pair(&mut all))
    }

    /// `U`, `S` and `Vᴴ` of `A = U diag(S) Vᴴ`, with as many vectors as singular values, which are in descending order,
    /// as `numpy.linalg.svd` with `full_matrices=False`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(0.0, 3.0), (0.0, 0.0), (0.0, 0.0), (0.0, -4.0)], [2, 2]);
    /// let (u, s, vh) = a.svd();
    /// assert_eq!(s.to_vec::<f64>()?, [4.0, 3.0]);
    /// assert!((u * s).matmul(&vh).allclose(&a, 0.0, 1e-12)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there are no matrices, or not of f32 or f64, or they are tracked.
    #[track_caller]
    pub fn svd(&self) -> (Complex, Tensor, Complex) {
        self.svd_of(false)
    }

    /// [`svd`](Complex::svd) with all singular vectors.
    ///
    /// # Panics
    /// As [`svd`](Complex::svd).
    #[track_caller]
    pub fn svd_full(&self) -> (Complex, Tensor, Complex) {
        self.svd_of(true)
    }

    #[track_caller]
    fn svd_of(&self, full: bool) -> (Complex, Tensor, Complex) {
        matrices("svd", &self.re);
        let mut all = host_op(Svd { full }).on_all((&self.re, &self.im)).into_iter();
        (pair(&mut all), all.next().expect("five results"), pair(&mut all))
    }

    /// The eigenvalues of Hermitian matrices in ascending order, and eigenvectors as columns, as `numpy.linalg.eigh`.
    /// Reads the lower triangle.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or are tracked.
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Complex) {
        squares("eigh", &self.re);
        let mut all = host_op(Hermitian).on_all((&self.re, &self.im)).into_iter();
        (all.next().expect("three results"), pair(&mut all))
    }

    /// The eigenvalues of square matrices, in no order, and eigenvectors as columns of Euclidean norm 1, as
    /// `numpy.linalg.eig`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (2.0, 0.0)], [2, 2]);
    /// let (w, v) = a.eig();
    /// let scaled = &v * Complex { re: w.re.unsqueeze(-2), im: w.im.unsqueeze(-2) };
    /// assert!(a.matmul(&v).allclose(&scaled, 0.0, 1e-12)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or are tracked.
    #[track_caller]
    pub fn eig(&self) -> (Complex, Complex) {
        squares("eig", &self.re);
        let mut all = host_op(General).on_all((&self.re, &self.im)).into_iter();
        (pair(&mut all), pair(&mut all))
    }

    /// The eigenvalues of square matrices, in no order, as `numpy.linalg.eigvals`.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or are tracked.
    #[track_caller]
    pub fn eigvals(&self) -> Complex {
        self.eig().0
    }
}
