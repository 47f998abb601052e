//! Tables of positions, for accesses of a map that no strides lead through.
//!
//! In: an access's index map, a stretch of the domain's points. Out: the words by which a call reads them: an address,
//! and a table of positions counted from there. Always true: the positions of the stretch are inside of the operand.
//!
//! To find a position takes several times as long as to read through it. So a table is filled once for a run of chunks
//! wherever positions begin anew ([`Positions::shift`]): with each image of a batch, as a rule. Chunks are whole numbers
//! of such stretches then, and only the address moves on.

use std::sync::Arc;
use thalweg_kernel::{Body, IndexMap, Node, Positions};

/// The most points of a call through tables: 8 KiB a table, which stays in the first-level cache.
const MOST: usize = 2048;
/// Bytes of the tables of a call where its points can be chosen, and points that are worth a call at least.
const NEAR_BYTES: usize = 16 << 10;
const LEAST: usize = 256;

/// An access that goes by a table.
#[derive(Clone)]
pub struct Mapped {
    positions: Positions,
    /// Bytes of an element.
    unit: i64,
    /// Positions that the operand has; `None` for index-only accesses.
    len: Option<usize>,
    /// Whether positions themselves are asked for: no address moves on with them.
    numbers: bool,
    /// Access with the same map, that is asked for the same, whose table serves.
    same_as: Option<usize>,
    /// Whether positions may not fit an i32.
    wide: bool,
    shift: Option<(usize, i64)>,
}

impl Mapped {
    /// An access of that map to an operand of so many elements of `unit` bytes, or without one; `same_as` has the same
    /// map and `numbers` ([`numbers`]).
    pub fn new(
        map: &Arc<IndexMap>,
        (unit, len): (usize, Option<usize>),
        numbers: bool,
        same_as: Option<usize>,
    ) -> Mapped {
        let wide = map.reach().is_some_and(|(_, high)| high > i32::MAX as usize);
        let positions = map.positions();
        let shift = positions.shift().filter(|_| !wide);
        Mapped { positions, unit: unit as i64, len, numbers, same_as, wide, shift }
    }

    /// Whether it cannot go by a table: positions themselves are asked for, and do not fit one.
    pub fn is_too_wide(&self) -> bool {
        self.wide && self.len.is_none()
    }
}

/// Whether a body asks for the positions of an access themselves, and not only for elements, or for what is masked out.
pub fn numbers(body: &Body, access: usize) -> bool {
    body.nodes.iter().any(|n| matches!(n, Node::Index { access: a, .. } if *a as usize == access))
}

/// Points of a call over a row of `columns` points.
pub fn points<'a>(accesses: impl Iterator<Item = &'a Mapped>, columns: usize) -> usize {
    let (mut whole, mut tables) = (Some(1usize), 0);
    for mapped in accesses.filter(|m| m.same_as.is_none()) {
        tables += 1;
        whole = whole.zip(mapped.shift).and_then(|(a, (b, _))| common(a, b)).filter(|&w| w <= MOST);
    }
    let near = (NEAR_BYTES / (tables.max(1) * size_of::<i32>())).clamp(LEAST, MOST);
    whole.map_or(MOST, |w| w * (near / w).max(1)).min(columns)
}

/// The least common multiple.
fn common(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// What stands in a table.
#[derive(Clone, Copy)]
struct Filled {
    start: usize,
    n: usize,
    /// Lowest and highest position.
    low: i64,
    high: i64,
}

/// The tables of a run of chunks.
pub struct Tables<'s> {
    memory: &'s mut Vec<i32>,
    /// By access.
    filled: Vec<Option<Filled>>,
    /// Entries of a table.
    pitch: usize,
}

/// Positions further apart than an i32 reaches, in a stretch of points that can be halved.
pub struct TooFar;

impl<'s> Tables<'s> {
    /// For so many accesses and calls of up to so many points.
    pub fn new(memory: &'s mut Vec<i32>, accesses: usize, points: usize) -> Tables<'s> {
        if memory.len() < points * accesses {
            memory.resize(points * accesses, 0);
        }
        Tables { memory, filled: vec![None; accesses], pitch: points }
    }

    /// What is to be added to position 0's address, and the table, for the points `index..index + n` of access
    /// `number`. Accesses are asked for in ascending order.
    ///
    /// # Errors
    /// Where the stretch has to be halved.
    ///
    /// # Panics
    /// Where the map leads outside of the operand.
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
            // The last points of a row are fewer than those that the table was filled for.
            let fewer = || {
                let (low, high) = ends(table);
                (low + origin, high + origin)
            };
            let (low, high) = if n < filled.n { fewer() } else { (filled.low, filled.high) };
            let (first, last) = (low + moved, high + moved);
            let inside = first >= 0 && last < len as i64 || low > high;
            assert!(inside, "a map leads to elements {first} to {last} of an operand of {len}");
        }
        let table = self.memory[at * self.pitch..].as_ptr();
        Ok(((origin + moved) * mapped.unit, table as u64))
    }
}

/// The lowest and the highest position in a table; the lowest is above the highest where all are masked out, and so
/// negative and never read.
pub fn ends(table: &[i32]) -> (i64, i64) {
    let low = table.iter().fold(i32::MAX, |low, &p| if p < 0 { low } else { low.min(p) });
    (low as i64, table.iter().copied().fold(-1, i32::max) as i64)
}

/// The lowest position of a stretch of points of a map whose positions may not fit an i32.
fn origin(map: &IndexMap, index: usize, n: usize) -> Result<i64, TooFar> {
    let positions = (index..index + n).filter_map(|p| map.position(p));
    let (low, high) = positions.fold((usize::MAX, 0), |(a, b), p| (a.min(p), b.max(p)));
    match low < high && high - low > i32::MAX as usize {
        true => Err(TooFar),
        false => Ok(if low <= high { low as i64 } else { 0 }),
    }
}
