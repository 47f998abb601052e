//! Code generation: programs of kernels from skeletons.
//!
//! * `place`: index arithmetic of points and accesses. `access`: loads and stores through accesses.
//! * `body`, `looped`: nodes as statements.
//! * `map`, `rows`, `counted`, `scatter`: kernels that are assembled from statements.
//! * `scan`, `sort`, `radix`, `scatter_sort`, `combined`: kernels in the DSL of the module `text`.

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
