//! Elementwise functions and operators of two arrays or more, and what promotes their arguments.
//!
//! In: arrays and weak Python scalars. Out: arrays of the promoted dtype, with NumPy's special values. Mistakes in
//! dtypes are found here, before anything is recorded.

use super::register;
use crate::dtype::{ArrayDType, ArrayDType::Real, default_float};
use crate::error::{run, type_error, value_error};
use crate::handle::Data;
use crate::promote::{Arg, common};
use pyo3::prelude::*;
use thalweg::{Complex, DType, Device, Operand, Scalar, Tensor};

/// Device of the first array among arguments, or the default device.
pub fn device_of(args: &[&Arg]) -> Device {
    let device = args.iter().find_map(|a| match a {
        Arg::Array(data) => Some(data.device()),
        _ => None,
    });
    device.unwrap_or_default()
}

/// A weak scalar as an array without dimensions, or the array, of a dtype.
pub fn array_of(py: Python<'_>, arg: &Arg, dtype: ArrayDType, device: Device) -> PyResult<Data> {
    arg.check_fits(py, dtype)?;
    Ok(match arg {
        Arg::Array(data) if data.dtype() == dtype => data.clone(),
        Arg::Array(data) => run(py, || data.cast(dtype))?,
        Arg::Complex(re, im) => {
            if !dtype.is_complex() {
                return Err(type_error(py, format!("a complex number does not fit {}", dtype.name())));
            }
            run(py, || Complex::full_with([], (*re, *im), (dtype.part(), device)))?.into()
        }
        _ => {
            let scalar = fitted(arg.scalar().unwrap_or(Scalar::Int(0)), dtype.part());
            let real = run(py, || Tensor::full_with([], scalar, (dtype.part(), device)))?;
            if dtype.is_complex() { run(py, || Data::Real(real).cast(dtype))? } else { real.into() }
        }
    })
}

/// A scalar as a dtype holds it: bool dtypes hold truth values, and floats beyond a float dtype are infinite.
pub fn fitted(scalar: Scalar, dtype: DType) -> Scalar {
    if dtype == DType::Bool {
        return Scalar::Bool(scalar.to_f64() != 0.0);
    }
    if dtype.is_float() && !scalar.fits(dtype) {
        return Scalar::Float(scalar.to_f64().signum() * f64::INFINITY);
    }
    if dtype.is_int()
        && let Scalar::Float(v) = scalar
    {
        return Scalar::Int(v as i64);
    }
    scalar
}

/// Float dtype that a function of floats computes an integer dtype in, as NumPy's: float16 for bool and 8 bits, float32
/// for 16 bits, else the default float.
pub fn float_of(dtype: ArrayDType) -> ArrayDType {
    match dtype {
        Real(d) if d.is_float() => dtype,
        Real(d) => Real(match d.size() {
            1 => DType::F16,
            2 => DType::F32,
            _ => default_float(),
        }),
        complex => complex,
    }
}

/// Binary elementwise operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
    Pow,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Equal,
    NotEqual,
    Lt,
    Le,
    Gt,
    Ge,
    Atan2,
    Hypot,
    Copysign,
    Nextafter,
    Logaddexp,
    Maximum,
    Minimum,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
}

/// Dtypes that a binary operation takes, and what it computes others in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Numbers, complex ones too; bool as in NumPy.
    Arithmetic,
    /// Real numbers.
    RealArithmetic,
    /// Floats; integers are converted.
    Float,
    /// Integers and bool.
    Bitwise,
    /// Integers.
    Shift,
    /// Any; the result is bool.
    Equality,
    /// Real numbers; the result is bool.
    Order,
    /// Any, as truth values.
    Logical,
}

use Binary::{
    Add, Atan2, BitAnd, BitOr, BitXor, Copysign, Div, Equal, FloorDiv, Ge, Gt, Hypot, Le, Logaddexp, LogicalAnd,
    LogicalOr, LogicalXor, Lt, Maximum, Minimum, Mul, Nextafter, NotEqual, Pow, Rem, Shl, Shr, Sub,
};

impl Binary {
    /// The standard's name.
    fn name(self) -> &'static str {
        match self {
            Add => "add",
            Sub => "subtract",
            Mul => "multiply",
            Div => "divide",
            FloorDiv => "floor_divide",
            Rem => "remainder",
            Pow => "pow",
            BitAnd => "bitwise_and",
            BitOr => "bitwise_or",
            BitXor => "bitwise_xor",
            Shl => "bitwise_left_shift",
            Shr => "bitwise_right_shift",
            Equal => "equal",
            NotEqual => "not_equal",
            Lt => "less",
            Le => "less_equal",
            Gt => "greater",
            Ge => "greater_equal",
            Atan2 => "atan2",
            Hypot => "hypot",
            Copysign => "copysign",
            Nextafter => "nextafter",
            Logaddexp => "logaddexp",
            Maximum => "maximum",
            Minimum => "minimum",
            LogicalAnd => "logical_and",
            LogicalOr => "logical_or",
            LogicalXor => "logical_xor",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Add | Sub | Mul | Div | Pow => Kind::Arithmetic,
            FloorDiv | Rem | Maximum | Minimum => Kind::RealArithmetic,
            Atan2 | Hypot | Copysign | Nextafter | Logaddexp => Kind::Float,
            BitAnd | BitOr | BitXor => Kind::Bitwise,
            Shl | Shr => Kind::Shift,
            Equal | NotEqual => Kind::Equality,
            Lt | Le | Gt | Ge => Kind::Order,
            LogicalAnd | LogicalOr | LogicalXor => Kind::Logical,
        }
    }

    /// The comparison with its operands exchanged.
    fn exchanged(self) -> Binary {
        match self {
            Lt => Gt,
            Le => Ge,
            Gt => Lt,
            Ge => Le,
            other => other,
        }
    }

    /// Records the operation on operands of one dtype, at least one of which is a tensor.
    fn record(self, a: Operand<'_>, b: Operand<'_>) -> Tensor {
        let (x, y) = match (a, b) {
            (Operand::Tensor(x), y) => (x, y),
            (Operand::Scalar(s), Operand::Tensor(y)) => {
                return match self {
                    Add => s + y,
                    Sub => s - y,
                    Mul => s * y,
                    Div => s / y,
                    Equal | NotEqual | Lt | Le | Gt | Ge => self.exchanged().record(b, a),
                    _ => {
                        let x = Tensor::full_with([], s, (y.dtype(), y.device()));
                        self.record(Operand::Tensor(&x), b)
                    }
                };
            }
            (Operand::Scalar(_), Operand::Scalar(_)) => unreachable!("an operand is a tensor"),
        };
        if let (FloorDiv | Rem | Div, Operand::Scalar(s)) = (self, y)
            && s.to_f64() == 0.0
            && x.dtype().is_int()
        {
            // A divisor that is data gives 0, as NumPy's does.
            let zero = Tensor::full_with([], 0, (x.dtype(), x.device()));
            return self.record(Operand::Tensor(x), Operand::Tensor(&zero));
        }
        match self {
            Add => x + y,
            Sub => x - y,
            Mul => x * y,
            Div => x / y,
            FloorDiv if x.dtype().is_float() => floor_quotient(x, y),
            FloorDiv => x.floor_div(y),
            Rem => x.rem(y),
            Pow => x.pow(y),
            BitAnd | LogicalAnd => x & y,
            BitOr | LogicalOr => x | y,
            BitXor | LogicalXor => x ^ y,
            Shl => x << y,
            Shr => x >> y,
            Equal => x.eq(y),
            NotEqual => x.ne(y),
            Lt => x.lt(y),
            Le => x.le(y),
            Gt => x.gt(y),
            Ge => x.ge(y),
            Atan2 => x.atan2(y),
            Hypot => x.hypot(y),
            Copysign => x.copysign(y),
            Nextafter => x.nextafter(y),
            Logaddexp => x.logaddexp(y),
            Maximum => x.maximum(y),
            Minimum => x.minimum(y),
        }
    }

    fn record_complex(self, a: &Complex, b: &Complex) -> Data {
        match self {
            Add => (a + b).into(),
            Sub => (a - b).into(),
            Mul => (a * b).into(),
            Div => (a / b).into(),
            Pow => a.pow(b).into(),
            Equal => a.eq(b).into(),
            NotEqual => a.ne(b).into(),
            other => unreachable!("{} takes no complex numbers", other.name()),
        }
    }
}

/// `x // y` of floats.
fn floor_quotient(x: &Tensor, y: Operand<'_>) -> Tensor {
    x.floor_div(y)
}

/// Applies a binary operation.
///
/// # Errors
/// `TypeError` for dtypes that it does not take, `OverflowError` for Python ints beyond the dtype, and mistakes in
/// shapes.
pub fn binary(py: Python<'_>, op: Binary, a: &Arg, b: &Arg) -> PyResult<Data> {
    let kind = op.kind();
    // The most frequent case: two tensors of one dtype, or one and a float or int that fits.
    if let (Arg::Array(Data::Real(x)), Arg::Array(Data::Real(y))) = (a, b)
        && x.dtype() == y.dtype()
        && x.dtype().is_float()
        && !matches!(kind, Kind::Bitwise | Kind::Shift | Kind::Logical)
    {
        return Ok(run(py, || op.record(Operand::Tensor(x), Operand::Tensor(y)))?.into());
    }
    if kind == Kind::Logical {
        let (x, y) = (truth(py, a)?, truth(py, b)?);
        return Ok(run(py, || op.record(Operand::Tensor(&x), Operand::Tensor(&y)))?.into());
    }
    let own = common(&[a, b]);
    let refuse = |takes: &str| {
        let (a, b) = (a.own_dtype().name(), b.own_dtype().name());
        type_error(py, format!("{}: takes {takes}, not {a} and {b}", op.name()))
    };
    let bool = own == Real(DType::Bool);
    let dtype = match kind {
        Kind::Arithmetic if bool => match op {
            Add => return binary(py, LogicalOr, a, b),
            Mul => return binary(py, LogicalAnd, a, b),
            Sub => return Err(refuse("numbers (logical_xor is the difference of bools)")),
            Div => Real(default_float()),
            _ => Real(DType::I8),
        },
        Kind::Arithmetic if op == Div && own.is_int() => Real(default_float()),
        Kind::RealArithmetic | Kind::Order | Kind::Float if own.is_complex() => return Err(refuse("real numbers")),
        Kind::RealArithmetic if bool => match op {
            Maximum => return binary(py, LogicalOr, a, b),
            Minimum => return binary(py, LogicalAnd, a, b),
            _ => Real(DType::I8),
        },
        Kind::Float => float_of(own),
        Kind::Bitwise if !own.is_int() && !bool => return Err(refuse("integers or bool")),
        Kind::Shift if bool => Real(DType::I8),
        Kind::Shift if !own.is_int() => return Err(refuse("integers")),
        Kind::Order if bool => Real(DType::U8),
        _ => own,
    };
    if matches!(kind, Kind::Equality | Kind::Order)
        && let Some(data) = exact_comparison(py, op, a, b)?
    {
        return Ok(data);
    }
    let device = device_of(&[a, b]);
    if dtype.is_complex() {
        let (x, y) = (array_of(py, a, dtype, device)?, array_of(py, b, dtype, device)?);
        return run(py, || op.record_complex(&x.complex(), &y.complex()));
    }
    if op == Pow
        && dtype.is_int()
        && let Arg::Int(Scalar::Int(exponent)) = b
        && *exponent < 0
    {
        return Err(value_error(py, "pow: integers to negative integer powers are not allowed"));
    }
    let (x, y) = (operand(py, a, dtype, device)?, operand(py, b, dtype, device)?);
    let data = run(py, || match (&x, &y) {
        (Term::Scalar(s), Term::Scalar(_)) => {
            let x = Tensor::full_with([], *s, (dtype.part(), device));
            op.record(Operand::Tensor(&x), y.operand())
        }
        _ => op.record(x.operand(), y.operand()),
    })?;
    Ok(data.into())
}

/// Operand of the dtype that is computed in.
enum Term {
    Tensor(Tensor),
    Scalar(Scalar),
}

impl Term {
    fn operand(&self) -> Operand<'_> {
        match self {
            Term::Tensor(x) => Operand::Tensor(x),
            Term::Scalar(s) => Operand::Scalar(*s),
        }
    }
}

fn operand(py: Python<'_>, arg: &Arg, dtype: ArrayDType, device: Device) -> PyResult<Term> {
    arg.check_fits(py, dtype)?;
    if let Some(scalar) = arg.scalar() {
        let scalar = fitted(scalar, dtype.part());
        return Ok(Term::Scalar(match scalar {
            Scalar::Bool(v) if dtype != Real(DType::Bool) => Scalar::Int(v.into()),
            other => other,
        }));
    }
    Ok(Term::Tensor(array_of(py, arg, dtype, device)?.real(py, "this operation")?))
}

/// The argument as truth values.
pub fn truth(py: Python<'_>, arg: &Arg) -> PyResult<Tensor> {
    let device = device_of(&[arg]);
    match arg {
        Arg::Array(Data::Real(x)) if x.dtype() == DType::Bool => Ok(x.clone()),
        Arg::Array(data) => run(py, || data.cast(Real(DType::Bool)))?.real(py, "truth"),
        Arg::Complex(re, im) => run(py, || Tensor::full_with([], *re != 0.0 || *im != 0.0, (DType::Bool, device))),
        _ => {
            let v = arg.scalar().is_some_and(|s| s.to_f64() != 0.0);
            run(py, || Tensor::full_with([], v, (DType::Bool, device)))
        }
    }
}

/// Comparisons that promotion would round or refuse: uint64 with a signed dtype, and a Python int beyond the dtype.
fn exact_comparison(py: Python<'_>, op: Binary, a: &Arg, b: &Arg) -> PyResult<Option<Data>> {
    let constant = |x: &Tensor, less: bool| {
        // Every element is less (or greater) than the scalar.
        let holds = match op {
            Equal => false,
            NotEqual => true,
            Lt | Le => less,
            _ => !less,
        };
        run(py, || Tensor::full_with(*x.shape(), holds, (DType::Bool, x.device()))).map(|t| Some(Data::Real(t)))
    };
    match (a, b) {
        (Arg::Array(Data::Real(x)), Arg::Int(s)) if x.dtype().is_int() && !s.fits(x.dtype()) => {
            constant(x, s.to_i128() > 0)
        }
        (Arg::Int(_), Arg::Array(_)) => exact_comparison(py, op.exchanged(), b, a),
        (Arg::Array(Data::Real(u)), Arg::Array(Data::Real(i))) if u.dtype() == DType::U64 && i.dtype().is_int() => {
            if !i.dtype().is_signed() {
                return Ok(None);
            }
            let data = run(py, || {
                let negative = i.lt(0);
                let i = i.cast(DType::U64);
                let plain = op.record(Operand::Tensor(u), Operand::Tensor(&i));
                // A negative number is less than every unsigned one.
                match op {
                    NotEqual | Gt | Ge => plain | negative,
                    _ => plain & !negative,
                }
            })?;
            Ok(Some(data.into()))
        }
        (Arg::Array(Data::Real(i)), Arg::Array(Data::Real(u))) if u.dtype() == DType::U64 && i.dtype().is_int() => {
            exact_comparison(py, op.exchanged(), b, a)
        }
        _ => Ok(None),
    }
}

macro_rules! binary_functions {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x1, x2, /))]
            fn $name(py: Python<'_>, x1: Arg, x2: Arg) -> PyResult<Data> {
                binary(py, Binary::$op, &x1, &x2)
            }
        )*

        fn register_binary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            register!(module; $($name),*);
            Ok(())
        }
    };
}

binary_functions! {
    /// Sum ``x1 + x2``. Arrays broadcast; dtypes are promoted. The sum of bools is their logical or.
    add => Add;
    /// Difference ``x1 - x2``. Takes numbers.
    subtract => Sub;
    /// Product ``x1 * x2``. The product of bools is their logical and.
    multiply => Mul;
    /// Quotient ``x1 / x2``. Integers give the default float dtype.
    divide => Div;
    /// Quotient rounded down, ``x1 // x2``. An integer divided by 0 gives 0.
    floor_divide => FloorDiv;
    /// Remainder ``x1 % x2``, with the sign of ``x2``. An integer modulo 0 gives 0.
    remainder => Rem;
    /// Power ``x1 ** x2``. An integer to a negative power in an array gives 0, except for the bases 1 and -1.
    pow => Pow;
    /// Bitwise and of integers; logical and of bools.
    bitwise_and => BitAnd;
    /// Bitwise or of integers; logical or of bools.
    bitwise_or => BitOr;
    /// Bitwise exclusive or of integers; logical one of bools.
    bitwise_xor => BitXor;
    /// ``x1 << x2`` of integers.
    bitwise_left_shift => Shl;
    /// ``x1 >> x2`` of integers; the sign is kept.
    bitwise_right_shift => Shr;
    /// Whether elements are equal, as bool.
    equal => Equal;
    /// Whether elements differ, as bool.
    not_equal => NotEqual;
    /// ``x1 < x2``, as bool. Takes real numbers.
    less => Lt;
    /// ``x1 <= x2``, as bool. Takes real numbers.
    less_equal => Le;
    /// ``x1 > x2``, as bool. Takes real numbers.
    greater => Gt;
    /// ``x1 >= x2``, as bool. Takes real numbers.
    greater_equal => Ge;
    /// Angle of the point ``(x2, x1)`` from the positive x axis, in radians from -π to π.
    atan2 => Atan2;
    /// ``sqrt(x1**2 + x2**2)`` without overflow in between.
    hypot => Hypot;
    /// Magnitude of ``x1`` with the sign of ``x2``.
    copysign => Copysign;
    /// Next float after ``x1`` towards ``x2``.
    nextafter => Nextafter;
    /// ``log(exp(x1) + exp(x2))`` without overflow in between.
    logaddexp => Logaddexp;
    /// Larger of two elements; NaN if either is NaN.
    maximum => Maximum;
    /// Smaller of two elements; NaN if either is NaN.
    minimum => Minimum;
    /// Logical and of truth values; numbers other than 0 are true.
    logical_and => LogicalAnd;
    /// Logical or of truth values.
    logical_or => LogicalOr;
    /// Logical exclusive or of truth values.
    logical_xor => LogicalXor;
}

/// Elements of ``x`` limited to at least ``min`` and at most ``max``, in the dtype of ``x``.
///
/// Bounds are arrays or numbers, and broadcast; None is no bound.
#[pyfunction]
#[pyo3(signature = (x, /, min = None, max = None))]
fn clip(py: Python<'_>, x: Data, min: Option<Arg>, max: Option<Arg>) -> PyResult<Data> {
    let dtype = x.dtype();
    if dtype.is_complex() || dtype == Real(DType::Bool) {
        return Err(type_error(py, format!("clip: takes real numbers, not {}", dtype.name())));
    }
    let mut out = x.real(py, "clip")?;
    for (bound, lower) in [(min, true), (max, false)] {
        let Some(bound) = bound else { continue };
        if bound.own_dtype().is_complex() || bound.own_dtype().is_float() && dtype.is_int() {
            let message = format!("clip: a bound of {} for an array of {}", bound.own_dtype().name(), dtype.name());
            return Err(type_error(py, message));
        }
        // A Python int beyond the dtype bounds nothing, or everything at the dtype's end.
        let bound = match bound {
            Arg::Int(s) if dtype.is_int() => {
                let (low, high) = dtype.part().int_range();
                let v = s.to_i128().clamp(low, high);
                Arg::Int(u64::try_from(v).map_or(Scalar::Int(v as i64), Scalar::from))
            }
            other => other,
        };
        let bound = operand(py, &bound, dtype, out.device())?;
        out = run(py, || if lower { out.maximum(bound.operand()) } else { out.minimum(bound.operand()) })?;
    }
    Ok(out.into())
}

/// Elements of ``x1`` where ``condition`` is true, else of ``x2``. All broadcast; dtypes are promoted.
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x1, x2, /))]
pub fn where_(py: Python<'_>, condition: Arg, x1: Arg, x2: Arg) -> PyResult<Data> {
    let dtype = common(&[&x1, &x2]);
    let condition = truth(py, &condition)?;
    let device = condition.device();
    let (a, b) = (array_of(py, &x1, dtype, device)?, array_of(py, &x2, dtype, device)?);
    run(py, || match (&a, &b) {
        (Data::Real(a), Data::Real(b)) => Data::Real(condition.where_(a, b)),
        _ => {
            let (a, b) = (a.complex(), b.complex());
            Data::Complex(Complex { re: condition.where_(&a.re, &b.re), im: condition.where_(&a.im, &b.im) })
        }
    })
}

/// Whether elements are within ``atol + rtol * abs(x2)`` of each other, as bool; NaN equals NaN if ``equal_nan``.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, rtol = 1e-5, atol = 1e-8, equal_nan = false))]
fn isclose(py: Python<'_>, x1: Arg, x2: Arg, rtol: f64, atol: f64, equal_nan: bool) -> PyResult<Data> {
    let dtype = float_of(common(&[&x1, &x2]));
    let device = device_of(&[&x1, &x2]);
    let (a, b) = (array_of(py, &x1, dtype, device)?, array_of(py, &x2, dtype, device)?);
    run(py, || {
        let (close, nan) = match (&a, &b) {
            (Data::Real(a), Data::Real(b)) => (a.isclose(b, rtol, atol), a.is_nan() & b.is_nan()),
            _ => {
                let (a, b) = (a.complex(), b.complex());
                (a.isclose(&b, rtol, atol), a.is_nan() & b.is_nan())
            }
        };
        Data::Real(if equal_nan { close | nan } else { close })
    })
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_binary(module)?;
    register!(module; clip, where_, isclose);
    Ok(())
}
