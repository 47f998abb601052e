//! Which engine runs a body along its rows.

use crate::engine::Choice;
use crate::rows::{Along, RowArgs};
use crate::tile;
use std::ops::Range;
use thalweg_kernel::Body;
use thalweg_runtime::{Error, ProgramInfo};

/// A compiled row body.
pub struct AlongEngine {
    slow: Box<dyn Along>,
    info: ProgramInfo,
}

impl AlongEngine {
    /// Compiles a body.
    pub fn new(body: &Body, keep: bool, _: Choice) -> AlongEngine {
        let info = ProgramInfo { engine: Choice::Tile.name().into(), ..ProgramInfo::default() };
        AlongEngine { slow: Box::new(tile::compile_along(body, keep)), info }
    }

    /// What was compiled.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether rows may be run again after their outputs were written.
    pub fn rereads_inputs(&self) -> bool {
        self.info.rereads_inputs
    }

    /// Runs phases for rows.
    ///
    /// # Errors
    /// When an index lies outside.
    ///
    /// # Safety
    /// As [`Along::run`].
    pub unsafe fn run(
        &self,
        args: &RowArgs,
        n: usize,
        rows: usize,
        phases: Range<usize>,
        _in_place: bool,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let done = unsafe { self.slow.run(args, n, rows, phases) };
        if done { Ok(()) } else { Err(Error::Index("an index lies outside".into())) }
    }
}
