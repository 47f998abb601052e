//! Random programs: every operation, view and dtype, broadcasts, dimensions of size 0 and 1, special values; also
//! [`idioms`] of several steps, and sometimes rows longer than a block of a reduction.

mod combined;
mod complex;
mod idioms;
mod products;
mod scatters;
mod selections;
mod siblings;
mod windows;

use crate::program::{Argument, Input, Program, Step, Tensor};
use fastrand::Rng;
use thalweg_ir::element::Output;
use thalweg_ir::{DType, ElementOp, Op, REVERSE, RandomKind, ReduceOp, Scalar, ScanOp, Shape, pack_order};
use thalweg_kernel::order::BLOCK;

/// Maximum number of elements of a tensor of a program; a few programs may have larger ones.
const MAX_ELEMENTS: usize = 3000;
const MAX_LARGE_ELEMENTS: usize = 200_000;
/// Seed mask of a program's second random source.
const LATER: u64 = 0x6d6f_6e6f_6964;
/// Seed mask of the source for reductions and scans by user-defined combines.
const COMBINES: u64 = 0x636f_6d62_696e;
/// Seed mask of the source that selects programs with complex arithmetic.
const COMPLEX: u64 = 0x636f_6d70_6c65;
/// Seed mask of the source that selects programs with many pairs of rows.
const PAIRS: u64 = 0x0070_6169_7273;
/// Seed mask of the source that selects programs with reductions by layout.
const LAYOUTS: u64 = 0x006c_6179_6f75;
/// Seed mask of the source that selects programs that end in selections, and their form.
const SELECTIONS: u64 = 0x7365_6c65_6374;
/// Maximum number of elements of a tensor in programs with rows longer than a block.
const MAX_LONG_ROW_ELEMENTS: usize = 8 * BLOCK;

struct Generator {
    rng: Rng,
    /// Random source for later additions to the generator: seeds keep their programs where it adds nothing.
    later: Rng,
    program: Program,
    limit: usize,
    /// Whether inputs are moderate: without infinities and NaN.
    tame: bool,
    /// Whether the idioms include complex arithmetic.
    complex: bool,
}

/// Makes a program from a seed.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::with_seed(seed);
    let large = rng.u32(..40) == 0;
    let long = rng.u32(..25) == 0;
    let tame = rng.bool();
    let limit = match (large, long) {
        (true, _) => MAX_LARGE_ELEMENTS,
        (_, true) => MAX_LONG_ROW_ELEMENTS,
        _ => MAX_ELEMENTS,
    };
    let mut later = Rng::with_seed(seed ^ LATER);
    let vast = later.u32(..250) == 0;
    let mut pairs = Rng::with_seed(seed ^ PAIRS);
    let paired = !vast && pairs.u32(..250) == 0;
    let limit = if vast || paired { MAX_LARGE_ELEMENTS } else { limit };
    let complex = Rng::with_seed(seed ^ COMPLEX).u32(..10) == 0;
    let mut g = Generator { limit, rng, later, program: Program::default(), tame, complex };
    let inputs = g.rng.usize(1..4);
    // One main dtype is more likely than many mixed ones; otherwise hardly any two values could be combined.
    let main = g.pick(&[
        DType::F32,
        DType::F32,
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U64,
    ]);
    let base = match (vast, long) {
        (true, _) => g.vast_shape(),
        (_, true) => g.long_shape(),
        _ if paired => Shape::new(&[pairs.usize(1..4)]),
        _ => g.shape(if large { 100_000 } else { 600 }),
    };
    for i in 0..inputs {
        let dtype = if g.rng.u32(..3) > 0 { main } else { g.pick(&DType::ALL) };
        let shape = if i == 0 || g.rng.bool() { base } else { g.related(base) };
        g.input(dtype, shape);
    }
    if paired {
        g.pairs(&mut pairs, main);
    }
    let steps = match g.rng.u32(..20) {
        _ if vast => g.rng.usize(1..12),
        _ if paired => g.rng.usize(4..12),
        0 => g.rng.usize(60..160),
        1..4 => g.rng.usize(20..60),
        _ => g.rng.usize(1..20),
    };
    // Some programs are mostly idioms, some have none.
    let idioms = g.pick(&[0, 1, 3]);
    let mut combines = Rng::with_seed(seed ^ COMBINES);
    let mut failures = 0;
    while g.program.steps.len() < steps && failures < 200 {
        if g.rng.u32(..6) < idioms {
            failures += g.idiom().is_none() as u32;
            continue;
        }
        let step = if combines.u32(..20) == 0 { g.combined() } else { g.step() };
        match step {
            Some(step) if step.shape.numel() <= g.limit => g.program.steps.push(step),
            _ => failures += 1,
        }
    }
    let mut layouts = Rng::with_seed(seed ^ LAYOUTS);
    if layouts.u32(..12) == 0 {
        let _ = g.laid_out(&mut layouts);
    }
    let n = g.program.steps.len();
    let mut selections = Rng::with_seed(seed ^ SELECTIONS);
    if selections.u32(..6) == 0 {
        // If a selection does not apply, the steps that it has recorded so far stay in the program.
        let _ = g.selections(&mut selections);
    }
    for i in 0..n {
        let last = i + 1 == n;
        g.program.steps[i].kept |= last || g.rng.u32(..5) == 0;
    }
    g.program
}

/// Program with only inputs, of these dtypes and shapes.
pub fn inputs(rng: Rng, of: &[(DType, Shape)]) -> Program {
    let mut g = Generator {
        limit: MAX_ELEMENTS,
        later: rng.clone(),
        rng,
        program: Program::default(),
        tame: false,
        complex: false,
    };
    g.tame = g.rng.bool();
    for &(dtype, shape) in of {
        g.input(dtype, shape);
    }
    g.program
}

impl Generator {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(..from.len())]
    }

    fn shape(&mut self, limit: usize) -> Shape {
        let rank = self.rng.usize(..5);
        let mut dims = vec![];
        for _ in 0..rank {
            let room = limit / dims.iter().product::<usize>().max(1);
            dims.push(match self.rng.u32(..12) {
                0 => 1,
                1 if self.rng.u32(..8) == 0 => 0,
                2 => self.rng.usize(1..=room.clamp(1, 2000)),
                _ => self.rng.usize(1..=room.clamp(1, 20)),
            });
        }
        Shape::new(&dims)
    }

    /// Shape with a dimension, or two adjacent ones, longer than a block of a reduction, or with enough rows and
    /// columns for a shared pass.
    fn long_shape(&mut self) -> Shape {
        let n = BLOCK + self.pick(&[0, 1, 31, 100, 3000, BLOCK, BLOCK + 17]);
        let few = self.rng.usize(1..4);
        let dims = match self.rng.u32(..7) {
            0 => vec![n],
            1 | 2 => vec![130, n / 32],
            3 => vec![few, n],
            4 => vec![n, few],
            5 => vec![few, n.div_ceil(few), few],
            _ => vec![2, few, n / 2 / few],
        };
        Shape::new(&dims)
    }

    /// Shape with rows that exceed the caches, which online passes read once.
    fn vast_shape(&mut self) -> Shape {
        let n = 132_000 + self.later.usize(..50_000);
        match self.later.u32(..3) {
            0 => Shape::new(&[n]),
            1 => Shape::new(&[1, n]),
            _ => Shape::new(&[3, n / 3]),
        }
    }

    fn input(&mut self, dtype: DType, shape: Shape) -> Tensor {
        let bytes = self.bytes(dtype, shape.numel());
        self.program.inputs.push(Input { dtype, shape, bytes });
        Tensor::Input(self.program.inputs.len() - 1)
    }

    /// Random shape that broadcasts with `base`.
    fn related(&mut self, base: Shape) -> Shape {
        let from = self.rng.usize(..=base.rank());
        let dims: Vec<usize> = base[from..].iter().map(|&d| if self.rng.u32(..3) == 0 { 1 } else { d }).collect();
        Shape::new(&dims)
    }

    fn bytes(&mut self, dtype: DType, n: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(n * dtype.size());
        for _ in 0..n {
            let v = self.value(dtype);
            match dtype {
                DType::F32 => out.extend((v.to_f64() as f32).to_ne_bytes()),
                DType::F64 => out.extend(v.to_f64().to_ne_bytes()),
                DType::BF16 => out.extend(half::bf16::from_f64(v.to_f64()).to_ne_bytes()),
                DType::F16 => out.extend(half::f16::from_f64(v.to_f64()).to_ne_bytes()),
                _ => out.extend(&dtype.wrap(v.to_i64()).to_le_bytes()[..dtype.size()]),
            }
        }
        out
    }

    fn value(&mut self, dtype: DType) -> Scalar {
        if dtype == DType::Bool {
            return Scalar::Int(self.rng.bool() as i64);
        }
        if dtype.is_int() {
            let (lo, hi) = dtype.int_range();
            // All bits of u64, which Scalar::integer reads.
            let bits = match self.rng.u32(..10) {
                0 if !self.tame => dtype.wrap(self.rng.i64(..)),
                1 if !self.tame => self.pick(&[lo as i64, hi as i64, (hi / 2 + 1) as i64, 0, 1]),
                _ => dtype.wrap(self.rng.i64(-9..=20)),
            };
            return Scalar::integer(bits, dtype);
        }
        let normal = {
            let (u, v) = (self.rng.f64().max(1e-12), self.rng.f64());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        Scalar::Float(match self.rng.u32(..40) {
            0 if !self.tame => {
                self.pick(&[0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -3e-39, 1e30, -1e38, 65504.0])
            }
            1 if !self.tame => normal * 1e4,
            2 if !self.tame => normal * 1e-6,
            3 | 4 => self.rng.i32(-4..=4) as f64,
            _ => normal * 2.0,
        })
    }

    fn scalar(&mut self, dtype: DType) -> Argument {
        let v = match self.value(dtype) {
            Scalar::Int(v) if dtype.is_int() => Scalar::Int(dtype.wrap(v)),
            other => other,
        };
        Argument::Scalar(v.to_bits(dtype))
    }

    /// Draws a tensor of the program that is `wanted`; recent ones are more likely. `None` if there is none.
    fn tensor(&mut self, wanted: impl Fn(&Program, Tensor) -> bool) -> Option<Tensor> {
        let (n, m) = (self.program.steps.len(), self.program.inputs.len());
        let all: Vec<Tensor> = (0..m).map(Tensor::Input).chain((0..n).map(Tensor::Step)).collect();
        let fit: Vec<Tensor> = all.into_iter().filter(|&t| wanted(&self.program, t)).collect();
        if fit.is_empty() {
            return None;
        }
        let back = self.rng.usize(..fit.len()).min(self.rng.usize(..fit.len()));
        Some(fit[fit.len() - 1 - back])
    }

    fn any(&mut self) -> Tensor {
        self.tensor(|_, _| true).expect("a program has an input")
    }

    fn step(&mut self) -> Option<Step> {
        match self.rng.u32(..23) {
            20 => self.scan(),
            21 => self.gather(),
            22 => self.scatter(),
            0..10 => self.element(),
            10 => self.cast(),
            11..16 => self.movement(),
            16 => self.source(),
            17 => {
                if self.rng.bool() {
                    self.cat()
                } else {
                    self.put()
                }
            }
            18 => self.reduce(),
            _ => {
                if self.rng.bool() {
                    self.matmul()
                } else {
                    self.element()
                }
            }
        }
    }

    fn element(&mut self) -> Option<Step> {
        let op = self.pick(ElementOp::ALL);
        let row = op.row();
        let condition = op == ElementOp::Where;
        let first = self.tensor(|p, t| row.takes.has(p.dtype(t)))?;
        let dtype = self.program.dtype(first);
        let mut shape = self.program.shape(first);
        let mut args = vec![];
        if condition {
            let c = self.tensor(|p, t| p.dtype(t) == DType::Bool && p.shape(t).broadcast(&shape).is_some())?;
            shape = self.program.shape(c).broadcast(&shape)?;
            args.push(Argument::Tensor(c));
        }
        let at = self.rng.usize(..row.arity - args.len());
        let values = row.arity - args.len();
        for n in 0..values {
            if n == at {
                args.push(Argument::Tensor(first));
            } else if self.rng.u32(..3) == 0 {
                args.push(self.scalar(dtype));
            } else {
                let t = self.tensor(|p, t| p.dtype(t) == dtype && p.shape(t).broadcast(&shape).is_some())?;
                shape = self.program.shape(t).broadcast(&shape)?;
                args.push(Argument::Tensor(t));
            }
        }
        let mut attr = 0;
        for (i, a) in args.iter().enumerate() {
            if let Argument::Tensor(t) = a {
                attr |= (self.program.shape(*t).broadcast_mask(&shape) as u32) << (8 * i);
            }
        }
        let dtype = if row.output == Output::Bool { DType::Bool } else { dtype };
        Some(Step { op: Op::Element(op), dtype, shape, attr, args, ints: vec![], kept: false })
    }

    fn cast(&mut self) -> Option<Step> {
        let t = self.any();
        let dtype = self.pick(&DType::ALL);
        let shape = self.program.shape(t);
        let from = self.program.dtype(t);
        if from != dtype
            && from.size() == dtype.size()
            && ![from, dtype].contains(&DType::Bool)
            && self.rng.u32(..3) > 0
        {
            return self.bitcast(t, dtype);
        }
        Some(Step { op: Op::Cast, dtype, shape, attr: 0, args: vec![Argument::Tensor(t)], ints: vec![], kept: false })
    }

    /// Step that reinterprets the bits of a tensor as another dtype. Floats are first restricted to specified bits: no
    /// NaN, and no -0.
    fn bitcast(&mut self, mut t: Tensor, dtype: DType) -> Option<Step> {
        let (from, shape) = (self.program.dtype(t), self.program.shape(t));
        if from.is_float() {
            let [zero, one] = [0.0, 1.0].map(|v| Argument::Scalar(Scalar::Float(v).to_bits(from)));
            let arg = Argument::Tensor;
            let nan = self.push(Op::Element(ElementOp::IsNan), DType::Bool, shape, 0, vec![arg(t)], vec![])?;
            t = self.push(Op::Element(ElementOp::Where), from, shape, 0, vec![arg(nan), one, arg(t)], vec![])?;
            t = self.push(Op::Element(ElementOp::Add), from, shape, 0, vec![arg(t), zero], vec![])?;
        }
        Some(Step {
            op: Op::Bitcast,
            dtype,
            shape,
            attr: 0,
            args: vec![Argument::Tensor(t)],
            ints: vec![],
            kept: false,
        })
    }

    fn source(&mut self) -> Option<Step> {
        let like = self.any();
        let shape = self.program.shape(like);
        let dims = |s: Shape| s.iter().map(|&d| d as i64).collect::<Vec<_>>();
        let (op, dtype, shape, args) = match self.rng.u32(..4) {
            0 => {
                let dtype = self.program.dtype(like);
                (Op::Full, dtype, shape, vec![self.scalar(dtype)])
            }
            1 => {
                let dtype =
                    self.pick(&[DType::F32, DType::I64, DType::I32, DType::U8, DType::F16, DType::U16, DType::U64]);
                let n = shape.last().copied().unwrap_or(5);
                (Op::Iota, dtype, Shape::new(&[n]), vec![])
            }
            _ => {
                let kind = self.pick(&[RandomKind::Uniform, RandomKind::Uniform, RandomKind::Normal, RandomKind::Bits]);
                let dtype = match kind {
                    RandomKind::Bits => DType::U32,
                    _ => self.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16]),
                };
                (Op::Random(kind), dtype, shape, vec![Argument::Scalar(self.rng.u64(..))])
            }
        };
        Some(Step { op, dtype, shape, attr: 0, args, ints: dims(shape), kept: false })
    }

    fn movement(&mut self) -> Option<Step> {
        let t = self.any();
        self.movement_of(t)
    }

    fn movement_of(&mut self, t: Tensor) -> Option<Step> {
        let (dtype, shape) = (self.program.dtype(t), self.program.shape(t));
        let rank = shape.rank();
        let mut args = vec![Argument::Tensor(t)];
        let dims = |s: Shape| s.iter().map(|&d| d as i64).collect::<Vec<_>>();
        let (op, shape, attr, ints) = match self.rng.u32(..7) {
            0 => {
                let to = self.factored(shape.numel());
                (Op::Reshape, to, 0, dims(to))
            }
            1 if rank > 0 => {
                let mut order: Vec<usize> = (0..rank).collect();
                self.rng.shuffle(&mut order);
                let to: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
                (Op::Permute, Shape::new(&to), pack_order(&order), vec![])
            }
            2 if rank < 6 => {
                let mut to: Vec<usize> = shape.iter().map(|&d| if d == 1 { self.rng.usize(1..6) } else { d }).collect();
                if self.rng.bool() {
                    to.insert(0, self.rng.usize(1..5));
                }
                let to = Shape::new(&to);
                (Op::Expand, to, shape.broadcast_mask(&to) as u32, dims(to))
            }
            3 | 4 if rank > 0 => {
                let mut ints = vec![];
                let mut to = vec![];
                for &d in shape.iter() {
                    let (start, step, len) = match self.rng.u32(..5) {
                        0 if d > 0 => (d as i64 - 1, -1, d),
                        1 if d > 1 => {
                            let start = self.rng.usize(..d);
                            let step = self.rng.usize(1..3);
                            (start as i64, step as i64, (d - start).div_ceil(step))
                        }
                        2 if d > 0 => {
                            let start = self.rng.usize(..d);
                            (start as i64, 1, self.rng.usize(0..=d - start).max(1))
                        }
                        _ => (0, 1, d),
                    };
                    ints.extend([start, step, len as i64]);
                    to.push(len);
                }
                (Op::Slice, Shape::new(&to), 0, ints)
            }
            5 if rank > 0 && rank < 7 => {
                let axis = self.rng.usize(..rank);
                if shape[axis] == 0 {
                    return None;
                }
                let (size, step) = (self.rng.usize(1..=shape[axis].min(5)), self.rng.usize(1..4));
                let mut to = shape.dims().to_vec();
                to[axis] = (shape[axis] - size) / step + 1;
                to.push(size);
                (Op::Window, Shape::new(&to), axis as u32, vec![size as i64, step as i64])
            }
            6 if rank > 0 => {
                let mut ints = vec![];
                let mut to = vec![];
                for &d in shape.iter() {
                    let (before, after) =
                        if self.rng.bool() { (0, 0) } else { (self.rng.usize(..3), self.rng.usize(..4)) };
                    ints.extend([before as i64, after as i64]);
                    to.push(d + before + after);
                }
                args.push(self.scalar(dtype));
                (Op::Pad, Shape::new(&to), 0, ints)
            }
            _ => return None,
        };
        Some(Step { op, dtype, shape, attr, args, ints, kept: false })
    }

    fn factored(&mut self, mut n: usize) -> Shape {
        let mut dims = vec![];
        if n == 0 {
            return Shape::new(&[0, 3]);
        }
        while n > 1 && dims.len() < 5 {
            let divisors: Vec<usize> = (1..=n.min(4000)).filter(|d| n.is_multiple_of(*d)).collect();
            let d = self.pick(&divisors);
            dims.push(d);
            n /= d;
        }
        if n > 1 || self.rng.u32(..4) == 0 {
            dims.push(n);
        }
        Shape::new(&dims)
    }

    fn cat(&mut self) -> Option<Step> {
        let a = self.tensor(|p, t| p.shape(t).rank() > 0)?;
        self.cat_of(a)
    }

    fn cat_of(&mut self, a: Tensor) -> Option<Step> {
        let (dtype, shape) = (self.program.dtype(a), self.program.shape(a));
        if shape.rank() == 0 {
            return None;
        }
        let axis = self.rng.usize(..shape.rank());
        let fits = |s: Shape| s.rank() == shape.rank() && (0..s.rank()).all(|i| i == axis || s[i] == shape[i]);
        let b = self.tensor(|p, t| p.dtype(t) == dtype && fits(p.shape(t)))?;
        let mut to = shape;
        to.dims_mut()[axis] += self.program.shape(b)[axis];
        let args = vec![Argument::Tensor(a), Argument::Tensor(b)];
        Some(Step { op: Op::Cat, dtype, shape: to, attr: axis as u32, args, ints: vec![], kept: false })
    }

    /// Step that replaces a box of a tensor by another tensor that fits into it, or by a slice of itself.
    fn put(&mut self) -> Option<Step> {
        let x = self.tensor(|p, t| p.shape(t).rank() > 0)?;
        let (dtype, shape) = (self.program.dtype(x), self.program.shape(x));
        let fits = |s: Shape| s.rank() == shape.rank() && s.iter().zip(shape.iter()).all(|(p, d)| p <= d);
        let mut part = self.tensor(|p, t| p.dtype(t) == dtype && fits(p.shape(t)))?;
        if part == x && self.rng.bool() {
            let (mut ints, mut to) = (vec![], vec![]);
            for &d in shape.iter() {
                let len = self.rng.usize(..=d);
                ints.extend([self.rng.usize(..=d - len) as i64, 1, len as i64]);
                to.push(len);
            }
            part = self.push(Op::Slice, dtype, Shape::new(&to), 0, vec![Argument::Tensor(x)], ints)?;
            part = if dtype.is_float() { self.unary(ElementOp::Abs, part)? } else { part };
        }
        let own = self.program.shape(part);
        let mut ints = vec![];
        for (&d, &n) in shape.iter().zip(own.iter()) {
            let before = self.rng.usize(..=d - n);
            ints.extend([before as i64, (d - n - before) as i64]);
        }
        let args = vec![Argument::Tensor(x), Argument::Tensor(part)];
        Some(Step { op: Op::Put, dtype, shape, attr: 0, args, ints, kept: false })
    }

    fn reduce(&mut self) -> Option<Step> {
        use ReduceOp::*;
        let op = self.pick(ReduceOp::ALL);
        let bool_only = matches!(op, Any | All);
        let t = self.tensor(|p, t| {
            let d = p.dtype(t);
            let arg = !matches!(op, ArgMax | ArgMin) || p.shape(t).rank() > 0;
            arg && if bool_only { d == DType::Bool } else { d != DType::Bool }
        })?;
        let shape = self.program.shape(t);
        let mut axes = self.rng.u32(..1 << shape.rank());
        let mut dtype = self.program.dtype(t);
        if matches!(op, ArgMax | ArgMin) {
            axes = 1 << self.rng.usize(..shape.rank());
            dtype = DType::I64;
            let axis = axes.trailing_zeros() as usize;
            if shape[axis] == 0 {
                return None;
            }
        }
        let keep = self.rng.bool();
        let dims: Vec<usize> = (0..shape.rank())
            .filter_map(|i| match axes >> i & 1 {
                1 => keep.then_some(1),
                _ => Some(shape[i]),
            })
            .collect();
        let args = vec![Argument::Tensor(t)];
        let attr = axes | (keep as u32) << 8;
        Some(Step { op: Op::Reduce(op), dtype, shape: Shape::new(&dims), attr, args, ints: vec![], kept: false })
    }

    fn scan(&mut self) -> Option<Step> {
        use ScanOp::*;
        let op = self.pick(&[Sum, Prod, Max, Min, LogSumExp, Sort, Argsort]);
        let t = self.tensor(|p, t| {
            let takes = match op {
                LogSumExp => p.dtype(t).is_float(),
                Sort | Argsort => true,
                _ => p.dtype(t) != DType::Bool,
            };
            takes && p.shape(t).rank() > 0
        })?;
        let shape = self.program.shape(t);
        let dtype = if op == Argsort { DType::I64 } else { self.program.dtype(t) };
        let attr = self.rng.u32(..shape.rank() as u32) | if self.rng.bool() { REVERSE } else { 0 };
        Some(Step { op: Op::Scan(op), dtype, shape, attr, args: vec![Argument::Tensor(t)], ints: vec![], kept: false })
    }

    fn matmul(&mut self) -> Option<Step> {
        let a = self.tensor(|p, t| p.shape(t).rank() >= 2 && p.dtype(t) != DType::Bool)?;
        let (dtype, sa) = (self.program.dtype(a), self.program.shape(a));
        let (m, k) = (sa[sa.rank() - 2], sa[sa.rank() - 1]);
        let lead = |s: Shape| Shape::new(&s[..s.rank() - 2]);
        let b = self.tensor(|p, t| {
            let s = p.shape(t);
            p.dtype(t) == dtype && s.rank() >= 2 && s[s.rank() - 2] == k && lead(sa).broadcast(&lead(s)).is_some()
        })?;
        let sb = self.program.shape(b);
        let batch = lead(sa).broadcast(&lead(sb))?;
        let shape = batch.insert(batch.rank(), m);
        let shape = shape.insert(shape.rank(), sb[sb.rank() - 1]);
        let args = vec![Argument::Tensor(a), Argument::Tensor(b)];
        Some(Step { op: Op::Matmul, dtype, shape, attr: 0, args, ints: vec![], kept: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_operation_comes_up() {
        let names: std::collections::BTreeSet<&str> =
            (0..400).flat_map(|seed| program(seed).steps).map(|s| s.op.name()).collect();
        for name in [
            "cumsum",
            "logcumsumexp",
            "sort",
            "argsort",
            "gather",
            "scatter",
            "scatter_add",
            "scatter_amin",
            "matmul",
            "sum",
            "cat",
            "slice_scatter",
        ] {
            assert!(names.contains(name), "{name} is not among {names:?}");
        }
    }

    #[test]
    fn convolutions_and_pooling_come_up() {
        let programs: Vec<Program> = (0..800).map(program).collect();
        // Programs must have a product of windows, and a concatenation of several slices of one tensor.
        let windowed = |p: &&Program| {
            let ops: Vec<&str> = p.steps.iter().map(|s| s.op.name()).collect();
            let at = ops.windows(3).position(|w| w == ["permute", "reshape", "matmul"]);
            at.is_some_and(|at| ops[..at].contains(&"window"))
        };
        assert!(programs.iter().filter(windowed).count() > 5);
        let shifted = |p: &&Program| {
            let name = |i: usize| p.steps[i].op.name();
            (3..p.steps.len()).any(|i| name(i - 3) == "slice" && name(i - 1) == "slice" && name(i) == "maximum")
        };
        assert!(programs.iter().filter(shifted).count() > 3);
    }

    #[test]
    fn rows_longer_than_a_block_and_chains_of_reductions_come_up() {
        let programs: Vec<Program> = (0..400).map(program).collect();
        let reductions = |p: &Program| p.steps.iter().filter(|s| matches!(s.op, Op::Reduce(_))).count();
        assert!(programs.iter().filter(|p| reductions(p) >= 3).count() > 40);
        let long = |p: &Program| p.inputs.iter().any(|i| i.shape.iter().any(|&d| d > BLOCK));
        assert!(programs.iter().any(long));
    }
}
