//! Checks of a program under other conditions: with a history, by other plans, on other threads, with little memory,
//! and as in a new process.

use super::{Checker, Drops, FAST, STRICT};
use crate::program::{Argument, Program, Tensor};
use crate::tuning;
use std::sync::Arc;
use thalweg_fusion::{Costs, Effort};
use thalweg_runtime::{Counters, Error, counters};
use thalweg_stream::{
    DeviceRef, Mode, Operand, Value, clear_plans, costs, record, set_costs, set_deferring, set_effort, set_measuring,
    set_mode,
};

impl Checker {
    /// Checks that values dropped unread three times have the same bits when they are read the fourth time, though they
    /// are deferred by then.
    pub(super) fn unread(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        let fail = |e: Error| format!("unread: {e}");
        let old = set_mode(STRICT);
        let mut read = vec![];
        let mut run = |turn: usize| -> Result<(), Error> {
            let values = self.record(self.device, program, Drops::Early, false)?;
            let Some(first) = values.iter().flatten().next() else { return Ok(()) };
            let mut got = vec![None; values.len()];
            first.read()?;
            for (to, value) in got.iter_mut().zip(&values).filter(|_| turn == 3) {
                *to = value.as_ref().map(|v| v.read()).transpose()?;
            }
            if turn == 3 {
                read = got;
            }
            Ok(())
        };
        let outcome = (0..4).try_for_each(&mut run);
        set_mode(old);
        outcome.map_err(fail)?;
        if read.is_empty() { Ok(()) } else { self.equal(program, &read, want, "dropped unread before") }
    }

    /// Checks other plans: the first legal one, those of a short and a long search, and each candidate of autotuning.
    pub(super) fn other_plans(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        for effort in [Effort::None, Effort::Visits(60), Effort::Full] {
            // The check runs on a new thread, which has no plans yet.
            let run = || {
                set_effort(effort);
                self.run(program, STRICT, Drops::Early, false)
            };
            let got = std::thread::scope(|s| s.spawn(run).join()).map_err(|_| "a thread panicked".to_string())?;
            let what = format!("planned with {effort:?}");
            self.equal(program, &got.map_err(|e| format!("{what}: {e}"))?, want, &what)?;
        }
        let share = set_measuring(Some(f64::INFINITY));
        let mut outcome = Ok(());
        // The plan itself and up to six others.
        for n in 0..8 {
            let got = self.run(program, STRICT, Drops::Early, false).map_err(|e| format!("by plan {n}: {e}"));
            outcome = outcome.and_then(|()| self.equal(program, &got?, want, &format!("by plan {n}")));
        }
        set_measuring(share);
        outcome
    }

    /// Checks the reproducible mode: the same bits in each of several calls, on a thread with other plans, on many
    /// threads, and whatever was measured of the device; no plans compete.
    pub(super) fn reproducible(&self, program: &Program) -> Result<(), String> {
        let mode = Mode { reproducible: true, ..FAST };
        let again = |device: DeviceRef, share: Option<f64>| {
            let run = || {
                set_measuring(share);
                (0..4)
                    .map(|_| self.run_on(device, program, mode, Drops::Early, false))
                    .collect::<Result<Vec<_>, Error>>()
            };
            std::thread::scope(|s| s.spawn(run).join())
                .map_err(|_| "a thread panicked".to_string())?
                .map_err(|e| format!("reproducible: {e}"))
        };
        let before = counters();
        let first = again(self.device, None)?;
        let costs = (*costs(self.device)).clone();
        set_costs(self.device, Costs { launch: costs.launch * 100.0, ..costs.clone() });
        let other = again(self.device, Some(f64::INFINITY));
        set_costs(self.device, costs);
        let threaded = again(self.threaded, None)?;
        let moved = counters() - before;
        if moved.autotuned + moved.values_deferred > 0 {
            return Err("reproducible: plans compete, or results are deferred".into());
        }
        for (n, got) in first.iter().chain(&other?).chain(&threaded).enumerate() {
            self.equal(program, got, &first[0], &format!("reproducible, call {n}"))?;
        }
        Ok(())
    }

    /// Checks that values are the same when inputs and results are passed between threads.
    pub(super) fn on_another_thread(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let there = std::thread::scope(|s| {
            let recorded = s.spawn(|| {
                let old = set_mode(STRICT);
                let out = self.record_pending(program);
                set_mode(old);
                out
            });
            recorded.join().expect("recording does not panic")
        });
        let read: Result<Vec<_>, Error> = there
            .map_err(|e| format!("another thread: {e}"))?
            .iter()
            .map(|v| v.as_ref().map(|v| v.read()).transpose())
            .collect();
        self.equal(program, &read.map_err(|e| format!("read elsewhere: {e}"))?, unfused, "on another thread")
    }

    /// Checks the program under memory limits of one to five quarters of the peak of an unlimited run: the values must
    /// be the same. Below five quarters the program may run out of memory. With five quarters it must fit: the planned
    /// peak is an upper bound.
    ///
    /// The run with five quarters defers nothing. With deferral, results that a failed run did not read are deferred to
    /// the next run, which then plans other segments.
    pub(super) fn within_limits(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        let deferring = set_deferring(false);
        let done = self.within_quarters(program, want, 5);
        set_deferring(deferring);
        done?;
        self.within_quarters(program, want, 4)
    }

    /// Checks the program with memory limited to 1 to `most` quarters of the peak of an unlimited run.
    fn within_quarters(&self, program: &Program, want: &[Option<Vec<u8>>], most: usize) -> Result<(), String> {
        let device = self.device.device();
        let before = device.memory().in_use;
        device.reset_peak();
        self.run(program, STRICT, Drops::Early, false).map_err(|e| format!("without a limit: {e}"))?;
        let rise = device.memory().peak - before;
        for quarters in 1..=most {
            let limit = rise * quarters / 4;
            device.set_memory_limit(Some(before + limit));
            device.reset_peak();
            let got = self.run(program, STRICT, Drops::Early, false);
            device.set_memory_limit(None);
            let peak = device.memory().peak - before;
            if peak > limit {
                return Err(format!("{peak} bytes in use, {limit} of {rise} allowed"));
            }
            match got {
                Ok(got) => self.equal(program, &got, want, &format!("in {quarters} quarters of the memory"))?,
                Err(Error::OutOfMemory { .. }) if quarters < 5 => {}
                Err(Error::Failed(why)) if quarters < 5 && matches!(*why, Error::OutOfMemory { .. }) => {}
                Err(e) => return Err(format!("in {quarters} quarters of {rise} bytes: {e}")),
            }
        }
        Ok(())
    }

    /// Checks the program as in a new process: no plan in memory, and on disk none, its own, or an altered one.
    pub(super) fn as_a_new_process(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let fresh = |what: &str| -> Result<Counters, String> {
            clear_plans();
            let run = || {
                let before = counters();
                let values = self.run(program, STRICT, Drops::Early, false).map_err(|e| format!("{what}: {e}"))?;
                self.equal(program, &values, unfused, what)?;
                Ok(counters() - before)
            };
            std::thread::scope(|s| s.spawn(run).join().unwrap_or_else(|_| Err(format!("{what}: panicked"))))
        };
        disk.clear();
        let first = fresh("with nothing on disk")?;
        let second = fresh("with a plan from disk")?;
        if tuning::keeps_plans() && (second.plans_made, second.plans_loaded) != (0, first.plans_made) {
            return Err(format!("{} plans made at first, then {} loaded", first.plans_made, second.plans_loaded));
        }
        for turn in 0..3 {
            disk.disturb(turn);
            let third = fresh("with a disturbed plan from disk")?;
            if tuning::keeps_plans() && third.plans_made + third.plans_loaded != first.plans_made {
                return Err(format!("{} plans from disk or made, not {}", third.plans_loaded, first.plans_made));
            }
        }
        Ok(())
    }

    /// Like [`Checker::record`], but leaves all recorded operations pending.
    fn record_pending(&self, program: &Program) -> Result<Vec<Option<Arc<Value>>>, Error> {
        let inputs = self.upload(program, self.device)?;
        let mut values: Vec<Arc<Value>> = vec![];
        for step in &program.steps {
            let args: Vec<Operand<'_>> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Tensor(Tensor::Input(n)) => Operand::Value(&inputs[*n]),
                    Argument::Tensor(Tensor::Step(n)) => Operand::Value(&values[*n]),
                    Argument::Scalar(bits) => Operand::Scalar(*bits),
                })
                .collect();
            let value = record(self.device, step.op, step.dtype, step.shape, step.attr, &args, &step.ints);
            drop(args);
            values.push(value);
        }
        Ok(values.into_iter().zip(&program.steps).map(|(v, s)| s.kept.then_some(v)).collect())
    }
}
