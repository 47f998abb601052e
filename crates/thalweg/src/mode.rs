//! Running what was recorded, and how it is run.

use crate::Error;
use thalweg_fusion::Effort;
use thalweg_stream::{MatmulPrecision, Mode, mode, set_effort, set_mode};

/// Computes everything that the calling thread recorded and that is still held, and returns when that is done. Reading a
/// value does this by itself for what the value needs.
///
/// What was not written because nobody ever read it is computed, too, if a handle of it is held; what was dropped is not.
///
/// # Errors
/// The first error of what it waited for, once: an index out of range, no memory, a failed device. The values that depend
/// on it return the error at their read, too.
pub fn synchronize() -> Result<(), Error> {
    thalweg_stream::synchronize()
}

/// Starts everything that the calling thread recorded, and waits for nothing: a GPU works on while more is recorded. On
/// the CPU it has run when this returns. What fails is an error of the read of what depends on it, and of the next
/// [`synchronize`].
pub fn flush() {
    thalweg_stream::flush();
}

/// Restores the mode, also when a panic unwinds.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        set_mode(self.0);
    }
}

/// Calls `f` with fusion on or off on this thread: off, every operation is a kernel of its own, to compare and to
/// debug. The environment variable `THALWEG_FUSION=off` sets what holds otherwise.
pub fn with_fusion<R>(fused: bool, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(set_mode(Mode { fused, ..mode() }));
    f()
}

/// Calls `f` with strict arithmetic on or off on this thread: on, fused and unfused agree to the bit (no contraction
/// of multiply and add, one order of sums), at some cost. The environment variable `THALWEG_STRICT=on` sets what
/// holds otherwise.
pub fn with_strict<R>(strict: bool, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(set_mode(Mode { strict, ..mode() }));
    f()
}

/// Sets how exactly matrix products of f32 are computed that this thread, and every thread that has recorded nothing
/// yet, records from now on, and returns what this thread had before: in f32 ([`MatmulPrecision::Highest`]), or of
/// factors rounded to TF32 where the device gains by it ([`MatmulPrecision::High`]), as
/// `torch.set_float32_matmul_precision`. The environment variable `THALWEG_MATMUL_PRECISION` (`highest` or `high`) sets
/// what holds otherwise.
///
/// It holds for operations that are recorded after it, whenever they run: where it changes, what was recorded before is
/// cut off and runs as it was recorded. Plans are told apart by it, in memory and on disk.
///
/// ```
/// use thalweg::{MatmulPrecision, set_matmul_precision};
/// let before = set_matmul_precision(MatmulPrecision::High);
/// // ... products that need no more than ten bits ...
/// set_matmul_precision(before);
/// ```
pub fn set_matmul_precision(precision: MatmulPrecision) -> MatmulPrecision {
    thalweg_stream::set_matmul_precision(precision)
}

/// Makes this thread, and every thread that has recorded nothing yet, reproducible, or no longer so; returns what this
/// thread was before. The same program with the same inputs on the same kind of machine then gives the same bits every
/// time it runs, and equal calls in it give equal bits, on any number of worker threads, at fused speed.
///
/// Plans follow from what the thread recorded alone: they do not compete by the clock, are made with the typical
/// constants of a device of that kind and not with measured ones, are not taken over from other threads, and results
/// that were never read are written all the same. Two things stay a program's own: where one thread reads what another
/// has recorded and not yet run, it decides where that thread's stretch ends; and under
/// [`Device::set_memory_limit`](crate::Device::set_memory_limit) what else is in memory decides what is computed twice
/// (to the same bits, unless nothing fits but a plan of one kernel an operation). The environment variable
/// `THALWEG_REPRODUCIBLE=on` sets what holds otherwise. docs/numerics.md compares the modes.
///
/// ```
/// thalweg::set_reproducible(true);
/// let x = thalweg::Tensor::rand([1000, 100]);
/// let call = || x.softmax(-1).mean(0).to_vec::<f32>().unwrap();
/// let first = call();
/// assert!((0..20).all(|_| call() == first));
/// ```
pub fn set_reproducible(on: bool) -> bool {
    thalweg_stream::set_reproducible(on)
}

/// Sets how long plans are searched for when this thread meets a stretch of operations for the first time, and returns
/// what was set before. The environment variable `THALWEG_SEARCH` (`none`, a number of operations written into
/// candidates, or `full`) sets what holds otherwise.
pub fn set_search_effort(effort: Effort) -> Effort {
    set_effort(effort)
}

/// Sets the share of its run time that a stretch of operations of this thread may spend on measuring other plans (0.05
/// is 5 %), or that nothing is measured, and returns what was set before. Without measuring, the plans that the cost
/// model prefers run. The environment variable `THALWEG_MEASURE` (`off`, or a percentage) sets what holds otherwise.
///
/// While plans are measured, results of a stretch may differ in the last bits from run to run, as they do between fused
/// and unfused; not in strict mode.
pub fn set_measuring(share: Option<f64>) -> Option<f64> {
    thalweg_stream::set_measuring(share)
}

/// Sets whether results of this thread that were dropped unread whenever their stretch of operations ran before are no
/// longer written to memory, and returns what was set before. Such a value is computed after all, the same to the bit,
/// if somebody reads it. On unless the environment variable `THALWEG_DEFER` is `off`.
pub fn set_deferring(on: bool) -> bool {
    thalweg_stream::set_deferring(on)
}

/// Sets whether new stretches of operations of this thread run before a plan has been searched for, and returns what
/// was set before. What comes a second time is planned for on another thread, and runs by its plan from when that is
/// there. On unless the environment variable `THALWEG_TIERS` is `off`; off, whoever meets new code waits for the search.
///
/// As while plans are measured, results of a stretch may differ in the last bits from run to run; not in strict mode.
/// In a reproducible mode every stretch is planned for before it runs.
///
/// ```
/// # use thalweg::{Tensor, counters, set_tiers};
/// # set_tiers(true);
/// let shares = |x: &Tensor| x.softmax(-1).to_vec::<f32>();
/// let x = Tensor::from_slice(&[1.0f32; 64], [64]);
/// shares(&x)?;
/// shares(&x)?;
/// assert_eq!(counters().first_sight, 2);
/// thalweg::finish_searches();
/// shares(&x)?;
/// assert_eq!(counters().first_sight, 2, "it has a plan");
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn set_tiers(on: bool) -> bool {
    thalweg_stream::set_tiers(on)
}

/// Whether what only a backward pass will read is written only where that beats computing it again, where the calling
/// thread's stream is cut between the two passes: on unless `THALWEG_RECOMPUTE=off`. Off, all of it is written. In
/// strict mode gradients have the same bits either way. Returns what it was.
///
/// ```
/// # use thalweg::{Tensor, counters};
/// let w = Tensor::randn([2048, 2048]).tracked();
/// let loss = w.sin().exp().tanh().sum(..);
/// loss.item::<f32>()?;                             // a cut: cos(w), exp(..) and tanh(..) are read by the pass
/// assert_eq!((counters().values_left > 0, counters().kept_bytes), (true, 0));
/// assert_eq!(loss.backward()[&w].dims(), [2048, 2048]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn set_recomputing(on: bool) -> bool {
    thalweg_stream::set_recomputing(on)
}
