//! Counter-based random numbers: Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random
//! numbers: as easy as 1, 2, 3", SC 2011), the generator that JAX uses.
//!
//! A number depends only on its key and its index, so it is the same on every device, for every number of threads,
//! fused or not. It is implemented twice: as a function, and as an expression of u32 additions, rotations and exclusive
//! ors in a kernel body.

use crate::{BodyBuilder, NodeId};
use thalweg_ir::{DType, ElementOp, RandomKind, Scalar};

const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
const PARITY: u32 = 0x1BD1_1BDA;

/// Two random 32-bit words for a key and an index (`position`).
pub fn threefry(key: u64, position: u64) -> [u32; 2] {
    let (k0, k1) = (key as u32, (key >> 32) as u32);
    let keys = [k0, k1, k0 ^ k1 ^ PARITY];
    let (mut x, mut y) = ((position as u32).wrapping_add(k0), ((position >> 32) as u32).wrapping_add(k1));
    for round in 0..20 {
        x = x.wrapping_add(y);
        y = y.rotate_left(ROTATIONS[round % 8]) ^ x;
        if round % 4 == 3 {
            let j = round / 4 + 1;
            x = x.wrapping_add(keys[j % 3]);
            y = y.wrapping_add(keys[(j + 1) % 3]).wrapping_add(j as u32);
        }
    }
    [x, y]
}

/// Adds Threefry to a kernel body, on u32 nodes: low and high word of the index, low and high word of the key. Returns
/// the two words of the result.
fn threefry_nodes(b: &mut BodyBuilder, position: [NodeId; 2], key: [NodeId; 2]) -> [NodeId; 2] {
    let word = |b: &mut BodyBuilder, v: u32| b.constant(Scalar::Int(v as i64), DType::U32);
    let two = |b: &mut BodyBuilder, op, x, y| b.element(op, &[x, y]);
    let parity = word(b, PARITY);
    let mixed = two(b, ElementOp::BitXor, key[0], key[1]);
    let keys = [key[0], key[1], two(b, ElementOp::BitXor, mixed, parity)];
    let mut x = two(b, ElementOp::Add, position[0], key[0]);
    let mut y = two(b, ElementOp::Add, position[1], key[1]);
    for round in 0..20 {
        x = two(b, ElementOp::Add, x, y);
        let r = ROTATIONS[round % 8];
        let (left, right) = (word(b, r), word(b, 32 - r));
        let (hi, lo) = (two(b, ElementOp::Shl, y, left), two(b, ElementOp::Shr, y, right));
        let rotated = two(b, ElementOp::BitOr, hi, lo);
        y = two(b, ElementOp::BitXor, rotated, x);
        if round % 4 == 3 {
            let j = round / 4 + 1;
            x = two(b, ElementOp::Add, x, keys[j % 3]);
            y = two(b, ElementOp::Add, y, keys[(j + 1) % 3]);
            let count = word(b, j as u32);
            y = two(b, ElementOp::Add, y, count);
        }
    }
    [x, y]
}

/// Adds a random value to a kernel body, from index and key as two u32 nodes each; returns its node, of that dtype.
pub fn random_node(
    b: &mut BodyBuilder,
    kind: RandomKind,
    dtype: DType,
    position: [NodeId; 2],
    key: [NodeId; 2],
) -> NodeId {
    let [w0, w1] = threefry_nodes(b, position, key);
    let shr = |b: &mut BodyBuilder, w: NodeId, n: i64| {
        let n = b.constant(Scalar::Int(n), DType::U32);
        b.element(ElementOp::Shr, &[w, n])
    };
    let scaled = |b: &mut BodyBuilder, w: NodeId, dtype: DType, factor: f64| {
        let (w, f) = (b.cast(w, dtype), b.constant(Scalar::Float(factor), dtype));
        b.element(ElementOp::Mul, &[w, f])
    };
    // Narrow floats and normal numbers are computed in f32 and rounded.
    let uniform = |b: &mut BodyBuilder, w: NodeId, digits: u32| {
        let bits = shr(b, w, 32 - digits as i64);
        scaled(b, bits, DType::F32, 1.0 / (1u64 << digits) as f64)
    };
    match kind {
        RandomKind::Bits => b.cast(w0, dtype),
        RandomKind::Uniform if dtype == DType::F64 => {
            // 32 high bits and 21 low ones: both parts and their sum are exact in f64.
            let low = shr(b, w1, 11);
            let (hi, lo) = (
                scaled(b, w0, DType::F64, 1.0 / (1u64 << 32) as f64),
                scaled(b, low, DType::F64, 1.0 / (1u64 << 53) as f64),
            );
            b.element(ElementOp::Add, &[hi, lo])
        }
        RandomKind::Uniform => {
            let u = uniform(b, w0, dtype.mantissa_digits());
            b.cast(u, dtype)
        }
        RandomKind::Normal => {
            let compute = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let (u, v) = (uniform(b, w0, 24), uniform(b, w1, 24));
            let (u, v) = (b.cast(u, compute), b.cast(v, compute));
            let k = |b: &mut BodyBuilder, v: f64| b.constant(Scalar::Float(v), compute);
            let (one, minus_two, tau) = (k(b, 1.0), k(b, -2.0), k(b, std::f64::consts::TAU));
            let open = b.element(ElementOp::Sub, &[one, u]);
            let log = b.element(ElementOp::Log, &[open]);
            let square = b.element(ElementOp::Mul, &[minus_two, log]);
            let radius = b.element(ElementOp::Sqrt, &[square]);
            let angle = b.element(ElementOp::Mul, &[tau, v]);
            let cos = b.element(ElementOp::Cos, &[angle]);
            let z = b.element(ElementOp::Mul, &[radius, cos]);
            b.cast(z, dtype)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // From the Random123 distribution (kat_vectors, threefry2x32 20 rounds).
        assert_eq!(threefry(0, 0), [0x6b200159, 0x99ba4efe]);
        assert_eq!(threefry(u64::MAX, u64::MAX), [0x1cb996fc, 0xbb002be7]);
        assert_eq!(threefry(0x0370_7344_1319_8a2e, 0x85a3_08d3_243f_6a88), [0xc4923a9c, 0x483df7a0]);
    }
}
