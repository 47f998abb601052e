//! LU decompositions.

use super::each::{host_op, sizes};
use super::factors::{Lu, LuSolve};
use super::solve::{aligned, of_rank};
use super::{identity, matrices, squares};
use crate::{Backward, DType, Tensor};

/// # Linear algebra: LU
///
/// With the feature `linalg`.
impl Tensor {
    /// `P`, `L` and `U` of `A = P L U`, as `torch.linalg.lu` and `scipy.linalg.lu`: a permutation of rows, a lower
    /// triangular matrix with unit diagonal, an upper triangular one. For `[m, n]` matrices they are `[m, m]`, `[m, k]`
    /// and `[k, n]` with k the smaller size. Takes f32 and f64. Needs the feature `linalg`.
    ///
    /// The decomposition of a singular matrix has a zero on the diagonal of U; its gradient is an error.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64.
    #[track_caller]
    pub fn lu(&self) -> (Tensor, Tensor, Tensor) {
        let (m, n) = matrices("lu", self);
        let (packed, order) = self.lu_factor();
        let k = m.min(n);
        let l = packed.narrow(-1, 0, k).tril(-1) + Tensor::eye_with(m, k, crate::Options::of(self));
        let u = packed.narrow(-2, 0, k).triu(0);
        // Row i of L U is row order[i] of A.
        let rows = Tensor::arange_with(m, (DType::I64, self.device()));
        let p = rows.unsqueeze(-1).eq(order.unsqueeze(-2)).cast(self.dtype());
        (p, l, u)
    }

    /// LU decompositions in packed form, L below the diagonal and U from it on, and the order of rows: row `i` of `L U`
    /// is row `order[i]` of A (i64). For [`lu_solve`](Tensor::lu_solve). As `torch.linalg.lu_factor`, whose pivots are
    /// row exchanges instead. Takes f32 and f64. Needs the feature `linalg`.
    ///
    /// # Panics
    /// When the tensor is not a batch of matrices of f32 or f64, or f32 matrices have more than 2²⁴ rows.
    #[track_caller]
    pub fn lu_factor(&self) -> (Tensor, Tensor) {
        let (rows, _) = matrices("lu_factor", self);
        if self.dtype() == DType::F32 && rows > 1 << 24 {
            panic!("lu_factor: f32 has no numbers for {rows} rows; .cast(DType::F64) first");
        }
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| [lu_gradient(&b.outputs[0], &b.outputs[1], &b.gradients[0])];
        let all = host_op(Lu).backward(back).on_all(self);
        // Indices are exact in the dtype.
        (all[0].clone(), all[1].detach().cast(DType::I64))
    }

    /// The solution X of `A X = B` from the [`lu_factor`](Tensor::lu_factor) of A, to reuse it for many B, as
    /// `torch.linalg.lu_solve`. B is a batch of matrices, or one vector. Needs the feature `linalg`.
    ///
    /// A singular A is an error where the result is read.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64, the shape of B does not match, or `order` is not i64 of
    /// a matching shape.
    #[track_caller]
    pub fn lu_solve(&self, order: &Tensor, b: &Tensor) -> Tensor {
        squares("lu_solve", self);
        let expected = self.shape().remove(self.rank() - 1);
        if order.dtype() != DType::I64 || *order.shape() != expected {
            panic!("lu_solve: an order of rows is i64{expected}, not {}{}", order.dtype(), order.shape());
        }
        let (lu, column) = aligned("lu_solve", self, b);
        let order = order.cast(self.dtype()).unsqueeze(-1);
        let order = order.broadcast_to(lu.shape().remove(lu.rank() - 1).insert(lu.rank() - 1, 1));
        of_rank(lu_solve(&lu, &order, &column, false), b)
    }
}

#[track_caller]
fn lu_solve(lu: &Tensor, order: &Tensor, b: &Tensor, transposed: bool) -> Tensor {
    let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
        let (lu, order, x) = (&b.inputs[0], &b.inputs[1], &b.outputs[0]);
        let gb = lu_solve(lu, order, &b.gradients[0], !transposed);
        let ga = if transposed { x.matmul(&gb.t()) } else { gb.matmul(&x.t()) };
        // Row i of `L U` is row `order[i]` of A; each factor gets its triangle of the gradient.
        let gm = -rows(&ga, order);
        let (l, u) = (lu.tril(-1) + identity(sizes(lu.shape()).0, lu), lu.triu(0));
        let packed = gm.matmul(&u.t()).tril(-1) + l.t().matmul(&gm).triu(0);
        [Some(packed), None, Some(gb)]
    };
    host_op(LuSolve { transposed }).backward(back).on(&[lu.clone(), order.clone(), b.clone()])
}

/// The rows of `x` at these indices, `[.., rows, 1]`.
fn rows(x: &Tensor, order: &Tensor) -> Tensor {
    x.gather(-2, &order.cast(DType::I64))
}

/// The gradient of A from that of its packed factors.
fn lu_gradient(packed: &Tensor, order: &Tensor, g: &Tensor) -> Tensor {
    let (m, n) = sizes(packed.shape());
    let k = m.min(n);
    let (square, unit) = (packed.narrow(-2, 0, k).narrow(-1, 0, k), identity(k, packed));
    let (l, u) = (square.tril(-1) + unit, square.triu(0));
    let own = g.narrow(-2, 0, k).narrow(-1, 0, k);
    let (mut gl, mut gu) = (l.t().matmul(&own.tril(-1)), own.triu(0).matmul(&u.t()));
    // The part outside the square block: rows of L below it, or columns of U to its right.
    if m > k {
        let (below, g) = (packed.narrow(-2, k, m - k), g.narrow(-2, k, m - k));
        gu -= below.t().matmul(&g);
        let rest = u.solve_triangular_right(&g);
        let square = middle(&l, &u, &gl, &gu);
        return back_in_order(&Tensor::cat(&[square, rest], -2), order);
    }
    if n > k {
        let (behind, g) = (packed.narrow(-1, k, n - k), g.narrow(-1, k, n - k));
        gl -= g.matmul(&behind.t());
        let rest = l.t().solve_unit_triangular(&g, true);
        let square = middle(&l, &u, &gl, &gu);
        return back_in_order(&Tensor::cat(&[square, rest], -1), order);
    }
    back_in_order(&middle(&l, &u, &gl, &gu), order)
}

/// `L⁻ᵀ (lower triangle of gl + upper triangle of gu) U⁻ᵀ`.
fn middle(l: &Tensor, u: &Tensor, gl: &Tensor, gu: &Tensor) -> Tensor {
    let both = gl.tril(-1) + gu.triu(0);
    u.solve_triangular_right(&l.t().solve_unit_triangular(&both, true))
}

/// Permutes the rows of `L U` to the order of the rows of A.
fn back_in_order(x: &Tensor, order: &Tensor) -> Tensor {
    x.gather(-2, &order.cast(DType::I64).argsort(-1, false).unsqueeze(-1))
}

impl Tensor {
    /// `G U⁻ᵀ` for an upper triangular U.
    fn solve_triangular_right(&self, g: &Tensor) -> Tensor {
        self.solve_triangular(&g.t(), true).t()
    }
}
