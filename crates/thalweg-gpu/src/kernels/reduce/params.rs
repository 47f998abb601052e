//! Kernel arguments of row kernels.

use crate::kernels::reduce::{RowsClass, combined_values};
use crate::operands::BodyParams;
use crate::params::{FaultAddress, I64, OptionalAddress, each, flat, params};
use thalweg_kernel::{Body, Phases};

params! {
    /// Kernel arguments of a row kernel.
    pub struct RowsParams(class: &RowsClass, of: &Body, counts: &RowsCounts) filled by RowsArguments {
        /// Number of rows (across: vectors of rows; pairs: threads with several rows).
        rows: I64,
        /// Points of a row (along: vectors).
        points: I64,
        /// Chunks of a row; for pairs the extent of the first dimension.
        chunks_or_extent: I64,
        /// Points of a chunk (along: vectors).
        chunk_points: I64,
        /// Runs of a row; for rows held by several blocks the number of tiles of rows.
        runs_or_tiles: I64,
        /// Points of a run.
        run_points: I64,
        /// Body.
        body: BodyParams = flat(|layout| BodyParams::declare(layout, &class.space, of)),
        /// Fault slot.
        fault: FaultAddress,
        /// Values of rows between stages: results of folds, then those of user-defined combines.
        values: Vec<OptionalAddress> = each(counts.values, OptionalAddress::declare),
        /// Partial results of folds.
        partials: Vec<OptionalAddress> = each(counts.partials, OptionalAddress::declare),
        /// Buffers of row elements.
        buffers: Vec<OptionalAddress> = each(counts.buffers, OptionalAddress::declare),
        /// Counters, or the exchange buffer of blocks.
        counters_or_exchange: OptionalAddress,
        /// States of online folds.
        states: Vec<OptionalAddress> = each(counts.states, OptionalAddress::declare),
    }
}

/// Numbers of addresses between the stages of a row kernel; none for a kernel of all phases.
#[derive(Clone, Copy, Default, Debug)]
pub struct RowsCounts {
    /// Values of rows.
    pub values: usize,
    /// Partial results.
    pub partials: usize,
    /// Buffers.
    pub buffers: usize,
    /// States of online folds.
    pub states: usize,
}

impl RowsCounts {
    /// Numbers of a class.
    pub fn new(class: &RowsClass, body: &Body, phases: &Phases) -> RowsCounts {
        if class.stage.is_none() {
            return RowsCounts::default();
        }
        let folds = body.folds.len();
        RowsCounts {
            values: folds + combined_values(body),
            partials: folds,
            buffers: phases.buffers.len(),
            states: class.passes(body, phases).map_or(0, |online| online.list.len()),
        }
    }
}
