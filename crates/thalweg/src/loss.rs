//! Losses and distances: plain compositions. All take floats; bf16 and f16 are computed in f32 and rounded once, at the
//! end.

use crate::record::{check_alike, check_float, shapes_differ, widened, wrong_dtype};
use crate::{Axis, DType, Tensor};

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Their mean; of class losses over the samples that count.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// They stay as they are.
    None,
}

impl Tensor {
    #[track_caller]
    fn reduced_loss(self, reduction: Reduction, dtype: DType) -> Tensor {
        match reduction {
            Reduction::Mean => self.mean(..),
            Reduction::Sum => self.sum(..),
            Reduction::None => self,
        }
        .cast(dtype)
    }

    /// This tensor and another of its shape, both widened.
    #[track_caller]
    fn pair(&self, name: &str, other: &Tensor) -> (Tensor, Tensor) {
        check_float(name, self);
        check_alike(name, self, other);
        if self.shape().broadcast(other.shape()).is_none() {
            shapes_differ(name, self.shape(), other.shape());
        }
        (widened(self), widened(other))
    }

    /// The squares of what differs: `(x - target)²`.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("mse_loss", target);
        (x - t).square().reduced_loss(reduction, self.dtype())
    }

    /// The magnitudes of what differs: `|x - target|`.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("l1_loss", target);
        (x - t).abs().reduced_loss(reduction, self.dtype())
    }

    /// `d²/2` where `d = |x - target|` is at most `delta`, beyond that the line which goes on from there (Huber 1964).
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("huber_loss", target);
        let d = (x - t).abs();
        d.le(delta).where_(d.square() * 0.5, (&d - 0.5 * delta) * delta).reduced_loss(reduction, self.dtype())
    }

    /// The binary cross entropy of these logits with target probabilities, without overflow:
    /// `max(x, 0) - x·target + ln(1 + e^(-|x|))`.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn bce_with_logits(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("bce_with_logits", target);
        (x.relu() - &x * t + (-x.abs()).exp().log1p()).reduced_loss(reduction, self.dtype())
    }

    /// How far a distribution `target` is from the one whose logarithms these are (Kullback and Leibler 1951):
    /// `target·(ln target - x)`, 0 where the target is 0. The mean is over all elements, as `torch.kl_div`'s; the mean
    /// over samples is the sum divided by their number.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("kl_div", target);
        t.gt(0.0).where_(&t * (t.log() - x), 0.0).reduced_loss(reduction, self.dtype())
    }

    /// Axis of the classes of logits, and the target with a dimension in its place.
    #[track_caller]
    fn classes(&self, name: &str, target: &Tensor) -> (usize, Tensor) {
        check_float(name, self);
        if !target.dtype().is_int() {
            wrong_dtype(name, "classes of an integer dtype", target.dtype());
        }
        let axis = if self.rank() == 1 { 0 } else { 1 };
        if self.rank() == 0 || self.shape().remove(axis) != *target.shape() {
            panic!("{name}: logits of shape {} and classes of shape {}", self.shape(), target.shape());
        }
        let index = self.as_index(name, target);
        (axis, index.unsqueeze(axis))
    }

    /// The cross entropy of these logits with class indices: `ln Σe^xⱼ - x[class]`. Classes are in dimension 1 (of a
    /// vector in dimension 0); the target has the other dimensions. A class that is none is an error where the value is
    /// read.
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let logits = Tensor::new([[0.0f32, 0.0], [100.0, 0.0]]);
    /// let loss = logits.cross_entropy(&Tensor::new([1i64, 0]), Reduction::None);
    /// assert_eq!(loss.to_vec::<f32>()?, [2f32.ln(), 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when the target's shape does not fit or it is not of an integer dtype.
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        self.cross_entropy_with(target, None, 0.0, reduction)
    }

    /// [`cross_entropy`](Tensor::cross_entropy) where samples of the class `ignore` do not count, and the target is
    /// mixed with the uniform distribution by `smoothing` (Szegedy et al. 2016).
    ///
    /// # Panics
    /// As [`cross_entropy`](Tensor::cross_entropy).
    #[track_caller]
    pub fn cross_entropy_with(
        &self,
        target: &Tensor,
        ignore: Option<i64>,
        smoothing: f64,
        reduction: Reduction,
    ) -> Tensor {
        let (axis, class) = self.classes("cross_entropy", target);
        let x = widened(self);
        let total = x.logsumexp_keepdim(axis);
        let mut loss = (&total - x.picked(axis, &class, ignore)) * (1.0 - smoothing);
        if smoothing != 0.0 {
            loss += (total - x.mean_keepdim(axis)) * smoothing;
        }
        loss.class_loss(axis, &class, ignore, reduction, self.dtype())
    }

    /// The negative log-likelihood: minus the element of the class, out of logarithms of probabilities as
    /// [`log_softmax`](Tensor::log_softmax) gives them. Shapes as in [`cross_entropy`](Tensor::cross_entropy).
    ///
    /// # Panics
    /// As [`cross_entropy`](Tensor::cross_entropy).
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, ignore: Option<i64>, reduction: Reduction) -> Tensor {
        let (axis, class) = self.classes("nll_loss", target);
        let loss = -widened(self).picked(axis, &class, ignore);
        loss.class_loss(axis, &class, ignore, reduction, self.dtype())
    }

    /// The elements of the classes, any where those do not count.
    #[track_caller]
    fn picked(&self, axis: usize, class: &Tensor, ignore: Option<i64>) -> Tensor {
        match ignore {
            Some(ignore) => self.gathered(axis, &class.eq(ignore).where_(0, class)),
            None => self.gathered(axis, class),
        }
    }

    #[track_caller]
    fn class_loss(
        self,
        axis: usize,
        class: &Tensor,
        ignore: Option<i64>,
        reduction: Reduction,
        dtype: DType,
    ) -> Tensor {
        let shape = self.shape().remove(axis);
        let Some(ignore) = ignore else { return self.reshaped(shape).reduced_loss(reduction, dtype) };
        let counts = class.ne(ignore);
        let loss = counts.where_(&self, 0.0).reshaped(shape);
        match reduction {
            Reduction::Mean => (loss.sum(..) / counts.cast(loss.dtype()).sum(..)).cast(dtype),
            other => loss.reduced_loss(other, dtype),
        }
    }

    /// The cosine of the angle between vectors along an axis: `a·b/(|a|·|b|)`, each norm at least `eps`. Shapes
    /// broadcast.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats, or there is no such axis.
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl Into<Axis>, eps: f64) -> Tensor {
        let (a, b) = self.pair("cosine_similarity", other);
        let shape = a.shape().broadcast(b.shape()).expect("just checked");
        let axis = axis.into().of("cosine_similarity", shape.rank());
        let (a, b) = (a.broadcast_to(shape), b.broadcast_to(shape));
        let lengths = a.norm(axis).maximum(eps) * b.norm(axis).maximum(eps);
        ((a * b).sum(axis) / lengths).cast(self.dtype())
    }

    /// The distance of every row of one matrix from every row of another by the p-norm; leading dimensions broadcast.
    ///
    /// # Panics
    /// When a rank is below 2, rows differ in length, leading dimensions do not broadcast, or dtypes differ or are not
    /// floats.
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        check_float("cdist", self);
        check_alike("cdist", self, other);
        let (m, n) = (self.rank(), other.rank());
        let fits = m >= 2 && n >= 2 && self.dims()[m - 1] == other.dims()[n - 1];
        if !fits || m.max(n) == crate::MAX_RANK {
            panic!(
                "cdist: takes two matrices of rows of one length, not shapes {} and {}",
                self.shape(),
                other.shape()
            );
        }
        let (a, b) = (widened(self).unsqueeze(-2), widened(other).unsqueeze(-3));
        if a.shape().broadcast(b.shape()).is_none() {
            shapes_differ("cdist", self.shape(), other.shape());
        }
        (a - b).norm_p(p, -1).cast(self.dtype())
    }
}
