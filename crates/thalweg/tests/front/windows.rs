//! Convolutions, pooling and interpolation against loops over their definitions.

use thalweg::prelude::*;
use thalweg::{Conv, ConvTranspose, Interpolation, Padding, Pool};

/// Array of f64, with index arithmetic over a shape.
struct Array {
    dims: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    fn of(x: &Tensor) -> Array {
        Array { dims: x.dims().to_vec(), data: x.to_f64_vec().unwrap() }
    }

    fn place(&self, at: &[usize]) -> usize {
        at.iter().zip(&self.dims).fold(0, |p, (&i, &d)| p * d + i)
    }

    fn get(&self, at: &[usize]) -> f64 {
        self.data[self.place(at)]
    }
}

/// All indices of a shape, in order.
fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &d in dims {
        all = all.into_iter().flat_map(|i: Vec<usize>| (0..d).map(move |j| [i.as_slice(), &[j]].concat())).collect();
    }
    all
}

#[track_caller]
fn near(got: &Tensor, dims: &[usize], want: &[f64], tolerance: f64) {
    assert_eq!(got.dims(), dims);
    let got = got.to_f64_vec().unwrap();
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let near = (g - w).abs() <= tolerance * w.abs().max(1.0);
        assert!(near || g == w || g.is_nan() && w.is_nan(), "element {i}: {g}, not {w}");
    }
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-4,
        _ => 0.05,
    }
}

/// Window parameters of each axis.
#[derive(Clone, Debug)]
struct Way {
    stride: Vec<usize>,
    pads: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    groups: usize,
}

fn conv_loops(x: &Array, w: &Array, bias: Option<&Array>, way: &Way) -> (Vec<usize>, Vec<f64>) {
    let axes = way.stride.len();
    let out: Vec<usize> = (0..axes)
        .map(|i| {
            let all = x.dims[2 + i] + way.pads[i].0 + way.pads[i].1;
            (all - way.dilation[i] * (w.dims[2 + i] - 1) - 1) / way.stride[i] + 1
        })
        .collect();
    let dims = [&[x.dims[0], w.dims[0]], out.as_slice()].concat();
    let per_group = (w.dims[0] / way.groups, w.dims[1]);
    let value = |at: &Vec<usize>| {
        let group = at[1] / per_group.0;
        let mut sum = bias.map_or(0.0, |b| b.data[at[1]]);
        for tap in indices(&w.dims[1..]) {
            let mut from = vec![at[0], group * per_group.1 + tap[0]];
            for i in 0..axes {
                let p = at[2 + i] * way.stride[i] + tap[1 + i] * way.dilation[i];
                let Some(p) = p.checked_sub(way.pads[i].0).filter(|&p| p < x.dims[2 + i]) else { break };
                from.push(p);
            }
            if from.len() == axes + 2 {
                sum += x.get(&from) * w.get(&[&[at[1]], tap.as_slice()].concat());
            }
        }
        sum
    };
    let values = indices(&dims).iter().map(value).collect();
    (dims, values)
}

fn transpose_loops(x: &Array, w: &Array, bias: Option<&Array>, way: &Way, more: &[usize]) -> (Vec<usize>, Vec<f64>) {
    let axes = way.stride.len();
    let channels = w.dims[1] * way.groups;
    let size = |i: usize| {
        (x.dims[2 + i] - 1) * way.stride[i] + way.dilation[i] * (w.dims[2 + i] - 1) + 1 + more[i]
            - way.pads[i].0
            - way.pads[i].1
    };
    let dims: Vec<usize> = [x.dims[0], channels].into_iter().chain((0..axes).map(size)).collect();
    let mut out = Array { dims: dims.clone(), data: vec![0.0; dims.iter().product()] };
    let inner = x.dims[1] / way.groups;
    for from in indices(&x.dims) {
        for tap in indices(&w.dims[1..]) {
            let mut to = vec![from[0], from[1] / inner * w.dims[1] + tap[0]];
            for i in 0..axes {
                let p = from[2 + i] * way.stride[i] + tap[1 + i] * way.dilation[i];
                let Some(p) = p.checked_sub(way.pads[i].0).filter(|&p| p < dims[2 + i]) else { break };
                to.push(p);
            }
            if to.len() == axes + 2 {
                let place = out.place(&to);
                out.data[place] += x.get(&from) * w.get(&[&[from[1]], tap.as_slice()].concat());
            }
        }
    }
    if let Some(b) = bias {
        let each: usize = dims[2..].iter().product();
        out.data.iter_mut().enumerate().for_each(|(i, v)| *v += b.data[i / each % channels]);
    }
    (dims, out.data)
}

/// Small values of a dtype, so that sums stay small.
fn random(shape: &[usize], dtype: DType) -> Tensor {
    (Tensor::randn_with(thalweg::Shape::new(shape), DType::F32) * 0.5).cast(dtype)
}

fn way(stride: &[usize], pads: &[(usize, usize)], dilation: &[usize], groups: usize) -> Way {
    Way { stride: stride.to_vec(), pads: pads.to_vec(), dilation: dilation.to_vec(), groups }
}

/// Equal parameters for all `N` axes.
fn plain<const N: usize>(stride: usize, pad: usize, dilation: usize, groups: usize) -> Way {
    way(&[stride; N], &[(pad, pad); N], &[dilation; N], groups)
}

type Convolution<'a> = &'a dyn Fn(&Tensor, &Tensor, Option<&Tensor>) -> Tensor;

impl Way {
    fn conv<const N: usize>(&self) -> Conv<N> {
        let pads: [(usize, usize); N] = self.pads.clone().try_into().unwrap();
        let each = |v: &[usize]| -> [usize; N] { v.try_into().unwrap() };
        Conv::default().padding(pads).groups(self.groups).stride(each(&self.stride)).dilation(each(&self.dilation))
    }

    fn transpose<const N: usize>(&self, more: &[usize]) -> ConvTranspose<N> {
        let each = |v: &[usize]| -> [usize; N] { v.try_into().unwrap() };
        let pads: Vec<usize> = self.pads.iter().map(|p| p.0).collect();
        let options = ConvTranspose::default().padding(each(&pads)).output_padding(each(more)).groups(self.groups);
        options.stride(each(&self.stride)).dilation(each(&self.dilation))
    }

    #[track_caller]
    fn agrees(&self, x: &[usize], w: &[usize], dtype: DType, f: Convolution) {
        let (input, weight, bias) = (random(x, dtype), random(w, dtype), random(&w[..1], dtype));
        for bias in [None, Some(&bias)] {
            let got = f(&input, &weight, bias);
            assert_eq!(got.dtype(), dtype);
            let own = bias.map(Array::of);
            let (dims, want) = conv_loops(&Array::of(&input), &Array::of(&weight), own.as_ref(), self);
            near(&got, &dims, &want, tolerance(dtype));
        }
    }

    #[track_caller]
    fn transpose_agrees(&self, x: &[usize], w: &[usize], more: &[usize], dtype: DType, f: Convolution) {
        let (input, weight, bias) = (random(x, dtype), random(w, dtype), random(&[w[1] * self.groups], dtype));
        for bias in [None, Some(&bias)] {
            let got = f(&input, &weight, bias);
            let own = bias.map(Array::of);
            let (dims, want) = transpose_loops(&Array::of(&input), &Array::of(&weight), own.as_ref(), self, more);
            near(&got, &dims, &want, tolerance(dtype));
        }
    }
}

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

#[test]
fn convolutions_of_one_axis() {
    let mut cases = vec![];
    for (stride, pad, dilation) in [(1, 0, 1), (1, 1, 1), (2, 1, 1), (3, 2, 2), (1, 4, 2), (5, 0, 3)] {
        for (channels, outer, groups) in [(3, 4, 1), (4, 6, 2), (4, 4, 4), (3, 6, 3), (1, 1, 1)] {
            cases.push((plain::<1>(stride, pad, dilation, groups), channels, outer));
        }
    }
    for (n, (way, channels, outer)) in cases.into_iter().enumerate() {
        let (x, w) = ([2, channels, 11], [outer, channels / way.groups, 3]);
        way.agrees(&x, &w, FLOATS[n % 4], &|x, w, b| x.conv1d(w, b, way.conv()));
    }
    let uneven = way(&[1], &[(3, 0)], &[1], 1);
    uneven.agrees(&[1, 2, 1], &[2, 2, 4], DType::F32, &|x, w, b| x.conv1d(w, b, uneven.conv()));
    // Longer than the limit of shifted inputs.
    let long = plain::<1>(2, 40, 1, 3);
    long.agrees(&[1, 3, 90], &[3, 1, 70], DType::F64, &|x, w, b| x.conv1d(w, b, long.conv()));
}

#[test]
fn convolutions_of_two_axes() {
    for dtype in FLOATS {
        for (stride, pad, dilation, groups) in
            [(1, 1, 1, 1), (2, 0, 1, 1), (2, 1, 2, 2), (1, 1, 1, 4), (2, 2, 2, 4), (1, 0, 1, 2)]
        {
            let way = plain::<2>(stride, pad, dilation, groups);
            way.agrees(&[2, 4, 7, 9], &[8, 4 / groups, 3, 3], dtype, &|x, w, b| x.conv2d(w, b, way.conv()));
        }
    }
    let uneven = way(&[2, 1], &[(0, 2), (3, 1)], &[1, 3], 1);
    uneven.agrees(&[1, 3, 6, 10], &[5, 3, 4, 2], DType::F32, &|x, w, b| x.conv2d(w, b, uneven.conv()));
    // Large enough for several panels and blocks of terms, and a 1×1 kernel.
    let large = plain::<2>(1, 1, 1, 1);
    large.agrees(&[2, 33, 20, 19], &[17, 33, 3, 3], DType::F32, &|x, w, b| x.conv2d(w, b, large.conv()));
    let point = plain::<2>(1, 0, 1, 1);
    point.agrees(&[3, 5, 4, 4], &[6, 5, 4, 4], DType::F32, &|x, w, b| x.conv2d(w, b, point.conv()));
    point.agrees(&[3, 5, 4, 4], &[6, 5, 1, 1], DType::F32, &|x, w, b| x.conv2d(w, b, point.conv()));
    // Empty: no samples, no outputs.
    for (x, w) in [([0, 2, 5, 5], [3, 2, 3, 3]), ([2, 2, 5, 5], [0, 2, 3, 3]), ([2, 0, 5, 5], [3, 0, 3, 3])] {
        large.agrees(&x, &w, DType::F32, &|x, w, b| x.conv2d(w, b, large.conv()));
    }
}

#[test]
fn convolutions_of_three_axes_without_samples_and_of_integers() {
    for (stride, pad, dilation, groups) in [(1, 1, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4)] {
        let way = plain::<3>(stride, pad, dilation, groups);
        way.agrees(&[2, 4, 5, 6, 4], &[4, 4 / groups, 2, 3, 2], DType::F32, &|x, w, b| x.conv3d(w, b, way.conv()));
    }
    let way = plain::<2>(1, 1, 1, 1);
    way.agrees(&[1, 2, 4, 4], &[3, 2, 3, 3], DType::F64, &|x, w, b| {
        x.squeeze(0).conv2d(w, b, Conv::default().padding(1)).unsqueeze(0)
    });
    way.agrees(&[1, 2, 4, 4], &[3, 2, 3, 3], DType::I32, &|x, w, b| x.conv2d(w, b, Conv::default().padding([1, 1])));
}

#[test]
fn padding_that_keeps_the_size() {
    for size in [5usize, 6] {
        for stride in [1, 2, 3] {
            for kernel in [1, 2, 3, 4] {
                let out = size.div_ceil(stride);
                let all = ((out - 1) * stride + kernel).saturating_sub(size);
                let way = way(&[stride], &[(all / 2, all - all / 2)], &[1], 1);
                way.agrees(&[1, 2, size], &[2, 2, kernel], DType::F32, &|x, w, b| {
                    x.conv1d(w, b, Conv::default().stride(stride).padding(Padding::Same))
                });
            }
        }
    }
}

#[test]
fn transposed_convolutions() {
    let mut n = 0;
    for (stride, pad, dilation, more) in
        [(1, 0, 1, 0), (2, 0, 1, 0), (2, 1, 1, 1), (3, 1, 1, 2), (2, 2, 2, 1), (1, 2, 2, 1), (4, 0, 1, 3), (1, 2, 1, 0)]
    {
        for groups in [1, 2, 4] {
            let (way, dtype) = (plain::<1>(stride, pad, dilation, groups), FLOATS[n % 4]);
            way.transpose_agrees(&[2, 4, 5], &[4, 3, 3], &[more], dtype, &|x, w, b| {
                x.conv_transpose1d(w, b, way.transpose(&[more]))
            });
            let way = plain::<2>(stride, pad, dilation, groups);
            way.transpose_agrees(&[2, 4, 3, 5], &[4, 2, 3, 3], &[more, more], dtype, &|x, w, b| {
                x.conv_transpose2d(w, b, way.transpose(&[more, more]))
            });
            n += 1;
        }
    }
    let uneven = way(&[2, 1], &[(1, 1), (0, 0)], &[1, 1], 1);
    uneven.transpose_agrees(&[1, 3, 4, 6], &[3, 2, 4, 1], &[0, 0], DType::F32, &|x, w, b| {
        x.conv_transpose2d(w, b, uneven.transpose(&[0, 0]))
    });
    let deep = plain::<3>(2, 1, 1, 2);
    deep.transpose_agrees(&[1, 4, 3, 2, 3], &[4, 2, 3, 3, 3], &[1, 0, 1], DType::F32, &|x, w, b| {
        x.conv_transpose3d(w, b, deep.transpose(&[1, 0, 1]))
    });
}

/// For each window over the last axes its values inside, and its number of border elements.
fn windows(x: &Array, k: &[usize], way: &Way, ceil: bool) -> (Vec<usize>, Vec<(Vec<f64>, usize)>) {
    let axes = k.len();
    let out: Vec<usize> = (0..axes)
        .map(|i| {
            let all = x.dims[2 + i] + way.pads[i].0 + way.pads[i].1 - way.dilation[i] * (k[i] - 1) - 1;
            let floor = all / way.stride[i] + 1;
            // One more only if it begins inside the input or the border before it.
            let more =
                ceil && !all.is_multiple_of(way.stride[i]) && floor * way.stride[i] < x.dims[2 + i] + way.pads[i].0;
            floor + more as usize
        })
        .collect();
    let dims = [&x.dims[..2], out.as_slice()].concat();
    let all = indices(&dims).into_iter().map(|at| {
        let (mut inside, mut border) = (vec![], 0);
        for tap in indices(k) {
            let place = |i: usize| at[2 + i] * way.stride[i] + tap[i] * way.dilation[i];
            let within = |i: usize| (way.pads[i].0..way.pads[i].0 + x.dims[2 + i]).contains(&place(i));
            let padded = |i: usize| place(i) < way.pads[i].0 + x.dims[2 + i] + way.pads[i].1;
            if (0..axes).all(within) {
                let own: Vec<usize> = (0..axes).map(|i| place(i) - way.pads[i].0).collect();
                inside.push(x.get(&[&at[..2], own.as_slice()].concat()));
            } else if (0..axes).all(padded) {
                border += 1;
            }
        }
        (inside, border)
    });
    (dims, all.collect())
}

#[test]
fn pooling() {
    let largest = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (n, (k, stride, pad, ceil)) in
        [(3, 2, 1, false), (2, 2, 0, false), (3, 1, 1, false), (3, 2, 1, true), (2, 3, 0, true), (5, 3, 2, true)]
            .into_iter()
            .enumerate()
    {
        let dtype = FLOATS[n % 4];
        let x = random(&[2, 3, 8, 7], dtype);
        let array = Array::of(&x);
        let way = plain::<2>(stride, pad, 1, 1);
        let (dims, all) = windows(&array, &[k, k], &way, ceil);
        let pool = Pool::new(k).stride(stride).padding(pad).ceil(ceil);
        near(&x.max_pool2d(pool), &dims, &all.iter().map(|w| largest(&w.0)).collect::<Vec<_>>(), 0.0);
        let mean = |border: bool| -> Vec<f64> {
            let count = |w: &(Vec<f64>, usize)| (w.0.len() + if border { w.1 } else { 0 }) as f64;
            all.iter().map(|w| w.0.iter().sum::<f64>() / count(w)).collect()
        };
        near(&x.avg_pool2d(pool), &dims, &mean(true), tolerance(dtype));
        near(&x.avg_pool2d(pool.count_padding(false)), &dims, &mean(false), tolerance(dtype));
    }
    let x = random(&[1, 2, 50], DType::F64);
    for (k, way) in [(3, plain::<1>(2, 0, 3, 1)), (20, plain::<1>(1, 7, 1, 1)), (50, plain::<1>(1, 0, 1, 1))] {
        let (dims, all) = windows(&Array::of(&x), &[k], &way, false);
        let pool = Pool::new(k).stride(way.stride[0]).padding(way.pads[0].0).dilation(way.dilation[0]);
        near(&x.max_pool1d(pool), &dims, &all.iter().map(|w| largest(&w.0)).collect::<Vec<_>>(), 0.0);
    }
    let x = random(&[2, 4, 4, 6], DType::F32);
    let got = x.max_pool3d(Pool::new([2, 2, 3]));
    let way = way(&[2, 2, 3], &[(0, 0); 3], &[1; 3], 1);
    let (dims, all) = windows(&Array { dims: vec![1, 2, 4, 4, 6], ..Array::of(&x) }, &[2, 2, 3], &way, false);
    near(&got.unsqueeze(0), &dims, &all.iter().map(|w| largest(&w.0)).collect::<Vec<_>>(), 0.0);
    let ints = Tensor::new([[3i8, -128, 7, -1]]);
    assert_eq!(ints.max_pool1d(Pool::new(3).stride(1).padding(1)).to_vec::<i8>().unwrap(), [3, 7, 7, 7]);
    let nan = Tensor::new([[1.0f32, f32::NAN, 3.0]]).max_pool1d(Pool::new(2).stride(1));
    assert!(nan.to_vec::<f32>().unwrap().iter().all(|v| v.is_nan()));
}

#[test]
fn adaptive_pooling() {
    let x = random(&[2, 3, 7, 10], DType::F64);
    let array = Array::of(&x);
    for out in [[1, 1], [3, 4], [7, 5], [2, 10], [9, 3]] {
        let bound = |i: usize, n: usize, m: usize| (i * n / m, ((i + 1) * n).div_ceil(m));
        let dims = [2, 3, out[0], out[1]];
        let of = |fold: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let window = |at: &Vec<usize>| {
                let ((a, b), (c, d)) = (bound(at[2], 7, out[0]), bound(at[3], 10, out[1]));
                let all = (a..b).flat_map(|h| (c..d).map(move |w| (h, w)));
                fold(&all.map(|(h, w)| array.get(&[at[0], at[1], h, w])).collect::<Vec<_>>())
            };
            indices(&dims).iter().map(window).collect()
        };
        let mean = of(&|v| v.iter().sum::<f64>() / v.len() as f64);
        near(&x.adaptive_avg_pool2d(out), &dims, &mean, 1e-12);
        near(&x.adaptive_max_pool2d(out), &dims, &of(&|v| v.iter().copied().fold(f64::MIN, f64::max)), 0.0);
    }
    let narrow = x.cast(DType::BF16).adaptive_avg_pool2d(1);
    near(&narrow, &[2, 3, 1, 1], &x.mean([2, 3]).to_f64_vec().unwrap(), 0.05);
    assert_eq!(Tensor::arange(5).reshape([1, 5]).adaptive_avg_pool1d(2).to_vec::<f32>().unwrap(), [1.0, 3.0]);
    assert_eq!(Tensor::zeros([0, 2, 4, 4, 4]).adaptive_max_pool3d(2).dims(), [0, 2, 2, 2, 2]);
}

/// The interpolation of one axis as a matrix: row `i` has the weights of the elements for result `i`.
fn weights(n: usize, m: usize, by: Interpolation) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let mut row = vec![0.0; n];
        let mut add = |at: i64, w: f64| row[at.clamp(0, n as i64 - 1) as usize] += w;
        let place = |corners: bool| match corners {
            true if m == 1 => 0.0,
            true => i as f64 * (n - 1) as f64 / (m - 1) as f64,
            false => (i as f64 + 0.5) * n as f64 / m as f64 - 0.5,
        };
        match by {
            Interpolation::Nearest => add((i * n / m) as i64, 1.0),
            Interpolation::NearestExact => add(((2 * i + 1) * n / (2 * m)) as i64, 1.0),
            Interpolation::Linear { align_corners } => {
                let p = place(align_corners).max(0.0);
                add(p.floor() as i64, 1.0 - p.fract());
                add(p.floor() as i64 + 1, p.fract());
            }
            Interpolation::Cubic { align_corners } => {
                let (p, a) = (place(align_corners), -0.75);
                for k in -1..3 {
                    let d = (p - (p.floor() + k as f64)).abs();
                    let near = (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0;
                    let far = a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a;
                    add(p.floor() as i64 + k, if d <= 1.0 { near } else { far });
                }
            }
        }
        row
    };
    (0..m).map(row).collect()
}

#[test]
fn interpolation() {
    let x = random(&[2, 3, 5, 6], DType::F64);
    let array = Array::of(&x);
    let corners = [false, true];
    let modes = [Interpolation::Nearest, Interpolation::NearestExact]
        .into_iter()
        .chain(corners.map(|align_corners| Interpolation::Linear { align_corners }))
        .chain(corners.map(|align_corners| Interpolation::Cubic { align_corners }));
    for by in modes {
        for size in [[5, 6], [10, 12], [7, 4], [1, 3], [3, 1], [15, 2]] {
            let (rows, columns) = (weights(5, size[0], by), weights(6, size[1], by));
            let dims = [2, 3, size[0], size[1]];
            let value = |at: &Vec<usize>| -> f64 {
                let all = indices(&[5, 6]).into_iter();
                all.map(|p| array.get(&[at[0], at[1], p[0], p[1]]) * rows[at[2]][p[0]] * columns[at[3]][p[1]]).sum()
            };
            let want: Vec<f64> = indices(&dims).iter().map(value).collect();
            near(&x.interpolate(size, by), &dims, &want, 1e-10);
            near(&x.cast(DType::BF16).interpolate(size, by), &dims, &want, 0.06);
        }
    }
    // One and three axes.
    let line = x.reshape([6, 30]).interpolate([60], Interpolation::Nearest);
    assert_eq!(line.slice((0, ..4)).to_f64_vec().unwrap()[..2], [array.data[0], array.data[0]]);
    let by = Interpolation::Linear { align_corners: false };
    let cube = Tensor::full([1, 1, 3, 4, 5], 2.5).interpolate([2, 5, 3], by);
    near(&cube, &[1, 1, 2, 5, 3], &[2.5; 30], 1e-6);
}
