//! GEMMs with their usual prologues and epilogues: activations, norms, residuals, attention.
//!
//! Sizes are near tile sizes. Factors are inputs, views of inputs, or computed; results are used point by point, by
//! rows, or in another GEMM.

use super::Generator;
use crate::program::{Argument, Tensor};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, Shape, pack_order};

use ElementOp::{Add, Cos, Div, Exp, Ge, Le, Mul, Relu, Sigmoid, Square, Sub, Tanh, Where};

/// Sizes of matrices: tile sizes and their neighbours.
const EDGES: [usize; 14] = [1, 2, 5, 6, 7, 12, 13, 15, 16, 17, 31, 33, 65, 257];

impl Generator {
    /// Records a GEMM of new inputs with a prologue and an epilogue.
    pub(super) fn contraction(&mut self) -> Option<Tensor> {
        let dtype = self.pick(&[DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16]);
        let (m, k, n) = (self.edge(), self.edge(), self.edge());
        let batch: &[usize] = self.pick(&[&[][..], &[], &[], &[2], &[3], &[1, 2], &[2, 3]]);
        // Weights as in a layer, whose columns GPUs distribute over threads: whole blocks of columns, or result rows
        // with any alignment.
        let weights = dtype.size() == 2 && batch.is_empty() && (m + k + n) % 2 == 0;
        let k = if weights { k.next_multiple_of(8) } else { k };
        let n = if weights && m % 3 != 0 { n.next_multiple_of(32) } else { n };
        let left = self.matrix(dtype, batch, [m, k])?;
        let left = self.prologue(left)?;
        let shared: &[usize] = if self.rng.bool() { &[] } else { batch };
        if self.rng.u32(..8) == 0 {
            return self.beside(left, shared, [k, n]);
        }
        let right = if weights { self.weights(dtype, &[], [k, n])? } else { self.matrix(dtype, shared, [k, n])? };
        let right = match self.rng.u32(..6) {
            _ if weights => right,
            0 | 1 => self.pointwise(right)?,
            2 => self.scaled(right, [1, n])?,
            _ => right,
        };
        let mut sums = self.product(left, right)?;
        if self.rng.u32(..6) == 0 {
            sums = self.swap_last_two(sums)?;
        }
        for _ in 0..self.rng.u32(..4) {
            sums = self.after(sums)?;
        }
        match self.rng.u32(..4) {
            0 => self.row_reduction(sums),
            1 => {
                if self.rng.bool() {
                    sums = self.row_reduction(sums)?;
                }
                // Without operations between, two GEMMs form a chain, which is reassociated if that is cheaper.
                let width = self.edge();
                let terms = *self.program.shape(sums).last()?;
                let values = self.matrix(dtype, shared, [terms, width])?;
                let out = self.product(sums, values)?;
                if self.rng.bool() { self.after(out) } else { Some(out) }
            }
            _ => Some(sums),
        }
    }

    /// Records several GEMMs with one left operand, all kept: queries, keys and values. Their epilogues are mostly
    /// equal.
    fn beside(&mut self, left: Tensor, batch: &[usize], sizes: [usize; 2]) -> Option<Tensor> {
        let dtype = self.program.dtype(left);
        let op = self.pick(&[None, None, Some(Tanh), Some(Relu)]);
        let mut last = left;
        for _ in 0..self.rng.usize(2..5) {
            let right = self.matrix(dtype, batch, sizes)?;
            let sums = self.product(left, right)?;
            last = match op {
                Some(op) if self.rng.u32(..4) > 0 => self.unary(op, sums)?,
                _ => sums,
            };
            if let Tensor::Step(made) = last {
                self.program.steps[made].kept = true;
            }
        }
        Some(last)
    }

    fn edge(&mut self) -> usize {
        self.pick(&EDGES)
    }

    /// Records a matrix in memory: whole, transposed, or sliced from a larger one.
    fn matrix(&mut self, dtype: DType, batch: &[usize], [rows, columns]: [usize; 2]) -> Option<Tensor> {
        let shape = |rows: usize, columns: usize| Shape::new(&[batch, &[rows, columns]].concat());
        match self.rng.u32(..5) {
            0 => self.weights(dtype, batch, [rows, columns]),
            1 => {
                let larger = self.input(dtype, shape(rows + 2, columns + 3));
                let mut ints: Vec<i64> = batch.iter().flat_map(|&d| [0, 1, d as i64]).collect();
                let flipped = self.rng.bool();
                ints.extend(if flipped { [rows as i64, -1, rows as i64] } else { [1, 1, rows as i64] });
                ints.extend([2, 1, columns as i64]);
                self.push(Op::Slice, dtype, shape(rows, columns), 0, vec![Argument::Tensor(larger)], ints)
            }
            _ => Some(self.input(dtype, shape(rows, columns))),
        }
    }

    /// Records a transposed matrix, the weights of a linear layer.
    fn weights(&mut self, dtype: DType, batch: &[usize], [rows, columns]: [usize; 2]) -> Option<Tensor> {
        let transposed = self.input(dtype, Shape::new(&[batch, &[columns, rows]].concat()));
        self.swap_last_two(transposed)
    }

    /// Records the prologue of a GEMM's left operand.
    fn prologue(&mut self, x: Tensor) -> Option<Tensor> {
        let rows = self.program.shape(x).iter().rev().nth(1).copied()?;
        match self.rng.u32(..7) {
            0 | 1 => self.pointwise(x),
            2 => self.row_reduction(x),
            3 => self.scaled(x, [rows, 1]),
            _ => Some(x),
        }
    }

    /// Records a matrix times or divided by a factor per row or column; or a scaled int8 matrix. Factors of int8
    /// matrices, which may be moved out of the sum, are 1 or more, so that sums of bytes overflow only if the written
    /// sums overflow, too.
    fn scaled(&mut self, x: Tensor, factors: [usize; 2]) -> Option<Tensor> {
        let (dtype, shape) = (self.program.dtype(x), self.program.shape(x));
        let by = self.input(dtype, Shape::new(&factors));
        let squares = self.unary(Square, by)?;
        let above = self.with_number(Add, squares, 1.0)?;
        if self.rng.bool() {
            let bytes = self.input(DType::I8, shape);
            let x = self.push(Op::Cast, dtype, shape, 0, vec![Argument::Tensor(bytes)], vec![])?;
            return self.binary(Mul, above, x);
        }
        match self.rng.u32(..3) {
            0 => self.binary(Mul, x, by),
            1 => self.binary(Mul, by, x),
            _ => self.binary(Div, x, above),
        }
    }

    /// Swaps the last two dimensions.
    fn swap_last_two(&mut self, x: Tensor) -> Option<Tensor> {
        let (mut shape, rank) = (self.program.shape(x), self.program.shape(x).rank());
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        shape.dims_mut().swap(rank - 2, rank - 1);
        let dtype = self.program.dtype(x);
        self.push(Op::Permute, dtype, shape, pack_order(&order), vec![Argument::Tensor(x)], vec![])
    }

    fn pointwise(&mut self, x: Tensor) -> Option<Tensor> {
        let op = self.pick(&[Tanh, Sigmoid, Relu, Square, Cos]);
        let y = self.unary(op, x)?;
        if self.rng.bool() { self.with_number(Mul, y, 0.5) } else { Some(y) }
    }

    /// Records one step of an epilogue: a bias, a factor per row, a residual, or a function.
    fn after(&mut self, x: Tensor) -> Option<Tensor> {
        let (shape, dtype) = (self.program.shape(x), self.program.dtype(x));
        let rank = shape.rank();
        match self.rng.u32(..5) {
            0 => {
                let bias = self.input(dtype, Shape::new(&[shape[rank - 1]]));
                self.binary(Add, x, bias)
            }
            1 => {
                let factor = self.input(dtype, Shape::new(&[shape[rank - 2], 1]));
                self.binary(Mul, x, factor)
            }
            2 => {
                let residual = self.input(dtype, shape);
                self.binary(Add, residual, x)
            }
            _ => self.pointwise(x),
        }
    }

    /// Records a softmax over the last axis, a norm, or a row sum.
    fn row_reduction(&mut self, x: Tensor) -> Option<Tensor> {
        let last = 1 << (self.program.shape(x).rank() - 1);
        match self.rng.u32(..4) {
            0 | 1 => {
                let x = if self.rng.bool() { self.causal(x)? } else { x };
                let m = self.broadcastable_reduction(ReduceOp::Max, x, last)?;
                let apart = self.binary(Sub, x, m)?;
                let e = self.unary(Exp, apart)?;
                let s = self.broadcastable_reduction(ReduceOp::Sum, e, last)?;
                self.binary(Div, e, s)
            }
            2 => {
                let squares = self.unary(Square, x)?;
                let s = self.broadcastable_reduction(ReduceOp::Sum, squares, last)?;
                let s = self.with_number(Add, s, 1.0)?;
                self.binary(Div, x, s)
            }
            _ => {
                let s = self.broadcastable_reduction(ReduceOp::Sum, x, last)?;
                self.binary(Sub, x, s)
            }
        }
    }

    /// Records a causal mask: each row attends to its first keys only, at least one.
    fn causal(&mut self, x: Tensor) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let [rows, keys] = [2, 1].map(|back| shape[shape.rank() - back]);
        let mut number = |n: usize| self.push(Op::Iota, DType::F32, Shape::new(&[n]), 0, vec![], vec![n as i64]);
        let (row, key) = (number(rows)?, number(keys)?);
        let row = self.reshaped(row, Shape::new(&[rows, 1]))?;
        let row = if self.rng.bool() { row } else { self.with_number(Add, row, 2.0)? };
        let seen = if self.rng.bool() { self.binary(Le, key, row)? } else { self.binary(Ge, row, key)? };
        let hidden = thalweg_ir::Scalar::Float(f64::NEG_INFINITY).to_bits(self.program.dtype(x));
        self.element_of(Where, &[Argument::Tensor(seen), Argument::Tensor(x), Argument::Scalar(hidden)])
    }

    pub(super) fn product(&mut self, a: Tensor, b: Tensor) -> Option<Tensor> {
        let (sa, sb) = (self.program.shape(a), self.program.shape(b));
        let lead = |s: Shape| Shape::new(&s[..s.rank() - 2]);
        let batch = lead(sa).broadcast(&lead(sb))?;
        let shape = batch.insert(batch.rank(), sa[sa.rank() - 2]);
        let shape = shape.insert(shape.rank(), sb[sb.rank() - 1]);
        let args = vec![Argument::Tensor(a), Argument::Tensor(b)];
        self.push(Op::Matmul, self.program.dtype(a), shape, 0, args, vec![])
    }
}
