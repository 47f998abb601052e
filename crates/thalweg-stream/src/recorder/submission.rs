//! Capturing what a recorder holds, and submitting a captured segment. See [`crate::capture`].

use super::{Recorder, Wanted};
use crate::DeviceRef;
use crate::capture::{CaptureBegin, Captured, CapturedSegment, Source};
use crate::mode::Mode;
use crate::tunable::TUNABLES;
use crate::value::Value;
use std::sync::Arc;
use thalweg_runtime::count;

impl Recorder {
    /// Beginning of a capture; `None` while operations wait, which the captured ones could depend on.
    pub fn begin_capture(&mut self, device: DeviceRef) -> Option<CaptureBegin> {
        if !self.ops.is_empty() {
            return None;
        }
        self.capturing = true;
        self.check_at = TUNABLES.max_operations.get();
        Some(CaptureBegin::new(self.mark(device)))
    }

    /// Segment of everything that was recorded since the beginning; `None` if the stream was cut since, if the thread
    /// has looked at data, or for what [`CapturedSegment::of`] refuses.
    pub fn end_capture(
        &self,
        begin: &CaptureBegin,
        operands: &[&Arc<Value>],
        results: &[&Arc<Value>],
    ) -> Option<CapturedSegment> {
        let cut = begin.mark.epoch != self.epoch || self.cut_next || self.turns > 0;
        if cut || begin.has_read() || !self.again.is_empty() || self.ops.is_empty() {
            return None;
        }
        let captured = Captured {
            device: self.device,
            mode: self.mode,
            ops: &self.ops,
            values: &self.values,
            ints: &self.ints,
            scalars: &self.scalars,
            inputs: &self.inputs,
            input_sizes: &self.input_sizes,
            sites: &self.sites,
        };
        CapturedSegment::of(&captured, operands, results)
    }

    /// Runs a captured segment on other operands, with new keys of random numbers. `None`, with nothing run, if
    /// operations wait or the mode or an operand is another one.
    pub fn submit(
        &mut self,
        segment: &CapturedSegment,
        mode: Mode,
        operands: &[&Arc<Value>],
        keys: impl Iterator<Item = u64>,
    ) -> Option<Vec<Arc<Value>>> {
        if !self.ops.is_empty() || mode != segment.mode || !segment.accepts(operands) {
            return None;
        }
        if mode != self.mode {
            self.change_mode(mode);
        }
        let mut lists = segment.take();
        std::mem::swap(&mut self.ops, &mut lists.ops);
        std::mem::swap(&mut self.values, &mut lists.values);
        std::mem::swap(&mut self.ints, &mut lists.ints);
        self.scalars.extend_from_slice(&segment.scalars);
        segment.key_indices().iter().zip(keys).for_each(|(&at, key)| self.scalars[at as usize] = key);
        self.sites.extend_from_slice(&segment.sites);
        let outside = |source: &Source| match source {
            Source::Operand(i) => operands[*i as usize].clone(),
            Source::Constant(v) => v.clone(),
            Source::Op(_) => unreachable!("an input is no operation's result"),
        };
        for source in &segment.inputs {
            let v = outside(source);
            v.note_read();
            self.inputs.push(Some(v));
        }
        for op in segment.live.iter() {
            let (shape, dtype) = (*self.values[op].shape(), self.values[op].dtype());
            self.values[op] = self.next_value(op, &shape, dtype);
        }
        let results = segment.results.iter().map(|source| match source {
            Source::Op(op) => self.values[*op as usize].clone(),
            other => outside(other),
        });
        let results = results.collect();
        self.recognizer.follow(segment, &self.ops);
        self.live.clone_from(&segment.live);
        self.kept.reset(self.ops.len());
        self.sizes.clear();
        self.sizes.extend_from_slice(&segment.sizes);
        count(|c| c.captured_runs += 1);
        self.run_segment(Wanted::All);
        self.note_checks();
        for op in segment.live.iter() {
            self.values[op] = segment.placeholder(op).clone();
        }
        std::mem::swap(&mut self.ops, &mut lists.ops);
        std::mem::swap(&mut self.values, &mut lists.values);
        std::mem::swap(&mut self.ints, &mut lists.ints);
        segment.put_back(lists);
        self.begin_segment();
        Some(results)
    }
}
