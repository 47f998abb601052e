"""Dtypes of results against NumPy."""

import itertools

import numpy as np
import pytest
import thalweg as tw

NAMES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]
SCALARS = [True, 3, 2.5, 1j]


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(NAMES, 2)))
def test_result_type(a, b):
    want = np.result_type(np.dtype(a), np.dtype(b)).name
    assert tw.result_type(getattr(tw, a), getattr(tw, b)).name == want
    got = (tw.ones((2,), dtype=a) * tw.ones((2,), dtype=b)).dtype
    assert got.name == want


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scalar", SCALARS)
def test_python_scalars_are_weak(name, scalar):
    x = np.ones(2, dtype=name)
    want = (x * scalar).dtype.name
    if isinstance(scalar, complex) and name == "float16":
        want = "complex64"
    assert (tw.asarray(x) * scalar).dtype.name == want
    assert (scalar * tw.asarray(x)).dtype.name == want


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("f", ["sin", "exp", "sqrt"])
def test_float_functions_of_integers(name, f):
    x = np.ones(2, dtype=name)
    assert getattr(tw, f)(tw.asarray(x)).dtype.name == getattr(np, f)(x).dtype.name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("f", ["sum", "prod", "mean", "var", "cumulative_sum"])
def test_reductions(name, f):
    x = np.ones(3, dtype=name)
    want = getattr(np, f)(x).dtype.name
    if name in ("int8", "int16", "int32", "bool") and f in ("sum", "prod", "cumulative_sum"):
        want = "int64"
    if name in ("uint8", "uint16", "uint32") and f in ("sum", "prod", "cumulative_sum"):
        want = "uint64"
    assert getattr(tw, f)(tw.asarray(x)).dtype.name == want


def test_bfloat16():
    x = tw.ones((2,), dtype=tw.bfloat16)
    assert (x + 1).dtype == tw.bfloat16 and (x + 1.5).dtype == tw.bfloat16
    assert (x + tw.ones((2,), dtype="int64")).dtype == tw.bfloat16
    assert (x + tw.ones((2,), dtype="float16")).dtype == tw.float32
    assert np.asarray(x).dtype == np.float32


def test_integers_beyond_the_dtype():
    x = tw.asarray([1, 2], dtype=tw.int8)
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        x + 300
    with pytest.raises(OverflowError):
        tw.asarray([2**70])
    with pytest.raises(OverflowError):
        tw.asarray([300], dtype="uint8")
    assert (x == 300).tolist() == [False, False] and (x < 300).tolist() == [True, True]
    big = tw.asarray([2**63 + 1], dtype=tw.uint64)
    assert (big > tw.asarray([-1])).tolist() == [True] and int(big[0]) == 2**63 + 1


def test_default_dtype():
    assert tw.asarray([1.0]).dtype == tw.float64
    before = tw.set_default_dtype(tw.float32)
    try:
        assert before == tw.float64
        assert tw.asarray([1.0]).dtype == tw.zeros((1,)).dtype == tw.linspace(0, 1, 3).dtype == tw.float32
        assert (tw.asarray([1]) / 2).dtype == tw.float32
    finally:
        tw.set_default_dtype(before)
    with pytest.raises(TypeError):
        tw.set_default_dtype(tw.int32)


def test_in_place_keeps_dtype_and_shape():
    x = tw.asarray([1, 2], dtype="int32")
    y = x
    x += 1
    assert y is x and x.dtype == tw.int32 and x.tolist() == [2, 3]
    with pytest.raises(TypeError, match="not cast"):
        x /= 2
    with pytest.raises(ValueError):
        x += tw.ones((3, 2), dtype="int32")
    x **= 2
    assert x.tolist() == [4, 9]


def test_dtype_objects():
    assert tw.float32 == "float32" and tw.float32 != tw.float64 and hash(tw.int8) == hash(tw.int8)
    assert repr(tw.int8) == "thalweg.int8" and tw.zeros((1,), dtype=float).dtype is tw.zeros((1,)).dtype
    assert tw.zeros((1,), dtype=np.float32).dtype == tw.zeros((1,), dtype=np.dtype("f4")).dtype == tw.float32
    assert tw.finfo(tw.float32).eps == np.finfo(np.float32).eps and tw.iinfo("int8").max == 127
    assert tw.isdtype(tw.int8, "integral") and not tw.isdtype(tw.int8, ("bool", "real floating"))
    assert tw.can_cast(tw.int8, tw.int16) and not tw.can_cast(tw.int64, tw.float32)
