//! Kernel bodies: what is computed for each point of a kernel's domain, as a graph of typed nodes.
//!
//! A [`Body`] is in topological order and holds no node twice (the [`crate::BodyBuilder`] shares equal nodes and
//! applies identities that are exact in floating point). Sizes, strides and addresses are not in it: they
//! come with the launch ([`crate::MapGeometry`]), so one compiled body serves every size of its class.
//!
//! A *row body* ([`crate::Kernel::Rows`]) also folds and scans over the rows that its points form: a fold's result is a
//! value of the row, known when all of it has been read, and may be used at every point of the row again.
//! [`crate::phases`] puts that in order.

use thalweg_ir::{DType, ElementOp, Loop, MAX_ARGS, Monoid, ScanOp};

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
    /// Neighbours in the domain are neighbours in the source, in the other order: what is read of a flipped axis.
    /// Never written through.
    Reversed,
    /// A constant number of elements apart, given at launch.
    Strided,
    /// By a table of positions that the launch fills; a negative position is masked out.
    Mapped,
}

impl AccessClass {
    /// Elements from neighbour to neighbour, where the class says how many.
    pub fn step(self) -> Option<isize> {
        match self {
            AccessClass::Contiguous => Some(1),
            AccessClass::Uniform => Some(0),
            AccessClass::Reversed => Some(-1),
            AccessClass::Strided | AccessClass::Mapped => None,
        }
    }

    /// The class of what is read in steps of so many elements.
    pub fn of_step(step: isize) -> AccessClass {
        match step {
            1 => AccessClass::Contiguous,
            0 => AccessClass::Uniform,
            -1 => AccessClass::Reversed,
            _ => AccessClass::Strided,
        }
    }
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

impl Access {
    /// Elements of an operand that lie side by side, one a point.
    pub fn contiguous(operand: u16, dtype: DType) -> Access {
        Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false }
    }
}

/// One value of a body, of the dtype that [`Body::dtype`] tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// The element that an access points at; 0 where it is masked out.
    Load {
        /// Number of the access.
        access: u16,
    },
    /// The position that an access points at: row-major index in its source, modulo 2³² for u32. Unspecified where
    /// masked out.
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
    /// A scalar given at launch, in the form of [`thalweg_ir::Scalar::to_bits`].
    Scalar {
        /// Number of the scalar.
        slot: u16,
        /// Its dtype.
        dtype: DType,
    },
    /// A constant, in the form of [`thalweg_ir::Scalar::to_bits`].
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
    /// The bits of a value as another dtype of the same width. What it takes has been rounded to its dtype.
    Bitcast {
        /// The dtype of the result.
        dtype: DType,
        /// The argument.
        arg: NodeId,
    },
    /// A conversion. To bf16 and f16 it rounds, whatever the mode.
    Cast {
        /// The dtype of the result.
        dtype: DType,
        /// The argument.
        arg: NodeId,
    },
    /// A float rounded to its dtype, as memory would hold it. Without this node a bf16 or f16 value may be carried in f32
    /// and a product may be contracted with a sum; what reads this node sees the same bits in every kernel.
    Round {
        /// The argument, of the same dtype.
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
    /// A component of what a [`Combined`] of the row gives: of a fold a value of the row, of a scan an element of this
    /// point.
    Combined {
        /// Number of the [`Combined`].
        number: u16,
        /// Which component.
        component: u16,
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
    /// A loop whose end depends on data, which is over for each point by itself. Its results are read through
    /// [`Node::Looped`]; [`Body::dtype`] is that of the first.
    Loop {
        /// The loop.
        of: Loop,
        /// The arguments of its region; unused ones repeat the first.
        args: [NodeId; MAX_ARGS],
    },
    /// A carried value of a loop after its last turn.
    Looped {
        /// The loop's node.
        of: NodeId,
        /// Which one.
        number: u16,
        /// Its dtype.
        dtype: DType,
    },
}

/// A fold over the row. Its result is [`Node::Value`] with `slot`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fold {
    /// How: a monoid of one component. The order in which elements meet is fixed, see [`crate::order`].
    pub op: Monoid,
    /// What: f32, f64 or an integer of 32 or 64 bits, also the dtype of the result.
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

/// What becomes of a row by a combine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Along {
    /// One partial result.
    Fold,
    /// The partial result of the elements up to each.
    Scan,
    /// The same from the last element to the first.
    Reversed,
}

impl Along {
    /// How often each element is put together with another.
    pub fn steps(self) -> u64 {
        if self == Along::Fold { 1 } else { crate::order::SCAN_STEPS }
    }

    /// How often the elements of its buffers are read and written on the way: a fold reads all and half again, halves of
    /// halves, and writes half of what it reads; each step of a scan reads and writes all.
    pub fn moves(self) -> [u64; 2] {
        if self == Along::Fold { [2, 1] } else { [self.steps(); 2] }
    }
}

/// A fold or a scan of the row by a combine of the user's own, in the order that [`crate::order`] says. What it gives is
/// [`Node::Combined`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Combined {
    /// The combine ([`Loop::is_combine`]).
    pub of: Loop,
    /// What becomes of the row.
    pub along: Along,
    /// The components of an element; unused ones repeat the first.
    pub nodes: [NodeId; MAX_ARGS],
}

impl Combined {
    /// The components of an element.
    pub fn elements(&self) -> &[NodeId] {
        &self.nodes[..self.of.region().args.len()]
    }

    /// Arithmetic of a point, in additions.
    pub fn cost(&self) -> u64 {
        self.along.steps() * u64::from(self.of.cost())
    }
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
    /// The access that it is written through: [`AccessClass::Contiguous`], with an operand of the node's dtype. In a
    /// row body it may be [`AccessClass::Strided`], or [`Access::per_row`]: one element a row.
    pub access: u16,
    /// Put together with what is there instead of taking its place: `old op new`.
    pub combine: Option<Monoid>,
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
    /// The folds and scans by combines of the user's own, by number.
    pub combined: Vec<Combined>,
    /// The values of the row that this phase computes.
    pub sets: Vec<Set>,
    /// Number of scalars the launch gives.
    pub scalars: u16,
    /// Number of operands the launch gives.
    pub operands: u16,
    /// Bit-for-bit equal to one kernel an operation: no contraction to fused multiply-add, every bf16 and
    /// f16 result rounded.
    pub strict: bool,
    /// What is computed in two passes along a row is the same to the bit: no contraction, which may differ with what
    /// else a pass computes.
    pub repeatable: bool,
}

impl Body {
    /// The dtype of a node's value.
    #[inline]
    pub fn dtype(&self, id: NodeId) -> DType {
        match self.nodes[id.index()] {
            Node::Load { access } | Node::Gather { access, .. } => self.accesses[access as usize].dtype,
            Node::Valid { .. } => DType::Bool,
            Node::Index { dtype, .. }
            | Node::Scalar { dtype, .. }
            | Node::Const { dtype, .. }
            | Node::Element { dtype, .. }
            | Node::Cast { dtype, .. }
            | Node::Bitcast { dtype, .. }
            | Node::Value { dtype, .. }
            | Node::Scanned { dtype, .. }
            | Node::Combined { dtype, .. }
            | Node::Looped { dtype, .. } => dtype,
            Node::Loop { of, .. } => of.carried(0),
            Node::Round { arg } => self.dtype(arg),
        }
    }

    /// Whether values of a point depend on other points of its row.
    pub fn has_rows(&self) -> bool {
        !self.folds.is_empty() || !self.scans.is_empty() || !self.combined.is_empty()
    }

    /// The nodes that something outside the graph needs: what is stored, folded, scanned or set.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        let stores = self.stores.iter().map(|s| s.node);
        let folds = self.folds.iter().map(|f| f.node);
        let combined = self.combined.iter().flat_map(|c| c.elements().iter().copied());
        let scans = self.scans.iter().map(|s| s.node);
        stores.chain(folds).chain(scans).chain(combined).chain(self.sets.iter().map(|s| s.node))
    }

    pub(crate) fn map_roots(&mut self, place: impl Fn(NodeId) -> NodeId) {
        self.stores.iter_mut().for_each(|s| s.node = place(s.node));
        self.folds.iter_mut().for_each(|f| f.node = place(f.node));
        self.scans.iter_mut().for_each(|s| s.node = place(s.node));
        self.combined.iter_mut().for_each(|c| c.nodes = c.nodes.map(&place));
        self.sets.iter_mut().for_each(|s| s.node = place(s.node));
    }

    /// The arguments of a node.
    #[inline]
    pub fn args(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let (few, many, n) = match self.nodes[id.index()] {
            Node::Element { op, args, .. } => (args, None, op.row().arity),
            Node::Cast { arg, .. } | Node::Bitcast { arg, .. } | Node::Round { arg } => ([arg; 3], None, 1),
            Node::Gather { offset, inside, .. } => ([offset, inside, inside], None, 2),
            Node::Loop { of, args } => ([args[0]; 3], Some(args), of.region().args.len()),
            Node::Looped { of, .. } => ([of; 3], None, 1),
            _ => ([NodeId(0); 3], None, 0),
        };
        (0..n).map(move |i| many.map_or_else(|| few[i], |all| all[i]))
    }

    /// Of each access, whether an element is loaded through it.
    pub fn loaded(&self) -> Vec<bool> {
        let mut loaded = vec![false; self.accesses.len()];
        for node in &self.nodes {
            if let Node::Load { access } | Node::Gather { access, .. } = *node {
                loaded[access as usize] = true;
            }
        }
        loaded
    }

    /// The dtype that an elementwise node computes in: of its last argument, which for [`ElementOp::Where`] is a value
    /// and not the condition.
    #[inline]
    pub fn operand_dtype(&self, id: NodeId) -> DType {
        self.args(id).last().map_or_else(|| self.dtype(id), |a| self.dtype(a))
    }

    /// Whether a point has loops whose ends depend on data. Their arithmetic is rounded as [`thalweg_ir::Region`] says, in
    /// every mode: a device that contracts a whole source or nothing contracts nothing there.
    pub fn has_loops(&self) -> bool {
        self.nodes.iter().any(|n| matches!(n, Node::Loop { .. }))
    }

    /// Arithmetic of one point, in additions.
    pub fn cost(&self) -> u64 {
        self.nodes
            .iter()
            .map(|n| match n {
                Node::Element { op, .. } => op.row().cost as u64,
                Node::Cast { .. } | Node::Bitcast { .. } => 1,
                Node::Loop { of, .. } => of.cost() as u64,
                _ => 0,
            })
            .sum::<u64>()
            + self.folds.len() as u64
            + self.combined.iter().map(|c| c.cost()).sum::<u64>()
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
            Node::Cast { arg, .. } | Node::Bitcast { arg, .. } | Node::Round { arg } => *arg = place(*arg),
            Node::Gather { offset, inside, .. } => (*offset, *inside) = (place(*offset), place(*inside)),
            Node::Loop { args, .. } => *args = args.map(place),
            Node::Looped { of, .. } => *of = place(*of),
            _ => {}
        }
        self
    }
}
