"""Rules of operations at values that the operator database has not: extremes, NaN, empty bags, narrow dtypes.

    python -m pytest tests/torch_rules.py        (needs torch; not part of CI, which has none)
"""

import math

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn import functional as F
from torch_common import compiled, fresh  # noqa: F401 (a fixture)

import thalweg.torch

torch.set_num_threads(1)


def agree(f, *args, rtol=2e-5, atol=1e-5, eager=False):
    """Results as eager PyTorch's, and no kernel of PyTorch ran."""
    found, expected = compiled(f)(*args), f(*args)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    assert eager or thalweg.torch.statistics()["eager"] == {}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_frexp(dtype):
    info = torch.finfo(dtype)
    x = torch.tensor([0.0, -0.0, 1, -3.5, info.tiny, info.tiny / 8, info.max, info.min, math.inf, -math.inf, math.nan, 0.5], dtype=dtype)
    mantissa, exponent = compiled(torch.frexp)(x)
    expected = torch.frexp(x)
    torch.testing.assert_close(mantissa, expected.mantissa, rtol=0, atol=0, equal_nan=True)
    finite = x.isfinite()
    assert torch.equal(exponent[finite], expected.exponent[finite])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_gcd_and_lcm(dtype):
    info = torch.iinfo(dtype)
    values = torch.tensor([0, 1, 2, 12, 60, 97, info.max, info.max // 3], dtype=dtype)
    # Neighbours of the Fibonacci sequence take the most steps.
    if dtype == torch.int64:
        values = torch.cat([values, torch.tensor([7540113804746346429, 4660046610375530309, -18])])
    a, b = values.unsqueeze(0), values.unsqueeze(1)
    agree(torch.gcd, a, b)
    agree(torch.lcm, a[:, :5], b[:5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_functions(dtype):
    s = torch.special
    x = torch.cat([torch.linspace(-12, 12, 97, dtype=dtype), torch.tensor([0.0, 1e-6, -1e-6, 50.0, math.nan], dtype=dtype)])
    for f in (s.bessel_j0, s.bessel_j1, s.bessel_y0, s.bessel_y1, s.modified_bessel_k0, s.modified_bessel_k1,
              s.scaled_modified_bessel_k0, s.scaled_modified_bessel_k1, s.spherical_bessel_j0, s.log_ndtr):
        agree(f, x, rtol=1e-4)
    agree(s.airy_ai, x[:-1], rtol=1e-4)
    # exp(x²) overflows below in f32, as in PyTorch.
    agree(s.erfcx, x[x > -9], rtol=1e-4)
    agree(s.ndtri, torch.tensor([0.0, 1e-30, 1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6, 1.0, -1, 2, math.nan], dtype=dtype), rtol=1e-4)


@pytest.mark.parametrize("kind", ["chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
                                  "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
                                  "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
                                  "shifted_chebyshev_polynomial_w"])
def test_polynomials(kind):
    f = getattr(torch.special, kind)
    x = torch.tensor([-2.0, -1, -0.75, -0.1, 0, 0.3, 0.5, 0.9, 1, 1.5], dtype=torch.float64).unsqueeze(1)
    n = torch.tensor([-1.0, 0, 1, 2, 3, 5, 7, 10, 15], dtype=torch.float64)
    agree(f, x, n, rtol=1e-9)
    agree(lambda x: f(x, 4), x, rtol=1e-9)


def test_incomplete_gamma_and_zeta():
    values = torch.tensor([0.0, 0.1, 0.5, 1, 2, 10, 60, math.inf, -1, math.nan], dtype=torch.float64)
    a, x = values.unsqueeze(1), values.unsqueeze(0)
    agree(torch.igamma, a, x, rtol=1e-9)
    agree(torch.igammac, a, x, rtol=1e-9)
    agree(torch.special.zeta, a[1:7] + 1, x[:, 1:7], rtol=1e-9)
    agree(lambda x: torch.polygamma(3, x), x[0, 1:7], rtol=1e-9)


def test_mode():
    x = torch.tensor([[2.0, 7, 7, 2, math.nan], [math.nan, math.nan, 1, 2, 3], [5, 4, 3, 2, 1]])
    found, expected = compiled(torch.mode)(x), torch.mode(x)
    torch.testing.assert_close(found.values, expected.values, equal_nan=True)
    at = x.gather(1, found.indices.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(at, found.values, equal_nan=True)
    assert compiled(lambda x: torch.mode(x, 0, True).values)(x.int()).shape == (1, 5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode):
    table = torch.randn(12, 5)
    index, offsets = torch.tensor([1, 2, 2, 5, 0, 7, 3]), torch.tensor([0, 2, 2, 5])
    agree(lambda: F.embedding_bag(index, table, offsets, mode=mode))
    agree(lambda: F.embedding_bag(index, table, offsets, mode=mode, padding_idx=2))
    agree(lambda: F.embedding_bag(index, table, torch.tensor([0, 2, 2, 7]), mode=mode, include_last_offset=True))


def test_nonzero_static_and_segments():
    x = torch.tensor([[0, 3, 0], [1, 0, 2]])
    for size in (2, 3, 6):
        agree(lambda x: torch.nonzero_static(x, size=size), x)
    data = torch.randn(7, 3)
    for kind in ("sum", "mean", "max", "min", "prod"):
        agree(lambda d: torch.segment_reduce(d, kind, lengths=torch.tensor([2, 0, 4, 1])), data, eager=kind == "mean")


def test_decompositions_run_by_their_unique_results():
    a = torch.randn(4, 6, 6)
    agree(lambda a: (torch.linalg.svdvals(a), torch.linalg.det(a), torch.linalg.eigvalsh(a, "U"), torch.linalg.slogdet(a)), a, rtol=1e-4, atol=1e-4)
    agree(lambda a: torch.linalg.pinv(a[..., :4]), a, rtol=1e-3, atol=1e-4)
    compiled(lambda a: torch.linalg.svd(a).S)(a)
    agree(lambda a: torch.linalg.svd(a)[0].abs(), a, rtol=1e-3, atol=1e-3, eager=True)


def test_bools_are_added():
    x = torch.tensor([True, False, False])
    agree(lambda x: x.index_put((torch.tensor([1, 1]),), torch.tensor([True, False]), True), x)
    agree(lambda x: x.index_add(0, torch.tensor([2]), torch.tensor([True])), x)


@pytest.mark.parametrize("training", [False, True])
def test_lstm_layers_are_cells(training):
    before = torch._dynamo.config.allow_rnn
    torch._dynamo.config.allow_rnn = True
    try:
        model = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True).train(training)
        x = torch.randn(3, 5, 8)
        f = compiled(model)
        with torch.set_grad_enabled(training):
            torch.testing.assert_close(f(x)[0], model(x)[0], rtol=1e-4, atol=1e-5)
        if training:
            expected = torch.autograd.grad(model(x)[0].square().sum(), list(model.parameters()))
            found = torch.autograd.grad(f(x)[0].square().sum(), list(model.parameters()))
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
        assert thalweg.torch.statistics()["eager"] == {}
    finally:
        torch._dynamo.config.allow_rnn = before


@pytest.mark.parametrize("first", [False, True])
def test_encoder_layers(first):
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=first, activation="gelu").eval()
    with torch.no_grad():
        agree(model, torch.randn(2, 7, 32), rtol=1e-4)
