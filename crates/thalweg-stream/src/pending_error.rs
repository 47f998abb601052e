//! Pending error of a failed segment: kept until somebody receives it.
//!
//! A segment may fail at a cut that nobody waits for: where a loop repeats, at a change of mode, at
//! [`flush`](crate::flush()). Its results hold the error. [`synchronize`](crate::synchronize) returns it as well,
//! unless a read has returned it before. Only the first error is kept.

use std::cell::RefCell;
use thalweg_runtime::Error;

thread_local! {
    static PENDING_ERROR: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Stores the error of a segment that the calling thread ran, if none is pending.
pub(crate) fn set_pending_error(error: Error) {
    PENDING_ERROR.with_borrow_mut(|first| {
        first.get_or_insert(error);
    });
}

/// Clears the pending error if a read on the calling thread returns the same one.
#[cold]
pub(crate) fn clear_pending_error(error: &Error) {
    let same = |first: &Error| error.poisoned().to_string() == first.poisoned().to_string();
    // The thread-local may be gone while the thread ends; no read follows then.
    let _ = PENDING_ERROR.try_with(|pending| {
        let mut first = pending.borrow_mut();
        if first.as_ref().is_some_and(same) {
            *first = None;
        }
    });
}

/// Takes the pending error, to return it.
pub(crate) fn take_pending_error() -> Option<Error> {
    PENDING_ERROR.take()
}
