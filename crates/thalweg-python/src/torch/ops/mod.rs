//! Rules of operations, by PyTorch's names. Adding an operation is adding one row to a topic's table.

mod convolution;
mod create;
mod elementwise;
mod gradients;
mod index;
#[cfg(feature = "linalg")]
mod linalg;
mod matmul;
mod normalize;
mod random;
mod reduce;
mod small;
mod special;
mod special_tables;
mod symbolic;
mod views;

use super::call::{Row, Rule};
use std::collections::HashMap;
use std::sync::OnceLock;

const TABLES: [&[Row]; 14 + cfg!(feature = "linalg") as usize] = [
    elementwise::ROWS,
    views::ROWS,
    reduce::ROWS,
    matmul::ROWS,
    convolution::ROWS,
    normalize::ROWS,
    index::ROWS,
    random::ROWS,
    create::ROWS,
    symbolic::ROWS,
    gradients::ROWS,
    small::ROWS,
    special::ROWS,
    special::PAIRS,
    #[cfg(feature = "linalg")]
    linalg::ROWS,
];

/// Rule of an operation by its name.
pub fn rule(name: &str) -> Option<Rule> {
    static BY_NAME: OnceLock<HashMap<&'static str, Rule>> = OnceLock::new();
    BY_NAME.get_or_init(|| TABLES.iter().flat_map(|t| t.iter().copied()).collect()).get(name).copied()
}

/// Names of all operations with a rule.
pub fn names() -> Vec<&'static str> {
    TABLES.iter().flat_map(|t| t.iter().map(|row| row.0)).collect()
}
