//! Encoding of folds: combination of elements with accumulators, NaN flags, and halves of vectors.
//!
//! In: lines of folds. Out: their instructions. `select` reports to the machine-neutral stages which combinations are
//! single instructions, and how many temporaries the others need.

use super::asm::*;
use super::emit::{Emit, SCRATCH, TAIL, len, mem, reg};
use super::ops;
use super::select::{UNORDERED, fold_code};
use crate::vector::ir::Accumulate;
use crate::vector::linear::NanFlag;
use thalweg_ir::{DType, Monoid};

impl Emit {
    /// Emits `a = a op x` for a fold's monoid; float maxima and minima are correct for numbers only, not for NaN.
    pub fn combine(&mut self, f: Accumulate, width: u8, a: u8, (x, one): (Rm, bool), spare: [u8; 4], tail: bool) {
        let (code, alone) = fold_code(self.avx512(), f.op, f.dtype).expect("what is lowered has code");
        let len = len(width);
        let mask = if tail && self.avx512() { TAIL } else { 0 };
        let extra = Extra { mask, broadcast: one, ..Extra::default() };
        if alone {
            return self.a.op(code, len, a, a, x, extra);
        }
        let larger = f.op == Monoid::Max;
        let [t, _, u, _] = spare;
        let Rm::Reg(r) = x else { unreachable!("sequences have their argument in a register") };
        match (f.dtype, f.op) {
            (DType::F32 | DType::F64, _) if self.avx512() => {
                // Orders zeros by sign; the result has the sign of the number chosen.
                self.a.op(code, len, a, a, x, Extra { imm: Some(if larger { 5 } else { 4 }), ..extra });
            }
            (DType::F32 | DType::F64, _) => {
                // The instruction returns the second of two zeros: compute both orders, and combine the sign bits.
                self.vector(code, len, t, r, reg(a), None);
                self.vector(code, len, a, a, x, None);
                self.vector(if larger { ops::PAND } else { ops::POR }[0], len, a, a, reg(t), None);
            }
            (_, Monoid::Prod) => {
                // The product of the low halves, and the cross products in the upper half.
                self.vector(ops::SHR[1], len, ops::SHR[1].ext, t, reg(a), Some(32));
                self.vector(code, len, t, t, x, None);
                self.vector(ops::SHR[1], len, ops::SHR[1].ext, u, x, Some(32));
                self.vector(code, len, u, u, reg(a), None);
                self.vector(ops::PADD[1], len, t, t, reg(u), None);
                self.vector(ops::SHL[1], len, ops::SHL[1].ext, t, reg(t), Some(32));
                self.vector(code, len, a, a, x, None);
                self.vector(ops::PADD[1], len, a, a, reg(t), None);
            }
            _ => {
                if f.dtype == DType::U64 {
                    // Compared as signed numbers, offset by half the range.
                    self.splat_constant(t, 1 << 63, 8);
                    self.vector(ops::PXOR[1], len, u, t, x, None);
                    self.vector(ops::PXOR[1], len, t, t, reg(a), None);
                    self.vector(code, len, t, t, reg(u), None);
                } else {
                    self.vector(code, len, t, a, x, None);
                }
                let (yes, no) = if larger { (a, r) } else { (r, a) };
                self.vector(ops::BLENDV[1], len, a, no, reg(yes), Some(t << 4));
            }
        }
    }

    /// Emits instructions that set a fold's NaN flag if a lane is NaN.
    pub fn note_nan(&mut self, (lane, width): (u8, u8), x: u8, flag: NanFlag, t: u8, tail: bool) {
        let (compare, len) = (ops::CMP[(lane == 8) as usize], len(width));
        let mask = if tail && self.avx512() { TAIL } else { 0 };
        let unordered = Extra { imm: Some(UNORDERED), mask, ..Extra::default() };
        let home = mem(flag.home);
        if self.avx512() {
            self.a.op(compare, len, SCRATCH, x, reg(x), unordered);
            match flag.register {
                Some(k) => self.mask_op(ops::KOR, 1, k, k, reg(SCRATCH)),
                None => {
                    self.mask_op(ops::KMOV_TO_GPR, 0, RAX, 0, reg(SCRATCH));
                    self.a.scalar(false, &[0x09], RAX, home, 0);
                }
            }
            return;
        }
        self.a.op(compare, len, t, x, reg(x), unordered);
        match flag.register {
            Some(n) => self.vector(ops::POR[0], len, n, n, reg(t), None),
            None => {
                self.vector(ops::POR[0], len, t, t, home, None);
                self.vector(ops::MOVUPS_STORE[0], len, t, 0, home, None);
            }
        }
    }

    /// Emits a jump that is taken if a fold's NaN flag is not set.
    pub fn branch_if_number(&mut self, (lane, width): (u8, u8), flag: NanFlag, t: u8, number: Label) {
        let home = mem(flag.home);
        match (flag.register, self.avx512()) {
            (Some(n), true) => self.mask_op(ops::KMOV_TO_GPR, 0, RAX, 0, reg(n)),
            (None, true) => self.a.scalar(false, &[0x8B], RAX, home, 0),
            (n, false) => {
                let r = n.unwrap_or(t);
                if n.is_none() {
                    self.vector(ops::MOVUPS[0], self.full(), r, 0, home, None);
                }
                self.vector(ops::MOVMSK[(lane == 8) as usize], len(width), RAX, 0, reg(r), None);
            }
        }
        self.a.scalar(false, &[0x85], RAX, reg(RAX), 0); // test
        self.a.jump_if(Cond::Equal, number);
    }

    /// Emits the move of the upper half of a register's lowest `bytes` bytes to the lowest bytes of another register.
    pub fn upper_half(&mut self, to: u8, from: u8, bytes: u8) {
        match bytes {
            64 => self.vector(ops::EXTRACT_HALF, 2, from, 0, reg(to), Some(1)),
            32 => self.vector(ops::EXTRACT, 1, from, 0, reg(to), Some(1)),
            16 => self.vector(ops::PSHUFD, 0, to, 0, reg(from), Some(0xEE)),
            _ => self.vector(ops::PSHUFD, 0, to, 0, reg(from), Some(0x55)),
        }
    }
}
