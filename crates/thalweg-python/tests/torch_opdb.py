"""PyTorch's operator database through the backend: every entry and sample against eager PyTorch.

    python tests/torch_opdb.py [--device cuda] [--samples N] [--json FILE] [--dynamo] [--peer aot_eager] [--no-backward]
                                 [--dtypes float64,bfloat16] [ENTRY ...]

An entry is right (every sample agrees, no kernel of PyTorch ran), right with eager kernels, wrong, or an error.
Functions are traced by AOTAutograd alone, which is ten times faster than through Dynamo; `--dynamo` takes Dynamo.
`--peer` compiles with another backend instead, to see which entries fail without Thalweg.
"""

import argparse
import collections
import json
import sys
import time
import warnings

import torch
import torch._dynamo
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import thalweg.torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
DYNAMO = False
# Operations that PyTorch's kernels ran, with the reason, by entry and direction.
BY_PYTORCH = {}

# Entries whose values no comparison can check: random numbers, uninitialised memory.
RANDOM = (
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand", "uniform", "dropout",
    "alpha_dropout", "feature_alpha_dropout", "empty", "new_empty", "rrelu", "fractional_max_pool", "randperm",
)

# Entries whose second result is an index that PyTorch leaves open among equal elements.
TIED = ("kthvalue", "median", "nanmedian", "mode", "topk", "sort")


def name_of(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def is_random(name):
    if name in ("nn.functional.multi_head_attention_forward", "argsort", "svd_lowrank", "pca_lowrank"):
        # Dropout; the order of equal elements; a random start.
        return True
    if name.startswith("normalize") or "normalize" in name:
        return False
    last = name.removeprefix("nn.functional.")
    return any(last.startswith(r) for r in RANDOM)


def copy(x):
    if isinstance(x, torch.Tensor):
        y = x.detach().clone(memory_format=torch.preserve_format)
        return y.requires_grad_(x.requires_grad)
    return x


def close(a, b, name):
    if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
        return "kinds of result differ"
    if not isinstance(a, torch.Tensor):
        return None if a == b or a != a else f"{a} is not {b}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} is not {b.dtype}{list(b.shape)}"
    if is_random(name):
        return None
    try:
        wide = a.is_floating_point() or a.is_complex()
        rtol, atol = {torch.bfloat16: (3e-2, 1e-2), torch.float16: (4e-3, 2e-3)}.get(a.dtype, (2e-4, 2e-5)) if wide else (0, 0)
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return str(error).replace("\n", " ")[:160]
    if a.layout == torch.strided and a.numel() > 1 and a.stride() != b.stride():
        strides = [(x, y) for x, y, n in zip(a.stride(), b.stride(), a.shape) if n > 1]
        dense = all(y > 0 for _, y in strides)
        order = [x for x, _ in strides] == sorted((x for x, _ in strides), reverse=True)
        if dense and order != ([y for _, y in strides] == sorted((y for _, y in strides), reverse=True)):
            return f"strides {a.stride()} are not {b.stride()}"
    return None


def run(f, leaves, backward):
    """Results and gradients."""
    leaves = [copy(x) for x in leaves]
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    torch.manual_seed(0)
    out = tree_flatten(f(*tensors))[0]
    gradients = []
    if backward:
        def seed(x):
            return torch.linspace(-1, 1, max(x.numel(), 1), dtype=torch.float64)[: x.numel()].reshape(x.shape).to(x.dtype)

        pairs = [(x, seed(x)) for x in out if isinstance(x, torch.Tensor) and x.requires_grad]
        wanted = [x for x in tensors if x.requires_grad]
        if pairs and wanted:
            gradients = torch.autograd.grad([p[0] for p in pairs], wanted, [p[1] for p in pairs], allow_unused=True)
    detached = [x.detach() if isinstance(x, torch.Tensor) else x for x in out]
    return detached, list(gradients)


def exact_results(f, leaves):
    """Eager results of f64 operands; none where the operation has no f64."""
    try:
        wide = [x.double() if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x for x in leaves]
        return run(f, [x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in wide], False)[0]
    except Exception:
        return []


def nearer(a, b, exact):
    """Whether a result of f32 is no farther from that of f64 than eager's."""
    if not isinstance(exact, torch.Tensor) or a.dtype != torch.float32:
        return False
    return bool((a.double() - exact).abs().max() <= (b.double() - exact).abs().max())


def check(op, sample, backward, compiler, name):
    if sample.kwargs.get("dropout_p", 0.0) > 0.0:
        name = "dropout"
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))

    def f(*tensors):
        rest = iter(tensors)
        given = [next(rest) if isinstance(x, torch.Tensor) else x for x in leaves]
        x, args, kwargs = tree_unflatten(given, spec)
        return op.op(x, *args, **kwargs)

    try:
        expected, expected_gradients = run(f, leaves, backward)
    except Exception:
        return "skip", None
    if DYNAMO or isinstance(compiler, str):
        torch._dynamo.reset()
    thalweg.torch.reset()
    try:
        if DYNAMO or isinstance(compiler, str):
            found, gradients = run(torch.compile(f, backend=compiler, fullgraph=False, dynamic=False), leaves, backward)
        else:
            try:
                found, gradients = run(thalweg.torch.compile_function(f), leaves, backward)
            except Exception:
                # Values that the program asks for in between cut a graph: Dynamo's task.
                thalweg.torch.reset()
                found, gradients = run(torch.compile(f, backend=compiler, dynamic=False), leaves, backward)
    except Exception as error:
        text = f"{type(error).__name__}: {error}".replace("\n", " ")
        return "error", text[:300]
    exact = None
    for i, (a, b) in enumerate(zip(found, expected)):
        why = close(a, b, "uniform" if i == 1 and name.startswith(TIED) else name)
        if why and "not close" in why:
            exact = exact_results(f, leaves) if exact is None else exact
            if exact and nearer(a, b, exact[i]):
                continue
        if why:
            return "wrong", why
    for a, b in zip(gradients, expected_gradients):
        if (a is None) != (b is None):
            return "wrong gradient", "a gradient is None"
        if a is not None and (why := close(a, b, name)) and "strides" not in why:
            return "wrong gradient", why
    eager = thalweg.torch.statistics()["eager"]
    BY_PYTORCH.setdefault((name, backward), {}).update({k: why for k, (_, why) in eager.items()})
    if eager:
        return "eager", "; ".join(f"{k} ({why})" for k, (n, why) in eager.items())[:300]
    return "right", None


def by_inductor_too(reasons):
    """Whether inductor's registry of fallbacks has all the operations, or their operands or results are complex."""
    from torch._inductor.lowering import fallbacks

    names = {str(op) for op in fallbacks}
    # Checks that raise are no operation of the entry.
    checks = ("python.with_effects", "aten._assert_async", "aten._linalg_check_errors")
    complex_ = ("a dtype or rank that Thalweg has not", "a result of a dtype that Thalweg has not", "a complex dtype")
    of_complex = ("view_as_complex", "aten.complex.", "polar", "_conj", "_fft_", "view_as_real", "aten._to_copy")
    return all(op in names or why in complex_ or op.startswith(checks) or any(part in op for part in of_complex)
               for op, why in reasons.items())


ORDER = ["error", "wrong", "wrong gradient", "eager", "right"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("entries", nargs="*")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--json")
    parser.add_argument("--peer")
    parser.add_argument("--dynamo", action="store_true")
    parser.add_argument("--no-backward", action="store_true")
    parser.add_argument("--part", help="I/N: only every N-th entry, from I on")
    parser.add_argument("--dtypes", default="float32,int64,bool")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of an entry")
    options = parser.parse_args()
    dtypes = [getattr(torch, name) for name in options.dtypes.split(",")]
    global DYNAMO
    DYNAMO = options.dynamo
    compiler = options.peer or thalweg.torch.backend
    torch._dynamo.config.suppress_errors = False
    entries = [op for op in op_db if not options.entries or name_of(op) in options.entries or op.name in options.entries]
    if options.part:
        i, n = map(int, options.part.split("/"))
        entries = entries[i::n]
    forward, backward, reasons = {}, {}, {}
    counts = collections.Counter()
    for op in entries:
        name = name_of(op)
        start = time.time()
        for dtype in dtypes:
            if dtype not in op.supported_dtypes(options.device):
                continue
            tracked = dtype.is_floating_point and op.supports_autograd and not options.no_backward
            torch.manual_seed(1)
            try:
                samples = list(op.sample_inputs(options.device, dtype, requires_grad=tracked))
            except Exception:
                continue
            # Samples from all over the list.
            step = max(1, len(samples) // options.samples)
            for sample in samples[::step][: options.samples]:
                if time.time() - start > options.seconds:
                    break
                for way in ([False, True] if tracked else [False]):
                    if way:
                        kind, why = check(op, sample, True, compiler, name)
                    else:
                        plain = tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x,
                                         (sample.input, sample.args, sample.kwargs))
                        shown = type(sample)(plain[0], args=tuple(plain[1]), kwargs=plain[2])
                        kind, why = check(op, shown, False, compiler, name)
                    counts[f"{'backward' if way else 'forward'} {kind}"] += 1
                    if kind == "skip":
                        continue
                    table = backward if way else forward
                    before = table.get(name, "right")
                    if ORDER.index(kind) < ORDER.index(before):
                        reasons[(name, way)] = f"{str(dtype)[6:]}: {why}"
                    table[name] = min(before, kind, key=ORDER.index)
                    if options.entries and kind != "right":
                        print(f"{name} {str(dtype)[6:]} {'backward' if way else 'forward'}: {kind}: {why}")
        shown = " ".join(f"{d}={t[name]}" for d, t in (("forward", forward), ("backward", backward)) if name in t)
        why = reasons.get((name, False)) or reasons.get((name, True)) or ""
        print(f"{name:50} {shown} {why}", flush=True)
    for title, table in (("forward", forward), ("backward", backward)):
        found = collections.Counter(table.values())
        print(title, len(table), dict(found))
        also = [n for n, kind in table.items() if kind == "eager" and by_inductor_too(BY_PYTORCH[(n, title == "backward")])]
        print(f"{title}: of those by PyTorch's kernels, inductor calls the same kernel, or is given complex numbers, for {len(also)}")
    print("samples", dict(counts))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"forward": forward, "backward": backward,
                       "reasons": {f"{n} {'backward' if w else 'forward'}": r for (n, w), r in reasons.items()}}, file)


if __name__ == "__main__":
    sys.exit(main())
