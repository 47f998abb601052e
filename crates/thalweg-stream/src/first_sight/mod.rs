//! First sight: what runs a segment before a plan has been searched for it. ../../../../docs/tiers.md has the idea.
//!
//! In: a segment of a class that has no plan yet. Out: something that runs it at once, its tier: one kernel an
//! operation by programs that exist (`singles.rs`), where its operations are small; else the first legal plan, improved
//! for as long as that pays in this one run. A class that comes again is searched for on another thread
//! (`background.rs`), and the plan that is found runs from then on, its programs compiled by then. What plans have in
//! common is not searched for again (`parts.rs`), and where a search came to no end it goes on (`further.rs`).
//!
//! Always true: every tier gives right results, and those of strict mode are the same bits. Nobody who wants to know
//! plans (a reproducible run, an explanation), nor who must not run out of memory (a device with a limit), is given
//! anything but the plan that the search finds. Where compiling takes long, as on a GPU, tier 0 runs by programs that
//! need no compiler ([`thalweg_runtime::Device::at_once`]), but for what has none.

mod background;
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
    AtHand, Costs, Effort, Instance, Plan, ScalarClasses, Segment, instantiate, plan_with, unfused_work,
};
use thalweg_runtime::{Error, Program, environment};

pub use background::finish_searches;
pub(crate) use background::search;
pub use further::finish_further_searches;
pub(crate) use further::search_on;
pub(crate) use job::{Asks, Found, Job};
pub(crate) use parts::{forget_parts, parts_of};
pub(crate) use singles::put_together;

/// Nanoseconds of unfused traffic below which it is nothing what temporaries take on a device that runs launches on its
/// own; beyond, a quick plan takes less.
const SHORT_NS: f64 = 200_000.0;

/// And beyond which a compiler takes less than whatever runs without one: a quarter of the device's rate is what is left
/// of it then.
const LONG_NS: f64 = 100_000_000.0;

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
    /// A plan with programs that nobody has to wait for.
    AtOnce(Plan, Instance, Vec<Arc<dyn Program>>),
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
    let traffic = device.device().throughput().map(|t| bytes as f64 / t.memory);
    if let Some(ns) = traffic.filter(|&ns| ns >= SHORT_NS) {
        if ns >= LONG_NS {
            return Ok(None);
        }
        if let Some((plan, instance, _)) = quick(device, segment, costs, classes)?
            && let Some(programs) = at_once(device, &segment, &instance)?
        {
            return Ok(Some(First::AtOnce(plan, instance, programs)));
        }
    }
    if traffic.is_some() || TUNABLES.max_unfused_bytes.admits(bytes / kernels.max(1)) {
        return Ok(put_together(device, segment)?.map(First::Singles));
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
        let parts = parts_of(device, effort());
        let at_hand = AtHand { parts: &parts, further: None };
        let planned = plan_with(segment, costs, Effort::Quick, Some(at_hand)).ok()?;
        saved::count_search(&planned);
        let instance = instantiate(&planned.plan, segment, classes)?;
        Some((planned.plan, instance, planned.complete))
    })
}

/// The programs of an instance, if nobody has to wait for a compiler of any.
pub(crate) fn at_once(
    device: DeviceRef,
    segment: &Segment<'_>,
    instance: &Instance,
) -> Result<Option<Vec<Arc<dyn Program>>>, Error> {
    let launches: Vec<_> = instance.steps.iter().map(|s| (&*s.kernel, &*s.geometry)).collect();
    let programs = || device.device().at_once(&launches);
    Ok(defect::caught("the compiler", device, segment, programs)??.into_iter().collect())
}

/// Whether somebody would have to wait for a compiler of an instance's programs.
pub(crate) fn has_to_wait(device: DeviceRef, instance: &Instance) -> bool {
    let launches: Vec<_> = instance.steps.iter().map(|s| (&*s.kernel, &*s.geometry)).collect();
    device.device().uncompiled(&launches) > 0
}
