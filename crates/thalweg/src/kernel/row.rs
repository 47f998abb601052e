//! Rows of operands in row kernels.

use super::branch::Branch;
use super::integer::{Int, Mask};
use super::real::Real;
use super::repr::LoopTracer;
use std::marker::PhantomData;
use thalweg_kernel::{Along, order};

/// Row of an operand, or of values computed from one element by element.
///
/// In a call on tensors it is every row along an axis; for a call on numbers it holds the elements ([`Row::new`]).
#[derive(Clone, Debug)]
pub struct Row<F: Real, T = F> {
    /// Elements of the row; in a trace, a single one stands for all.
    elements: Vec<T>,
    of: PhantomData<F>,
}

impl<F: Real> Row<F> {
    /// A row of these elements, for a call on numbers.
    pub fn new(elements: impl Into<Vec<F>>) -> Row<F> {
        Row { elements: elements.into(), of: PhantomData }
    }
}

impl<F: Real, T: Copy> Row<F, T> {
    /// The elements, on numbers; in a call on tensors a single one for all.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// Each element mapped by a function to numbers, `i32`, or tuples and arrays of them.
    pub fn map<U: Branch<F, Out: Copy>>(&self, f: impl Fn(T) -> U) -> Row<F, U::Out> {
        Row { elements: self.elements.iter().map(|&x| f(x).lift()).collect(), of: PhantomData }
    }

    /// Pairs of the elements of two rows.
    ///
    /// # Panics
    /// On numbers, if the rows have different lengths.
    #[track_caller]
    pub fn zip<U: Copy>(&self, other: &Row<F, U>) -> Row<F, (T, U)> {
        let (n, m) = (self.elements.len(), other.elements.len());
        assert!(n == m, "zip: a row of {n} elements and one of {m}");
        let elements = self.elements.iter().copied().zip(other.elements.iter().copied()).collect();
        Row { elements, of: PhantomData }
    }

    /// The index of each element, 0, 1, 2, …
    pub fn places(&self) -> Row<F, Int<F>> {
        let place = |i| Int(F::place(i as i32));
        Row { elements: (0..self.elements.len()).map(place).collect(), of: PhantomData }
    }
}

impl<F: Real, T: Branch<F, Out = T> + Copy> Row<F, T> {
    /// Reduces all elements by `combine`, which takes two partial results and returns one. `identity` is the result
    /// over no elements; combining with it changes nothing.
    ///
    /// Elements are combined in any order: `combine` must be associative and commutative, like a sum.
    pub fn fold<I, R>(&self, identity: I, combine: impl Fn(T, T) -> R) -> T
    where
        I: Branch<F, Out = T>,
        R: Branch<F, Out = T>,
    {
        match F::combining(Along::Fold, None) {
            Some(trace) => self.combined(trace, Some(identity.lift()), combine),
            None => order::fold_by(self.elements.clone(), identity.lift(), |&a, &b| combine(a, b).lift()),
        }
    }

    /// The prefix scan: each element combined with all before it by `combine`, which takes the partial result before
    /// and that after, and returns one. It must be associative.
    pub fn scan<R: Branch<F, Out = T>>(&self, combine: impl Fn(T, T) -> R) -> Row<F, T> {
        self.scanned(Along::Scan, combine)
    }

    /// [`scan`](Row::scan) from the last element to the first: each element is combined with all after it, which
    /// `combine` takes first.
    pub fn scan_reverse<R: Branch<F, Out = T>>(&self, combine: impl Fn(T, T) -> R) -> Row<F, T> {
        self.scanned(Along::Reversed, combine)
    }

    fn scanned<R: Branch<F, Out = T>>(&self, along: Along, combine: impl Fn(T, T) -> R) -> Row<F, T> {
        if let Some(trace) = F::combining(along, None) {
            return Row { elements: vec![self.combined(trace, None, combine)], of: PhantomData };
        }
        let mut elements = self.elements.clone();
        let reversed = |row: &mut Vec<T>| {
            if along == Along::Reversed {
                row.reverse()
            }
        };
        reversed(&mut elements);
        order::scan_by(&mut elements, &|&a, &b| combine(a, b).lift());
        reversed(&mut elements);
        Row { elements, of: PhantomData }
    }

    /// Records a fold or scan in the trace: see [`Repr::combining`](super::Repr::combining) for the stages.
    fn combined<R: Branch<F, Out = T>>(
        &self,
        mut trace: Box<dyn LoopTracer<F>>,
        identity: Option<T>,
        combine: impl Fn(T, T) -> R,
    ) -> T {
        let element = self.elements[0];
        let before = element.each(&mut *trace);
        trace.end();
        let after = element.each(&mut *trace);
        trace.end();
        if let Some(identity) = identity {
            identity.each(&mut *trace);
        }
        trace.end();
        combine(before, after).lift().each(&mut *trace);
        trace.end();
        element.each(&mut *trace)
    }
}

/// Selection between rows, element by element.
impl<F: Real, T: Branch<F, Out = T> + Copy> Branch<F> for Row<F, T> {
    type Out = Row<F, T>;
    fn lift(self) -> Row<F, T> {
        self
    }
    fn pick(c: Mask<F>, a: Row<F, T>, b: Row<F, T>) -> Row<F, T> {
        a.zip(&b).map(|(a, b)| T::pick(c, a, b))
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> Row<F, T> {
        Row { elements: self.elements.into_iter().map(|x| x.each(turns)).collect(), of: PhantomData }
    }
}
