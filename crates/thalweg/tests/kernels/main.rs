//! Users' own operations: backward passes, functions on the host, kernels.

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

/// Asserts that a mistake is told at the line of the test, and says all of these.
fn assert_mistake(f: impl FnOnce(), parts: &[&str]) {
    mistake::assert_mistake_at("tests/kernels/", f, parts);
}
