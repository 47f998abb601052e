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
        /// Number of runs of a row; for rows held by several blocks the number of tiles of rows.
        runs_or_tiles: I64,
        /// Number of points of a run.
        run_points: I64,
        /// Arguments of the body.
        body: BodyParams = flat(|layout| BodyParams::declare(layout, &class.space, of)),
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Values of rows between stages: results of folds, then those of user-defined combines.
        values: Vec<OptionalAddress> = each(counts.values, OptionalAddress::declare),
        /// Addresses of the partial results of folds.
        partials: Vec<OptionalAddress> = each(counts.partials, OptionalAddress::declare),
        /// Addresses of the buffers of row elements.
        buffers: Vec<OptionalAddress> = each(counts.buffers, OptionalAddress::declare),
        /// Address of counters, or of the exchange buffer of blocks.
        counters_or_exchange: OptionalAddress,
        /// Addresses of the states of online folds.
        states: Vec<OptionalAddress> = each(counts.states, OptionalAddress::declare),
    }
}

/// Numbers of addresses between the stages of a row kernel; none for a kernel of all phases.
#[derive(Clone, Copy, Default, Debug)]
pub struct RowsCounts {
    /// Number of row values.
    pub values: usize,
    /// Number of partial results.
    pub partials: usize,
    /// Number of buffers.
    pub buffers: usize,
    /// Number of states of online folds.
    pub states: usize,
}

impl RowsCounts {
    /// Counts of a class.
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
