//! Rules of elementwise operations, from the derivative column of their table.
//!
//! A partial derivative is not computed and then multiplied: a derivative that is 1, a number, a select or a quotient
//! is applied to the gradient directly. So a masked-out gradient is 0, whatever the other side holds, and `exp`, `add`
//! and `where` cost the same as in handwritten code.

use super::{Argument, ArgumentGradients, Step, is_narrow};
use crate::record::{binary, ternary, unary};
use crate::tape::needs::{Partials, Term};
use crate::{DType, Operand, Scalar, Shape, Tensor};
use smallvec::SmallVec;
use thalweg_ir::ElementOp;
use thalweg_ir::element::Expr;

/// Value of a derivative's term; a number if the term is constant.
#[derive(Clone)]
enum TermValue {
    Number(f64),
    Tensor(Tensor),
}

impl TermValue {
    fn operand(&self) -> Operand<'_> {
        match self {
            TermValue::Number(v) => Operand::Scalar(Scalar::Float(*v)),
            TermValue::Tensor(t) => Operand::Tensor(t),
        }
    }
}

impl std::ops::Div<TermValue> for Tensor {
    type Output = Tensor;

    fn div(self, by: TermValue) -> Tensor {
        match by {
            TermValue::Number(v) => self / v,
            TermValue::Tensor(t) => self / t,
        }
    }
}

/// Evaluator of the terms of an operation's derivatives, each at most once.
struct Terms<'a> {
    partials: &'static Partials,
    args: &'a [Argument],
    result: Option<&'a Tensor>,
    dtype: DType,
    /// Values of the terms that were evaluated; empty before the first one.
    known: KnownTerms,
}

/// Values of terms that are known. Inline: the derivatives of most operations have fewer terms.
type KnownTerms = SmallVec<[Option<TermValue>; 8]>;

pub(super) fn rule(step: &Step<'_>, op: ElementOp, dy: &Tensor) -> ArgumentGradients {
    let partials = Partials::of(op).expect("what has no derivative has no node");
    (0..step.args.len())
        .map(|i| {
            let by = partials.by[i].filter(|_| step.wants(i))?;
            let shape = step.args[i].shape();
            let known = KnownTerms::new();
            let mut terms =
                Terms { partials, args: &step.args, result: step.result.as_ref(), dtype: dy.dtype(), known };
            if !is_narrow(dy.dtype()) || terms.is_plain(by) {
                return Some(terms.summed(dy, by, i, shape));
            }
            // In f32 and rounded once: bf16 and f16 would be rounded after each step.
            let args: SmallVec<[Argument; 3]> = step.args.iter().map(|a| wide(a, dy.dtype())).collect();
            let result = step.result.as_ref().map(|y| y.cast(DType::F32));
            let mut terms = Terms { args: &args, result: result.as_ref(), dtype: DType::F32, ..terms };
            let dx = terms.summed(&dy.cast(DType::F32), by, i, shape);
            Some(dx.cast(dy.dtype()))
        })
        .collect()
}

/// Converts an argument of dtype `narrow` to f32; a condition stays a bool.
fn wide(argument: &Argument, narrow: DType) -> Argument {
    match argument {
        Argument::Tensor { shape, value, .. } => {
            let value = value.as_ref().map(|v| if v.dtype() == narrow { v.cast(DType::F32) } else { v.clone() });
            Argument::Tensor { shape: *shape, dtype: DType::F32, value }
        }
        Argument::Scalar(bits) => Argument::Scalar(Scalar::from_bits(*bits, narrow).to_bits(DType::F32)),
    }
}

impl Terms<'_> {
    fn term(&self, e: Expr) -> &'static Term {
        &self.partials.terms[e.0 as usize]
    }

    /// Whether a term only selects the gradient or scales it by constants, which rounds once.
    fn is_plain(&self, e: Expr) -> bool {
        match self.term(e) {
            Term::Constant(_) => true,
            Term::Op(ElementOp::Where, args) => self.is_plain(args[1]) && self.is_plain(args[2]),
            _ => false,
        }
    }

    /// The gradient times a term, summed to the shape of argument `of`. If that was broadcast, factors that depend on
    /// it alone are equal for all summands, and are applied after the sum: the divisor of a row has the gradient
    /// `-(dy · y).sum() / s`, without a quotient per element.
    fn summed(&mut self, dy: &Tensor, e: Expr, of: usize, shape: &Shape) -> Tensor {
        if shape == dy.shape() {
            return self.times(dy, e);
        }
        match self.term(e) {
            Term::Constant(c) => scaled(&dy.sum_to(*shape), *c),
            Term::Op(ElementOp::Neg, args) => -self.summed(dy, args[0], of, shape),
            Term::Op(ElementOp::Div, args) if self.is_of(args[1], of) => {
                self.summed(dy, args[0], of, shape) / self.value(args[1])
            }
            _ => self.times(dy, e).sum_to(*shape),
        }
    }

    /// Whether a term is argument number `argument`, or computed from it and constants only.
    fn is_of(&self, e: Expr, argument: usize) -> bool {
        match self.term(e) {
            Term::Constant(_) => true,
            Term::Result => false,
            Term::Argument(i) => *i == argument,
            Term::Op(_, args) => args.iter().all(|&a| self.is_of(a, argument)),
        }
    }

    /// Multiplies the gradient by a term.
    fn times(&mut self, dy: &Tensor, e: Expr) -> Tensor {
        match self.term(e) {
            Term::Constant(c) => scaled(dy, *c),
            Term::Op(ElementOp::Neg, args) => -self.times(dy, args[0]),
            Term::Op(ElementOp::Div, args) if matches!(self.term(args[0]), Term::Constant(_)) => {
                self.times(dy, args[0]) / self.value(args[1])
            }
            Term::Op(ElementOp::Where, args) => match self.value(args[0]) {
                TermValue::Number(c) => self.times(dy, if c != 0.0 { args[1] } else { args[2] }),
                TermValue::Tensor(condition) => {
                    let mut side = |e: Expr| match self.term(e) {
                        Term::Constant(0.0) => TermValue::Number(0.0),
                        _ => TermValue::Tensor(self.times(dy, e)),
                    };
                    let (yes, no) = (side(args[1]), side(args[2]));
                    if let (TermValue::Number(_), TermValue::Number(_)) = (&yes, &no) {
                        return dy.zeros_like();
                    }
                    condition.where_(yes.operand(), no.operand())
                }
            },
            _ => match self.value(e) {
                TermValue::Number(c) => scaled(dy, c),
                TermValue::Tensor(t) => dy * t,
            },
        }
    }

    /// Evaluates a term, at most once.
    fn value(&mut self, e: Expr) -> TermValue {
        if let Some(Some(known)) = self.known.get(e.0 as usize) {
            return known.clone();
        }
        let known = match self.term(e) {
            Term::Constant(c) => return TermValue::Number(*c),
            Term::Result => {
                return TermValue::Tensor(self.result.expect("the result is kept where it is read").clone());
            }
            Term::Argument(i) => {
                return match self.args[*i].operand(self.dtype) {
                    Some(Operand::Tensor(t)) => TermValue::Tensor(t.clone()),
                    Some(Operand::Scalar(s)) => TermValue::Number(s.to_f64()),
                    None => unreachable!("a derivative reads an argument that was not kept"),
                };
            }
            Term::Op(op, args) => {
                let args: SmallVec<[TermValue; 3]> = args.iter().map(|&a| self.value(a)).collect();
                self.applied(*op, &args)
            }
        };
        if self.known.is_empty() {
            self.known.resize(self.partials.terms.len(), None);
        }
        self.known[e.0 as usize] = Some(known.clone());
        known
    }

    fn applied(&self, op: ElementOp, args: &[TermValue]) -> TermValue {
        let numbers: Option<SmallVec<[f64; 3]>> =
            args.iter().map(|a| if let TermValue::Number(v) = a { Some(*v) } else { None }).collect();
        if let Some(numbers) = numbers {
            let meaning = &op.row().meaning;
            return TermValue::Number(match (meaning.float, meaning.int) {
                (Some(f), _) => f(&numbers),
                (None, Some(f)) => f(&numbers.iter().map(|&v| v as i64).collect::<Vec<_>>(), DType::Bool) as f64,
                (None, None) => unreachable!("an operation has a meaning"),
            });
        }
        match (op, args) {
            (ElementOp::Where, [TermValue::Number(c), a, b]) => return if *c != 0.0 { a.clone() } else { b.clone() },
            // A select between two numbers has no dtype of its own.
            (ElementOp::Where, [TermValue::Tensor(c), TermValue::Number(a), b @ TermValue::Number(_)]) => {
                let a = Tensor::full_with((), *a, (self.dtype, c.device()));
                return TermValue::Tensor(c.where_(a, b.operand()));
            }
            (ElementOp::And, [TermValue::Number(c), other] | [other, TermValue::Number(c)]) => {
                return if *c != 0.0 { other.clone() } else { TermValue::Number(0.0) };
            }
            (ElementOp::Or, [TermValue::Number(c), other] | [other, TermValue::Number(c)]) => {
                return if *c != 0.0 { TermValue::Number(1.0) } else { other.clone() };
            }
            _ => {}
        }
        TermValue::Tensor(match args {
            [TermValue::Tensor(x)] => unary(op, x),
            [a, b] => binary(op, a.operand(), b.operand()),
            [a, b, c] => ternary(op, [a.operand(), b.operand(), c.operand()]),
            _ => unreachable!("an operation has one to three arguments"),
        })
    }
}

fn scaled(dy: &Tensor, c: f64) -> Tensor {
    if c == 1.0 {
        dy.clone()
    } else if c == -1.0 {
        -dy
    } else {
        dy * c
    }
}
