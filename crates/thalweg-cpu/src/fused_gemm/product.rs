//! One product of a contraction, with the sources of its operands A and B and its epilogue.
//!
//! In: operands and scalars of a launch, consumed in order ([`Arguments`]). Out: a [`Level`], which runs blocks of rows
//! of a product ([`Rows`]) on the calling thread.

use super::checks::{batch_number, batch_offset, check_factor};
use super::compiled_bodies::{CompiledBodies, Job, Near, Programs};
use super::copied_factor::grid;
use crate::engine::Choice;
use crate::gemm::{self, Block, Factor, Finish, Grid, Numbers, Packing, Signs, Tile, Write};
use crate::simd::Shared;
use crate::threads::Threads;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, FactorOrder, MatmulGeometry, Rectangle, accumulator};
use thalweg_runtime::Buffer;

/// Engine and thread pool that run the GEMMs of a block of rows.
pub(super) type Engine<'a> = (Choice, &'a Threads);

/// Copies a tile's accumulators, of `size` bytes each, to their places in a dense matrix of `n` columns at `to`.
///
/// # Safety
/// They are readable, there is space for them, and nobody else uses it.
pub(super) unsafe fn copy_tile(tile: &Tile, size: usize, n: usize, to: *mut u8) {
    for (i, row) in tile.rows.clone().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.wrapping_add((row * n + tile.columns.start) * size);
            to.copy_from_nonoverlapping(tile.sums.wrapping_add(i * tile.lead * size), tile.columns.len() * size);
        }
    }
}

/// Source of a matrix operand (A or B).
pub(super) enum Source<'a> {
    Memory(&'a Buffer),
    /// Computed by a body, whose domain is the operand's matrix or its transpose.
    Computed(Job<'a>, FactorOrder),
}

/// Block of one product of the batch: a range of rows, and the numbers of leading columns and leading terms that are
/// computed.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: usize,
    pub(super) terms: usize,
}

/// One GEMM of a contraction (the main one, or the producer of operand A), with the sources of A and B and its
/// epilogue.
pub(super) struct Level<'a> {
    pub(super) dtype: DType,
    /// Whether sums may be computed in another order (see [`Numbers::free`]).
    pub(super) free: bool,
    pub(super) product: &'a MatmulGeometry,
    pub(super) factors: [Source<'a>; 2],
    pub(super) epilogue: Option<After<'a>>,
    /// Packed B operands of the current group of products, if they are packed beforehand.
    pub(super) packed: Option<Packed>,
}

/// B operands of `products` products, packed consecutively before the blocks of rows run.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub(super) packing: Packing,
    pub(super) first: Shared<u8>,
    pub(super) products: usize,
}

impl Packed {
    fn at(&self, batch: usize) -> *mut u8 {
        self.first.get().wrapping_add(batch % self.products * self.packing.bytes())
    }

    /// Returns the packed operand B of one product.
    fn factor(&self, batch: usize) -> Factor<'static> {
        Factor::Packed { first: self.at(batch), n: self.packing.n, k: self.packing.k }
    }
}

/// Epilogue of a GEMM, with its launch arguments.
pub(super) struct After<'a> {
    pub(super) job: Job<'a>,
    /// Index of the epilogue's operand that holds the accumulators (`sums`), and of the first operand that it writes
    /// (`writes`).
    pub(super) sums: u16,
    pub(super) writes: u16,
    pub(super) along: bool,
}

/// Operands and scalars of a launch that are not yet consumed; each body takes its own from the front.
pub(super) struct Arguments<'a> {
    pub(super) operands: &'a [&'a Buffer],
    /// Placeholder buffer for operands that are blocks in scratch memory.
    pub(super) first: &'a Buffer,
    pub(super) scalars: &'a [u64],
    pub(super) failed: &'a AtomicBool,
}

impl<'a> Arguments<'a> {
    pub(super) fn operands(&mut self, n: usize) -> Vec<&'a Buffer> {
        let (now, rest) = self.operands.split_at(n);
        self.operands = rest;
        now.to_vec()
    }

    pub(super) fn scalars(&mut self, n: usize) -> &'a [u64] {
        let (now, rest) = self.scalars.split_at(n);
        self.scalars = rest;
        now
    }

    /// Builds the level of a GEMM, and that of the producer GEMM from which operand A is computed, if there is one.
    pub(super) fn level(
        &mut self,
        c: &Contraction,
        g: &'a ContractionGeometry,
        (parts, inner_parts): (&'a CompiledBodies, Option<&'a CompiledBodies>),
    ) -> (Level<'a>, Option<Level<'a>>) {
        let mut inner = None;
        let factors = [0, 1].map(|n| {
            let Some((prologue, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) else {
                let operand = self.operands(1)[0];
                check_factor(n, c.dtype, &g.product, operand);
                return Source::Memory(operand);
            };
            if let Some((of, g)) = prologue.inner.as_deref().zip(g.inner.as_deref()) {
                inner = Some(self.level(&of.product, g, (inner_parts.expect("compiled with the kernel"), None)).0);
            }
            let anything = self.first;
            let mut operands = self.operands(prologue.operands);
            if let Some(of) = &prologue.inner {
                operands.insert(of.sums as usize, anything);
            }
            operands.push(anything);
            let part = parts.factors[n].as_ref().expect("compiled with the kernel");
            let scalars = self.scalars(prologue.scalars);
            Source::Computed(Job { part, tiles, operands, scalars, failed: self.failed }, prologue.order)
        });
        let epilogue = c.epilogue.as_deref().zip(g.epilogue.as_deref()).map(|(e, tiles)| {
            let anything = self.first;
            let mut operands = self.operands(e.reads as usize - 1);
            operands.insert(e.sums as usize, anything);
            // The operands written follow: results, or a placeholder for a block.
            operands.extend(self.operands.iter().take(e.writes as usize));
            operands.resize((e.reads + e.writes) as usize, anything);
            let part = parts.epilogue.as_ref().expect("compiled with the kernel");
            let scalars = self.scalars(e.scalars as usize);
            let along = matches!(part.programs, Programs::Rows(_));
            let job = Job { part, tiles, operands, scalars, failed: self.failed };
            After { job, sums: e.sums, writes: e.reads, along }
        });
        (Level { dtype: c.dtype, free: super::free(c), product: &g.product, factors, epilogue, packed: None }, inner)
    }
}

impl Level<'_> {
    fn numbers(&self) -> Numbers {
        Numbers { dtype: self.dtype, free: self.free, bytes: None }
    }

    /// Returns how B is packed for several blocks of rows; `None` for products of one column, which read B in place.
    pub(super) fn packing(&self, isa: Choice) -> Option<Packing> {
        let (n, k) = (self.product.n, self.product.k);
        (n > 1 && k > 0).then_some(Packing { numbers: self.numbers(), n, k, isa })
    }

    /// Packs one chunk of operand B of a product.
    pub(super) fn pack(&self, batch: usize, part: usize) {
        let Some(packed) = &self.packed else { return };
        let block = move |block: Block, to: *mut u8, pitch: usize| self.block(1, batch, 0, block, to, pitch);
        let grid = self.grid(1, batch..batch + 1);
        let in_memory = self.in_memory(1, batch, 0);
        let factor = in_memory.unwrap_or_else(|| self.computed(1, &block, grid.as_ref()));
        // SAFETY: the factor was checked, there is space for a whole group, and each chunk is packed by one thread.
        unsafe { packed.packing.pack(&factor, part, packed.at(batch)) }
    }

    /// Computes a block of operand `n` (0 for A, 1 for B) of a batch, for lines from `first` on.
    pub(super) fn block(&self, n: usize, batch: usize, first: usize, block: Block, to: *mut u8, pitch: usize) {
        let Source::Computed(job, _) = &self.factors[n] else { unreachable!("a factor in memory is read there") };
        let batch = batch_number(self.product, n, batch);
        let lines = first + block.lines.start..first + block.lines.end;
        let of = match self.terms_last(n) {
            true => Rectangle { batch, rows: lines, columns: block.terms },
            false => Rectangle { batch, rows: block.terms, columns: lines },
        };
        let operand = (job.operands.len() - 1) as u16;
        // SAFETY: the driver passes a block of its own with enough space.
        unsafe { job.run(&of, &[Near { operand, at: to, pitch, dtype: self.dtype }]) }
    }

    /// Describes operand `n` as computed by `write`, with its memory layout if its body only copies.
    pub(super) fn computed<'f>(&self, n: usize, write: Write<'f>, grid: Option<&'f Grid>) -> Factor<'f> {
        Factor::Computed { write, terms_last: self.terms_last(n), grid }
    }

    /// Whether the rows of the domain of operand `n`'s body are lines (rows of A, columns of B) instead of terms.
    pub(super) fn terms_last(&self, n: usize) -> bool {
        let turned = matches!(self.factors[n], Source::Computed(_, FactorOrder::Turned));
        (n == 0) != turned
    }

    /// Returns operand `n` of one product as a strided matrix, from line `first` on; `None` if it is not in memory.
    pub(super) fn in_memory<'f>(&self, n: usize, batch: usize, first: usize) -> Option<Factor<'f>> {
        let Source::Memory(operand) = self.factors[n] else { return None };
        let p = self.product;
        let (base, line, term) = if n == 0 { p.a } else { (p.b.0, p.b.2, p.b.1) };
        let at = base + batch_offset(p, n, batch) + line * first as isize;
        let first = operand.address().wrapping_offset(at * self.dtype.size() as isize);
        Some(Factor::Strided { first, batch: vec![], line, term })
    }

    /// Returns operand `n` of all products of the batch as strided matrices; `None` if it is not in memory.
    pub(super) fn all_in_memory<'f>(&self, n: usize) -> Option<Factor<'f>> {
        let batch = self.batch_strides(n);
        self.in_memory(n, 0, 0).map(|factor| match factor {
            Factor::Strided { first, line, term, .. } => Factor::Strided { first, batch, line, term },
            other => other,
        })
    }

    /// Returns the strides of operand `n` along the batch dimensions, in elements.
    pub(super) fn batch_strides(&self, n: usize) -> Vec<isize> {
        self.product.batch.iter().map(|d| if n == 0 { d.1 } else { d.2 }).collect()
    }

    /// Returns the memory layout of operand `n` of these products, if its body only copies elements without conversion.
    fn grid(&self, n: usize, batches: Range<usize>) -> Option<Grid> {
        self.lying(n, batches).filter(|grid| grid.dtype == self.dtype)
    }

    /// Like `grid`, for both operands. If both are bytes that the engine can multiply, returns their layouts and
    /// signedness.
    pub(super) fn grids(&self, batches: Range<usize>, isa: Choice) -> ([Option<Grid>; 2], Option<Signs>) {
        let lying = [0, 1].map(|n| self.lying(n, batches.clone()));
        let strided = |grid: &Option<Grid>| grid.as_ref().filter(|g| g.strides().is_some()).map(|g| g.dtype);
        let bytes = match lying.each_ref().map(strided) {
            [Some(DType::I8), Some(DType::I8)] if self.dtype == DType::I32 => Some(Signs::Signed),
            [Some(DType::I8), Some(DType::U8)] if self.dtype == DType::I32 => Some(Signs::Unsigned),
            _ => None,
        };
        match bytes.filter(|_| isa.quads()) {
            Some(signs) => (lying, Some(signs)),
            None => (lying.map(|grid| grid.filter(|grid| grid.dtype == self.dtype)), None),
        }
    }

    /// Returns the memory layout of the elements that the body of operand `n` copies or converts; `None` if it
    /// computes.
    fn lying(&self, n: usize, batches: Range<usize>) -> Option<Grid> {
        let Source::Computed(job, _) = &self.factors[n] else { return None };
        grid(job, self.terms_last(n), self.dtype, batches.map(|batch| batch_number(self.product, n, batch)))
    }

    /// Returns the block of these rows with all columns and terms.
    pub(super) fn rows(&self, batch: usize, rows: Range<usize>) -> Rows {
        Rows { batch, rows, columns: self.product.n, terms: self.product.k }
    }

    /// Computes some rows of a product and stores them densely at `to`: the results of the epilogue, or, without an
    /// epilogue, the accumulators in their dtype.
    pub(super) fn near(&self, of: &Rows, to: *mut u8, (isa, alone): Engine<'_>) {
        let Some(after) = &self.epilogue else { return self.sums(of, None, to, (isa, alone)) };
        let (batch, start, n, to) = (of.batch, of.rows.start, of.columns, Shared(to));
        let dtype = accumulator(self.dtype);
        let written = after.job.part.bodies[0].stores[0].access as usize;
        let result = after.job.part.bodies[0].accesses[written].dtype;
        let finish = |tile: Tile| {
            let first = tile.rows.start * n + tile.columns.start;
            // SAFETY: each tile has its own region in `to`, which has space for all rows.
            let at = unsafe { to.get().add(first * result.size()) };
            let near = [
                Near { operand: after.sums, at: tile.sums.cast_mut(), pitch: tile.lead, dtype },
                Near { operand: after.writes, at, pitch: n, dtype: result },
            ];
            let rows = start + tile.rows.start..start + tile.rows.end;
            let of = Rectangle { batch, rows, columns: tile.columns };
            // SAFETY: the tile and the block belong to this thread.
            unsafe { after.job.run(&of, &near) }
        };
        self.run(of, None, Finish::Tiles(&finish), (isa, alone));
    }

    /// Computes the accumulators of some rows of a product and stores them densely at `to`, in their dtype. `left`
    /// replaces operand A of the level, if given.
    pub(super) fn sums(&self, of: &Rows, left: Option<Factor<'_>>, to: *mut u8, (isa, alone): Engine<'_>) {
        let to = Shared(to);
        let (dtype, n) = (accumulator(self.dtype), of.columns);
        // SAFETY: each tile has its own region in `to`, which has space for all rows.
        let copy = |tile: Tile| unsafe { copy_tile(&tile, dtype.size(), n, to.get()) };
        let finish = if dtype == self.dtype { Finish::Store(to.get()) } else { Finish::Tiles(&copy) };
        self.run(of, left, finish, (isa, alone));
    }

    /// Runs the GEMM of a block of one product. `left` replaces operand A of the level, if given; `finish` receives the
    /// accumulators.
    pub(super) fn run(&self, of: &Rows, left: Option<Factor<'_>>, finish: Finish<'_>, (isa, alone): Engine<'_>) {
        let Rows { batch, ref rows, columns, terms } = *of;
        let blocks = [0, 1].map(|n| {
            let first = if n == 0 { rows.start } else { 0 };
            move |block: Block, to: *mut u8, pitch: usize| self.block(n, batch, first, block, to, pitch)
        });
        // A product of one row reads its operands in place.
        let packed = self.packed.filter(|p| rows.len() > 1 || p.packing.serves_rows()).map(|p| p.factor(batch));
        // A layout starts at the operand's first line, but the lines of this block do not.
        let grids = [None, self.grid(1, batch..batch + 1)];
        let own = |n: usize, first: usize| {
            self.in_memory(n, batch, first).unwrap_or_else(|| self.computed(n, &blocks[n], grids[n].as_ref()))
        };
        let product = gemm::Gemm {
            numbers: self.numbers(),
            batch: vec![],
            products: 0..1,
            m: rows.len(),
            n: columns,
            k: terms,
            whole_m: self.product.m,
            left: left.unwrap_or_else(|| own(0, rows.start)),
            right: packed.unwrap_or_else(|| own(1, 0)),
            finish,
        };
        gemm::run(&product, isa, alone);
    }
}
