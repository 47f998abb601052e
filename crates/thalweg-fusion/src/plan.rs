//! Plans: which operations of a segment share a kernel.
//!
//! A plan refers to operations by number and contains no sizes; [`crate::Instance`] adds concrete sizes.

use crate::rewrite::Rewrite;
use crate::segment::ValueId;
use std::fmt;

/// Partition of a pattern into kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Kernels, each after those it reads from.
    pub kernels: Vec<KernelPlan>,
    /// Kind of each live-out, in order of the operations.
    pub outputs: Vec<(usize, OutputPlan)>,
    /// Rewrite applied to a segment first; operation numbers refer to the rewritten segment.
    pub(crate) rewrite: Rewrite,
}

/// Kernel of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelPlan {
    /// Elementwise or row kernel: results for each point of a domain, and for each row of it.
    Map {
        /// Value whose shape is the domain.
        domain: ValueId,
        /// Reduction or scan that defines the rows, if any; `domain` is its operand.
        rows: Option<usize>,
        /// Operations whose results are written point by point. These lists are in the planner's canonical order: code
        /// is generated starting from the stores, and must not depend on the order of recording.
        stores: Vec<usize>,
        /// Operations whose results are written row by row.
        row_stores: Vec<usize>,
        /// Reductions over all rows (outer axes), combined from all rows in the same pass.
        column_stores: Vec<usize>,
        /// All operations that the kernel computes, ascending.
        ops: Vec<usize>,
    },
    /// Matrix product (GEMM) with an optional prologue for each operand and an optional epilogue.
    Contraction {
        /// The product, its producer GEMM, and the rows of prologue and epilogue.
        products: Products,
        /// Operations whose results are written, one element per accumulator, in the planner's canonical order; the
        /// product may be among them.
        stores: Vec<usize>,
        /// Operations whose results are written row by row of the accumulators.
        row_stores: Vec<usize>,
        /// All operations that the kernel computes, ascending.
        ops: Vec<usize>,
    },
    /// Scatter, foreign operation, or matrix product on a device without contractions; operands are read through views.
    /// A scatter computes its index and values if they are not in memory.
    Opaque {
        /// Operations whose results are written, ascending: one, or several results of one call of a foreign operation.
        stores: Vec<usize>,
        /// Values that the kernel's operands are views of.
        operands: Vec<ValueId>,
        /// All operations that the kernel computes, ascending.
        ops: Vec<usize>,
    },
    /// Independent kernels in one launch (horizontal fusion).
    Group {
        /// At least two [`KernelPlan::Map`]s over any domains, or [`KernelPlan::Contraction`]s with one left operand
        /// and one shape.
        parts: Vec<KernelPlan>,
    },
}

/// Products of a contraction, and the rows that its prologue and epilogue fold along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Products {
    /// Index of the product.
    pub product: usize,
    /// Producer GEMM that the left operand is computed from, and the last operation of the elementwise chain after its
    /// accumulators (itself if there is none). The rest of the prologue starts from that operation's result.
    pub inner: Option<(usize, usize)>,
    /// Reduction or scan along the rows of the left operand, if its prologue has one.
    pub left_rows: Option<usize>,
    /// Reduction or scan along the rows of the accumulators, if the epilogue has one.
    pub rows: Option<usize>,
}

/// Kind of a live-out: written or a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputPlan {
    /// Written by a kernel.
    Stored,
    /// A view of an input or of a stored value; nothing is copied.
    Alias,
}

/// Value that one kernel passes to another through memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Index of the operation whose result it is.
    pub op: usize,
    /// Index of the kernel that writes it.
    pub from: usize,
    /// Index of the kernel that reads it.
    pub to: usize,
    /// Reason why the reading kernel does not recompute it.
    pub reason: Reason,
}

/// Reason why two operations do not share a kernel. It is found on request, by `partition/why.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Fusion is off.
    FusionOff,
    /// The consumer is the operation of this name and reads the value from memory: an opaque kernel's operation, or a
    /// gather whose source is the value.
    OperandOf(&'static str),
    /// The producer is an opaque kernel, with the operation of this name.
    ResultOf(&'static str),
    /// The consumer reads other elements of the value than the one it computes, and recomputing them would cost more.
    OtherElements,
    /// Several kernels need the value, and recomputing it in each would cost more.
    Shared,
    /// A shared kernel would take this many nanoseconds longer, by the cost model.
    Slower(u64),
    /// The value is live, so it is written anyway, and reading it costs less than recomputing it.
    Wanted,
    /// An operation between the two has to run first.
    Between,
    /// The producer is a reduction, the operation of this name, over other rows than those of the consumer's kernel. It
    /// must be complete first.
    OtherRows(&'static str),
    /// The producer is a reduction, the operation of this name, over other axes than its consumer's rows. Another
    /// kernel's pass computes it.
    SharedPass(&'static str),
    /// Each of the two kernels has a matrix product.
    SecondProduct,
    /// The kernel has the maximum number of operations.
    KernelFull,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::FusionOff => f.write_str("fusion is off"),
            Reason::OperandOf(op) => write!(f, "operand of {op}, an opaque kernel"),
            Reason::ResultOf(op) => write!(f, "result of {op}, an opaque kernel"),
            Reason::OtherElements => {
                f.write_str("read at other elements; storing is cheaper than computing them again")
            }
            Reason::Shared => f.write_str("needed by several kernels; storing is cheaper than computing it in each"),
            Reason::Slower(ns) => write!(f, "one kernel for both would take {:.1} µs more", *ns as f64 / 1e3),
            Reason::Wanted => f.write_str("the value is wanted, and reading it is cheaper than computing it again"),
            Reason::Between => f.write_str("an operation between them has to run first"),
            Reason::OtherRows(op) => write!(f, "result of {op} over other rows, which has to be complete"),
            Reason::SharedPass(op) => write!(f, "result of {op}, which is made in one pass with another kernel's"),
            Reason::SecondProduct => f.write_str("both kernels have a matrix product"),
            Reason::KernelFull => f.write_str("the kernel is full"),
        }
    }
}

impl KernelPlan {
    /// Index of the product of a kernel that contains exactly one.
    pub(crate) fn product(&self) -> Option<usize> {
        match self {
            KernelPlan::Contraction { products: Products { product, inner: None, .. }, .. } => Some(*product),
            _ => None,
        }
    }

    /// Member kernels of a group, or the kernel itself.
    pub fn parts(&self) -> &[KernelPlan] {
        match self {
            KernelPlan::Group { parts } => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Operations whose results the kernel writes, member by member. Within a member: point stores, row stores, then
    /// reductions over all rows.
    pub fn writes(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts().iter().flat_map(|part| {
            let [points, rows, columns]: [&[usize]; 3] = match part {
                KernelPlan::Map { stores, row_stores, column_stores, .. } => [stores, row_stores, column_stores],
                KernelPlan::Contraction { stores, row_stores, .. } => [stores, row_stores, &[]],
                KernelPlan::Opaque { stores, .. } => [stores, &[], &[]],
                KernelPlan::Group { .. } => unreachable!("a part has no parts"),
            };
            points.iter().chain(rows).chain(columns).copied()
        })
    }

    /// Operations that the kernel computes, member by member.
    pub fn ops(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts().iter().flat_map(|part| {
            let ops: &[usize] = match part {
                KernelPlan::Map { ops, .. } | KernelPlan::Contraction { ops, .. } | KernelPlan::Opaque { ops, .. } => {
                    ops
                }
                KernelPlan::Group { .. } => unreachable!("a part has no parts"),
            };
            ops.iter().copied()
        })
    }
}

impl Plan {
    /// Whether the segment is rewritten first, so that its operations have other numbers in the kernels.
    pub fn is_rewritten(&self) -> bool {
        !self.rewrite.is_empty()
    }

    /// Number of kernels.
    pub fn kernel_count(&self) -> usize {
        self.kernels.len()
    }
}
