//! Background searches: plans and programs for classes that have come again, and plans that compete with one that runs
//! often.
//!
//! In: jobs, in the order in which classes come again, or meet a plan on disk that takes long to load. Out: the plan
//! found, passed to the entry of the plan store that asked. Threads are started by jobs that find all busy: one for every four processors, up to four. A job that finds
//! the queue full is asked for again when its class comes again. The work of competitions ([`CompetitionWork`]) is done when no
//! job waits or runs, since the programs of other plans take the compiler's time.
//!
//! Always true: a search holds no lock of the entry that asked, and reports to that entry whatever happens.

use super::competition::CompetitionWork;
use super::further::search_on;
use super::job::{Job, STACK, SearchedPlan};
use super::parts::parts_of;
use crate::calibration::planning_costs;
use crate::defect;
use crate::mode::{set_effort, set_mode};
use crate::ready::{predicted, prepare};
use crate::saved::{self, Answer, Origin};
use crate::tunable::TUNABLES;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};
use std::time::Instant;
use thalweg_fusion::{AvailablePlans, Effort, Segment, instantiate, plan_of_turns, plan_with};
use thalweg_runtime::{Counters, Error, count, counters};

/// Maximum number of waiting jobs. Further classes request their search again when they occur again.
const MAX_WAITING_JOBS: usize = 256;

struct Queue {
    jobs: VecDeque<Job>,
    competitions: VecDeque<CompetitionWork>,
    /// Number of threads that are working, and of those that are searching.
    busy: usize,
    searching: usize,
    /// Number of threads.
    threads: usize,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { jobs: VecDeque::new(), competitions: VecDeque::new(), busy: 0, searching: 0, threads: 0 });
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Queues a search. Returns whether there was space for it.
pub(crate) fn search(job: Job) -> bool {
    job.device.device().compile_in_background();
    let mut queue = queue();
    let waiting = queue.jobs.len();
    let accepted = waiting < MAX_WAITING_JOBS && queue.begins(waiting + 1);
    if accepted {
        queue.jobs.push_back(job);
        CHANGED.notify_all();
    }
    accepted
}

/// Queues work of a competition. Returns whether there was space for it.
pub(crate) fn compete(work: CompetitionWork) -> bool {
    let mut queue = queue();
    let accepted = queue.competitions.len() < MAX_WAITING_JOBS && queue.begins(1);
    if accepted {
        queue.competitions.push_back(work);
        CHANGED.notify_all();
    }
    accepted
}

impl Queue {
    /// Starts a thread if fewer than `waiting` have nothing to do and there may be more. Returns whether there is one.
    fn begins(&mut self, waiting: usize) -> bool {
        if self.threads - self.busy < waiting && self.threads < max_threads() {
            let thread = std::thread::Builder::new().name("thalweg-planner".into()).stack_size(STACK).spawn(work);
            self.threads += usize::from(thread.is_ok());
        }
        self.threads > 0
    }

    /// Next work of a thread: the oldest job, else, while nobody searches, the oldest work of a competition.
    fn next(&mut self) -> Option<Task> {
        if let Some(job) = self.jobs.pop_front() {
            return Some(Task::Search(Box::new(job)));
        }
        let work = if self.searching == 0 { self.competitions.pop_front() } else { None };
        work.map(Task::Compete)
    }
}

/// Maximum number of threads. A search works on one, and leaves three quarters of the processors to the program.
fn max_threads() -> usize {
    static MAX: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| (n.get() / 4).clamp(1, 4)));
    *MAX
}

/// Unit of work of a thread.
enum Task {
    Search(Box<Job>),
    Compete(CompetitionWork),
}

/// Waits until no background search is running or waiting. A segment that ran before its plan was found runs by that
/// plan from the next time on.
pub fn finish_searches() {
    let mut queue = queue();
    while queue.busy > 0 || !queue.jobs.is_empty() || !queue.competitions.is_empty() {
        queue = CHANGED.wait(queue).unwrap_or_else(|e| e.into_inner());
    }
}

fn work() {
    loop {
        let mut waiting = queue();
        let task = loop {
            match waiting.next() {
                Some(task) => break task,
                None => waiting = CHANGED.wait(waiting).unwrap_or_else(|e| e.into_inner()),
            }
        };
        let searches = matches!(task, Task::Search(_));
        waiting.busy += 1;
        waiting.searching += usize::from(searches);
        drop(waiting);
        // A panic must not block the threads that wait for the queue to drain.
        let work = || match task {
            Task::Search(job) => done(*job),
            Task::Compete(work) => work.run(),
        };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("a search in the background panicked");
        }
        let mut queue = queue();
        queue.busy -= 1;
        queue.searching -= usize::from(searches);
        CHANGED.notify_all();
    }
}

fn done(job: Job) {
    set_mode(job.mode);
    set_effort(job.effort);
    let before = counters();
    let begin = Instant::now();
    if let Some(found) = quick(&job) {
        job.asks.meanwhile(&job.class, (job.sizes.clone(), job.classes.clone()), found);
    }
    let found = find(&job);
    count(|c| c.plan_ns += begin.elapsed().as_nanos() as u64);
    if let Err(error) = &found {
        // The next segment of the class repeats the search itself and gets the error.
        tracing::warn!(%error, operations = job.segment.ops.len(), "a search in the background failed");
    }
    let spent: Counters = counters() - before;
    let unfinished = found.as_ref().ok().filter(|f| f.unfinished).map(|f| Arc::new(f.plan.clone()));
    job.asks.found(&job.class, (job.sizes.clone(), job.classes.clone()), found, spent);
    if let Some(plan) = unfinished {
        search_on(Job { plan: Some(plan), ..job });
    }
}

/// Quick plan of a loop or of a large segment, whose search takes as long as many runs; `None` if there is a plan on disk.
fn quick(job: &Job) -> Option<SearchedPlan> {
    let segment = job.segment.as_segment();
    let costs = planning_costs(job.device, job.mode);
    let parts = parts_of(job.device, job.effort);
    let planned = || {
        let at_hand = AvailablePlans { parts: &parts, further: None };
        let is_large = TUNABLES.min_quick_operations.reached_by(segment.ops.len());
        let large = || is_large.then(|| plan_with(segment, &costs, Effort::Quick, Some(at_hand)).ok()).flatten();
        let planned = plan_of_turns(segment, &costs, at_hand).or_else(large)?;
        saved::count_search(&planned);
        let instance = instantiate(&planned.plan, segment, &job.classes)?;
        Some((planned.plan, instance))
    };
    // A panic here is reported by the full search.
    let asked = job.plan.is_none() && !segment.mode.compiles_long() && !saved::is_saved(job.asked(&costs, &parts));
    let (plan, instance) = defect::caught("the planner", job.device, &segment, || asked.then(planned)?).ok()??;
    let programs = prepare(job.device, &segment, &instance).ok()?;
    let predicted = predicted(job.device, &instance);
    Some(SearchedPlan { plan, instance, programs, predicted, origin: Origin::Search, unfinished: false })
}

fn find(job: &Job) -> Result<SearchedPlan, Error> {
    let segment = job.segment.as_segment();
    let known =
        || job.plan.as_ref().and_then(|plan| Some(((**plan).clone(), instantiate(plan, segment, &job.classes)?)));
    let Answer { plan, instance, origin, unfinished } =
        match defect::caught("the planner", job.device, &segment, known)? {
            Some((plan, instance)) => Answer { plan, instance, origin: Origin::Memory, unfinished: false },
            None => planned(job, segment)?,
        };
    let programs = prepare(job.device, &segment, &instance)?;
    let predicted = predicted(job.device, &instance);
    Ok(SearchedPlan { plan, instance, programs, predicted, origin, unfinished })
}

fn planned(job: &Job, segment: Segment<'_>) -> Result<Answer, Error> {
    let costs = planning_costs(job.device, job.mode);
    let parts = parts_of(job.device, job.effort);
    let asked = job.asked(&costs, &parts);
    let answer = defect::caught("the planner", job.device, &segment, || saved::plan(asked))??;
    count(|c| match answer.origin {
        Origin::Search => c.plans_made += 1,
        _ => c.plans_loaded += 1,
    });
    Ok(answer)
}
