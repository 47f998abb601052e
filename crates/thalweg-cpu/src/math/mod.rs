//! Vector math functions: each is written once, generic over a [`Machine`].
//!
//! In: lanes of a machine; out: lanes. The emitter records the same operations that the tile engine and the accuracy
//! tests compute with [`ScalarMachine`], so the measured accuracy is that of emitted code. f32 functions ([`single`])
//! use only f32 lanes, f64 functions ([`double`]) only f64 lanes. Error bounds are in [`accuracy`] and hold for every
//! f32 input; NaN gives NaN, signed zeros and infinities are exact, subnormals are never flushed. Lanes that a function
//! cannot compute (sines of huge arguments) are reported by [`Machine::guard`].

pub mod accuracy;
mod coefficients;
pub mod double;
pub mod lanes;
mod scalar;
pub mod single;
#[cfg(test)]
mod tests;

use crate::machine::Machine;
pub use scalar::ScalarMachine;
use thalweg_ir::ElementOp;

/// Whether [`element_f32`] has a function for the operation.
pub fn has_f32(op: ElementOp) -> bool {
    use ElementOp::*;
    matches!(op, Exp | Exp2 | Expm1 | Log | Log2 | Log1p | Sin | Cos | Atan | Tanh | Sigmoid | Erf | Erfc | Pow)
}

/// Computes an operation on f32 lanes; `None` if there is no function for the operation.
#[inline(always)]
pub fn element_f32<M: Machine>(m: &mut M, op: ElementOp, x: &[M::F]) -> Option<M::F> {
    use single as s;
    Some(match op {
        ElementOp::Exp => s::exp(m, x[0]),
        ElementOp::Exp2 => s::exp2(m, x[0]),
        ElementOp::Expm1 => s::expm1(m, x[0]),
        ElementOp::Log => s::log(m, x[0]),
        ElementOp::Log2 => s::log2(m, x[0]),
        ElementOp::Log1p => s::log1p(m, x[0]),
        ElementOp::Sin => s::sin(m, x[0]),
        ElementOp::Cos => s::cos(m, x[0]),
        ElementOp::Atan => s::atan(m, x[0]),
        ElementOp::Tanh => s::tanh(m, x[0]),
        ElementOp::Sigmoid => s::sigmoid(m, x[0]),
        ElementOp::Erf => s::erf(m, x[0]),
        ElementOp::Erfc => s::erfc(m, x[0]),
        ElementOp::Pow => s::pow(m, x[0], x[1]),
        _ => return None,
    })
}

/// Whether [`element_f64`] has a function for the operation.
pub fn has_f64(op: ElementOp) -> bool {
    use ElementOp::*;
    matches!(op, Exp | Exp2 | Expm1 | Log | Log2 | Log1p | Sin | Cos | Atan | Tanh | Sigmoid | Erf | Erfc | Pow)
}

/// Computes an operation on f64 lanes; `None` if there is no function for the operation.
#[inline(always)]
pub fn element_f64<M: Machine>(m: &mut M, op: ElementOp, x: &[M::D]) -> Option<M::D> {
    use double as d;
    Some(match op {
        ElementOp::Exp => d::exp(m, x[0]),
        ElementOp::Exp2 => d::exp2(m, x[0]),
        ElementOp::Expm1 => d::expm1(m, x[0]),
        ElementOp::Log => d::log(m, x[0]),
        ElementOp::Log2 => d::log2(m, x[0]),
        ElementOp::Log1p => d::log1p(m, x[0]),
        ElementOp::Sin => d::sin(m, x[0]),
        ElementOp::Cos => d::cos(m, x[0]),
        ElementOp::Atan => d::atan(m, x[0]),
        ElementOp::Tanh => d::tanh(m, x[0]),
        ElementOp::Sigmoid => d::sigmoid(m, x[0]),
        ElementOp::Erf => d::erf(m, x[0]),
        ElementOp::Erfc => d::erfc(m, x[0]),
        ElementOp::Pow => d::pow(m, x[0], x[1]),
        _ => return None,
    })
}
