//! Explanations of what the calling thread runs.

use crate::cold_start::finish_searches;
use crate::mode::{measuring, set_measuring};
use crate::recorder::Wanted;
use crate::report;
use crate::stream::each_own;
use crate::tier::TierRun;
use std::time::{Duration, Instant};
use thalweg_fusion::{Explanation, KernelReport, OwnedSegment};

/// Number of calls before a steady explanation: at least four, twelve if they end within two seconds, and as many as 0.3
/// seconds take.
const WARM_CALLS: (usize, usize) = (4, 12);
const WARM: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(2));
/// Minimum and maximum number of timed calls of a steady explanation (`TIMED_CALLS`), and the time after which the
/// minimum is enough (`TIMED`).
const TIMED_CALLS: (usize, usize) = (3, 31);
const TIMED: Duration = Duration::from_millis(300);
/// Number of the call after which background searches are waited for: repeated segments are in search by then.
const SEARCHED: usize = 3;
/// Fraction of the run time for measuring, so small that no plan is tried, while measured winners still run.
const NO_TRIALS: f64 = 1e-9;

/// Runs `f`, then everything it recorded and left waiting. Explains which operations were fused, the memory traffic of
/// that, and why the others were not fused. Covers the calling thread's streams only.
pub fn explain<T>(f: impl FnOnce() -> T) -> (T, Explanation) {
    let (out, segments) = alone(|f| report::collected(f), f);
    (out, Explanation { segments, runs: 1 })
}

/// Setting of measuring that is restored on drop, also when `f` panics.
struct Restore(Option<f64>);

impl Drop for Restore {
    fn drop(&mut self) {
        set_measuring(self.0);
    }
}

/// Calls `f` until its segments have been searched for and their plans have competed, for about half a second and at
/// least seven times, then explains a call. The time of a kernel is its median over several calls, without first-time compilation and
/// first-touch of memory. Covers the calling thread's streams only.
pub fn explain_steady<T>(mut f: impl FnMut() -> T) -> (T, Explanation) {
    let share = measuring();
    // Plans compete as early as possible, so that they do not alternate while launches are timed.
    let _restore = Restore(set_measuring(share.map(|share| share.max(1.0))));
    let begin = Instant::now();
    let mut calls = 0;
    while calls < WARM_CALLS.0 || begin.elapsed() < WARM.0 || calls < WARM_CALLS.1 && begin.elapsed() < WARM.1 {
        drop(f());
        each_own(|r| r.cut(Wanted::All));
        calls += 1;
        if calls == SEARCHED {
            finish_searches();
        }
    }
    set_measuring(share.map(|_| NO_TRIALS));
    let (mut out, mut explanation) = explain(&mut f);
    let launched =
        |e: &Explanation| -> Vec<KernelReport> { e.segments.iter().flat_map(|s| s.kernels.iter().cloned()).collect() };
    let first = launched(&explanation);
    let mut times: Vec<Vec<u64>> = first.iter().map(|k| vec![k.measured_ns]).collect();
    let begin = Instant::now();
    while times.first().is_some_and(|t| t.len() < TIMED_CALLS.0 || t.len() < TIMED_CALLS.1 && begin.elapsed() < TIMED) {
        let again;
        (out, again) = explain(&mut f);
        let again = launched(&again);
        let same = |(a, b): (&KernelReport, &KernelReport)| {
            (&a.writes, &a.reads, &a.domain, a.launches) == (&b.writes, &b.reads, &b.domain, b.launches)
        };
        if first.len() != again.len() || !first.iter().zip(&again).all(same) {
            // Another call, another segment: what was seen first is explained.
            break;
        }
        times.iter_mut().zip(&again).for_each(|(t, k)| t.push(k.measured_ns));
    }
    explanation.runs = times.first().map_or(1, Vec::len);
    let kernels = explanation.segments.iter_mut().flat_map(|s| &mut s.kernels);
    for (kernel, mut times) in kernels.zip(times) {
        times.sort_unstable();
        kernel.measured_ns = times[times.len() / 2];
    }
    (out, explanation)
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
