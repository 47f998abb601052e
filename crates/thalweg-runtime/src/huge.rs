//! Huge pages for large host memory that is about to be written for the first time.

/// Minimum bytes of a block for which huge pages are requested.
const LARGE: usize = 4 << 20;

/// Announces that all of these bytes are about to be written, so that the system may back fresh memory by huge pages
/// instead of faulting every 4 KiB. These faults take longer than copying the bytes, for a copy from a GPU to fresh
/// memory. Changes only the backing of the memory, and nothing on systems without huge pages.
pub fn expect_to_fill(bytes: &mut [u8]) {
    #[cfg(target_os = "linux")]
    if bytes.len() >= LARGE {
        const PAGE: usize = 4096;
        let before = bytes.as_ptr().addr().next_multiple_of(PAGE) - bytes.as_ptr().addr();
        let whole = (bytes.len() - before) / PAGE * PAGE;
        let first = bytes[before..].as_mut_ptr();
        // SAFETY: the range lies within the bytes, which are borrowed mutably; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(first.cast(), whole, rustix::mm::Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (bytes, LARGE);
}

#[cfg(test)]
mod tests {
    #[test]
    fn contents_stay() {
        let mut bytes: Vec<u8> = (0..9 << 20).map(|i| (i / 5) as u8).collect();
        let before = bytes.clone();
        super::expect_to_fill(&mut bytes[3..]);
        super::expect_to_fill(&mut []);
        assert!(bytes == before);
    }
}
