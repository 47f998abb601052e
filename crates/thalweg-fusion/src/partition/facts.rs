//! Facts about a segment that hold for every plan: needed operations, required stores, kinds of live results, and the
//! order that breaks ties.

use super::canonical::ranks;
use crate::cost::footprint;
use crate::plan::OutputPlan;
use crate::segment::{BitSet, Indexed, Segment, ValueId};
use crate::write::movement::{layout, strided, view_base};
use crate::write::rows;
use crate::write::rules::{contracts, is_constant, is_opaque};
use rustc_hash::FxHashMap;
use thalweg_ir::{Op, OpClass, View};

/// Facts about a segment that hold for every plan; see the module.
pub(crate) struct Facts<'a> {
    /// The segment, with an index of its arguments.
    pub ix: Indexed<'a>,
    /// Operations that a live result depends on.
    pub needed: BitSet,
    /// Operations whose results are stored in every plan.
    pub required: BitSet,
    /// Results that are stored by choice, as far as a plan needs them.
    chosen: BitSet,
    /// Kind of each live-out, in order of the operations.
    pub outputs: Vec<(usize, OutputPlan)>,
    /// Base values that the operands of each opaque operation are views of.
    pub operands: FxHashMap<usize, Vec<ValueId>>,
    /// Stored operations that each gather or opaque kernel reads from memory, by the reading operation.
    pub in_memory: FxHashMap<usize, Vec<usize>>,
    /// Row class of each reduction and scan: equal for those over the same rows, ascending in the canonical order.
    pub row_class: FxHashMap<usize, usize>,
    /// Reduction or scan that an operation represents: itself, or the one instead of which it is stored (see
    /// [`Facts::end_of_chain`]).
    pub fold_of: FxHashMap<usize, usize>,
    /// Views that are stored, because something reads them from memory and strides do not express them. Views of such a
    /// view read it from there too.
    kept: BitSet,
    /// Number of users of each operation, and the index of one of them.
    users: Vec<(u32, usize)>,
    /// Rank of each operation in the canonical order.
    pub rank: Vec<usize>,
    /// Bytes of inputs and live results.
    pub footprint: u64,
}

/// Maximum distance in operations after a product at which its epilogue is searched for.
const NEAR: usize = 64;

impl<'a> Facts<'a> {
    /// Facts about a segment, for plans that store only what must be stored.
    pub fn new(segment: Segment<'a>) -> Facts<'a> {
        Facts::with(segment, BitSet::default())
    }

    /// Facts for plans that also store the results `chosen`, as far as they are needed.
    pub fn with(segment: Segment<'a>, chosen: BitSet) -> Facts<'a> {
        let n = segment.ops.len();
        let mut facts = Facts {
            ix: Indexed::new(segment),
            needed: BitSet::new(n),
            required: BitSet::new(n),
            chosen,
            outputs: vec![],
            operands: FxHashMap::default(),
            in_memory: FxHashMap::default(),
            row_class: FxHashMap::default(),
            fold_of: FxHashMap::default(),
            kept: BitSet::new(n),
            users: vec![(0, 0); n],
            rank: vec![],
            footprint: 0,
        };
        while !facts.look_at_all() {}
        facts.count_users();
        facts.rank = ranks(&facts.ix);
        facts.find_rows();
        facts.footprint = footprint(&segment);
        facts
    }

    /// Recomputes all facts by visiting the operations from the last to the first. Returns whether the set of stored
    /// views is complete; if not, another round is necessary.
    fn look_at_all(&mut self) -> bool {
        let n = self.ix.seg.ops.len();
        let mut used = BitSet::new(n);
        self.needed.reset(n);
        self.required.reset(n);
        self.outputs.clear();
        self.operands.clear();
        self.in_memory.clear();
        for i in (0..n).rev() {
            self.look_at(i, &mut used);
        }
        self.outputs.reverse();
        let views: Vec<usize> = self.required.iter().filter(|&i| self.ix.seg.ops[i].op.is_view()).collect();
        let known = views.iter().all(|&i| self.kept.has(i));
        views.into_iter().for_each(|i| self.kept.insert(i));
        known
    }

    /// Adds the facts about operation `i`; all operations after it have been visited.
    fn look_at(&mut self, i: usize, used: &mut BitSet) {
        let seg = self.ix.seg;
        let op = seg.ops[i].op;
        if seg.live.has(i) {
            if self.is_alias(i) {
                if let (ValueId::Op(base), _) = view_base(&self.ix, ValueId::Op(i), &|_| false) {
                    self.required.insert(base);
                }
                self.outputs.push((i, OutputPlan::Alias));
            } else {
                self.required.insert(i);
                self.outputs.push((i, OutputPlan::Stored));
            }
        }
        if !self.required.has(i) && !used.has(i) {
            return;
        }
        self.needed.insert(i);
        if self.chosen.has(i) && !is_constant(op) {
            self.required.insert(i);
        }
        if is_opaque(op, seg.mode) || !seg.mode.fused && !op.is_view() {
            self.required.insert(i);
        }
        let arguments: Vec<ValueId> = self.ix.tensors(i).map(|(_, v)| v).collect();
        if !is_opaque(op, seg.mode) {
            let in_memory = op.info().args_in_memory();
            arguments[..in_memory].iter().for_each(|&v| self.read_in_memory(i, v));
            arguments[in_memory..].iter().for_each(|v| Facts::mark(*v, used));
            return;
        }
        // Operands of an opaque operation are in memory: stored, or strided views of stored values. For a scatter this
        // holds for the tensor only. Its index and values may be computed, each over the shape before strided views, so
        // that an index shared by all columns is computed once.
        let computes = seg.mode.fused && op.class() == OpClass::Scatter;
        let mut operands = vec![];
        for (n, &v) in arguments.iter().enumerate() {
            let viewed = match op {
                Op::Foreign(of) => self.viewed_as(v, |view| of.reads(n, view)),
                _ => self.viewed(v),
            };
            operands.push(viewed);
            match viewed {
                ValueId::Op(o) if computes && n > 0 && !self.is_kernel(o) => {
                    used.insert(o);
                }
                _ if matches!(op, Op::Foreign(_)) => self.reads_there(i, viewed),
                _ => self.read_in_memory(i, viewed),
            }
        }
        self.operands.insert(i, operands);
    }

    /// Whether an operation is a reduction, a scan, or has a kernel kind of its own (product, scatter, foreign
    /// operation).
    fn is_kernel(&self, i: usize) -> bool {
        self.ix.takes_rows(i) || self.ix.seg.ops[i].op.class().has_own_kernel()
    }

    fn mark(v: ValueId, used: &mut BitSet) {
        if let ValueId::Op(o) = v {
            used.insert(o);
        }
    }

    /// Marks a value as read from memory by operation `i`: the value itself, or the stored value that it is a view of.
    fn read_in_memory(&mut self, i: usize, v: ValueId) {
        self.reads_there(i, self.viewed(v));
    }

    /// Marks this value itself, not what it is a view of, as read from memory by operation `i`. Inputs are in memory
    /// anyway.
    fn reads_there(&mut self, i: usize, v: ValueId) {
        if let ValueId::Op(o) = v {
            self.required.insert(o);
            self.in_memory.entry(i).or_default().push(o);
        }
    }

    /// Stored value or input that a value is a strided view of; else the value itself. Stored views are those of the
    /// previous round, so the order of visits does not matter.
    fn viewed(&self, v: ValueId) -> ValueId {
        self.viewed_as(v, |_| true)
    }

    /// Like `viewed`, for views that satisfy `fits`.
    fn viewed_as(&self, v: ValueId, fits: impl Fn(&View) -> bool) -> ValueId {
        let kept = |j: usize| self.kept.has(j) && ValueId::Op(j) != v;
        let stored = |j: usize| kept(j) || self.ix.seg.live.has(j) && !self.is_alias(j);
        let (base, chain) = view_base(&self.ix, v, &stored);
        if strided(&self.ix, layout(&self.ix, base), &chain).is_some_and(|view| fits(&view)) { base } else { v }
    }

    /// Whether a live view need not be copied: its base is in memory or worth writing whole, and strides express the
    /// view.
    fn is_alias(&self, i: usize) -> bool {
        let ix = &self.ix;
        if !ix.seg.ops[i].op.is_view() {
            return false;
        }
        let (base, chain) = view_base(ix, ValueId::Op(i), &|_| false);
        let in_memory = match base {
            ValueId::Input(_) => true,
            ValueId::Op(b) => {
                ix.seg.live.has(b)
                    || ix.seg.ops[b].op.class().has_own_kernel()
                    || ix.takes_rows(b)
                    || !ix.seg.mode.fused
                    || ix.seg.shapes[i].numel() >= ix.seg.shapes[b].numel()
            }
        };
        in_memory && strided(ix, layout(ix, base), &chain).is_some()
    }

    /// Assigns row classes to reductions and scans.
    fn find_rows(&mut self) {
        let mut classes: Vec<usize> = vec![];
        let folds: Vec<usize> = self.needed.iter().filter(|&i| self.ix.takes_rows(i)).collect();
        for i in self.ranked(&folds) {
            let class = classes.iter().position(|&c| rows::same_rows(&self.ix, c, i));
            let class = class.unwrap_or_else(|| {
                classes.push(i);
                classes.len() - 1
            });
            self.row_class.insert(i, class);
        }
        for i in self.row_class.keys().copied().collect::<Vec<_>>() {
            self.fold_of.insert(i, i);
            self.fold_of.insert(self.end_of_chain(i), i);
        }
    }

    fn count_users(&mut self) {
        for i in self.needed.iter() {
            let mut read: Vec<usize> = self.read_by(i).collect();
            read.sort_unstable();
            read.dedup();
            read.into_iter().for_each(|a| self.users[a] = (self.users[a].0 + 1, i));
        }
    }

    /// Operations whose results operation `i` reads. For an opaque operation these are the bases of views that no
    /// kernel computes.
    pub fn read_by(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let viewed = self.operands.get(&i);
        let named = self.ix.tensors(i).map(|(_, v)| v).filter(move |_| viewed.is_none());
        viewed.into_iter().flatten().copied().chain(named).filter_map(|v| match v {
            ValueId::Op(a) => Some(a),
            ValueId::Input(_) => None,
        })
    }

    /// The operations `ops`, sorted in canonical order.
    pub fn ranked(&self, ops: &[usize]) -> Vec<usize> {
        let mut ops = ops.to_vec();
        ops.sort_by_key(|&i| self.rank[i]);
        ops
    }

    /// Whether operation `i` has more than one use.
    pub fn branches(&self, i: usize) -> bool {
        self.users[i].0 > 1
    }

    /// Single user of a value, if it is elementwise, depends on that value alone, and its result has no more bytes.
    /// Storing the user's result instead serves all readers and saves recomputing it.
    fn better_stored(&self, i: usize) -> Option<usize> {
        let (1, user) = self.users[i] else { return None };
        // A reduction without elements is a kernel of its own.
        if self.ix.takes_rows(i) && self.ix.shape(rows::operand(&self.ix, i)).numel() == 0 {
            return None;
        }
        let rel = &self.ix.seg.ops[user];
        let elementwise = rel.op.by_element() && rel.dtype.size() <= self.ix.seg.ops[i].dtype.size();
        (elementwise
            && self.ix.seg.shapes[user] == self.ix.seg.shapes[i]
            && !self.required.has(i)
            && self.ix.tensors(user).all(|(_, v)| v == ValueId::Op(i)))
        .then_some(user)
    }

    /// Last operation of the elementwise single-use chain that starts at `i`.
    pub fn end_of_chain(&self, mut i: usize) -> usize {
        while let Some(user) = self.better_stored(i) {
            i = user;
        }
        i
    }

    /// Last operation of a product's elementwise epilogue, whose other arguments are inputs: a bias, an activation, a
    /// residual. The operations before the last have no other use.
    pub fn end_of_product(&self, product: usize) -> usize {
        let seg = self.ix.seg;
        // Operations of the epilogue, each with its number of readers among them.
        let mut inside: Vec<(usize, u32)> = vec![(product, 0)];
        let mut end = product;
        for i in (product + 1..seg.ops.len().min(product + NEAR)).filter(|&i| self.needed.has(i)) {
            let own = |v: ValueId| matches!(v, ValueId::Op(a) if inside.iter().any(|n| n.0 == a));
            let by_point = seg.ops[i].op.by_element() || seg.ops[i].op == Op::Reshape;
            let args: Vec<ValueId> = self.ix.tensors(i).map(|(_, v)| v).collect();
            let fits = by_point && seg.shapes[i].numel() == seg.shapes[product].numel() && args.iter().any(|&v| own(v));
            if !fits || !args.iter().all(|&v| own(v) || self.is_of_inputs(v)) {
                continue;
            }
            for n in inside.iter_mut().filter(|n| args.contains(&ValueId::Op(n.0))) {
                n.1 += 1;
            }
            inside.push((i, 0));
            let serves = |&(n, uses): &(usize, u32)| n == i || !self.required.has(n) && self.users[n].0 == uses;
            let narrow = seg.ops[i].dtype.size() <= seg.ops[product].dtype.size();
            if narrow && !seg.ops[i].op.is_view() && inside.iter().all(serves) {
                end = i;
            }
        }
        end
    }

    /// Whether a value is a view of an input, or a constant.
    fn is_of_inputs(&self, mut v: ValueId) -> bool {
        while let ValueId::Op(i) = v {
            let op = self.ix.seg.ops[i].op;
            if is_constant(op) {
                return true;
            }
            match self.ix.tensors(i).next() {
                Some((_, from)) if op.is_view() => v = from,
                _ => return false,
            }
        }
        true
    }

    /// Row class of the reduction that an operation represents; see [`Facts::fold_of`].
    pub fn rows_of_value(&self, i: usize) -> Option<usize> {
        self.fold_of.get(&i).map(|f| self.row_class[f])
    }

    /// Whether a plan may choose to store a value. The value is needed and takes work to compute, and storing its
    /// single user instead is not as good.
    pub fn may_store(&self, i: usize) -> bool {
        let op = self.ix.seg.ops[i].op;
        let choice = self.needed.has(i) && !self.required.has(i) && !op.is_view() && !is_constant(op);
        // A reduction may be computed in another kernel's pass, whereas its user may not.
        choice && (self.ix.takes_rows(i) || contracts(op, self.ix.seg.mode) || self.better_stored(i).is_none())
    }
}
