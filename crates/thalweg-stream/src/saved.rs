//! Plans that processes leave each other in the disk cache. ../../../docs/cache.md has the rules.
//!
//! In: a segment. Out: what was found on disk, checked; or what was found now, which is then kept. Without a cache
//! everything is as if nothing had been found.
//!
//! Always true: a plan from disk is a legal plan of the segment (`Planned::from_bytes`). What Thalweg wrote there for
//! these sizes is the plan that the search would have found: its key holds everything that a plan follows from. What it
//! wrote for a class is taken as memory would have it: for other sizes of the class, but in a reproducible mode.

use crate::DeviceRef;
use crate::defect;
use crate::mode::measuring;
use thalweg_fusion::{
    AtHand, Costs, Effort, Instance, NoPlan, Parts, PartsUsed, Plan, Planned, ScalarClasses, Segment, SegmentClass,
    class_question, instantiate, plan_with, question,
};
use thalweg_runtime::disk::{self, Cache, Key, Kind};
use thalweg_runtime::{Error, count};

/// Where a plan came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It was in memory.
    Memory,
    /// It was on disk.
    Disk,
    /// It was on disk, for other sizes of the same class.
    Class,
    /// It was on disk, as what an autotuning on this device had ended with.
    Measured,
    /// It was searched for.
    Search,
    /// Nobody has searched for one yet: it is what runs at first sight.
    FirstSight,
}

/// What plans are asked for: everything that a plan follows from.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub device: DeviceRef,
    pub segment: Segment<'a>,
    pub costs: &'a Costs,
    pub effort: Effort,
    pub classes: &'a ScalarClasses,
    /// The class of the segment where a plan that was found for other sizes of it will do; `None` where the plan must be
    /// the one that a search would find.
    pub class: Option<&'a SegmentClass>,
    /// What is known of other plans, where the plan need not be the one that a search from nothing would find.
    pub parts: Option<&'a Parts>,
}

/// A plan with its instance.
pub(crate) struct Answer {
    pub plan: Plan,
    pub instance: Instance,
    pub origin: Origin,
    /// Whether it was searched for now, and the search may be gone on with.
    pub unfinished: bool,
}

impl Asked<'_> {
    /// What the plan and all that is measured of it are kept by.
    pub fn key(&self) -> Key {
        let name = self.device.device().name();
        Key::of(&[name.as_bytes(), &question(&self.segment, self.costs, self.effort)])
    }

    /// What a plan is kept by that was found after the budget had ended the search for the one that goes by the other key.
    fn further_key(&self) -> Key {
        let name = self.device.device().name();
        Key::of(&[b"further", name.as_bytes(), &question(&self.segment, self.costs, self.effort)])
    }

    /// What the plan of its class is kept by.
    fn class_key(&self) -> Option<Key> {
        let asked = class_question(&self.segment, self.class?, self.costs, self.effort);
        Some(Key::of(&[self.device.device().name().as_bytes(), &asked]))
    }
}

/// The plan of a segment with its instance: from the process's disk cache, or searched for and kept there.
///
/// # Errors
/// [`Error::Internal`] where the planner has none.
pub(crate) fn plan(asked: Asked<'_>) -> Result<Answer, Error> {
    plan_in(disk::cache().as_deref(), asked)
}

/// The plan of a segment from the process's disk cache, if it is there.
pub(crate) fn kept(asked: Asked<'_>) -> Option<Answer> {
    let cache = disk::cache()?;
    kept_in(&cache, asked)
}

/// What a cache holds for these sizes, or else for others of the same class, if that is a plan of the segment.
fn kept_in(cache: &Cache, asked: Asked<'_>) -> Option<Answer> {
    let kept = |kind: Kind, key: &Key, origin: Origin| {
        let Planned { plan, complete, .. } = Planned::from_bytes(&cache.get(kind, key)?, asked.segment, asked.costs)?;
        let instance = instantiate(&plan, asked.segment, asked.classes)?;
        Some((Answer { plan, instance, origin, unfinished: false }, complete))
    };
    let key = asked.key();
    let measured = measuring().and_then(|_| kept(Kind::Measured, &key, Origin::Measured));
    let own = measured.or_else(|| {
        let own = kept(Kind::Plan, &key, Origin::Disk)?;
        // Where the budget ended the search, it may have gone on since.
        let ended = own.1 || asked.class.is_none();
        let further = || kept(Kind::Plan, &asked.further_key(), Origin::Disk);
        if ended { Some(own) } else { further().or(Some(own)) }
    });
    let found = own.or_else(|| kept(Kind::Class, &asked.class_key()?, Origin::Class));
    found.map(|(answer, _)| answer)
}

/// Counts what a search took, and what it had of others.
pub(crate) fn count_search(planned: &Planned) {
    count(|c| {
        c.plan_visits += planned.visits;
        c.parts_taken += planned.parts.taken;
        c.parts_grown += planned.parts.grown;
    });
}

/// As [`plan`], with that cache or without any.
pub(crate) fn plan_in(cache: Option<&Cache>, asked: Asked<'_>) -> Result<Answer, Error> {
    let Asked { device, segment, costs, effort, classes, .. } = asked;
    // Without fusion there is nothing to search for.
    let cache = cache.filter(|_| segment.mode.fused);
    if let Some(kept) = cache.and_then(|cache| kept_in(cache, asked)) {
        return Ok(kept);
    }
    let defect = |why: NoPlan| defect::error(format!("the planner has no plan: {why}"), Some((device, &segment)));
    let at_hand = asked.parts.map(|parts| AtHand { parts, further: None });
    let planned = plan_with(segment, costs, effort, at_hand).map_err(defect)?;
    count_search(&planned);
    let instance = instantiate(&planned.plan, segment, classes).expect("a plan fits the segment it was made for");
    if let Some(cache) = cache {
        // By these sizes goes what a search from nothing finds.
        if planned.parts == PartsUsed::default() {
            cache.put(Kind::Plan, &asked.key(), &planned.to_bytes());
        }
        // The first plan of a class stays, as it does in memory, until one of it was measured.
        if let Some(key) = asked.class_key().filter(|key| cache.get(Kind::Class, key).is_none()) {
            cache.put(Kind::Class, &key, &planned.to_bytes());
        }
    }
    let unfinished = asked.parts.is_some() && !planned.complete;
    Ok(Answer { plan: planned.plan, instance, origin: Origin::Search, unfinished })
}

/// Keeps a plan that was found after a search's budget had ended it, for these sizes and for their class.
pub(crate) fn save_better(asked: Asked<'_>, planned: &Planned) {
    if let Some(cache) = disk::cache() {
        save_better_in(&cache, asked, planned);
    }
}

/// As [`save_better`], in that cache.
pub(crate) fn save_better_in(cache: &Cache, asked: Asked<'_>, planned: &Planned) {
    cache.put(Kind::Plan, &asked.further_key(), &planned.to_bytes());
    if let Some(key) = asked.class_key() {
        cache.put(Kind::Class, &key, &planned.to_bytes());
    }
}

/// Keeps what an autotuning of a segment's plan has ended with, so that no later process holds it again.
pub(crate) fn save_measured(asked: Asked<'_>, plan: &Plan) {
    if let Some(cache) = disk::cache() {
        save_measured_in(&cache, asked, plan);
    }
}

/// As [`save_measured`], in that cache.
pub(crate) fn save_measured_in(cache: &Cache, asked: Asked<'_>, plan: &Plan) {
    let bytes =
        Planned { plan: plan.clone(), time: 0, complete: true, visits: 0, parts: Default::default() }.to_bytes();
    // On disk a plan is what its kernels store; one that is more than that is measured again.
    if Planned::from_bytes(&bytes, asked.segment, asked.costs).is_some_and(|p| p.plan == *plan) {
        cache.put(Kind::Measured, &asked.key(), &bytes);
        if let Some(key) = asked.class_key() {
            cache.put(Kind::Class, &key, &bytes);
        }
    }
}
