//! Kernel arguments of folds and scans by user-defined combines.

use crate::kernels::combine::CombineClass;
use crate::params::{Address, I64, each, params};

params! {
    /// Kernel arguments of a fold or scan by a user-defined combine.
    pub struct CombineParams(class: &CombineClass) filled by CombineArguments {
        /// Elements: an address for each component.
        elements: Vec<Address> = each(class.components(), Address::declare),
        /// Address for each component: of a fold's results, or of a scan's scratch memory.
        results: Vec<Address> = each(class.components(), Address::declare),
        /// Number of points of a row.
        points: I64,
        /// Stride from row to row, in elements.
        row_stride: I64,
        /// Stride from point to point, in elements.
        point_stride: I64,
        /// Number of elements of a row in a scan's scratch memory.
        row_scratch: I64,
    }
}
