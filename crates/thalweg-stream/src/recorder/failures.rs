//! Recovery from failed segments, and pending work for `synchronize`.
//!
//! In: a segment whose run returned an error. Out: its results by an unfused run, if only the plan was wrong; else the
//! outcome of each result ([`crate::index_error`]). For [`crate::synchronize`]: the deferred results and deferred
//! checks that are still held.

use super::{Laid, Recorder, view_of};
use crate::defect;
use crate::deferred::DeferredValue;
use crate::deferred_check::DeferredChecks;
use crate::index_error::{Failure, Sorted};
use crate::mode::Mode;
use crate::outside::{Outside, Rerun, run_outside};
use crate::value::Value;
use std::sync::Arc;
use thalweg_ir::OpClass;
use thalweg_runtime::{Error, count};

/// Maximum number of noted deferred checks. Beyond, those whose results nobody holds are dropped.
const MAX_NOTED_CHECKS: usize = 64;

impl Recorder {
    /// Notes the deferred checks of the segment's live results.
    pub(super) fn note_checks(&mut self) {
        let mut last = None;
        for checks in self.live.iter().filter_map(|i| self.values.get(i)?.checks()) {
            let new = last.replace(Arc::as_ptr(checks)) != Some(Arc::as_ptr(checks));
            if new {
                self.checks.push(Arc::downgrade(checks));
            }
        }
        if self.checks.len() > MAX_NOTED_CHECKS {
            self.checks.retain(|c| c.strong_count() > 0);
        }
    }

    /// Takes the deferred results that somebody holds, and the deferred checks of results that somebody holds: the work
    /// left for `synchronize`.
    pub fn take_held(&mut self) -> (Vec<Arc<DeferredValue>>, Vec<Arc<DeferredChecks>>) {
        let held = self.held.drain(..).filter_map(|h| h.upgrade()).collect();
        (held, self.checks.drain(..).filter_map(|c| c.upgrade()).collect())
    }

    /// Reruns the segment unfused after an index out of range. Returns true if that computes all results: the plan was
    /// wrong then, not the program, and later runs of the pattern stay unfused.
    #[cold]
    pub(super) fn run_unfused(&mut self, error: &Error) -> bool {
        if !matches!(error, Error::Index(_)) || !self.mode.fused || self.mode.reference {
            return false;
        }
        let inputs: Option<Vec<Arc<Value>>> = self.inputs_as_saved().into_iter().collect();
        let Some(inputs) = inputs.filter(|all| all.len() == self.saved.len()) else { return false };
        let shapes = self.values.iter().map(|v| *v.shape()).collect();
        let laid: Laid = (shapes, self.saved.iter().map(|s| (s.0, s.1)).collect());
        let mode = Mode { fused: false, ..self.mode };
        let mut segment = self.segment(&laid);
        segment.mode.fused = false;
        let outside = Outside { device: self.device, recorded: (mode, self.stream), segment, sites: &self.sites };
        let entry = outside.entry();
        let (made, done) = run_outside(&outside, &entry, &self.sizes, inputs, Rerun::Unfused);
        let ready = done.and_then(|()| entry.ready(self.device, segment, &self.sizes));
        let Ok((ready, _)) = ready else { return false };
        tracing::error!(%error, operations = self.ops.len(), "a plan was wrong, a defect of Thalweg: run without it");
        for i in self.planned.iter() {
            self.values[i].resolve(made[i].outcome());
        }
        count(|c| {
            c.failed_segments += 1;
            c.segments_rerun += 1;
        });
        let last = Some((self.sizes.as_slice().into(), ready));
        if let Some(known) = self.recognizer.known().iter_mut().find(|k| k.live == self.planned) {
            known.last = last;
        }
        true
    }

    /// Inputs of a failed segment that still hold their data, `None` for the others.
    fn inputs_as_saved(&self) -> Vec<Option<Arc<Value>>> {
        let there = |v: &Arc<Value>| matches!(v.state(), Some(Ok(_)));
        let pairs = self.inputs.iter().zip(&self.saved);
        pairs.map(|(v, s)| v.as_ref().or(s.2.as_ref()).filter(|v| there(v)).cloned()).collect()
    }

    /// Outcome of each result after a failed run: an index was out of range, or a foreign operation did not compile.
    #[cold]
    pub(super) fn sort_out(&self, error: &Error) -> Option<Sorted> {
        // Compile errors occur before anything runs.
        let compiling =
            matches!(error, Error::Compile { .. }) && self.ops.iter().any(|o| o.op.class() == OpClass::Foreign);
        let indexed = matches!(error, Error::Index(_)) && self.saved.len() == self.inputs.len();
        if !(compiling || indexed) || self.mode.reference {
            return None;
        }
        let saved: Vec<_> = match compiling {
            true => {
                self.inputs.iter().map(|v| v.as_ref().map(|v| (v.dtype(), view_of(v), None))).collect::<Option<_>>()?
            }
            false => self.saved.clone(),
        };
        let there = |v: &Arc<Value>| matches!(v.state(), Some(Ok(_)));
        let inputs: Vec<Option<Arc<Value>>> = self
            .inputs
            .iter()
            .zip(&saved)
            .map(|(v, s)| v.as_ref().or(s.2.as_ref()).filter(|v| there(v)).cloned())
            .collect();
        let shapes = self.values.iter().map(|v| *v.shape()).collect();
        let laid: Laid = (shapes, saved.iter().map(|s| (s.0, s.1)).collect());
        let failure = Failure {
            device: self.device,
            mode: self.mode,
            stream: self.stream,
            segment: self.segment(&laid),
            sites: &self.sites,
            inputs: &inputs,
            values: &self.values,
        };
        let sorted = failure.sort_out(&self.planned, error);
        if let Some(Sorted { made, .. }) = &sorted {
            count(|c| c.segments_rerun += 1);
            tracing::warn!(%error, operations = self.ops.len(), computed = made.len(), "a segment failed in part");
        }
        sorted
    }

    /// Error for a panic while the segment ran.
    pub(super) fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        let message = format!("a kernel panicked on {}: {}", self.device.device().name(), defect::said(panic));
        // Kernels release inputs as they run. Without all of them the segment cannot be reported as it was.
        if self.inputs.iter().any(Option::is_none) {
            return defect::error(message, None);
        }
        let laid = self.laid_out();
        defect::error(message, Some((self.device, &self.segment(&laid))))
    }
}
