//! One product of a contraction with where its factors come from and what is made of its sums.
//!
//! In: operands and scalars of a launch, taken in their order ([`Arguments`]). Out: a [`Level`], which runs parts of one
//! product ([`Rows`]) on the calling thread.

use super::checks::{batch_number, batch_offset, check_factor};
use super::grid::grid;
use super::parts::{Job, Near, Parts, Programs};
use crate::contract::{self, Block, Factor, Finish, Grid, Numbers, Packing, Signs, Tile, Write};
use crate::engine::Choice;
use crate::simd::Shared;
use crate::threads::Threads;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, FactorOrder, MatmulGeometry, Rectangle, accumulator};
use thalweg_runtime::Buffer;

/// Who computes the products of a block, and with which threads.
pub(super) type Engine<'a> = (Choice, &'a Threads);

/// Where a factor comes from.
pub(super) enum Source<'a> {
    Memory(&'a Buffer),
    /// By a body over its own points, or over those of its transpose.
    Computed(Job<'a>, FactorOrder),
}

/// A part of one product: some rows, the first columns, and the first terms of them.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: usize,
    pub(super) terms: usize,
}

/// A product with its factors, and with what is made of its sums.
pub(super) struct Level<'a> {
    pub(super) dtype: DType,
    /// Whether the order of its sums is free.
    pub(super) free: bool,
    pub(super) product: &'a MatmulGeometry,
    pub(super) factors: [Source<'a>; 2],
    pub(super) epilogue: Option<After<'a>>,
    /// Where the right factors of the products at work are packed.
    pub(super) packed: Option<Packed>,
}

/// Right factors, packed before blocks of rows meet them: those of so many products, one behind the other.
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

    /// The factor of one product.
    fn factor(&self, batch: usize) -> Factor<'static> {
        Factor::Packed { first: self.at(batch), n: self.packing.n, k: self.packing.k }
    }
}

/// What is made of the sums.
pub(super) struct After<'a> {
    pub(super) job: Job<'a>,
    /// Number of the operand that the sums are, and of the first that is written.
    pub(super) sums: u16,
    pub(super) writes: u16,
    pub(super) along: bool,
}

/// Operands and scalars of a launch, taken one after the other.
pub(super) struct Arguments<'a> {
    pub(super) operands: &'a [&'a Buffer],
    /// Stands where a block is put.
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

    /// A product of these factors, and the one that its left factor is computed from.
    pub(super) fn level(
        &mut self,
        c: &Contraction,
        g: &'a ContractionGeometry,
        (parts, inner_parts): (&'a Parts, Option<&'a Parts>),
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
            // What it writes follows: results, or a block that is put there.
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

    /// How its right factor is packed for several blocks of rows; `None` for products of one column, which read it
    /// where it lies.
    pub(super) fn packing(&self, isa: Choice) -> Option<Packing> {
        let (n, k) = (self.product.n, self.product.k);
        (n > 1 && k > 0).then_some(Packing { numbers: self.numbers(), n, k, isa })
    }

    /// Packs a part of the right factor of a product.
    pub(super) fn pack(&self, batch: usize, part: usize) {
        let Some(packed) = &self.packed else { return };
        let block = move |block: Block, to: *mut u8, pitch: usize| self.block(1, batch, 0, block, to, pitch);
        let grid = self.grid(1, batch..batch + 1);
        let in_memory = self.in_memory(1, batch, 0);
        let factor = in_memory.unwrap_or_else(|| self.computed(1, &block, grid.as_ref()));
        // SAFETY: the factor was checked, there is room for those of so many products, and a part is one thread's.
        unsafe { packed.packing.pack(&factor, part, packed.at(batch)) }
    }

    /// Computes a block of factor `n`, of these batches, from its row `first` on.
    pub(super) fn block(&self, n: usize, batch: usize, first: usize, block: Block, to: *mut u8, pitch: usize) {
        let Source::Computed(job, _) = &self.factors[n] else { unreachable!("a factor in memory is read there") };
        let batch = batch_number(self.product, n, batch);
        let lines = first + block.lines.start..first + block.lines.end;
        let of = match self.terms_last(n) {
            true => Rectangle { batch, rows: lines, columns: block.terms },
            false => Rectangle { batch, rows: block.terms, columns: lines },
        };
        let operand = (job.operands.len() - 1) as u16;
        // SAFETY: the driver gives a block of its own that has room for it.
        unsafe { job.run(&of, &[Near { operand, at: to, pitch, dtype: self.dtype }]) }
    }

    /// Factor `n` where it is not in memory, but for a grid of it.
    pub(super) fn computed<'f>(&self, n: usize, write: Write<'f>, grid: Option<&'f Grid>) -> Factor<'f> {
        Factor::Computed { write, terms_last: self.terms_last(n), grid }
    }

    /// Whether a factor is computed in rows that are lines.
    fn terms_last(&self, n: usize) -> bool {
        let turned = matches!(self.factors[n], Source::Computed(_, FactorOrder::Turned));
        (n == 0) != turned
    }

    /// Factor `n` of one product, from line `first` on, where it is in memory.
    pub(super) fn in_memory<'f>(&self, n: usize, batch: usize, first: usize) -> Option<Factor<'f>> {
        let Source::Memory(operand) = self.factors[n] else { return None };
        let p = self.product;
        let (base, line, term) = if n == 0 { p.a } else { (p.b.0, p.b.2, p.b.1) };
        let at = base + batch_offset(p, n, batch) + line * first as isize;
        let first = operand.address().wrapping_offset(at * self.dtype.size() as isize);
        Some(Factor::Strided { first, batch: vec![], line, term })
    }

    /// Where factor `n` of these products lies, if its body only copies it.
    fn grid(&self, n: usize, batches: Range<usize>) -> Option<Grid> {
        self.lying(n, batches).filter(|grid| grid.dtype == self.dtype)
    }

    /// As `grid`, of both factors; where they are bytes that the engine multiplies, these, and what is to be known of them.
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

    /// Where the elements lie that the body of factor `n` copies, or converts.
    fn lying(&self, n: usize, batches: Range<usize>) -> Option<Grid> {
        let Source::Computed(job, _) = &self.factors[n] else { return None };
        grid(job, self.terms_last(n), self.dtype, batches.map(|batch| batch_number(self.product, n, batch)))
    }

    /// Some rows, with all columns and terms.
    pub(super) fn rows(&self, batch: usize, rows: Range<usize>) -> Rows {
        Rows { batch, rows, columns: self.product.n, terms: self.product.k }
    }

    /// Puts what is made of the sums of some rows of a product into `to`, densely: what its epilogue gives, or the sums
    /// in the dtype that they are added up in.
    pub(super) fn near(&self, of: &Rows, to: *mut u8, (isa, alone): Engine<'_>) {
        let Some(after) = &self.epilogue else { return self.sums(of, None, to, (isa, alone)) };
        let (batch, start, n, to) = (of.batch, of.rows.start, of.columns, Shared(to));
        let dtype = accumulator(self.dtype);
        let written = after.job.part.bodies[0].stores[0].access as usize;
        let result = after.job.part.bodies[0].accesses[written].dtype;
        let finish = |tile: Tile| {
            let first = tile.rows.start * n + tile.columns.start;
            // SAFETY: each tile has its place in `to`, which has room for all rows.
            let at = unsafe { to.get().add(first * result.size()) };
            let near = [
                Near { operand: after.sums, at: tile.sums.cast_mut(), pitch: tile.lead, dtype },
                Near { operand: after.writes, at, pitch: n, dtype: result },
            ];
            let rows = start + tile.rows.start..start + tile.rows.end;
            let of = Rectangle { batch, rows, columns: tile.columns };
            // SAFETY: tile and block are the thread's.
            unsafe { after.job.run(&of, &near) }
        };
        self.run(of, None, Finish::Tiles(&finish), (isa, alone));
    }

    /// Puts the sums of some rows of a product into `to`, densely, in the dtype that they are added up in. The left
    /// factor is `left`, or the level's own.
    pub(super) fn sums(&self, of: &Rows, left: Option<Factor<'_>>, to: *mut u8, (isa, alone): Engine<'_>) {
        let to = Shared(to);
        let (dtype, n) = (accumulator(self.dtype), of.columns);
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
        self.run(of, left, finish, (isa, alone));
    }

    /// Runs a part of one product.
    pub(super) fn run(&self, of: &Rows, left: Option<Factor<'_>>, finish: Finish<'_>, (isa, alone): Engine<'_>) {
        let Rows { batch, ref rows, columns, terms } = *of;
        let blocks = [0, 1].map(|n| {
            let first = if n == 0 { rows.start } else { 0 };
            move |block: Block, to: *mut u8, pitch: usize| self.block(n, batch, first, block, to, pitch)
        });
        // A product of one row reads its factors where they lie.
        let packed = self.packed.filter(|_| rows.len() > 1).map(|p| p.factor(batch));
        // Rows of the left factor do not begin with its first one here, as those of a grid do.
        let grids = [None, self.grid(1, batch..batch + 1)];
        let own = |n: usize, first: usize| {
            self.in_memory(n, batch, first).unwrap_or_else(|| self.computed(n, &blocks[n], grids[n].as_ref()))
        };
        let product = contract::Contraction {
            numbers: self.numbers(),
            batch: vec![],
            m: rows.len(),
            n: columns,
            k: terms,
            left: left.unwrap_or_else(|| own(0, rows.start)),
            right: packed.unwrap_or_else(|| own(1, 0)),
            finish,
        };
        contract::run(&product, isa, alone);
    }
}
