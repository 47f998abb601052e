//! Blocked GEMM: products of several rows and columns.
//!
//! In: a product and its block sizes from `blocking`. Out: sums. A task owns a block of rows and some columns, and
//! carries their sums through all of K: in registers within a block of terms, in its own memory between blocks. So a
//! result is written once, and tiles are passed to the epilogue on the thread that computed them. Terms are counted in
//! groups ([`Scheme::GROUP`]). Panels of B are packed for all tasks first, unless there is only one block of rows, or B
//! is small enough to be read in place.

use super::blocking::{Blocking, Right, Sizes, blocking, even};
use super::pack::Cuts;
use super::task::{Own, Panels, Task, TermBlock, block, blocks, longest, store};
use super::{Operand, Product, Result, Side, groups, pack, padded, scratch, steps};
use crate::gemm_call::TileArgs;
use crate::number::Scheme;
use crate::simd::Shared;
use crate::threads::Threads;
use std::ops::Range;
use std::ptr;

/// Number of columns of a chunk of B (by one block of terms), the unit in which threads pack B for all tasks.
const PACKED_COLUMNS: usize = 128;

/// Runs a product of several rows and columns.
///
/// # Safety
/// The promises of [`super::Gemm`] hold.
pub unsafe fn run<T: Scheme>(p: &Product<'_, T>, threads: &Threads) {
    let b = blocking(&sizes(p, threads.for_work(p.ns)));
    let Right::Shared(together) = b.right else {
        let none = Panels { of: 0..p.n, k: p.k, first: Shared(ptr::null_mut()) };
        // SAFETY: the caller's promise.
        unsafe { tasks(p, &b, 0..p.n, &none, threads, p.ns) };
        return;
    };
    if let Operand::Packed { first, n, k } = p.right.operand {
        debug_assert!(
            p.right.k == k || p.right.k.is_multiple_of(T::GROUP * T::STEP),
            "part of a group of packed terms"
        );
        let panels = Panels { of: 0..n, k: groups::<T>(k), first: Shared(first.get().cast()) };
        // SAFETY: the caller's promise.
        return unsafe { tasks(p, &b, 0..p.n, &panels, threads, p.ns) };
    }
    let panel = p.kernels.columns;
    scratch::with(scratch::Use::Shared, together * padded::<T>(p.k.max(1)) * size_of::<T::Slot>(), |packed| {
        let packed = Shared(packed.cast::<T::Slot>());
        for first in (0..p.n).step_by(together) {
            let columns = first..(first + together).min(p.n);
            let ns = p.ns * columns.len() as f64 / p.n as f64;
            threads.run(parts(columns.len(), p.k, T::STEP), 1, ns, |range| {
                for number in range {
                    // SAFETY: the caller's promise; the buffer has space for all panels.
                    unsafe { pack_part(&p.right, columns.clone(), panel, number, packed.get().cast()) };
                }
            });
            let panels = Panels { of: columns.clone(), k: p.k, first: packed };
            // SAFETY: the caller's promise; these are the panels of the columns.
            unsafe { tasks(p, &b, columns, &panels, threads, ns) };
        }
    });
}

/// Number of chunks in which `columns` columns of B, of `k` groups of terms, are packed.
pub fn parts(columns: usize, k: usize, step: usize) -> usize {
    columns.div_ceil(PACKED_COLUMNS) * blocks(k, step)
}

/// Packs chunk `number` of some columns of B at its offset among their panels. All panels of one block of terms precede
/// those of the next block.
///
/// # Safety
/// The promises of [`super::Gemm`] hold for the factor; there is space for all panels at `to`, and nobody else
/// writes this chunk.
pub unsafe fn pack_part<T: Scheme>(
    right: &Side<'_, T>,
    columns: Range<usize>,
    panel: usize,
    number: usize,
    to: *mut T::Slot,
) {
    let k = groups::<T>(right.k);
    let blocks = blocks(k, right.step);
    let terms = block(k, right.step, number % blocks);
    let start = number / blocks * PACKED_COLUMNS;
    let lines = columns.start + start..(columns.start + start + PACKED_COLUMNS).min(columns.end);
    let cuts = Cuts::whole(lines.len(), panel);
    let at = terms.start * columns.len().next_multiple_of(panel) + start * terms.len().next_multiple_of(right.step);
    // SAFETY: the caller's promise.
    unsafe { right.pack(lines, terms, cuts, to.wrapping_add(at)) };
}

/// Collects the inputs of [`blocking`] for a product.
fn sizes<T: Scheme>(p: &Product<'_, T>, threads: usize) -> Sizes {
    Sizes {
        m: p.m,
        n: p.n,
        k: p.k,
        size: size_of::<T::Slot>(),
        tile: [p.kernels.rows, p.kernels.columns],
        right_rows: p.right.contiguous_term_stride(),
        step: T::STEP,
        left_rows: match p.left.operand {
            Operand::Strided(l) if T::STEP > 1 => (l.term == 1).then(|| l.line * size_of::<T::Element>() as isize),
            _ => p.left.contiguous_line_stride().or_else(|| p.left.contiguous_term_stride()),
        },
        packed: matches!(p.right.operand, Operand::Packed { .. }),
        tiles: !T::CONSTANTS.stored_as_carried() || matches!(p.result, Result::Tiles { .. }),
        threads,
    }
}

/// Computes all rows of some columns. `shared` has the panels of these columns if they are packed for all tasks.
///
/// # Safety
/// The promises of [`super::Gemm`] hold.
unsafe fn tasks<T: Scheme>(
    p: &Product<'_, T>,
    b: &Blocking,
    columns: Range<usize>,
    shared: &Panels<T::Slot>,
    threads: &Threads,
    ns: f64,
) {
    let row_blocks = p.m.div_ceil(b.rows);
    let tile = [p.kernels.rows, p.kernels.columns];
    threads.run(row_blocks * b.groups, 1, ns, |range| {
        let _held = p.kernels.hold_tile_registers();
        for task in range {
            let rows = even(p.m, row_blocks, tile[0], task / b.groups);
            let own = even(columns.len(), b.groups, tile[1], task % b.groups);
            if rows.is_empty() || own.is_empty() {
                continue;
            }
            // SAFETY: the caller's promise; no two tasks have an element of c in common.
            unsafe { task_of(p, b, rows, columns.start + own.start..columns.start + own.end, shared) };
        }
    });
}

/// Runs one task: computes a rectangle of c over all terms, one block of columns after the other.
///
/// # Safety
/// The promises of [`super::Gemm`] hold for these elements of c.
unsafe fn task_of<T: Scheme>(
    p: &Product<'_, T>,
    b: &Blocking,
    rows: Range<usize>,
    columns: Range<usize>,
    shared: &Panels<T::Slot>,
) {
    let [tile_rows, tile_columns] = [p.kernels.rows, p.kernels.columns];
    // One cache line more than a power of two, so that rows do not fall into the same cache sets.
    let lead = b.columns.min(columns.len()).next_multiple_of(tile_columns) + 16;
    let kept = if b.keeps_left { p.k } else { longest(p.k, T::STEP) };
    let left = match b.left_direct {
        _ if T::STEP > 1 => steps::left_slots::<T>(b, rows.len(), p.k),
        true => 0,
        false => rows.len().next_multiple_of(tile_rows) * kept,
    };
    let right = if b.right == Right::Own { padded::<T>(longest(p.k, T::STEP)) * lead } else { 0 };
    // Tile registers also write rows past the last one.
    let elements = left + right + if T::STEP > 1 { rows.len().next_multiple_of(tile_rows) } else { rows.len() } * lead;
    scratch::with(scratch::Use::Own, (elements + 48) * size_of::<T::Slot>(), |memory| {
        let (left, right) = (left.next_multiple_of(16), right.next_multiple_of(16));
        let (first, first_column) = (memory.cast::<T::Slot>(), columns.start);
        let sums = first.wrapping_add(left + right).cast::<T::Sum>();
        let own = Own::<T> { left: first, right: first.wrapping_add(left), sums, lead };
        let amends: Vec<T::Sum> = if T::OFFSET { rows.clone().map(|row| p.amends(row)).collect() } else { vec![] };
        let task = Task { product: p, blocking: b, shared, own, rows };
        for start in (columns.start..columns.end).step_by(b.columns) {
            let columns = start..(start + b.columns).min(columns.end);
            let fresh = start == first_column || !b.keeps_left;
            // SAFETY: the caller's promise; the task's memory has the space counted above.
            unsafe {
                for (row, with) in amends.iter().enumerate() {
                    // Sums of such a scheme start from the correction.
                    std::slice::from_raw_parts_mut(sums.add(row * lead), columns.len()).fill(*with);
                }
                // The blocks of packed panels, of which a product may use the first terms.
                for terms in (0..blocks(shared.k, T::STEP)).map(|number| block(shared.k, T::STEP, number)) {
                    let terms = terms.start..terms.end.min(p.k);
                    if !terms.is_empty() {
                        let part = TermBlock { columns: columns.clone(), terms, fresh };
                        if T::IN_STEPS { steps::terms_of(&task, &part) } else { terms_of(&task, &part) }
                    }
                }
                finish(&task, &columns);
            }
        }
    });
}

/// Adds the products of one block of terms to a block of accumulators; packs the operands as the blocking says.
///
/// # Safety
/// As for [`task_of`]; blocks of terms come in order.
unsafe fn terms_of<T: Scheme>(task: &Task<'_, T>, part: &TermBlock) {
    let (p, b, own) = (task.product, task.blocking, &task.own);
    let (rows, columns, terms) = (&task.rows, &part.columns, &part.terms);
    let size = size_of::<T::Slot>() as isize;
    let [tile_rows, tile_columns] = [p.kernels.rows, p.kernels.columns];
    let cuts = Cuts::balanced(rows.len(), tile_rows);
    let panels = Cuts::whole(columns.len(), tile_columns);
    let kept = if b.keeps_left { terms.start * cuts.count() * tile_rows } else { 0 };
    let left = own.left.wrapping_add(kept);
    if !b.left_direct && part.fresh {
        // SAFETY: the caller's promise.
        unsafe { p.left.pack(rows.clone(), terms.clone(), cuts, left.cast()) };
    }
    if b.right == Right::Own {
        // SAFETY: the caller's promise.
        unsafe { p.right.pack(columns.clone(), terms.clone(), panels, own.right.cast()) };
    }
    let (last, lead) = (terms.end == p.k, own.lead as isize * size);
    let (to, to_row) = match p.result {
        Result::Store(to) if last && T::CONSTANTS.stored_as_carried() => {
            let row = p.n as isize * size;
            (to.get().wrapping_offset(rows.start as isize * row + columns.start as isize * size), row)
        }
        _ => (own.sums.cast::<u8>(), lead),
    };
    let from = if terms.start == 0 && !T::OFFSET { ptr::null() } else { own.sums.cast::<u8>().cast_const() };
    for panel in 0..panels.count() {
        let (column, wide) = panels.get(panel);
        let (right, right_term) = task.panel(part, column);
        for tile in 0..cuts.count() {
            let (row, high) = cuts.get(tile);
            let place =
                |base: *const u8, stride: isize| base.wrapping_offset(row as isize * stride + column as isize * size);
            let packed = left.wrapping_add(tile * tile_rows * terms.len());
            let (left, left_row, left_term) = match p.left.operand {
                Operand::Strided(l) if b.left_direct => {
                    let first = l.at(rows.start + row, terms.start * T::GROUP).cast::<u8>();
                    let element = size_of::<T::Element>() as isize;
                    // The stride between slots, if terms are contiguous.
                    (first, l.line * element, l.term * element * T::GROUP as isize)
                }
                _ => (packed.cast::<u8>().cast_const(), size, tile_rows as isize * size),
            };
            let mut args = TileArgs {
                left,
                left_row,
                left_term,
                right,
                right_term,
                terms: terms.len(),
                from: if from.is_null() { from } else { place(from, lead) },
                from_row: lead,
                to: place(to, to_row).cast_mut(),
                to_row,
                lanes: ptr::null(),
                bits: 0,
            };
            // SAFETY: the caller's promise; panels were packed, or are laid out as `blocking` assumes.
            unsafe { p.kernels.tile(high, wide, left_row != size, &mut args) };
        }
    }
}

/// Stores a finished block of accumulators, or passes it to the epilogue.
///
/// # Safety
/// As for [`task_of`].
unsafe fn finish<T: Scheme>(task: &Task<'_, T>, columns: &Range<usize>) {
    let (p, rows, own) = (task.product, &task.rows, &task.own);
    if p.k == 0 {
        for row in 0..rows.len() {
            // SAFETY: the task's memory has space for its rows; all-zero bytes are 0 in every type.
            unsafe { own.sums.wrapping_add(row * own.lead).write_bytes(0, columns.len()) };
        }
    }
    if p.swapped && matches!(p.result, Result::Tiles { .. }) {
        // Not a power of two between rows, as in `task_of`.
        let lead = rows.len().next_multiple_of(16) + 16;
        scratch::with(scratch::Use::Transposed, columns.len() * lead * size_of::<T::Sum>(), |room| {
            let sums = room.cast::<T::Sum>();
            // SAFETY: the caller's promise; the memory has space for the transposed sums.
            unsafe {
                pack::transpose(own.sums.cast_const(), own.lead, [rows.len(), columns.len()], lead, sums);
                hand_over(p, columns, rows, sums, lead);
            }
        });
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { hand_over(p, rows, columns, own.sums, own.lead) };
}

/// Stores a rectangle of finished sums of c, or passes it to the epilogue; rows are `lead` sums apart.
///
/// # Safety
/// As for [`task_of`]; the sums belong to this thread.
unsafe fn hand_over<T: Scheme>(
    p: &Product<'_, T>,
    rows: &Range<usize>,
    columns: &Range<usize>,
    sums: *mut T::Sum,
    lead: usize,
) {
    match p.result {
        // Stored by the kernels of the last block of terms.
        Result::Store(_) if (T::CONSTANTS.stored_as_carried() || T::STEP > 1) && p.k > 0 => {}
        Result::Store(to) => {
            for (row, at) in rows.clone().enumerate() {
                let to = to.get().cast::<T::Stored>().wrapping_add(at * p.n + columns.start);
                // SAFETY: the caller's promise; the sums of a row are contiguous.
                unsafe { store::<T>(sums.wrapping_add(row * lead), to, columns.len()) };
            }
        }
        // SAFETY: the sums are the task's.
        Result::Tiles { .. } => unsafe { p.result.tile::<T>(rows.clone(), columns.clone(), sums, lead) },
    }
}
