//! Kernel arguments of merge sorts.

use crate::params::{Address, Flag, I64, OptionalAddress, U32, params};

params! {
    /// Kernel arguments of a merge sort.
    pub struct MergeSortParams() filled by MergeSortArguments {
        /// Elements to sort.
        from: Address,
        /// Result; may be the elements.
        to: Address,
        /// Number of rows.
        rows: I64,
        /// Points of a row.
        points: I64,
        /// Elements from row to row.
        row_stride: I64,
        /// Elements from point to point.
        point_stride: I64,
        /// Binary logarithm of the elements that a block has of a row.
        log_row: U32,
        /// Blocks of a row.
        row_blocks: U32,
        /// Length of the sorted runs that are merged.
        run: I64,
        /// Whether the launch writes the result.
        last: Flag,
        /// Keys in sorted runs.
        run_keys: OptionalAddress,
        /// Indices of these keys.
        run_indices: OptionalAddress,
        /// Keys after a merge.
        merged_keys: OptionalAddress,
        /// Indices after a merge.
        merged_indices: OptionalAddress,
        /// Elements that the result is gathered from: a copy where the result overwrites them.
        elements: Address,
        /// Elements from row to row of `elements`.
        elements_row_stride: I64,
        /// Elements from point to point of `elements`.
        elements_point_stride: I64,
    }
}
