//! Times unfused matrix products, one request at a time, so that measurements can alternate with those of other
//! libraries.
//!
//! In: lines `DTYPE BATCH M N K THREADS LEFT RIGHT SECONDS`; LEFT and RIGHT are `n` (row-major) or `t` (transposed);
//! DTYPE `sum` times a plain sum of the right factor's bytes. Out: a line with nanoseconds per call: median and minimum
//! of the wall-clock time, and the same of the process's CPU time, which other programs disturb less.

use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, Instant};
use thalweg_cpu::{CpuDevice, CpuOptions};
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel, MatmulGeometry, Precision};
use thalweg_runtime::{Buffer, Device};

/// Sizes of one request.
struct Asked {
    dtype: String,
    sizes: [usize; 5],
    turned: [bool; 2],
    time: Duration,
}

fn parse(line: &str) -> Asked {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize| words[i].parse().expect("a number");
    Asked {
        dtype: words[0].to_owned(),
        sizes: [number(1), number(2), number(3), number(4), number(5)],
        turned: [words[6] == "t", words[7] == "t"],
        time: Duration::from_secs_f64(words[8].parse().expect("seconds")),
    }
}

fn filled(device: &dyn Device, elements: usize, dtype: DType) -> Buffer {
    let buffer = device.allocate(elements * dtype.size()).expect("memory");
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let bytes: Vec<u8> = match dtype {
        DType::F64 => (0..elements).flat_map(|_| (next() as f64).to_le_bytes()).collect(),
        DType::F32 => (0..elements).flat_map(|_| next().to_le_bytes()).collect(),
        DType::BF16 => (0..elements).flat_map(|_| ((next().to_bits() >> 16) as u16).to_le_bytes()).collect(),
        _ => (0..elements * dtype.size()).map(|_| (next() * 100.0) as i8 as u8).collect(),
    };
    device.write(&buffer, &bytes).expect("a write");
    buffer
}

/// CPU time of this process, in nanoseconds.
fn processor() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn timed(time: Duration, mut call: impl FnMut()) -> String {
    call();
    let (begin, mut clock, mut taken) = (Instant::now(), Vec::new(), Vec::new());
    while clock.len() < 3 || begin.elapsed() < time {
        let (before, start) = (processor(), Instant::now());
        call();
        clock.push(start.elapsed().as_nanos() as f64);
        taken.push(processor() - before);
    }
    clock.sort_by(f64::total_cmp);
    taken.sort_by(f64::total_cmp);
    let middle = clock.len() / 2;
    format!("{} {} {} {}", clock[middle], clock[0], taken[middle], taken[0])
}

fn main() {
    let mut buffers: HashMap<String, [Buffer; 3]> = HashMap::new();
    let mut devices: HashMap<usize, std::sync::Arc<CpuDevice>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let asked = parse(&line.expect("a line"));
        let [batch, m, n, k, threads] = asked.sizes;
        let dtype = match asked.dtype.as_str() {
            "f64" => DType::F64,
            "bf16" => DType::BF16,
            "i32" => DType::I32,
            "i8" => DType::I8,
            _ => DType::F32,
        };
        let device = devices.entry(threads).or_insert_with(|| {
            let options = CpuOptions::from_environment().expect("an environment that is right");
            CpuDevice::with(CpuOptions { threads, ..options })
        });
        let key = format!("{dtype} {batch} {m} {n} {k}");
        buffers.retain(|k, _| *k == key);
        let [a, b, c] = buffers
            .entry(key)
            .or_insert_with(|| [m * k, k * n, m * n].map(|elements| filled(&**device, batch * elements, dtype)));
        if asked.dtype == "sum" {
            println!("{}", sum(&**device, b, batch * k * n, asked.time));
            continue;
        }
        let side = |turned: bool, rows: usize, columns: usize| match turned {
            false => (0, columns as isize, 1),
            true => (0, 1, rows as isize),
        };
        let geometry = Geometry::Contraction(Box::new(ContractionGeometry::unfused(MatmulGeometry {
            batch: if batch == 1 { vec![] } else { vec![(batch, (m * k) as isize, (k * n) as isize)] },
            m,
            n,
            k,
            a: side(asked.turned[0], m, k),
            b: side(asked.turned[1], k, n),
            reach: [None, None],
        })));
        let program =
            device.program(&Kernel::Contraction(Contraction::unfused(dtype, Precision::Full))).expect("a product");
        println!("{}", timed(asked.time, || program.launch(&geometry, &[a, b, c], &[]).expect("a launch")));
    }
}

/// Median time of a plain sum of f32.
fn sum(device: &dyn Device, of: &Buffer, elements: usize, time: Duration) -> String {
    let bytes = device.host_bytes(of).expect("memory of the host");
    // SAFETY: the buffer holds that many f32, aligned to a cache line.
    let values = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<f32>(), elements) };
    timed(time, || {
        let mut lanes = [0f32; 64];
        for chunk in values.chunks_exact(64) {
            lanes.iter_mut().zip(chunk).for_each(|(l, x)| *l += x);
        }
        std::hint::black_box(lanes);
    })
}
