//! Recorded programs on the CPU: fusion, plans, memory, failures. One test program, since each links the whole library.
//! Tests that need a process of their own are beside it: `hazards.rs` fills the plan store, `planning.rs` clears it,
//! `threads.rs` expects a plan in it, `thresholds.rs` sets size thresholds, `calibration.rs` measures, `bits.rs` and
//! `disk.rs` start children.

#[path = "../counting/mod.rs"]
mod counting;

mod assign;
mod autotuning;
mod axes;
mod captures;
mod contractions;
mod explained;
mod failures;
mod fusion;
mod gathers;
mod groups;
mod grown;
mod lifetimes;
mod long_windows;
mod memory;
mod reproducible;
mod rewrites;
mod rows;
mod sizes;
