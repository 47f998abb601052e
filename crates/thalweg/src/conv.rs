//! Convolutions and transposed convolutions, as compositions of views and a matrix product.
//!
//! A convolution multiplies the weights, `[out, in·kernel]`, by all windows of its input, `[in·kernel, windows]`
//! (im2col). The windows are a view: they are materialized only where a panel of the product is packed, so an unrolled
//! input is never in memory. A bias or an activation that follows is an epilogue of the product. A depthwise
//! convolution has one channel in each sum, and no two sums share a factor: it is a sum of shifted inputs, each times a
//! weight.
//!
//! * `library`: convolutions by a routine of the device's library, where there is one.

mod library;

use crate::record::{check_alike, widened, wrong_dtype};
use crate::sweep::{Each, Padding, Sweep, joined, samples, unsampled};
use crate::tunable::TUNABLES;
use crate::{Backward, DType, Scalar, Tensor, custom_grad};
use thalweg_ir::ConvolutionPass;
use thalweg_kernel::Contracts;

/// Options of a convolution. Defaults: stride 1, no padding, no dilation, one group.
///
/// ```
/// # use thalweg::{Conv, Padding, Tensor};
/// let (x, w) = (Tensor::randn([1, 4, 9, 9]), Tensor::randn([8, 2, 3, 3]));
/// let y = x.conv2d(&w, None, Conv::default().stride(2).padding(1).groups(2));
/// assert_eq!(y.dims(), [1, 8, 5, 5]);
/// let y = x.conv2d(&w, None, Conv::default().dilation([1, 2]).padding(Padding::Same).groups(2));
/// assert_eq!(y.dims(), [1, 8, 9, 9]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Conv<const N: usize> {
    stride: [usize; N],
    padding: Padding<N>,
    dilation: [usize; N],
    groups: usize,
    channels_last: bool,
}

impl<const N: usize> Default for Conv<N> {
    fn default() -> Conv<N> {
        Conv { stride: [1; N], padding: Padding::Valid, dilation: [1; N], groups: 1, channels_last: false }
    }
}

impl<const N: usize> Conv<N> {
    /// Sets the distance between windows, in elements.
    pub fn stride(self, stride: impl Into<Each<N>>) -> Conv<N> {
        Conv { stride: stride.into().0, ..self }
    }

    /// Sets the zeros around the input: a number, or [`Padding::Same`].
    pub fn padding(self, padding: impl Into<Padding<N>>) -> Conv<N> {
        Conv { padding: padding.into(), ..self }
    }

    /// Sets the distance between the elements of a window.
    pub fn dilation(self, dilation: impl Into<Each<N>>) -> Conv<N> {
        Conv { dilation: dilation.into().0, ..self }
    }

    /// Splits the channels into groups, each with its own convolution.
    pub fn groups(self, groups: usize) -> Conv<N> {
        Conv { groups, ..self }
    }

    /// Says that channels are the last dimension in memory (PyTorch's `channels_last`), though the second one of the
    /// tensors, which are permuted views. Results are the same. A library then computes in that order, and the result
    /// is such a view, too.
    pub fn channels_last(self, channels_last: bool) -> Conv<N> {
        Conv { channels_last, ..self }
    }
}

/// Options of a transposed convolution. Defaults: stride 1, no padding, no dilation, one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct ConvTranspose<const N: usize> {
    stride: [usize; N],
    padding: [(usize, usize); N],
    output_padding: [usize; N],
    dilation: [usize; N],
    groups: usize,
    channels_last: bool,
}

impl<const N: usize> Default for ConvTranspose<N> {
    fn default() -> ConvTranspose<N> {
        let (padding, output_padding) = ([(0, 0); N], [0; N]);
        ConvTranspose { stride: [1; N], padding, output_padding, dilation: [1; N], groups: 1, channels_last: false }
    }
}

impl<const N: usize> ConvTranspose<N> {
    /// Sets the distance between the elements of the input, in elements of the result.
    pub fn stride(self, stride: impl Into<Each<N>>) -> ConvTranspose<N> {
        ConvTranspose { stride: stride.into().0, ..self }
    }

    /// Sets the number of elements cut off at each side of the result.
    pub fn padding(self, padding: impl Into<Each<N>>) -> ConvTranspose<N> {
        ConvTranspose { padding: padding.into().0.map(|p| (p, p)), ..self }
    }

    /// Sets the number of elements added at the end of the result.
    pub fn output_padding(self, more: impl Into<Each<N>>) -> ConvTranspose<N> {
        ConvTranspose { output_padding: more.into().0, ..self }
    }

    /// Sets the distance between the elements of the kernel.
    pub fn dilation(self, dilation: impl Into<Each<N>>) -> ConvTranspose<N> {
        ConvTranspose { dilation: dilation.into().0, ..self }
    }

    /// Splits the channels into groups, each with its own transposed convolution.
    pub fn groups(self, groups: usize) -> ConvTranspose<N> {
        ConvTranspose { groups, ..self }
    }

    /// As [`Conv::channels_last`].
    pub fn channels_last(self, channels_last: bool) -> ConvTranspose<N> {
        ConvTranspose { channels_last, ..self }
    }
}

/// Kernel sizes of a convolution: the last `N` sizes of its weights.
fn kernel_of<const N: usize>(weight: &Tensor) -> [usize; N] {
    weight.dims()[2..].try_into().expect("weights were checked to have that rank")
}

/// Adds a bias per channel to a result, whose channels are dimension 1 and are followed by `axes` dimensions.
fn biased(sums: Tensor, bias: Option<&Tensor>, axes: usize) -> Tensor {
    match bias {
        Some(bias) => sums + bias.reshaped(joined(bias.dims(), &vec![1; axes])),
        None => sums,
    }
}

/// Checks dtypes, devices, rank and groups of a convolution.
#[track_caller]
fn check<const N: usize>(name: &str, x: &Tensor, weight: &Tensor, groups: usize) {
    check_alike(name, x, weight);
    if x.dtype() == DType::Bool {
        wrong_dtype(name, "a float or integer dtype", x.dtype());
    }
    if weight.rank() != N + 2 {
        panic!("{name}: takes weights of rank {}, not shape {}", N + 2, weight.shape());
    }
    if groups == 0 {
        panic!("{name}: 0 groups for shapes {} and {}", x.shape(), weight.shape());
    }
}

#[track_caller]
fn check_bias(name: &str, bias: Option<&Tensor>, weight: &Tensor, channels: usize) {
    if let Some(bias) = bias {
        check_alike(name, weight, bias);
        if bias.dims() != [channels] {
            panic!("{name}: a bias of shape {} for {channels} channels of weights {}", bias.shape(), weight.shape());
        }
    }
}

/// The product of weights `[groups, out, in·kernel]` and all windows of a padded input:
/// `[samples, groups·out, windows]`.
#[track_caller]
fn products<const N: usize>(x: &Tensor, weight: &Tensor, sweep: &Sweep<N>) -> Tensor {
    products_of(weight, sweep.windows(x), sweep)
}

/// Like [`products`], of windows `[samples, in, kernel…, windows…]`.
#[track_caller]
fn products_of<const N: usize>(weight: &Tensor, windows: Tensor, sweep: &Sweep<N>) -> Tensor {
    let (n, groups, outer) = (windows.dims()[0], weight.dims()[0], weight.dims()[1]);
    let (terms, points) = (weight.dims()[2], sweep.out.iter().product::<usize>());
    if groups == 1 && n > 1 && !TUNABLES.min_windows_of_sample.reached_by(points) {
        // Windows of all samples become the columns of one matrix, for a single product.
        let rank = windows.rank();
        let order: Vec<usize> = (1..rank - N).chain([0]).chain(rank - N..rank).collect();
        let sums = weight.squeeze(0).matmul(&windows.permute(order).reshape([terms, n * points]));
        return sums.reshape([outer, n, points]).transpose(0, 1);
    }
    let sums = match groups {
        1 => weight.squeeze(0).matmul(&windows.reshape([n, terms, points])),
        _ => weight.matmul(&windows.reshape([n, groups, terms, points])),
    };
    sums.reshape([n, groups * outer, points])
}

#[track_caller]
fn conv<const N: usize>(
    name: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: Conv<N>,
) -> Tensor {
    let Conv { stride, padding, dilation, groups, channels_last } = options;
    check::<N>(name, x, weight, groups);
    let (x, added) = samples::<N>(name, x);
    let (n, channels) = (x.dims()[0], x.dims()[1]);
    let (outer, inner) = (weight.dims()[0], weight.dims()[1]);
    if inner * groups != channels || !outer.is_multiple_of(groups) {
        panic!(
            "{name}: weights of shape {} do not fit the {channels} channels of {} in {groups} groups",
            weight.shape(),
            x.shape()
        );
    }
    check_bias(name, bias, weight, outer);
    let kernel = kernel_of::<N>(weight);
    let sweep = Sweep::new(name, &x, kernel, (stride, dilation), padding);
    let out = joined(&[n, outer], &sweep.out);
    let taps: usize = kernel.iter().product();
    let described = library::described((x.dims(), outer), &sweep, groups, x.dtype(), channels_last);
    if let Some(sums) = library::convolved(name, ConvolutionPass::Forward, (&x, weight), described) {
        return unsampled(biased(sums, bias, N), added);
    }
    if groups > 1 && inner == 1 && TUNABLES.max_depthwise_taps.admits(taps) {
        let padded = move |x: &Tensor| sweep.padded(x, Scalar::Int(0));
        // The derived gradient of the input adds a padded tensor for each element of a window.
        if !(x.is_tracked() && outer == channels && x.numel() > 0 && has_own_gradient(&x, stride)) {
            return unsampled(depthwise(&padded(&x), weight, bias, &sweep).reshaped(out), added);
        }
        let way = transpose_of(&x, &sweep, groups);
        let backward = move |Backward { inputs: (x, w), gradients: dy, .. }: Backward<(Tensor, Tensor), Tensor>| {
            let (dy, wide) = (dy.reshaped(out), widened(&padded(&x)));
            let axes: Vec<usize> = (0..N + 2).filter(|&i| i != 1).collect();
            let of_tap = |at| (sweep.element(&wide, at) * widened(&dy)).sum(&axes);
            let of_weights: Vec<Tensor> = sweep.positions().map(of_tap).collect();
            let dw = Tensor::stack(&of_weights, 1).reshaped(*w.shape()).cast(w.dtype());
            (conv_transpose::<N>(name, &dy, &w, None, way), dw)
        };
        let of = |(x, w): (Tensor, Tensor)| depthwise(&padded(&x), &w, None, &sweep).reshaped(out);
        return match bias {
            // The bias is added before the sum is rounded.
            Some(_) if matches!(x.dtype(), DType::BF16 | DType::F16) => {
                unsampled(depthwise(&padded(&x), weight, bias, &sweep).reshaped(out), added)
            }
            _ => unsampled(biased(custom_grad((&x, weight), of, backward), bias, N), added),
        };
    }
    let of = move |x: &Tensor, weight: &Tensor| {
        let weight = weight.reshape([groups, outer / groups, inner * taps]);
        products(&sweep.padded(x, Scalar::Int(0)), &weight, &sweep)
    };
    let tracked = x.is_tracked() || weight.is_tracked();
    let sums = if tracked && x.numel() > 0 && has_own_gradient(&x, stride) {
        let way = transpose_of(&x, &sweep, groups);
        let backward = move |Backward { inputs: (x, w), gradients: dy, .. }: Backward<(Tensor, Tensor), Tensor>| {
            let dy = dy.reshaped(out);
            (conv_transpose::<N>(name, &dy, &w, None, way), of_weights(&x, &dy, &sweep, groups).reshape(*w.shape()))
        };
        custom_grad((&x, weight), |(x, w)| of(&x, &w), backward)
    } else {
        of(&x, weight)
    };
    unsampled(biased(sums, bias, 1).reshaped(out), added)
}

/// Whether the tensor's device packs windows of any steps from memory at the speed of contiguous ones: a CPU.
fn packs_windows(x: &Tensor) -> bool {
    x.device().0.device().contracts() == Contracts::Rows
}

/// Whether a convolution has a gradient of its own. With a stride above 1 it is a transposed convolution by residue
/// classes, whose products a GPU has not been measured with.
fn has_own_gradient<const N: usize>(x: &Tensor, stride: [usize; N]) -> bool {
    stride == [1; N] || packs_windows(x)
}

/// Options of the transposed convolution that computes the gradient of a convolution's input.
fn transpose_of<const N: usize>(x: &Tensor, sweep: &Sweep<N>, groups: usize) -> ConvTranspose<N> {
    let Sweep { stride, pads, dilation, .. } = *sweep;
    // Elements after the last window are in none.
    let output_padding = std::array::from_fn(|i| {
        x.dims()[2 + i] + pads[i].0 + pads[i].1 - (sweep.out[i] - 1) * stride[i] - sweep.span(i)
    });
    ConvTranspose { stride, padding: pads, output_padding, dilation, groups, channels_last: false }
}

/// The gradient of a convolution's weights, `[groups, out, in·kernel]`: the sum over all windows of all samples of the
/// result's gradient times the window.
#[track_caller]
fn of_weights<const N: usize>(x: &Tensor, dy: &Tensor, sweep: &Sweep<N>, groups: usize) -> Tensor {
    let windows = sweep.windows(&sweep.padded(x, Scalar::Int(0)));
    let (n, outer, points) = (x.dims()[0], dy.dims()[1], sweep.out.iter().product::<usize>());
    let terms = x.dims()[1] / groups * sweep.kernel.iter().product::<usize>();
    let rank = windows.rank();
    let order: Vec<usize> = (1..rank - N).chain([0]).chain(rank - N..rank).collect();
    let windows = windows.permute(order).reshape([groups, terms, n * points]);
    let dy = dy.reshape([n, outer, points]).transpose(0, 1).reshape([groups, outer / groups, n * points]);
    match groups {
        1 => dy.squeeze(0).matmul(&windows.squeeze(0).transpose(0, 1)).unsqueeze(0),
        _ => dy.matmul(&windows.transpose(1, 2)),
    }
}

/// A depthwise convolution as a sum of shifted inputs, each times a weight:
/// `[samples, channels, outputs of each, windows…]`.
#[track_caller]
fn depthwise<const N: usize>(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, sweep: &Sweep<N>) -> Tensor {
    let (channels, each) = (x.dims()[1], weight.dims()[0] / x.dims()[1].max(1));
    let (wide, weight) = (widened(x), widened(weight));
    let ones = [1; N];
    let of = |t: &Tensor| t.reshaped(joined(&[channels, each], &ones));
    let mut sum: Option<Tensor> = None;
    for at in sweep.positions() {
        let mut parts = crate::slice::whole(weight.dims());
        (0..N).for_each(|i| parts[2 + i] = (at[i] as i64, 1, 1));
        let product = sweep.element(&wide, at).unsqueeze(2) * of(&weight.sliced(&parts[..N + 2]));
        sum = Some(match sum {
            Some(sum) => sum + product,
            None => product,
        });
    }
    let sum = sum.expect("a kernel has an element");
    match bias {
        Some(bias) => sum + of(&widened(bias)),
        None => sum,
    }
    .cast(x.dtype())
}

#[track_caller]
fn conv_transpose<const N: usize>(
    name: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: ConvTranspose<N>,
) -> Tensor {
    let ConvTranspose { stride, padding, output_padding, dilation, groups, channels_last } = options;
    check::<N>(name, x, weight, groups);
    let (x, added) = samples::<N>(name, x);
    let (n, channels) = (x.dims()[0], x.dims()[1]);
    let each = weight.dims()[1];
    if weight.dims()[0] != channels || !channels.is_multiple_of(groups) {
        panic!(
            "{name}: weights of shape {} do not fit the {channels} channels of {} in {groups} groups",
            weight.shape(),
            x.shape()
        );
    }
    check_bias(name, bias, weight, each * groups);
    let kernel = kernel_of::<N>(weight);
    if kernel.contains(&0) || stride.contains(&0) || dilation.contains(&0) {
        panic!("{name}: kernel {kernel:?}, stride {stride:?} and dilation {dilation:?} must be above 0");
    }
    let mut out = [0; N];
    for i in 0..N {
        let (s, d, size) = (stride[i], dilation[i], x.dims()[2 + i]);
        let (before, after) = padding[i];
        if output_padding[i] >= s.max(d) {
            panic!("{name}: output padding {output_padding:?} is not below stride {stride:?} or dilation {dilation:?}");
        }
        let all = if size == 0 { 0 } else { (size - 1) * s + d * (kernel[i] - 1) + 1 + output_padding[i] };
        let Some(inside) = all.checked_sub(before + after).filter(|&o| o > 0) else {
            panic!("{name}: padding {padding:?} leaves nothing of axis {} of {}", i + 2, x.shape());
        };
        out[i] = inside;
    }
    let shape = joined(&[n, each * groups], &out);
    let transposed = Transposed { stride, dilation, before: padding.map(|p| p.0), kernel, groups, out };
    // The result has as many windows as the input has elements, unless more elements were added than a stride.
    let whole = (0..N).all(|i| output_padding[i] < stride[i]);
    if whole {
        // It is the gradient of a convolution's input, whose windows are the elements of `x`.
        let windows: [usize; N] = x.dims()[2..].try_into().expect("it was checked to have that rank");
        let sweep = Sweep { kernel, stride, dilation, pads: padding, out: windows };
        let described = library::described((shape.dims(), channels), &sweep, groups, x.dtype(), channels_last);
        if let Some(sums) = library::convolved(name, ConvolutionPass::InputGradient, (&x, weight), described) {
            return unsampled(biased(sums, bias, N), added);
        }
    }
    let tracked = x.is_tracked() || weight.is_tracked();
    let sums = if tracked && x.numel() > 0 && whole && packs_windows(&x) {
        let backward = move |Backward { inputs: (x, w), gradients: dy, .. }: Backward<(Tensor, Tensor), Tensor>| {
            let dy = dy.reshaped(shape);
            let options = Conv { stride, padding: Padding::Explicit(padding), dilation, groups, channels_last };
            let sweep = Sweep::new(name, &dy, kernel, (stride, dilation), options.padding);
            (conv::<N>(name, &dy, &w, None, options), of_weights(&dy, &x, &sweep, groups).reshape(*w.shape()))
        };
        custom_grad((&x, weight), move |(x, w)| transposed.of(name, &x, &w), backward)
    } else {
        transposed.of(name, &x, weight)
    };
    unsampled(biased(sums.reshaped(shape), bias, N), added)
}

/// Geometry of a transposed convolution.
#[derive(Clone, Copy)]
struct Transposed<const N: usize> {
    stride: [usize; N],
    dilation: [usize; N],
    /// Number of elements cut off before each axis of the result.
    before: [usize; N],
    kernel: [usize; N],
    groups: usize,
    /// Sizes of the result.
    out: [usize; N],
}

/// Part of a transposed convolution along an axis that computes the elements `class`, `class + stride`, … of the result:
/// a convolution of stride 1 with every `every`-th weight from `first` on. Its windows have `taps` elements,
/// `dilation` apart; weight `first` meets element `start`, the next one the element `dilation` before it.
#[derive(Clone, Copy, Default)]
struct Residue {
    first: usize,
    every: usize,
    taps: usize,
    dilation: usize,
    start: i64,
}

impl<const N: usize> Transposed<N> {
    /// The result without a bias.
    #[track_caller]
    fn of(&self, name: &str, x: &Tensor, weight: &Tensor) -> Tensor {
        let rows = weight.dims()[1];
        // Without waste: all residue classes have as many weights, and one product has windows for all of them.
        let exact = (0..N).all(|i| self.dilation[i] == 1 && self.kernel[i].is_multiple_of(self.stride[i]));
        let aligned =
            (0..N).all(|i| self.before[i].is_multiple_of(self.stride[i]) && self.out[i].is_multiple_of(self.stride[i]));
        let joint = !self.is_depthwise(x, weight)
            && (!packs_windows(x)
                || self.stride != [1; N] && exact && (aligned || TUNABLES.max_joint_rows.admits(rows)));
        if joint { self.jointly(name, x, weight) } else { self.by_residues(name, x, weight) }
    }

    /// Whether each channel of the result is a sum of few shifted copies of one channel of the input.
    fn is_depthwise(&self, x: &Tensor, weight: &Tensor) -> bool {
        let alone = self.groups > 1 && self.groups == x.dims()[1] && weight.dims()[1] == 1;
        alone && TUNABLES.max_depthwise_taps.admits(self.kernel.iter().product())
    }

    /// Splits an axis by the residue classes of the stride.
    fn residue(&self, axis: usize, class: usize) -> Residue {
        let (s, d) = (self.stride[axis], self.dilation[axis]);
        // Element `s·t + class` of the result is the sum of w[k]·x[t + (class + before - d·k) / s] over the k for which
        // that is an integer.
        let at = class + self.before[axis];
        let Some(first) = (0..self.kernel[axis].min(s)).find(|k| (at as i64 - (d * k) as i64) % s as i64 == 0) else {
            return Residue::default();
        };
        let common = (1..=s.min(d)).rev().find(|c| s.is_multiple_of(*c) && d.is_multiple_of(*c)).unwrap_or(1);
        let every = s / common;
        let taps = (self.kernel[axis] - first).div_ceil(every);
        Residue { first, every, taps, dilation: d / common, start: (at as i64 - (d * first) as i64) / s as i64 }
    }

    /// A product for each residue class of the stride, with the weights that meet elements of the input. Results are
    /// interleaved.
    #[track_caller]
    fn by_residues(&self, name: &str, x: &Tensor, weight: &Tensor) -> Tensor {
        let (n, rows) = (x.dims()[0], weight.dims()[1] * self.groups);
        let count: [usize; N] = std::array::from_fn(|i| self.out[i].div_ceil(self.stride[i]));
        let classes: usize = self.stride.iter().product();
        let mut all: Vec<Tensor> = (0..classes)
            .map(|mut number| {
                let mut residues = [Residue::default(); N];
                for i in (0..N).rev() {
                    residues[i] = self.residue(i, number % self.stride[i]);
                    number /= self.stride[i];
                }
                if residues.iter().any(|r| r.taps == 0) {
                    return Tensor::full_with(joined(&[n, rows], &count), 0, (x.dtype(), x.device()));
                }
                self.of_residues(name, x, weight, &residues, count).reshaped(joined(&[n, rows], &count))
            })
            .collect();
        // Interleaved along one axis after the other, the innermost first.
        let outermost = (0..N).find(|&i| self.stride[i] > 1);
        for i in (0..N).rev().filter(|&i| self.stride[i] > 1) {
            let one = |classes: &[Tensor]| interleaved(classes, 2 + i, self.out[i], Some(i) == outermost);
            all = all.chunks(self.stride[i]).map(one).collect();
        }
        all.swap_remove(0)
    }

    /// The elements of one residue class: a convolution of stride 1.
    #[track_caller]
    fn of_residues(
        &self,
        name: &str,
        x: &Tensor,
        weight: &Tensor,
        residues: &[Residue; N],
        count: [usize; N],
    ) -> Tensor {
        let taps: [usize; N] = residues.map(|r| r.taps);
        let mut own = crate::slice::whole(weight.dims());
        let mut seen = [(0, 0); N];
        for (i, r) in residues.iter().enumerate() {
            own[2 + i] = (r.first as i64, r.every as i64, r.taps);
            let reach = (r.taps - 1) * r.dilation;
            seen[i] = (reach as i64 - r.start, count[i] + reach);
        }
        let (inner, each) = (weight.dims()[0] / self.groups, weight.dims()[1]);
        let window: usize = taps.iter().product();
        let own = weight.sliced(&own[..N + 2]);
        let input = x.shifted(2, &seen);
        let sweep = Sweep::new(name, &input, taps, ([1; N], residues.map(|r| r.dilation)), Padding::Valid);
        debug_assert_eq!(sweep.out, count);
        let axes: Vec<usize> = (2..2 + N).collect();
        if self.is_depthwise(x, weight) {
            return depthwise(&input, &own.flip(axes), None, &sweep);
        }
        let own = own.reshape([self.groups, inner, each, window]);
        let own = own.permute([0, 2, 1, 3]).reshape([self.groups, each, inner * window]);
        // The windows are flipped, not the weights: packing follows any steps between the terms of a window.
        products_of(&own, sweep.windows(&input).flip(axes), &sweep)
    }

    /// One product for all residue classes of the stride, with `s` times the rows, whose results are interleaved with
    /// stride `s`. The kernel is padded with zeros to a multiple of the stride.
    #[track_caller]
    fn jointly(&self, name: &str, x: &Tensor, weight: &Tensor) -> Tensor {
        let Transposed { stride, dilation, before, kernel, groups, out } = *self;
        let (n, outer) = (x.dims()[0], weight.dims()[1] * groups);
        // Element s·q + r of the result is the sum of w[r + s·j]·x[q - j] over j: for each r of 0..s, a convolution with
        // every s-th weight.
        let (mut taps, mut first, mut count) = ([0; N], [0; N], [0; N]);
        let (mut weight, mut seen) = (weight.clone(), [(0, 0); N]);
        for i in 0..N {
            let (s, d) = (stride[i], dilation[i]);
            let span = d * (kernel[i] - 1) + 1;
            // With a stride of 1 the windows are dilated, else the weights, because each result uses only some of them.
            let (tapped, reach) = if s == 1 { (kernel[i], span - 1) } else { (span.div_ceil(s), span.div_ceil(s) - 1) };
            if s > 1 {
                weight = weight.dilated(2 + i, d).padded_to(2 + i, tapped * s);
            }
            (taps[i], first[i]) = (tapped, before[i] / s);
            count[i] = (before[i] + out[i]).div_ceil(s) - first[i];
            seen[i] = (reach as i64 - first[i] as i64, count[i] + reach);
        }
        let input = x.shifted(2, &seen);
        let own = std::array::from_fn(|i| if stride[i] == 1 { dilation[i] } else { 1 });
        let sweep = Sweep::new(name, &input, taps, ([1; N], own), Padding::Valid);
        debug_assert_eq!(sweep.out, count);
        let weight = phases(&weight, groups, taps, stride);
        let sums = products(&input, &weight, &sweep);
        let apart = sums.reshape([[n, outer].as_slice(), &stride, &count].concat());
        let order: Vec<usize> = [0, 1].into_iter().chain((0..N).flat_map(|i| [2 + N + i, 2 + i])).collect();
        let together: [usize; N] = std::array::from_fn(|i| stride[i] * count[i]);
        let whole = apart.permute(order).reshaped(joined(&[n, outer], &together));
        let mut parts = crate::slice::whole(whole.dims());
        (0..N).for_each(|i| parts[2 + i] = ((before[i] - first[i] * stride[i]) as i64, 1, out[i]));
        whole.sliced(&parts[..N + 2])
    }
}

/// The elements of some tensors, alternating along an axis up to size `out`. Elements past the last whole group are cut
/// off, or, with `apart`, only whole groups are interleaved and the others are appended: a slice of interleaved elements
/// has no strides. Stored between two axes it has some.
fn interleaved(classes: &[Tensor], axis: usize, out: usize, apart: bool) -> Tensor {
    let (groups, rest) = (out / classes.len(), out % classes.len());
    let together = |count: usize| {
        let whole: Vec<Tensor> = classes.iter().map(|class| class.part(axis, (0, 1, count))).collect();
        let mut shape = *whole[0].shape();
        shape.dims_mut()[axis] *= classes.len();
        Tensor::stack(&whole, axis + 1).reshaped(shape)
    };
    if rest == 0 || !apart {
        return together(out.div_ceil(classes.len())).part(axis, (0, 1, out));
    }
    let tail = classes[..rest].iter().map(|class| class.part(axis, (groups as i64, 1, 1)));
    match groups {
        0 => Tensor::cat(&tail.collect::<Vec<_>>(), axis),
        _ => Tensor::cat(&[together(groups)].into_iter().chain(tail).collect::<Vec<_>>(), axis),
    }
}

/// Weights of a transposed convolution, `[in, out of a group, taps·stride…]`, as `[groups, out·stride, in·taps]`, with
/// the taps reversed.
fn phases<const N: usize>(weight: &Tensor, groups: usize, taps: [usize; N], stride: [usize; N]) -> Tensor {
    let (inner, each) = (weight.dims()[0], weight.dims()[1]);
    let parted: Vec<usize> = [inner, each].into_iter().chain((0..N).flat_map(|i| [taps[i], stride[i]])).collect();
    let flipped = weight.reshape(parted).flip((0..N).map(|i| 2 + 2 * i).collect::<Vec<_>>());
    let order: Vec<usize> =
        [0, 1].into_iter().chain((0..N).map(|i| 3 + 2 * i)).chain((0..N).map(|i| 2 + 2 * i)).collect();
    let (rows, window): (usize, usize) = (each * stride.iter().product::<usize>(), taps.iter().product());
    let grouped = flipped.permute(order).reshape([groups, inner / groups, rows, window]);
    grouped.permute([0, 2, 1, 3]).reshape([groups, rows, inner / groups * window])
}

impl Tensor {
    /// The tensor with `step - 1` zeros between neighbouring elements of an axis.
    pub(crate) fn dilated(&self, axis: usize, step: usize) -> Tensor {
        let size = self.dims()[axis];
        if step == 1 || size <= 1 {
            return self.clone();
        }
        let mut apart = *self.shape();
        apart.dims_mut()[axis] = size * step;
        // The added dimension is merged with the axes after it, so that the rank stays within the limit.
        let inner: usize = self.dims()[axis + 1..].iter().product();
        let outer: usize = self.dims()[..axis].iter().product();
        let spread = self.reshape([outer * size, 1, inner]).pad([(0, 0), (0, step - 1), (0, 0)], 0).reshaped(apart);
        spread.part(axis, (0, 1, (size - 1) * step + 1))
    }

    /// The tensor with zeros appended along an axis up to that size.
    fn padded_to(&self, axis: usize, size: usize) -> Tensor {
        self.shifted(axis, &[(0, size)])
    }

    /// A window of the tensor, extended by zeros, along the axes from `axis` on. For each axis `seen` is
    /// `(first, size)`: the window has `size` elements, and the tensor's element 0 is its element `first`.
    fn shifted(&self, axis: usize, seen: &[(i64, usize)]) -> Tensor {
        let (mut kept, mut widths) = (self.clone(), [(0, 0); crate::MAX_RANK]);
        for (i, &(first, size)) in seen.iter().enumerate() {
            let own = self.dims()[axis + i] as i64;
            let (start, end) = ((-first).clamp(0, own), (size as i64 - first).clamp(0, own));
            let count = (end - start).max(0) as usize;
            kept = kept.part(axis + i, (start, 1, count));
            let before = first.clamp(0, size as i64) as usize;
            widths[axis + i] = (before, size - before - count);
        }
        kept.pad(&widths[..self.rank()], 0)
    }
}

macro_rules! convolutions {
    ($($n:literal $name:ident $transpose:ident $axes:literal $window:literal $sizes:literal $windows:literal $results:literal;)*) => {
        /// # Convolution
        ///
        /// Sums are those of [`matmul`](Tensor::matmul), with the same order and determinism: bf16 and f16 are
        /// accumulated in f32 and rounded once, then the bias is added; integers wrap. A depthwise convolution (one
        /// channel in each group) adds its window element by element, the last axis fastest, bf16 and f16 in f32 with
        /// the bias, rounded once. On a GPU with cuDNN its order of sums is the library's, and the bias is added to the
        /// rounded sum.
        impl Tensor {$(
            #[doc = concat!("The convolution of `[samples, in, ", $axes, "]` (or without samples) with weights `[out, in/groups, ", $window, "]`, PyTorch's layout, plus a bias for each output channel; a cross-correlation, as in all such libraries.")]
            ///
            /// ```
            /// # use thalweg::{Conv, Tensor};
            #[doc = concat!("let (x, weight) = (Tensor::ones([1, 2, ", $sizes, "]), Tensor::ones([3, 2, ", $windows, "]));")]
            #[doc = concat!("let y = x.", stringify!($name), "(&weight, None, Conv::default());")]
            #[doc = concat!("assert_eq!(y.dims(), [1, 3, ", $results, "]);")]
            /// ```
            ///
            /// # Panics
            /// When ranks, channels, groups or the bias do not match, no window fits, or dtypes differ or are bool.
            #[track_caller]
            pub fn $name(&self, weight: &Tensor, bias: Option<&Tensor>, options: Conv<$n>) -> Tensor {
                conv::<$n>(stringify!($name), self, weight, bias, options)
            }

            #[doc = concat!("The transpose of [`", stringify!($name), "`](Tensor::", stringify!($name), ") as a linear map, often called a deconvolution: `[samples, in, ", $axes, "]` (or without samples) with weights `[in, out/groups, ", $window, "]`, PyTorch's layout, plus a bias for each output channel. Along an axis of size `n` the result has `(n - 1)·stride + dilation·(kernel - 1) + 1 + output_padding` elements less those that the padding cuts off.")]
            ///
            /// One product computes all positions modulo the stride (the sub-pixel convolution of Shi et al. 2016),
            /// without zeros between the elements of the input. Sums are those of [`matmul`](Tensor::matmul).
            ///
            /// # Panics
            /// When ranks, channels, groups or the bias do not match, the padding leaves nothing, an output padding is
            /// not below the stride or the dilation, or dtypes differ or are bool.
            #[track_caller]
            pub fn $transpose(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvTranspose<$n>) -> Tensor {
                conv_transpose::<$n>(stringify!($transpose), self, weight, bias, options)
            }
        )*}
    };
}

convolutions! {
    1 conv1d conv_transpose1d "length" "kernel" "5" "3" "3";
    2 conv2d conv_transpose2d "height, width" "kernel, kernel" "5, 6" "3, 3" "3, 4";
    3 conv3d conv_transpose3d "depth, height, width" "kernel, kernel, kernel" "3, 4, 5" "2, 2, 2" "2, 3, 4";
}
