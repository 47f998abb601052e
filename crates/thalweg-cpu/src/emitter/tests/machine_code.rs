//! Hashes of emitted machine code, to show that a change of the emitter does not change what it emits.
//!
//! ```sh
//! CODE_HASHES=/tmp/before cargo nextest run -p thalweg-cpu --run-ignored only machine_code
//! ```
//! writes one line per function: name, instruction set, FNV-1a hash of its bytes or the reason of a refusal. Run it
//! before and after the change, and compare the files with `diff`.

use super::super::inner_reduction::assemble_inner_reduction;
use super::super::{Isa, Options, assemble};
use super::Rng;
use super::along::random_rows;
use super::gathers::gathers;
use super::loops::{KINDS, body as random_loops};
use super::random::{CLASSES, random_body};
use crate::prepare::prepare;
use std::fmt::Write;
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, phases};

const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn map(out: &mut String, name: &str, body: &Body, options: Options) {
    for isa in ISAS {
        let _ = match assemble(body, isa, options) {
            Ok((bytes, _)) => writeln!(out, "{name} {isa:?} {:016x} {}", fnv(&bytes), bytes.len()),
            Err(reason) => writeln!(out, "{name} {isa:?} {reason:?}"),
        };
    }
}

fn rows(out: &mut String, name: &str, body: &Body, options: Options) {
    let body = prepare(body);
    for keep in [false, true] {
        let phases = phases(&body, keep);
        for isa in ISAS {
            let _ = match assemble_inner_reduction(&body, &phases, isa, options) {
                Ok((bytes, _)) => writeln!(out, "{name} {keep} {isa:?} {:016x} {}", fnv(&bytes), bytes.len()),
                Err(reason) => writeln!(out, "{name} {keep} {isa:?} {reason:?}"),
            };
        }
    }
}

fn options(r: &mut Rng) -> Options {
    match r.below(4) {
        0 => Options { registers: Some(5 + r.below(6)), copies: Some(r.pick(&[1, 2, 4])), ..Options::default() },
        1 => Options { streaming: true, ..Options::default() },
        _ => Options::default(),
    }
}

/// Lists the hashes of bodies with a single operation: every operation on every dtype that it takes, every cast, every
/// access class.
fn single_operations(out: &mut String) {
    for d in DType::ALL {
        for &op in ElementOp::ALL.iter().filter(|op| op.row().takes.has(d)) {
            let mut b = BodyBuilder::new(false);
            let x: Vec<_> = (0..op.row().arity as u16)
                .map(|o| {
                    let dtype = if op == ElementOp::Where && o == 0 { DType::Bool } else { d };
                    let access = b.access(Access::contiguous(o, dtype));
                    b.node(Node::Load { access })
                })
                .collect();
            let y = b.element(op, &x);
            let to = b.body().dtype(y);
            let to = b.access(Access::contiguous(9, to));
            b.store(y, to);
            map(out, &format!("{op:?} {d}"), &b.finish(), Options::default());
        }
        for to in DType::ALL {
            for bits in [false, true] {
                if bits && (to.size() != d.size() || to == DType::Bool || d == DType::Bool) {
                    continue;
                }
                let mut b = BodyBuilder::new(true);
                let access = b.access(Access::contiguous(0, d));
                let x = b.node(Node::Load { access });
                let y = if bits { b.bitcast(x, to) } else { b.cast(x, to) };
                let access = b.access(Access::contiguous(1, to));
                b.store(y, access);
                map(out, &format!("cast {bits} {d} {to}"), &b.finish(), Options::default());
            }
        }
        for class in CLASSES {
            for dtype in [DType::U32, DType::I64] {
                let mut b = BodyBuilder::new(true);
                let from = b.access(Access { operand: Some(0), dtype: d, class, per_row: false });
                let to =
                    b.access(Access { operand: Some(1), dtype: d, class: AccessClass::Contiguous, per_row: false });
                let place =
                    b.access(Access { operand: Some(2), dtype, class: AccessClass::Contiguous, per_row: false });
                let (x, i) = (b.node(Node::Load { access: from }), b.node(Node::Index { access: from, dtype }));
                b.store(x, to);
                b.store(i, place);
                map(out, &format!("{class:?} {d} {dtype}"), &b.finish(), Options::default());
            }
        }
    }
}

/// Row body of a softmax: two folds, of which the second depends on the first.
fn softmax(dtype: DType) -> Body {
    let mut b = BodyBuilder::new(false);
    let from = b.access(Access::contiguous(0, dtype));
    let x = b.node(Node::Load { access: from });
    let most = b.fold(thalweg_ir::Monoid::Max, x);
    let x = b.element(ElementOp::Sub, &[x, most]);
    let e = b.element(ElementOp::Exp, &[x]);
    let sum = b.fold(thalweg_ir::Monoid::Sum, e);
    let one = b.constant(Scalar::Float(1.0), dtype);
    let scale = b.element(ElementOp::Div, &[one, sum]);
    let y = b.element(ElementOp::Mul, &[e, scale]);
    let to = b.access(Access::contiguous(1, dtype));
    b.store(y, to);
    b.finish()
}

#[test]
#[ignore = "writes a file"]
fn machine_code() {
    let mut out = String::new();
    single_operations(&mut out);
    let mut r = Rng(20_261_126);
    for k in 0..900 {
        let d: Vec<DType> = (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect();
        let size = r.pick(&[8, 16, 40]);
        let mut body = random_body(&mut r, &d, size);
        body.strict = r.below(2) == 0;
        map(&mut out, &format!("map {k}"), &body, options(&mut r));
    }
    for k in 0..900 {
        let d: Vec<DType> = (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect();
        let (size, folds) = (1 + r.below(12), 1 + r.below(4));
        let mut body = random_rows(&mut r, &d, size, folds);
        body.strict = r.below(2) == 0;
        rows(&mut out, &format!("rows {k}"), &body, options(&mut r));
    }
    for k in 0..300 {
        let kind = r.pick(&KINDS);
        let folds = k % 2 == 0;
        let body = random_loops(&mut r, kind, folds);
        if folds {
            rows(&mut out, &format!("loops in rows {k}"), &body, options(&mut r));
        } else {
            map(&mut out, &format!("loops {k}"), &body, options(&mut r));
        }
    }
    for dtype in DType::ALL {
        for (class, per_row) in [
            (AccessClass::Uniform, false),
            (AccessClass::Contiguous, false),
            (AccessClass::Strided, false),
            (AccessClass::Reversed, false),
            (AccessClass::Uniform, true),
        ] {
            let body = gathers(&mut r, dtype, class, per_row);
            rows(&mut out, &format!("gather {dtype} {class:?} {per_row}"), &body, Options::default());
            map(&mut out, &format!("gather {dtype} {class:?} {per_row}"), &body, Options::default());
        }
    }
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for streaming in [false, true] {
            rows(
                &mut out,
                &format!("softmax {dtype} {streaming}"),
                &softmax(dtype),
                Options { streaming, ..Options::default() },
            );
        }
    }
    for isa in ISAS {
        for (arithmetic, form, bytes) in crate::isa::gemm_functions(isa) {
            let _ = writeln!(out, "{isa:?} {arithmetic} {form} {:016x} {}", fnv(&bytes), bytes.len());
        }
    }
    println!("{} functions", out.lines().count());
    if let Ok(path) = std::env::var("CODE_HASHES") {
        std::fs::write(path, out).unwrap();
    }
}
