//! First sight: what runs a segment before a plan has been searched for it. ../../../../docs/tiers.md has the idea.
//!
//! In: a segment of a class that has no plan yet. Out: something that runs it at once, its tier: one kernel an
//! operation by programs that exist (`singles.rs`), where its operations are small; else the first legal plan, improved
//! for as long as that pays in this one run. A class that comes again is searched for on another thread
//! (`background.rs`), and the plan that is found runs from then on.
//!
//! Always true: every tier gives right results, and those of strict mode are the same bits. Nobody who wants to know
//! plans (a reproducible run, an explanation), nor who must not run out of memory (a device with a limit), is given
//! anything but the plan that the search finds. Where compiling takes long, as on a GPU, single operations are
//! compiled once they are fewer kernels than the plan's, or than what was compiled for nothing before.

mod background;
mod singles;

use crate::DeviceRef;
use crate::defect;
use crate::mode::{Mode, effort};
use crate::report;
use crate::setting::{Setting, setting};
use singles::Singles;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use thalweg_fusion::{Costs, Effort, Instance, Plan, ScalarClasses, Segment, Step, instantiate, unfused_work};
use thalweg_runtime::{Error, environment};

pub use background::finish_searches;
pub(crate) use background::{Asks, Found, Job, search};

/// Bytes that an operation moves on average, from which on kernels of their own take longer than emitting code for
/// fused ones: about 25 µs, at the rate at which the caches copy.
const LARGE: usize = 512 << 10;

/// How often a class is met before it is searched for.
const MEETINGS: u32 = 2;

/// How often a class that runs as this instance is met before it is searched for. Where compiling takes long, until
/// launches that a plan may save have taken as long: whoever knows no better rents until buying would have been as dear.
pub(crate) fn meetings(device: DeviceRef, instance: &Instance) -> u32 {
    let Some(throughput) = device.device().throughput() else { return MEETINGS };
    let bytes = (instance.bytes_read() + instance.bytes_written()) as f64;
    let run = instance.steps.len() as f64 * throughput.launch + bytes / throughput.memory;
    MEETINGS.max((COMPILE_NS as f64 / run.max(1.0)).min(4096.0) as u32)
}

const TIERS: Setting<bool> = setting!(bool, || !environment::TIERS.is("off"));

/// Whether new segments of the calling thread run before a plan has been searched for: unless `THALWEG_TIERS=off`,
/// until set.
pub fn tiers() -> bool {
    TIERS.get()
}

/// Sets what [`tiers`] tells the calling thread, and returns what it was.
pub fn set_tiers(on: bool) -> bool {
    TIERS.set(on)
}

/// Sets what [`tiers`] tells threads that have recorded nothing yet.
pub fn set_tiers_of_new_threads(on: bool) {
    TIERS.change_common(|_| on);
}

/// Whether a new segment may run without a plan of its own.
pub(crate) fn may_run(device: DeviceRef, mode: Mode) -> bool {
    let device = device.device();
    let searched = effort() == Effort::None || report::is_explained();
    tiers() && mode.fused && !mode.reproducible && !searched && device.memory().limit.is_none()
}

/// What runs a new segment.
pub(crate) enum First {
    /// One kernel an operation.
    Singles(Singles),
    /// A plan, and whether the search for it came to its end.
    Planned(Plan, Instance, bool),
}

/// What runs a new segment at once; `None` where it has to be planned for.
///
/// # Errors
/// What the planner and the compiler give.
pub(crate) fn first(
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    classes: &ScalarClasses,
) -> Result<Option<First>, Error> {
    let (kernels, bytes) = unfused_work(&segment);
    if let Some(throughput) = device.device().throughput() {
        let run = (bytes as f64 / throughput.memory) as i64;
        return Ok(compiled(device, segment, (costs, classes), run)?.map(First::Singles));
    }
    if bytes <= kernels * LARGE {
        return Ok(singles::put_together(device, segment, |_| true)?.map(First::Singles));
    }
    let planned = quick(device, segment, costs, classes)?;
    Ok(planned.map(|(plan, instance, complete)| First::Planned(plan, instance, complete)))
}

/// The first legal plan, improved for as long as that pays in one run; and whether nothing is left to improve.
fn quick(
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    classes: &ScalarClasses,
) -> Result<Option<(Plan, Instance, bool)>, Error> {
    defect::caught("the planner", device, &segment, || {
        let planned = thalweg_fusion::plan(segment, costs, Effort::Quick).ok()?;
        let instance = instantiate(&planned.plan, segment, classes)?;
        Some((planned.plan, instance, planned.complete))
    })
}

/// Single operations on a device that compiles for long, where these keep its compiler shorter than a plan would; they
/// take `run` nanoseconds.
fn compiled(
    device: DeviceRef,
    segment: Segment<'_>,
    (costs, classes): (&Costs, &ScalarClasses),
    run: i64,
) -> Result<Option<Singles>, Error> {
    // What need not ask the compiler, if it takes next to nothing to run.
    if run < SHORT_NS
        && let Some(made) = singles::put_together(device, segment, |_| false)?
    {
        return Ok(Some(made));
    }
    let Some((_, instance, _)) = quick(device, segment, costs, classes)? else { return Ok(None) };
    let fused = compiles(device, instance.steps.iter());
    let affords = |new: &[&Step]| afford(compiles(device, new.iter().copied()) + run - fused);
    let made = if fused > 0 { singles::put_together(device, segment, affords)? } else { None };
    if made.is_none() {
        // Beside the compiler a search is nothing.
        SPENT.fetch_add(fused, Relaxed);
    }
    Ok(made)
}

/// Nanoseconds below which it is nothing what temporaries take.
const SHORT_NS: i64 = 200_000;

/// Whether so many nanoseconds more may be spent on single operations, in which case they are.
fn afford(more: i64) -> bool {
    let affords = more <= SPENT.load(Relaxed);
    if affords && more > 0 {
        SPENT.fetch_sub(more, Relaxed);
    }
    affords
}

/// Nanoseconds that a compiler takes for a kernel, where that is long.
const COMPILE_NS: i64 = 50_000_000;

/// Nanoseconds that this process has waited for compilers of kernels of new segments: what single operations may take,
/// too, which more than one segment has. So whoever never does the same twice waits twice as long as at best.
static SPENT: AtomicI64 = AtomicI64::new(0);

/// Nanoseconds of compiling that these launches wait for.
fn compiles<'a>(device: DeviceRef, steps: impl Iterator<Item = &'a Step>) -> i64 {
    let launches: Vec<_> = steps.map(|s| (&*s.kernel, &*s.geometry)).collect();
    device.device().uncompiled(&launches) as i64 * COMPILE_NS
}
