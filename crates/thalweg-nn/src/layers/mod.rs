//! Layers: structs of weights with a `forward` that records the formula.

mod activation;
mod attention;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod lora;
mod norm;
mod pool;
mod position;
mod recurrent;
mod sequential;

pub use activation::{Flatten, Gelu, Hardswish, Hardtanh, LeakyRelu, Prelu, Relu, Relu6, Sigmoid, Silu, Softmax, Tanh};
pub use attention::MultiheadAttention;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::{ChannelDropout, Dropout};
pub use embedding::Embedding;
pub use linear::Linear;
pub use lora::LoraLinear;
pub use norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm,
    RmsNorm,
};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d,
    MaxPool3d,
};
pub use position::{Rotary, sinusoidal};
pub use recurrent::{Gru, Lstm};
pub use sequential::{Layer, Sequential};
