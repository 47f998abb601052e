//! Layers agree with torch, with torch's weights under torch's names; `bench/golden_nn.py` writes the files.

use std::path::Path;
use thalweg::{Attention, Pool, Safetensors};
use thalweg_nn::prelude::*;
use thalweg_nn::{AdaptiveAvgPool2d, Flatten, InstanceNorm2d, MaxPool2d, Prelu, Relu};

fn golden(name: &str) -> Safetensors {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    Safetensors::open(folder.join(format!("{name}.safetensors"))).unwrap()
}

fn state(file: &Safetensors, part: &str) -> StateDict {
    let all: StateDict = file.names().map(|name| (name.to_string(), file.get(name).unwrap())).collect();
    all.below(part)
}

/// Compares within the rounding errors of short sums in f32.
#[track_caller]
fn same(name: &str, ours: &Tensor, theirs: &Tensor) {
    assert_eq!(ours.dims(), theirs.dims(), "{name}");
    let (ours, theirs) = (ours.to_f64_vec().unwrap(), theirs.to_f64_vec().unwrap());
    for (at, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        assert!((a - b).abs() <= 2e-6 + 2e-6 * b.abs(), "{name}: element {at} is {a}, not {b}");
    }
}

/// Loads torch's weights and compares the output of `forward`.
fn check<M: Module>(name: &str, mut module: M, forward: impl Fn(&M, &Tensor) -> Tensor) {
    let file = golden(name);
    let state = state(&file, "model");
    module.load_state_dict(&state).unwrap();
    same(name, &forward(&module, &file.get("input.0").unwrap()), &file.get("output.0").unwrap());
}

#[test]
fn layers_of_one_input() {
    check("linear", Linear::new(5, 3), Linear::forward);
    check("linear_no_bias", Linear::new(5, 3).without_bias(), Linear::forward);
    check("embedding", Embedding::new(7, 4).padding(2), Embedding::forward);
    check("layer_norm", LayerNorm::new([3, 4]), LayerNorm::forward);
    check("rms_norm", RmsNorm::new([6]), RmsNorm::forward);
    check("group_norm", GroupNorm::new(2, 6), GroupNorm::forward);
    check("instance_norm", InstanceNorm2d::new(3).affine(), InstanceNorm2d::forward);
    check("prelu", Prelu::new(3), Prelu::forward);
}

#[test]
fn convolutions() {
    check("conv1d", Conv1d::new(4, 6, 3).stride(2).padding(1).groups(2), Conv1d::forward);
    check("conv2d", Conv2d::new(3, 5, [3, 2]).padding([1, 0]).dilation([1, 2]), Conv2d::forward);
    check("conv3d", Conv3d::new(2, 3, 2).padding(1), Conv3d::forward);
    let transposed = ConvTranspose1d::new(4, 6, 3).stride(2).padding(1).output_padding(1).groups(2);
    check("conv_transpose1d", transposed, ConvTranspose1d::forward);
    check("conv_transpose2d", ConvTranspose2d::new(3, 2, 3).stride(2), ConvTranspose2d::forward);
    check("conv_transpose3d", ConvTranspose3d::new(2, 3, 2), ConvTranspose3d::forward);
}

fn batch_norm<M: Module>(name: &str, mut norm: M, forward: impl Fn(&M, &Tensor) -> Tensor) {
    let file = golden(name);
    norm.load_state_dict(&state(&file, "model")).unwrap();
    let [x, y] = ["input.0", "input.1"].map(|n| file.get(n).unwrap());
    same(name, &forward(&norm, &x), &file.get("output.0").unwrap());
    same(name, &forward(&norm, &y), &file.get("output.1").unwrap());
    norm.eval();
    same(name, &forward(&norm, &x), &file.get("output.2").unwrap());
    let after = state(&file, "after");
    assert_eq!(norm.state_dict().len(), after.len());
    for (part, tensor) in norm.state_dict().iter() {
        assert_eq!(tensor.dtype(), after.get(part).unwrap().dtype());
        same(&format!("{name}.{part}"), tensor, after.get(part).unwrap());
    }
}

#[test]
fn batch_norms_follow_their_batches() {
    batch_norm("batch_norm1d", BatchNorm1d::new(3), BatchNorm1d::forward);
    batch_norm("batch_norm2d", BatchNorm2d::new(3), BatchNorm2d::forward);
    batch_norm("batch_norm3d", BatchNorm3d::new(2), BatchNorm3d::forward);
}

#[test]
fn attention() {
    let file = golden("attention");
    let mut layer = MultiheadAttention::new(8, 2);
    layer.load_state_dict(&state(&file, "model")).unwrap();
    let [q, k] = ["input.0", "input.1"].map(|n| file.get(n).unwrap());
    let plain = Attention::default();
    same("attention", &layer.forward(&k, &k, &k, plain), &file.get("output.0").unwrap());
    same("causal", &layer.forward(&k, &k, &k, plain.causal(true)), &file.get("output.1").unwrap());
    same("cross", &layer.forward(&q, &k, &(&k * 2.0), plain), &file.get("output.2").unwrap());
    // Inputs projected together, in pairs, or each separately.
    let copy = &k * 1.0;
    same("two", &layer.forward(&copy, &k, &k, plain), &file.get("output.0").unwrap());
    // Weights are dropped in training only.
    let mut dropping = layer.clone().dropout(0.5);
    let other = dropping.forward(&k, &k, &k, plain).ne(layer.forward(&k, &k, &k, plain)).any(..);
    assert!(other.item::<bool>().unwrap());
    dropping.eval();
    same("evaluated", &dropping.forward(&k, &k, &k, plain), &file.get("output.0").unwrap());
    same("three", &layer.forward(&copy, &k, &(&k * 1.0), plain), &file.get("output.0").unwrap());
}

#[test]
fn recurrent() {
    for (name, deep) in [("lstm", false), ("lstm_deep", true)] {
        let file = golden(name);
        let mut lstm = Lstm::new(3, 4);
        if deep {
            lstm = lstm.layers(2).bidirectional();
        }
        lstm.load_state_dict(&state(&file, "model")).unwrap();
        let [x, h, c] = ["input.0", "input.1", "input.2"].map(|n| file.get(n).unwrap());
        let (y, [last, cell]) = lstm.forward(&x, None);
        same(name, &y, &file.get("output.0").unwrap());
        same(name, &last, &file.get("output.1").unwrap());
        same(name, &cell, &file.get("output.2").unwrap());
        same(name, &lstm.forward(&x, Some([&h, &c])).0, &file.get("output.3").unwrap());
    }
    for (name, deep) in [("gru", false), ("gru_deep", true)] {
        let file = golden(name);
        let gru = Gru::new(3, 4);
        let mut gru = if deep { gru.layers(2).bidirectional() } else { gru };
        gru.load_state_dict(&state(&file, "model")).unwrap();
        let [x, h] = ["input.0", "input.1"].map(|n| file.get(n).unwrap());
        let (y, [last]) = gru.forward(&x, None);
        same(name, &y, &file.get("output.0").unwrap());
        same(name, &last, &file.get("output.1").unwrap());
        same(name, &gru.forward(&x, Some([&h])).0, &file.get("output.2").unwrap());
    }
}

#[test]
fn sequential() {
    let mut net = Sequential::new()
        .push(Conv2d::new(1, 4, 3).padding(1))
        .push(BatchNorm2d::new(4))
        .push(Relu)
        .push(MaxPool2d::new(Pool::new(2)))
        .push(Dropout::new(0.5))
        .push(AdaptiveAvgPool2d::new(2))
        .push(Flatten)
        .push(Linear::new(16, 3));
    net.eval();
    check("sequential", net, Sequential::forward);
}
