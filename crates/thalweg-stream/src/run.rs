//! Running an instance: memory for what is written, launches in order, results handed over.

use crate::DeviceRef;
use crate::deferred::{History, Watch};
use crate::store::Ready;
use crate::value::{Storage, Value};
use std::sync::Arc;
use std::time::Instant;
use thalweg_fusion::{BitSet, Slot, Step};
use thalweg_ir::{RelOp, Shape};
use thalweg_kernel::reference::{self, Array};
use thalweg_runtime::{Buffer, Device, Error, Program, count, trace};

/// What a run did that the plan alone does not say.
#[derive(Default)]
pub(crate) struct Run {
    /// Bytes allocated by each launch.
    pub allocated: Vec<usize>,
    /// Outputs that took an input's place, by launch.
    pub in_place: Vec<usize>,
    /// Nanoseconds of each launch, memory for its results included, where somebody asked.
    pub ns: Vec<u64>,
}

struct Running<'a> {
    device: &'a dyn Device,
    inputs: &'a mut [Option<Arc<Value>>],
    buffers: Vec<Option<Buffer>>,
    /// Of a launch, for each operand that is read, the written one that took its memory; `usize::MAX` for none.
    taken: Vec<usize>,
    done: Run,
}

/// Runs an instance and settles the live-outs; `timed`: with the time of each launch.
pub(crate) fn run(
    ready: &Ready,
    device: DeviceRef,
    (values, history): (&[Arc<Value>], Option<&Arc<History>>),
    inputs: &mut [Option<Arc<Value>>],
    scalars: &[u64],
    timed: bool,
) -> Result<Run, Error> {
    let instance = &ready.instance;
    let mut r = Running {
        device: &**device.device(),
        inputs,
        buffers: vec![None; instance.buffers.len()],
        taken: vec![],
        done: Run::default(),
    };
    let mut bits = Vec::new();
    for (step, program) in instance.steps.iter().zip(&ready.programs) {
        bits.clear();
        bits.extend(step.scalars.iter().map(|s| s.bits(scalars)));
        let begin = timed.then(Instant::now);
        r.launch(step, &**program, &instance.buffers, &bits)?;
        r.done.ns.extend(begin.map(|b| b.elapsed().as_nanos() as u64));
    }
    for output in &instance.outputs {
        let buffer = match output.slot {
            Slot::Input(i) => r.input_buffer(i).clone(),
            Slot::Buffer(b) => match &r.buffers[b] {
                Some(buffer) => buffer.clone(),
                // Nothing was launched for a result without elements.
                None => r.device.allocate(instance.buffers[b])?,
            },
        };
        let watch = history.map(|h| Watch::new(h, output.op));
        values[output.op].settle_watched(Ok(Storage { buffer, view: output.view }), watch);
    }
    Ok(r.done)
}

impl Running<'_> {
    fn launch(&mut self, step: &Step, program: &dyn Program, sizes: &[usize], scalars: &[u64]) -> Result<(), Error> {
        let (mut allocated, mut in_place) = (0, 0);
        // Operands whose memory an output took over: where they are read from now.
        self.taken.clear();
        self.taken.resize(if step.in_place.is_empty() { 0 } else { step.first_write }, usize::MAX);
        let mut pairs = &step.in_place[..];
        for w in step.first_write..step.operands.len() {
            let Slot::Buffer(b) = step.operands[w] else { unreachable!("a kernel writes buffers") };
            let (own, rest) = pairs.split_at(pairs.iter().take_while(|p| p.0 == w).count());
            pairs = rest;
            if !own.is_empty()
                && !program.rereads_for(w)
                && let Some(buffer) = self.reuse(step, own, sizes[b])
            {
                self.buffers[b] = Some(buffer);
                in_place += 1;
                continue;
            }
            self.buffers[b] = Some(self.device.allocate(sizes[b])?);
            allocated += sizes[b];
        }
        // Nothing was launched for a value without elements, but a reduction or product of it has some.
        for slot in &step.operands[..step.first_write] {
            if let Slot::Buffer(b) = *slot
                && sizes[b] == 0
                && self.buffers[b].is_none()
            {
                self.buffers[b] = Some(self.device.allocate(0)?);
            }
        }
        let operands: Vec<&Buffer> = step
            .operands
            .iter()
            .enumerate()
            .map(|(n, &slot)| match self.taken.get(n) {
                Some(&written) if written != usize::MAX => self.buffer(step.operands[written]),
                _ => self.buffer(slot),
            })
            .collect();
        let label =
            || format!("kernel {} ({} bytes in, {} out)", step.kernel_index, step.bytes_read, step.bytes_written);
        let done = trace::span("kernel", label, || program.launch(&step.geometry, &operands, scalars));
        // The plan knows which gather it was.
        done.map_err(|e| match (e, &step.out_of_range) {
            (Error::Index(_), Some(which)) => Error::Index(which.clone()),
            (e, _) => e,
        })?;
        drop(operands);
        count(|c| {
            c.kernels += 1;
            c.bytes_read += step.bytes_read as u64;
            c.bytes_written += step.bytes_written as u64;
            c.bytes_allocated += allocated as u64;
            c.reused_in_place += in_place as u64;
        });
        self.done.allocated.push(allocated);
        self.done.in_place.push(in_place);
        for &b in &step.release {
            self.buffers[b] = None;
        }
        for &i in &step.release_inputs {
            self.inputs[i] = None;
        }
        Ok(())
    }

    /// The memory of a read operand that dies in this launch and that nobody else can reach, for a written one of that many bytes. `pairs`: what it
    /// may take the place of.
    fn reuse(&mut self, step: &Step, pairs: &[(usize, usize)], bytes: usize) -> Option<Buffer> {
        for &(w, read) in pairs {
            if self.taken[read] != usize::MAX {
                continue;
            }
            let buffer = match step.operands[read] {
                Slot::Buffer(b) => self.buffers[b].take(),
                Slot::Input(i) => {
                    // Ours is the last handle, and the value's the last on its memory. A view of a small part would keep all of it.
                    let unshared = |v: &mut Value| {
                        let Some(Ok(s)) = v.state_mut() else { return None };
                        let fits = s.buffer.bytes() <= 2 * bytes && Arc::get_mut(&mut s.buffer).is_some();
                        fits.then(|| v.take_storage()).flatten().map(|s| s.buffer)
                    };
                    self.inputs[i].as_mut().and_then(Arc::get_mut).and_then(unshared)
                }
            };
            if buffer.is_some() {
                self.taken[read] = w;
                return buffer;
            }
        }
        None
    }

    fn buffer(&self, slot: Slot) -> &Buffer {
        match slot {
            Slot::Input(i) => self.input_buffer(i),
            Slot::Buffer(b) => self.buffers[b].as_ref().expect("an operand is there before it is read"),
        }
    }

    fn input_buffer(&self, i: usize) -> &Buffer {
        match self.inputs[i].as_ref().and_then(|v| v.state()) {
            Some(Ok(storage)) => &storage.buffer,
            _ => unreachable!("inputs are computed before they are recorded"),
        }
    }
}

/// Runs a segment by the reference interpreter and settles the live-outs.
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
        inputs.iter().flatten().map(|v| Ok(Array::from_bytes(*v.shape(), v.dtype(), &v.read()?))).collect();
    let results = reference::run(ops, &shapes, ints, scalars, &arrays?).map_err(|e| Error::Index(e.to_string()))?;
    for i in live.iter() {
        let v = &values[i];
        let device = v.device().device();
        let bytes = results[i].to_bytes();
        let buffer = device.allocate(bytes.len())?;
        device.write(&buffer, &bytes)?;
        v.settle(Ok(Storage { buffer, view: thalweg_ir::View::contiguous(*v.shape()) }));
    }
    Ok(())
}
