//! Sorts of rows in memory: merge sorts, and radix sorts of long rows.

mod keys;
pub mod merge;
pub mod radix;
pub(crate) mod select;

use thalweg_ir::{DType, ScanOp};

/// Class key of a launch of a sort: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SortClass {
    /// Operation: sort or argsort.
    pub op: ScanOp,
    /// Whether the largest element comes first.
    pub descending: bool,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Task of the launch in the sort.
    pub pass: SortPass,
}

/// Task of a launch of a sort.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SortPass {
    /// First launch of a merge sort: a block sorts a run of 2,048 keys, or several rows that fit one.
    Runs,
    /// Merge of a merge sort: a block computes one range of the output of a merge of two runs.
    Merge,
    /// Histogram of a radix sort: blocks divide a row and count its elements by digit, for all passes at once.
    Histogram,
    /// Pass of a radix sort: a block sorts the elements of a tile by one digit, and scatters them to the destination
    /// buffer.
    Digit,
}
