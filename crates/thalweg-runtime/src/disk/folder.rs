//! Folders and files that nobody but the user can have written.
//!
//! A folder is opened once and asked who owns it; all further steps go through what was opened, so that it does not
//! matter what happens to its name. Links are never followed.

use super::Ignored;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::process::geteuid;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How the name of a file begins that is not finished.
const UNFINISHED: &str = "new-";

/// A folder of the user.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// A file in a folder.
#[derive(Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written.
    pub written: SystemTime,
}

/// Whether others can have written it.
fn is_private(stat: &Stat) -> Result<(), Ignored> {
    if stat.st_uid != geteuid().as_raw() {
        return Err(Ignored::Foreign);
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err(Ignored::Writable);
    }
    Ok(())
}

/// How a folder is opened: itself, not what a link leads to.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens a folder, and makes it if it is not there.
    pub fn open(path: &Path) -> Result<Folder, Ignored> {
        let opened = open(path, FOLDER, Mode::empty()).or_else(|_| {
            // Whatever kept it from being opened, if it is not there now there is none.
            let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            open(path, FOLDER, Mode::empty())
        });
        Folder::check(opened)
    }

    /// Makes a folder in this one, where there is none; another process may have been first.
    pub fn make(&self, name: &str) {
        let _ = mkdirat(&self.0, name, Mode::RWXU);
    }

    /// Opens a folder in this one.
    pub fn inner(&self, name: &str) -> Result<Folder, Ignored> {
        Folder::check(openat(&self.0, name, FOLDER, Mode::empty()))
    }

    fn check(opened: rustix::io::Result<OwnedFd>) -> Result<Folder, Ignored> {
        use rustix::io::Errno;
        let folder = opened.map_err(|e| match e {
            Errno::NOTDIR | Errno::LOOP => Ignored::NotAFile,
            _ => Ignored::Unreadable,
        })?;
        is_private(&fstat(&folder).map_err(|_| Ignored::Unreadable)?)?;
        Ok(Folder(folder))
    }

    /// Reads a file of at most `max` bytes.
    pub fn read(&self, name: &str, max: usize) -> Result<Vec<u8>, Ignored> {
        // A pipe would keep us waiting.
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.0, name, how, Mode::empty()).map_err(|e| match e {
            rustix::io::Errno::LOOP => Ignored::NotAFile,
            _ => Ignored::Unreadable,
        })?;
        let stat = fstat(&file).map_err(|_| Ignored::Unreadable)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Ignored::NotAFile);
        }
        is_private(&stat)?;
        let size = usize::try_from(stat.st_size).map_err(|_| Ignored::TooLarge)?;
        if size > max {
            return Err(Ignored::TooLarge);
        }
        // What it said may not be true any more.
        let mut bytes = Vec::with_capacity(size + 1);
        std::fs::File::from(file).take(size as u64 + 1).read_to_end(&mut bytes).map_err(|_| Ignored::Unreadable)?;
        if bytes.len() == size { Ok(bytes) } else { Err(Ignored::Length) }
    }

    /// Writes a file, whole or not at all, in the place of what has its name. It is not waited for until it is on the
    /// disk: what a crash leaves is not whole and has no such checksum.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Ignored> {
        let random = RandomState::new().build_hasher().finish();
        let unfinished = format!("{UNFINISHED}{}-{random:016x}", std::process::id());
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, &unfinished, how, Mode::RUSR | Mode::WUSR).map_err(|_| Ignored::Unreadable)?;
        let written = std::fs::File::from(file).write_all(bytes).is_ok();
        if written && renameat(&self.0, &unfinished, &self.0, name).is_ok() {
            return Ok(());
        }
        self.remove(&unfinished);
        Err(Ignored::Unreadable)
    }

    /// Everything in it but folders.
    pub fn files(&self) -> Vec<File> {
        let Ok(entries) = Dir::read_from(&self.0) else { return vec![] };
        let file = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
            let name = entry.ok()?.file_name().to_str().ok()?.to_owned();
            let stat = statat(&self.0, &*name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
            let written = SystemTime::UNIX_EPOCH
                .checked_add(Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)));
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            (!is_folder).then(|| File { name, bytes, written: written.unwrap_or(SystemTime::UNIX_EPOCH) })
        };
        entries.filter_map(file).collect()
    }

    /// Removes a file; whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        unlinkat(&self.0, name, AtFlags::empty()).is_ok()
    }
}
