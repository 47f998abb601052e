//! Entries along axes: reductions, statistics, scans, sorts, sets.

use crate::call::Call;
use thalweg::prelude::*;
use thalweg::{Histogram, QuantileMethod, Quantiles};

/// A reduction, with its axes kept if requested.
macro_rules! kept {
    ($c:ident, $x:expr, $method:ident $keepdim:ident $(, $argument:expr)*) => {
        if $c.has("keepdim") && $c.flag("keepdim") {
            $x.$keepdim($($argument,)* $c.axes("dim"))
        } else {
            $x.$method($($argument,)* $c.axes("dim"))
        }
    };
}

/// Correction of a variance: its divisor is the number of elements minus this.
fn correction(c: &Call) -> f64 {
    if c.has("correction") {
        return c.float("correction");
    }
    if c.has("unbiased") { f64::from(u8::from(c.flag("unbiased"))) } else { 1.0 }
}

fn axes(c: &Call) -> thalweg::Axes {
    if c.has("dim") { c.axes("dim") } else { (..).into() }
}

/// Restores the reduced axes, if requested.
fn restored(c: &Call, t: Tensor) -> Tensor {
    if !(c.has("keepdim") && c.flag("keepdim")) {
        return t;
    }
    let rank = c.x().rank() as i64;
    let reduced: Vec<i64> = match c.has("dim") {
        true => c.ints("dim").iter().map(|d| d.rem_euclid(rank.max(1))).collect(),
        false => (0..rank).collect(),
    };
    let dims = c.x().dims().iter().enumerate();
    t.reshape(dims.map(|(i, &d)| if reduced.contains(&(i as i64)) { 1 } else { d as i64 }).collect::<Vec<_>>())
}

/// The elements that a mask selects, with the others replaced.
fn masked(c: &Call, other: f64) -> Tensor {
    match c.has("mask") {
        true => c.t("mask").where_(c.x(), other),
        false => c.x().clone(),
    }
}

/// The elements at indices, and the indices; the gradient flows to them only.
fn extreme(c: &Call, index: Tensor) -> (Tensor, Tensor) {
    let value = c.x().gather(c.int("dim"), &index);
    if c.flag("keepdim") { (value, index) } else { (value.squeeze(c.int("dim")), index.squeeze(c.int("dim"))) }
}

fn quantile(c: &Call, q: impl Into<Quantiles>, method: QuantileMethod, nan: bool) -> Tensor {
    match nan {
        true => c.x().nanquantile_with(q, axes(c), method),
        false => c.x().quantile_with(q, axes(c), method),
    }
}

fn norm(c: &Call, p: f64) -> Tensor {
    match p {
        2.0 => kept!(c, c.x(), norm norm_keepdim),
        _ => kept!(c, c.x(), norm_p norm_p_keepdim, p),
    }
}

pub fn call(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    let dim = || c.int("dim");
    let one = |t: Tensor| Some(vec![t]);
    let two = |(a, b): (Tensor, Tensor)| Some(vec![a, b]);
    let truth = || c.x().cast(DType::Bool);
    match entry {
        "sum" => one(kept!(c, c.x(), sum sum_keepdim)),
        "prod" => one(kept!(c, c.x(), prod prod_keepdim)),
        "mean" => one(kept!(c, c.x(), mean mean_keepdim)),
        "nanmean" => one(kept!(c, c.x(), nanmean nanmean_keepdim)),
        "nansum" => one(kept!(c, c.x(), nansum nansum_keepdim)),
        "amax" => one(kept!(c, c.x(), amax amax_keepdim)),
        "amin" => one(kept!(c, c.x(), amin amin_keepdim)),
        "argmax" => one(restored(c, c.x().argmax(axes(c)))),
        "argmin" => one(restored(c, c.x().argmin(axes(c)))),
        "all" => one(kept!(c, truth(), all all_keepdim)),
        "any" => one(kept!(c, truth(), any any_keepdim)),
        "count_nonzero" => one(c.x().count_nonzero(axes(c))),
        "logsumexp" => one(kept!(c, c.x(), logsumexp logsumexp_keepdim)),
        "std" | "std:unbiased" => one(restored(c, c.x().std_with(axes(c), correction(c)))),
        "var" | "var:unbiased" => one(restored(c, c.x().var_with(axes(c), correction(c)))),
        "var_mean" | "var_mean:unbiased" => {
            let (v, m) = c.x().var_mean(axes(c), correction(c));
            two((restored(c, v), restored(c, m)))
        }
        "std_mean" | "std_mean:unbiased" => {
            let (v, m) = c.x().std_mean(axes(c), correction(c));
            two((restored(c, v), restored(c, m)))
        }
        "aminmax" => {
            let (low, high) = c.x().aminmax(axes(c));
            two((restored(c, low), restored(c, high)))
        }
        "max:reduction_with_dim" => two(extreme(c, c.x().argmax_keepdim(dim()))),
        "min:reduction_with_dim" => two(extreme(c, c.x().argmin_keepdim(dim()))),
        "max:reduction_no_dim" => one(c.x().amax(..)),
        "min:reduction_no_dim" => one(c.x().amin(..)),
        // Without an axis PyTorch divides the gradient among equal elements.
        "median" | "nanmedian" if !c.has("dim") && c.x().is_tracked() => None,
        "median" => one(restored(c, quantile(c, 0.5, QuantileMethod::Lower, false))),
        "nanmedian" => one(restored(c, quantile(c, 0.5, QuantileMethod::Lower, true))),
        "quantile" | "nanquantile" => {
            let method = match c.text("interpolation") {
                "linear" => QuantileMethod::Linear,
                "lower" => QuantileMethod::Lower,
                "higher" => QuantileMethod::Higher,
                "nearest" => QuantileMethod::Nearest,
                "midpoint" => QuantileMethod::Midpoint,
                other => panic!("interpolation {other}"),
            };
            // PyTorch differentiates by a tensor `q`, too.
            if c.maybe("q").is_some_and(Tensor::is_tracked) {
                return None;
            }
            let list = c.floats("q");
            let single = c.maybe("q").is_none_or(|q| q.rank() == 0) && !c.is_list("q");
            let nan = entry == "nanquantile";
            if single {
                return one(restored(c, quantile(c, list[0], method, nan)));
            }
            let each: Vec<Tensor> = list.iter().map(|&q| restored(c, quantile(c, q, method, nan))).collect();
            one(Tensor::stack(&each, 0))
        }
        "kthvalue" => {
            let (v, i) = c.x().kthvalue(c.size("k"), dim());
            if c.x().dtype().is_int() {
                // The index among equal elements is unspecified.
                return one(restored(c, v));
            }
            two((restored(c, v), restored(c, i)))
        }
        "mode" => one(restored(c, c.x().mode(dim()).0)),
        "cumsum" => one(c.x().cumsum(dim())),
        "cumprod" => one(c.x().cumprod(dim())),
        "cummax" => two(c.x().cummax_with_indices(dim())),
        "cummin" => two(c.x().cummin_with_indices(dim())),
        "logcumsumexp" => one(c.x().logcumsumexp(dim())),
        // A number for a vector, as NumPy.
        "corrcoef" if c.x().rank() < 2 || c.x().dims()[0] == 1 => one(c.x().corrcoef().reshape(())),
        "corrcoef" => one(c.x().corrcoef()),
        "cov" if c.x().rank() < 2 || c.x().dims()[0] == 1 => one(c.x().cov_with(c.float("correction")).reshape(())),
        "cov" => one(c.x().cov_with(c.float("correction"))),
        "softmax" => one(c.x().softmax(dim())),
        "log_softmax" => one(c.x().log_softmax(dim())),
        "nn.functional.softmin" => one((-c.x()).softmax(dim())),
        "softmax:with_dtype" => one(c.x().cast(c.dtype_of("dtype")).softmax(dim())),
        "log_softmax:with_dtype" => one(c.x().cast(c.dtype_of("dtype")).log_softmax(dim())),
        "nn.functional.softmin:with_dtype" => one((-c.x().cast(c.dtype_of("dtype"))).softmax(dim())),
        // Counting is a step function.
        "masked.norm" | "linalg.vector_norm" if c.float("ord") == 0.0 && c.x().is_tracked() => None,
        "norm" if c.opt_float("p") == Some(0.0) && c.x().is_tracked() => None,
        "norm" | "norm:fro" | "norm:inf" => one(norm(c, c.opt_float("p").unwrap_or(2.0))),
        "linalg.vector_norm" => one(norm(c, c.float("ord"))),
        "dist" => one((c.x() - c.t("other")).norm_p(c.float("p"), ..)),
        "nn.functional.normalize" => one(c.x().normalize(c.float("p"), c.axes("dim"), c.float("eps"))),
        "nn.functional.pairwise_distance" => {
            let difference = c.x() - c.t("other") + c.float("eps");
            let norm = difference.norm_p_keepdim(c.float("p"), -1);
            one(if c.flag("keepdim") { norm } else { norm.squeeze(-1) })
        }
        "sort" => two(c.x().sort_with_indices(dim(), c.flag("descending"))),
        "argsort" => one(c.x().argsort(dim(), c.flag("descending"))),
        "msort" => one(c.x().sort(0, false)),
        "topk" if c.x().dtype().is_int() => one(c.x().topk(c.size("k"), dim(), c.flag("largest")).0),
        "topk" => two(c.x().topk(c.size("k"), dim(), c.flag("largest"))),
        "unique" => {
            let [values, _, inverse, counts] = c.x().unique_all().expect("it can be computed");
            let mut all = vec![values];
            if c.flag("return_inverse") {
                all.push(inverse.reshape(c.x().dims().to_vec()));
            }
            if c.flag("return_counts") {
                all.push(counts);
            }
            Some(all)
        }
        "isin" => {
            let found = match c.maybe("x") {
                Some(x) => x.isin(&c.t("other").flatten()),
                None => return None,
            };
            one(if c.flag("invert") { !found } else { found })
        }
        "bucketize" => one(c.x().digitize(c.t("other"), !c.flag("right"))),
        "searchsorted" if c.maybe("other").is_none_or(|v| v.rank() == 0) || c.x().rank() != 1 => None,
        "searchsorted" => one(c.x().searchsorted(c.t("other"), c.flag("right"))),
        "bincount" => one(match c.maybe("weights") {
            Some(w) => c.x().bincount_weighted(&w.cast(DType::F64), c.size("minlength")).expect("it can be computed"),
            None => c.x().bincount(c.size("minlength")).expect("it can be computed"),
        }),
        "histogram" | "histc" => {
            let mut how = Histogram::new();
            if entry == "histc" {
                if c.float("min") != c.float("max") {
                    how = how.range(c.float("min"), c.float("max"));
                }
                return one(c.x().histogram_with(c.int("bins"), &how).0.cast(c.x().dtype()));
            }
            if c.has("range") {
                let range = c.floats("range");
                how = how.range(range[0], range[1]);
            }
            if let Some(w) = c.maybe("weight") {
                how = how.weights(w);
            }
            how = how.density(c.flag("density"));
            let (counts, edges) = match c.maybe("bins") {
                Some(edges) => c.x().histogram_with(edges, &how),
                None => c.x().histogram_with(c.int("bins"), &how),
            };
            two((counts.cast(c.x().dtype()), edges.cast(c.x().dtype())))
        }
        "masked.sum" => one(kept!(c, masked(c, 0.0), sum sum_keepdim)),
        "masked.prod" => one(kept!(c, masked(c, 1.0), prod prod_keepdim)),
        "masked.amax" => one(kept!(c, masked(c, f64::NEG_INFINITY), amax amax_keepdim)),
        "masked.amin" => one(kept!(c, masked(c, f64::INFINITY), amin amin_keepdim)),
        "masked.logsumexp" => one(kept!(c, masked(c, f64::NEG_INFINITY), logsumexp logsumexp_keepdim)),
        "masked.mean" => {
            let ones = c.x().detach().ones_like();
            let count = if c.has("mask") { c.t("mask").where_(ones, 0) } else { ones };
            one(kept!(c, masked(c, 0.0), sum sum_keepdim) / kept!(c, count, sum sum_keepdim))
        }
        "masked.norm" => {
            let p = c.float("ord");
            let without = if p == f64::NEG_INFINITY { f64::INFINITY } else { 0.0 };
            one(kept!(c, masked(c, without), norm_p norm_p_keepdim, p))
        }
        "masked.cumsum" => one(masked(c, 0.0).cumsum(dim())),
        "masked.cumprod" => one(masked(c, 1.0).cumprod(dim())),
        "masked.softmax" => one(masked(c, f64::NEG_INFINITY).softmax(dim())),
        "masked.log_softmax" => one(masked(c, f64::NEG_INFINITY).log_softmax(dim())),
        "masked.softmin" => one((-masked(c, f64::INFINITY)).softmax(dim())),
        _ => None,
    }
}
