//! Creation of tensors, from data and from a rule.
//!
//! From data, the dtype is the data's own. From a rule - `zeros`, `arange`, `eye` and so on - it is f32 on the default
//! device, and a second function of the same name with `_with` takes [`Options`]: a dtype, a device, or both.

use crate::element::flatten;
use crate::record::{record0, scalar_bits};
use crate::{Axis, DType, Data, Device, Element, Error, MAX_RANK, Scalar, Shape, Tensor};
use thalweg_ir::Op;
use thalweg_stream::Value;

/// Dtype and device of a tensor to be created: f32 on the default device unless set.
///
/// Converts from a [`DType`], a [`Device`], or a pair of both, so that `Tensor::zeros_with([2, 3], DType::F64)` works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The dtype; `None` for the function's own default (f32, for random integers i64).
    pub dtype: Option<DType>,
    /// The device.
    pub device: Device,
}

impl Default for Options {
    #[track_caller]
    fn default() -> Options {
        Options { dtype: None, device: Device::default() }
    }
}
impl From<DType> for Options {
    #[track_caller]
    fn from(dtype: DType) -> Options {
        Options { dtype: Some(dtype), device: Device::default() }
    }
}
impl From<Device> for Options {
    fn from(device: Device) -> Options {
        Options { dtype: None, device }
    }
}
impl From<(DType, Device)> for Options {
    fn from((dtype, device): (DType, Device)) -> Options {
        Options { dtype: Some(dtype), device }
    }
}

impl Options {
    /// The dtype, f32 where unset.
    pub(crate) fn dtype(self) -> DType {
        self.dtype.unwrap_or(DType::F32)
    }

    /// Dtype and device of a tensor, as options.
    pub(crate) fn of(x: &Tensor) -> Options {
        Options { dtype: Some(x.dtype()), device: x.device() }
    }
}

/// # Creation from data
///
/// The dtype is the data's own.
impl Tensor {
    /// A tensor of nested data: a number, an array, a slice or a `Vec`, nested up to eight deep; as `torch.tensor` and
    /// `numpy.array`. The dtype is the type of the numbers, so write `1.0f32` for f32 (a plain `1.0` is `f64` in Rust).
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!((x.dims(), x.dtype()), (&[2, 2][..], DType::F32));
    /// ```
    ///
    /// # Panics
    /// When the data is ragged, or the device has no memory for it ([`Tensor::try_from_slice`] returns that as an
    /// error).
    #[track_caller]
    pub fn new<D: Data>(data: D) -> Tensor {
        let (list, shape) = flatten(&data);
        Tensor::from_slice(&list, shape)
    }

    /// A tensor of `data` in row-major order, on the default device. Copies the data.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// let x = Tensor::from_slice(&[1.0f64, 2.0, 3.0, 4.0], [2, 2]);
    /// assert_eq!((x.dims(), x.dtype()), (&[2, 2][..], DType::F64));
    /// ```
    ///
    /// # Panics
    /// When the shape does not hold `data.len()` elements, or the device has no memory for them
    /// ([`Tensor::try_from_slice`] returns that as an error).
    #[track_caller]
    #[doc(alias = "from_vec")]
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Shape>) -> Tensor {
        match Tensor::try_from_slice(data, shape, Device::default()) {
            Ok(t) => t,
            Err(e) => panic!("from_slice: {e}"),
        }
    }

    /// A tensor of `data` in row-major order, on a device. Copies the data.
    ///
    /// ```
    /// # use thalweg::{Device, Tensor};
    /// let x = Tensor::try_from_slice(&[1i32, 2], [2], Device::cpu())?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the device has no memory for them or fails.
    ///
    /// # Panics
    /// When the shape does not hold `data.len()` elements.
    #[track_caller]
    pub fn try_from_slice<T: Element>(data: &[T], shape: impl Into<Shape>, device: Device) -> Result<Tensor, Error> {
        let shape = shape.into();
        if shape.numel() != data.len() {
            panic!("from_slice: shape {shape} holds {} elements, not the {} given", shape.numel(), data.len());
        }
        Tensor::from_bytes(T::as_bytes(data), shape, T::DTYPE, device)
    }

    /// A tensor of the elements of several slices, concatenated, on a device: the same as `concat` and
    /// [`Tensor::try_from_slice`], without the intermediate copy.
    ///
    /// ```
    /// # use thalweg::{Device, Tensor};
    /// let rows = [vec![1.0f32, 2.0], vec![3.0, 4.0]];
    /// let x = Tensor::try_from_slices(&[&rows[0], &rows[1]], [2, 2], Device::default())?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the device has no memory for them or fails.
    ///
    /// # Panics
    /// When the shape does not hold as many elements as the slices together.
    #[track_caller]
    pub fn try_from_slices<T: Element>(slices: &[&[T]], shape: impl Into<Shape>, on: Device) -> Result<Tensor, Error> {
        let shape = shape.into();
        let count: usize = slices.iter().map(|s| s.len()).sum();
        if shape.numel() != count {
            panic!("from_slices: shape {shape} holds {} elements, not the {count} given", shape.numel());
        }
        let spans: Vec<&[u8]> = slices.iter().map(|s| T::as_bytes(s)).collect();
        let buffer = on.0.device().allocate_with(&spans)?;
        Ok(Tensor::of(Value::ready(on.0, buffer, shape, T::DTYPE)))
    }

    /// A tensor of host bytes in row-major order; `bytes` has the length that shape and dtype require.
    pub(crate) fn from_bytes(bytes: &[u8], shape: Shape, dtype: DType, device: Device) -> Result<Tensor, Error> {
        debug_assert_eq!(Some(bytes.len()), shape.checked_bytes(dtype.size()));
        let buffer = device.0.device().allocate_with(&[bytes])?;
        Ok(Tensor::of(Value::ready(device.0, buffer, shape, dtype)))
    }
}

impl<D: Data> From<D> for Tensor {
    /// As [`Tensor::new`].
    #[track_caller]
    fn from(data: D) -> Tensor {
        Tensor::new(data)
    }
}

/// # Creation of constants
///
/// As f32 on the default device; the functions with `_with` take [`Options`]: a dtype, a device or both.
impl Tensor {
    /// Zeros, as f32 on the default device.
    ///
    /// A shape larger than memory is an error at the read, and no error if only a part of the tensor is ever needed.
    ///
    /// See also [`zeros_like`](Tensor::zeros_like), and [`zeros_with`](Tensor::zeros_with) for another dtype or device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 2]).to_vec::<f32>()?, [0.0; 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the size in bytes overflows.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>) -> Tensor {
        Tensor::zeros_with(shape, Options::default())
    }
    /// [`zeros`](Tensor::zeros) with a dtype, a device or both.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::zeros_with([2], DType::I64).to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn zeros_with(shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        Tensor::full_with(shape, 0, options)
    }
    /// Ones, as f32 on the default device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::ones([3]).to_vec::<f32>()?, [1.0; 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>) -> Tensor {
        Tensor::ones_with(shape, Options::default())
    }
    /// [`ones`](Tensor::ones) with a dtype, a device or both.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::ones_with([2], DType::Bool).to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn ones_with(shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        Tensor::full_with(shape, 1, options)
    }
    /// `value` in every element, as f32 on the default device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::full([2], 0.5).to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>) -> Tensor {
        Tensor::full_with(shape, value, Options::default())
    }
    /// [`full`](Tensor::full) with a dtype, a device or both.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::full_with([2], 7, DType::U8).to_vec::<u8>()?, [7, 7]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the dtype cannot hold the value.
    #[track_caller]
    pub fn full_with(shape: impl Into<Shape>, value: impl Into<Scalar>, options: impl Into<Options>) -> Tensor {
        let options = options.into();
        let bits = scalar_bits("full", value.into(), options.dtype());
        record0(options.device.0, Op::Full, options.dtype(), shape.into(), Some(bits))
    }
    /// Zeros of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).zeros_like().to_vec::<i32>()?, [0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0)
    }
    /// Ones of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3i32, 2]).ones_like().to_vec::<i32>()?, [1, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1)
    }
    /// `value` in every element, in this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).full_like(9).to_vec::<i32>()?, [9, 9]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the dtype cannot hold the value.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        Tensor::full_with(*self.shape(), value, Options::of(self))
    }
}

/// # Creation of ranges and triangles
///
/// Evenly spaced numbers, and matrices defined by a rule.
impl Tensor {
    /// The numbers of a half-open range, as f32: `arange(5)` is 0 to 4, `arange(2..5)` 2 to 4, and
    /// `arange((0.0, 1.0, 0.25))` has a step, which may be negative. Element `i` is `start + i·step`.
    ///
    /// See also [`linspace`](Tensor::linspace), which takes the number of elements.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::arange((1, 10, 3)).to_vec::<f32>()?, [1.0, 4.0, 7.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the step is 0 or the number of elements is not finite.
    #[track_caller]
    pub fn arange(range: impl Into<Progression>) -> Tensor {
        Tensor::arange_with(range, Options::default())
    }

    /// [`arange`](Tensor::arange) with a dtype, a device or both. Elements are computed in the dtype (bf16 and f16: in
    /// f32, then rounded).
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::arange_with(2..5, DType::I64).to_vec::<i64>()?, [2, 3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the step is 0, the number of elements is not finite, or the dtype is bool or cannot hold start or step.
    #[track_caller]
    pub fn arange_with(range: impl Into<Progression>, options: impl Into<Options>) -> Tensor {
        let (range, options) = (range.into(), options.into());
        let count = range.count();
        if options.dtype() == DType::Bool {
            crate::record::wrong_dtype("arange", "a float or integer dtype", DType::Bool);
        }
        let dtype = wide(options.dtype());
        scalar_bits("arange", range.start, options.dtype());
        scalar_bits("arange", range.step, options.dtype());
        let mut x = iota(count, dtype, options.device);
        if range.step.to_f64() != 1.0 {
            x = x.mul(range.step);
        }
        if range.start.to_f64() != 0.0 {
            x = x.add(range.start);
        }
        x.cast(options.dtype())
    }

    /// `count` evenly spaced numbers from `start` to `end`, both included, as f32; as `numpy.linspace`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 5).to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn linspace(start: f64, end: f64, count: usize) -> Tensor {
        Tensor::linspace_with(start, end, count, Options::default())
    }

    /// [`linspace`](Tensor::linspace) with a dtype, a device or both. The first half is computed from the start and the
    /// second from the end, so both ends are exact.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::linspace_with(0.0, 1.0, 3, DType::F64).to_vec::<f64>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn linspace_with(start: f64, end: f64, count: usize, options: impl Into<Options>) -> Tensor {
        let options = options.into();
        if !options.dtype().is_float() {
            crate::record::wrong_dtype("linspace", "a float dtype", options.dtype());
        }
        let dtype = wide(options.dtype());
        if count < 2 {
            return Tensor::full_with([count], start, options);
        }
        let step = (end - start) / (count - 1) as f64;
        let i = iota(count, dtype, options.device);
        let from_start = &i * step + start;
        let from_end = end - ((count - 1) as f64 - &i) * step;
        i.lt(count as f64 / 2.0).where_(from_start, from_end).cast(options.dtype())
    }

    /// The identity matrix of size `n`×`n`, as f32.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::eye(2).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn eye(n: usize) -> Tensor {
        Tensor::eye_with(n, n, Options::default())
    }

    /// The `rows`×`columns` matrix with ones on the main diagonal, with a dtype, a device or both.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::eye_with(1, 3, DType::I32).to_vec::<i32>()?, [1, 0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn eye_with(rows: usize, columns: usize, options: impl Into<Options>) -> Tensor {
        let options = options.into();
        let (row, column) = indices(rows, columns, options.device);
        row.eq(column).cast(options.dtype())
    }

    /// The `rows`×`columns` matrix with ones on and below diagonal `k`, as f32; as `numpy.tri`. `k` is 0 for the main
    /// diagonal and positive above it.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::tri(2, 3, 0).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn tri(rows: usize, columns: usize, k: i64) -> Tensor {
        Tensor::tri_with(rows, columns, k, Options::default())
    }

    /// [`tri`](Tensor::tri) with a dtype, a device or both.
    #[track_caller]
    pub fn tri_with(rows: usize, columns: usize, k: i64, options: impl Into<Options>) -> Tensor {
        let options = options.into();
        let (row, column) = indices(rows, columns, options.device);
        column.le(row + beyond(k, rows, columns)).cast(options.dtype())
    }

    /// The lower triangle of the matrices in the last two dimensions: elements above diagonal `k` are 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 2], [3, 4]]).tril(0).to_vec::<i32>()?, [1, 0, 3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn tril(&self, k: i64) -> Tensor {
        let (rows, columns) = self.matrix_sizes("tril");
        let (row, column) = indices(rows, columns, self.device());
        column.le(row + beyond(k, rows, columns)).where_(self, 0)
    }

    /// The upper triangle of the matrices in the last two dimensions: elements below diagonal `k` are 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 2], [3, 4]]).triu(1).to_vec::<i32>()?, [0, 2, 0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn triu(&self, k: i64) -> Tensor {
        let (rows, columns) = self.matrix_sizes("triu");
        let (row, column) = indices(rows, columns, self.device());
        column.ge(row + beyond(k, rows, columns)).where_(self, 0)
    }

    #[track_caller]
    fn matrix_sizes(&self, name: &str) -> (usize, usize) {
        let rank = self.rank();
        assert!(rank >= 2, "{name}: takes at least two dimensions, not shape {}", self.shape());
        (self.dims()[rank - 2], self.dims()[rank - 1])
    }

    /// The indices along an axis: element `[.., i, ..]` is `i`, in a shape that broadcasts against this tensor's.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2, 3]).positions(0, DType::I64).dims(), [2, 1]);
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn positions(&self, axis: impl Into<Axis>, dtype: DType) -> Tensor {
        let axis = axis.into().of("positions", self.rank());
        let mut shape = Shape::new(&[1; MAX_RANK][..self.rank()]);
        shape.dims_mut()[axis] = self.dims()[axis];
        Tensor::arange_with(self.dims()[axis], (dtype, self.device())).reshaped(shape)
    }
}

/// Diagonal number `k`, clamped to at most one diagonal outside the matrix.
fn beyond(k: i64, rows: usize, columns: usize) -> i64 {
    k.clamp(-(rows as i64), columns as i64)
}

/// Dtype in which an arithmetic progression is computed: f32 for bf16 and f16, else `dtype`.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        other => other,
    }
}

#[track_caller]
pub(crate) fn iota(count: usize, dtype: DType, device: Device) -> Tensor {
    record0(device.0, Op::Iota, dtype, Shape::new(&[count]), None)
}

/// Row numbers as a column vector, and column numbers as a row vector.
fn indices(rows: usize, columns: usize, device: Device) -> (Tensor, Tensor) {
    (iota(rows, DType::I64, device).reshape([rows, 1]), iota(columns, DType::I64, device))
}

/// Range of numbers with a step, the argument of [`Tensor::arange`]; the end is not included.
///
/// Converts from an end, a range, a pair (start, end) or a triple (start, end, step) of Rust's usual numbers.
#[derive(Clone, Copy, Debug)]
pub struct Progression {
    start: Scalar,
    end: Scalar,
    step: Scalar,
}

impl Progression {
    #[track_caller]
    fn count(&self) -> usize {
        if ![self.start, self.end, self.step].iter().any(|s| matches!(s, Scalar::Float(_))) {
            let (start, end, step) = (self.start.to_i128(), self.end.to_i128(), self.step.to_i128());
            assert!(step != 0, "arange: the step is 0");
            let count = (end - start + step - step.signum()).div_euclid(step).max(0);
            return usize::try_from(count).expect("a range of 64-bit integers has at most 2^64 numbers");
        }
        let (start, end, step) = (self.start.to_f64(), self.end.to_f64(), self.step.to_f64());
        assert!(step != 0.0, "arange: the step is 0");
        let count = ((end - start) / step).ceil();
        assert!(count.is_finite(), "arange: from {start} to {end} by {step} has no finite number of elements");
        count.max(0.0) as usize
    }
}

macro_rules! progressions {
    ($($t:ty, $zero:expr, $one:expr);*) => {$(
        impl From<$t> for Progression {
            fn from(end: $t) -> Progression { Progression::from(($zero, end, $one)) }
        }
        impl From<std::ops::Range<$t>> for Progression {
            fn from(r: std::ops::Range<$t>) -> Progression { Progression::from((r.start, r.end, $one)) }
        }
        impl From<($t, $t)> for Progression {
            fn from((start, end): ($t, $t)) -> Progression { Progression::from((start, end, $one)) }
        }
        impl From<($t, $t, $t)> for Progression {
            fn from((start, end, step): ($t, $t, $t)) -> Progression {
                Progression { start: start.into(), end: end.into(), step: step.into() }
            }
        }
    )*};
}
progressions!(i32, 0, 1; i64, 0, 1; u64, 0, 1; usize, 0, 1; f32, 0.0, 1.0; f64, 0.0, 1.0);
