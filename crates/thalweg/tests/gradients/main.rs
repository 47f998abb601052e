//! Gradients: every operation against differences, composites against PyTorch, the graph and its mistakes.

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../mistake/mod.rs"]
mod mistake;

mod convolutions;
mod differences;
mod elementwise;
mod golden;
mod graph;
mod kernels;
mod pools;
mod rematerialization;
mod smooth;
mod structure;
