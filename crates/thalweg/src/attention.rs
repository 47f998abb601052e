//! Attention as a composition of products and a softmax. The planner has no special case for it.

use crate::record::{check_alike, check_float, widened};
use crate::{DType, Options, Tensor};

/// Options of [`Tensor::scaled_dot_product_attention`]. Defaults: scores scaled by `1/√d`, no mask, no dropout.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Attention<'a> {
    mask: Option<&'a Tensor>,
    causal: bool,
    scale: Option<f64>,
    dropout: f64,
}

impl<'a> Attention<'a> {
    /// Sets the mask, which broadcasts to `[.., queries, keys]`. A bool mask is true for the keys that a query attends
    /// to. A mask of the queries' dtype is added to the scores; -∞ and the dtype's lowest number hide a key.
    pub fn mask(self, mask: &'a Tensor) -> Attention<'a> {
        Attention { mask: Some(mask), ..self }
    }

    /// Sets causal masking: query `i` attends to keys 0 to `i` only.
    pub fn causal(self, causal: bool) -> Attention<'a> {
        Attention { causal, ..self }
    }

    /// Sets the factor of the scores.
    pub fn scale(self, scale: f64) -> Attention<'a> {
        Attention { scale: Some(scale), ..self }
    }

    /// Sets dropout of the weights with probability `p`, the others scaled by `1/(1 - p)` ([`Tensor::dropout`]); for
    /// training.
    pub fn dropout(self, p: f64) -> Attention<'a> {
        Attention { dropout: p, ..self }
    }
}

/// # Attention
impl Tensor {
    /// `softmax(q·kᵀ·scale + mask)·v` (Vaswani et al. 2017), as `torch.nn.functional.scaled_dot_product_attention`.
    /// Queries are `[.., queries, d]`, keys `[.., keys, d]`, values `[.., keys, width]`; leading dimensions broadcast.
    /// The dimension before the last two is the heads. With fewer heads of keys and values than of queries, each serves
    /// several consecutive query heads (grouped-query attention, Ainslie et al. 2023), without a copy.
    ///
    /// A query that attends to no key gives 0 and has a gradient of 0, as in PyTorch 2.5. Products are those of
    /// [`matmul`](Tensor::matmul), accumulated in f32 at least. Scores and weights have the tensors' dtype; between
    /// them the softmax is computed in f32 at least. If it runs as one kernel, the matrix of scores is never in memory.
    ///
    /// ```
    /// # use thalweg::{Attention, Tensor};
    /// let (q, kv) = (Tensor::randn([2, 8, 10, 16]), Tensor::randn([2, 2, 10, 16]));
    /// let y = q.scaled_dot_product_attention(&kv, &kv, Attention::default().causal(true));
    /// assert_eq!(y.dims(), [2, 8, 10, 16]);
    /// ```
    ///
    /// # Panics
    /// When shapes do not match, heads do not divide, dtypes or devices differ, the dtype is not a float, the mask is
    /// of neither bool nor that dtype, or the dropout is not a probability.
    #[track_caller]
    pub fn scaled_dot_product_attention(&self, keys: &Tensor, values: &Tensor, options: Attention<'_>) -> Tensor {
        let name = "scaled_dot_product_attention";
        check_float(name, self);
        check_alike(name, self, keys);
        check_alike(name, self, values);
        let shapes = || format!("queries {}, keys {} and values {}", self.shape(), keys.shape(), values.shape());
        let ranks = [self.rank(), keys.rank(), values.rank()];
        let fit = ranks.iter().all(|&r| r >= 2)
            && self.dims()[ranks[0] - 1] == keys.dims()[ranks[1] - 1]
            && keys.dims()[ranks[1] - 2] == values.dims()[ranks[2] - 2];
        if !fit {
            panic!("{name}: shapes do not fit: {}", shapes());
        }
        let heads = |t: &Tensor| if t.rank() > 2 { t.dims()[t.rank() - 3] } else { 1 };
        let (many, few) = (heads(self), heads(keys));
        if few == many || few == 1 || many == 1 {
            return self.attended(keys, values, options);
        }
        let grouped = heads(values) == few && few > 0 && many.is_multiple_of(few);
        if !grouped || ranks.contains(&crate::MAX_RANK) {
            panic!("{name}: heads do not divide: {}", shapes());
        }
        let queries = self.unflatten(-3, [few, many / few]);
        let mask = match options.mask {
            Some(m) if heads(m) == many => Some(m.unflatten(-3, [few, many / few])),
            Some(m) if heads(m) == 1 && m.rank() > 2 => Some(m.unsqueeze(-3)),
            other => other.cloned(),
        };
        let options = Attention { mask: mask.as_ref(), ..options };
        queries.attended(&keys.unsqueeze(-3), &values.unsqueeze(-3), options).flatten_axes(-4, -3)
    }

    /// Attention whose heads of keys and values already broadcast against those of the queries.
    #[track_caller]
    fn attended(&self, keys: &Tensor, values: &Tensor, options: Attention<'_>) -> Tensor {
        let name = "scaled_dot_product_attention";
        let Attention { mask, causal, scale, dropout } = options;
        let (rows, columns, width) = (self.dims()[self.rank() - 2], keys.dims()[keys.rank() - 2], self.size(-1));
        let scale = scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
        let mut scores = widened(&self.matmul(&keys.transpose(-1, -2))) * scale;
        if let Some(mask) = mask {
            let fits = mask.shape().broadcast(scores.shape()) == Some(*scores.shape());
            if !fits || mask.dtype() != DType::Bool && mask.dtype() != self.dtype() {
                panic!("{name}: a mask {}{} for scores {}{}", mask.dtype(), mask.shape(), self.dtype(), scores.shape());
            }
            scores = match mask.dtype() {
                DType::Bool => mask.where_(scores, f64::NEG_INFINITY),
                // A mask with the dtype's lowest number hides a key as -∞ does: a row of only such numbers attends to
                // no key, instead of to all equally.
                dtype => {
                    let hidden = mask.le(-dtype.float_info().max);
                    scores + hidden.where_(f64::NEG_INFINITY, widened(mask))
                }
            };
        }
        if causal {
            let number = |n: usize| Tensor::arange_with(n, Options::of(&scores));
            let seen = number(columns).le(number(rows).unsqueeze(1));
            scores = seen.where_(scores, f64::NEG_INFINITY);
        }
        if columns == 0 {
            return scores.cast(self.dtype()).matmul(values);
        }
        let weights = if mask.is_some() { scores.guarded_softmax() } else { scores.softmax(-1) };
        weights.dropout(dropout).cast(self.dtype()).matmul(values)
    }

    /// Softmax over the last axis; 0 in rows of only -∞.
    #[track_caller]
    fn guarded_softmax(&self) -> Tensor {
        let (lowest, least) = match self.dtype() {
            DType::F64 => (f64::MIN, f64::MIN_POSITIVE),
            _ => (f32::MIN as f64, f32::MIN_POSITIVE as f64),
        };
        // The maximum is finite here, so that e^(x - maximum) is 0 and not NaN. A sum with a visible key is at least 1.
        let e = (self - self.detach().amax_keepdim(-1).maximum(lowest)).exp();
        &e / e.sum_keepdim(-1).maximum(least)
    }
}
