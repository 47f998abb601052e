//! Memory traffic of contractions with operands in memory, computed from the block sizes of `blocked` and `gemv`.
//!
//! In: sizes, strides, and whether the order of sums is free. Out: bytes between memory and the private caches of the
//! cores. Packed panels count if they exceed the private caches. An operand counts as often as tasks read it, unless
//! the whole product fits the private caches.

use super::blocking::{Right, Sizes, blocking, estimate_ns};
use super::microkernels::Kernels;
use super::{Numbers, by_numbers, gemv, gemv_dots};
use crate::engine::Choice;
use crate::hardware::PRIVATE_CACHE;
use crate::number::{Bf16, F16, PairTiles, Pairs, Quads, Scheme, SchemeConstants, WideQuads};
use crate::threads::Threads;
use thalweg_ir::DType;
use thalweg_kernel::{MatmulGeometry, Moved};

/// Matrix operand: bytes of its distinct elements in one product, the number of products of the batch that share them,
/// and its strides in elements.
#[derive(Clone, Copy)]
struct Side {
    bytes: usize,
    shared: usize,
    line: isize,
    term: isize,
}

/// Memory traffic of a launch of a contraction.
pub fn moves(numbers: Numbers, geometry: &MatmulGeometry, isa: Choice, threads: &Threads) -> Moved {
    // A plan may have products of bool, which fail when they are run.
    let numbers = if numbers.dtype == DType::Bool { Numbers { dtype: DType::I8, ..numbers } } else { numbers };
    by_numbers!(numbers, isa, T => {
        let kernels = Kernels::<T>::new(isa);
        moved(&T::CONSTANTS, [kernels.rows, kernels.columns], numbers.free, geometry, threads)
    })
}

fn moved(of: &SchemeConstants, tile: [usize; 2], free: bool, g: &MatmulGeometry, threads: &Threads) -> Moved {
    let (batches, size): (usize, usize) = (g.batch.iter().map(|d| d.0).product(), of.element);
    let written = batches * g.m * g.n * of.stored;
    if written == 0 || g.k == 0 {
        return Moved { written: written as u64, ..Moved::default() };
    }
    let side = |lines: usize, steps: [isize; 2], stride: fn(&(usize, isize, isize)) -> isize| {
        let shared = g.batch.iter().filter(|d| stride(d) == 0).map(|d| d.0).product::<usize>();
        // Stride 0 addresses a single element.
        let own = steps.iter().zip([lines, g.k]).filter(|(s, _)| **s != 0).map(|(_, n)| n).product::<usize>();
        Side { bytes: own * size, shared, line: steps[0], term: steps[1] }
    };
    let left = side(g.m, [g.a.1, g.a.2], |d| d.1);
    let right = side(g.n, [g.b.2, g.b.1], |d| d.2);
    let whole = left.bytes + right.bytes + written / batches;
    if whole <= PRIVATE_CACHE {
        let read = [left, right].iter().map(|s| s.bytes * batches / s.shared).sum::<usize>();
        return Moved { read: read as u64, written: written as u64, ..Moved::default() };
    }
    let each = estimate_ns(of, g.m, g.n, g.k);
    let helpers = threads.for_work(each * batches as f64);
    let helpers = if batches >= 2 * helpers { 1 } else { threads.for_work(each) };
    let (read, scratch) = match (g.m, g.n) {
        (1, n) => (of_row(left, right, n, helpers), 0),
        (m, 1) => (of_row(right, left, m, helpers), 0),
        (m, n) if gemv_dots::takes(of, free, [m, g.k], right.term) => (of_row(left, right, n, helpers), 0),
        (m, n) if of.symmetric && m > n && gemv_dots::takes(of, free, [n, g.k], left.term) => {
            (of_row(right, left, m, helpers), 0)
        }
        _ => of_blocks(of, tile, g, left, right, helpers),
    };
    Moved {
        read: ((read + scratch) * batches) as u64,
        written: (written + scratch * batches) as u64,
        ..Moved::default()
    }
}

/// Bytes read by a GEMV: the matrix once, and the row once, or once per chunk of columns if it exceeds the private
/// caches.
fn of_row(row: Side, matrix: Side, n: usize, threads: usize) -> usize {
    let again = if row.bytes <= PRIVATE_CACHE { 1 } else { n.div_ceil(gemv::chunk(n, threads)) };
    row.bytes * again + matrix.bytes
}

/// Bytes that a GEMM reads of A and B, and bytes of packed panels that are written to memory and reread.
fn of_blocks(
    of: &SchemeConstants,
    tile: [usize; 2],
    g: &MatmulGeometry,
    left: Side,
    right: Side,
    threads: usize,
) -> (usize, usize) {
    let slot = of.slot;
    let k = g.k.div_ceil(of.group);
    let bytes = |stride: isize| stride * of.element as isize;
    let single = of.element == slot;
    let along_terms = of.group * of.element == slot && g.k.is_multiple_of(of.group);
    let b = blocking(&Sizes {
        m: g.m,
        n: g.n,
        k,
        size: slot,
        step: of.step,
        tile,
        right_rows: (single && right.line == 1).then(|| bytes(right.term)),
        left_rows: match (left.line, left.term) {
            (line, 1) if along_terms || of.step > 1 => Some(bytes(line)),
            (1, term) if single => Some(bytes(term)),
            _ => None,
        },
        packed: false,
        tiles: !of.stored_as_carried(),
        threads,
    });
    let row_blocks = g.m.div_ceil(b.rows);
    let pass = match b.right {
        Right::Shared(columns) => columns.min(g.n),
        _ => g.n,
    };
    let passes = g.n.div_ceil(pass);
    let near = |bytes: usize| bytes <= PRIVATE_CACHE;
    let left_again = match near(left.bytes) {
        true => 1,
        // Rows that are not retained are packed again for each block of columns.
        false if !b.keeps_left && !b.left_direct => g.n.div_ceil(b.columns),
        false => passes * b.groups,
    };
    let panels = k * pass * slot;
    let (right_again, packed) = match b.right {
        Right::Shared(_) if near(panels) => (1, 0),
        // Each block of rows reads the panels, which are packed once.
        Right::Shared(_) => (1, panels * passes),
        Right::Own => (1, 0),
        Right::Direct => (if near(right.bytes) { 1 } else { row_blocks }, 0),
    };
    let again = packed * row_blocks.saturating_sub(1);
    (left.bytes * left_again + right.bytes * right_again + again, packed)
}
