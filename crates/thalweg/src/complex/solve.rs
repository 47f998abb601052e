//! Complex linear systems, as real ones of twice the size.
//!
//! `A x = b` is `[[Re A, -Im A], [Im A, Re A]] [Re x; Im x] = [Re b; Im b]`. The real matrix has each singular value of
//! `A` twice, and so its condition number: the real decomposition is as accurate as a complex one. It takes about twice
//! the time and memory. Eigenvalues of Hermitian matrices and singular values come in equal pairs, in order, of which
//! every second value is taken. Determinants and eigenvectors cannot be derived from it (the real determinant is
//! `|det A|²`, and the vectors of a double eigenvalue are not unique): `linalg/complex.rs` has them, without gradients.

use super::Complex;
use crate::Tensor;

/// Needs the feature `linalg`.
impl Complex {
    /// The solution X of `A X = B`, as `numpy.linalg.solve` and `torch.linalg.solve`. B is a batch of matrices with as
    /// many rows, whose leading dimensions broadcast, or one vector. Solves a real system of twice the size, which is
    /// as accurate. A singular matrix is an error where a result is read.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(0.0, 2.0)], [1, 1]);
    /// let b = Complex::from_pairs(&[(4.0, 0.0)], [1]);
    /// assert_eq!(a.solve(&b).to_string(), "[0.-2.j]");
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square with parts of f32 or f64, or shapes do not match.
    #[track_caller]
    pub fn solve(&self, b: &Complex) -> Complex {
        let n = self.square_size("solve");
        let block = self.block();
        if b.rank() == 1 {
            let x = block.solve(&Tensor::cat(&[&b.re, &b.im], 0));
            return Complex { re: x.narrow(-1, 0, n), im: x.narrow(-1, n, n) };
        }
        if b.rank() < 2 || b.dims()[b.rank() - 2] != n {
            panic!("solve: a right side of shape {} for matrices of shape {}", b.shape(), self.shape());
        }
        let x = block.solve(&Tensor::cat(&[&b.re, &b.im], -2));
        Complex { re: x.narrow(-2, 0, n), im: x.narrow(-2, n, n) }
    }

    /// The inverses of square matrices, as `numpy.linalg.inv`. Inverts a real matrix of twice the size, which is as
    /// accurate. A singular matrix is an error where a result is read.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 2.0)], [1, 1]).inv().to_string(), "[[0.-0.5j]]");
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square with parts of f32 or f64.
    #[track_caller]
    pub fn inv(&self) -> Complex {
        let n = self.square_size("inv");
        let x = self.block().inv().narrow(-1, 0, n);
        Complex { re: x.narrow(-2, 0, n), im: x.narrow(-2, n, n) }
    }

    /// The eigenvalues of Hermitian matrices, which are real, in ascending order, as `numpy.linalg.eigvalsh`. Reads the
    /// lower triangle only. Decomposes a real symmetric matrix of twice the size, which has each eigenvalue twice.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let y = Complex::from_pairs(&[(0.0, 0.0), (0.0, -1.0), (0.0, 1.0), (0.0, 0.0)], [2, 2]);
    /// assert!((y.eigvalsh() - thalweg::Tensor::new([-1.0, 1.0])).abs().amax(..).item::<f64>()? < 1e-14);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square with parts of f32 or f64.
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        let n = self.square_size("eigvalsh");
        // Symmetrized from the lower triangle: the block matrix would read the imaginary part of the upper one.
        let lower = self.im.tril(-1);
        let whole = Complex { re: self.re.tril(0) + self.re.tril(-1).t(), im: &lower - lower.t() };
        every_second(&whole.block().eigvalsh(), n)
    }

    /// The singular values in descending order, as `numpy.linalg.svdvals`. Decomposes a real matrix of twice the size,
    /// which has each value twice.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(3.0, 4.0), (0.0, 0.0), (0.0, 0.0), (0.0, 1.0)], [2, 2]);
    /// assert!((a.svdvals() - thalweg::Tensor::new([5.0, 1.0])).abs().amax(..).item::<f64>()? < 1e-14);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When these are not matrices with parts of f32 or f64.
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        if self.rank() < 2 {
            panic!("svdvals: takes matrices, not shape {}", self.shape());
        }
        let n = self.dims()[self.rank() - 2..].iter().copied().min().unwrap_or(0);
        every_second(&self.block().svdvals(), n)
    }

    #[track_caller]
    fn square_size(&self, name: &str) -> usize {
        let rank = self.rank();
        if rank < 2 || self.dims()[rank - 1] != self.dims()[rank - 2] {
            panic!("{name}: takes square matrices, not shape {}", self.shape());
        }
        self.dims()[rank - 1]
    }

    /// The real matrix of twice the size that acts on (re, im) as this matrix acts on complex numbers.
    #[track_caller]
    fn block(&self) -> Tensor {
        let top = Tensor::cat(&[self.re.clone(), -&self.im], -1);
        let bottom = Tensor::cat(&[&self.im, &self.re], -1);
        Tensor::cat(&[top, bottom], -2)
    }
}

/// First value of each pair of `2·n` sorted values.
#[track_caller]
fn every_second(values: &Tensor, n: usize) -> Tensor {
    values.unflatten(-1, [n, 2]).index_axis(-1, 0)
}
