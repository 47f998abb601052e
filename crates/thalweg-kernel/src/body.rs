//! Kernel bodies: the computation for each point of a kernel's domain, as a graph of typed nodes.
//!
//! A [`Body`] is in topological order and holds no node twice (the [`crate::BodyBuilder`] shares equal nodes and
//! applies identities that are exact in floating point). It contains no sizes, strides and addresses: they come with
//! the launch ([`crate::MapGeometry`]), so one compiled body serves every size of its class.
//!
//! A *row body* ([`crate::Kernel::Rows`]) also folds and scans over the rows that its points form. A fold's result is a
//! value of the row: known once the whole row has been read, and usable at every point of the row. [`crate::phases`]
//! orders such a body.

use thalweg_ir::{DType, ElementOp, Loop, MAX_ARGS, Monoid, ScanOp};

/// Index of a node in [`Body::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The index as a `usize`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Class of an access: its movement through the source along the innermost domain dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AccessClass {
    /// Contiguous: neighbours in the domain are neighbours in the source.
    Contiguous,
    /// Stride 0: one element for the whole row.
    Uniform,
    /// Contiguous in reverse, as when a flipped axis is read. Never used for writes.
    Reversed,
    /// With a constant stride, given at launch.
    Strided,
    /// Through an index map. The CPU reads positions from a table that the launch fills, with a negative position for a
    /// masked element; the GPU computes the map in the kernel.
    Mapped,
}

impl AccessClass {
    /// Stride in elements, if the class fixes it.
    pub fn step(self) -> Option<isize> {
        match self {
            AccessClass::Contiguous => Some(1),
            AccessClass::Uniform => Some(0),
            AccessClass::Reversed => Some(-1),
            AccessClass::Strided | AccessClass::Mapped => None,
        }
    }

    /// Class of a read access with that stride.
    pub fn of_step(step: isize) -> AccessClass {
        match step {
            1 => AccessClass::Contiguous,
            0 => AccessClass::Uniform,
            -1 => AccessClass::Reversed,
            _ => AccessClass::Strided,
        }
    }
}

/// Access to a buffer, or to an index space without a buffer ([`Node::Index`], [`Node::Valid`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Index of the launch operand; `None` for index-only accesses.
    pub operand: Option<u16>,
    /// Element dtype; unused (u32) for index-only accesses.
    pub dtype: DType,
    /// Access class along the innermost dimension.
    pub class: AccessClass,
    /// Whether the access, in a row body, is constant over all points of a row.
    pub per_row: bool,
}

impl Access {
    /// Contiguous access to an operand, one element per point.
    pub fn contiguous(operand: u16, dtype: DType) -> Access {
        Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false }
    }
}

/// Value of a body, of the dtype that [`Body::dtype`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// Element at the position of an access; 0 where the access is masked out.
    Load {
        /// Index of the access.
        access: u16,
    },
    /// Position of an access: row-major index in its source, modulo 2³² for u32. Unspecified where masked out.
    Index {
        /// Index of the access.
        access: u16,
        /// u32 or i64.
        dtype: DType,
    },
    /// Whether an access is inside its source (bool).
    Valid {
        /// Index of the access.
        access: u16,
    },
    /// Scalar given at launch, encoded by [`thalweg_ir::Scalar::to_bits`].
    Scalar {
        /// Index of the scalar.
        slot: u16,
        /// Dtype of the scalar.
        dtype: DType,
    },
    /// Constant, encoded by [`thalweg_ir::Scalar::to_bits`].
    Const {
        /// Bits of the constant.
        bits: u64,
        /// Dtype of the constant.
        dtype: DType,
    },
    /// Elementwise operation; `dtype` is that of the result, unused arguments repeat the first.
    Element {
        /// The operation.
        op: ElementOp,
        /// The dtype of the result.
        dtype: DType,
        /// The arguments.
        args: [NodeId; 3],
    },
    /// Reinterpretation of a value's bits as another dtype of the same width. The argument is rounded to its dtype.
    Bitcast {
        /// The dtype of the result.
        dtype: DType,
        /// The argument.
        arg: NodeId,
    },
    /// Conversion. To bf16 and f16 it rounds, in every mode.
    Cast {
        /// The dtype of the result.
        dtype: DType,
        /// The argument.
        arg: NodeId,
    },
    /// Float rounded to its dtype, as memory would hold it. Without this node a bf16 or f16 value may be carried in
    /// f32, and a product may be contracted with a sum. Readers of this node see the same bits in every kernel.
    Round {
        /// Argument, of the same dtype.
        arg: NodeId,
    },
    /// Value of the row: the result of a fold, or (in phases) a [`Set`].
    Value {
        /// Index of the row value.
        slot: u16,
        /// Dtype of the value.
        dtype: DType,
    },
    /// Element of a scan's result at this point.
    Scanned {
        /// Index of the scan in [`Body::scans`].
        scan: u16,
        /// Dtype of the element.
        dtype: DType,
    },
    /// Component of the result of a [`Combined`]: for a fold a value of the row, for a scan an element at this point.
    Combined {
        /// Index of the combine in [`Body::combined`].
        number: u16,
        /// Index of the component.
        component: u16,
        /// Dtype of the component.
        dtype: DType,
    },
    /// Element of an operand at the position of an access plus `offset` elements (i64). If `inside` is false, nothing
    /// is read, the value is 0, and the launch ends in an index error.
    Gather {
        /// Index of the access, which has an operand and is not mapped.
        access: u16,
        /// Elements to add to the position of the access.
        offset: NodeId,
        /// Whether the position is inside the operand.
        inside: NodeId,
    },
    /// Loop with a data-dependent end: each point leaves it separately, when its own condition fails. Its results are
    /// read through [`Node::Looped`]; [`Body::dtype`] is that of the first.
    Loop {
        /// Interned loop.
        of: Loop,
        /// Arguments of the loop's region; unused ones repeat the first.
        args: [NodeId; MAX_ARGS],
    },
    /// Carried value of a loop after its last iteration.
    Looped {
        /// Node of the loop.
        of: NodeId,
        /// Index of the carried value.
        number: u16,
        /// Dtype of the carried value.
        dtype: DType,
    },
}

/// Fold over the row. Its result is [`Node::Value`] with `slot`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fold {
    /// Monoid, of one component. The order of the elements is fixed, see [`crate::order`].
    pub op: Monoid,
    /// Operand: f32, f64 or an integer of 32 or 64 bits, which is also the dtype of the result.
    pub node: NodeId,
    /// Index of the row value that receives the result.
    pub slot: u16,
}

/// Scan along the row: its result is a row of the same length, [`Node::Scanned`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    /// Scan operation.
    pub op: ScanOp,
    /// Whether the scan goes from the last element to the first; for a sort: descending.
    pub reverse: bool,
    /// Operand. The result has the same dtype, except for [`ScanOp::Argsort`], whose result is i64.
    pub node: NodeId,
}

/// Result shape of a user-defined combine over a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Along {
    /// One partial result.
    Fold,
    /// Partial results of all prefixes.
    Scan,
    /// Partial results of all suffixes.
    Reversed,
}

impl Along {
    /// Number of combines per element: 1 for a fold, 2 for a scan.
    pub fn steps(self) -> u64 {
        if self == Along::Fold { 1 } else { crate::order::SCAN_STEPS }
    }

    /// Number of reads and of writes of the combine's buffers, per element. A fold reads all elements, then half of
    /// them, a quarter and so on, and writes half of what it reads. Each step of a scan reads and writes all.
    pub fn moves(self) -> [u64; 2] {
        if self == Along::Fold { [2, 1] } else { [self.steps(); 2] }
    }
}

/// Fold or scan of the row by a user-defined combine, in the order of [`crate::order`]. Its result is
/// [`Node::Combined`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Combined {
    /// User-defined combine ([`Loop::is_combine`]).
    pub of: Loop,
    /// Direction of the combine.
    pub along: Along,
    /// Nodes of an element's components; unused ones repeat the first.
    pub nodes: [NodeId; MAX_ARGS],
}

impl Combined {
    /// Nodes of an element's components, without the unused ones.
    pub fn elements(&self) -> &[NodeId] {
        &self.nodes[..self.of.region().args.len()]
    }

    /// Cost of the combine per point, in additions.
    pub fn cost(&self) -> u64 {
        self.along.steps() * u64::from(self.of.cost())
    }
}

/// Value computed once per row and known to later phases as [`Node::Value`] (only in [`crate::Phase`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Set {
    /// Node of the value: f32, f64 or an integer of 32 or 64 bits.
    pub node: NodeId,
    /// Index of the row value.
    pub slot: u16,
}

/// Store of a value by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// Node of the stored value.
    pub node: NodeId,
    /// Index of the access that it is written through. It is [`AccessClass::Contiguous`], with an operand of the node's
    /// dtype. In a row body it may be [`AccessClass::Strided`], or [`Access::per_row`]: one element per row.
    pub access: u16,
    /// Monoid that combines the value with the existing element (`old op new`); `None` to replace it.
    pub combine: Option<Monoid>,
}

/// Computation of a map kernel for each point of its domain.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Body {
    /// Nodes, each after its arguments.
    pub nodes: Vec<Node>,
    /// Accesses for loads, stores and indices.
    pub accesses: Vec<Access>,
    /// Stores to operands.
    pub stores: Vec<Store>,
    /// Folds over the row, by index.
    pub folds: Vec<Fold>,
    /// Scans along the row, by index.
    pub scans: Vec<Scan>,
    /// Folds and scans by user-defined combines, by index.
    pub combined: Vec<Combined>,
    /// Row values that the body computes; only in a [`crate::Phase`].
    pub sets: Vec<Set>,
    /// Number of scalars that the launch passes.
    pub scalars: u16,
    /// Number of operands that the launch passes.
    pub operands: u16,
    /// Strict mode: results equal those of one kernel per operation bit for bit. No contraction to fused multiply-add,
    /// and every bf16 and f16 result is rounded.
    pub strict: bool,
    /// Whether values computed in two passes along a row must be equal bit for bit. Then nothing is contracted, since
    /// contraction may depend on the rest of a pass.
    pub repeatable: bool,
}

impl Body {
    /// Dtype of a node's value.
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

    /// Roots of the graph: nodes that are stored, folded, scanned or set.
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

    /// Arguments of a node.
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

    /// For each access, whether an element is loaded through it.
    pub fn loaded(&self) -> Vec<bool> {
        let mut loaded = vec![false; self.accesses.len()];
        for node in &self.nodes {
            if let Node::Load { access } | Node::Gather { access, .. } = *node {
                loaded[access as usize] = true;
            }
        }
        loaded
    }

    /// Dtype that an elementwise node computes in: that of its last argument, which for [`ElementOp::Where`] is a value
    /// and not the condition.
    #[inline]
    pub fn operand_dtype(&self, id: NodeId) -> DType {
        self.args(id).last().map_or_else(|| self.dtype(id), |a| self.dtype(a))
    }

    /// Whether the body has loops with data-dependent ends. Their arithmetic is rounded as [`thalweg_ir::Region`]
    /// defines, in every mode. A device whose compiler can only turn contraction on or off for a whole kernel turns it
    /// off there.
    pub fn has_loops(&self) -> bool {
        self.nodes.iter().any(|n| matches!(n, Node::Loop { .. }))
    }

    /// Arithmetic cost of one point, in additions.
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
    /// Index of the access that the node reads through.
    pub fn access(&self) -> Option<u16> {
        match *self {
            Node::Load { access }
            | Node::Index { access, .. }
            | Node::Valid { access }
            | Node::Gather { access, .. } => Some(access),
            _ => None,
        }
    }

    /// Copy of the node in which the access that it reads through, if any, is replaced by `number` of it.
    pub fn with_access(mut self, number: impl Fn(u16) -> u16) -> Node {
        if let Node::Load { access }
        | Node::Index { access, .. }
        | Node::Valid { access }
        | Node::Gather { access, .. } = &mut self
        {
            *access = number(*access);
        }
        self
    }

    /// Copy of the node in which each argument is replaced by `place` of it.
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
