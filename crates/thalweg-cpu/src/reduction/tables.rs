//! Accesses of row kernels through index maps: position tables, and packed copies of elements.
//!
//! In: a mapped access, and points of the domain. Out: the argument words by which a call reads or writes the elements.
//! Loads without masks read packed copies; stores write packed copies, which are then unpacked to the operand. A table
//! is filled once for all later points at which positions repeat with a shift
//! ([`Positions::shift`](thalweg_kernel::Positions)), as they do from row to row.

use super::layout::{Line, Mapped};
use super::panels::Panels;
use crate::tables;

/// Position tables, packed copies and panels of one thread, by access.
#[derive(Default)]
pub struct Tables {
    positions: Vec<Vec<i32>>,
    /// Points whose positions each table holds; `None` if it is not filled.
    filled: Vec<Option<Filled>>,
    /// Packed copies of elements: of packed accesses, and of loads whose positions are too far apart for a table.
    copies: Vec<Vec<u64>>,
    /// Packed panels of transposed operands.
    pub panels: Panels,
}

impl Tables {
    /// Fills the table, or packs the copy, of access `number` for `n` points of the domain, from `first` on and `step`
    /// apart (`None`: the domain has no points). Returns argument words 0 and 3 of the access.
    pub fn fill(&mut self, number: usize, line: &Line<'_>, first: Option<usize>, step: usize, n: usize) -> (u64, u64) {
        let mapped = line.map.as_ref().expect("the access goes by a table");
        if self.positions.len() <= number {
            self.positions.resize(number + 1, vec![]);
            self.copies.resize(number + 1, vec![]);
            self.filled.resize(number + 1, None);
        }
        // At least one entry, for phases that run once over rows without points.
        if self.positions[number].len() < n.max(1) {
            self.positions[number].resize(n.max(1), 0);
        }
        let Some(first) = first else {
            self.filled[number] = None;
            let table = &mut self.positions[number];
            table.fill(-1);
            return (line.start as u64, table.as_ptr() as u64);
        };
        if let (true, Some((from, _))) = (mapped.packed && step == 1, mapped.operand) {
            let copy = &mut self.copies[number];
            copy.resize((n * line.unit as usize).div_ceil(8).max(copy.len()), 0);
            let to = copy.as_mut_ptr().cast::<u8>();
            // SAFETY: the copy has space for `n` elements; positions are checked against the operand.
            if !mapped.written && !unsafe { copy_strided_runs(mapped, (first, n), line.unit as usize, to) } {
                if mapped.wide {
                    // SAFETY: as above.
                    unsafe { one_by_one(mapped, (first, n), line.unit as usize, to) };
                } else {
                    let (at, moved) = self.positions_of(number, mapped, (first, n));
                    let (from, table) = (from.wrapping_offset((moved * line.unit) as isize), &self.positions[number]);
                    // SAFETY: as above.
                    unsafe { gather(from, &table[at..at + n], to, line.unit as usize) };
                }
            }
            return (to as u64, 0);
        }
        if step == 1 && !mapped.wide {
            let (at, moved) = self.positions_of(number, mapped, (first, n));
            let table = self.positions[number][at..].as_ptr();
            return (line.start.wrapping_add(moved.wrapping_mul(line.unit)) as u64, table as u64);
        }
        self.filled[number] = None;
        let table = &mut self.positions[number][..n];
        let position = |i: usize| mapped.map.position(first + i * step);
        let mut origin = 0;
        if mapped.wide {
            let (low, high) = (0..n).filter_map(position).fold((usize::MAX, 0), |(a, b), p| (a.min(p), b.max(p)));
            if low < high && high - low > i32::MAX as usize {
                // A block is folded as a whole, so it cannot be halved until its positions are close together.
                let (from, len) = mapped.operand.expect("wide maps have operands");
                let copy = &mut self.copies[number];
                copy.resize(n.max(copy.len()), 0);
                assert!(high < len, "a map leads to element {high} of an operand of {len}");
                for (i, entry) in table.iter_mut().enumerate() {
                    let at = position(i);
                    *entry = at.map_or(-1, |_| i as i32);
                    if let Some(p) = at {
                        let unit = line.unit as usize;
                        // SAFETY: the position is inside the operand, as just checked; the copy has a word for each
                        // point.
                        unsafe {
                            let to = copy.as_mut_ptr().cast::<u8>().add(i * unit);
                            std::ptr::copy_nonoverlapping(from.add(p * unit), to, unit);
                        }
                    }
                }
                return (copy.as_ptr() as u64, table.as_ptr() as u64);
            }
            origin = if low <= high { low as i64 } else { 0 };
        }
        if step == 1 {
            mapped.positions.fill(first, origin, table);
        } else {
            for (i, entry) in table.iter_mut().enumerate() {
                *entry = position(i).map_or(-1, |p| (p as i64 - origin) as i32);
            }
        }
        if let Some((_, len)) = mapped.operand {
            // Negative positions are masked out and never read.
            let highest = table.iter().copied().fold(-1, i32::max) as i64 + origin;
            assert!(
                highest < len as i64 || highest < origin,
                "a map leads to element {highest} of an operand of {len}"
            );
        }
        (line.start.wrapping_add(origin.wrapping_mul(line.unit)) as u64, table.as_ptr() as u64)
    }
}

impl Tables {
    /// Copies the elements that a call has written to the packed copy of access `number`, from point `first` of the
    /// domain on, to the operand.
    ///
    /// # Safety
    /// [`Tables::fill`] provided the call's address, for as many points; nobody else writes these elements of the
    /// operand.
    pub unsafe fn part(&self, number: usize, line: &Line<'_>, first: usize, n: usize) {
        let mapped = line.map.as_ref().expect("the access goes by a map");
        let (to, len) = mapped.operand.expect("what is written has an operand");
        let (from, unit) = (self.copies[number].as_ptr().cast::<u8>(), line.unit as usize);
        let parted = mapped.map.strided_runs(first, n, |at, p, step, run| {
            let end = p as i64 + step as i64 * (run as i64 - 1);
            assert!(p < len && (0..len as i64).contains(&end), "a map leads outside of an operand of {len}");
            // SAFETY: first and last element, and so all, are inside, as just checked; the call has written `n`.
            unsafe { scatter_strided(from.add(at * unit), to.cast_mut().add(p * unit), step, run, unit) };
        });
        assert!(parted, "what is written goes by a view");
    }
}

/// Number of points whose positions are computed at a time: rows of a few points read the tables of rows before them. A
/// row of 7 points took 300 ns an access where each row filled its own table.
const POINTS_AHEAD: usize = 1024;
/// Maximum number of points of such a row. Rows of 301 points took 5 % longer with tables for 1,024.
const MAX_SHORT: usize = 128;

/// Range of points whose positions a table contains (`start..start + n`), and the lowest and highest position.
#[derive(Clone, Copy)]
struct Filled {
    launch: u64,
    start: usize,
    n: usize,
    ends: (i64, i64),
}

impl Tables {
    /// Fills the table of access `number`, unless it can be reused, with the positions of `n` points from `first` on, and
    /// of points after them. Returns the index of the first point's entry, and the shift to add to entries. Checks that
    /// all positions are inside the operand.
    fn positions_of(&mut self, number: usize, mapped: &Mapped<'_>, (first, n): (usize, usize)) -> (usize, i64) {
        let inside = |f: &Filled| {
            let further = first as i64 - f.start as i64;
            let holds = |at: i64| (at >= 0 && at as usize + n <= f.n).then_some(at as usize);
            if let Some(at) = holds(further) {
                return Some((at, 0));
            }
            let (points, step) = mapped.shift.filter(|s| !mapped.numbers && s.0 <= i64::MAX as usize)?;
            let periods = further.div_euclid(points as i64);
            Some((holds(further - periods * points as i64)?, periods * step))
        };
        let known = self.filled[number].filter(|f| f.launch == mapped.launch);
        let known = known.and_then(|f| Some((f, inside(&f)?)));
        let (filled, (at, moved)) = known.unwrap_or_else(|| {
            // No more than a period: later points have its positions, shifted.
            let period = mapped.shift.filter(|_| !mapped.numbers).map_or(POINTS_AHEAD, |s| s.0);
            let ahead = if period <= n || n > MAX_SHORT { n } else { (period + n - 1).min(POINTS_AHEAD) };
            let count = ahead.min(mapped.map.shape().numel().saturating_sub(first)).max(n);
            let table = &mut self.positions[number];
            if table.len() < count {
                table.resize(count, 0);
            }
            let table = &mut table[..count];
            mapped.positions.fill(first, 0, table);
            (Filled { launch: mapped.launch, start: first, n: count, ends: tables::ends(table) }, (0, 0))
        });
        self.filled[number] = Some(filled);
        if let Some((_, len)) = mapped.operand {
            let (low, high) = filled.ends;
            let inside =
                low + moved >= 0 && high + moved < len as i64 || low > high || self.within(number, (at, n), moved, len);
            assert!(inside, "a map leads to elements {} to {} of an operand of {len}", low + moved, high + moved);
        }
        (at, moved)
    }

    /// Whether the positions of some entries of a table are inside an operand of `len` elements. Other entries, whose
    /// points come last in the domain, may be outside once they are shifted.
    fn within(&self, number: usize, (at, n): (usize, usize), moved: i64, len: usize) -> bool {
        let (low, high) = tables::ends(&self.positions[number][at..at + n]);
        low > high || low + moved >= 0 && high + moved < len as i64
    }
}

/// Packs the elements of `n` points from `first` on, one run of fixed stride at a time. Returns false if the map does
/// not consist of such runs.
///
/// # Safety
/// `to` has space for them.
unsafe fn copy_strided_runs(mapped: &Mapped<'_>, (first, n): (usize, usize), unit: usize, to: *mut u8) -> bool {
    let (from, len) = mapped.operand.expect("what is brought together has an operand");
    // One period is packed, and then doubled until complete.
    let whole = mapped.map.period().min(n);
    let strided = mapped.map.strided_runs(first, whole, |at, p, step, run| {
        let end = p as i64 + step as i64 * (run as i64 - 1);
        assert!(
            p < len && (0..len as i64).contains(&end),
            "a map leads to element {} of an operand of {len}",
            end.max(p as i64)
        );
        // SAFETY: first and last element, and so all, are inside, as just checked; the caller promises space.
        unsafe { spread(from.add(p * unit), step, to.add(at * unit), run, unit) };
    });
    let mut done = if strided { whole } else { n };
    while done < n {
        let more = done.min(n - done);
        // SAFETY: the caller promises space for all points; the runs are contiguous.
        unsafe { std::ptr::copy_nonoverlapping(to, to.add(done * unit), more * unit) };
        done += more;
    }
    strided
}

/// Like [`copy_strided_runs`], but element by element, for a map whose positions exceed an i32.
///
/// # Safety
/// `to` has space for them.
unsafe fn one_by_one(mapped: &Mapped<'_>, (first, n): (usize, usize), unit: usize, to: *mut u8) {
    let (from, len) = mapped.operand.expect("what is brought together has an operand");
    for i in 0..n {
        let p = mapped.map.position(first + i).expect("what is packed has no mask");
        assert!(p < len, "a map leads to element {p} of an operand of {len}");
        // SAFETY: the element is inside, as just checked; the caller promises space.
        unsafe { spread(from.add(p * unit), 1, to.add(i * unit), 1, unit) };
    }
}

/// Packs the elements, of `unit` bytes, at these positions.
///
/// # Safety
/// All of them are readable, and there is space for them.
unsafe fn gather(from: *const u8, positions: &[i32], to: *mut u8, unit: usize) {
    /// Packs the elements, of type `T`, at these positions.
    ///
    /// # Safety
    /// As for `gather`.
    unsafe fn each<T: Copy>(from: *const u8, positions: &[i32], to: *mut u8) {
        let (from, to) = (from.cast::<T>(), to.cast::<T>());
        for (i, &p) in positions.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write_unaligned(from.offset(p as isize).read_unaligned()) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match unit {
            1 => each::<u8>(from, positions, to),
            2 => each::<u16>(from, positions, to),
            4 => each::<u32>(from, positions, to),
            _ => each::<u64>(from, positions, to),
        }
    }
}

/// Scatters `n` contiguous elements of `unit` bytes to addresses `step` elements apart.
///
/// # Safety
/// All of them are readable, and there is space for them.
unsafe fn scatter_strided(from: *const u8, to: *mut u8, step: isize, n: usize, unit: usize) {
    /// Scatters `n` contiguous elements of type `T`.
    ///
    /// # Safety
    /// As for `scatter_strided`.
    unsafe fn each<T: Copy>(from: *const u8, to: *mut u8, step: isize, n: usize) {
        let (from, to) = (from.cast::<T>(), to.cast::<T>());
        // SAFETY: the caller's promise.
        (0..n).for_each(|i| unsafe { to.offset(i as isize * step).write_unaligned(from.add(i).read_unaligned()) });
    }
    // SAFETY: the caller's promise.
    unsafe {
        match (step, unit) {
            (1, _) if n >= MIN_MEMCPY_ELEMENTS => std::ptr::copy_nonoverlapping(from, to, n * unit),
            (_, 1) => each::<u8>(from, to, step, n),
            (_, 2) => each::<u16>(from, to, step, n),
            (_, 4) => each::<u32>(from, to, step, n),
            _ => each::<u64>(from, to, step, n),
        }
    }
}

/// Minimum number of elements that are copied by `memcpy`; for fewer, a loop is faster.
const MIN_MEMCPY_ELEMENTS: usize = 8;

/// Packs `n` elements of `unit` bytes that are `step` elements apart.
///
/// # Safety
/// All of them are readable, and there is space for them at `to`.
unsafe fn spread(from: *const u8, step: isize, to: *mut u8, n: usize, unit: usize) {
    /// Packs `n` elements of type `T`.
    ///
    /// # Safety
    /// As for `spread`.
    unsafe fn each<T: Copy>(from: *const u8, step: isize, to: *mut u8, n: usize) {
        let (from, to) = (from.cast::<T>(), to.cast::<T>());
        // SAFETY: the caller's promise.
        unsafe {
            if step == 0 {
                let value = from.read_unaligned();
                (0..n).for_each(|i| to.add(i).write_unaligned(value));
            } else {
                (0..n).for_each(|i| to.add(i).write_unaligned(from.offset(i as isize * step).read_unaligned()));
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match (step, unit) {
            (1, _) if n >= MIN_MEMCPY_ELEMENTS => std::ptr::copy_nonoverlapping(from, to, n * unit),
            (_, 1) => each::<u8>(from, step, to, n),
            (_, 2) => each::<u16>(from, step, to, n),
            (_, 4) => each::<u32>(from, step, to, n),
            _ => each::<u64>(from, step, to, n),
        }
    }
}
