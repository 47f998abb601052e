//! A call of a kernel on tensors: operands are checked, the kernel is called once on traced numbers, and what it did is
//! recorded as operations of the table.
//!
//! Always true: every check is made before anything is recorded. What only follows from numbers is computed here, by
//! the table, and is a number, no operation.

use super::number::{on_floats, on_ints};
use super::trace::{Kind, Node, Open, Trace};
use super::{Int, Mask, Traced};
use crate::operand::Arg;
use crate::record::push;
use crate::{DType, Device, Operand, Scalar, Shape, Tensor};
use thalweg_ir::{ElementOp, Op};

/// A call of a kernel on tensors, in the making; what `#[kernel]` writes.
pub struct Call<'a> {
    operands: Vec<Operand<'a>>,
    /// What the operands broadcast to.
    shape: Shape,
    /// The kernel's float dtype.
    float: DType,
    device: Device,
    open: Open,
}

/// What a node of the trace is on these operands.
#[derive(Clone)]
enum Value {
    Tensor(Tensor),
    Scalar(Scalar),
}

/// What a kernel can give: numbers, integers, truth values, tuples and arrays of them.
#[diagnostic::on_unimplemented(message = "a kernel cannot give `{Self}`")]
pub trait Outputs {
    /// The same with tensors in their places.
    type Tensors;
    /// The numbers in order.
    fn numbers(&self, list: &mut Vec<Traced>);
    /// Takes their tensors.
    fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Self::Tensors;
}

impl<'a> Call<'a> {
    /// A call on these operands: the name of each in the kernel's signature, the type there (`F`, `i32` or `bool`), and
    /// what stands for it.
    ///
    /// # Panics
    /// When none is a tensor, dtypes are not what the signature says, or shapes do not broadcast.
    #[track_caller]
    pub fn new(name: &'static str, operands: &[(&'static str, &'static str, Operand<'a>)]) -> Call<'a> {
        let float = float_dtype(name, operands);
        let mut shape = Shape::SCALAR;
        let mut first: Option<&Tensor> = None;
        for &(operand, kind, given) in operands {
            let dtype = match kind {
                "F" => float,
                "i32" => DType::I32,
                _ => DType::Bool,
            };
            match given {
                Operand::Scalar(value) if !value.fits(dtype) => {
                    panic!("{name}: operand `{operand}` is {value:?}, which does not fit {dtype}")
                }
                Operand::Scalar(_) => {}
                Operand::Tensor(t) => {
                    if t.dtype() != dtype {
                        panic!(
                            "{name}: operand `{operand}` is {}, not {dtype}; .cast(DType::{dtype:?}) first",
                            t.dtype()
                        );
                    }
                    if let Some(first) = first
                        && first.device() != t.device()
                    {
                        panic!(
                            "{name}: tensors on {} and {}; move one with .to_device(..)",
                            first.device(),
                            t.device()
                        );
                    }
                    first = first.or(Some(t));
                    let Some(both) = shape.broadcast(t.shape()) else {
                        panic!("{name}: operand `{operand}` of shape {} does not broadcast with {shape}", t.shape())
                    };
                    shape = both;
                }
            }
        }
        let Some(first) = first else {
            panic!("{name}: no operand is a tensor; on numbers, call {name}(..) itself")
        };
        let device = first.device();
        let operands = operands.iter().map(|o| o.2).collect();
        Call { operands, shape, float, device, open: Open::new(name) }
    }

    /// Operand `i`, an `F`.
    pub fn float(&self, i: usize) -> Traced {
        self.open.operand(i, Kind::Float)
    }

    /// Operand `i`, an `i32`.
    pub fn int(&self, i: usize) -> Int<Traced> {
        Int(self.open.operand(i, Kind::Int))
    }

    /// Operand `i`, a `bool`.
    pub fn mask(&self, i: usize) -> Mask<Traced> {
        Mask(self.open.operand(i, Kind::Mask))
    }

    /// Records what the results come from.
    #[track_caller]
    pub fn record<O: Outputs>(self, results: O) -> O::Tensors {
        let Call { operands, shape, float, device, open } = self;
        let trace = open.close();
        let mut numbers = vec![];
        results.numbers(&mut numbers);
        let results: Vec<usize> = numbers.into_iter().map(|x| trace.place(x)).collect();
        let mut recording = Recording { operands, float, trace, values: vec![] };
        recording.run(&results);
        let whole = |&i: &usize| match &recording.values[i] {
            Some(Value::Tensor(t)) if *t.shape() == shape => t.clone(),
            Some(Value::Tensor(t)) => t.broadcast_to(shape),
            Some(Value::Scalar(s)) => Tensor::full_with(shape, *s, (recording.dtype(recording.trace.nodes[i].1), device)),
            None => unreachable!("a result is recorded"),
        };
        O::tensors(&mut results.iter().map(whole).collect::<Vec<_>>().into_iter())
    }
}

/// The float dtype of a call: that of its tensors, of which there may be none.
#[track_caller]
fn float_dtype(name: &str, operands: &[(&str, &str, Operand<'_>)]) -> DType {
    let mut found: Option<(&str, DType)> = None;
    for &(operand, kind, given) in operands {
        let (Operand::Tensor(t), "F") = (given, kind) else { continue };
        if !t.dtype().is_float() {
            panic!("{name}: operand `{operand}` takes a float dtype, not {}; .cast(DType::F32) first", t.dtype());
        }
        match found {
            Some((first, dtype)) if dtype != t.dtype() => panic!(
                "{name}: operands `{first}` and `{operand}` are {dtype} and {}; convert one with .cast(DType::{dtype:?})",
                t.dtype()
            ),
            _ => found = Some((operand, t.dtype())),
        }
    }
    found.map_or(DType::F32, |f| f.1)
}

/// The replay of a trace on operands.
struct Recording<'a> {
    operands: Vec<Operand<'a>>,
    float: DType,
    trace: Trace,
    values: Vec<Option<Value>>,
}

impl Recording<'_> {
    fn dtype(&self, kind: Kind) -> DType {
        match kind {
            Kind::Float => self.float,
            Kind::Int => DType::I32,
            Kind::Mask => DType::Bool,
        }
    }

    /// Records what the results need, in the order in which the kernel did it.
    #[track_caller]
    fn run(&mut self, results: &[usize]) {
        let n = self.trace.nodes.len();
        let mut needed = vec![false; n];
        results.iter().for_each(|&r| needed[r] = true);
        for i in (0..n).rev() {
            if needed[i] {
                self.trace.args(i).for_each(|a| needed[a] = true);
            }
        }
        for i in 0..n {
            let value = if needed[i] { Some(self.node(i)) } else { None };
            self.values.push(value);
        }
    }

    fn value(&self, i: usize) -> &Value {
        self.values[i].as_ref().expect("what it is made of comes first")
    }

    #[track_caller]
    fn node(&self, i: usize) -> Value {
        let (node, kind) = self.trace.nodes[i];
        let dtype = self.dtype(kind);
        let rounded = |s: Scalar| Value::Scalar(Scalar::from_bits(s.to_bits(dtype), dtype));
        match node {
            Node::Operand(o) => match self.operands[o] {
                Operand::Tensor(t) => Value::Tensor(t.clone()),
                Operand::Scalar(s) => rounded(s),
            },
            Node::Constant(s) => rounded(s),
            Node::Cast(x) => match self.value(x as usize) {
                Value::Tensor(t) => Value::Tensor(t.cast(dtype)),
                Value::Scalar(s) if kind == Kind::Int => Value::Scalar(Scalar::Int(s.to_f64() as i32 as i64)),
                Value::Scalar(s) => rounded(*s),
            },
            Node::Op { op, of, .. } => {
                let args: Vec<&Value> = self.trace.args(i).map(|a| self.value(a)).collect();
                self.operation(op, self.dtype(of), &args)
            }
        }
    }

    #[track_caller]
    fn operation(&self, op: ElementOp, dtype: DType, args: &[&Value]) -> Value {
        let mut shape: Option<Shape> = None;
        for arg in args {
            if let Value::Tensor(t) = arg {
                let both = shape.unwrap_or(Shape::SCALAR).broadcast(t.shape());
                shape = Some(both.expect("the operands broadcast"));
            }
        }
        let Some(shape) = shape else { return Value::Scalar(on_numbers(op, dtype, args)) };
        let (mut attr, mut operands) = (0, [Arg::Scalar(0); 3]);
        for (i, arg) in args.iter().enumerate() {
            let of = if op == ElementOp::Where && i == 0 { DType::Bool } else { dtype };
            operands[i] = match arg {
                Value::Tensor(t) => {
                    attr |= (t.shape().broadcast_mask(&shape) as u32) << (8 * i);
                    Arg::Tensor(t)
                }
                Value::Scalar(s) => Arg::Scalar(s.to_bits(of)),
            };
        }
        let [a, b, c] = operands;
        let (op, out) = (Op::Element(op), op.output(dtype));
        Value::Tensor(match args.len() {
            1 => push(op, out, shape, attr, [a], &[]),
            2 => push(op, out, shape, attr, [a, b], &[]),
            _ => push(op, out, shape, attr, [a, b, c], &[]),
        })
    }
}

/// An operation on numbers alone.
fn on_numbers(op: ElementOp, dtype: DType, args: &[&Value]) -> Scalar {
    let scalars: Vec<Scalar> = args
        .iter()
        .map(|arg| match arg {
            Value::Scalar(s) => *s,
            Value::Tensor(_) => unreachable!("only numbers"),
        })
        .collect();
    let out = op.output(dtype);
    let result = match dtype.is_float() {
        true => Scalar::Float(on_floats(op, out, &scalars.iter().map(|s| s.to_f64()).collect::<Vec<_>>())),
        false => Scalar::Int(on_ints(op, dtype, &scalars.iter().map(|s| s.to_i64()).collect::<Vec<_>>())),
    };
    Scalar::from_bits(result.to_bits(out), out)
}

macro_rules! numbers {
    ($($t:ty: $x:ident => $number:expr;)*) => {$(
        impl Outputs for $t {
            type Tensors = Tensor;
            fn numbers(&self, list: &mut Vec<Traced>) {
                let $x = self;
                list.push($number);
            }
            fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Tensor {
                each.next().expect("there is one for each")
            }
        }
    )*};
}
numbers! {
    Traced: x => *x;
    Int<Traced>: x => x.0;
    Mask<Traced>: x => x.0;
}

impl<T: Outputs, const N: usize> Outputs for [T; N] {
    type Tensors = [T::Tensors; N];
    fn numbers(&self, list: &mut Vec<Traced>) {
        self.iter().for_each(|x| x.numbers(list));
    }
    fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> [T::Tensors; N] {
        std::array::from_fn(|_| T::tensors(each))
    }
}

macro_rules! tuples {
    ($($($t:ident $n:tt)+;)*) => {$(
        impl<$($t: Outputs),+> Outputs for ($($t,)+) {
            type Tensors = ($($t::Tensors,)+);
            fn numbers(&self, list: &mut Vec<Traced>) {
                $(self.$n.numbers(list);)+
            }
            fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Self::Tensors {
                ($($t::tensors(each),)+)
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}
