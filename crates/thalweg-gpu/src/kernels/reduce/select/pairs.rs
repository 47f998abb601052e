//! Pairwise rows: each row combines a row of one operand with a row of another, and a thread takes several.
//!
//! In: a kernel over rows numbered by two dimensions, along each of which some operand has stride 0 (`(x.unsqueeze(1) -
//! &y).square().sum(-1)`). Out: number of neighbouring rows a thread has along the first one. Elements of the operands
//! with stride 0 are read once for all of them.

use crate::body::wanted;
use crate::kernels::reduce::RowsClass;
use crate::kernels::reduce::select::{RowStrategy, Spread};
use crate::space::Addressing;
use crate::tunable::TUNABLES;
use thalweg_ir::DType;

/// Rows per thread. (Eight took as long on an H100, with twice the registers; two were not tried.)
const ROWS: usize = 4;
/// Maximum number of 32-bit registers of a thread for accumulators.
const ACCUMULATOR_REGISTERS: usize = 32;
/// Maximum number of vectors that a thread loads at a time, before it uses the first.
const LOADS: usize = 10;

impl Spread<'_> {
    /// Returns the strategy of pairwise rows; `None` where rows are not pairs, or are too few.
    pub(super) fn pairs(&self) -> Option<RowStrategy> {
        let (space, body) = (&self.space.class, self.body);
        let excluded = body.strict || space.across || self.online.is_some();
        if excluded || space.kept != 2 || body.folds.is_empty() || !body.scans.is_empty() || !body.combined.is_empty() {
            return None;
        }
        let (first, second) = (self.space.extents[0], self.space.extents[1]);
        let threads = first.div_ceil(ROWS) * second;
        let (own, waiting) =
            (threads / self.target.chip().multiprocessors as usize, &TUNABLES.min_pair_threads_of_vector);
        let waits = || waiting.side(own < waiting.get() * self.space.row() / self.lanes());
        let busy = TUNABLES.min_pair_threads.reached_by(own) && !waits();
        let near =
            busy && TUNABLES.min_pair_side.reached_by(second) && TUNABLES.max_pair_points.admits(self.space.row());
        if !near || first < ROWS || body.accesses.len() > 64 {
            return None;
        }
        let strided = |way: &Addressing| matches!(way, Addressing::Strided { .. });
        if !space.addressing.iter().all(strided) || body.accesses.iter().any(|a| a.operand.is_none()) {
            return None;
        }
        let strategy = RowStrategy::Reread { group: 32 };
        let class = RowsClass { space: space.clone(), strategy, stage: None, online: None };
        let phases = class.phases(body);
        let (pass, once) = phases.list.split_first()?;
        let alone =
            !pass.once && pass.body.stores.is_empty() && once.iter().all(|p| p.once) && phases.buffers.is_empty();
        let wants = |w: &crate::body::Wanted| w.position || w.gather;
        if !alone || phases.list.iter().any(|p| wanted(&p.body).iter().any(wants)) {
            return None;
        }
        let (mut still, mut loads) = (0u64, [0, 0]);
        for (k, _) in wanted(&pass.body).iter().enumerate().filter(|(_, w)| w.load) {
            let steps = &self.space.steps[k].1;
            match (steps[0], steps[1]) {
                _ if body.accesses[k].per_row => return None,
                (0, _) => {
                    still |= 1 << k;
                    loads[0] += usize::from(steps[1] != 0);
                }
                (_, 0) => loads[1] += 1,
                _ => return None,
            }
        }
        let words = |d: DType| d.size().div_ceil(4);
        let folded: usize = pass.body.folds.iter().map(|f| words(body.dtype(f.node))).sum();
        let fits = folded * self.lanes() * ROWS <= ACCUMULATOR_REGISTERS && loads[0] + loads[1] * ROWS <= LOADS;
        (fits && loads.iter().all(|n| *n > 0)).then_some(RowStrategy::Pairwise { rows: ROWS as u8, still })
    }
}
