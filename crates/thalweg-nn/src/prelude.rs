//! Common imports: `use thalweg_nn::prelude::*;`. Includes the prelude of Thalweg.

pub use crate::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Buffer, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
    ConvTranspose3d, Dropout, Embedding, GroupNorm, Gru, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, Layer,
    LayerNorm, Linear, Lstm, MaxPool1d, MaxPool2d, MaxPool3d, Mode, Module, MultiheadAttention, RmsNorm, Sequential,
    StateDict,
};
pub use thalweg::prelude::*;
