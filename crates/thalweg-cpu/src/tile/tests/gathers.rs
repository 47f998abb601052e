//! Tests of gathers at data-dependent offsets, in and out of range.

use super::oracle::{Operand, Val, decode, encode};
use super::{contiguous, exact, numbers, operand};
use crate::row_call::{InnerReduction, Rows};
use crate::tile::{compile, compile_inner_reduction};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId};

/// Adds a gather from operand 2, with offsets from operand 0 and `inside` flags from operand 1.
fn gather(b: &mut BodyBuilder, dtype: DType, class: AccessClass) -> NodeId {
    let (offset, inside) = (b.access(contiguous(0, DType::I64)), b.access(contiguous(1, DType::Bool)));
    let from = b.access(Access { operand: Some(2), dtype, class, per_row: false });
    let (offset, inside) = (b.node(Node::Load { access: offset }), b.node(Node::Load { access: inside }));
    b.node(Node::Gather { access: from, offset, inside })
}

fn stored(dtype: DType, class: AccessClass) -> Body {
    let mut b = BodyBuilder::new(false);
    let x = gather(&mut b, dtype, class);
    let out = b.access(contiguous(3, dtype));
    b.store(x, out);
    b.finish()
}

/// Memory and arguments for a body with a gather, and the expected element at each point.
struct Case {
    operands: Vec<Operand>,
    bounds: [u64; 2],
    want: Vec<Val>,
    args: Vec<u64>,
}

/// Generates a test case. All positions are in range, except at the points of `wrong`, each given with its position, or
/// `None` if `inside` is false there.
fn case(body: &Body, n: usize, rows: usize, seed: u64, wrong: &[(usize, Option<i64>)]) -> Case {
    let mut operands: Vec<Operand> =
        body.accesses.iter().enumerate().map(|(i, &a)| operand(a, n, rows, seed * 9 + i as u64)).collect();
    let (a, size) = (body.accesses[2], body.accesses[2].dtype.size());
    let len = operands[2].memory.len() / size - 3;
    let (mut next, mut want) = (numbers(seed), vec![]);
    for row in 0..rows {
        for column in 0..n {
            let found = wrong.iter().find(|(p, _)| *p == row * n + column).map(|w| w.1);
            let to = found.map_or_else(|| (next() as usize % len) as i64, |to| to.unwrap_or(0));
            let fits = found != Some(None) && (0..len as i64).contains(&to);
            let seen = |i: usize| operands[i].seen(body.accesses[i], row, column).position;
            let (offset_at, inside_at, from) = (seen(0) as usize, seen(1) as usize, seen(2));
            operands[0].memory[offset_at * 8..][..8].copy_from_slice(&to.wrapping_sub(from).to_le_bytes());
            operands[1].memory[inside_at] = (found != Some(None)) as u8;
            let zero = encode(a.dtype, if a.dtype.is_float() { Val::F(0.0) } else { Val::I(0) });
            want.push(decode(a.dtype, if fits { &operands[2].memory[to as usize * size..][..size] } else { &zero }));
        }
    }
    let bounds = [operands[2].memory.as_ptr() as u64, len as u64];
    let args = body.accesses.iter().zip(operands.iter_mut()).flat_map(|(a, w)| w.words(*a)).collect();
    Case { operands, bounds, want, args }
}

impl Case {
    /// Sets argument word 3 of the gather's access to the address of the bounds, which must not move afterwards.
    fn bound(&mut self) -> &[u64] {
        self.args[11] = self.bounds.as_ptr() as u64;
        &self.args
    }

    fn check(&self, body: &Body, n: usize) {
        for (i, want) in self.want.iter().enumerate() {
            let got = self.operands[3].seen(body.accesses[3], i / n, i % n).value.unwrap();
            assert!(exact(0, got, *want), "point {i} of {n} a row: {got:?}, want {want:?}\n{body:#?}");
        }
    }
}

const CLASSES: [AccessClass; 4] =
    [AccessClass::Contiguous, AccessClass::Uniform, AccessClass::Reversed, AccessClass::Strided];

#[test]
fn elements_at_offsets_from_every_class() {
    for dtype in DType::ALL {
        for class in CLASSES {
            for (n, rows) in [(1, 1), (1, 600), (7, 30), (512, 1), (700, 3)] {
                let body = stored(dtype, class);
                let mut case = case(&body, n, rows, (n + rows) as u64, &[]);
                // SAFETY: the words describe the operands' memory; the gathered operand ends before its end.
                assert!(unsafe { compile(&body).run(case.bound(), n, rows) });
                case.check(&body, n);
            }
        }
    }
}

#[test]
fn an_offset_that_leads_outside_is_reported_and_reads_nothing() {
    // The operand ends three elements before its memory, where other values follow.
    for class in CLASSES {
        let (n, rows) = (30, 5);
        let body = stored(DType::I32, class);
        let len = case(&body, n, rows, 3, &[]).bounds[1] as i64;
        for to in [Some(-1), Some(len), Some(len + 2), Some(i64::MIN), Some(i64::MAX), None] {
            for point in [0, 77, 149] {
                let mut case = case(&body, n, rows, 3, &[(point, to)]);
                // SAFETY: as above.
                assert!(!unsafe { compile(&body).run(case.bound(), n, rows) }, "{to:?} at {point}");
                case.check(&body, n);
            }
        }
    }
}

#[test]
fn rows_gather_and_fold() {
    let (n, rows) = (600, 3);
    for (wrong, class) in [(None, 0), (Some(1000), 1), (None, 2), (Some(3), 2)] {
        let mut b = BodyBuilder::new(false);
        let x = gather(&mut b, DType::I32, CLASSES[class]);
        let out = b.access(contiguous(3, DType::I32));
        // The result needs the row's sum, so the gather is repeated or buffered in two phases; only the last one
        // stores.
        let sum = b.fold(Monoid::Sum, x);
        let less = b.element(ElementOp::Sub, &[x, sum]);
        b.store(less, out);
        let body = b.finish();
        for keep in [false, true] {
            let wrong: Vec<_> = wrong.iter().map(|&p| (p, Some(-1))).collect();
            let mut case = case(&body, n, rows, 8, &wrong);
            let code = compile_inner_reduction(&body, keep);
            let mut values = vec![0u64; code.phases().values.len()];
            let mut buffer = vec![0u64; n];
            case.args.extend(code.phases().buffers.iter().flat_map(|_| [buffer.as_mut_ptr() as u64, 0, 0, 0]));
            case.args.push(values.as_mut_ptr() as u64);
            assert_eq!(code.phases().buffers.len(), keep as usize);
            let all = code.phases().list.len();
            // SAFETY: as above; there is at most one buffer, of wider elements than it needs, and space for the values.
            let done = unsafe { code.run(case.bound(), n, rows, 0..all) };
            assert_eq!(done, wrong.is_empty());
            if done {
                for row in case.want.chunks_mut(n) {
                    let int = |v: &Val| if let Val::I(v) = v { *v as i32 } else { unreachable!() };
                    let sum = row.iter().map(int).fold(0, i32::wrapping_add);
                    row.iter_mut().for_each(|v| *v = Val::I(int(v).wrapping_sub(sum) as i64));
                }
                case.check(&body, n);
            }
        }
    }
}

#[test]
fn a_row_gathers_one_element_for_all_its_points() {
    let mut b = BodyBuilder::new(false);
    let once = |operand, dtype| Access { operand: Some(operand), dtype, class: AccessClass::Uniform, per_row: true };
    let (index, from, out) =
        (b.access(once(0, DType::I64)), b.access(once(1, DType::F32)), b.access(once(2, DType::F32)));
    let (all, label) = (b.access(contiguous(3, DType::F32)), b.access(contiguous(1, DType::F32)));
    let (index, yes) = (b.node(Node::Load { access: index }), b.constant(Scalar::Bool(true), DType::Bool));
    let own = b.node(Node::Gather { access: from, offset: index, inside: yes });
    let x = b.node(Node::Load { access: label });
    let max = b.fold(Monoid::Max, x);
    let (less, rest) = (b.element(ElementOp::Sub, &[max, own]), b.element(ElementOp::Sub, &[x, own]));
    b.store(less, out);
    b.store(rest, all);
    let body = b.finish();
    let (n, rows) = (600, 4);
    let x: Vec<f32> = (0..n * rows).map(|i| i as f32).collect();
    for (index, fits) in [([5i64, 0, 599, 7], true), ([5, 0, 2400, 7], false), ([-1, 0, 0, 0], false)] {
        for keep in [false, true] {
            let code = compile_inner_reduction(&body, keep);
            let (mut less, mut rest) = (vec![0.0f32; rows], vec![0.0f32; n * rows]);
            let (mut values, mut buffers) = (vec![0u64; code.phases().values.len()], vec![vec![0u64; n]; 4]);
            let bounds = [x.as_ptr() as u64, (n * rows) as u64];
            let row = 4 * n as u64;
            let mut args = vec![index.as_ptr() as u64, 8, 0, 0, x.as_ptr() as u64, row, 0, bounds.as_ptr() as u64];
            args.extend([less.as_mut_ptr() as u64, 4, 0, 0, rest.as_mut_ptr() as u64, row, 0, 0]);
            args.extend([x.as_ptr() as u64, row, 0, 0]);
            let kept = code.phases().buffers.len();
            args.extend(buffers[..kept].iter_mut().flat_map(|b| [b.as_mut_ptr() as u64, 0, 0, 0]));
            args.push(values.as_mut_ptr() as u64);
            let phases = code.phases().list.len();
            // SAFETY: the words describe the vectors.
            assert_eq!(unsafe { code.run(&args, n, rows, 0..phases) }, fits);
            for r in (0..rows).filter(|_| fits) {
                let own = x[r * n + index[r] as usize];
                assert_eq!(less[r], x[r * n + n - 1] - own);
                assert!((0..n).all(|i| rest[r * n + i] == x[r * n + i] - own));
            }
        }
    }
}
