//! Order of launches with a low memory peak.
//!
//! List scheduling: of the steps whose operands are available, the one that increases memory in use least is next. So
//! operands are consumed early, and branches run one after the other instead of interleaved. Near linear: a step is
//! revisited only when it has become the last reader of an operand.

use crate::instance::Instance;
use crate::write::step::Slot;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Order of the steps with a low memory peak. `own`: bytes freed when each input dies.
pub(super) fn low(instance: &Instance, own: &[usize]) -> Vec<usize> {
    let mut list = List::new(instance, own);
    let mut order = Vec::with_capacity(instance.steps.len());
    while let Some(Reverse((change, step))) = list.ready.pop() {
        // Stale entry, from before the step became cheaper.
        if list.done[step] || change != list.change(step) {
            continue;
        }
        list.done[step] = true;
        order.push(step);
        list.ran(step);
    }
    order
}

struct List<'a> {
    instance: &'a Instance,
    own: &'a [usize],
    /// Steps that read each value; values are the buffers, then the inputs.
    readers: Vec<Vec<usize>>,
    /// Number of readers of each value that have not run; one more for outputs, which never die.
    left: Vec<usize>,
    /// Number of operands of each step that have not been computed yet.
    missing: Vec<usize>,
    done: Vec<bool>,
    ready: BinaryHeap<Reverse<(i64, usize)>>,
}

impl<'a> List<'a> {
    fn new(instance: &'a Instance, own: &'a [usize]) -> List<'a> {
        let values = instance.buffers.len() + own.len();
        let mut list = List {
            instance,
            own,
            readers: vec![vec![]; values],
            left: vec![0; values],
            missing: vec![0; instance.steps.len()],
            done: vec![false; instance.steps.len()],
            ready: BinaryHeap::new(),
        };
        let mut made = vec![false; values];
        for step in &instance.steps {
            step.operands[step.first_write..].iter().for_each(|&s| made[list.number(s)] = true);
        }
        for n in 0..instance.steps.len() {
            for value in list.reads(n) {
                list.readers[value].push(n);
                list.left[value] += 1;
                // A buffer that no step writes has no elements.
                list.missing[n] += made[value] as usize;
            }
        }
        for output in &instance.outputs {
            let value = list.number(output.slot);
            list.left[value] += 1;
        }
        for n in 0..instance.steps.len() {
            if list.missing[n] == 0 {
                list.ready.push(Reverse((list.change(n), n)));
            }
        }
        list
    }

    fn number(&self, slot: Slot) -> usize {
        match slot {
            Slot::Buffer(b) => b,
            Slot::Input(i) => self.instance.buffers.len() + i,
        }
    }

    fn bytes(&self, value: usize) -> usize {
        match value.checked_sub(self.instance.buffers.len()) {
            None => self.instance.buffers[value],
            Some(input) => self.own[input],
        }
    }

    /// Distinct values that a step reads.
    fn reads(&self, step: usize) -> Vec<usize> {
        let step = &self.instance.steps[step];
        let mut all: Vec<usize> = step.operands[..step.first_write].iter().map(|&s| self.number(s)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Change of memory in use caused by a step, in bytes.
    fn change(&self, step: usize) -> i64 {
        let s = &self.instance.steps[step];
        let written: usize = s.operands[s.first_write..].iter().map(|&s| self.bytes(self.number(s))).sum();
        let freed: usize = self.reads(step).into_iter().filter(|&v| self.left[v] == 1).map(|v| self.bytes(v)).sum();
        written as i64 - freed as i64
    }

    fn ran(&mut self, step: usize) {
        let mut cheaper = Vec::new();
        for value in self.reads(step) {
            self.left[value] -= 1;
            if self.left[value] == 1 {
                cheaper.extend(self.readers[value].iter().copied().filter(|&r| !self.done[r] && self.missing[r] == 0));
            }
        }
        let s = &self.instance.steps[step];
        for &slot in &s.operands[s.first_write..] {
            let value = self.number(slot);
            for k in 0..self.readers[value].len() {
                let reader = self.readers[value][k];
                self.missing[reader] -= 1;
                if self.missing[reader] == 0 {
                    cheaper.push(reader);
                }
            }
        }
        for reader in cheaper {
            self.ready.push(Reverse((self.change(reader), reader)));
        }
    }
}
