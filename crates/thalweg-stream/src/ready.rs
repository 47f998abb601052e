//! Runnable instances: an instance with its programs and its schedules (memory plans), which are made on first use.
//!
//! In: the bytes of each input that only the segment holds, and the memory left under the device's limit. Out: the
//! schedule to run. Most segments release the same inputs every time and run without a limit, so the first schedule
//! nearly always fits; the list of schedules is read without a lock.

use crate::DeviceRef;
use crate::autotune::{Alternative, Autotuning, MARGIN, MAX_ALTERNATIVES, Named};
use crate::calibration::costs;
use crate::class_plans::ClassPlans;
use crate::corrections;
use crate::defect;
use crate::mode::effort;
use crate::reach::Reach;
use crate::saved::{self, Asked};
use crate::tier::Tier;
use crate::tunable::TUNABLES;
use crate::value::{Storage, Value};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_fusion::{
    Instance, Needs, Plan, ScalarClasses, Schedule, Segment, SegmentClass, Step, alternatives, footprint, instantiate,
    schedule, schedule_within,
};
use thalweg_ir::{Arg, RelOp, Shape};
use thalweg_kernel::Moved;
use thalweg_runtime::{Error, Program, granted};

/// Maximum predicted slowdown, as a factor, at which an alternative plan competes (`WORTH_TRYING`), and is compiled for
/// a GPU (`WORTH_COMPILING`).
const WORTH_TRYING: f64 = 4.0;
const WORTH_COMPILING: f64 = 2.0;
/// Maximum bytes of results of an alternative plan, as a multiple of those of the current plan (`MAX_MEMORY`) plus a
/// number of bytes (`SPARE_MEMORY`).
const MAX_MEMORY: u64 = 2;
const SPARE_MEMORY: u64 = 16 << 20;
/// Maximum number of competitions of a segment: a winner whose kernels disappoint competes with others.
const MAX_COMPETITIONS: usize = 2;

/// Instance of a plan with its programs, ready to run.
pub(crate) struct Ready {
    pub plan: Arc<Plan>,
    /// Plans of this size class. Autotuning promotes a faster plan, so that sizes seen later try it first.
    pub plans: Arc<ClassPlans>,
    pub instance: Instance,
    pub programs: Vec<Arc<dyn Program>>,
    pub classes: Arc<ScalarClasses>,
    /// Tier of the plan. At tier 0 it is provisional: the plan store is asked on each run.
    pub tier: Tier,
    /// Autotuning of this instance: measures whether another plan is faster for its sizes.
    pub autotuning: Autotuning<Ready>,
    /// Schedules of the instance: order of launches and memory of results.
    pub memory: Memory,
    /// Traffic of the instance's launches.
    pub traffic: Traffic,
    /// Dependences of each result, computed on first use.
    reach: OnceLock<Arc<Reach>>,
    /// Instance of the plan that ran before this one; it competes with this one.
    earlier: Option<Arc<Ready>>,
    /// Predicted picoseconds of all launches; computed on first use if no search has.
    predicted: OnceLock<u64>,
    /// Times of its runs.
    pub times: RunTimes,
    /// Whether the plan store must be asked before each run: it has another instance by now, or will soon.
    outdated: AtomicBool,
}

/// Times of the runs of an instance, as far as the host measures them: where launches are not asynchronous, until its
/// autotuning is over.
pub(crate) struct RunTimes {
    runs: AtomicU32,
    /// Least nanoseconds of a run.
    fastest: AtomicU64,
}

impl Default for RunTimes {
    fn default() -> RunTimes {
        RunTimes { runs: AtomicU32::new(0), fastest: AtomicU64::new(u64::MAX) }
    }
}

impl RunTimes {
    /// Records a run.
    pub fn add(&self, time: Duration) {
        self.fastest.fetch_min(time.as_nanos() as u64, Relaxed);
        self.runs.fetch_add(1, Relaxed);
    }

    /// Least nanoseconds of a run; `None` without one.
    pub fn fastest(&self) -> Option<u64> {
        Some(self.fastest.load(Relaxed)).filter(|&ns| ns < u64::MAX)
    }
}

/// Traffic of each launch as its program reports it, without and with in-place outputs; computed on first use.
#[derive(Default)]
pub(crate) struct Traffic(OnceLock<Box<[[OnceLock<Moved>; 2]]>>);

/// Schedule with a unique id, by which a device recognizes a batch of launches that it has seen.
pub(crate) struct Numbered {
    schedule: Schedule,
    pub number: u64,
}

impl Numbered {
    fn new(schedule: Schedule) -> Arc<Numbered> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Numbered { schedule, number: NEXT.fetch_add(1, Relaxed) })
    }
}

impl Deref for Numbered {
    type Target = Schedule;
    fn deref(&self) -> &Schedule {
        &self.schedule
    }
}

/// Memory plans of an instance, computed on first use.
#[derive(Default)]
pub(crate) struct Memory {
    schedules: Schedules,
    /// Instance of another plan for the same segment, with the least peak memory; used when no schedule of this one
    /// fits.
    lean: OnceLock<Option<Arc<Ready>>>,
}

/// Append-only list of schedules.
#[derive(Default)]
struct Schedules {
    entry: OnceLock<CachedSchedule>,
    next: OnceLock<Box<Schedules>>,
}

struct CachedSchedule {
    /// Bytes of each input that only the segment holds.
    own: Box<[usize]>,
    /// Memory limit in bytes that the schedule was made for; `None` for no limit.
    room: Option<usize>,
    schedule: Arc<Numbered>,
}

impl Schedules {
    /// Returns a cached schedule for which `fits` holds, else a new one, which is cached while the list has space.
    fn find<E>(
        &self,
        fits: impl Fn(&CachedSchedule) -> bool,
        make: impl FnOnce() -> Result<CachedSchedule, E>,
    ) -> Result<Arc<Numbered>, E> {
        let mut list = self;
        for _ in 0..TUNABLES.max_schedules.size() {
            match list.entry.get() {
                Some(made) if fits(made) => return Ok(made.schedule.clone()),
                Some(_) => list = list.next.get_or_init(Box::default),
                None => {
                    let made = make()?;
                    let schedule = made.schedule.clone();
                    // If another thread was faster, its schedule stays in the list.
                    let _ = list.entry.set(made);
                    return Ok(schedule);
                }
            }
        }
        Ok(make()?.schedule)
    }
}

/// Fills in the bytes of each input that only the segment holds; 0 for shared inputs, and for memory of another library.
pub(crate) fn held_alone(inputs: &[Option<Arc<Value>>], own: &mut Vec<usize>) {
    let alone = |v: &Arc<Value>, s: &Storage| Arc::strong_count(v) == 1 && Arc::strong_count(&s.buffer) == 1;
    let bytes = |v: &Arc<Value>| match v.state() {
        Some(Ok(s)) if alone(v, s) && s.buffer.may_be_overwritten() => s.buffer.bytes(),
        _ => 0,
    };
    own.clear();
    own.extend(inputs.iter().map(|v| v.as_ref().map_or(0, bytes)));
}

/// Compiles the programs of all launches of an instance of a segment.
pub(crate) fn prepare(
    device: DeviceRef,
    segment: &Segment<'_>,
    instance: &Instance,
) -> Result<Vec<Arc<dyn Program>>, Error> {
    defect::caught("the compiler", device, segment, || prepare_steps(device, &instance.steps))?
}

/// Compiles the programs of launches.
pub(crate) fn prepare_steps<'a>(
    device: DeviceRef,
    steps: impl IntoIterator<Item = &'a Step>,
) -> Result<Vec<Arc<dyn Program>>, Error> {
    let launches: Vec<_> = steps.into_iter().map(|s| (&*s.kernel, &*s.geometry)).collect();
    device.device().prepare(&launches)
}

/// Predicted picoseconds of all launches of an instance.
pub(crate) fn predicted(device: DeviceRef, instance: &Instance) -> u64 {
    instance.time(&costs(device), instance.footprint())
}

impl Ready {
    /// New instance without any runs.
    pub fn new(
        (plan, plans, classes): (Arc<Plan>, Arc<ClassPlans>, Arc<ScalarClasses>),
        instance: Instance,
        programs: Vec<Arc<dyn Program>>,
    ) -> Ready {
        let (autotuning, memory, traffic) = (Autotuning::default(), Memory::default(), Traffic::default());
        Ready {
            plan,
            plans,
            instance,
            programs,
            classes,
            tier: Tier::Searched,
            autotuning,
            memory,
            traffic,
            reach: OnceLock::new(),
            earlier: None,
            predicted: OnceLock::new(),
            times: RunTimes::default(),
            outdated: AtomicBool::new(false),
        }
    }

    /// Instance with its tier replaced by `tier`. One that is provisional or measured already does not compete.
    pub fn of_tier(self, tier: Tier) -> Ready {
        let provisional = tier.number() == 0;
        let decided = provisional || tier == Tier::Measured;
        let autotuning = if decided { Autotuning::decided() } else { self.autotuning };
        Ready { tier, outdated: AtomicBool::new(provisional), autotuning, ..self }
    }

    /// Instance whose launches take `ps` picoseconds by the prediction of its search.
    pub fn predicted_to_take(self, ps: u64) -> Ready {
        Ready { predicted: OnceLock::from(ps), ..self }
    }

    /// Predicted picoseconds of all launches, when the plan was made.
    pub fn predicted(&self, device: DeviceRef) -> u64 {
        *self.predicted.get_or_init(|| predicted(device, &self.instance))
    }

    /// Instance that competes with `earlier`, the instance that ran before it.
    pub fn after(self, earlier: Option<Arc<Ready>>) -> Ready {
        Ready { earlier, ..self }
    }

    /// Instance that ran before this one, and has been faster than two runs of this one.
    pub fn disappoints(&self) -> Option<&Arc<Ready>> {
        if self.times.runs.load(Relaxed) < 2 {
            return None;
        }
        let own = self.times.fastest()?;
        self.earlier.as_ref().filter(|r| r.times.fastest().is_some_and(|ns| (ns as f64) < own as f64 * MARGIN))
    }

    /// This instance, or the one that ran before it: the one with the fastest run; `None` if none was timed.
    pub fn fastest_so_far(self: &Arc<Ready>) -> Option<Arc<Ready>> {
        let both = [Some(self), self.earlier.as_ref()].into_iter().flatten();
        let timed = both.filter_map(|r| Some((r.times.fastest()?, r)));
        timed.min_by_key(|(ns, _)| *ns).map(|(_, r)| r.clone())
    }

    /// Dependences of each result; `ops` are the operations of the segment, `inputs` the number of its inputs.
    pub fn reach(&self, ops: &[RelOp], inputs: usize, shape: &dyn Fn(Arg) -> Shape) -> &Arc<Reach> {
        self.reach.get_or_init(|| Arc::new(Reach::new(&self.plan, &self.instance, ops, inputs, shape)))
    }

    /// Whether the plan store must be asked before the instance runs.
    #[inline]
    pub fn is_outdated(&self) -> bool {
        self.outdated.load(Relaxed)
    }

    /// Makes later runs ask the plan store.
    pub fn outdate(&self) {
        self.outdated.store(true, Relaxed);
    }

    /// Whether the instance runs only until a search has found a plan.
    pub fn is_provisional(&self) -> bool {
        self.tier.number() == 0
    }

    /// Alternative plans for the same segment, instantiated, with their predicted times. `ns` are the nanoseconds of each
    /// launch, if they were timed: what is learned from them counts in the predictions.
    pub fn others(&self, device: DeviceRef, segment: Segment<'_>, ns: &[u64]) -> Named<Ready> {
        let footprint = footprint(&segment);
        corrections::learn(device, &self.instance, footprint, ns);
        let costs = costs(device);
        let own = self.instance.time(&costs, footprint);
        // Compiling for a GPU takes long, so that what the model predicts to be slower is not compiled.
        let worth = if device.device().throughput().is_some() { WORTH_COMPILING } else { WORTH_TRYING };
        let alternative = |ready: Arc<Ready>, predicted| Alternative { known: ready.times.fastest(), ready, predicted };
        let instantiated = |plan: Plan| {
            let instance = instantiate(&plan, segment, &self.classes)?;
            let time = instance.time(&costs, footprint);
            // Nor is what takes far more memory, which may not be there.
            let small = instance.footprint() <= MAX_MEMORY * self.instance.footprint() + SPARE_MEMORY;
            (small && time as f64 <= own as f64 * worth).then_some(())?;
            let ready = self.instantiated(device, segment, plan, instance)?.predicted_to_take(time);
            Some(alternative(Arc::new(ready), time))
        };
        // The plan that ran before is always a candidate.
        let earlier = self.earlier.iter().filter(|r| Arc::ptr_eq(&r.classes, &self.classes) && r.plan != self.plan);
        let earlier: Vec<_> = earlier.map(|r| alternative(r.clone(), r.instance.time(&costs, footprint))).collect();
        let room = MAX_ALTERNATIVES - earlier.len();
        let named = || {
            let new = |plan: &Plan| earlier.iter().all(|a| *a.ready.plan != *plan);
            let others = alternatives(segment, &costs, &self.plan, room).into_iter().filter(new);
            let others: Vec<_> = others.filter_map(instantiated).collect();
            earlier.into_iter().chain(others).collect()
        };
        // The current plan stays valid: a defect here is reported, and nothing is tried.
        let others = defect::caught("naming other plans", device, &segment, named).unwrap_or_default();
        Named { own, known: self.times.fastest(), others }
    }

    /// Plan that measuring has found so far, starting from the plan `own` of a segment, and the number of competitions
    /// that led to it.
    pub fn measured(own: &Arc<Ready>) -> (Arc<Ready>, usize) {
        let (mut ready, mut competitions) = (own, 0);
        while let Some(winner) = ready.autotuning.winner() {
            (ready, competitions) = (winner, competitions + 1);
        }
        (ready.clone(), competitions)
    }

    /// Learns from the competition of this plan, which is over, and saves the winner: as the preferred plan of its class,
    /// and on disk. The winner competes again where its own kernels changed what the model predicts. `own` is the
    /// segment's plan before any competition.
    pub fn keep_best(self: &Arc<Ready>, device: DeviceRef, segment: Segment<'_>, own: &Arc<Ready>) {
        let again = self.learn(device, footprint(&segment));
        let winner = self.autotuning.winner();
        if let Some(winner) = winner
            && (!again || Ready::measured(own).1 > MAX_COMPETITIONS)
        {
            winner.autotuning.close();
        }
        let best = winner.unwrap_or(self);
        self.plans.prefer(&best.plan);
        let class = SegmentClass::of(&segment);
        let (costs, effort) = (costs(device), effort());
        let asked =
            Asked { device, segment, costs: &costs, effort, classes: &best.classes, class: Some(&class), parts: None };
        saved::save_measured(asked, &best.plan);
    }

    /// Learns from the launches of the plans that competed, this one among them. Returns whether the winner's kernels
    /// changed what the model predicts, so that other plans of the segment are worth another competition.
    fn learn(&self, device: DeviceRef, footprint: u64) -> bool {
        let winner = self.autotuning.winner();
        let mut again = false;
        for (ready, ns) in self.autotuning.launch_times() {
            let runs = ready.as_deref().unwrap_or(self);
            let changed = corrections::learn(device, &runs.instance, footprint, &ns);
            again |= changed && winner.is_some_and(|w| std::ptr::eq(&**w, runs));
        }
        again
    }

    /// Plan for the same segment with low peak memory at any cost in time: unfused. `None` if the segment is unfused
    /// already.
    pub fn lean(&self, device: DeviceRef, segment: Segment<'_>) -> Option<Arc<Ready>> {
        let apart = Segment { mode: thalweg_fusion::Mode { fused: false, ..segment.mode }, ..segment };
        if !segment.mode.fused {
            return None;
        }
        let planned = || {
            let plan = thalweg_fusion::plan(apart, &costs(device), effort()).ok()?.plan;
            let instance = instantiate(&plan, segment, &self.classes)?;
            Some(Arc::new(self.instantiated(device, segment, plan, instance)?))
        };
        // Without such a plan the run ends with the out-of-memory error.
        defect::caught("planning for little memory", device, &apart, planned).ok().flatten()
    }

    /// Compiled instance of another plan for the same segment.
    fn instantiated(&self, device: DeviceRef, segment: Segment<'_>, plan: Plan, instance: Instance) -> Option<Ready> {
        let programs = prepare(device, &segment, &instance);
        let of_class = (Arc::new(plan), self.plans.clone(), self.classes.clone());
        Some(Ready::new(of_class, instance, programs.ok()?))
    }
}

impl Ready {
    /// Memory traffic of the launch of a step; `in_place`: an output reuses an input's memory.
    pub fn moved(&self, step: usize, in_place: bool) -> Moved {
        let steps = self.traffic.0.get_or_init(|| self.programs.iter().map(|_| Default::default()).collect());
        *steps[step][in_place as usize]
            .get_or_init(|| self.programs[step].moves(&self.instance.steps[step].geometry, in_place))
    }

    /// Instance and schedule to run on `device`, where the segment alone holds `own` bytes of each input. It is this
    /// instance, or the `lean` plan if the device's limit leaves too little even with recomputation.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the lean plan does not fit either.
    pub fn schedule(
        self: &Arc<Ready>,
        device: DeviceRef,
        own: &[usize],
        lean: impl FnOnce() -> Option<Arc<Ready>>,
    ) -> Result<(Arc<Ready>, Arc<Numbered>), Error> {
        let usual = self.usual(own);
        let memory = device.device().memory();
        let Some(limit) = memory.limit else { return Ok((self.clone(), usual)) };
        let room = limit.saturating_sub(memory.in_use);
        if usual.peak <= room {
            return Ok((self.clone(), usual));
        }
        let least = match self.within(device, own, room) {
            Ok(schedule) => return Ok((self.clone(), schedule)),
            Err(least) => least,
        };
        let lean = self.memory.lean.get_or_init(lean);
        let lean = lean.as_ref().map(|r| (r, r.within(device, own, room)));
        match lean {
            Some((ready, Ok(schedule))) => Ok((ready.clone(), schedule)),
            other => Err(Error::OutOfMemory {
                requested: other.and_then(|o| o.1.err()).map_or(least, |l| l.min(least)),
                in_use: memory.in_use,
                limit: Some(limit),
                device: device.device().name().to_string(),
            }),
        }
    }

    /// Schedule without a memory limit.
    fn usual(&self, own: &[usize]) -> Arc<Numbered> {
        let rereads = |step: usize, operand: usize| self.programs[step].rereads_for(operand);
        let temporary = |step: usize| self.programs[step].temporary(&self.instance.steps[step].geometry);
        let needs = Needs { own, rereads: &rereads, temporary: &temporary, granted };
        let fits = |m: &CachedSchedule| m.room.is_none() && *m.own == *own;
        let made = || {
            Ok(CachedSchedule {
                own: own.into(),
                room: None,
                schedule: Numbered::new(schedule(&self.instance, &needs)),
            })
        };
        let never: Result<_, usize> = self.memory.schedules.find(fits, made);
        never.expect("one that holds what it likes is always found")
    }

    /// Schedule whose peak is at most `room` bytes, or the least peak that is possible.
    fn within(&self, device: DeviceRef, own: &[usize], room: usize) -> Result<Arc<Numbered>, usize> {
        let rereads = |step: usize, operand: usize| self.programs[step].rereads_for(operand);
        let temporary = |step: usize| self.programs[step].temporary(&self.instance.steps[step].geometry);
        let needs = Needs { own, rereads: &rereads, temporary: &temporary, granted };
        // A schedule made for a limit up to an eighth lower is reused.
        let fits = |m: &CachedSchedule| {
            m.schedule.peak <= room && m.room.is_some_and(|r| r >= room - room / 8) && *m.own == *own
        };
        self.memory.schedules.find(fits, || {
            let (costs, footprint) = (costs(device), self.instance.footprint());
            let times: Vec<u64> =
                self.instance.steps.iter().map(|s| costs.time(&self.instance.features(s, &costs), footprint)).collect();
            let s = schedule_within(&self.instance, &needs, room, &|step| times[step])?;
            Ok(CachedSchedule { own: own.into(), room: Some(room), schedule: Numbered::new(s) })
        })
    }
}
