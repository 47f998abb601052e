//! Gradients, as those of the parts as two variables, against central differences.

use super::FUNCTIONS;
use thalweg::Complex;
use thalweg::prelude::*;

/// Compares the gradients of a real number by both parts with central differences.
fn check(what: &str, values: [Vec<f64>; 2], f: &dyn Fn(&Complex) -> Tensor) {
    let parts = values.clone().map(|v| Tensor::new(v).tracked());
    let gradients = f(&Complex::new(parts[0].clone(), parts[1].clone())).backward();
    for (p, part) in parts.iter().enumerate() {
        let got = gradients[part].to_vec::<f64>().unwrap();
        for i in 0..got.len() {
            let at = |h: f64| {
                let mut moved = values.clone();
                moved[p][i] += h;
                f(&Complex::new(Tensor::new(moved[0].clone()), Tensor::new(moved[1].clone()))).item::<f64>().unwrap()
            };
            let want = (at(1e-6) - at(-1e-6)) / 2e-6;
            let n = (values[0][i], values[1][i]);
            assert!(
                (got[i] - want).abs() <= 2e-6 * want.abs().max(1.0),
                "{what}{n:?}, part {p}: {} and not {want}",
                got[i]
            );
        }
    }
}

/// A weighted sum of all parts.
fn weighted(z: &Complex) -> Tensor {
    let n = z.numel();
    let weights = (Tensor::arange_with(n, DType::F64) * 0.7).cos() + 1.3;
    (z.re.flatten() * &weights + z.im.flatten() * (&weights * 1.7 - 0.2)).sum(..)
}

fn some() -> [Vec<f64>; 2] {
    [vec![0.7, -1.3, 2.0, 0.4, -0.3, 1.1], vec![1.1, 0.6, -0.8, -0.2, 2.1, -1.4]]
}

#[test]
fn of_functions() {
    for (name, f) in FUNCTIONS {
        check(name, some(), &|z| weighted(&f(z)));
    }
    // On the axes, where another formula or sign is selected, but not on a branch cut.
    let axes = [vec![0.5, 0.0, 0.0, -0.5, 0.25], vec![0.0, 0.5, -0.5, 0.0, 0.0]];
    for (name, f) in
        FUNCTIONS.into_iter().filter(|(name, _)| !matches!(*name, "log" | "log2" | "log10" | "sqrt" | "acosh"))
    {
        check(name, axes.clone(), &|z| weighted(&f(z)));
    }
    // Large arguments, which use the other formula.
    let large = [vec![30.0, 1e3, -20.0], vec![2.0, 1e3, -25.0]];
    for (name, f) in
        FUNCTIONS.into_iter().filter(|(name, _)| matches!(*name, "log" | "tanh" | "tan" | "sqrt" | "asinh" | "atanh"))
    {
        check(name, large.clone(), &|z| weighted(&f(z)));
    }
}

/// A formula that is not selected leaves no NaN in the gradient.
#[test]
fn nothing_that_is_not_picked_shows() {
    let far = [1e-200, 1e-300, 1e160, -1e300, 720.0, -720.0];
    for (name, f) in FUNCTIONS {
        let (re, im) = (Tensor::new(far).tracked(), Tensor::new([1e-200, -1e160, 1.0, -1.0, 0.1, 2.0]).tracked());
        let value = f(&Complex::new(re.clone(), im.clone()));
        // Values beyond this bound have no finite gradient.
        let finite = value.abs().lt(1e150).to_vec::<bool>().unwrap();
        let gradients = weighted(&value).backward();
        for part in [&re, &im] {
            for (i, g) in gradients[part].to_vec::<f64>().unwrap().into_iter().enumerate() {
                assert!(!g.is_nan() || !finite[i], "{name} at {}: {value}", far[i]);
            }
        }
    }
}

#[test]
fn of_operators_powers_and_products() {
    let w = Complex::from_pairs(&[(0.3, 1.0), (-2.0, 0.5), (1.5, 0.1), (0.2, -1.0), (1.0, 1.0), (-0.5, 2.0)], [6]);
    check("mul", some(), &|z| weighted(&(z * &w - z * 2.0 + z * (0.5, 1.0))));
    check("div", some(), &|z| weighted(&(z / &w + &w / z + 2.0 / z + z / (1.0, -1.0))));
    check("pow", some(), &|z| weighted(&(z.pow(&w) + w.pow(z) + z.powf(1.5) + z.powi(-3))));
    check("abs", some(), &|z| (z.abs() * z.angle()).sum(..) + z.abs_square().sum(..));
    check("reductions", some(), &|z| {
        weighted(&(z.prod(0) * z.mean(..) + z.sum(0))) + z.var(..) + z.std(..) + z.norm(..)
    });
    check("running", some(), &|z| weighted(&(z.cumprod(0) + z.cumsum(0))));
    check("products", some(), &|z| {
        let m = z.reshape([2, 3]);
        weighted(&(m.matmul(&m.adjoint()).matrix_power(2))) + weighted(&(z.dot(&w) * z.vdot(&w)))
    });
    #[cfg(feature = "linalg")]
    check("solve", some(), &|z| {
        let a = z.slice(..4).reshape([2, 2]);
        weighted(&(a.solve(&w.slice(..2)))) + weighted(&a.inv())
    });
}

/// On the negative real axis the root has one-sided derivatives; its real part grows with the imaginary one.
#[test]
fn of_roots_on_the_cut() {
    for side in [0.0f64, -0.0] {
        let im = Tensor::new([side]).tracked();
        let z = Complex::new(Tensor::new([-4.0]), im.clone());
        let slope = z.sqrt().re.sum(..).backward()[&im].to_vec::<f64>().unwrap()[0];
        assert_eq!(slope, if side.is_sign_negative() { -0.25 } else { 0.25 });
    }
    // At 0 the gradients of magnitude and direction are 0, as in PyTorch.
    let re = Tensor::new([0.0, 3.0]).tracked();
    assert_eq!(Complex::real(&re).abs().sum(..).backward()[&re].to_vec::<f64>().unwrap(), [0.0, 1.0]);
    assert_eq!(Complex::real(&re).sign().re.sum(..).backward()[&re].to_vec::<f64>().unwrap(), [0.0, 0.0]);
}
