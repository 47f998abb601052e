//! Lowering of the radix sort of a scatter's indices: launches for each digit.

use crate::kernels::Skeleton;
use crate::kernels::plan::{Draft, Plan};
use crate::kernels::scatter::index_sort::params::{IndexSortArguments, RowDimArguments};
use crate::kernels::scatter::index_sort::{BITS, DIGITS, EACH, IndexSortClass, SortStep};
use crate::params::RuntimeArgument;
use thalweg_kernel::ScatterGeometry;

/// Number of tiles of a row of `n` indices.
pub fn tiles(n: usize) -> usize {
    n.div_ceil((EACH * DIGITS) as usize)
}

/// Number of passes of a sort by `size` elements, and one more value for indices out of range.
pub fn passes(size: usize) -> usize {
    (usize::BITS - size.leading_zeros()).div_ceil(BITS).max(1) as usize
}

/// Adds a sort of rows of indices (number of rows; extents and strides of their dimensions). Returns the region of
/// scratch memory with the sorted pairs.
pub fn add(
    plan: &mut Plan,
    g: &ScatterGeometry,
    (rows, row_dims): (usize, &[(usize, isize)]),
    index: RuntimeArgument,
) -> u16 {
    let (tiles, passes) = (tiles(g.n), passes(g.size));
    let mut region = |bytes: usize| {
        plan.scratch.push(bytes.max(64));
        plan.scratch.len() as u16 - 1
    };
    let pairs: Vec<u16> = (0..passes.min(2)).map(|_| region(8 * rows * g.n)).collect();
    let counts = region(4 * rows * DIGITS as usize * tiles);
    let totals = region(4 * rows * DIGITS as usize);
    for pass in 0..passes {
        let first = pass == 0;
        let to = RuntimeArgument::Scratch(pairs[pass % 2], 0);
        let from = if first { index } else { RuntimeArgument::Scratch(pairs[(pass + 1) % 2], 0) };
        let own = first.then_some(row_dims.len() as u8);
        let steps = [
            (SortStep::Count, rows * tiles, own),
            // A warp per digit of a row.
            (SortStep::Offsets, rows * 32, None),
            (SortStep::Move, rows * tiles, own),
        ];
        // With a single tile, the block that moves it counts by itself.
        for &(step, blocks, dims) in if tiles == 1 { &steps[2..] } else { &steps[..] } {
            let class = IndexSortClass { step, dims };
            let row_dims = if class.dims.is_some() { row_dims } else { &[] };
            let arguments = IndexSortArguments {
                from,
                to,
                counts: RuntimeArgument::Scratch(counts, 0),
                totals: RuntimeArgument::Scratch(totals, 0),
                indices: g.n,
                size: g.size,
                tiles,
                bit: pass * BITS as usize,
                index_stride: g.steps[1],
                fault: true,
                dims: row_dims.iter().map(|&(size, stride)| RowDimArguments { size, stride }).collect(),
            };
            let (kernel, arguments) = (Skeleton::IndexSort(class), arguments.fill(&class));
            plan.stages.push(Draft::new(kernel, [blocks as u32, 1, 1], DIGITS, 0, arguments));
        }
    }
    pairs[(passes - 1) % 2]
}

#[cfg(test)]
mod tests {
    use super::passes;

    #[test]
    fn passes_cover_indices_out_of_range() {
        assert_eq!([1, 255, 256, 50_000, 65_535, 65_536].map(passes), [1, 1, 2, 2, 2, 3]);
    }
}
