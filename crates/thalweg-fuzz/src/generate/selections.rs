//! Selections by values computed just before: extremes compared with their source, step functions and comparisons after
//! a chain, differences of equal products. Their results are kept, so that they are compared.
//!
//! Every plan must select alike ([`crate::selection`]). Random steps seldom test this because few of their comparisons
//! are between a value and an extreme of it.

use super::Generator;
use crate::program::{Argument, Tensor};
use fastrand::Rng;
use thalweg_ir::{DType, ElementOp, Op, REVERSE, ReduceOp, ScanOp};

use ElementOp::{
    Abs, Add, Ceil, Div, Eq, Floor, Ge, Gt, Maximum, Mul, Ne, Rem, Round, Sign, Sqrt, Square, Sub, Tanh, Where,
};

impl Generator {
    /// Adds some selections at the end of a program; `None` if one does not apply.
    pub(super) fn selections(&mut self, rng: &mut Rng) -> Option<()> {
        for _ in 0..rng.usize(1..4) {
            let x = self.tensor(|p, t| p.dtype(t).is_float() && p.shape(t).rank() > 0 && p.shape(t).numel() > 0)?;
            match rng.u32(..4) {
                0 => self.extremes_of(x, rng)?,
                1 => self.discontinuity_after_chain(x, rng)?,
                2 => self.order_of(x, rng)?,
                _ => self.equal_products(x, rng)?,
            };
        }
        Some(())
    }

    /// Records a chain of operations that all round, so that unrounded intermediates give other values.
    fn chain(&mut self, mut x: Tensor, rng: &mut Rng) -> Option<Tensor> {
        for _ in 0..rng.usize(1..5) {
            x = match rng.u32(..6) {
                0 => self.with_number(Div, x, 3.3)?,
                1 => self.with_number(Mul, x, rng.f64() * 3.0)?,
                2 => self.with_number(Add, x, rng.f64() - 0.5)?,
                3 => self.unary(Tanh, x)?,
                4 => {
                    let y = self.with_number(Mul, x, 1.0 + rng.f64())?;
                    self.binary(Add, y, x)?
                }
                _ => self.binary(Mul, x, x)?,
            };
        }
        Some(x)
    }

    fn keep(&mut self, t: Tensor) -> Tensor {
        if let Tensor::Step(i) = t {
            self.program.steps[i].kept = true;
        }
        t
    }

    /// Records `s == max(s)`, its index, and the gradient of an extreme, which is divided among the equal elements.
    fn extremes_of(&mut self, x: Tensor, rng: &mut Rng) -> Option<Tensor> {
        let s = self.chain(x, rng)?;
        let axis = 1 << rng.usize(..self.program.shape(s).rank());
        let largest = rng.bool();
        let (extreme, place) =
            if largest { (ReduceOp::Max, ReduceOp::ArgMax) } else { (ReduceOp::Min, ReduceOp::ArgMin) };
        if rng.bool() {
            let at = self.reduced(place, s, axis, rng.bool())?;
            self.keep(at);
        }
        let m = self.broadcastable_reduction(extreme, s, axis)?;
        let hit = self.binary(if rng.u32(..4) == 0 { Ge } else { Eq }, s, m)?;
        if rng.bool() {
            self.keep(hit);
        }
        let dtype = self.program.dtype(s);
        let ones = self.push(Op::Cast, dtype, self.program.shape(hit), 0, vec![Argument::Tensor(hit)], vec![])?;
        let count = self.broadcastable_reduction(ReduceOp::Sum, ones, axis)?;
        let share = self.binary(Div, ones, count)?;
        Some(self.keep(share))
    }

    /// Records a step function, comparison, remainder or conversion to integers after a chain.
    fn discontinuity_after_chain(&mut self, x: Tensor, rng: &mut Rng) -> Option<Tensor> {
        let s = self.chain(x, rng)?;
        let y = match rng.u32(..7) {
            0 => self.unary([Floor, Ceil, Round, Sign][rng.usize(..4)], s)?,
            1 => self.with_number(Gt, s, 0.5)?,
            2 => self.with_number(Rem, s, 0.75)?,
            3 => self.push(Op::Cast, DType::I32, self.program.shape(s), 0, vec![Argument::Tensor(s)], vec![])?,
            4 => {
                let other = self.chain(x, rng)?;
                self.binary(Ne, s, other)?
            }
            5 => {
                // The conversion to f64 is exact.
                let wide =
                    self.push(Op::Cast, DType::F64, self.program.shape(s), 0, vec![Argument::Tensor(s)], vec![])?;
                self.with_number(Ge, wide, 0.25)?
            }
            _ => {
                let zero = self.with_number(Maximum, s, 0.0)?;
                let more = self.with_number(Gt, s, 0.0)?;
                self.element_of(Where, &[Argument::Tensor(more), Argument::Tensor(zero), Argument::Tensor(s)])?
            }
        };
        Some(self.keep(y))
    }

    /// Records the argsort of a chain.
    fn order_of(&mut self, x: Tensor, rng: &mut Rng) -> Option<Tensor> {
        let s = self.chain(x, rng)?;
        let shape = self.program.shape(s);
        let attr = (shape.rank() as u32 - 1) | if rng.bool() { REVERSE } else { 0 };
        let at = self.push(Op::Scan(ScanOp::Argsort), DType::I64, shape, attr, vec![Argument::Tensor(s)], vec![])?;
        Some(self.keep(at))
    }

    /// Records differences like `√(a² - b²)` and `√(mean(a²) - mean(a)²)` with `a = b`: the result is 0, not NaN.
    fn equal_products(&mut self, x: Tensor, rng: &mut Rng) -> Option<Tensor> {
        let a = self.unary(Abs, x)?;
        let b = self.with_number(Maximum, a, 0.0)?;
        let (p, q) = match rng.u32(..3) {
            0 => (self.unary(Square, a)?, self.binary(Mul, b, b)?),
            1 => (self.binary(Mul, a, a)?, self.unary(Square, b)?),
            _ => {
                let axis = 1 << rng.usize(..self.program.shape(a).rank());
                let p = self.binary(Mul, a, a)?;
                let m = self.broadcastable_reduction(ReduceOp::Max, p, axis)?;
                (m, self.unary(Square, b)?)
            }
        };
        let d = self.binary(Sub, p, q)?;
        let root = self.unary(Sqrt, d)?;
        Some(self.keep(root))
    }
}
