//! Shared passes: what reads the rows of one tensor in one kernel, and reductions over different axes in one walk through it.

use super::{Draft, MAX_KERNEL_OPS, Partition, Use, arguments, takes_rows};
use crate::movement::{Path, is_in_order};
use crate::plan::{Edge, Reason};
use crate::rows;
use crate::segment::{BitSet, ValueId};
use std::collections::HashSet;
use thalweg_ir::{DType, Op, ReduceOp};
use thalweg_kernel::IndexMap;

/// Bytes of a tensor from which reading it once instead of twice is worth a second stage.
const WORTH_SHARING: usize = 1 << 16;

impl Partition<'_> {
    /// Makes row kernel `b` one with another over the same rows of related values, if there is one: they come apart where one began as a kernel with
    /// an element for each row. Returns the kernel that it now is.
    pub(super) fn join_rows(&mut self, b: usize) -> usize {
        let Some(a) = (0..self.kernels.len()).find(|&a| a != b && self.same_pass(a, b)) else { return b };
        let empty = self.new_kernel(None, None);
        self.kernels.swap(b, empty);
        let moved = self.kernels.pop().expect("just put there");
        for &s in moved.stores.iter().chain(&moved.row_stores) {
            self.stored_by[s] = Some(a);
        }
        moved.ops.iter().for_each(|i| self.note(i, a));
        let draft = &mut self.kernels[a];
        draft.from.union(&moved.from);
        draft.stores.extend(moved.stores);
        draft.row_stores.extend(moved.row_stores);
        draft.readers.extend(moved.readers);
        draft.readers.sort_unstable();
        draft.readers.dedup();
        for k in &mut self.kernels {
            if k.readers.contains(&b) {
                k.readers.retain(|&r| r != b && r != a);
                k.readers.push(a);
            }
        }
        for e in &mut self.edges {
            for end in [&mut e.from, &mut e.to] {
                if *end == b {
                    *end = a;
                }
            }
        }
        self.edges.sort_by_key(|e| (e.op, e.from, e.to));
        self.edges.dedup_by_key(|e| (e.op, e.from, e.to));
        // Both have domains of one shape, so what is needed in one is needed in the other the same way.
        for uses in &mut self.uses {
            let (of_b, mut rest): (Vec<Use>, Vec<Use>) = std::mem::take(uses).into_iter().partition(|u| u.kernel == b);
            for u in of_b {
                if !rest.iter().any(|r| r.kernel == a && r.map == u.map) {
                    rest.push(Use { kernel: a, ..u });
                }
            }
            *uses = rest;
        }
        for operands in &mut self.operands {
            operands.iter_mut().filter(|o| o.0 == b).for_each(|o| o.0 = a);
        }
        a
    }

    /// Whether two kernels go over the same rows of related values, and neither waits for the other.
    fn same_pass(&self, a: usize, b: usize) -> bool {
        let ix = &self.ix;
        let (x, y) = (&self.kernels[a], &self.kernels[b]);
        let (Some(r), Some(s)) = (x.rows, y.rows) else { return false };
        let shape = |r| ix.shape(rows::operand(ix, r));
        self.ix.seg.mode.fused
            && shape(r).numel() > 0
            && shape(r) == shape(s)
            && self.same_rows(r, s)
            && x.from.meets(&y.from)
            && x.count + y.count < MAX_KERNEL_OPS
            && !self.reaches(a, b)
            && !self.reaches(b, a)
    }

    /// Where a tensor is reduced over its last axes in one kernel and over all the others in another, the first kernel does both in its pass: what
    /// the other one had to do after its reductions stays behind.
    ///
    /// The order of such a reduction is another than by itself, so a strict plan keeps the passes apart.
    pub(super) fn share_passes(&mut self) {
        if !self.ix.seg.mode.fused || self.ix.seg.mode.strict {
            return;
        }
        for b in 0..self.kernels.len() {
            let Some(folds) = self.column_folds(b) else { continue };
            let Some(a) = (0..self.kernels.len()).find(|&a| a != b && self.may_share(a, b)) else { continue };
            let from = self.kernels[b].from.clone();
            self.kernels[a].from.union(&from);
            self.kernels[a].column_stores.extend(&folds);
            for &i in &folds {
                self.stored_by[i] = Some(a);
                for e in self.edges.iter_mut().filter(|e| e.op == i) {
                    e.from = a;
                }
            }
            // What only the reductions needed is computed there now.
            let mut moved = vec![];
            let mut left = folds.clone();
            while let Some(i) = left.pop() {
                if self.kernels[b].ops.has(i) && !moved.contains(&i) {
                    moved.push(i);
                    left.extend(self.ix.tensors(i).filter_map(|(_, v)| match v {
                        ValueId::Op(a) => Some(a),
                        ValueId::Input(_) => None,
                    }));
                }
            }
            moved.iter().for_each(|&i| self.note(i, a));
            self.leave_results(b, a, &folds);
        }
    }

    /// The reductions of a kernel that does nothing else over the points of its rows, if they can be made from all rows of another.
    fn column_folds(&self, b: usize) -> Option<Vec<usize>> {
        let (ix, draft) = (&self.ix, &self.kernels[b]);
        let rows = draft.rows?;
        let shape = ix.shape(rows::operand(ix, rows));
        if !draft.stores.is_empty() || !draft.column_stores.is_empty() {
            return None;
        }
        let folds: Vec<usize> = draft.ops.iter().filter(|&i| takes_rows(ix.seg.ops[i].op)).collect();
        let plain = |i: usize| {
            let Op::Reduce(op) = ix.seg.ops[i].op else { return false };
            let dtype = ix.seg.ops[i].dtype;
            let carried = matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64);
            // A reduction of what another one gave takes a second pass.
            let first = folds.iter().all(|&f| f == i || !self.ancestry[i].has(f));
            matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min)
                && carried
                && first
                && ix.dtype(rows::operand(ix, i)) == dtype
                && ix.shape(rows::operand(ix, i)) == shape
        };
        let worth = ix.bytes(rows::operand(ix, rows)) >= WORTH_SHARING;
        (worth && folds.iter().all(|&i| plain(i))).then_some(folds)
    }

    /// Whether kernel `a` may take over the reductions of kernel `b`: its rows are the last axes, theirs all others, of the same values.
    fn may_share(&self, a: usize, b: usize) -> bool {
        let ix = &self.ix;
        let (Some(rows), Some(columns)) = (self.kernels[a].rows, self.kernels[b].rows) else { return false };
        let (shape, other) = (ix.shape(rows::operand(ix, rows)), ix.shape(rows::operand(ix, columns)));
        let (along, over) = (rows::axes(ix, rows), rows::axes(ix, columns));
        let all = (1u32 << shape.rank()) - 1;
        let last = along != 0 && along & (along >> 1 | 1 << (shape.rank() - 1)) == along;
        shape == other
            && last
            && along & over == 0
            && along | over == all
            && matches!(ix.seg.ops[rows].op, Op::Reduce(_))
            && self.kernels[a].from.meets(&self.kernels[b].from)
            && !self.reaches(b, a)
            // What `b` reads must be there when `a` runs, or where `a` computes it.
            && (0..self.kernels.len()).all(|k| k == a || !self.kernels[k].readers.contains(&b) || !self.reaches(a, k))
            && (!self.kernels[a].readers.contains(&b) || self.reads_in_place(b, a))
    }

    /// Whether the reductions of kernel `b` need what kernel `a` writes only at the point, or for the row, that it is computed at.
    fn reads_in_place(&self, b: usize, a: usize) -> bool {
        let (ix, from, to) = (&self.ix, &self.kernels[a], &self.kernels[b]);
        let rows = from.rows.expect("a row kernel");
        let domain = ix.shape(rows::operand(ix, rows));
        let mut left: Vec<(usize, Path)> = to.ops.iter().map(|i| (i, Path::identity())).collect();
        left.retain(|(i, _)| takes_rows(ix.seg.ops[*i].op));
        let mut seen: HashSet<(usize, IndexMap)> = HashSet::new();
        while let Some((i, path)) = left.pop() {
            for (v, path) in arguments(ix, i, &path, domain) {
                let ValueId::Op(v) = v else { continue };
                let map = path.map_to(ix, ix.seg.shapes[v]);
                let in_place = if from.row_stores.contains(&v) {
                    rows::same_places(&rows::row_map(ix, rows), &map)
                } else {
                    is_in_order(&map, domain.numel(), ix.seg.shapes[v].numel())
                };
                match self.stored_by[v] {
                    Some(k) if k == a && (!in_place || from.column_stores.contains(&v)) => return false,
                    Some(k) if k != b => {}
                    _ if seen.insert((v, map)) => left.push((v, path)),
                    _ => {}
                }
            }
        }
        true
    }

    /// Kernel `b` without its reductions, whose results it reads from what `a` wrote.
    fn leave_results(&mut self, b: usize, a: usize, folds: &[usize]) {
        let n = self.ix.seg.ops.len();
        for (_, k) in self.kernels.iter_mut().enumerate().filter(|(k, _)| *k != a) {
            if k.readers.contains(&b) && !k.readers.contains(&a) {
                k.readers.push(a);
            }
        }
        let draft = &mut self.kernels[b];
        let results: Vec<usize> = draft.row_stores.iter().copied().filter(|s| !folds.contains(s)).collect();
        let direct: Vec<usize> = std::mem::take(&mut draft.readers);
        if results.is_empty() {
            // Everyone that read from it reads from `a`.
            draft.row_stores.clear();
            draft.rows = None;
            draft.ops = BitSet::new(n);
            for r in direct {
                if r != a && !self.kernels[a].readers.contains(&r) {
                    self.kernels[a].readers.push(r);
                }
            }
            return;
        }
        draft.readers = direct.clone();
        draft.rows = None;
        draft.domain = Some(ValueId::Op(results[0]));
        draft.stores = results.clone();
        draft.row_stores.clear();
        let mut ops = BitSet::new(n);
        let mut left = results;
        while let Some(i) = left.pop() {
            if folds.contains(&i) || !draft.ops.has(i) || ops.has(i) {
                continue;
            }
            ops.insert(i);
            left.extend(self.ix.tensors(i).filter_map(|(_, v)| match v {
                ValueId::Op(a) => Some(a),
                ValueId::Input(_) => None,
            }));
        }
        draft.ops = ops;
        let readers: Vec<usize> = direct.into_iter().filter(|r| *r != a).collect();
        let a_readers = &mut self.kernels[a].readers;
        a_readers.push(b);
        a_readers.extend(readers);
        a_readers.sort_unstable();
        a_readers.dedup();
        for &i in folds {
            let Op::Reduce(op) = self.ix.seg.ops[i].op else { unreachable!("only reductions are shared") };
            self.edges.push(Edge { op: i, from: a, to: b, reason: Reason::SharedPass(op.name()) });
        }
    }

    /// Removes kernels that store nothing any more.
    pub(super) fn drop_empty(&mut self) {
        let stores = |d: &Draft| !(d.stores.is_empty() && d.row_stores.is_empty() && d.column_stores.is_empty());
        let mut place = vec![usize::MAX; self.kernels.len()];
        let kept = (0..self.kernels.len()).filter(|&k| stores(&self.kernels[k]));
        kept.enumerate().for_each(|(new, old)| place[old] = new);
        self.kernels.retain(stores);
        for draft in &mut self.kernels {
            draft.readers.retain(|&r| place[r] != usize::MAX);
            draft.readers.iter_mut().for_each(|r| *r = place[*r]);
        }
        self.edges.retain(|e| place[e.to] != usize::MAX && place[e.from] != usize::MAX);
        for e in &mut self.edges {
            (e.from, e.to) = (place[e.from], place[e.to]);
        }
        self.stored_by.iter_mut().flatten().for_each(|k| *k = place[*k]);
    }
}
