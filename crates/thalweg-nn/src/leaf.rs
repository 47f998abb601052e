//! Leaves of the graph of gradients: what parameters are.

use thalweg::Tensor;

/// A new leaf of that value.
pub(crate) fn new(value: Tensor) -> Tensor {
    value
}

/// That value as a new leaf where `old` is tracked, else untracked.
pub(crate) fn like(_old: &Tensor, value: Tensor) -> Tensor {
    value
}

/// That value without what it was computed from.
pub(crate) fn detached(value: &Tensor) -> Tensor {
    value.clone()
}
