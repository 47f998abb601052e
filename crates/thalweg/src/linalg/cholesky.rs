//! Cholesky decompositions.

use super::each::host_op;
use super::factors::Cholesky;
use super::{lower_half, matrices, squares};
use crate::{Backward, Tensor};

/// # Linear algebra: Cholesky
///
/// With the feature `linalg`.
impl Tensor {
    /// The lower triangular L of `A = L Lᵀ`, for symmetric positive definite matrices in the last two dimensions, as
    /// `numpy.linalg.cholesky` and `torch.linalg.cholesky`. Reads only the lower triangle of A. Takes f32 and f64.
    /// Needs the feature `linalg`.
    ///
    /// A matrix that is not positive definite, or has NaN, is an error where the result is read. The gradient is
    /// symmetric (Murray, "Differentiation of the Cholesky decomposition", 2016).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let a = Tensor::new([[4.0f32, 2.0], [2.0, 5.0]]);
    /// assert_eq!(a.cholesky().to_vec::<f32>()?, [2.0, 0.0, 1.0, 2.0]);
    /// let error = (-a).cholesky().to_vec::<f32>().unwrap_err().to_string();
    /// assert!(error.starts_with("cholesky: not positive definite"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        squares("cholesky", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let (l, g) = (&b.outputs[0], &b.gradients[0]);
            // L⁻ᵀ Φ(Lᵀ G) L⁻¹, symmetric
            let n = l.dims()[l.rank() - 1];
            let half = lower_half(&l.t().matmul(g), n);
            let phi = (&half + half.t()) * 0.5;
            let left = l.t().solve_triangular(&phi, true);
            [l.t().solve_triangular(&left.t(), true).t()]
        };
        host_op(Cholesky).backward(back).on(self)
    }

    /// The solution X of `A X = B`, where this tensor is the lower triangular L of `A = L Lᵀ`, as
    /// `torch.cholesky_solve` and `scipy.linalg.cho_solve`. B is a batch of matrices. Needs the feature `linalg`.
    ///
    /// # Panics
    /// As [`solve_triangular`](Tensor::solve_triangular).
    #[track_caller]
    pub fn cholesky_solve(&self, b: &Tensor) -> Tensor {
        squares("cholesky_solve", self);
        matrices("cholesky_solve", b);
        self.t().solve_triangular(&self.solve_triangular(b, false), true)
    }
}
