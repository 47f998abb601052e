//! Plan store: the plans of every pattern, shared by all streams of the process.
//!
//! A stream's recognizer keeps a reference to the entry at its node, so the store is only searched when a stream meets
//! a pattern for the first time.
//!
//! In: a segment with its sizes. Out: a runnable instance. Plans are stored by the [`SegmentClass`] (size class) of
//! their first segment. The first segment of a class is planned for, even if plans of other classes would be legal. The
//! winner of an autotuning becomes the plan of its class.
//!
//! Always true: a pattern has few planned classes, and the class is computed only if there is no instance for the
//! sizes. The plan taken depends on the segment and on the previous sizes of the pattern, in order; in a reproducible
//! mode these are the stream's own history.

use crate::DeviceRef;
use crate::calibration::planning_costs;
use crate::class_plans::ClassPlans;
use crate::cold_start::{self, Asks, First, Job, SearchedPlan};
use crate::defect;
use crate::mode::{Mode, effort};
use crate::ready::{Ready, prepare};
use crate::saved::{self, Answer, Asked, Origin};
use crate::tier::Tier;
use crate::tunable::TUNABLES;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use thalweg_fusion::{
    BitSet, Effort, Instance, Plan, ScalarClasses, Segment, SegmentClass, Unfused, footprint, instantiate,
    instantiate_like, is_of_turns,
};
use thalweg_ir::RelOp;
use thalweg_runtime::{Counters, Error, Program, count};

/// Maximum number of operations in all patterns of the plan store before it is cleared.
const MAX_PATTERN_OPS: usize = 1 << 22;

#[derive(PartialEq, Eq, Hash)]
struct Pattern {
    device: DeviceRef,
    mode: Mode,
    /// Stream that owns the pattern in a reproducible mode, where no plan may depend on what other threads ran before.
    stream: Option<u32>,
    effort: Effort,
    ops: Box<[RelOp]>,
    live: BitSet,
}

/// Entry of the plan store: all that is known of one pattern.
pub(crate) struct Entry {
    mode: Mode,
    known: Mutex<EntryState>,
}

struct EntryState {
    /// Planned classes, the oldest first.
    planned: Vec<PlannedClass>,
    /// Plans for classes beyond the maximum number of planned ones.
    rest: Arc<ClassPlans>,
    /// Initial occurrence count of a new class: 1 if the operations ran before with other live-outs.
    met: u32,
    classes: Arc<ScalarClasses>,
    instances: HashMap<Box<[i64]>, Arc<Ready>>,
    /// Cost of background searches that is not yet added to any thread's counters.
    spent: Option<Counters>,
}

struct PlannedClass {
    class: SegmentClass,
    plans: Arc<ClassPlans>,
    /// Latest instance of the class, from which instances for other sizes are adapted.
    last: Option<Arc<Ready>>,
    search: Search,
}

/// State of the search for a class's plan.
enum Search {
    /// No search requested yet; holds the number of occurrences of the class.
    After(u32),
    /// Search requested; it runs in the background.
    Asked,
    /// Search finished, with or without a plan.
    Over,
}

/// Plan with its instance for the current sizes.
type Fitting = (Arc<Plan>, Instance);

#[derive(Default)]
struct Store {
    entries: HashMap<Pattern, Arc<Entry>>,
    /// Number of operations of all patterns.
    ops: usize,
}

static STORE: Mutex<Option<Store>> = Mutex::new(None);

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while planning leaves valid maps, if less full than they might be.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Numbers of entries in the plan store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanStoreStats {
    /// Number of patterns.
    pub patterns: usize,
    /// Number of plans of all patterns.
    pub plans: usize,
    /// Number of instances of all plans.
    pub instances: usize,
}

/// Current size of the plan store.
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

/// Forgets all plans that no stream holds a reference to, and the partial plans shared between them.
pub fn clear_plans() {
    cold_start::forget_parts();
    locked(&STORE).take();
}

/// Entry of a pattern, created if necessary. `met_otherwise`: the same operations ran before with other live-outs, so
/// this is not counted as their first occurrence.
pub(crate) fn entry(
    device: DeviceRef,
    (mode, stream): (Mode, u32),
    segment: &Segment<'_>,
    met_otherwise: bool,
) -> Arc<Entry> {
    let stream = mode.reproducible.then_some(stream);
    let pattern =
        Pattern { device, mode, stream, effort: effort(), ops: segment.ops.into(), live: segment.live.clone() };
    let mut store = locked(&STORE);
    let store = store.get_or_insert_default();
    if let Some(entry) = store.entries.get(&pattern) {
        return entry.clone();
    }
    if TUNABLES.max_patterns.reached_by(store.entries.len()) || store.ops + segment.ops.len() > MAX_PATTERN_OPS {
        *store = Store::default();
    }
    let classes = Arc::new(ScalarClasses::new(segment.scalars));
    let entry = Arc::new(Entry {
        mode,
        known: Mutex::new(EntryState {
            planned: vec![],
            rest: Arc::default(),
            met: u32::from(met_otherwise),
            classes,
            instances: HashMap::new(),
            spent: None,
        }),
    });
    store.ops += segment.ops.len();
    store.entries.insert(pattern, entry.clone());
    entry
}

/// Plan and instance that were chosen for a segment, with programs if they exist already.
struct Chosen {
    plan: Arc<Plan>,
    instance: Instance,
    origin: Origin,
    programs: Option<Vec<Arc<dyn Program>>>,
    /// Whether the search may be continued in the background.
    unfinished: bool,
    /// Whether the plan is the unfused fallback of a cold start.
    singles: bool,
    /// When a better plan is searched for.
    request: Request,
}

/// When a plan that is better than a cold start's is searched for in the background.
enum Request {
    /// When the class occurs again.
    AtRepetition,
    /// At once: it is on disk, or, where given, in memory, and has to be compiled.
    AtOnce(Option<Arc<Plan>>),
}

impl Chosen {
    fn planned(plan: Arc<Plan>, instance: Instance, origin: Origin) -> Chosen {
        let request = Request::AtRepetition;
        Chosen { plan, instance, origin, programs: None, unfinished: false, singles: false, request }
    }

    fn singles(Unfused { plan, instance, beside }: Unfused<Arc<dyn Program>>) -> Chosen {
        let programs = Some(beside);
        Chosen { programs, singles: true, ..Chosen::planned(Arc::new(plan), instance, Origin::ColdStart) }
    }

    fn at_once(plan: Arc<Plan>, instance: Instance, programs: Vec<Arc<dyn Program>>) -> Chosen {
        Chosen { programs: Some(programs), ..Chosen::planned(plan, instance, Origin::ColdStart) }
    }
}

impl Entry {
    /// Runnable instance of the segment, existing or made now, and the origin of its plan.
    pub fn ready(
        self: &Arc<Entry>,
        device: DeviceRef,
        segment: Segment<'_>,
        sizes: &[i64],
    ) -> Result<(Arc<Ready>, Origin), Error> {
        let mut known = locked(&self.known);
        if !known.classes.hold(segment.scalars) {
            known.classes = Arc::new(known.classes.split(segment.scalars));
            known.instances.clear();
        }
        known.account();
        let before = known.instances.get(sizes).cloned();
        if let Some(ready) = before.as_ref().filter(|r| !r.is_outdated()) {
            return Ok((ready.clone(), Origin::Memory));
        }
        // The class of these sizes is identified by its list of plans, which is still empty.
        let provisional = before.and_then(|ready| {
            let at = known.planned.iter().position(|p| Arc::ptr_eq(&p.plans, &ready.plans))?;
            known.planned[at].plans.all().is_empty().then_some((ready, at))
        });
        if let Some((ready, at)) = provisional
            && known.waits(at, device, self.mode)
        {
            self.count_occurrence(&mut known, at, device, (segment, sizes));
            return Ok((ready, Origin::ColdStart));
        }
        let begin = Instant::now();
        let class = SegmentClass::of(&segment);
        let at = known.planned.iter().position(|p| p.class == class);
        let mut chosen = self.choose(&mut known, (at, &class), device, segment)?;
        let request = std::mem::replace(&mut chosen.request, Request::AtRepetition);
        let cold_start = chosen.origin == Origin::ColdStart;
        let of_class = known.class(
            at,
            class,
            (!matches!(chosen.origin, Origin::Memory | Origin::ColdStart)).then_some(&chosen.plan),
        );
        let plan_ns = begin.elapsed().as_nanos() as u64;
        let (origin, unfinished) = (chosen.origin, chosen.unfinished);
        count(|c| {
            c.plan_ns += plan_ns;
            c.instances_made += 1;
            c.plans_made += (origin == Origin::Search) as u64;
            c.plans_loaded += matches!(origin, Origin::Disk | Origin::Class | Origin::Measured) as u64;
        });
        tracing::debug!(
            operations = segment.ops.len(),
            kernels = chosen.plan.kernel_count(),
            ?origin,
            plan_us = plan_ns / 1000,
            "plan instantiated for sizes"
        );
        let ready = known.made_ready(chosen, of_class, device, &segment)?;
        known.keep(sizes, &ready, of_class);
        match (of_class.filter(|_| cold_start), request) {
            (Some(at), Request::AtRepetition) => self.count_occurrence(&mut known, at, device, (segment, sizes)),
            (Some(at), Request::AtOnce(plan)) => self.request(&mut known, at, device, (segment, sizes), plan),
            (None, _) => {}
        }
        if let Some(at) = of_class.filter(|_| unfinished) {
            let mut job = self.job(&known, at, device, (segment, sizes));
            job.plan = Some(ready.plan.clone());
            cold_start::search_on(job);
        }
        Ok((ready, origin))
    }

    /// Plan of the class at index `at`. If the class has none: a cold-start plan, or one searched for now.
    fn choose(
        &self,
        known: &mut EntryState,
        (at, class): (Option<usize>, &SegmentClass),
        device: DeviceRef,
        segment: Segment<'_>,
    ) -> Result<Chosen, Error> {
        let costs = planning_costs(device, self.mode);
        let classes = known.classes.clone();
        let effort = effort();
        let class = (!self.mode.reproducible).then_some(class);
        let parts = cold_start::may_run(device, self.mode).then(|| cold_start::parts_of(device, effort));
        let parts = parts.as_deref();
        let asked = Asked { device, segment, costs: &costs, effort, classes: &classes, class, parts };
        let fits = || match at {
            Some(at) => known.fitting(at, self.mode, segment),
            None => known.beyond(device, self.mode, segment),
        };
        if let Some((plan, instance)) = defect::caught("the planner", device, &segment, fits)? {
            let on_hand = Chosen::planned(plan, instance, Origin::Memory);
            // A class beyond the maximum number of planned ones asks for nothing.
            let may_wait = at.is_some() && cold_start::may_run(device, self.mode);
            return if may_wait { compiled_or_not(device, segment, on_hand) } else { Ok(on_hand) };
        }
        let there_is_room = at.is_some() || !TUNABLES.max_classes.reached_by(known.planned.len());
        let waits = there_is_room
            && at.map_or_else(|| cold_start::may_run(device, self.mode), |at| known.waits(at, device, self.mode));
        if waits {
            // Loading a plan writes and loads each of its kernels.
            if cold_start::loads_in_background(device, &segment)
                && saved::is_saved(asked)
                && let Some(singles) = cold_start::assemble_unfused(device, segment)?
            {
                return Ok(Chosen { request: Request::AtOnce(None), ..Chosen::singles(singles) });
            }
            let kept = defect::caught("the planner", device, &segment, || saved::load_plan(asked))?;
            if let Some(Answer { plan, instance, origin, .. }) = kept {
                return compiled_or_not(device, segment, Chosen::planned(known.shared(plan), instance, origin));
            }
            match cold_start::first(device, segment, &costs, &classes)? {
                Some(First::Singles(singles)) => return Ok(Chosen::singles(singles)),
                Some(First::Planned(plan, instance, complete)) => {
                    let origin = if complete { Origin::Search } else { Origin::ColdStart };
                    return Ok(Chosen::planned(Arc::new(plan), instance, origin));
                }
                Some(First::AtOnce(plan, instance, programs)) => {
                    return Ok(Chosen::at_once(Arc::new(plan), instance, programs));
                }
                None => {}
            }
        }
        let search = || saved::plan(asked);
        let Answer { plan, instance, origin, unfinished } = defect::caught("the planner", device, &segment, search)??;
        Ok(Chosen { unfinished, ..Chosen::planned(known.shared(plan), instance, origin) })
    }

    /// Counts an occurrence of a class without a plan, and requests a search after enough of them.
    fn count_occurrence(
        self: &Arc<Entry>,
        known: &mut EntryState,
        at: usize,
        device: DeviceRef,
        at_hand: (Segment<'_>, &[i64]),
    ) {
        count(|c| c.cold_starts += 1);
        let Search::After(met) = &mut known.planned[at].search else { return };
        *met += 1;
        if !TUNABLES.min_meetings.reached_by(*met as usize) && !is_of_turns(&at_hand.0) {
            return;
        }
        if cold_start::search(self.job(known, at, device, at_hand)) {
            known.planned[at].search = Search::Asked;
        }
    }

    /// Requests the search for a class at once, unless that is done. `plan`: a plan that only has to be compiled.
    fn request(
        self: &Arc<Entry>,
        known: &mut EntryState,
        at: usize,
        device: DeviceRef,
        at_hand: (Segment<'_>, &[i64]),
        plan: Option<Arc<Plan>>,
    ) {
        count(|c| c.cold_starts += 1);
        if matches!(known.planned[at].search, Search::Asked) {
            return;
        }
        let job = Job { plan, ..self.job(known, at, device, at_hand) };
        if cold_start::search(job) {
            known.planned[at].search = Search::Asked;
        }
    }

    /// Background search job for a class, with the current segment as its example.
    fn job(
        self: &Arc<Entry>,
        known: &EntryState,
        at: usize,
        device: DeviceRef,
        (segment, sizes): (Segment<'_>, &[i64]),
    ) -> Job {
        Job {
            asks: self.clone(),
            device,
            mode: self.mode,
            effort: effort(),
            segment: segment.to_owned(),
            sizes: sizes.into(),
            class: known.planned[at].class.clone(),
            classes: known.classes.clone(),
            plan: None,
        }
    }
}

/// The chosen plan, or, if its programs need a slow compiler, something that needs none and runs until they are compiled
/// in the background.
fn compiled_or_not(device: DeviceRef, segment: Segment<'_>, chosen: Chosen) -> Result<Chosen, Error> {
    if !cold_start::has_to_wait(device, &chosen.instance) {
        return Ok(chosen);
    }
    // A plan from disk is loaded once more, with its origin.
    let request = || Request::AtOnce((chosen.origin == Origin::Memory).then(|| chosen.plan.clone()));
    if let Some(programs) = cold_start::at_once(device, &segment, &chosen.instance)? {
        return Ok(Chosen { request: request(), ..Chosen::at_once(chosen.plan, chosen.instance, programs) });
    }
    Ok(match cold_start::assemble_unfused(device, segment)? {
        Some(singles) => Chosen { request: request(), ..Chosen::singles(singles) },
        None => chosen,
    })
}

/// Tier of a plan from its origin. `singles`: it is the unfused fallback.
fn tier(origin: Origin, singles: bool) -> Tier {
    match origin {
        Origin::ColdStart if singles => Tier::Singles,
        Origin::ColdStart => Tier::Quick,
        Origin::Disk | Origin::Class => Tier::Disk,
        Origin::Measured => Tier::Measured,
        Origin::Search | Origin::Memory => Tier::Searched,
    }
}

impl Asks for Entry {
    fn found(
        &self,
        class: &SegmentClass,
        (sizes, classes): (Box<[i64]>, Arc<ScalarClasses>),
        found: Result<SearchedPlan, Error>,
        spent: Counters,
    ) {
        let mut known = locked(&self.known);
        known.spent = Some(known.spent.take().map_or(spent, |before| before + spent));
        let Some(at) = known.planned.iter().position(|p| p.class == *class) else { return };
        known.planned[at].search = Search::Over;
        let Ok(SearchedPlan { plan, instance, programs, predicted, origin, .. }) = found else { return };
        let plan = known.shared(plan);
        let plans = known.planned[at].plans.clone();
        plans.prefer(&plan);
        // Skipped if scalars that were equal have turned out to differ: the plan is then instantiated again.
        if Arc::ptr_eq(&classes, &known.classes) {
            let provisional = known.instances.get(&sizes).filter(|r| r.is_provisional());
            let earlier = provisional.and_then(Ready::fastest_so_far);
            let ready = Ready::new((plan, plans, classes), instance, programs).after(earlier);
            let ready = ready.predicted_to_take(predicted).of_tier(tier(origin, false));
            known.keep(&sizes, &Arc::new(ready), Some(at));
        }
    }

    fn meanwhile(&self, class: &SegmentClass, (sizes, classes): (Box<[i64]>, Arc<ScalarClasses>), found: SearchedPlan) {
        let mut known = locked(&self.known);
        let of_class = known.planned.iter().find(|p| p.class == *class);
        let waits = of_class.filter(|p| matches!(p.search, Search::Asked)).map(|p| p.plans.clone());
        let Some(plans) = waits.filter(|_| Arc::ptr_eq(&classes, &known.classes)) else { return };
        let earlier = known.instances.get(&sizes).cloned();
        if earlier.as_ref().is_none_or(|r| r.tier == Tier::Singles) {
            let SearchedPlan { plan, instance, programs, predicted, .. } = found;
            let ready = Ready::new((Arc::new(plan), plans, classes), instance, programs);
            let ready = ready.predicted_to_take(predicted).of_tier(Tier::Quick).after(earlier);
            known.instances.insert(sizes, Arc::new(ready));
        }
    }

    fn runs_often(&self, sizes: &[i64]) -> bool {
        let ready = locked(&self.known).instances.get(sizes).cloned();
        ready.is_some_and(|r| !r.is_provisional() && r.autotuning.runs_often())
    }

    fn better(
        &self,
        class: &SegmentClass,
        (sizes, classes): (Box<[i64]>, Arc<ScalarClasses>),
        found: SearchedPlan,
        mut spent: Counters,
    ) {
        let mut known = locked(&self.known);
        let Some(at) = known.planned.iter().position(|p| p.class == *class) else { return };
        let SearchedPlan { plan, instance, programs, predicted, .. } = found;
        let (plan, plans) = (known.shared(plan), known.planned[at].plans.clone());
        // The measured winner, or else the current instance, competes with the new plan.
        let before = known.instances.get(&sizes).filter(|r| Arc::ptr_eq(&r.plans, &plans));
        let earlier = before.map(|own| own.autotuning.winner().unwrap_or(own).clone());
        plans.prefer(&plan);
        // Instances of the class are marked outdated and removed, so that all its sizes ask for the new plan when they
        // run next.
        known.instances.retain(|_, r| {
            let other = !Arc::ptr_eq(&r.plans, &plans);
            if !other {
                r.outdate();
            }
            other
        });
        known.planned[at].last = None;
        spent.plans_improved += 1;
        known.spent = Some(known.spent.take().map_or(spent, |before| before + spent));
        // Skipped if scalars that were equal have turned out to differ: the plan is then instantiated again.
        if Arc::ptr_eq(&classes, &known.classes) {
            let ready = Ready::new((plan, plans, classes), instance, programs).after(earlier);
            let ready = ready.predicted_to_take(predicted);
            known.keep(&sizes, &Arc::new(ready), Some(at));
        }
    }
}

impl EntryState {
    /// Whether a class may run by a cold-start plan: its search is not over.
    fn waits(&self, at: usize, device: DeviceRef, mode: Mode) -> bool {
        !matches!(self.planned[at].search, Search::Over) && cold_start::may_run(device, mode)
    }

    /// Adds the cost of background searches to the counters of the calling thread, which gains by them.
    fn account(&mut self) {
        if let Some(spent) = self.spent.take() {
            count(|c| *c = *c + spent);
        }
    }

    /// Builds the runnable instance of a chosen plan, with its programs.
    fn made_ready(
        &self,
        chosen: Chosen,
        of_class: Option<usize>,
        device: DeviceRef,
        segment: &Segment<'_>,
    ) -> Result<Arc<Ready>, Error> {
        let Chosen { plan, instance, origin, programs, singles, unfinished: _, request: _ } = chosen;
        let tier = tier(origin, singles);
        let programs = programs.map_or_else(|| prepare(device, segment, &instance), Ok)?;
        let plans = of_class.map_or(&self.rest, |at| &self.planned[at].plans).clone();
        let ready = Ready::new((plan, plans, self.classes.clone()), instance, programs);
        Ok(Arc::new(ready.of_tier(tier)))
    }

    /// Stores an instance for sizes.
    fn keep(&mut self, sizes: &[i64], ready: &Arc<Ready>, of_class: Option<usize>) {
        if TUNABLES.max_instances.reached_by(self.instances.len()) {
            self.instances.clear();
        }
        self.instances.insert(sizes.into(), ready.clone());
        if let Some(at) = of_class.filter(|_| !ready.is_provisional()) {
            self.planned[at].last = Some(ready.clone());
        }
    }
}

impl EntryState {
    /// Plan of a planned class that fits these sizes: the newest. In reproducible modes the oldest, which stays the
    /// same however many are added.
    fn fitting(&self, at: usize, mode: Mode, segment: Segment<'_>) -> Option<Fitting> {
        let of_class = &self.planned[at];
        let plans = of_class.plans.all();
        // Most sizes differ from the last ones only in a number of rows.
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

    /// Plan for a class beyond the maximum number of planned classes: the one with the least predicted time among all
    /// plans that fit.
    fn beyond(&self, device: DeviceRef, mode: Mode, segment: Segment<'_>) -> Option<Fitting> {
        if !TUNABLES.max_classes.reached_by(self.planned.len()) {
            return None;
        }
        let (costs, footprint) = (planning_costs(device, mode), footprint(&segment));
        let plans = self.distinct_plans().into_iter();
        let found = plans.filter_map(|plan| instantiate(&plan, segment, &self.classes).map(|i| (plan, i)));
        found.min_by_key(|(_, instance)| instance.time(&costs, footprint))
    }

    /// Distinct plans of all classes, those of older classes first.
    fn distinct_plans(&self) -> Vec<Arc<Plan>> {
        let mut all: Vec<Arc<Plan>> = vec![];
        for plan in self.planned.iter().map(|p| &p.plans).chain([&self.rest]).flat_map(|p| p.all()) {
            if !all.iter().any(|p| Arc::ptr_eq(p, &plan)) {
                all.push(plan);
            }
        }
        all
    }

    /// Shares a plan: returns an equal one that another class has already, if there is one.
    fn shared(&self, plan: Plan) -> Arc<Plan> {
        self.distinct_plans().into_iter().find(|p| **p == plan).unwrap_or_else(|| Arc::new(plan))
    }

    /// Returns the index of a class: `at`, else that of a new class, which is added unless there are too many. `plan`
    /// is a plan that was found for it now; it becomes the preferred plan of the class, or of the sizes without a
    /// class.
    fn class(&mut self, at: Option<usize>, class: SegmentClass, plan: Option<&Arc<Plan>>) -> Option<usize> {
        let at = at.or_else(|| {
            let new = PlannedClass { class, plans: Arc::default(), last: None, search: Search::After(self.met) };
            (!TUNABLES.max_classes.reached_by(self.planned.len()))
                .then(|| self.planned.push(new))
                .map(|()| self.planned.len() - 1)
        });
        if let Some(plan) = plan {
            at.map_or(&self.rest, |at| &self.planned[at].plans).prefer(plan);
        }
        at
    }
}
