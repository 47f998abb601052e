//! Output of the writer: launches with sizes, whose operands are slots of an instance.
//!
//! Plain data. Always true of a [`Step`]: operands below `first_write` are only read, the others are written.

use std::sync::Arc;
use thalweg_kernel::{Geometry, Kernel};

/// Launch of an instance: a kernel with its sizes, operands and scalars.
#[derive(Debug)]
pub struct Step {
    /// Index of the kernel in the plan.
    pub kernel_index: usize,
    /// Kernel to launch.
    pub kernel: Arc<Kernel>,
    /// Geometry: sizes, strides and offsets.
    pub geometry: Arc<Geometry>,
    /// Operands, first those that are only read; those from `first_write` on are written.
    pub operands: Vec<Slot>,
    /// Number of operands that are only read.
    pub first_write: usize,
    /// Scalar arguments of the kernel.
    pub scalars: Vec<ScalarArg>,
    /// Pairs `(written, read)` of operand indices: the written operand may reuse the memory of the read one, if that
    /// dies here. Ordered by the written one.
    pub in_place: Vec<(usize, usize)>,
    /// Error message for an index out of range, if the launch gathers.
    pub out_of_range: Option<String>,
    /// Bytes of distinct elements read, for each read-only operand.
    pub touched: Vec<usize>,
    /// Total bytes of distinct elements read.
    pub bytes_read: usize,
    /// Total bytes written.
    pub bytes_written: usize,
    /// Form of an elementwise kernel, by which a launch for other sizes finds out whether it can share the body.
    pub form: Option<Form>,
}

/// Memory slot of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// An input of the segment.
    Input(usize),
    /// A buffer of [`Instance::buffers`](crate::Instance::buffers).
    Buffer(usize),
}

/// Scalar argument of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScalarArg {
    /// Scalar of the segment.
    Segment {
        /// Index of the scalar in the segment.
        index: u32,
        /// Bits of the scalar that are passed.
        part: BitRange,
    },
    /// Integer that follows from the sizes, as i64.
    Size(i64),
}

/// Range of a scalar's 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BitRange {
    /// All 64 bits.
    Whole,
    /// Low 32 bits.
    Low,
    /// High 32 bits.
    High,
}

impl ScalarArg {
    /// Bits that are passed to the kernel, given the segment's scalars.
    #[inline]
    pub fn bits(self, scalars: &[u64]) -> u64 {
        let (bits, part) = match self {
            ScalarArg::Segment { index, part } => (scalars[index as usize], part),
            ScalarArg::Size(value) => return value as u64,
        };
        match part {
            BitRange::Whole => bits,
            BitRange::Low => bits & 0xFFFF_FFFF,
            BitRange::High => bits >> 32,
        }
    }
}

/// Key of an elementwise kernel's body: for each value its rank and broadcast axes; for the domain its axes of size 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Form(pub(crate) Vec<u16>);
