//! Systems of linear equations.

use super::each::{batch, host_op, sizes};
use super::factors::{Solve, Triangular};
use super::{matrices, squares};
use crate::record::check_alike;
use crate::{Backward, Shape, Tensor};

/// Both with the leading dimensions that they broadcast to; B of rank 1 as a column.
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

/// The result for a B of that rank.
pub(super) fn of_rank(x: Tensor, b: &Tensor) -> Tensor {
    if b.rank() == 1 { x.squeeze(-1) } else { x }
}

impl Tensor {
    /// X of `A X = B` with this tensor as A, as `numpy.linalg.solve` and `torch.linalg.solve`: by LU with row pivoting.
    /// B is matrices, or one vector; leading dimensions broadcast. Takes f32 and f64. NaN goes on into the result. Needs
    /// the feature `linalg`.
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
    /// When these are not square matrices of f32 or f64, or B does not go with them.
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

    /// X of `A X = B` with this tensor as A, of which only the upper or the lower half is read, as
    /// `torch.linalg.solve_triangular` and `scipy.linalg.solve_triangular`. B is matrices, or one vector; leading
    /// dimensions broadcast. Takes f32 and f64. Needs the feature `linalg`.
    ///
    /// A zero on the diagonal is an error where the result is read.
    ///
    /// # Panics
    /// When these are not square matrices of f32 or f64, or B does not go with them.
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool) -> Tensor {
        self.triangular(b, upper, false)
    }

    /// [`solve_triangular`](Tensor::solve_triangular) with ones on the diagonal, whatever is there.
    ///
    /// # Panics
    /// As there.
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
