//! Scratch memory of a thread, aligned to cache lines, and a bump allocator for arrays in it.

/// Storage unit of an [`Arena`]: one cache line, which gives its alignment.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code, reason = "only ever reached through pointers")] [u8; 64]);

/// Scratch memory aligned to cache lines, which only grows.
#[derive(Default)]
pub struct Arena(Vec<Line>);

impl Arena {
    /// Creates an arena without memory.
    pub const fn new() -> Arena {
        Arena(Vec::new())
    }

    /// Size of the arena in bytes.
    pub fn len(&self) -> usize {
        self.0.len() * size_of::<Line>()
    }

    /// Returns the address of at least `bytes` bytes, growing the arena if needed (which moves it).
    pub fn bytes(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// Offsets of consecutive arrays in an [`Arena`]: each is padded by one cache line, since arrays whose size is a power
/// of two would otherwise map to the same cache sets.
#[derive(Default)]
pub struct ArenaLayout {
    pub bytes: usize,
}

impl ArenaLayout {
    pub fn take(&mut self, bytes: usize) -> usize {
        let at = self.bytes;
        self.bytes += bytes.next_multiple_of(64) + 64;
        at
    }
}
