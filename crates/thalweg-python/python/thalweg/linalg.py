"""Linear algebra: the extension ``linalg`` of the array API standard, and a few functions more.

Matrices are the last two dimensions; those before are a batch. Decompositions take float32, float64, complex64 and
complex128 (integers are converted). A matrix that a decomposition does not take (singular, not positive definite, with
NaN) is a ValueError where a value is read. Decompositions of complex matrices have no gradients; ``lstsq``,
``matrix_exp`` and ``solve_triangular`` take real ones only.
"""

from typing import NamedTuple

from thalweg._thalweg import Array, _linalg, matrix_transpose  # noqa: F401


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


class SlogdetResult(NamedTuple):
    """Result of ``slogdet``."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Result of ``svd``."""

    U: Array
    S: Array
    Vh: Array


globals().update({name: value for name, value in vars(_linalg).items() if not name.startswith("_")})

if hasattr(_linalg, "eigh"):

    def eig(x, /):
        """Eigenvalues and eigenvectors (columns) of square matrices, as complex arrays."""
        return EigResult(*_linalg.eig(x))

    def eigh(x, /):
        """Eigenvalues in ascending order and eigenvectors (columns) of symmetric or Hermitian matrices."""
        return EighResult(*_linalg.eigh(x))

    def qr(x, /, *, mode="reduced"):
        """Factors ``x = Q @ R``: orthonormal columns and an upper triangular matrix. ``mode="complete"``: Q is square."""
        return QRResult(*_linalg.qr(x, mode=mode))

    def slogdet(x, /):
        """Signs of determinants, and natural logarithms of their magnitudes."""
        return SlogdetResult(*_linalg.slogdet(x))

    def svd(x, /, *, full_matrices=True):
        """Singular value decomposition ``x = (U * S[..., None, :]) @ Vh``, singular values in descending order.

        Without ``full_matrices`` there are only as many vectors as values.
        """
        return SVDResult(*_linalg.svd(x, full_matrices=full_matrices))


__all__ = sorted(
    [name for name in vars(_linalg) if not name.startswith("_")]
    + ["matrix_transpose", "EigResult", "EighResult", "QRResult", "SlogdetResult", "SVDResult"]
)
