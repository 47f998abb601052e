//! Convolutions.

use crate::{Module, Tensor, init};
use thalweg::{Conv, ConvTranspose, Each, Padding};

fn weights_shape<const N: usize>(outer: usize, inner: usize, kernel: Each<N>) -> Vec<usize> {
    [[outer, inner].as_slice(), &kernel.0].concat()
}

macro_rules! convolutions {
    ($($name:ident $method:ident $n:literal $shape:literal $weights:literal;)*) => {$(
        #[doc = concat!("A convolution over the last ", stringify!($n), " dimensions of `", $shape, "` ([`Tensor::",
            stringify!($method), "`]).")]
        #[derive(Module, Clone)]
        pub struct $name {
            #[doc = concat!("`", $weights, "`.")]
            pub weight: Tensor,
            /// `[out]`.
            pub bias: Option<Tensor>,
            #[module(skip)]
            sizes: (usize, usize, Each<$n>),
            #[module(skip)]
            options: Conv<$n>,
        }

        impl $name {
            /// From channels to channels by windows of a size; stride 1, no padding, no dilation, one group. Weights
            /// and biases are uniform of bound `1/√(elements of a window)`.
            #[track_caller]
            pub fn new(inputs: usize, outputs: usize, kernel: impl Into<Each<$n>>) -> $name {
                $name::of((inputs, outputs, kernel.into()), Conv::default(), 1)
            }

            #[track_caller]
            fn of(sizes: (usize, usize, Each<$n>), options: Conv<$n>, groups: usize) -> $name {
                let (inputs, outputs, kernel) = sizes;
                let fits = groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups);
                assert!(
                    fits,
                    concat!(stringify!($name), ": {} channels to {} do not divide into {} groups"),
                    inputs, outputs, groups
                );
                let shape = weights_shape(outputs, inputs / groups, kernel);
                let (fan, _) = init::fans(shape.clone());
                let bias = Some(init::biases(outputs, fan));
                $name { weight: init::weights(shape), bias, sizes, options: options.groups(groups) }
            }

            /// From window to window, in elements.
            #[must_use]
            pub fn stride(self, stride: impl Into<Each<$n>>) -> $name {
                $name { options: self.options.stride(stride), ..self }
            }

            /// Zeros around the input: so many, or [`Padding::Same`].
            #[must_use]
            pub fn padding(self, padding: impl Into<Padding<$n>>) -> $name {
                $name { options: self.options.padding(padding), ..self }
            }

            /// From element to element of a window.
            #[must_use]
            pub fn dilation(self, dilation: impl Into<Each<$n>>) -> $name {
                $name { options: self.options.dilation(dilation), ..self }
            }

            /// Channels in so many groups, each a convolution of its own. Weights are drawn anew.
            ///
            /// # Panics
            /// When the channels do not divide into them.
            #[must_use]
            #[track_caller]
            pub fn groups(self, groups: usize) -> $name {
                let biased = self.bias.is_some();
                let new = $name::of(self.sizes, self.options, groups);
                if biased { new } else { new.without_bias() }
            }

            /// Without a bias.
            #[must_use]
            pub fn without_bias(self) -> $name {
                $name { bias: None, ..self }
            }

            #[doc = concat!("`", $shape, "`, samples optional.")]
            ///
            /// # Panics
            /// When channels or ranks do not fit, a window does not, or dtypes differ.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.weight, self.bias.as_ref(), self.options)
            }
        }
    )*};
}
convolutions! {
    Conv1d conv1d 1 "[samples, channels, length]" "[out, in/groups, length]";
    Conv2d conv2d 2 "[samples, channels, height, width]" "[out, in/groups, height, width]";
    Conv3d conv3d 3 "[samples, channels, depth, height, width]" "[out, in/groups, depth, height, width]";
}

macro_rules! transposed {
    ($($name:ident $method:ident $n:literal $shape:literal $weights:literal;)*) => {$(
        #[doc = concat!("A transposed convolution over the last ", stringify!($n), " dimensions of `", $shape,
            "` ([`Tensor::", stringify!($method), "`]).")]
        #[derive(Module, Clone)]
        pub struct $name {
            #[doc = concat!("`", $weights, "`.")]
            pub weight: Tensor,
            /// `[out]`.
            pub bias: Option<Tensor>,
            #[module(skip)]
            sizes: (usize, usize, Each<$n>),
            #[module(skip)]
            options: ConvTranspose<$n>,
        }

        impl $name {
            /// From channels to channels by windows of a size; stride 1, no padding, no dilation, one group. Weights
            /// and biases are uniform of bound `1/√(outputs·elements of a window)`, as in PyTorch.
            #[track_caller]
            pub fn new(inputs: usize, outputs: usize, kernel: impl Into<Each<$n>>) -> $name {
                $name::of((inputs, outputs, kernel.into()), ConvTranspose::default(), 1)
            }

            #[track_caller]
            fn of(sizes: (usize, usize, Each<$n>), options: ConvTranspose<$n>, groups: usize) -> $name {
                let (inputs, outputs, kernel) = sizes;
                let fits = groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups);
                assert!(
                    fits,
                    concat!(stringify!($name), ": {} channels to {} do not divide into {} groups"),
                    inputs, outputs, groups
                );
                let shape = weights_shape(inputs, outputs / groups, kernel);
                let (fan, _) = init::fans(shape.clone());
                let bias = Some(init::biases(outputs, fan));
                $name { weight: init::weights(shape), bias, sizes, options: options.groups(groups) }
            }

            /// From element to element of the input, in elements of the result.
            #[must_use]
            pub fn stride(self, stride: impl Into<Each<$n>>) -> $name {
                $name { options: self.options.stride(stride), ..self }
            }

            /// So many elements are cut off at every side of the result.
            #[must_use]
            pub fn padding(self, padding: impl Into<Each<$n>>) -> $name {
                $name { options: self.options.padding(padding), ..self }
            }

            /// So many elements more at the end of the result.
            #[must_use]
            pub fn output_padding(self, more: impl Into<Each<$n>>) -> $name {
                $name { options: self.options.output_padding(more), ..self }
            }

            /// From element to element of the kernel.
            #[must_use]
            pub fn dilation(self, dilation: impl Into<Each<$n>>) -> $name {
                $name { options: self.options.dilation(dilation), ..self }
            }

            /// Channels in so many groups, each a convolution of its own. Weights are drawn anew.
            ///
            /// # Panics
            /// When the channels do not divide into them.
            #[must_use]
            #[track_caller]
            pub fn groups(self, groups: usize) -> $name {
                let biased = self.bias.is_some();
                let new = $name::of(self.sizes, self.options, groups);
                if biased { new } else { new.without_bias() }
            }

            /// Without a bias.
            #[must_use]
            pub fn without_bias(self) -> $name {
                $name { bias: None, ..self }
            }

            #[doc = concat!("`", $shape, "`, samples optional.")]
            ///
            /// # Panics
            /// When channels or ranks do not fit, nothing is left, or dtypes differ.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.weight, self.bias.as_ref(), self.options)
            }
        }
    )*};
}
transposed! {
    ConvTranspose1d conv_transpose1d 1 "[samples, channels, length]" "[in, out/groups, length]";
    ConvTranspose2d conv_transpose2d 2 "[samples, channels, height, width]" "[in, out/groups, height, width]";
    ConvTranspose3d conv_transpose3d 3 "[samples, channels, depth, height, width]"
        "[in, out/groups, depth, height, width]";
}
