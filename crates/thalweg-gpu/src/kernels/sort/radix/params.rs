//! Kernel arguments of radix sorts.

use crate::params::{Address, I64, U32, params};

params! {
    /// Kernel arguments of a radix sort.
    pub struct RadixSortParams() filled by RadixSortArguments {
        /// Address of the elements to sort.
        from: Address,
        /// Address of the result; may be that of the elements.
        to: Address,
        /// Number of rows.
        rows: U32,
        /// Number of points of a row.
        points: U32,
        /// Stride from row to row, in elements.
        row_stride: I64,
        /// Stride from point to point, in elements.
        point_stride: I64,
        /// Number of tiles of a row.
        tiles: U32,
        /// Number of blocks per row (histogram), or index of the pass.
        row_blocks_or_pass: U32,
        /// Address of the offset of each digit of each pass, followed by source and destination of each pass.
        digit_offsets: Address,
        /// Address of the first buffer of elements.
        first_elements: Address,
        /// Address of the second buffer of elements.
        second_elements: Address,
        /// Address of the first buffer of indices.
        first_indices: Address,
        /// Address of the second buffer of indices.
        second_indices: Address,
        /// Address of counters (histogram), or of the exchange buffer of blocks.
        counters_or_exchange: Address,
    }
}
