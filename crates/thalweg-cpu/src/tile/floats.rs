//! Elementwise operations on f32 and f64 lanes.

use super::lanes::{Loop, lanes};
use crate::prepare::Fused;
use thalweg_ir::ElementOp;

/// Operations of both float types; the macro takes the type as an identifier.
macro_rules! float_operations {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp) -> Option<Loop> {
            use ElementOp::*;
            #[inline(always)]
            fn maximum(a: $t, b: $t) -> $t {
                let larger = if a > b || (a == b && b.is_sign_negative()) { a } else { b };
                let b_or = if b.is_nan() { b } else { larger };
                if a.is_nan() { a } else { b_or }
            }
            #[inline(always)]
            fn minimum(a: $t, b: $t) -> $t {
                -maximum(-a, -b)
            }
            Some(match op {
                Neg => lanes!(|a: $t| -> $t { -a }),
                Abs => lanes!(|a: $t| -> $t { a.abs() }),
                Sign => lanes!(|a: $t| -> $t {
                    let unit = (1.0 as $t).copysign(a);
                    let nonzero = if a.is_nan() { a } else { unit };
                    if a == 0.0 { 0.0 } else { nonzero }
                }),
                Square => lanes!(|a: $t| -> $t { a * a }),
                Sqrt => lanes!(|a: $t| -> $t { a.sqrt() }),
                Rsqrt => lanes!(|a: $t| -> $t { 1.0 / a.sqrt() }),
                Recip => lanes!(|a: $t| -> $t { 1.0 / a }),
                Relu => lanes!(|a: $t| -> $t { if a <= 0.0 { 0.0 } else { a } }),
                Floor => lanes!(|a: $t| -> $t { a.floor() }),
                Ceil => lanes!(|a: $t| -> $t { a.ceil() }),
                Round => lanes!(|a: $t| -> $t { a.round_ties_even() }),
                Trunc => lanes!(|a: $t| -> $t { a.trunc() }),
                IsNan => lanes!(|a: $t| -> u8 { a.is_nan() as u8 }),
                IsInf => lanes!(|a: $t| -> u8 { a.is_infinite() as u8 }),
                IsFinite => lanes!(|a: $t| -> u8 { a.is_finite() as u8 }),
                Add => lanes!(|a: $t, b: $t| -> $t { a + b }),
                Sub => lanes!(|a: $t, b: $t| -> $t { a - b }),
                Mul => lanes!(|a: $t, b: $t| -> $t { a * b }),
                Div => lanes!(|a: $t, b: $t| -> $t { a / b }),
                Minimum => lanes!(|a: $t, b: $t| -> $t { minimum(a, b) }),
                Maximum => lanes!(|a: $t, b: $t| -> $t { maximum(a, b) }),
                Clamp => lanes!(|a: $t, b: $t, c: $t| -> $t { minimum(maximum(a, b), c) }),
                Lerp => lanes!(|a: $t, b: $t, c: $t| -> $t { a + c * (b - a) }),
                // In f64, the quotient of two f32 does not round up to an integer. A rounded f32 quotient without a
                // fraction is its own floor, as in emitted code.
                FloorDiv => lanes!(|a: $t, b: $t| -> $t {
                    let (near, wide) = (a / b, f64::from(a) / f64::from(b));
                    if near.abs() >= 8388608.0 { near.floor() } else { wide.floor() as $t }
                }),
                Rem => lanes!(|a: $t, b: $t| -> $t {
                    let (r, wide) = (a % b, f64::from(b));
                    let moved = (f64::from(r) + wide) as $t;
                    let kept = r.copysign(if r == 0.0 { b } else { r });
                    if r != 0.0 && (r < 0.0) != (b < 0.0) { moved } else { kept }
                }),
                Eq => lanes!(|a: $t, b: $t| -> u8 { (a == b) as u8 }),
                Ne => lanes!(|a: $t, b: $t| -> u8 { (a != b) as u8 }),
                Lt => lanes!(|a: $t, b: $t| -> u8 { (a < b) as u8 }),
                Le => lanes!(|a: $t, b: $t| -> u8 { (a <= b) as u8 }),
                Gt => lanes!(|a: $t, b: $t| -> u8 { (a > b) as u8 }),
                Ge => lanes!(|a: $t, b: $t| -> u8 { (a >= b) as u8 }),
                Where => lanes!(|c: u8, a: $t, b: $t| -> $t { if c != 0 { a } else { b } }),
                // Functions that `math` may lack for this type: scalar library functions in f64.
                Erf => lanes!(|a: $t| -> $t { libm::erf(f64::from(a)) as $t }),
                Erfc => lanes!(|a: $t| -> $t { libm::erfc(f64::from(a)) as $t }),
                Pow => lanes!(|a: $t, b: $t| -> $t { libm::pow(f64::from(a), f64::from(b)) as $t }),
                _ => return None,
            })
        }
    };
}

float_operations!(loop_f32, f32);
float_operations!(loop_f64, f64);

/// Loop of an operation on f32 lanes for which `math` has no function.
pub(super) fn f32(op: ElementOp) -> Option<Loop> {
    loop_f32(op)
}

/// Loop of an operation on f64 lanes for which `math` has no function.
pub(super) fn f64(op: ElementOp) -> Option<Loop> {
    loop_f64(op)
}

/// Loop of a fused multiply-add on f32 lanes, or (`double`) on f64 lanes.
pub(super) fn fused(how: Fused, double: bool) -> Loop {
    match (how, double) {
        (Fused::Add, false) => lanes!(|x: f32, y: f32, z: f32| -> f32 { x.mul_add(y, z) }),
        (Fused::From, false) => lanes!(|x: f32, y: f32, z: f32| -> f32 { (-x).mul_add(y, z) }),
        (Fused::Less, false) => lanes!(|x: f32, y: f32, z: f32| -> f32 { x.mul_add(y, -z) }),
        (Fused::Add, true) => lanes!(|x: f64, y: f64, z: f64| -> f64 { x.mul_add(y, z) }),
        (Fused::From, true) => lanes!(|x: f64, y: f64, z: f64| -> f64 { (-x).mul_add(y, z) }),
        (Fused::Less, true) => lanes!(|x: f64, y: f64, z: f64| -> f64 { x.mul_add(y, -z) }),
    }
}
