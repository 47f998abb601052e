//! Running an instance: allocates results, launches kernels in order as one batch, resolves the live-outs.

use crate::DeviceRef;
use crate::calibration::ahead::Ahead;
use crate::history::{History, Watch};
use crate::reach::may_be_out_of_range;
use crate::ready::{Numbered, Ready};
use crate::run_checks::{Inherited, OfRun, PendingIndexCheck};
use crate::site::Site;
use crate::value::{Storage, Value};
use std::sync::Arc;
use std::time::Instant;
use thalweg_fusion::{BitSet, CellLocation, Instance, Launch, Schedule, Slot, Step};
use thalweg_ir::{Arg, RelOp, Shape};
use thalweg_kernel::Moved;
use thalweg_kernel::reference::{self, Array};
use thalweg_runtime::{Allocation, Buffer, Device, Error, Program, Timing, count, trace};

/// Record of a run: facts that the plan alone does not determine.
#[derive(Default)]
pub(crate) struct Run {
    /// Schedule that ran; `None` before the run.
    pub schedule: Option<Arc<Numbered>>,
    /// Bytes allocated by each launch.
    pub allocated: Vec<usize>,
    /// Number of outputs that reused an input's memory, by launch.
    pub in_place: Vec<usize>,
    /// Traffic of each launch.
    pub moved: Vec<Moved>,
    /// Nanoseconds of each launch, if requested: by the device's clock where launches are asynchronous, else by the
    /// host's, including the allocation of results.
    pub ns: Vec<u64>,
    /// Timing of the whole run, which the device finishes later, if requested.
    pub timing: Option<Arc<dyn Timing>>,
}

/// Maximum number of launches, with events between them, that the host can queue while the device is busy with one
/// launch of [`Ahead`].
const TIMED: usize = 8;

/// Timing that is requested of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timed {
    /// No timing.
    No,
    /// Time of each launch; the host waits for them.
    Launches,
    /// Time of the whole batch, by the device's clock.
    Batch,
}

struct Running<'a> {
    device: &'a dyn Device,
    inputs: &'a mut [Option<Arc<Value>>],
    cells: Vec<Option<Buffer>>,
    /// Arena of the intermediates, held as long as launches need it.
    arena: Option<Buffer>,
    /// Number of launches that have run.
    finished: usize,
    /// Timings of launches, if requested.
    clocks: Vec<Option<Arc<dyn Timing>>>,
    done: Run,
}

/// Runs an instance by a schedule and resolves the live-outs. `ops` are the segment's operations; `sites` are the call
/// sites of some of them.
pub(crate) fn run(
    (ready, schedule): (&Ready, Arc<Numbered>),
    device: DeviceRef,
    (ops, sites): (&[RelOp], &[(u32, Site)]),
    (values, history): (&[Arc<Value>], Option<&Arc<History>>),
    inputs: &mut [Option<Arc<Value>>],
    scalars: &[u64],
    timed: Timed,
) -> Result<Run, Error> {
    let instance = &ready.instance;
    let mut r = Running {
        device: &**device.device(),
        inputs,
        cells: vec![None; schedule.cells.len()],
        arena: None,
        finished: 0,
        clocks: vec![],
        done: Run::default(),
    };
    let inherited = Inherited::of(r.inputs);
    // Only devices with asynchronous launches report failures later.
    let later = r.device.throughput().is_some() && may_be_out_of_range(instance);
    let reach = (later || !inherited.is_empty()).then(|| {
        let shape = |arg: Arg| match arg {
            Arg::Op(o) => *values[o].shape(),
            Arg::Input(n) => r.inputs[n].as_ref().map_or_else(|| Shape::new(&[]), |v| *v.shape()),
            _ => Shape::new(&[]),
        };
        ready.reach(ops, r.inputs.len(), &shape).clone()
    });
    // For separate times, each launch is queued by itself.
    let each = timed == Timed::Launches;
    let key = (!each).then_some(schedule.number);
    if each && r.device.throughput().is_some() {
        // The device's own time is measured, not the host's queueing. Launched outside of the batch, which numbers its
        // programs.
        Ahead::of(device)?.launch(1 + schedule.launches.len() / TIMED)?;
    }
    let batch = r.device.batch(key, timed == Timed::Batch, &mut || r.launches(ready, &schedule, scalars, each));
    let batch = batch.inspect_err(|e| {
        if matches!(e, Error::Index(_)) {
            r.resolve_finished(instance, &schedule, values);
        }
    })?;
    r.ask_clocks()?;
    let mut checks = reach.map(|reach| {
        let steps = || schedule.launches.iter().map(|l| l.step as u32).collect();
        OfRun::new(
            reach,
            inherited,
            batch.check.map(|check| PendingIndexCheck { check, steps: steps(), sites: sites.into() }),
        )
    });
    for (number, (output, &slot)) in instance.outputs.iter().zip(&schedule.outputs).enumerate() {
        let buffer = match slot {
            Slot::Input(i) => r.input_buffer(i).clone(),
            Slot::Buffer(c) => match &r.cells[c] {
                Some(buffer) => buffer.clone(),
                // A result without elements is written by no launch.
                None => r.device.allocate(schedule.cells[c])?,
            },
        };
        let watch = history.map(|h| Watch::new(h, output.op));
        let checks = checks.as_mut().and_then(|checks| checks.of_output(number));
        values[output.op].resolve_watched(Ok(Storage { buffer, view: output.view }), checks, watch);
    }
    count(|c| {
        c.arena_bytes += schedule.arena.bytes as u64;
        c.recomputed_launches += schedule.repeated as u64;
    });
    r.done.timing = batch.timing;
    r.done.schedule = Some(schedule);
    Ok(r.done)
}

impl Running<'_> {
    fn launches(&mut self, ready: &Ready, schedule: &Schedule, scalars: &[u64], timed: bool) -> Result<(), Error> {
        let mut bits = Vec::new();
        for (at, launch) in schedule.launches.iter().enumerate() {
            let step = &ready.instance.steps[launch.step];
            bits.clear();
            bits.extend(step.scalars.iter().map(|s| s.bits(scalars)));
            if schedule.arena.bytes > 0 && at == schedule.arena.first {
                self.arena = Some(self.device.allocate(schedule.arena.bytes)?);
            }
            if timed {
                let (device, begin) = (self.device, Instant::now());
                let clock = device.clocked(&mut || self.launch(schedule, launch, (step, ready), &bits))?;
                self.done.ns.push(begin.elapsed().as_nanos() as u64);
                self.clocks.push(clock);
            } else {
                self.launch(schedule, launch, (step, ready), &bits)?;
            }
            self.finished += 1;
            if at == schedule.arena.last {
                // The results stored in the arena hold references to it until they die.
                self.arena = None;
            }
        }
        Ok(())
    }

    /// Waits for launches timed by the device, and stores their times.
    fn ask_clocks(&mut self) -> Result<(), Error> {
        if self.clocks.iter().any(Option::is_some) {
            self.device.synchronize()?;
        }
        for (ns, clock) in self.done.ns.iter_mut().zip(&self.clocks) {
            if let Some(clock) = clock {
                *ns = clock.elapsed()?.expect("it has run");
            }
        }
        Ok(())
    }

    /// Resolves the results that earlier launches have written, after one found an index out of range.
    fn resolve_finished(&self, instance: &Instance, schedule: &Schedule, values: &[Arc<Value>]) {
        let finished = &schedule.launches[..self.finished];
        let written = |c: usize| {
            let writes = |l: &Launch| l.operands[instance.steps[l.step].first_write..].contains(&Slot::Buffer(c));
            finished.iter().any(writes)
        };
        for (output, &slot) in instance.outputs.iter().zip(&schedule.outputs) {
            let buffer = match slot {
                Slot::Buffer(c) if written(c) => self.cells[c].clone(),
                _ => None,
            };
            if let Some(buffer) = buffer {
                values[output.op].resolve(Ok(Storage { buffer, view: output.view }));
            }
        }
    }

    fn launch(
        &mut self,
        schedule: &Schedule,
        launch: &Launch,
        (step, ready): (&Step, &Ready),
        scalars: &[u64],
    ) -> Result<(), Error> {
        let (mut allocated, mut in_place) = (0, 0);
        for slot in &launch.operands[step.first_write..] {
            let Slot::Buffer(c) = *slot else { unreachable!("a kernel writes buffers") };
            let bytes = schedule.cells[c];
            let buffer = match schedule.places[c] {
                CellLocation::Over(from) => {
                    in_place += 1;
                    self.take(from)
                }
                CellLocation::Arena(offset) => {
                    allocated += bytes;
                    Allocation::part(self.arena.as_ref().expect("it is there while it is needed"), offset, bytes)
                }
                CellLocation::Own => {
                    allocated += bytes;
                    self.device.allocate(bytes)?
                }
            };
            self.cells[c] = Some(buffer);
        }
        // No launch writes a value without elements, but a reduction or product of such a value does have elements.
        for slot in &launch.operands[..step.first_write] {
            if let Slot::Buffer(c) = *slot
                && schedule.cells[c] == 0
                && self.cells[c].is_none()
            {
                self.cells[c] = Some(self.device.allocate(0)?);
            }
        }
        let operands: Vec<&Buffer> = launch.operands.iter().map(|&slot| self.buffer(slot)).collect();
        let label =
            || format!("kernel {} ({} bytes in, {} out)", step.kernel_index, step.bytes_read, step.bytes_written);
        let program: &dyn Program = &*ready.programs[launch.step];
        let done = trace::span("kernel", label, || program.launch(&step.geometry, &operands, scalars));
        // The plan knows which gather failed.
        done.map_err(|e| match (e, &step.out_of_range) {
            (Error::Index(_), Some(which)) => Error::Index(which.clone()),
            (e, _) => e,
        })?;
        drop(operands);
        let moved = ready.moved(launch.step, in_place > 0);
        count(|c| {
            c.kernels += 1;
            c.bytes_read += moved.read;
            c.bytes_written += moved.written;
            c.bytes_allocated += allocated as u64;
            c.reused_in_place += in_place as u64;
        });
        self.done.allocated.push(allocated);
        self.done.in_place.push(in_place);
        self.done.moved.push(moved);
        for &c in &launch.release {
            self.cells[c] = None;
        }
        for &i in &launch.release_inputs {
            self.inputs[i] = None;
        }
        Ok(())
    }

    /// Takes the memory of an operand that dies in this launch, to be overwritten by an output.
    fn take(&mut self, from: Slot) -> Buffer {
        let buffer = match from {
            Slot::Buffer(c) => self.cells[c].take(),
            // The segment held the last reference when the schedule was chosen, and the value the last one to its
            // memory. Nobody can have obtained another since.
            Slot::Input(i) => {
                let value = self.inputs[i].as_mut().and_then(Arc::get_mut);
                value.and_then(Value::take_storage).map(|s| s.buffer)
            }
        };
        let buffer = buffer.expect("what is written over is there");
        buffer.uses().renew();
        buffer
    }

    fn buffer(&self, slot: Slot) -> &Buffer {
        match slot {
            Slot::Input(i) => self.input_buffer(i),
            Slot::Buffer(c) => self.cells[c].as_ref().expect("an operand is there before it is read"),
        }
    }

    fn input_buffer(&self, i: usize) -> &Buffer {
        match self.inputs[i].as_ref().and_then(|v| v.state()) {
            Some(Ok(storage)) => &storage.buffer,
            _ => unreachable!("inputs are computed before they are recorded"),
        }
    }
}

/// Runs a segment by the reference interpreter and resolves the live-outs.
pub(crate) fn interpret(
    ops: &[RelOp],
    values: &[Arc<Value>],
    live: &BitSet,
    ints: &[i64],
    scalars: &[u64],
    inputs: &[Option<Arc<Value>>],
) -> Result<(), Error> {
    let shapes: Vec<Shape> = values.iter().map(|v| *v.shape()).collect();
    let arrays: Result<Vec<Array>, Error> =
        inputs.iter().flatten().map(|v| Ok(Array::from_bytes(*v.shape(), v.dtype(), &v.bytes()?))).collect();
    let results = reference::run(ops, &shapes, ints, scalars, &arrays?).map_err(|e| Error::Index(e.to_string()))?;
    for i in live.iter() {
        let v = &values[i];
        let device = v.device().device();
        let bytes = results[i].to_bytes();
        let buffer = device.allocate(bytes.len())?;
        device.write(&buffer, &bytes)?;
        v.resolve(Ok(Storage { buffer, view: thalweg_ir::View::contiguous(*v.shape()) }));
    }
    Ok(())
}
