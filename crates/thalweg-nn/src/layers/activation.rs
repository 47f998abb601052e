//! Activations as layers, for [`Sequential`](crate::Sequential). Custom networks call the methods of [`Tensor`].

use crate::{Module, Tensor, leaf};
use thalweg::Axis;

macro_rules! activations {
    ($($name:ident $method:ident $about:literal;)*) => {$(
        #[doc = $about]
        #[derive(Module, Clone, Copy, Debug, Default)]
        pub struct $name;

        impl $name {
            /// Applies the function to a tensor of any shape.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method()
            }
        }
    )*};
}
activations! {
    Relu relu "[`Tensor::relu`].";
    Relu6 relu6 "[`Tensor::relu6`].";
    Hardswish hardswish "[`Tensor::hardswish`].";
    Gelu gelu "[`Tensor::gelu`].";
    Silu silu "[`Tensor::silu`].";
    Tanh tanh "[`Tensor::tanh`].";
    Sigmoid sigmoid "[`Tensor::sigmoid`].";
}

/// [`Tensor::leaky_relu`].
#[derive(Module, Clone, Copy, Debug)]
pub struct LeakyRelu(
    /// Slope for elements below 0.
    pub f64,
);

impl LeakyRelu {
    /// Applies the function to a tensor of any shape.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.leaky_relu(self.0)
    }
}

/// [`Tensor::hardtanh`], by default between -1 and 1, as `torch.nn.Hardtanh`.
#[derive(Module, Clone, Copy, Debug)]
pub struct Hardtanh {
    /// Lower bound of the result.
    pub low: f64,
    /// Upper bound of the result.
    pub high: f64,
}

impl Default for Hardtanh {
    fn default() -> Hardtanh {
        Hardtanh { low: -1.0, high: 1.0 }
    }
}

impl Hardtanh {
    /// Makes a layer with these bounds.
    pub fn new(low: f64, high: f64) -> Hardtanh {
        Hardtanh { low, high }
    }

    /// Applies the function to a tensor of any shape.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.hardtanh(self.low, self.high)
    }
}

/// [`Tensor::softmax`] along an axis, as `torch.nn.Softmax`. For [`Tensor::cross_entropy`], leave it out: that takes
/// logits.
#[derive(Module, Clone, Copy, Debug)]
pub struct Softmax(#[module(skip)] Axis);

impl Softmax {
    /// Makes a layer along this axis; negative ones count from the end.
    pub fn new(axis: impl Into<Axis>) -> Softmax {
        Softmax(axis.into())
    }

    /// Applies the softmax along the axis.
    ///
    /// # Panics
    /// If the axis does not exist, or the dtype is not a float.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.softmax(self.0)
    }
}

/// [`Tensor::prelu`] with learned slopes, as `torch.nn.PReLU`.
#[derive(Module, Clone)]
pub struct Prelu {
    /// Slopes for elements below 0, `[1]` or `[channels]`.
    pub weight: Tensor,
}

impl Prelu {
    /// Makes one slope for all (`slopes` = 1), or one per channel; slopes start at 0.25.
    #[track_caller]
    pub fn new(slopes: usize) -> Prelu {
        Prelu { weight: leaf::new(Tensor::full([slopes], 0.25)) }
    }

    /// Applies the function to any shape if there is one slope, else to `[samples, channels, ..]`.
    ///
    /// # Panics
    /// If the number of slopes is neither 1 nor the number of channels.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let slopes = self.weight.numel();
        if slopes == 1 {
            return x.prelu(&self.weight);
        }
        if x.rank() < 2 || x.dims()[1] != slopes {
            panic!("Prelu: takes [samples, {slopes}, ..], not shape {}", x.shape());
        }
        let mut sizes = vec![1; x.rank() - 1];
        sizes[0] = slopes;
        x.prelu(&self.weight.reshape(sizes))
    }
}

/// Flattens each sample to a row, as `torch.nn.Flatten`.
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct Flatten;

impl Flatten {
    /// Reshapes `[samples, ..]` to `[samples, elements]`.
    ///
    /// # Panics
    /// If the rank is below 2.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten_axes(1, -1)
    }
}
