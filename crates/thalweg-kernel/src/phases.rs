//! A row body put in order: which part of it runs over the points of a row when.
//!
//! A fold's result is known when the whole row has been read, so what depends on it takes another pass along the row. In: a row body, prepared
//! for the device. Out: *phases*, each a body of its own, run one after the other for each row. A phase runs over the points, or *once*, for
//! the values of the row.
//!
//! What a pass needs from an earlier one it computes again from the same loads (the row is in cache), or, where that would cost more than writing
//! it down, reads from a *buffer* of a row's length which the earlier pass filled. What is the same for all points of a row is computed once.
//!
//! Always true: all phases have the accesses of the whole body, in its order, with the buffers behind; folds and sets give the values
//! that later phases read as [`Node::Value`]; results are stored point by point in the last phase over points, so an output may lie over an input
//! which the row reads at the same points.

use crate::{Access, AccessClass, Body, BodyBuilder, Node, NodeId, Scan, Set, Store};
use rustc_hash::FxHashMap;
use thalweg_ir::DType;

/// Arithmetic (in additions) from which a value is kept in a buffer rather than computed again.
const KEEP: u64 = 8;
/// What a load that is not contiguous counts as.
const GATHERED: u64 = 8;

/// A row body in phases.
#[derive(Clone, Debug)]
pub struct Phases {
    /// In the order in which they run.
    pub list: Vec<Phase>,
    /// Dtypes of the values of a row: the results of folds, by fold, then what is computed once a row.
    pub values: Vec<DType>,
    /// Dtypes of the buffers: operands from [`Body::operands`] of the whole body on, accesses from its accesses on.
    pub buffers: Vec<DType>,
    /// What is computed once a row and known to later phases: nodes of the whole body with the numbers of their values, by node.
    pub held: Vec<(NodeId, u16)>,
}

/// A part of a row body that runs by itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Phase {
    /// What it computes. Its scans are empty: see [`Phase::scans`].
    pub body: Body,
    /// Once a row instead of at each point: it stores through accesses that are [`Access::per_row`], and sets values.
    pub once: bool,
    /// Scans to run when it has filled their buffers.
    pub scans: Vec<BufferScan>,
}

/// A scan from one buffer to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferScan {
    /// What (its node is meaningless here).
    pub scan: Scan,
    /// The buffer with the elements.
    pub from: u16,
    /// The buffer for the result; may be the same.
    pub to: u16,
}

/// Whether a row's value of that dtype can be held as a [`Set`].
fn holds(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64)
}

struct Planner<'a> {
    body: &'a Body,
    /// The pass from which on a node can be computed.
    level: Vec<usize>,
    /// Whether a node is the same for all points of a row.
    once: Vec<bool>,
    /// Arithmetic to compute a node from loads and values of the row.
    cost: Vec<u64>,
    /// Passes in which a node's value comes about.
    computed: Vec<Vec<usize>>,
    /// The buffer that holds a node, and the pass that fills it.
    kept: FxHashMap<NodeId, u16>,
    /// The value that holds a node.
    held: FxHashMap<NodeId, u16>,
    values: Vec<DType>,
    buffers: Vec<DType>,
    keep: bool,
}

/// Puts a row body in order. With `keep`, dear values are kept in buffers.
pub fn phases(body: &Body, keep: bool) -> Phases {
    let n = body.nodes.len();
    let ids = || (0..n as u32).map(NodeId);
    let (mut level, mut once, mut cost) = (vec![0; n], vec![false; n], vec![0u64; n]);
    let before = |operand: NodeId, result: usize| {
        assert!(operand.index() < result, "node {result} is made from node {}", operand.index());
        operand.index()
    };
    for id in ids() {
        let i = id.index();
        level[i] = body.args(id).map(|a| level[a.index()]).max().unwrap_or(0);
        once[i] = body.args(id).all(|a| once[a.index()]);
        cost[i] = body.args(id).filter(|a| !once[a.index()]).map(|a| cost[a.index()]).sum();
        match body.nodes[i] {
            Node::Value { slot, .. } => level[i] = level[before(body.folds[slot as usize].node, i)] + 1,
            Node::Scanned { scan, .. } => {
                level[i] = level[before(body.scans[scan as usize].node, i)] + 1;
                once[i] = false;
            }
            Node::Element { op, .. } => cost[i] += op.row().cost as u64,
            Node::Cast { .. } => cost[i] += 1,
            Node::Load { access } | Node::Index { access, .. } | Node::Valid { access } => {
                let a = body.accesses[access as usize];
                once[i] = a.per_row;
                let near = matches!(a.class, AccessClass::Contiguous | AccessClass::Uniform) || a.operand.is_none();
                cost[i] += if near { 0 } else { GATHERED };
            }
            Node::Gather { access, .. } => {
                once[i] &= body.accesses[access as usize].per_row;
                cost[i] += GATHERED;
            }
            Node::Scalar { .. } | Node::Const { .. } => {}
        }
    }
    let point_stores = || body.stores.iter().filter(|s| !body.accesses[s.access as usize].per_row);
    let per_point = body.folds.iter().map(|f| f.node).chain(body.scans.iter().map(|s| s.node));
    let last = per_point.chain(point_stores().map(|s| s.node)).map(|id| level[id.index()]).max().unwrap_or(0);
    let deepest = body.roots().map(|id| level[id.index()]).max().unwrap_or(0);
    let values = body.folds.iter().map(|f| body.dtype(f.node)).collect();
    let mut p = Planner {
        body,
        level,
        once,
        cost,
        computed: vec![vec![]; n],
        kept: FxHashMap::default(),
        held: FxHashMap::default(),
        values,
        buffers: vec![],
        keep,
    };
    // What each pass over the points has to give.
    let pass_roots: Vec<Vec<NodeId>> = (0..=last)
        .map(|l| {
            let ends = body.folds.iter().map(|f| f.node).chain(body.scans.iter().map(|s| s.node));
            let mut roots: Vec<NodeId> = ends.filter(|id| p.level[id.index()] == l).collect();
            if l == last {
                roots.extend(point_stores().map(|s| s.node));
            }
            roots
        })
        .collect();
    // Scans leave their results in buffers.
    let scanned: Vec<(u16, u16)> = body
        .scans
        .iter()
        .map(|s| {
            let (from, to) =
                (body.dtype(s.node), if s.op == thalweg_ir::ScanOp::Argsort { DType::I64 } else { body.dtype(s.node) });
            p.buffers.push(from);
            let first = p.buffers.len() as u16 - 1;
            if from == to {
                return (first, first);
            }
            p.buffers.push(to);
            (first, first + 1)
        })
        .collect();
    for (l, roots) in pass_roots.iter().enumerate() {
        p.visit(l, roots);
    }
    // Values of the row that its passes or its stores need.
    let row_stores: Vec<&Store> = body.stores.iter().filter(|s| body.accesses[s.access as usize].per_row).collect();
    let mut list = vec![];
    for l in 0..=deepest.max(last) {
        let sets: Vec<(NodeId, u16)> = {
            let mut sets: Vec<_> =
                p.held.iter().map(|(n, s)| (*n, *s)).filter(|(n, _)| p.level[n.index()] == l).collect();
            sets.sort_unstable();
            sets
        };
        let stores: Vec<&Store> = row_stores.iter().copied().filter(|s| p.level[s.node.index()] == l).collect();
        if !sets.is_empty() || !stores.is_empty() {
            list.push(p.once_phase(l, &sets, &stores));
        }
        if pass_roots.get(l).is_some_and(|roots| !roots.is_empty()) {
            list.push(p.pass_phase(l, last, &scanned));
        }
    }
    let mut held: Vec<(NodeId, u16)> = p.held.into_iter().collect();
    held.sort_unstable();
    Phases { list, values: p.values, buffers: p.buffers, held }
}

impl Planner<'_> {
    /// Notes what pass `l` computes, keeps and needs to be given.
    fn visit(&mut self, l: usize, roots: &[NodeId]) {
        let mut left: Vec<NodeId> = roots.to_vec();
        let mut seen = vec![false; self.body.nodes.len()];
        while let Some(id) = left.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            if self.once[id.index()] {
                self.hold(id);
                continue;
            }
            let before = self.computed[id.index()].iter().any(|&w| w < l);
            if before
                && (self.kept.contains_key(&id) || self.keep && self.cost[id.index()] >= KEEP && self.storable(id))
            {
                if !self.kept.contains_key(&id) {
                    self.buffers.push(self.body.dtype(id));
                    self.kept.insert(id, self.buffers.len() as u16 - 1);
                }
                continue;
            }
            self.computed[id.index()].push(l);
            left.extend(self.body.args(id));
        }
    }

    fn storable(&self, id: NodeId) -> bool {
        !matches!(self.body.nodes[id.index()], Node::Scanned { .. })
    }

    /// Makes a value of the row known to the phases, where it is worth more than a constant.
    fn hold(&mut self, id: NodeId) {
        match self.body.nodes[id.index()] {
            Node::Element { .. } | Node::Cast { .. } | Node::Gather { .. } if holds(self.body.dtype(id)) => {
                let (values, dtype) = (&mut self.values, self.body.dtype(id));
                self.held.entry(id).or_insert_with(|| {
                    values.push(dtype);
                    values.len() as u16 - 1
                });
            }
            Node::Element { .. } | Node::Cast { .. } | Node::Gather { .. } => {
                let args: Vec<NodeId> = self.body.args(id).collect();
                args.into_iter().for_each(|a| self.hold(a));
            }
            _ => {}
        }
    }

    fn builder(&self) -> BodyBuilder {
        let mut b = BodyBuilder::like(self.body);
        for (n, &dtype) in self.buffers.iter().enumerate() {
            let operand = Some(self.body.operands + n as u16);
            b.access(Access { operand, dtype, class: AccessClass::Contiguous, per_row: false });
        }
        b
    }

    fn buffer_access(&self, buffer: u16) -> u16 {
        self.body.accesses.len() as u16 + buffer
    }

    /// Node `root` in pass `l` (`None`: in a phase that runs once a row, before which `held` values of level `below` are not there).
    fn write(
        &self,
        b: &mut BodyBuilder,
        done: &mut FxHashMap<NodeId, NodeId>,
        root: NodeId,
        pass: Option<usize>,
        below: usize,
    ) -> NodeId {
        let mut stack = vec![(root, false)];
        while let Some((id, ready)) = stack.pop() {
            if done.contains_key(&id) {
                continue;
            }
            let node = self.body.nodes[id.index()];
            if self.once[id.index()]
                && let Some(&slot) = self.held.get(&id)
                && self.level[id.index()] < below
            {
                let dtype = self.body.dtype(id);
                done.insert(id, b.node(Node::Value { slot, dtype }));
                continue;
            }
            if let (Some(l), Some(&buffer)) = (pass, self.kept.get(&id))
                && !self.computed[id.index()].contains(&l)
            {
                let access = self.buffer_access(buffer);
                done.insert(id, b.node(Node::Load { access }));
                continue;
            }
            if ready {
                let new = b.node(node.with_args(|a| done[&a]));
                done.insert(id, new);
                continue;
            }
            stack.push((id, true));
            stack.extend(self.body.args(id).filter(|a| !done.contains_key(a)).map(|a| (a, false)));
        }
        done[&root]
    }

    fn once_phase(&self, l: usize, sets: &[(NodeId, u16)], stores: &[&Store]) -> Phase {
        let (mut b, mut done) = (self.builder(), FxHashMap::default());
        let mut out = Body::default();
        for &(node, slot) in sets {
            let node = self.write(&mut b, &mut done, node, None, l);
            out.sets.push(Set { node, slot });
        }
        for s in stores {
            let node = self.write(&mut b, &mut done, s.node, None, l);
            out.stores.push(Store { node, ..**s });
        }
        b.set_roots(out);
        Phase { body: b.finish(), once: true, scans: vec![] }
    }

    fn pass_phase(&self, l: usize, last: usize, scanned: &[(u16, u16)]) -> Phase {
        let (mut b, mut done) = (self.builder(), FxHashMap::default());
        // Results of scans are in buffers.
        for (i, node) in self.body.nodes.iter().enumerate() {
            if let Node::Scanned { scan, .. } = *node {
                let access = self.buffer_access(scanned[scan as usize].1);
                let load = b.node(Node::Load { access });
                done.insert(NodeId(i as u32), load);
            }
        }
        let mut out = Body::default();
        let mut scans = vec![];
        // Values set before this pass have levels up to its own.
        let below = l + 1;
        for f in self.body.folds.iter().filter(|f| self.level[f.node.index()] == l) {
            let node = self.write(&mut b, &mut done, f.node, Some(l), below);
            out.folds.push(crate::Fold { node, ..*f });
        }
        let mut fill: Vec<(NodeId, u16)> = vec![];
        for (n, s) in self.body.scans.iter().enumerate().filter(|(_, s)| self.level[s.node.index()] == l) {
            let (from, to) = scanned[n];
            fill.push((s.node, from));
            scans.push(BufferScan { scan: *s, from, to });
        }
        // A node is kept by the first pass that computes it.
        let mut kept: Vec<(NodeId, u16)> = self.kept.iter().map(|(n, b)| (*n, *b)).collect();
        kept.sort_unstable();
        fill.extend(kept.into_iter().filter(|(n, _)| self.computed[n.index()].first() == Some(&l)));
        for (node, buffer) in fill {
            let node = self.write(&mut b, &mut done, node, Some(l), below);
            out.stores.push(Store { node, access: self.buffer_access(buffer), combine: None });
        }
        if l == last {
            for s in self.body.stores.iter().filter(|s| !self.body.accesses[s.access as usize].per_row) {
                let node = self.write(&mut b, &mut done, s.node, Some(l), below);
                out.stores.push(Store { node, ..*s });
            }
        }
        b.set_roots(out);
        Phase { body: b.finish(), once: false, scans }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FoldOp;
    use thalweg_ir::ElementOp;

    fn access(b: &mut BodyBuilder, operand: u16, per_row: bool) -> u16 {
        let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
        b.access(Access { operand: Some(operand), dtype: DType::F32, class, per_row })
    }

    /// Softmax: two folds, three passes, the exponentials kept.
    #[test]
    fn softmax_is_three_passes_and_keeps_its_exponentials() {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (access(&mut b, 0, false), access(&mut b, 1, false));
        let x = b.node(Node::Load { access: x });
        let m = b.fold(FoldOp::Max, x);
        let d = b.element(ElementOp::Sub, &[x, m]);
        let e = b.element(ElementOp::Exp, &[d]);
        let s = b.fold(FoldOp::Sum, e);
        let out = b.element(ElementOp::Div, &[e, s]);
        b.store(out, y);
        let body = b.finish();
        let p = phases(&body, true);
        assert_eq!(p.list.len(), 3);
        assert_eq!(p.buffers, [DType::F32]);
        assert!(p.list.iter().all(|q| !q.once));
        assert_eq!(p.list[1].body.stores.len(), 1);
        assert_eq!(p.list[1].body.folds.len(), 1);
        let last = &p.list[2].body;
        assert!(last.nodes.iter().all(|n| !matches!(n, Node::Element { op: ElementOp::Exp, .. })));
        assert_eq!(last.stores[0].access, 1);
        // Without buffers it is computed again.
        let p = phases(&body, false);
        assert!(p.buffers.is_empty());
        assert!(p.list[2].body.nodes.iter().any(|n| matches!(n, Node::Element { op: ElementOp::Exp, .. })));
    }

    /// The scale of RMS norm is computed once a row; a mean that is wanted is stored once a row.
    #[test]
    fn what_is_the_same_for_a_row_is_computed_once() {
        let mut b = BodyBuilder::new(false);
        let (x, y, m) = (access(&mut b, 0, false), access(&mut b, 1, false), access(&mut b, 2, true));
        let x = b.node(Node::Load { access: x });
        let q = b.element(ElementOp::Mul, &[x, x]);
        let s = b.fold(FoldOp::Sum, q);
        let n = b.scalar(0, DType::F32);
        let mean = b.element(ElementOp::Mul, &[s, n]);
        let root = b.element(ElementOp::Sqrt, &[mean]);
        let out = b.element(ElementOp::Div, &[x, root]);
        b.store(out, y);
        b.store(mean, m);
        let p = phases(&b.finish(), true);
        assert_eq!(p.list.iter().map(|q| q.once).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(p.list[1].body.sets.len(), 1);
        assert_eq!(p.list[1].body.stores.len(), 1);
        assert_eq!(p.values.len(), 2);
        let last = &p.list[2].body;
        assert_eq!(last.nodes.iter().filter(|n| matches!(n, Node::Value { .. })).count(), 1);
        assert!(p.buffers.is_empty());
    }
}
