//! Outcomes of a failed segment: an index was out of range, or a foreign operation does not compile.
//!
//! In: the segment, the call sites of its gathers and scatters ([`Site`]), and those inputs that still hold their data.
//! Out: for each result its value or its error. Only results that depend on the failure fail, with an error that names
//! the caller's function and line, the index and the axis. Other live results are computed by a separate run. An input
//! that the failed run overwrote or released cannot be read again: what depends on it fails as well, unless it had been
//! written already. The same applies when deferred or dropped results are computed after all ([`outcomes`]).
//!
//! Only failures take this path. A device with asynchronous launches reports later
//! ([`deferred_check`](crate::deferred_check)). Nothing is recomputed there: its launches go on, and results that do
//! not depend on an index out of range are correct.

use crate::DeviceRef;
use crate::mode::Mode;
use crate::outside::{Outside, Rerun, part_on, run_outside};
use crate::site::{Counted, Site};
use crate::store::Entry;
use crate::value::{Storage, Value};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thalweg_fusion::{BitSet, Segment, Subgraph, ValueId};
use thalweg_ir::{Arg, OpClass};
use thalweg_runtime::Error;

/// Failed segment, and those of its inputs and results that still exist.
pub(crate) struct Failure<'a> {
    pub device: DeviceRef,
    pub mode: Mode,
    pub stream: u32,
    pub segment: Segment<'a>,
    pub sites: &'a [(u32, Site)],
    /// Inputs that still hold their data; `None` for the others.
    pub inputs: &'a [Option<Arc<Value>>],
    /// Values of all results; those written before the failure are resolved.
    pub values: &'a [Arc<Value>],
}

/// Values that a run of part of a failed segment may start from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Inputs of the segment only.
    Inputs,
    /// Inputs of the segment, and results that were written before the failure.
    Results,
}

/// Outcomes of the results of a failed segment, after the failing operation was found.
#[derive(Default)]
pub(crate) struct Sorted {
    /// Error of each operation that could not be computed.
    pub errors: Vec<Option<Error>>,
    /// Values of wanted results that do not depend on the failure.
    pub made: Vec<(usize, Result<Storage, Error>)>,
}

/// Index tensors that a failed segment computes, read back to find the index that is out of range. They are recomputed
/// from the segment's inputs, one kernel per operation, so that a defect of the planned kernels is not taken for a
/// mistake of the program. One run computes all index tensors that depend on the same gathers and scatters, so hundreds
/// of gathers by independent indices take one run.
struct Indices<'a> {
    /// Operations that the wanted results depend on.
    needed: &'a BitSet,
    /// Bytes of each index tensor by operation; `None` where the run failed.
    computed: FxHashMap<usize, Option<Vec<u8>>>,
}

impl Indices<'_> {
    /// Bytes of the index tensor `o` of operation `i`, where `errors` holds the outcome of all operations before `i`.
    fn get(&mut self, of: &Failure<'_>, (i, o): (usize, usize), errors: &[Option<Error>]) -> Option<Vec<u8>> {
        if !self.computed.contains_key(&o) {
            let run = self.computable(of, i, errors);
            let bytes =
                |(o, made): (usize, Storage)| Value::stored(of.device, made, of.segment.ops[o].dtype).bytes().ok();
            match of.compute(&run, Source::Inputs) {
                Ok(made) => self.computed.extend(run.iter().copied().zip(made).map(|m| (m.0, bytes(m)))),
                Err(_) => self.computed.extend(run.iter().map(|&o| (o, None))),
            }
        }
        self.computed.get(&o)?.clone()
    }

    /// Index tensors of operations from `i` on that can be computed: those that depend on nothing that has failed, may
    /// be out of range or is gone.
    fn computable(&self, of: &Failure<'_>, i: usize, errors: &[Option<Error>]) -> Vec<usize> {
        let ops = of.segment.ops;
        let mut open = BitSet::new(ops.len());
        let mut found = BitSet::new(ops.len());
        for (k, rel) in ops.iter().enumerate() {
            let index = rel.op.info().index_arg.and_then(|n| rel.args().nth(n as usize));
            let depends = rel.args().any(|arg| match arg {
                Arg::Op(o) => open.has(o),
                Arg::Input(n) => of.inputs[n].is_none(),
                _ => false,
            });
            if depends || errors.get(k).is_some_and(Option::is_some) || k >= i && rel.op.info().may_fail() {
                open.insert(k);
            }
            if let (true, Some(Arg::Op(o))) = (k >= i && self.needed.has(k), index)
                && !open.has(o)
                && !self.computed.contains_key(&o)
            {
                found.insert(o);
            }
        }
        found.iter().collect()
    }
}

impl Failure<'_> {
    /// Outcome of each result in `wanted` after the run failed with `error`; `None` if no failing operation was found.
    pub fn sort_out(&self, wanted: &BitSet, error: &Error) -> Option<Sorted> {
        let ops = self.segment.ops;
        let needed = self.ancestors(wanted.iter(), Source::Results);
        let mut indices = Indices { needed: &needed, computed: FxHashMap::default() };
        let mut errors: Vec<Option<Error>> = Vec::with_capacity(ops.len());
        for (i, rel) in ops.iter().enumerate() {
            if self.is_there(i) {
                errors.push(None);
                continue;
            }
            let of_args = rel.args().find_map(|arg| match arg {
                Arg::Op(o) => errors[o].clone(),
                _ => None,
            });
            // If an input is gone, it is unknown whether this operation failed.
            let is_lost = rel.args().any(|arg| matches!(arg, Arg::Input(n) if self.inputs[n].is_none()));
            let info = rel.op.info();
            let mut own = || match info.class {
                _ if info.index_arg.is_some() => self.out_of_range(i, |o| indices.get(self, (i, o), &errors)),
                OpClass::Foreign if !is_lost => self.not_compiled(i),
                _ => None,
            };
            let mut found = || own().or_else(|| is_lost.then(|| error.clone()));
            errors.push(of_args.or_else(|| if needed.has(i) { found() } else { None }));
        }
        if errors.iter().all(Option::is_none) {
            return None;
        }
        let rest: Vec<usize> = wanted.iter().filter(|&i| errors[i].is_none() && !self.is_there(i)).collect();
        let made = self.compute(&rest, Source::Results);
        let of = |(n, &i): (usize, &usize)| (i, made.as_ref().map(|all| all[n].clone()).map_err(Error::poisoned));
        let made = rest.iter().enumerate().map(of).collect();
        Some(Sorted { errors, made })
    }

    fn is_there(&self, i: usize) -> bool {
        matches!(self.values[i].state(), Some(Ok(_)))
    }

    /// Closure of these operations under ancestors, down to the inputs or to values that are resolved.
    fn ancestors(&self, of: impl Iterator<Item = usize>, from: Source) -> BitSet {
        let mut all = BitSet::new(self.segment.ops.len());
        let is_computed = |i: usize| from == Source::Inputs || !self.is_there(i);
        of.filter(|&i| is_computed(i)).for_each(|i| all.insert(i));
        for i in (0..self.segment.ops.len()).rev() {
            if all.has(i) {
                for arg in self.segment.ops[i].args() {
                    if let Arg::Op(o) = arg
                        && is_computed(o)
                    {
                        all.insert(o);
                    }
                }
            }
        }
        all
    }

    /// Error of a gather or scatter if its index is out of range; `computed` returns the bytes of an index that the
    /// segment computes.
    fn out_of_range(&self, i: usize, computed: impl FnOnce(usize) -> Option<Vec<u8>>) -> Option<Error> {
        let rel = &self.segment.ops[i];
        let shape = |arg: Arg| match arg {
            Arg::Op(o) => Some(self.segment.shapes[o]),
            Arg::Input(n) => Some(self.segment.inputs[n].1.shape),
            _ => None,
        };
        let mut args = rel.args();
        let (from, index) = (args.next()?, args.next()?);
        let axis = (rel.attr & 7) as usize;
        let size = shape(from)?[axis] as i64;
        let bytes = match index {
            Arg::Input(n) => self.inputs[n].as_ref()?.bytes().ok()?,
            // Where an input is gone, only the index that the planned kernels wrote is left.
            Arg::Op(o) => computed(o).or_else(|| self.is_there(o).then(|| self.values[o].bytes().ok())?)?,
            _ => return None,
        };
        let places = bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes")));
        let wrong = places.into_iter().find(|&v| v < 0 || v >= size)?;
        let site = self.sites.iter().find(|s| s.0 as usize == i).map(|s| s.1);
        let Some(Site { name, at, counted }) = site else {
            let name = rel.op.name();
            return Some(Error::Index(format!("{name}: index {wrong} is out of range for axis {axis} of size {size}")));
        };
        if counted == Counted::Computed {
            let message = format!("{name}: an index of its own is {wrong}, for axis {axis} of size {size}, at {at}");
            return Some(Error::Internal { message, report: None });
        }
        Some(Error::Index(match counted {
            Counted::Combined => format!("{name}: an index is out of range, at {at}"),
            _ => {
                // A negative index was shifted by the size of the axis.
                let given = if counted == Counted::FromEnd && wrong < 0 { wrong - size } else { wrong };
                format!("{name}: index {given} is out of range for axis {axis} of size {size}, at {at}")
            }
        }))
    }

    /// Error of a foreign operation that does not compile, with the line of its call.
    fn not_compiled(&self, i: usize) -> Option<Error> {
        let error = self.compute(&[i], Source::Results).err().filter(|e| matches!(e, Error::Compile { .. }))?;
        let Some((_, Site { name, at, .. })) = self.sites.iter().find(|s| s.0 as usize == i) else {
            return Some(error);
        };
        Some(Error::Host { operation: (*name).into(), at, cause: Arc::new(error) })
    }

    /// Computes results of operations that depend on nothing out of range, by a separate run.
    fn compute(&self, wanted: &[usize], from: Source) -> Result<Vec<Storage>, Error> {
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        let part = Subgraph::of(self.segment, &self.ancestors(wanted.iter().copied(), from));
        let places: Vec<usize> = wanted.iter().map(|&i| part.place(i).expect("it is among its ancestors")).collect();
        let mut live = BitSet::new(part.from.len());
        places.iter().for_each(|&p| live.insert(p));
        let find = |v: &ValueId| match *v {
            ValueId::Input(n) => self.inputs[n].clone().expect("what depends on one that is gone has failed"),
            ValueId::Op(o) => self.values[o].clone(),
        };
        let inputs: Vec<Arc<Value>> = part.inputs.iter().map(find).collect();
        let (owned, sizes) = part_on(part.segment, &inputs, &live)?;
        let fused = self.mode.fused && from == Source::Results;
        let mut segment = owned.as_segment();
        segment.mode.fused = fused;
        let recorded = (Mode { fused, ..self.mode }, self.stream);
        let outside = Outside { device: self.device, recorded, segment, sites: &[] };
        let (made, done) = run_outside(&outside, &outside.entry(), &sizes, inputs, Rerun::Failure);
        done?;
        places.iter().map(|&p| made[p].outcome()).collect()
    }
}

/// Outcomes of wanted results, by operation.
pub(crate) type Outcomes = Vec<Option<Result<Storage, Error>>>;

/// Runs a segment without a stream on inputs of those sizes. Returns the outcome of each wanted result.
pub(crate) fn outcomes(
    of: &Outside<'_>,
    entry: &Arc<Entry>,
    sizes: &[i64],
    inputs: Vec<Arc<Value>>,
    wanted: &BitSet,
) -> Outcomes {
    let (mut values, done) = run_outside(of, entry, sizes, inputs.clone(), Rerun::Deferred);
    let &Outside { device, recorded: (mode, stream), segment, sites } = of;
    let mut failed = done.err();
    let indexed = |e: &&Error| matches!(e, Error::Index(_)) && !mode.reference;
    let sorted = failed.as_ref().filter(indexed).and_then(|error| {
        let inputs: Vec<Option<Arc<Value>>> = inputs.iter().cloned().map(Some).collect();
        let failure = Failure { device, mode, stream, segment, sites, inputs: &inputs, values: &values };
        failure.sort_out(wanted, error)
    });
    // No operation is at fault: the planned kernels are wrong, and the segment runs unfused.
    if sorted.is_none() && failed.as_ref().filter(indexed).is_some() {
        let mut outside = Outside { recorded: (Mode { fused: false, ..mode }, stream), ..*of };
        outside.segment.mode.fused = false;
        let (unfused, done) = run_outside(&outside, &outside.entry(), sizes, inputs, Rerun::Unfused);
        (values, failed) = (unfused, done.err());
    }
    let Sorted { errors, made } = sorted.unwrap_or_default();
    let mut all: Outcomes = vec![None; values.len()];
    for i in wanted.iter() {
        let error = errors.get(i).and_then(|e| e.as_ref()).or(failed.as_ref());
        all[i] = Some(match (error, values[i].state()) {
            (Some(error), None) => Err(error.clone()),
            _ => values[i].outcome(),
        });
    }
    made.into_iter().for_each(|(i, made)| all[i] = Some(made));
    all
}
