//! Emission of loops with data-dependent trip counts inside a step.
//!
//! In: a [`LoopCode`] for each loop of a step. Out: its lines. The step stores initial values and arguments to frame
//! vectors of the loop, runs the loop, which preserves no registers, and loads its results from there:
//!
//! ```text
//! active = lanes inside the row (in a nested loop: the active lanes of the outer one)
//! repeat, at most `max_iterations` times:
//!     active &= go; leave if none is left
//!     carried = active ? next : carried        for all at once
//! ```
//!
//! `active` is in a mask register, or in the last vector register where masks are vectors. Always true: carried values
//! are written after everything else in an iteration has been computed, so lanes that leave have the values of their
//! last iteration.

use super::emit::{Allocated, Emit};
use super::ir::{Class, Op, Val};
use super::linear::{Gpr, Line, Mem, Operand, frame};
use super::loop_code::LoopCode;

impl<'a> Emit<'a> {
    /// Memory operand of the frame vector of a loop's value; `aux` is `loop << 16 | value`.
    pub fn value_home(&self, aux: u64) -> Mem {
        frame(self.loops[(aux >> 16) as usize].slots + 64 * (aux & 0xFFFF) as i32)
    }

    /// Emits loop `number` of the step.
    pub fn run_loop(&mut self, number: usize, tail: bool) {
        let loops: &'a [LoopCode] = self.loops;
        let (code, iteration) = (&loops[number], &self.v.loops[number]);
        let (nested, words) = (self.leave.is_some(), code.words);
        self.code.push(Line::BeginLoop { nested, tail, lanes: self.v.lanes as u8, inside: self.slots, words });
        self.code.push(Line::Set { to: Gpr::A, value: iteration.max_iterations });
        self.code.store(frame(words), Gpr::A);

        let (top, out) = (self.code.label(), self.code.label());
        let around = (self.v, self.loops, self.slots, self.spills, self.salt, self.leave);
        self.written += 1;
        let salt = 1 << 63 | self.written << 32;
        (self.v, self.loops, self.slots, self.spills) = (&iteration.v, &code.inner, code.slots, code.spills);
        (self.salt, self.leave) = (salt, Some(out));
        let own = (&code.program, &code.allocation);
        for &(val, r) in &own.1.hoisted {
            self.reload(own, val, r);
        }
        self.code.push(Line::Align);
        self.code.bind(top);
        self.steps(own);
        self.code.push(Line::CountDown { at: frame(words), to: top });
        self.code.bind(out);
        for &(val, r) in &own.1.hoisted {
            if let (Op::Slot, Operand::Mem(home)) = (own.0.insts[val.at()].op, self.home(own, val)) {
                self.code.store_vector(home, r);
            }
        }
        (self.v, self.loops, self.slots, self.spills, self.salt, self.leave) = around;
        if nested {
            self.code.push(Line::EndLoop { words });
        }
    }

    /// Emits the update of a loop-carried value from a register: a register copy if the value is held in a register,
    /// else a store to the frame.
    pub fn carry(&mut self, (program, allocation): Allocated, slot: u64, from: u8) {
        let is = |val: Val| {
            let inst = &program.insts[val.at()];
            inst.op == Op::Slot && inst.aux == slot && inst.class == Class::Vector
        };
        match allocation.hoisted.iter().find(|h| is(h.0)) {
            Some(&(_, to)) => self.code.push(Line::CopyVector { to, from }),
            None => {
                let home = self.slot_at(slot);
                self.code.store_vector(home, from);
            }
        }
    }
}
