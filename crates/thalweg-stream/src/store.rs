//! The plan store: every pattern's plan, shared by all streams of the process.
//!
//! A stream's recognizer keeps a reference at the node it belongs to, so the store is only looked at when a stream
//! meets a pattern for the first time.
//!
//! In: a segment with its sizes. Out: what runs it. Plans are kept by the [`SegmentClass`] of their first segment: the
//! first one of a class is planned for, whatever plans other classes have that would be legal, and the winner of an
//! autotuning is the plan of its class from then on.
//!
//! Always true: classes that are planned for are few a pattern, and the class is asked for only where there is no
//! instance for the sizes. Which plan is taken follows from the segment and from what the pattern has met before, in
//! order; in a reproducible mode that is the stream's own history.

use crate::DeviceRef;
use crate::autotune::Autotuning;
use crate::calibration::planning_costs;
use crate::class_plans::ClassPlans;
use crate::defect;
use crate::mode::{Mode, effort};
use crate::ready::{Memory, Ready, Traffic, prepare};
use crate::saved::{self, Origin};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use thalweg_fusion::{
    BitSet, Effort, Instance, Plan, ScalarClasses, Segment, SegmentClass, footprint, instantiate, instantiate_like,
};
use thalweg_ir::RelOp;
use thalweg_runtime::{Error, count};

/// Instances kept for one pattern; more sizes than that and the oldest are instantiated again (microseconds).
const MAX_INSTANCES: usize = 1024;

/// Classes of a pattern that are planned for. What is of another one beyond takes the plan of these that is predicted
/// to be the fastest for it.
const MAX_CLASSES: usize = 16;

/// Patterns kept, and operations in all of them. A program that never repeats itself goes beyond; then the store starts
/// over, as recognizers do.
const MAX_PATTERNS: usize = 1 << 14;
const MAX_PATTERN_OPS: usize = 1 << 22;

#[derive(PartialEq, Eq, Hash)]
struct Pattern {
    device: DeviceRef,
    mode: Mode,
    /// The stream whose it is, in a reproducible mode: there no plan may depend on what other threads have met before.
    stream: Option<u32>,
    effort: Effort,
    ops: Box<[RelOp]>,
    live: BitSet,
}

/// What is known of one pattern.
pub(crate) struct Entry {
    mode: Mode,
    known: Mutex<Known>,
}

struct Known {
    /// The classes planned for, the oldest first.
    planned: Vec<PlannedClass>,
    /// Plans found for classes beyond those.
    rest: Arc<ClassPlans>,
    classes: Arc<ScalarClasses>,
    instances: HashMap<Box<[i64]>, Arc<Ready>>,
}

struct PlannedClass {
    class: SegmentClass,
    plans: Arc<ClassPlans>,
    /// The latest instance of the class.
    last: Option<Arc<Ready>>,
}

/// A plan instantiated for the sizes at hand.
type Found = (Arc<Plan>, Instance);

#[derive(Default)]
struct Store {
    entries: HashMap<Pattern, Arc<Entry>>,
    /// Operations of all patterns.
    ops: usize,
}

static STORE: Mutex<Option<Store>> = Mutex::new(None);

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while planning leaves maps that are whole, if less full than they might be.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// What the plan store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanStoreStats {
    /// Patterns known.
    pub patterns: usize,
    /// Plans of all patterns.
    pub plans: usize,
    /// Instances of all plans.
    pub instances: usize,
}

/// What the plan store holds now.
pub fn plan_store() -> PlanStoreStats {
    let mut stats = PlanStoreStats::default();
    for entry in locked(&STORE).iter().flat_map(|s| s.entries.values()) {
        let known = locked(&entry.known);
        stats.patterns += 1;
        stats.plans += known.distinct_plans().len();
        stats.instances += known.instances.len();
    }
    stats
}

/// Forgets all plans that no stream has at hand.
pub fn clear_plans() {
    locked(&STORE).take();
}

/// The entry of a pattern, made if it was not there.
pub(crate) fn entry(device: DeviceRef, mode: Mode, stream: u32, segment: &Segment<'_>) -> Arc<Entry> {
    let stream = mode.reproducible.then_some(stream);
    let pattern =
        Pattern { device, mode, stream, effort: effort(), ops: segment.ops.into(), live: segment.live.clone() };
    let mut store = locked(&STORE);
    let store = store.get_or_insert_default();
    if let Some(entry) = store.entries.get(&pattern) {
        return entry.clone();
    }
    if store.entries.len() >= MAX_PATTERNS || store.ops + segment.ops.len() > MAX_PATTERN_OPS {
        *store = Store::default();
    }
    let classes = Arc::new(ScalarClasses::new(segment.scalars));
    let entry = Arc::new(Entry {
        mode,
        known: Mutex::new(Known { planned: vec![], rest: Arc::default(), classes, instances: HashMap::new() }),
    });
    store.ops += segment.ops.len();
    store.entries.insert(pattern, entry.clone());
    entry
}

impl Entry {
    /// What runs the segment: from before, or instantiated now; and where the plan came from.
    pub fn ready(&self, device: DeviceRef, segment: Segment<'_>, sizes: &[i64]) -> Result<(Arc<Ready>, Origin), Error> {
        let mut known = locked(&self.known);
        if !known.classes.hold(segment.scalars) {
            known.classes = Arc::new(known.classes.split(segment.scalars));
            known.instances.clear();
        }
        if let Some(ready) = known.instances.get(sizes) {
            return Ok((ready.clone(), Origin::Memory));
        }
        let begin = Instant::now();
        let (classes, class) = (known.classes.clone(), SegmentClass::of(&segment));
        let at = known.planned.iter().position(|p| p.class == class);
        let search = || match at
            .map_or_else(|| known.beyond(device, self.mode, segment), |at| known.fitting(at, self.mode, segment))
        {
            Some((plan, instance)) => Ok((plan, instance, Origin::Memory)),
            None => saved::plan(device, segment, &planning_costs(device, self.mode), effort(), &classes)
                .map(|(plan, instance, origin)| (known.shared(plan), instance, origin)),
        };
        let (plan, instance, origin) = defect::caught("the planner", device, &segment, search)??;
        let of_class = known.class(at, class, (origin != Origin::Memory).then_some(&plan));
        let plan_ns = begin.elapsed().as_nanos() as u64;
        count(|c| {
            c.plan_ns += plan_ns;
            c.instances_made += 1;
            c.plans_made += (origin == Origin::Search) as u64;
            c.plans_loaded += matches!(origin, Origin::Disk | Origin::Measured) as u64;
        });
        tracing::debug!(
            operations = segment.ops.len(),
            kernels = plan.kernel_count(),
            ?origin,
            plan_us = plan_ns / 1000,
            "plan instantiated for sizes"
        );
        let programs = prepare(device, &segment, &instance);
        let autotuning = if origin == Origin::Measured { Autotuning::decided() } else { Autotuning::default() };
        let (memory, traffic) = (Memory::default(), Traffic::default());
        let plans = of_class.map_or(&known.rest, |at| &known.planned[at].plans).clone();
        let programs = programs?;
        let ready = Arc::new(Ready { plan, plans, instance, programs, classes, autotuning, memory, traffic });
        if known.instances.len() >= MAX_INSTANCES {
            known.instances.clear();
        }
        known.instances.insert(sizes.into(), ready.clone());
        if let Some(at) = of_class {
            known.planned[at].last = Some(ready.clone());
        }
        Ok((ready, origin))
    }
}

impl Known {
    /// A plan of that class that fits these sizes: the newest; where runs are to be alike the oldest, which stays the
    /// same however many more there are.
    fn fitting(&self, at: usize, mode: Mode, segment: Segment<'_>) -> Option<Found> {
        let of_class = &self.planned[at];
        let plans = of_class.plans.all();
        // Most sizes differ from the last ones by a number of rows.
        let before = of_class.last.as_ref().filter(|r| Arc::ptr_eq(&r.classes, &self.classes));
        let instantiated = |plan: &Arc<Plan>| {
            let instance = match before.filter(|r| Arc::ptr_eq(&r.plan, plan)) {
                Some(before) => instantiate_like(&before.instance, plan, segment, &self.classes),
                None => instantiate(plan, segment, &self.classes),
            };
            Some((plan.clone(), instance?))
        };
        match mode.reproducible {
            true => plans.iter().find_map(instantiated),
            false => plans.iter().rev().find_map(instantiated),
        }
    }

    /// What a class that is not planned for takes, once there are as many as may be: of all plans that fit the one that
    /// is predicted to be the fastest.
    fn beyond(&self, device: DeviceRef, mode: Mode, segment: Segment<'_>) -> Option<Found> {
        if self.planned.len() < MAX_CLASSES {
            return None;
        }
        let (costs, footprint) = (planning_costs(device, mode), footprint(&segment));
        let plans = self.distinct_plans().into_iter();
        let found = plans.filter_map(|plan| instantiate(&plan, segment, &self.classes).map(|i| (plan, i)));
        found.min_by_key(|(_, instance)| instance.time(&costs, footprint))
    }

    /// The plans of all classes, each once, those of older classes first.
    fn distinct_plans(&self) -> Vec<Arc<Plan>> {
        let mut all: Vec<Arc<Plan>> = vec![];
        for plan in self.planned.iter().map(|p| &p.plans).chain([&self.rest]).flat_map(|p| p.all()) {
            if !all.iter().any(|p| Arc::ptr_eq(p, &plan)) {
                all.push(plan);
            }
        }
        all
    }

    /// The plan, or one that another class has found already and that is equal.
    fn shared(&self, plan: Plan) -> Arc<Plan> {
        self.distinct_plans().into_iter().find(|p| **p == plan).unwrap_or_else(|| Arc::new(plan))
    }

    /// The place of the class: the one at hand, else a new one while there may be more. `plan` is one that was found
    /// for it now.
    fn class(&mut self, at: Option<usize>, class: SegmentClass, plan: Option<&Arc<Plan>>) -> Option<usize> {
        let at = at.or_else(|| {
            let new = PlannedClass { class, plans: Arc::default(), last: None };
            (self.planned.len() < MAX_CLASSES).then(|| self.planned.push(new)).map(|()| self.planned.len() - 1)
        });
        if let Some(plan) = plan {
            at.map_or(&self.rest, |at| &self.planned[at].plans).prefer(plan);
        }
        at
    }
}
