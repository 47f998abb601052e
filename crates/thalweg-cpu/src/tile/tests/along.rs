//! Compares row bodies with a scalar evaluation in the order of `thalweg_kernel::order`.

use super::oracle::{Operand, Val, bits, evaluate_all, memory, scalar};
use super::{contiguous, exact, numbers, operand};
use crate::row_call::InnerReduction;
use crate::tile::compile_inner_reduction;
use std::ops::Range;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::order::{LANES, combine};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId};

const OPS: [Monoid; 4] = [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min];
const FOLDED: [DType; 6] = [DType::F32, DType::F64, DType::I32, DType::U32, DType::I64, DType::U64];

fn per_row(operand: u16, dtype: DType) -> Access {
    Access { operand: Some(operand), dtype, class: AccessClass::Uniform, per_row: true }
}

/// Folds one block of at most 4,096 elements in the order of `thalweg_kernel::order`.
fn fold(op: Monoid, dtype: DType, elements: impl Iterator<Item = u64>) -> u64 {
    let mut lanes = [op.identity(dtype); LANES];
    for (i, v) in elements.enumerate() {
        lanes[i % LANES] = combine(op, dtype, lanes[i % LANES], v);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = combine(op, dtype, lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Evaluates a row: returns the elements of each store (one per point, or a single one if the store is per row), and
/// the values of the row.
fn evaluate_row(body: &Body, operands: &[Operand], scalars: &[u64], row: usize, n: usize) -> (Vec<Vec<Val>>, Vec<Val>) {
    let mut values: Vec<Val> = vec![];
    let points = |values: &[Val], n: usize| -> Vec<Vec<Val>> {
        let seen = |column| move |a: u16| operands[a as usize].seen(body.accesses[a as usize], row, column);
        (0..n).map(|column| evaluate_all(body, &seen(column), scalars, values)).collect()
    };
    // The node of a fold depends only on earlier folds.
    for f in &body.folds {
        let (dtype, all) = (body.dtype(f.node), points(&values, n));
        values.push(scalar(fold(f.op, dtype, all.iter().map(|v| bits(v[f.node.index()], dtype))), dtype));
    }
    let all = points(&values, n.max(1));
    let stored = body.stores.iter().map(|s| {
        let count = if body.accesses[s.access as usize].per_row { 1 } else { n };
        all[..count].iter().map(|v| v[s.node.index()]).collect()
    });
    (stored.collect(), values)
}

/// Division of a row body's execution into calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Whole,
    PhaseByPhase,
    RowByRow,
}

/// Generates memory for the accesses of a body; no two points write the same element.
fn operands(body: &Body, seed: u64, n: usize, rows: usize) -> Vec<Operand> {
    let operand = |(i, &a): (usize, &Access)| {
        let mut w = operand(a, n.max(1), rows, seed * 100 + i as u64);
        if body.stores.iter().any(|s| s.access as usize == i) {
            match a.class {
                AccessClass::Uniform => w.strides = (2, 0),
                AccessClass::Strided if w.strides.1 > 0 => w.strides.0 = 3 * n as i64,
                _ => {}
            }
        }
        w
    };
    body.accesses.iter().enumerate().map(operand).collect()
}

fn check(body: &Body, seed: u64, scalars: &[u64], n: usize, rows: usize, ways: &[Way]) {
    let before = operands(body, seed, n, rows);
    let want: Vec<_> = (0..rows).map(|row| evaluate_row(body, &before, scalars, row, n)).collect();
    for keep in [false, true] {
        ways.iter().for_each(|&way| check_way(body, operands(body, seed, n, rows), scalars, n, &want, keep, way));
    }
}

fn check_way(
    body: &Body,
    mut operands: Vec<Operand>,
    scalars: &[u64],
    n: usize,
    want: &[(Vec<Vec<Val>>, Vec<Val>)],
    keep: bool,
    way: Way,
) {
    let rows = want.len();
    let code = compile_inner_reduction(body, keep);
    let mut values = vec![0u64; code.phases().values.len()];
    let mut buffers: Vec<Vec<u8>> = code.phases().buffers.iter().map(|d| memory(n * d.size())).collect();
    let mut args: Vec<u64> = body.accesses.iter().zip(operands.iter_mut()).flat_map(|(a, w)| w.words(*a)).collect();
    args.extend(buffers.iter_mut().flat_map(|b| [b.as_mut_ptr() as u64, 0, 0, 0]));
    args.extend(scalars);
    args.push(values.as_mut_ptr() as u64);
    let all = code.phases().list.len();
    // SAFETY: the words describe the operands' memory, buffers of n elements, and space for the values.
    let run = |args: &[u64], rows: usize, phases: Range<usize>| assert!(unsafe { code.run(args, n, rows, phases) });
    match way {
        Way::Whole => run(&args, rows, 0..all),
        Way::PhaseByPhase | Way::RowByRow => {
            for row in 0..rows {
                let mut moved = args.clone();
                for a in 0..body.accesses.len() {
                    moved[4 * a] = moved[4 * a].wrapping_add(moved[4 * a + 1].wrapping_mul(row as u64));
                }
                match way {
                    Way::RowByRow => run(&moved, 1, 0..all),
                    _ => (0..all).for_each(|p| run(&moved, 1, p..p + 1)),
                }
            }
        }
    }
    for (row, (stored, _)) in want.iter().enumerate() {
        for (i, (s, want)) in body.stores.iter().zip(stored).enumerate() {
            let a = body.accesses[s.access as usize];
            for (column, want) in want.iter().enumerate() {
                let got = operands[s.access as usize].seen(a, row, column).value.unwrap();
                let want = if a.dtype.is_float() { Val::F(a.dtype.round(want.float())) } else { *want };
                assert!(
                    exact(i, got, want),
                    "store {i} at ({row}, {column}) of {rows}×{n}, {way:?}, keep {keep}: {got:?}, want {want:?}\n{body:#?}"
                );
            }
        }
    }
    // Values of the last row are in memory.
    if let Some((_, last)) = want.last() {
        for (slot, (want, dtype)) in last.iter().zip(&code.phases().values).enumerate() {
            let got = scalar(values[slot], *dtype);
            assert!(exact(slot, got, *want), "value {slot} with {n} points: {got:?}, want {want:?}");
        }
    }
}

#[test]
fn every_fold_of_every_dtype_has_the_order_of_sums() {
    for op in OPS {
        for dtype in FOLDED {
            let mut b = BodyBuilder::new(false);
            let (x, y) = (b.access(contiguous(0, dtype)), b.access(per_row(1, dtype)));
            let x = b.node(Node::Load { access: x });
            // Read in place, and computed.
            let negative = b.element(ElementOp::Neg, &[x]);
            let (whole, other) = (b.fold(op, x), b.fold(op, negative));
            let sum = b.element(ElementOp::Sub, &[whole, other]);
            b.store(sum, y);
            let body = b.finish();
            for n in [0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 100, 511, 512, 513, 544, 1024, 1500] {
                check(&body, n as u64, &[], n, 3, &[Way::Whole]);
            }
        }
    }
}

#[test]
fn sums_of_numbers_that_round_have_the_order_of_sums() {
    for dtype in [DType::F32, DType::F64] {
        let code = {
            let mut b = BodyBuilder::new(false);
            let (x, y) = (b.access(contiguous(0, dtype)), b.access(per_row(1, dtype)));
            let x = b.node(Node::Load { access: x });
            let sum = b.fold(Monoid::Sum, x);
            b.store(sum, y);
            compile_inner_reduction(&b.finish(), true)
        };
        let mut next = numbers(5);
        for n in [5, 64, 700, 4096] {
            let random: Vec<f64> = (0..n).map(|_| dtype.round(next() as f64 / 1e9 - 1.0)).collect();
            let elements: Vec<u64> = random.iter().map(|&v| Scalar::Float(v).to_bits(dtype)).collect();
            let mut bytes = memory(n * dtype.size());
            for (at, v) in bytes.chunks_exact_mut(dtype.size()).zip(&elements) {
                at.copy_from_slice(&v.to_le_bytes()[..dtype.size()]);
            }
            let (mut out, mut values) = (0u64, 0u64);
            let place = |p: *mut u64| p as u64;
            let args = [bytes.as_mut_ptr() as u64, 0, 0, 0, place(&mut out), 0, 0, 0, place(&mut values)];
            let all = code.phases().list.len();
            // SAFETY: the words describe n elements, one result and one value.
            assert!(unsafe { code.run(&args, n, 1, 0..all) });
            let want = fold(Monoid::Sum, dtype, elements.into_iter());
            assert_eq!((values, out), (want, want), "{dtype}, {n}");
        }
    }
}

/// Generates a random row body: folds that may depend on earlier folds, results per point and per row.
fn random(seed: u64) -> (Body, Vec<u64>) {
    use ElementOp::*;
    let mut next = numbers(seed);
    let mut pick = move |n: usize| next() as usize % n;
    let dtypes =
        [DType::F32, DType::I32, DType::I8, DType::BF16, DType::F64, DType::I64, DType::U32, DType::U16, DType::U64];
    let mut b = BodyBuilder::new(pick(2) == 0);
    // No fused multiply-adds, so that results equal the operation table's.
    b.repeatable();
    let (mut pool, mut operands, mut scalars): (Vec<NodeId>, u16, Vec<u64>) = (vec![], 0, vec![]);
    for d in dtypes {
        for class in [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Strided] {
            let per_row = class == AccessClass::Uniform;
            let access = b.access(Access { operand: Some(operands), dtype: d, class, per_row });
            operands += 1;
            pool.push(b.node(Node::Load { access }));
        }
        pool.push(b.constant(Scalar::Float(3.0), d));
        scalars.push(Scalar::Float(-2.0).to_bits(d));
        pool.push(b.scalar(scalars.len() as u16 - 1, d));
    }
    let at = b.access(Access { operand: None, dtype: DType::U32, class: AccessClass::Contiguous, per_row: false });
    pool.push(b.node(Node::Index { access: at, dtype: DType::I64 }));
    let mut folds = vec![];
    for step in 0..50 {
        let x = pool[pool.len() - 1 - pick(pool.len().min(30))];
        let d = b.body().dtype(x);
        let same: Vec<NodeId> = pool.iter().copied().filter(|&y| b.body().dtype(y) == d).collect();
        let y = same[pick(same.len())];
        let made = match pick(9) {
            0 => b.cast(x, dtypes[pick(dtypes.len())]),
            1 if d != DType::Bool => b.element(Neg, &[x]),
            2 if d != DType::Bool => b.element(Mul, &[x, y]),
            3 if d != DType::Bool => b.element(Maximum, &[x, y]),
            4 => b.element(Eq, &[x, y]),
            5 if d == DType::Bool => b.element(Where, &[x, pool[0], pool[1]]),
            6 if step % 3 == 0 && folds.len() < 5 && FOLDED.contains(&d) => {
                let made = b.fold(OPS[pick(4)], x);
                folds.push(made);
                made
            }
            _ if d != DType::Bool => b.element(Sub, &[x, y]),
            _ => b.element(Not, &[x]),
        };
        pool.push(made);
    }
    if folds.is_empty() {
        folds.push(b.fold(Monoid::Max, pool[0]));
    }
    for k in [1, 7, 20, 33] {
        let v = pool[pool.len() - k];
        let d = b.body().dtype(v);
        let access =
            Access { class: [AccessClass::Contiguous, AccessClass::Strided][pick(2)], ..contiguous(operands, d) };
        operands += 1;
        let out = b.access(access);
        b.store(v, out);
    }
    let first = folds[0];
    let d = b.body().dtype(first);
    for v in [first, b.element(Mul, &[first, first]), b.cast(first, DType::BF16)] {
        let out = b.access(per_row(operands, if v == first { d } else { b.body().dtype(v) }));
        operands += 1;
        b.store(v, out);
    }
    (b.finish(), scalars)
}

#[test]
fn random_row_bodies_agree_with_the_table() {
    let (mut longest, mut buffers, mut sets) = (0, 0, 0);
    for seed in 60..120 {
        let (body, scalars) = random(seed);
        let code = compile_inner_reduction(&body, true);
        longest = longest.max(code.phases().list.len());
        buffers += code.phases().buffers.len();
        sets += code.phases().list.iter().map(|p| p.body.sets.len()).sum::<usize>();
        let (n, rows) = [(1, 3), (0, 2), (17, 8), (512, 2), (700, 2), (33, 5)][seed as usize % 6];
        check(&body, seed, &scalars, n, rows, &[Way::Whole, Way::PhaseByPhase, Way::RowByRow]);
    }
    // The random bodies are varied enough to be a useful test.
    assert!(longest >= 5 && buffers > 0 && sets > 20, "{longest} phases, {buffers} buffers, {sets} sets");
}
