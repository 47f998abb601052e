//! Softmax and normalizations. They are plain compositions, each over one set of axes, so that the operations after the
//! reductions can share their kernel. All take floats; bf16 and f16 are computed in f32 and rounded once, at the end.

use crate::record::{check_float, widened};
use crate::{Axes, Axis, MAX_RANK, Shape, Tensor};

/// Computes `x·weight + bias`, each if given, in the dtype of `x`.
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

/// # Softmax and normalization
///
/// Plain compositions that fuse with what surrounds them. All take floats; bf16 and f16 are computed in f32 and rounded
/// once, at the end.
impl Tensor {
    /// `(x - mean)/√(var + eps)` over the axes; `self` is already widened.
    #[track_caller]
    fn normalized(&self, axes: Axes, eps: f64) -> Tensor {
        let centred = self - self.mean_keepdim(axes);
        let var = centred.square().mean_keepdim(axes);
        centred * (var + eps).rsqrt()
    }

    /// A weight per channel in a shape that broadcasts against this tensor's, with channels in dimension 1.
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

    /// `e^xᵢ / Σe^xⱼ` along an axis, without overflow, as `torch.softmax`.
    ///
    /// See also [`log_softmax`](Tensor::log_softmax); [`cross_entropy`](Tensor::cross_entropy) takes logits, so it
    /// needs neither.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[0.0f32, 0.0], [1000.0, 0.0]]).softmax(-1).to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
        // The maximum is subtracted as a constant: the result does not depend on it, so it has no gradient.
        let e = (&x - x.detach().amax_keepdim(axis)).exp();
        (&e / e.sum_keepdim(axis)).cast(self.dtype())
    }

    /// `xᵢ - ln Σe^xⱼ` along an axis, as `torch.log_softmax`: the logarithm of [`softmax`](Tensor::softmax), accurate
    /// where that is small.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1000.0f32, 0.0]).log_softmax(0).to_vec::<f32>()?, [0.0, -1000.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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

    /// Vectors along the axes divided by their p-norm, or by `eps` if that is larger: `x/max(‖x‖ₚ, eps)`, as
    /// `torch.nn.functional.normalize` (`p` = 2, `eps` = 1e-12 there). A vector of zeros stays zeros.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[3.0f32, 4.0], [0.0, 0.0]]);
    /// assert!(x.normalize(2.0, -1, 1e-12).allclose(Tensor::new([[0.6f32, 0.8], [0.0, 0.0]]), 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn normalize(&self, p: f64, axes: impl Into<Axes>, eps: f64) -> Tensor {
        check_float("normalize", self);
        let axes = axes.into();
        let _ = axes.mask("normalize", self.rank());
        if self.numel() == 0 {
            return self.clone();
        }
        let x = widened(self);
        (&x / x.norm_p_keepdim(p, axes).maximum(eps)).cast(self.dtype())
    }

    /// Layer normalization: `(x - mean)/√(var + eps)` over the axes, usually -1 (Ba, Kiros and Hinton 2016).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1.0f32, 3.0]]).layer_norm(-1, 0.0).to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn layer_norm(&self, axes: impl Into<Axes>, eps: f64) -> Tensor {
        check_float("layer_norm", self);
        widened(self).normalized(axes.into(), eps).cast(self.dtype())
    }

    /// [`layer_norm`](Tensor::layer_norm) with a weight and a bias; both broadcast.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (x, weight) = (Tensor::new([[1.0f32, 3.0]]), Tensor::new([2.0f32, 5.0]));
    /// assert_eq!(x.layer_norm_with(-1, Some(&weight), None, 0.0).to_vec::<f32>()?, [-2.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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

    /// A weight, checked to broadcast to this tensor's shape.
    #[track_caller]
    fn fitting(&self, name: &str, weight: Option<&Tensor>) -> Option<Tensor> {
        let weight = weight?;
        crate::record::check_alike(name, self, weight);
        if weight.shape().broadcast(self.shape()) != Some(*self.shape()) {
            crate::record::shapes_differ(name, self.shape(), weight.shape());
        }
        Some(weight.clone())
    }

    /// RMS normalization: `x/√(mean(x²) + eps)` over the axes, usually -1 (Zhang and Sennrich 2019).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[2.0f32, -2.0]]).rms_norm(-1, 0.0).to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn rms_norm(&self, axes: impl Into<Axes>, eps: f64) -> Tensor {
        self.rms_norm_with(axes, None, eps)
    }

    /// [`rms_norm`](Tensor::rms_norm) with a weight that broadcasts.
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

    /// Group normalization: `(x - mean)/√(var + eps)` over each group of channels of each sample, times a weight and
    /// plus a bias per channel (Wu and He 2018). Samples are dimension 0, channels dimension 1.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[[1.0f32], [3.0], [5.0], [5.0]]]);                   // four channels in two groups
    /// assert_eq!(x.group_norm(2, None, None, 1e-12).to_vec::<f32>()?, [-1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, a rank below 2, a number of channels that `groups` does not divide, or a weight
    /// or bias without one element per channel.
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

    /// Instance normalization: [`group_norm`](Tensor::group_norm) with one channel per group (Ulyanov, Vedaldi and
    /// Lempitsky 2016).
    ///
    /// # Panics
    /// As [`group_norm`](Tensor::group_norm).
    #[track_caller]
    pub fn instance_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        self.check_channels("instance_norm");
        let channels = self.dims()[1];
        if channels == 0 { self.clone() } else { self.group_norm(channels, weight, bias, eps) }
    }

    /// Batch normalization with known statistics, as a trained network runs: `(x - mean)/√(var + eps)` with a mean,
    /// variance, weight and bias per channel (Ioffe and Szegedy 2015). Channels are dimension 1.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (mean, var) = (Tensor::new([1.0f32]), Tensor::new([4.0f32]));
    /// let y = Tensor::new([[5.0f32], [1.0]]).batch_norm(&mean, &var, None, None, 0.0);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, a rank below 2, or when a statistic, the weight or the bias has not one element
    /// per channel.
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

    /// Batch normalization with the statistics of the batch, for training. Returns the result, and the running mean and
    /// variance moved toward those of the batch by `momentum` (the variance by the unbiased one, as in PyTorch).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let running = (Tensor::zeros([1]), Tensor::ones([1]));
    /// let x = Tensor::new([[1.0f32], [3.0]]);
    /// let (y, mean, var) = x.batch_norm_train((&running.0, &running.1), None, None, 0.5, 0.0);
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0]);
    /// assert_eq!((mean.item::<f32>()?, var.item::<f32>()?), (1.0, 1.5));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
            // Running statistics are no part of the differentiated function.
            let (old, new) = (old.detach(), new.detach());
            let moved = widened(&old) * (1.0 - momentum) + new.reshaped(channels) * momentum;
            moved.cast(old.dtype())
        };
        let unbiased = var * (count / (count - 1.0).max(1.0));
        (y, toward(old_mean, mean), toward(old_var, unbiased))
    }
}
