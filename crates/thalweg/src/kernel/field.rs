//! Fields: whole tensors that an index kernel reads element by element.

use super::integer::Int;
use super::number::Elements;
use super::repr::{Edge, Repr};

/// Tensor of `N` dimensions whose elements an index kernel reads.
///
/// In a call on tensors it is the operand; for a call on numbers, build one with [`Field::new`].
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

    /// The element at an index; `edge` says what happens outside the bounds.
    pub fn get(&self, at: [Int<F>; N], edge: Edge) -> F {
        F::read(&self.0, &at.map(|i| i.0), edge)
    }
}

impl<T: Repr<RawField = Elements<T>>, const N: usize> Field<T, N> {
    /// A field of these row-major elements, for a call on numbers.
    ///
    /// # Panics
    /// When the number of elements does not match the sizes.
    #[track_caller]
    pub fn new(elements: &[T], sizes: [usize; N]) -> Field<T, N> {
        let count: usize = sizes.iter().product();
        assert!(count == elements.len(), "a field of sizes {sizes:?} has {count} elements, not {}", elements.len());
        Field(Elements::new(elements, &sizes))
    }
}
