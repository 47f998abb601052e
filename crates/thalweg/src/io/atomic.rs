//! Atomic replacement of a file: a reader of the name finds the complete old or the complete new content, even after a
//! power failure.

use super::refused;
use crate::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file under a temporary name beside `path`, syncs it to disk, and renames it. If `write` fails, the old file
/// is untouched.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<std::io::Result<()>, Error>,
) -> Result<(), Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let shown = path.display().to_string();
    let Some(name) = path.file_name() else { return Err(refused(&shown, "names no file")) };
    let mut unfinished = std::ffi::OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}.{}.unfinished", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let unfinished = path.with_file_name(unfinished);
    let at_disk = |file: BufWriter<File>| {
        file.into_inner()?.sync_all()?;
        fs::rename(&unfinished, path)?;
        // The name is on disk once its directory is synced.
        #[cfg(unix)]
        File::open(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()?;
        std::io::Result::Ok(())
    };
    let made = OpenOptions::new().write(true).create_new(true).open(&unfinished).map_err(|e| refused(&shown, e))?;
    let mut file = BufWriter::with_capacity(1 << 20, made);
    let done = match write(&mut file) {
        Ok(Ok(())) => file.flush().and_then(|()| at_disk(file)).map_err(|e| refused(&shown, e)),
        Ok(Err(e)) => Err(refused(&shown, e)),
        Err(e) => Err(e),
    };
    if done.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    done
}
