//! Folds and scans of buffers by combines of the user's own, between phases.
//!
//! In: a buffer for each component of the elements, `n` rows of `width` columns. Out: the fold's components in the first row
//! of each, or the scan's in their place. The order is [`thalweg_kernel::order::fold_by`] and
//! [`thalweg_kernel::order::scan_by`], whose steps are made of whole vectors, so that the combine is compiled as a map
//! ([`combine_map`]), once for each way in which its arguments lie, by the engine that compiles everything else.
//!
//! A step of a scan reads what it would write over, so steps go from one set of buffers to another and back. What a step
//! leaves as it is has been there before, but for what the step before it changed last: that is copied.

use super::passes::{Arena, Places};
use crate::engine::{Choice, Engine};
use std::cell::Cell;
use thalweg_ir::Loop;
use thalweg_kernel::monoid::combine_map;
use thalweg_kernel::order::{SEGMENT, halves};
use thalweg_kernel::{Access, AccessClass, Along, Body, BodyBuilder, Node};

/// Memory that a thread keeps from scan to scan.
const KEEP_BYTES: usize = 4 << 20;

thread_local! {
    static MEMORY: Cell<Arena> = const { Cell::new(Arena::new()) };
}

/// The combines of a body, compiled.
#[derive(Default)]
pub struct Combines(Vec<Combine>);

/// A combine, compiled.
pub struct Combine {
    of: Loop,
    /// Bytes of an element of each component.
    sizes: Vec<usize>,
    /// Bytes that an element of either side loads.
    loads: [u64; 2],
    /// Both sides element by element.
    plain: Engine,
    /// One partial result before many elements; of scans.
    lead: Option<Engine>,
    /// What copies elements; of scans.
    copy: Option<Engine>,
}

/// Rectangles of elements, in elements of a buffer: the first element of the first row of each argument, the step from row
/// to row of each, the elements of a row, and how many rows.
#[derive(Clone, Copy)]
struct Rectangle<const N: usize> {
    at: [isize; N],
    step: [isize; N],
    n: usize,
    rows: usize,
}

/// A buffer for each component.
type Buffers = [*mut u8];

/// Which way a scan goes over rows of columns.
#[derive(Clone, Copy)]
struct Line {
    n: usize,
    width: usize,
    reverse: bool,
}

impl Combines {
    /// Those of a row body.
    pub fn new(body: &Body, choice: Choice) -> Combines {
        let mut list: Vec<Combine> = vec![];
        for c in &body.combined {
            let scans = body.combined.iter().any(|o| o.of == c.of && o.along != Along::Fold);
            if list.iter().all(|known| known.of != c.of) {
                list.push(Combine::new(c.of, scans, choice));
            }
        }
        Combines(list)
    }

    /// That of a phase.
    pub fn of(&self, of: Loop) -> &Combine {
        self.0.iter().find(|c| c.of == of).expect("the combines of a body are compiled with it")
    }
}

/// A map that copies elements of these sizes.
fn copy_map(of: Loop) -> Body {
    let mut b = BodyBuilder::new(true);
    let dtypes = &of.region().args;
    let n = dtypes.len() as u16;
    let from: Vec<u16> = dtypes.iter().zip(0..).map(|(&d, o)| b.access(Access::contiguous(o, d))).collect();
    let to: Vec<u16> = dtypes.iter().zip(n..).map(|(&d, o)| b.access(Access::contiguous(o, d))).collect();
    for (from, to) in from.into_iter().zip(to) {
        let x = b.node(Node::Load { access: from });
        b.store(x, to);
    }
    b.finish()
}

impl Combine {
    fn new(of: Loop, scans: bool, choice: Choice) -> Combine {
        use AccessClass::{Contiguous, Uniform};
        let engine = |before| Engine::new(&combine_map(of, [before, Contiguous]), choice);
        let sizes: Vec<usize> = of.region().args.iter().map(|d| d.size()).collect();
        let plain = combine_map(of, [Contiguous; 2]);
        let mut loads = [0; 2];
        for (access, _) in plain.loaded().into_iter().enumerate().filter(|(_, loaded)| *loaded) {
            loads[access / sizes.len()] += sizes[access % sizes.len()] as u64;
        }
        Combine {
            of,
            sizes,
            loads,
            plain: Engine::new(&plain, choice),
            lead: scans.then(|| engine(Uniform)),
            copy: scans.then(|| Engine::new(&copy_map(of), choice)),
        }
    }

    /// Calls a map whose arguments are these sets of buffers.
    ///
    /// # Safety
    /// All elements of the rectangle lie in the buffers; what is written is read at the same points alone.
    unsafe fn call<const N: usize>(&self, engine: &Engine, sets: [&Buffers; N], of: Rectangle<N>) {
        if of.n == 0 || of.rows == 0 {
            return;
        }
        let mut args = Vec::with_capacity(4 * N * self.sizes.len());
        for ((buffers, at), step) in sets.iter().zip(of.at).zip(of.step) {
            for (buffer, &size) in buffers.iter().zip(&self.sizes) {
                let first = buffer.wrapping_offset(at * size as isize);
                args.extend([first as u64, (step * size as isize) as u64, 1, 0]);
            }
        }
        // SAFETY: the caller's promise. Where lanes may have to be computed again, they are by what needs no second run.
        let done = unsafe { engine.run(&args, of.n, of.rows, engine.rereads_inputs()) };
        done.expect("a combine selects nothing by an index");
    }

    /// Folds the columns of `n` rows; the result is the first row. Nothing is done where there is no row.
    ///
    /// # Safety
    /// The buffers hold `n` rows of `width` elements each and lie apart.
    pub unsafe fn fold(&self, buffers: &Buffers, [n, width]: [usize; 2]) {
        for (half, count) in halves(n) {
            let of = Rectangle { at: [0, (half * width) as isize, 0], step: [0; 3], n: count * width, rows: 1 };
            // SAFETY: both halves lie in the buffers, and the first is written where it is read.
            unsafe { self.call(&self.plain, [buffers, buffers, buffers], of) };
        }
    }

    /// Bytes that are loaded and stored for a row of `n` elements, one of `width` side by side.
    pub fn issued(&self, along: Along, [n, width]: [usize; 2]) -> [u64; 2] {
        let size: u64 = self.sizes.iter().map(|&s| s as u64).sum();
        let both = self.loads[0] + self.loads[1];
        if along == Along::Fold {
            let pairs = n.saturating_sub(1) as u64;
            return [pairs * both, pairs * size];
        }
        let (mut put, mut copied, mut step, mut steps) = (0, 0, 1, 0);
        let segments = [(n / SEGMENT, SEGMENT), (1, n % SEGMENT)];
        while step < SEGMENT.min(n) {
            for (rows, len) in segments {
                put += (rows * (len - step.min(len))) as u64;
                copied += (rows * (step.min(len) - (step / 2).min(len))) as u64;
            }
            (step, steps) = (2 * step, steps + 1);
        }
        copied += if steps % 2 == 1 { n as u64 } else { 0 };
        let (mut loaded, mut stored) = (put * both + copied * size, (put + copied) * size);
        if n > SEGMENT {
            let [more, written] = self.issued(along, [n.div_ceil(SEGMENT), width]);
            let rest = (n - SEGMENT) as u64;
            loaded += more + rest * if width == 1 { self.loads[1] } else { both };
            stored += written + rest * size;
        }
        [loaded, stored]
    }

    /// The identity of a component, for so many columns.
    pub fn identity(&self, component: usize, width: usize) -> Vec<u64> {
        let bits = self.of.identity().nth(component).expect("a component of the combine");
        match self.sizes[component] {
            4 => vec![bits as u32 as u64 | bits << 32; width.div_ceil(2)],
            _ => vec![bits; width],
        }
    }

    /// Scans the columns of `n` rows in place.
    ///
    /// # Safety
    /// As [`Combine::fold`].
    pub unsafe fn scan(&self, buffers: &Buffers, [n, width]: [usize; 2], reverse: bool) {
        // The other set of buffers, and those of the last elements of segments, of those of these, …
        let mut places = Places::default();
        let mut sets: Vec<(usize, Vec<usize>)> = vec![];
        let mut rows = n;
        loop {
            let segments = rows.div_ceil(SEGMENT);
            sets.push((rows, self.sizes.iter().map(|s| places.take(rows * width * s)).collect()));
            if rows <= SEGMENT {
                break;
            }
            sets.push((segments, self.sizes.iter().map(|s| places.take(segments * width * s)).collect()));
            rows = segments;
        }
        let mut memory = MEMORY.take();
        let base = memory.bytes(places.bytes);
        let sets: Vec<Vec<*mut u8>> =
            sets.into_iter().map(|(_, at)| at.into_iter().map(|at| base.wrapping_add(at)).collect()).collect();
        // SAFETY: the caller's promise; the sets have room for as many rows as they are used for.
        unsafe { self.scan_in(buffers, &sets, Line { n, width, reverse }) };
        if places.bytes <= KEEP_BYTES {
            MEMORY.set(memory);
        }
    }

    /// As [`Combine::scan`], with memory: a set of buffers for the rows, then one for the last of each segment, and so on.
    ///
    /// # Safety
    /// As [`Combine::scan`]; the sets lie apart.
    unsafe fn scan_in(&self, buffers: &Buffers, sets: &[Vec<*mut u8>], line: Line) {
        let Line { n, width, reverse } = line;
        let (mut from, mut to) = (buffers, &sets[0][..]);
        let mut step = 1;
        while step < SEGMENT.min(n) {
            // SAFETY: the caller's promise.
            unsafe { self.double(from, to, step, line) };
            std::mem::swap(&mut from, &mut to);
            step *= 2;
        }
        if from.as_ptr() != buffers.as_ptr() {
            let all = Rectangle { at: [0; 2], step: [0; 2], n: n * width, rows: 1 };
            // SAFETY: both sets hold all elements.
            unsafe { self.call(self.copy.as_ref().expect("a scan copies"), [from, to], all) };
        }
        if n <= SEGMENT {
            return;
        }
        let (lasts, segments) = (&sets[1][..], n.div_ceil(SEGMENT));
        for ((from, to), size) in buffers.iter().zip(lasts).zip(&self.sizes) {
            for s in 0..segments {
                let last = line.place((s + 1) * SEGMENT - 1);
                let row = width * size;
                // SAFETY: the last element of a segment, or of the line, and a row for each.
                unsafe { std::ptr::copy_nonoverlapping(from.add(last * row), to.add(s * row), row) };
            }
        }
        // SAFETY: the caller's promise; the lasts are as many as segments, in the order of the scan.
        unsafe {
            self.scan_in(lasts, &sets[2..], Line { n: segments, width, reverse: false });
            self.put_before(lasts, buffers, Line { n, width, reverse });
        }
    }

    /// In each segment elements from number `step` on with those `step` before them.
    ///
    /// # Safety
    /// As [`Combine::scan_in`].
    unsafe fn double(&self, from: &Buffers, to: &Buffers, step: usize, line: Line) {
        let copy = self.copy.as_ref().expect("a scan copies");
        let (whole, rest) = (line.n / SEGMENT, line.n % SEGMENT);
        for (first, rows, len) in [(0, whole, SEGMENT), (whole * SEGMENT, 1, rest)] {
            let (at, row) = (|part| line.start(first, part), line.row_step());
            let changed = step.min(len)..len;
            let kept = (step / 2).min(len)..step.min(len);
            let back = if line.reverse { step as isize } else { -(step as isize) } * line.width as isize;
            // SAFETY: the caller's promise; the one set is read, the other written.
            unsafe {
                let of = Rectangle { at: [at(kept.clone()); 2], step: [row; 2], n: kept.len() * line.width, rows };
                self.call(copy, [from, to], of);
                let at = at(changed.clone());
                let n = changed.len() * line.width;
                let of = Rectangle { at: [at + back, at, at], step: [row; 3], n, rows };
                self.call(&self.plain, [from, from, to], of);
            }
        }
    }

    /// All elements of each segment but the first with the scanned last one of the segment before.
    ///
    /// # Safety
    /// As [`Combine::scan_in`].
    unsafe fn put_before(&self, lasts: &Buffers, buffers: &Buffers, line: Line) {
        let (whole, rest, width) = (line.n / SEGMENT, line.n % SEGMENT, line.width as isize);
        if line.width == 1 {
            let lead = self.lead.as_ref().expect("a scan leads");
            let row = line.row_step();
            for (segment, rows, len) in [(1, whole - 1, SEGMENT), (whole, 1, rest)] {
                let at = line.start(segment * SEGMENT, 0..len);
                let of = Rectangle { at: [segment as isize - 1, at, at], step: [1, row, row], n: len, rows };
                // SAFETY: the caller's promise.
                unsafe { self.call(lead, [lasts, buffers, buffers], of) };
            }
            return;
        }
        for segment in 1..line.n.div_ceil(SEGMENT) {
            let len = SEGMENT.min(line.n - segment * SEGMENT);
            let at = line.start(segment * SEGMENT, 0..len);
            let before = (segment as isize - 1) * width;
            let of = Rectangle { at: [before, at, at], step: [0, width, width], n: line.width, rows: len };
            // SAFETY: the caller's promise.
            unsafe { self.call(&self.plain, [lasts, buffers, buffers], of) };
        }
    }
}

impl Line {
    /// The row at a place of the scan, or the last one.
    fn place(self, i: usize) -> usize {
        let i = i.min(self.n - 1);
        if self.reverse { self.n - 1 - i } else { i }
    }

    /// The first element in memory of a part of the segment whose first row stands at that place.
    fn start(self, segment: usize, part: std::ops::Range<usize>) -> isize {
        // (Of a part that is empty it may be none.)
        let [n, first, last] = [self.n, segment + part.start, segment + part.end].map(|i| i as isize);
        let row = if self.reverse { n - last } else { first };
        row * self.width as isize
    }

    /// Elements from segment to segment.
    fn row_step(self) -> isize {
        let step = (SEGMENT * self.width) as isize;
        if self.reverse { -step } else { step }
    }
}
