//! Checks attention and TMA GEMMs on a GPU in the variants for many tiles: persistent blocks, alternating warpgroups,
//! results of odd width. Compares with the CPU, and the bits of repeated runs.
//!
//! `cargo run --release -p thalweg --features cuda --example attention`

use thalweg::prelude::*;

/// Runs of each case, in which blocks progress differently.
const RUNS: usize = 20;

type Function = fn(&[Tensor]) -> Tensor;

/// Attention: f32 scores times a number, a mask, softmax, values.
fn attend(x: &[Tensor], scale: f64, masked: impl Fn(Tensor) -> Tensor) -> Tensor {
    let scores = x[0].matmul(&x[1].transpose(-1, -2)).cast(DType::F32) * scale;
    masked(scores).softmax(-1).cast(x[0].dtype()).matmul(&x[2])
}

/// Causal mask: row `i` attends to keys up to `i + more`.
fn causal(scores: Tensor, more: f64) -> Tensor {
    let number = |n: usize| Tensor::arange_with(n, (DType::F32, scores.device()));
    let seen = number(scores.size(-1)).le(number(scores.size(-2)).unsqueeze(1) + more);
    seen.where_(&scores, f64::NEG_INFINITY)
}

fn main() -> Result<(), thalweg::Error> {
    let gpu = Device::from_name("cuda:0")?;
    let functions: [(&str, Function); 8] = [
        ("full", |x| attend(x, 0.125, |s| s)),
        ("scaled below zero", |x| attend(x, -0.125, |s| s)),
        ("causal", |x| attend(x, 0.125, |s| causal(s, 0.0))),
        ("causal, ahead", |x| attend(x, 0.125, |s| causal(s, 70.0))),
        ("causal, behind", |x| attend(x, 0.125, |s| causal(s, -100.0))),
        ("masked", |x| attend(x, 0.125, |s| s + x[3].cast(DType::F32))),
        ("product", |x| x[0].matmul(&x[1].transpose(-1, -2))),
        ("product and gelu", |x| (x[0].matmul(&x[1].transpose(-1, -2)) + &x[3]).gelu()),
    ];
    // Heads, rows, keys, terms.
    let shapes =
        [[48, 600, 600, 64], [33, 1023, 700, 64], [60, 300, 513, 128], [150, 129, 1000, 40], [9, 2052, 1999, 64]];
    let mut wrong = 0;
    for [heads, rows, keys, d] in shapes {
        for dtype in [DType::BF16, DType::F16] {
            manual_seed(rows as u64);
            let random = |shape: &[usize]| Tensor::randn(shape).cast(dtype);
            let x = [
                random(&[heads, rows, d]),
                random(&[heads, keys, d]),
                random(&[heads, keys, d]),
                random(&[rows, keys]),
            ];
            let there = x.iter().map(|x| x.to_device(gpu)).collect::<Result<Vec<_>, _>>()?;
            for (name, f) in functions {
                let first = f(&there);
                thalweg::synchronize()?;
                let wide = |y: &Tensor| y.to_device(Device::cpu())?.cast(DType::F32).to_vec::<f32>();
                let (want, got) = (wide(&f(&x))?, wide(&first)?);
                let most = want.iter().filter(|v| v.is_finite()).fold(1.0f32, |m, v| m.max(v.abs()));
                let same = |(a, b): (&f32, &f32)| a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-2 * most;
                if let Some(i) = want.iter().zip(&got).position(|pair| !same(pair)) {
                    println!(
                        "{name} of {} {heads} {rows} {keys} {d}: {} and not {} at {i}",
                        dtype.name(),
                        got[i],
                        want[i]
                    );
                    wrong += 1;
                }
                for run in 0..RUNS {
                    let again = f(&there);
                    thalweg::synchronize()?;
                    // NaN is not compared.
                    if (again.eq(&first) | again.ne(&again)).all(..).to_vec::<bool>()? != [true] {
                        println!("{name} of {} {heads} {rows} {keys} {d}: other bits in run {run}", dtype.name());
                        wrong += 1;
                        break;
                    }
                }
            }
        }
        println!("{heads} heads of {rows} rows, {keys} keys, {d} terms compared");
    }
    println!("{wrong} of {} are wrong", shapes.len() * 2 * functions.len());
    std::process::exit(i32::from(wrong > 0));
}
