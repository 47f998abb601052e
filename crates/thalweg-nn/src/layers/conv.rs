//! Convolutions.

use crate::{Module, Tensor, init};
use thalweg::{Conv, ConvTranspose, Each, Padding};

fn weights_shape<const N: usize>(outer: usize, inner: usize, kernel: Each<N>) -> Vec<usize> {
    [[outer, inner].as_slice(), &kernel.0].concat()
}

/// Shared definition of convolution layers: weights, forwarded options, and reinitialization for groups.
macro_rules! layers {
    (
        $about:literal, $fan:literal, $nothing:literal, $options:ident, |$inputs:ident, $outputs:ident| $order:expr;
        { $($(#[$option_about:meta])* $option:ident: $value:ident;)* }
        $($name:ident $method:ident $n:tt $shape:literal $weights:literal;)*
    ) => {
        layers!(@each $about, $fan, $nothing, $options, |$inputs, $outputs| $order;
            { $($(#[$option_about])* $option: $value;)* } $([$name $method $n $shape $weights])*);
    };
    (@each $about:literal, $fan:literal, $nothing:literal, $options:ident, |$inputs:ident, $outputs:ident| $order:expr;
        $passed:tt $([$name:ident $method:ident $n:tt $shape:literal $weights:literal])*) => {$(
        #[doc = concat!($about, " over the last ", stringify!($n), " dimensions of `", $shape, "` ([`Tensor::",
            stringify!($method), "`]).")]
        #[derive(Module, Clone)]
        pub struct $name {
            #[doc = concat!("`", $weights, "`.")]
            pub weight: Tensor,
            /// Bias, `[out]`.
            pub bias: Option<Tensor>,
            #[module(skip)]
            sizes: (usize, usize, Each<$n>),
            #[module(skip)]
            options: $options<$n>,
        }

        impl $name {
            /// Makes a layer from `inputs` to `outputs` channels with windows of this size; stride 1, no padding, no
            /// dilation, one group. Weights
            #[doc = concat!("and biases are uniform of bound ", $fan, ".")]
            #[track_caller]
            pub fn new(inputs: usize, outputs: usize, kernel: impl Into<Each<$n>>) -> $name {
                $name::of((inputs, outputs, kernel.into()), $options::default(), 1)
            }

            #[track_caller]
            fn of(sizes: (usize, usize, Each<$n>), options: $options<$n>, groups: usize) -> $name {
                let ($inputs, $outputs, kernel) = sizes;
                let fits = groups > 0 && $inputs.is_multiple_of(groups) && $outputs.is_multiple_of(groups);
                assert!(
                    fits,
                    concat!(stringify!($name), ": {} channels to {} do not divide into {} groups"),
                    $inputs, $outputs, groups
                );
                let (outer, inner) = $order;
                let shape = weights_shape(outer, inner / groups, kernel);
                let (fan, _) = init::fans(shape.clone());
                let bias = Some(init::biases($outputs, fan));
                $name { weight: init::weights(shape), bias, sizes, options: options.groups(groups) }
            }

            layers!(@options $name $n $passed);

            /// Splits channels into `groups` groups, each convolved separately. Weights are reinitialized.
            ///
            /// # Panics
            /// If the channels are not divisible by the groups.
            #[must_use]
            #[track_caller]
            pub fn groups(self, groups: usize) -> $name {
                let biased = self.bias.is_some();
                let new = $name::of(self.sizes, self.options, groups);
                if biased { new } else { new.without_bias() }
            }

            /// Removes the bias.
            #[must_use]
            pub fn without_bias(self) -> $name {
                $name { bias: None, ..self }
            }

            #[doc = concat!("`", $shape, "`, samples optional.")]
            ///
            /// # Panics
            #[doc = concat!("When channels or ranks do not fit, ", $nothing, ", or dtypes differ.")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.weight, self.bias.as_ref(), self.options)
            }
        }
    )*};
    (@options $name:ident $n:tt { $($(#[$about:meta])* $option:ident: $value:ident;)* }) => {$(
        $(#[$about])*
        #[must_use]
        pub fn $option(self, $option: impl Into<$value<$n>>) -> $name {
            $name { options: self.options.$option($option), ..self }
        }
    )*};
}

layers! {
    "A convolution", "`1/√(elements of a window)`", "a window does not", Conv, |inputs, outputs| (outputs, inputs);
    {
        /// Sets the distance between windows, in elements.
        stride: Each;
        /// Sets the zero padding: elements per side, or [`Padding::Same`].
        padding: Padding;
        /// Sets the distance between elements of a window.
        dilation: Each;
    }
    Conv1d conv1d 1 "[samples, channels, length]" "[out, in/groups, length]";
    Conv2d conv2d 2 "[samples, channels, height, width]" "[out, in/groups, height, width]";
    Conv3d conv3d 3 "[samples, channels, depth, height, width]" "[out, in/groups, depth, height, width]";
}

layers! {
    "A transposed convolution", "`1/√(outputs·elements of a window)`, as in PyTorch", "nothing is left", ConvTranspose,
    |inputs, outputs| (inputs, outputs);
    {
        /// Sets the distance in the result between the windows of adjacent input elements.
        stride: Each;
        /// Sets the number of elements cut off at both ends of each spatial dimension of the result.
        padding: Each;
        /// Sets the number of elements added at the end of each spatial dimension of the result.
        output_padding: Each;
        /// Sets the distance between elements of the kernel.
        dilation: Each;
    }
    ConvTranspose1d conv_transpose1d 1 "[samples, channels, length]" "[in, out/groups, length]";
    ConvTranspose2d conv_transpose2d 2 "[samples, channels, height, width]" "[in, out/groups, height, width]";
    ConvTranspose3d conv_transpose3d 3 "[samples, channels, depth, height, width]"
        "[in, out/groups, depth, height, width]";
}
