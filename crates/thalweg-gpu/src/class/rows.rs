//! What decides the source of a row kernel beside its body, and where its words are.

use super::body::divisors;
use crate::space::{Slots, SpaceClass};
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::{
    Along, Body, OnlineFold, OnlinePasses, Phase, Phases, Rescaling, Scan, Shift, online_passes, phases,
};

/// How rows are shared among threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sharing {
    /// A group of so many threads a row (a power of two, up to 32 or the whole block), the row in registers: so many
    /// vectors a thread, which cover it exactly or not.
    Held {
        /// Threads of a row.
        group: u16,
        /// Vectors of a thread.
        steps: u8,
        /// Whether they cover the row exactly.
        exact: bool,
    },
    /// The same, each pass reading the row from memory.
    Again {
        /// Threads of a row.
        group: u16,
    },
    /// Lanes across rows: so many vectors of rows side by side, and so many threads for the points of each.
    Across {
        /// Vectors of rows.
        wide: u16,
        /// Threads for their points.
        deep: u16,
    },
    /// Lanes across rows, which several blocks hold a part of each in registers: as across, so many vectors a thread. Blocks tell each
    /// other what they have folded.
    HeldByBlocks {
        /// Vectors of rows.
        wide: u16,
        /// Threads for the points of a part.
        deep: u16,
        /// Vectors of a thread.
        steps: u8,
    },
    /// A thread a few rows of the many that pairs of rows are: neighbours along the first of two dimensions.
    Pairs {
        /// Rows of a thread.
        rows: u8,
        /// A bit for each access: whether it is the same for all of these.
        still: u64,
    },
    /// A warp a row, strictly in order.
    Ordered,
}

impl Sharing {
    /// Threads of a block.
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

    /// Rows (across: vectors of rows; of pairs: threads that have a few) of a block.
    pub fn rows(self) -> u32 {
        match self {
            Sharing::Held { group, .. } | Sharing::Again { group } => self.block() / group as u32,
            Sharing::Across { wide, .. } | Sharing::HeldByBlocks { wide, .. } => wide as u32,
            Sharing::Pairs { .. } => 256,
            Sharing::Ordered => 8,
        }
    }
}

/// One pass of several that run as kernels of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    /// Number of its phase.
    pub phase: u8,
    /// Whether several blocks share a row.
    pub split: bool,
    /// Whether the scan behind the phase and the pass behind that are part of it: blocks have a tile of a row in
    /// registers, and tell each other what comes before.
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
    /// How it is shared.
    pub sharing: Sharing,
    /// Which part of it runs; all where there is none.
    pub stage: Option<Stage>,
    /// Where two passes run as one, by rescaling identities.
    pub online: Option<Online>,
}

impl RowsClass {
    /// Whether blocks have a tile of a row each, and pass on what comes before.
    pub fn is_linked(&self) -> bool {
        self.stage.is_some_and(|s| s.linked)
    }

    /// Whether blocks hold a part of a row each, and tell each other what they have folded.
    pub fn is_held_by_blocks(&self) -> bool {
        matches!(self.sharing, Sharing::HeldByBlocks { .. })
    }

    /// Whether several blocks share a row.
    pub fn is_shared(&self) -> bool {
        self.is_held_by_blocks() || self.stage.is_some_and(|s| s.split || s.linked)
    }

    /// The vectors of a tile, where blocks have one each.
    pub fn tile(&self) -> Option<usize> {
        match self.sharing {
            Sharing::Held { group, steps, .. } if self.is_linked() => Some(group as usize * steps as usize),
            _ => None,
        }
    }

    /// Whether what it runs has scans in registers.
    pub fn has_scans(&self, body: &Body) -> bool {
        let held = matches!(self.sharing, Sharing::Held { .. }) && (self.stage.is_none() || self.is_linked());
        held && !body.scans.is_empty()
    }

    /// The name of its function.
    pub fn name(&self, body: &Body) -> &'static str {
        if self.has_scans(body) { "scanned" } else { "rows" }
    }

    /// Its phases: what is held in registers is kept there.
    pub fn phases(&self, body: &Body) -> Phases {
        let held = matches!(self.sharing, Sharing::Held { .. } | Sharing::HeldByBlocks { .. });
        phases(body, held && self.stage.is_none())
    }

    /// The passes of these phases that run together: all that the second one folds differs from means.
    pub fn passes(&self, body: &Body, phases: &Phases) -> Option<OnlinePasses> {
        let of_mean = |l: &OnlineFold| match &l.how {
            Rescaling::Shifted { rate, from, .. } => rate.is_none() && matches!(from, Shift::Mean(_)),
            Rescaling::Chosen { .. } => false,
        };
        online_passes(body, phases, self.online?.own as usize).filter(|o| o.list.iter().all(of_mean))
    }
}

/// Where the words of a row kernel are.
#[derive(Clone, Debug)]
pub struct RowsSlots {
    /// Of the domain. Before it: rows (across: vectors of rows; of pairs: threads that have a few); points of a row (along: vectors of
    /// them); chunks of a row (of pairs: the size of the first dimension), points (vectors) of each; runs of a row (held by blocks: tiles
    /// of rows), points of each.
    pub space: Slots,
    /// The first scalar.
    pub scalars: usize,
    /// The reciprocals of those that are divided by.
    pub reciprocals: usize,
    /// Where an index out of range is told.
    pub fault: usize,
    /// Addresses of the results of folds.
    pub values: usize,
    /// Addresses of their partial results.
    pub partials: usize,
    /// Addresses of the buffers.
    pub buffers: usize,
    /// Address of the counters, or of what blocks tell each other.
    pub counters: usize,
    /// Addresses of the states of online folds.
    pub states: usize,
    /// Words in all.
    pub end: usize,
}

/// Words before those of the domain.
const HEAD: usize = 6;

impl RowsSlots {
    /// Those of a class.
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

/// Values of a row that folds by combines of the user's own give; they follow those of the folds.
pub fn combined_values(body: &Body) -> usize {
    let folds = body.combined.iter().filter(|c| c.along == Along::Fold);
    folds.map(|c| c.elements().len()).sum()
}

/// The values of a row that a phase leaves to folds by combines of the user's own.
pub fn left(phase: &Phase) -> impl Iterator<Item = u16> + '_ {
    let folds = phase.combined.iter().filter(|c| c.along == Along::Fold);
    folds.flat_map(|c| (c.slot..).take(c.of.region().args.len()))
}

/// Whether a phase runs once a row behind the last pass, and takes what a fold by a combine of the user's own makes of it: a
/// launch of its own.
pub fn runs_behind(phases: &Phases, number: usize) -> bool {
    let last = phases.list.iter().rposition(|p| !p.once);
    last.is_some_and(|last| last < number && left(&phases.list[last]).next().is_some())
}

/// Bytes of the state of each online fold.
pub fn state_bytes(online: &OnlinePasses) -> Vec<usize> {
    online.list.iter().map(|l| (power(l) as usize + 3) * l.dtype.size()).collect()
}

/// The highest power of what an online fold sums up.
pub fn power(fold: &OnlineFold) -> u8 {
    match fold.how {
        Rescaling::Shifted { power, .. } => power,
        Rescaling::Chosen { .. } => unreachable!("what is chosen takes two passes"),
    }
}

/// Whether a scan of such elements can run in registers: not what is sorted; and of products of floats in another order
/// one may overflow where the other vanishes.
pub fn is_in_registers(scan: &Scan, dtype: DType) -> bool {
    !matches!(scan.op, ScanOp::Sort | ScanOp::Argsort) && (scan.op != ScanOp::Prod || !dtype.is_float())
}
