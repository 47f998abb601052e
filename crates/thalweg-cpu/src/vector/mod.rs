//! Machine-neutral compilation of a map or row body to vector code with registers.
//!
//! Body → `lower` (vector IR, in SSA form) → `schedule` (instruction order, unrolling) → `regalloc` (register
//! allocation). `map` and `inner_reduction` run these stages; `function` and `phases` emit `linear` code. A
//! [`Target`](ir::target::Target), supplied by an instruction set (`isa`), describes the machine; the instruction set
//! also selects and encodes instructions. Always true: nothing here names an instruction or a register of a machine.
//! docs/cpu-emitter.md has the design.

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

/// Compilation options: store mode, and limits that tests set.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Maximum number of vector registers for values, and the same maximum for accumulators; `None`: all.
    pub registers: Option<usize>,
    /// Unroll factor (copies of the step), even if it causes spills; `None`: chosen by the compiler.
    pub copies: Option<usize>,
    /// Whether whole vectors are stored non-temporally. The first element of each row of every output must then be
    /// aligned to 64 bytes.
    pub streaming: bool,
}
