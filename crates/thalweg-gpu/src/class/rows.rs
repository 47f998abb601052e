//! Row kernels: what decides the source besides the body, and the layout of the argument words.

use super::body::divisors;
use crate::space::{Slots, SpaceClass};
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::{
    Along, Body, OnlineFold, OnlinePasses, Phase, Phases, Rescaling, Scan, Shift, online_passes, phases,
};

/// How rows are divided among threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sharing {
    /// A group of threads per row (a power of two up to 32, or the whole block), with the row in registers.
    Held {
        /// Threads per row.
        group: u16,
        /// Vectors per thread.
        steps: u8,
        /// Whether the vectors cover the row exactly.
        exact: bool,
    },
    /// A group of threads per row, each pass reading the row from memory.
    Again {
        /// Threads per row.
        group: u16,
    },
    /// Lanes over neighbouring rows (outer-axis reduction), several threads for the points of each row.
    Across {
        /// Vectors of rows, side by side.
        wide: u16,
        /// Threads along the points of a row.
        deep: u16,
    },
    /// Lanes over neighbouring rows. Several co-resident blocks hold a segment of each row in registers and exchange
    /// their partial results.
    HeldByBlocks {
        /// Vectors of rows, side by side.
        wide: u16,
        /// Threads along the points of a segment.
        deep: u16,
        /// Vectors per thread.
        steps: u8,
    },
    /// A thread per few rows, neighbours along the first of two row dimensions. For rows that are pairs, as in pairwise
    /// distances.
    Pairs {
        /// Rows per thread.
        rows: u8,
        /// Bit mask of accesses whose element is the same for all rows of a thread.
        still: u64,
    },
    /// A warp per row, terms strictly in order.
    Ordered,
}

impl Sharing {
    /// Threads per block.
    pub fn block(self) -> u32 {
        match self {
            Sharing::Held { group, .. } | Sharing::Again { group } => {
                if group > 32 {
                    group as u32
                } else {
                    256
                }
            }
            Sharing::Across { wide, deep } | Sharing::HeldByBlocks { wide, deep, .. } => wide as u32 * deep as u32,
            Sharing::Pairs { .. } | Sharing::Ordered => 256,
        }
    }

    /// Rows per block (across: vectors of rows; pairs: threads, each with several rows).
    pub fn rows(self) -> u32 {
        match self {
            Sharing::Held { group, .. } | Sharing::Again { group } => self.block() / group as u32,
            Sharing::Across { wide, .. } | Sharing::HeldByBlocks { wide, .. } => wide as u32,
            Sharing::Pairs { .. } => 256,
            Sharing::Ordered => 8,
        }
    }
}

/// One phase of several that run as kernels of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    /// Number of its phase.
    pub phase: u8,
    /// Whether several blocks divide a row (partial results are combined by the last one).
    pub split: bool,
    /// Whether the phase includes the scan after it and the pass after that: a chained scan with decoupled look-back. A
    /// block has a tile of a row in registers and exchanges prefixes with others.
    pub linked: bool,
}

/// Two passes that run as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Online {
    /// Number of folds that are the body's own. The others are the lower moments that these want.
    pub own: u16,
    /// Tiles that are shifted by the mean of the first of them.
    pub tiles: u8,
}

/// What decides the source of a row kernel, beside its body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RowsClass {
    /// Its domain.
    pub space: SpaceClass,
    /// How its rows are divided among threads.
    pub sharing: Sharing,
    /// The phase that runs; `None` for all of them.
    pub stage: Option<Stage>,
    /// Where two passes run as one, by rescaling identities.
    pub online: Option<Online>,
}

impl RowsClass {
    /// Whether the kernel is a chained scan, whose blocks have a tile of a row each.
    pub fn is_linked(&self) -> bool {
        self.stage.is_some_and(|s| s.linked)
    }

    /// Whether blocks hold a segment of a row each and exchange what they have folded.
    pub fn is_held_by_blocks(&self) -> bool {
        matches!(self.sharing, Sharing::HeldByBlocks { .. })
    }

    /// Whether several blocks divide a row.
    pub fn is_shared(&self) -> bool {
        self.is_held_by_blocks() || self.stage.is_some_and(|s| s.split || s.linked)
    }

    /// Vectors per tile of a chained scan.
    pub fn tile(&self) -> Option<usize> {
        match self.sharing {
            Sharing::Held { group, steps, .. } if self.is_linked() => Some(group as usize * steps as usize),
            _ => None,
        }
    }

    /// Whether it scans in registers.
    pub fn has_scans(&self, body: &Body) -> bool {
        let held = matches!(self.sharing, Sharing::Held { .. }) && (self.stage.is_none() || self.is_linked());
        held && !body.scans.is_empty()
    }

    /// Name of its function.
    pub fn name(&self, body: &Body) -> &'static str {
        if self.has_scans(body) { "scanned" } else { "rows" }
    }

    /// Its phases. Where a row is held in registers, the values computed from it are kept there too.
    pub fn phases(&self, body: &Body) -> Phases {
        let held = matches!(self.sharing, Sharing::Held { .. } | Sharing::HeldByBlocks { .. });
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

/// Indices of a row kernel's argument words.
#[derive(Clone, Debug)]
pub struct RowsSlots {
    /// Words of the domain. The six words before it: rows (across: vectors of rows; pairs: threads with several rows);
    /// points of a row (along: vectors); chunks of a row (pairs: extent of the first dimension), points (vectors) of
    /// each; runs of a row (held by blocks: tiles of rows), points of each.
    pub space: Slots,
    /// First scalar.
    pub scalars: usize,
    /// First reciprocal of the scalars that are divided by.
    pub reciprocals: usize,
    /// Address of the fault slot.
    pub fault: usize,
    /// First address of the results of folds.
    pub values: usize,
    /// First address of their partial results.
    pub partials: usize,
    /// First address of the buffers.
    pub buffers: usize,
    /// Address of the counters, or of the exchange buffer of blocks.
    pub counters: usize,
    /// First address of the states of online folds.
    pub states: usize,
    /// Number of words.
    pub end: usize,
}

/// Number of words before those of the domain.
const HEAD: usize = 6;

impl RowsSlots {
    /// Lays out the words of a class.
    pub fn new(class: &RowsClass, body: &Body, phases: &Phases) -> RowsSlots {
        let space = Slots::new(&class.space, HEAD);
        let scalars = space.end;
        let reciprocals = scalars + body.scalars as usize;
        let fault = reciprocals + divisors(body).len();
        let values = fault + 1;
        let staged = class.stage.is_some() as usize;
        let partials = values + staged * (body.folds.len() + combined_values(body));
        let buffers = partials + staged * body.folds.len();
        let counters = buffers + staged * phases.buffers.len();
        let states = counters + 1;
        let online = class.passes(body, phases).filter(|_| staged == 1);
        let end = states + online.map_or(0, |o| o.list.len());
        RowsSlots { space, scalars, reciprocals, fault, values, partials, buffers, counters, states, end }
    }
}

/// Number of a row's values that user-defined combines fold. They follow those of the folds.
pub fn combined_values(body: &Body) -> usize {
    let folds = body.combined.iter().filter(|c| c.along == Along::Fold);
    folds.map(|c| c.elements().len()).sum()
}

/// Slots of the row's values that a phase leaves to folds by user-defined combines.
pub fn left(phase: &Phase) -> impl Iterator<Item = u16> + '_ {
    let folds = phase.combined.iter().filter(|c| c.along == Along::Fold);
    folds.flat_map(|c| (c.slot..).take(c.of.region().args.len()))
}

/// Whether phase `number` runs once a row after the last pass and reads the result of a fold by a user-defined combine:
/// it is a launch of its own.
pub fn runs_behind(phases: &Phases, number: usize) -> bool {
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

/// Whether a scan of such elements can run in registers. Sorts cannot. Products of floats cannot, since in another
/// order one may overflow where the other underflows.
pub fn is_in_registers(scan: &Scan, dtype: DType) -> bool {
    !matches!(scan.op, ScanOp::Sort | ScanOp::Argsort) && (scan.op != ScanOp::Prod || !dtype.is_float())
}
