//! What a kernel costs. Policy only: nothing here decides what is allowed.
//!
//! In: a kernel as it would be launched, with the bytes that it touches. [`Costs::features`] reads from it what its time
//! follows from - bytes by the way they are gone through, arithmetic by class, rows and passes, values alive at once -
//! as plain numbers, the same on every device. [`Costs`] holds what each of these takes on one device. Out:
//! [`Costs::time`], picoseconds as an integer, so that the sum over the kernels of a plan does not depend on their
//! order.
//!
//! Always true: a time is never 0; it grows with every feature; a kernel in two parts costs at least a launch more than
//! in one, if both do the same.

mod costs;
mod features;
mod nodes;
#[cfg(test)]
mod tests;
mod time;

pub use costs::{Costs, Level};
pub use features::{CostFeatures, Product, RowFeatures, Traffic, Way};
pub use nodes::Work;

use crate::segment::{Indexed, Segment, ValueId};

/// Bytes of what a segment reads and of what it leaves behind: the same for all of its plans. See [`Costs::time`].
pub fn footprint(segment: &Segment<'_>) -> u64 {
    let ix = Indexed::new(*segment);
    let inputs = segment.inputs.iter().map(|(dtype, view)| view.distinct() * dtype.size());
    let results = segment.live.iter().map(|i| ix.bytes(ValueId::Op(i)));
    inputs.chain(results).sum::<usize>() as u64
}
