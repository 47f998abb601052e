//! Kernel arguments of folds and scans by user-defined combines.

use crate::kernels::combine::CombineClass;
use crate::params::{Address, I64, each, params};

params! {
    /// Kernel arguments of a fold or scan by a user-defined combine.
    pub struct CombineParams(class: &CombineClass) filled by CombineArguments {
        /// Each component of the elements.
        elements: Vec<Address> = each(class.components(), Address::declare),
        /// Each component of a fold's results, or of a scan's scratch memory.
        results: Vec<Address> = each(class.components(), Address::declare),
        /// Points of a row.
        points: I64,
        /// Elements from row to row.
        row_stride: I64,
        /// Elements from point to point.
        point_stride: I64,
        /// Elements of a row in a scan's scratch memory.
        row_scratch: I64,
    }
}
