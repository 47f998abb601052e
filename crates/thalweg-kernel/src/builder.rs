//! Body builder: shares equal nodes, applies exact identities, and drops unused nodes.

use crate::{Access, Along, Body, Combined, Fold, Node, NodeId, Scan, Set, Store};
use rustc_hash::FxHashMap;
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::{DType, ElementOp, Loop, MAX_ARGS, Monoid, Scalar, ScanOp};

/// Builds a [`Body`]: shares equal nodes and applies identities that are exact in floating point.
#[derive(Default)]
pub struct BodyBuilder {
    pub(crate) body: Body,
    known: FxHashMap<Node, NodeId>,
    /// For each node, whether [`BodyBuilder::round`] leaves it unchanged.
    rounded: Vec<bool>,
}

impl BodyBuilder {
    /// Builder of an empty body.
    pub fn new(strict: bool) -> BodyBuilder {
        BodyBuilder { body: Body { strict, ..Body::default() }, ..BodyBuilder::default() }
    }

    /// Makes values equal bit for bit wherever they are computed; see [`Body::repeatable`].
    pub fn repeatable(&mut self) {
        self.body.repeatable = true;
    }

    /// Body built so far.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Adds an access. Equal ones are not shared; the caller distinguishes them.
    pub fn access(&mut self, access: Access) -> u16 {
        if let Some(operand) = access.operand {
            self.body.operands = self.body.operands.max(operand + 1);
        }
        self.body.accesses.push(access);
        u16::try_from(self.body.accesses.len() - 1).expect("a kernel has at most 65,536 accesses")
    }

    /// Adds a store of a value through an access to the body.
    pub fn store(&mut self, node: NodeId, access: u16) {
        self.body.stores.push(Store { node, access, combine: None });
    }

    /// Adds a store that combines a value with the existing element. If an access maps several points to one element,
    /// the element becomes the fold of their values only; its content before the launch does not count. (Only across
    /// the rows of a row body; see [`crate::RowGeometry`].)
    pub fn store_combined(&mut self, node: NodeId, access: u16, op: Monoid) {
        self.body.stores.push(Store { node, access, combine: Some(op) });
    }

    /// Adds a fold of a value (f32, f64, or an integer of 32 or 64 bits) over the row, if no equal one exists; returns
    /// the node of its result.
    pub fn fold(&mut self, op: Monoid, node: NodeId) -> NodeId {
        debug_assert_eq!(op.row().components(), 1, "a fold of a row gives one value");
        let dtype = self.body.dtype(node);
        let known = self.body.folds.iter().position(|f| f.op == op && f.node == node);
        let slot = known.unwrap_or_else(|| {
            let slot = self.body.folds.len();
            self.body.folds.push(Fold { op, node, slot: slot as u16 });
            slot
        });
        self.node(Node::Value { slot: slot as u16, dtype })
    }

    /// Adds a [`Set`]: `node` becomes row value `slot`.
    pub(crate) fn set(&mut self, slot: u16, node: NodeId) {
        self.body.sets.push(Set { node, slot });
    }

    /// Adds a scan of a value along the row, if no equal one exists; returns the node of its result.
    pub fn scan(&mut self, op: ScanOp, reverse: bool, node: NodeId) -> NodeId {
        let dtype = if op == ScanOp::Argsort { DType::I64 } else { self.body.dtype(node) };
        let wanted = Scan { op, reverse, node };
        let known = self.body.scans.iter().position(|s| *s == wanted);
        let scan = known.unwrap_or_else(|| {
            self.body.scans.push(wanted);
            self.body.scans.len() - 1
        });
        self.node(Node::Scanned { scan: scan as u16, dtype })
    }

    /// Adds the fold or scan of the row by a user-defined combine, if no equal one exists; returns the node of one
    /// component of its result. `elements` are the components of an element.
    pub fn combined(&mut self, of: Loop, along: Along, elements: &[NodeId], component: u16) -> NodeId {
        let mut nodes = [elements[0]; MAX_ARGS];
        nodes[..elements.len()].copy_from_slice(elements);
        let wanted = Combined { of, along, nodes };
        let known = self.body.combined.iter().position(|c| *c == wanted);
        let number = known.unwrap_or_else(|| {
            self.body.combined.push(wanted);
            self.body.combined.len() - 1
        });
        self.node(Node::Combined { number: number as u16, component, dtype: of.carried(component as usize) })
    }

    /// Returns the node of the scalar argument `slot`; adds it if it is new.
    pub fn scalar(&mut self, slot: u16, dtype: DType) -> NodeId {
        self.body.scalars = self.body.scalars.max(slot + 1);
        self.node(Node::Scalar { slot, dtype })
    }

    /// Returns the node of a constant; adds it if it is new.
    pub fn constant(&mut self, value: Scalar, dtype: DType) -> NodeId {
        self.node(Node::Const { bits: value.to_bits(dtype), dtype })
    }

    /// Returns the node of a conversion, which is added if it is new; returns the argument itself if it has that dtype
    /// already.
    pub fn cast(&mut self, arg: NodeId, dtype: DType) -> NodeId {
        if self.body.dtype(arg) == dtype { arg } else { self.node(Node::Cast { dtype, arg }) }
    }

    /// Returns the node of a value rounded to its dtype ([`Node::Round`]), which is added if it is new; returns the
    /// value itself if it is rounded already, or if the whole body is strict.
    pub fn round(&mut self, arg: NodeId) -> NodeId {
        if self.body.strict || self.rounded[arg.index()] { arg } else { self.node(Node::Round { arg }) }
    }

    /// Whether every engine computes the same value of its dtype for a node: it is not a float, is read from memory, is
    /// selected among such values, or is in f32 or f64 and not a product that a sum could contract.
    fn is_rounded(&self, node: &Node) -> bool {
        let dtype = match *node {
            Node::Element { dtype, .. } | Node::Cast { dtype, .. } => dtype,
            _ => return true,
        };
        match (*node, dtype) {
            (Node::Element { op, args, .. }, _) if op.row().is_exact() => {
                args[..op.row().arity].iter().all(|a| self.rounded[a.index()])
            }
            // Accumulators of a product are converted without being rounded ([`crate::widen_sums`]).
            (_, DType::BF16 | DType::F16) => false,
            // Quotients may become products, and so may operations with an expansion.
            (Node::Element { op, .. }, DType::F32 | DType::F64) => {
                !matches!(op, ElementOp::Mul | ElementOp::Div) && op.row().expand.is_none()
            }
            _ => true,
        }
    }

    /// Returns the node of a value's bits as another dtype of the same width, which is added if it is new; returns the
    /// original value if it was bits of that dtype before.
    pub fn bitcast(&mut self, arg: NodeId, dtype: DType) -> NodeId {
        let from = match self.body.nodes[arg.index()] {
            Node::Bitcast { arg, .. } => arg,
            _ => arg,
        };
        debug_assert_eq!(self.body.dtype(from).size(), dtype.size());
        if self.body.dtype(from) == dtype { from } else { self.node(Node::Bitcast { dtype, arg: from }) }
    }

    /// Returns the node of an elementwise operation on values of one dtype (the condition of [`ElementOp::Where`] is
    /// bool); adds it if it is new.
    pub fn element(&mut self, op: ElementOp, args: &[NodeId]) -> NodeId {
        debug_assert_eq!(args.len(), op.row().arity, "{op:?}");
        let dtype = op.output(self.body.dtype(args[args.len() - 1]));
        let mut a = [args[0]; 3];
        a[..args.len()].copy_from_slice(args);
        if let Some(id) = self.identity(op, args) {
            return id;
        }
        if op.row().commutative && a[1] < a[0] {
            a.swap(0, 1);
            if args.len() == 2 {
                a[2] = a[0];
            }
        }
        self.node(Node::Element { op, dtype, args: a })
    }

    /// Adds a node, or returns an equal one that exists.
    pub fn node(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        let id = NodeId(self.body.nodes.len() as u32);
        self.rounded.push(self.is_rounded(&node));
        self.body.nodes.push(node);
        self.known.insert(node, id);
        id
    }

    /// Copies the roots of another body; `place` maps its nodes to those here.
    pub(crate) fn take_roots(&mut self, from: &Body, place: &[NodeId]) {
        self.body.stores = from.stores.clone();
        self.body.folds = from.folds.clone();
        self.body.scans = from.scans.clone();
        self.body.combined = from.combined.clone();
        self.body.sets = from.sets.clone();
        self.body.map_roots(|n| place[n.index()]);
    }

    /// Adopts the roots of a body whose nodes are those of this builder.
    pub(crate) fn set_roots(&mut self, roots: Body) {
        self.body.stores = roots.stores;
        self.body.folds = roots.folds;
        self.body.scans = roots.scans;
        self.body.combined = roots.combined;
        self.body.sets = roots.sets;
    }

    /// Empty body with another one's accesses, operands and scalars.
    pub(crate) fn like(from: &Body) -> BodyBuilder {
        let mut b = BodyBuilder::new(from.strict);
        b.body.repeatable = from.repeatable;
        b.body.accesses = from.accesses.clone();
        b.body.operands = from.operands;
        b.body.scalars = from.scalars;
        b
    }

    /// Builder that continues a copy of a body: its nodes keep their ids.
    pub(crate) fn copy(from: &Body) -> BodyBuilder {
        let known = from.nodes.iter().enumerate().map(|(i, &n)| (n, NodeId(i as u32))).collect();
        let mut b = BodyBuilder { body: from.clone(), known, rounded: Vec::with_capacity(from.nodes.len()) };
        for node in &from.nodes {
            b.rounded.push(b.is_rounded(node));
        }
        b
    }

    fn as_unary(&self, id: NodeId, op: ElementOp) -> Option<NodeId> {
        match self.body.nodes[id.index()] {
            Node::Element { op: o, args, .. } if o == op => Some(args[0]),
            _ => None,
        }
    }

    /// Applies identities that are exact for every value, NaN and signed zeros included, in every dtype.
    fn identity(&mut self, op: ElementOp, x: &[NodeId]) -> Option<NodeId> {
        use ElementOp::*;
        match op {
            Neg => self.as_unary(x[0], Neg),
            Not => self.as_unary(x[0], Not),
            BitNot => self.as_unary(x[0], BitNot),
            // Not for unsigned dtypes, where a negated value has another magnitude.
            Abs if self.body.dtype(x[0]).is_signed() => match (self.as_unary(x[0], Neg), self.as_unary(x[0], Abs)) {
                (Some(inner), _) => Some(self.element(Abs, &[inner])),
                (_, Some(_)) => Some(x[0]),
                _ => None,
            },
            Square | Cosh => {
                let inner = self.as_unary(x[0], Neg)?;
                Some(self.element(op, &[inner]))
            }
            Cos => {
                let inner = self.as_unary(x[0], Neg)?;
                Some(self.element(op, &[inner]))
            }
            // (-a)·(-b) = a·b; division likewise on floats (integer division truncates, so it holds there too, but
            // wraps).
            Mul => match (self.as_unary(x[0], Neg), self.as_unary(x[1], Neg)) {
                (Some(a), Some(b)) => Some(self.element(Mul, &[a, b])),
                // One product with its sign outside: -(x·x) is then shared with x·x.
                (Some(a), None) if a == x[1] => {
                    let p = self.element(Mul, &[a, x[1]]);
                    Some(self.element(Neg, &[p]))
                }
                (None, Some(b)) if b == x[0] => {
                    let p = self.element(Mul, &[x[0], b]);
                    Some(self.element(Neg, &[p]))
                }
                _ => None,
            },
            Div if self.body.dtype(x[0]).is_float() => {
                let (a, b) = (self.as_unary(x[0], Neg)?, self.as_unary(x[1], Neg)?);
                Some(self.element(Div, &[a, b]))
            }
            Sub if self.body.dtype(x[0]).is_float() => {
                let b = self.as_unary(x[1], Neg)?;
                Some(self.element(Add, &[x[0], b]))
            }
            Add if self.body.dtype(x[0]).is_float() => match (self.as_unary(x[0], Neg), self.as_unary(x[1], Neg)) {
                (None, Some(b)) => Some(self.node_sub(x[0], b)),
                (Some(a), None) => Some(self.node_sub(x[1], a)),
                _ => None,
            },
            And | Or | BitAnd | BitOr if x[0] == x[1] => Some(x[0]),
            Where => match self.body.nodes[x[0].index()] {
                Node::Const { bits, .. } => Some(if bits != 0 { x[1] } else { x[2] }),
                _ => (x[1] == x[2]).then_some(x[1]),
            },
            _ => None,
        }
    }

    fn node_sub(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let dtype = self.body.dtype(a);
        self.node(Node::Element { op: ElementOp::Sub, dtype, args: [a, b, a] })
    }

    /// Completes the body: nodes that no root needs are dropped.
    pub fn finish(self) -> Body {
        let mut body = self.body;
        let mut used = vec![false; body.nodes.len()];
        for root in body.roots() {
            used[root.index()] = true;
        }
        for i in (0..body.nodes.len()).rev() {
            if used[i] {
                for a in body.args(NodeId(i as u32)) {
                    used[a.index()] = true;
                }
            }
        }
        let mut place = vec![NodeId(0); body.nodes.len()];
        let mut kept = Vec::with_capacity(body.nodes.len());
        for (i, node) in body.nodes.iter().copied().enumerate().filter(|(i, _)| used[*i]) {
            place[i] = NodeId(kept.len() as u32);
            kept.push(node.with_args(|a| place[a.index()]));
        }
        body.nodes = kept;
        body.map_roots(|n| place[n.index()]);
        body
    }
}

impl Build for BodyBuilder {
    fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr {
        let args: Vec<NodeId> = args.iter().map(|e| NodeId(e.0)).collect();
        Expr(self.element(op, &args).0)
    }

    fn constant(&mut self, like: Expr, value: f64) -> Expr {
        let dtype = self.body.dtype(NodeId(like.0));
        Expr(BodyBuilder::constant(self, Scalar::Float(value), dtype).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessClass, expand, widen};

    fn load(b: &mut BodyBuilder) -> NodeId {
        let access =
            b.access(Access { operand: Some(0), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
        b.node(Node::Load { access })
    }

    #[test]
    fn both_branches_of_an_odd_function_use_the_same_nodes() {
        // erf by hand evaluates exp(-x·x) for x and for -x, and |x| for both.
        let mut b = BodyBuilder::new(false);
        let x = load(&mut b);
        let n = b.element(ElementOp::Neg, &[x]);
        let half = |b: &mut BodyBuilder, x: NodeId| {
            let a = b.element(ElementOp::Abs, &[x]);
            let m = b.element(ElementOp::Neg, &[x]);
            let s = b.element(ElementOp::Mul, &[m, x]);
            let e = b.element(ElementOp::Exp, &[s]);
            b.element(ElementOp::Add, &[a, e])
        };
        assert_eq!(half(&mut b, x), half(&mut b, n));
    }

    #[test]
    fn expansion_opens_what_is_not_native_to_the_bottom() {
        let mut b = BodyBuilder::new(false);
        let x = load(&mut b);
        let y = b.element(ElementOp::Asin, &[x]);
        let out =
            b.access(Access { operand: Some(1), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
        b.store(y, out);
        let body = b.finish();
        let native = |op: ElementOp, _| op.row().expand.is_none();
        let open = expand(&body, &native);
        assert!(open.nodes.iter().all(|n| !matches!(n, Node::Element { op, .. } if op.row().expand.is_some())));
        assert_eq!(open.stores.len(), 1);
        assert_eq!(open.operands, 2);
    }

    /// A scan's operand rounded to bf16 is a node of its own, which must come before the scan's result.
    #[test]
    fn what_a_scan_takes_stays_before_what_it_gives() {
        let mut b = BodyBuilder::new(false);
        let access =
            b.access(Access { operand: Some(0), dtype: DType::BF16, class: AccessClass::Contiguous, per_row: false });
        let x = b.node(Node::Load { access });
        let e = b.element(ElementOp::Exp, &[x]);
        let s = b.scan(thalweg_ir::ScanOp::Sum, false, e);
        let y = b.element(ElementOp::Sqrt, &[s]);
        b.store(y, access);
        let body = widen(&b.finish());
        let scanned = body.nodes.iter().position(|n| matches!(n, Node::Scanned { .. })).unwrap();
        assert!(body.scans[0].node.index() < scanned, "{body:?}");
        assert_eq!(body.dtype(body.scans[0].node), DType::BF16);
    }

    #[test]
    fn dead_nodes_are_dropped() {
        let mut b = BodyBuilder::new(false);
        let x = load(&mut b);
        b.element(ElementOp::Exp, &[x]);
        let y = b.element(ElementOp::Neg, &[x]);
        let out =
            b.access(Access { operand: Some(1), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
        b.store(y, out);
        assert_eq!(b.finish().nodes.len(), 2);
    }
}
