//! The straight line of a loop's turn, with registers and a place in the frame of its own.
//!
//! In: a step with loops ([`Vir::loops`]), and the registers that they may use. Out: a [`TurnCode`] for each, which
//! [`super::turns`] writes. A turn's values are invariants of its code: what fits is in registers for the whole loop, carried
//! values among them, the others stay in the frame.

use super::isa::Isa;
use super::regalloc::{self, Allocation, Limits};
use super::schedule::{self, Program};
use super::vir::{Op, Turn, Vir};

/// The code of a loop.
pub struct TurnCode {
    /// One turn.
    pub program: Program,
    /// Its registers.
    pub allocation: Allocation,
    /// The loops in it.
    pub inner: Vec<TurnCode>,
    /// Where its frame vectors are: those of its values, of spilled ones, and two for what it counts.
    pub slots: i32,
    pub spills: i32,
    pub words: i32,
}

/// The loops of a step; `limits` are the registers that they may use. `None`: one needs more.
pub fn compile(v: &Vir, isa: Isa, limits: Limits) -> Option<Vec<TurnCode>> {
    // The last register of AVX2 says which lanes are active.
    let top = if isa == Isa::Avx2 { isa.registers() - 1 } else { isa.registers() };
    let limits = Limits { vectors: limits.vectors.min(top), ..limits };
    let one = |turn: &Turn| {
        let order = schedule::order(&turn.v);
        let program = schedule::unroll(&turn.v, &order, 1, 1, false);
        let mut allocation = regalloc::allocate(&program, isa, limits)?;
        let inner = compile(&turn.v, isa, limits)?;
        if inner.is_empty() {
            allocation.hoist(&program, limits.vectors);
        }
        Some(TurnCode { program, allocation, inner, slots: 0, spills: 0, words: 0 })
    };
    v.loops.iter().map(one).collect()
}

/// Gives loops their places in the frame; `vectors` makes room for so many.
pub fn place(turns: &mut [TurnCode], v: &Vir, vectors: &mut dyn FnMut(usize) -> i32) {
    for (code, turn) in turns.iter_mut().zip(&v.loops) {
        code.slots = vectors(turn.v.slots.len());
        code.spills = vectors(code.allocation.places as usize);
        code.words = vectors(2);
        place(&mut code.inner, &turn.v, vectors);
    }
}

/// Whether a step, or a loop in it, leaves lanes to the slow path.
pub fn has_guards(v: &Vir) -> bool {
    v.effects.iter().any(|e| v.inst(*e).op == Op::Guard) || v.loops.iter().any(|l| has_guards(&l.v))
}
