//! Host memory that finds out who does not stay in it.
//!
//! In: sizes. Out: addresses whose last byte, rounded up to 256, is the last of a page that has a page behind it that nobody may touch.
//!
//! Always true: what was never written holds [`RUBBISH`], up to the first [`FILLED`] bytes.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ptr::NonNull;

/// What memory holds that nobody wrote: as floats small negative numbers that are in no test, as indices and addresses far outside everything.
pub(super) const RUBBISH: u8 = 0xa5;
/// Bytes that are filled with rubbish at most: more takes longer than it finds.
pub(super) const FILLED: usize = 64 << 20;
const PAGE: usize = 4096;

/// A mapping with a forbidden page at its end; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Guarded {
    base: NonNull<u8>,
    /// Bytes before the forbidden page.
    usable: usize,
}

// SAFETY: it is an address range that belongs to its owner; who may touch it is the owner's business.
unsafe impl Send for Guarded {}

impl Guarded {
    /// At least that many bytes; `None` when the system has none.
    pub(super) fn new(bytes: usize) -> Option<Guarded> {
        let usable = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at a place of the system's choosing touches nothing that is there.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), usable + PAGE, protection, flags) }.ok()?;
        let map = Guarded { base: NonNull::new(base.cast())?, usable };
        // SAFETY: the last page of the mapping made above, which nobody knows of yet.
        unsafe { mprotect(map.base.as_ptr().add(usable).cast(), PAGE, MprotectFlags::empty()) }.ok()?;
        Some(map)
    }

    /// The first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The address that bytes end at, of which so many fit.
    pub(super) fn end(&self) -> *mut u8 {
        // SAFETY: the forbidden page begins here and belongs to the mapping.
        unsafe { self.base.as_ptr().add(self.usable) }
    }

    /// Bytes before the forbidden page.
    pub(super) fn usable(&self) -> usize {
        self.usable
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size, and its owner is gone.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.usable + PAGE) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Memory of the pretended device, handed out and not yet given back.
#[derive(Debug)]
pub(super) struct Allocation {
    map: Guarded,
    /// Bytes asked for.
    bytes: usize,
}

impl Allocation {
    /// That many bytes, aligned to 256.
    pub(super) fn new(bytes: usize) -> Option<Allocation> {
        let map = Guarded::new(bytes.checked_next_multiple_of(256)?)?;
        // SAFETY: within the mapping, which is new.
        unsafe { map.start().write_bytes(RUBBISH, map.usable().min(FILLED)) };
        Some(Allocation { map, bytes })
    }

    /// Where it begins: as late as alignment lets it.
    pub(super) fn address(&self) -> u64 {
        self.map.end() as u64 - self.bytes.max(1).next_multiple_of(256) as u64
    }

    /// Bytes asked for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether somebody wrote beside it, where no forbidden page stopped them.
    pub(super) fn is_overrun(&self) -> bool {
        let before = self.address() as usize - self.map.start() as usize;
        let used = before..before + self.bytes;
        if self.map.usable() > FILLED {
            return false;
        }
        // SAFETY: the whole mapping up to the forbidden page was filled in `new`; whoever owned it gave it back.
        let all = unsafe { std::slice::from_raw_parts(self.map.start(), self.map.usable()) };
        all[..used.start].iter().chain(&all[used.end..]).any(|&b| b != RUBBISH)
    }
}
