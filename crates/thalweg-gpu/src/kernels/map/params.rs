//! Kernel arguments of maps.

use crate::kernels::map::MapClass;
use crate::operands::BodyParams;
use crate::params::{Divisor, FaultAddress, I64, flat, optional, params};
use thalweg_kernel::Body;

params! {
    /// Kernel arguments of a map.
    pub struct MapParams(class: &MapClass, of: &Body) filled by MapArguments {
        /// Number of vectors of points.
        vectors: I64,
        /// Body.
        body: BodyParams = flat(|layout| BodyParams::declare(layout, &class.space, of)),
        /// Fault slot.
        fault: FaultAddress,
        /// Numbers of tiles, where blocks have two-dimensional ones.
        tiles: Option<TilesParams> = optional(class.tile.is_some(), TilesParams::declare),
    }
}

params! {
    /// Numbers of tiles.
    pub struct TilesParams() filled by TilesArguments {
        /// Along the innermost dimension.
        along: Divisor,
        /// Along the other dimension.
        across: Divisor,
    }
}
