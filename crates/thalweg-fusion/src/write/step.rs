//! What writing gives: launches with sizes, whose operands are slots of an instance.
//!
//! Plain data. Always true of a [`Step`]: operands below `first_write` are only read, the others are written.

use std::sync::Arc;
use thalweg_kernel::{Geometry, Kernel};

/// One launch.
#[derive(Debug)]
pub struct Step {
    /// Number of the kernel in the plan.
    pub kernel_index: usize,
    /// What is computed.
    pub kernel: Arc<Kernel>,
    /// How large.
    pub geometry: Arc<Geometry>,
    /// The kernel's operands; those from `first_write` on are written.
    pub operands: Vec<Slot>,
    /// Number of operands that are only read.
    pub first_write: usize,
    /// The kernel's scalars.
    pub scalars: Vec<ScalarArg>,
    /// For a written operand, a read one whose place it may take where that dies here: `(written, read)`, ordered by
    /// what is written.
    pub in_place: Vec<(usize, usize)>,
    /// What to say if an index turns out to be out of range, where the launch gathers.
    pub out_of_range: Option<String>,
    /// Bytes of distinct elements read of each operand that is only read.
    pub touched: Vec<usize>,
    /// Bytes of distinct elements read.
    pub bytes_read: usize,
    /// Bytes written.
    pub bytes_written: usize,
    /// What the body of an elementwise kernel follows from, apart from the pattern.
    pub form: Option<Form>,
}

/// Where an operand lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// An input of the segment.
    Input(usize),
    /// A buffer of [`Instance::buffers`](crate::Instance::buffers).
    Buffer(usize),
}

/// A kernel's scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScalarArg {
    /// One of the segment's.
    Segment {
        /// Its number.
        index: u32,
        /// Which part.
        part: Part,
    },
    /// A number that follows from the sizes (i64).
    Size(i64),
}

/// A part of a scalar's 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// All.
    Whole,
    /// The low 32.
    Low,
    /// The high 32.
    High,
}

impl ScalarArg {
    /// The bits, out of the segment's scalars.
    #[inline]
    pub fn bits(self, scalars: &[u64]) -> u64 {
        let (bits, part) = match self {
            ScalarArg::Segment { index, part } => (scalars[index as usize], part),
            ScalarArg::Size(value) => return value as u64,
        };
        match part {
            Part::Whole => bits,
            Part::Low => bits & 0xFFFF_FFFF,
            Part::High => bits >> 32,
        }
    }
}

/// Of each value of an elementwise kernel, its rank and the axes along which it is broadcast; of the domain, those of
/// size 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Form(pub(crate) Vec<u16>);
