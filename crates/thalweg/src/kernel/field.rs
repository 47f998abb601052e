//! What an index kernel reads: whole tensors, an element at a time.

use super::{Int, Real};
use std::sync::Arc;

/// What a read outside of a [`Field`] gives.
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

/// A tensor of `N` dimensions that an index kernel reads elements of.
///
/// On tensors it stands for the tensor that the kernel is called with; on numbers it is made by [`Field::new`].
#[derive(Clone, Debug)]
pub struct Field<F: Real, const N: usize>(pub(super) F::RawField);

impl<F: Real, const N: usize> Field<F, N> {
    /// The number of elements along an axis, a plain number.
    ///
    /// # Panics
    /// When there is no such axis.
    pub fn size(&self, axis: usize) -> usize {
        F::sizes(&self.0)[axis]
    }

    /// The element at a place, and `edge` where that is outside.
    pub fn get(&self, at: [Int<F>; N], edge: Edge) -> F {
        F::read(&self.0, &at.map(|i| i.0), edge)
    }
}

/// The elements of a field on numbers.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Elements<T> {
    elements: Arc<[T]>,
    pub(super) sizes: Vec<usize>,
}

impl<T: Real<RawField = Elements<T>>, const N: usize> Field<T, N> {
    /// These elements, row-major, for a call on numbers.
    ///
    /// # Panics
    /// When there are not as many as the sizes say.
    #[track_caller]
    pub fn new(elements: &[T], sizes: [usize; N]) -> Field<T, N> {
        let count: usize = sizes.iter().product();
        assert!(count == elements.len(), "a field of sizes {sizes:?} has {count} elements, not {}", elements.len());
        Field(Elements { elements: elements.into(), sizes: sizes.into() })
    }
}

impl<T: Copy> Elements<T> {
    /// The element at a place; none where that is outside and an edge says 0.
    pub(super) fn read(&self, at: &[i32], edge: Edge) -> Option<T> {
        let mut position = 0;
        for (&i, &size) in at.iter().zip(&self.sizes) {
            let (i, size) = (i64::from(i), size as i64);
            let inside = match edge {
                _ if (0..size).contains(&i) => i,
                Edge::Zero => return None,
                Edge::Clamp if size > 0 => i.clamp(0, size - 1),
                Edge::Wrap if size > 0 => i.rem_euclid(size),
                _ => panic!("a read at {at:?} of a field of sizes {:?}", self.sizes),
            };
            position = position * size + inside;
        }
        Some(self.elements[position as usize])
    }
}
