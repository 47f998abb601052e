//! From a segment to a plan: which operations share a kernel.
//!
//! The segment is walked once, from the last operation to the first, so that everything that uses a value is placed
//! before the value itself. For each operation it is then known where it is needed: in which kernels, and through which index
//! maps. An operation is *stored* if somebody can ask for it, if a reduction or matrix product reads it, or if storing
//! pays ([`crate::cost`]); otherwise it is computed wherever it is needed and never touches memory. A stored operation joins
//! a kernel over the same points where the rules below allow it, else it begins one of its own.
//!
//! What is allowed (each rule has a test in `crates/thalweg/tests/fusion.rs`):
//! 1. A kernel computes and stores point by point, so a value that one of its members reads at other points is not stored by it.
//! 2. The kernels with the values between them stay acyclic.
//! 3. Members of a kernel have the same number of points, by data flow or by an equality of shapes that is
//!    checked again for other sizes.
//!
//! Nothing here depends on the order in which independent operations were recorded except the numbering of kernels.

use crate::cost::Shared;
use crate::movement::{Path, Step, is_in_order, layout, strided, view_base};
use crate::plan::{Edge, KernelPlan, OutputPlan, Plan, Reason};
use crate::segment::{BitSet, Indexed, Segment, ValueId};
use thalweg_ir::Op;
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
    /// The operation whose shape is the domain, and the points of it; `None` for a kernel of an operation by itself.
    domain: Option<usize>,
    stores: Vec<usize>,
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
    /// Kernels of operations by themselves that read an operation's result.
    operands: Vec<Vec<usize>>,
    stored_by: Vec<Option<usize>>,
    forced: BitSet,
    /// What each operation is computed from: operations, then inputs.
    ancestry: Vec<BitSet>,
    edges: Vec<Edge>,
    same_shape: Vec<(usize, usize)>,
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
    matches!(op, Op::Reduce(_) | Op::Matmul | Op::Scan(_) | Op::Gather | Op::Scatter(_))
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
            let k = self.new_kernel(None, i);
            self.hand_over(i, k, &uses, Reason::ResultOf(op.name()));
            self.read_operands(i, k);
            return;
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
            Some((k, path)) => {
                self.kernels[k].stores.push(i);
                (k, path)
            }
            None => (self.new_kernel(Some(i), i), Path::identity()),
        };
        self.hand_over(i, k, &uses, reason);
        self.compute(i, k, &path);
    }

    fn new_kernel(&mut self, domain: Option<usize>, store: usize) -> usize {
        let n = self.ix.seg.ops.len();
        let room = n + self.ix.seg.inputs.len();
        let mut ops = BitSet::new(n);
        ops.insert(store);
        let (stores, readers, from) = (vec![store], Vec::new(), BitSet::new(room));
        self.kernels.push(Draft { domain, stores, ops, count: 1, readers, from });
        self.kernels.len() - 1
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
        for &to in &self.operands[i] {
            let alone = self.kernels[to].stores[0];
            edge(&mut self.kernels, to, Reason::OperandOf(self.ix.seg.ops[alone].op.name()));
        }
        for u in uses {
            let points = self.kernels[u.kernel].domain.map_or(0, |d| self.ix.seg.shapes[d].numel());
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
        let kernel = &mut self.kernels[k];
        if !kernel.ops.has(i) {
            kernel.ops.insert(i);
            kernel.count += 1;
        }
        let steps: Vec<(usize, Path)> = arguments(&self.ix, i, path)
            .into_iter()
            .filter_map(|(v, path)| match v {
                ValueId::Op(a) => Some((a, path)),
                ValueId::Input(_) => None,
            })
            .collect();
        for (a, path) in steps {
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

    /// The operands of an operation by itself are in memory: stored, or strided views of what is stored.
    fn read_operands(&mut self, i: usize, k: usize) {
        let tensors: Vec<ValueId> = self.ix.tensors(i).map(|(_, v)| v).collect();
        for v in tensors {
            let (base, chain) = view_base(&self.ix, v, &|j| self.is_stored(j));
            let needed = if strided(&self.ix, layout(&self.ix, base), &chain).is_some() { base } else { v };
            if let ValueId::Op(o) = needed {
                self.forced.insert(o);
                self.operands[o].push(k);
            }
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
        let evaluations: usize =
            uses.iter().map(|u| self.kernels[u.kernel].domain.map_or(0, |d| ix.seg.shapes[d].numel())).sum();
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

    /// A kernel that may store operation `i` too, and the way from its domain to the operation.
    fn kernel_to_join(&self, i: usize, uses: &[Use]) -> Option<(usize, Path)> {
        let shape = self.ix.seg.shapes[i];
        let readers: Vec<usize> = uses.iter().map(|u| u.kernel).chain(self.operands[i].iter().copied()).collect();
        let allowed = |k: usize| readers.iter().all(|&r| r == k || !self.reaches(r, k));
        let points = |k: usize| self.kernels[k].domain.map(|d| self.ix.seg.shapes[d].numel());
        // A kernel that reads the value at the very points where it would be stored.
        for u in uses {
            let k = u.kernel;
            let in_order = |u: &Use| points(k).is_some_and(|p| is_in_order(&u.map, p, shape.numel()));
            if uses.iter().filter(|o| o.kernel == k).all(in_order) && allowed(k) {
                return Some((k, u.path.clone()));
            }
        }
        // A sibling over the same shape that is computed from the same values.
        (0..self.kernels.len()).find_map(|k| {
            let draft = &self.kernels[k];
            let related = draft.domain.is_some_and(|d| self.ix.seg.shapes[d] == shape)
                && !readers.contains(&k)
                && draft.count < MAX_KERNEL_OPS
                && draft.from.meets(&self.ancestry[i]);
            (related && self.ix.seg.mode.fused && allowed(k)).then(|| (k, Path::identity()))
        })
    }

    /// Whether something that kernel `from` writes is needed, directly or through others, by kernel `to`.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = BitSet::new(self.kernels.len());
        let mut left = vec![from];
        while let Some(k) = left.pop() {
            if k == to {
                return true;
            }
            if !seen.has(k) {
                seen.insert(k);
                left.extend(&self.kernels[k].readers);
            }
        }
        false
    }

    fn finish(mut self, outputs: Vec<(usize, OutputPlan)>) -> Plan {
        for k in 0..self.kernels.len() {
            if let Some(d) = self.kernels[k].domain {
                let shape = self.ix.seg.shapes[d];
                let others = self.kernels[k].stores.iter().filter(|&&s| s != d && self.ix.seg.shapes[s] == shape);
                self.same_shape.extend(others.map(|&s| (s, d)));
            }
        }
        let order = self.run_order();
        let mut place = vec![0; order.len()];
        for (at, &k) in order.iter().enumerate() {
            place[k] = at;
        }
        let kernels = order
            .iter()
            .map(|&k| {
                let draft = &self.kernels[k];
                let mut stores = draft.stores.clone();
                stores.sort_unstable();
                match draft.domain {
                    Some(domain) => KernelPlan::Map { domain, stores, ops: draft.ops.iter().collect() },
                    None => KernelPlan::Alone { op: stores[0] },
                }
            })
            .collect();
        for e in &mut self.edges {
            (e.from, e.to) = (place[e.from], place[e.to]);
        }
        self.edges.sort_by_key(|e| (e.op, e.to));
        Plan { kernels, outputs, edges: self.edges, same_shape: self.same_shape }
    }

    /// The kernels so that each runs after those it reads from; among those that could run, the one whose first store was recorded first.
    fn run_order(&self) -> Vec<usize> {
        let mut waits = vec![0; self.kernels.len()];
        for k in &self.kernels {
            for &r in &k.readers {
                waits[r] += 1;
            }
        }
        let first = |k: usize| *self.kernels[k].stores.iter().min().expect("a kernel stores something");
        let mut ready: std::collections::BTreeSet<(usize, usize)> =
            (0..waits.len()).filter(|&k| waits[k] == 0).map(|k| (first(k), k)).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some((_, k)) = ready.pop_first() {
            order.push(k);
            for &r in &self.kernels[k].readers {
                waits[r] -= 1;
                if waits[r] == 0 {
                    ready.insert((first(r), r));
                }
            }
        }
        assert_eq!(order.len(), waits.len(), "the kernels of a plan are acyclic");
        order
    }
}

/// The tensor arguments of operation `i` where it is computed under `path`, each with its own path.
pub(crate) fn arguments(ix: &Indexed<'_>, i: usize, path: &Path) -> Vec<(ValueId, Path)> {
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
                _ if op.is_view() => path.after(Step::Op(i)),
                _ if own != shape => path.after(Step::Broadcast(shape)),
                _ => path.clone(),
            };
            (v, path)
        })
        .collect()
}
