//! Row kernels (reductions, and scans in registers): class key.

pub mod emit;
pub mod params;
pub(crate) mod select;

use crate::body::wanted;
use crate::space::{Addressing, SpaceClass};
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::{
    Along, Body, OnlineFold, OnlinePasses, Phase, Phases, Rescaling, Scan, Shift, online_passes, phases,
};

/// Strategy by which rows are divided among threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowStrategy {
    /// A group of threads per row (a power of two up to 32, or the whole block), with the row in registers.
    Registers {
        /// Number of threads per row.
        group: u16,
        /// Number of vectors per thread.
        steps: u8,
        /// Whether the vectors cover the row exactly.
        exact: bool,
    },
    /// A group of threads per row, each pass reading the row from memory.
    Reread {
        /// Number of threads per row.
        group: u16,
    },
    /// Lanes over neighbouring rows (outer-axis reduction), several threads for the points of each row.
    OuterAxis {
        /// Number of neighbouring vectors of rows per block.
        wide: u16,
        /// Number of threads along the points of a row.
        deep: u16,
    },
    /// Lanes over neighbouring rows. Several co-resident blocks hold a segment of each row in registers and exchange
    /// their partial results.
    RegistersOfBlocks {
        /// Number of neighbouring vectors of rows per block.
        wide: u16,
        /// Number of threads along the points of a segment.
        deep: u16,
        /// Number of vectors per thread.
        steps: u8,
    },
    /// A thread per few rows, neighbours along the first of two row dimensions. For rows that are pairs, as in pairwise
    /// distances.
    Pairwise {
        /// Number of rows per thread.
        rows: u8,
        /// Bit mask of the accesses whose element is the same for all rows of a thread.
        still: u64,
    },
    /// A warp per row, terms strictly in order.
    Ordered,
}

impl RowStrategy {
    /// Threads per block.
    pub fn block(self) -> u32 {
        match self {
            RowStrategy::Registers { group, .. } | RowStrategy::Reread { group } => {
                if group > 32 {
                    group as u32
                } else {
                    256
                }
            }
            RowStrategy::OuterAxis { wide, deep } | RowStrategy::RegistersOfBlocks { wide, deep, .. } => {
                wide as u32 * deep as u32
            }
            RowStrategy::Pairwise { .. } | RowStrategy::Ordered => 256,
        }
    }

    /// Number of rows per block. Outer-axis: of vectors of rows; pairwise: of threads, each of which has several rows.
    pub fn rows(self) -> u32 {
        match self {
            RowStrategy::Registers { group, .. } | RowStrategy::Reread { group } => self.block() / group as u32,
            RowStrategy::OuterAxis { wide, .. } | RowStrategy::RegistersOfBlocks { wide, .. } => wide as u32,
            RowStrategy::Pairwise { .. } => 256,
            RowStrategy::Ordered => 8,
        }
    }
}

/// Division of a row among several blocks, each of which reduces a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowSplit {
    /// A block has whole rows.
    Whole,
    /// Several blocks divide a row; the last one to finish combines the partial results.
    Exchanged,
    /// First of two launches, for chips whose blocks exchange nothing: partial results are stored.
    Stored,
    /// Second launch: a block for each tile of rows combines the partial results.
    Combined,
}

/// Phase that is a launch of its own, as one of several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    /// Index of the phase.
    pub phase: u8,
    /// Whether several blocks divide a row, and how their partial results are combined.
    pub split: RowSplit,
    /// Whether the launch also runs the scan after the phase, and the pass after the scan: a chained scan with
    /// decoupled look-back. A block holds a tile of a row in registers and exchanges prefixes with other blocks.
    pub chained: bool,
}

/// Fusion of two passes by rescaling identities (online reduction).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Online {
    /// Number of folds that are the body's own. The others are the lower moments that rescaling needs.
    pub own: u16,
    /// Number of consecutive tiles that are shifted by the mean of the first of them.
    pub tiles: u8,
}

/// Class key of a row kernel: the properties that decide its source, besides its body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RowsClass {
    /// Domain of the row kernel: dimensions, lanes and addressing modes.
    pub space: SpaceClass,
    /// Strategy by which rows are divided among threads.
    pub strategy: RowStrategy,
    /// Phase that this launch runs; `None` if it runs all phases.
    pub stage: Option<Stage>,
    /// Fusion of two passes by rescaling identities, if any.
    pub online: Option<Online>,
}

impl RowsClass {
    /// Whether the kernel is a chained scan, whose blocks have a tile of a row each.
    pub fn is_chained(&self) -> bool {
        self.stage.is_some_and(|s| s.chained)
    }

    /// Whether blocks hold a segment of a row each and exchange partial results.
    pub fn is_held_by_blocks(&self) -> bool {
        matches!(self.strategy, RowStrategy::RegistersOfBlocks { .. })
    }

    /// Whether several blocks divide a row.
    pub fn is_shared(&self) -> bool {
        let split = |s: Stage| matches!(s.split, RowSplit::Exchanged | RowSplit::Stored);
        self.is_held_by_blocks() || self.stage.is_some_and(|s| split(s) || s.chained)
    }

    /// Division of a row among blocks, where a pass is a launch of its own.
    pub fn split(&self) -> RowSplit {
        self.stage.map_or(RowSplit::Whole, |s| s.split)
    }

    /// Number of vectors per tile of a chained scan; `None` for other kernels.
    pub fn tile(&self) -> Option<usize> {
        match self.strategy {
            RowStrategy::Registers { group, steps, .. } if self.is_chained() => Some(group as usize * steps as usize),
            _ => None,
        }
    }

    /// Whether the kernel scans in registers.
    pub fn has_scans(&self, body: &Body) -> bool {
        let held =
            matches!(self.strategy, RowStrategy::Registers { .. }) && (self.stage.is_none() || self.is_chained());
        held && !body.scans.is_empty()
    }

    /// Name of the kernel's function.
    pub fn name(&self, body: &Body) -> &'static str {
        if self.has_scans(body) { "scanned" } else { "rows" }
    }

    /// Phases of the body. Where a row is held in registers, the values computed from it stay there too.
    pub fn phases(&self, body: &Body) -> Phases {
        let held = matches!(self.strategy, RowStrategy::Registers { .. } | RowStrategy::RegistersOfBlocks { .. });
        phases(body, held && self.stage.is_none())
    }

    /// The two passes that are fused, if everything that the second one folds is a deviation from a mean.
    pub fn passes(&self, body: &Body, phases: &Phases) -> Option<OnlinePasses> {
        let of_mean = |l: &OnlineFold| match &l.how {
            Rescaling::Shifted { rate, from, .. } => rate.is_none() && matches!(from, Shift::Mean(_)),
            Rescaling::Chosen { .. } => false,
        };
        online_passes(body, phases, self.online?.own as usize).filter(|o| o.list.iter().all(of_mean))
    }
}

/// Number of row values that are results of folds by user-defined combines. They follow the results of ordinary folds.
pub fn combined_values(body: &Body) -> usize {
    let folds = body.combined.iter().filter(|c| c.along == Along::Fold);
    folds.map(|c| c.elements().len()).sum()
}

/// Slots of the row values that folds by user-defined combines compute after a phase.
pub fn left(phase: &Phase) -> impl Iterator<Item = u16> + '_ {
    let folds = phase.combined.iter().filter(|c| c.along == Along::Fold);
    folds.flat_map(|c| (c.slot..).take(c.of.region().args.len()))
}

/// Operations of the index arithmetic of an access through an index map of two views.
const MAPPED_OPERATIONS: usize = 16;

/// Number of operations of a pass over the points of a row, per point; `body` is the pass.
pub fn operations(body: &Body, class: &SpaceClass) -> usize {
    let is_mapped = |k: usize| matches!(class.addressing.get(k), Some(Addressing::Mapped(_)));
    let uses = wanted(body).into_iter().enumerate().filter(|&(k, _)| is_mapped(k));
    let mapped: usize = uses.map(|(_, w)| usize::from(w.load) + usize::from(w.position)).sum();
    body.nodes.len() + MAPPED_OPERATIONS * mapped
}

/// Whether phase `number` runs once a row after the last pass, and that pass ends with folds by user-defined combines.
/// Such a phase is a launch of its own.
pub fn runs_after_last_pass(phases: &Phases, number: usize) -> bool {
    let last = phases.list.iter().rposition(|p| !p.once);
    last.is_some_and(|last| last < number && left(&phases.list[last]).next().is_some())
}

/// Bytes of the state of each online fold.
pub fn state_bytes(online: &OnlinePasses) -> Vec<usize> {
    online.list.iter().map(|l| (power(l) as usize + 3) * l.dtype.size()).collect()
}

/// Highest power that an online fold sums.
pub fn power(fold: &OnlineFold) -> u8 {
    match fold.how {
        Rescaling::Shifted { power, .. } => power,
        Rescaling::Chosen { .. } => unreachable!("what is chosen takes two passes"),
    }
}

/// Whether a scan of such elements can run in registers. Sorts cannot. Products of floats cannot: in another order,
/// partial products may overflow or underflow.
pub fn is_in_registers(scan: &Scan, dtype: DType) -> bool {
    !matches!(scan.op, ScanOp::Sort | ScanOp::Argsort) && (scan.op != ScanOp::Prod || !dtype.is_float())
}
