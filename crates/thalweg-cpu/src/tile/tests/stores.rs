//! Tests of stores that combine, and of strided stores.

use super::oracle::{Operand, Val, bits, decode, encode, evaluate, scalar};
use super::{contiguous, exact, operand};
use crate::row_call::Rows;
use crate::tile::compile;
use thalweg_ir::{DType, ElementOp, Monoid};
use thalweg_kernel::order::combine;
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node};

const OPS: [Monoid; 4] = [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min];
const FOLDED: [DType; 6] = [DType::F32, DType::F64, DType::I32, DType::U32, DType::I64, DType::U64];

/// Builds a body that stores the double of a loaded value (of a bool, its negation) through an access of the class.
fn body(dtype: DType, class: AccessClass, op: Option<Monoid>) -> Body {
    let mut b = BodyBuilder::new(false);
    let (x, out) =
        (b.access(contiguous(0, dtype)), b.access(Access { operand: Some(1), dtype, class, per_row: false }));
    let x = b.node(Node::Load { access: x });
    let y = if dtype == DType::Bool { b.element(ElementOp::Not, &[x]) } else { b.element(ElementOp::Add, &[x, x]) };
    b.store(y, out);
    let mut body = b.finish();
    body.stores[0].combine = op;
    body
}

/// Runs a body whose store has these strides, and compares the whole memory with the result of storing element by
/// element, row by row.
fn check(body: &Body, strides: (i64, i64), n: usize, rows: usize, seed: u64) {
    let (from, to) = (body.accesses[0], body.accesses[1]);
    let mut source = operand(from, n, rows, seed);
    let mut target = operand(to, 3 * n, rows, seed + 1);
    target.strides = strides;
    target.offset = if strides.1 < 0 { -strides.1 * n as i64 } else { 0 };
    let mut want = target.memory.clone();
    let size = to.dtype.size();
    for row in 0..rows {
        for column in 0..n {
            let seen = |a: u16| [&source, &target][a as usize].seen(body.accesses[a as usize], row, column);
            let new = evaluate(body, &seen, &[])[0];
            let new = if to.dtype.is_float() { Val::F(to.dtype.round(new.float())) } else { new };
            let at = &mut want[target.seen(to, row, column).position as usize * size..][..size];
            let value = match body.stores[0].combine {
                None => new,
                Some(op) => {
                    let old = bits(decode(to.dtype, at), to.dtype);
                    scalar(combine(op, to.dtype, old, bits(new, to.dtype)), to.dtype)
                }
            };
            at.copy_from_slice(&encode(to.dtype, value));
        }
    }
    let args = words(body, &mut [&mut source, &mut target]);
    // SAFETY: the words describe the operands' memory, which holds every element of the points.
    assert!(unsafe { compile(body).run(&args, n, rows) });
    for (i, (got, want)) in target.memory.chunks_exact(size).zip(want.chunks_exact(size)).enumerate() {
        let (got, want) = (decode(to.dtype, got), decode(to.dtype, want));
        assert!(exact(0, got, want), "element {i} of {rows}×{n} by {strides:?}: {got:?}, want {want:?}\n{body:#?}");
    }
}

fn words(body: &Body, operands: &mut [&mut Operand]) -> Vec<u64> {
    body.accesses.iter().zip(operands).flat_map(|(a, w)| w.words(*a)).collect()
}

const SIZES: [(usize, usize); 6] = [(1, 1), (1, 600), (7, 30), (33, 4), (512, 2), (700, 3)];

#[test]
fn stores_combine_with_what_is_there_row_by_row() {
    for op in OPS {
        for dtype in FOLDED {
            for (n, rows) in SIZES {
                let wide = n as i64;
                // Contiguous: rows adjacent, with gaps, all at one address, and overlapping.
                for row in [wide, wide + 3, 0, 1] {
                    check(&body(dtype, AccessClass::Contiguous, Some(op)), (row, 1), n, rows, n as u64 + 5);
                }
                // Strided: ascending, descending, all points in one element, and overlapping rows.
                for strides in [(3 * wide, 3), (wide * 2, -2), (0, 0), (1, 0)] {
                    check(&body(dtype, AccessClass::Strided, Some(op)), strides, n, rows, n as u64 + 6);
                }
            }
        }
    }
}

#[test]
fn stores_go_to_elements_that_are_apart() {
    for dtype in DType::ALL {
        for (n, rows) in SIZES {
            for strides in [(3 * n as i64, 3), (2 * n as i64, -2), (1, rows as i64), (n as i64, 1)] {
                check(&body(dtype, AccessClass::Strided, None), strides, n, rows, n as u64 + 7);
            }
        }
    }
}
