"""Replays of captured runs of the backend of ``torch.compile`` against recording each operation.

    python -m pytest tests/torch_replay.py        (needs torch; not part of CI, which has none)
"""

import threading

import pytest
import torch
from torch import nn
from torch_common import Block, compiled, fresh  # noqa: F401 (a fixture)

import thalweg
import thalweg.torch
from thalweg._thalweg import torch as programs

torch.set_num_threads(1)


def graphs():
    return thalweg.torch.statistics()["graphs"]


def replays(kind=None):
    return sum(g["replays"] for g in graphs() if kind in (None, g["kind"]))


def recorded(call):
    """The result of a call whose operations are recorded one by one."""
    before = programs.set_replays(False)
    try:
        return call()
    finally:
        programs.set_replays(before)


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def network(x, w, b):
    for i in range(20):
        gate = torch.sigmoid(x @ w + b * i)
        x = x * gate + torch.tanh(b - x) * (1 - gate)
    return x, x.softmax(-1), x.sum(0), x[1:3].t()


def test_replays_equal_recorded_runs():
    f = compiled(network)
    w, b = torch.randn(8, 8), torch.randn(8)
    before = thalweg.counters()["captured_runs"]
    for _ in range(10):
        x = torch.randn(5, 8)
        found = f(x, w, b)
        expected = recorded(lambda: f(x, w, b))
        # The plan may change between the calls, and with it the last bits.
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found, network(x, w, b), rtol=1e-4, atol=1e-5)
    assert replays() == 8
    assert thalweg.counters()["captured_runs"] - before == 8
    programs.finish_searches()
    for _ in range(5):
        x = torch.randn(5, 8)
        same(f(x, w, b), recorded(lambda: f(x, w, b)))


def test_sizes_and_strides_take_turns():
    f = compiled(network, dynamic=True)
    w, b = torch.randn(8, 8), torch.randn(8)
    inputs = [
        lambda: torch.randn(5, 8),
        lambda: torch.randn(8, 5).t(),
        lambda: torch.randn(6, 8),
        lambda: torch.randn(10, 8)[::2],
        lambda: torch.randn(5, 16)[:, 3:11],
        lambda: torch.randn(8).expand(5, 8),
        lambda: torch.randn(100)[7:47].view(5, 8),
    ]
    for turn in range(6):
        for make in inputs:
            x = make()
            torch.testing.assert_close(f(x, w, b), network(x, w, b), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(f(x, w.t(), b), network(x, w.t(), b), rtol=1e-4, atol=1e-5)
    assert replays() > 20
    assert thalweg.torch.statistics()["eager"] == {}


def test_numbers_are_part_of_the_captured_run():
    def f(x, n, s):
        return x[:n] * n + s, x.sum() * s

    g = compiled(f, dynamic=True)
    x = torch.randn(20)
    for turn in range(4):
        for n, s in ((3, 0.5), (4, 0.5), (7, 2.5), (3, -1.0)):
            torch.testing.assert_close(g(x, n, s), f(x, n, s))
    assert replays() > 0


def test_results_share_no_memory_with_inputs_or_later_runs():
    def f(x, y):
        x.mul_(2)
        z = x + y
        return z, z.t(), x, y, z[1:], x.view(-1), z.clone()

    g = compiled(f)
    kept = []
    for i in range(12):
        x, y = torch.randn(3, 4), torch.randn(4)
        a, b = (x.clone(), y.clone()), (x.clone(), y.clone())
        expected, found = f(*a), g(*b)
        same(found, expected)
        same(b, a)
        # Written in place by the caller, as eager results may be.
        found[6].fill_(7)
        same(found[0], expected[0])
        kept.append((found[0], expected[0].clone(), found[4], expected[4].clone()))
        for z, was, part, was_part in kept:
            same(z, was)
            same(part, was_part)
    assert replays() >= 8


def test_one_tensor_as_two_inputs_and_as_overlapping_views():
    f = compiled(lambda x, y: (x * y + y.sum(), x - 2 * y))
    for _ in range(6):
        base = torch.randn(9, 9)
        for x, y in ((base[:8, :8], base[1:, 1:]), (base[:8, :8], base[:8, :8])):
            torch.testing.assert_close(f(x, y), (x * y + y.sum(), x - 2 * y))
    assert replays() > 4


def test_dropout_draws_new_numbers_as_a_recorded_run_does():
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.Linear(64, 64), nn.Dropout(0.3))
    f = compiled(model)
    x = torch.ones(4, 16)

    def step(seed):
        torch.manual_seed(seed)
        model.zero_grad()
        outputs = [f(x) for _ in range(3)]
        sum(y.square().sum() for y in outputs).backward()
        return outputs + [p.grad.clone() for p in model.parameters()]

    for seed in range(5):
        step(seed)
        programs.finish_searches()
    assert replays("forward") > 0 and replays("backward") > 0
    for seed in range(5, 9):
        found = step(seed)
        expected = recorded(lambda: step(seed))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert not torch.equal(found[0], found[1])
    random = compiled(lambda x: (torch.rand_like(x), torch.randn(3, 4), torch.randint(0, 9, (5,)), torch.randperm(6)))
    for seed in range(8):
        torch.manual_seed(seed)
        found = [random(x) for _ in range(2)]
        torch.manual_seed(seed)
        same(found, recorded(lambda: [random(x) for _ in range(2)]))


def test_errors_in_a_replay_are_raised_and_leave_the_program_usable():
    f = compiled(lambda x, at: (x[at] * 2).sum(0) + x.tanh())
    x = torch.randn(6, 4)
    good, bad = torch.tensor([1, 5, 2]), torch.tensor([1, 6, 2])
    for i in range(12):
        if i % 3 == 2:
            with pytest.raises(Exception, match="6"):
                f(x, bad)
            with pytest.raises(Exception, match="6"):
                recorded(lambda: f(x, bad))
        torch.testing.assert_close(f(x, good), (x[good] * 2).sum(0) + x.tanh())
    assert replays() >= 8


def test_programs_with_kernels_of_torch_are_not_replayed():
    def f(x):
        return torch.linalg.qr(x * 2)[1].abs() + 1

    g = compiled(f)
    for _ in range(5):
        x = torch.randn(4, 4)
        torch.testing.assert_close(g(x), f(x), rtol=1e-3, atol=1e-4)
    assert thalweg.torch.statistics()["eager"] != {}
    assert replays() == 0


def test_training_in_replays():
    eager = Block()
    ours = Block()
    ours.load_state_dict(eager.state_dict())
    step = compiled(ours)
    first, second = (torch.optim.SGD(m.parameters(), 0.05, momentum=0.9) for m in (eager, ours))
    for _ in range(12):
        x = torch.randn(2, 10, 32)
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
    assert replays("forward") >= 8 and replays("backward") >= 8


def test_threads_replay_one_program():
    f = compiled(network)
    w, b = torch.randn(8, 8), torch.randn(8)
    for _ in range(4):
        f(torch.randn(5, 8), w, b)
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(5, 8, generator=generator)
            found = f(x, w, b)
            for a, e in zip(found, network(x, w, b)):
                if not torch.allclose(a, e, rtol=1e-4, atol=1e-5):
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures
    assert replays() >= 150


def test_settings_of_the_caller_are_part_of_the_captured_run():
    f = compiled(lambda x, at, v: x.index_add(0, at, v))
    x, v, at = torch.zeros(4, 3), torch.randn(5, 3), torch.tensor([0, 3, 3, 1, 0])
    for i in range(8):
        torch.use_deterministic_algorithms(i % 2 == 1)
        try:
            torch.testing.assert_close(f(x, at, v), x.index_add(0, at, v))
        finally:
            torch.use_deterministic_algorithms(False)
    assert replays() >= 2


def test_arrays_that_wait_on_the_thread_keep_their_values():
    f = compiled(lambda x: (x * 2).tanh() + 1)
    for i in range(8):
        waits = thalweg.asarray([1.0, 2.0, 3.0]) * float(i)
        x = torch.randn(7)
        torch.testing.assert_close(f(x), (x * 2).tanh() + 1)
        assert [float(v) for v in waits] == [1.0 * i, 2.0 * i, 3.0 * i]
