//! Scratch memory that a thread retains between contractions, so that panels do not page-fault on every call.
//!
//! A block is taken out of its thread-local cell while it is in use: a contraction nested in another one (in the
//! prologue of an operand) gets a new block. A block is not cleared between uses.

use crate::memory::HostMemory;
use std::cell::Cell;
use std::ptr::NonNull;
use thalweg_runtime::Memory;

/// Maximum bytes of a block that a thread retains: it must not hold the panels of its largest product for ever.
const MAX_RETAINED_BYTES: usize = 32 << 20;

/// Memory aligned to a cache line, or to a huge page.
#[derive(Default)]
struct Block {
    start: Option<NonNull<u8>>,
    bytes: usize,
}

impl Block {
    /// Returns at least `bytes` bytes, reallocating if needed.
    fn hold(&mut self, bytes: usize) -> *mut u8 {
        if self.bytes < bytes {
            *self = Block::default();
            let bytes = bytes.next_multiple_of(64 << 10);
            // Panics on failure, as a `Vec` would: no caller could continue without it.
            let start = HostMemory::default().obtain(bytes);
            let start = start.expect("memory for the panels of a contraction").start;
            *self = Block { start: Some(start), bytes };
        }
        self.start.map_or(NonNull::<u64>::dangling().as_ptr().cast(), NonNull::as_ptr)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: `hold` obtained the block with this size, and it is released once.
            unsafe { HostMemory::default().release(thalweg_runtime::Block::unused(start), self.bytes) };
        }
    }
}

/// Purpose of a block of scratch memory; each thread retains one block per purpose.
#[derive(Clone, Copy)]
pub enum Use {
    /// Panels of B, shared by all threads of a launch.
    Shared = 0,
    /// Panels and accumulators of the thread itself.
    Own = 1,
    /// Elements of an operand that are computed, or widened, before they are packed.
    Staging = 2,
    /// Packed B operands, shared by all products of a launch.
    Factors = 3,
    /// Panels or sums that are transposed.
    Transposed = 4,
    /// Rows of terms of a grid that are gathered before they are packed.
    Rows = 5,
}

thread_local! {
    static BLOCKS: [Cell<Block>; 6] = Default::default();
}

/// Calls `work` with at least `bytes` bytes of uninitialised scratch memory of the calling thread.
pub fn with<T>(purpose: Use, bytes: usize, work: impl FnOnce(*mut u8) -> T) -> T {
    let mut block = take(purpose);
    let done = work(block.hold(bytes));
    retain(purpose, block);
    done
}

/// Takes the thread's block out of its cell. (Like [`retain`] not part of `with`, which is compiled for each closure.)
fn take(purpose: Use) -> Block {
    BLOCKS.with(|b| b[purpose as usize].take())
}

/// Retains a block for the thread's next use, unless it is large.
fn retain(purpose: Use, block: Block) {
    if block.bytes <= MAX_RETAINED_BYTES {
        BLOCKS.with(|b| b[purpose as usize].set(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_retained_and_never_shared() {
        let first = with(Use::Own, 1000, |a| {
            let inner = with(Use::Own, 1000, |b| b as usize);
            assert_ne!(a as usize, inner);
            a as usize
        });
        assert_eq!(with(Use::Own, 5000, |a| a as usize), first, "a block of 64 KiB serves both");
        assert_eq!(first % 64, 0);
        with(Use::Own, MAX_RETAINED_BYTES + 1, |a| {
            // SAFETY: the block has that many bytes, and is ours.
            unsafe { a.write_bytes(1, MAX_RETAINED_BYTES + 1) };
        });
        assert!(BLOCKS.with(|b| b[Use::Own as usize].take().bytes) <= MAX_RETAINED_BYTES);
    }
}
