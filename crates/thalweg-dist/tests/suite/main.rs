//! Tests of ranks that are threads: collectives, gradients, order, failures, random programs, training. One program, since
//! each links the whole library.

#[path = "../common/mod.rs"]
mod common;

mod collectives;
mod failures;
mod gradients;
mod order;
mod programs;
mod training;
