//! Collectives on several NVIDIA GPUs: right results, bandwidth, and training of GPT-2 small.
//!
//!     cargo run --release -p thalweg-dist --features cuda --example gpus -- check
//!     cargo run --release -p thalweg-dist --features cuda --example gpus -- bandwidth
//!     cargo run --release -p thalweg-dist --features cuda --example gpus -- train 8 1024
//!
//! A thread is a rank, and has a GPU of its own; under a launcher a process is. `bench/distributed.py` measures the same
//! with PyTorch. `THALWEG_NCCL=off` shows what NCCL is worth: all bytes pass through the host.

#[path = "../../thalweg-nn/examples/common/gpt2.rs"]
mod gpt2;

use gpt2::{Gpt2, Size};
use std::time::{Duration, Instant};
use thalweg::communication::Communication;
use thalweg::{DType, Device, Gradients, counters, finish_further_searches, finish_searches, synchronize};
use thalweg_dist::{DataParallel, ReduceOp, World, WorldOptions};
use thalweg_nn::NamePath;
use thalweg_nn::optim::AdamW;
use thalweg_nn::prelude::*;

/// GPT-2 small, with the number of tokens rounded up to a multiple of 64.
const GPT2_SMALL: Size = Size { tokens: 50304, context: 1024, width: 768, heads: 12, layers: 12 };

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(default);
    let launched = World::from_env()?;
    let count = match launched.size() {
        1 => Device::names().iter().filter(|name| name.starts_with("cuda:")).count().max(1),
        size => size,
    };
    if launched.rank() == 0 {
        match launched.device().communication().and_then(|library| Communication::identity(&*library)) {
            Ok(_) => println!("{count} GPUs, {}", launched.device().name()),
            Err(why) => println!("{count} ranks on the host: {why}"),
        }
    }
    let on_all = |f: &(dyn Fn(World) -> Result<(), Error> + Sync)| match launched.size() {
        1 => World::local(count, f).map(drop),
        _ => f(launched.clone()),
    };
    match arguments.first().map(String::as_str) {
        Some("check") => {
            on_all(&check)?;
            if launched.size() == 1 { failures() } else { Ok(()) }
        }
        Some("bandwidth") => on_all(&bandwidth),
        Some("train") => {
            let (batch, length, mib) = (number(1, 8), number(2, 1024), number(3, 25));
            let run = |how: Exchange| on_all(&|world| train(&world, (batch, length), how, mib << 20));
            if launched.size() == 1 && arguments.len() < 5 {
                World::local(1, |world| train(&world, (batch, length), Exchange::None, mib << 20))?;
            }
            let all = [Exchange::None, Exchange::Cut, Exchange::After, Exchange::Overlapped];
            let asked = |how: &&Exchange| arguments.len() < 5 || arguments[4..].contains(&format!("{how:?}"));
            all.iter().filter(asked).try_for_each(|&how| run(how))
        }
        _ => Err(Error::Value("one of check, bandwidth, train".into())),
    }
}

/// Combination of two elements.
type Combine = fn(f64, f64) -> f64;

/// Compares each collective with its definition.
fn check(world: World) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let equal = |name: &str, found: &Tensor, expected: Vec<f64>| {
        let found = found.to_f64_vec()?;
        let far = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > 1e-2 * b.abs()).count();
        if far > 0 || found.len() != expected.len() {
            return Err(Error::Value(format!("{name}: {far} of {} elements are wrong", expected.len())));
        }
        Ok(())
    };
    let dtypes = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64, DType::U8, DType::I16];
    for dtype in dtypes {
        for rows in [1, 7, 1000, 100_000] {
            let n = rows * size;
            // Small integers: sums and products are exact.
            let of = |rank: usize| (0..n).map(|i| ((i * 7 + rank * 3) % 4 + 1) as f64).collect::<Vec<f64>>();
            let all: Vec<Vec<f64>> = (0..size).map(of).collect();
            let x = Tensor::new(all[rank].clone()).cast(dtype);
            let fold = |f: Combine| -> Vec<f64> {
                (0..n).map(|i| all.iter().map(|x| x[i]).reduce(f).expect("a rank")).collect()
            };
            let of_own = |x: &[f64]| x[rank * rows..(rank + 1) * rows].to_vec();
            let ops: [(ReduceOp, Combine); 4] = [
                (ReduceOp::Sum, |a, b| a + b),
                (ReduceOp::Product, |a, b| a * b),
                (ReduceOp::Max, f64::max),
                (ReduceOp::Min, f64::min),
            ];
            for (op, f) in ops {
                let name = format!("all_reduce({op}) of {n} {dtype}");
                equal(&name, &world.all_reduce(&x, op), fold(f))?;
                let name = format!("reduce_scatter({op}) of {n} {dtype}");
                equal(&name, &world.reduce_scatter(&x, op, 0), of_own(&fold(f)))?;
            }
            if dtype.is_float() {
                let mean = fold(|a, b| a + b).iter().map(|sum| sum / size as f64).collect();
                equal(&format!("all_reduce(mean) of {n} {dtype}"), &world.all_reduce(&x, ReduceOp::Mean), mean)?;
            }
            equal(&format!("all_gather of {n} {dtype}"), &world.all_gather(&x, 0), all.concat())?;
            equal(&format!("broadcast of {n} {dtype}"), &world.broadcast(&x, size - 1), all[size - 1].clone())?;
            let moved: Vec<f64> = all.iter().flat_map(|x| of_own(x)).collect();
            equal(&format!("all_to_all of {n} {dtype}"), &world.all_to_all(&x, 0, 0), moved)?;
            let view = x.reshape([size, rows]).t();
            let columns = (0..rows).flat_map(|r| (0..size).map(move |c| c * rows + r));
            let sum = fold(|a, b| a + b);
            equal("all_reduce of a view", &world.all_reduce(&view, ReduceOp::Sum), columns.map(|i| sum[i]).collect())?;
        }
    }
    // A chain in which each collective uses the one before, and memory is reused meanwhile.
    let mut x = Tensor::full([1 << 20], 1.0 + rank as f64);
    for _ in 0..50 {
        x = world.all_reduce(&(&x * 0.5).exp().log(), ReduceOp::Mean) * 2.0;
        world.start();
    }
    let mean = (0..size).map(|rank| 1.0 + rank as f64).sum::<f64>() / size as f64;
    equal("a chain of 50", &x.narrow(0, 1000, 5), vec![mean; 5])?;
    // Bits are the same on all ranks.
    let y = world.all_reduce(&Tensor::randn([1 << 20]), ReduceOp::Sum);
    let bits = y.bitcast(DType::I32).cast(DType::I64).sum(..).reshape([1]);
    let all = world.all_gather(&bits, 0).to_vec::<i64>()?;
    if all.iter().any(|sum| *sum != all[0]) {
        return Err(Error::Value(format!("ranks have different bits: {all:?}")));
    }
    if rank == 0 {
        println!("check: right on {size} ranks; on GPUs by NCCL: {}", world.is_on_gpus());
        print!("{}", world.traffic());
    }
    Ok(())
}

/// A rank that fails or does not come is an error on the others, whose GPUs can be used afterwards.
fn failures() -> Result<(), Error> {
    for (what, late) in [("returns an error", false), ("is late", true)] {
        let start = Instant::now();
        let options = WorldOptions::default().timeout(Duration::from_secs(3));
        let error = options.local(2, |world| {
            let x = Tensor::ones([1 << 20]);
            world.all_reduce(&x, ReduceOp::Sum).memory()?;
            if world.rank() == 1 {
                match late {
                    true => std::thread::sleep(Duration::from_secs(5)),
                    false => return Err(Error::Value("no luck".into())),
                }
            }
            let y = world.all_reduce(&x, ReduceOp::Sum);
            world.start();
            let result = (&y * 2.0).narrow(0, 0, 2).to_vec::<f32>();
            // The queue of computations is not stuck behind the collective.
            let own = (&x * 3.0).narrow(0, 0, 2).to_vec::<f32>()?;
            println!(
                "rank {} after {:.1} s: {result:?}, and then {own:?}",
                world.rank(),
                start.elapsed().as_secs_f64()
            );
            result.map(drop)
        });
        println!("a rank {what}: {:?} after {:.1} s", error.map(drop), start.elapsed().as_secs_f64());
    }
    let again = World::local(2, |world| world.all_reduce(&Tensor::ones([2]), ReduceOp::Sum).to_vec::<f32>());
    println!("a new world: {:?}", again?);
    Ok(())
}

/// Prints the bandwidth of all-reduces of 1 MiB to 1 GiB of f32.
fn bandwidth(world: World) -> Result<(), Error> {
    let size = world.size();
    for mib in [1usize, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
        let x = Tensor::full([mib << 18], 1.0);
        x.start()?;
        let times = if mib < 64 { 100 } else { 20 };
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            world.barrier()?;
            let start = Instant::now();
            for _ in 0..times {
                let _result = world.all_reduce(&x, ReduceOp::Sum);
                world.start();
            }
            world.flush()?;
            best = best.min(start.elapsed().as_secs_f64() / times as f64);
        }
        if world.rank() == 0 {
            let bytes = (mib << 20) as f64;
            let bus = bytes / best * 2.0 * (size - 1) as f64 / size as f64;
            println!("all_reduce {mib:>5} MiB f32: {:>9.1} us, bus {:>7.1} GB/s", best * 1e6, bus / 1e9);
        }
    }
    Ok(())
}

/// When gradients are exchanged.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Exchange {
    /// Never: each rank trains alone, for comparison.
    None,
    /// Never, with the stream cut at the end of each bucket, as `Overlapped` does.
    Cut,
    /// After the backward pass.
    After,
    /// During the backward pass.
    Overlapped,
}

/// Gradients, with the stream cut whenever those of a bucket are complete.
fn cut(model: &Gpt2, loss: &Tensor, bucket_bytes: usize) -> Gradients {
    let mut parameters = vec![];
    model.visit(&mut NamePath::root(), &mut |_, _, tensor| parameters.push(tensor.clone()));
    let mut waiting: Vec<Tensor> = vec![];
    loss.backward_observed(&parameters, |_, gradient| {
        waiting.push(gradient.flatten());
        if waiting.iter().map(|t| t.numel() * 4).sum::<usize>() >= bucket_bytes {
            // A failure is that of a later read.
            let _ = Tensor::cat(&waiting, 0).start();
            waiting.clear();
        }
    })
}

/// Trains GPT-2 small on random tokens, with parameters in f32 and the rest in bf16; prints tokens per second.
fn train(world: &World, (batch, length): (usize, usize), exchange: Exchange, bucket_bytes: usize) -> Result<(), Error> {
    manual_seed(1);
    let mut model = Gpt2::new(GPT2_SMALL);
    let parallel = DataParallel::new(world).bucket_bytes(bucket_bytes);
    parallel.broadcast(&mut model)?;
    manual_seed(7 + world.rank() as u64);
    let tokens = Tensor::randint(0..50257, [batch, length + 1]);
    let mut optimizer = AdamW::new(1e-4);
    let mut step = || {
        let mut narrow = model.clone();
        narrow.update(&mut |_, _, tensor| tensor.cast(DType::BF16));
        let loss = narrow.loss(&tokens);
        let gradients = match exchange {
            Exchange::None => loss.backward(),
            Exchange::Cut => cut(&model, &loss, bucket_bytes),
            Exchange::Overlapped => parallel.backward(&model, &loss),
            Exchange::After => {
                let mut gradients = loss.backward();
                parallel.average(&model, &mut gradients);
                gradients
            }
        };
        parallel.step(&mut optimizer, &mut model, &gradients);
        loss.detach()
    };
    let prepare = Instant::now();
    let first = step().item_f64()?;
    // Plans are searched and kernels compiled meanwhile.
    for _ in 0..3 {
        for _ in 0..4 {
            step().item_f64()?;
        }
        finish_searches();
    }
    finish_further_searches();
    for _ in 0..4 {
        step().item_f64()?;
    }
    let prepare = prepare.elapsed().as_secs_f64();
    let (mut times, mut recording) = (vec![], vec![]);
    let mut last = 0.0;
    let before = counters();
    for _ in 0..5 {
        world.barrier()?;
        synchronize()?;
        let start = Instant::now();
        let mut loss = None;
        for _ in 0..5 {
            loss = Some(step());
        }
        recording.push(start.elapsed().as_secs_f64() / 5.0);
        last = loss.expect("a step").item_f64()?;
        world.synchronize()?;
        times.push(start.elapsed().as_secs_f64() / 5.0);
    }
    times.sort_by(f64::total_cmp);
    recording.sort_by(f64::total_cmp);
    let counted = counters() - before;
    if world.rank() == 0 {
        let (time, size) = (times[times.len() / 2], world.size());
        println!(
            "train {size} ranks, {batch} x {length}, buckets of {} MiB, {exchange:?}: {:.2} ms a step ({:.2} to {:.2}), {:.0} tokens/s, loss {first:.4} to {last:.4}",
            bucket_bytes >> 20,
            time * 1e3,
            times[0] * 1e3,
            times[times.len() - 1] * 1e3,
            (size * batch * length) as f64 / time
        );
        let each = |name: &str| counted.list().iter().find(|c| c.0 == name).map_or(0.0, |c| c.1 as f64 / 25.0);
        println!(
            "  a step: host {:.2} ms, {} operations, {} segments, {} kernels, {} collectives, {} waits between queues; prepared in {prepare:.0} s",
            recording[recording.len() / 2] * 1e3,
            each("operations"),
            each("segments"),
            each("kernels"),
            each("library_calls"),
            each("queue_waits")
        );
    }
    Ok(())
}
