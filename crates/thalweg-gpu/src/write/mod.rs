//! Kernels as programs, from skeletons.
//!
//! * `place`: where a point of a domain is, and an access of it. `access`: reading and writing through index maps.
//! * `body`, `looped`: nodes as statements.
//! * `map`, `rows`, `counted`, `scatter`: kernels that are put together from statements.
//! * `scan`, `sort`, `radix`, `scatter_sort`, `combined`: kernels that are written as text (the module `text`).

pub mod access;
pub mod body;
pub mod combined;
pub mod contraction;
pub mod counted;
pub mod looped;
pub mod map;
pub mod place;
pub mod radix;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod scatter_sort;
pub mod sort;
