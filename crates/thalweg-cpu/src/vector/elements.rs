//! Elementwise operations and conversions in the vector IR, by compute type.

use super::ir::{Format, Op, Predicate, Rounding, Val, Vir};
use crate::machine::Machine;
use crate::math;
use crate::prepare::prepare;
use thalweg_ir::{Compute, DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{Node, NodeId};

/// Bytes of the lane in which values of a dtype are computed (4 for i8); 4 for bool, whose masks fit any lane size.
pub fn lane_of(dtype: DType) -> u8 {
    match dtype.compute() {
        Compute::F64 | Compute::I64 | Compute::U64 => 8,
        _ => 4,
    }
}

/// Lowers an elementwise operation; `dtype` is the dtype of the last argument. `None` if there are no instructions for
/// the operation on that dtype.
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
        Sqrt => v.one(Op::Sqrt, w, x),
        Round => v.round_to(w, x, Rounding::Nearest),
        Floor => v.round_to(w, x, Rounding::Down),
        Ceil => v.round_to(w, x, Rounding::Up),
        Trunc => v.round_to(w, x, Rounding::Zero),
        Add => v.two(Op::Add, w, x, y),
        Sub => v.two(Op::Sub, w, x, y),
        Mul => v.two(Op::Mul, w, x, y),
        Div => v.two(Op::Div, w, x, y),
        FloorDiv => floor_div(v, w, x, y),
        Rem => remainder(v, w, x, y),
        Minimum => extremum(v, w, x, y, false),
        Maximum => extremum(v, w, x, y, true),
        Eq => v.compare(w, x, y, Predicate::Eq),
        Ne => v.compare(w, x, y, Predicate::Ne),
        Lt => v.compare(w, x, y, Predicate::Lt),
        Le => v.compare(w, x, y, Predicate::Le),
        Gt => v.compare(w, y, x, Predicate::Lt),
        Ge => v.compare(w, y, x, Predicate::Le),
        Where => v.pick(w, x, a[1], a[2]),
        _ if w == 4 => return math::element_f32(v, op, a),
        _ => return math::element_f64(v, op, a),
    })
}

/// Lowers the float floor division `⌊a/b⌋`. In f32, the quotient may have been rounded up to an integer; the exact
/// remainder then has the opposite sign of `b`, and 1 is subtracted. A quotient of at least 2²³ is an integer anyway.
fn floor_div(v: &mut Vir, w: u8, a: Val, b: Val) -> Val {
    let q = v.two(Op::Div, w, a, b);
    let f = v.round_to(w, q, Rounding::Down);
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

/// Lowers the float remainder with the sign of the divisor. In a fused multiply-add, `a - ⌊a/b⌋·b` is exact: both are
/// multiples of the last place of `b`, unless the quotient is 0. A quotient that was rounded up to an integer leaves a
/// rest with the sign opposite to that of `a`, to which `b` is added once. Quotients beyond the integers of the format
/// are guarded.
fn remainder(v: &mut Vir, w: u8, a: Val, b: Val) -> Val {
    let of = |v: &mut Vir, x: f64| v.constant(if w == 4 { (x as f32).to_bits().into() } else { x.to_bits() }, w);
    let (zero, infinity) = (of(v, 0.0), of(v, f64::INFINITY));
    let limit = of(v, if w == 4 { 4_194_304.0 } else { 2_251_799_813_685_248.0 });
    let q = v.two(Op::Div, w, a, b);
    let size = v.abs_float(w, q);
    let far = v.compare(w, limit, size, Predicate::Le);
    // Without a finite dividend and another divisor than 0, the result is NaN by any path.
    let dividend = v.abs_float(w, a);
    let finite = v.compare(w, dividend, infinity, Predicate::Lt);
    let divides = v.compare(w, b, zero, Predicate::Ne);
    let far = v.mask_and(far, finite);
    let far = v.mask_and(far, divides);
    v.guard(far);
    let whole = v.round_to(w, q, Rounding::Zero);
    let r = v.fused(Op::NegMulAdd, w, whole, b, a);
    let along = v.sign_from(w, b, a);
    let next = v.two(Op::Add, w, r, along);
    let over = opposite(v, w, r, along, zero);
    let r = v.pick(w, over, next, r);
    // A finite dividend is the rest of an infinite divisor.
    let divisor = v.abs_float(w, b);
    let endless = v.compare(w, divisor, infinity, Predicate::Eq);
    let kept = v.fused(Op::MulAdd, w, a, zero, a);
    let r = v.pick(w, endless, kept, r);
    let moved = v.two(Op::Add, w, r, b);
    let other = opposite(v, w, r, b, zero);
    let none = v.compare(w, r, zero, Predicate::Eq);
    let signed_zero = v.sign_from(w, zero, b);
    let r = v.pick(w, other, moved, r);
    v.pick(w, none, signed_zero, r)
}

/// Mask of the lanes where `a` is a number other than 0 and has the sign opposite to `b`.
fn opposite(v: &mut Vir, w: u8, a: Val, b: Val, zero: Val) -> Val {
    let nonzero = v.compare(w, a, zero, Predicate::Ne);
    let signs = v.two(Op::Xor, w, a, b);
    let apart = v.int_gt(w, zero, signs, true);
    v.mask_and(nonzero, apart)
}

/// Lowers IEEE 754-2019 `minimum`, or `maximum` if `larger`: NaN if either argument is NaN, and -0 below +0.
fn extremum(v: &mut Vir, w: u8, a: Val, b: Val, larger: bool) -> Val {
    let ends = ends(v, w, a, b, larger);
    let nan = v.compare(w, a, b, Predicate::Unordered);
    let sum = v.two(Op::Add, w, a, b);
    v.pick(w, nan, sum, ends)
}

/// Lowers the smaller (or, if `larger`, the larger) of two numbers, -0 below +0; unspecified if one is NaN.
fn ends(v: &mut Vir, w: u8, a: Val, b: Val, larger: bool) -> Val {
    let number = if larger { Op::MaxNumber } else { Op::MinNumber };
    if v.native(number, w) {
        return v.two(number, w, a, b);
    }
    // `Min` and `Max` return the second of two zeros: compute both orders, and combine the sign bits.
    let p = if larger { Op::Max } else { Op::Min };
    let (m, n) = (v.two(p, w, a, b), v.two(p, w, b, a));
    v.two(if larger { Op::And } else { Op::Or }, w, m, n)
}

/// Lowers the combination of two partial results of a fold, as `thalweg_kernel::order` defines it. `None` if there are
/// no instructions for the monoid on that dtype.
pub fn combine(v: &mut Vir, op: Monoid, dtype: DType, old: Val, new: Val) -> Option<Val> {
    if dtype.is_float() && matches!(op, Monoid::Max | Monoid::Min) {
        let w = lane_of(dtype);
        let ends = ends(v, w, old, new, op == Monoid::Max);
        let nan = v.compare(w, old, new, Predicate::Unordered);
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

/// Wraps a 32-bit integer result to the range of a narrower dtype: sign or zero extension of its low bits.
pub fn wrap(v: &mut Vir, x: Val, dtype: DType) -> Val {
    let bits = match dtype {
        DType::I8 => 24,
        DType::I16 => 16,
        DType::U8 => return v.with_const(Op::And, 4, x, 0xFF),
        DType::U16 => return v.with_const(Op::And, 4, x, 0xFFFF),
        _ => return x,
    };
    let x = v.shift(Op::ShiftLeft, 4, x, bits);
    v.shift(Op::ShiftRightSigned, 4, x, bits)
}

fn constant_of(v: &Vir, x: Val) -> Option<u64> {
    let i = v.inst(x);
    (i.op == Op::Const).then_some(i.aux)
}

/// Recognises `(a << c) | (a >> (32 - c))` in the operands of an `or`, and lowers it to one rotation; `None` if the
/// operands have another form.
fn rotation(v: &mut Vir, x: Val, y: Val) -> Option<Val> {
    if !v.native(Op::RotateLeft, 4) {
        return None;
    }
    let (a, b) = (v.inst(x), v.inst(y));
    let left = match (a.op, b.op) {
        (Op::ShiftLeft, Op::ShiftRight) => a.imm,
        (Op::ShiftRight, Op::ShiftLeft) => b.imm,
        _ => return None,
    };
    let whole = a.lane == 4 && b.lane == 4 && a.args[0] == b.args[0] && a.imm + b.imm == 32;
    whole.then(|| v.make(Op::RotateLeft, 4, 4, left, &[v.inst(x).args[0]]))
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
        Abs if dtype.is_signed() => v.one(Op::IntAbs, 4, x),
        Abs => x,
        BitNot => v.with_const(Op::Xor, 4, x, u32::MAX as u64),
        Add => v.i_add(x, y),
        Sub => v.i_sub(x, y),
        Mul => v.two(Op::IntMul, 4, x, y),
        Minimum => v.two(if signed { Op::IntMin } else { Op::UintMin }, 4, x, y),
        Maximum => v.two(if signed { Op::IntMax } else { Op::UintMax }, 4, x, y),
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
            Some(n) if n < 32 => v.shift(Op::ShiftLeft, 4, x, n as u8),
            _ => v.two(Op::ShiftLeftBy, 4, x, y),
        },
        Shr => match constant_of(v, y) {
            Some(n) if n < 32 => v.shift(if signed { Op::ShiftRightSigned } else { Op::ShiftRight }, 4, x, n as u8),
            _ => v.two(if signed { Op::ShiftRightSignedBy } else { Op::ShiftRightBy }, 4, x, y),
        },
        Div | FloorDiv | Rem => divide(v, op, signed, x, y),
        Where => v.pick(4, x, a[1], a[2]),
        _ => return None,
    };
    let wraps = matches!(op, Neg | Abs | BitNot | Add | Sub | Mul | Shl | Div | FloorDiv);
    Some(if narrow && wraps { wrap(v, result, dtype) } else { result })
}

/// Lowers the division or remainder of 32-bit integers by a division in f64: a quotient that is no integer differs from
/// every integer by at least 2⁻³² of itself, so rounding does not reach one.
fn divide(v: &mut Vir, op: ElementOp, signed: bool, a: Val, b: Val) -> Val {
    let (x, y) = (to_f64(v, a, signed), to_f64(v, b, signed));
    let q = v.d_div(x, y);
    let q = v.round_to(8, q, if op == ElementOp::Div { Rounding::Zero } else { Rounding::Down });
    let zero = v.i(0);
    let none = v.int_eq(4, b, zero);
    let q = if signed { v.convert(Format::F64, Format::I32, q) } else { u32_from_f64(v, q) };
    let result = match op {
        ElementOp::Rem => {
            let p = v.two(Op::IntMul, 4, q, b);
            v.i_sub(a, p)
        }
        _ => q,
    };
    v.pick(4, none, zero, result)
}

fn to_f64(v: &mut Vir, a: Val, signed: bool) -> Val {
    if signed {
        return v.convert(Format::I32, Format::F64, a);
    }
    if v.native(Op::Convert(Format::U32, Format::F64), 8) {
        return v.convert(Format::U32, Format::F64, a);
    }
    let a = v.with_const(Op::Xor, 4, a, 1 << 31);
    let d = v.convert(Format::I32, Format::F64, a);
    let half = v.d(2_147_483_648.0);
    v.d_add(d, half)
}

/// Converts integral f64 lanes from 0 to 2³²-1 to u32.
fn u32_from_f64(v: &mut Vir, q: Val) -> Val {
    if v.native(Op::Convert(Format::F64, Format::U32), 8) {
        return v.convert(Format::F64, Format::U32, q);
    }
    let half = v.d(2_147_483_648.0);
    let q = v.d_sub(q, half);
    let i = v.convert(Format::F64, Format::I32, q);
    v.with_const(Op::Xor, 4, i, 1 << 31)
}

fn int64(v: &mut Vir, op: ElementOp, signed: bool, a: &[Val]) -> Option<Val> {
    use ElementOp::*;
    let (x, y) = (a[0], *a.last()?);
    Some(match op {
        Neg => {
            let zero = v.l(0);
            v.l_sub(zero, x)
        }
        Abs if !signed => x,
        Abs if v.native(Op::IntAbs, 8) => v.one(Op::IntAbs, 8, x),
        Abs => {
            let zero = v.l(0);
            let s = v.int_gt(8, zero, x, true);
            let t = v.l_xor(x, s);
            v.l_sub(t, s)
        }
        BitNot => v.with_const(Op::Xor, 8, x, u64::MAX),
        Add => v.l_add(x, y),
        Sub => v.l_sub(x, y),
        Mul => mul64(v, x, y),
        Minimum if v.native(Op::IntMin, 8) => v.two(if signed { Op::IntMin } else { Op::UintMin }, 8, x, y),
        Maximum if v.native(Op::IntMax, 8) => v.two(if signed { Op::IntMax } else { Op::UintMax }, 8, x, y),
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
        Shl => v.two(Op::ShiftLeftBy, 8, x, y),
        // Counts are unsigned; the result is 0 or the sign from 64 on.
        Shr if !signed => v.two(Op::ShiftRightBy, 8, x, y),
        Shr if v.native(Op::ShiftRightSignedBy, 8) => v.two(Op::ShiftRightSignedBy, 8, x, y),
        Shr => {
            // A logical shift of the bits xor the sign, and xor the sign again.
            let zero = v.l(0);
            let s = v.int_gt(8, zero, x, true);
            let t = v.l_xor(x, s);
            let t = v.two(Op::ShiftRightBy, 8, t, y);
            v.l_xor(t, s)
        }
        Where => v.pick(8, x, a[1], a[2]),
        _ => return None,
    })
}

/// Lowers the low 64 bits of the product of two 64-bit integers.
pub fn mul64(v: &mut Vir, x: Val, y: Val) -> Val {
    if v.native(Op::IntMul, 8) {
        return v.two(Op::IntMul, 8, x, y);
    }
    let (xh, yh) = (v.l_shr(x, 32), v.l_shr(y, 32));
    let (p, q) = (v.two(Op::IntMulHalves, 8, xh, y), v.two(Op::IntMulHalves, 8, x, yh));
    let cross = v.l_add(p, q);
    let cross = v.l_shl(cross, 32);
    let low = v.two(Op::IntMulHalves, 8, x, y);
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

/// Rounds f32 lanes to bf16, as 16 bits in a 32-bit lane: to nearest even; NaN stays NaN and becomes quiet.
pub fn bf16_bits(v: &mut Vir, x: Val) -> Val {
    let upper = v.i_shr(x, 16);
    let odd = v.with_const(Op::And, 4, upper, 1);
    let bias = v.i(0x7FFF);
    let r = v.i_add(x, bias);
    let r = v.i_add(r, odd);
    let r = v.i_shr(r, 16);
    let quiet = v.with_const(Op::Or, 4, upper, 0x40);
    let nan = v.compare(4, x, x, Predicate::Unordered);
    v.pick(4, nan, quiet, r)
}

/// Converts f64 to f32, rounded to odd: a second rounding to a type at least two bits shorter is then correct.
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

/// Lowers a conversion between dtypes. `None` if there are no instructions for the conversion.
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
            DType::I64 | DType::U64 => {
                let d = int64_to_odd(v, x, from == DType::I64);
                narrow_to_odd(v, d)
            }
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
            v.compare(w, x, zero, Predicate::Ne)
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
        (U32, F32) if v.native(Op::Convert(Format::U32, Format::F32), 4) => v.convert(Format::U32, Format::F32, x),
        (U32, F32) => {
            // Both halves are exact; their sum rounds once.
            let (hi, lo) = (v.i_shr(x, 16), v.with_const(Op::And, 4, x, 0xFFFF));
            let (hi, lo) = (v.to_float(hi), v.to_float(lo));
            let unit = v.f(65_536.0);
            v.fma(hi, unit, lo)
        }
        (I32, F64) => to_f64(v, x, true),
        (U32, F64) => to_f64(v, x, false),
        (I32, I64 | U64) => v.convert(Format::I32, Format::I64, x),
        (U32, I64 | U64) => v.convert(Format::U32, Format::U64, x),
        (I64 | U64, I32 | U32) => {
            let x = v.low_halves(x);
            wrap(v, x, to)
        }
        (I64 | U64, F64) => int64_to_f64(v, x, from == DType::I64),
        (I64, F32) if v.native(Op::Convert(Format::I64, Format::F32), 8) => v.convert(Format::I64, Format::F32, x),
        (U64, F32) if v.native(Op::Convert(Format::U64, Format::F32), 8) => v.convert(Format::U64, Format::F32, x),
        (I64 | U64, F32) => {
            let d = int64_to_odd(v, x, from.compute() == I64);
            v.narrow(d)
        }
        (F32, I32 | U32) => f32_to_int(v, x, to),
        (F64, I32 | U32) => f64_to_int(v, x, to),
        (F32 | F64, I64) if v.native(Op::Convert(Format::F64, Format::I64), 8) => {
            let x = if from.compute() == F32 { v.widen(x) } else { x };
            let i = v.convert(Format::F64, Format::I64, x);
            let (limit, most, zero) = (v.d(9_223_372_036_854_775_808.0), v.l(i64::MAX), v.l(0));
            let high = v.d_le(limit, x);
            let i = v.pick(8, high, most, i);
            let nan = v.compare(8, x, x, Predicate::Unordered);
            v.pick(8, nan, zero, i)
        }
        (F32 | F64, U64) if v.native(Op::Convert(Format::F64, Format::U64), 8) => {
            let x = if from.compute() == F32 { v.widen(x) } else { x };
            let zero = v.d(0.0);
            let number = v.d_eq(x, x);
            let x = v.d_select(number, x, zero);
            let x = v.d_max(x, zero);
            // The instruction itself saturates values that are too large.
            v.convert(Format::F64, Format::U64, x)
        }
        (F32 | F64, I64 | U64) => return None,
    })
}

/// Rounds f32 lanes to values of bf16 or f16, which stay f32 lanes.
fn round_half(v: &mut Vir, x: Val, to: DType) -> Val {
    if to == DType::BF16 {
        let b = bf16_bits(v, x);
        return v.i_shl(b, 16);
    }
    let h = f16_bits(v, x);
    v.convert(Format::F16, Format::F32, h)
}

/// Converts f32 lanes to f16 in the lower half of the vector. (The value's lane size stays 4; only a conversion back or
/// a store uses it.)
pub fn f16_bits(v: &mut Vir, x: Val) -> Val {
    v.convert(Format::F32, Format::F16, x)
}

/// Converts i64 or u64 to f64, rounded once. Where the target has no instruction for that, both 32-bit halves are
/// placed in mantissas of doubles.
fn int64_to_f64(v: &mut Vir, x: Val, signed: bool) -> Val {
    let from = if signed { Format::I64 } else { Format::U64 };
    if v.native(Op::Convert(from, Format::F64), 8) {
        return v.convert(from, Format::F64, x);
    }
    let high = v.l_shr(x, 32);
    let high = v.with_const(Op::Xor, 8, high, if signed { 0x4530_0000_8000_0000 } else { 0x4530_0000_0000_0000 });
    let low = v.with_const(Op::And, 8, x, 0xFFFF_FFFF);
    let low = v.with_const(Op::Or, 8, low, 0x4330_0000_0000_0000);
    // 2⁸⁴ + 2⁵², and the 2⁶³ by which the sign bit was offset
    let bias = v.constant(if signed { 0x4530_0000_8010_0000 } else { 0x4530_0000_0010_0000 }, 8);
    let high = v.d_sub(high, bias);
    v.d_add(high, low)
}

/// Converts i64 or u64 to f64, rounded to odd: a second rounding to a shorter type is then correct.
fn int64_to_odd(v: &mut Vir, x: Val, signed: bool) -> Val {
    let high = v.l_shr(x, 32);
    let high = v.with_const(Op::Xor, 8, high, if signed { 0x4530_0000_8000_0000 } else { 0x4530_0000_0000_0000 });
    // 2⁸⁴, and the 2⁶³ by which the sign bit was offset
    let bias = v.constant(if signed { 0x4530_0000_8000_0000 } else { 0x4530_0000_0000_0000 }, 8);
    let high = v.d_sub(high, bias);
    let low = v.with_const(Op::And, 8, x, 0xFFFF_FFFF);
    let low = v.with_const(Op::Or, 8, low, 0x4330_0000_0000_0000);
    let two_52 = v.constant(0x4330_0000_0000_0000, 8);
    let low = v.d_sub(low, two_52);
    // The halves are exact, and so is what their sum leaves (Dekker's fast two-sum: the high one is larger, or 0).
    let sum = v.d_add(high, low);
    let taken = v.d_sub(sum, high);
    let rest = v.d_sub(low, taken);
    let zero = v.d(0.0);
    let inexact = v.d_ne(rest, zero);
    let beyond = opposite(v, 8, rest, sum, zero);
    let one = v.l(1);
    let less = v.l_sub(sum, one);
    let toward_zero = v.pick(8, beyond, less, sum);
    let odd = v.l_or(toward_zero, one);
    v.pick(8, inexact, odd, toward_zero)
}

/// Converts f32 to integers: rounds toward zero, saturates, and maps NaN to 0.
fn f32_to_int(v: &mut Vir, x: Val, to: DType) -> Val {
    let zero = v.f(0.0);
    let number = v.eq(x, x);
    let x = v.select(number, x, zero);
    if to == DType::I32 {
        let i = v.convert(Format::F32, Format::I32, x);
        let (limit, most) = (v.f(2_147_483_648.0), v.i(i32::MAX));
        let high = v.le(limit, x);
        return v.select(high, most, i);
    }
    if to == DType::U32 {
        let x = v.max(x, zero);
        if v.native(Op::Convert(Format::F32, Format::U32), 4) {
            return v.convert(Format::F32, Format::U32, x);
        }
        let (half, whole, most) = (v.f(2_147_483_648.0), v.f(4_294_967_296.0), v.i(-1));
        let low = v.convert(Format::F32, Format::I32, x);
        let rest = v.sub(x, half);
        let high = v.convert(Format::F32, Format::I32, rest);
        let high = v.with_const(Op::Xor, 4, high, 1 << 31);
        let is_high = v.le(half, x);
        let i = v.select(is_high, high, low);
        let over = v.le(whole, x);
        return v.select(over, most, i);
    }
    let (lo, hi) = to.int_range();
    let (lo, hi) = (v.f(lo as f32), v.f(hi as f32));
    let x = v.max(x, lo);
    let x = v.min(x, hi);
    v.convert(Format::F32, Format::I32, x)
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
        return v.convert(Format::F64, Format::I32, x);
    }
    let x = v.round_to(8, x, Rounding::Zero);
    u32_from_f64(v, x)
}
