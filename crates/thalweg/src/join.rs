//! Concatenation, splitting, repetition and rolling.

use crate::operand::Arg;
use crate::record::{check_alike, push};
use crate::{Axis, Error, MAX_RANK, Shape, Tensor};
use thalweg_ir::Op;

/// Concatenation of two tensors whose shapes and dtypes were checked.
#[track_caller]
pub(crate) fn join(a: &Tensor, b: &Tensor, axis: usize) -> Tensor {
    let mut shape = *a.shape();
    shape.dims_mut()[axis] += b.dims()[axis];
    push(Op::Cat, a.dtype(), shape, axis as u32, [Arg::Tensor(a), Arg::Tensor(b)], &[])
}

/// Concatenation as a balanced tree, so that an element passes through logarithmically many selects.
#[track_caller]
pub(crate) fn join_all(list: &[&Tensor], axis: usize) -> Tensor {
    match list {
        [one] => (*one).clone(),
        _ => {
            let (left, right) = list.split_at(list.len() / 2);
            join(&join_all(left, axis), &join_all(right, axis), axis)
        }
    }
}

/// # Joining, splitting, repeating
impl Tensor {
    /// The tensors concatenated along an axis; all other sizes agree.
    ///
    /// Along a new axis there is [`stack`](Tensor::stack). The inverse is [`split_sizes`](Tensor::split_sizes).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::zeros([2, 3]), Tensor::ones([1, 3]));
    /// assert_eq!(Tensor::cat(&[&a, &b, &a], 0).dims(), [5, 3]);
    /// ```
    ///
    /// # Panics
    /// When there are none, or shapes (apart from that axis) or dtypes differ.
    #[track_caller]
    #[doc(alias = "concatenate")]
    pub fn cat<T: AsRef<Tensor>>(tensors: &[T], axis: impl Into<Axis>) -> Tensor {
        let list: Vec<&Tensor> = tensors.iter().map(T::as_ref).collect();
        let Some(first) = list.first() else { panic!("cat: there are no tensors") };
        let axis = axis.into().of("cat", first.rank());
        for other in &list[1..] {
            check_alike("cat", first, other);
            let mut expected = *first.shape();
            if other.rank() == first.rank() {
                expected.dims_mut()[axis] = other.dims()[axis];
            }
            if expected != *other.shape() {
                panic!("cat: shapes {} and {} differ beside axis {axis}", first.shape(), other.shape());
            }
        }
        join_all(&list, axis)
    }

    /// Tensors of one shape stacked along a new dimension before dimension `axis`.
    ///
    /// Along an axis that exists there is [`cat`](Tensor::cat). The inverse is [`unbind`](Tensor::unbind).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([1i32, 2]), Tensor::new([3i32, 4]));
    /// assert_eq!(Tensor::stack(&[&a, &b], 1).to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there are none, or shapes or dtypes differ.
    #[track_caller]
    pub fn stack<T: AsRef<Tensor>>(tensors: &[T], axis: impl Into<Axis>) -> Tensor {
        let Some(first) = tensors.first().map(T::as_ref) else { panic!("stack: there are no tensors") };
        let axis = axis.into().of("stack", first.rank() + 1);
        for other in tensors {
            check_alike("stack", first, other.as_ref());
            if first.shape() != other.as_ref().shape() {
                panic!("stack: shapes {} and {} differ", first.shape(), other.as_ref().shape());
            }
        }
        assert!(first.rank() < MAX_RANK, "stack: shape {} is at the rank limit of {MAX_RANK}", first.shape());
        let list: Vec<Tensor> = tensors.iter().map(|t| t.as_ref().unsqueeze(axis)).collect();
        join_all(&list.iter().collect::<Vec<_>>(), axis)
    }

    /// Chunks of `size` along an axis, as `torch.split`; the last one may be smaller.
    ///
    /// See also [`chunk`](Tensor::chunk) (by the number of parts), [`split_sizes`](Tensor::split_sizes),
    /// [`unbind`](Tensor::unbind).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let sizes: Vec<usize> = Tensor::zeros([7]).split(3, 0).iter().map(|x| x.numel()).collect();
    /// assert_eq!(sizes, [3, 3, 1]);
    /// ```
    ///
    /// # Panics
    /// When `size` is 0 or there is no such axis.
    #[track_caller]
    pub fn split(&self, size: usize, axis: impl Into<Axis>) -> Vec<Tensor> {
        let axis = axis.into().of("split", self.rank());
        assert!(size > 0, "split: parts of size 0");
        let length = self.dims()[axis];
        let starts = (0..length).step_by(size);
        starts.map(|s| self.part(axis, (s as i64, 1, size.min(length - s)))).collect()
    }

    /// Chunks of the given sizes along an axis, as `torch.split` with a list.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let parts = Tensor::arange(5).split_sizes(&[2, 3], 0);
    /// assert_eq!(parts[1].to_vec::<f32>()?, [2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the sizes do not add up to the size of the axis.
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], axis: impl Into<Axis>) -> Vec<Tensor> {
        let axis = axis.into().of("split_sizes", self.rank());
        let total = sizes.iter().try_fold(0usize, |n, &s| n.checked_add(s));
        if total != Some(self.dims()[axis]) {
            panic!("split_sizes: {sizes:?} does not add up to axis {axis} of {}", self.shape());
        }
        let mut start = 0;
        let part = |&size: &usize| {
            start += size;
            self.part(axis, ((start - size) as i64, 1, size))
        };
        sizes.iter().map(part).collect()
    }

    /// At most `count` chunks of equal size along an axis, as `torch.chunk`; the last one may be smaller.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let sizes: Vec<usize> = Tensor::zeros([7]).chunk(2, 0).iter().map(|x| x.numel()).collect();
    /// assert_eq!(sizes, [4, 3]);
    /// ```
    ///
    /// # Panics
    /// When `count` is 0 or there is no such axis.
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: impl Into<Axis>) -> Vec<Tensor> {
        let axis = axis.into().of("chunk", self.rank());
        assert!(count > 0, "chunk: 0 parts");
        self.split(self.dims()[axis].div_ceil(count).max(1), axis)
    }

    /// The slice at each index of an axis, without that dimension, as `torch.unbind`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let rows = Tensor::new([[1i32, 2], [3, 4]]).unbind(0);
    /// assert_eq!(rows[1].to_vec::<i32>()?, [3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn unbind(&self, axis: impl Into<Axis>) -> Vec<Tensor> {
        let axis = axis.into().of("unbind", self.rank());
        (0..self.dims()[axis]).map(|i| self.index_axis(axis, i as i64)).collect()
    }

    /// Every element `count` times in a row along an axis, as `numpy.repeat`; [`tile`](Tensor::tile) repeats the whole
    /// tensor.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).repeat(2, 0).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn repeat(&self, count: usize, axis: impl Into<Axis>) -> Tensor {
        let axis = axis.into().of("repeat", self.rank());
        let (outer, size, inner) = self.around(axis);
        let mut shape = *self.shape();
        shape.dims_mut()[axis] = size * count;
        self.reshape([outer, size, 1, inner]).expand([outer, size, count, inner]).reshape(shape)
    }

    /// Index `i` of an axis repeated `counts[i]` times, as `numpy.repeat` and `torch.repeat_interleave` with a tensor
    /// of counts. Waits for the sum of the counts, which is a size of the result.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([5.0f32, 6.0, 7.0]);
    /// assert_eq!(x.repeat_interleave(&Tensor::new([2i64, 0, 1]), 0)?.to_vec::<f32>()?, [5.0, 5.0, 7.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a count is negative, or the counts cannot be computed.
    ///
    /// # Panics
    /// When there is no such axis, or `counts` is not an integer vector with one element per index of the axis.
    #[track_caller]
    pub fn repeat_interleave(&self, counts: &Tensor, axis: impl Into<Axis>) -> Result<Tensor, Error> {
        let axis = axis.into().of("repeat_interleave", self.rank());
        let counts = self.as_index("repeat_interleave", counts);
        if counts.rank() != 1 || counts.numel() != self.dims()[axis] {
            panic!("repeat_interleave: counts of shape {} for axis {axis} of {}", counts.shape(), self.shape());
        }
        if counts.numel() == 0 {
            return Ok(self.clone());
        }
        let ends = counts.cumsum(0);
        let both = Tensor::stack(&[ends.slice(-1), counts.amin(0)], 0).to_vec::<i64>()?;
        let [total, least] = both[..] else { unreachable!("two were stacked") };
        if least < 0 {
            return Err(Error::Value(format!("repeat_interleave: a count is {least}")));
        }
        let result = Tensor::arange_with(total, (crate::DType::I64, self.device()));
        Ok(self.index_select(axis, &ends.searchsorted(&result, true)))
    }

    /// The whole tensor repeated `counts[i]` times along dimension `i`, as `numpy.tile`: missing counts or dimensions
    /// are 1, added in front.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).tile([2]).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// With more than eight counts.
    #[track_caller]
    pub fn tile(&self, counts: impl Into<Shape>) -> Tensor {
        let counts = counts.into();
        let rank = self.rank().max(counts.rank());
        let mut shape = Shape::new(&[1; MAX_RANK][..rank]);
        shape.dims_mut()[rank - self.rank()..].copy_from_slice(self.dims());
        let mut x = self.reshape(shape);
        for (i, &count) in counts.iter().enumerate() {
            let axis = rank - counts.rank() + i;
            if count != 1 {
                let (outer, size, inner) = x.around(axis);
                shape.dims_mut()[axis] = size * count;
                x = x.reshape([outer, 1, size, inner]).expand([outer, count, size, inner]).reshape(shape);
            }
        }
        x
    }

    /// Number of elements in the dimensions before an axis, along it, and after it.
    fn around(&self, axis: usize) -> (usize, usize, usize) {
        let dims = self.dims();
        (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
    }

    /// This tensor shifted cyclically by `shift` along an axis, as `numpy.roll`: elements that leave at one end enter
    /// at the other.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2, 3]).roll(1, 0).to_vec::<i32>()?, [3, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn roll(&self, shift: i64, axis: impl Into<Axis>) -> Tensor {
        let axis = axis.into().of("roll", self.rank());
        let size = self.dims()[axis] as i64;
        if size == 0 || shift.rem_euclid(size) == 0 {
            return self.clone();
        }
        let shift = shift.rem_euclid(size);
        let tail = self.part(axis, (size - shift, 1, shift as usize));
        let head = self.part(axis, (0, 1, (size - shift) as usize));
        join(&tail, &head, axis)
    }
}
