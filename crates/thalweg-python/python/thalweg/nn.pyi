# Written by stubs.py from the signatures of the built module.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, SupportsIndex

from thalweg import Array, ArrayLike, Axis, DTypeLike, Shape

def attention(query: Array, key: Array, value: Array, /, *, mask: Array | None = None, causal: builtins.bool = False, scale: float | None = None) -> Array:
    """Attention ``softmax(q @ k.mT * scale + mask) @ v`` in one kernel where the device has it.

    Shapes are ``[..., length, width]``; queries may have a multiple of the heads of keys. ``mask`` is bool (True: attend)
    or added to the scores; ``scale`` is ``1 / sqrt(width)`` by default.
    """

def avg_pool1d(x: Array, window: Axis, /, *, stride: Axis | None = None, padding: Axis | str | None = None, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Array:
    """Mean of windows over the last 1 axes. Windows do not overlap unless ``stride`` is given."""

def avg_pool2d(x: Array, window: Axis, /, *, stride: Axis | None = None, padding: Axis | str | None = None, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Array:
    """Mean of windows over the last 2 axes. Windows do not overlap unless ``stride`` is given."""

def avg_pool3d(x: Array, window: Axis, /, *, stride: Axis | None = None, padding: Axis | str | None = None, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Array:
    """Mean of windows over the last 3 axes. Windows do not overlap unless ``stride`` is given."""

def bce_with_logits(x: Array, target: Array, /, *, reduction: Literal["mean", "sum", "none"] = 'mean') -> Array:
    """Binary cross entropy of logits and targets from 0 to 1."""

def conv1d(x: Array, weight: Array, bias: Array | None = None, /, *, stride: Axis | None = None, padding: Axis | str | None = None, dilation: Axis | None = None, groups: int = 1) -> Array:
    """Convolution over 1 axes: ``x`` is ``[samples, in, ...]``, ``weight`` ``[out, in/groups, ...]``.

    ``stride``, ``padding`` and ``dilation`` are ints or lists; ``padding`` may be "same".
    """

def conv2d(x: Array, weight: Array, bias: Array | None = None, /, *, stride: Axis | None = None, padding: Axis | str | None = None, dilation: Axis | None = None, groups: int = 1) -> Array:
    """Convolution over 2 axes: ``x`` is ``[samples, in, ...]``, ``weight`` ``[out, in/groups, ...]``.

    ``stride``, ``padding`` and ``dilation`` are ints or lists; ``padding`` may be "same".
    """

def conv3d(x: Array, weight: Array, bias: Array | None = None, /, *, stride: Axis | None = None, padding: Axis | str | None = None, dilation: Axis | None = None, groups: int = 1) -> Array:
    """Convolution over 3 axes: ``x`` is ``[samples, in, ...]``, ``weight`` ``[out, in/groups, ...]``.

    ``stride``, ``padding`` and ``dilation`` are ints or lists; ``padding`` may be "same".
    """

def conv_transpose1d(x: Array, weight: Array, bias: Array | None = None, /, *, stride: Axis | None = None, padding: Axis | str | None = None, output_padding: Axis | None = None, dilation: Axis | None = None, groups: int = 1) -> Array:
    """Transposed convolution over 1 axes: ``weight`` is ``[in, out/groups, ...]``."""

def conv_transpose2d(x: Array, weight: Array, bias: Array | None = None, /, *, stride: Axis | None = None, padding: Axis | str | None = None, output_padding: Axis | None = None, dilation: Axis | None = None, groups: int = 1) -> Array:
    """Transposed convolution over 2 axes: ``weight`` is ``[in, out/groups, ...]``."""

def conv_transpose3d(x: Array, weight: Array, bias: Array | None = None, /, *, stride: Axis | None = None, padding: Axis | str | None = None, output_padding: Axis | None = None, dilation: Axis | None = None, groups: int = 1) -> Array:
    """Transposed convolution over 3 axes: ``weight`` is ``[in, out/groups, ...]``."""

def cross_entropy(logits: Array, target: Array, /, *, reduction: Literal["mean", "sum", "none"] = 'mean', ignore: int = ..., label_smoothing: float = 0.0) -> Array:
    """Cross entropy of logits (classes in axis 1, or 0 of a vector) and integer classes. ``ignore`` is a class that does not
    count.
    """

def dropout(x: Array, /, p: float = 0.5) -> Array:
    """Each element kept with probability ``1 - p`` and divided by it, else 0."""

def elu(x: Array, /, *, alpha: float = ...) -> Array:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""

def embedding(indices: Array, table: Array, /) -> Array:
    """Rows of a table (vocabulary × width) at integer indices."""

def gelu(x: Array, /, *, approximate: Literal["none", "tanh"] = 'none') -> Array:
    """Gaussian error linear unit ``x * Φ(x)``; with ``approximate="tanh"`` by its tanh formula."""

def group_norm(x: Array, groups: int, /, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-05) -> Array:
    """Normalization of groups of channels (axis 1), times ``weight``, plus ``bias`` of each channel."""

def hardswish(x: Array, /) -> Array:
    """``x * min(max(x + 3, 0), 6) / 6``."""

def interpolate(x: Array, sizes: Axis, /, *, mode: str = 'nearest', align_corners: builtins.bool = False) -> Array:
    """The last axes resized: "nearest", "linear" or "cubic" interpolation."""

def kl_div(x: Array, target: Array, /, *, reduction: Literal["mean", "sum", "none"] = 'mean') -> Array:
    """Kullback-Leibler divergence of log-probabilities and target probabilities."""

def l1_loss(x: Array, target: Array, /, *, reduction: Literal["mean", "sum", "none"] = 'mean') -> Array:
    """Magnitudes of differences, averaged by default."""

def layer_norm(x: Array, /, weight: Array | None = None, bias: Array | None = None, *, axis: Axis | None = ..., eps: float = 1e-05) -> Array:
    """``(x - mean) / sqrt(var + eps)`` over axes, times ``weight``, plus ``bias``."""

def leaky_relu(x: Array, /, *, slope: float = ...) -> Array:
    """``x`` where it is positive, else ``slope * x``."""

def linear(x: Array, weight: Array, bias: Array | None = None, /) -> Array:
    """``x @ weight.mT + bias``: weights are ``[out, in]``."""

def log_sigmoid(x: Array, /) -> Array:
    """``log(sigmoid(x))``."""

def log_softmax(x: Array, /, *, axis: Axis | None = ...) -> Array:
    """Logarithm of ``softmax``, without overflow."""

def max_pool1d(x: Array, window: Axis, /, *, stride: Axis | None = None, padding: Axis | str | None = None, ceil_mode: builtins.bool = False) -> Array:
    """Maximum of windows over the last 1 axes. Windows do not overlap unless ``stride`` is given."""

def max_pool2d(x: Array, window: Axis, /, *, stride: Axis | None = None, padding: Axis | str | None = None, ceil_mode: builtins.bool = False) -> Array:
    """Maximum of windows over the last 2 axes. Windows do not overlap unless ``stride`` is given."""

def max_pool3d(x: Array, window: Axis, /, *, stride: Axis | None = None, padding: Axis | str | None = None, ceil_mode: builtins.bool = False) -> Array:
    """Maximum of windows over the last 3 axes. Windows do not overlap unless ``stride`` is given."""

def mish(x: Array, /) -> Array:
    """``x * tanh(softplus(x))``."""

def mse_loss(x: Array, target: Array, /, *, reduction: Literal["mean", "sum", "none"] = 'mean') -> Array:
    """Squared differences, averaged by default."""

def one_hot(indices: Array, classes: int, /) -> Array:
    """A new last axis that is 1 at each index and 0 elsewhere, as int64."""

def relu(x: Array, /) -> Array:
    """``max(x, 0)``."""

def relu6(x: Array, /) -> Array:
    """``min(max(x, 0), 6)``."""

def rms_norm(x: Array, /, weight: Array | None = None, *, axis: Axis | None = ..., eps: float = 1e-06) -> Array:
    """``x / sqrt(mean(x**2) + eps)`` over axes, times ``weight``."""

def selu(x: Array, /) -> Array:
    """Scaled exponential linear unit."""

def sigmoid(x: Array, /) -> Array:
    """``1 / (1 + exp(-x))``."""

def silu(x: Array, /) -> Array:
    """``x * sigmoid(x)``, also called swish."""

def softmax(x: Array, /, *, axis: Axis | None = ...) -> Array:
    """Exponentials along an axis, divided by their sum."""

def softplus(x: Array, /) -> Array:
    """``log(1 + exp(x))`` without overflow."""

