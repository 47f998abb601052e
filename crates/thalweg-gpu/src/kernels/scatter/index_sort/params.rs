//! Kernel arguments of the sort of a scatter's indices.

use crate::kernels::scatter::index_sort::IndexSortClass;
use crate::params::{Address, FaultAddress, Stride, U32, U64, each, params};

params! {
    /// Kernel arguments of the sort of a scatter's indices.
    pub struct IndexSortParams(class: &IndexSortClass) filled by IndexSortArguments {
        /// Indices, or pairs.
        from: Address,
        /// Pairs.
        to: Address,
        /// Counts of digits in tiles, or their offsets.
        counts: Address,
        /// Number of pairs of each digit.
        totals: Address,
        /// Indices of a row.
        indices: U32,
        /// Number of elements that may be named.
        size: U64,
        /// Tiles of a row.
        tiles: U32,
        /// Lowest bit of the digit.
        bit: U32,
        /// Stride of the indices along the axis.
        index_stride: Stride,
        /// Fault slot.
        fault: FaultAddress,
        /// Dimensions of rows, where the launch reads the indices themselves.
        dims: Vec<RowDimParams> = each(class.dims.unwrap_or(0).into(), RowDimParams::declare),
    }
}

params! {
    /// Kernel arguments of a dimension of rows.
    pub struct RowDimParams() filled by RowDimArguments {
        /// Size.
        size: U32,
        /// Stride of the indices.
        stride: Stride,
    }
}
