//! User-defined operations: backward passes, host operations, kernels.

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../gradients/differences.rs"]
mod differences;
#[path = "../mistake/mod.rs"]
mod mistake;

mod again;
mod backward;
mod chapter;
mod host;
mod index;
mod loops;
mod map;
mod orders;
mod rows;
mod tile;
mod tiles;

/// Asserts that a mistake panics at a line of the test, with all of these parts in its message.
fn assert_mistake(f: impl FnOnce(), parts: &[&str]) {
    mistake::assert_mistake_at("tests/kernels/", f, parts);
}
