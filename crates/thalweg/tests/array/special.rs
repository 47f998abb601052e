//! Special functions in dtypes other than f64, at special arguments, and their cost.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;

/// f32 equals f64 up to a few units in the last place of the result, or of 1 beside a root.
#[test]
fn f32_is_as_accurate_as_it_says() {
    type Function = (&'static str, fn(&Tensor) -> Tensor, f64, f64, f64);
    let all: [Function; 10] = [
        ("lgamma", Tensor::lgamma, 0.01, 40.0, 4.0),
        ("lgamma of negative numbers", Tensor::lgamma, -5.9, -0.1, 16.0),
        ("digamma", Tensor::digamma, 0.01, 40.0, 4.0),
        ("trigamma", Tensor::trigamma, 0.01, 40.0, 8.0),
        ("i0", Tensor::i0, -40.0, 40.0, 16.0),
        ("i0e", Tensor::i0e, -40.0, 40.0, 8.0),
        ("i1", Tensor::i1, -40.0, 40.0, 16.0),
        ("i1e", Tensor::i1e, -40.0, 40.0, 8.0),
        ("erfinv", Tensor::erfinv, -0.9999, 0.9999, 8.0),
        ("logaddexp", |x| x.logaddexp(-x), -40.0, 40.0, 4.0),
    ];
    for (name, f, low, high, units) in all {
        let x = Tensor::linspace(low, high, 4001);
        let (got, want) = (f(&x).cast(DType::F64), f(&x.cast(DType::F64)));
        let off = ((got - &want).abs() / want.abs().maximum(1.0)).nanmax(..).item::<f64>().unwrap();
        assert!(off <= units * 2f64.powi(-24), "{name}: off by {} units", off * 2f64.powi(24));
        // bf16 and f16 are computed in f32 and rounded once.
        let narrow = x.cast(DType::BF16);
        let (got, want) = (f(&narrow), f(&narrow.cast(DType::F32)).cast(DType::BF16));
        assert!(got.eq(&want).logical_or_nan(&got).all(..).item::<bool>().unwrap(), "{name} of bf16");
    }
}

trait OrNan {
    fn logical_or_nan(&self, x: &Tensor) -> Tensor;
}

impl OrNan for Tensor {
    fn logical_or_nan(&self, x: &Tensor) -> Tensor {
        self | x.is_nan()
    }
}

/// Numbers of all magnitudes: the neighbour by its bits.
#[test]
fn the_next_number_is_the_one_with_the_next_bits() {
    let mut bits: Vec<u32> =
        (0..=255u32).flat_map(|e| [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x7f_fffe, 0x7f_ffff].map(|m| e << 23 | m)).collect();
    bits.retain(|&b| f32::from_bits(b).is_finite());
    let list: Vec<f32> = bits.iter().flat_map(|&b| [f32::from_bits(b), -f32::from_bits(b)]).collect();
    let x = Tensor::from_slice(&list, [list.len()]);
    let up = x.nextafter(f64::INFINITY).to_vec::<f32>().unwrap();
    let down = x.nextafter(f64::NEG_INFINITY).to_vec::<f32>().unwrap();
    for (i, v) in list.iter().enumerate() {
        assert_eq!((up[i], down[i]), (v.next_up(), v.next_down()), "of {v:e}");
    }
    let wide: Vec<f64> = (0..2047u64)
        .flat_map(|e| [0, 1, 2, 1 << 51, (1 << 52) - 1].map(|m| f64::from_bits(e << 52 | m)))
        .flat_map(|v| [v, -v])
        .collect();
    let x = Tensor::from_slice(&wide, [wide.len()]);
    let up = x.nextafter(f64::INFINITY).to_vec::<f64>().unwrap();
    let down = x.nextafter(f64::NEG_INFINITY).to_vec::<f64>().unwrap();
    for (i, v) in wide.iter().enumerate() {
        assert_eq!((up[i], down[i]), (v.next_up(), v.next_down()), "of {v:e}");
    }
}

#[test]
fn bits_are_counted_as_rust_counts_them() {
    macro_rules! check {
        ($($t:ty),*) => {$({
            let list: Vec<$t> = [0, 1, 2, 3, 5, 64, 100, 127].iter().map(|&v| v as $t)
                .chain([<$t>::MIN, <$t>::MAX, <$t>::MAX / 3, <$t>::MAX - 1, (0 as $t).wrapping_sub(1)]).collect();
            let x = Tensor::from_slice(&list, [list.len()]);
            let of = |f: fn(&$t) -> u32| list.iter().map(|v| f(v) as $t).collect::<Vec<_>>();
            assert_eq!(x.bit_count().to_vec::<$t>().unwrap(), of(|v| v.count_ones()), "{}", stringify!($t));
            assert_eq!(x.leading_zeros().to_vec::<$t>().unwrap(), of(|v| v.leading_zeros()), "{}", stringify!($t));
            assert_eq!(x.trailing_zeros().to_vec::<$t>().unwrap(), of(|v| v.trailing_zeros()), "{}", stringify!($t));
        })*};
    }
    check!(i8, i16, i32, i64, u8, u16, u32, u64);
}

#[test]
fn they_are_one_kernel_with_what_is_around_them() {
    let _pinned = pinned();
    let x = randn([4096]);
    let functions: [fn(&Tensor) -> Tensor; 6] = [
        |x| (x * 2.0).lgamma().exp(),
        |x| (x + 3.0).digamma() - 1.0,
        |x| x.i0e() * x,
        |x| x.tanh().erfinv() * 2.0,
        |x| x.logaddexp(1.0).sum(..),
        |x| x.nextafter(0.0) - x,
    ];
    for (n, f) in functions.iter().enumerate() {
        let (_y, c) = counted(|| f(&x));
        assert_eq!((c.kernels, c.bytes_read), (1, 4096 * 4), "function {n}");
    }
}

#[test]
fn mistakes_name_the_function() {
    let integers = Tensor::new([1i32, 2]);
    let floats = Tensor::new([1.0f32, 2.0]);
    let says = |f: &dyn Fn() -> Tensor| {
        let e = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
        e.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    assert!(says(&|| integers.lgamma()).starts_with("lgamma: takes a float dtype, not i32"));
    assert!(says(&|| floats.bit_count()).starts_with("bit_count: takes an integer dtype"));
    assert!(says(&|| floats.logaddexp(Tensor::zeros([3]))).starts_with("logaddexp: shapes [2] and [3]"));
    assert!(says(&|| floats.copysign(Tensor::new([1.0f64]))).starts_with("copysign: dtypes f32 and f64 differ"));
    assert!(says(&|| floats.quantile(1.5, 0)).starts_with("quantile: 1.5 is not in [0, 1]"));
    assert!(says(&|| floats.nanpercentile(150.0, 0)).starts_with("nanpercentile: 150 is not in [0, 100]"));
}
