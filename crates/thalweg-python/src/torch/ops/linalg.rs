//! Decompositions and solvers whose results are unique. Those with free signs or orders run by PyTorch's kernels.

use super::super::call::{Call, Reject, Row};

use thalweg::{DType, Tensor};

fn matrix(c: &Call<'_>, i: usize) -> Result<Tensor, Reject> {
    let x = c.tensor(i)?;
    if !matches!(x.dtype(), DType::F32 | DType::F64) || x.numel() == 0 || x.rank() < 2 {
        return Err("no matrix of f32 or f64".into());
    }
    Ok(x.clone())
}

fn transposed(x: &Tensor) -> Tensor {
    x.transpose(-1, -2)
}

pub const ROWS: &[Row] = &[
    ("aten.cholesky_solve.default", |c| {
        let (b, l) = (matrix(c, 0)?, matrix(c, 1)?);
        if b.rank() != l.rank() || b.dims()[..b.rank() - 2] != l.dims()[..l.rank() - 2] {
            return Err("batches that broadcast".into());
        }
        let l = if c.flag(2)? { transposed(&l) } else { l };
        Ok(l.cholesky_solve(&b).into())
    }),
    ("aten.cholesky_inverse.default", |c| {
        let l = matrix(c, 0)?;
        let l = if c.flag(1)? { transposed(&l) } else { l };
        let n = l.size(-1);
        let one = Tensor::eye_with(n, n, (l.dtype(), l.device())).broadcast_to(*l.shape());
        Ok(l.tril(0).cholesky_solve(&one).into())
    }),
    ("aten.linalg_solve_triangular.default", |c| {
        let (a, b) = (matrix(c, 0)?, matrix(c, 1)?);
        let (upper, left, unit) = (c.flag(2)?, c.flag(3)?, c.flag(4)?);
        if a.dims()[..a.rank() - 2] != b.dims()[..b.rank() - 2] {
            return Err("batches that broadcast".into());
        }
        let solve = |a: &Tensor, b: &Tensor, upper: bool| {
            if unit { a.solve_unit_triangular(b, upper) } else { a.solve_triangular(b, upper) }
        };
        Ok(if left { solve(&a, &b, upper) } else { transposed(&solve(&transposed(&a), &transposed(&b), !upper)) }
            .into())
    }),
    ("aten.triangular_solve.default", |c| {
        let (b, a) = (matrix(c, 0)?, matrix(c, 1)?);
        let (upper, flip, unit) = (c.is_none(2) || c.flag(2)?, c.flag(3)?, c.flag(4)?);
        if a.dims()[..a.rank() - 2] != b.dims()[..b.rank() - 2] {
            return Err("batches that broadcast".into());
        }
        let kept = if upper { a.triu(0) } else { a.tril(0) };
        let (m, upper) = if flip { (transposed(&kept), !upper) } else { (kept, upper) };
        let x = if unit { m.solve_unit_triangular(&b, upper) } else { m.solve_triangular(&b, upper) };
        Ok((x, a).into())
    }),
];
