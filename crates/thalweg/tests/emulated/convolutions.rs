//! Convolutions by the device's library, which the emulated GPU replaces: beside the same ones on the CPU.

use super::{emulated, values};
use thalweg::{Conv, ConvTranspose, DType, Tensor, grad, grad_graph, vjp};

fn numbers<const N: usize>(shape: [usize; N], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let all: Vec<f32> =
        (0..n as u64).map(|i| ((i * 2654435761 + seed * 40503) % 1009) as f32 / 2018.0 - 0.25).collect();
    Tensor::from_slice(&all, shape)
}

fn near(got: &Tensor, want: &Tensor, tolerance: f32) {
    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()));
    let [got, want] = [got, want].map(|t| values(&t.cast(DType::F32)));
    let largest = want.iter().fold(0f32, |m, v| m.max(v.abs()));
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        assert!((g - w).abs() <= tolerance * largest, "{i}: {g} for {w}");
    }
}

/// Runs a function of two tensors on the CPU and on the emulated GPU: result, both gradients, and gradients of a
/// function of these. All but the elementwise parts are the library's.
fn compare(x: Tensor, w: Tensor, f: impl Fn(&Tensor, &Tensor) -> Tensor) {
    let tolerance = if x.dtype() == DType::F32 { 2e-5 } else { 2e-2 };
    let all = |x: &Tensor, w: &Tensor| {
        let (y, pull) = vjp(|(x, w): (Tensor, Tensor)| f(&x, &w).tanh(), (x, w));
        let (dx, dw) = pull(&y);
        let twice = |x: &Tensor, w: &Tensor| {
            let (x, w) = (x.tracked(), w.tracked());
            let y = f(&x, &w);
            let (a, b) = grad_graph(&y.sin().sum(..), (&x, &w));
            let (a, b) = grad(&(a.square().sum(..) + b.square().sum(..)), (&x, &w));
            [a, b]
        };
        let mut all = vec![y, dx, dw];
        all.extend(twice(x, w));
        all
    };
    let want = all(&x, &w);
    let [x, w] = [x, w].map(|t| t.to_device(emulated()).unwrap());
    let (got, explained) = thalweg::explain(|| {
        let got = all(&x, &w);
        got.iter().for_each(|t| drop(values(&t.cast(DType::F32))));
        got
    });
    for (got, want) in got.iter().zip(&want) {
        near(got, want, tolerance);
    }
    assert!(explained.to_string().contains("cuDNN"), "{explained}");
}

#[test]
fn strides_dilations_paddings_and_groups() {
    let options = Conv::default().stride([2, 1]).padding([(1, 0), (2, 1)]).dilation([1, 2]).groups(2);
    compare(numbers([3, 16, 15, 17], 1), numbers([20, 8, 3, 3], 2), |x, w| x.conv2d(w, None, options));
}

#[test]
fn one_and_three_axes() {
    compare(numbers([3, 16, 90], 3), numbers([24, 16, 5], 4), |x, w| x.conv1d(w, None, Conv::default().padding(2)));
    let options = Conv::default().stride(2).padding(1);
    compare(numbers([1, 6, 9, 10, 11], 5), numbers([16, 6, 3, 3, 3], 6), |x, w| x.conv3d(w, None, options));
}

#[test]
fn transposed_convolutions() {
    let options = ConvTranspose::default().stride(2).padding(1).output_padding([1, 0]);
    compare(numbers([2, 12, 9, 11], 7), numbers([12, 10, 4, 3], 8), |x, w| x.conv_transpose2d(w, None, options));
}

#[test]
fn channels_last_and_narrow_dtypes() {
    let last = |t: Tensor| t.permute([0, 3, 1, 2]);
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let (x, w) = (numbers([2, 14, 15, 8], 9).cast(dtype), numbers([16, 3, 3, 8], 10).cast(dtype));
        let options = Conv::default().padding(1).channels_last(true);
        compare(last(x), last(w), |x, w| x.conv2d(w, None, options));
    }
}

#[test]
fn what_the_library_does_not_compute_is_a_product() {
    let (x, w) = (numbers([1, 4, 20, 20], 11), numbers([8, 4, 3, 3], 12));
    for dtype in [DType::F64, DType::I32] {
        let [x, w] = [&x, &w].map(|t| (t * 8.0).cast(dtype));
        let want = x.conv2d(&w, None, Conv::default());
        let [x, w] = [x, w].map(|t| t.to_device(emulated()).unwrap());
        near(&x.conv2d(&w, None, Conv::default()), &want, 1e-6);
    }
}

#[test]
fn operands_at_odd_offsets_and_with_strides_are_copied() {
    let (x, w) = (numbers([2, 9, 16, 17], 13), numbers([17, 8, 3, 3], 14));
    compare(x, w, |x, w| {
        let (x, w) = (x.narrow(1, 1, 8).narrow(3, 1, 16), w.narrow(0, 1, 16));
        x.conv2d(&w, None, Conv::default())
    });
}

#[test]
fn what_is_between_convolutions_stays_in_their_order() {
    let options = Conv::default().padding(1).channels_last(true);
    let net = |x: &Tensor, v: &Tensor, w: &Tensor, b: &Tensor| {
        let last = |t: &Tensor| t.permute([0, 3, 1, 2]);
        let (x, v, w) = (last(x), last(v), last(w));
        let h = (x.conv2d(&v, Some(b), options) * 0.5).relu();
        let mean = h.mean_keepdim([0, 2, 3]);
        let y = h.conv2d(&w, None, options) - mean + &h;
        y.permute([0, 2, 3, 1])
    };
    let [x, v, w, b] =
        [numbers([2, 14, 15, 8], 1), numbers([8, 3, 3, 8], 2), numbers([8, 3, 3, 8], 3), numbers([1, 1, 1, 8], 4)];
    let b = b.reshape([8]);
    let want = net(&x, &v, &w, &b);
    let [x, v, w, b] = [x, v, w, b].map(|t| t.to_device(emulated()).unwrap());
    let (got, explained) = thalweg::explain(|| {
        let y = net(&x, &v, &w, &b);
        drop(values(&y));
        y
    });
    near(&got, &want, 2e-5);
    // Two convolutions, what is between them, its mean, and what follows.
    let kernels: usize = explained.segments.iter().map(|s| s.kernels.len()).sum();
    assert!(kernels <= 5, "{explained}");
}
