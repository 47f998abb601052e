"""Prints the polynomials of crates/thalweg/src/special/: Chebyshev fits of functions that are smooth on an interval, as
coefficients of t in [-1, 1], lowest first, and the largest error in units of 2^-53 of the result.

    python3 bench/special.py        (needs mpmath)
"""
from mpmath import mp, mpf, cos, pi, loggamma, psi, besseli, exp, sqrt, log, findroot, nstr

mp.dps = 50


def fit(f, low, high, degree):
    """The coefficients in t, which goes from -1 to 1 as x goes from low to high."""
    n = degree + 1
    at = lambda t: f(low + (high - low) * (t + 1) / 2)
    nodes = [cos(pi * (k + mpf(1) / 2) / n) for k in range(n)]
    values = [at(t) for t in nodes]
    chebyshev = [2 / mpf(n) * sum(values[k] * cos(j * pi * (k + mpf(1) / 2) / n) for k in range(n)) for j in range(n)]
    chebyshev[0] /= 2
    # From Chebyshev to powers of t.
    before, this = [mpf(1)], [mpf(0), mpf(1)]
    out = [chebyshev[0]] + [mpf(0)] * degree
    for j in range(1, n):
        for i, c in enumerate(this):
            out[i] += chebyshev[j] * c
        nxt = [mpf(0)] + [2 * c for c in this]
        for i, c in enumerate(before):
            nxt[i] -= c
        before, this = this, nxt
    worst = 0
    for k in range(400):
        t = mpf(2 * k + 1) / 400 - 1
        value = sum(float(c) * t**i for i, c in enumerate(out))
        worst = max(worst, abs(value / at(t) - 1))
    return [float(c) for c in out], worst * 2**53


def show(name, doc, f, low, high, degree, short):
    coefficients, worst = fit(f, mpf(low), mpf(high), degree)
    _, of_short = fit(f, mpf(low), mpf(high), short)
    few, _ = fit(f, mpf(low), mpf(high), short)
    print(f"/// {doc} Off by {float(worst):.2f}·2⁻⁵³; the short one by {float(of_short / 2**29):.2f}·2⁻²⁴.")
    for suffix, list_ in ("", coefficients), ("_SHORT", few):
        print(f"pub(super) const {name}{suffix}: [f64; {len(list_)}] = [")
        for c in list_:
            print(f"    {c!r},")
        print("];")


half_log_two_pi = log(2 * pi) / 2
limit = lambda f: lambda x: f(x if x != 0 else mpf(10) ** -25)
root = findroot(lambda x: psi(0, x), mpf("1.46163214496836234"))


def stirling(w):
    """The rest of ln Γ(x) beside (x - 1/2)·ln x - x + ln(2π)/2, times x, at w = 1/x²."""
    if w == 0:
        return mpf(1) / 12
    x = 1 / sqrt(w)
    return (loggamma(x) - (x - mpf(1) / 2) * log(x) + x - half_log_two_pi) * x


def digamma_rest(w):
    """ln x - 1/(2x) - ψ(x), times x², at w = 1/x²."""
    if w == 0:
        return mpf(1) / 12
    x = 1 / sqrt(w)
    return (log(x) - 1 / (2 * x) - psi(0, x)) * x * x


def trigamma_rest(w):
    """ψ′(x) - 1/x - 1/(2x²), times x³, at w = 1/x²."""
    if w == 0:
        return mpf(1) / 6
    x = 1 / sqrt(w)
    return (psi(1, x) - 1 / x - 1 / (2 * x * x)) * x**3


def near_gamma(x):
    if abs(x - 1) < mpf(10) ** -20 or abs(x - 2) < mpf(10) ** -20:
        x += mpf(10) ** -20
    return loggamma(x) / ((x - 1) * (x - 2))


def near_digamma(x):
    if abs(x - root) < mpf(10) ** -20:
        x += mpf(10) ** -20
    return psi(0, x) / (x - root)


mp.dps = 60
show("GAMMA", "`ln Γ(x)/((x - 1)(x - 2))` for x in [1, 3].", near_gamma, 1, 3, 30, 13)
show("GAMMA_FAR", "Remainder of Stirling's formula, times x, for 1/x² in [0, 1/9].", stirling, 0, mpf(1) / 9, 17, 6)
high = float(root)
print(f"/// The root of ψ, as a sum of two.\npub(super) const ROOT: (f64, f64) = ({high!r}, {float(root - high)!r});")
show("DIGAMMA", "`ψ(x)/(x - ROOT)` for x in [1, 3].", near_digamma, 1, 3, 30, 13)
show("DIGAMMA_FAR", "`ln x - 1/(2x) - ψ(x)`, times x², for 1/x² in [0, 1/9].", digamma_rest, 0, mpf(1) / 9, 19, 7)
show("TRIGAMMA", "`ψ′(x)` for x in [1, 3].", lambda x: psi(1, x), 1, 3, 36, 16)
show("TRIGAMMA_FAR", "`ψ′(x) - 1/x - 1/(2x²)`, times x³, for 1/x² in [0, 1/9].", trigamma_rest, 0, mpf(1) / 9, 21, 8)
bessel = lambda n: lambda x: exp(-x) * besseli(n, x)
far = lambda n: limit(lambda v: sqrt(1 / v) * exp(-1 / v) * besseli(n, 1 / v))
show("I0", "`e⁻ˣ·I₀(x)` for x in [0, 8].", bessel(0), 0, 8, 30, 16)
show("I0_FAR", "`√x·e⁻ˣ·I₀(x)` for 1/x in [0, 1/8].", lambda v: far(0)(max(v, mpf(1) / 4000)), mpf(1) / 4000, mpf(1) / 8, 24, 7)
show("I1", "`e⁻ˣ·I₁(x)/x` for x in [0, 8].", lambda x: bessel(1)(x) / x if x else mpf(1) / 2, 0, 8, 30, 16)
show("I1_FAR", "`√x·e⁻ˣ·I₁(x)` for 1/x in [0, 1/8].", lambda v: far(1)(max(v, mpf(1) / 4000)), mpf(1) / 4000, mpf(1) / 8, 24, 7)
