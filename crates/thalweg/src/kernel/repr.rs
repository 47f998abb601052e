//! What kernels need of a number: how operations of the table are applied to it, and how elements are read.

use std::fmt::Debug;
use thalweg_ir::{ElementOp, Monoid};
use thalweg_kernel::Along;

/// What a read outside of a [`Field`](super::Field) gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// 0.
    Zero,
    /// The nearest element.
    Clamp,
    /// The field continued from its other end.
    Wrap,
    /// There is none outside: a read there is a mistake. One that follows from shapes alone panics in the call; one
    /// whose place is computed is an [`Error::Index`](crate::Error::Index) where a result is read.
    Checked,
}

/// An operation on whole tiles.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum TileOp<X> {
    /// A matrix product, `[n, k]` by `[k, m]`.
    Dot { x: X, y: X, sizes: [usize; 3] },
    /// A transposed tile.
    Transposed { x: X },
    /// A sum, the largest or the smallest along an axis of a tile of these sizes.
    Reduced { monoid: Monoid, x: X, axis: usize, sizes: [usize; 2] },
    /// The places along an axis of a tile of these sizes.
    Place { axis: usize, sizes: [usize; 2] },
}

/// What stands behind a number: how operations of the table are applied to it. Not for users.
#[doc(hidden)]
pub trait Repr: Copy + Debug + 'static {
    type RawInt: Copy + Debug + 'static;
    type RawMask: Copy + Debug + 'static;
    type RawField: Clone + Debug + 'static;
    /// Whether it stands for elements of tensors.
    const TRACED: bool;

    fn constant(value: f64) -> Self;
    fn int(value: i32) -> Self::RawInt;
    fn mask(value: bool) -> Self::RawMask;
    /// An operation whose result is of the arguments' type.
    fn apply(op: ElementOp, args: &[Self]) -> Self;
    /// An operation whose result is a truth value.
    fn test(op: ElementOp, args: &[Self]) -> Self::RawMask;
    fn apply_int(op: ElementOp, args: &[Self::RawInt]) -> Self::RawInt;
    fn test_int(op: ElementOp, args: &[Self::RawInt]) -> Self::RawMask;
    fn logic(op: ElementOp, args: &[Self::RawMask]) -> Self::RawMask;
    fn pick(c: Self::RawMask, a: Self, b: Self) -> Self;
    fn pick_int(c: Self::RawMask, a: Self::RawInt, b: Self::RawInt) -> Self::RawInt;
    fn into_int(self) -> Self::RawInt;
    fn from_int(i: Self::RawInt) -> Self;
    /// The sizes of a field.
    fn sizes(field: &Self::RawField) -> &[usize];
    /// The element of a field at a place.
    fn read(field: &Self::RawField, at: &[Self::RawInt], edge: Edge) -> Self;
    /// What a truth value is, where that is known: on numbers.
    fn known(mask: Self::RawMask) -> Option<bool>;
    /// Begins a loop of at most so many turns; none on numbers, whose loops are Rust's.
    fn turns(most: u32) -> Option<Box<dyn Turns<Self>>>;
    /// Begins a fold or scan of a row; none on numbers. Components go through it five times, each stage ended by
    /// [`Turns::end`]: an element to become what comes before, an element to become what comes after, the identity (of a
    /// fold), what both are put together, and an element to become the result.
    ///
    /// Of a tile the axis along which it is, and the tile's sizes.
    fn combining(along: Along, tile: Option<(usize, [usize; 2])>) -> Option<Box<dyn Turns<Self>>>;
    /// The place of element `i` of a row.
    fn place(i: i32) -> Self::RawInt;
    /// The place `i` along an axis of a tile of these sizes.
    fn tile_place(axis: usize, sizes: [usize; 2], i: i32) -> Self::RawInt;
    /// What stands for the result of an operation on whole tiles; none on numbers, where it is computed from the elements.
    fn tile(op: TileOp<Self>) -> Option<Self>;
    /// Elements put together as the monoid's row of the table says, on numbers.
    fn folded(monoid: Monoid, elements: &[Self]) -> Self;
    /// The sum of the products of some pairs, on numbers.
    fn dotted(pairs: &mut dyn Iterator<Item = (Self, Self)>) -> Self;
    /// What comes next, until [`Repr::done`], is for the elements where this is that.
    fn under(mask: Self::RawMask, is: bool);
    /// See [`Repr::under`].
    fn done();
}

/// A loop that is traced. Its carried values go through it three times: as what they begin as, to become what they are
/// in a turn; as what they are after it; and to become what they are after the loop.
#[doc(hidden)]
pub trait Turns<F: Repr> {
    fn number(&mut self, x: F) -> F;
    fn int(&mut self, x: F::RawInt) -> F::RawInt;
    fn mask(&mut self, x: F::RawMask) -> F::RawMask;
    /// Whether there is another turn.
    fn go(&mut self, mask: F::RawMask);
    /// The turn has been traced.
    fn end(&mut self);
}
