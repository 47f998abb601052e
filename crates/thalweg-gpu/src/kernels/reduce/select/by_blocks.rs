//! Outer-axis rows that several blocks hold in registers, a segment each, so that memory is read once.
//!
//! In: a kernel with outer-axis rows. Out: its strategy, where two passes read operands that exceed the second-level
//! cache, and the rows fit the registers of as many co-resident blocks as may wait for one another
//! ([`crate::target::Chip::coresident_blocks`]).
//!
//! A block reads strips as wide as a cache line: each strip of rows then has few blocks to exchange with, and reads of
//! 128 bytes are as fast as wider ones.

use crate::body::gathers;
use crate::kernels::reduce::select::{LINE, RowStrategy, Spread, is_held};
use crate::target::MAX_CORESIDENT_BLOCKS;
use crate::tunable::TUNABLES;
use thalweg_kernel::{Along, Body};

/// Threads per block. Two blocks fit a multiprocessor with the registers they hold. The block's 16 warps are as many as
/// [`MAX_CORESIDENT_BLOCKS`], so 16 lanes fold the partial results of warps, and also those of blocks.
const THREADS: usize = 512;
/// Minimum number of points of a row per thread.
const MIN_STEPS: usize = 2;

impl Spread<'_> {
    /// Strategy that divides each row among co-resident blocks, which hold the row in registers; `None` if this
    /// strategy does not apply.
    pub(super) fn by_blocks(&self) -> Option<RowStrategy> {
        let (body, chip) = (self.body, self.target.chip());
        if !chip.capabilities.exchange {
            return None;
        }
        let (_, n) = self.counts();
        let is_near = |bytes: usize| {
            let cache = &TUNABLES.cache_divisor;
            cache.side(bytes <= chip.l2 / cache.get())
        };
        let points = self.space.rows() * self.space.row();
        // Small kernels return early, since this runs for all new sizes.
        let all: usize = body.accesses.iter().map(|a| a.dtype.size()).sum();
        if is_near(points * all) || !body.scans.is_empty() || !body.combined.is_empty() || gathers(body) {
            return None;
        }
        if is_near(points * self.bytes_reread()?) {
            return None;
        }
        let wide = self.line().min(LINE / 16);
        let deep = THREADS / wide;
        // Threads of a block are along the row. What a shorter row reads again is in the first-level cache.
        if n < deep * MIN_STEPS {
            return None;
        }
        let weight = self.held_between_passes() * self.lanes();
        // Half of the registers, so that a multiprocessor has two blocks; all of them where rows are too long for that.
        let fits = |steps: &usize| n.div_ceil(deep * steps) <= chip.coresident_blocks();
        let pass = self.pass_work();
        let may_hold = |s: &usize| is_held(s * weight, true) && self.is_unrolled(&pass, *s);
        let steps = (0..5).map(|s| 1 << s).take_while(may_hold).last()?;
        let steps = [steps, 2 * steps].into_iter().find(fits)?;
        if !self.is_loaded(&pass, steps, THREADS) {
            return None;
        }
        (steps >= MIN_STEPS).then_some(RowStrategy::RegistersOfBlocks {
            wide: wide as u16,
            deep: deep as u16,
            steps: steps as u8,
        })
    }

    /// Bytes per point of the operands that more than one pass would read; `None` if there are none.
    fn bytes_reread(&self) -> Option<usize> {
        let phases = thalweg_kernel::phases(self.body, false);
        let passes: Vec<_> =
            phases.list.iter().filter(|p| !p.once).map(|p| crate::kernels::reduce::select::wanted(&p.body)).collect();
        let own = |k: &usize| {
            let access = &self.body.accesses[*k];
            access.operand.is_some() && !access.per_row && passes.iter().filter(|w| w[*k].load).count() > 1
        };
        let sizes = (0..self.body.accesses.len()).filter(own).map(|k| self.body.accesses[k].dtype.size());
        Some(sizes.sum()).filter(|&bytes| bytes > 0)
    }

    /// Maximum number of 32-bit registers that a point occupies between two passes: values that earlier passes have
    /// loaded or computed and later ones use. (Whether one block holds a row is decided by [`Spread::weight`] instead,
    /// which adds up the registers of consecutive passes: the row sizes of that strategy were measured with this sum.)
    fn held_between_passes(&self) -> usize {
        let phases = thalweg_kernel::phases(self.body, true);
        let first_buffer = self.body.accesses.len();
        let passes: Vec<&Body> = phases.list.iter().filter(|p| !p.once).map(|p| &p.body).collect();
        let loads = |body: &Body, k: usize| crate::kernels::reduce::select::wanted(body).get(k).is_some_and(|w| w.load);
        let stores = |body: &Body, k: usize| body.stores.iter().any(|s| s.access as usize == k);
        let size = |k: usize| match k.checked_sub(first_buffer) {
            Some(b) => phases.buffers[b].size().max(4),
            None => self.body.accesses[k].dtype.size().max(2),
        };
        let all =
            (0..first_buffer + phases.buffers.len()).filter(|&k| k >= first_buffer || !self.body.accesses[k].per_row);
        let all: Vec<usize> = all.collect();
        let between = (1..passes.len()).map(|at| {
            let (before, behind) = passes.split_at(at);
            let made = |k: usize| before.iter().any(|p| loads(p, k) || stores(p, k));
            let held = all.iter().filter(|&&k| made(k) && behind.iter().any(|p| loads(p, k)));
            held.map(|&k| size(k).div_ceil(4)).sum::<usize>()
        });
        between.max().unwrap_or(0).max(1)
    }

    /// Number of blocks that share a row and hold it in registers.
    pub(super) fn parts(&self, strategy: RowStrategy) -> usize {
        let (_, n) = self.counts();
        match strategy {
            RowStrategy::RegistersOfBlocks { deep, steps, .. } => n.div_ceil(deep as usize * steps as usize),
            _ => 1,
        }
    }

    /// Bytes of the buffer through which this many blocks exchange partial results: two 64-bit words per element, and a
    /// header of 64 bytes (`by_blocks.cuh`).
    pub(super) fn exchange_bytes(&self, strategy: RowStrategy, blocks: usize) -> usize {
        debug_assert!(
            self.parts(strategy) <= MAX_CORESIDENT_BLOCKS && self.body.combined.iter().all(|c| c.along != Along::Fold)
        );
        64 + 16 * self.body.folds.len() * blocks * strategy.rows() as usize * self.lanes()
    }
}
