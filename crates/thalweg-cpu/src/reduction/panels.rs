//! Panels for transposed operands of rows: elements are packed for several runs at a time.
//!
//! In `(x * x.t()).sum(..)` the transpose is read down a column of memory, one cache line per element, and the line is
//! evicted before the next run reads its neighbour. So if the runs of a row are one element apart, a thread packs a
//! block of as many runs as a cache line has elements into a *panel*, whose rows are these runs.
//!
//! In: an access of a row geometry, and a block of it. Out: the address of the block's contiguous elements. Always
//! true: elements are copied unchanged, so bits do not change; a panel belongs to one launch, whose body stores nothing
//! point by point.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_kernel::order::BLOCK;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Maximum number of blocks of a run for which panels are used: the panels of all blocks stay in the second-level
/// cache.
const MAX_BLOCKS: usize = 4;
/// Padding in elements between the rows of a panel: rows a power of two apart would share cache sets.
const GAP: usize = 16;

/// Returns a unique launch number, by which threads recognise panels of earlier launches.
pub fn launch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Number of runs in a panel, for elements of `unit` bytes: as many as a cache line has elements.
pub fn runs(unit: i64) -> usize {
    LINE / unit as usize
}

/// Whether panels pay off for an operand of `unit`-byte elements, with byte strides `point` between points and `run`
/// between runs, for `many` runs of `n` points.
pub fn pay([unit, point, run]: [i64; 3], [many, n]: [usize; 2]) -> bool {
    let across = point.unsigned_abs() as usize >= LINE && run == unit;
    across && many >= runs(unit) && n >= LINE && n.div_ceil(BLOCK) <= MAX_BLOCKS
}

/// Identity of a panel: launch, access, row, first run and block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub launch: u64,
    pub access: usize,
    pub row: usize,
    pub first_run: usize,
    /// Offset in its run of the block's first point.
    pub start: usize,
}

/// Location and layout of the elements that a panel is packed from.
#[derive(Clone, Copy)]
pub struct Source {
    /// Address of the first element.
    pub from: i64,
    /// Bytes of an element.
    pub unit: i64,
    /// Stride between points, in bytes.
    pub point: i64,
    /// Number of runs, and points per run.
    pub sizes: [usize; 2],
}

#[derive(Default)]
struct Panel {
    key: Option<Key>,
    memory: Vec<u64>,
}

/// The panels that a thread caches.
#[derive(Default)]
pub struct Panels(Vec<Panel>);

impl Panels {
    /// Returns the address of the contiguous elements of run `inside` of a panel; fills the panel if needed.
    ///
    /// # Safety
    /// All elements of the source are readable.
    pub unsafe fn of(&mut self, key: Key, source: Source, inside: usize) -> u64 {
        let (unit, [count, len]) = (source.unit as usize, source.sizes);
        let place = key.access * MAX_BLOCKS + key.start / BLOCK;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Panel::default);
        }
        let panel = &mut self.0[place];
        let pitch = (len + GAP).next_multiple_of(8);
        if panel.key != Some(key) {
            panel.key = None;
            let words = (runs(source.unit) * pitch * unit).div_ceil(8);
            if panel.memory.len() < words {
                panel.memory.resize(words, 0);
            }
            let to = panel.memory.as_mut_ptr().cast::<u8>();
            // SAFETY: the caller's promise; there is space for as many rows as a cache line has elements.
            unsafe { fill(source.from as *const u8, source.point as isize, unit, [count, len, pitch], to) };
            panel.key = Some(key);
        }
        panel.memory.as_ptr() as u64 + (inside * pitch * unit) as u64
    }
}

/// Transposes `n` groups of `count` contiguous elements, `step` bytes apart, into rows that are `pitch` elements apart.
///
/// # Safety
/// The elements are readable, and there is space for the rows.
unsafe fn fill(from: *const u8, step: isize, unit: usize, [count, n, pitch]: [usize; 3], to: *mut u8) {
    /// Transposes groups of elements of type `T`; the loop over a group is unrolled if `count` is `N`.
    ///
    /// # Safety
    /// As for `fill`; `count` is at most `N`.
    unsafe fn each<T: Copy, const N: usize>(from: *const u8, step: isize, [count, n, pitch]: [usize; 3], to: *mut T) {
        // SAFETY: the caller's promise.
        unsafe {
            for j in 0..n {
                let line = from.offset(j as isize * step).cast::<T>();
                if count == N {
                    (0..N).for_each(|q| to.add(q * pitch + j).write(line.add(q).read_unaligned()));
                } else {
                    (0..count).for_each(|q| to.add(q * pitch + j).write(line.add(q).read_unaligned()));
                }
            }
        }
    }
    let sizes = [count, n, pitch];
    // SAFETY: the caller's promise.
    unsafe {
        match unit {
            1 => each::<u8, 64>(from, step, sizes, to),
            2 => each::<u16, 32>(from, step, sizes, to.cast()),
            4 => each::<u32, 16>(from, step, sizes, to.cast()),
            _ => each::<u64, 8>(from, step, sizes, to.cast()),
        }
    }
}
