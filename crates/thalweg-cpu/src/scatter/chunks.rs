//! Chunks of a scatter's work, and its checks: every operand is checked against its buffer before anything runs.
//!
//! Chunks differ in the dimensions other than the axis, so no two write the same element. Every index is checked before
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
    /// Maximum columns of a chunk (`block`), number of all columns, and their strides.
    block: usize,
    pub width: usize,
    pub columns: [isize; 4],
}

impl Chunks {
    /// Chunks over these dimensions; with `columns`, the last dimension is inside a chunk.
    pub fn new(mut dims: Vec<(usize, [isize; 4])>, base: [isize; 4], columns: bool) -> Chunks {
        let (width, strides) = if columns { dims.pop().unwrap_or((1, [0; 4])) } else { (1, [0; 4]) };
        Chunks { dims, base, block: width.min(TUNABLES.max_scatter_columns.size()), width, columns: strides }
    }

    /// Number of chunks.
    pub fn count(&self) -> usize {
        self.dims.iter().map(|d| d.0).product::<usize>() * self.width.div_ceil(self.block.max(1))
    }

    /// Positions of a chunk's first elements, and its number of columns.
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

/// Checks that an operand holds all elements that a geometry reaches in it, `along` of them along the axis; returns its
/// address.
///
/// # Panics
/// If it does not.
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

/// # Panics
/// If the operand written overlaps the operand read.
pub fn check_disjoint(written: &Buffer, read: &Buffer) {
    let (to, from) = (written.address() as usize, read.address() as usize);
    assert!(from >= to + written.bytes() || to >= from + read.bytes(), "the result of a scatter lies over an operand");
}

/// The first out-of-range index found, by chunk.
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

    /// Error of the launch, if an index was out of range.
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
