//! Further creation: logarithmic scales, coordinate grids, functions of the index.

use crate::record::check_alike;
use crate::{DType, Element, MAX_RANK, Options, Shape, Tensor};

/// Assignment of the first two vectors of [`Tensor::meshgrid`] to dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Indexing {
    /// Vector `i` varies along dimension `i`: matrix indices, "ij". PyTorch's default.
    #[default]
    Matrix,
    /// The first vector varies along columns and the second along rows: Cartesian coordinates, "xy". NumPy's default.
    Cartesian,
}

/// # Creation of grids
///
/// Spacings on a logarithmic scale, coordinates, elements from a function of their index.
impl Tensor {
    /// `count` numbers from `base^start` to `base^end`, both included, evenly spaced on a logarithmic scale, as
    /// `numpy.logspace`. As f32.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::logspace(0.0, 3.0, 4, 2.0).to_vec::<f32>()?, [1.0, 2.0, 4.0, 8.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the base is not above 0.
    #[track_caller]
    pub fn logspace(start: f64, end: f64, count: usize, base: f64) -> Tensor {
        Tensor::logspace_with(start, end, count, base, Options::default())
    }

    /// [`logspace`](Tensor::logspace) with a float dtype, a device or both; computed in f64.
    ///
    /// # Panics
    /// When the base is not above 0 or the dtype is not a float.
    #[track_caller]
    pub fn logspace_with(start: f64, end: f64, count: usize, base: f64, options: impl Into<Options>) -> Tensor {
        let options = float_options("logspace", options.into());
        assert!(base > 0.0, "logspace: the base {base} is not above 0");
        let exponents = Tensor::linspace_with(start, end, count, (DType::F64, options.device));
        exponents.full_like(base).pow(&exponents).cast(options.dtype())
    }

    /// `count` numbers in geometric progression from `start` to `end`, both included, as `numpy.geomspace`. As f32.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::geomspace(1.0, 100.0, 3).allclose(Tensor::new([1.0f32, 10.0, 100.0]), 1e-5, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When one of them is 0, or their signs differ.
    #[track_caller]
    pub fn geomspace(start: f64, end: f64, count: usize) -> Tensor {
        Tensor::geomspace_with(start, end, count, Options::default())
    }

    /// [`geomspace`](Tensor::geomspace) with a float dtype, a device or both; computed in f64, both ends exact.
    ///
    /// # Panics
    /// When one of them is 0, their signs differ, or the dtype is not a float.
    #[track_caller]
    pub fn geomspace_with(start: f64, end: f64, count: usize, options: impl Into<Options>) -> Tensor {
        let options = float_options("geomspace", options.into());
        assert!(start * end > 0.0, "geomspace: there is no factor from {start} to {end}");
        let i = Tensor::arange_with(count, (DType::F64, options.device));
        if count < 2 {
            return Tensor::full_with([count], start, options);
        }
        let exponents = Tensor::linspace_with(start.abs().ln(), end.abs().ln(), count, (DType::F64, options.device));
        let inner = exponents.exp() * start.signum();
        let ends = i.eq((count - 1) as f64).where_(end, inner);
        i.eq(0.0).where_(start, ends).cast(options.dtype())
    }

    /// The coordinates of a grid, one tensor for each vector, all of one shape, as `numpy.meshgrid` and
    /// `torch.meshgrid`. The results are views and cost no memory.
    ///
    /// ```
    /// # use thalweg::{Indexing, Tensor};
    /// let grid = Tensor::meshgrid(&[Tensor::arange(2), Tensor::arange(3)], Indexing::Matrix);
    /// assert_eq!(grid[0].to_vec::<f32>()?, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    /// assert_eq!(grid[1].to_vec::<f32>()?, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there are more than eight vectors, one is not a vector, or dtypes differ.
    #[track_caller]
    pub fn meshgrid<T: AsRef<Tensor>>(vectors: &[T], indexing: Indexing) -> Vec<Tensor> {
        let vectors: Vec<&Tensor> = vectors.iter().map(T::as_ref).collect();
        let n = vectors.len();
        assert!(n <= MAX_RANK, "meshgrid: {n} vectors are over the rank limit of {MAX_RANK}");
        // The dimension along which a vector varies.
        let along = |i: usize| match (indexing, i) {
            (Indexing::Cartesian, 0 | 1) if n > 1 => 1 - i,
            _ => i,
        };
        let mut shape = Shape::new(&[1; MAX_RANK][..n]);
        for (i, vector) in vectors.iter().enumerate() {
            check_alike("meshgrid", vectors[0], vector);
            if vector.rank() != 1 {
                panic!("meshgrid: takes vectors, not shape {}", vector.shape());
            }
            shape.dims_mut()[along(i)] = vector.numel();
        }
        vectors.iter().enumerate().map(|(i, v)| v.down(along(i), &shape)).collect()
    }

    /// A tensor of a function of the index, as `numpy.fromfunction` called for one index at a time. The function runs
    /// on the host, at once; a function that can be written with [`positions`](Tensor::positions) and arithmetic is
    /// better recorded, and runs on the device.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::from_fn([2, 3], |i| (10 * i[0] + i[1]) as i32);
    /// assert_eq!(x.to_vec::<i32>()?, [0, 1, 2, 10, 11, 12]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn from_fn<T: Element>(shape: impl Into<Shape>, mut f: impl FnMut(&[usize]) -> T) -> Tensor {
        let shape = shape.into();
        let mut index = [0; MAX_RANK];
        let mut list = Vec::with_capacity(shape.numel());
        for _ in 0..shape.numel() {
            list.push(f(&index[..shape.rank()]));
            for axis in (0..shape.rank()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        Tensor::from_slice(&list, shape)
    }
}

#[track_caller]
fn float_options(name: &str, options: Options) -> Options {
    if !options.dtype().is_float() {
        crate::record::wrong_dtype(name, "a float dtype", options.dtype());
    }
    options
}
