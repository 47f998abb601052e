//! Phases of a row body: the order in which parts of it run over the points of a row.
//!
//! A fold's result is known once the whole row has been read, so everything that depends on it takes another pass along
//! the row. In: a row body, prepared for the device. Out: *phases*, each a body of its own, run one after the other for
//! each row. A phase runs over the points, or *once* per row, for the row's values.
//!
//! A pass recomputes what it needs from an earlier one from the same loads (the row is in cache). If that costs more
//! than storing it, it reads a *buffer* of a row's length which the earlier pass filled. Values that are the same for
//! all points of a row are computed once.
//!
//! Always true: all phases have the accesses of the whole body, in its order, followed by the buffers. Folds and sets
//! give the values that later phases read as [`Node::Value`]. Point stores are in the last phase over points, so an
//! output may reuse an input's memory if the row reads it at the same points.

use crate::passes::Passes;
use crate::{Access, AccessClass, Along, Body, BodyBuilder, Node, NodeId, Scan, Set, Store};
use rustc_hash::FxHashMap;
use thalweg_ir::{DType, Loop};

/// Row body in phases.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Phases in the order in which they run.
    pub list: Vec<Phase>,
    /// Dtypes of the values of a row: the results of folds, by fold, then those of user-defined folds, then values
    /// computed once per row.
    pub values: Vec<DType>,
    /// Dtypes of the buffers. Their operands start at the whole body's [`Body::operands`], their accesses after its
    /// accesses.
    pub buffers: Vec<DType>,
    /// Nodes of the whole body that are computed once per row and passed to later phases, each with the index of its
    /// row value in `values`; sorted by node.
    pub held: Vec<(NodeId, u16)>,
}

/// Phase of a row body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Phase {
    /// Computation of the phase. Its scans are empty: see [`Phase::scans`].
    pub body: Body,
    /// Whether the phase runs once per row instead of at each point: the phase then stores through accesses that are
    /// [`Access::per_row`], and sets values.
    pub once: bool,
    /// Scans that run after the phase, over the buffers that it has filled.
    pub scans: Vec<BufferScan>,
    /// User-defined combines that run after the phase, over the buffers that it has filled.
    pub combined: Vec<BufferCombined>,
}

impl Phase {
    /// Whether the phase is followed by a scan or a user-defined combine over its whole buffers.
    pub fn leaves_buffers(&self) -> bool {
        !self.scans.is_empty() || !self.combined.is_empty()
    }
}

/// User-defined fold or scan of buffers. A fold destroys its buffers, a scan leaves its result there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BufferCombined {
    /// User-defined combine ([`Loop::is_combine`]).
    pub of: Loop,
    /// Direction of the combine: fold, scan or reversed scan.
    pub along: Along,
    /// Index of the first buffer; the components of the elements are in consecutive buffers.
    pub buffers: u16,
    /// Index of the first row value that receives the results of a fold; unused for a scan.
    pub slot: u16,
}

/// Scan from one buffer to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferScan {
    /// Scan, with operation and direction; `Scan::node` is unused here.
    pub scan: Scan,
    /// Index of the buffer with the elements.
    pub from: u16,
    /// Index of the buffer for the result; may be the same as `from`.
    pub to: u16,
}

/// Whether a row's value of that dtype can be held as a [`Set`].
fn holds(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64)
}

struct Planner<'a> {
    body: &'a Body,
    passes: Passes,
    /// Index of the buffer of each kept node.
    kept: FxHashMap<NodeId, u16>,
    /// Index of the row value of each held node.
    held: FxHashMap<NodeId, u16>,
    values: Vec<DType>,
    buffers: Vec<DType>,
    /// Index of the first buffer and of the first row value of each user-defined combine.
    combined: Vec<(u16, u16)>,
}

/// Splits a row body into phases. With `keep`, expensive values are buffered.
pub fn phases(body: &Body, keep: bool) -> Phases {
    let values = body.folds.iter().map(|f| body.dtype(f.node)).collect();
    let (kept, held) = (FxHashMap::default(), FxHashMap::default());
    let passes = Passes::new(body, true, keep);
    let mut p = Planner { body, passes, kept, held, values, buffers: vec![], combined: vec![] };
    let scanned = p.scan_buffers();
    p.combine_buffers();
    p.keep_and_hold();
    let last = p.passes.last();
    let deepest = body.roots().map(|id| p.passes.level(id)).max().unwrap_or(0);
    let row_stores: Vec<&Store> = body.stores.iter().filter(|s| body.accesses[s.access as usize].per_row).collect();
    let mut list = vec![];
    for l in 0..=deepest.max(last) {
        // Values of the row that this level's passes or stores need.
        let level = |n: NodeId| p.passes.level(n);
        let mut sets: Vec<_> = p.held.iter().map(|(n, s)| (*n, *s)).filter(|(n, _)| level(*n) == l).collect();
        sets.sort_unstable();
        let stores: Vec<&Store> = row_stores.iter().copied().filter(|s| level(s.node) == l).collect();
        if !sets.is_empty() || !stores.is_empty() {
            list.push(p.once_phase(l, &sets, &stores));
        }
        if p.roots(l).next().is_some() {
            list.push(p.pass_phase(l, last, &scanned));
        }
    }
    let mut held: Vec<(NodeId, u16)> = p.held.into_iter().collect();
    held.sort_unstable();
    Phases { list, values: p.values, buffers: p.buffers, held }
}

impl Planner<'_> {
    /// Roots of pass `l` over the points.
    fn roots(&self, l: usize) -> impl Iterator<Item = NodeId> + '_ {
        let combined = self.body.combined.iter().flat_map(|c| c.elements().iter().copied());
        let ends = self.body.folds.iter().map(|f| f.node).chain(self.body.scans.iter().map(|s| s.node)).chain(combined);
        let stores = self.body.stores.iter().filter(move |_| l == self.passes.last());
        let at_points = stores.filter(|s| !self.body.accesses[s.access as usize].per_row).map(|s| s.node);
        ends.filter(move |id| self.passes.level(*id) == l).chain(at_points)
    }

    /// Adds the buffers that scans read and write; returns the indices of both, by scan.
    fn scan_buffers(&mut self) -> Vec<(u16, u16)> {
        let body = self.body;
        let mut buffer = |dtype| {
            self.buffers.push(dtype);
            self.buffers.len() as u16 - 1
        };
        let both = body.scans.iter().map(|s| {
            let from = body.dtype(s.node);
            let to = if s.op == thalweg_ir::ScanOp::Argsort { DType::I64 } else { from };
            let first = buffer(from);
            (first, if from == to { first } else { buffer(to) })
        });
        both.collect()
    }

    /// Adds buffers for the elements of user-defined combines, and row values for the results of folds.
    fn combine_buffers(&mut self) {
        for c in &self.body.combined {
            self.combined.push((self.buffers.len() as u16, self.values.len() as u16));
            let dtypes = c.elements().iter().map(|&e| self.body.dtype(e));
            self.buffers.extend(dtypes.clone());
            if c.along == Along::Fold {
                self.values.extend(dtypes);
            }
        }
    }

    /// Adds to `done` the nodes through which later phases read the results of user-defined combines.
    fn read_combined(&self, b: &mut BodyBuilder, done: &mut FxHashMap<NodeId, NodeId>) {
        for (i, node) in self.body.nodes.iter().enumerate() {
            let Node::Combined { number, component, dtype } = *node else { continue };
            let (buffer, slot) = self.combined[number as usize];
            let read = match self.body.combined[number as usize].along {
                Along::Fold => Node::Value { slot: slot + component, dtype },
                Along::Scan | Along::Reversed => Node::Load { access: self.buffer_access(buffer + component) },
            };
            done.insert(NodeId(i as u32), b.node(read));
        }
    }

    /// Level at which the last component of a user-defined combine's elements is known.
    fn combined_level(&self, number: usize) -> usize {
        self.body.combined[number].elements().iter().map(|&e| self.passes.level(e)).max().unwrap_or(0)
    }

    /// Assigns buffers to kept nodes, and row values to once-per-row nodes that passes need.
    fn keep_and_hold(&mut self) {
        let all = (0..=self.passes.last()).flat_map(|l| self.roots(l));
        let roots: Vec<NodeId> = all.filter(|id| self.passes.once(*id)).collect();
        roots.into_iter().for_each(|r| self.hold(r));
        for id in (0..self.body.nodes.len() as u32).map(NodeId) {
            if self.passes.once(id) || !self.passes.is_needed(id) {
                continue;
            }
            if self.passes.is_buffered(id) {
                self.buffers.push(self.body.dtype(id));
                self.kept.insert(id, self.buffers.len() as u16 - 1);
            }
            for a in self.body.args(id) {
                if self.passes.once(a) {
                    self.hold(a);
                }
            }
        }
    }

    /// Makes a value of the row available to later phases, unless they have it anyway, like constants, loads and folds.
    fn hold(&mut self, id: NodeId) {
        match self.body.nodes[id.index()] {
            Node::Element { .. }
            | Node::Cast { .. }
            | Node::Bitcast { .. }
            | Node::Round { .. }
            | Node::Gather { .. }
                if holds(self.body.dtype(id)) =>
            {
                let (values, dtype) = (&mut self.values, self.body.dtype(id));
                self.held.entry(id).or_insert_with(|| {
                    values.push(dtype);
                    values.len() as u16 - 1
                });
            }
            Node::Element { .. }
            | Node::Cast { .. }
            | Node::Bitcast { .. }
            | Node::Round { .. }
            | Node::Gather { .. } => {
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

    /// Writes node `root` with its ancestors for the pass `pass` (`None`: in a once-per-row phase, in which held values
    /// of level `below` and above are not available yet).
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
            if self.passes.once(id)
                && let Some(&slot) = self.held.get(&id)
                && self.passes.level(id) < below
            {
                let dtype = self.body.dtype(id);
                done.insert(id, b.node(Node::Value { slot, dtype }));
                continue;
            }
            if let (Some(l), Some(&buffer)) = (pass, self.kept.get(&id))
                && !self.passes.computes(l, id)
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
        self.read_combined(&mut b, &mut done);
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
        Phase { body: b.finish(), once: true, scans: vec![], combined: vec![] }
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
        self.read_combined(&mut b, &mut done);
        let mut out = Body::default();
        let (mut scans, mut combined) = (vec![], vec![]);
        // Values set before this pass have levels up to its own.
        let below = l + 1;
        for f in self.body.folds.iter().filter(|f| self.passes.level(f.node) == l) {
            let node = self.write(&mut b, &mut done, f.node, Some(l), below);
            out.folds.push(crate::Fold { node, ..*f });
        }
        let mut fill: Vec<(NodeId, u16)> = vec![];
        for (n, s) in self.body.scans.iter().enumerate().filter(|(_, s)| self.passes.level(s.node) == l) {
            let (from, to) = scanned[n];
            fill.push((s.node, from));
            scans.push(BufferScan { scan: *s, from, to });
        }
        for (n, c) in self.body.combined.iter().enumerate() {
            let (buffers, slot) = self.combined[n];
            let elements = c.elements().iter().zip(buffers..);
            fill.extend(elements.filter(|(e, _)| self.passes.level(**e) == l).map(|(e, buffer)| (*e, buffer)));
            if self.combined_level(n) == l {
                combined.push(BufferCombined { of: c.of, along: c.along, buffers, slot });
            }
        }
        // A kept node is stored by the first pass that computes it.
        let mut kept: Vec<(NodeId, u16)> = self.kept.iter().map(|(n, b)| (*n, *b)).collect();
        kept.sort_unstable();
        fill.extend(kept.into_iter().filter(|(n, _)| self.passes.computes(l, *n)));
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
        Phase { body: b.finish(), once: false, scans, combined }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{ElementOp, Monoid};

    fn access(b: &mut BodyBuilder, operand: u16, per_row: bool) -> u16 {
        let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
        b.access(Access { operand: Some(operand), dtype: DType::F32, class, per_row })
    }

    /// Softmax has two folds and three passes; its exponentials are buffered.
    #[test]
    fn softmax_is_three_passes_and_keeps_its_exponentials() {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (access(&mut b, 0, false), access(&mut b, 1, false));
        let x = b.node(Node::Load { access: x });
        let m = b.fold(Monoid::Max, x);
        let d = b.element(ElementOp::Sub, &[x, m]);
        let e = b.element(ElementOp::Exp, &[d]);
        let s = b.fold(Monoid::Sum, e);
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
        // Without buffers it is recomputed.
        let p = phases(&body, false);
        assert!(p.buffers.is_empty());
        assert!(p.list[2].body.nodes.iter().any(|n| matches!(n, Node::Element { op: ElementOp::Exp, .. })));
    }

    /// The scale of RMS norm is computed once per row; a mean that is an output is stored once per row.
    #[test]
    fn what_is_the_same_for_a_row_is_computed_once() {
        let mut b = BodyBuilder::new(false);
        let (x, y, m) = (access(&mut b, 0, false), access(&mut b, 1, false), access(&mut b, 2, true));
        let x = b.node(Node::Load { access: x });
        let q = b.element(ElementOp::Mul, &[x, x]);
        let s = b.fold(Monoid::Sum, q);
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
