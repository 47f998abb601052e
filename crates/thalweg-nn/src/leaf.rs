//! Leaves of the autograd graph; parameters are leaves.

use std::collections::HashMap;
use thalweg::{Tensor, TensorId};

/// Results of a function by the identity of its argument, so that a tensor that two fields share stays one tensor.
#[derive(Default)]
pub(crate) struct Memo {
    /// Argument and result. The argument is held, because an id is taken again once its tensor is dropped.
    results: HashMap<TensorId, (Tensor, Tensor)>,
}

impl Memo {
    /// `f()` for the first tensor of this identity, that result for the others.
    pub(crate) fn get(&mut self, of: &Tensor, f: impl FnOnce() -> Tensor) -> Tensor {
        self.results.entry(of.id()).or_insert_with(|| (of.clone(), f())).1.clone()
    }
}

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
