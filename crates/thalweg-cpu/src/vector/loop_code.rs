//! Compilation of loops inside a step: straight-line code of one iteration, with its own register allocation and frame
//! slots.
//!
//! In: a step with loops ([`Vir::loops`]), and the registers that they may use. Out: a [`LoopCode`] for each loop,
//! which `loops.rs` emits. An iteration's values are invariants of its code: as many as fit, including carried values,
//! are in registers for the whole loop; the others stay in the frame.

use super::ir::{LoopIteration, Op, Vir};
use super::regalloc::{self, Allocation, Limits};
use super::schedule::{self, Program};

/// Register-allocated code of a loop inside a step.
pub struct LoopCode {
    /// Instructions of one iteration.
    pub program: Program,
    /// Register allocation of the iteration.
    pub allocation: Allocation,
    /// Code of the loops nested in the iteration.
    pub inner: Vec<LoopCode>,
    /// Frame offsets of the vectors of the loop's values (`slots`), of spilled values (`spills`), and of two vectors
    /// for the iteration counter and the outer loop's active lanes (`words`).
    pub slots: i32,
    pub spills: i32,
    pub words: i32,
}

/// Compiles the loops of a step within the registers of `limits`; `None` if one needs more.
pub fn compile(v: &Vir, limits: Limits) -> Option<Vec<LoopCode>> {
    // Without mask registers, the mask of active lanes is in the last vector register.
    let top = v.target.vectors - !v.target.mask_registers() as usize;
    let limits = Limits { vectors: limits.vectors.min(top), ..limits };
    let one = |turn: &LoopIteration| {
        let order = schedule::order(&turn.v);
        let program = schedule::unroll(&turn.v, &order, 1, 1, false);
        let mut allocation = regalloc::allocate(&program, v.target, limits)?;
        let inner = compile(&turn.v, limits)?;
        if inner.is_empty() {
            allocation.hoist(&program, limits.vectors);
        }
        Some(LoopCode { program, allocation, inner, slots: 0, spills: 0, words: 0 })
    };
    v.loops.iter().map(one).collect()
}

/// Assigns frame offsets to loops; `vectors` allocates frame vectors.
pub fn place(turns: &mut [LoopCode], v: &Vir, vectors: &mut dyn FnMut(usize) -> i32) {
    for (code, turn) in turns.iter_mut().zip(&v.loops) {
        code.slots = vectors(turn.v.slots.len());
        code.spills = vectors(code.allocation.places as usize);
        code.words = vectors(2);
        place(&mut code.inner, &turn.v, vectors);
    }
}

/// Whether a step, or a loop in it, may send lanes to the slow path.
pub fn has_guards(v: &Vir) -> bool {
    v.effects.iter().any(|e| v.inst(*e).op == Op::Guard) || v.loops.iter().any(|l| has_guards(&l.v))
}
