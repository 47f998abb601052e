//! Leaves of the graph of gradients: what parameters are.

use thalweg::Tensor;

/// A new leaf of that value. What is no float has no gradients, and stays as it is.
pub(crate) fn new(value: Tensor) -> Tensor {
    if value.dtype().is_float() { value.detach().tracked() } else { value.detach() }
}

/// That value as a new leaf where `old` is tracked, else untracked.
pub(crate) fn like(old: &Tensor, value: Tensor) -> Tensor {
    if old.is_tracked() { new(value) } else { value.detach() }
}

/// That value without what it was computed from.
pub(crate) fn detached(value: &Tensor) -> Tensor {
    value.detach()
}
