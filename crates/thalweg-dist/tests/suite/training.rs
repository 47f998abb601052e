//! Training on several ranks is training on one: the same losses, and the same bits on all ranks.

use crate::common::{ENGINES, Engine, options, run};
use thalweg_dist::{DataParallel, ReduceOp, ShardedOptimizer, World};
use thalweg_nn::data::{DataLoader, Rows};
use thalweg_nn::optim::{AdamW, Optimizer, Sgd};
use thalweg_nn::prelude::*;

#[derive(Module, Clone)]
struct Mlp {
    hidden: Vec<Linear>,
    norm: LayerNorm,
    head: Linear,
    /// The weight of `hidden.1`, too.
    tied: Tensor,
}

impl Mlp {
    fn new() -> Mlp {
        let hidden = vec![Linear::new(5, 16), Linear::new(16, 16)];
        Mlp { tied: hidden[1].weight.clone(), hidden, norm: LayerNorm::new([16]), head: Linear::new(16, 1) }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.hidden.iter().fold(x.clone(), |x, layer| layer.forward(&x).tanh());
        self.head.forward(&self.norm.forward(&x.matmul(&self.tied)))
    }
}

/// Data of 50 samples: in batches of 16, the last one has two.
fn data() -> [Tensor; 2] {
    let x = Tensor::new((0..250).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>()).reshape([50, 5]);
    let y = x.square().sum_keepdim(1).sin();
    [x, y].map(|t| t.deep_copy().unwrap())
}

/// Losses over all ranks, and the bits of all parameters at the end.
type Run = (Vec<f32>, Vec<u32>);

fn bits(model: &impl Module) -> Result<Vec<u32>, Error> {
    let mut bits = vec![];
    for parameter in model.parameters() {
        bits.extend(parameter.to_vec::<f32>()?.into_iter().map(f32::to_bits));
    }
    Ok(bits)
}

fn train(world: &World, bucket: usize, epochs: u64) -> Result<Run, Error> {
    // Different initial values: those of rank 0 count.
    manual_seed(3 + world.rank() as u64);
    let mut model = Mlp::new();
    let parallel = DataParallel::new(world).bucket_bytes(bucket);
    parallel.broadcast(&mut model)?;
    assert_eq!(model.tied.id(), model.hidden[1].weight.id());
    let mut optimizer = AdamW::new(1e-2);
    let loader = DataLoader::new(Rows::new(data()), 16).shuffled(11).split(world.size(), world.rank());
    let mut losses = vec![];
    for batch in (0..epochs).flat_map(|epoch| loader.epoch(epoch)) {
        let [x, y] = batch.unwrap();
        let samples = x.dims()[0];
        let loss = model.forward(&x).mse_loss(&y, Reduction::Mean);
        let mut gradients = loss.backward();
        parallel.average_of(&model, &mut gradients, samples);
        parallel.clip_norm(&mut gradients, 0.5);
        parallel.step(&mut optimizer, &mut model, &gradients);
        let sum = if samples == 0 { 0.0 } else { loss.item::<f32>()? * samples as f32 };
        let sums = world.all_reduce(&Tensor::new([sum, samples as f32]), ReduceOp::Sum).to_vec::<f32>()?;
        losses.push(sums[0] / sums[1]);
    }
    Ok((losses, bits(&model)?))
}

fn assert_close(losses: &[f32], alone: &[f32]) {
    assert_eq!(losses.len(), alone.len());
    for (a, b) in losses.iter().zip(alone) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{losses:?}, not {alone:?}");
    }
}

#[test]
fn several_ranks_have_the_losses_of_one_and_equal_bits() {
    let alone = options().local(1, |world| train(&world, 1 << 20, 3)).unwrap().remove(0);
    assert_eq!(alone.0.len(), 12);
    for size in [2, 4] {
        let ranks = options().local(size, |world| train(&world, 1 << 20, 3)).unwrap();
        assert_close(&ranks[0].0, &alone.0);
        assert!(ranks.iter().all(|rank| *rank == ranks[0]));
        let tcp = run(Engine::Tcp, size, |world| train(&world, 100, 3)).unwrap();
        assert_close(&tcp[0].0, &alone.0);
        assert!(tcp.iter().all(|rank| *rank == tcp[0]));
    }
}

#[test]
fn models_stay_equal_to_the_bit_while_plans_change() {
    let ranks = options().local(2, |world| {
        // Ranks get searched and measured plans at different steps.
        thalweg::set_tiers(true);
        train(&world, 1 << 20, 30)
    });
    let ranks = ranks.unwrap();
    assert!(ranks[0] == ranks[1]);
}

#[test]
fn the_size_of_buckets_changes_no_mean() {
    run(Engine::Threads, 3, |world| {
        let weights: Vec<Tensor> = (1..6).map(|i| Tensor::ones([i, 7]).tracked()).collect();
        let own = |i: usize| {
            let element = |at: usize| (((at * 31 + i) * (world.rank() + 3)) as f32 * 0.37).sin();
            Tensor::new((0..7 * (i + 1)).map(element).collect::<Vec<f32>>()).reshape([i + 1, 7])
        };
        let averaged = |bytes: usize| {
            let mut gradients = thalweg::Gradients::default();
            for (i, weight) in weights.iter().enumerate() {
                gradients.set(weight, own(i));
            }
            DataParallel::new(&world).bucket_bytes(bytes).average(&weights, &mut gradients);
            bits(&weights.iter().map(|w| gradients[w].clone()).collect::<Vec<Tensor>>())
        };
        let all = averaged(1 << 20)?;
        for bytes in [0, 100, 300] {
            assert_eq!(averaged(bytes)?, all);
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_divided_optimizer_takes_the_step_of_a_whole_one() {
    for engine in ENGINES {
        let ranks = run(engine, 3, |world| {
            let parallel = DataParallel::new(&world);
            let [x, y] = data();
            let (x, y) = (x.narrow(0, 16 * world.rank(), 16), y.narrow(0, 16 * world.rank(), 16));
            let mut model = Mlp::new();
            parallel.broadcast(&mut model)?;
            let mut other = model.clone();
            let (mut whole, mut divided) = (AdamW::new(1e-2), ShardedOptimizer::new(&world, AdamW::new(1e-2)));
            for _ in 0..3 {
                let mut gradients = model.forward(&x).mse_loss(&y, Reduction::Mean).backward();
                parallel.average(&model, &mut gradients);
                // Gradients for the leaves of the other copy.
                let mut copied = thalweg::Gradients::default();
                for (own, parameter) in other.parameters().iter().zip(model.parameters()) {
                    copied.set(own, gradients[&parameter].clone());
                }
                parallel.step(&mut whole, &mut model, &gradients);
                divided.step(&mut other, &copied)?;
            }
            assert_eq!(other.tied.id(), other.hidden[1].weight.id());
            assert_eq!(bits(&model)?, bits(&other)?);
            let elements = |state: StateDict| state.iter().map(|(_, t)| t.numel()).sum::<usize>();
            Ok((elements(whole.state_dict()), elements(divided.inner().state_dict())))
        })
        .unwrap();
        // Each moment is on one rank.
        assert_eq!(ranks.iter().map(|(_, own)| own).sum::<usize>(), ranks[0].0);
        assert!(ranks.iter().all(|(whole, own)| 0 < *own && own < whole));
    }
}

#[test]
fn accumulated_gradients_are_those_of_the_whole_batch() {
    for engine in ENGINES {
        run(engine, 2, |world| {
            manual_seed(5);
            let mut model = Linear::new(5, 1);
            let parallel = DataParallel::new(&world);
            parallel.broadcast(&mut model)?;
            let [x, y] = data();
            let own = |start: usize, count: usize| (x.narrow(0, start, count), y.narrow(0, start, count));
            let gradients = |(x, y): (Tensor, Tensor)| model.forward(&x).mse_loss(&y, Reduction::Mean).backward();
            // Two halves of this rank's part, of which it has the mean.
            let start = 24 * world.rank();
            let mut all = gradients(own(start, 12));
            all.add(&gradients(own(start + 12, 12)));
            all.iter_mut().for_each(|gradient| *gradient = &*gradient * 0.5);
            parallel.average(&model, &mut all);
            let whole = gradients(own(0, 48));
            for parameter in model.parameters() {
                assert!(all[&parameter].allclose(&whole[&parameter], 1e-4, 1e-6)?);
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn parameters_without_a_gradient_on_one_rank_get_the_mean() {
    run(Engine::Threads, 2, |world| {
        let mut weights = vec![Tensor::new([1.0f32]).tracked(), Tensor::new([2.0f32]).tracked(), Tensor::new([3.0f32])];
        // Rank 1 does not use the second one; nobody trains the third.
        let used = if world.rank() == 0 { &weights[0] * &weights[1] } else { weights[0].clone() };
        let mut gradients = used.sum(..).backward();
        DataParallel::new(&world).average(&weights, &mut gradients);
        Sgd::new(1.0).step(&mut weights, &gradients);
        let values = weights.iter().map(|w| w.item::<f32>().unwrap()).collect::<Vec<_>>();
        assert_eq!(values, [1.0 - 1.5, 2.0 - 0.5, 3.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_failure_of_a_world_is_the_error_of_the_gradients() {
    let error = options().local(2, |world| {
        let weights = vec![Tensor::new([1.0f32]).tracked()];
        let mut gradients = weights[0].sum(..).backward();
        if world.rank() == 1 {
            return Ok(());
        }
        DataParallel::new(&world).average_of(&weights, &mut gradients, 3);
        gradients[&weights[0]].item::<f32>().map(drop)
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("rank 1 has ended") && text.contains("tests/suite/training.rs"), "{text}");
    let error = options().local(2, |world| {
        let weights = vec![Tensor::new([1.0f32]).tracked()];
        if world.rank() == 1 {
            return Ok(());
        }
        let gradients = DataParallel::new(&world).backward(&weights, &weights[0].sum(..));
        gradients[&weights[0]].item::<f32>().map(drop)
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("rank 1 has ended") && text.matches("tests/suite/training.rs").count() == 1, "{text}");
}
