//! Rows of the table of elementwise operations. The parent module describes the columns.

use super::integers;
use super::meaning::{self as m, b};
use super::{Build, Classes, Derivative, ElementOp, Expansion, Expr, Meaning, Output, Row};
use crate::DType;
use ElementOp::*;

/// Creates the row of a unary operation on floats.
const fn float1(op: ElementOp, name: &'static str, cost: u32, f: fn(&[f64]) -> f64) -> Row {
    Row {
        op,
        name,
        arity: 1,
        takes: Classes::FLOAT,
        output: Output::Same,
        meaning: Meaning { float: Some(f), int: None },
        expand: None,
        derivative: None,
        flat: false,
        kink: None,
        jumps: false,
        function: false,
        ulps: 0,
        cost,
        commutative: false,
    }
}

impl Row {
    const fn arity(mut self, n: usize) -> Row {
        self.arity = n;
        self
    }
    const fn takes(mut self, c: Classes) -> Row {
        self.takes = c;
        self
    }
    const fn int(mut self, f: fn(&[i64], crate::DType) -> i64) -> Row {
        self.meaning.int = Some(f);
        self
    }
    const fn bool(mut self) -> Row {
        self.output = Output::Bool;
        self
    }
    const fn commutes(mut self) -> Row {
        self.commutative = true;
        self
    }
    const fn expand(mut self, f: Expansion) -> Row {
        self.expand = Some(f);
        self
    }
    const fn grad(mut self, f: Derivative) -> Row {
        self.derivative = Some(f);
        self
    }
    const fn flat(mut self) -> Row {
        self.flat = true;
        self
    }
    const fn kink(mut self, choice: &'static str) -> Row {
        self.kink = Some(choice);
        self
    }
    const fn jumps(mut self) -> Row {
        self.jumps = true;
        self
    }
    /// Marks the row as a function of a mathematical library, with this maximum error.
    const fn function(mut self, ulps: u32) -> Row {
        self.function = true;
        self.ulps = ulps;
        self
    }
    const fn ulps(mut self, n: u32) -> Row {
        self.ulps = n;
        self
    }
}

/// Creates the row of a binary operation on floats and integers.
const fn number2(
    op: ElementOp,
    name: &'static str,
    cost: u32,
    f: fn(&[f64]) -> f64,
    i: fn(&[i64], crate::DType) -> i64,
) -> Row {
    float1(op, name, cost, f).arity(2).takes(Classes::NUMBER).int(i)
}

/// Creates the row of an operation that is not defined on floats.
const fn int_only(
    op: ElementOp,
    name: &'static str,
    arity: usize,
    takes: Classes,
    i: fn(&[i64], crate::DType) -> i64,
) -> Row {
    let mut row = float1(op, name, 1, |_| f64::NAN).arity(arity).takes(takes).int(i);
    row.meaning.float = None;
    row
}

/// Expands to an integer reference function with a separate expression for u64, whose elements are passed as bits.
macro_rules! ints {
    (|$($x:ident),+| $signed:expr, unsigned $unsigned:expr) => {
        |x, d| {
            if d == DType::U64 {
                let [$($x),+] = std::array::from_fn(|i| x[i] as u64);
                return ($unsigned) as i64;
            }
            let [$($x),+] = std::array::from_fn(|i| x[i]);
            ($signed) as i64
        }
    };
    (|$($x:ident),+| $both:expr) => { ints!(|$($x),+| $both, unsigned $both) };
}

// Short forms for expansions and derivatives.
fn k(g: &mut dyn Build, like: Expr, v: f64) -> Expr {
    g.constant(like, v)
}
fn u(g: &mut dyn Build, op: ElementOp, x: Expr) -> Expr {
    g.op(op, &[x])
}
fn o(g: &mut dyn Build, op: ElementOp, x: Expr, y: Expr) -> Expr {
    g.op(op, &[x, y])
}
fn pick(g: &mut dyn Build, c: Expr, x: Expr, y: Expr) -> Expr {
    g.op(Where, &[c, x, y])
}
/// Builds `c · x`.
fn scale(g: &mut dyn Build, x: Expr, c: f64) -> Expr {
    let c = k(g, x, c);
    o(g, Mul, x, c)
}
/// Builds `1 / x`.
fn inv(g: &mut dyn Build, x: Expr) -> Expr {
    let one = k(g, x, 1.0);
    o(g, Div, one, x)
}
/// Builds `1 - x²` as `(1 - x)·(1 + x)`.
fn one_minus_square(g: &mut dyn Build, x: Expr) -> Expr {
    let one = k(g, x, 1.0);
    let (lo, hi) = (o(g, Sub, one, x), o(g, Add, one, x));
    o(g, Mul, lo, hi)
}
/// Builds `x` where the condition `c` holds, else 0.
fn gate(g: &mut dyn Build, c: Expr, x: Expr) -> Expr {
    let zero = k(g, x, 0.0);
    pick(g, c, x, zero)
}
/// Builds the float with magnitude `magnitude` and the sign of `s`. A zero `s`, whose magnitude is 0, is the result
/// itself, so that -0 keeps its sign.
fn with_sign(g: &mut dyn Build, magnitude: Expr, s: Expr) -> Expr {
    let zero = k(g, s, 0.0);
    let (below, neg) = (o(g, Lt, s, zero), u(g, Neg, magnitude));
    let signed = pick(g, below, neg, magnitude);
    let is_zero = o(g, Eq, s, zero);
    pick(g, is_zero, s, signed)
}

/// Builds `1 / (1 + e^(-|x|))`.
#[cfg(feature = "probe")]
fn toward_one(g: &mut dyn Build, x: Expr) -> Expr {
    let size = u(g, Abs, x);
    let less = u(g, Neg, size);
    let (decay, one) = (u(g, Exp, less), k(g, x, 1.0));
    let sum = o(g, Add, one, decay);
    o(g, Div, one, sum)
}

use std::f64::consts::{FRAC_2_SQRT_PI, FRAC_PI_2, LN_2, LN_10, LOG2_E, LOG10_E, PI};

/// All elementwise operations, indexed by discriminant.
pub static ROWS: &[Row] = &[
    float1(Neg, "neg", 1, |x| -x[0])
        .takes(Classes::NUMBER)
        .int(|x, _| x[0].wrapping_neg())
        .grad(|g, x, _| vec![Some(k(g, x[0], -1.0))]),
    float1(Abs, "abs", 1, |x| x[0].abs())
        .takes(Classes::NUMBER)
        .int(ints!(|a| a.wrapping_abs(), unsigned a))
        .grad(|g, x, _| vec![Some(u(g, Sign, x[0]))])
        .kink("0 at 0"),
    float1(Sign, "sign", 3, |x| m::sign(x[0]))
        .takes(Classes::NUMBER)
        .int(ints!(|a| a.signum(), unsigned a.min(1)))
        .expand(|g, x| {
            let (zero, one, minus) = (k(g, x[0], 0.0), k(g, x[0], 1.0), k(g, x[0], -1.0));
            let (above, below, equal) = (o(g, Gt, x[0], zero), o(g, Lt, x[0], zero), o(g, Eq, x[0], zero));
            let rest = pick(g, equal, zero, x[0]);
            let rest = pick(g, below, minus, rest);
            pick(g, above, one, rest)
        })
        .flat(),
    float1(Square, "square", 1, |x| x[0] * x[0])
        .takes(Classes::NUMBER)
        .int(|x, _| x[0].wrapping_mul(x[0]))
        .expand(|g, x| o(g, Mul, x[0], x[0]))
        .grad(|g, x, _| vec![Some(scale(g, x[0], 2.0))]),
    float1(Sqrt, "sqrt", 6, |x| libm::sqrt(x[0])).grad(|g, _, y| {
        let half = k(g, y, 0.5);
        vec![Some(o(g, Div, half, y))]
    }),
    float1(Rsqrt, "rsqrt", 10, |x| 1.0 / libm::sqrt(x[0]))
        .expand(|g, x| {
            let root = u(g, Sqrt, x[0]);
            inv(g, root)
        })
        .grad(|g, x, y| {
            let q = o(g, Div, y, x[0]);
            vec![Some(scale(g, q, -0.5))]
        })
        .ulps(2),
    float1(Recip, "recip", 5, |x| 1.0 / x[0]).expand(|g, x| inv(g, x[0])).grad(|g, _, y| {
        let s = o(g, Mul, y, y);
        vec![Some(u(g, Neg, s))]
    }),
    float1(Exp, "exp", 8, |x| libm::exp(x[0])).grad(|_, _, y| vec![Some(y)]).function(2),
    float1(Exp2, "exp2", 8, |x| libm::exp2(x[0])).grad(|g, _, y| vec![Some(scale(g, y, LN_2))]).function(2),
    float1(Expm1, "expm1", 11, |x| libm::expm1(x[0]))
        .grad(|g, _, y| {
            let one = k(g, y, 1.0);
            vec![Some(o(g, Add, y, one))]
        })
        .function(2),
    float1(Log, "log", 17, |x| libm::log(x[0])).grad(|g, x, _| vec![Some(inv(g, x[0]))]).function(2),
    float1(Log2, "log2", 17, |x| libm::log2(x[0]))
        .grad(|g, x, _| {
            let c = k(g, x[0], LOG2_E);
            vec![Some(o(g, Div, c, x[0]))]
        })
        .function(2),
    float1(Log10, "log10", 18, |x| libm::log10(x[0]))
        .expand(|g, x| {
            let l = u(g, Log, x[0]);
            let c = k(g, x[0], LN_10);
            o(g, Div, l, c)
        })
        .grad(|g, x, _| {
            let c = k(g, x[0], LOG10_E);
            vec![Some(o(g, Div, c, x[0]))]
        })
        .function(4),
    float1(Log1p, "log1p", 18, |x| libm::log1p(x[0]))
        .grad(|g, x, _| {
            let one = k(g, x[0], 1.0);
            let s = o(g, Add, x[0], one);
            vec![Some(inv(g, s))]
        })
        .function(2),
    float1(Sin, "sin", 10, |x| libm::sin(x[0])).grad(|g, x, _| vec![Some(u(g, Cos, x[0]))]).function(2),
    float1(Cos, "cos", 10, |x| libm::cos(x[0]))
        .grad(|g, x, _| {
            let s = u(g, Sin, x[0]);
            vec![Some(u(g, Neg, s))]
        })
        .function(2),
    float1(Tan, "tan", 27, |x| libm::tan(x[0]))
        .expand(|g, x| {
            let (s, c) = (u(g, Sin, x[0]), u(g, Cos, x[0]));
            o(g, Div, s, c)
        })
        .grad(|g, _, y| {
            let (one, s) = (k(g, y, 1.0), o(g, Mul, y, y));
            vec![Some(o(g, Add, one, s))]
        })
        .function(8),
    float1(Asin, "asin", 70, |x| libm::asin(x[0]))
        .expand(|g, x| {
            let s = one_minus_square(g, x[0]);
            let c = u(g, Sqrt, s);
            o(g, Atan2, x[0], c)
        })
        .grad(|g, x, _| {
            let s = one_minus_square(g, x[0]);
            let r = u(g, Sqrt, s);
            vec![Some(inv(g, r))]
        })
        .function(8),
    float1(Acos, "acos", 70, |x| libm::acos(x[0]))
        .expand(|g, x| {
            let s = one_minus_square(g, x[0]);
            let c = u(g, Sqrt, s);
            o(g, Atan2, c, x[0])
        })
        .grad(|g, x, _| {
            let s = one_minus_square(g, x[0]);
            let r = u(g, Sqrt, s);
            let d = inv(g, r);
            vec![Some(u(g, Neg, d))]
        })
        .function(8),
    float1(Atan, "atan", 18, |x| libm::atan(x[0]))
        .grad(|g, x, _| {
            let (one, s) = (k(g, x[0], 1.0), o(g, Mul, x[0], x[0]));
            let s = o(g, Add, one, s);
            vec![Some(inv(g, s))]
        })
        .function(2),
    float1(Sinh, "sinh", 36, |x| libm::sinh(x[0]))
        .expand(|g, x| {
            // With e = expm1(|x|): sinh|x| = (e + e/(e + 1))/2. Beyond 88, e overflows before sinh does, so the
            // exponential of half the argument is used.
            let a = u(g, Abs, x[0]);
            let (one, half, far) = (k(g, a, 1.0), k(g, a, 0.5), k(g, a, 20.0));
            let e = u(g, Expm1, a);
            let e1 = o(g, Add, e, one);
            let q = o(g, Div, e, e1);
            let s = o(g, Add, e, q);
            let near = o(g, Mul, s, half);
            let h = o(g, Mul, a, half);
            let eh = u(g, Exp, h);
            let t = o(g, Mul, eh, half);
            let large = o(g, Mul, t, eh);
            let is_far = o(g, Gt, a, far);
            let magnitude = pick(g, is_far, large, near);
            with_sign(g, magnitude, x[0])
        })
        .grad(|g, x, _| vec![Some(u(g, Cosh, x[0]))])
        .function(8),
    float1(Cosh, "cosh", 30, |x| libm::cosh(x[0]))
        .expand(|g, x| {
            let a = u(g, Abs, x[0]);
            let (half, far) = (k(g, a, 0.5), k(g, a, 20.0));
            let e = u(g, Exp, a);
            let r = inv(g, e);
            let s = o(g, Add, e, r);
            let near = o(g, Mul, s, half);
            let h = o(g, Mul, a, half);
            let eh = u(g, Exp, h);
            let t = o(g, Mul, eh, half);
            let large = o(g, Mul, t, eh);
            let is_far = o(g, Gt, a, far);
            pick(g, is_far, large, near)
        })
        .grad(|g, x, _| vec![Some(u(g, Sinh, x[0]))])
        .function(8),
    float1(Tanh, "tanh", 18, |x| libm::tanh(x[0])).grad(|g, _, y| vec![Some(one_minus_square(g, y))]).function(4),
    float1(Asinh, "asinh", 30, |x| libm::asinh(x[0]))
        .expand(|g, x| {
            // asinh|x| = log1p(|x| + x²/(1 + √(x² + 1))); beyond 1e9 it is log|x| + ln 2.
            let a = u(g, Abs, x[0]);
            let (one, far, ln2) = (k(g, a, 1.0), k(g, a, 1e9), k(g, a, LN_2));
            let s = o(g, Mul, a, a);
            let s1 = o(g, Add, s, one);
            let r = u(g, Sqrt, s1);
            let d = o(g, Add, r, one);
            let q = o(g, Div, s, d);
            let t = o(g, Add, a, q);
            let near = u(g, Log1p, t);
            let l = u(g, Log, a);
            let large = o(g, Add, l, ln2);
            let is_far = o(g, Gt, a, far);
            let magnitude = pick(g, is_far, large, near);
            with_sign(g, magnitude, x[0])
        })
        .grad(|g, x, _| {
            let (one, s) = (k(g, x[0], 1.0), o(g, Mul, x[0], x[0]));
            let s = o(g, Add, s, one);
            vec![Some(u(g, Rsqrt, s))]
        })
        .function(8),
    float1(Acosh, "acosh", 28, |x| if x[0] < 1.0 { f64::NAN } else { libm::acosh(x[0]) })
        .expand(|g, x| {
            // With t = x - 1: acosh x = log1p(t + √(2t + t²)); beyond 1e9 it is log x + ln 2.
            let (one, two, far, ln2) = (k(g, x[0], 1.0), k(g, x[0], 2.0), k(g, x[0], 1e9), k(g, x[0], LN_2));
            let t = o(g, Sub, x[0], one);
            let t2 = o(g, Add, t, two);
            let p = o(g, Mul, t, t2);
            let r = u(g, Sqrt, p);
            let s = o(g, Add, t, r);
            let near = u(g, Log1p, s);
            let l = u(g, Log, x[0]);
            let large = o(g, Add, l, ln2);
            let is_far = o(g, Gt, x[0], far);
            let y = pick(g, is_far, large, near);
            let (below, nan) = (o(g, Lt, x[0], one), k(g, x[0], f64::NAN));
            pick(g, below, nan, y)
        })
        .grad(|g, x, _| {
            let one = k(g, x[0], 1.0);
            let (lo, hi) = (o(g, Sub, x[0], one), o(g, Add, x[0], one));
            let s = o(g, Mul, lo, hi);
            vec![Some(u(g, Rsqrt, s))]
        })
        .function(8),
    float1(Atanh, "atanh", 26, |x| libm::atanh(x[0]))
        .expand(|g, x| {
            let a = u(g, Abs, x[0]);
            let one = k(g, a, 1.0);
            let d = o(g, Sub, one, a);
            let t = o(g, Add, a, a);
            let q = o(g, Div, t, d);
            let l = u(g, Log1p, q);
            let magnitude = scale(g, l, 0.5);
            with_sign(g, magnitude, x[0])
        })
        .grad(|g, x, _| {
            let s = one_minus_square(g, x[0]);
            vec![Some(inv(g, s))]
        })
        .function(8),
    float1(Erf, "erf", 20, |x| libm::erf(x[0]))
        .grad(|g, x, _| {
            let s = o(g, Mul, x[0], x[0]);
            let n = u(g, Neg, s);
            let e = u(g, Exp, n);
            vec![Some(scale(g, e, FRAC_2_SQRT_PI))]
        })
        .function(4),
    float1(Erfc, "erfc", 30, |x| libm::erfc(x[0]))
        .grad(|g, x, _| {
            let s = o(g, Mul, x[0], x[0]);
            let n = u(g, Neg, s);
            let e = u(g, Exp, n);
            vec![Some(scale(g, e, -FRAC_2_SQRT_PI))]
        })
        .function(8),
    float1(Sigmoid, "sigmoid", 12, |x| m::sigmoid(x[0]))
        .expand(|g, x| {
            // e^(-|x|) never overflows, and preserves the small results of large negative x.
            let a = u(g, Abs, x[0]);
            let n = u(g, Neg, a);
            let e = u(g, Exp, n);
            let (zero, one) = (k(g, e, 0.0), k(g, e, 1.0));
            let below = o(g, Lt, x[0], zero);
            let top = pick(g, below, e, one);
            let bottom = o(g, Add, e, one);
            o(g, Div, top, bottom)
        })
        .grad(|g, _, y| {
            let one = k(g, y, 1.0);
            let c = o(g, Sub, one, y);
            vec![Some(o(g, Mul, y, c))]
        })
        .function(4),
    float1(Relu, "relu", 1, |x| if x[0] <= 0.0 { 0.0 } else { x[0] })
        .takes(Classes::NUMBER)
        .int(ints!(|a| a.max(0), unsigned a))
        .expand(|g, x| {
            let zero = k(g, x[0], 0.0);
            let below = o(g, Le, x[0], zero);
            pick(g, below, zero, x[0])
        })
        .grad(|g, _, y| {
            // From the result, so that the argument need not be saved as well.
            let (zero, one) = (k(g, y, 0.0), k(g, y, 1.0));
            let above = o(g, Gt, y, zero);
            vec![Some(pick(g, above, one, zero))]
        })
        .kink("0 at 0"),
    float1(Floor, "floor", 1, |x| libm::floor(x[0])).flat(),
    float1(Ceil, "ceil", 1, |x| libm::ceil(x[0])).flat(),
    float1(Round, "round", 1, |x| libm::rint(x[0])).flat(),
    float1(Trunc, "trunc", 1, |x| libm::trunc(x[0])).flat(),
    float1(IsNan, "is_nan", 1, |x| b(x[0].is_nan())).bool().expand(|g, x| o(g, Ne, x[0], x[0])),
    float1(IsInf, "is_inf", 2, |x| b(x[0].is_infinite())).bool().expand(|g, x| {
        let (a, inf) = (u(g, Abs, x[0]), k(g, x[0], f64::INFINITY));
        o(g, Eq, a, inf)
    }),
    float1(IsFinite, "is_finite", 2, |x| b(x[0].is_finite())).bool().expand(|g, x| {
        let (a, inf) = (u(g, Abs, x[0]), k(g, x[0], f64::INFINITY));
        o(g, Lt, a, inf)
    }),
    int_only(Not, "not", 1, Classes::BOOL, |x, _| 1 - x[0]),
    int_only(BitNot, "bit_not", 1, Classes::INT, |x, _| !x[0]),
    number2(Add, "add", 1, |x| x[0] + x[1], |x, _| x[0].wrapping_add(x[1])).commutes().grad(|g, x, _| {
        let one = k(g, x[0], 1.0);
        vec![Some(one), Some(one)]
    }),
    number2(Sub, "sub", 1, |x| x[0] - x[1], |x, _| x[0].wrapping_sub(x[1]))
        .grad(|g, x, _| vec![Some(k(g, x[0], 1.0)), Some(k(g, x[0], -1.0))]),
    number2(Mul, "mul", 1, |x| x[0] * x[1], |x, _| x[0].wrapping_mul(x[1]))
        .commutes()
        .grad(|_, x, _| vec![Some(x[1]), Some(x[0])]),
    number2(Div, "div", 5, |x| x[0] / x[1], ints!(|a, b| integers::div(a, b), unsigned integers::div_unsigned(a, b)))
        .grad(|g, x, y| {
            let (r, q) = (inv(g, x[1]), o(g, Div, y, x[1]));
            vec![Some(r), Some(u(g, Neg, q))]
        }),
    number2(
        FloorDiv,
        "floor_div",
        6,
        |x| libm::floor(x[0] / x[1]),
        ints!(|a, b| integers::floor_div(a, b), unsigned integers::div_unsigned(a, b)),
    )
    .flat(),
    number2(
        Rem,
        "rem",
        12,
        |x| m::rem(x[0], x[1]),
        ints!(|a, b| integers::rem(a, b), unsigned integers::rem_unsigned(a, b)),
    )
    .jumps()
    .grad(|g, x, _| {
        let q = o(g, FloorDiv, x[0], x[1]);
        vec![Some(k(g, x[0], 1.0)), Some(u(g, Neg, q))]
    }),
    number2(
        Pow,
        "pow",
        75,
        |x| libm::pow(x[0], x[1]),
        ints!(|a, b| integers::pow(a, b), unsigned integers::pow_unsigned(a, b)),
    )
    .grad(|g, x, y| {
        // b·a^(b-1), 0 if b is 0; and y·ln a, 0 if a is 0 and b not negative.
        let (one, none) = (k(g, x[1], 1.0), k(g, x[1], 0.0));
        let less = o(g, Sub, x[1], one);
        let p = o(g, Pow, x[0], less);
        let da = o(g, Mul, x[1], p);
        let varies = o(g, Ne, x[1], none);
        let l = u(g, Log, x[0]);
        let t = o(g, Mul, y, l);
        let zero = k(g, y, 0.0);
        let (nonzero, below) = (o(g, Ne, x[0], zero), o(g, Lt, x[1], none));
        let either = o(g, Or, nonzero, below);
        vec![Some(gate(g, varies, da)), Some(gate(g, either, t))]
    })
    .function(4),
    number2(Minimum, "minimum", 2, |x| m::minimum(x[0], x[1]), ints!(|a, b| a.min(b)))
        .commutes()
        .grad(|g, x, _| {
            let (one, half, zero) = (k(g, x[0], 1.0), k(g, x[0], 0.5), k(g, x[0], 0.0));
            let (less, equal) = (o(g, Lt, x[0], x[1]), o(g, Eq, x[0], x[1]));
            let (rest, other) = (pick(g, equal, half, zero), pick(g, equal, half, one));
            vec![Some(pick(g, less, one, rest)), Some(pick(g, less, zero, other))]
        })
        .kink("half to each where they are equal"),
    number2(Maximum, "maximum", 2, |x| m::maximum(x[0], x[1]), ints!(|a, b| a.max(b)))
        .commutes()
        .grad(|g, x, _| {
            let (one, half, zero) = (k(g, x[0], 1.0), k(g, x[0], 0.5), k(g, x[0], 0.0));
            let (more, equal) = (o(g, Gt, x[0], x[1]), o(g, Eq, x[0], x[1]));
            let (rest, other) = (pick(g, equal, half, zero), pick(g, equal, half, one));
            vec![Some(pick(g, more, one, rest)), Some(pick(g, more, zero, other))]
        })
        .kink("half to each where they are equal"),
    float1(Atan2, "atan2", 26, |x| libm::atan2(x[0], x[1]))
        .arity(2)
        .expand(|g, x| {
            // Dividing the smaller by the larger magnitude keeps atan's argument in [0, 1]; then the octants are
            // unfolded.
            let (y, x) = (x[0], x[1]);
            let (zero, one, inf) = (k(g, x, 0.0), k(g, x, 1.0), k(g, x, f64::INFINITY));
            let (ay, ax) = (u(g, Abs, y), u(g, Abs, x));
            let (lo, hi) = (o(g, Minimum, ay, ax), o(g, Maximum, ay, ax));
            let q = o(g, Div, lo, hi);
            // 0/0 means an angle of 0, inf/inf one of 45°.
            let at_zero = o(g, Eq, hi, zero);
            let q = pick(g, at_zero, zero, q);
            let at_inf = o(g, Eq, lo, inf);
            let q = pick(g, at_inf, one, q);
            let t = u(g, Atan, q);
            let (right, straight) = (k(g, x, FRAC_PI_2), k(g, x, PI));
            let steep = o(g, Gt, ay, ax);
            let reflected = o(g, Sub, right, t);
            let t = pick(g, steep, reflected, t);
            // The sign bit, so that -0 counts as negative: 1/-0 is below 0.
            let rx = o(g, Div, one, x);
            let (x_below, x_zero, rx_below) = (o(g, Lt, x, zero), o(g, Eq, x, zero), o(g, Lt, rx, zero));
            let x_minus_zero = o(g, And, x_zero, rx_below);
            let left = o(g, Or, x_below, x_minus_zero);
            let mirrored = o(g, Sub, straight, t);
            let t = pick(g, left, mirrored, t);
            let ry = o(g, Div, one, y);
            let (y_below, y_zero, ry_below) = (o(g, Lt, y, zero), o(g, Eq, y, zero), o(g, Lt, ry, zero));
            let y_minus_zero = o(g, And, y_zero, ry_below);
            let down = o(g, Or, y_below, y_minus_zero);
            let n = u(g, Neg, t);
            pick(g, down, n, t)
        })
        .grad(|g, x, _| {
            let (a, c) = (o(g, Mul, x[0], x[0]), o(g, Mul, x[1], x[1]));
            let s = o(g, Add, a, c);
            let (dy, q) = (o(g, Div, x[1], s), o(g, Div, x[0], s));
            // 0 at the origin, as in PyTorch.
            let zero = k(g, s, 0.0);
            let somewhere = o(g, Ne, s, zero);
            let dx = u(g, Neg, q);
            vec![Some(gate(g, somewhere, dy)), Some(gate(g, somewhere, dx))]
        })
        .function(8),
    float1(Hypot, "hypot", 16, |x| libm::hypot(x[0], x[1]))
        .arity(2)
        .commutes()
        .expand(|g, x| {
            // Scaled by the larger magnitude: hi·√(1 + (lo/hi)²).
            let (a, c) = (u(g, Abs, x[0]), u(g, Abs, x[1]));
            let (lo, hi) = (o(g, Minimum, a, c), o(g, Maximum, a, c));
            let (zero, one, inf) = (k(g, hi, 0.0), k(g, hi, 1.0), k(g, hi, f64::INFINITY));
            let q = o(g, Div, lo, hi);
            let s = o(g, Mul, q, q);
            let s = o(g, Add, s, one);
            let r = u(g, Sqrt, s);
            let t = o(g, Mul, hi, r);
            let at_zero = o(g, Eq, hi, zero);
            let t = pick(g, at_zero, zero, t);
            // An infinity takes precedence over NaN (IEEE 754 hypot).
            let (a_inf, c_inf) = (o(g, Eq, a, inf), o(g, Eq, c, inf));
            let any = o(g, Or, a_inf, c_inf);
            pick(g, any, inf, t)
        })
        .grad(|g, x, y| vec![Some(o(g, Div, x[0], y)), Some(o(g, Div, x[1], y))])
        .function(4)
        .kink("NaN where both are 0"),
    number2(Eq, "eq", 1, |x| b(x[0] == x[1]), |x, _| (x[0] == x[1]) as i64).takes(Classes::ANY).bool().commutes(),
    number2(Ne, "ne", 1, |x| b(x[0] != x[1]), |x, _| (x[0] != x[1]) as i64).takes(Classes::ANY).bool().commutes(),
    number2(Lt, "lt", 1, |x| b(x[0] < x[1]), ints!(|a, b| a < b)).bool(),
    number2(Le, "le", 1, |x| b(x[0] <= x[1]), ints!(|a, b| a <= b)).bool(),
    number2(Gt, "gt", 1, |x| b(x[0] > x[1]), ints!(|a, b| a > b)).bool(),
    number2(Ge, "ge", 1, |x| b(x[0] >= x[1]), ints!(|a, b| a >= b)).bool(),
    int_only(And, "and", 2, Classes::BOOL, |x, _| x[0] & x[1]).commutes(),
    int_only(Or, "or", 2, Classes::BOOL, |x, _| x[0] | x[1]).commutes(),
    int_only(Xor, "xor", 2, Classes::BOOL, |x, _| x[0] ^ x[1]).commutes(),
    int_only(BitAnd, "bit_and", 2, Classes::INT, |x, _| x[0] & x[1]).commutes(),
    int_only(BitOr, "bit_or", 2, Classes::INT, |x, _| x[0] | x[1]).commutes(),
    int_only(BitXor, "bit_xor", 2, Classes::INT, |x, _| x[0] ^ x[1]).commutes(),
    int_only(Shl, "shl", 2, Classes::INT, |x, d| m::shl(x[0], x[1], d)),
    int_only(Shr, "shr", 2, Classes::INT, |x, d| m::shr(x[0], x[1], d)),
    float1(Where, "where", 1, |x| if x[0] != 0.0 { x[1] } else { x[2] })
        .arity(3)
        .takes(Classes::ANY)
        .int(|x, _| if x[0] != 0 { x[1] } else { x[2] })
        .grad(|g, x, y| {
            let (one, zero) = (k(g, y, 1.0), k(g, y, 0.0));
            vec![None, Some(pick(g, x[0], one, zero)), Some(pick(g, x[0], zero, one))]
        }),
    float1(Clamp, "clamp", 4, |x| m::minimum(m::maximum(x[0], x[1]), x[2]))
        .arity(3)
        .takes(Classes::NUMBER)
        .int(ints!(|a, b, c| a.max(b).min(c)))
        .expand(|g, x| {
            let t = o(g, Maximum, x[0], x[1]);
            o(g, Minimum, t, x[2])
        })
        .grad(|g, x, _| {
            let (one, zero) = (k(g, x[0], 1.0), k(g, x[0], 0.0));
            let (low, high) = (o(g, Lt, x[0], x[1]), o(g, Gt, x[0], x[2]));
            let outside = o(g, Or, low, high);
            // If the bounds cross, the upper one wins.
            let crossed = o(g, Gt, x[1], x[2]);
            let at_high = o(g, Or, high, crossed);
            let uncrossed = u(g, Not, crossed);
            let at_low = o(g, And, low, uncrossed);
            vec![Some(pick(g, outside, zero, one)), Some(pick(g, at_low, one, zero)), Some(pick(g, at_high, one, zero))]
        })
        .kink("at a bound the value has it all"),
    float1(Lerp, "lerp", 3, |x| x[0] + x[2] * (x[1] - x[0]))
        .arity(3)
        .expand(|g, x| {
            let d = o(g, Sub, x[1], x[0]);
            let t = o(g, Mul, x[2], d);
            o(g, Add, x[0], t)
        })
        .grad(|g, x, _| {
            let one = k(g, x[2], 1.0);
            vec![Some(o(g, Sub, one, x[2])), Some(x[2]), Some(o(g, Sub, x[1], x[0]))]
        }),
    #[cfg(feature = "probe")]
    float1(Probe, "probe", 16, |x| x[0] / (1.0 + libm::exp(-x[0].abs())))
        .expand(|g, x| {
            let weight = toward_one(g, x[0]);
            o(g, Mul, x[0], weight)
        })
        .grad(|g, x, _| {
            let (one, size, weight) = (k(g, x[0], 1.0), u(g, Abs, x[0]), toward_one(g, x[0]));
            let rest = o(g, Sub, one, weight);
            let grows = o(g, Mul, size, rest);
            let factor = o(g, Add, one, grows);
            vec![Some(o(g, Mul, weight, factor))]
        })
        .function(4),
];
