//! Tests of gathers from a table at data-dependent positions.

use super::super::inner_reduction::compile_inner_reduction_with;
use super::super::{Options, compile_with};
use super::along::{access, compare, expected};
use super::evaluate::Launch;
use super::{Rng, isas};
use crate::row_call::{InnerReduction, Rows};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::{AccessClass, Body, BodyBuilder, Node};

/// A body that gathers from a table at data-dependent positions.
pub fn gathers(r: &mut Rng, dtype: DType, class: AccessClass, per_row: bool) -> Body {
    let at = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
    gathers_by(r, dtype, class, at, per_row)
}

/// A body that gathers from a table at positions that are read in the pattern `by`.
fn gathers_by(r: &mut Rng, dtype: DType, class: AccessClass, by: AccessClass, per_row: bool) -> Body {
    let mut b = BodyBuilder::new(true);
    let mut operand = 0;
    let at = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
    let from = access(&mut b, &mut operand, dtype, class, per_row);
    let positions = access(&mut b, &mut operand, DType::I64, by, per_row);
    let to = access(&mut b, &mut operand, dtype, at, per_row);
    let index = b.node(Node::Load { access: positions });
    let least = b.constant(Scalar::Int(-(1 << 40)), DType::I64);
    let inside = b.element(ElementOp::Gt, &[index, least]);
    let x = b.node(Node::Gather { access: from, offset: index, inside });
    b.store(x, to);
    if dtype == DType::F32 && r.below(2) == 0 {
        let to = access(&mut b, &mut operand, dtype, AccessClass::Uniform, true);
        let s = b.fold(Monoid::Sum, x);
        b.store(s, to);
    }
    b.finish()
}

#[test]
fn gathers_read_where_they_are_told_and_hand_back_what_is_outside() {
    let mut r = Rng(91);
    for dtype in DType::ALL {
        for (class, by, per_row) in [
            (AccessClass::Uniform, AccessClass::Contiguous, false),
            (AccessClass::Contiguous, AccessClass::Contiguous, false),
            (AccessClass::Contiguous, AccessClass::Uniform, false),
            (AccessClass::Strided, AccessClass::Contiguous, false),
            (AccessClass::Strided, AccessClass::Uniform, false),
            (AccessClass::Uniform, AccessClass::Uniform, true),
        ] {
            for turn in 0..60 {
                let body = gathers_by(&mut r, dtype, class, by, per_row);
                let (n, rows) = (r.below(80), 1 + r.below(2));
                for isa in isas() {
                    let code = compile_inner_reduction_with(&body, isa, true, Options::default()).unwrap();
                    assert!(code.report.rereads_inputs);
                    let mut l = Launch::new(&body, &mut r, n, rows);
                    let size = dtype.size() as i64;
                    l.args[4 * 2 + 1] = if per_row { size as u64 } else { l.args[4 * 2 + 1] };
                    if body.stores.len() > 1 {
                        l.args[4 * 3 + 1] = size as u64;
                    }
                    let table = l.buffers[0].as_mut().unwrap();
                    let (start, count) = (table.address() as i64, table.len as i64 / size);
                    if count == 0 {
                        continue;
                    }
                    // Every point's offset leads from its own element to a random element of the table; one of a whole row
                    // to the elements of a random row.
                    let of_row = by == AccessClass::Uniform && !per_row && n > 0;
                    let points = if per_row || of_row { 1 } else { n };
                    for row in 0..rows {
                        for i in 0..points {
                            let own = (l.position(&body, 0, row, i).unwrap() - start) / size;
                            let goal = match of_row {
                                true => (l.position(&body, 0, r.below(rows), i).unwrap() - start) / size,
                                false => r.below(count as usize) as i64,
                            };
                            let to = l.position(&body, 1, row, i).unwrap() as *mut i64;
                            // SAFETY: the position is inside the buffer of positions.
                            unsafe { to.write_unaligned(goal - own) };
                        }
                    }
                    // If all rows share one row of positions, the rows' own elements must be the same.
                    if l.args[4 + 1] == 0 {
                        l.args[1] = 0;
                    }
                    let want = expected_gather(&mut l, &body, start, count);
                    let Some(want) = want else { continue };
                    let mut values = [0u64; 4];
                    l.args.extend([values.as_mut_ptr() as u64, 1]);
                    let all = code.phases.list.len();
                    // SAFETY: the launch was built for the body.
                    assert!(unsafe { code.run(&l.args, n, rows, 0..all) }, "{isa:?} {dtype} {class:?} {turn}");
                    compare(&mut l, &body, &want, &format!("{isa:?} {dtype} {class:?} {per_row}"));
                    if all == 1 && !per_row {
                        let code = compile_with(&body, isa, Options::default()).unwrap();
                        // SAFETY: as above.
                        assert!(unsafe { code.run(&l.args, n, rows) });
                        compare(&mut l, &body, &want, "as a map");
                    }
                    if points > 0 {
                        let (row, i) = (r.below(rows), r.below(points));
                        let to = l.position(&body, 1, row, i).unwrap() as *mut i64;
                        // SAFETY: the position is inside the buffer of positions; elements out of range are not read.
                        unsafe {
                            to.write_unaligned(r.pick(&[-(1 << 41), 1 << 33, i64::MIN, i64::MAX, -(1 << 33)]));
                            assert!(!code.run(&l.args, n, rows, 0..all), "{isa:?} {dtype} {class:?}");
                        }
                    }
                }
            }
        }
    }
}

/// Expected results of a launch of gathers; `None` if an index is outside the table.
fn expected_gather(l: &mut Launch, body: &Body, start: i64, count: i64) -> Option<Vec<Vec<u8>>> {
    let size = body.accesses[0].dtype.size() as i64;
    let points = if body.accesses[1].per_row { 1 } else { l.n };
    for row in 0..l.rows {
        for i in 0..points {
            // SAFETY: the position is inside the buffer of positions.
            let offset = unsafe { (l.position(body, 1, row, i).unwrap() as *const i64).read_unaligned() };
            let at = (l.position(body, 0, row, i).unwrap() - start) / size + offset;
            if !(0..count).contains(&at) {
                return None;
            }
        }
    }
    Some(expected(l, body))
}
