//! What does not change a plan: the order in which independent operations were recorded, and when handles were cloned or dropped. (The latter never reaches the
//! planner: a segment has only what is live at the cut. crates/thalweg/tests/fusion.rs holds that.)

use super::graphs::{Graph, choices, random};
use crate::cost::Costs;
use crate::partition::{Effort, plan};
use crate::plan::Plan;
use crate::segment::{BitSet, OwnedSegment};
use proptest::prelude::*;
use thalweg_ir::{Arg, RelArg};

/// The segment with its operations recorded in another order that `keys` decide, and each operation's new place.
fn shuffled(from: &OwnedSegment, keys: &[u64]) -> (OwnedSegment, Vec<usize>) {
    let n = from.ops.len();
    let mut place = vec![usize::MAX; n];
    let mut order: Vec<usize> = vec![];
    while order.len() < n {
        let ready = |&i: &usize| {
            let recorded = |a| !matches!(a, Arg::Op(o) if place[o] == usize::MAX);
            place[i] == usize::MAX && from.ops[i].args().all(recorded)
        };
        let next = (0..n).filter(ready).min_by_key(|&i| (keys[i % keys.len()], i)).expect("an operation is ready");
        place[next] = order.len();
        order.push(next);
    }
    let mut to = OwnedSegment { ops: vec![], shapes: vec![], ints: vec![], scalars: vec![], ..from.clone() };
    to.live = BitSet::new(4096);
    let (mut ints, mut scalars) = (vec![], vec![]);
    let (mut int_at, mut scalar_at) = (0, 0);
    for op in &from.ops {
        let scalar_count = op.args().filter(|a| *a == Arg::Scalar).count();
        ints.push(int_at..int_at + op.int_count());
        scalars.push(scalar_at..scalar_at + scalar_count);
        (int_at, scalar_at) = (int_at + op.int_count(), scalar_at + scalar_count);
    }
    for &i in &order {
        let mut op = from.ops[i];
        for (arg, old) in op.args.iter_mut().zip(from.ops[i].args()) {
            if let Arg::Op(o) = old {
                *arg = RelArg::op(place[o]);
            }
        }
        to.ops.push(op);
        to.shapes.push(from.shapes[i]);
        to.ints.extend(&from.ints[ints[i].clone()]);
        to.scalars.extend(&from.scalars[scalars[i].clone()]);
        if from.live.has(i) {
            to.live.insert(place[i]);
        }
    }
    // Inputs keep their numbers: which is met first is no part of a plan either, but of the names in it.
    (to, place)
}

/// What each kernel stores and computes, by the names of operations that `name` gives.
fn kernels(plan: &Plan, name: impl Fn(usize) -> usize) -> Vec<(Vec<usize>, Vec<usize>)> {
    let named = |ops: &mut dyn Iterator<Item = usize>| {
        let mut all: Vec<usize> = ops.map(&name).collect();
        all.sort_unstable();
        all
    };
    let parts = plan.kernels.iter().flat_map(|k| k.parts());
    let mut all: Vec<_> = parts.map(|k| (named(&mut k.writes()), named(&mut k.ops()))).collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Up to 24 operations, so that the greedy search takes part too.
    #[test]
    fn the_order_of_recording_does_not_change_the_plan(
        c in choices(24),
        keys in prop::collection::vec(any::<u64>(), 24),
    ) {
        let g: Graph = random(&c);
        let (other, place) = shuffled(&g.0, &keys);
        let costs = Costs::typical();
        let one = plan(g.0.as_segment(), &costs, Effort::default());
        let two = plan(other.as_segment(), &costs, Effort::default());
        prop_assert_eq!(one.time, two.time);
        let name = |new: usize| place.iter().position(|&p| p == new).expect("every place is taken");
        prop_assert_eq!(kernels(&one.plan, |i| i), kernels(&two.plan, name));
    }
}
