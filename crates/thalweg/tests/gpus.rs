//! Tests for a machine with a GPU, most of them with two: `cargo test -p thalweg --features cuda --test gpus --
//! --ignored`.

#![cfg(feature = "cuda")]

use thalweg::prelude::*;
use thalweg::{Error, with_fusion};

fn devices() -> [Device; 2] {
    [0, 1].map(|n| Device::from_name(&format!("cuda:{n}")).expect("this machine has two GPUs"))
}

fn work(x: &Tensor) -> Tensor {
    let h = (x * 1.5).tanh();
    (&h / (h.square().sum_keepdim(1) + 1.0)).cumsum(0)
}

#[test]
#[ignore = "needs two GPUs"]
fn each_computes_for_itself_and_values_go_from_one_to_the_other() {
    let [a, b] = devices();
    let x = Tensor::randn_with([513, 300], a);
    // Half of the work on one GPU, half on the other, without a read in between; values on the first may be dropped
    // meanwhile.
    let there = work(&x).to_device(b).unwrap();
    assert_eq!(there.device(), b);
    let got = work(&there).to_vec::<f32>().unwrap();
    let want = work(&work(&x)).to_vec::<f32>().unwrap();
    assert!(got == want, "the same kernels on the same chip");
    let cpu = x.to_device(Device::cpu()).unwrap();
    for (g, w) in got.iter().zip(work(&work(&cpu)).to_vec::<f32>().unwrap()) {
        assert!((g - w).abs() <= 1e-4 * w.abs().max(1.0), "{g} {w}");
    }
    // There and back, a hundred times, with changes in between.
    let mut y = x.clone();
    for _ in 0..100 {
        y = (y + 1.0).to_device(b).unwrap();
        y = (y - 1.0).to_device(a).unwrap();
    }
    for (g, w) in y.to_vec::<f32>().unwrap().iter().zip(x.to_vec::<f32>().unwrap()) {
        assert!((g - w).abs() < 1e-4, "{g} {w}");
    }
}

#[test]
#[ignore = "needs two GPUs"]
fn threads_use_both_at_once() {
    let all = devices();
    let one = |n: usize| {
        let x = Tensor::full_with([64, 1000], 0.25 + n as f64, (DType::F32, all[n % 2]));
        let mut y = x.clone();
        for _ in 0..200 {
            y = with_fusion(n < 4, || (&y * 0.5 + &x).sin());
        }
        y.to_vec::<f32>().unwrap()
    };
    let results: Vec<Vec<f32>> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..8).map(|n| s.spawn(move || one(n % 4))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for n in 0..4 {
        assert!(results[n] == results[n + 4]);
        assert!(results[n].iter().all(|v| v.is_finite() && (v - results[n][0]).abs() < 1e-6));
    }
}

#[test]
#[ignore = "needs two GPUs"]
fn an_error_on_one_is_none_on_the_other() {
    let [a, b] = devices();
    let (x, y) = (Tensor::ones_with([4], a), Tensor::ones_with([4], b));
    let wrong = x.index_select(0, &Tensor::new(&[0i64, 9][..]).to_device(a).unwrap());
    assert!(matches!(wrong.to_device(b), Err(Error::Index(_) | Error::Failed(_))));
    assert_eq!((&y + 1.0).to_vec::<f32>().unwrap(), [2.0; 4]);
    let mixed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| &x + &y));
    assert!(mixed.is_err(), "tensors of two devices do not add");
}

/// Blocks that hold chunks of columns wait for each other: four threads with their own queues, and other work in
/// between.
#[test]
#[ignore = "needs a GPU"]
fn columns_are_right_where_several_threads_have_blocks_that_wait() {
    let gpu = Device::from_name("cuda:0").expect("this machine has a GPU");
    let one = |n: usize| {
        let shape = [[8192, 4096], [5001, 6000], [16_000, 2048], [700, 40_000]][n];
        let dtype = if n == 1 { DType::BF16 } else { DType::F32 };
        let x = Tensor::randn_with(shape, gpu).cast(dtype);
        let turned = x.t() + 0.0;
        thalweg::synchronize().unwrap();
        let norm = |x: &Tensor, dim: usize| {
            let d = x - x.mean_keepdim(dim);
            &d / (d.square().mean_keepdim(dim) + 1e-5).sqrt()
        };
        let want = [turned.softmax(1) * shape[0] as f64, norm(&turned, 1)];
        thalweg::synchronize().unwrap();
        for turn in 0..40 {
            let got = [x.softmax(0) * shape[0] as f64, norm(&x, 0)];
            thalweg::synchronize().unwrap();
            let bound = if dtype == DType::BF16 { 0.5 } else { 1e-3 };
            for (got, want) in got.iter().zip(&want) {
                let off = (got.t() - want).abs().amax(..).cast(DType::F32).to_vec::<f32>().unwrap()[0];
                assert!(off < bound, "{shape:?}, turn {turn}: off by {off}");
            }
        }
    };
    std::thread::scope(|s| (0..4).for_each(|n| drop(s.spawn(move || one(n)))));
}

/// A bug of a chip's assembler: 16-bit numbers that wrap and are then compared as 32-bit numbers (`int_neg` in
/// `prelude.cuh`).
#[test]
#[ignore = "needs a GPU"]
fn numbers_of_16_bits_wrap_before_they_are_compared() {
    let device = Device::from_name("cuda:0").expect("this machine has a GPU");
    let values: Vec<i16> = (0..5000).map(|i| if i == 1234 { i16::MIN } else { (i * 13 % 601 - 300) as i16 }).collect();
    let x = Tensor::new(&values[..]).to_device(device).unwrap();
    for (way, y) in [-&x, 0 - &x, &x * -1].iter().enumerate() {
        assert_eq!(y.amin(..).to_vec::<i16>().unwrap(), [i16::MIN], "way {way}");
    }
    let values: Vec<u16> = (0..500).map(|i| 0x8000 + i % 3).collect();
    let x = Tensor::new(&values[..]).to_device(device).unwrap() + 0x8000;
    let want: Vec<u16> = (0..500).map(|i| (i % 3 > 0) as u16).collect();
    assert_eq!((&x / &x).to_vec::<u16>().unwrap(), want, "0 by 0 is 0");
}
