//! Buffers between unreadable guard pages, so that an access out of bounds crashes the test.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

const PAGE: usize = 4096;

pub struct Fenced {
    base: *mut u8,
    pages: usize,
    at: usize,
    pub len: usize,
}

impl Fenced {
    /// Allocates `len` bytes that end (`at_end`) or begin at a guard page.
    pub fn new(len: usize, at_end: bool) -> Fenced {
        let pages = len.div_ceil(PAGE).max(1);
        // SAFETY: a new mapping of our own; the middle pages are made accessible.
        let base = unsafe {
            let p = rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                (pages + 2) * PAGE,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
            .unwrap();
            let flags = MprotectFlags::READ | MprotectFlags::WRITE;
            rustix::mm::mprotect(p.byte_add(PAGE), pages * PAGE, flags).unwrap();
            p.cast()
        };
        let at = if at_end { PAGE + pages * PAGE - len } else { PAGE };
        let mut f = Fenced { base, pages, at, len };
        f.room().fill(0xA5);
        f
    }
    pub fn address(&self) -> u64 {
        self.base as u64 + self.at as u64
    }
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: inside the accessible pages.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.at), self.len) }
    }
    /// All accessible bytes: those of the buffer, and the rest of its pages.
    fn room(&mut self) -> &mut [u8] {
        // SAFETY: the accessible pages.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(PAGE), self.pages * PAGE) }
    }
    /// Whether the accessible bytes outside the buffer are unchanged.
    pub fn clean(&mut self) -> bool {
        let (start, len) = (self.at - PAGE, self.len);
        let room = self.room();
        room[..start].iter().chain(&room[start + len..]).all(|b| *b == 0xA5)
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe {
            let _ = rustix::mm::munmap(self.base.cast(), (self.pages + 2) * PAGE);
        }
    }
}
