//! Segments: sequences of recorded operations, cut off a stream to be planned and run.

use std::cell::OnceCell;
use thalweg_ir::{Arg, DType, InputKind, Op, OpClass, RelArg, RelOp, Shape, UNROLLED, View};
use thalweg_kernel::{Contracts, Precision, ScatterOrder};

/// Planning mode of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Whether operations are fused into shared kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Whether fused and unfused results must agree bit for bit: no contraction, narrow floats rounded after each
    /// operation.
    pub strict: bool,
    /// Whether matrix products of f32 may round their operands to TF32, where the device gains by it; not in strict
    /// mode.
    pub tf32: bool,
    /// Whether a GPU may add floats by an index in any order, by atomic operations; not in strict mode.
    pub atomic: bool,
    /// Operations that the device can fuse with matrix products.
    pub contracts: Contracts,
}

impl Mode {
    /// Mode that fuses, with the defaults of everything that a program may set.
    pub const fn fused(contracts: Contracts) -> Mode {
        Mode { fused: true, strict: false, tf32: false, atomic: false, contracts }
    }

    /// Precision of a matrix product of that dtype.
    pub fn precision(self, dtype: DType) -> Precision {
        match dtype {
            _ if self.strict => Precision::Ordered,
            DType::F32 if self.tf32 => Precision::Tf32,
            _ => Precision::Full,
        }
    }

    /// Order in which scatters combine the values for one element.
    pub fn scatter_order(self) -> ScatterOrder {
        match () {
            () if self.strict => ScatterOrder::Indices,
            () if self.atomic => ScatterOrder::Any,
            () => ScatterOrder::Fixed,
        }
    }
}

impl Mode {
    /// Whether large kernels take long to compile: true of a GPU's compiler.
    pub fn compiles_long(self) -> bool {
        self.contracts == Contracts::Tiles
    }

    /// Whether the device can store results of a row kernel that are not contiguous in memory, by staging them. CPUs
    /// can: there each contiguous run is a call.
    pub fn parts_rows(self) -> bool {
        self.contracts == Contracts::Rows
    }

    /// Whether a device without fused row operations (a GPU) computes flash attention in that dtype: a product whose
    /// left operand is computed from a producer GEMM.
    pub fn streams(self, dtype: DType) -> bool {
        match dtype {
            DType::BF16 | DType::F16 => !self.strict,
            _ => self.precision(dtype) == Precision::Tf32,
        }
    }
}

/// Set of small integers, one bit each.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BitSet(Vec<u64>);

impl BitSet {
    /// Empty set with capacity for numbers below `n`.
    pub fn new(n: usize) -> BitSet {
        BitSet(vec![0; n.div_ceil(64)])
    }

    /// Makes this the empty set with capacity for numbers below `n`, reusing its memory.
    pub fn reset(&mut self, n: usize) {
        self.0.clear();
        self.0.resize(n.div_ceil(64), 0);
    }

    /// Inserts a number.
    #[inline]
    pub fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Whether the set contains a number.
    #[inline]
    pub fn has(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }

    /// Removes a number.
    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    /// Number of integers in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Inserts all numbers of another set of the same capacity.
    pub fn union(&mut self, other: &BitSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    /// Whether the two sets have a number in common.
    pub fn intersects(&self, other: &BitSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Numbers of the set in a range, ascending.
    pub fn within(&self, range: &std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.clone().filter(|&i| self.has(i))
    }

    /// Numbers of the set, ascending.
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

/// Sequence of recorded operations with everything that is known at its cut.
///
/// `ops` and `live` form the *pattern*, which determines the plan. The other fields are its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Operations in order of recording; an argument always precedes its use.
    pub ops: &'a [RelOp],
    /// Live-outs: results that are still reachable.
    pub live: &'a BitSet,
    /// Planning mode.
    pub mode: Mode,
    /// Shape of each result.
    pub shapes: &'a [Shape],
    /// Integer arguments of all operations, in order.
    pub ints: &'a [i64],
    /// Scalar arguments of all operations, in order, in the form of [`thalweg_ir::Scalar::to_bits`].
    pub scalars: &'a [u64],
    /// Dtype and layout of each input.
    pub inputs: &'a [(DType, View)],
}

/// Segment that owns its data, for planning on another thread.
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
    /// Segment that borrows this one's data.
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
    /// Updates the operations' input arguments after `inputs` were changed.
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
    /// Copy that owns its data.
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

/// Segment with an index of its arguments, for planning and instantiating.
pub(crate) struct Indexed<'a> {
    pub seg: Segment<'a>,
    int_at: Vec<u32>,
    scalar_at: Vec<u32>,
    unrolled: BitSet,
    exact: OnceCell<BitSet>,
}

/// Maximum number of elements that an unrolled reduction combines.
pub(crate) const MAX_UNROLLED: usize = 16;

/// Whether a rewrite has marked an operation as an unrolled reduction.
fn is_marked(rel: &RelOp) -> bool {
    matches!(rel.op, Op::Reduce(_)) && rel.attr & UNROLLED != 0
}

/// Number of elements that a reduction of a tensor of shape `shape` combines, if there are at most [`MAX_UNROLLED`],
/// along adjacent axes.
pub(crate) fn unrollable(reduction: &RelOp, shape: Shape) -> Option<usize> {
    let axes = reduction.attr & 0xFF;
    let few: usize = (0..shape.rank()).filter(|a| axes >> a & 1 == 1).map(|a| shape[a]).product();
    let from_first = axes.checked_shr(axes.trailing_zeros()).unwrap_or(0);
    let side_by_side = axes != 0 && from_first & (from_first + 1) == 0;
    (side_by_side && (1..=MAX_UNROLLED).contains(&few) && shape.numel() > 0).then_some(few)
}

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

    /// Finds the unrolled reductions ([`Indexed::is_unrolled`]), over adjacent axes with few elements: those that a
    /// rewrite has marked ([`UNROLLED`]), and those of values computed elementwise from a window. Windows overlap, so
    /// single loads of their elements hit the first-level cache, whereas a row kernel would stage each row.
    fn find_unrolled(&mut self) {
        let ops = self.seg.ops;
        if !self.seg.mode.fused || !ops.iter().any(|o| o.op.info().windows || is_marked(o)) {
            return;
        }
        // Values whose elements are those of a window, one to one.
        let mut windowed = BitSet::new(ops.len());
        self.unrolled = BitSet::new(ops.len());
        for (i, rel) in ops.iter().enumerate() {
            let of_windows = || self.tensors(i).any(|(_, v)| matches!(v, ValueId::Op(o) if windowed.has(o)));
            match rel.op {
                op if op.info().windows => windowed.insert(i),
                Op::Element(_) | Op::Cast | Op::Bitcast | Op::Permute | Op::Slice | Op::Expand if of_windows() => {
                    windowed.insert(i)
                }
                Op::Reduce(op) if self.has_few(i) && (is_marked(rel) || op.plain().is_some() && of_windows()) => {
                    self.unrolled.insert(i)
                }
                _ => {}
            }
        }
    }

    /// Whether a reduction can be unrolled: see [`unrollable`].
    fn has_few(&self, reduction: usize) -> bool {
        let operand = self.tensors(reduction).next();
        operand.is_some_and(|(_, v)| unrollable(&self.seg.ops[reduction], self.shape(v)).is_some())
    }

    /// Whether operation `i` is an unrolled reduction: written as arithmetic on each of its few elements, like an
    /// elementwise operation with that many arguments. It needs no rows.
    pub fn is_unrolled(&self, i: usize) -> bool {
        self.unrolled.has(i)
    }

    /// Exact operations of the segment: found by `find` at the first call, cached for later ones.
    pub fn exact_by(&self, find: fn(&Indexed<'_>) -> BitSet) -> &BitSet {
        self.exact.get_or_init(|| find(self))
    }

    /// Whether operation `i` needs whole rows of its operand.
    pub fn takes_rows(&self, i: usize) -> bool {
        let op = self.seg.ops[i].op;
        op.class().takes_rows() && !self.is_unrolled(i)
    }

    /// Integer arguments of operation `i`.
    pub fn ints(&self, i: usize) -> &'a [i64] {
        &self.seg.ints[self.int_at[i] as usize..self.int_at[i + 1] as usize]
    }

    /// Index, in the segment, of the scalar that is argument `arg` of operation `i`.
    pub fn scalar(&self, i: usize, arg: usize) -> usize {
        let before = self.seg.ops[i].args().take(arg).filter(|a| *a == Arg::Scalar).count();
        self.scalar_at[i] as usize + before
    }

    /// Whether two operations are results of one call of a foreign operation: with equal operands, sizes and scalars.
    pub fn is_same_call(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.seg.ops[a], &self.seg.ops[b]);
        let numbers = |i: usize| {
            let count = self.seg.ops[i].args().filter(|a| *a == Arg::Scalar).count();
            &self.seg.scalars[self.first_scalar(i)..][..count]
        };
        x.op.class() == OpClass::Foreign
            && (x.op, x.args) == (y.op, y.args)
            && x.attr != y.attr
            && self.ints(a) == self.ints(b)
            && numbers(a) == numbers(b)
    }

    /// Index, in the segment, of the first scalar argument of operation `i`.
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

    /// Tensor arguments of operation `i`, each with its argument index.
    pub fn tensors(&self, i: usize) -> impl Iterator<Item = (usize, ValueId)> + '_ {
        self.seg.ops[i].args().enumerate().filter_map(|(n, a)| match a {
            Arg::Op(o) => Some((n, ValueId::Op(o))),
            Arg::Input(o) => Some((n, ValueId::Input(o))),
            Arg::Scalar | Arg::None => None,
        })
    }

    /// Dtype that an elementwise operation computes in.
    pub fn operand_dtype(&self, i: usize) -> DType {
        let rel = &self.seg.ops[i];
        let condition = rel.op == Op::Element(thalweg_ir::ElementOp::Where);
        let tensor = self.tensors(i).find(|(n, _)| !(condition && *n == 0)).map(|(_, v)| self.dtype(v));
        tensor.unwrap_or(rel.dtype)
    }
}

/// Tensor of a segment: an input, or the result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ValueId {
    /// An input, by index.
    Input(usize),
    /// The result of an operation, by index.
    Op(usize),
}
