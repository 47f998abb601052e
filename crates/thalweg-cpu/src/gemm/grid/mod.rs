//! Operands in memory whose lines and terms have several dimensions: the windows of a convolution (implicit GEMM), or
//! axes that a product has merged.
//!
//! In: sizes and strides of the lines and of the terms, both outermost first, and limits outside of which every element
//! has the same value (the border of an image). Out: panels like those of `pack`, copied in runs of adjacent lines
//! (`panel`), or gathered line by line in runs of adjacent terms, then transposed (`rows`). Unlike an operand computed
//! by a body, a grid is packed directly, without an intermediate block. Always true: values are preserved (widening is
//! exact), and only elements of the operand are read.

mod masked;
mod panel;
mod rows;
mod terms;
#[cfg(test)]
mod tests;

use super::pack::{self, Cuts, Strided};
use super::scratch;
use crate::number::{Number, Scheme};
use crate::simd::Shared;
use crate::tunable::TUNABLES;
use masked::Form;
use panel::Panel;
use rows::Rows;
use std::ops::Range;
use terms::{Terms, inner};
use thalweg_ir::DType;

/// Memory layout of a matrix operand that a body only copies. Strides are in elements.
#[derive(Debug)]
pub struct Grid {
    /// Dtype of the elements in memory. Packing may convert them.
    pub dtype: DType,
    /// Address of the first element of each product of the batch (a virtual one if that element is outside).
    pub first: Vec<*const u8>,
    /// Size and stride of each dimension of the lines, outermost first.
    pub lines: Vec<(usize, isize)>,
    /// Size and stride of each dimension of the terms, outermost first.
    pub terms: Vec<(usize, isize)>,
    /// Limits that the elements in memory satisfy (an image's height and width); at most [`thalweg_ir::MAX_RANK`].
    pub limits: Vec<Limit>,
    /// Value of the elements outside a limit (the padding), in the form of [`thalweg_ir::Scalar::to_bits`].
    pub outside: u64,
}

/// Valid range of a coordinate that is linear in line and term indices, such as the image row of a window's element.
#[derive(Debug)]
pub struct Limit {
    /// Value of the coordinate at the first element (line 0, term 0) of each product of the batch.
    pub first: Vec<i64>,
    /// Step of the coordinate for each dimension of the lines.
    pub lines: Vec<i64>,
    /// Step of the coordinate for each dimension of the terms.
    pub terms: Vec<i64>,
    /// Valid range `lo..hi` of the coordinate.
    pub valid: (i64, i64),
}

// SAFETY: its addresses are only read, as the constructor of a contraction promises.
unsafe impl Sync for Grid {}

/// Matrix operand of one product of the batch.
#[derive(Clone, Copy)]
pub struct At<'a, T> {
    grid: &'a Grid,
    product: usize,
    first: Shared<T>,
}

impl Grid {
    /// Whether panels are transposed from runs of terms instead of copied from runs of lines: if runs of lines are
    /// shorter, or lines are apart, or so many taps (the windows of a weight's gradient) would determine the masks.
    fn packs_rows<S: Scheme>(&self) -> bool {
        let (lines, terms) = (inner(&self.lines), inner(&self.terms));
        let masked = Form::of::<S>(lines.1).is_some() && TUNABLES.max_masked_taps.admits(self.taps());
        let lines_run = (masked || lines.1 == 1) && (lines.0 >= terms.0 || TUNABLES.min_line_run.reached_by(lines.0));
        !lines_run && terms.0 > 1 && (terms.1.unsigned_abs() <= 2 || !masked)
    }

    /// Number of taps: the period, in terms, after which the steps that terms add to the limits' coordinates repeat (9
    /// for a 3×3 window whose channels are the outermost dimension of the terms).
    fn taps(&self) -> usize {
        let moves = |d: &usize| self.limits.iter().any(|l| l.terms[*d] != 0);
        let first = (0..self.terms.len()).find(moves).unwrap_or(self.terms.len());
        self.terms[first..].iter().map(|d| d.0).product()
    }

    /// Strides between lines and between terms; `None` if either does not merge into one dimension, or the grid has
    /// limits.
    pub fn strides(&self) -> Option<[isize; 2]> {
        let both = [merged(&self.lines)?, merged(&self.terms)?];
        self.limits.is_empty().then_some(both)
    }

    /// Selects the matrix operand of product `batch`.
    pub fn of_product<T>(&self, batch: usize) -> At<'_, T> {
        At { grid: self, product: batch, first: Shared(self.first[batch].cast::<T>().cast_mut()) }
    }
}

/// The single stride of these dimensions, if they merge into one.
fn merged(dims: &[(usize, isize)]) -> Option<isize> {
    let mut dims = dims.iter().filter(|d| d.0 != 1).rev();
    let &(mut size, step) = dims.next().unwrap_or(&(1, 0));
    for &(outer, stride) in dims {
        if stride != step * size as isize {
            return None;
        }
        size *= outer;
    }
    Some(step)
}

impl<T: Copy> At<'_, T> {
    /// Matrix operand as a strided matrix, by [`Grid::strides`]; `None` if it has limits or several strides.
    pub fn strided(self) -> Option<Strided<T>> {
        self.grid.strides().map(|[line, term]| Strided { first: self.first, line, term })
    }
}

impl<T: Number> At<'_, T> {
    /// Packs a rectangle of lines × terms into panels of slots, with zeros up to whole groups and steps of
    /// `step` groups of terms.
    ///
    /// # Safety
    /// The rectangle is inside the factor, whose elements are readable; it begins at a whole group of terms; `to` has
    /// space for the panels.
    pub unsafe fn pack<S: Scheme<Element = T>>(
        self,
        lines: Range<usize>,
        terms: Range<usize>,
        cuts: Cuts,
        step: usize,
        to: *mut S::Slot,
    ) {
        let groups = terms.len().div_ceil(S::GROUP);
        let slots = groups.next_multiple_of(step) * cuts.most();
        let panels = (0..cuts.count()).map(|number| {
            let (start, width) = cuts.get(number);
            let start = lines.start + start;
            (start..start + width, to.wrapping_add(number * slots))
        });
        // SAFETY: the caller's promise, for each panel.
        unsafe {
            if self.grid.packs_rows::<S>() {
                let rows = Rows::new(self, terms);
                scratch::with(scratch::Use::Rows, rows.staging(cuts.most()) * size_of::<T>(), |staging| {
                    for (lines, to) in panels {
                        rows.fill::<S>(lines, cuts.most(), staging.cast(), to);
                        pack::pad(groups, cuts.most(), step, to);
                    }
                });
            } else {
                let terms = Terms::new(self.grid, terms);
                let mut panel = Panel::new::<S>(self, &terms, cuts.most());
                for (lines, to) in panels {
                    panel.fill::<S>(lines, to);
                    pack::pad(groups, cuts.most(), step, to);
                }
            }
        }
    }
}
