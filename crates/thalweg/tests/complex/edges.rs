//! Branch cuts, poles, infinities, NaN; arguments that are large, small, or near 1.

use super::{FUNCTIONS, load, pair};
use crate::golden::Golden;
use thalweg::Complex;
use thalweg::prelude::*;

pub fn comparisons(g: &mut Golden) {
    let (at, _) = (pair(g, "edges"), pair(g, "far"));
    let f = |t: Tensor| t.cast(DType::F64);
    g.check("eq", &f(at.eq(&at.flip(0))));
    g.check("ne", &f(at.ne(&at.flip(0))));
    g.check("isnan", &f(at.is_nan()));
    g.check("isinf", &f(at.is_inf()));
    g.check("isfinite", &f(at.is_finite()));
}

/// The elements that differ from NumPy's; with `signs` also in the sign of a zero, which selects the side of a branch
/// cut.
fn differ(got: &Complex, want: &Complex, signs: bool) -> Vec<(usize, [(f64, f64); 2])> {
    let same = |g: f64, w: f64| {
        let close = (g - w).abs() <= 2e-14 * w.abs() || g == w;
        let sign = !signs || w != 0.0 || g.is_sign_negative() == w.is_sign_negative();
        close && sign || (g.is_nan() && w.is_nan())
    };
    let all = got.to_vec::<f64>().unwrap().into_iter().zip(want.to_vec::<f64>().unwrap());
    all.enumerate().filter(|(_, (g, w))| !(same(g.0, w.0) && same(g.1, w.1))).map(|(i, (g, w))| (i, [g, w])).collect()
}

#[test]
fn special_values_are_numpys() {
    let mut g = load();
    let at = pair(&mut g, "edges");
    let numbers = at.to_vec::<f64>().unwrap();
    let mut wrong = Vec::new();
    for (name, f) in FUNCTIONS {
        let want = pair(&mut g, &format!("edges_{name}"));
        // Signs of zeros depend on how a product is written; NumPy's expm1 is NaN where exp is not.
        let signs = !matches!(name, "square" | "recip");
        for (i, [got, want]) in differ(&f(&at), &want, signs) {
            if name != "expm1" || !(want.0.is_nan() || want.1.is_nan()) {
                wrong.push(format!("{name}{:?}: {got:?} and not {want:?}", numbers[i]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    let exact = |name: &str, got: Tensor, want: Tensor| {
        let [got, want] = [got, want].map(|t| Complex::real(&t));
        assert_eq!(differ(&got, &want, true), [], "{name}");
    };
    exact("abs", at.abs(), g.take("edges_abs"));
    exact("angle", at.angle(), g.take("edges_angle"));
    let powers = [(0.0, 0.0), (1.0, 0.0), (2.5, 0.0), (-1.0, 0.0), (0.0, 1.0), (1.0, -1.0)];
    let want = pair(&mut g, "edges_pow");
    // Infinite and NaN results depend on how NumPy writes a power as products; zeros do not.
    let finite = at.is_finite().unsqueeze(1).broadcast_to(*want.shape());
    let got = at.unsqueeze(1).pow(&Complex::from_pairs(&powers, [6]));
    let [got, want] = [got, want].map(|z| Complex::where_(&finite, &z, &Complex::real(&z.re.zeros_like())));
    let close = got.isclose(&want, 1e-13, 1e-15) | want.is_nan().and(got.is_nan());
    assert!(close.all(..).item::<bool>().unwrap(), "pow: {got:?} and not {want:?}");
}

#[test]
fn large_and_small_ones_are_numpys() {
    let mut g = load();
    let at = pair(&mut g, "far");
    let numbers = at.to_vec::<f64>().unwrap();
    let mut wrong = Vec::new();
    for (name, f) in FUNCTIONS {
        let want = pair(&mut g, &format!("far_{name}"));
        for (i, [got, want]) in differ(&f(&at), &want, false) {
            wrong.push(format!("{name}{:?}: {got:?} and not {want:?}", numbers[i]));
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

/// The sides of branch cuts, whose values differ only by the sign of a zero.
#[test]
fn both_sides_of_a_cut() {
    let on = |re: f64, im: f64| Complex::from_pairs(&[(re, im), (re, -im)], [2]);
    let apart = |z: Complex, what: &str| {
        let [above, below] = z.to_vec::<f64>().unwrap()[..] else { panic!("two were given") };
        assert!((above.0 - below.0).abs() + (above.1 - below.1).abs() > 0.5, "{what}: {above:?} and {below:?}");
    };
    apart(on(-2.0, 0.0).log(), "log");
    apart(on(-2.0, 0.0).sqrt(), "sqrt");
    apart(on(-2.0, 0.0).log1p(), "log1p");
    apart(on(-2.0, 0.0).powf(1.5), "pow");
    for re in [-2.0, 2.0] {
        apart(on(re, 0.0).asin(), "asin");
        apart(on(re, 0.0).acos(), "acos");
        apart(on(re, 0.0).atanh(), "atanh");
        let turned = Complex { re: on(re, 0.0).im, im: on(re, 0.0).re };
        apart(turned.asinh(), "asinh");
        apart(turned.atan(), "atan");
    }
    apart(on(0.5, 0.0).acosh(), "acosh");
    apart(on(-2.0, 0.0).acosh(), "acosh");
    // A real operand has no imaginary part, so the side stays.
    apart((on(-2.0, 0.0) + 1.0).sqrt(), "sqrt");
    apart((1.0 - on(2.0, 0.0)).sqrt(), "sqrt");
}
