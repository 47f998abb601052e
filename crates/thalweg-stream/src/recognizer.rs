//! The recognizer: an automaton over relative operations.
//!
//! A node stands for everything recorded since the last cut. Recording an operation follows one edge: the node's usual
//! successor is compared first, so a stretch that was seen before costs one comparison an operation however many plans
//! there are; other successors are found by hash. Plans hang at nodes, one for each set of live-outs.

use crate::history::History;
use crate::kept::Decision;
use crate::ready::Ready;
use crate::store::Entry;
use crate::tunable::TUNABLES;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_fusion::BitSet;
use thalweg_ir::RelOp;

/// A plan at a node.
pub(crate) struct Known {
    /// The values that were asked for.
    pub live: BitSet,
    /// The plan with its instances.
    pub entry: Arc<Entry>,
    /// What became of those values.
    pub history: Arc<History>,
    /// Sizes of the last run, and what ran.
    pub last: Option<(Box<[i64]>, Arc<Ready>)>,
}

struct Node {
    op: RelOp,
    /// The successor seen first; 0 (a root, which succeeds nothing) for none.
    usual: u32,
    // Boxed: most nodes have none, and one is entered an operation.
    #[expect(clippy::box_collection)]
    others: Option<Box<HashMap<RelOp, u32>>>,
    known: Vec<Known>,
    /// What was decided here about values that a tape alone holds. Boxed: most nodes have none.
    #[expect(clippy::box_collection)]
    decisions: Option<Box<Vec<Arc<Decision>>>>,
    /// A loop comes round here: the stream is cut as soon as this node is reached.
    cut: bool,
}

pub(crate) struct Recognizer {
    nodes: Vec<Node>,
    at: u32,
    /// Plans at all nodes.
    plans: usize,
}

/// Roots, one a mode.
const ROOTS: usize = crate::mode::Mode::COUNT;

impl Recognizer {
    pub fn new() -> Recognizer {
        Recognizer { nodes: (0..ROOTS).map(|_| Node::new(root_op())).collect(), at: 0, plans: 0 }
    }

    /// Goes back to the start, for a mode's segments.
    pub fn restart(&mut self, mode: usize) {
        if !TUNABLES.max_nodes.admits(self.nodes.len()) || !TUNABLES.max_known_plans.admits(self.plans) {
            *self = Recognizer::new();
        }
        self.at = mode as u32;
    }

    /// Follows an operation. Returns whether the stream is to be cut here.
    #[inline]
    pub fn step(&mut self, op: &RelOp) -> bool {
        let usual = self.nodes[self.at as usize].usual;
        let next = &self.nodes[usual as usize];
        if usual != 0 && next.op == *op {
            self.at = usual;
            return next.cut;
        }
        self.step_aside(op)
    }

    #[cold]
    fn step_aside(&mut self, op: &RelOp) -> bool {
        let new = self.nodes.len() as u32;
        let node = &mut self.nodes[self.at as usize];
        if node.usual == 0 {
            node.usual = new;
        } else {
            let next = *node.others.get_or_insert_default().entry(*op).or_insert(new);
            if next != new {
                self.at = next;
                return self.nodes[next as usize].cut;
            }
        }
        self.nodes.push(Node::new(*op));
        self.at = new;
        false
    }

    /// Marks the present node as a place to cut.
    pub fn cut_here(&mut self) {
        self.nodes[self.at as usize].cut = true;
    }

    /// One of them.
    pub fn known_at(&self, at: usize) -> &Known {
        &self.nodes[self.at as usize].known[at]
    }

    /// Whether what was recorded since the last cut was run before, with whatever live results.
    pub fn was_run(&self) -> bool {
        self.nodes[self.at as usize].known.iter().any(|k| k.last.is_some())
    }

    /// The plans known for what was recorded since the last cut.
    pub fn known(&mut self) -> &mut [Known] {
        &mut self.nodes[self.at as usize].known
    }

    /// What was decided about values that a tape alone holds, the newest last.
    pub fn decisions(&mut self) -> &mut Vec<Arc<Decision>> {
        self.nodes[self.at as usize].decisions.get_or_insert_default()
    }

    /// Adds a plan for it.
    pub fn add(&mut self, known: Known) {
        self.plans += 1;
        self.nodes[self.at as usize].known.push(known);
    }
}

impl Node {
    fn new(op: RelOp) -> Node {
        Node { op, usual: 0, others: None, known: Vec::new(), decisions: None, cut: false }
    }
}

/// The operation of a root, which is never compared.
fn root_op() -> RelOp {
    use thalweg_ir::{DType, MAX_ARGS, Op, RelArg};
    RelOp { op: Op::Cast, dtype: DType::Bool, rank: 0, attr: u32::MAX, args: [RelArg::NONE; MAX_ARGS] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, ElementOp, Op, RelArg};

    fn op(e: ElementOp, dtype: DType) -> RelOp {
        RelOp { op: Op::Element(e), dtype, rank: 2, attr: 0, args: RelOp::pack(&[RelArg::op(1)]) }
    }

    /// Where a recognizer stands after these operations.
    fn at(r: &mut Recognizer, mode: usize, ops: &[RelOp]) -> u32 {
        r.restart(mode);
        for o in ops {
            r.step(o);
        }
        r.at
    }

    #[test]
    fn the_same_operations_lead_to_the_same_node_and_others_elsewhere() {
        let mut r = Recognizer::new();
        let [exp, neg, wide] =
            [op(ElementOp::Exp, DType::F32), op(ElementOp::Neg, DType::F32), op(ElementOp::Exp, DType::F64)];
        let first = at(&mut r, 0, &[exp, neg, exp]);
        let nodes = r.nodes.len();
        assert_eq!(at(&mut r, 0, &[exp, neg, exp]), first);
        assert_eq!(r.nodes.len(), nodes, "a stretch that was seen adds nothing");
        // The first successor is the usual one; the others are found beside it, again and again.
        let second = at(&mut r, 0, &[exp, neg, wide]);
        assert_ne!(second, first);
        assert_eq!(at(&mut r, 0, &[exp, neg, wide]), second);
        assert_eq!(at(&mut r, 0, &[exp, neg, exp]), first);
        assert_ne!(at(&mut r, 1, &[exp, neg, exp]), first, "modes share no plans");
    }

    #[test]
    fn a_node_that_is_marked_says_cut_each_time_it_is_reached() {
        let mut r = Recognizer::new();
        let (exp, neg) = (op(ElementOp::Exp, DType::F32), op(ElementOp::Neg, DType::F32));
        at(&mut r, 0, &[exp, neg]);
        r.cut_here();
        r.restart(0);
        assert!(!r.step(&exp));
        assert!(r.step(&neg));
        assert!(!r.step(&neg), "what comes behind it is another node");
    }

    #[test]
    fn a_program_that_never_repeats_itself_does_not_grow_without_bound() {
        let mut r = Recognizer::new();
        for n in 0..TUNABLES.max_nodes.get() as u32 + 10 {
            r.step(&RelOp { attr: n, ..op(ElementOp::Exp, DType::F32) });
        }
        assert!(r.nodes.len() > TUNABLES.max_nodes.get());
        r.restart(0);
        assert_eq!(r.nodes.len(), ROOTS);
    }
}
