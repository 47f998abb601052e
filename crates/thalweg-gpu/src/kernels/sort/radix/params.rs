//! Kernel arguments of radix sorts.

use crate::params::{Address, I64, U32, params};

params! {
    /// Kernel arguments of a radix sort.
    pub struct RadixSortParams() filled by RadixSortArguments {
        /// Elements to sort.
        from: Address,
        /// Result; may be the elements.
        to: Address,
        /// Number of rows.
        rows: U32,
        /// Points of a row.
        points: U32,
        /// Elements from row to row.
        row_stride: I64,
        /// Elements from point to point.
        point_stride: I64,
        /// Tiles of a row.
        tiles: U32,
        /// Blocks of a row (histogram), or number of the pass.
        row_blocks_or_pass: U32,
        /// Offset of each digit of each pass, and source and destination of each pass.
        digit_offsets: Address,
        /// First buffer of elements.
        first_elements: Address,
        /// Second buffer of elements.
        second_elements: Address,
        /// First buffer of indices.
        first_indices: Address,
        /// Second buffer of indices.
        second_indices: Address,
        /// Counters (histogram), or the exchange buffer of blocks.
        counters_or_exchange: Address,
    }
}
