//! Executable memory: never writable and executable through the same mapping.
//!
//! An [`Arena`] is a memory file mapped twice, once writable and once executable. To *publish* a function, its bytes
//! are copied to the writable mapping. If memory files are unavailable, each function gets its own pages, which turn
//! from writable to executable. Always true: a range is written once, before its [`Code`] exists, by the process that
//! created the arena. (A forked child shares the file, so neither process may write where the other could run: ranges
//! are not reused, a child creates its own arena, and an arena is unmapped when all its code is dropped.)

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

const ARENA: usize = 4 << 20;
const PAGE: usize = 4096;
const GRAIN: usize = 64;

/// A function's machine code in executable memory, which is freed on drop.
pub struct Code {
    start: NonNull<u8>,
    owner: Owner,
}

enum Owner {
    /// A range of an arena, which is kept alive by this reference.
    Arena { _arena: Arc<Arena> },
    /// Pages that belong to this function alone, of this many bytes.
    Pages(usize),
}

// SAFETY: the bytes are not written while this exists.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

struct Arena {
    write: NonNull<u8>,
    execute: NonNull<u8>,
    size: usize,
    process: u32,
}

// SAFETY: each range is assigned once, under the mutex of `CURRENT`, and only its owner writes to it.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The arena that new code is published in, and the number of bytes used in it.
static CURRENT: Mutex<Option<(Arc<Arena>, usize)>> = Mutex::new(None);

impl Code {
    /// Copies machine code to executable memory. `None` if the operating system provides none.
    pub fn publish(bytes: &[u8]) -> Option<Code> {
        let len = bytes.len().next_multiple_of(GRAIN);
        let Some((arena, at)) = place(len) else { return Code::pages(bytes) };
        // SAFETY: the range `at..at + len` of the writable view belongs to this call, and is inside the mapping.
        let start = unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), arena.write.as_ptr().add(at), bytes.len());
            arena.execute.add(at)
        };
        Some(Code { start, owner: Owner::Arena { _arena: arena } })
    }

    /// Copies machine code to pages of its own, without a memory file.
    fn pages(bytes: &[u8]) -> Option<Code> {
        let len = bytes.len().next_multiple_of(PAGE);
        // SAFETY: a new private mapping, placed by the system; it is written before it turns executable, and unmapped
        // on failure.
        unsafe {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            let p = rustix::mm::mmap_anonymous(ptr::null_mut(), len, flags, MapFlags::PRIVATE).ok()?;
            ptr::copy_nonoverlapping(bytes.as_ptr(), p.cast(), bytes.len());
            if rustix::mm::mprotect(p, len, MprotectFlags::READ | MprotectFlags::EXEC).is_err() {
                unmap(NonNull::new(p.cast())?, len);
                return None;
            }
            Some(Code { start: NonNull::new(p.cast())?, owner: Owner::Pages(len) })
        }
    }

    /// Address of the first byte of the code.
    pub fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    #[cfg(test)]
    pub(super) fn own_pages(bytes: &[u8]) -> Option<Code> {
        Code::pages(bytes)
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Owner::Pages(len) = self.owner {
            // SAFETY: the mapping belongs to this value only, and nobody runs it any more.
            unsafe { unmap(self.start, len) }
        }
    }
}

/// Reserves `len` bytes in the current arena, or in a new one if they do not fit; returns their offset. `None` if no
/// arena can be created.
fn place(len: usize) -> Option<(Arc<Arena>, usize)> {
    let mut current = CURRENT.lock().unwrap_or_else(|e| e.into_inner());
    let process = std::process::id();
    let fits = current.as_ref().is_some_and(|(a, used)| a.process == process && used + len <= a.size);
    if !fits {
        *current = Some((Arc::new(Arena::new(ARENA.max(len.next_multiple_of(PAGE)), process)?), 0));
    }
    let (arena, used) = current.as_mut()?;
    let at = *used;
    *used += len;
    Some((arena.clone(), at))
}

/// Unmaps `len` bytes of mapped memory.
///
/// # Safety
/// Nothing refers to it any more.
unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise. An error would mean that there was no such mapping, and needs no action.
    unsafe {
        let _ = rustix::mm::munmap(start.as_ptr().cast(), len);
    }
}

impl Arena {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn new(size: usize, process: u32) -> Option<Arena> {
        let file = rustix::fs::memfd_create("thalweg-code", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        rustix::fs::ftruncate(&file, size as u64).ok()?;
        let map = |prot| {
            // SAFETY: a new shared mapping of our own file, placed by the system.
            let p = unsafe { rustix::mm::mmap(ptr::null_mut(), size, prot, MapFlags::SHARED, &file, 0) };
            p.ok().and_then(|p| NonNull::new(p.cast::<u8>()))
        };
        let execute = map(ProtFlags::READ | ProtFlags::EXEC)?;
        let Some(write) = map(ProtFlags::READ | ProtFlags::WRITE) else {
            // SAFETY: the mapping created above, not yet used.
            unsafe { unmap(execute, size) }
            return None;
        };
        Some(Arena { write, execute, size, process })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn new(_: usize, _: u32) -> Option<Arena> {
        None
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: every code in it holds a reference, so none is left.
        unsafe {
            unmap(self.write, self.size);
            unmap(self.execute, self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a function that returns `v`: `mov eax, v; ret`.
    fn answer(v: u32) -> Vec<u8> {
        let mut b = vec![0xB8];
        b.extend(v.to_le_bytes());
        b.push(0xC3);
        b
    }

    fn call(c: &Code) -> u32 {
        // SAFETY: the bytes are the function that `answer` encodes.
        unsafe { std::mem::transmute::<*const u8, extern "sysv64" fn() -> u32>(c.start())() }
    }

    #[test]
    fn both_ways_run() {
        let codes: Vec<Code> = (0..100).map(|i| Code::publish(&answer(i)).unwrap()).collect();
        codes.iter().zip(0..).for_each(|(c, i)| assert_eq!(call(c), i));
        assert_eq!(call(&Code::own_pages(&answer(7)).unwrap()), 7);
        drop(codes);
        let again: Vec<Code> = (0..100).map(|i| Code::publish(&answer(i + 1000)).unwrap()).collect();
        again.iter().zip(1000..).for_each(|(c, i)| assert_eq!(call(c), i));
    }

    #[test]
    fn no_mapping_is_writable_and_executable() {
        let _code = Code::publish(&answer(1)).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.lines().all(|l| !l.split(' ').nth(1).unwrap_or("").starts_with("rwx")), "{maps}");
    }
}
