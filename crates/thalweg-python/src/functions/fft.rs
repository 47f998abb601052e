//! Fourier transforms: `thalweg.fft`.

use super::register;
use crate::dtype::{ArrayDType::Real, default_float};
use crate::error::{run, type_error, value_error};
use crate::functions::reduce::{AxisArg, axes_of, axis_of};
use crate::handle::Data;
use pyo3::prelude::*;
use thalweg::{DType, Fft, FftNorm, Tensor};

/// Operand of a transform: float32, float64 or complex.
fn operand(py: Python<'_>, name: &str, x: Data) -> PyResult<Data> {
    match x.dtype() {
        Real(DType::F32 | DType::F64) => Ok(x),
        d if d.is_complex() => Ok(x),
        d if d.is_float() => {
            Err(type_error(py, format!("{name}: takes float32, float64 or complex, not {}", d.name())))
        }
        _ => run(py, || x.cast(Real(default_float()))),
    }
}

fn norm_of(py: Python<'_>, name: &str, norm: &str) -> PyResult<FftNorm> {
    match norm {
        "backward" => Ok(FftNorm::Backward),
        "ortho" => Ok(FftNorm::Ortho),
        "forward" => Ok(FftNorm::Forward),
        other => Err(value_error(py, format!("{name}: norm is \"backward\", \"ortho\" or \"forward\", not {other:?}"))),
    }
}

/// Number of samples as an option.
fn samples(py: Python<'_>, name: &str, n: Option<i64>, fft: Fft) -> PyResult<Fft> {
    let Some(n) = n else { return Ok(fft) };
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(fft.sizes(vec![n])),
        _ => Err(value_error(py, format!("{name}: a transform of {n} samples"))),
    }
}

macro_rules! one_axis {
    ($($(#[$doc:meta])* $name:ident $real:expr, $complex:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
            /// (the inverse is divided by n), "ortho" (both by its root) or "forward".
            #[pyfunction]
            #[pyo3(signature = (x, /, *, n = None, axis = -1, norm = "backward"))]
            fn $name(py: Python<'_>, x: Data, n: Option<i64>, axis: i64, norm: &str) -> PyResult<Data> {
                let axis = axis_of(py, axis, x.rank())?;
                let x = operand(py, stringify!($name), x)?;
                let fft = Fft::new().norm(norm_of(py, stringify!($name), norm)?);
                let fft = samples(py, stringify!($name), n, fft)?;
                run(py, || match &x {
                    Data::Real(x) => { let f: fn(&Tensor, usize, &Fft) -> Data = $real; f(x, axis, &fft) }
                    Data::Complex(z) => { let f: fn(&thalweg::Complex, usize, &Fft) -> Data = $complex; f(z, axis, &fft) }
                })
            }
        )*
    };
}

/// A real operand as complex numbers.
fn complex(x: &Tensor) -> thalweg::Complex {
    thalweg::Complex::real(x)
}

one_axis! {
    /// Discrete Fourier transform along an axis, as complex numbers.
    fft |x, a, f| x.fft_with(a, f).into(), |z, a, f| z.fft_with(a, f).into();
    /// Inverse of ``fft``.
    ifft |x, a, f| complex(x).ifft_with(a, f).into(), |z, a, f| z.ifft_with(a, f).into();
    /// First ``n // 2 + 1`` results of the transform of real numbers; the others are their conjugates.
    rfft |x, a, f| x.rfft_with(a, f).into(), |z, a, f| z.re.rfft_with(a, f).into();
    /// Inverse of ``rfft``: ``n`` real numbers, by default ``2 * (m - 1)`` of ``m``.
    irfft |x, a, f| complex(x).irfft_with(a, f).into(), |z, a, f| z.irfft_with(a, f).into();
    /// Transform of numbers whose other half is conjugate; it is real.
    hfft |x, a, f| complex(x).hfft_with(a, f).into(), |z, a, f| z.hfft_with(a, f).into();
    /// Inverse of ``hfft``.
    ihfft |x, a, f| x.ihfft_with(a, f).into(), |z, a, f| z.re.ihfft_with(a, f).into();
}

/// Axes and sizes of a transform along several axes: the last ones for sizes without axes.
fn several(
    py: Python<'_>,
    name: &str,
    x: &Data,
    (s, axes): (Option<Vec<i64>>, Option<Vec<i64>>),
    fft: Fft,
) -> PyResult<(Vec<usize>, Fft)> {
    let rank = x.rank();
    let axes: Vec<usize> = match (&axes, &s) {
        (Some(axes), _) => axes.iter().map(|&a| axis_of(py, a, rank)).collect::<PyResult<_>>()?,
        (None, Some(s)) if s.len() <= rank => (rank - s.len()..rank).collect(),
        (None, Some(s)) => return Err(value_error(py, format!("{name}: {} sizes for {rank} axes", s.len()))),
        (None, None) => (0..rank).collect(),
    };
    let Some(s) = s else { return Ok((axes, fft)) };
    if s.len() != axes.len() {
        return Err(value_error(py, format!("{name}: {} sizes for {} axes", s.len(), axes.len())));
    }
    let sizes: Vec<usize> = s.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
    if sizes.contains(&0) {
        return Err(value_error(py, format!("{name}: a transform of sizes {s:?}")));
    }
    Ok((axes, fft.sizes(sizes)))
}

macro_rules! several_axes {
    ($($(#[$doc:meta])* $name:ident $real:expr, $complex:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// ``s`` are numbers of samples along ``axes``, which are all axes, or the last ones, by default. ``norm`` as
            /// for ``fft``.
            #[pyfunction]
            #[pyo3(signature = (x, /, *, s = None, axes = None, norm = "backward"))]
            fn $name(
                py: Python<'_>,
                x: Data,
                s: Option<Vec<i64>>,
                axes: Option<Vec<i64>>,
                norm: &str,
            ) -> PyResult<Data> {
                let x = operand(py, stringify!($name), x)?;
                let fft = Fft::new().norm(norm_of(py, stringify!($name), norm)?);
                let (axes, fft) = several(py, stringify!($name), &x, (s, axes), fft)?;
                run(py, || match &x {
                    Data::Real(x) => { let f: fn(&Tensor, &[usize], &Fft) -> Data = $real; f(x, &axes, &fft) }
                    Data::Complex(z) => { let f: fn(&thalweg::Complex, &[usize], &Fft) -> Data = $complex; f(z, &axes, &fft) }
                })
            }
        )*
    };
}

several_axes! {
    /// Discrete Fourier transform along several axes, as complex numbers.
    fftn |x, a, f| x.fftn_with(a, f).into(), |z, a, f| z.fftn_with(a, f).into();
    /// Inverse of ``fftn``.
    ifftn |x, a, f| complex(x).ifftn_with(a, f).into(), |z, a, f| z.ifftn_with(a, f).into();
    /// ``rfft`` along the last of the axes, then ``fft`` along the others.
    rfftn |x, a, f| x.rfftn_with(a, f).into(), |z, a, f| z.re.rfftn_with(a, f).into();
    /// Inverse of ``rfftn``.
    irfftn |x, a, f| complex(x).irfftn_with(a, f).into(), |z, a, f| z.irfftn_with(a, f).into();
}

/// Sample frequencies of ``fft`` of ``n`` samples at distance ``d``.
#[pyfunction]
#[pyo3(signature = (n, /, *, d = 1.0, dtype = None, device = None))]
fn fftfreq(
    py: Python<'_>,
    n: usize,
    d: f64,
    dtype: Option<crate::dtype::DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    frequencies(py, n, d, dtype, device, false)
}

/// Sample frequencies of ``rfft`` of ``n`` samples at distance ``d``.
#[pyfunction]
#[pyo3(signature = (n, /, *, d = 1.0, dtype = None, device = None))]
fn rfftfreq(
    py: Python<'_>,
    n: usize,
    d: f64,
    dtype: Option<crate::dtype::DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    frequencies(py, n, d, dtype, device, true)
}

fn frequencies(
    py: Python<'_>,
    n: usize,
    d: f64,
    dtype: Option<crate::dtype::DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
    half: bool,
) -> PyResult<Data> {
    let device = super::arguments::device_or_default(py, device)?;
    let dtype = dtype.map_or(Real(default_float()), |d| d.0);
    if !dtype.is_float() {
        return Err(type_error(py, format!("fftfreq: dtype is a float dtype, not {}", dtype.name())));
    }
    if n == 0 {
        return Err(value_error(py, "fftfreq: a transform of no samples"));
    }
    let (count, n) = (if half { n / 2 + 1 } else { n }, n as i64);
    let y = run(py, || {
        let i = Tensor::arange_with(count, (DType::I64, device));
        let i = if half { i } else { i.lt((n + 1) / 2).where_(&i, &i - n) };
        (i.cast(DType::F64) / (n as f64 * d)).cast(dtype.part())
    })?;
    Ok(y.into())
}

/// The frequency 0 moved to the middle of axes; all axes by default.
#[pyfunction]
#[pyo3(signature = (x, /, *, axes = None))]
fn fftshift(py: Python<'_>, x: Data, axes: Option<AxisArg>) -> PyResult<Data> {
    let axes = axes_of(py, axes, x.rank())?;
    run(py, || x.map(|t| t.fftshift(&axes[..])))
}

/// Inverse of ``fftshift``.
#[pyfunction]
#[pyo3(signature = (x, /, *, axes = None))]
fn ifftshift(py: Python<'_>, x: Data, axes: Option<AxisArg>) -> PyResult<Data> {
    let axes = axes_of(py, axes, x.rank())?;
    run(py, || x.map(|t| t.ifftshift(&axes[..])))
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let fourier = PyModule::new(module.py(), "_fft")?;
    let m = &fourier;
    register!(m; fft, ifft, rfft, irfft, hfft, ihfft, fftn, ifftn, rfftn, irfftn, fftfreq, rfftfreq, fftshift, ifftshift);
    module.add("_fft", fourier)
}
