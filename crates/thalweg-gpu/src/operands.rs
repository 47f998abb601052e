//! Argument words of operands and scalars, and sizes that operands must have.

use crate::body::divisors;
use crate::params::Word;
use crate::space::{Slots, Space};
use thalweg_ir::DType;
use thalweg_kernel::{AccessGeometry, Body};

/// First operand number of regions of scratch memory.
pub const SCRATCH: u16 = 0x8000;

/// Adds the patches of operand addresses.
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

/// Adds the patches of reciprocals of scalars.
pub fn add_reciprocals(patches: &mut Vec<(usize, Word)>, first: usize, body: &Body) {
    let word = |(slot, dtype): (u16, DType)| Word::Reciprocal(slot, dtype == DType::F64);
    patches.extend(divisors(body).into_iter().enumerate().map(|(i, d)| (first + i, word(d))));
}

/// Adds the minimum sizes of operands in bytes.
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
