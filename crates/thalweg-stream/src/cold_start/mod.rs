//! Cold start: what runs a segment before a plan has been searched for. ../../../../docs/tiers.md has the idea.
//!
//! In: a segment of a class that has no plan yet. Out: something that runs it at once. Small operations run unfused, by
//! programs that exist already (`singles.rs`); large ones by the first legal plan, improved for as long as that pays
//! within one run. A class that comes again is searched for on another thread (`background.rs`). The plan found there,
//! with its programs compiled, runs from then on. Partial plans that segments have in common are not searched for again
//! (`parts.rs`), and unfinished searches go on (`further.rs`).
//!
//! Always true: every tier gives correct results, and in strict mode the same bits. Some segments get nothing but the
//! plan of a full search: those of reproducible runs and of explanations, whose users want to know the plan, and those
//! on a device with a memory limit. On devices with a slow compiler, as GPUs have, tier 0 runs programs that need no
//! compiler ([`thalweg_runtime::Device::at_once`]), where those exist.

mod background;
mod competition;
mod further;
mod job;
mod parts;
mod singles;

use crate::DeviceRef;
use crate::defect;
use crate::mode::{Mode, effort};
use crate::report;
use crate::saved;
use crate::setting::{Setting, setting};
use crate::tunable::TUNABLES;
use singles::Singles;
use std::sync::Arc;
use thalweg_fusion::{
    AvailablePlans, Costs, Effort, Instance, Plan, ScalarClasses, Segment, Step, instantiate, plan_with, unfused_work,
};
use thalweg_runtime::{Error, Program, environment};

pub use background::finish_searches;
pub(crate) use background::{compete, search};
pub(crate) use competition::CompetitionWork;
pub use further::finish_further_searches;
pub(crate) use further::search_on;
pub(crate) use job::{Asks, Job, SearchedPlan};
pub(crate) use parts::{forget_parts, parts_of};
pub(crate) use singles::assemble_unfused;

/// Maximum predicted nanoseconds of unfused traffic at which a new segment runs unfused, on a device with asynchronous
/// launches. The cost of temporaries is then negligible; above, a quick plan takes less.
const MAX_UNFUSED_NS: f64 = 200_000.0;

/// Maximum predicted nanoseconds of unfused traffic, for each operation, at which a new segment runs unfused on such a
/// device. A quick plan takes some 60 µs an operation, and programs that need no compiler four times the predicted time.
const MAX_UNFUSED_NS_PER_OPERATION: f64 = 15_000.0;

/// Minimum predicted nanoseconds of unfused traffic at which waiting for the compiler takes less than running without
/// one. Programs that need no compiler reach a quarter of the device's bandwidth.
const MIN_COMPILED_NS: f64 = 100_000_000.0;

/// Minimum of that for each operation. Searching and compiling took 2 ms an operation on 16 processors, four times this:
/// 8.6 s for a step of a state-space model whose unfused traffic is 0.1 s.
const MIN_COMPILED_NS_PER_OPERATION: f64 = 500_000.0;

const TIERS: Setting<bool> = setting!(bool, || !environment::TIERS.is("off"));

/// Whether new segments of the calling thread run before a plan has been searched for. On unless `THALWEG_TIERS=off`,
/// until it is set.
pub fn tiers() -> bool {
    TIERS.get()
}

/// Sets [`tiers`] for the calling thread and returns the old value.
pub fn set_tiers(on: bool) -> bool {
    TIERS.set(on)
}

/// Sets [`tiers`] for threads that have recorded nothing yet.
pub fn set_tiers_of_new_threads(on: bool) {
    TIERS.change_common(|_| on);
}

/// Whether a new segment may run by a cold-start plan.
pub(crate) fn may_run(device: DeviceRef, mode: Mode) -> bool {
    let device = device.device();
    let searched = effort() == Effort::None || report::is_explained();
    tiers() && mode.fused && !mode.reproducible && !searched && device.memory().limit.is_none()
}

/// Cold-start plan of a new segment.
pub(crate) enum First {
    /// Unfused fallback: one kernel per operation.
    Singles(Singles),
    /// First legal plan, improved within a budget; and whether its search is complete.
    Planned(Plan, Instance, bool),
    /// Plan whose programs need no slow compiler.
    AtOnce(Plan, Instance, Vec<Arc<dyn Program>>),
}

/// Memory traffic of a segment that runs unfused.
struct UnfusedTraffic {
    kernels: usize,
    bytes: usize,
    /// Predicted nanoseconds of the traffic, on a device with asynchronous launches.
    ns: Option<f64>,
}

impl UnfusedTraffic {
    fn of(device: DeviceRef, segment: &Segment<'_>) -> UnfusedTraffic {
        let (kernels, bytes) = unfused_work(segment);
        UnfusedTraffic { kernels, bytes, ns: device.device().throughput().map(|t| bytes as f64 / t.memory) }
    }

    /// Whether running unfused takes less than planning.
    fn is_small(&self) -> bool {
        match self.ns {
            Some(ns) => ns < MAX_UNFUSED_NS.max(MAX_UNFUSED_NS_PER_OPERATION * self.kernels as f64),
            None => TUNABLES.max_unfused_bytes.admits(self.bytes / self.kernels.max(1)),
        }
    }
}

/// Whether a segment with a plan on disk runs unfused, while another thread loads the plan: the segment is large, its
/// operations are small.
pub(crate) fn loads_in_background(device: DeviceRef, segment: &Segment<'_>) -> bool {
    TUNABLES.min_background_load_operations.reached_by(segment.ops.len())
        && UnfusedTraffic::of(device, segment).is_small()
}

/// Cold-start plan of a new segment; `None` if it has to be planned in full.
///
/// # Errors
/// Errors of the planner and the compiler.
pub(crate) fn first(
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    classes: &ScalarClasses,
) -> Result<Option<First>, Error> {
    let unfused = UnfusedTraffic::of(device, &segment);
    if unfused.is_small() {
        return Ok(assemble_unfused(device, segment)?.map(First::Singles));
    }
    if let Some(ns) = unfused.ns {
        if ns >= MIN_COMPILED_NS.max(MIN_COMPILED_NS_PER_OPERATION * unfused.kernels as f64) {
            return Ok(None);
        }
        if let Some((plan, instance, _)) = quick(device, segment, costs, classes)?
            && let Some(programs) = at_once(device, &segment, &instance)?
        {
            return Ok(Some(First::AtOnce(plan, instance, programs)));
        }
        return Ok(assemble_unfused(device, segment)?.map(First::Singles));
    }
    let planned = quick(device, segment, costs, classes)?;
    Ok(planned.map(|(plan, instance, complete)| First::Planned(plan, instance, complete)))
}

/// First legal plan, improved for as long as that pays within one run; and whether it cannot be improved further.
fn quick(
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    classes: &ScalarClasses,
) -> Result<Option<(Plan, Instance, bool)>, Error> {
    defect::caught("the planner", device, &segment, || {
        let parts = parts_of(device, effort());
        let at_hand = AvailablePlans { parts: &parts, further: None };
        let planned = plan_with(segment, costs, Effort::Quick, Some(at_hand)).ok()?;
        saved::count_search(&planned);
        let instance = instantiate(&planned.plan, segment, classes)?;
        Some((planned.plan, instance, planned.complete))
    })
}

/// Programs of an instance, if none of them needs a slow compiler. The first that does ends the search, because asking
/// writes sources.
pub(crate) fn at_once(
    device: DeviceRef,
    segment: &Segment<'_>,
    instance: &Instance,
) -> Result<Option<Vec<Arc<dyn Program>>>, Error> {
    let device_programs = |step: &Step| -> Result<Option<Arc<dyn Program>>, Error> {
        Ok(device.device().at_once(&[(&*step.kernel, &*step.geometry)])?.pop().flatten())
    };
    let programs = || instance.steps.iter().map(|step| device_programs(step).transpose()).collect::<Option<_>>();
    defect::caught("the compiler", device, segment, programs)?.transpose()
}

/// Whether programs of an instance have to be compiled by a slow compiler first.
pub(crate) fn has_to_wait(device: DeviceRef, instance: &Instance) -> bool {
    let device = device.device();
    instance.steps.iter().any(|step| device.uncompiled(&[(&*step.kernel, &*step.geometry)]) > 0)
}
