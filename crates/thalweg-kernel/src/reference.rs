//! Reference interpreter: defines every operation, one at a time, element by element.
//!
//! Floats are computed in f64 and rounded to their dtype after each operation, integers in i64 and wrapped (a u64 is
//! held as its bits, which the rows of the table take into account). It is simple on purpose and shares nothing with
//! any code generator except the operation table. Every test uses it as its oracle.

mod looped;
mod row_ops;

pub use looped::looped;
pub use row_ops::{OutOfRange, order, put, scan_row};

use crate::random;
use thalweg_ir::monoid::Partial;
use thalweg_ir::{Arg, DType, ElementOp, Monoid, Op, RandomKind, ReduceOp, RelOp, Scalar, Shape, unpack_order};

/// Tensor of the interpreter: row-major, floats as f64, integers and bool as i64.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes of the dimensions.
    pub shape: Shape,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Elements, row-major.
    pub data: Data,
}

/// Elements of an [`Array`].
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Elements of a float dtype, each representable in it.
    Float(Vec<f64>),
    /// Elements of an integer dtype or bool, each in its range; for u64 the bits.
    Int(Vec<i64>),
}

/// Argument of an operation.
#[derive(Clone, Copy, Debug)]
pub enum RefArg<'a> {
    /// A tensor.
    Array(&'a Array),
    /// A scalar encoded by [`Scalar::to_bits`].
    Scalar(u64),
}

impl Array {
    /// Array from a function of the row-major index.
    fn from_fn(shape: Shape, dtype: DType, mut f: impl FnMut(usize) -> Scalar) -> Array {
        let n = shape.numel();
        let data = if dtype.is_float() {
            // A NaN keeps its bits, which are visible when it becomes an integer.
            let rounded = |v: f64| if v.is_nan() { v } else { dtype.round(v) };
            Data::Float((0..n).map(|i| rounded(f(i).to_f64())).collect())
        } else {
            Data::Int((0..n).map(|i| dtype.wrap(f(i).to_i64())).collect())
        };
        Array { shape, dtype, data }
    }

    /// Element at a row-major index.
    pub fn get(&self, i: usize) -> Scalar {
        match &self.data {
            Data::Float(v) => Scalar::Float(v[i]),
            Data::Int(v) => Scalar::integer(v[i], self.dtype),
        }
    }

    /// Array from little-endian bytes, row-major.
    pub fn from_bytes(shape: Shape, dtype: DType, bytes: &[u8]) -> Array {
        let mut chunks = bytes.chunks_exact(dtype.size());
        Array::from_fn(shape, dtype, |_| {
            let c = chunks.next().expect("as many bytes as elements");
            match dtype {
                DType::F32 => Scalar::Float(widened(dtype, f32::from_le_bytes(c.try_into().unwrap()).to_bits() as u64)),
                DType::F64 => Scalar::Float(f64::from_le_bytes(c.try_into().unwrap())),
                DType::BF16 | DType::F16 => {
                    Scalar::Float(widened(dtype, u16::from_le_bytes(c.try_into().unwrap()) as u64))
                }
                DType::I8 => Scalar::Int(c[0] as i8 as i64),
                DType::I16 => Scalar::Int(i16::from_le_bytes(c.try_into().unwrap()) as i64),
                DType::I32 => Scalar::Int(i32::from_le_bytes(c.try_into().unwrap()) as i64),
                DType::I64 => Scalar::Int(i64::from_le_bytes(c.try_into().unwrap())),
                DType::U8 | DType::Bool => Scalar::Int(c[0] as i64),
                DType::U16 => Scalar::Int(u16::from_le_bytes(c.try_into().unwrap()) as i64),
                DType::U32 => Scalar::Int(u32::from_le_bytes(c.try_into().unwrap()) as i64),
                DType::U64 => Scalar::from(u64::from_le_bytes(c.try_into().unwrap())),
            }
        })
    }

    /// Little-endian bytes, row-major.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Elements are values of the dtype, so the conversions here are exact.
        let mut out = Vec::with_capacity(self.shape.numel() * self.dtype.size());
        for i in 0..self.shape.numel() {
            let v = self.get(i);
            match self.dtype {
                dtype if dtype.is_float() && v.to_f64().is_nan() => {
                    out.extend(&nan_bits(dtype, v.to_f64()).to_le_bytes()[..dtype.size()]);
                }
                DType::F32 => out.extend((v.to_f64() as f32).to_le_bytes()),
                DType::F64 => out.extend(v.to_f64().to_le_bytes()),
                DType::BF16 => out.extend(half::bf16::from_f32(v.to_f64() as f32).to_le_bytes()),
                DType::F16 => out.extend(half::f16::from_f32(v.to_f64() as f32).to_le_bytes()),
                _ => out.extend(&v.to_i64().to_le_bytes()[..self.dtype.size()]),
            }
        }
        out
    }
}

/// Number of exponent and fraction bits of a float dtype.
fn fields(dtype: DType) -> (u32, u32) {
    let fraction = dtype.mantissa_digits() - 1;
    (8 * dtype.size() as u32 - 1 - fraction, fraction)
}

/// Element of a float dtype from its bits. Keeps the bits of a NaN, which conversions would make quiet.
fn widened(dtype: DType, bits: u64) -> f64 {
    let ((exponent, fraction), width) = (fields(dtype), 8 * dtype.size());
    let value = match dtype {
        DType::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
        DType::F16 => half::f16::from_bits(bits as u16).to_f64(),
        DType::F32 => f32::from_bits(bits as u32) as f64,
        _ => f64::from_bits(bits),
    };
    if !value.is_nan() {
        return value;
    }
    let (sign, rest) = (bits >> (width - 1) & 1, bits & ((1 << fraction) - 1));
    debug_assert_eq!(bits >> fraction & ((1 << exponent) - 1), (1 << exponent) - 1, "a NaN");
    f64::from_bits(sign << 63 | 0x7ff << 52 | rest << (52 - fraction))
}

/// Bits of a NaN in a float dtype.
fn nan_bits(dtype: DType, v: f64) -> u64 {
    let (exponent, fraction) = fields(dtype);
    let (bits, quiet) = (v.to_bits(), 1u64 << (fraction - 1));
    let rest = (bits & ((1 << 52) - 1)) >> (52 - fraction);
    let rest = if rest == 0 { quiet } else { rest };
    (bits >> 63) << (exponent + fraction) | ((1 << exponent) - 1) << fraction | rest
}

fn unravel(mut p: usize, shape: &Shape) -> Vec<i64> {
    let mut index = vec![0; shape.rank()];
    for i in (0..shape.rank()).rev() {
        index[i] = (p % shape[i]) as i64;
        p /= shape[i];
    }
    index
}

fn ravel(index: &[i64], shape: &Shape) -> usize {
    index.iter().zip(shape.iter()).fold(0, |at, (&i, &d)| at * d + i as usize)
}

/// Row-major index, in an array of `shape`, of the element that broadcasts to `index` of a larger shape.
fn broadcast_index(index: &[i64], shape: &Shape) -> usize {
    let lead = index.len() - shape.rank();
    let own: Vec<i64> = index[lead..].iter().zip(shape.iter()).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
    ravel(&own, shape)
}

/// Converts a value: floats to integers saturate and NaN gives 0; integers wrap; to bool is `≠ 0`.
pub fn cast(v: Scalar, to: DType) -> Scalar {
    match v {
        _ if to == DType::Bool => Scalar::Int((v.to_f64() != 0.0) as i64),
        Scalar::Float(f) if to.is_int() => {
            let (lo, hi) = to.int_range();
            Scalar::integer((f as i128).clamp(lo, hi) as i64, to)
        }
        Scalar::Int(_) | Scalar::Unsigned(_) if to.is_int() => Scalar::integer(to.wrap(v.to_i64()), to),
        // One rounding directly from the integer, not a second one through f64.
        Scalar::Int(i) if to == DType::F32 => Scalar::Float(i as f32 as f64),
        Scalar::Unsigned(i) if to == DType::F32 => Scalar::Float(i as f32 as f64),
        other => Scalar::Float(to.round(other.to_f64())),
    }
}

/// Result of one operation. `shape` is the result's, `ints` the operation's integer arguments.
///
/// # Panics
/// When the arguments do not fit the operation; a stream holds no such operation. When an index is out of range, which
/// [`run`] gives as an error.
pub fn evaluate(rel: &RelOp, shape: Shape, args: &[RefArg<'_>], ints: &[i64]) -> Array {
    let dtype = rel.dtype;
    let array = |i: usize| match args[i] {
        RefArg::Array(a) => a,
        RefArg::Scalar(_) => panic!("{}: argument {i} is a scalar", rel.op.name()),
    };
    if let Some(index) = rel.op.info().index_arg
        && let Err(e) = row_ops::check_index(rel, array(0), array(index as usize))
    {
        panic!("{e}");
    }
    match rel.op {
        Op::Element(e) => element(rel, e, shape, args),
        Op::Cast => {
            let a = array(0);
            Array::from_fn(shape, dtype, |p| cast(a.get(p), dtype))
        }
        Op::Bitcast => Array::from_bytes(shape, dtype, &array(0).to_bytes()),
        Op::Full => {
            let RefArg::Scalar(bits) = args[0] else { panic!("full: the value is a scalar") };
            Array::from_fn(shape, dtype, |_| Scalar::from_bits(bits, dtype))
        }
        Op::Iota => Array::from_fn(shape, dtype, |p| cast(Scalar::Int(p as i64), dtype)),
        Op::Random(kind) => {
            let RefArg::Scalar(key) = args[0] else { panic!("random: the key is a scalar") };
            Array::from_fn(shape, dtype, |p| random_value(kind, dtype, key, p as u64))
        }
        Op::Reshape => {
            let a = array(0);
            Array::from_fn(shape, dtype, |p| a.get(p))
        }
        Op::Permute | Op::Expand | Op::Slice | Op::Window => moved(rel, shape, array(0), ints),
        Op::Pad => {
            let a = array(0);
            let RefArg::Scalar(bits) = args[1] else { panic!("pad: the value is a scalar") };
            Array::from_fn(shape, dtype, |p| inside(a, &shape, ints, p).unwrap_or(Scalar::from_bits(bits, dtype)))
        }
        Op::Put => {
            let (all, part) = (array(0), array(1));
            Array::from_fn(shape, dtype, |p| inside(part, &shape, ints, p).unwrap_or_else(|| all.get(p)))
        }
        Op::Cat => cat(rel.attr as usize, array(0), array(1), shape),
        Op::Reduce(op) => reduce(op, rel.attr, array(0), shape, dtype),
        Op::Scan(op) => row_ops::scan(op, rel.attr, array(0), shape, dtype),
        Op::Gather => row_ops::gather(rel.attr as usize, array(0), array(1), shape, dtype),
        Op::Scatter(op) => row_ops::scatter(op, rel.attr as usize, [array(0), array(1), array(2)], dtype),
        Op::Matmul => matmul(array(0), array(1), shape, dtype),
        Op::FoldBy(l) | Op::ScanBy(l) => {
            let components: Vec<&Array> = (0..args.len()).map(array).collect();
            row_ops::combined(rel, l, &components, shape)
        }
        // The front end records its reference implementation instead.
        Op::Foreign(_) => panic!("{}: it is written in another language, which is not interpreted", rel.op.name()),
        Op::Loop(l) => Array::from_fn(shape, dtype, |p| {
            let of = |(arg, &dtype): (&RefArg<'_>, &DType)| match arg {
                RefArg::Array(a) => a.get(p),
                RefArg::Scalar(bits) => Scalar::from_bits(*bits, dtype),
            };
            looped(l, &args.iter().zip(&l.region().args).map(of).collect::<Vec<_>>())[rel.attr as usize]
        }),
    }
}

/// Element of `part` at position `p` of a larger array of `shape`, where `ints` holds the number of elements before and
/// after `part` in each dimension. `None` outside of `part`.
fn inside(part: &Array, shape: &Shape, ints: &[i64], p: usize) -> Option<Scalar> {
    let source: Vec<i64> = unravel(p, shape).iter().enumerate().map(|(i, &x)| x - ints[2 * i]).collect();
    let is = source.iter().zip(part.shape.iter()).all(|(&i, &d)| i >= 0 && i < d as i64);
    is.then(|| part.get(ravel(&source, &part.shape)))
}

/// Evaluates an elementwise operation with broadcast arguments.
fn element(rel: &RelOp, e: ElementOp, shape: Shape, args: &[RefArg<'_>]) -> Array {
    let operand = operand_dtype(rel, args);
    Array::from_fn(shape, rel.dtype, |p| {
        let index = unravel(p, &shape);
        let x: Vec<Scalar> = args
            .iter()
            .map(|a| match a {
                RefArg::Array(a) => a.get(broadcast_index(&index, &a.shape)),
                RefArg::Scalar(bits) => Scalar::from_bits(*bits, operand),
            })
            .collect();
        let meaning = &e.row().meaning;
        if operand.is_float() {
            let x: Vec<f64> = x.iter().map(|v| v.to_f64()).collect();
            Scalar::Float((meaning.float.expect("defined on floats"))(&x))
        } else {
            let x: Vec<i64> = x.iter().map(|v| v.to_i64()).collect();
            Scalar::Int((meaning.int.expect("defined on integers"))(&x, operand))
        }
    })
}

/// Evaluates an operation that only moves elements: each element of the result is one of `a`.
fn moved(rel: &RelOp, shape: Shape, a: &Array, ints: &[i64]) -> Array {
    let moved = |f: &dyn Fn(&[i64]) -> Vec<i64>| {
        Array::from_fn(shape, a.dtype, |p| a.get(ravel(&f(&unravel(p, &shape)), &a.shape)))
    };
    match rel.op {
        Op::Permute => {
            let order = unpack_order(rel.attr, shape.rank());
            moved(&|index| {
                let mut source = vec![0; index.len()];
                for (i, &o) in order.iter().enumerate() {
                    source[o] = index[i];
                }
                source
            })
        }
        Op::Expand => Array::from_fn(shape, a.dtype, |p| a.get(broadcast_index(&unravel(p, &shape), &a.shape))),
        Op::Slice => {
            moved(&|index| index.iter().enumerate().map(|(i, &x)| ints[3 * i] + x * ints[3 * i + 1]).collect())
        }
        Op::Window => {
            let (axis, step) = (rel.attr as usize, ints[1]);
            moved(&|index| {
                let (inner, outer) = index.split_last().expect("a window has a dimension");
                let mut source = outer.to_vec();
                source[axis] = source[axis] * step + inner;
                source
            })
        }
        other => unreachable!("{} moves nothing", other.name()),
    }
}

fn cat(axis: usize, a: &Array, b: &Array, shape: Shape) -> Array {
    Array::from_fn(shape, a.dtype, |p| {
        let mut index = unravel(p, &shape);
        let first = a.shape[axis] as i64;
        if index[axis] < first {
            a.get(ravel(&index, &a.shape))
        } else {
            index[axis] -= first;
            b.get(ravel(&index, &b.shape))
        }
    })
}

/// Dtype that an elementwise operation computes in: that of its tensor arguments, except the condition of `where`.
fn operand_dtype(rel: &RelOp, args: &[RefArg<'_>]) -> DType {
    let skip = (rel.op == Op::Element(thalweg_ir::ElementOp::Where)) as usize;
    let tensor = args[skip..].iter().find_map(|a| match a {
        RefArg::Array(a) => Some(a.dtype),
        RefArg::Scalar(_) => None,
    });
    tensor.unwrap_or(rel.dtype)
}

fn random_value(kind: RandomKind, dtype: DType, key: u64, position: u64) -> Scalar {
    let [w0, w1] = random::threefry(key, position);
    // As many bits as the dtype's significand holds, so that rounding never reaches 1.
    let uniform = |w: u32, digits: u32| (w >> (32 - digits)) as f64 / (1u64 << digits) as f64;
    match kind {
        RandomKind::Bits => Scalar::Int(w0 as i64),
        RandomKind::Uniform if dtype == DType::F64 => {
            Scalar::Float((((w0 as u64) << 21) ^ (w1 as u64 >> 11)) as f64 * (1.0 / (1u64 << 53) as f64))
        }
        RandomKind::Uniform => Scalar::Float(uniform(w0, dtype.mantissa_digits())),
        RandomKind::Normal => {
            let (u, v) = (1.0 - uniform(w0, 24), uniform(w1, 24));
            Scalar::Float(libm::sqrt(-2.0 * libm::log(u)) * libm::cos(std::f64::consts::TAU * v))
        }
    }
}

fn reduce(op: ReduceOp, attr: u32, a: &Array, shape: Shape, dtype: DType) -> Array {
    let reduced = |axis: usize| attr >> axis & 1 == 1;
    let kept: Vec<usize> = (0..a.shape.rank()).filter(|&i| !reduced(i)).collect();
    let mut groups: Vec<Vec<Scalar>> = vec![vec![]; shape.numel()];
    for p in 0..a.shape.numel() {
        let index = unravel(p, &a.shape);
        let at = kept.iter().fold(0, |at, &k| at * a.shape[k] + index[k] as usize);
        groups[at].push(a.get(p));
    }
    let nan = |v: &Scalar| v.to_f64().is_nan();
    Array::from_fn(shape, dtype, |p| {
        let g = &groups[p];
        let float = a.dtype.is_float();
        // First index of the best value; a NaN is better than any number.
        let best = |better: fn(f64, f64) -> bool, better_int: fn(i128, i128) -> bool| {
            let mut at = 0;
            for (i, v) in g.iter().enumerate() {
                if nan(&g[at]) {
                    break;
                }
                let wins = if float {
                    nan(v) || better(v.to_f64(), g[at].to_f64())
                } else {
                    better_int(v.to_i128(), g[at].to_i128())
                };
                if wins {
                    at = i;
                }
            }
            at
        };
        match op {
            ReduceOp::Any => Scalar::Int(g.iter().any(|v| v.to_f64() != 0.0) as i64),
            ReduceOp::All => Scalar::Int(g.iter().all(|v| v.to_f64() != 0.0) as i64),
            ReduceOp::ArgMax => Scalar::Int(best(|a, b| a > b, |a, b| a > b) as i64),
            ReduceOp::ArgMin => Scalar::Int(best(|a, b| a < b, |a, b| a < b) as i64),
            plain => fold_elements(plain.monoid(), g, dtype),
        }
    })
}

/// Fold of elements by the monoid's row: floats in f64, integers in the dtype that they are carried in.
fn fold_elements(monoid: Monoid, elements: &[Scalar], dtype: DType) -> Scalar {
    if elements.is_empty() {
        return Partial::none(monoid, dtype).result();
    }
    let carried = if dtype.is_float() { DType::F64 } else { Monoid::carried(dtype) };
    let mut partial = Partial::neutral(monoid, carried);
    elements.iter().for_each(|&v| partial.push(v));
    partial.result()
}

fn matmul(a: &Array, b: &Array, shape: Shape, dtype: DType) -> Array {
    let rank = shape.rank();
    let k = a.shape[a.shape.rank() - 1];
    let element = |x: &Array, index: &[i64], row: i64, col: i64| {
        let mut at = index[..rank - 2].to_vec();
        at.extend([row, col]);
        // The matrix dimensions never broadcast; a size of 1 there has index 0 anyway.
        x.get(broadcast_index(&at, &x.shape))
    };
    Array::from_fn(shape, dtype, |p| {
        let index = unravel(p, &shape);
        let (i, j) = (index[rank - 2], index[rank - 1]);
        let pairs = (0..k as i64).map(|q| (element(a, &index, i, q), element(b, &index, q, j)));
        if dtype.is_float() {
            Scalar::Float(pairs.map(|(x, y)| x.to_f64() * y.to_f64()).sum())
        } else {
            Scalar::Int(pairs.fold(0, |s, (x, y)| s.wrapping_add(x.to_i64().wrapping_mul(y.to_i64()))))
        }
    })
}

/// Runs a whole segment, one operation after the other; returns the result of each.
///
/// # Errors
/// When an index is out of range.
pub fn run(
    ops: &[RelOp],
    shapes: &[Shape],
    ints: &[i64],
    scalars: &[u64],
    inputs: &[Array],
) -> Result<Vec<Array>, OutOfRange> {
    let mut done: Vec<Array> = Vec::with_capacity(ops.len());
    let (mut int_at, mut scalar_at) = (0, 0);
    for (rel, &shape) in ops.iter().zip(shapes) {
        let own = &ints[int_at..int_at + rel.int_count()];
        int_at += own.len();
        let args: Vec<RefArg<'_>> = rel
            .args()
            .map(|a| match a {
                Arg::Op(n) => RefArg::Array(&done[n]),
                Arg::Input(n) => RefArg::Array(&inputs[n]),
                Arg::Scalar | Arg::None => {
                    scalar_at += 1;
                    RefArg::Scalar(scalars[scalar_at - 1])
                }
            })
            .collect();
        if let Some(n) = rel.op.info().index_arg
            && let (RefArg::Array(a), RefArg::Array(index)) = (&args[0], &args[n as usize])
        {
            row_ops::check_index(rel, a, index)?;
        }
        let result = evaluate(rel, shape, &args, own);
        done.push(result);
    }
    Ok(done)
}
