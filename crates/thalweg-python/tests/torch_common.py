"""Helpers of the tests of the torch backend."""

import pytest
import torch
import torch._dynamo
from torch import nn

import thalweg.torch


@pytest.fixture(autouse=True)
def fresh():
    """Every test begins without compiled graphs, with the same seed."""
    torch._dynamo.reset()
    thalweg.torch.reset()
    torch.manual_seed(0)


def compiled(f, **kwargs):
    return torch.compile(f, backend=thalweg.torch.backend, **kwargs)


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.second(x))
