//! Recording the operations of a [`Template`] as one batch.

use super::{Recorder, Wanted};
use crate::DeviceRef;
use crate::mode::Mode;
use crate::template::{From, Link, MAX_OPERANDS, Mark, Template};
use crate::value::Value;
use std::sync::Arc;
use thalweg_ir::{Arg, RelArg, RelOp};

impl Recorder {
    /// Position at which the next operation is recorded.
    pub fn mark(&self, device: DeviceRef) -> Mark {
        Mark { device, epoch: self.epoch, at: self.ops.len(), ints: self.ints.len(), scalars: self.scalars.len() }
    }

    /// Template of the operations recorded since a mark; see [`Template::of`].
    pub fn template(&self, mark: Mark, operands: &[&Arc<Value>], results: &[&Arc<Value>]) -> Option<Template> {
        // Some functions record other operations for windows than for other tensors.
        if mark.epoch != self.epoch || self.has_windows || !self.again.is_empty() {
            return None;
        }
        let recorded: Vec<(RelOp, &Arc<Value>)> =
            self.ops[mark.at..].iter().copied().zip(&self.values[mark.at..]).collect();
        let value = |arg: Arg| match arg {
            Arg::Op(n) => Some(self.values[n].clone()),
            Arg::Input(n) => self.inputs[n].clone(),
            _ => None,
        };
        let (ints, scalars) = (&self.ints[mark.ints..], &self.scalars[mark.scalars..]);
        Template::of(&recorded, mark.at, (ints, scalars), value, operands, results)
    }

    /// Records the operations of a template. `None`, with nothing recorded, if an operand is not available here or has
    /// failed.
    pub fn record_batch<R>(
        &mut self,
        mode: Mode,
        template: &Template,
        operands: &[&Arc<Value>],
        scalars: impl Iterator<Item = (usize, u64)>,
        then: impl FnOnce(&mut dyn Iterator<Item = Arc<Value>>) -> R,
    ) -> Option<R> {
        if mode != self.mode {
            self.change_mode(mode);
        }
        let early = |v: &Value| v.epoch == self.epoch && (v.index as usize) < self.turns;
        if self.turns > 0 && operands.iter().any(|v| early(v)) {
            self.recognizer.cut_here();
            self.cut(Wanted::Nothing);
        } else if self.cut_next {
            self.cut(Wanted::Nothing);
        }
        let ready = |v: &Value| v.epoch == self.epoch || matches!(v.state(), Some(Ok(_)));
        if self.has_windows || operands.len() > MAX_OPERANDS || !operands.iter().all(|v| ready(v)) {
            return None;
        }
        let first = self.ops.len();
        let Template { ops, shapes, links, ints, results, .. } = template;
        self.ints.extend_from_slice(ints);
        let own = self.scalars.len();
        self.scalars.extend_from_slice(&template.scalars);
        scalars.for_each(|(i, bits)| self.scalars[own + i] = bits);
        self.ops.extend_from_slice(ops);
        // Inputs are numbered in order of their first read.
        let mut given = [RelArg::NONE; MAX_OPERANDS];
        for &Link { step, slot, from } in links {
            let arg = match from {
                From::Step(n) => RelArg::op(first + n as usize),
                From::Operand(n) if given[n as usize] != RelArg::NONE => given[n as usize],
                From::Operand(n) => {
                    let v = operands[n as usize];
                    given[n as usize] =
                        if v.epoch == self.epoch { RelArg::op(v.index as usize) } else { self.input(v) };
                    given[n as usize]
                }
            };
            self.ops[first + step as usize].args[slot as usize] = arg;
        }
        self.values.reserve(ops.len());
        for (i, (op, shape)) in ops.iter().zip(shapes).enumerate() {
            let value = self.next_value(first + i, shape, op.dtype);
            self.values.push(value);
        }
        // A loop that repeats in the middle of a template is cut after the template.
        let cut = self.ops[first..].iter().fold(false, |cut, op| self.recognizer.step(op) | cut);
        let result = |from: &From| match *from {
            From::Step(n) => self.values[first + n as usize].clone(),
            From::Operand(n) => operands[n as usize].clone(),
        };
        let results = then(&mut results.iter().map(result));
        if cut || self.ops.len() >= self.check_at || self.input_bytes > self.input_limit {
            self.maybe_cut(cut);
        }
        Some(results)
    }
}
