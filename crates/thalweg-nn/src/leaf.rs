//! Leaves of the autograd graph; parameters are leaves.

use std::collections::HashMap;
use thalweg::{Tensor, TensorId};

/// Cache of a function's results by the identity of its argument: a tensor that two fields share stays one tensor.
#[derive(Default)]
pub(crate) struct Memo {
    /// Argument and result, by the argument's id. The argument is held, because ids of dropped tensors are used again.
    results: HashMap<TensorId, (Tensor, Tensor)>,
}

impl Memo {
    /// Returns `f()` for the first tensor of this identity, and that result again for later ones.
    pub(crate) fn get(&mut self, of: &Tensor, f: impl FnOnce() -> Tensor) -> Tensor {
        self.results.entry(of.id()).or_insert_with(|| (of.clone(), f())).1.clone()
    }
}

/// Wraps a value as a leaf. Non-float tensors have no gradients and stay untracked.
pub(crate) fn new(value: Tensor) -> Tensor {
    if value.dtype().is_float() { value.detach().tracked() } else { value.detach() }
}

/// Wraps `value` as a new leaf if `old` is tracked; else returns it untracked.
pub(crate) fn like(old: &Tensor, value: Tensor) -> Tensor {
    if old.is_tracked() { new(value) } else { value.detach() }
}

/// Returns `value` without its history.
pub(crate) fn detached(value: &Tensor) -> Tensor {
    value.detach()
}
