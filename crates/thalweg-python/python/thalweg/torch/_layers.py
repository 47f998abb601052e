"""Layers that PyTorch runs as one kernel on a CPU, decomposed to the operations that they are made of."""

import contextlib
import threading

import torch
from torch._decomp import decompositions
from torch.nn import functional

_PATCH = threading.RLock()


@contextlib.contextmanager
def lstm_as_cells():
    """While it is entered, LSTM layers are traced as cells.

    For inputs without a gradient PyTorch traces a layer as oneDNN's kernel, which has no rule, and whose gradient PyTorch 2.15
    cannot trace when only the weights have one.
    """
    name = "select_one_layer_lstm_function"
    before = getattr(decompositions, name, None)
    if before is None or not hasattr(decompositions, "one_layer_lstm"):
        yield
        return
    with _PATCH:
        setattr(decompositions, name, lambda input, hx, params: decompositions.one_layer_lstm)
        try:
            yield
        finally:
            setattr(decompositions, name, before)


def encoder_layer(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1,
    norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):
    """The fast path of ``nn.TransformerEncoderLayer``; PyTorch's kernel runs with a mask."""
    if mask is not None or src.is_nested or src.dim() != 3:
        return NotImplemented
    norm = lambda x, weight, bias: functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attention(x):
        q, k, v = functional.linear(x, qkv_weight, qkv_bias).unflatten(-1, (3, num_heads, embed_dim // num_heads)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v)
        return functional.linear(y.transpose(1, 2).flatten(2), proj_weight, proj_bias)

    def feed_forward(x):
        y = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(functional.gelu(y) if use_gelu else functional.relu(y), ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(norm(src, norm_weight_1, norm_bias_1))
        return src + feed_forward(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attention(src), norm_weight_1, norm_bias_1)
    return norm(src + feed_forward(src), norm_weight_2, norm_bias_2)
