//! Maps over narrow rows, such as the three channels of an image, or a matrix of a few columns.
//!
//! In: a checked launch whose innermost dimension is narrow ([`thalweg_kernel::narrow`]). Out: calls over the *line*,
//! the concatenation of all rows, so that vectors are full. An operand that repeats in every row (a bias) is replicated
//! into a table as long as a call; the table stays in the first-level cache, and all calls read it. A strided operand
//! is packed one chunk at a time. The arithmetic is the same, so the bits are those of separate rows.
//!
//! Always true: a table is filled before the call that reads it writes anything.

use crate::engine::{Choice, Engine, OutOfRange};
use crate::flat::Facts;
use crate::launch_common::{CHUNK, Scratch, Stores};
use crate::tunable::TUNABLES;
use std::ops::Range;
use std::sync::OnceLock;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::narrow::{self, LinePattern};
use thalweg_kernel::{AccessClass, Body, MapGeometry};
use thalweg_runtime::Buffer;

/// Alignment of tables in bytes.
const ALIGN: usize = 64;

/// Compiled variants of a body in which some operands are read from tables instead of by their own strides.
#[derive(Debug)]
pub struct Widened {
    choice: Choice,
    /// Variant whose operands are copied to tables of elements (`contiguous`), and variant whose operands are read
    /// through tables of positions (`mapped`).
    contiguous: VariantCell,
    mapped: VariantCell,
}

/// Cell of a variant, compiled on first use: the accesses whose class was changed, and the engine.
type VariantCell = OnceLock<(Vec<u16>, Engine)>;

impl Widened {
    /// Returns an empty cache of variants for an engine.
    pub fn new(choice: Choice) -> Widened {
        Widened { choice, contiguous: OnceLock::new(), mapped: OnceLock::new() }
    }

    /// Bytes that elements of a vector may be apart to be read through a table about as fast as contiguous ones; `None`
    /// if the engine has no such way.
    pub fn close_bytes(&self) -> Option<usize> {
        self.choice.permutes_lines().then_some(crate::hardware::CLOSE_BYTES)
    }

    /// Engine of the body with these accesses contiguous; `None` if other accesses were requested before.
    fn engine(&self, body: &Body, accesses: &[u16]) -> Option<&Engine> {
        self.with(&self.contiguous, (body, AccessClass::Contiguous), accesses)
    }

    /// Engine of the body with these accesses through position tables; `None` if other accesses were requested before.
    pub fn mapped(&self, body: &Body, accesses: &[u16]) -> Option<&Engine> {
        self.with(&self.mapped, (body, AccessClass::Mapped), accesses)
    }

    fn with<'a>(
        &self,
        made: &'a VariantCell,
        (body, class): (&Body, AccessClass),
        accesses: &[u16],
    ) -> Option<&'a Engine> {
        let (made, engine) = made.get_or_init(|| {
            let mut wide = body.clone();
            for &a in accesses {
                let access = &mut wide.accesses[a as usize];
                if access.class == AccessClass::Uniform && access.operand.is_some() {
                    // The table in place of a uniform element is no operand of the launch, so its loads do not count.
                    access.operand = Some(wide.operands);
                    wide.operands += 1;
                }
                access.class = class;
            }
            (accesses.to_vec(), Engine::restored(&wide, body.operands, self.choice))
        });
        (made == accesses).then_some(engine)
    }
}

/// Addresses and steps of one access, in bytes (index only: in positions).
struct Line {
    /// Value of argument word 0 (address, or position) at the first point of the domain.
    start: i64,
    /// Step of argument word 0 for each dimension outside the line.
    steps: [i64; MAX_RANK],
    /// Steps between rows (`row`) and between points of a row (`step`).
    row: i64,
    step: i64,
    /// Bytes of an element; 1 for an index.
    unit: usize,
    along: LinePattern,
    /// Address of the operand's element 0 and its number of elements, if something is gathered through it.
    bounds: Option<[u64; 2]>,
}

/// A map over narrow rows.
pub struct Narrow<'a> {
    engine: &'a Engine,
    lines: Vec<Line>,
    /// Sizes of the dimensions outside the line.
    outer: Vec<usize>,
    /// Number of points of a narrow row (`width`), of the line (`line`), of a row of a call (`call`), and of a chunk
    /// (`chunk`).
    width: usize,
    line: usize,
    call: usize,
    chunk: usize,
}

impl<'a> Narrow<'a> {
    /// Builds a checked launch over merged dimensions; `None` if its rows are not narrow.
    pub fn new(
        (engine, body, facts, widened): (&'a Engine, &Body, &Facts, &'a Widened),
        geometry: &MapGeometry,
        (extents, strides): (&[usize], &[[isize; MAX_RANK]]),
        operands: &[&Buffer],
    ) -> Option<Narrow<'a>> {
        let ways = narrow::narrow(body, extents, |a| &strides[a])?;
        let other = |&a: &usize| ways[a] != LinePattern::Runs && body.accesses[a].class != AccessClass::Contiguous;
        let others: Vec<u16> = (0..ways.len()).filter(other).map(|a| a as u16).collect();
        let engine = if others.is_empty() { engine } else { widened.engine(body, &others)? };
        let last = extents.len() - 1;
        let lines = ways.iter().enumerate().map(|(a, &along)| {
            let (access, of) = (&body.accesses[a], &strides[a]);
            let unit = if access.operand.is_some() { access.dtype.size() } else { 1 };
            let operand = access.operand.map(|o| operands[o as usize]);
            let mut steps = of.map(|s| s as i64 * unit as i64);
            let (row, step) = (steps[last - 1], steps[last]);
            steps[last - 1..].fill(0);
            let address = operand.map_or(0, |o| o.address() as i64);
            let start = address + geometry.accesses[a].base as i64 * unit as i64;
            let gathered = operand.filter(|_| facts.uses[a].gathered);
            let bounds = gathered.map(|o| [o.address() as u64, (o.bytes() / unit) as u64]);
            Line { start, steps, row, step, unit, along, bounds }
        });
        let (width, call) = (extents[last], narrow::call(extents[last]));
        let points = if ways.contains(&LinePattern::Differs) { TUNABLES.ordered_chunk.size() } else { CHUNK };
        let chunk = (points / call).max(1) * call;
        let outer = extents[..last - 1].to_vec();
        Some(Narrow { engine, lines: lines.collect(), outer, width, line: extents[last - 1] * width, call, chunk })
    }

    /// Whether operands are packed chunk by chunk, instead of once.
    pub fn stages(&self) -> bool {
        self.lines.iter().any(|line| line.along == LinePattern::Differs)
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.outer.iter().product::<usize>() * self.line.div_ceil(self.chunk)
    }

    /// Number of chunks that a thread should take at a time.
    pub fn grain(&self) -> usize {
        (CHUNK / self.chunk).max(1)
    }

    /// Runs a range of chunks; stops at the first failure.
    ///
    /// # Errors
    /// If an index is out of range; outputs are then unspecified.
    pub fn run(
        &self,
        scalars: &[u64],
        range: Range<usize>,
        stores: Stores<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), OutOfRange> {
        let each = self.line.div_ceil(self.chunk);
        // Source address of each filled table, and number of its rows.
        let mut filled = vec![(0i64, 0usize); self.lines.len()];
        let Scratch { args, blocks, .. } = scratch;
        let all_tables: Vec<*mut u8> = self.tables(blocks).collect();
        for chunk in range {
            let first = chunk % each * self.chunk;
            let points = self.chunk.min(self.line - first);
            let rows = (first / self.width) as i64;
            args.clear();
            let mut tables = all_tables.iter().copied();
            let outer = self.outer_index(chunk / each);
            for (line, filled) in self.lines.iter().zip(&mut filled) {
                let from = line.at(&outer[..self.outer.len()]) + line.row * rows;
                let bounds = line.bounds.as_ref().map_or(0, |b| b.as_ptr() as u64);
                let call = self.call as i64;
                if line.along == LinePattern::Runs {
                    let step = line.step / line.unit as i64;
                    args.extend([from as u64, (line.step * call) as u64, step as u64, bounds]);
                    continue;
                }
                let table = tables.next().expect("a table for each access that does not run on");
                let repeats = line.along == LinePattern::Repeats;
                // A line of few rows needs no table as long as a call.
                let rows = if repeats { points.min(self.call) } else { points } / self.width;
                if !repeats || filled.0 != from || filled.1 < rows {
                    *filled = (from, rows);
                    // SAFETY: the launch was checked, so these rows are readable; the table has space for them.
                    unsafe { line.fill(from as *const u8, (self.width, rows), table) };
                }
                let next = if repeats { 0 } else { self.call * line.unit };
                args.extend([table as u64, next as u64, 1, 0]);
            }
            args.extend_from_slice(scalars);
            let whole = points / self.call;
            // SAFETY: every access was checked over the domain; no other chunk has these points.
            unsafe {
                if whole > 0 {
                    self.call(args, self.call, whole, stores)?;
                }
                if !points.is_multiple_of(self.call) {
                    for words in args.chunks_exact_mut(4).take(self.lines.len()) {
                        words[0] = words[0].wrapping_add(words[1].wrapping_mul(whole as u64));
                    }
                    self.call(args, points % self.call, 1, stores)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a call, with non-temporal stores where `stores` permits them.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn call(&self, args: &[u64], n: usize, rows: usize, stores: Stores<'_>) -> Result<(), OutOfRange> {
        // SAFETY: the caller's promise.
        unsafe {
            if stores.may_stream(args, rows) {
                return self.engine.run_streaming(args, n, rows);
            }
            self.engine.run(args, n, rows, stores.in_place)
        }
    }

    /// Index of each dimension outside the line, from the row-major index of all.
    fn outer_index(&self, mut number: usize) -> [usize; MAX_RANK] {
        let mut index = [0; MAX_RANK];
        for (index, &size) in index.iter_mut().zip(&self.outer).rev() {
            (*index, number) = (number % size, number / size);
        }
        index
    }

    /// Addresses of the tables, one per access that is not contiguous over rows.
    fn tables(&self, memory: &mut Vec<u64>) -> impl Iterator<Item = *mut u8> + use<> {
        let points = |line: &Line| match line.along {
            LinePattern::Runs => 0,
            LinePattern::Repeats => self.call,
            LinePattern::Differs => self.chunk,
        };
        let sizes: Vec<usize> = self
            .lines
            .iter()
            .filter(|l| l.along != LinePattern::Runs)
            .map(|l| (points(l) * l.unit).next_multiple_of(ALIGN))
            .collect();
        let words = (sizes.iter().sum::<usize>() + ALIGN) / size_of::<u64>();
        if memory.len() < words {
            memory.resize(words, 0);
        }
        let start = memory.as_mut_ptr().cast::<u8>();
        let mut at = start.align_offset(ALIGN);
        sizes.into_iter().map(move |size| {
            let table = start.wrapping_add(at);
            at += size;
            table
        })
    }
}

impl Line {
    /// Value of argument word 0 at this index of the dimensions outside the line.
    fn at(&self, outer: &[usize]) -> i64 {
        let moved = outer.iter().zip(self.steps).map(|(&index, step)| step.wrapping_mul(index as i64));
        moved.fold(self.start, i64::wrapping_add)
    }

    /// Packs rows into the table `to`; `sizes` are the points of a row and the number of rows, and the first row begins
    /// at `from`.
    ///
    /// # Safety
    /// The rows are readable, and `to` has space for them.
    unsafe fn fill(&self, from: *const u8, sizes: (usize, usize), to: *mut u8) {
        let steps = (self.row as isize, self.step as isize);
        // SAFETY: the caller's promise; elements are aligned, since operands are and steps count elements.
        unsafe {
            match self.unit {
                1 => rows::<u8>(from, steps, sizes, to.cast()),
                2 => rows::<u16>(from, steps, sizes, to.cast()),
                4 => rows::<u32>(from, steps, sizes, to.cast()),
                _ => rows::<u64>(from, steps, sizes, to.cast()),
            }
        }
    }
}

/// Packs `many` rows of `width` elements; in the source, elements are `step` and rows `row` bytes apart.
///
/// # Safety
/// As [`Line::fill`].
unsafe fn rows<T: Copy>(from: *const u8, (row, step): (isize, isize), (width, many): (usize, usize), to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            2 => constant_rows::<T, 2>(from, (row, step), many, to),
            3 => constant_rows::<T, 3>(from, (row, step), many, to),
            4 => constant_rows::<T, 4>(from, (row, step), many, to),
            5 => constant_rows::<T, 5>(from, (row, step), many, to),
            6 => constant_rows::<T, 6>(from, (row, step), many, to),
            7 => constant_rows::<T, 7>(from, (row, step), many, to),
            8 => constant_rows::<T, 8>(from, (row, step), many, to),
            _ if row == 0 => {
                columns(from, (0, step), (width, 1), to);
                // All rows are equal: double the filled prefix until it is complete.
                let mut done = width;
                while done < width * many {
                    let more = done.min(width * many - done);
                    to.add(done).copy_from_nonoverlapping(to, more);
                    done += more;
                }
            }
            _ => columns(from, (row, step), (width, many), to),
        }
    }
}

/// Like [`rows`], of `W` elements each: one load and store a row where its elements are adjacent, or all the same.
///
/// # Safety
/// As [`Line::fill`].
unsafe fn constant_rows<T: Copy, const W: usize>(
    from: *const u8,
    (row, step): (isize, isize),
    many: usize,
    to: *mut T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == size_of::<T>() as isize {
            each_row::<T, W>(from, row, many, to, |at| at.cast::<[T; W]>().read_unaligned());
        } else if step == 0 {
            each_row::<T, W>(from, row, many, to, |at| [at.cast::<T>().read(); W]);
        } else {
            let element = |at: *const u8, c: usize| at.offset(c as isize * step).cast::<T>().read();
            each_row::<T, W>(from, row, many, to, |at| std::array::from_fn(|c| element(at, c)));
        }
    }
}

/// Writes `many` rows, each of which `read` returns by its address.
///
/// # Safety
/// As [`Line::fill`]; `read` may be called with the address of each row.
#[inline(always)]
unsafe fn each_row<T: Copy, const W: usize>(
    from: *const u8,
    row: isize,
    many: usize,
    to: *mut T,
    read: impl Fn(*const u8) -> [T; W],
) {
    // SAFETY: the caller's promise.
    let write = |r: usize, elements: [T; W]| unsafe { to.add(r * W).cast::<[T; W]>().write_unaligned(elements) };
    if row == 0 && many > 0 {
        let elements = read(from);
        (0..many).for_each(|r| write(r, elements));
        return;
    }
    // SAFETY: the caller's promise.
    (0..many).for_each(|r| write(r, read(unsafe { from.offset(r as isize * row) })));
}

/// Like [`rows`], element by element.
///
/// # Safety
/// As [`Line::fill`].
#[inline(always)]
unsafe fn columns<T: Copy>(from: *const u8, (row, step): (isize, isize), (width, many): (usize, usize), to: *mut T) {
    for r in 0..many {
        for c in 0..width {
            // SAFETY: the caller's promise.
            unsafe {
                let element = from.offset(r as isize * row + c as isize * step).cast::<T>();
                to.add(r * width + c).write(element.read());
            }
        }
    }
}
