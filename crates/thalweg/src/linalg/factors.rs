//! Triangular and orthogonal decompositions of one matrix, by `faer`.

use super::each::{EachMatrix, Real, ResultShape};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::lu::partial_pivoting::factor as plu;
use faer::linalg::qr::no_pivoting::factor as qr;
use faer::linalg::{householder, triangular_solve};
use faer::{Conj, Mat, MatMut, MatRef, Par};
use thalweg_runtime::{DecompositionKind, Unfit};

/// Whether an element is NaN or infinite.
pub(super) fn not_finite<T: Real>(x: MatRef<'_, T>) -> bool {
    !x.is_all_finite()
}

/// Cholesky decomposition `A = L Lᵀ`, from the lower triangle of A.
#[derive(Clone, Copy)]
pub(super) struct Cholesky;

impl EachMatrix<1, 1> for Cholesky {
    const NAME: &'static str = "cholesky";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 1] {
        [ResultShape::Matrix(n, n)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Cholesky)
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [mut y]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let n = a.nrows();
        let mut work = a.to_owned();
        let scratch = llt::cholesky_in_place_scratch::<T>(n, par, Default::default());
        let stack = &mut MemBuffer::new(scratch);
        let (no, stack) = (llt::LltRegularization::default(), MemStack::new(stack));
        let done = llt::cholesky_in_place(work.as_mut(), no, par, stack, Default::default());
        if let Err(llt::LltError::NonPositivePivot { index }) = done {
            return Err(Unfit::Minor(index + 1).to_string());
        }
        for j in 0..n {
            for i in j..n {
                if !work[(i, j)].wide().is_finite() {
                    return Err(Unfit::Row(i).to_string());
                }
                y[(i, j)] = work[(i, j)];
            }
        }
        Ok(())
    }
}

/// LU factors: L below the diagonal and U from it on, in one matrix, with the order of A's rows.
struct Factored<T> {
    lu: Mat<T>,
    order: Vec<usize>,
    odd: bool,
}

impl<T: Real> Factored<T> {
    fn new(a: MatRef<'_, T>, par: Par) -> Factored<T> {
        let (m, n) = a.shape();
        let mut lu = a.to_owned();
        let (mut order, mut inverse) = (vec![0usize; m], vec![0usize; m]);
        let scratch = plu::lu_in_place_scratch::<usize, T>(m, n, par, Default::default());
        let stack = &mut MemBuffer::new(scratch);
        let (info, _) =
            plu::lu_in_place(lu.as_mut(), &mut order, &mut inverse, par, MemStack::new(stack), Default::default());
        Factored { lu, order, odd: info.transposition_count % 2 == 1 }
    }

    /// Returns an error if the matrix is singular.
    fn check(&self) -> Result<(), String> {
        let zero = (0..self.lu.nrows()).find(|&i| self.lu[(i, i)] == T::zero_impl());
        zero.map_or(Ok(()), |i| Err(Unfit::Pivot(i).to_string()))
    }

    /// Replaces y by `U⁻¹ L⁻¹ y`.
    fn divide(&self, mut y: MatMut<'_, T>, par: Par) {
        triangular_solve::solve_unit_lower_triangular_in_place(self.lu.as_ref(), y.as_mut(), par);
        triangular_solve::solve_upper_triangular_in_place(self.lu.as_ref(), y, par);
    }
}

/// `A = P L U`: L and U in one matrix, and for each row of `L U` the index of the row of A, as a float of the dtype.
#[derive(Clone, Copy)]
pub(super) struct Lu;

impl EachMatrix<1, 2> for Lu {
    const NAME: &'static str = "lu";

    fn parts(&self, [(m, n)]: [(usize, usize); 1]) -> [ResultShape; 2] {
        [ResultShape::Matrix(m, n), ResultShape::Vector(m)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Lu)
    }

    fn run<T: Real>(
        &self,
        [a]: [MatRef<'_, T>; 1],
        [mut lu, mut order]: [MatMut<'_, T>; 2],
        par: Par,
    ) -> Result<(), String> {
        let f = Factored::new(a, par);
        lu.copy_from(&f.lu);
        for (i, &from) in f.order.iter().enumerate() {
            order[(i, 0)] = T::narrow(from as f64);
        }
        Ok(())
    }
}

/// The solution X of `A X = B`.
#[derive(Clone, Copy)]
pub(super) struct Solve;

impl EachMatrix<2, 1> for Solve {
    const NAME: &'static str = "solve";

    fn parts(&self, [_, (n, k)]: [(usize, usize); 2]) -> [ResultShape; 1] {
        [ResultShape::Matrix(n, k)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Solve)
    }

    fn run<T: Real>(&self, [a, b]: [MatRef<'_, T>; 2], [mut y]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let f = Factored::new(a, par);
        f.check()?;
        for (i, &from) in f.order.iter().enumerate() {
            y.as_mut().row_mut(i).copy_from(b.row(from));
        }
        f.divide(y, par);
        Ok(())
    }
}

/// The solution X of `A X = B`, or of `Aᵀ X = B`, from the result of [`Lu`] for A.
#[derive(Clone, Copy)]
pub(super) struct LuSolve {
    pub(super) transposed: bool,
}

impl EachMatrix<3, 1> for LuSolve {
    const NAME: &'static str = "lu_solve";

    fn parts(&self, [_, _, (n, k)]: [(usize, usize); 3]) -> [ResultShape; 1] {
        [ResultShape::Matrix(n, k)]
    }

    fn run<T: Real>(
        &self,
        [lu, order, b]: [MatRef<'_, T>; 3],
        [mut y]: [MatMut<'_, T>; 1],
        par: Par,
    ) -> Result<(), String> {
        let n = lu.nrows();
        let mut f = Factored { lu: lu.to_owned(), order: vec![0; n], odd: false };
        let mut seen = vec![false; n];
        for i in 0..n {
            // The index was an integer before it was converted to this dtype.
            let from = order[(i, 0)].wide();
            if !(0.0..n as f64).contains(&from) || std::mem::replace(&mut seen[from as usize], true) {
                return Err(format!("the order of rows is no permutation: {from} at {i}"));
            }
            f.order[i] = from as usize;
        }
        f.check()?;
        if !self.transposed {
            for (i, &from) in f.order.iter().enumerate() {
                y.as_mut().row_mut(i).copy_from(b.row(from));
            }
            f.divide(y, par);
            return Ok(());
        }
        let mut work = b.to_owned();
        triangular_solve::solve_lower_triangular_in_place(f.lu.transpose(), work.as_mut(), par);
        triangular_solve::solve_unit_upper_triangular_in_place(f.lu.transpose(), work.as_mut(), par);
        for (i, &to) in f.order.iter().enumerate() {
            y.as_mut().row_mut(to).copy_from(work.row(i));
        }
        Ok(())
    }
}

/// Inverse of A. For a singular A, infinities or an error.
#[derive(Clone, Copy)]
pub(super) struct Inverse {
    pub(super) singular: bool,
}

impl EachMatrix<1, 1> for Inverse {
    const NAME: &'static str = "inv";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 1] {
        [ResultShape::Matrix(n, n)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Inverse { singular: self.singular })
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [mut y]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let f = Factored::new(a, par);
        if let Err(why) = f.check() {
            y.fill(T::infinity_impl());
            return if self.singular { Ok(()) } else { Err(why) };
        }
        for (i, &from) in f.order.iter().enumerate() {
            y[(i, from)] = T::one_impl();
        }
        f.divide(y, par);
        Ok(())
    }
}

/// The determinant.
#[derive(Clone, Copy)]
pub(super) struct Determinant;

impl EachMatrix<1, 1> for Determinant {
    const NAME: &'static str = "det";

    fn parts(&self, _: [(usize, usize); 1]) -> [ResultShape; 1] {
        [ResultShape::Number]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Determinant)
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [mut y]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let f = Factored::new(a, par);
        let mut product = if f.odd { -T::one_impl() } else { T::one_impl() };
        for i in 0..a.nrows() {
            product *= f.lu[(i, i)];
        }
        y[(0, 0)] = product;
        Ok(())
    }
}

/// The determinant's sign, and the logarithm of its magnitude.
#[derive(Clone, Copy)]
pub(super) struct LogDeterminant;

impl EachMatrix<1, 2> for LogDeterminant {
    const NAME: &'static str = "slogdet";

    fn parts(&self, _: [(usize, usize); 1]) -> [ResultShape; 2] {
        [ResultShape::Number, ResultShape::Number]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::LogDeterminant)
    }

    fn run<T: Real>(
        &self,
        [a]: [MatRef<'_, T>; 1],
        [mut sign, mut log]: [MatMut<'_, T>; 2],
        par: Par,
    ) -> Result<(), String> {
        let f = Factored::new(a, par);
        let (mut positive, mut sum, mut zero) = (!f.odd, 0.0, false);
        let mut nan = false;
        for i in 0..a.nrows() {
            let pivot = f.lu[(i, i)];
            positive ^= pivot < T::zero_impl();
            zero |= pivot == T::zero_impl();
            nan |= pivot.wide().is_nan();
            sum += pivot.wide().abs().ln();
        }
        let one = if positive { T::one_impl() } else { -T::one_impl() };
        sign[(0, 0)] = match (nan, zero) {
            (true, _) => T::nan_impl(),
            (_, true) => T::zero_impl(),
            _ => one,
        };
        log[(0, 0)] = T::narrow(sum);
        Ok(())
    }
}

/// QR decomposition `A = Q R`, with min(m, n) columns of Q, or all.
#[derive(Clone, Copy)]
pub(super) struct Qr {
    pub(super) complete: bool,
}

impl EachMatrix<1, 2> for Qr {
    const NAME: &'static str = "qr";

    fn parts(&self, [(m, n)]: [(usize, usize); 1]) -> [ResultShape; 2] {
        let k = if self.complete { m } else { m.min(n) };
        [ResultShape::Matrix(m, k), ResultShape::Matrix(k, n)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Qr { complete: self.complete })
    }

    fn run<T: Real>(
        &self,
        [a]: [MatRef<'_, T>; 1],
        [mut q, mut r]: [MatMut<'_, T>; 2],
        par: Par,
    ) -> Result<(), String> {
        let (m, n, k) = (a.nrows(), a.ncols(), q.ncols());
        let mut full = Mat::<T>::identity(m, k);
        if m.min(n) > 0 {
            let mut work = a.to_owned();
            let block = qr::recommended_block_size::<T>(m, n);
            let mut coefficients = Mat::zeros(block, m.min(n));
            let scratch = qr::qr_in_place_scratch::<T>(m, n, block, par, Default::default());
            let stack = &mut MemBuffer::new(scratch);
            qr::qr_in_place(work.as_mut(), coefficients.as_mut(), par, MemStack::new(stack), Default::default());
            for i in 0..k.min(n) {
                for j in i..n {
                    r[(i, j)] = work[(i, j)];
                }
            }
            let scratch = householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(m, block, k);
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
        q.copy_from(&full);
        Ok(())
    }
}

/// The solution X of `A X = B` for a triangular A; the other triangle is not read.
#[derive(Clone, Copy)]
pub(super) struct Triangular {
    pub(super) upper: bool,
    pub(super) unit: bool,
}

impl EachMatrix<2, 1> for Triangular {
    const NAME: &'static str = "solve_triangular";

    fn parts(&self, [_, (n, k)]: [(usize, usize); 2]) -> [ResultShape; 1] {
        [ResultShape::Matrix(n, k)]
    }

    fn kind(&self) -> Option<DecompositionKind> {
        Some(DecompositionKind::Triangular { upper: self.upper, unit: self.unit })
    }

    fn run<T: Real>(&self, [a, b]: [MatRef<'_, T>; 2], [mut y]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        if !self.unit
            && let Some(i) = (0..a.nrows()).find(|&i| a[(i, i)] == T::zero_impl())
        {
            return Err(Unfit::Diagonal(i).to_string());
        }
        y.copy_from(b);
        match (self.upper, self.unit) {
            (false, false) => triangular_solve::solve_lower_triangular_in_place(a, y, par),
            (false, true) => triangular_solve::solve_unit_lower_triangular_in_place(a, y, par),
            (true, false) => triangular_solve::solve_upper_triangular_in_place(a, y, par),
            (true, true) => triangular_solve::solve_unit_upper_triangular_in_place(a, y, par),
        }
        Ok(())
    }
}

/// Replaces y by `A⁻¹ y`, for a non-singular A.
pub(super) fn divide<T: Real>(a: MatRef<'_, T>, mut y: MatMut<'_, T>, par: Par) {
    let f = Factored::new(a, par);
    let before = y.to_owned();
    for (i, &from) in f.order.iter().enumerate() {
        y.as_mut().row_mut(i).copy_from(before.row(from));
    }
    f.divide(y, par);
}
