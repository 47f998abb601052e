//! Leaves of the autograd graph; parameters are leaves.

use thalweg::Tensor;

/// Makes a leaf with this value. Non-float tensors have no gradients and stay untracked.
pub(crate) fn new(value: Tensor) -> Tensor {
    if value.dtype().is_float() { value.detach().tracked() } else { value.detach() }
}

/// `value` as a new leaf if `old` is tracked, else untracked.
pub(crate) fn like(old: &Tensor, value: Tensor) -> Tensor {
    if old.is_tracked() { new(value) } else { value.detach() }
}

/// `value` without its history.
pub(crate) fn detached(value: &Tensor) -> Tensor {
    value.detach()
}
