//! Why a value goes through memory: what keeps the kernel that writes it and the kernel that reads it from being one.
//!
//! Found out when somebody asks, by putting the two together once more. So a plan carries no reasons, whether it was searched for or read from disk.

use super::Rule;
use super::facts::Facts;
use super::kernels::{Kernels, candidate, candidate_ops};
use super::search::State;
use crate::cost::Costs;
use crate::plan::{Edge, KernelPlan, Plan, Reason};
use crate::segment::{BitSet, Segment, ValueId};
use std::rc::Rc;
use thalweg_ir::Op;

/// Every value that one kernel of the plan hands to another, in order of the operations, with the reason.
pub(crate) fn why(plan: &Plan, segment: Segment<'_>, costs: &Costs) -> Vec<Edge> {
    let facts = Facts::new(segment);
    // A bundle is as many kernels as it has parts.
    let parts = plan.kernels.iter().enumerate().flat_map(|(n, k)| k.parts().iter().map(move |p| (n, p)));
    let (number, stores): (Vec<usize>, Vec<Vec<usize>>) = parts.map(|(n, p)| (n, sorted(p.writes()))).unzip();
    let mut stored = BitSet::new(segment.ops.len());
    stores.iter().flatten().for_each(|&s| stored.insert(s));
    let mut kernels = Kernels::new(&facts, costs);
    let mut edges = vec![];
    // Without fusion there is nothing to find out, and no limit to how many kernels there are.
    let state = segment.mode.fused.then(|| state(&mut kernels, &stores, &stored)).flatten();
    for (to, reader) in stores.iter().enumerate() {
        let Ok(reader) = candidate(&facts, reader, &stored) else { continue };
        for &op in &reader.loads {
            let Some(from) = stores.iter().position(|s| s.binary_search(&op).is_ok()) else { continue };
            let reason = match &state {
                Some(state) => reason(&mut kernels, state, (from, to), op),
                None => Reason::FusionOff,
            };
            edges.push(Edge { op, from: number[from], to: number[to], reason });
        }
    }
    edges.sort_by_key(|e| (e.op, e.to));
    edges.dedup_by_key(|e| (e.op, e.from, e.to));
    edges
}

fn sorted(ops: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut all: Vec<usize> = ops.collect();
    all.sort_unstable();
    all
}

/// The plan as a state of the search.
fn state(kernels: &mut Kernels<'_, '_>, stores: &[Vec<usize>], stored: &BitSet) -> Option<State> {
    let made: Result<Vec<_>, Rule> = stores.iter().map(|s| kernels.get(s, stored)).collect();
    let made: Vec<Rc<_>> = made.ok()?;
    let time = made.iter().map(|k| k.time).sum();
    Some(State { stored: stored.clone(), kernels: made, time })
}

/// Why kernel `to` reads an operation's result from kernel `from`.
fn reason(kernels: &mut Kernels<'_, '_>, state: &State, (from, to): (usize, usize), op: usize) -> Reason {
    let facts = kernels.facts;
    let ix = &facts.ix;
    let name = |i: usize| ix.seg.ops[i].op.name();
    if let KernelPlan::Alone { op: reader, .. } = state.kernels[to].candidate.plan {
        return Reason::OperandOf(name(reader));
    }
    let gathers = |&&i: &&usize| ix.seg.ops[i].op == Op::Gather;
    let mut gathered = candidate_ops(&state.kernels[to].candidate).iter().filter(gathers);
    if gathered.any(|&g| {
        ix.tensors(g)
            .next()
            .is_some_and(|(_, v)| crate::movement::view_base(ix, v, &|i| state.stored.has(i)).0 == ValueId::Op(op))
    }) {
        return Reason::OperandOf(Op::Gather.name());
    }
    match &state.kernels[from].candidate.plan {
        KernelPlan::Alone { op: writer, .. } => return Reason::ResultOf(name(*writer)),
        KernelPlan::Map { column_stores, .. } if column_stores.contains(&op) => return Reason::SharedPass(name(op)),
        KernelPlan::Map { .. } | KernelPlan::Together { .. } => {}
    }
    let stores = sorted(state.kernels[from].stores.iter().chain(&state.kernels[to].stores).copied());
    let one = state.with(kernels, (state.stored.clone(), &[]), &[from, to], &[stores]);
    let slower = |time: u64| time.saturating_sub(state.time) / 1000;
    match one {
        Ok(one) => return Reason::Slower(slower(one.time)),
        Err(Rule::Full) => return Reason::KernelFull,
        Err(Rule::OtherRows | Rule::ReadElsewhere | Rule::NoRows) if facts.fold_of.contains_key(&op) => {
            return Reason::OtherRows(name(facts.fold_of[&op]));
        }
        Err(_) if facts.required.has(op) => {}
        Err(Rule::Cycle) => return Reason::Between,
        Err(_) => {}
    }
    if facts.required.has(op) {
        return if one.is_err_and(|r| r == Rule::Cycle) { Reason::Between } else { Reason::Wanted };
    }
    let readers = state.kernels.iter().filter(|k| k.candidate.loads.binary_search(&op).is_ok()).count();
    if readers > 1 { Reason::Shared } else { Reason::OtherElements }
}
