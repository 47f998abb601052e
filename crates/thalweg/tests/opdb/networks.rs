//! Entries of networks: convolutions, pools, norms, losses, interpolation, attention.

use crate::call::Call;
use thalweg::prelude::*;
use thalweg::{Attention, Conv, ConvTranspose, Interpolation, Padding, Pool};

fn reduction(c: &Call) -> Reduction {
    match c.text("reduction") {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        _ => Reduction::Mean,
    }
}

fn pool<const N: usize>(c: &Call) -> Pool<N> {
    let pool = Pool::new(c.each::<N>("kernel")).padding(c.each::<N>("padding")).ceil(c.flag("ceil_mode"));
    // An empty list means the size of the window, too.
    if c.has("stride") && !c.ints("stride").is_empty() { pool.stride(c.each::<N>("stride")) } else { pool }
}

fn max_pool<const N: usize>(c: &Call) -> Pool<N> {
    pool(c).dilation(c.each::<N>("dilation"))
}

fn avg_pool<const N: usize>(c: &Call) -> Pool<N> {
    pool(c).count_padding(c.flag("count_include_pad"))
}

fn conv<const N: usize>(c: &Call) -> Conv<N> {
    let padding: Padding<N> = match c.text("padding") {
        "valid" => Padding::Valid,
        "same" => Padding::Same,
        _ => c.each::<N>("padding").into(),
    };
    let options = Conv::default().stride(c.each::<N>("stride")).padding(padding);
    options.dilation(c.each::<N>("dilation")).groups(c.size("groups"))
}

fn transposed<const N: usize>(c: &Call) -> ConvTranspose<N> {
    ConvTranspose::default()
        .stride(c.each::<N>("stride"))
        .padding(c.each::<N>("padding"))
        .output_padding(c.each::<N>("output_padding"))
        .dilation(c.each::<N>("dilation"))
        .groups(c.size("groups"))
}

/// The sizes of adaptive pools, unless one is left to the input.
fn adaptive<const N: usize>(c: &Call) -> Option<[usize; N]> {
    c.are_ints("size").then(|| c.each::<N>("size"))
}

fn interpolated(c: &Call) -> Option<Tensor> {
    let x = c.x();
    let sizes = c.sizes("size");
    let sizes = if sizes.len() == 1 { vec![sizes[0]; x.rank() - 2] } else { sizes };
    let align_corners = c.has("align_corners") && c.flag("align_corners");
    Some(x.interpolate(
        sizes,
        match c.text("mode") {
            "nearest" => Interpolation::Nearest,
            "nearest-exact" => Interpolation::NearestExact,
            "linear" | "bilinear" | "trilinear" => Interpolation::Linear { align_corners },
            "bicubic" => Interpolation::Cubic { align_corners },
            _ => return None,
        },
    ))
}

pub fn call(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    let (x, weight, bias) = (|| c.x(), || c.maybe("weight"), || c.maybe("bias"));
    Some(vec![match entry.strip_prefix("nn.functional.").unwrap_or(entry) {
        "conv1d" => x().conv1d(c.t("weight"), bias(), conv(c)),
        "conv2d" => x().conv2d(c.t("weight"), bias(), conv(c)),
        "conv3d" => x().conv3d(c.t("weight"), bias(), conv(c)),
        "conv_transpose1d" => x().conv_transpose1d(c.t("weight"), bias(), transposed(c)),
        "conv_transpose2d" => x().conv_transpose2d(c.t("weight"), bias(), transposed(c)),
        "conv_transpose3d" => x().conv_transpose3d(c.t("weight"), bias(), transposed(c)),
        "max_pool1d" => x().max_pool1d(max_pool(c)),
        "max_pool2d" => x().max_pool2d(max_pool(c)),
        "max_pool3d" => x().max_pool3d(max_pool(c)),
        "avg_pool1d" => x().avg_pool1d(avg_pool(c)),
        "avg_pool2d" => x().avg_pool2d(avg_pool(c)),
        "avg_pool3d" => x().avg_pool3d(avg_pool(c)),
        "adaptive_avg_pool1d" => x().adaptive_avg_pool1d(adaptive::<1>(c)?),
        "adaptive_avg_pool2d" => x().adaptive_avg_pool2d(adaptive::<2>(c)?),
        "adaptive_avg_pool3d" => x().adaptive_avg_pool3d(adaptive::<3>(c)?),
        "adaptive_max_pool1d" => x().adaptive_max_pool1d(adaptive::<1>(c)?),
        "adaptive_max_pool2d" => x().adaptive_max_pool2d(adaptive::<2>(c)?),
        "adaptive_max_pool3d" => x().adaptive_max_pool3d(adaptive::<3>(c)?),
        "interpolate:area" => match x().rank() {
            3 => x().adaptive_avg_pool1d(c.each::<1>("size")),
            4 => x().adaptive_avg_pool2d(c.each::<2>("size")),
            _ => x().adaptive_avg_pool3d(c.each::<3>("size")),
        },
        "upsample_bilinear" => x().interpolate(c.each::<2>("size"), Interpolation::Linear { align_corners: true }),
        "upsample_nearest" => {
            let sizes = c.sizes("size");
            let sizes = if sizes.len() == 1 { vec![sizes[0]; x().rank() - 2] } else { sizes };
            x().interpolate(sizes, Interpolation::Nearest)
        }
        name if name.starts_with("interpolate:") => interpolated(c)?,
        "linear" => {
            let w = c.t("weight");
            if w.rank() == 1 { x().matmul(w) } else { x().linear(w, bias()) }
        }
        "bilinear" => {
            let y = Tensor::einsum("...i,oij,...j->...o", &[x(), c.t("weight"), c.t("other")]);
            match bias() {
                Some(b) => y + b,
                None => y,
            }
        }
        "group_norm" => x().group_norm(c.size("groups"), weight(), bias(), c.float("eps")),
        "native_group_norm" => x().group_norm(c.size("groups"), weight(), bias(), c.float("eps")),
        "instance_norm" => x().instance_norm(weight(), bias(), c.float("eps")),
        "layer_norm" | "native_layer_norm" => {
            let axes: Vec<i64> = (1..=c.ints("shape").len() as i64).map(|i| -i).collect();
            x().layer_norm_with(axes, weight(), bias(), c.float("eps"))
        }
        "rms_norm" => {
            let axes: Vec<i64> = (1..=c.ints("shape").len() as i64).map(|i| -i).collect();
            let eps = match x().dtype() {
                DType::F64 => f64::EPSILON,
                _ => f32::EPSILON.into(),
            };
            x().rms_norm_with(axes, weight(), c.opt_float("eps").unwrap_or(eps))
        }
        "batch_norm" if x().rank() < 2 => return None,
        "batch_norm" | "batch_norm:without_cudnn" => match (c.maybe("running_mean"), c.maybe("running_var")) {
            (Some(m), Some(v)) if !c.flag("training") => x().batch_norm(m, v, weight(), bias(), c.float("eps")),
            (Some(m), Some(v)) => x().batch_norm_train((m, v), weight(), bias(), c.float("momentum"), c.float("eps")).0,
            _ => {
                let zeros = Tensor::zeros_with([x().size(1)], x().dtype());
                x().batch_norm_train((&zeros, &zeros), weight(), bias(), 0.1, c.float("eps")).0
            }
        },
        "cosine_similarity" => x().cosine_similarity(c.t("other"), c.int("dim"), c.float("eps")),
        "scaled_dot_product_attention" => {
            let mut options = Attention::default().causal(c.flag("is_causal"));
            if let Some(mask) = c.maybe("attn_mask") {
                options = options.mask(mask);
            }
            if let Some(scale) = c.opt_float("scale") {
                options = options.scale(scale);
            }
            x().scaled_dot_product_attention(c.t("key"), c.t("value"), options)
        }
        "mse_loss" => x().mse_loss(c.t("target"), reduction(c)),
        "l1_loss" => x().l1_loss(c.t("target"), reduction(c)),
        "huber_loss" => x().huber_loss(c.t("target"), c.float("delta"), reduction(c)),
        "smooth_l1_loss" => match c.float("beta") {
            0.0 => x().l1_loss(c.t("target"), reduction(c)),
            beta => x().huber_loss(c.t("target"), beta, reduction(c)) / beta,
        },
        "kl_div" if c.text("reduction") == "batchmean" => {
            let samples = x().dims().first().copied().unwrap_or(1);
            x().kl_div(c.t("target"), Reduction::Sum) / samples
        }
        "kl_div" => x().kl_div(c.t("target"), reduction(c)),
        "binary_cross_entropy_with_logits" => match c.maybe("pos_weight") {
            Some(w) => x().bce_with_logits_weighted(c.t("target"), w, reduction(c)),
            None => x().bce_with_logits(c.t("target"), reduction(c)),
        },
        "cross_entropy" | "nll_loss" => {
            let mut options = ClassLoss::default().ignore(c.int("ignore_index")).reduction(reduction(c));
            if let Some(w) = weight() {
                options = options.weights(w);
            }
            if entry.ends_with("nll_loss") {
                return Some(vec![x().nll_loss_with(c.t("target"), &options)]);
            }
            x().cross_entropy_with(c.t("target"), &options.smoothing(c.float("label_smoothing")))
        }
        _ => return None,
    }])
}
