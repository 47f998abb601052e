//! Every row of the operation table that has a derivative.

use crate::differences::{check, first_order, numbers};
use thalweg::prelude::*;
use thalweg_ir::element::ROWS;

type Row = (&'static str, usize, fn(&[Tensor]) -> Tensor);

/// Call of each row.
const ROWS_CALLED: &[Row] = &[
    ("neg", 1, |x| -&x[0]),
    ("abs", 1, |x| x[0].abs()),
    ("square", 1, |x| x[0].square()),
    ("sqrt", 1, |x| x[0].sqrt()),
    ("rsqrt", 1, |x| x[0].rsqrt()),
    ("recip", 1, |x| x[0].recip()),
    ("exp", 1, |x| x[0].exp()),
    ("exp2", 1, |x| x[0].exp2()),
    ("expm1", 1, |x| x[0].expm1()),
    ("log", 1, |x| x[0].log()),
    ("log2", 1, |x| x[0].log2()),
    ("log10", 1, |x| x[0].log10()),
    ("log1p", 1, |x| x[0].log1p()),
    ("sin", 1, |x| x[0].sin()),
    ("cos", 1, |x| x[0].cos()),
    ("tan", 1, |x| x[0].tan()),
    ("asin", 1, |x| x[0].asin()),
    ("acos", 1, |x| x[0].acos()),
    ("atan", 1, |x| x[0].atan()),
    ("sinh", 1, |x| x[0].sinh()),
    ("cosh", 1, |x| x[0].cosh()),
    ("tanh", 1, |x| x[0].tanh()),
    ("asinh", 1, |x| x[0].asinh()),
    ("acosh", 1, |x| x[0].acosh()),
    ("atanh", 1, |x| x[0].atanh()),
    ("erf", 1, |x| x[0].erf()),
    ("erfc", 1, |x| x[0].erfc()),
    ("sigmoid", 1, |x| x[0].sigmoid()),
    ("relu", 1, |x| x[0].relu()),
    ("add", 2, |x| &x[0] + &x[1]),
    ("sub", 2, |x| &x[0] - &x[1]),
    ("mul", 2, |x| &x[0] * &x[1]),
    ("div", 2, |x| &x[0] / &x[1]),
    ("rem", 2, |x| &x[0] % &x[1]),
    ("pow", 2, |x| x[0].pow(&x[1])),
    ("minimum", 2, |x| x[0].minimum(&x[1])),
    ("maximum", 2, |x| x[0].maximum(&x[1])),
    ("atan2", 2, |x| x[0].atan2(&x[1])),
    ("hypot", 2, |x| x[0].hypot(&x[1])),
    ("where", 2, |x| x[0].detach().gt(x[1].detach()).where_(&x[0], &x[1])),
    ("clamp", 3, |x| x[0].clamp(&x[1], &x[2])),
    ("lerp", 3, |x| x[0].lerp(&x[1], &x[2])),
];

/// Arguments away from kinks and poles.
fn arguments(name: &str, arity: usize, shapes: [&[usize]; 3]) -> Vec<Tensor> {
    let make = |i: usize, low: f64, high: f64| numbers(11 + i as u64, shapes[i], low, high);
    match name {
        "acosh" => vec![make(0, 1.2, 3.0)],
        "sqrt" | "rsqrt" | "log" | "log2" | "log10" | "recip" => vec![make(0, 0.2, 2.0)],
        "pow" => vec![make(0, 0.2, 2.0), make(1, -2.0, 2.0)],
        "div" | "rem" | "atan2" | "hypot" => vec![make(0, 0.3, 2.0), make(1, 0.5, 2.5)],
        "clamp" => vec![make(0, -2.0, 2.0), make(1, -1.0, -0.5), make(2, 0.5, 1.0)],
        _ => (0..arity).map(|i| make(i, -0.9, 0.9)).collect(),
    }
}

#[test]
fn the_list_has_every_row_with_a_derivative() {
    let rows: Vec<&str> = ROWS.iter().filter(|r| r.derivative.is_some() && r.name != "probe").map(|r| r.name).collect();
    assert_eq!(rows, ROWS_CALLED.iter().map(|r| r.0).collect::<Vec<_>>());
}

#[test]
fn rows_agree_with_differences_to_second_order() {
    for &(name, arity, f) in ROWS_CALLED {
        check(name, &arguments(name, arity, [&[5], &[5], &[5]]), &f);
    }
}

#[test]
fn broadcast_arguments_get_sums() {
    for &(name, arity, f) in ROWS_CALLED.iter().filter(|r| r.1 > 1) {
        check(name, &arguments(name, arity, [&[2, 1, 2], &[3, 1], &[1]]), &f);
    }
}

#[test]
fn scalars_beside_tensors() {
    let x = [numbers(1, [4], 0.3, 1.8)];
    type Case = (&'static str, fn(&Tensor) -> Tensor);
    let cases: [Case; 12] = [
        ("x + 2", |x| x + 2.0),
        ("2 - x", |x| 2.0 - x),
        ("3x", |x| x * 3.0),
        ("x / 3", |x| x / 3.0),
        ("3 / x", |x| 3.0 / x),
        ("x ^ 2.5", |x| x.powf(2.5)),
        ("x ^ -3", |x| x.powi(-3)),
        ("x ^ 3", |x| x.powi(3)),
        ("clamp", |x| x.clamp(0.5, 1.5)),
        ("maximum", |x| x.maximum(1.0)),
        ("where", |x| x.detach().gt(1.0).where_(x, 0.5)),
        ("lerp", |x| x.lerp(2.0, 0.25)),
    ];
    for (name, f) in cases {
        check(name, &x, &|x| f(&x[0]));
    }
}

/// Gradients at kinks are those that the table states.
#[test]
fn kinks_are_as_stated() {
    let slope = |f: fn(&Tensor) -> Tensor, at: f64| {
        let x = Tensor::new(at).tracked();
        f(&x).backward()[&x].item::<f64>().unwrap()
    };
    assert_eq!(slope(|x| x.abs(), 0.0), 0.0);
    assert_eq!(slope(|x| x.relu(), 0.0), 0.0);
    assert_eq!(slope(|x| x.maximum(2.0), 2.0), 0.5);
    assert_eq!(slope(|x| x.minimum(2.0), 2.0), 0.5);
    assert_eq!(slope(|x| x.clamp(2.0, 3.0), 2.0), 1.0);
    assert_eq!(slope(|x| x.pow(x.full_like(0.0)), 0.0), 0.0);
    assert!(slope(|x| x.hypot(x), 0.0).is_nan());
    // A side that is not selected does not contribute, whatever its derivative is.
    assert_eq!(slope(|x| x.gt(5.0).where_(x.recip(), x * 3.0), 2.0), 3.0);
}

#[test]
fn narrow_floats_are_differentiated_in_f32() {
    for dtype in [DType::BF16, DType::F16] {
        for (name, _, f) in ROWS_CALLED.iter().filter(|r| r.1 == 1) {
            let exact = arguments(name, 1, [&[64], &[64], &[64]])[0].cast(dtype);
            let (narrow, wide) = (exact.tracked(), exact.cast(DType::F32).tracked());
            let g =
                f(std::slice::from_ref(&narrow)).sum(..).backward()[&narrow].cast(DType::F64).to_vec::<f64>().unwrap();
            // As if computed in f32 from the result rounded to the dtype, and rounded once.
            let w = f(std::slice::from_ref(&wide)).sum(..).backward()[&wide].cast(DType::F64).to_vec::<f64>().unwrap();
            let epsilon = if dtype == DType::BF16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
            for (g, w) in g.iter().zip(&w) {
                // The result itself is off by half an epsilon, and the derivative may be off by several times that.
                assert!((g - w).abs() <= 4.0 * epsilon * w.abs().max(1.0), "{name} of {dtype}: {g}, in f32 {w}");
            }
        }
    }
}

#[test]
fn higher_orders_follow() {
    let x = [numbers(3, [3], 0.2, 0.8)];
    first_order("third derivative of sin(x)·exp(x)", &x, &|x| {
        let x = x[0].tracked();
        let once = thalweg::grad_graph(&(x.sin() * x.exp()).sum(..), &x);
        thalweg::grad_graph(&once.sum(..), &x)
    });
}
