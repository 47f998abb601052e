//! Views: the same elements under another shape or order. No view copies; it fuses into the kernel that reads it.

use crate::record::record1;
use crate::{Axes, Axis, MAX_RANK, Shape, Sizes, Tensor};
use thalweg_ir::{Op, pack_order};

/// The sizes of a shape as the integer arguments of an operation.
fn ints(shape: &Shape) -> [i64; MAX_RANK] {
    let mut out = [0; MAX_RANK];
    for (o, &d) in out.iter_mut().zip(shape.iter()) {
        *o = d as i64;
    }
    out
}

/// # Shape and views
///
/// Views of the same elements under another shape or order. A view copies nothing: it is index arithmetic in the kernel
/// that reads it.
impl Tensor {
    /// A reshaped view, in the same row-major order, as `torch.Tensor.reshape`. One size may be -1 and is inferred.
    ///
    /// PyTorch's `view` and `contiguous` are not needed: a reshape takes any tensor and copies nothing here. For the
    /// bits as another dtype there is [`bitcast`](Tensor::bitcast), for a new order of the axes
    /// [`permute`](Tensor::permute).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([4, 6]).reshape([3, -1]).dims(), [3, 8]);
    /// ```
    ///
    /// # Panics
    /// When the shape does not hold as many elements.
    #[track_caller]
    #[doc(alias = "view")]
    #[doc(alias = "contiguous")]
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> Tensor {
        self.reshaped(self.resolve(sizes.into()))
    }

    /// [`reshape`](Tensor::reshape) to a shape with the same number of elements.
    #[track_caller]
    pub(crate) fn reshaped(&self, shape: Shape) -> Tensor {
        debug_assert_eq!(shape.numel(), self.numel());
        if shape == *self.shape() {
            return self.clone();
        }
        record1(Op::Reshape, self.dtype(), shape, 0, self, &ints(&shape)[..shape.rank()])
    }

    #[track_caller]
    fn resolve(&self, sizes: Sizes) -> Shape {
        let list = sizes.list();
        let mut shape = Shape::new(&[0; MAX_RANK][..list.len()]);
        let mut open = None;
        let mut known = 1usize;
        for (i, &size) in list.iter().enumerate() {
            match usize::try_from(size) {
                Ok(size) => {
                    shape.dims_mut()[i] = size;
                    known = known.saturating_mul(size);
                }
                Err(_) if size == -1 && open.is_none() => open = Some(i),
                Err(_) if size == -1 => panic!("reshape: more than one size of {list:?} is -1"),
                Err(_) => panic!("reshape: {list:?} has a negative size"),
            }
        }
        let numel = self.numel();
        if let Some(i) = open {
            if known == 0 || !numel.is_multiple_of(known) {
                panic!("reshape: shape {} with {numel} elements does not fit {list:?}", self.shape());
            }
            shape.dims_mut()[i] = numel / known;
        } else if known != numel {
            panic!("reshape: shape {} with {numel} elements does not fit {list:?}", self.shape());
        }
        shape
    }

    /// All elements in one dimension, in row-major order.
    ///
    /// See also [`flatten_axes`](Tensor::flatten_axes) for some of the axes.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).flatten().dims(), [6]);
    /// ```
    #[track_caller]
    pub fn flatten(&self) -> Tensor {
        self.reshaped(Shape::new(&[self.numel()]))
    }

    /// Dimensions `start` to `end`, both included, merged into one.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).flatten_axes(1, -1).dims(), [2, 12]);
    /// ```
    ///
    /// # Panics
    /// When one does not exist or `start` comes after `end`.
    #[track_caller]
    pub fn flatten_axes(&self, start: impl Into<Axis>, end: impl Into<Axis>) -> Tensor {
        let (start, end) = (start.into().of("flatten_axes", self.rank()), end.into().of("flatten_axes", self.rank()));
        assert!(start <= end, "flatten_axes: axis {start} comes after axis {end}");
        let mut shape = *self.shape();
        for _ in start..end {
            shape.dims_mut()[start] *= shape[start + 1];
            shape = shape.remove(start + 1);
        }
        self.reshaped(shape)
    }

    /// Dimension `axis` split into several, as `torch.unflatten`; one size may be -1 and is inferred.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 12]).unflatten(1, [3, -1]).dims(), [2, 3, 4]);
    /// ```
    ///
    /// # Panics
    /// When the product of the sizes is not the size of the dimension.
    #[track_caller]
    pub fn unflatten(&self, axis: impl Into<Axis>, sizes: impl Into<Sizes>) -> Tensor {
        let axis = axis.into().of("unflatten", self.rank());
        let parts = sizes.into();
        let known: i64 = parts.list().iter().filter(|&&s| s != -1).product();
        let size = self.dims()[axis] as i64;
        let mut out: Vec<i64> = self.dims()[..axis].iter().map(|&d| d as i64).collect();
        for &part in parts.list() {
            if part == -1 && (known <= 0 || size % known != 0) {
                panic!("unflatten: size {size} of axis {axis} does not divide into {:?}", parts.list());
            }
            out.push(if part == -1 { size / known } else { part });
        }
        out.extend(self.dims()[axis + 1..].iter().map(|&d| d as i64));
        self.reshape(out)
    }

    /// Dimensions reordered: dimension `i` of the result is dimension `order[i]` of this tensor.
    ///
    /// See also [`transpose`](Tensor::transpose) (two axes), [`t`](Tensor::t) (matrices), [`movedim`](Tensor::movedim)
    /// (one axis).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).permute([2, 0, 1]).dims(), [4, 2, 3]);
    /// ```
    ///
    /// # Panics
    /// When `order` does not name every dimension once.
    #[track_caller]
    pub fn permute(&self, order: impl Into<Axes>) -> Tensor {
        let (order, count) = order.into().of("permute", self.rank());
        assert!(
            count == self.rank(),
            "permute: {:?} does not name every axis of shape {}",
            &order[..count],
            self.shape()
        );
        self.permuted(&order[..count])
    }

    /// [`permute`](Tensor::permute) by a list that is known to be a permutation.
    #[track_caller]
    fn permuted(&self, order: &[usize]) -> Tensor {
        if order.iter().enumerate().all(|(i, &o)| i == o) {
            return self.clone();
        }
        let mut shape = *self.shape();
        for (to, &from) in shape.dims_mut().iter_mut().zip(order) {
            *to = self.dims()[from];
        }
        record1(Op::Permute, self.dtype(), shape, pack_order(order), self, &[])
    }

    /// This tensor with two dimensions swapped.
    ///
    /// See also [`t`](Tensor::t) for matrices and [`permute`](Tensor::permute) for all axes.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).transpose(0, -1).dims(), [4, 3, 2]);
    /// ```
    ///
    /// # Panics
    /// When one does not exist.
    #[track_caller]
    pub fn transpose(&self, a: impl Into<Axis>, b: impl Into<Axis>) -> Tensor {
        let rank = self.rank();
        let (a, b) = (a.into().of("transpose", rank), b.into().of("transpose", rank));
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        order.swap(a, b);
        self.permuted(&order[..rank])
    }

    /// This tensor with two dimensions swapped; alias of [`transpose`](Tensor::transpose).
    ///
    /// # Panics
    /// When one does not exist.
    #[track_caller]
    pub fn swap_axes(&self, a: impl Into<Axis>, b: impl Into<Axis>) -> Tensor {
        self.transpose(a, b)
    }

    /// The transpose of the matrices in the last two dimensions; below rank 2, the tensor itself.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]]);
    /// assert_eq!(x.t().to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn t(&self) -> Tensor {
        if self.rank() < 2 { self.clone() } else { self.transpose(-2, -1) }
    }

    /// This tensor with dimension `from` moved to where dimension `to` is; the others keep their order.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).movedim(0, -1).dims(), [3, 4, 2]);
    /// ```
    ///
    /// # Panics
    /// When one does not exist.
    #[track_caller]
    pub fn movedim(&self, from: impl Into<Axis>, to: impl Into<Axis>) -> Tensor {
        let rank = self.rank();
        let (from, to) = (from.into().of("movedim", rank), to.into().of("movedim", rank));
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        if from < to {
            order[from..=to].rotate_left(1);
        } else {
            order[to..=from].rotate_right(1);
        }
        self.permuted(&order[..rank])
    }

    /// This tensor without the given dimensions, which have size 1; `squeeze(..)` drops every dimension of size 1.
    ///
    /// The inverse is [`unsqueeze`](Tensor::unsqueeze).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::zeros([1, 3, 1]);
    /// assert_eq!((x.squeeze(0).dims(), x.squeeze(..).dims()), (&[3, 1][..], &[3][..]));
    /// ```
    ///
    /// # Panics
    /// When a named dimension has another size or does not exist.
    #[track_caller]
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let mask = axes.mask("squeeze", self.rank());
        let mut shape = *self.shape();
        for (i, &d) in self.dims().iter().enumerate().rev() {
            let named = mask >> i & 1 == 1;
            assert!(!named || axes.is_all() || d == 1, "squeeze: axis {i} of shape {} is not of size 1", self.shape());
            if named && d == 1 {
                shape = shape.remove(i);
            }
        }
        self.reshaped(shape)
    }

    /// This tensor with a new dimension of size 1 before dimension `axis` (`rank` or -1: at the end).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([3]).unsqueeze(0).dims(), [1, 3]);
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, or the rank is 8 already.
    #[track_caller]
    #[doc(alias = "expand_dims")]
    pub fn unsqueeze(&self, axis: impl Into<Axis>) -> Tensor {
        let rank = self.rank();
        assert!(rank < MAX_RANK, "unsqueeze: shape {} is at the rank limit of {MAX_RANK}", self.shape());
        let axis = axis.into().of("unsqueeze", rank + 1);
        self.reshaped(self.shape().insert(axis, 1))
    }

    /// Dimensions of size 1 broadcast to the given sizes, new ones added in front; -1 keeps a size.
    ///
    /// See also [`broadcast_to`](Tensor::broadcast_to), which takes a whole shape, and [`repeat`](Tensor::repeat) and
    /// [`tile`](Tensor::tile) for axes of another size than 1.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([3, 1]).expand([2, -1, 4]).dims(), [2, 3, 4]);
    /// ```
    ///
    /// # Panics
    /// When a size other than 1 would change, or there are fewer sizes than dimensions.
    #[track_caller]
    pub fn expand(&self, sizes: impl Into<Sizes>) -> Tensor {
        let sizes = sizes.into();
        let list = sizes.list();
        let mut shape = Shape::new(&[0; MAX_RANK][..list.len()]);
        for (i, &size) in list.iter().enumerate() {
            let own = (i + self.rank()).checked_sub(list.len()).map(|at| self.dims()[at]);
            shape.dims_mut()[i] = match (usize::try_from(size), own) {
                (Ok(size), _) => size,
                (Err(_), Some(own)) if size == -1 => own,
                _ => panic!("expand: shape {} does not expand to {list:?}", self.shape()),
            };
        }
        self.expanded("expand", shape)
    }

    /// Broadcast to a shape by NumPy's rule: dimensions of size 1 are repeated, missing ones added in front.
    ///
    /// See also [`expand`](Tensor::expand), where -1 keeps a size.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).broadcast_to([2, 2]).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the tensor does not broadcast to the shape.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Tensor {
        self.expanded("broadcast_to", shape.into())
    }

    #[track_caller]
    fn expanded(&self, name: &str, shape: Shape) -> Tensor {
        if shape == *self.shape() {
            return self.clone();
        }
        if self.shape().broadcast(&shape) != Some(shape) {
            panic!("{name}: shape {} does not expand to {shape}", self.shape());
        }
        crate::record::check_size(name, &shape, self.dtype());
        let mask = self.shape().broadcast_mask(&shape) as u32;
        record1(Op::Expand, self.dtype(), shape, mask, self, &ints(&shape)[..shape.rank()])
    }

    /// Sliding windows of `size` elements every `step` along an axis, as `torch.Tensor.unfold`: that dimension counts
    /// the windows, and a new last dimension of `size` indexes the elements of one.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::arange(5).window(0, 3, 2).to_vec::<f32>()?, [0.0, 1.0, 2.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the axis is shorter than `size`, `size` or `step` is 0, or the rank is 8 already.
    #[track_caller]
    #[doc(alias = "unfold")]
    pub fn window(&self, axis: impl Into<Axis>, size: usize, step: usize) -> Tensor {
        let rank = self.rank();
        let axis = axis.into().of("window", rank);
        let length = self.dims()[axis];
        assert!(rank < MAX_RANK, "window: shape {} is at the rank limit of {MAX_RANK}", self.shape());
        assert!(size > 0 && step > 0, "window: size {size} and step {step} must be above 0");
        assert!(size <= length, "window: size {size} is over the {length} elements of axis {axis} of {}", self.shape());
        let mut shape = *self.shape();
        shape.dims_mut()[axis] = (length - size) / step + 1;
        let shape = shape.insert(rank, size);
        record1(Op::Window, self.dtype(), shape, axis as u32, self, &[size as i64, step as i64])
    }

    /// The tensors broadcast to their common shape, as `numpy.broadcast_arrays`; views.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let all = Tensor::broadcast_all(&[Tensor::zeros([3, 1]), Tensor::zeros([2])]);
    /// assert_eq!((all[0].dims(), all[1].dims()), (&[3, 2][..], &[3, 2][..]));
    /// ```
    ///
    /// # Panics
    /// When they do not broadcast.
    #[track_caller]
    pub fn broadcast_all<T: AsRef<Tensor>>(tensors: &[T]) -> Vec<Tensor> {
        let mut shape = Shape::SCALAR;
        for t in tensors {
            let t = t.as_ref();
            let Some(both) = shape.broadcast(t.shape()) else {
                crate::record::shapes_differ("broadcast_all", &shape, t.shape())
            };
            shape = both;
        }
        tensors.iter().map(|t| t.as_ref().broadcast_to(shape)).collect()
    }

    /// This tensor rotated `times` times by 90 degrees in the plane of two axes, from the first toward the second, as
    /// `numpy.rot90` and `torch.rot90`; a negative number rotates back.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 2], [3, 4]]).rot90(1, 0, 1).to_vec::<i32>()?, [2, 4, 1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When one of the axes does not exist, or they are the same.
    #[track_caller]
    pub fn rot90(&self, times: i64, from: impl Into<Axis>, toward: impl Into<Axis>) -> Tensor {
        let (from, toward) = (from.into().of("rot90", self.rank()), toward.into().of("rot90", self.rank()));
        if from == toward {
            crate::axes::named_twice("rot90", from);
        }
        match times.rem_euclid(4) {
            0 => self.clone(),
            1 => self.flip(toward).transpose(from, toward),
            2 => self.flip([from, toward]),
            _ => self.transpose(from, toward).flip(toward),
        }
    }

    /// The diagonal `offset` of the matrices in the last two dimensions (0: the main one, positive: above it), as the
    /// last dimension of the result. As `torch.diagonal` on these two dimensions.
    ///
    /// See also [`diag`](Tensor::diag) (a matrix from a vector), [`trace`](Tensor::trace), [`tril`](Tensor::tril).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 2], [3, 4]]).diagonal(0).to_vec::<i32>()?, [1, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn diagonal(&self, offset: i64) -> Tensor {
        let rank = self.rank();
        assert!(rank >= 2, "diagonal: takes at least two dimensions, not shape {}", self.shape());
        let (rows, columns) = (self.dims()[rank - 2] as i64, self.dims()[rank - 1] as i64);
        let offset = offset.clamp(-rows, columns);
        let (row, column) = ((-offset).max(0), offset.max(0));
        let count = (rows - row).min(columns - column).max(0);
        let start = row * columns + column;
        let mut sizes = self.dims()[..rank - 2].to_vec();
        sizes.push((rows * columns) as usize);
        let mut parts = crate::slice::whole(&sizes);
        parts[rank - 2] = if count == 0 { (0, 1, 0) } else { (start, columns + 1, count as usize) };
        self.reshape(sizes).sliced(&parts[..rank - 1])
    }
}
