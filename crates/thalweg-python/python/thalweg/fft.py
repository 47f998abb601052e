"""Fourier transforms: the extension ``fft`` of the array API standard.

Transforms take float32, float64, complex64 and complex128 (integers are converted) and have gradients.
"""

from thalweg import _thalweg

_fft = getattr(_thalweg, "_fft", None)
__all__ = sorted(name for name in vars(_fft) if not name.startswith("_")) if _fft else []
globals().update({name: getattr(_fft, name) for name in __all__})
