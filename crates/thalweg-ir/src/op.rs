//! Operations of a stream, and their relative form.
//!
//! A stream cuts the recorded operations into segments, and compares each with earlier recordings. So operations are
//! stored in *relative* form: a [`RelOp`] refers to its arguments by their index in the segment, and contains only the
//! properties that determine how the segment is planned: operation, dtype, rank, broadcast dimensions, axes. These form
//! the *pattern* of the segment. Sizes, slice bounds and scalars are recorded beside the operations, in order, and are
//! not part of the pattern. There are no symbolic dimensions: a size is always a concrete `usize`.

mod info;
mod relative;

use crate::{ElementOp, Foreign, Loop, Monoid, ReduceOp};
pub use info::{DiscreteChoice, IntArgs, OpClass, OpInfo, Rounding};
pub use relative::{Arg, InputKind, RelArg, RelOp, pack_order, unpack_order};
use std::borrow::Cow;

/// Operation as recorded by a stream. Each variant lists its structural attributes, which are packed in
/// [`RelOp::attr`], and the integers (such as sizes) that are recorded beside it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Op {
    /// Elementwise operation with broadcast arguments. `attr`: the broadcast mask of argument `i` at bits `8i..8i+8`.
    Element(ElementOp),
    /// Conversion to the output dtype. Float to integer saturates, NaN gives 0; integer to integer wraps; to bool: true
    /// unless 0.
    Cast,
    /// Reinterpretation of each element's bits as another dtype of equal width; neither may be bool. The bits of a
    /// computed NaN are unspecified, and a signalling NaN of bf16 or f16 may become a quiet one.
    Bitcast,
    /// Constant tensor. Arguments: the scalar. Integers: the shape.
    Full,
    /// Sequence 0, 1, 2, … in one dimension. Integers: the length.
    Iota,
    /// Counter-based random numbers. Arguments: the key, a 64-bit scalar. Integers: the shape.
    Random(RandomKind),
    /// Change of shape that preserves the row-major order of elements. Integers: the shape.
    Reshape,
    /// Permutation of dimensions. `attr`: source dimension of output dimension `i` at bits `3i..3i+3`.
    Permute,
    /// Broadcast to a shape. `attr`: the broadcast mask. Integers: the shape.
    Expand,
    /// Slice of a range with a step in each dimension. Integers: start, step and length of each dimension.
    Slice,
    /// Sliding windows along an axis (see [`View::window`](crate::View::window)). `attr`: the axis. Integers: size,
    /// step.
    Window,
    /// Padding by a constant. Arguments: the tensor, the scalar. Integers: number of elements added before and after,
    /// for each dimension.
    Pad,
    /// Concatenation of two tensors. `attr`: the axis.
    Cat,
    /// Copy of the first tensor in which a box is replaced by the second tensor. Integers: number of elements before
    /// and after the box, for each dimension.
    Put,
    /// Reduction over some axes. `attr`: the axes as a bit mask; bit 8 is set if they are kept with size 1; [`UNROLLED`]
    /// is set by the planner where the few elements are operands of elementwise operations.
    Reduce(ReduceOp),
    /// Matrix product over the last two dimensions; leading dimensions broadcast.
    Matmul,
    /// Running reduction or sort along an axis. `attr`: the axis; [`REVERSE`] is set if it runs from the last element
    /// to the first (a sort: descending).
    Scan(ScanOp),
    /// Selection of elements by index along an axis: `out[.., i, ..] = x[.., index[.., i, ..], ..]`. `attr`: the axis.
    /// Arguments: the tensor, the index (i64, not negative). The index has the result's shape, which differs from the
    /// tensor's only in the axis.
    Gather,
    /// Copy of a tensor into which values are stored, or combined with its elements, by index along an axis, in
    /// row-major order of the index. `attr`: the axis. Arguments: the tensor, the index (i64, not negative), the
    /// values. Index and values have one shape, which differs from the tensor's only in the axis.
    Scatter(ScatterOp),
    /// Carried value, after the last iteration, of an elementwise loop with data-dependent trip count. `attr`: index of
    /// the carried value. Arguments: those of the region, of one shape, or scalars.
    Loop(Loop),
    /// Component of a fold along an axis by a user-defined monoid ([`Loop::is_combine`]). `attr`: the axis as a bit
    /// mask; bit 8 is set if it is kept with size 1; the index of the component from bit [`COMPONENT`] on. Arguments:
    /// the components of the elements, of one shape.
    FoldBy(Loop),
    /// Component of a scan along an axis by a user-defined monoid. `attr`: the axis; [`REVERSE`] as for a scan; the
    /// index of the component from bit [`COMPONENT`] on. Arguments: the components of the elements, of one shape.
    ScanBy(Loop),
    /// Result of an operation written in another language. `attr`: index of the result. Arguments: the operands,
    /// row-major in memory, then the scalars. Integers: the launch configuration
    /// ([`ForeignLaunch`](crate::ForeignLaunch)), the size arguments, the number of bytes of each result.
    Foreign(Foreign),
}

/// Number of the lowest bit of the component's index in [`RelOp::attr`] of [`Op::FoldBy`] and [`Op::ScanBy`].
pub const COMPONENT: u32 = 16;

/// Bit of [`RelOp::attr`] of a scan that runs backwards.
pub const REVERSE: u32 = 1 << 8;

/// Bit of [`RelOp::attr`] of a reduction that is unrolled. Values are the same, and so are their bits.
pub const UNROLLED: u32 = 1 << 9;

/// Operation of a scan along its axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ScanOp {
    /// Running sum. Integers wrap.
    Sum,
    /// Running product. Integers wrap.
    Prod,
    /// Running maximum; NaN from the first NaN on.
    Max,
    /// Running minimum; NaN from the first NaN on.
    Min,
    /// Running ln Σ eˣ, without overflow. Floats.
    LogSumExp,
    /// Stable sort; NaN is larger than all numbers.
    Sort,
    /// Indices (i64) in the original row of the elements in sorted order, by a stable sort.
    Argsort,
}

impl ScanOp {
    /// Name of the operation's method on `Tensor`.
    pub const fn name(self) -> &'static str {
        match self {
            ScanOp::Sum => "cumsum",
            ScanOp::Prod => "cumprod",
            ScanOp::Max => "cummax",
            ScanOp::Min => "cummin",
            ScanOp::LogSumExp => "logcumsumexp",
            ScanOp::Sort => "sort",
            ScanOp::Argsort => "argsort",
        }
    }

    /// Monoid of a running reduction; `None` for sorts.
    pub const fn monoid(self) -> Option<Monoid> {
        Some(match self {
            ScanOp::Sum => Monoid::Sum,
            ScanOp::Prod => Monoid::Prod,
            ScanOp::Max => Monoid::Max,
            ScanOp::Min => Monoid::Min,
            ScanOp::LogSumExp => Monoid::LogSumExp,
            ScanOp::Sort | ScanOp::Argsort => return None,
        })
    }
}

/// Combination of a value with an element by a scatter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ScatterOp {
    /// Replacement: the last value in the order of the index remains.
    Set,
    /// Sum of the element and the values, added in the order of the index.
    Add,
    /// Product of the element and the values, multiplied in the order of the index.
    Prod,
    /// Maximum of the element and the values; NaN if any is NaN.
    Max,
    /// Minimum of the element and the values; NaN if any is NaN.
    Min,
}

impl ScatterOp {
    /// Name of the operation's method on `Tensor`.
    pub const fn name(self) -> &'static str {
        match self {
            ScatterOp::Set => "scatter",
            ScatterOp::Add => "scatter_add",
            ScatterOp::Prod => "scatter_prod",
            ScatterOp::Max => "scatter_amax",
            ScatterOp::Min => "scatter_amin",
        }
    }

    /// Monoid that combines values with an element; `None` for [`ScatterOp::Set`].
    pub const fn monoid(self) -> Option<Monoid> {
        Some(match self {
            ScatterOp::Set => return None,
            ScatterOp::Add => Monoid::Sum,
            ScatterOp::Prod => Monoid::Prod,
            ScatterOp::Max => Monoid::Max,
            ScatterOp::Min => Monoid::Min,
        })
    }
}

/// Distribution of random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RandomKind {
    /// Uniform distribution on [0, 1); every multiple of 2⁻²⁴ (f32 and narrower) or 2⁻⁵³ (f64) is equally likely.
    Uniform,
    /// Standard normal distribution, by the Box-Muller transform.
    Normal,
    /// 32 random bits as u32.
    Bits,
}

impl Op {
    /// Row of the operation: its properties, for everything that asks about its kind.
    #[inline]
    pub const fn info(self) -> &'static OpInfo {
        use DiscreteChoice::{Always, ByRegion, NotFloat};
        use IntArgs::{Count, PerAxis};
        use OpClass::*;
        use Rounding::{Copies, Extreme, Region};
        const NONE: [u8; 3] = [0; 3];
        const RESULT: u8 = OpInfo::RESULT;
        match self {
            // The table of elementwise operations has the rest.
            Op::Element(_) => const { &OpInfo::of(Elementwise).choice(ByRegion) },
            Op::Cast => const { &OpInfo::new("cast", Elementwise).choice(NotFloat).grad(0b1, NONE) },
            Op::Bitcast => const { &OpInfo::new("bitcast", Elementwise).rounding(Copies).choice(Always) },
            Op::Full => const { &OpInfo::new("full", Constant).ints(PerAxis(1)) },
            Op::Iota => const { &OpInfo::new("arange", Constant).ints(PerAxis(1)) },
            Op::Random(kind) => match kind {
                RandomKind::Uniform => const { &OpInfo::new("rand", Random).ints(PerAxis(1)) },
                RandomKind::Normal => const { &OpInfo::new("randn", Random).ints(PerAxis(1)) },
                RandomKind::Bits => const { &OpInfo::new("random_bits", Random).ints(PerAxis(1)) },
            },
            Op::Reshape => const { &OpInfo::new("reshape", View).ints(PerAxis(1)).grad(0b1, NONE) },
            Op::Permute => const { &OpInfo::new("permute", View).grad(0b1, NONE) },
            Op::Expand => const { &OpInfo::new("expand", View).ints(PerAxis(1)).grad(0b1, NONE) },
            Op::Slice => const { &OpInfo::new("slice", View).ints(PerAxis(3)).layout_by_ints().grad(0b1, NONE) },
            Op::Window => {
                const { &OpInfo::new("window", View).ints(Count(2)).layout_by_ints().windows().grad(0b1, NONE) }
            }
            Op::Pad => const { &OpInfo::new("pad", Merge).ints(PerAxis(2)).grad(0b1, NONE) },
            Op::Cat => const { &OpInfo::new("cat", Merge).grad(0b11, NONE) },
            Op::Put => const { &OpInfo::new("slice_scatter", Merge).ints(PerAxis(2)).limited().grad(0b11, NONE) },
            Op::Reduce(of) => match of {
                ReduceOp::Sum => const { &OpInfo::of(Fold).choice(NotFloat).grad(0b1, NONE) },
                ReduceOp::Prod => const { &OpInfo::of(Fold).choice(NotFloat).grad(0b1, [0b1, 0, 0]) },
                ReduceOp::Max | ReduceOp::Min => {
                    const { &OpInfo::of(Fold).rounding(Extreme).choice(Always).grad(0b1, [0b1 | RESULT, 0, 0]) }
                }
                ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax | ReduceOp::ArgMin => {
                    const { &OpInfo::of(Fold).rounding(Extreme).choice(NotFloat) }
                }
                #[cfg(feature = "probe")]
                ReduceOp::Probe => const { &OpInfo::of(Fold).choice(NotFloat).grad(0b1, [0b1 | RESULT, 0, 0]) },
            },
            Op::Matmul => const { &OpInfo::new("matmul", Matmul).grad(0b11, [0b10, 0b1, 0]) },
            Op::Scan(of) => match of {
                ScanOp::Sum => const { &OpInfo::of(Scan).grad(0b1, NONE) },
                ScanOp::Prod => const { &OpInfo::of(Scan).grad(0b1, [0b1, 0, 0]) },
                ScanOp::Max | ScanOp::Min => {
                    const { &OpInfo::of(Scan).rounding(Extreme).choice(Always).grad(0b1, [0b1 | RESULT, 0, 0]) }
                }
                ScanOp::LogSumExp => const { &OpInfo::of(Scan).grad(0b1, [0b1 | RESULT, 0, 0]) },
                ScanOp::Sort => const { &OpInfo::of(Scan).rounding(Copies).choice(Always).grad(0b1, [0b1, 0, 0]) },
                ScanOp::Argsort => const { &OpInfo::of(Scan).rounding(Copies).choice(Always) },
            },
            Op::Gather => const { &OpInfo::new("gather", Gather).index_arg(1).grad(0b1, [0b10, 0, 0]) },
            Op::Scatter(of) => {
                const ALL: u8 = 0b111;
                const ADD: OpInfo = OpInfo::of(Scatter).index_arg(1);
                match of {
                    ScatterOp::Add => const { &ADD.grad(0b101, [0, 0, 0b10]) },
                    ScatterOp::Set => const { &ADD.rounding(Copies).grad(0b101, [0b10, 0, 0b10]) },
                    ScatterOp::Prod => const { &ADD.grad(0b101, [ALL, 0, ALL]) },
                    ScatterOp::Max | ScatterOp::Min => {
                        const { &ADD.rounding(Extreme).grad(0b101, [ALL | RESULT, 0, ALL | RESULT]) }
                    }
                }
            }
            Op::Loop(_) => const { &OpInfo::new("loop", Elementwise).rounding(Region).choice(Always) },
            Op::FoldBy(_) => const { &OpInfo::new("fold", Fold).rounding(Region).choice(ByRegion) },
            Op::ScanBy(_) => const { &OpInfo::new("scan", Scan).rounding(Region).choice(ByRegion) },
            Op::Foreign(_) => const { &OpInfo::of(Foreign).ints(IntArgs::Foreign) },
        }
    }

    /// Name of the operation in explanations and errors.
    pub fn name(self) -> &'static str {
        match self {
            Op::Element(e) => e.name(),
            Op::Reduce(r) => r.name(),
            Op::Scan(s) => s.name(),
            Op::Scatter(s) => s.name(),
            Op::Foreign(f) => &f.source().name,
            _ => self.info().name,
        }
    }

    /// Class of the operation.
    #[inline]
    pub const fn class(self) -> OpClass {
        self.info().class
    }

    /// Whether the operation reduces each row to one element.
    pub fn is_fold(self) -> bool {
        self.class() == OpClass::Fold
    }

    /// Whether the operation is a fold or scan by a user-defined combine.
    pub fn is_combined(self) -> bool {
        matches!(self, Op::FoldBy(_) | Op::ScanBy(_))
    }

    /// Region that defines the operation; `None` if it is not a loop or user-defined combine.
    pub fn region(self) -> Option<Loop> {
        match self {
            Op::Loop(l) | Op::FoldBy(l) | Op::ScanBy(l) => Some(l),
            _ => None,
        }
    }

    /// Whether the operation may have more than three arguments.
    #[inline]
    fn takes_many(self) -> bool {
        matches!(self, Op::Loop(_) | Op::FoldBy(_) | Op::ScanBy(_) | Op::Foreign(_))
    }

    /// Text form of the operation, without spaces, that [`Op::from_name`] reads: its name, or, for interned operations
    /// (loops, foreign operations), the full definition.
    pub fn spelled(self) -> Cow<'static, str> {
        match self {
            Op::Loop(l) => Cow::Owned(l.to_string()),
            Op::FoldBy(l) => Cow::Owned(format!("fold:{l}")),
            Op::ScanBy(l) => Cow::Owned(format!("scan:{l}")),
            Op::Foreign(f) => Cow::Owned(f.to_string()),
            other => Cow::Borrowed(other.name()),
        }
    }

    /// Returns the operation with this name or text form ([`Op::spelled`]); `None` if there is none.
    pub fn from_name(name: &str) -> Option<Op> {
        if name.starts_with("loop{") {
            return Loop::parse(name).map(Op::Loop);
        }
        if name.starts_with("foreign{") {
            return Foreign::parse(name).map(Op::Foreign);
        }
        if let Some((way, l)) = name.split_once(':').filter(|(way, _)| matches!(*way, "fold" | "scan")) {
            let combine = Loop::parse(l).filter(|l| l.is_combine())?;
            return Some(if way == "fold" { Op::FoldBy(combine) } else { Op::ScanBy(combine) });
        }
        let element = ElementOp::from_name(name).map(Op::Element);
        element.or_else(|| Op::OTHERS.iter().copied().find(|op| op.name() == name))
    }

    /// All operations that are neither elementwise ([`ElementOp::ALL`]) nor interned (of which there are any number).
    pub const OTHERS: &[Op] = &[
        Op::Cast,
        Op::Bitcast,
        Op::Full,
        Op::Iota,
        Op::Random(RandomKind::Uniform),
        Op::Random(RandomKind::Normal),
        Op::Random(RandomKind::Bits),
        Op::Reshape,
        Op::Permute,
        Op::Expand,
        Op::Slice,
        Op::Window,
        Op::Pad,
        Op::Cat,
        Op::Put,
        Op::Reduce(ReduceOp::Sum),
        Op::Reduce(ReduceOp::Prod),
        Op::Reduce(ReduceOp::Max),
        Op::Reduce(ReduceOp::Min),
        #[cfg(feature = "probe")]
        Op::Reduce(ReduceOp::Probe),
        Op::Reduce(ReduceOp::Any),
        Op::Reduce(ReduceOp::All),
        Op::Reduce(ReduceOp::ArgMax),
        Op::Reduce(ReduceOp::ArgMin),
        Op::Matmul,
        Op::Scan(ScanOp::Sum),
        Op::Scan(ScanOp::Prod),
        Op::Scan(ScanOp::Max),
        Op::Scan(ScanOp::Min),
        Op::Scan(ScanOp::LogSumExp),
        Op::Scan(ScanOp::Sort),
        Op::Scan(ScanOp::Argsort),
        Op::Gather,
        Op::Scatter(ScatterOp::Set),
        Op::Scatter(ScatterOp::Add),
        Op::Scatter(ScatterOp::Prod),
        Op::Scatter(ScatterOp::Max),
        Op::Scatter(ScatterOp::Min),
    ];

    /// Whether each element of the result is computed from elements of the arguments at the same index.
    pub fn by_element(self) -> bool {
        self.class() == OpClass::Elementwise
    }

    /// Whether the operation is a pure index map: no arithmetic, no masked elements.
    pub fn is_view(self) -> bool {
        self.class() == OpClass::View
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_their_names() {
        let all: Vec<Op> = ElementOp::ALL.iter().map(|&e| Op::Element(e)).chain(Op::OTHERS.iter().copied()).collect();
        // A second operation of the same name would not be found.
        all.iter().for_each(|&op| assert_eq!(Op::from_name(op.name()), Some(op)));
        assert_eq!(Op::from_name("nonsense"), None);
    }

    /// Operations missing from the list are missing from defect reports.
    #[test]
    fn the_list_of_operations_is_whole() {
        let kinds = |kind: fn(&Op) -> bool| Op::OTHERS.iter().filter(|op| kind(op)).count();
        assert_eq!(kinds(|op| matches!(op, Op::Reduce(_))), ReduceOp::ArgMin as usize + 1);
        assert_eq!(kinds(|op| matches!(op, Op::Scan(_))), ScanOp::Argsort as usize + 1);
        assert_eq!(kinds(|op| matches!(op, Op::Scatter(_))), ScatterOp::Min as usize + 1);
        assert_eq!(kinds(|op| matches!(op, Op::Random(_))), RandomKind::Bits as usize + 1);
        assert_eq!(kinds(|op| op.is_view()), 5);
    }

    #[test]
    fn rows_are_consistent() {
        for &op in Op::OTHERS {
            let info = op.info();
            let indexes = matches!(info.class, OpClass::Gather | OpClass::Scatter);
            assert_eq!(info.index_arg.is_some(), indexes, "{}", op.name());
            let of_none = (0..3).filter(|i| info.grad_args >> i & 1 == 0).fold(0, |all, i| all | info.grad_reads[i]);
            assert_eq!(of_none, 0, "{}: no gradient flows to an argument whose gradient reads values", op.name());
            assert!(!info.windows || info.class == OpClass::View, "{}", op.name());
        }
    }
}
