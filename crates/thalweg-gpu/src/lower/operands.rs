//! Words of operands and scalars, and what operands must have.

use crate::class::body::divisors;
use crate::plan::Word;
use crate::space::{Slots, Space};
use thalweg_ir::DType;
use thalweg_kernel::{AccessGeometry, Body};

/// Operands from this number on are regions of scratch memory.
pub const SCRATCH: u16 = 0x8000;

/// The words that are addresses of operands.
pub fn addresses(patches: &mut Vec<(usize, Word)>, slots: &Slots, body: &Body, space: &Space) {
    for (i, access) in body.accesses.iter().enumerate() {
        let Some(operand) = access.operand else { continue };
        let base = space.base(i) as i64 * access.dtype.size() as i64;
        let word = match operand.checked_sub(SCRATCH) {
            Some(region) => Word::Scratch(region, base),
            None => Word::Operand(operand, base),
        };
        patches.push((slots.accesses[i], word));
    }
}

/// The words that are reciprocals of scalars.
pub fn add_reciprocals(patches: &mut Vec<(usize, Word)>, first: usize, body: &Body) {
    let word = |(slot, dtype): (u16, DType)| Word::Reciprocal(slot, dtype == DType::F64);
    patches.extend(divisors(body).into_iter().enumerate().map(|(i, d)| (first + i, word(d))));
}

/// The bytes that operands must have.
pub fn needs(needs: &mut Vec<(u16, usize)>, body: &Body, accesses: &[AccessGeometry]) {
    for (access, at) in body.accesses.iter().zip(accesses) {
        let (Some(operand), Some((_, high))) = (access.operand, at.reach) else { continue };
        let bytes = (high + 1) * access.dtype.size();
        match needs.iter_mut().find(|n| n.0 == operand) {
            Some(n) => n.1 = n.1.max(bytes),
            None => needs.push((operand, bytes)),
        }
    }
}
