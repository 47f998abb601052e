//! The class `thalweg.Array`: its operators, indexing, attributes, methods and text.
//!
//! In: calls of Python on a handle ([`Array`]). Out: handles of recorded operations, or values that were read.

mod index;
mod methods;
mod operators;
mod text;

pub use crate::handle::Array;
pub use text::set_printoptions;
