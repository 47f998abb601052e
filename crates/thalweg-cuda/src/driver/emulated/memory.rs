//! Host memory that detects out-of-bounds accesses.
//!
//! In: sizes. Out: addresses whose last byte, rounded up to 256, is the last of a page that is followed by a guard
//! page.
//!
//! Always true: bytes that were never written are [`RUBBISH`], up to the first [`FILLED`] bytes.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

/// Contents of memory that nobody wrote: as floats small negative numbers that occur in no test, as indices and
/// addresses far out of bounds.
pub(super) const RUBBISH: u8 = 0xa5;
/// Maximum bytes of an allocation that are poisoned, to detect uninitialized reads; filling more is slow and finds few
/// further errors.
pub(super) const FILLED: usize = 64 << 20;
const PAGE: usize = 4096;

/// A mapping between two guard pages; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Guarded {
    /// Address of the first guard page.
    base: NonNull<u8>,
    /// Bytes between the guard pages.
    usable: usize,
}

// SAFETY: an address range that belongs to its owner, who decides which threads access it.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Maps at least that many bytes; `None` when the system has none.
    pub(super) fn new(bytes: usize) -> Option<Guarded> {
        let usable = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the system's choice affects no existing one.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), usable + 2 * PAGE, protection, flags) }.ok()?;
        let map = Guarded { base: NonNull::new(base.cast())?, usable };
        for page in [map.base.as_ptr(), map.end()] {
            // SAFETY: the first and the last page of the mapping created above, which nobody else knows yet.
            unsafe { mprotect(page.cast(), PAGE, MprotectFlags::empty()) }.ok()?;
        }
        Some(map)
    }

    /// Address of the first usable byte.
    pub(super) fn start(&self) -> *mut u8 {
        // SAFETY: after the first page, in the mapping.
        unsafe { self.base.as_ptr().add(PAGE) }
    }

    /// Address after the last usable byte.
    pub(super) fn end(&self) -> *mut u8 {
        // SAFETY: the last page begins here and belongs to the mapping.
        unsafe { self.base.as_ptr().add(PAGE + self.usable) }
    }

    /// Number of usable bytes.
    pub(super) fn usable(&self) -> usize {
        self.usable
    }
}

impl Guarded {
    /// Whether an address is in the mapping, including the guard pages.
    pub(super) fn has(&self, address: usize) -> bool {
        (self.base.as_ptr() as usize..self.end() as usize + PAGE).contains(&address)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size, and its owner is gone.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.usable + 2 * PAGE) };
        debug_assert!(unmapped.is_ok());
    }
}

/// All allocations of the process: start addresses, and sizes in bytes.
static ALLOCATIONS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn allocations() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    ALLOCATIONS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Describes where an inaccessible address is.
pub(super) fn describe(address: u64) -> String {
    const NEAR: u64 = 1 << 20;
    let all = allocations();
    let before = all.range(..=address).next_back().map(|(&start, &bytes)| (address - start, bytes));
    let behind = all.range(address..).next().map(|(&start, &bytes)| (start - address, bytes));
    match (before, behind) {
        (Some((at, bytes)), _) if at < bytes as u64 + NEAR => format!("byte {at} of an allocation of {bytes}"),
        (_, Some((by, bytes))) if by < NEAR => format!("{by} bytes before an allocation of {bytes}"),
        _ => "in no allocation".into(),
    }
}

/// An allocation of the emulated device's memory.
#[derive(Debug)]
pub(super) struct Allocation {
    map: Guarded,
    /// Bytes that were requested, without padding.
    bytes: usize,
}

impl Allocation {
    /// Allocates that many bytes, aligned to 256.
    pub(super) fn new(bytes: usize) -> Option<Allocation> {
        let map = Guarded::new(bytes.checked_next_multiple_of(256)?)?;
        // SAFETY: within the mapping, which is new.
        unsafe { map.start().write_bytes(RUBBISH, map.usable().min(FILLED)) };
        let allocation = Allocation { map, bytes };
        allocations().insert(allocation.address(), bytes);
        Some(allocation)
    }

    /// Start address: as high as alignment allows.
    pub(super) fn address(&self) -> u64 {
        self.map.end() as u64 - self.bytes.max(1).next_multiple_of(256) as u64
    }

    /// Bytes that were requested, without padding.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether bytes between the allocation and its guard pages have been overwritten.
    pub(super) fn is_overrun(&self) -> bool {
        let before = self.address() as usize - self.map.start() as usize;
        let used = before..before + self.bytes;
        if self.map.usable() > FILLED {
            return false;
        }
        // SAFETY: the whole mapping up to the guard page was filled in `new`; its owner has freed it.
        let all = unsafe { std::slice::from_raw_parts(self.map.start(), self.map.usable()) };
        all[..used.start].iter().chain(&all[used.end..]).any(|&b| b != RUBBISH)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        allocations().remove(&self.address());
    }
}
