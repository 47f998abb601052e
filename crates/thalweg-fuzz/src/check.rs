//! Checks one program in every mode.

mod capture;
mod circumstances;
#[cfg(feature = "wgpu")]
mod combine_bounds;
#[cfg(feature = "wgpu")]
mod fast_math;
mod judged;
mod near;
#[cfg(feature = "wgpu")]
mod permitted;
mod tiers;

use crate::disk::Disk;
use crate::program::{Argument, Program, Tensor};
use crate::stability::Stability;
use crate::traffic::Differences;
use crate::tuning;
pub use capture::submissions;
#[cfg(feature = "wgpu")]
pub use fast_math::Outcome;
pub use near::known_parts;
use std::cell::LazyCell;
use std::sync::Arc;
use thalweg_fusion::Explanation;
use thalweg_ir::Shape;
use thalweg_runtime::{Error, counters};
use thalweg_stream::{
    DeviceRef, MatmulPrecision, Mode, Operand, Value, costs, explain, record, set_costs, set_measuring, set_mode,
    synchronize,
};
pub use tiers::generic_kernels;

/// Oracle for programs: runs them on a device in many modes, and compares the results.
pub struct Checker {
    device: DeviceRef,
    /// Device of the same type with several threads in every launch.
    threaded: DeviceRef,
    /// Device on which cold starts are checked: new code runs unfused at first.
    new_code: DeviceRef,
    gpu: bool,
    /// Device that compares the traffic reported by programs with that counted by its engine, and the differences
    /// found.
    counted: Option<(DeviceRef, Differences)>,
    /// Disk cache of plans for new processes, if that is checked.
    disk: Option<Disk>,
    /// Whether the device's language is fast math, which has wider bounds.
    #[cfg(feature = "wgpu")]
    fast_math: bool,
}

/// Selection of the expensive checks, which only some programs get.
#[derive(Clone, Copy, Debug)]
pub struct ExtraChecks {
    /// Whether the program also runs on the threaded device.
    pub threads: bool,
    /// Whether the program also runs with other plans.
    pub plans: bool,
    /// Whether programs that are nearly equal run, too.
    pub near: bool,
    /// Whether the program also runs with other scalars. Not if it computes an index from scalars.
    pub scalars: bool,
}

/// Time at which handles of results that are not kept are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drops {
    /// Right after the last step that uses the handle.
    Early,
    /// After the last step of the program.
    Late,
    /// After a step that is derived from this number and the handle.
    Scattered(usize),
    /// Early, inputs included, and the stream is cut every N steps: the results of a segment, among them views of one
    /// buffer, are read by the next one, which may overwrite them.
    Cut(usize),
}

pub const STRICT: Mode = Mode {
    fused: true,
    strict: true,
    reproducible: false,
    reference: false,
    matmul: MatmulPrecision::Highest,
    atomic_sums: false,
};
pub const UNFUSED: Mode = Mode { fused: false, ..STRICT };
/// Unfused as in a cold start: one kernel per operation, not strict.
pub(crate) const SINGLE: Mode = Mode { fused: false, strict: false, ..STRICT };
/// Not strict, with sums by an index in any order.
pub const FAST: Mode = Mode { strict: false, atomic_sums: true, ..STRICT };

/// Maximum ratio of measured to predicted bytes of a kernel (`MAX_TRAFFIC_RATIO`), and number of bytes up to which it
/// is not checked (`MIN_CHECKED_BYTES`): kernels of a few elements.
const MAX_TRAFFIC_RATIO: usize = 8;
const MIN_CHECKED_BYTES: usize = 16 << 10;

/// Element size of a result described as `f32[2, 3]`, in bytes.
fn element_size(result: &str) -> usize {
    let name = result.split('[').next().unwrap_or(result);
    thalweg::DType::from_name(name).map_or(0, thalweg::DType::size)
}

/// Checks the predicted traffic of kernels: predicted writes are a lower bound of the measured ones, and not much
/// smaller. Predicted reads may exceed the measured ones: a device does not load what its simplified body does not
/// need, such as the condition of a select between equal values.
fn predicted(explanation: &Explanation) -> Result<(), String> {
    let kernels = explanation.segments.iter().flat_map(|s| s.kernels.iter().map(move |k| (s, k)));
    for (n, (segment, kernel)) in kernels.enumerate() {
        // Skipped below: for kernels that were launched twice the plan describes one launch; an in-place kernel need
        // not read its dying input; the elements that an index selects depend on data.
        let named =
            |of: &'static [&str]| move |o: &usize| of.iter().any(|of| segment.operations[*o].name.starts_with(of));
        let by_index = named(&["gather", "scatter"]);
        // A sort or a scan rereads what it wrote to scratch; other kernels reread what they wrote beyond their results:
        // the buffers of a row too long for the caches.
        let scanned = named(&["sort", "argsort", "cum", "logcum"]);
        let scratch = kernel.operations.iter().any(scanned);
        let beyond = kernel.bytes_written_measured.saturating_sub(kernel.bytes_written);
        let again = if scratch { kernel.bytes_written } else { beyond };
        // Components of user-defined combines are such buffers, too; the plan knows how often they are passed over.
        let combined = kernel.operations.iter().any(named(&["fold", "scan"]));
        let buffers = kernel.features.rows.iter().filter(|_| combined).map(|r| r.again as usize).sum::<usize>();
        // Scanned rows that are not kept on chip go to scratch before and after the scan; a radix sort writes keys and
        // indices once for each byte of a key.
        let points = kernel.features.points as usize;
        let sorted = named(&["sort", "argsort"]);
        let scratch_of = |o: &usize| {
            let size = element_size(&segment.operations[*o].result);
            points * size * if sorted(o) { size + size_of::<i64>() } else { 2 }
        };
        let buffers = buffers + kernel.operations.iter().filter(|&o| scanned(o)).map(scratch_of).sum::<usize>();
        if kernel.launches != 1 || kernel.in_place > 0 || kernel.operations.iter().any(by_index) {
            continue;
        }
        for (what, planned, measured) in [
            ("reads", (kernel.bytes_read, MAX_TRAFFIC_RATIO * again), kernel.bytes_read_measured),
            ("writes", (kernel.bytes_written, buffers), kernel.bytes_written_measured),
        ] {
            let (planned, beside) = planned;
            let least = if what == "writes" { planned } else { planned.saturating_sub(MIN_CHECKED_BYTES) / 2 };
            // A chunk of a few elements has partial results larger than itself.
            let above =
                tuning::splits_by_default() && measured > MAX_TRAFFIC_RATIO * planned + beside + MIN_CHECKED_BYTES;
            if measured < least || above {
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
    /// Makes a checker of a device; `threaded` is one that must give the same bits with more threads.
    pub fn new(device: DeviceRef, threaded: DeviceRef) -> Checker {
        Checker {
            device,
            threaded,
            new_code: device,
            counted: None,
            disk: None,
            gpu: false,
            #[cfg(feature = "wgpu")]
            fast_math: false,
        }
    }

    /// Makes a checker for a GPU. Its kernels have scratch memory unknown to the plan, and compiling takes long: checks
    /// of the planner alone are left to the CPU.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(device: DeviceRef) -> Checker {
        Checker { gpu: true, ..Checker::new(device, device) }
    }

    /// Whether the checker is for a GPU.
    pub fn runs_cuda(&self) -> bool {
        self.gpu
    }

    /// Sets the device of cold starts.
    #[cfg(feature = "cuda")]
    pub fn with_new_code_on(self, device: DeviceRef) -> Checker {
        Checker { new_code: device, ..self }
    }

    /// Plans a program, optionally also in strict mode, compiles and launches it; results are ignored.
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

    /// Adds the check that the traffic reported by programs equals that which this device counts; `differences` is the
    /// list that the device adds to.
    pub fn with_counted(self, device: DeviceRef, differences: Differences) -> Checker {
        Checker { counted: Some((device, differences)), ..self }
    }

    /// Adds the check that plans from disk give the same results.
    pub fn with_disk(self, disk: Disk) -> Checker {
        Checker { disk: Some(disk), ..self }
    }

    /// Runs only the check of [`Checker::with_counted`].
    #[cfg(all(test, feature = "emulate"))]
    pub fn counts(&self, program: &Program) -> Result<(), String> {
        let plain = self.run(program, STRICT, Drops::Early, false).map_err(|e| e.to_string())?;
        self.counted(program, &plain)
    }

    /// Device that the programs run on.
    pub fn device(&self) -> DeviceRef {
        self.device
    }

    /// Value without elements, on the checker's device.
    pub fn empty(&self) -> Result<Arc<Value>, String> {
        let device = self.device.device();
        let buffer = device.allocate(0).map_err(|e| e.to_string())?;
        Ok(Value::ready(self.device, buffer, Shape::new(&[0]), thalweg::DType::F32))
    }

    /// Uploads the inputs of a program to the checker's device.
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

    /// Records the steps of a program and reads the kept results; returns the bytes of each kept step.
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
        let inputs = self.upload(program, device)?;
        self.record_on(device, program, inputs, drops, all)
    }

    /// Like [`Checker::record`], on these inputs.
    fn record_on(
        &self,
        device: DeviceRef,
        program: &Program,
        inputs: Vec<Arc<Value>>,
        drops: Drops,
        all: bool,
    ) -> Result<Vec<Option<Arc<Value>>>, Error> {
        let mut inputs: Vec<Option<Arc<Value>>> = inputs.into_iter().map(Some).collect();
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
        // Inputs without another handle may be overwritten in place.
        inputs.clear();
        Ok(values)
    }

    /// Checks that the traffic reported by programs equals that counted by an engine.
    fn counted(&self, program: &Program, want: &[Option<Vec<u8>>]) -> Result<(), String> {
        let Some((device, differences)) = &self.counted else { return Ok(()) };
        let got = self.run_on(*device, program, STRICT, Drops::Early, false).map_err(|e| format!("counted: {e}"))?;
        self.equal(program, &got, want, "counted")?;
        if self.gpu {
            // Strict kernels run in order; others split rows among blocks and write partial results to scratch memory.
            self.run_on(*device, program, FAST, Drops::Early, false).map_err(|e| format!("counted: {e}"))?;
        }
        let all = std::mem::take(&mut *differences.lock().unwrap_or_else(|e| e.into_inner()));
        all.into_iter().next().map_or(Ok(()), Err)
    }

    /// Checks a program in every mode; returns a description of the first failure.
    pub fn check(&self, program: &Program, ways: ExtraChecks) -> Result<(), String> {
        let unfused = self.run(program, UNFUSED, Drops::Early, true).map_err(|e| format!("unfused: {e}"))?;
        // The interpreter's runs dominate the time, so they are shared by all comparisons.
        let stability = LazyCell::new(|| Stability::new(program));
        self.against_meaning(program, &unfused)?;
        self.fused(program, &unfused)?;
        self.counted(program, &unfused)?;
        self.dropped_elsewhere(program, &unfused)?;
        if ways.scalars {
            self.with_other_scalars(program)?;
        }
        self.cut(program, &unfused, ways)?;
        self.captured(program, &unfused)?;
        if ways.plans {
            self.other_plans(program, &unfused)?;
            self.unread(program, &unfused)?;
            self.reproducible(program)?;
        }
        self.at_cold_start((program, &stability), &unfused)?;
        if ways.near {
            self.near_misses(program)?;
        }
        if program.steps.len().is_multiple_of(2) && !self.gpu {
            self.within_limits(program, &unfused)?;
        }
        self.on_another_thread(program, &unfused)?;
        self.as_a_new_process(program, &unfused)?;
        // Without corrections that were learned before, and without plans that compete.
        set_costs(self.device, (*costs(self.device)).clone());
        let share = set_measuring(None);
        let fast = self.run(program, FAST, Drops::Early, false).map_err(|e| format!("not strict: {e}"));
        let many = if ways.threads && !self.gpu { self.on_many_threads(program, &unfused) } else { Ok(()) };
        set_measuring(share);
        let fast = fast?;
        many?;
        self.close((program, &stability), &fast, &unfused)?;
        self.selected_alike(program, &fast)
    }

    /// Checks that results have the same bits on many threads: in strict mode, and in reproducible mode, where plans
    /// follow from the program. Elsewhere each device may have found another plan, with other last bits.
    fn on_many_threads(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let planned = Mode { reproducible: true, ..FAST };
        let one = self.run(program, planned, Drops::Early, false).map_err(|e| format!("reproducible: {e}"))?;
        for (mode, one, name) in [(STRICT, unfused, "strict"), (planned, &one, "reproducible")] {
            let many = self.run_on(self.threaded, program, mode, Drops::Early, false);
            let many = many.map_err(|e| format!("on many threads: {e}"))?;
            self.equal(program, &many, one, &format!("{name}, on many threads"))?;
        }
        Ok(())
    }

    /// Checks that selections (results of comparisons, sorts and extremes) have the bits of one kernel per operation.
    fn selected_alike(&self, program: &Program, fast: &[Option<Vec<u8>>]) -> Result<(), String> {
        let alike = crate::selection::alike(program);
        if !program.steps.iter().zip(&alike).any(|(s, alike)| s.kept && *alike) {
            return Ok(());
        }
        let before = counters();
        let single = self.run(program, SINGLE, Drops::Early, false).map_err(|e| format!("one by one: {e}"))?;
        if (counters() - before).segments > 1 {
            // Values that cross segments may differ by a rounding.
            return Ok(());
        }
        self.equal_selections(program, fast, &single, "selected otherwise than one by one,")
    }

    /// Checks that fusion gives the same values with no more kernels, and that counters and explanation agree.
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
        // Between two segments any view is one that is asked for.
        let asked = |kept: bool| kept || explanation.segments.len() > 1;
        let views = program.steps.iter().filter(|s| asked(s.kept) && s.op.is_view()).count();
        if told.kernels > whole.kernels + views {
            return Err(format!("{} kernels fused, {} unfused", told.kernels, whole.kernels));
        }
        Ok(())
    }

    /// Checks that the times at which handles are dropped change neither values nor plan.
    fn dropped_elsewhere(&self, program: &Program, unfused: &[Option<Vec<u8>>]) -> Result<(), String> {
        let before = counters();
        for drops in [Drops::Late, Drops::Scattered(1), Drops::Scattered(3)] {
            let again = self.run(program, STRICT, drops, false).map_err(|e| format!("dropped otherwise: {e}"))?;
            self.equal(program, &again, unfused, "with drops elsewhere")?;
        }
        match (counters() - before).plans_made {
            made if made > 0 && tuning::keeps_plans() => Err(format!("{made} plans made for a program seen before")),
            _ => Ok(()),
        }
    }

    /// Checks that other scalars change values but not the plan; scalars that were equal become different.
    fn with_other_scalars(&self, program: &Program) -> Result<(), String> {
        let varied = program.with_other_scalars();
        let want = self.run(&varied, UNFUSED, Drops::Early, true);
        let want = want.map_err(|e| format!("unfused, other scalars: {e}"))?;
        let before = counters();
        let got = self.run(&varied, STRICT, Drops::Early, false).map_err(|e| format!("other scalars: {e}"))?;
        self.equal(&varied, &got, &want, "with other scalars")?;
        match (counters() - before).plans_made {
            made if made > 0 && tuning::keeps_plans() => Err(format!("{made} plans made for other scalars")),
            _ => Ok(()),
        }
    }

    /// Checks the program with its stream cut into several segments.
    fn cut(&self, program: &Program, unfused: &[Option<Vec<u8>>], ways: ExtraChecks) -> Result<(), String> {
        let gaps = match self.gpu {
            // Each gap brings new kernels, which take long to compile.
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
}
