//! Systems of complex equations, as real ones of twice the size.
//!
//! `A x = b` is `[[Re A, -Im A], [Im A, Re A]] [Re x; Im x] = [Re b; Im b]`. The real matrix has each singular value of `A`
//! twice, and so its condition: what the real decomposition loses is what a complex one would. Its time and memory are
//! about twice those of a complex one. Eigenvalues of Hermitian matrices and singular values come twice, in order, and
//! every second one is taken. Determinants and eigenvectors do not follow from it (the real determinant is `|det A|²`, and of
//! a twofold eigenvalue the vectors are not fixed), and are not here.

use super::Complex;
use crate::Tensor;

/// Needs the feature `linalg`.
impl Complex {
    /// X of `A X = B`, as `numpy.linalg.solve` and `torch.linalg.solve`: B is matrices of as many rows, leading dimensions
    /// broadcast, or one vector. By a real system of twice the size, which is as accurate. A singular matrix is an error
    /// where a result is read.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let a = Complex::from_pairs(&[(0.0, 2.0)], [1, 1]);
    /// let b = Complex::from_pairs(&[(4.0, 0.0)], [1]);
    /// assert_eq!(a.solve(&b).to_string(), "[0.-2.j]");
    /// ```
    ///
    /// # Panics
    /// When these are not square matrices with parts of f32 or f64, or shapes do not fit.
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

    /// The inverses of square matrices, as `numpy.linalg.inv`. By a real matrix of twice the size, which is as accurate. A
    /// singular matrix is an error where a result is read.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 2.0)], [1, 1]).inv().to_string(), "[[0.-0.5j]]");
    /// ```
    ///
    /// # Panics
    /// When these are not square matrices with parts of f32 or f64.
    #[track_caller]
    pub fn inv(&self) -> Complex {
        let n = self.square_size("inv");
        let x = self.block().inv().narrow(-1, 0, n);
        Complex { re: x.narrow(-2, 0, n), im: x.narrow(-2, n, n) }
    }

    /// The eigenvalues of Hermitian matrices from the smallest on, which are real, as `numpy.linalg.eigvalsh`. The lower half
    /// is read. By a real symmetric matrix of twice the size, which has each twice.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let y = Complex::from_pairs(&[(0.0, 0.0), (0.0, -1.0), (0.0, 1.0), (0.0, 0.0)], [2, 2]);
    /// assert!((y.eigvalsh() - thalweg::Tensor::new([-1.0, 1.0])).abs().amax(..).item::<f64>()? < 1e-14);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When these are not square matrices with parts of f32 or f64.
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        let n = self.square_size("eigvalsh");
        // Symmetric below its diagonal too, where the imaginary part of the upper half would be read.
        let lower = self.im.tril(-1);
        let whole = Complex { re: self.re.tril(0) + self.re.tril(-1).t(), im: &lower - lower.t() };
        every_second(&whole.block().eigvalsh(), n)
    }

    /// The singular values from the largest on, as `numpy.linalg.svdvals`. By a real matrix of twice the size, which has each
    /// twice.
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

    /// The real matrix of twice the size that does with the parts what this one does with complex numbers.
    #[track_caller]
    fn block(&self) -> Tensor {
        let top = Tensor::cat(&[self.re.clone(), -&self.im], -1);
        let bottom = Tensor::cat(&[&self.im, &self.re], -1);
        Tensor::cat(&[top, bottom], -2)
    }
}

/// The first of each pair of `2·n` values in order.
#[track_caller]
fn every_second(values: &Tensor, n: usize) -> Tensor {
    values.unflatten(-1, [n, 2]).index_axis(-1, 0)
}
