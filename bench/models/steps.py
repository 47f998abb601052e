"""What both commands of this folder share: the list of models, steps to run, and comparison with eager PyTorch."""

import copy
import math

import torch
from torch import nn
import torch._dynamo

# Recurrent layers in the graph, as the cells that they are made of.
torch._dynamo.config.allow_rnn = True


def all_models():
    """Name, constructor, inputs (a function of a batch size), and further inputs by name; installed libraries only."""
    import language_models
    import other_models
    import vision_models

    for kind, module in (("vision", vision_models), ("transformers", language_models), ("other", other_models)):
        listed = module.models()
        while True:
            try:
                name, make, inputs, more = next(listed)
            except (StopIteration, ImportError):
                break
            yield kind, name, make, inputs, more


def without_dropout(model):
    """Dropout of 0, so that runs can be compared."""
    for m in model.modules():
        if isinstance(m, (nn.Dropout, nn.Dropout1d, nn.Dropout2d)) or type(m).__name__ == "StochasticDepth":
            m.p = 0.0
        elif isinstance(getattr(m, "drop_prob", None), float):
            m.drop_prob = 0.0
        for name in ("attention_dropout", "dropout_prob", "dropout", "activation_dropout", "hidden_dropout", "layerdrop"):
            if isinstance(getattr(m, name, None), float):
                setattr(m, name, 0.0)
    return model


def flat(out):
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, dict):
        out = list(out.values())
    return [t for v in out for t in flat(v)]


def built(make, mode):
    torch.manual_seed(0)
    base = without_dropout(make())
    base = base.train() if mode == "train" else base.eval()
    return base.bfloat16() if mode == "bf16" else base


def cast(args, dtype):
    return tuple(a.to(dtype) if a.is_floating_point() else a for a in args)


def step_of(model, mode, call=None):
    """A function of inputs: results without gradients, or the loss, all gradients and the buffers after a training step."""
    call = model if call is None else call
    if mode != "train":
        def forward(*args):
            with torch.no_grad():
                return flat(call(*args))
        return forward

    def train(*args):
        for p in model.parameters():
            p.grad = None
        out = flat(call(*args))
        wide = lambda o: o if o.dtype == torch.float64 else o.float()
        loss = sum(wide(o).square().mean() for o in out if o.is_floating_point())
        loss.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [loss.detach(), *gradients, *(b for b in model.buffers() if b.is_floating_point())]
    return train


def exact_step(base, mode):
    """The step in f64, for the rounding of both sides."""
    return step_of(copy.deepcopy(base).double(), mode)


def difference(found, expected):
    """Largest difference of two lists of results, relative to the largest element of a tensor."""
    worst = 0.0
    for a, b in zip(found, expected):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        scale = b.float().abs().max().item() + 1e-3 if b.numel() else 1.0
        d = (a.float() - b.float()).abs().max().item() / scale if a.numel() else 0.0
        worst = max(worst, d if d == d else math.inf)
    return worst


def rms(x):
    return x.double().square().mean().sqrt().item()


def judge(found, eager, exact, others):
    """Verdict of a list of results, and the worst ratio of errors.

    ``close``: all tensors are within `torch.testing.assert_close`'s tolerances of eager. ``rounding``: some are not, and the
    error of each of those from f64 (root mean square) is at most three times eager's and one rounding: the rule of PyTorch's own
    benchmarks of compilers (`torch._dynamo.utils.same`), which allows two to three times and 1e-5.
    Eager's error is the largest of several runs (`others` computes them): with and without oneDNN, and with weights changed by four
    roundings. A step through many rectifiers and batch norms amplifies one rounding a thousandfold, so a single run says little.
    Else the first difference as a text.
    """
    if len(found) != len(eager):
        return f"{len(found)} results, not {len(eager)}", math.inf
    verdict, worst, runs = "close", 0.0, None
    for i, (a, b) in enumerate(zip(found, eager)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}", math.inf
        try:
            torch.testing.assert_close(a, b, equal_nan=True)
            continue
        except AssertionError as e:
            text = f"result {i}: " + " ".join(str(e).split())[:140]
        if not a.is_floating_point() or exact is None:
            return text, math.inf
        truth = exact[i].double()
        finite = truth.isfinite() & b.isfinite()
        if not a.isfinite()[finite].all():
            return text, math.inf
        error = lambda x: rms((x.double() - truth)[finite])
        ours, theirs = error(a), error(b)
        rounding = torch.finfo(a.dtype).eps * truth[finite].abs().max().item()
        if ours > 3 * theirs + rounding:
            runs = others() if runs is None else runs
            theirs = max(theirs, *(error(run[i]) for run in runs))
        if ours > 3 * theirs + rounding:
            return text + f"; error from f64 {ours:.1e}, eager {theirs:.1e}, of {rms(truth[finite]):.1e}", ours / max(theirs, 1e-300)
        verdict, worst = "rounding", max(worst, ours / (theirs + rounding))
    return verdict, worst
