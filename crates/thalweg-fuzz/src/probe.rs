//! Checks that a table row suffices for an operation or a monoid: the two `Probe` rows, which no other file mentions,
//! run on the interpreter, on every CPU engine, on the emulated GPU, and in random programs.

use crate::check::{Checker, ExtraChecks};
use crate::generate;
use crate::program::{Argument, Input, Program, Step, Tensor};
use std::sync::Arc;
use thalweg_cpu::{Choice as CpuEngine, CpuDevice, CpuOptions};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, Scalar, Shape};
use thalweg_runtime::Device;
use thalweg_stream::DeviceRef;

fn input(dtype: DType, shape: Shape, value: impl Fn(usize) -> f64) -> Input {
    let bytes = (0..shape.numel()).flat_map(|i| element(dtype, value(i)));
    Input { dtype, shape, bytes: bytes.collect() }
}

fn element(dtype: DType, v: f64) -> Vec<u8> {
    match dtype {
        DType::BF16 => half::bf16::from_f64(v).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(v).to_le_bytes().to_vec(),
        _ => {
            let v = if dtype.is_float() { Scalar::Float(v) } else { Scalar::Int(dtype.wrap(v as i64)) };
            v.to_bits(dtype).to_le_bytes()[..dtype.size()].to_vec()
        }
    }
}

/// Reduction by the probe monoid over rows, columns and everything, of a product.
fn reductions(dtype: DType, shape: [usize; 2]) -> Program {
    let [rows, columns] = shape;
    let shape = Shape::new(&shape);
    let step = |op, shape, attr, args, kept| Step { op, dtype, shape, attr, args, ints: vec![], kept };
    let of = |n| Argument::Tensor(Tensor::Step(n));
    let reduced = |to: &[usize], axes, n| step(Op::Reduce(ReduceOp::Probe), Shape::new(to), axes, vec![of(n)], true);
    let two = Argument::Scalar(Scalar::Int(2).to_bits(dtype));
    let x = input(dtype, shape, |i| ((i * 7919 + i / 13) % 251) as f64 / 4.0 - 30.0);
    let steps = vec![
        step(Op::Element(ElementOp::Mul), shape, 0, vec![Argument::Tensor(Tensor::Input(0)), two], false),
        reduced(&[rows], 0b10, 0),
        reduced(&[columns], 0b01, 0),
        reduced(&[], 0b11, 0),
    ];
    Program { inputs: vec![x], steps }
}

/// `sum(probe(x)·2, 1)` and the probe itself, for a dtype.
fn operations(dtype: DType) -> Program {
    let shape = Shape::new(&[7, 37]);
    let step = |op, shape, attr, args, kept| Step { op, dtype, shape, attr, args, ints: vec![], kept };
    let of = |n| Argument::Tensor(Tensor::Step(n));
    let two = Argument::Scalar(Scalar::Float(2.0).to_bits(dtype));
    let steps = vec![
        step(Op::Element(ElementOp::Probe), shape, 0, vec![Argument::Tensor(Tensor::Input(0))], true),
        step(Op::Element(ElementOp::Mul), shape, 0, vec![of(0), two], false),
        step(Op::Reduce(ReduceOp::Sum), Shape::new(&[7]), 0b10, vec![of(1)], true),
    ];
    Program { inputs: vec![input(dtype, shape, |i| (i as f64 - 130.0) / 7.0)], steps }
}

fn checks(device: DeviceRef, on_gpu: bool) {
    let checker = if on_gpu { Checker::on_gpu(device) } else { Checker::new(device, device) };
    let runs = |program: &Program, dtype| {
        checker
            .check(program, ExtraChecks { threads: false, plans: true, near: true, scalars: true })
            .unwrap_or_else(|e| panic!("{dtype}: {e}"));
    };
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        runs(&operations(dtype), dtype);
    }
    // Rows shorter and longer than the lanes of a reduction, and (once) than its blocks.
    runs(&reductions(DType::F32, [2, 9001]), DType::F32);
    // Each program costs seconds of a GPU's compiler.
    let dtypes =
        [DType::F32, DType::I32, DType::BF16, DType::F64, DType::I8, DType::I64, DType::U32, DType::U16, DType::U64];
    for dtype in dtypes.into_iter().take(if on_gpu { 2 } else { dtypes.len() }) {
        for shape in [[7, 37], [2, 1030], [150, 5], [0, 3]] {
            runs(&reductions(dtype, shape), dtype);
        }
    }
}

#[test]
fn a_row_is_all_that_an_operation_or_a_monoid_takes_on_every_engine_of_the_cpu() {
    let engines = [CpuEngine::Avx512, CpuEngine::Avx2, CpuEngine::Tile];
    for isa in engines.into_iter().filter(|e| e.available()) {
        let options = CpuOptions { threads: 2, parallel_ns: 30_000.0, isa };
        checks(DeviceRef::register(CpuDevice::with(options) as Arc<dyn Device>), false);
    }
}

#[cfg(feature = "emulate")]
#[test]
fn a_row_is_all_that_an_operation_or_a_monoid_takes_on_a_gpu() {
    checks(DeviceRef::register(thalweg_cuda::CudaDevice::open("cuda:emulated").expect("a C++ compiler")), true);
}

#[test]
fn random_programs_have_it() {
    for probe in [Op::Element(ElementOp::Probe), Op::Reduce(ReduceOp::Probe)] {
        let probes = |p: &Program| p.steps.iter().any(|s| s.op == probe);
        assert!((0..2000).any(|seed| probes(&generate::program(seed))), "{probe:?}");
    }
}
