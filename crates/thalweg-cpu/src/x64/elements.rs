//! Elementwise operations and conversions as vector instructions, by compute type.

use super::asm::Code;
use super::build::{EQ, LE, LT, NE, UNORDERED};
use super::isa::Isa;
use super::ops;
use super::vir::{Op, Val, Vir};
use crate::machine::Machine;
use crate::math;
use crate::prepare::prepare;
use thalweg_ir::{Compute, DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{Node, NodeId};

/// Bytes per lane in which a dtype computes; 4 for bool, whose masks have any size.
pub fn lane_of(dtype: DType) -> u8 {
    match dtype.compute() {
        Compute::F64 | Compute::I64 | Compute::U64 => 8,
        _ => 4,
    }
}

/// Lowers an operation on values of `dtype` (the dtype of the last argument). `None` if there are no instructions for
/// it.
pub fn element(v: &mut Vir, op: ElementOp, dtype: DType, a: &[Val]) -> Option<Val> {
    match dtype.compute() {
        Compute::F32 | Compute::F64 => float(v, op, dtype, a),
        Compute::I32 | Compute::U32 => int32(v, op, dtype, a),
        Compute::I64 | Compute::U64 => int64(v, op, dtype.is_signed(), a),
        Compute::Mask => mask(v, op, a),
    }
}

fn float(v: &mut Vir, op: ElementOp, dtype: DType, a: &[Val]) -> Option<Val> {
    use ElementOp::*;
    let w = lane_of(dtype);
    let (x, y) = (a[0], *a.last()?);
    Some(match op {
        Neg => v.neg_float(w, x),
        Abs => v.abs_float(w, x),
        Sqrt => v.one(ops::SQRT, w, x),
        Round => v.round_to(w, x, 0),
        Floor => v.round_to(w, x, 1),
        Ceil => v.round_to(w, x, 2),
        Trunc => v.round_to(w, x, 3),
        Add => v.two(ops::ADD, w, x, y),
        Sub => v.two(ops::SUB, w, x, y),
        Mul => v.two(ops::MUL, w, x, y),
        Div => v.two(ops::DIV, w, x, y),
        FloorDiv => floor_div(v, w, x, y),
        Minimum => extremum(v, w, x, y, false),
        Maximum => extremum(v, w, x, y, true),
        Eq => v.compare(w, x, y, EQ),
        Ne => v.compare(w, x, y, NE),
        Lt => v.compare(w, x, y, LT),
        Le => v.compare(w, x, y, LE),
        Gt => v.compare(w, y, x, LT),
        Ge => v.compare(w, y, x, LE),
        Where => v.pick(w, x, a[1], a[2]),
        _ if w == 4 => return math::element_f32(v, op, a),
        _ => return math::element_f64(v, op, a),
    })
}

/// `⌊a/b⌋`. In f32, the quotient may have been rounded up to an integer; the exact remainder then has the opposite sign
/// of `b`. From 2²³ on, the quotient is an integer anyway.
fn floor_div(v: &mut Vir, w: u8, a: Val, b: Val) -> Val {
    let q = v.two(ops::DIV, w, a, b);
    let f = v.round_to(w, q, 1);
    if w == 8 {
        return f;
    }
    let r = v.fnma(f, b, a);
    let (zero, one, big) = (v.f(0.0), v.f(1.0), v.f(8_388_608.0));
    let s = v.i_xor(r, b);
    let opposite = v.i_gt(zero, s);
    // A NaN remainder, from an infinite divisor, counts as none.
    let rest = v.abs(r);
    let nonzero = v.lt(zero, rest);
    let size = v.abs(q);
    let small = v.lt(size, big);
    let up = v.m_and(opposite, nonzero);
    let up = v.m_and(up, small);
    let less = v.sub(f, one);
    v.select(up, less, f)
}

/// IEEE 754-2019 `minimum` and `maximum`: NaN if either argument is NaN, and -0 below +0.
fn extremum(v: &mut Vir, w: u8, a: Val, b: Val, larger: bool) -> Val {
    let ends = ends(v, w, a, b, larger);
    let nan = v.compare(w, a, b, UNORDERED);
    let sum = v.two(ops::ADD, w, a, b);
    v.pick(w, nan, sum, ends)
}

/// The smaller or larger of two numbers, -0 below +0; unspecified if one is NaN.
fn ends(v: &mut Vir, w: u8, a: Val, b: Val, larger: bool) -> Val {
    if v.masks() {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        return v.two_imm(ops::RANGE, w, a, b, if larger { 5 } else { 4 });
    }
    // x86 returns the second of two zeros: compute both orders, and combine the sign bits.
    let p = if larger { ops::MAX } else { ops::MIN };
    let (m, n) = (v.two(p, w, a, b), v.two(p, w, b, a));
    v.two(if larger { ops::PAND } else { ops::POR }, w, m, n)
}

/// Combines two partial results of a fold, as `thalweg_kernel::order` defines it. `None` if there are no instructions
/// for it.
pub fn combine(v: &mut Vir, op: Monoid, dtype: DType, old: Val, new: Val) -> Option<Val> {
    if dtype.is_float() && matches!(op, Monoid::Max | Monoid::Min) {
        let w = lane_of(dtype);
        let ends = ends(v, w, old, new, op == Monoid::Max);
        let nan = v.compare(w, old, new, UNORDERED);
        let canonical = v.constant(Scalar::Float(f64::NAN).to_bits(dtype), w);
        return Some(v.pick(w, nan, canonical, ends));
    }
    let body = prepare(&combination(op, dtype, true));
    let mut place: Vec<Val> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        let val = match *node {
            Node::Value { slot, .. } => [old, new][slot as usize],
            Node::Const { bits, dtype } => v.constant(bits, lane_of(dtype)),
            Node::Element { op, .. } => {
                let id = NodeId(i as u32);
                let args: Vec<Val> = body.args(id).map(|a| place[a.index()]).collect();
                element(v, op, body.operand_dtype(id), &args)?
            }
            _ => return None,
        };
        place.push(val);
    }
    Some(place[body.sets[0].node.index()])
}

/// The instruction that combines elements in a fold, or the main one of its sequence; and whether that single
/// instruction is enough. `None` if the emitter has no sequence for this monoid.
pub fn fold_code(isa: Isa, op: Monoid, dtype: DType) -> Option<(Code, bool)> {
    let w = (lane_of(dtype) == 8) as usize;
    let evex = isa == Isa::Avx512;
    Some(match (op, dtype) {
        (Monoid::Sum, DType::F32 | DType::F64) => (ops::ADD[w], true),
        (Monoid::Prod, DType::F32 | DType::F64) => (ops::MUL[w], true),
        (Monoid::Max | Monoid::Min, DType::F32 | DType::F64) if evex => (ops::RANGE[w], false),
        (Monoid::Max, DType::F32 | DType::F64) => (ops::MAX[w], false),
        (Monoid::Min, DType::F32 | DType::F64) => (ops::MIN[w], false),
        (Monoid::Sum, _) => (ops::PADD[w], true),
        (Monoid::Prod, DType::I64 | DType::U64) if !evex => (ops::PMULUDQ, false),
        (Monoid::Prod, _) => (ops::PMULL[w], true),
        (Monoid::Max | Monoid::Min, DType::I64 | DType::U64) if !evex => (ops::PCMPGT[1], false),
        (Monoid::Max, DType::U32 | DType::U64) => (ops::PMAXU[w], true),
        (Monoid::Min, DType::U32 | DType::U64) => (ops::PMINU[w], true),
        (Monoid::Max, _) => (ops::PMAXS[w], true),
        (Monoid::Min, _) => (ops::PMINS[w], true),
        _ => return None,
    })
}

/// Wraps a 32-bit result to the dtype.
pub fn wrap(v: &mut Vir, x: Val, dtype: DType) -> Val {
    let bits = match dtype {
        DType::I8 => 24,
        DType::I16 => 16,
        DType::U8 => return v.with_const(ops::PAND, 4, x, 0xFF),
        DType::U16 => return v.with_const(ops::PAND, 4, x, 0xFFFF),
        _ => return x,
    };
    let x = v.shift(ops::SHL, 4, x, bits);
    v.shift(ops::SAR, 4, x, bits)
}

fn constant_of(v: &Vir, x: Val) -> Option<u64> {
    let i = v.inst(x);
    (i.op == Op::Const).then_some(i.aux)
}

/// `(a << c) | (a >> (32 - c))` as one rotation.
fn rotation(v: &mut Vir, x: Val, y: Val) -> Option<Val> {
    if !v.masks() {
        return None;
    }
    let part = |x: Val| {
        let i = v.inst(x);
        (i.op == Op::Shift && i.lane == 4).then_some((i.args[0], i.imm, i.code.ext))
    };
    let ((a, n, e), (b, m, f)) = (part(x)?, part(y)?);
    let left = match (e, f) {
        (6, 2) => n,
        (2, 6) => m,
        _ => return None,
    };
    (a == b && n + m == 32).then(|| v.make(Op::Shift, ops::ROL, 4, 4, left, &[a]))
}

fn int32(v: &mut Vir, op: ElementOp, dtype: DType, a: &[Val]) -> Option<Val> {
    use ElementOp::*;
    let (x, y) = (a[0], *a.last()?);
    let signed = dtype != DType::U32;
    let narrow = dtype.size() < 4;
    let result = match op {
        Neg => {
            let zero = v.i(0);
            v.i_sub(zero, x)
        }
        // Wraps at the smallest value; unsigned values are their own magnitude.
        Abs if dtype.is_signed() => v.one(ops::PABS, 4, x),
        Abs => x,
        BitNot => v.with_const(ops::PXOR, 4, x, u32::MAX as u64),
        Add => v.i_add(x, y),
        Sub => v.i_sub(x, y),
        Mul => v.two(ops::PMULL, 4, x, y),
        Minimum => v.two(if signed { ops::PMINS } else { ops::PMINU }, 4, x, y),
        Maximum => v.two(if signed { ops::PMAXS } else { ops::PMAXU }, 4, x, y),
        Eq => v.int_eq(4, x, y),
        Ne => {
            let e = v.int_eq(4, x, y);
            v.mask_not(e)
        }
        Gt => v.int_gt(4, x, y, signed),
        Lt => v.int_gt(4, y, x, signed),
        Le => {
            let g = v.int_gt(4, x, y, signed);
            v.mask_not(g)
        }
        Ge => {
            let l = v.int_gt(4, y, x, signed);
            v.mask_not(l)
        }
        BitAnd => v.i_and(x, y),
        BitOr => rotation(v, x, y).unwrap_or_else(|| v.i_or(x, y)),
        BitXor => v.i_xor(x, y),
        // Variable shifts take unsigned counts, and give 0 or the sign from 32 on. Narrow types wrap to the same
        // results.
        Shl => match constant_of(v, y) {
            Some(n) if n < 32 => v.shift(ops::SHL, 4, x, n as u8),
            _ => v.two(ops::SHLV, 4, x, y),
        },
        Shr => match constant_of(v, y) {
            Some(n) if n < 32 => v.shift(if signed { ops::SAR } else { ops::SHR }, 4, x, n as u8),
            _ => v.two(if signed { ops::SARV } else { ops::SHRV }, 4, x, y),
        },
        Div | FloorDiv | Rem => divide(v, op, signed, x, y),
        Where => v.pick(4, x, a[1], a[2]),
        _ => return None,
    };
    let wraps = matches!(op, Neg | Abs | BitNot | Add | Sub | Mul | Shl | Div | FloorDiv);
    Some(if narrow && wraps { wrap(v, result, dtype) } else { result })
}

/// Division of 32-bit integers in f64: a quotient that is no integer is at least 2⁻³² of itself away from one, so
/// rounding does not reach it.
fn divide(v: &mut Vir, op: ElementOp, signed: bool, a: Val, b: Val) -> Val {
    let (x, y) = (to_f64(v, a, signed), to_f64(v, b, signed));
    let q = v.d_div(x, y);
    let q = v.round_to(8, q, if op == ElementOp::Div { 3 } else { 1 });
    let zero = v.i(0);
    let none = v.int_eq(4, b, zero);
    let q = if signed { v.convert(ops::CVTT_F64_I32, 8, 4, q) } else { u32_from_f64(v, q) };
    let result = match op {
        ElementOp::Rem => {
            let p = v.two(ops::PMULL, 4, q, b);
            v.i_sub(a, p)
        }
        _ => q,
    };
    v.pick(4, none, zero, result)
}

fn to_f64(v: &mut Vir, a: Val, signed: bool) -> Val {
    if signed {
        return v.convert(ops::CVT_I32_F64, 8, 8, a);
    }
    if v.masks() {
        return v.convert(ops::CVT_U32_F64, 8, 8, a);
    }
    let a = v.with_const(ops::PXOR, 4, a, 1 << 31);
    let d = v.convert(ops::CVT_I32_F64, 8, 8, a);
    let half = v.d(2_147_483_648.0);
    v.d_add(d, half)
}

/// An integral f64 from 0 to 2³²-1 as u32.
fn u32_from_f64(v: &mut Vir, q: Val) -> Val {
    if v.masks() {
        return v.convert(ops::CVTT_F64_U32, 8, 4, q);
    }
    let half = v.d(2_147_483_648.0);
    let q = v.d_sub(q, half);
    let i = v.convert(ops::CVTT_F64_I32, 8, 4, q);
    v.with_const(ops::PXOR, 4, i, 1 << 31)
}

fn int64(v: &mut Vir, op: ElementOp, signed: bool, a: &[Val]) -> Option<Val> {
    use ElementOp::*;
    let (x, y) = (a[0], *a.last()?);
    let wide = v.masks();
    Some(match op {
        Neg => {
            let zero = v.l(0);
            v.l_sub(zero, x)
        }
        Abs if !signed => x,
        Abs if wide => v.one(ops::PABS, 8, x),
        Abs => {
            let zero = v.l(0);
            let s = v.int_gt(8, zero, x, true);
            let t = v.l_xor(x, s);
            v.l_sub(t, s)
        }
        BitNot => v.with_const(ops::PXOR, 8, x, u64::MAX),
        Add => v.l_add(x, y),
        Sub => v.l_sub(x, y),
        Mul => mul64(v, x, y),
        Minimum if wide => v.two(if signed { ops::PMINS } else { ops::PMINU }, 8, x, y),
        Maximum if wide => v.two(if signed { ops::PMAXS } else { ops::PMAXU }, 8, x, y),
        Minimum | Maximum => {
            let g = v.int_gt(8, x, y, signed);
            if op == Maximum { v.pick(8, g, x, y) } else { v.pick(8, g, y, x) }
        }
        Eq => v.int_eq(8, x, y),
        Ne => {
            let e = v.int_eq(8, x, y);
            v.mask_not(e)
        }
        Gt => v.int_gt(8, x, y, signed),
        Lt => v.int_gt(8, y, x, signed),
        Le => {
            let g = v.int_gt(8, x, y, signed);
            v.mask_not(g)
        }
        Ge => {
            let l = v.int_gt(8, y, x, signed);
            v.mask_not(l)
        }
        BitAnd => v.l_and(x, y),
        BitOr => v.l_or(x, y),
        BitXor => v.l_xor(x, y),
        Shl => v.two(ops::SHLV, 8, x, y),
        // Counts are unsigned; the result is 0 or the sign from 64 on.
        Shr if !signed => v.two(ops::SHRV, 8, x, y),
        Shr if wide => v.two(ops::SARV, 8, x, y),
        Shr => {
            // A logical shift of the bits xor the sign, and xor the sign again.
            let zero = v.l(0);
            let s = v.int_gt(8, zero, x, true);
            let t = v.l_xor(x, s);
            let t = v.two(ops::SHRV, 8, t, y);
            v.l_xor(t, s)
        }
        Where => v.pick(8, x, a[1], a[2]),
        _ => return None,
    })
}

/// Low 64 bits of a product.
pub fn mul64(v: &mut Vir, x: Val, y: Val) -> Val {
    if v.masks() {
        return v.two(ops::PMULL, 8, x, y);
    }
    let (xh, yh) = (v.l_shr(x, 32), v.l_shr(y, 32));
    let muludq = [ops::PMULUDQ, ops::PMULUDQ];
    let (p, q) = (v.two(muludq, 8, xh, y), v.two(muludq, 8, x, yh));
    let cross = v.l_add(p, q);
    let cross = v.l_shl(cross, 32);
    let low = v.two(muludq, 8, x, y);
    v.l_add(low, cross)
}

fn mask(v: &mut Vir, op: ElementOp, a: &[Val]) -> Option<Val> {
    use ElementOp::*;
    let (x, y) = (a[0], *a.last()?);
    Some(match op {
        Not => v.mask_not(x),
        And => v.mask_and(x, y),
        Or => v.mask_or(x, y),
        Xor | Ne => v.mask_xor(x, y),
        Eq => {
            let d = v.mask_xor(x, y);
            v.mask_not(d)
        }
        Where => {
            let (t, f) = (v.mask_and(x, a[1]), v.mask_andn(x, a[2]));
            v.mask_or(t, f)
        }
        _ => return None,
    })
}

/// Rounds to bf16, as 16 bits in a 32-bit lane: to nearest even; NaN stays NaN and becomes quiet.
pub fn bf16_bits(v: &mut Vir, x: Val) -> Val {
    let upper = v.i_shr(x, 16);
    let odd = v.with_const(ops::PAND, 4, upper, 1);
    let bias = v.i(0x7FFF);
    let r = v.i_add(x, bias);
    let r = v.i_add(r, odd);
    let r = v.i_shr(r, 16);
    let quiet = v.with_const(ops::POR, 4, upper, 0x40);
    let nan = v.compare(4, x, x, UNORDERED);
    v.pick(4, nan, quiet, r)
}

/// f64 to f32, rounded to odd: a second rounding to a type at least two bits shorter is then correct.
fn narrow_to_odd(v: &mut Vir, x: Val) -> Val {
    let n = v.narrow(x);
    let back = v.widen(n);
    let (ab, ax) = (v.d_abs(back), v.d_abs(x));
    let away = v.d_lt(ax, ab);
    let inexact = v.d_ne(back, x);
    let one = v.i(1);
    let less = v.i_sub(n, one);
    let n = v.pick(4, away, less, n);
    let odd = v.i_or(n, one);
    v.pick(4, inexact, odd, n)
}

/// Lowers a conversion between dtypes. `None` if there are no instructions for it.
pub fn cast(v: &mut Vir, x: Val, from: DType, to: DType) -> Option<Val> {
    use Compute::*;
    // To 16-bit floats: via f32, rounded once.
    if matches!(to, DType::BF16 | DType::F16) {
        let f = match from {
            DType::F64 => narrow_to_odd(v, x),
            DType::I32 | DType::U32 => {
                let d = to_f64(v, x, from == DType::I32);
                narrow_to_odd(v, d)
            }
            DType::I64 | DType::U64 => return None,
            _ => cast(v, x, from, DType::F32)?,
        };
        return Some(round_half(v, f, to));
    }
    Some(match (from.compute(), to.compute()) {
        (F32, F32) | (F64, F64) | (I64 | U64, I64 | U64) | (Mask, Mask) => x,
        (F32, F64) => v.widen(x),
        (F64, F32) => v.narrow(x),
        (F32 | F64, Mask) => {
            let w = lane_of(from);
            let zero = v.constant(0, w);
            v.compare(w, x, zero, NE)
        }
        (I32 | U32 | I64 | U64, Mask) => {
            let w = lane_of(from);
            let zero = v.constant(0, w);
            let e = v.int_eq(w, x, zero);
            v.mask_not(e)
        }
        (Mask, t) => {
            let w = lane_of(to);
            let (one, zero) = match t {
                F32 => (v.f(1.0), v.f(0.0)),
                F64 => (v.d(1.0), v.d(0.0)),
                _ => (v.constant(1, w), v.constant(0, w)),
            };
            v.pick(w, x, one, zero)
        }
        (I32 | U32, I32 | U32) => wrap(v, x, to),
        (I32, F32) => v.to_float(x),
        (U32, F32) if v.masks() => v.convert(ops::CVT_U32_F32, 4, 4, x),
        (U32, F32) => {
            // Both halves are exact; their sum rounds once.
            let (hi, lo) = (v.i_shr(x, 16), v.with_const(ops::PAND, 4, x, 0xFFFF));
            let (hi, lo) = (v.to_float(hi), v.to_float(lo));
            let unit = v.f(65_536.0);
            v.fma(hi, unit, lo)
        }
        (I32, F64) => to_f64(v, x, true),
        (U32, F64) => to_f64(v, x, false),
        (I32, I64 | U64) => v.convert(ops::MOVSX_DQ, 8, 8, x),
        (U32, I64 | U64) => v.convert(ops::MOVZX_DQ, 8, 8, x),
        (I64 | U64, I32 | U32) => {
            let x = v.low_halves(x);
            wrap(v, x, to)
        }
        (I64 | U64, F64) => int64_to_f64(v, x, from == DType::I64),
        (I64, F32) if v.masks() => v.make(Op::Rm, ops::CVT_I64_F32, 8, 4, 0, &[x]),
        (U64, F32) if v.masks() => v.make(Op::Rm, ops::CVT_U64_F32, 8, 4, 0, &[x]),
        (I64 | U64, F32) => return None,
        (F32, I32 | U32) => f32_to_int(v, x, to),
        (F64, I32 | U32) => f64_to_int(v, x, to),
        (F32 | F64, I64) if v.masks() => {
            let x = if from.compute() == F32 { v.widen(x) } else { x };
            let i = v.convert(ops::CVTT_F64_I64, 8, 8, x);
            let (limit, most, zero) = (v.d(9_223_372_036_854_775_808.0), v.l(i64::MAX), v.l(0));
            let high = v.d_le(limit, x);
            let i = v.pick(8, high, most, i);
            let nan = v.compare(8, x, x, UNORDERED);
            v.pick(8, nan, zero, i)
        }
        (F32 | F64, U64) if v.masks() => {
            let x = if from.compute() == F32 { v.widen(x) } else { x };
            let zero = v.d(0.0);
            let number = v.d_eq(x, x);
            let x = v.d_select(number, x, zero);
            let x = v.d_max(x, zero);
            // The instruction itself saturates values that are too large.
            v.convert(ops::CVTT_F64_U64, 8, 8, x)
        }
        (F32 | F64, I64 | U64) => return None,
    })
}

/// Rounds f32 lanes to bf16 or f16, as f32.
fn round_half(v: &mut Vir, x: Val, to: DType) -> Val {
    if to == DType::BF16 {
        let b = bf16_bits(v, x);
        return v.i_shl(b, 16);
    }
    let h = f16_bits(v, x);
    v.make(Op::Rm, ops::F16_F32, 4, 4, 0, &[h])
}

/// f32 lanes as f16 in the lower half of the vector. (Its lane size is that of the f32s; only a conversion back or a
/// store uses it.)
pub fn f16_bits(v: &mut Vir, x: Val) -> Val {
    v.make(Op::Mr, ops::F32_F16, 4, 4, 0, &[x])
}

/// i64 or u64 to f64, rounded once: both 32-bit halves are placed in mantissas of doubles.
fn int64_to_f64(v: &mut Vir, x: Val, signed: bool) -> Val {
    if v.masks() {
        return v.convert(if signed { ops::CVT_I64_F64 } else { ops::CVT_U64_F64 }, 8, 8, x);
    }
    let high = v.l_shr(x, 32);
    let high = v.with_const(ops::PXOR, 8, high, if signed { 0x4530_0000_8000_0000 } else { 0x4530_0000_0000_0000 });
    let low = v.with_const(ops::PAND, 8, x, 0xFFFF_FFFF);
    let low = v.with_const(ops::POR, 8, low, 0x4330_0000_0000_0000);
    // 2⁸⁴ + 2⁵², and the 2⁶³ by which the sign bit was offset
    let bias = v.constant(if signed { 0x4530_0000_8010_0000 } else { 0x4530_0000_0010_0000 }, 8);
    let high = v.d_sub(high, bias);
    v.d_add(high, low)
}

/// f32 to integers: toward zero, saturating, NaN to 0.
fn f32_to_int(v: &mut Vir, x: Val, to: DType) -> Val {
    let zero = v.f(0.0);
    let number = v.eq(x, x);
    let x = v.select(number, x, zero);
    if to == DType::I32 {
        let i = v.convert(ops::CVTT_F32_I32, 4, 4, x);
        let (limit, most) = (v.f(2_147_483_648.0), v.i(i32::MAX));
        let high = v.le(limit, x);
        return v.select(high, most, i);
    }
    if to == DType::U32 {
        let x = v.max(x, zero);
        if v.masks() {
            return v.convert(ops::CVTT_F32_U32, 4, 4, x);
        }
        let (half, whole, most) = (v.f(2_147_483_648.0), v.f(4_294_967_296.0), v.i(-1));
        let low = v.convert(ops::CVTT_F32_I32, 4, 4, x);
        let rest = v.sub(x, half);
        let high = v.convert(ops::CVTT_F32_I32, 4, 4, rest);
        let high = v.with_const(ops::PXOR, 4, high, 1 << 31);
        let is_high = v.le(half, x);
        let i = v.select(is_high, high, low);
        let over = v.le(whole, x);
        return v.select(over, most, i);
    }
    let (lo, hi) = to.int_range();
    let (lo, hi) = (v.f(lo as f32), v.f(hi as f32));
    let x = v.max(x, lo);
    let x = v.min(x, hi);
    v.convert(ops::CVTT_F32_I32, 4, 4, x)
}

fn f64_to_int(v: &mut Vir, x: Val, to: DType) -> Val {
    let zero = v.d(0.0);
    let number = v.d_eq(x, x);
    let x = v.d_select(number, x, zero);
    let (lo, hi) = to.int_range();
    let (lo, hi) = (v.d(lo as f64), v.d(hi as f64));
    let x = v.d_max(x, lo);
    let x = v.d_min(x, hi);
    if to != DType::U32 {
        return v.convert(ops::CVTT_F64_I32, 8, 4, x);
    }
    let x = v.round_to(8, x, 3);
    u32_from_f64(v, x)
}
