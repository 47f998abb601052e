//! Multi-head attention.

use crate::{Linear, Mode, Module, Tensor, init};
use thalweg::Attention;

/// Multi-head attention with input and output projections (Vaswani et al. 2017), as `torch.nn.MultiheadAttention` with
/// `batch_first`.
///
/// ```
/// use thalweg::Attention;
/// use thalweg_nn::prelude::*;
/// let attention = MultiheadAttention::new(16, 4);
/// let x = Tensor::randn([2, 5, 16]);
/// assert_eq!(attention.forward(&x, &x, &x, Attention::default().causal(true)).dims(), [2, 5, 16]);
/// ```
#[derive(Module, Clone)]
pub struct MultiheadAttention {
    /// Projections of queries, keys and values, concatenated along dimension 0: `[3·size, size]`.
    pub in_proj_weight: Tensor,
    /// Biases of queries, keys and values, concatenated: `[3·size]`.
    pub in_proj_bias: Option<Tensor>,
    /// Projection of the concatenated heads to the output.
    pub out_proj: Linear,
    heads: usize,
    dropout: f64,
    /// Training mode, in which attention weights are dropped.
    pub mode: Mode,
}

impl MultiheadAttention {
    /// Makes attention over vectors of `size` elements, divided among `heads` heads.
    ///
    /// # Panics
    /// If the size is not divisible by the number of heads.
    #[track_caller]
    pub fn new(size: usize, heads: usize) -> MultiheadAttention {
        let fits = heads > 0 && size.is_multiple_of(heads);
        assert!(fits, "MultiheadAttention: size {size} does not divide into {heads} heads");
        let out = Linear::new(size, size);
        MultiheadAttention {
            in_proj_weight: crate::leaf::new(init::xavier_uniform([3 * size, size], init::Gain::Linear)),
            in_proj_bias: Some(init::zeros([3 * size])),
            out_proj: Linear { bias: Some(init::zeros([size])), ..out },
            heads,
            dropout: 0.0,
            mode: Mode::default(),
        }
    }

    /// Removes all biases.
    #[must_use]
    pub fn without_bias(self) -> MultiheadAttention {
        MultiheadAttention { in_proj_bias: None, out_proj: self.out_proj.without_bias(), ..self }
    }

    /// Sets the probability with which attention weights are dropped in training.
    #[must_use]
    pub fn dropout(self, p: f64) -> MultiheadAttention {
        MultiheadAttention { dropout: p, ..self }
    }

    /// Takes queries `[samples, m, size]`, and keys and values `[samples, n, size]`; returns `[samples, m, size]`. A
    /// mask broadcasts to `[samples, heads, m, n]`; in a bool mask, true marks keys that are attended to.
    ///
    /// # Panics
    /// If shapes do not match or dtypes differ.
    #[track_caller]
    pub fn forward(&self, queries: &Tensor, keys: &Tensor, values: &Tensor, options: Attention<'_>) -> Tensor {
        let size = self.in_proj_weight.dims()[1];
        for (name, x) in [("queries", queries), ("keys", keys), ("values", values)] {
            if x.rank() != 3 || x.dims()[2] != size {
                panic!("MultiheadAttention: takes {name} of shape [samples, length, {size}], not {}", x.shape());
            }
        }
        let part = |x: &Tensor, first: usize, count: usize| {
            let weight = self.in_proj_weight.narrow(0, first * size, count * size);
            let bias = self.in_proj_bias.as_ref().map(|b| b.narrow(0, first * size, count * size));
            let parts = x.linear(&weight, bias.as_ref());
            let (samples, length) = (x.dims()[0], x.dims()[1]);
            let split = parts.reshape([samples, length, count, self.heads, size / self.heads]);
            split.permute([2, 0, 3, 1, 4]).unbind(0)
        };
        // Inputs that are the same tensor are projected by one GEMM.
        let same = |a: &Tensor, b: &Tensor| std::ptr::eq(a, b);
        let [q, k, v]: [Tensor; 3] = if same(queries, keys) && same(keys, values) {
            part(queries, 0, 3)
        } else if same(keys, values) {
            [part(queries, 0, 1), part(keys, 1, 2)].concat()
        } else {
            [part(queries, 0, 1), part(keys, 1, 1), part(values, 2, 1)].concat()
        }
        .try_into()
        .expect("three parts");
        let options = match self.mode.is_training() && self.dropout > 0.0 {
            true => options.dropout(self.dropout),
            false => options,
        };
        let heads = q.scaled_dot_product_attention(&k, &v, options);
        let (samples, length) = (queries.dims()[0], queries.dims()[1]);
        self.out_proj.forward(&heads.transpose(1, 2).reshape([samples, length, size]))
    }
}
