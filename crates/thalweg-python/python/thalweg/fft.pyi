# Written by stubs.py from the signatures of the built module.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, SupportsIndex

from thalweg import Array, ArrayLike, Axis, DTypeLike, Shape

def fft(x: Array, /, *, n: int | None = None, axis: Axis | None = ..., norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Discrete Fourier transform along an axis, as complex numbers.

    ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
    (the inverse is divided by n), "ortho" (both by its root) or "forward".
    """

def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Sample frequencies of ``fft`` of ``n`` samples at distance ``d``."""

def fftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axis | None = None, norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Discrete Fourier transform along several axes, as complex numbers.

    ``s`` are numbers of samples along ``axes``, which are all axes, or the last ones, by default. ``norm`` as
    for ``fft``.
    """

def fftshift(x: Array, /, *, axes: Axis | None = None) -> Array:
    """The frequency 0 moved to the middle of axes; all axes by default."""

def hfft(x: Array, /, *, n: int | None = None, axis: Axis | None = ..., norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Transform of numbers whose other half is conjugate; it is real.

    ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
    (the inverse is divided by n), "ortho" (both by its root) or "forward".
    """

def ifft(x: Array, /, *, n: int | None = None, axis: Axis | None = ..., norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Inverse of ``fft``.

    ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
    (the inverse is divided by n), "ortho" (both by its root) or "forward".
    """

def ifftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axis | None = None, norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Inverse of ``fftn``.

    ``s`` are numbers of samples along ``axes``, which are all axes, or the last ones, by default. ``norm`` as
    for ``fft``.
    """

def ifftshift(x: Array, /, *, axes: Axis | None = None) -> Array:
    """Inverse of ``fftshift``."""

def ihfft(x: Array, /, *, n: int | None = None, axis: Axis | None = ..., norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Inverse of ``hfft``.

    ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
    (the inverse is divided by n), "ortho" (both by its root) or "forward".
    """

def irfft(x: Array, /, *, n: int | None = None, axis: Axis | None = ..., norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Inverse of ``rfft``: ``n`` real numbers, by default ``2 * (m - 1)`` of ``m``.

    ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
    (the inverse is divided by n), "ortho" (both by its root) or "forward".
    """

def irfftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axis | None = None, norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """Inverse of ``rfftn``.

    ``s`` are numbers of samples along ``axes``, which are all axes, or the last ones, by default. ``norm`` as
    for ``fft``.
    """

def rfft(x: Array, /, *, n: int | None = None, axis: Axis | None = ..., norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """First ``n // 2 + 1`` results of the transform of real numbers; the others are their conjugates.

    ``n`` samples are taken along ``axis``: more than there are is padding with zeros. ``norm`` is "backward"
    (the inverse is divided by n), "ortho" (both by its root) or "forward".
    """

def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Sample frequencies of ``rfft`` of ``n`` samples at distance ``d``."""

def rfftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axis | None = None, norm: Literal["backward", "ortho", "forward"] = 'backward') -> Array:
    """``rfft`` along the last of the axes, then ``fft`` along the others.

    ``s`` are numbers of samples along ``axes``, which are all axes, or the last ones, by default. ``norm`` as
    for ``fft``.
    """

