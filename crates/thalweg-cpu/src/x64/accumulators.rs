//! Where the accumulators of a pass are: in registers above those of the allocator, or in the frame.

use super::asm::*;
use super::isa::Isa;
use super::vir::{Accumulate, Vir};
use thalweg_ir::{DType, Monoid};

/// Partial results that a row is folded in.
pub const LANES: usize = thalweg_kernel::order::LANES;
/// Mask registers that the allocator may use, when folds take the others.
const FEWEST_MASKS: usize = 3;
const MASKS: usize = 5;

/// Where the accumulators of a pass are.
pub struct Accumulators {
    pub copies: usize,
    /// By fold, then by copy of the step; `None` is in the frame.
    pub registers: Vec<Option<u8>>,
    /// By fold: the mask register (AVX2: vector register) that says that an element was NaN; `None` is in the frame.
    pub nan: Vec<Option<u8>>,
    /// Frame vectors: those of accumulators, then those of NaN, by fold.
    pub homes: i32,
    /// Registers that a fold's instructions use in passing: the first in every step, the second in masked ones and at
    /// the end, the third for products and unsigned extremes of 64 bits, the fourth where accumulators are in the frame.
    pub spare: [u8; 4],
    /// Vector registers that are left, from 0.
    pub vectors: usize,
    /// Mask registers that are left, from 1.
    pub masks: usize,
}

/// Whether NaN is kept apart.
pub fn apart(f: &Accumulate) -> bool {
    f.dtype.is_float() && matches!(f.op, Monoid::Max | Monoid::Min)
}

/// Whether the AVX2 sequence of a fold has three registers in passing.
fn needs_third(f: &Accumulate) -> bool {
    match f.dtype {
        DType::I64 => f.op == Monoid::Prod,
        DType::U64 => matches!(f.op, Monoid::Prod | Monoid::Max | Monoid::Min),
        _ => false,
    }
}

impl Accumulators {
    /// For the folds of a pass whose step needs `need` registers. `limit`: at most so many accumulators in registers.
    pub fn new(v: &Vir, need: usize, limit: Option<usize>) -> Accumulators {
        let evex = v.isa == Isa::Avx512;
        let top = v.isa.registers();
        let copies = LANES / v.lanes;
        let extra = |f: &&Accumulate| apart(f) && !evex;
        let wanted = v.folds.len() * copies + v.folds.iter().filter(extra).count();
        let third = !evex && v.folds.iter().any(needs_third);
        let room = |spare: usize| {
            let all = top - spare;
            (all - need.clamp(4, all / 2)).min(limit.unwrap_or(top))
        };
        let mut spare = if evex { 1 } else { 2 + third as usize };
        if room(spare) < wanted {
            spare = 4;
        }
        let mut left = room(spare).min(wanted);
        let mut next = top - spare;
        let mut take = || {
            (left > 0).then(|| {
                left -= 1;
                next -= 1;
                next as u8
            })
        };
        let mut masks = MASKS;
        let mut nan = vec![];
        for f in &v.folds {
            nan.push(match (apart(f), evex) {
                (true, true) if masks > FEWEST_MASKS => {
                    masks -= 1;
                    Some(masks as u8 + 1)
                }
                (true, false) => take(),
                _ => None,
            });
        }
        let registers = (0..v.folds.len() * copies).map(|_| take()).collect();
        let spare = [1, 2, 3, 4].map(|k| (top - k) as u8);
        Accumulators { copies, registers, nan, homes: 0, spare, vectors: next, masks }
    }

    /// Frame vectors wanted.
    pub fn frame(&self) -> usize {
        self.registers.len() + self.nan.len()
    }
    pub fn home(&self, fold: usize, copy: usize) -> Rm {
        at(RSP, self.homes + 64 * (fold * self.copies + copy) as i32)
    }
    pub fn nan_home(&self, fold: usize) -> Rm {
        at(RSP, self.homes + 64 * (self.registers.len() + fold) as i32)
    }
    pub fn register(&self, fold: usize, copy: usize) -> Option<u8> {
        self.registers[fold * self.copies + copy]
    }
}
