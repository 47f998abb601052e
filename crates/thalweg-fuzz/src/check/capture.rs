//! Captured programs: a submission gives what the recorded operations give.

use super::{Checker, Drops, STRICT};
use crate::program::Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_runtime::Error;
use thalweg_stream::{Value, begin_capture, end_capture, set_mode, submit, synchronize};

static SUBMITTED: AtomicU64 = AtomicU64::new(0);

/// Number of submissions of captured programs so far.
pub fn submissions() -> u64 {
    SUBMITTED.load(Relaxed)
}

impl Checker {
    /// Checks the program captured, and submitted on other inputs of the same data. Thresholds that cut it exclude that.
    pub(super) fn captured(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let old = set_mode(STRICT);
        let got = self.submitted(program).map_err(|e| format!("captured: {e}"));
        set_mode(old);
        for got in got? {
            self.equal(program, &got, unfused, "captured")?;
        }
        Ok(())
    }

    /// Bytes of each kept step of three submissions; none if the program cannot be captured.
    fn submitted(&self, program: &Program) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        synchronize()?;
        let inputs = self.inputs(program)?;
        let Some(begin) = begin_capture(self.device) else { return Ok(vec![]) };
        let values = self.record_on(self.device, program, inputs.clone(), Drops::Early, false)?;
        let captured = {
            let results: Vec<&Arc<Value>> = values.iter().flatten().collect();
            end_capture(&begin, &inputs.iter().collect::<Vec<_>>(), &results)
        };
        synchronize()?;
        let Some(captured) = captured else { return Ok(vec![]) };
        let submit = || {
            let inputs = self.inputs(program)?;
            let results = submit(&captured, &inputs.iter().collect::<Vec<_>>(), captured.keys());
            // The inputs are dropped before the results are read.
            drop(inputs);
            SUBMITTED.fetch_add(1, Relaxed);
            let mut results = results.expect("inputs of the same layouts, and nothing waits").into_iter();
            let mut read =
                |v: &Option<Arc<Value>>| v.as_ref().map(|_| results.next().expect("one each").read()).transpose();
            values.iter().map(&mut read).collect()
        };
        (0..3).map(|_| submit()).collect()
    }
}
