"""Measures points in this process: values beside eager PyTorch, then times in interleaved blocks.

A worker reads names of points from standard input and writes a row of JSON for each, `run` starts it. The Thalweg side is one
program of the forward and backward pass: `make_fx` traces the function with its gradients, and the lowering of
`thalweg.torch` makes a program of it. So a point pays neither for Dynamo's guards nor for AOTAutograd's wrappers.
"""

import json
import os
import statistics
import sys
import time
import traceback
import warnings

import torch

import cases

# Blocks of a side, at least; seconds of a block.
MIN_BLOCKS, BLOCK_SECONDS = 7, 0.006
# Calls of warming up; its seconds are an option, and three times these a limit.
MIN_CALLS, MAX_CALLS = 60, 4000
# Error against f64: this many times eager's own, plus one rounding.
ERROR_FACTOR = 3.0


class Program:
    """A function lowered to a program of Thalweg."""

    def __init__(self, function, inputs):
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.func import functionalize

        import thalweg.torch
        from thalweg.torch._lower import lower

        graph = make_fx(function)(*inputs)
        graph = make_fx(functionalize(graph, remove="mutations"), decomposition_table=thalweg.torch.decompositions())(*inputs)
        self.graph = graph
        self.program, self.run = lower(graph, "inference")

    def __call__(self, *inputs):
        return self.run(list(inputs))

    def fallbacks(self):
        return {name: why for name, (n, why) in self.program.counts()["eager"].items()}


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def forward_of(function):
    return lambda *inputs: listed(function(*inputs))


def step_of(function):
    """Forward and all gradients; the first argument is the gradient of the result."""

    def step(cotangent, *inputs):
        inputs = [t.detach().requires_grad_() if t.is_floating_point() else t for t in inputs]
        with torch.enable_grad():
            out = listed(function(*inputs))
            wanted = [t for t in inputs if t.requires_grad]
            found = torch.autograd.grad(out[0], wanted, cotangent, allow_unused=True)
            return results(out, found)

    return step


def results(out, gradients):
    """What both sides compute: gradients that eager PyTorch leaves expanded are written out."""
    found = [t.detach() for t in out]
    return found + [g.contiguous() if 0 in g.stride() else g for g in gradients if g is not None]


def without_aliases(function, inputs):
    """The function without results that share memory with an input in eager PyTorch, where nothing is computed."""
    with torch.no_grad():
        found = function(*inputs)
    memory = {t.untyped_storage().data_ptr() for t in inputs}
    fresh = [i for i, t in enumerate(found) if t.untyped_storage().data_ptr() not in memory or t.numel() == 0]

    def kept(*inputs):
        found = function(*inputs)
        return [found[i] for i in fresh]

    return kept, [found[i] for i in fresh], fresh


def problem(point, device):
    """The function of a point, gradients included, and its inputs."""
    function, inputs = point.build(device)
    if not point.grad:
        return forward_of(function), inputs
    with torch.no_grad():
        out = listed(function(*inputs))[0]
    generator = torch.Generator().manual_seed(point.seed + 1)
    cotangent = torch.randn(out.shape, generator=generator).to(out.dtype).to(device)
    return step_of(function), [cotangent, *inputs]


def error(found, exact):
    """Root mean square and largest difference from an exact result."""
    difference = (found.double() - exact).abs()
    difference = torch.where(exact.isnan() & found.isnan() | (found.double() == exact), torch.zeros_like(difference), difference)
    return difference.square().mean().sqrt().item(), difference.max().item()


def compare(found, expected, function, inputs):
    """`None` where results are right; else what differs."""
    if len(found) != len(expected):
        return f"{len(found)} results for {len(expected)}"
    wrong = None
    exact = None
    for i, (a, b) in enumerate(zip(found, expected)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype} {tuple(a.shape)} for {b.dtype} {tuple(b.shape)}"
        try:
            if b.dtype.is_floating_point:
                torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)
            elif not torch.equal(a, b):
                raise AssertionError(f"{(a != b).sum().item()} of {b.numel()} elements differ")
            continue
        except AssertionError as e:
            wrong = f"result {i}: " + " ".join(str(e).split())[:200]
        if not b.dtype.is_floating_point:
            return wrong
        if exact is None:
            exact = listed(function(*(t.double() if t.is_floating_point() else t for t in inputs)))
        ours, eager = error(a, exact[i].double()), error(b, exact[i].double())
        one = torch.finfo(b.dtype).eps
        finite = exact[i].double()[exact[i].isfinite()]
        sizes = (finite.square().mean().sqrt().item(), finite.abs().max().item()) if finite.numel() else (0.0, 0.0)
        if all(o <= ERROR_FACTOR * e + one * s for o, e, s in zip(ours, eager, sizes)):
            wrong = None
            continue
        return f"{wrong}; rms and largest error from f64 {ours[0]:.1e} {ours[1]:.1e}, eager {eager[0]:.1e} {eager[1]:.1e}"
    return wrong


class Clock:
    """Times of blocks of calls; on a GPU until the queue is empty."""

    def __init__(self, device):
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def block(self, f, inputs, calls):
        self.wait()
        start = time.perf_counter()
        for _ in range(calls):
            f(*inputs)
        self.wait()
        return (time.perf_counter() - start) / calls

    def warm(self, f, inputs, seconds):
        """Runs until kernels and plans are made; returns the time of a late call."""
        begin, calls, last = time.perf_counter(), 0, 0.0
        while True:
            last = self.block(f, inputs, 1)
            calls += 1
            spent = time.perf_counter() - begin
            if spent > seconds and calls >= MIN_CALLS or spent > 3 * seconds or calls >= MAX_CALLS:
                return last


def measure(name, options, points):
    """The row of a point."""
    point = points[name]
    row = {"name": name, "family": point.family, "operation": point.operation, "layout": point.layout, "dtype": point.dtype}
    row |= {"shape": point.shape, "class": point.shape_class, "grad": point.grad, "device": options["device"]}
    device, clock = options["device"], Clock(options["device"])
    try:
        function, inputs = problem(point, device)
        function, expected, fresh = without_aliases(function, inputs)
        # A fault of PyTorch's kernels is noticed here, and not in the first call of Thalweg.
        clock.wait()
        if not expected:
            return row | {"skipped": "eager returns a view of its input"}
    except Exception as e:
        return row | {"skipped": f"eager: {type(e).__name__}: {' '.join(str(e).split())[:160]}"}
    leaves = [t.detach().requires_grad_() if point.grad and i and t.is_floating_point() else t for i, t in enumerate(inputs)]

    def eager(*_):
        if not point.grad:
            return function(*inputs)
        out = listed(user(*leaves[1:]))
        found = results(out, torch.autograd.grad(out[0], wanted, leaves[0], allow_unused=True))
        return [found[i] for i in fresh]

    user, wanted = point.entry.function, [t for t in leaves[1:] if t.requires_grad]
    sides = {"torch": eager}
    try:
        start = time.perf_counter()
        program = Program(function, inputs)
        row["lower_ms"] = (time.perf_counter() - start) * 1e3
        sides["thalweg"] = program
        start = time.perf_counter()
        found = program(*inputs)
        clock.wait()
        row["first_ms"] = (time.perf_counter() - start) * 1e3
        wrong = compare(found, expected, function, inputs)
        del found
        if wrong:
            row["wrong"] = "first call: " + wrong
        row["fallbacks"] = program.fallbacks()
        if options.get("check"):
            return row
        estimates = {"torch": clock.warm(eager, inputs, min(0.1, options["seconds"] / 10))}
        estimates["thalweg"] = clock.warm(program, inputs, options["warm"])
        finish_searches()
        estimates["thalweg"] = min(estimates["thalweg"], clock.warm(program, inputs, options["warm"] / 4))
        if options.get("inductor_every") and point.seed % options["inductor_every"] == 0:
            try:
                compiled = inductor(point, inputs, leaves, wanted)
                estimates["inductor"] = clock.warm(compiled, inputs, options["warm"] / 4)
                sides["inductor"] = compiled
            except Exception as e:
                row["inductor_error"] = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
    except Exception as e:
        row["error"] = f"{type(e).__name__}: {' '.join(str(e).split())[:400]}"
        row["trace"] = traceback.format_exc()[-800:]
        return row
    calls = {s: max(1, min(200, int(BLOCK_SECONDS / max(estimates[s], 1e-7)))) for s in sides}
    times = {s: [] for s in sides}
    begin = time.perf_counter()
    while len(times["torch"]) < MIN_BLOCKS or (time.perf_counter() - begin < options["seconds"] / 4 and len(times["torch"]) < 25):
        order = list(sides) if len(times["torch"]) % 2 else list(sides)[::-1]
        for side in order:
            times[side].append(clock.block(sides[side], inputs, calls[side]))
        if time.perf_counter() - begin > options["seconds"] * 3 and len(times["torch"]) >= 3:
            break
    for side, t in times.items():
        row[side + "_us"], row[side + "_least_us"] = round(statistics.median(t) * 1e6, 2), round(min(t) * 1e6, 2)
    row["ratio"] = statistics.median(a / b for a, b in zip(times["thalweg"], times["torch"]))
    if "inductor" in sides:
        row["inductor_ratio"] = statistics.median(a / b for a, b in zip(times["thalweg"], times["inductor"]))
    # The plan that won may be another one than the first call's.
    wrong = compare(program(*inputs), expected, function, inputs)
    if wrong and "wrong" not in row:
        row["wrong"] = "later call: " + wrong
    return row


def inductor(point, inputs, leaves, wanted):
    """The function and its gradients by torch.compile."""
    torch._dynamo.reset()
    compiled = torch.compile(point.entry.function, dynamic=False)

    def f(*_):
        if not point.grad:
            return compiled(*inputs)
        out = listed(compiled(*leaves[1:]))
        return results(out, torch.autograd.grad(out[0], wanted, leaves[0], allow_unused=True))

    f()
    return f


def finish_searches():
    import thalweg

    thalweg._thalweg.torch.finish_searches()


def main():
    warnings.filterwarnings("ignore")
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    torch.set_grad_enabled(True)
    # Both sides compute f32 in f32: PyTorch's convolutions on a GPU would use TF32.
    torch.backends.cudnn.allow_tf32 = False
    points = {p.name: p for p in cases.points()}
    out = os.fdopen(os.dup(1), "w", buffering=1)
    # What libraries print must not mix with rows.
    os.dup2(2, 1)
    print("ready", file=out)
    for line in sys.stdin:
        name = line.strip()
        print(json.dumps(measure(name, options, points)), file=out)


if __name__ == "__main__":
    main()
