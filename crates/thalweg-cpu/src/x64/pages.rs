//! Memory for code: never writable and executable through one mapping.
//!
//! An [`Arena`] is a memory file mapped twice, once to write and once to execute, so publishing a function is a copy. Where memory files
//! are refused, each function gets pages of its own that turn from writable to executable. Dropping a [`Code`] frees its
//! place. Nothing is written to a place while a `Code` holds it.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ptr::{self, NonNull};
use std::sync::{Arc, LazyLock, Mutex};

const ARENA: usize = 16 << 20;
const PAGE: usize = 4096;
const GRAIN: usize = 64;

/// Published code.
pub struct Code {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
}

enum Owner {
    /// A place in an arena.
    Arena(Arc<Arena>, usize),
    /// Pages of its own.
    Pages,
}

// SAFETY: the bytes are not written while this exists; the arena's bookkeeping is behind a mutex.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

struct Arena {
    write: NonNull<u8>,
    execute: NonNull<u8>,
    /// (offset, length) of free places, in order, none next to another.
    free: Mutex<Vec<(usize, usize)>>,
}

// SAFETY: places are handed out once under the mutex, and only their holder writes to them.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

static ARENAS: LazyLock<Mutex<Vec<Arc<Arena>>>> = LazyLock::new(Mutex::default);

impl Code {
    /// Publishes code. `None`: the operating system gives no executable memory.
    pub fn publish(bytes: &[u8]) -> Option<Code> {
        let len = bytes.len().next_multiple_of(GRAIN);
        let mut arenas = ARENAS.lock().unwrap_or_else(|e| e.into_inner());
        let found = arenas.iter().find_map(|a| Some((a.clone(), a.take(len)?)));
        let place = match found {
            Some(place) => Some(place),
            None => Arena::new(ARENA.max(len.next_multiple_of(PAGE))).and_then(|a| {
                let a = Arc::new(a);
                let at = a.take(len)?;
                arenas.push(a.clone());
                Some((a, at))
            }),
        };
        drop(arenas);
        let Some((arena, at)) = place else { return Code::pages(bytes) };
        // SAFETY: the place `at..at + len` of the writable view is ours since `take`, and inside the mapping.
        let start = unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), arena.write.as_ptr().add(at), bytes.len());
            arena.execute.add(at)
        };
        Some(Code { start, len, owner: Owner::Arena(arena, at) })
    }

    /// The way without memory files.
    fn pages(bytes: &[u8]) -> Option<Code> {
        let len = bytes.len().next_multiple_of(PAGE);
        // SAFETY: a new private mapping, placed by the system; it is written before it turns executable, and given back on failure.
        unsafe {
            let p =
                rustix::mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
                    .ok()?;
            ptr::copy_nonoverlapping(bytes.as_ptr(), p.cast(), bytes.len());
            if rustix::mm::mprotect(p, len, MprotectFlags::READ | MprotectFlags::EXEC).is_err() {
                let _ = rustix::mm::munmap(p, len);
                return None;
            }
            Some(Code { start: NonNull::new(p.cast())?, len, owner: Owner::Pages })
        }
    }

    /// Its first byte.
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
        match &self.owner {
            Owner::Arena(arena, at) => arena.give_back(*at, self.len),
            // SAFETY: the mapping was made for this value alone, and nobody runs it any more.
            Owner::Pages => unsafe {
                let _ = rustix::mm::munmap(self.start.as_ptr().cast(), self.len);
            },
        }
    }
}

impl Arena {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn new(size: usize) -> Option<Arena> {
        let file = rustix::fs::memfd_create("thalweg-code", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        rustix::fs::ftruncate(&file, size as u64).ok()?;
        let map = |prot| {
            // SAFETY: a new shared mapping of our own file, placed by the system; arenas live for the whole process.
            let p = unsafe { rustix::mm::mmap(ptr::null_mut(), size, prot, MapFlags::SHARED, &file, 0) };
            p.ok().and_then(|p| NonNull::new(p.cast::<u8>()))
        };
        let execute = map(ProtFlags::READ | ProtFlags::EXEC)?;
        let Some(write) = map(ProtFlags::READ | ProtFlags::WRITE) else {
            // SAFETY: the mapping made above, not yet used.
            unsafe {
                let _ = rustix::mm::munmap(execute.as_ptr().cast(), size);
            }
            return None;
        };
        Some(Arena { write, execute, free: Mutex::new(vec![(0, size)]) })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn new(_: usize) -> Option<Arena> {
        None
    }

    fn take(&self, len: usize) -> Option<usize> {
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        let i = free.iter().position(|f| f.1 >= len)?;
        let (at, have) = free[i];
        if have == len {
            free.remove(i);
        } else {
            free[i] = (at + len, have - len);
        }
        Some(at)
    }

    fn give_back(&self, at: usize, len: usize) {
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        let i = free.partition_point(|f| f.0 < at);
        free.insert(i, (at, len));
        if i + 1 < free.len() && at + len == free[i + 1].0 {
            free[i].1 += free[i + 1].1;
            free.remove(i + 1);
        }
        if i > 0 && free[i - 1].0 + free[i - 1].1 == free[i].0 {
            free[i - 1].1 += free[i].1;
            free.remove(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov eax, v; ret`
    fn answer(v: u32) -> Vec<u8> {
        let mut b = vec![0xB8];
        b.extend(v.to_le_bytes());
        b.push(0xC3);
        b
    }

    fn call(c: &Code) -> u32 {
        // SAFETY: the bytes are the function that `answer` writes.
        unsafe { std::mem::transmute::<*const u8, extern "sysv64" fn() -> u32>(c.start())() }
    }

    #[test]
    fn both_ways_run_and_are_reused() {
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
