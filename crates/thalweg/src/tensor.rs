//! [`Tensor`]: the handle that users hold.

use crate::node::Node;
use crate::{DType, Device, Shape};
use std::sync::Arc;
use thalweg_stream::Value;

/// Identity of a tensor, from [`Tensor::id`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TensorId {
    /// Address of the value, which the tensor keeps alive.
    value: usize,
    /// Id of the node in the autograd graph; 0 for an untracked tensor.
    node: u64,
}

/// A tensor: elements of one [`DType`] in a grid of up to eight dimensions, on one [`Device`].
///
/// A tensor is a handle to an immutable value; `clone` copies the handle. Every method that returns a tensor records
/// one or a few operations and returns at once; nothing runs until a value is read ([`to_vec`](Tensor::to_vec),
/// [`item`](Tensor::item), printing, [`synchronize`](crate::synchronize())). Handles may be sent to and shared with
/// other threads.
///
/// A mistake in shapes or dtypes panics at the caller's line, names the operation and both operands, and leaves
/// everything recorded before intact. Failures at run time - out of memory, a lost device, an index out of range, a
/// damaged file - are a [`Result`] where a value is read.
///
/// | to | there are |
/// |---|---|
/// | make | [`new`](Tensor::new), [`zeros`](Tensor::zeros), [`arange`](Tensor::arange), [`randn`](Tensor::randn), [`read_npy`](Tensor::read_npy) |
/// | write into parts | [`set`](Tensor::set), [`slice_mut`](Tensor::slice_mut), [`slice_scatter`](Tensor::slice_scatter), [`masked_scatter`](Tensor::masked_scatter) |
/// | take parts | [`slice`](Tensor::slice), [`index_axis`](Tensor::index_axis), [`unbind`](Tensor::unbind), [`window`](Tensor::window) |
/// | change the shape | [`reshape`](Tensor::reshape), [`permute`](Tensor::permute), [`unsqueeze`](Tensor::unsqueeze), [`broadcast_to`](Tensor::broadcast_to) |
/// | join | [`cat`](Tensor::cat), [`stack`](Tensor::stack), [`pad`](Tensor::pad) |
/// | choose | [`where_`](Tensor::where_), [`masked_fill`](Tensor::masked_fill), [`clamp`](Tensor::clamp) |
/// | choose by index | [`gather`](Tensor::gather), [`index_select`](Tensor::index_select), [`embedding`](Tensor::embedding), [`masked_select`](Tensor::masked_select), [`nonzero`](Tensor::nonzero) |
/// | put in by index | [`scatter`](Tensor::scatter), [`scatter_add`](Tensor::scatter_add), [`index_put`](Tensor::index_put), [`index_add`](Tensor::index_add) |
/// | reduce | [`sum`](Tensor::sum), [`mean`](Tensor::mean), [`amax`](Tensor::amax), [`argmax`](Tensor::argmax), [`var`](Tensor::var), [`norm`](Tensor::norm) |
/// | describe data | [`median`](Tensor::median), [`quantile`](Tensor::quantile), [`nanmean`](Tensor::nanmean), [`histogram`](Tensor::histogram), [`cov`](Tensor::cov), [`mode`](Tensor::mode) |
/// | compare as sets | [`unique`](Tensor::unique), [`isin`](Tensor::isin), [`union`](Tensor::union), [`intersect`](Tensor::intersect), [`setdiff`](Tensor::setdiff) |
/// | sampled functions | [`diff`](Tensor::diff), [`gradient`](Tensor::gradient), [`trapezoid`](Tensor::trapezoid), [`interp`](Tensor::interp) |
/// | special functions | [`lgamma`](Tensor::lgamma), [`digamma`](Tensor::digamma), [`erfinv`](Tensor::erfinv), [`i0`](Tensor::i0), [`logaddexp`](Tensor::logaddexp), [`xlogy`](Tensor::xlogy) |
/// | draw at random | [`rand`](Tensor::rand), [`poisson`](Tensor::poisson), [`randperm`](Tensor::randperm), [`multinomial`](Tensor::multinomial), [`sobol`](Tensor::sobol) |
/// | run along | [`cumsum`](Tensor::cumsum), [`cumprod`](Tensor::cumprod), [`cummax`](Tensor::cummax), [`logcumsumexp`](Tensor::logcumsumexp) |
/// | sort | [`sort`](Tensor::sort), [`argsort`](Tensor::argsort), [`topk`](Tensor::topk), [`searchsorted`](Tensor::searchsorted), [`unique`](Tensor::unique) |
/// | normalise | [`softmax`](Tensor::softmax), [`layer_norm`](Tensor::layer_norm), [`rms_norm`](Tensor::rms_norm), [`group_norm`](Tensor::group_norm), [`batch_norm`](Tensor::batch_norm) |
/// | compare with a target | [`cross_entropy`](Tensor::cross_entropy), [`mse_loss`](Tensor::mse_loss), [`bce_with_logits`](Tensor::bce_with_logits) |
/// | multiply matrices | [`matmul`](Tensor::matmul), [`linear`](Tensor::linear), [`einsum`](Tensor::einsum), [`tensordot`](Tensor::tensordot), [`dot`](Tensor::dot), [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention) |
/// | take matrices apart | `cholesky`, `lu`, `qr`, `svd`, `eigh`, `solve`, `inv`, `det`: with the feature `linalg` |
/// | transform | `rfft`, `fft2`, `irfft`: with the feature `fft`; [`Complex`](crate::Complex) |
/// | go over images | [`conv2d`](Tensor::conv2d), [`conv_transpose2d`](Tensor::conv_transpose2d), [`max_pool2d`](Tensor::max_pool2d), [`avg_pool2d`](Tensor::avg_pool2d), [`adaptive_avg_pool2d`](Tensor::adaptive_avg_pool2d), [`interpolate`](Tensor::interpolate) |
/// | convert | [`cast`](Tensor::cast), [`to_device`](Tensor::to_device) |
/// | differentiate | [`tracked`](Tensor::tracked), [`backward`](Tensor::backward), [`detach`](Tensor::detach), [`grad`](crate::grad()) |
/// | read | [`item`](Tensor::item), [`to_vec`](Tensor::to_vec), [`write_npy`](Tensor::write_npy) |
#[derive(Clone)]
#[must_use = "an operation on tensors has no effect but its result"]
pub struct Tensor {
    pub(crate) value: Arc<Value>,
    /// Autograd graph node that gradients flow to; `None` if the tensor is not tracked.
    pub(crate) node: Option<Arc<Node>>,
}

impl Tensor {
    /// A handle to an untracked value.
    #[inline]
    pub(crate) fn of(value: Arc<Value>) -> Tensor {
        Tensor { value, node: None }
    }

    /// The sizes of its dimensions, outermost first.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.value.shape()
    }

    /// The sizes of its dimensions as a slice.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.value.shape().dims()
    }

    /// The size of one dimension; negative axes count from the end.
    ///
    /// # Panics
    /// When there is no such dimension.
    #[track_caller]
    pub fn size(&self, axis: impl Into<crate::Axis>) -> usize {
        let axis = axis.into().of("size", self.rank());
        self.dims()[axis]
    }

    /// The number of dimensions.
    #[inline]
    #[doc(alias = "ndim")]
    pub fn rank(&self) -> usize {
        self.value.shape().rank()
    }

    /// The number of elements.
    #[inline]
    #[doc(alias = "len")]
    pub fn numel(&self) -> usize {
        self.value.shape().numel()
    }

    /// The dtype of its elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.value.dtype()
    }

    /// The device that stores it.
    #[inline]
    pub fn device(&self) -> Device {
        Device(self.value.device())
    }

    /// Identity of this tensor: equal for a handle and its clones, as `is` in Python. Two tracked leaves of one value
    /// differ. An id says nothing once all handles of its tensor are dropped.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([2]);
    /// assert_eq!(x.id(), x.clone().id());
    /// assert_ne!(x.id(), Tensor::zeros([2]).id());
    /// assert_ne!(x.clone().tracked().id(), x.tracked().id());
    /// ```
    pub fn id(&self) -> TensorId {
        TensorId { value: Arc::as_ptr(&self.value).addr(), node: self.node.as_ref().map_or(0, |node| node.id) }
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Tensor>()
};
