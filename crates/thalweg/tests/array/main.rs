//! Functions of NumPy, SciPy and PyTorch, compared with these (`bench/golden_array.py` writes the golden values).

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../front/golden.rs"]
mod golden;
mod random;
mod special;
mod statistics;

use golden::Golden;
use thalweg::prelude::*;
use thalweg::{Histogram, Indexing, QuantileMethod};

fn load() -> Golden {
    Golden::load(include_str!("golden.txt"))
}

/// Converts to f64, the dtype of all cases.
fn f(x: Tensor) -> Tensor {
    x.cast(DType::F64)
}

#[test]
fn every_case_is_what_they_say() {
    let mut g = load();
    special_functions(&mut g);
    pairs(&mut g);
    statistics(&mut g);
    counting(&mut g);
    moves(&mut g);
    assert_eq!(g.left(), Vec::<&str>::new());
}

fn special_functions(g: &mut Golden) {
    let (s, e) = (g.take("special_at"), g.take("erfinv_at"));
    g.check("lgamma", &s.lgamma());
    g.check("digamma", &s.digamma());
    g.check("trigamma", &s.trigamma());
    for (name, y) in [("i0", s.i0()), ("i0e", s.i0e()), ("i1", s.i1()), ("i1e", s.i1e())] {
        g.check(name, &y);
    }
    g.check("erfinv", &e.erfinv());
    let at = Tensor::new([-3.7, -0.3, 0.2, 0.99, 1.0, 1.46, 2.0, 2.5, 5.0, 9.0, 30.0]);
    let slope = |x: &Tensor, f: fn(&Tensor) -> Tensor| {
        let x = x.tracked();
        f(&x).sum(..).backward()[&x].clone()
    };
    g.check("lgamma_slope", &slope(&at, Tensor::lgamma));
    g.check("digamma_slope", &slope(&at, Tensor::digamma));
    g.check("i0_slope", &slope(&at, Tensor::i0));
    g.check("i0e_slope", &slope(&at, Tensor::i0e));
    g.check("i1_slope", &slope(&at, Tensor::i1));
    g.check("erfinv_slope", &slope(&Tensor::new([-0.999, -0.3, 0.0, 0.2, 0.9]), Tensor::erfinv));
}

fn pairs(g: &mut Golden) {
    let (a, b) = (g.take("pairs_a"), g.take("pairs_b"));
    let signs = f(a.slice(..-1).signbit());
    g.check("signbit", &signs);
    let a = a.unsqueeze(1);
    g.check("logaddexp", &a.logaddexp(&b));
    g.check("logaddexp2", &a.logaddexp2(&b));
    g.check("xlogy", &a.xlogy(&b));
    g.check("xlog1py", &a.xlog1py(&b));
    g.check("copysign", &a.copysign(&b));
    g.check("fmod", &a.fmod(&b));
    g.check("heaviside", &a.heaviside(&b));
    g.check("nextafter", &a.nextafter(&b));
    let i = Tensor::new([-9i64, -7, -1, 0, 5, 127]).unsqueeze(1);
    g.check("fmod_integers", &f(i.fmod(Tensor::new([-4i64, 3, 5]))));
    let r = Tensor::new([1.25, 2.675, -13.55, 0.5, 123456.789, -0.05]);
    for digits in [-2, 0, 1, 2] {
        g.check(&format!("round_to_{digits}"), &r.round_to(digits));
    }
    g.check("bit_count", &f(Tensor::new([0i32, 1, -1, 12345, -98765, i32::MAX]).bit_count()));
}

fn statistics(g: &mut Golden) {
    use QuantileMethod::*;
    let (x, n) = (g.take("x"), g.take("n"));
    let q = [0.0, 0.1, 0.25, 0.5, 0.77, 1.0];
    for (name, method) in [
        ("linear", Linear),
        ("lower", Lower),
        ("higher", Higher),
        ("nearest", Nearest),
        ("midpoint", Midpoint),
        ("inverted_cdf", InvertedCdf),
        ("averaged_inverted_cdf", AveragedInvertedCdf),
        ("closest_observation", ClosestObservation),
        ("interpolated_inverted_cdf", InterpolatedInvertedCdf),
        ("hazen", Hazen),
        ("weibull", Weibull),
        ("median_unbiased", MedianUnbiased),
        ("normal_unbiased", NormalUnbiased),
    ] {
        g.check(&format!("quantile_{name}"), &x.quantile_with(q, [0, 2], method));
        g.check(&format!("nanquantile_{name}"), &n.nanquantile_with(q, 2, method));
    }
    g.check("median", &x.median([1, 2]));
    g.check("median_odd", &x.median_keepdim(2));
    g.check("median_nan", &n.median(2));
    g.check("nanmedian", &n.nanmedian(1));
    g.check("percentile", &x.percentile(30.0, ..));
    g.check("nansum", &n.nansum(1));
    g.check("nanprod", &n.nanprod(1));
    g.check("nanmean", &n.nanmean(1));
    g.check("nanvar", &n.nanvar(1));
    g.check("nanstd", &n.nanstd(1));
    g.check("nanmax", &n.nanmax(1));
    g.check("nanmin", &n.nanmin(1));
    g.check("nanvar_1", &n.nanvar_with([0, 2], 1.0));
    g.check("nanargmax", &f(n.nanargmax(0)));
    g.check("nanargmin", &f(n.nanargmin(0)));
    g.check("ptp", &x.ptp(1));
    g.check("average", &x.average(&Tensor::arange_with((1, 6), DType::F64), 2));
    g.check("cov", &x.slice(0).cov());
    g.check("cov_0", &x.slice(1).cov_with(0.0));
    g.check("cov_vector", &x.slice((0, 0)).cov());
    g.check("corrcoef", &x.slice(0).corrcoef());
    let (mode, count) = x.mode(1);
    g.check("mode", &mode);
    g.check("mode_count", &f(count));
    let (value, place) = x.kthvalue(3, 1);
    g.check("kthvalue", &value);
    assert!(x.gather(1, &place.unsqueeze(1)).squeeze(1).eq(value).all(..).item::<bool>().unwrap());
    sampled(g, &x);
    matrices(g, &x);
}

fn counting(g: &mut Golden) {
    let (h, w) = (g.take("h"), g.take("w"));
    let edges = [-2.0, -0.5, 0.0, 0.125, 3.0];
    let plain = Histogram::new;
    let of = [
        ("plain", h.histogram(7)),
        ("range", h.histogram_with(5, &plain().range(-1.0, 1.0))),
        ("weights", h.histogram_with(6, &plain().weights(&w))),
        ("density", w.histogram_with(9, &plain().density(true))),
        ("edges", h.histogram_with(edges, &plain().weights(&w).density(true))),
    ];
    for (name, (counts, edges)) in of {
        g.check(&format!("histogram_{name}"), &f(counts));
        g.check(&format!("histogram_{name}_edges"), &edges);
    }
    let numbers = Tensor::arange_with(60, DType::I64) % 7;
    g.check("bincount_weighted", &numbers.bincount_weighted(&w, 9).unwrap());
    let edges = Tensor::new([-1.0, 0.0, 0.5, 1.0]);
    g.check("digitize", &f(h.digitize(&edges, false)));
    g.check("digitize_right", &f(h.digitize(&edges, true)));
    let x = load().take("x");
    g.check("isin", &f(h.isin(&x)));
    g.check("union", &h.union(&x).unwrap());
    g.check("intersect", &h.intersect(&x).unwrap());
    g.check("setdiff", &h.setdiff(&x).unwrap());
    g.check("setxor", &h.setxor(&x).unwrap());
    for (name, own) in ["values", "first", "inverse", "counts"].iter().zip(x.unique_all().unwrap()) {
        g.check(&format!("unique_all_{name}"), &f(own));
    }
}

fn at() -> Tensor {
    Tensor::new([0.0, 0.5, 2.0, 2.25, 4.0])
}

fn sampled(g: &mut Golden, x: &Tensor) {
    let at = at();
    g.check("diff", &x.diff(2, 1));
    g.check("gradient", &x.gradient(0.5, 2));
    g.check("gradient_at", &x.gradient_at(&at, 2));
    g.check("trapezoid", &x.trapezoid(0.25, 1));
    g.check("trapezoid_at", &x.trapezoid_at(&at, 2));
    g.check("cumulative_trapezoid", &x.cumulative_trapezoid(0.25, 1));
    let places = Tensor::new([-1.0, 0.0, 0.2, 0.5, 1.0, 2.1, 4.0, 7.0, f64::NAN]);
    g.check("interp", &places.interp(&at, &x.slice((0, 0))));
}

fn matrices(g: &mut Golden, x: &Tensor) {
    let (at, m) = (at(), x.slice(0));
    g.check("diag", &at.diag(1));
    g.check("diag_below", &at.diag(-2));
    g.check("diag_of_matrix", &m.diag(1));
    g.check("diag_embed", &m.diag_embed(1));
    g.check("diagonal_of", &x.diagonal_of(1, 0, 2));
    g.check("trace", &m.slice((.., ..4)).trace());
    g.check("kron", &m.kron(&x.slice((1, ..2, ..3))));
    g.check("kron_ranks", &at.kron(&x.slice((.., ..2, ..2))));
    g.check("cross", &x.slice((.., .., 0)).cross(&x.slice((.., ..1, 1)), 0));
    g.check("vander", &at.vander(4, false));
    g.check("vander_increasing", &at.vander(5, true));
}

fn moves(g: &mut Golden) {
    let x = load().take("x");
    let (at, m) = (at(), x.slice(0));
    for times in [-1, 1, 2, 3] {
        g.check(&format!("rot90_{times}"), &x.rot90(times, 1, 2));
    }
    let vectors = [at.clone(), at.slice(..3), at.slice(..2)];
    g.check("meshgrid_xy", &Tensor::stack(&Tensor::meshgrid(&vectors, Indexing::Cartesian), 0));
    g.check("meshgrid_ij", &Tensor::stack(&Tensor::meshgrid(&vectors, Indexing::Matrix), 0));
    g.check("logspace", &Tensor::logspace_with(-1.0, 2.0, 7, 3.0, DType::F64));
    g.check("geomspace", &Tensor::geomspace_with(-2.0, -512.0, 5, DType::F64));
    g.check("repeat_interleave", &m.repeat_interleave(&Tensor::new([2i64, 0, 1, 3]), 0).unwrap());
    g.check("index_fill", &m.index_fill(1, &Tensor::new([0i64, 3]), 7.0));
    g.check("masked_scatter", &m.masked_scatter(&m.gt(0.0), &x.slice(1)));
    let index = Tensor::new([[0i64, 2, 2, 1], [1, 1, 0, 2]]);
    g.check("scatter_mean", &m.slice((..3, ..4)).scatter_mean(0, &index, x.slice((1, ..2, ..4))));
    g.check("vecdot", &x.vecdot(&x.slice((.., ..1)), -1));
    g.check("matrix_power", &m.slice((.., ..4)).matrix_power(5));
    // Results that are f32.
    let near = |g: &mut Golden, name: &str, a: Tensor, b: Tensor| {
        let want = g.take(name);
        assert!(f(Tensor::cat(&[a, b], 0)).allclose(&want, 1e-6, 0.0).unwrap(), "{name}");
    };
    near(g, "fftfreq", Tensor::fftfreq(7, 0.5), Tensor::fftfreq(8, 0.5));
    near(g, "rfftfreq", Tensor::rfftfreq(7, 0.5), Tensor::rfftfreq(8, 0.5));
    g.check("fftshift", &x.fftshift([1, 2]));
    g.check("ifftshift", &x.ifftshift([1, 2]));
    g.check("sobol", &Tensor::sobol_with(16, 39, 16, DType::F64));
}
