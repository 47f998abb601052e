//! Activations as layers, for [`Sequential`](crate::Sequential). A network of one's own calls the methods of
//! [`Tensor`].

use crate::{Module, Tensor, leaf};

macro_rules! activations {
    ($($name:ident $method:ident $about:literal;)*) => {$(
        #[doc = $about]
        #[derive(Module, Clone, Copy, Debug, Default)]
        pub struct $name;

        impl $name {
            /// Any shape.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method()
            }
        }
    )*};
}
activations! {
    Relu relu "[`Tensor::relu`].";
    Gelu gelu "[`Tensor::gelu`].";
    Silu silu "[`Tensor::silu`].";
    Tanh tanh "[`Tensor::tanh`].";
    Sigmoid sigmoid "[`Tensor::sigmoid`].";
}

/// [`Tensor::leaky_relu`].
#[derive(Module, Clone, Copy, Debug)]
pub struct LeakyRelu(
    /// The slope below 0.
    pub f64,
);

impl LeakyRelu {
    /// Any shape.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.leaky_relu(self.0)
    }
}

/// [`Tensor::prelu`] with slopes that are learned.
#[derive(Module, Clone)]
pub struct Prelu {
    /// One slope, or one a channel.
    pub weight: Tensor,
}

impl Prelu {
    /// With one slope for all (1), or one a channel, which start at 0.25.
    #[track_caller]
    pub fn new(slopes: usize) -> Prelu {
        Prelu { weight: leaf::new(Tensor::full([slopes], 0.25)) }
    }

    /// `[samples, channels, ..]`.
    ///
    /// # Panics
    /// When the slopes do not fit the channels.
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

/// Samples of any shape as rows.
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct Flatten;

impl Flatten {
    /// `[samples, ..]` to `[samples, elements]`.
    ///
    /// # Panics
    /// When the rank is below 1.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten_axes(1, -1)
    }
}
