//! Explanations of what the calling thread runs.

use crate::recorder::Wanted;
use crate::report;
use crate::stream::each_own;
use crate::tier::TierRun;
use thalweg_fusion::{Explanation, OwnedSegment};

/// Runs `f`, then everything it recorded and left waiting, and tells which operations went together, what that moved,
/// and why the rest did not. Only the calling thread's streams are told of.
pub fn explain<T>(f: impl FnOnce() -> T) -> (T, Explanation) {
    let (out, segments) = alone(|f| report::collected(f), f);
    (out, Explanation { segments })
}

/// Runs `f`, then everything it recorded and left waiting, and tells the nanoseconds of each launch in the order they
/// ran. What [`explain`] tells takes time of its own between the launches; this does not.
pub fn launch_times<T>(f: impl FnOnce() -> T) -> (T, Vec<u64>) {
    alone(|f| report::timed(f), f)
}

/// Runs `f`, then everything it recorded and left waiting, and tells by what each segment ran: how much was known of it.
/// Unlike [`explain`] this changes nothing: what is new runs at first sight.
pub fn tier_runs<T>(f: impl FnOnce() -> T) -> (T, Vec<TierRun>) {
    alone(|f| report::tiers(f), f)
}

/// Runs `f`, then everything it recorded and left waiting, and gives the segments that were cut off on the way, as they
/// were recorded.
pub fn segments<T>(f: impl FnOnce() -> T) -> (T, Vec<OwnedSegment>) {
    alone(|f| report::cut_off(f), f)
}

/// Collects about `f` and all it recorded; what waits from before is no part of it.
fn alone<T, R>(collect: impl FnOnce(Box<dyn FnOnce() -> T + '_>) -> (T, R), f: impl FnOnce() -> T) -> (T, R) {
    each_own(|r| r.cut(Wanted::All));
    collect(Box::new(|| {
        let out = f();
        each_own(|r| r.cut(Wanted::All));
        out
    }))
}
