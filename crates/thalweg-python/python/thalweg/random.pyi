# Written by stubs.py from the signatures of the built module.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, SupportsIndex

from thalweg import Array, ArrayLike, Axis, DTypeLike, Shape

def bernoulli(p: ArrayLike, shape: Shape | None = None, *, device: str | None = None) -> Array:
    """True with probability ``p``, a number or an array of probabilities."""

def integers(low: float, high: float | None = None, shape: Shape = ..., *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Integers from ``low`` to below ``high``; with one argument from 0. By default as int64."""

def multinomial(weights: Array, n: int, /, *, replacement: builtins.bool = True) -> Array:
    """Indices drawn with probabilities proportional to the weights in the last axis, as int64."""

def normal(shape: Shape = ..., *, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Normally distributed numbers."""

def permutation(x: int | Array, /, *, axis: Axis | None = 0) -> Array:
    """The numbers from 0 to below ``n`` in random order, as int64; or an array with the slices of an axis in random order."""

def seed(seed: int, /) -> None:
    """Seeds the calling thread's generator: the same program then draws the same numbers, on every device."""

def uniform(shape: Shape = ..., *, low: float = 0.0, high: float | None = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """Uniform numbers from ``low`` to below ``high``."""

