//! Table of monoids.
//!
//! A monoid is one row of [`MONOIDS`]: components of its partial results, identity, conversion of an element to a
//! partial result (lift), combination of two partial results, and conversion of the last one to the result (finish).
//! All are written in elementwise operations ([`crate::element`]), so an engine that has these can fold by any monoid:
//! the interpreter evaluates the expressions ([`Evaluate`]), and an engine without native code for a monoid compiles
//! them. Reductions, scans and scatters refer to their row. Adding a monoid of one component takes a variant and a row,
//! nothing else: `Probe` (feature `probe`, tests only) is such a row.
//!
//! The order in which elements are combined is not part of the table, but defined by `thalweg_kernel::order`.

mod evaluate;

use crate::element::{Build, Classes, Expr};
use crate::{DType, ElementOp, Scalar};
pub use evaluate::{Evaluate, Partial};

macro_rules! monoids {
    (reductions: { $($(#[$doc:meta])* $name:ident),* $(,)? } states: { $($(#[$more:meta])* $state:ident),* $(,)? }) => {
        /// Monoid of a fold; [`Monoid::row`] defines it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Monoid {
            $($(#[$doc])* $name,)*
            /// Value of the largest magnitude, the larger of two such values; NaN if any is NaN. A test monoid that is
            /// defined by its row alone.
            #[cfg(feature = "probe")]
            Probe,
            $($(#[$more])* $state,)*
        }

        impl Monoid {
            /// All monoids, in table order.
            pub const ALL: &[Monoid] = &[
                $(Monoid::$name,)*
                #[cfg(feature = "probe")]
                Monoid::Probe,
                $(Monoid::$state,)*
            ];
        }

        /// Reduction of a tensor over some axes.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum ReduceOp {
            $($(#[$doc])* $name,)*
            /// Reduction by the test monoid [`Monoid::Probe`].
            #[cfg(feature = "probe")]
            Probe,
            /// Whether any element is true; false for no elements.
            Any,
            /// Whether all elements are true; true for no elements.
            All,
            /// Index of the first maximum (NaN counts as largest) along one axis, as i64.
            ArgMax,
            /// Index of the first minimum (NaN counts as smallest) along one axis, as i64.
            ArgMin,
        }

        impl ReduceOp {
            /// All reductions.
            pub const ALL: &[ReduceOp] = &[
                $(ReduceOp::$name,)*
                #[cfg(feature = "probe")]
                ReduceOp::Probe,
                ReduceOp::Any,
                ReduceOp::All,
                ReduceOp::ArgMax,
                ReduceOp::ArgMin,
            ];

            /// Monoid of a reduction that is just a fold of its operand; `None` for truth values and indices.
            pub const fn plain(self) -> Option<Monoid> {
                match self {
                    $(ReduceOp::$name => Some(Monoid::$name),)*
                    #[cfg(feature = "probe")]
                    ReduceOp::Probe => Some(Monoid::Probe),
                    _ => None,
                }
            }
        }
    };
}

monoids! {
    reductions: {
        /// Sum of the elements; 0 for no elements. Integers wrap.
        Sum,
        /// Product of the elements; 1 for no elements. Integers wrap.
        Prod,
        /// Maximum of the elements; NaN if any is NaN.
        Max,
        /// Minimum of the elements; NaN if any is NaN.
        Min,
    }
    states: {
        /// Logarithm of the sum of exponentials, ln Σ eˣ, without overflow. Components: the largest exponent `m`, and
        /// the scaled sum Σ e^(x - m).
        LogSumExp,
    }
}

impl ReduceOp {
    /// Name of the reduction's method on `Tensor`.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Any => "any",
            ReduceOp::All => "all",
            ReduceOp::ArgMax => "argmax",
            ReduceOp::ArgMin => "argmin",
            plain => plain.monoid().row().name,
        }
    }

    /// Monoid of the underlying fold. For a truth value or an index, it is the maximum or minimum that determines the
    /// result.
    pub const fn monoid(self) -> Monoid {
        match (self.plain(), self) {
            (Some(monoid), _) => monoid,
            (None, ReduceOp::Any | ReduceOp::ArgMax) => Monoid::Max,
            (None, _) => Monoid::Min,
        }
    }
}

/// Function that builds the combination of two partial results, given by component, and appends the components of the
/// result.
pub type Combine = fn(&mut dyn Build, &[Expr], &[Expr], &mut Vec<Expr>);

/// Definition of a monoid: a row of the table.
pub struct MonoidRow {
    /// The monoid.
    pub monoid: Monoid,
    /// Name of the reduction by the monoid.
    pub name: &'static str,
    /// Dtypes that elements may have.
    pub takes: Classes,
    /// Identity by component: the initial value of folds and the result for no elements.
    pub identity: &'static [fn(DType) -> Scalar],
    /// First component of a partial result that, combined with any element, leaves its bits unchanged. `identity` need
    /// not have this property: a sum that starts from the identity 0 turns -0 into +0, while one that starts from -0
    /// does not.
    pub neutral: fn(DType) -> Scalar,
    /// Builds the partial result of one element.
    pub lift: fn(&mut dyn Build, Expr, &mut Vec<Expr>),
    /// Builds the combination of two partial results; the elements of the first precede those of the second.
    pub combine: Combine,
    /// Builds the result from the partial result of all elements.
    pub finish: fn(&mut dyn Build, &[Expr]) -> Expr,
    /// Whether NaN results become the canonical NaN, so that not even their bits depend on the order.
    pub canonical_nan: bool,
    /// Whether the order of elements affects the last bits of floats.
    pub ordered: bool,
}

impl MonoidRow {
    /// Number of components of a partial result.
    pub const fn components(&self) -> usize {
        self.identity.len()
    }

    /// Creates the row of a monoid whose partial results are elements: lift and finish change nothing.
    const fn plain(
        monoid: Monoid,
        name: &'static str,
        identity: &'static [fn(DType) -> Scalar],
        combine: Combine,
    ) -> MonoidRow {
        MonoidRow {
            monoid,
            name,
            takes: Classes::NUMBER,
            identity,
            neutral: identity[0],
            lift: |_, x, out| out.push(x),
            combine,
            finish: |_, state| state[0],
            canonical_nan: false,
            ordered: false,
        }
    }

    const fn ordered(mut self) -> MonoidRow {
        self.ordered = true;
        self
    }

    const fn canonical_nan(mut self) -> MonoidRow {
        self.canonical_nan = true;
        self
    }
}

/// Smallest (`least`) or largest value of a dtype; for floats, the infinities.
fn bound(dtype: DType, least: bool) -> Scalar {
    match (dtype.is_float(), least) {
        (true, true) => Scalar::Float(f64::NEG_INFINITY),
        (true, false) => Scalar::Float(f64::INFINITY),
        (false, true) => Scalar::int_bounds(dtype).0,
        (false, false) => Scalar::int_bounds(dtype).1,
    }
}

/// All monoids, indexed by discriminant.
pub static MONOIDS: &[MonoidRow] = &[
    MonoidRow {
        neutral: |dtype| if dtype.is_float() { Scalar::Float(-0.0) } else { Scalar::Int(0) },
        ..MonoidRow::plain(Monoid::Sum, "sum", &[|_| Scalar::Int(0)], |g, a, b, out| {
            out.push(g.op(ElementOp::Add, &[a[0], b[0]]));
        })
    }
    .ordered(),
    MonoidRow::plain(Monoid::Prod, "prod", &[|_| Scalar::Int(1)], |g, a, b, out| {
        out.push(g.op(ElementOp::Mul, &[a[0], b[0]]));
    })
    .ordered(),
    MonoidRow::plain(Monoid::Max, "amax", &[|dtype| bound(dtype, true)], |g, a, b, out| {
        out.push(g.op(ElementOp::Maximum, &[a[0], b[0]]));
    })
    .canonical_nan(),
    MonoidRow::plain(Monoid::Min, "amin", &[|dtype| bound(dtype, false)], |g, a, b, out| {
        out.push(g.op(ElementOp::Minimum, &[a[0], b[0]]));
    })
    .canonical_nan(),
    #[cfg(feature = "probe")]
    MonoidRow::plain(Monoid::Probe, "probe_extreme", &[|_| Scalar::Int(0)], |g, a, b, out| {
        use ElementOp::*;
        let (x, y) = (a[0], b[0]);
        let (size, other) = (g.op(Abs, &[x]), g.op(Abs, &[y]));
        let (farther, same, above) = (g.op(Gt, &[other, size]), g.op(Eq, &[other, size]), g.op(Gt, &[y, x]));
        let tie = g.op(And, &[same, above]);
        let nan = g.op(Ne, &[y, y]);
        let second = g.op(Or, &[farther, tie]);
        let second = g.op(Or, &[second, nan]);
        out.push(g.op(Where, &[second, y, x]));
    })
    .canonical_nan(),
    MonoidRow {
        takes: Classes::FLOAT,
        lift: |g, x, out| out.extend([x, g.constant(x, 1.0)]),
        finish: |g, state| {
            use ElementOp::*;
            // An infinite maximum is the result itself; the difference of infinities would be NaN.
            let (logarithm, finite) = (g.op(Log, &[state[1]]), g.op(IsFinite, &[state[0]]));
            let sum = g.op(Add, &[state[0], logarithm]);
            g.op(Where, &[finite, sum, state[0]])
        },
        ..MonoidRow::plain(
            Monoid::LogSumExp,
            "logsumexp",
            &[|dtype| bound(dtype, true), |_| Scalar::Int(0)],
            |g, a, b, out| {
                use ElementOp::*;
                let largest = g.op(Maximum, &[a[0], b[0]]);
                let mut sums = [a, b].map(|part| {
                    // The partial result with the largest exponent is not scaled: the difference of two infinities
                    // would be NaN.
                    let (is, less) = (g.op(Eq, &[part[0], largest]), g.op(Sub, &[part[0], largest]));
                    let scaled = g.op(Exp, &[less]);
                    let scaled = g.op(Mul, &[part[1], scaled]);
                    g.op(Where, &[is, part[1], scaled])
                });
                let [x, y] = &mut sums;
                out.extend([largest, g.op(Add, &[*x, *y])]);
            },
        )
    }
    .ordered(),
];

impl Monoid {
    /// Row of the monoid in the table.
    #[inline]
    pub const fn row(self) -> &'static MonoidRow {
        &MONOIDS[self as usize]
    }

    /// Identity of a monoid of one component, in the form of [`Scalar::to_bits`].
    pub fn identity(self, dtype: DType) -> u64 {
        (self.row().identity[0])(dtype).to_bits(dtype)
    }

    /// 64-bit integer dtype that holds the elements of an integer dtype or bool; scans compute in it.
    pub fn widest(dtype: DType) -> DType {
        if dtype == DType::U64 { DType::U64 } else { DType::I64 }
    }

    /// Dtype in which elements of `dtype` are combined.
    pub fn carried(dtype: DType) -> DType {
        match dtype {
            DType::BF16 | DType::F16 => DType::F32,
            DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::Bool => DType::I32,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
