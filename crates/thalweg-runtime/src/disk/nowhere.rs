//! Stub for systems that do not report the owner of a file, so that no folder can be trusted: the same functions on a
//! type without values.

use super::Ignored;
use std::path::Path;
use std::time::SystemTime;

/// See `folder.rs`.
#[derive(Debug)]
pub enum Folder {}

/// See `folder.rs`.
#[derive(Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Modification time.
    pub written: SystemTime,
}

impl Folder {
    /// Always fails.
    pub fn open(_: &Path) -> Result<Folder, Ignored> {
        Err(Ignored::System)
    }

    /// See `folder.rs`.
    pub fn make(&self, _: &str) {
        match *self {}
    }

    /// See `folder.rs`.
    pub fn inner(&self, _: &str) -> Result<Folder, Ignored> {
        match *self {}
    }

    /// See `folder.rs`.
    pub fn read(&self, _: &str, _: usize) -> Result<Vec<u8>, Ignored> {
        match *self {}
    }

    /// See `folder.rs`.
    pub fn write(&self, _: &str, _: &[u8]) -> Result<(), Ignored> {
        match *self {}
    }

    /// See `folder.rs`.
    pub fn files(&self) -> Vec<File> {
        match *self {}
    }

    /// See `folder.rs`.
    pub fn remove(&self, _: &str) -> bool {
        match *self {}
    }
}
