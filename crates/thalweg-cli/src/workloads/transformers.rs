//! Parts of transformers and a whole one: attention without a mask, causal, and long; three GEMMs with one input; GPT-2
//! small. The suffix `_bf16` runs them in bf16.

use super::{Call, Entry, Size};
use thalweg::{Attention, Tensor};

/// Workloads of the group.
pub const ALL: &[Entry] = &[
    Entry { name: "attention_full", about: "64 heads of 2048 × 64, no mask", make: |s| attention(s, 64, false) },
    Entry { name: "attention_causal", about: "the same, causal", make: |s| attention(s, 64, true) },
    Entry { name: "attention_long", about: "32 heads of 8192 × 128, causal", make: |s| attention(s, 128, true) },
    Entry { name: "qkv", about: "three products of one input, 4096 × 1024 × 1024", make: qkv },
    Entry { name: "gpt2", about: "GPT-2 small, 8 × 1024 tokens, to the logits", make: gpt2 },
];

fn attention(size: Size, d: usize, causal: bool) -> (Vec<Tensor>, Call) {
    let [heads, n] = match (size, d) {
        (Size::Large, 64) => [64, 2048],
        (Size::Large, _) => [32, 8192],
        _ => [8, 512],
    };
    let inputs = [0; 3].map(|_| Tensor::randn([heads, n, d])).to_vec();
    let call: Call = match causal {
        true => |x| vec![x[0].scaled_dot_product_attention(&x[1], &x[2], Attention::default().causal(true))],
        false => |x| vec![x[0].scaled_dot_product_attention(&x[1], &x[2], Attention::default())],
    };
    (inputs, call)
}

fn qkv(size: Size) -> (Vec<Tensor>, Call) {
    let (rows, d) = if size == Size::Large { (4096, 1024) } else { (512, 256) };
    let mut inputs = vec![Tensor::randn([rows, d])];
    inputs.extend([0; 3].map(|_| super::weight(&[d, d])));
    (inputs, |x| x[1..].iter().map(|w| x[0].linear(w, None)).collect())
}

/// Number of elements of an attention head, as in GPT-2 small (Radford et al. 2019).
const HEAD: usize = 64;

/// Token numbers and parameters of GPT-2: token and position embeddings, twelve tensors per layer, the last norm's.
/// Small: two layers of half the width.
pub(super) fn gpt2_inputs(size: Size) -> (Tensor, Vec<Tensor>) {
    let (layers, d, words, batch, positions) =
        if size == Size::Large { (12, 768, 50257, 8, 1024) } else { (2, 384, 1000, 2, 64) };
    let tokens = Tensor::randint(0..words as i64, [batch, positions]);
    let mut parameters = vec![super::weight(&[words, d]), super::weight(&[positions, d])];
    for _ in 0..layers {
        for [out, of] in [[3 * d, d], [d, d], [4 * d, d], [d, 4 * d]] {
            parameters.extend([super::weight(&[out, of]), Tensor::randn([out]) * 0.1]);
        }
        parameters.extend([0, 1, 2, 3].map(|i| Tensor::randn([d]) * 0.1 + (1 - i % 2) as f64));
    }
    parameters.extend([Tensor::randn([d]) * 0.1 + 1.0, Tensor::randn([d]) * 0.1]);
    (tokens, parameters)
}

fn gpt2(size: Size) -> (Vec<Tensor>, Call) {
    let (tokens, parameters) = gpt2_inputs(size);
    ([vec![tokens], parameters].concat(), |x| vec![gpt2_logits(&x[0], &x[1..])])
}

/// GPT-2's logits of the token after each one.
pub(super) fn gpt2_logits(tokens: &Tensor, parameters: &[Tensor]) -> Tensor {
    let [words, places, layers @ .., scale, shift] = parameters else { unreachable!("GPT-2's parameters") };
    let start = words.embedding(tokens) + places;
    let x = layers.chunks_exact(12).fold(start, |x, layer| gpt2_layer(&x, layer));
    x.layer_norm_with(-1, Some(scale), Some(shift), 1e-5).linear(words, None)
}

fn gpt2_layer(x: &Tensor, layer: &[Tensor]) -> Tensor {
    let [qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias, g1, b1, g2, b2] = layer else {
        unreachable!("twelve inputs a layer")
    };
    let d = x.size(-1);
    let all = x.layer_norm_with(-1, Some(g1), Some(b1), 1e-5).linear(qkv, Some(qkv_bias));
    let part = |i: usize| all.narrow(-1, i * d, d).unflatten(-1, [d / HEAD, HEAD]).transpose(1, 2);
    let seen = part(0).scaled_dot_product_attention(&part(1), &part(2), Attention::default().causal(true));
    let x = x + seen.transpose(1, 2).flatten_axes(-2, -1).linear(out, Some(out_bias));
    let hidden = x.layer_norm_with(-1, Some(g2), Some(b2), 1e-5).linear(up, Some(up_bias)).gelu();
    &x + hidden.linear(down, Some(down_bias))
}
