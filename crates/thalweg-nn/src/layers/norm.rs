//! Normalization layers.

use crate::{Buffer, Mode, Module, Tensor, init, leaf};
use thalweg::{DType, Shape};

/// Default epsilon added to variances, as in PyTorch.
const EPS: f64 = 1e-5;

macro_rules! batch_norms {
    ($($name:ident $ranks:pat, $shape:literal;)*) => {$(
        #[doc = concat!("A mean of 0 and a variance of 1 for each channel of `", $shape,
            "`, over the batch while it is trained, over all batches so far afterwards; then a scale and a shift a \
            channel ([`Tensor::batch_norm_train`]).")]
        ///
        /// In training, `forward` updates the running statistics, which are buffers.
        #[derive(Module, Clone)]
        pub struct $name {
            /// The scale, `[channels]`.
            pub weight: Option<Tensor>,
            /// The shift, `[channels]`.
            pub bias: Option<Tensor>,
            /// Running mean.
            pub running_mean: Buffer,
            /// Running variance.
            pub running_var: Buffer,
            /// Number of batches seen in training.
            pub num_batches_tracked: Buffer,
            momentum: f64,
            eps: f64,
            /// Training mode, in which statistics of the batch are used.
            pub mode: Mode,
        }

        impl $name {
            /// Makes a norm for `channels` channels, with momentum 0.1.
            #[track_caller]
            pub fn new(channels: usize) -> $name {
                $name {
                    weight: Some(init::ones([channels])),
                    bias: Some(init::zeros([channels])),
                    running_mean: Buffer::new(Tensor::zeros([channels])),
                    running_var: Buffer::new(Tensor::ones([channels])),
                    num_batches_tracked: Buffer::new(Tensor::zeros_with([0; 0], DType::I64)),
                    momentum: 0.1,
                    eps: EPS,
                    mode: Mode::default(),
                }
            }

            /// Sets the momentum: the fraction by which running statistics move toward those of a batch.
            #[must_use]
            pub fn momentum(self, momentum: f64) -> $name {
                $name { momentum, ..self }
            }

            /// Sets the epsilon added to variances.
            #[must_use]
            pub fn eps(self, eps: f64) -> $name {
                $name { eps, ..self }
            }

            /// Removes scale and shift.
            #[must_use]
            pub fn without_affine(self) -> $name {
                $name { weight: None, bias: None, ..self }
            }

            #[doc = concat!("`", $shape, "`.")]
            ///
            /// # Panics
            /// If shapes do not match or dtypes differ.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                if !matches!(x.rank(), $ranks) {
                    panic!(concat!(stringify!($name), ": takes ", $shape, ", not shape {}"), x.shape());
                }
                let (mean, var) = (self.running_mean.get(), self.running_var.get());
                let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
                if !self.mode.is_training() {
                    return x.batch_norm(&mean, &var, weight, bias, self.eps);
                }
                let (y, mean, var) = x.batch_norm_train((&mean, &var), weight, bias, self.momentum, self.eps);
                self.running_mean.set(leaf::detached(&mean));
                self.running_var.set(leaf::detached(&var));
                self.num_batches_tracked.set(self.num_batches_tracked.get() + 1);
                y
            }
        }
    )*};
}
batch_norms! {
    BatchNorm1d 2..=3, "[samples, channels] or [samples, channels, length]";
    BatchNorm2d 4, "[samples, channels, height, width]";
    BatchNorm3d 5, "[samples, channels, depth, height, width]";
}

macro_rules! instance_norms {
    ($($name:ident $rank:literal, $shape:literal;)*) => {$(
        #[doc = concat!("A mean of 0 and a variance of 1 for each channel of each sample of `", $shape,
            "` ([`Tensor::instance_norm`]).")]
        #[derive(Module, Clone)]
        pub struct $name {
            /// The scale, `[channels]`; `None` unless [`affine`](Self::affine) adds it.
            pub weight: Option<Tensor>,
            /// The shift, `[channels]`.
            pub bias: Option<Tensor>,
            channels: usize,
            eps: f64,
        }

        impl $name {
            /// Makes a norm for `channels` channels, without scale and shift.
            pub fn new(channels: usize) -> $name {
                $name { weight: None, bias: None, channels, eps: EPS }
            }

            /// Adds scale and shift.
            #[must_use]
            #[track_caller]
            pub fn affine(self) -> $name {
                let size = [self.channels];
                $name { weight: Some(init::ones(size)), bias: Some(init::zeros(size)), ..self }
            }

            #[doc = concat!("`", $shape, "`.")]
            ///
            /// # Panics
            /// If shapes do not match or dtypes differ.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                if x.rank() != $rank || x.dims()[1] != self.channels {
                    panic!(
                        concat!(stringify!($name), ": takes ", $shape, " of {} channels, not shape {}"),
                        self.channels, x.shape()
                    );
                }
                x.instance_norm(self.weight.as_ref(), self.bias.as_ref(), self.eps)
            }
        }
    )*};
}
instance_norms! {
    InstanceNorm1d 3, "[samples, channels, length]";
    InstanceNorm2d 4, "[samples, channels, height, width]";
    InstanceNorm3d 5, "[samples, channels, depth, height, width]";
}

/// Layer normalization: mean 0 and variance 1 over the last dimensions, then scale and shift
/// ([`Tensor::layer_norm_with`]).
#[derive(Module, Clone)]
pub struct LayerNorm {
    /// The scale, of the normalized shape.
    pub weight: Option<Tensor>,
    /// The shift, of the normalized shape.
    pub bias: Option<Tensor>,
    #[module(skip)]
    shape: Shape,
    eps: f64,
}

impl LayerNorm {
    /// Makes a norm over the last dimensions, which have these sizes.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>) -> LayerNorm {
        let shape = shape.into();
        LayerNorm { weight: Some(init::ones(shape)), bias: Some(init::zeros(shape)), shape, eps: EPS }
    }

    /// Sets the epsilon added to variances.
    #[must_use]
    pub fn eps(self, eps: f64) -> LayerNorm {
        LayerNorm { eps, ..self }
    }

    /// Removes the shift.
    #[must_use]
    pub fn without_bias(self) -> LayerNorm {
        LayerNorm { bias: None, ..self }
    }

    /// Removes scale and shift.
    #[must_use]
    pub fn without_affine(self) -> LayerNorm {
        LayerNorm { weight: None, bias: None, ..self }
    }

    /// Normalizes `[.., sizes]`, where `sizes` is the normalized shape.
    ///
    /// # Panics
    /// If the last dimensions have other sizes, or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let axes = last("LayerNorm", x, &self.shape);
        x.layer_norm_with(axes, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
}

/// Axes of `x` that are normalized: its last ones, which must have the sizes of `shape`.
#[track_caller]
fn last(name: &str, x: &Tensor, shape: &Shape) -> Vec<usize> {
    if !x.dims().ends_with(shape.dims()) {
        panic!("{name}: normalises the last dimensions of sizes {shape}, not those of shape {}", x.shape());
    }
    (x.rank() - shape.rank()..x.rank()).collect()
}

/// RMS normalization: division by the root mean square over the last dimensions, then a scale
/// ([`Tensor::rms_norm_with`]).
#[derive(Module, Clone)]
pub struct RmsNorm {
    /// The scale, of the normalized shape.
    pub weight: Option<Tensor>,
    #[module(skip)]
    shape: Shape,
    eps: Option<f64>,
}

impl RmsNorm {
    /// Makes a norm over the last dimensions, which have these sizes. The default epsilon is that of the dtype (f32's
    /// for bf16 and f16), as in PyTorch.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>) -> RmsNorm {
        let shape = shape.into();
        RmsNorm { weight: Some(init::ones(shape)), shape, eps: None }
    }

    /// Sets the epsilon added to the mean square.
    #[must_use]
    pub fn eps(self, eps: f64) -> RmsNorm {
        RmsNorm { eps: Some(eps), ..self }
    }

    /// Removes the scale.
    #[must_use]
    pub fn without_affine(self) -> RmsNorm {
        RmsNorm { weight: None, ..self }
    }

    /// Normalizes `[.., sizes]`, where `sizes` is the normalized shape.
    ///
    /// # Panics
    /// If the last dimensions have other sizes, or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let axes = last("RmsNorm", x, &self.shape);
        let eps = self.eps.unwrap_or(match x.dtype() {
            DType::F64 => f64::EPSILON,
            // bf16 and f16 are computed in f32.
            _ => f32::EPSILON as f64,
        });
        x.rms_norm_with(axes, self.weight.as_ref(), eps)
    }
}

/// Group normalization: mean 0 and variance 1 over groups of channels of each sample, then scale and shift per channel
/// ([`Tensor::group_norm`]).
#[derive(Module, Clone)]
pub struct GroupNorm {
    /// The scale, `[channels]`.
    pub weight: Option<Tensor>,
    /// The shift, `[channels]`.
    pub bias: Option<Tensor>,
    groups: usize,
    eps: f64,
}

impl GroupNorm {
    /// Makes a norm for `channels` channels in `groups` groups.
    ///
    /// # Panics
    /// If the channels are not divisible by the groups.
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> GroupNorm {
        let fits = groups > 0 && channels.is_multiple_of(groups);
        assert!(fits, "GroupNorm: {channels} channels do not divide into {groups} groups");
        let (weight, bias) = (Some(init::ones([channels])), Some(init::zeros([channels])));
        GroupNorm { weight, bias, groups, eps: EPS }
    }

    /// Sets the epsilon added to variances.
    #[must_use]
    pub fn eps(self, eps: f64) -> GroupNorm {
        GroupNorm { eps, ..self }
    }

    /// Removes scale and shift.
    #[must_use]
    pub fn without_affine(self) -> GroupNorm {
        GroupNorm { weight: None, bias: None, ..self }
    }

    /// Normalizes `[samples, channels, ..]`.
    ///
    /// # Panics
    /// If shapes do not match or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.groups, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
}
