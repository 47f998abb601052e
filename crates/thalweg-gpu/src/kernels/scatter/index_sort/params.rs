//! Kernel arguments of the sort of a scatter's indices.

use crate::kernels::scatter::index_sort::IndexSortClass;
use crate::params::{Address, FaultAddress, Stride, U32, U64, each, params};

params! {
    /// Kernel arguments of the sort of a scatter's indices.
    pub struct IndexSortParams(class: &IndexSortClass) filled by IndexSortArguments {
        /// Input: i64 indices in the first pass, else the pairs of the previous pass.
        from: Address,
        /// Output: u64 pairs, with the destination element in the high half and the position of the index in the low
        /// half.
        to: Address,
        /// Counts of digits in tiles, or their offsets.
        counts: Address,
        /// Total number of pairs of each digit.
        totals: Address,
        /// Number of indices of a row.
        indices: U32,
        /// Number of elements along the axis, the exclusive upper bound of valid indices.
        size: U64,
        /// Number of tiles of a row.
        tiles: U32,
        /// Position of the lowest bit of the digit of this pass.
        bit: U32,
        /// Stride of the indices along the axis.
        index_stride: Stride,
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Dimensions of rows; only in the pass that reads the indices themselves.
        dims: Vec<RowDimParams> = each(class.dims.unwrap_or(0).into(), RowDimParams::declare),
    }
}

params! {
    /// Kernel arguments of a dimension of rows.
    pub struct RowDimParams() filled by RowDimArguments {
        /// Size of the row dimension.
        size: U32,
        /// Stride of the indices along the dimension.
        stride: Stride,
    }
}
