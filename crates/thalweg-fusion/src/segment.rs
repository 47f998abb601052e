//! Segments: a stretch of a stream, cut off to be planned and run.

use std::cell::OnceCell;
use thalweg_ir::{Arg, DType, InputKind, Op, RelArg, RelOp, Shape, View};
use thalweg_kernel::{Contracts, Precision};

/// How a segment is planned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Operations share kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Fused and unfused agree to the bit: no contraction, narrow floats rounded after each operation.
    pub strict: bool,
    /// Matrix products of f32 may round their factors to TF32, where the device gains by it; not in strict mode.
    pub tf32: bool,
    /// What the device makes one kernel of around matrix products.
    pub contracts: Contracts,
}

impl Mode {
    /// How exactly a matrix product of that dtype is computed.
    pub fn precision(self, dtype: DType) -> Precision {
        match dtype {
            _ if self.strict => Precision::Ordered,
            DType::F32 if self.tf32 => Precision::Tf32,
            _ => Precision::Full,
        }
    }
}

impl Mode {
    /// Whether a kernel's code takes a compiler that does not end soon where there is much of it: a GPU's.
    pub fn compiles_long(self) -> bool {
        self.contracts == Contracts::Tiles
    }

    /// Whether the device brings the elements that a row kernel writes to where they belong, if that is no stretch of
    /// memory: CPUs do, whose runs are calls.
    pub fn parts_rows(self) -> bool {
        self.contracts == Contracts::Rows
    }

    /// Whether a device without rows around products computes a product of another one's weights in one kernel.
    pub fn streams(self, dtype: DType) -> bool {
        match dtype {
            DType::BF16 | DType::F16 => !self.strict,
            _ => self.precision(dtype) == Precision::Tf32,
        }
    }
}

/// A set of small numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BitSet(Vec<u64>);

impl BitSet {
    /// The empty set, with room for numbers below `n`.
    pub fn new(n: usize) -> BitSet {
        BitSet(vec![0; n.div_ceil(64)])
    }

    /// Makes this the empty set with room for numbers below `n`, keeping its memory.
    pub fn reset(&mut self, n: usize) {
        self.0.clear();
        self.0.resize(n.div_ceil(64), 0);
    }

    /// Puts a number in.
    #[inline]
    pub fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Whether a number is in.
    #[inline]
    pub fn has(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }

    /// Takes a number out.
    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    /// How many numbers are in.
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Puts everything of another set of the same room in.
    pub fn union(&mut self, other: &BitSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    /// Whether the sets share a number.
    pub fn meets(&self, other: &BitSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// The numbers in it that lie in a range, ascending.
    pub fn within(&self, range: &std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.clone().filter(|&i| self.has(i))
    }

    /// The numbers in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(w, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let i = left.trailing_zeros() as usize;
                    left &= left - 1;
                    w * 64 + i
                })
            })
        })
    }
}

/// A stretch of recorded operations with everything that is known when it is cut.
///
/// `ops` with `live` is the *pattern*: what decides the plan. The rest are its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The operations in the order of recording; an argument always precedes its use.
    pub ops: &'a [RelOp],
    /// The results that somebody can still ask for.
    pub live: &'a BitSet,
    /// How to plan.
    pub mode: Mode,
    /// The shape of each result.
    pub shapes: &'a [Shape],
    /// Integer arguments of all operations, in order.
    pub ints: &'a [i64],
    /// Scalar arguments of all operations, in order, in the form of [`thalweg_ir::Scalar::to_bits`].
    pub scalars: &'a [u64],
    /// Where each input lies.
    pub inputs: &'a [(DType, View)],
}

/// A segment that owns what it holds: for planning in another thread.
#[derive(Clone, Debug)]
pub struct OwnedSegment {
    /// See [`Segment::ops`].
    pub ops: Vec<RelOp>,
    /// See [`Segment::live`].
    pub live: BitSet,
    /// See [`Segment::mode`].
    pub mode: Mode,
    /// See [`Segment::shapes`].
    pub shapes: Vec<Shape>,
    /// See [`Segment::ints`].
    pub ints: Vec<i64>,
    /// See [`Segment::scalars`].
    pub scalars: Vec<u64>,
    /// See [`Segment::inputs`].
    pub inputs: Vec<(DType, View)>,
}

impl OwnedSegment {
    /// The segment.
    pub fn as_segment(&self) -> Segment<'_> {
        Segment {
            ops: &self.ops,
            live: &self.live,
            mode: self.mode,
            shapes: &self.shapes,
            ints: &self.ints,
            scalars: &self.scalars,
            inputs: &self.inputs,
        }
    }
}

impl OwnedSegment {
    /// Says in the operations how inputs lie, after those were set.
    pub fn relink(&mut self) {
        for arg in self.ops.iter_mut().flat_map(|o| &mut o.args) {
            if let Arg::Input(n) = arg.decode() {
                let (dtype, view) = self.inputs[n];
                let kind = InputKind { dtype, rank: view.shape.rank(), contiguous: view.is_contiguous() };
                *arg = RelArg::input(n, kind);
            }
        }
    }
}

impl Segment<'_> {
    /// A copy that owns what it holds.
    pub fn to_owned(&self) -> OwnedSegment {
        OwnedSegment {
            ops: self.ops.to_vec(),
            live: self.live.clone(),
            mode: self.mode,
            shapes: self.shapes.to_vec(),
            ints: self.ints.to_vec(),
            scalars: self.scalars.to_vec(),
            inputs: self.inputs.to_vec(),
        }
    }
}

/// A segment's operations with their arguments found: what planning and instantiating read.
pub(crate) struct Indexed<'a> {
    pub seg: Segment<'a>,
    int_at: Vec<u32>,
    scalar_at: Vec<u32>,
    unrolled: BitSet,
    exact: OnceCell<BitSet>,
}

/// The most elements that a reduction of windows takes one by one.
const MOST_UNROLLED: usize = 16;

impl<'a> Indexed<'a> {
    pub fn new(seg: Segment<'a>) -> Indexed<'a> {
        let (mut int_at, mut scalar_at) = (vec![0u32], vec![0u32]);
        for op in seg.ops {
            let scalars = op.args().filter(|a| *a == Arg::Scalar).count();
            int_at.push(int_at.last().unwrap() + op.int_count() as u32);
            scalar_at.push(scalar_at.last().unwrap() + scalars as u32);
        }
        let mut ix = Indexed { seg, int_at, scalar_at, unrolled: BitSet::default(), exact: OnceCell::new() };
        ix.find_unrolled();
        ix
    }

    /// Finds the reductions of [`Indexed::is_unrolled`]: over axes that stand side by side, of few elements, of what is
    /// computed element by element from a window. Windows share elements, so that loads of them one by one come from
    /// the nearest cache, where rows would be gathered together.
    fn find_unrolled(&mut self) {
        let ops = self.seg.ops;
        if !self.seg.mode.fused || !ops.iter().any(|o| o.op == Op::Window) {
            return;
        }
        // What shows elements of a window, each at a place of its own.
        let mut windowed = BitSet::new(ops.len());
        self.unrolled = BitSet::new(ops.len());
        for (i, rel) in ops.iter().enumerate() {
            let of_windows = || self.tensors(i).any(|(_, v)| matches!(v, ValueId::Op(o) if windowed.has(o)));
            match rel.op {
                Op::Window => windowed.insert(i),
                Op::Element(_) | Op::Cast | Op::Bitcast | Op::Permute | Op::Slice | Op::Expand if of_windows() => {
                    windowed.insert(i)
                }
                Op::Reduce(op) if op.plain().is_some() && of_windows() && self.has_few(i) => self.unrolled.insert(i),
                _ => {}
            }
        }
    }

    /// Whether a reduction takes few elements, of axes that stand side by side.
    fn has_few(&self, reduction: usize) -> bool {
        let axes = self.seg.ops[reduction].attr & 0xFF;
        let Some((_, operand)) = self.tensors(reduction).next() else { return false };
        let shape = self.shape(operand);
        let few: usize = (0..shape.rank()).filter(|a| axes >> a & 1 == 1).map(|a| shape[a]).product();
        let from_first = axes.checked_shr(axes.trailing_zeros()).unwrap_or(0);
        let side_by_side = axes != 0 && from_first & (from_first + 1) == 0;
        side_by_side && (1..=MOST_UNROLLED).contains(&few) && shape.numel() > 0
    }

    /// Whether operation `i` is a reduction that is written as what it does with each of its few elements, like an
    /// elementwise operation of as many arguments: it needs no rows.
    pub fn is_unrolled(&self, i: usize) -> bool {
        self.unrolled.has(i)
    }

    /// The exact operations, found once.
    pub fn exact_by(&self, find: fn(&Indexed<'_>) -> BitSet) -> &BitSet {
        self.exact.get_or_init(|| find(self))
    }

    /// Whether operation `i` needs whole rows of its operand.
    pub fn takes_rows(&self, i: usize) -> bool {
        let op = self.seg.ops[i].op;
        (op.is_fold() || matches!(op, Op::Scan(_) | Op::ScanBy(_))) && !self.is_unrolled(i)
    }

    /// The integer arguments of operation `i`.
    pub fn ints(&self, i: usize) -> &'a [i64] {
        &self.seg.ints[self.int_at[i] as usize..self.int_at[i + 1] as usize]
    }

    /// Number of the segment's scalar that argument `arg` of operation `i` is.
    pub fn scalar(&self, i: usize, arg: usize) -> usize {
        let before = self.seg.ops[i].args().take(arg).filter(|a| *a == Arg::Scalar).count();
        self.scalar_at[i] as usize + before
    }

    /// Whether two operations are results of one call of an operation in another language: of the same operands, sizes and
    /// numbers.
    pub fn is_same_call(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.seg.ops[a], &self.seg.ops[b]);
        let numbers = |i: usize| {
            let count = self.seg.ops[i].args().filter(|a| *a == Arg::Scalar).count();
            &self.seg.scalars[self.first_scalar(i)..][..count]
        };
        matches!(x.op, Op::Foreign(_))
            && (x.op, x.args) == (y.op, y.args)
            && x.attr != y.attr
            && self.ints(a) == self.ints(b)
            && numbers(a) == numbers(b)
    }

    /// Number of the segment's scalar that the first scalar argument of operation `i` is.
    pub fn first_scalar(&self, i: usize) -> usize {
        self.scalar_at[i] as usize
    }

    pub fn shape(&self, v: ValueId) -> Shape {
        match v {
            ValueId::Op(i) => self.seg.shapes[i],
            ValueId::Input(i) => self.seg.inputs[i].1.shape,
        }
    }

    pub fn dtype(&self, v: ValueId) -> DType {
        match v {
            ValueId::Op(i) => self.seg.ops[i].dtype,
            ValueId::Input(i) => self.seg.inputs[i].0,
        }
    }

    pub fn bytes(&self, v: ValueId) -> usize {
        self.shape(v).numel() * self.dtype(v).size()
    }

    /// The tensor arguments of operation `i`, with their argument numbers.
    pub fn tensors(&self, i: usize) -> impl Iterator<Item = (usize, ValueId)> + '_ {
        self.seg.ops[i].args().enumerate().filter_map(|(n, a)| match a {
            Arg::Op(o) => Some((n, ValueId::Op(o))),
            Arg::Input(o) => Some((n, ValueId::Input(o))),
            Arg::Scalar | Arg::None => None,
        })
    }

    /// The dtype that an elementwise operation computes in.
    pub fn operand_dtype(&self, i: usize) -> DType {
        let rel = &self.seg.ops[i];
        let condition = rel.op == Op::Element(thalweg_ir::ElementOp::Where);
        let tensor = self.tensors(i).find(|(n, _)| !(condition && *n == 0)).map(|(_, v)| self.dtype(v));
        tensor.unwrap_or(rel.dtype)
    }
}

/// A tensor that a segment knows: an input, or an operation's result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ValueId {
    /// An input, by number.
    Input(usize),
    /// The result of an operation, by number.
    Op(usize),
}
