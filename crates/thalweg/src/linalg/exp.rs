//! Matrix exponentials.

use super::each::host_op;
use super::exponential::Exponential;
use super::squares;
use crate::{Backward, Tensor};

/// # Linear algebra: matrix exponential
///
/// With the feature `linalg`.
impl Tensor {
    /// The exponentials of square matrices, `Σ Aᵏ/k!`, as `scipy.linalg.expm` and `torch.linalg.matrix_exp`: by Padé
    /// approximants with scaling and squaring (Higham 2005). Takes f64, and f32, which is computed in f64. A matrix
    /// with NaN or infinity has a result of NaN only. Needs the feature `linalg`.
    ///
    /// The gradient is a block of the exponential of a matrix of twice the size (Mathias 1996).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let turn = Tensor::new([[0.0f64, -1.0], [1.0, 0.0]]) * (std::f64::consts::PI / 2.0);
    /// let want = Tensor::new([[0.0, -1.0], [1.0, 0.0]]);
    /// assert!((turn.matrix_exp() - want).abs().amax(..).item::<f64>()? < 1e-12);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn matrix_exp(&self) -> Tensor {
        let n = squares("matrix_exp", self);
        let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let a = b.inputs[0].t();
            let top = Tensor::cat(&[&a, &b.gradients[0]], -1);
            let bottom = Tensor::cat(&[&a.zeros_like(), &a], -1);
            [Tensor::cat(&[top, bottom], -2).matrix_exp().narrow(-2, 0, n).narrow(-1, n, n)]
        };
        host_op(Exponential).backward(back).on(self)
    }
}
