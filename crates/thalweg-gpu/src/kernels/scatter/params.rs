//! Kernel arguments of scatters.

use crate::kernels::scatter::{ScatterClass, ScatterStage};
use crate::params::{Address, Divisor, FaultAddress, Flag, I64, OptionalAddress, Stride, U32, each, optional, params};

params! {
    /// Kernel arguments of a scatter.
    pub struct ScatterParams(class: &ScatterClass) filled by ScatterArguments {
        /// Tensor that values are scattered to a copy of.
        tensor: Address,
        /// Indices.
        index: Address,
        /// Values.
        values: Address,
        /// Result; may be the tensor.
        result: Address,
        /// Number of lines.
        lines: I64,
        /// Indices of a line.
        indices: I64,
        /// Elements of a line.
        size: I64,
        /// Stride of the tensor along the axis.
        tensor_stride: Stride,
        /// Stride of the indices along the axis.
        index_stride: Stride,
        /// Stride of the values along the axis.
        values_stride: Stride,
        /// Stride of the result along the axis.
        result_stride: Stride,
        /// Fault slot.
        fault: FaultAddress,
        /// Sorted indices, or the table of the latest indices.
        sorted_or_latest: OptionalAddress,
        /// Divisor of a thread's number: lines where neighbouring threads have neighbouring lines, else threads of a line.
        split: Divisor,
        /// Number of threads.
        threads: I64,
        /// Whether neighbouring threads have neighbouring lines.
        across: Flag,
        /// Dimensions of lines.
        dims: Vec<LineDimParams> = each(class.dims.into(), LineDimParams::declare),
        /// Chunks of runs.
        chunks: Option<ChunkParams> =
            optional(matches!(class.stage, ScatterStage::Chunks(_) | ScatterStage::Join(_)), ChunkParams::declare),
    }
}

params! {
    /// Kernel arguments of a dimension of lines.
    pub struct LineDimParams() filled by LineDimArguments {
        /// Size.
        size: Divisor,
        /// Stride in the tensor.
        tensor: Stride,
        /// Stride in the indices.
        index: Stride,
        /// Stride in the values.
        values: Stride,
        /// Stride in the result.
        result: Stride,
        /// Stride in the sorted indices, or in the table of the latest ones.
        sorted: Stride,
    }
}

impl LineDimParams {
    /// Strides, in the order of the offsets `at0` to `at4`.
    pub fn strides(&self) -> [&Stride; 5] {
        [&self.tensor, &self.index, &self.values, &self.result, &self.sorted]
    }
}

params! {
    /// Kernel arguments of runs that are cut into chunks.
    pub struct ChunkParams() filled by ChunkArguments {
        /// Partial results.
        partials: Address,
        /// Number of lines.
        lines: I64,
        /// Sorted indices per chunk.
        length: U32,
    }
}
