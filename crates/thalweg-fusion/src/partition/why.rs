//! Reasons why a value goes through memory: why the kernels that write and read it are not one.
//!
//! Found on request, by merging the two once more. So a plan carries no reasons, whether it was searched for or read
//! from disk.

use super::facts::Facts;
use super::kernels::Kernels;
use super::reach::KernelStores;
use super::search::indexed::IndexedState;
use super::search::stores_of;
use crate::cost::Costs;
use crate::plan::{Edge, KernelPlan, Plan, Reason};
use crate::segment::{Segment, ValueId};
use crate::write::rules::Rule;

/// Values passed between kernels of a plan, in order of the operations, each with the reason.
pub(crate) fn why(plan: &Plan, segment: Segment<'_>, costs: &Costs) -> Vec<Edge> {
    let facts = Facts::new(segment);
    // A group counts as several kernels, one per member.
    let parts = plan.kernels.iter().enumerate().flat_map(|(n, k)| k.parts().iter().map(move |_| n));
    let number: Vec<usize> = parts.collect();
    let (stores, stored) = stores_of(plan, segment.ops.len());
    let mut kernels = Kernels::new(&facts, costs);
    let mut edges = vec![];
    // Without fusion the reason is known, and the number of kernels is unlimited.
    let state = segment.mode.fused.then(|| kernels.state_of(&stores, &stored)).flatten();
    let state = state.map(|state| IndexedState::new(&facts, state));
    for (to, reader) in stores.iter().enumerate() {
        let Ok(reader) = KernelStores { facts: &facts, stores: reader, stored: &stored }.candidate() else { continue };
        for &op in &reader.loads {
            let Some(from) = stores.iter().position(|s| s.binary_search(&op).is_ok()) else { continue };
            let reason = match &state {
                // The search orders kernels differently.
                Some(state) => {
                    let (from, to) = (state.home(stores[from][0]), state.home(stores[to][0]));
                    kernels.reason(state, (from, to), op)
                }
                None => Reason::FusionOff,
            };
            edges.push(Edge { op, from: number[from], to: number[to], reason });
        }
    }
    edges.sort_by_key(|e| (e.op, e.to));
    edges.dedup_by_key(|e| (e.op, e.from, e.to));
    edges
}

impl Kernels<'_, '_> {
    /// Reason why kernel `to` reads an operation's result from kernel `from`.
    fn reason(&mut self, state: &IndexedState, (from, to): (usize, usize), op: usize) -> Reason {
        let facts = self.facts;
        let ix = &facts.ix;
        let name = |i: usize| ix.seg.ops[i].op.name();
        if let KernelPlan::Opaque { stores: reader, .. } = &state.kernel(to).candidate.plan {
            return Reason::OperandOf(name(reader[0]));
        }
        let gathers = |&&i: &&usize| ix.seg.ops[i].op.info().args_in_memory() > 0;
        let mut gathered = state.kernel(to).candidate.ops().iter().filter(gathers);
        if let Some(&gather) = gathered.find(|&&g| {
            ix.tensors(g).next().is_some_and(|(_, v)| {
                crate::write::movement::view_base(ix, v, &|i| state.stored.has(i)).0 == ValueId::Op(op)
            })
        }) {
            return Reason::OperandOf(name(gather));
        }
        match &state.kernel(from).candidate.plan {
            KernelPlan::Opaque { stores: writer, .. } => return Reason::ResultOf(name(writer[0])),
            KernelPlan::Map { column_stores, .. } if column_stores.contains(&op) => {
                return Reason::SharedPass(name(op));
            }
            KernelPlan::Map { .. } | KernelPlan::Contraction { .. } | KernelPlan::Group { .. } => {}
        }
        let one = self.united(state, &[from, to]);
        let slower = |time: u64| time.saturating_sub(state.time) / 1000;
        match one {
            Ok(one) => return Reason::Slower(slower(one.time)),
            Err(Rule::Full) => return Reason::KernelFull,
            Err(Rule::SecondProduct) => return Reason::SecondProduct,
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
        if state.loading(op).len() > 1 { Reason::Shared } else { Reason::OtherElements }
    }
}
