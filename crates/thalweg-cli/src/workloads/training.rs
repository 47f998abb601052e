//! Training steps: forward, backward, Adam.
//!
//! Inputs are the parameters, their first moments, their second moments, the step count, further state of a step, then
//! a batch of inputs and classes. A step returns everything but the batch, and the loss.

use super::{Entry, Size, transformers};
use thalweg::{Conv, DType, Gradients, Pool, Reduction, Tensor};

/// Workloads of a separate group: training steps of a larger network.
pub const ALL: &[Entry] = &[Entry {
    name: "train_gpt2",
    about: "a step of gpt2 by Adam, parameters in f32, the rest in bf16",
    make: |s| (gpt2(s), train_gpt2),
}];

/// Number of parameters of `train_mlp` (`MLP`); of parameters and of running statistics of `train_conv` (`CONV_NET`).
const MLP: usize = 6;
const CONV_NET: (usize, usize) = (8, 4);

/// Number of leading results that a workload with `inputs` inputs takes as inputs in the next run.
pub fn carried(name: &str, inputs: usize) -> usize {
    match name {
        "train_mlp" => 3 * MLP + 1,
        "train_conv" => 3 * CONV_NET.0 + 1 + CONV_NET.1,
        // All inputs are carried but the batch.
        "train_gpt2" => inputs - 2,
        _ => 0,
    }
}

/// Inputs of the first step.
fn start(parameters: Vec<Tensor>, kept: Vec<Tensor>, batch: [Tensor; 2]) -> Vec<Tensor> {
    let zeros: Vec<Tensor> = parameters.iter().map(Tensor::zeros_like).collect();
    [parameters, zeros.clone(), zeros, vec![Tensor::zeros([0; 0])], kept, batch.to_vec()].concat()
}

/// Uniform initialization with bound `1/√fan`.
fn uniform(shape: &[usize], fan: usize) -> Tensor {
    (Tensor::rand(shape.to_vec()) * 2.0 - 1.0) / (fan as f64).sqrt()
}

/// Inputs of a perceptron with three layers.
pub fn mlp() -> Vec<Tensor> {
    let layer = |pair: &[usize]| [uniform(&[pair[1], pair[0]], pair[0]), uniform(&[pair[1]], pair[0])];
    let parameters = [784, 512, 512, 10].windows(2).flat_map(layer).collect();
    start(parameters, vec![], [Tensor::randn([128, 784]), Tensor::randint(0..10, [128])])
}

/// Adam step of the perceptron.
pub fn train_mlp(inputs: &[Tensor]) -> Vec<Tensor> {
    let leaves: Vec<Tensor> = inputs[..MLP].iter().map(Tensor::tracked).collect();
    let [.., x, classes] = inputs else { unreachable!("a batch comes last") };
    let hidden = x.linear(&leaves[0], Some(&leaves[1])).relu().linear(&leaves[2], Some(&leaves[3])).relu();
    let loss = hidden.linear(&leaves[4], Some(&leaves[5])).cross_entropy(classes, Reduction::Mean);
    let gradients = loss.backward();
    adam(inputs, &leaves, &gradients, vec![loss.detach()])
}

/// Inputs of a network of two convolutions, each with scale and shift of its batch norm, and a linear layer; and the
/// norms' running means and variances.
pub fn conv_net() -> Vec<Tensor> {
    let conv = |out: usize, of: usize| [uniform(&[out, of, 3, 3], 9 * of), Tensor::ones([out]), Tensor::zeros([out])];
    let head = [uniform(&[10, 128], 128), uniform(&[10], 128)];
    let parameters = [conv(16, 1), conv(32, 16)].into_iter().flatten().chain(head).collect();
    let kept = [16, 32].into_iter().flat_map(|n| [Tensor::zeros([n]), Tensor::ones([n])]).collect();
    start(parameters, kept, [Tensor::randn([64, 1, 8, 8]), Tensor::randint(0..10, [64])])
}

/// Adam step of the convolutional network.
pub fn train_conv(inputs: &[Tensor]) -> Vec<Tensor> {
    let (parameters, layers) = CONV_NET;
    let leaves: Vec<Tensor> = inputs[..parameters].iter().map(Tensor::tracked).collect();
    let [.., batch, classes] = inputs else { unreachable!("a batch comes last") };
    let (mut x, mut kept) = (batch.clone(), vec![]);
    for (w, running) in leaves.chunks_exact(3).zip(inputs[3 * parameters + 1..][..layers].chunks_exact(2)) {
        let sums = x.conv2d(&w[0], None, Conv::default().padding(1));
        let (y, mean, var) = sums.batch_norm_train((&running[0], &running[1]), Some(&w[1]), Some(&w[2]), 0.1, 1e-5);
        x = y.relu().max_pool2d(Pool::new(2));
        kept.extend([mean, var].map(|t| t.detach()));
    }
    let [.., w, b] = &leaves[..] else { unreachable!("a linear layer comes last") };
    let loss = x.flatten_axes(1, -1).linear(w, Some(b)).cross_entropy(classes, Reduction::Mean);
    let gradients = loss.backward();
    kept.push(loss.detach());
    adam(inputs, &leaves, &gradients, kept)
}

/// GPT-2 small with the parameters and tokens of `gpt2`, and the tokens that come next.
fn gpt2(size: Size) -> Vec<Tensor> {
    let (tokens, parameters) = transformers::gpt2_inputs(size);
    let next = tokens.roll(-1, 1);
    start(parameters, vec![], [tokens, next])
}

/// Adam step of GPT-2: parameters and moments in f32, everything between in bf16, the loss in f32.
fn train_gpt2(inputs: &[Tensor]) -> Vec<Tensor> {
    let [.., tokens, next] = inputs else { unreachable!("a batch comes last") };
    let leaves: Vec<Tensor> = inputs[..(inputs.len() - 3) / 3].iter().map(Tensor::tracked).collect();
    let narrow: Vec<Tensor> = leaves.iter().map(|t| t.cast(DType::BF16)).collect();
    let logits = transformers::gpt2_logits(tokens, &narrow).cast(DType::F32).flatten_axes(0, 1);
    let loss = logits.cross_entropy(&next.flatten_axes(0, 1), Reduction::Mean);
    let gradients = loss.backward();
    adam(inputs, &leaves, &gradients, vec![loss.detach()])
}

/// Parameters, moments and step count after a step, followed by `more`.
fn adam(inputs: &[Tensor], leaves: &[Tensor], gradients: &Gradients, more: Vec<Tensor>) -> Vec<Tensor> {
    let (rate, keep, keep_square) = (1e-3, 0.9f64, 0.999f64);
    let n = leaves.len();
    let number = &inputs[3 * n] + 1.0;
    let lacking = |keep: f64| 1.0 - (&number * keep.ln()).exp();
    let (first, second) = (lacking(keep), lacking(keep_square).sqrt());
    let mut out: [Vec<Tensor>; 3] = [const { Vec::new() }; 3];
    for (i, leaf) in leaves.iter().enumerate() {
        let gradient = &gradients[leaf];
        let mean = &inputs[n + i] * keep + gradient * (1.0 - keep);
        let square = &inputs[2 * n + i] * keep_square + gradient.square() * (1.0 - keep_square);
        out[0].push(&inputs[i] - rate / &first * &mean / (square.sqrt() / &second + 1e-8));
        out[1].push(mean);
        out[2].push(square);
    }
    [out.concat(), vec![number], more].concat()
}
