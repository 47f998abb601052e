"""Errors, threads, the GIL, forks and the end of the interpreter."""

import os
import subprocess
import sys
import threading
import time

import pytest
import thalweg as tw


def run(code, **environment):
    """Runs a program in a new interpreter; returns its exit status, standard output and standard error."""
    env = dict(os.environ, **environment)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda: tw.ones((2, 3)) + tw.ones((2,)), ValueError),
        (lambda: tw.ones((2, 3)) @ tw.ones((2, 3)), ValueError),
        (lambda: tw.sum(tw.ones((2,)), axis=1), tw.AxisError),
        (lambda: tw.sum(tw.ones((2, 2)), axis=(0, 0)), ValueError),
        (lambda: tw.max(tw.ones((0,))), ValueError),
        (lambda: tw.reshape(tw.ones((6,)), (4, -1)), ValueError),
        (lambda: tw.concat([tw.ones((2, 2)), tw.ones((2,))]), ValueError),
        (lambda: tw.ones((2,)) & 1, TypeError),
        (lambda: tw.asarray([True]) - tw.asarray([True]), TypeError),
        (lambda: tw.sin("a"), TypeError),
        (lambda: tw.ones((2,)) + "a", TypeError),
        (lambda: tw.ones((2,), dtype="float31"), TypeError),
        (lambda: tw.ones((2,), device="abacus"), ValueError),
        (lambda: tw.ones((-1,)), ValueError),
        (lambda: tw.asarray([1j]) < 1, TypeError),
        (lambda: tw.nn.conv2d(tw.ones((1, 2, 4, 4)), tw.ones((1, 3, 3, 3))), ValueError),
        (lambda: tw.linalg.cholesky(tw.asarray([[1.0, 2.0], [2.0, 1.0]])).tolist(), ValueError),
        (lambda: tw.asarray([2, 3]) ** -1, ValueError),
        (lambda: tw.linspace(0, 1, -1), ValueError),
        (lambda: tw.arange(0, 5, 0), ValueError),
        (lambda: tw.ones((10**6, 10**6, 10**6)).tolist(), (MemoryError, ValueError)),
    ],
)
def test_errors_name_the_callers_line(f, kind, capfd):
    with pytest.raises(kind) as e:
        f()
    text = str(e.value)
    assert "panicked" not in capfd.readouterr().err
    assert ".rs:" not in text and ".cast(" not in text
    if "unsupported operand" not in text:
        assert text.endswith(f"test_process.py:{f.__code__.co_firstlineno}"), text


def test_an_error_leaves_the_rest_intact():
    x = tw.ones((3,))
    y = x * 2
    bad = x[tw.asarray([7])]
    z = y + 1
    with pytest.raises(IndexError):
        bad.tolist()
    assert z.tolist() == [3.0] * 3


def test_threads_compute_independently():
    results, errors = {}, []

    def work(k):
        try:
            x = tw.arange(1000, dtype=tw.float64) * k
            for _ in range(20):
                x = tw.sin(x) + k
                results[k] = float(x[500])
        except Exception as e:
            errors.append(e)

    def alone(k):
        work(k)
        return results[k]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors
    seen = dict(results)
    for k in range(8):
        assert abs(alone(k) - seen[k]) < 1e-9


def test_values_of_other_threads():
    shared = tw.arange(100, dtype=tw.float64) + 1  # pending in this thread
    out = []
    threads = [threading.Thread(target=lambda: out.append(float((shared * 2).sum()))) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert out == [10100.0] * 6


def test_the_gil_is_released_while_a_kernel_runs():
    x = tw.random.normal((900, 900))
    x.tolist()
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        deadline = time.perf_counter() + 5
        longest = 0.0
        while longest < 0.05 and time.perf_counter() < deadline:
            y = x
            for _ in range(8):
                y = y @ x
            begin, seen = time.perf_counter(), len(ticks)
            float(y.sum())
            longest, during = time.perf_counter() - begin, len(ticks) - seen
        assert during >= 5, (longest, during)
    finally:
        stop.set()
        thread.join()


def test_fork_after_use_is_an_error_that_says_so():
    code = """
import os, sys, thalweg as tw
tw.ones((2,)).tolist()
pid = os.fork()
if pid == 0:
    try:
        tw.ones((2,)).tolist()
    except RuntimeError as e:
        os.write(1, str(e).encode())
        os._exit(0)
    os._exit(1)
assert os.waitpid(pid, 0)[1] == 0
print(tw.ones((2,)).tolist())
"""
    status, out, err = run(code)
    assert status == 0 and "forked" in out and "spawn" in out and "[1.0, 1.0]" in out, (out, err)


def test_fork_before_use_works():
    code = """
import os, thalweg as tw
pid = os.fork()
if pid == 0:
    os._exit(0 if tw.ones((2,)).tolist() == [1.0, 1.0] else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    assert run(code)[0] == 0


@pytest.mark.parametrize(
    "code",
    [
        "import thalweg as tw; x = tw.random.normal((300, 300)); y = x @ x @ x",
        "import thalweg as tw\nfor i in range(5): (tw.random.normal((64, 64)) @ tw.ones((64, 64))).sum().item()",
        "import thalweg as tw, numpy as np; x = tw.from_dlpack(np.ones(1000)); y = x + 1",
        "import thalweg as tw, numpy as np; x = np.from_dlpack(tw.ones(1000))",
        "import thalweg as tw, threading; t = threading.Thread(target=lambda: tw.random.normal((400, 400)) @ tw.ones((400, 400)), daemon=True); t.start()",
        "import thalweg as tw, sys; x = tw.ones((3,)); sys.exit(0)",
        "import thalweg as tw; g = tw.grad(lambda x: (x * x).sum()); y = g(tw.ones((3,)))",
    ],
)
def test_the_interpreter_ends_cleanly(code):
    for tiers in ("on", "off"):
        status, out, err = run(code, THALWEG_TIERS=tiers)
        assert (status, out, err) == (0, "", "")


def test_exceptions_in_functions_pass_through():
    def wrong(x):
        raise KeyError("own")

    with pytest.raises(KeyError):
        tw.grad(wrong)(tw.asarray(1.0))
    with pytest.raises(KeyError):
        tw.explain(wrong, tw.asarray(1.0))
    assert float(tw.grad(lambda x: x * x)(tw.asarray(3.0))) == 6.0


def test_explanations_and_counters():
    x = tw.random.normal((16, 64))
    e = tw.explain(lambda x: tw.nn.softmax(x * 2), x)
    assert e.kernels == 1 and e.kernels_unfused > 3 and "kernel 0" in str(e)
    assert "<iframe" in e._repr_html_() and e.json().startswith("{") or e.json().startswith("[")
    before = tw.counters()["kernels"]
    float((x + 1).sum())
    assert tw.counters()["kernels"] > before
    assert tw.memory()["in_use"] > 0


def test_memory_stays_flat():
    import resource

    def some(n):
        for i in range(n):
            x = tw.ones((17 + i % 5, 9))
            y = (x * 2 + i).sum(axis=0)
            try:
                y + tw.ones((5,))
            except ValueError:
                pass
            y[1] = 3
            float(y[0])

    some(300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(1500)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40_000, f"{grown} KiB"


def test_help_and_names():
    import inspect

    for name in tw.__all__:
        value = getattr(tw, name)
        if callable(value):
            assert value.__doc__, name
            if inspect.isbuiltin(value):
                inspect.signature(value)
    assert tw.__array_namespace_info__().capabilities()["boolean indexing"]
    assert tw.ones((1,)).__array_namespace__() is tw
