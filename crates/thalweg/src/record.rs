//! Recording: checks of dtype, device and shape, then one push onto the stream.
//!
//! The success path formats nothing and allocates nothing of its own. A mistake panics in a cold function with the
//! caller's line, before anything is recorded, so the stream is unchanged.

use crate::mistake::mistake;
use crate::operand::Arg;
use crate::tape;
use crate::{DType, MistakeKind, Operand, Scalar, Shape, Tensor};
use thalweg_ir::{ElementOp, Op};
use thalweg_stream::{self as stream, DeviceRef, record};

/// Records a checked operation; `args` holds at least one tensor. The result is tracked if an argument is.
// Always inlined: where the kinds of the arguments are known, matching on them compiles to nothing.
#[inline(always)]
#[track_caller]
pub(crate) fn push<const N: usize>(
    op: Op,
    dtype: DType,
    shape: Shape,
    attr: u32,
    args: [Arg<'_>; N],
    ints: &[i64],
) -> Tensor {
    let mut device = None;
    let mut tracked = false;
    let operands = args.map(|arg| match arg {
        Arg::Tensor(t) => {
            device = device.or(Some(t.value.device()));
            tracked |= t.node.is_some();
            stream::Operand::Value(&t.value)
        }
        Arg::Scalar(bits) => stream::Operand::Scalar(bits),
    });
    let device = device.expect("an argument is a tensor");
    let value = record(device, op, dtype, shape, attr, &operands, ints);
    let node = if tracked { tape::node(op, attr, &args, ints, &value) } else { None };
    Tensor { value, node }
}

/// [`push`] for any number of arguments.
#[track_caller]
pub(crate) fn push_all(op: Op, dtype: DType, shape: Shape, attr: u32, args: &[Arg<'_>], ints: &[i64]) -> Tensor {
    let tensors = || {
        args.iter().filter_map(|arg| match arg {
            Arg::Tensor(t) => Some(t),
            Arg::Scalar(_) => None,
        })
    };
    let device = tensors().next().expect("an argument is a tensor").value.device();
    let operands: Vec<stream::Operand<'_>> = args
        .iter()
        .map(|arg| match arg {
            Arg::Tensor(t) => stream::Operand::Value(&t.value),
            Arg::Scalar(bits) => stream::Operand::Scalar(*bits),
        })
        .collect();
    let value = record(device, op, dtype, shape, attr, &operands, ints);
    let tracked = tensors().any(|t| t.node.is_some());
    let node = if tracked { tape::node(op, attr, args, ints, &value) } else { None };
    Tensor { value, node }
}

/// Records an operation with one tensor argument.
#[inline]
#[track_caller]
pub(crate) fn record1(op: Op, dtype: DType, shape: Shape, attr: u32, x: &Tensor, ints: &[i64]) -> Tensor {
    push(op, dtype, shape, attr, [Arg::Tensor(x)], ints)
}

/// Records a unary elementwise operation.
#[inline]
#[track_caller]
pub(crate) fn unary(op: ElementOp, x: &Tensor) -> Tensor {
    let dtype = x.dtype();
    if !op.row().takes.has(dtype) {
        wrong_class(op, dtype);
    }
    record1(Op::Element(op), op.output(dtype), *x.shape(), 0, x, &[])
}

/// Records a binary elementwise operation, broadcasting.
#[inline]
#[track_caller]
pub(crate) fn binary(op: ElementOp, a: Operand<'_>, b: Operand<'_>) -> Tensor {
    match (a, b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => binary_tensors(op, a, b),
        (Operand::Tensor(a), Operand::Scalar(b)) => {
            if b == Scalar::Int(0) && a.dtype().is_int() {
                check_divisor(op, a.dtype());
            }
            let b = scalar_argument(op, b, a.dtype());
            binary_scalar(op, a, [Arg::Tensor(a), b])
        }
        (Operand::Scalar(a), Operand::Tensor(b)) => {
            let a = scalar_argument(op, a, b.dtype());
            binary_scalar(op, b, [a, Arg::Tensor(b)])
        }
        (Operand::Scalar(_), Operand::Scalar(_)) => no_tensor(op),
    }
}

/// Panics if an integer is divided by the number 0. A divisor that is data gives 0 there, but this one is a mistake.
#[cold]
#[track_caller]
fn check_divisor(op: ElementOp, dtype: DType) {
    if matches!(op, ElementOp::Div | ElementOp::FloorDiv | ElementOp::Rem) {
        panic!("{}: {dtype} divided by 0; a tensor of divisors gives 0 where it is 0", op.name());
    }
}

#[inline]
#[track_caller]
fn binary_tensors(op: ElementOp, a: &Tensor, b: &Tensor) -> Tensor {
    let (dtype, device) = (a.dtype(), a.value.device());
    if dtype != b.dtype() {
        dtypes_differ(op.name(), dtype, b.dtype());
    }
    if !op.row().takes.has(dtype) {
        wrong_class(op, dtype);
    }
    if device != b.value.device() {
        devices_differ(op.name(), a, b);
    }
    let (x, y) = (a.shape(), b.shape());
    let (shape, attr) = if x == y {
        (*x, 0)
    } else {
        let Some(out) = x.broadcast(y) else { shapes_differ(op.name(), x, y) };
        (out, x.broadcast_mask(&out) as u32 | (y.broadcast_mask(&out) as u32) << 8)
    };
    push(Op::Element(op), op.output(dtype), shape, attr, [Arg::Tensor(a), Arg::Tensor(b)], &[])
}

/// Records a binary elementwise operation of a tensor and a scalar, which are in order in `args`.
#[inline(always)]
#[track_caller]
fn binary_scalar(op: ElementOp, x: &Tensor, args: [Arg<'_>; 2]) -> Tensor {
    let dtype = x.dtype();
    if !op.row().takes.has(dtype) {
        wrong_class(op, dtype);
    }
    push(Op::Element(op), op.output(dtype), *x.shape(), 0, args, &[])
}

/// Records an elementwise operation of three arguments, broadcasting. With `Where`, the first argument is the
/// condition.
#[track_caller]
pub(crate) fn ternary(op: ElementOp, args: [Operand<'_>; 3]) -> Tensor {
    let values = if op == ElementOp::Where { 1..3 } else { 0..3 };
    let mut like: Option<&Tensor> = None;
    for arg in &args[values.clone()] {
        if let Operand::Tensor(t) = arg {
            match like {
                Some(first) if first.dtype() != t.dtype() => dtypes_differ(op.name(), first.dtype(), t.dtype()),
                _ => like = like.or(Some(t)),
            }
        }
    }
    let dtype = like.map_or_else(|| dtype_of_scalars(&args[values]), Tensor::dtype);
    if !op.row().takes.has(dtype) {
        wrong_class(op, dtype);
    }
    let mut first: Option<&Tensor> = None;
    let mut shape = Shape::SCALAR;
    for arg in &args {
        if let Operand::Tensor(t) = arg {
            if let Some(first) = first
                && first.value.device() != t.value.device()
            {
                devices_differ(op.name(), first, t);
            }
            first = first.or(Some(t));
            let Some(out) = shape.broadcast(t.shape()) else { shapes_differ(op.name(), &shape, t.shape()) };
            shape = out;
        }
    }
    if first.is_none() {
        no_tensor(op);
    }
    let mut attr = 0;
    let mut operands = [Arg::Scalar(0); 3];
    for (i, arg) in args.iter().enumerate() {
        let of = if op == ElementOp::Where && i == 0 { DType::Bool } else { dtype };
        operands[i] = match arg {
            Operand::Tensor(t) => {
                attr |= (t.shape().broadcast_mask(&shape) as u32) << (8 * i);
                Arg::Tensor(t)
            }
            Operand::Scalar(s) => scalar_argument(op, *s, of),
        };
    }
    push(Op::Element(op), op.output(dtype), shape, attr, operands, &[])
}

/// The dtype of scalars without a tensor: f32 if one is a float, else u64 if one fits only that, else i64, else bool.
fn dtype_of_scalars(args: &[Operand<'_>]) -> DType {
    let has = |f: fn(&Scalar) -> bool| args.iter().any(|a| matches!(a, Operand::Scalar(s) if f(s)));
    if has(|s| matches!(s, Scalar::Float(_))) {
        DType::F32
    } else if has(|s| matches!(s, Scalar::Unsigned(_))) {
        DType::U64
    } else if has(|s| matches!(s, Scalar::Int(_))) {
        DType::I64
    } else {
        DType::Bool
    }
}

#[inline]
#[track_caller]
fn scalar_argument<'a>(op: ElementOp, value: Scalar, dtype: DType) -> Arg<'a> {
    Arg::Scalar(scalar_bits(op.name(), value, dtype))
}

/// The bits of a scalar in a tensor's dtype.
///
/// # Panics
/// When the dtype cannot hold the value.
#[inline]
#[track_caller]
pub(crate) fn scalar_bits(name: &str, value: Scalar, dtype: DType) -> u64 {
    if !value.fits(dtype) {
        does_not_fit(name, value, dtype);
    }
    value.to_bits(dtype)
}

/// Checks that the size in bytes of a tensor of that shape does not overflow.
#[inline]
#[track_caller]
pub(crate) fn check_size(name: &str, shape: &Shape, dtype: DType) {
    if shape.checked_bytes(dtype.size()).is_none() {
        panic!("{name}: {dtype}{shape} has more bytes than can be addressed");
    }
}

/// Records an operation without tensor arguments.
#[track_caller]
pub(crate) fn record0(device: DeviceRef, op: Op, dtype: DType, shape: Shape, scalars: Option<u64>) -> Tensor {
    check_size(op.name(), &shape, dtype);
    let mut ints = [0; crate::MAX_RANK];
    for (i, &d) in ints.iter_mut().zip(shape.iter()) {
        *i = d as i64;
    }
    let arg = scalars.map(stream::Operand::Scalar);
    Tensor::of(record(device, op, dtype, shape, 0, arg.as_slice(), &ints[..shape.rank()]))
}

/// Checks that two tensors can be arguments of one operation: same dtype, same device.
#[track_caller]
pub(crate) fn check_alike(name: &str, a: &Tensor, b: &Tensor) {
    if a.dtype() != b.dtype() {
        dtypes_differ(name, a.dtype(), b.dtype());
    }
    if a.value.device() != b.value.device() {
        devices_differ(name, a, b);
    }
}

/// Checks that two tensors are on one device.
#[inline]
#[track_caller]
pub(crate) fn check_device(name: &str, a: &Tensor, b: &Tensor) {
    if a.value.device() != b.value.device() {
        devices_differ(name, a, b);
    }
}

/// Checks that a composite gets a float tensor; the message has the composite's name.
#[inline]
#[track_caller]
pub(crate) fn check_float(name: &str, x: &Tensor) {
    if !x.dtype().is_float() {
        wrong_dtype(name, "a float dtype", x.dtype());
    }
}

/// The tensor that a composite of several operations computes with: bf16 and f16 become f32, so that intermediate steps
/// neither overflow nor round. The composite casts its result back.
#[inline]
#[track_caller]
pub(crate) fn widened(x: &Tensor) -> Tensor {
    match x.dtype() {
        DType::BF16 | DType::F16 => x.cast(DType::F32),
        _ => x.clone(),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn wrong_class(op: ElementOp, dtype: DType) -> ! {
    wrong_dtype(op.name(), op.row().takes.describe(), dtype)
}

#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn wrong_dtype(name: &str, takes: &str, dtype: DType) -> ! {
    let hint = match takes {
        "bool" => "compare (.ne(0)) or .cast(DType::Bool) first",
        "an integer dtype" | "an index of an integer dtype" | "classes of an integer dtype" => {
            ".cast(DType::I64) first"
        }
        "a mask of bool" => "compare (.ne(0)) first",
        "an integer dtype or bool" => "compare (.ne(0)) or .cast(DType::I64) first",
        _ => ".cast(DType::F32) first",
    };
    mistake(MistakeKind::DType);
    panic!("{name}: takes {takes}, not {dtype}; {hint}")
}

#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn dtypes_differ(name: &str, a: DType, b: DType) -> ! {
    mistake(MistakeKind::DType);
    panic!("{name}: dtypes {a} and {b} differ; convert one with .cast(DType::{a:?}) or .cast(DType::{b:?})")
}

#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn shapes_differ(name: &str, a: &Shape, b: &Shape) -> ! {
    panic!("{name}: shapes {a} and {b} do not broadcast")
}

#[cold]
#[inline(never)]
#[track_caller]
fn devices_differ(name: &str, a: &Tensor, b: &Tensor) -> ! {
    panic!("{name}: tensors on {} and {}; move one with .to_device(..)", a.device(), b.device())
}

#[cold]
#[inline(never)]
#[track_caller]
fn does_not_fit(name: &str, value: Scalar, dtype: DType) -> ! {
    mistake(MistakeKind::Range);
    match value {
        Scalar::Float(v) => panic!("{name}: {v} does not fit {dtype}; .cast(..) the tensor first"),
        Scalar::Int(v) => panic!("{name}: {v} does not fit {dtype}; .cast(..) the tensor first"),
        Scalar::Unsigned(v) => panic!("{name}: {v} does not fit {dtype}; .cast(..) the tensor first"),
        Scalar::Bool(v) => panic!("{name}: {v} does not fit {dtype}; .cast(..) the tensor first"),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn no_tensor(op: ElementOp) -> ! {
    panic!("{}: no argument is a tensor", op.name())
}
