//! Call sites of gathers, scatters and foreign operations, for errors that are found only when they run.

use std::cell::Cell;
use std::panic::Location;

/// Transformation of the caller's index into the index of the recorded operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// The index is recorded unchanged.
    Plain,
    /// Negative indices were resolved: they count from the end of the axis.
    FromEnd,
    /// Several indices were combined into one, -1 where any of them is out of range.
    Combined,
    /// Computed by the library, not given by a caller, so it is in range by construction.
    Computed,
}

/// Call site that recorded a gather, a scatter or a foreign operation.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Name of the function that the caller called.
    pub name: &'static str,
    /// Source location of the call.
    pub at: &'static Location<'static>,
    /// Transformation that the function applied to the index.
    pub counted: Counted,
}

thread_local! {
    static NEXT: Cell<Option<Site>> = const { Cell::new(None) };
}

/// Sets the call site of the next gather, scatter or foreign operation that this thread records.
#[inline]
pub fn site(site: Site) {
    NEXT.set(Some(site));
}

/// Takes the call site that [`site`] set.
#[inline]
pub(crate) fn take_site() -> Option<Site> {
    NEXT.take()
}
