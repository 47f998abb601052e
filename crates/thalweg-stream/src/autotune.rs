//! Measured decisions: a plan that runs often is held against others on the device, by running.
//!
//! In: a plan instantiated for sizes, and the runs of its segment. Once it has run for long enough, the planner names
//! other plans for the same segment. From then on the runs take turns between them, so each is timed as it really is:
//! with the real buffers, what is in the caches from before, memory taken over in place. Every run gives right results,
//! so a trial costs only what a slower plan takes longer. Out: the plan that runs from then on.
//!
//! Always true: planning and what slower plans took longer stay below a share of all time that the segment has run (5 %
//! unless set otherwise). A plan wins only if it is faster by more than 3 % in the median and in the lower quartile;
//! one that has been faster in each of its runs is the one that runs meanwhile where nothing is tried. Where launches
//! run on their own, it is the device's clock that says so, some runs later: nobody waits for it. Results may differ in
//! the last bits between plans, as they do between fused and unfused; in strict mode they do not.

use crate::mode::measuring;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use thalweg_fusion::Candidate;
use thalweg_runtime::{Timing, count};

/// Runs of a segment that are counted before anything is decided.
const FIRST_RUNS: u64 = 8;
/// A segment that takes less is not worth measuring: the clock and the launches around it are as long.
const SHORTEST_NS: u64 = 20_000;
/// Nanoseconds that naming other plans is reckoned to take, each ten operations.
const NAMING_NS: u64 = 500_000;
/// The same where naming them compiles kernels for a GPU.
const NAMING_ON_GPU_NS: u64 = 200_000_000;
/// One of so many runs is timed while a plan on a GPU has not run for long enough: events in its queue are not for
/// nothing.
const SAMPLE: u64 = 32;
/// And one of so many asks the device whether it has come to the end of timed ones.
const ASK: u64 = 8;
/// Runs whose time the device has not told yet; beyond, the next ones are not timed.
const MOST_WAITING: usize = 64;
/// Plans held against the one that is there.
pub(crate) const MOST_OTHERS: usize = 4;
/// Timed runs of each plan, after one that is not counted.
const ROUNDS: usize = 9;
/// A plan slower by more than this is given up after three.
const GIVE_UP: f64 = 1.15;
/// What a plan must be faster by.
const MARGIN: f64 = 0.97;

/// The autotuning of one plan. `P` is what runs: a plan with its programs.
pub(crate) struct Autotuning<P> {
    /// Nothing more to do: the plan stays, or `winner` runs.
    decided: AtomicBool,
    winner: OnceLock<Arc<P>>,
    course: Mutex<Course<P>>,
}

struct Course<P> {
    runs: u64,
    /// Nanoseconds of all runs.
    total: u64,
    /// Nanoseconds of naming other plans, and what they took longer.
    spent: u64,
    /// The plan itself first.
    tried: Vec<Tried<P>>,
    turn: usize,
    /// Runs that were not timed since one was.
    skipped: u64,
    /// Runs that the device has not come to the end of, in order.
    waiting: VecDeque<(Turn<P>, Arc<dyn Timing>)>,
}

struct Tried<P> {
    /// `None` for the plan itself.
    ready: Option<Arc<P>>,
    predicted: u64,
    warm: bool,
    ns: Vec<u64>,
    given_up: bool,
}

/// Whose turn it is.
pub(crate) struct Turn<P> {
    /// What to run in the plan's place.
    pub ready: Option<Arc<P>>,
    /// Whether its run may decide the autotuning.
    pub counts: bool,
    tried: usize,
    /// How many runs it stands for.
    runs: u64,
}

impl<P> Clone for Turn<P> {
    fn clone(&self) -> Turn<P> {
        Turn { ready: self.ready.clone(), ..*self }
    }
}

impl<P> Default for Course<P> {
    fn default() -> Course<P> {
        Course { runs: 0, total: 0, spent: 0, tried: vec![], turn: 0, skipped: 0, waiting: VecDeque::new() }
    }
}

impl<P> Default for Autotuning<P> {
    fn default() -> Autotuning<P> {
        Autotuning { decided: AtomicBool::new(false), winner: OnceLock::new(), course: Mutex::default() }
    }
}

impl<P> Autotuning<P> {
    /// A autotuning that is decided before it begins.
    pub fn decided() -> Autotuning<P> {
        Autotuning { decided: AtomicBool::new(true), ..Autotuning::default() }
    }

    /// Whether the plan has run often enough for more to be done about it.
    pub fn runs_often(&self) -> bool {
        self.decided.load(Relaxed) || self.locked().runs >= FIRST_RUNS
    }

    /// The plan that won, where it was another.
    pub fn winner(&self) -> Option<&Arc<P>> {
        self.winner.get()
    }

    /// Whose turn it is, if anything is still to be decided. `name` gives other plans, instantiated; with each its
    /// predicted picoseconds. `on_its_own`: the device's clock is asked, later.
    pub fn turn(&self, operations: usize, on_its_own: bool, name: impl FnOnce() -> Named<P>) -> Option<Turn<P>> {
        if self.decided.load(Relaxed) {
            return None;
        }
        let share = measuring()?;
        // Another thread that runs the same is not waited for.
        let mut c = self.course.try_lock().ok()?;
        if c.waiting.len() >= MOST_WAITING {
            return None;
        }
        let naming_ns = NAMING_NS * (1 + operations as u64 / 10) + if on_its_own { NAMING_ON_GPU_NS } else { 0 };
        if c.tried.is_empty() && !self.begin(&mut c, share, naming_ns, name) {
            c.skipped += 1;
            if on_its_own && c.runs >= FIRST_RUNS && c.skipped < SAMPLE {
                return None;
            }
            let runs = std::mem::take(&mut c.skipped);
            return Some(Turn { ready: None, counts: false, tried: 0, runs });
        }
        let tried = c.next(share);
        let ready = c.tried.get(tried).and_then(|t| t.ready.clone());
        Some(Turn { ready, counts: true, tried, runs: 1 })
    }

    /// Takes note of a turn whose time the device will tell.
    pub fn wait_for(&self, turn: Turn<P>, timing: Arc<dyn Timing>) {
        self.locked().waiting.push_back((turn, timing));
    }

    /// Notes the time of turns that the device has come to the end of meanwhile. Whether that decides the autotuning.
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
                // A device that fails says so to whoever reads.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        false
    }

    /// Names other plans once the segment has run long enough. Whether there are any.
    fn begin(&self, c: &mut Course<P>, share: f64, naming_ns: u64, name: impl FnOnce() -> Named<P>) -> bool {
        // Without a limit (the fuzzer asks for that) at once, whatever it takes.
        let at_once = share.is_infinite();
        if c.runs < FIRST_RUNS && !at_once {
            return false;
        }
        if !at_once && c.total / c.runs < SHORTEST_NS {
            self.decided.store(true, Relaxed);
            return false;
        }
        if !at_once && (c.total as f64 * share) < naming_ns as f64 {
            return false;
        }
        let begun = Instant::now();
        let named = name();
        c.spent += begun.elapsed().as_nanos() as u64;
        if named.others.is_empty() {
            self.decided.store(true, Relaxed);
            return false;
        }
        let tried = |ready, predicted, warm| Tried { ready, predicted, warm, ns: vec![], given_up: false };
        // The plan itself has run before.
        c.tried.push(tried(None, named.own, c.runs > 0));
        c.tried.extend(named.others.into_iter().map(|(r, ps)| tried(Some(r), ps, false)));
        true
    }

    /// Notes how many nanoseconds the run took that the turn was for. Whether that decides the autotuning.
    pub fn note(&self, turn: &Turn<P>, ns: u64) -> bool {
        self.note_in(&mut self.locked(), turn, ns)
    }

    fn note_in(&self, c: &mut Course<P>, turn: &Turn<P>, ns: u64) -> bool {
        c.runs += turn.runs;
        c.total += ns * turn.runs;
        if c.tried.is_empty() || self.decided.load(Relaxed) {
            return false;
        }
        let leader = c.leader();
        if turn.tried != leader {
            let usual = c.tried[leader].median().unwrap_or(c.total / c.runs);
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
            !t.given_up && below(t.median(), own.median()) && below(t.quartile(), own.quartile())
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

    /// What is known of the plans, for explanations; `own` is the one that the autotuning is about, and `facts` tells
    /// how many kernels one has, and spills.
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
                measured_ns: t.median().unwrap_or(0),
                runs: t.ns.len(),
                spills,
                chosen: chosen(t),
            }
        };
        c.tried.iter().map(candidate).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Course<P>> {
        // What a panic leaves is figures of runs: any are valid.
        self.course.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Other plans for a segment.
pub(crate) struct Named<P> {
    /// Predicted picoseconds of the plan itself.
    pub own: u64,
    /// The others, with theirs.
    pub others: Vec<(Arc<P>, u64)>,
}

impl<P> Tried<P> {
    /// Notes a run. While the budget allows no trials only the latest runs of the plan itself are kept.
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
}

impl<P> Course<P> {
    /// The next plan that is still in, if the budget allows it; else the leader.
    fn next(&mut self, share: f64) -> usize {
        let n = self.tried.len();
        let leader = self.leader();
        self.turn = (1..=n).map(|k| (self.turn + k) % n).find(|&k| !self.tried[k].given_up).unwrap_or(leader);
        let usual = self.tried[leader].median().unwrap_or(0);
        let longer = self.tried[self.turn].median().unwrap_or(usual).saturating_sub(usual);
        let allowed = share.is_infinite() || (self.spent + longer) as f64 <= self.total as f64 * share;
        if allowed { self.turn } else { leader }
    }

    /// The plan that runs where no other may: the one itself, until another has been faster than it in each of its
    /// runs, and in more than one.
    fn leader(&self) -> usize {
        let own = &self.tried[0];
        let ahead = |t: &Tried<P>| {
            let (slowest, fastest) = (t.ns.iter().max(), own.ns.iter().min());
            t.ns.len() > 1 && slowest.zip(fastest).is_some_and(|(a, b)| (*a as f64) < *b as f64 * MARGIN)
        };
        let others = (1..self.tried.len()).filter(|&k| !self.tried[k].given_up);
        let leads = others.filter(|&k| own.given_up || ahead(&self.tried[k]));
        // Of those that have not run yet nothing is known.
        leads.filter(|&k| !self.tried[k].ns.is_empty()).min_by_key(|&k| self.tried[k].median()).unwrap_or(0)
    }

    /// Gives up what is hopeless; whether everything has been measured that is to be.
    fn is_over(&mut self) -> bool {
        let best = self.tried.iter().filter(|t| t.ns.len() >= 3).filter_map(|t| t.median()).min();
        for t in self.tried.iter_mut().filter(|t| t.ns.len() >= 3) {
            t.given_up |= t.median().zip(best).is_some_and(|(m, b)| m as f64 > b as f64 * GIVE_UP);
        }
        let left = |t: &&Tried<P>| !t.given_up && t.ns.len() < ROUNDS;
        self.tried[1..].iter().all(|t| t.given_up) || !self.tried.iter().any(|t| left(&t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(ns: &[u64]) -> Tried<()> {
        Tried { ready: None, predicted: 0, warm: true, ns: ns.to_vec(), given_up: false }
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
    fn what_was_faster_each_time_runs_where_no_trial_is_allowed() {
        let all = |ns: &[u64]| vec![tried(&[100, 101]), tried(ns), tried(&[180])];
        let turns = |tried| {
            let mut c = Course { total: 100, tried, ..Course::default() };
            (0..3).map(|_| c.next(0.05)).collect::<Vec<_>>()
        };
        // Neither the plan itself nor the slowest one fits the budget beside a plan that takes half.
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
