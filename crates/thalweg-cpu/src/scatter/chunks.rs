//! Partition of a scatter into chunks, and its checks: every operand is checked against its buffer before anything
//! runs.
//!
//! Chunks partition the dimensions other than the axis, so no two write the same element. Every index is checked before
//! it is used; the first one out of range becomes the launch's error.

use crate::tunable::TUNABLES;
use std::sync::Mutex;
use thalweg_kernel::ScatterGeometry;
use thalweg_runtime::{Buffer, Error};

/// Partition of a scatter's iteration space into chunks: `dims` enumerate them, and each covers up to `block` columns
/// of the innermost dimension.
pub struct Chunks {
    dims: Vec<(usize, [isize; 4])>,
    base: [isize; 4],
    /// Maximum number of columns of a chunk (`block`), total number of columns (`width`), and their stride in each
    /// operand (`columns`).
    block: usize,
    pub width: usize,
    pub columns: [isize; 4],
}

impl Chunks {
    /// Partitions these dimensions; with `columns`, the columns of a chunk are the last dimension.
    pub fn new(mut dims: Vec<(usize, [isize; 4])>, base: [isize; 4], columns: bool) -> Chunks {
        let (width, strides) = if columns { dims.pop().unwrap_or((1, [0; 4])) } else { (1, [0; 4]) };
        Chunks { dims, base, block: width.min(TUNABLES.max_scatter_columns.size()), width, columns: strides }
    }

    /// Number of chunks.
    pub fn count(&self) -> usize {
        self.dims.iter().map(|d| d.0).product::<usize>() * self.width.div_ceil(self.block.max(1))
    }

    /// Position of a chunk's first element in each operand, and the chunk's number of columns.
    pub fn get(&self, n: usize) -> ([isize; 4], usize) {
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

/// Checks that an operand contains all elements that a geometry accesses in it, `along` of them along the axis; returns
/// the operand's address.
///
/// # Panics
/// If an access is outside the operand.
pub fn checked(g: &ScatterGeometry, operand: &Buffer, which: usize, along: usize, size: usize) -> *mut u8 {
    let dims = g.outer.iter().chain(&g.inner).map(|d| (d.0, d.1[which]));
    let (mut low, mut high, mut empty) = (g.base[which] as i128, g.base[which] as i128, false);
    for (size, stride) in dims.chain([(along, g.steps[which])]) {
        empty |= size == 0;
        let span = (size as i128 - 1) * stride as i128;
        low += span.min(0);
        high += span.max(0);
    }
    let has = (operand.bytes() / size) as i128;
    assert!(
        empty || low >= 0 && high < has,
        "operand {which} of a scatter is reached from {low} to {high} and has {has} elements"
    );
    operand.address()
}

/// Checks that the written operand does not overlap a read one.
///
/// # Panics
/// If they overlap.
pub fn check_disjoint(written: &Buffer, read: &Buffer) {
    let (to, from) = (written.address() as usize, read.address() as usize);
    assert!(from >= to + written.bytes() || to >= from + read.bytes(), "the result of a scatter lies over an operand");
}

/// Record of the out-of-range index in the lowest chunk, which several threads update.
#[derive(Default)]
pub struct Outside(Mutex<Option<(usize, i64)>>);

impl Outside {
    #[cold]
    pub fn note(&self, place: usize, index: i64) {
        let mut first = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if first.is_none_or(|f| (place, index) < f) {
            *first = Some((place, index));
        }
    }

    /// Returns the error of the launch, if an index was out of range.
    pub fn result(self, name: &str, g: &ScatterGeometry) -> Result<(), Error> {
        match self.0.into_inner().unwrap_or_else(|e| e.into_inner()) {
            None => Ok(()),
            Some((_, index)) => {
                let ScatterGeometry { axis, size, .. } = g;
                Err(Error::Index(format!("{name}: index {index} is out of range for axis {axis} of size {size}")))
            }
        }
    }
}
