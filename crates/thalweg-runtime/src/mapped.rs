//! File contents without copying.

use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes of a file that is not written while they are in use.
///
/// On Unix they are a private mapping, so that only accessed pages are read. Other programs must not truncate the file
/// meanwhile: the system ends a process that accesses missing pages. (Files replaced by renaming, as everywhere in this
/// project, stay unchanged.)
pub struct FileBytes(Inner);

#[cfg(unix)]
type Inner = map::Mapping;
#[cfg(not(unix))]
type Inner = Vec<u8>;

impl FileBytes {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened or mapped.
    pub fn open(path: &Path) -> io::Result<FileBytes> {
        let file = File::open(path)?;
        #[cfg(unix)]
        return Ok(FileBytes(map::Mapping::new(&file)?));
        #[cfg(not(unix))]
        {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut { file }, &mut bytes)?;
            Ok(FileBytes(bytes))
        }
    }
}

impl std::ops::Deref for FileBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(unix)]
mod map {
    use rustix::mm::{MapFlags, ProtFlags};
    use std::fs::File;
    use std::io;
    use std::ptr::{self, NonNull};

    /// Mapping of a whole file; nothing is mapped for an empty one.
    pub(super) struct Mapping {
        start: NonNull<u8>,
        length: usize,
    }

    // SAFETY: this process never writes the bytes; reading them from any thread is sound.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        pub(super) fn new(file: &File) -> io::Result<Mapping> {
            let data = file.metadata()?;
            if !data.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let length = usize::try_from(data.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
            if length == 0 {
                return Ok(Mapping { start: NonNull::dangling(), length });
            }
            // SAFETY: a new mapping, placed by the system and unknown to other code.
            let p = unsafe { rustix::mm::mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
            let start = NonNull::new(p.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Mapping { start, length })
        }
    }

    impl std::ops::Deref for Mapping {
        type Target = [u8];
        fn deref(&self) -> &[u8] {
            // SAFETY: `length` readable bytes for as long as the mapping lives; an empty slice may dangle.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            if self.length > 0 {
                // SAFETY: the mapping created in `new`, no longer borrowed.
                let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_files() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("thalweg-mapped-{}", std::process::id()));
        for content in [&b""[..], b"abc", &[7; 10_000]] {
            std::fs::write(&path, content).unwrap();
            let bytes = FileBytes::open(&path).unwrap();
            // An open mapping stays valid when the file is removed and its name reused.
            std::fs::remove_file(&path).unwrap();
            assert_eq!(&*bytes, content);
        }
        assert!(FileBytes::open(&path).is_err());
        assert!(cfg!(not(unix)) || FileBytes::open(&folder).is_err());
    }
}
