//! Machine-neutral compilation of a map or row body to vector code with registers.
//!
//! Body → `lower` (vector IR: meanings, one per value) → `schedule` (instruction order, unrolling) → `regalloc`
//! (register allocation). `map` and `inner_reduction` put the stages together. What differs by machine is asked of a
//! [`Target`](ir::target::Target); an instruction set (`isa`) supplies it, selects instructions and encodes them.
//! Always true: nothing here names an instruction or a register of a machine. docs/cpu-emitter.md has the design.

pub mod accumulators;
mod build;
pub mod elements;
mod emit;
mod folds;
pub mod function;
pub mod inner_reduction;
pub mod ir;
pub mod linear;
pub mod loop_code;
mod loops;
mod lower;
pub mod map;
pub mod phases;
pub mod regalloc;
pub mod schedule;

pub use lower::Unsupported;
#[cfg(test)]
pub use lower::lower;

/// Options beside the body: store mode, and limits for tests.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Maximum vector registers for values, and for accumulators.
    pub registers: Option<usize>,
    /// Exact number of copies, even with spills.
    pub copies: Option<usize>,
    /// Whole vectors are stored non-temporally: the first element of each row of every output is aligned to 64 bytes.
    pub streaming: bool,
}
