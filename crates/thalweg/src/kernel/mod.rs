//! User-defined kernels: Rust functions of numbers that are also operations on tensors.
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
//! The function is generic over [`Real`]: `f32`, `f64`, and traced numbers, which record the operations on them. The
//! attribute rewrites syntax that Rust cannot overload: float literals (`0.5`), comparisons, `if`, `&&`, `match` on
//! numbers, `while` and `loop`. The rest of the function is unchanged, and the compiler checks it.
//!
//! `leaky::on` calls the function once on traced numbers, and records the trace as operations of the table. A map
//! without plain data is traced once per dtype, so it must be a function of its operands only. So a kernel fuses with
//! the operations around it, has derivatives of every order, and runs on every device. Operands are tensors and numbers
//! that broadcast; numbers are arguments and no part of the plan.
//!
//! There are four kinds: an element from elements (`#[kernel]`), an element from its index and fields
//! (`#[kernel(index)]`), rows with folds and scans (`#[kernel(row)]`, [`Row`]), and tiles with matrix products and
//! reductions (`#[kernel(tile)]`, [`Tile`]).
//!
//! docs/custom-kernels.md describes the language of kernels, and when they are faster than methods of tensors.

mod branch;
mod call;
mod call_cache;
mod combining;
mod compare;
mod field;
mod integer;
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
#[doc(hidden)]
pub use call_cache::{Over, Plain, Word};
pub use compare::{Compare, compare};
pub use field::Field;
pub use integer::{Int, Mask};
pub use looped::{Loop, MAX_ITERATIONS, bound, looped};
#[doc(hidden)]
pub use number::Elements;
pub use prepared::Prepared;
pub use real::Real;
pub use repr::Edge;
#[doc(hidden)]
pub use repr::{LoopTracer, Repr, TileOp};
pub use row::Row;
pub use thalweg_ir::ElementOp;
#[doc(hidden)]
pub use tile::Left;
pub use tile::Tile;
#[doc(hidden)]
pub use trace::TracedField;
pub use trace::{Take, Traced};

/// Lowering of a coordinate of a read in a kernel.
pub fn coordinate<F: Real>(i: impl Into<Int<F>>) -> Int<F> {
    i.into()
}

/// Lowering of `as` to the kernel's float type.
pub fn to_real<F: Real>(x: impl ToReal<F>) -> F {
    x.to_real()
}

/// Lowering of `as i32` in a kernel: toward zero, saturating, 0 for NaN.
pub fn to_int<F: Real>(x: impl ToInt<F>) -> Int<F> {
    x.to_int()
}

/// Types that convert to the kernel's float type.
#[diagnostic::on_unimplemented(message = "in a kernel, `{Self}` cannot be converted to a number by `as`")]
pub trait ToReal<F: Real> {
    /// Converts the value to the kernel's float type.
    fn to_real(self) -> F;
}

/// Types that convert to an integer of a kernel.
#[diagnostic::on_unimplemented(message = "in a kernel, `{Self}` cannot be converted to an integer by `as`")]
pub trait ToInt<F: Real> {
    /// Converts the value to an integer of the kernel.
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
