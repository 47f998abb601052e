//! Folds over the points of a row: initialisation, update and tree reduction of accumulators.
//!
//! The order of a fold is part of a kernel's definition (`thalweg_kernel::order`): 32 lanes, so a pass that folds has
//! exactly as many copies of the step as make 32 points, each with its own accumulator for every fold. Accumulators are
//! in registers above those of the allocator from the row's start to its end; if registers run out, the others are in
//! the frame. A fold's instruction reads its argument and updates the accumulator in place. Always true: lanes that no
//! element reaches stay at the identity.
//!
//! Maxima and minima of floats track NaN in a separate flag, since the instructions drop one: a bit in a mask register
//! says that some element was NaN (AVX2: the lanes of a vector).

use super::asm::*;
use super::emit::*;
use super::ops;
use super::select::fold_code;
use crate::vector::accumulators::{Accumulators, tracks_nan};
use crate::vector::elements::lane_of;
use crate::vector::ir::{Accumulate, Inst};
use thalweg_ir::{DType, Monoid, Scalar};

impl<'a> Emit<'a> {
    fn accumulators(&self) -> &'a Accumulators {
        self.held.expect("a step with folds has accumulators")
    }

    /// Sets the accumulators to the identity.
    pub fn start_folds(&mut self) {
        let Some(held) = self.held else { return };
        for (k, f) in self.v.folds.iter().enumerate() {
            let lane = lane_of(f.dtype);
            let bits = f.op.identity(f.dtype);
            for copy in 0..held.copies {
                let r = held.register(k, copy).unwrap_or(held.spare[3]);
                self.splat_constant(bits, lane, r);
                if held.register(k, copy).is_none() {
                    self.vector(ops::MOVUPS_STORE[0], self.full(), r, 0, at(RSP, held.home(k, copy)), None);
                }
            }
            if !tracks_nan(f) {
                continue;
            }
            match (held.nan[k], self.avx512()) {
                (Some(r), true) => self.mask_op(ops::KXOR, 1, r, r, reg(r)),
                (Some(r), false) => self.splat_constant(0, 4, r),
                (None, _) => {
                    let r = held.spare[0];
                    self.splat_constant(0, 4, r);
                    self.vector(ops::MOVUPS_STORE[0], self.full(), r, 0, at(RSP, held.nan_home(k)), None);
                }
            }
        }
    }

    fn splat_constant(&mut self, bits: u64, lane: u8, r: u8) {
        if bits == 0 {
            return self.vector(ops::PXOR[0], self.full(), r, r, reg(r), None);
        }
        let (home, one) = self.constant(bits, lane);
        if one {
            self.vector(ops::BROADCAST[(lane == 8) as usize], self.full(), r, 0, home, None);
        } else {
            self.vector(ops::MOVUPS[0], self.full(), r, 0, home, None);
        }
    }

    /// Folds a step's elements into the accumulators. `mask` (AVX2): the lanes inside the row.
    pub fn fold(&mut self, tail: bool, inst: &Inst, (mut x, one): (Rm, bool), mask: Option<u8>) {
        let held = self.accumulators();
        let k = inst.aux as usize;
        let f = self.v.folds[k];
        let copy = if tail { self.copy } else { inst.step } as usize;
        let lane = lane_of(f.dtype);
        let k7 = if tail && self.avx512() { 7 } else { 0 };
        if let (Some(m), Rm::Reg(from)) = (mask, x) {
            let v = held.spare[1];
            self.splat_constant(f.op.identity(f.dtype), lane, v);
            let code = ops::BLENDV[(lane == 8) as usize];
            self.vector(code, len(inst.width), v, v, reg(from), Some(m << 4));
            x = reg(v);
        }
        let a = held.register(k, copy).unwrap_or(held.spare[3]);
        if held.register(k, copy).is_none() {
            self.vector(ops::MOVUPS[0], self.full(), a, 0, at(RSP, held.home(k, copy)), None);
        }
        let extra = Extra { mask: k7, broadcast: one, ..Extra::default() };
        self.put(f, len(inst.width), a, x, extra);
        if held.register(k, copy).is_none() {
            self.vector(ops::MOVUPS_STORE[0], self.full(), a, 0, at(RSP, held.home(k, copy)), None);
        }
        if let (true, Rm::Reg(r)) = (tracks_nan(&f), x) {
            self.note_nan(k, lane, len(inst.width), r, k7);
        }
    }

    /// `a = a op x`; float maxima and minima are correct for numbers only.
    fn put(&mut self, f: Accumulate, len: u8, a: u8, x: Rm, extra: Extra) {
        let (code, alone) = fold_code(self.avx512(), f.op, f.dtype).expect("what is lowered has code");
        if alone {
            return self.a.op(code, len, a, a, x, extra);
        }
        let larger = f.op == Monoid::Max;
        let [t, _, u, _] = self.accumulators().spare;
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
                    self.splat_constant(1 << 63, 8, t);
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

    /// Records whether a lane is NaN.
    fn note_nan(&mut self, fold: usize, lane: u8, len: u8, x: u8, mask: u8) {
        let held = self.accumulators();
        let compare = ops::CMP[(lane == 8) as usize];
        let unordered = Extra { imm: Some(3), mask, ..Extra::default() };
        if self.avx512() {
            self.a.op(compare, len, 6, x, reg(x), unordered);
            match held.nan[fold] {
                Some(k) => self.mask_op(ops::KOR, 1, k, k, reg(6)),
                None => {
                    self.mask_op(ops::KMOV_TO_GPR, 0, RAX, 0, reg(6));
                    self.a.scalar(false, &[0x09], RAX, at(RSP, held.nan_home(fold)), 0);
                }
            }
            return;
        }
        let t = held.spare[0];
        self.a.op(compare, len, t, x, reg(x), unordered);
        match held.nan[fold] {
            Some(n) => self.vector(ops::POR[0], len, n, n, reg(t), None),
            None => {
                self.vector(ops::POR[0], len, t, t, at(RSP, held.nan_home(fold)), None);
                self.vector(ops::MOVUPS_STORE[0], len, t, 0, at(RSP, held.nan_home(fold)), None);
            }
        }
    }

    /// Reduces accumulators to one element, broadcast as the row's value.
    pub fn end_folds(&mut self) {
        let Some(held) = self.held else { return };
        let ways: Vec<u8> = (0..self.v.folds.len()).map(|k| self.copies_to_one(k)).collect();
        for (k, a) in ways.into_iter().enumerate() {
            let f = self.v.folds[k];
            if held.register(k, 0).is_none() {
                self.vector(ops::MOVUPS[0], self.full(), a, 0, at(RSP, held.home(k, 0)), None);
            }
            self.lanes_to_one(f, a);
            if tracks_nan(&f) {
                self.nan_to_result(k, f, a);
            }
            let wide = (lane_of(f.dtype) == 8) as usize;
            self.vector(ops::BROADCAST[wide], self.full(), a, 0, reg(a), None);
            self.vector(ops::MOVUPS_STORE[0], self.full(), a, 0, self.value_at(f.value), None);
        }
    }

    /// Reduces the accumulators of a fold to the first one, in its register or in the frame.
    fn copies_to_one(&mut self, k: usize) -> u8 {
        let held = self.accumulators();
        let f = self.v.folds[k];
        let len = self.len(lane_of(f.dtype));
        let [_, v, _, s] = held.spare;
        let mut half = held.copies / 2;
        while half > 0 {
            for copy in 0..half {
                let a = held.register(k, copy).unwrap_or(s);
                if held.register(k, copy).is_none() {
                    self.vector(ops::MOVUPS[0], self.full(), a, 0, at(RSP, held.home(k, copy)), None);
                }
                let b = held.register(k, copy + half).unwrap_or(v);
                if held.register(k, copy + half).is_none() {
                    self.vector(ops::MOVUPS[0], self.full(), b, 0, at(RSP, held.home(k, copy + half)), None);
                }
                self.put(f, len, a, reg(b), Extra::default());
                if held.register(k, copy).is_none() {
                    self.vector(ops::MOVUPS_STORE[0], self.full(), a, 0, at(RSP, held.home(k, copy)), None);
                }
            }
            half /= 2;
        }
        held.register(k, 0).unwrap_or(s)
    }

    /// Reduces the lanes of a register to the lowest one, in a tree of halves.
    fn lanes_to_one(&mut self, f: Accumulate, a: u8) {
        let lane = lane_of(f.dtype);
        // On AVX2, `put` may use the first temporary.
        let other = self.accumulators().spare[!self.avx512() as usize];
        let bytes = self.v.lanes * lane as usize;
        if bytes == 64 {
            self.vector(ops::EXTRACT_HALF, 2, a, 0, reg(other), Some(1));
            self.put(f, 1, a, reg(other), Extra::default());
        }
        if bytes >= 32 {
            self.vector(ops::EXTRACT, 1, a, 0, reg(other), Some(1));
            self.put(f, 0, a, reg(other), Extra::default());
        }
        let orders: &[u8] = if lane == 8 { &[0xEE] } else { &[0xEE, 0x55] };
        for &order in orders {
            self.vector(ops::PSHUFD, 0, other, 0, reg(a), Some(order));
            self.put(f, 0, a, reg(other), Extra::default());
        }
    }

    /// Sets the result to NaN if an element was NaN.
    fn nan_to_result(&mut self, k: usize, f: Accumulate, a: u8) {
        let held = self.accumulators();
        let lane = lane_of(f.dtype);
        match (held.nan[k], self.avx512()) {
            (Some(n), true) => self.mask_op(ops::KMOV_TO_GPR, 0, RAX, 0, reg(n)),
            (None, true) => self.a.scalar(false, &[0x8B], RAX, at(RSP, held.nan_home(k)), 0),
            (n, false) => {
                let r = n.unwrap_or(held.spare[0]);
                if n.is_none() {
                    self.vector(ops::MOVUPS[0], self.full(), r, 0, at(RSP, held.nan_home(k)), None);
                }
                self.vector(ops::MOVMSK[(lane == 8) as usize], self.len(lane), RAX, 0, reg(r), None);
            }
        }
        let number = self.a.label();
        self.a.scalar(false, &[0x85], RAX, reg(RAX), 0); // test
        self.a.jump_if(Cond::Equal, number);
        self.splat_constant(Scalar::Float(f64::NAN).to_bits(f.dtype), lane, a);
        self.a.bind(number);
    }

    /// Sets a value of the row from the lowest lane.
    pub fn set_value(&mut self, value: u16, lane: u8, r: u8) {
        // The source register may live on, so it is not overwritten; the allocator does not use the last register here.
        let t = self.level.target().vectors as u8 - 1;
        self.vector(ops::BROADCAST[(lane == 8) as usize], self.full(), t, 0, reg(r), None);
        self.vector(ops::MOVUPS_STORE[0], self.full(), t, 0, self.value_at(value), None);
    }
}
