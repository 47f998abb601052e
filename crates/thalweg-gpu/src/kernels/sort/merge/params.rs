//! Kernel arguments of merge sorts.

use crate::params::{Address, Flag, I64, OptionalAddress, U32, params};

params! {
    /// Kernel arguments of a merge sort.
    pub struct MergeSortParams() filled by MergeSortArguments {
        /// Address of the elements to sort.
        from: Address,
        /// Address of the result; may be that of the elements.
        to: Address,
        /// Number of rows.
        rows: I64,
        /// Number of points of a row.
        points: I64,
        /// Stride from row to row, in elements.
        row_stride: I64,
        /// Stride from point to point, in elements.
        point_stride: I64,
        /// Binary logarithm of the number of elements of a row that a block sorts.
        log_row: U32,
        /// Number of blocks per row.
        row_blocks: U32,
        /// Length of the sorted runs that are merged.
        run: I64,
        /// Whether the launch writes the result.
        last: Flag,
        /// Address of the keys in sorted runs.
        run_keys: OptionalAddress,
        /// Address of the indices of these keys.
        run_indices: OptionalAddress,
        /// Address of the keys after a merge.
        merged_keys: OptionalAddress,
        /// Address of the indices after a merge.
        merged_indices: OptionalAddress,
        /// Address of the elements that the result is gathered from: a copy where the result overwrites them.
        elements: Address,
        /// Stride of the operand `elements` from row to row, in elements.
        elements_row_stride: I64,
        /// Stride of the operand `elements` from point to point, in elements.
        elements_point_stride: I64,
    }
}
