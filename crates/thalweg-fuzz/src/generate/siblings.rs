//! Many small independent computations of different shapes, all kept, which can share one launch.
//!
//! Some share an input, some are optimizer steps, some reduce rows, some transpose their input, some pass a value on.
//! Shapes have dimensions of size 0 and 1, so that parts of a group have no work.

use super::Generator;
use crate::program::{Argument, Tensor};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, Shape, pack_order};

use ElementOp::{Abs, Add, Div, Exp, Mul, Sigmoid, Sqrt, Sub, Tanh};

/// Maximum number of computations in one idiom: each program is run more than a dozen times.
const MAX_COMPUTATIONS: usize = 24;

impl Generator {
    /// Adds several independent computations, the first of which starts with `x`.
    pub(super) fn siblings(&mut self, x: Tensor) -> Option<Tensor> {
        let dtype = self.program.dtype(x);
        let mut from = x;
        for _ in 0..self.rng.usize(2..=MAX_COMPUTATIONS) {
            // Computations that are too large are left out.
            let made = match self.rng.u32(..8) {
                0..3 => self.optimiser_step(from),
                3 => self.softmax(from),
                4 => self.transposed(from),
                5 => self.row_and_map(from),
                6 => self.unary(Tanh, from),
                _ => self.with_number(Mul, from, 0.5),
            };
            if let Some(Tensor::Step(made)) = made {
                self.program.steps[made].kept = true;
            }
            if self.rng.u32(..4) > 0 {
                from = self.sibling_input(dtype);
            }
        }
        Some(from)
    }

    fn sibling_input(&mut self, dtype: DType) -> Tensor {
        let shape = match self.rng.u32(..8) {
            0 => Shape::new(&[1]),
            1 => Shape::new(&[self.rng.usize(..2), self.rng.usize(1..9)]),
            2..5 => Shape::new(&[self.rng.usize(1..200)]),
            _ => Shape::new(&[self.rng.usize(1..30), self.rng.usize(1..30)]),
        };
        self.input(dtype, shape)
    }

    /// Records a step of an optimizer: two moments and a parameter are updated.
    fn optimiser_step(&mut self, g: Tensor) -> Option<Tensor> {
        let (dtype, shape) = (self.program.dtype(g), self.program.shape(g));
        let [p, m] = [(); 2].map(|_| self.input(dtype, shape));
        let old = self.with_number(Mul, m, 0.9)?;
        let new = self.with_number(Mul, g, 0.1)?;
        let m = self.binary(Add, old, new)?;
        // The square overflows in f16 but not in f32, which would go unnoticed: infinity in the denominator gives a
        // step of 0. So its magnitude is used.
        let size = self.unary(Abs, m)?;
        let root = self.unary(Sqrt, size)?;
        let below = self.with_number(Add, root, 1e-3)?;
        let step = self.binary(Div, m, below)?;
        if let Tensor::Step(m) = m {
            self.program.steps[m].kept = true;
        }
        self.binary(Sub, p, step)
    }

    fn transposed(&mut self, x: Tensor) -> Option<Tensor> {
        let (dtype, shape) = (self.program.dtype(x), self.program.shape(x));
        let order: Vec<usize> = (0..shape.rank()).rev().collect();
        let to: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
        let args = vec![Argument::Tensor(x)];
        let t = self.push(Op::Permute, dtype, Shape::new(&to), pack_order(&order), args, vec![])?;
        self.unary(Sigmoid, t)
    }

    /// Records a reduction whose result is used by a kernel over other points, so that groups of kernels depend on each
    /// other.
    fn row_and_map(&mut self, x: Tensor) -> Option<Tensor> {
        let axes = self.axes(x);
        let e = self.unary(Exp, x)?;
        let r = self.reduced(ReduceOp::Sum, e, axes, false)?;
        if let Tensor::Step(r) = r {
            self.program.steps[r].kept = self.rng.bool();
        }
        let n = self.program.shape(r).numel();
        let flat = self.reshaped(r, Shape::new(&[n]))?;
        let wide = self.reshaped(flat, Shape::new(&[n, 1]))?;
        let both = self.binary(Add, wide, flat)?;
        self.unary(Sqrt, both)
    }
}
