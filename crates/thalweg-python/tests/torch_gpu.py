"""The backend of ``torch.compile`` on a GPU by CUDA: against eager PyTorch, and its times beside inductor.

    python -m pytest tests/torch_gpu.py     checks (needs torch and a GPU; not part of CI, which has neither)
    python tests/torch_gpu.py               times, a line a model: median of seven measurements after 400 calls
"""

import copy
import statistics
import time

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn import functional as F
from torch_common import Block, compiled, fresh  # noqa: F401 (a fixture)

import thalweg.torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
GPU = "cuda"


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, stride=2),
        nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
    )


def random(*shape, **kwargs):
    return torch.randn(*shape, device=GPU, **kwargs)


FUNCTIONS = {
    "chain": (lambda x: (x * 0.2 + 1).relu().exp().sum(1), lambda: (random(64, 128),)),
    "matmul": (lambda x, w: F.gelu(x @ w), lambda: (random(64, 128), random(128, 256))),
    "softmax": (lambda x: x.softmax(-1), lambda: (random(64, 128),)),
    "creation": (lambda x: x + torch.arange(128, device=GPU) + torch.ones(128, device=GPU), lambda: (random(64, 128),)),
    "number on the host": (lambda x, y: x * y, lambda: (random(64, 128), torch.tensor(3.0))),
    "index": (lambda x, i: x[i], lambda: (random(64, 128), torch.randint(0, 64, (20,), device=GPU))),
    # PyTorch's kernels between two segments, and as the last ones.
    "between": (lambda x: torch.linalg.qr(x)[0].abs().sum() + x.sum(), lambda: (random(32, 32),)),
    "at the end": (lambda x: torch.linalg.lu_factor(x @ x + 40 * torch.eye(32, device=GPU)), lambda: (random(32, 32),)),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("own_stream", [False, True])
def test_functions(name, own_stream):
    f, inputs = FUNCTIONS[name]
    args = inputs()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        g = compiled(f)
        for _ in range(4):
            torch.testing.assert_close(g(*args), f(*args), rtol=2e-4, atol=2e-4)


def test_memory_of_the_caching_allocator_is_reused_in_order():
    w = random(128, 256)
    f = compiled(lambda x, w: torch.relu(x @ w).sum(0))
    for _ in range(300):
        x = random(256, 128)
        got, want = f(x, w), torch.relu(x @ w).sum(0)
        del x
        torch.full((256, 128), 7.0, device=GPU)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-2)


def test_results_of_pytorch_kernels_outlive_the_call():
    f = compiled(lambda x: torch.linalg.lu_factor(x))
    x = random(16, 16) + 20 * torch.eye(16, device=GPU)
    (lu, pivots), want = f(x), torch.linalg.lu_factor(x)
    for _ in range(20):
        torch.full((16, 16), 7.0, device=GPU)
    torch.testing.assert_close((lu, pivots), tuple(want))


@pytest.mark.parametrize("make,shape", [(conv_net, (4, 3, 32, 32)), (Block, (2, 10, 32))])
def test_training_steps(make, shape):
    one = make().to(GPU)
    two = copy.deepcopy(one)
    f = compiled(two)
    steps = [torch.optim.SGD(m.parameters(), 0.05) for m in (one, two)]
    for _ in range(10):
        x = random(*shape)
        losses = [(m(x) ** 2).mean() for m in (one, f)]
        for loss, step in zip(losses, steps):
            step.zero_grad()
            loss.backward()
            step.step()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    assert not thalweg.torch.statistics()["eager"]


def median_ms(f, calls=30):
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls * 1e3)
    return statistics.median(times)


def times(name, make, args, train=False):
    row = [f"{name:<22}"]
    for kind in ("eager", "thalweg", "inductor"):
        torch._dynamo.reset()
        model = make()
        f = model if kind == "eager" else compiled(model) if kind == "thalweg" else torch.compile(model)

        def step():
            with torch.set_grad_enabled(train):
                y = f(*args)
            if train:
                y.float().square().mean().backward()
                model.zero_grad()

        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        for n in range(400):
            step()
            if n % 100 == 99:
                # Plans and programs of the last tier are made on other threads.
                torch.cuda.synchronize()
                time.sleep(1.5 if kind == "thalweg" else 0)
        row.append(f"{kind} {median_ms(step):.3f} ms (first {first:.2f} s)")
    print(" | ".join(row), flush=True)


if __name__ == "__main__":
    bf = {"device": GPU, "dtype": torch.bfloat16}
    times("gelu x3, f32", lambda: nn.Sequential(nn.GELU(), nn.GELU(), nn.GELU()), (random(4096, 8192),))
    times("mlp, bf16", lambda: nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(**bf),
          (torch.randn(4096, 1024, **bf),))
    times("block, bf16", lambda: Block(768, 12).to(**bf), (torch.randn(8, 1024, 768, **bf),))
    times("block, bf16, training", lambda: Block(768, 12).to(**bf), (torch.randn(8, 1024, 768, **bf),), True)
    times("conv, f32, training", lambda: conv_net().to(GPU), (random(32, 3, 64, 64),), True)
    times("layer norm, bf16", lambda: nn.LayerNorm(4096).to(**bf), (torch.randn(8192, 4096, **bf),))
