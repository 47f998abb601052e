//! Where a point of a domain is, and an access of it, as text ([`thalweg_gpu::write::place`] has the statements).

use super::print::{self, expr};
use super::types::held;
use std::ops::Range;
use thalweg_gpu::ir::{Expr, Type};
use thalweg_gpu::space::{Slots, SpaceClass};
use thalweg_gpu::write::place;
use thalweg_ir::DType;

/// The type of a position.
pub fn index_type(wide: bool) -> &'static str {
    held(if wide { DType::I64 } else { DType::I32 })
}

/// Text as an expression that holds together.
pub fn bracketed(text: &str, ty: Type) -> Expr {
    let one = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    Expr::name(if one { text.to_string() } else { format!("({text})") }, ty)
}

/// Statements that take `index`, row-major over some dimensions, apart into `{name}0, {name}1, …` (numbered by
/// dimension), from the innermost on.
pub fn decompose(class: &SpaceClass, slots: &Slots, dims: Range<usize>, index: &str, name: &str) -> String {
    let index = bracketed(index, Type::index(class.wide));
    print::statements(&place::decompose(class, slots, dims, index, name))
}

/// The part of an access's position that some dimensions make, `names` their indices; the dimension of lanes counts in
/// vectors and is left at the first lane. Empty where it makes none.
pub fn offset(class: &SpaceClass, slots: &Slots, access: usize, dims: Range<usize>, name: &str) -> String {
    place::offset(class, slots, access, dims, name).map_or_else(String::new, |of| expr(&of))
}
