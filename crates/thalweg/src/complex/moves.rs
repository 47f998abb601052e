//! Views, selections and joins of complex numbers: the operation applied to both parts.

use super::Complex;
use crate::{Axes, Axis, Border, Error, Scalar, Shape, Sizes, SliceArgs, Tensor};

/// Methods that apply an operation to both parts. Arguments after the first semicolon are converted before.
macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident(
        $($first:ident: $ft:ty),*; $($converted:ident: $ct:ty),*; $($last:ident: $lt:ty),*
    );)*) => {
        impl Complex {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = concat!("As [`Tensor::", stringify!($name), "`].")]
            #[track_caller]
            pub fn $name(&self $(, $first: $ft)* $(, $converted: impl Into<$ct>)* $(, $last: $lt)*) -> Complex {
                $(let $converted: $ct = $converted.into();)*
                Complex {
                    re: self.re.$name($($first,)* $($converted,)* $($last),*),
                    im: self.im.$name($($first,)* $($converted,)* $($last),*),
                }
            }
        )*}
    };
}

moves! {
    /// A reshaped view, in the same row-major order, as `numpy.reshape`; one size may be -1.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([4, 6]).reshape([3, -1]).dims(), [3, 8]);
    /// ```
    reshape(; sizes: Sizes;);
    /// All numbers in one dimension, as `numpy.ravel`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([4, 6]).flatten().dims(), [24]);
    /// ```
    flatten(;;);
    /// Dimensions `start` to `end`, both included, merged into one, as `torch.flatten`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3, 4]).flatten_axes(1, 2).dims(), [2, 12]);
    /// ```
    flatten_axes(; start: Axis, end: Axis;);
    /// A dimension split into several, as `torch.unflatten`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 12]).unflatten(1, [3, -1]).dims(), [2, 3, 4]);
    /// ```
    unflatten(; axis: Axis, sizes: Sizes;);
    /// Dimensions reordered, as `numpy.transpose` with axes and `torch.permute`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3, 4]).permute([2, 0, 1]).dims(), [4, 2, 3]);
    /// ```
    permute(; order: Axes;);
    /// These numbers with two dimensions swapped, as `torch.transpose` and `numpy.swapaxes`; nothing is conjugated.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3, 4]).transpose(0, 2).dims(), [4, 3, 2]);
    /// ```
    transpose(; a: Axis, b: Axis;);
    /// The transpose of the matrices in the last two dimensions, as `z.mT`; nothing is conjugated
    /// ([`adjoint`](Complex::adjoint) does).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [1, 2]);
    /// assert_eq!(z.t().to_string(), "[[1.+2.j]\n [3.+4.j]]");
    /// ```
    t(;;);
    /// These numbers with a dimension moved to another index, as `numpy.moveaxis` and `torch.movedim`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3, 4]).movedim(0, -1).dims(), [3, 4, 2]);
    /// ```
    movedim(; from: Axis, to: Axis;);
    /// These numbers without the given dimensions, which have size 1, as `numpy.squeeze`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 1, 3, 1]).squeeze(..).dims(), [2, 3]);
    /// ```
    squeeze(; axes: Axes;);
    /// These numbers with a new dimension of size 1, as `numpy.expand_dims` and `torch.unsqueeze`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3]).unsqueeze(1).dims(), [2, 1, 3]);
    /// ```
    unsqueeze(; axis: Axis;);
    /// These numbers broadcast to a shape, as `numpy.broadcast_to`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([3]).broadcast_to([2, 3]).dims(), [2, 3]);
    /// ```
    broadcast_to(; shape: Shape;);
    /// Dimensions of size 1 broadcast to the given sizes; -1 keeps a size, as `torch.expand`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([3, 1]).expand([-1, 4]).dims(), [3, 4]);
    /// ```
    expand(; sizes: Sizes;);
    /// These numbers in reverse order along axes, as `numpy.flip`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.flip(0).to_string(), "[3.+4.j 1.+2.j]");
    /// ```
    flip(; axes: Axes;);
    /// These numbers shifted cyclically along an axis, as `numpy.roll`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)], [3]);
    /// assert_eq!(z.roll(1, 0).to_string(), "[5.+6.j 1.+2.j 3.+4.j]");
    /// ```
    roll(shift: i64; axis: Axis;);
    /// These numbers rotated `times` times by 90 degrees in the plane of two axes, as `numpy.rot90`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3]).rot90(1, 0, 1).dims(), [3, 2]);
    /// ```
    rot90(times: i64; from: Axis, toward: Axis;);
    /// Every number `count` times in a row along an axis, as `numpy.repeat`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.repeat(2, 0).to_string(), "[1.+2.j 1.+2.j 3.+4.j 3.+4.j]");
    /// ```
    repeat(count: usize; axis: Axis;);
    /// The whole tensor repeated along each dimension, as `numpy.tile`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3]).tile([2, 1]).dims(), [4, 3]);
    /// ```
    tile(; counts: Shape;);
    /// `count` elements of an axis from `start`, as `torch.narrow`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)], [3]);
    /// assert_eq!(z.narrow(0, 1, 2).to_string(), "[3.+4.j 5.+6.j]");
    /// ```
    narrow(; axis: Axis; start: usize, count: usize);
    /// One index of an axis, whose dimension is dropped, as `torch.select`; a negative one counts from the end.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.index_axis(0, -1).to_string(), "3.+4.j");
    /// ```
    index_axis(; axis: Axis; index: i64);
    /// The slices at the given indices of an axis, as `numpy.take` with an axis and `torch.index_select`.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.index_select(0, &Tensor::new([1i64, 1])).to_string(), "[3.+4.j 3.+4.j]");
    /// ```
    index_select(; axis: Axis; index: &Tensor);
    /// The elements at the given indices along an axis, as `torch.gather` and `numpy.take_along_axis`.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [1, 2]);
    /// assert_eq!(z.gather(1, &Tensor::new([[1i64]])).to_string(), "[[3.+4.j]]");
    /// ```
    gather(; axis: Axis; index: &Tensor);
    /// The elements at the given indices of the flattened tensor, as `numpy.take`.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2, 1]);
    /// assert_eq!(z.take(&Tensor::new([-1i64])).to_string(), "[3.+4.j]");
    /// ```
    take(;; index: &Tensor);
    /// The lower triangle of matrices, zeros above diagonal `k`, as `numpy.tril`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::ones([2, 2]).tril(0).to_string(), "[[1.+0.j 0.+0.j]\n [1.+0.j 1.+0.j]]");
    /// ```
    tril(;; k: i64);
    /// The upper triangle of matrices, zeros below diagonal `k`, as `numpy.triu`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::ones([2, 2]).triu(1).to_string(), "[[0.+0.j 1.+0.j]\n [0.+0.j 0.+0.j]]");
    /// ```
    triu(;; k: i64);
    /// For a vector, the matrix with it on a diagonal; for a matrix, that diagonal. As `numpy.diag`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.diag(0).to_string(), "[[1.+2.j 0.+0.j]\n [0.+0.j 3.+4.j]]");
    /// ```
    diag(;; offset: i64);
    /// A diagonal of the matrices in the last two dimensions, as `numpy.diagonal` of the last two axes.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([5, 3, 4]).diagonal(0).dims(), [5, 3]);
    /// ```
    diagonal(;; offset: i64);
    /// Matrices with the rows on a diagonal and zeros elsewhere, as `torch.diag_embed`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([5, 3]).diag_embed(1).dims(), [5, 4, 4]);
    /// ```
    diag_embed(;; offset: i64);
    /// Sliding windows along an axis, as `torch.Tensor.unfold` and `numpy.lib.stride_tricks.sliding_window_view`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([5]).window(0, 3, 2).dims(), [2, 3]);
    /// ```
    window(; axis: Axis; size: usize, step: usize);
    /// Differences of neighbours along an axis, taken `n` times, as `numpy.diff`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 5.0)], [2]);
    /// assert_eq!(z.diff(1, 0).to_string(), "[2.+3.j]");
    /// ```
    diff(n: usize; axis: Axis;);
}

/// Operations on ranges, on several tensors, and with data-dependent sizes.
impl Complex {
    /// A slice by ranges and indices, as `z[1:, 0]`; see [`Tensor::slice`].
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)], [3]);
    /// assert_eq!(z.slice(1..).to_string(), "[3.+4.j 5.+6.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::slice`].
    #[track_caller]
    pub fn slice(&self, args: impl SliceArgs) -> Complex {
        let (list, count) = args.args();
        Complex { re: self.re.slice(&list[..count]), im: self.im.slice(&list[..count]) }
    }

    /// Replaces a slice, as `z[1:, 0] = values`: the handles get new values, other handles keep the old ones.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let mut z = Complex::zeros([3]);
    /// z.set(1.., &Complex::full((), (1.0, 2.0)));
    /// assert_eq!(z.to_string(), "[0.+0.j 1.+2.j 1.+2.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::set`].
    #[track_caller]
    pub fn set(&mut self, args: impl SliceArgs, values: &Complex) {
        let (list, count) = args.args();
        let (mut re, mut im) = (self.re.clone(), self.im.clone());
        re.set(&list[..count], &values.re);
        im.set(&list[..count], &values.im);
        *self = Complex { re, im };
    }

    /// These numbers with a border, as `numpy.pad`: `widths[i]` elements before and after along dimension `i`. A
    /// constant border is real.
    ///
    /// ```
    /// # use thalweg::{Border, Complex};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.pad([(1, 0)], 7).to_string(), "[7.+0.j 1.+2.j 3.+4.j]");
    /// assert_eq!(z.pad([(0, 1)], Border::Wrap).to_string(), "[1.+2.j 3.+4.j 1.+2.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::pad`].
    #[track_caller]
    pub fn pad(&self, widths: impl AsRef<[(usize, usize)]>, border: impl Into<Border>) -> Complex {
        let (widths, border) = (widths.as_ref(), border.into());
        let imaginary = match border {
            Border::Constant(_) => Border::Constant(Scalar::Float(0.0)),
            other => other,
        };
        Complex { re: self.re.pad(widths, border), im: self.im.pad(widths, imaginary) }
    }

    /// The tensors concatenated along an axis, as `numpy.concatenate` and `torch.cat`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0)], [1]);
    /// assert_eq!(Complex::cat(&[&z, &z.conj()], 0).to_string(), "[1.+2.j 1.-2.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::cat`].
    #[track_caller]
    #[doc(alias = "concatenate")]
    pub fn cat<T: AsRef<Complex>>(all: &[T], axis: impl Into<Axis>) -> Complex {
        let axis = axis.into();
        let (re, im) = parts(all);
        Complex { re: Tensor::cat(&re, axis), im: Tensor::cat(&im, axis) }
    }

    /// The tensors stacked along a new axis, as `numpy.stack` and `torch.stack`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::zeros([3]);
    /// assert_eq!(Complex::stack(&[&z, &z], 0).dims(), [2, 3]);
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::stack`].
    #[track_caller]
    pub fn stack<T: AsRef<Complex>>(all: &[T], axis: impl Into<Axis>) -> Complex {
        let axis = axis.into();
        let (re, im) = parts(all);
        Complex { re: Tensor::stack(&re, axis), im: Tensor::stack(&im, axis) }
    }

    /// Chunks of `size` along an axis, as `torch.split`; the last one may be smaller.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([5]).split(2, 0).len(), 3);
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::split`].
    #[track_caller]
    pub fn split(&self, size: usize, axis: impl Into<Axis>) -> Vec<Complex> {
        let axis = axis.into();
        zipped(self.re.split(size, axis), self.im.split(size, axis))
    }

    /// The slice at each index of an axis, without that dimension, as `torch.unbind` and `numpy.unstack`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2, 3]).unbind(0)[1].dims(), [3]);
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::unbind`].
    #[track_caller]
    pub fn unbind(&self, axis: impl Into<Axis>) -> Vec<Complex> {
        let axis = axis.into();
        zipped(self.re.unbind(axis), self.im.unbind(axis))
    }

    /// The elements at tuples of indices, as `z[i, j]`; see [`Tensor::index`].
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [1, 2]);
    /// let (i, j) = (Tensor::new([0i64]), Tensor::new([1i64]));
    /// assert_eq!(z.index(&[&i, &j]).to_string(), "[3.+4.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::index`].
    #[track_caller]
    pub fn index<T: AsRef<Tensor>>(&self, indices: &[T]) -> Complex {
        Complex { re: self.re.index(indices), im: self.im.index(indices) }
    }

    /// The elements where a mask is true, as a vector, as `z[mask]`. Waits for their number.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.masked_select(&z.re.gt(2.0))?.to_string(), "[3.+4.j]");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::masked_select`].
    ///
    /// # Panics
    /// As [`Tensor::masked_select`].
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Complex, Error> {
        Ok(Complex { re: self.re.masked_select(mask)?, im: self.im.masked_select(mask)? })
    }
}

impl AsRef<Complex> for Complex {
    fn as_ref(&self) -> &Complex {
        self
    }
}

fn parts<T: AsRef<Complex>>(all: &[T]) -> (Vec<&Tensor>, Vec<&Tensor>) {
    all.iter().map(|z| (&z.as_ref().re, &z.as_ref().im)).unzip()
}

fn zipped(re: Vec<Tensor>, im: Vec<Tensor>) -> Vec<Complex> {
    re.into_iter().zip(im).map(|(re, im)| Complex { re, im }).collect()
}
