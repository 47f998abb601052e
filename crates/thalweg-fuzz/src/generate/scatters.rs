//! Gathers and scatters.

use super::Generator;
use crate::program::{Argument, Input, Step, Tensor};
use thalweg_ir::{DType, ElementOp, Op, ScatterOp, Shape};

impl Generator {
    /// Indices in range: an input of the program, sometimes broadcast from one row, or the minimum of two inputs, so
    /// that indices are computed.
    pub(super) fn index(&mut self, shape: Shape, axis: usize, size: usize) -> Tensor {
        let mut own = shape;
        let broadcast = self.rng.u32(..3) == 0;
        if broadcast {
            (0..own.rank()).filter(|&i| i != axis).for_each(|i| own.dims_mut()[i] = 1);
        }
        let index = |g: &mut Generator| {
            let bytes = (0..own.numel()).flat_map(|_| (g.rng.usize(..size) as i64).to_le_bytes()).collect();
            g.program.inputs.push(Input { dtype: DType::I64, shape: own, bytes });
            Tensor::Input(g.program.inputs.len() - 1)
        };
        let mut t = index(self);
        let push = |g: &mut Generator, op, shape, attr, args, ints| {
            g.program.steps.push(Step { op, dtype: DType::I64, shape, attr, args, ints, kept: false });
            Tensor::Step(g.program.steps.len() - 1)
        };
        if self.rng.bool() {
            let args = vec![Argument::Tensor(t), Argument::Tensor(index(self))];
            t = push(self, Op::Element(ElementOp::Minimum), own, 0, args, vec![]);
        }
        if own != shape {
            let ints = shape.iter().map(|&d| d as i64).collect();
            let attr = own.broadcast_mask(&shape) as u32;
            t = push(self, Op::Expand, shape, attr, vec![Argument::Tensor(t)], ints);
        }
        t
    }

    pub(super) fn gather(&mut self) -> Option<Step> {
        let t = self.tensor(|p, t| p.shape(t).rank() > 0 && p.shape(t).numel() > 0)?;
        let (dtype, from) = (self.program.dtype(t), self.program.shape(t));
        let axis = self.rng.usize(..from.rank());
        let mut shape = from;
        shape.dims_mut()[axis] = self.rng.usize(..=2 * from[axis]);
        if shape.numel() > self.limit {
            return None;
        }
        let index = self.index(shape, axis, from[axis]);
        let args = vec![Argument::Tensor(t), Argument::Tensor(index)];
        Some(Step { op: Op::Gather, dtype, shape, attr: axis as u32, args, ints: vec![], kept: false })
    }

    pub(super) fn scatter(&mut self) -> Option<Step> {
        use ScatterOp::*;
        if self.rng.u32(..3) == 0 {
            return self.counts();
        }
        let t = self.tensor(|p, t| p.shape(t).rank() > 0 && p.shape(t).numel() > 0)?;
        let (dtype, shape) = (self.program.dtype(t), self.program.shape(t));
        let op = if dtype == DType::Bool { Set } else { self.pick(&[Set, Add, Add, Prod, Max, Min]) };
        let axis = self.rng.usize(..shape.rank());
        let fits = |s: Shape| s.rank() == shape.rank() && (0..s.rank()).all(|i| i == axis || s[i] == shape[i]);
        let values = self.tensor(|p, v| p.dtype(v) == dtype && fits(p.shape(v)))?;
        let index = self.index(self.program.shape(values), axis, shape[axis]);
        let args = vec![Argument::Tensor(t), Argument::Tensor(index), Argument::Tensor(values)];
        Some(Step { op: Op::Scatter(op), dtype, shape, attr: axis as u32, args, ints: vec![], kept: false })
    }

    /// Step that adds many values at few indices, as in a histogram; often one number for all.
    fn counts(&mut self) -> Option<Step> {
        let dtype = self.pick(&[DType::I64, DType::I64, DType::I32, DType::U32, DType::U64, DType::U8, DType::F32]);
        let n = self.rng.usize(200..3000).min(self.limit);
        let size = self.rng.usize(1..=(n / 3).max(1));
        let (all, few) = (Shape::new(&[n]), Shape::new(&[size]));
        let full = |g: &mut Generator, shape: Shape| {
            let (args, ints) = (vec![g.scalar(dtype)], shape.iter().map(|&d| d as i64).collect());
            g.program.steps.push(Step { op: Op::Full, dtype, shape, attr: 0, args, ints, kept: false });
            Tensor::Step(g.program.steps.len() - 1)
        };
        let to = full(self, few);
        let values = if self.rng.bool() { full(self, all) } else { self.input(dtype, all) };
        let index = self.index(all, 0, size);
        let args = vec![Argument::Tensor(to), Argument::Tensor(index), Argument::Tensor(values)];
        Some(Step { op: Op::Scatter(ScatterOp::Add), dtype, shape: few, attr: 0, args, ints: vec![], kept: false })
    }
}
