//! Programs: the operations of one FX graph as a list of instructions over registers.
//!
//! In: instructions from `lower.py`, then tensors of PyTorch at each run. Out: tensors of PyTorch. Always true: every
//! result is computed before `run` returns, so no recorded work reads an input's memory afterwards; a result shares its
//! memory with no input and no other result.

use super::call::{Call, Out, Reject, Rule};
use super::exchange::Exchange;
use super::object::{Owner, Range, import, object_of};
use super::ops;
use super::order::{OrderedResult, ordered};
use super::replay::{Replay, Replays};
use super::value::{Arg, Value};
use crate::dtype::ArrayDType;
use crate::error::{failure, run as guarded, run_fallible};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Instant;
use thalweg::{Device, Error, Generator, MAX_RANK, MatmulPrecision, Tensor, TensorMemory};

/// One operation of a program.
struct Instruction {
    name: String,
    /// Rule in the table; `None` if there is none.
    rule: Option<Rule>,
    args: Vec<Arg>,
    results: Vec<usize>,
    dtypes: Vec<Option<ArrayDType>>,
    /// Registers that no later instruction reads.
    last_reads: Vec<usize>,
    /// Whether a later instruction or a result of the program reads each result.
    read: Vec<bool>,
    eager: Option<Eager>,
}

/// PyTorch's own kernel for an instruction.
struct Eager {
    /// Python function of the values of `reads`.
    function: Py<PyAny>,
    reads: Vec<usize>,
    /// Dimensions of each read tensor from the largest stride to the smallest; `None` for row-major.
    orders: Vec<Option<Vec<usize>>>,
}

/// Result of a program.
struct ProgramResult {
    register: usize,
    /// Dimensions from the largest stride to the smallest; `None` for row-major.
    order: Option<Vec<usize>>,
    /// Whether only the backward program reads it, so that it may be a view of an input.
    saved: bool,
    /// Whether a copy in `order` is recorded, so that the kernel that computes the result stores it in that order. A view of
    /// other memory may have the order already.
    copied: bool,
}

/// Operations whose result is a view of their argument, or the argument.
const VIEWS: &[&str] = &[
    "aten.alias.default",
    "aten.detach.default",
    "aten.diagonal.default",
    "aten.expand.default",
    "aten.permute.default",
    "aten.select.int",
    "aten.slice.Tensor",
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.t.default",
    "aten.transpose.int",
    "aten.unbind.int",
    "aten.unfold.default",
    "aten.unsqueeze.default",
    "aten.view.default",
];

/// Counts of a program's runs.
#[derive(Default)]
struct Counts {
    runs: u64,
    /// Runs that submitted captured operations.
    replays: u64,
    first_ns: u64,
    later_ns: u64,
    /// Runs of PyTorch's kernels by operation, and why.
    eager: HashMap<String, (u64, String)>,
}

/// Failure of a run.
enum Failure {
    Python(PyErr),
    Thalweg(Error),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

/// A list of operations over registers, in the order in which they run.
#[pyclass(module = "thalweg._thalweg.torch", frozen)]
pub struct Program {
    /// Parts so far; empty once the program is finished.
    built: Mutex<Built>,
    finished: OnceLock<Built>,
    counts: Mutex<Counts>,
    replays: Replays,
}

/// Instructions and results.
#[derive(Default)]
struct Built {
    gpu: Option<i32>,
    inputs: usize,
    registers: usize,
    instructions: Vec<Instruction>,
    results: Vec<ProgramResult>,
}

impl Built {
    /// Whether a rule computes a register's value; not so of inputs, views, and results of PyTorch's kernels.
    fn is_computed(&self, register: usize) -> bool {
        let Some(instruction) = self.instructions.iter().rev().find(|i| i.results.contains(&register)) else {
            return false;
        };
        match (instruction.name.as_str(), instruction.args.first()) {
            ("aten.alias.default" | "aten.detach.default", Some(&Arg::Register(from))) => self.is_computed(from),
            (name, _) => instruction.rule.is_some() && !VIEWS.contains(&name),
        }
    }
}

/// Device of a run, and PyTorch's current stream there.
#[derive(Clone, Copy)]
struct RunDevice {
    device: Device,
    gpu: Option<i32>,
    stream: usize,
}

impl RunDevice {
    /// Makes what the run enqueues wait for what PyTorch has enqueued.
    fn after_torch(self) -> Result<(), Failure> {
        // SAFETY: PyTorch's streams are of the primary context, as the device is.
        let done = if self.gpu.is_some() { unsafe { self.device.after_stream(self.stream) } } else { Ok(()) };
        done.map_err(Failure::Thalweg)
    }

    /// Memory of a result, or of what PyTorch's kernel reads. On a GPU indices are asserted there, as PyTorch's kernels do,
    /// unless `CUDA_LAUNCH_BLOCKING=1` asks for an error that names the operation.
    fn memory(self, x: &Tensor) -> Result<TensorMemory, Error> {
        static BLOCKING: LazyLock<bool> =
            LazyLock::new(|| std::env::var("CUDA_LAUNCH_BLOCKING").is_ok_and(|on| on == "1"));
        if self.gpu.is_some() && !*BLOCKING { x.asserted_memory() } else { x.memory() }
    }

    /// Memory of a dense copy.
    fn copy(self, x: &Tensor) -> Result<TensorMemory, Error> {
        x.deep_copy().and_then(|copy| self.memory(&copy))
    }

    /// Makes what PyTorch enqueues wait for what the run has enqueued.
    fn before_torch(self) -> Result<(), Failure> {
        // SAFETY: as above.
        let done = if self.gpu.is_some() { unsafe { self.device.before_stream(self.stream) } } else { Ok(()) };
        done.map_err(Failure::Thalweg)
    }
}

/// A run's state.
struct Run<'a> {
    program: &'a Built,
    exchange: Exchange,
    place: RunDevice,
    /// Results of PyTorch's kernels whose memory recorded work may read.
    kept: Vec<Py<PyAny>>,
    /// Values of the inputs, followed by those of the instructions' results.
    registers: Vec<Value>,
    ranges: Vec<Range>,
    /// Captured run that this one replays, or is.
    captured: Option<Arc<Replay>>,
}

/// Result before it becomes a Python object.
enum Computed {
    Memory(TensorMemory, Vec<usize>),
    Value(Value),
    /// View of an input: its index, the strides and the offset in elements.
    View(usize, Vec<usize>, Vec<isize>, isize),
    /// Index of an earlier result, which is the same object.
    Same(usize),
}

#[pymethods]
impl Program {
    /// A program without instructions. `gpu` is the number of the GPU that its tensors are on; `None` for the CPU.
    #[new]
    #[pyo3(signature = (inputs, gpu=None))]
    fn new(inputs: usize, gpu: Option<i32>) -> Program {
        let built = Built { gpu, inputs, registers: inputs, ..Built::default() };
        Program {
            built: Mutex::new(built),
            finished: OnceLock::new(),
            counts: Mutex::default(),
            replays: Replays::default(),
        }
    }

    /// Appends an instruction.
    #[allow(clippy::too_many_arguments, reason = "the parts of an instruction")]
    fn append(
        &self,
        name: String,
        ruled: bool,
        args: Vec<Bound<'_, PyAny>>,
        results: Vec<usize>,
        dtypes: Vec<Option<String>>,
        eager: Option<Py<PyAny>>,
        reads: Vec<usize>,
        orders: Vec<Option<Vec<usize>>>,
    ) -> PyResult<()> {
        let rule = if ruled { ops::rule(&name) } else { None };
        let args: Vec<Arg> = match rule {
            Some(_) => args.iter().map(Arg::of).collect::<PyResult<_>>()?,
            None => reads.iter().map(|&r| Arg::Register(r)).collect(),
        };
        let dtypes = dtypes.into_iter().map(|d| d.and_then(|d| ArrayDType::from_name(&d))).collect();
        let eager = eager.map(|function| Eager { function, reads, orders });
        let mut built = self.lock();
        let top = results.iter().copied().max().map_or(0, |r| r + 1);
        built.registers = built.registers.max(top);
        built.instructions.push(Instruction {
            name,
            rule,
            args,
            results,
            dtypes,
            last_reads: vec![],
            read: vec![],
            eager,
        });
        Ok(())
    }

    /// Appends a result.
    fn result(&self, register: usize, order: Option<Vec<usize>>, saved: bool) {
        self.lock().results.push(ProgramResult { register, order, saved, copied: false });
    }

    /// Ends the program.
    fn finish(&self) {
        let mut built = self.lock();
        let mut read = vec![false; built.registers];
        for r in &built.results {
            read[r.register] = true;
        }
        for instruction in built.instructions.iter_mut().rev() {
            instruction.read = instruction.results.iter().map(|&r| read[r]).collect();
            let mut last = vec![];
            let mut note = |r: usize| {
                if !read[r] {
                    read[r] = true;
                    last.push(r);
                }
            };
            instruction.args.iter().for_each(|a| a.registers(&mut note));
            if let Some(eager) = &instruction.eager {
                eager.reads.iter().for_each(|&r| note(r));
            }
            for &r in &instruction.results {
                if !read[r] {
                    last.push(r);
                }
            }
            instruction.last_reads = last;
        }
        let copied: Vec<bool> =
            built.results.iter().map(|r| r.order.is_some() && built.is_computed(r.register)).collect();
        for (result, copied) in built.results.iter_mut().zip(copied) {
            result.copied = copied;
        }
        let _ = self.finished.set(std::mem::take(&mut *built));
    }

    /// Runs the program. `seed` starts the random numbers, if it draws any. `deterministic`: sums by an index have the same
    /// bits each time. `tf32`: whether f32 products, and convolutions by a library, may round to TF32.
    #[pyo3(signature = (inputs, seed=None, deterministic=false, tf32=(false, false)))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyList>,
        seed: Option<u64>,
        deterministic: bool,
        tf32: (bool, bool),
    ) -> PyResult<Bound<'py, PyList>> {
        let start = Instant::now();
        let Some(program) = self.finished.get() else {
            return Err(PyRuntimeError::new_err("thalweg.torch: the program is not finished"));
        };
        if inputs.len() != program.inputs {
            let message = format!("thalweg.torch: {} inputs for a program of {}", inputs.len(), program.inputs);
            return Err(PyRuntimeError::new_err(message));
        }
        let exchange = Exchange::get(py)?;
        let place = match program.gpu {
            None => RunDevice { device: Device::cpu(), gpu: None, stream: 0 },
            Some(gpu) => {
                let device = run_fallible(py, || Device::cuda(gpu as usize))?;
                RunDevice { device, gpu: Some(gpu), stream: exchange.current_stream(gpu) }
            }
        };
        // Registers of instructions' results follow if the run is recorded.
        let mut registers = Vec::with_capacity(program.inputs);
        let mut ranges = Vec::with_capacity(program.inputs);
        for object in inputs.iter() {
            let (value, range) = import(exchange, (place.device, place.gpu), &object, ())?;
            registers.push(value);
            ranges.push(range);
        }
        let mut state = Run { program, exchange, place, kept: vec![], registers, ranges, captured: None };
        let mut eager = HashMap::new();
        let mut replayed = false;
        let computed = guarded(py, || {
            let _restore = Restore {
                device: thalweg::set_default_device(Some(place.device)),
                atomic: thalweg::set_atomic_sums(place.gpu.is_some() && !deterministic),
                random: seed.map(seeded),
            };
            let mut run = |state: &mut Run<'_>, eager: &mut _| -> Result<Vec<Computed>, Failure> {
                place.after_torch()?;
                let settings = (deterministic, tf32);
                let ordered = match self.replays.submit(&state.registers, settings) {
                    Some((replay, ordered)) => {
                        replayed = true;
                        state.captured = Some(replay);
                        state.registers.clear();
                        ordered
                    }
                    None => {
                        let capture = self.replays.begin(&state.registers, settings, place.device);
                        state.registers.resize(program.registers, Value::None);
                        state.execute(eager)?;
                        let ordered = state.ordered_results();
                        let end = |capture| self.replays.end(capture, &ordered, !eager.is_empty());
                        state.captured = capture.and_then(end);
                        ordered
                    }
                };
                let computed = state.compute(&ordered)?;
                place.before_torch()?;
                Ok(computed)
            };
            let precision = |tf32| if tf32 { MatmulPrecision::High } else { MatmulPrecision::Highest };
            let (matmul, convolution) = (precision(tf32.0), Some(precision(tf32.1)));
            let computed = thalweg::with_precision(matmul, convolution, || run(&mut state, &mut eager));
            if computed.is_err() {
                // Order for enqueued work that still reads inputs; the first failure is the one to report.
                let _ = place.before_torch();
            }
            state.registers.clear();
            computed
        })?;
        self.count(|counts| {
            for (name, (n, why)) in eager {
                counts.eager.entry(name).or_insert((0, why)).0 += n;
            }
        });
        let computed = computed.map_err(|f| match f {
            Failure::Python(error) => error,
            Failure::Thalweg(error) => failure(py, &error),
        })?;
        let mut out: Vec<Bound<'_, PyAny>> = Vec::with_capacity(computed.len());
        for c in computed {
            let object = match c {
                Computed::Memory(memory, order) => exchange.export(py, memory, &order)?,
                Computed::Value(value) => object_of(py, value)?,
                Computed::View(input, shape, strides, offset) => {
                    let input = inputs.get_item(input)?;
                    let at: isize = input.call_method0("storage_offset")?.extract()?;
                    let detached = input.call_method0("detach")?;
                    detached.call_method1(
                        "as_strided",
                        (PyTuple::new(py, shape)?, PyTuple::new(py, strides)?, at + offset),
                    )?
                }
                Computed::Same(i) => out[i].clone(),
            };
            out.push(object);
        }
        let spent = start.elapsed().as_nanos() as u64;
        self.count(|counts| {
            counts.runs += 1;
            counts.replays += u64::from(replayed);
            *if counts.runs == 1 { &mut counts.first_ns } else { &mut counts.later_ns } += spent;
        });
        PyList::new(py, out)
    }

    /// Counts of the program's runs, as a dictionary.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        out.set_item("runs", counts.runs)?;
        out.set_item("replays", counts.replays)?;
        out.set_item("first_ms", counts.first_ns as f64 / 1e6)?;
        let later = counts.runs.saturating_sub(1).max(1);
        out.set_item("later_ms", counts.later_ns as f64 / 1e6 / later as f64)?;
        let operations = self.finished.get().map(|built| built.instructions.len());
        out.set_item("operations", operations)?;
        let eager = PyDict::new(py);
        for (name, (n, why)) in &counts.eager {
            eager.set_item(name, (n, why))?;
        }
        out.set_item("eager", eager)?;
        Ok(out)
    }
}

impl Program {
    /// Changes the counts. `change` calls no Python code: another thread could wait for the lock with the GIL.
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Built> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run<'_> {
    /// Records all instructions.
    fn execute(&mut self, eager: &mut HashMap<String, (u64, String)>) -> Result<(), Failure> {
        let program = self.program;
        for instruction in &program.instructions {
            let refused = match instruction.rule {
                None => Reject("no rule".into()),
                Some(rule) => {
                    let call = Call {
                        registers: &self.registers,
                        args: &instruction.args,
                        dtypes: &instruction.dtypes,
                        read: &instruction.read,
                    };
                    // A method that panics has recorded nothing.
                    match catch_unwind(AssertUnwindSafe(|| rule(&call))) {
                        Ok(Ok(Out::One(value))) => {
                            self.registers[instruction.results[0]] = value;
                            self.forget(instruction);
                            continue;
                        }
                        Ok(Ok(Out::Many(values))) => {
                            for (&r, value) in instruction.results.iter().zip(values) {
                                self.registers[r] = value;
                            }
                            self.forget(instruction);
                            continue;
                        }
                        Ok(Err(reject)) => reject,
                        Err(payload) => {
                            let text = payload
                                .downcast_ref::<String>()
                                .cloned()
                                .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
                            Reject(text.unwrap_or_default().into())
                        }
                    }
                }
            };
            eager.entry(instruction.name.clone()).or_insert_with(|| (0, refused.0.to_string())).0 += 1;
            self.run_eager(instruction, &refused)?;
            self.forget(instruction);
        }
        Ok(())
    }

    fn forget(&mut self, instruction: &Instruction) {
        for &r in &instruction.last_reads {
            self.registers[r] = Value::None;
        }
    }

    /// Runs PyTorch's kernel of an instruction.
    fn run_eager(&mut self, instruction: &Instruction, refused: &Reject) -> Result<(), Failure> {
        let Some(eager) = &instruction.eager else {
            let message = format!("thalweg.torch: {}: {}", instruction.name, refused.0);
            return Err(Failure::Python(PyRuntimeError::new_err(message)));
        };
        let failed = Failure::Thalweg;
        let mut values = Vec::with_capacity(eager.reads.len());
        for (&r, order) in eager.reads.iter().zip(&eager.orders) {
            values.push(match &self.registers[r] {
                Value::Tensor(x) => {
                    let (x, back) = ordered(x, order.as_deref());
                    let memory = self.place.memory(&x).map_err(failed)?;
                    let memory = if memory.is_dense() { memory } else { self.place.copy(&x).map_err(failed)? };
                    Computed::Memory(memory, back)
                }
                other => Computed::Value(other.clone()),
            });
        }
        self.place.before_torch()?;
        let done: Result<(), Failure> = Python::attach(|py| {
            let mut args = Vec::with_capacity(values.len());
            for value in values {
                args.push(match value {
                    Computed::Memory(memory, order) => self.exchange.export(py, memory, &order)?,
                    Computed::Value(value) => object_of(py, value)?,
                    _ => unreachable!("only these are pushed above"),
                });
            }
            let out = eager.function.bind(py).call1(PyTuple::new(py, args)?)?;
            let list = out.cast_into::<PyList>().map_err(PyErr::from)?;
            for (&r, object) in instruction.results.iter().zip(list.iter()) {
                self.registers[r] = self.import_owned(&object)?;
            }
            Ok(())
        });
        done?;
        self.place.after_torch()
    }

    /// Value of a kernel's result, whose object the tensor keeps alive.
    fn import_owned(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        // Until the run's end, too, when PyTorch's stream is behind the work that reads the memory.
        self.kept.push(object.clone().unbind());
        let owner = Owner(Some(object.clone().unbind()));
        Ok(import(self.exchange, (self.place.device, self.place.gpu), object, owner)?.0)
    }

    /// Results in the order of dimensions that the program promises.
    fn ordered_results(&mut self) -> Vec<OrderedResult> {
        let results = &self.program.results;
        // Only results stay, so that a kernel writes nothing else to memory.
        let values: Vec<Value> = results.iter().map(|r| self.registers[r.register].clone()).collect();
        self.registers.clear();
        let of = |(value, result): (Value, &ProgramResult)| match value {
            Value::Tensor(x) => {
                let (x, back) = ordered(&x, result.order.as_deref());
                // A value of which a copy is recorded is not held, so that only the copy is written.
                OrderedResult::Tensor(if result.copied { x.recorded_copy() } else { x }, back)
            }
            other => OrderedResult::Other(other),
        };
        values.into_iter().zip(results).map(of).collect()
    }

    /// Computes all results.
    fn compute(&mut self, ordered: &[OrderedResult]) -> Result<Vec<Computed>, Failure> {
        let results = &self.program.results;
        let failed = Failure::Thalweg;
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let mut out: Vec<Computed> = Vec::with_capacity(results.len());
        let mut memories: Vec<Option<TensorMemory>> = Vec::with_capacity(results.len());
        // All results are wanted: the first one's read alone could leave others for later.
        thalweg::flush();
        for result in ordered {
            memories.push(match result {
                OrderedResult::Tensor(x, _) => Some(self.place.memory(x).map_err(failed)?),
                OrderedResult::Other(_) => None,
            });
        }
        // Ends of the results' memory by their beginnings. They are disjoint.
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        for (i, (ordered, memory)) in ordered.iter().zip(memories).enumerate() {
            let result = &results[i];
            if let Some(&first) = seen.get(&result.register) {
                out.push(Computed::Same(first));
                continue;
            }
            seen.insert(result.register, i);
            let (x, back, memory) = match (ordered, memory) {
                (OrderedResult::Tensor(x, back), Some(memory)) => (x, back, memory),
                (OrderedResult::Other(value), _) => {
                    out.push(Computed::Value(value.clone()));
                    continue;
                }
                (OrderedResult::Tensor(..), None) => unreachable!("each tensor has memory"),
            };
            let size = memory.dtype().size();
            let start = memory.address().addr();
            let end = start + x.numel() * size;
            let among = |r: &Range| start >= r.first && start < r.end;
            let source = memory.is_external().then(|| self.ranges.iter().position(among)).flatten();
            if let (Some(input), true) = (source, result.saved) {
                let strides: Vec<isize> = back.iter().map(|&i| memory.strides()[i]).collect();
                if strides.iter().all(|&s| s >= 0) {
                    let shape: Vec<usize> = back.iter().map(|&i| memory.shape().dims()[i]).collect();
                    let offset = (start - self.ranges[input].first) / size;
                    out.push(Computed::View(input, shape, strides, offset as isize));
                    continue;
                }
            }
            // Neither overlaps the last one that begins before its end, nor is read by later runs.
            let shared = taken.range(..end).next_back().is_some_and(|(_, &b)| start < b)
                || self.captured.as_ref().is_some_and(|replay| replay.segment.holds(x));
            if source.is_none() && memory.is_dense() && !shared && x.numel() > 0 {
                taken.insert(start, end);
                out.push(Computed::Memory(memory, back.clone()));
            } else {
                let copy = self.place.copy(x).map_err(failed)?;
                out.push(Computed::Memory(copy, back.clone()));
            }
        }
        Ok(out)
    }
}

/// Seeds the random stream; returns its state before.
fn seeded(seed: u64) -> Generator {
    let before = thalweg::random_state();
    thalweg::manual_seed(seed);
    before
}

/// Settings of the calling program, restored after a run.
struct Restore {
    device: Option<Device>,
    atomic: bool,
    random: Option<Generator>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        thalweg::set_default_device(self.device);
        thalweg::set_atomic_sums(self.atomic);
        if let Some(state) = self.random.take() {
            thalweg::set_random_state(state);
        }
    }
}

const _: () = assert!(MAX_RANK == 8, "lower.py rejects tensors of rank over 8");
