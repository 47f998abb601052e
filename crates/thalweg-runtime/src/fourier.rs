//! Fourier transforms by device libraries.

/// Kind of transform.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FourierKind {
    /// Complex to complex, with `e^(-2πi jk/n)`.
    Forward,
    /// Complex to complex, with `e^(+2πi jk/n)`.
    Inverse,
    /// Real numbers to the first half of their transform.
    Half,
    /// First half of a transform to real numbers, scaled by `n`.
    Real,
}

/// Transforms along the middle axis of `[outer, n, inner]`; real and imaginary components are separate tensors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fourier {
    /// Kind of transform.
    pub kind: FourierKind,
    /// Whether components are f64 instead of f32.
    pub double: bool,
    /// Product of the dimensions before the axis.
    pub outer: usize,
    /// Number of samples per transform: of real numbers, if one side is real.
    pub n: usize,
    /// Product of the dimensions after the axis.
    pub inner: usize,
    /// Factor that results are multiplied by.
    pub scale: f64,
}

impl FourierKind {
    /// Number of input elements per transform of `n` samples.
    pub fn taken(self, n: usize) -> usize {
        if self == FourierKind::Real { n / 2 + 1 } else { n }
    }

    /// Number of output elements per transform of `n` samples.
    pub fn given(self, n: usize) -> usize {
        if self == FourierKind::Half { n / 2 + 1 } else { n }
    }
}
