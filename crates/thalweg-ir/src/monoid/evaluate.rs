//! Reference evaluation of monoids: a [`Build`]er that evaluates expressions as they are built, by the reference
//! functions of their operations.

use super::Monoid;
use crate::element::{Build, Expr};
use crate::{DType, ElementOp, Scalar};

/// Builder that evaluates expressions. It holds the values so far, with their dtypes; an [`Expr`] is an index into
/// them.
#[derive(Default)]
pub struct Evaluate {
    values: Vec<(Scalar, DType)>,
}

impl Evaluate {
    /// Adds a value that is representable in a dtype.
    pub fn given(&mut self, value: Scalar, dtype: DType) -> Expr {
        let value =
            if dtype.is_float() { Scalar::Float(value.to_f64()) } else { Scalar::integer(value.to_i64(), dtype) };
        self.values.push((value, dtype));
        Expr(self.values.len() as u32 - 1)
    }

    /// Returns the value of an expression.
    pub fn value(&self, of: Expr) -> Scalar {
        self.values[of.0 as usize].0
    }
}

impl Build for Evaluate {
    fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr {
        let of = |e: &Expr| self.values[e.0 as usize];
        // For `Where`, the last argument is a value and not the condition.
        let operand = args.last().map_or(DType::Bool, |e| of(e).1);
        let (row, dtype) = (op.row(), op.output(operand));
        let value = if operand.is_float() {
            let mut x = [0.0; 3];
            for (x, arg) in x.iter_mut().zip(args) {
                *x = of(arg).0.to_f64();
            }
            let y = row.meaning.float.expect("defined on floats")(&x[..args.len()]);
            if dtype.is_float() { Scalar::Float(dtype.round(y)) } else { Scalar::Int(y as i64) }
        } else {
            let mut x = [0; 3];
            for (x, arg) in x.iter_mut().zip(args) {
                *x = of(arg).0.to_i64();
            }
            Scalar::Int(dtype.wrap(row.meaning.int.expect("defined on integers")(&x[..args.len()], operand)))
        };
        self.given(value, dtype)
    }

    fn constant(&mut self, like: Expr, value: f64) -> Expr {
        let dtype = self.values[like.0 as usize].1;
        self.given(Scalar::Float(value), dtype)
    }
}

/// Partial result of a fold of elements of one dtype by a monoid.
#[derive(Clone, Debug)]
pub struct Partial {
    monoid: Monoid,
    dtype: DType,
    state: Vec<Scalar>,
}

impl Partial {
    /// Returns the partial result of no elements: the identity.
    pub fn none(monoid: Monoid, dtype: DType) -> Partial {
        let state = monoid.row().identity.iter().map(|of| of(dtype)).collect();
        Partial { monoid, dtype, state }
    }

    /// Returns a partial result of no elements that leaves the bits of the next element unchanged
    /// ([`MonoidRow::neutral`](crate::monoid::MonoidRow::neutral)).
    pub fn neutral(monoid: Monoid, dtype: DType) -> Partial {
        let mut none = Partial::none(monoid, dtype);
        none.state[0] = (monoid.row().neutral)(dtype);
        none
    }

    /// Returns the partial result of one element.
    pub fn of(monoid: Monoid, dtype: DType, element: Scalar) -> Partial {
        let (mut g, mut state) = (Evaluate::default(), vec![]);
        let x = g.given(element, dtype);
        (monoid.row().lift)(&mut g, x, &mut state);
        Partial { monoid, dtype, state: state.into_iter().map(|e| g.value(e)).collect() }
    }

    /// Combines this partial result with the one of the elements after it.
    pub fn put(&mut self, next: &Partial) {
        let (mut g, mut out) = (Evaluate::default(), vec![]);
        let mut given = |state: &[Scalar]| state.iter().map(|&v| g.given(v, self.dtype)).collect::<Vec<_>>();
        let (a, b) = (given(&self.state), given(&next.state));
        (self.monoid.row().combine)(&mut g, &a, &b, &mut out);
        self.state = out.into_iter().map(|e| g.value(e)).collect();
        if self.monoid.row().canonical_nan && self.state[0].to_f64().is_nan() {
            self.state[0] = Scalar::Float(f64::NAN);
        }
    }

    /// Adds the next element to the fold.
    pub fn push(&mut self, element: Scalar) {
        self.put(&Partial::of(self.monoid, self.dtype, element));
    }

    /// Returns the result of the fold.
    pub fn result(&self) -> Scalar {
        let mut g = Evaluate::default();
        let state: Vec<Expr> = self.state.iter().map(|&v| g.given(v, self.dtype)).collect();
        let of = (self.monoid.row().finish)(&mut g, &state);
        g.value(of)
    }
}
