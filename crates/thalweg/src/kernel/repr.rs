//! Representation of a kernel's numbers: application of table operations, and reads of elements.

use std::fmt::Debug;
use thalweg_ir::{ElementOp, Monoid};
use thalweg_kernel::Along;

/// Result of a read out of bounds of a [`Field`](super::Field).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// Zero.
    Zero,
    /// Nearest element of the field.
    Clamp,
    /// Element of the field continued periodically.
    Wrap,
    /// A read out of bounds is a mistake. If the index depends on shapes only, the call panics; for a computed index it
    /// is an [`Error::Index`](crate::Error::Index) where a result is read.
    Checked,
}

/// Operation on whole tiles.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum TileOp<X> {
    /// A matrix product, `[n, k]` by `[k, m]`.
    Dot { x: X, y: X, sizes: [usize; 3] },
    /// A transposed tile.
    Transposed { x: X },
    /// A sum, maximum or minimum along an axis of a tile of these sizes.
    Reduced { monoid: Monoid, x: X, axis: usize, sizes: [usize; 2] },
    /// The indices along an axis of a tile of these sizes.
    Place { axis: usize, sizes: [usize; 2] },
}

/// Representation behind a number: applies operations of the table to it. Not for users.
#[doc(hidden)]
pub trait Repr: Copy + Debug + 'static {
    type RawInt: Copy + Debug + 'static;
    type RawMask: Copy + Debug + 'static;
    type RawField: Clone + Debug + 'static;
    /// Whether the number is traced, for elements of tensors.
    const TRACED: bool;

    fn constant(value: f64) -> Self;
    fn int(value: i32) -> Self::RawInt;
    fn mask(value: bool) -> Self::RawMask;
    /// Applies an operation whose result has the arguments' type.
    fn apply(op: ElementOp, args: &[Self]) -> Self;
    /// Applies an operation whose result is a truth value.
    fn test(op: ElementOp, args: &[Self]) -> Self::RawMask;
    fn apply_int(op: ElementOp, args: &[Self::RawInt]) -> Self::RawInt;
    fn test_int(op: ElementOp, args: &[Self::RawInt]) -> Self::RawMask;
    fn logic(op: ElementOp, args: &[Self::RawMask]) -> Self::RawMask;
    fn pick(c: Self::RawMask, a: Self, b: Self) -> Self;
    fn pick_int(c: Self::RawMask, a: Self::RawInt, b: Self::RawInt) -> Self::RawInt;
    fn into_int(self) -> Self::RawInt;
    fn from_int(i: Self::RawInt) -> Self;
    /// Sizes of a field.
    fn sizes(field: &Self::RawField) -> &[usize];
    /// The element of a field at an index.
    fn read(field: &Self::RawField, at: &[Self::RawInt], edge: Edge) -> Self;
    /// The value of a truth value, if it is known, as it is in calls on numbers.
    fn known(mask: Self::RawMask) -> Option<bool>;
    /// Begins a loop of at most `most` iterations; `None` on numbers, whose loops are Rust's.
    fn turns(most: u32) -> Option<Box<dyn LoopTracer<Self>>>;
    /// Begins a fold or scan of a row; `None` on numbers. Components pass through it in five stages, each ended by
    /// [`LoopTracer::end`]: an element to become the left operand, an element to become the right operand, the identity (of
    /// a fold), the combined value, and an element to become the result.
    ///
    /// For a tile, `tile` is the axis and the tile's sizes.
    fn combining(along: Along, tile: Option<(usize, [usize; 2])>) -> Option<Box<dyn LoopTracer<Self>>>;
    /// The index of element `i` of a row.
    fn place(i: i32) -> Self::RawInt;
    /// The index `i` along an axis of a tile of these sizes.
    fn tile_place(axis: usize, sizes: [usize; 2], i: i32) -> Self::RawInt;
    /// The result of an operation on whole tiles; `None` on numbers, where it is computed from the elements.
    fn tile(op: TileOp<Self>) -> Option<Self>;
    /// Reduces elements by a monoid, in calls on numbers.
    fn fold_elements(monoid: Monoid, elements: &[Self]) -> Self;
    /// Sum of the products of pairs of numbers, in calls on numbers.
    fn dotted(pairs: &mut dyn Iterator<Item = (Self, Self)>) -> Self;
    /// Begins a branch: up to [`Repr::done`], values are for elements where `mask` equals `is`.
    fn under(mask: Self::RawMask, is: bool);
    /// Ends the branch that [`Repr::under`] began.
    fn done();
}

/// Traced loop. Its carried values pass through it three times: with initial values, to become those inside an
/// iteration; with the values at its end; and to become the values after the loop.
#[doc(hidden)]
pub trait LoopTracer<F: Repr> {
    fn number(&mut self, x: F) -> F;
    fn int(&mut self, x: F::RawInt) -> F::RawInt;
    fn mask(&mut self, x: F::RawMask) -> F::RawMask;
    /// Sets the condition for another iteration.
    fn go(&mut self, mask: F::RawMask);
    /// Ends a stage: all carried values have passed.
    fn end(&mut self);
}
