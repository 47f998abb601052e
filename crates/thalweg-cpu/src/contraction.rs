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
use crate::prepare::prepare;
use crate::threads::Threads;
use crate::traffic;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thalweg_ir::DType;
use thalweg_kernel::{
    Body, Contraction, ContractionGeometry, Geometry, Kernel, Local, MatmulGeometry, Moved, Rectangle, TileGeometry,
    bodies,
};
use thalweg_runtime::{Allocation, Buffer, Error, Program, ProgramInfo};

/// A compiled contraction.
#[derive(Debug)]
pub struct ContractionProgram {
    kernel: Contraction,
    factors: [Option<Part>; 2],
    epilogue: Option<Part>,
    isa: Choice,
    threads: Arc<Threads>,
}

/// A map that is run rectangle by rectangle: a program a box.
#[derive(Debug)]
struct Part {
    programs: Vec<MapProgram>,
    bodies: Vec<Body>,
}

/// One launch of a part.
struct Job<'a> {
    part: &'a Part,
    tiles: &'a TileGeometry,
    /// Its operands, one of them standing for the block or tile.
    operands: Vec<&'a Buffer>,
    scalars: &'a [u64],
    local: u16,
    dtype: DType,
    failed: &'a AtomicBool,
}

impl Part {
    fn new(kernel: &Kernel, isa: Choice, threads: &Arc<Threads>) -> Part {
        let bodies = bodies(kernel).to_vec();
        Part { programs: bodies.iter().map(|b| MapProgram::new(b, isa, threads.clone())).collect(), bodies }
    }
}

impl Job<'_> {
    /// Computes a rectangle.
    ///
    /// # Safety
    /// `at` is the first of as many rows of elements, `pitch` from row to row, as the rectangle has, and nobody else
    /// uses them meanwhile.
    unsafe fn run(&self, of: &Rectangle, at: *mut u8, pitch: usize) {
        if self.failed.load(Relaxed) || of.rows.is_empty() || of.columns.is_empty() {
            return;
        }
        let bytes = ((of.rows.len() - 1) * pitch + of.columns.len()) * self.dtype.size();
        let at = NonNull::new(at).expect("a block has an address");
        // SAFETY: the caller's promise; the buffer goes before this returns.
        let block = unsafe { Allocation::foreign(at, bytes) };
        let mut operands = self.operands.clone();
        operands[self.local as usize] = &block;
        let local = Local { operand: self.local, pitch };
        for (n, geometry) in self.tiles.launches(of, &self.part.bodies, local) {
            let done = self.part.programs[n]
                .job(&geometry, &operands, self.scalars)
                .is_ok_and(|job| with_scratch(|scratch| job.run(0..job.chunks, scratch)).is_ok());
            if !done {
                self.failed.store(true, Relaxed);
                return;
            }
        }
    }
}

impl ContractionProgram {
    /// Compiles it.
    pub fn new(kernel: &Contraction, isa: Choice, threads: Arc<Threads>) -> ContractionProgram {
        let part = |kernel: &Kernel| Part::new(kernel, isa, &threads);
        let factors = kernel.factors.each_ref().map(|f| f.as_ref().map(|c| part(&c.kernel)));
        let epilogue = kernel.epilogue.as_ref().map(|e| part(&e.kernel));
        ContractionProgram { kernel: kernel.clone(), factors, epilogue, isa, threads }
    }

    fn launch_fused(&self, g: &ContractionGeometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let (c, p) = (&self.kernel, &g.product);
        let failed = AtomicBool::new(false);
        let (mut at, mut scalar) = (0, 0);
        let mut jobs: [Option<Job>; 2] = [None, None];
        let mut firsts = [0; 2];
        for n in 0..2 {
            firsts[n] = at;
            let Some((computed, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) else {
                check_factor(n, c.dtype, p, operands[at]);
                at += 1;
                continue;
            };
            let mut own = operands[at..at + computed.operands].to_vec();
            // Its place is the block's, which `run` puts there.
            own.push(operands[operands.len() - 1]);
            jobs[n] = Some(Job {
                part: self.factors[n].as_ref().expect("compiled with the kernel"),
                tiles,
                operands: own,
                scalars: &scalars[scalar..scalar + computed.scalars],
                local: computed.operands as u16,
                dtype: c.dtype,
                failed: &failed,
            });
            at += computed.operands;
            scalar += computed.scalars;
        }
        let blocks = [0, 1].map(|n| {
            let (job, batch) = (jobs[n].as_ref(), batch_numbers(p, n));
            move |block: Block, to: *mut u8, lead: usize| {
                let batch = batch(block.batch);
                let of = match n {
                    0 => Rectangle { batch, rows: block.lines, columns: block.terms },
                    _ => Rectangle { batch, rows: block.terms, columns: block.lines },
                };
                // SAFETY: the driver gives a block of its own that has room for it.
                unsafe { job.expect("a factor that is computed").run(&of, to, lead) }
            }
        });
        let factor = |n: usize| match &jobs[n] {
            Some(_) => Factor::Computed(&blocks[n]),
            None => strided(n, c.dtype, p, operands[firsts[n]]),
        };
        check_apart(&operands[..at], &operands[operands.len() - c.results()..]);
        let epilogue = c.epilogue.as_deref().zip(g.epilogue.as_deref()).map(|(e, tiles)| {
            let mut own = operands[at..].to_vec();
            own.insert(e.sums as usize, operands[0]);
            Job {
                part: self.epilogue.as_ref().expect("compiled with the kernel"),
                tiles,
                operands: own,
                scalars: &scalars[scalar..],
                local: e.sums,
                dtype: c.accumulator(),
                failed: &failed,
            }
        });
        let finish = |tile: Tile| {
            let of = Rectangle { batch: tile.batch, rows: tile.rows, columns: tile.columns };
            // SAFETY: the tile is the thread's, and its body reads it only.
            unsafe { epilogue.as_ref().expect("a tile has an epilogue").run(&of, tile.sums.cast_mut(), tile.lead) }
        };
        let product = contract::Contraction {
            dtype: c.dtype,
            batch: p.batch.iter().map(|d| d.0).collect(),
            m: p.m,
            n: p.n,
            k: p.k,
            left: factor(0),
            right: factor(1),
            finish: match &epilogue {
                Some(_) => Finish::Tiles(&finish),
                None => Finish::Store(result(c.dtype, p, operands[at])),
            },
        };
        contract::run(&product, self.isa, &self.threads);
        if failed.into_inner() { Err(OutOfRange.into()) } else { Ok(()) }
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

/// A factor in memory.
fn strided<'a>(n: usize, dtype: DType, p: &MatmulGeometry, operand: &Buffer) -> Factor<'a> {
    let (base, line, term) = if n == 0 { p.a } else { (p.b.0, p.b.2, p.b.1) };
    let batch = p.batch.iter().map(|d| if n == 0 { d.1 } else { d.2 }).collect();
    let first = operand.address().wrapping_offset(base * dtype.size() as isize);
    Factor::Strided { first, batch, line, term }
}

/// Where the sums go where they are the result.
fn result(dtype: DType, p: &MatmulGeometry, operand: &Buffer) -> *mut u8 {
    let sizes = p.batch.iter().map(|d| d.0).chain([p.m, p.n, dtype.size()]);
    let bytes = sizes.fold(Some(1usize), |n, d| n?.checked_mul(d));
    assert!(bytes.is_some_and(|b| b <= operand.bytes()), "the product {p:?} does not fit {operand:?}");
    operand.address()
}

/// What the product itself moves: the factors that are in memory, and the result where that is the sums.
fn product_moves(c: &Contraction, p: &MatmulGeometry) -> Moved {
    let size = c.dtype.size();
    let factor = |n: usize| {
        let (at, dims) = [(p.a, [p.m, p.k]), (p.b, [p.k, p.n])][n];
        let stride = |d: &(usize, isize, isize)| if n == 0 { d.1 } else { d.2 };
        let all = p.batch.iter().map(|d| (d.0, stride(d))).chain([(dims[0], at.1), (dims[1], at.2)]);
        all.filter(|d| d.1 != 0).map(|d| d.0).product::<usize>() * size
    };
    let read = (0..2).filter(|&n| c.factors[n].is_none()).map(factor).sum::<usize>();
    let batches: usize = p.batch.iter().map(|d| d.0).product();
    let written = if c.epilogue.is_none() { batches * p.m * p.n * size } else { 0 };
    Moved { read: read as u64, written: written as u64, ..Moved::default() }
}

/// From the number of a product to that of its factor's matrix: a factor that is broadcast has fewer.
fn batch_numbers(p: &MatmulGeometry, n: usize) -> impl Fn(usize) -> usize + Sync {
    let size = if n == 0 { p.m * p.k } else { p.k * p.n }.max(1) as isize;
    let dims: Vec<(usize, isize)> = p.batch.iter().map(|d| (d.0, if n == 0 { d.1 } else { d.2 })).collect();
    move |product: usize| {
        let (mut rest, mut at) = (product, 0);
        for &(d, stride) in dims.iter().rev() {
            at += (rest % d) as isize * stride;
            rest /= d;
        }
        (at / size) as usize
    }
}

impl Program for ContractionProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Contraction(g) = geometry else { panic!("a contraction is launched with {geometry:?}") };
        if self.kernel.is_bare() {
            matmul::launch(self.kernel.dtype, &g.product, operands, &self.threads);
            return Ok(());
        }
        self.launch_fused(g, operands, scalars)
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Contraction(g) = geometry else { panic!("a contraction is launched with {geometry:?}") };
        let c = &self.kernel;
        if c.is_bare() {
            return matmul::moves(c.dtype, &g.product, &self.threads);
        }
        let mut moved = product_moves(c, &g.product);
        let parts = c.factors.iter().zip(&g.factors).filter_map(|(c, g)| {
            let (c, g) = (c.as_deref()?, g.as_deref()?);
            Some((&c.kernel, g, c.operands as u16))
        });
        let epilogue = c.epilogue.as_deref().zip(g.epilogue.as_deref()).map(|(e, g)| (&e.kernel, g, e.sums));
        for (kernel, tiles, local) in parts.chain(epilogue) {
            let boxes = bodies(kernel).iter().zip(&tiles.boxes).filter(|(_, part)| part.geometry.points() > 0);
            moved += boxes.map(|(b, part)| traffic::map(&prepare(b), &part.geometry, Some(local))).sum();
        }
        moved
    }

    fn info(&self) -> ProgramInfo {
        let parts = self.factors.iter().flatten().chain(&self.epilogue);
        let all = crate::row::sum(parts.flat_map(|p| &p.programs).map(|p| p.info()));
        ProgramInfo { engine: self.isa.name().into(), ..all }
    }
}
