//! Segments for tests: written by hand, or random.

use crate::segment::{BitSet, Mode, OwnedSegment};
use proptest::prelude::*;
use thalweg_ir::{
    Convolution, ConvolutionAxis, ConvolutionRoutine, DType, ElementOp, ForeignCode, ForeignLaunch, ForeignSource,
    InputKind, MAX_ARGS, Op, ReduceOp, RelArg, RelOp, Scalar, ScanOp, ScatterOp, Shape, View, pack_order,
};

/// Tensor of a segment under construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum T {
    In(usize),
    Op(usize),
}

/// Segment under construction.
pub struct Graph(pub OwnedSegment);

impl Graph {
    pub fn new() -> Graph {
        Graph(OwnedSegment {
            ops: vec![],
            live: BitSet::new(4096),
            mode: Mode::fused(thalweg_kernel::Contracts::Rows),
            shapes: vec![],
            ints: vec![],
            scalars: vec![],
            inputs: vec![],
        })
    }

    pub fn input(&mut self, shape: &[usize]) -> T {
        self.0.inputs.push((DType::F32, View::contiguous(Shape::new(shape))));
        T::In(self.0.inputs.len() - 1)
    }

    /// Index tensor (i64).
    pub fn index(&mut self, shape: &[usize]) -> T {
        self.0.inputs.push((DType::I64, View::contiguous(Shape::new(shape))));
        T::In(self.0.inputs.len() - 1)
    }

    pub fn shape(&self, t: T) -> Shape {
        match t {
            T::In(i) => self.0.inputs[i].1.shape,
            T::Op(i) => self.0.shapes[i],
        }
    }

    pub fn live(&mut self, t: T) -> T {
        if let T::Op(i) = t {
            self.0.live.insert(i);
        }
        t
    }

    fn op(&mut self, op: Op, attr: u32, args: &[T], shape: Shape) -> T {
        let mut rel = RelOp { op, dtype: DType::F32, rank: shape.rank() as u8, attr, args: [RelArg::NONE; MAX_ARGS] };
        for (to, arg) in rel.args.iter_mut().zip(args) {
            *to = match *arg {
                T::Op(i) => RelArg::op(i),
                T::In(i) => {
                    let (dtype, view) = self.0.inputs[i];
                    RelArg::input(i, InputKind { dtype, rank: view.shape.rank(), contiguous: true })
                }
            };
        }
        self.0.ops.push(rel);
        self.0.shapes.push(shape);
        T::Op(self.0.ops.len() - 1)
    }

    pub fn unary(&mut self, e: ElementOp, a: T) -> T {
        let shape = self.shape(a);
        self.op(Op::Element(e), 0, &[a], shape)
    }

    pub fn binary(&mut self, e: ElementOp, a: T, b: T) -> T {
        let (x, y) = (self.shape(a), self.shape(b));
        let shape = x.broadcast(&y).expect("shapes that go together");
        self.op(Op::Element(e), 0, &[a, b], shape)
    }

    /// Converts to f32.
    pub fn cast(&mut self, a: T) -> T {
        let shape = self.shape(a);
        self.op(Op::Cast, 0, &[a], shape)
    }

    /// Multiplies by a scalar.
    pub fn scaled(&mut self, a: T, by: f64) -> T {
        let shape = self.shape(a);
        let out = self.op(Op::Element(ElementOp::Mul), 0, &[a], shape);
        let T::Op(i) = out else { unreachable!() };
        self.0.ops[i].args[1] = RelArg::SCALAR;
        self.0.scalars.push(Scalar::Float(by).to_bits(DType::F32));
        out
    }

    /// Constant tensor.
    pub fn full(&mut self, shape: &[usize], value: f64) -> T {
        let out = self.op(Op::Full, 0, &[], Shape::new(shape));
        let T::Op(i) = out else { unreachable!() };
        self.0.ops[i].args[0] = RelArg::SCALAR;
        self.0.ints.extend(shape.iter().map(|&d| d as i64));
        self.0.scalars.push(Scalar::Float(value).to_bits(DType::F32));
        out
    }

    /// Reduction over one axis, which stays with size 1.
    pub fn reduce(&mut self, r: ReduceOp, a: T, axis: usize) -> T {
        let mut shape = self.shape(a);
        shape.dims_mut()[axis] = 1;
        self.op(Op::Reduce(r), 1 << axis | 0x100, &[a], shape)
    }

    /// Running sum along an axis.
    pub fn cumsum(&mut self, a: T, axis: usize) -> T {
        let shape = self.shape(a);
        self.op(Op::Scan(ScanOp::Sum), axis as u32, &[a], shape)
    }

    pub fn transposed(&mut self, a: T) -> T {
        let shape = self.shape(a);
        let order: Vec<usize> = (0..shape.rank()).rev().collect();
        let dims: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
        self.op(Op::Permute, pack_order(&order), &[a], Shape::new(&dims))
    }

    pub fn reshaped(&mut self, a: T, shape: &[usize]) -> T {
        self.0.ints.extend(shape.iter().map(|&d| d as i64));
        self.op(Op::Reshape, 0, &[a], Shape::new(shape))
    }

    /// Flips one axis.
    pub fn flipped(&mut self, a: T, axis: usize) -> T {
        let shape = self.shape(a);
        for (i, &d) in shape.iter().enumerate() {
            let part = if i == axis { [d as i64 - 1, -1, d as i64] } else { [0, 1, d as i64] };
            self.0.ints.extend(part);
        }
        self.op(Op::Slice, 0, &[a], shape)
    }

    /// Slice of `size` elements along axis 0, starting at `from`.
    pub fn sliced(&mut self, a: T, from: usize, size: usize) -> T {
        let mut shape = self.shape(a);
        shape.dims_mut()[0] = size;
        for (i, &d) in shape.iter().enumerate() {
            self.0.ints.extend([if i == 0 { from as i64 } else { 0 }, 1, d as i64]);
        }
        self.op(Op::Slice, 0, &[a], shape)
    }

    /// Convolution of one sample and one channel along one axis by a library's routine, without padding.
    pub fn convolution(&mut self, x: T, weights: T) -> T {
        let routine = ConvolutionRoutine::parse("forward-1").expect("a routine's name");
        let (size, kernel) = (self.shape(x)[2], self.shape(weights)[2]);
        let mut of = Convolution::from_ints(routine, DType::F32, &[1; 11]);
        of.axes[0] =
            ConvolutionAxis { size, kernel, windows: size - kernel + 1, stride: 1, dilation: 1, padding: [0, 0] };
        let source = ForeignSource {
            name: "conv1d".into(),
            code: ForeignCode::Convolution(routine),
            operands: vec![DType::F32; 2],
            results: vec![DType::F32],
            sizes: routine.sizes(),
            numbers: vec![],
        };
        let shape = Shape::new(&[1, 1, size - kernel + 1]);
        let launch = ForeignLaunch { grid: [1; 3], block: [1; 3], shared: 0, additions: None };
        let bytes = [4 * shape.numel() as i64];
        self.0.ints.extend(launch.to_ints().into_iter().chain(of.to_ints()).chain(bytes));
        self.op(Op::Foreign(source.intern()), 0, &[x, weights], shape)
    }

    /// Concatenation along axis 0.
    pub fn cat(&mut self, a: T, b: T) -> T {
        let mut shape = self.shape(a);
        shape.dims_mut()[0] += self.shape(b)[0];
        self.op(Op::Cat, 0, &[a, b], shape)
    }

    /// `a` where the condition holds, else `b`.
    pub fn select(&mut self, condition: T, a: T, b: T) -> T {
        let shape = self.shape(a);
        self.op(Op::Element(ElementOp::Where), 0, &[condition, a, b], shape)
    }

    /// Scatter along axis 0.
    pub fn scatter(&mut self, s: ScatterOp, a: T, index: T, values: T) -> T {
        let shape = self.shape(a);
        self.op(Op::Scatter(s), 0, &[a, index, values], shape)
    }

    pub fn matmul(&mut self, a: T, b: T) -> T {
        let (x, y) = (self.shape(a), self.shape(b));
        self.op(Op::Matmul, 0, &[a, b], Shape::new(&[x[0], y[1]]))
    }
}

/// Step of a random graph: a kind of operation and the arguments, counted back from the last tensor.
#[derive(Clone, Debug)]
pub struct Choice {
    pub kind: u8,
    pub a: usize,
    pub b: usize,
    pub live: bool,
}

/// Steps for a graph of up to `most` operations.
pub fn choices(most: usize) -> impl Strategy<Value = (usize, Vec<Choice>)> {
    let choice = (0..22u8, 0..6usize, 0..6usize, prop::bool::weighted(0.15));
    let choice = choice.prop_map(|(kind, a, b, live)| Choice { kind, a, b, live });
    (0..3usize, prop::collection::vec(choice, 1..=most))
}

/// Graph of these steps, over square matrices of about 10³, 10⁵ or 10⁷ elements, and rows and columns of them.
pub fn random((size, choices): &(usize, Vec<Choice>)) -> Graph {
    let mut g = Graph::new();
    let n = [24, 320, 3000][*size];
    let mut all = vec![g.input(&[n, n]), g.input(&[n, n]), g.input(&[1, n])];
    for c in choices {
        let back = |k: usize| all[all.len() - 1 - k % all.len()];
        let (a, b) = (back(c.a), back(c.b));
        let new = match c.kind {
            0..=2 => g.unary(ElementOp::Exp, a),
            3 => g.unary(ElementOp::Neg, a),
            4 => g.unary(ElementOp::Tanh, a),
            5 => g.scaled(a, 2.0),
            6..=8 => g.binary(ElementOp::Add, a, b),
            9..=11 => g.binary(ElementOp::Mul, a, b),
            12 | 13 => g.reduce(ReduceOp::Sum, a, 1),
            14 => g.reduce(ReduceOp::Sum, a, 0),
            15 => g.reduce(ReduceOp::Max, a, 1),
            16 => g.reduce(ReduceOp::Max, a, 0),
            17 => g.transposed(a),
            18 => g.flipped(a, 0),
            20 | 21 if g.shape(a).rank() == g.shape(b).rank() => {
                let index = g.shape(b).dims().to_vec();
                let fits = g.shape(a)[1] == index[1];
                let index = g.index(&index);
                if fits { g.scatter(ScatterOp::Max, a, index, b) } else { g.unary(ElementOp::Sqrt, a) }
            }
            19 if g.shape(a).numel() == n * n && g.shape(b).numel() == n * n => g.matmul(a, b),
            _ => g.unary(ElementOp::Sqrt, a),
        };
        if c.live {
            g.live(new);
        }
        all.push(new);
    }
    let last = *all.last().expect("there are inputs");
    g.live(last);
    g
}
