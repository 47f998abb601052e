//! Small products in groups whose bodies need no whole rows: covariances, layers of a few units, gradients of both.
//!
//! In: a contraction with computed factors or an epilogue. Out: its results. A launch of a body takes 1 to 2 µs, as long
//! as a product of 16 rows, columns and terms. So the factors of a group of consecutive products are computed by one launch
//! each, into scratch memory, the accumulators of the group are stored there, and one launch of the epilogue reads them.

use super::compiled_bodies::Near;
use super::product::{Level, Source, copy_tile};
use super::small_products::GroupBody;
use super::{ContractionProgram, estimate_ns, numbers, whole, with_scratch};
use crate::gemm::{self, Block, Factor, Finish, Numbers, Tile};
use crate::simd::Shared;
use crate::tunable::TUNABLES;
use std::ops::Range;
use thalweg_kernel::{ContractionGeometry, MatmulGeometry};

/// Number of matrices of a computed operand that the products of a batch read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matrices {
    /// One each.
    Own,
    /// One, which they share.
    Shared,
}

impl Matrices {
    /// Matrices of operand `n`; `None` if some products share one.
    fn of(p: &MatmulGeometry, n: usize) -> Option<Matrices> {
        let stride = |d: &(usize, isize, isize)| if n == 0 { d.1 } else { d.2 };
        if p.batch.iter().all(|d| stride(d) == 0 || d.0 == 1) {
            return Some(Matrices::Shared);
        }
        let mut next = (if n == 0 { p.m } else { p.n } * p.k) as isize;
        let own = p.batch.iter().rev().all(|d| {
            let is_next = stride(d) == next || d.0 == 1;
            next *= d.0 as isize;
            is_next
        });
        own.then_some(Matrices::Own)
    }

    /// Numbers of the matrices that some consecutive products read.
    fn numbers(self, products: &Range<usize>) -> Range<usize> {
        match self {
            Matrices::Own => products.clone(),
            Matrices::Shared => 0..1,
        }
    }
}

/// Operand of a group that is computed by its body.
struct GroupFactor<'a> {
    body: GroupBody<'a>,
    operand: u16,
    matrices: Matrices,
    /// Rows and columns of the body's domain for one matrix.
    sizes: [usize; 2],
}

impl ContractionProgram {
    /// Number of products whose bodies are launched together; `None` if each is to be run alone.
    pub(super) fn matrices_at_a_time(&self, g: &ContractionGeometry, level: &Level<'_>) -> Option<usize> {
        let (p, c) = (&g.product, &self.kernel);
        if p.m * p.n * p.k == 0 {
            return None;
        }
        let lines = [p.m, p.n];
        let factors = [0, 1].map(|n| match level.factors[n] {
            Source::Computed(..) => lines[n] * p.k * c.dtype.size(),
            Source::Memory(_) => 0,
        });
        let sums = level.epilogue.as_ref().map_or(0, |_| p.m * p.n * c.accumulator().size());
        let bytes = factors[0] + factors[1] + sums;
        if bytes == 0 || (0..2).any(|n| factors[n] > 0 && Matrices::of(p, n).is_none()) {
            return None;
        }
        // The order of sums may depend on where factors lie, so the number of threads has no part in this.
        let group = TUNABLES.matrices_bytes.size() / bytes;
        let most = g.batches().div_ceil(self.threads.count());
        (g.batches() > 1 && TUNABLES.min_matrices.reached_by(group)).then_some(group.min(most).max(1))
    }

    /// Runs products in groups of `group`, each group on one thread.
    pub(super) fn run_matrices(&self, g: &ContractionGeometry, level: &Level<'_>, group: usize, store: Shared<u8>) {
        let (c, p) = (&self.kernel, &g.product);
        let (carried, size) = (c.accumulator(), c.dtype.size());
        let lines = [p.m, p.n];
        let batches = g.batches();
        // A factor that its body only copies is packed from where it lies.
        let (grids, bytes) = level.grids(0..batches, self.isa);
        let made = [0, 1].map(|n| match &level.factors[n] {
            Source::Computed(job, _) if grids[n].is_none() => Some(GroupFactor {
                body: GroupBody::new(job),
                operand: (job.operands.len() - 1) as u16,
                matrices: Matrices::of(p, n).expect("as `matrices_at_a_time` found"),
                sizes: if level.terms_last(n) { [lines[n], p.k] } else { [p.k, lines[n]] },
            }),
            _ => None,
        });
        let after = level.epilogue.as_ref().map(|e| (e.sums, GroupBody::new(&e.job)));
        let of_factor = |n: usize| made[n].as_ref().map_or(0, |f| f.sizes[0] * f.sizes[1] * size);
        let matrix = p.m * p.n * carried.size();
        let room = [group * of_factor(0), group * of_factor(1), if after.is_some() { group * matrix } else { 0 }];
        let blocks = [0, 1]
            .map(|n| move |block: Block, to: *mut u8, pitch: usize| level.block(n, block.batch, 0, block, to, pitch));
        let run = |part: usize| {
            let products = part * group..batches.min((part + 1) * group);
            with_scratch(room, |[left, right, sums]| {
                let scratch = [left, right];
                let factor = |n: usize| {
                    let Some(made) = &made[n] else {
                        let copied = || level.computed(n, &blocks[n], grids[n].as_ref());
                        return level.all_in_memory(n).unwrap_or_else(copied);
                    };
                    let (at, numbers, [rows, columns]) = (scratch[n], made.matrices.numbers(&products), made.sizes);
                    let near = Near { operand: made.operand, at, pitch: columns, dtype: c.dtype };
                    // SAFETY: the scratch memory belongs to this thread, and has space for these matrices.
                    unsafe { made.body.run(numbers.start * rows..numbers.end * rows, columns, &[near]) };
                    let first = at.wrapping_sub(numbers.start * rows * columns * size).cast_const();
                    let (row, column) = (columns as isize, 1);
                    let (line, term) = if level.terms_last(n) { (row, column) } else { (column, row) };
                    Factor::Held { first, batch: level.batch_strides(n), line, term }
                };
                let to = Shared(sums.wrapping_sub(products.start * matrix));
                let copy = |tile: Tile| {
                    let to = to.get().wrapping_add(tile.batch * matrix);
                    // SAFETY: each tile has its own elements of the scratch memory.
                    unsafe { copy_tile(&tile, carried.size(), p.n, to) }
                };
                let finish = match &after {
                    None => Finish::Store(store.get()),
                    Some(_) if carried == c.dtype => Finish::Store(to.get()),
                    Some(_) => Finish::Tiles(&copy),
                };
                let numbers = Numbers { bytes, ..numbers(c) };
                let product = whole(p, products.clone(), numbers, [factor(0), factor(1)], finish);
                gemm::run(&product, self.isa, &self.alone);
                if let Some((operand, body)) = &after {
                    let near = Near { operand: *operand, at: sums, pitch: p.n, dtype: carried };
                    // SAFETY: the scratch memory belongs to this thread, and has the sums of these rows.
                    unsafe { body.run(products.start * p.m..products.end * p.m, p.n, &[near]) }
                }
            });
        };
        let estimate = estimate_ns(p, batches, false);
        self.threads.run(batches.div_ceil(group), 1, estimate, |parts| parts.for_each(run));
    }
}
