//! Complex numbers as two tensors, against NumPy (`bench/golden_array.py`), and the promises of their documentation.

mod edges;
mod files;
#[path = "../front/golden.rs"]
mod golden;
mod gradients;
#[path = "../mistake/mod.rs"]
mod mistake;
mod moves;

use golden::Golden;
use thalweg::Complex;
use thalweg::prelude::*;

fn load() -> Golden {
    Golden::load(include_str!("golden.txt"))
}

fn pair(g: &mut Golden, name: &str) -> Complex {
    Complex::new(g.take(&format!("{name}_re")), g.take(&format!("{name}_im")))
}

fn check(g: &mut Golden, name: &str, z: &Complex) {
    g.check(&format!("{name}_re"), &z.re);
    g.check(&format!("{name}_im"), &z.im);
}

/// A function of one number.
type Function = fn(&Complex) -> Complex;

/// All functions, by the names of the golden cases.
const FUNCTIONS: [(&str, Function); 22] = [
    ("exp", Complex::exp),
    ("expm1", Complex::expm1),
    ("log", Complex::log),
    ("log1p", Complex::log1p),
    ("log2", Complex::log2),
    ("log10", Complex::log10),
    ("sqrt", Complex::sqrt),
    ("square", Complex::square),
    ("recip", Complex::recip),
    ("sign", Complex::sign),
    ("sin", Complex::sin),
    ("cos", Complex::cos),
    ("tan", Complex::tan),
    ("sinh", Complex::sinh),
    ("cosh", Complex::cosh),
    ("tanh", Complex::tanh),
    ("asin", Complex::asin),
    ("acos", Complex::acos),
    ("atan", Complex::atan),
    ("asinh", Complex::asinh),
    ("acosh", Complex::acosh),
    ("atanh", Complex::atanh),
];

#[test]
fn numpy_computes_the_same() {
    let mut g = load();
    let (z, w) = (pair(&mut g, "z"), pair(&mut g, "w"));
    let r = g.take("r");
    operators(&mut g, &z, &w, &r);
    for (name, f) in FUNCTIONS {
        check(&mut g, name, &f(&z));
    }
    g.check("abs", &z.abs());
    g.check("angle", &z.angle());
    check(&mut g, "conj", &z.conj());
    check(&mut g, "pow", &z.pow(&w));
    check(&mut g, "powi", &z.powi(-3));
    check(&mut g, "powf", &z.powf(1.7));
    reductions(&mut g, &z);
    products(&mut g, &z, &w);
    systems(&mut g, &z, &w);
    // The other cases are checked by `edges`.
    edges::comparisons(&mut g);
    let rest = g.left().into_iter().filter(|name| !name.starts_with("edges_") && !name.starts_with("far_"));
    assert_eq!(rest.collect::<Vec<_>>(), Vec::<&str>::new());
}

fn operators(g: &mut Golden, z: &Complex, w: &Complex, r: &Tensor) {
    check(g, "add", &(z + w));
    check(g, "sub", &(z - w.clone()));
    check(g, "mul", &(z.clone() * w));
    check(g, "div", &(z.clone() / w.clone()));
    check(g, "plus_real", &(z + r));
    check(g, "minus_real", &(z - r));
    check(g, "times_real", &(r.clone() * z));
    check(g, "over_real", &(z / r.clone()));
    check(g, "real_minus", &(r - z));
    check(g, "real_over", &(r / z));
    check(g, "number_minus", &(2.5 - z));
    check(g, "number_over", &(3i64 / z.clone()));
    check(g, "plus_pair", &((1.0, -2.0) + z));
    check(g, "pair_minus", &((1.0, -2.0) - z));
    check(g, "times_pair", &(z * (1.0, -2.0)));
    check(g, "over_pair", &(z / (1.0, -2.0)));
    check(g, "pair_over", &((1.0, -2.0) / z.clone()));
    let mut assigned = z.clone();
    assigned += w;
    assigned *= (2.0, 0.0);
    assigned -= 1;
    check(g, "assigned", &assigned);
    // The other spellings are the same operation.
    let same = |a: Complex, b: Complex| assert_eq!(a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    same(z + w, z.clone() + w.clone());
    same(r + z, z + r);
    same(1i64 * z.clone(), z * 1.0f32);
    same(z - (1.0, 2.0), -((1.0, 2.0) - z));
    same(z * (1.0, 2.0), (1.0, 2.0) * z);
    same(z + (1.0, 2.0), (1.0, 2.0) + z.clone());
}

fn reductions(g: &mut Golden, z: &Complex) {
    check(g, "sum", &z.sum(1));
    check(g, "mean", &z.mean(..));
    check(g, "prod", &z.prod(0));
    check(g, "prod_odd", &z.prod(1));
    check(g, "cumsum", &z.cumsum(0));
    check(g, "cumprod", &z.cumprod(1));
    g.check("var", &z.var(1));
    g.check("var_with", &z.var_with(0, 1.0));
    g.check("std", &z.std(..));
    g.check("norm", &z.norm(1));
}

fn products(g: &mut Golden, z: &Complex, w: &Complex) {
    check(g, "matmul", &z.matmul(&w.t()));
    check(g, "dot", &z.slice(0).dot(&w.slice(0)));
    check(g, "vdot", &z.vdot(w));
    check(g, "vecdot", &z.vecdot(w, -1));
    check(g, "outer", &z.slice(0).outer(&w.slice((.., 0))));
    check(g, "kron", &z.slice(..2).kron(&w.slice(0)));
    check(g, "tensordot", &z.tensordot(w, (0, 0)));
    check(g, "einsum", &Complex::einsum("ij,kj->ik", &[z, w]));
    check(g, "trace", &z.trace());
    check(g, "matrix_power", &z.slice((.., ..4)).matrix_power(5));
    check(g, "cross", &z.slice((.., ..3)).cross(&w.slice((.., 2..)), -1));
    check(g, "adjoint", &z.adjoint());
    check(g, "diff", &z.diff(2, 1));
    check(g, "diag", &z.diag(1));
    check(g, "pad", &z.pad([(1, 0), (0, 2)], 3));
}

#[cfg(feature = "linalg")]
fn systems(g: &mut Golden, z: &Complex, w: &Complex) {
    let square = z.slice((.., ..4));
    check(g, "solve", &square.solve(w));
    check(g, "inv", &square.inv());
    g.check("svdvals", &z.svdvals());
    g.check("eigvalsh", &square.eigvalsh());
    let column = square.solve(&w.slice((.., 0)));
    assert!(square.matmul(&column).allclose(&w.slice((.., 0)), 1e-12, 1e-12).unwrap());
    // A batch of systems, one of them singular.
    let many = Complex::stack(&[&square, &(&square * (0.0, 1.0))], 0);
    assert!(many.solve(w).index_axis(0, 1).allclose(&(square.solve(w) * (0.0, -1.0)), 1e-11, 1e-11).unwrap());
    let none = Complex::stack(&[&square, &(&square * 0.0)], 0).inv();
    assert!(none.re.to_vec::<f64>().unwrap_err().to_string().contains("singular"));
}

#[cfg(not(feature = "linalg"))]
fn systems(g: &mut Golden, _: &Complex, _: &Complex) {
    ["solve", "inv"].iter().for_each(|name| drop(pair(g, name)));
    ["svdvals", "eigvalsh"].iter().for_each(|name| drop(g.take(name)));
}

/// f32 and f16: with the functions' own bounds, computed in f32, rounded once.
#[test]
fn in_narrow_dtypes_they_are_what_they_are_in_f64() {
    let z = pair(&mut load(), "z");
    for (dtype, eps) in [(DType::F32, 1e-6), (DType::F16, 2e-3), (DType::BF16, 1.6e-2)] {
        let narrow = z.cast(dtype);
        for (name, f) in FUNCTIONS {
            let got = f(&narrow);
            assert_eq!(got.dtype(), dtype, "{name}");
            let want = f(&narrow.cast(DType::F64));
            assert!(
                got.cast(DType::F64).allclose(&want, eps, eps).unwrap(),
                "{name} of {dtype}: {got:?} and not {want:?}"
            );
        }
    }
}
