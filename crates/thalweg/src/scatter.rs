//! Scatters: values written or accumulated at the indices of a tensor. Indices are as in [`gather`](Tensor::gather).
//!
//! Values with the same index are combined in the order of the index, on any number of threads: sums of floats are the
//! same each time. Sums of bf16 and f16 are accumulated in f32 and rounded once; every other result is rounded to the
//! tensor's dtype.

use crate::gather::recorded_by;
use crate::operand::Arg;
use crate::record::{check_alike, push, widened, wrong_dtype};
use crate::{Axis, DType, Error, IntoOperand, Operand, Scalar, Tensor};
use thalweg_ir::Op;
pub use thalweg_ir::ScatterOp;
use thalweg_stream::Counted;

/// # Writing by index
///
/// The counterparts of [indexing by tensors](Tensor::gather). Sums of floats have the same bits on any number of
/// threads.
impl Tensor {
    /// Records a scatter; index and values have one shape, which is this tensor's except for the axis.
    #[track_caller]
    pub(crate) fn scattered(&self, op: ScatterOp, axis: usize, index: &Tensor, values: &Tensor) -> Tensor {
        self.scattered_by((op.name(), Counted::Plain), op, axis, (index, values))
    }

    /// Records a scatter for the function `by`, which says how it treated negative indices.
    #[track_caller]
    fn scattered_by(
        &self,
        by: (&'static str, Counted),
        op: ScatterOp,
        axis: usize,
        (index, values): (&Tensor, &Tensor),
    ) -> Tensor {
        if op == ScatterOp::Add && matches!(self.dtype(), DType::BF16 | DType::F16) {
            // Rounded at each addition, a sum of ones in bf16 would stop at 256.
            return widened(self).scattered_by(by, op, axis, (index, &widened(values))).cast(self.dtype());
        }
        recorded_by(by.0, by.1);
        let args = [Arg::Tensor(self), Arg::Tensor(index), Arg::Tensor(values)];
        push(Op::Scatter(op), self.dtype(), *self.shape(), axis as u32, args, &[])
    }

    /// The values as a tensor; a number becomes one of this tensor's dtype.
    #[track_caller]
    fn values(&self, name: &str, values: Operand<'_>) -> Tensor {
        match values {
            Operand::Tensor(v) => {
                check_alike(name, self, v);
                v.clone()
            }
            Operand::Scalar(v) => {
                crate::record::scalar_bits(name, v, self.dtype());
                Tensor::full_with((), v, (self.dtype(), self.device()))
            }
        }
    }

    /// This tensor with values written at the given indices along an axis: `out[index[i][j]][j] = values[i][j]` for
    /// axis 0 of two, as `torch.scatter` and `numpy.put_along_axis`. Of several values for one element the last one
    /// remains. Index and values broadcast to this tensor's shape except for the axis.
    ///
    /// See also [`scatter_add`](Tensor::scatter_add), [`index_copy`](Tensor::index_copy) (whole slices),
    /// [`index_put`](Tensor::index_put) (tuples of indices), [`set`](Tensor::set) (ranges).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([4]).scatter(0, &Tensor::new([3i64, -4]), Tensor::new([7.0f32, 8.0]));
    /// assert_eq!(x.to_vec::<f32>()?, [8.0, 0.0, 0.0, 7.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, shapes do not broadcast, dtypes differ, or the index is not of an integer dtype.
    #[track_caller]
    pub fn scatter(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.scatter_reduce(axis, index, values, ScatterOp::Set)
    }

    /// [`scatter`](Tensor::scatter) that adds the values to the elements, as `torch.scatter_add`.
    ///
    /// Whole slices are added by [`index_add`](Tensor::index_add).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let sums = Tensor::zeros([2]).scatter_add(0, &Tensor::new([0i64, 1, 0]), Tensor::new([1.0f32, 2.0, 3.0]));
    /// assert_eq!(sums.to_vec::<f32>()?, [4.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`scatter`](Tensor::scatter).
    #[track_caller]
    pub fn scatter_add(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.scatter_reduce(axis, index, values, ScatterOp::Add)
    }

    /// [`scatter`](Tensor::scatter) with a choice of the operation that combines element and value, as
    /// `torch.scatter_reduce`.
    ///
    /// ```
    /// # use thalweg::{ScatterOp, Tensor};
    /// let index = Tensor::new([0i64, 1, 0]);
    /// let largest = Tensor::zeros([2]).scatter_reduce(0, &index, Tensor::new([1.0f32, 2.0, 3.0]), ScatterOp::Max);
    /// assert_eq!(largest.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`scatter`](Tensor::scatter).
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        axis: impl Into<Axis>,
        index: &Tensor,
        values: impl IntoOperand,
        op: ScatterOp,
    ) -> Tensor {
        let name = op.name();
        let axis = axis.into().of(name, self.rank());
        let values = self.values(name, values.operand());
        // Only the message: a panic inside a closure would not name the caller's line.
        let refuse = || {
            format!(
                "{name}: index {} and values {} do not go along axis {axis} of shape {}",
                index.shape(),
                values.shape(),
                self.shape()
            )
        };
        if index.rank() != self.rank() {
            panic!("{}", refuse());
        }
        let mut shape = *self.shape();
        shape.dims_mut()[axis] = index.dims()[axis];
        if values.rank() == self.rank() && index.dims()[axis] == 1 {
            shape.dims_mut()[axis] = values.dims()[axis];
        }
        if index.shape().broadcast(&shape) != Some(shape) || values.shape().broadcast(&shape) != Some(shape) {
            panic!("{}", refuse());
        }
        let places = self.places(name, index, self.dims()[axis]);
        let (places, values) = (places.broadcast_to(shape), values.broadcast_to(shape));
        self.scattered_by((name, Counted::FromEnd), op, axis, (&places, &values))
    }

    /// Combines the slices of an axis that an index vector selects with those of `values`, in order.
    #[track_caller]
    fn put_positions(
        &self,
        name: &'static str,
        axis: Axis,
        index: &Tensor,
        values: Operand<'_>,
        op: ScatterOp,
    ) -> Tensor {
        let axis = axis.of(name, self.rank());
        if index.rank() != 1 {
            panic!("{name}: takes an index of rank 1, not shape {}", index.shape());
        }
        let values = self.values(name, values);
        let mut shape = *self.shape();
        shape.dims_mut()[axis] = index.numel();
        if values.shape().broadcast(&shape) != Some(shape) {
            panic!("{name}: values of shape {} are not of shape {shape}", values.shape());
        }
        let places = self.places(name, index, self.dims()[axis]).down(axis, &shape);
        self.scattered_by((name, Counted::FromEnd), op, axis, (&places, &values.broadcast_to(shape)))
    }

    /// This tensor with slice `i` of `values` added to slice `index[i]` along an axis, as `torch.index_add`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([3, 2]).index_add(0, &Tensor::new([2i64, 2]), Tensor::ones([2, 2]));
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0, 0.0, 0.0, 2.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, the index is not an integer vector, or the shape or dtype of the values does not
    /// match.
    #[track_caller]
    pub fn index_add(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.put_positions("index_add", axis.into(), index, values.operand(), ScatterOp::Add)
    }

    /// This tensor with slice `index[i]` along an axis replaced by slice `i` of `values`, as `torch.index_copy`; of
    /// several for one index the last remains.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([3]).index_copy(0, &Tensor::new([2i64, 0]), Tensor::new([5.0f32, 6.0]));
    /// assert_eq!(x.to_vec::<f32>()?, [6.0, 0.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`index_add`](Tensor::index_add).
    #[track_caller]
    pub fn index_copy(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.put_positions("index_copy", axis.into(), index, values.operand(), ScatterOp::Set)
    }

    /// This tensor with values written at tuples of indices, one index tensor for each leading dimension, as
    /// `x[i, j] = values` in NumPy; with `accumulate` they are added, as `numpy.add.at`. Values broadcast to the shape
    /// of the result of [`index`](Tensor::index).
    ///
    /// Ranges are written by [`set`](Tensor::set).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (i, j) = (Tensor::new([0i64, 1]), Tensor::new([1i64, 0]));
    /// assert_eq!(Tensor::zeros([2, 2]).index_put(&[i, j], 7.0, false).to_vec::<f32>()?, [0.0, 7.0, 7.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When indices do not broadcast or are not of an integer dtype, or the shape or dtype of the values does not
    /// match.
    #[track_caller]
    pub fn index_put<T: AsRef<Tensor>>(&self, indices: &[T], values: impl IntoOperand, accumulate: bool) -> Tensor {
        let name = "index_put";
        let (rows, places) = self.flat_places(name, indices);
        let values = self.values(name, values.operand());
        let mut shape = *places.shape();
        for &d in &self.dims()[indices.len()..] {
            assert!(
                shape.rank() < crate::MAX_RANK,
                "{name}: the values are over the rank limit of {}",
                crate::MAX_RANK
            );
            shape = shape.insert(shape.rank(), d);
        }
        if values.shape().broadcast(&shape) != Some(shape) {
            panic!("{name}: values of shape {} are not of shape {shape}", values.shape());
        }
        let mut all = *rows.shape();
        all.dims_mut()[0] = places.numel();
        let op = if accumulate { ScatterOp::Add } else { ScatterOp::Set };
        let values = values.broadcast_to(shape).reshaped(all);
        let places = places.flatten().down(0, &all);
        rows.scattered_by((name, Counted::Combined), op, 0, (&places, &values)).reshaped(*self.shape())
    }

    /// [`scatter_add`](Tensor::scatter_add) with each element replaced by the mean of itself and its values, as
    /// `torch.scatter_reduce(.., "mean")`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([1]).scatter_mean(0, &Tensor::new([0i64, 0]), Tensor::new([2.0f32, 4.0]));
    /// assert_eq!(x.item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`scatter`](Tensor::scatter), and on a dtype that is not a float.
    #[track_caller]
    pub fn scatter_mean(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        crate::record::check_float("scatter_mean", self);
        let axis = axis.into();
        let wide = widened(self);
        let values = self.values("scatter_mean", values.operand());
        let sums = wide.scatter_add(axis, index, widened(&values));
        let each = values.ones_like().cast(wide.dtype());
        (sums / wide.ones_like().scatter_add(axis, index, each)).cast(self.dtype())
    }

    /// This tensor with the slices of an axis that an index vector selects filled with a number, as `torch.index_fill`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([3]).index_fill(0, &Tensor::new([1i64]), 4).to_vec::<f32>()?, [0.0, 4.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, the index is not an integer vector, or the number does not fit the dtype.
    #[track_caller]
    pub fn index_fill(&self, axis: impl Into<Axis>, index: &Tensor, value: impl Into<Scalar>) -> Tensor {
        self.put_positions("index_fill", axis.into(), index, Operand::Scalar(value.into()), ScatterOp::Set)
    }

    /// The elements where a mask is true replaced by successive elements of `values`, in row-major order, as
    /// `torch.masked_scatter`. The mask broadcasts to this tensor's shape. With too few values, reading the result is
    /// an [`Error::Index`].
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([0.0f32, 1.0, 2.0, 3.0]);
    /// let y = x.masked_scatter(&x.gt(1.0), &Tensor::new([7.0f32, 8.0]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 7.0, 8.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the mask is not bool or does not broadcast to this shape, or dtypes differ.
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, values: &Tensor) -> Tensor {
        if mask.dtype() != DType::Bool {
            wrong_dtype("masked_scatter", "a mask of bool", mask.dtype());
        }
        check_alike("masked_scatter", self, values);
        if mask.shape().broadcast(self.shape()) != Some(*self.shape()) {
            panic!("masked_scatter: a mask of shape {} does not broadcast to shape {}", mask.shape(), self.shape());
        }
        if self.numel() == 0 {
            return self.clone();
        }
        let mask = mask.broadcast_to(*self.shape()).flatten();
        // Elements that are not replaced gather the first value, if there is one, and discard it.
        let place = mask.where_(mask.cumsum(0) - 1, 0);
        let from =
            if values.numel() == 0 { Tensor::zeros_with([1], crate::Options::of(self)) } else { values.flatten() };
        let beyond = if values.numel() == 0 { mask.where_(place.ones_like(), 0) } else { place };
        mask.where_(from.gathered_by(("masked_scatter", Counted::Plain), 0, &beyond), self.flatten())
            .reshaped(*self.shape())
    }

    /// The count of each value in a vector of non-negative integers, as i64, as `numpy.bincount`. The result has at
    /// least `least` elements, and more if the largest value requires it. Waits for the largest value.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0i64, 2, 2]).bincount(0)?.to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a value is negative or too large for the result to be addressed, or the largest cannot be computed.
    ///
    /// # Panics
    /// When this is not a vector of an integer dtype.
    #[track_caller]
    pub fn bincount(&self, least: usize) -> Result<Tensor, Error> {
        self.counts_of("bincount", crate::histogram::ones(self.numel(), self.device()).reshaped(*self.shape()), least)
    }
}
