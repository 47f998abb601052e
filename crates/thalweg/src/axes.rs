//! Axes and sizes as arguments: negative ones, single ones, lists, all of them.

use crate::mistake::mistake;
use crate::{MAX_RANK, MistakeKind, Shape};
use std::ops::RangeFull;

/// Index of a dimension; negative ones count from the end (-1 is the last).
///
/// Converts from any of Rust's usual integers, so both `-1` and a `usize` of a loop can be passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis(i64);

impl Axis {
    /// The index of the dimension in a tensor of rank `rank`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[track_caller]
    pub(crate) fn of(self, name: &str, rank: usize) -> usize {
        let at = if self.0 < 0 { self.0.saturating_add(rank as i64) } else { self.0 };
        if at < 0 || at >= rank as i64 {
            bad_axis(name, self.0, rank);
        }
        at as usize
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn bad_axis(name: &str, axis: i64, rank: usize) -> ! {
    mistake(MistakeKind::Axis);
    panic!("{name}: axis {axis} is out of range for rank {rank}")
}

/// Panics because an axis is an argument twice.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn named_twice(name: &str, axis: impl std::fmt::Display) -> ! {
    mistake(MistakeKind::Axis);
    panic!("{name}: axis {axis} is named twice")
}

/// Index along an axis or number of its elements, an argument of [`select`](crate::Tensor::select) and
/// [`narrow`](crate::Tensor::narrow). Negative indices count from the end (-1 is the last).
///
/// Converts from any of Rust's usual integers, so both `-1` and a `usize` of a loop can be passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index(i64);

impl Index {
    #[inline]
    pub(crate) fn get(self) -> i64 {
        self.0
    }
}

/// A list of dimensions, or all of them (`..`).
///
/// Converts from one integer, an array, tuple, slice or `Vec` of integers, or `..`.
#[derive(Clone, Copy, Debug)]
pub struct Axes {
    list: [i64; MAX_RANK],
    count: usize,
    all: bool,
}

impl Axes {
    #[track_caller]
    fn new(list: impl ExactSizeIterator<Item = i64>) -> Axes {
        assert!(list.len() <= MAX_RANK, "{} axes are over the rank limit of {MAX_RANK}", list.len());
        let mut axes = Axes { list: [0; MAX_RANK], count: list.len(), all: false };
        for (to, from) in axes.list.iter_mut().zip(list) {
            *to = from;
        }
        axes
    }

    /// Whether the list stands for all axes (`..`), whatever the rank.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// The indices of the dimensions in a tensor of rank `rank`, in the order given, and their number.
    ///
    /// # Panics
    /// When one does not exist or is named twice.
    #[track_caller]
    pub(crate) fn of(&self, name: &str, rank: usize) -> ([usize; MAX_RANK], usize) {
        let mut out = [0; MAX_RANK];
        if self.all {
            for (i, o) in out[..rank].iter_mut().enumerate() {
                *o = i;
            }
            return (out, rank);
        }
        for i in 0..self.count {
            let at = Axis(self.list[i]).of(name, rank);
            if out[..i].contains(&at) {
                named_twice(name, self.list[i]);
            }
            out[i] = at;
        }
        (out, self.count)
    }

    /// The dimensions as a bit mask, for a tensor of rank `rank`; `name` is the caller in error messages.
    #[track_caller]
    pub(crate) fn mask(&self, name: &str, rank: usize) -> u32 {
        let (axes, count) = self.of(name, rank);
        axes[..count].iter().fold(0, |m, &a| m | 1 << a)
    }
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Axes {
        Axes { list: [0; MAX_RANK], count: 0, all: true }
    }
}

/// Sizes as arguments of [`reshape`](crate::Tensor::reshape) and [`expand`](crate::Tensor::expand), where -1 has a
/// meaning.
///
/// Converts from an array, tuple, slice or `Vec` of integers, one integer, a [`Shape`], or `()` for rank 0.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    list: [i64; MAX_RANK],
    count: usize,
}

impl Sizes {
    #[track_caller]
    fn new(list: impl ExactSizeIterator<Item = i64>) -> Sizes {
        assert!(list.len() <= MAX_RANK, "rank {} is over the limit of {MAX_RANK}", list.len());
        let mut sizes = Sizes { list: [0; MAX_RANK], count: list.len() };
        for (to, from) in sizes.list.iter_mut().zip(list) {
            *to = from;
        }
        sizes
    }

    pub(crate) fn list(&self) -> &[i64] {
        &self.list[..self.count]
    }
}

impl From<Shape> for Sizes {
    fn from(shape: Shape) -> Sizes {
        Sizes::from(&shape)
    }
}
impl From<&Shape> for Sizes {
    fn from(shape: &Shape) -> Sizes {
        Sizes::new(shape.iter().map(|&d| d as i64))
    }
}
impl From<()> for Sizes {
    fn from((): ()) -> Sizes {
        Sizes::new([].into_iter())
    }
}

/// Converts an index to i64. A `usize` above `i64::MAX` becomes `i64::MAX`, which no axis has.
fn saturated(index: i128) -> i64 {
    index.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl From<$t> for Axis {
            #[inline]
            fn from(axis: $t) -> Axis { Axis(axis as i64) }
        }
        impl From<$t> for Index {
            #[inline]
            fn from(index: $t) -> Index { Index(saturated(index as i128)) }
        }
        integers!(list Axes, $t);
        integers!(list Sizes, $t);
    )*};
    (list $list:ident, $t:ty) => {
        impl From<$t> for $list {
            fn from(one: $t) -> $list { $list::new([one as i64].into_iter()) }
        }
        impl<const N: usize> From<[$t; N]> for $list {
            #[track_caller]
            fn from(list: [$t; N]) -> $list { $list::new(list.into_iter().map(|v| v as i64)) }
        }
        impl<const N: usize> From<&[$t; N]> for $list {
            #[track_caller]
            fn from(list: &[$t; N]) -> $list { $list::new(list.iter().map(|&v| v as i64)) }
        }
        impl From<&[$t]> for $list {
            #[track_caller]
            fn from(list: &[$t]) -> $list { $list::new(list.iter().map(|&v| v as i64)) }
        }
        impl From<Vec<$t>> for $list {
            #[track_caller]
            fn from(list: Vec<$t>) -> $list { $list::new(list.into_iter().map(|v| v as i64)) }
        }
        impl From<&Vec<$t>> for $list {
            #[track_caller]
            fn from(list: &Vec<$t>) -> $list { $list::new(list.iter().map(|&v| v as i64)) }
        }
    };
}
integers!(i32, i64, isize, usize);

macro_rules! tuples {
    ($($name:ident)*) => {
        tuples!(list Axes, $($name)*);
        tuples!(list Sizes, $($name)*);
    };
    (list $list:ident, $($name:ident)*) => {
        /// A tuple may mix integer types: `(n, -1)` with a `usize`.
        impl<$($name: Into<Axis>),*> From<($($name,)*)> for $list {
            #[allow(non_snake_case, reason = "a variable for each type")]
            #[track_caller]
            fn from(($($name,)*): ($($name,)*)) -> $list {
                $list::new([$($name.into().0),*].into_iter())
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
