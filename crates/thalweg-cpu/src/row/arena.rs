//! Memory of a thread, aligned to cache lines, and places for arrays in it.

/// A cache line, for its alignment.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code, reason = "only ever reached through pointers")] [u8; 64]);

/// Memory aligned to cache lines, which only grows.
#[derive(Default)]
pub struct Arena(Vec<Line>);

impl Arena {
    /// Without memory.
    pub const fn new() -> Arena {
        Arena(Vec::new())
    }

    /// Bytes that there are.
    pub fn len(&self) -> usize {
        self.0.len() * size_of::<Line>()
    }

    /// At least so many bytes.
    pub fn bytes(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// Places for arrays one after the other in an [`Arena`]: each begins a line later than it would have to, since arrays
/// whose size is a power of two would otherwise fall into the same sets of the caches.
#[derive(Default)]
pub struct Places {
    pub bytes: usize,
}

impl Places {
    pub fn take(&mut self, bytes: usize) -> usize {
        let at = self.bytes;
        self.bytes += bytes.next_multiple_of(64) + 64;
        at
    }
}
