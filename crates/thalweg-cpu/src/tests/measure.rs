//! Benchmarks, not tests: `cargo test --release -p thalweg-cpu measure -- --ignored --nocapture --test-threads 1`.

use super::upload;
use crate::threads::Threads;
use crate::{CpuDevice, CpuOptions};
use std::sync::Arc;
use std::time::Instant;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Scalar, ScanOp};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, BodyBuilder, Contraction, ContractionGeometry, Geometry, Kernel, MapGeometry,
    MatmulGeometry, Node, Precision,
};
use thalweg_runtime::{Buffer, Device};

/// Measures the shortest time of a launch, in nanoseconds.
fn best(device: &CpuDevice, kernel: &Kernel, geometry: &Geometry, operands: &[&Buffer]) -> f64 {
    let program = device.program(kernel).unwrap();
    let scalars = [Scalar::Float(1.5).to_bits(DType::F32); 4];
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut rounds = 0;
    while rounds < 5 || begin.elapsed().as_millis() < 150 {
        let start = Instant::now();
        program.launch(geometry, operands, &scalars).unwrap();
        best = best.min(start.elapsed().as_nanos() as f64);
        rounds += 1;
    }
    best
}

fn devices() -> [(usize, Arc<CpuDevice>); 2] {
    let n = CpuOptions::default().threads;
    [1, n].map(|t| (t, CpuDevice::with(CpuOptions { threads: t, ..CpuOptions::default() })))
}

#[test]
#[ignore = "measures"]
fn bandwidth() {
    println!("{:.1?}", crate::bandwidth::measure(CpuOptions::default().threads));
}

#[test]
#[ignore = "measures"]
fn products() {
    for (threads, device) in devices() {
        for (m, n, k) in [(64, 64, 64), (256, 256, 256), (512, 512, 512), (2048, 2048, 2048), (1, 4096, 4096)] {
            for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
                let [a, b, c] = [m * k, k * n, m * n].map(|n| upload(&*device, &vec![0u8; n * dtype.size()]));
                let geometry = MatmulGeometry {
                    batch: vec![],
                    m,
                    n,
                    k,
                    a: (0, k as isize, 1),
                    b: (0, n as isize, 1),
                    reach: [None, None],
                };
                let ns = best(
                    &device,
                    &Kernel::Contraction(Contraction::unfused(dtype, Precision::Full)),
                    &Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry))),
                    &[&a, &b, &c],
                );
                print!("{threads} threads {m}×{k}×{n} {dtype}: {:.1} Gop/s  ", (2 * m * n * k) as f64 / ns);
            }
            println!();
        }
    }
}

/// Builds the map `y = op(x)`, with `x` read by these strides.
fn map(op: ElementOp, strides: &[isize], extents: &[usize], class: AccessClass) -> (Kernel, Geometry) {
    let mut b = BodyBuilder::new(false);
    let from = b.access(Access { operand: Some(0), dtype: DType::F32, class, per_row: false });
    let x = b.node(Node::Load { access: from });
    let y = match op.row().arity {
        1 => b.element(op, &[x]),
        _ => {
            let s = b.scalar(0, DType::F32);
            b.element(op, &[x, s])
        }
    };
    let to = b.access(Access { operand: Some(1), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
    b.store(y, to);
    let points = extents.iter().product();
    let mut input =
        AccessGeometry { base: 0, strides: [0; MAX_RANK], map: None, reach: Some((0, points - 1)), distinct: points };
    let mut output = input.clone();
    input.strides[..strides.len()].copy_from_slice(strides);
    output.strides = thalweg_ir::Shape::new(extents).strides();
    (Kernel::Map(b.finish()), Geometry::Map(MapGeometry { extents: extents.to_vec(), accesses: vec![input, output] }))
}

#[test]
#[ignore = "measures"]
fn maps() {
    for (threads, device) in devices() {
        for n in [1usize << 6, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 25] {
            let (x, y) = (upload(&*device, &vec![0.5f32; n]), device.allocate(n * 4).unwrap());
            print!("{threads} threads {n:9}");
            for op in [ElementOp::Mul, ElementOp::Tanh, ElementOp::Erf] {
                let (kernel, geometry) = map(op, &[1], &[n], AccessClass::Contiguous);
                let ns = best(&device, &kernel, &geometry, &[&x, &y]);
                print!(
                    "  {} {:.1} µs {:.3} ns/elem {:.1} GB/s",
                    op.name(),
                    ns / 1e3,
                    ns / n as f64,
                    8.0 * n as f64 / ns
                );
            }
            println!();
        }
        for n in [500usize, 1000, 1024, 4096] {
            let (x, y) = (upload(&*device, &vec![0.5f32; n * n]), device.allocate(n * n * 4).unwrap());
            let (kernel, geometry) = map(ElementOp::Mul, &[1, n as isize], &[n, n], AccessClass::Strided);
            let ns = best(&device, &kernel, &geometry, &[&x, &y]);
            println!(
                "{threads} threads transposed {n}²: {:.3} ns/elem {:.1} GB/s",
                ns / (n * n) as f64,
                8.0 * (n * n) as f64 / ns
            );
        }
    }
}

/// Measures scans of a long row and of several long columns, on one thread and on all threads.
#[test]
#[ignore = "measures"]
fn scans() {
    let threads = Threads::new(CpuOptions::default().threads, 30_000.0);
    let mut rng = super::Lcg(1);
    for [n, width] in [[4000usize, 1], [1 << 17, 1], [1 << 20, 1], [1 << 24, 1], [1 << 17, 8], [1 << 14, 256]] {
        let x: Vec<f32> = (0..n * width).map(|_| rng.value() as f32).collect();
        let mut y = vec![0i64; n * width];
        print!("{n:9} × {width:3}");
        for op in [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Argsort] {
            print!("  {}", op.name());
            for threads in [None, Some(&threads)] {
                let mut best = f64::INFINITY;
                for _ in 0..5 {
                    let start = Instant::now();
                    let (from, to) = (x.as_ptr().cast(), y.as_mut_ptr().cast());
                    // SAFETY: the vectors have that many elements, the results at most 8 bytes each.
                    unsafe { crate::scan::scan((op, false), DType::F32, from, to, [n, width], threads) };
                    best = best.min(start.elapsed().as_nanos() as f64);
                }
                print!(" {:.2}", best / (n * width) as f64);
            }
            print!(" ns");
        }
        println!();
    }
}

/// Measures the amount of work at which a second thread pays off: the time on one thread, and on two threads, one of
/// which must be woken.
#[test]
#[ignore = "measures"]
fn threshold() {
    let alone = CpuDevice::with(CpuOptions { threads: 1, ..CpuOptions::default() });
    let both = CpuDevice::with(CpuOptions { threads: 2, parallel_ns: 0.0, ..CpuOptions::default() });
    for n in [1usize << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21] {
        let (x, y) = (upload(&*alone, &vec![0.5f32; n]), alone.allocate(n * 4).unwrap());
        for op in [ElementOp::Mul, ElementOp::Erf] {
            let (kernel, geometry) = map(op, &[1], &[n], AccessClass::Contiguous);
            let times: Vec<f64> = [&alone, &both]
                .iter()
                .map(|device| {
                    // The median of calls with pauses between them: sleeping helpers must be woken.
                    let program = device.program(&kernel).unwrap();
                    let mut times: Vec<f64> = (0..200)
                        .map(|_| {
                            std::thread::sleep(std::time::Duration::from_micros(200));
                            let start = Instant::now();
                            let scalars = [Scalar::Float(1.5).to_bits(DType::F32)];
                            program.launch(&geometry, &[&x, &y], &scalars).unwrap();
                            start.elapsed().as_nanos() as f64 / 1e3
                        })
                        .collect();
                    times.sort_by(f64::total_cmp);
                    times[times.len() / 2]
                })
                .collect();
            println!("{n:8} {:5}: 1 thread {:.1} µs, 2 threads {:.1} µs", op.name(), times[0], times[1]);
        }
    }
}
