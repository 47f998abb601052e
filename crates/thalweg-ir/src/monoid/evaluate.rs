//! Interpreter's [`Build`]: evaluates expressions as they are built, by the meanings of their operations.

use super::Monoid;
use crate::element::{Build, Expr};
use crate::{DType, ElementOp, Scalar};

/// Values so far, each with its dtype; an [`Expr`] is an index of one.
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

    /// Value of an expression.
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
            let x: Vec<f64> = args.iter().map(|e| of(e).0.to_f64()).collect();
            let y = row.meaning.float.expect("defined on floats")(&x);
            if dtype.is_float() { Scalar::Float(dtype.round(y)) } else { Scalar::Int(y as i64) }
        } else {
            let x: Vec<i64> = args.iter().map(|e| of(e).0.to_i64()).collect();
            Scalar::Int(dtype.wrap(row.meaning.int.expect("defined on integers")(&x, operand)))
        };
        self.given(value, dtype)
    }

    fn constant(&mut self, like: Expr, value: f64) -> Expr {
        let dtype = self.values[like.0 as usize].1;
        self.given(Scalar::Float(value), dtype)
    }
}

/// Partial result of a fold by a monoid in a dtype.
#[derive(Clone, Debug)]
pub struct Partial {
    monoid: Monoid,
    dtype: DType,
    state: Vec<Scalar>,
}

impl Partial {
    /// Partial result of no elements.
    pub fn none(monoid: Monoid, dtype: DType) -> Partial {
        let state = monoid.row().identity.iter().map(|of| of(dtype)).collect();
        Partial { monoid, dtype, state }
    }

    /// Partial result of no elements that leaves the next element unchanged.
    pub fn neutral(monoid: Monoid, dtype: DType) -> Partial {
        let mut none = Partial::none(monoid, dtype);
        none.state[0] = (monoid.row().neutral)(dtype);
        none
    }

    /// Partial result of one element.
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

    /// Appends an element.
    pub fn push(&mut self, element: Scalar) {
        self.put(&Partial::of(self.monoid, self.dtype, element));
    }

    /// Result of the fold.
    pub fn result(&self) -> Scalar {
        let mut g = Evaluate::default();
        let state: Vec<Expr> = self.state.iter().map(|&v| g.given(v, self.dtype)).collect();
        let of = (self.monoid.row().finish)(&mut g, &state);
        g.value(of)
    }
}
