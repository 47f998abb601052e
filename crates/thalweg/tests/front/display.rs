//! Text as NumPy prints it.

use std::collections::BTreeMap;
use std::f64::consts::{E, PI};
use thalweg::prelude::*;

fn numpys() -> BTreeMap<&'static str, &'static str> {
    let blocks = include_str!("display.txt").strip_prefix("--- ").unwrap().split("\n--- ");
    blocks.map(|b| b.split_once('\n').unwrap()).map(|(name, text)| (name, text.trim_end())).collect()
}

#[test]
fn tensors_print_as_numpy_arrays() {
    let mut texts = numpys();
    let f = |n: i32| Tensor::arange(n);
    let i = |n: usize, dtype| Tensor::arange_with(n, dtype);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases = [
        ("f32_small", Tensor::new([[1.0f32, 2.5], [-3.0, 0.125]])),
        ("f32_thirds", f(6) / 3.0),
        ("f32_tenths", f(5) * 0.1),
        ("f32_scalar", Tensor::new(0.1f32)),
        ("f32_scientific", Tensor::new([1e-5f32, 1.5, -22000.0])),
        ("f32_large", Tensor::new([1e8f32, 2.5e10])),
        ("f32_specials", Tensor::new([nan, inf, -inf, 1.5, 0.0])),
        ("f32_only_specials", Tensor::new([nan, -inf])),
        ("f32_whole", Tensor::new([10.0f32, -2.0, 300.0])),
        ("f64_precise", Tensor::new([PI, -E, 100.0])),
        ("f64_rounded_up", Tensor::new([0.99999, 1.00001, 0.5])),
        ("f16", Tensor::new([0.1f32, 0.333, 65504.0]).cast(DType::F16)),
        ("i32", (i(12, DType::I32) - 3).reshape([3, 4])),
        ("u8", Tensor::new([0u8, 255, 7])),
        ("bool", Tensor::new([[true, false], [false, false]])),
        ("rank_3", f(12).reshape([2, 2, 3])),
        ("rank_4", i(16, DType::I64).reshape([2, 2, 2, 2])),
        ("wrapped", f(40) * 1.5),
        ("wrapped_rows", i(60, DType::I64).reshape([2, 30]) * 100),
        ("abridged", i(1001, DType::I32)),
        ("abridged_matrix", f(10000).reshape([100, 100])),
        ("abridged_rank_3", i(4000, DType::I64).reshape([4, 10, 100])),
        ("one", Tensor::new([[[5i64]]])),
        ("empty", Tensor::zeros([0, 3])),
    ];
    for (name, x) in cases {
        let wanted = texts.remove(name).unwrap();
        assert_eq!(x.to_string(), wanted, "{name}: got\n{x}\ninstead of\n{wanted}");
    }
    assert!(texts.is_empty(), "{texts:?}");
}

#[test]
fn a_precision_is_numpys() {
    let x = Tensor::new([[0.12345678f32, 1.5], [100.25, 2.0]]);
    assert_eq!(format!("{x:.2}"), "[[  0.12   1.5 ]\n [100.25   2.  ]]");
    assert_eq!(format!("{x:.0}"), "[[  0.   2.]\n [100.   2.]]");
    assert_eq!(format!("{x:.8}"), "[[  0.12345678   1.5       ]\n [100.25         2.        ]]");
    assert_eq!(format!("{:.2}", Tensor::new([1e-5f32, 1.5, -22000.0])), "[ 1.0e-05  1.5e+00 -2.2e+04]");
    assert_eq!(format!("{:.1?}", Tensor::new(0.25f32)), "0.2 (f32 [])");
}

#[test]
fn debug_says_dtype_and_shape() {
    assert_eq!(format!("{:?}", Tensor::new([[1.0f32, 2.5]])), "[[1.  2.5]] (f32 [1, 2])");
    assert_eq!(format!("{:?}", Tensor::new(true)), "true (bool [])");
}

#[test]
fn what_cannot_be_computed_prints_its_error() {
    let x = Tensor::zeros([1 << 40, 1 << 10]);
    let text = (x + 1.0).sum(0).to_string();
    assert!(text.starts_with("<f32 [1024]: "), "{text}");
}
