//! Functions of matrices.

use super::each::host_op;
use super::exponential::Exponential;
use super::squares;
use crate::{Backward, Tensor};

impl Tensor {
    /// The exponentials of square matrices, `Σ Aᵏ/k!`, as `scipy.linalg.expm` and `torch.linalg.matrix_exp`: by Padé
    /// approximants, scaled and squared (Higham 2005). Takes f32, computed in f64, and f64. NaN or infinity in a matrix
    /// make all of its result NaN. Needs the feature `linalg`.
    ///
    /// The gradient is part of the exponential of a matrix of twice the size (Mathias 1996).
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
    /// When these are not square matrices of f32 or f64.
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
