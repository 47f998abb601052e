//! Kernels: device-independent programs, their index maps, and the reference interpreter that defines operations.
//!
//! In: operations of [`thalweg_ir`]. Out: a [`Kernel`] (what is computed) with a [`Geometry`] (how large), which a
//! device compiles and launches.

mod body;
mod builder;
mod causal_mask;
mod copied;
pub mod dims;
mod geometry;
mod index;
mod machine;
mod merged;
pub mod monoid;
pub mod narrow;
mod online;
pub mod order;
mod passes;
mod phases;
pub mod random;
mod reciprocal;
pub mod reference;
mod repeated;
mod residence;
mod rewrite;
mod text;
mod traffic;
mod turn;
mod weights;

pub use body::{Access, AccessClass, Along, Body, Combined, Fold, Node, NodeId, Scan, Set, Store};
pub use builder::BodyBuilder;
pub use causal_mask::{CausalMask, causal_mask, causal_mask_of, exponentiated, scores};
pub use copied::{Copied, copied, widened_bytes};
pub use geometry::contraction::{
    Contraction, ContractionGeometry, Contracts, Epilogue, FactorOrder, Inner, Local, Prologue, Rectangle, TileBox,
    TileGeometry, accumulator, bodies,
};
pub use geometry::in_place::{copies, in_place_operand, reads_in_place};
pub use geometry::{
    AccessGeometry, Computed, ForeignGeometry, Geometry, GroupPart, Kernel, MapGeometry, MatmulGeometry, Orientation,
    Precision, RowGeometry, ScatterGeometry, ScatterOrder,
};
pub use index::{Bordered, Bound, IndexMap, Positions};
pub use machine::Machine;
pub use merged::{MERGED_NODES, merged};
pub use online::{
    BlockResult, LOWER, OnlineFold, OnlinePasses, Rate, Rescaling, Shift, chosen, online_passes, with_lower_moments,
};
pub use passes::{Passes, own_cost};
pub use phases::{BufferCombined, BufferScan, Phase, Phases, phases};
pub use reciprocal::reciprocals;
pub use repeated::repeated;
pub use residence::Residence;
pub use rewrite::{expand, join, reading, resolve, widen, widen_sums};
pub use traffic::{AccessPattern, Moved, Nest, Stream};
pub use turn::turn;
pub use weights::{Once, Weights, weights};
