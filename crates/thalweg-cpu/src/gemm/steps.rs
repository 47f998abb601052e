//! Blocks of terms of a GEMM by kernels of tile registers (AMX), for schemes with [`Scheme::STEP`] above 1.
//!
//! In: a block of terms of some rows and columns. Out: their products, added to sums in the task's memory, which has
//! space for whole rectangles of tiles. Rows of A keep their terms contiguous: they are read in place, or copied to
//! rows that begin a cache line more than [`TERMS`] slots apart. Panels of B are those of other schemes, with zeros up
//! to a whole step. Always true: slots past the last term are 0 on both sides; elements outside the operands are not
//! read.

use super::blocking::{Blocking, Right};
use super::microkernels::TILE_SLOTS;
use super::pack::{self, Cuts};
use super::task::{SLACK, Task, TermBlock, blocks, store};
use super::{Block, Operand, Product, Result, Side, TERMS, scratch};
use crate::gemm_call::TileArgs;
use crate::number::{Number, PairTiles, Scheme, Wide};
use std::any::TypeId;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

/// Stride in slots between copied rows of A: a cache line more than the longest block of terms, so that the rows of a
/// tile do not fall into the same cache sets.
pub const ROW: usize = TERMS + SLACK + 16;

/// Number of slots for the copied rows of A of a task: of all blocks of terms if they are retained, else of one.
pub fn left_slots<T: Scheme>(b: &Blocking, rows: usize, groups: usize) -> usize {
    let blocks = if b.keeps_left { blocks(groups, T::STEP) } else { 1 };
    blocks * block_slots::<T>(rows)
}

fn block_slots<T: Scheme>(rows: usize) -> usize {
    rows.next_multiple_of(TILE_SLOTS) * ROW
}

/// Adds the products of one block of terms to a block of accumulators.
///
/// # Safety
/// As for `blocked::terms_of`; this thread holds tile registers.
pub unsafe fn terms_of<T: Scheme>(task: &Task<'_, T>, part: &TermBlock) {
    let (p, b, own) = (task.product, task.blocking, &task.own);
    let (rows, columns, terms) = (&task.rows, &part.columns, &part.terms);
    let size = size_of::<T::Slot>() as isize;
    let steps = terms.len().div_ceil(T::STEP);
    let cuts = Cuts::whole(rows.len(), p.kernels.rows);
    let panels = Cuts::whole(columns.len(), p.kernels.columns);
    let kept = if b.keeps_left { terms.start / TERMS * block_slots::<T>(rows.len()) } else { 0 };
    let left = own.left.wrapping_add(kept);
    // Rows of A in place, for tiles that have all their rows and terms there.
    let in_place = |row: usize, high: usize| match p.left.operand {
        Operand::Strided(l)
            if b.left_direct
                && l.term == 1
                && terms.len() == steps * T::STEP
                && terms.end * T::GROUP <= p.left.k
                && rows.start + row + high.next_multiple_of(TILE_SLOTS) <= p.m =>
        {
            let first = l.at(rows.start + row, terms.start * T::GROUP).cast::<u8>();
            Some((first, l.line * size_of::<T::Element>() as isize))
        }
        _ => None,
    };
    if part.fresh || b.left_direct {
        // All rows, or those of the last tile.
        let copied = |row: &usize| in_place(*row, p.kernels.rows.min(rows.len() - row)).is_none();
        if let Some(first) = (0..rows.len()).step_by(p.kernels.rows).find(copied) {
            // SAFETY: the caller's promise; there is space for the rows.
            unsafe {
                p.left.pack_rows(rows.start + first..rows.end, terms.clone(), left.wrapping_add(first * ROW).cast());
            }
        }
    }
    if b.right == Right::Own {
        // SAFETY: the caller's promise.
        unsafe { p.right.pack(columns.clone(), terms.clone(), panels, own.right.cast()) };
    }
    let lead = own.lead as isize * size;
    // Finished sums are stored tile by tile, while they are in the first-level cache.
    let store = match p.result {
        Result::Store(to) if terms.end == p.k => Some(to.get().cast::<T::Stored>()),
        _ => None,
    };
    let mut finished = Finished::<T::Sum>([const { MaybeUninit::uninit() }; TILE_SUMS]);
    let finished = finished.0.as_mut_ptr().cast::<T::Sum>();
    let tile = |row: usize, high: usize, column: usize, wide: usize| {
        let (right, right_term) = task.panel(part, column);
        let copied = || (left.wrapping_add(row * ROW).cast_const().cast::<u8>(), ROW as isize * size);
        let (left, left_row) = in_place(row, high).unwrap_or_else(copied);
        let sums = own.sums.wrapping_add(row * own.lead + column).cast::<u8>();
        let args = TileArgs {
            left,
            left_row,
            left_term: T::STEP as isize * size,
            right,
            right_term,
            terms: steps,
            from: if terms.start == 0 { ptr::null() } else { sums.cast_const() },
            from_row: lead,
            to: if store.is_some() { finished.cast() } else { sums },
            to_row: if store.is_some() { FINISHED_ROW as isize * size } else { lead },
            lanes: ptr::null(),
            bits: 0,
        };
        // SAFETY: the caller's promise; panels were packed, and so were the rows that are not read in place. Nobody else
        // writes these elements of c.
        unsafe {
            p.kernels.tile_registers(high, wide, &args);
            if let Some(to) = store {
                let (row, column) = (rows.start + row, columns.start + column);
                store_tile::<T>(p, finished, [high, wide], to, [row, column]);
            }
        }
    };
    // Rows of A come from the second-level cache for each panel: 12 % faster than panels for each tile of rows.
    for (column, wide) in (0..panels.count()).map(|number| panels.get(number)) {
        for (row, high) in (0..cuts.count()).map(|number| cuts.get(number)) {
            tile(row, high, column, wide);
        }
    }
}

/// Number of sums of a row of a finished tile: a cache line more than it has columns.
const FINISHED_ROW: usize = 32 + 16;
const TILE_SUMS: usize = 32 * FINISHED_ROW;

/// Finished sums of a rectangle of tile registers.
#[repr(align(64))]
struct Finished<W>([MaybeUninit<W>; TILE_SUMS]);

/// Stores the finished sums of a rectangle that begins at `[row, column]` of the product.
///
/// # Safety
/// The sums are readable, [`FINISHED_ROW`] to a row; the elements of c belong to this thread.
unsafe fn store_tile<T: Scheme>(
    p: &Product<'_, T>,
    sums: *const T::Sum,
    [rows, columns]: [usize; 2],
    to: *mut T::Stored,
    [row, column]: [usize; 2],
) {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        if p.swapped {
            let mut transposed = Finished::<T::Sum>([const { MaybeUninit::uninit() }; TILE_SUMS]);
            let transposed = transposed.0.as_mut_ptr().cast::<T::Sum>();
            pack::transpose(sums, FINISHED_ROW, [rows, columns], FINISHED_ROW, transposed);
            store_rows::<T>(transposed, [columns, rows], to.wrapping_add(column * p.m + row), p.m);
        } else {
            store_rows::<T>(sums, [rows, columns], to.wrapping_add(row * p.n + column), p.n);
        }
    }
}

/// Stores rows of finished sums to elements of c, whose rows are `lead` elements apart.
///
/// # Safety
/// As for [`store_tile`].
unsafe fn store_rows<T: Scheme>(sums: *const T::Sum, [rows, columns]: [usize; 2], to: *mut T::Stored, lead: usize) {
    // SAFETY: the caller's promise; sums of tile registers are never subnormal.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if TypeId::of::<T>() == TypeId::of::<PairTiles>() && x86::rounds() {
            return x86::round_rows(sums.cast(), [rows, columns], to.cast(), lead);
        }
        for row in 0..rows {
            store::<T>(sums.wrapping_add(row * FINISHED_ROW), to.wrapping_add(row * lead), columns);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::FINISHED_ROW;
    use std::arch::x86_64::*;

    /// Whether the machine has `vcvtneps2bf16`.
    pub fn rounds() -> bool {
        is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw")
    }

    /// Rounds rows of up to 32 f32 to bf16, to nearest even. Subnormals become 0.
    ///
    /// # Safety
    /// As for `store_tile`, and the machine has the instructions ([`rounds`]).
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub unsafe fn round_rows(sums: *const f32, [rows, columns]: [usize; 2], to: *mut u16, lead: usize) {
        let mask = (u64::MAX >> (64 - columns)) as u32;
        for row in 0..rows {
            let (from, to) = (sums.wrapping_add(row * FINISHED_ROW), to.wrapping_add(row * lead));
            // SAFETY: the caller's promise: 32 sums of a row are readable, and its first elements writable.
            unsafe {
                let rounded = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from.add(16)), _mm512_loadu_ps(from));
                _mm512_mask_storeu_epi16(to.cast(), mask, std::mem::transmute::<__m512bh, __m512i>(rounded));
            }
        }
    }
}

impl<T: Scheme> Side<'_, T> {
    /// Copies lines × groups of terms to rows of slots, [`ROW`] apart, with zeros up to a whole step.
    ///
    /// # Safety
    /// The rectangle is inside the factor; there is space for the rows.
    pub(super) unsafe fn pack_rows(&self, lines: Range<usize>, groups: Range<usize>, to: *mut T::Slot) {
        let (terms, count) = (self.terms(&groups), lines.len());
        let whole = groups.len().next_multiple_of(self.step);
        // SAFETY: the caller's promise, here and below.
        unsafe {
            match self.operand {
                Operand::Strided(from) if from.term == 1 => {
                    let from = from.from(lines.start, terms.start);
                    for line in 0..count {
                        let to = to.wrapping_add(line * ROW).cast::<T::Element>();
                        to.copy_from_nonoverlapping(from.at(line, 0), terms.len());
                    }
                    fill::<T>(count, terms.len()..whole * T::GROUP, to);
                }
                Operand::Computed { write, batch, terms_last: true, grid: None } => {
                    let used = terms.len();
                    write(Block { batch, lines, terms }, to.cast(), ROW * T::GROUP);
                    fill::<T>(count, used..whole * T::GROUP, to);
                }
                _ => {
                    const LINES: usize = 32;
                    let cuts = Cuts::whole(count, LINES);
                    scratch::with(
                        scratch::Use::Transposed,
                        cuts.count() * LINES * whole * size_of::<T::Slot>(),
                        |panels| {
                            let panels = panels.cast::<T::Slot>();
                            self.pack(lines, groups, cuts, panels);
                            for panel in 0..cuts.count() {
                                let (line, lines) = cuts.get(panel);
                                let panel = panels.wrapping_add(panel * LINES * whole);
                                pack::transpose(
                                    panel.cast_const(),
                                    LINES,
                                    [whole, lines],
                                    ROW,
                                    to.wrapping_add(line * ROW),
                                );
                            }
                        },
                    );
                }
            }
        }
    }
}

/// Writes zeros to a range of elements of each of `count` rows.
///
/// # Safety
/// There is space for the elements.
unsafe fn fill<T: Scheme>(count: usize, range: Range<usize>, to: *mut T::Slot) {
    let zero = T::Element::narrow(Wide::ZERO);
    for (line, element) in (0..count).flat_map(|line| range.clone().map(move |element| (line, element))) {
        // SAFETY: the caller's promise.
        unsafe { to.wrapping_add(line * ROW).cast::<T::Element>().add(element).write(zero) };
    }
}
