//! One program, run in every way there is.

use crate::disk::Disk;
use crate::program::{Argument, Program, Tensor};
use crate::stability::Stability;
use crate::tolerance::Tolerance;
use crate::traffic::Differences;
use std::sync::Arc;
use thalweg_fusion::{Costs, Effort, Explanation};
use thalweg_ir::{DType, RelArg, RelOp, Scalar, ScanOp, ScatterOp, Shape};
use thalweg_kernel::reference::{self, Array, RefArg};
use thalweg_runtime::{Counters, Error, counters};
use thalweg_stream::{
    DeviceRef, MatmulPrecision, Mode, Operand, Value, clear_plans, costs, explain, record, set_costs, set_deferring,
    set_effort, set_measuring, set_mode, synchronize,
};

/// Runs programs on a device, and compares a second one with it.
pub struct Checker {
    device: DeviceRef,
    /// As the first, but with several threads at every launch.
    threaded: DeviceRef,
    gpu: bool,
    /// A device that compares what programs say they move with what its engine counts, and what did not agree.
    counted: Option<(DeviceRef, Differences)>,
    /// Where plans are kept for the next process, if that is to be checked.
    disk: Option<Disk>,
}

/// What takes longer than all else, and so is done to some programs only.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// On the second device too.
    pub threads: bool,
    /// By other plans too.
    pub plans: bool,
    /// With other scalars, too. Not where an index is computed from some.
    pub scalars: bool,
}

/// When handles are dropped that nobody asks for at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drops {
    /// Right after the last step that names them.
    Early,
    /// All at the end.
    Late,
    /// At a point that depends on the number given and the handle.
    Scattered(usize),
    /// Early, inputs too, and the stream is cut after every so many steps: what one segment leaves, views of one buffer
    /// among it, the next one reads and may write over.
    Cut(usize),
}

pub const STRICT: Mode =
    Mode { fused: true, strict: true, reproducible: false, reference: false, matmul: MatmulPrecision::Highest };
const UNFUSED: Mode =
    Mode { fused: false, strict: true, reproducible: false, reference: false, matmul: MatmulPrecision::Highest };
pub const FAST: Mode =
    Mode { fused: true, strict: false, reproducible: false, reference: false, matmul: MatmulPrecision::Highest };

/// Bytes measured for each byte predicted beyond which a plan is wrong about its kernel, and bytes of which nothing is
/// said: kernels of a few elements.
const MOST: usize = 8;
const FEW: usize = 16 << 10;

/// What the plan says that a kernel writes is no more than what the device says, and not much less. Of what it reads it
/// may be more: a device loads nothing that its simplified body does not need, such as the condition of a choice between equal
/// values.
fn predicted(explanation: &Explanation) -> Result<(), String> {
    let kernels = explanation.segments.iter().flat_map(|s| s.kernels.iter().map(move |k| (s, k)));
    for (n, (segment, kernel)) in kernels.enumerate() {
        // Of what ran twice the plan tells one run; what takes a dying input's place need not read it. Which elements an
        // index leads to is data.
        let named =
            |of: &'static [&str]| move |o: &usize| of.iter().any(|of| segment.operations[*o].name.starts_with(of));
        let by_index = named(&["gather", "scatter"]);
        // A sort or a scan reads again what it wrote to scratch; others what they wrote beyond their results: the buffers
        // of a row too long for the caches.
        let scratch = kernel.operations.iter().any(named(&["sort", "argsort", "cum", "logcum"]));
        let beyond = kernel.bytes_written_measured.saturating_sub(kernel.bytes_written);
        let again = if scratch { kernel.bytes_written } else { beyond };
        if kernel.launches != 1 || kernel.in_place > 0 || kernel.operations.iter().any(by_index) {
            continue;
        }
        for (what, planned, measured) in [
            ("reads", (kernel.bytes_read, again), kernel.bytes_read_measured),
            ("writes", (kernel.bytes_written, 0), kernel.bytes_written_measured),
        ] {
            let (planned, again) = planned;
            let least = if what == "writes" { planned } else { planned.saturating_sub(FEW) / 2 };
            if measured < least || measured > MOST * (planned + again) + FEW {
                return Err(format!(
                    "kernel {n}, {} over {}, {what} {planned} bytes by the plan, {measured} by the device\n{explanation}",
                    kernel.kind, kernel.domain
                ));
            }
        }
    }
    Ok(())
}

impl Checker {
    /// A checker for a device, and one that is to give the same bits on more threads.
    pub fn new(device: DeviceRef, threaded: DeviceRef) -> Checker {
        Checker { device, threaded, counted: None, disk: None, gpu: false }
    }

    /// A checker for a GPU. Its kernels have scratch memory that no plan knows, and compiling takes long: what is about
    /// the planner alone is left to the CPU.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(device: DeviceRef) -> Checker {
        Checker { gpu: true, ..Checker::new(device, device) }
    }

    /// Plans a program, also strictly if asked to, compiles and launches it; what comes of it, nobody looks at.
    #[cfg(feature = "cuda")]
    pub fn plan(&self, program: &Program, strictly: bool) -> Result<(), Error> {
        for &mode in &[FAST, STRICT][..1 + strictly as usize] {
            let old = set_mode(mode);
            let done = self.record(self.device, program, Drops::Early, false).and_then(|_| synchronize());
            set_mode(old);
            done?;
        }
        Ok(())
    }

    /// The same, which also runs programs on a device that counts what it loads and stores.
    pub fn with_counted(self, device: DeviceRef, differences: Differences) -> Checker {
        Checker { counted: Some((device, differences)), ..self }
    }

    /// The same, which also checks plans that come from disk.
    pub fn with_disk(self, disk: Disk) -> Checker {
        Checker { disk: Some(disk), ..self }
    }

    /// What [`Checker::with_counted`] compares, alone.
    #[cfg(all(test, feature = "emulate"))]
    pub fn counts(&self, program: &Program) -> Result<(), String> {
        let plain = self.run(program, STRICT, Drops::Early, false).map_err(|e| e.to_string())?;
        self.counted(program, &plain)
    }

    /// The first device.
    pub fn device(&self) -> DeviceRef {
        self.device
    }

    /// The inputs of a program, on the first device.
    pub fn inputs(&self, program: &Program) -> Result<Vec<Arc<Value>>, Error> {
        self.upload(program, self.device)
    }

    fn upload(&self, program: &Program, to: DeviceRef) -> Result<Vec<Arc<Value>>, Error> {
        let device = to.device();
        let put = |bytes: &[u8], shape: Shape, dtype| {
            let buffer = device.allocate(bytes.len())?;
            device.write(&buffer, bytes)?;
            Ok(Value::ready(to, buffer, shape, dtype))
        };
        program.inputs.iter().map(|i| put(&i.bytes, i.shape, i.dtype)).collect()
    }

    /// Records the steps, reads what is kept; the results' bytes by step.
    pub(crate) fn run(
        &self,
        program: &Program,
        mode: Mode,
        drops: Drops,
        all: bool,
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.run_on(self.device, program, mode, drops, all)
    }

    fn run_on(
        &self,
        device: DeviceRef,
        program: &Program,
        mode: Mode,
        drops: Drops,
        all: bool,
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let old = set_mode(mode);
        let values = self.record(device, program, drops, all).and_then(|v| synchronize().map(|()| v));
        let read = values.and_then(|values| values.iter().map(|v| v.as_ref().map(|v| v.read()).transpose()).collect());
        set_mode(old);
        read
    }

    fn record(
        &self,
        device: DeviceRef,
        program: &Program,
        drops: Drops,
        all: bool,
    ) -> Result<Vec<Option<Arc<Value>>>, Error> {
        let mut inputs: Vec<Option<Arc<Value>>> = self.upload(program, device)?.into_iter().map(Some).collect();
        let n = program.steps.len();
        let mut values: Vec<Option<Arc<Value>>> = vec![None; n];
        let (mut last, mut last_input) = (vec![0; n], vec![0; inputs.len()]);
        for (i, step) in program.steps.iter().enumerate() {
            last[i] = i;
            for a in &step.args {
                match a {
                    Argument::Tensor(Tensor::Step(s)) => last[*s] = i,
                    Argument::Tensor(Tensor::Input(s)) => last_input[*s] = i,
                    Argument::Scalar(_) => {}
                }
            }
        }
        for (i, step) in program.steps.iter().enumerate() {
            let args: Vec<Operand<'_>> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Tensor(Tensor::Input(n)) => Operand::Value(inputs[*n].as_ref().expect("used while held")),
                    Argument::Tensor(Tensor::Step(n)) => Operand::Value(values[*n].as_ref().expect("used while held")),
                    Argument::Scalar(bits) => Operand::Scalar(*bits),
                })
                .collect();
            let value = record(device, step.op, step.dtype, step.shape, step.attr, &args, &step.ints);
            drop(args);
            values[i] = Some(value);
            for d in 0..=i {
                let due = match drops {
                    Drops::Early | Drops::Cut(_) => i >= last[d],
                    Drops::Late => false,
                    Drops::Scattered(k) => i >= last[d] + (d * 7 + k) % 5,
                };
                if due && !all && !program.steps[d].kept {
                    values[d] = None;
                }
            }
            if let Drops::Cut(every) = drops {
                inputs.iter_mut().zip(&last_input).filter(|(_, l)| i >= **l).for_each(|(v, _)| *v = None);
                if i % every == every - 1 {
                    synchronize()?;
                }
            }
        }
        for (d, v) in values.iter_mut().enumerate() {
            if !all && !program.steps[d].kept {
                *v = None;
            }
        }
        // Dying inputs may be overwritten in place.
        inputs.clear();
        Ok(values)
    }

    /// Values that were dropped unread three times are not written the fourth time, and have the same bits when they
    /// are read then.
    fn unread(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
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

    /// The same values by other plans: the first legal one, that of a short search and of a long one, and each that an
    /// autotuning would try.
    fn other_plans(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        for effort in [Effort::None, Effort::Visits(60), Effort::Full] {
            // On a thread that knows no plan yet.
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
        for n in 0..6 {
            let got = self.run(program, STRICT, Drops::Early, false).map_err(|e| format!("by plan {n}: {e}"));
            outcome = outcome.and_then(|()| self.equal(program, &got?, want, &format!("by plan {n}")));
        }
        set_measuring(share);
        outcome
    }

    /// In the reproducible mode: the same bits at each of several calls, on a thread that knows other plans, on many
    /// threads, and whatever was measured of the device; nothing competes.
    fn reproducible(&self, program: &Program) -> Result<(), String> {
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

    /// What programs say that they load and store is what an engine counts that runs them.
    fn counted(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        let Some((device, differences)) = &self.counted else { return Ok(()) };
        let got = self.run_on(*device, program, STRICT, Drops::Early, false).map_err(|e| format!("counted: {e}"))?;
        self.equal(program, &got, want, "counted")?;
        if self.gpu {
            // Strict kernels run in order; others share rows among blocks, and leave partial results in scratch memory.
            self.run_on(*device, program, FAST, Drops::Early, false).map_err(|e| format!("counted: {e}"))?;
        }
        let all = std::mem::take(&mut *differences.lock().unwrap_or_else(|e| e.into_inner()));
        all.into_iter().next().map_or(Ok(()), Err)
    }

    /// What is wrong with the way this program runs, if anything.
    pub fn check(&self, program: &Program, ways: Ways) -> Result<(), String> {
        let unfused = self.run(program, UNFUSED, Drops::Early, true).map_err(|e| format!("unfused: {e}"))?;
        self.against_meaning(program, &unfused)?;
        self.fused(program, &unfused)?;
        self.counted(program, &unfused)?;
        self.dropped_elsewhere(program, &unfused)?;
        if ways.scalars {
            self.with_other_scalars(program)?;
        }
        self.cut(program, &unfused, ways)?;
        if ways.plans {
            self.other_plans(program, &unfused)?;
            self.unread(program, &unfused)?;
            self.reproducible(program)?;
        }
        if !self.gpu {
            self.at_first_sight(program, &unfused)?;
        }
        if program.steps.len().is_multiple_of(2) && !self.gpu {
            self.within_limits(program, &unfused)?;
        }
        self.on_another_thread(program, &unfused)?;
        self.as_a_new_process(program, &unfused)?;
        let fast = self.run(program, FAST, Drops::Early, false).map_err(|e| format!("not strict: {e}"))?;
        if ways.threads && !self.gpu {
            for (mode, one, name) in [(STRICT, &unfused, "strict"), (FAST, &fast, "not strict")] {
                let many = self.run_on(self.threaded, program, mode, Drops::Early, false);
                let many = many.map_err(|e| format!("on many threads: {e}"))?;
                self.equal(program, &many, one, &format!("{name}, on many threads"))?;
            }
        }
        self.close(program, &fast, &unfused)
    }

    /// Fused, the same values, by no more kernels; and counters and explanation tell the same.
    fn fused(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let before = counters();
        let mut out = Ok(vec![]);
        let (_, explanation) = explain(|| out = self.run(program, STRICT, Drops::Early, false));
        self.equal(program, &out.map_err(|e| format!("fused: {e}"))?, unfused, "fused")?;
        let moved = counters() - before;
        let told = explanation.totals();
        let counted = [moved.kernels, moved.bytes_read, moved.bytes_written, moved.bytes_allocated];
        let measured = (told.bytes_read_measured, told.bytes_written_measured);
        let explained = [told.kernels, measured.0, measured.1, told.bytes_allocated].map(|v| v as u64);
        if counted != explained {
            return Err(format!(
                "counted kernels, bytes read, written, allocated {counted:?}, explained {explained:?}"
            ));
        }
        predicted(&explanation)?;
        let whole = explanation.unfused();
        // A view may be cheaper to compute by itself than as a view of a value that is then written whole.
        let views = program.steps.iter().filter(|s| s.kept && s.op.is_view()).count();
        if told.kernels > whole.kernels + views {
            return Err(format!("{} kernels fused, {} unfused", told.kernels, whole.kernels));
        }
        Ok(())
    }

    /// When a handle is dropped changes neither values nor plan.
    fn dropped_elsewhere(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let before = counters();
        for drops in [Drops::Late, Drops::Scattered(1), Drops::Scattered(3)] {
            let again = self.run(program, STRICT, drops, false).map_err(|e| format!("dropped otherwise: {e}"))?;
            self.equal(program, &again, unfused, "with drops elsewhere")?;
        }
        match (counters() - before).plans_made {
            0 => Ok(()),
            made => Err(format!("{made} plans made for a program seen before")),
        }
    }

    /// Other scalars, equal ones no longer equal: other values by the same plan.
    fn with_other_scalars(&self, program: &Program) -> Result<(), String> {
        let varied = program.with_other_scalars();
        let want = self.run(&varied, UNFUSED, Drops::Early, true);
        let want = want.map_err(|e| format!("unfused, other scalars: {e}"))?;
        let before = counters();
        let got = self.run(&varied, STRICT, Drops::Early, false).map_err(|e| format!("other scalars: {e}"))?;
        self.equal(&varied, &got, &want, "with other scalars")?;
        match (counters() - before).plans_made {
            0 => Ok(()),
            made => Err(format!("{made} plans made for other scalars")),
        }
    }

    /// In several segments.
    fn cut(&self, program: &Program, unfused: &[Option<Vec<u8>>], ways: Ways) -> Result<(), String> {
        let gaps = match self.gpu {
            // Each brings new kernels, which take long to compile.
            true if !ways.threads => vec![],
            true => vec![3],
            false => vec![1, 3, program.steps.len().div_ceil(2)],
        };
        for every in gaps {
            let cut = self.run(program, STRICT, Drops::Cut(every), false).map_err(|e| format!("cut: {e}"))?;
            self.equal(program, &cut, unfused, &format!("cut every {every}"))?;
        }
        Ok(())
    }

    /// The same values again, its inputs and results handed over.
    fn on_another_thread(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
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

    /// The same values with less memory than the program takes by itself, as far as it fits; with a quarter more than
    /// that it has to: what is planned for is an upper bound, and a scatter's own scratch memory is not in it.
    ///
    /// That it has to where nothing is deferred: what a run that failed did not read is deferred in the next one, which
    /// then plans other segments.
    fn within_limits(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        let deferring = set_deferring(false);
        let done = self.within_quarters(program, want, 5);
        set_deferring(deferring);
        done?;
        self.within_quarters(program, want, 4)
    }

    /// In a quarter to so many quarters of it.
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

    /// As a new process would run it: with no plan in memory, and on disk none, its own, or something like it.
    fn as_a_new_process(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
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
        if (second.plans_made, second.plans_loaded) != (0, first.plans_made) {
            return Err(format!("{} plans made at first, then {} loaded", first.plans_made, second.plans_loaded));
        }
        for turn in 0..3 {
            disk.disturb(turn);
            let third = fresh("with a disturbed plan from disk")?;
            if third.plans_made + third.plans_loaded != first.plans_made {
                return Err(format!("{} plans from disk or made, not {}", third.plans_loaded, first.plans_made));
            }
        }
        Ok(())
    }

    /// As [`Checker::record`], but leaves everything pending for whoever reads it.
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

    /// Every step of the unfused run against the interpreter on the very arguments the device had.
    fn against_meaning(&self, program: &Program, results: &[Option<Vec<u8>>]) -> Result<(), String> {
        let inputs: Vec<Array> = program.inputs.iter().map(|i| Array::from_bytes(i.shape, i.dtype, &i.bytes)).collect();
        let arrays: Vec<Array> = program
            .steps
            .iter()
            .zip(results)
            .map(|(s, r)| Array::from_bytes(s.shape, s.dtype, r.as_ref().expect("all are kept")))
            .collect();
        for (i, step) in program.steps.iter().enumerate() {
            let args: Vec<RefArg<'_>> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Tensor(Tensor::Input(n)) => RefArg::Array(&inputs[*n]),
                    Argument::Tensor(Tensor::Step(n)) => RefArg::Array(&arrays[*n]),
                    Argument::Scalar(bits) => RefArg::Scalar(*bits),
                })
                .collect();
            let rel = RelOp {
                op: step.op,
                dtype: step.dtype,
                rank: step.shape.rank() as u8,
                attr: step.attr,
                args: [RelArg::NONE; 3],
            };
            let want = reference::evaluate(&rel, step.shape, &args, &step.ints);
            let scalars: Vec<Array> = args
                .iter()
                .filter_map(|a| match a {
                    RefArg::Scalar(bits) if step.dtype.is_float() => {
                        let bytes = (Scalar::from_bits(*bits, step.dtype).to_f64()).to_le_bytes();
                        Some(Array::from_bytes(Shape::SCALAR, DType::F64, &bytes))
                    }
                    _ => None,
                })
                .collect();
            let tensors: Vec<&Array> = args
                .iter()
                .filter_map(|a| match a {
                    RefArg::Array(a) => Some(*a),
                    RefArg::Scalar(_) => None,
                })
                .chain(&scalars)
                .collect();
            let tolerance = Tolerance::new(step.op, step.dtype, step.attr, &tensors);
            for p in 0..step.shape.numel() {
                let (g, w) = (arrays[i].get(p), want.get(p));
                if !tolerance.accepts(p, g, w) {
                    return Err(format!("%{i} {} at {p}: {g:?}, the interpreter says {w:?}", step.op.name()));
                }
            }
        }
        Ok(())
    }

    /// Kept results equal to the bit, all NaN being one.
    pub(crate) fn equal(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
        what: &str,
    ) -> Result<(), String> {
        self.compare(program, got, want, |i, p, g, w| {
            let nan = |v: Scalar| matches!(v, Scalar::Float(f) if f.is_nan());
            let same = nan(g) && nan(w)
                || match (g, w) {
                    (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
                    _ => g == w,
                };
            if same {
                Ok(())
            } else {
                Err(format!("%{i} {} at {p}: {what} {g:?}, not {w:?}", program.steps[i].op.name()))
            }
        })
    }

    /// Kept results near each other: contraction, unrounded narrow floats and other orders change little where the way
    /// to a value is stable.
    pub(crate) fn close(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
    ) -> Result<(), String> {
        let stability = Stability::new(program);
        for (i, step) in program.steps.iter().enumerate().filter(|(_, s)| s.kept) {
            let (Some(g), Some(w)) = (&got[i], &want[i]) else { return Err(format!("%{i} is missing")) };
            let (g, w) = (Array::from_bytes(step.shape, step.dtype, g), Array::from_bytes(step.shape, step.dtype, w));
            if let Some(wrong) = stability.judge(i, &g, &w) {
                return Err(format!("%{i} {} {wrong}", step.op.name()));
            }
        }
        let exact = exact(program, self.gpu);
        self.compare(program, got, want, |i, p, g, w| {
            let nan = |v: Scalar| matches!(v, Scalar::Float(f) if f.is_nan());
            if !exact[i] || g == w || nan(g) && nan(w) {
                return Ok(());
            }
            Err(format!("%{i} {} at {p}: {g:?}, strictly {w:?}", program.steps[i].op.name()))
        })
    }

    fn compare(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
        check: impl Fn(usize, usize, Scalar, Scalar) -> Result<(), String>,
    ) -> Result<(), String> {
        for (i, step) in program.steps.iter().enumerate().filter(|(_, s)| s.kept) {
            let (Some(g), Some(w)) = (&got[i], &want[i]) else { return Err(format!("%{i} is missing")) };
            let (g, w) = (Array::from_bytes(step.shape, step.dtype, g), Array::from_bytes(step.shape, step.dtype, w));
            for p in 0..step.shape.numel() {
                check(i, p, g.get(p), w.get(p))?;
            }
        }
        Ok(())
    }
}

/// Which steps have nothing on the way to them that contracts or rounds: movement, choice, integers, and single
/// operations on what is exact.
fn exact(program: &Program, gpu: bool) -> Vec<bool> {
    use thalweg_ir::{ElementOp::*, Op};
    let mut exact: Vec<bool> = vec![];
    // Arithmetic may be contracted into the next sum: what is a step away from it is no longer exact.
    let mut contracts: Vec<bool> = vec![];
    for step in &program.steps {
        let mut inner = step.args.iter().filter_map(|a| match a {
            Argument::Tensor(Tensor::Step(s)) => Some(*s),
            _ => None,
        });
        let from_exact = inner.clone().all(|s| exact[s]);
        let through = inner.any(|s| contracts[s]);
        let narrow = |d: DType| matches!(d, DType::BF16 | DType::F16);
        let wide = !narrow(step.dtype)
            && step.args.iter().all(|a| !matches!(a, Argument::Tensor(t) if narrow(program.dtype(*t))));
        let chooses = match step.op {
            op if op.is_view() => true,
            Op::Full | Op::Iota | Op::Cat | Op::Put | Op::Pad | Op::Gather => true,
            Op::Scan(ScanOp::Max | ScanOp::Min | ScanOp::Sort | ScanOp::Argsort) => true,
            Op::Scatter(ScatterOp::Set | ScatterOp::Max | ScatterOp::Min) => true,
            Op::Element(Neg | Abs | Minimum | Maximum | Where | Relu) => true,
            _ => false,
        };
        let single = match step.op {
            // A GPU multiplies by the reciprocal of a scalar.
            Op::Element(Div) if gpu => false,
            // What is written in simpler operations may be contracted in itself.
            Op::Element(e) => wide && (e.row().expand.is_none() || !step.dtype.is_float()),
            Op::Cast => wide,
            _ => false,
        };
        exact.push(from_exact && !through && (chooses || single));
        let makes = matches!(step.op, Op::Matmul | Op::Reduce(_) | Op::Scan(_) | Op::Scatter(_) | Op::Random(_));
        contracts.push(through || (makes || single && !chooses) && step.dtype.is_float());
    }
    exact
}
