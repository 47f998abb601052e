//! Prints the throughput of the tile engine: nanoseconds per element, best of many runs on one thread, 64 Ki elements.

use std::time::Instant;
use thalweg_cpu::row_call::Rows;
use thalweg_cpu::tile::compile;
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Access, AccessClass, BodyBuilder, Node, NodeId};

/// Builds a kernel's result from its two inputs.
type Make = fn(&mut BodyBuilder, NodeId, NodeId) -> NodeId;

fn constant(b: &mut BodyBuilder, like: NodeId, v: f64) -> NodeId {
    let dtype = b.body().dtype(like);
    b.constant(Scalar::Float(v), dtype)
}

fn main() {
    use ElementOp::*;
    let kernels: &[(&str, DType, Make)] = &[
        ("x + y", DType::F32, |b, x, y| b.element(Add, &[x, y])),
        ("3x", DType::F32, |b, x, _| {
            let c = constant(b, x, 3.0);
            b.element(Mul, &[x, c])
        }),
        ("3x", DType::BF16, |b, x, _| {
            let c = constant(b, x, 3.0);
            b.element(Mul, &[x, c])
        }),
        ("3x", DType::I32, |b, x, _| {
            let c = constant(b, x, 3.0);
            b.element(Mul, &[x, c])
        }),
        ("tanh(2x + 1)", DType::F32, |b, x, _| {
            let (two, one) = (constant(b, x, 2.0), constant(b, x, 1.0));
            let t = b.element(Mul, &[x, two]);
            let t = b.element(Add, &[t, one]);
            b.element(Tanh, &[t])
        }),
        ("x/2·(1 + erf(x/√2))", DType::F32, |b, x, _| {
            let (half, one, root) = (constant(b, x, 0.5), constant(b, x, 1.0), constant(b, x, 0.5f64.sqrt()));
            let e = b.element(Mul, &[x, root]);
            let e = b.element(Erf, &[e]);
            let e = b.element(Add, &[e, one]);
            let h = b.element(Mul, &[x, half]);
            b.element(Mul, &[h, e])
        }),
        ("exp", DType::F32, |b, x, _| b.element(Exp, &[x])),
        ("log", DType::F32, |b, x, _| b.element(Log, &[x])),
        ("sin", DType::F32, |b, x, _| b.element(Sin, &[x])),
        ("sigmoid", DType::F32, |b, x, _| b.element(Sigmoid, &[x])),
        ("atan2", DType::F32, |b, x, y| b.element(Atan2, &[x, y])),
        ("pow", DType::F32, |b, x, y| b.element(Pow, &[x, y])),
        ("exp", DType::F64, |b, x, _| b.element(Exp, &[x])),
        ("log", DType::F64, |b, x, _| b.element(Log, &[x])),
        ("pow", DType::F64, |b, x, y| b.element(Pow, &[x, y])),
    ];
    const N: usize = 1 << 16;
    for &(name, dtype, make) in kernels {
        let mut b = BodyBuilder::new(false);
        let access = |operand| Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false };
        let (a, c) = (b.access(access(0)), b.access(access(1)));
        let (x, y) = (b.node(Node::Load { access: a }), b.node(Node::Load { access: c }));
        let v = make(&mut b, x, y);
        let out = b.access(access(2));
        b.store(v, out);
        let program = compile(&b.finish());
        let mut memory = vec![0u64; 3 * N];
        let size = dtype.size();
        let base = memory.as_mut_ptr().cast::<u8>();
        for i in 0..2 * N {
            let v = 0.1 + (i % 997) as f64 / 500.0;
            // SAFETY: the two inputs are the first 2·N elements of memory for 3·N of the widest type.
            unsafe {
                match dtype {
                    DType::F32 => base.cast::<f32>().add(i).write(v as f32),
                    DType::F64 => base.cast::<f64>().add(i).write(v),
                    DType::I32 => base.cast::<i32>().add(i).write(i as i32),
                    _ => base.cast::<u16>().add(i).write(0x3f80 + (i % 128) as u16),
                }
            }
        }
        let words: Vec<u64> =
            (0..3).flat_map(|k| [base as u64 + (k * N * size) as u64, (N * size) as u64, 0, 0]).collect();
        let mut best = f64::INFINITY;
        for _ in 0..300 {
            let start = Instant::now();
            // SAFETY: the words describe three spans of N elements.
            unsafe { program.run(&words, N, 1) };
            best = best.min(start.elapsed().as_nanos() as f64 / N as f64);
        }
        println!("{:24} {:5} {best:7.3} ns/element", name, dtype.name());
    }
}
