//! The error of a segment that failed, until somebody was told.
//!
//! A segment may fail at a cut that nobody waits for: where a loop comes round, at a change of mode, at
//! [`flush`](crate::flush()). Then its results hold the error, and who waits for everything is told, unless a read was
//! before. The first error counts.

use std::cell::RefCell;
use thalweg_runtime::Error;

thread_local! {
    static UNTOLD: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Notes the error of a segment that the calling thread ran.
pub(crate) fn untold(error: Error) {
    UNTOLD.with_borrow_mut(|first| {
        first.get_or_insert(error);
    });
}

/// A read on the calling thread gives this error.
#[cold]
pub(crate) fn told(error: &Error) {
    let same = |first: &Error| error.poisoned().to_string() == first.poisoned().to_string();
    // A thread that ends reads nothing any more.
    let _ = UNTOLD.try_with(|untold| {
        let mut first = untold.borrow_mut();
        if first.as_ref().is_some_and(same) {
            *first = None;
        }
    });
}

/// The error that nobody was told, who is told now.
pub(crate) fn take_untold() -> Option<Error> {
    UNTOLD.take()
}
