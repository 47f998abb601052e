//! Count of the calling thread's looks at the data of values: what it records next may depend on them.

use std::cell::Cell;

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a look at data.
#[inline]
pub(crate) fn note_data_read() {
    READS.set(READS.get().wrapping_add(1));
}

/// Number of looks at data so far.
pub(crate) fn data_reads() -> u64 {
    READS.get()
}
