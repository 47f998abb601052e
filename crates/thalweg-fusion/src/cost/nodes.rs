//! Node counts of a body: the passes that compute each node, its arithmetic by class, and the number of live values.
//!
//! [`Passes`] determines which pass computes a node and what is buffered between passes; devices derive their phases
//! from it too.

use serde::Serialize;
use thalweg_ir::{DType, ElementOp, Loop, RegionNode, ScanOp};
use thalweg_kernel::{AccessClass, Along, Body, Node, NodeId, Passes, own_cost};

/// Maximum number of points of a row whose values are buffered between passes.
const KEEP_POINTS: u64 = 1 << 20;
/// Maximum number of passes whose values are counted: later passes of a long chain of folds are similar.
const MAX_PASSES: usize = 32;

/// Arithmetic by class. Evaluations are weighted by the 4-byte vectors that they fill (double if anything in the body
/// has 8 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Work {
    /// Additions, products, comparisons, selects, logic. A product that is contracted into a sum is not counted.
    pub simple: u64,
    /// Divisions and square roots.
    pub divide: u64,
    /// Elementary functions, weighted by their cost in the operation table, in additions.
    pub special: u64,
    /// Elementary functions in f64.
    pub special_wide: u64,
    /// Conversions between widths or between floats and integers, including those of narrow elements at loads and
    /// stores.
    pub convert: u64,
    /// Operations without a vector form: erf and powers in f64, divisions of 64-bit integers. Weighted by their cost in
    /// the operation table.
    pub slow: u64,
    /// Number of elements folded.
    pub fold: u64,
    /// Number of elements of running sums, products, maxima and minima.
    pub scan: u64,
    /// Number of elements sorted, or scanned by a function (log-sum-exp).
    pub sort: u64,
    /// Evaluations once per row, in additions.
    pub once: u64,
}

/// Counts of a body's nodes and passes.
pub(super) struct NodeCounts {
    /// Number of passes that read each access; 0 if it is not read.
    pub loads: Vec<u32>,
    /// Bytes per point that passes write to and read from buffers.
    pub kept: u64,
    /// Bytes per point that the buffers between passes occupy.
    pub held: u64,
    /// Number of passes over the points.
    pub passes: u32,
    /// Number of folds.
    pub folds: u32,
    /// Arithmetic of all points.
    pub work: Work,
    /// Maximum number of values that are live at once in a pass.
    pub alive: u32,
}

/// Counts of a body over `points` points in `rows` rows; `rows` is 0 for a map.
pub(super) fn nodes(body: &Body, points: u64, rows: u64) -> NodeCounts {
    let row = points.checked_div(rows).unwrap_or(0);
    let passes = Passes::new(body, rows > 0, row <= KEEP_POINTS);
    let mut out = NodeCounts {
        loads: vec![0; body.accesses.len()],
        kept: 0,
        held: 0,
        passes: passes.last() as u32 + 1,
        folds: body.folds.len() as u32,
        work: Work::default(),
        alive: alive(body, &passes),
    };
    let wide = 1 + body_is_wide(body) as u64;
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        if !passes.is_needed(id) {
            continue;
        }
        if passes.once(id) {
            if let Some(a) = node.access() {
                out.loads[a as usize] = out.loads[a as usize].max(1);
            }
            out.work.once += rows * own_cost(*node) as u64;
            continue;
        }
        let size = body.dtype(id).size() as u64;
        out.kept += size * passes.transfers(id) as u64;
        out.held += if passes.is_buffered(id) { size } else { 0 };
        let evaluations = passes.evaluations(id);
        if let Some(a) = node.access() {
            out.loads[a as usize] = out.loads[a as usize].max(evaluations);
        }
        classify(body, &passes, id, points * evaluations as u64, wide, &mut out.work);
    }
    for s in &body.stores {
        let access = body.accesses[s.access as usize];
        let evaluations = if access.per_row { rows } else { points };
        out.work.convert += evaluations * narrowing(access.dtype) * wide;
    }
    out.work.fold += points * wide * out.folds as u64;
    for s in &body.scans {
        match s.op {
            ScanOp::Sum | ScanOp::Prod | ScanOp::Max | ScanOp::Min => out.work.scan += points,
            ScanOp::Sort | ScanOp::Argsort | ScanOp::LogSumExp => out.work.sort += points,
        }
        let (from, to) = (body.dtype(s.node).size() as u64, if s.op == ScanOp::Argsort { 8 } else { 0 });
        out.kept += 2 * (from + to);
        out.held += from + to;
    }
    for c in &body.combined {
        region(c.of, points * wide * c.along.steps(), &mut out.work);
        let size: u64 = c.elements().iter().map(|&e| body.dtype(e).size() as u64).sum();
        // Buffers are filled, and the output of a scan is read.
        out.kept += size * (1 + c.along.moves().iter().sum::<u64>() + u64::from(c.along != Along::Fold));
        out.held += size;
    }
    out
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, o: Work) {
        self.simple += o.simple;
        self.divide += o.divide;
        self.special += o.special;
        self.special_wide += o.special_wide;
        self.convert += o.convert;
        self.slow += o.slow;
        self.fold += o.fold;
        self.scan += o.scan;
        self.sort += o.sort;
        self.once += o.once;
    }
}

/// Whether vectors have 8-byte lanes: the emitter gives all values of a body the same number of lanes.
fn body_is_wide(body: &Body) -> bool {
    use ElementOp::{Div, FloorDiv, Rem};
    body.nodes.iter().enumerate().any(|(i, n)| {
        let id = NodeId(i as u32);
        let by_float = |op| matches!(op, Div | FloorDiv | Rem);
        let looped = |l: Loop| (0..l.region().nodes.len() as u32).any(|n| l.dtype(n).size() == 8);
        body.dtype(id).size() == 8
            || matches!(*n, Node::Loop { of, .. } if looped(of))
            || matches!(*n, Node::Element { op, dtype, .. } if dtype.is_int() && by_float(op))
    })
}

/// Number of conversions at a store: bf16 and f16 also need rounding.
fn narrowing(dtype: DType) -> u64 {
    match dtype {
        DType::BF16 | DType::F16 => 2,
        _ if dtype.size() < 4 => 1,
        _ => 0,
    }
}

fn classify(body: &Body, passes: &Passes, id: NodeId, evaluations: u64, wide: u64, work: &mut Work) {
    use ElementOp::{Add, Div, FloorDiv, Mul, Pow, Recip, Rem, Rsqrt, Sqrt, Sub};
    let n = evaluations * wide;
    match body.nodes[id.index()] {
        Node::Load { access } => {
            work.convert += if body.accesses[access as usize].dtype.size() < 4 { n } else { 0 };
        }
        Node::Cast { dtype, arg } if dtype != body.dtype(arg) => work.convert += n,
        // Needed only if the value is held in a wider lane.
        Node::Bitcast { dtype, .. } if dtype.size() == 2 => work.convert += n,
        Node::Index { .. } | Node::Valid { .. } => work.simple += n,
        Node::Element { op, dtype, .. } => {
            let operand = body.operand_dtype(id);
            if operand.is_int() && (op == Pow || operand.size() == 8 && matches!(op, Div | FloorDiv | Rem)) {
                work.slow += evaluations * op.row().cost as u64;
                return;
            }
            match op {
                Add | Sub
                    if dtype.is_float() && !body.strict && !body.repeatable && takes_product(body, passes, id) => {}
                Div if is_by_row(body, passes, id) => work.simple += 2 * n,
                Div | FloorDiv | Rem | Recip | Sqrt => work.divide += n,
                Rsqrt => work.divide += 2 * n,
                Mul => work.simple += n,
                _ if op.row().cost <= 4 => work.simple += n * op.row().cost as u64,
                _ if operand == DType::F64 && !has_vector_form(op) => work.slow += evaluations * op.row().cost as u64,
                _ if operand == DType::F64 => work.special_wide += evaluations * op.row().cost as u64,
                _ => work.special += n * op.row().cost as u64,
            }
        }
        Node::Loop { of, .. } => looped(of, n, work),
        _ => {}
    }
}

/// Adds `n` evaluations of a loop to `work`, with its expected number of iterations.
fn looped(of: Loop, n: u64, work: &mut Work) {
    let n = n.saturating_mul(of.turns() as u64);
    // The condition, a mask, and the selects of carried values.
    work.simple += n * (2 + of.region().next.len() as u64);
    region(of, n, work);
}

/// Adds `n` evaluations of a loop's region to `work`.
fn region(of: Loop, n: u64, work: &mut Work) {
    use ElementOp::{Div, FloorDiv, Recip, Rem, Rsqrt, Sqrt};
    for node in &of.region().nodes {
        match node {
            RegionNode::Element { op: Div | FloorDiv | Rem | Recip | Sqrt | Rsqrt, .. } => work.divide += n,
            RegionNode::Element { op, .. } if op.row().cost <= 4 => work.simple += n * op.row().cost as u64,
            RegionNode::Element { op, .. } => work.special += n * op.row().cost as u64,
            RegionNode::Cast { .. } => work.convert += n,
            RegionNode::Loop { inner, .. } => looped(*inner, n, work),
            _ => {}
        }
    }
}

/// Whether a function has a vector form in f64, or expands into operations that have one.
fn has_vector_form(op: ElementOp) -> bool {
    use ElementOp::{Atan, Cos, Exp, Exp2, Expm1, Log, Log1p, Log2, Sigmoid, Sin, Tanh};
    let known = matches!(op, Exp | Exp2 | Expm1 | Log | Log2 | Log1p | Sin | Cos | Atan | Tanh | Sigmoid);
    known || op.row().expand.is_some()
}

/// Whether a division is by a value of the row: a multiplication by its reciprocal, computed once.
fn is_by_row(body: &Body, passes: &Passes, id: NodeId) -> bool {
    let divisor = body.args(id).nth(1).expect("a division has two arguments");
    !body.strict && !body.folds.is_empty() && passes.once(divisor) && passes.level(divisor) > 0
}

/// Whether an argument of a sum is a product with no other use: both become one fused multiply-add.
fn takes_product(body: &Body, passes: &Passes, id: NodeId) -> bool {
    let product =
        |a: NodeId| matches!(body.nodes[a.index()], Node::Element { op: ElementOp::Mul, .. }) && passes.uses(a) == 1;
    body.args(id).any(product)
}

/// Maximum number of point-varying values alive at once in any of the first passes.
fn alive(body: &Body, passes: &Passes) -> u32 {
    let mut most = 0;
    // Last pass, counted from 1, in which a node was seen alive.
    let mut seen = vec![0; body.nodes.len()];
    for pass in 0..=passes.last().min(MAX_PASSES - 1) {
        let mut now = 0u32;
        let mut comes_alive = |id: NodeId| {
            let new = std::mem::replace(&mut seen[id.index()], pass + 1) <= pass;
            (new && varies(body, id.index())) as u32
        };
        for id in (0..body.nodes.len() as u32).rev().map(NodeId) {
            if passes.once(id) || !passes.computes(pass, id) {
                continue;
            }
            // Backwards: a value becomes live at its last use, and ends at its definition.
            now += comes_alive(id) + body.args(id).map(&mut comes_alive).sum::<u32>();
            most = most.max(now);
            now = now.saturating_sub(varies(body, id.index()) as u32);
        }
    }
    most
}

/// Whether a node needs a vector register: constants and scalars are memory operands.
fn varies(body: &Body, node: usize) -> bool {
    match body.nodes[node] {
        Node::Load { access } => body.accesses[access as usize].class != AccessClass::Uniform,
        Node::Const { .. } | Node::Scalar { .. } | Node::Value { .. } | Node::Valid { .. } => false,
        _ => true,
    }
}
