//! Measures the queues of a GPU: rates of copies, copies concurrent with kernels, two concurrent threads, and copies
//! from GPU to GPU if there are two. `THALWEG_DEVICE=cuda cargo run --release -p thalweg --features cuda --example
//! queues`, and again with `THALWEG_CUDA_QUEUES=off` for a single queue. `bench/queues.py` measures the same copies in
//! PyTorch.

use std::time::Instant;
use thalweg::prelude::*;
use thalweg::{counters, synchronize};

const MIB: usize = 1 << 20;

/// The median of several runs, in milliseconds.
fn middle(runs: usize, mut f: impl FnMut()) -> f64 {
    let mut one = || {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..2).for_each(|_| _ = one());
    let mut times: Vec<f64> = (0..runs).map(|_| one()).collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

fn wait() {
    synchronize().expect("the device is well");
}

fn rate(bytes: usize, ms: f64) -> String {
    format!("{:.1} GB/s", bytes as f64 / ms / 1e6)
}

fn data(bytes: usize) -> Vec<f32> {
    (0..bytes / 4).map(|i| (i % 1021) as f32).collect()
}

fn put(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, [data.len()])
}

fn copies() {
    for bytes in [MIB / 16, MIB, 16 * MIB, 256 * MIB] {
        let data = data(bytes);
        let mut back = vec![0f32; data.len()];
        let returned = middle(9, || drop(put(&data)));
        wait();
        let there = middle(9, || {
            let _there = put(&data);
            wait();
        });
        let x = put(&data);
        let read = middle(9, || back = x.to_vec().expect("the device is well"));
        assert!(back == data, "what comes back is not what went there");
        println!(
            "{:>9} KiB: from_slice returns after {returned:.3} ms, there after {there:.3} ms ({}); to_vec {read:.3} ms ({})",
            bytes / 1024,
            rate(bytes, there),
            rate(bytes, read)
        );
    }
}

/// Sequential products that take some milliseconds.
fn compute(x: &Tensor, times: usize) -> Tensor {
    let y = (0..times).fold(x.clone(), |y, _| y.matmul(x) * 1e-3);
    thalweg::flush();
    y
}

fn beside() {
    let (x, input) = (Tensor::randn([4096, 4096]), data(128 * MIB));
    let steps = 6;
    let kernels = middle(7, || {
        (0..steps).for_each(|_| drop(compute(&x, 2)));
        wait();
    });
    let copies = middle(7, || {
        (0..steps).for_each(|_| drop(put(&input)));
        wait();
    });
    let before = counters();
    let both = middle(7, || {
        for _ in 0..steps {
            let batch = put(&input);
            let sum = batch.sum(..);
            drop((compute(&x, 2), sum));
        }
        wait();
    });
    let waits = (counters() - before).queue_waits as f64 / (9 * steps) as f64;
    println!(
        "{steps} steps: kernels {kernels:.2} ms, copies {copies:.2} ms, both {both:.2} ms ({:.2} of their sum), {waits:.1} waits a step",
        both / (kernels + copies)
    );
    let y = compute(&x, 2);
    let read = middle(7, || {
        let _later = compute(&x, 8);
        drop(put(&input).to_vec::<f32>());
    });
    println!(
        "what is not computed is read beside what is: {read:.2} ms (8 products take {:.2})",
        kernels / steps as f64 * 4.0
    );
    drop(y);
    wait();
}

/// Sequential products of 16 tiles each, which use a fraction of the chip for a long time.
fn small(x: &Tensor, weights: &Tensor) -> f32 {
    let y = (0..200).fold(x.clone(), |y, _| y.matmul(weights).relu());
    y.sum(..).item().expect("the device is well")
}

fn threads() {
    let inputs = [Tensor::randn([128, 2048]), Tensor::randn([128, 2048])];
    let weights = &(Tensor::randn([2048, 2048]) * (1.0 / 32.0));
    wait();
    let after = middle(7, || inputs.iter().for_each(|x| _ = small(x, weights)));
    let one = middle(7, || _ = small(&inputs[0], weights));
    let (mut sums, want) = ([0.0; 2], inputs.each_ref().map(|x| small(x, weights)));
    let (mut times, barrier) = (vec![], std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let work = |x: Tensor| {
            move || {
                let mut times = vec![];
                let mut sum = 0.0;
                for _ in 0..9 {
                    barrier.wait();
                    let start = Instant::now();
                    sum = small(&x, weights);
                    barrier.wait();
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                }
                times.sort_by(f64::total_cmp);
                (times[4], sum)
            }
        };
        let all: Vec<_> = inputs.iter().map(|x| scope.spawn(work(x.clone()))).collect();
        for (i, t) in all.into_iter().enumerate() {
            let (time, sum) = t.join().expect("no panic");
            times.push(time);
            sums[i] = sum;
        }
    });
    println!(
        "two chains of 200 products of few tiles: one {one:.2} ms, both after each other {after:.2} ms, on two threads {:.2} ms; same values: {}",
        times[0].max(times[1]),
        sums == want
    );
}

fn peers() -> Result<(), Error> {
    let (a, b) = (Device::cuda(0)?, Device::cuda(1)?);
    for bytes in [MIB, 64 * MIB, 1024 * MIB] {
        let data = data(bytes);
        let x = put(&data).to_device(a)?;
        wait();
        let before = counters();
        let direct = middle(9, || {
            let _there = x.to_device(b).expect("the devices are well");
            wait();
        });
        let copied = (counters() - before).bytes_between_devices;
        let right = x.to_device(b)?.to_vec::<f32>()? == data;
        println!(
            "{:>6} MiB to the other GPU: {direct:.3} ms ({}), between them {}, right: {right}",
            bytes / MIB,
            rate(bytes, direct),
            copied == 11 * bytes as u64
        );
        let host = middle(3, || {
            let host = x.to_vec::<f32>().expect("the device is well");
            drop(Tensor::try_from_slice(&host, [host.len()], b));
            wait();
        });
        println!("           by way of the host: {host:.3} ms ({})", rate(bytes, host));
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    println!("{}: {}", Device::default().name(), Device::default().describe());
    copies();
    beside();
    threads();
    if Device::names().len() > 2 {
        peers()?;
    }
    Ok(())
}
