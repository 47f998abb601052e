#!/usr/bin/env python3
"""Fits the polynomials of crates/thalweg-cpu/src/math and writes coefficients.rs and golden_f64.txt beside it.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install mpmath numpy
    /tmp/v/bin/python tools/fit_math.py [--golden]

Each polynomial is the weighted minimax fit of its function (Remez exchange on a dense grid, 50 digits). Rounding the
coefficients afterwards would cost more than the fit gained, so they are rounded one at a time from the lowest order up,
and the rest fitted again each time. The error printed is that of the rounded polynomial, in the units of the weight;
the rounding of its evaluation is measured by the accuracy tests in Rust.
"""
import struct
import sys
from pathlib import Path

from mpmath import mp, mpf, matrix, lu_solve
import mpmath as m

mp.dps = 50
HERE = Path(__file__).resolve().parent.parent / "crates/thalweg-cpu/src/math"


def f32(v):
    return mpf(struct.unpack("<f", struct.pack("<f", round_to(v, 24)))[0])


def round_to(v, digits):
    """Nearest float of that many mantissa bits (range not considered)."""
    v = mpf(v)
    if v == 0:
        return 0.0
    _, e = m.frexp(v)
    return float(m.ldexp(m.nint(m.ldexp(v, digits - int(e))), int(e) - digits))


def f64(v):
    return mpf(round_to(v, 53))


def remez(xs, g, w, u, free, fixed):
    """Coefficients (by power of u) minimising max |w·(p(u) - g)| over the grid; those in `fixed` are given."""
    rest = [gi - sum(c * ui**k for k, c in fixed.items()) for gi, ui in zip(g, u)]
    n = len(free)
    if n == 0:
        return {}, max(abs(wi * ri) for wi, ri in zip(w, rest))
    count = len(xs)
    # Chebyshev extrema of the grid to begin with.
    ref = sorted({int(round((1 - m.cos(m.pi * i / n)) / 2 * (count - 1))) for i in range(n + 1)})
    best = None
    for _ in range(30):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, i in enumerate(ref):
            for col, k in enumerate(free):
                a[row, col] = u[i] ** k
            a[row, n] = (-1) ** row / w[i]
            b[row] = rest[i]
        sol = lu_solve(a, b)
        c = {k: sol[j] for j, k in enumerate(free)}
        err = []
        for ui, wi, ri in zip(u, w, rest):
            p = mpf(0)
            for k, ck in c.items():
                p += ck * ui**k
            err.append(wi * (p - ri))
        top = max(abs(e) for e in err)
        if best is None or top < best[1]:
            best = (c, top)
        # One extremum for each stretch of equal sign.
        peaks, start = [], 0
        for i in range(1, count + 1):
            if i == count or (err[i] > 0) != (err[start] > 0):
                peaks.append(max(range(start, i), key=lambda j: abs(err[j])))
                start = i
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(err[peaks[0]]) < abs(err[peaks[-1]]) else -1)
        if len(peaks) < n + 1 or peaks == ref or top < abs(sol[n]) * mpf("1.001"):
            break
        ref = peaks
    return best


def fit(name, lo, hi, function, weight, degree, fixed, rounder, var=lambda x: x, count=600, note=""):
    lo, hi = mpf(lo), mpf(hi)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * m.cos(m.pi * (i + mpf(1) / 2) / count) for i in range(count)]
    xs = [x for x in xs if x != 0]
    g = [function(x) for x in xs]
    w = [weight(x, gi) for x, gi in zip(xs, g)]
    u = [var(x) for x in xs]
    done = {k: mpf(v) for k, v in fixed.items()}
    free = [k for k in range(degree + 1) if k not in done]
    # In f64 only the first few need the refit; the tail's rounding is far below the fit's error.
    first = True
    while free:
        if first or rounder is f32 or degree - len(free) < 3:
            c, err = remez(xs, g, w, u, free, done)
            if first:
                ideal = err
            first = False
        k = free.pop(0)
        done[k] = rounder(c[k])
    _, err = remez(xs, g, w, u, [], done)
    digits = m.nstr(err, 3)
    print(f"{name}: degree {degree}, minimax {m.nstr(ideal, 3)}, rounded {digits}", file=sys.stderr)
    kind = "f32" if rounder is f32 else "f64"
    lines = [f"/// {note}; x in [{m.nstr(lo, 6)}, {m.nstr(hi, 6)}], degree {degree}, error {digits}."]
    lines.append(f"pub(super) const {name}: [{kind}; {degree + 1}] = [")
    for k in range(degree + 1):
        lines.append(f"    {literal(done[k], kind)},")
    lines.append("];")
    return "\n".join(lines)


def literal(v, kind):
    v = float(v)
    if kind == "f32":
        # Shortest decimal that reads back.
        for digits in range(1, 12):
            s = f"{v:.{digits}g}"
            if struct.pack("<f", float(s)) == struct.pack("<f", v):
                break
    else:
        s = repr(v)
    return s if ("." in s or "e" in s) else s + ".0"


def parts(name, value, n, rounder, down=False):
    """The constant as an unevaluated sum of floats, largest first; `down`: all of them positive."""
    kind = "f32" if rounder is f32 else "f64"
    rest, out = value, []
    for _ in range(n):
        part = rounder(rest)
        if down and part > rest:
            _, e = m.frexp(part)
            part -= m.ldexp(mpf(1), int(e) - (24 if rounder is f32 else 53))
        out.append(part)
        rest -= part
    return "\n".join(
        [f"/// {m.nstr(value, 12)} as a sum of full-width parts.", f"pub(super) const {name}: [{kind}; {n}] = ["]
        + [f"    {literal(v, kind)}," for v in out]
        + ["];"]
    )


def polish_sin(text):
    """Moves the coefficients of SIN a little, to where the evaluated sine errs least: near π/2, where cosines of
    small arguments end up, the rounding of the evaluation is systematic and exceeds the fit's error."""
    import itertools
    import numpy as np

    f = np.float32
    c = [f(line.strip(" ,")) for line in text.split("[f32; 4] = [")[1].split("]")[0].split("\n") if line.strip()]
    half_pi = f(np.pi / 2).view(np.int32)
    r = np.concatenate([np.linspace(0.2, np.pi / 2, 30_000).astype(f), np.arange(half_pi - 90_000, half_pi - 8_000, 9, dtype=np.int32).view(f),
                        np.arange(half_pi - 8_000, half_pi + 2, dtype=np.int32).view(f)])
    exact = np.sin(r.astype(np.float64))
    unit = 2.0 ** (np.frexp(exact)[1] - 24)

    def fma(a, b, d):
        return (a.astype(np.float64) * b.astype(np.float64) + d.astype(np.float64)).astype(f)

    def errors(c):
        r2 = r * r
        acc = np.full_like(r, c[3])
        for k in (2, 1, 0):
            acc = fma(acc, r2, np.full_like(r, c[k]))
        # Half an ulp of r comes from the reduction.
        reduced = np.cos(r.astype(np.float64)) * np.spacing(r) / 2
        return (np.abs(fma(r * r2, acc, r).astype(np.float64) - exact) + reduced) / unit

    def worst(c):
        e = errors(c)
        # The last points round to 1 and must give it: cos 0 = 1.
        return max(e) + e.mean() + (9 if max(e[-8:]) > 0.1 else 0)

    def moved(v, k):
        return (v.view(np.int32) + np.int32(k)).view(f)

    # Steps that each move the sine at π/2 by about a tenth of an ulp (of the first coefficient: by one).
    steps = [(0,)] + [[k * u for k in range(-5, 6)] for u in (1, 48, 384)]
    best = min(([moved(v, k) for v, k in zip(c, ks)] for ks in itertools.product(*steps)), key=worst)
    print(f"SIN: evaluated error {max(errors(c)):.3f} ulp, polished {max(errors(best)):.3f}", file=sys.stderr)
    head, tail = text.split("[f32; 4] = [")
    return head + "[f32; 4] = [\n" + "".join(f"    {literal(v, 'f32')},\n" for v in best) + "];"


def ulp(g, digits):
    _, e = m.frexp(g)
    return m.ldexp(mpf(1), int(e) - digits)


def by_ulp32(x, g):
    return 1 / ulp(g, 24)


def relative(unit):
    return lambda x, g: unit / abs(g)


REL32, REL64 = relative(mpf(2) ** 24), relative(mpf(2) ** 53)
LN2 = m.log(2)
SQ = (m.sqrt(mpf(1) / 2) - 1, m.sqrt(mpf(2)) - 1)
S = (m.sqrt(2) - 1) / (m.sqrt(2) + 1)


def erfcx(x):
    return m.exp(x * x) * m.erfc(x)


def fits():
    h = LN2 / 2 * mpf("1.0001")
    out = []

    def add(*a, **k):
        out.append(fit(*a, **k))

    def sq(x):
        return x * x

    # f32. Weights in ulp of the result, or in 2^-24 of the value.
    add("EXP", -h, h, m.exp, by_ulp32, 6, {0: 1}, f32, note="eˣ (ulp)")
    add("EXP2", -0.5, 0.5, lambda x: mpf(2) ** x, by_ulp32, 6, {0: 1}, f32, note="2ˣ (ulp)")
    add("EXPM1", -h, h, lambda x: (m.exp(x) - 1 - x) / x**2, lambda x, g: 2**24 * abs(x), 4, {}, f32,
        note="(eˣ - 1 - x)/x² (2⁻²⁴ of eˣ - 1)")
    add("TANH", -h / 2, h / 2, lambda x: m.expm1(2 * x) / x, REL32, 6, {0: 2}, f32, note="(e²ˣ - 1)/x (2⁻²⁴)")
    add("LOG", *SQ, lambda x: m.log1p(x) / x, REL32, 9, {0: 1}, f32, note="log(1 + x)/x (2⁻²⁴)")
    add("LOG2", *SQ, lambda x: m.log1p(x) / x / LN2, REL32, 9, {}, f32, note="log₂(1 + x)/x (2⁻²⁴)")
    add("SIN", 0, m.pi / 2 * mpf("1.0001"), lambda x: (m.sin(x) - x) / x**3, lambda x, g: 2**24 * x**3 / m.sin(x), 3, {}, f32, sq,
        note="(sin(x) - x)/x³ in x² (2⁻²⁴ of sin), then moved to err least as evaluated")
    out[-1] = polish_sin(out[-1])
    add("ATAN", 0, 1, lambda x: m.atan(x) / x, REL32, 8, {0: 1}, f32, sq, note="atan(x)/x in x² (2⁻²⁴)")
    add("ERF", 0, 1, lambda x: m.erf(x) / x, REL32, 6, {}, f32, sq, note="erf(x)/x in x² (2⁻²⁴)")
    # erf = 1 - q^-8: an error in q counts 8·erfc/q times in erf, whose unit there is 2^-24.
    add("ERF_FAR", 1, 4, lambda x: m.erfc(x) ** (mpf(-1) / 8), lambda x, g: 2**24 * 8 * m.erfc(x) / g, 7, {}, f32,
        note="erfc(x)^(-1/8) (ulp of erf)")
    add("ERFC", 0, 10.2, lambda x: erfcx(x) * (x + 2) / 2, REL32, 10, {0: 1}, f32, lambda x: 2 * x / (x + 2),
        note="exp(x²)·erfc(x)·(x + 2)/2 in 2x/(x + 2) (2⁻²⁴)")
    add("POW_LOG", 0, S * mpf("1.0001"), lambda x: (m.atanh(x) - x) / x**3 * 2 / LN2,
        lambda x, g: mpf(2) ** 32 * x**2 * LN2 / 2, 3, {}, f32, sq, note="2·(atanh(x) - x)/(x³·ln 2) in x² (2⁻³² of log₂)")
    out.append(parts("PI", m.pi, 3, f32, down=True))
    out.append(parts("LN2", LN2, 2, f32))
    out.append(parts("LOG2E2", 2 / LN2, 2, f32))
    # f64.
    add("D_EXP", -h, h, m.exp, REL64, 11, {0: 1, 1: 1}, f64, note="eˣ (2⁻⁵³)")
    add("D_EXP2", -0.5, 0.5, lambda x: mpf(2) ** x, REL64, 12, {0: 1}, f64, note="2ˣ (2⁻⁵³)")
    add("D_EXPM1", -h, h, lambda x: (m.exp(x) - 1 - x) / x**2, lambda x, g: 2**53 * abs(x), 10, {}, f64,
        note="(eˣ - 1 - x)/x² (2⁻⁵³ of eˣ - 1)")
    add("D_LOG", 0, S * mpf("1.0001"), lambda x: (2 * m.atanh(x) - 2 * x) / x**3, lambda x, g: 2**53 * x**2 / 2, 6, {},
        f64, sq, note="2·(atanh(x) - x)/x³ in x² (2⁻⁵³ of log)")
    add("D_SIN", 0, m.pi / 2 * mpf("1.0001"), lambda x: (m.sin(x) - x) / x**3, lambda x, g: 2**53 * x**3 / m.sin(x), 7, {}, f64,
        sq, note="(sin(x) - x)/x³ in x² (2⁻⁵³ of sin)")
    add("D_ATAN", 0, m.sqrt(2) - 1, lambda x: (m.atan(x) - x) / x**3, lambda x, g: 2**53 * x**2, 10, {}, f64, sq,
        note="(atan(x) - x)/x³ in x² (2⁻⁵³ of atan)")
    add("D_ERF", 0, 1, lambda x: m.erf(x) / x, REL64, 12, {}, f64, sq, note="erf(x)/x in x² (2⁻⁵³)")
    # In a variable that goes from -1 to less than 1, so that the many terms do not cancel.
    far = mpf("3.75")
    add("D_ERFC", 0, "27.3", lambda x: erfcx(x) * (x + far) / far, REL64, 22, {}, f64, lambda x: (x - far) / (x + far),
        note="exp(x²)·erfc(x)·(x + 3.75)/3.75 in (x - 3.75)/(x + 3.75) (2⁻⁵³)")
    # Its first coefficient is a sum of two, of which the second is a constant by itself.
    first = parts("D_POW_FIRST", 2 / LN2 / 3, 2, f64)
    add("D_POW_LOG", 0, S * mpf("1.0001"), lambda x: ((m.atanh(x) - x) / x**3 - mpf(1) / 3) / x**2 * 2 / LN2,
        lambda x, g: mpf(2) ** 65 * x**4 * LN2 / 2, 7, {}, f64, sq,
        note="2·(atanh(x) - x - x³/3)/(x⁵·ln 2) in x² (2⁻⁶⁵ of log₂)")
    out.append(first)
    out.append(parts("D_PI", m.pi, 3, f64, down=True))
    out.append(parts("D_LN2", LN2, 2, f64))
    out.append(parts("D_LOG2E", 1 / LN2, 2, f64))
    out.append(parts("D_LOG2E2", 2 / LN2, 2, f64))
    return out


HEADER = """//! Coefficients of the polynomials, lowest order first. Written by tools/fit_math.py: change that, not this.
//!
//! Each is a minimax fit, refitted as its coefficients are rounded one by one; the error is that of the rounded polynomial
//! evaluated exactly, in the unit in parentheses.
#![allow(clippy::excessive_precision, clippy::approx_constant, clippy::unreadable_literal)]
"""


def golden():
    """Points and correctly rounded values of the f64 functions, as bits in hexadecimal."""
    import random

    rng = random.Random(1)

    def around(*spans, n=60):
        return [rng.uniform(lo, hi) for lo, hi in spans for _ in range(n)]

    def magnitudes(lo, hi, n=60, signs=(1, -1)):
        return [s * 2.0 ** rng.uniform(lo, hi) for s in signs for _ in range(n)]

    tiny = [5e-324, -5e-324, 1e-310, -1e-310, 2.2250738585072014e-308, 1e-300, -1e-20, 1e-20, 0.5, 1.0, -1.0]
    near_one = [1 + s * 2.0**-k for k in range(1, 53) for s in (1, -0.5)]
    cases = {
        "exp": (m.exp, around((-745.2, -707), (-707, 709.7), (-2, 2), (709, 709.8)) + magnitudes(-60, 2)),
        "exp2": (lambda x: mpf(2) ** x, around((-1075, -1020), (-1020, 1024), (-2, 2)) + magnitudes(-60, 2) + [float(k) for k in range(-1074, 1024, 7)]),
        "expm1": (m.expm1, around((-60, 709.7), (-1.2, 1.2), (-0.4, 0.4), (709, 709.78)) + magnitudes(-100, 1)),
        "log": (m.log, near_one + around((0.3, 3)) + magnitudes(-1074, 1024, 150, (1,))),
        "log2": (lambda x: m.log(x) / m.log(2), near_one + around((0.3, 3)) + magnitudes(-1074, 1024, 150, (1,)) + [2.0**k for k in range(-1074, 1024, 13)]),
        "log1p": (m.log1p, around((-1, 3), (-0.4, 0.5), (-0.01, 0.01)) + magnitudes(-100, -1) + magnitudes(0, 1023, 60, (1,))),
        "sin": (m.sin, around((-7, 7), (-100, 100), (-1e5, 1e5)) + magnitudes(-100, 3) + [float(k * m.pi) for k in range(1, 2000, 31)]),
        "cos": (m.cos, around((-7, 7), (-100, 100), (-1e5, 1e5)) + magnitudes(-100, 3) + [float((k + 0.5) * m.pi) for k in range(1, 2000, 31)]),
        "atan": (m.atan, around((-3, 3), (-0.5, 0.5)) + magnitudes(-100, 100)),
        "tanh": (m.tanh, around((-3, 3), (-0.5, 0.5), (-25, 25)) + magnitudes(-100, 1)),
        "erf": (m.erf, around((-1, 1), (-6.5, 6.5), (0.99, 1.01)) + magnitudes(-100, 1)),
        "erfc": (m.erfc, around((-1, 1), (-6.5, 6.5), (0, 27.3), (26, 27.3)) + magnitudes(-60, 1)),
        "sigmoid": (lambda x: 1 / (1 + m.exp(-x)), around((-745, -700), (-700, 40), (-4, 4)) + magnitudes(-60, 1)),
    }
    lines = []
    for name, (f, xs) in cases.items():
        for x in xs + tiny:
            if name in ("log", "log2") and x <= 0 or name == "log1p" and x <= -1:
                continue
            mp.dps = 60
            y = f(mpf(x))
            bits = struct.pack(">d", rounded(y))
            lines.append(f"{name} {struct.pack('>d', x).hex()} {bits.hex()}")
    # Powers: of any numbers in range, of bases near 1, and of results near both ends of the range.
    for k in range(600):
        x = [2.0 ** rng.uniform(-1074, 1023), 2.0 ** rng.uniform(-2, 2), 1 + rng.uniform(-1, 1) * 2.0 ** -rng.randrange(2, 52)][k % 3]
        of = m.log(mpf(x)) / m.log(2)
        y = float(rng.choice([rng.uniform(-1, 1), 1 - rng.random() * 0.01, -1 + rng.random() * 0.04]) * 1024 / of) if of else 2.0
        value = mpf(x) ** mpf(y)
        if 0 < value < mpf(2) ** 1024:
            bits = [struct.pack(">d", v).hex() for v in (x, y, rounded(value))]
            lines.append("pow " + " ".join(bits))
    (HERE / "golden_f64.txt").write_text("\n".join(lines) + "\n")


def rounded(y):
    """f64 nearest, subnormals included."""
    if y == 0:
        return 0.0
    _, e = m.frexp(y)
    return float(m.ldexp(m.nint(m.ldexp(y, min(53 - int(e), 1074))), -min(53 - int(e), 1074)))


if __name__ == "__main__":
    if "--golden" in sys.argv:
        golden()
    else:
        (HERE / "coefficients.rs").write_text(HEADER + "\n" + "\n\n".join(fits()) + "\n")
