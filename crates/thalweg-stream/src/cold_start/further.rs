//! Continued searches: plans whose search its budget ended, or that started from known partial plans, are searched once
//! more while they run. ../../../../docs/tiers.md ("Continued searches") has the idea.
//!
//! In: plans that run often, the newest of a class. Out: a plan with less predicted time and its compiled programs,
//! passed to the entry that asked. It has a thread of its own, so that classes without a plan do not wait for it.
//!
//! Always true: unless somebody waits for it to finish, the thread takes at most a fortieth of the machine's processor
//! time, and half of one core; it works for no plan that nobody holds.

use super::job::{Job, STACK, SearchedPlan};
use super::parts::parts_of;
use crate::calibration::planning_costs;
use crate::defect;
use crate::mode::{set_effort, set_mode};
use crate::ready::{predicted, prepare};
use crate::saved::{self, Origin};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_fusion::{AvailablePlans, Effort, Instance, footprint, instantiate, plan_with};
use thalweg_runtime::{Error, count, counters};

/// Maximum number of waiting plans; beyond, the oldest is dropped from the queue.
const MAX_WAITING_PLANS: usize = 64;
/// Maximum number of visits of a search, after which it is not continued any more.
const VISITS: u64 = 1_000_000;
/// Maximum time that the thread works without a break.
const WORK: Duration = Duration::from_millis(1);
/// Divisor of the processor time of the machine; the quotient is the maximum that the thread takes.
const DIVISOR: f64 = 40.0;
/// Interval at which waiting plans are checked for running often.
const LOOK: Duration = Duration::from_millis(200);

struct Queue {
    jobs: VecDeque<Job>,
    /// Whether the thread is working on a plan.
    busy: bool,
    /// Whether the thread exists.
    begun: bool,
    /// Number of threads waiting for the queue to drain.
    awaited: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), busy: false, begun: false, awaited: 0 });
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Queues the continued search for a plan (`job.plan`) that runs already. The job replaces an older one of the same
/// class.
pub(crate) fn search_on(job: Job) {
    let mut queue = queue();
    let same = |j: &Job| Arc::ptr_eq(&j.asks, &job.asks) && j.class == job.class;
    queue.jobs.retain(|j| !same(j));
    if queue.jobs.len() >= MAX_WAITING_PLANS {
        queue.jobs.pop_front();
    }
    if !queue.begun {
        let thread = std::thread::Builder::new().name("thalweg-further".into()).stack_size(STACK).spawn(work);
        queue.begun = thread.is_ok();
    }
    if queue.begun {
        queue.jobs.push_back(job);
        CHANGED.notify_all();
    }
}

/// Waits until no continued search is running or waiting; meanwhile these take no breaks. A segment for which a better
/// plan was found runs by that plan from the next time on.
pub fn finish_further_searches() {
    let mut queue = queue();
    queue.awaited += 1;
    CHANGED.notify_all();
    while queue.busy || !queue.jobs.is_empty() {
        queue = CHANGED.wait(queue).unwrap_or_else(|e| e.into_inner());
    }
    queue.awaited -= 1;
}

fn work() {
    loop {
        let job = next();
        let pace = Pace(Cell::new(Instant::now()));
        // A panic must not block the threads that wait for the queue to drain.
        if catch_unwind(AssertUnwindSafe(|| done(job, &pace))).is_err() {
            tracing::error!("a search that went on panicked");
        }
        pace.rest();
        queue().busy = false;
        CHANGED.notify_all();
    }
}

/// Takes the next job whose plan runs often, or any job if somebody waits for the queue to drain. Entries are asked
/// without the queue's lock, since they may be about to queue a job themselves.
fn next() -> Job {
    let mut waiting = queue();
    loop {
        if waiting.jobs.is_empty() {
            waiting = CHANGED.wait(waiting).unwrap_or_else(|e| e.into_inner());
            continue;
        }
        let asking: Vec<_> = waiting.jobs.iter().map(|j| (j.asks.clone(), j.sizes.clone())).collect();
        let all = waiting.awaited > 0;
        drop(waiting);
        let often = asking.iter().find(|(asks, sizes)| all || asks.runs_often(sizes));
        waiting = queue();
        let same = |j: &Job| often.is_some_and(|(asks, sizes)| Arc::ptr_eq(asks, &j.asks) && *sizes == j.sizes);
        let found = waiting.jobs.iter().position(same).and_then(|at| waiting.jobs.remove(at));
        if let Some(job) = found {
            waiting.busy = true;
            return job;
        }
        if waiting.awaited == 0 {
            waiting = CHANGED.wait_timeout(waiting, LOOK).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}

/// Length of a break on a machine with that many cores, as a multiple of the work before it.
fn break_after_work(cores: usize) -> f64 {
    (DIVISOR / cores as f64 - 1.0).max(1.0)
}

/// Pacing of the thread's work by breaks: holds the instant at which its last break ended.
struct Pace(Cell<Instant>);

impl Pace {
    /// Takes a break if the thread has worked long enough.
    fn keep(&self) {
        if self.0.get().elapsed() >= WORK {
            self.rest();
        }
    }

    /// Takes the break that is due for the work since the last one, unless a thread waits for the queue to drain.
    fn rest(&self) {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let until = Instant::now() + self.0.get().elapsed().mul_f64(break_after_work(cores));
        let mut queue = queue();
        while queue.awaited == 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = CHANGED.wait_timeout(queue, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        drop(queue);
        self.0.set(Instant::now());
    }
}

fn done(job: Job, pace: &Pace) {
    set_mode(job.mode);
    set_effort(job.effort);
    let before = counters();
    let begin = Instant::now();
    match better(&job, pace) {
        Ok(Some(found)) => {
            count(|c| c.plan_ns += begin.elapsed().as_nanos() as u64);
            let spent = counters() - before;
            job.asks.better(&job.class, (job.sizes, job.classes), found, spent);
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, operations = job.segment.ops.len(), "a search that went on failed"),
    }
}

/// Continues a search: returns a plan that is predicted to take less time than the current one.
fn better(job: &Job, pace: &Pace) -> Result<Option<SearchedPlan>, Error> {
    let segment = job.segment.as_segment();
    let Some(own) = &job.plan else { return Ok(None) };
    let go_on = || {
        pace.keep();
        // The job holds one reference itself; the plan store and recognizers hold the others.
        Arc::strong_count(&job.asks) > 1
    };
    let (costs, parts) = (planning_costs(job.device, job.mode), parts_of(job.device, job.effort));
    let at_hand = Some(AvailablePlans { parts: &parts, further: Some(&go_on) });
    let searched = || {
        let planned = plan_with(segment, &costs, Effort::Visits(VISITS), at_hand).ok()?;
        let time = |i: &Instance| i.time(&costs, footprint(&segment));
        let instance = instantiate(&planned.plan, segment, &job.classes)?;
        let before = instantiate(own, segment, &job.classes)?;
        let gains = planned.plan != **own && time(&instance) < time(&before);
        Some((planned, gains.then_some(instance)))
    };
    let Some((planned, instance)) = defect::caught("the planner", job.device, &segment, searched)? else {
        return Ok(None);
    };
    saved::count_search(&planned);
    let Some(instance) = instance else { return Ok(None) };
    saved::save_better(job.asked(&costs, &parts), &planned);
    pace.keep();
    let programs = prepare(job.device, &segment, &instance)?;
    let predicted = predicted(job.device, &instance);
    let origin = Origin::Search;
    Ok(Some(SearchedPlan { plan: planned.plan, instance, programs, predicted, origin, unfinished: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worked(pace: &Pace, long: Duration) -> Duration {
        let begin = Instant::now();
        while begin.elapsed() < long {
            std::hint::spin_loop();
        }
        let rested = Instant::now();
        pace.keep();
        rested.elapsed()
    }

    #[test]
    fn the_thread_takes_a_fortieth_of_the_machine_and_half_of_a_core() {
        let pace = Pace(Cell::new(Instant::now()));
        let worked_for = [WORK, 3 * WORK].map(|long| (long, worked(&pace, long)));
        assert!(worked_for.iter().all(|(long, rested)| rested >= long), "{worked_for:?}");
        assert_eq!([1, 2, 4, 8, 16, 64].map(break_after_work), [39.0, 19.0, 9.0, 4.0, 1.5, 1.0]);
    }
}
