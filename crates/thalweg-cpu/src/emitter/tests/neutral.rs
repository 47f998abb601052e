//! Compiles random bodies for a target that resembles NEON, and interprets their linear code, to test that the
//! machine-neutral stages assume nothing about x86. The target has vectors of 16 bytes, masks in vectors, no memory
//! operands, and a fused multiply-add that overwrites its addend.

use super::Rng;
use super::along::{check_phases, compare, expected, random_rows};
use super::evaluate::Launch;
use super::interpreter::Interpreter;
use super::loops::{KINDS, body as random_loops};
use super::random::random_body;
use crate::prepare::prepare;
use crate::vector::ir::target::{Combine, Constants, Masks, Operands, Target};
use crate::vector::ir::{Format, Inst, Memory, Op};
use crate::vector::linear::{Line, Linear, Operand};
use crate::vector::{Options, function, inner_reduction, map, phases};
use std::collections::HashMap;
use thalweg_ir::{DType, Monoid};
use thalweg_kernel::{AccessClass, Body};

const VECTORS: u8 = 32;

static NARROW: Target = Target {
    vector_bytes: 16,
    vectors: VECTORS as usize,
    masks: Masks::Vectors,
    pointers: 8,
    unroll: &[4, 2],
    native,
    combine,
    operands,
    pack: |_, _, _| unreachable!("packing is native"),
};

fn native(op: Op, lane: u8) -> bool {
    match op {
        Op::Scale | Op::RotateLeft => false,
        Op::IntMul | Op::IntMin | Op::IntMax | Op::UintMin | Op::UintMax => lane == 4,
        Op::Convert(Format::I64 | Format::U64, Format::F32) => false,
        Op::Store(Memory::Unsigned | Memory::Half) => false,
        _ => true,
    }
}

fn combine(op: Monoid, dtype: DType) -> Option<Combine> {
    Some(match (op, dtype.is_float(), dtype.size()) {
        (Monoid::Sum, ..) => Combine::Single,
        (Monoid::Prod, false, 8) => Combine::Sequence { temporaries: 2 },
        (Monoid::Prod, ..) => Combine::Single,
        (Monoid::Max | Monoid::Min, false, 4) => Combine::Single,
        (Monoid::Max | Monoid::Min, ..) => Combine::Sequence { temporaries: 1 },
        _ => return None,
    })
}

fn operands(inst: &Inst) -> Operands {
    let fused = matches!(inst.op, Op::MulAdd | Op::MulSub | Op::NegMulAdd);
    Operands {
        memory: 0,
        constants: Constants::None,
        commutes: false,
        overwrites: if fused { &[2] } else { &[] },
        early: matches!(inst.op, Op::Gather | Op::LoadAt(_)),
    }
}

/// Checks that the target could encode each line, and that each jump's label is bound once.
fn check(code: &Linear, what: &str) {
    let (mut bound, mut used): (HashMap<u32, u32>, Vec<u32>) = (HashMap::new(), vec![]);
    for line in &code.lines {
        match line {
            Line::Run(run) => {
                let inst = &run.inst;
                let lane = if inst.lane == 0 { inst.imm } else { inst.lane };
                assert!(run.dst < VECTORS && run.args.iter().all(|r| *r < VECTORS), "{what}: {run:?}");
                assert!(run.operand.is_none() && run.memory.is_none() && inst.width <= 16, "{what}: {run:?}");
                assert!(matches!(inst.op, Op::Store(_) | Op::Pack) || native(inst.op, lane), "{what}: {run:?}");
                let mask_registers = matches!(
                    inst.op,
                    Op::MaskConst
                        | Op::TestBits
                        | Op::MaskAnd
                        | Op::MaskAndNot
                        | Op::MaskOr
                        | Op::MaskXor
                        | Op::MaskNot
                );
                assert!(!mask_registers, "{what}: {run:?}");
                let fused = matches!(inst.op, Op::MulAdd | Op::MulSub | Op::NegMulAdd);
                assert!(!fused || run.overwritten == Some(2) && run.dst == run.args[2], "{what}: {run:?}");
            }
            Line::Combine { from, width, .. } => {
                assert!(matches!(from, Operand::Reg(_)) && *width <= 16, "{what}: {line:?}");
            }
            Line::LoadMask { .. } | Line::StoreMask { .. } | Line::ClearMask(_) => panic!("{what}: {line:?}"),
            Line::Bind(l) => *bound.entry(l.0).or_default() += 1,
            Line::Jump(to)
            | Line::Branch { to, .. }
            | Line::CountDown { to, .. }
            | Line::BranchIfNumber { to, .. }
            | Line::SubTo { unless_zero: to, .. }
            | Line::Exit { leave: to, .. }
            | Line::Enter { leave: to, .. } => used.push(to.0),
            _ => {}
        }
    }
    assert!(used.iter().all(|l| bound.get(l) == Some(&1)), "{what}: labels");
}

fn mapped(body: &Body) -> bool {
    body.accesses.iter().any(|a| a.class == AccessClass::Mapped)
}

#[test]
fn code_for_a_target_of_short_vectors_is_right() {
    let mut r = Rng(20_261_127);
    let (mut taken, mut ran) = (0, 0);
    for k in 0..600 {
        let d: Vec<DType> = (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect();
        let size = r.pick(&[8, 16, 40]);
        let mut body = if k % 4 == 0 {
            let kind = r.pick(&KINDS);
            random_loops(&mut r, kind, false)
        } else {
            random_body(&mut r, &d, size)
        };
        body.strict = r.below(2) == 0;
        if let Ok(mut map) = map::compile(&body, &NARROW, Options::default()) {
            taken += 1;
            let (code, what) = (function::linear(&mut map, false).unwrap(), format!("map {k}"));
            check(&code, &what);
            // The table does not know that products that are contracted round once.
            if !body.strict {
                continue;
            }
            let (n, rows) = (r.below(71), if mapped(&body) { 1 } else { 1 + r.below(3) });
            let mut launch = Launch::new(&body, &mut r, n, rows);
            let run = |args: &[u64], n, rows| Interpreter::new(&NARROW).run(&code, args, n, rows, 0..0);
            if k % 4 == 0 {
                let want = expected(&mut launch, &body);
                assert!(run(&launch.args, n, rows), "{what}");
                compare(&mut launch, &body, &want, &what);
            } else {
                launch.compare(&body, &what, run);
            }
            ran += 1;
        }
    }
    assert!(taken > 400 && ran > 150, "{taken} {ran}");
    for k in 0..600 {
        let d: Vec<DType> = (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect();
        let (size, folds) = (1 + r.below(12), 1 + r.below(4));
        let body = prepare(&random_rows(&mut r, &d, size, folds));
        let list = thalweg_kernel::phases(&body, k % 2 == 0);
        let Ok(mut reduction) = inner_reduction::compile(&body, &list, &NARROW, Options::default()) else { continue };
        taken += 1;
        let (code, what) = (phases::linear(&body, &mut reduction, &NARROW, false).unwrap(), format!("rows {k}"));
        check(&code, &what);
        let (n, rows) = (r.below(140), if mapped(&body) { 1 } else { r.below(4) });
        check_phases(&body, &list, &mut r, (n, rows), &what, |args, rows, phases| {
            Interpreter::new(&NARROW).run(&code, args, n, rows, phases)
        });
    }
    assert!(taken > 800, "{taken}");
}
