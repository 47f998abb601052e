//! Entries that cannot agree with PyTorch, with the reason.

/// Aspects of a sample that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aspect {
    Value,
    Gradient,
    Second,
}

use Aspect::{Gradient, Second, Value};

/// Samples that an exception applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Samples {
    /// Special points only.
    Special,
    /// All samples.
    All,
}

use Samples::{All, Special};

/// Entry, samples, aspects that differ, and why.
const EXCEPTIONS: &[(&str, Samples, &[Aspect], &str)] = &[
    ("sign", Special, &[Value], "of NaN it is NaN, as in NumPy; 0 in PyTorch"),
    ("heaviside", Special, &[Value], "of NaN it is NaN, as in NumPy; 0 in PyTorch"),
    ("i0", Special, &[Value], "∞ at infinities; PyTorch has 0·∞"),
    ("special.i1", Special, &[Value], "±∞ at infinities; PyTorch has 0·∞"),
    ("fmod", Special, &[Value], "2 by a subnormal number is 0; PyTorch's quotient overflows"),
    (
        "remainder",
        Special,
        &[Value, Gradient],
        "as fmod; and 1 by -∞ has the quotient -0, which Python rounds down to -1",
    ),
    ("floor_divide", Special, &[Value], "1 by -∞ has the quotient -0, which Python rounds down to -1"),
    ("rsqrt", Special, &[Gradient], "at -0, where it is -∞, -∞; ∞ in PyTorch"),
    ("logaddexp2", Special, &[Value], "of -1 and -1 it is 0; PyTorch is off by half an ulp of 1"),
    (
        "logcumsumexp",
        All,
        &[Gradient],
        "numbers of 10,000 in f32: by the rounded result, as in PyTorch, but rounded elsewhere",
    ),
    (
        "quantile",
        Special,
        &[Value, Gradient],
        "beside an infinity it is that; PyTorch has ∞ - ∞. Of equal elements another one has the gradient",
    ),
    ("xlogy", Special, &[Second], "at x = 0 and y < 0, where there is no logarithm"),
    ("special.xlog1py", Special, &[Second], "at x = 0 and y < -1, where there is no logarithm"),
    (
        "cholesky_solve",
        All,
        &[Gradient, Second],
        "by the triangle that is not read the gradient is 0; PyTorch's is another number",
    ),
    ("nn.functional.hardsigmoid", All, &[Gradient], "PyTorch's 1/6 has the digits of f32, also in f64"),
];

/// Whether an entry is listed with that aspect.
pub fn excepted(entry: &str, special: bool, aspect: Aspect) -> bool {
    let listed = |(e, samples, aspects, _): &(&str, Samples, &[Aspect], &str)| {
        *e == entry && (special || *samples == All) && aspects.contains(&aspect)
    };
    EXCEPTIONS.iter().any(listed)
}
