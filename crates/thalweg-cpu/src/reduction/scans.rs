//! Cumulative scans between phases: from one buffer of a row (or of a strip of columns) to another.

use crate::scan;
use crate::threads::Threads;
use thalweg_ir::DType;
use thalweg_kernel::Scan;

/// Scans each of `width` columns of `n` elements, on `threads` if given.
///
/// # Safety
/// The buffers have `n` rows of `width` elements, of `dtype` and of the scan's result, aligned; they are the same
/// buffer or do not overlap.
pub unsafe fn run(
    wanted: &Scan,
    dtype: DType,
    from: *const u8,
    to: *mut u8,
    size: [usize; 2],
    threads: Option<&Threads>,
) {
    // SAFETY: the caller's promise.
    unsafe { scan::scan((wanted.op, wanted.reverse), dtype, from, to, size, threads) }
}
