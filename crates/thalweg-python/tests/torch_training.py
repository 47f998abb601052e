"""Training through the backend of ``torch.compile`` against eager PyTorch, and the backend's rules.

    python -m pytest tests/torch_training.py        (needs torch; not part of CI, which has none)
"""

import copy
import gc
import weakref

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn import functional as F
from torch_common import Block, compiled, fresh  # noqa: F401 (a fixture)

import thalweg
import thalweg.torch

torch.set_num_threads(1)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)), (8, 16)),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2),
            nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
        ),
        (4, 3, 16, 16),
    ),
    "transformer": (lambda: Block(), (2, 10, 32)),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_training(name):
    make, shape = MODELS[name]
    eager = make()
    ours = copy.deepcopy(eager)
    step = compiled(ours)
    first, second = (torch.optim.SGD(m.parameters(), 0.05, momentum=0.9) for m in (eager, ours))
    for _ in range(5):
        x = torch.randn(shape)
        losses = []
        for model, optimizer in ((eager, first), (step, second)):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 1e-4 * max(1, abs(losses[0]))
    for (key, a), b in zip(eager.state_dict().items(), ours.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4, msg=lambda m: f"{key}: {m}")
    eager.eval(), ours.eval()
    with torch.no_grad():
        torch.testing.assert_close(eager(x), step(x), rtol=1e-3, atol=1e-4)
    assert thalweg.torch.statistics()["eager"] == {}


def test_no_recompilation_when_sizes_change():
    model = Block()
    f = compiled(model, dynamic=True)
    for b, t in ((2, 7), (3, 9), (5, 12), (4, 33)):
        x = torch.randn(b, t, 32)
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
    forward = [g for g in thalweg.torch.statistics()["graphs"] if g["kind"] != "backward"]
    assert len(forward) == 1 and forward[0]["runs"] == 4
    assert thalweg.torch.statistics()["eager"] == {}


def test_views_aliases_and_mutation():
    def f(x, y):
        x.mul_(2)
        z = x + y
        return z, z.t(), x, y, z[1:], x.view(-1), z.clone()

    x, y = torch.randn(3, 4), torch.randn(4)
    a, b = (x.clone(), y.clone()), (x.clone(), y.clone())
    expected, found = f(*a), compiled(f)(*b)
    for e, g in zip(expected, found):
        assert e.stride() == g.stride()
        torch.testing.assert_close(e, g)
    torch.testing.assert_close(a[0], b[0])
    assert found[2] is b[0] and found[3] is b[1]
    found[0].add_(1)
    torch.testing.assert_close(found[1], found[0].t())
    torch.testing.assert_close(found[6], expected[6])


def test_inputs_may_change_after_the_call():
    f = compiled(lambda x: (x + 0, x.clone(), x * 1))
    x = torch.ones(1000)
    results = f(x)
    x.fill_(7)
    for y in results:
        assert y.eq(1).all()
    results[0].fill_(3)
    assert results[1].eq(1).all() and x.eq(7).all()


def test_results_do_not_change_later():
    f = compiled(lambda x: (x * 2).relu())
    kept = []
    for i in range(8):
        kept.append(f(torch.full((64, 64), float(i))))
    for i, y in enumerate(kept):
        assert y.eq(2 * i).all()


def test_channels_last_scalars_and_empty():
    conv = nn.Conv2d(3, 5, 3)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    y = compiled(lambda x: conv(x).relu())(x)
    expected = conv(x).relu()
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    assert y.is_contiguous(memory_format=torch.channels_last) == expected.is_contiguous(memory_format=torch.channels_last)
    f = compiled(lambda x, s: (x * s, x.sum(), x.to(torch.int32), x.argmax(), x.mean(0)))
    for x in (torch.randn(3, 4), torch.randn(7, 4)):
        for a, b in zip(f(x, torch.tensor(2.0)), (x * 2, x.sum(), x.to(torch.int32), x.argmax(), x.mean(0))):
            torch.testing.assert_close(a, b)
    g = compiled(lambda x: (x + 1, x.sum(0), x.t()))
    for a, b in zip(g(torch.empty(0, 4)), (torch.empty(0, 4), torch.zeros(4), torch.empty(4, 0))):
        torch.testing.assert_close(a, b)


def test_seeds_repeat_and_masks_agree():
    f = compiled(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(4000, requires_grad=True)
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        y, z = f(x), f(x)
        runs.append((y, z))
        assert not torch.equal(y, z)
        (dx,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(dx, y.detach())
        assert 0.4 < (y == 0).float().mean() < 0.6
    assert torch.equal(runs[0][0], runs[1][0]) and torch.equal(runs[0][1], runs[1][1])


def test_checkpoint_draws_the_same_mask():
    from torch.utils.checkpoint import checkpoint

    def inner(x):
        return nn.functional.dropout(x.sin(), 0.5)

    f = compiled(lambda x: checkpoint(inner, x, use_reentrant=False))
    x = torch.randn(1000, requires_grad=True)
    y = f(x)
    (dx,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(dx != 0, y.detach() != 0)


def test_autocast_and_bf16():
    model = Block()
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(2, 6, 32)
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=5e-2, atol=5e-2)
    half = copy.deepcopy(model).bfloat16()
    x = x.bfloat16()
    torch.testing.assert_close(compiled(half)(x), half(x), rtol=5e-2, atol=5e-2)


def test_eager_kernels_are_counted():
    def f(x):
        return torch.linalg.qr(x + 1).R.abs().sum() * 2

    x = torch.randn(5, 5)
    torch.testing.assert_close(compiled(f)(x), f(x))
    assert sum(n for n, _ in thalweg.torch.statistics()["eager"].values()) == 1
    assert "qr" in thalweg.torch.report()


def test_memory_is_freed():
    f = compiled(lambda x: (x * 3).exp())
    x = torch.randn(10)
    y = f(x)
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None
    del y




def test_results_may_be_written():
    def f(x):
        return torch.arange(5), torch.zeros(3), torch.full((2, 2), 4.0), torch.ones(4, dtype=torch.int64), x + 1, x.sum()

    g = compiled(f)
    for _ in range(3):
        for a, b in zip(g(torch.ones(3)), f(torch.ones(3))):
            torch.testing.assert_close(a, b)
            a.fill_(9)


def test_integers_overflow_and_divide_as_pytorch():
    def f(x, y):
        return x + y, x * y, x // 3, x % 3, -x // y, torch.div(x, y), x > 1.5, x & 3, x.float().to(torch.int8)

    g = compiled(f)
    x, y = torch.tensor([200, -7, 5, 0], dtype=torch.int32), torch.tensor([3, 2, -2, 5], dtype=torch.int64)
    for a, b in zip(g(x, y), f(x, y)):
        torch.testing.assert_close(a, b)


def test_many_calls_use_no_more_memory():
    import resource

    f = compiled(lambda x: (x * 2).softmax(-1), dynamic=True)
    for i in range(300):
        f(torch.randn(4 + i % 17, 64))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(5000):
        f(torch.randn(4 + i % 17, 64))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_results_in_another_order_are_written_once():
    # The kernel that computes a result stores it in the order of PyTorch's strides.
    images = torch.randn(4, 8, 20, 24).to(memory_format=torch.channels_last)
    for f, x in ((lambda x: torch.sin(x) + 1, images), (lambda x: x != 0, torch.randn(40, 30).t()), (F.silu, images.bfloat16())):
        step = compiled(f)
        for _ in range(3):
            found = step(x)
        thalweg._thalweg.torch.finish_searches()
        before = thalweg.counters()
        found = step(x)
        after = thalweg.counters()
        torch.testing.assert_close(found, f(x))
        assert found.stride() == f(x).stride()
        assert after["kernels"] - before["kernels"] == 1
        assert after["bytes_written"] - before["bytes_written"] == found.numel() * found.element_size()


def test_memory_of_pytorch_kernels_is_freed_below_a_call():
    # PyTorch frees the result, which owns memory of another tensor of PyTorch, without the GIL.
    step = compiled(lambda x: torch.linalg.qr(x + 1)[1])
    x = torch.randn(8, 8)
    assert thalweg.explain(step, x) is not None
