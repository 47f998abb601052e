//! Writing: operations that share a kernel become a body over index maps, or the rule that they break.
//!
//! In: which operations a kernel stores ([`body::Outline`]), and which values are in memory. Out: its body, geometry,
//! operands and scalars. Nothing here chooses between plans; everything here is asked again by whoever does, so it
//! changes nothing and depends on nothing but the segment.
//!
//! * `rules`: what is allowed, each rule with its reason.
//! * `movement`: views between a kernel's points and a value, as paths that become index maps; `rows`: which points
//!   form a row.
//! * `body`: the writer. `boxes` and `map_layout`: the domain cut where masks change, and how accesses lie over it.
//! * `contraction`: a matrix product with bodies for its factors and for what is made of its sums.
//! * `opaque`: launches of opaque kernels. `step`: what comes out.

pub(crate) mod body;
mod boxes;
pub(crate) mod contraction;
pub(crate) mod map_layout;
pub(crate) mod movement;
pub(crate) mod opaque;
pub(crate) mod rows;
pub(crate) mod rules;
pub(crate) mod step;

pub use rules::Rule;
pub use step::{Form, Part, ScalarArg, Slot, Step};
