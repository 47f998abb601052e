//! Operations on images, and products with more than two axes per factor: convolutions, pooling, einsum, as recorded by
//! the library (`thalweg/src/conv.rs`, `pool.rs`, `einsum/pair.rs`).

use super::Generator;
use crate::program::{Argument, Tensor};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, Scalar, Shape, pack_order};

use ElementOp::{Add, Maximum, Mul, Relu, Sigmoid};

/// Sliding windows along one axis.
#[derive(Clone, Copy)]
struct Window {
    kernel: usize,
    stride: usize,
    dilation: usize,
    pads: (usize, usize),
    /// Number of windows along the axis.
    out: usize,
}

impl Generator {
    /// Records a convolution, a pooling, or a product of two tensors over some of their axes.
    pub(super) fn windowed(&mut self) -> Option<Tensor> {
        if self.later.u32(..6) == 0 {
            return self.long_windows();
        }
        match self.rng.u32(..4) {
            0 => self.pooling(),
            1 => self.axes_against_axes(),
            _ => self.convolution(),
        }
    }

    /// Records a reduction over windows of 17 to 100 elements, sometimes of a function of them.
    fn long_windows(&mut self) -> Option<Tensor> {
        let dtype = self.any_number();
        let (rows, n) = (self.later.usize(1..4), self.later.usize(17..140));
        let (size, step) = (self.later.usize(17..=n.min(100)), self.later.usize(1..4));
        let x = self.input(dtype, Shape::new(&[rows, n]));
        let to = Shape::new(&[rows, (n - size) / step + 1, size]);
        let args = vec![Argument::Tensor(x)];
        let mut windows = self.push(Op::Window, dtype, to, 1, args, vec![size as i64, step as i64])?;
        if self.later.bool() {
            windows = self.binary(Mul, windows, windows)?;
        }
        let op = self.pick(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
        let axes = self.pick(&[4, 4, 6, 7]);
        self.reduced(op, windows, axes, false)
    }

    /// Random dtype of numbers: mostly f32, sometimes another float or i32.
    fn any_number(&mut self) -> DType {
        self.pick(&[DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32])
    }

    /// Random sliding windows along an axis of this size.
    fn window_of(&mut self, size: usize) -> Window {
        let pad = |g: &mut Generator| g.pick(&[0, 0, 1, 1, 2]);
        let pads = if self.rng.bool() { (0, 0) } else { (pad(self), pad(self)) };
        let all = size + pads.0 + pads.1;
        let kernel = self.rng.usize(1..=all.min(4));
        let most = if kernel > 1 { (all - 1) / (kernel - 1) } else { 1 };
        let dilation = if self.rng.bool() { 1 } else { self.rng.usize(1..=most.min(3)) };
        let stride = self.pick(&[1, 1, 1, 2, 3]);
        let out = (all - dilation * (kernel - 1) - 1) / stride + 1;
        Window { kernel, stride, dilation, pads, out }
    }

    /// Image of samples × channels × axes, sometimes computed by the program, and windows over it.
    fn image(&mut self, dtype: DType) -> Option<(Tensor, Vec<Window>)> {
        let axes = self.pick(&[1, 2, 2, 2]);
        let mut dims = vec![self.rng.usize(1..3), self.rng.usize(1..6)];
        (0..axes).for_each(|_| dims.push(self.rng.usize(1..12)));
        let mut x = self.input(dtype, Shape::new(&dims));
        if self.rng.u32(..3) == 0 && dtype.is_float() {
            let op = self.pick(&[Relu, Sigmoid]);
            x = self.unary(op, x)?;
        }
        let windows = dims[2..].iter().map(|&d| self.window_of(d)).collect();
        Some((x, windows))
    }

    fn padded(&mut self, x: Tensor, windows: &[Window], border: Scalar) -> Option<Tensor> {
        if windows.iter().all(|w| w.pads == (0, 0)) {
            return Some(x);
        }
        let (dtype, mut shape) = (self.program.dtype(x), self.program.shape(x));
        let mut ints = vec![0, 0, 0, 0];
        for (i, w) in windows.iter().enumerate() {
            ints.extend([w.pads.0 as i64, w.pads.1 as i64]);
            shape.dims_mut()[2 + i] += w.pads.0 + w.pads.1;
        }
        let args = vec![Argument::Tensor(x), Argument::Scalar(border.to_bits(dtype))];
        self.push(Op::Pad, dtype, shape, 0, args, ints)
    }

    /// Slices some axes, given as (axis, start, step, length); other axes stay whole.
    fn sliced(&mut self, x: Tensor, parts: &[(usize, usize, usize, usize)]) -> Option<Tensor> {
        let (dtype, mut shape) = (self.program.dtype(x), self.program.shape(x));
        let mut ints: Vec<i64> = shape.iter().flat_map(|&d| [0, 1, d as i64]).collect();
        for &(axis, start, step, length) in parts {
            shape.dims_mut()[axis] = length;
            ints[3 * axis..3 * axis + 3].copy_from_slice(&[start as i64, step as i64, length as i64]);
        }
        self.push(Op::Slice, dtype, shape, 0, vec![Argument::Tensor(x)], ints)
    }

    fn permuted(&mut self, x: Tensor, order: &[usize]) -> Option<Tensor> {
        let (dtype, shape) = (self.program.dtype(x), self.program.shape(x));
        let to: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
        self.push(Op::Permute, dtype, Shape::new(&to), pack_order(order), vec![Argument::Tensor(x)], vec![])
    }

    /// Records a convolution as an im2col matrix times weights, then a bias and a function.
    fn convolution(&mut self) -> Option<Tensor> {
        let dtype = self.any_number();
        let (x, windows) = self.image(dtype)?;
        let (n, channels) = (self.program.shape(x)[0], self.program.shape(x)[1]);
        let divisors: Vec<usize> = (1..=channels).filter(|g| channels.is_multiple_of(*g)).collect();
        let groups = self.pick(&divisors);
        let padded = self.padded(x, &windows, Scalar::Int(0))?;
        if groups == channels && self.rng.bool() {
            return self.depthwise(padded, &windows);
        }
        let axes = windows.len();
        let mut all = padded;
        for (i, w) in windows.iter().enumerate() {
            let span = w.dilation * (w.kernel - 1) + 1;
            let shape = self.program.shape(all);
            let rank = shape.rank();
            let mut to = shape;
            to.dims_mut()[2 + i] = w.out;
            let to = to.insert(rank, span);
            let args = vec![Argument::Tensor(all)];
            all = self.push(Op::Window, dtype, to, 2 + i as u32, args, vec![span as i64, w.stride as i64])?;
            if w.dilation > 1 {
                all = self.sliced(all, &[(rank, 0, w.dilation, w.kernel)])?;
            }
        }
        let order: Vec<usize> = [0, 1].into_iter().chain(2 + axes..2 + 2 * axes).chain(2..2 + axes).collect();
        let all = self.permuted(all, &order)?;
        let taps: usize = windows.iter().map(|w| w.kernel).product();
        let points: usize = windows.iter().map(|w| w.out).product();
        let (terms, each) = (channels / groups * taps, self.rng.usize(1..18));
        let lead: &[usize] = if groups > 1 { &[n, groups] } else { &[n] };
        let columns = self.reshaped(all, Shape::new(&[lead, &[terms, points]].concat()))?;
        let weight = self.input(dtype, Shape::new(&[&lead[1..], &[each, terms]].concat()));
        let mut sums = self.product(weight, columns)?;
        sums = self.reshaped(sums, Shape::new(&[n, groups * each, points]))?;
        if self.rng.bool() {
            let bias = self.input(dtype, Shape::new(&[groups * each, 1]));
            sums = self.binary(Add, sums, bias)?;
        }
        let out: Vec<usize> = [n, groups * each].into_iter().chain(windows.iter().map(|w| w.out)).collect();
        let y = self.reshaped(sums, Shape::new(&out))?;
        if self.rng.bool() && dtype.is_float() { self.unary(Relu, y) } else { Some(y) }
    }

    /// Records element number `at` of every window.
    fn element_at(&mut self, x: Tensor, windows: &[Window], mut at: usize) -> Option<Tensor> {
        let mut parts = vec![];
        for (i, w) in windows.iter().enumerate().rev() {
            parts.push((2 + i, at % w.kernel * w.dilation, w.stride, w.out));
            at /= w.kernel;
        }
        self.sliced(x, &parts)
    }

    /// Records a depthwise convolution: a sum of shifted inputs, each times a weight per channel.
    fn depthwise(&mut self, x: Tensor, windows: &[Window]) -> Option<Tensor> {
        let (dtype, channels) = (self.program.dtype(x), self.program.shape(x)[1]);
        let mut sum: Option<Tensor> = None;
        for at in 0..windows.iter().map(|w| w.kernel).product() {
            let shifted = self.element_at(x, windows, at)?;
            let mut column = vec![channels];
            column.resize(1 + windows.len(), 1);
            let weight = self.input(dtype, Shape::new(&column));
            let term = self.binary(Mul, shifted, weight)?;
            sum = Some(match sum {
                Some(sum) => self.binary(Add, sum, term)?,
                None => term,
            });
        }
        sum
    }

    /// Records the maximum or sum of each window, along one axis after the other.
    fn pooling(&mut self) -> Option<Tensor> {
        let dtype = self.any_number();
        let (x, windows) = self.image(dtype)?;
        let (op, border) = match self.rng.bool() {
            true => (Add, Scalar::Int(0)),
            false if dtype.is_float() => (Maximum, Scalar::Float(f64::NEG_INFINITY)),
            false => (Maximum, Scalar::int_bounds(dtype).0),
        };
        let mut x = self.padded(x, &windows, border)?;
        for (i, w) in windows.iter().enumerate().rev() {
            let mut folded: Option<Tensor> = None;
            for at in 0..w.kernel {
                let shifted = self.sliced(x, &[(2 + i, at * w.dilation, w.stride, w.out)])?;
                folded = Some(match folded {
                    Some(folded) => self.binary(op, folded, shifted)?,
                    None => shifted,
                });
            }
            x = folded?;
        }
        Some(x)
    }

    /// Records a product of two tensors over some of their axes, which have any order. The remaining axes form an outer
    /// product.
    fn axes_against_axes(&mut self) -> Option<Tensor> {
        let dtype = self.any_number();
        let mut sizes = |most: usize| -> Vec<usize> {
            let count = self.rng.usize(..=most);
            (0..count).map(|_| self.rng.usize(1..7)).collect()
        };
        let (batch, rows, columns, terms) = (sizes(1), sizes(2), sizes(2), sizes(2));
        let size = |of: &[usize]| of.iter().product::<usize>();
        let left = self.shuffled(dtype, &[&batch[..], &rows, &terms].concat())?;
        let left = self.reshaped(left, Shape::new(&[&batch[..], &[size(&rows), size(&terms)]].concat()))?;
        let right = self.shuffled(dtype, &[&batch[..], &terms, &columns].concat())?;
        let right = self.reshaped(right, Shape::new(&[&batch[..], &[size(&terms), size(&columns)]].concat()))?;
        let sums = self.product(left, right)?;
        let out = self.reshaped(sums, Shape::new(&[batch, rows, columns].concat()))?;
        let mut order: Vec<usize> = (0..self.program.shape(out).rank()).collect();
        self.rng.shuffle(&mut order);
        let out = self.permuted(out, &order)?;
        if self.rng.bool() && dtype.is_float() { self.unary(Relu, out) } else { Some(out) }
    }

    /// Adds an input of these sizes whose axes have another order in memory.
    fn shuffled(&mut self, dtype: DType, dims: &[usize]) -> Option<Tensor> {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        self.rng.shuffle(&mut order);
        // Axis i of the result is axis order[i] of the input.
        let mut own = vec![0; dims.len()];
        order.iter().zip(dims).for_each(|(&o, &d)| own[o] = d);
        let x = self.input(dtype, Shape::new(&own));
        self.permuted(x, &order)
    }
}
