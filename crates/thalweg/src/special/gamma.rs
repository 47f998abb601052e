//! The logarithm of the gamma function and its derivatives.
//!
//! From 3 on: Stirling's formula and a polynomial for its remainder. Between 1 and 3: a polynomial with the roots
//! factored out. Below 1: the recurrence. Negative numbers: the reflection formula.

use super::polynomials as p;
use super::{function, polynomial};
use crate::{DType, Tensor};
use std::f64::consts::PI;

/// ln(2π)/2.
const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// # Special functions: gamma
impl Tensor {
    /// `ln |Γ(x)|`, as `scipy.special.gammaln` and `torch.lgamma`. ∞ at 0, at negative integers and at ±∞; NaN for NaN.
    /// Takes floats. Its derivative is [`digamma`](Tensor::digamma).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f64, 5.0, 0.5]);
    /// let y = x.lgamma().exp().to_vec::<f64>()?;         // 0! = 1, 4! = 24, √π
    /// assert!((y[1] - 24.0).abs() < 1e-13 && (y[2] - std::f64::consts::PI.sqrt()).abs() < 1e-14);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float.
    #[doc(alias = "gammaln")]
    #[track_caller]
    pub fn lgamma(&self) -> Tensor {
        function("lgamma", self, lgamma, Tensor::digamma)
    }

    /// `ψ(x) = Γ′(x)/Γ(x)`, as `scipy.special.digamma` and `torch.digamma`. -∞ at 0, ∞ at -0, NaN at negative integers
    /// and -∞. Takes floats. Its derivative is [`trigamma`](Tensor::trigamma).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(1.0f64).digamma().allclose(-0.5772156649015329, 1e-12, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float.
    #[track_caller]
    pub fn digamma(&self) -> Tensor {
        function("digamma", self, digamma, Tensor::trigamma)
    }

    /// `ψ′(x)`, the derivative of [`digamma`](Tensor::digamma), as `scipy.special.polygamma(1, x)`. ∞ at 0 and negative
    /// integers. Takes floats.
    ///
    /// # Panics
    /// On a dtype that is not a float.
    #[doc(alias = "polygamma")]
    #[track_caller]
    pub fn trigamma(&self) -> Tensor {
        crate::record::check_float("trigamma", self);
        trigamma(&crate::record::widened(self)).cast(self.dtype())
    }
}

/// Argument reduced to at least 1: `x`, or `x + 1` if it is below 1.
struct Reduced {
    small: Tensor,
    z: Tensor,
}

impl Reduced {
    fn new(x: &Tensor) -> Reduced {
        let small = x.lt(1.0);
        Reduced { z: small.where_(x + 1.0, x), small }
    }

    /// Argument clamped to [1, 3], and the same mapped to [-1, 1].
    fn near(&self) -> (Tensor, Tensor) {
        let z = self.z.clamp(1.0, 3.0);
        let t = &z - 2.0;
        (z, t)
    }

    /// Argument z, at least 3, and 1/z² in [0, 1/9] mapped to [-1, 1].
    fn far(&self) -> (Tensor, Tensor) {
        // (A select, because `maximum` would halve the derivative at 3.)
        let z = self.z.lt(3.0).where_(3.0, &self.z);
        // The square of 1/z, because that of z overflows.
        let t = z.recip().square() * 18.0 - 1.0;
        (z, t)
    }

    fn choose(&self, near: Tensor, far: Tensor) -> Tensor {
        self.z.lt(3.0).where_(near, far)
    }
}

/// The distance of a number from the nearest integer, times π.
fn angle(x: &Tensor) -> Tensor {
    (x - x.round()) * PI
}

fn lgamma(x: &Tensor) -> Tensor {
    let size = x.abs();
    let reduced = Reduced::new(&size);
    let (z, t) = reduced.near();
    let near = (&z - 1.0) * (z - 2.0) * polynomial(&t, &p::GAMMA, &p::GAMMA_SHORT);
    let (z, t) = reduced.far();
    let rest = polynomial(&t, &p::GAMMA_FAR, &p::GAMMA_FAR_SHORT) / &z;
    let far = (&z - 0.5) * (z.log() - 1.0) + (HALF_LOG_TWO_PI - 0.5) + rest;
    let logarithm = size.log();
    let above = reduced.choose(near, far) - reduced.small.where_(&logarithm, 0.0);
    // Γ(x)·Γ(-x) = -π/(x·sin πx)
    let below = PI.ln() - logarithm - angle(&size).sin().abs().log() - &above;
    let y = x.lt(0.0).where_(below, &above);
    // A number whose result overflows the dtype is an integer.
    above.is_inf().where_(above, y)
}

fn digamma(x: &Tensor) -> Tensor {
    let below = x.lt(0.0);
    // ψ(1 - x) - ψ(x) = π·cot πx
    let reduced = Reduced::new(&below.where_(1.0 - x, x));
    let (z, t) = reduced.near();
    let root = if x.dtype() == DType::F64 {
        p::ROOT
    } else {
        let high = p::ROOT.0 as f32 as f64;
        (high, p::ROOT.0 - high)
    };
    let near = (z - root.0 - root.1) * polynomial(&t, &p::DIGAMMA, &p::DIGAMMA_SHORT);
    let (z, t) = reduced.far();
    let rest = polynomial(&t, &p::DIGAMMA_FAR, &p::DIGAMMA_FAR_SHORT) / z.square();
    let far = z.log() - z.recip() * 0.5 - rest;
    let y = reduced.choose(near, far) - reduced.small.where_(x.recip(), 0.0);
    let angle = angle(x);
    let pole = angle.eq(0.0).where_(f64::NAN, PI / angle.tan());
    below.where_(&y - pole, y)
}

fn trigamma(x: &Tensor) -> Tensor {
    let below = x.lt(0.0);
    let reduced = Reduced::new(&below.where_(1.0 - x, x));
    let (_, t) = reduced.near();
    let near = polynomial(&t, &p::TRIGAMMA, &p::TRIGAMMA_SHORT);
    let (z, t) = reduced.far();
    let v = z.recip();
    let square = v.square();
    let rest = polynomial(&t, &p::TRIGAMMA_FAR, &p::TRIGAMMA_FAR_SHORT) * &square * &v;
    let far = v + square * 0.5 + rest;
    // Computed for 1 where it is not added, so that its derivative is finite.
    let own = reduced.small.where_(x, 1.0).square().recip();
    let y = reduced.choose(near, far) + reduced.small.where_(own, 0.0);
    let sine = (below.where_(angle(x), 1.0)).sin();
    below.where_(sine.recip().square() * (PI * PI) - &y, y)
}
