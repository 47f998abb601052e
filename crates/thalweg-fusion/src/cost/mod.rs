//! Cost model: predicted time of a kernel. Policy only: nothing here decides legality.
//!
//! In: a kernel as it would be launched, with the bytes that it touches. [`Costs::features`] extracts from it
//! everything that its time depends on, as plain numbers that are equal on every device: bytes by access pattern,
//! arithmetic by class, rows and passes, live values. [`Costs`] holds the cost of each of these on one device. Out:
//! [`Costs::time`], integer picoseconds, so that the sum over a plan's kernels does not depend on their order.
//!
//! Always true: a time is never 0; it grows with every feature; splitting a kernel in two costs at least one launch
//! more, if both variants do the same.
//!
//! [`Corrections`]: what measured kernels took beyond that, by class.

mod access;
mod correction;
mod costs;
mod features;
mod nodes;
#[cfg(test)]
mod tests;
mod time;

pub use access::AccessKind;
pub use correction::{Corrections, KernelClass};
pub use costs::{Costs, Level};
pub use features::{CostFeatures, Product, RowFeatures, Traffic};
pub use nodes::Work;

use crate::segment::{Indexed, Segment, ValueId};

/// Bytes of a segment's inputs and live results: equal for all of its plans. See [`Costs::time`].
pub fn footprint(segment: &Segment<'_>) -> u64 {
    let ix = Indexed::new(*segment);
    let inputs = segment.inputs.iter().map(|(dtype, view)| view.distinct() * dtype.size());
    let results = segment.live.iter().map(|i| ix.bytes(ValueId::Op(i)));
    inputs.chain(results).sum::<usize>() as u64
}
