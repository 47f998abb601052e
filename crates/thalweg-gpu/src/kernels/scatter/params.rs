//! Kernel arguments of scatters.

use crate::kernels::scatter::{ScatterClass, ScatterStage};
use crate::params::{Address, Divisor, FaultAddress, Flag, I64, OptionalAddress, Stride, U32, each, optional, params};

params! {
    /// Kernel arguments of a scatter.
    pub struct ScatterParams(class: &ScatterClass) filled by ScatterArguments {
        /// Address of the tensor, a copy of which the values are scattered to.
        tensor: Address,
        /// Address of the indices of values.
        index: Address,
        /// Address of the values that are scattered.
        values: Address,
        /// Address of the result; may be that of the tensor.
        result: Address,
        /// Number of lines.
        lines: I64,
        /// Number of indices of a line.
        indices: I64,
        /// Number of elements of a line along the axis.
        size: I64,
        /// Stride of the tensor along the axis.
        tensor_stride: Stride,
        /// Stride of the indices along the axis.
        index_stride: Stride,
        /// Stride of the values along the axis.
        values_stride: Stride,
        /// Stride of the result along the axis.
        result_stride: Stride,
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Address of the sorted indices, or of the table of latest indices.
        sorted_or_latest: OptionalAddress,
        /// Divisor of a thread's index: the number of lines where neighbouring threads have neighbouring lines, else
        /// the number of threads per line.
        split: Divisor,
        /// Number of threads of the launch that have work.
        threads: I64,
        /// Whether neighbouring threads have neighbouring lines.
        across: Flag,
        /// Dimensions of lines: all dimensions except the scattered axis.
        dims: Vec<LineDimParams> = each(class.dims.into(), LineDimParams::declare),
        /// Kernel arguments of the stages `Chunks` and `Join`; `None` in other stages.
        chunks: Option<ChunkParams> =
            optional(matches!(class.stage, ScatterStage::Chunks(_) | ScatterStage::Join(_)), ChunkParams::declare),
    }
}

params! {
    /// Kernel arguments of a dimension of lines.
    pub struct LineDimParams() filled by LineDimArguments {
        /// Size of the dimension of lines.
        size: Divisor,
        /// Stride of the dimension in the tensor, in elements.
        tensor: Stride,
        /// Stride of the dimension in the indices, in elements.
        index: Stride,
        /// Stride of the dimension in the values, in elements.
        values: Stride,
        /// Stride of the dimension in the result, in elements.
        result: Stride,
        /// Stride of the dimension in the sorted indices, or in the table of latest indices.
        sorted: Stride,
    }
}

impl LineDimParams {
    /// Strides of the dimension, in the order of the offsets `at0` to `at4`.
    pub fn strides(&self) -> [&Stride; 5] {
        [&self.tensor, &self.index, &self.values, &self.result, &self.sorted]
    }
}

params! {
    /// Kernel arguments of the stages that cut runs of sorted indices into chunks (`Chunks`) and combine their results
    /// (`Join`).
    pub struct ChunkParams() filled by ChunkArguments {
        /// Address of the partial results.
        partials: Address,
        /// Number of lines.
        lines: I64,
        /// Number of sorted indices per chunk.
        length: U32,
    }
}
