//! Passes of a row body: the passes that compute each node, and the nodes that are buffered between passes.
//!
//! A fold's result is known once the whole row has been read, so everything that depends on it takes another pass over
//! the row. In: a body. Out: for each node the first pass that can compute it (its *level*), whether it is the same for
//! all points of a row (*once*), the passes that need it, and whether later passes read it from a buffer (*kept*)
//! instead of recomputing it. [`crate::phases`] builds phases from this; the cost model counts it.
//!
//! Example: softmax. `x` has level 0, `exp(x - max)` level 1, the quotient level 2. Pass 2 needs the exponential again,
//! and recomputing costs more than a buffer: it is kept, computed in pass 1 and read in pass 2. `x` is loaded in passes
//! 0 and 1.
//!
//! Always true: a node is needed in a pass only if a node computed there uses it, or it is a root of that pass. A kept
//! node is computed in the first pass that needs it, any other node in each.

use crate::{Along, Body, Node, NodeId};

/// Minimum cost of recomputing a value, in additions, at which it is buffered for later passes instead.
const KEEP: u32 = 8;
/// Cost of a load that is not contiguous, in additions.
const GATHERED: u32 = 8;

/// Properties of a node, independent of the pass.
#[derive(Clone, Copy, Default)]
struct Placed {
    level: u32,
    once: bool,
    kept: bool,
    /// Number of arguments of other nodes that are the node: `x * x` counts as two uses of `x`.
    uses: u16,
    /// Cost in additions of recomputing the node from loads and row values.
    cost: u32,
}

/// Passes of a body.
pub struct Passes {
    nodes: Vec<Placed>,
    last: usize,
    /// Set of passes that need each node, as `words` words of bits per node. For nodes computed once per row, only bit
    /// 0 is used: whether anything needs them.
    needed: Vec<u64>,
    words: usize,
}

impl Passes {
    /// Passes of a body over rows, or over single points: then there is one pass, and nothing is once per row. With
    /// `keep`, expensive values are buffered.
    pub fn new(body: &Body, rows: bool, keep: bool) -> Passes {
        let nodes = place(body, rows);
        let point_roots = || row_operands(body).chain(stores(body, false));
        let last = point_roots().map(|id| nodes[id.index()].level).max().unwrap_or(0) as usize;
        let words = last / 64 + 1;
        let mut p = Passes { needed: vec![0; nodes.len() * words], nodes, last, words };
        for id in row_operands(body) {
            p.need(id, p.level(id));
        }
        stores(body, false).for_each(|id| p.need(id, last));
        // Values stored once per row may depend on the last fold.
        stores(body, true).for_each(|id| p.need(id, p.level(id).min(last)));
        p.spread(body, keep);
        p
    }

    /// Propagates the passes that need each node from the roots backwards, and chooses the nodes that are kept in
    /// buffers.
    fn spread(&mut self, body: &Body, keep: bool) {
        for i in (0..self.nodes.len()).rev() {
            let id = NodeId(i as u32);
            if !self.is_needed(id) {
                continue;
            }
            if self.nodes[i].once {
                body.args(id).for_each(|a| self.need(a, 0));
                continue;
            }
            let storable = !matches!(body.nodes[i], Node::Scanned { .. } | Node::Combined { .. } | Node::Loop { .. });
            self.nodes[i].kept = keep && storable && self.nodes[i].cost >= KEEP && self.count(id) > 1;
            if self.nodes[i].kept {
                let first = self.first(id);
                body.args(id).for_each(|a| self.need(a, first));
                continue;
            }
            for a in body.args(id) {
                for w in 0..self.words {
                    self.needed[a.index() * self.words + w] |= self.needed[i * self.words + w];
                }
            }
        }
    }

    fn need(&mut self, id: NodeId, pass: usize) {
        let pass = if self.nodes[id.index()].once { 0 } else { pass };
        self.needed[id.index() * self.words + pass / 64] |= 1 << (pass % 64);
    }

    fn set(&self, id: NodeId) -> &[u64] {
        &self.needed[id.index() * self.words..][..self.words]
    }

    /// Number of passes that need a node.
    fn count(&self, id: NodeId) -> u32 {
        self.set(id).iter().map(|w| w.count_ones()).sum()
    }

    fn first(&self, id: NodeId) -> usize {
        let (w, word) = self.set(id).iter().enumerate().find(|(_, w)| **w != 0).expect("a node that a pass needs");
        64 * w + word.trailing_zeros() as usize
    }

    /// Last pass over the points of a row.
    pub fn last(&self) -> usize {
        self.last
    }

    /// First pass that can compute a node.
    pub fn level(&self, id: NodeId) -> usize {
        self.nodes[id.index()].level as usize
    }

    /// Whether a node is the same for all points of a row.
    pub fn once(&self, id: NodeId) -> bool {
        self.nodes[id.index()].once
    }

    /// Number of arguments of other nodes that are this node: `x * x` counts as two uses of `x`.
    pub fn uses(&self, id: NodeId) -> usize {
        self.nodes[id.index()].uses as usize
    }

    /// Whether any pass needs a node.
    pub fn is_needed(&self, id: NodeId) -> bool {
        self.set(id).iter().any(|w| *w != 0)
    }

    /// Whether passes after the first one that needs the node read it from a buffer.
    pub fn is_buffered(&self, id: NodeId) -> bool {
        self.nodes[id.index()].kept
    }

    /// Whether a pass computes a node, instead of reading it from a buffer or not needing it.
    pub fn computes(&self, pass: usize, id: NodeId) -> bool {
        let needs = self.set(id)[pass / 64] >> (pass % 64) & 1 == 1;
        needs && (!self.is_buffered(id) || self.first(id) == pass)
    }

    /// Number of passes that compute a node.
    pub fn evaluations(&self, id: NodeId) -> u32 {
        if self.is_buffered(id) { 1 } else { self.count(id) }
    }

    /// Number of times that a kept node goes through its buffer: written once, read in every later pass that needs it.
    pub fn transfers(&self, id: NodeId) -> u32 {
        if self.is_buffered(id) { self.count(id) } else { 0 }
    }
}

/// Operands of folds, scans and combines along the row.
fn row_operands(body: &Body) -> impl Iterator<Item = NodeId> + '_ {
    let folded = body.folds.iter().map(|f| f.node);
    let combined = body.combined.iter().flat_map(|c| c.elements().iter().copied());
    folded.chain(body.scans.iter().map(|s| s.node)).chain(combined)
}

/// Nodes that are stored once per row (`per_row`), or at each point.
fn stores(body: &Body, per_row: bool) -> impl Iterator<Item = NodeId> + '_ {
    body.stores.iter().filter(move |s| body.accesses[s.access as usize].per_row == per_row).map(|s| s.node)
}

/// Cost of a node's operation in additions, without that of its arguments.
pub fn own_cost(node: Node) -> u32 {
    match node {
        Node::Element { op, .. } => op.row().cost,
        Node::Cast { .. } | Node::Bitcast { .. } => 1,
        Node::Loop { of, .. } => of.cost(),
        _ => 0,
    }
}

/// Computes levels, once-per-row nodes and costs, from the loads forwards.
fn place(body: &Body, rows: bool) -> Vec<Placed> {
    let mut nodes = vec![Placed::default(); body.nodes.len()];
    for (i, node) in body.nodes.iter().enumerate() {
        let mut p = Placed { once: rows, cost: own_cost(*node), ..Placed::default() };
        for a in body.args(NodeId(i as u32)) {
            assert!(a.index() < i, "node {i} is made from node {}", a.index());
            let arg = &mut nodes[a.index()];
            arg.uses = arg.uses.saturating_add(1);
            p.level = p.level.max(arg.level);
            p.once &= arg.once;
            // A value used twice counts twice, so this may overflow without saturation.
            p.cost = p.cost.saturating_add(if arg.once { 0 } else { arg.cost });
        }
        let after = |operand: NodeId| {
            assert!(operand.index() < i, "node {i} is made from node {}", operand.index());
            nodes[operand.index()].level + 1
        };
        match *node {
            Node::Value { slot, .. } => p.level = after(body.folds[slot as usize].node),
            Node::Scanned { scan, .. } => (p.level, p.once) = (after(body.scans[scan as usize].node), false),
            Node::Combined { number, .. } => {
                let c = &body.combined[number as usize];
                p.level = c.elements().iter().map(|&e| after(e)).max().unwrap_or(1);
                p.once = rows && c.along == Along::Fold;
            }
            Node::Load { access } | Node::Index { access, .. } | Node::Valid { access } => {
                let a = body.accesses[access as usize];
                let near = a.class.step().is_some() || a.operand.is_none();
                p.once = rows && a.per_row;
                p.cost = p.cost.saturating_add(if near { 0 } else { GATHERED });
            }
            Node::Gather { access, .. } => {
                p.once &= body.accesses[access as usize].per_row;
                p.cost = p.cost.saturating_add(GATHERED);
            }
            _ => {}
        }
        nodes[i] = p;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessClass, BodyBuilder};
    use thalweg_ir::{DType, ElementOp, Monoid};

    fn access(b: &mut BodyBuilder, operand: u16) -> u16 {
        b.access(Access { operand: Some(operand), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false })
    }

    #[test]
    fn the_exponentials_of_a_softmax_are_computed_once_and_read_once() {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (access(&mut b, 0), access(&mut b, 1));
        let x = b.node(Node::Load { access: x });
        let m = b.fold(Monoid::Max, x);
        let d = b.element(ElementOp::Sub, &[x, m]);
        let e = b.element(ElementOp::Exp, &[d]);
        let s = b.fold(Monoid::Sum, e);
        let out = b.element(ElementOp::Div, &[e, s]);
        b.store(out, y);
        let body = b.finish();
        let p = Passes::new(&body, true, true);
        assert_eq!((p.last(), p.level(x), p.level(e), p.level(out)), (2, 0, 1, 2));
        assert!(p.is_buffered(e) && p.computes(1, e) && !p.computes(2, e));
        assert_eq!((p.evaluations(e), p.transfers(e), p.evaluations(x)), (1, 2, 2));
        assert!(p.once(m) && p.is_needed(m) && !p.once(x));
        let p = Passes::new(&body, true, false);
        assert_eq!((p.evaluations(e), p.evaluations(x), p.is_buffered(e)), (2, 3, false));
    }

    /// A body has more passes than a word has bits: each fold uses the one before it.
    #[test]
    fn there_is_no_bound_on_the_number_of_passes() {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (access(&mut b, 0), access(&mut b, 1));
        let x = b.node(Node::Load { access: x });
        let mut v = x;
        for _ in 0..150 {
            let s = b.fold(Monoid::Sum, v);
            v = b.element(ElementOp::Sub, &[x, s]);
        }
        b.store(v, y);
        let p = Passes::new(&b.finish(), true, true);
        assert_eq!((p.last(), p.level(v), p.evaluations(x)), (150, 150, 151));
        assert!(p.computes(149, x) && p.computes(150, v) && !p.computes(149, v));
    }
}
