//! Decompositions and solvers whose results are unique. Those with free signs or orders run by PyTorch's kernels, unless
//! only their unique results are read.

use super::super::call::{Call, Out, Reject, Row};
use super::super::value::Value;
use thalweg::{DType, Tensor};

fn matrix(c: &Call<'_>, i: usize) -> Result<Tensor, Reject> {
    let x = c.tensor(i)?;
    if !matches!(x.dtype(), DType::F32 | DType::F64) || x.numel() == 0 || x.rank() < 2 {
        return Err("no matrix of f32 or f64".into());
    }
    Ok(x.clone())
}

/// Square matrices, also empty ones.
fn square(c: &Call<'_>) -> Result<Tensor, Reject> {
    let x = c.tensor(0)?;
    if matches!(x.dtype(), DType::F32 | DType::F64) { Ok(x.clone()) } else { Err("no matrix of f32 or f64".into()) }
}

fn transposed(x: &Tensor) -> Tensor {
    x.transpose(-1, -2)
}

/// The symmetric matrix of a triangle.
fn symmetric(x: &Tensor, upper: bool) -> Tensor {
    if upper { x.triu(0) + transposed(&x.triu(1)) } else { x.tril(0) + transposed(&x.tril(-1)) }
}

/// Refuses an operation of which a result from `first` on is read, other than the unique ones.
fn only(c: &Call<'_>, unique: &[usize], count: usize) -> Result<(), Reject> {
    if (0..count).any(|k| !unique.contains(&k) && c.is_read(k)) {
        return Err("results with free signs or pivots".into());
    }
    Ok(())
}

/// Results of which only some are there.
fn some(list: impl IntoIterator<Item = Option<Tensor>>) -> Out {
    Out::Many(list.into_iter().map(|x| x.map_or(Value::None, Value::Tensor)).collect())
}

pub const ROWS: &[Row] = &[
    ("aten._linalg_det.default", |c| {
        only(c, &[0], 3)?;
        Ok(some([Some(square(c)?.det()), None, None]))
    }),
    ("aten._linalg_slogdet.default", |c| {
        only(c, &[0, 1], 4)?;
        let (sign, log) = square(c)?.slogdet();
        Ok(some([Some(sign), Some(log), None, None]))
    }),
    ("aten._linalg_svd.default", |c| {
        only(c, &[1], 3)?;
        Ok(some([None, Some(matrix(c, 0)?.svdvals()), None]))
    }),
    ("aten._linalg_eigh.default", |c| {
        only(c, &[0], 2)?;
        let x = symmetric(&matrix(c, 0)?, c.word(1) == Some("U"));
        Ok(some([Some(x.eigvalsh()), None]))
    }),
    ("aten.linalg_matrix_exp.default", |c| Ok(matrix(c, 0)?.matrix_exp().into())),
    ("aten.linalg_lu.default", |c| {
        if !c.is_none(1) && !c.flag(1)? {
            return Err("no pivots".into());
        }
        Ok(matrix(c, 0)?.lu().into())
    }),
    ("aten.linalg_pinv.atol_rtol_tensor", |c| {
        let x = matrix(c, 0)?;
        let x = if c.flag(3)? { symmetric(&x, false) } else { x };
        let (u, s, v) = x.svd();
        let largest = s.narrow(-1, 0, 1);
        let eps = if x.dtype() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let default = eps * x.size(-1).max(x.size(-2)) as f64;
        let column = |t: &Tensor| t.cast(x.dtype()).unsqueeze(-1);
        let (absolute, relative) = (c.tensor_or_none(1)?.map(column), c.tensor_or_none(2)?.map(column));
        let relative = match (&absolute, relative) {
            (_, Some(r)) => r,
            // The default relative bound counts where there is no absolute one.
            (None, None) => Tensor::full_with((), default, (x.dtype(), x.device())),
            (Some(a), None) => a.gt(0.0).where_(0.0, a.full_like(default)),
        };
        let mut bound = largest * relative;
        if let Some(a) = absolute {
            bound = bound.maximum(&a);
        }
        let kept = s.gt(&bound);
        let inverse = kept.where_(kept.where_(s, 1.0).recip(), 0.0);
        Ok((transposed(&v) * inverse.unsqueeze(-2)).matmul(&transposed(&u)).into())
    }),
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
