//! Handles that Python code holds: `thalweg.Array`, and the value behind it.
//!
//! In: tensors and complex numbers of the front. Out: Python objects. Always true: the value behind a handle is
//! immutable; `x[i] = v` and `x += v` put another value behind the handle, so every name of the same object sees the
//! change and no other array does.

use crate::dtype::ArrayDType;
use crate::error::type_error;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use thalweg::{Complex, DType, Device, Error, Shape, Tensor, TensorMemory};

/// Value of an array: a tensor, or two that are the parts of complex numbers.
#[derive(Clone)]
pub enum Data {
    /// Elements of a real dtype.
    Real(Tensor),
    /// Elements of complex64 or complex128.
    Complex(Complex),
}

impl From<Tensor> for Data {
    fn from(tensor: Tensor) -> Data {
        Data::Real(tensor)
    }
}

impl From<Complex> for Data {
    fn from(complex: Complex) -> Data {
        Data::Complex(complex)
    }
}

impl Data {
    /// Shape of the array.
    pub fn shape(&self) -> &Shape {
        match self {
            Data::Real(x) => x.shape(),
            Data::Complex(z) => z.shape(),
        }
    }

    /// Sizes of the dimensions.
    pub fn dims(&self) -> &[usize] {
        self.shape().dims()
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape().numel()
    }

    /// Dtype of the elements.
    pub fn dtype(&self) -> ArrayDType {
        match self {
            Data::Real(x) => ArrayDType::Real(x.dtype()),
            Data::Complex(z) => ArrayDType::complex_of(z.dtype()),
        }
    }

    /// Device that stores the array.
    pub fn device(&self) -> Device {
        match self {
            Data::Real(x) => x.device(),
            Data::Complex(z) => z.device(),
        }
    }

    /// The elements as another dtype. Complex numbers keep their real part only if the dtype is real.
    pub fn cast(&self, dtype: ArrayDType) -> Data {
        match (self, dtype) {
            (Data::Real(x), ArrayDType::Real(to)) => Data::Real(x.cast(to)),
            (Data::Real(x), _) => {
                let re = x.cast(dtype.part());
                Data::Complex(Complex { im: re.zeros_like(), re })
            }
            (Data::Complex(z), ArrayDType::Real(DType::Bool)) => Data::Real(z.re.ne(0) | z.im.ne(0)),
            (Data::Complex(z), ArrayDType::Real(to)) => Data::Real(z.re.cast(to)),
            (Data::Complex(z), _) => Data::Complex(z.cast(dtype.part())),
        }
    }

    /// Applies a function that moves elements to the tensor, or to each part.
    pub fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> Data {
        match self {
            Data::Real(x) => Data::Real(f(x)),
            Data::Complex(z) => Data::Complex(Complex { re: f(&z.re), im: f(&z.im) }),
        }
    }

    /// The tensor.
    ///
    /// # Errors
    /// `TypeError` for complex numbers; `name` is the function that takes none.
    pub fn real(self, py: Python<'_>, name: &str) -> PyResult<Tensor> {
        match self {
            Data::Real(x) => Ok(x),
            Data::Complex(_) => Err(type_error(py, format!("{name}: takes no complex dtype"))),
        }
    }

    /// The numbers as complex ones.
    pub fn complex(&self) -> Complex {
        match self {
            Data::Real(x) => {
                let re = if x.dtype() == DType::F64 { x.clone() } else { x.cast(DType::F32) };
                Complex { im: re.zeros_like(), re }
            }
            Data::Complex(z) => z.clone(),
        }
    }
}

/// An array: elements of one dtype in a grid of up to eight dimensions, on one device.
///
/// Arrays are created by ``asarray``, ``zeros``, ``arange`` and so on. An operation records what to do and returns at
/// once. It runs when a value is read: by ``print``, ``float(x)``, ``bool(x)``, ``x.tolist()``, ``numpy.asarray(x)``,
/// ``thalweg.synchronize()``. What was recorded until then shares kernels.
///
/// Slices are no views: ``x[0] = 1`` changes ``x`` and no array that ``x`` was taken from.
#[pyclass(name = "Array", module = "thalweg", frozen, weakref)]
pub struct Array {
    data: Mutex<Data>,
}

impl Array {
    /// A new handle of a value.
    pub fn new(data: Data) -> Array {
        Array { data: Mutex::new(data) }
    }

    /// The value. Cheap: it copies a handle.
    pub fn data(&self) -> Data {
        self.data.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The value as a tensor.
    ///
    /// # Errors
    /// `TypeError` for a complex array.
    pub fn tensor(&self, py: Python<'_>) -> PyResult<Tensor> {
        self.data().real(py, "thalweg")
    }

    /// Calls `f` with the value, which it must not keep locked for long.
    pub fn with<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
        f(&self.data.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another value behind the handle.
    pub fn rebind(&self, data: Data) {
        *self.data.lock().unwrap_or_else(PoisonError::into_inner) = data;
    }
}

impl From<Tensor> for Array {
    fn from(tensor: Tensor) -> Array {
        Array::new(Data::Real(tensor))
    }
}

impl From<Complex> for Array {
    fn from(complex: Complex) -> Array {
        Array::new(Data::Complex(complex))
    }
}

impl<'py> IntoPyObject<'py> for Data {
    type Target = Array;
    type Output = Bound<'py, Array>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, Array>> {
        Bound::new(py, Array::new(self))
    }
}

/// An array as an argument.
impl<'a, 'py> FromPyObject<'a, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Data> {
        match object.cast::<Array>() {
            Ok(array) => Ok(array.get().data()),
            Err(_) => {
                let kind = object.get_type().name()?;
                Err(type_error(object.py(), format!("takes a thalweg.Array, not {kind}; thalweg.asarray converts")))
            }
        }
    }
}

/// Memory of a tensor's elements, dense and row-major; a copy only where the tensor's own is not.
///
/// # Errors
/// When the value cannot be computed.
pub fn dense_memory(x: &Tensor) -> Result<TensorMemory, Error> {
    let memory = x.memory()?;
    if memory.is_dense() { Ok(memory) } else { x.deep_copy()?.memory() }
}
