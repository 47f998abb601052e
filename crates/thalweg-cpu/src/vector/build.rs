//! Builder methods that append vector operations to the IR, and the [`Machine`] that records math functions in it.
//!
//! An operation that the target does not have is built from others here, once for all instruction sets.
//!
//! Functions take and return values with the lane size that their names give. Only masks in vectors may have another
//! lane size than the other operands, and are converted where they are combined.

use super::ir::target::Masks;
use super::ir::{Format, Op, Predicate, Rounding, Val, Vir};
use crate::machine::Machine;

impl Vir {
    /// Whether masks have registers of their own.
    pub fn masks(&self) -> bool {
        self.target.masks != Masks::Vectors
    }
    /// Whether the target has an instruction for an operation on lanes of `lane` bytes.
    pub fn native(&self, op: Op, lane: u8) -> bool {
        (self.target.native)(op, lane)
    }
    /// Appends `op(a, b)`, whose operands and result have lanes of `lane` bytes.
    pub fn two(&mut self, op: Op, lane: u8, a: Val, b: Val) -> Val {
        self.make(op, lane, lane, 0, &[a, b])
    }
    /// Appends `op(a)`, whose operand and result have lanes of `lane` bytes.
    pub fn one(&mut self, op: Op, lane: u8, a: Val) -> Val {
        self.make(op, lane, lane, 0, &[a])
    }
    /// Appends a conversion between number formats; floats are rounded to integers toward zero.
    pub fn convert(&mut self, from: Format, to: Format, a: Val) -> Val {
        self.make(Op::Convert(from, to), from.lane().max(to.lane()), to.lane(), 0, &[a])
    }
    /// Appends a conversion of floats to i32, rounded to nearest, halves to even.
    fn convert_nearest(&mut self, from: Format, a: Val) -> Val {
        self.make(Op::ConvertNearest(from, Format::I32), from.lane(), 4, 0, &[a])
    }
    /// Appends a shift or rotation by a constant; returns `a` itself if `n` is 0.
    pub fn shift(&mut self, op: Op, lane: u8, a: Val, n: u8) -> Val {
        if n == 0 { a } else { self.make(op, lane, lane, n, &[a]) }
    }
    /// Appends the rounding of floats to an integer (still as floats) in a direction.
    pub fn round_to(&mut self, lane: u8, a: Val, direction: Rounding) -> Val {
        self.one(Op::Round(direction), lane, a)
    }
    /// Appends a fused multiply-add `op(a, b, c)`.
    pub fn fused(&mut self, op: Op, lane: u8, a: Val, b: Val, c: Val) -> Val {
        self.make(op, lane, lane, 0, &[a, b, c])
    }

    /// Appends an instruction that compares lanes of `lane` bytes (its `imm`) into a mask: a mask register, or a vector
    /// of lanes of that size.
    pub fn mask_from(&mut self, op: Op, lane: u8, a: Val, b: Val) -> Val {
        let to = if self.masks() { 0 } else { lane };
        self.make(op, lane, to, lane, &[a, b])
    }
    /// Appends a float comparison of lanes of `lane` bytes; its value is a mask.
    pub fn compare(&mut self, lane: u8, a: Val, b: Val, predicate: Predicate) -> Val {
        self.mask_from(Op::Compare(predicate), lane, a, b)
    }
    /// Appends the integer comparison `a = b`; its value is a mask.
    pub fn int_eq(&mut self, lane: u8, a: Val, b: Val) -> Val {
        self.mask_from(Op::IntEq, lane, a, b)
    }
    /// Appends the integer comparison `a > b`; its value is a mask.
    pub fn int_gt(&mut self, lane: u8, a: Val, b: Val, signed: bool) -> Val {
        if signed {
            return self.mask_from(Op::IntGt, lane, a, b);
        }
        if self.native(Op::UintGt, lane) {
            return self.mask_from(Op::UintGt, lane, a, b);
        }
        let top = self.constant(1 << (lane * 8 - 1), lane);
        let (a, b) = (self.two(Op::Xor, lane, a, top), self.two(Op::Xor, lane, b, top));
        self.mask_from(Op::IntGt, lane, a, b)
    }

    /// Converts a mask in a vector to lanes of `lane` bytes; a mask in a mask register fits any lane size.
    pub fn mask_to(&mut self, m: Val, lane: u8) -> Val {
        match (self.lane(m), lane) {
            (4, 8) => self.convert(Format::I32, Format::I64, m),
            (8, 4) => self.low_halves(m),
            _ => m,
        }
    }
    /// Appends the truncation of 64-bit lanes to their low 32 bits, in adjacent 32-bit lanes.
    pub fn low_halves(&mut self, v: Val) -> Val {
        if self.native(Op::LowHalves, 8) {
            return self.make(Op::LowHalves, 8, 4, 0, &[v]);
        }
        let evens = self.table([0u32, 2, 4, 6].iter().flat_map(|i| i.to_le_bytes()).collect(), 8);
        self.make(Op::PermuteWords, 8, 4, 0, &[evens, v])
    }
    /// Appends an operation on two masks: `k` if they are in mask registers, `v` if they are in vectors.
    fn mask_op(&mut self, k: Op, v: Op, a: Val, b: Val) -> Val {
        if self.masks() {
            return self.make(k, 8, 0, 0, &[a, b]);
        }
        let lane = self.lane(a);
        let b = self.mask_to(b, lane);
        self.two(v, lane, a, b)
    }
    /// Appends the mask `a & b`.
    pub fn mask_and(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(Op::MaskAnd, Op::And, a, b)
    }
    /// Appends the mask `a | b`.
    pub fn mask_or(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(Op::MaskOr, Op::Or, a, b)
    }
    /// Appends the mask `a ^ b`.
    pub fn mask_xor(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(Op::MaskXor, Op::Xor, a, b)
    }
    /// Appends the mask `b & !a`.
    pub fn mask_andn(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(Op::MaskAndNot, Op::AndNot, a, b)
    }
    /// Appends the mask `!a`.
    pub fn mask_not(&mut self, a: Val) -> Val {
        if self.masks() {
            return self.make(Op::MaskNot, 8, 0, 0, &[a]);
        }
        let lane = self.lane(a);
        let ones = self.constant(if lane == 8 { u64::MAX } else { u32::MAX as u64 }, lane);
        self.two(Op::Xor, lane, a, ones)
    }
    /// Appends a mask constant with all lanes true or all false.
    pub fn mask_const(&mut self, v: bool) -> Val {
        if self.masks() {
            self.leaf(Op::MaskConst, 0, v as u8, 0)
        } else {
            self.constant(if v { u32::MAX as u64 } else { 0 }, 4)
        }
    }
    /// Appends the lane-wise selection `m ? a : b`; returns `a` if both are the same value.
    pub fn pick(&mut self, lane: u8, m: Val, a: Val, b: Val) -> Val {
        if a == b {
            return a;
        }
        let m = if self.masks() { m } else { self.mask_to(m, lane) };
        self.make(Op::Select, lane, lane, 0, &[m, a, b])
    }
    /// Appends the bitwise operation `op(a, bits)`, with `bits` in every lane.
    pub fn with_const(&mut self, op: Op, lane: u8, a: Val, bits: u64) -> Val {
        let c = self.constant(bits, lane);
        self.two(op, lane, a, c)
    }
    /// Appends the floats with the magnitude of `a` and the sign of `s` (copysign).
    pub fn sign_from(&mut self, lane: u8, a: Val, s: Val) -> Val {
        let a = self.abs_float(lane, a);
        let s = self.with_const(Op::And, lane, s, 1 << (lane * 8 - 1));
        self.two(Op::Or, lane, a, s)
    }
    /// Appends the magnitude of floats: clears the sign bit.
    pub fn abs_float(&mut self, lane: u8, a: Val) -> Val {
        self.with_const(Op::And, lane, a, (1 << (lane * 8 - 1)) - 1)
    }
    /// Appends the negation of floats: inverts the sign bit.
    pub fn neg_float(&mut self, lane: u8, a: Val) -> Val {
        self.with_const(Op::Xor, lane, a, 1 << (lane * 8 - 1))
    }
    /// Appends the float `2ⁿ`, for i32 lanes `n` within the range of normal exponents.
    fn power(&mut self, lane: u8, n: Val) -> Val {
        if lane == 4 {
            let e = self.constant(127, 4);
            let n = self.two(Op::IntAdd, 4, n, e);
            return self.shift(Op::ShiftLeft, 4, n, 23);
        }
        let n = self.convert(Format::I32, Format::I64, n);
        let e = self.constant(1023, 8);
        let n = self.two(Op::IntAdd, 8, n, e);
        self.shift(Op::ShiftLeft, 8, n, 52)
    }
    /// Appends `a·2ⁿ` for a target without a scale instruction. The excess of `n` over the normal exponents is applied
    /// first, in two halves: these products are exact, or the result is 0 or infinite anyway; only the last product
    /// rounds.
    fn scale_by_parts(&mut self, lane: u8, a: Val, n: Val) -> Val {
        let (n, lo, hi) = if lane == 4 {
            (self.convert_nearest(Format::F32, n), -126i32, 127)
        } else {
            (self.convert_nearest(Format::F64, n), -1022i32, 1023)
        };
        let (lo, hi) = (self.constant(lo as u32 as u64, 4), self.constant(hi as u64, 4));
        let last = self.two(Op::IntMax, 4, n, lo);
        let last = self.two(Op::IntMin, 4, last, hi);
        let rest = self.two(Op::IntSub, 4, n, last);
        let first = self.shift(Op::ShiftRightSigned, 4, rest, 1);
        let second = self.two(Op::IntSub, 4, rest, first);
        [first, second, last].into_iter().fold(a, |a, part| {
            let p = self.power(lane, part);
            self.two(Op::Mul, lane, a, p)
        })
    }
    fn scaled(&mut self, lane: u8, a: Val, n: Val) -> Val {
        if self.native(Op::Scale, lane) { self.two(Op::Scale, lane, a, n) } else { self.scale_by_parts(lane, a, n) }
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident),*) = $v:ident => $body:expr;)*) => {
        $(fn $name(&mut self, $($arg: Val),*) -> Val { let $v = self; $body })*
    };
}

impl Machine for Vir {
    type F = Val;
    type D = Val;
    type I = Val;
    type L = Val;
    type M = Val;

    fn f(&mut self, v: f32) -> Val {
        self.constant(v.to_bits() as u64, 4)
    }
    fn i(&mut self, v: i32) -> Val {
        self.constant(v as u32 as u64, 4)
    }
    fn d(&mut self, v: f64) -> Val {
        self.constant(v.to_bits(), 8)
    }
    fn l(&mut self, v: i64) -> Val {
        self.constant(v as u64, 8)
    }

    forward! {
        add(a, b) = v => v.two(Op::Add, 4, a, b);
        sub(a, b) = v => v.two(Op::Sub, 4, a, b);
        mul(a, b) = v => v.two(Op::Mul, 4, a, b);
        div(a, b) = v => v.two(Op::Div, 4, a, b);
        fma(a, b, c) = v => v.fused(Op::MulAdd, 4, a, b, c);
        fnma(a, b, c) = v => v.fused(Op::NegMulAdd, 4, a, b, c);
        sqrt(a) = v => v.one(Op::Sqrt, 4, a);
        min(a, b) = v => v.two(Op::Min, 4, a, b);
        max(a, b) = v => v.two(Op::Max, 4, a, b);
        abs(a) = v => v.abs_float(4, a);
        neg(a) = v => v.neg_float(4, a);
        copysign(a, s) = v => v.sign_from(4, a, s);
        round(a) = v => v.round_to(4, a, Rounding::Nearest);
        scale(a, n) = v => v.scaled(4, a, n);
        lt(a, b) = v => v.compare(4, a, b, Predicate::Lt);
        le(a, b) = v => v.compare(4, a, b, Predicate::Le);
        eq(a, b) = v => v.compare(4, a, b, Predicate::Eq);
        ne(a, b) = v => v.compare(4, a, b, Predicate::Ne);
        select(m, a, b) = v => v.pick(4, m, a, b);
        bits(a) = _v => a;
        from_bits(a) = _v => a;
        to_int(a) = v => v.convert_nearest(Format::F32, a);
        to_float(a) = v => v.convert(Format::I32, Format::F32, a);
        i_add(a, b) = v => v.two(Op::IntAdd, 4, a, b);
        i_sub(a, b) = v => v.two(Op::IntSub, 4, a, b);
        i_and(a, b) = v => v.two(Op::And, 4, a, b);
        i_or(a, b) = v => v.two(Op::Or, 4, a, b);
        i_xor(a, b) = v => v.two(Op::Xor, 4, a, b);
        i_eq(a, b) = v => v.int_eq(4, a, b);
        i_gt(a, b) = v => v.int_gt(4, a, b, true);
        d_add(a, b) = v => v.two(Op::Add, 8, a, b);
        d_sub(a, b) = v => v.two(Op::Sub, 8, a, b);
        d_mul(a, b) = v => v.two(Op::Mul, 8, a, b);
        d_div(a, b) = v => v.two(Op::Div, 8, a, b);
        d_fma(a, b, c) = v => v.fused(Op::MulAdd, 8, a, b, c);
        d_fnma(a, b, c) = v => v.fused(Op::NegMulAdd, 8, a, b, c);
        d_sqrt(a) = v => v.one(Op::Sqrt, 8, a);
        d_min(a, b) = v => v.two(Op::Min, 8, a, b);
        d_max(a, b) = v => v.two(Op::Max, 8, a, b);
        d_abs(a) = v => v.abs_float(8, a);
        d_neg(a) = v => v.neg_float(8, a);
        d_copysign(a, s) = v => v.sign_from(8, a, s);
        d_round(a) = v => v.round_to(8, a, Rounding::Nearest);
        d_scale(a, n) = v => v.scaled(8, a, n);
        d_lt(a, b) = v => v.compare(8, a, b, Predicate::Lt);
        d_le(a, b) = v => v.compare(8, a, b, Predicate::Le);
        d_eq(a, b) = v => v.compare(8, a, b, Predicate::Eq);
        d_ne(a, b) = v => v.compare(8, a, b, Predicate::Ne);
        d_select(m, a, b) = v => v.pick(8, m, a, b);
        d_bits(a) = _v => a;
        d_from_bits(a) = _v => a;
        l_add(a, b) = v => v.two(Op::IntAdd, 8, a, b);
        l_sub(a, b) = v => v.two(Op::IntSub, 8, a, b);
        l_and(a, b) = v => v.two(Op::And, 8, a, b);
        l_or(a, b) = v => v.two(Op::Or, 8, a, b);
        l_xor(a, b) = v => v.two(Op::Xor, 8, a, b);
        widen(a) = v => v.convert(Format::F32, Format::F64, a);
        narrow(a) = v => v.convert(Format::F64, Format::F32, a);
        m_and(a, b) = v => v.mask_and(a, b);
        m_or(a, b) = v => v.mask_or(a, b);
        m_not(a) = v => v.mask_not(a);
    }

    fn i_shl(&mut self, a: Val, n: u32) -> Val {
        self.shift(Op::ShiftLeft, 4, a, n as u8)
    }
    fn i_shr(&mut self, a: Val, n: u32) -> Val {
        self.shift(Op::ShiftRight, 4, a, n as u8)
    }
    fn i_sar(&mut self, a: Val, n: u32) -> Val {
        self.shift(Op::ShiftRightSigned, 4, a, n as u8)
    }
    fn l_shl(&mut self, a: Val, n: u32) -> Val {
        self.shift(Op::ShiftLeft, 8, a, n as u8)
    }
    fn l_shr(&mut self, a: Val, n: u32) -> Val {
        self.shift(Op::ShiftRight, 8, a, n as u8)
    }

    fn guard(&mut self, m: Val) {
        // Guards are ignored in lanes that have left the loop.
        let m = self.active.map_or(m, |active| self.mask_and(m, active));
        self.effect(Op::Guard, 0, 0, &[m], 0);
    }
}
