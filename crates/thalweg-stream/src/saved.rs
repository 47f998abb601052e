//! Plans that processes leave each other in the disk cache. ../../../docs/cache.md has the rules.
//!
//! In: a segment. Out: what was found on disk, checked; or what was found now, which is then kept. Without a cache
//! everything is as if nothing had been found.
//!
//! Always true: a plan from disk is a legal plan of the segment (`Planned::from_bytes`), and one that Thalweg wrote
//! there is the plan that the search would have found: its key holds everything that a plan follows from.

use crate::DeviceRef;
use crate::calibration::costs;
use crate::defect;
use crate::mode::{effort, measuring};
use thalweg_fusion::{Costs, Effort, Instance, NoPlan, Plan, Planned, ScalarClasses, Segment, instantiate, question};
use thalweg_runtime::Error;
use thalweg_runtime::disk::{self, Cache, Key, Kind};

/// Where a plan came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It was in memory.
    Memory,
    /// It was on disk.
    Disk,
    /// It was on disk, as what an autotuning on this device had ended with.
    Measured,
    /// It was searched for.
    Search,
    /// Nobody has searched for one yet: it is what runs at first sight.
    FirstSight,
}

/// What a plan and all that is measured of it are kept by.
pub(crate) fn plan_key(device: DeviceRef, segment: &Segment<'_>, costs: &Costs, effort: Effort) -> Key {
    Key::of(&[device.device().name().as_bytes(), &question(segment, costs, effort)])
}

/// The plan of a segment with its instance: from the process's disk cache, or searched for and kept there.
///
/// # Errors
/// [`Error::Internal`] where the planner has none.
pub(crate) fn plan(
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    classes: &ScalarClasses,
) -> Result<(Plan, Instance, Origin), Error> {
    plan_in(disk::cache().as_deref(), device, segment, costs, effort, classes)
}

/// The plan of a segment from the process's disk cache, if it is there.
pub(crate) fn kept(
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    classes: &ScalarClasses,
) -> Option<(Plan, Instance, Origin)> {
    let cache = disk::cache()?;
    kept_in(&cache, &plan_key(device, &segment, costs, effort), segment, costs, classes)
}

/// What a cache holds under a key, if that is a plan of the segment.
fn kept_in(
    cache: &Cache,
    key: &Key,
    segment: Segment<'_>,
    costs: &Costs,
    classes: &ScalarClasses,
) -> Option<(Plan, Instance, Origin)> {
    let kept = |kind: Kind, origin: Origin| {
        let plan = Planned::from_bytes(&cache.get(kind, key)?, segment, costs)?.plan;
        let instance = instantiate(&plan, segment, classes)?;
        Some((plan, instance, origin))
    };
    let measured = measuring().and_then(|_| kept(Kind::Measured, Origin::Measured));
    measured.or_else(|| kept(Kind::Plan, Origin::Disk))
}

/// As [`plan`], with that cache or without any.
pub(crate) fn plan_in(
    cache: Option<&Cache>,
    device: DeviceRef,
    segment: Segment<'_>,
    costs: &Costs,
    effort: Effort,
    classes: &ScalarClasses,
) -> Result<(Plan, Instance, Origin), Error> {
    // Without fusion there is nothing to search for.
    let place = cache.filter(|_| segment.mode.fused).map(|cache| (cache, plan_key(device, &segment, costs, effort)));
    let there = place.as_ref().and_then(|(cache, key)| kept_in(cache, key, segment, costs, classes));
    if let Some(kept) = there {
        return Ok(kept);
    }
    let defect = |why: NoPlan| defect::error(format!("the planner has no plan: {why}"), Some((device, &segment)));
    let planned = thalweg_fusion::plan(segment, costs, effort).map_err(defect)?;
    let instance = instantiate(&planned.plan, segment, classes).expect("a plan fits the segment it was made for");
    if let Some((cache, key)) = place {
        cache.put(Kind::Plan, &key, &planned.to_bytes());
    }
    Ok((planned.plan, instance, Origin::Search))
}

/// Keeps what an autotuning of a segment's plan has ended with, so that no later process holds it again.
pub(crate) fn save_measured(device: DeviceRef, segment: Segment<'_>, plan: &Plan) {
    if let Some(cache) = disk::cache() {
        save_measured_in(&cache, device, segment, &costs(device), plan);
    }
}

/// As [`save_measured`], in that cache.
pub(crate) fn save_measured_in(cache: &Cache, device: DeviceRef, segment: Segment<'_>, costs: &Costs, plan: &Plan) {
    let bytes = Planned { plan: plan.clone(), time: 0, complete: true, visits: 0 }.to_bytes();
    // On disk a plan is what its kernels store; one that is more than that is measured again.
    if Planned::from_bytes(&bytes, segment, costs).is_some_and(|p| p.plan == *plan) {
        cache.put(Kind::Measured, &plan_key(device, &segment, costs, effort()), &bytes);
    }
}
