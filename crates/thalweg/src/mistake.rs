//! Kinds of mistakes that methods panic on, for bindings of other languages.
//!
//! A panic's payload is its message, so that it prints as any other. Its kind is stored beside it, in the thread.

use std::cell::Cell;

thread_local! {
    /// Kind of the panic that unwinds, or of the last one that nobody asked for.
    static LAST: Cell<Option<MistakeKind>> = const { Cell::new(None) };
}

/// Kind of a mistake in a call, other than a wrong value or shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MistakeKind {
    /// An axis that does not exist, or is named twice.
    Axis,
    /// An index out of range.
    Index,
    /// A dtype that the method does not take, or two that differ.
    DType,
    /// A number beyond the range of a dtype.
    Range,
}

/// Kind of the last panic of a front method on this thread, once; `None` for a wrong value or shape, and for panics of
/// other code. A binding calls it after `catch_unwind`, and before a call that may panic, to forget older ones.
///
/// ```
/// use thalweg::{MistakeKind, Tensor, take_mistake_kind};
/// let x = Tensor::ones([2, 3]);
/// let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| x.sum(7)));
/// assert!(caught.is_err());
/// assert_eq!(take_mistake_kind(), Some(MistakeKind::Axis));
/// assert_eq!(take_mistake_kind(), None);
/// ```
pub fn take_mistake_kind() -> Option<MistakeKind> {
    LAST.take()
}

/// Stores the kind of the panic that follows.
#[cold]
pub(crate) fn mistake(kind: MistakeKind) {
    LAST.set(Some(kind));
}
