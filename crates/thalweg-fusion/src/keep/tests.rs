//! Decisions compared with all possible ones, on small random segments; and bounds on large ones.

use super::*;
use crate::segment::{Mode, OwnedSegment};
use thalweg_ir::{DType, ElementOp, InputKind, MAX_ARGS, ReduceOp, RelArg, RelOp, Shape, View};
use thalweg_kernel::Contracts;

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % n
    }
}

const SIDE: usize = 128;

struct Made(OwnedSegment);

impl Made {
    fn new(inputs: usize) -> Made {
        let square = View::contiguous(Shape::new(&[SIDE, SIDE]));
        Made(OwnedSegment {
            ops: vec![],
            live: BitSet::new(4096),
            mode: Mode::fused(Contracts::Rows),
            shapes: vec![],
            ints: vec![],
            scalars: vec![],
            inputs: vec![(DType::F32, square); inputs],
        })
    }

    fn input(n: usize) -> RelArg {
        RelArg::input(n, InputKind { dtype: DType::F32, rank: 2, contiguous: true })
    }

    fn op(&mut self, op: Op, args: &[RelArg], shape: [usize; 2], attr: u32) -> RelArg {
        let mut rel = RelOp { op, dtype: DType::F32, rank: 2, attr, args: [RelArg::NONE; MAX_ARGS] };
        rel.args[..args.len()].copy_from_slice(args);
        self.0.ops.push(rel);
        self.0.shapes.push(Shape::new(&shape));
        RelArg::op(self.0.ops.len() - 1)
    }

    fn random(dice: &mut Dice, n: usize) -> Made {
        let mut made = Made::new(2);
        let mut values = vec![Made::input(0), Made::input(1)];
        for _ in 0..n {
            let [a, b] = [0; 2].map(|_| values[dice.below(values.len())]);
            let square = [SIDE, SIDE];
            let new = match dice.below(5) {
                0 => made.op(Op::Matmul, &[a, b], square, 0),
                1 => made.op(Op::Element(ElementOp::Exp), &[a], square, 0),
                // Broadcast back, so that all values have one shape.
                2 => {
                    let sum = made.op(Op::Reduce(ReduceOp::Sum), &[a], [SIDE, 1], 0x102);
                    made.op(Op::Element(ElementOp::Add), &[b, sum], square, 0x200)
                }
                _ => made.op(Op::Element(ElementOp::Add), &[a, b], square, 0),
            };
            values.push(new);
        }
        made
    }
}

fn set(n: usize, of: impl IntoIterator<Item = usize>) -> BitSet {
    let mut set = BitSet::new(n);
    of.into_iter().for_each(|i| set.insert(i));
    set
}

/// Cost of a decision: of all values written, all values recomputed, and the inputs kept alive for that.
fn time(graph: &Graph<'_>, written: &BitSet) -> u64 {
    let q = graph.question;
    let (n, inputs) = (q.segment.ops.len(), q.segment.inputs.len());
    let (mut needed, mut read) = (q.kept.clone(), BitSet::new(inputs));
    let mut all = 0;
    for i in (0..n).rev().filter(|&i| graph.reached.has(i)) {
        if !needed.has(i) {
            continue;
        }
        if written.has(i) || q.segment.live.has(i) {
            all += graph.keeping(ValueId::Op(i), USUAL);
            continue;
        }
        all += graph.again[i];
        for (_, v) in graph.ix.tensors(i) {
            match v {
                ValueId::Op(o) => needed.insert(o),
                ValueId::Input(o) => read.insert(o),
            }
        }
    }
    let kept = read.iter().filter(|&i| q.dying.has(i)).map(|i| graph.keeping(ValueId::Input(i), USUAL));
    all + kept.sum::<u64>()
}

#[test]
fn no_other_choice_takes_less_time() {
    let mut dice = Dice(1);
    let mut both = [0; 2];
    for _ in 0..200 {
        let size = 3 + dice.below(5);
        let mut made = Made::random(&mut dice, size);
        let n = made.0.ops.len();
        made.0.live = set(n, [n - 1]);
        let kept = set(n, (0..n - 1).filter(|_| dice.below(2) == 0));
        let (dying, again) = (set(2, [dice.below(3)].into_iter().filter(|&i| i < 2)), BitSet::new(n));
        let question = Question { segment: made.0.as_segment(), kept: &kept, dying: &dying, again: &again, room: None };
        let costs = Costs::typical();
        let found = keep(&question, &costs);
        let graph = Graph::new(&question, &costs);
        let best = (0..1u64 << n).map(|bits| time(&graph, &set(n, (0..n).filter(|i| bits >> i & 1 == 1)))).min();
        assert_eq!(time(&graph, &found.written), best.unwrap(), "{:?} {kept:?}", made.0.ops);
        assert!(kept.iter().all(|i| found.written.has(i) != found.left.has(i)));
        both[0] += found.written.count();
        both[1] += found.left.count();
    }
    assert!(both[0] > 100 && both[1] > 100, "{both:?}");
}

/// Chain of cheap operations, all kept.
fn chain(length: usize) -> Made {
    let mut made = Made::new(1);
    let mut x = Made::input(0);
    for _ in 0..length {
        x = made.op(Op::Element(ElementOp::Neg), &[x], [SIDE, SIDE], 0);
    }
    made.0.live = BitSet::new(length);
    made
}

#[test]
fn nothing_is_left_far_from_memory_and_nothing_is_left_twice() {
    let made = chain(3000);
    let (kept, dying) = (set(3000, 0..3000), BitSet::new(1));
    let mut again = BitSet::new(3000);
    let ask = |again: &BitSet| {
        let question = Question { segment: made.0.as_segment(), kept: &kept, dying: &dying, again, room: Some(0) };
        keep(&question, &Costs::typical())
    };
    let found = ask(&again);
    let mut run = 0;
    for i in 0..3000 {
        run = if found.left.has(i) { run + 1 } else { 0 };
        assert!(run <= MAX_RECOMPUTED_OPS, "{i}");
    }
    assert_eq!(found.written.count(), 3000 / (MAX_RECOMPUTED_OPS + 1));
    (0..100).for_each(|i| again.insert(i));
    let found = ask(&again);
    assert!((0..100).all(|i| found.written.has(i)));
}

/// Layers of a product and a function. With enough memory the product of each is saved; with less, the early ones are
/// recomputed.
#[test]
fn less_room_is_less_kept_and_the_early_ones_go_first() {
    let mut made = Made::new(1);
    let mut x = Made::input(0);
    for _ in 0..24 {
        let y = made.op(Op::Matmul, &[x, x], [SIDE, SIDE], 0);
        let z = made.op(Op::Element(ElementOp::Tanh), &[y], [SIDE, SIDE], 0);
        x = made.op(Op::Element(ElementOp::Add), &[x, z], [SIDE, SIDE], 0);
    }
    let n = made.0.ops.len();
    made.0.live = BitSet::new(n);
    let (kept, dying, again) = (set(n, 0..n), BitSet::new(1), BitSet::new(n));
    let ask = |room: Option<usize>| {
        let question = Question { segment: made.0.as_segment(), kept: &kept, dying: &dying, again: &again, room };
        keep(&question, &Costs::typical())
    };
    let free = ask(None);
    assert!(free.is_usual() && free.peak >= free.bytes);
    assert_eq!(ask(Some(free.peak)), free);
    let mut before = free.clone();
    for part in [7, 6, 5] {
        let found = ask(Some(free.peak * part / 8));
        assert!(found.peak <= free.peak * part / 8, "{} of {}", found.peak, free.peak);
        assert!(found.bytes <= before.bytes);
        let first = |of: &BitSet| of.iter().next().unwrap();
        assert!(first(&found.written) > first(&free.written), "early results are computed again");
        before = found;
    }
    assert!(before.bytes * 4 < free.bytes * 3, "{} of {}", before.bytes, free.bytes);
}
