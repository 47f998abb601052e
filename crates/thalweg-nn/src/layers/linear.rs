//! The linear layer.

use crate::{Module, Tensor, init};

/// `x·Wᵀ + b` over the last dimension.
///
/// ```
/// use thalweg_nn::prelude::*;
/// let layer = Linear::new(3, 2);
/// assert_eq!((layer.weight.dims(), layer.forward(&Tensor::ones([5, 4, 3])).dims()), (&[2, 3][..], &[5, 4, 2][..]));
/// ```
#[derive(Module, Clone)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Weights and biases uniform of bound `1/√inputs`.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize) -> Linear {
        let bias = Some(init::biases(outputs, inputs));
        Linear { weight: init::weights([outputs, inputs]), bias }
    }

    /// Without a bias.
    #[must_use]
    pub fn without_bias(self) -> Linear {
        Linear { bias: None, ..self }
    }

    /// `[.., in]` to `[.., out]`.
    ///
    /// # Panics
    /// When the last dimension is not `in`, or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, self.bias.as_ref())
    }
}
