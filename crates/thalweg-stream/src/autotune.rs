//! Autotuning: a plan that runs often competes with others in the program's own runs.
//!
//! In: a plan instantiated for sizes, and the runs of its segment. Once it has run for long enough, the planner names
//! other plans for the same segment. From then on runs alternate between them, so each is timed under real conditions:
//! real buffers, warm caches, memory reused in place. Every run gives correct results, so a trial costs only the extra
//! time of a slower plan. Out: the plan that runs from then on.
//!
//! Some runs time each launch: those that took longer than predicted correct the model (`corrections`) before other plans
//! are named.
//!
//! Always true: plans are named on a background thread, when that takes less than a fraction of the segment's total run
//! time (5 % unless set otherwise), and the extra time of slower ones stays below it. An advance lets both begin early: half of the run time so
//! far, at most [`ADVANCE_NS`] and once the time of naming. Where a plan takes far longer than predicted, others are named
//! at once, as where it takes longer than what ran before it; that runs meanwhile. A plan wins only if it is more than 3 % faster both in the median and in the lower
//! quartile. While the budget allows no trial, the leader runs: a plan that was faster in each of its runs. Where
//! launches are asynchronous the device's clock decides, some runs later; nobody waits for it. Results of different
//! plans may differ in the last bits, as fused and unfused ones do; in strict mode they do not.

use crate::mode::{DEFAULT_FRACTION, measuring};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use thalweg_fusion::Candidate;
use thalweg_runtime::{Timing, count};

/// Minimum number of runs of a segment before its autotuning begins.
const FIRST_RUNS: u64 = 8;
/// Minimum number of runs before autotuning begins whose plan takes far longer than predicted: by the factor `FAR_OFF`, and
/// more than `FAR_OFF_NS` nanoseconds. No budget is waited for: other plans are expected to be faster.
const FIRST_RUNS_FAR_OFF: u64 = 2;
const FAR_OFF: f64 = 6.0;
const FAR_OFF_NS: u64 = 300_000;
/// Minimum run time, in nanoseconds, at which measuring pays: shorter runs take about as long as reading the clock and
/// launching.
const SHORTEST_NS: u64 = 20_000;
/// Estimated time, in nanoseconds per ten operations, that the planner takes to find alternative plans.
const NAMING_NS: u64 = 500_000;
/// Additional nanoseconds where alternative plans must be compiled for a GPU.
const NAMING_ON_GPU_NS: u64 = 200_000_000;
/// Nanoseconds of extra time that trials may take before their fraction of the run time allows it. A first call has taken
/// longer, and what runs eight times mostly runs often.
const ADVANCE_NS: u64 = 20_000_000;
/// Sampling interval on a GPU: one run in this many is timed while the plan has not run for long enough, since events
/// in its queue have a cost.
const SAMPLE: u64 = 32;
/// Polling interval: one run in this many asks the device for finished timings.
const ASK: u64 = 8;
/// Maximum number of runs whose timings are pending. Beyond it, runs are not timed.
const MAX_PENDING_TIMINGS: usize = 64;
/// Maximum number of plans that compete with the current one.
pub(crate) const MAX_ALTERNATIVES: usize = 6;
/// Number of timed runs of each plan, after one warm-up run that is not counted.
const ROUNDS: usize = 9;
/// Maximum slowdown against the best median at which a plan still competes after three runs.
const GIVE_UP: f64 = 1.15;
/// Maximum slowdown against the fastest plan at which a plan still competes after its first run.
const GIVE_UP_AT_ONCE: f64 = 3.0;
/// Number of runs before the competition in which each launch is timed: on a device with asynchronous launches one, as
/// the host waits for it.
const LAUNCH_TIMINGS: u64 = 3;
/// Maximum ratio of times at which a plan counts as faster.
pub(crate) const MARGIN: f64 = 0.97;

/// Index of a plan that runs before it is named.
const NOT_NAMED: usize = usize::MAX;

/// State of the autotuning of one plan. `P` is a plan with its programs, ready to run.
pub(crate) struct Autotuning<P> {
    /// Whether the autotuning is finished: the plan stays, or `winner` runs instead.
    decided: AtomicBool,
    winner: OnceLock<Arc<P>>,
    course: Mutex<Course<P>>,
}

struct Course<P> {
    runs: u64,
    /// Total nanoseconds of all runs.
    total: u64,
    /// Nanoseconds of extra time of slower plans.
    spent: u64,
    /// Competing plans; the first is the current plan.
    tried: Vec<Tried<P>>,
    turn: usize,
    /// Number of runs since the last timed one.
    skipped: u64,
    /// Timed runs whose time the device has not reported yet, in order.
    waiting: VecDeque<(RunChoice<P>, Arc<dyn Timing>)>,
    /// Whether the plan takes far longer than predicted.
    far_off: bool,
    /// Whether other plans are being named in the background.
    naming: bool,
    /// Number of runs whose launches were timed before the competition.
    launch_timings: u64,
    /// Minimum nanoseconds of each launch of the current plan in these runs.
    launches: Vec<u64>,
}

struct Tried<P> {
    /// Plan that is ready to run; `None` for the current plan.
    ready: Option<Arc<P>>,
    predicted: u64,
    /// Least nanoseconds of its runs before the competition, if they were timed.
    known: Option<u64>,
    warm: bool,
    ns: Vec<u64>,
    /// Minimum nanoseconds of each launch; empty where launches are not timed.
    launches: Vec<u64>,
    given_up: bool,
}

/// Choice of the plan for one run.
pub(crate) struct RunChoice<P> {
    /// Plan to run instead of the current one.
    pub ready: Option<Arc<P>>,
    /// Whether this run may decide the autotuning.
    pub counts: bool,
    /// Whether each launch of this run is timed.
    pub launches: bool,
    tried: usize,
    /// Number of runs that the measured time stands for.
    runs: u64,
}

impl<P> Clone for RunChoice<P> {
    fn clone(&self) -> RunChoice<P> {
        RunChoice { ready: self.ready.clone(), ..*self }
    }
}

impl<P> Default for Course<P> {
    fn default() -> Course<P> {
        Course {
            runs: 0,
            total: 0,
            spent: 0,
            tried: vec![],
            turn: 0,
            skipped: 0,
            waiting: VecDeque::new(),
            far_off: false,
            naming: false,
            launch_timings: 0,
            launches: vec![],
        }
    }
}

impl<P> Default for Autotuning<P> {
    fn default() -> Autotuning<P> {
        Autotuning { decided: AtomicBool::new(false), winner: OnceLock::new(), course: Mutex::default() }
    }
}

impl<P> Autotuning<P> {
    /// Autotuning that is finished from the start.
    pub fn decided() -> Autotuning<P> {
        Autotuning { decided: AtomicBool::new(true), ..Autotuning::default() }
    }

    /// Whether the plan has run often enough to be worth further work.
    pub fn runs_often(&self) -> bool {
        self.decided.load(Relaxed) || self.locked().runs >= FIRST_RUNS
    }

    /// Winning plan; `None` if it is the current one, or there is none yet.
    pub fn winner(&self) -> Option<&Arc<P>> {
        self.winner.get()
    }

    /// Plan for the next run, if the autotuning is still open. `name` gets the nanoseconds of each launch, if they were
    /// timed, and whether the caller waits for the other plans, instantiated, with their predicted times in picoseconds.
    /// `None`: they are being named, and passed to [`Autotuning::named`] later. `on_its_own`: launches are asynchronous,
    /// and the device's clock is read later. `faster`: a plan that has been faster than this one, so that others are
    /// named at once.
    pub fn turn(
        &self,
        operations: usize,
        on_its_own: bool,
        faster: Option<&Arc<P>>,
        name: impl FnOnce(&[u64], bool) -> Option<Named<P>>,
    ) -> Option<RunChoice<P>> {
        if self.decided.load(Relaxed) {
            return None;
        }
        let share = measuring()?;
        // Another thread runs the same segment now: this run is not timed instead of waiting for it.
        let mut c = self.course.try_lock().ok()?;
        if c.waiting.len() >= MAX_PENDING_TIMINGS {
            return None;
        }
        let naming_ns = NAMING_NS * (1 + operations as u64 / 10) + if on_its_own { NAMING_ON_GPU_NS } else { 0 };
        if c.tried.is_empty() {
            let due = !c.naming && (faster.is_some() || c.is_due(share, naming_ns));
            let wanted = if on_its_own { 1 } else { LAUNCH_TIMINGS };
            // Where the host waits for these timings, not before the budget allows the competition.
            let timed = c.naming || c.launch_timings >= wanted;
            let launches = !timed && c.runs > 0 && !c.is_short() && (due || !on_its_own);
            if launches {
                c.launch_timings += 1;
            }
            if launches || !due || !self.begin(&mut c, share, name) {
                c.skipped += 1;
                if on_its_own && c.runs >= FIRST_RUNS && c.skipped < SAMPLE && !launches {
                    return None;
                }
                if let Some(faster) = faster.filter(|_| c.naming) {
                    let ready = Some(faster.clone());
                    return Some(RunChoice { ready, counts: false, launches: false, tried: NOT_NAMED, runs: 0 });
                }
                let runs = std::mem::take(&mut c.skipped);
                return Some(RunChoice { ready: None, counts: false, launches, tried: 0, runs });
            }
        }
        let tried = c.next(share);
        let ready = c.tried.get(tried).and_then(|t| t.ready.clone());
        Some(RunChoice { ready, counts: true, launches: !on_its_own, tried, runs: 1 })
    }

    /// Records the nanoseconds of each launch of a run, in the order of the plan's launches; `predicted` returns the
    /// picoseconds that were predicted for all.
    pub fn note_launches(&self, turn: &RunChoice<P>, ns: &[u64], predicted: impl FnOnce() -> u64) {
        let mut c = self.locked();
        let least = match c.tried.get_mut(turn.tried) {
            Some(t) => &mut t.launches,
            None => &mut c.launches,
        };
        if least.len() != ns.len() {
            *least = ns.to_vec();
        }
        least.iter_mut().zip(ns).for_each(|(least, &ns)| *least = (*least).min(ns));
        // In the faster of two runs at least: one may have been interrupted.
        let total = least.iter().sum::<u64>();
        if c.tried.is_empty() && !c.far_off && c.launch_timings > 1 && total > FAR_OFF_NS {
            c.far_off = total as f64 * 1e3 > predicted() as f64 * FAR_OFF;
        }
    }

    /// Plans that competed, `None` for the current one, each with the minimum nanoseconds of its launches, where they
    /// were timed.
    pub fn launch_times(&self) -> Vec<(Option<Arc<P>>, Vec<u64>)> {
        let c = self.locked();
        let timed = c.tried.iter().filter(|t| !t.launches.is_empty());
        timed.map(|t| (t.ready.clone(), t.launches.clone())).collect()
    }

    /// Plans that compete, or have competed, with the current one.
    pub fn other_candidates(&self) -> Vec<Arc<P>> {
        self.locked().tried.iter().filter_map(|t| t.ready.clone()).collect()
    }

    /// Ends the autotuning: the plan stays.
    pub fn close(&self) {
        self.decided.store(true, Relaxed);
    }

    /// Adds a run whose time the device reports later.
    pub fn wait_for(&self, turn: RunChoice<P>, timing: Arc<dyn Timing>) {
        self.locked().waiting.push_back((turn, timing));
    }

    /// Records the times that the device has reported meanwhile. Returns whether they decide the autotuning.
    pub fn collect(&self) -> bool {
        if self.decided.load(Relaxed) {
            return false;
        }
        let mut c = self.locked();
        if c.tried.is_empty() && c.runs >= FIRST_RUNS && !c.skipped.is_multiple_of(ASK) {
            return false;
        }
        while let Some((turn, timing)) = c.waiting.pop_front() {
            match timing.elapsed() {
                Ok(None) => {
                    c.waiting.push_front((turn, timing));
                    return false;
                }
                Ok(Some(ns)) if self.note_in(&mut c, &turn, ns) => {
                    c.waiting.clear();
                    return true;
                }
                // The error of a failed device is reported by whoever reads next.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        false
    }

    /// Has alternative plans named. Returns whether there are any now.
    fn begin(&self, c: &mut Course<P>, share: f64, name: impl FnOnce(&[u64], bool) -> Option<Named<P>>) -> bool {
        // With an unlimited budget, which the fuzzer sets, naming happens at once.
        let at_once = share.is_infinite();
        if !at_once && c.is_short() {
            self.close();
            return false;
        }
        match name(&c.launches, at_once) {
            Some(named) => self.compete(c, named),
            None => {
                c.naming = true;
                false
            }
        }
    }

    /// Receives alternative plans that were named in the background.
    pub fn named(&self, named: Named<P>) {
        let mut c = self.locked();
        c.naming = false;
        if c.tried.is_empty() && !self.decided.load(Relaxed) {
            self.compete(&mut c, named);
        }
    }

    /// Lets alternative plans compete with the current one. Without any, the autotuning is over. Returns whether there
    /// are any.
    fn compete(&self, c: &mut Course<P>, named: Named<P>) -> bool {
        if named.others.is_empty() {
            self.close();
            return false;
        }
        let tried = |ready, (predicted, known), warm| Tried {
            ready,
            predicted,
            known,
            warm,
            ns: vec![],
            launches: vec![],
            given_up: false,
        };
        // A plan needs no warm-up run if it has run before.
        let own = tried(None, (named.own, named.known), c.runs > 0);
        c.tried.push(Tried { launches: std::mem::take(&mut c.launches), ..own });
        let others = named.others.into_iter();
        c.tried.extend(others.map(|a| tried(Some(a.ready), (a.predicted, a.known), a.known.is_some())));
        true
    }

    /// Records the nanoseconds of a run. Returns whether that decides the autotuning.
    pub fn note(&self, turn: &RunChoice<P>, ns: u64) -> bool {
        self.note_in(&mut self.locked(), turn, ns)
    }

    fn note_in(&self, c: &mut Course<P>, turn: &RunChoice<P>, ns: u64) -> bool {
        c.runs += turn.runs;
        c.total += ns * turn.runs;
        if turn.tried >= c.tried.len() || self.decided.load(Relaxed) {
            return false;
        }
        let leader = c.leader();
        if turn.tried != leader {
            let usual = c.tried[leader].typical().unwrap_or(c.total / c.runs);
            c.spent += ns.saturating_sub(usual);
        }
        let t = &mut c.tried[turn.tried];
        if std::mem::replace(&mut t.warm, true) {
            t.add(ns);
        }
        let over = c.is_over();
        if over {
            self.decide(c);
        }
        over
    }

    fn decide(&self, c: &Course<P>) {
        let own = &c.tried[0];
        let faster = |t: &&Tried<P>| {
            let below = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| (a as f64) < b as f64 * MARGIN);
            !t.given_up && below(t.median(), own.typical()) && below(t.quartile(), own.quartile().or(own.known))
        };
        let best = c.tried[1..].iter().filter(faster).min_by_key(|t| t.median());
        if let Some(ready) = best.and_then(|t| t.ready.clone()) {
            let _ = self.winner.set(ready);
        }
        count(|k| {
            k.autotuned += 1;
            k.autotuned_replaced += best.is_some() as u64;
        });
        self.decided.store(true, Relaxed);
    }

    /// Measurements of the plans, for explanations. `own` is the plan that the autotuning is about; `facts` returns a
    /// plan's number of kernels and of spills.
    pub fn candidates(&self, own: &P, facts: impl Fn(&P) -> (usize, Option<usize>)) -> Vec<Candidate> {
        let c = self.locked();
        let winner = self.winner.get();
        let chosen = |t: &Tried<P>| match (&t.ready, winner) {
            (None, None) => self.decided.load(Relaxed),
            (Some(r), Some(w)) => Arc::ptr_eq(r, w),
            _ => false,
        };
        let candidate = |t: &Tried<P>| {
            let (kernels, spills) = facts(t.ready.as_deref().unwrap_or(own));
            Candidate {
                kernels,
                predicted_ns: t.predicted / 1000,
                measured_ns: t.typical().unwrap_or(0),
                runs: t.ns.len(),
                spills,
                chosen: chosen(t),
            }
        };
        c.tried.iter().map(candidate).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Course<P>> {
        // A panic leaves measurements of runs, all of which are valid.
        self.course.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Plans of one segment that compete in an autotuning.
pub(crate) struct Named<P> {
    /// Predicted picoseconds of the current plan.
    pub own: u64,
    /// Least nanoseconds of its runs so far, if they were timed.
    pub known: Option<u64>,
    /// Alternative plans.
    pub others: Vec<Alternative<P>>,
}

/// Plan that competes with the current one.
pub(crate) struct Alternative<P> {
    pub ready: Arc<P>,
    /// Predicted picoseconds.
    pub predicted: u64,
    /// Least nanoseconds of its runs so far, if it ran before and was timed.
    pub known: Option<u64>,
}

impl<P> Tried<P> {
    /// Records the time of a run. Drops the oldest times of a plan beyond twice the number of rounds: while the budget
    /// allows no trials, only the current plan adds times.
    fn add(&mut self, ns: u64) {
        if self.ns.len() >= 2 * ROUNDS {
            self.ns.drain(..ROUNDS);
        }
        self.ns.push(ns);
    }

    fn sorted(&self) -> Vec<u64> {
        let mut ns = self.ns.clone();
        ns.sort_unstable();
        ns
    }

    fn median(&self) -> Option<u64> {
        let ns = self.sorted();
        ns.get(ns.len() / 2).copied()
    }

    fn quartile(&self) -> Option<u64> {
        let ns = self.sorted();
        ns.get(ns.len() / 4).copied()
    }

    /// Typical nanoseconds: the median of its runs, else what is known from before.
    fn typical(&self) -> Option<u64> {
        self.median().or(self.known)
    }
}

impl<P> Course<P> {
    /// Whether runs are too short for measuring to pay.
    fn is_short(&self) -> bool {
        self.runs > 0 && self.total / self.runs < SHORTEST_NS
    }

    /// Whether the plan has run for long enough to name others: naming takes about `naming_ns`.
    fn is_due(&self, share: f64, naming_ns: u64) -> bool {
        let paid = || self.is_short() || self.allowance(share, naming_ns) >= naming_ns as f64;
        share.is_infinite() || self.far_off && self.runs >= FIRST_RUNS_FAR_OFF || self.runs >= FIRST_RUNS && paid()
    }

    /// Nanoseconds that may be spent: a fraction of the run time, and an advance, which is smaller with a smaller fraction
    /// than the default.
    fn allowance(&self, share: f64, advance: u64) -> f64 {
        let advance = (self.total / 2).min(advance) as f64 * (share / DEFAULT_FRACTION).min(1.0);
        self.total as f64 * share + advance
    }

    /// Advances to the next candidate that was not dropped; returns the index of the plan to run: that candidate if the
    /// budget allows a trial, else the leader.
    fn next(&mut self, share: f64) -> usize {
        let n = self.tried.len();
        let leader = self.leader();
        self.turn = (1..=n).map(|k| (self.turn + k) % n).find(|&k| !self.tried[k].given_up).unwrap_or(leader);
        let usual = self.tried[leader].typical().unwrap_or(0);
        let next = &self.tried[self.turn];
        // A plan without a run is expected to be as much slower as the model says.
        let slower = next.predicted as f64 / self.tried[leader].predicted.max(1) as f64;
        let expected = next.typical().unwrap_or((usual as f64 * slower) as u64);
        let longer = expected.saturating_sub(usual);
        // A trial that is expected to be no slower costs nothing, whatever was spent before.
        let free = longer == 0;
        let allowed = share.is_infinite() || free || (self.spent + longer) as f64 <= self.allowance(share, ADVANCE_NS);
        if allowed { self.turn } else { leader }
    }

    /// Index of the plan to run when no trial is allowed. It is the plan itself until another one has been faster than
    /// it in each of its runs, at least two.
    fn leader(&self) -> usize {
        let own = &self.tried[0];
        let ahead = |t: &Tried<P>| {
            let (slowest, fastest) = (t.ns.iter().max(), own.ns.iter().min());
            t.ns.len() > 1 && slowest.zip(fastest).is_some_and(|(a, b)| (*a as f64) < *b as f64 * MARGIN)
        };
        let others = (1..self.tried.len()).filter(|&k| !self.tried[k].given_up);
        let leads = others.filter(|&k| own.given_up || ahead(&self.tried[k]));
        // Candidates that have not run yet do not count.
        leads.filter(|&k| !self.tried[k].ns.is_empty()).min_by_key(|&k| self.tried[k].median()).unwrap_or(0)
    }

    /// Drops candidates that can no longer win. Returns whether all measurements are complete.
    fn is_over(&mut self) -> bool {
        // A single run may be slow by chance, but not several times as fast.
        let best = |runs: usize| {
            let measured = self.tried.iter().filter(|t| t.ns.len() >= runs);
            measured.filter_map(|t| t.typical()).min()
        };
        let (best, best_of_any) = (best(3), best(0));
        for t in self.tried.iter_mut() {
            let (best, most) = if t.ns.len() >= 3 { (best, GIVE_UP) } else { (best_of_any, GIVE_UP_AT_ONCE) };
            t.given_up |= t.typical().zip(best).is_some_and(|(m, b)| m as f64 > b as f64 * most);
        }
        let left = |t: &&Tried<P>| !t.given_up && t.ns.len() < ROUNDS;
        self.tried[1..].iter().all(|t| t.given_up) || !self.tried.iter().any(|t| left(&t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(ns: &[u64]) -> Tried<()> {
        Tried { ready: None, predicted: 0, known: None, warm: true, ns: ns.to_vec(), launches: vec![], given_up: false }
    }

    #[test]
    fn turns_go_round_while_the_budget_lasts() {
        let three = || vec![tried(&[100]), tried(&[101]), tried(&[180])];
        let mut c = Course { total: 100_000, tried: three(), ..Course::default() };
        assert_eq!((0..4).map(|_| c.next(0.05)).collect::<Vec<_>>(), [1, 2, 0, 1]);
        let mut poor = Course { total: 100, tried: three(), ..Course::default() };
        assert_eq!((0..4).map(|_| poor.next(0.05)).collect::<Vec<_>>(), [1, 0, 0, 1]);
    }

    #[test]
    fn an_advance_lets_trials_begin_early() {
        let mut c = Course { total: 100, tried: vec![tried(&[10]), tried(&[40])], ..Course::default() };
        assert_eq!(c.next(0.05), 1, "half of the time so far");
        c.spent = 30;
        assert_eq!((0..2).map(|_| c.next(0.05)).collect::<Vec<_>>(), [0, 0]);
        let mut long = Course { total: 1 << 30, spent: 50 * ADVANCE_NS, tried: c.tried, ..Course::default() };
        assert_eq!((0..2).map(|_| long.next(0.05)).collect::<Vec<_>>(), [0, 0], "an advance is spent once");
    }

    #[test]
    fn what_was_faster_each_time_runs_where_no_trial_is_allowed() {
        let all = |ns: &[u64]| vec![tried(&[100, 101]), tried(ns), tried(&[180])];
        let turns = |tried| {
            let mut c = Course { total: 10, tried, ..Course::default() };
            (0..3).map(|_| c.next(0.05)).collect::<Vec<_>>()
        };
        // Neither the plan itself nor the slowest one fits the budget beside a plan that takes half the time.
        assert_eq!(turns(all(&[50, 52])), [1, 1, 1]);
        assert_eq!(turns(all(&[50])), [1, 0, 0], "one run may be chance");
        assert_eq!(turns(all(&[50, 99])), [1, 0, 0]);
    }

    #[test]
    fn a_plan_that_is_hopeless_against_another_is_not_run_to_the_end() {
        let mut c = Course { tried: vec![tried(&[100; 3]), tried(&[50; 3])], ..Course::default() };
        assert!(!c.is_over(), "the faster one is measured on");
        assert!(c.tried[0].given_up);
        assert_eq!((c.leader(), c.next(0.0)), (1, 1));
        c.tried[1].ns = vec![50; 9];
        assert!(c.is_over());
    }

    #[test]
    fn what_is_hopeless_is_given_up_and_the_rest_measured_to_the_end() {
        let mut c = Course { tried: vec![tried(&[100; 9]), tried(&[150; 3]), tried(&[90; 9])], ..Course::default() };
        assert!(c.is_over());
        assert_eq!(c.tried.iter().map(|t| t.given_up).collect::<Vec<_>>(), [false, true, false]);
        let mut c = Course { tried: vec![tried(&[100; 9]), tried(&[98; 4])], ..Course::default() };
        assert!(!c.is_over());
    }
}
