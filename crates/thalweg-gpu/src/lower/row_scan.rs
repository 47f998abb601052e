//! A scan or sort of rows of scratch memory, before anybody chose how it runs.

use crate::class::scan::{ScanClass, Way};
use thalweg_ir::{DType, ScanOp};

/// A scan of rows of scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct RowScan {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
    /// How many rows.
    pub rows: usize,
    /// Points of a row.
    pub points: usize,
    /// Elements from row to row.
    pub row_step: usize,
    /// Elements from point to point.
    pub point_step: usize,
    /// The region with the elements.
    pub from: u16,
    /// The region for the result; may be the same.
    pub to: u16,
}

impl RowScan {
    /// The class of its source, in order.
    pub fn class(&self) -> ScanClass {
        ScanClass { op: self.op, reverse: self.reverse, dtype: self.dtype, way: Way::InOrder }
    }
}
