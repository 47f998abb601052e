//! Linear layer.

use crate::{Module, Tensor, init};

/// Linear layer `x·Wᵀ + b` over the last dimension, as `torch.nn.Linear`.
///
/// ```
/// use thalweg_nn::prelude::*;
/// let layer = Linear::new(3, 2);
/// assert_eq!((layer.weight.dims(), layer.forward(&Tensor::ones([5, 4, 3])).dims()), (&[2, 3][..], &[5, 4, 2][..]));
/// ```
#[derive(Module, Clone)]
pub struct Linear {
    /// Weights, `[out, in]`.
    pub weight: Tensor,
    /// Bias, `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Makes a layer whose weights and biases are uniform with bound `1/√inputs`.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize) -> Linear {
        let bias = Some(init::biases(outputs, inputs));
        Linear { weight: init::weights([outputs, inputs]), bias }
    }

    /// Removes the bias.
    #[must_use]
    pub fn without_bias(self) -> Linear {
        Linear { bias: None, ..self }
    }

    /// Takes `[.., in]`; returns `[.., out]`.
    ///
    /// # Panics
    /// If the last dimension is not `in`, or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, self.bias.as_ref())
    }
}
