//! Initialization of weights: random tensors from the calling thread's generator ([`thalweg::manual_seed`]), as
//! `torch.nn.init`.
//!
//! Values are lazy: weights that are replaced by those of a file are never drawn.

use thalweg::{Shape, Tensor};

/// Gain of the nonlinearity that follows a layer; it scales the initial weights (He et al. 2015), as
/// `torch.nn.init.calculate_gain`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Gain {
    /// No nonlinearity, or one that keeps the variance: 1.
    Linear,
    /// `tanh`: 5/3.
    Tanh,
    /// `relu`: √2.
    Relu,
    /// `leaky_relu` with this slope: √(2/(1 + slope²)).
    LeakyRelu(f64),
    /// Any other factor.
    Number(f64),
}

impl Gain {
    /// Factor by which the gain scales the initial weights.
    pub fn value(self) -> f64 {
        match self {
            Gain::Linear => 1.0,
            Gain::Tanh => 5.0 / 3.0,
            Gain::Relu => 2f64.sqrt(),
            Gain::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Gain::Number(gain) => gain,
        }
    }
}

/// Fan-in and fan-out of weights `[out, in, kernel…]`: inputs per output, outputs per input.
///
/// # Panics
/// If the rank is below 2.
#[track_caller]
pub fn fans(shape: impl Into<Shape>) -> (usize, usize) {
    let shape = shape.into();
    assert!(shape.rank() >= 2, "fans: weights have at least two dimensions, not shape {shape}");
    let window: usize = shape.dims()[2..].iter().product();
    (shape.dims()[1] * window, shape.dims()[0] * window)
}

/// Random tensor with elements distributed uniformly between two bounds.
#[track_caller]
pub fn uniform(shape: impl Into<Shape>, low: f64, high: f64) -> Tensor {
    Tensor::rand(shape) * (high - low) + low
}

/// Random tensor with elements of the normal distribution with this mean and standard deviation.
#[track_caller]
pub fn normal(shape: impl Into<Shape>, mean: f64, deviation: f64) -> Tensor {
    Tensor::randn(shape) * deviation + mean
}

/// Random tensor with elements of the normal distribution truncated to `mean ± most·deviation`, as
/// `torch.nn.init.trunc_normal_`, by the inverse of the distribution function in f32.
///
/// # Panics
/// If `most` is not positive.
#[track_caller]
pub fn truncated_normal(shape: impl Into<Shape>, mean: f64, deviation: f64, most: f64) -> Tensor {
    assert!(most > 0.0, "truncated_normal: cut at {most} deviations");
    // Φ(x) = (1 + erf(x/√2))/2, so x = √2·erf⁻¹(u) for u uniform between ±erf(most/√2). Giles (2012) approximates
    // erf⁻¹ in f32 by a polynomial in w = -ln(1 - u²).
    let limit = erf(most / 2f64.sqrt()).min(1.0 - 2f64.powi(-24));
    let u = uniform(shape, -limit, limit);
    let w = -((1.0 - &u) * (1.0 + &u)).log();
    let polynomial = |terms: &[f64], x: Tensor| {
        let start = x.full_like(terms[0]);
        terms[1..].iter().fold(start, |sum, &term| sum * &x + term)
    };
    let near = polynomial(
        &[
            2.810_226_36e-8,
            3.432_739_39e-7,
            -3.523_387_7e-6,
            -4.391_506_54e-6,
            0.000_218_580_87,
            -0.001_253_725_03,
            -0.004_177_681_64,
            0.246_640_727,
            1.501_409_41,
        ],
        &w - 2.5,
    );
    let far = polynomial(
        &[
            -0.000_200_214_257,
            0.000_100_950_558,
            0.001_349_343_22,
            -0.003_673_428_44,
            0.005_739_507_73,
            -0.007_622_461_3,
            0.009_438_870_47,
            1.001_674_06,
            2.832_976_82,
        ],
        w.maximum(5.0).sqrt() - 3.0,
    );
    let x = w.lt(5.0).where_(near, far) * u * 2f64.sqrt();
    x.clamp(-most, most) * deviation + mean
}

/// Error function on the host by its power series, for a few numbers.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    (sum * 2.0 / std::f64::consts::PI.sqrt()).clamp(-1.0, 1.0)
}

/// Random weights, uniform with bound `gain·√(6/(in + out))`, which keeps the variance both forward and backward
/// (Glorot and Bengio 2010), as `torch.nn.init.xavier_uniform_`.
///
/// # Panics
/// If the rank is below 2.
#[track_caller]
pub fn xavier_uniform(shape: impl Into<Shape>, gain: Gain) -> Tensor {
    let shape = shape.into();
    let (inputs, outputs) = fans(shape);
    let bound = gain.value() * (6.0 / (inputs + outputs).max(1) as f64).sqrt();
    uniform(shape, -bound, bound)
}

/// [`xavier_uniform`] with a normal distribution of standard deviation `gain·√(2/(in + out))`.
///
/// # Panics
/// If the rank is below 2.
#[track_caller]
pub fn xavier_normal(shape: impl Into<Shape>, gain: Gain) -> Tensor {
    let shape = shape.into();
    let (inputs, outputs) = fans(shape);
    normal(shape, 0.0, gain.value() * (2.0 / (inputs + outputs).max(1) as f64).sqrt())
}

/// Random weights, uniform with bound `gain·√(3/in)`, which keeps the variance forward (He et al. 2015), as
/// `torch.nn.init.kaiming_uniform_`.
///
/// # Panics
/// If the rank is below 2.
#[track_caller]
pub fn kaiming_uniform(shape: impl Into<Shape>, gain: Gain) -> Tensor {
    let shape = shape.into();
    let bound = gain.value() * (3.0 / fans(shape).0.max(1) as f64).sqrt();
    uniform(shape, -bound, bound)
}

/// [`kaiming_uniform`] with a normal distribution of standard deviation `gain/√in`.
///
/// # Panics
/// If the rank is below 2.
#[track_caller]
pub fn kaiming_normal(shape: impl Into<Shape>, gain: Gain) -> Tensor {
    let shape = shape.into();
    normal(shape, 0.0, gain.value() / (fans(shape).0.max(1) as f64).sqrt())
}

/// Initial weights of linear layers and convolutions: uniform with bound `1/√in`, as in PyTorch.
#[track_caller]
pub(crate) fn weights(shape: impl Into<Shape>) -> Tensor {
    crate::leaf::new(kaiming_uniform(shape, Gain::LeakyRelu(5f64.sqrt())))
}

/// Initial biases of linear layers and convolutions: uniform with bound `1/√in`, as in PyTorch.
#[track_caller]
pub(crate) fn biases(size: usize, inputs: usize) -> Tensor {
    let bound = 1.0 / (inputs.max(1) as f64).sqrt();
    crate::leaf::new(uniform([size], -bound, bound))
}

/// Parameter of ones.
#[track_caller]
pub(crate) fn ones(shape: impl Into<Shape>) -> Tensor {
    crate::leaf::new(Tensor::ones(shape))
}

/// Parameter of zeros.
#[track_caller]
pub(crate) fn zeros(shape: impl Into<Shape>) -> Tensor {
    crate::leaf::new(Tensor::zeros(shape))
}
