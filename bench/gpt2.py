"""GPT-2 in PyTorch, beside the example gpt2 of thalweg-nn.

    python bench/gpt2.py kept [LAYERS WIDTH | test]
                                               bytes that torch.compile's partitioner keeps for the backward pass of a step
    python bench/gpt2.py time [LAYERS WIDTH]   seconds of a step, eager and compiled, and the peak of the process
    python bench/gpt2.py compare FILE          loss and gradients that the example has saved (--save FILE) against torch's
    python bench/gpt2.py golden FILE           writes a small file of that form, with torch's gradients

Needs torch and numpy.
"""

import json
import resource
import struct
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

SAMPLES = 4


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = torch.nn.Linear(width, 3 * width)
        self.c_proj = torch.nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Mlp(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = torch.nn.Linear(width, 4 * width)
        self.c_proj = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = torch.nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(torch.nn.Module):
    def __init__(self, tokens, context, width, heads, layers):
        super().__init__()
        self.wte = torch.nn.Embedding(tokens, width)
        self.wpe = torch.nn.Embedding(context, width)
        self.h = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = torch.nn.LayerNorm(width)

    def forward(self, tokens):
        x, y = tokens[:, :-1], tokens[:, 1:]
        x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def sized(arguments):
    if arguments == ["test"]:
        size = (512, 64, 64, 1, 12)
    elif len(arguments) == 2:
        layers, width = map(int, arguments)
        size = (4096, 256, width, width // 64, layers)
    else:
        size = (50257, 256, 768, 12, 12)
    torch.manual_seed(1)
    model = Gpt2(*size)
    i = np.arange(SAMPLES * (size[1] + 1), dtype=np.uint64)
    tokens = ((i * i * np.uint64(7919) + i * np.uint64(104729)) % np.uint64(size[0])).astype(np.int64)
    return model, torch.from_numpy(tokens.reshape(SAMPLES, -1))


def kept(arguments):
    """Counts what the forward graph hands to the backward graph: but for parameters and tokens, which are there anyway."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    model, tokens = sized(arguments)
    found = []

    def forward(graph, _):
        (outputs,) = [n for n in graph.graph.nodes if n.op == "output"]
        for node in outputs.args[0][1:]:
            value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
            if isinstance(value, torch.Tensor) and node.op != "placeholder":
                found.append((value.numel() * value.element_size(), node.name, tuple(value.shape)))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    torch.compile(model, backend=backend)(tokens).backward()
    # Views of what is kept are the same bytes: inductor keeps one buffer. Names of views lead to what they are views of.
    print(f"{len(found)} values kept, {sum(b for b, _, _ in found) / 1e6:.2f} MB")
    for size, name, shape in sorted(found, reverse=True)[:24]:
        print(f"  {size / 1e6:8.2f} MB  {name} {shape}")


def timed(arguments):
    model, tokens = sized(arguments)
    for name, run in [("eager", model), ("compiled", torch.compile(model))]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        times = []
        for _ in range(6):
            begin = time.perf_counter()
            optimizer.zero_grad()
            run(tokens).backward()
            optimizer.step()
            times.append(time.perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"{name}: {min(times):.3f} s a step; {peak:.0f} MB resident at most so far")


def load(path):
    kinds = {"F32": np.float32, "I64": np.int64}
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = f.read()
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            array = np.frombuffer(data[begin:end], kinds[about["dtype"]]).reshape(about["shape"])
            tensors[name] = torch.from_numpy(array.copy())
    return tensors


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        array = tensor.detach().contiguous().numpy()
        kind = {"float32": "F32", "int64": "I64"}[str(array.dtype)]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def gradients(model, tokens):
    loss = model(tokens)
    loss.backward()
    return loss, {name: p.grad for name, p in model.named_parameters()}


def compare(path):
    tensors = load(path)
    weights = {n: t for n, t in tensors.items() if not n.startswith("gradient.") and n not in ("tokens", "loss", "heads")}
    layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("h."))
    (count, width), context = weights["wte.weight"].shape, weights["wpe.weight"].shape[0]
    model = Gpt2(count, context, width, int(tensors["heads"][0]), layers)
    model.load_state_dict(weights)
    for dtype in (torch.float32, torch.float64):
        model = model.to(dtype)
        model.zero_grad()
        loss, theirs = gradients(model, tensors["tokens"])
        errors = {}
        for name, g in theirs.items():
            difference = tensors["gradient." + name].to(torch.float64) - g.to(torch.float64)
            errors[name] = float(difference.norm() / g.to(torch.float64).norm())
        worst = max(errors, key=errors.get)
        print(
            f"torch in {dtype}: loss {float(loss):.7f}, ours {float(tensors['loss'][0]):.7f}; "
            f"gradients off by {errors[worst]:.2e} of their norm at most ({worst})"
        )


def golden(path):
    torch.manual_seed(1)
    model = Gpt2(19, 8, 16, 2, 2)
    tokens = torch.randint(0, 19, (2, 9))
    loss, theirs = gradients(model, tokens)
    tensors = dict(model.state_dict())
    tensors |= {"gradient." + n: g for n, g in theirs.items()}
    tensors |= {"tokens": tokens, "loss": loss.reshape(1), "heads": torch.tensor([2])}
    save(path, tensors)


if __name__ == "__main__":
    torch.set_num_threads(2)
    command, rest = sys.argv[1], sys.argv[2:]
    {"kept": lambda: kept(rest), "time": lambda: timed(rest), "compare": lambda: compare(*rest), "golden": lambda: golden(*rest)}[command]()
