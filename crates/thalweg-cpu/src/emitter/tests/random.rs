//! Tests of random map bodies over all dtypes, access classes, row lengths and numbers of rows.

use super::evaluate::Launch;
use super::{Options, Rng, isas};
use crate::row_call::Rows;
use thalweg_ir::element::Output;
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId};

/// Operations whose result is exact or rounded once.
pub const BASIC: &[ElementOp] = {
    use ElementOp::*;
    &[
        Neg, Abs, Sign, Square, Sqrt, Relu, Floor, Ceil, Round, Trunc, IsNan, IsInf, IsFinite, Not, BitNot, Add, Sub,
        Mul, Div, FloorDiv, Rem, Minimum, Maximum, Eq, Ne, Lt, Le, Gt, Ge, And, Or, Xor, BitAnd, BitOr, BitXor, Shl,
        Shr, Where, Clamp,
    ]
};

pub fn takes(op: ElementOp, dtype: DType) -> bool {
    // Guarded where the quotient is large: see `remainders_are_exact_or_guarded`.
    let float_only = dtype.is_float() && op == ElementOp::Rem;
    op.row().takes.has(dtype)
        && !float_only
        && !(matches!(dtype, DType::I64 | DType::U64)
            && matches!(op, ElementOp::Div | ElementOp::FloorDiv | ElementOp::Rem))
}

pub const CLASSES: [AccessClass; 5] =
    [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Reversed, AccessClass::Strided, AccessClass::Mapped];

/// A bitcast whose argument is normalised, since the bits of NaN and the sign of zero are unspecified.
fn bitcast(b: &mut BodyBuilder, x: NodeId, to: DType) -> NodeId {
    let d = b.body().dtype(x);
    if !d.is_float() {
        return b.bitcast(x, to);
    }
    let (nan, zero) = (b.element(ElementOp::IsNan, &[x]), b.constant(Scalar::Float(0.0), d));
    let number = b.element(ElementOp::Where, &[nan, zero, x]);
    let number = b.element(ElementOp::Add, &[number, zero]);
    b.bitcast(number, to)
}

pub fn random_body(r: &mut Rng, dtypes: &[DType], size: usize) -> Body {
    let mut b = BodyBuilder::new(true);
    let mut nodes: Vec<NodeId> = Vec::new();
    let mut operand = 0;
    for k in 0..2 + r.below(3) {
        let dtype = if k == 0 { dtypes[0] } else { r.pick(dtypes) };
        let class = r.pick(&CLASSES);
        let index_only = r.below(6) == 0;
        let access = b.access(Access { operand: (!index_only).then_some(operand), dtype, class, per_row: false });
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
            let bits = to.size() == d.size() && to != DType::Bool && d != DType::Bool;
            nodes.push(if bits && r.below(2) == 0 { bitcast(&mut b, x, to) } else { b.cast(x, to) });
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
        let access = b.access(Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false });
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
    options: impl Fn(&mut Rng) -> Options,
) -> usize {
    let mut r = Rng(seed);
    let mut taken = 0;
    for _ in 0..count {
        let d = dtypes(&mut r);
        let body = random_body(&mut r, &d, size);
        let (n, options) = (r.below(71), options(&mut r));
        let rows = rows(&body, &mut r);
        for isa in isas() {
            let mut launch = Launch::new(&body, &mut r, n, rows);
            taken += launch.check(&body, isa, options) as usize;
        }
    }
    taken
}

fn default(_: &mut Rng) -> Options {
    Options::default()
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
    let options = |r: &mut Rng| Options {
        registers: Some(5 + r.below(3)),
        copies: Some(r.pick(&[1, 2, 4])),
        ..Options::default()
    };
    let taken = sweep(4242, 1500, |r| (0..2).map(|_| r.pick(&DType::ALL)).collect(), 40, options);
    assert!(taken > 800 * isas().count(), "{taken}");
}

#[test]
fn every_length_of_a_copy() {
    let mut r = Rng(5);
    for d in DType::ALL {
        for class in CLASSES {
            let mut b = BodyBuilder::new(true);
            let from = b.access(Access { operand: Some(0), dtype: d, class, per_row: false });
            let to = b.access(Access { operand: Some(1), dtype: d, class: AccessClass::Contiguous, per_row: false });
            let x = b.node(Node::Load { access: from });
            b.store(x, to);
            let body = b.finish();
            for n in 0..=70 {
                for isa in isas() {
                    let rows = rows(&body, &mut r);
                    assert!(Launch::new(&body, &mut r, n, rows).check(&body, isa, Options::default()));
                }
            }
        }
    }
}

fn ternary(dtype: DType, strict: bool, f: impl Fn(&mut BodyBuilder, [NodeId; 3]) -> NodeId) -> Body {
    let mut b = BodyBuilder::new(strict);
    let class = AccessClass::Contiguous;
    let x = [0, 1, 2].map(|k| {
        let access = b.access(Access { operand: Some(k), dtype, class, per_row: false });
        b.node(Node::Load { access })
    });
    let y = f(&mut b, x);
    let access = b.access(Access { operand: Some(3), dtype, class, per_row: false });
    b.store(y, access);
    b.finish()
}

#[test]
fn products_and_sums_contract_to_one_rounding() {
    use ElementOp::{Add, Mul, Neg, Sub};
    type Form = (fn(&mut BodyBuilder, [NodeId; 3]) -> NodeId, fn(f32, f32, f32) -> f32);
    let forms: [Form; 5] = [
        (
            |b, [x, y, z]| {
                let p = b.element(Mul, &[x, y]);
                b.element(Add, &[p, z])
            },
            |x, y, z| x.mul_add(y, z),
        ),
        (
            |b, [x, y, z]| {
                let p = b.element(Mul, &[x, y]);
                b.element(Sub, &[p, z])
            },
            |x, y, z| x.mul_add(y, -z),
        ),
        (
            |b, [x, y, z]| {
                let p = b.element(Mul, &[x, y]);
                b.element(Sub, &[z, p])
            },
            |x, y, z| (-x).mul_add(y, z),
        ),
        (
            |b, [x, y, z]| {
                let p = b.element(Mul, &[x, x]);
                let q = b.element(Add, &[p, y]);
                let q = b.element(Neg, &[q]);
                b.element(Sub, &[q, z])
            },
            |x, y, z| -x.mul_add(x, y) - z,
        ),
        (
            |b, [x, y, z]| {
                let c = b.constant(Scalar::Float(1.1), DType::F32);
                let p = b.element(Mul, &[x, c]);
                let q = b.element(Add, &[p, c]);
                let r = b.element(Mul, &[y, z]);
                let s = b.element(Add, &[q, r]);
                b.element(Add, &[s, x])
            },
            |x, y, z| y.mul_add(z, x.mul_add(1.1, 1.1)) + x,
        ),
    ];
    let mut r = Rng(8);
    for (build, want) in forms {
        let body = ternary(DType::F32, false, build);
        for isa in isas() {
            for registers in [None, Some(4)] {
                let code = super::super::compile_with(&body, isa, Options { registers, ..Options::default() }).unwrap();
                let x: Vec<Vec<f32>> =
                    (0..3).map(|_| (0..99).map(|_| (r.next() as i64 as f32) / 1e18).collect()).collect();
                let mut y = vec![0f32; 99];
                let p = [x[0].as_ptr(), x[1].as_ptr(), x[2].as_ptr(), y.as_mut_ptr()];
                let args: Vec<u64> = p.iter().flat_map(|p| [*p as u64, 0, 0, 0]).collect();
                // SAFETY: contiguous buffers of 99 elements.
                assert!(unsafe { code.run(&args, 99, 1) });
                for i in 0..99 {
                    assert_eq!(y[i].to_bits(), want(x[0][i], x[1][i], x[2][i]).to_bits());
                }
            }
        }
    }
}

#[test]
fn shifts_that_meet_are_a_rotation() {
    use ElementOp::{BitOr, Shl, Shr};
    let mut r = Rng(9);
    for c in [1, 13, 31] {
        let body = ternary(DType::U32, true, |b, [x, ..]| {
            let (n, m) = (b.constant(Scalar::Int(c), DType::U32), b.constant(Scalar::Int(32 - c), DType::U32));
            let (p, q) = (b.element(Shl, &[x, n]), b.element(Shr, &[x, m]));
            b.element(BitOr, &[p, q])
        });
        for isa in isas() {
            assert!(Launch::new(&body, &mut r, 70, 2).check(&body, isa, Options::default()));
            let code = super::super::compile(&body, isa).unwrap();
            let rotates = isa == super::Isa::Avx512;
            assert_eq!(code.report.instructions, if rotates { 3 } else { 5 });
        }
    }
}

#[test]
fn a_stride_out_of_range_is_left_to_the_slow_path() {
    let mut b = BodyBuilder::new(true);
    let from = b.access(Access { operand: Some(0), dtype: DType::F32, class: AccessClass::Strided, per_row: false });
    let to = b.access(Access { operand: Some(1), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
    let x = b.node(Node::Load { access: from });
    b.store(x, to);
    let body = b.finish();
    let (x, mut y) = ([1f32; 4], [5f32; 4]);
    for isa in isas() {
        let code = super::super::compile(&body, isa).unwrap();
        for stride in [1i64 << 25, i64::MIN, -(1 << 25) - 1] {
            let args = [x.as_ptr() as u64, 0, stride as u64, 0, y.as_mut_ptr() as u64, 0, 0, 0];
            // SAFETY: nothing is read or written: the stride is rejected.
            assert!(!unsafe { code.run(&args, 4, 1) });
            assert_eq!(y, [5.0; 4]);
        }
    }
}

#[test]
fn remainders_are_exact_or_guarded() {
    fn check<T: Copy + PartialEq>(
        dtype: DType,
        number: impl Fn(f64) -> T,
        rem: impl Fn(T, T) -> f64,
        wide: impl Fn(T) -> f64,
        far: f64,
    ) {
        let body = {
            let mut b = BodyBuilder::new(true);
            let mut access = |operand| {
                b.access(Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false })
            };
            let [x, y, to] = [access(0), access(1), access(2)];
            let [x, y] = [x, y].map(|access| b.node(Node::Load { access }));
            let r = b.element(ElementOp::Rem, &[x, y]);
            b.store(r, to);
            b.finish()
        };
        let mut r = Rng(31);
        let special = [0.0, -0.0, 1.0, -1.0, 3.0, 0.1, 1e-30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let mut pairs: Vec<(T, T)> = vec![];
        for a in special {
            pairs.extend(
                special
                    .iter()
                    .filter(|b| a.is_infinite() || a.abs() / b.abs() < far || **b == 0.0)
                    .map(|&b| (number(a), number(b))),
            );
        }
        for _ in 0..4000 {
            let mut part = || (r.below(1 << 24) as f64 - 8_388_608.0) / 2f64.powi(r.below(21) as i32);
            let (a, b) = (part(), part());
            // Quotients next to an integer, too.
            let near = b * (r.below(2000) as f64 - 1000.0);
            pairs.extend([a, near].map(|a| (number(a), number(b))).into_iter().filter(|_| b != 0.0 && a / b < far));
        }
        let pairs: Vec<(T, T)> = pairs
            .into_iter()
            .filter(|&(a, b)| !((wide(a) / wide(b)).abs() >= far && wide(b) != 0.0 && wide(a).is_finite()))
            .collect();
        let (x, y): (Vec<T>, Vec<T>) = pairs.iter().copied().unzip();
        for isa in isas() {
            let code = super::super::compile(&body, isa).unwrap();
            let mut got = vec![number(7.0); x.len()];
            let run = |x: &[T], y: &[T], got: &mut [T]| {
                let args = [x.as_ptr() as u64, 0, 1, 0, y.as_ptr() as u64, 0, 1, 0, got.as_mut_ptr() as u64, 0, 1, 0];
                // SAFETY: each buffer has that many elements.
                unsafe { code.run(&args, x.len(), 1) }
            };
            assert!(run(&x, &y, &mut got), "{isa:?}");
            for ((&a, &b), &got) in x.iter().zip(&y).zip(&got) {
                let (want, got) = (rem(a, b), wide(got));
                let same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
                assert!(same, "{isa:?}: {} % {} is {want}, got {got}", wide(a), wide(b));
            }
            for far in [(1e30, 3.0), (-1e30, 1e-3)] {
                assert!(!run(&[number(far.0)], &[number(far.1)], &mut got[..1]), "{isa:?} {far:?}");
            }
        }
    }
    // The exact remainder with the sign of the divisor.
    fn floored(r: f64, b: f64, add: impl Fn(f64, f64) -> f64) -> f64 {
        if r == 0.0 {
            r.copysign(b)
        } else if r * b.signum() < 0.0 {
            add(r, b)
        } else {
            r
        }
    }
    check::<f32>(
        DType::F32,
        |v| v as f32,
        |a, b| floored(f64::from(a % b), f64::from(b), |r, b| f64::from((r + b) as f32)),
        f64::from,
        4_194_304.0,
    );
    check::<f64>(DType::F64, |v| v, |a, b| floored(a % b, b, |r, b| r + b), |v| v, 2_251_799_813_685_248.0);
}

/// Tests random map bodies for minutes. Run with `cargo nextest run -p thalweg-cpu --run-ignored only long_sweep`.
#[test]
#[ignore = "minutes long"]
fn long_sweep() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("seed {seed}");
    let several = |r: &mut Rng| (0..1 + r.below(4)).map(|_| r.pick(&DType::ALL)).collect();
    let options = |r: &mut Rng| Options {
        registers: (r.below(2) == 0).then(|| 5 + r.below(12)),
        copies: r.pick(&[None, None, Some(1), Some(2), Some(4)]),
        ..Options::default()
    };
    sweep(seed, 60_000, several, 40, options);
}

#[test]
fn many_operands_and_large_frames() {
    // Every value is used at both ends, so all are live at once: more pointers than registers, frames of several pages.
    let mut r = Rng(21);
    for dtype in [DType::F32, DType::I16, DType::F64, DType::BF16] {
        let mut b = BodyBuilder::new(true);
        let x: Vec<NodeId> = (0..30)
            .map(|k| {
                let class = CLASSES[k as usize % 4];
                let access = b.access(Access { operand: Some(k), dtype, class, per_row: false });
                b.node(Node::Load { access })
            })
            .collect();
        let up = x.iter().copied().reduce(|a, c| b.element(ElementOp::Add, &[a, c])).unwrap();
        let down = x.iter().rev().copied().reduce(|a, c| b.element(ElementOp::Sub, &[a, c])).unwrap();
        for (k, y) in [(30, up), (31, down)] {
            let access = b.access(Access { operand: Some(k), dtype, class: AccessClass::Contiguous, per_row: false });
            b.store(y, access);
        }
        let body = b.finish();
        for isa in isas() {
            for options in [Options::default(), Options { registers: Some(5), copies: Some(4), ..Options::default() }] {
                let compiled = super::super::compile_with(&body, isa, options).map(|c| c.report);
                assert!(
                    Launch::new(&body, &mut r, 133, 3).check(&body, isa, options),
                    "{dtype} {options:?} {compiled:?}"
                );
            }
        }
    }
}
