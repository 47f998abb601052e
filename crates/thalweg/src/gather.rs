//! Gathers: elements selected by an index tensor or by a mask.
//!
//! An index may have any integer dtype. Negative ones count from the end. An index out of range is an [`Error::Index`]
//! where a value that depends on it is read, since the contents of an index are known only then.

use crate::operand::Arg;
use crate::record::{check_device, push, wrong_dtype};
use crate::recorded::{Argument, recorded_op, rerecord};
use crate::tunable::TUNABLES;
use crate::{Axis, DType, Error, MAX_RANK, Options, Shape, Tensor};
use std::panic::Location;
use thalweg_ir::Op;
use thalweg_stream::{Counted, Site};

/// Records the public function and the caller's line for the next gather or scatter, for the error of an index out of
/// range.
#[inline]
#[track_caller]
pub(crate) fn recorded_by(name: &'static str, counted: Counted) {
    thalweg_stream::site(Site { name, at: Location::caller(), counted });
}

/// # Indexing by tensors
///
/// An index out of range is an error where a value is read. Negative indices of signed dtypes count from the end.
impl Tensor {
    /// Casts an index of this tensor to i64; negative indices stay negative.
    #[track_caller]
    pub(crate) fn as_index(&self, name: &str, index: &Tensor) -> Tensor {
        if !index.dtype().is_int() {
            wrong_dtype(name, "an index of an integer dtype", index.dtype());
        }
        check_device(name, self, index);
        if index.dtype() == DType::U64 {
            // A u64 beyond i64 is out of range as a large number, not as a negative one.
            return index.minimum(i64::MAX).cast(DType::I64);
        }
        index.cast(DType::I64)
    }

    /// Casts indices along an axis of size `size` to i64, and resolves negative ones.
    #[track_caller]
    pub(crate) fn places(&self, name: &str, index: &Tensor, size: usize) -> Tensor {
        let signed = index.dtype().is_signed();
        let index = self.as_index(name, index);
        if signed { index.lt(0).where_(&index + size, &index) } else { index }
    }

    /// Records a gather by an index that the calling method computed, and that is in range. The index has the shape of
    /// the result, which is this tensor's except for the axis.
    #[track_caller]
    pub(crate) fn gathered(&self, by: &'static str, axis: usize, index: &Tensor) -> Tensor {
        self.gathered_by((by, Counted::Computed), axis, index)
    }

    /// Records a gather for the function `by`, which says how it treated negative indices.
    #[track_caller]
    pub(crate) fn gathered_by(&self, by: (&'static str, Counted), axis: usize, index: &Tensor) -> Tensor {
        // With an empty axis the gather itself has to report the index out of range.
        if let Some(y) = self
            .gathered_before(by, (axis, index), (TUNABLES.max_gathered_functions.size() as u32, 1))
            .filter(|_| self.numel() > 0)
        {
            return y;
        }
        self.gathered_as_it_is(by, axis, index)
    }

    /// Moves the gather before an elementwise function: instead of a few elements of the function's result, it computes
    /// the function on a few elements of its arguments, since the source of a gather has to be in memory. The results
    /// are equal to the bit, in strict mode too.
    #[track_caller]
    fn gathered_before(
        &self,
        by: (&'static str, Counted),
        (axis, index): (usize, &Tensor),
        (functions, gathers): (u32, usize),
    ) -> Option<Tensor> {
        let fewer = |gathers: usize| {
            let least = TUNABLES.min_gather_ratio.get() * gathers * index.numel();
            TUNABLES.max_gathers.admits(gathers) && !TUNABLES.min_gather_ratio.side(self.numel() < least)
        };
        if functions == 0 || !fewer(gathers) {
            return None;
        }
        let mut made = recorded_op(self)?;
        if made.op == Op::Reshape {
            // A reshape of the function's result is taken as a reshape of its arguments, if they have as many elements.
            let function = made.operand().and_then(crate::recorded::recorded_op)?;
            let whole = made.operand()?.shape().numel();
            let same = |a: &Argument| !matches!(a, Argument::Tensor(t) if t.numel() != whole);
            if !matches!(function.op, Op::Element(_) | Op::Cast) || !function.args.iter().all(same) {
                return None;
            }
            made = function;
            for arg in &mut made.args {
                if let Argument::Tensor(t) = arg {
                    *arg = Argument::Tensor(t.reshaped(*self.shape()));
                }
            }
        }
        let gathers = gathers * made.args.iter().filter(|a| matches!(a, Argument::Tensor(_))).count();
        if !matches!(made.op, Op::Element(_) | Op::Cast) || !fewer(gathers) {
            return None;
        }
        // A loop, not closures, so that errors name the caller's line.
        let mut args = Vec::with_capacity(made.args.len());
        for arg in &made.args {
            args.push(match arg {
                Argument::Scalar(bits) => Argument::Scalar(*bits),
                Argument::Tensor(t) => Argument::Tensor(self.taken_of(t, by, (axis, index), (functions - 1, gathers))),
            });
        }
        match (made.op, &args[..]) {
            (Op::Element(op), _) => Some(rerecord(op, self, &args)),
            (_, [Argument::Tensor(t)]) => Some(t.cast(self.dtype())),
            _ => None,
        }
    }

    /// The elements of the argument `t` of this tensor's function that the gathered elements depend on.
    #[track_caller]
    fn taken_of(
        &self,
        t: &Tensor,
        by: (&'static str, Counted),
        (axis, index): (usize, &Tensor),
        left: (u32, usize),
    ) -> Tensor {
        let own = (axis + t.rank()).checked_sub(self.rank());
        if own.is_none_or(|own| t.dims()[own] == 1 && self.dims()[axis] != 1) {
            return t.clone();
        }
        let whole = t.broadcast_to(*self.shape());
        match whole.gathered_before(by, (axis, index), left) {
            Some(before) => before,
            None => whole.gathered_as_it_is(by, axis, index),
        }
    }

    #[track_caller]
    fn gathered_as_it_is(&self, by: (&'static str, Counted), axis: usize, index: &Tensor) -> Tensor {
        recorded_by(by.0, by.1);
        let args = [Arg::Tensor(self), Arg::Tensor(index)];
        push(Op::Gather, self.dtype(), *index.shape(), axis as u32, args, &[])
    }

    /// The elements at the given indices along an axis: `out[i][j] = x[index[i][j]][j]` for axis 0 of two, as
    /// `torch.gather` and `numpy.take_along_axis`. The other dimensions broadcast.
    ///
    /// One index for each element of the result. Whole slices are taken by [`index_select`](Tensor::index_select),
    /// elements of the flattened tensor by [`take`](Tensor::take), elements at tuples of indices by
    /// [`index`](Tensor::index). The inverse is [`scatter`](Tensor::scatter).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let index = Tensor::new([[2i64, 0], [-1, 1]]);
    /// assert_eq!(x.gather(1, &index).to_vec::<f32>()?, [3.0, 1.0, 6.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, the index has another rank or is not of an integer dtype, or the other dimensions do
    /// not broadcast.
    #[track_caller]
    pub fn gather(&self, axis: impl Into<Axis>, index: &Tensor) -> Tensor {
        self.checked_gather("gather", axis.into(), index)
    }

    /// Alias of [`gather`](Tensor::gather), as `numpy.take_along_axis`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[3i32, 1], [2, 9]]);
    /// assert_eq!(x.take_along_axis(1, &x.argsort(1, false)).to_vec::<i32>()?, [1, 3, 2, 9]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`gather`](Tensor::gather).
    #[track_caller]
    pub fn take_along_axis(&self, axis: impl Into<Axis>, index: &Tensor) -> Tensor {
        self.checked_gather("take_along_axis", axis.into(), index)
    }

    #[track_caller]
    fn checked_gather(&self, name: &'static str, axis: Axis, index: &Tensor) -> Tensor {
        let axis = axis.of(name, self.rank());
        // Only the message: a panic inside a closure would not name the caller's line.
        let refuse = || {
            format!(
                "{name}: an index of shape {} does not go along axis {axis} of shape {}",
                index.shape(),
                self.shape()
            )
        };
        if index.rank() != self.rank() {
            panic!("{}", refuse());
        }
        let mut own = *self.shape();
        own.dims_mut()[axis] = 1;
        let mut places = *index.shape();
        places.dims_mut()[axis] = 1;
        let Some(mut shape) = own.broadcast(&places) else { panic!("{}", refuse()) };
        let places = self.places(name, index, self.dims()[axis]);
        shape.dims_mut()[axis] = self.dims()[axis];
        let x = self.broadcast_to(shape);
        shape.dims_mut()[axis] = index.dims()[axis];
        x.gathered_by((name, Counted::FromEnd), axis, &places.broadcast_to(shape))
    }

    /// The slices at the given indices of an axis, as `numpy.take` with an axis and `torch.index_select`: the
    /// dimensions of the index replace that dimension.
    ///
    /// See also [`gather`](Tensor::gather) (an index for each element), [`take`](Tensor::take) (of the flattened
    /// tensor), [`select`](Tensor::select) (one index), [`embedding`](Tensor::embedding).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::arange(6).reshape([3, 2]);
    /// assert_eq!(x.index_select(0, &Tensor::new([2i32, 0])).to_vec::<f32>()?, [4.0, 5.0, 0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, the index is not of an integer dtype, or the rank would be over 8.
    #[track_caller]
    pub fn index_select(&self, axis: impl Into<Axis>, index: &Tensor) -> Tensor {
        self.selected("index_select", axis.into(), index)
    }

    #[track_caller]
    fn selected(&self, name: &'static str, axis: Axis, index: &Tensor) -> Tensor {
        let axis = axis.of(name, self.rank());
        assert!(
            self.rank() - 1 + index.rank() <= MAX_RANK,
            "{name}: shape {} at places of shape {} goes over the rank limit of {MAX_RANK}",
            self.shape(),
            index.shape()
        );
        let places = self.places(name, index, self.dims()[axis]).flatten();
        let mut shape = *self.shape();
        shape.dims_mut()[axis] = index.numel();
        let mut out = shape.remove(axis);
        for (i, &d) in index.dims().iter().enumerate() {
            out = out.insert(axis + i, d);
        }
        self.gathered_by((name, Counted::FromEnd), axis, &places.down(axis, &shape)).reshaped(out)
    }

    /// A vector as indices along an axis of a shape, the same in all other dimensions.
    #[track_caller]
    pub(crate) fn down(&self, axis: usize, shape: &Shape) -> Tensor {
        let mut column = Shape::new(&[1; MAX_RANK][..shape.rank()]);
        column.dims_mut()[axis] = self.numel();
        self.reshaped(column).broadcast_to(*shape)
    }

    /// The elements at the given indices of the flattened tensor, in the shape of the index, as `numpy.take`.
    ///
    /// See also [`index_select`](Tensor::index_select) (`numpy.take` with an axis) and [`gather`](Tensor::gather).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]]);
    /// assert_eq!(x.take(&Tensor::new([3i64, 0])).to_vec::<i32>()?, [4, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the index is not of an integer dtype.
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Tensor {
        self.flatten().selected("take", 0.into(), index)
    }

    /// The rows of this table (vocabulary × width) at the given indices, as `torch.nn.functional.embedding`: the shape
    /// of the index, with the width as a last dimension. Negative indices are out of range.
    ///
    /// See also [`index_select`](Tensor::index_select), which takes any axis and negative indices.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let table = Tensor::new([[0.0f32, 0.0], [1.0, 2.0]]);
    /// assert_eq!(table.embedding(&Tensor::new([[1i64, 0, 1]])).dims(), [1, 3, 2]);
    /// ```
    ///
    /// # Panics
    /// When this is not of rank 2, or the index is not of an integer dtype.
    #[track_caller]
    pub fn embedding(&self, index: &Tensor) -> Tensor {
        if self.rank() != 2 {
            panic!("embedding: takes a table of rank 2, not shape {}", self.shape());
        }
        let shape = index.shape().insert(index.rank(), self.dims()[1]);
        let places = self.as_index("embedding", index).flatten();
        let rows = Shape::new(&[index.numel(), self.dims()[1]]);
        self.gathered_by(("embedding", Counted::Plain), 0, &places.down(0, &rows)).reshaped(shape)
    }

    /// The elements at pairs (or tuples) of indices, one index tensor for each leading dimension, as `x[i, j]` in
    /// NumPy. The index tensors broadcast; the remaining dimensions are the last ones of the result.
    ///
    /// See also [`gather`](Tensor::gather) and [`index_select`](Tensor::index_select). Writing by such indices is
    /// [`index_put`](Tensor::index_put).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::arange(6).reshape([2, 3]);
    /// let (i, j) = (Tensor::new([0i64, 1]), Tensor::new([2i64, -1]));
    /// assert_eq!(x.index(&[&i, &j]).to_vec::<f32>()?, [2.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there are no indices or more than dimensions, they do not broadcast, or one is not of an integer dtype.
    #[track_caller]
    pub fn index<T: AsRef<Tensor>>(&self, indices: &[T]) -> Tensor {
        let (rows, places) = self.flat_places("index", indices);
        let mut shape = *places.shape();
        for &d in &self.dims()[indices.len()..] {
            assert!(shape.rank() < MAX_RANK, "index: the result is over the rank limit of {MAX_RANK}");
            shape = shape.insert(shape.rank(), d);
        }
        let mut all = *rows.shape();
        all.dims_mut()[0] = places.numel();
        rows.gathered_by(("index", Counted::Combined), 0, &places.flatten().down(0, &all)).reshaped(shape)
    }

    /// The tensor with its indexed leading dimensions merged, and the indices into the merged dimension; -1 where an
    /// index is out of range.
    #[track_caller]
    pub(crate) fn flat_places<T: AsRef<Tensor>>(&self, name: &str, indices: &[T]) -> (Tensor, Tensor) {
        let count = indices.len();
        if count == 0 || count > self.rank() {
            panic!("{name}: {count} indices for shape {}", self.shape());
        }
        let mut places: Option<(Tensor, Tensor)> = None;
        for (axis, index) in indices.iter().enumerate() {
            let size = self.dims()[axis];
            let index = self.places(name, index.as_ref(), size);
            let inside = index.ge(0) & index.lt(size);
            places = Some(match places {
                None => (index, inside),
                Some((all, valid)) => {
                    if all.shape().broadcast(index.shape()).is_none() {
                        crate::record::shapes_differ(name, all.shape(), index.shape());
                    }
                    (all * size + index, valid & inside)
                }
            });
        }
        let (all, valid) = places.expect("there is one");
        let mut dims = vec![self.dims()[..count].iter().product::<usize>()];
        dims.extend(&self.dims()[count..]);
        (self.reshaped(Shape::new(&dims)), valid.where_(all, -1))
    }

    /// 1 at the index of the class, else 0, in a new last dimension of size `classes`, as i64, as
    /// `torch.nn.functional.one_hot`. An index out of range gives zeros.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2i64, 0]).one_hot(3).to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When this is not of an integer dtype, or the rank is 8 already.
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Tensor {
        if !self.dtype().is_int() {
            wrong_dtype("one_hot", "an integer dtype", self.dtype());
        }
        assert!(self.rank() < MAX_RANK, "one_hot: shape {} is at the rank limit of {MAX_RANK}", self.shape());
        let class = Tensor::arange_with(classes, (DType::I64, self.device()));
        self.cast(DType::I64).unsqueeze(-1).eq(class).cast(DType::I64)
    }
}

/// # Indexing by masks
///
/// Selections whose size depends on the data: these methods wait for the count.
impl Tensor {
    /// Mask of the elements that are not 0.
    pub(crate) fn holds(&self) -> Tensor {
        if self.dtype() == DType::Bool { self.clone() } else { self.ne(0) }
    }

    /// The indices of elements that are not 0, in the flattened tensor, ascending, as a vector of i64, as
    /// `numpy.flatnonzero`. Waits for their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[0i32, 5], [6, 0]]).flat_nonzero()?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn flat_nonzero(&self) -> Result<Tensor, Error> {
        let holds = self.holds().flatten();
        Tensor::arange_with(holds.numel(), (DType::I64, self.device())).compacted(&holds)
    }

    /// The elements of a vector where the mask `holds` is true.
    pub(crate) fn compacted(&self, holds: &Tensor) -> Result<Tensor, Error> {
        if holds.numel() == 0 {
            return Ok(self.clone());
        }
        let before = holds.cumsum(0);
        let count = before.slice(-1).item::<i64>()? as usize;
        // Elements that are not selected go to one extra element at the end, which is then cut off.
        let places = holds.where_(before - 1, count as i64);
        let all = Tensor::zeros_with([count + 1], Options::of(self));
        Ok(all.scattered(thalweg_ir::ScatterOp::Set, 0, &places, self).narrow(0, 0, count))
    }

    /// The indices of elements that are not 0, as one i64 vector per dimension, as `numpy.nonzero`. Waits for their
    /// number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let at = Tensor::new([[0i32, 5], [6, 0]]).nonzero()?;
    /// assert_eq!((at[0].to_vec::<i64>()?, at[1].to_vec::<i64>()?), (vec![0, 1], vec![1, 0]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn nonzero(&self) -> Result<Vec<Tensor>, Error> {
        let mut rest = self.flat_nonzero()?;
        let mut out = Vec::with_capacity(self.rank());
        for &d in self.dims().iter().rev() {
            let d = d.max(1);
            out.push(&rest % d);
            rest /= d;
        }
        out.reverse();
        Ok(out)
    }

    /// The indices of elements that are not 0, as rows of an i64 matrix of shape number × rank, as `numpy.argwhere`.
    /// Waits for their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[0i32, 5], [6, 0]]).argwhere()?.to_vec::<i64>()?, [0, 1, 1, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn argwhere(&self) -> Result<Tensor, Error> {
        let columns = self.nonzero()?;
        if columns.is_empty() {
            let count = self.flat_nonzero()?.numel();
            return Ok(Tensor::zeros_with([count, 0], (DType::I64, self.device())));
        }
        Ok(Tensor::stack(&columns, 1))
    }

    /// The elements where a mask is true, as a vector, in row-major order, as `torch.masked_select`; tensor and mask
    /// broadcast. Waits for their number.
    ///
    /// To keep the shape, use [`masked_fill`](Tensor::masked_fill) or [`where_`](Tensor::where_): they wait for
    /// nothing.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([3.0f32, -1.0, 2.0]);
    /// assert_eq!(x.masked_select(&x.gt(0))?.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// When the mask is not bool or the shapes do not broadcast.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor, Error> {
        if mask.dtype() != DType::Bool {
            wrong_dtype("masked_select", "a mask of bool", mask.dtype());
        }
        let Some(shape) = self.shape().broadcast(mask.shape()) else {
            crate::record::shapes_differ("masked_select", self.shape(), mask.shape())
        };
        self.broadcast_to(shape).flatten().compacted(&mask.broadcast_to(shape).flatten())
    }
}
