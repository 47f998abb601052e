//! Values put in at places that a tensor tells. Indices are as in [`gather`](Tensor::gather).
//!
//! Where several values meet one element they do so in the order of the index, on any number of threads: sums of floats
//! are the same each time. Sums of bf16 and f16 are carried in f32 and rounded once; each other result is rounded to the
//! tensor's dtype.

use crate::gather::recorded_by;
use crate::operand::Arg;
use crate::record::{check_alike, push, widened, wrong_dtype};
use crate::{Axis, DType, Error, IntoOperand, Operand, Scalar, Tensor};
use thalweg_ir::Op;
pub use thalweg_ir::ScatterOp;
use thalweg_stream::Counted;

impl Tensor {
    /// Records a scatter: index and values have one shape, this tensor's but for the axis.
    #[track_caller]
    pub(crate) fn scattered(&self, op: ScatterOp, axis: usize, index: &Tensor, values: &Tensor) -> Tensor {
        self.scattered_by((op.name(), Counted::Plain), op, axis, (index, values))
    }

    /// Records a scatter of that function, which has counted its index so.
    #[track_caller]
    fn scattered_by(
        &self,
        by: (&'static str, Counted),
        op: ScatterOp,
        axis: usize,
        (index, values): (&Tensor, &Tensor),
    ) -> Tensor {
        if op == ScatterOp::Add && matches!(self.dtype(), DType::BF16 | DType::F16) {
            // Rounded at each addition a sum of ones would end at 256.
            return widened(self).scattered_by(by, op, axis, (index, &widened(values))).cast(self.dtype());
        }
        recorded_by(by.0, by.1);
        let args = [Arg::Tensor(self), Arg::Tensor(index), Arg::Tensor(values)];
        push(Op::Scatter(op), self.dtype(), *self.shape(), axis as u32, args, &[])
    }

    /// A tensor of values, or a number in this tensor's dtype.
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

    /// Values put in at given places along an axis: `out[index[i][j]][j] = values[i][j]` for axis 0 of two, as
    /// `torch.scatter` and `numpy.put_along_axis`; where several meet one element, the last one stays. Index and values
    /// broadcast to this tensor's shape but for the axis.
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

    /// As [`scatter`](Tensor::scatter), but values are added to the elements.
    ///
    /// # Panics
    /// As [`scatter`](Tensor::scatter).
    #[track_caller]
    pub fn scatter_add(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.scatter_reduce(axis, index, values, ScatterOp::Add)
    }

    /// As [`scatter`](Tensor::scatter), with any way to put element and value together.
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
        // The message alone: a closure that panics would not have the caller's line.
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

    /// With the positions of an axis that a vector names put together with those of `values`, in order.
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

    /// Values added to the positions of an axis that a vector names: position `i` of `values` to position `index[i]`.
    ///
    /// # Panics
    /// When there is no such axis, the index is not a vector of an integer dtype, or the values' shape or dtype does
    /// not fit.
    #[track_caller]
    pub fn index_add(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.put_positions("index_add", axis.into(), index, values.operand(), ScatterOp::Add)
    }

    /// Values in place of the positions of an axis that a vector names; the last one for a position stays.
    ///
    /// # Panics
    /// As [`index_add`](Tensor::index_add).
    #[track_caller]
    pub fn index_copy(&self, axis: impl Into<Axis>, index: &Tensor, values: impl IntoOperand) -> Tensor {
        self.put_positions("index_copy", axis.into(), index, values.operand(), ScatterOp::Set)
    }

    /// Values put in at the places that several indices name together, one for each of the first dimensions, as `x[i,
    /// j] = values` in NumPy; with `accumulate` they are added, as `numpy.add.at`. Values broadcast to the shape of
    /// [`index`](Tensor::index)'s result.
    ///
    /// # Panics
    /// When indices do not broadcast or are not of an integer dtype, or the values' shape or dtype does not fit.
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

    /// As [`scatter_add`](Tensor::scatter_add), but each element becomes the mean of itself and the values that it meets,
    /// as `torch.scatter_reduce(.., "mean")`. Takes floats.
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

    /// The positions of an axis that a vector names filled with a number, as `torch.index_fill`.
    ///
    /// # Panics
    /// When there is no such axis, the index is not a vector of an integer dtype, or the number does not fit the dtype.
    #[track_caller]
    pub fn index_fill(&self, axis: impl Into<Axis>, index: &Tensor, value: impl Into<Scalar>) -> Tensor {
        self.put_positions("index_fill", axis.into(), index, Operand::Scalar(value.into()), ScatterOp::Set)
    }

    /// The elements where a mask holds replaced by those of `values`, one after the other in row-major order, as
    /// `torch.masked_scatter`. The mask broadcasts to this tensor's shape. Where there are fewer values than places, to
    /// read the result is an [`Error::Index`].
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
        // What is not replaced asks for the first value, if there is one, and does not use it.
        let place = mask.where_(mask.cumsum(0) - 1, 0);
        let from =
            if values.numel() == 0 { Tensor::zeros_with([1], crate::Options::of(self)) } else { values.flatten() };
        let beyond = if values.numel() == 0 { mask.where_(place.ones_like(), 0) } else { place };
        mask.where_(from.gathered_by(("masked_scatter", Counted::Plain), 0, &beyond), self.flatten())
            .reshaped(*self.shape())
    }

    /// How often each number occurs in a vector of numbers from 0 on, as i64: at least `least` counts, and as many as
    /// the largest number asks for. Reads that.
    ///
    /// # Errors
    /// When a number is negative, or asks for more sums than can be addressed, or the largest cannot be computed.
    ///
    /// # Panics
    /// When this is not a vector of an integer dtype.
    #[track_caller]
    pub fn bincount(&self, least: usize) -> Result<Tensor, Error> {
        self.counts_of("bincount", crate::histogram::ones(self.numel(), self.device()).reshaped(*self.shape()), least)
    }
}
