//! Systems of linear equations.

use super::each::{batch, host_op, sizes};
use super::factors::{Solve, Triangular};
use super::{matrices, squares};
use crate::record::check_alike;
use crate::{Backward, Shape, Tensor};

/// Broadcasts A and B to common leading dimensions; a vector B becomes a column.
#[track_caller]
pub(super) fn aligned(name: &str, a: &Tensor, b: &Tensor) -> (Tensor, Tensor) {
    check_alike(name, a, b);
    let column = if b.rank() == 1 { b.unsqueeze(-1) } else { b.clone() };
    matrices(name, &column);
    let ((rows, _), (own, columns)) = (sizes(a.shape()), sizes(column.shape()));
    let lead = Shape::new(batch(a)).broadcast(&Shape::new(batch(&column)));
    let (Some(lead), true) = (lead, rows == own) else {
        panic!("{name}: matrices of shape {} do not go with shape {}", a.shape(), b.shape());
    };
    let with = |m: usize, n: usize| lead.insert(lead.rank(), m).insert(lead.rank() + 1, n);
    (a.broadcast_to(with(rows, sizes(a.shape()).1)), column.broadcast_to(with(own, columns)))
}

/// Drops the added column dimension if B is a vector.
pub(super) fn of_rank(x: Tensor, b: &Tensor) -> Tensor {
    if b.rank() == 1 { x.squeeze(-1) } else { x }
}

/// # Linear algebra: systems of equations
///
/// With the feature `linalg`.
impl Tensor {
    /// The solution X of `A X = B` with this tensor as A, as `numpy.linalg.solve` and `torch.linalg.solve`, by LU with
    /// row pivoting. B is a batch of matrices, or one vector; leading dimensions broadcast. Takes f32 and f64. NaN
    /// propagates. Needs the feature `linalg`.
    ///
    /// A singular matrix is an error where the result is read. Gradients: `A⁻ᵀ G` for B, `-A⁻ᵀ G Xᵀ` for A.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let a = Tensor::new([[2.0f32, 1.0], [1.0, 3.0]]);
    /// let x = a.solve(&Tensor::new([3.0f32, 5.0]));
    /// assert!((a.matmul(&x) - Tensor::new([3.0f32, 5.0])).abs().amax(..).item::<f32>()? < 1e-6);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or the shape or dtype of B does not match.
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        squares("solve", self);
        let (a, column) = aligned("solve", self, b);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let gb = b.inputs[0].t().solve(&b.gradients[0]);
            [-gb.matmul(&b.outputs[0].t()), gb]
        };
        of_rank(host_op(Solve).backward(back).on(&[a, column]), b)
    }

    /// The solution X of `A X = B` with this tensor as a triangular A, as `torch.linalg.solve_triangular` and
    /// `scipy.linalg.solve_triangular`. Reads only the upper or the lower triangle. B is a batch of matrices, or one
    /// vector; leading dimensions broadcast. Takes f32 and f64. Needs the feature `linalg`.
    ///
    /// A zero on the diagonal is an error where the result is read.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, or the shape or dtype of B does not match.
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool) -> Tensor {
        self.triangular(b, upper, false)
    }

    /// [`solve_triangular`](Tensor::solve_triangular) for a unit diagonal, which is not read.
    ///
    /// # Panics
    /// As [`solve_triangular`](Tensor::solve_triangular).
    #[track_caller]
    pub fn solve_unit_triangular(&self, b: &Tensor, upper: bool) -> Tensor {
        self.triangular(b, upper, true)
    }

    #[track_caller]
    fn triangular(&self, b: &Tensor, upper: bool, unit: bool) -> Tensor {
        squares("solve_triangular", self);
        let (a, column) = aligned("solve_triangular", self, b);
        let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let gb = b.inputs[0].t().triangular(&b.gradients[0], !upper, unit);
            let whole = -gb.matmul(&b.outputs[0].t());
            let off = unit as i64;
            [if upper { whole.triu(off) } else { whole.tril(-off) }, gb]
        };
        of_rank(host_op(Triangular { upper, unit }).backward(back).on(&[a, column]), b)
    }
}
