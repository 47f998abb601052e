//! Folds and scans of rows of scratch memory by combines of the user's own (`render/combined.rs`): a block a row.

use crate::class::combined::{BLOCK, CombinedClass, LEVELS};
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use std::sync::Arc;
use thalweg_kernel::order::SEGMENT;
use thalweg_kernel::{Along, Moved};

/// A fold or scan of rows.
pub struct RowCombined<'a> {
    pub class: CombinedClass,
    /// How many rows, and points of each.
    pub size: [usize; 2],
    /// Elements from row to row, and from point to point.
    pub steps: [usize; 2],
    /// The regions with the components of the elements.
    pub buffers: &'a [u16],
    /// Those for the results of a fold.
    pub results: &'a [u16],
}

impl RowCombined<'_> {
    /// Adds its launch.
    pub fn add(self, plan: &mut Plan) {
        let RowCombined { class, size: [rows, n], steps, buffers, results } = self;
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
        let mut words = vec![0; class.words()];
        let sizes = [n, steps[0], steps[1], lasts];
        words[2 * buffers.len()..].iter_mut().zip(sizes).for_each(|(w, v)| *w = v as u64);
        let regions = buffers.iter().chain(&memory).enumerate();
        let patches = regions.map(|(at, &region)| (at, Word::Scratch(region, 0))).collect();
        let kernel = Arc::new(Skeleton::Combined(class));
        plan.stages.push(Draft { kernel, grid: [blocks(rows, 1), 1, 1], block: BLOCK, shared: 0, words, patches });
    }
}

/// The elements of a scan of so many points, the last ones of its segments, the last ones of the segments of these, …
fn levels(n: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(n), |n| (*n > SEGMENT).then(|| n.div_ceil(SEGMENT))).take(LEVELS)
}

/// What a row moves, in elements. A fold reads two for each that it writes, and leaves its result. A scan goes over all once,
/// leaves the last ones of segments, and goes over what follows them, each read with what it follows.
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
