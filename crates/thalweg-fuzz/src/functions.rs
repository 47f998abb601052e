//! Library functions composed of recorded operations.
//!
//! Input: a seed, which chooses a function, dtypes, shapes and elements. The operations that the function records form
//! a program like any other, with all checks of [`Checker`]: fused, unfused, interpreted, with other drop points and on
//! many threads. (Golden cases compare values with other libraries; this checks that the composition is fused
//! correctly.) Functions that read intermediate values span several segments and are excluded.

use crate::check::{Checker, ExtraChecks};
use crate::generate;
use crate::gradients::{Interpreted, as_program};
use crate::program::Program;
use crate::tuning;
use fastrand::Rng;
use thalweg::prelude::*;
use thalweg::{Attention, Complex, Conv, ConvTranspose, Histogram, Indexing, Pool, QuantileMethod, raw};
use thalweg_ir::Shape;

/// Number of recorded operations at which other plans are no longer tried: searching for them takes many times as long.
const MAX_REPLANNED_STEPS: usize = 60;

/// Arguments of a function: two tensors of one dtype; the second broadcasts to the shape of the first.
struct Call<'a> {
    x: &'a Tensor,
    y: &'a Tensor,
    rng: &'a mut Rng,
}

impl Call<'_> {
    /// Elements of the first tensor in another shape, repeated if there are too few.
    fn filled<const N: usize>(&self, shape: [usize; N]) -> Tensor {
        let n: usize = shape.iter().product();
        let (x, copies) = (self.x.flatten(), n.div_ceil(self.x.numel()));
        // A kernel that reads a thousand parts of a concatenation takes the interpreter minutes.
        let all = match copies {
            0..=32 => Tensor::cat(&vec![x; copies], 0),
            _ => x.unsqueeze(0).expand([copies, self.x.numel()]).flatten(),
        };
        all.slice(..n as i64).reshape(shape)
    }

    fn axis(&mut self) -> usize {
        self.rng.usize(..self.x.rank())
    }

    fn size(&self, axis: usize) -> usize {
        self.x.dims()[axis]
    }

    /// Random range of an axis, with any step.
    fn range(&mut self, axis: usize) -> SliceArg {
        let n = self.size(axis) as i64;
        let (start, end) = (self.rng.i64(-n..=n), self.rng.i64(-n..=n));
        let step = [1, 1, 1, 2, 3, -1, -2][self.rng.usize(..7)];
        SliceArg::range(start, end, step)
    }

    fn ranges(&mut self) -> Vec<SliceArg> {
        (0..self.x.rank()).map(|axis| self.range(axis)).collect()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Floats,
    Integers,
    Numbers,
}

type Function = (&'static str, Takes, fn(&mut Call<'_>) -> Vec<Tensor>);

use Takes::*;

const FUNCTIONS: &[Function] = &[
    ("lgamma", Floats, |c| vec![c.x.lgamma()]),
    ("digamma", Floats, |c| vec![c.x.digamma()]),
    ("trigamma", Floats, |c| vec![c.x.trigamma()]),
    ("i0", Floats, |c| vec![c.x.i0(), c.x.i1()]),
    ("i0e", Floats, |c| vec![c.x.i0e() + c.x.i1e()]),
    ("erfinv", Floats, |c| vec![c.x.sin().erfinv()]),
    ("logaddexp", Floats, |c| vec![c.x.logaddexp(c.y), c.x.logaddexp2(1.5)]),
    ("xlogy", Floats, |c| vec![c.x.xlogy(c.y), c.x.xlog1py(c.y.abs())]),
    ("copysign", Floats, |c| vec![c.x.copysign(c.y), c.x.signbit()]),
    ("fmod", Numbers, |c| vec![c.x.fmod(c.y)]),
    ("heaviside", Floats, |c| vec![c.x.heaviside(c.y)]),
    ("nextafter", Floats, |c| vec![c.x.nextafter(c.y)]),
    ("round_to", Floats, |c| vec![c.x.round_to(c.rng.i32(-1..3))]),
    ("bits", Integers, |c| vec![c.x.bit_count(), c.x.leading_zeros() + c.x.trailing_zeros()]),
    ("quantile", Floats, |c| {
        use QuantileMethod::*;
        let axis = c.axis();
        let method = [Linear, Lower, Nearest, Midpoint, AveragedInvertedCdf, Hazen][c.rng.usize(..6)];
        vec![c.x.quantile_with([0.3, 0.5], axis, method), c.x.nanquantile(0.7, axis)]
    }),
    ("median", Floats, |c| vec![c.x.median(..), c.x.nanmedian_keepdim(c.axis())]),
    ("nan reductions", Floats, |c| {
        let axis = c.axis();
        vec![c.x.nanmean(axis), c.x.nanmax(axis), c.x.nanargmin(axis), c.x.nanvar_with(.., 1.0)]
    }),
    ("mode", Numbers, |c| {
        let (value, count) = c.x.mode(c.axis());
        vec![value, count]
    }),
    ("kthvalue", Numbers, |c| {
        let axis = c.axis();
        let k = c.rng.usize(1..=c.size(axis));
        let (value, place) = c.x.kthvalue(k, axis);
        vec![value, place]
    }),
    ("cov", Floats, |c| vec![c.x.cov(), c.x.corrcoef()]),
    ("average", Floats, |c| vec![c.x.average(&c.y.abs(), c.axis()), c.x.ptp(..)]),
    ("cdist", Floats, |c| {
        let rows = c.x.unsqueeze(0).unsqueeze(0);
        let others = &rows * 0.5 + c.y.cast(c.x.dtype()).sum(..);
        vec![rows.cdist(&others, 2.0), rows.cdist_by_products(&others)]
    }),
    ("narrow", Numbers, |c| {
        // Rows of three elements with one value per row, and reversed rows.
        let x = c.x.flatten().unsqueeze(1).broadcast_to([c.x.numel(), 3]) + Tensor::arange_with(3, c.x.dtype());
        let each = x.narrow(0, 0, 1.min(c.x.numel())) * &x;
        vec![&each + c.x.flatten().unsqueeze(1), &x - x.flip(1)]
    }),
    ("histogram", Numbers, |c| {
        let (counts, edges) = c.x.histogram(5);
        let own = Tensor::linspace_with(-2.0, 3.0, 6, DType::F64);
        vec![counts, edges, c.x.histogram_with(&own, &Histogram::new().density(true)).0]
    }),
    ("diff", Numbers, |c| vec![c.x.diff(2, c.axis())]),
    ("gradient", Floats, |c| {
        let axis = c.axis();
        let twice = if c.size(axis) < 2 { c.x.repeat(2, axis) } else { c.x.clone() };
        vec![twice.gradient(0.5, axis), c.x.trapezoid(0.5, axis), c.x.cumulative_trapezoid(2.0, axis)]
    }),
    ("long windows", Numbers, |c| {
        // Sliding windows of 17 to 100 elements, along one axis or two.
        let all = Tensor::cat(&vec![c.x.flatten(); 20usize.div_ceil(c.x.numel()).max(1)], 0);
        let (n, step) = (all.numel(), c.rng.usize(1..4));
        let windows = all.window(0, c.rng.usize(17..=n.min(100)), step);
        let wide = Tensor::cat(&[&all, &all, &all], 0).reshape([3, n]);
        let both = wide.window(0, 2, 1).window(1, c.rng.usize(9..=n.min(40)), 1);
        let spread = match c.x.dtype().is_float() {
            true => windows.var(1),
            false => windows.abs().sum(1),
        };
        vec![windows.sum(1), windows.amax(1), spread, both.amin([2, 3]), both.sum([1, 2, 3])]
    }),
    ("interp", Floats, |c| {
        let points = c.y.flatten().slice(..9);
        vec![c.x.interp(&points.sort(0, false), &points.sin())]
    }),
    ("diag", Numbers, |c| vec![c.x.diag_embed(c.rng.i64(-2..3))]),
    ("trace", Numbers, |c| {
        let (a, b) = (c.axis(), c.axis());
        if a == b {
            vec![c.x.clone()]
        } else {
            vec![c.x.diagonal_of(c.rng.i64(-1..2), a, b), c.x.rot90(c.rng.i64(1..4), a, b)]
        }
    }),
    ("kron", Numbers, |c| vec![c.x.flatten().slice(..20).kron(&c.y.flatten().slice(..7))]),
    ("vander", Numbers, |c| vec![c.y.flatten().slice(..20).vander(5, c.rng.bool())]),
    ("meshgrid", Numbers, |c| {
        let (a, b) = (c.x.flatten().slice(..20), c.y.flatten().slice(..9));
        Tensor::meshgrid(&[a, b], Indexing::Cartesian)
    }),
    ("isin", Numbers, |c| vec![c.x.isin(c.y), c.x.digitize(&c.y.flatten().sort(0, false), c.rng.bool())]),
    ("masked_scatter", Numbers, |c| vec![c.x.masked_scatter(&c.x.gt(0), c.x)]),
    ("index_fill", Numbers, |c| {
        let axis = c.axis();
        let index = Tensor::arange_with(c.size(axis), DType::I64).slice(c.range(axis));
        vec![c.x.index_fill(axis, &index, 3)]
    }),
    ("sums by index", Numbers, |c| {
        let x = c.x.flatten();
        let index = Tensor::arange_with(x.numel(), DType::I64) % 3;
        let none = Tensor::zeros_with([3], x.dtype());
        vec![none.index_add(0, &index, &x), none.index_put(&[index], &x, true)]
    }),
    ("max_pool", Numbers, |c| {
        // The axis is made at least as long as a window.
        let all = Tensor::cat(&vec![c.x.flatten(); 9usize.div_ceil(c.x.numel()).max(1)], 0).unsqueeze(0).unsqueeze(0);
        let window = c.rng.usize(1..4);
        let mut pool =
            Pool::new(window).dilation(c.rng.usize(1..4)).ceil(c.rng.bool()).padding(c.rng.usize(..=window / 2));
        if c.rng.bool() {
            pool = pool.stride(c.rng.usize(1..4));
        }
        vec![all.max_pool1d(pool)]
    }),
    ("activations", Floats, |c| {
        let bounded = c.x.hardswish() + c.x.hardtanh(-1.0, 1.0) + c.x.elu(0.5);
        vec![c.x.softplus() - c.x.log_sigmoid(), bounded, c.x.sinc(), c.x.sigmoid().logit()]
    }),
    ("scatter_mean", Floats, |c| {
        let axis = c.axis();
        let index = c.x.argsort(axis, false);
        vec![c.x.scatter_mean(axis, &index, c.y)]
    }),
    ("set", Numbers, |c| {
        let mut x = c.x.clone();
        let ranges = c.ranges();
        x.set(ranges, 2);
        let ranges = c.ranges();
        let part = x.slice(ranges.clone());
        x.slice_mut(ranges).assign(part.square());
        vec![x]
    }),
    ("set twice", Numbers, |c| {
        let mut x = c.x * 2;
        for _ in 0..c.rng.usize(1..14) {
            let ranges = c.ranges();
            *x.slice_mut(ranges) += 1;
            let (axis, at) = (c.axis(), c.rng.i64(-1..1));
            x = x.select_scatter(axis, at, c.y.flatten().slice(0));
        }
        vec![x.sum(c.axis()), x]
    }),
    ("stencil", Floats, |c| {
        let axis = c.axis();
        let mut u = c.x.clone();
        for _ in 0..2 {
            let n = c.size(axis) as i64;
            let part = |from: i64, to: i64| {
                let mut ranges = vec![SliceArg::from(..); u.rank()];
                ranges[axis] = SliceArg::range(from, to.max(from), 1);
                ranges
            };
            if n < 3 {
                break;
            }
            let near = (u.slice(part(2, n)) + u.slice(part(0, n - 2))) * 0.5;
            let inner = part(1, n - 1);
            u.set(inner, near);
        }
        vec![u]
    }),
    ("complex", Floats, |c| {
        let z = Complex::new(c.x.sin(), c.y.cos());
        let w = &z * z.conj() + z.times_i();
        vec![w.re, w.im, z.abs(), z.angle(), z.exp().im, z.map(|t| t.sum(0)).abs_square()]
    }),
    ("complex functions", Floats, |c| {
        let z = Complex::new(c.x.sin() * 2.0, c.y.cos() * 2.0);
        let [root, log, tan] = [z.sqrt(), z.log(), z.tanh()];
        vec![root.re, root.im, log.re, tan.im, (2.0 / (&z + (0.0, 3.0))).re, z.prod(0).im, z.cumprod(0).re, z.asin().im]
    }),
    ("bitcast", Numbers, |c| {
        // NaN and -0 are removed: the bits of a NaN are unspecified.
        let (zero, one) = (c.x.zeros_like(), c.x.ones_like());
        let x = if c.x.dtype().is_float() { c.x.is_nan().where_(one, c.x) + &zero } else { c.x.clone() };
        let narrow = match c.rng.u32(..3) {
            0 => DType::U8,
            1 => DType::I8,
            _ => [DType::I8, DType::U16, DType::U32][x.dtype().size().ilog2().min(2) as usize],
        };
        let parts = x.bitcast(narrow);
        // The bitcast back passes through an intermediate width.
        let whole =
            if parts.dtype().size() == 1 && x.dtype().size() >= 4 { parts.bitcast(DType::I16) } else { parts.clone() };
        vec![parts, whole.bitcast(x.dtype())]
    }),
    ("topk", Numbers, |c| {
        let shape = [c.rng.usize(1..4), c.rng.usize(2..60)];
        let x = c.filled(shape);
        let (values, places) = x.topk(c.rng.usize(1..=x.dims()[1].min(6)), 1, c.rng.bool());
        vec![values, places]
    }),
    ("beam search", Floats, |c| {
        // As in a decoder: selected positions become rows and tokens by integer arithmetic, and these become indices.
        let (beams, words, deep) = (c.rng.usize(1..5), c.rng.usize(4..14), c.rng.usize(0..5));
        let (embedding, weights) = (c.filled([words, 3]), c.filled([3, words]).sin());
        let mut token = Tensor::zeros_with([beams], DType::I64);
        let mut text = Tensor::zeros_with([beams, 0], DType::I64);
        for _ in 0..c.rng.usize(1..6) {
            let mut x = embedding.index_select(0, &token);
            for _ in 0..deep {
                x = (&x * 1.1 + 0.1).tanh();
                x = &x - x.mean_keepdim(-1);
            }
            let (_, at) = (x.unsqueeze(2) * &weights).sum(1).flatten().topk(beams, 0, true);
            let from = at.floor_div(words as i64);
            token = at % words as i64;
            text = Tensor::cat(&[text.index_select(0, &from), token.unsqueeze(1)], 1);
        }
        vec![text]
    }),
    ("sorted rows", Numbers, |c| {
        // A loop with sorts: positions become other positions, which select again.
        let n = c.rng.usize(2..30);
        let mut x = c.filled([n]);
        let mut all = x.slice(..0);
        for _ in 0..c.rng.usize(1..5) {
            let at = x.argsort(0, c.rng.bool());
            let at = (at * c.rng.i64(1..5) + c.rng.i64(0..9)) % n as i64;
            x = x.index_select(0, &at) + x.index_select(0, &at.floor_div(2));
            all = Tensor::cat(&[&all, &x.slice(..2)], 0);
        }
        vec![all]
    }),
    ("normalize", Floats, |c| {
        let (axis, p) = (c.axis(), [1.0, 2.0, 3.0, f64::INFINITY][c.rng.usize(..4)]);
        vec![c.x.normalize(p, axis, 1e-3)]
    }),
    ("window functions", Floats, |c| {
        let (count, periodic) = (c.rng.usize(1..20), c.rng.bool());
        let hann = c.filled([count]) * Tensor::hann_window_with(count, periodic, c.x.dtype());
        let others =
            [Tensor::hamming_window_with, Tensor::blackman_window_with].map(|f| f(count, periodic, c.x.dtype()));
        vec![hann.sum(0), &others[0] * &others[1] + c.filled([count])]
    }),
    ("poisson", Floats, |c| vec![c.x.abs().poisson()]),
    ("gamma", Floats, |c| vec![c.x.abs().standard_gamma(), c.y.sigmoid().bernoulli(), c.x.abs().exponential()]),
    ("multinomial", Floats, |c| {
        let n = c.size(c.x.rank() - 1);
        vec![c.x.abs().multinomial(3, true), c.x.abs().multinomial(n, false)]
    }),
];

/// Functions whose composition depends on a size. Every other program is one of them.
const CHOOSING: &[Function] = &[
    ("conv", Floats, |c| {
        // Convolution over all channels of several samples, or over each channel by itself.
        let (samples, channels) = (c.rng.usize(2..4), c.rng.usize(2..5));
        let mut all = vec![];
        for groups in [1, channels].repeat(4) {
            let (n, taps, stride) = (c.rng.usize(10..20), c.rng.usize(2..=9), c.rng.usize(1..3));
            let weight = c.filled([channels, channels / groups, taps]).sin();
            let x = c.filled([samples, channels, n]);
            all.push(x.conv1d(&weight, None, Conv::default().groups(groups).stride(stride)).sum(..));
        }
        all
    }),
    ("gradients of conv", Floats, |c| {
        // Strided, dilated and grouped convolutions and their transposes, with the gradients of input and weights.
        let mut all = vec![];
        for transposed in [false, true] {
            let groups = c.rng.usize(1..4);
            let (inner, each) = (groups * c.rng.usize(1..3), c.rng.usize(1..7));
            let stride = c.rng.usize(1..4);
            // Half of the kernels are whole strides without dilation, whose residue classes are alike.
            let (kernel, dilation) = match c.rng.bool() {
                true => (stride * c.rng.usize(1..3), 1),
                false => (c.rng.usize(1..5), c.rng.usize(1..3)),
            };
            let border = c.rng.usize(0..3);
            let (samples, rows) = (c.rng.usize(1..3), 2 * kernel + c.rng.usize(1..3));
            let columns = 2 * kernel + c.rng.usize(1..24);
            let x = c.filled([samples, inner, rows, columns]);
            let weights = match transposed {
                true => c.filled([inner, each, kernel, kernel]),
                false => c.filled([groups * each, inner / groups, kernel, kernel]),
            };
            let (weights, border, last) = (weights.sin(), border.min(kernel / 2), c.rng.bool());
            let apply = |x: &Tensor, w: &Tensor| match transposed {
                true => {
                    let options = ConvTranspose::default().stride(stride).dilation(dilation).groups(groups);
                    x.conv_transpose2d(w, None, options.padding(border).channels_last(last))
                }
                false => {
                    let options = Conv::default().stride(stride).dilation(dilation).groups(groups);
                    x.conv2d(w, None, options.padding(border).channels_last(last))
                }
            };
            let (y, pull) = thalweg::vjp(|(x, w): (Tensor, Tensor)| apply(&x, &w), (&x, &weights));
            let dy = c.filled([y.numel()]).reshape(*y.shape()).cos();
            let (dx, dw) = pull(&dy);
            all.extend([y, dx, dw]);
        }
        all
    }),
    ("channels last", Floats, |c| {
        // Two convolutions whose channels are last in memory, with elementwise operations in that order and another one.
        let (samples, channels) = (c.rng.usize(1..3), c.rng.usize(1..6));
        let [height, width] = [0; 2].map(|_| c.rng.usize(4..9));
        let last = |t: Tensor| t.permute([0, 3, 1, 2]);
        let x = last(c.filled([samples, height, width, channels]));
        let [v, w] = [0.5, 2.0].map(|by| last((c.filled([channels, 3, 3, channels]) * by).sin()));
        let bias = c.filled([channels]).cos();
        let other = c.filled([samples, channels, height, width]);
        let options = Conv::default().padding(1).channels_last(c.rng.bool());
        let net = |x: &Tensor, v: &Tensor| {
            let h = (x.conv2d(v, Some(&bias), options) * 0.5).relu();
            let mean = h.mean_keepdim([0, 2, 3]);
            h.conv2d(&w, None, options) - mean + &h
        };
        let (y, pull) = thalweg::vjp(|(x, v): (Tensor, Tensor)| net(&x, &v), (&x, &v));
        let (dx, dv) = pull(&y.cos());
        let mixed = &y * other.sin();
        vec![y.permute([0, 2, 3, 1]), mixed, dx.permute([0, 2, 3, 1]), dv, y.sum(..)]
    }),
    ("conv_transpose", Floats, |c| {
        // Kernels of whole strides without dilation: all residue classes have as many weights.
        let mut all = vec![];
        for _ in 0..6 {
            let (channels, rows, stride) = (c.rng.usize(1..4), c.rng.usize(1..8), c.rng.usize(2..4));
            let (taps, n) = (stride * c.rng.usize(1..3), c.rng.usize(3..10));
            let (x, weight) = (c.filled([2, channels, n]), c.filled([channels, rows, taps]).sin());
            let options = ConvTranspose::default().stride(stride).padding(c.rng.usize(0..2));
            all.push(x.conv_transpose1d(&weight, None, options).sum(..));
        }
        all
    }),
    ("attention", Floats, |c| {
        // Few queries and keys of many heads: one product is less than a block of rows.
        let (samples, heads, width) = (c.rng.usize(1..4), c.rng.usize(1..5), c.rng.usize(1..9));
        let (queries, keys) = (c.rng.usize(1..24), c.rng.usize(1..24));
        let shared = if c.rng.bool() { heads } else { 1 };
        let q = c.filled([samples, heads, queries, width]).sin();
        let [k, v] = [0.5, 2.0].map(|by| (c.filled([samples, shared, keys, width]) * by).cos());
        let bias = c.filled([heads, queries, keys]).sin();
        let options = match c.rng.usize(..3) {
            0 => Attention::default(),
            1 => Attention::default().causal(true),
            _ => Attention::default().mask(&bias),
        };
        let whole = [samples, heads, keys, width];
        let y = q.scaled_dot_product_attention(&k.expand(whole), &v.expand(whole), options);
        let rows = q.matmul(&k.transpose(2, 3)).softmax(3);
        // Heads of keys and values that several heads of queries share, as a broadcast with merged dimensions; with a
        // mask, some queries attend to no key.
        let (few, each) = (c.rng.usize(1..4), c.rng.usize(1..4));
        let many = c.filled([samples, few * each, queries, width]).sin();
        let [k, v] = [0.5, 2.0].map(|by| {
            let one = (c.filled([samples, few, 1, keys, width]) * by).cos();
            one.expand([samples, few, each, keys, width]).reshape([samples, few * each, keys, width])
        });
        let seen = c.filled([queries, keys]).sin().gt(c.rng.f64() - 0.2);
        let options = if c.rng.bool() { Attention::default().mask(&seen) } else { Attention::default().causal(true) };
        let grouped = many.scaled_dot_product_attention(&k, &v, options);
        let scores = seen.where_(many.matmul(&k.transpose(2, 3)), f64::NEG_INFINITY);
        let top = scores.amax_keepdim(3);
        let e = (&scores - top.eq(f64::NEG_INFINITY).where_(0.0, &top)).exp();
        let sums = e.sum_keepdim(3);
        let guarded = (&e / sums.eq(0.0).where_(1.0, &sums)).matmul(&v);
        vec![y, rows, grouped, guarded, many.matmul(&k.transpose(2, 3)).cos().matmul(&v).layer_norm(3, 1e-5)]
    }),
    ("avg_pool", Floats, |c| {
        let x = c.filled([1, 2, 12]);
        let mut all = vec![];
        for _ in 0..3 {
            let window = c.rng.usize(1..8);
            all.push(x.avg_pool1d(Pool::new(window).stride(c.rng.usize(1..3))));
            all.push(x.max_pool1d(Pool::new(window).stride(1)));
        }
        all
    }),
    ("adaptive pool", Floats, |c| {
        // Windows of one size and of several, fewer and more than are slices.
        let mut all = vec![];
        for _ in 0..3 {
            let (rows, columns) = (c.rng.usize(1..12), c.rng.usize(1..20));
            let x = c.filled([2, 2, rows, columns]);
            let out = [c.rng.usize(1..5), c.rng.usize(1..7)];
            all.extend([x.adaptive_avg_pool2d(out), x.adaptive_max_pool2d(out)]);
        }
        all
    }),
    ("einsum", Floats, |c| {
        let mut all = vec![];
        for many in [3, 9, 5, 7] {
            let sizes: Vec<usize> = (0..=many).map(|_| c.rng.usize(1..5)).collect();
            let operands: Vec<Tensor> = (0..many).map(|i| c.filled([sizes[i], sizes[i + 1]]).sin()).collect();
            let name = |i: usize| char::from(b'a' + i as u8);
            let spec: Vec<String> = (0..many).map(|i| format!("{}{}", name(i), name(i + 1))).collect();
            all.push(Tensor::einsum(&format!("{}->{}{}", spec.join(","), name(0), name(many)), &operands));
        }
        all
    }),
    ("chain of products", Floats, |c| {
        let sizes: Vec<usize> = (0..12).map(|_| c.rng.usize(1..7)).collect();
        let first = c.filled([sizes[0], sizes[1]]).sin();
        let factors = 2..c.rng.usize(3..12);
        vec![factors.fold(first, |x, i| x.matmul(&c.filled([sizes[i - 1], sizes[i]]).cos()))]
    }),
    ("even bins", Floats, |c| {
        let (bins, many) = (c.rng.usize(1..12), c.rng.usize(8..20));
        vec![c.x.histogram(bins).0, c.x.sin().histogram(bins).0, c.x.cos().histogram(many).0]
    }),
    ("gathers of functions", Floats, |c| {
        // A few elements of a function of all elements, gathered by one index after the other.
        let mut x = c.filled([1024]).sin() * 2.0;
        for many in [256, 64, 16, 8, 2, 1, 1] {
            let n = x.numel();
            let index = (Tensor::arange_with(many, DType::I64) * 3 + 1) % n as i64;
            let few = x.index_select(0, &index);
            // A function of two arguments becomes two gathers.
            x = if c.rng.bool() { few.cos() } else { few.cos() + few.sin() };
        }
        vec![x]
    }),
    ("first elements", Numbers, |c| {
        // Rows and numbers of elements around all limits between selection, blocks and a sort.
        let largest = c.rng.bool();
        let mut all = vec![];
        for most in [1, 2, 4, 8, 24, 24].repeat(2) {
            let n = c.rng.usize(24..60);
            let (values, places) = c.filled([2, n]).topk(c.rng.usize(1..=most), 1, largest);
            all.extend([values, places]);
        }
        all
    }),
    ("one row", Floats, |c| {
        // A sum of more terms than a block has, for a few columns.
        let columns = c.rng.usize(1..6);
        vec![c.filled([1, 300]).sin().matmul(&c.filled([300, columns]).cos())]
    }),
    ("windows of functions", Floats, |c| {
        let mut all = vec![];
        for functions in [0, 2, 6] {
            let n = c.rng.usize(10..40);
            let mut x = c.filled([n]).sin();
            for _ in 0..functions {
                x = (x * 0.5 + 1.0).cos();
            }
            let windows = x.window(0, c.rng.usize(1..9), 1);
            all.extend([windows.sum(1), windows.amax(1)]);
        }
        // Gradients of windows that lie over few others, and over more than are added one by one.
        for (size, step) in [(3, 2), (5, 1), (7, 1), (9, 2)] {
            let (x, by) = (c.filled([20]), c.filled([1]).sin());
            let apply = |(x, by): (Tensor, Tensor)| x.window(0, size, step) * by;
            let (y, pull) = thalweg::vjp(apply, (&x, &by));
            let (dx, dby) = pull(&y.cos());
            all.extend([dx, dby]);
        }
        all
    }),
];

/// Seed mask of the random source that selects programs made of functions with a choice.
const CHOICES: u64 = 0x6368_6f69_6365;

/// Program that a random library function records, with the function's name.
pub fn program(checker: &Checker, seed: u64) -> Result<Option<(&'static str, Program)>, String> {
    let mut rng = Rng::with_seed(seed);
    let choosing = Rng::with_seed(seed ^ CHOICES).bool();
    let list = if choosing { CHOOSING } else { FUNCTIONS };
    let &(name, takes, f) = &list[rng.usize(..list.len())];
    let floats = [DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16];
    let integers = [DType::I32, DType::I64, DType::I8, DType::U8, DType::I16, DType::U16, DType::U32, DType::U64];
    let float = takes == Floats || takes == Numbers && rng.bool();
    let dtype = if float { floats[rng.usize(..5)] } else { integers[rng.usize(..integers.len())] };
    let dims: Vec<usize> = (0..rng.usize(1..4)).map(|_| if rng.u32(..6) == 0 { 1 } else { rng.usize(1..14) }).collect();
    let own = Shape::new(&dims);
    let other: Vec<usize> = dims.iter().map(|&d| if rng.u32(..4) == 0 { 1 } else { d }).collect();
    let inputs = generate::inputs(rng.fork(), &[(dtype, own), (dtype, Shape::new(&other))]);
    let values = checker.inputs(&inputs).map_err(|e| e.to_string())?;
    let tensors: Vec<Tensor> = values.into_iter().map(raw::tensor).collect();
    thalweg::set_default_device(tensors.first().map(Tensor::device));
    let interpreted = Interpreted::new();
    thalweg::manual_seed(seed);
    let (made, segments) = tuning::in_one_segment(|| {
        thalweg_stream::segments(|| {
            // Read the inputs in order, so that they are numbered in order.
            let (x, y) = (-&tensors[0], -&tensors[1]);
            f(&mut Call { x: &x, y: &y, rng: &mut rng })
        })
    });
    drop(made);
    drop(interpreted);
    let [segment] = segments.as_slice() else { return Ok(None) };
    let program = as_program(segment, &inputs, &[0, 1])?;
    Ok(program.steps.iter().any(|s| s.kept).then_some((name, program)))
}

/// Checks a program that a library function has recorded.
pub fn check(checker: &Checker, program: &Program, ways: ExtraChecks) -> Result<(), String> {
    let few = program.steps.len() < MAX_REPLANNED_STEPS;
    let indexed = program.steps.iter().any(|s| s.op.info().index_arg.is_some());
    checker.check(program, ExtraChecks { plans: ways.plans && few, scalars: ways.scalars && !indexed, ..ways })
}
