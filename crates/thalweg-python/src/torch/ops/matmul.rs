//! Matrix products.

use super::super::call::{Call, Out, Outcome, Reject, Row};
use super::super::value::Value;
use thalweg::{DType, Scalar, Shape, Tensor};

fn product(a: &Tensor, b: &Tensor) -> Result<Tensor, Reject> {
    if a.dtype() == DType::Bool || a.dtype() != b.dtype() {
        return Err("dtypes of a product".into());
    }
    Ok(a.matmul(b))
}

/// `beta·bias + alpha·(a @ b)`.
fn with_bias(c: &Call<'_>, fold: bool) -> Outcome {
    let (bias, a, b) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let one = Scalar::Int(1);
    let (beta, alpha) = (c.number_or_none(3)?.unwrap_or(one), c.number_or_none(4)?.unwrap_or(one));
    let mut y = product(a, b)?;
    if fold {
        y = y.sum(0);
    }
    // Integers take factors without their fractions, as in PyTorch.
    let whole = |v: Scalar| if y.dtype().is_float() { v } else { Scalar::Int(v.to_i64()) };
    let (beta, alpha) = (whole(beta), whole(alpha));
    let scaled = |x: &Tensor, by: Scalar| match (x.dtype().is_float(), by) {
        (_, v) if v.to_f64() == 1.0 => x.clone(),
        (true, v) => x * v.to_f64(),
        (false, v) => x * v.to_i64(),
    };
    y = scaled(&y, alpha);
    if beta.to_f64() == 0.0 {
        // The bias is not read, so its NaN do not spread.
        return Ok(y.into());
    }
    Ok((y + scaled(&bias.cast(c.out(0)?), beta)).into())
}

/// Minimum bytes of the scores of an attention that is trained on a GPU at which PyTorch's kernels run: they are flash
/// attention, where ours store the scores for the gradients, and a cut of the program costs some 50 µs.
const MIN_FLASH_SCORE_BYTES: usize = 32 << 20;

/// Arguments of attention that are no operands.
#[derive(Clone, Copy)]
struct Attending<'a> {
    dropout: f64,
    causal: bool,
    mask: Option<&'a Tensor>,
    scale: Option<f64>,
}

impl Attending<'_> {
    /// Why there is no rule for these arguments; the same for attention and its gradients.
    fn check(&self, q: &Tensor, k: &Tensor) -> Result<(), Reject> {
        if self.dropout != 0.0 || q.numel() == 0 || k.numel() == 0 || q.rank() != 4 {
            return Err("dropout, or an empty tensor".into());
        }
        Ok(())
    }

    /// Rejects an attention on a GPU whose scores would be stored for the gradients and are many, forward and backward.
    fn check_stored_scores(&self, q: &Tensor, k: &Tensor) -> Result<(), Reject> {
        self.check(q, k)?;
        let scores = q.numel() / q.size(-1).max(1) * k.size(-2) * q.dtype().size();
        match scores >= MIN_FLASH_SCORE_BYTES {
            true => Err("scores that would be stored for the gradients".into()),
            false => Ok(()),
        }
    }

    fn scores(&self, q: &Tensor, k: &Tensor) -> Tensor {
        scores(q, k, self.causal, self.mask, self.scale.unwrap_or(1.0 / (q.size(-1) as f64).sqrt()))
    }
}

fn attention(c: &Call<'_>) -> Outcome {
    let of =
        Attending { dropout: c.float_or(3, 0.0)?, causal: c.flag(4)?, mask: c.tensor_or_none(5)?, scale: scale(c, 6)? };
    Ok(attend(c, of)?.into())
}

fn scale(c: &Call<'_>, i: usize) -> Result<Option<f64>, Reject> {
    if c.is_none(i) { Ok(None) } else { c.float(i).map(Some) }
}

/// Attention by one of PyTorch's implementations for GPUs: its result, the logarithms of the sums of weights, and what
/// only its own backward kernel reads: `rest` more results.
fn attention_on_gpu(c: &Call<'_>, of: Attending<'_>, rest: usize) -> Outcome {
    // Only the backward pass reads the sums.
    if c.is_read(1) {
        of.check_stored_scores(c.tensor(0)?, c.tensor(1)?)?;
    }
    let (y, sums) = attend(c, of)?;
    let (queries, keys) = (c.tensor(0)?.size(-2), c.tensor(1)?.size(-2));
    // Lengths are two integers in the middle of five or more results; the others are tensors of random states.
    let state = || Value::from(Tensor::zeros_with(Shape::new(&[]), (DType::I64, y.device())));
    let mut all = vec![Value::from(y.clone()), sums.into()];
    match rest {
        2 => all.extend([state(), state()]),
        _ => {
            all.extend([Value::None, Value::None, Value::Int(queries as i64), Value::Int(keys as i64)]);
            all.extend([state(), state(), Value::None]);
        }
    }
    Ok(Out::Many(all))
}

/// Result of attention, and the logarithms of the sums of weights.
fn attend(c: &Call<'_>, of: Attending<'_>) -> Result<(Tensor, Tensor), Reject> {
    let (q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    of.check(q, k)?;
    let (k, v) = (&per_query_head(k, q)?, &per_query_head(v, q)?);
    let scores = of.scores(q, k);
    // One softmax gives weights and the logarithms of their sums. A row without a visible key has weights of 0.
    let largest = scores.amax_keepdim(-1);
    let finite = largest.eq(f64::NEG_INFINITY).where_(0.0, &largest);
    let e = (&scores - &finite).exp();
    let sums = e.sum_keepdim(-1);
    let weights = match of.mask {
        Some(_) => &e / sums.eq(0.0).where_(1.0, &sums),
        None => &e / &sums,
    };
    let y = weights.cast(q.dtype()).matmul(v);
    Ok((y, (sums.log() + finite).squeeze(-1)))
}

/// Scaled and masked scores in f32.
fn scores(q: &Tensor, k: &Tensor, causal: bool, mask: Option<&Tensor>, scale: f64) -> Tensor {
    let wide = if q.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let mut scores = q.matmul(&k.transpose(-1, -2)).cast(wide) * scale;
    if let Some(mask) = mask {
        scores = match mask.dtype() {
            DType::Bool => mask.where_(scores, f64::NEG_INFINITY),
            _ => scores + mask.cast(wide),
        };
    }
    if causal {
        let (rows, columns) = (scores.size(-2), scores.size(-1));
        let number = |n: usize| Tensor::arange_with(n, (DType::I64, q.device()));
        let seen = number(columns).le(number(rows).unsqueeze(1));
        scores = seen.where_(scores, f64::NEG_INFINITY);
    }
    scores
}

fn attention_backward(c: &Call<'_>) -> Outcome {
    let of =
        Attending { dropout: c.float_or(6, 0.0)?, causal: c.flag(7)?, mask: c.tensor_or_none(8)?, scale: scale(c, 9)? };
    let [dq, dk, dv, _] = gradients(c, c.tensor(4)?, c.tensor(5)?, of)?;
    Ok((dq, dk, dv).into())
}

/// Gradients of attention with respect to queries, keys, values and scores, from the gradient of its result and its
/// operands (arguments 0 to 3), its result `y` and the logarithms of the sums of weights.
fn gradients(c: &Call<'_>, y: &Tensor, sums: &Tensor, of: Attending<'_>) -> Result<[Tensor; 4], Reject> {
    let (dy, q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?, c.tensor(3)?);
    of.check(q, k)?;
    let heads = k.dims()[1];
    let (k, v) = (&per_query_head(k, q)?, &per_query_head(v, q)?);
    let scale = of.scale.unwrap_or(1.0 / (q.size(-1) as f64).sqrt());
    let scores = of.scores(q, k);
    let wide = scores.dtype();
    // Rows without a visible key have weights of 0.
    let hidden = sums.cast(wide).eq(f64::NEG_INFINITY);
    let sums = hidden.where_(0.0, sums.cast(wide)).unsqueeze(-1);
    let weights = (scores - sums).exp();
    let dtype = q.dtype();
    let narrow = weights.cast(dtype);
    let dv = narrow.transpose(-1, -2).matmul(dy);
    let d = (dy.cast(wide) * y.cast(wide)).sum_keepdim(-1);
    let dw = dy.matmul(&v.transpose(-1, -2)).cast(wide);
    let by_score = &weights * (dw - d);
    let ds = (&by_score * scale).cast(dtype);
    let dq = ds.matmul(k);
    let dk = ds.transpose(-1, -2).matmul(q);
    Ok([dq, of_groups(&dk, heads), of_groups(&dv, heads), by_score])
}

/// Gradient with respect to a bias that was broadcast over the scores.
fn of_bias(mut by_score: Tensor, bias: &Tensor) -> Result<Tensor, Reject> {
    if bias.rank() != by_score.rank() || bias.dtype() == DType::Bool {
        return Err("a gradient of a mask".into());
    }
    for axis in 0..bias.rank() {
        if bias.dims()[axis] == 1 && by_score.dims()[axis] != 1 {
            by_score = by_score.sum_keepdim(axis);
        }
    }
    Ok(by_score.cast(bias.dtype()))
}

/// Keys or values with one head for each head of the queries.
fn per_query_head(k: &Tensor, q: &Tensor) -> Result<Tensor, Reject> {
    let (few, many) = (k.dims()[1], q.dims()[1]);
    if few == many {
        return Ok(k.clone());
    }
    if few == 0 || many % few != 0 {
        return Err("heads that do not divide".into());
    }
    let &[b, _, t, w] = k.dims() else { return Err("a rank of keys".into()) };
    Ok(k.unsqueeze(2).broadcast_to([b, few, many / few, t, w]).reshape([b, many, t, w]))
}

/// Gradients of heads summed over the group of queries that share one.
fn of_groups(d: &Tensor, heads: usize) -> Tensor {
    match d.dims() {
        &[b, many, t, w] if many != heads => d.reshape([b, heads, many / heads, t, w]).sum(2),
        _ => d.clone(),
    }
}

pub const ROWS: &[Row] = &[
    ("aten.mm.default", |c| Ok(product(c.tensor(0)?, c.tensor(1)?)?.into())),
    ("aten.bmm.default", |c| Ok(product(c.tensor(0)?, c.tensor(1)?)?.into())),
    ("aten.matmul.default", |c| Ok(product(c.tensor(0)?, c.tensor(1)?)?.into())),
    ("aten.mv.default", |c| Ok(product(c.tensor(0)?, c.tensor(1)?)?.into())),
    ("aten.dot.default", |c| Ok(product(c.tensor(0)?, c.tensor(1)?)?.into())),
    ("aten.addmm.default", |c| with_bias(c, false)),
    ("aten.addmv.default", |c| with_bias(c, false)),
    ("aten.baddbmm.default", |c| with_bias(c, false)),
    ("aten.addbmm.default", |c| with_bias(c, true)),
    ("aten.linalg_cross.default", |c| {
        let (a, b) = (c.tensor(0)?, c.tensor(1)?);
        if a.dtype() != b.dtype() {
            return Err("a cross product of two dtypes".into());
        }
        Ok(a.cross(b, c.int_or(2, -1)?).into())
    }),
    ("aten._cdist_forward.default", |c| {
        let (a, b) = (c.tensor(0)?, c.tensor(1)?);
        if a.numel() == 0 || b.numel() == 0 || a.rank() != b.rank() {
            return Err("an empty tensor".into());
        }
        Ok(a.cdist(b, c.float(2)?).into())
    }),
    ("aten._cdist_backward.default", |c| {
        let (dy, a, b) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
        let p = c.float(3)?;
        if dy.numel() == 0 || a.rank() != b.rank() || a.numel() == 0 || b.numel() == 0 {
            return Err("an empty tensor".into());
        }
        let (_, pull) = thalweg::vjp(|a: Tensor| a.cdist(b, p), a);
        Ok(pull(dy).into())
    }),
    ("aten._scaled_dot_product_flash_attention_for_cpu.default", attention),
    ("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", attention_backward),
    ("aten._scaled_dot_product_flash_attention.default", |c| {
        let of = Attending { dropout: c.float_or(3, 0.0)?, causal: c.flag(4)?, mask: None, scale: scale(c, 6)? };
        attention_on_gpu(c, of, 7)
    }),
    ("aten._scaled_dot_product_efficient_attention.default", |c| {
        let mask = c.tensor_or_none(3)?;
        let of = Attending { dropout: c.float_or(5, 0.0)?, causal: c.flag(6)?, mask, scale: scale(c, 7)? };
        attention_on_gpu(c, of, 2)
    }),
    ("aten._scaled_dot_product_cudnn_attention.default", |c| {
        let mask = c.tensor_or_none(3)?;
        let of = Attending { dropout: c.float_or(5, 0.0)?, causal: c.flag(6)?, mask, scale: scale(c, 8)? };
        attention_on_gpu(c, of, 7)
    }),
    ("aten._scaled_dot_product_flash_attention_backward.default", |c| {
        let of = Attending { dropout: c.float_or(10, 0.0)?, causal: c.flag(11)?, mask: None, scale: scale(c, 14)? };
        of.check_stored_scores(c.tensor(1)?, c.tensor(2)?)?;
        let [dq, dk, dv, _] = gradients(c, c.tensor(4)?, c.tensor(5)?, of)?;
        Ok((dq, dk, dv).into())
    }),
    ("aten._scaled_dot_product_efficient_attention_backward.default", |c| {
        let (mask, wanted) = (c.tensor_or_none(4)?, c.flags(10)?);
        let of = Attending { dropout: c.float_or(9, 0.0)?, causal: c.flag(11)?, mask, scale: scale(c, 12)? };
        of.check_stored_scores(c.tensor(1)?, c.tensor(2)?)?;
        let [dq, dk, dv, by_score] = gradients(c, c.tensor(5)?, c.tensor(6)?, of)?;
        let dbias = match (mask, wanted.get(3)) {
            (Some(mask), Some(true)) => of_bias(by_score, mask)?.into(),
            _ => Value::None,
        };
        Ok(Out::Many(vec![dq.into(), dk.into(), dv.into(), dbias]))
    }),
    ("aten._scaled_dot_product_cudnn_attention_backward.default", |c| {
        let mask = c.tensor_or_none(8)?;
        let of = Attending { dropout: c.float_or(13, 0.0)?, causal: c.flag(14)?, mask, scale: scale(c, 15)? };
        of.check_stored_scores(c.tensor(1)?, c.tensor(2)?)?;
        let [dq, dk, dv, _] = gradients(c, c.tensor(4)?, c.tensor(5)?, of)?;
        Ok((dq, dk, dv).into())
    }),
];
