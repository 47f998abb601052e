//! Training: optimizers step as torch's do, a step takes few launches and no new plan, and a saved run resumes to the
//! same bits.

use std::path::{Path, PathBuf};
use thalweg::{Gradients, Safetensors, counters};
use thalweg_nn::Checkpoint;
use thalweg_nn::optim::{
    Adagrad, Adam, AdamW, Ema, Lion, Optimizer, Plateau, RmsProp, Schedule, Sgd, clip_norm, clip_value,
};
use thalweg_nn::prelude::*;

fn golden() -> Safetensors {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    Safetensors::open(folder.join("optimizers.safetensors")).unwrap()
}

fn part(file: &Safetensors, name: &str) -> StateDict {
    let all: StateDict = file.names().map(|name| (name.to_string(), file.get(name).unwrap())).collect();
    all.below(name)
}

fn values(state: &StateDict) -> Vec<f64> {
    state.iter().flat_map(|(_, tensor)| tensor.to_f64_vec().unwrap()).collect()
}

/// Takes the five steps of `bench/golden_nn.py`.
fn five_steps<O: Optimizer>(name: &str, mut optimizer: O) {
    let file = golden();
    let mut model = Linear::new(4, 3);
    model.load_state_dict(&part(&file, "model")).unwrap();
    let [x, y] = ["input.0", "input.1"].map(|n| file.get(n).unwrap());
    for step in 0..5 {
        let loss = model.forward(&x).mse_loss(&y, Reduction::Mean) * 4.0;
        let mut gradients = loss.backward();
        clip_norm(&mut gradients, 3.0);
        optimizer.step(&mut model, &gradients);
        let wanted = part(&file, &format!("{name}.{step}"));
        for (parameter, theirs) in wanted.iter() {
            let state = model.state_dict();
            let (ours, theirs) = (state.get(parameter).unwrap().to_f64_vec().unwrap(), theirs.to_f64_vec().unwrap());
            for (a, b) in ours.iter().zip(&theirs) {
                assert!((a - b).abs() <= 3e-6 + 3e-6 * b.abs(), "{name}, step {step}, {parameter}: {a}, not {b}");
            }
        }
    }
}

#[test]
fn steps_are_those_of_torch() {
    five_steps("sgd", Sgd::new(0.1));
    five_steps("sgd_decay", Sgd::new(0.1).weight_decay(0.1));
    five_steps("sgd_momentum", Sgd::new(0.1).momentum(0.9).dampening(0.2).weight_decay(0.01));
    five_steps("sgd_nesterov", Sgd::new(0.1).momentum(0.8).nesterov(true));
    five_steps("adam", Adam::new(0.05).betas((0.8, 0.95)).weight_decay(0.1));
    five_steps("adamw", AdamW::new(0.05).eps(1e-4));
    five_steps("lion", Lion::new(0.02).weight_decay(0.1));
    five_steps("rmsprop", RmsProp::new(0.02).weight_decay(0.01));
    five_steps("rmsprop_centered", RmsProp::new(0.02).alpha(0.9).centered(true).momentum(0.5));
    five_steps("adagrad", Adagrad::new(0.1).rate_decay(0.1).weight_decay(0.01));
}

/// Network with 200 parameters in 100 layers.
fn deep() -> Vec<Linear> {
    (0..100).map(|i| Linear::new(8 + i % 3, 8 + (i + 1) % 3)).collect()
}

/// Computed gradients of all parameters of a module.
fn in_memory(model: &impl Module) -> Gradients {
    let products = model.parameters().into_iter().map(|p| (&p * p.detach().randn_like()).sum(..));
    let loss = products.reduce(|a, b| a + b).unwrap();
    let gradients = loss.backward();
    thalweg::synchronize().unwrap();
    gradients
}

/// One step over 200 parameters with computed gradients: launches and plans made.
fn launches<O: Optimizer>(mut optimizer: O) -> (u64, u64) {
    manual_seed(1);
    let mut model = deep();
    let mut last = counters();
    for turn in 0..5 {
        let gradients = in_memory(&model);
        let before = counters();
        optimizer.step(&mut model, &gradients);
        drop(gradients);
        thalweg::synchronize().unwrap();
        last = counters() - before;
        assert!(turn < 2 || last.plans_made == 0, "turn {turn} made {} plans", last.plans_made);
    }
    (last.kernels, last.plans_made)
}

#[test]
fn a_step_over_200_parameters_is_a_launch_or_two() {
    let device = Device::new_cpu(thalweg::CpuOptions { threads: 2, ..Default::default() });
    let before = thalweg::set_default_device(Some(device));
    let measuring = thalweg::set_measuring(None);
    let all = [
        ("sgd", launches(Sgd::new(0.1))),
        ("momentum", launches(Sgd::new(0.1).momentum(0.9))),
        ("adam", launches(Adam::new(0.1))),
        ("adamw", launches(AdamW::new(0.1))),
        ("lion", launches(Lion::new(0.1))),
        ("rmsprop", launches(RmsProp::new(0.1))),
        ("adagrad", launches(Adagrad::new(0.1))),
    ];
    thalweg::set_measuring(measuring);
    thalweg::set_default_device(before);
    println!("{all:?}");
    assert!(all.iter().all(|&(_, (launches, _))| launches <= 2), "{all:?}");
}

#[derive(Module, Clone)]
struct Net {
    first: Linear,
    norm: BatchNorm1d,
    drop: Dropout,
    last: Linear,
}

impl Net {
    fn new() -> Net {
        let (first, last) = (Linear::new(6, 16), Linear::new(16, 3));
        Net { first, norm: BatchNorm1d::new(16), drop: Dropout::new(0.2), last }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.last.forward(&self.drop.forward(&self.norm.forward(&self.first.forward(x)).relu()))
    }
}

/// The task: which of three numbers is the largest.
fn batch(generator: &mut Generator) -> (Tensor, Tensor) {
    let x = generator.randn([32, 6]);
    let y = x.narrow(1, 0, 3).argmax(1);
    (x, y)
}

fn train_step(net: &mut Net, optimizer: &mut impl Optimizer, step: u64) -> f32 {
    let (x, y) = batch(&mut Generator::seed(step));
    let loss = net.forward(&x).cross_entropy(&y, Reduction::Mean);
    let mut gradients = loss.backward();
    clip_norm(&mut gradients, 1.0);
    optimizer.step(net, &gradients);
    loss.item().unwrap()
}

#[test]
fn a_net_learns() {
    manual_seed(4);
    let (mut net, mut optimizer) = (Net::new(), AdamW::new(1e-2));
    let losses: Vec<f32> = (0..150).map(|step| train_step(&mut net, &mut optimizer, step)).collect();
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
    assert!(mean(&losses[140..]) < 0.5 * mean(&losses[..5]), "{losses:?}");
    net.eval();
    let (x, y) = batch(&mut Generator::seed(1000));
    let right = net.forward(&x).argmax(1).eq(&y).cast(DType::F32).mean(..).item::<f32>().unwrap();
    assert!(right > 0.8, "{right}");
}

#[test]
fn a_steady_step_plans_nothing_and_allocates_nothing_new() {
    let device = Device::new_cpu(thalweg::CpuOptions { threads: 2, ..Default::default() });
    let before = thalweg::set_default_device(Some(device));
    let measuring = thalweg::set_measuring(None);
    manual_seed(4);
    let (mut net, mut optimizer) = (Net::new(), Adam::new(1e-3));
    let x = Tensor::randn([32, 6]);
    let y = x.narrow(1, 0, 3).argmax(1);
    thalweg::synchronize().unwrap();
    let mut turns = Vec::new();
    for _ in 0..12 {
        let start = counters();
        let loss = net.forward(&x).cross_entropy(&y, Reduction::Mean);
        let gradients = loss.backward();
        optimizer.step(&mut net, &gradients);
        drop(gradients);
        let _: f32 = loss.item().unwrap();
        turns.push((counters() - start, device.memory().reserved));
    }
    thalweg::set_measuring(measuring);
    thalweg::set_default_device(before);
    let plans: Vec<u64> = turns.iter().map(|(c, _)| c.plans_made).collect();
    assert!(plans[4..].iter().all(|&p| p == 0), "plans made turn by turn: {plans:?}");
    let reserved: Vec<usize> = turns.iter().map(|(_, r)| *r).collect();
    assert!(reserved[6..].iter().all(|&r| r == reserved[6]), "bytes reserved turn by turn: {reserved:?}");
}

/// Folder of one test, removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("thalweg-training-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_saved_goes_on_to_the_bit() {
    let folder = Folder::new("resume");
    let file = folder.0.join("run.checkpoint");
    thalweg::set_reproducible(true);
    let mut finished = Vec::new();
    for (name, make) in [
        ("adam", Box::new(|| Box::new(Adam::new(1e-2))) as Box<dyn Fn() -> Box<Adam>>),
        ("warm", Box::new(|| Box::new(Adam::new(3e-2)))),
    ] {
        manual_seed(9);
        let (mut net, mut optimizer) = (Net::new(), *make());
        for step in 0..10 {
            if step == 4 {
                let mut saved = Checkpoint::new();
                saved.put("model", net.state_dict());
                saved.put("optimizer", optimizer.state_dict());
                saved.set("step", step);
                saved.save(&file).unwrap();
            }
            train_step(&mut net, &mut optimizer, step);
        }
        finished = values(&net.state_dict());
        // As in another process: only the file survives.
        manual_seed(12345);
        let (mut net, mut optimizer) = (Net::new(), *make());
        let resumed = Checkpoint::load(&file).unwrap();
        net.load_state_dict(&resumed.part("model")).unwrap();
        optimizer.load_state_dict(&resumed.part("optimizer")).unwrap();
        resumed.restore_random().unwrap();
        for step in resumed.get("step").unwrap()..10 {
            train_step(&mut net, &mut optimizer, step);
        }
        assert_eq!(values(&net.state_dict()), finished, "{name}");
    }
    thalweg::set_reproducible(false);
    assert!(!finished.is_empty());
}

#[test]
fn states_of_optimisers_that_do_not_fit_are_refused() {
    let mut model = Linear::new(2, 2);
    let mut adam = Adam::new(0.1);
    let gradients = in_memory(&model);
    adam.step(&mut model, &gradients);
    let state = adam.state_dict();
    let names: Vec<&str> = state.names().collect();
    assert_eq!(
        names,
        ["step.bias", "exp_avg.bias", "exp_avg_sq.bias", "step.weight", "exp_avg.weight", "exp_avg_sq.weight"]
    );
    let without = state.renamed(|name| (name != "exp_avg.bias").then(|| name.to_string()));
    let message = Adam::new(0.1).load_state_dict(&without).unwrap_err().to_string();
    assert!(message.contains("has no exp_avg.bias"), "{message}");
    let message = Sgd::new(0.1).momentum(0.9).load_state_dict(&state).unwrap_err().to_string();
    assert!(message.contains("has no momentum_buffer.bias"), "{message}");
    // Without momentum there is no state to save or load.
    let mut plain = Sgd::new(0.1);
    let gradients = in_memory(&model);
    plain.step(&mut model, &gradients);
    let kept = plain.state_dict();
    assert_eq!(kept.names().collect::<Vec<_>>(), ["step.bias", "step.weight"]);
    Sgd::new(0.1).load_state_dict(&kept).unwrap();
    let message = Lion::new(0.1).load_state_dict(&state).unwrap_err().to_string();
    assert!(message.contains("exp_avg_sq.bias of the state is not of this optimiser"), "{message}");
}

#[test]
fn tied_weights_stay_tied() {
    #[derive(Module, Clone)]
    struct Tied {
        table: Embedding,
        head: Linear,
    }
    let table = Embedding::new(5, 3);
    let head = Linear { weight: table.weight.clone(), bias: None };
    let mut model = Tied { table, head };
    let mut optimizer = Sgd::new(0.5).momentum(0.9);
    let index = Tensor::new([1i64, 2]);
    for _ in 0..3 {
        let before = model.table.weight.to_vec::<f32>().unwrap();
        let loss = model.head.forward(&model.table.forward(&index)).cross_entropy(&index, Reduction::Mean);
        let gradients = loss.backward();
        let gradient = gradients[&model.table.weight].clone();
        optimizer.step(&mut model, &gradients);
        let weights = [&model.table.weight, &model.head.weight].map(|w| w.to_vec::<f32>().unwrap());
        assert_eq!(weights[0], weights[1]);
        assert_ne!(weights[0], before);
        // One shared leaf: its gradient sums both uses.
        assert_eq!(gradient.dims(), [5, 3]);
    }
    // One state entry for both fields.
    assert_eq!(optimizer.state_dict().len(), 2);
}

#[test]
fn what_is_frozen_stays() {
    let mut net = Net::new();
    net.first.freeze();
    let before = net.first.weight.to_vec::<f32>().unwrap();
    let mut optimizer = Sgd::new(0.1);
    train_step(&mut net, &mut optimizer, 0);
    assert_eq!(net.first.weight.to_vec::<f32>().unwrap(), before);
    net.first.unfreeze();
    train_step(&mut net, &mut optimizer, 1);
    assert_ne!(net.first.weight.to_vec::<f32>().unwrap(), before);
    // Buffers never become parameters.
    net.unfreeze();
    assert!(!net.norm.running_mean.get().is_tracked());
    assert!(net.parameters().iter().all(Tensor::is_tracked));
}

#[test]
fn rates_by_name() {
    let ones = || Linear { weight: Tensor::ones([1, 2]).tracked(), bias: Some(Tensor::ones([1]).tracked()) };
    let gradients = |model: &Linear| (model.weight.sum(..) + model.bias.as_ref().unwrap().sum(..)).backward();
    let mut model = ones();
    let mut optimizer = Sgd::new(0.5).factors(|name| if name == "bias" { 0.0 } else { 2.0 });
    let of = gradients(&model);
    optimizer.step(&mut model, &of);
    assert_eq!(values(&model.state_dict()), [0.0, 0.0, 1.0]);
    let mut model = ones();
    let mut optimizer = Sgd::new(0.5).weight_decay(1.0).decays(|name| name != "bias");
    let of = gradients(&model);
    optimizer.step(&mut model, &of);
    assert_eq!(values(&model.state_dict()), [0.0, 0.0, 0.5]);
}

#[test]
fn half_precision_with_masters_in_f32() {
    manual_seed(4);
    let (mut net, mut optimizer) = (Net::new(), AdamW::new(1e-2));
    let mut losses = Vec::new();
    for step in 0..60 {
        let (x, y) = batch(&mut Generator::seed(step));
        let half = net.map(|t| if t.dtype() == DType::F32 { t.cast(DType::BF16) } else { t.clone() });
        let loss = half.forward(&x.cast(DType::BF16)).cast(DType::F32).cross_entropy(&y, Reduction::Mean);
        let gradients = loss.backward();
        assert!(gradients.iter().all(|g| g.dtype() == DType::F32));
        optimizer.step(&mut net, &gradients);
        losses.push(loss.item::<f32>().unwrap());
    }
    assert!(losses[50..].iter().sum::<f32>() < 0.75 * losses[..10].iter().sum::<f32>(), "{losses:?}");
}

#[test]
fn gradients_accumulate_and_are_clipped() {
    let model = Linear::new(3, 2);
    let (x, y) = (Tensor::randn([4, 3]), Tensor::randn([4, 2]));
    let loss = |x: &Tensor, y: &Tensor| model.forward(x).mse_loss(y, Reduction::Mean);
    let whole = loss(&x, &y).backward();
    let mut parts = Gradients::default();
    for at in [0, 2] {
        parts.add(&(loss(&x.narrow(0, at, 2), &y.narrow(0, at, 2)) * 0.5).backward());
    }
    assert!(parts[&model.weight].allclose(&whole[&model.weight], 1e-5, 1e-6).unwrap());
    let mut clipped = whole.clone();
    clip_value(&mut clipped, 0.01);
    assert!(clipped.iter().all(|g| g.abs().amax(..).item::<f32>().unwrap() <= 0.01));
    let mut small = whole.clone();
    let norm = clip_norm(&mut small, 1e6).item::<f32>().unwrap();
    assert!(norm > 0.0 && small[&model.weight].allclose(&whole[&model.weight], 0.0, 0.0).unwrap());
    assert_eq!(clip_norm(&mut Gradients::default(), 1.0).item::<f32>().unwrap(), 0.0);
}

#[test]
fn an_average_follows() {
    let mut model = BatchNorm1d::new(2);
    let mut average = Ema::new(&model, 0.75);
    model.weight = Some(Tensor::full([2], 5.0).tracked());
    model.running_mean.set(Tensor::full([2], 3.0));
    average.update(&model);
    let own = average.model();
    assert_eq!(own.weight.as_ref().unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
    assert_eq!(own.running_mean.get().to_vec::<f32>().unwrap(), [3.0, 3.0]);
    assert!(!own.mode.is_training() && !own.weight.as_ref().unwrap().is_tracked());
}

#[test]
fn rates_over_time() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a}, not {b}");
    let cosine = Schedule::cosine(1.0, 0.2, 100);
    // CosineAnnealingLR: end + (start - end)·(1 + cos(π·step/steps))/2.
    for step in [0, 1, 30, 50, 99, 100, 5000] {
        let share = (step as f64 / 100.0).min(1.0);
        near(cosine.at(step), 0.2 + 0.8 * (1.0 + (std::f64::consts::PI * share).cos()) / 2.0);
    }
    near(Schedule::linear(2.0, 1.0, 10).at(5), 1.5);
    near(Schedule::polynomial(1.0, 0.0, 10, 2.0).at(5), 0.25);
    near(Schedule::exponential(1.0, 0.9).at(3), 0.729);
    near(Schedule::steps(1.0, 0.1, 30).at(89), 0.01);
    near(Schedule::inverse_root(1.0, 100).at(400), 0.5);
    let warm = Schedule::constant(0.4).warmup(4);
    [0.1, 0.2, 0.3, 0.4, 0.4].iter().enumerate().for_each(|(step, &rate)| near(warm.at(step as u64), rate));
    let mut plateau = Plateau::new(1.0).factor(0.1).patience(2).least(0.05);
    let rates = [1.0; 10].map(|loss| plateau.next(loss));
    assert_eq!(rates.map(|r| (r * 100.0).round() as i64), [100, 100, 100, 10, 10, 10, 5, 5, 5, 5]);
}
