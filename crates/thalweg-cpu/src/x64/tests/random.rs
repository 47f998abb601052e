//! Random bodies over all dtypes, access classes, tails and rows.

use super::evaluate::Launch;
use super::{Knobs, Rng, isas};
use thalweg_ir::element::Output;
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId};

/// Operations whose result is exact, or rounded once.
const BASIC: &[ElementOp] = {
    use ElementOp::*;
    &[
        Neg, Abs, Sign, Square, Sqrt, Relu, Floor, Ceil, Round, Trunc, IsNan, IsInf, IsFinite, Not, BitNot, Add, Sub,
        Mul, Div, FloorDiv, Rem, Minimum, Maximum, Eq, Ne, Lt, Le, Gt, Ge, And, Or, Xor, BitAnd, BitOr, BitXor, Shl,
        Shr, Where, Clamp,
    ]
};

fn takes(op: ElementOp, dtype: DType) -> bool {
    let float_only = dtype.is_float() && op == ElementOp::Rem;
    op.row().takes.has(dtype)
        && !float_only
        && !(dtype == DType::I64 && matches!(op, ElementOp::Div | ElementOp::FloorDiv | ElementOp::Rem))
}

const CLASSES: [AccessClass; 4] =
    [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Strided, AccessClass::Mapped];

fn random_body(r: &mut Rng, dtypes: &[DType], size: usize) -> Body {
    let mut b = BodyBuilder::new(true);
    let mut nodes: Vec<NodeId> = Vec::new();
    let mut operand = 0;
    for k in 0..2 + r.below(3) {
        let dtype = if k == 0 { dtypes[0] } else { r.pick(dtypes) };
        let class = r.pick(&CLASSES);
        let index_only = r.below(6) == 0;
        let access = b.access(Access { operand: (!index_only).then_some(operand), dtype, class });
        operand += !index_only as u16;
        if index_only || r.below(6) == 0 && class == AccessClass::Mapped {
            let v = b.node(Node::Valid { access });
            let dtype = r.pick(&[DType::U32, DType::I64]);
            let i = b.node(Node::Index { access, dtype });
            // Masked-out positions are unspecified.
            let zero = b.constant(Scalar::Int(0), dtype);
            let i = b.element(ElementOp::Where, &[v, i, zero]);
            if index_only {
                nodes.extend([v, i]);
                continue;
            }
        }
        nodes.push(b.node(Node::Load { access }));
    }
    if r.below(2) == 0 {
        nodes.push(b.scalar(0, dtypes[0]));
    }
    for _ in 0..1 + r.below(size) {
        let x = r.pick(&nodes);
        let d = b.body().dtype(x);
        if r.below(5) == 0 {
            let to = r.pick(dtypes);
            nodes.push(b.cast(x, to));
            continue;
        }
        let op = r.pick(BASIC);
        if !takes(op, d) {
            continue;
        }
        let same: Vec<NodeId> = nodes.iter().copied().filter(|n| b.body().dtype(*n) == d).collect();
        let mut args: Vec<NodeId> = (0..op.row().arity).map(|_| r.pick(&same)).collect();
        if r.below(4) == 0 && args.len() > 1 {
            let v = if d.is_float() { r.below(9) as f64 / 4.0 } else { r.below(20) as f64 };
            *args.last_mut().unwrap() = b.constant(Scalar::Float(v), d);
        }
        if op == ElementOp::Where {
            let masks: Vec<NodeId> = nodes.iter().copied().filter(|n| b.body().dtype(*n) == DType::Bool).collect();
            if masks.is_empty() {
                continue;
            }
            args[0] = r.pick(&masks);
        }
        debug_assert!(op.row().output == Output::Bool || op.row().output == Output::Same);
        nodes.push(b.element(op, &args));
    }
    for k in 0..1 + r.below(2) {
        let node = nodes[nodes.len() - 1 - k % nodes.len()];
        let dtype = b.body().dtype(node);
        let access = b.access(Access { operand: Some(operand), dtype, class: AccessClass::Contiguous });
        operand += 1;
        b.store(node, access);
    }
    b.finish()
}

fn rows(body: &Body, r: &mut Rng) -> usize {
    if body.accesses.iter().any(|a| a.class == AccessClass::Mapped) { r.below(2) } else { r.below(4) }
}

fn sweep(
    seed: u64,
    count: usize,
    dtypes: impl Fn(&mut Rng) -> Vec<DType>,
    size: usize,
    knobs: impl Fn(&mut Rng) -> Knobs,
) -> usize {
    let mut r = Rng(seed);
    let mut taken = 0;
    for _ in 0..count {
        let d = dtypes(&mut r);
        let body = random_body(&mut r, &d, size);
        let (n, knobs) = (r.below(71), knobs(&mut r));
        let rows = rows(&body, &mut r);
        for isa in isas() {
            let mut launch = Launch::new(&body, &mut r, n, rows);
            taken += launch.check(&body, isa, knobs) as usize;
        }
    }
    taken
}

fn default(_: &mut Rng) -> Knobs {
    Knobs::default()
}

#[test]
fn one_dtype_at_a_time() {
    for (k, d) in DType::ALL.into_iter().enumerate() {
        let taken = sweep(7 + k as u64, 250, |_| vec![d], 12, default);
        assert!(taken > 200 * isas().count(), "{d}: {taken}");
    }
}

#[test]
fn dtypes_that_meet() {
    let taken = sweep(99, 3000, |r| (0..3).map(|_| r.pick(&DType::ALL)).collect(), 16, default);
    assert!(taken > 2000 * isas().count(), "{taken}");
}

#[test]
fn few_registers_spill_and_agree() {
    let knobs = |r: &mut Rng| Knobs { registers: Some(5 + r.below(3)), copies: Some(r.pick(&[1, 2, 4])) };
    let taken = sweep(4242, 1500, |r| (0..2).map(|_| r.pick(&DType::ALL)).collect(), 40, knobs);
    assert!(taken > 800 * isas().count(), "{taken}");
}

#[test]
fn every_length_of_a_copy() {
    let mut r = Rng(5);
    for d in DType::ALL {
        for class in CLASSES {
            let mut b = BodyBuilder::new(true);
            let from = b.access(Access { operand: Some(0), dtype: d, class });
            let to = b.access(Access { operand: Some(1), dtype: d, class: AccessClass::Contiguous });
            let x = b.node(Node::Load { access: from });
            b.store(x, to);
            let body = b.finish();
            for n in 0..=70 {
                for isa in isas() {
                    let rows = rows(&body, &mut r);
                    assert!(Launch::new(&body, &mut r, n, rows).check(&body, isa, Knobs::default()));
                }
            }
        }
    }
}
