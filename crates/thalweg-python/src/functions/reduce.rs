//! Reductions, scans and searches along axes.

use super::register;
use crate::dtype::{ArrayDType, ArrayDType::Real, DTypeArg, default_float};
use crate::error::{axis_error, run, type_error, value_error};
use crate::handle::Data;
use pyo3::prelude::*;
use thalweg::{Axes, DType, Tensor};

/// An axis argument: one int, or a tuple of ints.
pub struct AxisArg(pub Vec<i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for AxisArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<AxisArg> {
        match object.extract::<i64>() {
            Ok(one) => Ok(AxisArg(vec![one])),
            Err(_) => Ok(AxisArg(object.try_iter()?.map(|a| a?.extract()).collect::<PyResult<_>>()?)),
        }
    }
}

/// Axis of an array, from 0.
///
/// # Errors
/// `AxisError`.
pub fn axis_of(py: Python<'_>, axis: i64, rank: usize) -> PyResult<usize> {
    let at = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    let found = usize::try_from(at).ok().filter(|&at| at < rank);
    found.ok_or_else(|| axis_error(py, format!("axis {axis} is out of bounds for array of dimension {rank}")))
}

/// Axes of a reduction, sorted; all of them for `None`.
///
/// # Errors
/// `AxisError`; `ValueError` for one that is named twice.
pub fn axes_of(py: Python<'_>, axes: Option<AxisArg>, rank: usize) -> PyResult<Vec<usize>> {
    let Some(AxisArg(list)) = axes else { return Ok((0..rank).collect()) };
    let mut out = list.into_iter().map(|a| axis_of(py, a, rank)).collect::<PyResult<Vec<_>>>()?;
    out.sort_unstable();
    if out.windows(2).any(|w| w[0] == w[1]) {
        return Err(value_error(py, "an axis is named twice"));
    }
    Ok(out)
}

/// Reduction over axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Prod,
    Mean,
    Max,
    Min,
    Any,
    All,
}

/// Dtype that sums and products of a dtype are computed in: at least int64 or uint64 for integers.
fn accumulated(dtype: ArrayDType) -> ArrayDType {
    match dtype {
        Real(d) if d.is_float() => dtype,
        Real(DType::Bool) => Real(DType::I64),
        Real(d) if d.is_signed() => Real(DType::I64),
        Real(_) => Real(DType::U64),
        complex => complex,
    }
}

/// Reduces over axes, all for `None`.
///
/// # Errors
/// For a dtype that the reduction does not take, an axis that does not exist, and a maximum of nothing.
pub fn reduce(py: Python<'_>, op: Reduction, data: Data, axes: Option<AxisArg>, keep: bool) -> PyResult<Data> {
    let axes = axes_of(py, axes, data.rank())?;
    let dtype = data.dtype();
    match op {
        Reduction::Any | Reduction::All => {
            return run(py, || {
                let x = match data.cast(Real(DType::Bool)) {
                    Data::Real(x) => x,
                    Data::Complex(_) => unreachable!("cast to bool"),
                };
                let axes = Axes::from(axes);
                Data::Real(match (op == Reduction::Any, keep) {
                    (true, false) => x.any(axes),
                    (true, true) => x.any_keepdim(axes),
                    (false, false) => x.all(axes),
                    (false, true) => x.all_keepdim(axes),
                })
            });
        }
        Reduction::Max | Reduction::Min => {
            if dtype.is_complex() {
                return Err(type_error(py, format!("max and min take real numbers, not {}", dtype.name())));
            }
            if axes.iter().any(|&a| data.dims()[a] == 0) {
                return Err(value_error(py, "zero-size array to reduction operation which has no identity"));
            }
            if dtype == Real(DType::Bool) {
                let op = if op == Reduction::Max { Reduction::Any } else { Reduction::All };
                let axes = AxisArg(axes.iter().map(|&a| a as i64).collect());
                return reduce(py, op, data, Some(axes), keep);
            }
        }
        _ => {}
    }
    let to = match op {
        Reduction::Sum | Reduction::Prod => accumulated(dtype),
        Reduction::Mean if !dtype.is_float() && !dtype.is_complex() => Real(default_float()),
        _ => dtype,
    };
    run(py, || {
        let data = if to == dtype { data } else { data.cast(to) };
        match (&data, op) {
            (Data::Complex(z), Reduction::Prod) => {
                let mut z = z.clone();
                for &axis in axes.iter().rev() {
                    z = z.prod(axis);
                    if keep {
                        z = z.unsqueeze(axis);
                    }
                }
                Data::Complex(z)
            }
            _ => data.map(|x| reduce_real(x, op, &axes, keep)),
        }
    })
}

fn reduce_real(x: &Tensor, op: Reduction, axes: &[usize], keep: bool) -> Tensor {
    let axes = Axes::from(axes);
    match (op, keep) {
        (Reduction::Sum, false) => x.sum(axes),
        (Reduction::Sum, true) => x.sum_keepdim(axes),
        (Reduction::Prod, false) => x.prod(axes),
        (Reduction::Prod, true) => x.prod_keepdim(axes),
        (Reduction::Mean, false) => x.mean(axes),
        (Reduction::Mean, true) => x.mean_keepdim(axes),
        (Reduction::Max, false) => x.amax(axes),
        (Reduction::Max, true) => x.amax_keepdim(axes),
        (Reduction::Min, false) => x.amin(axes),
        (Reduction::Min, true) => x.amin_keepdim(axes),
        (Reduction::Any | Reduction::All, _) => unreachable!("handled before"),
    }
}

/// Sum over axes; all of them by default.
///
/// Integers are summed in int64 or uint64 unless ``dtype`` says otherwise. The sum of nothing is 0.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, dtype = None, keepdims = false))]
fn sum(py: Python<'_>, x: Data, axis: Option<AxisArg>, dtype: Option<DTypeArg>, keepdims: bool) -> PyResult<Data> {
    accumulate(py, Reduction::Sum, x, axis, dtype, keepdims)
}

/// Product over axes; all of them by default.
///
/// Integers are multiplied in int64 or uint64 unless ``dtype`` says otherwise. The product of nothing is 1.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, dtype = None, keepdims = false))]
fn prod(py: Python<'_>, x: Data, axis: Option<AxisArg>, dtype: Option<DTypeArg>, keepdims: bool) -> PyResult<Data> {
    accumulate(py, Reduction::Prod, x, axis, dtype, keepdims)
}

fn accumulate(
    py: Python<'_>,
    op: Reduction,
    x: Data,
    axis: Option<AxisArg>,
    dtype: Option<DTypeArg>,
    keep: bool,
) -> PyResult<Data> {
    let Some(DTypeArg(to)) = dtype else { return reduce(py, op, x, axis, keep) };
    let x = if x.dtype() == to { x } else { run(py, || x.cast(to))? };
    let y = reduce(py, op, x, axis, keep)?;
    if y.dtype() == to { Ok(y) } else { run(py, || y.cast(to)) }
}

/// Functions of an array, `axis` and `keepdims`.
macro_rules! reductions {
    ($(#[doc = $doc:literal] $name:ident $op:ident;)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (x, /, *, axis = None, keepdims = false))]
            fn $name(py: Python<'_>, x: Data, axis: Option<AxisArg>, keepdims: bool) -> PyResult<Data> {
                reduce(py, Reduction::$op, x, axis, keepdims)
            }
        )*
    };
}

reductions! {
    /// Mean over axes; all of them by default. Integers give the default float dtype.
    mean Mean;
    /// Maximum over axes; all of them by default. NaN if any element is NaN.
    max Max;
    /// Minimum over axes; all of them by default. NaN if any element is NaN.
    min Min;
    /// Whether any element along axes is true, or not 0.
    any Any;
    /// Whether all elements along axes are true, or not 0.
    all All;
}

fn spread(py: Python<'_>, x: Data, axis: Option<AxisArg>, correction: f64, keep: bool, root: bool) -> PyResult<Data> {
    let axes = axes_of(py, axis, x.rank())?;
    let x = match x.dtype() {
        d if d.is_float() || d.is_complex() => x,
        _ => run(py, || x.cast(Real(default_float())))?,
    };
    let part = |x: &Tensor| {
        let axes = Axes::from(&axes[..]);
        match (keep, root) {
            (false, false) => x.var_with(axes, correction),
            (true, false) => x.var_with_keepdim(axes, correction),
            (false, true) => x.std_with(axes, correction),
            (true, true) => x.std_with_keepdim(axes, correction),
        }
    };
    run(py, || match &x {
        Data::Real(x) => part(x).into(),
        Data::Complex(z) => {
            let variance = |x: &Tensor| {
                let axes = Axes::from(&axes[..]);
                if keep { x.var_with_keepdim(axes, correction) } else { x.var_with(axes, correction) }
            };
            let sum = variance(&z.re) + variance(&z.im);
            Data::Real(if root { sum.sqrt() } else { sum })
        }
    })
}

/// Variance over axes; all of them by default. The divisor is the number of elements less ``correction``.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, correction = 0.0, keepdims = false))]
fn var(py: Python<'_>, x: Data, axis: Option<AxisArg>, correction: f64, keepdims: bool) -> PyResult<Data> {
    spread(py, x, axis, correction, keepdims, false)
}

/// Standard deviation over axes; all of them by default. The divisor is the number of elements less ``correction``.
#[pyfunction]
#[pyo3(name = "std", signature = (x, /, *, axis = None, correction = 0.0, keepdims = false))]
fn std_(py: Python<'_>, x: Data, axis: Option<AxisArg>, correction: f64, keepdims: bool) -> PyResult<Data> {
    spread(py, x, axis, correction, keepdims, true)
}

fn extreme_index(py: Python<'_>, x: Data, axis: Option<i64>, keep: bool, largest: bool) -> PyResult<Data> {
    let name = if largest { "argmax" } else { "argmin" };
    let axis = axis.map(|a| axis_of(py, a, x.rank())).transpose()?;
    let mut x = x.real(py, name)?;
    if x.dtype() == DType::Bool {
        x = run(py, || x.cast(DType::U8))?;
    }
    if axis.map_or(x.numel() == 0, |a| x.dims()[a] == 0) {
        return Err(value_error(py, format!("attempt to get {name} of an empty sequence")));
    }
    let axes = || axis.map_or(Axes::from(..), Axes::from);
    run(py, || {
        Data::Real(match (largest, keep) {
            (true, false) => x.argmax(axes()),
            (true, true) => x.argmax_keepdim(axes()),
            (false, false) => x.argmin(axes()),
            (false, true) => x.argmin_keepdim(axes()),
        })
    })
}

/// Index of the first largest element along an axis, as int64; of the flattened array by default. NaN is the largest.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, keepdims = false))]
fn argmax(py: Python<'_>, x: Data, axis: Option<i64>, keepdims: bool) -> PyResult<Data> {
    extreme_index(py, x, axis, keepdims, true)
}

/// Index of the first smallest element along an axis, as int64; of the flattened array by default. NaN is the smallest.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, keepdims = false))]
fn argmin(py: Python<'_>, x: Data, axis: Option<i64>, keepdims: bool) -> PyResult<Data> {
    extreme_index(py, x, axis, keepdims, false)
}

/// Number of elements that are not 0, as int64.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, keepdims = false))]
fn count_nonzero(py: Python<'_>, x: Data, axis: Option<AxisArg>, keepdims: bool) -> PyResult<Data> {
    let truth = run(py, || x.cast(Real(DType::Bool)))?;
    reduce(py, Reduction::Sum, truth, axis, keepdims)
}

fn cumulative(
    py: Python<'_>,
    x: Data,
    axis: Option<i64>,
    dtype: Option<DTypeArg>,
    include_initial: bool,
    product: bool,
) -> PyResult<Data> {
    let name = if product { "cumulative_prod" } else { "cumulative_sum" };
    let axis = match axis {
        Some(axis) => axis_of(py, axis, x.rank())?,
        None if x.rank() <= 1 => 0,
        None => return Err(value_error(py, format!("{name}: axis has to be given for shape {}", x.shape()))),
    };
    let to = dtype.map_or(accumulated(x.dtype()), |d| d.0);
    run(py, || {
        let x = if x.rank() == 0 { x.map(|t| t.reshape([1])) } else { x };
        let x = if x.dtype() == to { x } else { x.cast(to) };
        let y = match &x {
            Data::Complex(z) if product => Data::Complex(z.cumprod(axis)),
            _ => x.map(|t| if product { t.cumprod(axis) } else { t.cumsum(axis) }),
        };
        // Narrow integers were summed in a wide dtype.
        let y = if y.dtype() == to { y } else { y.cast(to) };
        if !include_initial {
            return y;
        }
        let mut widths = vec![(0, 0); y.rank()];
        widths[axis] = (1, 0);
        match y {
            Data::Real(y) => y.pad(&widths[..], if product { 1 } else { 0 }).into(),
            Data::Complex(z) => thalweg::Complex {
                re: z.re.pad(&widths[..], if product { 1 } else { 0 }),
                im: z.im.pad(&widths[..], 0),
            }
            .into(),
        }
    })
}

/// Running sum along an axis, which may be left out for one dimension. With ``include_initial`` a 0 comes first.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, dtype = None, include_initial = false))]
fn cumulative_sum(
    py: Python<'_>,
    x: Data,
    axis: Option<i64>,
    dtype: Option<DTypeArg>,
    include_initial: bool,
) -> PyResult<Data> {
    cumulative(py, x, axis, dtype, include_initial, false)
}

/// Running product along an axis, which may be left out for one dimension. With ``include_initial`` a 1 comes first.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, dtype = None, include_initial = false))]
fn cumulative_prod(
    py: Python<'_>,
    x: Data,
    axis: Option<i64>,
    dtype: Option<DTypeArg>,
    include_initial: bool,
) -> PyResult<Data> {
    cumulative(py, x, axis, dtype, include_initial, true)
}

/// Logarithm of the sum of exponentials over axes, without overflow.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None, keepdims = false))]
fn logsumexp(py: Python<'_>, x: Data, axis: Option<AxisArg>, keepdims: bool) -> PyResult<Data> {
    let axes = axes_of(py, axis, x.rank())?;
    let x = x.real(py, "logsumexp")?;
    let x = if x.dtype().is_float() { x } else { run(py, || x.cast(default_float()))? };
    let y = run(py, || if keepdims { x.logsumexp_keepdim(&axes[..]) } else { x.logsumexp(&axes[..]) })?;
    Ok(y.into())
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; sum, prod, mean, max, min, any, all, var, std_, argmax, argmin, count_nonzero, cumulative_sum,
        cumulative_prod, logsumexp);
    Ok(())
}
