"""Entries of two or three operations that often meet."""

import torch
import torch.nn.functional as F

from cases import IMAGE_LAYOUTS, LAYOUTS, MATRIX_LAYOUTS, Entry
from operations import CUBE, FEW_IMAGES, FEW_MATRICES, FEW_PICTURES, FEW_PLANES, FEW_TABLES, HEADS, SIGNALS, SORTED, conv

PAIRS = []
DTYPES = ("f32", "bf16", "f64")


def add(name, function, inputs, shapes, **options):
    options.setdefault("dtypes", DTYPES)
    options.setdefault("extra", 5)
    PAIRS.append(Entry("pair", name, function, inputs, shapes, **options))


one = lambda m, *d: [m.x(*d)]  # noqa: E731
distinct = lambda m, *d: [m.x(*d, kind="distinct")]  # noqa: E731
linear = lambda m, r, k, c: [m.x(r, k), m.w(c, k, scale=k**-0.5), m.w(c)]  # noqa: E731
image = {"layouts": IMAGE_LAYOUTS}
matrix = {"layouts": MATRIX_LAYOUTS}

# Around products.
add("layer_norm+matmul", lambda x, w, b: F.linear(F.layer_norm(x, x.shape[-1:]), w, b), linear, FEW_MATRICES, **matrix)
add("rms_norm+matmul", lambda x, w, b: F.linear(F.rms_norm(x, x.shape[-1:]), w, b), linear, FEW_MATRICES, **matrix)
add("matmul+layer_norm", lambda x, w, b: F.layer_norm(F.linear(x, w, b), w.shape[:1]), linear, FEW_MATRICES, **matrix)
add("matmul+softmax", lambda x, w, b: F.linear(x, w, b).softmax(-1), linear, FEW_MATRICES, **matrix)
add("matmul+softmax_first", lambda x, w, b: F.linear(x, w, b).softmax(0), linear, FEW_MATRICES, **matrix)
add("matmul+sum", lambda x, w, b: F.linear(x, w, b).sum(0), linear, FEW_MATRICES, **matrix)
add("matmul+argmax", lambda x, w, b: F.linear(x, w, b).argmax(-1), linear, FEW_MATRICES, grad=False, dtypes=("f32", "f64"), **matrix)
add("matmul+relu+matmul", lambda x, w, b: F.linear(x, w, b).relu() @ w, linear, FEW_MATRICES, **matrix)
add("swiglu", lambda x, w, b: F.silu(x @ w.t()) * (x @ w.t() + b), linear, FEW_MATRICES, **matrix)
add("cast+matmul", lambda x, w, b: x.float() @ w.float().t(), linear, FEW_MATRICES, dtypes=("bf16", "f16", "f64"), **matrix)
add("dequantize+matmul", lambda x, w, s: x @ (w.to(x.dtype) * s[:, None]).t(), lambda m, r, k, c: [m.x(r, k), m.w(c, k, dtype=torch.int8), m.w(c, kind="positive", scale=0.01)], FEW_MATRICES, **matrix)  # fmt: skip
add("mask+matmul", lambda x, w, b: (x * (x > 0)) @ w.t(), linear, FEW_MATRICES, **matrix)
add("cat+matmul", lambda x, y, w: torch.cat([x, y], -1) @ w, lambda m, r, k, c: [m.x(r, k), m.w(r, k), m.w(2 * k, c, scale=k**-0.5)], FEW_MATRICES, **matrix)
add("gather+matmul", lambda x, i, w: x[i] @ w, lambda m, r, k, c: [m.x(r, k), m.index(r, r), m.w(k, c, scale=k**-0.5)], FEW_MATRICES, **matrix)
add("matmul+scatter_add", lambda x, w, i: torch.zeros(100, w.shape[1], dtype=x.dtype, device=x.device).index_add(0, i, x @ w), lambda m, r, k, c: [m.x(r, k), m.w(k, c, scale=k**-0.5), m.index(100, r)], FEW_MATRICES, dtypes=("f32", "f64"), **matrix)  # fmt: skip
add("transpose+matmul", lambda x, w, b: (x.t().exp() * 0.1) @ (x @ w.t()), linear, FEW_MATRICES, **matrix)
add("matmul+permute", lambda x, w, b: F.linear(x, w, b).unflatten(-1, (1, -1)).permute(2, 1, 0).contiguous(), linear, FEW_MATRICES, **matrix)
add("matmul+residual+norm", lambda x, w: F.layer_norm(x + x @ w, x.shape[-1:]), lambda m, r, c: [m.x(r, c), m.w(c, c, scale=c**-0.5)], {"power": (256, 256), "prime": (251, 263), "one_row": (1, 1024)}, **matrix)
add("dropout_mask+matmul", lambda x, w, b, k: F.linear(x * k * 2, w, b), lambda m, r, k, c: [*linear(m, r, k, c), m.mask(r, k)], FEW_MATRICES, **matrix)
add("powers+matmul", lambda x: x @ (x.transpose(1, 2) @ x), lambda m, b, r, c: [m.x(b, r, c)], {"power": (64, 32, 32), "prime": (61, 13, 17)})
add("gram+trace", lambda x: (x.transpose(1, 2) @ x).diagonal(dim1=1, dim2=2).sum(-1), one, {"power": (64, 32, 32), "prime": (61, 13, 17)})

# Around convolutions.
bn = lambda x: F.batch_norm(x, None, None, None, None, True)  # noqa: E731
add("conv+norm+relu", lambda x, w, b: bn(F.conv2d(x, w, b, padding=1)).relu(), conv(32, 3), FEW_PICTURES, **image)
add("conv+relu", lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), conv(32, 3), FEW_PICTURES, **image)
add("norm+relu+conv", lambda x, w, b: F.conv2d(bn(x).relu(), w, b, padding=1), conv(32, 3), FEW_PICTURES, **image)
add("conv+residual+relu", lambda x, w, b: (F.conv2d(x, w, b, padding=1) + x).relu(), conv(None, 3), FEW_PICTURES, **image)
add("conv+pool", lambda x, w, b: F.max_pool2d(F.conv2d(x, w, b, padding=1).relu(), 2), conv(32, 3), FEW_PICTURES, **image)
add("conv+global_pool", lambda x, w, b: F.conv2d(x, w, b).relu().mean((2, 3)), conv(64, 1), FEW_PICTURES, **image)
add("conv+group_norm+silu", lambda x, w, b: F.silu(F.group_norm(F.conv2d(x, w, b, padding=1), 4)), conv(32, 3), FEW_PICTURES, **image)
add("conv1x1+depthwise", lambda x, w, b, v: F.conv2d(F.conv2d(x, w, b).relu(), v, padding=1, groups=32), lambda m, *d: [*conv(32, 1)(m, *d), m.w(32, 1, 3, 3)], FEW_PICTURES, **image)
add("pad+conv", lambda x, w, b: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), w, b), conv(32, 3), FEW_PICTURES, **image)
add("upsample+conv", lambda x, w, b: F.conv2d(F.interpolate(x, scale_factor=2), w, b, padding=1), conv(16, 3), FEW_PICTURES, **image)
add("bilinear+cat+conv", lambda x, w, b: F.conv2d(torch.cat([F.interpolate(F.avg_pool2d(x, 2), size=x.shape[2:], mode="bilinear"), x], 1), w.repeat(1, 2, 1, 1), b, padding=1), conv(16, 3), FEW_PICTURES, **image)
add("cat+conv", lambda x, w, b: F.conv2d(torch.cat([x, x.relu()], 1), torch.cat([w, w], 1), b, padding=1), conv(32, 3), FEW_PICTURES, **image)
add("shuffle+depthwise", lambda x, w, b: F.conv2d(x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2), w, b, padding=1, groups=x.shape[1]), conv(None, 3, "depthwise"), FEW_PICTURES, **image)
add("squeeze_excite", lambda x, w, b: x * F.conv2d(x.mean((2, 3), keepdim=True), w, b).sigmoid(), conv(None, 1), FEW_PICTURES, **image)
add("pixel_shuffle+conv", lambda x, w, b: F.conv2d(F.pixel_shuffle(x, 2), w[:, : x.shape[1] // 4], b, padding=1), conv(16, 3), FEW_PICTURES, **image)
add("conv1d+glu", lambda x, w, b: F.glu(F.conv1d(x, w, b, padding=1), 1), conv(64, 3), SIGNALS, **matrix)
add("pad+depthwise1d+silu", lambda x, w, b: F.silu(F.conv1d(F.pad(x, (3, 0)), w, b, groups=x.shape[1])), conv(None, 4, "depthwise"), SIGNALS, **matrix)
add("patches+linear", lambda x, w, b: F.conv2d(x, w, b, stride=4).flatten(2).transpose(1, 2).contiguous(), conv(64, 4), FEW_PICTURES, **image)

# Movement and reductions.
add("permute+sum", lambda x: x.permute(2, 0, 1).sum(-1), one, CUBE)
add("permute+softmax", lambda x: x.permute(1, 2, 0).softmax(-1), one, CUBE)
add("permute+layer_norm", lambda x: F.layer_norm(x.permute(0, 2, 1), x.shape[1:2]), one, CUBE)
add("layer_norm+permute", lambda x: F.layer_norm(x, x.shape[-1:]).permute(2, 0, 1).contiguous(), one, CUBE)
add("softmax+permute", lambda x: x.softmax(-1).permute(0, 2, 1).contiguous(), one, CUBE)
add("sum+broadcast_sub", lambda x: x - x.sum((0, 2), keepdim=True), one, CUBE)
add("mean_first+var_last", lambda x: (x - x.mean(0)).var(-1), one, CUBE)
add("max+exp+sum", lambda x: (x - x.amax(1, keepdim=True)).exp().sum(1), one, CUBE)
add("flip+cat", lambda x: torch.cat([x.flip(-1), x], -1), one, CUBE)
add("pad+shift+add", lambda x: F.pad(x, (1, 1))[..., 2:] + x * 2 + F.pad(x, (1, 1))[..., :-2], one, CUBE)
add("slice_shift+add", lambda x: x[..., 1:, 1:] + x[..., :-1, 1:] - x[..., 1:, :-1] * x[..., :-1, :-1], one, FEW_PLANES)
add("laplace", lambda x: x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x, one, FEW_PLANES)
add("cumsum+sub", lambda x: x.cumsum(-1)[..., 2:] - x.cumsum(-1)[..., :-2], one, FEW_PLANES)
add("cumsum+div", lambda x: x.cumsum(-1) / torch.arange(1, x.shape[-1] + 1, device=x.device), one, FEW_PLANES)
add("exp+cumsum+normalize", lambda x: x.exp().cumsum(0) / x.exp().sum(0), one, FEW_PLANES)
add("interleave+mul", lambda x: torch.stack([x[..., ::2][..., : x.shape[-1] // 2] * 2, x[..., 1::2] * 3], -1).flatten(-2), one, FEW_PLANES)
add("rope", lambda x, c, s: x * c + torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1) * s, lambda m, b, h, s, d: [m.x(b, h, s, d), m.w(s, d), m.w(s, d)], HEADS, layouts=("contiguous", "transposed", "sliced"))  # fmt: skip
add("rope_pairs", lambda x, c, s: torch.stack([x[..., ::2] * c - x[..., 1::2] * s, x[..., ::2] * s + x[..., 1::2] * c], -1).flatten(-2), lambda m, b, h, s, d: [m.x(b, h, s, d), m.w(s, d // 2), m.w(s, d // 2)], HEADS, layouts=("contiguous", "transposed", "sliced"))  # fmt: skip
add("qkv+attention", lambda x, w: F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (x @ w).unflatten(-1, (3, 4, -1)).unbind(2))).transpose(1, 2).flatten(2).contiguous(), lambda m, b, s, d: [m.x(b, s, d), m.w(d, 3 * d, scale=d**-0.5)], {"power": (2, 128, 128), "prime": (3, 101, 68)}, layouts=("contiguous", "transposed", "sliced"))  # fmt: skip
add("window+mean", lambda x: x.unfold(-1, 3, 1).mean(-1), one, FEW_PLANES)
add("window+max", lambda x: x.unfold(-1, 3, 2).amax(-1), one, FEW_PLANES)
add("outer+sum", lambda x, y: (x[:, :, None] * y[:, None, :]).sum(0), lambda m, r, c: [m.x(r, 32), m.w(r, 48)], {"power": (512, 1), "prime": (509, 1)})
add("where+sum", lambda x: torch.where(x > 0, x, 0.1 * x).sum(-1), one, CUBE)
add("normalize_images", lambda x, a, b: ((x.permute(0, 3, 1, 2).float() / 255 - a[:, None, None]) / b[:, None, None]).contiguous(), lambda m, n, h, w: [m.x(n, h, w, 3), m.w(3, dtype=torch.float32), m.w(3, kind="positive", dtype=torch.float32)], {"power": (4, 64, 64), "prime": (3, 61, 67), "large": (4, 224, 224)}, dtypes=("u8", "f32"), layouts=("contiguous", "sliced", "offset"), grad=False)  # fmt: skip
add("mean_pool_masked", lambda x, k: (x * k[..., None]).sum(1) / k.sum(1, keepdim=True).clamp(min=1), lambda m, a, b, c: [m.x(a, b, c), m.mask(a, b)], CUBE)
add("layer_norm+gelu", lambda x: F.gelu(F.layer_norm(x, x.shape[-1:])), one, CUBE)
add("standardize+clamp", lambda x: ((x - x.mean(0)) / (x.std(0) + 1e-5)).clamp(-2, 2), one, FEW_PLANES)
add("group_sum_reshape", lambda x: x.unflatten(1, (-1, 4)).sum(2) if x.shape[1] % 4 == 0 else x.sum(1), one, {"power": (64, 128, 64), "prime": (61, 124, 67)})

# Indices.
table = lambda m, r, c, k: [m.x(r, c), m.index(r, k)]  # noqa: E731
add("gather+sum", lambda x, i: x[i].sum(0), table, FEW_TABLES)
add("gather+norm", lambda x, i: F.layer_norm(x[i], x.shape[1:]), table, FEW_TABLES)
add("gather+mul+scatter", lambda x, i, j: torch.zeros_like(x).index_add(0, j, x[i] * 0.5), lambda m, r, c, k: [m.x(r, c), m.index(r, k), m.index(r, k)], FEW_TABLES, dtypes=("f32", "f64"))
add("embedding+position+norm", lambda w, i, p: F.layer_norm(F.embedding(i, w) + p, w.shape[1:]), lambda m, r, c, k: [m.x(r, c), m.index(r, 8, k // 8 + 1), m.w(k // 8 + 1, c)], FEW_TABLES)
add("sort+cumsum", lambda x: x.sort(-1).values.cumsum(-1), distinct, SORTED, selects=True)
add("topk+softmax", lambda x: x.topk(min(4, x.shape[-1])).values.softmax(-1), distinct, SORTED, selects=True)
add("argmax+gather", lambda x: x.gather(-1, x.argmax(-1, keepdim=True)), one, SORTED, dtypes=("f32", "f64"))
add("softmax+topk", lambda x: x.softmax(-1).topk(min(2, x.shape[-1])).values, distinct, SORTED, selects=True)
add("one_hot+matmul", lambda x, i: (i[:, None] == torch.arange(x.shape[0], device=x.device)).to(x.dtype) @ x, lambda m, r, c, k: [m.x(r, c), m.index(r, k)], {"power": (64, 128, 512), "prime": (61, 67, 503), "tiny": (7, 5, 11)})
add("mask+cumsum+gather", lambda x, k, v: v.gather(0, (k.long().cumsum(0) % v.shape[0])) * x, lambda m, r, c, k: [m.x(k), m.mask(k), m.w(r)], {"power": (256, 1, 65536), "prime": (251, 1, 50021)}, layouts=("contiguous", "strided", "offset"))  # fmt: skip
