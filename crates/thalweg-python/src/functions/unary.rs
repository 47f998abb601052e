//! Elementwise functions and operators of one array.
//!
//! In: an array or a weak Python scalar. Out: an array, with NumPy's special values.

use super::elementwise::{Binary, array_of, binary, device_of, float_of, truth};
use super::register;
use crate::dtype::ArrayDType::Real;
use crate::error::{run, type_error};
use crate::handle::Data;
use crate::promote::Arg;
use pyo3::prelude::*;
use thalweg::{Complex, DType, Tensor};

/// Dtypes that a unary function takes; it converts or refuses others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Floats and complex numbers; integers are converted to a float dtype.
    Float,
    /// Real floats; integers are converted.
    RealFloat,
    /// Numbers.
    Number,
    /// Real numbers; integers and bools are returned unchanged.
    Rounding,
}

fn unary(
    py: Python<'_>,
    (name, takes): (&str, Takes),
    x: &Arg,
    real: fn(&Tensor) -> Tensor,
    complex: Option<fn(&Complex) -> Data>,
) -> PyResult<Data> {
    let own = x.own_dtype();
    if own.is_complex() && complex.is_none() {
        return Err(type_error(py, format!("{name}: takes no complex dtype, not {}", own.name())));
    }
    let dtype = match takes {
        Takes::Float | Takes::RealFloat => float_of(own),
        Takes::Number if own == Real(DType::Bool) => {
            return Err(type_error(py, format!("{name}: takes numbers, not bool")));
        }
        Takes::Rounding if !own.is_float() => return array_of(py, x, own, device_of(&[x])),
        _ => own,
    };
    match (array_of(py, x, dtype, device_of(&[x]))?, complex) {
        (Data::Real(x), _) => Ok(run(py, || real(&x))?.into()),
        (Data::Complex(z), Some(complex)) => run(py, || complex(&z)),
        (Data::Complex(_), None) => unreachable!("refused above"),
    }
}

macro_rules! unary_functions {
    ($($(#[$doc:meta])* $name:ident $takes:ident $real:expr $(, $complex:expr)?;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, /))]
            fn $name(py: Python<'_>, x: Arg) -> PyResult<Data> {
                let complex: Option<fn(&Complex) -> Data> = None $(.or(Some(|z: &Complex| { let f: fn(&Complex) -> _ = $complex; f(z).into() })))?;
                unary(py, (stringify!($name), Takes::$takes), &x, $real, complex)
            }
        )*

        fn register_unary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            register!(module; $($name),*);
            Ok(())
        }
    };
}

/// Sign bit, of NaN as well.
fn sign_bit(x: &Tensor) -> Tensor {
    let bits = match x.dtype().size() {
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    };
    x.detach().bitcast(bits).lt(0)
}

/// `exp(z) - 1`, which is +0 for both zeros.
fn complex_expm1(z: &Complex) -> Complex {
    let Complex { re, im } = z.expm1();
    Complex { re: re + 0.0, im }
}

unary_functions! {
    /// Inverse cosine in radians; NaN outside [-1, 1] for real numbers.
    acos Float Tensor::acos, Complex::acos;
    /// Inverse hyperbolic cosine; NaN below 1 for real numbers.
    acosh Float Tensor::acosh, Complex::acosh;
    /// Inverse sine in radians; NaN outside [-1, 1] for real numbers.
    asin Float Tensor::asin, Complex::asin;
    /// Inverse hyperbolic sine.
    asinh Float Tensor::asinh, Complex::asinh;
    /// Inverse tangent in radians.
    atan Float Tensor::atan, Complex::atan;
    /// Inverse hyperbolic tangent; NaN outside [-1, 1] for real numbers.
    atanh Float Tensor::atanh, Complex::atanh;
    /// Smallest integer not below ``x``, in its dtype.
    ceil Rounding Tensor::ceil;
    /// Cosine of radians.
    cos Float Tensor::cos, Complex::cos;
    /// Hyperbolic cosine.
    cosh Float Tensor::cosh, Complex::cosh;
    /// Exponential function.
    exp Float Tensor::exp, Complex::exp;
    /// ``exp(x) - 1``, accurate near 0.
    expm1 Float Tensor::expm1, complex_expm1;
    /// Largest integer not above ``x``, in its dtype.
    floor Rounding Tensor::floor;
    /// Natural logarithm.
    log Float Tensor::log, Complex::log;
    /// ``log(1 + x)``, accurate near 0.
    log1p Float Tensor::log1p, Complex::log1p;
    /// Logarithm to base 2.
    log2 Float Tensor::log2, Complex::log2;
    /// Logarithm to base 10.
    log10 Float Tensor::log10, Complex::log10;
    /// ``-x``. Takes numbers.
    negative Number |x| -x, |z| -z;
    /// ``x`` itself. Takes numbers.
    positive Number Tensor::clone, Complex::clone;
    /// Nearest integer, ties to even, in the dtype of ``x``.
    round Rounding Tensor::round, |z| z.map(Tensor::round);
    /// Sign of each element: -1, 0 or 1, NaN for NaN; ``z / abs(z)`` for complex numbers.
    sign Number Tensor::sign, Complex::sign;
    /// Sine of radians.
    sin Float Tensor::sin, Complex::sin;
    /// Hyperbolic sine.
    sinh Float Tensor::sinh, Complex::sinh;
    /// Square root; NaN for negative real numbers.
    sqrt Float Tensor::sqrt, Complex::sqrt;
    /// Tangent of radians.
    tan Float Tensor::tan, Complex::tan;
    /// Hyperbolic tangent.
    tanh Float Tensor::tanh, Complex::tanh;
    /// Integer part, in the dtype of ``x``.
    trunc Rounding Tensor::trunc;
    /// ``1 / x``. Takes floats; integers are converted.
    reciprocal Float Tensor::recip, Complex::recip;
    /// Whether the sign is negative, also of -0.0 and NaN, as bool.
    signbit RealFloat sign_bit;
    /// Error function.
    erf RealFloat Tensor::erf;
    /// ``1 - erf(x)``, accurate where it is small.
    erfc RealFloat Tensor::erfc;
    /// Inverse error function.
    erfinv RealFloat Tensor::erfinv;
    /// Logarithm of the magnitude of the gamma function.
    lgamma RealFloat Tensor::lgamma;
    /// Derivative of ``lgamma``.
    digamma RealFloat Tensor::digamma;
    /// ``2 ** x``.
    exp2 RealFloat Tensor::exp2;
    /// ``1 / sqrt(x)``.
    rsqrt RealFloat Tensor::rsqrt;
}

/// Magnitude of each element. Integers keep their dtype; complex numbers give their parts' dtype.
#[pyfunction]
#[pyo3(signature = (x, /))]
pub fn abs(py: Python<'_>, x: Arg) -> PyResult<Data> {
    let own = x.own_dtype();
    Ok(match array_of(py, &x, own, device_of(&[&x]))? {
        Data::Real(x) if x.dtype() == DType::Bool || x.dtype().is_int() && !x.dtype().is_signed() => x.into(),
        Data::Real(x) => run(py, || x.abs())?.into(),
        Data::Complex(z) => run(py, || z.abs())?.into(),
    })
}

/// ``x * x``, in its dtype.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn square(py: Python<'_>, x: Arg) -> PyResult<Data> {
    binary(py, Binary::Mul, &x, &x)
}

/// Complex conjugate; real numbers are returned unchanged.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn conj(py: Python<'_>, x: Data) -> PyResult<Data> {
    Ok(match x {
        Data::Real(x) => x.into(),
        Data::Complex(z) => run(py, || z.conj())?.into(),
    })
}

/// Real part of complex numbers; real ones are returned unchanged.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn real(x: Data) -> Data {
    match x {
        Data::Real(x) => x.into(),
        Data::Complex(z) => z.re.into(),
    }
}

/// Imaginary part of complex numbers; zeros for real ones.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn imag(py: Python<'_>, x: Data) -> PyResult<Data> {
    Ok(match x {
        Data::Real(x) => run(py, || x.zeros_like())?.into(),
        Data::Complex(z) => z.im.into(),
    })
}

/// Tests of floats, which hold or fail everywhere for integers.
fn float_test(
    py: Python<'_>,
    x: &Arg,
    others: bool,
    real: fn(&Tensor) -> Tensor,
    complex: fn(&Complex) -> Tensor,
) -> PyResult<Data> {
    let own = x.own_dtype();
    Ok(match array_of(py, x, own, device_of(&[x]))? {
        Data::Real(x) if x.dtype().is_float() => run(py, || real(&x))?.into(),
        Data::Real(x) => run(py, || Tensor::full_with(*x.shape(), others, (DType::Bool, x.device())))?.into(),
        Data::Complex(z) => run(py, || complex(&z))?.into(),
    })
}

/// Whether elements are neither infinite nor NaN, as bool.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn isfinite(py: Python<'_>, x: Arg) -> PyResult<Data> {
    float_test(py, &x, true, Tensor::is_finite, Complex::is_finite)
}

/// Whether elements are infinite, as bool.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn isinf(py: Python<'_>, x: Arg) -> PyResult<Data> {
    float_test(py, &x, false, Tensor::is_inf, Complex::is_inf)
}

/// Whether elements are NaN, as bool.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn isnan(py: Python<'_>, x: Arg) -> PyResult<Data> {
    float_test(py, &x, false, Tensor::is_nan, Complex::is_nan)
}

/// Logical negation of truth values.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn logical_not(py: Python<'_>, x: Arg) -> PyResult<Data> {
    let x = truth(py, &x)?;
    Ok(run(py, || !x)?.into())
}

/// Bits of integers inverted; logical negation of bools.
#[pyfunction]
#[pyo3(signature = (x, /))]
pub fn bitwise_invert(py: Python<'_>, x: Arg) -> PyResult<Data> {
    let own = x.own_dtype();
    if !own.is_int() && own != Real(DType::Bool) {
        return Err(type_error(py, format!("bitwise_invert: takes integers or bool, not {}", own.name())));
    }
    let x = array_of(py, &x, own, device_of(&[&x]))?.real(py, "bitwise_invert")?;
    Ok(run(py, || !x)?.into())
}

/// Unary operators of the class.
pub fn unary_operator(py: Python<'_>, x: Arg, name: &str) -> PyResult<Data> {
    match name {
        "negative" => negative(py, x),
        "positive" => positive(py, x),
        "abs" => abs(py, x),
        _ => bitwise_invert(py, x),
    }
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_unary(module)?;
    register!(module; abs, square, conj, real, imag, isfinite, isinf, isnan, logical_not, bitwise_invert);
    Ok(())
}
