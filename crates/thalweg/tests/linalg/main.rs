//! Linear algebra: values and gradients against NumPy, SciPy and PyTorch (`bench/golden_array.py`), gradients against
//! differences, identities on random shapes, errors, and cost.

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../gradients/differences.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod differences;
mod errors;
#[path = "../front/golden.rs"]
mod golden;
mod identities;
#[path = "../mistake/mod.rs"]
mod mistake;
mod slopes;

use golden::Golden;
use thalweg::MatrixNorm::*;
use thalweg::prelude::*;

/// Converts to f64, the dtype of all cases.
fn f(x: &Tensor) -> Tensor {
    x.cast(DType::F64)
}

#[test]
fn every_case_is_what_they_say() {
    let mut g = Golden::load(include_str!("golden.txt"));
    let (a, b, spd) = (g.take("a"), g.take("b"), g.take("spd"));
    let (tall, wide, low) = (g.take("tall"), g.take("wide"), g.take("low"));
    let l = spd.cholesky();
    g.check("cholesky", &l);
    g.check("cholesky_solve", &l.cholesky_solve(&b));
    for (name, m) in [("a", a.slice(0)), ("tall", tall.clone()), ("wide", wide.clone())] {
        factors(&mut g, name, &m);
    }
    g.check("pinv_low", &low.pinv(None));
    let ranks =
        [low.matrix_rank(None), tall.matrix_rank(None), Tensor::zeros_with([2, 2], DType::F64).matrix_rank(None)];
    g.check("matrix_rank", &f(&Tensor::stack(&ranks, 0)));
    let (w, v) = spd.eigh();
    g.check("eigh_w", &w);
    g.check("eigh_projections", &(v.t().unsqueeze(-1) * v.t().unsqueeze(-2)));
    let (w, v) = a.eig();
    let order = (&w.re * 10.0 + &w.im).argsort(-1, false);
    g.check("eig_re", &w.re.gather(-1, &order));
    g.check("eig_im", &w.im.gather(-1, &order));
    g.check("eig_abs", &v.abs().gather(-1, &order.unsqueeze(-2)));
    g.check("solve", &a.solve(&b));
    g.check("solve_vector", &a.solve(&Tensor::arange_with(4, DType::F64)));
    g.check("solve_lower", &spd.solve_triangular(&b, false));
    g.check("solve_unit_upper", &spd.solve_unit_triangular(&b, true));
    g.check("inv", &a.inv());
    g.check("det", &a.det());
    let (sign, log) = a.slogdet();
    g.check("slogdet_sign", &sign);
    g.check("slogdet_log", &log);
    for (name, m) in [("tall", &tall), ("wide", &wide), ("low", &low)] {
        let b = g.take(&format!("lstsq_{name}_b"));
        g.check(&format!("lstsq_{name}"), &m.lstsq(&b, None));
    }
    let scales = Tensor::new([0.001, 0.03, 0.2, 0.5, 3.0]);
    let scaled = a.unsqueeze(1) * scales.reshape([1, 5, 1, 1]);
    g.check("matrix_exp", &scaled.reshape([10, 4, 4]).matrix_exp());
    for (name, norm) in [
        ("fro", Frobenius),
        ("nuc", Nuclear),
        ("p2", Two),
        ("m2", MinusTwo),
        ("p1", One),
        ("m1", MinusOne),
        ("inf", Infinity),
        ("minf", MinusInfinity),
    ] {
        g.check(&format!("norm_{name}"), &a.matrix_norm(norm));
        g.check(&format!("cond_{name}"), &a.cond(norm));
    }
    g.check("cond_tall", &tall.cond(Two));
    slopes::golden(&mut g, &[a, spd, tall, wide]);
    assert_eq!(g.left(), Vec::<&str>::new());
}

fn factors(g: &mut Golden, name: &str, m: &Tensor) {
    let (p, l, u) = m.lu();
    g.check(&format!("lu_p_{name}"), &p);
    g.check(&format!("lu_l_{name}"), &l);
    g.check(&format!("lu_u_{name}"), &u);
    let (q, r) = m.qr();
    let signs = r.diagonal(0).sign();
    g.check(&format!("qr_q_{name}"), &(q * &signs));
    g.check(&format!("qr_r_{name}"), &(r * signs.unsqueeze(-1)));
    let (u, s, vt) = m.svd();
    g.check(&format!("svd_s_{name}"), &s);
    g.check(&format!("svd_pairs_{name}"), &(u.t().unsqueeze(-1) * vt.unsqueeze(-2)));
    g.check(&format!("pinv_{name}"), &m.pinv(None));
}
