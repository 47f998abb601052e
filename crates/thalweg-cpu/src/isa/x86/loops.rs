//! Loops with data-dependent trip counts inside a step: code with its own registers.
//!
//! In: a [`LoopCode`] for each loop of a step. Out: its instructions. The step stores initial values and arguments to
//! frame vectors of the loop, runs the loop, which preserves no registers, and loads its results from there:
//!
//! ```text
//! active = lanes inside the row (in a nested loop: the active lanes of the outer one)
//! repeat, at most `most` times:
//!     active &= go; leave if none is left
//!     carried = active ? next : carried        for all at once
//! ```
//!
//! `active` is k6 (AVX2: the last vector register). Always true: carried values are written after everything else in an
//! iteration has been computed, so lanes that leave have the values of their last iteration.

use super::asm::*;
use super::emit::{Allocated, Emit, reg};
use super::ops;
use crate::vector::ir::{Class, Inst, Op, Val};
use crate::vector::loop_code::LoopCode;

/// Mask register of the active lanes.
const ACTIVE: u8 = 6;

impl<'a> Emit<'a> {
    /// Stores a vector to a frame vector of a loop.
    pub fn put_value(&mut self, inst: &Inst, r: u8) {
        let home = self.value_slot(inst.aux);
        self.vector(ops::MOVUPS_STORE[0], self.full(), r, 0, home, None);
    }

    /// Loads a vector from a frame vector of a loop.
    pub fn take_value(&mut self, inst: &Inst, dst: u8) {
        let home = self.value_slot(inst.aux);
        self.vector(ops::MOVUPS[0], self.full(), dst, 0, home, None);
    }

    /// Address of a frame vector; `aux` has the loop and the number of the value.
    fn value_slot(&self, aux: u64) -> Rm {
        at(RSP, self.loops[(aux >> 16) as usize].slots + 64 * (aux & 0xFFFF) as i32)
    }

    /// Emits the loop of that number.
    pub fn run_loop(&mut self, number: usize, tail: bool) {
        let loops: &'a [LoopCode] = self.loops;
        let (code, iteration) = (&loops[number], &self.v.loops[number]);
        let nested = self.leave.is_some();
        self.begin(code, nested, tail);
        self.a.set(RAX, iteration.max_iterations);
        self.a.store(at(RSP, code.words), RAX);

        let (top, out) = (self.a.label(), self.a.label());
        let around = (self.v, self.loops, self.slots, self.spills, self.salt, self.leave);
        self.written += 1;
        let salt = 1 << 63 | self.written << 32;
        (self.v, self.loops, self.slots, self.spills) = (&iteration.v, &code.inner, code.slots, code.spills);
        (self.salt, self.leave) = (salt, Some(out));
        let own = (&code.program, &code.allocation);
        for &(val, r) in &own.1.hoisted {
            self.reload(own, val, r);
        }
        self.a.align(32);
        self.a.bind(top);
        self.steps(own);
        self.a.scalar(true, &[0xFF], 1, at(RSP, code.words), 0); // dec
        self.a.jump_if(Cond::NotEqual, top);
        self.a.bind(out);
        for &(val, r) in &own.1.hoisted {
            if own.0.insts[val.at()].op == Op::Slot {
                let (home, _) = self.home(own, val);
                self.vector(ops::MOVUPS_STORE[0], self.full(), r, 0, home, None);
            }
        }
        (self.v, self.loops, self.slots, self.spills, self.salt, self.leave) = around;
        if nested {
            self.restore(code);
        }
    }

    /// Vector register of the active lanes on AVX2.
    fn active(&self) -> u8 {
        self.level.target().vectors as u8 - 1
    }

    /// Sets the active lanes of the first iteration: those inside the row. A nested loop begins with the active lanes
    /// of the outer one, which are saved.
    fn begin(&mut self, code: &LoopCode, nested: bool, tail: bool) {
        let (kept, vector) = (at(RSP, code.words + 8), at(RSP, code.words + 64));
        match (self.avx512(), nested, tail) {
            (true, true, _) => self.mask_op(ops::KMOV_STORE, 0, ACTIVE, 0, kept),
            (true, _, true) => self.mask_op(ops::KMOV, 0, ACTIVE, 0, reg(7)),
            (true, ..) => {
                self.a.set(RAX, (1 << self.v.lanes) - 1);
                self.mask_op(ops::KMOV_FROM_GPR, 0, ACTIVE, 0, reg(RAX));
            }
            (_, true, _) => self.vector(ops::MOVUPS_STORE[0], 1, self.active(), 0, vector, None),
            (_, _, true) => {
                let inside = self.slot_at(0);
                self.vector(ops::MOVUPS[0], self.len(4), self.active(), 0, inside, None);
            }
            _ => {
                let t = self.active();
                self.vector(ops::PCMPEQ[0], self.len(4), t, t, reg(t), None);
            }
        }
    }

    fn restore(&mut self, code: &LoopCode) {
        if self.avx512() {
            self.mask_op(ops::KMOV, 0, ACTIVE, 0, at(RSP, code.words + 8));
        } else {
            self.vector(ops::MOVUPS[0], 1, self.active(), 0, at(RSP, code.words + 64), None);
        }
    }

    /// Leaves the loop if no lane is active; `go` is the mask of lanes that continue.
    pub fn exit(&mut self, dst: u8, go: u8) {
        let out = self.leave.expect("an exit is in a loop");
        if self.avx512() {
            self.mask_op(ops::KAND, 1, ACTIVE, ACTIVE, reg(go));
            self.mask_op(ops::KMOV_TO_GPR, 0, RAX, 0, reg(ACTIVE));
        } else {
            let (t, len) = (self.active(), self.len(4));
            self.vector(ops::PAND[0], len, t, t, reg(go), None);
            self.vector(ops::MOVMSK[0], len, RAX, 0, reg(t), None);
        }
        self.a.scalar(false, &[0x85], RAX, reg(RAX), 0); // test
        self.a.jump_if(Cond::Equal, out);
        if self.avx512() {
            self.mask_op(ops::KMOV, 0, dst, 0, reg(ACTIVE));
        } else {
            self.vector(ops::MOVAPS, self.len(4), dst, 0, reg(self.active()), None);
        }
    }

    /// Writes a register to a carried value.
    pub fn carry(&mut self, (program, allocation): Allocated, slot: u64, r: u8) {
        let is = |val: Val| {
            let inst = &program.insts[val.at()];
            inst.op == Op::Slot && inst.aux == slot && inst.class == Class::Vector
        };
        match allocation.hoisted.iter().find(|h| is(h.0)) {
            Some(&(_, to)) => self.vector(ops::MOVAPS, self.full(), to, 0, reg(r), None),
            None => {
                let home = self.slot_at(slot);
                self.vector(ops::MOVUPS_STORE[0], self.full(), r, 0, home, None);
            }
        }
    }
}
