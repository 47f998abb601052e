//! Distributions other than uniform and normal.
//!
//! Distributions with a parameter for each element are methods of the tensor of parameters. Rejection sampling has no
//! loop here, because its condition would have to be read back. Instead so many proposals are drawn for each element
//! that all are rejected less than once in 10⁹ draws; the first accepted one is selected, in one kernel.

use super::{DEFAULT, Generator, from_system};
use crate::create::iota;
use crate::record::{check_float, widened};
use crate::{DType, Options, Shape, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Number of proposals for each element of a gamma distribution (`GAMMA_PROPOSALS`), of which 95 % are accepted, and of
/// a Poisson distribution (`POISSON_PROPOSALS`), of which 80 % are accepted.
const GAMMA_PROPOSALS: usize = 8;
const POISSON_PROPOSALS: usize = 16;
/// Mean below which a Poisson distribution is sampled by inversion; `TERMS` terms hold all but 10⁻¹² of it.
const MAX_INVERSION_MEAN: f64 = 10.0;
const TERMS: usize = 40;

/// Distributions with a method on tensors, which draws from the thread's generator, and one on generators.
macro_rules! of_parameters {
    ($($(#[$doc:meta])* $name:ident: $parameter:literal;)*) => {
        /// Distributions with a parameter for each element.
        impl Generator {$(
            #[doc = concat!("As [`Tensor::", stringify!($name), "`], of ", $parameter, ".")]
            ///
            /// # Panics
            /// On a dtype that is not a float.
            #[track_caller]
            pub fn $name(&mut self, parameters: &Tensor) -> Tensor {
                check_float(stringify!($name), parameters);
                $name(self, &widened(&parameters.detach())).cast(parameters.dtype())
            }
        )*}
        /// # Random numbers with a parameter for each element
        ///
        /// From the calling thread's generator. They have no gradient.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// On a dtype that is not a float.
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                draw!(g => g.$name(self))
            }
        )*}
    };
}

of_parameters! {
    /// Draws of 1 with each element as the probability, else 0, as `torch.bernoulli`; NaN counts as 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 1.0]).bernoulli().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bernoulli: "probabilities";
    /// Draws from the exponential distribution with each element as its rate: mean `1/rate`.
    exponential: "rates";
    /// Draws from the Poisson distribution with each element as its mean, as `torch.poisson`: integers in the tensor's
    /// dtype. Means below 10 use inversion, larger ones transformed rejection (Hörmann 1993). NaN for a negative mean.
    poisson: "means";
    /// Draws from the gamma distribution with each element as its shape, and scale 1 (Marsaglia and Tsang 2000). NaN
    /// for a shape that is not above 0.
    standard_gamma: "shapes";
}

fn uniform(g: &mut Generator, shape: Shape, like: &Tensor) -> Tensor {
    g.rand_with(shape, Options::of(like))
}

fn bernoulli(g: &mut Generator, p: &Tensor) -> Tensor {
    uniform(g, *p.shape(), p).lt(p).cast(p.dtype())
}

fn exponential(g: &mut Generator, rate: &Tensor) -> Tensor {
    -(-uniform(g, *rate.shape(), rate)).log1p() / rate
}

/// The shape with a first dimension of proposals.
fn proposals(shape: &Shape, count: usize) -> Shape {
    shape.insert(0, count)
}

/// The first accepted proposal along the first axis; the last one if none is accepted.
fn first_accepted(accepted: &Tensor, proposals: &Tensor) -> Tensor {
    let count = proposals.dims()[0];
    let number = iota(count, DType::I32, proposals.device()).down(0, proposals.shape());
    let first = accepted.where_(&number, count as i64 - 1).amin_keepdim(0);
    number.eq(first).where_(proposals, 0.0).sum(0)
}

fn standard_gamma(g: &mut Generator, alpha: &Tensor) -> Tensor {
    let shape = proposals(alpha.shape(), GAMMA_PROPOSALS);
    // Shapes below 1: a draw for the shape plus 1, times a power of a uniform number.
    let small = alpha.lt(1.0);
    let d = small.where_(alpha + 1.0, alpha) - 1.0 / 3.0;
    let c = (&d * 9.0).rsqrt();
    let x = g.randn_with(shape, Options::of(alpha));
    let u = uniform(g, shape, alpha);
    let v = &x * c + 1.0;
    let v = v.square() * &v;
    let log_v = v.gt(0.0).where_(&v, 1.0).log();
    let bound = x.square() * 0.5 + &d - &d * &v + &d * log_v;
    let accepted = v.gt(0.0) & (-u).log1p().lt(bound);
    let y = d * first_accepted(&accepted, &v);
    // u^(1/α), for a uniform number that is not 0.
    let w = (-uniform(g, *alpha.shape(), alpha)).log1p();
    let scaled = &y * (w / small.where_(alpha, 1.0)).exp();
    alpha.gt(0.0).where_(small.where_(scaled, y), f64::NAN)
}

fn poisson(g: &mut Generator, rate: &Tensor) -> Tensor {
    let few = poisson_by_inversion(g, &rate.clamp(0.0, MAX_INVERSION_MEAN));
    let many = poisson_by_rejection(g, &rate.maximum(MAX_INVERSION_MEAN));
    let y = rate.lt(MAX_INVERSION_MEAN).where_(few, many);
    rate.ge(0.0).where_(y, f64::NAN)
}

/// Draws from Poisson distributions with the means `rate`, below 10, by inversion: the number of partial sums of the
/// probabilities that are not above a uniform number.
fn poisson_by_inversion(g: &mut Generator, rate: &Tensor) -> Tensor {
    let u = uniform(g, *rate.shape(), rate);
    let mut term = (-rate).exp();
    let mut sum = term.clone();
    let mut count = u.ge(&sum).cast(rate.dtype());
    for k in 1..TERMS {
        term = term * rate / k as f64;
        sum = &sum + &term;
        count += u.ge(&sum).cast(rate.dtype());
    }
    count
}

/// Draws from Poisson distributions with the means `rate`, from 10 on, by Hörmann's PTRS algorithm.
fn poisson_by_rejection(g: &mut Generator, rate: &Tensor) -> Tensor {
    let shape = proposals(rate.shape(), POISSON_PROPOSALS);
    let (u, v) = (uniform(g, shape, rate) - 0.5, 1.0 - uniform(g, shape, rate));
    let log_rate = rate.log();
    let b = rate.sqrt() * 2.53 + 0.931;
    let a = &b * 0.02483 - 0.059;
    let alpha = 1.1239 + 1.1328 / (&b - 3.4);
    let sure = 0.9277 - 3.6224 / (&b - 2.0);
    let us = 0.5 - u.abs();
    let k = ((&a * 2.0 / &us + &b) * u + rate + 0.43).floor();
    let inside = k.ge(0.0);
    let known = inside.where_(&k, 0.0);
    let density = &known * log_rate - rate - (known + 1.0).lgamma();
    let proposed = (&v * alpha / (a / us.square() + b)).log();
    let quick = us.ge(0.07) & v.le(sure);
    let refused = !inside | (us.lt(0.013) & v.gt(&us));
    let accepted = quick | (!refused & proposed.le(density));
    first_accepted(&accepted, &k)
}

/// Distributions with fixed parameters.
impl Generator {
    /// Draws uniform numbers on [`low`, `high`), as f32; see [`Tensor::uniform`].
    #[track_caller]
    pub fn uniform(&mut self, low: f64, high: f64, shape: impl Into<Shape>) -> Tensor {
        self.rand(shape) * (high - low) + low
    }

    /// Draws normal numbers, as f32; see [`Tensor::normal`].
    #[track_caller]
    pub fn normal(&mut self, mean: f64, std: f64, shape: impl Into<Shape>) -> Tensor {
        self.randn(shape) * std + mean
    }

    /// Draws normal numbers between two bounds; see [`Tensor::truncated_normal`].
    ///
    /// # Panics
    /// When the bounds are not in order or `std` is not above 0.
    #[track_caller]
    pub fn truncated_normal(
        &mut self,
        (mean, std): (f64, f64),
        (low, high): (f64, f64),
        shape: impl Into<Shape>,
    ) -> Tensor {
        assert!(std > 0.0, "truncated_normal: the standard deviation {std} is not above 0");
        assert!(low < high, "truncated_normal: there is no range from {low} to {high}");
        let below = |x: f64| libm_erfc(-(x - mean) / std * FRAC_1_SQRT_2);
        // 2Φ at both bounds; a uniform number between them is mapped back. In f64, because Φ may be close to 1.
        let (from, to) = (below(low), below(high));
        let u = self.rand_with(shape, DType::F64);
        let y = (u * (to - from) + (from - 1.0)).erfinv() * (SQRT_2 * std) + mean;
        y.clamp(low, high).cast(DType::F32)
    }
}

/// `1 - erf(x)` of a number.
fn libm_erfc(x: f64) -> f64 {
    thalweg_ir::ElementOp::Erfc.row().meaning.float.expect("it is of floats")(&[x])
}

/// # Random numbers of a distribution
///
/// From the calling thread's generator.
impl Tensor {
    /// Uniform numbers on [`low`, `high`), as f32.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::uniform(-2.0, 2.0, [100]);
    /// assert!(x.abs().le(2.0).all(..).item::<bool>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn uniform(low: f64, high: f64, shape: impl Into<Shape>) -> Tensor {
        draw!(g => g.uniform(low, high, shape))
    }

    /// Normal numbers with a mean and a standard deviation, as f32.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::normal(5.0, 0.0, [2]).to_vec::<f32>()?, [5.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn normal(mean: f64, std: f64, shape: impl Into<Shape>) -> Tensor {
        draw!(g => g.normal(mean, std, shape))
    }

    /// Normal numbers with (mean, standard deviation), truncated to two bounds, as `torch.nn.init.trunc_normal_` and
    /// `scipy.stats.truncnorm`. As f32.
    ///
    /// # Panics
    /// When the bounds are not in order or the standard deviation is not above 0.
    #[track_caller]
    pub fn truncated_normal(mean_std: (f64, f64), bounds: (f64, f64), shape: impl Into<Shape>) -> Tensor {
        draw!(g => g.truncated_normal(mean_std, bounds, shape))
    }
}
