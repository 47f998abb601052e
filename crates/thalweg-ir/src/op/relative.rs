//! Operations in relative form: arguments by their position in the segment.

use super::{IntArgs, Op};
use crate::DType;
use crate::region::MAX_ARGS;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Argument of an operation in relative form, encoded in 32 bits; [`RelArg::decode`] returns it as an [`Arg`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelArg(u32);

/// Decoded [`RelArg`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// No argument.
    None,
    /// Result of an operation of the segment, by index.
    Op(usize),
    /// Input of the segment, by index.
    Input(usize),
    /// Next scalar, in the order of recording.
    Scalar,
}

/// Structural properties of an input of a segment, which are part of the pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputKind {
    /// Dtype of the input.
    pub dtype: DType,
    /// Rank of the input.
    pub rank: usize,
    /// Whether the input is dense and row-major.
    pub contiguous: bool,
}

const TAG: u32 = 30;
const INPUT: u32 = 1 << TAG;
const SCALAR: u32 = 2 << TAG;

impl RelArg {
    /// Encoding of an absent argument.
    pub const NONE: RelArg = RelArg(u32::MAX);
    /// Encoding of the next scalar, in the order of recording.
    pub const SCALAR: RelArg = RelArg(SCALAR);
    /// Maximum number of inputs of a segment.
    pub const MAX_INPUTS: usize = 1 << 21;

    /// Encodes the result of operation `n` of the segment.
    #[inline]
    pub fn op(n: usize) -> RelArg {
        debug_assert!(n < 1 << TAG);
        RelArg(n as u32)
    }

    /// Encodes input `n` of the segment, with its structural properties.
    #[inline]
    pub fn input(n: usize, kind: InputKind) -> RelArg {
        debug_assert!(n < RelArg::MAX_INPUTS);
        let kind = (kind.dtype as u32) << 5 | (kind.rank as u32) << 1 | kind.contiguous as u32;
        RelArg(INPUT | kind << 21 | n as u32)
    }

    /// Decodes the argument.
    #[inline]
    pub fn decode(self) -> Arg {
        match self.0 >> TAG {
            0 => Arg::Op(self.0 as usize),
            1 => Arg::Input((self.0 & ((1 << 21) - 1)) as usize),
            2 => Arg::Scalar,
            _ => Arg::None,
        }
    }
}

impl fmt::Debug for RelArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Arg::None => f.write_str("-"),
            Arg::Op(n) => write!(f, "%{n}"),
            Arg::Input(n) => write!(f, "in{n}"),
            Arg::Scalar => f.write_str("scalar"),
        }
    }
}

/// Operation in relative form. Comparing two tells whether a recorded operation matches an earlier recording.
#[derive(Clone, Copy, Eq, Debug)]
pub struct RelOp {
    /// The operation.
    pub op: Op,
    /// Dtype of the result.
    pub dtype: DType,
    /// Rank of the result.
    pub rank: u8,
    /// Structural attributes (axes, masks), packed as each variant of [`Op`] says.
    pub attr: u32,
    /// Arguments; unused ones are [`RelArg::NONE`].
    pub args: [RelArg; MAX_ARGS],
}

/// Maximum number of arguments of an operation that is not interned.
const MAX_INLINE_ARGS: usize = 3;

impl PartialEq for RelOp {
    /// Compares attributes and the first three arguments in one test first, since a stream runs this comparison for
    /// every recorded operation.
    #[inline]
    fn eq(&self, other: &RelOp) -> bool {
        let ([a, b, c, rest @ ..], [x, y, z, others @ ..]) = (&self.args, &other.args);
        let differ = self.attr ^ other.attr | a.0 ^ x.0 | b.0 ^ y.0 | c.0 ^ z.0;
        let same = differ == 0 && self.op == other.op && (self.dtype, self.rank) == (other.dtype, other.rank);
        same && (!self.op.takes_many() || rest == others)
    }
}

impl Hash for RelOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let args = if self.op.takes_many() { &self.args[..] } else { &self.args[..MAX_INLINE_ARGS] };
        (self.op, self.dtype, self.rank, self.attr, args).hash(state);
    }
}

impl RelOp {
    /// Packs arguments into an array of fixed length, padded with [`RelArg::NONE`].
    pub fn pack(args: &[RelArg]) -> [RelArg; MAX_ARGS] {
        let mut all = [RelArg::NONE; MAX_ARGS];
        all[..args.len()].copy_from_slice(args);
        all
    }

    /// Iterates over the arguments that are present.
    pub fn args(&self) -> impl Iterator<Item = Arg> + '_ {
        self.args.iter().map(|a| a.decode()).take_while(|a| *a != Arg::None)
    }

    /// Number of integers (sizes and the like) that are recorded beside the operation.
    pub fn int_count(&self) -> usize {
        let rank = self.rank as usize;
        match (self.op.info().ints, self.op) {
            (IntArgs::Count(n), _) => n,
            (IntArgs::PerAxis(n), _) => n * rank,
            (IntArgs::Foreign, Op::Foreign(f)) => f.source().int_count(),
            (IntArgs::Foreign, _) => unreachable!("only foreign operations have such integers"),
        }
    }
}

/// Packs the dimension order of a permutation into [`RelOp::attr`], 3 bits per dimension.
pub fn pack_order(order: &[usize]) -> u32 {
    order.iter().enumerate().fold(0, |bits, (i, &o)| bits | (o as u32) << (3 * i))
}

/// Unpacks the dimension order of a permutation: inverse of [`pack_order`].
pub fn unpack_order(attr: u32, rank: usize) -> Vec<usize> {
    (0..rank).map(|i| (attr >> (3 * i) & 7) as usize).collect()
}
