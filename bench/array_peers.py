"""Array work for the peers: the calls of crates/thalweg-cli/src/workloads/array.rs (bench/peers.py measures them)."""

import math

# What is worth compiling: torch.compile calls the same functions for the others.
COMPILED = (
    "cumsum_f32", "cumsum_rows", "cumsum_columns", "nearest", "erf_f64", "erfc_f64", "pow_f64", "black_scholes", "divide_i64",
    "flip_rows", "flip_bytes", "narrow_broadcast", "narrow_images",
)  # fmt: skip
# jax has neither f64 nor i64 but in a mode of its own.
JAX = ("topk_100", "topk_5000", "topk_rows", "histogram", "cumsum_f32", "cumsum_rows", "cumsum_columns", "nearest", "flip_rows", "flip_bytes", "narrow_broadcast", "narrow_images")


def refuse(p, *x):
    raise NotImplementedError("not measured with this peer")


def black_scholes(p, x, y):
    f = p.f
    price, volatility = f.exp(x) * 100, abs(y) * 0.1 + 0.2
    first = (f.log(price / 100) + volatility * volatility * 0.5 + 0.05) / volatility
    second = first - volatility
    normal = lambda d: f.erfc(d * -math.sqrt(0.5)) * 0.5
    return price * normal(first) - normal(second) * (100 * math.exp(-0.05))


TORCH = {
    "topk_100": lambda p, x: p.f.topk(x, 100)[0],
    "topk_5000": lambda p, x: p.f.topk(x, 5000)[0],
    "topk_rows": lambda p, x: p.f.topk(x, 50, 1)[0],
    "unique_few": lambda p, x: p.f.unique(x),
    "unique_many": lambda p, x: p.f.unique(x),
    "bincount": lambda p, x: p.f.bincount(x, minlength=1000),
    "histogram": lambda p, x: p.f.histc(x, 100),
    "cumsum_i64": lambda p, x: p.f.cumsum(x, 0),
    "cumsum_f32": lambda p, x: p.f.cumsum(x, 0),
    "cumsum_rows": lambda p, x: p.f.cumsum(x, 1),
    "cumsum_columns": lambda p, x: p.f.cumsum(x, 0),
    "nearest": lambda p, x, y: ((x[:, None] - y) ** 2).sum(-1).argmin(1),
    "cdist": lambda p, x, y: p.f.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
    "cdist_by_products": lambda p, x, y: p.f.cdist(x, y),
    "erf_f64": lambda p, x, y: p.f.erf(x),
    "erfc_f64": lambda p, x, y: p.f.erfc(x),
    "pow_f64": lambda p, x, y: abs(x) ** y,
    "black_scholes": black_scholes,
    "divide_i64": lambda p, x, y: x // 7 + x // y,
    "flip_rows": lambda p, x: p.f.flip(x, (1,)) * 2,
    "flip_bytes": lambda p, x: 255 - p.f.flip(x, (2,)),
    "narrow_broadcast": lambda p, x, s, b: x * s + b,
    "narrow_images": lambda p, x, m, s: (x.float() / 255 - m) / s,
}
NUMPY = TORCH | {
    "topk_100": lambda p, x: -p.f.sort(p.f.partition(-x, 100)[:100]),
    "topk_5000": lambda p, x: -p.f.sort(p.f.partition(-x, 5000)[:5000]),
    "topk_rows": lambda p, x: -p.f.sort(p.f.partition(-x, 50, 1)[:, :50]),
    "histogram": lambda p, x: p.f.histogram(x, 100)[0],
    "cdist": refuse, "cdist_by_products": refuse, "erf_f64": refuse, "erfc_f64": refuse, "black_scholes": refuse,
    "flip_rows": lambda p, x: p.f.flip(x, 1) * 2,
    "flip_bytes": lambda p, x: 255 - p.f.flip(x, 2),
    "narrow_images": lambda p, x, m, s: (x.astype("float32") / 255 - m) / s,
}  # fmt: skip


def jax(name):
    import jax

    top = {"topk_100": 100, "topk_5000": 5000, "topk_rows": 50}
    if name in top:
        return lambda p, x: jax.lax.top_k(x, top[name])[0]
    return NUMPY[name]


def arguments(p, name, normal, large):
    """The arguments, on the device."""
    import numpy as np

    rng = np.random.default_rng(1)
    n = 40_000_000 if large else 10_000_000
    whole = lambda low, high, shape, dtype: p.array(rng.integers(low, high, shape).astype(dtype))
    if name in ("unique_few", "bincount", "cumsum_i64"):
        return [whole(0, 1000, n, "int64")]
    if name.endswith("_f64") or name == "black_scholes":
        return [p.array(rng.standard_normal(1 << 22)) for _ in range(2)]
    return {
        "topk_rows": lambda: [normal(1024, 10_000)],
        "unique_many": lambda: [normal(1_000_000)],
        "cumsum_rows": lambda: [normal(4096, 4096)],
        "cumsum_columns": lambda: [normal(4096, 4096)],
        "nearest": lambda: [normal(200_000, 16), normal(64, 16)],
        "cdist": lambda: [normal(4096, 64), normal(4096, 64)],
        "cdist_by_products": lambda: [normal(4096, 64), normal(4096, 64)],
        "divide_i64": lambda: [whole(-100_000, 100_000, 1 << 22, "int64"), whole(1, 100_000, 1 << 22, "int64")],
        "flip_rows": lambda: [normal(4096, 4096)],
        "flip_bytes": lambda: [whole(0, 255, (64, 512, 512), "uint8")],
        "narrow_broadcast": lambda: [normal(1 << 22, 3), normal(3), normal(3)],
        "narrow_images": lambda: [whole(0, 255, (32, 256, 256, 3), "uint8"), normal(3), abs(normal(3)) + 0.5],
    }.get(name, lambda: [normal(n)])()


def prepare(p, name, normal, large):
    """The function and its arguments."""
    if p.name == "torch.compile" and name not in COMPILED or p.name == "jax" and name not in JAX:
        refuse(p)
    function = TORCH[name] if p.name.startswith("torch") else jax(name) if p.name == "jax" else NUMPY[name]
    return function, arguments(p, name, normal, large)
