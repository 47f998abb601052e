//! Low-rank adapters.

use crate::{Linear, Module, Tensor, leaf};

/// Frozen linear layer with a trained low-rank update, `x·Wᵀ + b + (alpha/rank)·x·Aᵀ·Bᵀ` (Hu et al. 2021); as
/// `loralib.Linear`.
///
/// Names are `weight`, `bias`, `lora_A` and `lora_B`, so a file of the layer fits with
/// [`load_matching`](Module::load_matching). `B` starts as zeros: a new adapter changes nothing.
///
/// ```
/// use thalweg_nn::LoraLinear;
/// use thalweg_nn::prelude::*;
/// let layer = LoraLinear::new(Linear::new(16, 16), 2, 4.0);
/// let tracked = layer.named_parameters().into_iter().filter(|(_, t)| t.is_tracked());
/// assert_eq!(tracked.map(|(name, _)| name).collect::<Vec<_>>(), ["lora_A", "lora_B"]);
/// assert_eq!(layer.forward(&Tensor::zeros([3, 16])).dims(), [3, 16]);
/// ```
#[derive(Module, Clone)]
pub struct LoraLinear {
    /// Frozen layer that is adapted.
    #[module(flatten)]
    pub base: Linear,
    /// Matrix `A` of the low-rank update, `[rank, in]`.
    #[module(name = "lora_A")]
    pub down: Tensor,
    /// Matrix `B` of the low-rank update, `[out, rank]`.
    #[module(name = "lora_B")]
    pub up: Tensor,
    /// Factor of the update, `alpha/rank`.
    pub scale: f64,
}

impl LoraLinear {
    /// Freezes a layer and adds an update of this rank. `A` is drawn as the weights of [`Linear`], in the layer's dtype
    /// and on its device.
    ///
    /// # Panics
    /// If the rank is 0.
    #[track_caller]
    pub fn new(mut base: Linear, rank: usize, alpha: f64) -> LoraLinear {
        assert!(rank > 0, "LoraLinear: the rank is 0");
        base.freeze();
        let (outputs, inputs) = (base.weight.dims()[0], base.weight.dims()[1]);
        let options = (base.weight.dtype(), base.weight.device());
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let drawn = Tensor::rand_with([rank, inputs], options) * (2.0 * bound) - bound;
        let up = Tensor::zeros_with([outputs, rank], options);
        LoraLinear { base, down: leaf::new(drawn), up: leaf::new(up), scale: alpha / rank as f64 }
    }

    /// Takes `[.., in]`; returns `[.., out]`.
    ///
    /// # Panics
    /// If the last dimension is not `in`, or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.base.forward(x) + x.linear(&self.down, None).linear(&self.up, None) * self.scale
    }

    /// Returns the layer with the update added to its weight, frozen: it costs no more than the layer alone.
    #[track_caller]
    pub fn merged(&self) -> Linear {
        let update = self.up.detach().matmul(&self.down.detach()) * self.scale;
        Linear { weight: self.base.weight.detach() + update, bias: self.base.bias.as_ref().map(leaf::detached) }
    }
}
