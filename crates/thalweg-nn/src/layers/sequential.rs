//! Layers in sequence.

use super::*;
use crate::{Kind, Module, NamePath, Slot, Tensor};

/// Module with one input tensor and one output tensor.
pub trait Layer: Module + Send + Sync {
    /// Computes the output of an input.
    fn forward(&self, x: &Tensor) -> Tensor;
}

macro_rules! layers {
    ($($t:ident),* $(,)?) => {$(
        impl Layer for $t {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                $t::forward(self, x)
            }
        }
    )*};
}
layers! {
    Linear, LoraLinear, Embedding, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, BatchNorm1d,
    BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm, RmsNorm, GroupNorm, Dropout,
    ChannelDropout, MaxPool1d, MaxPool2d, MaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, AdaptiveAvgPool1d,
    AdaptiveAvgPool2d, AdaptiveAvgPool3d, Relu, Relu6, Hardswish, Hardtanh, Softmax, Gelu, Silu, Tanh, Sigmoid, LeakyRelu, Prelu, Flatten, Sequential,
}

/// Layer in a sequence, which can be cloned as a trait object.
trait Boxed: Layer {
    fn boxed(&self) -> Box<dyn Boxed>;
}

impl<L: Layer + Clone + 'static> Boxed for L {
    fn boxed(&self) -> Box<dyn Boxed> {
        Box::new(self.clone())
    }
}

/// Layers of any types in sequence, named by index, as `torch.nn.Sequential`.
///
/// ```
/// use thalweg_nn::prelude::*;
/// use thalweg_nn::Relu;
/// let net = Sequential::new().push(Linear::new(4, 8)).push(Relu).push(Linear::new(8, 2));
/// assert_eq!(net.forward(&Tensor::randn([3, 4])).dims(), [3, 2]);
/// assert_eq!(net.state_dict().names().nth(2), Some("2.weight"));
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Boxed>>,
}

impl Sequential {
    /// Makes an empty sequence, which is the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// Appends a layer.
    #[must_use]
    pub fn push(mut self, layer: impl Layer + Clone + 'static) -> Sequential {
        self.layers.push(Box::new(layer));
        self
    }

    /// Number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layer at an index, if there is one. Use [`get_mut`](Sequential::get_mut) to freeze or load a part.
    ///
    /// ```
    /// use thalweg_nn::prelude::*;
    /// let mut net = Sequential::new().push(Linear::new(4, 8)).push(Linear::new(8, 2));
    /// net.get_mut(0).unwrap().freeze();
    /// let tracked = [0, 1].map(|i| net.get(i).unwrap().parameters()[0].is_tracked());
    /// assert_eq!(tracked, [false, true]);
    /// assert!(net.get(2).is_none());
    /// ```
    pub fn get(&self, index: usize) -> Option<&dyn Layer> {
        self.layers.get(index).map(|layer| &**layer as &dyn Layer)
    }

    /// The layer at an index for changes, if there is one.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut dyn Layer> {
        self.layers.get_mut(index).map(|layer| &mut **layer as &mut dyn Layer)
    }

    /// Layers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &dyn Layer> {
        self.layers.iter().map(|layer| &**layer as &dyn Layer)
    }

    /// Applies all layers in order.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward(&x);
        }
        x
    }
}

impl Clone for Sequential {
    fn clone(&self) -> Sequential {
        Sequential { layers: self.layers.iter().map(|layer| (**layer).boxed()).collect() }
    }
}

impl Module for Sequential {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        self.layers.iter().enumerate().for_each(|(i, layer)| path.index(i, |path| layer.visit(path, f)));
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        self.layers.iter_mut().enumerate().for_each(|(i, layer)| path.index(i, |path| layer.visit_mut(path, f)));
    }
}
