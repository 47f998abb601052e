//! Candidates around a matrix product: the split into prologues and epilogue.
//!
//! In: the products and folds that a kernel would compute. Out: the kernel's product, the producer GEMM that its left
//! operand is computed from, and the rows along which left operand and accumulators are folded; or the rule that
//! forbids one kernel. docs/contractions.md has the idea.

use super::facts::Facts;
use super::reach::{Candidate, KernelStores, Reach};
use crate::plan::{KernelPlan, Products};
use crate::segment::ValueId;
use crate::write::rows;
use crate::write::rules::{Rule, is_constant};
use rustc_hash::FxHashSet;
use thalweg_ir::{Op, Shape};
use thalweg_kernel::Contracts;

impl KernelStores<'_, '_> {
    /// Candidate kernel around one product, or around two where one is the producer GEMM of the other's left operand.
    pub(super) fn contraction(&self, reach: Reach) -> Result<Candidate, Rule> {
        let (facts, stores) = (self.facts, self.stores);
        let ix = &facts.ix;
        let shapes = ix.seg.shapes;
        let factors = |product: usize| -> Vec<FxHashSet<usize>> {
            ix.tensors(product).map(|(_, v)| self.computed_from(v)).collect()
        };
        let (product, inner, [left, right]) = match reach.products[..] {
            [product] => (product, None, pair(factors(product))),
            [a, b] => {
                let ([al, ar], [bl, br]) = (pair(factors(a)), pair(factors(b)));
                match (al.contains(&b), bl.contains(&a)) {
                    (true, false) if !ar.contains(&b) => (a, Some(b), [al, ar]),
                    (false, true) if !br.contains(&a) => (b, Some(a), [bl, br]),
                    _ => return Err(Rule::SecondProduct),
                }
            }
            _ => return Err(Rule::SecondProduct),
        };
        let of_left = ix.tensors(product).next().expect("a product has factors").1;
        let factor = ix.shape(of_left);
        if let Some(inner) = inner {
            // The operands of the producer GEMM are in memory, or computed elementwise.
            let own = factors(inner);
            if shapes[inner] != factor || reach.folds.iter().any(|f| own.iter().any(|o| o.contains(f))) {
                return Err(Rule::SecondProduct);
            }
        }
        // An operand is packed before the kernel's stores are complete.
        if stores.iter().any(|s| left.contains(s) || right.contains(s)) {
            return Err(Rule::ReadElsewhere);
        }
        if reach.folds.iter().any(|f| right.contains(f)) {
            return Err(Rule::OtherRows);
        }
        let (before, after): (Vec<usize>, Vec<usize>) = reach.folds.iter().partition(|f| left.contains(f));
        let left_rows = facts.last_axis_reduction(&before, factor)?;
        let rows = facts.last_axis_reduction(&after, shapes[product])?;
        if ix.seg.mode.contracts < Contracts::Rows {
            // Tile kernels support no row operations, except those of the weights between two products (flash
            // attention), which are checked when they are written.
            if rows.is_some() || left_rows.is_some() && inner.is_none() {
                return Err(Rule::OtherRows);
            }
            if inner.is_some() && !ix.seg.mode.streams(ix.seg.ops[product].dtype) {
                return Err(Rule::SecondProduct);
            }
        }
        // Tiles have no buffers for whole rows.
        if reach.ops.iter().any(|&i| ix.seg.ops[i].op.is_combined()) {
            return Err(Rule::OtherRows);
        }
        let points = shapes[product].numel();
        let (mut at_points, mut at_rows) = (vec![], vec![]);
        for s in facts.ranked(stores) {
            let own = shapes[s].numel();
            let by_row = rows.is_some_and(|r| own == rows::row_count(ix, r));
            let reduced = ix.seg.ops[s].op.is_fold() && ix.takes_rows(s);
            match () {
                () if by_row && (reduced || own != points) => at_rows.push(s),
                () if own == points => at_points.push(s),
                () => return Err(Rule::OtherPoints),
            }
        }
        let inner = inner.map(|inner| (inner, self.end_of_chain(inner, of_left, &reach.ops, &left)));
        let products = Products { product, inner, left_rows, rows };
        let plan = KernelPlan::Contraction { products, stores: at_points, row_stores: at_rows, ops: reach.ops };
        Ok(Candidate { plan, loads: reach.loads })
    }

    /// Last operation of the elementwise chain that starts at a product. Each is the only use of the one before in the
    /// kernel, and its other arguments depend on no product or fold.
    fn end_of_chain(&self, product: usize, factor: ValueId, ops: &[usize], left: &FxHashSet<usize>) -> usize {
        let ix = &self.facts.ix;
        let users = |i: usize| ops.iter().copied().filter(move |&o| ix.tensors(o).any(|(_, v)| v == ValueId::Op(i)));
        // Operations of the operand that depend on a product or fold.
        let mut late: FxHashSet<usize> = FxHashSet::default();
        for &i in ops.iter().filter(|i| left.contains(i)) {
            let op = ix.seg.ops[i].op;
            if ix.takes_rows(i) || op == Op::Matmul || self.facts.read_by(i).any(|a| late.contains(&a)) {
                late.insert(i);
            }
        }
        let mut end = product;
        loop {
            let mut all = users(end);
            let (Some(user), None) = (all.next(), all.next()) else { return end };
            let elementwise = ix.seg.ops[user].op.by_element();
            let alone = ix.tensors(user).all(|(_, v)| match v {
                ValueId::Op(a) => a == end || !late.contains(&a),
                ValueId::Input(_) => true,
            });
            // The operation that is the operand itself belongs to the prologue's body.
            let inside = left.contains(&user) && ValueId::Op(user) != factor;
            if !elementwise || !alone || !inside || ix.seg.shapes[user] != ix.seg.shapes[product] {
                return end;
            }
            end = user;
        }
    }

    /// Operations of the kernel that a value is computed from, including the one that computes the value itself; stored
    /// values of other kernels are loaded and end the search.
    fn computed_from(&self, v: ValueId) -> FxHashSet<usize> {
        let ops = self.facts.ix.seg.ops;
        let (mut seen, mut left) = (FxHashSet::default(), vec![v]);
        while let Some(v) = left.pop() {
            let ValueId::Op(i) = v else { continue };
            let loaded = self.stored.has(i) && !self.stores.contains(&i) && !is_constant(ops[i].op);
            if !loaded && seen.insert(i) {
                left.extend(self.facts.read_by(i).map(ValueId::Op));
            }
        }
        seen
    }
}

fn pair(sets: Vec<FxHashSet<usize>>) -> [FxHashSet<usize>; 2] {
    sets.try_into().expect("a product has two factors")
}

impl Facts<'_> {
    /// Reduction that stands for all of `folds`, which must go along the last axis of `shape`: the first in canonical
    /// order. `None` for an empty list.
    fn last_axis_reduction(&self, folds: &[usize], shape: Shape) -> Result<Option<usize>, Rule> {
        let ix = &self.ix;
        let last = 1u32 << (shape.rank() - 1);
        let fits = |&f: &usize| ix.shape(rows::operand(ix, f)) == shape && rows::axes(ix, f) == last;
        if shape.numel() == 0 && !folds.is_empty() || !folds.iter().all(fits) {
            return Err(Rule::OtherRows);
        }
        Ok(folds.iter().copied().min_by_key(|&f| self.rank[f]))
    }
}
