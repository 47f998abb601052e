//! Execution: synchronization, and the modes and settings of a thread.

use crate::Error;
use thalweg_fusion::Effort;
use thalweg_stream::{MatmulPrecision, Mode, mode, set_effort, set_mode};

/// Computes everything that the calling thread recorded and that is still held, and returns when that is done. Reading
/// a value does this by itself for the operations the value needs.
///
/// A value whose writing was deferred is computed, too, if a handle of it is held; dropped values are not.
///
/// # Errors
/// The first error since the last call, reported once: an index out of range, out of memory, a failed device. Values
/// that depend on it return the error at their read, too.
pub fn synchronize() -> Result<(), Error> {
    thalweg_stream::synchronize()
}

/// Starts everything that the calling thread recorded, without waiting: a GPU works on while more is recorded. On the
/// CPU the work is done when this returns. A failure is an error at the read of values that depend on it, and of the
/// next [`synchronize`].
pub fn flush() {
    thalweg_stream::flush();
}

/// Guard that restores the mode, also when a panic unwinds.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        set_mode(self.0);
    }
}

/// Calls `f` with fusion on or off on this thread. Off, every operation is its own kernel, for comparison and
/// debugging. The environment variable `THALWEG_FUSION=off` sets the default.
pub fn with_fusion<R>(fused: bool, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(set_mode(Mode { fused, ..mode() }));
    f()
}

/// Calls `f` with strict arithmetic on or off on this thread. On, fused and unfused execution agree to the bit (no
/// contraction of multiply and add, one order of sums), at some cost. The environment variable `THALWEG_STRICT=on` sets
/// the default.
pub fn with_strict<R>(strict: bool, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(set_mode(Mode { strict, ..mode() }));
    f()
}

/// Sets the precision of f32 matrix products, as `torch.set_float32_matmul_precision`, and returns this thread's
/// previous setting. [`MatmulPrecision::Highest`] computes in f32; [`MatmulPrecision::High`] rounds factors to TF32
/// where the device gains by it. It applies to operations recorded afterwards, on this thread and on every thread that
/// has recorded nothing yet. The environment variable `THALWEG_MATMUL_PRECISION` (`highest` or `high`) sets the
/// default.
///
/// A change cuts the stream: operations recorded before run with the precision they were recorded with. Precision is
/// part of the key of plans, in memory and on disk.
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

/// Sets the precision of f32 convolutions that a library of the device computes (cuDNN), for what this thread records
/// from now on, and returns the previous setting. `None`, the default, is the precision of matrix products; so is that of
/// other convolutions always. PyTorch's counterpart is `torch.backends.cudnn.allow_tf32`.
///
/// ```
/// use thalweg::{MatmulPrecision, set_convolution_precision};
/// let before = set_convolution_precision(Some(MatmulPrecision::High));
/// // ... convolutions that need no more than ten bits ...
/// set_convolution_precision(before);
/// ```
pub fn set_convolution_precision(precision: Option<MatmulPrecision>) -> Option<MatmulPrecision> {
    thalweg_stream::set_convolution_precision(precision)
}

/// Calls `f` with these precisions of f32 matrix products, and of convolutions by a library, on this thread.
pub fn with_precision<R>(matmul: MatmulPrecision, convolution: Option<MatmulPrecision>, f: impl FnOnce() -> R) -> R {
    struct RestoreConvolution(Option<MatmulPrecision>);
    impl Drop for RestoreConvolution {
        fn drop(&mut self) {
            thalweg_stream::set_convolution_precision(self.0);
        }
    }
    let _restore = Restore(set_mode(Mode { matmul, ..mode() }));
    let _convolution = RestoreConvolution(thalweg_stream::set_convolution_precision(convolution));
    f()
}

/// Makes this thread, and every thread that has recorded nothing yet, reproducible, or no longer so; returns this
/// thread's previous setting. The same program with the same inputs on the same kind of machine then gives the same
/// bits every time it runs, and equal calls in it give equal bits, on any number of worker threads, at fused speed.
///
/// Plans depend only on the operations that the thread recorded. They are not selected by measured time, use the
/// typical costs of a device of that kind instead of measured ones, and are not taken over from other threads. Results
/// that were never read are written all the same. Two things still depend on the program: a thread that reads a pending
/// value of another thread decides where that thread's segment ends; and under
/// [`Device::set_memory_limit`](crate::Device::set_memory_limit) the other contents of memory decide which kernels run
/// twice (to the same bits, unless only a plan with one kernel per operation fits). The environment variable
/// `THALWEG_REPRODUCIBLE=on` sets the default. docs/numerics.md compares the modes.
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

/// Allows sums by an index in any order, for what this thread records from now on, and returns the previous setting. On, a
/// GPU adds f32 and f64 of `index_add`, `scatter_add` and the gradients of gathers by atomic operations: several times as
/// fast where elements have few values each, and last bits differ from run to run. Off, the order depends on the indices
/// alone. The same holds for gradients of convolutions by cuDNN. No effect on CPUs, in strict and in
/// [reproducible](set_reproducible) mode. Off unless the environment variable
/// `THALWEG_ATOMIC_SUMS` is `on`.
///
/// ```
/// let before = thalweg::set_atomic_sums(true);
/// let x = thalweg::Tensor::zeros([3]).index_add(0, &thalweg::Tensor::new([0i64, 2, 0]), &thalweg::Tensor::ones([3]));
/// assert_eq!(x.to_vec::<f32>()?, [2.0, 0.0, 1.0]);
/// thalweg::set_atomic_sums(before);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn set_atomic_sums(on: bool) -> bool {
    thalweg_stream::set_atomic_sums(on)
}

/// Sets the effort of the plan search for segments of this thread that have no plan yet, and returns the previous
/// setting. The environment variable `THALWEG_SEARCH` (`none`, a number of [`Effort::Visits`], or `full`) sets the
/// default.
pub fn set_search_effort(effort: Effort) -> Effort {
    set_effort(effort)
}

/// Sets the fraction of its run time that a segment of this thread may spend on measuring other plans (0.05 is 5 %), or
/// `None` to measure nothing, and returns the previous setting. Without measuring, the plans that the cost model
/// prefers run. The environment variable `THALWEG_AUTOTUNE` (`off`, or a percentage) sets the default.
///
/// While plans are measured, results of a segment may differ in the last bits from run to run, as between fused and
/// unfused execution; not in strict mode.
pub fn set_measuring(share: Option<f64>) -> Option<f64> {
    thalweg_stream::set_measuring(share)
}

/// Turns deferral of unread results on or off for this thread, and returns the previous setting. A result that was
/// dropped unread in every earlier run of its segment is then not written to memory. If the program reads such a value
/// after all, it is computed then, with the same bits. On unless the environment variable `THALWEG_DEFER` is `off`.
pub fn set_deferring(on: bool) -> bool {
    thalweg_stream::set_deferring(on)
}

/// Turns cold-start execution on or off for this thread, and returns the previous setting. On, a segment without a plan
/// runs at once with unfused kernels. When it comes a second time, another thread searches for a plan, which is used as
/// soon as it is found. Off, a segment without a plan waits for the search. On unless the environment variable
/// `THALWEG_TIERS` is `off`.
///
/// As while plans are measured, results of a segment may differ in the last bits from run to run; not in strict mode.
/// In reproducible mode every segment is planned before it runs.
///
/// ```
/// # use thalweg::{Tensor, counters, set_tiers};
/// # set_tiers(true);
/// let shares = |x: &Tensor| x.softmax(-1).to_vec::<f32>();
/// let x = Tensor::from_slice(&[1.0f32; 64], [64]);
/// shares(&x)?;
/// shares(&x)?;
/// assert_eq!(counters().cold_starts, 2);
/// thalweg::finish_searches();
/// shares(&x)?;
/// assert_eq!(counters().cold_starts, 2, "it has a plan");
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn set_tiers(on: bool) -> bool {
    thalweg_stream::set_tiers(on)
}

/// Turns recomputation in backward passes on or off, and returns the previous setting; the automatic form of
/// `torch.utils.checkpoint`. It applies where the calling thread's stream is cut between the forward and the backward
/// pass. On, a value that only the backward pass reads is saved only if that is faster than recomputing it. Off, all of
/// them are saved. In strict mode gradients have the same bits either way. On unless the environment variable
/// `THALWEG_RECOMPUTE` is `off`.
///
/// ```
/// # use thalweg::{Tensor, counters};
/// let w = Tensor::randn([2048, 2048]).tracked();
/// let loss = w.sin().exp().tanh().sum(..);
/// loss.item::<f32>()?;                             // a cut: cos(w), exp(..) and tanh(..) are read by the pass
/// assert_eq!((counters().values_dropped > 0, counters().saved_bytes), (true, 0));
/// assert_eq!(loss.backward()[&w].dims(), [2048, 2048]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn set_recomputing(on: bool) -> bool {
    thalweg_stream::set_recomputing(on)
}
