# Written by stubs.py from the signatures of the built module.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, SupportsIndex

from thalweg import fft as fft, linalg as linalg, nn as nn, random as random

Scalar = builtins.bool | int | float | complex
ArrayLike = Array | Scalar
DTypeLike = DType | str | type
Shape = int | Sequence[int]
Axis = int | Sequence[int]
Index = int | slice | EllipsisType | None | Array | Sequence[int] | Sequence[builtins.bool]

class DType:
    """Dtype of an array: ``thalweg.float32``, ``thalweg.int64`` …

    Dtypes are equal to themselves and to their name: ``x.dtype == "float32"``.
    """

    @property
    def name(self) -> str:
        """Name of the dtype, as NumPy's."""

    @property
    def itemsize(self) -> int:
        """Number of bytes of an element."""

    @property
    def kind(self) -> str:
        """Kind, as NumPy's character: b bool, i signed integer, u unsigned integer, f float, c complex."""

class Array:
    """An array: elements of one dtype in a grid of up to eight dimensions, on one device.

    Arrays are created by ``asarray``, ``zeros``, ``arange`` and so on. An operation records what to do and returns at
    once. It runs when a value is read: by ``print``, ``float(x)``, ``bool(x)``, ``x.tolist()``, ``numpy.asarray(x)``,
    ``thalweg.synchronize()``. What was recorded until then shares kernels.

    Slices are no views: ``x[0] = 1`` changes ``x`` and no array that ``x`` was taken from.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions, as a tuple of ints."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def dtype(self) -> DType:
        """Dtype of the elements."""

    @property
    def itemsize(self) -> int:
        """Number of bytes of an element."""

    @property
    def nbytes(self) -> int:
        """Number of bytes of all elements."""

    @property
    def device(self) -> str:
        """Name of the device: ``"cpu"``, ``"cuda:0"``."""

    @property
    def T(self) -> Array:
        """The matrix with rows and columns exchanged. Takes two dimensions."""

    @property
    def mT(self) -> Array:
        """Matrices with rows and columns exchanged: the last two dimensions."""

    @property
    def real(self) -> Array:
        """Real parts."""

    @property
    def imag(self) -> Array:
        """Imaginary parts; zeros for real arrays."""

    def item(self, /) -> Scalar:
        """The only element as a Python bool, int, float or complex. Waits until it is computed."""

    def tolist(self, /) -> Any:
        """The elements as nested lists of Python scalars. Waits until they are computed."""

    def astype(self, dtype: DTypeLike | None, /, *, copy: builtins.bool | None = True) -> Array:
        """The array with elements of another dtype. Without ``copy`` an array of that dtype is returned itself."""

    def copy(self, /) -> Array:
        """A copy: another handle of the same values, which assignments to either do not change."""

    def reshape(self, /, *shape: Shape) -> Array:
        """The array with other sizes, in the same row-major order; one size may be -1."""

    def flatten(self, /) -> Array:
        """All elements in one dimension, in row-major order."""

    def to_device(self, device: str | None, /, *, stream: Any = None) -> Array:
        """The array on another device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``. Computes the value first."""

    def sum(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Sum over axes; see ``thalweg.sum``."""

    def prod(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Product over axes; see ``thalweg.prod``."""

    def mean(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Mean over axes; see ``thalweg.mean``."""

    def max(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Maximum over axes; see ``thalweg.max``."""

    def min(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Minimum over axes; see ``thalweg.min``."""

    def any(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Whether any element is true; see ``thalweg.any``."""

    def all(self, /, axis: Axis | None = None, *, keepdims: builtins.bool = False) -> Array:
        """Whether all elements are true; see ``thalweg.all``."""

    def __add__(self, other: ArrayLike, /) -> Array: ...
    def __radd__(self, other: ArrayLike, /) -> Array: ...
    def __iadd__(self, other: ArrayLike, /) -> Array: ...
    def __sub__(self, other: ArrayLike, /) -> Array: ...
    def __rsub__(self, other: ArrayLike, /) -> Array: ...
    def __isub__(self, other: ArrayLike, /) -> Array: ...
    def __mul__(self, other: ArrayLike, /) -> Array: ...
    def __rmul__(self, other: ArrayLike, /) -> Array: ...
    def __imul__(self, other: ArrayLike, /) -> Array: ...
    def __truediv__(self, other: ArrayLike, /) -> Array: ...
    def __rtruediv__(self, other: ArrayLike, /) -> Array: ...
    def __itruediv__(self, other: ArrayLike, /) -> Array: ...
    def __floordiv__(self, other: ArrayLike, /) -> Array: ...
    def __rfloordiv__(self, other: ArrayLike, /) -> Array: ...
    def __ifloordiv__(self, other: ArrayLike, /) -> Array: ...
    def __mod__(self, other: ArrayLike, /) -> Array: ...
    def __rmod__(self, other: ArrayLike, /) -> Array: ...
    def __imod__(self, other: ArrayLike, /) -> Array: ...
    def __pow__(self, other: ArrayLike, /) -> Array: ...
    def __rpow__(self, other: ArrayLike, /) -> Array: ...
    def __ipow__(self, other: ArrayLike, /) -> Array: ...
    def __and__(self, other: ArrayLike, /) -> Array: ...
    def __rand__(self, other: ArrayLike, /) -> Array: ...
    def __iand__(self, other: ArrayLike, /) -> Array: ...
    def __or__(self, other: ArrayLike, /) -> Array: ...
    def __ror__(self, other: ArrayLike, /) -> Array: ...
    def __ior__(self, other: ArrayLike, /) -> Array: ...
    def __xor__(self, other: ArrayLike, /) -> Array: ...
    def __rxor__(self, other: ArrayLike, /) -> Array: ...
    def __ixor__(self, other: ArrayLike, /) -> Array: ...
    def __lshift__(self, other: ArrayLike, /) -> Array: ...
    def __rlshift__(self, other: ArrayLike, /) -> Array: ...
    def __ilshift__(self, other: ArrayLike, /) -> Array: ...
    def __rshift__(self, other: ArrayLike, /) -> Array: ...
    def __rrshift__(self, other: ArrayLike, /) -> Array: ...
    def __irshift__(self, other: ArrayLike, /) -> Array: ...
    def __matmul__(self, other: ArrayLike, /) -> Array: ...
    def __rmatmul__(self, other: ArrayLike, /) -> Array: ...
    def __imatmul__(self, other: ArrayLike, /) -> Array: ...
    def __lt__(self, other: ArrayLike, /) -> Array: ...
    def __le__(self, other: ArrayLike, /) -> Array: ...
    def __gt__(self, other: ArrayLike, /) -> Array: ...
    def __ge__(self, other: ArrayLike, /) -> Array: ...
    def __eq__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]
    def __neg__(self) -> Array: ...
    def __pos__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __getitem__(self, key: Index | tuple[Index, ...], /) -> Array: ...
    def __setitem__(self, key: Index | tuple[Index, ...], value: Any, /) -> None: ...
    def __bool__(self) -> builtins.bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __contains__(self, value: Any, /) -> builtins.bool: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType: ...
    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: builtins.bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = None, *, copy: builtins.bool | None = None) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class finfo_object:
    """Limits of a float dtype; for a complex one those of its parts."""

    @property
    def bits(self) -> int:
        """Number of bits of an element."""

    @property
    def eps(self) -> float:
        """Difference between 1 and the next larger number."""

    @property
    def max(self) -> float:
        """Largest finite number."""

    @property
    def min(self) -> float:
        """Smallest finite number."""

    @property
    def smallest_normal(self) -> float:
        """Smallest positive number of full precision."""

    @property
    def tiny(self) -> float:
        """Alias of ``smallest_normal``, NumPy's name."""

    @property
    def dtype(self) -> DType:
        """The dtype."""

class iinfo_object:
    """Limits of an integer dtype."""

    @property
    def bits(self) -> int:
        """Number of bits of an element."""

    @property
    def max(self) -> int:
        """Largest number."""

    @property
    def min(self) -> int:
        """Smallest number."""

    @property
    def dtype(self) -> DType:
        """The dtype."""

class Explanation:
    """Explanation of a call: which operations shared a kernel, bytes moved, and why the rest was not fused.

    ``print`` shows it as text, a notebook as HTML.
    """

    @property
    def kernels(self) -> int:
        """Number of kernels that ran."""

    @property
    def kernels_unfused(self) -> int:
        """Number of kernels without fusion."""

    def json(self, /) -> str:
        """The explanation as JSON text."""

    def html(self, /, title: str = 'thalweg') -> str:
        """The explanation as an HTML page."""

class AxisError(ValueError, IndexError):
    """An axis that does not exist: a ValueError and an IndexError, as NumPy's."""

class __array_namespace_info__:
    """Capabilities, devices and dtypes of this namespace."""

    def capabilities(self) -> dict[str, Any]:
        """What the standard leaves open: boolean indexing and data-dependent shapes are there; ranks go up to 8."""

    def default_device(self) -> str:
        """Name of the device of arrays created without one."""

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Dtypes of arrays created without one, by kind."""

    def devices(self) -> tuple[str, ...]:
        """Names of the devices."""

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that are there, by name; those of a kind, or of a tuple of kinds."""

class UniqueAllResult(NamedTuple):
    """Result of ``unique_all``."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array

class UniqueCountsResult(NamedTuple):
    """Result of ``unique_counts``."""

    values: Array
    counts: Array

class UniqueInverseResult(NamedTuple):
    """Result of ``unique_inverse``."""

    values: Array
    inverse_indices: Array

__array_api_version__: str
__version__: str
def abs(x: Array, /) -> Array:
    """Magnitude of each element. Integers keep their dtype; complex numbers give their parts' dtype."""

def acos(x: Array, /) -> Array:
    """Inverse cosine in radians; NaN outside [-1, 1] for real numbers."""

def acosh(x: Array, /) -> Array:
    """Inverse hyperbolic cosine; NaN below 1 for real numbers."""

def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Sum ``x1 + x2``. Arrays broadcast; dtypes are promoted. The sum of bools is their logical or."""

def all(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Whether all elements along axes are true, or not 0."""

def any(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Whether any element along axes is true, or not 0."""

def arange(start: float, /, stop: float | None = None, step: float | None = None, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Numbers from ``start`` on in steps of ``step``, below ``stop``; with one argument from 0 on.

    By default int64 if all arguments are ints, else float64.
    """

def argmax(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Index of the first largest element along an axis, as int64; of the flattened array by default. NaN is the largest."""

def argmin(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Index of the first smallest element along an axis, as int64; of the flattened array by default. NaN is the smallest."""

def argsort(x: Array, /, *, axis: Axis | None = ..., descending: builtins.bool = False, stable: builtins.bool = True) -> Array:
    """Indices that sort along an axis, as int64. The sort is stable; NaN is larger than every number."""

def asarray(obj: Any, /, *, dtype: DTypeLike | None = None, device: str | None = None, copy: builtins.bool | None = None) -> Array:
    """An array of Python scalars, nested lists, or an array of another library.

    Parameters
    ----------
    obj : scalar, nested lists or tuples, Array, or an object with the buffer protocol or DLPack (NumPy, PyTorch)
    dtype : dtype of the result; by default that of the data, for Python scalars bool, int64, float64 or complex128
    device : "cpu", "cuda", "cuda:1"; by default that of the data, or the fastest
    copy : True copies, False raises ValueError where data has to be copied, None copies where needed: an Array of that
        dtype and device is returned itself. Memory of another library is copied unless ``copy=False``: its owner may
        change it later. See ``from_dlpack``, which shares.
    """

def asin(x: Array, /) -> Array:
    """Inverse sine in radians; NaN outside [-1, 1] for real numbers."""

def asinh(x: Array, /) -> Array:
    """Inverse hyperbolic sine."""

def astype(x: Array, dtype: DTypeLike | None, /, *, copy: builtins.bool | None = True, device: str | None = None) -> Array:
    """The array with elements of another dtype, on another device if one is given. Without ``copy`` an array of that dtype and
    device is returned itself.
    """

def atan(x: Array, /) -> Array:
    """Inverse tangent in radians."""

def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Angle of the point ``(x2, x1)`` from the positive x axis, in radians from -π to π."""

def atanh(x: Array, /) -> Array:
    """Inverse hyperbolic tangent; NaN outside [-1, 1] for real numbers."""

bfloat16: DType
def bincount(x: Array, /, *, weights: Array | None = None, minlength: int = 0) -> Array:
    """Number of each value in a vector of integers that are not negative, as int64; with ``weights`` the sum of these for
    each value, as floats. Waits for the largest.
    """

def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Bitwise and of integers; logical and of bools."""

def bitwise_invert(x: Array, /) -> Array:
    """Bits of integers inverted; logical negation of bools."""

def bitwise_left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 << x2`` of integers."""

def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Bitwise or of integers; logical or of bools."""

def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 >> x2`` of integers; the sign is kept."""

def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Bitwise exclusive or of integers; logical one of bools."""

bool: DType
def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Arrays broadcast to their common shape."""

def broadcast_shapes(*shapes: Shape) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""

def broadcast_to(x: Array, /, shape: Shape) -> Array:
    """The array broadcast to a shape."""

def can_cast(from_: Any, to: DTypeLike, /) -> builtins.bool:
    """Whether a dtype (or an array's) converts to another without loss, by the rules of promotion."""

def ceil(x: Array, /) -> Array:
    """Smallest integer not below ``x``, in its dtype."""

def clip(x: Array, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Elements of ``x`` limited to at least ``min`` and at most ``max``, in the dtype of ``x``.

    Bounds are arrays or numbers, and broadcast; None is no bound.
    """

complex128: DType
complex64: DType
def concat(arrays: Sequence[Array], /, *, axis: Axis | None = ...) -> Array:
    """Arrays joined along an axis; ``axis=None`` joins their flattened elements. Dtypes are promoted."""

def conj(x: Array, /) -> Array:
    """Complex conjugate; real numbers are returned unchanged."""

def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Magnitude of ``x1`` with the sign of ``x2``."""

def cos(x: Array, /) -> Array:
    """Cosine of radians."""

def cosh(x: Array, /) -> Array:
    """Hyperbolic cosine."""

def count_nonzero(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Number of elements that are not 0, as int64."""

def counters() -> dict[str, int]:
    """Counters of this process: kernels, bytes, plans and so on, as a dict. They only increase, so differences count a part
    of a program.
    """

def cumulative_prod(x: Array, /, *, axis: Axis | None = None, dtype: DTypeLike | None = None, include_initial: builtins.bool = False) -> Array:
    """Running product along an axis, which may be left out for one dimension. With ``include_initial`` a 1 comes first."""

def cumulative_sum(x: Array, /, *, axis: Axis | None = None, dtype: DTypeLike | None = None, include_initial: builtins.bool = False) -> Array:
    """Running sum along an axis, which may be left out for one dimension. With ``include_initial`` a 0 comes first."""

def default_device() -> str:
    """Name of the device of arrays created without one."""

def devices() -> list[str]:
    """Names of the devices: ``["cpu", "cuda:0"]``."""

def diff(x: Array, /, n: int = 1, *, axis: Axis | None = ..., prepend: Array | None = None, append: Array | None = None) -> Array:
    """Differences of neighbouring elements along an axis, ``n`` times. ``prepend`` and ``append`` are joined before."""

def digamma(x: Array, /) -> Array:
    """Derivative of ``lgamma``."""

def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Quotient ``x1 / x2``. Integers give the default float dtype."""

e: float
def einsum(subscripts: str, /, *operands: Array) -> Array:
    """Sum of products of any arrays by Einstein's notation: ``einsum("bij,bjk->bik", x, y)``."""

def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Zeros of a shape: arrays are immutable values, so none is uninitialised."""

def empty_like(x: Array, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Zeros of the shape, dtype and device of ``x``."""

def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether elements are equal, as bool."""

def erf(x: Array, /) -> Array:
    """Error function."""

def erfc(x: Array, /) -> Array:
    """``1 - erf(x)``, accurate where it is small."""

def erfinv(x: Array, /) -> Array:
    """Inverse error function."""

def exp(x: Array, /) -> Array:
    """Exponential function."""

def exp2(x: Array, /) -> Array:
    """``2 ** x``."""

def expand_dims(x: Array, /, axis: Axis | None = ...) -> Array:
    """A new axis of size 1 at position ``axis``, or at several positions of the result."""

def explain(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Calls ``f(*args, **kwargs)`` for about half a second and at least eight times, until its plans are found and have been
    measured, and explains a call. The time of a kernel is its median over several calls. Only this thread's work is
    reported; backward passes of PyTorch run on it meanwhile.

    If ``f`` must not be called more than once, use ``explain_once``.
    """

def explain_once(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Calls ``f(*args, **kwargs)`` once, runs everything that was recorded, and explains it. Times include the compilation of
    kernels that are new. Only this thread's work is reported.
    """

def expm1(x: Array, /) -> Array:
    """``exp(x) - 1``, accurate near 0."""

def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Ones on diagonal ``k``, zeros elsewhere; ``n_cols`` is ``n_rows`` by default."""

def finfo(type: Any, /) -> finfo_object:
    """Limits of a float dtype (or of an array's): bits, eps, max, min, smallest_normal, dtype."""

def flip(x: Array, /, *, axis: Axis | None = None) -> Array:
    """Elements in reverse order along axes; all of them by default."""

float16: DType
float32: DType
float64: DType
def floor(x: Array, /) -> Array:
    """Largest integer not above ``x``, in its dtype."""

def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Quotient rounded down, ``x1 // x2``. An integer divided by 0 gives 0."""

def flush() -> None:
    """Starts everything that this thread recorded, without waiting for a GPU."""

def from_dlpack(x: Any, /, *, device: str | None = None, copy: builtins.bool | None = None) -> Array:
    """An array over the memory of another library's array, by DLPack, without a copy.

    The owner must not change the memory while the array is used. Complex arrays are copied.
    """

def full(shape: Shape, fill_value: Scalar, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """``fill_value`` in every element, by default in the dtype of the value: bool, int64, float64 or complex128."""

def full_like(x: Array, /, fill_value: Scalar, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """``fill_value`` in every element, in the shape, dtype and device of ``x``."""

def grad(f: Callable[..., Any], /, argnums: int | Sequence[int] | None = None, *, has_aux: builtins.bool = False) -> Callable[..., Any]:
    """Function that returns the gradient of ``f``, which returns one float element.

    Parameters
    ----------
    f : function of arrays
    argnums : position of the argument that the gradient is of, or a tuple of positions (a tuple of gradients then)
    has_aux : whether ``f`` returns a pair; the second is then returned beside the gradient

    Gradients nest: ``grad(grad(f))``. They have the shape and dtype of the argument.
    """

def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 > x2``, as bool. Takes real numbers."""

def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 >= x2``, as bool. Takes real numbers."""

def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``sqrt(x1**2 + x2**2)`` without overflow in between."""

def iinfo(type: Any, /) -> iinfo_object:
    """Limits of an integer dtype (or of an array's): bits, max, min, dtype."""

def imag(x: Array, /) -> Array:
    """Imaginary part of complex numbers; zeros for real ones."""

inf: float
int16: DType
int32: DType
int64: DType
int8: DType
def isclose(x1: ArrayLike, x2: ArrayLike, /, *, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: builtins.bool = False) -> Array:
    """Whether elements are within ``atol + rtol * abs(x2)`` of each other, as bool; NaN equals NaN if ``equal_nan``."""

def isdtype(dtype: DTypeLike | None, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric", or a tuple of these, any of which may hold.
    """

def isfinite(x: Array, /) -> Array:
    """Whether elements are neither infinite nor NaN, as bool."""

def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: builtins.bool = False) -> Array:
    """Whether each element of ``x1`` is among the elements of ``x2``, as bool; ``invert`` negates it."""

def isinf(x: Array, /) -> Array:
    """Whether elements are infinite, as bool."""

def isnan(x: Array, /) -> Array:
    """Whether elements are NaN, as bool."""

def jvp(f: Callable[..., Any], primals: tuple[Array, ...], tangents: Sequence[Array], /) -> tuple[Array, Array]:
    """Value of ``f(*primals)``, and its derivative in the direction of ``tangents`` (Jacobian-vector product).

    There is no forward mode: the derivative is that of a gradient, at about three times the cost of ``f``.
    """

def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 < x2``, as bool. Takes real numbers."""

def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 <= x2``, as bool. Takes real numbers."""

def lgamma(x: Array, /) -> Array:
    """Logarithm of the magnitude of the gamma function."""

def linspace(start: float, stop: float | None, /, num: int, *, dtype: DTypeLike | None = None, device: str | None = None, endpoint: builtins.bool = True) -> Array:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which is the last one if ``endpoint``."""

def log(x: Array, /) -> Array:
    """Natural logarithm."""

def log10(x: Array, /) -> Array:
    """Logarithm to base 10."""

def log1p(x: Array, /) -> Array:
    """``log(1 + x)``, accurate near 0."""

def log2(x: Array, /) -> Array:
    """Logarithm to base 2."""

def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``log(exp(x1) + exp(x2))`` without overflow in between."""

def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Logical and of truth values; numbers other than 0 are true."""

def logical_not(x: Array, /) -> Array:
    """Logical negation of truth values."""

def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Logical or of truth values."""

def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Logical exclusive or of truth values."""

def logsumexp(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Logarithm of the sum of exponentials over axes, without overflow."""

def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix product; leading dimensions broadcast, vectors are rows or columns."""

def matrix_transpose(x: Array, /) -> Array:
    """Matrices with rows and columns exchanged: the last two dimensions."""

def max(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Maximum over axes; all of them by default. NaN if any element is NaN."""

def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Larger of two elements; NaN if either is NaN."""

def mean(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Mean over axes; all of them by default. Integers give the default float dtype."""

def memory(device: str | None = None) -> dict[str, int | None]:
    """Statistics of a device's memory in bytes: in_use, peak, reserved, limit."""

def meshgrid(*arrays: Array, indexing: Literal["xy", "ij"] = 'xy') -> tuple[Array, ...]:
    """Coordinate arrays of vectors: one array for each, of the rank of their number.

    ``indexing="xy"`` exchanges the first two dimensions, ``"ij"`` does not.
    """

def min(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """Minimum over axes; all of them by default. NaN if any element is NaN."""

def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Smaller of two elements; NaN if either is NaN."""

def moveaxis(x: Array, source: Axis, destination: Axis, /) -> Array:
    """Axes moved to other positions; the others keep their order."""

def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Product ``x1 * x2``. The product of bools is their logical and."""

nan: float
def negative(x: Array, /) -> Array:
    """``-x``. Takes numbers."""

newaxis: None
def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Next float after ``x1`` towards ``x2``."""

def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Indices of the elements that are not 0, one int64 array for each dimension, as a tuple. Waits for their number."""

def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether elements differ, as bool."""

def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Ones of a shape, by default as float64."""

def ones_like(x: Array, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Ones of the shape, dtype and device of ``x``."""

def pad(x: Array, pad_width: Any, mode: str = 'constant', *, constant_values: float = 0.0) -> Array:
    """Adds elements at both ends of each axis.

    ``pad_width`` has a pair (before, after) for each axis, or is one pair or int for all. ``mode`` is "constant", "reflect", "edge" or
    "wrap".
    """

def permute_dims(x: Array, /, axes: Axis | None) -> Array:
    """Axes in another order."""

pi: float
def positive(x: Array, /) -> Array:
    """``x`` itself. Takes numbers."""

def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Power ``x1 ** x2``. An integer to a negative power in an array gives 0, except for the bases 1 and -1."""

def prod(x: Array, /, *, axis: Axis | None = None, dtype: DTypeLike | None = None, keepdims: builtins.bool = False) -> Array:
    """Product over axes; all of them by default.

    Integers are multiplied in int64 or uint64 unless ``dtype`` says otherwise. The product of nothing is 1.
    """

def real(x: Array, /) -> Array:
    """Real part of complex numbers; real ones are returned unchanged."""

def reciprocal(x: Array, /) -> Array:
    """``1 / x``. Takes floats; integers are converted."""

def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Remainder ``x1 % x2``, with the sign of ``x2``. An integer modulo 0 gives 0."""

def repeat(x: Array, repeats: int | Array, /, *, axis: Axis | None = None) -> Array:
    """Each element repeated, a number of times that is one int or an array of ints for each position of the axis. Without
    ``axis`` the flattened elements are repeated.
    """

def reshape(x: Array, /, shape: Shape, *, copy: builtins.bool | None = None) -> Array:
    """The array with sizes ``shape``, in the same row-major order; one size may be -1."""

def result_type(*arrays_and_dtypes: Any) -> DType:
    """Dtype of the result of an operation on arrays, dtypes and Python scalars, which are weak."""

def roll(x: Array, /, shift: Axis, *, axis: Axis | None = None) -> Array:
    """Elements moved along axes by ``shift``; what leaves at one end comes in at the other. Without ``axis`` the flattened
    elements are moved.
    """

def round(x: Array, /) -> Array:
    """Nearest integer, ties to even, in the dtype of ``x``."""

def rsqrt(x: Array, /) -> Array:
    """``1 / sqrt(x)``."""

def scatter(x: Array, indices: Array, values: Array, /, *, axis: Axis | None = ...) -> Array:
    """``x`` with ``values`` at indices along an axis, as ``put_along_axis`` that returns its result."""

def searchsorted(x1: ArrayLike, x2: ArrayLike, /, *, side: Literal["left", "right"] = 'left', sorter: Array | None = None) -> Array:
    """Indices at which ``x2`` would be inserted into the sorted ``x1``, as int64: before equal elements for
    ``side="left"``, after them for ``"right"``. ``sorter`` are indices that sort ``x1``.
    """

def set_atomic_sums(on: builtins.bool, /) -> Array:
    """Allows this thread's sums of floats by an index in any order on a GPU (True), or not: faster, last bits differ from run to
    run. Returns the previous setting.
    """

def set_default_device(device: str | None, /) -> None:
    """Sets the device of arrays that this thread creates without one; ``None`` removes the setting."""

def set_default_dtype(dtype: DTypeLike | None) -> DType:
    """Sets the dtype of arrays created from Python floats or from a rule (``zeros``, ``linspace``, ``random.normal``)
    without a dtype: float64 (the default, as NumPy's) or float32. Returns the previous one.
    """

def set_matmul_precision(precision: Any, /) -> None:
    """Precision of float32 matrix products, for this thread: "highest" or "high" (TF32 where the device gains by it)."""

def set_memory_limit(bytes: int | None, device: str | None = None) -> None:
    """Sets how many bytes arrays and intermediates may use at once; ``None`` for no limit."""

def set_printoptions(*, precision: Any = 8) -> None:
    """Sets the maximum number of digits after the decimal point in printed arrays (8 by default)."""

def set_reproducible(on: builtins.bool, /) -> builtins.bool:
    """Makes this thread repeat its results to the bit in every run (True), or not. Returns the previous setting."""

def sign(x: Array, /) -> Array:
    """Sign of each element: -1, 0 or 1, NaN for NaN; ``z / abs(z)`` for complex numbers."""

def signbit(x: Array, /) -> Array:
    """Whether the sign is negative, also of -0.0 and NaN, as bool."""

def sin(x: Array, /) -> Array:
    """Sine of radians."""

def sinh(x: Array, /) -> Array:
    """Hyperbolic sine."""

def sort(x: Array, /, *, axis: Axis | None = ..., descending: builtins.bool = False, stable: builtins.bool = True) -> Array:
    """Elements sorted along an axis. The sort is stable; NaN is larger than every number."""

def sqrt(x: Array, /) -> Array:
    """Square root; NaN for negative real numbers."""

def square(x: Array, /) -> Array:
    """``x * x``, in its dtype."""

def squeeze(x: Array, /, axis: Axis | None = None) -> Array:
    """The array without axes of size 1; ``axis`` names which."""

def stack(arrays: Sequence[Array], /, *, axis: Axis | None = 0) -> Array:
    """Arrays of one shape along a new axis. Dtypes are promoted."""

def std(x: Array, /, *, axis: Axis | None = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """Standard deviation over axes; all of them by default. The divisor is the number of elements less ``correction``."""

def stop_gradient(x: Array, /) -> Array:
    """Values of ``x``, through which no gradient flows."""

def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Difference ``x1 - x2``. Takes numbers."""

def sum(x: Array, /, *, axis: Axis | None = None, dtype: DTypeLike | None = None, keepdims: builtins.bool = False) -> Array:
    """Sum over axes; all of them by default.

    Integers are summed in int64 or uint64 unless ``dtype`` says otherwise. The sum of nothing is 0.
    """

def synchronize() -> None:
    """Computes everything that this thread recorded and that is still held, and waits for it.

    Raises the first error since the last call: an index out of range, no memory, a failed device.
    """

def take(x: Array, indices: Array, /, *, axis: Axis | None = None) -> Array:
    """Elements at indices along an axis, which may be left out for one dimension. Negative indices count from the end; one
    out of range is an IndexError where a value is read.
    """

def take_along_axis(x: Array, indices: Array, /, *, axis: Axis | None = ...) -> Array:
    """Elements at an index for each element of the result: ``out[i, j] = x[indices[i, j], j]`` for axis 0 of two. The
    other dimensions broadcast.
    """

def tan(x: Array, /) -> Array:
    """Tangent of radians."""

def tanh(x: Array, /) -> Array:
    """Hyperbolic tangent."""

def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: Axis | None = None) -> Array:
    """Sum of products over axes of both arrays: the last and first ``axes``, or a pair of lists of axes."""

def tile(x: Array, repetitions: Axis, /) -> Array:
    """The array repeated as a whole along each axis."""

def topk(x: Array, k: int, /, *, axis: Axis | None = ..., largest: builtins.bool = True) -> tuple[Array, Array]:
    """The ``k`` largest (or smallest) elements along an axis in order, and their indices as int64."""

def tril(x: Array, /, *, k: int = 0) -> Array:
    """Elements on and below diagonal ``k`` of matrices, zeros above."""

def triu(x: Array, /, *, k: int = 0) -> Array:
    """Elements on and above diagonal ``k`` of matrices, zeros below."""

def trunc(x: Array, /) -> Array:
    """Integer part, in the dtype of ``x``."""

uint16: DType
uint32: DType
uint64: DType
uint8: DType
def unique_all(x: Array, /) -> UniqueAllResult:
    """Distinct elements in ascending order, first index, inverse indices and count of each (int64).

    Each NaN is distinct. Waits for the number of distinct elements.
    """

def unique_counts(x: Array, /) -> UniqueCountsResult:
    """Distinct elements in ascending order, and the count of each (int64). Each NaN is distinct."""

def unique_inverse(x: Array, /) -> UniqueInverseResult:
    """Distinct elements in ascending order, and the index into them of each element (int64, the shape of ``x``).

    Each NaN is distinct.
    """

def unique_values(x: Array, /) -> Array:
    """Distinct elements, in ascending order. Each NaN is distinct. Waits for their number."""

def unstack(x: Array, /, *, axis: Axis | None = 0) -> tuple[Array, ...]:
    """The arrays along an axis, which is dropped, as a tuple."""

def value_and_grad(f: Callable[..., Any], /, argnums: int | Sequence[int] | None = None, *, has_aux: builtins.bool = False) -> Callable[..., Any]:
    """Function that returns the value of ``f`` and its gradient; see ``grad``."""

def var(x: Array, /, *, axis: Axis | None = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """Variance over axes; all of them by default. The divisor is the number of elements less ``correction``."""

def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: Axis | None = ...) -> Array:
    """Sum of products along an axis of both arrays; the first is conjugated."""

def vjp(f: Callable[..., Any], /, *args: Any) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
    """Value of ``f(*args)`` and a function that pulls a gradient of the value back to gradients of the arguments, as a
    tuple (vector-Jacobian product).
    """

def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elements of ``x1`` where ``condition`` is true, else of ``x2``. All broadcast; dtypes are promoted."""

def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Zeros of a shape, by default as float64."""

def zeros_like(x: Array, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Zeros of the shape, dtype and device of ``x``."""

arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
array = asarray
concatenate = concat
power = pow
transpose = permute_dims
