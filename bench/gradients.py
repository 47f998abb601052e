#!/usr/bin/env python3
"""Gradients of composite functions as PyTorch computes them, in f64, for crates/thalweg/tests/gradients/golden.rs.

    python bench/gradients.py > crates/thalweg/tests/gradients/golden.txt

Inputs follow from a formula that both sides have, so that the file holds only gradients: a line with the name, and one with
the gradient for each input, of the sum of the result weighted by another such tensor.
"""

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def numbers(seed, shape, low, high):
    n = 1
    for d in shape:
        n *= d
    whole = (torch.arange(n, dtype=torch.int64) * 7919 + seed * 104729 + 31) % 9973
    return (whole.double() / 9973 * (high - low) + low).reshape(shape)


def sym(*shape):
    return shape, -1.0, 1.0


def pos(*shape):
    return shape, 0.1, 2.0


target = torch.tensor([1, 0, 3])
rows = torch.tensor([2, 0, 2, 1])
rare = torch.tensor([1.0, 0.5, 2.0, 3.0])

CASES = {
    "mlp": ([sym(3, 4), sym(5, 4), sym(5), sym(2, 5)], lambda x, w, b, v: torch.tanh(F.linear(x, w, b)) @ v.T),
    "softmax": ([sym(3, 5)], lambda x: F.softmax(x * 3, -1)),
    "log_softmax": ([sym(3, 5)], lambda x: F.log_softmax(x * 3, 0)),
    "logsumexp": ([sym(3, 5)], lambda x: torch.logsumexp(x * 5, 1)),
    "layer_norm": ([sym(3, 6), sym(6), sym(6)], lambda x, w, b: F.layer_norm(x, (6,), w, b)),
    "rms_norm": ([sym(3, 6), sym(6)], lambda x, w: F.rms_norm(x, (6,), w, 1e-5)),
    "group_norm": ([sym(2, 4, 3), sym(4), sym(4)], lambda x, w, b: F.group_norm(x, 2, w, b)),
    "batch_norm": ([sym(4, 3, 2), sym(3), sym(3)], lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "instance_norm": ([sym(2, 3, 4)], lambda x: F.instance_norm(x)),
    "cross_entropy": ([sym(3, 4)], lambda x: F.cross_entropy(x * 4, target)),
    "cross_entropy_smooth": ([sym(3, 4)], lambda x: F.cross_entropy(x, target, ignore_index=0, label_smoothing=0.1)),
    "cross_entropy_weighted": ([sym(3, 4)], lambda x: F.cross_entropy(x, target, weight=rare, ignore_index=0, label_smoothing=0.1)),
    "cross_entropy_soft": ([sym(3, 4), sym(3, 4)], lambda x, p: F.cross_entropy(x, p.softmax(1), weight=rare, label_smoothing=0.2)),
    "nll_weighted": ([sym(3, 4)], lambda x: F.nll_loss(F.log_softmax(x, 1), target, weight=rare)),
    "nll": ([sym(3, 4)], lambda x: F.nll_loss(F.log_softmax(x, 1), target, reduction="none")),
    "mse": ([sym(3, 4), sym(3, 4)], lambda x, y: F.mse_loss(x, y)),
    "huber": ([sym(3, 4), sym(3, 4)], lambda x, y: F.huber_loss(x, y, delta=0.5)),
    "bce_weighted": ([sym(6), pos(6)], lambda x, y: F.binary_cross_entropy_with_logits(x * 3, y / 2, pos_weight=torch.tensor(3.0).to(x.dtype))),
    "bce_logits": ([sym(6), pos(6)], lambda x, y: F.binary_cross_entropy_with_logits(x * 3, y / 2)),
    "kl_div": ([sym(2, 4), sym(2, 4)], lambda x, y: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="sum")),
    "cosine": ([sym(3, 4), sym(3, 4)], lambda x, y: F.cosine_similarity(x, y, 1, 1e-8)),
    "cdist": ([sym(3, 2), sym(4, 2)], lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")),
    "cdist_by_products": ([sym(3, 2), sym(4, 2)], lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")),
    "gelu": ([sym(7)], lambda x: F.gelu(x * 3)),
    "gelu_tanh": ([sym(7)], lambda x: F.gelu(x * 3, approximate="tanh")),
    "silu_mish": ([sym(7)], lambda x: F.silu(x * 3) + F.mish(x * 2)),
    "elu_selu": ([sym(7)], lambda x: F.elu(x * 2, 0.7) * F.selu(x)),
    "hard": ([sym(9)], lambda x: F.hardswish(x * 5) + F.softshrink(x, 0.3) + F.leaky_relu(x, 0.2)),
    "softplus": ([sym(7)], lambda x: F.softplus(x * 9) + F.logsigmoid(x * 9)),
    "attention": ([sym(1, 2, 4, 3), sym(1, 2, 5, 3), sym(1, 2, 5, 2)], F.scaled_dot_product_attention),
    "attention_causal": (
        [sym(2, 4, 3), sym(2, 4, 3), sym(2, 4, 2)],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    ),
    "conv1d": ([sym(2, 3, 7), sym(4, 3, 3), sym(4)], lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1)),
    "conv2d": ([sym(1, 2, 5, 6), sym(3, 2, 3, 2), sym(3)], lambda x, w, b: F.conv2d(x, w, b, 1, (1, 0))),
    "conv2d_dilated": ([sym(1, 2, 7, 7), sym(2, 2, 3, 3)], lambda x, w: F.conv2d(x, w, None, 2, 2, 2)),
    "conv2d_grouped": ([sym(1, 4, 5, 5), sym(6, 2, 3, 3)], lambda x, w: F.conv2d(x, w, groups=2)),
    "conv2d_depthwise": ([sym(1, 3, 5, 5), sym(3, 1, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1, groups=3)),
    "conv3d": ([sym(1, 1, 3, 4, 3), sym(2, 1, 2, 2, 2)], lambda x, w: F.conv3d(x, w, padding=1)),
    "conv_transpose1d": ([sym(1, 2, 4), sym(2, 3, 3)], lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1)),
    "conv_transpose2d": (
        [sym(1, 4, 3, 3), sym(4, 2, 3, 3), sym(4)],
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2),
    ),
    "max_pool2d": ([sym(1, 2, 6, 6)], lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max_pool1d_wide": ([sym(1, 1, 14)], lambda x: F.max_pool1d(x, 9, 2)),
    "avg_pool2d": ([sym(1, 2, 5, 5)], lambda x: F.avg_pool2d(x, 2, 1, 1, count_include_pad=False)),
    "adaptive_avg_pool2d": ([sym(1, 2, 5, 7)], lambda x: F.adaptive_avg_pool2d(x, (3, 4))),
    "adaptive_max_pool1d": ([sym(1, 2, 7)], lambda x: F.adaptive_max_pool1d(x, 3)),
    "interpolate": ([sym(1, 1, 3, 4)], lambda x: F.interpolate(x, (5, 7), mode="bilinear", align_corners=False)),
    "embedding": ([sym(4, 3)], lambda x: F.embedding(rows, x)),
    "cumulative": ([pos(3, 4)], lambda x: torch.cumsum(x, 0) * torch.cumprod(x, 1)),
    "logcumsumexp": ([sym(3, 4)], lambda x: torch.logcumsumexp(x * 4, 1)),
    "cummax": ([sym(3, 4)], lambda x: torch.cummax(x, 1).values * x),
    "statistics": ([sym(3, 4)], lambda x: x.std(1, correction=0) + x.var(1, correction=1) + x.norm(dim=1)),
    "prod_amax": ([pos(3, 4)], lambda x: x.prod(1) * x.amax(1) - x.amin(1)),
    "sort_topk": ([sym(3, 5)], lambda x: torch.sort(x, 1).values[:, :2] * torch.topk(x, 2, 1).values),
    "gather_scatter": (
        [sym(4, 3), sym(4, 3)],
        lambda x, y: torch.scatter_add(x, 0, rows[:, None].expand(4, 3), y) * y.gather(0, rows[:, None].expand(4, 3)),
    ),
    "einsum": ([sym(2, 3, 4), sym(4, 3, 2)], lambda x, y: torch.einsum("bij,jik->bk", x, y)),
    "lstm_cell": (
        [sym(2, 3), sym(2, 4), sym(2, 4), sym(16, 3), sym(16, 4)],
        lambda x, h, c, wi, wh: torch.stack(torch._VF.lstm_cell(x, (h, c), wi, wh)),
    ),
}

if __name__ == "__main__":
    for name, (inputs, f) in CASES.items():
        xs = [numbers(i + 1, *spec).requires_grad_() for i, spec in enumerate(inputs)]
        y = f(*xs)
        (y * numbers(77, tuple(y.shape), 0.5, 1.5)).sum().backward()
        print(name)
        for x in xs:
            print(" ".join(f"{v:.12g}" for v in x.grad.flatten().tolist()))
