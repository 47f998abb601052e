//! Complex arithmetic on two tensors, as recorded by `thalweg::Complex`: each part of a result reads all parts of the
//! operands, and several results are kept.

use super::Generator;
use crate::program::Tensor;
use thalweg_ir::{ElementOp, ReduceOp};

use ElementOp::{Abs, Add, Atan2, Cos, Div, Gt, Hypot, Mul, Sin, Sub};

impl Generator {
    /// Records a product or quotient of numbers on the unit circle with others, sometimes followed by its magnitude,
    /// its angle, or sums of its parts.
    pub(super) fn complex_arithmetic(&mut self, x: Tensor) -> Option<Tensor> {
        let (a, b) = (self.unary(Cos, x)?, self.unary(Sin, x)?);
        let (c, d) = (self.with_number(Mul, x, 0.5)?, self.with_number(Add, a, 2.5)?);
        let (mut re, mut im) = if self.later.bool() {
            self.complex_product([a, b], [c, d])?
        } else {
            self.complex_quotient([a, b], [c, d])?
        };
        for _ in 0..self.later.u32(..2) {
            (re, im) = self.complex_product([re, im], [a, b])?;
        }
        match self.later.u32(..4) {
            0 => self.binary(Hypot, re, im),
            1 => self.binary(Atan2, im, re),
            2 => {
                let axes = self.axes(x);
                let sums = (self.reduced(ReduceOp::Sum, re, axes, true)?, self.reduced(ReduceOp::Sum, im, axes, true)?);
                self.complex_product([re, im], [sums.0, sums.1]).map(|both| both.1)
            }
            _ => self.binary(Sub, re, im),
        }
    }

    fn complex_product(&mut self, [a, b]: [Tensor; 2], [c, d]: [Tensor; 2]) -> Option<(Tensor, Tensor)> {
        let [ac, bd, ad, bc] =
            [self.binary(Mul, a, c)?, self.binary(Mul, b, d)?, self.binary(Mul, a, d)?, self.binary(Mul, b, c)?];
        Some((self.binary(Sub, ac, bd)?, self.binary(Add, ad, bc)?))
    }

    /// Records a division by Smith's method: the larger part of the divisor is factored out first.
    fn complex_quotient(&mut self, [a, b]: [Tensor; 2], [c, d]: [Tensor; 2]) -> Option<(Tensor, Tensor)> {
        let (size_c, size_d) = (self.unary(Abs, c)?, self.unary(Abs, d)?);
        let larger = self.binary(Gt, size_d, size_c)?;
        let large = self.chosen(larger, d, c)?;
        let small = self.chosen(larger, c, d)?;
        let ratio = self.binary(Div, small, large)?;
        let part = self.binary(Mul, small, ratio)?;
        let divisor = self.binary(Add, large, part)?;
        let (ar, br) = (self.binary(Mul, a, ratio)?, self.binary(Mul, b, ratio)?);
        let (re1, re2) = (self.binary(Add, ar, b)?, self.binary(Add, br, a)?);
        let (im1, im2) = (self.binary(Sub, br, a)?, self.binary(Sub, b, ar)?);
        let (re, im) = (self.chosen(larger, re1, re2)?, self.chosen(larger, im1, im2)?);
        Some((self.binary(Div, re, divisor)?, self.binary(Div, im, divisor)?))
    }

    fn chosen(&mut self, condition: Tensor, a: Tensor, b: Tensor) -> Option<Tensor> {
        use crate::program::Argument::Tensor as T;
        self.element_of(ElementOp::Where, &[T(condition), T(a), T(b)])
    }
}
