//! Writer: turns the operations of one kernel into a body over index maps, or reports the rule that they break.
//!
//! In: the operations that a kernel stores ([`body::Outline`]), and the values that are in memory. Out: its body,
//! geometry, operands and scalars. Writing makes no choice between plans; the search calls it repeatedly. So it has no
//! side effects and depends on nothing but the segment.
//!
//! * `rules`: legality rules, each with its reason.
//! * `movement`: paths of views between a kernel's points and a value, which become index maps; `rows`: the points that
//!   form a row.
//! * `body`: the writer. `boxes` and `map_layout`: boxes of the domain with constant masks, and the layout of accesses.
//! * `contraction`: matrix products with prologues and epilogue.
//! * `opaque`: launches of opaque kernels. `step`: the result.

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
pub use step::{BitRange, Form, ScalarArg, Slot, Step};
