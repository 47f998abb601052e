"""Functions with several results, which are named."""

from typing import NamedTuple

from thalweg import _thalweg as _t
from thalweg._thalweg import Array

__all__ = ["unique_all", "unique_counts", "unique_inverse"]


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


def unique_all(x, /):
    """Distinct elements in ascending order, first index, inverse indices and count of each (int64).

    Each NaN is distinct. Waits for the number of distinct elements.
    """
    return UniqueAllResult(*_t._unique_all(x))


def unique_counts(x, /):
    """Distinct elements in ascending order, and the count of each (int64). Each NaN is distinct."""
    values, _, _, counts = _t._unique_all(x)
    return UniqueCountsResult(values, counts)


def unique_inverse(x, /):
    """Distinct elements in ascending order, and the index into them of each element (int64, the shape of ``x``).

    Each NaN is distinct.
    """
    values, _, inverse, _ = _t._unique_all(x)
    return UniqueInverseResult(values, inverse)
