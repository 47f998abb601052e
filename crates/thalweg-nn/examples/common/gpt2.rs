//! GPT-2 (Radford and others 2019); its field names give the names of weights: `transformer.h.0.attn.c_attn.weight` and
//! so on, with linear layers `[out, in]`.

use thalweg::Attention;
use thalweg_nn::prelude::*;

/// Size of the model.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub tokens: usize,
    pub context: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
}

#[derive(Module, Clone)]
pub struct Block {
    pub ln_1: LayerNorm,
    pub attn: SelfAttention,
    pub ln_2: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Module, Clone)]
pub struct SelfAttention {
    pub c_attn: Linear,
    pub c_proj: Linear,
    #[module(skip)]
    heads: usize,
}

#[derive(Module, Clone)]
pub struct Mlp {
    pub c_fc: Linear,
    pub c_proj: Linear,
}

#[derive(Module, Clone)]
pub struct Gpt2 {
    pub wte: Embedding,
    pub wpe: Embedding,
    pub h: Vec<Block>,
    pub ln_f: LayerNorm,
}

impl Gpt2 {
    /// Makes a model with weights of normal distribution, deviation 0.02, and biases 0.
    pub fn new(size: Size) -> Gpt2 {
        let width = size.width;
        let linear = |inputs: usize, outputs: usize| Linear {
            weight: normal([outputs, inputs]),
            bias: Some(Tensor::zeros([outputs]).tracked()),
        };
        let block = |_| Block {
            ln_1: LayerNorm::new([width]),
            attn: SelfAttention { c_attn: linear(width, 3 * width), c_proj: linear(width, width), heads: size.heads },
            ln_2: LayerNorm::new([width]),
            mlp: Mlp { c_fc: linear(width, 4 * width), c_proj: linear(4 * width, width) },
        };
        let table = |rows: usize| {
            let mut table = Embedding::new(rows, width);
            table.weight = normal([rows, width]);
            table
        };
        Gpt2 {
            wte: table(size.tokens),
            wpe: table(size.context),
            h: (0..size.layers).map(block).collect(),
            ln_f: LayerNorm::new([width]),
        }
    }

    /// Mean loss of `tokens`, `[samples, length]`, each predicted from those before it.
    pub fn loss(&self, tokens: &Tensor) -> Tensor {
        let (samples, length) = (tokens.dims()[0], tokens.dims()[1] - 1);
        let place = Tensor::arange_with(length, DType::I64);
        let mut x = self.wte.forward(&tokens.narrow(1, 0, length)) + self.wpe.forward(&place);
        for block in &self.h {
            x = &x + block.attn.forward(&block.ln_1.forward(&x));
            x = &x + block.mlp.forward(&block.ln_2.forward(&x));
        }
        // The output head shares the weights of the token embedding.
        let logits = self.ln_f.forward(&x).linear(&self.wte.weight, None);
        let next = tokens.narrow(1, 1, length).reshape([samples * length]);
        logits.flatten_axes(0, 1).cross_entropy(&next, Reduction::Mean)
    }
}

fn normal<const N: usize>(shape: [usize; N]) -> Tensor {
    thalweg_nn::init::normal(shape, 0.0, 0.02).tracked()
}

impl SelfAttention {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (samples, length, width) = (x.dims()[0], x.dims()[1], x.dims()[2]);
        let all = self.c_attn.forward(x);
        let part = |n: usize| {
            let part = all.narrow(2, n * width, width);
            part.reshape([samples, length, self.heads, width / self.heads]).transpose(1, 2)
        };
        let mixed = part(0).scaled_dot_product_attention(&part(1), &part(2), Attention::default().causal(true));
        self.c_proj.forward(&mixed.transpose(1, 2).reshape([samples, length, width]))
    }
}

impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.c_proj.forward(&self.c_fc.forward(x).gelu_tanh())
    }
}
