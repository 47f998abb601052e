//! A scan or sort of rows of scratch memory, before its strategy is chosen.

use crate::kernels::scan::{ScanClass, Way};
use thalweg_ir::{DType, ScanOp};

/// A scan of rows of scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct RowScan {
    /// The operation.
    pub op: ScanOp,
    /// Scans from the end; of a sort: descending.
    pub reverse: bool,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Number of rows.
    pub rows: usize,
    /// Points of a row.
    pub points: usize,
    /// Stride from row to row, in elements.
    pub row_step: usize,
    /// Stride from point to point, in elements.
    pub point_step: usize,
    /// Region of the elements.
    pub from: u16,
    /// Region of the result; may be the same.
    pub to: u16,
}

impl RowScan {
    /// The class for the in-order strategy.
    pub fn class(&self) -> ScanClass {
        ScanClass { op: self.op, reverse: self.reverse, dtype: self.dtype, way: Way::InOrder }
    }
}
