//! Order statistics: quantiles and medians, the k-th smallest element, the most frequent one. All sort along the axis.

use crate::record::{check_float, widened};
use crate::{Axes, Axis, DType, MAX_RANK, Shape, Tensor};

/// Quantile probabilities in [0, 1]. One number gives a result without a dimension for it; a list adds a first
/// dimension.
///
/// Converts from an `f64`, or an array, slice or `Vec` of them.
#[derive(Clone, Debug)]
pub struct Quantiles {
    list: Vec<f64>,
    one: bool,
    /// Upper end of the scale of `list`: 1 for probabilities, 100 for percent.
    of: f64,
}

impl From<f64> for Quantiles {
    fn from(q: f64) -> Quantiles {
        Quantiles { list: vec![q], one: true, of: 1.0 }
    }
}
impl<const N: usize> From<[f64; N]> for Quantiles {
    fn from(list: [f64; N]) -> Quantiles {
        Quantiles { list: list.to_vec(), one: false, of: 1.0 }
    }
}
impl From<&[f64]> for Quantiles {
    fn from(list: &[f64]) -> Quantiles {
        Quantiles { list: list.to_vec(), one: false, of: 1.0 }
    }
}
impl From<Vec<f64>> for Quantiles {
    fn from(list: Vec<f64>) -> Quantiles {
        Quantiles { list, one: false, of: 1.0 }
    }
}

/// Interpolation method of a quantile between two elements, with NumPy's names. PyTorch has the first five.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QuantileMethod {
    /// Linear interpolation at `(n - 1)·q` from the first element: the default of NumPy and PyTorch.
    #[default]
    Linear,
    /// The lower neighbour.
    Lower,
    /// The higher neighbour.
    Higher,
    /// The nearer neighbour; at halves, the one with the even index.
    Nearest,
    /// The mean of the two neighbours.
    Midpoint,
    /// The inverse of the empirical distribution (Hyndman and Fan's method 1).
    InvertedCdf,
    /// The inverse of the empirical distribution, averaged at its jumps (method 2).
    AveragedInvertedCdf,
    /// The observation that is closest to `n·q` (method 3).
    ClosestObservation,
    /// The inverse of the empirical distribution, linear between its points (method 4).
    InterpolatedInvertedCdf,
    /// Hazen's method (method 5).
    Hazen,
    /// Weibull's method (method 6).
    Weibull,
    /// Median-unbiased for every distribution (method 8).
    MedianUnbiased,
    /// Unbiased for normal distributions (method 9).
    NormalUnbiased,
}

/// Fractional index of a quantile in the sorted row: `(n - less)·q + shift`.
struct Position {
    less: f64,
    shift: f64,
}

impl QuantileMethod {
    fn position(self, q: f64) -> Position {
        use QuantileMethod::*;
        let between = |alpha: f64, beta: f64| Position { less: 0.0, shift: alpha + q * (1.0 - alpha - beta) - 1.0 };
        match self {
            Linear | Lower | Higher | Nearest | Midpoint => Position { less: 1.0, shift: 0.0 },
            InvertedCdf | AveragedInvertedCdf => Position { less: 0.0, shift: -1.0 },
            ClosestObservation => Position { less: 0.0, shift: -1.5 },
            InterpolatedInvertedCdf => between(0.0, 1.0),
            Hazen => between(0.5, 0.5),
            Weibull => between(0.0, 0.0),
            MedianUnbiased => between(1.0 / 3.0, 1.0 / 3.0),
            NormalUnbiased => between(3.0 / 8.0, 3.0 / 8.0),
        }
    }

    /// The weight of the higher neighbour; `far` is the distance of the position from the lower one, in [0, 1).
    fn weight(self, far: &Tensor, lower: &Tensor) -> Tensor {
        use QuantileMethod::*;
        let choose = |high: Tensor| high.where_(far.ones_like(), 0.0);
        match self {
            Lower => far.zeros_like(),
            Higher | InvertedCdf => choose(far.gt(0.0)),
            Nearest => choose(far.gt(0.5) | (far.eq(0.5) & lower.rem(2.0).eq(1.0))),
            Midpoint => far.gt(0.0).where_(far.full_like(0.5), 0.0),
            AveragedInvertedCdf => far.gt(0.0).where_(far.ones_like(), 0.5),
            ClosestObservation => choose(!(far.eq(0.0) & lower.rem(2.0).eq(1.0))),
            _ => far.clone(),
        }
    }
}

/// Parameters of a quantile function: its name for errors, axes, interpolation method and treatment of NaN.
#[derive(Clone, Copy)]
struct Asked {
    name: &'static str,
    axes: Axes,
    keep: bool,
    method: QuantileMethod,
    /// Whether NaN elements are ignored.
    known: bool,
}

impl Asked {
    #[track_caller]
    fn of(self, x: &Tensor, q: &Quantiles) -> Tensor {
        check_float(self.name, x);
        let of = q.of;
        for q in &q.list {
            assert!((0.0..=of).contains(q), "{}: {q} is not in [0, {of}]", self.name);
        }
        let (mut shape, rows) = self.rows(x);
        let axis = rows.rank() - 1;
        let n = rows.dims()[axis];
        assert!(n > 0, "{}: nothing to reduce in shape {}", self.name, x.shape());
        let sorted = rows.sort(axis, false);
        // The number of values, and whether the row's result is NaN.
        let f64s = |t: Tensor| t.cast(DType::F64);
        let last = sorted.part(axis, (n as i64 - 1, 1, 1));
        // In f64, since the dtype of `x` may not hold the count.
        let count =
            if self.known { f64s((!sorted.is_nan()).sum_keepdim(axis)) } else { last.cast(DType::F64).full_like(n) };
        let unknown = (!self.known).then(|| last.is_nan());
        let one = |&q: &f64| {
            let value = self.at(&sorted, &count, q / of);
            unknown.as_ref().map_or(value.clone(), |u| u.where_(f64::NAN, value)).cast(x.dtype()).reshaped(shape)
        };
        let all: Vec<Tensor> = q.list.iter().map(one).collect();
        match (q.one, all.is_empty()) {
            (true, _) => all.into_iter().next().expect("there is one"),
            (_, false) => Tensor::stack(&all, 0),
            (_, true) => {
                shape = shape.insert(0, 0);
                Tensor::zeros_with(shape, crate::Options::of(x))
            }
        }
    }

    /// The shape of a result, and the elements as a matrix whose rows are reduced.
    #[track_caller]
    fn rows(&self, x: &Tensor) -> (Shape, Tensor) {
        let (list, count) = self.axes.of(self.name, x.rank());
        let kept: Vec<usize> = (0..x.rank()).filter(|a| !list[..count].contains(a)).collect();
        let size = |axes: &[usize]| axes.iter().map(|&a| x.dims()[a]).product::<usize>();
        let mut shape =
            if self.keep { Shape::new(&[1; MAX_RANK][..x.rank()]) } else { x.without(self.name, self.axes) };
        if self.keep {
            kept.iter().for_each(|&a| shape.dims_mut()[a] = x.dims()[a]);
        }
        let sizes = [size(&kept), size(&list[..count])];
        let order: Vec<usize> = kept.iter().chain(&list[..count]).copied().collect();
        (shape, x.permute(order).reshape(sizes))
    }

    /// The quantile of each sorted row, as a column.
    fn at(&self, sorted: &Tensor, count: &Tensor, q: f64) -> Tensor {
        let Position { less, shift } = self.method.position(q);
        let last = count - 1.0;
        // A row of only NaN gives its first element, which is NaN.
        let at = (count - less) * q + shift;
        let lower = at.floor();
        let held = |at: &Tensor| at.minimum(&last).maximum(0.0).cast(DType::I64);
        let (first, second) = (held(&lower), held(&(&lower + 1.0)));
        let sorted = widened(sorted);
        let t = self.method.weight(&(&at - &lower), &lower).cast(sorted.dtype());
        let (a, b) = (sorted.gathered("quantile", 1, &first), sorted.gathered("quantile", 1, &second));
        // From the nearer end, so that both ends are exact.
        let (apart, rest) = (&b - &a, 1.0 - &t);
        let mixed = t.lt(0.5).where_(&a + &apart * &t, &b - &apart * &rest);
        // As a weighted mean where the difference is not finite: beside an infinity, or on overflow.
        let mixed = apart.is_finite().where_(mixed, &a * rest + &b * &t);
        t.eq(0.0).where_(&a, t.eq(1.0).where_(&b, mixed))
    }
}

macro_rules! quantiles {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident ($($q:ident: $type:ty)?) |$from:ident| $list:expr, $known:literal;)*) => {
        /// # Quantiles
        ///
        /// They take floats; bf16 and f16 are interpolated in f32. NaN sorts as the largest; a row
        /// with NaN gives NaN. The methods whose name begins with `nan` ignore NaN, and give NaN if all are NaN. The
        /// gradient flows to the two elements that the result lies between.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// On a dtype that is not a float, when an axis does not exist, there are no elements along the axes, or a
            /// quantile is out of range.
            #[track_caller]
            pub fn $name(&self, $($q: $type,)? axes: impl Into<Axes>) -> Tensor {
                let $from = ($($q)?);
                let (axes, method) = (axes.into(), QuantileMethod::Linear);
                Asked { name: stringify!($name), axes, keep: false, method, known: $known }.of(self, &$list)
            }
            #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") with the reduced axes kept as size 1.")]
            ///
            /// # Panics
            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
            #[track_caller]
            pub fn $keepdim(&self, $($q: $type,)? axes: impl Into<Axes>) -> Tensor {
                let $from = ($($q)?);
                let (axes, method) = (axes.into(), QuantileMethod::Linear);
                Asked { name: stringify!($keepdim), axes, keep: true, method, known: $known }.of(self, &$list)
            }
        )*}
    };
}

/// The quantiles `q`, taken as percentages.
fn percent(q: Quantiles) -> Quantiles {
    Quantiles { of: 100.0, ..q }
}

quantiles! {
    /// The median over the axes, the mean of the middle two if their number is even, as `numpy.median`. `torch.median`
    /// takes the lower one: use [`quantile_with`](Tensor::quantile_with) and [`QuantileMethod::Lower`].
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3.0f32, 1.0, 10.0, 2.0]).median(..).item::<f32>()?, 2.5);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    median median_keepdim() |_none| Quantiles::from(0.5), false;
    /// The median over the axes without NaN, as `numpy.nanmedian`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 3.0]).nanmedian(..).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    nanmedian nanmedian_keepdim() |_none| Quantiles::from(0.5), true;
    /// Quantiles in [0, 1] over the axes, with linear interpolation, as `numpy.quantile` and `torch.quantile`; several
    /// quantiles are the first dimension of the result. [`quantile_with`](Tensor::quantile_with) takes another method.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::arange(11).reshape([1, 11]);
    /// assert_eq!(x.quantile([0.0, 0.25, 0.5], 1).to_vec::<f32>()?, [0.0, 2.5, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    quantile quantile_keepdim(q: impl Into<Quantiles>) |q| q.into(), false;
    /// Quantiles over the axes without NaN, as `numpy.nanquantile` and `torch.nanquantile`.
    nanquantile nanquantile_keepdim(q: impl Into<Quantiles>) |q| q.into(), true;
    /// Quantiles in percent, in [0, 100], as `numpy.percentile`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::arange(11).percentile(90.0, ..).item::<f32>()?, 9.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    percentile percentile_keepdim(q: impl Into<Quantiles>) |q| percent(q.into()), false;
    /// Quantiles in percent over the axes without NaN, as `numpy.nanpercentile`.
    nanpercentile nanpercentile_keepdim(q: impl Into<Quantiles>) |q| percent(q.into()), true;
}

/// # Quantiles: methods, order statistics
impl Tensor {
    /// [`quantile`](Tensor::quantile) with another interpolation method.
    ///
    /// ```
    /// # use thalweg::{QuantileMethod, Tensor};
    /// let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.quantile_with(0.5, .., QuantileMethod::Lower).item::<f32>()?, 2.0);          // torch.median
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`quantile`](Tensor::quantile).
    #[track_caller]
    pub fn quantile_with(&self, q: impl Into<Quantiles>, axes: impl Into<Axes>, method: QuantileMethod) -> Tensor {
        Asked { name: "quantile", axes: axes.into(), keep: false, method, known: false }.of(self, &q.into())
    }

    /// [`nanquantile`](Tensor::nanquantile) with another interpolation method.
    ///
    /// # Panics
    /// As [`quantile`](Tensor::quantile).
    #[track_caller]
    pub fn nanquantile_with(&self, q: impl Into<Quantiles>, axes: impl Into<Axes>, method: QuantileMethod) -> Tensor {
        Asked { name: "nanquantile", axes: axes.into(), keep: false, method, known: true }.of(self, &q.into())
    }

    /// The `k`-th smallest element along an axis, counted from 1, and its index, as `torch.kthvalue`; NaN is the
    /// largest.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (value, at) = Tensor::new([5i32, 1, 3]).kthvalue(2, 0);
    /// assert_eq!((value.item::<i32>()?, at.item::<i64>()?), (3, 2));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, or `k` is 0 or above its size.
    #[track_caller]
    pub fn kthvalue(&self, k: usize, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let axis = axis.into().of("kthvalue", self.rank());
        if k == 0 || k > self.dims()[axis] {
            panic!("kthvalue: there is no element number {k} along axis {axis} of {}", self.shape());
        }
        let place = self.argsort(axis, false).part(axis, (k as i64 - 1, 1, 1));
        let shape = self.shape().remove(axis);
        (self.gathered("kthvalue", axis, &place).reshaped(shape), place.reshaped(shape))
    }

    /// The elements along an axis in an order where element `k` (from 0) is at its sorted index, smaller ones before it
    /// and larger ones after it, as `numpy.partition`. Costs a full sort, which is one such order.
    ///
    /// # Panics
    /// When there is no such axis or element.
    #[track_caller]
    pub fn partition(&self, k: usize, axis: impl Into<Axis>) -> Tensor {
        let axis = self.partition_axis("partition", k, axis.into());
        self.sort(axis, false)
    }

    /// The indices of the elements of [`partition`](Tensor::partition), as `numpy.argpartition`.
    ///
    /// # Panics
    /// When there is no such axis or element.
    #[track_caller]
    pub fn argpartition(&self, k: usize, axis: impl Into<Axis>) -> Tensor {
        let axis = self.partition_axis("argpartition", k, axis.into());
        self.argsort(axis, false)
    }

    #[track_caller]
    fn partition_axis(&self, name: &str, k: usize, axis: Axis) -> usize {
        let axis = axis.of(name, self.rank());
        assert!(k < self.dims()[axis], "{name}: there is no element {k} along axis {axis} of {}", self.shape());
        axis
    }

    /// The most frequent element along an axis (the smallest of several) and its count (i64), as `scipy.stats.mode`;
    /// `torch.mode` gives an index in place of the count. All NaN count as equal and are the largest.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (value, count) = Tensor::new([2i32, 7, 7, 2, 5]).mode(0);
    /// assert_eq!((value.item::<i32>()?, count.item::<i64>()?), (2, 2));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, or it has no elements.
    #[track_caller]
    pub fn mode(&self, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let axis = axis.into().of("mode", self.rank());
        let n = self.dims()[axis];
        assert!(n > 0, "mode: nothing along axis {axis} of {}", self.shape());
        let sorted = self.sort(axis, false);
        // The index of each element in its run of equal ones; the length of a run follows from its last index.
        let place = sorted.positions(axis, DType::I64);
        let mut widths = vec![(0, 0); self.rank()];
        widths[axis] = (1, 0);
        let (here, before) = (sorted.narrow(axis, 1, n - 1), sorted.narrow(axis, 0, n - 1));
        let mut differs = here.ne(&before);
        if self.dtype().is_float() {
            differs &= !(here.is_nan() & before.is_nan());
        }
        let begin = differs.pad(widths, true).where_(&place, 0).cummax(axis);
        let length = place - begin + 1;
        let best = length.argmax_keepdim(axis);
        let shape = self.shape().remove(axis);
        (sorted.gathered("mode", axis, &best).reshaped(shape), length.gathered("mode", axis, &best).reshaped(shape))
    }
}
