//! Candidate kernels: what a kernel with given stores would be, whether it is legal, and its predicted time.
//!
//! A candidate is written once and cached by its stores and by the stored values that it loads, which determine
//! everything else.

use super::facts::Facts;
use super::partition_cache::AvailablePlans;
use super::reach::{Candidate, KernelStores, Reach};
use super::structure::{self, Structure};
use crate::cost::Costs;
use crate::plan::KernelPlan;
use crate::scalars::ScalarClasses;
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::body::{Outline, build_map};
use crate::write::contraction::{Wanted, build_contraction};
use crate::write::opaque::opaque;
use crate::write::rows;
use crate::write::rules::{Rule, is_constant, is_opaque};
use crate::write::step::Slot;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use thalweg_ir::{DType, Op};
use thalweg_kernel::Geometry;

/// Legal candidate kernel with its predicted time.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Operations that the kernel stores, ascending.
    pub stores: Vec<usize>,
    /// First of the stores in the canonical order, which identifies the kernel.
    pub name: usize,
    /// Rank of `name` in the canonical order, which orders kernels.
    pub rank: usize,
    /// Kernel plan, and the stored operations that the kernel loads.
    pub candidate: Candidate,
    /// Predicted picoseconds; 0 without fusion.
    pub time: u64,
    /// Part of `time` that the kernel's layout costs: what it takes longer than the same work in vector code over
    /// contiguous elements.
    pub excess: u64,
    /// Inputs of the segment that the kernel reads.
    pub inputs: Vec<usize>,
    /// Recomputed operations, each with its total number of points. They are computed for more points than they have
    /// elements, or under several maps.
    pub again: Vec<(usize, u64)>,
}

impl KernelStores<'_, '_> {
    /// Candidate kernel with these stores; `stored` are the stores of all kernels.
    pub(crate) fn candidate(&self) -> Result<Candidate, Rule> {
        let (facts, stores) = (self.facts, self.stores);
        let ix = &facts.ix;
        let reach = self.reach()?;
        if let Some(&op) = stores.iter().find(|&&s| is_opaque(ix.seg.ops[s].op, ix.seg.mode)) {
            if !stores.iter().all(|&s| s == op || facts.ix.is_same_call(op, s)) {
                return Err(Rule::Opaque);
            }
            let operands = facts.operands[&op].clone();
            let plan = KernelPlan::Opaque { stores: stores.to_vec(), operands, ops: reach.ops };
            return Ok(Candidate { plan, loads: reach.loads });
        }
        if !reach.products.is_empty() {
            return self.contraction(reach);
        }
        let (rows, columns) = self.pick_rows(&reach)?;
        let domain = match rows {
            Some(r) => rows::operand(ix, r),
            None => {
                // The domain is the shape with the most dimensions: it has the most layout information.
                let shape = |s: usize| (ix.seg.shapes[s].rank(), ix.seg.shapes[s].dims().to_vec());
                let best =
                    stores.iter().max_by_key(|&&s| (shape(s), facts.rank[s])).expect("a kernel stores something");
                ValueId::Op(*best)
            }
        };
        let points = ix.shape(domain).numel();
        let (mut at_points, mut at_rows) = (vec![], vec![]);
        // The writer goes from the stores to the loads, so the kernel and its time depend on their order.
        for s in facts.ranked(stores).into_iter().filter(|s| !columns.contains(s)) {
            let own = ix.seg.shapes[s].numel();
            let by_row = rows.is_some_and(|r| own == rows::row_count(ix, r));
            let reduced = ix.seg.ops[s].op.is_fold() && ix.takes_rows(s);
            match rows {
                Some(_) if by_row && (reduced || own != points) => at_rows.push(s),
                _ if own == points => at_points.push(s),
                _ => return Err(Rule::OtherPoints),
            }
        }
        let plan = KernelPlan::Map {
            domain,
            rows,
            stores: at_points,
            row_stores: at_rows,
            column_stores: columns,
            ops: reach.ops,
        };
        Ok(Candidate { plan, loads: reach.loads })
    }

    /// Chooses the reduction that defines the kernel's rows, and the reductions over all rows that are computed in the
    /// same pass.
    fn pick_rows(&self, reach: &Reach) -> Result<(Option<usize>, Vec<usize>), Rule> {
        let (facts, stores) = (self.facts, self.stores);
        let ix = &facts.ix;
        let mut classes: Vec<usize> = reach.folds.iter().map(|f| facts.row_class[f]).collect();
        classes.sort_unstable();
        classes.dedup();
        let of = |class: usize| reach.folds.iter().copied().filter(move |f| facts.row_class[f] == class);
        let empty = |&f: &usize| ix.shape(rows::operand(ix, f)).numel() == 0;
        if reach.folds.iter().any(empty) && (reach.folds.len() > 1 || stores != reach.folds.as_slice()) {
            return Err(Rule::NoRows);
        }
        match classes[..] {
            [] => Ok((None, vec![])),
            [class] => Ok((of(class).min_by_key(|&f| facts.rank[f]), vec![])),
            [a, b] => {
                let shared = |rows: usize, columns: usize| {
                    let columns: Vec<usize> = of(columns).collect();
                    let reduced = of(rows).filter(|&r| matches!(ix.seg.ops[r].op, Op::Reduce(_)));
                    let rows = reduced.min_by_key(|&r| facts.rank[r])?;
                    self.can_fuse_passes(reach, rows, &columns).then_some((Some(rows), columns))
                };
                shared(a, b).or_else(|| shared(b, a)).ok_or(Rule::OtherRows)
            }
            _ => Err(Rule::OtherRows),
        }
    }

    /// Whether reductions over all other axes can share a pass along the last axes, the rows of `rows`. Each group of
    /// rows then gives a partial result, and the launch combines these. The order differs from that of a separate
    /// reduction, so strict plans do not share passes.
    fn can_fuse_passes(&self, reach: &Reach, rows: usize, columns: &[usize]) -> bool {
        let (facts, stores) = (self.facts, self.stores);
        let ix = &facts.ix;
        let shape = ix.shape(rows::operand(ix, rows));
        let (along, over) = (rows::axes(ix, rows), rows::axes(ix, columns[0]));
        let all = (1u32 << shape.rank()) - 1;
        let last = along != 0 && along & (along >> 1 | 1 << (shape.rank() - 1)) == along;
        let plain = |&i: &usize| {
            let Op::Reduce(op) = ix.seg.ops[i].op else { return false };
            let (dtype, operand) = (ix.seg.ops[i].dtype, rows::operand(ix, i));
            stores.contains(&i)
            && op.plain().is_some()
            && matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64)
            && (ix.dtype(operand), ix.shape(operand)) == (dtype, shape)
            // A reduction over all rows is complete only after the launch, so no operation of the kernel may read it.
            && !reach.ops.iter().any(|&o| ix.tensors(o).any(|(_, v)| v == ValueId::Op(i)))
        };
        !ix.seg.mode.strict
            && last
            && along & over == 0
            && along | over == all
            && TUNABLES.min_shared_pass_bytes.reached_by(ix.bytes(rows::operand(ix, rows)))
            && columns.iter().all(plain)
    }
}

impl Facts<'_> {
    /// Operations that the kernel of the single store `store` would compute, without any limit on its size.
    pub(crate) fn computed_by(&self, store: usize, stored: &BitSet) -> Vec<usize> {
        let ops = &self.ix.seg.ops;
        let (mut seen, mut left) = (FxHashSet::default(), vec![store]);
        while let Some(i) = left.pop() {
            let loaded = i != store && stored.has(i) && !is_constant(ops[i].op);
            if !loaded && seen.insert(i) {
                left.extend(self.read_by(i));
            }
        }
        seen.into_iter().collect()
    }

    /// Operations that a kernel computes for more points than they have elements. `computed` lists each operation with
    /// its number of points, once per map.
    fn recomputed_ops(
        &self,
        computed: &[(usize, usize)],
        once_a_row: impl Fn(usize) -> bool,
    ) -> Result<Vec<(usize, u64)>, Rule> {
        let mut times: FxHashMap<usize, (usize, u64)> = FxHashMap::default();
        for &(i, points) in computed {
            let t = times.entry(i).or_default();
            *t = (t.0 + 1, t.1 + points as u64);
        }
        let mut again = vec![];
        for (&i, &(n, points)) in times.iter().filter(|(i, _)| self.may_store(**i)) {
            let own = self.ix.seg.shapes[i].numel();
            if !TUNABLES.max_maps.admits(n) {
                return Err(Rule::Full);
            }
            if n > 1 || (own as u64) < points && !once_a_row(own) {
                again.push((i, points));
            }
        }
        again.sort_unstable();
        Ok(again)
    }
}

/// Number of visits of which one, in debug builds, compares a repetition with what it repeats. Tests of this crate compare all.
const COMPARED: u64 = 8;

/// Facts that a search keeps of a candidate that was written. With numbers of a [`Structure`] instead of indices in the
/// segment, they hold for all candidates of that structure.
#[derive(Clone, PartialEq, Debug, Default)]
struct Written {
    /// See [`Kernel::time`].
    time: u64,
    /// See [`Kernel::excess`].
    excess: u64,
    /// See [`Kernel::inputs`].
    inputs: Vec<usize>,
    /// See [`Kernel::again`].
    again: Vec<(usize, u64)>,
}

impl Written {
    /// With numbers of the structure; `None` if something has no number.
    fn numbered(&self, structure: &Structure<'_, '_>) -> Option<Written> {
        let inputs = self.inputs.iter().map(|&i| structure.input_number(i)).collect::<Option<_>>()?;
        let again =
            self.again.iter().map(|&(op, points)| Some((structure.number(op)?, points))).collect::<Option<_>>()?;
        Some(Written { inputs, again, ..*self })
    }

    /// With indices in the segment.
    fn in_segment(&self, structure: &Structure<'_, '_>) -> Written {
        let inputs = self.inputs.iter().map(|&number| structure.input(number)).collect();
        let again = self.again.iter().map(|&(number, points)| (structure.op(number), points)).collect();
        Written { inputs, again, ..*self }
    }
}

/// Cache key of a candidate: its stores, and the stored operations that it loads.
type Key = (Vec<usize>, Vec<usize>);

/// Cache of candidate kernels of one segment.
pub(crate) struct Kernels<'f, 'a> {
    /// Facts about the segment.
    pub facts: &'f Facts<'a>,
    /// Cost constants.
    pub costs: &'f Costs,
    classes: ScalarClasses,
    /// Cached kernels, or the rules that they break, by stores and loads.
    known: FxHashMap<Key, Result<Rc<Kernel>, Rule>>,
    /// Facts about candidates that were written, or the rules that they break, by structure.
    structures: FxHashMap<structure::Key, Result<Written, Rule>>,
    /// Number of visits so far: one per candidate looked up, and one per operation of each new candidate. At least
    /// [`ENDED`] if the search was ended.
    pub visits: u64,
    /// Known partial plans that the search may use.
    pub at_hand: Option<AvailablePlans<'f>>,
    /// Whether somebody waits for the plan, so that plans of quick searches suffice.
    pub quickly: bool,
    /// Counts of known partial plans that were used.
    pub parts: PartsUsed,
}

/// Value added to `visits` to end a search: beyond any budget.
const ENDED: u64 = 1 << 62;

/// Counts of known partial plans that a search used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartsUsed {
    /// Number of components that took a known plan.
    pub taken: u64,
    /// Number of components whose search started from known plans.
    pub grown: u64,
}

impl PartsUsed {
    /// Adds the counts of two searches.
    pub(super) fn and(self, other: PartsUsed) -> PartsUsed {
        PartsUsed { taken: self.taken + other.taken, grown: self.grown + other.grown }
    }
}

impl<'f, 'a> Kernels<'f, 'a> {
    /// Empty cache without known partial plans.
    pub fn new(facts: &'f Facts<'a>, costs: &'f Costs) -> Kernels<'f, 'a> {
        let classes = ScalarClasses::new(facts.ix.seg.scalars);
        let (known, structures, parts) = (FxHashMap::default(), FxHashMap::default(), PartsUsed::default());
        Kernels { facts, costs, classes, known, structures, visits: 0, at_hand: None, quickly: false, parts }
    }

    /// Empty cache, with known partial plans.
    pub fn with(
        facts: &'f Facts<'a>,
        costs: &'f Costs,
        (at_hand, quickly): (Option<AvailablePlans<'f>>, bool),
    ) -> Kernels<'f, 'a> {
        Kernels { at_hand, quickly, ..Kernels::new(facts, costs) }
    }

    /// Number of visits so far, also if the search was ended.
    pub fn visited(&self) -> u64 {
        self.visits % ENDED
    }

    /// Visit count at which `more` further visits are spent; 0 if the search was ended.
    pub fn until(&self, more: u64) -> u64 {
        if self.visits < ENDED { self.visits.saturating_add(more) } else { 0 }
    }

    /// Candidate kernel with the stores `stores`, ascending: the cached one, or a new one, which is added to the cache.
    pub fn get(&mut self, stores: &[usize], stored: &BitSet) -> Result<Rc<Kernel>, Rule> {
        self.visits += 1;
        let candidate = KernelStores { facts: self.facts, stores, stored }.candidate()?;
        let key = (stores.to_vec(), candidate.loads.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let made = self.make(stores, candidate, stored).map(Rc::new);
        self.known.insert(key, made.clone());
        made
    }

    fn make(&mut self, stores: &[usize], candidate: Candidate, stored: &BitSet) -> Result<Kernel, Rule> {
        let facts = self.facts;
        let seg = &facts.ix.seg;
        self.visits += candidate.ops().len() as u64;
        // A continued search that must stop gets an exhausted budget.
        if self.visits < ENDED && self.at_hand.and_then(|p| p.further).is_some_and(|go_on| !go_on()) {
            self.visits += ENDED;
        }
        let name = *stores.iter().min_by_key(|&&s| facts.rank[s]).expect("a kernel stores something");
        // Kernels without elements are not launched; without fusion there is no choice.
        let launched = seg.mode.fused && stores.iter().any(|&s| seg.shapes[s].numel() > 0);
        let Written { time, excess, inputs, again } =
            if launched { self.written(&candidate, stored)? } else { Written::default() };
        Ok(Kernel { stores: stores.to_vec(), name, rank: facts.rank[name], candidate, time, excess, inputs, again })
    }

    /// Writes a candidate, unless one of equal structure was written before.
    fn written(&mut self, candidate: &Candidate, stored: &BitSet) -> Result<Written, Rule> {
        let Some(structure) = Structure::of(self.facts, &self.classes, candidate, stored) else {
            return self.write(candidate, stored);
        };
        if let Some(known) = self.structures.get(structure.key()) {
            let known = known.as_ref().map(|written| written.in_segment(&structure)).map_err(|rule| *rule);
            if cfg!(test) || cfg!(debug_assertions) && self.visits.is_multiple_of(COMPARED) {
                assert_eq!(known, self.write(candidate, stored), "candidates of equal structure are written alike");
            }
            return known;
        }
        let written = self.write(candidate, stored);
        let numbered = written.as_ref().map(|w| w.numbered(&structure)).map_err(|rule| *rule);
        if let Some(numbered) = numbered.map_or_else(|rule| Some(Err(rule)), |numbered| numbered.map(Ok)) {
            self.structures.insert(structure.into_key(), numbered);
        }
        written
    }

    /// Writes a candidate, and predicts its time.
    fn write(&self, candidate: &Candidate, stored: &BitSet) -> Result<Written, Rule> {
        let facts = self.facts;
        let ix = &facts.ix;
        let is_stored = |i: usize| stored.has(i);
        let bytes: Vec<usize> = candidate.plan.writes().map(|s| ix.bytes(ValueId::Op(s))).collect();
        let time = |kernel: &thalweg_kernel::Kernel, geometry: &Geometry, touched: &[usize]| {
            let features = self.costs.features(kernel, geometry, touched, &bytes);
            let time = self.costs.time(&features, facts.footprint);
            let regular = self.costs.time(&features.regular(), facts.footprint);
            (time, time.saturating_sub(regular))
        };
        let inputs = |reads: &[ValueId]| {
            let input = |v: &ValueId| match v {
                ValueId::Input(i) => Some(*i),
                ValueId::Op(_) => None,
            };
            reads.iter().filter_map(input).collect()
        };
        match &candidate.plan {
            KernelPlan::Opaque { stores, operands, .. } => {
                let slot = |v: ValueId| match v {
                    ValueId::Input(i) => Slot::Input(i),
                    ValueId::Op(i) => Slot::Buffer(i),
                };
                let (step, computed) = opaque(ix, (stores, operands), 0, &slot, &is_stored, &self.classes)?;
                let inputs = step.operands.iter().filter_map(|s| match s {
                    Slot::Input(i) => Some(*i),
                    Slot::Buffer(_) => None,
                });
                let ((time, excess), inputs) = (time(&step.kernel, &step.geometry, &step.touched), inputs.collect());
                Ok(Written { time, excess, inputs, again: facts.recomputed_ops(&computed, |_| false)? })
            }
            KernelPlan::Contraction { products, stores, row_stores, .. } => {
                let wanted = Wanted { products: *products, stores, row_stores };
                let made = build_contraction(ix, wanted, &is_stored, &self.classes)?;
                let (kernel, geometry) =
                    (thalweg_kernel::Kernel::Contraction(made.kernel), Geometry::Contraction(made.geometry.into()));
                let (time, excess) = time(&kernel, &geometry, &made.touched);
                let again = facts.recomputed_ops(&made.computed, |_| false)?;
                Ok(Written { time, excess, inputs: inputs(&made.reads), again })
            }
            KernelPlan::Map { domain, rows, stores, row_stores, column_stores, .. } => {
                let outline =
                    Outline { domain: *domain, rows: *rows, stores, row_stores, column_stores, product: None };
                let map = build_map(ix, outline, &is_stored, &self.classes)?;
                let (time, excess) = time(&map.kernel, &map.geometry, &map.touched);
                let points = ix.shape(*domain).numel();
                let computed: Vec<(usize, usize)> = map.computed.iter().map(|&op| (op, points)).collect();
                let once_a_row = |own: usize| rows.is_some_and(|r| own == rows::row_count(ix, r));
                let again = facts.recomputed_ops(&computed, once_a_row)?;
                Ok(Written { time, excess, inputs: inputs(&map.reads), again })
            }
            KernelPlan::Group { .. } => unreachable!("groups are made of a finished plan"),
        }
    }
}
