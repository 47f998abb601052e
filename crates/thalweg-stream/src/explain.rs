//! Explanations of what the calling thread runs.

use crate::recorder::Wanted;
use crate::report;
use crate::stream::each_own;
use crate::tier::TierRun;
use thalweg_fusion::{Explanation, OwnedSegment};

/// Runs `f`, then everything it recorded and left waiting. Explains which operations were fused, the memory traffic of
/// that, and why the others were not fused. Covers the calling thread's streams only.
pub fn explain<T>(f: impl FnOnce() -> T) -> (T, Explanation) {
    let (out, segments) = alone(|f| report::collected(f), f);
    (out, Explanation { segments })
}

/// Runs `f`, then everything it recorded and left waiting. Returns the nanoseconds of each launch, in order. Unlike
/// [`explain`] it spends no time of its own between launches.
pub fn launch_times<T>(f: impl FnOnce() -> T) -> (T, Vec<u64>) {
    alone(|f| report::timed(f), f)
}

/// Runs `f`, then everything it recorded and left waiting. Returns the tier of each segment's run: how much was known
/// of it. Unlike [`explain`] this changes nothing: new segments take a cold start.
pub fn tier_runs<T>(f: impl FnOnce() -> T) -> (T, Vec<TierRun>) {
    alone(|f| report::tiers(f), f)
}

/// Runs `f`, then everything it recorded and left waiting. Returns the segments that were cut, as they were recorded.
pub fn segments<T>(f: impl FnOnce() -> T) -> (T, Vec<OwnedSegment>) {
    alone(|f| report::cut_off(f), f)
}

/// Collects reports about `f` and everything it records. Operations that waited before run first and are not included.
fn alone<T, R>(collect: impl FnOnce(Box<dyn FnOnce() -> T + '_>) -> (T, R), f: impl FnOnce() -> T) -> (T, R) {
    each_own(|r| r.cut(Wanted::All));
    collect(Box::new(|| {
        let out = f();
        each_own(|r| r.cut(Wanted::All));
        out
    }))
}
