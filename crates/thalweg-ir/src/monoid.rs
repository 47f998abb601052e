//! The one table of monoids: how many values become one.
//!
//! A monoid is one row of [`MONOIDS`]: what its partial results are made of, what stands for none, how an element
//! becomes a partial result, how two of them are put together, and what the last one means. All of it is written in
//! elementwise operations ([`crate::element`]), so whoever can run these can fold: the interpreter evaluates the
//! expressions ([`Evaluate`]), an engine that has no code of its own for a row compiles them. Reductions, scans and
//! scatters name their row. A monoid of one component is its variant and its row, nothing else: `Probe` (feature
//! `probe`, tests only) is such a row.
//!
//! The order in which elements meet is no part of the table: `thalweg_kernel::order` says it.

mod evaluate;

use crate::element::{Build, Classes, Expr};
use crate::{DType, ElementOp, Scalar};
pub use evaluate::{Evaluate, Partial};

macro_rules! monoids {
    (reductions: { $($(#[$doc:meta])* $name:ident),* $(,)? } states: { $($(#[$more:meta])* $state:ident),* $(,)? }) => {
        /// How many values become one; [`Monoid::row`] says everything about it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Monoid {
            $($(#[$doc])* $name,)*
            /// The value of the largest magnitude, the larger of two such; NaN if any is NaN. It proves that a row is
            /// all that a monoid takes.
            #[cfg(feature = "probe")]
            Probe,
            $($(#[$more])* $state,)*
        }

        impl Monoid {
            /// Every monoid, in table order.
            pub const ALL: &[Monoid] = &[
                $(Monoid::$name,)*
                #[cfg(feature = "probe")]
                Monoid::Probe,
                $(Monoid::$state,)*
            ];
        }

        /// A reduction.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum ReduceOp {
            $($(#[$doc])* $name,)*
            /// [`Monoid::Probe`].
            #[cfg(feature = "probe")]
            Probe,
            /// Whether any is true; false of nothing.
            Any,
            /// Whether all are true; true of nothing.
            All,
            /// Index of the first largest (a NaN counts as largest) along one axis, as i64.
            ArgMax,
            /// Index of the first smallest (a NaN counts as smallest) along one axis, as i64.
            ArgMin,
        }

        impl ReduceOp {
            /// Every reduction.
            pub const ALL: &[ReduceOp] = &[
                $(ReduceOp::$name,)*
                #[cfg(feature = "probe")]
                ReduceOp::Probe,
                ReduceOp::Any,
                ReduceOp::All,
                ReduceOp::ArgMax,
                ReduceOp::ArgMin,
            ];

            /// The monoid that it is, where it is nothing but the fold of its operand.
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
        /// The sum; 0 of nothing. Integers wrap.
        Sum,
        /// The product; 1 of nothing. Integers wrap.
        Prod,
        /// The largest; NaN if any is NaN.
        Max,
        /// The smallest; NaN if any is NaN.
        Min,
    }
    states: {
        /// ln Σ eˣ, without overflow: the largest exponent, and the sum with that taken out.
        LogSumExp,
    }
}

impl ReduceOp {
    /// The method's name on `Tensor`.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Any => "any",
            ReduceOp::All => "all",
            ReduceOp::ArgMax => "argmax",
            ReduceOp::ArgMin => "argmin",
            plain => plain.monoid().row().name,
        }
    }

    /// The monoid that it is made of: of a truth value and of an index the extreme that decides it.
    pub const fn monoid(self) -> Monoid {
        match (self.plain(), self) {
            (Some(monoid), _) => monoid,
            (None, ReduceOp::Any | ReduceOp::ArgMax) => Monoid::Max,
            (None, _) => Monoid::Min,
        }
    }
}

/// Two partial results in, components in order; one out, into the list.
pub type Combine = fn(&mut dyn Build, &[Expr], &[Expr], &mut Vec<Expr>);

/// Everything there is to know about one monoid.
pub struct MonoidRow {
    /// The monoid.
    pub monoid: Monoid,
    /// The name of its reduction.
    pub name: &'static str,
    /// The dtypes of its elements.
    pub takes: Classes,
    /// What no elements give, by component: what folds begin with.
    pub identity: &'static [fn(DType) -> Scalar],
    /// What changes nothing, where `identity` may: 0 makes +0 of a sum of -0, and -0 does not. Of the first component.
    pub neutral: fn(DType) -> Scalar,
    /// The partial result of one element.
    pub lift: fn(&mut dyn Build, Expr, &mut Vec<Expr>),
    /// Two partial results put together; the first is of the elements before those of the second.
    pub combine: Combine,
    /// What the partial result of all elements means.
    pub finish: fn(&mut dyn Build, &[Expr]) -> Expr,
    /// Results that are NaN are one and the same NaN, so that not even its bits tell the order.
    pub canonical_nan: bool,
    /// Whether the order of elements shows in the last bits of floats.
    pub ordered: bool,
}

impl MonoidRow {
    /// Components of a partial result.
    pub const fn components(&self) -> usize {
        self.identity.len()
    }

    /// A row of one component, which is its own element and its own result.
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

/// The least or the greatest value of a dtype, infinities included.
fn bound(dtype: DType, least: bool) -> Scalar {
    match (dtype.is_float(), least) {
        (true, true) => Scalar::Float(f64::NEG_INFINITY),
        (true, false) => Scalar::Float(f64::INFINITY),
        (false, true) => Scalar::int_bounds(dtype).0,
        (false, false) => Scalar::int_bounds(dtype).1,
    }
}

/// Every monoid, indexed by its discriminant.
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
            // Infinities are answers themselves, but their differences are NaN.
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
                    // Of what is the largest itself nothing is taken out: two infinities are NaN apart.
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
    /// The monoid's row in the table.
    #[inline]
    pub const fn row(self) -> &'static MonoidRow {
        &MONOIDS[self as usize]
    }

    /// What folds begin with and an empty row gives, of a monoid of one component, in the form of [`Scalar::to_bits`].
    pub fn identity(self, dtype: DType) -> u64 {
        (self.row().identity[0])(dtype).to_bits(dtype)
    }

    /// The integer dtype of 64 bits that holds the elements of an integer dtype or bool: what a scan runs in.
    pub fn widest(dtype: DType) -> DType {
        if dtype == DType::U64 { DType::U64 } else { DType::I64 }
    }

    /// The dtype in which elements of `dtype` are put together.
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
