//! Contractions: the kernels of [`crate::contract`] between map bodies.
//!
//! In: a [`Contraction`] with its geometry. A factor that is not in memory is computed by its body, block by block, when
//! it is packed; what is made of the sums is computed tile by tile, while these are near. Both are ordinary launches of
//! map programs on the thread that packs or has the tile, and so checked like all others.
//!
//! Always true: no operand is touched outside its bytes, whatever geometry is given, and no element is written twice.

use crate::contract::{self, Block, Factor, Finish, Tile};
use crate::engine::{Choice, OutOfRange};
use crate::launch::with_scratch;
use crate::map::MapProgram;
use crate::matmul;
use crate::memory::PRIVATE;
use crate::prepare::prepare;
use crate::row::{self, RowsProgram};
use crate::simd::Shared;
use crate::threads::Threads;
use crate::traffic;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thalweg_ir::DType;
use thalweg_kernel::{
    Body, Contraction, ContractionGeometry, Geometry, Inner, Kernel, Local, MatmulGeometry, Moved, Rectangle,
    TileGeometry, bodies,
};
use thalweg_runtime::{Allocation, Buffer, Error, Program, ProgramInfo};

/// Nanoseconds a multiplication with its addition on one thread.
const NS_PER_MULTIPLY: f64 = 0.03;

/// A compiled contraction.
#[derive(Debug)]
pub struct ContractionProgram {
    kernel: Contraction,
    factors: [Option<Part>; 2],
    /// Of the product that the left factor is computed from.
    inner: [Option<Part>; 2],
    epilogue: Option<Part>,
    isa: Choice,
    threads: Arc<Threads>,
    /// For a block of rows, which is one thread's.
    alone: Threads,
}

/// A body that is run rectangle by rectangle: a program a box, or one along rows.
#[derive(Debug)]
struct Part {
    programs: Programs,
    bodies: Vec<Body>,
}

#[derive(Debug)]
enum Programs {
    Maps(Vec<MapProgram>),
    Rows(Box<RowsProgram>),
}

/// One launch of a part.
struct Job<'a> {
    part: &'a Part,
    tiles: &'a TileGeometry,
    /// Its operands; what is in a block or tile has a place in it.
    operands: Vec<&'a Buffer>,
    scalars: &'a [u64],
    failed: &'a AtomicBool,
}

/// An operand that is a block or tile: its number, its first element, elements from row to row.
#[derive(Clone, Copy)]
struct Near {
    operand: u16,
    at: *mut u8,
    pitch: usize,
    dtype: DType,
}

impl Part {
    fn new(kernel: &Kernel, isa: Choice, threads: &Arc<Threads>) -> Part {
        let bodies = bodies(kernel).to_vec();
        let programs = match kernel {
            Kernel::Rows { body, orientation } => {
                Programs::Rows(Box::new(RowsProgram::new(body, *orientation, isa, Arc::new(Threads::new(1, 0.0)))))
            }
            _ => Programs::Maps(bodies.iter().map(|b| MapProgram::new(b, isa, threads.clone())).collect()),
        };
        Part { programs, bodies }
    }

    fn infos(&self) -> Vec<ProgramInfo> {
        match &self.programs {
            Programs::Maps(all) => all.iter().map(Program::info).collect(),
            Programs::Rows(rows) => vec![rows.info()],
        }
    }
}

impl Job<'_> {
    /// Computes a rectangle.
    ///
    /// # Safety
    /// Each of `near` has as many rows of elements as the rectangle, and nobody else uses them meanwhile.
    unsafe fn run(&self, of: &Rectangle, near: &[Near]) {
        if self.failed.load(Relaxed) || of.rows.is_empty() || of.columns.is_empty() {
            return;
        }
        let block = |n: &Near| {
            let bytes = ((of.rows.len() - 1) * n.pitch + of.columns.len()) * n.dtype.size();
            // SAFETY: the caller's promise; the buffer goes before this returns.
            unsafe { Allocation::foreign(NonNull::new(n.at).expect("a block has an address"), bytes) }
        };
        let blocks: Vec<Buffer> = near.iter().map(block).collect();
        let mut operands = self.operands.clone();
        near.iter().zip(&blocks).for_each(|(n, block)| operands[n.operand as usize] = block);
        let locals: Vec<Local> = near.iter().map(|n| Local { operand: n.operand, pitch: n.pitch }).collect();
        if !self.launch(of, &operands, &locals) {
            self.failed.store(true, Relaxed);
        }
    }

    /// Whether no index was out of range.
    fn launch(&self, of: &Rectangle, operands: &[&Buffer], locals: &[Local]) -> bool {
        match &self.part.programs {
            Programs::Rows(rows) => self.tiles.row_launches(of, &self.part.bodies[0], locals).into_iter().all(|g| {
                let geometry = Geometry::Rows(g);
                rows.launch(&geometry, operands, self.scalars).is_ok()
            }),
            Programs::Maps(maps) => self.tiles.launches(of, &self.part.bodies, locals).iter().all(|(n, geometry)| {
                let job = maps[*n].job(geometry, operands, self.scalars);
                job.is_ok_and(|job| with_scratch(|scratch| job.run(0..job.chunks, scratch)).is_ok())
            }),
        }
    }
}

/// Where a factor comes from.
enum Source<'a> {
    Memory(&'a Buffer),
    Computed(Job<'a>),
}

/// A product with its factors.
struct Level<'a> {
    dtype: DType,
    product: &'a MatmulGeometry,
    factors: [Source<'a>; 2],
}

/// Operands and scalars of a launch, taken one after the other.
struct Arguments<'a> {
    operands: &'a [&'a Buffer],
    scalars: &'a [u64],
    failed: &'a AtomicBool,
}

impl<'a> Arguments<'a> {
    fn operands(&mut self, n: usize) -> Vec<&'a Buffer> {
        let (now, rest) = self.operands.split_at(n);
        self.operands = rest;
        now.to_vec()
    }

    fn scalars(&mut self, n: usize) -> &'a [u64] {
        let (now, rest) = self.scalars.split_at(n);
        self.scalars = rest;
        now
    }

    /// A product of these factors, and the one that its left factor is computed from.
    fn level(
        &mut self,
        c: &Contraction,
        g: &'a ContractionGeometry,
        (parts, inner_parts): (&'a [Option<Part>; 2], &'a [Option<Part>; 2]),
    ) -> (Level<'a>, Option<Level<'a>>) {
        let mut inner = None;
        let factors = [0, 1].map(|n| {
            let Some((prologue, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) else {
                let operand = self.operands(1)[0];
                check_factor(n, c.dtype, &g.product, operand);
                return Source::Memory(operand);
            };
            if let Some((of, g)) = prologue.inner.as_deref().zip(g.inner.as_deref()) {
                const NONE: [Option<Part>; 2] = [None, None];
                inner = Some(self.level(&of.product, g, (inner_parts, &NONE)).0);
            }
            let anything = self.operands[0];
            let mut operands = self.operands(prologue.operands);
            if let Some(of) = &prologue.inner {
                operands.insert(of.sums as usize, anything);
            }
            operands.push(anything);
            let part = parts[n].as_ref().expect("compiled with the kernel");
            let scalars = self.scalars(prologue.scalars);
            Source::Computed(Job { part, tiles, operands, scalars, failed: self.failed })
        });
        (Level { dtype: c.dtype, product: &g.product, factors }, inner)
    }
}

impl Level<'_> {
    /// Computes a block of factor `n`, of these batches, from its row `first` on.
    fn block(&self, n: usize, batch: usize, first: usize, block: Block, to: *mut u8, pitch: usize) {
        let Source::Computed(job) = &self.factors[n] else { unreachable!("a factor in memory is read there") };
        let batch = batch_number(self.product, n, batch);
        let of = match n {
            0 => Rectangle { batch, rows: first + block.lines.start..first + block.lines.end, columns: block.terms },
            _ => Rectangle { batch, rows: block.terms, columns: block.lines },
        };
        let operand = (job.operands.len() - 1) as u16;
        // SAFETY: the driver gives a block of its own that has room for it.
        unsafe { job.run(&of, &[Near { operand, at: to, pitch, dtype: self.dtype }]) }
    }

    /// Factor `n` of one product, from line `first` on, where it is in memory.
    fn in_memory<'f>(&self, n: usize, batch: usize, first: usize) -> Option<Factor<'f>> {
        let Source::Memory(operand) = self.factors[n] else { return None };
        let p = self.product;
        let (base, line, term) = if n == 0 { p.a } else { (p.b.0, p.b.2, p.b.1) };
        let at = base + batch_offset(p, n, batch) + line * first as isize;
        let first = operand.address().wrapping_offset(at * self.dtype.size() as isize);
        Some(Factor::Strided { first, batch: vec![], line, term })
    }

    /// Puts the sums of some rows of a product into `to`, densely, in the dtype that they are added up in. The left
    /// factor is `left`, or the level's own.
    fn sums(&self, batch: usize, rows: Range<usize>, left: Option<Factor<'_>>, to: *mut u8, (isa, alone): Engine<'_>) {
        let to = Shared(to);
        let (dtype, n) = (thalweg_kernel::accumulator(self.dtype), self.product.n);
        let copy = |tile: Tile| {
            for (i, row) in tile.rows.clone().enumerate() {
                let size = dtype.size();
                // SAFETY: each tile has its place in `to`, which has room for all rows.
                unsafe {
                    let to = to.get().add((row * n + tile.columns.start) * size);
                    to.copy_from_nonoverlapping(tile.sums.add(i * tile.lead * size), tile.columns.len() * size);
                }
            }
        };
        let finish = if dtype == self.dtype { Finish::Store(to.get()) } else { Finish::Tiles(&copy) };
        self.run(batch, rows, left, finish, (isa, alone));
    }

    /// Runs some rows of one product.
    fn run(
        &self,
        batch: usize,
        rows: Range<usize>,
        left: Option<Factor<'_>>,
        finish: Finish<'_>,
        (isa, alone): Engine<'_>,
    ) {
        let blocks = [0, 1].map(|n| {
            let first = if n == 0 { rows.start } else { 0 };
            move |block: Block, to: *mut u8, pitch: usize| self.block(n, batch, first, block, to, pitch)
        });
        let own =
            |n: usize, first: usize| self.in_memory(n, batch, first).unwrap_or_else(|| Factor::Computed(&blocks[n]));
        let product = contract::Contraction {
            dtype: self.dtype,
            batch: vec![],
            m: rows.len(),
            n: self.product.n,
            k: self.product.k,
            left: left.unwrap_or_else(|| own(0, rows.start)),
            right: own(1, 0),
            finish,
        };
        contract::run(&product, isa, alone);
    }
}

/// Who computes the products of a block, and with which threads.
type Engine<'a> = (Choice, &'a Threads);

thread_local! {
    static ROWS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with this thread's room for so many bytes three times.
fn with_room(bytes: [usize; 3], work: impl FnOnce([*mut u8; 3])) {
    let words = bytes.map(|b| b.div_ceil(64) * 8);
    let mut room = ROWS.take();
    room.resize(room.len().max(words.iter().sum()), 0);
    let first = room.as_mut_ptr();
    // SAFETY: the parts follow one another within the room.
    let at = [0, words[0], words[0] + words[1]].map(|offset| unsafe { first.add(offset) }.cast());
    work(at);
    ROWS.set(room);
}

impl ContractionProgram {
    /// Compiles it.
    pub fn new(kernel: &Contraction, isa: Choice, threads: Arc<Threads>) -> ContractionProgram {
        let part = |kernel: &Kernel| Part::new(kernel, isa, &threads);
        let parts = |c: &Contraction| c.factors.each_ref().map(|f| f.as_ref().map(|p| part(&p.kernel)));
        let inner = kernel.factors[0].as_ref().and_then(|f| f.inner.as_ref());
        ContractionProgram {
            factors: parts(kernel),
            inner: inner.map_or([None, None], |i| parts(&i.product)),
            epilogue: kernel.epilogue.as_ref().map(|e| part(&e.kernel)),
            kernel: kernel.clone(),
            isa,
            threads,
            alone: Threads::new(1, 0.0),
        }
    }

    fn launch_fused(&self, g: &ContractionGeometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let (c, p) = (&self.kernel, &g.product);
        let failed = AtomicBool::new(false);
        check_apart(&operands[..c.factor_operands()], &operands[operands.len() - c.results()..]);
        let mut left = Arguments { operands, scalars, failed: &failed };
        let (level, inner) = left.level(c, g, (&self.factors, &self.inner));
        let epilogue = c.epilogue.as_deref().zip(g.epilogue.as_deref()).map(|(e, tiles)| {
            let mut own = left.operands.to_vec();
            own.insert(e.sums as usize, operands[0]);
            let part = self.epilogue.as_ref().expect("compiled with the kernel");
            (Job { part, tiles, operands: own, scalars: left.scalars, failed: &failed }, e.sums)
        });
        let store = match epilogue {
            None => result(c.dtype, p, left.operands[0]),
            Some(_) => std::ptr::null_mut(),
        };
        if c.takes_rows() {
            self.run_rows(g, (&level, inner.as_ref()), epilogue.as_ref(), Shared(store));
        } else {
            self.run_tiles(g, &level, epilogue.as_ref(), store);
        }
        if failed.into_inner() { Err(OutOfRange.into()) } else { Ok(()) }
    }

    /// All products at once, cut as the driver does.
    fn run_tiles(&self, g: &ContractionGeometry, level: &Level<'_>, epilogue: Option<&(Job<'_>, u16)>, store: *mut u8) {
        let p = &g.product;
        let dtype = self.kernel.accumulator();
        let blocks = [0, 1]
            .map(|n| move |block: Block, to: *mut u8, pitch: usize| level.block(n, block.batch, 0, block, to, pitch));
        let factor = |n: usize| match level.in_memory(n, 0, 0) {
            Some(Factor::Strided { first, line, term, .. }) => {
                let batch = p.batch.iter().map(|d| if n == 0 { d.1 } else { d.2 }).collect();
                Factor::Strided { first, batch, line, term }
            }
            _ => Factor::Computed(&blocks[n]),
        };
        let finish = |tile: Tile| {
            let (job, operand) = epilogue.expect("a tile has an epilogue");
            let of = Rectangle { batch: tile.batch, rows: tile.rows, columns: tile.columns };
            let near = Near { operand: *operand, at: tile.sums.cast_mut(), pitch: tile.lead, dtype };
            // SAFETY: the tile is the thread's, and its body reads it only.
            unsafe { job.run(&of, &[near]) }
        };
        let product = contract::Contraction {
            dtype: self.kernel.dtype,
            batch: p.batch.iter().map(|d| d.0).collect(),
            m: p.m,
            n: p.n,
            k: p.k,
            left: factor(0),
            right: factor(1),
            finish: if epilogue.is_some() { Finish::Tiles(&finish) } else { Finish::Store(store) },
        };
        contract::run(&product, self.isa, &self.threads);
    }

    /// Block after block of rows, each by one thread: the left factor of a block is computed whole, and so are its sums
    /// where what follows needs rows of them.
    fn run_rows(
        &self,
        g: &ContractionGeometry,
        (level, inner): (&Level<'_>, Option<&Level<'_>>),
        epilogue: Option<&(Job<'_>, u16)>,
        store: Shared<u8>,
    ) {
        let (c, p) = (&self.kernel, &g.product);
        let (at_a_time, batches) = (g.rows_at_a_time(c), g.batches());
        let blocks = p.m.div_ceil(at_a_time);
        let (wide, size) = (c.accumulator().size(), c.dtype.size());
        let along = epilogue.is_some_and(|(job, _)| matches!(job.part.programs, Programs::Rows(_)));
        let whole = c.factors[0].as_ref().is_some_and(|f| matches!(f.kernel, Kernel::Rows { .. }) || f.inner.is_some());
        let room = [
            if inner.is_some() { at_a_time * p.k * wide } else { 0 },
            if whole { at_a_time * p.k * size } else { 0 },
            if along { at_a_time * p.n * wide } else { 0 },
        ];
        let products = 1 + inner.is_some() as usize;
        let estimate = (batches * p.m * products) as f64 * (p.n * p.k) as f64 * NS_PER_MULTIPLY;
        let engine = (self.isa, &self.alone);
        self.threads.run(batches * blocks, 1, estimate, |range| {
            for i in range {
                let (batch, start) = (i / blocks, i % blocks * at_a_time);
                let rows = start..p.m.min(start + at_a_time);
                with_room(room, |[sums, factor, result]| {
                    let left = whole.then(|| {
                        self.left_rows(g, (level, inner), (batch, rows.clone()), [sums, factor]);
                        let (line, term) = (p.k as isize, 1);
                        Factor::Strided { first: factor.cast_const(), batch: vec![], line, term }
                    });
                    let Some((job, operand)) = epilogue else {
                        let offset = (batch * p.m + start) * p.n * size;
                        // SAFETY: these rows lie in the result, which was checked to have room for all.
                        let to = unsafe { store.get().add(offset) };
                        return level.run(batch, rows, left, Finish::Store(to), engine);
                    };
                    let near = |at: *mut u8, pitch| Near { operand: *operand, at, pitch, dtype: c.accumulator() };
                    if along {
                        level.sums(batch, rows.clone(), left, result, engine);
                        let of = Rectangle { batch, rows, columns: 0..p.n };
                        // SAFETY: the room is this thread's.
                        return unsafe { job.run(&of, &[near(result, p.n)]) };
                    }
                    let finish = |tile: Tile| {
                        let rows = start + tile.rows.start..start + tile.rows.end;
                        let of = Rectangle { batch, rows, columns: tile.columns };
                        // SAFETY: the tile is the thread's, and its body reads it only.
                        unsafe { job.run(&of, &[near(tile.sums.cast_mut(), tile.lead)]) }
                    };
                    level.run(batch, rows, left, Finish::Tiles(&finish), engine);
                });
            }
        });
    }

    /// Computes rows of the left factor, from those of the product that it is computed from.
    fn left_rows(
        &self,
        g: &ContractionGeometry,
        (level, inner): (&Level<'_>, Option<&Level<'_>>),
        (batch, rows): (usize, Range<usize>),
        [sums, factor]: [*mut u8; 2],
    ) {
        let Source::Computed(job) = &level.factors[0] else { unreachable!("a left factor that is computed") };
        let k = g.product.k;
        let batch = batch_number(&g.product, 0, batch);
        let operand = (job.operands.len() - 1) as u16;
        let mut near = vec![Near { operand, at: factor, pitch: k, dtype: self.kernel.dtype }];
        let of_inner = self.kernel.factors[0].as_ref().and_then(|f| f.inner.as_ref());
        if let Some((of, inner)) = of_inner.zip(inner) {
            inner.sums(batch, rows.clone(), None, sums, (self.isa, &self.alone));
            near.push(Near { operand: of.sums, at: sums, pitch: k, dtype: of.product.accumulator() });
        }
        // SAFETY: the room is this thread's.
        unsafe { job.run(&Rectangle { batch, rows, columns: 0..k }, &near) }
    }
}

/// Refuses a factor that reaches outside its operand.
fn check_factor(n: usize, dtype: DType, p: &MatmulGeometry, operand: &Buffer) {
    let (side, at, dims) = [("left", p.a, [p.m, p.k]), ("right", p.b, [p.k, p.n])][n];
    let stride = |d: &(usize, isize, isize)| if n == 0 { d.1 } else { d.2 };
    let all = p.batch.iter().map(|d| (d.0, stride(d))).chain([(dims[0], at.1), (dims[1], at.2)]);
    let (mut low, mut high) = (at.0 as i128, at.0 as i128);
    for (size, stride) in all {
        if size == 0 {
            return;
        }
        let span = (size as i128 - 1) * stride as i128;
        low += span.min(0);
        high += span.max(0);
    }
    let has = operand.bytes() / dtype.size();
    assert!(
        low >= 0 && high < has as i128,
        "a product reaches elements {low} to {high} of its {side} side, which has {has} ({dtype})"
    );
}

/// Refuses results that lie over what the factors are read from, which is read again after the first tile.
fn check_apart(factors: &[&Buffer], results: &[&Buffer]) {
    let range = |b: &Buffer| (b.address() as usize, b.address() as usize + b.bytes());
    for (from, to) in factors.iter().flat_map(|f| results.iter().map(move |r| (range(f), range(r)))) {
        assert!(from.0 >= to.1 || to.0 >= from.1, "a contraction's result lies over what a factor is read from");
    }
}

/// Where the sums go where they are the result.
fn result(dtype: DType, p: &MatmulGeometry, operand: &Buffer) -> *mut u8 {
    let sizes = p.batch.iter().map(|d| d.0).chain([p.m, p.n, dtype.size()]);
    let bytes = sizes.fold(Some(1usize), |n, d| n?.checked_mul(d));
    assert!(bytes.is_some_and(|b| b <= operand.bytes()), "the product {p:?} does not fit {operand:?}");
    operand.address()
}

/// What the products themselves move: the factors that are in memory, and the result where that is the sums. Blocks of
/// rows go through a right factor again, unless it stays near.
fn product_moves(c: &Contraction, g: &ContractionGeometry) -> Moved {
    let (p, size) = (&g.product, c.dtype.size());
    let again = if c.takes_rows() { p.m.div_ceil(g.rows_at_a_time(c)) } else { 1 };
    let written = if c.epilogue.is_none() { g.batches() * p.m * p.n * size } else { 0 };
    let inner = inner_of(c).zip(g.inner.as_deref()).map_or(0, |(i, g)| factors_read(&i.product, &g.product, again));
    let read = factors_read(c, p, again) + inner;
    Moved { read: read as u64, written: written as u64, ..Moved::default() }
}

/// Bytes of the factors in memory, the right one gone through so many times where it does not stay near.
fn factors_read(c: &Contraction, p: &MatmulGeometry, again: usize) -> usize {
    let size = c.dtype.size();
    let factor = |n: usize| {
        let (at, dims) = [(p.a, [p.m, p.k]), (p.b, [p.k, p.n])][n];
        let stride = |d: &(usize, isize, isize)| if n == 0 { d.1 } else { d.2 };
        let all = p.batch.iter().map(|d| (d.0, stride(d))).chain([(dims[0], at.1), (dims[1], at.2)]);
        let bytes = all.filter(|d| d.1 != 0).map(|d| d.0).product::<usize>() * size;
        if n == 1 && p.k * p.n * size > PRIVATE { bytes * again } else { bytes }
    };
    (0..2).filter(|&n| c.factors[n].is_none()).map(factor).sum()
}

/// Elements from the first matrix of factor `n` to that of a product.
fn batch_offset(p: &MatmulGeometry, n: usize, product: usize) -> isize {
    let (mut rest, mut at) = (product, 0);
    for d in p.batch.iter().rev() {
        at += (rest % d.0) as isize * if n == 0 { d.1 } else { d.2 };
        rest /= d.0;
    }
    at
}

/// From the number of a product to that of its matrix in a factor that is computed: one that is broadcast has fewer.
fn batch_number(p: &MatmulGeometry, n: usize, product: usize) -> usize {
    let size = if n == 0 { p.m * p.k } else { p.k * p.n };
    batch_offset(p, n, product) as usize / size.max(1)
}

impl Program for ContractionProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Contraction(g) = geometry else { panic!("a contraction is launched with {geometry:?}") };
        if self.kernel.is_bare() {
            matmul::launch(self.kernel.dtype, &g.product, operands, self.isa, &self.threads);
            return Ok(());
        }
        self.launch_fused(g, operands, scalars)
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Contraction(g) = geometry else { panic!("a contraction is launched with {geometry:?}") };
        let c = &self.kernel;
        if c.is_bare() {
            return matmul::moves(c.dtype, &g.product, self.isa, &self.threads);
        }
        let mut moved = product_moves(c, g);
        let mut add = |c: &'_ Contraction, g: &'_ ContractionGeometry| {
            for (f, tiles) in c.factors.iter().zip(&g.factors) {
                let Some((f, tiles)) = f.as_deref().zip(tiles.as_deref()) else { continue };
                let sums = f.inner.as_ref().map(|i| i.sums);
                let last = f.operands as u16 + sums.is_some() as u16;
                moved += part_moves(&f.kernel, tiles, &sums.into_iter().chain([last]).collect::<Vec<_>>());
            }
        };
        add(c, g);
        if let Some((of, inner)) = inner_of(c).zip(g.inner.as_deref()) {
            add(&of.product, inner);
        }
        if let Some((e, tiles)) = c.epilogue.as_deref().zip(g.epilogue.as_deref()) {
            moved += part_moves(&e.kernel, tiles, &[e.sums]);
        }
        moved
    }

    fn rereads_for(&self, operand: usize) -> bool {
        let Some((e, part)) = self.kernel.epilogue.as_ref().zip(self.epilogue.as_ref()) else { return true };
        // Its number in the epilogue: reads there include the sums.
        let own = (operand + 1).saturating_sub(self.kernel.factor_operands());
        debug_assert!(own >= e.reads as usize, "operand {operand} is written");
        match &part.programs {
            Programs::Maps(all) => all.iter().any(|p| p.rereads_for(own)),
            Programs::Rows(rows) => rows.rereads_for(own),
        }
    }

    fn info(&self) -> ProgramInfo {
        let parts = self.factors.iter().chain(&self.inner).flatten().chain(&self.epilogue);
        let all = row::sum(parts.flat_map(Part::infos));
        ProgramInfo { engine: self.isa.name().into(), ..all }
    }
}

/// The product that the left factor is computed from.
fn inner_of(c: &Contraction) -> Option<&Inner> {
    c.factors[0].as_ref().and_then(|f| f.inner.as_deref())
}

/// What a body that is run rectangle by rectangle moves; these operands stay near.
fn part_moves(kernel: &Kernel, tiles: &TileGeometry, near: &[u16]) -> Moved {
    let boxes = bodies(kernel).iter().zip(&tiles.boxes).filter(|(_, part)| part.geometry.points() > 0);
    boxes.map(|(b, part)| traffic::map(&prepare(b), &part.geometry, near)).sum()
}
