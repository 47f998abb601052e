//! Lowering of folds and scans of rows of scratch memory by user-defined combines: a block per row.

use crate::kernels::Skeleton;
use crate::kernels::combine::params::CombineArguments;
use crate::kernels::combine::{BLOCK, CombineClass, LEVELS};
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::params::RuntimeArgument;
use thalweg_kernel::order::SEGMENT;
use thalweg_kernel::{Along, Moved};

/// Fold or scan of rows in scratch memory by a user-defined combine, before its launch is planned.
pub struct RowCombine<'a> {
    pub class: CombineClass,
    /// Number of rows, and number of points per row.
    pub size: [usize; 2],
    /// Strides in elements from row to row, and from point to point.
    pub steps: [usize; 2],
    /// Scratch regions of the elements, one for each component.
    pub buffers: &'a [u16],
    /// Scratch regions of a fold's results, one for each component.
    pub results: &'a [u16],
}

impl RowCombine<'_> {
    /// Adds the launch of this fold or scan to a plan.
    pub fn add(self, plan: &mut Plan) {
        let RowCombine { class, size: [rows, n], steps, buffers, results } = self;
        let scans = class.along != Along::Fold;
        if rows == 0 || scans && n == 0 {
            return;
        }
        let dtypes = &class.of.region().args;
        let size: u64 = dtypes.iter().map(|d| d.size() as u64).sum();
        let lasts: usize = levels(n).skip(1).sum();
        plan.moved += moved(n, scans).times(rows as u64 * size);
        let memory: Vec<u16> = match scans {
            true => dtypes
                .iter()
                .map(|d| {
                    plan.scratch.push((rows * lasts * d.size()).max(64));
                    plan.scratch.len() as u16 - 1
                })
                .collect(),
            false => results.to_vec(),
        };
        let addresses = |regions: &[u16]| regions.iter().map(|&region| RuntimeArgument::Scratch(region, 0)).collect();
        let arguments = CombineArguments {
            elements: addresses(buffers),
            results: addresses(&memory),
            points: n,
            row_stride: steps[0],
            point_stride: steps[1],
            row_scratch: lasts,
        };
        let arguments = arguments.fill(&class);
        plan.stages.push(Draft::new(Skeleton::Combine(class), [blocks(rows, 1), 1, 1], BLOCK, 0, arguments));
    }
}

/// Number of elements of each level of a scan. The first level has `n` points; each further level has the last elements
/// of the previous level's segments.
fn levels(n: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(n), |n| (*n > SEGMENT).then(|| n.div_ceil(SEGMENT))).take(LEVELS)
}

/// Traffic of a row, in elements. A fold reads two elements for each that it writes, and stores its result. A scan
/// reads all elements once, stores the last element of each segment, and updates all elements after the first segment,
/// each with the last element of the segment before.
fn moved(n: usize, scans: bool) -> Moved {
    if !scans {
        let (n, pairs) = (n as u64, n.saturating_sub(1) as u64);
        return Moved { read: 2 * pairs + n.min(1), written: pairs + 1, ..Moved::default() };
    }
    let mut moved = Moved::default();
    for n in levels(n) {
        let (behind, lasts) = (n.saturating_sub(SEGMENT), if n > SEGMENT { n.div_ceil(SEGMENT) } else { 0 });
        moved.read += (n + 2 * behind) as u64;
        moved.written += (n - n.div_ceil(SEGMENT) + lasts + behind) as u64;
    }
    moved
}
