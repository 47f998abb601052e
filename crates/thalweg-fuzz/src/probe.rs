//! An operation is its row: `Probe`, which no other file knows, runs on the interpreter, on every engine of the CPU, on
//! the emulated GPU, and in random programs.

use crate::check::{Checker, Ways};
use crate::generate;
use crate::program::{Argument, Input, Program, Step, Tensor};
use std::sync::Arc;
use thalweg_cpu::{Choice as CpuEngine, CpuDevice, CpuOptions};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, Shape};
use thalweg_runtime::Device;
use thalweg_stream::DeviceRef;

/// `sum(probe(x)·2, 1)` and the probe itself, of a dtype.
fn program(dtype: DType) -> Program {
    let shape = Shape::new(&[7, 37]);
    let values = (0..shape.numel()).map(|i| (i as f64 - 130.0) / 7.0);
    let bytes = values.flat_map(|v| {
        let bits = thalweg_ir::Scalar::Float(v).to_bits(dtype);
        bits.to_le_bytes().into_iter().take(dtype.size()).collect::<Vec<_>>()
    });
    let step = |op, shape, attr, args, kept| Step { op, dtype, shape, attr, args, ints: vec![], kept };
    let of = |n| Argument::Tensor(Tensor::Step(n));
    let two = Argument::Scalar(thalweg_ir::Scalar::Float(2.0).to_bits(dtype));
    let steps = vec![
        step(Op::Element(ElementOp::Probe), shape, 0, vec![Argument::Tensor(Tensor::Input(0))], true),
        step(Op::Element(ElementOp::Mul), shape, 0, vec![of(0), two], false),
        step(Op::Reduce(ReduceOp::Sum), Shape::new(&[7]), 0b10, vec![of(1)], true),
    ];
    Program { inputs: vec![Input { dtype, shape, bytes: bytes.collect() }], steps }
}

fn checks(device: DeviceRef, on_gpu: bool) {
    let checker = if on_gpu { Checker::on_gpu(device) } else { Checker::new(device, device) };
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        checker.check(&program(dtype), Ways { threads: false, plans: true }).unwrap_or_else(|e| panic!("{dtype}: {e}"));
    }
}

#[test]
fn a_row_is_all_that_an_operation_takes_on_every_engine_of_the_cpu() {
    let engines = [CpuEngine::Avx512, CpuEngine::Avx2, CpuEngine::Tile];
    for isa in engines.into_iter().filter(|e| e.available()) {
        let options = CpuOptions { threads: 2, parallel_ns: 30_000.0, isa };
        checks(DeviceRef::register(CpuDevice::with(options) as Arc<dyn Device>), false);
    }
}

#[cfg(feature = "emulate")]
#[test]
fn a_row_is_all_that_an_operation_takes_on_a_gpu() {
    checks(DeviceRef::register(thalweg_cuda::CudaDevice::open("cuda:emulated").expect("a C++ compiler")), true);
}

#[test]
fn random_programs_have_it() {
    let probes = |p: &Program| p.steps.iter().any(|s| s.op == Op::Element(ElementOp::Probe));
    assert!((0..2000).any(|seed| probes(&generate::program(seed))));
}
