//! Singular values and eigenvalues of one matrix, by `faer`.

use super::each::{EachMatrix, Real, ResultShape};
use super::factors::not_finite;
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::{Mat, MatMut, MatRef, Par};
use thalweg_runtime::{DecompositionKind, Unfit};

/// Number of singular vectors that are computed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Vectors {
    /// As many vectors as singular values.
    Thin,
    /// Complete bases of both spaces.
    Full,
}

/// Singular value decomposition `A = U diag(S) Vᵀ`, with singular values in descending order.
#[derive(Clone, Copy)]
pub(super) struct Svd(pub(super) Vectors);

impl EachMatrix<1, 3> for Svd {
    const NAME: &'static str = "svd";

    fn parts(&self, [(m, n)]: [(usize, usize); 1]) -> [ResultShape; 3] {
        let k = m.min(n);
        let (left, right) = if self.0 == Vectors::Full { (m, n) } else { (k, k) };
        [ResultShape::Matrix(m, left), ResultShape::Vector(k), ResultShape::Matrix(right, n)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Svd { full: self.0 == Vectors::Full })
    }

    fn run<T: Real>(
        &self,
        [a]: [MatRef<'_, T>; 1],
        [mut u, s, vt]: [MatMut<'_, T>; 3],
        par: Par,
    ) -> Result<(), String> {
        let (m, n) = a.shape();
        let mut v = vt.transpose_mut();
        if m.min(n) == 0 {
            u.diagonal_mut().fill(T::one_impl());
            v.diagonal_mut().fill(T::one_impl());
            return Ok(());
        }
        if not_finite(a) {
            return Err(Unfit::NotFinite.to_string());
        }
        let (scaled, power) = scaled(a, false);
        let vectors = if self.0 == Vectors::Full { ComputeSvdVectors::Full } else { ComputeSvdVectors::Thin };
        let (mut left, mut right) = (Mat::zeros(m, u.ncols()), Mat::zeros(n, v.ncols()));
        let mut values = Diag::zeros(m.min(n));
        let stack = &mut MemBuffer::new(svd::svd_scratch::<T>(m, n, vectors, vectors, par, Default::default()));
        svd::svd(
            scaled.as_ref().map_or(a, |s| s.as_ref()),
            values.as_mut(),
            Some(left.as_mut()),
            Some(right.as_mut()),
            par,
            MemStack::new(stack),
            Default::default(),
        )
        .map_err(|_| Unfit::NoEnd.to_string())?;
        u.copy_from(&left);
        v.copy_from(&right);
        put(s, &values, -power);
        Ok(())
    }
}

/// The singular values without vectors.
#[derive(Clone, Copy)]
pub(super) struct SingularValues;

impl EachMatrix<1, 1> for SingularValues {
    const NAME: &'static str = "svdvals";

    fn parts(&self, [(m, n)]: [(usize, usize); 1]) -> [ResultShape; 1] {
        [ResultShape::Vector(m.min(n))]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::SingularValues)
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [s]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let (m, n) = a.shape();
        if m.min(n) == 0 {
            return Ok(());
        }
        if not_finite(a) {
            return Err(Unfit::NotFinite.to_string());
        }
        let (scaled, power) = scaled(a, false);
        let a = scaled.as_ref().map_or(a, |s| s.as_ref());
        let no = ComputeSvdVectors::No;
        let mut values = Diag::zeros(m.min(n));
        let stack = &mut MemBuffer::new(svd::svd_scratch::<T>(m, n, no, no, par, Default::default()));
        svd::svd(a, values.as_mut(), None, None, par, MemStack::new(stack), Default::default())
            .map_err(|_| Unfit::NoEnd.to_string())?;
        put(s, &values, -power);
        Ok(())
    }
}

/// The eigenvalues of a symmetric matrix in ascending order, and its eigenvectors as columns. Reads only the lower
/// triangle.
#[derive(Clone, Copy)]
pub(super) struct Symmetric;

impl EachMatrix<1, 2> for Symmetric {
    const NAME: &'static str = "eigh";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 2] {
        [ResultShape::Vector(n), ResultShape::Matrix(n, n)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Symmetric)
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [w, mut v]: [MatMut<'_, T>; 2], par: Par) -> Result<(), String> {
        let mut vectors = Mat::zeros(a.nrows(), a.nrows());
        let (values, power) = symmetric(a, Some(vectors.as_mut()), par)?;
        put(w, &values, -power);
        v.copy_from(&vectors);
        Ok(())
    }
}

/// The eigenvalues of a symmetric matrix without vectors.
#[derive(Clone, Copy)]
pub(super) struct SymmetricValues;

impl EachMatrix<1, 1> for SymmetricValues {
    const NAME: &'static str = "eigvalsh";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 1] {
        [ResultShape::Vector(n)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::SymmetricValues)
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [w]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let (values, power) = symmetric(a, None, par)?;
        put(w, &values, -power);
        Ok(())
    }
}

/// The eigenvalues, and the exponent of the power of two by which they are too large.
fn symmetric<T: Real>(a: MatRef<'_, T>, vectors: Option<MatMut<'_, T>>, par: Par) -> Result<(Diag<T>, i32), String> {
    let n = a.nrows();
    let mut values = Diag::zeros(n);
    if n == 0 {
        return Ok((values, 0));
    }
    // Checks the lower triangle only; the upper one is not read.
    if (0..n).any(|j| (j..n).any(|i| !a[(i, j)].wide().is_finite())) {
        return Err(Unfit::NotFinite.to_string());
    }
    let (scaled, power) = scaled(a, true);
    let a = scaled.as_ref().map_or(a, |s| s.as_ref());
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let stack = &mut MemBuffer::new(evd::self_adjoint_evd_scratch::<T>(n, wanted, par, Default::default()));
    evd::self_adjoint_evd(a, values.as_mut(), vectors, par, MemStack::new(stack), Default::default())
        .map_err(|_| Unfit::NoEnd.to_string())?;
    Ok((values, power))
}

/// The eigenvalues of any square matrix as real and imaginary parts, and the eigenvectors as columns of a real and an
/// imaginary matrix, each of Euclidean norm 1.
#[derive(Clone, Copy)]
pub(super) struct General;

impl EachMatrix<1, 4> for General {
    const NAME: &'static str = "eig";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 4] {
        [ResultShape::Vector(n), ResultShape::Vector(n), ResultShape::Matrix(n, n), ResultShape::Matrix(n, n)]
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], y: [MatMut<'_, T>; 4], par: Par) -> Result<(), String> {
        let [w_re, w_im, mut v_re, mut v_im] = y;
        let n = a.nrows();
        let mut packed = Mat::zeros(n, n);
        let ([re, im], power) = general(a, Some(packed.as_mut()), par)?;
        put(w_re, &re, -power);
        put(w_im, &im, -power);
        // A conjugate pair of values has two columns: the real and the imaginary part of the first one's vector.
        let mut j = 0;
        while j < n {
            let pair = im.column_vector()[j] != T::zero_impl() && j + 1 < n;
            let sum: f64 = (0..n)
                .map(|i| {
                    let other = if pair { packed[(i, j + 1)].wide() } else { 0.0 };
                    packed[(i, j)].wide().powi(2) + other.powi(2)
                })
                .sum();
            let scale = T::narrow(1.0 / sum.sqrt());
            for i in 0..n {
                v_re[(i, j)] = packed[(i, j)] * scale;
                if pair {
                    let other = packed[(i, j + 1)] * scale;
                    v_im[(i, j)] = other;
                    v_re[(i, j + 1)] = packed[(i, j)] * scale;
                    v_im[(i, j + 1)] = -other;
                }
            }
            j += if pair { 2 } else { 1 };
        }
        Ok(())
    }
}

/// The eigenvalues of any square matrix without vectors.
#[derive(Clone, Copy)]
pub(super) struct GeneralValues;

impl EachMatrix<1, 2> for GeneralValues {
    const NAME: &'static str = "eigvals";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 2] {
        [ResultShape::Vector(n), ResultShape::Vector(n)]
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [re, im]: [MatMut<'_, T>; 2], par: Par) -> Result<(), String> {
        let ([w_re, w_im], power) = general(a, None, par)?;
        put(re, &w_re, -power);
        put(im, &w_im, -power);
        Ok(())
    }
}

/// Real and imaginary parts of the eigenvalues, and the exponent of the power of two by which they are too large.
type Eigenvalues<T> = ([Diag<T>; 2], i32);

fn general<T: Real>(a: MatRef<'_, T>, vectors: Option<MatMut<'_, T>>, par: Par) -> Result<Eigenvalues<T>, String> {
    let n = a.nrows();
    let (mut re, mut im) = (Diag::zeros(n), Diag::zeros(n));
    if n == 0 {
        return Ok(([re, im], 0));
    }
    if not_finite(a) {
        return Err(Unfit::NotFinite.to_string());
    }
    let (scaled, power) = scaled(a, false);
    let a = scaled.as_ref().map_or(a, |s| s.as_ref());
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let scratch = evd::evd_scratch::<T>(n, ComputeEigenvectors::No, wanted, par, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    evd::evd_real(a, re.as_mut(), im.as_mut(), None, vectors, par, MemStack::new(stack), Default::default())
        .map_err(|_| Unfit::NoEnd.to_string())?;
    Ok(([re, im], power))
}

/// Scales a matrix whose elements are so large or small that their squares exceed the dtype, so that the largest is
/// near 1. Returns the scaled matrix, if it was scaled, and the exponent of the power of two it was multiplied by.
/// Reads only the lower triangle of a symmetric one.
fn scaled<T: Real>(a: MatRef<'_, T>, symmetric: bool) -> (Option<Mat<T>>, i32) {
    let (rows, columns) = a.shape();
    let first = |j: usize| if symmetric { j } else { 0 };
    let magnitudes = (0..columns).flat_map(|j| (first(j)..rows).map(move |i| a[(i, j)].wide().abs()));
    let power = scale_of::<T>(magnitudes.fold(0.0, f64::max));
    if power == 0 {
        return (None, 0);
    }
    (Some(Mat::from_fn(rows, columns, |i, j| grown(a[(i, j)], power))), power)
}

/// Exponent of the power of two by which a matrix is scaled whose largest magnitude is `largest`; 0 for none.
pub(super) fn scale_of<T: Real>(largest: f64) -> i32 {
    let power = largest.log2().floor();
    // Within these bounds the product of four elements is representable.
    let within = if size_of::<T>() == 4 { 24.0 } else { 240.0 };
    if largest == 0.0 || power.abs() <= within { 0 } else { -power as i32 }
}

/// Product of a number and a power of two, which may itself exceed the dtype.
pub(super) fn grown<T: Real>(x: T, power: i32) -> T {
    T::narrow(x.wide() * 2f64.powi(power / 2) * 2f64.powi(power - power / 2))
}

/// Writes values, times a power of two, into a column.
fn put<T: Real>(mut to: MatMut<'_, T>, values: &Diag<T>, power: i32) {
    for (i, &x) in values.column_vector().iter().enumerate() {
        to[(i, 0)] = if power == 0 { x } else { grown(x, power) };
    }
}
