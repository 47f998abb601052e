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


# Function, arguments, values: printed by `conformance/special_tables golden`, computed with mpmath. In f64, J, Y and Ai of PyTorch
# 2.15 are off by up to 7e-6 of their amplitude.
GOLDEN = [
    ("bessel_j0", [0.0001, -0.5, 2.4, 4.9, 5.1, 40.0],
     [0.9999999975, 0.9384698072408129, 0.002507683297243859, -0.2097383275853262, -0.14433474706050065, 0.00736689058423729]),
    ("bessel_j1", [0.0001, -0.5, 3.83, 4.9, -5.1, 40.0],
     [4.99999999375e-05, -0.2422684576748739, 0.000687248220597037, -0.31469467101519066, 0.3370972020182318, 0.126038318037585]),
    ("bessel_y0", [0.0001, 0.5, 3.9, 4.9, 5.1, 40.0],
     [-5.937289069709337, -0.44451873350670656, 0.023375908198718962, -0.2920545942440142, -0.3216024491248594, 0.12593641705826092]),
    ("bessel_y1", [0.0001, 0.5, 2.2, 4.9, 5.1, 40.0],
     [-6366.198036455761, -1.471472392670243, 0.0014877892897633682, 0.18124669204504856, 0.11373644197749973, -0.005793505821549633]),
    ("modified_bessel_k0", [0.0001, 0.5, 1.9, 2.1, 40.0, 600.0],
     [9.326271913450276, 0.9244190712276659, 0.1288459792760475, 0.10078374088996693, 8.392861100099567e-19, 1.3558285309948523e-262]),
    ("modified_bessel_k1", [0.0001, 0.5, 1.9, 2.1, 40.0, 600.0],
     [9999.999508686404, 1.656441120003301, 0.15966015303266762, 0.12274641153350789, 8.497131954861039e-19, 1.356957918112806e-262]),
    ("scaled_modified_bessel_k0", [0.0001, 0.5, 1.9, 2.1, 40.0, 600.0],
     [9.327204587274533, 1.5241093857739094, 0.8614506167517558, 0.8230171525316621, 0.19755558495729816, 0.05115568572023596]),
    ("scaled_modified_bessel_k1", [0.0001, 0.5, 1.9, 2.1, 40.0, 600.0],
     [10000.999558638938, 2.731009708211786, 1.0674709298145701, 1.0023680527405792, 0.20000996725443349, 0.05119829772547244]),
    ("airy_ai", [-15.0, -3.1, -2.9, -2.34, 0.0, 0.5, 2.9, 3.1, 15.0],
     [0.2782174908708289, -0.4043822223909783, -0.341905095672983, -0.0013271024154458532, 0.3550280538878172, 0.23169360648083348, 0.007886312304121233, 0.005493996349186837, 2.1649625207379925e-18]),
    ("ndtri", [1e-300, 1e-20, 0.01, 0.139, 0.141, 0.5009765625, 0.859, 0.861, 0.99],
     [-37.0470962993612, -9.262340089798407, -2.326347874040841, -1.0848231279419567, -1.0758373610404317, 0.0024478816191106775, 1.0758373610404315, 1.0848231279419567, 2.3263478740408408]),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, values", GOLDEN, ids=[name for name, _, _ in GOLDEN])
def test_golden_values(name, arguments, values):
    function = compiled(getattr(torch.special, name))
    found = function(torch.tensor(arguments, dtype=torch.float64))
    # The absolute error is that of J and Y near their roots.
    atol = 2e-16 if name.startswith("bessel") else 0
    torch.testing.assert_close(found, torch.tensor(values, dtype=torch.float64), rtol=5e-15, atol=atol)
    assert thalweg.torch.statistics()["eager"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [name for name, _, _ in GOLDEN])
def test_edges_of_special_functions(name, dtype):
    info = torch.finfo(dtype)
    edges = [0.0, -0.0, info.tiny, -info.tiny, 1e-5, 1.0, 2.0, 3.0, -3.0, 5.0, -5.0, 104.0, 1000.0, -20.0, math.inf, -math.inf, math.nan]
    agree(getattr(torch.special, name), torch.tensor(edges, dtype=dtype), rtol=1e-4)


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_values_of_a_grid_are_added_axis_by_axis(dtype):
    x, values = torch.zeros(2, 3, 4, 5, 2, dtype=dtype), torch.randn(2, 3, 6, 7, 2).to(dtype)
    i, j = torch.tensor([0, -1, 2, 2, 3, 0]), torch.tensor([4, 0, -5, 1, 1, 1, 3])
    tolerances = {"rtol": 5e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {}
    for index in ((None, None, i[:, None], j), (None, None, i[:, None], j[None, :])):
        agree(lambda x, v, index=index: torch.ops.aten.index_put(x, index, v, True), x, values, **tolerances)
    # Neither is a grid: one index is over both dimensions, or they are the other way round.
    both = torch.randint(0, 4, (6, 7))
    agree(lambda x, v: torch.ops.aten.index_put(x, (None, None, both, j), v, True), x, values, **tolerances)
    turned = values.transpose(2, 3).contiguous()
    agree(lambda x, v: torch.ops.aten.index_put(x, (None, None, i, j[:, None]), v, True), x, turned, **tolerances)
    # Out of range.
    with pytest.raises((IndexError, RuntimeError)):
        wrong = torch.tensor([0, 4, 1, 1, 1, 1])
        compiled(lambda x, v: torch.ops.aten.index_put(x, (None, None, wrong[:, None], j), v, True))(x, values).sum().item()


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


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_borders_of_own_elements(mode, dtype):
    shapes = [((2, 3, 9), (2, 3)), ((3, 9), (1, 0)), ((2, 3, 7, 8), (1, 2, 3, 0)), ((3, 7, 8), (2, 2, 2, 2)), ((1, 2, 5, 6, 7), (1, 2, 1, 1, 2, 3)),
              ((2, 3, 7, 8), (-1, 2, 3, -2)), ((2, 3, 9), (-2, -1))]  # fmt: skip
    for shape, widths in shapes:
        x = torch.randn(shape, dtype=dtype)
        for x in (x, x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.transpose(0, 1).contiguous().transpose(0, 1)):
            agree(lambda x: F.pad(x, widths, mode=mode), x)
            pad = compiled(lambda x: F.pad(x, widths, mode=mode).square().sum())
            given, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
            pad(given).backward()
            F.pad(wanted, widths, mode=mode).square().sum().backward()
            torch.testing.assert_close(given.grad, wanted.grad)
    assert thalweg.torch.statistics()["eager"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_cross_products(dtype):
    for a, b, dim in [((7, 3), (7, 3), -1), ((3, 5), (3, 5), 0), ((4, 1, 3), (1, 5, 3), 2), ((0, 3), (1, 3), 1)]:
        a, b = (torch.randint(-9, 9, shape).to(dtype) for shape in (a, b))
        agree(lambda a, b, dim=dim: torch.linalg.cross(a, b, dim=dim), a, b)
        if dtype.is_floating_point:
            given, wanted = a.clone().requires_grad_(), a.clone().requires_grad_()
            compiled(lambda x, b=b, dim=dim: torch.linalg.cross(x, b, dim=dim).square().sum())(given).backward()
            torch.linalg.cross(wanted, b, dim=dim).square().sum().backward()
            torch.testing.assert_close(given.grad, wanted.grad)
    assert thalweg.torch.statistics()["eager"] == {}
