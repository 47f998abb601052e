//! Structure of a candidate kernel: everything that its legality and its time depend on, but not which operations of the
//! segment it consists of.
//!
//! In: a candidate. Out: a key, equal for candidates of equal structure, which are written once. In the unrolled
//! iterations of a loop and in the layers of a network most candidates are repetitions.
//!
//! Operations, loads and inputs are numbered by the candidate. A slice of a value in memory is described by its distance
//! from the first slice of that value, since each iteration of a loop slices at another position.

use super::canonical::hash_of;
use super::facts::Facts;
use super::reach::Candidate;
use crate::exact::is_exact;
use crate::plan::KernelPlan;
use crate::scalars::ScalarClasses;
use crate::segment::{BitSet, ValueId};
use crate::write::movement::view_base;
use rustc_hash::FxHashMap;
use thalweg_ir::{Arg, Op};

/// Key of a candidate's structure.
pub(super) type Key = Vec<u64>;

/// Candidate whose structure is described: its key so far, and the numbers of what it reads.
pub(super) struct Structure<'s, 'a> {
    facts: &'s Facts<'a>,
    classes: &'s ScalarClasses,
    stored: &'s BitSet,
    /// Operations that the candidate computes, ascending.
    ops: &'s [usize],
    /// Values in memory that the candidate reads, in the order of their first reader.
    read: Vec<ValueId>,
    numbers: FxHashMap<ValueId, usize>,
    /// Representatives of the classes of the scalars, in the order of their first reader.
    scalars: Vec<usize>,
    /// Integer arguments of the first slice of each value in memory.
    slices: FxHashMap<ValueId, &'a [i64]>,
    key: Key,
}

impl<'s, 'a> Structure<'s, 'a> {
    /// Structure of a candidate among the stores `stored` of all kernels; `None` for opaque operations and groups.
    pub fn of(
        facts: &'s Facts<'a>,
        classes: &'s ScalarClasses,
        candidate: &'s Candidate,
        stored: &'s BitSet,
    ) -> Option<Structure<'s, 'a>> {
        let ops = candidate.ops();
        let mut structure = Structure {
            facts,
            classes,
            stored,
            ops,
            read: vec![],
            numbers: FxHashMap::default(),
            scalars: vec![],
            slices: FxHashMap::default(),
            key: Vec::with_capacity(8 * ops.len() + 16),
        };
        ops.iter().for_each(|&i| structure.add_op(i));
        structure.add_plan(&candidate.plan)?;
        Some(structure)
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The key itself.
    pub fn into_key(self) -> Key {
        self.key
    }

    /// Number of an operation that the candidate computes.
    pub fn number(&self, op: usize) -> Option<usize> {
        self.ops.binary_search(&op).ok()
    }

    /// Operation with a number.
    pub fn op(&self, number: usize) -> usize {
        self.ops[number]
    }

    /// Number of an input that the candidate reads.
    pub fn input_number(&self, input: usize) -> Option<usize> {
        self.numbers.get(&ValueId::Input(input)).copied()
    }

    /// Input with a number.
    pub fn input(&self, number: usize) -> usize {
        match self.read[number] {
            ValueId::Input(input) => input,
            ValueId::Op(_) => unreachable!("the number of an input"),
        }
    }

    fn add_op(&mut self, i: usize) {
        let facts = self.facts;
        let ix = &facts.ix;
        let rel = &ix.seg.ops[i];
        let flags = [self.stored.has(i), facts.may_store(i), is_exact(ix, i), ix.is_unrolled(i)];
        let flags = flags.into_iter().fold(0, |bits, flag| bits << 1 | flag as u64);
        self.key.push(hash_of(&(rel.op, rel.dtype, rel.rank)));
        self.key.push((rel.attr as u64) << 32 | flags);
        self.add_sizes(ix.seg.shapes[i].dims());
        let in_memory = rel.op.info().args_in_memory();
        let mut slice = false;
        for (n, arg) in rel.args().enumerate() {
            let v = match arg {
                Arg::Op(a) => ValueId::Op(a),
                Arg::Input(a) => ValueId::Input(a),
                Arg::Scalar => {
                    self.add_scalar(ix.scalar(i, n));
                    continue;
                }
                Arg::None => continue,
            };
            if n < in_memory {
                self.add_viewed(v);
            } else {
                slice |= rel.op == Op::Slice && self.is_read(v);
                self.add_value(v);
            }
        }
        let ints = ix.ints(i);
        match ix.tensors(i).next() {
            Some((_, v)) if slice => self.add_slice(v, ints),
            _ => self.key.extend(ints.iter().map(|&n| n as u64)),
        }
    }

    /// Adds the number of a scalar's class.
    fn add_scalar(&mut self, scalar: usize) {
        let class = self.classes.representative(scalar);
        let number = self.scalars.iter().position(|&s| s == class).unwrap_or_else(|| {
            self.scalars.push(class);
            self.scalars.len() - 1
        });
        self.key.push(SCALAR | number as u64);
    }

    /// Adds the start, the step and the size of each dimension of a slice of a value in memory, with the start relative
    /// to that of the value's first slice.
    fn add_slice(&mut self, v: ValueId, ints: &'a [i64]) {
        let first = *self.slices.entry(v).or_insert(ints);
        for (own, first) in ints.chunks_exact(3).zip(first.chunks_exact(3)) {
            self.key.extend([own[0] - first[0], (own[0] == 0) as i64, own[1], own[2]].map(|n| n as u64));
        }
    }

    /// Whether the candidate reads a value from memory instead of computing it.
    fn is_read(&self, v: ValueId) -> bool {
        match v {
            ValueId::Op(a) => self.number(a).is_none(),
            ValueId::Input(_) => true,
        }
    }

    fn add_value(&mut self, v: ValueId) {
        if let ValueId::Op(a) = v
            && let Some(number) = self.number(a)
        {
            self.key.push(COMPUTED | number as u64);
            return;
        }
        if let Some(&number) = self.numbers.get(&v) {
            self.key.push(READ | number as u64);
            return;
        }
        let number = self.read.len();
        self.numbers.insert(v, number);
        self.read.push(v);
        let ix = &self.facts.ix;
        self.key.push(READ | number as u64);
        match v {
            ValueId::Op(_) => {
                self.key.push(hash_of(&ix.dtype(v)));
                self.add_sizes(ix.shape(v).dims());
            }
            ValueId::Input(n) => self.key.push(hash_of(&ix.seg.inputs[n])),
        }
    }

    /// Adds a value that is read from memory through views, which the candidate does not compute.
    fn add_viewed(&mut self, v: ValueId) {
        let ix = &self.facts.ix;
        let (base, chain) = view_base(ix, v, &|i| self.stored.has(i));
        for &view in &chain {
            let rel = &ix.seg.ops[view];
            self.key.push(hash_of(&(rel.op, rel.attr, ix.seg.shapes[view], ix.ints(view))));
        }
        self.add_value(base);
    }

    fn add_sizes(&mut self, sizes: &[usize]) {
        self.key.push(sizes.len() as u64);
        self.key.extend(sizes.iter().map(|&n| n as u64));
    }

    fn add_ops(&mut self, ops: impl IntoIterator<Item = usize>) -> Option<()> {
        for op in ops {
            self.key.push(COMPUTED | self.number(op)? as u64);
        }
        self.key.push(END);
        Some(())
    }

    /// Adds what a plan says about the operations.
    fn add_plan(&mut self, plan: &KernelPlan) -> Option<()> {
        match plan {
            KernelPlan::Map { domain, rows, stores, row_stores, column_stores, .. } => {
                self.key.push(0);
                self.add_value(*domain);
                self.add_ops(*rows)?;
                self.add_ops(stores.iter().copied())?;
                self.add_ops(row_stores.iter().copied())?;
                self.add_ops(column_stores.iter().copied())
            }
            KernelPlan::Contraction { products, stores, row_stores, .. } => {
                self.key.push(1);
                self.add_ops([products.product])?;
                self.add_ops(products.inner.into_iter().flat_map(|(a, b)| [a, b]))?;
                self.add_ops(products.left_rows)?;
                self.add_ops(products.rows)?;
                self.add_ops(stores.iter().copied())?;
                self.add_ops(row_stores.iter().copied())
            }
            KernelPlan::Opaque { .. } | KernelPlan::Group { .. } => None,
        }
    }
}

/// Tags of the upper bits: a computed operation, a value that is read, a scalar, the end of a list.
const COMPUTED: u64 = 1 << 62;
const READ: u64 = 2 << 62;
const SCALAR: u64 = 3 << 62;
const END: u64 = u64::MAX;
