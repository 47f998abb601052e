//! Entries of products, decompositions and transforms.

use crate::call::Call;
use thalweg::prelude::*;

/// `x·beta + y·alpha`, without products by 1; without `x` if `beta` is 0, as PyTorch.
fn plus(c: &Call, y: Tensor) -> Tensor {
    let times = |t: Tensor, name: &str| if c.float(name) == 1.0 { t } else { t * c.scalar(name) };
    let y = times(y, "alpha");
    if c.float("beta") == 0.0 { y + c.x().zeros_like() } else { times(c.x().clone(), "beta") + y }
}

pub fn call(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    let (x, other) = (|| c.x(), || c.t("other"));
    Some(vec![match entry {
        // Fractional factors, which PyTorch truncates.
        "addmm" | "addmv" | "addbmm" | "baddbmm" | "addr"
            if x().dtype().is_int() && (c.float("alpha").fract() != 0.0 || c.float("beta").fract() != 0.0) =>
        {
            return None;
        }
        "addmm" | "addmm:decomposed" | "addmv" | "baddbmm" => plus(c, c.t("a").matmul(c.t("b"))),
        "addbmm" => plus(c, c.t("a").matmul(c.t("b")).sum(0)),
        "addr" => plus(c, c.t("a").outer(c.t("b"))),
        "dot" | "vdot" => x().dot(other()),
        "bmm" | "mm" | "mv" | "matmul" => x().matmul(other()),
        "__rmatmul__" => other().matmul(x()),
        "outer" => x().outer(other()),
        "inner" if x().rank() == 0 || other().rank() == 0 => x() * other(),
        "inner" => x().tensordot(&other().movedim(-1, 0), 1),
        "tensordot" => match c.is_list("dims") {
            true => return None,
            false => x().tensordot(other(), c.size("dims")),
        },
        "kron" => x().kron(other()),
        "trace" => x().trace(),
        "einsum" => Tensor::einsum(c.text("spec"), &c.tensors("x")),
        // Three digits, in another order.
        "linalg.multi_dot" if c.dtype == DType::BF16 => return None,
        "linalg.multi_dot" => {
            let all = c.tensors("x");
            all[1..].iter().fold(all[0].clone(), |a, b| a.matmul(b))
        }
        "linalg.matrix_power" => match u32::try_from(c.int("n")) {
            Ok(n) => x().matrix_power(n),
            Err(_) => return None,
        },
        "linalg.vecdot" => x().vecdot(other(), c.int("dim")),
        "linalg.vander" if x().rank() != 1 => return None,
        "linalg.vander" => x().vander(c.opt_int("N").map_or(x().size(-1), |n| n as usize), true),
        "cdist" => x().cdist(other(), c.float("p")),
        "cross" if !c.has("dim") => {
            let axis = x().dims().iter().position(|&d| d == 3).expect("an axis of 3 elements");
            x().cross(other(), axis)
        }
        "cross" | "linalg.cross" => x().cross(other(), c.int("dim")),
        _ => return factored(entry, c).or_else(|| transformed(entry, c)),
    }])
}

#[cfg(not(feature = "linalg"))]
fn factored(_: &str, _: &Call) -> Option<Vec<Tensor>> {
    None
}

#[cfg(not(feature = "fft"))]
fn transformed(_: &str, _: &Call) -> Option<Vec<Tensor>> {
    None
}

/// Decompositions and solvers. Results with an arbitrary sign or phase are compared without it.
#[cfg(feature = "linalg")]
fn factored(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    if c.dtype == DType::BF16 {
        return None;
    }
    let (x, other) = (|| c.x(), || c.t("other"));
    // The triangle that is read.
    let triangle = || if c.text("UPLO") == "U" { c.x().transpose(-1, -2) } else { c.x().clone() };
    let triangular = |a: &Tensor, b: &Tensor, upper: bool, unit: bool| match unit {
        true => a.solve_unit_triangular(b, upper),
        false => a.solve_triangular(b, upper),
    };
    Some(vec![match entry {
        "linalg.cholesky" | "linalg.cholesky_ex" => x().cholesky(),
        "cholesky_solve" => other().cholesky_solve(x()),
        "matrix_exp" => x().matrix_exp(),
        "linalg.det" => x().det(),
        "linalg.slogdet" => {
            let (sign, log) = x().slogdet();
            return Some(vec![sign, log]);
        }
        "logdet" => {
            let (sign, log) = x().slogdet();
            sign.lt(0.0).where_(f64::NAN, log)
        }
        "linalg.inv" | "linalg.inv_ex" => x().inv(),
        "linalg.pinv" | "pinverse" => x().pinv(None),
        "linalg.solve" | "linalg.solve_ex" if x().rank() > 2 && other().rank() == x().rank() - 1 => {
            // A vector for each matrix.
            x().solve(&other().unsqueeze(-1)).squeeze(-1)
        }
        "linalg.solve" | "linalg.solve_ex" => x().solve(other()),
        "linalg.solve_triangular" => triangular(x(), other(), c.flag("upper"), c.flag("unitriangular")),
        "triangular_solve" => match c.flag("transpose") {
            true => triangular(&other().transpose(-1, -2), x(), !c.flag("upper"), c.flag("unitriangular")),
            false => triangular(other(), x(), c.flag("upper"), c.flag("unitriangular")),
        },
        "linalg.svdvals" => x().svdvals(),
        "linalg.eigvalsh" => triangle().eigvalsh(),
        "linalg.matrix_rank" => x().matrix_rank(None),
        "linalg.lstsq" => x().lstsq(other(), None),
        "svd" | "linalg.svd" => x().svd().1,
        "linalg.eigh" => triangle().eigh().0,
        "linalg.qr" => x().qr().1.abs(),
        "linalg.lu" => {
            let (_, l, u) = x().lu();
            return Some(vec![l, u]);
        }
        "linalg.cond" => x().cond(if c.has("p") { matrix_norm(c, "p")? } else { thalweg::MatrixNorm::Two }),
        "linalg.matrix_norm" if c.ints("dim") != [-2, -1] || c.flag("keepdim") => return None,
        "linalg.matrix_norm" => x().matrix_norm(matrix_norm(c, "ord")?),
        "norm:nuc" if c.has("dim") => return None,
        "norm:nuc" => x().matrix_norm(matrix_norm(c, "p")?),
        "linalg.norm" | "linalg.norm:subgradients_at_zero" => {
            let axes = if c.has("dim") { c.ints("dim") } else { (0..x().rank() as i64).collect() };
            if axes.len() != 1 && c.has("ord") {
                if c.flag("keepdim") || x().rank() != 2 {
                    return None;
                }
                return Some(vec![x().matrix_norm(matrix_norm(c, "ord")?)]);
            }
            let p = if c.has("ord") { c.float("ord") } else { 2.0 };
            if p == 0.0 && x().is_tracked() {
                return None;
            }
            if c.flag("keepdim") { x().norm_p_keepdim(p, axes) } else { x().norm_p(p, axes) }
        }
        _ => return None,
    }])
}

/// The norm of a matrix that an argument names.
#[cfg(feature = "linalg")]
fn matrix_norm(c: &Call, name: &str) -> Option<thalweg::MatrixNorm> {
    use thalweg::MatrixNorm::*;
    Some(match (c.text(name), c.opt_float(name)) {
        ("fro", _) => Frobenius,
        ("nuc", _) => Nuclear,
        (_, Some(1.0)) => One,
        (_, Some(-1.0)) => MinusOne,
        (_, Some(2.0)) => Two,
        (_, Some(-2.0)) => MinusTwo,
        (_, Some(f64::INFINITY)) => Infinity,
        (_, Some(f64::NEG_INFINITY)) => MinusInfinity,
        _ => return None,
    })
}

/// Fourier transforms.
#[cfg(feature = "fft")]
fn transformed(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    use thalweg::{Complex, Fft, FftNorm};
    let norm = |c: &Call| match c.text("norm") {
        "ortho" => FftNorm::Ortho,
        "forward" => FftNorm::Forward,
        _ => FftNorm::Backward,
    };
    let name = entry.strip_prefix("fft.")?;
    let one = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"].contains(&name);
    if !one && !["fft2", "fftn", "ifft2", "ifftn", "rfft2", "rfftn", "irfft2", "irfftn"].contains(&name) {
        return None;
    }
    let mut fft = Fft::new().norm(norm(c));
    let (x, z) = (c.x(), Complex::real(c.x()));
    if one {
        if let Some(n) = c.opt_int("n") {
            fft = fft.sizes([n as usize]);
        }
        let dim = c.int("dim");
        return Some(vec![match name {
            "fft" => x.fft_with(dim, &fft).view_as_real(),
            "ifft" => z.ifft_with(dim, &fft).view_as_real(),
            "rfft" => x.rfft_with(dim, &fft).view_as_real(),
            "irfft" => z.irfft_with(dim, &fft),
            "hfft" => z.hfft_with(dim, &fft),
            _ => x.ihfft_with(dim, &fft).view_as_real(),
        }]);
    }
    let mut axes = c.ints("dim");
    if c.has("s") {
        let sizes = c.sizes("s");
        if !c.has("dim") {
            axes = (0..sizes.len() as i64).map(|i| i - sizes.len() as i64).collect();
        }
        fft = fft.sizes(sizes);
    } else if !c.has("dim") {
        axes = (0..x.rank() as i64).collect();
    }
    Some(vec![match name {
        "fft2" | "fftn" => x.fftn_with(axes, &fft).view_as_real(),
        "ifft2" | "ifftn" => z.ifftn_with(axes, &fft).view_as_real(),
        "rfft2" | "rfftn" => x.rfftn_with(axes, &fft).view_as_real(),
        _ => z.irfftn_with(axes, &fft),
    }])
}
