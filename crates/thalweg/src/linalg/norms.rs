//! Norms and condition numbers of matrices.

use super::{matrices, squares};
use crate::Tensor;

/// Norm of matrices, as the `ord` of `numpy.linalg.norm` and `torch.linalg.matrix_norm`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixNorm {
    /// `"fro"`: the root of the sum of squares.
    Frobenius,
    /// `"nuc"`: the sum of singular values.
    Nuclear,
    /// `2`: the largest singular value.
    Two,
    /// `-2`: the smallest singular value.
    MinusTwo,
    /// `1`: the largest column sum of magnitudes.
    One,
    /// `-1`: the smallest column sum of magnitudes.
    MinusOne,
    /// `inf`: the largest row sum of magnitudes.
    Infinity,
    /// `-inf`: the smallest row sum of magnitudes.
    MinusInfinity,
}

/// # Linear algebra: norms
///
/// With the feature `linalg`.
impl Tensor {
    /// A norm of the matrices in the last two dimensions, as `numpy.linalg.matrix_norm` and `torch.linalg.matrix_norm`.
    /// For norms by singular values, NaN is an error where the result is read; the other norms are NaN then. Needs the
    /// feature `linalg`; without it there are [`norm`](Tensor::norm) over two axes, and [`norm_p`](Tensor::norm_p) of
    /// vectors.
    ///
    /// ```
    /// # use thalweg::{MatrixNorm, Tensor};
    /// let a = Tensor::new([[3.0f64, 0.0], [0.0, -4.0]]);
    /// assert_eq!(a.matrix_norm(MatrixNorm::Frobenius).item::<f64>()?, 5.0);
    /// assert_eq!(a.matrix_norm(MatrixNorm::One).item::<f64>()?, 4.0);
    /// assert!((a.matrix_norm(MatrixNorm::Nuclear).item::<f64>()? - 7.0).abs() < 1e-12);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64, or is empty and the norm of an empty matrix is
    /// undefined.
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Tensor {
        matrices("matrix_norm", self);
        match norm {
            MatrixNorm::Frobenius => self.norm([-2, -1]),
            MatrixNorm::Nuclear => self.svdvals().sum(-1),
            MatrixNorm::Two => self.svdvals().amax(-1),
            MatrixNorm::MinusTwo => self.svdvals().amin(-1),
            MatrixNorm::One => self.abs().sum(-2).amax(-1),
            MatrixNorm::MinusOne => self.abs().sum(-2).amin(-1),
            MatrixNorm::Infinity => self.abs().sum(-1).amax(-1),
            MatrixNorm::MinusInfinity => self.abs().sum(-1).amin(-1),
        }
    }

    /// Condition numbers: `|A| |A⁻¹|` in that norm, as `numpy.linalg.cond`. For [`MatrixNorm::Two`] and
    /// [`MatrixNorm::MinusTwo`] they are ratios of singular values, for matrices of any sizes. ∞ for a singular matrix;
    /// for [`MatrixNorm::MinusTwo`] 0, unless all its elements are 0. Takes f32 and f64. For norms by singular values,
    /// NaN is an error. Needs the feature `linalg`.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64, the matrices are not square (for other norms than
    /// those two), or they are empty and the norm of an empty matrix is undefined.
    #[track_caller]
    pub fn cond(&self, norm: MatrixNorm) -> Tensor {
        matrices("cond", self);
        // ∞ for a singular matrix whose norm is 0, too, instead of 0 · ∞.
        let product = |own: Tensor, inverse: Tensor| {
            let singular = own.eq(0) & inverse.eq(f64::INFINITY);
            singular.where_(f64::INFINITY, own * inverse)
        };
        match norm {
            MatrixNorm::Two | MatrixNorm::MinusTwo => {
                let s = self.svdvals();
                let (large, small) = (s.amax(-1), s.amin(-1));
                let number = if norm == MatrixNorm::Two { &large / small } else { small / &large };
                large.eq(0).where_(f64::INFINITY, number)
            }
            MatrixNorm::Nuclear => {
                squares("cond", self);
                let s = self.svdvals();
                product(s.sum(-1), s.recip().sum(-1))
            }
            _ => {
                squares("cond", self);
                product(self.matrix_norm(norm), self.inverse_or_infinity().matrix_norm(norm))
            }
        }
    }
}
