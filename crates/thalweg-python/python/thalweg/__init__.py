"""Arrays by the array API standard, recorded lazily and run as fused kernels on CPUs and NVIDIA GPUs.

>>> import thalweg as tw
>>> x = tw.linspace(0.0, 1.0, 5)
>>> y = tw.exp(x) * 2 + 1           # recorded: nothing has run yet
>>> float(tw.sum(y))                # a value is asked for: now it runs, as one kernel
22.496...

Namespace
---------
The functions of the standard (2025.12) by their names: ``asarray``, ``zeros``, ``sum``, ``concat``, ``unique_all`` …,
``thalweg.linalg`` and ``thalweg.fft``. Beyond it: ``grad``, ``value_and_grad``, ``vjp``, ``jvp`` (gradients), ``explain``
(what shared a kernel, and why), ``counters``, ``synchronize``, ``thalweg.random``, and ``thalweg.nn`` (activations, norms,
attention, convolutions, losses).

Rules
-----
* Dtypes are promoted as in NumPy 2; Python scalars are weak. Without a dtype, floats are float64 (``set_default_dtype``).
* Indexing is NumPy's. Slices are no views: ``x[0] = 1`` changes ``x`` alone.
* An index array out of range is an IndexError where a value is read, because only then its elements are known.
* The GIL is released while anything is recorded or runs. A process that forks after use has to start again: use "spawn".
"""

import atexit as _atexit

from thalweg import _thalweg
from thalweg._thalweg import *  # noqa: F403
from thalweg._thalweg import _dtype, _from_bytes, __version__  # noqa: F401
from thalweg._info import __array_namespace_info__
from thalweg._results import (  # noqa: F401
    UniqueAllResult,
    UniqueCountsResult,
    UniqueInverseResult,
    unique_all,
    unique_counts,
    unique_inverse,
)
from thalweg import linalg, fft, random, nn  # noqa: E402

__array_api_version__ = "2025.12"

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

# NumPy's names of the standard's functions.
concatenate = concat  # noqa: F405
transpose = permute_dims  # noqa: F405
arccos, arccosh, arcsin, arcsinh = acos, acosh, asin, asinh  # noqa: F405
arctan, arctan2, arctanh = atan, atan2, atanh  # noqa: F405
power = pow  # noqa: F405
array = asarray  # noqa: F405

_atexit.register(_thalweg._shutdown)


def __dir__():
    return sorted(__all__)


__all__ = sorted(
    name
    for name in globals()
    if not name.startswith("_") or name in ("__version__", "__array_api_version__", "__array_namespace_info__")
)

for _name in __all__:
    _value = globals()[_name]
    if getattr(_value, "__module__", None) == "thalweg._thalweg":
        try:
            _value.__module__ = "thalweg"
        except (AttributeError, TypeError):
            pass
del _name, _value
