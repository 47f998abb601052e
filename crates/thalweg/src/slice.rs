//! Slices of tensors: ranges with steps, single indices, reversal.

use crate::record::record1;
use crate::{Axes, Axis, Index, MAX_RANK, Shape, Tensor};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use thalweg_ir::Op;

/// Argument of [`Tensor::slice`] for one dimension.
///
/// Converts from Rust's ranges (`1..3`, `..`, `-2..`, `..=4`), ranges with a step ([`By::by`]) and integers. Negative
/// numbers count from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SliceArg {
    /// The elements from `start` to before `end` in steps, as `start:end:step` in Python: ends are clamped to the
    /// dimension, and a negative step goes backward from `start` (default: the last element) to after `end` (default:
    /// before the first).
    Range {
        /// The first index.
        start: Option<i64>,
        /// The index that the range ends before.
        end: Option<i64>,
        /// The distance between neighbouring elements.
        step: i64,
    },
    /// One index; the dimension is dropped.
    At(i64),
    /// A new dimension of size 1.
    NewAxis,
    /// All dimensions that no other argument names, whole, as `...` in NumPy; at most once.
    Rest,
}

impl SliceArg {
    /// `start:end:step` of Python, where `None` is an omitted number: `SliceArg::range(5, 1, -1)` goes backward from 5
    /// to 2.
    pub fn range(start: impl Into<Option<i64>>, end: impl Into<Option<i64>>, step: i64) -> SliceArg {
        SliceArg::Range { start: start.into(), end: end.into(), step }
    }
}

/// Ranges with a step: `(1..10).by(3)`, `(..).by(-1)`, `(5..).by(-2)`.
pub trait By {
    /// Every `step`-th element of a range. A negative step goes backward from the range's start: `(5..).by(-1)` goes
    /// from 5 down to 0. For a backward range with both ends use [`SliceArg::range`], which needs no empty-looking Rust
    /// range.
    fn by(self, step: i64) -> SliceArg;
}

impl<T: Into<SliceArg>> By for T {
    #[track_caller]
    fn by(self, step: i64) -> SliceArg {
        match self.into() {
            SliceArg::Range { start, end, step: 1 } => SliceArg::Range { start, end, step },
            other => panic!("by: a step of {step} has no meaning on {other:?}"),
        }
    }
}

/// Argument list of [`Tensor::slice`]: one argument, a tuple of up to eight, or an array, slice or `Vec` of
/// [`SliceArg`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` says no part of a tensor",
    label = "not a range, an integer, or a tuple of such",
    note = "`x.slice((1..3, .., -1))`: one argument a dimension, in one tuple; ranges of `i32`, `i64`, `isize` or `usize`, with a step by `.by(2)`"
)]
pub trait SliceArgs {
    /// Arguments of the slice, and their number.
    #[doc(hidden)]
    fn args(self) -> ([SliceArg; MAX_RANK], usize);
}

/// An argument list as an array.
///
/// # Panics
/// When there are more than eight arguments.
#[track_caller]
fn list(args: &[SliceArg]) -> ([SliceArg; MAX_RANK], usize) {
    assert!(args.len() <= MAX_RANK, "slice: {} arguments are over the rank limit of {MAX_RANK}", args.len());
    let mut out = [SliceArg::Rest; MAX_RANK];
    out[..args.len()].copy_from_slice(args);
    (out, args.len())
}

impl From<RangeFull> for SliceArg {
    fn from(_: RangeFull) -> SliceArg {
        SliceArg::Range { start: None, end: None, step: 1 }
    }
}

macro_rules! ranges {
    ($($t:ty),*) => {$(
        impl From<$t> for SliceArg {
            fn from(at: $t) -> SliceArg { SliceArg::At(at as i64) }
        }
        impl From<Range<$t>> for SliceArg {
            fn from(r: Range<$t>) -> SliceArg { SliceArg::Range { start: Some(r.start as i64), end: Some(r.end as i64), step: 1 } }
        }
        impl From<RangeFrom<$t>> for SliceArg {
            fn from(r: RangeFrom<$t>) -> SliceArg { SliceArg::Range { start: Some(r.start as i64), end: None, step: 1 } }
        }
        impl From<RangeTo<$t>> for SliceArg {
            fn from(r: RangeTo<$t>) -> SliceArg { SliceArg::Range { start: None, end: Some(r.end as i64), step: 1 } }
        }
        impl From<RangeInclusive<$t>> for SliceArg {
            fn from(r: RangeInclusive<$t>) -> SliceArg {
                SliceArg::Range { start: Some(*r.start() as i64), end: past(*r.end() as i64), step: 1 }
            }
        }
        impl From<RangeToInclusive<$t>> for SliceArg {
            fn from(r: RangeToInclusive<$t>) -> SliceArg { SliceArg::Range { start: None, end: past(r.end as i64), step: 1 } }
        }
        one!($t, Range<$t>, RangeFrom<$t>, RangeTo<$t>, RangeInclusive<$t>, RangeToInclusive<$t>);
    )*};
}
macro_rules! one {
    ($($t:ty),*) => {$(
        impl SliceArgs for $t {
            #[inline]
            fn args(self) -> ([SliceArg; MAX_RANK], usize) { list(&[self.into()]) }
        }
    )*};
}
ranges!(i32, i64, isize, usize);
one!(RangeFull, SliceArg);

/// The exclusive end of a range with an inclusive one; the end of the dimension for -1.
fn past(end: i64) -> Option<i64> {
    (end != -1).then(|| end.saturating_add(1))
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Into<SliceArg>),*> SliceArgs for ($($name,)*) {
            #[allow(non_snake_case, reason = "a variable for each type")]
            #[inline]
            fn args(self) -> ([SliceArg; MAX_RANK], usize) {
                let ($($name,)*) = self;
                list(&[$($name.into()),*])
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

impl<const N: usize> SliceArgs for [SliceArg; N] {
    #[track_caller]
    fn args(self) -> ([SliceArg; MAX_RANK], usize) {
        list(&self)
    }
}
impl SliceArgs for &[SliceArg] {
    #[track_caller]
    fn args(self) -> ([SliceArg; MAX_RANK], usize) {
        list(self)
    }
}
impl SliceArgs for Vec<SliceArg> {
    #[track_caller]
    fn args(self) -> ([SliceArg; MAX_RANK], usize) {
        list(&self)
    }
}

/// Start, step and number of the elements that a Python range takes of a dimension of `size`.
fn resolve(start: Option<i64>, end: Option<i64>, step: i64, size: i64) -> (i64, i64, usize) {
    let at = |v: i64, low: i64, high: i64| (if v < 0 { v.saturating_add(size) } else { v }).clamp(low, high);
    if step > 0 {
        let start = start.map_or(0, |v| at(v, 0, size));
        let end = end.map_or(size, |v| at(v, 0, size));
        let count = if end > start { (end - start - 1) / step + 1 } else { 0 };
        (start, step, count as usize)
    } else {
        let start = start.map_or(size - 1, |v| at(v, -1, size - 1));
        let end = end.map_or(-1, |v| at(v, -1, size - 1));
        let count = if start > end { (start - end - 1) / step.saturating_neg() + 1 } else { 0 };
        (start, step, count as usize)
    }
}

/// Slice of a tensor, resolved to the tensor's sizes and checked to be in bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedSlice {
    /// Start, step and number of elements of each dimension.
    parts: [(i64, i64, usize); MAX_RANK],
    /// The shape of the result, without the dimensions of single indices and with the new axes.
    pub shape: Shape,
}

impl ResolvedSlice {
    /// Start, step and number of elements of each dimension of a tensor of rank `rank`.
    pub fn ranges(&self, rank: usize) -> &[(i64, i64, usize)] {
        &self.parts[..rank]
    }
}

/// Ranges that cover every dimension whole.
pub(crate) fn whole(dims: &[usize]) -> [(i64, i64, usize); MAX_RANK] {
    let mut parts = [(0, 1, 0); MAX_RANK];
    for (part, &d) in parts.iter_mut().zip(dims) {
        part.2 = d;
    }
    parts
}

/// # Indexing by ranges
///
/// Parts by position; they are views and copy nothing. By tensors of indices, see
/// [`index_select`](Tensor::index_select).
impl Tensor {
    /// A slice of the tensor, as NumPy's `x[...]` with basic indices. There is one argument per dimension; missing ones
    /// at the end take the whole dimension. Ranges work as in Python, with negative indices and steps; an integer takes
    /// one index and drops the dimension. A view: copies nothing.
    ///
    /// ```
    /// # use thalweg::prelude::*;
    /// let x = Tensor::arange(24).reshape([2, 3, 4]);
    /// assert_eq!(x.slice((.., 1.., (..).by(-2))).dims(), [2, 2, 2]);
    /// assert_eq!(x.slice((-1, .., 0)).to_vec::<f32>()?, [12.0, 16.0, 20.0]);
    /// assert_eq!(x.slice((SliceArg::Rest, 0, SliceArg::NewAxis)).dims(), [2, 3, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there are more arguments than dimensions, an index is out of range, or a step is 0.
    #[track_caller]
    pub fn slice(&self, args: impl SliceArgs) -> Tensor {
        let part = self.part_of("slice", args);
        self.sliced(part.ranges(self.rank())).reshaped(part.shape)
    }

    /// The arguments of a slice, resolved and checked.
    #[track_caller]
    pub(crate) fn part_of(&self, name: &str, args: impl SliceArgs) -> ResolvedSlice {
        let (list, count) = args.args();
        let args = &list[..count];
        let taken = args.iter().filter(|a| matches!(a, SliceArg::Range { .. } | SliceArg::At(_))).count();
        let (shape, rank) = (self.shape(), self.rank());
        assert!(taken <= rank, "{name}: {taken} arguments for the {rank} axes of {shape}");
        let mut parts = whole(shape);
        let mut out = Shape::SCALAR;
        let (mut axis, mut rest) = (0, false);
        for &arg in args {
            match arg {
                SliceArg::Range { start, end, step } => {
                    assert!(step != 0, "{name}: the step of axis {axis} is 0");
                    parts[axis] = resolve(start, end, step, shape[axis] as i64);
                    out = out.insert(out.rank(), parts[axis].2);
                    axis += 1;
                }
                SliceArg::At(at) => {
                    parts[axis] = (self.position(name, axis, at), 1, 1);
                    axis += 1;
                }
                SliceArg::NewAxis => {
                    let fits = out.rank() + (rank - axis) < MAX_RANK;
                    assert!(fits, "{name}: a new axis would take {shape} over the rank limit of {MAX_RANK}");
                    out = out.insert(out.rank(), 1);
                }
                SliceArg::Rest => {
                    assert!(!rest, "{name}: SliceArg::Rest stands twice");
                    rest = true;
                    for _ in 0..rank - taken {
                        out = out.insert(out.rank(), shape[axis]);
                        axis += 1;
                    }
                }
            }
        }
        for &size in &shape[axis..] {
            out = out.insert(out.rank(), size);
        }
        ResolvedSlice { parts, shape: out }
    }

    /// A possibly negative index along an axis, resolved and checked.
    #[track_caller]
    fn position(&self, name: &str, axis: usize, at: i64) -> i64 {
        let size = self.dims()[axis] as i64;
        let position = if at < 0 { at.saturating_add(size) } else { at };
        if position < 0 || position >= size {
            crate::mistake::mistake(crate::MistakeKind::Index);
            panic!("{name}: index {at} is out of range for axis {axis} of {}", self.shape());
        }
        position
    }

    /// [`slice`](Tensor::slice) by start, step and number of elements of each dimension, all in bounds.
    #[track_caller]
    pub(crate) fn sliced(&self, parts: &[(i64, i64, usize)]) -> Tensor {
        if parts.iter().zip(self.dims()).all(|(p, &d)| p.2 == d && (d <= 1 || p.1 == 1)) {
            return self.clone();
        }
        let mut shape = *self.shape();
        let mut ints = [0; 3 * MAX_RANK];
        for (i, &(start, step, count)) in parts.iter().enumerate() {
            shape.dims_mut()[i] = count;
            // With at most one element the step has no effect; 1 gives all such slices one form.
            let (start, step) = if count == 0 { (0, 1) } else { (start, if count == 1 { 1 } else { step }) };
            ints[3 * i..3 * i + 3].copy_from_slice(&[start, step, count as i64]);
        }
        record1(Op::Slice, self.dtype(), shape, 0, self, &ints[..3 * parts.len()])
    }

    /// `count` elements from `start` along an axis (negative: from the end), as `torch.narrow`.
    ///
    /// See also [`slice`](Tensor::slice) for ranges of several axes.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::arange(6);
    /// assert_eq!(x.narrow(0, 1, 3).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(x.narrow(0, -2, 2).to_vec::<f32>()?, [4.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When they are out of range.
    #[track_caller]
    pub fn narrow(&self, axis: impl Into<Axis>, start: impl Into<Index>, count: impl Into<Index>) -> Tensor {
        let axis = axis.into().of("narrow", self.rank());
        let size = self.dims()[axis] as i64;
        let (start, count) = (start.into().get(), count.into().get());
        let first = if start < 0 { start.saturating_add(size) } else { start };
        if first < 0 || count < 0 || first.saturating_add(count) > size {
            panic!("narrow: {count} elements from {start} on are not in axis {axis} of {}", self.shape());
        }
        self.part(axis, (first, 1, count as usize))
    }

    /// A range of one dimension, the others whole.
    #[track_caller]
    pub(crate) fn part(&self, axis: usize, part: (i64, i64, usize)) -> Tensor {
        let mut parts = whole(self.dims());
        parts[axis] = part;
        self.sliced(&parts[..self.rank()])
    }

    /// Index `index` of an axis (negative: from the end), as `torch.select`; the dimension is dropped.
    ///
    /// See also [`narrow`](Tensor::narrow), which keeps the axis, and [`index_select`](Tensor::index_select) for many
    /// indices.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]]);
    /// assert_eq!(x.index_axis(0, -1).to_vec::<i32>()?, [3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the index is out of range.
    #[track_caller]
    pub fn index_axis(&self, axis: impl Into<Axis>, index: impl Into<Index>) -> Tensor {
        let axis = axis.into().of("index_axis", self.rank());
        let at = self.position("index_axis", axis, index.into().get());
        self.part(axis, (at, 1, 1)).reshaped(self.shape().remove(axis))
    }

    /// Index `index` of an axis; alias of [`index_axis`](Tensor::index_axis).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]]);
    /// assert_eq!(x.select(1, 0).to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the index is out of range.
    #[track_caller]
    pub fn select(&self, axis: impl Into<Axis>, index: impl Into<Index>) -> Tensor {
        self.index_axis(axis, index)
    }

    /// This tensor with the order of elements reversed along the given axes.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2, 3]).flip(0).to_vec::<i32>()?, [3, 2, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When one does not exist.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Tensor {
        let mask = axes.into().mask("flip", self.rank());
        let mut parts = whole(self.dims());
        for (i, &d) in self.dims().iter().enumerate() {
            if mask >> i & 1 == 1 {
                parts[i] = (d as i64 - 1, -1, d);
            }
        }
        self.sliced(&parts[..self.rank()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares every small range with CPython, by a hash that this program computed: `for n in range(5): for s in N:
    /// for e in N: for st in (1,2,3,-1,-2,-3): l = range(n)[s:e:st]; for v in [len(l), *l]: h = (h*31+v+1) % (2**61-1)`
    /// with `N = [None, -6, .., 6]` and `h = 7` at first.
    #[test]
    fn ranges_are_pythons() {
        let ends: Vec<Option<i64>> = std::iter::once(None).chain((-6..7).map(Some)).collect();
        let mut hash = 7u128;
        for size in 0..5 {
            for &start in &ends {
                for &end in &ends {
                    for step in [1, 2, 3, -1, -2, -3] {
                        let (first, step, count) = resolve(start, end, step, size);
                        let taken = (0..count as i64).map(|i| first + i * step);
                        for v in std::iter::once(count as i64).chain(taken) {
                            assert!(v == count as i64 || (0..size).contains(&v));
                            hash = (hash * 31 + v as u128 + 1) % ((1 << 61) - 1);
                        }
                    }
                }
            }
        }
        assert_eq!(hash, 368150342720135885);
    }
}
