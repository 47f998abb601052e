//! Plans: which operations of a segment share a kernel.
//!
//! A plan names operations by number and nothing by size; [`crate::Instance`] works it out for concrete sizes.

use std::fmt;

/// The partition of a pattern into kernels.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kernels, each after those it reads from.
    pub kernels: Vec<KernelPlan>,
    /// How each live-out is had, in order of the operations.
    pub outputs: Vec<(usize, OutputPlan)>,
    /// Every value that one kernel hands to another through memory, with the reason.
    pub edges: Vec<Edge>,
    /// Operations whose shapes are equal without one following from the other.
    pub(crate) same_shape: Vec<(usize, usize)>,
}

/// One kernel of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelPlan {
    /// One result a point of a domain.
    Map {
        /// The operation whose shape is the domain.
        domain: usize,
        /// The operations whose results are written, ascending.
        stores: Vec<usize>,
        /// Every operation computed in it, ascending.
        ops: Vec<usize>,
    },
    /// A reduction or matrix product by itself, its operands read through views.
    Alone {
        /// The operation.
        op: usize,
    },
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

/// Why two operations do not share a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Fusion is off.
    FusionOff,
    /// The consumer is a reduction or matrix product, which runs by itself.
    OperandOf(&'static str),
    /// The producer is a reduction or matrix product, which runs by itself.
    ResultOf(&'static str),
    /// The consumer reads other elements than the one it is computing, and computing them again would cost more.
    OtherElements,
    /// Several kernels need the value, and computing it in each would cost more.
    Shared,
    /// The value is wanted, so it is written anyway, and reading it costs less than computing it again.
    Wanted,
    /// Something between the two has to run first.
    Between,
    /// The kernel holds as many operations as a kernel may.
    KernelFull,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::FusionOff => f.write_str("fusion is off"),
            Reason::OperandOf(op) => write!(f, "operand of {op}, which runs by itself"),
            Reason::ResultOf(op) => write!(f, "result of {op}, which runs by itself"),
            Reason::OtherElements => {
                f.write_str("read at other elements; storing is cheaper than computing them again")
            }
            Reason::Shared => f.write_str("needed by several kernels; storing is cheaper than computing it in each"),
            Reason::Wanted => f.write_str("the value is wanted, and reading it is cheaper than computing it again"),
            Reason::Between => f.write_str("an operation between them has to run first"),
            Reason::KernelFull => f.write_str("the kernel is full"),
        }
    }
}

impl Plan {
    /// Number of kernels.
    pub fn kernel_count(&self) -> usize {
        self.kernels.len()
    }
}
