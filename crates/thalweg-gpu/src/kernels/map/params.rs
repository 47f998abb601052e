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
        /// Kernel arguments of the body.
        body: BodyParams = flat(|layout| BodyParams::declare(layout, &class.space, of)),
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Numbers of tiles, where blocks cover two-dimensional tiles.
        tiles: Option<TilesParams> = optional(class.tile.is_some(), TilesParams::declare),
    }
}

params! {
    /// Number of tiles along each of the two dimensions that a tile covers.
    pub struct TilesParams() filled by TilesArguments {
        /// Number of tiles along the innermost dimension.
        along: Divisor,
        /// Number of tiles along the other dimension.
        across: Divisor,
    }
}
