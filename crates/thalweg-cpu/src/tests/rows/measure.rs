//! Benchmarks, not tests: `cargo test --release -p thalweg-cpu rows::measure -- --ignored --nocapture --test-threads
//! 1`.

use super::*;
use crate::tests::upload;
use std::time::Instant;
use thalweg_runtime::Buffer;

/// Measures the shortest time of a launch, in nanoseconds.
fn best(device: &CpuDevice, kernel: &Kernel, geometry: &Geometry, operands: &[&Buffer]) -> f64 {
    let program = device.program(kernel).unwrap();
    let scalars = [Scalar::Float(1.5).to_bits(DType::F32); 4];
    let begin = Instant::now();
    let (mut best, mut rounds) = (f64::INFINITY, 0);
    while rounds < 5 || begin.elapsed().as_millis() < 60 {
        let start = Instant::now();
        program.launch(geometry, operands, &scalars).unwrap();
        best = best.min(start.elapsed().as_nanos() as f64);
        rounds += 1;
    }
    best
}

#[test]
#[ignore = "measures"]
fn rows() {
    let shapes = [
        domain(&[64, 1024], &[1]),
        domain(&[1024, 64], &[0]),
        domain(&[1000, 1000], &[1]),
        domain(&[1000, 1000], &[0]),
        domain(&[4096, 4096], &[1]),
        domain(&[4096, 4096], &[0]),
        domain(&[1_000_000, 4], &[0]),
        domain(&[1_000_000, 4], &[1]),
        domain(&[100, 100, 100], &[1]),
        domain(&[3, 1_000_000], &[0]),
        domain(&[16_000_000], &[0]),
    ];
    for threads in [1, CpuOptions::default().threads] {
        let device = CpuDevice::with(CpuOptions { threads, ..CpuOptions::default() });
        for domain in &shapes {
            let elements: usize = domain.shape.iter().product();
            print!("{threads} threads {:18} {:4}", format!("{:?}", domain.shape), format!("{:?}", domain.folded));
            for orientation in [Orientation::InnerAxis, Orientation::OuterAxis] {
                print!("  | {orientation:?}");
                type Build = fn(&mut Case, &mut Lcg);
                let builds: [(&str, Build, usize); 3] = [
                    ("sum", |c, r| plain(c, r, Lies::Dense, Monoid::Sum, DType::F32), 4),
                    ("softmax", softmax, 8),
                    ("norm", |c, r| layer_norm(c, r, Lies::Dense), 8),
                ];
                for (name, build, bytes) in builds {
                    let mut case = Case::new(domain, orientation);
                    build(&mut case, &mut Lcg(1));
                    let (body, geometry, operands) = case.finish();
                    let buffers: Vec<_> = operands.iter().map(|o| upload(&*device, o)).collect();
                    let refs: Vec<_> = buffers.iter().collect();
                    let kernel = Kernel::Rows { body, orientation };
                    let ns = best(&device, &kernel, &Geometry::Rows(geometry), &refs);
                    let engine = device.program(&kernel).unwrap().info().engine;
                    print!(" {name} {:5.1}{}", (elements * bytes) as f64 / ns, if engine == "tile" { "*" } else { "" });
                }
            }
            println!();
        }
    }
}
