//! Plans in the disk cache, shared between processes. ../../../docs/cache.md has the rules.
//!
//! In: a segment. Out: a plan found on disk and checked, or one searched for now and then saved. Without a cache it
//! behaves as if the disk were empty.
//!
//! Always true: a plan from disk is a legal plan of the segment (`Planned::from_bytes`). A plan that Thalweg saved for
//! these sizes is the one that the search would find: its key holds everything that a plan depends on. A plan saved for
//! a class is used for other sizes of that class as well, as in memory, but not in a reproducible mode.

use crate::DeviceRef;
use crate::defect;
use crate::mode::measuring;
use thalweg_fusion::{
    AvailablePlans, Costs, Effort, Instance, NoPlan, PartitionCache, PartsUsed, Plan, Planned, ScalarClasses, Segment,
    SegmentClass, class_question, instantiate, plan_with, question,
};
use thalweg_runtime::disk::{self, Cache, Key, Kind};
use thalweg_runtime::{Error, count};

/// Origin of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Plan in memory.
    Memory,
    /// Plan on disk, saved for these sizes.
    Disk,
    /// Plan on disk, saved for other sizes of the same class.
    Class,
    /// Plan on disk, the winner of an autotuning on this device.
    Measured,
    /// Plan found by a search now.
    Search,
    /// Cold-start plan: no plan has been searched for yet.
    ColdStart,
}

/// Question to the planner: all data that a plan depends on.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub device: DeviceRef,
    pub segment: Segment<'a>,
    pub costs: &'a Costs,
    pub effort: Effort,
    pub classes: &'a ScalarClasses,
    /// Size class of the segment, if a plan found for other sizes of the class is acceptable. `None` if the plan must
    /// be the one that a search would find.
    pub class: Option<&'a SegmentClass>,
    /// Known partial plans; `None` if the plan must be the one that a search from scratch would find.
    pub parts: Option<&'a PartitionCache>,
}

/// Answer of the planner or the disk cache: a plan with its instance.
pub(crate) struct Answer {
    pub plan: Plan,
    pub instance: Instance,
    pub origin: Origin,
    /// Whether the plan was searched for now and its search may be continued.
    pub unfinished: bool,
}

impl Asked<'_> {
    /// Cache key of the plan, and of all measurements of it.
    pub fn key(&self) -> Key {
        let name = self.device.device().name();
        Key::of(&[name.as_bytes(), &question(&self.segment, self.costs, self.effort)])
    }

    /// Cache key of the plan that is found by continuing a search which its budget had ended.
    fn further_key(&self) -> Key {
        let name = self.device.device().name();
        Key::of(&[b"further", name.as_bytes(), &question(&self.segment, self.costs, self.effort)])
    }

    /// Cache key of the plan of the size class, if the question is about a class.
    fn class_key(&self) -> Option<Key> {
        let asked = class_question(&self.segment, self.class?, self.costs, self.effort);
        Some(Key::of(&[self.device.device().name().as_bytes(), &asked]))
    }
}

/// Plan of a segment with its instance: from the process's disk cache, or searched for and saved there.
///
/// # Errors
/// [`Error::Internal`] if the planner has none.
pub(crate) fn plan(asked: Asked<'_>) -> Result<Answer, Error> {
    plan_in(disk::cache().as_deref(), asked)
}

/// Plan of a segment from the process's disk cache, if it is there.
pub(crate) fn load_plan(asked: Asked<'_>) -> Option<Answer> {
    let cache = disk::cache()?;
    load_plan_from(&cache, asked)
}

/// Whether the process's disk cache has an entry for a plan of a segment, which may turn out to be illegal.
pub(crate) fn is_saved(asked: Asked<'_>) -> bool {
    let holds = |cache: &Cache| {
        let key = asked.key();
        let own = [Kind::Measured, Kind::Plan].iter().any(|&kind| cache.get(kind, &key).is_some());
        own || asked.class_key().is_some_and(|key| cache.get(Kind::Class, &key).is_some())
    };
    asked.segment.mode.fused && disk::cache().is_some_and(|cache| holds(&cache))
}

/// Plan of a segment from a cache: one saved for these sizes, else one saved for its class.
fn load_plan_from(cache: &Cache, asked: Asked<'_>) -> Option<Answer> {
    let kept = |kind: Kind, key: &Key, origin: Origin| {
        let Planned { plan, complete, .. } = Planned::from_bytes(&cache.get(kind, key)?, asked.segment, asked.costs)?;
        let instance = instantiate(&plan, asked.segment, asked.classes)?;
        Some((Answer { plan, instance, origin, unfinished: false }, complete))
    };
    let key = asked.key();
    let measured = measuring().and_then(|_| kept(Kind::Measured, &key, Origin::Measured));
    let own = measured.or_else(|| {
        let own = kept(Kind::Plan, &key, Origin::Disk)?;
        // A search that its budget ended may have been continued since.
        let ended = own.1 || asked.class.is_none();
        let further = || kept(Kind::Plan, &asked.further_key(), Origin::Disk);
        if ended { Some(own) } else { further().or(Some(own)) }
    });
    let found = own.or_else(|| kept(Kind::Class, &asked.class_key()?, Origin::Class));
    found.map(|(answer, _)| answer)
}

/// Counts the visits of a search and the partial plans that it reused.
pub(crate) fn count_search(planned: &Planned) {
    count(|c| {
        c.plan_visits += planned.visits;
        c.components_reused += planned.parts.taken;
        c.components_seeded += planned.parts.grown;
    });
}

/// Like [`plan`], with `cache` as the disk cache, if any.
pub(crate) fn plan_in(cache: Option<&Cache>, asked: Asked<'_>) -> Result<Answer, Error> {
    let Asked { device, segment, costs, effort, classes, .. } = asked;
    // Without fusion there is nothing to search.
    let cache = cache.filter(|_| segment.mode.fused);
    if let Some(kept) = cache.and_then(|cache| load_plan_from(cache, asked)) {
        return Ok(kept);
    }
    let defect = |why: NoPlan| defect::error(format!("the planner has no plan: {why}"), Some((device, &segment)));
    let at_hand = asked.parts.map(|parts| AvailablePlans { parts, further: None });
    let planned = plan_with(segment, costs, effort, at_hand).map_err(defect)?;
    count_search(&planned);
    let instance = instantiate(&planned.plan, segment, classes).expect("a plan fits the segment it was made for");
    if let Some(cache) = cache {
        // Only the result of a search from scratch is saved under these sizes.
        if planned.parts == PartsUsed::default() {
            cache.put(Kind::Plan, &asked.key(), &planned.to_bytes());
        }
        // The first plan of a class stays, as in memory, until one of the class was measured.
        if let Some(key) = asked.class_key().filter(|key| cache.get(Kind::Class, key).is_none()) {
            cache.put(Kind::Class, &key, &planned.to_bytes());
        }
    }
    let unfinished = asked.parts.is_some() && !planned.complete;
    Ok(Answer { plan: planned.plan, instance, origin: Origin::Search, unfinished })
}

/// Saves a plan found by continuing a search that its budget had ended, for these sizes and for their class.
pub(crate) fn save_better(asked: Asked<'_>, planned: &Planned) {
    if let Some(cache) = disk::cache() {
        save_better_in(&cache, asked, planned);
    }
}

/// Like [`save_better`], with `cache` as the disk cache.
pub(crate) fn save_better_in(cache: &Cache, asked: Asked<'_>, planned: &Planned) {
    cache.put(Kind::Plan, &asked.further_key(), &planned.to_bytes());
    if let Some(key) = asked.class_key() {
        cache.put(Kind::Class, &key, &planned.to_bytes());
    }
}

/// Saves the winner of an autotuning, so that later processes do not measure it again.
pub(crate) fn save_measured(asked: Asked<'_>, plan: &Plan) {
    if let Some(cache) = disk::cache() {
        save_measured_in(&cache, asked, plan);
    }
}

/// Like [`save_measured`], with `cache` as the disk cache.
pub(crate) fn save_measured_in(cache: &Cache, asked: Asked<'_>, plan: &Plan) {
    let bytes =
        Planned { plan: plan.clone(), time: 0, complete: true, visits: 0, parts: Default::default() }.to_bytes();
    // On disk a plan is only the set of stores of its kernels. A plan that is more than that is not saved, and measured
    // again.
    if Planned::from_bytes(&bytes, asked.segment, asked.costs).is_some_and(|p| p.plan == *plan) {
        cache.put(Kind::Measured, &asked.key(), &bytes);
        if let Some(key) = asked.class_key() {
            cache.put(Kind::Class, &key, &bytes);
        }
    }
}
