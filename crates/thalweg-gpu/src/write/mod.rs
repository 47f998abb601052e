//! Kernels as programs, from skeletons.
//!
//! * `place`: where a point of a domain is, and an access of it. `access`: reading and writing through index maps.
//! * `body`, `looped`: nodes as statements.
//! * `map`, `rows`, `counted`, `scatter`: kernels.

pub mod access;
pub mod body;
pub mod counted;
pub mod looped;
pub mod map;
pub mod place;
pub mod rows;
pub mod scatter;
