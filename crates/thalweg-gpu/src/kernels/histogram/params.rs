//! Kernel arguments of histograms.

use crate::kernels::histogram::HistogramClass;
use crate::kernels::map::params::MapParams;
use crate::params::{Address, OptionalAddress, Stride, U32, flat, params};
use thalweg_kernel::Body;

params! {
    /// Kernel arguments of a histogram.
    pub struct HistogramParams(class: &HistogramClass, body: &Body) filled by HistogramArguments {
        /// Kernel arguments of the map that computes the index and the addend.
        map: MapParams = flat(|layout| MapParams::declare(layout, &class.map, body)),
        /// Number of bins.
        bins: U32,
        /// Tables per block, a power of two. The copies of a bin are neighbours in shared memory.
        tables: U32,
        /// Address of the first bin of the result.
        result: Address,
        /// Stride from bin to bin in the result, in elements.
        stride: Stride,
        /// Address of the addend, if all points add the same number.
        value: OptionalAddress,
    }
}
