//! Position tables, for accesses of a map that are not strided.
//!
//! In: an access's index map, a range of the domain's points. Out: the argument words by which a call reads them: an
//! address, and a table of positions relative to it. Always true: the positions of the range are inside the operand.
//!
//! Computing a position takes several times as long as reading through it. So a table is filled once for a run of
//! chunks if positions repeat with a fixed shift ([`Positions::shift`]): usually for each image of a batch. Chunks are
//! then whole numbers of such periods, and only the address moves.

use crate::hardware::MAX_TABLE_POINTS;
use crate::simd::{Job, dispatch};
use std::sync::Arc;
use thalweg_kernel::{IndexMap, Positions};

/// Target for the total bytes of a call's tables if the call's length can be chosen (`NEAR_BYTES`), and minimum number
/// of points of such a call (`MIN_CALL_POINTS`).
const NEAR_BYTES: usize = 16 << 10;
const MIN_CALL_POINTS: usize = 256;

/// An access of a map that goes through an index map, whose positions calls read from a table.
#[derive(Clone)]
pub struct Mapped {
    positions: Positions,
    /// Bytes of an element.
    unit: i64,
    /// Number of elements of the operand; `None` for index-only accesses.
    len: Option<usize>,
    /// Whether the body reads positions as values. A shift of the address would not update them, so the table is then
    /// refilled.
    numbers: bool,
    /// Earlier access with the same map and `numbers`, whose table is shared.
    same_as: Option<usize>,
    /// Whether positions may exceed an i32, so that tables hold them relative to an origin.
    wide: bool,
    shift: Option<(usize, i64)>,
    /// Added to all positions of the table, so that accesses whose positions differ by a constant share one.
    start: i64,
}

impl Mapped {
    /// An access of that map to an operand of `len` elements of `unit` bytes, or index-only. `same_as` has the same map
    /// and `numbers` ([`AccessUse::numbers`](crate::check::AccessUse)).
    pub fn new(
        map: &Arc<IndexMap>,
        (unit, len): (usize, Option<usize>),
        numbers: bool,
        same_as: Option<usize>,
    ) -> Mapped {
        let wide = map.reach().is_some_and(|(_, high)| high > i32::MAX as usize);
        let positions = map.positions();
        let shift = positions.shift().filter(|_| !wide);
        Mapped { positions, unit: unit as i64, len, numbers, same_as, wide, shift, start: 0 }
    }

    /// This access with `start` added to all positions.
    pub fn from(self, start: i64) -> Mapped {
        Mapped { start, ..self }
    }

    /// Whether no table can hold the positions: they are read as values and may exceed an i32.
    pub fn is_too_wide(&self) -> bool {
        self.wide && self.len.is_none()
    }
}

/// Number of points of a call over a row of `columns` points.
pub fn points<'a>(accesses: impl Iterator<Item = &'a Mapped>, columns: usize) -> usize {
    let (mut whole, mut tables) = (Some(1usize), 0);
    for mapped in accesses.filter(|m| m.same_as.is_none()) {
        tables += 1;
        whole = whole.zip(mapped.shift).and_then(|(a, (b, _))| common(a, b)).filter(|&w| w <= MAX_TABLE_POINTS);
    }
    let near = (NEAR_BYTES / (tables.max(1) * size_of::<i32>())).clamp(MIN_CALL_POINTS, MAX_TABLE_POINTS);
    whole.map_or(MAX_TABLE_POINTS, |w| w * (near / w).max(1)).min(columns)
}

/// Least common multiple of two periods; `None` on overflow.
fn common(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// Range of points whose positions a table contains: `start..start + n`.
#[derive(Clone, Copy)]
struct Filled {
    start: usize,
    n: usize,
    /// Lowest and highest position of these points.
    low: i64,
    high: i64,
}

/// Position tables of a thread, reused from chunk to chunk while it runs a range of chunks.
pub struct Tables<'s> {
    memory: &'s mut Vec<i32>,
    /// Points that the table of each access holds; `None` if it is not filled yet.
    filled: Vec<Option<Filled>>,
    /// Number of entries of a table.
    pitch: usize,
}

/// Error: the positions of a range of points are further apart than an i32 can hold. The caller halves the range.
pub struct TooFar;

impl<'s> Tables<'s> {
    /// Tables for `accesses` accesses and calls of up to `points` points.
    pub fn new(memory: &'s mut Vec<i32>, accesses: usize, points: usize) -> Tables<'s> {
        if memory.len() < points * accesses {
            memory.resize(points * accesses, 0);
        }
        Tables { memory, filled: vec![None; accesses], pitch: points }
    }

    /// Fills the table of access `number` for the points `index..index + n`, unless it holds them already. Returns the
    /// offset in bytes to add to the address of position 0, and the table's address. Accesses must be requested in
    /// ascending order.
    ///
    /// # Errors
    /// If the positions are too far apart for a table.
    ///
    /// # Panics
    /// If the map leads outside the operand.
    pub fn of(&mut self, number: usize, mapped: &Mapped, index: usize, n: usize) -> Result<(i64, u64), TooFar> {
        let origin = if mapped.wide { origin(mapped.positions.map(), index, n)? } else { 0 };
        let at = mapped.same_as.unwrap_or(number);
        let table = &mut self.memory[at * self.pitch..][..n];
        let serves = |f: &Filled| {
            let further = index.checked_sub(f.start).filter(|_| n <= f.n)?;
            if further == 0 {
                return Some(0);
            }
            let (points, step) = mapped.shift?;
            further.is_multiple_of(points).then_some((further / points) as i64 * step)
        };
        let known = self.filled[at].and_then(|f| Some((f, serves(&f)?)));
        let known = known.filter(|(_, moved)| *moved == 0 || !mapped.numbers);
        let (filled, moved) = known.unwrap_or_else(|| {
            mapped.positions.fill(index, origin, table);
            let (low, high) = ends(table);
            (Filled { start: index, n, low: low + origin, high: high + origin }, 0)
        });
        self.filled[at] = Some(filled);
        if let Some(len) = mapped.len {
            // The last call of a row has fewer points than the table was filled for.
            let fewer = || {
                let (low, high) = ends(table);
                (low + origin, high + origin)
            };
            let (low, high) = if n < filled.n { fewer() } else { (filled.low, filled.high) };
            let (first, last) = (low + moved + mapped.start, high + moved + mapped.start);
            let inside = first >= 0 && last < len as i64 || low > high;
            assert!(inside, "a map leads to elements {first} to {last} of an operand of {len}");
        }
        let table = self.memory[at * self.pitch..].as_ptr();
        Ok(((origin + moved + mapped.start) * mapped.unit, table as u64))
    }
}

/// Lowest and highest position in a table. If all are masked out (negative, never read), the lowest is above the
/// highest.
pub fn ends(table: &[i32]) -> (i64, i64) {
    struct Ends<'a>(&'a [i32]);
    impl Job for Ends<'_> {
        type Out = (u32, i32);
        #[inline(always)]
        fn run(self) -> (u32, i32) {
            // As unsigned numbers, negative ones are above all others.
            self.0.iter().fold((u32::MAX, -1), |(low, high), &p| (low.min(p as u32), high.max(p)))
        }
    }
    let (low, high) = dispatch(Ends(table));
    (low.min(i32::MAX as u32) as i64, high as i64)
}

/// Lowest position in a range of points, for a map whose positions may exceed an i32.
fn origin(map: &IndexMap, index: usize, n: usize) -> Result<i64, TooFar> {
    let positions = (index..index + n).filter_map(|p| map.position(p));
    let (low, high) = positions.fold((usize::MAX, 0), |(a, b), p| (a.min(p), b.max(p)));
    match low < high && high - low > i32::MAX as usize {
        true => Err(TooFar),
        false => Ok(if low <= high { low as i64 } else { 0 }),
    }
}
