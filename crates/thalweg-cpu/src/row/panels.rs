//! Operands that lie across a row: elements brought together for some runs at a time.
//!
//! In `(x * x.t()).sum(..)` the transpose is read down a column of memory, a cache line for each element, and the line is
//! gone before the next run takes its neighbour from it. So where the runs of a row are one element apart, a thread
//! copies what as many runs read as a line has elements, a block of each, into a *panel* whose rows are these runs.
//!
//! In: an access of a row geometry, a block of it. Out: where the block's elements lie side by side. Always true: they
//! are the operand's, so bits do not change; a panel is of one launch, whose body stores nothing point by point.

use super::layout::{Block, Layout, Line};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_kernel::order::BLOCK;
use thalweg_kernel::{AccessClass, Body};

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

/// Whether an access is brought together in panels.
pub fn wants(body: &Body, number: usize, layout: &Layout<'_>, line: &Line<'_>) -> bool {
    let at_points = body.stores.iter().any(|s| !body.accesses[s.access as usize].per_row || s.combine.is_some());
    let Some((&runs, step)) = layout.runs.last().zip(layout.runs.len().checked_sub(1).map(|d| line.runs[d])) else {
        return false;
    };
    let access = &body.accesses[number];
    let loaded = access.operand.is_some() && !access.per_row && body.stores.iter().all(|s| s.access as usize != number);
    let across = access.class == AccessClass::Strided && line.point.unsigned_abs() as usize >= LINE;
    loaded
        && across
        && !at_points
        && line.map.is_none()
        && line.bounds() == 0
        && step == line.unit
        && runs >= LINE / line.unit as usize
        && layout.n >= LINE
        && layout.n.div_ceil(BLOCK) <= MOST_BLOCKS
}

/// Blocks that share a panel, and so belong to one thread.
pub fn blocks(layout: &Layout<'_>, unit: i64) -> usize {
    LINE / unit as usize * layout.n.div_ceil(BLOCK)
}

/// Which runs of which row, and which block of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    launch: u64,
    line: usize,
    row: usize,
    first_run: usize,
    start: usize,
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
    /// Where the elements of a block of an access lie side by side.
    ///
    /// # Safety
    /// The launch's geometry was checked: every point of the domain is inside the operand.
    pub unsafe fn of(
        &mut self,
        launch: u64,
        layout: &Layout<'_>,
        (number, line): (usize, &Line<'_>),
        (row, block): (usize, Block),
    ) -> u64 {
        let (unit, runs) = (line.unit as usize, *layout.runs.last().expect("a row of runs"));
        let most = LINE / unit;
        let inside = block.run % runs % most;
        let first_run = block.run - inside;
        let count = most.min(runs - first_run % runs);
        let place = number * MOST_BLOCKS + block.start / BLOCK;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Panel::default);
        }
        let panel = &mut self.0[place];
        let key = Key { launch, line: number, row, first_run, start: block.start };
        let pitch = (block.len + GAP).next_multiple_of(8);
        if panel.key != Some(key) {
            panel.key = None;
            let words = (most * pitch * unit).div_ceil(8);
            if panel.memory.len() < words {
                panel.memory.resize(words, 0);
            }
            let from = line.start + layout.to_row(line, row) + layout.to_point(line, Block { run: first_run, ..block });
            let to = panel.memory.as_mut_ptr().cast::<u8>();
            // SAFETY: the caller's promise, of `count` runs that the domain has; there is room for so many rows.
            unsafe { fill(from as *const u8, line.point as isize, unit, [count, block.len, pitch], to) };
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
