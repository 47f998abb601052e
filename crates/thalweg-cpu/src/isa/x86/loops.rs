//! Encoding of loops with data-dependent trip counts. The mask of active lanes is in k6, or on AVX2 in the last vector
//! register.

use super::asm::*;
use super::emit::{Emit, SCRATCH as ACTIVE, TAIL, len, reg};
use super::ops;

impl Emit {
    /// Memory operands in the frame where the active lanes of the outer loop are saved: as a mask, or as a vector.
    fn saved(words: i32) -> (Rm, Rm) {
        (at(RSP, words + 8), at(RSP, words + 64))
    }

    /// Emits code that sets the active lanes of the first iteration to the lanes inside the row. A nested loop begins
    /// with the active lanes of the outer loop, which are saved.
    pub fn begin_loop(&mut self, nested: bool, tail: bool, lanes: u8, inside: i32, words: i32) {
        let (kept, vector) = Self::saved(words);
        let t = self.last();
        match (self.avx512(), nested, tail) {
            (true, true, _) => self.mask_op(ops::KMOV_STORE, 0, ACTIVE, 0, kept),
            (true, _, true) => self.mask_op(ops::KMOV, 0, ACTIVE, 0, reg(TAIL)),
            (true, ..) => {
                self.a.set(RAX, (1 << lanes) - 1);
                self.mask_op(ops::KMOV_FROM_GPR, 0, ACTIVE, 0, reg(RAX));
            }
            (_, true, _) => self.vector(ops::MOVUPS_STORE[0], 1, t, 0, vector, None),
            (_, _, true) => self.vector(ops::MOVUPS[0], len(lanes * 4), t, 0, at(RSP, inside), None),
            _ => self.vector(ops::PCMPEQ[0], len(lanes * 4), t, t, reg(t), None),
        }
    }

    /// Emits code that restores the active lanes of the outer loop.
    pub fn end_loop(&mut self, words: i32) {
        let (kept, vector) = Self::saved(words);
        if self.avx512() {
            self.mask_op(ops::KMOV, 0, ACTIVE, 0, kept);
        } else {
            self.vector(ops::MOVUPS[0], 1, self.last(), 0, vector, None);
        }
    }

    /// Emits the exit test of an iteration: keeps the active lanes of the mask `go`, and jumps to `leave` if none is
    /// left.
    pub fn exit(&mut self, dst: u8, go: u8, width: u8, leave: Label) {
        let (t, len) = (self.last(), len(width));
        if self.avx512() {
            self.mask_op(ops::KAND, 1, ACTIVE, ACTIVE, reg(go));
            self.mask_op(ops::KMOV_TO_GPR, 0, RAX, 0, reg(ACTIVE));
        } else {
            self.vector(ops::PAND[0], len, t, t, reg(go), None);
            self.vector(ops::MOVMSK[0], len, RAX, 0, reg(t), None);
        }
        self.a.scalar(false, &[0x85], RAX, reg(RAX), 0); // test
        self.a.jump_if(Cond::Equal, leave);
        if self.avx512() {
            self.mask_op(ops::KMOV, 0, dst, 0, reg(ACTIVE));
        } else {
            self.vector(ops::MOVAPS, len, dst, 0, reg(t), None);
        }
    }
}
