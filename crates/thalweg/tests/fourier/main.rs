//! Fourier transforms and complex numbers: values against NumPy (`bench/golden_array.py`) and against the defining sum,
//! gradients against differences, panics, and cost.

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../gradients/differences.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod differences;
#[path = "../front/golden.rs"]
mod golden;
#[path = "../mistake/mod.rs"]
mod mistake;

use counting::{counted, pinned, randn};
use differences::{check, numbers};
use golden::Golden;
use std::f64::consts::TAU;
use thalweg::prelude::*;
use thalweg::{Complex, Fft, FftNorm};

fn complex(g: &mut Golden, name: &str, z: &Complex) {
    g.check(&format!("{name}_re"), &z.re);
    g.check(&format!("{name}_im"), &z.im);
}

#[test]
fn every_case_is_what_they_say() {
    let mut g = Golden::load(include_str!("golden.txt"));
    let (x, y) = (g.take("x"), g.take("y"));
    let z = Complex::new(x.clone(), y);
    for (name, norm) in [("backward", FftNorm::Backward), ("ortho", FftNorm::Ortho), ("forward", FftNorm::Forward)] {
        let g = &mut g;
        let (own, sizes) = (Fft::new().norm(norm), |s: &[usize]| Fft::new().norm(norm).sizes(s));
        complex(g, &format!("fft_real_{name}"), &x.fft_with(1, &own));
        complex(g, &format!("rfft_{name}"), &x.rfft_with(1, &own));
        complex(g, &format!("fft_{name}"), &z.fft_with(0, &own));
        complex(g, &format!("ifft_{name}"), &z.ifft_with(2, &own));
        g.check(&format!("irfft_{name}"), &z.irfft_with(1, &own));
        g.check(&format!("irfft_odd_{name}"), &z.irfft_with(2, &sizes(&[7])));
        g.check(&format!("hfft_{name}"), &z.hfft_with(1, &sizes(&[9])));
        complex(g, &format!("ihfft_{name}"), &x.ihfft_with(1, &own));
        complex(g, &format!("rfftn_{name}"), &x.rfftn_with([2, 0], &sizes(&[4, 8])));
        g.check(&format!("irfftn_{name}"), &z.irfftn_with([0, 2], &sizes(&[7, 9])));
    }
    for n in [1, 3, 8] {
        let own = Fft::new().sizes([n]);
        complex(&mut g, &format!("fft_{n}"), &z.fft_with(1, &own));
        complex(&mut g, &format!("rfft_{n}"), &x.rfft_with(2, &own));
        g.check(&format!("irfft_{n}"), &z.irfft_with(0, &own));
    }
    complex(&mut g, "fft2", &z.fft2());
    complex(&mut g, "ifft2", &z.ifft2());
    complex(&mut g, "rfft2", &x.rfft2());
    g.check("irfft2", &z.irfft2());
    complex(&mut g, "fftn", &z.fftn(..));
    complex(&mut g, "fftn_real", &x.fftn([0, 1]));
    complex(&mut g, "ifftn", &z.ifftn(..));
    let w = Complex::new(g.take("w_re"), g.take("w_im"));
    complex(&mut g, "times", &(&z * &w));
    complex(&mut g, "over", &(&z / w));
    complex(&mut g, "exp", &z.exp());
    complex(&mut g, "log", &z.log());
    complex(&mut g, "matmul", &z.matmul(&z.adjoint()));
    g.check("abs", &z.abs());
    g.check("angle", &z.angle());
    assert_eq!(g.left(), Vec::<&str>::new());
}

/// The transform as a product with the DFT matrix, along any axis.
fn by_definition(z: &Complex, axis: usize, sign: f64) -> Complex {
    let n = z.dims()[axis];
    let i = Tensor::arange_with(n, DType::F64);
    // Whole periods are removed, so that the angles are exact.
    let angles = (i.unsqueeze(1) * &i) % n as f64 * (sign * TAU / n as f64);
    let waves = Complex::from_polar(&Tensor::ones_with([n, n], DType::F64), &angles);
    let last = z.map(|t| t.cast(DType::F64).movedim(axis, -1).unsqueeze(-2));
    last.matmul(&waves).map(|t| t.squeeze(-2).movedim(-1, axis))
}

fn apart(a: &Tensor, b: &Tensor) -> f64 {
    if a.numel() == 0 {
        return 0.0;
    }
    (a.cast(DType::F64) - b).abs().amax(..).item::<f64>().unwrap()
}

/// Sizes of all kinds, few and many lines, each axis, views, both dtypes.
#[test]
fn of_random_shapes() {
    for seed in 0..150 {
        let mut r = fastrand::Rng::with_seed(seed);
        let mut dims: Vec<usize> = (0..r.usize(1..4)).map(|_| r.usize(1..20)).collect();
        let axis = r.usize(..dims.len());
        dims[axis] = match r.u32(..6) {
            0 => [1, 2, 3][r.usize(..3)],
            1 => [97, 128, 210][r.usize(..3)],
            _ => r.usize(1..30),
        };
        if seed % 30 == 0 {
            // Enough for several threads, with many and with few lines before the axis.
            dims = [vec![256, 40, 48], vec![2, 130, 256], vec![1, 64, 1500]][r.usize(..3)].clone();
        }
        let axis = if seed % 30 == 0 { 1 } else { axis };
        let dtype = if r.bool() { DType::F32 } else { DType::F64 };
        let close = dtype.float_info().epsilon * 100.0 * (dims[axis] as f64).sqrt();
        let mut turned = dims.clone();
        turned.reverse();
        let part = |r: &mut fastrand::Rng| match r.bool() {
            true => numbers(r.u64(..), &dims[..], -1.0, 1.0).cast(dtype),
            false => {
                let order: Vec<i64> = (0..dims.len() as i64).rev().collect();
                numbers(r.u64(..), &turned[..], -1.0, 1.0).cast(dtype).permute(order)
            }
        };
        let z = Complex::new(part(&mut r), part(&mut r));
        let what = format!("seed {seed}: {dtype}{:?} along {axis}", dims);
        let same = |name: &str, a: &Complex, b: &Complex| {
            let (re, im) = (apart(&a.re, &b.re), apart(&a.im, &b.im));
            assert!(re < close && im < close, "{what}: {name}: {re:e} {im:e}");
        };
        let want = by_definition(&z, axis, -1.0);
        let got = z.fft(axis);
        same("fft", &got, &want);
        same("ifft", &got.ifft(axis), &z.map(|t| t.cast(DType::F64)));
        let want = by_definition(&Complex::real(&z.re), axis, -1.0);
        let n = dims[axis];
        let half = z.re.rfft(axis);
        same("rfft", &half, &want.map(|t| t.narrow(axis, 0, n / 2 + 1)));
        let back = half.irfft_with(axis, &Fft::new().sizes([n]));
        assert!(apart(&back, &z.re.cast(DType::F64)) < close, "{what}: irfft");
    }
    let empty = Complex::real(&Tensor::zeros([0, 8])).fft(1);
    assert_eq!(empty.to_vec::<f32>().unwrap(), []);
}

#[test]
fn gradients() {
    let parts = |z: Complex| Tensor::cat(&[z.re.flatten(), z.im.flatten()], 0);
    let (x, y) = (numbers(1, [2, 5, 3], -1.0, 1.0), numbers(2, [2, 5, 3], -1.0, 1.0));
    let both = [x.clone(), y];
    let one = std::slice::from_ref(&x);
    let z = |x: &[Tensor]| Complex::new(x[0].clone(), x[1].clone());
    for norm in [FftNorm::Backward, FftNorm::Ortho] {
        let own = Fft::new().norm(norm);
        check("fft", &both, &|x| parts(z(x).fft_with(1, &own)));
        check("ifft", &both, &|x| parts(z(x).ifft_with(0, &own)).square());
        check("rfft", one, &|x| parts(x[0].rfft_with(1, &own)));
    }
    check("rfft, power", one, &|x| x[0].rfft(0).abs_square());
    for n in [4, 5, 7] {
        check("irfft", &both, &|x| z(x).irfft_with(1, &Fft::new().sizes([n])).square());
        check("rfft of a size", one, &|x| parts(x[0].rfft_with(1, &Fft::new().sizes([n]))));
    }
    check("rfft2", one, &|x| parts(x[0].rfft2()));
    check("irfft2", &both, &|x| z(x).irfft2());
    check("fft2", &both, &|x| parts(z(x).fft2()));
    check("hfft", &both, &|x| z(x).hfft(1));
    check("arithmetic", &both, &|x| {
        let z = z(x);
        let w = &z * (&z - z.conj() / (Complex::real(&x[0]) * 3.0 + z.times_i())) / z.abs();
        parts(w.exp().log()) + z.angle().sum(..)
    });
    // At 0 the gradient of the magnitude is 0, as in PyTorch.
    let zero = Tensor::new([0.0f32, 3.0]).tracked();
    let slope = Complex::real(&zero).abs().sum(..).backward()[&zero].to_vec::<f32>().unwrap();
    assert_eq!(slope, [0.0, 1.0]);
}

#[test]
fn large_and_small_complex_numbers() {
    let z = |re: f32, im: f32| Complex::new(Tensor::new([re]), Tensor::new([im]));
    assert_eq!(z(3e30, 4e30).abs().to_vec::<f32>().unwrap(), [5e30]);
    let q = (z(1e30, 0.0) / z(2e30, 2e30)).to_vec::<f32>().unwrap();
    assert!((q[0].0 - 0.25).abs() < 1e-6 && (q[0].1 + 0.25).abs() < 1e-6, "{q:?}");
    // As NumPy: each part divided by 0.
    assert_eq!((z(1.0, 1.0) / z(0.0, 0.0)).to_vec::<f32>().unwrap(), [(f32::INFINITY, f32::INFINITY)]);
    assert!((z(0.0, 0.0) / z(0.0, 0.0)).to_vec::<f32>().unwrap()[0].0.is_nan());
    assert_eq!(z(0.0, 0.0).angle().to_vec::<f32>().unwrap(), [0.0]);
}

#[test]
fn mistakes_panic_at_the_line() {
    let x = Tensor::zeros([2, 3]);
    let told = |f: &dyn Fn(), parts: &[&str]| mistake::assert_mistake_at("tests/fourier/", f, parts);
    told(&|| drop(x.fft(2)), &["fft: axis 2 is out of range for rank 2"]);
    told(&|| drop(x.cast(DType::F16).rfft(0)), &["rfft: takes f32 or f64, not f16"]);
    told(&|| drop(Tensor::zeros([2, 0]).rfft(1)), &["rfft: a transform of no samples, along axis 1 of shape [2, 0]"]);
    told(&|| drop(Complex::real(&Tensor::zeros([1])).irfft(0)), &["irfft: a transform of no samples"]);
    told(&|| drop(x.fft_with(0, &Fft::new().sizes([1, 2]))), &["fft: 2 sizes for 1 axes"]);
    told(&|| drop(Tensor::zeros([3]).fft2()), &["fft2: axis -2 is out of range for rank 1"]);
    told(&|| drop(Complex::new(x.clone(), Tensor::zeros([4, 3]))), &["Complex::new: shapes [2, 3] and [4, 3]"]);
    told(&|| drop(Complex::real(&x.cast(DType::I32))), &["Complex::real: takes a float dtype, not i32"]);
}

/// A transform is a call, and the arithmetic of complex numbers shares kernels.
#[test]
fn it_costs_its_call_and_nothing_else() {
    let _pinned = pinned();
    let x = randn([8, 256]);
    thalweg::synchronize().unwrap();
    let power = || {
        let z = (&x * 2.0).rfft(1);
        (&z * z.conj()).re.sum(1)
    };
    let (y, c) = counted(power);
    assert_eq!((c.host_calls, c.kernels), (1, 2), "{c:?}");
    // Its result is read once, and the sums are written.
    let elements = 8 * 256;
    assert_eq!((c.bytes_read, c.bytes_written), (4 * elements + 2 * 4 * 8 * 129, 4 * elements + 4 * 8), "{c:?}");
    drop(y);
    let (_, c) = counted(power);
    assert_eq!((c.host_calls, c.plans_made), (1, 0), "{c:?}");
}
