//! Selections that every plan makes alike: comparisons, step functions, indices of extremes, conversions to integers,
//! and values computed from these alone.
//!
//! In a fused run that is not strict, values differ from an unfused run by rounding, except those by which something in
//! the same segment selects (`thalweg-fusion/src/exact.rs`). So the results listed here have the bits of an unfused
//! run.
//!
//! So do differences of two products of numbers in memory.
//!
//! Not listed are results that depend on sums, matrix products or normal random numbers, whose roundings vary.

use crate::program::{Argument, Program, Tensor};
use thalweg_ir::{DType, Op, OpClass, RandomKind, ReduceOp, Rounding};

/// For each step, whether its result is a selection that is the same under every plan.
pub fn alike(program: &Program) -> Vec<bool> {
    // Floats that have the bits of an unfused run if something selects by them, and integers and bools that have these
    // bits.
    let mut same: Vec<bool> = vec![];
    let mut alike = vec![];
    // For each step: numbers in memory, products of two of them, and differences of such products.
    let (mut memory, mut product, mut differences) = (vec![], vec![], vec![]);
    for step in &program.steps {
        let from_same = step.args.iter().all(|a| match a {
            Argument::Tensor(Tensor::Step(s)) => same[*s],
            Argument::Tensor(Tensor::Input(_)) | Argument::Scalar(_) => true,
        });
        let float_args = step.args.iter().any(|a| matches!(a, Argument::Tensor(t) if program.dtype(*t).is_float()));
        let info = step.op.info();
        let computed = match (info.class, info.rounding) {
            (_, Rounding::Region | Rounding::Unknown) => false,
            (OpClass::Random, _) => step.op != Op::Random(RandomKind::Normal),
            (OpClass::Scatter, _) | (_, Rounding::Accumulates) => {
                info.class != OpClass::Matmul && !step.dtype.is_float() && !float_args
            }
            (_, Rounding::Copies | Rounding::Extreme | Rounding::Rounds) => true,
        };
        let of = |known: &[bool], inputs: bool| {
            step.args.iter().all(|a| match a {
                Argument::Tensor(Tensor::Step(s)) => known[*s],
                Argument::Tensor(Tensor::Input(_)) | Argument::Scalar(_) => inputs,
            })
        };
        let chosen = match step.op {
            Op::Element(e) => e.row().is_exact(),
            Op::Reduce(ReduceOp::Max | ReduceOp::Min) => true,
            op => op.is_view(),
        };
        use thalweg_ir::ElementOp::{Mul, Sqrt, Square, Sub};
        let wide = matches!(step.dtype, DType::F32 | DType::F64);
        let is_product = wide && matches!(step.op, Op::Element(Mul | Square)) && of(&memory, true);
        let difference = wide && step.op == Op::Element(Sub) && of(&product, false);
        let root = step.op == Op::Element(Sqrt) && of(&differences, false);
        memory.push(chosen && of(&memory, true));
        product.push(is_product || chosen && of(&product, false));
        differences.push(difference);
        same.push(from_same && computed);
        let selects = match step.op {
            Op::Element(e) => e.row().selects(),
            _ => false,
        };
        alike.push(difference || root || from_same && computed && (selects || !step.dtype.is_float()));
    }
    alike
}
