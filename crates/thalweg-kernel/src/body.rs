//! Kernel bodies: what is computed for each point of a kernel's domain, as a graph of typed nodes.
//!
//! A [`Body`] is in topological order and holds no node twice (the [`BodyBuilder`] shares equal nodes and
//! applies identities that are exact in floating point). Sizes, strides and addresses are not in it: they
//! come with the launch ([`crate::MapGeometry`]), so one compiled body serves every size of its class.
//!
//! A *row body* ([`crate::Kernel::Rows`]) also folds and scans over the rows that its points form: a fold's result is a value of the
//! row, known when all of it has been read, and may be used at every point of the row again. [`crate::phases`] puts that in order.

use std::collections::HashMap;
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::{DType, ElementOp, Scalar, ScanOp};

/// A node of a [`Body`], by position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How an access moves through its source while the innermost domain dimension runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AccessClass {
    /// Neighbours in the domain are neighbours in the source.
    Contiguous,
    /// One element for the whole row.
    Uniform,
    /// A constant number of elements apart, given at launch.
    Strided,
    /// By a table of positions that the launch fills; a negative position is masked out.
    Mapped,
}

/// A way into a buffer, or into an index space without a buffer ([`Node::Index`], [`Node::Valid`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The launch operand; `None` where only indices are asked for.
    pub operand: Option<u16>,
    /// What the elements are; of index-only accesses unused (u32).
    pub dtype: DType,
    /// How it moves along the innermost dimension.
    pub class: AccessClass,
    /// In a row body: the same for all points of a row.
    pub per_row: bool,
}

/// One value of a body, of the dtype that [`Body::dtype`] tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// The element that an access points at; 0 where it is masked out.
    Load {
        /// Number of the access.
        access: u16,
    },
    /// The position that an access points at: row-major index in its source, modulo 2³² for u32. Unspecified where masked out.
    Index {
        /// Number of the access.
        access: u16,
        /// u32 or i64.
        dtype: DType,
    },
    /// Whether an access points inside its source (bool).
    Valid {
        /// Number of the access.
        access: u16,
    },
    /// A scalar given at launch, in the form of [`Scalar::to_bits`].
    Scalar {
        /// Number of the scalar.
        slot: u16,
        /// Its dtype.
        dtype: DType,
    },
    /// A constant, in the form of [`Scalar::to_bits`].
    Const {
        /// The bits.
        bits: u64,
        /// Its dtype.
        dtype: DType,
    },
    /// An elementwise operation; `dtype` is that of the result, unused arguments repeat the first.
    Element {
        /// The operation.
        op: ElementOp,
        /// The dtype of the result.
        dtype: DType,
        /// The arguments.
        args: [NodeId; 3],
    },
    /// A conversion. To bf16 and f16 it rounds, whatever the mode.
    Cast {
        /// The dtype of the result.
        dtype: DType,
        /// The argument.
        arg: NodeId,
    },
    /// A value of the row: the result of the fold of that number, or (in phases) a [`Set`].
    Value {
        /// The number.
        slot: u16,
        /// Its dtype.
        dtype: DType,
    },
    /// The element that a scan of the row gives at this point.
    Scanned {
        /// Number of the scan.
        scan: u16,
        /// Its dtype.
        dtype: DType,
    },
    /// The element of an operand at the place that an access points at, plus `offset` elements (i64). Where `inside` is
    /// false nothing is read, the value is 0, and the launch ends in an index error.
    Gather {
        /// Number of the access, which has an operand and is not mapped.
        access: u16,
        /// Elements to add to its position.
        offset: NodeId,
        /// Whether the place is inside the operand.
        inside: NodeId,
    },
}

/// How the elements of a row become one: an associative operation. The order in which they meet is fixed, see [`crate::order`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum FoldOp {
    /// The sum; integers wrap.
    Sum,
    /// The product; integers wrap.
    Prod,
    /// The largest; NaN if any is NaN.
    Max,
    /// The smallest; NaN if any is NaN.
    Min,
}

impl FoldOp {
    /// The operation that puts two elements together.
    pub fn element(self) -> ElementOp {
        match self {
            FoldOp::Sum => ElementOp::Add,
            FoldOp::Prod => ElementOp::Mul,
            FoldOp::Max => ElementOp::Maximum,
            FoldOp::Min => ElementOp::Minimum,
        }
    }

    /// What an empty row gives, in the form of [`Scalar::to_bits`].
    pub fn identity(self, dtype: DType) -> u64 {
        let bound = |low: bool| match (dtype.is_float(), low) {
            (true, true) => Scalar::Float(f64::NEG_INFINITY),
            (true, false) => Scalar::Float(f64::INFINITY),
            (false, true) => Scalar::Int(dtype.int_range().0),
            (false, false) => Scalar::Int(dtype.int_range().1),
        };
        match self {
            FoldOp::Sum => Scalar::Int(0),
            FoldOp::Prod => Scalar::Int(1),
            FoldOp::Max => bound(true),
            FoldOp::Min => bound(false),
        }
        .to_bits(dtype)
    }
}

/// A fold over the row. Its result is [`Node::Value`] with `slot`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fold {
    /// How.
    pub op: FoldOp,
    /// What: f32, f64, i32, u32 or i64, also the dtype of the result.
    pub node: NodeId,
    /// Number of the row's value that it gives.
    pub slot: u16,
}

/// A scan along the row: its result is a row of the same length, [`Node::Scanned`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    /// How.
    pub op: ScanOp,
    /// From the last element to the first; of a sort: descending.
    pub reverse: bool,
    /// What. The result has the same dtype, but for [`ScanOp::Argsort`], whose is i64.
    pub node: NodeId,
}

/// A value computed once a row and known to later phases as [`Node::Value`] (only in [`crate::Phase`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Set {
    /// The value: f32, f64, i32, u32 or i64.
    pub node: NodeId,
    /// Its number.
    pub slot: u16,
}

/// A value that the kernel writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// The value.
    pub node: NodeId,
    /// The access that it is written through: [`AccessClass::Contiguous`], with an operand of the node's dtype. In a row body it may be
    /// [`AccessClass::Strided`], or [`Access::per_row`]: one element a row.
    pub access: u16,
    /// Put together with what is there instead of taking its place: `old op new`.
    pub combine: Option<FoldOp>,
}

/// What a map kernel computes for each point of its domain.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Body {
    /// The values, each after its arguments.
    pub nodes: Vec<Node>,
    /// The ways in and out.
    pub accesses: Vec<Access>,
    /// The values written.
    pub stores: Vec<Store>,
    /// The folds over the row, by slot.
    pub folds: Vec<Fold>,
    /// The scans along the row, by number.
    pub scans: Vec<Scan>,
    /// The values of the row that this phase computes.
    pub sets: Vec<Set>,
    /// Number of scalars the launch gives.
    pub scalars: u16,
    /// Number of operands the launch gives.
    pub operands: u16,
    /// Bit-for-bit equal to one kernel an operation: no contraction to fused multiply-add, every bf16 and
    /// f16 result rounded.
    pub strict: bool,
}

impl Body {
    /// The dtype of a node's value.
    pub fn dtype(&self, id: NodeId) -> DType {
        match self.nodes[id.index()] {
            Node::Load { access } | Node::Gather { access, .. } => self.accesses[access as usize].dtype,
            Node::Valid { .. } => DType::Bool,
            Node::Index { dtype, .. }
            | Node::Scalar { dtype, .. }
            | Node::Const { dtype, .. }
            | Node::Element { dtype, .. }
            | Node::Cast { dtype, .. }
            | Node::Value { dtype, .. }
            | Node::Scanned { dtype, .. } => dtype,
        }
    }

    /// Whether values of a point depend on other points of its row.
    pub fn has_rows(&self) -> bool {
        !self.folds.is_empty() || !self.scans.is_empty()
    }

    /// The nodes that something outside the graph needs: what is stored, folded, scanned or set.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        let stores = self.stores.iter().map(|s| s.node);
        let folds = self.folds.iter().map(|f| f.node);
        stores.chain(folds).chain(self.scans.iter().map(|s| s.node)).chain(self.sets.iter().map(|s| s.node))
    }

    fn map_roots(&mut self, place: impl Fn(NodeId) -> NodeId) {
        self.stores.iter_mut().for_each(|s| s.node = place(s.node));
        self.folds.iter_mut().for_each(|f| f.node = place(f.node));
        self.scans.iter_mut().for_each(|s| s.node = place(s.node));
        self.sets.iter_mut().for_each(|s| s.node = place(s.node));
    }

    /// The arguments of a node.
    pub fn args(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let (args, n) = match self.nodes[id.index()] {
            Node::Element { op, args, .. } => (args, op.row().arity),
            Node::Cast { arg, .. } => ([arg; 3], 1),
            Node::Gather { offset, inside, .. } => ([offset, inside, inside], 2),
            _ => ([NodeId(0); 3], 0),
        };
        args.into_iter().take(n)
    }

    /// The dtype that an elementwise node computes in: of its last argument, which for [`ElementOp::Where`] is a value
    /// and not the condition.
    pub fn operand_dtype(&self, id: NodeId) -> DType {
        self.args(id).last().map_or_else(|| self.dtype(id), |a| self.dtype(a))
    }

    /// Arithmetic of one point, in additions.
    pub fn cost(&self) -> u64 {
        self.nodes
            .iter()
            .map(|n| match n {
                Node::Element { op, .. } => op.row().cost as u64,
                Node::Cast { .. } => 1,
                _ => 0,
            })
            .sum::<u64>()
            + self.folds.len() as u64
    }
}

impl Node {
    /// The access that it goes through.
    pub fn access(&self) -> Option<u16> {
        match *self {
            Node::Load { access }
            | Node::Index { access, .. }
            | Node::Valid { access }
            | Node::Gather { access, .. } => Some(access),
            _ => None,
        }
    }

    /// The node with other arguments.
    pub fn with_args(mut self, place: impl Fn(NodeId) -> NodeId) -> Node {
        match &mut self {
            Node::Element { args, .. } => *args = args.map(place),
            Node::Cast { arg, .. } => *arg = place(*arg),
            Node::Gather { offset, inside, .. } => (*offset, *inside) = (place(*offset), place(*inside)),
            _ => {}
        }
        self
    }
}

/// Builds a [`Body`]: equal nodes are shared, identities that hold exactly in floating point are applied.
#[derive(Default)]
pub struct BodyBuilder {
    body: Body,
    known: HashMap<Node, NodeId>,
}

impl BodyBuilder {
    /// An empty body.
    pub fn new(strict: bool) -> BodyBuilder {
        BodyBuilder { body: Body { strict, ..Body::default() }, known: HashMap::new() }
    }

    /// The body so far.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// A way in or out; equal ones are not shared, the caller keeps them apart.
    pub fn access(&mut self, access: Access) -> u16 {
        if let Some(operand) = access.operand {
            self.body.operands = self.body.operands.max(operand + 1);
        }
        self.body.accesses.push(access);
        u16::try_from(self.body.accesses.len() - 1).expect("a kernel has at most 65,536 accesses")
    }

    /// Writes a value through an access.
    pub fn store(&mut self, node: NodeId, access: u16) {
        self.body.stores.push(Store { node, access, combine: None });
    }

    /// Puts a value together with what is there. Where an access leads several points to one element, the element becomes the fold of their values and
    /// of nothing else: what was there before the launch does not count. (Only across the rows of a row body; see [`crate::RowGeometry`].)
    pub fn store_combined(&mut self, node: NodeId, access: u16, op: FoldOp) {
        self.body.stores.push(Store { node, access, combine: Some(op) });
    }

    /// The fold of a value (f32, f64, i32, u32 or i64) over the row.
    pub fn fold(&mut self, op: FoldOp, node: NodeId) -> NodeId {
        let dtype = self.body.dtype(node);
        let known = self.body.folds.iter().position(|f| f.op == op && f.node == node);
        let slot = known.unwrap_or_else(|| {
            let slot = self.body.folds.len();
            self.body.folds.push(Fold { op, node, slot: slot as u16 });
            slot
        });
        self.node(Node::Value { slot: slot as u16, dtype })
    }

    /// The scan of a value along the row.
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

    /// A scalar argument.
    pub fn scalar(&mut self, slot: u16, dtype: DType) -> NodeId {
        self.body.scalars = self.body.scalars.max(slot + 1);
        self.node(Node::Scalar { slot, dtype })
    }

    /// A constant.
    pub fn constant(&mut self, value: Scalar, dtype: DType) -> NodeId {
        self.node(Node::Const { bits: value.to_bits(dtype), dtype })
    }

    /// A conversion; none where the dtype is already that one.
    pub fn cast(&mut self, arg: NodeId, dtype: DType) -> NodeId {
        if self.body.dtype(arg) == dtype { arg } else { self.node(Node::Cast { dtype, arg }) }
    }

    /// An elementwise operation on values of one dtype (the condition of [`ElementOp::Where`] is bool).
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

    /// The node, shared with an equal one.
    pub fn node(&mut self, node: Node) -> NodeId {
        *self.known.entry(node).or_insert_with(|| {
            self.body.nodes.push(node);
            NodeId(self.body.nodes.len() as u32 - 1)
        })
    }

    /// Takes over what leaves another body's graph, `place` being where its nodes are here.
    pub(crate) fn take_roots(&mut self, from: &Body, place: &[NodeId]) {
        self.body.stores = from.stores.clone();
        self.body.folds = from.folds.clone();
        self.body.scans = from.scans.clone();
        self.body.sets = from.sets.clone();
        self.body.map_roots(|n| place[n.index()]);
    }

    /// Takes what leaves the graph, which names nodes of this builder.
    pub(crate) fn set_roots(&mut self, roots: Body) {
        self.body.stores = roots.stores;
        self.body.folds = roots.folds;
        self.body.scans = roots.scans;
        self.body.sets = roots.sets;
    }

    /// An empty body with another one's accesses, operands and scalars.
    pub(crate) fn like(from: &Body) -> BodyBuilder {
        let mut b = BodyBuilder::new(from.strict);
        b.body.accesses = from.accesses.clone();
        b.body.operands = from.operands;
        b.body.scalars = from.scalars;
        b
    }

    fn as_unary(&self, id: NodeId, op: ElementOp) -> Option<NodeId> {
        match self.body.nodes[id.index()] {
            Node::Element { op: o, args, .. } if o == op => Some(args[0]),
            _ => None,
        }
    }

    /// Identities that are exact for every value, NaN and signed zeros included, in every dtype.
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
            // (-a)·(-b) = a·b; division likewise on floats (integer division truncates, so it holds there too, but wraps).
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

    /// The finished body: nodes that nothing outside needs are dropped.
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

/// The body with every operation that `native` refuses written in simpler ones (see [`thalweg_ir::element::Row::expand`]).
/// An operation that has no expansion stays.
pub fn expand(body: &Body, native: &dyn Fn(ElementOp, DType) -> bool) -> Body {
    let mut b = BodyBuilder::like(body);
    // An expansion may use operations that need expanding themselves, so each is opened until none is left.
    struct Expanding<'a>(&'a mut BodyBuilder, &'a dyn Fn(ElementOp, DType) -> bool);
    impl Build for Expanding<'_> {
        fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr {
            let dtype = self.0.body.dtype(NodeId(args[args.len() - 1].0));
            match op.row().expand {
                Some(expand) if !(self.1)(op, dtype) => expand(self, args),
                _ => self.0.op(op, args),
            }
        }
        fn constant(&mut self, like: Expr, value: f64) -> Expr {
            Build::constant(self.0, like, value)
        }
    }
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        let id = match *node {
            Node::Element { op, .. } => {
                let args: Vec<Expr> = body.args(NodeId(i as u32)).map(|a| Expr(place[a.index()].0)).collect();
                NodeId(Expanding(&mut b, native).op(op, &args).0)
            }
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            other => b.node(other.with_args(|a| place[a.index()])),
        };
        place.push(id);
    }
    b.take_roots(body, &place);
    b.finish()
}

/// The body where some accesses are known to be inside their source throughout (`Some(true)`) or outside (`Some(false)`): their validity is
/// a constant, and what lies outside is 0. Also the old numbers of the accesses that are left.
pub fn resolve(body: &Body, inside: &[Option<bool>]) -> (Body, Vec<usize>) {
    let mut b = BodyBuilder::like(body);
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let dtype = body.dtype(id);
        let new = match *node {
            Node::Valid { access } if inside[access as usize].is_some() => {
                Node::Const { bits: (inside[access as usize] == Some(true)) as u64, dtype }
            }
            Node::Load { access } | Node::Index { access, .. } if inside[access as usize] == Some(false) => {
                Node::Const { bits: 0, dtype }
            }
            Node::Element { op, .. } => {
                let args: Vec<NodeId> = body.args(id).map(|a| place[a.index()]).collect();
                place.push(b.element(op, &args));
                continue;
            }
            Node::Cast { dtype, arg } => {
                place.push(b.cast(place[arg.index()], dtype));
                continue;
            }
            other => other.with_args(|a| place[a.index()]),
        };
        place.push(b.node(new));
    }
    b.take_roots(body, &place);
    let mut out = b.finish();
    out.operands = body.operands;
    out.scalars = body.scalars;
    let mut used = vec![false; out.accesses.len()];
    for n in &out.nodes {
        if let Some(access) = n.access() {
            used[access as usize] = true;
        }
    }
    out.stores.iter().for_each(|s| used[s.access as usize] = true);
    let kept: Vec<usize> = (0..used.len()).filter(|&a| used[a]).collect();
    let number = |a: u16| kept.iter().position(|&k| k == a as usize).expect("a used access is kept") as u16;
    for n in &mut out.nodes {
        if let Node::Load { access }
        | Node::Index { access, .. }
        | Node::Valid { access }
        | Node::Gather { access, .. } = n
        {
            *access = number(*access);
        }
    }
    out.stores.iter_mut().for_each(|s| s.access = number(s.access));
    out.accesses = kept.iter().map(|&a| out.accesses[a]).collect();
    (out, kept)
}

/// The body with elementwise operations on bf16 and f16 carried out in f32: arguments are cast up, and where the body is
/// strict, results are rounded back. What follows - expansion, code generation - then sees no narrow arithmetic, and rounds after
/// an operation, not after each step of one.
pub fn widen(body: &Body) -> Body {
    let narrow = |d: DType| matches!(d, DType::BF16 | DType::F16);
    let ids = || (0..body.nodes.len() as u32).map(NodeId);
    if !ids().any(|n| matches!(body.nodes[n.index()], Node::Element { .. }) && narrow(body.operand_dtype(n))) {
        return body.clone();
    }
    let mut b = BodyBuilder::like(body);
    let mut is_root = vec![false; body.nodes.len()];
    body.roots().for_each(|r| is_root[r.index()] = true);
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    let mut root: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for id in ids() {
        let new = match body.nodes[id.index()] {
            Node::Element { op, dtype, .. } => {
                let wide = narrow(body.operand_dtype(id));
                let args: Vec<NodeId> = body
                    .args(id)
                    .map(|a| {
                        let p = place[a.index()];
                        if wide && narrow(b.body.dtype(p)) { b.cast(p, DType::F32) } else { p }
                    })
                    .collect();
                let result = b.element(op, &args);
                if wide && narrow(dtype) && body.strict { b.cast(result, dtype) } else { result }
            }
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            other => b.node(other.with_args(|a| place[a.index()])),
        };
        place.push(new);
        // What leaves the graph has the dtype that it had. Cast here, not at the end: what a fold or scan takes comes before what it gives.
        root.push(if is_root[id.index()] { b.cast(new, body.dtype(id)) } else { new });
    }
    b.take_roots(body, &root);
    b.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(b: &mut BodyBuilder) -> NodeId {
        let access =
            b.access(Access { operand: Some(0), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
        b.node(Node::Load { access })
    }

    #[test]
    fn both_branches_of_an_odd_function_share_their_work() {
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

    /// A scan's operand rounded to bf16 is a node of its own, which has to stand before the scan's result.
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
