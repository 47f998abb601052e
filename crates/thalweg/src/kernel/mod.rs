//! Kernels of one's own: plain Rust functions of numbers that are operations on tensors, too.
//!
//! ```
//! use thalweg::prelude::*;
//!
//! #[kernel]
//! fn leaky<F: Real>(x: F, slope: F) -> F {
//!     if x < 0.0 { slope * x } else { x }
//! }
//!
//! assert_eq!(leaky(-2.0f32, 0.5), -1.0);                        // on numbers
//! let x = Tensor::new([-2.0f32, 3.0]).tracked();
//! let y = leaky::on(&x, 0.5);                                   // on tensors
//! assert_eq!(y.to_vec::<f32>()?, [-1.0, 3.0]);
//! assert_eq!(y.sum(..).backward()[&x].to_vec::<f32>()?, [0.5, 1.0]);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! The function is generic over [`Real`]: `f32` and `f64`, and the numbers of a call on tensors, which note down what
//! is done with them. The attribute rewrites what Rust cannot overload: numbers with a point (`0.5`), comparisons, `if`,
//! `&&`, `match` on numbers, `while` and `loop`. Everything else is the function as it was written, so the compiler checks that.
//!
//! `leaky::on` calls it once on such numbers, and records what it notes as operations of the table; a map without plain data
//! once for each dtype, so it should be a function of its operands alone. So a kernel
//! fuses with what stands around it, has derivatives of every order, and runs on every device. Operands are tensors and
//! numbers that broadcast; numbers are arguments, no part of the plan.
//!
//! Four shapes: an element from elements (`#[kernel]`), an element from its place and fields (`#[kernel(index)]`), rows with
//! folds and scans (`#[kernel(row)]`, [`Row`]), and tiles, with products of them and reductions (`#[kernel(tile)]`, [`Tile`]).
//!
//! docs/custom-kernels.md tells what can stand in a kernel, and what it gains over methods of tensors.

mod branch;
mod call;
mod combining;
mod compare;
mod field;
mod integer;
mod known;
mod looped;
mod number;
mod place;
mod prepared;
mod program;
mod real;
mod regions;
mod replay;
mod replay_rows;
mod replay_tiles;
mod repr;
mod row;
mod tile;
mod trace;

pub use branch::{Branch, Condition, Logic, and, lift, or, select};
pub use call::{Call, Output, Outputs};
pub use compare::{Compare, compare};
pub use field::Field;
pub use integer::{Int, Mask};
#[doc(hidden)]
pub use known::{Over, Plain, Word};
pub use looped::{Loop, MOST_TURNS, bound, looped};
#[doc(hidden)]
pub use number::Elements;
pub use prepared::Prepared;
pub use real::Real;
pub use repr::Edge;
#[doc(hidden)]
pub use repr::{Repr, TileOp, Turns};
pub use row::Row;
pub use thalweg_ir::ElementOp;
#[doc(hidden)]
pub use tile::Left;
pub use tile::Tile;
#[doc(hidden)]
pub use trace::TracedField;
pub use trace::{Take, Traced};

/// What a coordinate of a read in a kernel becomes.
pub fn coordinate<F: Real>(i: impl Into<Int<F>>) -> Int<F> {
    i.into()
}

/// What `as` in a kernel becomes: a number as one of the kernel's type.
pub fn to_real<F: Real>(x: impl ToReal<F>) -> F {
    x.to_real()
}

/// What `as i32` in a kernel becomes: toward zero, saturating, NaN as 0.
pub fn to_int<F: Real>(x: impl ToInt<F>) -> Int<F> {
    x.to_int()
}

/// What can be a number of a kernel's type.
#[diagnostic::on_unimplemented(message = "in a kernel, `{Self}` cannot be converted to a number by `as`")]
pub trait ToReal<F: Real> {
    /// The number.
    fn to_real(self) -> F;
}

/// What can be an integer of a kernel.
#[diagnostic::on_unimplemented(message = "in a kernel, `{Self}` cannot be converted to an integer by `as`")]
pub trait ToInt<F: Real> {
    /// The integer.
    fn to_int(self) -> Int<F>;
}

impl<F: Real> ToReal<F> for F {
    fn to_real(self) -> F {
        self
    }
}

impl<F: Real> ToReal<F> for Int<F> {
    fn to_real(self) -> F {
        F::from_int(self.0)
    }
}

impl<F: Real> ToReal<F> for Mask<F> {
    fn to_real(self) -> F {
        F::pick(self.0, F::lit(1.0), F::lit(0.0))
    }
}

impl<F: Real> ToInt<F> for F {
    fn to_int(self) -> Int<F> {
        Int(self.into_int())
    }
}

impl<F: Real> ToInt<F> for Int<F> {
    fn to_int(self) -> Int<F> {
        self
    }
}

impl<F: Real> ToInt<F> for Mask<F> {
    fn to_int(self) -> Int<F> {
        Int(F::pick_int(self.0, F::int(1), F::int(0)))
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl<F: Real> ToReal<F> for $t {
            fn to_real(self) -> F {
                F::lit(self as f64)
            }
        }
        impl<F: Real> ToInt<F> for $t {
            fn to_int(self) -> Int<F> {
                Int::from(self as i32)
            }
        }
    )*};
}
plain!(i32, i64, u32, usize);
