#!/usr/bin/env python3
"""The kernels of `cargo run --release --example kernels -- --time` in numba (parallel, fastmath), in turns with them.

    bench/kernels.py [ROUNDS] [SIZE]

Needs numba and numpy, and takes jax for the recurrence, too, where it is installed. Prints the least time of each in
milliseconds, tensors of SIZE by SIZE f32 (4096; the recurrence of a 64th of the rows, softmax a quarter as wide), and the ratio to the best.
"""

import math
import subprocess
import sys
import time

import numpy as np
from numba import njit, prange

N = int(sys.argv[2]) if len(sys.argv) > 2 else 4096
# Calls of each in a round, and seconds that they take at least, as in the example.
CALLS, SECONDS = 10, 0.4
F = np.float32
HOW = dict(parallel=True, fastmath=True, error_model="numpy")


@njit(**HOW)
def leaky(x, out):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j]
            out[i, j] = F(0.1) * v if v < F(0) else v


@njit(**HOW)
def cube_root(x, out):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j]
            y = v / F(3) + F(0.6) if v > F(1) else F(0.4) + F(0.6) * v
            for _ in range(5):
                y -= (y * y * y - v) / (F(3) * y * y)
            out[i, j] = y


@njit(fastmath=True)
def normal(x):
    return F(0.5) * F(math.erfc(-x * F(0.7071067811865476)))


@njit(**HOW)
def black_scholes(s, out):
    k, t, r, v = F(1), F(0.5), F(0.02), F(0.3)
    root = v * F(math.sqrt(t))
    discounted = k * F(math.exp(-r * t))
    for i in prange(s.shape[0]):
        for j in range(s.shape[1]):
            up = (F(math.log(s[i, j] / k)) + (r + F(0.5) * v * v) * t) / root
            out[i, j] = s[i, j] * normal(up) - discounted * normal(up - root)


@njit(**HOW)
def heat(u, out):
    h, w = u.shape
    for i in prange(h):
        above, below = max(i - 1, 0), min(i + 1, h - 1)
        for j in range(w):
            left, right = max(j - 1, 0), min(j + 1, w - 1)
            around = u[above, j] + u[below, j] + u[i, left] + u[i, right]
            out[i, j] = u[i, j] + F(0.1) * (around - F(4) * u[i, j])


@njit(fastmath=True)
def at(x, i, j):
    return x[i, j] if 0 <= i < x.shape[0] and 0 <= j < x.shape[1] else F(0)


@njit(**HOW)
def warp(x, dy, dx, out):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            y, z = F(i) + dy[i, j], F(j) + dx[i, j]
            top, left = F(math.floor(y)), F(math.floor(z))
            fy, fx = y - top, z - left
            a, b = int(top), int(left)
            upper = at(x, a, b) + fx * (at(x, a, b + 1) - at(x, a, b))
            lower = at(x, a + 1, b) + fx * (at(x, a + 1, b + 1) - at(x, a + 1, b))
            out[i, j] = upper + fy * (lower - upper)


@njit(fastmath=True)
def smooth(t):
    return t * t * (F(3) - F(2) * t)


@njit(fastmath=True)
def hashed(i, j, seed):
    h = np.int32(np.int32(i) * np.int32(374761393) + np.int32(j) * np.int32(668265263) + np.int32(seed) * np.int32(362437))
    h = np.int32(np.int32(h ^ np.int32(h >> np.int32(13))) * np.int32(1274126177))
    return F(np.int32(h ^ np.int32(h >> np.int32(16))) & np.int32(0xFFFFFF)) / F(16777216)


@njit(fastmath=True)
def lattice(y, x, seed):
    top, left = F(math.floor(y)), F(math.floor(x))
    fy, fx = smooth(y - top), smooth(x - left)
    i, j = np.int32(top), np.int32(left)
    a, b = hashed(i, j, seed), hashed(i, j + 1, seed)
    c, d = hashed(i + 1, j, seed), hashed(i + 1, j + 1, seed)
    upper, lower = a + fx * (b - a), c + fx * (d - c)
    return upper + fy * (lower - upper)


@njit(**HOW)
def clouds(out):
    zoom = F(out.shape[0] / 8)
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            y, x = F(i) / zoom, F(j) / zoom
            total, weight, whole = F(0), F(1), F(0)
            for octave in range(4):
                total += weight * lattice(y, x, 7 + octave)
                whole += weight
                y, x, weight = y * F(2) + F(17), x * F(2) + F(31), weight * F(0.5)
            cloud = total / whole
            n = np.int32(cloud * F(10))
            if 0 <= n <= 3:
                out[i, j] = F(0)
            elif n == 4 or n == 5:
                out[i, j] = smooth((cloud - F(0.4)) * F(5)) * F(0.5)
            elif n == 6:
                out[i, j] = F(0.5) + (cloud - F(0.6)) * F(4)
            else:
                out[i, j] = F(0.9) + F(0.1) * cloud


@njit(**HOW)
def mandelbrot(out):
    step = F(2.6) / F(out.shape[0])
    for i in prange(out.shape[0]):
        cy = F(-1.3) + F(i) * step
        for j in range(out.shape[1]):
            cx = F(-2) + F(j) * step
            x, y, turns = F(0), F(0), np.int32(0)
            while x * x + y * y <= F(4) and turns < 200:
                x, y = x * x - y * y + cx, F(2) * x * y + cy
                turns += np.int32(1)
            out[i, j] = turns


@njit(**HOW)
def kepler(mean, out):
    for i in prange(mean.shape[0]):
        for j in range(mean.shape[1]):
            m = mean[i, j]
            e = m
            for _ in range(30):
                step = (e - F(0.6) * F(math.sin(e)) - m) / (F(1) - F(0.6) * F(math.cos(e)))
                e -= step
                if abs(step) <= F(1e-5):
                    break
            out[i, j] = e


@njit(**HOW)
def collatz(start, out):
    for i in prange(start.shape[0]):
        for j in range(start.shape[1]):
            n, steps = start[i, j], np.int32(0)
            while n > 1:
                n = np.int32(n >> 1) if n & 1 == 0 else np.int32(np.int32(3) * n + np.int32(1))
                steps += np.int32(1)
            out[i, j] = steps


@njit(**HOW)
def recurrence(a, b, out):
    for i in prange(a.shape[0]):
        h = F(0)
        for j in range(a.shape[1]):
            h = a[i, j] * h + b[i, j]
            out[i, j] = h


@njit(**HOW)
def softmax(x, out):
    for i in prange(x.shape[0]):
        m = x[i, 0]
        for j in range(x.shape[1]):
            m = max(m, x[i, j])
        s = F(0)
        for j in range(x.shape[1]):
            e = F(math.exp(x[i, j] - m))
            out[i, j] = e
            s += e
        s = F(1) / s
        for j in range(x.shape[1]):
            out[i, j] *= s


def jax_recurrence(a, b):
    """The recurrence by `jax.lax.associative_scan`, compiled; none where jax is not installed."""
    try:
        import jax
    except ImportError:
        return None
    both = lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1])
    run = jax.jit(lambda a, b: jax.lax.associative_scan(both, (a, b), axis=1)[1])
    a, b = jax.numpy.asarray(a), jax.numpy.asarray(b)
    return lambda: run(a, b).block_until_ready()


def numba_times():
    rng = np.random.default_rng(1)
    x, dy, dx = (rng.standard_normal((N, N)).astype(F) for _ in range(3))
    p, out = (np.abs(x) + F(0.5)).astype(F), np.empty((N, N), F)
    turns, starts = np.empty((N, N), np.int32), (np.arange(N * N, dtype=np.int32) % 100_000 + 1).reshape(N, N)
    a, b = rng.random((N // 64, N), F), rng.standard_normal((N // 64, N)).astype(F)
    h, wide = np.empty_like(a), rng.standard_normal((N, N // 4)).astype(F)
    probabilities = np.empty_like(wide)
    calls = {
        "leaky": lambda: leaky(x, out),
        "cube_root": lambda: cube_root(p, out),
        "black_scholes": lambda: black_scholes(p, out),
        "heat": lambda: heat(x, out),
        "warp": lambda: warp(x, dy, dx, out),
        "clouds": lambda: clouds(out),
        "mandelbrot": lambda: mandelbrot(turns),
        "kepler": lambda: kepler(x, out),
        "collatz": lambda: collatz(starts, turns),
        "recurrence": lambda: recurrence(a, b, h),
        "softmax": lambda: softmax(wide, probabilities),
        "jax_recurrence": jax_recurrence(a, b),
    }
    best = {}
    for name, call in calls.items():
        if call is None:
            continue
        call()
        calls, begun = 0, time.perf_counter()
        while calls < CALLS or time.perf_counter() - begun < SECONDS:
            calls += 1
            begin = time.perf_counter()
            call()
            best[name] = min(best.get(name, 1e9), (time.perf_counter() - begin) * 1e3)
    return best


def build():
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "thalweg", "--example", "kernels"], check=True)


def own_times():
    out = subprocess.run(["target/release/examples/kernels", "--time", str(N)], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in out.splitlines()]
    return {words[0]: float(words[1]) for words in lines if len(words) == 2 and words[0] in globals()}


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    build()
    own, peer = {}, {}
    for _ in range(turns):
        for best, times in ((own, own_times()), (peer, numba_times())):
            for name, ms in times.items():
                best[name] = min(best.get(name, 1e9), ms)
    for name, ms in own.items():
        others = [peer[n] for n in (name, f"jax_{name}") if n in peer]
        if len(others) > 1:
            print(f"{name}: numba {others[0]:.3f}, jax {others[1]:.3f}")
        print(f"| {name} | {ms:.3g} | {min(others):.3g} | {ms / min(others):.2f} |")


if __name__ == "__main__":
    main()
