//! Runs without a stream, of segments whose inputs somebody holds.
//!
//! In: a segment, or a subgraph of one, with its inputs. Out: the wanted results. Always true: no input is overwritten,
//! and nothing is deferred.

use crate::DeviceRef;
use crate::mode::{Mode, measuring};
use crate::report;
use crate::run::{self, Timed};
use crate::saved::Origin;
use crate::site::Site;
use crate::store::{self, Entry};
use crate::value::{NO_STREAM, Value};
use std::sync::Arc;
use thalweg_fusion::{BitSet, OwnedSegment, Segment};
use thalweg_runtime::Error;

/// Segment to run without a stream.
#[derive(Clone, Copy)]
pub(crate) struct Outside<'a> {
    pub device: DeviceRef,
    /// Mode and stream id that the segment was recorded with.
    pub recorded: (Mode, u32),
    pub segment: Segment<'a>,
    /// Call sites of the segment's gathers and scatters.
    pub sites: &'a [(u32, Site)],
}

/// Reason for a run without a stream, for explanations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rerun {
    /// Deferred results were read after all, or somebody waits for them.
    Deferred,
    /// Another segment failed: this run computes indices to find the one out of range, or results that do not depend on it.
    Failure,
    /// The planned kernels failed: the segment runs with one kernel per operation.
    Unfused,
}

impl Rerun {
    fn reason(self) -> &'static str {
        match self {
            Rerun::Deferred => "for results that had been deferred",
            Rerun::Failure => "for what does not depend on a failed operation",
            Rerun::Unfused => "one kernel an operation, since the planned kernels failed",
        }
    }
}

/// Runs a segment without a stream. Returns a value per operation, of which the written ones are resolved, and the
/// outcome of the run.
pub(crate) fn run_outside(
    of: &Outside<'_>,
    entry: &Arc<Entry>,
    sizes: &[i64],
    inputs: Vec<Arc<Value>>,
    why: Rerun,
) -> (Vec<Arc<Value>>, Result<(), Error>) {
    let &Outside { device, segment, sites, .. } = of;
    let fresh = |i: usize| {
        let (shape, dtype) = (segment.shapes[i], segment.ops[i].dtype);
        Arc::new(Value::pending(shape, dtype, device, NO_STREAM, 0, i as u32))
    };
    let values: Vec<Arc<Value>> = (0..segment.ops.len()).map(fresh).collect();
    let mut inputs: Vec<Option<Arc<Value>>> = inputs.into_iter().map(Some).collect();
    let mut run = || {
        let (own, origin) = entry.ready(device, segment, sizes)?;
        let ready = measuring().and(own.autotuning.winner()).unwrap_or(&own).clone();
        let found = ready.schedule(device, &vec![0; inputs.len()], || ready.lean(device, segment))?;
        let what = (segment.ops, sites);
        let report = report::begin(|| {
            let (made, none) = (origin == Origin::Search, BitSet::new(segment.ops.len()));
            let mut report = report::report(device, &segment, (&found.0, &own), made, &none, (None, &[]));
            report.rerun = Some(why.reason());
            report
        });
        let timed = if report::is_timed() { Timed::Launches } else { Timed::No };
        let outcome = run::run((&found.0, found.1), device, what, (&values, None), &mut inputs, segment.scalars, timed);
        report::end(report, &found.0, &outcome);
        outcome.map(|_| ())
    };
    let done = run();
    (values, done)
}

/// Subgraph of a segment as a segment of its own on these inputs, with `wanted` as its live-outs. Also returns its
/// sizes.
///
/// # Errors
/// The error that prevented an input.
pub(crate) fn part_on(
    part: OwnedSegment,
    inputs: &[Arc<Value>],
    wanted: &BitSet,
) -> Result<(OwnedSegment, Vec<i64>), Error> {
    let mut segment = OwnedSegment { live: wanted.clone(), ..part };
    for (to, v) in segment.inputs.iter_mut().zip(inputs) {
        *to = (v.dtype(), v.outcome()?.view);
    }
    segment.relink();
    let mut sizes = segment.ints.clone();
    for (_, view) in &segment.inputs {
        sizes.extend(view.shape.iter().map(|&d| d as i64));
        if !view.is_contiguous() {
            sizes.extend(view.strides().iter().map(|&s| s as i64));
            sizes.push(view.offset as i64);
        }
    }
    Ok((segment, sizes))
}

impl Outside<'_> {
    /// Plan store entry of the segment.
    pub fn entry(&self) -> Arc<Entry> {
        store::entry(self.device, self.recorded, &self.segment, false)
    }
}
