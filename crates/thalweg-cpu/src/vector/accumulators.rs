//! Placement of the accumulators of a pass's folds: in registers above those of the allocator, or in the stack frame.

use super::ir::target::Combine;
use super::ir::{Accumulate, Vir};
use thalweg_ir::Monoid;

/// Number of accumulator lanes of a fold over a row (part of the definition of a fold).
pub const LANES: usize = thalweg_kernel::order::LANES;
/// Minimum number of mask registers left to the allocator; folds may use the others as NaN flags.
const MIN_MASKS: usize = 3;

/// Placement of the accumulators of a pass's folds, and the registers left to the allocator.
pub struct Accumulators {
    pub copies: usize,
    /// Register of each accumulator, by fold, then by copy of the step; `None` if it is in the frame.
    pub registers: Vec<Option<u8>>,
    /// Register of each fold's NaN flag: a mask register, or a vector register where masks are vectors; `None` if the
    /// flag is in the frame, or the fold has none.
    pub nan: Vec<Option<u8>>,
    /// Frame offset of the vectors that hold accumulators, then NaN flags by fold.
    pub homes: i32,
    /// Temporary registers of a fold's instructions: the first is used in every step, the second in masked steps and at
    /// the end, the third for products and unsigned maxima and minima of 64 bits, the fourth if accumulators are in the
    /// frame.
    pub spare: [u8; 4],
    /// Number of vector registers left to the allocator, numbered from 0.
    pub vectors: usize,
    /// Number of mask registers left to the allocator, numbered from 1.
    pub masks: usize,
}

/// Whether a fold tracks NaN in a separate flag: float maxima and minima do, since their instructions drop it.
pub fn tracks_nan(f: &Accumulate) -> bool {
    f.dtype.is_float() && matches!(f.op, Monoid::Max | Monoid::Min)
}

impl Accumulators {
    /// Places the accumulators of a pass whose step needs `need` registers; at most `limit` accumulators are in
    /// registers.
    pub fn new(v: &Vir, need: usize, limit: Option<usize>) -> Accumulators {
        let mask_registers = v.target.mask_registers();
        let top = v.target.vectors;
        let copies = LANES / v.lanes;
        let extra = |f: &&Accumulate| tracks_nan(f) && !mask_registers;
        let wanted = v.folds.len() * copies + v.folds.iter().filter(extra).count();
        let more = v.folds.iter().map(|f| match (v.target.combine)(f.op, f.dtype) {
            Some(Combine::Sequence { temporaries }) => temporaries.saturating_sub(1),
            _ => 0,
        });
        let room = |spare: usize| {
            let all = top - spare;
            (all - need.clamp(4, all / 2)).min(limit.unwrap_or(top))
        };
        let mut spare = if mask_registers { 1 } else { 2 } + more.max().unwrap_or(0);
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
        let mut masks = v.target.masks();
        let mut nan = vec![];
        for f in &v.folds {
            nan.push(match (tracks_nan(f), mask_registers) {
                (true, true) if masks > MIN_MASKS => {
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

    /// Number of vectors to reserve in the frame.
    pub fn frame(&self) -> usize {
        self.registers.len() + self.nan.len()
    }
    /// Frame offset of an accumulator.
    pub fn home(&self, fold: usize, copy: usize) -> i32 {
        self.homes + 64 * (fold * self.copies + copy) as i32
    }
    /// Frame offset of a fold's NaN flag.
    pub fn nan_home(&self, fold: usize) -> i32 {
        self.homes + 64 * (self.registers.len() + fold) as i32
    }
    pub fn register(&self, fold: usize, copy: usize) -> Option<u8> {
        self.registers[fold * self.copies + copy]
    }
}
