//! Changes that do not affect a plan: the order in which independent operations were recorded, and when handles were
//! cloned or dropped. (The latter never reaches the planner: a segment has only what is live at the cut.
//! crates/thalweg/tests/execution/fusion.rs checks that.)

use super::graphs::{Choice, Graph, choices, random};
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::{Effort, plan};
use crate::plan::Plan;
use crate::rewrite::Rewrite;
use crate::segment::{BitSet, OwnedSegment};
use proptest::prelude::*;
use thalweg_ir::{Arg, ElementOp, Op, RelArg};

/// Segment with its operations recorded in another order, determined by `keys`.
fn shuffled(from: &OwnedSegment, keys: &[u64]) -> OwnedSegment {
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
    // Inputs keep their numbers: their order is no part of a plan either, only of the names in it.
    to
}

/// Stores and operations of each kernel, by the names that `name` gives.
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

/// Number in the second segment for each operation of the first: the one with the same rank in the canonical order.
/// Structurally equal operations (two equal results, say) are interchangeable, and so are inputs; but the segments have
/// to be equal under this mapping.
fn same_segment(one: &OwnedSegment, two: &OwnedSegment) -> Result<Vec<usize>, TestCaseError> {
    let (a, b) = (Facts::new(one.as_segment()), Facts::new(two.as_segment()));
    let place = |i: usize| b.rank.iter().position(|r| *r == a.rank[i]).expect("every place is taken");
    let names: Vec<usize> = (0..one.ops.len()).map(place).collect();
    let mut inputs = vec![None; one.inputs.len()];
    for (i, &j) in names.iter().enumerate() {
        let (x, y) = (one.ops[i], two.ops[j]);
        prop_assert_eq!((x.op, x.dtype, x.rank, x.attr), (y.op, y.dtype, y.rank, y.attr));
        prop_assert_eq!((one.shapes[i], a.ix.ints(i)), (two.shapes[j], b.ix.ints(j)));
        prop_assert_eq!(one.live.has(i), two.live.has(j));
        for (x, y) in x.args().zip(y.args()) {
            let renamed = match (x, y) {
                (Arg::Op(x), _) => Arg::Op(names[x]),
                (Arg::Input(x), Arg::Input(y)) => Arg::Input(*inputs[x].get_or_insert(y)),
                (other, _) => other,
            };
            prop_assert_eq!(renamed, y);
        }
    }
    let mut met: Vec<usize> = inputs.iter().copied().flatten().collect();
    met.sort_unstable();
    prop_assert!(met.windows(2).all(|w| w[0] != w[1]), "two inputs are two");
    prop_assert!(inputs.iter().enumerate().all(|(x, y)| y.is_none_or(|y| one.inputs[x] == two.inputs[y])));
    Ok(names)
}

/// Plans a graph in two orders of recording and compares times and kernels.
fn check(c: &(usize, Vec<Choice>), keys: &[u64]) -> Result<(), TestCaseError> {
    check_segment(&random(c).0, keys).map(|_| ())
}

/// As [`check`], for any segment; returns the number of kernels.
fn check_segment(one: &OwnedSegment, keys: &[u64]) -> Result<usize, TestCaseError> {
    let other = shuffled(one, keys);
    same_segment(one, &other)?;
    // Kernels refer to the planned segment, which may have been rewritten.
    let planned_for = |s: &OwnedSegment| match Rewrite::of(&s.as_segment()).apply(&s.as_segment()) {
        Some(rewritten) => rewritten.segment(&s.as_segment()).to_owned(),
        None => s.clone(),
    };
    let names = same_segment(&planned_for(one), &planned_for(&other))?;
    let costs = Costs::typical();
    let [a, b] = [one, &other].map(|s| plan(s.as_segment(), &costs, Effort::default()).unwrap());
    prop_assert_eq!(a.time, b.time);
    prop_assert_eq!(kernels(&a.plan, |i| names[i]), kernels(&b.plan, |i| i));
    Ok(a.plan.kernels.iter().map(|k| k.parts().len()).sum())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Up to 24 operations, so that the greedy search is covered too.
    #[test]
    fn the_order_of_recording_does_not_change_the_plan(
        c in choices(24),
        keys in prop::collection::vec(any::<u64>(), 24),
    ) {
        check(&c, &keys)?;
    }
}

/// Steps from tuples of kind, arguments, and whether the result is live.
fn written(all: &[(u8, usize, usize, bool)]) -> Vec<Choice> {
    all.iter().map(|&(kind, a, b, live)| Choice { kind, a, b, live }).collect()
}

/// Found by the property test: a kernel with two stores that read one input in order and transposed. Written from the
/// other store, it read the input in another order first, and took some picoseconds more.
#[test]
fn a_kernel_is_written_from_its_stores_in_the_canonical_order() {
    let exp = (0, 0, 0, false);
    let mut all = vec![(0, 3, 0, false), (6, 0, 2, false), (5, 5, 0, false), (0, 2, 0, false), exp, exp, exp];
    all.extend([(0, 4, 0, false), exp, (0, 0, 0, true), (6, 1, 1, false), (17, 0, 0, false), exp, exp, exp, exp]);
    let mut keys = vec![0; 24];
    keys[9] = 1;
    check(&(0, written(&all)), &keys).expect("the same plan");
}

/// Two equal values, each with two readers: which value is first may follow the recording, but the readers follow their
/// value.
#[test]
fn of_equal_parts_one_is_first_as_a_whole() {
    let all = [(0, 2, 0, false), (0, 3, 0, false), (3, 1, 0, true), (3, 1, 0, true), (4, 3, 0, true), (4, 3, 0, true)];
    check(&(0, written(&all)), &[0, 0, 2, 1, 3, 4]).expect("the same plan");
}

/// A product reads a view that has to be stored first. The operand of another product is a view of that one, and reads
/// it whichever was recorded first.
#[test]
fn a_view_that_is_kept_is_kept_for_all() {
    for keys in [[0, 0, 0, 1, 0], [0, 0, 1, 0, 1]] {
        let mut g = Graph::new();
        g.0.mode.contracts = thalweg_kernel::Contracts::Bare;
        let (x, w, y) = (g.input(&[60, 80]), g.input(&[40, 40]), g.input(&[120, 40]));
        let transposed = g.transposed(x);
        let kept = g.reshaped(transposed, &[120, 40]);
        let back = g.transposed(kept);
        for product in [g.matmul(kept, w), g.matmul(back, y)] {
            g.live(product);
        }
        let n = check_segment(&g.0, &keys).expect("the same plan");
        assert_eq!(n, 3, "one copy and two products");
    }
}

/// Unused results do not count among the users of a product's accumulators, wherever they were recorded.
#[test]
fn what_nobody_needs_is_no_part_of_a_plan() {
    for keys in [[0, 0, 1], [0, 1, 0]] {
        let mut g = Graph::new();
        let (x, w) = (g.input(&[64, 64]), g.input(&[64, 64]));
        let sums = g.matmul(x, w);
        let [live, _] = [ElementOp::Tanh, ElementOp::Exp].map(|e| g.unary(e, sums));
        g.live(live);
        let recorded = shuffled(&g.0, &keys);
        let facts = Facts::new(recorded.as_segment());
        let end = facts.end_of_product(0);
        assert_eq!(recorded.ops[end].op, Op::Element(ElementOp::Tanh), "what is made of the sums, {keys:?}");
    }
}
