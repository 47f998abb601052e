//! Fused GEMM: contraction kernels, matrix products of [`crate::gemm`] with fused prologues and epilogues.
//!
//! In: a [`Contraction`] with its geometry. A matrix operand (A or B, called *factor* in names) that is not in memory
//! is computed by its body (the prologue), block by block, as it is packed; the epilogue runs tile by tile, while the
//! accumulators are cached. Both are ordinary launches of map programs on the thread that packs, or that has the tile,
//! and are checked like all others.
//!
//! * `compiled_bodies`: the bodies, and their launches on rectangles. `product`: one product with its factors.
//! * `small_products`: small products in groups, those that need whole rows; `small_matrices`: other ones.
//! * `causal_mask`: causal masks, which let blocks skip keys. `checks`: checks of a launch. `copied_factor`:
//!   factors that are only copied. `traffic`: memory traffic.
//!
//! Always true: no operand is accessed outside its bytes, whatever the geometry, and no element is written twice.

mod causal_mask;
mod checks;
mod compiled_bodies;
mod copied_factor;
mod product;
mod small_matrices;
mod small_products;
mod traffic;

use crate::engine::{Choice, OutOfRange};
use crate::gemm::{self, Block, Factor, Finish, Numbers, Tile};
use crate::reduction;
use crate::simd::Shared;
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use causal_mask::{Masks, VisibleKeys};
use checks::{batch_number, check_disjoint, result};
use compiled_bodies::{CompiledBodies, CompiledBody, Near, Programs};
use product::{After, Arguments, Level, Packed, Rows, Source};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_kernel::{
    Contraction, ContractionGeometry, Geometry, Inner, Kernel, MatmulGeometry, Moved, Precision, Rectangle,
};
use thalweg_runtime::{Buffer, Error, Program, ProgramInfo};

/// Estimated nanoseconds per multiply-add on one thread.
const NS_PER_MULTIPLY: f64 = 0.03;
/// Estimated nanoseconds per byte of packed B operands, on one thread.
const NS_PER_PACKED_BYTE: f64 = 0.1;

/// A compiled contraction kernel: a GEMM with its compiled prologues and epilogue.
#[derive(Debug)]
pub struct ContractionProgram {
    kernel: Contraction,
    parts: CompiledBodies,
    /// Compiled bodies of the producer GEMM from which operand A is computed (scores of attention), if there is one.
    inner: Option<CompiledBodies>,
    masks: Masks,
    isa: Choice,
    threads: Arc<Threads>,
    /// Thread pool for a block of rows: the calling thread only.
    alone: Threads,
}

/// Maximum bytes of scratch memory that a thread retains, so that it does not hold its longest rows for ever.
const MAX_RETAINED_BYTES: usize = 32 << 20;

thread_local! {
    static ROWS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with buffers of this thread's scratch memory, of these sizes in bytes.
fn with_scratch<const N: usize>(bytes: [usize; N], work: impl FnOnce([*mut u8; N])) {
    let words = bytes.map(|b| b.div_ceil(64) * 8);
    let mut room = ROWS.take();
    room.resize(room.len().max(words.iter().sum()), 0);
    let first = room.as_mut_ptr();
    let mut end = 0;
    let at = words.map(|words| {
        let start = end;
        end += words;
        // SAFETY: the buffers are consecutive within the scratch memory.
        unsafe { first.add(start) }.cast()
    });
    work(at);
    if room.len() * size_of::<u64>() <= MAX_RETAINED_BYTES {
        ROWS.set(room);
    }
}

impl ContractionProgram {
    /// Compiles the prologue and epilogue bodies of a contraction.
    pub fn new(kernel: &Contraction, isa: Choice, threads: Arc<Threads>) -> ContractionProgram {
        let part = |kernel: &Kernel| CompiledBody::new(kernel, isa, &threads);
        let parts = |c: &Contraction| CompiledBodies {
            factors: c.factors.each_ref().map(|f| f.as_ref().map(|p| part(&p.kernel))),
            epilogue: c.epilogue.as_ref().map(|e| part(&e.kernel)),
        };
        ContractionProgram {
            parts: parts(kernel),
            inner: inner_of(kernel).map(|i| parts(&i.product)),
            masks: Masks::new(kernel),
            kernel: kernel.clone(),
            isa,
            threads,
            alone: Threads::new(1, 0.0),
        }
    }

    fn launch_checked(&self, g: &ContractionGeometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let (c, p) = (&self.kernel, &g.product);
        let failed = AtomicBool::new(false);
        check_disjoint(&operands[..c.factor_operands()], &operands[operands.len() - c.results()..]);
        let mut left = Arguments { operands, first: operands[0], scalars, failed: &failed };
        let (mut level, mut inner) = left.level(c, g, (&self.parts, self.inner.as_ref()));
        let store = match level.epilogue {
            None => result(c.dtype, p, left.operands[0]),
            Some(_) => std::ptr::null_mut(),
        };
        if c.takes_rows() {
            self.run_groups(g, (&mut level, inner.as_mut()), Shared(store));
        } else {
            self.run_tiles(g, &level, store);
        }
        if failed.into_inner() { Err(OutOfRange.into()) } else { Ok(()) }
    }

    /// Runs all products in one GEMM call, which chooses the tiles.
    fn run_tiles(&self, g: &ContractionGeometry, level: &Level<'_>, store: *mut u8) {
        if let Some(group) = self.matrices_at_a_time(g, level) {
            return self.run_matrices(g, level, group, Shared(store));
        }
        let p = &g.product;
        let dtype = self.kernel.accumulator();
        let blocks = [0, 1]
            .map(|n| move |block: Block, to: *mut u8, pitch: usize| level.block(n, block.batch, 0, block, to, pitch));
        let (grids, bytes) = level.grids(0..g.batches(), self.isa);
        let factor =
            |n: usize| level.all_in_memory(n).unwrap_or_else(|| level.computed(n, &blocks[n], grids[n].as_ref()));
        let finish = |tile: Tile| {
            let after = level.epilogue.as_ref().expect("a tile has an epilogue");
            let of = Rectangle { batch: tile.batch, rows: tile.rows, columns: tile.columns };
            let near = Near { operand: after.sums, at: tile.sums.cast_mut(), pitch: tile.lead, dtype };
            // SAFETY: the tile belongs to this thread, and its body only reads it.
            unsafe { after.job.run(&of, &[near]) }
        };
        let finish = if level.epilogue.is_some() { Finish::Tiles(&finish) } else { Finish::Store(store) };
        let numbers = Numbers { bytes, ..numbers(&self.kernel) };
        gemm::run(&whole(p, 0..g.batches(), numbers, [factor(0), factor(1)], finish), self.isa, &self.threads);
    }

    /// Runs products in groups as large as a memory budget allows: packs the B operands of a group, then runs its
    /// blocks of rows.
    fn run_groups<'a>(
        &self,
        g: &ContractionGeometry,
        (level, inner): (&mut Level<'a>, Option<&mut Level<'a>>),
        store: Shared<u8>,
    ) {
        let blocks = g.product.m.div_ceil(g.rows_at_a_time(&self.kernel));
        let packing = |l: &Level<'_>| l.packing(self.isa).filter(|_| blocks > 1);
        let both = [packing(level), inner.as_ref().and_then(|i| packing(i))];
        let bytes = both.map(|p| p.map_or(0, |p| p.bytes()));
        let each: usize = bytes.iter().sum();
        if each == 0 || !TUNABLES.max_packed.admits(each) {
            return self.run_rows(g, (level, inner.as_deref()), 0..g.batches(), store);
        }
        let products = (TUNABLES.packed_group.size() / each).clamp(1, g.batches().max(1));
        gemm::with_factors(products * each, |room| {
            let packed = |n: usize| {
                let first = Shared(room.wrapping_add(n * products * bytes[0]));
                both[n].map(|packing| Packed { packing, first, products })
            };
            level.packed = packed(0);
            let inner = inner.map(|inner| {
                inner.packed = packed(1);
                &*inner
            });
            let level = &*level;
            let parts = both.map(|p| p.map_or(0, |p| p.parts()));
            for first in (0..g.batches()).step_by(products) {
                let group = first..(first + products).min(g.batches());
                let all = parts[0] + parts[1];
                self.threads.run(group.len() * all, 1, (group.len() * each) as f64 * NS_PER_PACKED_BYTE, |range| {
                    for i in range {
                        let (batch, part) = (first + i / all, i % all);
                        match inner {
                            Some(inner) if part >= parts[0] => inner.pack(batch, part - parts[0]),
                            _ => level.pack(batch, part),
                        }
                    }
                });
                self.run_rows(g, (level, inner), group, store);
            }
        });
    }

    /// Runs products by blocks of rows, each on one thread. The rows of A of a block are computed whole, and so are its
    /// accumulators if the epilogue needs whole rows of them.
    fn run_rows(
        &self,
        g: &ContractionGeometry,
        (level, inner): (&Level<'_>, Option<&Level<'_>>),
        products: Range<usize>,
        store: Shared<u8>,
    ) {
        if let Some(group) = self.group_size(g, &products) {
            return self.run_small(g, (level, inner), (products, group), store);
        }
        let (c, p) = (&self.kernel, &g.product);
        let at_a_time = g.rows_at_a_time(c);
        let blocks = p.m.div_ceil(at_a_time);
        let (wide, size) = (c.accumulator().size(), c.dtype.size());
        let along = level.epilogue.as_ref().is_some_and(|e| e.along);
        let whole = self.computes_rows();
        let room = [
            inner_of(c).map_or(0, |i| at_a_time * p.k * i.dtype.size()),
            if whole { at_a_time * p.k * size } else { 0 },
            if along { at_a_time * p.n * wide } else { 0 },
        ];
        let estimate = estimate_ns(p, products.len(), inner.is_some());
        let engine = (self.isa, &self.alone);
        let sight = self.visible_keys(g, level, inner);
        self.threads.run(products.len() * blocks, 1, estimate, |range| {
            for i in range {
                let (batch, start) = (products.start + i / blocks, i % blocks * at_a_time);
                let rows = start..p.m.min(start + at_a_time);
                let of = Rows { terms: sight.of(&rows), ..level.rows(batch, rows.clone()) };
                with_scratch(room, |[sums, factor, result]| {
                    let left = whole.then(|| {
                        self.left_rows(g, (level, inner), &of, [sums, factor]);
                        let (line, term) = (of.terms as isize, 1);
                        Factor::Strided { first: factor.cast_const(), batch: vec![], line, term }
                    });
                    let Some(After { job, sums: operand, .. }) = &level.epilogue else {
                        let offset = (batch * p.m + start) * p.n * size;
                        // SAFETY: these rows are inside the result, which was checked to have space for all rows.
                        let to = unsafe { store.get().add(offset) };
                        return level.run(&of, left, Finish::Store(to), engine);
                    };
                    let near = |at: *mut u8, pitch| Near { operand: *operand, at, pitch, dtype: c.accumulator() };
                    if along {
                        level.sums(&of, left, result, engine);
                        let of = Rectangle { batch, rows, columns: 0..p.n };
                        // SAFETY: the scratch memory belongs to this thread.
                        return unsafe { job.run(&of, &[near(result, p.n)]) };
                    }
                    let finish = |tile: Tile| {
                        let rows = start + tile.rows.start..start + tile.rows.end;
                        let of = Rectangle { batch, rows, columns: tile.columns };
                        // SAFETY: the tile belongs to this thread, and its body only reads it.
                        unsafe { job.run(&of, &[near(tile.sums.cast_mut(), tile.lead)]) }
                    };
                    level.run(&of, left, Finish::Tiles(&finish), engine);
                });
            }
        });
    }

    /// Whether the rows of operand A of a block are computed whole, before its GEMM.
    fn computes_rows(&self) -> bool {
        let left = self.kernel.factors[0].as_ref();
        left.is_some_and(|f| matches!(f.kernel, Kernel::Rows { .. }) || f.inner.is_some())
    }

    /// Determines the causal mask of a launch, if operand A is attention weights.
    fn visible_keys(&self, g: &ContractionGeometry, level: &Level<'_>, inner: Option<&Level<'_>>) -> VisibleKeys {
        let epilogue = inner.and_then(|i| i.epilogue.as_ref()).map_or(&[][..], |e| e.job.scalars);
        let weights = match &level.factors[0] {
            Source::Computed(job, _) => job.scalars,
            Source::Memory(_) => &[],
        };
        self.masks.visible_keys(g, [epilogue, weights])
    }

    /// Computes rows of operand A, up to the number of terms needed, from the same rows of the producer GEMM.
    fn left_rows(
        &self,
        g: &ContractionGeometry,
        (level, inner): (&Level<'_>, Option<&Level<'_>>),
        of: &Rows,
        [sums, factor]: [*mut u8; 2],
    ) {
        let Source::Computed(job, _) = &level.factors[0] else { unreachable!("a left factor that is computed") };
        let (k, rows) = (of.terms, of.rows.clone());
        let batch = batch_number(&g.product, 0, of.batch);
        let operand = (job.operands.len() - 1) as u16;
        let mut near = vec![Near { operand, at: factor, pitch: k, dtype: self.kernel.dtype }];
        let of_inner = self.kernel.factors[0].as_ref().and_then(|f| f.inner.as_ref());
        if let Some((made, inner)) = of_inner.zip(inner) {
            let scores = Rows { columns: k, ..inner.rows(batch, rows.clone()) };
            inner.near(&scores, sums, (self.isa, &self.alone));
            near.push(Near { operand: made.sums, at: sums, pitch: k, dtype: made.dtype });
        }
        // SAFETY: the scratch memory belongs to this thread.
        unsafe { job.run(&Rectangle { batch, rows, columns: 0..k }, &near) }
    }
}

impl Program for ContractionProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Contraction(g) = geometry else { panic!("a contraction is launched with {geometry:?}") };
        self.launch_checked(g, operands, scalars)
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Contraction(g) = geometry else { panic!("a contraction is launched with {geometry:?}") };
        let c = &self.kernel;
        if c.is_unfused() {
            return gemm::traffic::moves(numbers(c), &g.product, self.isa, &self.threads);
        }
        traffic::moves(c, g)
    }

    fn rereads_for(&self, operand: usize) -> bool {
        let Some((e, part)) = self.kernel.epilogue.as_ref().zip(self.parts.epilogue.as_ref()) else { return true };
        // Index of the operand in the epilogue, whose reads include the sums.
        let own = (operand + 1).saturating_sub(self.kernel.factor_operands());
        debug_assert!(own >= e.reads as usize, "operand {operand} is written");
        match &part.programs {
            Programs::Maps(all) => all.iter().any(|p| p.rereads_for(own)),
            Programs::Rows(rows) => rows.rereads_for(own),
        }
    }

    fn info(&self) -> ProgramInfo {
        let of = |p: &CompiledBodies| {
            p.factors.iter().flatten().chain(&p.epilogue).flat_map(CompiledBody::infos).collect::<Vec<_>>()
        };
        let all = reduction::sum(of(&self.parts).into_iter().chain(self.inner.iter().flat_map(of)));
        ProgramInfo { engine: self.isa.name().into(), ..all }
    }
}

/// Returns the producer GEMM from which operand A is computed; `None` if there is none.
fn inner_of(c: &Contraction) -> Option<&Inner> {
    c.factors[0].as_ref().and_then(|f| f.inner.as_deref())
}

/// Whole products of a batch.
fn whole<'a>(
    p: &MatmulGeometry,
    products: Range<usize>,
    numbers: Numbers,
    [left, right]: [Factor<'a>; 2],
    finish: Finish<'a>,
) -> gemm::Gemm<'a> {
    let batch = p.batch.iter().map(|d| d.0).collect();
    gemm::Gemm { numbers, batch, products, m: p.m, n: p.n, k: p.k, whole_m: p.m, left, right, finish }
}

/// Estimated nanoseconds of some products of a batch, each with its producer GEMM if it has one.
fn estimate_ns(p: &MatmulGeometry, products: usize, has_inner: bool) -> f64 {
    let rows = products * p.m * (1 + has_inner as usize);
    rows as f64 * (p.n * p.k) as f64 * NS_PER_MULTIPLY
}

/// Element type and order of sums of a contraction's GEMM.
fn numbers(c: &Contraction) -> Numbers {
    Numbers { dtype: c.dtype, free: free(c), bytes: None }
}

/// Whether the sums of a contraction may be computed in another order (see [`Numbers::free`]).
fn free(c: &Contraction) -> bool {
    c.precision != Precision::Ordered
}
