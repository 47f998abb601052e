//! Operands that lie across a row: elements brought together for some runs at a time.
//!
//! In `(x * x.t()).sum(..)` the transpose is read down a column of memory, a cache line for each element, and the line is
//! gone before the next run takes its neighbour from it. So where the runs of a row are one element apart, a thread
//! copies what as many runs read as a line has elements, a block of each, into a *panel* whose rows are these runs.
//!
//! In: an access of a row geometry, a block of it. Out: where the block's elements lie side by side. Always true: they
//! are the operand's, so bits do not change; a panel is of one launch, whose body stores nothing point by point.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_kernel::order::BLOCK;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Blocks of a run, at most: a panel for each stays in the second-level cache.
const MOST_BLOCKS: usize = 4;
/// Elements between the rows of a panel: rows that are a power of two apart would share sets of the caches.
const GAP: usize = 16;

/// The number of a launch, by which threads know that their panels are of another one.
pub fn launch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Runs of a panel of elements of so many bytes.
pub fn runs(unit: i64) -> usize {
    LINE / unit as usize
}

/// Whether panels pay for an operand with elements of `unit` bytes, `point` apart in a run and `run` from run to run, of
/// `runs` runs of `n` points.
pub fn pay([unit, point, run]: [i64; 3], [many, n]: [usize; 2]) -> bool {
    let across = point.unsigned_abs() as usize >= LINE && run == unit;
    across && many >= runs(unit) && n >= LINE && n.div_ceil(BLOCK) <= MOST_BLOCKS
}

/// Which runs of which row of which access, and which block of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub launch: u64,
    pub access: usize,
    pub row: usize,
    pub first_run: usize,
    /// First point of the block.
    pub start: usize,
}

/// Where the elements lie.
#[derive(Clone, Copy)]
pub struct Source {
    /// Address of the first.
    pub from: i64,
    /// Bytes of an element.
    pub unit: i64,
    /// Bytes from point to point.
    pub point: i64,
    /// Runs that there are, and points of them.
    pub sizes: [usize; 2],
}

#[derive(Default)]
struct Panel {
    key: Option<Key>,
    memory: Vec<u64>,
}

/// The panels of one thread.
#[derive(Default)]
pub struct Panels(Vec<Panel>);

impl Panels {
    /// Where the elements of the run of that number in a panel lie side by side.
    ///
    /// # Safety
    /// All elements of the source can be read.
    pub unsafe fn of(&mut self, key: Key, source: Source, inside: usize) -> u64 {
        let (unit, [count, len]) = (source.unit as usize, source.sizes);
        let place = key.access * MOST_BLOCKS + key.start / BLOCK;
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
            // SAFETY: the caller's promise; there is room for as many rows as a line has elements.
            unsafe { fill(source.from as *const u8, source.point as isize, unit, [count, len, pitch], to) };
            panel.key = Some(key);
        }
        panel.memory.as_ptr() as u64 + (inside * pitch * unit) as u64
    }
}

/// Copies `n` stretches of `count` elements, `step` bytes apart, as the columns of rows that are `pitch` apart.
///
/// # Safety
/// The elements can be read, and there is room for the rows.
unsafe fn fill(from: *const u8, step: isize, unit: usize, [count, n, pitch]: [usize; 3], to: *mut u8) {
    /// # Safety
    /// As of `fill`; `count` is `N` or fewer.
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
