"""Entries of single operations, by family."""

import torch
import torch.nn.functional as F

from cases import FLOATS, IMAGE_LAYOUTS, INTEGERS, LAYOUTS, MATRIX_LAYOUTS, NUMBERS, Entry

ENTRIES = []

PLANE = {
    "power": (512, 1024),
    "prime": (509, 1021),
    "long": (3, 200003),
    "short": (150001, 3),
    "tiny": (31, 37),
    "memory": (2048, 8192),
}
FEW_PLANES = {k: PLANE[k] for k in ("prime", "short", "long", "tiny")}
CUBE = {"power": (64, 128, 64), "prime": (61, 127, 67), "long": (3, 5, 30011), "short": (20011, 11, 3), "tiny": (5, 7, 11)}
LARGE_CUBE = {**CUBE, "memory": (256, 256, 192)}


def add(family, name, function, inputs, shapes, **options):
    ENTRIES.append(Entry(family, name, function, inputs, shapes, **options))


def one(kind="normal"):
    return lambda m, *d: [m.x(*d, kind=kind)]


# Elementwise, one operand.
UNARY = {
    "exp": torch.exp, "sqrt": (torch.sqrt, "positive"), "sin": torch.sin, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "gelu": F.gelu, "relu": F.relu, "abs": torch.abs, "square": torch.square, "log": (torch.log, "positive"),
}  # fmt: skip
MORE_UNARY = {
    "rsqrt": (torch.rsqrt, "positive"), "cos": torch.cos, "tan": torch.tan, "erf": torch.erf, "silu": F.silu, "neg": torch.neg,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "reciprocal": (torch.reciprocal, "positive"), "log1p": (torch.log1p, "positive"),
    "expm1": torch.expm1, "softplus": F.softplus, "elu": F.elu, "hardswish": F.hardswish, "mish": F.mish, "atan": torch.atan,
    "leaky_relu": F.leaky_relu, "pow_3": lambda x: x**3, "pow_2.5": (lambda x: x**2.5, "positive"), "clamp": lambda x: x.clamp(-0.5, 0.5),
    "asin": (torch.asin, "unit"), "sinh": torch.sinh, "lgamma": (torch.lgamma, "positive"), "digamma": (torch.digamma, "positive"),
    "erfinv": (torch.erfinv, "unit"), "logit": (torch.logit, "unit"), "sinc": torch.sinc, "exp2": torch.exp2, "log2": (torch.log2, "positive"),
    "celu": F.celu, "softsign": F.softsign, "logsigmoid": F.logsigmoid, "glu": lambda x: F.glu(x[..., : x.shape[-1] // 2 * 2]),
}  # fmt: skip
for table, shapes, extra in ((UNARY, PLANE, 6), (MORE_UNARY, FEW_PLANES, 2)):
    for name, function in table.items():
        function, kind = function if isinstance(function, tuple) else (function, "normal")
        add("unary", name, function, one(kind), shapes, extra=extra)
for name, function in {
    "floor": torch.floor, "round": torch.round, "sign": torch.sign, "trunc": torch.trunc, "isnan": torch.isnan,
    "isfinite": torch.isfinite, "frac": torch.frac, "signbit": torch.signbit,
}.items():  # fmt: skip
    add("unary", name, function, one(), FEW_PLANES, grad=False, extra=2)
for name, function in {
    "abs_int": torch.abs, "neg_int": torch.neg, "not_int": torch.bitwise_not, "square_int": torch.square, "clamp_int": lambda x: x.clamp(3, 50),
    "popcount": lambda x: (x >> 3) & 1,
}.items():  # fmt: skip
    add("unary", name, function, one(), PLANE, dtypes=INTEGERS, grad=False, extra=4)


# Elementwise, two and three operands.
def same(kind="normal"):
    return lambda m, *d: [m.x(*d, kind=kind), m.x(*d, kind=kind)]


BROADCASTS = {
    "same": same(),
    "row": lambda m, r, c: [m.x(r, c), m.w(c)],
    "column": lambda m, r, c: [m.x(r, c), m.w(r, 1)],
    "scalar": lambda m, r, c: [m.x(r, c), m.w()],
    "outer": lambda m, r, c: [m.w(r, 1), m.x(1, c)],
    "mixed": lambda m, r, c: [m.x(r, c), m.w(c, r).t()],
}
for kind, inputs in BROADCASTS.items():
    layouts = [n for n in LAYOUTS if kind != "outer" or n not in ("broadcast", "transposed")]
    add("binary", f"add_{kind}", torch.add, inputs, PLANE, dtypes=NUMBERS, layouts=tuple(layouts), extra=8)
    add("binary", f"mul_{kind}", torch.mul, inputs, FEW_PLANES, dtypes=NUMBERS, layouts=tuple(layouts))
for name, function, kind, dtypes in [
    ("sub", torch.sub, "normal", FLOATS), ("div", torch.div, "positive", FLOATS), ("maximum", torch.maximum, "normal", NUMBERS),
    ("minimum", torch.minimum, "normal", NUMBERS), ("pow", torch.pow, "positive", FLOATS), ("atan2", torch.atan2, "normal", FLOATS),
    ("hypot", torch.hypot, "positive", FLOATS), ("logaddexp", torch.logaddexp, "normal", FLOATS), ("xlogy", torch.xlogy, "positive", FLOATS),
    ("squared_difference", lambda a, b: (a - b) ** 2, "normal", FLOATS), ("rsub_scaled", lambda a, b: 1 - 0.5 * a * b, "normal", FLOATS),
]:  # fmt: skip
    add("binary", name, function, same(kind), FEW_PLANES, dtypes=dtypes)
for name, function, kind, dtypes in [
    ("less", torch.lt, "normal", NUMBERS), ("equal", torch.eq, "normal", NUMBERS + ("bool",)), ("fmod", torch.fmod, "positive", NUMBERS),
    ("remainder", torch.remainder, "positive", NUMBERS), ("floor_divide", lambda a, b: torch.div(a, b, rounding_mode="floor"), "positive", NUMBERS),
    ("bitwise_and", torch.bitwise_and, "normal", INTEGERS + ("bool",)), ("bitwise_xor", torch.bitwise_xor, "normal", INTEGERS + ("bool",)),
    ("shift_left", lambda a, b: a << (b & 3), "positive", INTEGERS), ("logical_or", torch.logical_or, "normal", ("bool", "f32", "i64")),
    ("copysign", torch.copysign, "normal", FLOATS), ("true_divide_int", torch.true_divide, "positive", INTEGERS), ("gcd", torch.gcd, "positive", INTEGERS[:2]),
]:  # fmt: skip
    add("binary", name, function, same(kind), FEW_PLANES, dtypes=dtypes, grad=False)
add("binary", "floor_divide_7", lambda a: a // 7, one(), FEW_PLANES, dtypes=INTEGERS[:2], grad=False)
add("binary", "remainder_7", lambda a: a % 7, one(), FEW_PLANES, dtypes=INTEGERS[:2], grad=False)
add("binary", "where_same", torch.where, lambda m, *d: [m.mask(*d), m.x(*d), m.x(*d)], PLANE, dtypes=NUMBERS)
add("binary", "where_row", torch.where, lambda m, r, c: [m.mask(c), m.x(r, c), m.w(r, 1)], FEW_PLANES, dtypes=NUMBERS)
add("binary", "masked_fill", lambda x, k: x.masked_fill(k, 2), lambda m, *d: [m.x(*d), m.mask(*d)], FEW_PLANES, dtypes=NUMBERS + ("bool",))
add("binary", "addcmul", torch.addcmul, lambda m, *d: [m.x(*d), m.x(*d), m.w(*d)], FEW_PLANES)
add("binary", "lerp", lambda a, b: torch.lerp(a, b, 0.3), same(), FEW_PLANES)
add("binary", "clamp_tensors", lambda x, a: torch.clamp(x, -a, a), lambda m, r, c: [m.x(r, c), m.w(c, kind="positive")], FEW_PLANES)
add("binary", "broadcast_3d", torch.mul, lambda m, a, b, c: [m.x(a, b, c), m.w(a, 1, c)], CUBE)
add("binary", "promote_i64", torch.add, lambda m, *d: [m.x(*d), m.w(*d, dtype=torch.int64)], FEW_PLANES)
add("binary", "promote_bool", torch.mul, lambda m, *d: [m.x(*d), m.mask(*d)], FEW_PLANES)

# Casts: the point's dtype is the source.
for target in ("float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8", "bool"):
    to = getattr(torch, target)
    sources = tuple(d for d in NUMBERS + ("bool",) if {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}.get(d, d) != target and not (
        (d, target) in (("i64", "int64"), ("i32", "int32"), ("u8", "uint8"), ("bool", "bool"))))  # fmt: skip
    add("cast", f"to_{target}", lambda x, to=to: x.to(to), one("positive"), FEW_PLANES, dtypes=sources, grad=to.is_floating_point)

# Reductions over the first, the middle, the last, two, and all axes.
AXES = {"first": (0,), "middle": (1,), "last": (2,), "outer_inner": (0, 2), "all": (0, 1, 2)}
for where, axes in AXES.items():
    d = list(axes)
    for name, function, kind, dtypes, grad in [
        ("sum", lambda x, d=d: x.sum(d), "normal", NUMBERS, True),
        ("mean", lambda x, d=d: x.mean(d), "normal", FLOATS, True),
        ("amax", lambda x, d=d: x.amax(d), "normal", NUMBERS, True),
        ("var", lambda x, d=d: x.var(d), "normal", FLOATS, True),
        ("norm", lambda x, d=d: torch.linalg.vector_norm(x, dim=d), "normal", FLOATS, True),
        ("norm_3", lambda x, d=d: torch.linalg.vector_norm(x, 3, dim=d), "normal", FLOATS, True),
        ("logsumexp", lambda x, d=d: x.logsumexp(d), "normal", FLOATS, True),
        ("count", lambda x, d=d: (x > 0).sum(d), "normal", NUMBERS, False),
        ("all", lambda x, d=d: (x > -3).all(d[0]), "normal", NUMBERS, False),
    ]:  # fmt: skip
        many = name in ("sum", "amax", "var")
        add("reduction", f"{name}_{where}", function, one(kind), LARGE_CUBE if many else CUBE, dtypes=dtypes, grad=grad, extra=4 if many else 1)
    if len(axes) == 1:
        a = axes[0]
        for name, function, kind, dtypes, grad in [
            ("argmax", lambda x, a=a: x.argmax(a), "normal", NUMBERS, False),
            ("max_values", lambda x, a=a: x.max(a).values, "normal", FLOATS, True),
            ("prod", lambda x, a=a: x.prod(a), "near_one", FLOATS, True),
            ("softmax", lambda x, a=a: x.softmax(a), "normal", FLOATS, True),
            ("log_softmax", lambda x, a=a: x.log_softmax(a), "normal", FLOATS, True),
            ("normalize", lambda x, a=a: F.normalize(x, dim=a), "normal", FLOATS, True),
            ("centred", lambda x, a=a: x - x.mean(a, keepdim=True), "normal", FLOATS, True),
        ]:  # fmt: skip
            add("reduction" if name not in ("softmax", "log_softmax") else "softmax", f"{name}_{where}", function, one(kind), LARGE_CUBE if name == "softmax" else CUBE, dtypes=dtypes, grad=grad, extra=2)  # fmt: skip
add("reduction", "sum_4d_nchw", lambda x: x.sum((0, 2, 3)), one(), {"power": (8, 64, 32, 32), "prime": (7, 61, 29, 31)}, layouts=IMAGE_LAYOUTS)
add("reduction", "mean_4d_hw", lambda x: x.mean((2, 3)), one(), {"power": (8, 64, 32, 32), "prime": (7, 61, 29, 31), "tiny": (2, 512, 7, 7)}, layouts=IMAGE_LAYOUTS)  # fmt: skip
add("reduction", "dot_1d", torch.dot, lambda m, n: [m.x(n), m.x(n)], {"power": (262144,), "prime": (100003,), "tiny": (101,), "memory": (8388608,)}, layouts=("contiguous", "strided", "offset"))  # fmt: skip
add("reduction", "sum_1d", torch.sum, one(), {"power": (262144,), "prime": (100003,), "memory": (8388608,)}, dtypes=NUMBERS, layouts=("contiguous", "strided", "offset"))  # fmt: skip
add("reduction", "cosine", lambda a, b: F.cosine_similarity(a, b, dim=-1), same(), FEW_PLANES)

# Norms.
ROWS = {"power": (512, 768), "prime": (509, 769), "long": (5, 65537), "short": (30011, 17), "tiny": (7, 64), "memory": (4096, 4096)}
IMAGES = {"power": (8, 64, 28, 28), "prime": (3, 60, 37, 41), "long": (1, 32, 112, 112), "short": (16, 512, 7, 7), "tiny": (2, 8, 5, 5), "memory": (16, 64, 112, 112)}
FEW_IMAGES = {k: IMAGES[k] for k in ("power", "prime", "short", "tiny")}


def rows_with(*names):
    return lambda m, r, c: [m.x(r, c)] + [m.w(c, kind="positive" if n == "w" else "normal") for n in names]


def channels_with(*names):
    return lambda m, n, c, *d: [m.x(n, c, *d)] + [m.w(c, kind="positive" if k in "wv" else "normal") for k in names]


add("norm", "layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), rows_with("w", "b"), ROWS, extra=8)
add("norm", "layer_norm_plain", lambda x: F.layer_norm(x, x.shape[-1:]), rows_with(), ROWS)
add("norm", "rms_norm", lambda x, w: F.rms_norm(x, x.shape[-1:], w), rows_with("w"), ROWS, extra=8)
add("norm", "layer_norm_3d", lambda x: F.layer_norm(x, x.shape[1:]), one(), CUBE)
add("norm", "layer_norm_channels", lambda x, w: F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], w).permute(0, 3, 1, 2).contiguous(), channels_with("w"), FEW_IMAGES, layouts=IMAGE_LAYOUTS)  # fmt: skip
add("norm", "batch_norm_train", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), channels_with("w", "b"), IMAGES, layouts=IMAGE_LAYOUTS, extra=8)
add("norm", "batch_norm_eval", lambda x, m, v, w, b: F.batch_norm(x, m.detach(), v.detach(), w, b), channels_with("m", "v", "w", "b"), IMAGES, layouts=IMAGE_LAYOUTS, grad=False)  # fmt: skip
add("norm", "batch_norm_1d", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), rows_with("w", "b"), ROWS)
add("norm", "group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), channels_with("w", "b"), FEW_IMAGES, layouts=IMAGE_LAYOUTS, extra=8)
add("norm", "instance_norm", lambda x: F.instance_norm(x), one(), FEW_IMAGES, layouts=IMAGE_LAYOUTS)
add("norm", "local_response", lambda x: F.local_response_norm(x, 5), one(), FEW_IMAGES, dtypes=("f32", "f64"), layouts=IMAGE_LAYOUTS)

# Scans.
for where, a in (("first", 0), ("middle", 1), ("last", 2)):
    add("scan", f"cumsum_{where}", lambda x, a=a: x.cumsum(a), one(), LARGE_CUBE, dtypes=NUMBERS)
    add("scan", f"cumprod_{where}", lambda x, a=a: x.cumprod(a), one("near_one"), CUBE)
    add("scan", f"cummax_{where}", lambda x, a=a: x.cummax(a).values, one(), CUBE, dtypes=NUMBERS)
    add("scan", f"logcumsumexp_{where}", lambda x, a=a: x.logcumsumexp(a), one(), CUBE, dtypes=("f32", "f64"))
    add("scan", f"reverse_cumsum_{where}", lambda x, a=a: x.flip(a).cumsum(a).flip(a), one(), CUBE)
add("scan", "cumsum_1d", lambda x: x.cumsum(0), one(), {"power": (262144,), "prime": (100003,), "tiny": (101,), "memory": (4194304,)}, dtypes=NUMBERS, layouts=("contiguous", "strided", "offset"))  # fmt: skip
add("scan", "diff", lambda x: x.diff(dim=-1), one(), FEW_PLANES, dtypes=("f32", "bf16", "i64"))

# Sorting and selection.
SORTED = {"power": (256, 512), "prime": (127, 257), "long": (3, 50021), "short": (20011, 7), "tiny": (5, 33)}
for name, function, kind in [
    ("sort_last", lambda x: x.sort(dim=-1, stable=True).values, "distinct"), ("sort_first", lambda x: x.sort(dim=0, stable=True).values, "distinct"),
    ("sort_descending", lambda x: x.sort(-1, descending=True).values, "distinct"), ("topk_3", lambda x: x.topk(min(3, x.shape[-1])).values, "distinct"),
    ("topk_100", lambda x: x.topk(min(100, x.shape[-1])).values, "distinct"), ("topk_smallest", lambda x: x.topk(min(5, x.shape[-1]), largest=False).values, "distinct"),
    ("median", lambda x: x.median(-1).values, "distinct"), ("kthvalue", lambda x: x.kthvalue(2, -1).values, "distinct"),
]:  # fmt: skip
    add("sort", name, function, one(kind), SORTED, dtypes=NUMBERS, selects=True)
add("sort", "argsort", lambda x: x.argsort(dim=-1, stable=True), one("distinct"), SORTED, dtypes=NUMBERS, grad=False)
add("sort", "searchsorted", torch.searchsorted, lambda m, n, k: [m.w(n).sort().values, m.x(k, 8)], {"power": (1024, 8192), "prime": (10007, 5003), "tiny": (13, 101)}, dtypes=("f32", "f64", "i64"), grad=False)  # fmt: skip
add("sort", "bucketize", torch.bucketize, lambda m, n, k: [m.x(k, 8), m.w(n).sort().values], {"power": (16, 32768), "prime": (1009, 5003)}, dtypes=("f32", "i64"), grad=False)  # fmt: skip
add("sort", "rank", lambda x: x.argsort(dim=-1, stable=True).argsort(dim=-1), one("distinct"), SORTED, dtypes=("f32", "i64"), grad=False)
add("sort", "quantile", lambda x: x.quantile(0.3, -1), one("distinct"), SORTED, dtypes=("f32", "f64"))

# Indices.
TABLES = {"power": (4096, 128, 2048), "prime": (3001, 67, 4099), "long": (30011, 3, 50021), "short": (16, 1024, 512), "tiny": (7, 5, 11), "memory": (200003, 64, 100003)}
FEW_TABLES = {k: TABLES[k] for k in ("power", "prime", "long", "short", "tiny")}
add("index", "index_select_rows", lambda x, i: x.index_select(0, i), lambda m, r, c, k: [m.x(r, c), m.index(r, k)], TABLES, dtypes=NUMBERS)
add("index", "index_select_columns", lambda x, i: x.index_select(1, i), lambda m, r, c, k: [m.x(r, c), m.index(c, c)], FEW_TABLES, dtypes=NUMBERS)
add("index", "embedding", lambda w, i: F.embedding(i, w), lambda m, r, c, k: [m.x(r, c), m.index(r, 8, k // 8 + 1)], TABLES)
add("index", "embedding_sum", lambda w, i: F.embedding(i, w).sum(1), lambda m, r, c, k: [m.x(r, c), m.index(r, k // 8 + 1, 8)], FEW_TABLES)
add("index", "embedding_bag", lambda w, i: F.embedding_bag(i, w, mode="mean"), lambda m, r, c, k: [m.x(r, c), m.index(r, k // 8 + 1, 8)], FEW_TABLES, dtypes=("f32", "bf16"))  # fmt: skip
add("index", "gather_rows", lambda x, i: x.gather(0, i), lambda m, r, c, k: [m.x(r, c), m.index(r, k, c)], FEW_TABLES, dtypes=NUMBERS)
add("index", "gather_columns", lambda x, i: x.gather(1, i), lambda m, r, c, k: [m.x(r, c), m.index(c, r, max(c // 2, 1))], FEW_TABLES, dtypes=NUMBERS)
add("index", "take", lambda x, i: x.take(i), lambda m, r, c, k: [m.x(r, c), m.index(r * c, k, 8)], FEW_TABLES)
add("index", "pairs_of_indices", lambda x, i, j: x[i, j], lambda m, r, c, k: [m.x(r, c), m.index(r, k * 4), m.index(c, k * 4)], FEW_TABLES, dtypes=NUMBERS)
add("index", "rows_and_slice", lambda x, i: x[i, 1:], lambda m, r, c, k: [m.x(r, c), m.index(r, k)], FEW_TABLES)
add("index", "scatter_add_rows", lambda x, s, i: x.scatter_add(0, i, s), lambda m, r, c, k: [m.w(r, c), m.x(k, c), m.index(r, k, c)], FEW_TABLES, dtypes=("f32", "bf16", "f64", "i64"))  # fmt: skip
add("index", "scatter_add_columns", lambda x, s, i: x.scatter_add(1, i, s), lambda m, r, c, k: [m.w(r, c), m.x(r, c), m.index(c, r, c)], FEW_TABLES, dtypes=("f32", "bf16", "f64", "i64"))  # fmt: skip
add("index", "scatter_value", lambda x, i: x.scatter(1, i, 1), lambda m, r, c, k: [m.x(r, c), m.index(c, r, 1)], FEW_TABLES, dtypes=NUMBERS)
add("index", "scatter_amax", lambda x, s, i: x.scatter_reduce(0, i, s, "amax"), lambda m, r, c, k: [m.w(r, c), m.x(k, c), m.index(r, k, c)], FEW_TABLES, dtypes=("f32", "i64"), grad=False)  # fmt: skip
add("index", "index_add", lambda x, s, i: x.index_add(0, i, s), lambda m, r, c, k: [m.w(r, c), m.x(k, c), m.index(r, k)], TABLES, dtypes=("f32", "bf16", "f64", "i64"))  # fmt: skip
add("index", "index_copy", lambda x, s, i: x.index_copy(0, i, s), lambda m, r, c, k: [m.w(r, c), m.x(r // 2, c), m.permutation(r)[: r // 2]], FEW_TABLES, dtypes=NUMBERS)  # fmt: skip
add("index", "put_accumulate", lambda x, s, i, j: x.index_put((i, j), s, accumulate=True), lambda m, r, c, k: [m.w(r, c), m.w(k), m.index(r, k), m.index(c, k)], FEW_TABLES, dtypes=("f32", "f64", "i64"), layouts=("contiguous",))  # fmt: skip
add("index", "one_hot", lambda i: (i[:, None] == torch.arange(100, device=i.device)).long(), lambda m, r, c, k: [m.index(100, k * 4)], FEW_TABLES, dtypes=("i64",), layouts=("contiguous",), grad=False)
add("index", "segment_mean", lambda x, i: torch.zeros(1000, x.shape[1], dtype=x.dtype, device=x.device).index_reduce(0, i, x, "mean", include_self=False), lambda m, r, c, k: [m.x(k, c), m.index(1000, k)], FEW_TABLES, dtypes=("f32", "f64"), grad=False)  # fmt: skip
add("index", "bincount", lambda i: torch.zeros(100, dtype=torch.int64, device=i.device).scatter_add(0, i, torch.ones_like(i)), lambda m, r, c, k: [m.index(100, k * 8)], FEW_TABLES, dtypes=("i64",), layouts=("contiguous",), grad=False)  # fmt: skip
add("index", "histogram", lambda x: torch.zeros(64, dtype=torch.int64, device=x.device).scatter_add(0, (x.flatten() * 64).long().clamp(0, 63), torch.ones_like(x, dtype=torch.int64).flatten()), one("unit"), FEW_PLANES, dtypes=("f32", "f64"), grad=False)  # fmt: skip

# Movement. Results are copies on both sides.
MOVED = {"power": (64, 128, 64), "prime": (61, 127, 67), "long": (3, 5, 50021), "short": (20011, 11, 3), "tiny": (5, 7, 11), "memory": (128, 256, 256)}
FEW_MOVED = {k: MOVED[k] for k in ("power", "prime", "long", "short", "tiny")}
WIDE = NUMBERS + ("bool",)
for name, function in {
    "copy": lambda x: x.clone(memory_format=torch.contiguous_format), "permute_021": lambda x: x.permute(0, 2, 1).clone(memory_format=torch.contiguous_format),
    "permute_210": lambda x: x.permute(2, 1, 0).clone(memory_format=torch.contiguous_format), "permute_102": lambda x: x.permute(1, 0, 2).clone(memory_format=torch.contiguous_format),
}.items():  # fmt: skip
    add("movement", name, function, one(), MOVED, dtypes=WIDE, extra=6)
for name, function in {
    "permute_120": lambda x: x.permute(1, 2, 0).clone(memory_format=torch.contiguous_format), "permute_201": lambda x: x.permute(2, 0, 1).clone(memory_format=torch.contiguous_format),
    "flip_last": lambda x: x.flip(-1), "flip_first": lambda x: x.flip(0), "flip_all": lambda x: x.flip(0, 1, 2), "roll_last": lambda x: x.roll(3, -1), "roll_middle": lambda x: x.roll(2, 1),
    "roll_two": lambda x: x.roll((1, -1), (1, 2)), "slice_last": lambda x: x[..., 1:].clone(memory_format=torch.contiguous_format), "slice_step": lambda x: x[:, ::2].clone(memory_format=torch.contiguous_format),
    "slice_step_last": lambda x: x[..., ::2].clone(memory_format=torch.contiguous_format), "repeat_first": lambda x: x.repeat(2, 1, 1), "repeat_last": lambda x: x.repeat(1, 1, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, -1), "repeat_interleave_first": lambda x: x.repeat_interleave(3, 0), "tril": lambda x: x.tril(), "triu_1": lambda x: x.triu(1),
    "rot90": lambda x: x.rot90(1, (1, 2)).clone(memory_format=torch.contiguous_format), "stack_last": lambda x: torch.stack([x, x + 1], -1), "stack_first": lambda x: torch.stack([x, x, x]),
    "unfold_last": lambda x: x.unfold(-1, 3, 1).clone(memory_format=torch.contiguous_format), "chunk_swap": lambda x: torch.cat(x.chunk(2, -1)[::-1], -1), "rotate_half": lambda x: torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1),
    "expand_copy": lambda x: x[:, :1].expand_as(x).clone(memory_format=torch.contiguous_format), "interleave_two": lambda x: torch.stack([x, -x], -1).flatten(-2),
    "pad_last": lambda x: F.pad(x, (1, 2)), "pad_all": lambda x: F.pad(x, (1, 1, 2, 0, 0, 1)), "pad_middle": lambda x: F.pad(x, (0, 0, 1, 1)), "reshape_permuted": lambda x: x.permute(1, 0, 2).reshape(x.shape[1], -1).contiguous(),
}.items():  # fmt: skip
    dtypes = ("f32", "bf16", "i64", "u8") if name not in ("rotate_half", "interleave_two") else ("f32", "bf16", "f64")
    add("movement", name, function, one(), FEW_MOVED, dtypes=dtypes, extra=2)
for a, where in ((0, "first"), (1, "middle"), (2, "last")):
    add("movement", f"cat_two_{where}", lambda x, y, a=a: torch.cat([x, y], a), lambda m, *d: [m.x(*d), m.w(*d)], FEW_MOVED, dtypes=WIDE)
    add("movement", f"cat_five_{where}", lambda x, y, a=a: torch.cat([x, y, x, y, x], a), lambda m, *d: [m.x(*d), m.w(*d)], FEW_MOVED, dtypes=("f32", "bf16", "i64"), extra=2)  # fmt: skip
for name, function in {
    "pad_reflect": lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), "pad_replicate": lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), "pad_circular": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2), "channel_shuffle": lambda x: x.unflatten(1, (4, -1)).transpose(1, 2).flatten(1, 2).contiguous(), "to_channels_last": lambda x: x.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format),
    "patches": lambda x: F.unfold(x, 3, padding=1), "pad_2d": lambda x: F.pad(x, (1, 1, 1, 1)), "crop": lambda x: x[:, :, 1:-1, 1:-1].clone(memory_format=torch.contiguous_format),
    "space_to_depth": lambda x: F.pixel_unshuffle(x[:, :, : x.shape[2] // 2 * 2, : x.shape[3] // 2 * 2], 2), "fold": lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
}.items():  # fmt: skip
    add("movement", name, function, one(), FEW_IMAGES, dtypes=("f32", "bf16", "f64"), layouts=IMAGE_LAYOUTS, extra=2)
add("movement", "diagonal", lambda x: x.diagonal(dim1=1, dim2=2).clone(memory_format=torch.contiguous_format), one(), {"power": (2048, 64, 64), "prime": (1009, 67, 61)}, dtypes=("f32", "i64"))
add("movement", "window_partition", lambda x: x.unflatten(1, (-1, 7)).unflatten(3, (-1, 7)).permute(0, 1, 3, 2, 4, 5).flatten(0, 2).contiguous(), one(), {"power": (4, 56, 56, 32), "prime": (3, 35, 49, 37)}, dtypes=("f32", "bf16"), layouts=("contiguous", "sliced", "offset"))  # fmt: skip
add("movement", "heads", lambda x: x.unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4).contiguous(), one(), {"power": (8, 128, 768), "prime": (3, 101, 204)}, dtypes=("f32", "bf16"))

# Products.
MATRICES = {
    "power": (256, 256, 256), "prime": (251, 257, 263), "few_rows": (4, 1024, 1024), "one_row": (1, 2048, 1024), "one_column": (1024, 2048, 1), "tall": (20011, 16, 32), "wide": (16, 64, 20011),
    "deep": (32, 30011, 48), "tiny": (9, 17, 5), "large": (512, 768, 512), "rows_128": (128, 512, 512), "seven_columns": (2048, 256, 7),
}  # fmt: skip
mm = lambda m, r, k, c: [m.x(r, k), m.w(k, c, scale=k**-0.5)]  # noqa: E731
nt = lambda m, r, k, c: [m.x(r, k), m.w(c, k, scale=k**-0.5)]  # noqa: E731
linear = lambda m, r, k, c: [m.x(r, k), m.w(c, k, scale=k**-0.5), m.w(c)]  # noqa: E731
FEW_MATRICES = {k: MATRICES[k] for k in ("power", "prime", "few_rows", "tall", "wide", "rows_128")}
add("matmul", "mm", torch.mm, mm, MATRICES, layouts=MATRIX_LAYOUTS, extra=16)
add("matmul", "mm_nt", lambda a, b: a @ b.t(), nt, MATRICES, layouts=MATRIX_LAYOUTS, extra=16)
add("matmul", "mm_tn", lambda a, b: a.t() @ b, lambda m, r, k, c: [m.x(k, r), m.w(k, c, scale=k**-0.5)], MATRICES, layouts=MATRIX_LAYOUTS, extra=16)
add("matmul", "linear", F.linear, linear, MATRICES, layouts=MATRIX_LAYOUTS, extra=16)
for name, function in {
    "linear_gelu": lambda x, w, b: F.gelu(F.linear(x, w, b)), "linear_relu": lambda x, w, b: F.relu(F.linear(x, w, b)), "linear_residual": lambda x, w, b: F.linear(x, w, b).sigmoid() * b,
}.items():  # fmt: skip
    add("matmul", name, function, linear, FEW_MATRICES, layouts=MATRIX_LAYOUTS, extra=6)
add("matmul", "mm_int", torch.mm, lambda m, r, k, c: [m.x(r, k), m.w(k, c)], {"power": (128, 128, 128), "prime": (61, 67, 71), "tiny": (9, 17, 5)}, dtypes=("i64", "i32", "u8"), layouts=MATRIX_LAYOUTS, grad=False)  # fmt: skip
VECTORS = {"power": (1024, 1024), "prime": (1021, 1031), "long": (7, 100003), "short": (100003, 7), "tiny": (13, 17), "memory": (4096, 4096)}
add("matmul", "mv", torch.mv, lambda m, r, c: [m.x(r, c), m.w(c, scale=c**-0.5)], VECTORS, layouts=MATRIX_LAYOUTS, extra=8)
add("matmul", "vm", lambda x, v: v @ x, lambda m, r, c: [m.x(r, c), m.w(r, scale=r**-0.5)], VECTORS, layouts=MATRIX_LAYOUTS, extra=8)
add("matmul", "outer", lambda a, b: torch.outer(a[:, 0], b), lambda m, r, c: [m.x(r, 2), m.w(c)], VECTORS, layouts=("contiguous", "transposed"))
BATCHES = {"small": (1009, 8, 8, 8), "small_prime": (503, 13, 7, 11), "power": (16, 64, 64, 64), "prime": (7, 61, 67, 71), "large": (4, 256, 256, 256), "one_row": (256, 1, 64, 64), "thin": (32, 128, 4, 128), "tiny": (3, 5, 7, 9)}  # fmt: skip
add("matmul", "bmm", torch.bmm, lambda m, b, r, k, c: [m.x(b, r, k), m.w(b, k, c, scale=k**-0.5)], BATCHES, layouts=LAYOUTS, extra=16)
add("matmul", "bmm_nt", lambda a, b: a @ b.transpose(1, 2), lambda m, b, r, k, c: [m.x(b, r, k), m.w(b, c, k, scale=k**-0.5)], BATCHES, layouts=LAYOUTS, extra=8)
add("matmul", "bmm_shared", lambda a, b: a @ b, lambda m, b, r, k, c: [m.x(b, r, k), m.w(k, c, scale=k**-0.5)], BATCHES, layouts=LAYOUTS, extra=8)
add("matmul", "bmm_shared_left", lambda a, b: b @ a, lambda m, b, r, k, c: [m.x(b, r, k), m.w(c, r, scale=r**-0.5)], BATCHES, layouts=LAYOUTS, extra=4)
add("matmul", "baddbmm", lambda a, b, c: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0), lambda m, b, r, k, c: [m.x(b, r, k), m.w(b, k, c, scale=k**-0.5), m.w(b, r, c)], BATCHES, layouts=LAYOUTS, extra=4)  # fmt: skip
add("matmul", "addmm", lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2.0), lambda m, r, k, c: [*mm(m, r, k, c), m.w(r, c)], FEW_MATRICES, layouts=MATRIX_LAYOUTS)
add("matmul", "bilinear", F.bilinear, lambda m, r, k, c: [m.x(r, k), m.x(r, c), m.w(8, k, c, scale=k**-0.5)], {"power": (64, 32, 64), "prime": (61, 31, 37)}, dtypes=("f32", "bf16", "f64"), layouts=("contiguous", "sliced"))  # fmt: skip

# einsum.
SIZES = {"power": (8, 64, 32, 32), "prime": (7, 61, 29, 31), "tiny": (2, 3, 5, 7)}
for name, text, first, second in [
    ("heads", "bihd,bjhd->bhij", (0, 1, 2, 3), (0, 1, 2, 3)), ("values", "bhij,bjhd->bihd", (0, 2, 1, 1), (0, 1, 2, 3)), ("outer", "ai,bj->abij", (0, 1), (2, 3)), ("trace_like", "bij,bij->b", (0, 1, 2), (0, 1, 2)),
    ("batched_vector", "bij,bj->bi", (0, 1, 2), (0, 2)), ("shared", "bihd,hde->bie", (0, 1, 2, 3), (2, 3, 1)), ("kernel", "bcij,oc->boij", (0, 1, 2, 3), (2, 1)), ("diagonal_scale", "bij,i->bij", (0, 1, 2), (1,)),
    ("three_sums", "abcd,bcd->a", (0, 1, 2, 3), (1, 2, 3)), ("gram", "bij,bik->bjk", (0, 1, 2), (0, 1, 3)), ("inner_outer", "bic,bjc->bij", (0, 1, 2), (0, 3, 2)), ("expert", "ebi,eio->ebo", (0, 1, 2), (0, 2, 3)),
]:  # fmt: skip
    def inputs(m, *d, first=first, second=second):
        return [m.x(*(d[i] for i in first)), m.w(*(d[i] for i in second), scale=0.2)]

    add("einsum", f"einsum_{name}", lambda a, b, text=text: torch.einsum(text, a, b), inputs, SIZES, dtypes=("f32", "bf16", "f64"), layouts=("contiguous", "transposed", "sliced", "broadcast"), extra=4)  # fmt: skip


# Convolutions.
def conv(channels, kernel, groups=1, transposed=False):
    """Inputs of a convolution of (batch, channels in, sizes …); weights for `channels` results and a bias."""

    def inputs(m, n, c, *sizes):
        out = channels or c
        k = (kernel,) * len(sizes) if isinstance(kernel, int) else kernel
        g = c if groups == "depthwise" else groups
        fan = c // g
        for size in k:
            fan *= size
        shape = (c, out // g, *k) if transposed else (out, c // g, *k)
        return [m.x(n, c, *sizes), m.w(*shape, scale=fan**-0.5), m.w(out)]

    return inputs


PICTURES = {"power": (4, 32, 28, 28), "prime": (3, 24, 37, 29), "large": (1, 64, 56, 56), "wide": (2, 256, 14, 14), "tiny": (1, 8, 7, 7), "few_channels": (4, 4, 64, 64)}
FEW_PICTURES = {k: PICTURES[k] for k in ("power", "prime", "wide", "few_channels")}
RGB = {"power": (2, 3, 64, 64), "prime": (3, 3, 61, 67), "large": (1, 3, 224, 224)}


def conv2d(**options):
    def f(x, w, b):
        groups = x.shape[1] // w.shape[1]
        return F.conv2d(x, w, b, groups=groups, **options)

    return f


add("conv2d", "conv2d", conv2d(padding=1), conv(32, 3), PICTURES, layouts=IMAGE_LAYOUTS, extra=14)
add("conv2d", "conv2d_1x1", conv2d(), conv(64, 1), PICTURES, layouts=IMAGE_LAYOUTS, extra=10)
add("conv2d", "conv2d_s2", conv2d(padding=1, stride=2), conv(64, 3), PICTURES, layouts=IMAGE_LAYOUTS, extra=10)
add("conv2d", "conv2d_1x1_s2", conv2d(stride=2), conv(64, 1), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_d2", conv2d(padding=2, dilation=2), conv(32, 3), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_groups", conv2d(padding=1), conv(None, 3, 4), FEW_PICTURES, layouts=IMAGE_LAYOUTS, extra=8)
add("conv2d", "conv2d_depthwise", conv2d(padding=1), conv(None, 3, "depthwise"), PICTURES, layouts=IMAGE_LAYOUTS, extra=10)
add("conv2d", "conv2d_depthwise_s2", conv2d(padding=1, stride=2), conv(None, 3, "depthwise"), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_depthwise_7", conv2d(padding=3), conv(None, 7, "depthwise"), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_5x5", conv2d(padding=2), conv(32, 5), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_3x1", conv2d(padding=(1, 0)), conv(32, (3, 1)), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_valid", conv2d(), conv(32, 3), FEW_PICTURES, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_stem", conv2d(padding=3, stride=2), conv(32, 7), RGB, layouts=IMAGE_LAYOUTS)
add("conv2d", "conv2d_patch", conv2d(stride=8), conv(64, 8), RGB, layouts=IMAGE_LAYOUTS)
for name, channels, kernel, groups, options in [
    ("conv_transpose2d", 32, 3, 1, {"padding": 1}), ("conv_transpose2d_s2", 32, 4, 1, {"stride": 2, "padding": 1}), ("conv_transpose2d_k2s2", 16, 2, 1, {"stride": 2}), ("conv_transpose2d_s3", 16, 3, 1, {"stride": 3, "output_padding": 1}),
    ("conv_transpose2d_groups", 32, 3, 4, {"stride": 2, "padding": 1, "output_padding": 1}),
]:  # fmt: skip
    shapes = FEW_PICTURES
    add("conv_transpose", name, lambda x, w, b, groups=groups, options=options: F.conv_transpose2d(x, w, b, groups=groups, **options), conv(channels, kernel, groups, True), shapes, layouts=IMAGE_LAYOUTS)  # fmt: skip
add("conv_transpose", "conv_transpose1d_s2", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1), conv(32, 4, 1, True), {"power": (4, 32, 512), "prime": (3, 24, 509)}, layouts=MATRIX_LAYOUTS)  # fmt: skip
add("conv_transpose", "conv_transpose3d_s2", lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2), conv(8, 2, 1, True), {"power": (1, 16, 8, 16, 16), "prime": (1, 8, 7, 13, 11)}, layouts=("contiguous", "channels_last"))  # fmt: skip
SIGNALS = {"power": (4, 32, 1024), "prime": (3, 24, 1021), "long": (1, 4, 40009), "tiny": (2, 8, 31), "wide": (2, 256, 128)}
for name, channels, kernel, groups, options in [
    ("conv1d", 32, 3, 1, {"padding": 1}), ("conv1d_causal_d4", 32, 2, 1, {"dilation": 4}), ("conv1d_s2", 64, 5, 1, {"stride": 2}), ("conv1d_depthwise", None, 4, "depthwise", {"padding": 3}), ("conv1d_k80", 16, 25, 1, {"stride": 4}), ("conv1d_1x1", 64, 1, 1, {}),
]:  # fmt: skip
    add("conv1d", name, lambda x, w, b, options=options: F.conv1d(x, w, b, groups=x.shape[1] // w.shape[1], **options), conv(channels, kernel, groups), SIGNALS, layouts=MATRIX_LAYOUTS)  # fmt: skip
VOLUMES = {"power": (1, 16, 8, 16, 16), "prime": (1, 8, 7, 19, 17), "tiny": (1, 4, 5, 5, 5)}
for name, channels, kernel, groups, options in [
    ("conv3d", 16, 3, 1, {"padding": 1}), ("conv3d_s2", 16, 3, 1, {"stride": 2, "padding": 1}), ("conv3d_133", 16, (1, 3, 3), 1, {"padding": (0, 1, 1)}), ("conv3d_311", 16, (3, 1, 1), 1, {"padding": (1, 0, 0)}), ("conv3d_depthwise", None, 3, "depthwise", {"padding": 1}), ("conv3d_1x1", 32, 1, 1, {}),
]:  # fmt: skip
    add("conv3d", name, lambda x, w, b, options=options: F.conv3d(x, w, b, groups=x.shape[1] // w.shape[1], **options), conv(channels, kernel, groups), VOLUMES, layouts=("contiguous", "channels_last", "sliced"))  # fmt: skip

# Pooling and interpolation.
for name, function in {
    "max_pool_2": lambda x: F.max_pool2d(x, 2), "max_pool_3s2": lambda x: F.max_pool2d(x, 3, 2, 1), "max_pool_3s1": lambda x: F.max_pool2d(x, 3, 1, 1), "avg_pool_2": lambda x: F.avg_pool2d(x, 2), "avg_pool_3s1": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "avg_pool_3_uncounted": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), "adaptive_avg_1": lambda x: F.adaptive_avg_pool2d(x, 1), "adaptive_avg_3": lambda x: F.adaptive_avg_pool2d(x, 3), "adaptive_max_1": lambda x: F.adaptive_max_pool2d(x, 1),
    "lp_pool": lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 2), "nearest_up": lambda x: F.interpolate(x, scale_factor=2), "nearest_down": lambda x: F.interpolate(x, scale_factor=0.5), "bilinear_up": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear_corners": lambda x: F.interpolate(x, size=(33, 35), mode="bilinear", align_corners=True), "bilinear_down": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), "bicubic_up": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), "adaptive_max_2": lambda x: F.adaptive_max_pool2d(x, 2),
}.items():  # fmt: skip
    add("pool", name, function, one(), FEW_IMAGES, dtypes=("f32", "bf16", "f64") if name != "lp_pool" else ("f32", "f64"), layouts=IMAGE_LAYOUTS)
for name, function in {"max_pool1d": lambda x: F.max_pool1d(x, 3, 2), "avg_pool1d": lambda x: F.avg_pool1d(x, 4), "linear_up": lambda x: F.interpolate(x, scale_factor=2, mode="linear")}.items():
    add("pool", name, function, one(), SIGNALS, dtypes=("f32", "bf16"), layouts=MATRIX_LAYOUTS)
for name, function in {"max_pool3d": lambda x: F.max_pool3d(x, 2), "avg_pool3d": lambda x: F.avg_pool3d(x, 3, 1, 1)}.items():
    add("pool", name, function, one(), VOLUMES, dtypes=("f32", "bf16" if name == "max_pool3d" else "f64"), layouts=("contiguous", "channels_last", "sliced"))
add("pool", "grid_sample", lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), lambda m, n, c, h, w: [m.x(n, c, h, w), m.w(n, h, w, 2)], FEW_IMAGES, dtypes=("f32", "f64"), layouts=IMAGE_LAYOUTS)

# Attention.
HEADS = {"power": (2, 8, 128, 64), "prime": (3, 5, 101, 40), "long": (1, 4, 512, 32), "short": (32, 8, 17, 32), "tiny": (1, 2, 7, 16)}
qkv = lambda m, b, h, s, d: [m.x(b, h, s, d), m.x(b, h, s, d), m.x(b, h, s, d)]  # noqa: E731
attention = F.scaled_dot_product_attention
ATTENTION_LAYOUTS = ("contiguous", "transposed", "sliced", "offset")
add("attention", "attention", attention, qkv, HEADS, layouts=ATTENTION_LAYOUTS, extra=8)
add("attention", "attention_causal", lambda q, k, v: attention(q, k, v, is_causal=True), qkv, HEADS, layouts=ATTENTION_LAYOUTS, extra=8)
add("attention", "attention_mask", lambda q, k, v, k2: attention(q, k, v, attn_mask=k2), lambda m, b, h, s, d: [*qkv(m, b, h, s, d), torch.tril(torch.ones(s, s, dtype=torch.bool, device=m.device))], HEADS, layouts=ATTENTION_LAYOUTS)  # fmt: skip
add("attention", "attention_by_hand", lambda q, k, v: (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v, qkv, HEADS, layouts=ATTENTION_LAYOUTS)
add("attention", "attention_bias", lambda q, k, v, b: attention(q, k, v, attn_mask=b), lambda m, b, h, s, d: [*qkv(m, b, h, s, d), m.w(1, h, s, s)], HEADS, layouts=ATTENTION_LAYOUTS)
add("attention", "attention_one_query", attention, lambda m, b, h, s, d: [m.w(b, h, 1, d), m.x(b, h, s, d), m.x(b, h, s, d)], {"power": (4, 8, 512, 64), "prime": (3, 5, 499, 40), "long": (1, 8, 4096, 64)}, layouts=ATTENTION_LAYOUTS)  # fmt: skip
add("attention", "attention_grouped", lambda q, k, v: attention(q, k, v, enable_gqa=True), lambda m, b, h, s, d: [m.x(b, 8, s, d), m.x(b, 2, s, d), m.x(b, 2, s, d)], {"power": (2, 8, 128, 64), "prime": (3, 8, 101, 40)}, layouts=ATTENTION_LAYOUTS)  # fmt: skip
add("attention", "attention_of_rows", lambda x: attention(*(t.transpose(1, 2) for t in x.unflatten(-1, (3, 4, -1)).unbind(2))).transpose(1, 2).flatten(2).contiguous(), one(), {"power": (2, 128, 384), "prime": (3, 101, 204)}, layouts=ATTENTION_LAYOUTS)  # fmt: skip

# Distances and losses.
CLOUDS = {"power": (512, 512, 3), "prime": (307, 401, 17), "long": (5, 20011, 8), "tiny": (7, 11, 3), "wide": (128, 128, 256)}
two_clouds = lambda m, a, b, d: [m.x(a, d), m.w(b, d)]  # noqa: E731
add("distance", "cdist", torch.cdist, two_clouds, CLOUDS, dtypes=("f32", "f64"), layouts=MATRIX_LAYOUTS)
add("distance", "cdist_1", lambda a, b: torch.cdist(a, b, p=1), two_clouds, CLOUDS, dtypes=("f32", "f64"), layouts=MATRIX_LAYOUTS)
add("distance", "distances_by_hand", lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1), two_clouds, CLOUDS, layouts=MATRIX_LAYOUTS)
add("distance", "nearest", lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1).argmin(1), two_clouds, CLOUDS, dtypes=("f32", "f64"), layouts=MATRIX_LAYOUTS, grad=False)
add("distance", "nearest_by_products", lambda a, b: (b.square().sum(1) - 2 * a @ b.t()).amin(1), two_clouds, CLOUDS, dtypes=("f32", "f64"), layouts=MATRIX_LAYOUTS)
add("distance", "pairwise", lambda a, b: F.pairwise_distance(a, b), same(), FEW_PLANES, dtypes=("f32", "f64"))
add("distance", "gaussian_kernel", lambda a, b: torch.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1)) @ b, two_clouds, CLOUDS, layouts=MATRIX_LAYOUTS)
LOGITS = {"power": (512, 1000), "prime": (257, 5003), "long": (5, 50257), "short": (20011, 10), "tiny": (11, 13)}
logits = lambda m, r, c: [m.x(r, c), m.index(c, r)]  # noqa: E731
add("loss", "cross_entropy", F.cross_entropy, logits, LOGITS)
add("loss", "cross_entropy_smooth", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, reduction="none"), logits, LOGITS)
add("loss", "nll", lambda x, t: F.nll_loss(x, t), logits, LOGITS)
add("loss", "mse", F.mse_loss, same(), LOGITS)
add("loss", "huber", F.smooth_l1_loss, same(), LOGITS)
add("loss", "bce_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach()), lambda m, r, c: [m.x(r, c), m.w(r, c, kind="unit")], LOGITS, dtypes=("f32", "f64"))
add("loss", "kl", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), same(), LOGITS)
add("loss", "contrastive", lambda a, b: F.cross_entropy(F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t() * 10, torch.arange(a.shape[0], device=a.device)), lambda m, r, c: [m.x(r, c), m.w(r, c)], {"power": (256, 128), "prime": (251, 67), "tiny": (7, 16)})  # fmt: skip

# Cells of recurrent layers and updates of optimizers.
CELLS = {"power": (32, 256), "prime": (31, 251), "one_row": (1, 512), "long": (1024, 64)}


def lstm_cell(x, h, c, w, u, b):
    i, f, g, o = (x @ w + h @ u + b).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh()


def gru_cell(x, h, w, u, b):
    xr, xz, xn = (x @ w + b).chunk(3, -1)
    hr, hz, hn = (h @ u).chunk(3, -1)
    z = (xz + hz).sigmoid()
    return (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h


add("cell", "lstm_cell", lstm_cell, lambda m, r, n: [m.x(r, n), m.x(r, n), m.x(r, n), m.w(n, 4 * n, scale=n**-0.5), m.w(n, 4 * n, scale=n**-0.5), m.w(4 * n)], CELLS, layouts=MATRIX_LAYOUTS)
add("cell", "gru_cell", gru_cell, lambda m, r, n: [m.x(r, n), m.x(r, n), m.w(n, 3 * n, scale=n**-0.5), m.w(n, 3 * n, scale=n**-0.5), m.w(3 * n)], CELLS, layouts=MATRIX_LAYOUTS)
add("cell", "adam", lambda p, g, m1, m2: p - 0.01 * (0.9 * m1 + 0.1 * g) / ((0.99 * m2 + 0.01 * g * g).sqrt() + 1e-8), lambda m, *d: [m.x(*d), m.x(*d), m.w(*d), m.w(*d, kind="positive")], PLANE, grad=False)  # fmt: skip
