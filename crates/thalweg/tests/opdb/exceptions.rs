//! Entries that cannot agree with PyTorch, with the reason.

/// Aspects of a sample that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aspect {
    Value,
    Gradient,
    Second,
}

use Aspect::{Gradient, Second, Value};

/// Entry, what differs, and why.
const EXCEPTIONS: &[(&str, &[Aspect], &str)] = &[
    ("sign", &[Value], "of NaN it is NaN, as in NumPy; 0 in PyTorch"),
    ("heaviside", &[Value], "of NaN it is NaN, as in NumPy; 0 in PyTorch"),
    ("i0", &[Value], "∞ at infinities; PyTorch has 0·∞"),
    ("special.i1", &[Value], "±∞ at infinities; PyTorch has 0·∞"),
    ("fmod", &[Value], "2 by a subnormal number is 0; PyTorch's quotient overflows"),
    ("remainder", &[Value, Gradient], "as fmod; and 1 by -∞ has the quotient -0, which Python rounds down to -1"),
    ("floor_divide", &[Value], "1 by -∞ has the quotient -0, which Python rounds down to -1"),
    ("rsqrt", &[Gradient], "at -0, where it is -∞, -∞; ∞ in PyTorch"),
    ("logaddexp2", &[Value], "of -1 and -1 it is 0; PyTorch is off by half an ulp of 1"),
    (
        "logcumsumexp",
        &[Gradient],
        "numbers of 10,000 in f32: by the rounded result, as in PyTorch, but rounded elsewhere",
    ),
    (
        "quantile",
        &[Value, Gradient],
        "beside an infinity it is that; PyTorch has ∞ - ∞. Of equal elements another one has the gradient",
    ),
    ("xlogy", &[Second], "at x = 0 and y < 0, where there is no logarithm"),
    ("special.xlog1py", &[Second], "at x = 0 and y < -1, where there is no logarithm"),
    (
        "cholesky_solve",
        &[Gradient, Second],
        "by the triangle that is not read the gradient is 0; PyTorch's is another number",
    ),
    ("nn.functional.hardsigmoid", &[Gradient], "PyTorch's 1/6 has the digits of f32, also in f64"),
];

/// Whether an entry is listed with that aspect.
pub fn excepted(entry: &str, aspect: Aspect) -> bool {
    EXCEPTIONS.iter().any(|(e, aspects, _)| *e == entry && aspects.contains(&aspect))
}
