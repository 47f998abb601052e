//! Functions of neural networks that NumPy has not: `thalweg.nn`. Names, layouts and defaults are PyTorch's.

use super::register;
use crate::error::{run, type_error, value_error};
use crate::functions::reduce::{AxisArg, axes_of, axis_of};
use crate::handle::Data;
use pyo3::prelude::*;
use thalweg::{Attention, Conv, ConvTranspose, Each, Interpolation, Padding, Pool, Shape, Tensor};

/// A real float array.
fn float(py: Python<'_>, name: &str, x: Data) -> PyResult<Tensor> {
    match x {
        Data::Real(x) if x.dtype().is_float() => Ok(x),
        other => Err(type_error(py, format!("{name}: takes a real float array, not {}", other.dtype().name()))),
    }
}

fn optional(py: Python<'_>, name: &str, x: Option<Data>) -> PyResult<Option<Tensor>> {
    x.map(|x| float(py, name, x)).transpose()
}

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident ($($arg:ident = $default:literal),*) |$x:ident| $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, /, *, $($arg = $default),*))]
            fn $name(py: Python<'_>, x: Data, $($arg: f64),*) -> PyResult<Data> {
                let $x = float(py, stringify!($name), x)?;
                Ok(run(py, || $body)?.into())
            }
        )*
    };
    (plain $($(#[$doc:meta])* $name:ident |$x:ident| $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, /))]
            fn $name(py: Python<'_>, x: Data) -> PyResult<Data> {
                let $x = float(py, stringify!($name), x)?;
                Ok(run(py, || $body)?.into())
            }
        )*
    };
}

activations! {
    plain
    /// ``max(x, 0)``.
    relu |x| x.relu();
    /// ``min(max(x, 0), 6)``.
    relu6 |x| x.relu6();
    /// ``x * sigmoid(x)``, also called swish.
    silu |x| x.silu();
    /// ``1 / (1 + exp(-x))``.
    sigmoid |x| x.sigmoid();
    /// ``log(1 + exp(x))`` without overflow.
    softplus |x| x.softplus();
    /// ``log(sigmoid(x))``.
    log_sigmoid |x| x.log_sigmoid();
    /// ``x * tanh(softplus(x))``.
    mish |x| x.mish();
    /// Scaled exponential linear unit.
    selu |x| x.selu();
    /// ``x * min(max(x + 3, 0), 6) / 6``.
    hardswish |x| x.hardswish();
}

activations! {
    /// ``x`` where it is positive, else ``slope * x``.
    leaky_relu (slope = 0.01) |x| x.leaky_relu(slope);
    /// ``x`` where it is positive, else ``alpha * (exp(x) - 1)``.
    elu (alpha = 1.0) |x| x.elu(alpha);
}

/// Gaussian error linear unit ``x * Φ(x)``; with ``approximate="tanh"`` by its tanh formula.
#[pyfunction]
#[pyo3(signature = (x, /, *, approximate = "none"))]
fn gelu(py: Python<'_>, x: Data, approximate: &str) -> PyResult<Data> {
    let x = float(py, "gelu", x)?;
    match approximate {
        "none" => Ok(run(py, || x.gelu())?.into()),
        "tanh" => Ok(run(py, || x.gelu_tanh())?.into()),
        other => Err(value_error(py, format!("gelu: approximate is \"none\" or \"tanh\", not {other:?}"))),
    }
}

/// Exponentials along an axis, divided by their sum.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = -1))]
fn softmax(py: Python<'_>, x: Data, axis: i64) -> PyResult<Data> {
    let axis = axis_of(py, axis, x.rank())?;
    let x = float(py, "softmax", x)?;
    Ok(run(py, || x.softmax(axis))?.into())
}

/// Logarithm of ``softmax``, without overflow.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = -1))]
fn log_softmax(py: Python<'_>, x: Data, axis: i64) -> PyResult<Data> {
    let axis = axis_of(py, axis, x.rank())?;
    let x = float(py, "log_softmax", x)?;
    Ok(run(py, || x.log_softmax(axis))?.into())
}

/// ``(x - mean) / sqrt(var + eps)`` over axes, times ``weight``, plus ``bias``.
#[pyfunction]
#[pyo3(signature = (x, /, weight = None, bias = None, *, axis = AxisArg(vec![-1]), eps = 1e-5))]
fn layer_norm(
    py: Python<'_>,
    x: Data,
    weight: Option<Data>,
    bias: Option<Data>,
    axis: AxisArg,
    eps: f64,
) -> PyResult<Data> {
    let axes = axes_of(py, Some(axis), x.rank())?;
    let x = float(py, "layer_norm", x)?;
    let (weight, bias) = (optional(py, "layer_norm", weight)?, optional(py, "layer_norm", bias)?);
    Ok(run(py, || x.layer_norm_with(&axes[..], weight.as_ref(), bias.as_ref(), eps))?.into())
}

/// ``x / sqrt(mean(x**2) + eps)`` over axes, times ``weight``.
#[pyfunction]
#[pyo3(signature = (x, /, weight = None, *, axis = AxisArg(vec![-1]), eps = 1e-6))]
fn rms_norm(py: Python<'_>, x: Data, weight: Option<Data>, axis: AxisArg, eps: f64) -> PyResult<Data> {
    let axes = axes_of(py, Some(axis), x.rank())?;
    let x = float(py, "rms_norm", x)?;
    let weight = optional(py, "rms_norm", weight)?;
    Ok(run(py, || x.rms_norm_with(&axes[..], weight.as_ref(), eps))?.into())
}

/// Normalization of groups of channels (axis 1), times ``weight``, plus ``bias`` of each channel.
#[pyfunction]
#[pyo3(signature = (x, groups, /, weight = None, bias = None, *, eps = 1e-5))]
fn group_norm(
    py: Python<'_>,
    x: Data,
    groups: usize,
    weight: Option<Data>,
    bias: Option<Data>,
    eps: f64,
) -> PyResult<Data> {
    let x = float(py, "group_norm", x)?;
    let (weight, bias) = (optional(py, "group_norm", weight)?, optional(py, "group_norm", bias)?);
    Ok(run(py, || x.group_norm(groups, weight.as_ref(), bias.as_ref(), eps))?.into())
}

/// ``x @ weight.mT + bias``: weights are ``[out, in]``.
#[pyfunction]
#[pyo3(signature = (x, weight, bias = None, /))]
fn linear(py: Python<'_>, x: Data, weight: Data, bias: Option<Data>) -> PyResult<Data> {
    let (x, weight) = (float(py, "linear", x)?, float(py, "linear", weight)?);
    let bias = optional(py, "linear", bias)?;
    Ok(run(py, || x.linear(&weight, bias.as_ref()))?.into())
}

/// Rows of a table (vocabulary × width) at integer indices.
#[pyfunction]
#[pyo3(signature = (indices, table, /))]
fn embedding(py: Python<'_>, indices: Data, table: Data) -> PyResult<Data> {
    let (indices, table) = (indices.real(py, "embedding")?, float(py, "embedding", table)?);
    Ok(run(py, || table.embedding(&indices))?.into())
}

/// A new last axis that is 1 at each index and 0 elsewhere, as int64.
#[pyfunction]
#[pyo3(signature = (indices, classes, /))]
fn one_hot(py: Python<'_>, indices: Data, classes: usize) -> PyResult<Data> {
    let indices = indices.real(py, "one_hot")?;
    Ok(run(py, || indices.one_hot(classes).cast(thalweg::DType::I64))?.into())
}

/// Attention ``softmax(q @ k.mT * scale + mask) @ v`` in one kernel where the device has it.
///
/// Shapes are ``[..., length, width]``; queries may have a multiple of the heads of keys. ``mask`` is bool (True: attend)
/// or added to the scores; ``scale`` is ``1 / sqrt(width)`` by default.
#[pyfunction]
#[pyo3(signature = (query, key, value, /, *, mask = None, causal = false, scale = None))]
fn attention(
    py: Python<'_>,
    query: Data,
    key: Data,
    value: Data,
    mask: Option<Data>,
    causal: bool,
    scale: Option<f64>,
) -> PyResult<Data> {
    let (q, k, v) = (float(py, "attention", query)?, float(py, "attention", key)?, float(py, "attention", value)?);
    let mask = mask.map(|m| m.real(py, "attention")).transpose()?;
    let y = run(py, || {
        let mut options = Attention::default().causal(causal);
        if let Some(mask) = &mask {
            options = options.mask(mask);
        }
        if let Some(scale) = scale {
            options = options.scale(scale);
        }
        q.scaled_dot_product_attention(&k, &v, options)
    })?;
    Ok(y.into())
}

/// Each element kept with probability ``1 - p`` and divided by it, else 0.
#[pyfunction]
#[pyo3(signature = (x, /, p = 0.5))]
fn dropout(py: Python<'_>, x: Data, p: f64) -> PyResult<Data> {
    let x = float(py, "dropout", x)?;
    if !(0.0..1.0).contains(&p) {
        return Err(value_error(py, format!("dropout: probability {p} is not from 0 to below 1")));
    }
    Ok(run(py, || x.dropout(p))?.into())
}

fn reduction_of(py: Python<'_>, name: &str, reduction: &str) -> PyResult<thalweg::Reduction> {
    match reduction {
        "mean" => Ok(thalweg::Reduction::Mean),
        "sum" => Ok(thalweg::Reduction::Sum),
        "none" => Ok(thalweg::Reduction::None),
        other => Err(value_error(py, format!("{name}: reduction is \"mean\", \"sum\" or \"none\", not {other:?}"))),
    }
}

/// Cross entropy of logits (classes in axis 1, or 0 of a vector) and integer classes. ``ignore`` is a class that does not
/// count.
#[pyfunction]
#[pyo3(signature = (logits, target, /, *, reduction = "mean", ignore = -100, label_smoothing = 0.0))]
fn cross_entropy(
    py: Python<'_>,
    logits: Data,
    target: Data,
    reduction: &str,
    ignore: i64,
    label_smoothing: f64,
) -> PyResult<Data> {
    let (x, target) = (float(py, "cross_entropy", logits)?, target.real(py, "cross_entropy")?);
    let options = thalweg::ClassLoss::default()
        .reduction(reduction_of(py, "cross_entropy", reduction)?)
        .ignore(ignore)
        .smoothing(label_smoothing);
    Ok(run(py, || x.cross_entropy_with(&target, &options))?.into())
}

macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, target, /, *, reduction = "mean"))]
            fn $name(py: Python<'_>, x: Data, target: Data, reduction: &str) -> PyResult<Data> {
                let (x, target) = (float(py, stringify!($name), x)?, float(py, stringify!($name), target)?);
                let by = reduction_of(py, stringify!($name), reduction)?;
                Ok(run(py, || x.$name(&target, by))?.into())
            }
        )*
    };
}

losses! {
    /// Squared differences, averaged by default.
    mse_loss;
    /// Magnitudes of differences, averaged by default.
    l1_loss;
    /// Binary cross entropy of logits and targets from 0 to 1.
    bce_with_logits;
    /// Kullback-Leibler divergence of log-probabilities and target probabilities.
    kl_div;
}

/// A number for each axis: one int for all, or a list.
fn each<const N: usize>(
    py: Python<'_>,
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
    default: usize,
) -> PyResult<[usize; N]> {
    let Some(object) = object else { return Ok([default; N]) };
    if let Ok(one) = object.extract::<usize>() {
        return Ok([one; N]);
    }
    let list: Vec<usize> = object.extract()?;
    list.try_into().map_err(|l: Vec<usize>| value_error(py, format!("{name}: {} numbers for {N} axes", l.len())))
}

/// Padding: an int, a list, "same" or "valid".
fn padding<const N: usize>(py: Python<'_>, name: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Padding<N>> {
    match object.map(|o| o.extract::<String>()) {
        Some(Ok(text)) if text == "same" => Ok(Padding::Same),
        Some(Ok(text)) if text == "valid" => Ok(Padding::Valid),
        Some(Ok(text)) => {
            Err(value_error(py, format!("{name}: padding is numbers, \"same\" or \"valid\", not {text:?}")))
        }
        _ => Ok(Padding::from(each::<N>(py, name, object, 0)?)),
    }
}

macro_rules! convolutions {
    ($($n:literal $conv:ident $transpose:ident $max:ident $avg:ident;)*) => {
        $(
            #[doc = concat!("Convolution over ", stringify!($n), " axes: ``x`` is ``[samples, in, ...]``, ``weight`` ``[out, in/groups, ...]``.")]
            ///
            /// ``stride``, ``padding`` and ``dilation`` are ints or lists; ``padding`` may be "same".
            #[pyfunction]
            #[pyo3(signature = (x, weight, bias = None, /, *, stride = None, padding = None, dilation = None, groups = 1))]
            #[expect(clippy::too_many_arguments, reason = "PyTorch's")]
            fn $conv(
                py: Python<'_>,
                x: Data,
                weight: Data,
                bias: Option<Data>,
                stride: Option<&Bound<'_, PyAny>>,
                padding: Option<&Bound<'_, PyAny>>,
                dilation: Option<&Bound<'_, PyAny>>,
                groups: usize,
            ) -> PyResult<Data> {
                const NAME: &str = stringify!($conv);
                let (x, weight) = (float(py, NAME, x)?, float(py, NAME, weight)?);
                let bias = optional(py, NAME, bias)?;
                let options = Conv::<$n>::default()
                    .stride(Each(each(py, NAME, stride, 1)?))
                    .padding(self::padding(py, NAME, padding)?)
                    .dilation(Each(each(py, NAME, dilation, 1)?))
                    .groups(groups);
                Ok(run(py, || x.$conv(&weight, bias.as_ref(), options))?.into())
            }

            #[doc = concat!("Transposed convolution over ", stringify!($n), " axes: ``weight`` is ``[in, out/groups, ...]``.")]
            #[pyfunction]
            #[pyo3(signature = (x, weight, bias = None, /, *, stride = None, padding = None, output_padding = None, dilation = None, groups = 1))]
            #[expect(clippy::too_many_arguments, reason = "PyTorch's")]
            fn $transpose(
                py: Python<'_>,
                x: Data,
                weight: Data,
                bias: Option<Data>,
                stride: Option<&Bound<'_, PyAny>>,
                padding: Option<&Bound<'_, PyAny>>,
                output_padding: Option<&Bound<'_, PyAny>>,
                dilation: Option<&Bound<'_, PyAny>>,
                groups: usize,
            ) -> PyResult<Data> {
                const NAME: &str = stringify!($transpose);
                let (x, weight) = (float(py, NAME, x)?, float(py, NAME, weight)?);
                let bias = optional(py, NAME, bias)?;
                let options = ConvTranspose::<$n>::default()
                    .stride(Each(each(py, NAME, stride, 1)?))
                    .padding(Each(each(py, NAME, padding, 0)?))
                    .output_padding(Each(each(py, NAME, output_padding, 0)?))
                    .dilation(Each(each(py, NAME, dilation, 1)?))
                    .groups(groups);
                Ok(run(py, || x.$transpose(&weight, bias.as_ref(), options))?.into())
            }

            #[doc = concat!("Maximum of windows over the last ", stringify!($n), " axes. Windows do not overlap unless ``stride`` is given.")]
            #[pyfunction]
            #[pyo3(signature = (x, window, /, *, stride = None, padding = None, ceil_mode = false))]
            fn $max(
                py: Python<'_>,
                x: Data,
                window: &Bound<'_, PyAny>,
                stride: Option<&Bound<'_, PyAny>>,
                padding: Option<&Bound<'_, PyAny>>,
                ceil_mode: bool,
            ) -> PyResult<Data> {
                const NAME: &str = stringify!($max);
                let x = float(py, NAME, x)?;
                let window = each::<$n>(py, NAME, Some(window), 1)?;
                let mut pool = Pool::<$n>::new(Each(window)).padding(self::padding(py, NAME, padding)?).ceil(ceil_mode);
                if stride.is_some() {
                    pool = pool.stride(Each(each(py, NAME, stride, 1)?));
                }
                Ok(run(py, || x.$max(pool))?.into())
            }

            #[doc = concat!("Mean of windows over the last ", stringify!($n), " axes. Windows do not overlap unless ``stride`` is given.")]
            #[pyfunction]
            #[pyo3(signature = (x, window, /, *, stride = None, padding = None, ceil_mode = false, count_include_pad = true))]
            fn $avg(
                py: Python<'_>,
                x: Data,
                window: &Bound<'_, PyAny>,
                stride: Option<&Bound<'_, PyAny>>,
                padding: Option<&Bound<'_, PyAny>>,
                ceil_mode: bool,
                count_include_pad: bool,
            ) -> PyResult<Data> {
                const NAME: &str = stringify!($avg);
                let x = float(py, NAME, x)?;
                let window = each::<$n>(py, NAME, Some(window), 1)?;
                let mut pool = Pool::<$n>::new(Each(window))
                    .padding(self::padding(py, NAME, padding)?)
                    .ceil(ceil_mode)
                    .count_padding(count_include_pad);
                if stride.is_some() {
                    pool = pool.stride(Each(each(py, NAME, stride, 1)?));
                }
                Ok(run(py, || x.$avg(pool))?.into())
            }
        )*
    };
}

convolutions! {
    1 conv1d conv_transpose1d max_pool1d avg_pool1d;
    2 conv2d conv_transpose2d max_pool2d avg_pool2d;
    3 conv3d conv_transpose3d max_pool3d avg_pool3d;
}

/// The last axes resized: "nearest", "linear" or "cubic" interpolation.
#[pyfunction]
#[pyo3(signature = (x, sizes, /, *, mode = "nearest", align_corners = false))]
fn interpolate(py: Python<'_>, x: Data, sizes: Vec<usize>, mode: &str, align_corners: bool) -> PyResult<Data> {
    let x = float(py, "interpolate", x)?;
    let by = match mode {
        "nearest" => Interpolation::Nearest,
        "linear" => Interpolation::Linear { align_corners },
        "cubic" => Interpolation::Cubic { align_corners },
        other => return Err(value_error(py, format!("interpolate: there is no mode {other:?}"))),
    };
    let sizes = Shape::new(&sizes);
    Ok(run(py, || x.interpolate(sizes, by))?.into())
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let nn = PyModule::new(module.py(), "_nn")?;
    let m = &nn;
    register!(m; relu, relu6, silu, sigmoid, softplus, log_sigmoid, mish, selu, hardswish, leaky_relu, elu, gelu, softmax,
        log_softmax, layer_norm, rms_norm, group_norm, linear, embedding, one_hot, attention, dropout, cross_entropy,
        mse_loss, l1_loss, bce_with_logits, kl_div, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d,
        conv_transpose3d, max_pool1d, max_pool2d, max_pool3d, avg_pool1d, avg_pool2d, avg_pool3d, interpolate);
    module.add("_nn", nn)
}
