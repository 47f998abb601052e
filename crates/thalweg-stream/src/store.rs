//! The plan store: every pattern's plan, shared by all streams of the process.
//!
//! A stream's recognizer keeps a reference at the node it belongs to, so the store is only looked at when a stream meets a
//! pattern for the first time.

use crate::DeviceRef;
use crate::autotune::Autotuning;
use crate::calibration::planning_costs;
use crate::defect;
use crate::mode::{Mode, effort};
use crate::ready::{Memory, Ready, Traffic, prepare};
use crate::saved::{self, Origin};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use thalweg_fusion::{BitSet, Effort, Plan, ScalarClasses, Segment, instantiate, instantiate_like};
use thalweg_ir::RelOp;
use thalweg_runtime::{Error, count};

/// Instances kept for one pattern; more sizes than that and the oldest are instantiated again (microseconds).
const MAX_INSTANCES: usize = 1024;

/// Plans kept for one pattern: sizes that break the assumptions of all of them are planned for again.
const MAX_VARIANTS: usize = 16;

/// Patterns kept, and operations in all of them. A program that never repeats itself goes beyond; then the store starts over, as recognizers do.
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
    /// Plans, the newest last. There is more than one only where sizes broke what an older one assumed.
    plans: Vec<Arc<Plan>>,
    classes: Arc<ScalarClasses>,
    instances: HashMap<Box<[i64]>, Arc<Ready>>,
    /// The latest of them.
    last: Option<Arc<Ready>>,
}

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
        stats.plans += known.plans.len();
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
        known: Mutex::new(Known { plans: vec![], classes, instances: HashMap::new(), last: None }),
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
        let classes = known.classes.clone();
        // Most sizes differ from the last ones by a number of rows.
        let before = known.last.as_ref().filter(|r| Arc::ptr_eq(&r.classes, &classes));
        let instantiated = |plan: &Arc<Plan>| {
            let before = before.filter(|r| Arc::ptr_eq(&r.plan, plan));
            let instance = match before {
                Some(before) => instantiate_like(&before.instance, plan, segment, &classes),
                None => instantiate(plan, segment, &classes),
            };
            Some((plan.clone(), instance?))
        };
        // The newest that fits; where runs are to be alike, the oldest, which stays the same however many more there are.
        let fitting = || match self.mode.reproducible {
            true => known.plans.iter().find_map(instantiated),
            false => known.plans.iter().rev().find_map(instantiated),
        };
        let planned = || match fitting() {
            Some((plan, instance)) => Ok((plan, instance, Origin::Memory)),
            None => saved::plan(device, segment, &planning_costs(device, self.mode), effort(), &classes)
                .map(|(plan, instance, origin)| (Arc::new(plan), instance, origin)),
        };
        let (plan, instance, origin) = defect::caught("the planner", device, &segment, planned)??;
        if origin != Origin::Memory {
            if known.plans.len() >= MAX_VARIANTS {
                known.plans.remove(0);
            }
            known.plans.push(plan.clone());
        }
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
        let ready = Arc::new(Ready { plan, instance, programs: programs?, classes, autotuning, memory, traffic });
        if known.instances.len() >= MAX_INSTANCES {
            known.instances.clear();
        }
        known.instances.insert(sizes.into(), ready.clone());
        known.last = Some(ready.clone());
        Ok((ready, origin))
    }
}
