//! Plans: which operations of a segment share a kernel.
//!
//! A plan names operations by number and nothing by size; [`crate::Instance`] works it out for concrete sizes.

use crate::rewrite::Rewrite;
use crate::segment::ValueId;
use std::fmt;

/// The partition of a pattern into kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The kernels, each after those it reads from.
    pub kernels: Vec<KernelPlan>,
    /// How each live-out is had, in order of the operations.
    pub outputs: Vec<(usize, OutputPlan)>,
    /// What is changed of a segment first: operations are numbered as they are then.
    pub(crate) rewrite: Rewrite,
}

/// One kernel of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelPlan {
    /// Results for each point of a domain, and for each row of it.
    Map {
        /// The value whose shape is the domain.
        domain: ValueId,
        /// The reduction or scan that makes rows of the domain, if there is one: its operand is `domain`.
        rows: Option<usize>,
        /// The operations whose results are written point by point, in the planner's canonical order, as those below:
        /// code is written from what is stored on, and must not depend on what was recorded first.
        stores: Vec<usize>,
        /// The operations whose results are written row by row.
        row_stores: Vec<usize>,
        /// Reductions over everything but the rows: their results are put together from all rows in the same pass.
        column_stores: Vec<usize>,
        /// Every operation computed in it, ascending.
        ops: Vec<usize>,
    },
    /// A matrix product with what is computed of its factors, where these are not in memory, and of its sums.
    Contraction {
        /// What is multiplied.
        products: Products,
        /// The operations whose results are written, one element a sum each, in the planner's canonical order; the
        /// product may be among them.
        stores: Vec<usize>,
        /// The operations whose results are written row by row of the sums.
        row_stores: Vec<usize>,
        /// Every operation computed in it, ascending.
        ops: Vec<usize>,
    },
    /// A scatter, an operation in another language, or a matrix product on a device without contractions, its operands read
    /// through views. A scatter computes index and values where they are not in memory.
    Opaque {
        /// The operations whose results are written, ascending: one, but for several results of one call of an operation
        /// in another language.
        stores: Vec<usize>,
        /// What its operands are views of.
        operands: Vec<ValueId>,
        /// Every operation computed in it, ascending.
        ops: Vec<usize>,
    },
    /// Kernels that need nothing of each other, in one launch.
    Group {
        /// [`KernelPlan::Map`]s, at least two, over any domains; or [`KernelPlan::Contraction`]s of one left factor and one
        /// shape.
        parts: Vec<KernelPlan>,
    },
}

/// The products of a contraction, and the rows that its factors and its sums are folded along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Products {
    /// The product.
    pub product: usize,
    /// The product that its left factor is computed from, over the same points, and the operation that ends the chain
    /// of what is made of its sums alone, point by point: the rest of the factor is computed from that.
    pub inner: Option<(usize, usize)>,
    /// A reduction or scan along the rows of the left factor, if that is computed with such.
    pub left_rows: Option<usize>,
    /// A reduction or scan along the rows of the sums, if what follows has such.
    pub rows: Option<usize>,
}

/// How a live-out is had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputPlan {
    /// Written by a kernel.
    Stored,
    /// A view of an input or of a stored value; nothing is copied.
    Alias,
}

/// A value that goes from one kernel to another through memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The operation whose result it is.
    pub op: usize,
    /// The kernel that writes it.
    pub from: usize,
    /// The kernel that reads it.
    pub to: usize,
    /// Why it is not computed where it is read.
    pub reason: Reason,
}

/// Why two operations do not share a kernel. Found out when somebody asks: `partition/why.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Fusion is off.
    FusionOff,
    /// The consumer runs by itself.
    OperandOf(&'static str),
    /// The producer runs by itself.
    ResultOf(&'static str),
    /// The consumer reads other elements than the one it is computing, and computing them again would cost more.
    OtherElements,
    /// Several kernels need the value, and computing it in each would cost more.
    Shared,
    /// One kernel for both would take that many nanoseconds more, by the cost model.
    Slower(u64),
    /// The value is wanted, so it is written anyway, and reading it costs less than computing it again.
    Wanted,
    /// Something between the two has to run first.
    Between,
    /// A reduction whose rows are not those of the consumer's kernel: all of it has to be known first.
    OtherRows(&'static str),
    /// A reduction over other axes than its consumer's rows, made in the pass of another kernel.
    SharedPass(&'static str),
    /// Each of the two kernels has a matrix product of its own.
    SecondProduct,
    /// The kernel holds as many operations as a kernel may.
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
    /// The product of a kernel that has one alone.
    pub(crate) fn product(&self) -> Option<usize> {
        match self {
            KernelPlan::Contraction { products: Products { product, inner: None, .. }, .. } => Some(*product),
            _ => None,
        }
    }

    /// The kernels that it is made of: itself, or its parts.
    pub fn parts(&self) -> &[KernelPlan] {
        match self {
            KernelPlan::Group { parts } => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// The operations whose results it writes: part after part, and of each point by point, row by row, then over all
    /// rows.
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

    /// Every operation computed in it, part after part.
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
    /// Whether something of a segment is changed first, so that operations have other numbers in the kernels than there.
    pub fn is_rewritten(&self) -> bool {
        !self.rewrite.is_empty()
    }

    /// Number of kernels.
    pub fn kernel_count(&self) -> usize {
        self.kernels.len()
    }
}
