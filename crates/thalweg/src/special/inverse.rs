//! The inverse of the error function, by the rational functions of algorithm AS 241 (Wichura 1988) for the normal
//! distribution, with a relative error of 1e-16.
#![allow(clippy::excessive_precision, clippy::unreadable_literal, reason = "numbers as they were published")]

use super::function;
use crate::{DType, Tensor};
use std::f64::consts::FRAC_1_SQRT_2;

/// Rational function: coefficients of numerator and denominator, the lowest first.
type Ratio = ([f64; 8], [f64; 8]);

const CENTRE: Ratio = (
    [
        3.3871328727963666080e0,
        1.3314166789178437745e+2,
        1.9715909503065514427e+3,
        1.3731693765509461125e+4,
        4.5921953931549871457e+4,
        6.7265770927008700853e+4,
        3.3430575583588128105e+4,
        2.5090809287301226727e+3,
    ],
    [
        1.0,
        4.2313330701600911252e+1,
        6.8718700749205790830e+2,
        5.3941960214247511077e+3,
        2.1213794301586595867e+4,
        3.9307895800092710610e+4,
        2.8729085735721942674e+4,
        5.2264952788528545610e+3,
    ],
);
const TAIL: Ratio = (
    [
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ],
    [
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ],
);
const FAR_TAIL: Ratio = (
    [
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ],
    [
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ],
);

/// # Special functions: inverse error function
impl Tensor {
    /// The inverse of [`erf`](Tensor::erf), as `scipy.special.erfinv` and `torch.erfinv`: ±∞ at ±1, NaN outside [-1, 1].
    /// Takes floats. Its derivative is `√π/2·e^(y²)`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(0.5f64).erfinv().allclose(0.476936276204, 1e-9, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float.
    #[track_caller]
    pub fn erfinv(&self) -> Tensor {
        function("erfinv", self, erfinv, |x| x.erfinv().square().exp() * (std::f64::consts::PI.sqrt() / 2.0))
    }
}

fn ratio(t: &Tensor, (above, below): &Ratio) -> Tensor {
    super::polynomial(t, above, above) / super::polynomial(t, below, below)
}

/// The quantile of the normal distribution at `(x + 1)/2`, divided by √2.
fn erfinv(x: &Tensor) -> Tensor {
    let q = x * 0.5;
    let centre = &q * ratio(&(0.180625 - q.square()), &CENTRE);
    let size = x.abs();
    let r = (-((1.0 - &size) * 0.5).log()).sqrt();
    // Clamped where this branch is not selected, so that it is finite there.
    let near = r.minimum(5.0);
    let mut tail = ratio(&(near - 1.6), &TAIL);
    if x.dtype() == DType::F64 {
        let far = r.clamp(5.0, 27.0);
        tail = r.le(5.0).where_(tail, ratio(&(far - 5.0), &FAR_TAIL));
    }
    let tail = size.eq(1.0).where_(f64::INFINITY, tail);
    let tail = x.lt(0.0).where_(-&tail, tail);
    let y = q.abs().le(0.425).where_(centre, tail) * FRAC_1_SQRT_2;
    size.gt(1.0).where_(f64::NAN, y)
}
