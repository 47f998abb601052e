//! Kernel arguments of row kernels.

use crate::kernels::reduce::{RowsClass, combined_values};
use crate::operands::BodyParams;
use crate::params::{FaultAddress, I64, OptionalAddress, each, flat, params};
use thalweg_kernel::{Body, Phases};

params! {
    /// Kernel arguments of a row kernel.
    pub struct RowsParams(class: &RowsClass, of: &Body, counts: &RowsCounts) filled by RowsArguments {
        /// Number of rows (outer-axis: of vectors of rows; pairwise: of threads with several rows).
        rows: I64,
        /// Number of points of a row (inner-axis: of vectors).
        points: I64,
        /// Number of chunks of a row; for pairwise rows the extent of the first dimension.
        chunks_or_extent: I64,
        /// Number of points of a chunk (inner-axis: of vectors).
        chunk_points: I64,
        /// Number of runs of a row, the ranges of points that a strict pass folds in order; for rows held by several
        /// blocks, the number of tiles of rows.
        runs_or_tiles: I64,
        /// Number of points of a run.
        run_points: I64,
        /// Kernel arguments of the body.
        body: BodyParams = flat(|layout| BodyParams::declare(layout, &class.space, of)),
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Addresses of the row values that stages pass on: results of folds, then results of user-defined combines.
        values: Vec<OptionalAddress> = each(counts.values, OptionalAddress::declare),
        /// Addresses of the partial results of folds.
        partials: Vec<OptionalAddress> = each(counts.partials, OptionalAddress::declare),
        /// Addresses of the buffers of row elements.
        buffers: Vec<OptionalAddress> = each(counts.buffers, OptionalAddress::declare),
        /// Address of the queue's counters, or of the exchange buffer of the blocks.
        counters_or_exchange: OptionalAddress,
        /// Addresses of the states of online folds.
        states: Vec<OptionalAddress> = each(counts.states, OptionalAddress::declare),
    }
}

/// Numbers of addresses between the stages of a row kernel; none for a kernel of all phases.
#[derive(Clone, Copy, Default, Debug)]
pub struct RowsCounts {
    /// Number of values of a row.
    pub values: usize,
    /// Number of folds with partial results in memory.
    pub partials: usize,
    /// Number of buffers of row elements.
    pub buffers: usize,
    /// Number of states of online folds.
    pub states: usize,
}

impl RowsCounts {
    /// Counts the arguments of each kind that a class has.
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
