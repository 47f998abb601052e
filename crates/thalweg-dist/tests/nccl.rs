//! Collectives on GPUs: the emulated ones, with a stand-in for NCCL in which ranks that differ wait forever.

mod common;

use common::{Engine, LONG, Plain, run, tcp_on};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::{DType, Device, Error, Tensor};
use thalweg_dist::{DataParallel, ReduceOp, World, WorldOptions};
use thalweg_nn::optim::AdamW;
use thalweg_nn::prelude::*;

/// Held by each test: the GPUs have one queue for the collectives of all worlds in the process.
static GPUS: Mutex<()> = Mutex::new(());

fn gpus() -> Vec<Device> {
    let name = |n: usize| if n == 0 { "cuda:emulated".into() } else { format!("cuda:emulated:{n}") };
    (0..4).map(|n| Device::from_name(&name(n)).unwrap()).collect()
}

fn options() -> WorldOptions {
    WorldOptions::default().timeout(LONG).devices(gpus())
}

/// Runs a function as each rank on a GPU of its own.
fn on_gpus<R: Send>(size: usize, f: impl Fn(World) -> Result<R, Error> + Sync) -> Result<Vec<R>, Error> {
    let _one = GPUS.lock().unwrap_or_else(|e| e.into_inner());
    options().local(size, |world| {
        assert!(world.is_on_gpus());
        f(world)
    })
}

/// Texts of the errors of all ranks.
fn errors<R: Send>(size: usize, f: impl Fn(&World) -> Result<R, Error> + Sync) -> Vec<String> {
    let texts: Vec<Mutex<String>> = (0..size).map(|_| Mutex::default()).collect();
    let _ = on_gpus(size, |world| {
        let result = f(&world).map(drop);
        *texts[world.rank()].lock().unwrap() = result.as_ref().err().map(|e| e.to_string()).unwrap_or_default();
        result
    });
    texts.into_iter().map(|text| text.into_inner().unwrap()).collect()
}

const OPS: [ReduceOp; 5] = [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product];

fn takes(op: ReduceOp, dtype: DType) -> bool {
    match op {
        ReduceOp::Mean => dtype.is_float(),
        ReduceOp::Max | ReduceOp::Min => true,
        ReduceOp::Sum | ReduceOp::Product => dtype != DType::Bool,
    }
}

#[test]
fn every_dtype_and_layout_goes_through_every_collective() {
    for size in [2, 4] {
        on_gpus(size, |world| {
            let rank = world.rank();
            for (number, dtype) in DType::ALL.into_iter().enumerate() {
                let all: Vec<Plain> =
                    (0..size).map(|r| Plain::random(&[4, 3, 4], dtype, (number * 10 + r) as u64)).collect();
                let x = all[rank].laid_out(dtype, number % 4);
                let part = |of: &Plain, axis: usize, r: usize| {
                    let own = of.dims[axis] / size;
                    of.narrow(axis, r * own, (r + 1) * own)
                };
                let mut results = vec![];
                for op in OPS.into_iter().filter(|&op| takes(op, dtype)) {
                    let expected = Plain::reduced(&all, op, dtype);
                    results.push((format!("all_reduce({op})"), world.all_reduce(&x, op), expected.clone()));
                    for axis in [0, 2] {
                        let own = world.reduce_scatter(&x, op, axis as isize);
                        results.push((format!("reduce_scatter({op})"), own, part(&expected, axis, rank)));
                    }
                }
                for axis in 0..3 {
                    results.push(("all_gather".into(), world.all_gather(&x, axis as isize), Plain::cat(&all, axis)));
                }
                results.push(("broadcast".into(), world.broadcast(&x, size - 1), all[size - 1].clone()));
                for (split, concat) in [(0, 0), (0, 2), (2, 1)] {
                    let parts: Vec<Plain> = all.iter().map(|of| part(of, split, rank)).collect();
                    let moved = world.all_to_all(&x, split as isize, concat as isize);
                    results.push((format!("all_to_all {split} {concat}"), moved, Plain::cat(&parts, concat)));
                }
                // Rank i sends (i + j) % 2 of its rows to rank j, and the rest to itself.
                let rows = |from: usize, to: usize| match from == to {
                    true => 4 - (0..size).filter(|&j| j != from).map(|j| (from + j) % 2).sum::<usize>(),
                    false => (from + to) % 2,
                };
                let sent: Vec<usize> = (0..size).map(|to| rows(rank, to)).collect();
                let received: Vec<usize> = (0..size).map(|from| rows(from, rank)).collect();
                let start = |from: usize| (0..rank).map(|to| rows(from, to)).sum::<usize>();
                let parts: Vec<Plain> =
                    (0..size).map(|from| all[from].narrow(0, start(from), start(from) + rows(from, rank))).collect();
                let ragged = world.all_to_all_ragged(&x, &sent, &received);
                results.push(("all_to_all_ragged".into(), ragged, Plain::cat(&parts, 0)));
                for (name, result, expected) in results {
                    assert_eq!(Plain::of(&result)?, expected, "{name} of {dtype} on rank {rank} of {size}");
                }
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn sub_worlds_and_connections_use_the_gpus_too() {
    on_gpus(4, |world| {
        let pair = world.split(world.rank() % 2)?;
        assert!(pair.is_on_gpus());
        let sum = pair.all_reduce(&Tensor::full([3], world.rank() as f64), ReduceOp::Sum);
        let all = world.all_gather(&sum, 0);
        assert_eq!(all.to_vec::<f32>()?, [2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0]);
        Ok(())
    })
    .unwrap();
    let _one = GPUS.lock().unwrap_or_else(|e| e.into_inner());
    for sum in tcp_on(&gpus(), &options(), 2, |world| {
        let world = world?;
        assert!(world.is_on_gpus());
        let x = Tensor::full([2], (world.rank() + 1) as f64);
        world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()
    }) {
        assert_eq!(sum.unwrap(), [3.0, 3.0]);
    }
}

#[test]
fn ranks_on_one_gpu_exchange_data_by_the_host() {
    let _one = GPUS.lock().unwrap_or_else(|e| e.into_inner());
    let options = options().devices([gpus()[0]]);
    let sums = options.local(2, |world| {
        assert!(!world.is_on_gpus());
        world.all_reduce(&Tensor::ones([2]), ReduceOp::Sum).to_vec::<f32>()
    });
    assert_eq!(sums.unwrap(), [[2.0, 2.0], [2.0, 2.0]]);
}

#[test]
fn computation_goes_on_while_a_collective_waits() {
    let (started, wait) = channel();
    let (started, wait) = (Mutex::new(started), Mutex::new(wait));
    on_gpus(2, |world| {
        let x = Tensor::full([1000], world.rank() as f64);
        // The group is joined here, where both ranks are.
        world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()?;
        if world.rank() == 1 {
            wait.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        let mut sums = vec![];
        for step in 0..3 {
            let y = (&x + step as f64).exp().log();
            sums.push(world.all_reduce(&y, ReduceOp::Sum));
            world.start();
            // The operand is dropped, and others get its memory.
            let other = Tensor::full([1000], -1.0) * 2.0;
            assert_eq!(other.to_vec::<f32>()?, [-2.0; 1000]);
        }
        // Kernels that depend on the results are enqueued behind them.
        let total = (&sums[0] + &sums[1] + &sums[2]) / 3.0;
        total.start()?;
        if world.rank() == 0 {
            started.lock().unwrap().send(()).unwrap();
        }
        assert!(total.to_vec::<f32>()?.iter().all(|v| (v - 3.0).abs() < 1e-5));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_that_fails_meanwhile_is_an_error_and_leaves_the_gpus_usable() {
    let texts = errors(3, |world| {
        let x = Tensor::ones([100]);
        world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()?;
        if world.rank() == 1 {
            return Err::<(), Error>(Error::Value("no luck".into()));
        }
        let y = world.all_reduce(&x, ReduceOp::Sum);
        world.start();
        let behind = &y * 2.0;
        let error = behind.to_vec::<f32>().unwrap_err();
        // The queues go on: the wait for the rank was aborted.
        assert_eq!((&x * 3.0).to_vec::<f32>()?, [3.0; 100]);
        Err(error)
    });
    for rank in [0, 2] {
        let text = &texts[rank];
        assert!(text.contains("rank 1 ended with an error: no luck") && text.contains("nccl.rs"), "{text}");
    }
}

#[test]
fn a_rank_that_does_not_come_is_an_error_in_time() {
    let (done, waiting) = channel::<()>();
    let (done, waiting) = (Mutex::new(Some(done)), Mutex::new(waiting));
    let texts = errors(2, |world| {
        let x = Tensor::ones([8]);
        world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()?;
        if world.rank() == 1 {
            let _ = waiting.lock().unwrap().recv();
        } else {
            world.set_timeout(Duration::from_millis(300));
        }
        let result = world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>();
        drop(done.lock().unwrap().take());
        result
    });
    assert!(texts[0].contains("all_reduce: rank 1 has not taken part within 0.3 s, at"), "{}", texts[0]);
    assert!(texts[1].contains("rank 0 failed in all_reduce(sum) at"), "{}", texts[1]);
}

/// Ranks 0 and 1 run different collectives. Some rank gets both lines, and all get an error.
fn different(own: impl Fn(&World) -> Tensor + Sync, other: impl Fn(&World) -> Tensor + Sync) {
    let texts = errors(2, |world| {
        world.all_reduce(&Tensor::ones([8]), ReduceOp::Sum).to_vec::<f32>()?;
        let y = if world.rank() == 1 { other(world) } else { own(world) };
        y.to_f64_vec()
    });
    for text in &texts {
        assert!(text.matches("nccl.rs").count() >= 2 && text.contains("runs"), "{texts:?}");
    }
}

#[test]
fn ranks_out_of_step_get_both_lines() {
    let x = |n: usize| Tensor::ones([n]);
    different(|w| w.all_reduce(&x(4), ReduceOp::Sum), |w| w.all_reduce(&x(4), ReduceOp::Mean));
    different(|w| w.all_reduce(&x(4), ReduceOp::Sum), |w| w.all_reduce(&x(5), ReduceOp::Sum));
    different(|w| w.all_reduce(&x(4), ReduceOp::Sum), |w| w.all_gather(&x(4), 0));
    // One of them on the host.
    different(|w| w.all_reduce(&x(4), ReduceOp::Sum), |w| w.all_reduce(&x(4).cast(DType::I16), ReduceOp::Sum));
    different(|w| w.all_reduce(&x(4), ReduceOp::Max), |w| w.all_reduce(&x(4), ReduceOp::Sum));
}

#[test]
fn nan_is_an_extreme() {
    let found = on_gpus(2, |world| {
        let x = Tensor::new([world.rank() as f32, if world.rank() == 0 { f32::NAN } else { 1.0 }]);
        world.all_reduce(&x, ReduceOp::Max).to_vec::<f32>()
    });
    assert!(found.unwrap().iter().all(|x| x[0] == 1.0 && x[1].is_nan()));
}

#[derive(Module, Clone)]
struct Model {
    layers: Vec<Linear>,
    norm: LayerNorm,
    /// The weight of a layer, too.
    tied: Tensor,
    unused: Linear,
}

impl Model {
    fn new() -> Model {
        manual_seed(3);
        let layers: Vec<Linear> = (0..3).map(|_| Linear::new(6, 6)).collect();
        Model { tied: layers[1].weight.clone(), layers, norm: LayerNorm::new([6]), unused: Linear::new(2, 2) }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x).tanh());
        self.norm.forward(&y.matmul(&self.tied))
    }
}

/// Losses and the last weights of a few steps, with the backward pass before or during the exchange.
fn train(world: &World, bucket_bytes: usize, overlaps: bool) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let parallel = DataParallel::new(world).bucket_bytes(bucket_bytes);
    let mut model = Model::new();
    parallel.broadcast(&mut model)?;
    let (mut optimizer, mut losses) = (AdamW::new(1e-2), vec![]);
    for step in 0..4 {
        let own = (step * world.size() + world.rank()) as f64;
        let x = (Tensor::arange(24.0).reshape([4, 6]) * 0.1 + own).sin();
        let loss = (model.forward(&x) - x.cos()).square().mean(..);
        let gradients = if overlaps {
            parallel.backward(&model, &loss)
        } else {
            let mut gradients = loss.backward();
            parallel.average(&model, &mut gradients);
            gradients
        };
        parallel.step(&mut optimizer, &mut model, &gradients);
        losses.push(world.all_reduce(&loss.detach(), ReduceOp::Mean).item()?);
    }
    Ok((losses, model.tied.to_vec()?))
}

#[test]
fn training_takes_the_same_steps_on_gpus_and_with_overlap() {
    let host = run(Engine::Threads, 2, |world| train(&world, 1 << 20, false)).unwrap();
    for (bytes, overlaps) in [(1 << 20, false), (1 << 20, true), (200, true), (1, true)] {
        let found = on_gpus(2, |world| train(&world, bytes, overlaps)).unwrap();
        assert!(found[0] == found[1], "ranks differ");
        for (a, b) in [(&found[0].0, &host[0].0), (&found[0].1, &host[0].1)] {
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4), "{bytes} {overlaps}: {a:?}, not {b:?}");
        }
    }
    let host = run(Engine::Threads, 3, |world| train(&world, 200, true)).unwrap();
    assert!(host.iter().all(|rank| *rank == host[0]));
}

#[test]
fn bytes_are_counted() {
    on_gpus(2, |world| {
        world.all_reduce(&Tensor::zeros([1000]), ReduceOp::Sum).to_vec::<f32>()?;
        let reduced = world.traffic().of("all_reduce(sum)");
        assert_eq!((reduced.calls, reduced.sent, reduced.received), (1, 4000, 4000));
        Ok(())
    })
    .unwrap();
}
