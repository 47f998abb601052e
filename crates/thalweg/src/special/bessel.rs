//! Modified Bessel functions of the first kind, of order 0 and 1: a polynomial in x below 8, from there on one in 1/x.

use super::polynomials as p;
use super::{function, polynomial};
use crate::Tensor;

/// Interval of 1/x in which the polynomials for large arguments hold.
const FAR: (f64, f64) = (1.0 / 4000.0, 1.0 / 8.0);

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident => $f:expr, $derivative:expr;)*) => {
        /// # Special functions: Bessel
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// On a dtype that is not a float.
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                function(stringify!($name), self, $f, $derivative)
            }
        )*}
    };
}

functions! {
    /// The modified Bessel function I₀, as `numpy.i0`, `scipy.special.i0` and `torch.i0`. Even; ∞ at ±∞. Takes floats.
    /// Its derivative is [`i1`](Tensor::i1).
    i0 => |x| grown(&x.abs(), &even(&x.abs())), Tensor::i1;
    /// `e^(-|x|)·I₀(x)`, which does not overflow, as `scipy.special.i0e`. Takes floats.
    i0e => |x| even(&x.abs()), |x| x.i1e() - x.sign() * x.i0e();
    /// The modified Bessel function I₁, as `scipy.special.i1`. Odd; ±∞ at ±∞. Takes floats.
    i1 => |x| grown(x, &odd(x)), |x| x.i0() - over(&x.i1(), x);
    /// `e^(-|x|)·I₁(x)`, which does not overflow, as `scipy.special.i1e`. Takes floats.
    i1e => odd, |x| x.i0e() - over(&x.i1e(), x) - x.sign() * x.i1e();
}

/// `y/x`, with the limit 1/2 at 0, which holds for both quotients here.
fn over(y: &Tensor, x: &Tensor) -> Tensor {
    let zero = x.eq(0.0);
    zero.where_(0.5, y / zero.where_(1.0, x))
}

/// `e^|x|·y` in two half factors, so that it is finite whenever the result is; `x` itself if that is infinite.
fn grown(x: &Tensor, y: &Tensor) -> Tensor {
    let half = (x.abs() * 0.5).exp();
    x.is_inf().where_(x, y * &half * &half)
}

/// `1/x` mapped to [-1, 1], and `√x`, for x of at least 8.
fn far(size: &Tensor) -> (Tensor, Tensor) {
    let x = size.maximum(8.0);
    let scale = 2.0 / (FAR.1 - FAR.0);
    (x.recip() * scale - (FAR.0 * scale + 1.0), x.sqrt())
}

fn near(size: &Tensor) -> Tensor {
    size.minimum(8.0) * 0.25 - 1.0
}

/// `e⁻ˣ·I₀(x)` for `x ≥ 0`.
fn even(size: &Tensor) -> Tensor {
    let (t, root) = far(size);
    let far = polynomial(&t, &p::I0_FAR, &p::I0_FAR_SHORT) / root;
    size.le(8.0).where_(polynomial(&near(size), &p::I0, &p::I0_SHORT), far)
}

/// `e^(-|x|)·I₁(x)`.
fn odd(x: &Tensor) -> Tensor {
    let size = x.abs();
    let (t, root) = far(&size);
    let far = polynomial(&t, &p::I1_FAR, &p::I1_FAR_SHORT) / root;
    let y = size.le(8.0).where_(&size * polynomial(&near(&size), &p::I1, &p::I1_SHORT), far);
    x.lt(0.0).where_(-&y, y)
}
