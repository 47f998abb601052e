//! Which engine runs a body.
//!
//! In: a body and what `THALWEG_ISA` or the machine says. Out: something that runs rectangles of it, whatever lanes they hold:
//! the emitted code where there is some, and the tile engine for bodies that the emitter refuses and for rectangles that
//! it hands back. The tile program of a body is made when first needed.

use crate::pointwise::Pointwise;
use crate::rows::{RowArgs, Rows};
use std::sync::OnceLock;
use thalweg_kernel::Body;
use thalweg_runtime::ProgramInfo;

/// A compiled body.
pub struct Engine {
    body: Body,
    fast: Option<Box<dyn Rows>>,
    slow: OnceLock<Box<dyn Rows>>,
    info: ProgramInfo,
}

impl Engine {
    /// Compiles a body.
    pub fn new(body: &Body) -> Engine {
        let info = ProgramInfo { engine: "tile".into(), ..ProgramInfo::default() };
        Engine { body: body.clone(), fast: None, slow: OnceLock::new(), info }
    }

    /// What was compiled.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether a rectangle may be run again after its outputs were written.
    pub fn rereads_inputs(&self) -> bool {
        self.info.rereads_inputs
    }

    /// Computes `rows × n` points; `in_place` where outputs may lie over inputs.
    ///
    /// # Safety
    /// As [`Rows::run`].
    pub unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, in_place: bool) {
        if let Some(fast) = self.fast.as_deref().filter(|_| !in_place) {
            // SAFETY: the caller's promise.
            if unsafe { fast.run(args, n, rows) } {
                return;
            }
        }
        let slow = self.slow.get_or_init(|| Box::new(Pointwise::new(&self.body)));
        // SAFETY: the caller's promise; where the fast engine ran before, the inputs are as they were.
        let done = unsafe { slow.run(args, n, rows) };
        assert!(done, "the tile engine hands nothing back");
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.info)
    }
}
