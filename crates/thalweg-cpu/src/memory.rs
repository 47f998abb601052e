//! Host memory: the allocator behind the pool of the CPU device.
//!
//! In: sizes of the pool's size classes. Out: blocks aligned to 64 bytes, or, from 2 MiB on, to a huge page, with a
//! request to the kernel to back them by huge pages: otherwise the page faults of a fresh 128 MB output cost three
//! times the kernel that fills it. A block that exceeds available memory is refused here, before the operating system
//! would have to kill a process.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::OnceLock;
use thalweg_runtime::{Block, Memory};

/// Bytes of a huge page on x86-64 and (with 4 KiB pages) aarch64. Blocks of at least this size are aligned to it.
const HUGE_PAGE: usize = 2 << 20;
/// Minimum size in bytes of a block for which the available memory is queried before allocation. The query takes some
/// 20 µs, little beside the page faults of such a block.
const LOOK_FIRST: usize = 64 << 20;

/// Allocator of host memory, and its total size (read once).
#[derive(Debug, Default)]
pub struct HostMemory {
    total: OnceLock<Option<usize>>,
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(64), if bytes >= HUGE_PAGE { HUGE_PAGE } else { 64 }).ok()
}

impl Memory for HostMemory {
    fn obtain(&self, bytes: usize) -> Option<Block> {
        let layout = layout(bytes)?;
        if bytes >= LOOK_FIRST && available().is_some_and(|free| bytes > free) {
            return None;
        }
        // SAFETY: the layout's size is at least 64.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_PAGE {
            // SAFETY: the range is the block just allocated, page-aligned; the advice changes only how it is backed. If
            // it is refused (huge pages off), small pages are used.
            let _ = unsafe { rustix::mm::madvise(block.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
        }
        Some(Block::unused(block))
    }

    unsafe fn release(&self, block: Block, bytes: usize) {
        let layout = layout(bytes).expect("the block was obtained with this size");
        // SAFETY: the caller returns a block that `obtain` allocated with this layout.
        unsafe { std::alloc::dealloc(block.start.as_ptr(), layout) }
    }

    fn total(&self) -> Option<usize> {
        *self.total.get_or_init(|| {
            let physical = meminfo("MemTotal:");
            let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|s| s.trim().parse().ok());
            match (physical, limit) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        })
    }
}

/// Bytes that can be allocated without evicting anything; `None` if the system does not report it.
fn available() -> Option<usize> {
    meminfo("MemAvailable:")
}

fn meminfo(key: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    let kib: usize = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes of the last-level cache of the first processor, as the system reports it; 32 MiB if it reports none.
pub fn last_level_cache() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let told = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok();
        let kib = told.as_deref().and_then(|t| t.trim().strip_suffix('K')).and_then(|k| k.parse::<usize>().ok());
        kib.map_or(32 << 20, |k| k << 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_runtime::{Error, Pool};

    #[test]
    fn blocks_are_aligned_and_writable() {
        let memory = HostMemory::default();
        for bytes in [1, 64, 4096, HUGE_PAGE - 64, HUGE_PAGE, 9 << 18, 5 << 21] {
            let block = memory.obtain(bytes).unwrap();
            assert_eq!(block.start.as_ptr() as usize % if bytes >= HUGE_PAGE { HUGE_PAGE } else { 64 }, 0);
            // SAFETY: the block has that many bytes and is ours; it is released once.
            unsafe {
                block.start.as_ptr().write_bytes(7, bytes);
                memory.release(block, bytes);
            }
        }
    }

    #[test]
    fn what_the_machine_cannot_hold_is_an_error() {
        let pool = Pool::new("cpu".into(), Box::new(HostMemory::default()));
        assert!(matches!(pool.allocate(1 << 50), Err(Error::OutOfMemory { .. })));
        if let Some(total) = HostMemory::default().total() {
            assert!(pool.allocate(total + (1 << 30)).is_err());
        }
    }
}
