//! Recognizer: an automaton over relative operations.
//!
//! A node represents the sequence recorded since the last cut. Recording an operation follows one edge. The node's
//! usual successor is compared first, so a sequence seen before costs one comparison per operation, however many plans
//! there are. Other successors are found by hash. Plans are stored at nodes, one for each set of live-outs.

use crate::capture::CapturedSegment;
use crate::history::History;
use crate::ready::Ready;
use crate::rematerialization::Decision;
use crate::store::Entry;
use crate::tunable::TUNABLES;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use thalweg_fusion::BitSet;
use thalweg_ir::RelOp;

/// Plan that is stored at a node, for one set of live-outs.
pub(crate) struct CachedPlan {
    /// Live-outs that the plan writes.
    pub live: BitSet,
    /// Plan store entry: the plan with its instances.
    pub entry: Arc<Entry>,
    /// Read history of the live-outs.
    pub history: Arc<History>,
    /// Sizes and instance of the last run.
    pub last: Option<(Box<[i64]>, Arc<Ready>)>,
}

struct Node {
    op: RelOp,
    /// Index of the successor that was seen first, which is compared first; 0 for none (node 0 is a root, which
    /// succeeds nothing).
    usual: u32,
    // Boxed: most nodes have no other successors, and a node is visited per operation.
    #[expect(clippy::box_collection)]
    others: Option<Box<HashMap<RelOp, u32>>>,
    known: Vec<CachedPlan>,
    /// Decisions about values that only a gradient tape holds. Boxed: most nodes have none.
    #[expect(clippy::box_collection)]
    decisions: Option<Box<Vec<Arc<Decision>>>>,
    /// Whether the stream is cut as soon as this node is reached, because a loop repeats here.
    cut: bool,
    /// Whether a search for a period has found none here.
    aperiodic: bool,
}

pub(crate) struct Recognizer {
    nodes: Vec<Node>,
    at: u32,
    /// Number of plans stored at all nodes.
    plans: usize,
    /// Number that no other recognizer of the process has, nor this one before it started over; from 1.
    number: u32,
}

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Number of roots, one per mode.
const ROOTS: usize = crate::mode::Mode::COUNT;

impl Recognizer {
    pub fn new() -> Recognizer {
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        Recognizer { nodes: (0..ROOTS).map(|_| Node::new(root_op())).collect(), at: 0, plans: 0, number }
    }

    /// Returns to the root of a mode. Drops all nodes first if there are too many nodes or plans.
    pub fn restart(&mut self, mode: usize) {
        if !TUNABLES.max_nodes.admits(self.nodes.len()) || !TUNABLES.max_known_plans.admits(self.plans) {
            *self = Recognizer::new();
        }
        self.at = mode as u32;
    }

    /// Follows an operation's edge. Returns whether the stream is to be cut here.
    #[inline]
    pub fn step(&mut self, op: &RelOp) -> bool {
        let usual = self.nodes[self.at as usize].usual;
        let next = &self.nodes[usual as usize];
        if usual != 0 && next.op == *op {
            self.at = usual;
            return next.cut;
        }
        self.take_branch(op)
    }

    #[cold]
    fn take_branch(&mut self, op: &RelOp) -> bool {
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

    /// Follows the edges of a captured segment, from the root. Its node is remembered, so that later submissions go
    /// there at once.
    pub fn follow(&mut self, segment: &CapturedSegment, ops: &[RelOp]) {
        match segment.node_in(self.number) {
            Some(node) => self.at = node,
            None => {
                ops.iter().for_each(|op| {
                    self.step(op);
                });
                segment.set_node(self.number, self.at);
            }
        }
    }

    /// Marks the current node, so that the stream is cut whenever it is reached.
    pub fn cut_here(&mut self) {
        self.nodes[self.at as usize].cut = true;
    }

    /// Whether a search has found no period of the sequence since the last cut.
    pub fn is_aperiodic(&self) -> bool {
        self.nodes[self.at as usize].aperiodic
    }

    /// Notes that the sequence since the last cut has no period.
    pub fn set_aperiodic(&mut self) {
        self.nodes[self.at as usize].aperiodic = true;
    }

    /// Plan number `at` of the current node.
    pub fn known_at(&self, at: usize) -> &CachedPlan {
        &self.nodes[self.at as usize].known[at]
    }

    /// Whether the sequence since the last cut has run before, with any live-outs.
    pub fn was_run(&self) -> bool {
        self.nodes[self.at as usize].known.iter().any(|k| k.last.is_some())
    }

    /// Plans known for the sequence since the last cut.
    pub fn known(&mut self) -> &mut [CachedPlan] {
        &mut self.nodes[self.at as usize].known
    }

    /// Decisions about values that only a tape holds, the newest last.
    pub fn decisions(&mut self) -> &mut Vec<Arc<Decision>> {
        self.nodes[self.at as usize].decisions.get_or_insert_default()
    }

    /// Adds a plan at the current node.
    pub fn add(&mut self, known: CachedPlan) {
        self.plans += 1;
        self.nodes[self.at as usize].known.push(known);
    }
}

impl Node {
    fn new(op: RelOp) -> Node {
        Node { op, usual: 0, others: None, known: Vec::new(), decisions: None, cut: false, aperiodic: false }
    }
}

/// Operation of a root; it is never compared.
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

    /// Node that is reached after these operations.
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
        assert_eq!(r.nodes.len(), nodes, "a span that was recorded before adds nothing");
        // The first successor is the usual one; others are found by hash, repeatedly.
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
