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
/// The methods below are in the order of this table. Operators (`+ - * / % & | ^ << >> !`) take tensors, references and
/// numbers. A name with `_with` has more options, one with `_keepdim` keeps reduced axes as size 1.
///
/// | topic | most used methods |
/// |---|---|
/// | Creation | [`new`](Tensor::new), [`from_slice`](Tensor::from_slice), [`zeros`](Tensor::zeros), [`ones`](Tensor::ones), [`full`](Tensor::full), [`arange`](Tensor::arange), [`linspace`](Tensor::linspace), [`eye`](Tensor::eye), [`from_fn`](Tensor::from_fn), [`zeros_like`](Tensor::zeros_like), [`meshgrid`](Tensor::meshgrid), [`hann_window`](Tensor::hann_window) |
/// | Shape and views | [`reshape`](Tensor::reshape), [`flatten`](Tensor::flatten), [`permute`](Tensor::permute), [`transpose`](Tensor::transpose), [`t`](Tensor::t), [`unsqueeze`](Tensor::unsqueeze), [`squeeze`](Tensor::squeeze), [`expand`](Tensor::expand), [`broadcast_to`](Tensor::broadcast_to), [`window`](Tensor::window), [`bitcast`](Tensor::bitcast), [`dims`](Tensor::dims), [`dtype`](Tensor::dtype) |
/// | Joining and splitting | [`cat`](Tensor::cat), [`stack`](Tensor::stack), [`split`](Tensor::split), [`chunk`](Tensor::chunk), [`unbind`](Tensor::unbind), [`repeat`](Tensor::repeat), [`tile`](Tensor::tile), [`roll`](Tensor::roll), [`pad`](Tensor::pad) |
/// | Indexing | [`slice`](Tensor::slice), [`select`](Tensor::select), [`narrow`](Tensor::narrow), [`flip`](Tensor::flip), [`gather`](Tensor::gather), [`index_select`](Tensor::index_select), [`take`](Tensor::take), [`embedding`](Tensor::embedding), [`index`](Tensor::index), [`masked_select`](Tensor::masked_select), [`nonzero`](Tensor::nonzero), [`one_hot`](Tensor::one_hot) |
/// | Writing into parts | [`set`](Tensor::set), [`slice_mut`](Tensor::slice_mut), [`slice_scatter`](Tensor::slice_scatter), [`select_scatter`](Tensor::select_scatter), [`scatter`](Tensor::scatter), [`scatter_add`](Tensor::scatter_add), [`index_add`](Tensor::index_add), [`index_put`](Tensor::index_put), [`masked_scatter`](Tensor::masked_scatter), [`index_fill`](Tensor::index_fill) |
/// | Arithmetic | [`add`](Tensor::add), [`mul`](Tensor::mul), [`div`](Tensor::div), [`pow`](Tensor::pow), [`rem`](Tensor::rem), [`minimum`](Tensor::minimum), [`maximum`](Tensor::maximum), [`clamp`](Tensor::clamp), [`abs`](Tensor::abs), [`exp`](Tensor::exp), [`log`](Tensor::log), [`sqrt`](Tensor::sqrt), [`sin`](Tensor::sin), [`round`](Tensor::round), [`cast`](Tensor::cast) |
/// | Activations, special functions | [`relu`](Tensor::relu), [`gelu`](Tensor::gelu), [`silu`](Tensor::silu), [`tanh`](Tensor::tanh), [`sigmoid`](Tensor::sigmoid), [`softplus`](Tensor::softplus), [`leaky_relu`](Tensor::leaky_relu), [`erf`](Tensor::erf), [`lgamma`](Tensor::lgamma), [`digamma`](Tensor::digamma), [`logaddexp`](Tensor::logaddexp), [`xlogy`](Tensor::xlogy) |
/// | Comparisons and selection | [`eq`](Tensor::eq), [`lt`](Tensor::lt), [`gt`](Tensor::gt), [`is_nan`](Tensor::is_nan), [`isclose`](Tensor::isclose), [`allclose`](Tensor::allclose), [`where_`](Tensor::where_), [`masked_fill`](Tensor::masked_fill), [`and`](Tensor::and), [`not`](Tensor::not) |
/// | Reductions | [`sum`](Tensor::sum), [`mean`](Tensor::mean), [`amax`](Tensor::amax), [`argmax`](Tensor::argmax), [`any`](Tensor::any), [`all`](Tensor::all), [`var`](Tensor::var), [`std`](Tensor::std), [`norm`](Tensor::norm), [`logsumexp`](Tensor::logsumexp), [`prod`](Tensor::prod), [`count_nonzero`](Tensor::count_nonzero) |
/// | Statistics | [`median`](Tensor::median), [`quantile`](Tensor::quantile), [`var_mean`](Tensor::var_mean), [`cov`](Tensor::cov), [`histogram`](Tensor::histogram), [`bincount`](Tensor::bincount), [`nanmean`](Tensor::nanmean), [`mode`](Tensor::mode), [`average`](Tensor::average) |
/// | Scans | [`cumsum`](Tensor::cumsum), [`cumprod`](Tensor::cumprod), [`cummax`](Tensor::cummax), [`cummax_with_indices`](Tensor::cummax_with_indices), [`logcumsumexp`](Tensor::logcumsumexp), [`diff`](Tensor::diff), [`cumulative_trapezoid`](Tensor::cumulative_trapezoid) |
/// | Sorting and searching | [`sort`](Tensor::sort), [`argsort`](Tensor::argsort), [`topk`](Tensor::topk), [`kthvalue`](Tensor::kthvalue), [`searchsorted`](Tensor::searchsorted), [`digitize`](Tensor::digitize), [`unique`](Tensor::unique), [`isin`](Tensor::isin), [`union`](Tensor::union), [`intersect`](Tensor::intersect), [`setdiff`](Tensor::setdiff) |
/// | Linear algebra | [`matmul`](Tensor::matmul), [`linear`](Tensor::linear), [`dot`](Tensor::dot), [`outer`](Tensor::outer), [`einsum`](Tensor::einsum), [`tensordot`](Tensor::tensordot), [`tril`](Tensor::tril), [`diagonal`](Tensor::diagonal), [`trace`](Tensor::trace), [`kron`](Tensor::kron), [`cross`](Tensor::cross), [`matrix_power`](Tensor::matrix_power); with the feature `linalg` `cholesky`, `lu`, `qr`, `svd`, `eigh`, `solve`, `inv`, `det`; with `fft` `rfft`, `fft2`, `irfft` |
/// | Normalization, attention, losses | [`softmax`](Tensor::softmax), [`log_softmax`](Tensor::log_softmax), [`layer_norm`](Tensor::layer_norm), [`rms_norm`](Tensor::rms_norm), [`group_norm`](Tensor::group_norm), [`batch_norm`](Tensor::batch_norm), [`normalize`](Tensor::normalize), [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention), [`cross_entropy`](Tensor::cross_entropy), [`mse_loss`](Tensor::mse_loss), [`bce_with_logits`](Tensor::bce_with_logits), [`cdist`](Tensor::cdist) |
/// | Convolution and pooling | [`conv1d`](Tensor::conv1d), [`conv2d`](Tensor::conv2d), [`conv_transpose2d`](Tensor::conv_transpose2d), [`max_pool2d`](Tensor::max_pool2d), [`avg_pool2d`](Tensor::avg_pool2d), [`adaptive_avg_pool2d`](Tensor::adaptive_avg_pool2d), [`interpolate`](Tensor::interpolate) |
/// | Random | [`rand`](Tensor::rand), [`randn`](Tensor::randn), [`randint`](Tensor::randint), [`uniform`](Tensor::uniform), [`normal`](Tensor::normal), [`randperm`](Tensor::randperm), [`shuffle`](Tensor::shuffle), [`multinomial`](Tensor::multinomial), [`bernoulli`](Tensor::bernoulli), [`dropout`](Tensor::dropout) |
/// | Gradients | [`tracked`](Tensor::tracked), [`backward`](Tensor::backward), [`detach`](Tensor::detach), [`is_tracked`](Tensor::is_tracked), [`on_grad`](Tensor::on_grad), [`grad`](crate::grad()), [`jvp`](crate::jvp()), [`no_grad`](crate::no_grad()) |
/// | Devices and transfer | [`device`](Tensor::device), [`to_device`](Tensor::to_device) |
/// | Reading and display | [`item`](Tensor::item), [`to_vec`](Tensor::to_vec), [`to_f64_vec`](Tensor::to_f64_vec), [`to_vec_async`](Tensor::to_vec_async), [`iter`](Tensor::iter), [`read_npy`](Tensor::read_npy), [`write_npy`](Tensor::write_npy) |
#[derive(Clone)]
#[must_use = "an operation on tensors has no effect but its result"]
pub struct Tensor {
    pub(crate) value: Arc<Value>,
    /// Autograd graph node that gradients flow to; `None` if the tensor is not tracked.
    pub(crate) node: Option<Arc<Node>>,
}

/// # Shape, dtype, device
///
/// Properties known without computing a value.
impl Tensor {
    /// Untracked tensor of a value.
    #[inline]
    pub(crate) fn of(value: Arc<Value>) -> Tensor {
        Tensor { value, node: None }
    }

    /// The sizes of the tensor's dimensions, outermost first.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).shape().to_string(), "[2, 3]");
    /// ```
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.value.shape()
    }

    /// The sizes of the tensor's dimensions as a slice.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([2, 3]);
    /// let [rows, columns] = *x.dims() else { panic!("takes a matrix") };
    /// assert_eq!((rows, columns), (2, 3));
    /// ```
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.value.shape().dims()
    }

    /// The size of one dimension; negative axes count from the end.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).size(-1), 3);
    /// ```
    ///
    /// # Panics
    /// When there is no such dimension.
    #[track_caller]
    pub fn size(&self, axis: impl Into<crate::Axis>) -> usize {
        let axis = axis.into().of("size", self.rank());
        self.dims()[axis]
    }

    /// The number of dimensions.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).rank(), 2);
    /// ```
    #[inline]
    #[doc(alias = "ndim")]
    pub fn rank(&self) -> usize {
        self.value.shape().rank()
    }

    /// The number of elements.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).numel(), 6);
    /// ```
    #[inline]
    #[doc(alias = "len")]
    pub fn numel(&self) -> usize {
        self.value.shape().numel()
    }

    /// The dtype of the tensor's elements.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::new([1i32, 2]).dtype(), DType::I32);
    /// ```
    #[inline]
    pub fn dtype(&self) -> DType {
        self.value.dtype()
    }

    /// The device that stores the tensor.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([2]);
    /// assert_eq!(x.zeros_like().device(), x.device());
    /// ```
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
