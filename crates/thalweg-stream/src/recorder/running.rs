//! Running a recorded segment: by its known plan or a competing one, within the memory available.

use super::{Laid, Recorder, Wanted, view_of};
use crate::autotune::RunChoice;
use crate::calibration::watch;
use crate::cold_start::{CompetitionWork, compete};
use crate::defect;
use crate::deferred::deferring;
use crate::history::History;
use crate::mode::measuring;
use crate::ready::{Numbered, Ready, held_alone};
use crate::recognizer::CachedPlan;
use crate::report;
use crate::run::{self, Run, Timed};
use crate::saved::Origin;
use crate::store;
use crate::tier::{Tier, TierRun};
use crate::value::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_fusion::BitSet;
use thalweg_runtime::{Error, count};

impl Recorder {
    /// Runs the segment's planned results, by its own plan or by one that competes with it.
    pub(super) fn run(&mut self, wanted: Wanted) -> Result<(), Error> {
        if self.mode.reference {
            report::ran(|| TierRun { tier: Tier::Reference, operations: self.ops.len(), kernels: 0 });
            return run::interpret(&self.ops, &self.values, &self.live, &self.ints, &self.scalars, &self.inputs);
        }
        // Deferral follows from history and would give the segment another plan when it comes for the third time. So
        // reproducible modes do not defer.
        let watched = self.mode.fused && !self.mode.reproducible && deferring();
        let deferred = if watched { self.defer_results(wanted) } else { BitSet::default() };
        let left = self.decision.as_ref().is_some_and(|d| d.keep.left.count() > 0);
        if self.planned.count() == 0 && (deferred.count() > 0 || left) {
            return Ok(());
        }
        let (own, origin) = self.plan()?;
        let history = if watched { self.history() } else { None };
        let ready = if measuring().is_some() { Ready::measured(&own).0 } else { own.clone() };
        if ready.autotuning.collect() {
            let laid = self.laid_out();
            self.keep_best(&own, &ready, &laid);
        }
        // On a device with asynchronous launches the host's clock does not measure a run.
        let on_its_own = self.device.device().throughput().is_some();
        // Faster plan that ran before this one: it runs on while others are named, or searched for.
        let faster = ready.disappoints();
        let turn = ready.autotuning.turn(self.ops.len(), on_its_own, faster, |ns, waits| {
            let laid = self.laid_out();
            let segment = self.segment(&laid);
            let work = || CompetitionWork::begin(&ready, self.device, (self.mode, segment), ns.to_vec());
            let queued = !waits && compete(work());
            (!queued).then(|| ready.others(self.device, segment, ns))
        });
        let instead = match &turn {
            Some(turn) => turn.ready.as_ref(),
            None => faster.filter(|_| ready.is_provisional()),
        };
        let chosen = instead.unwrap_or(&ready);
        let found = self.schedule_any(chosen, [&own, &ready]);
        let runs = found.as_ref().map_or(chosen, |f| &f.0);
        let tier = match (Arc::ptr_eq(chosen, &ready), Arc::ptr_eq(&ready, &own)) {
            (false, _) if own.is_provisional() => chosen.tier,
            (false, _) => Tier::Competing,
            (true, false) => Tier::Measured,
            (true, true) => own.tier,
        };
        if tier == Tier::Measured {
            count(|c| c.autotuned_runs += 1);
        }
        report::ran(|| TierRun { tier, operations: self.ops.len(), kernels: runs.instance.steps.len() });
        let report = report::begin(|| {
            let laid = self.laid_out();
            let kept = (self.decision.as_ref().map(|d| &d.keep), self.again.as_slice());
            report::report(self.device, &self.segment(&laid), (runs, &own), origin == Origin::Search, &deferred, kept)
        });
        // Laid out now: inputs may be gone after the run.
        let laid = turn.as_ref().filter(|t| t.counts).map(|_| self.laid_out());
        let waits = watch::waits(self.device);
        let timed = match &turn {
            _ if report::is_timed() => Timed::Launches,
            Some(turn) if turn.launches => Timed::Launches,
            Some(_) if on_its_own => Timed::Batch,
            _ => Timed::No,
        };
        let is_timed = (turn.is_some() || ready.is_provisional() && measuring().is_some()) && !on_its_own;
        let clock = waits || is_timed;
        let (mut outcome, time) = self.launch(&found, history.as_ref(), timed, clock);
        if let Some(time) = time.filter(|_| is_timed && outcome.is_ok()) {
            runs.times.add(time);
        }
        // Neither a failed run says anything about the plan, nor a lean plan that ran for want of memory.
        if let (Some(turn), Ok(run)) = (&turn, &mut outcome)
            && Arc::ptr_eq(runs, chosen)
        {
            if turn.launches {
                let schedule = run.schedule.as_deref().expect("it ran");
                let mut ns = vec![0; runs.instance.steps.len()];
                schedule.launches.iter().zip(&run.ns).for_each(|(launch, own)| ns[launch.step] += own);
                ready.autotuning.note_launches(turn, &ns, || runs.predicted(self.device));
            }
            match (run.timing.take(), time) {
                (Some(timing), _) => ready.autotuning.wait_for(turn.clone(), timing),
                (None, Some(time)) if !on_its_own => self.note(&own, &ready, turn, (time, laid)),
                _ => {}
            }
        }
        report::end(report, runs, &outcome);
        if let Some(time) = time.filter(|_| waits) {
            watch::spent(self.device, time);
        }
        outcome.map(|_| ())
    }

    /// Plan for this segment, and its origin. It is the known plan if live-outs and sizes match and equal scalars are
    /// still equal, else one found or made now.
    fn plan(&mut self) -> Result<(Arc<Ready>, Origin), Error> {
        let known = self.recognizer.known();
        let at = known.iter().position(|k| k.live == self.planned);
        let at_hand = at.and_then(|at| match &known[at].last {
            Some((sizes, ready))
                if !ready.is_outdated() && **sizes == *self.sizes && ready.classes.hold(&self.scalars) =>
            {
                Some(ready.clone())
            }
            _ => None,
        });
        let (ready, origin) = match at_hand {
            Some(ready) => (ready, Origin::Memory),
            None => self.instantiate(at)?,
        };
        count(|c| c.plans_found += (origin == Origin::Memory) as u64);
        Ok((ready, origin))
    }

    /// Instance and schedule to run within the available memory: of the plan `chosen`, or of any that competes with
    /// these, which may take less.
    fn schedule_any(
        &mut self,
        chosen: &Arc<Ready>,
        [own, ready]: [&Arc<Ready>; 2],
    ) -> Result<(Arc<Ready>, Arc<Numbered>), Error> {
        let found = self.schedule(chosen);
        if !matches!(found, Err(Error::OutOfMemory { .. })) {
            return found;
        }
        let competing = [own, ready].into_iter().flat_map(|r| r.autotuning.other_candidates());
        let others = std::iter::once(own.clone()).chain(competing).filter(|other| !Arc::ptr_eq(other, chosen));
        others.collect::<Vec<_>>().iter().find_map(|other| self.schedule(other).ok()).map_or(found, Ok)
    }

    /// Instance and schedule to run within the available memory.
    fn schedule(&mut self, ready: &Arc<Ready>) -> Result<(Arc<Ready>, Arc<Numbered>), Error> {
        held_alone(&self.inputs, &mut self.own);
        let planned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ready.schedule(self.device, &self.own, || {
                let laid = self.laid_out();
                ready.lean(self.device, self.segment(&laid))
            })
        }));
        // Executed on every run, so the segment is laid out only where it is needed.
        planned.unwrap_or_else(|panic| {
            let laid = self.laid_out();
            let message = format!("the memory planner panicked: {}", defect::said(&*panic));
            Err(defect::error(message, Some((self.device, &self.segment(&laid)))))
        })
    }

    /// Runs the schedule. With `clock`, returns the time from before the first launch to the last resolved value;
    /// `None` without a schedule.
    fn launch(
        &mut self,
        found: &Result<(Arc<Ready>, Arc<Numbered>), Error>,
        history: Option<&Arc<History>>,
        timed: Timed,
        clock: bool,
    ) -> (Result<Run, Error>, Option<Duration>) {
        let (ready, schedule) = match found {
            Ok(found) => found,
            Err(error) => return (Err(error.clone()), None),
        };
        if !self.sites.is_empty() {
            // A clone of an input that others hold as well does not prevent in-place reuse.
            let shared = |v: &Arc<Value>| (v.dtype(), view_of(v), (Arc::strong_count(v) > 1).then(|| v.clone()));
            self.saved.extend(self.inputs.iter().flatten().map(shared));
        }
        let values = (self.values.as_slice(), history);
        let begin = clock.then(Instant::now);
        let (plan, what) = ((&**ready, schedule.clone()), (self.ops.as_slice(), self.sites.as_slice()));
        let outcome = run::run(plan, self.device, what, values, &mut self.inputs, &self.scalars, timed);
        (outcome, begin.map(|b| b.elapsed()))
    }

    /// Reports the time of a run to the autotuning of `ready`; saves the winner to disk if that decides it. `own` is the
    /// segment's plan before any autotuning.
    fn note(
        &self,
        own: &Arc<Ready>,
        ready: &Arc<Ready>,
        turn: &RunChoice<Ready>,
        (time, laid): (Duration, Option<Laid>),
    ) {
        let over = ready.autotuning.note(turn, time.as_nanos() as u64);
        if let Some(laid) = laid.filter(|_| over) {
            self.keep_best(own, ready, &laid);
        }
    }

    /// Learns from an autotuning that is over, and saves its winner: in the background, but with an unlimited budget at
    /// once, as plans are named.
    fn keep_best(&self, own: &Arc<Ready>, ready: &Arc<Ready>, laid: &Laid) {
        let segment = self.segment(laid);
        let at_once = measuring().is_some_and(f64::is_infinite);
        let work = || CompetitionWork::end(ready, self.device, (self.mode, segment), own);
        if at_once || !compete(work()) {
            ready.keep_best(self.device, segment, own);
        }
    }

    /// Runnable instance of the segment, from the plan store or made now, and the origin of its plan. It is stored at
    /// the recognizer's node; `at` is its index among the node's plans, if it exists.
    fn instantiate(&mut self, at: Option<usize>) -> Result<(Arc<Ready>, Origin), Error> {
        let laid = self.laid_out();
        let segment = self.segment(&laid);
        let entry = match at {
            Some(at) => self.recognizer.known_at(at).entry.clone(),
            None => {
                let met_otherwise = self.recognizer.was_run();
                store::entry(self.device, (self.mode, self.stream), &segment, met_otherwise)
            }
        };
        let (ready, origin) = entry.ready(self.device, segment, &self.sizes)?;
        let last = Some((self.sizes.as_slice().into(), ready.clone()));
        match at {
            Some(at) => self.recognizer.known()[at].last = last,
            None => self.recognizer.add(CachedPlan {
                live: self.planned.clone(),
                entry,
                history: History::new(self.ops.len()),
                last,
            }),
        }
        Ok((ready, origin))
    }
}
