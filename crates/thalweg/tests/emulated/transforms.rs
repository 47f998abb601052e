//! Fourier transforms by the device's library, emulated on the host, compared with those of the host.
#![cfg(feature = "fft")]

use super::{counted, emulated};
use thalweg::prelude::*;
use thalweg::{Complex, Fft, FftNorm, grad};

fn there(z: &Complex) -> Complex {
    z.to_device(emulated()).unwrap()
}

/// The largest difference, relative to the largest magnitude.
fn apart(a: &Complex, b: &Complex) -> f64 {
    let wide = |z: &Complex| z.to_device(Device::cpu()).unwrap().cast(DType::F64);
    let (a, b) = (wide(a), wide(b));
    let size = b.abs().amax(..).item::<f64>().unwrap().max(1.0);
    (a - b).abs().amax(..).item::<f64>().unwrap() / size
}

#[test]
fn they_are_those_of_the_host() {
    for (dtype, close) in [(DType::F32, 1e-6), (DType::F64, 1e-14)] {
        for (shape, axis) in
            [(&[7][..], 0), (&[3, 8], 1), (&[6, 5], 0), (&[2, 9, 3], 1), (&[2, 3, 1], 2), (&[4, 1, 2], 1)]
        {
            let z = Complex::randn_with(shape, dtype);
            let own = there(&z);
            let ortho = Fft::new().norm(FftNorm::Ortho);
            let n = shape[axis];
            let same = |what: &str, f: &dyn Fn(&Complex) -> Complex| {
                let (want, (got, c)) = (
                    f(&z),
                    counted(|| {
                        let got = f(&own);
                        got.re.to_f64_vec().unwrap();
                        got
                    }),
                );
                assert_eq!((c.host_calls, got.device()), (0, emulated()), "{what}");
                assert!(c.library_calls > 0, "{what}");
                let apart = apart(&got, &want);
                assert!(apart <= close, "{what} of {dtype}{shape:?} along {axis}: {apart:e}");
            };
            same("fft", &|z| z.fft(axis));
            same("ifft", &|z| z.ifft_with(axis, &ortho));
            same("fft of real numbers", &|z| z.re.fft(axis));
            same("rfft", &|z| z.re.rfft_with(axis, &ortho));
            if n > 1 {
                same("irfft", &|z| Complex::real(&z.irfft(axis)));
            }
            same("irfft of odd size", &|z| Complex::real(&z.irfft_with(axis, &Fft::new().sizes([2 * n - 1]))));
            same("fftn", &|z| z.fftn(..));
            same("rfftn", &|z| z.re.rfftn(..));
        }
    }
}

/// Operands in other layouts, and operations around them.
#[test]
fn views_and_what_stands_around() {
    let z = Complex::randn_with([4, 6, 5], DType::F64);
    let own = there(&z);
    own.re.to_f64_vec().unwrap();
    let f = |z: &Complex| {
        let turned = z.permute([2, 0, 1]).slice((1.., .., 1..));
        let both = turned.fft(1) * 2.0 + turned.flip(0).ifft(-1).conj();
        Complex::real(&both.re.t()).rfft_parts(0)
    };
    trait Parts {
        fn rfft_parts(&self, axis: usize) -> Complex;
    }
    impl Parts for Complex {
        fn rfft_parts(&self, axis: usize) -> Complex {
            self.re.rfft(axis) * (0.0, 1.0)
        }
    }
    let ((got, c), want) = (
        counted(|| {
            let got = f(&own);
            got.re.to_f64_vec().unwrap();
            got
        }),
        f(&z),
    );
    assert_eq!((c.host_calls, c.library_calls), (0, 3), "{c:?}");
    assert!(apart(&got, &want) < 1e-13);
}

#[test]
fn gradients_and_nothing() {
    let x = Tensor::randn_with([3, 8], DType::F64);
    let own = x.to_device(emulated()).unwrap();
    let slope = |x: &Tensor| {
        let x = x.tracked();
        grad(&x.rfft(1).abs_square().square().sum(..), &x)
    };
    let (got, want) = (slope(&own).to_device(Device::cpu()).unwrap(), slope(&x));
    assert!((got - &want).abs().amax(..).item::<f64>().unwrap() < 1e-10 * want.abs().amax(..).item::<f64>().unwrap());
    let none = there(&Complex::zeros([0, 8])).fft(1);
    assert_eq!(none.to_vec::<f32>().unwrap(), []);
    let nan = there(&Complex::real(&Tensor::new([1.0f32, f32::NAN]))).fft(0);
    assert!(nan.to_vec::<f32>().unwrap()[0].0.is_nan());
}

/// Many lines take as many launches as few.
#[test]
fn one_call_for_a_batch() {
    let z = there(&Complex::randn([500, 4]));
    z.re.to_f64_vec().unwrap();
    z.im.to_f64_vec().unwrap();
    let (_, c) = counted(|| z.fft(1).re.to_f64_vec().unwrap());
    assert_eq!((c.library_calls, c.host_calls, c.device_launches), (1, 0, 0), "{c:?}");
}
