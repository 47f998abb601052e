//! From a segment to a plan: which operations share a kernel.
//!
//! The segment is walked once, from the last operation to the first, so that everything that uses a value is placed
//! before the value itself. For each operation it is then known where it is needed: in which kernels, and through which index
//! maps. An operation is *stored* if somebody can ask for it, if it is read in memory (by a matrix product, or as what a scatter or gather
//! goes into), or if storing pays ([`crate::cost`]); otherwise it is computed wherever it is needed and never touches memory. A stored operation joins
//! a kernel over the same points where the rules below allow it, else it begins one of its own.
//!
//! A reduction or scan is *folded* into a kernel whose points form the same rows: one that needs its result all along the row, or one
//! that has an element for each row. The kernel then becomes a row kernel, and everything before and after over these rows lands in it.
//!
//! A matrix product or scatter is a kernel by itself. Nothing is stored in one but its result; a scatter's computes what its index and values need.
//!
//! What is allowed is in [`legality`].
//!
//! Nothing here depends on the order in which independent operations were recorded except the numbering of kernels.

mod bundles;
mod finish;
mod legality;
mod passes;

use crate::cost::Shared;
use crate::movement::{Path, Step, is_in_order, layout, strided, view_base};
use crate::plan::{Edge, OutputPlan, Plan, Reason};
use crate::rows;
use crate::segment::{BitSet, Indexed, Segment, ValueId};
use legality::{Home, Position};
use thalweg_ir::{Op, Shape};
use thalweg_kernel::IndexMap;

/// The most operations that one kernel holds: keeps compiling linear in practice and code within the instruction cache.
const MAX_KERNEL_OPS: usize = 2048;
/// The most index maps under which one kernel computes the same operation.
const MAX_MAPS: usize = 16;

/// A place where a value is needed: a kernel, the way from its domain, and the map which that is.
struct Use {
    kernel: usize,
    path: Path,
    map: IndexMap,
}

struct Draft {
    /// The value whose shape is the domain; `None` for a kernel of an operation by itself.
    domain: Option<ValueId>,
    /// The reduction or scan that makes rows of the domain, its operand's.
    rows: Option<usize>,
    stores: Vec<usize>,
    row_stores: Vec<usize>,
    column_stores: Vec<usize>,
    /// What the operands of an operation by itself are views of.
    operands: Vec<ValueId>,
    ops: BitSet,
    count: usize,
    /// Kernels that read what this one writes.
    readers: Vec<usize>,
    /// Values (operations, then inputs) that this one's members are computed from.
    from: BitSet,
}

struct Partition<'a> {
    ix: Indexed<'a>,
    kernels: Vec<Draft>,
    /// Where each operation is needed, for those not yet reached.
    uses: Vec<Vec<Use>>,
    /// Kernels that need an operation's result in memory, with the operation that reads it there.
    operands: Vec<Vec<(usize, usize)>>,
    stored_by: Vec<Option<usize>>,
    forced: BitSet,
    /// What each operation is computed from: operations, then inputs.
    ancestry: Vec<BitSet>,
    edges: Vec<Edge>,
    same_shape: Vec<(ValueId, ValueId)>,
}

/// Plans a segment.
pub fn plan(segment: Segment<'_>) -> Plan {
    let ix = Indexed::new(segment);
    let n = segment.ops.len();
    let mut p = Partition {
        kernels: Vec::new(),
        uses: (0..n).map(|_| Vec::new()).collect(),
        operands: vec![Vec::new(); n],
        stored_by: vec![None; n],
        forced: BitSet::new(n),
        ancestry: ancestry(&ix),
        edges: Vec::new(),
        same_shape: Vec::new(),
        ix,
    };
    let mut outputs = Vec::new();
    for i in (0..n).rev() {
        let alias = segment.live.has(i) && p.is_alias(i);
        if alias {
            let (base, _) = view_base(&p.ix, ValueId::Op(i), &|_| false);
            if let ValueId::Op(b) = base {
                p.forced.insert(b);
            }
        }
        if segment.live.has(i) {
            outputs.push((i, if alias { OutputPlan::Alias } else { OutputPlan::Stored }));
        }
        p.place(i, segment.live.has(i) && !alias);
    }
    outputs.reverse();
    p.finish(outputs)
}

/// For each operation the set of operations and inputs it is computed from, itself included; constants are left out, they relate nothing.
fn ancestry(ix: &Indexed<'_>) -> Vec<BitSet> {
    let n = ix.seg.ops.len();
    let mut sets: Vec<BitSet> = Vec::with_capacity(n);
    for i in 0..n {
        let mut set = BitSet::new(n + ix.seg.inputs.len());
        if !matches!(ix.seg.ops[i].op, Op::Full | Op::Iota) {
            set.insert(i);
        }
        for (_, v) in ix.tensors(i) {
            match v {
                ValueId::Op(a) => set.union(&sets[a]),
                ValueId::Input(a) => set.insert(n + a),
            }
        }
        sets.push(set);
    }
    sets
}

fn runs_alone(op: Op) -> bool {
    matches!(op, Op::Matmul | Op::Scatter(_))
}

/// Needs whole rows of its operand.
pub(crate) fn takes_rows(op: Op) -> bool {
    matches!(op, Op::Reduce(_) | Op::Scan(_))
}

impl Partition<'_> {
    /// Whether a live view need not be copied: its base lies in memory or is worth writing whole, and strides express it.
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
                    || runs_alone(ix.seg.ops[b].op)
                    || takes_rows(ix.seg.ops[b].op)
                    || !ix.seg.mode.fused
                    || ix.seg.shapes[i].numel() >= ix.seg.shapes[b].numel()
            }
        };
        in_memory && strided(ix, layout(ix, base), &chain).is_some()
    }

    /// Places operation `i`, everything after it being placed.
    fn place(&mut self, i: usize, wanted: bool) {
        let uses = std::mem::take(&mut self.uses[i]);
        let op = self.ix.seg.ops[i].op;
        if !wanted && !self.forced.has(i) && uses.is_empty() {
            return;
        }
        if runs_alone(op) {
            let k = self.new_kernel(None, None);
            self.kernels[k].stores.push(i);
            self.note(i, k);
            self.hand_over(i, k, &uses, Reason::ResultOf(op.name()));
            self.read_operands(i, k);
            return;
        }
        if takes_rows(op) {
            return self.place_over_rows(i, wanted, uses);
        }
        let unfused = !self.ix.seg.mode.fused && !op.is_view();
        let full = !op.is_view() && uses.iter().any(|u| self.kernels[u.kernel].count >= MAX_KERNEL_OPS);
        let reason = if unfused {
            Some(Reason::FusionOff)
        } else if wanted || self.forced.has(i) {
            Some(Reason::Wanted)
        } else if full {
            Some(Reason::KernelFull)
        } else {
            self.store_reason(i, &uses)
        };
        let Some(reason) = reason else {
            for u in &uses {
                self.compute(i, u.kernel, &u.path);
            }
            return;
        };
        let home = if !self.ix.seg.mode.fused || full { None } else { self.kernel_to_join(i, &uses) };
        let (k, path) = match home {
            Some(Home { kernel, path, rows: None }) => {
                self.store(i, kernel, Position::Point);
                (kernel, path)
            }
            Some(Home { kernel, path, rows: Some(rows) }) => {
                self.make_rows(kernel, rows);
                self.store(i, kernel, Position::Row);
                (kernel, path)
            }
            None => {
                let k = self.new_kernel(Some(ValueId::Op(i)), None);
                self.store(i, k, Position::Point);
                (k, Path::identity())
            }
        };
        self.hand_over(i, k, &uses, reason);
        self.compute(i, k, &path);
    }

    /// Places a reduction or a scan: in a kernel over its rows that needs the result, or in one that reads the same rows, or in one of its own.
    fn place_over_rows(&mut self, i: usize, wanted: bool, uses: Vec<Use>) {
        let fused = self.ix.seg.mode.fused;
        let position = if matches!(self.ix.seg.ops[i].op, Op::Scan(_)) { Position::Point } else { Position::Row };
        let mut users: Vec<usize> = uses.iter().map(|u| u.kernel).collect();
        users.sort_unstable();
        users.dedup();
        let stored = wanted || self.forced.has(i) || users.len() != 1 || !fused;
        let fits = |k: usize| uses.iter().all(|u| u.kernel != k || self.meets_rows(k, i, u, position));
        let full = |k: usize| self.kernels[k].count >= MAX_KERNEL_OPS;
        let home =
            users.iter().copied().find(|&k| fused && !full(k) && fits(k) && (!stored || self.may_store(i, k, &uses)));
        let reason = match home {
            Some(_) if wanted || self.forced.has(i) => Reason::Wanted,
            Some(_) => Reason::Shared,
            None if !fused => Reason::FusionOff,
            None => Reason::OtherRows(self.ix.seg.ops[i].op.name()),
        };
        let k = match home {
            Some(k) => {
                self.make_rows(k, i);
                if stored || users.len() != 1 {
                    self.store(i, k, position);
                }
                k
            }
            None => {
                let sibling = self.sibling_over_rows(i, &uses);
                let k = sibling.unwrap_or_else(|| self.new_kernel(Some(rows::operand(&self.ix, i)), Some(i)));
                self.make_rows(k, i);
                self.store(i, k, position);
                k
            }
        };
        let is_stored = home.is_none() || stored;
        if is_stored {
            self.hand_over(i, k, &uses, reason);
        }
        let k = self.join_rows(k);
        self.compute(i, k, &Path::identity());
    }

    /// Makes kernel `k` run over the rows of `i`, which [`Partition::meets_rows`] found possible.
    fn make_rows(&mut self, k: usize, i: usize) {
        if self.kernels[k].rows.is_some() {
            return;
        }
        let ix = &self.ix;
        let operand = rows::operand(ix, i);
        let (from, to) = (ix.shape(self.kernels[k].domain.expect("a kernel over points")), ix.shape(operand));
        let draft = &mut self.kernels[k];
        draft.domain = Some(operand);
        draft.rows = Some(i);
        let step = if from.numel() != to.numel() {
            draft.row_stores = std::mem::take(&mut draft.stores);
            Step::Rows(i)
        } else if from != to {
            Step::Reshape(to)
        } else {
            return;
        };
        for (a, uses) in self.uses.iter_mut().enumerate() {
            for u in uses.iter_mut().filter(|u| u.kernel == k) {
                u.path = u.path.before(step.clone());
                u.map = u.path.map_to(&self.ix, self.ix.seg.shapes[a]);
            }
        }
    }

    fn new_kernel(&mut self, domain: Option<ValueId>, rows: Option<usize>) -> usize {
        let n = self.ix.seg.ops.len();
        self.kernels.push(Draft {
            domain,
            rows,
            stores: vec![],
            row_stores: vec![],
            column_stores: vec![],
            operands: vec![],
            ops: BitSet::new(n),
            count: 0,
            readers: vec![],
            from: BitSet::new(n + self.ix.seg.inputs.len()),
        });
        self.kernels.len() - 1
    }

    fn store(&mut self, i: usize, k: usize, position: Position) {
        let draft = &mut self.kernels[k];
        match position {
            Position::Point => draft.stores.push(i),
            Position::Row => draft.row_stores.push(i),
        }
    }

    /// Notes that operation `i` is computed in kernel `k`.
    fn note(&mut self, i: usize, k: usize) {
        let kernel = &mut self.kernels[k];
        if !kernel.ops.has(i) {
            kernel.ops.insert(i);
            kernel.count += 1;
        }
    }

    /// Notes that kernel `k` stores operation `i`, and the edges to everything that reads it.
    fn hand_over(&mut self, i: usize, k: usize, uses: &[Use], reason: Reason) {
        self.stored_by[i] = Some(k);
        let ancestry = self.ancestry[i].clone();
        self.kernels[k].from.union(&ancestry);
        let mut edge = |from: &mut Vec<Draft>, to: usize, reason: Reason| {
            if to != k && !from[k].readers.contains(&to) {
                from[k].readers.push(to);
            }
            if to != k && !self.edges.iter().any(|e| e.op == i && e.to == to) {
                self.edges.push(Edge { op: i, from: k, to, reason });
            }
        };
        for &(to, by) in &self.operands[i] {
            edge(&mut self.kernels, to, Reason::OperandOf(self.ix.seg.ops[by].op.name()));
        }
        for u in uses {
            let points = self.kernels[u.kernel].domain.map_or(0, |d| self.ix.shape(d).numel());
            let same_points = is_in_order(&u.map, points, self.ix.seg.shapes[i].numel());
            let reason = match reason {
                Reason::Wanted if same_points => Reason::Between,
                other => other,
            };
            edge(&mut self.kernels, u.kernel, reason);
        }
    }

    /// Operation `i` is computed in kernel `k` under `path`: its arguments are needed there.
    fn compute(&mut self, i: usize, k: usize, path: &Path) {
        self.note(i, k);
        let own = self.ix.seg.shapes[i];
        let domain = self.kernels[k].domain.map_or(own, |d| self.ix.shape(d));
        let mut arguments = arguments(&self.ix, i, path, domain);
        if self.ix.seg.ops[i].op == Op::Gather {
            let (source, _) = arguments.remove(0);
            self.read_in_memory(source, i, k);
        }
        for (a, path) in arguments {
            let ValueId::Op(a) = a else { continue };
            let map = path.map_to(&self.ix, self.ix.seg.shapes[a]);
            if !self.uses[a].iter().any(|u| u.kernel == k && u.map == map) {
                self.uses[a].push(Use { kernel: k, path, map });
            }
        }
    }

    /// Whether a view is known to be written out, so that what is a view of it reads that.
    fn is_stored(&self, i: usize) -> bool {
        self.forced.has(i) || self.ix.seg.live.has(i) && !self.is_alias(i)
    }

    /// The operands of an operation by itself are in memory: stored, or strided views of what is stored. Of a scatter only the tensor is; what index and
    /// values are strided views of is computed, each over its own shape, so that an index which all columns share is computed once.
    fn read_operands(&mut self, i: usize, k: usize) {
        let computes = self.ix.seg.mode.fused && matches!(self.ix.seg.ops[i].op, Op::Scatter(_));
        let tensors: Vec<ValueId> = self.ix.tensors(i).map(|(_, v)| v).collect();
        for (n, v) in tensors.into_iter().enumerate() {
            let needed = self.viewed(v);
            self.kernels[k].operands.push(needed);
            match needed {
                ValueId::Op(o) if computes && n > 0 && !self.has_kernel_of_its_own(o) => {
                    let path = Path::identity();
                    let map = path.map_to(&self.ix, self.ix.seg.shapes[o]);
                    if !self.uses[o].iter().any(|u| u.kernel == k && u.map == map) {
                        self.uses[o].push(Use { kernel: k, path, map });
                    }
                }
                _ => self.read_in_memory(needed, i, k),
            }
        }
    }

    fn has_kernel_of_its_own(&self, i: usize) -> bool {
        let op = self.ix.seg.ops[i].op;
        runs_alone(op) || takes_rows(op)
    }

    /// What a value is a strided view of, if anything.
    fn viewed(&self, v: ValueId) -> ValueId {
        let (base, chain) = view_base(&self.ix, v, &|j| self.is_stored(j));
        if strided(&self.ix, layout(&self.ix, base), &chain).is_some() { base } else { v }
    }

    /// Operation `i` in kernel `k` reads a value in memory.
    fn read_in_memory(&mut self, v: ValueId, i: usize, k: usize) {
        if let ValueId::Op(o) = self.viewed(v) {
            self.forced.insert(o);
            self.operands[o].push((k, i));
        }
    }

    /// Why an operation that need not be stored is stored all the same, if that pays.
    fn store_reason(&self, i: usize, uses: &[Use]) -> Option<Reason> {
        let ix = &self.ix;
        let op = ix.seg.ops[i].op;
        // A view or constant costs nothing to compute again; what it is a view of decides for itself.
        if op.is_view() || matches!(op, Op::Full | Op::Iota) {
            return None;
        }
        let elements = ix.seg.shapes[i].numel();
        let evaluations: usize = uses
            .iter()
            .map(|u| {
                let points = u.map.shape().numel();
                // Once a row, where it is the same all along.
                if self.position(u, i) == Some(Position::Row) { elements } else { points }
            })
            .sum();
        let mut kernels: Vec<usize> = uses.iter().map(|u| u.kernel).collect();
        kernels.sort_unstable();
        kernels.dedup();
        if kernels.len() == 1 && evaluations <= elements {
            return None;
        }
        let n = ix.seg.ops.len();
        let (mut arithmetic, mut source_bytes) = (0u64, 0);
        for a in self.ancestry[i].iter() {
            if a >= n {
                source_bytes += ix.bytes(ValueId::Input(a - n)).min(ix.bytes(ValueId::Op(i)));
            } else {
                arithmetic += match ix.seg.ops[a].op {
                    Op::Element(e) => e.row().cost as u64,
                    Op::Random(_) => 100,
                    Op::Cast | Op::Pad | Op::Cat => 1,
                    _ => 0,
                };
            }
        }
        let shared = Shared {
            elements,
            bytes: ix.bytes(ValueId::Op(i)),
            evaluations,
            arithmetic,
            source_bytes,
            kernels: kernels.len(),
            own_kernel: self.kernel_to_join(i, uses).is_none(),
        };
        if uses.len() <= MAX_MAPS * kernels.len() && !shared.store_pays() {
            return None;
        }
        Some(if kernels.len() > 1 { Reason::Shared } else { Reason::OtherElements })
    }
}

/// The tensor arguments of operation `i` where it is computed under `path` in a kernel over `domain`, each with its own path.
pub(crate) fn arguments(ix: &Indexed<'_>, i: usize, path: &Path, domain: Shape) -> Vec<(ValueId, Path)> {
    let (op, shape) = (ix.seg.ops[i].op, ix.seg.shapes[i]);
    ix.tensors(i)
        .map(|(n, v)| {
            let own = ix.shape(v);
            let path = match op {
                Op::Cat => {
                    let axis = ix.seg.ops[i].attr as usize;
                    let rest = shape[axis] - own[axis];
                    let (before, after) = if n == 0 { (0, rest) } else { (rest, 0) };
                    path.after(Step::Extend { axis, before, after })
                }
                Op::Pad => path.after(Step::Op(i)),
                // Whole rows are read, whichever element is asked for.
                _ if takes_rows(op) && own == domain => Path::identity(),
                _ if takes_rows(op) => Path::identity().after(Step::Reshape(domain)),
                Op::Gather => path.clone(),
                _ if op.is_view() => path.after(Step::Op(i)),
                _ if own != shape => path.after(Step::Broadcast(shape)),
                _ => path.clone(),
            };
            (v, path)
        })
        .collect()
}
