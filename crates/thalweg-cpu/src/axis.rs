//! Kernels along an axis: the walk over the other dimensions, scans and gathers on it ([`crate::scatter`] has its own file).
//!
//! In: a geometry with any strides. Every operand is checked against its buffer before anything runs, every index before it is used. Pieces of work
//! differ in the dimensions beside the axis, so results do not depend on the number of threads.

use crate::scan::{Rows, scan_rows};
use crate::simd::Shared;
use crate::threads::Threads;
use std::sync::Mutex;
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::AxisGeometry;
use thalweg_runtime::{Buffer, Error};

/// Columns that a piece of work takes at a time: some kilobytes, and whole cache lines.
const COLUMNS: usize = 1024;
/// Nanoseconds an element: estimates for deciding on threads.
const NS_PER_ELEMENT: f64 = 1.0;
const NS_PER_SORTED: f64 = 20.0;

/// The dimensions that pieces of work differ in, and the one that runs inside a piece.
pub(crate) struct Walk {
    dims: Vec<(usize, [isize; 4])>,
    base: [isize; 4],
    /// Columns of a piece at most, of all, and their strides.
    block: usize,
    pub width: usize,
    pub columns: [isize; 4],
}

impl Walk {
    /// Over these dimensions, the last of them inside a piece if `columns` says so.
    pub fn new(mut dims: Vec<(usize, [isize; 4])>, base: [isize; 4], columns: bool) -> Walk {
        let (width, strides) = if columns { dims.pop().unwrap_or((1, [0; 4])) } else { (1, [0; 4]) };
        Walk { dims, base, block: width.min(COLUMNS), width, columns: strides }
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.dims.iter().map(|d| d.0).product::<usize>() * self.width.div_ceil(self.block.max(1))
    }

    /// Positions of a piece's first elements, and its columns.
    pub fn piece(&self, n: usize) -> ([isize; 4], usize) {
        let blocks = self.width.div_ceil(self.block);
        let (mut rest, first) = (n / blocks, n % blocks * self.block);
        let mut at = self.base;
        let mut add = |times: usize, strides: [isize; 4]| {
            for (a, s) in at.iter_mut().zip(strides) {
                *a += times as isize * s;
            }
        };
        add(first, self.columns);
        for &(size, strides) in self.dims.iter().rev() {
            add(rest % size, strides);
            rest /= size;
        }
        (at, self.block.min(self.width - first))
    }
}

/// Checks that an operand holds what a geometry reaches in it, `along` elements along the axis; its address.
///
/// # Panics
/// When it does not.
pub(crate) fn checked(g: &AxisGeometry, operands: &[&Buffer], which: usize, along: usize, size: usize) -> *mut u8 {
    let dims = g.outer.iter().chain(&g.inner).map(|d| (d.0, d.1[which]));
    let (mut low, mut high, mut empty) = (g.base[which] as i128, g.base[which] as i128, false);
    for (size, stride) in dims.chain([(along, g.steps[which])]) {
        empty |= size == 0;
        let span = (size as i128 - 1) * stride as i128;
        low += span.min(0);
        high += span.max(0);
    }
    let has = (operands[which].bytes() / size) as i128;
    assert!(
        empty || low >= 0 && high < has,
        "operand {which} of a kernel along an axis is reached from {low} to {high} and has {has} elements"
    );
    operands[which].address()
}

/// # Panics
/// When the written operand lies over another.
pub(crate) fn apart(operands: &[&Buffer], others: std::ops::Range<usize>) {
    let written = operands[operands.len() - 1];
    let to = written.address() as usize;
    for other in &operands[others] {
        let from = other.address() as usize;
        assert!(
            from >= to + written.bytes() || to >= from + other.bytes(),
            "the result of a kernel along an axis lies over an operand"
        );
    }
}

/// The first index found that names no element, by piece and place in it.
#[derive(Default)]
pub(crate) struct Outside(Mutex<Option<(usize, i64)>>);

impl Outside {
    #[cold]
    pub fn note(&self, place: usize, index: i64) {
        let mut first = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if first.is_none_or(|f| (place, index) < f) {
            *first = Some((place, index));
        }
    }

    /// The error, if there is one.
    pub fn result(self, name: &str, g: &AxisGeometry) -> Result<(), Error> {
        match self.0.into_inner().unwrap_or_else(|e| e.into_inner()) {
            None => Ok(()),
            Some((_, index)) => {
                let AxisGeometry { axis, size, .. } = g;
                Err(Error::Index(format!("{name}: index {index} is out of range for axis {axis} of size {size}")))
            }
        }
    }
}

/// Runs a scan.
///
/// # Panics
/// When the geometry reaches outside an operand, or the output lies over the input.
pub fn scan(op: ScanOp, reverse: bool, dtype: DType, g: &AxisGeometry, operands: &[&Buffer], threads: &Threads) {
    assert!(operands.len() == 2, "a scan has 2 operands, {} given", operands.len());
    let out_size = if op == ScanOp::Argsort { 8 } else { dtype.size() };
    let addresses = [checked(g, operands, 0, g.n, dtype.size()), checked(g, operands, 1, g.n, out_size)].map(Shared);
    apart(operands, 0..1);
    assert!(g.steps[1] >= 0, "a scan's result is row-major");
    // The result's columns are neighbours: the dimensions behind the axis, if they are one.
    let columns = g.inner.last().is_some_and(|d| d.1[1] == 1);
    let walk = Walk::new(g.outer.iter().chain(&g.inner).copied().collect(), g.base, columns);
    let ns =
        if matches!(op, ScanOp::Sort | ScanOp::Argsort | ScanOp::LogSumExp) { NS_PER_SORTED } else { NS_PER_ELEMENT };
    let estimate = ns * (walk.pieces() * walk.width.min(COLUMNS) * g.n) as f64;
    threads.run(walk.pieces(), 1, estimate, |range| {
        for piece in range {
            let (at, width) = walk.piece(piece);
            let rows = Rows { from: [g.steps[0], walk.columns[0]], to: g.steps[1] as usize, n: g.n, width };
            let from = addresses[0].get().wrapping_offset(at[0] * dtype.size() as isize);
            let to = addresses[1].get().wrapping_offset(at[1] * out_size as isize);
            // SAFETY: all positions were checked; no two pieces write one element, and the result is apart from the source.
            unsafe { scan_rows(op, reverse, dtype, from, to, rows) };
        }
    });
}

/// Runs a gather.
///
/// # Errors
/// When an index is out of range; the result is then not to be used.
///
/// # Panics
/// When the geometry reaches outside an operand, or the output lies over an input.
pub fn gather(dtype: DType, g: &AxisGeometry, operands: &[&Buffer], threads: &Threads) -> Result<(), Error> {
    assert!(operands.len() == 3, "a gather has 3 operands, {} given", operands.len());
    let addresses = [
        checked(g, operands, 0, g.size, dtype.size()),
        checked(g, operands, 1, g.n, 8),
        checked(g, operands, 2, g.n, dtype.size()),
    ];
    apart(operands, 0..2);
    let addresses = addresses.map(Shared);
    let outside = Outside::default();
    match dtype.size() {
        1 => gather_as::<u8>(g, addresses, threads, &outside),
        2 => gather_as::<u16>(g, addresses, threads, &outside),
        4 => gather_as::<u32>(g, addresses, threads, &outside),
        _ => gather_as::<u64>(g, addresses, threads, &outside),
    }
    outside.result("gather", g)
}

fn gather_as<T: Copy>(g: &AxisGeometry, addresses: [Shared<u8>; 3], threads: &Threads, outside: &Outside) {
    // Of the tensor the index chooses the place along the axis, so that dimension alone moves nothing in it.
    let along = (g.n, [0, g.steps[1], g.steps[2], 0]);
    let dims: Vec<_> = g.outer.iter().chain([&along]).chain(&g.inner).copied().filter(|d| d.0 != 1).collect();
    let walk = Walk::new(dims, g.base, true);
    let [step, columns] = [g.steps[0], walk.columns[0]];
    let [index_columns, out_columns] = [walk.columns[1], walk.columns[2]];
    let estimate = NS_PER_ELEMENT * (walk.pieces() * walk.width.min(COLUMNS)) as f64;
    threads.run(walk.pieces(), 16, estimate, |range| {
        for piece in range {
            let (at, width) = walk.piece(piece);
            let from = addresses[0].get().cast::<T>().wrapping_offset(at[0]);
            let index = addresses[1].get().cast::<i64>().wrapping_offset(at[1]);
            let to = addresses[2].get().cast::<T>().wrapping_offset(at[2]);
            let inside = |i: i64| (i as u64) < g.size as u64;
            // SAFETY: all positions were checked, of the tensor for every index inside; no two pieces write one element.
            unsafe {
                if index_columns == 0 {
                    let i = index.read();
                    if !inside(i) {
                        outside.note(piece, i);
                        continue;
                    }
                    let from = from.offset(i as isize * step);
                    if columns == 1 && out_columns == 1 {
                        std::ptr::copy_nonoverlapping(from, to, width);
                        continue;
                    }
                    for j in 0..width as isize {
                        to.offset(j * out_columns).write(from.offset(j * columns).read());
                    }
                    continue;
                }
                for j in 0..width as isize {
                    let i = index.offset(j * index_columns).read();
                    if !inside(i) {
                        outside.note(piece, i);
                        break;
                    }
                    to.offset(j * out_columns).write(from.offset(i as isize * step + j * columns).read());
                }
            }
        }
    });
}
