//! QR decompositions.

use super::each::host_op;
use super::factors::Qr;
use super::{lower_half, matrices};
use crate::{Backward, Tensor};

/// # Linear algebra: QR
///
/// With the feature `linalg`.
impl Tensor {
    /// `Q` and `R` of `A = Q R`, orthonormal columns and an upper triangular matrix, as `numpy.linalg.qr` and
    /// `torch.linalg.qr`, in reduced form: for `[m, n]` matrices they are `[m, k]` and `[k, n]` with k the smaller
    /// size. By Householder reflections; the signs of R's diagonal are arbitrary. Takes f32 and f64. NaN propagates.
    /// Needs the feature `linalg`.
    ///
    /// The gradient requires matrices whose first k columns are independent (Walter and Lehmann, 2010), as PyTorch's.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64.
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        matrices("qr", self);
        self.qr_of(false)
    }

    /// [`qr`](Tensor::qr) with all columns of Q: for `[m, n]` matrices they are `[m, m]` and `[m, n]`, as
    /// `numpy.linalg.qr` with `mode="complete"`. There is a gradient only if `m <= n`.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64, or is tracked and has more rows than columns: the
    /// columns that A does not determine have no derivative.
    #[track_caller]
    pub fn qr_complete(&self) -> (Tensor, Tensor) {
        let (m, n) = matrices("qr_complete", self);
        if self.is_tracked() && m > n {
            panic!("qr_complete: there is no gradient for shape {}, only of .qr(); .detach() it", self.shape());
        }
        self.qr_of(true)
    }

    #[track_caller]
    fn qr_of(&self, complete: bool) -> (Tensor, Tensor) {
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let (q, r, gq, gr) = (&b.outputs[0], &b.outputs[1], &b.gradients[0], &b.gradients[1]);
            let (k, n) = super::each::sizes(r.shape());
            if n <= k {
                return [qr_gradient(q, r, gq, gr)];
            }
            // A is [X Y], R is [U V] with U square: X = Q U, Y = Q V.
            let y = b.inputs[0].narrow(-1, k, n - k);
            let gv = gr.narrow(-1, k, n - k);
            let gq = gq + y.matmul(&gv.t());
            let gx = qr_gradient(q, &r.narrow(-1, 0, k), &gq, &gr.narrow(-1, 0, k));
            [Tensor::cat(&[gx, q.matmul(&gv)], -1)]
        };
        let mut both = host_op(Qr { complete }).backward(back).on_all(self).into_iter();
        both.next().zip(both.next()).expect("it has two results")
    }
}

/// Gradient of A from those of Q and R: `[gQ + Q copyltu(M)] R⁻ᵀ` with `M = R gRᵀ - gQᵀ Q`.
fn qr_gradient(q: &Tensor, r: &Tensor, gq: &Tensor, gr: &Tensor) -> Tensor {
    let k = r.dims()[r.rank() - 1];
    let half = lower_half(&(r.matmul(&gr.triu(0).t()) - gq.t().matmul(q)), k);
    let both = gq + q.matmul(&(&half + half.t()));
    r.solve_triangular(&both.t(), true).t()
}
