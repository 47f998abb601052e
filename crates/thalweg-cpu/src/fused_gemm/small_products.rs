//! Small products in groups: short attention, and products of few rows with row operations.
//!
//! In: a range of products of a contraction that needs whole rows, each of which is one block of rows. Out: their
//! results. The GEMMs run product by product, but each body is launched once on the rows of all products of a group,
//! which are consecutive in scratch memory: a launch takes 1 to 2 µs, as long as the GEMMs of 16 rows and 32 terms.

use super::checks::batch_number;
use super::compiled_bodies::{Job, Near};
use super::product::{Engine, Level, Rows, Source};
use super::{ContractionProgram, estimate_ns, inner_of, with_scratch};
use crate::gemm::{Factor, Finish};
use crate::simd::Shared;
use std::ops::Range;
use thalweg_ir::DType;
use thalweg_kernel::{ContractionGeometry, Inner, MatmulGeometry, Rectangle, TileGeometry, accumulator};

/// A body whose rectangles may cover the rows of several products.
pub(super) struct GroupBody<'a> {
    job: &'a Job<'a>,
    tiles: TileGeometry,
}

impl<'a> GroupBody<'a> {
    pub(super) fn new(job: &'a Job<'a>) -> GroupBody<'a> {
        GroupBody { job, tiles: job.tiles.over_batches() }
    }

    /// Runs the body on the first columns of these rows, counted over all products.
    ///
    /// # Safety
    /// As for [`Job::run`].
    pub(super) unsafe fn run(&self, rows: Range<usize>, columns: usize, near: &[Near]) {
        let Job { part, scalars, failed, .. } = *self.job;
        let job = Job { part, tiles: &self.tiles, operands: self.job.operands.clone(), scalars, failed };
        // SAFETY: the caller's promise.
        unsafe { job.run(&Rectangle { batch: 0, rows, columns: 0..columns }, near) }
    }
}

/// Operand A of a group: the body that computes it, and the product that it is computed from, if there is one, with the
/// body that follows that product's accumulators.
struct LeftRows<'a> {
    body: GroupBody<'a>,
    inner: Option<(&'a Inner, &'a Level<'a>, Option<GroupBody<'a>>)>,
    dtype: DType,
}

/// Bytes of scratch memory per row of a product, one buffer each: accumulators of the producer GEMM, what follows them,
/// operand A, and the accumulators.
fn scratch_of_row(program: &ContractionProgram, p: &MatmulGeometry, whole: bool) -> [usize; 4] {
    let c = &program.kernel;
    let inner = inner_of(c);
    let followed = inner.filter(|i| i.product.epilogue.is_some());
    [
        inner.map_or(0, |i| p.k * accumulator(i.product.dtype).size()),
        followed.map_or(0, |i| p.k * i.dtype.size()),
        if whole { p.k * c.dtype.size() } else { 0 },
        if c.epilogue.is_some() { p.n * c.accumulator().size() } else { 0 },
    ]
}

impl LeftRows<'_> {
    /// Computes operand A of consecutive products, `terms` values a row, in the buffer `factor`.
    fn compute(&self, products: Range<usize>, rows: usize, terms: usize, scratch: [*mut u8; 3], engine: Engine<'_>) {
        let [sums, followed, factor] = scratch;
        let all = products.start * rows..products.end * rows;
        let operand = (self.body.job.operands.len() - 1) as u16;
        let near = |operand, at, dtype| Near { operand, at, pitch: terms, dtype };
        let mut made = vec![near(operand, factor, self.dtype)];
        if let Some((of, level, after)) = &self.inner {
            let dtype = accumulator(level.dtype);
            for (i, batch) in products.enumerate() {
                let scores = Rows { columns: terms, ..level.rows(batch, 0..rows) };
                let to = sums.wrapping_add(i * rows * terms * dtype.size());
                level.sums(&scores, None, to, engine);
            }
            let mut values = sums;
            if let (Some(body), Some(e)) = (after, &level.epilogue) {
                let near = [near(e.sums, sums, dtype), near(e.writes, followed, of.dtype)];
                // SAFETY: the scratch memory belongs to this thread, and has space for these rows.
                unsafe { body.run(all.clone(), terms, &near) };
                values = followed;
            }
            made.push(near(of.sums, values, of.dtype));
        }
        // SAFETY: as above.
        unsafe { self.body.run(all, terms, &made) }
    }
}

impl ContractionProgram {
    /// Number of products of a range that form a group; `None` if each is to be run alone: one product, products of
    /// more rows than a block has, or an operand A that several products share.
    pub(super) fn group_size(&self, g: &ContractionGeometry, products: &Range<usize>) -> Option<usize> {
        let most = g.products_at_a_time(&self.kernel).min(products.len().div_ceil(self.threads.count()));
        let first = batch_number(&g.product, 0, products.start);
        let own = || products.clone().all(|b| batch_number(&g.product, 0, b) == first + b - products.start);
        (most > 1 && own()).then_some(most)
    }

    /// Runs products in groups of `group`, each group on one thread.
    pub(super) fn run_small<'a>(
        &self,
        g: &ContractionGeometry,
        (level, inner): (&'a Level<'a>, Option<&'a Level<'a>>),
        (products, group): (Range<usize>, usize),
        store: Shared<u8>,
    ) {
        let (c, p) = (&self.kernel, &g.product);
        let (wide, size) = (c.accumulator().size(), c.dtype.size());
        let left = self.computes_rows().then(|| {
            let Source::Computed(job, _) = &level.factors[0] else { unreachable!("a left factor that is computed") };
            let after = |l: &'a Level<'a>| l.epilogue.as_ref().map(|e| GroupBody::new(&e.job));
            let inner = inner_of(c).zip(inner).map(|(of, l)| (of, l, after(l)));
            LeftRows { body: GroupBody::new(job), inner, dtype: c.dtype }
        });
        let epilogue = level.epilogue.as_ref().map(|e| (e.sums, GroupBody::new(&e.job)));
        let room = scratch_of_row(self, p, left.is_some()).map(|bytes| group * p.m * bytes);
        let estimate = estimate_ns(p, products.len(), inner.is_some());
        let engine = (self.isa, &self.alone);
        let terms = self.visible_keys(g, level, inner).of(&(0..p.m));
        let run = |part: usize| {
            let first = products.start + part * group;
            let own = first..products.end.min(first + group);
            with_scratch(room, |[sums, followed, factor, result]| {
                if let Some(left) = &left {
                    let number = batch_number(p, 0, first);
                    left.compute(number..number + own.len(), p.m, terms, [sums, followed, factor], engine);
                }
                for (i, batch) in own.clone().enumerate() {
                    let of = Rows { terms, ..level.rows(batch, 0..p.m) };
                    let at = factor.wrapping_add(i * p.m * terms * size).cast_const();
                    let (line, term) = (terms as isize, 1);
                    let rows = left.is_some().then(|| Factor::Strided { first: at, batch: vec![], line, term });
                    if epilogue.is_some() {
                        level.sums(&of, rows, result.wrapping_add(i * p.m * p.n * wide), engine);
                    } else {
                        // SAFETY: these rows are inside the result, which was checked to have space for all rows.
                        let to = unsafe { store.get().add(batch * p.m * p.n * size) };
                        level.run(&of, rows, Finish::Store(to), engine);
                    }
                }
                if let Some((operand, body)) = &epilogue {
                    let near = Near { operand: *operand, at: result, pitch: p.n, dtype: c.accumulator() };
                    // SAFETY: the scratch memory belongs to this thread, and has space for these rows.
                    unsafe { body.run(own.start * p.m..own.end * p.m, p.n, &[near]) }
                }
            });
        };
        self.threads.run(products.len().div_ceil(group), 1, estimate, |parts| parts.for_each(run));
    }
}
