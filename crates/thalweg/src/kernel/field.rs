//! What an index kernel reads: whole tensors, an element at a time.

use super::integer::Int;
use super::number::Elements;
use super::repr::{Edge, Repr};

/// A tensor of `N` dimensions that an index kernel reads elements of.
///
/// On tensors it stands for the tensor that the kernel is called with; on numbers it is made by [`Field::new`].
#[derive(Clone, Debug)]
pub struct Field<F: Repr, const N: usize>(pub(super) F::RawField);

impl<F: Repr, const N: usize> Field<F, N> {
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

impl<T: Repr<RawField = Elements<T>>, const N: usize> Field<T, N> {
    /// These elements, row-major, for a call on numbers.
    ///
    /// # Panics
    /// When there are not as many as the sizes say.
    #[track_caller]
    pub fn new(elements: &[T], sizes: [usize; N]) -> Field<T, N> {
        let count: usize = sizes.iter().product();
        assert!(count == elements.len(), "a field of sizes {sizes:?} has {count} elements, not {}", elements.len());
        Field(Elements::new(elements, &sizes))
    }
}
