//! Convolutions, pooling, interpolation, and their gradients.

use super::super::call::{Call, Out, Outcome, Reject, Row};
use super::super::value::Value;
use thalweg::{Border, Conv, ConvTranspose, DType, Interpolation, Pool, Scalar, Shape, Tensor, vjp};

/// Numbers for each of `N` axes, from a list of one or `N`.
fn each<const N: usize>(list: &[i64]) -> Result<[usize; N], Reject> {
    let at = |i: usize| if list.len() == 1 { list[0] } else { list[i] };
    if list.len() != 1 && list.len() != N {
        return Err("a list of another length".into());
    }
    let mut out = [0; N];
    for (i, o) in out.iter_mut().enumerate() {
        *o = usize::try_from(at(i)).map_err(|_| Reject::from("a negative number"))?;
    }
    Ok(out)
}

/// Arguments of a convolution from argument `i` on.
struct Options {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    transposed: bool,
    output_padding: Vec<i64>,
    groups: usize,
    /// Whether results have channels last in memory.
    channels_last: bool,
}

impl Options {
    /// Arguments from argument `i` on, and the memory format as argument `format`.
    fn of(c: &Call<'_>, i: usize, format: usize) -> Result<Options, Reject> {
        Ok(Options {
            stride: c.ints(i)?,
            padding: c.ints(i + 1)?,
            dilation: c.ints(i + 2)?,
            transposed: c.flag(i + 3)?,
            output_padding: c.ints(i + 4)?,
            groups: c.size(i + 5)?,
            channels_last: c.flag(format)?,
        })
    }

    /// The convolution with `N` axes.
    fn apply<const N: usize>(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        plain: fn(&Tensor, &Tensor, Option<&Tensor>, Conv<N>) -> Tensor,
        transposed: fn(&Tensor, &Tensor, Option<&Tensor>, ConvTranspose<N>) -> Tensor,
    ) -> Result<Tensor, Reject> {
        let (stride, padding, dilation) =
            (each::<N>(&self.stride)?, each::<N>(&self.padding)?, each::<N>(&self.dilation)?);
        if self.transposed {
            let options = ConvTranspose::default()
                .stride(stride)
                .padding(padding)
                .output_padding(each::<N>(&self.output_padding)?)
                .dilation(dilation)
                .groups(self.groups)
                .channels_last(self.channels_last);
            return Ok(transposed(x, weight, bias, options));
        }
        let options = Conv::default().stride(stride).padding(padding).dilation(dilation).groups(self.groups);
        let options = options.channels_last(self.channels_last);
        Ok(plain(x, weight, bias, options))
    }

    fn convolved(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, Reject> {
        if x.dtype() == DType::Bool || x.numel() == 0 || weight.numel() == 0 {
            return Err("bools, or an empty tensor".into());
        }
        match weight.rank() {
            3 => self.apply::<1>(x, weight, bias, Tensor::conv1d, Tensor::conv_transpose1d),
            4 => self.apply::<2>(x, weight, bias, Tensor::conv2d, Tensor::conv_transpose2d),
            5 => self.apply::<3>(x, weight, bias, Tensor::conv3d, Tensor::conv_transpose3d),
            _ => Err("a rank of weights".into()),
        }
    }
}

fn convolution(c: &Call<'_>) -> Outcome {
    Ok(Options::of(c, 3, 9)?.convolved(c.tensor(0)?, c.tensor(1)?, c.tensor_or_none(2)?)?.into())
}

/// Gradient of `f` at `x` for `dy`, by the front's own rules.
fn pulled(x: &Tensor, dy: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor, Reject>) -> Result<Tensor, Reject> {
    let failed = std::cell::Cell::new(None);
    let (_, pull) = vjp(
        |x: Tensor| match f(&x) {
            Ok(y) => y,
            Err(e) => {
                failed.set(Some(e));
                x
            }
        },
        x,
    );
    match failed.take() {
        Some(e) => Err(e),
        None => Ok(pull(dy)),
    }
}

fn convolution_backward(c: &Call<'_>) -> Outcome {
    let (dy, x, weight) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let options = Options::of(c, 4, 11)?;
    let mask = c.flags(10)?;
    if !x.dtype().is_float() || dy.numel() == 0 || x.numel() == 0 {
        return Err("integers, or an empty tensor".into());
    }
    let mut out = vec![Value::None; 3];
    if mask[0] && mask[1] {
        let failed = std::cell::Cell::new(None);
        let (_, pull) = vjp(
            |(x, w): (Tensor, Tensor)| {
                options.convolved(&x, &w, None).unwrap_or_else(|e| {
                    failed.set(Some(e));
                    x
                })
            },
            (x, weight),
        );
        if let Some(e) = failed.take() {
            return Err(e);
        }
        let (dx, dw) = pull(dy);
        (out[0], out[1]) = (dx.into(), dw.into());
    } else if mask[0] {
        out[0] = pulled(x, dy, |x| options.convolved(x, weight, None))?.into();
    } else if mask[1] {
        out[1] = pulled(weight, dy, |w| options.convolved(x, w, None))?.into();
    }
    if mask[2] {
        let axes: Vec<usize> = (0..dy.rank()).filter(|&i| i != 1).collect();
        let axes = if dy.rank() == weight.rank() { axes } else { (1..dy.rank()).collect() };
        out[2] = dy.sum(&axes).into();
    }
    Ok(Out::Many(out))
}

/// Pooling arguments from argument `i` on: window, stride, padding.
fn pool<const N: usize>(c: &Call<'_>, i: usize) -> Result<Pool<N>, Reject> {
    let window = each::<N>(&c.ints(i)?)?;
    let stride = c.ints_or_none(i + 1)?.unwrap_or_default();
    let stride = if stride.is_empty() { window } else { each::<N>(&stride)? };
    let padding = each::<N>(&c.ints_or_none(i + 2)?.unwrap_or(vec![0]))?;
    Ok(Pool::new(window).stride(stride).padding(padding))
}

/// Average pooling with the arguments from `i` on.
fn averaged(x: &Tensor, c: &Call<'_>, i: usize, axes: usize) -> Result<Tensor, Reject> {
    if x.rank() < axes + 1 || x.numel() == 0 || x.dtype() == DType::Bool {
        return Err("bools, or an empty tensor".into());
    }
    if !x.dtype().is_float() {
        // A quotient of integers, whose fraction is cut off. f64 holds the sums.
        return Ok(averaged(&x.cast(DType::F64), c, i, axes)?.trunc().cast(x.dtype()));
    }
    if !c.is_none(i + 5) {
        // Sums of windows over the given number.
        let mut windows = Windows::of(c, i, axes, &[])?;
        windows.dilation = vec![1; axes];
        let windows = windows.over(x, c.flag(i + 3)?)?;
        let padded = windows.padded(x, Scalar::Int(0));
        let terms = windows.positions().into_iter().map(|at| windows.element(&padded, &at));
        let sum = terms.reduce(|a, b| a + b).ok_or("no window")?;
        return Ok(sum / c.float(i + 5)?);
    }
    let (ceil, count) = (c.flag(i + 3)?, if c.is_none(i + 4) { true } else { c.flag(i + 4)? });
    Ok(match axes {
        1 => x.avg_pool1d(pool::<1>(c, i)?.ceil(ceil).count_padding(count)),
        2 => x.avg_pool2d(pool::<2>(c, i)?.ceil(ceil).count_padding(count)),
        _ => x.avg_pool3d(pool::<3>(c, i)?.ceil(ceil).count_padding(count)),
    })
}

/// Geometry of windows over the last axes.
struct Windows {
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    out: Vec<usize>,
}

impl Windows {
    fn of(c: &Call<'_>, i: usize, axes: usize, out: &[usize]) -> Result<Windows, Reject> {
        let list = |i: usize, default: &[usize]| -> Result<Vec<usize>, Reject> {
            let given = c.ints_or_none(i)?.unwrap_or_default();
            Ok(match given.len() {
                0 => default.to_vec(),
                1 => vec![given[0] as usize; axes],
                _ => given.iter().map(|&v| v as usize).collect(),
            })
        };
        let kernel = list(i, &[])?;
        let stride = list(i + 1, &kernel)?;
        let (padding, dilation) = (list(i + 2, &vec![0; axes])?, list(i + 3, &vec![1; axes]).unwrap_or(vec![1; axes]));
        if [&kernel, &stride, &padding, &dilation].iter().any(|l| l.len() != axes) {
            return Err("a list of another length".into());
        }
        Ok(Windows { kernel, stride, padding, dilation, out: out.to_vec() })
    }

    /// The windows over a tensor; `ceil`: also those that go over the border.
    fn over(self, x: &Tensor, ceil: bool) -> Result<Windows, Reject> {
        let axes = self.kernel.len();
        let lead = x.rank() - axes;
        let mut out = vec![];
        for i in 0..axes {
            let (size, span) = (x.dims()[lead + i] + 2 * self.padding[i], self.dilation[i] * (self.kernel[i] - 1) + 1);
            let room = size.checked_sub(span).ok_or("no window fits")?;
            let mut n = room / self.stride[i] + 1;
            if ceil {
                n = room.div_ceil(self.stride[i]) + 1;
                if (n - 1) * self.stride[i] >= x.dims()[lead + i] + self.padding[i] {
                    n -= 1;
                }
            }
            out.push(n);
        }
        Ok(Windows { out, ..self })
    }

    /// The elements at one position of all windows, from a padded tensor.
    fn element(&self, padded: &Tensor, at: &[usize]) -> Tensor {
        let lead = padded.rank() - self.kernel.len();
        let mut x = padded.clone();
        for (i, &a) in at.iter().enumerate() {
            let first = (a * self.dilation[i]) as i64;
            let end = first + ((self.out[i] - 1) * self.stride[i]) as i64 + 1;
            let mut args = vec![thalweg::SliceArg::range(None, None, 1); lead + i];
            args.push(thalweg::SliceArg::range(first, end, self.stride[i] as i64));
            x = x.slice(args);
        }
        x
    }

    /// The tensor padded so that every window fits.
    fn padded(&self, x: &Tensor, border: Scalar) -> Tensor {
        let lead = x.rank() - self.kernel.len();
        let mut widths = vec![(0, 0); x.rank()];
        for i in 0..self.kernel.len() {
            let span = (self.out[i] - 1) * self.stride[i] + self.dilation[i] * (self.kernel[i] - 1) + 1;
            let size = x.dims()[lead + i] + self.padding[i];
            widths[lead + i] = (self.padding[i], span.saturating_sub(size));
        }
        x.pad(&widths, border)
    }

    fn positions(&self) -> Vec<Vec<usize>> {
        self.kernel.iter().fold(vec![vec![]], |all, &k| {
            all.into_iter().flat_map(|p| (0..k).map(move |i| [&p[..], &[i]].concat())).collect()
        })
    }
}

/// The maximum of each window, and its index in the plane.
fn max_pool(c: &Call<'_>, axes: usize) -> Outcome {
    let x = c.tensor(0)?;
    if x.numel() == 0 || x.dtype() == DType::Bool {
        return Err("an empty tensor".into());
    }
    let lead = x.rank() - axes;
    let windows = Windows::of(c, 1, axes, &[])?.over(x, c.flag(5)?)?;
    let least = if x.dtype().is_float() { Scalar::Float(f64::NEG_INFINITY) } else { Scalar::int_bounds(x.dtype()).0 };
    let padded = windows.padded(x, least);
    let mut numbers = Tensor::full_with(Shape::new(&vec![1; axes]), 0i64, (DType::I64, x.device()));
    for (i, &n) in windows.out.iter().enumerate() {
        // The index of the window's first element along the axis, times the size of the plane within.
        let inner: usize = x.dims()[lead + i + 1..].iter().product();
        let mut along = vec![1; axes];
        along[i] = n;
        let first =
            Tensor::arange_with(n, (DType::I64, x.device())) * (windows.stride[i] as i64) - windows.padding[i] as i64;
        numbers += (first * inner as i64).reshape(&along[..]);
    }
    let mut best: Option<(Tensor, Tensor)> = None;
    for at in windows.positions() {
        let element = windows.element(&padded, &at);
        let mut ahead = 0;
        for (i, &a) in at.iter().enumerate() {
            let inner: usize = x.dims()[lead + i + 1..].iter().product();
            ahead += a * windows.dilation[i] * inner;
        }
        let number = &numbers + ahead as i64;
        best = Some(match best {
            None => {
                let all = number.broadcast_to(*element.shape());
                (element, all)
            }
            Some((value, index)) => {
                let mut better = element.gt(&value);
                if x.dtype().is_float() {
                    better |= element.is_nan();
                }
                (better.where_(&element, value), better.where_(number, index))
            }
        });
    }
    let (value, index) = best.ok_or("no window")?;
    Ok((value, index).into())
}

/// Adds gradients at the indices that pooling returned.
fn scattered(dy: &Tensor, x: &Tensor, index: &Tensor, axes: usize) -> Outcome {
    if x.numel() == 0 || dy.numel() == 0 {
        return Err("an empty tensor".into());
    }
    let lead: usize = x.dims()[..x.rank() - axes].iter().product();
    let (plane, windows) = (x.numel() / lead, dy.numel() / lead);
    let zeros = Tensor::zeros_with([lead, plane], (dy.dtype(), dy.device()));
    let dx = zeros.scatter_add(1, &index.reshape([lead, windows]), dy.reshape([lead, windows]));
    Ok(dx.reshape(x.shape()).into())
}

fn adaptive_average(x: &Tensor, sizes: &[usize]) -> Result<Tensor, Reject> {
    if x.numel() == 0 || sizes.contains(&0) || !x.dtype().is_float() {
        return Err("an empty tensor".into());
    }
    Ok(match sizes {
        [a] => x.adaptive_avg_pool1d([*a]),
        [a, b] => x.adaptive_avg_pool2d([*a, *b]),
        [a, b, c] => x.adaptive_avg_pool3d([*a, *b, *c]),
        _ => return Err("a number of axes".into()),
    })
}

/// The maximum of each window, as many as asked for, and its index in the plane.
fn adaptive_max(c: &Call<'_>) -> Outcome {
    let (x, out) = (c.tensor(0)?, c.shape_list(1)?);
    let axes = out.len();
    if x.numel() == 0 || out.contains(&0) || !x.dtype().is_float() || x.rank() - axes + 2 * axes > thalweg::MAX_RANK {
        return Err("an empty tensor, or integers".into());
    }
    let lead = x.rank() - axes;
    let plane: Vec<usize> = x.dims()[lead..].to_vec();
    let numbers = Tensor::arange_with(plane.iter().product::<usize>(), (DType::I64, x.device())).reshape(&plane[..]);
    let (mut values, mut numbers) = (x.clone(), numbers);
    let mut inside: Option<Tensor> = None;
    for (i, (&n, &size)) in out.iter().zip(&plane).enumerate() {
        let bounds: Vec<(usize, usize)> = (0..n).map(|j| (j * size / n, ((j + 1) * size).div_ceil(n))).collect();
        let longest = bounds.iter().map(|b| b.1 - b.0).max().ok_or("no window")?;
        let at = |f: &dyn Fn(usize, usize) -> i64| -> Vec<i64> {
            bounds.iter().flat_map(|&(a, b)| (a..a + longest).map(move |p| (p, b))).map(|(p, b)| f(p, b)).collect()
        };
        let places = Tensor::from_slice(&at(&|p, b| p.min(b - 1) as i64), [n * longest]);
        let valid = Tensor::from_slice(&at(&|p, b| i64::from(p < b)), [n, longest]).ne(0);
        // Axis `i` becomes the windows and, behind all others, the elements within.
        let parted = |t: &Tensor, a: usize| t.index_select(a, &places).unflatten(a, [n, longest]).movedim(a + 1, -1);
        values = parted(&values, lead + i);
        numbers = parted(&numbers, i);
        let mut dims = vec![1; axes + i + 1];
        (dims[i], dims[axes + i]) = (n, longest);
        let valid = valid.reshape(&dims[..]);
        inside = Some(match inside {
            Some(all) => all.unsqueeze(-1) & valid,
            None => valid,
        });
    }
    let inside = inside.ok_or("no window")?;
    let values = inside.where_(values, f64::NEG_INFINITY).flatten_axes((lead + axes) as i64, -1);
    let index = values.argmax(-1);
    let numbers = numbers.flatten_axes(axes as i64, -1).broadcast_to(*values.shape());
    Ok((values.amax(-1), numbers.gather(-1, &index.unsqueeze(-1)).squeeze(-1)).into())
}

fn interpolated(x: &Tensor, sizes: &[usize], by: Interpolation) -> Result<Tensor, Reject> {
    if !x.dtype().is_float() || x.numel() == 0 {
        return Err("integers".into());
    }
    Ok(x.interpolate(sizes, by))
}

/// Gradient of an interpolation: arguments dy, sizes of the result, sizes of the input, and where scales begin.
fn interpolation_backward(c: &Call<'_>, by: Interpolation, scales: usize) -> Outcome {
    let (dy, out, size) = (c.tensor(0)?, c.shape_list(1)?, c.shape(2)?);
    for (i, &n) in out.iter().enumerate() {
        let scale = c.float_or(scales + i, 0.0)?;
        let own = size.dims()[i + 2];
        if scale > 0.0 && (own as f64 * scale) != n as f64 {
            return Err("a scale that is no ratio of sizes".into());
        }
    }
    let x = Tensor::zeros_with(size, (dy.dtype(), dy.device()));
    Ok(pulled(&x, dy, |x| interpolated(x, &out, by))?.into())
}

/// Padding by the tensor's own elements, of the last dimensions from the innermost on; negative widths cut off.
fn bordered(x: &Tensor, pads: &[i64], border: Border) -> Result<Tensor, Reject> {
    if x.numel() == 0 {
        return Err("an empty tensor".into());
    }
    let mut widths = vec![(0, 0); x.rank()];
    for (i, pair) in pads.chunks(2).enumerate() {
        widths[x.rank() - 1 - i] = (pair[0].max(0) as usize, pair[1].max(0) as usize);
    }
    let mut y = x.pad(&widths, border);
    for (i, pair) in pads.chunks(2).enumerate() {
        let at = y.rank() - 1 - i;
        let cut = |w: i64| (-w).max(0) as usize;
        let left = y.dims()[at].checked_sub(cut(pair[0]) + cut(pair[1])).ok_or("a negative size")?;
        y = y.narrow(at, cut(pair[0]), left);
    }
    Ok(y)
}

fn edge(c: &Call<'_>) -> Outcome {
    Ok(bordered(c.tensor(0)?, &c.ints(1)?, Border::Edge)?.into())
}

fn reflect(c: &Call<'_>) -> Outcome {
    Ok(bordered(c.tensor(0)?, &c.ints(1)?, Border::Reflect)?.into())
}

/// Gradient of [`bordered`].
fn border_backward(c: &Call<'_>, border: Border) -> Outcome {
    let (dy, x, pads) = (c.tensor(0)?, c.tensor(1)?, c.ints(2)?);
    if dy.numel() == 0 {
        return Err("an empty tensor".into());
    }
    Ok(pulled(x, dy, |x| bordered(x, &pads, border))?.into())
}

fn edge_backward(c: &Call<'_>) -> Outcome {
    border_backward(c, Border::Edge)
}

fn reflect_backward(c: &Call<'_>) -> Outcome {
    border_backward(c, Border::Reflect)
}

fn linear(align_corners: bool) -> Interpolation {
    Interpolation::Linear { align_corners }
}

pub const ROWS: &[Row] = &[
    ("aten.convolution.default", convolution),
    ("aten.convolution_backward.default", convolution_backward),
    ("aten.avg_pool1d.default", |c| Ok(averaged(c.tensor(0)?, c, 1, 1)?.into())),
    ("aten.avg_pool2d.default", |c| Ok(averaged(c.tensor(0)?, c, 1, 2)?.into())),
    ("aten.avg_pool3d.default", |c| Ok(averaged(c.tensor(0)?, c, 1, 3)?.into())),
    ("aten.avg_pool2d_backward.default", |c| Ok(pulled(c.tensor(1)?, c.tensor(0)?, |x| averaged(x, c, 2, 2))?.into())),
    ("aten.avg_pool3d_backward.default", |c| Ok(pulled(c.tensor(1)?, c.tensor(0)?, |x| averaged(x, c, 2, 3))?.into())),
    ("aten.max_pool2d_with_indices.default", |c| max_pool(c, 2)),
    ("aten.max_pool3d_with_indices.default", |c| max_pool(c, 3)),
    ("aten.max_pool2d_with_indices_backward.default", |c| scattered(c.tensor(0)?, c.tensor(1)?, c.tensor(7)?, 2)),
    ("aten.max_pool3d_with_indices_backward.default", |c| scattered(c.tensor(0)?, c.tensor(1)?, c.tensor(7)?, 3)),
    ("aten.adaptive_max_pool2d_backward.default", |c| scattered(c.tensor(0)?, c.tensor(1)?, c.tensor(2)?, 2)),
    ("aten.adaptive_max_pool3d_backward.default", |c| scattered(c.tensor(0)?, c.tensor(1)?, c.tensor(2)?, 3)),
    ("aten.fractional_max_pool2d_backward.default", |c| scattered(c.tensor(0)?, c.tensor(1)?, c.tensor(4)?, 2)),
    ("aten.fractional_max_pool3d_backward.default", |c| scattered(c.tensor(0)?, c.tensor(1)?, c.tensor(4)?, 3)),
    ("aten.adaptive_max_pool2d.default", adaptive_max),
    ("aten.adaptive_max_pool3d.default", adaptive_max),
    ("aten._adaptive_avg_pool2d.default", |c| Ok(adaptive_average(c.tensor(0)?, &c.shape_list(1)?)?.into())),
    ("aten._adaptive_avg_pool3d.default", |c| Ok(adaptive_average(c.tensor(0)?, &c.shape_list(1)?)?.into())),
    ("aten._adaptive_avg_pool2d_backward.default", |c| {
        let (dy, x) = (c.tensor(0)?, c.tensor(1)?);
        let sizes = dy.dims()[dy.rank() - 2..].to_vec();
        Ok(pulled(x, dy, |x| adaptive_average(x, &sizes))?.into())
    }),
    ("aten._adaptive_avg_pool3d_backward.default", |c| {
        let (dy, x) = (c.tensor(0)?, c.tensor(1)?);
        let sizes = dy.dims()[dy.rank() - 3..].to_vec();
        Ok(pulled(x, dy, |x| adaptive_average(x, &sizes))?.into())
    }),
    ("aten.replication_pad1d.default", edge),
    ("aten.replication_pad2d.default", edge),
    ("aten.replication_pad3d.default", edge),
    ("aten.reflection_pad1d.default", reflect),
    ("aten.reflection_pad2d.default", reflect),
    ("aten.reflection_pad3d.default", reflect),
    ("aten.reflection_pad1d_backward.default", reflect_backward),
    ("aten.reflection_pad2d_backward.default", reflect_backward),
    ("aten.reflection_pad3d_backward.default", reflect_backward),
    ("aten.replication_pad1d_backward.default", edge_backward),
    ("aten.replication_pad2d_backward.default", edge_backward),
    ("aten.replication_pad3d_backward.default", edge_backward),
    ("aten.upsample_nearest1d_backward.default", |c| interpolation_backward(c, Interpolation::Nearest, 3)),
    ("aten.upsample_nearest2d_backward.default", |c| interpolation_backward(c, Interpolation::Nearest, 3)),
    ("aten.upsample_nearest3d_backward.default", |c| interpolation_backward(c, Interpolation::Nearest, 3)),
    ("aten.upsample_linear1d_backward.default", |c| interpolation_backward(c, linear(c.flag(3)?), 4)),
    ("aten.upsample_bilinear2d_backward.default", |c| interpolation_backward(c, linear(c.flag(3)?), 4)),
    ("aten.upsample_trilinear3d_backward.default", |c| interpolation_backward(c, linear(c.flag(3)?), 4)),
    ("aten.upsample_bicubic2d_backward.default", |c| {
        interpolation_backward(c, Interpolation::Cubic { align_corners: c.flag(3)? }, 4)
    }),
];
