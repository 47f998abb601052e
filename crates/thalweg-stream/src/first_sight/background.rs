//! Searches on another thread: plans of classes that have come again, with their programs.
//!
//! In: jobs, in the order in which classes come again. Out: what was found, handed to who asked: the plan store's entry. One
//! thread, begun with the first job; a job that finds no room is asked for again when its class comes again.
//!
//! Always true: a job holds no lock of who asked while it searches, and whatever becomes of it, who asked is told.

use crate::DeviceRef;
use crate::calibration::planning_costs;
use crate::defect;
use crate::mode::{Mode, set_effort, set_mode};
use crate::ready::prepare;
use crate::saved::{self, Asked, Origin};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;
use thalweg_fusion::{Effort, Instance, OwnedSegment, Plan, ScalarClasses, Segment, SegmentClass, instantiate};
use thalweg_runtime::{Counters, Error, Program, count, counters};

/// Jobs waiting; beyond, classes wait for another time.
const MOST: usize = 256;

/// Bytes of the thread's stack: a compiler that is not ours may run on it, and takes what a main thread has.
const STACK: usize = 8 << 20;

/// Who asks for a search.
pub(crate) trait Asks: Send + Sync {
    /// Takes what the search for a class has found, instantiated for these sizes with those scalars equal, and what it
    /// has cost.
    fn found(
        &self,
        class: &SegmentClass,
        at: (Box<[i64]>, Arc<ScalarClasses>),
        found: Result<Found, Error>,
        spent: Counters,
    );
}

/// A class of a pattern that is to be searched for, as the segment at hand.
pub(crate) struct Job {
    pub asks: Arc<dyn Asks>,
    pub device: DeviceRef,
    pub mode: Mode,
    pub effort: Effort,
    pub segment: OwnedSegment,
    pub sizes: Box<[i64]>,
    pub class: SegmentClass,
    pub classes: Arc<ScalarClasses>,
    /// The plan, where it is known and has but to be compiled for these sizes.
    pub plan: Option<Arc<Plan>>,
}

/// What a job found.
pub(crate) struct Found {
    pub plan: Plan,
    pub instance: Instance,
    pub programs: Vec<Arc<dyn Program>>,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// Whether the thread works on one.
    busy: bool,
    /// Whether there is a thread.
    begun: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), busy: false, begun: false });
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Asks for a search; whether it will be made.
pub(crate) fn search(job: Job) -> bool {
    job.device.device().compile_in_background();
    let mut queue = queue();
    if queue.jobs.len() >= MOST {
        return false;
    }
    if !queue.begun {
        let thread = std::thread::Builder::new().name("thalweg-planner".into()).stack_size(STACK).spawn(work);
        queue.begun = thread.is_ok();
    }
    if queue.begun {
        queue.jobs.push_back(job);
        CHANGED.notify_all();
    }
    queue.begun
}

/// Waits until no search is going on or waiting in the background. What ran before its plan was there runs by it from
/// the next time on.
pub fn finish_searches() {
    let mut queue = queue();
    while queue.busy || !queue.jobs.is_empty() {
        queue = CHANGED.wait(queue).unwrap_or_else(|e| e.into_inner());
    }
}

fn work() {
    loop {
        let mut waiting = queue();
        let job = loop {
            match waiting.jobs.pop_front() {
                Some(job) => break job,
                None => waiting = CHANGED.wait(waiting).unwrap_or_else(|e| e.into_inner()),
            }
        };
        waiting.busy = true;
        drop(waiting);
        // A defect must not leave those waiting who wait for the end of it.
        if catch_unwind(AssertUnwindSafe(|| done(job))).is_err() {
            tracing::error!("a search in the background panicked");
        }
        queue().busy = false;
        CHANGED.notify_all();
    }
}

fn done(job: Job) {
    set_mode(job.mode);
    set_effort(job.effort);
    let before = counters();
    let begin = Instant::now();
    let found = find(&job);
    count(|c| c.plan_ns += begin.elapsed().as_nanos() as u64);
    if let Err(error) = &found {
        // Whoever meets the class next searches for it, and is told.
        tracing::warn!(%error, operations = job.segment.ops.len(), "a search in the background failed");
    }
    let spent: Counters = counters() - before;
    job.asks.found(&job.class, (job.sizes, job.classes), found, spent);
}

fn find(job: &Job) -> Result<Found, Error> {
    let segment = job.segment.as_segment();
    let known =
        || job.plan.as_ref().and_then(|plan| Some(((**plan).clone(), instantiate(plan, segment, &job.classes)?)));
    let (plan, instance) = match defect::caught("the planner", job.device, &segment, known)? {
        Some(known) => known,
        None => planned(job, segment)?,
    };
    let programs = prepare(job.device, &segment, &instance)?;
    Ok(Found { plan, instance, programs })
}

fn planned(job: &Job, segment: Segment<'_>) -> Result<(Plan, Instance), Error> {
    let costs = planning_costs(job.device, job.mode);
    let class = (!job.mode.reproducible).then_some(&job.class);
    let asked = Asked { device: job.device, segment, costs: &costs, effort: job.effort, classes: &job.classes, class };
    let (plan, instance, origin) = defect::caught("the planner", job.device, &segment, || saved::plan(asked))??;
    count(|c| match origin {
        Origin::Search => c.plans_made += 1,
        _ => c.plans_loaded += 1,
    });
    Ok((plan, instance))
}
