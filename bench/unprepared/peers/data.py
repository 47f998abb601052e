"""Inputs of the peers: the numbers of src/data.rs."""
import math

import numpy as np
import torch

# Set by run.py before a program is made.
device = "cpu"
large = False


def eager(function, **_):
    """What wraps nothing: runs without torch.compile, whose options it takes."""
    return function


def mix(z):
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def hashes(seed, n):
    return mix(np.arange(n, dtype=np.uint64) + np.uint64(seed * 1_000_003))


def uniform_f64(seed, n):
    return (hashes(seed, n) >> np.uint64(40)).astype(np.float64) / 16777216.0


def uniform(seed, n):
    return uniform_f64(seed, n).astype(np.float32)


def normal_f64(seed, n):
    u, v = uniform_f64(seed, n), uniform_f64(seed + 500, n)
    return np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)


def normal(seed, n):
    return normal_f64(seed, n).astype(np.float32)


def integers(seed, n, below):
    return ((hashes(seed, n) >> np.uint64(20)) % np.uint64(below)).astype(np.int64)


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def count(shape):
    return int(np.prod(shape, dtype=np.int64))


def hashed(seed, n):
    with np.errstate(over="ignore"):
        i = mix(np.uint64(seed) * np.uint64(1_000_003) + mix(np.arange(n, dtype=np.uint64)))
    return (i >> np.uint64(40)).astype(np.float64) / (1 << 24)


class Inputs:
    """The second family of inputs: `Inputs` of src/data.rs."""

    def __init__(self, large, device):
        self.large, self.dev = large, device

    def pick(self, small, large):
        return large if self.large else small

    def t(self, array):
        return torch.from_numpy(array).to(self.dev)

    def u(self, seed, *shape):
        return self.t(hashed(seed, count(shape)).astype(np.float32).reshape(shape))

    def n64v(self, seed, shape, scale):
        total = sum(hashed(seed * 4 + k + 77, count(shape)) for k in range(4))
        return ((total - 2.0) * 3**0.5 * scale).reshape(shape)

    def n(self, seed, shape, scale):
        return self.t(self.n64v(seed, shape, scale).astype(np.float32))

    def n64(self, seed, shape, scale):
        return self.t(self.n64v(seed, shape, scale))

    def intsv(self, seed, below, n):
        return (hashed(seed, n) * below).astype(np.int64)

    def ints(self, seed, below, *shape):
        return self.t(self.intsv(seed, below, count(shape)).reshape(shape))

    def wt(self, seed, out, inp):
        return self.n(seed, (out, inp), 1 / math.sqrt(inp))


def track(parameters):
    return [x.clone().requires_grad_() for x in parameters]


def clip(gradients, most):
    norm = torch.sqrt(sum((t * t).sum() for t in gradients))
    factor = torch.clamp(most / (norm + 1e-6), max=1.0)
    return [t * factor for t in gradients]


def sgd(parameters, gradients, rate):
    with torch.no_grad():
        for p, g in zip(parameters, gradients):
            p -= g * rate
