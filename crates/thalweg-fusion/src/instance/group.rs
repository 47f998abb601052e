//! Groups with sizes: launches of independent kernels as one.

use crate::write::step::{Slot, Step};
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_kernel::{Geometry, GroupPart, Kernel};

/// Joins the independent launches of one group of the plan into one launch. `out_of_range` is that of the [`Step`].
pub(crate) fn group(steps: Vec<Step>, out_of_range: Option<String>) -> Step {
    // In-place reuse only for operands with a single reader: members run in any order.
    let mut readers: HashMap<Slot, usize> = HashMap::new();
    for step in &steps {
        for &slot in &step.operands[..step.first_write] {
            *readers.entry(slot).or_default() += 1;
        }
    }
    let first_write = steps.iter().map(|s| s.first_write).sum();
    let mut all = Step {
        kernel_index: steps[0].kernel_index,
        kernel: Kernel::Boxes(vec![]).into(),
        geometry: Geometry::Group(vec![]).into(),
        operands: vec![],
        first_write,
        scalars: vec![],
        in_place: vec![],
        out_of_range,
        bytes_read: steps.iter().map(|s| s.bytes_read).sum(),
        bytes_written: steps.iter().map(|s| s.bytes_written).sum(),
        touched: steps.iter().flat_map(|s| s.touched.iter().copied()).collect(),
        form: None,
    };
    let mut written = vec![];
    let mut numbers: HashMap<Arc<Kernel>, u32> = HashMap::new();
    let mut parts = Vec::with_capacity(steps.len());
    let mut geometries = Vec::with_capacity(steps.len());
    for step in steps {
        let (reads, writes) = step.operands.split_at(step.first_write);
        let place =
            |(w, r): &(usize, usize)| (first_write + written.len() + w - step.first_write, all.operands.len() + r);
        let alone = |p: &&(usize, usize)| readers[&step.operands[p.1]] == 1;
        all.in_place.extend(step.in_place.iter().filter(alone).map(place));
        all.operands.extend_from_slice(reads);
        written.extend_from_slice(writes);
        let next = numbers.len() as u32;
        parts.push(GroupPart {
            reads: reads.len() as u32,
            writes: writes.len() as u32,
            scalars: step.scalars.len() as u32,
            kernel: *numbers.entry(step.kernel).or_insert(next),
        });
        all.scalars.extend(step.scalars);
        geometries.push(Arc::unwrap_or_clone(step.geometry));
    }
    all.operands.extend(written);
    let mut kernels: Vec<(Arc<Kernel>, u32)> = numbers.into_iter().collect();
    kernels.sort_unstable_by_key(|k| k.1);
    let kernels = kernels.into_iter().map(|k| Arc::unwrap_or_clone(k.0)).collect();
    all.kernel = Kernel::Group { kernels, parts }.into();
    all.geometry = Geometry::Group(geometries).into();
    all
}
