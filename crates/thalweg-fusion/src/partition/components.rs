//! The components of a segment: parts that share nothing worth sharing, each searched by itself; of those that look
//! alike one is searched.

use super::canonical::{magnitude, root};
use super::facts::Facts;
use super::kernels::Kernels;
use super::search::{Component, EXACT, Effort, NoPlan, State, search};
use crate::segment::{BitSet, ValueId};
use crate::write::rules::is_constant;
use rustc_hash::FxHashMap;
use thalweg_ir::{Arg, DType, RelArg, RelOp, View};

/// Bytes of an input below which reading it twice is nothing.
const SMALL_INPUT: usize = 256;

/// The best plan of the whole segment, and whether all searches came to their end.
///
/// # Errors
/// Where a component has no legal plan.
pub(super) fn search_all(kernels: &mut Kernels<'_, '_>, effort: Effort) -> Result<(State, bool), NoPlan> {
    let facts = kernels.facts;
    let mut whole = State { stored: facts.required.clone(), kernels: vec![], time: 0 };
    let mut complete = true;
    let mut spent = 0;
    let mut seen: FxHashMap<Look, Solved> = FxHashMap::default();
    // What is small enough for the optimum is one component, whatever it consists of.
    let all: Vec<usize> = facts.needed.iter().collect();
    let values = all.iter().filter(|&&i| facts.required.has(i) || facts.may_store(i)).count();
    let components =
        if values <= EXACT && facts.ix.seg.mode.fused { vec![Component { ops: all }] } else { components(facts) };
    for component in components {
        let ranked = facts.ranked(&component.ops);
        let look = look(facts, &ranked);
        let as_before = seen.get(&look).and_then(|solved| Some((solved.of(kernels, &ranked)?, solved.complete)));
        let before = kernels.visits;
        let (state, ended) = match as_before {
            Some(before) => before,
            None => {
                let found = search(kernels, &component, share(effort, spent, component.ops.len()))?;
                spent += kernels.visits - before;
                seen.insert(look, Solved::new(&ranked, &found.state, found.complete));
                (found.state, found.complete)
            }
        };
        complete &= ended;
        whole.stored.union(&state.stored);
        whole.time += state.time;
        whole.kernels.extend(state.kernels);
    }
    Ok((whole, complete))
}

/// Visits an operation that every component has, whatever others have spent: enough for the obvious moves.
const OWN_SHARE: u64 = 30;

/// What is left of the budget for a component of so many operations.
fn share(effort: Effort, spent: u64, operations: usize) -> Effort {
    match effort {
        Effort::Visits(n) => Effort::Visits(n.saturating_sub(spent).max(n.min(OWN_SHARE * operations as u64))),
        other => other,
    }
}

/// The operations in parts that are connected by values, or by an input that is worth reading once.
fn components(facts: &Facts<'_>) -> Vec<Component> {
    let ix = &facts.ix;
    let n = ix.seg.ops.len();
    let mut parent: Vec<usize> = (0..n).collect();
    let mut reader: Vec<Option<usize>> = vec![None; ix.seg.inputs.len()];
    for i in facts.needed.iter() {
        // Through views that nobody computes.
        let viewed = facts.operands.get(&i).into_iter().flatten().filter_map(|v| match v {
            ValueId::Op(a) => Some(a),
            ValueId::Input(_) => None,
        });
        for &other in facts.in_memory.get(&i).into_iter().flatten().chain(viewed) {
            let (a, b) = (root(&mut parent, i), root(&mut parent, other));
            parent[a.max(b)] = a.min(b);
        }
        for (_, v) in ix.tensors(i) {
            let other = match v {
                ValueId::Op(a) if is_constant(ix.seg.ops[a].op) && ix.seg.mode.fused => None,
                ValueId::Op(a) => Some(a),
                ValueId::Input(a) if ix.bytes(v) < SMALL_INPUT => reader[a].take(),
                ValueId::Input(a) => reader[a].replace(i),
            };
            if let Some(other) = other {
                let (a, b) = (root(&mut parent, i), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
    }
    let mut components: Vec<Component> = vec![];
    let mut at: FxHashMap<usize, usize> = FxHashMap::default();
    for i in facts.needed.iter() {
        let root = root(&mut parent, i);
        let n = *at.entry(root).or_insert(components.len());
        match components.get_mut(n) {
            Some(component) => component.ops.push(i),
            None => components.push(Component { ops: vec![i] }),
        }
    }
    // The first of those that look alike is searched, and the first ones get most of the budget.
    components.sort_by_cached_key(|p| p.ops.iter().map(|&i| facts.rank[i]).min());
    components
}

/// What a component looks like: its operations in the canonical order with their arguments by place in it, which of
/// them must be stored, and about how large they are.
type Look = (Vec<(RelOp, bool, u32)>, Vec<(DType, Option<View>)>);

fn look(facts: &Facts<'_>, ranked: &[usize]) -> Look {
    let seg = facts.ix.seg;
    let place: FxHashMap<usize, usize> = ranked.iter().enumerate().map(|(at, &i)| (i, at)).collect();
    let mut inputs: Vec<usize> = vec![];
    let ops = ranked.iter().map(|&i| {
        let mut op = seg.ops[i];
        for (to, arg) in op.args.iter_mut().zip(seg.ops[i].args()) {
            *to = match arg {
                // A constant belongs to no component; what it is made of says enough.
                Arg::Op(a) => place.get(&a).map_or(RelArg::SCALAR, |&at| RelArg::op(at)),
                Arg::Input(a) => {
                    let at = inputs.iter().position(|&n| n == a).unwrap_or_else(|| {
                        inputs.push(a);
                        inputs.len() - 1
                    });
                    RelArg::op(ranked.len() + at)
                }
                Arg::Scalar => RelArg::SCALAR,
                Arg::None => RelArg::NONE,
            };
        }
        (op, facts.required.has(i), magnitude(seg.shapes[i]))
    });
    let ops = ops.collect();
    // Where an input lies matters only if it is not row-major.
    let views = inputs.iter().map(|&n| seg.inputs[n]).map(|(d, v)| (d, (!v.is_contiguous()).then_some(v))).collect();
    (ops, views)
}

/// A plan of a component, by places in its canonical order.
struct Solved {
    kernels: Vec<Vec<usize>>,
    complete: bool,
}

impl Solved {
    fn new(ranked: &[usize], state: &State, complete: bool) -> Solved {
        let place: FxHashMap<usize, usize> = ranked.iter().enumerate().map(|(at, &i)| (i, at)).collect();
        let kernels = state.kernels.iter().map(|k| k.stores.iter().map(|s| place[s]).collect()).collect();
        Solved { kernels, complete }
    }

    /// The same plan for a component that looks alike; `None` where its sizes do not allow that.
    fn of(&self, kernels: &mut Kernels<'_, '_>, ranked: &[usize]) -> Option<State> {
        let mut stored: BitSet = kernels.facts.required.clone();
        self.kernels.iter().flatten().for_each(|&at| stored.insert(ranked[at]));
        let state = State { stored: stored.clone(), kernels: vec![], time: 0 };
        let stores = |places: &Vec<usize>| {
            let mut stores: Vec<usize> = places.iter().map(|&at| ranked[at]).collect();
            stores.sort_unstable();
            stores
        };
        let all: Vec<Vec<usize>> = self.kernels.iter().map(stores).collect();
        state.with(kernels, (stored, &[]), &[], &all).ok()
    }
}
