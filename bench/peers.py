"""The workloads for the peers: torch eager, torch.compile, jax.jit, numpy.

The same workloads, sizes and protocol as `thalweg bench`: data on the device, all cores, a first (cold) call, warm-up, then at least
20 timed runs, each until the result is there. One JSON object a line.

    peers.py --peer jax gelu_custom softmax     figures of these workloads
    peers.py --peer torch.compile all           of all
    peers.py --peer jax --worker                answers one JSON request a line of standard input (for bench/run)
"""

import argparse
import functools
import json
import math
import os
import subprocess
import sys
import time

import array_peers

SQRT_2 = math.sqrt(2.0)
GELU = ("gelu_ref", "gelu_erf", "gelu_custom")
ROWS = ("softmax", "layernorm", "rmsnorm_swiglu")
FOLDS = (
    "fold_plain", "fold_rows", "fold_columns", "fold_weighted", "fold_weighted_rows", "fold_transposed", "fold_inner_slice",
    "fold_half_columns", "fold_every_second", "fold_both_ways", "fold_middle", "fold_outer", "fold_images", "fold_channels",
    "fold_scaled", "fold_scaled_channels", "fold_borderless", "fold_permuted", "fold_short", "fold_windows",
    "fold_long_windows", "fold_wide_windows", "fold_largest", "fold_spread",
)  # fmt: skip
BLOCKS = ("mlp_block", "llama_block", "llama_token", "decode", "resnet18")
TRANSFORMERS = ("attention_full", "attention_causal", "attention_long", "qkv", "gpt2", "train_gpt2")
WORKLOADS = [
    *GELU, "hub", *ROWS, "matmul", "matmul_tf32", "matmul_bf16", "matmul_f64", "matmul_batched", "matvec",
    "matmul_gelu", "matmul_gelu_tf32", "matmul_gelu_bf16", "small_chain", "attention", "attention_tf32", "attention_bf16",
    "conv2d", "depthwise", "conv2d_relu", "max_pool", "avg_pool", "train_mlp", "train_conv", *FOLDS, *BLOCKS, *TRANSFORMERS, *array_peers.TORCH, "dyn_shapes",
]  # fmt: skip
IMAGES = ("conv2d", "depthwise", "conv2d_relu", "max_pool", "avg_pool")


class Peer:
    """What the workloads need of a library. `f` is the namespace of its functions."""

    def jit(self, function):
        return function

    def precision(self, tf32):
        """Whether products of f32 may run in TF32."""

    def finish(self, out):
        """Returns when `out` has been computed."""

    def forget(self):
        """Forgets everything compiled."""

    def host(self, x):
        """The values on the host."""
        return memoryview(x.__array__())


class Numpy(Peer):
    name = "numpy"

    def __init__(self, device):
        import numpy

        if device != "cpu":
            raise SystemExit("numpy runs on the cpu")
        self.f = self.np = numpy
        self.device = "cpu"

    def array(self, host, bf16=False):
        if bf16:
            raise NotImplementedError("numpy has no bf16")
        return host

    def gelu(self, x):
        raise NotImplementedError("numpy has no gelu")

    def erf(self, x):
        raise NotImplementedError("numpy has no erf")

    def relu(self, x):
        return self.np.maximum(x, 0)

    def sigmoid(self, x):
        return 1 / (1 + self.np.exp(-x))

    def sum(self, x, axis, keep=True):
        return x.sum(axis, keepdims=keep)

    def mean(self, x, axis):
        return x.mean(axis, keepdims=True)

    def max(self, x, axis):
        return x.max(axis, keepdims=True)

    def transposed(self, x):
        return x.swapaxes(-1, -2)


class Jax(Peer):
    name = "jax"

    def __init__(self, device):
        os.environ.setdefault("JAX_PLATFORMS", "cpu" if device == "cpu" else "cuda")
        import jax
        import jax.numpy as jnp

        self.jax, self.f, self.device = jax, jnp, device

    def precision(self, tf32):
        self.jax.config.update("jax_default_matmul_precision", None if tf32 else "highest")

    def array(self, host, bf16=False):
        if host.dtype == "float64":
            raise NotImplementedError("jax has f64 in a mode of its own only")
        return self.jax.device_put(self.f.asarray(host, dtype=self.f.bfloat16 if bf16 else None)).block_until_ready()

    def jit(self, function):
        return self.jax.jit(function)

    def finish(self, out):
        self.jax.block_until_ready(out)

    def forget(self):
        self.jax.clear_caches()

    def gelu(self, x):
        return self.jax.nn.gelu(x, approximate=False)

    def erf(self, x):
        return self.jax.scipy.special.erf(x)

    def relu(self, x):
        return self.jax.nn.relu(x)

    def sigmoid(self, x):
        return self.jax.nn.sigmoid(x)

    def sum(self, x, axis, keep=True):
        return x.sum(axis, keepdims=keep)

    def mean(self, x, axis):
        return x.mean(axis, keepdims=True)

    def max(self, x, axis):
        return x.max(axis, keepdims=True)

    def transposed(self, x):
        return x.swapaxes(-1, -2)

    def conv2d(self, x, w, bias=None):
        out = self.jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=x.shape[1] // w.shape[1])
        return out if bias is None else out + bias[:, None, None]

    def conv(self, x, w, stride, padding):
        return self.jax.lax.conv_general_dilated(x, w, (stride, stride), ((padding, padding), (padding, padding)))

    def attention(self, q, k, v, causal):
        # [heads, n, d] here, [n, heads, d] there.
        q, k, v = (t.swapaxes(0, 1) for t in (q, k, v))
        return self.jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(0, 1)

    def batched_attention(self, q, k, v, causal):
        # [batch, heads, n, d] here, [batch, n, heads, d] there.
        q, k, v = (t.swapaxes(1, 2) for t in (q, k, v))
        return self.jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(1, 2)

    def max_pool(self, x, stride):
        import numpy as np

        pads = ((0, 0), (0, 0), (1, 1), (1, 1))
        return self.jax.lax.reduce_window(x, -np.inf, self.jax.lax.max, (1, 1, 3, 3), (1, 1, stride, stride), pads)

    def mean_of_windows(self, x, size):
        return self.jax.lax.reduce_window(x, 0.0, self.jax.lax.add, size, (1, 1), "VALID") / (size[0] * size[1])

    def largest_of_windows(self, x, size):
        return self.jax.lax.reduce_window(x, -float("inf"), self.jax.lax.max, size, (1, 1), "VALID")

    def avg_pool(self, x, stride):
        pads = ((0, 0), (0, 0), (1, 1), (1, 1))
        return self.jax.lax.reduce_window(x, 0.0, self.jax.lax.add, (1, 1, 3, 3), (1, 1, stride, stride), pads) / 9


class Torch(Peer):
    name = "torch"

    def __init__(self, device):
        # A cold call compiles: what an earlier process left on disk would hide it.
        os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
        import torch

        torch.set_grad_enabled(False)
        self.torch = self.f = torch
        self.device = "cpu" if device == "cpu" else "cuda"
        if self.device == "cpu":
            torch.set_num_threads(len(os.sched_getaffinity(0)))

    def precision(self, tf32):
        self.torch.set_float32_matmul_precision("high" if tf32 else "highest")
        # Convolutions have a switch of their own, which is on unless somebody says otherwise.
        self.torch.backends.cudnn.allow_tf32 = tf32

    def array(self, host, bf16=False):
        x = self.torch.from_numpy(host).to(self.device)
        return x.bfloat16() if bf16 else x

    def finish(self, out):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def host(self, x):
        return x.cpu().numpy()

    def gelu(self, x):
        return self.torch.nn.functional.gelu(x)

    def erf(self, x):
        return self.torch.erf(x)

    def relu(self, x):
        return self.torch.relu(x)

    def sigmoid(self, x):
        return self.torch.sigmoid(x)

    def sum(self, x, axis, keep=True):
        return x.sum(axis, keepdim=keep)

    def mean(self, x, axis):
        return x.mean(axis, keepdim=True)

    def max(self, x, axis):
        return x.amax(axis, keepdim=True)

    def transposed(self, x):
        return x.transpose(-1, -2)

    def conv2d(self, x, w, bias=None):
        return self.torch.nn.functional.conv2d(x, w, bias, padding=1, groups=x.shape[1] // w.shape[1])

    def conv(self, x, w, stride, padding):
        return self.torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)

    def attention(self, q, k, v, causal):
        attend = self.torch.nn.functional.scaled_dot_product_attention
        return attend(q[None], k[None], v[None], is_causal=causal, enable_gqa=True)[0]

    def batched_attention(self, q, k, v, causal):
        attend = self.torch.nn.functional.scaled_dot_product_attention
        if self.device == "cpu":
            return attend(q, k, v, is_causal=causal)
        # The fastest first, which is not the order that it takes by itself.
        from torch.nn.attention import SDPBackend as B, sdpa_kernel

        with sdpa_kernel([B.CUDNN_ATTENTION, B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION, B.MATH], set_priority=True):
            return attend(q, k, v, is_causal=causal)

    def max_pool(self, x, stride):
        return self.torch.nn.functional.max_pool2d(x, 3, stride, 1)

    def mean_of_windows(self, x, size):
        return self.torch.nn.functional.avg_pool2d(x[None, None], size, 1)

    def largest_of_windows(self, x, size):
        return self.torch.nn.functional.max_pool2d(x[None, None], size, 1)

    def avg_pool(self, x, stride):
        return self.torch.nn.functional.avg_pool2d(x, 3, stride, 1)


class TorchCompile(Torch):
    name = "torch.compile"

    def jit(self, function):
        return self.torch.compile(function)

    def forget(self):
        self.torch._dynamo.reset()


PEERS = {p.name: p for p in (Torch, TorchCompile, Jax, Numpy)}


def gelu_erf(p, x):
    return x * (p.erf(x / SQRT_2) + 1) / 2


def erf_positive(p, x):
    t = 1 / (abs(x) * 0.3275911 + 1)
    poly = ((((t * 1.061405429 - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return -(poly * p.f.exp(-x * x)) + 1


def gelu_custom(p, x):
    z = x / SQRT_2
    erf = p.f.where(z > 0, erf_positive(p, z), -erf_positive(p, -z))
    return x * (erf + 1) / 2


def hub(p, x):
    f = p.f
    h = f.tanh(x * 1.5 + 0.25)
    c0 = h / (p.sum(h * h, 1) + 1)
    c1 = p.relu(h - p.mean(h, 0))
    c2 = f.exp(h - p.max(h, 1))
    c3 = h * p.sum(f.sin(h) * f.cos(h), 0)
    c4 = h + p.mean(f.tanh(h * 3), 1)
    c5 = f.log(p.sum(f.exp(h), 1)) * h
    out = (c0 + c1) * (c2 + 1) + p.relu(c3) * c4 - c5
    return out, p.sum(out, 1, keep=False)


def softmax(p, x):
    e = p.f.exp(x - p.max(x, -1))
    return e / p.sum(e, -1)


def layernorm(p, x, g, b):
    centred = x - p.mean(x, -1)
    return centred / p.f.sqrt(p.mean(centred * centred, -1) + 1e-5) * g + b


def rmsnorm_swiglu(p, x, g, z):
    y = x / p.f.sqrt(p.mean(x * x, -1) + 1e-5) * g
    return y * p.sigmoid(y) * z


def matmul(p, a, b):
    return a @ b


def matmul_gelu(p, a, b, bias):
    return p.gelu(a @ b + bias)


def small_chain(p, y):
    for _ in range(100):
        y = p.f.tanh(y * 1.0001 + 0.0001)
    return y


def attention(p, q, k, v, mask):
    return softmax(p, q @ p.transposed(k) / math.sqrt(q.shape[-1]) + mask) @ v


def images(p, name, normal, large):
    """Convolutions and pooling: the function and its arguments."""
    if p.name == "numpy":
        raise NotImplementedError("numpy has no convolutions")
    n = 256 if large else 16
    if name == "max_pool":
        return (lambda p, x: p.max_pool(x, 2)), [normal(n, 64, 112, 112)]
    if name == "avg_pool":
        return (lambda p, x: p.avg_pool(x, 1)), [normal(n, 64, 56, 56)]
    x, w = normal(n, 64, 56, 56), normal(64, 1 if name == "depthwise" else 64, 3, 3)
    if name == "conv2d_relu":
        return (lambda p, x, w, b: p.relu(p.conv2d(x, w, b))), [x, w, normal(64)]
    return (lambda p, x, w: p.conv2d(x, w)), [x, w]


def weight(normal, *shape):
    """Of about unit gain."""
    return normal(*shape) / math.sqrt(math.prod(shape[1:]))


def mlp_block(p, x, w1, b1, w2, b2, g, b):
    return layernorm(p, x + p.gelu(x @ w1.T + b1) @ w2.T + b2, g, b)


def cat(p, parts, axis):
    return p.f.cat(parts, axis) if p.name.startswith("torch") else p.f.concatenate(parts, axis)


def rms_norm(p, x, g):
    return x / p.f.sqrt(p.mean(x * x, -1) + 1e-5) * g


def rope(p, x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + cat(p, (-x[..., half:], x[..., :half]), -1) * sin


def llama(p, x, cos, sin, norm, q, k, v, o, after, gate, up, down, *cache):
    def heads(t):
        return t.reshape(t.shape[0], -1, 64).swapaxes(0, 1)

    h = rms_norm(p, x, norm)
    queries, keys, values = rope(p, heads(h @ q.T), cos, sin), rope(p, heads(h @ k.T), cos, sin), heads(h @ v.T)
    if cache:
        keys, values = cat(p, (cache[0], keys), 1), cat(p, (cache[1], values), 1)
    seen = p.attention(queries, keys, values, not cache).swapaxes(0, 1).reshape(x.shape[0], -1)
    x = x + seen @ o.T
    h = rms_norm(p, x, after)
    g = h @ gate.T
    y = x + (g * p.sigmoid(g) * (h @ up.T)) @ down.T
    return (y, keys, values) if cache else y


def decode(p, cos, sin, words, *rest):
    """What a decoder says, word by word, with caches that grow."""
    import numpy as np

    layers = [list(rest[i : i + 11]) for i in range(0, len(rest), 11)]
    token, said = 0, []
    for position in range(cos.shape[0]):
        x = words[token : token + 1]
        for layer in layers:
            x, *layer[9:] = llama(p, x, cos[position : position + 1], sin[position : position + 1], *layer)
        token = int((rms_norm(p, x, 1.0) @ words.T).argmax())
        said.append(token)
    return p.array(np.array(said, np.float32))


RESNET = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))


def resnet18(p, x, *weights):
    rest = iter(weights)

    def conv(x, stride, padding):
        w, scale, shift = next(rest), next(rest), next(rest)
        return p.conv(x, w, stride, padding) * scale + shift

    x = p.max_pool(p.relu(conv(x, 2, 3)), 2)
    for _, _, stride in RESNET:
        inner = conv(p.relu(conv(x, stride, 1)), 1, 1)
        x = p.relu(inner + (x if stride == 1 else conv(x, stride, 0)))
    return x.mean((2, 3)) @ next(rest).T + next(rest)


def blocks(p, name, normal, large):
    """Blocks of networks: the function and its arguments."""
    if name == "mlp_block":
        rows, d = (8192, 1024) if large else (512, 768)
        first = [normal(rows, d), weight(normal, 4 * d, d), normal(4 * d)]
        return mlp_block, first + [weight(normal, d, 4 * d), normal(d), normal(d), normal(d)]
    if name == "resnet18":
        arguments = [normal(16 if large else 1, 3, 224, 224)]
        shapes = [(64, 3, 7)]
        for of, out, stride in RESNET:
            shapes += [(out, of, 3), (out, out, 3)] + ([(out, of, 1)] if stride != 1 else [])
        for out, of, side in shapes:
            arguments += [weight(normal, out, of, side, side), normal(out, 1, 1) * 0.1 + 0.5, normal(out, 1, 1) * 0.1 + 0.5]
        return resnet18, [*arguments, weight(normal, 1000, 512), normal(1000)]
    if name == "decode":
        if p.name in ("jax", "torch.compile"):
            raise NotImplementedError("a cache that grows is compiled for each length")
        positions, d, groups, hidden = 512 if large else 128, 512, 2, 1408
        arguments = [normal(positions, 64), normal(positions, 64), weight(normal, 1000, d)]
        for _ in range(4):
            arguments += [normal(d), weight(normal, d, d), weight(normal, groups * 64, d), weight(normal, groups * 64, d), weight(normal, d, d)]
            arguments += [normal(d), weight(normal, hidden, d), weight(normal, hidden, d), weight(normal, d, hidden)]
            arguments += [normal(groups, 1, 64), normal(groups, 1, 64)]
        return decode, arguments
    token = name == "llama_token"
    positions, d = (1, 2048) if token else (2048, 2048) if large else (256, 512)
    heads, groups, hidden = d // 64, d // 256, d * 11 // 4
    arguments = [normal(positions, d), normal(positions, 64), normal(positions, 64), normal(d)]
    arguments += [weight(normal, heads * 64, d), weight(normal, groups * 64, d), weight(normal, groups * 64, d)]
    arguments += [weight(normal, d, heads * 64), normal(d), weight(normal, hidden, d), weight(normal, hidden, d), weight(normal, d, hidden)]
    return llama, arguments + ([normal(groups, 511, 64), normal(groups, 511, 64)] if token else [])


def gpt2(p, tokens, words, places, *rest):
    """GPT-2 to the logits."""
    d = words.shape[1]

    def split(t):
        return t.reshape(*t.shape[:2], d // 64, 64).swapaxes(1, 2)

    x = words[tokens] + places
    for i in range(0, len(rest) - 2, 12):
        qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias, g1, b1, g2, b2 = rest[i : i + 12]
        every = layernorm(p, x, g1, b1) @ qkv.T + qkv_bias
        seen = p.batched_attention(*(split(every[..., n * d : (n + 1) * d]) for n in range(3)), True)
        x = x + seen.swapaxes(1, 2).reshape(*x.shape) @ out.T + out_bias
        x = x + p.gelu(layernorm(p, x, g2, b2) @ up.T + up_bias) @ down.T + down_bias
    return layernorm(p, x, *rest[-2:]) @ words.T


def transformers(p, name, normal, large, rng):
    """Attention by itself, products of one input, GPT-2 small: the function and its arguments."""
    import numpy as np

    if name == "qkv":
        rows, d = (4096, 1024) if large else (512, 256)
        return (lambda p, x, *w: tuple(x @ w.T for w in w)), [normal(rows, d), *(weight(normal, d, d) for _ in range(3))]
    if name == "gpt2":
        layers, d, words, batch, positions = (12, 768, 50257, 8, 1024) if large else (2, 384, 1000, 2, 64)
        arguments = [p.array(rng.integers(0, words, (batch, positions)).astype(np.int32)), weight(normal, words, d), weight(normal, positions, d)]
        for _ in range(layers):
            for out, of in ((3 * d, d), (d, d), (4 * d, d), (d, 4 * d)):
                arguments += [weight(normal, out, of), normal(out) * 0.1]
            arguments += [normal(d) * 0.1 + 1 - i % 2 for i in range(4)]
        return gpt2, [*arguments, normal(d) * 0.1 + 1, normal(d) * 0.1]
    heads, n, d = (32, 8192, 128) if name == "attention_long" else (64, 2048, 64)
    heads, n = (heads, n) if large else (8, 512)
    causal = name != "attention_full"
    return (lambda p, q, k, v: p.batched_attention(q[None], k[None], v[None], causal)[0]), [normal(heads, n, d) for _ in range(3)]


def folds(p, name, normal, large):
    """Reductions over any axes: the function and its arguments."""
    n = 8192 if large else 4096
    permuted = (lambda x: x.permute(0, 2, 3, 1)) if p.name.startswith("torch") else (lambda x: x.transpose(0, 2, 3, 1))
    of_matrix = {
        "fold_plain": lambda p, x: (x * x).mean(),
        "fold_rows": lambda p, x: x.sum(1),
        "fold_columns": lambda p, x: x.sum(0),
        "fold_transposed": lambda p, x: (x.T * x.T).sum(),
        "fold_inner_slice": lambda p, x: (x[1:-1, 1:-1] ** 2).sum(),
        "fold_half_columns": lambda p, x: (x[:, : n // 2] ** 2).sum(),
        "fold_every_second": lambda p, x: (x[::2] ** 2).sum(),
        "fold_both_ways": lambda p, x: (x * x.T).sum(),
        "fold_middle": lambda p, x: x.reshape(64, n // 64, n).sum((0, 2)),
        # Of what has windows: each peer's own pooling.
        "fold_windows": lambda p, x: p.mean_of_windows(x, (3, 3)),
        "fold_long_windows": lambda p, x: p.mean_of_windows(x, (1, 64)),
        "fold_wide_windows": lambda p, x: p.mean_of_windows(x, (15, 15)),
        "fold_largest": lambda p, x: p.largest_of_windows(x, (1, 64)),
        # Cancels where means are large, which ours does not.
        "fold_spread": lambda p, x: p.mean_of_windows(x * x, (1, 64)) - p.mean_of_windows(x, (1, 64)) ** 2,
    }
    of_images = {
        "fold_images": lambda p, x, c: x.sum((1, 2, 3)),
        "fold_channels": lambda p, x, c: x.sum((0, 2, 3)),
        "fold_scaled": lambda p, x, c: (x * c).sum((1, 2, 3)),
        "fold_scaled_channels": lambda p, x, c: ((x * c) ** 2).sum((0, 2, 3)),
        "fold_borderless": lambda p, x, c: x[..., 1:-1, 1:-1].sum(),
        "fold_permuted": lambda p, x, c: permuted(x).sum((1, 2, 3)),
    }
    if name in of_matrix:
        return of_matrix[name], [normal(n, n)]
    if name in of_images:
        return of_images[name], [normal(64 if large else 16, 64, 128, 128), normal(64, 1, 1)]
    if name == "fold_weighted":
        return (lambda p, x, w: (x * x * w[:, None]).mean()), [normal(n, n), normal(n)]
    if name == "fold_weighted_rows":
        return (lambda p, x, w: (x * x * w).mean()), [normal(n, n), normal(n)]
    if name == "fold_outer":
        return (lambda p, a: p.f.exp(a[:, None] * a).sum()), [normal(24_000 if large else 6_000)]
    return (lambda p, x, b: ((x + b) ** 2).sum()), [normal(1 << (24 if large else 22), 3), normal(3)]


def prepare(p, name, large):
    """The function and its arguments, on the device."""
    import numpy as np

    rng = np.random.default_rng(1)

    def normal(*shape):
        return p.array(rng.standard_normal(shape, dtype=np.float32), narrow)

    narrow = name.endswith("_bf16")
    p.precision(name.endswith("_tf32"))
    name = name.removesuffix("_bf16").removesuffix("_tf32")
    products = {
        "matmul": (1, 4096, 4096, 4096), "matmul_f64": (1, 2048, 2048, 2048), "matmul_batched": (64, 512, 512, 512),
        "matvec": (1, 1, 4096, 4096),
    }  # fmt: skip
    if name in products:
        count, m, k, n = products[name] if large else (-(-size // 8) for size in products[name])
        shapes = ((m, k), (k, n)) if count == 1 else ((count, m, k), (count, k, n))
        if name == "matmul_f64":
            return matmul, [p.array(rng.standard_normal(shape)) for shape in shapes]
        return matmul, [normal(*shape) for shape in shapes]
    if name in GELU:
        functions = {"gelu_ref": lambda p, x: p.gelu(x), "gelu_erf": gelu_erf, "gelu_custom": gelu_custom}
        return functions[name], [normal(32 if large else 4, 512, 2048)]
    if name in IMAGES:
        return images(p, name, normal, large)
    if name in BLOCKS:
        return blocks(p, name, normal, large)
    if name in FOLDS:
        return folds(p, name, normal, large)
    if name in array_peers.TORCH:
        return array_peers.prepare(p, name, normal, large)
    if name in TRANSFORMERS:
        return transformers(p, name, normal, large, rng)
    if name == "hub":
        n = 4096 if large else 1024
        return hub, [normal(n, n)]
    n, m = (8192, 4096) if large else (2048, 1024)
    if name == "softmax":
        return softmax, [normal(n, m)]
    if name == "layernorm":
        return layernorm, [normal(n, m), normal(m), normal(m)]
    if name == "rmsnorm_swiglu":
        return rmsnorm_swiglu, [normal(n, m), normal(m), normal(n, m)]
    if name == "matmul_gelu":
        n = 4096 if large else 512
        return matmul_gelu, [normal(n, n), normal(n, n), normal(n)]
    if name == "small_chain":
        return small_chain, [normal(32, 32)]
    if name == "attention":
        heads, n, d = (64, 2048, 64) if large else (8, 512, 64)
        mask = np.where(np.tri(n) > 0, 0.0, -np.inf).astype(np.float32)
        return attention, [*(normal(heads, n, d) for _ in range(3)), p.array(mask, narrow)]
    raise NotImplementedError(f"no workload {name} for the peers")


def train_mlp(p):
    """A training step of 784-512-512-10 on one batch of 128, by Adam: forward, backward, step. Returns what takes one and gives the loss."""
    import numpy as np

    rng = np.random.default_rng(1)
    sizes = (784, 512, 512, 10)
    x, y = rng.standard_normal((128, 784), dtype=np.float32), rng.integers(0, 10, 128)
    if p.name == "jax":
        return train_mlp_jax(p.jax, sizes, x, y, rng)
    if p.name == "numpy":
        raise NotImplementedError("numpy has no gradients")
    torch = p.torch
    torch.manual_seed(1)
    layers = [torch.nn.Linear(sizes[0], sizes[1]), torch.nn.ReLU(), torch.nn.Linear(sizes[1], sizes[2]), torch.nn.ReLU(), torch.nn.Linear(sizes[2], sizes[3])]
    return train_torch(p, torch.nn.Sequential(*layers), x, y)


def train_conv(p):
    """A training step of two convolutions with norms and pooling on 64 images of 8×8, by Adam."""
    import numpy as np

    if not p.name.startswith("torch"):
        raise NotImplementedError("written for torch alone")
    torch = p.torch
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((64, 1, 8, 8), dtype=np.float32), rng.integers(0, 10, 64)
    torch.manual_seed(1)

    def conv(of, out):
        return [torch.nn.Conv2d(of, out, 3, padding=1, bias=False), torch.nn.BatchNorm2d(out), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]

    model = torch.nn.Sequential(*conv(1, 16), *conv(16, 32), torch.nn.Flatten(), torch.nn.Linear(128, 10))
    return train_torch(p, model, x, y)


def train_gpt2(p, large):
    """A training step of GPT-2 small by Adam: parameters in f32, products in bf16."""
    import numpy as np

    if not p.name.startswith("torch"):
        raise NotImplementedError("written for torch alone")
    torch = p.torch
    rng = np.random.default_rng(1)
    normal = lambda *shape: p.array(rng.standard_normal(shape, dtype=np.float32))
    function, (tokens, *parameters) = transformers(p, "gpt2", normal, large, rng)
    x = tokens.cpu().numpy().astype(np.int64)

    class Gpt2(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.all = [torch.nn.Parameter(t.clone()) for t in parameters]
            for i, t in enumerate(self.all):
                self.register_parameter(f"p{i}", t)

        def forward(self, tokens):
            with torch.autocast(p.device, torch.bfloat16):
                return function(p, tokens, *self.all).float().flatten(0, 1)

    return train_torch(p, Gpt2(), x, np.roll(x, -1, 1).reshape(-1))


def train_torch(p, model, x, y):
    torch = p.torch
    torch.set_grad_enabled(True)
    model = model.to(p.device)
    x, y = torch.from_numpy(x).to(p.device), torch.from_numpy(y).to(p.device)
    # Of its forms of Adam the fastest: all parameters in one kernel, or, compiled, what the compiler makes of them.
    compiled = p.name == "torch.compile"
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=not compiled)
    forward = p.jit(lambda x, y: torch.nn.functional.cross_entropy(model(x), y))
    update = p.jit(lambda: optimizer.step())

    def step():
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        update()
        return loss

    return step


def train_mlp_jax(jax, sizes, x, y, rng):
    import jax.numpy as jnp

    state = {}
    bound = lambda i: 1 / math.sqrt(sizes[i])
    uniform = lambda i, *shape: jnp.asarray(rng.uniform(-bound(i), bound(i), shape), jnp.float32)
    parameters = [(uniform(i, sizes[i], sizes[i + 1]), uniform(i, sizes[i + 1])) for i in range(3)]
    zeros = lambda: jax.tree.map(jnp.zeros_like, parameters)
    state["all"] = (parameters, zeros(), zeros(), jnp.zeros(()))
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss_of(parameters, x, y):
        for w, b in parameters[:-1]:
            x = jax.nn.relu(x @ w + b)
        logits = x @ parameters[-1][0] + parameters[-1][1]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

    def step(state, x, y):
        parameters, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(parameters, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        c, d = 1 - 0.9**t, jnp.sqrt(1 - 0.999**t)
        parameters = jax.tree.map(lambda p, m, v: p - 1e-3 / c * m / (jnp.sqrt(v) / d + 1e-8), parameters, m, v)
        return (parameters, m, v, t), loss

    compiled = jax.jit(step, donate_argnums=0)

    def call():
        state["all"], loss = compiled(state["all"], x, y)
        return state["all"], loss

    return call


TRAINING = {"train_mlp": lambda p, _: train_mlp(p), "train_conv": lambda p, _: train_conv(p), "train_gpt2": train_gpt2}


class Draws:
    """The generator of crates/thalweg-cli/src/new_code.rs."""

    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 % 2**64

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def share(self):
        return self.below(1000) / 1000


def first_ops(seed):
    """Random operations on six tensors of [32, 32]; every dozen of them a mean is read, and decides what comes next."""
    import torch

    draws, done = Draws(seed), 0
    pool = [torch.arange(1024, dtype=torch.float32).reshape(32, 32) * (0.001 * (i + 1)) for i in range(6)]
    while done < 3000:
        a, b, to = draws.below(6), draws.below(6), draws.below(6)
        x, y = pool[a], pool[b]
        match draws.below(16):
            case 0:
                made, count = (x + y) * 0.5, 2
            case 1:
                made, count = x - y, 1
            case 2:
                made, count = (x * y).tanh(), 2
            case 3:
                made, count = torch.maximum(x, y), 1
            case 4:
                made, count = torch.minimum(x, y), 1
            case 5:
                made, count = x.tanh(), 1
            case 6:
                made, count = (-x.abs()).exp(), 3
            case 7:
                made, count = x.sigmoid(), 1
            case 8:
                made, count = x.relu(), 1
            case 9:
                made, count = x.abs().sqrt(), 2
            case 10:
                made, count = x * (draws.share() - 0.5) + draws.share(), 2
            case 11:
                made, count = x - x.sum(1, keepdim=True) / 32, 3
            case 12:
                made, count = x.t(), 1
            case 13:
                made, count = x / (x.abs().amax(0, keepdim=True) + 1), 4
            case 14:
                made, count = torch.where(x > y, x, y * 0.5), 3
            case _:
                at = 1 + draws.below(31)
                made, count = torch.cat([x[at:], x[:at]]), 3
        pool[to] = made
        done += count
        if draws.below(5) == 0:
            pool[a] = pool[a] * 0.5 if pool[a].mean().item() > 0.25 else pool[a] + 0.75
            done += 2
    return [x.cpu().numpy() for x in pool]


def first_images(seed):
    """Random augmentations of images: some of seven steps, in random order, with random numbers, each image read."""
    import torch

    draws = Draws(seed)
    image, results = (torch.arange(128 * 128 * 3) * 7919 % 256).float().reshape(128, 128, 3), []
    for _ in range(500):
        top, left = draws.below(33), draws.below(33)
        x = (image.clone() / 255)[top : top + 96, left : left + 96]
        for _ in range(5):
            match draws.below(7):
                case 0:
                    x = x.flip(1)
                case 1:
                    x = (x * (0.6 + 0.8 * draws.share())).clamp(0, 1)
                case 2:
                    mean = x.mean()
                    x = ((x - mean) * (0.6 + 0.8 * draws.share()) + mean).clamp(0, 1)
                case 3:
                    grey, kept = x.mean(2, keepdim=True), draws.share()
                    x = x * kept + grey * (1 - kept)
                case 4:
                    x = x.abs().pow(0.7 + 0.6 * draws.share())
                case 5:
                    x = (x - x.mean((0, 1), keepdim=True)) / (x.std((0, 1), keepdim=True, correction=0) + 1e-3)
                case _:
                    top, size = draws.below(48), 8 + draws.below(24)
                    rows = torch.arange(96).reshape(96, 1, 1)
                    x = x.masked_fill((rows >= top) & (rows < top + size), 0.5)
        results.append(x.permute(2, 0, 1).contiguous().cpu().numpy())
    return results


def first_loop(seed):
    """Heat on a plate whose border is cold: a thousand steps."""
    import torch

    heat = torch.arange(128 * 128).reshape(128, 128).float() * 1e-4
    for _ in range(1000):
        p = torch.nn.functional.pad(heat, (1, 1, 1, 1))
        near = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
        heat = heat + (near - heat * 4) * 0.1
    return heat.cpu().numpy()


# What is never the same twice; compiling it is what its peers' users do not do, so eager torch stands for them.
FIRST = {"first_ops": first_ops, "first_images": first_images, "first_loop": first_loop}


class Figures:
    """Measures workloads; keeps the last one with its arguments and its compiled form."""

    def __init__(self, peer):
        self.peer, self.key, self.call, self.cold, self.seed = peer, None, None, None, 0

    def once(self, calls_in_flight=1):
        """Milliseconds a call, of so many that are put in the device's queue before anybody waits."""
        begin = time.perf_counter()
        for _ in range(calls_in_flight):
            out = self.call()
        self.peer.finish(out)
        return (time.perf_counter() - begin) * 1e3 / calls_in_flight

    def measure(self, name, large, runs, ms, calls_in_flight=1):
        if name == "dyn_shapes":
            return self.dyn_shapes(large)
        if name == "cold_start":
            return self.cold_start()
        if name in FIRST:
            return self.new_code(name, runs)
        if self.key != (name, large):
            self.key = self.call = None
            # torch.compile stops compiling, silently, after eight versions of what it takes for one function.
            self.peer.forget()
            function, arguments = (None, []) if name in TRAINING else prepare(self.peer, name, large)
            compiled = function and self.peer.jit(functools.partial(function, self.peer))
            if name == "small_chain":
                self.call = lambda: self.peer.host(compiled(*arguments))
                calls_in_flight = 1
            elif name in TRAINING:
                self.call = TRAINING[name](self.peer, large)
            else:
                self.call = lambda: compiled(*arguments)
            self.key, self.cold = (name, large), self.once()
        if name == "small_chain":
            # Read back: each call waits.
            calls_in_flight = 1
        for _ in range(3):
            self.once(calls_in_flight)
        times, begin = [], time.perf_counter()
        while len(times) < runs or (time.perf_counter() - begin) * 1e3 < ms:
            times.append(self.once(calls_in_flight))
        return self.figure(name, self.cold, times)

    def dyn_shapes(self, large):
        """One call on each of 64 shapes, compiles included: a run forgets what was compiled before."""
        import numpy as np

        self.key = None
        rng = np.random.default_rng(1)
        scale = 64 if large else 1
        inputs = [self.peer.array(rng.standard_normal((b * scale, 2048), dtype=np.float32)) for b in range(1, 65)]
        self.peer.forget()
        compiled = self.peer.jit(functools.partial(gelu_custom, self.peer))
        begin = time.perf_counter()
        for x in inputs:
            self.peer.finish(compiled(x))
        total = (time.perf_counter() - begin) * 1e3
        return self.figure("dyn_shapes", total, [total])

    def cold_start(self, runs=3):
        """A fresh process, until the first gelu_custom on [32, 32] is read: the whole of it, imports included."""
        command = [sys.executable, __file__, "--peer", self.peer.name, "--device", self.peer.device, "--first"]
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
                if child.stdout.readline().strip() != b"read":
                    raise RuntimeError("the process ended before it had read anything")
                times.append((time.perf_counter() - begin) * 1e3)
        return self.figure("cold_start", times[0], times)

    def new_code(self, name, runs):
        """Runs with seeds of their own."""
        if self.peer.name != "torch":
            raise RuntimeError("measured with eager torch alone")
        import torch

        torch.set_default_device(self.peer.device)
        times = []
        for _ in range(runs):
            self.seed += 1
            begin = time.perf_counter()
            FIRST[name](self.seed)
            times.append((time.perf_counter() - begin) * 1e3)
        return self.figure(name, times[0], times)

    def figure(self, name, cold, times):
        times.sort()
        n = len(times)
        median = times[n // 2] if n % 2 else (times[n // 2 - 1] + times[n // 2]) / 2
        return {
            "workload": name, "peer": self.peer.name, "device": self.peer.device, "median_ms": median,
            "min_ms": times[0], "cold_ms": cold, "runs": n,
        }  # fmt: skip

    def answer(self, request):
        try:
            return self.measure(request["workload"], request.get("large", False), request["runs"], request["ms"], request.get("calls_in_flight", 1))
        except Exception as error:  # A workload that a peer cannot run must not end the others.
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help="or 'all'")
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=("small", "large"), default="small")
    parser.add_argument("--calls-in-flight", type=int, default=1, help="calls in the queue before anybody waits")
    parser.add_argument("--worker", action="store_true")
    parser.add_argument("--first", action="store_true", help="say `read` when the first gelu_custom on [32, 32] is")
    arguments = parser.parse_args()
    # What libraries print belongs to standard error: standard output carries figures.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    figures = Figures(PEERS[arguments.peer](arguments.device))
    if arguments.first:
        import numpy as np

        x = figures.peer.array(np.ones((32, 32), dtype=np.float32))
        figures.peer.host(figures.peer.jit(functools.partial(gelu_custom, figures.peer))(x))
        print("read", file=out, flush=True)
        return
    if arguments.worker:
        for line in sys.stdin:
            print(json.dumps(figures.answer(json.loads(line))), file=out, flush=True)
        return
    names = WORKLOADS if arguments.workloads == ["all"] else arguments.workloads
    for name in names:
        request = {"workload": name, "large": arguments.size == "large", "runs": 20, "ms": 400, "calls_in_flight": arguments.calls_in_flight}
        print(json.dumps(figures.answer(request)), file=out, flush=True)


if __name__ == "__main__":
    main()
