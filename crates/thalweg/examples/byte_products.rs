//! Times GEMMs of bytes with i32 accumulators, one request at a time, like `bare_products` of `thalweg-cpu`.
//!
//! In: lines `i8 1 M N K THREADS LEFT RIGHT SECONDS`, LEFT and RIGHT being `n` (row-major) or `t` (transposed). Out: a
//! line with nanoseconds per call, the median and the minimum. A call is plain tensor code: two conversions, which are
//! the prologue of the GEMM kernel, and a product.

use std::io::BufRead;
use std::time::Instant;
use thalweg::prelude::*;
use thalweg::{CpuOptions, DType, Device, set_default_device};

/// A tensor of bytes with all values, in memory.
fn bytes(rows: usize, columns: usize, turned: bool) -> Tensor {
    let (rows, columns) = if turned { (columns, rows) } else { (rows, columns) };
    let values: Vec<i8> = (0..rows * columns).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 as i8).collect();
    let x = Tensor::from_slice(&values, [rows, columns]);
    if turned { x.t() } else { x }
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<usize>().expect("a number");
        let (m, n, k, threads) = (number(2), number(3), number(4), number(5));
        let options = CpuOptions::from_environment().expect("an environment that is right");
        set_default_device(Some(Device::new_cpu(CpuOptions { threads, ..options })));
        let (a, b) = (bytes(m, k, words[6] == "t"), bytes(k, n, words[7] == "t"));
        let seconds: f64 = words[8].parse().expect("seconds");
        let (begin, mut clock) = (Instant::now(), Vec::new());
        while clock.len() < 20 || begin.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            let sums = a.cast(DType::I32).matmul(&b.cast(DType::I32));
            thalweg::synchronize().expect("the device is well");
            clock.push(start.elapsed().as_nanos());
            drop(sums);
        }
        clock.sort_unstable();
        println!("{} {}", clock[clock.len() / 2], clock[0]);
    }
}
