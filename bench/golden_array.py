"""Writes crates/thalweg/tests/{array,linalg,fourier,unsigned,complex}/golden.txt: what NumPy, SciPy, PyTorch and mpmath make of the cases that
the tests there recompute.

    python3 bench/golden_array.py        (needs numpy, scipy, torch, mpmath)
"""
import os
import mpmath
import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.special as sp
import scipy.stats
import torch

tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/thalweg/tests")
cases = {}


def write(folder):
    """The cases so far, into the file of a folder of tests."""
    with open(f"{tests}/{folder}/golden.txt", "w") as f:
        for name, value in cases.items():
            dims = ",".join(map(str, value.shape))
            values = " ".join("NaN" if v != v else repr(float(v)) for v in value.ravel())
            f.write(f"{name}|{dims}|{values}\n")
    cases.clear()


def case(name, value):
    assert name not in cases, name
    cases[name] = np.asarray(value, dtype=np.float64)


np.seterr(all="ignore")
inf, nan = np.inf, np.nan

# Special functions: values of both signs, near roots and poles, large and small.
s = np.array([-1e3, -20.5, -3.7, -2.5, -1.0001, -1.0, -0.3, -1e-8, 0.0, 1e-8, 0.2, 0.5, 0.9999, 1.0, 1.0001, 1.46, 1.5,
              1.9999, 2.0, 2.0001, 2.5, 2.9999, 3.0, 3.1, 5.0, 7.9, 8.0, 8.1, 30.0, 170.3, 1e3, 1e8, inf, -inf, nan])
e = np.array([-1.5, -1.0, -0.9999999, -0.99, -0.86, -0.84, -0.5, -1e-10, 0.0, 1e-10, 0.3, 0.85, 0.95, 0.999999,
              1 - 1e-15, 1.0, nan])
case("special_at", s)
case("erfinv_at", e)
case("lgamma", sp.gammaln(s))
case("digamma", sp.digamma(s))
case("trigamma", [nan if v != v or v == -inf else 0 if v == inf else inf if v <= 0 and v == int(v)
                  else float(mpmath.psi(1, mpmath.mpf(float(v)))) for v in s])
# SciPy has NaN at infinities, where 0·∞ comes up on its way.
case("i0", np.where(np.isinf(s), inf, sp.i0(s)))
case("i0e", sp.i0e(s))
case("i1", np.where(np.isinf(s), s, sp.i1(s)))
case("i1e", sp.i1e(s))
case("erfinv", sp.erfinv(e))
slopes_at = [-3.7, -0.3, 0.2, 0.99, 1.0, 1.46, 2.0, 2.5, 5.0, 9.0, 30.0]
# PyTorch's trigamma is good for nine digits.
case("digamma_slope", [float(mpmath.psi(1, mpmath.mpf(v))) for v in slopes_at])
for name in ("lgamma", "i0", "i0e", "i1"):
    at = torch.tensor(np.array(slopes_at), requires_grad=True)
    getattr(torch.special if name[0] == "i" else torch, name)(at).sum().backward()
    case(f"{name}_slope", at.grad.numpy())
at = torch.tensor(np.array([-0.999, -0.3, 0.0, 0.2, 0.9]), requires_grad=True)
torch.erfinv(at).sum().backward()
case("erfinv_slope", at.grad.numpy())

a = np.array([-inf, -3.7, -2.5, -0.0, 0.0, 0.3, 2.5, 7.25, 1e300, inf, nan])
b = np.array([0.7, -2.5, 3.0, -0.0, inf, -inf])
case("pairs_a", a)
case("pairs_b", b)
A, B = a[:, None], b[None, :]
case("logaddexp", np.logaddexp(A, B))
case("logaddexp2", np.logaddexp2(A, B))
case("xlogy", sp.xlogy(A, B))
case("xlog1py", sp.xlog1py(A, B))
case("copysign", np.copysign(A, B))
case("signbit", np.signbit(a[:-1]))
case("fmod", np.fmod(A, B))
case("heaviside", np.heaviside(A, B))
case("nextafter", np.nextafter(A, B))
i = np.array([-9, -7, -1, 0, 5, 127], dtype=np.int64)
j = np.array([-4, 3, 5], dtype=np.int64)
case("fmod_integers", np.fmod(i[:, None], j[None, :]))
r = np.array([1.25, 2.675, -13.55, 0.5, 123456.789, -0.05])
for d in (-2, 0, 1, 2):
    case(f"round_to_{d}", np.round(r, d))
case("bit_count", [bin(v & 0xFFFFFFFF).count("1") for v in (0, 1, -1, 12345, -98765, 2**31 - 1)])

# Statistics, on a tensor with ties, and one with NaN.
rng = np.random.default_rng(5)
x = np.round(rng.normal(size=(3, 4, 5)) * 4) / 2
n = x.copy()
n[0, 1, :3] = nan
n[1, :, 2] = nan
n[2, 3, 4] = nan
case("x", x)
case("n", n)
methods = ["linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf",
           "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"]
q = [0.0, 0.1, 0.25, 0.5, 0.77, 1.0]
for m in methods:
    case(f"quantile_{m}", np.quantile(x, q, (0, 2), method=m))
    case(f"nanquantile_{m}", np.nanquantile(n, q, 2, method=m))
case("median", np.median(x, (1, 2)))
case("median_odd", np.median(x, 2, keepdims=True))
case("median_nan", np.median(n, 2))
case("nanmedian", np.nanmedian(n, 1))
case("percentile", np.percentile(x, 30.0))
for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"):
    case(name, getattr(np, name)(n, 1))
case("nanvar_1", np.nanvar(n, (0, 2), ddof=1))
case("nanargmax", np.nanargmax(n, 0))
case("nanargmin", np.nanargmin(n, 0))
case("ptp", np.ptp(x, 1))
case("average", np.average(x, 2, np.arange(1.0, 6.0)))
case("cov", np.cov(x[0]))
case("cov_0", np.cov(x[1], ddof=0))
case("cov_vector", np.cov(x[0, 0]))
case("corrcoef", np.corrcoef(x[0]))
mode = scipy.stats.mode(x, axis=1)
case("mode", mode.mode)
case("mode_count", mode.count)
case("kthvalue", torch.kthvalue(torch.tensor(x), 3, 1)[0].numpy())

# Counting
h = np.round(rng.normal(size=60) * 8) / 8
w = rng.uniform(size=60)
case("h", h)
case("w", w)
for name, arguments in {
    "plain": dict(bins=7), "range": dict(bins=5, range=(-1, 1)), "weights": dict(bins=6, weights=w),
    "edges": dict(bins=[-2, -0.5, 0, 0.125, 3], weights=w, density=True),
}.items():
    counts, edges = np.histogram(h, **arguments)
    case(f"histogram_{name}", counts)
    case(f"histogram_{name}_edges", edges)
# No element on an edge, which may be off by a rounding.
counts, edges = np.histogram(w, bins=9, density=True)
case("histogram_density", counts)
case("histogram_density_edges", edges)
case("bincount_weighted", np.bincount(np.arange(60) % 7, w, 9))
case("digitize", np.digitize(h, [-1, 0, 0.5, 1]))
case("digitize_right", np.digitize(h, [-1, 0, 0.5, 1], right=True))

# Sampled functions
case("diff", np.diff(x, 2, 1))
case("gradient", np.gradient(x, 0.5, axis=2))
at = np.array([0.0, 0.5, 2.0, 2.25, 4.0])
case("gradient_at", np.gradient(x, at, axis=2))
case("trapezoid", np.trapezoid(x, dx=0.25, axis=1))
case("trapezoid_at", np.trapezoid(x, at, axis=2))
case("cumulative_trapezoid", scipy.integrate.cumulative_trapezoid(x, dx=0.25, axis=1))
case("interp", np.interp(np.array([-1.0, 0.0, 0.2, 0.5, 1.0, 2.1, 4.0, 7.0, nan]), at, x[0, 0]))

# Matrices, grids and moves
m = x[0]
case("diag", np.diag(at, 1))
case("diag_below", np.diag(at, -2))
case("diag_of_matrix", np.diag(m, 1))
case("diag_embed", torch.diag_embed(torch.tensor(m), 1).numpy())
case("diagonal_of", np.diagonal(x, 1, 0, 2))
case("trace", np.trace(m[:, :4]))
case("kron", np.kron(m, x[1, :2, :3]))
case("kron_ranks", np.kron(at, x[:, :2, :2]))
case("cross", np.cross(x[:, :, 0], x[:, :1, 1], axis=0))
case("vander", np.vander(at, 4))
case("vander_increasing", np.vander(at, 5, increasing=True))
for k in (-1, 1, 2, 3):
    case(f"rot90_{k}", np.rot90(x, k, (1, 2)))
case("meshgrid_xy", np.stack(np.meshgrid(at, at[:3], at[:2])))
case("meshgrid_ij", np.stack(np.meshgrid(at, at[:3], at[:2], indexing="ij")))
case("logspace", np.logspace(-1, 2, 7, base=3))
case("geomspace", np.geomspace(-2, -512, 5))
case("repeat_interleave", np.repeat(m, [2, 0, 1, 3], 0))
case("index_fill", torch.tensor(m).index_fill(1, torch.tensor([0, 3]), 7.0).numpy())
mask = m > 0
case("masked_scatter", torch.tensor(m).masked_scatter(torch.tensor(mask), torch.tensor(x[1])).numpy())
index = torch.tensor([[0, 2, 2, 1], [1, 1, 0, 2]])
values = torch.tensor(x[1, :2, :4])
case("scatter_mean", torch.tensor(m[:3, :4]).scatter_reduce(0, index, values, "mean").numpy())

case("vecdot", np.vecdot(x, x[:, :1], axis=-1))
case("matrix_power", np.linalg.matrix_power(m[:, :4], 5))
case("fftfreq", np.concatenate([np.fft.fftfreq(7, 0.5), np.fft.fftfreq(8, 0.5)]))
case("rfftfreq", np.concatenate([np.fft.rfftfreq(7, 0.5), np.fft.rfftfreq(8, 0.5)]))
case("fftshift", np.fft.fftshift(x, (1, 2)))
case("ifftshift", np.fft.ifftshift(x, (1, 2)))

# Sets
case("isin", np.isin(h, x))
case("union", np.union1d(h, x))
case("intersect", np.intersect1d(h, x))
case("setdiff", np.setdiff1d(h, x))
case("setxor", np.setxor1d(h, x))
for name, value in zip(("values", "first", "inverse", "counts"), np.unique(x, True, True, True)):
    case(f"unique_all_{name}", value)

# Points
case("sobol", scipy.stats.qmc.Sobol(39, scramble=False).random(32)[16:])

write("array")

# Matrices: random ones, which have distinct singular values; vectors are compared up to their signs.
rng = np.random.default_rng(17)
a = rng.normal(size=(2, 4, 4))
b = rng.normal(size=(2, 4, 3))
tall, wide = rng.normal(size=(5, 3)), rng.normal(size=(3, 5))
spd = a @ a.swapaxes(-1, -2) + np.eye(4)
low = tall @ rng.normal(size=(3, 4))
for name, value in dict(a=a, b=b, tall=tall, wide=wide, spd=spd, low=low).items():
    case(name, value)
L = np.linalg
case("cholesky", L.cholesky(spd))
case("cholesky_solve", np.stack([scipy.linalg.cho_solve((L.cholesky(s), True), v) for s, v in zip(spd, b)]))
for name, m in dict(a=a[0], tall=tall, wide=wide).items():
    p, l, u = scipy.linalg.lu(m)
    case(f"lu_p_{name}", p)
    case(f"lu_l_{name}", l)
    case(f"lu_u_{name}", u)
    q, r = L.qr(m)
    signs = np.sign(np.diag(r))
    case(f"qr_q_{name}", q * signs)
    case(f"qr_r_{name}", r * signs[:, None])
    u, s, vt = L.svd(m, full_matrices=False)
    case(f"svd_s_{name}", s)
    # What does not depend on signs: the outer product of each pair of vectors.
    case(f"svd_pairs_{name}", np.einsum("ik,kj->kij", u, vt))
    case(f"pinv_{name}", L.pinv(m))
case("pinv_low", L.pinv(low))
case("matrix_rank", [L.matrix_rank(low), L.matrix_rank(tall), L.matrix_rank(np.zeros((2, 2)))])
w, v = L.eigh(spd)
case("eigh_w", w)
case("eigh_projections", np.einsum("bik,bjk->bkij", v, v))
w, v = L.eig(a)
order = np.argsort(w.real * 10 + w.imag, axis=-1)
case("eig_re", np.take_along_axis(w.real, order, -1))
case("eig_im", np.take_along_axis(w.imag, order, -1))
case("eig_abs", np.take_along_axis(np.abs(v), order[:, None, :], -1))
case("solve", L.solve(a, b))
case("solve_vector", L.solve(a, np.arange(4.0)))
case("solve_lower", np.stack([scipy.linalg.solve_triangular(m, v, lower=True) for m, v in zip(spd, b)]))
case("solve_unit_upper", np.stack([scipy.linalg.solve_triangular(m, v, unit_diagonal=True) for m, v in zip(spd, b)]))
case("inv", L.inv(a))
case("det", L.det(a))
case("slogdet_sign", L.slogdet(a).sign)
case("slogdet_log", L.slogdet(a).logabsdet)
for name, m, v in (("tall", tall, rng.normal(size=5)), ("wide", wide, rng.normal(size=3)), ("low", low, rng.normal(size=5))):
    case(f"lstsq_{name}_b", v)
    case(f"lstsq_{name}", L.lstsq(m, v)[0])
case("matrix_exp", np.stack([scipy.linalg.expm(m * k) for m in a for k in (0.001, 0.03, 0.2, 0.5, 3.0)]))
for name, ord in dict(fro="fro", nuc="nuc", p2=2, m2=-2, p1=1, m1=-1, inf=np.inf, minf=-np.inf).items():
    case(f"norm_{name}", np.stack([L.norm(m, ord) for m in a]))
    case(f"cond_{name}", np.stack([L.cond(m, ord) for m in a]))
case("cond_tall", L.cond(tall))

# Gradients of what does not depend on signs, by PyTorch: the loss is a sum with the weights below.
weights = rng.normal(size=(5, 5))
case("weights", weights)


def slope(name, x, f):
    leaf = torch.tensor(x, requires_grad=True)
    y = f(leaf)
    (y * torch.tensor(weights)[: y.shape[-2], : y.shape[-1]]).sum().backward()
    case(f"slope_{name}", leaf.grad.numpy())


T = torch.linalg
slope("cholesky", spd, lambda x: T.cholesky(x))
slope("inv", a, T.inv)
slope("det", a, lambda x: T.det(x)[None])
slope("pinv", tall, T.pinv)
slope("svd_square", a, lambda x: (lambda u, s, v: u.tril() @ torch.diag_embed(s) @ v)(*T.svd(x, full_matrices=False)) ** 2)
slope("svdvals", wide, lambda x: T.svdvals(x)[None])
slope("eigh", spd, lambda x: T.eigh(x)[1] ** 2)
slope("eig", a, lambda x: T.eig(x)[1].abs() @ torch.diag_embed(T.eig(x)[0].abs()))
slope("qr_wide", wide, lambda x: T.qr(x)[1] ** 2)
slope("lu", tall, lambda x: T.lu(x)[1] @ T.lu(x)[2] ** 2)
slope("matrix_exp", a, torch.matrix_exp)
write("linalg")

# Transforms: of real numbers, and of complex ones as two.
rng = np.random.default_rng(19)
x, y = rng.normal(size=(3, 6, 5)), rng.normal(size=(3, 6, 5))
z = x + 1j * y
case("x", x)
case("y", y)
F = np.fft


def complex_case(name, value):
    case(f"{name}_re", value.real)
    case(f"{name}_im", value.imag)


for norm in ("backward", "ortho", "forward"):
    complex_case(f"fft_real_{norm}", F.fft(x, axis=1, norm=norm))
    complex_case(f"rfft_{norm}", F.rfft(x, axis=1, norm=norm))
    complex_case(f"fft_{norm}", F.fft(z, axis=0, norm=norm))
    complex_case(f"ifft_{norm}", F.ifft(z, axis=2, norm=norm))
    case(f"irfft_{norm}", F.irfft(z, axis=1, norm=norm))
    case(f"irfft_odd_{norm}", F.irfft(z, 7, axis=2, norm=norm))
    case(f"hfft_{norm}", F.hfft(z, 9, axis=1, norm=norm))
    complex_case(f"ihfft_{norm}", F.ihfft(x, axis=1, norm=norm))
    complex_case(f"rfftn_{norm}", F.rfftn(x, (4, 8), (2, 0), norm=norm))
    case(f"irfftn_{norm}", F.irfftn(z, (7, 9), (0, 2), norm=norm))
for n in (1, 3, 8):
    complex_case(f"fft_{n}", F.fft(z, n, axis=1))
    complex_case(f"rfft_{n}", F.rfft(x, n, axis=2))
    case(f"irfft_{n}", F.irfft(z, n, axis=0))
complex_case("fft2", F.fft2(z))
complex_case("ifft2", F.ifft2(z))
complex_case("rfft2", F.rfft2(x))
case("irfft2", F.irfft2(z))
complex_case("fftn", F.fftn(z))
complex_case("fftn_real", F.fftn(x, axes=(0, 1)))
complex_case("ifftn", F.ifftn(z))

# Complex numbers
w = rng.normal(size=(3, 1, 5)) + 1j * rng.normal(size=(3, 1, 5))
complex_case("w", w)
complex_case("times", z * w)
complex_case("over", z / w)
complex_case("exp", np.exp(z))
complex_case("log", np.log(z))
complex_case("matmul", z @ z.swapaxes(-1, -2).conj())
case("abs", np.abs(z))
case("angle", np.angle(z))
write("fourier")

# Integers without a sign. A number of 64 bits is two cases: its upper and its lower half.


def halves(name, value):
    value = np.asarray(value)
    if value.dtype in (np.uint64, np.int64):
        value = value.view(np.uint64)
        case(f"{name}_high", value >> np.uint64(32))
        case(f"{name}_low", value & np.uint64(0xFFFFFFFF))
    else:
        case(name, value)


for kind, ends in {
    np.uint16: [0, 1, 2, 7, 15, 16, 255, 256, 32767, 32768, 65534, 65535],
    np.uint64: [0, 1, 2, 7, 63, 64, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1025, 2**64 - 2, 2**64 - 1],
}.items():
    name = kind.__name__
    v = np.array(ends, dtype=kind)
    a, b = v[:, None], v[None, :]
    halves(f"{name}_at", v)
    for f in (np.add, np.subtract, np.multiply, np.power, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or,
              np.bitwise_xor, np.left_shift, np.right_shift, np.less, np.less_equal, np.equal):
        halves(f"{name}_{f.__name__}", f(a, b))
    # By 0 the quotient is another matter.
    for f in (np.floor_divide, np.remainder):
        halves(f"{name}_{f.__name__}", f(a, b[:, 1:]))
    for f in (np.negative, np.invert, np.square, np.sign, np.abs, np.sort, np.argsort, np.argmax, np.argmin, np.max, np.min,
              np.bitwise_count):
        halves(f"{name}_{f.__name__}", f(np.roll(v, 5)))
    for f in (np.sum, np.prod, np.cumsum, np.cumprod):
        halves(f"{name}_{f.__name__}", f(np.roll(v, 5), dtype=np.uint64))
    halves(f"{name}_matmul", (a * b) @ (a ^ b))
    for to in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, bool):
        halves(f"{name}_to_{to.__name__}", v.astype(to))
    for of in (np.int8, np.int16, np.int32, np.int64):
        halves(f"{name}_of_{of.__name__}", np.array([-1, -100, 0, 1, np.iinfo(of).min, np.iinfo(of).max], dtype=of).astype(kind))
write("unsigned")

# Complex numbers as two tensors
z = rng.normal(size=(4, 5)) + 1j * rng.normal(size=(4, 5))
w = rng.normal(size=(4, 5)) + 1j * rng.normal(size=(4, 5))
r = rng.normal(size=5)
complex_case("z", z)
complex_case("w", w)
case("r", r)
for name, value in {
    "add": z + w, "sub": z - w, "mul": z * w, "div": z / w, "plus_real": z + r, "minus_real": z - r, "times_real": z * r,
    "over_real": z / r, "real_minus": r - z, "real_over": r / z, "number_minus": 2.5 - z, "number_over": 3 / z,
    "plus_pair": z + (1 - 2j), "pair_minus": (1 - 2j) - z, "times_pair": z * (1 - 2j), "over_pair": z / (1 - 2j),
    "pair_over": (1 - 2j) / z, "assigned": (z + w) * 2 - 1, "conj": np.conj(z), "pow": z**w, "powi": z**-3, "powf": z**1.7,
    "sum": z.sum(1), "mean": z.mean(), "prod": z.prod(0), "prod_odd": z.prod(1), "cumsum": z.cumsum(0), "cumprod": z.cumprod(1),
    "matmul": z @ w.T, "dot": np.dot(z[0], w[0]), "vdot": np.vdot(z, w), "vecdot": np.vecdot(z, w), "outer": np.outer(z[0], w[:, 0]),
    "kron": np.kron(z[:2], w[0]), "tensordot": np.tensordot(z, w, ((0,), (0,))), "einsum": np.einsum("ij,kj->ik", z, w),
    "trace": np.trace(z), "matrix_power": np.linalg.matrix_power(z[:, :4], 5), "cross": np.linalg.cross(z[:, :3], w[:, 2:]),
    "adjoint": z.conj().T, "diff": np.diff(z, 2, 1), "diag": np.diag(z, 1), "pad": np.pad(z, ((1, 0), (0, 2)), constant_values=3),
    "solve": np.linalg.solve(z[:, :4], w), "inv": np.linalg.inv(z[:, :4]),
}.items():
    complex_case(name, np.asarray(value))
case("abs", np.abs(z))
case("angle", np.angle(z))
case("var", z.var(1))
case("var_with", z.var(0, ddof=1))
case("std", z.std())
case("norm", np.linalg.norm(z, axis=1))
case("svdvals", np.linalg.svdvals(z))
case("eigvalsh", np.linalg.eigvalsh(z[:, :4]))
functions = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
    "square": np.square, "recip": lambda z: 1 / z, "sign": np.sign, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}
# Both signs of zero, cuts and poles, what is infinite, NaN; then what is large and small, beside 1 and beside the cuts.
line = (-inf, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, inf, nan)
at = np.array([complex(a, b) for a in line for b in line])
far = np.array([complex(a, b) for a in (-1e300, -1e-300, 1e-20, 1 + 1e-9, 1e300) for b in (-1e300, 1e-300, 1e-9, 1.0, 300.0)]
               + [710 + 1j, -712 + 3j, 1 + 711j, 2 - 712j, 30 + 1j, -400 + 2j])
complex_case("edges", at)
complex_case("far", far)
mpmath.mp.dps = 700
with np.errstate(all="ignore"):
    for name, of in functions.items():
        complex_case(name, of(z))
        complex_case(f"edges_{name}", of(at))
        # NumPy's log1p has no digits of small real parts.
        exact = [complex(mpmath.log(1 + mpmath.mpc(v))) for v in far]
        complex_case(f"far_{name}", np.array(exact) if name == "log1p" else of(far))
    case("edges_abs", np.abs(at))
    case("edges_angle", np.angle(at))
    complex_case("edges_pow", at[:, None] ** np.array([0, 1, 2.5, -1, 1j, 1 - 1j]))
case("eq", at == at[::-1])
case("ne", at != at[::-1])
case("isnan", np.isnan(at))
case("isinf", np.isinf(at))
case("isfinite", np.isfinite(at))
write("complex")

# How they are printed.
texts = {
    "whole": np.array([1 + 2j, -3.5 - 40j]), "zeros": np.array([1j, complex(-0.0, -0.0)]),
    "specials": np.array([complex(nan, 1), complex(inf, -inf), 1 + 2j]),
    "scientific": np.array([[1.25, 1e-3 - 2j], [3 - 1j, 1j]]), "both_scientific": np.array([1e-5 + 1e5j, 2 + 3e-7j]),
    "thirds": (np.arange(6) + 1j * np.arange(6)[::-1]).reshape(2, 3) / 3, "single": np.array([0.1 + 0.2j, -1], dtype=np.complex64),
    "wrapped": np.arange(14) * (1.5 - 1j), "abridged": np.arange(1001) * (1 - 2j), "one": np.array([[1 - 2.25j]]),
    "nan_only": np.array([complex(nan, nan)]), "negative_nan": np.array([complex(nan, -inf), complex(1, nan)]),
}
np.set_printoptions(precision=4)
with open(os.path.join(tests, "complex", "display.txt"), "w") as out:
    for name, value in texts.items():
        out.write(f"--- {name}\n{value}\n")
