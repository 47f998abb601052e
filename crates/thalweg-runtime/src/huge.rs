//! Large stretches of the host's memory that are about to be written for the first time.

/// Bytes from which on the system is asked for huge pages.
const LARGE: usize = 4 << 20;

/// Says that all of these bytes are about to be written: the system may back what it has not yet by huge pages, so that it
/// is not asked for each 4 KiB. A copy from a GPU to fresh memory takes longer for those than for its bytes. Nothing but
/// how the memory is backed changes, and nothing at all where the system has no huge pages.
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
