//! Check of a program on a device whose language is fast math: it has no strict mode, and no f64.
//!
//! In: a program. Out: its results of one kernel per operation against the interpreter, and those of fused kernels
//! within the program's stability. A program with f64 or with kernels that the device refuses is not checked.

use super::{Checker, Drops, FAST, SINGLE};
use crate::program::Program;
use crate::stability::Stability;
use std::cell::LazyCell;
use thalweg_ir::DType;
use thalweg_runtime::Error;
use thalweg_stream::{DeviceRef, Mode};

/// Outcome of a check.
pub enum Outcome {
    /// All results are right.
    Right,
    /// The device refuses a kernel, or the program has f64.
    Refused(String),
}

impl Checker {
    /// Makes a checker for [`Checker::check_fast_math`].
    pub fn fast_math(device: DeviceRef) -> Checker {
        Checker { gpu: true, fast_math: true, ..Checker::new(device, device) }
    }

    /// Checks a program in the modes that the device has.
    ///
    /// # Errors
    /// A description of the first wrong result.
    pub fn check_fast_math(&self, program: &Program) -> Result<Outcome, String> {
        let has_f64 = program.inputs.iter().map(|i| i.dtype).chain(program.steps.iter().map(|s| s.dtype));
        if has_f64.into_iter().any(|dtype| dtype == DType::F64) {
            return Ok(Outcome::Refused("it has f64".into()));
        }
        let run = |mode: Mode, all: bool| match self.run(program, mode, Drops::Early, all) {
            Ok(results) => Ok(Ok(results)),
            Err(error) => match refusal(&error) {
                Some(why) => Ok(Err(why)),
                None => Err(error.to_string()),
            },
        };
        let single = match run(SINGLE, true).map_err(|why| format!("one by one: {why}"))? {
            Ok(results) => results,
            Err(why) => return Ok(Outcome::Refused(why)),
        };
        self.against_meaning(program, &single)?;
        let fast = match run(FAST, false).map_err(|why| format!("fused: {why}"))? {
            Ok(results) => results,
            Err(why) => return Ok(Outcome::Refused(why)),
        };
        let stability = LazyCell::new(|| Stability::new(program));
        self.close((program, &stability), &fast, &single)?;
        Ok(Outcome::Right)
    }
}

/// Reason why a device refused a kernel; `None` for other errors.
fn refusal(error: &Error) -> Option<String> {
    let text = error.to_string();
    let (_, why) = text.split_once(" on wgpu: ")?;
    Some(why.lines().next().unwrap_or_default().into())
}
