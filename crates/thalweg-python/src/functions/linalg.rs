//! Products of vectors and matrices.

use super::register;
use crate::dtype::{ArrayDType, ArrayDType::Real};
use crate::error::{run, type_error, value_error};
use crate::functions::elementwise::{array_of, device_of};
use crate::handle::Data;
use crate::promote::{Arg, common};
use pyo3::prelude::*;
use thalweg::DType;

/// Two arrays in their promoted dtype.
pub fn promoted(py: Python<'_>, a: &Arg, b: &Arg) -> PyResult<(Data, Data, ArrayDType)> {
    let dtype = common(&[a, b]);
    let device = device_of(&[a, b]);
    Ok((array_of(py, a, dtype, device)?, array_of(py, b, dtype, device)?, dtype))
}

/// `a @ b`.
///
/// # Errors
/// `ValueError` for shapes that do not multiply.
pub fn matmul_args(py: Python<'_>, a: &Arg, b: &Arg) -> PyResult<Data> {
    let (x, y, dtype) = promoted(py, a, b)?;
    if x.rank() == 0 || y.rank() == 0 {
        return Err(value_error(py, "matmul: takes arrays of one dimension or more"));
    }
    match (&x, &y) {
        (Data::Real(x), Data::Real(y)) if dtype == Real(DType::Bool) => {
            let product = run(py, || x.cast(DType::I32).matmul(&y.cast(DType::I32)).ne(0))?;
            Ok(product.into())
        }
        (Data::Real(x), Data::Real(y)) => Ok(run(py, || x.matmul(y))?.into()),
        _ => Ok(run(py, || x.complex().matmul(&y.complex()))?.into()),
    }
}

/// Matrix product; leading dimensions broadcast, vectors are rows or columns.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn matmul(py: Python<'_>, x1: Data, x2: Data) -> PyResult<Data> {
    matmul_args(py, &Arg::Array(x1), &Arg::Array(x2))
}

/// Sum of products along an axis of both arrays; the first is conjugated.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis = -1))]
fn vecdot(py: Python<'_>, x1: Data, x2: Data, axis: i64) -> PyResult<Data> {
    let (x, y, dtype) = promoted(py, &Arg::Array(x1), &Arg::Array(x2))?;
    let least = x.rank().min(y.rank());
    if axis >= 0 || axis < -(least as i64) {
        let text = format!("vecdot: axis {axis} is not from {} to -1", -(least as i64));
        return Err(crate::error::axis_error(py, text));
    }
    let size = |d: &Data| d.dims()[(d.rank() as i64 + axis) as usize];
    if size(&x) != size(&y) {
        let text = format!("vecdot: shapes {} and {} have not one size along axis {axis}", x.shape(), y.shape());
        return Err(value_error(py, text));
    }
    match (&x, &y) {
        (Data::Real(x), Data::Real(y)) if dtype == Real(DType::Bool) => Ok(run(py, || (x & y).any(axis))?.into()),
        (Data::Real(x), Data::Real(y)) => Ok(run(py, || x.vecdot(y, axis))?.into()),
        _ => Ok(run(py, || x.complex().vecdot(&y.complex(), axis))?.into()),
    }
}

/// Sum of products over axes of both arrays: the last and first ``axes``, or a pair of lists of axes.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axes = None))]
fn tensordot(py: Python<'_>, x1: Data, x2: Data, axes: Option<&Bound<'_, PyAny>>) -> PyResult<Data> {
    let (x, y, dtype) = promoted(py, &Arg::Array(x1), &Arg::Array(x2))?;
    let (left, right): (Vec<i64>, Vec<i64>) = match axes {
        None => ((x.rank() as i64 - 2..x.rank() as i64).collect(), vec![0, 1]),
        Some(axes) => match axes.extract::<i64>() {
            Ok(n) => ((x.rank() as i64 - n..x.rank() as i64).collect(), (0..n).collect()),
            Err(_) => axes.extract()?,
        },
    };
    let check = |list: &[i64], d: &Data| -> PyResult<Vec<usize>> {
        list.iter().map(|&a| super::reduce::axis_of(py, a, d.rank())).collect()
    };
    let (left, right) = (check(&left, &x)?, check(&right, &y)?);
    if left.len() != right.len() || left.iter().zip(&right).any(|(&a, &b)| x.dims()[a] != y.dims()[b]) {
        let text = format!("tensordot: axes {left:?} of {} against axes {right:?} of {}", x.shape(), y.shape());
        return Err(value_error(py, text));
    }
    if dtype == Real(DType::Bool) {
        return Err(type_error(py, "tensordot: takes numbers, not bool"));
    }
    run(py, || match (&x, &y) {
        (Data::Real(x), Data::Real(y)) => x.tensordot(y, (left, right)).into(),
        _ => x.complex().tensordot(&y.complex(), (left, right)).into(),
    })
}

/// Cross product of vectors of three elements along an axis.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis = -1))]
fn cross(py: Python<'_>, x1: Data, x2: Data, axis: i64) -> PyResult<Data> {
    let (x, y, _) = promoted(py, &Arg::Array(x1), &Arg::Array(x2))?;
    let least = x.rank().min(y.rank());
    let valid = axis >= -(least as i64) && (axis < 0 || x.rank() == y.rank() && axis < least as i64);
    if !valid {
        return Err(crate::error::axis_error(py, format!("cross: axis {axis} of {} and {}", x.shape(), y.shape())));
    }
    let size = |d: &Data| d.dims()[if axis < 0 { (d.rank() as i64 + axis) as usize } else { axis as usize }];
    if size(&x) != 3 || size(&y) != 3 {
        return Err(value_error(py, format!("cross: takes three elements along axis {axis}")));
    }
    run(py, || match (&x, &y) {
        (Data::Real(x), Data::Real(y)) => x.cross(y, axis).into(),
        _ => x.complex().cross(&y.complex(), axis).into(),
    })
}

/// Diagonals of matrices: of the last two dimensions.
#[pyfunction]
#[pyo3(signature = (x, /, *, offset = 0))]
fn diagonal(py: Python<'_>, x: Data, offset: i64) -> PyResult<Data> {
    check_matrices(py, "diagonal", &x)?;
    run(py, || x.map(|t| t.diagonal(offset)))
}

/// Sum of the diagonals of matrices. Integers are summed in int64 or uint64 unless ``dtype`` says otherwise.
#[pyfunction]
#[pyo3(signature = (x, /, *, offset = 0, dtype = None))]
fn trace(py: Python<'_>, x: Data, offset: i64, dtype: Option<crate::dtype::DTypeArg>) -> PyResult<Data> {
    let line = diagonal(py, x, offset)?;
    let line = match dtype {
        Some(to) if to.0 != line.dtype() => run(py, || line.cast(to.0))?,
        _ => line,
    };
    let own = line.dtype();
    let axis = super::reduce::AxisArg(vec![-1]);
    let sum = super::reduce::reduce(py, super::reduce::Reduction::Sum, line, Some(axis), false)?;
    if dtype.is_some() && sum.dtype() != own { run(py, || sum.cast(own)) } else { Ok(sum) }
}

/// Products of all pairs of elements of two vectors, as a matrix.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn outer(py: Python<'_>, x1: Data, x2: Data) -> PyResult<Data> {
    if x1.rank() != 1 || x2.rank() != 1 {
        return Err(value_error(py, format!("outer: takes two vectors, not shapes {} and {}", x1.shape(), x2.shape())));
    }
    let column = run(py, || x1.map(|t| t.unsqueeze(1)))?;
    super::elementwise::binary(py, super::elementwise::Binary::Mul, &Arg::Array(column), &Arg::Array(x2))
}

/// Matrices multiplied with themselves ``n`` times; inverses for negative ``n``.
#[pyfunction]
#[pyo3(signature = (x, n, /))]
fn matrix_power(py: Python<'_>, x: Data, n: i64) -> PyResult<Data> {
    check_square(py, "matrix_power", &x)?;
    let power = u32::try_from(n.unsigned_abs()).map_err(|_| value_error(py, format!("matrix_power: power {n}")))?;
    #[cfg(feature = "linalg")]
    let x = if n < 0 { decompositions::inverse(py, x)? } else { x };
    #[cfg(not(feature = "linalg"))]
    if n < 0 {
        return Err(value_error(py, "matrix_power: negative powers need the feature `linalg`"));
    }
    run(py, || match &x {
        Data::Real(x) => x.matrix_power(power).into(),
        Data::Complex(z) => z.matrix_power(power).into(),
    })
}

/// Sum of products of any arrays by Einstein's notation: ``einsum("bij,bjk->bik", x, y)``.
#[pyfunction]
#[pyo3(signature = (subscripts, /, *operands))]
fn einsum(py: Python<'_>, subscripts: &str, operands: Vec<Data>) -> PyResult<Data> {
    let Some(dtype) = operands.iter().map(Data::dtype).reduce(crate::promote::promote) else {
        return Err(value_error(py, "einsum: there are no operands"));
    };
    run(py, || {
        let all: Vec<Data> =
            operands.iter().map(|d| if d.dtype() == dtype { d.clone() } else { d.cast(dtype) }).collect();
        if dtype.is_complex() {
            let all: Vec<thalweg::Complex> = all.iter().map(Data::complex).collect();
            return thalweg::Complex::einsum(subscripts, &all.iter().collect::<Vec<_>>()).into();
        }
        let all: Vec<thalweg::Tensor> = all
            .into_iter()
            .map(|d| match d {
                Data::Real(x) => x,
                Data::Complex(z) => z.re,
            })
            .collect();
        thalweg::Tensor::einsum(subscripts, &all).into()
    })
}

fn check_matrices(py: Python<'_>, name: &str, x: &Data) -> PyResult<()> {
    if x.rank() < 2 {
        return Err(value_error(py, format!("{name}: takes matrices, not shape {}", x.shape())));
    }
    Ok(())
}

fn check_square(py: Python<'_>, name: &str, x: &Data) -> PyResult<()> {
    let rank = x.rank();
    if rank < 2 || x.dims()[rank - 1] != x.dims()[rank - 2] {
        return Err(value_error(py, format!("{name}: takes square matrices, not shape {}", x.shape())));
    }
    Ok(())
}

/// Norm of vectors along axes, all by default: ``(sum(abs(x)**ord))**(1/ord)``; ``inf`` and ``-inf`` are the largest
/// and smallest magnitude, 0 the number of elements that are not 0.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, keepdims = false, ord = 2.0))]
fn vector_norm(
    py: Python<'_>,
    x: Data,
    axis: Option<super::reduce::AxisArg>,
    keepdims: bool,
    ord: f64,
) -> PyResult<Data> {
    let axes = super::reduce::axes_of(py, axis, x.rank())?;
    let x = if x.dtype().is_float() || x.dtype().is_complex() {
        x
    } else {
        run(py, || x.cast(Real(crate::dtype::default_float())))?
    };
    if ord.is_infinite() && axes.iter().any(|&a| x.dims()[a] == 0) {
        return Err(value_error(py, "vector_norm: nothing has no largest or smallest magnitude"));
    }
    run(py, || {
        // Of complex numbers the magnitudes; a norm of order 2 needs no root of each.
        let magnitudes = match &x {
            Data::Real(x) => x.clone(),
            Data::Complex(z) => z.abs(),
        };
        let y = if keepdims { magnitudes.norm_p_keepdim(ord, &axes[..]) } else { magnitudes.norm_p(ord, &axes[..]) };
        Data::Real(y)
    })
}

#[cfg(feature = "linalg")]
mod decompositions {
    //! Decompositions and solvers, with the feature `linalg`.

    use super::{check_matrices, check_square, promoted};
    use crate::dtype::{ArrayDType::Real, default_float};
    use crate::error::{run, type_error, value_error};
    use crate::functions::elementwise::array_of;
    use crate::handle::Data;
    use crate::promote::Arg;
    use pyo3::prelude::*;
    use thalweg::{DType, MatrixNorm, Tensor};

    /// Matrices of float32 or float64; integers are converted to the default float.
    fn matrices(py: Python<'_>, name: &str, x: Data) -> PyResult<Data> {
        check_matrices(py, name, &x)?;
        let dtype = x.dtype();
        match dtype {
            Real(DType::F32 | DType::F64) => Ok(x),
            d if d.is_complex() => Ok(x),
            d if d.is_int() || d == Real(DType::Bool) => run(py, || x.cast(Real(default_float()))),
            d => Err(type_error(py, format!("{name}: takes float32 or float64, not {}", d.name()))),
        }
    }

    /// Two results as arrays.
    fn both((a, b): (impl Into<Data>, impl Into<Data>)) -> (Data, Data) {
        (a.into(), b.into())
    }

    fn real(py: Python<'_>, name: &str, x: Data) -> PyResult<Tensor> {
        match matrices(py, name, x)? {
            Data::Real(x) => Ok(x),
            Data::Complex(_) => Err(type_error(py, format!("{name}: complex matrices are not supported"))),
        }
    }

    /// Lower triangular factor L of positive definite matrices ``x = L @ conj(L.mT)``; with ``upper`` its adjoint. A matrix
    /// that is not positive definite is a ValueError where a value is read.
    #[pyfunction]
    #[pyo3(signature = (x, /, *, upper = false))]
    pub fn cholesky(py: Python<'_>, x: Data, upper: bool) -> PyResult<Data> {
        check_square(py, "cholesky", &x)?;
        let x = matrices(py, "cholesky", x)?;
        run(py, || match &x {
            Data::Real(x) => Data::Real(if upper { x.cholesky().t() } else { x.cholesky() }),
            Data::Complex(z) => Data::Complex(if upper { z.cholesky().adjoint() } else { z.cholesky() }),
        })
    }

    /// Determinants of square matrices.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn det(py: Python<'_>, x: Data) -> PyResult<Data> {
        check_square(py, "det", &x)?;
        let x = matrices(py, "det", x)?;
        run(py, || match &x {
            Data::Real(x) => x.det().into(),
            Data::Complex(z) => z.det().into(),
        })
    }

    /// Signs of determinants, and logarithms of their magnitudes.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn slogdet(py: Python<'_>, x: Data) -> PyResult<(Data, Data)> {
        check_square(py, "slogdet", &x)?;
        let x = matrices(py, "slogdet", x)?;
        run(py, || match &x {
            Data::Real(x) => both(x.slogdet()),
            Data::Complex(z) => both(z.slogdet()),
        })
    }

    /// Eigenvalues in ascending order and eigenvectors (columns) of symmetric or Hermitian matrices.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn eigh(py: Python<'_>, x: Data) -> PyResult<(Data, Data)> {
        check_square(py, "eigh", &x)?;
        let x = matrices(py, "eigh", x)?;
        run(py, || match &x {
            Data::Real(x) => both(x.eigh()),
            Data::Complex(z) => both(z.eigh()),
        })
    }

    /// Eigenvalues of symmetric or Hermitian matrices, in ascending order.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn eigvalsh(py: Python<'_>, x: Data) -> PyResult<Data> {
        check_square(py, "eigvalsh", &x)?;
        let x = matrices(py, "eigvalsh", x)?;
        run(py, || match &x {
            Data::Real(x) => x.eigvalsh().into(),
            Data::Complex(z) => z.eigvalsh().into(),
        })
    }

    /// Eigenvalues and eigenvectors (columns) of square matrices, as complex numbers.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn eig(py: Python<'_>, x: Data) -> PyResult<(Data, Data)> {
        check_square(py, "eig", &x)?;
        let x = matrices(py, "eig", x)?;
        run(py, || match &x {
            Data::Real(x) => both(x.eig()),
            Data::Complex(z) => both(z.eig()),
        })
    }

    /// Eigenvalues of square matrices, as complex numbers.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn eigvals(py: Python<'_>, x: Data) -> PyResult<Data> {
        check_square(py, "eigvals", &x)?;
        let x = matrices(py, "eigvals", x)?;
        run(py, || match &x {
            Data::Real(x) => x.eigvals().into(),
            Data::Complex(z) => z.eigvals().into(),
        })
    }

    /// Inverses of square matrices. A singular matrix is a ValueError where a value is read.
    #[pyfunction]
    #[pyo3(name = "inv", signature = (x, /))]
    pub fn inverse(py: Python<'_>, x: Data) -> PyResult<Data> {
        check_square(py, "inv", &x)?;
        let x = matrices(py, "inv", x)?;
        run(py, || match &x {
            Data::Real(x) => x.inv().into(),
            Data::Complex(z) => z.inv().into(),
        })
    }

    /// Relative bound of singular values that count as 0: by default the precision times the larger size, else a number
    /// or an array of one number for each matrix; with a last axis of size 1.
    fn bounds(py: Python<'_>, x: &Data, rtol: Option<Arg>) -> PyResult<Tensor> {
        let larger = x.dims()[x.rank() - 2..].iter().copied().max().unwrap_or(0);
        let part = x.dtype().part();
        let device = x.device();
        match rtol {
            None => {
                let bound = larger as f64 * part.float_info().epsilon;
                run(py, || Tensor::full_with([1], bound, (part, device)))
            }
            Some(rtol) => {
                let bound = array_of(py, &rtol, Real(part), device)?.real(py, "rtol")?;
                run(py, || bound.unsqueeze(-1))
            }
        }
    }

    /// Complex matrices as real ones of twice the size, `[[re, -im], [im, re]]`.
    fn embedded(z: &thalweg::Complex) -> Tensor {
        let upper = Tensor::cat(&[z.re.clone(), -&z.im], -1);
        Tensor::cat(&[upper, Tensor::cat(&[z.im.clone(), z.re.clone()], -1)], -2)
    }

    /// Pseudoinverses of matrices; singular values below ``rtol`` times the largest count as 0. ``rtol`` is a number, or
    /// an array of one for each matrix.
    #[pyfunction]
    #[pyo3(signature = (x, /, *, rtol = None))]
    pub fn pinv(py: Python<'_>, x: Data, rtol: Option<Arg>) -> PyResult<Data> {
        let x = matrices(py, "pinv", x)?;
        let bound = bounds(py, &x, rtol)?;
        let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
        let inverse = |x: &Tensor| {
            let (u, s, vt) = x.svd();
            if s.numel() == 0 {
                // A matrix without rows or columns; leading dimensions stay.
                return x.t().zeros_like();
            }
            let least = s.amax_keepdim(-1) * &bound;
            let kept = s.gt(&least);
            let inverted = kept.where_(kept.where_(&s, 1.0).recip(), 0.0);
            (vt.t() * inverted.unsqueeze(-2)).matmul(&u.t())
        };
        run(py, || match &x {
            Data::Real(x) => inverse(x).into(),
            Data::Complex(z) => {
                // The pseudoinverse of the embedding is the embedding of the pseudoinverse.
                let whole = inverse(&embedded(z));
                let re = whole.narrow(-2, 0, columns).narrow(-1, 0, rows);
                let im = whole.narrow(-2, columns, columns).narrow(-1, 0, rows);
                Data::Complex(thalweg::Complex { re, im })
            }
        })
    }

    /// Numbers of singular values above ``rtol`` times the largest, as int64. ``rtol`` is a number, or an array of one for
    /// each matrix.
    #[pyfunction]
    #[pyo3(signature = (x, /, *, rtol = None))]
    pub fn matrix_rank(py: Python<'_>, x: Data, rtol: Option<Arg>) -> PyResult<Data> {
        let x = matrices(py, "matrix_rank", x)?;
        let bound = bounds(py, &x, rtol)?;
        run(py, || {
            let values = match &x {
                Data::Real(x) => x.svdvals(),
                Data::Complex(z) => z.svdvals(),
            };
            if values.numel() == 0 {
                return Data::Real(values.gt(0.0).sum(-1));
            }
            let least = values.amax_keepdim(-1) * bound;
            Data::Real(values.gt(least).sum(-1))
        })
    }

    /// Orthogonal and upper triangular factors; ``mode="complete"`` gives a square orthogonal one.
    #[pyfunction]
    #[pyo3(signature = (x, /, *, mode = "reduced"))]
    pub fn qr(py: Python<'_>, x: Data, mode: &str) -> PyResult<(Data, Data)> {
        let x = matrices(py, "qr", x)?;
        let complete = match mode {
            "reduced" => false,
            "complete" => true,
            other => return Err(value_error(py, format!("qr: mode is \"reduced\" or \"complete\", not {other:?}"))),
        };
        run(py, || match &x {
            Data::Real(x) => both(if complete { x.qr_complete() } else { x.qr() }),
            Data::Complex(z) => both(if complete { z.qr_complete() } else { z.qr() }),
        })
    }

    /// Solution of ``x1 @ y = x2``. A right side of one dimension is a vector. A singular matrix is a ValueError where a
    /// value is read.
    #[pyfunction]
    #[pyo3(signature = (x1, x2, /))]
    pub fn solve(py: Python<'_>, x1: Data, x2: Data) -> PyResult<Data> {
        check_square(py, "solve", &x1)?;
        let x1 = matrices(py, "solve", x1)?;
        let vector = x2.rank() == 1;
        let (a, b, _) = promoted(py, &Arg::Array(x1), &Arg::Array(x2))?;
        if b.rank() == 0 || b.dims()[if vector { 0 } else { b.rank() - 2 }] != a.dims()[a.rank() - 1] {
            let text = format!("solve: a right side of shape {} for matrices of shape {}", b.shape(), a.shape());
            return Err(value_error(py, text));
        }
        run(py, || {
            let b = if vector { b.map(|t| t.unsqueeze(-1)) } else { b };
            // Leading dimensions broadcast.
            let lead = |d: &Data| thalweg::Shape::new(&d.dims()[..d.rank() - 2]);
            let all = lead(&a).broadcast(&lead(&b)).unwrap_or(lead(&a));
            let spread = |d: &Data| {
                let shape = [all.dims(), &d.dims()[d.rank() - 2..]].concat();
                d.map(|t| t.broadcast_to(&shape))
            };
            let (a, b) = (spread(&a), spread(&b));
            let y = match (&a, &b) {
                (Data::Real(a), Data::Real(b)) => Data::Real(a.solve(b)),
                _ => Data::Complex(a.complex().solve(&b.complex())),
            };
            if vector { y.map(|t| t.squeeze(-1)) } else { y }
        })
    }

    /// Singular value decomposition ``x = (U * S[..., None, :]) @ Vh``; without ``full_matrices`` only as many vectors as
    /// values.
    #[pyfunction]
    #[pyo3(signature = (x, /, *, full_matrices = true))]
    pub fn svd(py: Python<'_>, x: Data, full_matrices: bool) -> PyResult<(Data, Data, Data)> {
        let x = matrices(py, "svd", x)?;
        run(py, || match &x {
            Data::Real(x) => {
                let (u, s, vh) = if full_matrices { x.svd_full() } else { x.svd() };
                (u.into(), s.into(), vh.into())
            }
            Data::Complex(z) => {
                let (u, s, vh) = if full_matrices { z.svd_full() } else { z.svd() };
                (u.into(), s.into(), vh.into())
            }
        })
    }

    /// Singular values, in descending order.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn svdvals(py: Python<'_>, x: Data) -> PyResult<Data> {
        let x = matrices(py, "svdvals", x)?;
        run(py, || match &x {
            Data::Real(x) => x.svdvals().into(),
            Data::Complex(z) => z.svdvals().into(),
        })
    }

    /// Least squares solution of ``x1 @ y = x2``.
    #[pyfunction]
    #[pyo3(signature = (x1, x2, /, *, rtol = None))]
    pub fn lstsq(py: Python<'_>, x1: Data, x2: Data, rtol: Option<f64>) -> PyResult<Data> {
        let (a, b) = (real(py, "lstsq", x1)?, real(py, "lstsq", x2)?);
        Ok(run(py, || a.lstsq(&b, rtol))?.into())
    }

    /// Exponentials of square matrices.
    #[pyfunction]
    #[pyo3(signature = (x, /))]
    pub fn matrix_exp(py: Python<'_>, x: Data) -> PyResult<Data> {
        check_square(py, "matrix_exp", &x)?;
        let x = real(py, "matrix_exp", x)?;
        Ok(run(py, || x.matrix_exp())?.into())
    }

    /// Solution of ``x1 @ y = x2`` for triangular matrices.
    #[pyfunction]
    #[pyo3(signature = (x1, x2, /, *, upper = false))]
    pub fn solve_triangular(py: Python<'_>, x1: Data, x2: Data, upper: bool) -> PyResult<Data> {
        let (a, b) = (real(py, "solve_triangular", x1)?, real(py, "solve_triangular", x2)?);
        Ok(run(py, || a.solve_triangular(&b, upper))?.into())
    }

    /// Norms of matrices: "fro" (root of the sum of squares), "nuc" (sum of singular values), 1, -1 (column sums), 2, -2
    /// (singular values), inf, -inf (row sums).
    #[pyfunction]
    #[pyo3(signature = (x, /, *, keepdims = false, ord = None))]
    pub fn matrix_norm(py: Python<'_>, x: Data, keepdims: bool, ord: Option<&Bound<'_, PyAny>>) -> PyResult<Data> {
        let norm = match ord {
            None => MatrixNorm::Frobenius,
            Some(ord) => match (ord.extract::<f64>(), ord.extract::<String>()) {
                (Ok(2.0), _) => MatrixNorm::Two,
                (Ok(-2.0), _) => MatrixNorm::MinusTwo,
                (Ok(1.0), _) => MatrixNorm::One,
                (Ok(-1.0), _) => MatrixNorm::MinusOne,
                (Ok(f64::INFINITY), _) => MatrixNorm::Infinity,
                (Ok(f64::NEG_INFINITY), _) => MatrixNorm::MinusInfinity,
                (_, Ok(name)) if name == "fro" => MatrixNorm::Frobenius,
                (_, Ok(name)) if name == "nuc" => MatrixNorm::Nuclear,
                _ => return Err(value_error(py, format!("matrix_norm: there is no norm {ord}"))),
            },
        };
        let x = matrices(py, "matrix_norm", x)?;
        run(py, || {
            let y = match &x {
                Data::Real(x) => x.matrix_norm(norm),
                Data::Complex(z) => match norm {
                    MatrixNorm::Nuclear => z.svdvals().sum(-1),
                    MatrixNorm::Two => z.svdvals().amax(-1),
                    MatrixNorm::MinusTwo => z.svdvals().amin(-1),
                    _ => z.abs().matrix_norm(norm),
                },
            };
            Data::Real(if keepdims { y.unsqueeze(-1).unsqueeze(-1) } else { y })
        })
    }
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; matmul, vecdot, tensordot, einsum);
    let linalg = PyModule::new(module.py(), "_linalg")?;
    let m = &linalg;
    register!(m; matmul, vecdot, tensordot, cross, diagonal, trace, outer, matrix_power, vector_norm);
    #[cfg(feature = "linalg")]
    {
        use decompositions::{
            cholesky, det, eig, eigh, eigvals, eigvalsh, inverse, lstsq, matrix_exp, matrix_norm, matrix_rank, pinv,
            qr, slogdet, solve, solve_triangular, svd, svdvals,
        };
        register!(m; cholesky, det, eig, eigh, eigvals, eigvalsh, inverse, lstsq, matrix_exp, matrix_norm, matrix_rank,
            pinv, qr, slogdet, solve, solve_triangular, svd, svdvals);
    }
    module.add("_linalg", linalg)
}
