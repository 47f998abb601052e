//! What the tile engine really loads and stores, for those who compare it with what programs say
//! ([`thalweg_kernel::Moved`]).
//!
//! Off unless [`counted`] runs on the thread; then each step that loads or stores notes its bytes. It counts operands
//! of the launch, not the buffers between phases, and not what is the same for all points of a row. Launches of more
//! than one thread are counted in part only.

use std::cell::Cell;
use thalweg_kernel::{Access, AccessClass};

/// Bytes of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Loaded from operands.
    pub loaded: u64,
    /// Stored to operands.
    pub stored: u64,
}

thread_local! {
    static COUNTED: Cell<Option<Counted>> = const { Cell::new(None) };
}

/// Runs `f`, and gives what the tile engine loaded and stored meanwhile on this thread.
pub fn counted<T>(f: impl FnOnce() -> T) -> (T, Counted) {
    let before = COUNTED.replace(Some(Counted::default()));
    let out = f();
    (out, COUNTED.replace(before).unwrap_or_default())
}

/// Whether anybody wants to know.
pub(super) fn on() -> bool {
    COUNTED.get().is_some()
}

/// Whether an access is one of those that count, of a program whose launch has so many operands.
pub(super) fn counts(access: &Access, operands: u16) -> bool {
    access.operand.is_some_and(|o| o < operands) && access.class != AccessClass::Uniform && !access.per_row
}

/// Notes bytes.
pub(crate) fn note(loaded: usize, stored: usize) {
    if let Some(c) = COUNTED.get() {
        COUNTED.set(Some(Counted { loaded: c.loaded + loaded as u64, stored: c.stored + stored as u64 }));
    }
}
