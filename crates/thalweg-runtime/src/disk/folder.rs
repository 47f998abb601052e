//! Folders and files that only the user can have written.
//!
//! A folder is opened once and its owner checked; all further steps use the open handle, so that later changes of its
//! name do not matter. Links are never followed.

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

/// Prefix of the names of unfinished files.
const UNFINISHED: &str = "new-";

/// Open folder that belongs to the user.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// File in a folder.
#[derive(Debug)]
pub struct File {
    /// Name of the file.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Modification time.
    pub written: SystemTime,
}

/// Checks that only the user can have written a file or folder.
fn is_private(stat: &Stat) -> Result<(), Ignored> {
    if stat.st_uid != geteuid().as_raw() {
        return Err(Ignored::Foreign);
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err(Ignored::Writable);
    }
    Ok(())
}

/// Flags for opening a folder itself and not the target of a link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens a folder; creates it if missing.
    pub fn open(path: &Path) -> Result<Folder, Ignored> {
        let opened = open(path, FOLDER, Mode::empty()).or_else(|_| {
            // Whatever the error, try to create the folder and open it again.
            let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            open(path, FOLDER, Mode::empty())
        });
        Folder::check(opened)
    }

    /// Creates a subfolder if missing; another process may have created it first.
    pub fn make(&self, name: &str) {
        let _ = mkdirat(&self.0, name, Mode::RWXU);
    }

    /// Opens a subfolder.
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
        // Opening a pipe would block.
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
        // The reported size may be out of date.
        let mut bytes = Vec::with_capacity(size + 1);
        std::fs::File::from(file).take(size as u64 + 1).read_to_end(&mut bytes).map_err(|_| Ignored::Unreadable)?;
        if bytes.len() == size { Ok(bytes) } else { Err(Ignored::Length) }
    }

    /// Writes a file atomically, replacing one of the same name. Does not wait for the disk: files left incomplete by a
    /// crash fail the checksum.
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

    /// Lists all files of the folder, without subfolders.
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

    /// Removes a file; returns whether it existed.
    pub fn remove(&self, name: &str) -> bool {
        unlinkat(&self.0, name, AtFlags::empty()).is_ok()
    }
}
