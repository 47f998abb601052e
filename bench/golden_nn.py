"""Writes what torch makes of the layers of thalweg-nn: crates/thalweg-nn/tests/golden/*.safetensors.

    python3 golden_nn.py        (needs torch and numpy)

Each file holds a module's state as torch names it ("model.…"), its inputs ("input.…") and what its forward gives ("output.…").
"""

import json
import pathlib

import torch
from torch import nn

OUT = pathlib.Path(__file__).parent.parent / "crates/thalweg-nn/tests/golden"
CODES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


def write(name, tensors):
    """A safetensors file, written here so that the reader is tested with bytes of another hand."""
    header, data = {}, b""
    for key, tensor in sorted(tensors.items(), key=lambda t: -t[1].element_size()):
        tensor = tensor.detach().contiguous()
        raw = tensor.numpy().tobytes()
        header[key] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (OUT / f"{name}.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def case(name, module, inputs, outputs, after=None):
    """`after`: the module whose state is written, if it is another than the one that ran (batch norms change theirs)."""
    tensors = {f"model.{k}": v for k, v in module.items()}
    tensors |= {f"input.{i}": v for i, v in enumerate(inputs)}
    tensors |= {f"output.{i}": v for i, v in enumerate(outputs)}
    tensors |= {f"after.{k}": v for k, v in (after or {}).items()}
    write(name, tensors)


def simple(name, module, *inputs):
    # Scales and shifts that do something.
    for key, parameter in module.named_parameters():
        if parameter.ndim == 1:
            nn.init.uniform_(parameter, 0.5, 1.5)
    state = {k: v.clone() for k, v in module.state_dict().items()}
    case(name, state, inputs, [module(*inputs)])


class Lion(torch.optim.Optimizer):
    """As in the paper (Chen et al. 2023, algorithm 2); torch has none."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = (group["betas"][0] * m + (1 - group["betas"][0]) * p.grad).sign()
                m.mul_(group["betas"][1]).add_(p.grad, alpha=1 - group["betas"][1])
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd_decay": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.8, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.05, betas=(0.8, 0.95), weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, 0.05, eps=1e-4),
    "lion": lambda p: Lion(p, 0.02, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.02, weight_decay=0.01),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(p, 0.02, alpha=0.9, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, lr_decay=0.1, weight_decay=0.01),
}


def optimizers():
    """Five steps of one linear layer on one batch, gradients clipped to a norm of 3: its weights after each."""
    start = nn.Linear(4, 3)
    x, y = torch.randn(6, 4), torch.randn(6, 3) * 3
    tensors = {f"model.{k}": v for k, v in start.state_dict().items()} | {"input.0": x, "input.1": y}
    for name, make in OPTIMIZERS.items():
        module = nn.Linear(4, 3)
        module.load_state_dict(start.state_dict())
        optimizer = make(module.parameters())
        for step in range(5):
            optimizer.zero_grad()
            nn.functional.mse_loss(module(x), y).mul(4).backward()
            nn.utils.clip_grad_norm_(module.parameters(), 3.0)
            optimizer.step()
            tensors |= {f"{name}.{step}.{k}": v.detach().clone() for k, v in module.state_dict().items()}
    write("optimizers", tensors)


def main():
    torch.manual_seed(7)
    OUT.mkdir(exist_ok=True)
    optimizers()
    simple("linear", nn.Linear(5, 3), torch.randn(4, 5))
    simple("linear_no_bias", nn.Linear(5, 3, bias=False), torch.randn(2, 3, 5))
    simple("embedding", nn.Embedding(7, 4, padding_idx=2), torch.tensor([[0, 6, 2], [2, 5, 1]]))
    simple("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), torch.randn(2, 4, 9))
    simple("conv2d", nn.Conv2d(3, 5, (3, 2), padding=(1, 0), dilation=(1, 2)), torch.randn(2, 3, 7, 6))
    simple("conv3d", nn.Conv3d(2, 3, 2, padding=1), torch.randn(1, 2, 4, 3, 5))
    simple("conv_transpose1d", nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), torch.randn(2, 4, 5))
    simple("conv_transpose2d", nn.ConvTranspose2d(3, 2, 3, stride=2), torch.randn(2, 3, 4, 5))
    simple("conv_transpose3d", nn.ConvTranspose3d(2, 3, 2), torch.randn(1, 2, 3, 3, 2))
    simple("layer_norm", nn.LayerNorm([3, 4]), torch.randn(2, 5, 3, 4))
    simple("rms_norm", nn.RMSNorm(6), torch.randn(2, 5, 6))
    simple("group_norm", nn.GroupNorm(2, 6), torch.randn(2, 6, 5))
    simple("instance_norm", nn.InstanceNorm2d(3, affine=True), torch.randn(2, 3, 4, 5))
    simple("prelu", nn.PReLU(3), torch.randn(2, 3, 4))
    for name, module, shape in [("1d", nn.BatchNorm1d(3), (8, 3)), ("2d", nn.BatchNorm2d(3), (4, 3, 5, 5)), ("3d", nn.BatchNorm3d(2), (2, 2, 3, 4, 2))]:
        nn.init.uniform_(module.weight, 0.5, 1.5)
        nn.init.uniform_(module.bias, -1, 1)
        state = {k: v.clone() for k, v in module.state_dict().items()}
        x, y = torch.randn(shape) * 2 + 1, torch.randn(shape)
        trained, again = module(x), module(y)
        after = {k: v.clone() for k, v in module.state_dict().items()}
        module.eval()
        case(f"batch_norm{name}", state, [x, y], [trained, again, module(x)], after)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    nn.init.uniform_(attention.in_proj_bias)
    nn.init.uniform_(attention.out_proj.bias)
    q, k = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    outputs = [attention(k, k, k)[0], attention(k, k, k, attn_mask=causal)[0], attention(q, k, k * 2)[0]]
    case("attention", attention.state_dict(), [q, k], outputs)
    for name, kind in [("lstm", nn.LSTM), ("gru", nn.GRU)]:
        for suffix, options in [("", {}), ("_deep", {"num_layers": 2, "bidirectional": True})]:
            module = kind(3, 4, batch_first=True, **options)
            count = 4 if options else 1
            x, states = torch.randn(2, 5, 3), [torch.randn(count, 2, 4) for _ in range(2 if kind is nn.LSTM else 1)]
            plain, last = module(x)
            started, _ = module(x, tuple(states) if kind is nn.LSTM else states[0])
            case(name + suffix, module.state_dict(), [x, *states], [plain, *(last if kind is nn.LSTM else [last]), started])
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )  # fmt: skip
    net(torch.randn(4, 1, 6, 6))
    net.eval()
    x = torch.randn(2, 1, 6, 6)
    case("sequential", net.state_dict(), [x], [net(x)])


if __name__ == "__main__":
    main()
