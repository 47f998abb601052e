//! Random programs for `thalweg predict`: short tensor code over two tensors of a hundred to ten million elements and a
//! vector per axis.
//!
//! A program is data derived from a seed; it prints as a description of its steps.

use crate::failure::Outcome;
use std::fmt;
use thalweg::{By, DType, SliceArg, Tensor, manual_seed};

/// Step of a random program, which replaces the current value.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Element-wise function, by its index in [`UNARY`].
    Unary(usize),
    /// Combination with the second input, by an element-wise function with this index in [`BINARY`].
    Binary(usize),
    /// Combination with the first input, by an element-wise function with this index in [`BINARY`].
    Again(usize),
    /// Addition of a vector along the axis.
    Bias(usize),
    /// Subtraction of the mean along the axis.
    Centre(usize),
    /// Division by 1 plus the sum of magnitudes along the axis.
    Normalise(usize),
    /// Softmax along the axis, as separate operations: minus the maximum, exponential, divided by the sum.
    Softmax(usize),
    /// Reversal along the axis.
    Flip(usize),
    /// Exchange of the last two axes.
    Transpose,
    /// Slice of every second element along the axis.
    Half(usize),
    /// Padding by one zero on both sides of the axis.
    Pad(usize),
    /// Cumulative sum along the axis.
    Scan(usize),
    /// Reduction along the axis, by its index in [`REDUCE`].
    Reduce(usize, usize),
    /// The current value becomes an additional result.
    Keep,
}

type Unary = (&'static str, fn(&Tensor) -> Tensor);
type Binary = (&'static str, fn(&Tensor, &Tensor) -> Tensor);
type Reduce = (&'static str, fn(&Tensor, i64) -> Tensor);

const UNARY: &[Unary] = &[
    ("+1", |x| x + 1.0),
    ("·2", |x| x * 2.0),
    ("abs", |x| x.abs()),
    ("relu", |x| x.relu()),
    ("square", |x| x.square()),
    ("sqrt", |x| x.abs().sqrt()),
    ("exp", |x| x.exp()),
    ("tanh", |x| x.tanh()),
    ("sin", |x| x.sin()),
    ("sigmoid", |x| x.sigmoid()),
    ("erf", |x| x.erf()),
    ("log", |x| (x.abs() + 1.0).log()),
    ("gelu", |x| x.gelu()),
];
const BINARY: &[Binary] = &[
    ("+", |x, y| x + y),
    ("-", |x, y| x - y),
    ("·", |x, y| x * y),
    ("/", |x, y| x / (y.abs() + 1.0)),
    ("max", |x, y| x.maximum(y)),
    (">?", |x, y| x.gt(y).where_(x, y)),
];
const REDUCE: &[Reduce] = &[
    ("sum", |x, axis| x.sum(axis)),
    ("mean", |x, axis| x.mean(axis)),
    ("amax", |x, axis| x.amax(axis)),
    ("var", |x, axis| x.var(axis)),
    ("logsumexp", |x, axis| x.logsumexp(axis)),
];

/// Random program, with its inputs.
pub struct Program {
    shape: Vec<usize>,
    dtype: DType,
    steps: Vec<Step>,
    /// Two tensors of the program's shape, and one vector per axis.
    inputs: [Tensor; 2],
    vectors: Vec<Tensor>,
}

/// Makes `count` programs from a seed.
pub fn random(count: usize, seed: u64) -> Outcome<Vec<Program>> {
    manual_seed(seed);
    let mut random = Random(seed);
    let programs = (0..count).map(|_| Program::new(&mut random)).collect();
    thalweg::synchronize()?;
    Ok(programs)
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws a number below `n`.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Draws a number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Program {
    fn new(random: &mut Random) -> Program {
        let rank = 1 + random.below(3);
        let elements = 10f64.powf(2.0 + 5.0 * random.unit());
        // Random sizes whose product is about the number of elements.
        let parts: Vec<f64> = (0..rank).map(|_| 0.25 + random.unit()).collect();
        let all: f64 = parts.iter().sum();
        let shape: Vec<usize> = parts.iter().map(|p| (elements.powf(p / all).round() as usize).max(1)).collect();
        let dtype = [DType::F32, DType::F32, DType::F32, DType::F32, DType::BF16, DType::F64][random.below(6)];
        let mut steps: Vec<Step> = (0..1 + random.below(6)).map(|_| step(random, rank)).collect();
        steps.push(match random.below(4) {
            0 | 1 => Step::Reduce(random.below(REDUCE.len()), random.below(rank)),
            2 => Step::Binary(random.below(BINARY.len())),
            _ => Step::Unary(random.below(UNARY.len())),
        });
        let input = || Tensor::randn(shape.as_slice()).cast(dtype);
        let vector = |(axis, &n): (usize, &usize)| {
            let mut sizes = vec![1; rank];
            sizes[axis] = n;
            Tensor::randn(sizes).cast(dtype)
        };
        let vectors = shape.iter().enumerate().map(vector).collect();
        Program { inputs: [input(), input()], vectors, shape, dtype, steps }
    }

    /// Records the program.
    pub fn call(&self) -> Vec<Tensor> {
        let mut results = vec![];
        let mut x = self.inputs[0].clone();
        // The other operands are transposed, cut and padded with the value.
        let mut y = self.inputs[1].clone();
        let mut first = x.clone();
        let mut vectors = self.vectors.clone();
        for &step in &self.steps {
            let mut movement = |f: &dyn Fn(&Tensor) -> Tensor, v: &dyn Fn(&Tensor) -> Tensor| {
                (x, y, first) = (f(&x), f(&y), f(&first));
                vectors.iter_mut().for_each(|t| *t = v(t));
            };
            match step {
                Step::Flip(a) => movement(&|t| t.flip(a as i64), &|t| t.clone()),
                Step::Transpose => movement(&|t| t.transpose(-1, -2), &|t| t.transpose(-1, -2)),
                Step::Half(a) => movement(&|t| half(t, a), &|t| half(t, a)),
                Step::Pad(a) => {
                    movement(&|t| padded(t, a), &|t| if t.size(a as i64) == 1 { t.clone() } else { padded(t, a) })
                }
                Step::Unary(n) => x = UNARY[n].1(&x),
                Step::Binary(n) => x = BINARY[n].1(&x, &y),
                Step::Again(n) => x = BINARY[n].1(&x, &first),
                Step::Bias(a) => x = &x + &vectors[a],
                Step::Centre(a) => x = &x - x.mean_keepdim(a as i64),
                Step::Normalise(a) => x = &x / (x.abs().sum_keepdim(a as i64) + 1.0),
                Step::Softmax(a) => {
                    let e = (&x - x.amax_keepdim(a as i64)).exp();
                    x = &e / e.sum_keepdim(a as i64);
                }
                Step::Scan(a) => x = x.cumsum(a as i64),
                Step::Reduce(n, a) => x = REDUCE[n].1(&x, a as i64),
                Step::Keep => results.push(x.clone()),
            }
        }
        results.push(x);
        results
    }
}

fn half(t: &Tensor, axis: usize) -> Tensor {
    let args: Vec<SliceArg> = (0..t.rank()).map(|a| (..).by(if a == axis { 2 } else { 1 })).collect();
    t.slice(args)
}

fn padded(t: &Tensor, axis: usize) -> Tensor {
    let widths: Vec<(usize, usize)> = (0..t.rank()).map(|a| if a == axis { (1, 1) } else { (0, 0) }).collect();
    t.pad(widths, 0.0)
}

fn step(random: &mut Random, rank: usize) -> Step {
    let axis = random.below(rank);
    match random.below(24) {
        0..9 => Step::Unary(random.below(UNARY.len())),
        9..12 => Step::Binary(random.below(BINARY.len())),
        12..14 => Step::Again(random.below(BINARY.len())),
        14..16 => Step::Bias(axis),
        16 => Step::Centre(axis),
        17 => Step::Normalise(axis),
        18 => Step::Softmax(axis),
        19 => Step::Flip(axis),
        20 if rank > 1 => Step::Transpose,
        21 => Step::Half(axis),
        22 => Step::Pad(axis),
        23 if random.below(3) == 0 => Step::Scan(axis),
        _ => Step::Keep,
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        write!(f, "{}[{}]", self.dtype, sizes.join(" "))?;
        for step in &self.steps {
            match *step {
                Step::Unary(n) => write!(f, " {}", UNARY[n].0)?,
                Step::Binary(n) => write!(f, " {}y", BINARY[n].0)?,
                Step::Again(n) => write!(f, " {}x", BINARY[n].0)?,
                Step::Bias(a) => write!(f, " bias{a}")?,
                Step::Centre(a) => write!(f, " centre{a}")?,
                Step::Normalise(a) => write!(f, " norm{a}")?,
                Step::Softmax(a) => write!(f, " softmax{a}")?,
                Step::Flip(a) => write!(f, " flip{a}")?,
                Step::Transpose => f.write_str(" t")?,
                Step::Half(a) => write!(f, " half{a}")?,
                Step::Pad(a) => write!(f, " pad{a}")?,
                Step::Scan(a) => write!(f, " scan{a}")?,
                Step::Reduce(n, a) => write!(f, " {}{a}", REDUCE[n].0)?,
                Step::Keep => f.write_str(" keep")?,
            }
        }
        Ok(())
    }
}
