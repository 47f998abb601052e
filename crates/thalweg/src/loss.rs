//! Losses and distances, as plain compositions. All take floats; bf16 and f16 are computed in f32 and rounded once, at
//! the end.

use crate::record::{check_alike, check_float, shapes_differ, widened, wrong_dtype};
use crate::reduce::flat_at_zero;
use crate::{Axis, Backward, DType, Tensor, custom_grad};
use thalweg_stream::Counted;

/// Reduction of the losses of single elements to the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Mean of the losses; for class losses, over the samples that are not ignored.
    #[default]
    Mean,
    /// Sum of the losses.
    Sum,
    /// No reduction: the result has the loss of each element.
    None,
}

/// Options of [`Tensor::cross_entropy_with`] and [`Tensor::nll_loss_with`], as those of PyTorch. Defaults: every class
/// and sample has weight 1, no smoothing, the mean.
///
/// ```
/// # use thalweg::{ClassLoss, Reduction, Tensor};
/// let logits = Tensor::new([[0.0f32, 0.0], [100.0, 0.0]]);
/// let rare = Tensor::new([1.0f32, 3.0]);
/// let loss = logits.cross_entropy_with(&Tensor::new([1i64, 0]), &ClassLoss::default().weights(&rare));
/// assert_eq!(loss.item::<f32>()?, 3.0 * 2f32.ln() / 4.0);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ClassLoss {
    ignore: Option<i64>,
    smoothing: f64,
    weights: Option<Tensor>,
    reduction: Reduction,
}

impl ClassLoss {
    /// Ignores samples of that class. Without effect if targets are probabilities.
    pub fn ignore(self, class: i64) -> ClassLoss {
        ClassLoss { ignore: Some(class), ..self }
    }

    /// Mixes targets with the uniform distribution, whose share is `smoothing` (Szegedy et al. 2016).
    pub fn smoothing(self, smoothing: f64) -> ClassLoss {
        ClassLoss { smoothing, ..self }
    }

    /// Sets the weight of each class, `[classes]`. Means are weighted means; if targets are probabilities, the sum of
    /// weighted losses is divided by the number of samples.
    pub fn weights(self, weights: &Tensor) -> ClassLoss {
        ClassLoss { weights: Some(weights.clone()), ..self }
    }

    /// Sets the reduction of the samples' losses.
    pub fn reduction(self, reduction: Reduction) -> ClassLoss {
        ClassLoss { reduction, ..self }
    }
}

/// # Losses
///
/// Against a target; [`Reduction`](crate::Reduction) says whether samples are averaged, summed or kept.
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

    /// Widens this tensor and another one that broadcasts with it.
    #[track_caller]
    fn pair(&self, name: &str, other: &Tensor) -> (Tensor, Tensor) {
        check_float(name, self);
        check_alike(name, self, other);
        if self.shape().broadcast(other.shape()).is_none() {
            shapes_differ(name, self.shape(), other.shape());
        }
        (widened(self), widened(other))
    }

    /// The squared error: `(x - target)²`.
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let (x, y) = (Tensor::new([1.0f32, 2.0]), Tensor::new([3.0f32, 2.0]));
    /// assert_eq!(x.mse_loss(&y, Reduction::Mean).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("mse_loss", target);
        (x - t).square().reduced_loss(reduction, self.dtype())
    }

    /// The absolute error: `|x - target|`.
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let (x, y) = (Tensor::new([1.0f32, 2.0]), Tensor::new([3.0f32, 2.0]));
    /// assert_eq!(x.l1_loss(&y, Reduction::Sum).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("l1_loss", target);
        (x - t).abs().reduced_loss(reduction, self.dtype())
    }

    /// The Huber loss: `d²/2` where `d = |x - target|` is at most `delta`, beyond that its tangent line
    /// `delta·(d - delta/2)` (Huber 1964).
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let (x, y) = (Tensor::new([0.0f32, 3.0]), Tensor::new([1.0f32, 0.0]));
    /// assert_eq!(x.huber_loss(&y, 1.0, Reduction::None).to_vec::<f32>()?, [0.5, 2.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let (logits, targets) = (Tensor::new([0.0f32]), Tensor::new([1.0f32]));
    /// assert!(logits.bce_with_logits(&targets, Reduction::Mean).allclose(0.6931472, 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn bce_with_logits(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("bce_with_logits", target);
        let shape = x.shape().broadcast(t.shape()).expect("just checked");
        let (x, t) = (x.broadcast_to(shape), t.broadcast_to(shape));
        // The derivative of the composition would use that of |x| at 0.
        let loss = custom_grad(
            (&x, &t),
            |(x, t)| x.relu() - &x * t + (-x.abs()).exp().log1p(),
            |Backward { inputs: (x, t), gradients: dy, .. }| (&dy * (x.sigmoid() - t), -(dy * x)),
        );
        loss.reduced_loss(reduction, self.dtype())
    }

    /// [`bce_with_logits`](Tensor::bce_with_logits) with a weight of positive targets, PyTorch's `pos_weight`; it
    /// broadcasts.
    ///
    /// # Panics
    /// As [`bce_with_logits`](Tensor::bce_with_logits).
    #[track_caller]
    pub fn bce_with_logits_weighted(&self, target: &Tensor, positive: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("bce_with_logits_weighted", target);
        let (_, w) = self.pair("bce_with_logits_weighted", positive);
        let loss = (1.0 - &t) * &x + (1.0 + (w - 1.0) * t) * (-x).softplus();
        loss.reduced_loss(reduction, self.dtype())
    }

    /// The Kullback-Leibler divergence of a distribution `target` from these log-probabilities:
    /// `target·(ln target - x)`, 0 where the target is 0 (Kullback and Leibler 1951). The mean is over all elements, as
    /// that of `torch.kl_div`; for the mean over samples, divide the sum by their number.
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let p = Tensor::new([0.5f32, 0.5]);
    /// assert_eq!(p.log().kl_div(&p, Reduction::Sum).item::<f32>()?, 0.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let (x, t) = self.pair("kl_div", target);
        t.gt(0.0).where_(&t * (t.log() - x), 0.0).reduced_loss(reduction, self.dtype())
    }

    /// The axis of the classes of logits, and the target with a dimension of size 1 for it.
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

    /// The cross entropy of these logits with class indices, as `torch.nn.functional.cross_entropy`:
    /// `ln Σe^xⱼ - x[class]`. Classes are dimension 1 (of a vector, dimension 0); the target has the other dimensions.
    /// A class out of range is an error where the value is read.
    ///
    /// Of log-probabilities it is [`nll_loss`](Tensor::nll_loss), with class weights or smoothing
    /// [`cross_entropy_with`](Tensor::cross_entropy_with), for yes and no [`bce_with_logits`](Tensor::bce_with_logits).
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
    /// On a dtype that is not a float, or when the target has another shape or is not of an integer dtype.
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        self.cross_entropy_with(target, &ClassLoss::default().reduction(reduction))
    }

    /// [`cross_entropy`](Tensor::cross_entropy) with class weights, an ignored class, or smoothed targets. The target
    /// may also hold probabilities instead of classes. It then has the logits' shape and a float dtype, and the loss of
    /// a sample is `-Σ pⱼ·ln softmax(x)ⱼ`.
    ///
    /// ```
    /// # use thalweg::{ClassLoss, Tensor};
    /// let logits = Tensor::new([[0.0f32, 0.0], [9.0, 0.0]]);
    /// let loss = logits.cross_entropy_with(&Tensor::new([1i64, -100]), &ClassLoss::default().ignore(-100));
    /// assert!(loss.allclose(0.6931472, 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`cross_entropy`](Tensor::cross_entropy), and when the weights have not one element per class.
    #[track_caller]
    pub fn cross_entropy_with(&self, target: &Tensor, options: &ClassLoss) -> Tensor {
        if target.dtype().is_float() {
            return self.soft_cross_entropy(target, options);
        }
        let (axis, class) = self.classes("cross_entropy", target);
        let weights = self.class_weights("cross_entropy", axis, options);
        let (x, smoothing) = (widened(self), options.smoothing);
        let total = x.logsumexp_keepdim(axis);
        let mut loss = (&total - x.picked("cross_entropy", axis, &class, options.ignore)) * (1.0 - smoothing);
        if let Some(w) = &weights {
            loss *= w.weight_of("cross_entropy", axis, &class, options.ignore);
        }
        if smoothing != 0.0 {
            let all = match &weights {
                Some(w) => ((total - x) * w).mean_keepdim(axis),
                None => total - x.mean_keepdim(axis),
            };
            loss += all * smoothing;
        }
        loss.class_loss((axis, &class), weights.as_ref(), options, self.dtype())
    }

    /// The cross entropy with target probabilities.
    #[track_caller]
    fn soft_cross_entropy(&self, target: &Tensor, options: &ClassLoss) -> Tensor {
        check_float("cross_entropy", self);
        check_alike("cross_entropy", self, target);
        if self.rank() == 0 || self.shape() != target.shape() {
            shapes_differ("cross_entropy", self.shape(), target.shape());
        }
        let axis = if self.rank() == 1 { 0 } else { 1 };
        let (mut p, count) = (widened(target), self.dims()[axis] as f64);
        if options.smoothing != 0.0 {
            p = p * (1.0 - options.smoothing) + options.smoothing / count;
        }
        if let Some(w) = self.class_weights("cross_entropy", axis, options) {
            p *= w;
        }
        let loss = -(widened(self).log_softmax(axis) * p).sum(axis);
        loss.reduced_loss(options.reduction, self.dtype())
    }

    /// The negative log-likelihood: minus the element of the class in a tensor of log-probabilities, as
    /// [`log_softmax`](Tensor::log_softmax) returns them. Shapes as in [`cross_entropy`](Tensor::cross_entropy).
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let log_p = Tensor::new([[0.0f32, 0.0]]).log_softmax(1);
    /// assert!(log_p.nll_loss(&Tensor::new([1i64]), Reduction::Mean).allclose(0.6931472, 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`cross_entropy`](Tensor::cross_entropy).
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        self.nll_loss_with(target, &ClassLoss::default().reduction(reduction))
    }

    /// [`nll_loss`](Tensor::nll_loss) with class weights and an ignored class.
    ///
    /// # Panics
    /// As [`cross_entropy_with`](Tensor::cross_entropy_with), and when smoothing is set.
    #[track_caller]
    pub fn nll_loss_with(&self, target: &Tensor, options: &ClassLoss) -> Tensor {
        assert!(options.smoothing == 0.0, "nll_loss: smooths no targets; cross_entropy does");
        let (axis, class) = self.classes("nll_loss", target);
        let weights = self.class_weights("nll_loss", axis, options);
        let mut loss = -widened(self).picked("nll_loss", axis, &class, options.ignore);
        if let Some(w) = &weights {
            loss *= w.weight_of("nll_loss", axis, &class, options.ignore);
        }
        loss.class_loss((axis, &class), weights.as_ref(), options, self.dtype())
    }

    /// The class weights, checked, in a shape that broadcasts along the class axis of these logits.
    #[track_caller]
    fn class_weights(&self, name: &str, axis: usize, options: &ClassLoss) -> Option<Tensor> {
        let weights = options.weights.as_ref()?;
        check_alike(name, self, weights);
        if weights.dims() != [self.dims()[axis]] {
            panic!("{name}: weights of shape {} for logits of shape {}", weights.shape(), self.shape());
        }
        let mut shape = vec![1; self.rank()];
        shape[axis] = weights.numel();
        Some(widened(weights).reshape(shape))
    }

    /// Weight of each sample, by its class; `self` has the class weights along an axis.
    #[track_caller]
    fn weight_of(&self, name: &'static str, axis: usize, class: &Tensor, ignore: Option<i64>) -> Tensor {
        let all = class.shape().remove(axis).insert(axis, self.dims()[axis]);
        self.broadcast_to(all).picked(name, axis, class, ignore)
    }

    /// Elements of the target classes; arbitrary ones for samples of the ignored class.
    #[track_caller]
    fn picked(&self, name: &'static str, axis: usize, class: &Tensor, ignore: Option<i64>) -> Tensor {
        let by = (name, Counted::Plain);
        match ignore {
            Some(ignore) => self.gathered_by(by, axis, &class.eq(ignore).where_(0, class)),
            None => self.gathered_by(by, axis, class),
        }
    }

    /// Reduces the samples' losses, which are already weighted.
    #[track_caller]
    fn class_loss(
        self,
        (axis, class): (usize, &Tensor),
        weights: Option<&Tensor>,
        options: &ClassLoss,
        dtype: DType,
    ) -> Tensor {
        let shape = self.shape().remove(axis);
        let counts = options.ignore.map(|ignore| class.ne(ignore));
        let loss = match &counts {
            Some(counts) => counts.where_(&self, 0.0),
            None => self,
        };
        let loss = loss.reshaped(shape);
        let by = match (weights, counts) {
            (Some(w), counts) => {
                let each = w.weight_of("cross_entropy", axis, class, options.ignore);
                counts.map_or(each.clone(), |counts| counts.where_(each, 0.0))
            }
            (None, Some(counts)) => counts.cast(loss.dtype()),
            (None, None) => return loss.reduced_loss(options.reduction, dtype),
        };
        match options.reduction {
            Reduction::Mean => (loss.sum(..) / by.sum(..)).cast(dtype),
            other => loss.reduced_loss(other, dtype),
        }
    }
}

/// # Distances and similarity
impl Tensor {
    /// The cosine of the angle between vectors along an axis: `a·b/(|a|·|b|)`, with each norm at least `eps`, as
    /// `torch.cosine_similarity`. Shapes broadcast.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([1.0f32, 0.0]), Tensor::new([3.0f32, 4.0]));
    /// assert!(a.cosine_similarity(&b, -1, 1e-8).allclose(0.6, 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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

    /// The p-norm distance of every row of one matrix from every row of another, as `torch.cdist`; leading dimensions
    /// broadcast.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[0.0f32, 0.0]]).cdist(&Tensor::new([[3.0f32, 4.0]]), 2.0).item::<f32>()?, 5.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When a rank is below 2, rows differ in length, leading dimensions do not broadcast, or dtypes differ or are not
    /// floats.
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        let [a, b] = rows_to_compare("cdist", self, other);
        (a.unsqueeze(-2) - b.unsqueeze(-3)).norm_p(p, -1).cast(self.dtype())
    }

    /// The Euclidean distance of every row `a` of one matrix from every row `b` of another by a matrix product: the
    /// root of `|a|² + |b|² - 2·a·b`. Leading dimensions broadcast. `torch.cdist` does this for more than 25 rows. For
    /// long rows it takes a fraction of [`cdist`](Tensor::cdist)'s time. But the squared distance has an error of some
    /// roundings of `|a|² + |b|²`, however small it is: in f32, equal rows of length 1 may get a distance of 0.0005.
    /// The gradient of a distance of 0 is 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[0.0f32, 0.0], [3.0, 4.0]]);
    /// assert_eq!(x.cdist_by_products(&x).to_vec::<f32>()?, [0.0, 5.0, 5.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`cdist`](Tensor::cdist).
    #[track_caller]
    pub fn cdist_by_products(&self, other: &Tensor) -> Tensor {
        let [a, b] = rows_to_compare("cdist_by_products", self, other);
        let [own, others] = [&a, &b].map(|x| x.square().sum(-1));
        let square = own.unsqueeze(-1) + others.unsqueeze(-2) - a.matmul(&b.transpose(-2, -1)) * 2.0;
        flat_at_zero(&square, Tensor::sqrt).cast(self.dtype())
    }
}

/// Two matrices whose rows are compared, in the dtype of computation.
#[track_caller]
fn rows_to_compare(name: &str, one: &Tensor, other: &Tensor) -> [Tensor; 2] {
    check_float(name, one);
    check_alike(name, one, other);
    let (m, n) = (one.rank(), other.rank());
    let fits = m >= 2 && n >= 2 && one.dims()[m - 1] == other.dims()[n - 1];
    if !fits || m.max(n) == crate::MAX_RANK {
        panic!("{name}: takes two matrices of rows of one length, not shapes {} and {}", one.shape(), other.shape());
    }
    let leading = |x: &Tensor| crate::Shape::new(&x.dims()[..x.rank() - 2]);
    if leading(one).broadcast(&leading(other)).is_none() {
        shapes_differ(name, one.shape(), other.shape());
    }
    [widened(one), widened(other)]
}
