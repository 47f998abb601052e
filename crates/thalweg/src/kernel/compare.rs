//! Lowering of comparisons in a kernel.

use super::integer::{Int, Mask};
use super::real::Real;
use thalweg_ir::ElementOp;

/// Operands of comparisons in a kernel: its floats, integers and truth values, and plain Rust numbers, such as the
/// variable of a `for`.
#[diagnostic::on_unimplemented(
    message = "in a kernel, `{Self}` cannot be compared with `{Rhs}`",
    note = "numbers of the kernel's type are written with a point: `x < 0.0`",
    note = "tiles and rows are compared element by element: `x.map(|x| x < 0.0)`, `x.zip(&y).map(|(x, y)| x < y)`"
)]
pub trait Compare<Rhs> {
    /// Result of the comparison: a truth value of the kernel, or a plain bool.
    type Output;
    /// Compares two values by the operation `op`.
    fn compare(self, op: ElementOp, other: Rhs) -> Self::Output;
}

/// Lowering of `a < b` and the like in a kernel.
pub fn compare<A: Compare<B>, B>(op: ElementOp, a: A, b: B) -> A::Output {
    a.compare(op, b)
}

impl<F: Real> Compare<F> for F {
    type Output = Mask<F>;
    fn compare(self, op: ElementOp, other: F) -> Mask<F> {
        Mask(F::test(op, &[self, other]))
    }
}

impl<F: Real> Compare<Int<F>> for Int<F> {
    type Output = Mask<F>;
    fn compare(self, op: ElementOp, other: Int<F>) -> Mask<F> {
        Mask(F::test_int(op, &[self.0, other.0]))
    }
}

impl<F: Real> Compare<i32> for Int<F> {
    type Output = Mask<F>;
    fn compare(self, op: ElementOp, other: i32) -> Mask<F> {
        self.compare(op, Int::from(other))
    }
}

impl<F: Real> Compare<Int<F>> for i32 {
    type Output = Mask<F>;
    fn compare(self, op: ElementOp, other: Int<F>) -> Mask<F> {
        Int::from(self).compare(op, other)
    }
}

impl<F: Real> Compare<Mask<F>> for Mask<F> {
    type Output = Mask<F>;
    fn compare(self, op: ElementOp, other: Mask<F>) -> Mask<F> {
        Mask(F::logic(op, &[self.0, other.0]))
    }
}

impl<F: Real> Compare<bool> for Mask<F> {
    type Output = Mask<F>;
    fn compare(self, op: ElementOp, other: bool) -> Mask<F> {
        self.compare(op, Mask::from(other))
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Compare<$t> for $t {
            type Output = bool;
            fn compare(self, op: ElementOp, other: $t) -> bool {
                match op {
                    ElementOp::Lt => self < other,
                    ElementOp::Le => self <= other,
                    ElementOp::Gt => self > other,
                    ElementOp::Ge => self >= other,
                    ElementOp::Eq => self == other,
                    _ => self != other,
                }
            }
        }
    )*};
}
plain!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, bool);
