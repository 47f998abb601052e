//! Softmax and normalisations: plain compositions, each over one set of axes, so that what follows the reductions can
//! share their pass. All take floats; bf16 and f16 are computed in f32 and rounded once, at the end.

use crate::record::{check_float, widened};
use crate::{Axes, Axis, MAX_RANK, Shape, Tensor};

/// A tensor times a weight plus a bias, each if it is there; in the tensor's dtype.
#[track_caller]
fn affine(x: Tensor, weight: Option<Tensor>, bias: Option<Tensor>) -> Tensor {
    let x = match weight {
        Some(w) => x * widened(&w),
        None => x,
    };
    match bias {
        Some(b) => x + widened(&b),
        None => x,
    }
}

impl Tensor {
    /// Centred over the axes and divided by the deviation; this tensor is widened.
    #[track_caller]
    fn normalized(&self, axes: Axes, eps: f64) -> Tensor {
        let centred = self - self.mean_keepdim(axes);
        let var = centred.square().mean_keepdim(axes);
        centred * (var + eps).rsqrt()
    }

    /// A weight a channel, in a shape that broadcasts against this tensor's, channels in dimension 1.
    #[track_caller]
    fn channels(&self, name: &str, weight: Option<&Tensor>) -> Option<Tensor> {
        let weight = weight?;
        crate::record::check_alike(name, self, weight);
        if weight.dims() != &self.dims()[1..2] {
            panic!("{name}: {} for the channels of shape {}", weight.shape(), self.shape());
        }
        let mut shape = Shape::new(&[1; MAX_RANK][..self.rank()]);
        shape.dims_mut()[1] = self.dims()[1];
        Some(weight.reshaped(shape))
    }

    #[track_caller]
    fn check_channels(&self, name: &str) {
        check_float(name, self);
        if self.rank() < 2 {
            panic!("{name}: takes samples of channels (rank 2 or more), not shape {}", self.shape());
        }
    }

    /// `e^xᵢ / Σe^xⱼ` along an axis, without overflow on the way.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when the axis does not exist.
    #[track_caller]
    pub fn softmax(&self, axis: impl Into<Axis>) -> Tensor {
        check_float("softmax", self);
        let axis = axis.into().of("softmax", self.rank());
        if self.numel() == 0 {
            return self.clone();
        }
        let x = widened(self);
        // The largest is taken out as a constant: it changes nothing, and so has no gradient.
        let e = (&x - x.detach().amax_keepdim(axis)).exp();
        (&e / e.sum_keepdim(axis)).cast(self.dtype())
    }

    /// `xᵢ - ln Σe^xⱼ` along an axis: the logarithm of [`softmax`](Tensor::softmax), accurate where that is small.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when the axis does not exist.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Into<Axis>) -> Tensor {
        check_float("log_softmax", self);
        let axis = axis.into().of("log_softmax", self.rank());
        if self.numel() == 0 {
            return self.clone();
        }
        let x = widened(self);
        let centred = &x - x.detach().amax_keepdim(axis);
        (&centred - centred.exp().sum_keepdim(axis).log()).cast(self.dtype())
    }

    /// `(x - mean)/√(var + eps)` over the axes, usually -1 (Ba, Kiros and Hinton 2016).
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn layer_norm(&self, axes: impl Into<Axes>, eps: f64) -> Tensor {
        check_float("layer_norm", self);
        widened(self).normalized(axes.into(), eps).cast(self.dtype())
    }

    /// [`layer_norm`](Tensor::layer_norm), times a weight, plus a bias; both broadcast.
    ///
    /// # Panics
    /// On a dtype that is not a float, when an axis does not exist, shapes do not broadcast or dtypes differ.
    #[track_caller]
    pub fn layer_norm_with(
        &self,
        axes: impl Into<Axes>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        check_float("layer_norm", self);
        let (weight, bias) = (self.fitting("layer_norm", weight), self.fitting("layer_norm", bias));
        affine(widened(self).normalized(axes.into(), eps), weight, bias).cast(self.dtype())
    }

    /// A weight that broadcasts to this tensor's shape.
    #[track_caller]
    fn fitting(&self, name: &str, weight: Option<&Tensor>) -> Option<Tensor> {
        let weight = weight?;
        crate::record::check_alike(name, self, weight);
        if weight.shape().broadcast(self.shape()) != Some(*self.shape()) {
            crate::record::shapes_differ(name, self.shape(), weight.shape());
        }
        Some(weight.clone())
    }

    /// `x/√(mean(x²) + eps)` over the axes, usually -1 (Zhang and Sennrich 2019).
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn rms_norm(&self, axes: impl Into<Axes>, eps: f64) -> Tensor {
        self.rms_norm_with(axes, None, eps)
    }

    /// [`rms_norm`](Tensor::rms_norm), times a weight that broadcasts.
    ///
    /// # Panics
    /// On a dtype that is not a float, when an axis does not exist, shapes do not broadcast or dtypes differ.
    #[track_caller]
    pub fn rms_norm_with(&self, axes: impl Into<Axes>, weight: Option<&Tensor>, eps: f64) -> Tensor {
        check_float("rms_norm", self);
        let weight = self.fitting("rms_norm", weight);
        let x = widened(self);
        let y = &x * (x.square().mean_keepdim(axes) + eps).rsqrt();
        affine(y, weight, None).cast(self.dtype())
    }

    /// `(x - mean)/√(var + eps)` over each group of channels of each sample, times a weight a channel, plus a bias a
    /// channel (Wu and He 2018). Dimension 0 are samples, dimension 1 channels.
    ///
    /// # Panics
    /// On a dtype that is not a float, a rank below 2, channels that do not divide into the groups, or weights that are
    /// not one a channel.
    #[track_caller]
    pub fn group_norm(&self, groups: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        self.check_channels("group_norm");
        let channels = self.dims()[1];
        if groups == 0 || !channels.is_multiple_of(groups) {
            panic!("group_norm: the {channels} channels of shape {} do not divide into {groups} groups", self.shape());
        }
        let (weight, bias) = (self.channels("group_norm", weight), self.channels("group_norm", bias));
        if self.numel() == 0 {
            return self.clone();
        }
        let samples = self.dims()[0];
        let grouped = widened(self).reshaped(Shape::new(&[samples, groups, self.numel() / samples / groups]));
        let y = grouped.normalized(2.into(), eps).reshaped(*self.shape());
        affine(y, weight, bias).cast(self.dtype())
    }

    /// [`group_norm`](Tensor::group_norm) with each channel a group of its own (Ulyanov, Vedaldi and Lempitsky 2016).
    ///
    /// # Panics
    /// As [`group_norm`](Tensor::group_norm).
    #[track_caller]
    pub fn instance_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        self.check_channels("instance_norm");
        let channels = self.dims()[1];
        if channels == 0 { self.clone() } else { self.group_norm(channels, weight, bias, eps) }
    }

    /// `(x - mean)/√(var + eps)` with a mean and variance a channel that are known, times a weight, plus a bias a
    /// channel (Ioffe and Szegedy 2015): as a trained network runs. Dimension 1 are channels.
    ///
    /// # Panics
    /// On a dtype that is not a float, a rank below 2, or when one of the others is not one a channel.
    #[track_caller]
    pub fn batch_norm(
        &self,
        mean: &Tensor,
        var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        self.check_channels("batch_norm");
        let (Some(mean), Some(var)) = (self.channels("batch_norm", Some(mean)), self.channels("batch_norm", Some(var)))
        else {
            unreachable!("both were given")
        };
        let (weight, bias) = (self.channels("batch_norm", weight), self.channels("batch_norm", bias));
        let y = (widened(self) - widened(&mean)) * (widened(&var) + eps).rsqrt();
        affine(y, weight, bias).cast(self.dtype())
    }

    /// [`batch_norm`](Tensor::batch_norm) with the mean and variance of the batch itself, as a network is trained: the
    /// result, and the running mean and variance moved toward those of the batch by `momentum` (the variance by the
    /// unbiased one, as in PyTorch).
    ///
    /// # Panics
    /// As [`batch_norm`](Tensor::batch_norm).
    #[track_caller]
    pub fn batch_norm_train(
        &self,
        running: (&Tensor, &Tensor),
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        momentum: f64,
        eps: f64,
    ) -> (Tensor, Tensor, Tensor) {
        self.check_channels("batch_norm");
        let (old_mean, old_var) = running;
        for old in [old_mean, old_var] {
            let _ = self.channels("batch_norm", Some(old));
        }
        let (weight, bias) = (self.channels("batch_norm", weight), self.channels("batch_norm", bias));
        let axes: Vec<usize> = (0..self.rank()).filter(|&i| i != 1).collect();
        let x = widened(self);
        let mean = x.mean_keepdim(&axes);
        let centred = &x - &mean;
        let var = centred.square().mean_keepdim(&axes);
        let y = affine(&centred * (&var + eps).rsqrt(), weight, bias).cast(self.dtype());
        let count = (self.numel() / self.dims()[1].max(1)) as f64;
        let channels = *old_mean.shape();
        let toward = |old: &Tensor, new: Tensor| {
            // Statistics are no part of the function that is trained.
            let (old, new) = (old.detach(), new.detach());
            let moved = widened(&old) * (1.0 - momentum) + new.reshaped(channels) * momentum;
            moved.cast(old.dtype())
        };
        let unbiased = var * (count / (count - 1.0).max(1.0));
        (y, toward(old_mean, mean), toward(old_var, unbiased))
    }
}
