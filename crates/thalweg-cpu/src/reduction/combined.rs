//! Folds and scans of buffers by user-defined monoids, between phases.
//!
//! In: a buffer for each component of the elements, `n` rows of `width` columns. Out: a fold's result in the first row
//! of each buffer, or a scan's results in place. The order is that of [`thalweg_kernel::order::fold_by`] and
//! [`thalweg_kernel::order::scan_by`], whose steps act on whole vectors. So the monoid is compiled as a map
//! ([`combine_map`]), once for each layout of its arguments, by the same engine as all other bodies.
//!
//! A scan is computed in segments of [`SEGMENT`] elements. Within a segment, each element depends on its predecessor,
//! so several segments run side by side; if there are few columns, segments are first transposed into columns. A linear
//! recurrence along a row has native code.

use super::arena::{Arena, ArenaLayout};
use crate::engine::{Choice, Engine};
use crate::simd::{Job, dispatch};
use crate::tunable::TUNABLES;
use std::cell::Cell;
use std::ops::{Add, Mul};
use thalweg_ir::Loop;
use thalweg_kernel::monoid::combine_map;
use thalweg_kernel::order::{SEGMENT, halves};
use thalweg_kernel::{AccessClass, Along, Body, Combined};

/// Maximum bytes of scratch memory that a thread retains between scans.
const KEEP_BYTES: usize = 4 << 20;
/// Number of segments of a linear recurrence that are interleaved: each waits for the latency of a product and a sum.
const ABREAST: usize = 4;

thread_local! {
    static MEMORY: Cell<Arena> = const { Cell::new(Arena::new()) };
}

/// Estimated nanoseconds per element, on one thread, that a fold or scan takes beyond its arithmetic: elements of a
/// scan depend on each other. (A recurrence of f32, 2,048 elements a row, takes 1.1 ns an element.)
pub fn ns_per_element(combined: &Combined) -> f64 {
    match combined.along {
        Along::Fold => 0.0,
        Along::Scan | Along::Reversed => 0.5 * combined.elements().len() as f64,
    }
}

/// The compiled user-defined monoids of a row body.
#[derive(Default)]
pub struct Combines(Vec<Combine>);

/// A user-defined monoid, compiled as maps over vectors of partial results.
pub struct Combine {
    of: Loop,
    /// Bytes of an element, by component.
    sizes: Vec<usize>,
    /// Bytes that the map loads per element from the left argument, and from the right one.
    loads: [u64; 2],
    /// Map that combines two vectors of partial results, element by element.
    plain: Engine,
    /// Map that combines one partial result with each element of a vector; only for scans.
    lead: Option<Engine>,
    /// Indices of the coefficient and value components, if the monoid is a linear recurrence.
    linear: Option<[usize; 2]>,
}

/// Rectangles of elements, one for each argument of a map: its first element (`at`) and the stride between its rows
/// (`step`), both in elements of a buffer; all have `n` elements per row and `rows` rows.
#[derive(Clone, Copy)]
struct Rectangle<const N: usize> {
    at: [isize; N],
    step: [isize; N],
    n: usize,
    rows: usize,
}

/// Addresses of the buffers of a monoid's elements, one buffer per component.
type Buffers = [*mut u8];

/// Temporary buffers, one per component, in this thread's scratch memory.
struct Columns {
    memory: Arena,
    bytes: usize,
    buffers: Vec<*mut u8>,
}

impl Columns {
    fn new(sizes: &[usize], elements: usize) -> Columns {
        let mut places = ArenaLayout::default();
        let at: Vec<usize> = sizes.iter().map(|s| places.take(elements * s)).collect();
        // Taken out of the thread-local cell, so that a nested scan gets memory of its own.
        let mut memory = MEMORY.take();
        let base = memory.bytes(places.bytes);
        Columns { memory, bytes: places.bytes, buffers: at.into_iter().map(|at| base.wrapping_add(at)).collect() }
    }

    /// Returns the scratch memory to the thread for reuse, unless it is too large.
    fn end(&mut self) {
        if self.bytes <= KEEP_BYTES {
            MEMORY.set(std::mem::take(&mut self.memory));
        }
    }
}

/// Extent and direction of a scan over rows of columns.
#[derive(Clone, Copy)]
struct Line {
    n: usize,
    width: usize,
    reverse: bool,
}

impl Combines {
    /// Compiles the user-defined monoids of a row body.
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

    /// Returns the compiled form of a monoid of the body.
    pub fn of(&self, of: Loop) -> &Combine {
        self.0.iter().find(|c| c.of == of).expect("the combines of a body are compiled with it")
    }
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
            linear: of.linear(),
        }
    }

    /// Calls a map on rectangles of elements; each of its arguments is a set of buffers, the last of which is written.
    ///
    /// # Safety
    /// All elements of the rectangle are inside the buffers; elements written are read only at the same points.
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
        // SAFETY: the caller's promise. If a second run could be needed, the tile engine runs, which needs none.
        let done = unsafe { engine.run(&args, of.n, of.rows, engine.rereads_inputs()) };
        done.expect("a combine selects nothing by an index");
    }

    /// Folds each column of `n` rows to one element, in the first row. Does nothing without rows.
    ///
    /// # Safety
    /// The buffers hold `n` rows of `width` elements each and do not overlap.
    pub unsafe fn fold(&self, buffers: &Buffers, [n, width]: [usize; 2]) {
        for (half, count) in halves(n) {
            let of = Rectangle { at: [0, (half * width) as isize, 0], step: [0; 3], n: count * width, rows: 1 };
            // SAFETY: both halves are inside the buffers, and the first is written where it is read.
            unsafe { self.call(&self.plain, [buffers, buffers, buffers], of) };
        }
    }

    /// Bytes loaded, and bytes stored, by a fold or scan of `n` elements of one column, if there are `width` columns.
    pub fn issued(&self, along: Along, [n, width]: [usize; 2]) -> [u64; 2] {
        let size: u64 = self.sizes.iter().map(|&s| s as u64).sum();
        let both = self.loads[0] + self.loads[1];
        if along == Along::Fold {
            let pairs = n.saturating_sub(1) as u64;
            return [pairs * both, pairs * size];
        }
        let pairs = if self.is_native(width) { 0 } else { (n - n.div_ceil(SEGMENT)) as u64 };
        let (mut loaded, mut stored) = (pairs * both, pairs * size);
        if n > SEGMENT {
            let [more, written] = self.issued(along, [n.div_ceil(SEGMENT), width]);
            let rest = (n - SEGMENT) as u64;
            loaded += more + rest * if width == 1 { self.loads[1] } else { both };
            stored += written + rest * size;
        }
        [loaded, stored]
    }

    /// Whether scans with this many columns run in native code for linear recurrences instead of compiled maps.
    fn is_native(&self, width: usize) -> bool {
        self.linear.is_some() && width == 1
    }

    /// Identity of a component in each of `width` columns, as words.
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
    /// As for [`Combine::fold`].
    pub unsafe fn scan(&self, buffers: &Buffers, [n, width]: [usize; 2], reverse: bool) {
        let line = Line { n, width, reverse };
        // SAFETY: the caller's promise.
        unsafe { self.in_segments(buffers, line) };
        if n <= SEGMENT {
            return;
        }
        let segments = n.div_ceil(SEGMENT);
        let mut lasts = Columns::new(&self.sizes, segments * width);
        for ((from, to), size) in buffers.iter().zip(&lasts.buffers).zip(&self.sizes) {
            for s in 0..segments {
                let last = line.place((s + 1) * SEGMENT - 1);
                let row = width * size;
                // SAFETY: the last element of a segment, or of the line; there is a row for each.
                unsafe { std::ptr::copy_nonoverlapping(from.add(last * row), to.add(s * row), row) };
            }
        }
        // SAFETY: the caller's promise; there is one last element per segment, in the order of the scan.
        unsafe {
            self.scan(&lasts.buffers, [segments, width], false);
            self.put_before(&lasts.buffers, buffers, line);
        }
        lasts.end();
    }

    /// Scans each segment separately.
    ///
    /// # Safety
    /// As for [`Combine::scan`].
    unsafe fn in_segments(&self, buffers: &Buffers, line: Line) {
        let Line { n, width, .. } = line;
        let segments = n.div_ceil(SEGMENT);
        if let Some([a, b]) = self.linear.filter(|_| self.is_native(width)) {
            // SAFETY: the caller's promise, for the type with that size.
            return unsafe {
                match self.sizes[0] {
                    4 => recurrence::<f32>(buffers[a].cast(), buffers[b].cast(), line),
                    _ => recurrence::<f64>(buffers[a].cast(), buffers[b].cast(), line),
                }
            };
        }
        if segments <= 1 || TUNABLES.min_wide_segments.reached_by(width) {
            for i in (0..n).filter(|i| i % SEGMENT != 0) {
                let [before, after] = [i - 1, i].map(|i| (line.place(i) * width) as isize);
                let of = Rectangle { at: [before, after, after], step: [0; 3], n: width, rows: 1 };
                // SAFETY: the caller's promise.
                unsafe { self.call(&self.plain, [buffers, buffers, buffers], of) };
            }
            return;
        }
        let mut columns = Columns::new(&self.sizes, SEGMENT * segments * width);
        for ((own, turned), &size) in buffers.iter().zip(&columns.buffers).zip(&self.sizes) {
            // SAFETY: the columns have space for each element.
            unsafe { turn(*own, *turned, (line, size), false) };
        }
        for i in 1..SEGMENT.min(n) {
            // The last segment may be shorter.
            let lanes = segments - (n - (segments - 1) * SEGMENT <= i) as usize;
            let [before, after] = [i - 1, i].map(|i| (i * segments * width) as isize);
            let of = Rectangle { at: [before, after, after], step: [0; 3], n: lanes * width, rows: 1 };
            // SAFETY: as above.
            unsafe { self.call(&self.plain, [&columns.buffers, &columns.buffers, &columns.buffers], of) };
        }
        for ((own, turned), &size) in buffers.iter().zip(&columns.buffers).zip(&self.sizes) {
            // SAFETY: as above.
            unsafe { turn(*own, *turned, (line, size), true) };
        }
        columns.end();
    }

    /// Combines the elements of each segment, except those of the first, with the scanned last element of the segment
    /// before.
    ///
    /// # Safety
    /// As for [`Combine::scan`]; `lasts` has one row per segment.
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
    /// Row at index `i` of the scan order, or the last one.
    fn place(self, i: usize) -> usize {
        let i = i.min(self.n - 1);
        if self.reverse { self.n - 1 - i } else { i }
    }

    /// Buffer index of the lowest element of range `part` of a segment that begins at index `segment` of the scan
    /// order.
    fn start(self, segment: usize, part: std::ops::Range<usize>) -> isize {
        // (For an empty range it may be out of bounds.)
        let [n, first, last] = [self.n, segment + part.start, segment + part.end].map(|i| i as isize);
        let row = if self.reverse { n - last } else { first };
        row * self.width as isize
    }

    /// Stride between segments, in elements.
    fn row_step(self) -> isize {
        let step = (SEGMENT * self.width) as isize;
        if self.reverse { -step } else { step }
    }
}

/// Transposes segments, so that element `i` of segment `s` is at row `i`, column `s`; with `back`, the reverse.
///
/// # Safety
/// `own` holds the line's elements of `size` bytes, `turned` as many as whole segments have.
unsafe fn turn(own: *mut u8, turned: *mut u8, (line, size): (Line, usize), back: bool) {
    let (segments, row) = (line.n.div_ceil(SEGMENT), line.width * size);
    for i in 0..line.n {
        let (segment, at) = (i / SEGMENT, i % SEGMENT);
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (own.add(line.place(i) * row), turned.add((at * segments + segment) * row));
            let (from, to) = if back { (y, x) } else { (x, y) };
            match row {
                // A copy of constant size is a single instruction.
                4 => to.cast::<u32>().write(from.cast::<u32>().read()),
                8 => to.cast::<u64>().write(from.cast::<u64>().read()),
                _ => std::ptr::copy_nonoverlapping(from, to, row),
            }
        }
    }
}

/// Scans the segments of a row by the linear recurrence `(a1, b1) ∘ (a2, b2) = (a1·a2, a2·b1 + b2)`, several segments
/// interleaved. It rounds like the compiled map.
///
/// # Safety
/// Both hold the line's elements, in one column.
unsafe fn recurrence<T: Copy + Mul<Output = T> + Add<Output = T>>(a: *mut T, b: *mut T, line: Line) {
    // Compiled for the machine's instruction set: more registers hold more segments.
    dispatch(Recurrence { a, b, line });
}

struct Recurrence<T> {
    a: *mut T,
    b: *mut T,
    line: Line,
}

impl<T: Copy + Mul<Output = T> + Add<Output = T>> Job for Recurrence<T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Recurrence { a, b, line } = self;
        let whole = line.n / SEGMENT / ABREAST * ABREAST;
        for first in (0..whole).step_by(ABREAST) {
            // SAFETY: the promise of `recurrence`.
            unsafe { segments::<T, ABREAST>(a, b, line, first, SEGMENT) };
        }
        for first in whole..line.n.div_ceil(SEGMENT) {
            // SAFETY: as above.
            unsafe { segments::<T, 1>(a, b, line, first, SEGMENT.min(line.n - first * SEGMENT)) };
        }
    }
}

/// Scans `K` interleaved segments of length `len`, from segment `first` on.
///
/// # Safety
/// As for [`recurrence`].
#[inline(always)]
unsafe fn segments<T: Copy + Mul<Output = T> + Add<Output = T>, const K: usize>(
    a: *mut T,
    b: *mut T,
    line: Line,
    first: usize,
    len: usize,
) {
    // Segments of a line have a constant stride, of either sign.
    let (step, apart) = if line.reverse { (-1, -(SEGMENT as isize)) } else { (1, SEGMENT as isize) };
    let start = line.place(first * SEGMENT);
    // SAFETY: the caller's promise.
    unsafe {
        let (mut a, mut b) = (a.add(start), b.add(start));
        let mut state: [(T, T); K] = std::array::from_fn(|k| {
            let k = k as isize * apart;
            (a.offset(k).read(), b.offset(k).read())
        });
        for _ in 1..len {
            (a, b) = (a.offset(step), b.offset(step));
            for (k, (product, value)) in state.iter_mut().enumerate() {
                let k = k as isize * apart;
                let coefficient = a.offset(k).read();
                (*product, *value) = (*product * coefficient, coefficient * *value + b.offset(k).read());
                a.offset(k).write(*product);
                b.offset(k).write(*value);
            }
        }
    }
}
