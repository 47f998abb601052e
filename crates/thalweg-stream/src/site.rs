//! Who records a gather, a scatter, or an operation in another language: for errors that are found when it runs.

use std::cell::Cell;
use std::panic::Location;

/// How an index that a caller gave became the index of the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// It is that.
    Plain,
    /// A negative one was counted from the end.
    FromEnd,
    /// Several indices were put together, -1 where one of them names nothing.
    Combined,
    /// No caller gave it: the library computed it, so that it is in range.
    Computed,
}

/// Who records a gather, a scatter, or an operation in another language.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The function that the caller called.
    pub name: &'static str,
    /// Where.
    pub at: &'static Location<'static>,
    /// What it did to the index.
    pub counted: Counted,
}

thread_local! {
    static NEXT: Cell<Option<Site>> = const { Cell::new(None) };
}

/// Says who records the next one of these on this thread.
#[inline]
pub fn site(site: Site) {
    NEXT.set(Some(site));
}

/// Who said so, once.
#[inline]
pub(crate) fn take_site() -> Option<Site> {
    NEXT.take()
}
