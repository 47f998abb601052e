//! Memory pool: recycles freed blocks and counts memory use.
//!
//! Page faults of a fresh output cost three times the kernel that fills it (../../../docs/architecture.md), so blocks
//! are recycled by size class: powers of two up to 1 MiB (at most half wasted), eighths of a power of two above (at
//! most an eighth wasted). A block returns to the class it came from; blocks are never split or merged, so allocating
//! and freeing cost a lock and a push independent of the number of live blocks.
//!
//! On devices with several queues a block stores its last uses ([`Uses`]). Its next user makes a queue wait for these
//! before enqueueing work with the block, so that blocks may be recycled before the device has finished with them.
//! Blocks without waits are preferred.

use crate::uses::{Points, QUEUES, Uses};
use crate::{Error, environment};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Allocator of the blocks of a pool: that of the device.
pub trait Memory: Send + Sync {
    /// Allocates a block of `bytes` bytes, aligned to 64; `None` if out of memory.
    fn obtain(&self, bytes: usize) -> Option<Block>;

    /// Frees a block of [`Memory::obtain`] with the same size.
    ///
    /// # Safety
    /// The block came from `obtain(bytes)` of this memory, is freed once, and is not used any more except by work in
    /// the device's queues up to its last uses.
    unsafe fn release(&self, block: Block, bytes: usize);

    /// Tells whether queue number `queue` (or the calling thread's) would have to wait before it uses a block with
    /// these last uses.
    fn when(&self, points: &Points, queue: Option<usize>) -> When {
        let _ = (points, queue);
        When::Now
    }

    /// Total capacity in bytes, if known.
    fn total(&self) -> Option<usize>;
}

/// Statistics of a pool, in bytes except for the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes of live buffers.
    pub in_use: usize,
    /// Maximum of `in_use`.
    pub peak: usize,
    /// Bytes allocated from the device, in use or free for reuse.
    pub reserved: usize,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of allocations that reused a free block.
    pub recycled: u64,
    /// Maximum bytes in use, if limited.
    pub limit: Option<usize>,
}

const CLASSES: usize = 512;

/// Maximum number of free blocks that are examined for one that needs no wait.
const LOOKED_AT: usize = 16;
/// Maximum number of free blocks of a class that all require waits (`MAX_BUSY_BLOCKS`), and of their bytes
/// (`MAX_BUSY_BYTES`), at which a new block is allocated instead of waiting. The copy of the next input then overlaps
/// uses of previous ones, and a host that runs ahead allocates no more than that.
const MAX_BUSY_BLOCKS: usize = 3;
const MAX_BUSY_BYTES: usize = 1 << 30;

/// Memory pool of one device, with its free blocks.
pub struct Pool {
    device: String,
    memory: Box<dyn Memory>,
    free: [Mutex<Vec<Block>>; CLASSES],
    in_use: AtomicUsize,
    peak: AtomicUsize,
    reserved: AtomicUsize,
    allocations: AtomicU64,
    recycled: AtomicU64,
    /// Maximum bytes in use; `usize::MAX` for no limit.
    limit: AtomicUsize,
}

/// Block of device memory that no buffer owns.
#[derive(Debug)]
pub struct Block {
    /// Start address.
    pub start: NonNull<u8>,
    /// Last use of the block in each queue of its device.
    pub last: Points,
}

// SAFETY: a block has a single owner; the pointer is only passed on.
unsafe impl Send for Block {}

impl Block {
    /// Creates a block that no queue has used.
    pub fn unused(start: NonNull<u8>) -> Block {
        Block { start, last: [0; QUEUES] }
    }
}

/// Time at which memory may be used, given its previous uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Immediately: no wait is needed.
    Now,
    /// After a wait on the device, by the queue that uses it.
    Behind,
    /// Not without a wait of the host, because the previous use is not enqueued yet.
    NotYet,
}

/// Block of device memory; returns to its pool when the last clone of the `Arc` is dropped.
pub type Buffer = Arc<Allocation>;

/// Memory of a [`Buffer`].
pub struct Allocation {
    start: NonNull<u8>,
    bytes: usize,
    uses: Uses,
    owner: Owner,
}

/// Owner of the memory when an allocation is dropped.
enum Owner {
    /// The pool, which takes the memory back as a block of this class.
    Pool(Arc<Pool>, usize),
    /// Allocation that contains this memory as a part.
    Whole(Buffer),
    /// Other code, which frees the memory itself.
    Foreign,
    /// Other code, which may read the memory meanwhile and frees it when this object is dropped.
    External(#[expect(dead_code, reason = "only dropped")] Box<dyn Any + Send + Sync>),
}

// SAFETY: an allocation is an address and a size. Device code orders accesses to the bytes.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Address on its device.
    pub fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Part of a buffer as a separate buffer, which keeps the whole alive. Parts may overlap; their users must not use
    /// overlapping ones at the same time.
    ///
    /// # Panics
    /// When it does not lie within the buffer.
    pub fn part(whole: &Buffer, offset: usize, bytes: usize) -> Buffer {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= whole.bytes);
        assert!(inside, "{bytes} bytes from {offset} on are no part of {}", whole.bytes);
        // SAFETY: the offset is within the block, so the address is, or one past its end.
        let start = unsafe { whole.start.add(offset) };
        Arc::new(Allocation { start, bytes, uses: Uses::default(), owner: Owner::Whole(whole.clone()) })
    }

    /// Wraps memory owned by other code, such as scratch memory of a thread for a launch.
    ///
    /// # Safety
    /// The memory has as many bytes and outlives the buffer.
    pub unsafe fn foreign(start: NonNull<u8>, bytes: usize) -> Buffer {
        Arc::new(Allocation { start, bytes, uses: Uses::default(), owner: Owner::Foreign })
    }

    /// Wraps memory that another library owns, such as the elements of an array of another library. It is never written:
    /// [`Allocation::may_be_overwritten`] is false. `owner` is dropped with the last clone of the buffer, and frees the
    /// memory.
    ///
    /// # Safety
    /// The memory has as many bytes until `owner` is dropped, and nobody writes them while work of the device may read
    /// them.
    pub unsafe fn external(start: NonNull<u8>, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Buffer {
        Arc::new(Allocation { start, bytes, uses: Uses::default(), owner: Owner::External(owner) })
    }

    /// Whether results may be written to the memory once nobody needs its elements; false if another library owns it.
    pub fn may_be_overwritten(&self) -> bool {
        match &self.owner {
            Owner::Whole(whole) => whole.may_be_overwritten(),
            Owner::External(_) => false,
            Owner::Pool(..) | Owner::Foreign => true,
        }
    }

    /// Requested bytes; the block may be larger.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Last uses in the queues of its device; for a part, those of the whole.
    pub fn uses(&self) -> &Uses {
        match &self.owner {
            Owner::Whole(whole) => whole.uses(),
            _ => &self.uses,
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Owner::Pool(pool, class) = &self.owner {
            let block = Block { start: self.start, last: self.uses.points() };
            pool.put_back(block, *class, granted(self.bytes));
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Owner::Pool(pool, _) => write!(f, "{} bytes at {:p} on {}", self.bytes, self.start, pool.device),
            Owner::Foreign => write!(f, "{} bytes at {:p}", self.bytes, self.start),
            Owner::External(_) => write!(f, "{} bytes at {:p} of another library", self.bytes, self.start),
            Owner::Whole(_) => write!(f, "{} bytes at {:p}, part of a buffer", self.bytes, self.start),
        }
    }
}

/// Size class of an allocation of `bytes` bytes, and the bytes of a block of that class.
fn class_of(bytes: usize) -> Option<(usize, usize)> {
    const MAX_POWER_OF_TWO_BYTES: usize = 1 << 20;
    let bytes = bytes.max(64);
    if bytes <= MAX_POWER_OF_TWO_BYTES {
        let size = bytes.next_power_of_two();
        return Some((size.trailing_zeros() as usize, size));
    }
    let top = usize::BITS as usize - 1 - bytes.leading_zeros() as usize;
    let step = 1usize << (top - 3);
    let size = bytes.checked_add(step - 1)? / step * step;
    let top = usize::BITS as usize - 1 - size.leading_zeros() as usize;
    let eighth = (size >> (top - 3)) & 7;
    (size <= isize::MAX as usize).then_some((21 + (top - 20) * 8 + eighth, size))
}

/// Bytes in use by a buffer of a size, as counted in [`MemoryStats::in_use`]. `usize::MAX` if the size is impossible. A
/// buffer without bytes has a block, for its address, and counts as 0.
pub fn granted(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { class_of(bytes).map_or(usize::MAX, |c| c.1) }
}

fn size_of_class(class: usize) -> usize {
    if class <= 20 {
        1 << class
    } else {
        let (top, eighth) = (20 + (class - 21) / 8, (class - 21) % 8);
        (8 + eighth) << (top - 3)
    }
}

impl Pool {
    /// Creates a pool over a device's memory.
    pub fn new(device: String, memory: Box<dyn Memory>) -> Arc<Pool> {
        Arc::new(Pool {
            device,
            memory,
            free: [const { Mutex::new(Vec::new()) }; CLASSES],
            in_use: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            allocations: AtomicU64::new(0),
            recycled: AtomicU64::new(0),
            limit: AtomicUsize::new(usize::MAX),
        })
    }

    /// Allocates a buffer, uninitialised or with contents of its previous owner.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the device has no memory left after freeing kept blocks of other sizes, or if the
    /// limit would be exceeded.
    pub fn allocate(self: &Arc<Pool>, bytes: usize) -> Result<Buffer, Error> {
        self.allocate_for(bytes, None)
    }

    /// Like [`Pool::allocate`], for first use by a given queue.
    ///
    /// # Errors
    /// As [`Pool::allocate`].
    pub fn allocate_for(self: &Arc<Pool>, bytes: usize, queue: Option<usize>) -> Result<Buffer, Error> {
        let refused = || self.out_of_memory(bytes);
        let (class, size) = class_of(bytes).ok_or_else(refused)?;
        let limit = self.limit.load(Relaxed);
        let counted = granted(bytes);
        // Counted first, so that two threads do not both use the last of it.
        let more = |used: usize| used.checked_add(counted).filter(|&now| now <= limit || counted == 0);
        let before = self.in_use.fetch_update(Relaxed, Relaxed, more).map_err(|_| refused())?;
        let Some(block) = self.block((class, size), limit, queue) else {
            self.in_use.fetch_sub(counted, Relaxed);
            return Err(refused());
        };
        self.allocations.fetch_add(1, Relaxed);
        self.peak.fetch_max(before + counted, Relaxed);
        let (start, uses) = (block.start, Uses::before(block.last));
        Ok(Arc::new(Allocation { start, bytes, uses, owner: Owner::Pool(self.clone(), class) }))
    }

    /// Takes a block of a class: a free one, or one allocated from the device.
    fn block(&self, (class, size): (usize, usize), limit: usize, queue: Option<usize>) -> Option<Block> {
        let is_full = || self.reserved.load(Relaxed).saturating_add(size) > limit;
        if let Some(block) = self.take_free((class, size), is_full(), queue) {
            return Some(block);
        }
        if self.memory.total().is_some_and(|t| size > t) {
            return None;
        }
        if is_full() {
            self.trim();
        }
        if let Some(block) = self.memory.obtain(size) {
            self.reserved.fetch_add(size, Relaxed);
            return Some(block);
        }
        if let Some(block) = self.take_free((class, size), true, queue) {
            return Some(block);
        }
        self.trim();
        let block = self.memory.obtain(size)?;
        self.reserved.fetch_add(size, Relaxed);
        Some(block)
    }

    /// Takes a free block of a class out of the pool: the newest without waits; if there is none, the oldest that needs
    /// a wait, provided that there are many such blocks, or no room for another one.
    fn take_free(&self, (class, size): (usize, usize), no_room: bool, queue: Option<usize>) -> Option<Block> {
        let mut list = self.lock(class);
        let count = list.len();
        let is = |when: When| move |list: &[Block], i: usize| self.memory.when(&list[i].last, queue) == when;
        let now = (0..count).rev().take(LOOKED_AT).find(|&i| is(When::Now)(&list, i));
        let enough = no_room || count >= MAX_BUSY_BLOCKS || size.saturating_mul(count) > MAX_BUSY_BYTES;
        let behind = || enough.then(|| (0..count).find(|&i| is(When::Behind)(&list, i))).flatten();
        let found = now.or_else(behind)?;
        self.recycled.fetch_add(1, Relaxed);
        Some(list.remove(found))
    }

    /// Error for an allocation that does not fit.
    fn out_of_memory(&self, requested: usize) -> Error {
        let stats = self.stats();
        Error::OutOfMemory { requested, in_use: stats.in_use, limit: stats.limit, device: self.device.clone() }
    }

    /// Sets the maximum bytes in use at once. Live buffers are not affected; kept blocks are freed if they exceed it.
    pub fn set_limit(&self, bytes: Option<usize>) {
        self.limit.store(bytes.unwrap_or(usize::MAX), Relaxed);
        if bytes.is_some_and(|b| self.reserved.load(Relaxed) > b) {
            self.trim();
        }
    }

    /// Resets the peak to the bytes in use.
    pub fn reset_peak(&self) {
        self.peak.store(self.in_use.load(Relaxed), Relaxed);
    }

    /// Frees all free blocks to the device, except those whose last use is not enqueued yet.
    pub fn trim(&self) {
        for class in 0..CLASSES {
            let blocks = std::mem::take(&mut *self.lock(class));
            for block in blocks {
                let size = size_of_class(class);
                if self.memory.when(&block.last, None) == When::NotYet {
                    self.lock(class).push(block);
                    continue;
                }
                self.reserved.fetch_sub(size, Relaxed);
                // SAFETY: the block was obtained with its class's size and its only owner was the free list.
                unsafe { self.memory.release(block, size) };
            }
        }
    }

    /// Current statistics.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            in_use: self.in_use.load(Relaxed),
            peak: self.peak.load(Relaxed),
            reserved: self.reserved.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
            recycled: self.recycled.load(Relaxed),
            limit: Some(self.limit.load(Relaxed)).filter(|&l| l != usize::MAX),
        }
    }

    fn put_back(&self, block: Block, class: usize, counted: usize) {
        self.in_use.fetch_sub(counted, Relaxed);
        self.lock(class).push(block);
    }

    fn lock(&self, class: usize) -> std::sync::MutexGuard<'_, Vec<Block>> {
        // The list is consistent wherever a panic could poison the lock.
        self.free[class].lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.trim();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}, {:?})", self.device, self.stats())
    }
}

/// Limit set by `THALWEG_MEMORY_LIMIT`.
///
/// # Errors
/// When the value is invalid.
pub fn limit_from_environment() -> Result<Option<usize>, Error> {
    Ok(match environment::MEMORY_LIMIT.read()? {
        Some(environment::Value::Number(bytes)) => Some(bytes as usize),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::Layout;

    struct Host(usize);
    impl Memory for Host {
        fn obtain(&self, bytes: usize) -> Option<Block> {
            // SAFETY: the size is not zero.
            NonNull::new(unsafe { std::alloc::alloc(Layout::from_size_align(bytes, 64).ok()?) }).map(Block::unused)
        }
        unsafe fn release(&self, block: Block, bytes: usize) {
            // SAFETY: allocated above with the same layout.
            unsafe { std::alloc::dealloc(block.start.as_ptr(), Layout::from_size_align(bytes, 64).unwrap()) }
        }
        fn total(&self) -> Option<usize> {
            Some(self.0)
        }
    }

    #[test]
    fn external_memory_is_freed_by_its_owner_and_not_overwritten() {
        struct Owned(Arc<AtomicUsize>, #[expect(dead_code, reason = "only kept")] Box<[u8; 64]>);
        impl Drop for Owned {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let freed = Arc::new(AtomicUsize::new(0));
        let mut memory = Box::new([7u8; 64]);
        let start = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: the owner keeps the memory, and nobody writes it.
        let buffer = unsafe { Allocation::external(start, 64, Box::new(Owned(freed.clone(), memory))) };
        let part = Allocation::part(&buffer, 16, 8);
        assert!(!buffer.may_be_overwritten() && !part.may_be_overwritten());
        drop(buffer);
        assert_eq!(freed.load(Relaxed), 0, "a part is still there");
        drop(part);
        assert_eq!(freed.load(Relaxed), 1);
        assert!(Pool::new("test".into(), Box::new(Host(1 << 20))).allocate(64).unwrap().may_be_overwritten());
    }

    #[test]
    fn classes_are_consistent_and_tight() {
        let mut last = 0;
        for bytes in (1..200).chain((0..44).flat_map(|s| [(1 << s) - 1, 1 << s, (1 << s) + 1, (3 << s) / 2])) {
            let (class, size) = class_of(bytes).unwrap();
            assert_eq!(size_of_class(class), size, "{bytes}");
            assert!(size >= bytes && class < CLASSES);
            assert!(bytes <= 1 << 20 || size - bytes <= bytes / 8, "{bytes} in {size}");
            last = last.max(class);
        }
        assert!(class_of(usize::MAX).is_none());
    }

    #[test]
    fn what_has_no_bytes_counts_as_nothing() {
        let pool = Pool::new("host".into(), Box::new(Host(1 << 30)));
        pool.set_limit(Some(64));
        let held = (pool.allocate(64).unwrap(), pool.allocate(0).unwrap(), pool.allocate(0).unwrap());
        assert_eq!((pool.stats().in_use, pool.stats().peak), (64, 64));
        assert!(held.1.address() != held.2.address() && pool.allocate(1).is_err());
        drop(held);
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn blocks_are_recycled_and_counted() {
        let pool = Pool::new("host".into(), Box::new(Host(1 << 30)));
        let a = pool.allocate(1000).unwrap();
        let address = a.address();
        drop(a);
        let b = pool.allocate(900).unwrap();
        assert_eq!(b.address(), address);
        let c = pool.allocate(5000).unwrap();
        let stats = pool.stats();
        assert_eq!((stats.in_use, stats.reserved), (1024 + 8192, 1024 + 8192));
        assert_eq!((stats.allocations, stats.recycled), (3, 1));
        drop((b, c));
        assert_eq!(pool.stats().in_use, 0);
        assert_eq!(pool.stats().peak, 1024 + 8192);
        pool.trim();
        assert_eq!(pool.stats().reserved, 0);
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        let pool = Pool::new("host".into(), Box::new(Host(1 << 20)));
        assert!(matches!(pool.allocate(usize::MAX), Err(Error::OutOfMemory { .. })));
        let e = pool.allocate(1 << 40).unwrap_err();
        assert_eq!(e.to_string(), "out of memory on host: 1.0 TiB asked for, 0 B in use");
    }

    #[test]
    fn a_limit_counts_bytes_in_use_and_trims_free_blocks() {
        let pool = Pool::new("host".into(), Box::new(Host(1 << 30)));
        drop(pool.allocate(8000).unwrap());
        pool.set_limit(Some(9000));
        let a = pool.allocate(4000).unwrap();
        assert_eq!(pool.stats().reserved, 4096, "the kept block was given back");
        let e = pool.allocate(8000).unwrap_err();
        assert_eq!(e.to_string(), "out of memory on host: 7.8 KiB asked for, 4.0 KiB in use, limit 8.8 KiB");
        assert_eq!(pool.stats().in_use, 4096);
        pool.set_limit(None);
        drop((a, pool.allocate(8000).unwrap()));
        assert_eq!(pool.stats().peak, 4096 + 8192);
        pool.reset_peak();
        assert_eq!(pool.stats().peak, 0);
    }

    #[test]
    fn a_part_keeps_the_whole() {
        let pool = Pool::new("host".into(), Box::new(Host(1 << 30)));
        let whole = pool.allocate(1024).unwrap();
        let part = Allocation::part(&whole, 64, 100);
        assert_eq!((part.address() as usize - whole.address() as usize, part.bytes()), (64, 100));
        drop(whole);
        assert_eq!(pool.stats().in_use, 1024);
        drop(part);
        assert_eq!(pool.stats().in_use, 0);
    }
}
