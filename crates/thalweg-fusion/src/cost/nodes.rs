//! The nodes of a body: in which passes each is computed, what that is by class, and how many values are alive at once.
//!
//! One pass forth and one back over the nodes, without building the phases of a row body: the pass that a node belongs to follows from the folds before it, and
//! what a later pass needs again is computed again or kept by the rule of [`thalweg_kernel::phases`].

use super::features::CostFeatures;
use serde::Serialize;
use thalweg_ir::{DType, ElementOp, ScanOp};
use thalweg_kernel::{Access, AccessClass, Body, Node, NodeId};

/// Arithmetic (in additions) from which a later pass reads a value from a buffer rather than computing it again, as in `phases`.
const KEEP: u32 = 8;
/// What a load that is not contiguous counts as there.
const GATHERED: u32 = 8;
/// Points of a row beyond which nothing is kept in buffers.
const KEEP_POINTS: u64 = 1 << 20;

/// Arithmetic by class: evaluations, each counted as often as a vector of 4-byte lanes has to be filled for it (twice where
/// anything in the body has 8 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Work {
    /// Additions, products, comparisons, choices, logic; a product that a sum takes in is not counted.
    pub simple: u64,
    /// Divisions and square roots.
    pub divide: u64,
    /// Functions: each counts what the table of operations says, in additions.
    pub special: u64,
    /// The same of bodies that compute in f64.
    pub special_wide: u64,
    /// Conversions between widths or between floats and integers, those of narrow elements on their way in and out with them.
    pub convert: u64,
    /// What has no vector form: erf and powers in f64, divisions of 64-bit integers. Each counts what the table of operations says.
    pub slow: u64,
    /// Elements folded.
    pub fold: u64,
    /// Elements of running sums, products, maxima.
    pub scan: u64,
    /// Elements sorted, or put together by a function (log-sum-exp).
    pub sort: u64,
    /// Evaluations once a row, in additions.
    pub once: u64,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    /// The pass from which on it can be computed.
    level: u8,
    /// The same for all points of a row.
    once: bool,
    /// Nodes that take it.
    uses: u16,
    /// Arithmetic from loads and values of the row.
    cost: u32,
    /// The passes in which it is needed, and those in which it is computed.
    needed: u32,
    computed: u32,
    /// The passes, back from the last node, in which it is alive.
    living: u32,
}

/// What is found in a body that the accesses need.
pub(super) struct PassCounts {
    /// For each access the number of passes that read it, 0 where it is not read.
    pub loads: Vec<u32>,
    /// Bytes a point that passes write to and read from buffers of their own.
    pub kept: u64,
    /// The same, written alone: what such a buffer holds of a point.
    pub held: u64,
    /// Passes over the points.
    pub passes: u32,
    /// Folds.
    pub folds: u32,
}

/// Adds the arithmetic of a body over so many points in so many rows to `features`; `rows` is 0 for a map.
pub(super) fn nodes(body: &Body, points: u64, rows: u64, features: &mut CostFeatures) -> PassCounts {
    let mut seen = levels(body);
    let last = needs(body, &mut seen);
    let row = points.checked_div(rows).unwrap_or(0);
    let mut out = PassCounts {
        loads: vec![0; body.accesses.len()],
        kept: 0,
        held: 0,
        passes: last as u32 + 1,
        folds: body.folds.len() as u32,
    };
    let wide = 1 + body_is_wide(body) as u64;
    for i in (0..body.nodes.len()).rev() {
        let id = NodeId(i as u32);
        let s = seen[i];
        if s.needed == 0 {
            continue;
        }
        if s.once && rows > 0 {
            if let Some(a) = body.nodes[i].access() {
                out.loads[a as usize] = 1;
            }
            features.work.once += rows * own_cost(body.nodes[i]) as u64;
            body.args(id).for_each(|a| seen[a.index()].needed |= 1);
            continue;
        }
        let scanned = matches!(body.nodes[i], Node::Scanned { .. });
        let again = s.needed.count_ones() > 1 && !scanned;
        let keeps = again && s.cost >= KEEP && row <= KEEP_POINTS && !matches!(body.nodes[i], Node::Load { .. });
        if keeps {
            let size = body.dtype(id).size() as u64;
            out.kept += size * s.needed.count_ones() as u64;
            out.held += size;
        }
        let computed = if keeps { s.needed & s.needed.wrapping_neg() } else { s.needed };
        seen[i].computed = computed;
        for a in body.args(id) {
            seen[a.index()].needed |= computed;
        }
        if let Some(a) = body.nodes[i].access() {
            out.loads[a as usize] = out.loads[a as usize].max(computed.count_ones());
        }
        let evaluations = points * computed.count_ones() as u64;
        classify(body, &seen, id, evaluations, wide, &mut features.work);
    }
    for s in &body.stores {
        let access = body.accesses[s.access as usize];
        let evaluations = if access.per_row { rows } else { points };
        features.work.convert += evaluations * narrowing(access.dtype) * wide;
    }
    features.work.fold += points * wide * out.folds as u64;
    for s in &body.scans {
        match s.op {
            ScanOp::Sum | ScanOp::Prod | ScanOp::Max | ScanOp::Min => features.work.scan += points,
            ScanOp::Sort | ScanOp::Argsort | ScanOp::LogSumExp => features.work.sort += points,
        }
        let (from, to) = (body.dtype(s.node).size() as u64, if s.op == ScanOp::Argsort { 8 } else { 0 });
        out.kept += 2 * (from + to);
        out.held += from + to;
    }
    features.alive = features.alive.max(alive(body, &mut seen, last));
    out
}

/// Forth: from which pass on a node can be computed, and what it costs.
fn levels(body: &Body) -> Vec<Seen> {
    let mut seen = vec![Seen::default(); body.nodes.len()];
    let map = !body.has_rows();
    for (i, node) in body.nodes.iter().enumerate() {
        let mut s = Seen { once: !map, ..Seen::default() };
        for a in body.args(NodeId(i as u32)) {
            let arg = &mut seen[a.index()];
            arg.uses = arg.uses.saturating_add(1);
            s.level = s.level.max(arg.level);
            s.once &= arg.once;
            // A value needed twice counts twice, so this may grow beyond any number.
            s.cost = s.cost.saturating_add(if arg.once { 0 } else { arg.cost });
        }
        s.cost = s.cost.saturating_add(own_cost(*node));
        match *node {
            Node::Value { slot, .. } => s.level = seen[body.folds[slot as usize].node.index()].level + 1,
            Node::Scanned { scan, .. } => {
                s.level = seen[body.scans[scan as usize].node.index()].level + 1;
                s.once = false;
            }
            Node::Load { access } | Node::Index { access, .. } | Node::Valid { access } => {
                let a = body.accesses[access as usize];
                s.once = a.per_row && !map;
                s.cost = s.cost.saturating_add(if is_near(a) { 0 } else { GATHERED });
            }
            Node::Gather { access, .. } => {
                s.once &= body.accesses[access as usize].per_row;
                s.cost = s.cost.saturating_add(GATHERED);
            }
            _ => {}
        }
        // More passes than bits: the last ones count as one.
        s.level = s.level.min(31);
        seen[i] = s;
    }
    seen
}

fn is_near(a: Access) -> bool {
    matches!(a.class, AccessClass::Contiguous | AccessClass::Uniform) || a.operand.is_none()
}

/// Back to the roots: the passes that need them. Returns the last pass over the points.
fn needs(body: &Body, seen: &mut [Seen]) -> u8 {
    let per_row = |access: u16| body.accesses[access as usize].per_row;
    let points = body.stores.iter().filter(|s| !per_row(s.access)).map(|s| s.node);
    let counted = body.folds.iter().map(|f| f.node).chain(body.scans.iter().map(|s| s.node));
    let last = counted.clone().chain(points.clone()).map(|n| seen[n.index()].level).max().unwrap_or(0);
    for n in counted {
        let s = &mut seen[n.index()];
        s.needed |= 1 << s.level;
    }
    for n in points {
        seen[n.index()].needed |= 1 << last;
    }
    for s in body.stores.iter().filter(|s| per_row(s.access)) {
        let s = &mut seen[s.node.index()];
        s.needed |= 1 << s.level;
    }
    last
}

/// A node by itself, in additions.
fn own_cost(node: Node) -> u32 {
    match node {
        Node::Element { op, .. } => op.row().cost,
        Node::Cast { .. } => 1,
        _ => 0,
    }
}

/// Whether vectors have 8-byte lanes: the emitter gives all values of a body as many lanes.
fn body_is_wide(body: &Body) -> bool {
    use ElementOp::{Div, FloorDiv, Rem};
    body.nodes.iter().enumerate().any(|(i, n)| {
        let id = NodeId(i as u32);
        let by_float = |op| matches!(op, Div | FloorDiv | Rem);
        body.dtype(id).size() == 8 || matches!(*n, Node::Element { op, dtype, .. } if dtype.is_int() && by_float(op))
    })
}

/// Conversions that an element takes on its way out; to bf16 and f16 it is rounded.
fn narrowing(dtype: DType) -> u64 {
    match dtype {
        DType::BF16 | DType::F16 => 2,
        _ if dtype.size() < 4 => 1,
        _ => 0,
    }
}

fn classify(body: &Body, seen: &[Seen], id: NodeId, evaluations: u64, wide: u64, work: &mut Work) {
    use ElementOp::{Add, Div, FloorDiv, Mul, Pow, Recip, Rem, Rsqrt, Sqrt, Sub};
    let n = evaluations * wide;
    match body.nodes[id.index()] {
        Node::Load { access } => {
            work.convert += if body.accesses[access as usize].dtype.size() < 4 { n } else { 0 };
        }
        Node::Cast { dtype, arg } if dtype != body.dtype(arg) => work.convert += n,
        Node::Index { .. } | Node::Valid { .. } => work.simple += n,
        Node::Element { op, dtype, .. } => {
            let operand = body.operand_dtype(id);
            if operand.is_int() && (op == Pow || operand.size() == 8 && matches!(op, Div | FloorDiv | Rem)) {
                work.slow += evaluations * op.row().cost as u64;
                return;
            }
            match op {
                Add | Sub if dtype.is_float() && !body.strict && !body.repeatable && takes_product(body, seen, id) => {}
                Div if is_by_row(body, seen, id) => work.simple += 2 * n,
                Div | FloorDiv | Rem | Recip | Sqrt => work.divide += n,
                Rsqrt => work.divide += 2 * n,
                Mul => work.simple += n,
                _ if op.row().cost <= 4 => work.simple += n * op.row().cost as u64,
                _ if operand == DType::F64 && !has_vector_form(op) => work.slow += evaluations * op.row().cost as u64,
                _ if operand == DType::F64 => work.special_wide += evaluations * op.row().cost as u64,
                _ => work.special += n * op.row().cost as u64,
            }
        }
        _ => {}
    }
}

/// Functions that have a vector form in f64, or are written in those that have.
fn has_vector_form(op: ElementOp) -> bool {
    use ElementOp::{Atan, Cos, Exp, Exp2, Expm1, Log, Log1p, Log2, Sigmoid, Sin, Tanh};
    let known = matches!(op, Exp | Exp2 | Expm1 | Log | Log2 | Log1p | Sin | Cos | Atan | Tanh | Sigmoid);
    known || op.row().expand.is_some()
}

/// Whether a division is by a value of the row: multiplication by a reciprocal that is computed once.
fn is_by_row(body: &Body, seen: &[Seen], id: NodeId) -> bool {
    let divisor = body.args(id).nth(1).expect("a division has two arguments");
    !body.strict && !body.folds.is_empty() && seen[divisor.index()].once && seen[divisor.index()].level > 0
}

/// Whether a sum takes in a product that nothing else needs: one instruction.
fn takes_product(body: &Body, seen: &[Seen], id: NodeId) -> bool {
    let product = |a: NodeId| {
        matches!(body.nodes[a.index()], Node::Element { op: ElementOp::Mul, .. }) && seen[a.index()].uses == 1
    };
    body.args(id).any(product)
}

/// The most values alive at once in any pass, those that differ from point to point.
fn alive(body: &Body, seen: &mut [Seen], last: u8) -> u32 {
    let mut most = 0;
    for pass in 0..=last {
        let bit = 1 << pass;
        let mut now = 0;
        for i in (0..body.nodes.len()).rev() {
            if seen[i].computed & bit == 0 {
                continue;
            }
            // Backwards: a value comes alive where it is used last, and ends where it is made.
            now += comes_alive(body, seen, NodeId(i as u32), bit);
            for a in body.args(NodeId(i as u32)) {
                now += comes_alive(body, seen, a, bit);
            }
            most = most.max(now);
            now = now.saturating_sub(varies(body, i) as u32);
        }
    }
    most
}

fn comes_alive(body: &Body, seen: &mut [Seen], id: NodeId, bit: u32) -> u32 {
    let s = &mut seen[id.index()];
    let new = s.living & bit == 0 && varies(body, id.index());
    s.living |= bit;
    new as u32
}

/// Whether a node has a vector of its own: constants and scalars are operands in memory.
fn varies(body: &Body, node: usize) -> bool {
    match body.nodes[node] {
        Node::Load { access } => body.accesses[access as usize].class != AccessClass::Uniform,
        Node::Const { .. } | Node::Scalar { .. } | Node::Value { .. } | Node::Valid { .. } => false,
        _ => true,
    }
}
