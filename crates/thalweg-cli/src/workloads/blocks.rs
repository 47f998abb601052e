//! Whole network blocks: an MLP, a Llama-style transformer block over a prompt and over one token, and ResNet-18.
//! Weights have the layouts of PyTorch's `Linear` and `Conv2d`.

use super::{Call, Entry, Size, weight};
use thalweg::{Attention, Conv, Pool, Tensor};

/// Workloads of the group.
pub const ALL: &[Entry] = &[
    Entry { name: "mlp_block", about: "linear, gelu, linear, residual, layernorm", make: mlp },
    Entry { name: "llama_block", about: "rmsnorm, rope, causal GQA, SwiGLU over a prompt", make: |s| llama(s, false) },
    Entry { name: "llama_token", about: "the same for one token and a cache of 511", make: |s| llama(s, true) },
    Entry {
        name: "decode",
        about: "128 tokens (large: 512) by four such layers, each read before the next",
        make: decode,
    },
    Entry { name: "resnet18", about: "one image of 224×224 (large: 16), random weights", make: resnet18 },
];

fn mlp(size: Size) -> (Vec<Tensor>, Call) {
    let (rows, d) = if size == Size::Large { (8192, 1024) } else { (512, 768) };
    let mut inputs = vec![Tensor::randn([rows, d]), weight(&[4 * d, d]), Tensor::randn([4 * d])];
    inputs.extend([weight(&[d, 4 * d]), Tensor::randn([d]), Tensor::randn([d]), Tensor::randn([d])]);
    (inputs, |x| {
        let hidden = x[0].linear(&x[1], Some(&x[2])).gelu();
        let out = &x[0] + hidden.linear(&x[3], Some(&x[4]));
        vec![out.layer_norm_with(-1, Some(&x[5]), Some(&x[6]), 1e-5)]
    })
}

/// Number of elements of an attention head.
const HEAD: usize = 64;
/// Number of positions in the key-value cache before the token.
const CACHED: usize = 511;

/// Inputs of a block: residual stream, RoPE tables, weights, and for one token the key-value cache.
fn llama(size: Size, token: bool) -> (Vec<Tensor>, Call) {
    let (positions, d) = if size == Size::Large { (2048, 2048) } else { (256, 512) };
    // A token's weights should come from memory, not from a cache.
    let (positions, d) = if token { (1, 2048) } else { (positions, d) };
    let (heads, groups, hidden) = (d / HEAD, d / HEAD / 4, d * 11 / 4);
    let angles = Tensor::randn([positions, HEAD / 2]);
    let tables = [angles.cos(), angles.sin()].map(|t| Tensor::cat(&[&t, &t], -1));
    let mut inputs = vec![Tensor::randn([positions, d])];
    inputs.extend(tables);
    inputs.extend([Tensor::randn([d]), weight(&[heads * HEAD, d]), weight(&[groups * HEAD, d])]);
    inputs.extend([weight(&[groups * HEAD, d]), weight(&[d, heads * HEAD]), Tensor::randn([d])]);
    inputs.extend([weight(&[hidden, d]), weight(&[hidden, d]), weight(&[d, hidden])]);
    if token {
        inputs.extend([0; 2].map(|_| Tensor::randn([groups, CACHED, HEAD])));
    }
    (inputs, llama_block)
}

fn llama_block(x: &[Tensor]) -> Vec<Tensor> {
    let [x, cos, sin, norm, q, k, v, o, after, gate, up, down, cache @ ..] = x else { unreachable!("twelve inputs") };
    let heads = |t: Tensor| t.unflatten(-1, [t.size(-1) / HEAD, HEAD]).transpose(0, 1);
    let h = x.rms_norm_with(-1, Some(norm), 1e-5);
    let queries = rope(&heads(h.linear(q, None)), cos, sin);
    let (mut keys, mut values) = (rope(&heads(h.linear(k, None)), cos, sin), heads(h.linear(v, None)));
    if let [old_keys, old_values] = cache {
        keys = Tensor::cat(&[old_keys, &keys], 1);
        values = Tensor::cat(&[old_values, &values], 1);
    }
    let attention = Attention::default().causal(cache.is_empty());
    let seen = queries.scaled_dot_product_attention(&keys, &values, attention);
    let x = x + seen.transpose(0, 1).flatten_axes(-2, -1).linear(o, None);
    let h = x.rms_norm_with(-1, Some(after), 1e-5);
    let y = &x + (h.linear(gate, None).silu() * h.linear(up, None)).linear(down, None);
    if cache.is_empty() { vec![y] } else { vec![y, keys, values] }
}

/// Rotary embedding (RoPE, Su et al. 2021), which pairs the halves of a head.
fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let half = x.size(-1) / 2;
    let turned = Tensor::cat(&[-x.narrow(-1, half, half), x.narrow(-1, 0, half)], -1);
    x * cos + turned * sin
}

/// Number of layers (`LAYERS`), width (`WIDTH`) and vocabulary size (`WORDS`) of the decoder.
const LAYERS: usize = 4;
const WIDTH: usize = 512;
const WORDS: usize = 1000;
/// Number of inputs of a layer: its weights, then its initial key-value cache.
const OF_LAYER: usize = 11;

/// Inputs of the decoder: RoPE tables of all positions, the token embedding, and the inputs of each layer.
fn decode(size: Size) -> (Vec<Tensor>, Call) {
    let positions = if size == Size::Large { 512 } else { 128 };
    let (groups, hidden) = (WIDTH / HEAD / 4, WIDTH * 11 / 4);
    let angles = Tensor::randn([positions, HEAD / 2]);
    let mut inputs = [angles.cos(), angles.sin()].map(|t| Tensor::cat(&[&t, &t], -1)).to_vec();
    inputs.push(weight(&[WORDS, WIDTH]));
    for _ in 0..LAYERS {
        inputs.extend([Tensor::randn([WIDTH]), weight(&[WIDTH, WIDTH]), weight(&[groups * HEAD, WIDTH])]);
        inputs.extend([weight(&[groups * HEAD, WIDTH]), weight(&[WIDTH, WIDTH]), Tensor::randn([WIDTH])]);
        inputs.extend([weight(&[hidden, WIDTH]), weight(&[hidden, WIDTH]), weight(&[WIDTH, hidden])]);
        inputs.extend([0; 2].map(|_| Tensor::randn([groups, 1, HEAD])));
    }
    (inputs, decoded)
}

/// Greedy decoding, token by token, with growing key-value caches; returns the tokens as f32.
fn decoded(inputs: &[Tensor]) -> Vec<Tensor> {
    let [cos, sin, words, layers @ ..] = inputs else { unreachable!("three inputs before the layers") };
    let mut layers: Vec<Vec<Tensor>> = layers.chunks_exact(OF_LAYER).map(<[Tensor]>::to_vec).collect();
    let mut token = Tensor::zeros_with([1], thalweg::DType::I64);
    let mut said = vec![];
    for position in 0..cos.size(0) {
        let mut x = words.embedding(&token);
        let [cos, sin] = [cos, sin].map(|t| t.narrow(0, position, 1));
        for layer in &mut layers {
            let all = [&[x, cos.clone(), sin.clone()], &layer[..]].concat();
            let [y, keys, values] = <[Tensor; 3]>::try_from(llama_block(&all)).expect("a result and a cache");
            layer[OF_LAYER - 2..].clone_from_slice(&[keys, values]);
            x = y;
        }
        token = x.rms_norm(-1, 1e-5).linear(words, None).argmax(-1);
        said.push(token.item::<i64>().expect("no failure") as f32);
    }
    vec![Tensor::from_slice(&said, [said.len()])]
}

/// Input channels, output channels and stride of ResNet-18's eight blocks (He et al. 2015).
const BLOCKS: [(usize, usize, usize); 8] =
    [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)];

/// Inputs of ResNet-18: an image, convolutions each with the scale and shift of its folded batch norm, and the last
/// layer.
fn resnet18(size: Size) -> (Vec<Tensor>, Call) {
    let images = if size == Size::Large { 16 } else { 1 };
    let mut inputs = vec![Tensor::randn([images, 3, 224, 224])];
    let mut conv = |out: usize, of: usize, side: usize| {
        inputs.push(weight(&[out, of, side, side]));
        inputs.extend([0; 2].map(|_| Tensor::randn([out, 1, 1]) * 0.1 + 0.5));
    };
    conv(64, 3, 7);
    for (of, out, stride) in BLOCKS {
        conv(out, of, 3);
        conv(out, out, 3);
        if stride != 1 {
            conv(out, of, 1);
        }
    }
    inputs.extend([weight(&[1000, 512]), Tensor::randn([1000])]);
    (inputs, |inputs| {
        let (x, mut weights) = inputs.split_first().expect("an image");
        let mut conv = |x: &Tensor, stride: usize, padding: usize| {
            let [w, scale, shift, rest @ ..] = weights else { unreachable!("a convolution has three inputs") };
            weights = rest;
            x.conv2d(w, None, Conv::default().stride(stride).padding(padding)) * scale + shift
        };
        let mut x = conv(x, 2, 3).relu().max_pool2d(Pool::new(3).stride(2).padding(1));
        for (_, _, stride) in BLOCKS {
            let inner = conv(&x, stride, 1).relu();
            let inner = conv(&inner, 1, 1);
            let through = if stride == 1 { x } else { conv(&x, stride, 0) };
            x = (inner + through).relu();
        }
        vec![x.mean([2, 3]).linear(&weights[0], Some(&weights[1]))]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::path::Path;
    use thalweg::{Costs, CpuEngine, CpuOptions, Device, SegmentReport, counters, explain, set_default_device};

    /// Text of each kernel: its planned traffic in bytes, then its operations; stored ones have a star.
    fn kernels(report: &SegmentReport) -> String {
        let mut text = String::new();
        for (n, kernel) in report.kernels.iter().enumerate() {
            let (reads, writes) = (kernel.bytes_read, kernel.bytes_written);
            writeln!(text, "{n} {} over {}: reads {reads}, writes {writes}", kernel.kind, kernel.domain).unwrap();
            let star = |o: &usize| if kernel.writes.contains(o) { "*" } else { "" };
            let name = |o: &usize| format!("{}{}", report.operations[*o].name, star(o));
            writeln!(text, "  {}", kernel.operations.iter().map(name).collect::<Vec<_>>().join(" ")).unwrap();
        }
        let (run, unfused) = (&report.totals, &report.unfused);
        writeln!(
            text,
            "unfused: {} kernels; read {}, written {}",
            unfused.kernels, unfused.bytes_read, unfused.bytes_written
        )
        .unwrap();
        writeln!(text, "as run: {} kernels; read {}, written {}", run.kernels, run.bytes_read, run.bytes_written)
            .unwrap();
        text
    }

    /// Golden test: the kernels of each block and the bytes that they read and write equal those in `blocks.txt`.
    /// `THALWEG_BLESS=1 cargo test -p thalweg-cli golden` rewrites the file.
    #[test]
    fn the_kernels_of_the_blocks_are_the_golden_ones() {
        if !CpuEngine::Avx2.available() {
            return;
        }
        // Plans must not depend on this machine.
        let isa = CpuEngine::Avx2;
        let own = Device::new_cpu(CpuOptions { threads: 2, parallel_ns: 30_000.0, isa });
        own.set_costs(Costs::typical());
        let before = set_default_device(Some(own));
        let (measuring, deferring) = (thalweg::set_measuring(None), thalweg::set_deferring(true));
        let mut text = String::new();
        // A decoder has a segment per token; one token is covered by `llama_token`.
        for entry in ALL.iter().filter(|e| e.name != "decode") {
            thalweg::manual_seed(1);
            let (inputs, call) = (entry.make)(Size::Small);
            thalweg::synchronize().unwrap();
            let (out, explanation) = explain(|| {
                let out = call(&inputs);
                thalweg::synchronize().unwrap();
                out
            });
            assert_eq!(explanation.segments.len(), 1, "{}", entry.name);
            writeln!(text, "# {}\n{}", entry.name, kernels(&explanation.segments[0])).unwrap();
            drop(out);
            // The second call finds the plan in the store.
            let plans = counters();
            let again = call(&inputs);
            thalweg::synchronize().unwrap();
            drop(again);
            assert_eq!((counters() - plans).plans_made, 0, "{}", entry.name);
        }
        set_default_device(before);
        thalweg::set_measuring(measuring);
        thalweg::set_deferring(deferring);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/blocks.txt");
        if thalweg::environment::BLESS.get().is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == golden, "THALWEG_BLESS=1 writes {} anew, for `git diff` to show; now:\n{text}", path.display());
    }
}
