//! Lowering of `if`, `&&` and `||` in a kernel.

use super::integer::{Int, Mask};
use super::real::Real;
use super::repr::LoopTracer;

/// Value of a branch of an `if`: numbers, integers and truth values of a kernel, tuples and arrays of them.
#[diagnostic::on_unimplemented(
    message = "a branch in a kernel cannot give `{Self}`",
    note = "it gives numbers (written with a point: `0.0`), `i32`, `bool`, tuples and arrays of them"
)]
pub trait Branch<F: Real> {
    /// Type of the value in the kernel: plain integers and bools become those of the kernel.
    type Out: Branch<F>;
    /// Converts the value to the kernel's type.
    fn lift(self) -> Self::Out;
    /// `a` where the condition is true, else `b`; both have the kernel's types.
    fn pick(c: Mask<F>, a: Self::Out, b: Self::Out) -> Self::Out;
    /// Passes each number of the value through a traced loop.
    fn each(self, turns: &mut dyn LoopTracer<F>) -> Self::Out;
}

/// Converts a value to the kernel's type.
pub fn lift<F: Real, A: Branch<F>>(a: A) -> A::Out {
    a.lift()
}

/// Condition in a kernel: a truth value of the kernel, or a plain bool, which is known when the kernel is called on
/// tensors.
#[diagnostic::on_unimplemented(
    message = "in a kernel, `{Self}` is no condition",
    note = "a condition is a comparison, or a `bool`"
)]
pub trait Condition<F: Real>: Sized {
    /// Returns the plain bool if the condition is known, else the kernel's truth value.
    fn known(self) -> Result<bool, Mask<F>>;
    /// Converts the condition to a truth value of the kernel.
    fn mask(self) -> Mask<F> {
        self.known().map_or_else(|m| m, Mask::from)
    }
}

impl<F: Real> Condition<F> for bool {
    fn known(self) -> Result<bool, Mask<F>> {
        Ok(self)
    }
}

impl<F: Real> Condition<F> for Mask<F> {
    fn known(self) -> Result<bool, Mask<F>> {
        F::known(self.0).ok_or(self)
    }
}

/// Lowering of `if c { a } else { b }` in a kernel. If the condition is known, one branch is called; else both are, and
/// each element selects by its condition.
pub fn select<F: Real, C: Condition<F>, A: Branch<F>, B: Branch<F, Out = A::Out>>(
    c: C,
    a: impl FnOnce() -> A,
    b: impl FnOnce() -> B,
) -> A::Out {
    match c.known() {
        Ok(true) => a().lift(),
        Ok(false) => b().lift(),
        Err(mask) => {
            F::under(mask.0, true);
            let a = a().lift();
            F::done();
            F::under(mask.0, false);
            let b = b().lift();
            F::done();
            A::pick(mask, a, b)
        }
    }
}

/// Operands of `&&` and `||`.
#[diagnostic::on_unimplemented(message = "in a kernel, `{Self}` and `{Rhs}` are no conditions that go together")]
pub trait Logic<Rhs> {
    /// Result of `&&` or `||`: a truth value of the kernel, or a plain bool.
    type Output;
    /// Logical and.
    fn and(self, other: impl FnOnce() -> Rhs) -> Self::Output;
    /// Logical or.
    fn or(self, other: impl FnOnce() -> Rhs) -> Self::Output;
}

/// Lowering of `a && b` in a kernel.
pub fn and<A: Logic<B>, B>(a: A, b: impl FnOnce() -> B) -> A::Output {
    a.and(b)
}

/// Lowering of `a || b` in a kernel.
pub fn or<A: Logic<B>, B>(a: A, b: impl FnOnce() -> B) -> A::Output {
    a.or(b)
}

impl Logic<bool> for bool {
    type Output = bool;
    fn and(self, other: impl FnOnce() -> bool) -> bool {
        self && other()
    }
    fn or(self, other: impl FnOnce() -> bool) -> bool {
        self || other()
    }
}

/// `a && b` if at least one is a truth value of the kernel; `b` is not evaluated if `a` is known and decides.
fn both<F: Real, B: Condition<F>>(a: Result<bool, Mask<F>>, b: impl FnOnce() -> B) -> Mask<F> {
    match a {
        Ok(true) => b().mask(),
        Ok(false) => Mask::from(false),
        Err(a) => a & b().mask(),
    }
}

fn either<F: Real, B: Condition<F>>(a: Result<bool, Mask<F>>, b: impl FnOnce() -> B) -> Mask<F> {
    match a {
        Ok(true) => Mask::from(true),
        Ok(false) => b().mask(),
        Err(a) => a | b().mask(),
    }
}

macro_rules! masks {
    ($($a:ty, $b:ty;)*) => {$(
        impl<F: Real> Logic<$b> for $a {
            type Output = Mask<F>;
            fn and(self, other: impl FnOnce() -> $b) -> Mask<F> {
                both(self.known(), other)
            }
            fn or(self, other: impl FnOnce() -> $b) -> Mask<F> {
                either(self.known(), other)
            }
        }
    )*};
}
masks! { Mask<F>, Mask<F>; Mask<F>, bool; bool, Mask<F>; }

impl<F: Real> Branch<F> for F {
    type Out = F;
    fn lift(self) -> F {
        self
    }
    fn pick(c: Mask<F>, a: F, b: F) -> F {
        F::pick(c.0, a, b)
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> F {
        turns.number(self)
    }
}

impl<F: Real> Branch<F> for Int<F> {
    type Out = Int<F>;
    fn lift(self) -> Int<F> {
        self
    }
    fn pick(c: Mask<F>, a: Int<F>, b: Int<F>) -> Int<F> {
        Int(F::pick_int(c.0, a.0, b.0))
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> Int<F> {
        Int(turns.int(self.0))
    }
}

impl<F: Real> Branch<F> for Mask<F> {
    type Out = Mask<F>;
    fn lift(self) -> Mask<F> {
        self
    }
    fn pick(c: Mask<F>, a: Mask<F>, b: Mask<F>) -> Mask<F> {
        (c & a) | (!c & b)
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> Mask<F> {
        Mask(turns.mask(self.0))
    }
}

impl<F: Real> Branch<F> for i32 {
    type Out = Int<F>;
    fn lift(self) -> Int<F> {
        Int::from(self)
    }
    fn pick(c: Mask<F>, a: Int<F>, b: Int<F>) -> Int<F> {
        <Int<F>>::pick(c, a, b)
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> Int<F> {
        Int::from(self).each(turns)
    }
}

impl<F: Real> Branch<F> for bool {
    type Out = Mask<F>;
    fn lift(self) -> Mask<F> {
        Mask::from(self)
    }
    fn pick(c: Mask<F>, a: Mask<F>, b: Mask<F>) -> Mask<F> {
        <Mask<F>>::pick(c, a, b)
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> Mask<F> {
        Mask::from(self).each(turns)
    }
}

impl<F: Real, T: Branch<F>, const N: usize> Branch<F> for [T; N] {
    type Out = [T::Out; N];
    fn lift(self) -> [T::Out; N] {
        self.map(T::lift)
    }
    fn pick(c: Mask<F>, a: [T::Out; N], b: [T::Out; N]) -> [T::Out; N] {
        let mut b = b.into_iter();
        a.map(|a| T::pick(c, a, b.next().expect("as many as in the other")))
    }
    fn each(self, turns: &mut dyn LoopTracer<F>) -> [T::Out; N] {
        self.map(|x| x.each(turns))
    }
}

/// Branch without a value, which only assigns variables.
impl<F: Real> Branch<F> for () {
    type Out = ();
    fn lift(self) {}
    fn pick(_: Mask<F>, _: (), _: ()) {}
    fn each(self, _: &mut dyn LoopTracer<F>) {}
}

macro_rules! tuples {
    ($($($t:ident $n:tt)+;)*) => {$(
        impl<F: Real, $($t: Branch<F>),+> Branch<F> for ($($t,)+) {
            type Out = ($($t::Out,)+);
            fn lift(self) -> Self::Out {
                ($(self.$n.lift(),)+)
            }
            fn pick(c: Mask<F>, a: Self::Out, b: Self::Out) -> Self::Out {
                ($($t::pick(c, a.$n, b.$n),)+)
            }
            fn each(self, turns: &mut dyn LoopTracer<F>) -> Self::Out {
                ($(self.$n.each(turns),)+)
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 G 5;
    A 0 B 1 C 2 D 3 E 4 G 5 H 6;
    A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7;
    A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8;
    A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9;
    A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10;
    A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11;
}
