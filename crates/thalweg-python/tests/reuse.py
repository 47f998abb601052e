"""A day's reuse in minutes: calls with changing shapes, from threads, with exceptions in between.

    python tests/reuse.py [--calls 50000] [--torch]

Fails if memory grows after the first fifth of the calls, if an input or a result outlives its last name, or if reference counts of
objects that stay change. `--torch` calls a program of `torch.compile(backend="thalweg")`, forward and backward, instead of arrays.
"""

import argparse
import gc
import sys
import threading
import time
import weakref

# Growth of resident memory in bytes that allocators' fragments explain.
MAX_GROWTH = 24 << 20


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


class Holder:
    """An object that a call keeps only while it runs."""


def array_call():
    import numpy as np

    import thalweg as tw

    weight = tw.asarray(np.linspace(-1, 1, 64, dtype=np.float32))
    tail = np.arange(64, dtype=np.float32)

    def loss(w, x):
        return tw.mean((tw.nn.softmax(x * w, axis=-1) - 0.5) ** 2)

    def fails(w):
        raise RuntimeError("a mistake of the caller")

    value_and_grad, broken = tw.value_and_grad(loss), tw.grad(fails)

    def call(i):
        rows = 1 + i % 23
        memory = np.full((rows, 64), i % 7, dtype=np.float32)
        x = tw.from_dlpack(memory) if i % 3 == 0 else tw.asarray(memory)
        if i % 11 == 0:
            for wrong in (lambda: x + tw.ones((3, 5)), lambda: x[rows], lambda: tw.sum(x, axis=4), lambda: broken(weight)):
                try:
                    wrong()
                except (ValueError, IndexError, RuntimeError):
                    continue
                raise AssertionError("a mistake was no exception")
        value, slope = value_and_grad(weight, x)
        y = np.asarray(slope + tail)
        assert y.shape == (64,) and float(value) >= 0
        return [memory, x, value, slope]

    return call, [weight, tail, loss, value_and_grad]


def torch_call():
    import torch

    import thalweg.torch

    torch.set_num_threads(1)
    layer = torch.nn.Linear(64, 32)

    def model(x):
        y = layer(x).relu()
        return y.softmax(-1).square().mean() + torch.linalg.cholesky(y.t() @ y + 0.1 * torch.eye(32)).diagonal().sum()

    step = torch.compile(model, backend=thalweg.torch.backend, dynamic=True)
    definite = torch.compile(lambda a: torch.linalg.cholesky(a + 1).sum(), backend=thalweg.torch.backend)
    bad = -2 * torch.eye(4)

    def call(i):
        x = torch.randn(2 + i % 23, 64, requires_grad=i % 2 == 0)
        if i % 11 == 0:
            try:
                definite(bad)
            except RuntimeError:
                pass
            else:
                raise AssertionError("a mistake was no exception")
        y = step(x)
        # Not `backward`: threads that add to one `grad` are a race of the caller.
        return [x, y, *torch.autograd.grad(y, [layer.weight, layer.bias])]

    return call, [layer.weight, layer.bias, bad, model]


def reuse(calls, make, threads=4):
    """Runs the calls; returns the growth of memory in bytes from the first fifth on."""
    call, kept = make()
    for i in range(200):
        call(i)
    gc.collect()
    counts = [sys.getrefcount(x) for x in kept]
    errors, alive = [], []

    def loop(first, last):
        try:
            for i in range(first, last):
                call(i)
        except BaseException as e:
            errors.append(e)

    begin, start, at = None, time.time(), 0
    # Blocks of calls, one of ten in several threads at once, which end after it.
    block = max(10, calls // 100)
    while at < calls:
        if at // block % 10 == 9:
            workers = [threading.Thread(target=loop, args=(at + k * block // threads, at + (k + 1) * block // threads)) for k in range(threads)]
            [w.start() for w in workers]
            [w.join() for w in workers]
        else:
            loop(at, at + block)
        at += block
        if errors:
            raise errors[0]
        if begin is None and at >= calls // 5:
            gc.collect()
            begin = resident()
    found = call(1)
    for x in found:
        try:
            alive.append((type(x).__name__, weakref.ref(x)))
        except TypeError:
            pass
    del x, found
    # Recorded work may hold operands until it has run: another call runs it.
    call(2)
    gc.collect()
    growth = resident() - begin
    left = [name for name, ref in alive if ref() is not None]
    assert alive and not left, f"still alive: {left}"
    found = [sys.getrefcount(x) for x in kept]
    assert found == counts, f"reference counts {counts} became {found}"
    assert growth < MAX_GROWTH, f"memory grew by {growth >> 10} KiB"
    return growth, time.time() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    growth, seconds = reuse(options.calls, torch_call if options.torch else array_call)
    print(f"{options.calls} calls in {seconds:.0f} s, memory grew by {growth >> 10} KiB after the first fifth; nothing leaked")


if __name__ == "__main__":
    sys.exit(main())
