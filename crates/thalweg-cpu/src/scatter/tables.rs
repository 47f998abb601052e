//! Privatised scatters: many values for few elements, such as counts, sums by class, histograms.
//!
//! In: a scatter of a vector into a vector. Out: the same result, combined from private tables, which each thread fills
//! for its range of the values. Only combinations that are exact in any order qualify - integers and bools - so the
//! bits are those of a sequential scatter, for any number of threads. A thread alternates between several tables if
//! they are small: two adjacent values for one element would make the second wait for the first one's store.

use super::chunks::Outside;
use crate::simd::Shared;
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use std::ops::Range;
use thalweg_kernel::ScatterGeometry;

/// Number of tables per thread, if tables are small.
const TURNS: usize = 4;

/// Whether a scatter of elements of `size` bytes, with an exact combination, uses tables.
pub fn pays(g: &ScatterGeometry, size: usize) -> bool {
    let vector = g.outer.iter().chain(&g.inner).all(|d| d.0 == 1);
    vector
        && g.size > 0
        && TUNABLES.max_table_bytes.admits(g.size * size)
        && TUNABLES.min_table_values.reached_by(g.n / (TURNS * g.size))
}

/// A combination of two values that is exact in any order, and its identity.
#[derive(Clone, Copy)]
pub struct Combination<T, F> {
    pub identity: T,
    pub with: F,
}

/// Scatters values through tables, and combines the tables into the result. The three addresses do not include the
/// geometry's base offsets.
///
/// # Safety
/// Every position of the geometry was checked, the result does not overlap what is read, and [`pays`] returned true.
pub unsafe fn put<T: Copy + Send + Sync, F: Fn(T, T) -> T + Copy + Sync>(
    g: &ScatterGeometry,
    [index, values, to]: [Shared<u8>; 3],
    (threads, estimate): (&Threads, f64),
    outside: &Outside,
    Combination { identity, with }: Combination<T, F>,
) {
    let parts = threads.for_work(estimate);
    let turns = if TUNABLES.max_several_tables.admits(g.size * size_of::<T>() * TURNS) { TURNS } else { 1 };
    let [_, index_step, value_step, step] = g.steps;
    let length = g.n.div_ceil(parts).next_multiple_of(TURNS);
    // Each thread's tables, padded by an unused cache line.
    let pitch = g.size * turns + 64;
    let mut tables = vec![identity; pitch * parts];
    let places = Shared(tables.as_mut_ptr());
    threads.run(parts, 1, estimate, |range| {
        for part in range {
            let (start, end) = ((part * length).min(g.n), ((part + 1) * length).min(g.n));
            // SAFETY: inside the tables; only this thread has this range.
            let own = unsafe { std::slice::from_raw_parts_mut(places.get().add(part * pitch), g.size * turns) };
            let index = index.get().cast::<i64>().wrapping_offset(g.base[1]);
            let values = values.get().cast::<T>().wrapping_offset(g.base[2]);
            // SAFETY: the caller checked these positions.
            let place = |k: usize| unsafe { index.offset(k as isize * index_step).read() };
            // SAFETY: as above.
            let value = |k: usize| unsafe { values.offset(k as isize * value_step).read() };
            let sizes = (g.size, turns);
            // The most common strides have their own loop.
            match (index_step, value_step) {
                (1, 0) if start < end => {
                    let one = value(0);
                    // SAFETY: as above.
                    let index = unsafe { std::slice::from_raw_parts(index, end) };
                    fill(own, sizes, start..end, (|k| index[k], |_| one), with, outside);
                }
                _ => fill(own, sizes, start..end, (place, value), with, outside),
            }
        }
    });
    let to = to.get().cast::<T>().wrapping_offset(g.base[3]);
    for i in 0..g.size {
        let mut sum = identity;
        for part in 0..parts {
            for turn in 0..turns {
                sum = with(sum, tables[part * pitch + turn * g.size + i]);
            }
        }
        // SAFETY: the caller checked the position; the threads have finished.
        unsafe {
            let to = to.offset(i as isize * step);
            to.write(with(to.read(), sum));
        }
    }
}

/// Scatters a range of values into tables of `size` elements, alternating between the tables.
#[inline(always)]
fn fill<T: Copy>(
    tables: &mut [T],
    (size, turns): (usize, usize),
    range: Range<usize>,
    (place, value): (impl Fn(usize) -> i64, impl Fn(usize) -> T),
    with: impl Fn(T, T) -> T,
    outside: &Outside,
) {
    let mut put = |k: usize, turn: usize| {
        let i = place(k);
        if i as u64 >= size as u64 {
            // A scatter of a vector has only chunk 0.
            return outside.note(0, i);
        }
        let at = &mut tables[turn * size + i as usize];
        *at = with(*at, value(k));
    };
    let Range { start, end } = range;
    let whole = if turns == TURNS { start + (end - start) / TURNS * TURNS } else { start };
    for k in (start..whole).step_by(TURNS) {
        put(k, 0);
        put(k + 1, 1);
        put(k + 2, 2);
        put(k + 3, 3);
    }
    (whole..end).for_each(|k| put(k, 0));
}
