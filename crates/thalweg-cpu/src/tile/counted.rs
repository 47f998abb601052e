//! Counters of the bytes that the tile engine actually loads and stores, for comparison with the traffic that programs
//! report ([`thalweg_kernel::Moved`]).
//!
//! Disabled unless [`counted`] runs on the thread; then each step that loads or stores adds its bytes. Only operands of
//! the launch count, not the buffers between phases, nor values that are uniform in a row. Launches on several threads
//! are counted in part only.

use std::cell::Cell;
use thalweg_kernel::{Access, AccessClass};

/// Number of bytes of elements that launches have loaded and stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Bytes loaded from operands.
    pub loaded: u64,
    /// Bytes stored to operands.
    pub stored: u64,
}

thread_local! {
    static COUNTED: Cell<Option<Counted>> = const { Cell::new(None) };
}

/// Runs `f`, and returns the bytes that the tile engine loaded and stored meanwhile on this thread.
pub fn counted<T>(f: impl FnOnce() -> T) -> (T, Counted) {
    let before = COUNTED.replace(Some(Counted::default()));
    let out = f();
    (out, COUNTED.replace(before).unwrap_or_default())
}

/// Whether counting is enabled on this thread.
pub(super) fn on() -> bool {
    COUNTED.get().is_some()
}

/// Whether an access counts, in a program whose launch has `operands` operands.
pub(super) fn counts(access: &Access, operands: u16) -> bool {
    access.operand.is_some_and(|o| o < operands) && access.class != AccessClass::Uniform && !access.per_row
}

/// Adds bytes to the counters, if counting is enabled on this thread.
pub(crate) fn note(loaded: usize, stored: usize) {
    if let Some(c) = COUNTED.get() {
        COUNTED.set(Some(Counted { loaded: c.loaded + loaded as u64, stored: c.stored + stored as u64 }));
    }
}
