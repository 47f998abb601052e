//! Reports of segments as they run, collected per thread when somebody asked for an explanation.

use crate::DeviceRef;
use crate::calibration::costs;
use crate::ready::Ready;
use crate::run::Run;
use crate::tier::TierRun;
use std::cell::RefCell;
use std::sync::Arc;
use thalweg_fusion::{BitSet, Keep, OwnedSegment, Runner, Segment, SegmentReport};
use thalweg_runtime::{Error, Program};

thread_local! {
    static COLLECTED: RefCell<Option<Vec<SegmentReport>>> = const { RefCell::new(None) };
    static SEGMENTS: RefCell<Option<Vec<OwnedSegment>>> = const { RefCell::new(None) };
    static TIERS: RefCell<Option<Vec<TierRun>>> = const { RefCell::new(None) };
    static TIMES: RefCell<Option<Vec<u64>>> = const { RefCell::new(None) };
}

/// Runs `f` and collects the reports of segments that this thread runs meanwhile.
pub(crate) fn collected<T>(f: impl FnOnce() -> T) -> (T, Vec<SegmentReport>) {
    let outer = COLLECTED.replace(Some(Vec::new()));
    let out = f();
    (out, COLLECTED.replace(outer).unwrap_or_default())
}

/// Runs `f` and collects the nanoseconds of launches that this thread makes meanwhile.
pub(crate) fn timed<T>(f: impl FnOnce() -> T) -> (T, Vec<u64>) {
    let outer = TIMES.replace(Some(Vec::new()));
    let out = f();
    (out, TIMES.replace(outer).unwrap_or_default())
}

/// Runs `f` and collects the segments that this thread cuts meanwhile.
pub(crate) fn cut_off<T>(f: impl FnOnce() -> T) -> (T, Vec<OwnedSegment>) {
    let outer = SEGMENTS.replace(Some(Vec::new()));
    let out = f();
    (out, SEGMENTS.replace(outer).unwrap_or_default())
}

/// Runs `f` and collects the tiers of segments that this thread runs meanwhile.
pub(crate) fn tiers<T>(f: impl FnOnce() -> T) -> (T, Vec<TierRun>) {
    let outer = TIERS.replace(Some(Vec::new()));
    let out = f();
    (out, TIERS.replace(outer).unwrap_or_default())
}

/// Records the tier of a run, if a caller collects tiers.
pub(crate) fn ran(run: impl FnOnce() -> TierRun) {
    TIERS.with_borrow_mut(|t| {
        if let Some(runs) = t {
            runs.push(run());
        }
    });
}

/// Records a segment at its cut, if a caller collects segments.
pub(crate) fn cut(segment: impl FnOnce() -> OwnedSegment) {
    SEGMENTS.with_borrow_mut(|s| {
        if let Some(segments) = s {
            segments.push(segment());
        }
    });
}

/// Whether a caller collects the times of launches.
pub(crate) fn is_timed() -> bool {
    COLLECTED.with_borrow(|c| c.is_some()) || TIMES.with_borrow(|t| t.is_some())
}

/// Whether a caller collects explanations.
pub(crate) fn is_explained() -> bool {
    COLLECTED.with_borrow(|c| c.is_some())
}

/// Report of the segment that is about to run, if a caller collects explanations.
pub(crate) fn begin(f: impl FnOnce() -> SegmentReport) -> Option<SegmentReport> {
    COLLECTED.with_borrow(|c| c.is_some()).then(f)
}

/// Report of a segment that is about to run as `ready`; `own` is the instance whose autotuning is reported.
pub(crate) fn report(
    device: DeviceRef,
    segment: &Segment<'_>,
    (ready, own): (&Ready, &Ready),
    made: bool,
    deferred: &BitSet,
    (keep, again): (Option<&Keep>, &[u32]),
) -> SegmentReport {
    let runner = |p: &Arc<dyn Program>| Runner { engine: p.info().engine, residence: p.residence() };
    let runners = ready.programs.iter().map(runner).collect();
    let facts = |r: &Ready| (r.instance.steps.len(), r.programs.iter().map(|p| p.info().spills).sum());
    let mut report = SegmentReport::new(segment, &costs(device), (&ready.plan, made), &ready.instance, runners);
    if let Some(keep) = keep {
        report.keeps(keep);
    }
    report.leaves(deferred, again);
    report.autotuning = own.autotuning.candidates(own, facts);
    report
}

/// Adds the launch times of a successful run to those that are collected. Completes the report, if there is one, with
/// the outcome of the run, and adds it to the collected reports.
pub(crate) fn end(report: Option<SegmentReport>, ready: &Ready, outcome: &Result<Run, Error>) {
    TIMES.with_borrow_mut(|t| {
        if let (Some(times), Ok(run)) = (t, outcome) {
            times.extend(&run.ns);
        }
    });
    let Some(mut report) = report else { return };
    match outcome {
        Ok(run) => report.ran(
            (&ready.instance, run.schedule.as_deref().expect("it ran")),
            &run.allocated,
            &run.in_place,
            &run.moved,
            &run.ns,
        ),
        Err(error) => report.failed(error.to_string()),
    }
    COLLECTED.with_borrow_mut(|c| {
        if let Some(reports) = c {
            reports.push(report);
        }
    });
}
