//! Plain scans (such as `cumsum` of a tensor): rows in memory are scanned to rows in memory, without other operations.
//!
//! In: a body that loads elements, scans them and stores the result. Out: the scan, directly from the operand to the result.
//! Rows that are short, and neither long enough for a call each nor columns of a matrix in memory, are copied to one in
//! scratch memory, and back. Always true: the scan function is the one that runs between phases, in the same order, so the
//! bits are the same; only the buffers are omitted, which are two thirds of the memory traffic, and the calls of phases.

use super::layout::linear_offset;
use crate::scan;
use crate::threads::Threads;
use crate::tile;
use std::ops::Range;
use thalweg_ir::{DType, MAX_RANK, ScanOp};
use thalweg_kernel::{Body, Moved, Node, NodeId, RowGeometry, Scan};
use thalweg_runtime::Buffer;

/// Maximum number of elements of a row that is copied. Longer ones are packed block by block.
const MAX_COPIED: usize = 4096;
/// Maximum bytes of a contiguous row that is copied, too, unless it is sorted: the elements of one row wait for each other,
/// and a call of the scan for each row takes as long as some of them.
const MAX_CONTIGUOUS_BYTES: usize = 256;
/// Maximum bytes of rows that are copied together. Neighbouring rows may lie in the same cache lines, and are columns of a
/// matrix whose scan has a vector of states.
const COPIED_BYTES: usize = 16 << 10;

/// A launch of a plain scan.
pub struct PlainScan<'a> {
    scan: &'a Scan,
    from: Operand<'a>,
    to: Operand<'a>,
    rows: usize,
    n: usize,
}

/// Input or result of a scan.
struct Operand<'a> {
    number: u16,
    dtype: DType,
    /// Extents of the dimensions that enumerate the rows, and of those of a row.
    extents: [&'a [usize]; 2],
    /// Position of the first element, and strides over all dimensions.
    first: i64,
    strides: [i64; MAX_RANK],
}

impl Operand<'_> {
    /// Address of the first element of a row, and bytes from there to the next one: of all rows if they follow each
    /// other (`follow`), else of those of the same innermost dimension.
    fn row(&self, operands: &[&Buffer], row: usize, follow: bool) -> (*mut u8, isize) {
        let (size, extents) = (self.dtype.size() as i64, self.extents[0]);
        let position = self.first + linear_offset(extents, &self.strides, row);
        let stride = match extents.len().checked_sub(1) {
            _ if follow => self.extents[1].iter().product::<usize>() as i64,
            last => last.map_or(0, |last| self.strides[last]),
        };
        let address = operands[self.number as usize].address();
        (address.wrapping_offset((position * size) as isize), (stride * size) as isize)
    }

    /// Whether the elements of each row are contiguous.
    fn has_contiguous_rows(&self) -> bool {
        let [rows, row] = self.extents;
        follows(row, &self.strides[rows.len()..], 1)
    }

    /// Whether the elements of all rows are contiguous.
    fn is_contiguous(&self) -> bool {
        let [rows, row] = self.extents;
        self.has_contiguous_rows() && follows(rows, &self.strides, row.iter().product::<usize>() as i64)
    }

    /// Whether the rows of an innermost dimension are the columns of a contiguous matrix.
    fn is_matrix(&self) -> bool {
        let [rows, row] = self.extents;
        let Some((&inner, last)) = rows.last().zip(rows.len().checked_sub(1)) else { return false };
        self.strides[last] == 1 && follows(row, &self.strides[rows.len()..], inner as i64)
    }

    /// Copies `count` rows of `n` elements from there on to a contiguous matrix with a column for each row, or back.
    ///
    /// # Safety
    /// They are readable or writable, and `columns` has space for them.
    unsafe fn copy(&self, (first, stride): (*mut u8, isize), [count, n]: [usize; 2], columns: *mut u8, back: bool) {
        let stride = stride / self.dtype.size() as isize;
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype.size() {
                1 => self.copy_elements::<u8>((first, stride), [count, n], columns, back),
                2 => self.copy_elements::<u16>((first.cast(), stride), [count, n], columns.cast(), back),
                4 => self.copy_elements::<u32>((first.cast(), stride), [count, n], columns.cast(), back),
                _ => self.copy_elements::<u64>((first.cast(), stride), [count, n], columns.cast(), back),
            }
        }
    }

    /// [`Operand::copy`] for elements of type `T`, with the stride in elements.
    ///
    /// # Safety
    /// As for [`Operand::copy`].
    unsafe fn copy_elements<T: Copy>(
        &self,
        (first, row): (*mut T, isize),
        [count, n]: [usize; 2],
        columns: *mut T,
        back: bool,
    ) {
        let [rows, extents] = self.extents;
        let strides = &self.strides[rows.len()..];
        let last = extents.len() - 1;
        let (inner, stride) = (extents[last], strides[last]);
        for run in 0..n / inner {
            let start = linear_offset(&extents[..last], strides, run);
            for i in 0..inner {
                // SAFETY: the caller's promise.
                unsafe {
                    let point = first.wrapping_offset((start + stride * i as i64) as isize);
                    let columns = columns.add((run * inner + i) * count);
                    match (row, back) {
                        (1, false) => std::ptr::copy_nonoverlapping(point, columns, count),
                        (1, true) => std::ptr::copy_nonoverlapping(columns, point, count),
                        (_, false) => {
                            (0..count).for_each(|r| columns.add(r).write(point.offset(row * r as isize).read()))
                        }
                        (_, true) => {
                            (0..count).for_each(|r| point.offset(row * r as isize).write(columns.add(r).read()))
                        }
                    }
                }
            }
        }
    }
}

impl<'a> PlainScan<'a> {
    /// Recognises a plain scan in a body and geometry.
    pub fn of(body: &'a Body, geometry: &'a RowGeometry) -> Option<PlainScan<'a>> {
        let ([scan], [store]) = (&body.scans[..], &body.stores[..]) else { return None };
        let node = |id: NodeId| body.nodes[id.0 as usize];
        let (Node::Scanned { .. }, Node::Load { access }) = (node(store.node), node(scan.node)) else { return None };
        let by_row = body.accesses[store.access as usize].per_row;
        let plain = body.folds.is_empty() && body.sets.is_empty() && store.combine.is_none() && !by_row;
        if !plain {
            return None;
        }
        let extents: [&[usize]; 2] = geometry.extents.split_at(geometry.kept).into();
        let operand = |a: u16| {
            let (access, at) = (&body.accesses[a as usize], &geometry.accesses[a as usize]);
            let mut strides = at.strides.map(|s| s as i64);
            if access.per_row {
                strides[geometry.kept..].fill(0);
            }
            let operand =
                Operand { number: access.operand?, dtype: access.dtype, extents, first: at.base as i64, strides };
            Some(operand).filter(|_| at.map.is_none())
        };
        let (from, to) = (operand(access)?, operand(store.access)?);
        let plain = PlainScan { scan, from, to, rows: geometry.rows(), n: geometry.row() };
        (plain.n <= MAX_COPIED || plain.has_contiguous_rows()).then_some(plain)
    }

    /// Whether the elements of each row are contiguous, in input and result.
    fn has_contiguous_rows(&self) -> bool {
        self.from.has_contiguous_rows() && self.to.has_contiguous_rows()
    }

    /// Whether threads split each row instead of taking whole rows.
    fn split(&self, threads: usize) -> bool {
        self.rows < threads
    }

    /// Memory traffic of a launch.
    pub fn moved(&self, threads: usize) -> Moved {
        let points = (self.rows * self.n) as u64;
        let (read, written) = (points * self.from.dtype.size() as u64, points * self.to.dtype.size() as u64);
        let own = scan::moves(self.scan.op, self.from.dtype, [self.n, 1], self.split(threads)).times(self.rows as u64);
        Moved { read, written, loaded: read, stored: written } + own
    }

    /// Runs the scan.
    ///
    /// # Safety
    /// Geometry and operands were checked.
    pub unsafe fn run(&self, operands: &[&Buffer], threads: &Threads, estimate_ns: f64) {
        let size = self.rows * self.n;
        if size == 0 {
            return;
        }
        tile::note(size * self.from.dtype.size(), size * self.to.dtype.size());
        let (op, dtype) = ((self.scan.op, self.scan.reverse), self.from.dtype);
        let sorts = matches!(op.0, ScanOp::Sort | ScanOp::Argsort);
        let long = self.n * self.from.dtype.size() > MAX_CONTIGUOUS_BYTES;
        let by_row = self.has_contiguous_rows() && (sorts || long);
        let follow = self.from.is_contiguous() && self.to.is_contiguous();
        // In place both are a matrix, or neither is.
        let matrices = [&self.from, &self.to].map(|of| !by_row && !follow && of.is_matrix());
        // Number of rows that are one stride apart.
        let inner = if follow { self.rows } else { self.from.extents[0].last().copied().unwrap_or(1) };
        let wide = self.from.dtype.size().max(self.to.dtype.size());
        let most = (COPIED_BYTES / (self.n * wide)).max(1);
        let some = |range: Range<usize>, threads: Option<&Threads>| {
            let scratch = |of: &Operand<'_>| vec![0u64; (most.min(inner) * self.n * of.dtype.size()).div_ceil(8)];
            let mut columns = if by_row { [vec![], vec![]] } else { [scratch(&self.from), scratch(&self.to)] };
            let [before, after] = columns.each_mut().map(|memory| memory.as_mut_ptr().cast::<u8>());
            let mut row = range.start;
            while row < range.end {
                let left = (range.end - row).min(inner - row % inner);
                let whole = by_row || left == inner && matrices == [true; 2];
                let count = if whole { left } else { most.min(left) };
                let [from, to] = [&self.from, &self.to].map(|of| of.row(operands, row, follow));
                // SAFETY: the caller's promise: every element of the rows is inside its operand, and of its dtype; there
                // is space for a column for each row. If input and result are the same memory, they match element by
                // element: a width of 1 allows that.
                unsafe {
                    if by_row {
                        for r in 0..count as isize {
                            let [from, to] = [from, to].map(|(first, stride)| first.wrapping_offset(stride * r));
                            scan::scan(op, dtype, from, to, [self.n, 1], threads);
                        }
                    } else {
                        let [reads, writes] = matrices.map(|is_matrix| is_matrix && count == inner);
                        if !reads {
                            self.from.copy(from, [count, self.n], before, false);
                        }
                        let (source, result) = (if reads { from.0 } else { before }, if writes { to.0 } else { after });
                        scan::scan(op, dtype, source, result, [self.n, count], threads);
                        if !writes {
                            self.to.copy(to, [count, self.n], after, true);
                        }
                    }
                }
                row += count;
            }
        };
        if self.split(threads.for_work(estimate_ns)) {
            return some(0..self.rows, Some(threads));
        }
        let grain = (1 << 14) / self.n.max(1);
        threads.run(self.rows, grain.max(1), estimate_ns, |range| some(range, None));
    }
}

/// Whether the elements that dimensions enumerate follow each other, `step` apart, in row-major order.
fn follows(extents: &[usize], strides: &[i64], mut step: i64) -> bool {
    extents.iter().zip(strides).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || stride == step;
        step *= extent as i64;
        fits
    })
}
