//! Fourier transforms as a library of a device takes them.

/// What is transformed into what.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FourierKind {
    /// Complex numbers, with `e^(-2πi jk/n)`.
    Forward,
    /// Complex numbers, with `e^(+2πi jk/n)`.
    Inverse,
    /// Real numbers into the first half of their transform.
    Half,
    /// The first half of a transform into `n` times the real numbers.
    Real,
}

/// Transforms along the middle axis of `[outer, n, inner]`, of real and imaginary parts that are tensors by themselves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fourier {
    /// What is transformed into what.
    pub kind: FourierKind,
    /// Whether the parts are f64, and not f32.
    pub double: bool,
    /// Elements of the dimensions before the axis.
    pub outer: usize,
    /// Samples of a transform: real numbers, where one side is real.
    pub n: usize,
    /// Elements of the dimensions behind the axis.
    pub inner: usize,
    /// What the results are multiplied by.
    pub scale: f64,
}

impl FourierKind {
    /// Elements of a line that goes in, of `n` samples.
    pub fn taken(self, n: usize) -> usize {
        if self == FourierKind::Real { n / 2 + 1 } else { n }
    }

    /// Elements of a line that comes out.
    pub fn given(self, n: usize) -> usize {
        if self == FourierKind::Half { n / 2 + 1 } else { n }
    }
}
