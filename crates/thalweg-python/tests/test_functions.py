"""Functions against NumPy: values, shapes and dtypes."""

import numpy as np
import pytest
import thalweg as tw

RNG = np.random.default_rng(0)
REAL = {
    "float64": RNG.normal(size=(3, 4)),
    "float32": RNG.normal(size=(3, 4)).astype(np.float32),
    "int32": RNG.integers(-5, 6, size=(3, 4)).astype(np.int32),
    "uint8": RNG.integers(0, 9, size=(3, 4)).astype(np.uint8),
}
COMPLEX = (RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))).astype(np.complex128)


def close(got, want, **kw):
    want = np.asarray(want)
    assert got.dtype.name == want.dtype.name, (got.dtype, want.dtype)
    assert got.shape == want.shape
    tolerance = {"float16": 2e-3, "float32": 2e-6, "complex64": 2e-6}.get(want.dtype.name, 1e-13)
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance, **kw)


UNARY = (
    "acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10 "
    "logical_not negative positive round sign signbit sin sinh square sqrt tan tanh trunc reciprocal abs"
).split()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_unary(name, dtype):
    x = REAL[dtype]
    if name in ("acos", "asin", "atanh") and dtype != "int32":
        x = x / (np.abs(x).max() + 1) if x.dtype.kind == "f" else (x > 4).astype(x.dtype)
    if name == "reciprocal" and x.dtype.kind != "f":
        pytest.skip("NumPy truncates")
    if name == "signbit" and dtype == "uint8":
        x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
    close(getattr(tw, name)(tw.asarray(x)), want)


@pytest.mark.parametrize(
    "name",
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 negative sign sin sinh sqrt square tan tanh conj real imag abs isfinite reciprocal".split(),
)
def test_unary_complex(name):
    close(getattr(tw, name)(tw.asarray(COMPLEX)), getattr(np, name)(COMPLEX))


BINARY = (
    "add subtract multiply divide floor_divide remainder pow maximum minimum atan2 hypot copysign logaddexp equal "
    "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor nextafter"
).split()


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_binary(name, dtype):
    x = REAL[dtype]
    y = x[::-1, :1].copy()
    if name == "pow":
        x, y = np.abs(x), np.abs(y)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
    close(getattr(tw, name)(tw.asarray(x), tw.asarray(y)), want)


@pytest.mark.parametrize("name", "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split())
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool"])
def test_bitwise(name, dtype):
    if dtype == "bool" and "shift" in name:
        pytest.skip("integers")
    x, y = RNG.integers(0, 5, size=(2, 6)).astype(dtype), RNG.integers(0, 5, size=6).astype(dtype)
    close(getattr(tw, name)(tw.asarray(x), tw.asarray(y)), getattr(np, name)(x, y))
    close(~tw.asarray(x), ~x)


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">="])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_operators_and_reflected_ones(op, dtype):
    x = REAL[dtype]
    if op == "**":
        x = np.abs(x)
    scalars = [2, 3] if dtype == "int32" else [2, 2.5]
    for s in scalars:
        with np.errstate(all="ignore"):
            for text in (f"x {op} s", f"s {op} x"):
                close(eval(text, {"x": tw.asarray(x), "s": s}), eval(text, {"x": x, "s": s}))
    # An array of NumPy on either side gives an array of thalweg.
    mixed = eval(f"n {op} x", {"x": tw.asarray(x), "n": x})
    assert isinstance(mixed, tw.Array)


@pytest.mark.parametrize("f", ["sum", "prod", "mean", "max", "min", "any", "all", "var", "std", "count_nonzero"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(f, axis, keepdims):
    x = RNG.normal(size=(2, 3, 4))
    close(getattr(tw, f)(tw.asarray(x), axis=axis, keepdims=keepdims), getattr(np, f)(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scans_sorts_and_searches(axis):
    x = RNG.integers(0, 9, size=(4, 5)).astype(np.float64)
    t = tw.asarray(x)
    close(tw.cumulative_sum(t, axis=axis), np.cumsum(x, axis=axis))
    close(tw.cumulative_prod(t, axis=axis), np.cumprod(x, axis=axis))
    close(tw.sort(t, axis=axis), np.sort(x, axis=axis))
    close(tw.argsort(t, axis=axis), np.argsort(x, axis=axis, kind="stable"))
    close(tw.argmax(t, axis=axis), np.argmax(x, axis=axis))
    close(tw.argmin(t, axis=axis), np.argmin(x, axis=axis))
    close(tw.diff(t, axis=axis), np.diff(x, axis=axis))
    close(tw.flip(t, axis=axis), np.flip(x, axis=axis))
    close(tw.roll(t, 2, axis=axis), np.roll(x, 2, axis=axis))
    close(tw.take(t, tw.asarray([1, -1]), axis=axis), np.take(x, [1, -1], axis=axis))
    close(tw.repeat(t, 2, axis=axis), np.repeat(x, 2, axis=axis))
    close(tw.concat([t, t], axis=axis), np.concatenate([x, x], axis=axis))
    close(tw.stack([t, t], axis=axis), np.stack([x, x], axis=axis))


def test_manipulation():
    x = RNG.normal(size=(2, 3, 4))
    t = tw.asarray(x)
    close(tw.reshape(t, (4, -1)), x.reshape(4, -1))
    close(t.reshape(6, 4), x.reshape(6, 4))
    close(tw.permute_dims(t, (2, 0, 1)), x.transpose(2, 0, 1))
    close(tw.moveaxis(t, 0, -1), np.moveaxis(x, 0, -1))
    close(tw.moveaxis(t, (0, 1), (1, 2)), np.moveaxis(x, (0, 1), (1, 2)))
    close(tw.expand_dims(t, axis=1), np.expand_dims(x, 1))
    close(tw.squeeze(t[:1], 0), x[0])
    close(tw.broadcast_to(t[:, :1], (2, 3, 4)), np.broadcast_to(x[:, :1], (2, 3, 4)))
    close(tw.tile(t, (2, 1, 3)), np.tile(x, (2, 1, 3)))
    close(tw.tile(t, (2,)), np.tile(x, (2,)))
    close(tw.roll(t, (1, -1), axis=(0, 2)), np.roll(x, (1, -1), axis=(0, 2)))
    close(tw.roll(t, 5), np.roll(x, 5))
    close(tw.repeat(t, tw.asarray([1, 0, 2]), axis=1), np.repeat(x, [1, 0, 2], axis=1))
    close(tw.pad(t, 1), np.pad(x, 1))
    close(tw.pad(t, [(0, 1), (2, 0), (1, 1)], "edge"), np.pad(x, [(0, 1), (2, 0), (1, 1)], "edge"))
    for a, b in zip(tw.unstack(t, axis=1), np.moveaxis(x, 1, 0)):
        close(a, b)
    for a, b in zip(tw.meshgrid(tw.arange(3), tw.arange(2)), np.meshgrid(np.arange(3), np.arange(2))):
        close(a, b)
    assert tw.broadcast_shapes((2, 1), (3,)) == (2, 3)


def test_creation():
    close(tw.arange(5), np.arange(5))
    close(tw.arange(2, 11, 3), np.arange(2, 11, 3))
    close(tw.arange(5, 0, -2), np.arange(5, 0, -2))
    close(tw.arange(0.0, 1.0, 0.25), np.arange(0.0, 1.0, 0.25))
    close(tw.linspace(0, 1, 7), np.linspace(0, 1, 7))
    close(tw.linspace(0, 1, 7, endpoint=False), np.linspace(0, 1, 7, endpoint=False))
    close(tw.eye(3, 4, k=1), np.eye(3, 4, k=1))
    close(tw.full((2, 2), 7), np.full((2, 2), 7))
    close(tw.zeros(3), np.zeros(3))
    close(tw.tril(tw.ones((3, 3)), k=-1), np.tril(np.ones((3, 3)), k=-1))
    close(tw.asarray([[1, 2.5], [3, 4]]), np.asarray([[1, 2.5], [3, 4]]))
    close(tw.asarray([1, 2j]), np.asarray([1, 2j]))
    close(tw.asarray([tw.asarray([1, 2]), tw.asarray([3, 4])]), np.asarray([[1, 2], [3, 4]]))
    close(tw.asarray([]), np.asarray([]))
    with pytest.raises(ValueError, match="ragged"):
        tw.asarray([[1, 2], [3]])
    with pytest.raises(TypeError):
        tw.asarray(object())


def test_sets_and_searches():
    x = np.array([3, 1, 2, 1, 3, 3])
    t = tw.asarray(x)
    values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    every = tw.unique_all(t)
    close(every.values, values)
    close(every.indices, index)
    close(every.inverse_indices, inverse)
    close(every.counts, counts)
    nan = tw.asarray([float("nan"), 1.0, float("nan")])
    assert tw.unique_values(nan).shape == (3,)
    close(tw.isin(t, tw.asarray([1, 7])), np.isin(x, [1, 7]))
    close(tw.searchsorted(tw.asarray([1.0, 2.0, 3.0]), tw.asarray([0.5, 2.0, 9.0]), side="right"), np.searchsorted([1.0, 2.0, 3.0], [0.5, 2.0, 9.0], side="right"))
    close(tw.where(t > 1, t, 0), np.where(x > 1, x, 0))
    close(tw.clip(t, 1, 2), np.clip(x, 1, 2))
    close(tw.nonzero(t > 1)[0], np.nonzero(x > 1)[0])
    close(tw.bincount(t), np.bincount(x))


def test_linalg():
    a = RNG.normal(size=(3, 4, 4))
    s = a @ a.transpose(0, 2, 1) + 4 * np.eye(4)
    t, u = tw.asarray(a), tw.asarray(s)
    b = RNG.normal(size=(3, 4, 2))
    L = tw.linalg
    close(t @ t, a @ a)
    close(L.inv(t), np.linalg.inv(a))
    close(L.det(t), np.linalg.det(a))
    close(L.slogdet(t).logabsdet, np.linalg.slogdet(a).logabsdet)
    close(L.solve(t, tw.asarray(b)), np.linalg.solve(a, b))
    close(L.cholesky(u), np.linalg.cholesky(s))
    close(L.cholesky(u, upper=True), np.linalg.cholesky(s).transpose(0, 2, 1))
    close(L.eigvalsh(u), np.linalg.eigvalsh(s))
    values, vectors = L.eigh(u)
    close(u @ vectors, np.asarray(vectors * values[:, None, :]))
    q, r = L.qr(t)
    close(q @ r, a)
    U, S, Vh = L.svd(t, full_matrices=False)
    close((U * S[:, None, :]) @ Vh, a)
    close(S, np.linalg.svdvals(a))
    close(L.pinv(t[:, :3]), np.linalg.pinv(a[:, :3]))
    close(L.matrix_rank(t), np.linalg.matrix_rank(a))
    close(L.matrix_power(t, 3), np.linalg.matrix_power(a, 3))
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(L.matrix_norm(t, ord=ord), np.linalg.matrix_norm(a, ord=ord))
    for ord in (0, 1, 2, 3.5, np.inf, -np.inf):
        close(L.vector_norm(t, axis=-1, ord=ord), np.linalg.vector_norm(a, axis=-1, ord=ord))
    close(L.trace(t), np.linalg.trace(a))
    close(L.diagonal(t, offset=1), np.linalg.diagonal(a, offset=1))
    close(L.cross(t[..., :3], t[..., 1:]), np.cross(a[..., :3], a[..., 1:]))
    close(L.outer(t[0, 0], t[0, 1]), np.outer(a[0, 0], a[0, 1]))
    close(tw.einsum("bij,bjk->bik", t, u), np.einsum("bij,bjk->bik", a, s))
    close(tw.tensordot(t, u, axes=([0, 2], [0, 1])), np.tensordot(a, s, axes=([0, 2], [0, 1])))
    close(tw.vecdot(t, u), np.vecdot(a, s))
    with pytest.raises(ValueError):
        L.inv(tw.zeros((2, 3)))
    with pytest.raises(ValueError):
        L.inv(tw.zeros((2, 2))).tolist()


def test_fft():
    x = RNG.normal(size=(4, 6))
    z = x + 1j * RNG.normal(size=(4, 6))
    for name in ("fft", "ifft", "hfft", "irfft"):
        for norm in ("backward", "ortho", "forward"):
            close(getattr(tw.fft, name)(tw.asarray(z), norm=norm), getattr(np.fft, name)(z, norm=norm))
            close(getattr(tw.fft, name)(tw.asarray(z), n=5, axis=0), getattr(np.fft, name)(z, n=5, axis=0))
    for name in ("rfft", "ihfft"):
        close(getattr(tw.fft, name)(tw.asarray(x)), getattr(np.fft, name)(x))
    for name in ("fftn", "ifftn", "irfftn"):
        close(getattr(tw.fft, name)(tw.asarray(z)), getattr(np.fft, name)(z))
    close(tw.fft.rfftn(tw.asarray(x), s=(3, 4), axes=(0, 1)), np.fft.rfftn(x, s=(3, 4), axes=(0, 1)))
    close(tw.fft.fftfreq(7, d=0.5), np.fft.fftfreq(7, d=0.5))
    close(tw.fft.rfftfreq(8), np.fft.rfftfreq(8))
    close(tw.fft.fftshift(tw.asarray(x)), np.fft.fftshift(x))


def test_gradients():
    x = tw.asarray(RNG.normal(size=5))
    f = lambda x: tw.sum(tw.sin(x) * x)
    want = np.cos(np.asarray(x)) * np.asarray(x) + np.sin(np.asarray(x))
    close(tw.grad(f)(x), want)
    value, g = tw.value_and_grad(f)(x)
    close(value, np.asarray(f(x)))
    close(g, want)
    close(tw.grad(lambda x: tw.sum(tw.grad(f)(x)))(x), 2 * np.cos(np.asarray(x)) - np.asarray(x) * np.sin(np.asarray(x)))
    ga, gb = tw.grad(lambda a, b: tw.sum(a * b), argnums=(0, 1))(x, 2 * x)
    close(ga, 2 * np.asarray(x))
    close(gb, np.asarray(x))
    y, pull = tw.vjp(tw.sin, x)
    close(pull(tw.ones((5,)))[0], np.cos(np.asarray(x)))
    close(pull(2 * tw.ones((5,)))[0], 2 * np.cos(np.asarray(x)))
    y, dy = tw.jvp(tw.sin, (x,), (tw.ones((5,)),))
    close(dy, np.cos(np.asarray(x)))
    close(tw.grad(lambda x: tw.sum(x * tw.stop_gradient(x)))(x), np.asarray(x))
    # A variable of an outer gradient inside an inner one.
    mixed = tw.grad(lambda y: tw.grad(lambda x: x * x * y)(tw.asarray(3.0)))(tw.asarray(2.0))
    assert float(mixed) == 6.0
    (g, aux) = tw.grad(lambda x: (tw.sum(x), 7), has_aux=True)(x)
    assert aux == 7 and g.shape == (5,)
    with pytest.raises(ValueError, match="one element"):
        tw.grad(lambda x: x)(x)
    with pytest.raises(ZeroDivisionError):
        tw.grad(lambda x: 1 / 0)(x)
    assert not tw.grad(lambda x: tw.asarray(1.0))(x).tolist()[0]


def test_nn():
    x = RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)
    t = tw.asarray(x)
    close(tw.nn.relu(t), np.maximum(x, 0))
    e = np.exp(x - x.max(-1, keepdims=True))
    close(tw.nn.softmax(t), e / e.sum(-1, keepdims=True))
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(tw.nn.layer_norm(t)), (x - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    w = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
    y = tw.nn.conv2d(t, tw.asarray(w), padding=1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(np.asarray(y), np.einsum("nchwij,ocij->nohw", windows, w), atol=1e-4)
    assert tw.nn.max_pool2d(t, 2).shape == (2, 3, 4, 4)
    q = tw.asarray(x[:, :, 0])
    assert tw.nn.attention(q, q, q, causal=True).shape == q.shape
    loss = tw.nn.cross_entropy(tw.asarray([[0.0, 0.0]]), tw.asarray([1]))
    np.testing.assert_allclose(float(loss), np.log(2))


def test_random():
    tw.random.seed(1)
    a = tw.random.normal((1000,))
    tw.random.seed(1)
    b = tw.random.normal((1000,))
    assert a.tolist() == b.tolist() and abs(float(a.mean())) < 0.2
    u = tw.random.uniform((1000,), low=2, high=3)
    assert 2 <= float(u.min()) and float(u.max()) < 3
    i = tw.random.integers(3, 7, (1000,))
    assert sorted(set(i.tolist())) == [3, 4, 5, 6] and i.dtype == tw.int64
    assert sorted(tw.random.permutation(10).tolist()) == list(range(10))


def test_text():
    cases = [
        np.arange(6).reshape(2, 3), np.array([1.5, 2.0]), np.array([[1.0, -2.25], [3e-9, 1e9]]), np.array(3),
        np.array([True, False]), np.array([1 + 2j, -3.5j]), np.arange(2000), np.array([1, 2], dtype=np.int8),
        np.array([1.0, np.nan, np.inf]), np.zeros((0,)), np.zeros((2, 2, 2), dtype=np.float32), np.array(2.5),
        np.arange(40) * 1000,
    ]
    for x in cases:
        assert str(tw.asarray(x)) == str(x)
        assert repr(tw.asarray(x)).replace("\n", "").replace(" ", "")[6:] == repr(x).replace("\n", "").replace(" ", "")[6:].replace(",shape=(2000,)", ""), x
    assert f"{tw.asarray(2.5):.3f}" == "2.500"
