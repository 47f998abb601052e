//! Vector operations as instructions of either instruction set, and the [`Machine`] on which the math functions are
//! written.
//!
//! Functions take and return values with the lane size that their names give. Only masks on AVX2 may have another lane
//! size than the other operands, and are converted where they are combined.

use super::asm::Code;
use super::isa::Isa;
use super::ops::{self, Pair};
use super::vir::{Op, Val, Vir};
use crate::machine::Machine;

/// Predicates of `vcmpps`.
pub const EQ: u8 = 0x00;
pub const NE: u8 = 0x04;
pub const LT: u8 = 0x11;
pub const LE: u8 = 0x12;
pub const UNORDERED: u8 = 0x03;

fn of(p: Pair, lane: u8) -> Code {
    p[(lane == 8) as usize]
}

impl Vir {
    /// Whether the instruction set has mask registers.
    pub fn masks(&self) -> bool {
        self.isa == Isa::Avx512
    }
    /// `op(a, b)` on lanes of one size.
    pub fn two(&mut self, p: Pair, lane: u8, a: Val, b: Val) -> Val {
        self.make(Op::Rvm, of(p, lane), lane, lane, 0, &[a, b])
    }
    /// `op(a, b, imm)`
    pub fn two_imm(&mut self, p: Pair, lane: u8, a: Val, b: Val, imm: u8) -> Val {
        self.make(Op::Rvm, of(p, lane), lane, lane, imm, &[a, b])
    }
    /// `op(a)`
    pub fn one(&mut self, p: Pair, lane: u8, a: Val) -> Val {
        self.make(Op::Rm, of(p, lane), lane, lane, 0, &[a])
    }
    /// A conversion; `size` is the lane size of the wider side, which sets the vector length.
    pub fn convert(&mut self, code: Code, size: u8, lane: u8, a: Val) -> Val {
        self.make(Op::Rm, code, size, lane, 0, &[a])
    }
    /// A shift by an immediate.
    pub fn shift(&mut self, p: Pair, lane: u8, a: Val, n: u8) -> Val {
        if n == 0 { a } else { self.make(Op::Shift, of(p, lane), lane, lane, n, &[a]) }
    }
    /// `vroundps` / `vrndscaleps`: 0 nearest, 1 down, 2 up, 3 to zero.
    pub fn round_to(&mut self, lane: u8, a: Val, mode: u8) -> Val {
        self.make(Op::Rm, of(ops::ROUND, lane), lane, lane, mode | 8, &[a])
    }
    /// Fused multiply-add, given the code of its 213 form.
    pub fn fused(&mut self, p: Pair, lane: u8, a: Val, b: Val, c: Val) -> Val {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        self.make(Op::Fma, of(p, lane), lane, lane, 0, &[a, b, c])
    }

    /// A float comparison.
    pub fn compare(&mut self, lane: u8, a: Val, b: Val, predicate: u8) -> Val {
        let to = if self.masks() { 0 } else { lane };
        let (a, b) = if matches!(predicate, EQ | NE | UNORDERED) && b < a { (b, a) } else { (a, b) };
        self.make(Op::Rvm, of(ops::CMP, lane), lane, to, predicate, &[a, b])
    }
    /// Integer `a = b`.
    pub fn int_eq(&mut self, lane: u8, a: Val, b: Val) -> Val {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        if self.masks() {
            self.make(Op::Rvm, of(ops::PCMP, lane), lane, 0, 0, &[a, b])
        } else {
            self.two(ops::PCMPEQ, lane, a, b)
        }
    }
    /// Integer `a > b`.
    pub fn int_gt(&mut self, lane: u8, a: Val, b: Val, signed: bool) -> Val {
        if self.masks() {
            let p = if signed { ops::PCMP } else { ops::PCMPU };
            return self.make(Op::Rvm, of(p, lane), lane, 0, 6, &[a, b]);
        }
        if signed {
            return self.two(ops::PCMPGT, lane, a, b);
        }
        let top = self.constant(1 << (lane * 8 - 1), lane);
        let (a, b) = (self.two(ops::PXOR, lane, a, top), self.two(ops::PXOR, lane, b, top));
        self.two(ops::PCMPGT, lane, a, b)
    }

    /// Converts a mask to lanes of this size (AVX2; mask registers fit any).
    pub fn mask_to(&mut self, m: Val, lane: u8) -> Val {
        match (self.lane(m), lane) {
            (4, 8) => self.convert(ops::MOVSX_DQ, 8, 8, m),
            (8, 4) => self.low_halves(m),
            _ => m,
        }
    }
    /// The low 32 bits of 64-bit lanes.
    pub fn low_halves(&mut self, v: Val) -> Val {
        if self.masks() {
            return self.make(Op::Mr, ops::MOV_QD, 8, 4, 0, &[v]);
        }
        let evens = self.table([0u32, 2, 4, 6].iter().flat_map(|i| i.to_le_bytes()).collect(), 8);
        self.make(Op::Rvm, ops::PERMD, 8, 4, 0, &[evens, v])
    }
    fn mask_op(&mut self, k: Code, v: Pair, a: Val, b: Val) -> Val {
        if self.masks() {
            let (a, b) = if k.commutes && b < a { (b, a) } else { (a, b) };
            return self.make(Op::Rvm, k, 8, 0, 0, &[a, b]);
        }
        let lane = self.lane(a);
        let b = self.mask_to(b, lane);
        self.two(v, lane, a, b)
    }
    /// `a` and `b`
    pub fn mask_and(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(ops::KAND, ops::PAND, a, b)
    }
    /// `a` or `b`
    pub fn mask_or(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(ops::KOR, ops::POR, a, b)
    }
    /// `a` xor `b`
    pub fn mask_xor(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(ops::KXOR, ops::PXOR, a, b)
    }
    /// `b` and not `a`
    pub fn mask_andn(&mut self, a: Val, b: Val) -> Val {
        self.mask_op(ops::KANDN, ops::PANDN, a, b)
    }
    /// Not `a`
    pub fn mask_not(&mut self, a: Val) -> Val {
        if self.masks() {
            return self.make(Op::Rm, ops::KNOT, 8, 0, 0, &[a]);
        }
        let lane = self.lane(a);
        let ones = self.constant(if lane == 8 { u64::MAX } else { u32::MAX as u64 }, lane);
        self.two(ops::PXOR, lane, a, ones)
    }
    /// A mask with all lanes true or false.
    pub fn mask_const(&mut self, v: bool) -> Val {
        if self.masks() {
            self.leaf(Op::KConst, 0, v as u8, 0)
        } else {
            self.constant(if v { u32::MAX as u64 } else { 0 }, 4)
        }
    }
    /// `m ? a : b`
    pub fn pick(&mut self, lane: u8, m: Val, a: Val, b: Val) -> Val {
        if a == b {
            return a;
        }
        if self.masks() {
            return self.make(Op::BlendM, of(ops::BLENDM, lane), lane, lane, 0, &[m, a, b]);
        }
        let m = self.mask_to(m, lane);
        self.make(Op::BlendV, of(ops::BLENDV, lane), lane, lane, 0, &[m, a, b])
    }
    /// Bitwise operation with a constant.
    pub fn with_const(&mut self, p: Pair, lane: u8, a: Val, bits: u64) -> Val {
        let c = self.constant(bits, lane);
        self.two(p, lane, a, c)
    }
    /// The magnitude of `a` with the sign of `s`.
    fn sign_from(&mut self, lane: u8, a: Val, s: Val) -> Val {
        let a = self.abs_float(lane, a);
        let s = self.with_const(ops::PAND, lane, s, 1 << (lane * 8 - 1));
        self.two(ops::POR, lane, a, s)
    }
    /// Clears the sign bit.
    pub fn abs_float(&mut self, lane: u8, a: Val) -> Val {
        self.with_const(ops::PAND, lane, a, (1 << (lane * 8 - 1)) - 1)
    }
    /// Inverts the sign bit.
    pub fn neg_float(&mut self, lane: u8, a: Val) -> Val {
        self.with_const(ops::PXOR, lane, a, 1 << (lane * 8 - 1))
    }
    /// `2ⁿ` for i32 lanes within the float's normal exponents.
    fn power(&mut self, lane: u8, n: Val) -> Val {
        if lane == 4 {
            let e = self.constant(127, 4);
            let n = self.two(ops::PADD, 4, n, e);
            return self.shift(ops::SHL, 4, n, 23);
        }
        let n = self.convert(ops::MOVSX_DQ, 8, 8, n);
        let e = self.constant(1023, 8);
        let n = self.two(ops::PADD, 8, n, e);
        self.shift(ops::SHL, 8, n, 52)
    }
    /// `a·2ⁿ` without a scale instruction. The excess of `n` over the normal exponents is applied first, in two halves:
    /// these products are exact, or the result is 0 or infinite anyway; only the last product rounds.
    fn scale_by_parts(&mut self, lane: u8, a: Val, n: Val) -> Val {
        let (n, lo, hi) = if lane == 4 {
            (self.convert(ops::CVT_F32_I32, 4, 4, n), -126i32, 127)
        } else {
            (self.convert(ops::CVT_F64_I32, 8, 4, n), -1022i32, 1023)
        };
        let (lo, hi) = (self.constant(lo as u32 as u64, 4), self.constant(hi as u64, 4));
        let last = self.two(ops::PMAXS, 4, n, lo);
        let last = self.two(ops::PMINS, 4, last, hi);
        let rest = self.two(ops::PSUB, 4, n, last);
        let first = self.shift(ops::SAR, 4, rest, 1);
        let second = self.two(ops::PSUB, 4, rest, first);
        [first, second, last].into_iter().fold(a, |a, part| {
            let p = self.power(lane, part);
            self.two(ops::MUL, lane, a, p)
        })
    }
    fn scaled(&mut self, lane: u8, a: Val, n: Val) -> Val {
        if self.masks() { self.two(ops::SCALEF, lane, a, n) } else { self.scale_by_parts(lane, a, n) }
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
        add(a, b) = v => v.two(ops::ADD, 4, a, b);
        sub(a, b) = v => v.two(ops::SUB, 4, a, b);
        mul(a, b) = v => v.two(ops::MUL, 4, a, b);
        div(a, b) = v => v.two(ops::DIV, 4, a, b);
        fma(a, b, c) = v => v.fused(ops::FMADD, 4, a, b, c);
        fnma(a, b, c) = v => v.fused(ops::FNMADD, 4, a, b, c);
        sqrt(a) = v => v.one(ops::SQRT, 4, a);
        min(a, b) = v => v.two(ops::MIN, 4, a, b);
        max(a, b) = v => v.two(ops::MAX, 4, a, b);
        abs(a) = v => v.abs_float(4, a);
        neg(a) = v => v.neg_float(4, a);
        copysign(a, s) = v => v.sign_from(4, a, s);
        round(a) = v => v.round_to(4, a, 0);
        scale(a, n) = v => v.scaled(4, a, n);
        lt(a, b) = v => v.compare(4, a, b, LT);
        le(a, b) = v => v.compare(4, a, b, LE);
        eq(a, b) = v => v.compare(4, a, b, EQ);
        ne(a, b) = v => v.compare(4, a, b, NE);
        select(m, a, b) = v => v.pick(4, m, a, b);
        bits(a) = _v => a;
        from_bits(a) = _v => a;
        to_int(a) = v => v.convert(ops::CVT_F32_I32, 4, 4, a);
        to_float(a) = v => v.convert(ops::CVT_I32_F32, 4, 4, a);
        i_add(a, b) = v => v.two(ops::PADD, 4, a, b);
        i_sub(a, b) = v => v.two(ops::PSUB, 4, a, b);
        i_and(a, b) = v => v.two(ops::PAND, 4, a, b);
        i_or(a, b) = v => v.two(ops::POR, 4, a, b);
        i_xor(a, b) = v => v.two(ops::PXOR, 4, a, b);
        i_eq(a, b) = v => v.int_eq(4, a, b);
        i_gt(a, b) = v => v.int_gt(4, a, b, true);
        d_add(a, b) = v => v.two(ops::ADD, 8, a, b);
        d_sub(a, b) = v => v.two(ops::SUB, 8, a, b);
        d_mul(a, b) = v => v.two(ops::MUL, 8, a, b);
        d_div(a, b) = v => v.two(ops::DIV, 8, a, b);
        d_fma(a, b, c) = v => v.fused(ops::FMADD, 8, a, b, c);
        d_fnma(a, b, c) = v => v.fused(ops::FNMADD, 8, a, b, c);
        d_sqrt(a) = v => v.one(ops::SQRT, 8, a);
        d_min(a, b) = v => v.two(ops::MIN, 8, a, b);
        d_max(a, b) = v => v.two(ops::MAX, 8, a, b);
        d_abs(a) = v => v.abs_float(8, a);
        d_neg(a) = v => v.neg_float(8, a);
        d_copysign(a, s) = v => v.sign_from(8, a, s);
        d_round(a) = v => v.round_to(8, a, 0);
        d_scale(a, n) = v => v.scaled(8, a, n);
        d_lt(a, b) = v => v.compare(8, a, b, LT);
        d_le(a, b) = v => v.compare(8, a, b, LE);
        d_eq(a, b) = v => v.compare(8, a, b, EQ);
        d_ne(a, b) = v => v.compare(8, a, b, NE);
        d_select(m, a, b) = v => v.pick(8, m, a, b);
        d_bits(a) = _v => a;
        d_from_bits(a) = _v => a;
        l_add(a, b) = v => v.two(ops::PADD, 8, a, b);
        l_sub(a, b) = v => v.two(ops::PSUB, 8, a, b);
        l_and(a, b) = v => v.two(ops::PAND, 8, a, b);
        l_or(a, b) = v => v.two(ops::POR, 8, a, b);
        l_xor(a, b) = v => v.two(ops::PXOR, 8, a, b);
        widen(a) = v => v.convert(ops::CVT_F32_F64, 8, 8, a);
        narrow(a) = v => v.convert(ops::CVT_F64_F32, 8, 4, a);
        m_and(a, b) = v => v.mask_and(a, b);
        m_or(a, b) = v => v.mask_or(a, b);
        m_not(a) = v => v.mask_not(a);
    }

    fn i_shl(&mut self, a: Val, n: u32) -> Val {
        self.shift(ops::SHL, 4, a, n as u8)
    }
    fn i_shr(&mut self, a: Val, n: u32) -> Val {
        self.shift(ops::SHR, 4, a, n as u8)
    }
    fn i_sar(&mut self, a: Val, n: u32) -> Val {
        self.shift(ops::SAR, 4, a, n as u8)
    }
    fn l_shl(&mut self, a: Val, n: u32) -> Val {
        self.shift(ops::SHL, 8, a, n as u8)
    }
    fn l_shr(&mut self, a: Val, n: u32) -> Val {
        self.shift(ops::SHR, 8, a, n as u8)
    }

    fn guard(&mut self, m: Val) {
        // Guards are ignored in lanes that have left the loop.
        let m = self.active.map_or(m, |active| self.mask_and(m, active));
        self.effect(Op::Guard, ops::KMOV, 0, 0, &[m], 0);
    }
}
