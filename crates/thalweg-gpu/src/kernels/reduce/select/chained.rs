//! Scans in registers: held rows, and chained scans with decoupled look-back.
//!
//! In: a row kernel with its strategy. Out: whether whole rows are held, scans included; for longer rows the phase from
//! which on blocks have a tile of a row each and exchange prefixes.
//!
//! Always true: the strategy of a scan does not depend on the number of rows, so each row has the same bits whatever
//! else there is.

use crate::kernels::reduce::select::{RowStrategy, Spread, Stage, is_held};
use crate::kernels::reduce::{RowSplit, RowsClass, is_in_registers};
use crate::tunable::TUNABLES;
use thalweg_ir::DType;
use thalweg_kernel::{Phases, Scan};

/// Threads per block. A block processes one tile of a row.
const THREADS: u16 = 256;
/// Number of tiles per group. Each group publishes its own total and its inclusive prefix, so look-back goes over 32
/// groups at a time, one per lane of a warp.
const GROUP: usize = 32;

/// Chained scan of a row that is too long for a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainedScan {
    /// Index of the phase whose results are scanned. The pass after this phase is the last.
    pub(super) phase: usize,
    /// Number of vectors per thread in a tile.
    steps: u8,
}

/// Bytes of the buffer through which blocks exchange prefixes, for this many rows and tiles a row (`scanned.cuh`).
pub(super) fn exchange_bytes(rows: usize, tiles: usize) -> usize {
    64 + rows * (16 * tiles + 32 * tiles.div_ceil(GROUP))
}

impl Spread<'_> {
    fn scan_dtype(&self, scan: &Scan) -> DType {
        self.body.dtype(scan.node)
    }

    /// Whether all scans run in registers, because the strategy holds whole rows there.
    pub(super) fn scans_are_held(&self, strategy: RowStrategy) -> bool {
        let held = matches!(strategy, RowStrategy::Registers { .. }) && self.target.chip().capabilities.held_scans;
        held && self.body.scans.iter().all(|s| is_in_registers(s, self.scan_dtype(s)))
    }

    /// Plans the chained scan of a row that is too long to be held; `None` where its elements go through memory.
    pub(super) fn chained(&self, strategy: RowStrategy) -> Option<ChainedScan> {
        let [scan] = self.body.scans[..] else { return None };
        if !self.target.chip().capabilities.exchange {
            return None;
        }
        let along = matches!(strategy, RowStrategy::Registers { .. } | RowStrategy::Reread { .. });
        if !along || !self.body.combined.is_empty() || !is_in_registers(&scan, self.scan_dtype(&scan)) {
            return None;
        }
        let class = |steps| self.chained_class(ChainedScan { phase: 0, steps });
        let Phases { list, .. } = class(1).phases(self.body);
        let phase = list.iter().position(|p| !p.scans.is_empty())?;
        // A fold over this pass or the next one needs the whole row, which no block has.
        let [here, behind] = &list[phase..] else { return None };
        if behind.once || !here.body.folds.is_empty() || !behind.body.folds.is_empty() {
            return None;
        }
        // Eight vectors a thread in a long row: look-back takes no longer for a larger tile, and there are fewer tiles.
        // Registers must also hold the prefix of each vector, with three blocks per multiprocessor.
        let (weight, long) = (self.weight() * self.lanes(), TUNABLES.min_long_scan.reached_by(self.counts().1));
        let fits = |steps: &u8| match *steps {
            8 => long && is_held(8 * weight, true),
            steps => is_held(steps as usize * weight, false),
        };
        let steps = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        Some(ChainedScan { phase, steps })
    }

    /// Class key of the chained scan.
    pub(super) fn chained_class(&self, ChainedScan { phase, steps }: ChainedScan) -> RowsClass {
        RowsClass {
            space: self.space.class.clone(),
            strategy: RowStrategy::Registers { group: THREADS, steps, exact: false },
            stage: Some(Stage { phase: phase as u8, split: RowSplit::Whole, chained: true }),
            online: None,
        }
    }
}
