mod along;
mod gathers;
mod oracle;
mod stores;

use super::compile;
use crate::row_call::Rows;
use oracle::{Operand, Val, cast, decode, encode, evaluate, memory};
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId};

const FLOATS: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    7.25,
    -30.0,
    60.0,
    0.3,
    -0.3,
    1e-3,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e30,
    -1e30,
    1e-42,
    255.0,
    300.7,
    -129.5,
    65504.0,
    0.999,
    3e9,
    -3e9,
];
const INTS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    -3,
    7,
    8,
    -8,
    31,
    32,
    33,
    64,
    100,
    127,
    128,
    -128,
    255,
    256,
    32767,
    -32768,
    65536,
    2147483647,
    -2147483648,
    4294967295,
    i64::MAX,
    i64::MIN,
];

fn points(dtype: DType) -> Vec<Val> {
    if dtype.is_float() {
        FLOATS.iter().map(|&v| Val::F(dtype.round(v))).collect()
    } else if dtype == DType::Bool {
        vec![Val::I(0), Val::I(1)]
    } else {
        let mut v: Vec<i64> = INTS.iter().map(|&v| dtype.wrap(v)).collect();
        v.sort_unstable();
        v.dedup();
        v.into_iter().map(Val::I).collect()
    }
}

fn numbers(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    }
}

/// Generates an operand of an access's class, over memory that is filled with test values of its dtype.
fn operand(a: Access, n: usize, rows: usize, seed: u64) -> Operand {
    let mut next = numbers(seed);
    let (strides, offset) = match a.class {
        AccessClass::Contiguous => ((n as i64 + (next() % 2) as i64 * 3, 1), (next() % 3) as i64),
        AccessClass::Uniform => ((next() as i64 % 3, 0), 1),
        AccessClass::Reversed => ((n as i64 + (next() % 2) as i64, -1), n as i64),
        // Descending half of the time.
        AccessClass::Strided if next().is_multiple_of(2) => ((2 * n as i64, -2), 2 * n as i64),
        AccessClass::Strided => ((1, 3), 0),
        AccessClass::Mapped => ((0, 0), 0),
    };
    let elements = (n + 4) * (rows + 3) * 3 + 16;
    let table =
        (0..n).map(|_| if next().is_multiple_of(4) { -1 } else { (next() as usize % elements) as i32 }).collect();
    let mut w = Operand { memory: memory(elements * a.dtype.size()), offset, strides, table };
    let (points, size) = (points(a.dtype), a.dtype.size());
    for at in w.memory.chunks_exact_mut(size) {
        at.copy_from_slice(&encode(a.dtype, points[next() as usize % points.len()]));
    }
    w
}

/// Runs a body and checks each stored value with `close`, which gets the index of the store, the value and the expected
/// value.
fn check(
    body: &Body,
    operands: &mut [Operand],
    scalars: &[u64],
    n: usize,
    rows: usize,
    close: &dyn Fn(usize, Val, Val) -> bool,
) {
    let mut want = vec![];
    for row in 0..rows {
        for column in 0..n {
            let seen = |a: u16| operands[a as usize].seen(body.accesses[a as usize], row, column);
            want.push(evaluate(body, &seen, scalars));
        }
    }
    let mut args: Vec<u64> = body.accesses.iter().zip(operands.iter_mut()).flat_map(|(a, w)| w.words(*a)).collect();
    args.extend(scalars);
    // SAFETY: the words describe the operands' memory, which holds every element of the points.
    assert!(unsafe { compile(body).run(&args, n, rows) });
    for row in 0..rows {
        for column in 0..n {
            for (i, s) in body.stores.iter().enumerate() {
                let a = body.accesses[s.access as usize];
                let got = operands[s.access as usize].seen(a, row, column).value.unwrap();
                let want = want[row * n + column][i];
                let want = if a.dtype.is_float() { Val::F(a.dtype.round(want.float())) } else { want };
                assert!(
                    close(i, got, want),
                    "store {i} at ({row}, {column}) of {rows}×{n}: {got:?}, want {want:?}\n{body:#?}"
                );
            }
        }
    }
}

fn exact(_: usize, got: Val, want: Val) -> bool {
    match (got, want) {
        (Val::F(g), Val::F(w)) => g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan(),
        (g, w) => g == w,
    }
}

/// Returns a comparison with a relative tolerance of `ulps` ulp of the dtype, or an absolute one of as many of its
/// smallest positive values.
fn within(dtype: DType, ulps: f64) -> impl Fn(usize, Val, Val) -> bool {
    let eps = 0.5f64.powi(dtype.mantissa_digits() as i32 - 1);
    let tiny = match dtype {
        DType::F16 => 6e-8,
        DType::F64 => 5e-324,
        _ => 1e-45,
    };
    move |i, got, want| {
        let (g, w) = (got.float(), want.float());
        exact(i, got, want) || g == w || (g - w).abs() <= (ulps * eps * w.abs()).max(tiny * ulps)
    }
}

/// Whether the engine's results of an operation on floats must be correctly rounded.
fn is_exact(op: ElementOp) -> bool {
    use ElementOp::*;
    matches!(
        op,
        Neg | Abs
            | Sign
            | Square
            | Sqrt
            | Recip
            | Relu
            | Floor
            | Ceil
            | Round
            | Trunc
            | IsNan
            | IsInf
            | IsFinite
            | Add
            | Sub
            | Mul
            | Div
            | Rem
            | Minimum
            | Maximum
            | Eq
            | Ne
            | Lt
            | Le
            | Gt
            | Ge
            | Where
            | Clamp
            | Lerp
    )
}

fn contiguous(operand: u16, dtype: DType) -> Access {
    Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false }
}

/// Builds a body that stores the result of one operation on loaded arguments.
fn single(op: ElementOp, dtype: DType, strict: bool) -> Body {
    let mut b = BodyBuilder::new(strict);
    // No fused multiply-adds, so that results equal the operation table's.
    b.repeatable();
    let mut args: Vec<NodeId> = vec![];
    for i in 0..op.row().arity {
        let d = if op == ElementOp::Where && i == 0 { DType::Bool } else { dtype };
        let access = b.access(contiguous(i as u16, d));
        args.push(b.node(Node::Load { access }));
    }
    let y = b.element(op, &args);
    let out = b.access(contiguous(args.len() as u16, op.output(dtype)));
    b.store(y, out);
    b.finish()
}

#[test]
fn every_operation_on_every_dtype_is_what_the_table_says() {
    for &op in ElementOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| op.row().takes.has(d)) {
            for strict in [false, true] {
                let body = single(op, dtype, strict);
                let combinations = points(dtype).len().pow(op.row().arity.min(2) as u32);
                let n = combinations.max(513);
                let mut operands: Vec<Operand> = body.accesses.iter().map(|&a| operand(a, n, 1, 7)).collect();
                // All pairs of points; the third argument varies.
                for (k, w) in operands.iter_mut().enumerate().take(op.row().arity) {
                    let a = body.accesses[k];
                    let p = points(a.dtype);
                    (w.offset, w.strides) = (0, (n as i64, 1));
                    for (i, at) in w.memory.chunks_exact_mut(a.dtype.size()).enumerate() {
                        let j = match k {
                            0 => i,
                            1 => i / p.len(),
                            _ => i / 3 + i,
                        };
                        at.copy_from_slice(&encode(a.dtype, p[j % p.len()]));
                    }
                }
                if !dtype.is_float() || is_exact(op) {
                    check(&body, &mut operands, &[], n, 1, &exact);
                } else {
                    // Expansions accumulate the errors of a few functions, and stay within this on the points.
                    check(&body, &mut operands, &[], n, 1, &within(dtype, 4.0));
                }
            }
        }
    }
}

#[test]
fn every_dtype_moves_through_every_access_class() {
    for dtype in DType::ALL {
        for class in [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Strided, AccessClass::Mapped] {
            for (n, rows) in [(1, 1), (1, 700), (7, 3), (63, 20), (511, 2), (512, 1), (513, 3), (1300, 2)] {
                let rows = if class == AccessClass::Mapped { 1 } else { rows };
                let mut b = BodyBuilder::new(false);
                let access = b.access(Access { operand: Some(0), dtype, class, per_row: false });
                let x = b.node(Node::Load { access });
                let (first, second) = (b.access(contiguous(1, dtype)), b.access(contiguous(2, dtype)));
                b.store(x, first);
                // Once directly, once as an argument.
                let flag = b.element(ElementOp::Eq, &[x, x]);
                let y = b.element(ElementOp::Where, &[flag, x, x]);
                b.store(y, second);
                let body = b.finish();
                let mut operands: Vec<Operand> = body
                    .accesses
                    .iter()
                    .enumerate()
                    .map(|(i, &a)| operand(a, n, rows, (n + rows + i) as u64))
                    .collect();
                check(&body, &mut operands, &[], n, rows, &exact);
            }
        }
    }
}

#[test]
fn every_conversion_is_what_the_table_says() {
    for from in DType::ALL {
        for to in DType::ALL {
            let mut b = BodyBuilder::new(false);
            let access = b.access(contiguous(0, from));
            let x = b.node(Node::Load { access });
            let y = b.cast(x, to);
            let out = b.access(contiguous(1, to));
            b.store(y, out);
            let body = b.finish();
            let mut operands: Vec<Operand> = body.accesses.iter().map(|&a| operand(a, 600, 1, 3)).collect();
            check(&body, &mut operands, &[], 600, 1, &exact);
        }
    }
    assert_eq!(cast(Val::F(f64::NAN), DType::F64, DType::I32), Val::I(0));
    assert_eq!(cast(Val::F(300.7), DType::F64, DType::U8), Val::I(255));
    assert_eq!(decode(DType::I8, &encode(DType::I8, Val::I(-3))), Val::I(-3));
}

#[test]
fn casts_round_narrow_floats_in_either_mode_and_operations_only_in_strict() {
    for strict in [false, true] {
        for narrow in [DType::BF16, DType::F16] {
            let mut b = BodyBuilder::new(strict);
            // No fused multiply-adds, so that results equal the operation table's.
            b.repeatable();
            let access = b.access(contiguous(0, DType::F32));
            let x = b.node(Node::Load { access });
            let third = b.constant(Scalar::Float(1.0 / 3.0), DType::F32);
            let x = b.element(ElementOp::Mul, &[x, third]);
            let short = b.cast(x, narrow);
            let sum = b.element(ElementOp::Add, &[short, short]);
            let sum = b.element(ElementOp::Mul, &[sum, short]);
            let wide = b.cast(sum, DType::F32);
            let out = b.access(contiguous(1, DType::F32));
            b.store(wide, out);
            let body = b.finish();
            let mut operands: Vec<Operand> = body.accesses.iter().map(|&a| operand(a, 100, 1, 3)).collect();
            check(&body, &mut operands, &[], 100, 1, &exact);
        }
    }
}

#[test]
fn positions_and_validity() {
    for class in [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Strided, AccessClass::Mapped] {
        for (n, rows) in [(5, 4), (513, 2)] {
            let rows = if class == AccessClass::Mapped { 1 } else { rows };
            let mut b = BodyBuilder::new(false);
            let at = b.access(Access { operand: None, dtype: DType::U32, class, per_row: false });
            let short = b.node(Node::Index { access: at, dtype: DType::U32 });
            let long = b.node(Node::Index { access: at, dtype: DType::I64 });
            let valid = b.node(Node::Valid { access: at });
            for (i, (v, d)) in [(short, DType::U32), (long, DType::I64), (valid, DType::Bool)].into_iter().enumerate() {
                let out = b.access(contiguous(i as u16, d));
                b.store(v, out);
            }
            let body = b.finish();
            let mut operands: Vec<Operand> = body.accesses.iter().map(|&a| operand(a, n, rows, 11)).collect();
            operands[0].offset += 4_294_967_290;
            // Positions of masked points are unspecified. Those of the table are small, so no position is both large
            // and masked.
            let masked: Vec<bool> = operands[0].table.iter().map(|&t| t < 0).collect();
            if class == AccessClass::Mapped {
                operands[0].table.iter_mut().zip(&masked).for_each(|(t, &m)| *t = if m { -1 } else { *t });
            }
            check(&body, &mut operands, &[], n, rows, &exact);
        }
    }
}

/// Generates a random body over f32, i32 and i8 values with exact operations, conversions, constants and scalars.
fn random(seed: u64) -> (Body, Vec<u64>) {
    use ElementOp::*;
    let mut next = numbers(seed);
    let mut pick = move |n: usize| next() as usize % n;
    let dtypes = [DType::F32, DType::I32, DType::I8, DType::BF16, DType::F64];
    let mut b = BodyBuilder::new(pick(2) == 0);
    // No fused multiply-adds, so that results equal the operation table's.
    b.repeatable();
    let (mut pool, mut operands, mut scalars): (Vec<NodeId>, u16, Vec<u64>) = (vec![], 0, vec![]);
    for d in dtypes {
        for class in [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Strided] {
            let access = b.access(Access { operand: Some(operands), dtype: d, class, per_row: false });
            operands += 1;
            pool.push(b.node(Node::Load { access }));
        }
        pool.push(b.constant(Scalar::Float(3.0), d));
        scalars.push(Scalar::Float(-2.0).to_bits(d));
        pool.push(b.scalar(scalars.len() as u16 - 1, d));
    }
    for _ in 0..60 {
        let x = pool[pool.len() - 1 - pick(pool.len().min(30))];
        let d = b.body().dtype(x);
        let same: Vec<NodeId> = pool.iter().copied().filter(|&y| b.body().dtype(y) == d).collect();
        let y = same[pick(same.len())];
        let made = match pick(8) {
            0 => b.cast(x, dtypes[pick(dtypes.len())]),
            1 if d != DType::Bool => b.element(Neg, &[x]),
            2 if d != DType::Bool => b.element(Mul, &[x, y]),
            3 if d != DType::Bool => b.element(Maximum, &[x, y]),
            4 => b.element(Eq, &[x, y]),
            5 if d == DType::Bool => {
                let (a, c) = (pool[0], pool[0]);
                let s = b.element(Add, &[a, c]);
                b.element(Where, &[x, a, s])
            }
            _ if d != DType::Bool => b.element(Sub, &[x, y]),
            _ => b.element(Not, &[x]),
        };
        pool.push(made);
    }
    for k in [1, 7, 20, 33] {
        let v = pool[pool.len() - k];
        let d = b.body().dtype(v);
        let out = b.access(contiguous(operands, d));
        operands += 1;
        b.store(v, out);
    }
    (b.finish(), scalars)
}

#[test]
fn random_bodies_agree_with_the_table() {
    for seed in 0..150 {
        let (body, scalars) = random(seed);
        let (n, rows) = [(1, 3), (17, 40), (512, 1), (700, 3)][seed as usize % 4];
        let mut operands: Vec<Operand> =
            body.accesses.iter().enumerate().map(|(i, &a)| operand(a, n, rows, seed * 100 + i as u64)).collect();
        check(&body, &mut operands, &scalars, n, rows, &exact);
    }
}

#[test]
fn an_output_may_lie_over_an_input() {
    // Operand a is read, copied elsewhere, and overwritten.
    let mut b = BodyBuilder::new(false);
    let access = b.access(contiguous(0, DType::F32));
    let x = b.node(Node::Load { access });
    let y = b.element(ElementOp::Square, &[x]);
    let (over, copy) = (b.access(contiguous(0, DType::F32)), b.access(contiguous(1, DType::F32)));
    b.store(y, over);
    b.store(x, copy);
    let body = b.finish();
    let n = 1000;
    let mut a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut c = vec![0.0f32; n];
    let (pa, pc) = (a.as_mut_ptr() as u64, c.as_mut_ptr() as u64);
    // SAFETY: the words describe the two vectors.
    assert!(unsafe { compile(&body).run(&[pa, 0, 0, 0, pa, 0, 0, 0, pc, 0, 0, 0], n, 1) });
    assert!((0..n).all(|i| a[i] == (i * i) as f32 && c[i] == i as f32));
}

#[test]
fn lanes_beyond_the_range_of_a_sine_are_computed_all_the_same() {
    let body = single(ElementOp::Sin, DType::F32, false);
    let mut x: Vec<f32> = (0..600).map(|i| if i % 100 == 3 { 1e8 + i as f32 * 1e4 } else { i as f32 }).collect();
    let mut y = vec![0.0f32; x.len()];
    let args = [x.as_mut_ptr() as u64, 0, 0, 0, y.as_mut_ptr() as u64, 0, 0, 0];
    // SAFETY: the words describe the two vectors.
    assert!(unsafe { compile(&body).run(&args, x.len(), 1) });
    for (x, y) in x.iter().zip(&y) {
        assert!((*y as f64 - libm::sin(*x as f64)).abs() < 2e-7, "sin({x}) = {y}");
    }
}
