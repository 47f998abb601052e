//! Singular value decompositions, and what they solve.

use super::each::host_op;
use super::inverse::{inverse_values, pinv_gradient, rank_bound};
use super::solve::{aligned, of_rank};
use super::spectra::{SingularValues, Svd, Vectors};
use super::{gaps, identity, matrices, skew};
use crate::{Backward, DType, Tensor, custom_grad};

/// # Linear algebra: singular values
///
/// With the feature `linalg`.
impl Tensor {
    /// `U`, `S` and `Vᵀ` of `A = U diag(S) Vᵀ`, as `numpy.linalg.svd` and `torch.linalg.svd` with
    /// `full_matrices=False`. For `[m, n]` matrices they are `[m, k]`, `[k]` and `[k, n]` with k the smaller size;
    /// singular values are in descending order. The signs of the vectors are arbitrary. Takes f32 and f64. NaN and
    /// infinity are an error where a result is read. Needs the feature `linalg`.
    ///
    /// The gradient requires distinct singular values and, for U and V, a function that does not depend on their signs,
    /// as PyTorch's.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let a = Tensor::new([[3.0f64, 0.0], [0.0, -2.0], [0.0, 0.0]]);
    /// let (u, s, vt) = a.svd();
    /// assert_eq!(s.to_vec::<f64>()?, [3.0, 2.0]);
    /// assert!(((u * s).matmul(&vt) - a).abs().amax(..).item::<f64>()? < 1e-12);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64.
    #[track_caller]
    pub fn svd(&self) -> (Tensor, Tensor, Tensor) {
        matrices("svd", self);
        let all = host_op(Svd(Vectors::Thin)).backward(|b| [svd_gradient(&b)]).on_all(self);
        (all[0].clone(), all[1].clone(), all[2].clone())
    }

    /// [`svd`](Tensor::svd) with all singular vectors: U is `[m, m]`, `Vᵀ` is `[n, n]`, as `numpy.linalg.svd`. It has
    /// no gradient, since the additional vectors are arbitrary.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64, or is tracked.
    #[track_caller]
    pub fn svd_full(&self) -> (Tensor, Tensor, Tensor) {
        matrices("svd_full", self);
        let all = host_op(Svd(Vectors::Full)).on_all(self);
        (all[0].clone(), all[1].clone(), all[2].clone())
    }

    /// The singular values in descending order, as `numpy.linalg.svdvals` and `torch.linalg.svdvals`: faster than
    /// [`svd`](Tensor::svd), and with a gradient also for equal values. Needs the feature `linalg`.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64.
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        matrices("svdvals", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let (u, _, vt) = b.inputs[0].svd();
            [(u * b.gradients[0].unsqueeze(-2)).matmul(&vt)]
        };
        host_op(SingularValues).backward(back).on(self)
    }

    /// The number of singular values above `relative` times the largest, as i64, as `numpy.linalg.matrix_rank`; the
    /// default (`None`) is the dtype's precision times the larger size. Needs the feature `linalg`.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64.
    #[track_caller]
    pub fn matrix_rank(&self, relative: Option<f64>) -> Tensor {
        matrices("matrix_rank", self);
        let s = self.detach().svdvals();
        s.gt(rank_bound(self, &s, relative)).cast(DType::I64).sum(-1)
    }

    /// The least-squares solution X of `A X = B` with the smallest norm, where this tensor is A; by singular values, as
    /// `numpy.linalg.lstsq` and `torch.linalg.lstsq` with `driver="gelsd"`. Singular values up to `relative` times the
    /// largest count as 0; the default (`None`) is the dtype's precision times the larger size. B is a batch of
    /// matrices, or one vector; leading dimensions broadcast. Takes f32 and f64. NaN in A is an error where the result
    /// is read. Needs the feature `linalg`.
    ///
    /// The other results of `numpy.linalg.lstsq` are `(a.matmul(&x) - b).square().sum(-2)`,
    /// [`matrix_rank`](Tensor::matrix_rank) and [`svdvals`](Tensor::svdvals). Gradients are those of
    /// [`pinv`](Tensor::pinv) times B.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64, or the shape or dtype of B does not match.
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor, relative: Option<f64>) -> Tensor {
        matrices("lstsq", self);
        let (a, column) = aligned("lstsq", self, b);
        let x = custom_grad(
            (&a, &column),
            |(a, b)| {
                let (u, s, vt) = a.svd();
                vt.t().matmul(&(u.t().matmul(&b) * inverse_values(&a, &s, relative).unsqueeze(-1)))
            },
            move |Backward { inputs: (a, b), gradients: g, .. }| {
                let p = a.pinv(relative);
                (pinv_gradient(&a, &p, &g.matmul(&b.t())), p.t().matmul(&g))
            },
        );
        of_rank(x, b)
    }
}

/// The gradient of `svd`, as in PyTorch: with `E[i, j] = s[j]² - s[i]²`, 1 on the diagonal, `U [(skew(Uᵀ gU) / E) S + S
/// (skew(Vᵀ gV) / E) + diag(gS)] Vᵀ`, plus, for the part outside the spans of U and V,
/// `(1 - U Uᵀ) gU S⁻¹ Vᵀ + U S⁻¹ gVᵀ (1 - V Vᵀ)`.
fn svd_gradient(b: &Backward<Vec<Tensor>, Vec<Tensor>>) -> Tensor {
    let (u, s, vt) = (&b.outputs[0], &b.outputs[1], &b.outputs[2]);
    let (gu, gs, gvt) = (&b.gradients[0], &b.gradients[1], &b.gradients[2]);
    let ((m, n), k) = (super::each::sizes(b.inputs[0].shape()), s.dims()[s.rank() - 1]);
    let (row, column) = (s.unsqueeze(-2), s.unsqueeze(-1));
    let e = gaps(&s.square(), k);
    let (ugu, vgv) = (u.t().matmul(gu), vt.matmul(&gvt.t()));
    let middle = skew(&ugu) / &e * &row + skew(&vgv) / &e * &column + identity(k, s) * gs.unsqueeze(-2);
    let mut left = u.matmul(&middle);
    if m > k {
        left += (gu - u.matmul(&ugu)) / &row;
    }
    let mut g = left.matmul(vt);
    if n > k {
        g += u.matmul(&((gvt - vgv.t().matmul(vt)) / column));
    }
    g
}
