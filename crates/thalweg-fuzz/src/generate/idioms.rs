//! Idioms: groups of steps that occur together in user code. Random steps seldom form them, and row kernels exist for
//! them.
//!
//! Each idiom starts with a float tensor of the program and random axes, records reductions with the axes kept, or
//! dropped and restored by a reshape, and leaves all its steps to be kept, reused, or dropped like any others. An idiom
//! that does not apply (too large, no such axis) stops halfway: the steps it has recorded so far stay in the program.

use super::Generator;
use crate::program::{Argument, Step, Tensor};
use thalweg_ir::element::Output;
use thalweg_ir::{DType, ElementOp, Op, REVERSE, ReduceOp, ScanOp, Shape, pack_order};

use ElementOp::{Add, Div, Eq, Exp, Log, Mul, Rsqrt, Sigmoid, Square, Sub, Where};

impl Generator {
    /// Adds the steps of one idiom; `None` if it did not apply.
    pub(super) fn idiom(&mut self) -> Option<()> {
        if self.rng.u32(..4) == 0 {
            return self.contraction().map(|_| ());
        }
        if self.rng.u32(..8) == 0 {
            return self.windowed().map(|_| ());
        }
        let x = self.float_tensor()?;
        if self.later.u32(..8) == 0 {
            return self.moment(x).map(|_| ());
        }
        if self.complex && self.later.u32(..2) == 0 {
            return self.complex_arithmetic(x).map(|_| ());
        }
        match self.rng.u32(..16) {
            0 | 1 => self.softmax(x),
            2 | 3 => self.normalise(x),
            4 => self.rms_norm(x),
            5 => self.group_norm(x),
            6 => self.log_sum_exp(x),
            7 => self.one_hot(x),
            8 | 9 => self.several_reductions(x),
            10 => self.of_a_view(x),
            11 => self.over_the_rows(x),
            12 => self.normalized_scan(x),
            13 | 14 => self.siblings(x),
            _ => self.by_index(x),
        }
        .map(|_| ())
    }

    /// Random float tensor with at least one dimension; cast from another dtype if there is none.
    fn float_tensor(&mut self) -> Option<Tensor> {
        if let Some(t) = self.tensor(|p, t| p.dtype(t).is_float() && p.shape(t).rank() > 0) {
            return Some(t);
        }
        let t = self.tensor(|p, t| p.shape(t).rank() > 0)?;
        let (shape, dtype) = (self.program.shape(t), self.pick(&[DType::F32, DType::F32, DType::F64, DType::F16]));
        self.push(Op::Cast, dtype, shape, 0, vec![Argument::Tensor(t)], vec![])
    }

    /// Records a step, unless its result is too large.
    pub(super) fn push(
        &mut self,
        op: Op,
        dtype: DType,
        shape: Shape,
        attr: u32,
        args: Vec<Argument>,
        ints: Vec<i64>,
    ) -> Option<Tensor> {
        if shape.numel() > self.limit {
            return None;
        }
        self.program.steps.push(Step { op, dtype, shape, attr, args, ints, kept: false });
        Some(Tensor::Step(self.program.steps.len() - 1))
    }

    pub(super) fn element_of(&mut self, op: ElementOp, args: &[Argument]) -> Option<Tensor> {
        let tensors = || {
            args.iter().filter_map(|a| match a {
                Argument::Tensor(t) => Some(*t),
                Argument::Scalar(_) => None,
            })
        };
        let mut shape = Shape::SCALAR;
        for t in tensors() {
            shape = shape.broadcast(&self.program.shape(t))?;
        }
        let of = self.program.dtype(tensors().next_back()?);
        let mut attr = 0;
        for (i, a) in args.iter().enumerate() {
            if let Argument::Tensor(t) = a {
                attr |= (self.program.shape(*t).broadcast_mask(&shape) as u32) << (8 * i);
            }
        }
        let dtype = if op.row().output == Output::Bool { DType::Bool } else { of };
        self.push(Op::Element(op), dtype, shape, attr, args.to_vec(), vec![])
    }

    pub(super) fn unary(&mut self, op: ElementOp, x: Tensor) -> Option<Tensor> {
        self.element_of(op, &[Argument::Tensor(x)])
    }

    pub(super) fn binary(&mut self, op: ElementOp, a: Tensor, b: Tensor) -> Option<Tensor> {
        self.element_of(op, &[Argument::Tensor(a), Argument::Tensor(b)])
    }

    pub(super) fn with_number(&mut self, op: ElementOp, a: Tensor, v: f64) -> Option<Tensor> {
        let bits = thalweg_ir::Scalar::Float(v).to_bits(self.program.dtype(a));
        self.element_of(op, &[Argument::Tensor(a), Argument::Scalar(bits)])
    }

    /// Random axes to reduce, as a mask: the last, the first, one between, several, or all.
    pub(super) fn axes(&mut self, x: Tensor) -> u32 {
        let rank = self.program.shape(x).rank() as u32;
        match self.rng.u32(..8) {
            0..3 => 1 << (rank - 1),
            3 => 1,
            4 => 1 << self.rng.u32(..rank),
            5 => (1 << rank) - 1,
            _ => self.rng.u32(1..1 << rank),
        }
    }

    pub(super) fn reshaped(&mut self, x: Tensor, shape: Shape) -> Option<Tensor> {
        let (dtype, ints) = (self.program.dtype(x), shape.iter().map(|&d| d as i64).collect());
        self.push(Op::Reshape, dtype, shape, 0, vec![Argument::Tensor(x)], ints)
    }

    fn expanded(&mut self, x: Tensor, shape: Shape) -> Option<Tensor> {
        let (dtype, own) = (self.program.dtype(x), self.program.shape(x));
        let ints = shape.iter().map(|&d| d as i64).collect();
        self.push(Op::Expand, dtype, shape, own.broadcast_mask(&shape) as u32, vec![Argument::Tensor(x)], ints)
    }

    /// Records a reduction, with the axes kept or dropped.
    pub(super) fn reduced(&mut self, op: ReduceOp, x: Tensor, axes: u32, keep: bool) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let gone = |i: usize| axes >> i & 1 == 1;
        let dims: Vec<usize> =
            (0..shape.rank()).filter(|&i| keep || !gone(i)).map(|i| if gone(i) { 1 } else { shape[i] }).collect();
        let index = matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin);
        if index && (0..shape.rank()).any(|i| gone(i) && shape[i] == 0) {
            return None;
        }
        let dtype = if index { DType::I64 } else { self.program.dtype(x) };
        let attr = axes | (keep as u32) << 8;
        self.push(Op::Reduce(op), dtype, Shape::new(&dims), attr, vec![Argument::Tensor(x)], vec![])
    }

    /// Records a reduction whose shape broadcasts against `x`: axes are kept, or dropped and restored by a reshape.
    /// Sometimes it is expanded, too.
    pub(super) fn broadcastable_reduction(&mut self, op: ReduceOp, x: Tensor, axes: u32) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let mut small = shape;
        (0..shape.rank()).filter(|i| axes >> i & 1 == 1).for_each(|i| small.dims_mut()[i] = 1);
        let keep = self.rng.u32(..3) > 0;
        let mut r = self.reduced(op, x, axes, keep)?;
        if !keep {
            r = self.reshaped(r, small)?;
        }
        if self.rng.u32(..5) == 0 { self.expanded(r, shape) } else { Some(r) }
    }

    fn mean(&mut self, x: Tensor, axes: u32) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let n: usize = (0..shape.rank()).filter(|i| axes >> i & 1 == 1).map(|i| shape[i]).product();
        let sum = self.broadcastable_reduction(ReduceOp::Sum, x, axes)?;
        if self.rng.bool() {
            self.with_number(Div, sum, n as f64)
        } else {
            self.with_number(Mul, sum, 1.0 / n.max(1) as f64)
        }
    }

    pub(super) fn softmax(&mut self, x: Tensor) -> Option<Tensor> {
        let axes = self.axes(x);
        let m = self.broadcastable_reduction(ReduceOp::Max, x, axes)?;
        let d = self.binary(Sub, x, m)?;
        let e = self.unary(Exp, d)?;
        let s = self.broadcastable_reduction(ReduceOp::Sum, e, axes)?;
        if self.rng.bool() {
            return self.binary(Div, e, s);
        }
        let l = self.unary(Log, s)?;
        let y = self.binary(Sub, d, l)?;
        // A loss over the same axes as the softmax, or over others.
        if self.rng.bool() {
            let axes = if self.rng.bool() { axes } else { self.axes(y) };
            let keep = self.rng.bool();
            return self.reduced(ReduceOp::Sum, y, axes, keep);
        }
        Some(y)
    }

    /// Records `Σ w·d^p·f(d)` for the difference `d` from a mean or an extreme, or a select where that is 0: some have
    /// a rescaling identity, some have none.
    fn moment(&mut self, x: Tensor) -> Option<Tensor> {
        let axes = self.axes(x);
        let extreme = self.pick(&[ReduceOp::Max, ReduceOp::Min]);
        let about = self.later.u32(..5);
        let m = if about == 0 { self.mean(x, axes)? } else { self.broadcastable_reduction(extreme, x, axes)? };
        let mut y = if about == 1 {
            let hit = self.binary(Eq, x, m)?;
            let counted = self.unary(Square, x)?;
            let zero = thalweg_ir::Scalar::Int(0).to_bits(self.program.dtype(x));
            self.element_of(Where, &[Argument::Tensor(hit), Argument::Tensor(counted), Argument::Scalar(zero)])?
        } else {
            let d = self.binary(Sub, x, m)?;
            // Exponentials decay from a maximum, and with a negative factor also from a minimum.
            let scaled = self.with_number(Mul, d, if extreme == ReduceOp::Max { 0.5 } else { -0.5 })?;
            let powers = self.later.usize(..5);
            let mut y = if about > 2 || powers == 0 { self.unary(Exp, scaled)? } else { d };
            for _ in 1..powers {
                y = self.binary(Mul, y, d)?;
            }
            y
        };
        if self.later.bool() {
            let w = self.scale(x, axes);
            y = self.binary(Mul, y, w)?;
        }
        let sum = self.broadcastable_reduction(ReduceOp::Sum, y, axes)?;
        if self.rng.bool() { self.binary(Sub, x, sum) } else { Some(sum) }
    }

    /// Records a reduction over rows that pair a row of one tensor with a row of another, so many that threads have
    /// several each. `rng` makes the choices.
    pub(super) fn pairs(&mut self, rng: &mut fastrand::Rng, main: DType) -> Option<Tensor> {
        let [rows, columns] = [0; 2].map(|_| rng.usize(190..230));
        let n = rng.usize(1..5).min(self.limit / (rows * columns));
        let dtype = if rng.u32(..3) == 0 { main } else { DType::F32 };
        let x = self.input(dtype, Shape::new(&[rows, 1, n]));
        let flat = rng.bool();
        let y = self.input(dtype, if flat { Shape::new(&[columns, n]) } else { Shape::new(&[1, columns, n]) });
        let (a, b) = if rng.bool() { (x, y) } else { (y, x) };
        let op = [Sub, Sub, Add, Mul, ElementOp::Maximum][rng.usize(..5)];
        let mut z = self.binary(op, a, b)?;
        if rng.u32(..3) > 0 {
            z = self.unary([Square, ElementOp::Neg][rng.usize(..2)], z)?;
        }
        let fold = [ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][rng.usize(..4)];
        let folded = self.reduced(fold, z, 1 << 2, rng.u32(..4) == 0)?;
        match rng.u32(..3) {
            0 => self.reduced(ReduceOp::ArgMin, folded, 1 << 1, false),
            1 => self.binary(Add, folded, folded),
            _ => Some(folded),
        }
    }

    /// Records a reduction whose kernel is chosen by how its rows lie: a matrix beside its transpose, in whole tiles;
    /// rows of several dimensions whose points come in twos; rows that groups of threads cover exactly. `rng` decides.
    pub(super) fn laid_out(&mut self, rng: &mut fastrand::Rng) -> Option<Tensor> {
        let dtype = [DType::F32, DType::F32, DType::F64, DType::F16][rng.usize(..4)];
        let (shape, order) = match rng.u32(..3) {
            0 => (Shape::new(&[[16, 32, 48][rng.usize(..3)]; 2]), Some(vec![1, 0])),
            1 => (Shape::new(&[rng.usize(2..6), rng.usize(2..6), 2 * (2 * rng.usize(1..8) + 1)]), Some(vec![1, 0, 2])),
            _ => (Shape::new(&[rng.usize(1..4), 256 * rng.usize(1..4)]), None),
        };
        let x = self.input(dtype, shape);
        let Some(order) = order else { return self.reduced(ReduceOp::Max, x, 1 << 1, rng.bool()) };
        let to: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
        let turned =
            self.push(Op::Permute, dtype, Shape::new(&to), pack_order(&order), vec![Argument::Tensor(x)], vec![])?;
        let y = if shape.rank() == 2 { x } else { self.input(dtype, Shape::new(&to)) };
        let z = self.binary([Sub, Add, ElementOp::Maximum][rng.usize(..3)], turned, y)?;
        let fold = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][rng.usize(..3)];
        self.reduced(fold, z, (1 << shape.rank()) - 1, false)
    }

    fn centred(&mut self, x: Tensor, axes: u32) -> Option<Tensor> {
        let mean = self.mean(x, axes)?;
        let centred = self.binary(Sub, x, mean)?;
        let square = if self.rng.bool() { self.unary(Square, centred)? } else { self.binary(Mul, centred, centred)? };
        let variance = self.mean(square, axes)?;
        let variance = self.with_number(Add, variance, 1e-5)?;
        let scale = self.unary(Rsqrt, variance)?;
        self.binary(Mul, centred, scale)
    }

    /// Tensor of the program that broadcasts with `x`, or a new input with an element per index of the given axes.
    fn scale(&mut self, x: Tensor, axes: u32) -> Tensor {
        let (dtype, shape) = (self.program.dtype(x), self.program.shape(x));
        let fits = self.tensor(|p, t| {
            let s = p.shape(t);
            t != x && p.dtype(t) == dtype && s.numel() < shape.numel() && s.broadcast(&shape) == Some(shape)
        });
        match fits {
            Some(t) if self.rng.bool() => t,
            _ => {
                let mut own = shape;
                (0..own.rank()).filter(|i| axes >> i & 1 == 0).for_each(|i| own.dims_mut()[i] = 1);
                self.input(dtype, own)
            }
        }
    }

    fn normalise(&mut self, x: Tensor) -> Option<Tensor> {
        let axes = self.axes(x);
        let mut y = self.centred(x, axes)?;
        if self.rng.bool() {
            let g = self.scale(x, axes);
            y = self.binary(Mul, y, g)?;
            let b = self.scale(x, axes);
            y = self.binary(Add, y, b)?;
        }
        Some(y)
    }

    fn rms_norm(&mut self, x: Tensor) -> Option<Tensor> {
        let axes = self.axes(x);
        let square = self.unary(Square, x)?;
        let mean = self.mean(square, axes)?;
        let mean = self.with_number(Add, mean, 1e-5)?;
        let scale = self.unary(Rsqrt, mean)?;
        let y = self.binary(Mul, x, scale)?;
        let g = self.scale(x, axes);
        let y = self.binary(Mul, y, g)?;
        let gate = self.unary(Sigmoid, y)?;
        self.binary(Mul, y, gate)
    }

    /// Records a group norm: reshaped to groups, normalized over them, and reshaped back.
    fn group_norm(&mut self, x: Tensor) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let to = self.factored(shape.numel());
        let grouped = self.reshaped(x, to)?;
        let axes = if to.rank() == 0 { return None } else { self.axes(grouped) };
        let y = self.centred(grouped, axes)?;
        let y = self.reshaped(y, shape)?;
        let channels = 1 << self.rng.usize(..shape.rank());
        let g = self.scale(x, channels);
        self.binary(Mul, y, g)
    }

    fn log_sum_exp(&mut self, x: Tensor) -> Option<Tensor> {
        let axes = self.axes(x);
        let m = self.broadcastable_reduction(ReduceOp::Max, x, axes)?;
        let d = self.binary(Sub, x, m)?;
        let e = self.unary(Exp, d)?;
        let s = self.broadcastable_reduction(ReduceOp::Sum, e, axes)?;
        let l = self.unary(Log, s)?;
        self.binary(Add, l, m)
    }

    /// Records a one-hot mask of the largest or smallest element, and the selected elements.
    fn one_hot(&mut self, x: Tensor) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let axis = self.rng.usize(..shape.rank());
        let y = if self.rng.bool() { self.unary(Sigmoid, x)? } else { self.binary(Mul, x, x)? };
        let op = self.pick(&[ReduceOp::ArgMax, ReduceOp::ArgMin]);
        let at = self.broadcastable_reduction(op, y, 1 << axis)?;
        let n = shape[axis];
        let mut row = Shape::new(&vec![1; shape.rank()]);
        row.dims_mut()[axis] = n;
        let along = self.push(Op::Iota, DType::I64, Shape::new(&[n]), 0, vec![], vec![n as i64])?;
        let along = self.reshaped(along, row)?;
        let hit = self.binary(Eq, along, at)?;
        let float = self.program.dtype(x);
        let hot = self.push(Op::Cast, float, self.program.shape(hit), 0, vec![Argument::Tensor(hit)], vec![])?;
        let picked = self.binary(Mul, hot, x)?;
        let keep = self.rng.bool();
        self.reduced(ReduceOp::Sum, picked, 1 << axis, keep)
    }

    pub(super) fn plain(&mut self) -> ReduceOp {
        self.pick(&[ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod])
    }

    /// Records several reductions of one tensor, over the same axes, over different ones, or over the last and all
    /// others.
    fn several_reductions(&mut self, x: Tensor) -> Option<Tensor> {
        let x = if self.rng.bool() { x } else { self.unary(Sigmoid, x)? };
        let rank = self.program.shape(x).rank() as u32;
        let all = (1 << rank) - 1;
        let axes = self.axes(x);
        let way = self.rng.u32(..3);
        let mut results = vec![];
        for n in 0..self.rng.usize(2..5) {
            let own = match way {
                0 => axes,
                1 if n % 2 == 1 => all ^ 1 << (rank - 1),
                1 => 1 << (rank - 1),
                _ => self.axes(x),
            };
            let (op, keep) = (self.plain(), self.rng.bool());
            results.push(self.reduced(op, x, own, keep)?);
        }
        let at = self.rng.usize(..results.len());
        if self.rng.bool() {
            let doubled = self.with_number(Mul, results[at], 2.0)?;
            return self.unary(Sigmoid, doubled);
        }
        Some(results[at])
    }

    /// Records a reduction of a tensor after one or two movements, or of a concatenation.
    fn of_a_view(&mut self, x: Tensor) -> Option<Tensor> {
        let mut y = x;
        if self.rng.bool() {
            y = self.unary(Sigmoid, y)?;
        }
        for _ in 0..self.rng.usize(1..3) {
            let step = if self.rng.u32(..4) == 0 { self.cat_of(y) } else { self.movement_of(y) }?;
            y = self.push(step.op, step.dtype, step.shape, step.attr, step.args, step.ints)?;
        }
        if self.program.shape(y).rank() == 0 {
            return None;
        }
        if self.rng.bool() {
            return self.softmax(y);
        }
        let (op, axes) = (self.plain(), self.axes(y));
        let r = self.broadcastable_reduction(op, y, axes)?;
        // The result is moved, too.
        let step = self.movement_of(r)?;
        self.push(step.op, step.dtype, step.shape, step.attr, step.args, step.ints)
    }

    /// Records a reduction, element-wise operations on its result alone, then a broadcast of that over the rows.
    fn over_the_rows(&mut self, x: Tensor) -> Option<Tensor> {
        let (op, axes) = (self.plain(), self.axes(x));
        let r = self.broadcastable_reduction(op, x, axes)?;
        let s = self.unary(Sigmoid, r)?;
        let s = self.with_number(Add, s, 0.5)?;
        let other = self.tensor(|p, t| p.dtype(t) == p.dtype(s) && p.shape(t) == p.shape(s))?;
        let s = self.binary(Add, s, other)?;
        let y = self.binary(Mul, x, s)?;
        let again = if self.rng.bool() { axes } else { self.axes(y) };
        let op = self.plain();
        let t = self.broadcastable_reduction(op, y, again)?;
        self.binary(Sub, y, t)
    }

    /// Records a cumulative sum divided by its last element; sometimes of sorted values.
    fn normalized_scan(&mut self, x: Tensor) -> Option<Tensor> {
        let shape = self.program.shape(x);
        let axis = self.rng.usize(..shape.rank());
        let dtype = self.program.dtype(x);
        if shape[axis] == 0 {
            return None;
        }
        let backwards = if self.rng.u32(..3) == 0 { REVERSE } else { 0 };
        let x = if self.rng.bool() { self.unary(Exp, x)? } else { x };
        let op = self.pick(&[ScanOp::Sum, ScanOp::Sum, ScanOp::Max, ScanOp::Prod, ScanOp::Sort]);
        let c = self.push(Op::Scan(op), dtype, shape, axis as u32 | backwards, vec![Argument::Tensor(x)], vec![])?;
        let mut small = shape;
        small.dims_mut()[axis] = 1;
        let last = if self.rng.u32(..3) == 0 {
            self.broadcastable_reduction(ReduceOp::Max, c, 1 << axis)?
        } else {
            let at = if backwards != 0 { 0 } else { shape[axis] as i64 - 1 };
            let ints =
                (0..shape.rank()).flat_map(|i| if i == axis { [at, 1, 1] } else { [0, 1, shape[i] as i64] }).collect();
            self.push(Op::Slice, dtype, small, 0, vec![Argument::Tensor(c)], ints)?
        };
        let share = self.binary(Div, c, last)?;
        if self.rng.bool() {
            let (op, axes) = (self.plain(), self.axes(share));
            return self.broadcastable_reduction(op, share, axes);
        }
        Some(share)
    }

    /// Records elements of a reduction's result, gathered by index; or a reduction of gathered elements.
    fn by_index(&mut self, x: Tensor) -> Option<Tensor> {
        let mut from = x;
        if self.rng.bool() {
            let (op, axes) = (self.plain(), self.axes(x));
            from = self.broadcastable_reduction(op, x, axes)?;
        }
        if self.rng.bool() {
            from = self.unary(Sigmoid, from)?;
        }
        let own = self.program.shape(from);
        if own.numel() == 0 {
            return None;
        }
        let axis = self.rng.usize(..own.rank());
        let mut shape = own;
        shape.dims_mut()[axis] = self.rng.usize(1..=2 * own[axis]);
        if shape.numel() > self.limit {
            return None;
        }
        let index = self.index(shape, axis, own[axis]);
        let args = vec![Argument::Tensor(from), Argument::Tensor(index)];
        let dtype = self.program.dtype(from);
        let g = self.push(Op::Gather, dtype, shape, axis as u32, args, vec![])?;
        let (op, axes) = (self.plain(), self.axes(g));
        let r = self.broadcastable_reduction(op, g, axes)?;
        // Dimensions are permuted, so that the rows of both cannot always share a kernel.
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        self.rng.shuffle(&mut order);
        let to: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
        let p =
            self.push(Op::Permute, dtype, Shape::new(&to), pack_order(&order), vec![Argument::Tensor(g)], vec![])?;
        let (axes, keep) = (self.axes(p), self.rng.bool());
        self.reduced(ReduceOp::Sum, p, axes, keep)?;
        self.binary(Sub, g, r)
    }
}
