//! Modules: names, state, modes and initialization.

use thalweg_nn::prelude::*;
use thalweg_nn::{Kind, NamePath, Rotary, Slot, init, sinusoidal};

#[derive(Module, Clone)]
struct Block {
    attn: MultiheadAttention,
    norms: [LayerNorm; 2],
    drop: Dropout,
}

#[derive(Module, Clone)]
enum Norm {
    Layer(LayerNorm),
    Batch(BatchNorm1d),
    Two { first: LayerNorm, r#type: RmsNorm },
    Nothing,
}

#[derive(Module, Clone)]
struct Pair(Linear, Option<Box<Linear>>);

#[derive(Module, Clone)]
struct Net<H: Clone, const N: usize>
where
    H: std::fmt::Debug,
{
    wte: Embedding,
    blocks: Vec<Block>,
    norm: Norm,
    #[module(name = "lm_head")]
    head: H,
    #[module(flatten)]
    pair: Pair,
    sizes: (Norm, usize),
    #[module(skip)]
    #[allow(dead_code, reason = "the macro skips it, and nobody reads it")]
    words: std::collections::BTreeMap<String, [u8; N]>,
}

#[derive(Module, Clone, Debug)]
struct Head {
    scale: Tensor,
    mask: Buffer,
    table: Buffer,
}

fn block() -> Block {
    let norms = std::array::from_fn(|_| LayerNorm::new([4]));
    Block { attn: MultiheadAttention::new(4, 2), norms, drop: Dropout::new(0.5) }
}

fn net() -> Net<Head, 3> {
    let (mask, table) = (Buffer::new(Tensor::ones([2])), Buffer::constant(Tensor::ones([3])));
    Net {
        wte: Embedding::new(5, 4),
        blocks: vec![block(), block()],
        norm: Norm::Batch(BatchNorm1d::new(4)),
        head: Head { scale: Tensor::ones([4]), mask, table },
        pair: Pair(Linear::new(4, 2), None),
        sizes: (Norm::Two { first: LayerNorm::new([2]), r#type: RmsNorm::new([2]) }, 3),
        words: Default::default(),
    }
}

#[test]
fn names_are_paths_of_fields() {
    let block = |i: usize| {
        let parts = [
            "attn.in_proj_weight",
            "attn.in_proj_bias",
            "attn.out_proj.weight",
            "attn.out_proj.bias",
            "norms.0.weight",
            "norms.0.bias",
            "norms.1.weight",
            "norms.1.bias",
        ];
        parts.map(|part| format!("blocks.{i}.{part}"))
    };
    let mut wanted = vec!["wte.weight".to_string()];
    wanted.extend(block(0));
    wanted.extend(block(1));
    let rest = [
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
        "lm_head.scale",
        "lm_head.mask",
        "0.weight",
        "0.bias",
        "sizes.0.first.weight",
        "sizes.0.first.bias",
        "sizes.0.type.weight",
    ];
    wanted.extend(rest.map(String::from));
    let net = net();
    assert_eq!(net.state_dict().names().collect::<Vec<_>>(), wanted);
    let buffers: Vec<String> = net.named_buffers().into_iter().map(|(name, _)| name).collect();
    assert_eq!(buffers, [&wanted[19..22], &wanted[23..24]].concat());
    assert_eq!(net.parameters().len(), wanted.len() - 4);
    // Both visitors meet the same tensors in the same order.
    let (mut looked, mut changed) = (Vec::new(), Vec::new());
    net.visit(&mut NamePath::root(), &mut |name, kind, _| looked.push((name.to_string(), kind)));
    net.clone().visit_mut(&mut NamePath::root(), &mut |name, slot| {
        if let Slot::Tensor(kind, _) = slot {
            changed.push((name.to_string(), kind));
        }
    });
    assert_eq!(looked, changed);
    assert_eq!(looked.iter().filter(|(_, kind)| *kind == Kind::Constant).count(), 1);
}

#[test]
fn an_enum_is_the_module_that_it_is() {
    let names = |norm: Norm| norm.state_dict().names().map(String::from).collect::<Vec<_>>();
    assert_eq!(names(Norm::Layer(LayerNorm::new([2]))), ["weight", "bias"]);
    assert_eq!(names(Norm::Nothing), [""; 0]);
}

#[test]
fn training_reaches_every_mode() {
    let mut net = net();
    let modes = |net: &mut Net<Head, 3>| {
        let mut modes = Vec::new();
        net.visit_mut(&mut NamePath::root(), &mut |name, slot| {
            if let Slot::Mode(mode) = slot {
                modes.push((name.to_string(), mode.is_training()));
            }
        });
        modes
    };
    let names =
        ["blocks.0.attn", "blocks.0.drop", "blocks.1.attn", "blocks.1.drop", "norm"].map(|n| format!("{n}.mode"));
    assert_eq!(modes(&mut net), names.clone().map(|n| (n, true)));
    net.eval();
    assert_eq!(modes(&mut net), names.clone().map(|n| (n, false)));
    let x = Tensor::randn([3]);
    assert_eq!(net.blocks[0].drop.forward(&x).to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    net.train();
    assert_eq!(modes(&mut net), names.map(|n| (n, true)));
}

#[test]
fn a_clone_is_a_snapshot() {
    let a = BatchNorm1d::new(2);
    let b = a.clone();
    let _ = a.forward(&Tensor::randn([4, 2]));
    assert_eq!(b.num_batches_tracked.get().item::<i64>().unwrap(), 0);
    assert_eq!(a.num_batches_tracked.get().item::<i64>().unwrap(), 1);
    assert_ne!(a.running_mean.get().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let net = Sequential::new().push(a).push(Dropout::new(0.5));
    assert_eq!(net.clone().state_dict().len(), 5);
}

#[test]
fn map_converts_what_there_is() {
    let half = net().map(|t| if t.dtype().is_float() { t.cast(DType::BF16) } else { t.clone() });
    let dtypes: Vec<DType> = half.state_dict().iter().map(|(_, t)| t.dtype()).collect();
    assert_eq!(dtypes.iter().filter(|&&d| d == DType::BF16).count(), dtypes.len() - 1);
    assert_eq!(half.head.table.get().dtype(), DType::BF16);
}

#[test]
fn states_are_loaded_whole_or_not_at_all() {
    let mut b = Linear::new(3, 2);
    let before = b.weight.to_vec::<f32>().unwrap();
    let state = |entries: Vec<(&str, Tensor)>| -> StateDict {
        entries.into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect()
    };
    let wrong =
        state(vec![("weight", Tensor::zeros([3, 2])), ("bias", Tensor::zeros([2])), ("extra", Tensor::zeros([1]))]);
    let message = b.load_state_dict(&wrong).unwrap_err().to_string();
    assert!(message.contains("weight has shape [3, 2], not [2, 3]"), "{message}");
    assert!(message.contains("extra is not of this module"), "{message}");
    let message = b.load_state_dict(&state(vec![("weight", Tensor::zeros([2, 3]))])).unwrap_err().to_string();
    assert!(message.contains("bias [2] is missing"), "{message}");
    let ints = state(vec![("weight", Tensor::zeros_with([2, 3], DType::I64)), ("bias", Tensor::zeros([2]))]);
    assert!(b.load_state_dict(&ints).unwrap_err().to_string().contains("weight is i64, not f32"));
    assert_eq!(b.weight.to_vec::<f32>().unwrap(), before);
    // A state of another float dtype is converted; missing names are allowed by `load_matching`.
    let ones = state(vec![("weight", Tensor::ones_with([2, 3], DType::BF16)), ("more", Tensor::zeros([1]))]);
    let report = b.load_matching(&ones).unwrap();
    assert_eq!((report.missing, report.unexpected), (vec!["bias".to_string()], vec!["more".to_string()]));
    assert_eq!((b.weight.dtype(), b.weight.to_vec::<f32>().unwrap()), (DType::F32, vec![1.0; 6]));
    let many: StateDict = (0..40).map(|i| (format!("x{i}"), Tensor::zeros([1]))).collect();
    assert!(b.load_state_dict(&many).unwrap_err().to_string().ends_with("… and 30 more"));
}

#[test]
fn weights_that_are_replaced_are_never_drawn() {
    let mut big = Linear::new(1000, 1000);
    let state: StateDict = [("weight", Tensor::zeros([1000, 1000])), ("bias", Tensor::zeros([1000]))]
        .map(|(name, tensor)| (name.to_string(), tensor))
        .into_iter()
        .collect();
    thalweg::synchronize().unwrap();
    let before = thalweg::counters();
    let mut drawn = Linear::new(1000, 1000);
    drawn.load_state_dict(&state).unwrap();
    thalweg::synchronize().unwrap();
    assert_eq!((thalweg::counters() - before).bytes_written, 0);
    big.load_state_dict(&state).unwrap();
}

#[test]
fn weights_start_as_they_should() {
    let of = |x: Tensor| {
        let x = x.to_f64_vec().unwrap();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let most = x.iter().fold(0f64, |m, v| m.max(v.abs()));
        (mean, var.sqrt(), most)
    };
    manual_seed(3);
    let shape = [200, 300];
    let near = |a: f64, b: f64| (a - b).abs() < 0.02 * b;
    for (name, x, deviation, most) in [
        ("linear", Linear::new(300, 200).weight, (1.0f64 / 900.0).sqrt(), (1.0f64 / 300.0).sqrt()),
        ("xavier", init::xavier_uniform(shape, init::Gain::Linear), (2.0f64 / 500.0).sqrt(), (6.0f64 / 500.0).sqrt()),
        ("kaiming", init::kaiming_uniform(shape, init::Gain::Relu), (2.0f64 / 300.0).sqrt(), (6.0f64 / 300.0).sqrt()),
        // Variance of a normal truncated at a: 1 - 2·a·φ(a)/(2Φ(a) - 1); for a = 2 it is 0.7737.
        ("truncated", init::truncated_normal(shape, 0.0, 0.02, 2.0), 0.02 * 0.7737f64.sqrt(), 0.04),
    ] {
        let (mean, found, largest) = of(x);
        assert!(mean.abs() < deviation / 50.0, "{name}: mean {mean}");
        assert!(near(found, deviation), "{name}: deviation {found}, not {deviation}");
        assert!(largest <= most * 1.000_001 && near(largest, most), "{name}: largest {largest}, bound {most}");
    }
    let (mean, found, _) = of(init::kaiming_normal(shape, init::Gain::LeakyRelu(0.2)));
    assert!(mean.abs() < 0.002 && near(found, (2.0f64 / 1.04 / 300.0).sqrt()));
    // Truncated far out, it is a normal distribution: 4.6 % lie beyond two deviations.
    let wide = init::truncated_normal(shape, 0.0, 1.0, 6.0).to_f64_vec().unwrap();
    let beyond = wide.iter().filter(|v| v.abs() > 2.0).count() as f64 / wide.len() as f64;
    assert!((beyond - 0.0455).abs() < 0.003, "{beyond}");
    assert!(of(Conv2d::new(4, 8, 3).bias.unwrap()).2 <= 1.0 / 6.0);
}

#[test]
fn positions() {
    // Position 3, elements 2i and 2i + 1: the sine and cosine of 3·10000^(-2i/4).
    let table = sinusoidal(5, 4, 0).to_f64_vec().unwrap();
    for (angle, b) in [(3.0f64, 12), (0.03, 14)] {
        assert!((table[b] - angle.sin()).abs() < 1e-6 && (table[b + 1] - angle.cos()).abs() < 1e-6);
    }
    assert_eq!(
        sinusoidal(2, 4, 3).to_vec::<f32>().unwrap(),
        sinusoidal(5, 4, 0).narrow(0, 3, 2).to_vec::<f32>().unwrap()
    );
    // Dot products of rotated vectors depend on relative positions alone, and a rotation keeps lengths.
    manual_seed(5);
    let (q, k) = (Tensor::randn([1, 8]), Tensor::randn([1, 8]));
    for rotary in [Rotary::new(8), Rotary::new(8).interleaved(), Rotary::new(8).base(500.0)] {
        let product =
            |m: usize, n: usize| (rotary.forward(&q, m) * rotary.forward(&k, n)).sum(..).item::<f32>().unwrap() as f64;
        assert!((product(5, 2) - product(13, 10)).abs() < 1e-4);
        assert!((product(5, 2) - product(6, 2)).abs() > 1e-3);
        let lengths = [rotary.forward(&q, 9), q.clone()].map(|x| x.norm(..).item::<f32>().unwrap());
        assert!((lengths[0] - lengths[1]).abs() < 1e-5);
    }
    // By hand: elements i and i + 2 of four, the first pair by 1 radian.
    let x = Tensor::new([[1.0f32, 0.0, 0.0, 0.0]]);
    let y = Rotary::new(4).forward(&x, 1).to_f64_vec().unwrap();
    assert!((y[0] - 1f64.cos()).abs() < 1e-6 && (y[2] - 1f64.sin()).abs() < 1e-6 && y[1] == 0.0 && y[3] == 0.0);
}

/// A checkpoint calls its function again in the backward pass; buffers updated by the first call are not updated twice.
#[test]
fn a_checkpoint_moves_state_once() {
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 5.0, 8.0, 13.0], [3, 2]);
    let plain = BatchNorm1d::new(2);
    let _ = plain.forward(&x);
    let norm = std::sync::Arc::new(BatchNorm1d::new(2));
    let block = {
        let norm = norm.clone();
        move |x: Tensor| norm.forward(&x).square()
    };
    let x = x.tracked();
    let gradients = thalweg::checkpoint(block, &x).sum(..).backward();
    assert_eq!(gradients[&x].dims(), [3, 2]);
    let state = |norm: &BatchNorm1d| {
        let all = norm.named_buffers().into_iter();
        all.map(|(name, tensor)| (name, tensor.to_f64_vec().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(state(&norm), state(&plain));
    assert_eq!(norm.num_batches_tracked.get().item::<i64>().unwrap(), 1);
}

/// Two names of one parameter, as of a language model whose head is its table.
#[derive(Module, Clone)]
struct Tied {
    table: Embedding,
    head: Linear,
}

impl Tied {
    fn new() -> Tied {
        let table = Embedding::new(5, 3);
        let head = Linear { weight: table.weight.clone(), bias: None };
        Tied { table, head }
    }

    /// Takes a step, after which both weights have the same new values.
    fn check_one_parameter(&mut self) {
        use thalweg_nn::optim::{Optimizer, Sgd};
        let index = Tensor::new([1i64, 2]);
        let before = self.table.weight.to_vec::<f32>().unwrap();
        let loss = self.head.forward(&self.table.forward(&index)).cross_entropy(&index, Reduction::Mean);
        Sgd::new(0.5).step(self, &loss.backward());
        let [table, head] = [&self.table.weight, &self.head.weight].map(|w| w.to_vec::<f32>().unwrap());
        assert_eq!(table, head);
        assert_ne!(table, before);
    }
}

#[test]
fn shared_weights_stay_shared() {
    let mut model = Tied::new();
    model.load_state_dict(&Tied::new().state_dict()).unwrap();
    model.check_one_parameter();
    // A file has the values twice, or once under either name.
    let copies: StateDict = Tied::new().state_dict().into_iter().map(|(name, t)| (name, t + 0.0)).collect();
    let twice: StateDict = ["table.weight", "head.weight"]
        .map(|name| (name.to_string(), Tensor::from_slice(&[0.5f32; 15], [5, 3])))
        .into_iter()
        .collect();
    model.load_state_dict(&twice).unwrap();
    model.check_one_parameter();
    for gone in ["table.weight", "head.weight"] {
        let once = twice.renamed(|name| (name != gone).then(|| name.to_string()));
        model.load_state_dict(&once).unwrap();
        assert_eq!(model.table.weight.to_vec::<f32>().unwrap(), [0.5; 15]);
        model.check_one_parameter();
        assert!(model.load_matching(&once).unwrap().is_complete());
        model.check_one_parameter();
    }
    // Values that differ are no state of one parameter.
    let mut different = twice.clone();
    different.insert("head.weight", copies.get("head.weight").unwrap() + 1.0);
    let message = model.load_state_dict(&different).unwrap_err().to_string();
    assert!(message.contains("table.weight and head.weight are one parameter"), "{message}");
    different.insert("more", Tensor::zeros([1]));
    let message = model.load_matching(&different).unwrap_err().to_string();
    assert!(message.contains("are one parameter") && message.contains("more is not of this module"), "{message}");
    model.check_one_parameter();

    model.to_device(Device::cpu()).unwrap();
    model.check_one_parameter();
    model.freeze();
    model.load_state_dict(&twice).unwrap();
    model.to_device(Device::cpu()).unwrap();
    model.unfreeze();
    model.check_one_parameter();
    // Frozen by one of its names.
    assert_eq!(model.freeze_matching(|name| name.starts_with("head.")), 1);
    assert!(model.parameters().iter().all(|t| !t.is_tracked()));
    assert_eq!(model.unfreeze_matching(|name| name.starts_with("table.")), 1);
    model.check_one_parameter();
    // An average of it holds one tensor, too.
    let mut average = thalweg_nn::optim::Ema::new(&model, 0.5);
    for _ in 0..3 {
        average.update(&model);
        assert_eq!(average.model().table.weight.id(), average.model().head.weight.id());
    }
    let mut wide = model.map(|t| t.detach().cast(DType::F32).tracked());
    wide.check_one_parameter();
}

#[test]
fn equal_weights_are_not_shared() {
    // Two norms start with equal values, but in tensors of their own.
    let mut net = Sequential::new().push(LayerNorm::new([3])).push(LayerNorm::new([3]));
    net.freeze();
    net.unfreeze();
    let ids: std::collections::BTreeSet<_> = net.parameters().iter().map(Tensor::id).collect();
    assert_eq!(ids.len(), 4);
    // A buffer of a clone goes its own way.
    let norm = BatchNorm1d::new(2);
    let mut pair = [norm.clone(), BatchNorm1d::new(2)];
    pair[1].running_mean = norm.running_mean.clone();
    let mut state = pair.state_dict();
    state.insert("1.running_mean", Tensor::new([1.0f32, 2.0]));
    pair.load_state_dict(&state).unwrap();
    assert_eq!(pair[0].running_mean.get().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(pair[1].running_mean.get().to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn reports_name_what_was_not_loaded() {
    let mut net = Sequential::new().push(Linear::new(3, 2)).push(Linear::new(2, 2));
    let before = net.parameters()[0].to_vec::<f32>().unwrap();
    let state: StateDict = [
        ("0.weight", Tensor::zeros([3, 2])),
        ("0.bias", Tensor::zeros_with([2], DType::I64)),
        ("1.weight", Tensor::ones([2, 2])),
        ("2.weight", Tensor::ones([2, 2])),
    ]
    .map(|(name, tensor)| (name.to_string(), tensor))
    .into_iter()
    .collect();
    let report = net.load_matching(&state).unwrap();
    assert_eq!(report.mismatched, ["0.weight", "0.bias"]);
    assert_eq!(report.missing, ["1.bias"]);
    assert_eq!(report.unexpected, ["2.weight"]);
    assert!(!report.is_complete());
    let text = report.to_string();
    assert!(text.starts_with("  0.weight"), "{text}");
    for line in ["0.weight has shape [3, 2], not [2, 3]", "0.bias is i64, not f32", "1.bias [2] is missing"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(net.parameters()[0].to_vec::<f32>().unwrap(), before);
    assert_eq!(net.parameters()[2].to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn adapters_change_nothing_at_first_and_merge() {
    use thalweg_nn::LoraLinear;
    use thalweg_nn::optim::{Optimizer, Sgd};
    manual_seed(9);
    let layer = Linear::new(4, 3);
    let mut adapted = LoraLinear::new(layer.clone(), 2, 6.0);
    assert_eq!(adapted.scale, 3.0);
    assert_eq!(adapted.state_dict().names().collect::<Vec<_>>(), ["weight", "bias", "lora_A", "lora_B"]);
    let x = Tensor::randn([5, 4]);
    let before = layer.forward(&x).to_vec::<f32>().unwrap();
    assert_eq!(adapted.forward(&x).to_vec::<f32>().unwrap(), before);
    let mut optimizer = Sgd::new(0.1);
    for _ in 0..2 {
        let loss = adapted.forward(&x).square().mean(..);
        optimizer.step(&mut adapted, &loss.backward());
    }
    assert_eq!(adapted.base.weight.to_vec::<f32>().unwrap(), layer.weight.to_vec::<f32>().unwrap());
    assert_ne!(adapted.forward(&x).to_vec::<f32>().unwrap(), before);
    assert!(adapted.merged().forward(&x).allclose(adapted.forward(&x), 1e-5, 1e-6).unwrap());
    assert!(adapted.merged().parameters().iter().all(|t| !t.is_tracked()));
}

#[test]
fn time_may_be_first() {
    manual_seed(4);
    let x = Tensor::randn([2, 5, 3]);
    let gru = Gru::new(3, 4).layers(2).bidirectional();
    let (y, [h]) = gru.forward(&x, None);
    let (time_y, [time_h]) = gru.clone().batch_first(false).forward(&x.transpose(0, 1), Some([&h]));
    let (again, [last]) = gru.forward(&x, Some([&h]));
    assert_eq!(time_y.dims(), [5, 2, 8]);
    assert!(time_y.transpose(0, 1).allclose(&again, 0.0, 1e-6).unwrap());
    assert!(time_h.allclose(&last, 0.0, 1e-6).unwrap());
    assert!(!y.allclose(&again, 0.0, 1e-6).unwrap());
    let lstm = Lstm::new(3, 4);
    let (y, [_, c]) = lstm.forward(&x, None);
    let (time_y, [_, time_c]) = lstm.batch_first(false).forward(&x.transpose(0, 1), None);
    assert!(time_y.transpose(0, 1).allclose(&y, 0.0, 1e-6).unwrap());
    assert!(time_c.allclose(&c, 0.0, 1e-6).unwrap());
}

#[test]
fn activations_are_layers() {
    use thalweg_nn::{Hardswish, Hardtanh, Relu6, Softmax};
    let x = Tensor::new([[-4.0f32, 1.0], [7.0, 3.0]]);
    let of = |net: Sequential| net.forward(&x).to_vec::<f32>().unwrap();
    assert_eq!(of(Sequential::new().push(Relu6)), [0.0, 1.0, 6.0, 3.0]);
    assert_eq!(of(Sequential::new().push(Hardtanh::default())), [-1.0, 1.0, 1.0, 1.0]);
    assert_eq!(of(Sequential::new().push(Hardtanh::new(-2.0, 4.0))), [-2.0, 1.0, 4.0, 3.0]);
    let swish = of(Sequential::new().push(Hardswish));
    assert!(swish.iter().zip([0.0, 4.0 / 6.0, 7.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-6), "{swish:?}");
    let softmax = Sequential::new().push(Softmax::new(-1)).forward(&x);
    assert!(softmax.allclose(x.softmax(1), 0.0, 1e-7).unwrap());
}
