//! Running what was recorded, and how it is run.

use crate::Error;
use thalweg_stream::{Mode, mode, set_mode};

/// Runs everything that the calling thread recorded, and returns when it has run. Reading a value does this by itself
/// for what the value needs.
///
/// # Errors
/// When something failed; the values that depend on it return the error at their read, too.
pub fn synchronize() -> Result<(), Error> {
    thalweg_stream::synchronize()
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
