//! Predicted time, from cost features.

use super::access::AccessKind;
use super::correction::KernelClass;
use super::costs::{Costs, Level};
use super::features::CostFeatures;

/// Slope of the predicted time in the range where more threads join: they take over the additional work, but never all
/// of it.
const RISE: f64 = 0.05;

/// Index of the memory level at which conflicting accesses are measured.
const NEAR: usize = 2;

impl Costs {
    /// Predicted picoseconds of a launch, with the correction of its class. `footprint`: bytes that the whole segment
    /// reads and writes, which determine the memory level; equal for all plans that are compared.
    pub fn time(&self, features: &CostFeatures, footprint: u64) -> u64 {
        let level = self.level(footprint);
        let arithmetic = self.arithmetic(features, level);
        let overhead = self.overhead(features);
        let near = self.reread_time(features);
        let (one, all) = self.memory(features, level);
        let alone = self.overlapped(arithmetic, one + near) + overhead;
        let n = (self.threads as u64).min(features.chunks).max(1) as f64;
        // A few threads do not reach the bandwidth of all.
        let share = if self.threads > 1 { (n - 1.0) / (self.threads - 1) as f64 } else { 0.0 };
        let moved = one + (all - one) * share;
        let shared = self.overlapped(arithmetic / n, moved + near / n) + overhead / n;
        let work = if n > 1.0 { self.spread(alone, shared) } else { alone };
        let boxes = features.boxes.saturating_sub(1) as f64 * self.boxed;
        let fixed = self.launch + boxes + features.setup as f64 * self.setup;
        let correction =
            if self.corrections.is_empty() { 1.0 } else { self.corrections.factor(KernelClass::of(features)) };
        (((fixed + work) * correction * 1e3) as u64).max(1)
    }

    /// Lower bound in picoseconds for kernels with `launches` launches that together read `read` bytes and write
    /// `written` bytes.
    pub(crate) fn least(&self, launches: u64, read: u64, written: u64, footprint: u64) -> u64 {
        let level = self.level(footprint);
        let moved = read as f64 * level.read_all.min(level.read) + written as f64 * level.write_all.min(level.write);
        // Rounded down once per launch, as in `time`.
        ((launches as f64 * self.launch + moved) * 1e3) as u64 - launches.min(1)
    }

    /// Upper bound in picoseconds for `additions` (or equivalents by the operation table) and `read` bytes read, on one
    /// thread.
    pub(crate) fn most(&self, additions: u64, read: u64, footprint: u64) -> u64 {
        let level = self.level(footprint);
        let addition = self.simple.max(self.special).max(self.divide / 4.0);
        ((additions as f64 * addition + read as f64 * level.read.max(level.read_all)) * 2e3) as u64
    }

    /// Predicted time between one thread (`alone`) and several (`shared`): below the threshold one thread, above it a
    /// blend that never decreases with the work.
    fn spread(&self, alone: f64, shared: f64) -> f64 {
        let start = self.wake + self.parallel / 2.0;
        if alone <= start {
            return alone;
        }
        alone.min((start + (alone - start) * RISE).max(self.wake + shared))
    }

    /// Time of arithmetic and memory accesses that overlap: that of the longer one, and a fraction of the shorter one.
    fn overlapped(&self, arithmetic: f64, memory: f64) -> f64 {
        arithmetic.max(memory) + self.overlap * arithmetic.min(memory)
    }

    /// Memory time of the operands, in nanoseconds: on one thread, and on all.
    fn memory(&self, features: &CostFeatures, level: Level) -> (f64, f64) {
        let (mut read, mut write) = (0, 0);
        for t in &features.traffic {
            *(if t.write { &mut write } else { &mut read }) += t.bytes;
        }
        let (read, write) = (read as f64, write as f64);
        (read * level.read + write * level.write, read * level.read_all + write * level.write_all)
    }

    /// Time of rereads within a thread's private caches.
    fn reread_time(&self, features: &CostFeatures) -> f64 {
        let again: u64 = features.traffic.iter().map(|t| t.again).sum();
        let rows = features.rows.iter().map(|r| r.again as f64 * self.again * self.level(r.near).read);
        again as f64 * self.levels[0].read + rows.sum::<f64>()
    }

    fn arithmetic(&self, features: &CostFeatures, level: Level) -> f64 {
        let w = &features.work;
        let across = features.rows.iter().any(|r| !r.along);
        let fold = if across { self.fold_across } else { self.fold };
        let classes = [
            (w.simple, self.simple),
            (w.divide, self.divide),
            (w.special, self.special),
            (w.special_wide, self.special_wide),
            (w.convert, self.convert),
            (w.fold, fold),
            (w.scan, self.scan),
            (w.sort, self.sort),
            // Outer-axis kernels compute these as vectors, like everything else.
            (w.once, if across { self.simple } else { self.once }),
            (features.alive.saturating_sub(self.registers) as u64 * features.points, self.spill),
            (features.scattered, self.scattered),
            (features.packed, self.packing * self.simple),
            (features.positions, self.position),
        ];
        let moves: f64 = features
            .traffic
            .iter()
            .map(|t| t.elements as f64 * self.element(t.access, level) * if t.narrow { self.narrow } else { 1.0 })
            .sum();
        let product = features.product.map_or(0.0, |p| {
            let each = self.multiply_of(p.dtype, p.tf32);
            p.multiplications as f64 * each + p.count as f64 * self.product
        });
        let vectors = classes.iter().map(|&(n, ns)| n as f64 * ns).sum::<f64>() + moves;
        let vectors = if features.portable { vectors * self.portable } else { vectors };
        vectors + w.slow as f64 * self.slow + product + features.factors as f64 * self.factor
    }

    /// Additional nanoseconds per element of an access pattern, compared with contiguous elements.
    fn element(&self, way: AccessKind, level: Level) -> f64 {
        match way {
            AccessKind::Contiguous | AccessKind::Uniform => 0.0,
            AccessKind::Transposed => self.transposed,
            // Lines are fetched again, from the level where the bytes are.
            AccessKind::Conflicting => self.conflicting * (level.read / self.levels[NEAR].read).max(1.0),
            AccessKind::Strided => self.strided,
            AccessKind::Mapped => self.mapped,
            AccessKind::Close => self.close,
            AccessKind::Gathered => self.gathered,
        }
    }

    /// Overhead of loops, calls and rows, in nanoseconds.
    fn overhead(&self, features: &CostFeatures) -> f64 {
        let rows = features.rows.iter().map(|r| {
            let along = if r.along {
                r.rows as f64 * (r.passes as f64 * self.row + r.folds as f64 * self.row_fold)
            } else {
                0.0
            };
            let strips = if r.along { 0.0 } else { (r.chunks * r.passes as u64) as f64 * self.strip };
            along + strips + r.calls as f64 * self.call + r.arguments as f64 * self.argument
        });
        let inner = features.inner_launches as f64 * self.inner_launch + features.inner_setup as f64 * self.setup;
        let arguments = features.arguments as f64 * self.argument;
        features.runs as f64 * self.run + features.calls as f64 * self.call + arguments + rows.sum::<f64>() + inner
    }
}
