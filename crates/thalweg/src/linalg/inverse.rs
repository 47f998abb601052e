//! Inverses and determinants.

use super::each::host_op;
use super::factors::{Determinant, Inverse, LogDeterminant};
use super::{matrices, squares};
use crate::{Backward, Tensor, custom_grad};

/// # Linear algebra: inverse and determinant
///
/// With the feature `linalg`.
impl Tensor {
    /// The inverses of square matrices, as `numpy.linalg.inv` and `torch.linalg.inv`. For linear systems
    /// [`solve`](Tensor::solve) is faster and more accurate. Takes f32 and f64. NaN propagates. Needs the feature
    /// `linalg`.
    ///
    /// A singular matrix is an error where the result is read. The gradient is `-A⁻ᵀ G A⁻ᵀ`.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        squares("inv", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let turned = b.outputs[0].t();
            [-turned.matmul(&b.gradients[0]).matmul(&turned)]
        };
        host_op(Inverse { singular: false }).backward(back).on(self)
    }

    /// The determinants of square matrices, as `numpy.linalg.det` and `torch.linalg.det`; 0 for a singular one, 1 for
    /// an empty one. Takes f32 and f64. Needs the feature `linalg`.
    ///
    /// The gradient is the matrix of cofactors, also for singular matrices; the second derivative requires non-singular
    /// ones.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let a = Tensor::new([[1.0f64, 2.0], [3.0, 4.0]]);
    /// assert!((a.det().item::<f64>()? + 2.0).abs() < 1e-12);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn det(&self) -> Tensor {
        squares("det", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            [cofactors(&b.inputs[0]) * b.gradients[0].unsqueeze(-1).unsqueeze(-1)]
        };
        host_op(Determinant).backward(back).on(self)
    }

    /// The signs of the determinants, -1, 0 or 1, and the logarithms of their magnitudes, as `numpy.linalg.slogdet` and
    /// `torch.linalg.slogdet`, for determinants that would overflow in [`det`](Tensor::det). 0 and -∞ for a singular
    /// matrix; NaN for one with NaN. Takes f32 and f64. Needs the feature `linalg`.
    ///
    /// The gradient of the logarithm is `A⁻ᵀ`, which does not exist for a singular matrix.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        squares("slogdet", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            [b.inputs[0].inv().t() * b.gradients[1].unsqueeze(-1).unsqueeze(-1)]
        };
        let mut both = host_op(LogDeterminant).backward(back).on_all(self).into_iter();
        both.next().zip(both.next()).expect("it has two results")
    }

    /// The inverses, with infinities for singular matrices; for condition numbers.
    #[track_caller]
    pub(super) fn inverse_or_infinity(&self) -> Tensor {
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let turned = b.outputs[0].t();
            [-turned.matmul(&b.gradients[0]).matmul(&turned)]
        };
        host_op(Inverse { singular: true }).backward(back).on(self)
    }

    /// The Moore-Penrose pseudoinverses, by singular values, as `numpy.linalg.pinv` and `torch.linalg.pinv`. Singular
    /// values up to `relative` times the largest count as 0; the default (`None`) is the dtype's precision times the
    /// larger size. Takes f32 and f64. NaN is an error where the result is read. Needs the feature `linalg`.
    ///
    /// The gradient is that of Golub and Pereyra (1973), which assumes a constant rank.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64.
    #[track_caller]
    pub fn pinv(&self, relative: Option<f64>) -> Tensor {
        matrices("pinv", self);
        custom_grad(
            self,
            |a| {
                let (u, s, vt) = a.svd();
                (vt.t() * inverse_values(&a, &s, relative).unsqueeze(-2)).matmul(&u.t())
            },
            |Backward { inputs: a, outputs: p, gradients: g }| pinv_gradient(&a, &p, &g),
        )
    }
}

/// Inverses `1/s` of singular values; 0 for values that count as 0.
pub(super) fn inverse_values(a: &Tensor, s: &Tensor, relative: Option<f64>) -> Tensor {
    let bound = rank_bound(a, s, relative);
    let counts = s.gt(bound);
    counts.where_(counts.where_(s, 1).recip(), 0)
}

/// Maximum singular value that counts as 0, with the axis kept.
pub(super) fn rank_bound(a: &Tensor, s: &Tensor, relative: Option<f64>) -> Tensor {
    let (rows, columns) = super::each::sizes(a.shape());
    let precision = a.dtype().float_info().epsilon;
    let relative = relative.unwrap_or(precision * rows.max(columns) as f64);
    if rows.min(columns) == 0 {
        return s.zeros_like();
    }
    // Values are in descending order.
    s.narrow(-1, 0, 1) * relative
}

/// The gradient of A from that of its pseudoinverse P.
pub(super) fn pinv_gradient(a: &Tensor, p: &Tensor, g: &Tensor) -> Tensor {
    let (rows, columns) = super::each::sizes(a.shape());
    let (pt, gt) = (p.t(), g.t());
    if rows <= columns {
        let k = gt.matmul(p);
        let kp = k.matmul(&pt);
        return kp.clone() - p.matmul(&k).t() - a.matmul(p).matmul(&kp) + pt.matmul(p).matmul(&(gt - k.matmul(a)));
    }
    let k = p.matmul(&gt);
    let pk = pt.matmul(&k);
    (gt - a.matmul(&k)).matmul(p).matmul(&pt) - k.matmul(p).t() + &pk - pk.matmul(p).matmul(a)
}

/// The matrices of cofactors, which are the derivative of the determinant; by singular values, so that singular
/// matrices have them, too.
#[track_caller]
fn cofactors(a: &Tensor) -> Tensor {
    custom_grad(
        a,
        |a| {
            let (u, s, vt) = a.svd();
            // The product of all other singular values: those before times those after.
            let n = s.dims()[s.rank() - 1];
            let ones = |t: &Tensor, widths: (usize, usize)| {
                let mut all = vec![(0, 0); t.rank()];
                all[t.rank() - 1] = widths;
                t.pad(all, 1)
            };
            let before = ones(&s, (1, 0)).narrow(-1, 0, n).cumprod(-1);
            let behind = ones(&s.flip(-1), (1, 0)).narrow(-1, 0, n).cumprod(-1).flip(-1);
            let sign = u.det() * vt.det();
            (u * (before * behind).unsqueeze(-2)).matmul(&vt) * sign.unsqueeze(-1).unsqueeze(-1)
        },
        |Backward { inputs: a, outputs: c, gradients: g }| {
            let inverse = a.inv().t();
            let along = (&g * &c).sum_keepdim([-2, -1]);
            along * &inverse - inverse.matmul(&g.t()).matmul(&c)
        },
    )
}
