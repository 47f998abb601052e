//! Host memory that finds out who does not stay in it.
//!
//! In: sizes. Out: addresses whose last byte, rounded up to 256, is the last of a page that has a page behind it that
//! nobody may touch.
//!
//! Always true: what was never written holds [`RUBBISH`], up to the first [`FILLED`] bytes.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

/// What memory holds that nobody wrote: as floats small negative numbers that are in no test, as indices and addresses
/// far outside everything.
pub(super) const RUBBISH: u8 = 0xa5;
/// Bytes that are filled with rubbish at most: more takes longer than it finds.
pub(super) const FILLED: usize = 64 << 20;
const PAGE: usize = 4096;

/// A mapping between two forbidden pages; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Guarded {
    /// The first page, which is forbidden.
    base: NonNull<u8>,
    /// Bytes between the forbidden pages.
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
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), usable + 2 * PAGE, protection, flags) }.ok()?;
        let map = Guarded { base: NonNull::new(base.cast())?, usable };
        for page in [map.base.as_ptr(), map.end()] {
            // SAFETY: the first and the last page of the mapping made above, which nobody knows of yet.
            unsafe { mprotect(page.cast(), PAGE, MprotectFlags::empty()) }.ok()?;
        }
        Some(map)
    }

    /// The first byte that may be touched.
    pub(super) fn start(&self) -> *mut u8 {
        // SAFETY: behind the first page, in the mapping.
        unsafe { self.base.as_ptr().add(PAGE) }
    }

    /// The address that bytes end at, of which so many fit.
    pub(super) fn end(&self) -> *mut u8 {
        // SAFETY: the last page begins here and belongs to the mapping.
        unsafe { self.base.as_ptr().add(PAGE + self.usable) }
    }

    /// Bytes that may be touched.
    pub(super) fn usable(&self) -> usize {
        self.usable
    }
}

impl Guarded {
    /// Whether an address is in the mapping, forbidden pages and all.
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

/// All allocations of the process: where they begin, and their bytes.
static ALLOCATIONS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn allocations() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    ALLOCATIONS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Where an address is that nobody may touch.
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
        let allocation = Allocation { map, bytes };
        allocations().insert(allocation.address(), bytes);
        Some(allocation)
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

impl Drop for Allocation {
    fn drop(&mut self) {
        allocations().remove(&self.address());
    }
}
