//! Statements that kernel families share.
//!
//! * `index`: index arithmetic of points and accesses. `access`: loads and stores through accesses.
//! * `nodes`, `loops`: nodes of a body as statements.

pub mod access;
pub mod index;
pub mod loops;
pub mod nodes;
