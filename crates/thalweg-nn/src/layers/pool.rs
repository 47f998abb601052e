//! Pooling as layers, for [`Sequential`](crate::Sequential). Custom networks call the methods of [`Tensor`].

use crate::{Module, Tensor};
use thalweg::{Each, Pool};

macro_rules! pools {
    ($($name:ident $method:ident $n:literal;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`].")]
        #[derive(Module, Clone, Copy)]
        pub struct $name(#[module(skip)] Pool<$n>);

        impl $name {
            /// Makes a layer with these window options.
            pub fn new(pool: Pool<$n>) -> $name {
                $name(pool)
            }

            /// Pools over the last dimensions.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.0)
            }
        }
    )*};
}
pools! {
    MaxPool1d max_pool1d 1;
    MaxPool2d max_pool2d 2;
    MaxPool3d max_pool3d 3;
    AvgPool1d avg_pool1d 1;
    AvgPool2d avg_pool2d 2;
    AvgPool3d avg_pool3d 3;
}

macro_rules! adaptive {
    ($($name:ident $method:ident $n:literal;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`].")]
        #[derive(Module, Clone, Copy)]
        pub struct $name(#[module(skip)] Each<$n>);

        impl $name {
            /// Makes a layer with these output sizes.
            pub fn new(sizes: impl Into<Each<$n>>) -> $name {
                $name(sizes.into())
            }

            /// Pools over the last dimensions.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.0)
            }
        }
    )*};
}
adaptive! {
    AdaptiveAvgPool1d adaptive_avg_pool1d 1;
    AdaptiveAvgPool2d adaptive_avg_pool2d 2;
    AdaptiveAvgPool3d adaptive_avg_pool3d 3;
}
