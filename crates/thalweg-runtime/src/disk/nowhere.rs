//! Stub for systems that do not report the owner of a file, so that no folder can be trusted: the same functions on a
//! type without values.

use super::Ignored;
use std::path::Path;
use std::time::SystemTime;

/// Folder that cannot exist: on this system, files have no owner that can be checked. Methods are those of `folder.rs`.
#[derive(Debug)]
pub enum Folder {}

/// File in a folder, as in `folder.rs`.
#[derive(Debug)]
pub struct File {
    /// Name of the file.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Modification time.
    pub written: SystemTime,
}

impl Folder {
    /// Always fails.
    pub fn open(_: &Path) -> Result<Folder, Ignored> {
        Err(Ignored::System)
    }

    /// As in `folder.rs`; never called.
    pub fn make(&self, _: &str) {
        match *self {}
    }

    /// As in `folder.rs`; never called.
    pub fn inner(&self, _: &str) -> Result<Folder, Ignored> {
        match *self {}
    }

    /// As in `folder.rs`; never called.
    pub fn read(&self, _: &str, _: usize) -> Result<Vec<u8>, Ignored> {
        match *self {}
    }

    /// As in `folder.rs`; never called.
    pub fn write(&self, _: &str, _: &[u8]) -> Result<(), Ignored> {
        match *self {}
    }

    /// As in `folder.rs`; never called.
    pub fn files(&self) -> Vec<File> {
        match *self {}
    }

    /// As in `folder.rs`; never called.
    pub fn remove(&self, _: &str) -> bool {
        match *self {}
    }
}
