//! Launches of map kernels: from a domain of any rank to calls of [`Rows::run`](crate::row_call::Rows::run).
//!
//! In: a body's accesses, a geometry, operands, scalars. Out: rectangles of `rows × n` points that cover the domain
//! exactly once. Every access is checked against its operand before anything runs: whatever the geometry, nothing
//! outside an operand is touched, and no two points write the same element. Offsets of a `Gather` are data; the engine
//! checks them as it runs.
//!
//! The innermost dimension runs within a call's rows, and one other dimension over its rows
//! ([`dims::rows_of_calls`]), or, if a source is transposed, the one in which that source is dense (its cache lines are
//! then used whole). An odometer counts through the remaining dimensions. Accesses through an index map get a table of
//! positions per call, so such a call is one contiguous range of the row-major domain.

use crate::check;
use crate::engine::{Engine, OutOfRange};
use crate::flat;
use crate::hardware::CONFLICT_STRIDE;
use crate::launch_common::{CHUNK, Scratch, Stores, straight_ns};
use crate::memory;
use crate::narrow::{Narrow, Widened};
use crate::short::{Merged, short};
use crate::tables::{self, Mapped, Tables, TooFar};
use std::ops::Range;
use std::sync::Arc;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::{AccessClass, AccessGeometry, Body, MapGeometry, Node, Store, dims};
use thalweg_runtime::{Buffer, Error};

/// Number of rows, and of columns, of a call that reads a transposed source: each cache line fetched is used whole
/// while it is cached.
const BLOCK: (usize, usize) = (32, 64);
const LINE_BYTES: usize = 64;
/// Stride between rows of a packed block, in elements. It is not a power of two, to avoid the cache conflicts that
/// packing is for.
const PITCH: usize = BLOCK.1 + 4;

/// Estimated nanoseconds to compute one entry of a position table, or to gather one element.
const NS_PER_POSITION: f64 = 2.0;

/// Addresses and steps of one access, from which the argument words of calls are computed. They are in bytes; for an
/// access without an operand (index only), in positions.
struct Line {
    /// Value of argument word 0 (address, or position) at the first point of the domain.
    start: i64,
    /// Steps between a call's rows (`row`, in bytes) and between points of a row (`step`, in elements).
    row: i64,
    step: i64,
    unit: usize,
    /// Whether each block of the operand is packed before the call that reads it, to avoid cache conflicts.
    packed: bool,
    map: Option<Mapped>,
    /// Address of the operand's element 0 and its number of elements, if something is gathered through it.
    bounds: Option<[u64; 2]>,
}

/// Loop nest that traverses a domain in rectangles: its accesses, loops and block sizes.
struct Traversal {
    lines: Vec<Line>,
    /// Accesses that move with a loop, loop by loop: index of their argument word 0, and its step.
    moves: Vec<(usize, i64)>,
    /// Index in `moves` of the first entry of each loop; those of loop `d` end where those of the next begin.
    first_moves: [usize; MAX_RANK + 2],
    /// Trip counts of the loops, outermost first; the last two count blocks of rows and blocks of columns.
    sizes: [usize; MAX_RANK + 1],
    rank: usize,
    rows: usize,
    columns: usize,
    row_block: usize,
    column_block: usize,
    /// Step of the row-major domain index for each loop.
    index_steps: [i64; MAX_RANK + 1],
}

/// Strategy by which a launch traverses its domain.
enum Passed<'a> {
    /// A single dimension, in chunks: see [`flat`].
    Flat,
    /// Narrow rows, concatenated to one line: see [`Narrow`].
    Narrow(Box<Narrow<'a>>),
    /// Rectangles of rows and points, enumerated by a loop nest.
    Rectangles(Box<Traversal>),
}

/// A checked map launch: its chunks may run in any order and on any thread.
pub struct Job<'a> {
    engine: &'a Engine,
    body: &'a Body,
    geometry: &'a MapGeometry,
    operands: &'a [&'a Buffer],
    scalars: &'a [u64],
    passed: Passed<'a>,
    in_place: bool,
    streams: Vec<u16>,
    /// Number of chunks.
    pub chunks: usize,
    /// Number of chunks that a thread should take at a time.
    pub grain: usize,
    /// Estimated nanoseconds that one thread takes for all chunks.
    pub estimate_ns: f64,
}

impl<'a> Job<'a> {
    /// Builds a launch: checks everything that a run relies on, chooses the traversal, and cuts the domain into chunks.
    ///
    /// # Errors
    /// If the positions of an index map are read as values and exceed 2³¹.
    ///
    /// # Panics
    /// If geometry, operands and scalars do not fit the body, an access reaches outside its operand, or two points
    /// write the same element.
    pub fn new(
        (engine, body, facts, widened): (&'a Engine, &'a Body, &flat::Facts, &'a Widened),
        geometry: &'a MapGeometry,
        operands: &'a [&'a Buffer],
        scalars: &'a [u64],
    ) -> Result<Job<'a>, Error> {
        let in_place = || engine.rereads_inputs() && aliased((body, facts), geometry, operands);
        if facts.is_flat(body, geometry, operands, scalars) {
            let points = geometry.points();
            return Ok(Job {
                engine,
                body,
                geometry,
                operands,
                scalars,
                passed: Passed::Flat,
                in_place: in_place(),
                streams: streams((body, facts), geometry, operands),
                chunks: points.div_ceil(CHUNK),
                grain: 1,
                estimate_ns: facts.estimate_ns(body, geometry),
            });
        }
        check((body, facts), geometry, operands, scalars);
        let merged = merge(body, geometry);
        let narrow = Narrow::new((engine, body, facts, widened), geometry, (&merged.0, &merged.1), operands);
        let (passed, engine) = match narrow {
            Some(narrow) if narrow.stages() => match close((body, facts, widened), geometry, &merged, operands) {
                Some((traversal, tabled)) => (Passed::Rectangles(Box::new(traversal)), tabled),
                None => (Passed::Narrow(Box::new(narrow)), engine),
            },
            Some(narrow) => (Passed::Narrow(Box::new(narrow)), engine),
            None => {
                let (traversal, tabled) = rectangles((body, facts, widened), geometry, merged, operands)?;
                (Passed::Rectangles(Box::new(traversal)), tabled.unwrap_or(engine))
            }
        };
        let (chunks, grain) = match &passed {
            Passed::Narrow(narrow) => (narrow.chunks(), narrow.grain()),
            Passed::Rectangles(t) => {
                (t.sizes[..t.rank].iter().product(), (CHUNK / (t.row_block * t.column_block)).max(1))
            }
            Passed::Flat => unreachable!("not flat"),
        };
        Ok(Job {
            engine,
            body,
            geometry,
            operands,
            scalars,
            passed,
            in_place: in_place(),
            streams: streams((body, facts), geometry, operands),
            chunks,
            grain,
            estimate_ns: estimate_ns(body, &geometry.accesses, geometry.points(), facts.cost),
        })
    }

    /// Runs a range of chunks; stops at the first failure.
    ///
    /// # Errors
    /// If an index of a gather is out of range; outputs are then unspecified.
    pub fn run(&self, range: Range<usize>, scratch: &mut Scratch) -> Result<(), OutOfRange> {
        let stores = Stores { in_place: self.in_place, streams: &self.streams };
        match &self.passed {
            Passed::Rectangles(traversal) => traversal.run(self.engine, self.scalars, range, stores, scratch),
            Passed::Narrow(narrow) => narrow.run(self.scalars, range, stores, scratch),
            // SAFETY: the launch was found flat when the job was built.
            Passed::Flat => unsafe {
                let of = (self.engine, self.body);
                flat::run(of, self.geometry, self.operands, self.scalars, range, stores, &mut scratch.args)
            },
        }
    }
}

/// Returns the accesses to write by non-temporal stores: all stores, if together they exceed the last-level cache, none
/// overlaps an input and none combines; else no store. A non-temporal store does not read the cache line first, which
/// saves a third of the traffic of a kernel with one input and one output.
fn streams((body, facts): (&Body, &flat::Facts), geometry: &MapGeometry, operands: &[&Buffer]) -> Vec<u16> {
    let size = |s: &Store| body.accesses[s.access as usize].dtype.size();
    let written = geometry.points() * body.stores.iter().map(size).sum::<usize>();
    // A store that combines reads the line anyway.
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    if combines || written <= memory::last_level_cache() || aliased((body, facts), geometry, operands) {
        return Vec::new();
    }
    body.stores.iter().map(|s| s.access).collect()
}

/// Estimated nanoseconds that one thread takes for `points` points of arithmetic of this cost.
pub fn estimate_ns(body: &Body, accesses: &[AccessGeometry], points: usize, cost: u64) -> f64 {
    let points = points as f64;
    let mut bytes = 0.0;
    let mut positions = 0.0;
    for (access, at) in body.accesses.iter().zip(accesses) {
        if access.operand.is_some() {
            bytes += (at.distinct as f64).min(points) * access.dtype.size() as f64;
        }
        if access.class == AccessClass::Mapped {
            positions += points;
        }
    }
    positions += points * body.nodes.iter().filter(|n| matches!(n, Node::Gather { .. })).count() as f64;
    straight_ns(points, cost, bytes) + positions * NS_PER_POSITION
}

/// Panics if a launch would be unsound: the geometry does not fit the body, an access leaves its operand, or two points
/// write the same element.
fn check((body, facts): (&Body, &flat::Facts), geometry: &MapGeometry, operands: &[&Buffer], scalars: &[u64]) {
    let extents = &geometry.extents;
    assert!(!extents.is_empty() && extents.len() <= MAX_RANK, "a domain has 1 to {MAX_RANK} dimensions");
    let points = extents.iter().try_fold(1usize, |n, &e| n.checked_mul(e)).filter(|&n| n > 0);
    let domain = points.unwrap_or_else(|| panic!("no domain has the sizes {extents:?}"));
    check::counts(body, &geometry.accesses, operands, scalars);
    let along = Some(extents.len() - 1);
    let points = check::Points { extents, along, domain, packs: false, uses: &facts.uses };
    for (i, at) in geometry.accesses.iter().enumerate() {
        check::access(body, i, at, points, operands);
    }
    for store in &body.stores {
        let (access, at) = (&body.accesses[store.access as usize], &geometry.accesses[store.access as usize]);
        assert!(
            access.class == AccessClass::Contiguous && access.operand.is_some(),
            "access {} is written, so it must be contiguous and have an operand",
            store.access
        );
        assert!(check::injective(extents, at), "access {} writes one element from two points: {at:?}", store.access);
    }
}

/// Whether the bytes that a launch writes may overlap bytes that it reads.
fn aliased((body, facts): (&Body, &flat::Facts), geometry: &MapGeometry, operands: &[&Buffer]) -> bool {
    check::aliased(body, &facts.uses, operands, |i| {
        let at = &geometry.accesses[i];
        at.map.as_ref().map_or_else(|| Some(check::strided_reach(&geometry.extents, at)), |map| map.reach())
    })
}

impl Traversal {
    fn new(
        (body, facts): (&Body, &flat::Facts),
        geometry: &MapGeometry,
        ((extents, strides), maps): (Merged, Vec<Option<Mapped>>),
        operands: &[&Buffer],
    ) -> Traversal {
        let mapped = maps.iter().any(Option::is_some);
        let last = extents.len() - 1;
        let transposed = if mapped { None } else { transposed_dimension(body, &extents, &strides) };
        let row_dim = transposed.or_else(|| dims::rows_of_calls(&extents).filter(|_| !mapped));
        let columns = extents[last];
        let rows = row_dim.map_or(1, |d| extents[d]);
        let (row_block, column_block) = match (transposed, row_dim) {
            _ if mapped => (1, tables::points(maps.iter().flatten(), columns)),
            (Some(_), _) => (rows.min(BLOCK.0), columns.min(BLOCK.1)),
            (None, Some(d)) if columns <= CHUNK => {
                // All points between the rows of a call stay in the caches until their own calls.
                let apart: usize = extents[d + 1..].iter().product();
                ((CHUNK / apart).clamp(1, rows), columns)
            }
            _ => (1, columns.min(CHUNK)),
        };
        let outer: Vec<usize> = (0..last).filter(|&d| Some(d) != row_dim).collect();
        let rank = outer.len() + 2;
        let mut sizes = [1; MAX_RANK + 1];
        for (size, &d) in sizes.iter_mut().zip(&outer) {
            *size = extents[d];
        }
        sizes[rank - 2] = rows.div_ceil(row_block);
        sizes[rank - 1] = columns.div_ceil(column_block);
        let spread = |of: &[isize; MAX_RANK], unit: usize| {
            let mut steps = [0; MAX_RANK + 1];
            for (step, &d) in steps.iter_mut().zip(&outer) {
                *step = (of[d] * unit as isize) as i64;
            }
            steps[rank - 2] = row_dim.map_or(0, |d| (of[d] * unit as isize) as i64 * row_block as i64);
            steps[rank - 1] = (of[last] * unit as isize) as i64 * column_block as i64;
            steps
        };
        let mut lines: Vec<Line> = Vec::with_capacity(body.accesses.len());
        let mut steps = Vec::with_capacity(body.accesses.len());
        for (i, ((access, at), map)) in body.accesses.iter().zip(&geometry.accesses).zip(maps).enumerate() {
            let unit = if access.operand.is_some() { access.dtype.size() } else { 1 };
            let address = access.operand.map_or(0, |o| operands[o as usize].address() as i64);
            let of = if map.is_some() { [0; MAX_RANK] } else { strides[i] };
            let bounds = access.operand.filter(|_| facts.uses[i].gathered).map(|o| {
                let operand = operands[o as usize];
                [operand.address() as u64, (operand.bytes() / unit) as u64]
            });
            steps.push(spread(&of, unit));
            lines.push(Line {
                start: address + if map.is_some() { 0 } else { at.base as i64 * unit as i64 },
                row: row_dim.map_or(0, |d| of[d] as i64 * unit as i64),
                step: of[last] as i64,
                unit,
                packed: transposed.is_some()
                    && bounds.is_none()
                    && access.class == AccessClass::Strided
                    && columns > 1
                    && (of[last].unsigned_abs() * unit).is_multiple_of(CONFLICT_STRIDE),
                map,
                bounds,
            });
        }
        let mut row_major = [0isize; MAX_RANK];
        let mut step = 1;
        for d in (0..=last).rev() {
            row_major[d] = step;
            step *= extents[d] as isize;
        }
        let index_steps = spread(&row_major, 1);
        let (mut moves, mut first_moves) = (Vec::with_capacity(2 * steps.len()), [0; MAX_RANK + 2]);
        for d in 0..rank {
            moves.extend(steps.iter().enumerate().map(|(i, of)| (4 * i, of[d])).filter(|(_, step)| *step != 0));
            first_moves[d + 1] = moves.len();
        }
        Traversal { lines, moves, first_moves, sizes, rank, rows, columns, row_block, column_block, index_steps }
    }

    /// Accesses that move with loop `d`, with their steps.
    fn moves_of(&self, d: usize) -> &[(usize, i64)] {
        &self.moves[self.first_moves[d]..self.first_moves[d + 1]]
    }

    /// Runs a range of chunks; stops at the first failure.
    fn run(
        &self,
        engine: &Engine,
        scalars: &[u64],
        range: Range<usize>,
        stores: Stores<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), OutOfRange> {
        let in_place = stores.in_place;
        let args = &mut scratch.args;
        args.clear();
        for line in &self.lines {
            let bounds = line.bounds.as_ref().map_or(0, |b| b.as_ptr() as u64);
            args.extend([line.start as u64, line.row as u64, line.step as u64, bounds]);
        }
        args.extend_from_slice(scalars);
        let mut digits = [0usize; MAX_RANK + 1];
        let mut rest = range.start;
        for d in (0..self.rank).rev() {
            digits[d] = rest % self.sizes[d];
            rest /= self.sizes[d];
        }
        let mut index = 0;
        for (d, &digit) in digits[..self.rank].iter().enumerate() {
            index += digit as i64 * self.index_steps[d];
            for &(word, step) in self.moves_of(d) {
                args[word] = args[word].wrapping_add((digit as i64 * step) as u64);
            }
        }
        let mapped = self.lines.iter().any(|l| l.map.is_some());
        let mut tables = Tables::new(&mut scratch.tables, if mapped { self.lines.len() } else { 0 }, self.column_block);
        for chunk in range.clone() {
            let rows = self.row_block.min(self.rows - digits[self.rank - 2] * self.row_block);
            let n = self.column_block.min(self.columns - digits[self.rank - 1] * self.column_block);
            if mapped {
                self.run_mapped(engine, args, &mut tables, (index as usize, 0, n), in_place)?;
            } else if self.lines.iter().any(|l| l.packed) {
                self.run_packed(engine, args, &mut scratch.blocks, n, rows, in_place)?;
            } else if stores.may_stream(args, rows) {
                // SAFETY: as below; output rows are aligned.
                unsafe { engine.run_streaming(args, n, rows) }?;
            } else {
                // SAFETY: `check` found every access of the domain inside its operand, and the args describe this
                // rectangle of it; gather bounds are those of the operand. No other chunk writes its elements, since no
                // two points share an element.
                unsafe { engine.run(args, n, rows, in_place) }?;
            }
            if chunk + 1 == range.end {
                break;
            }
            // One step of the odometer: add the innermost step, and reset a dimension that has wrapped.
            for d in (0..self.rank).rev() {
                let through = digits[d] + 1 == self.sizes[d];
                let turns = if through { -(digits[d] as i64) } else { 1 };
                digits[d] = if through { 0 } else { digits[d] + 1 };
                index += turns * self.index_steps[d];
                for &(word, step) in self.moves_of(d) {
                    args[word] = args[word].wrapping_add((turns * step) as u64);
                }
                if !through {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs one block of `rows × n` points: packs the transposed sources that would conflict in the cache into
    /// `blocks`, and calls the engine on the copies.
    fn run_packed(
        &self,
        engine: &Engine,
        args: &mut [u64],
        blocks: &mut Vec<u64>,
        n: usize,
        rows: usize,
        in_place: bool,
    ) -> Result<(), OutOfRange> {
        let words = BLOCK.0 * PITCH;
        blocks.resize(words * self.lines.len(), 0);
        for (i, line) in self.lines.iter().enumerate().filter(|(_, l)| l.packed) {
            let to = blocks[i * words..].as_mut_ptr();
            let (from, step) = (args[4 * i] as *const u8, line.step as isize * line.unit as isize);
            // SAFETY: the rectangle is inside the operand (see `check`); a slot has `BLOCK.0` rows of `PITCH` elements
            // of up to 8 bytes, and no call has more rows or columns than a block.
            unsafe {
                match line.unit {
                    1 => pack::<u8>(from, step, line.row as isize, n, rows, to.cast()),
                    2 => pack::<u16>(from, step, line.row as isize, n, rows, to.cast()),
                    4 => pack::<u32>(from, step, line.row as isize, n, rows, to.cast()),
                    _ => pack::<u64>(from, step, line.row as isize, n, rows, to.cast()),
                }
            }
            args[4 * i + 1] = (PITCH * line.unit) as u64;
            args[4 * i + 2] = 1;
            // The odometer needs word 0 again: it is saved in word 3, which only tables use.
            args[4 * i + 3] = std::mem::replace(&mut args[4 * i], to as u64);
        }
        // SAFETY: as in `run`; packed sources are read from their copies.
        let done = unsafe { engine.run(args, n, rows, in_place) };
        for (i, _) in self.lines.iter().enumerate().filter(|(_, l)| l.packed) {
            args[4 * i] = args[4 * i + 3];
        }
        done
    }

    /// Runs `n` points through position tables, starting at domain index `index`, which is `skip` points into the row
    /// that `args` describes. Halves the range if positions are too far apart for a table.
    fn run_mapped(
        &self,
        engine: &Engine,
        args: &mut [u64],
        tables: &mut Tables<'_>,
        (index, skip, n): (usize, usize, usize),
        in_place: bool,
    ) -> Result<(), OutOfRange> {
        for (i, line) in self.lines.iter().enumerate() {
            let Some(mapped) = &line.map else { continue };
            match tables.of(i, mapped, index, n) {
                Ok((moved, table)) => {
                    args[4 * i] = (line.start + moved) as u64;
                    args[4 * i + 3] = table;
                }
                Err(TooFar) => {
                    let half = n / 2;
                    self.run_mapped(engine, args, tables, (index, skip, half), in_place)?;
                    return self.run_mapped(engine, args, tables, (index + half, skip + half, n - half), in_place);
                }
            }
        }
        let moved = skip as i64;
        for (i, line) in self.lines.iter().enumerate().filter(|(_, l)| l.map.is_none()) {
            args[4 * i] = args[4 * i].wrapping_add((moved * line.step * line.unit as i64) as u64);
        }
        // SAFETY: as in `run`; table positions are inside their operands, as just checked, or masked out.
        let done = unsafe { engine.run(args, n, 1, in_place) };
        for (i, line) in self.lines.iter().enumerate().filter(|(_, l)| l.map.is_none()) {
            args[4 * i] = args[4 * i].wrapping_sub((moved * line.step * line.unit as i64) as u64);
        }
        done
    }
}

/// Builds a checked launch in rectangles. Also returns its engine if some accesses are read through position tables
/// instead of by strides, which needs a variant of the body.
fn rectangles<'a>(
    (body, facts, widened): (&Body, &flat::Facts, &'a Widened),
    geometry: &MapGeometry,
    merged: Merged,
    operands: &[&Buffer],
) -> Result<(Traversal, Option<&'a Engine>), Error> {
    let maps = mapped((body, facts), geometry, operands)?;
    if let Some(short) = short((body, facts), geometry, &merged, operands, &maps, None)
        && let Some(engine) = widened.mapped(body, &short.others)
    {
        return Ok((Traversal::new((body, facts), geometry, (short.merged, short.maps), operands), Some(engine)));
    }
    Ok((Traversal::new((body, facts), geometry, (merged, maps), operands), None))
}

/// Builds a checked launch over narrow rows, without accesses through maps, as one row with tables of positions; `None` if
/// elements of a vector are far apart.
fn close<'a>(
    (body, facts, widened): (&Body, &flat::Facts, &'a Widened),
    geometry: &MapGeometry,
    merged: &Merged,
    operands: &[&Buffer],
) -> Option<(Traversal, &'a Engine)> {
    let none = vec![None; body.accesses.len()];
    let short = short((body, facts), geometry, merged, operands, &none, Some(widened.close_bytes()?))?;
    let engine = widened.mapped(body, &short.others)?;
    Some((Traversal::new((body, facts), geometry, (short.merged, short.maps), operands), engine))
}

/// Describes the position table of each mapped access; `None` for strided accesses.
fn mapped(
    (body, facts): (&Body, &flat::Facts),
    geometry: &MapGeometry,
    operands: &[&Buffer],
) -> Result<Vec<Option<Mapped>>, Error> {
    let of = |i: usize| (geometry.accesses[i].map.as_ref(), facts.uses[i].numbers);
    let same = |i: usize, j: &usize| match (of(i), of(*j)) {
        ((Some(a), numbers), (Some(b), too)) => Arc::ptr_eq(a, b) && numbers == too,
        _ => false,
    };
    let mut all = Vec::with_capacity(body.accesses.len());
    for (i, access) in body.accesses.iter().enumerate() {
        let unit = if access.operand.is_some() { access.dtype.size() } else { 1 };
        let len = access.operand.map(|o| operands[o as usize].bytes() / unit);
        let map = geometry.accesses[i].map.as_ref().filter(|_| access.class == AccessClass::Mapped);
        let map = map.map(|map| Mapped::new(map, (unit, len), facts.uses[i].numbers, (0..i).find(|j| same(i, j))));
        if map.as_ref().is_some_and(Mapped::is_too_wide) {
            return Err(Error::Device {
                device: "cpu".into(),
                message: "indices over more than 2^31 positions through a reshaped or padded view".into(),
            });
        }
        all.push(map);
    }
    Ok(all)
}

/// Merges adjacent dimensions of the domain wherever every access has one stride over both (`[8, 4]` of strides
/// `[4, 1]` becomes `[32]` of stride 1); returns the merged sizes, and strides by access. Accesses through maps use the
/// row-major index, which merging preserves.
fn merge(body: &Body, geometry: &MapGeometry) -> Merged {
    let from = &geometry.extents;
    let last = from.len() - 1;
    let strides: Vec<[isize; MAX_RANK]> = geometry
        .accesses
        .iter()
        .zip(&body.accesses)
        .map(|(at, access)| {
            let mut strides = at.strides;
            if from[last] == 1 {
                // A single element has any stride, but what is merged into it must have the stride of its class.
                strides[last] = access.class.step().unwrap_or(0);
            }
            strides
        })
        .collect();
    let accesses = || strides.iter().zip(&geometry.accesses);
    let runs_on =
        |o: usize, i: usize, n: usize| accesses().all(|(s, at)| at.map.is_some() || dims::runs_on(s, o, i, n));
    let merged = dims::merge(from, 0..from.len(), true, runs_on);
    let taken = strides.iter().map(|of| {
        let mut s = [0; MAX_RANK];
        for (to, m) in s.iter_mut().zip(&merged) {
            *to = of[m.inner];
        }
        s
    });
    let taken = taken.collect();
    (merged.iter().map(|m| m.extent).collect(), taken)
}

/// Finds a transposed source, whose elements are at least a cache line apart in the innermost dimension, and returns
/// the dimension in which it is dense.
fn transposed_dimension(body: &Body, extents: &[usize], strides: &[[isize; MAX_RANK]]) -> Option<usize> {
    let last = extents.len() - 1;
    body.accesses.iter().zip(strides).find_map(|(access, strides)| {
        access.operand?;
        let bytes = |d: usize| strides[d].unsigned_abs() * access.dtype.size();
        let crosses = access.class == AccessClass::Strided && extents[last] > 1 && bytes(last) >= LINE_BYTES;
        let dense = (0..last).filter(|&d| strides[d] != 0 && extents[d] > 1).min_by_key(|&d| bytes(d))?;
        (crosses && bytes(dense) < LINE_BYTES).then_some(dense)
    })
}

/// Copies a block of `rows × n` elements, whose rows are `row` and columns `step` bytes apart, into rows of [`PITCH`]
/// elements.
///
/// # Safety
/// All these elements are readable, and their destinations writable.
unsafe fn pack<T: Copy>(from: *const u8, step: isize, row: isize, n: usize, rows: usize, to: *mut T) {
    for column in 0..n {
        for r in 0..rows {
            // SAFETY: the caller's promise; elements are aligned, since operands are and strides count elements.
            unsafe {
                let element = from.offset(column as isize * step + r as isize * row).cast::<T>();
                to.add(r * PITCH + column).write(element.read());
            }
        }
    }
}
