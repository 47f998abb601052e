# Written by stubs.py from the signatures of the built module.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, SupportsIndex

from thalweg import Array, ArrayLike, Axis, DTypeLike, Shape

class EigResult(NamedTuple):
    """Result of ``eig``."""

    eigenvalues: Array
    eigenvectors: Array

class EighResult(NamedTuple):
    """Result of ``eigh``."""

    eigenvalues: Array
    eigenvectors: Array

class QRResult(NamedTuple):
    """Result of ``qr``."""

    Q: Array
    R: Array

class SVDResult(NamedTuple):
    """Result of ``svd``."""

    U: Array
    S: Array
    Vh: Array

class SlogdetResult(NamedTuple):
    """Result of ``slogdet``."""

    sign: Array
    logabsdet: Array

def cholesky(x: Array, /, *, upper: builtins.bool = False) -> Array:
    """Lower triangular factor L of positive definite matrices ``x = L @ conj(L.mT)``; with ``upper`` its adjoint. A matrix
    that is not positive definite is a ValueError where a value is read.
    """

def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: Axis | None = ...) -> Array:
    """Cross product of vectors of three elements along an axis."""

def det(x: Array, /) -> Array:
    """Determinants of square matrices."""

def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Diagonals of matrices: of the last two dimensions."""

def eig(x: Array, /) -> EigResult:
    """Eigenvalues and eigenvectors (columns) of square matrices, as complex arrays."""

def eigh(x: Array, /) -> EighResult:
    """Eigenvalues in ascending order and eigenvectors (columns) of symmetric or Hermitian matrices."""

def eigvals(x: Array, /) -> Array:
    """Eigenvalues of square matrices, as complex numbers."""

def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order."""

def inv(x: Array, /) -> Array:
    """Inverses of square matrices. A singular matrix is a ValueError where a value is read."""

def lstsq(x1: ArrayLike, x2: ArrayLike, /, *, rtol: float | None = None) -> Array:
    """Least squares solution of ``x1 @ y = x2``."""

def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix product; leading dimensions broadcast, vectors are rows or columns."""

def matrix_exp(x: Array, /) -> Array:
    """Exponentials of square matrices."""

def matrix_norm(x: Array, /, *, keepdims: builtins.bool = False, ord: float | str | None = None) -> Array:
    """Norms of matrices: "fro" (root of the sum of squares), "nuc" (sum of singular values), 1, -1 (column sums), 2, -2
    (singular values), inf, -inf (row sums).
    """

def matrix_power(x: Array, n: int, /) -> Array:
    """Matrices multiplied with themselves ``n`` times; inverses for negative ``n``."""

def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Numbers of singular values above ``rtol`` times the largest, as int64. ``rtol`` is a number, or an array of one for
    each matrix.
    """

def matrix_transpose(x: Array, /) -> Array:
    """Matrices with rows and columns exchanged: the last two dimensions."""

def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of all pairs of elements of two vectors, as a matrix."""

def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Pseudoinverses of matrices; singular values below ``rtol`` times the largest count as 0. ``rtol`` is a number, or
    an array of one for each matrix.
    """

def qr(x: Array, /, *, mode: str = 'reduced') -> QRResult:
    """Factors ``x = Q @ R``: orthonormal columns and an upper triangular matrix. ``mode="complete"``: Q is square."""

def slogdet(x: Array, /) -> SlogdetResult:
    """Signs of determinants, and natural logarithms of their magnitudes."""

def solve(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Solution of ``x1 @ y = x2``. A right side of one dimension is a vector. A singular matrix is a ValueError where a
    value is read.
    """

def solve_triangular(x1: ArrayLike, x2: ArrayLike, /, *, upper: builtins.bool = False) -> Array:
    """Solution of ``x1 @ y = x2`` for triangular matrices."""

def svd(x: Array, /, *, full_matrices: builtins.bool = True) -> SVDResult:
    """Singular value decomposition ``x = (U * S[..., None, :]) @ Vh``, singular values in descending order.

    Without ``full_matrices`` there are only as many vectors as values.
    """

def svdvals(x: Array, /) -> Array:
    """Singular values, in descending order."""

def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: Axis | None = None) -> Array:
    """Sum of products over axes of both arrays: the last and first ``axes``, or a pair of lists of axes."""

def trace(x: Array, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sum of the diagonals of matrices. Integers are summed in int64 or uint64 unless ``dtype`` says otherwise."""

def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: Axis | None = ...) -> Array:
    """Sum of products along an axis of both arrays; the first is conjugated."""

def vector_norm(x: Array, /, *, axis: Axis | None = None, keepdims: builtins.bool = False, ord: float | str | None = 2.0) -> Array:
    """Norm of vectors along axes, all by default: ``(sum(abs(x)**ord))**(1/ord)``; ``inf`` and ``-inf`` are the largest
    and smallest magnitude, 0 the number of elements that are not 0.
    """

