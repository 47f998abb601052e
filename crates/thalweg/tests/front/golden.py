"""Writes golden.txt and display.txt beside this file: what NumPy makes of the cases that the tests recompute.

    python3 golden.py        (needs numpy)
"""
import math
import os
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
cases = {}


def case(name, value):
    assert name not in cases, name
    cases[name] = np.asarray(value)


x = np.arange(24.0).reshape(2, 3, 4)
m = np.arange(12.0).reshape(3, 4)
v = np.arange(5.0)

# Views
case("reshape", x.reshape(4, -1))
case("permute", x.transpose(2, 0, 1))
case("transpose", x.swapaxes(0, -1))
case("movedim_forward", np.moveaxis(x, 0, 2))
case("movedim_back", np.moveaxis(x, -1, 0))
case("t", x.swapaxes(-1, -2))
case("broadcast_to", np.broadcast_to(m[:, None, :], (2, 3, 2, 4)))
case("slice_ranges", x[:, 1:, 1:3])
case("slice_negative", x[-1:, :-1, -3:-1])
case("slice_steps", x[:, ::2, ::-1])
case("slice_back", x[0, 2:0:-1, 3::-2])
case("slice_index", x[1, :, -2])
case("slice_past_the_end", x[:9, 2:1, :])
case("slice_rest", x[..., 1])
case("slice_new_axis", x[:, None, 0])
case("flip", np.flip(x, (0, 2)))
case("flip_of_permute", np.flip(x.transpose(2, 1, 0), 0)[::2])
case("roll", np.roll(x, 5, 2))
case("roll_back", np.roll(m, -1, 0))
case("window", np.lib.stride_tricks.sliding_window_view(m, 2, 1)[:, ::2])
case("diagonal", np.diagonal(x, 1, 1, 2))
case("diagonal_below", np.diagonal(m, -1))
case("diagonal_none", np.diagonal(m, 9))

# Joining
case("cat", np.concatenate([x, x[:, :1], x * 2], 1))
case("stack", np.stack([m, m + 1, m + 2], 1))
case("stack_last", np.stack([m, m + 1], -1))
case("repeat", np.repeat(m, 2, 1))
case("tile", np.tile(m, (2, 1, 2)))
case("tile_short", np.tile(x, 2))
case("pad_constant", np.pad(m, ((1, 0), (2, 3)), constant_values=-1))
case("pad_edge", np.pad(m, ((1, 2), (2, 0)), "edge"))
case("pad_reflect", np.pad(m, ((1, 2), (3, 2)), "reflect"))
case("pad_wrap", np.pad(m, ((2, 1), (4, 3)), "wrap"))
case("split_1", np.array_split(v, [2, 4])[1])
case("split_2", np.array_split(v, [2, 4])[2])

# Broadcasting
case("broadcast_add", x[:, :1] + m[:, :1] * np.arange(4.0))
case("broadcast_outer", v[:, None] - v)
case("broadcast_where", np.where(v[:, None] > v, v[:, None], -v))
case("broadcast_clamp", np.clip(m, np.array([[1.0], [5.0], [9.0]]), np.array([2.0, 4.0, 8.0, 10.0])))

# Creation
case("arange_step", np.arange(1, 10, 3.0))
case("arange_back", np.arange(5, -4, -2.0))
case("arange_fraction", np.arange(0, 1, 0.3))
case("linspace", np.linspace(-1, 2, 7))
case("linspace_one", np.linspace(3, 4, 1))
case("eye", np.eye(3, 4))
case("tri", np.tri(3, 4, 1))
case("tril", np.tril(x, -1))
case("triu", np.triu(x, 1))

# Reductions
case("sum_all", x.sum())
case("sum_middle", x.sum(1))
case("sum_two_keep", x.sum((0, 2), keepdims=True))
case("mean", x.mean(-1))
case("prod", (m + 1).prod(1))
case("amax", np.sin(x).max((1, 2)))
case("amin", np.sin(x).min(0))
case("argmax", np.sin(x).argmax(1).astype(float))
case("argmin_all", float(np.sin(x).argmin()))
case("any", (x > 20).any(2).astype(float))
case("all", (x > 3).all((1, 2)).astype(float))
case("var", np.sin(x).var((0, 2)))
case("var_unbiased", np.sin(x).var(1, ddof=1))
case("std", np.sin(x).std())
case("norm", np.linalg.norm(m, axis=1))
case("norm_1", np.linalg.norm(np.sin(m), 1, axis=0))
case("norm_3", np.linalg.norm(np.sin(m), 3, axis=0))
e = np.exp(np.sin(x) - np.sin(x).max(1, keepdims=True))
case("softmax", e / e.sum(1, keepdims=True))
case("log_softmax", np.log(e / e.sum(1, keepdims=True)))
case("logsumexp", np.log(np.exp(np.sin(x)).sum((0, 1))))
c = x - x.mean((1, 2), keepdims=True)
case("layer_norm", c / np.sqrt((c * c).mean((1, 2), keepdims=True) + 1e-5))
case("rms_norm", x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5))

# Products
case("matmul", x @ m.T)
case("matmul_batched", x[:, None] @ x.swapaxes(1, 2))
case("matmul_row", v[:4] @ x.swapaxes(1, 2))
case("matmul_column", x @ v[:4])
case("matmul_vectors", v @ v)
case("dot", np.dot(v, v + 1))
case("outer", np.outer(v, v + 1))

# Elementwise, on values of both signs
s = np.array([-3.7, -2.5, -1.0, -0.3, -0.0, 0.0, 0.2, 0.5, 1.0, 1.5, 2.5, 30.0])
p = np.abs(s) + 0.1
u = s / 31.0
erf = np.vectorize(math.erf)
sigmoid = lambda a: 1 / (1 + np.exp(-a))
softplus = lambda a: np.log1p(np.exp(-np.abs(a))) + np.maximum(a, 0)
for name, value in {
    "neg": -s, "abs": np.abs(s), "sign": np.sign(s), "square": s * s, "sqrt": np.sqrt(p), "rsqrt": 1 / np.sqrt(p),
    "recip": 1 / p, "exp": np.exp(s), "exp2": np.exp2(s), "expm1": np.expm1(s), "log": np.log(p), "log2": np.log2(p),
    "log10": np.log10(p), "log1p": np.log1p(p), "sin": np.sin(s), "cos": np.cos(s), "tan": np.tan(s),
    "asin": np.arcsin(u), "acos": np.arccos(u), "atan": np.arctan(s), "sinh": np.sinh(s), "cosh": np.cosh(s),
    "tanh": np.tanh(s), "asinh": np.arcsinh(s), "acosh": np.arccosh(p + 1), "atanh": np.arctanh(u), "erf": erf(s),
    "erfc": np.vectorize(math.erfc)(s), "sigmoid": sigmoid(s), "relu": np.maximum(s, 0), "floor": np.floor(s),
    "ceil": np.ceil(s), "round": np.round(s), "trunc": np.trunc(s), "floor_div": np.floor_divide(s, 0.7),
    "rem": np.remainder(s, 0.7), "rem_negative": np.remainder(s, -0.7), "pow": np.power(p, s),
    "minimum": np.minimum(s, 0.3), "maximum": np.maximum(0.3, s), "atan2": np.arctan2(s, p), "hypot": np.hypot(s, p),
    "lerp": s + 0.25 * (p - s), "gelu": s * 0.5 * (1 + erf(s / math.sqrt(2))),
    "gelu_tanh": 0.5 * s * (1 + np.tanh(math.sqrt(2 / math.pi) * (s + 0.044715 * s ** 3))),
    "silu": s * sigmoid(s), "softplus": softplus(s), "mish": s * np.tanh(softplus(s)),
    "leaky_relu": np.where(s >= 0, s, 0.1 * s), "elu": np.where(s > 0, s, 1.5 * np.expm1(s)),
    "selu": 1.0507009873554805 * np.where(s > 0, s, 1.6732632423543772 * np.expm1(s)),
    "celu": np.maximum(s, 0) + np.minimum(0, 2.0 * np.expm1(s / 2.0)),
    "hardtanh": np.clip(s, -1, 2), "relu6": np.clip(s, 0, 6), "hardsigmoid": np.clip(s + 3, 0, 6) / 6,
    "hardswish": s * np.clip(s + 3, 0, 6) / 6, "softsign": s / (1 + np.abs(s)), "tanhshrink": s - np.tanh(s),
    "hardshrink": np.where(np.abs(s) > 0.5, s, 0), "softshrink": np.where(s > 0.5, s - 0.5, np.where(s < -0.5, s + 0.5, 0)),
    "threshold": np.where(s > 1, s, 7), "log_sigmoid": -softplus(-s), "logit": np.log((u + 1) / 2 / (1 - (u + 1) / 2)),
    "sinc": np.sinc(s), "rad2deg": np.rad2deg(s), "deg2rad": np.deg2rad(s), "fract": s - np.trunc(s),
    "nan_to_num": np.array([1.0, 2.0, 3.0, -4.0]),
}.items():
    case(name, value)

with open(os.path.join(here, "golden.txt"), "w") as f:
    for name, value in cases.items():
        dims = ",".join(map(str, value.shape))
        f.write(f"{name}|{dims}|{' '.join(repr(float(n)) for n in value.ravel())}\n")

# Text. Four digits; bool and NaN are spelled as Rust and NumPy agree after lowering.
np.set_printoptions(precision=4)
texts = {
    "f32_small": np.array([[1, 2.5], [-3, 0.125]], np.float32),
    "f32_thirds": np.arange(6, dtype=np.float32) / np.float32(3),
    "f32_tenths": np.arange(5, dtype=np.float32) * np.float32(0.1),
    "f32_scalar": np.array(0.1, np.float32),
    "f32_scientific": np.array([1e-5, 1.5, -22000.0], np.float32),
    "f32_large": np.array([1e8, 2.5e10], np.float32),
    "f32_specials": np.array([np.nan, np.inf, -np.inf, 1.5, 0.0], np.float32),
    "f32_only_specials": np.array([np.nan, -np.inf], np.float32),
    "f32_whole": np.array([10.0, -2.0, 300.0], np.float32),
    "f64_precise": np.array([math.pi, -math.e, 100.0]),
    "f64_rounded_up": np.array([0.99999, 1.00001, 0.5]),
    "f16": np.array([0.1, 0.333, 65504.0], np.float16),
    "i32": np.arange(-3, 9, dtype=np.int32).reshape(3, 4),
    "u8": np.array([0, 255, 7], np.uint8),
    "bool": np.array([[True, False], [False, False]]),
    "rank_3": np.arange(12, dtype=np.float32).reshape(2, 2, 3),
    "rank_4": np.arange(16, dtype=np.int64).reshape(2, 2, 2, 2),
    "wrapped": np.arange(40, dtype=np.float32) * np.float32(1.5),
    "wrapped_rows": np.arange(60, dtype=np.int64).reshape(2, 30) * 100,
    "abridged": np.arange(1001, dtype=np.int32),
    "abridged_matrix": np.arange(10000, dtype=np.float32).reshape(100, 100),
    "abridged_rank_3": np.arange(4000, dtype=np.int64).reshape(4, 10, 100),
    "one": np.array([[[5]]], np.int64),
    "empty": np.zeros((0, 3), np.float32),
}
with open(os.path.join(here, "display.txt"), "w") as f:
    for name, value in texts.items():
        text = str(value).replace("True", "true").replace("False", "false")
        f.write(f"--- {name}\n{text}\n")
