//! Pooling: the maximum or the mean of windows. A plain composition, axis by axis: the result of a window is the
//! maximum, or the sum, of the results of its rows.
//!
//! Along an axis with few elements per window, the tensor is combined with shifted copies of itself: a map whose loads
//! and stores are contiguous. With many elements it is a fold over the windows (`windows.rs` decides the number of
//! steps).

use crate::record::{check_float, widened, wrong_dtype};
use crate::sweep::{Each, Padding, Sweep, samples, unsampled};
use crate::tunable::TUNABLES;
use crate::{Backward, DType, Options, Scalar, Shape, Tensor, custom_grad};

/// Options of pooling. Defaults: adjacent windows (stride = window), no padding, no dilation, incomplete windows
/// dropped.
///
/// ```
/// # use thalweg::{Pool, Tensor};
/// let x = Tensor::randn([1, 2, 9, 9]);
/// assert_eq!(x.max_pool2d(Pool::new(3).stride(2).padding(1)).dims(), [1, 2, 5, 5]);
/// assert_eq!(x.avg_pool2d(Pool::new([2, 3]).ceil(true)).dims(), [1, 2, 5, 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Pool<const N: usize> {
    window: [usize; N],
    stride: [usize; N],
    padding: Padding<N>,
    dilation: [usize; N],
    ceil: bool,
    count_padding: bool,
}

impl<const N: usize> Pool<N> {
    /// Adjacent windows of that size.
    pub fn new(window: impl Into<Each<N>>) -> Pool<N> {
        let window = window.into().0;
        Pool { window, stride: window, padding: Padding::Valid, dilation: [1; N], ceil: false, count_padding: true }
    }

    /// Sets the distance between windows, in elements.
    pub fn stride(self, stride: impl Into<Each<N>>) -> Pool<N> {
        Pool { stride: stride.into().0, ..self }
    }

    /// Sets the border around the input. Its elements are below all others for a maximum, and 0 for a mean (see
    /// [`count_padding`](Pool::count_padding)).
    pub fn padding(self, padding: impl Into<Padding<N>>) -> Pool<N> {
        Pool { padding: padding.into(), ..self }
    }

    /// Sets the distance between the elements of a window; not for means.
    pub fn dilation(self, dilation: impl Into<Each<N>>) -> Pool<N> {
        Pool { dilation: dilation.into().0, ..self }
    }

    /// Sets whether an incomplete window is added at the end, if the last whole one leaves elements out: the number of
    /// windows is rounded up instead of down. It begins inside the input or the border before it.
    pub fn ceil(self, ceil: bool) -> Pool<N> {
        Pool { ceil, ..self }
    }

    /// Sets whether elements of the border count in a mean (PyTorch's `count_include_pad`). They do by default.
    pub fn count_padding(self, count: bool) -> Pool<N> {
        Pool { count_padding: count, ..self }
    }

    /// The windows over a tensor. With `ceil` the border after it may be longer than requested; the second result is
    /// the requested one.
    #[track_caller]
    fn sweep(self, name: &str, x: &Tensor) -> (Sweep<N>, [(usize, usize); N]) {
        let mut sweep = Sweep::new(name, x, self.window, (self.stride, self.dilation), self.padding);
        let asked = sweep.pads;
        for (i, &(before, after)) in asked.iter().enumerate() {
            let (span, size) = (sweep.span(i), x.dims()[x.rank() - N + i]);
            if before >= span || after >= span {
                panic!("{name}: padding {:?} is not below the {span} elements of a window", asked[i]);
            }
            if self.ceil {
                let left = (size + before + after - span) % sweep.stride[i];
                let next = sweep.out[i] * sweep.stride[i];
                if left > 0 && next < size + before {
                    sweep.out[i] += 1;
                    sweep.pads[i].1 = next + span - size - before;
                }
            }
        }
        (sweep, asked)
    }
}

impl<const N: usize> Sweep<N> {
    /// Reduces the windows of a padded tensor along one axis after the other, the first one first: that leaves less
    /// work for the last axis, where a step is a gap in memory. For a tracked tensor the last one first, so that if
    /// `two` and `all` select the first of equal elements, the result is the first of the window.
    fn reduce_windows(
        &self,
        x: &Tensor,
        two: impl Fn(&Tensor, &Tensor) -> Tensor,
        all: impl Fn(&Tensor, usize) -> Tensor,
    ) -> Tensor {
        let lead = x.rank() - N;
        let mut x = x.clone();
        let backwards = x.is_tracked();
        for i in 0..N {
            let i = if backwards { N - 1 - i } else { i };
            let axis = lead + i;
            if !TUNABLES.max_shifted_pool.admits(self.kernel[i]) {
                let mut windows = x.window(axis, self.span(i), self.stride[i]);
                if self.dilation[i] > 1 {
                    windows = windows.part(windows.rank() - 1, (0, self.dilation[i] as i64, self.kernel[i]));
                }
                x = all(&windows, windows.rank() - 1);
                continue;
            }
            let shifted =
                |at: usize| x.part(axis, ((at * self.dilation[i]) as i64, self.stride[i] as i64, self.out[i]));
            x = (1..self.kernel[i]).fold(shifted(0), |sum, at| two(&sum, &shifted(at)));
        }
        x
    }
}

#[track_caller]
fn max_pool<const N: usize>(name: &str, x: &Tensor, pool: Pool<N>) -> Tensor {
    if x.dtype() == DType::Bool {
        wrong_dtype(name, "a float or integer dtype", x.dtype());
    }
    let (x, added) = samples::<N>(name, x);
    let (sweep, _) = pool.sweep(name, &x);
    let least = match x.dtype().is_float() {
        true => Scalar::Float(f64::NEG_INFINITY),
        false => Scalar::int_bounds(x.dtype()).0,
    };
    let padded = sweep.padded(&x, least);
    let largest = |x: &Tensor| match x.is_tracked() {
        true => sweep.reduce_windows(x, first_largest_of_two, first_largest),
        false => sweep.reduce_windows(x, |a, b| a.maximum(b), |x, axis| x.amax(axis)),
    };
    let few = TUNABLES.max_shifted_pool.admits(sweep.kernel.iter().product());
    let beside = sweep.stride == sweep.kernel && sweep.dilation == [1; N];
    if !few || !beside || !x.dtype().is_float() {
        return unsampled(largest(&padded), added);
    }
    // Windows are adjacent. Elements after the last window are in none.
    let covered = (0..N).fold(padded, |x, i| x.narrow(x.rank() - N + i, 0, sweep.out[i] * sweep.kernel[i]));
    let backward = move |Backward { inputs: x, outputs: y, gradients: dy }: Backward<Tensor, Tensor>| {
        side_by_side(&sweep, &x, &y, &dy)
    };
    unsampled(custom_grad(&covered, |x| largest(&x), backward), added)
}

/// The larger of two, the first of equal ones, so that the gradient flows to it alone, as in PyTorch; NaN if one is
/// NaN.
fn first_largest_of_two(a: &Tensor, b: &Tensor) -> Tensor {
    (b.gt(a) | b.is_nan()).where_(b, a)
}

/// The first maximum along an axis.
fn first_largest(x: &Tensor, axis: usize) -> Tensor {
    if !x.is_tracked() {
        return x.amax(axis);
    }
    x.gather(axis, &x.detach().argmax_keepdim(axis)).squeeze(axis)
}

/// The gradient of the maximum of adjacent windows: it flows to the first element equal to the maximum, as in PyTorch.
/// It is built window by window, where a window's elements are adjacent; scattered among zeros, each of its elements
/// would be a strided tensor.
fn side_by_side<const N: usize>(sweep: &Sweep<N>, x: &Tensor, y: &Tensor, dy: &Tensor) -> Tensor {
    // Number of the first element equal to the maximum, searched from the last position to the first. (Not below means
    // equal, or NaN.)
    let positions: Vec<_> = sweep.positions().collect();
    let last = y.full_like((positions.len() - 1) as f64);
    let first = positions
        .iter()
        .enumerate()
        .rev()
        .skip(1)
        .fold(last, |number, (i, &at)| sweep.element(x, at).lt(y).where_(number, i as f64));
    let lead = &x.dims()[..x.rank() - N];
    let pairs =
        |outer: [usize; N], inner: [usize; N]| -> Vec<usize> { (0..N).flat_map(|i| [outer[i], inner[i]]).collect() };
    let windows = [lead, &pairs(sweep.out, sweep.kernel)].concat();
    let alone = [lead, &pairs(sweep.out, [1; N])].concat();
    let (first, dy) = (first.reshape(&alone), dy.reshape(&alone));
    let numbers = Tensor::arange_with(positions.len(), Options::of(x)).reshape(pairs([1; N], sweep.kernel));
    first.eq(numbers).where_(dy, 0).broadcast_to(windows).reshape(*x.shape())
}

#[track_caller]
fn avg_pool<const N: usize>(name: &str, x: &Tensor, pool: Pool<N>) -> Tensor {
    check_float(name, x);
    let (x, added) = samples::<N>(name, x);
    if pool.dilation != [1; N] {
        panic!("{name}: takes no dilation, not {:?}, of shape {}", pool.dilation, x.shape());
    }
    let (sweep, asked) = pool.sweep(name, &x);
    let padded = sweep.padded(&widened(&x), Scalar::Int(0));
    let mut sum = sweep.reduce_windows(&padded, |a, b| a + b, |x, axis| x.sum(axis));
    let mut count = 1usize;
    for (i, &(before, after)) in asked.iter().enumerate() {
        let size = x.dims()[2 + i];
        let whole = if pool.count_padding { (0, size + before + after) } else { (before, size + before) };
        let last = (sweep.out[i] - 1) * sweep.stride[i] + sweep.kernel[i];
        if whole.0 == 0 && last <= whole.1 {
            count *= sweep.kernel[i];
        } else {
            // Each window has its own count: the elements between the borders.
            let start = Tensor::arange_with(sweep.out[i], Options::of(&sum)) * sweep.stride[i];
            let inside = (&start + sweep.kernel[i]).minimum(whole.1) - start.maximum(whole.0);
            sum /= inside.reshape([&[sweep.out[i]][..], &vec![1; N - 1 - i]].concat());
        }
    }
    unsampled((sum / count).cast(x.dtype()), added)
}

/// Folds each of `out` windows that cover an axis evenly, from `⌊i·n/out⌋` to before `⌈(i+1)·n/out⌉`. Windows of one
/// size at one distance are a view, few others are slices, and many are selected by an index, where elements outside
/// their window become `border`.
#[track_caller]
fn even_folds(
    name: &str,
    x: &Tensor,
    (axis, out): (usize, usize),
    border: Scalar,
    fold: impl Fn(&Tensor, i64) -> Tensor,
) -> Tensor {
    let size = x.dims()[axis];
    if out == 0 || size == 0 {
        panic!("{name}: {out} windows over axis {axis} of {}", x.shape());
    }
    let bounds = |i: usize| (i * size / out, ((i + 1) * size).div_ceil(out));
    let longest = (0..out).map(|i| bounds(i).1 - bounds(i).0).max().expect("there is a window");
    let step = if out == 1 { size } else { bounds(1).0 };
    if step > 0 && (0..out).all(|i| bounds(i) == (i * step, i * step + longest)) {
        return fold(&x.window(axis, longest, step), -1);
    }
    if TUNABLES.max_window_slices.admits(out) {
        let of = |i: usize| {
            let (start, end) = bounds(i);
            fold(&x.narrow(axis, start, end - start), axis as i64).unsqueeze(axis)
        };
        return Tensor::cat(&(0..out).map(of).collect::<Vec<_>>(), axis);
    }
    let (windows, inside) = indexed_windows(x, (axis, out), longest);
    fold(&inside.where_(&windows, border), -1)
}

/// Even windows of an axis ([`even_folds`]), selected by an index: their elements in a new last dimension of size
/// `longest`, and a mask of those that are inside.
#[track_caller]
fn indexed_windows(x: &Tensor, (axis, out): (usize, usize), longest: usize) -> (Tensor, Tensor) {
    let size = x.dims()[axis];
    let number = Tensor::arange_with(out, (DType::I64, x.device()));
    let start = (&number * size).floor_div(out);
    let end = ((&number + 1) * size + (out - 1)).floor_div(out);
    let place = start.unsqueeze(1) + Tensor::arange_with(longest, (DType::I64, x.device()));
    let inside = place.lt(end.unsqueeze(1));
    let taken = x.index_select(axis, &place.minimum(size - 1).flatten());
    let parted = taken.unflatten(axis, [out, longest]).movedim(axis + 1, -1);
    let mut shape = Shape::new(&vec![1; parted.rank()]);
    shape.dims_mut()[axis] = out;
    shape.dims_mut()[parted.rank() - 1] = longest;
    (parted, inside.reshaped(shape))
}

/// Pooling by windows that cover the axes evenly; elements outside a window become `border`.
#[track_caller]
fn adaptive<const N: usize>(
    name: &str,
    x: &Tensor,
    out: [usize; N],
    border: Scalar,
    fold: impl Fn(&Tensor, i64) -> Tensor,
) -> Tensor {
    let (x, added) = samples::<N>(name, x);
    if out == [1; N] && x.dims()[2..].iter().all(|&d| d > 0) {
        let all = fold(&x.flatten_axes(2, -1), 2);
        return unsampled(all.reshaped(crate::sweep::joined(&x.dims()[..2], &out)), added);
    }
    let mut y = x;
    for i in (0..N).rev() {
        y = even_folds(name, &y, (2 + i, out[i]), border, &fold);
    }
    unsampled(y, added)
}

#[track_caller]
fn adaptive_avg<const N: usize>(name: &str, x: &Tensor, out: [usize; N]) -> Tensor {
    check_float(name, x);
    let sums = adaptive(name, &widened(x), out, Scalar::Int(0), |w, axis| w.sum(axis));
    let lead = sums.rank() - N;
    let mut mean = sums;
    for (i, &out) in out.iter().enumerate() {
        let size = x.dims()[lead + i];
        if size.is_multiple_of(out) {
            mean /= size / out;
            continue;
        }
        let number = Tensor::arange_with(out, (DType::I64, x.device()));
        let end = ((&number + 1) * size + (out - 1)).floor_div(out);
        let count = (end - (number * size).floor_div(out)).cast(mean.dtype());
        mean /= count.reshape([&[out][..], &vec![1; N - 1 - i]].concat());
    }
    mean.cast(x.dtype())
}

#[track_caller]
fn adaptive_max<const N: usize>(name: &str, x: &Tensor, out: [usize; N]) -> Tensor {
    if x.dtype() == DType::Bool {
        wrong_dtype(name, "a float or integer dtype", x.dtype());
    }
    let least = match x.dtype().is_float() {
        true => Scalar::Float(f64::NEG_INFINITY),
        false => Scalar::int_bounds(x.dtype()).0,
    };
    adaptive(name, x, out, least, |w, axis| first_largest(w, axis.rem_euclid(w.rank() as i64) as usize))
}

macro_rules! pools {
    ($($n:literal $max:ident $avg:ident $adaptive_max:ident $adaptive_avg:ident $axes:literal $shape:literal $largest:literal $mean:literal;)*) => {
        /// # Pooling
        ///
        /// Windows over tensors of samples × channels × axes, or without samples. Results are the same each time and on
        /// any number of threads. A mean adds each window row by row, bf16 and f16 in f32, rounded once at the end.
        impl Tensor {$(
            #[doc = concat!("The largest element of each window over ", $axes, "; NaN if one is NaN.")]
            ///
            /// ```
            /// # use thalweg::{Pool, Tensor};
            #[doc = concat!("let x = Tensor::arange(8).reshape([1, 1, ", $shape, "]);")]
            #[doc = concat!("assert_eq!(x.", stringify!($max), "(Pool::new(2)).to_vec::<f32>()?, ", $largest, ");")]
            /// # Ok::<(), thalweg::Error>(())
            /// ```
            ///
            /// # Panics
            /// On bool, on another rank, when no window fits, or padding is as long as a window.
            #[track_caller]
            pub fn $max(&self, pool: Pool<$n>) -> Tensor {
                max_pool::<$n>(stringify!($max), self, pool)
            }

            #[doc = concat!("The mean of each window over ", $axes, ".")]
            ///
            /// ```
            /// # use thalweg::{Pool, Tensor};
            #[doc = concat!("let x = Tensor::arange(8).reshape([1, 1, ", $shape, "]);")]
            #[doc = concat!("assert_eq!(x.", stringify!($avg), "(Pool::new(2)).to_vec::<f32>()?, ", $mean, ");")]
            /// # Ok::<(), thalweg::Error>(())
            /// ```
            ///
            /// # Panics
            /// On a dtype that is not a float, on another rank, with dilation, when no window fits, or padding is as
            /// long as a window.
            #[track_caller]
            pub fn $avg(&self, pool: Pool<$n>) -> Tensor {
                avg_pool::<$n>(stringify!($avg), self, pool)
            }

            #[doc = concat!("The largest elements of as many windows over ", $axes, " as the result is to have elements: window `i` of `m` along an axis of size `n` goes from `⌊i·n/m⌋` to before `⌈(i+1)·n/m⌉`, as in PyTorch.")]
            ///
            /// # Panics
            /// On bool, on another rank, or when a size is 0.
            #[track_caller]
            pub fn $adaptive_max(&self, size: impl Into<Each<$n>>) -> Tensor {
                adaptive_max::<$n>(stringify!($adaptive_max), self, size.into().0)
            }

            #[doc = concat!("The means of as many windows over ", $axes, " as the result is to have elements; see [`", stringify!($adaptive_max), "`](Tensor::", stringify!($adaptive_max), ").")]
            ///
            /// ```
            /// # use thalweg::Tensor;
            #[doc = concat!("let x = Tensor::arange(8).reshape([1, 1, ", $shape, "]);")]
            #[doc = concat!("assert_eq!(x.", stringify!($adaptive_avg), "(1).to_vec::<f32>()?, [3.5]);")]
            /// # Ok::<(), thalweg::Error>(())
            /// ```
            ///
            /// # Panics
            /// On a dtype that is not a float, on another rank, or when a size is 0.
            #[track_caller]
            pub fn $adaptive_avg(&self, size: impl Into<Each<$n>>) -> Tensor {
                adaptive_avg::<$n>(stringify!($adaptive_avg), self, size.into().0)
            }
        )*}
    };
}

pools! {
    1 max_pool1d avg_pool1d adaptive_max_pool1d adaptive_avg_pool1d "the last axis" "8" "[1.0, 3.0, 5.0, 7.0]" "[0.5, 2.5, 4.5, 6.5]";
    2 max_pool2d avg_pool2d adaptive_max_pool2d adaptive_avg_pool2d "the last two axes" "2, 4" "[5.0, 7.0]" "[2.5, 4.5]";
    3 max_pool3d avg_pool3d adaptive_max_pool3d adaptive_avg_pool3d "the last three axes" "2, 2, 2" "[7.0]" "[3.5]";
}
