//! Finding the repetition in a stretch of operations, so that a loop that never reads is cut at the same place every
//! time.
//!
//! In: the operations that wait. Out: the period, and whether its turns need anything of each other. Turns that do not
//! are no one computation that goes on and on, but work side by side, which is better planned together.

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use thalweg_ir::{Arg, RelOp};

/// What operation `i` looks like from its own place: arguments by distance, inputs by kind alone.
fn signature(ops: &[RelOp], i: usize) -> u64 {
    // A step of an optimiser asks for hundreds each time; two operations taken for one cost a cut at another place.
    let mut h = FxHasher::default();
    let o = &ops[i];
    (o.op, o.dtype, o.rank, o.attr).hash(&mut h);
    for a in o.args() {
        match a {
            Arg::Op(n) => (i - n).hash(&mut h),
            Arg::Input(_) => u64::MAX.hash(&mut h),
            Arg::Scalar | Arg::None => (u64::MAX - 1).hash(&mut h),
        }
    }
    h.finish()
}

/// The shortest period that the last operations repeat at least twice over, if any covers at least half of the stretch.
///
/// Knuth, Morris and Pratt's failure function over the reversed signatures, linear in the stretch.
pub fn period(ops: &[RelOp]) -> Option<usize> {
    let s: Vec<u64> = (0..ops.len()).rev().map(|i| signature(ops, i)).collect();
    let mut fail = vec![0usize; s.len()];
    let mut best = None;
    for i in 1..s.len() {
        let mut k = fail[i - 1];
        while k > 0 && s[i] != s[k] {
            k = fail[k - 1];
        }
        fail[i] = k + (s[i] == s[k]) as usize;
        let (length, p) = (i + 1, i + 1 - fail[i]);
        if length >= 2 * p && 2 * length >= s.len() {
            best = best.map_or(Some(p), |b: usize| Some(b.min(p)));
        }
    }
    best
}

/// The period of a stretch and how many whole turns of it the last operations are.
pub(crate) fn turns(ops: &[RelOp]) -> Option<(usize, usize)> {
    let period = period(ops)?;
    let alike = |&i: &usize| signature(ops, i) == signature(ops, i - period);
    let repeated = (period..ops.len()).rev().take_while(alike).count();
    Some((period, repeated / period + 1))
}

/// Where a turn begins, in operations before the end, if no turn of that period reads what an earlier one computed.
///
/// No argument of the last turns may lie on the other side of their beginnings, wherever these are: of the `period`
/// places where that could be, each argument rules out those between it and its use.
pub fn independent_turns(ops: &[RelOp], period: usize) -> Option<usize> {
    // How many arguments are on the other side of each place, as differences; place `p` is before the operation `p + 1`
    // from the end.
    let mut crossings = vec![0i32; period + 1];
    let n = ops.len();
    for (i, op) in ops.iter().enumerate().skip(n - period) {
        for a in op.args() {
            let Arg::Op(from) = a else { continue };
            let apart = i - from;
            if apart >= period {
                return None;
            }
            // The places before operations `from + 1` to `i`, of which some may be a turn further back.
            let (near, far) = (n - 1 - i, n - 2 - from);
            crossings[near] += 1;
            if far < period {
                crossings[far + 1] -= 1;
            } else {
                crossings[0] += 1;
                crossings[far + 1 - period] -= 1;
            }
        }
    }
    let mut crossed = 0;
    let open = crossings[..period].iter().map(|c| {
        crossed += c;
        crossed == 0
    });
    let open: Vec<usize> = open.enumerate().filter(|p| p.1).map(|p| p.0).collect();
    // Rather whole turns from the first operation on.
    let whole = open.iter().find(|&&p| (n - 1 - p).is_multiple_of(period));
    whole.or(open.first()).map(|p| (p + 1) % period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, ElementOp, InputKind, Op, RelArg};

    fn op(e: ElementOp, arg: RelArg) -> RelOp {
        RelOp { op: Op::Element(e), dtype: DType::F32, rank: 1, attr: 0, args: RelOp::pack(&[arg]) }
    }

    #[test]
    fn a_loop_is_found_behind_a_prologue() {
        let mut ops =
            vec![op(ElementOp::Sin, RelArg::input(0, InputKind { dtype: DType::F32, rank: 1, contiguous: true }))];
        let body = [ElementOp::Exp, ElementOp::Neg, ElementOp::Tanh];
        for i in 0..40 {
            ops.push(op(body[i % 3], RelArg::op(i)));
        }
        assert_eq!(period(&ops), Some(3));
        assert_eq!(period(&ops[..4]), None);
        assert_eq!(turns(&ops), Some((3, 13)), "the first operation of all is another's turn");
    }
    #[test]
    fn turns_that_need_nothing_of_each_other_are_told_apart() {
        let input = RelArg::input(0, InputKind { dtype: DType::F32, rank: 1, contiguous: true });
        // Turns of three in a chain, the first of an input; two operations more of the last.
        let turn = |i: usize, carried: bool| match i % 3 {
            0 if !carried => op(ElementOp::Exp, input),
            k => op([ElementOp::Exp, ElementOp::Neg, ElementOp::Tanh][k], RelArg::op(i.saturating_sub(1))),
        };
        let apart: Vec<RelOp> = (0..32).map(|i| turn(i, false)).collect();
        assert_eq!((period(&apart), independent_turns(&apart, 3)), (Some(3), Some(2)));
        assert_eq!(independent_turns(&apart[..30], 3), Some(0));
        let carried: Vec<RelOp> = (0..32).map(|i| turn(i, true)).collect();
        assert_eq!(independent_turns(&carried, 3), None);
        // Each turn reads what the one before computed first.
        let mut far = apart.clone();
        (3..32).filter(|i| i % 3 == 2).for_each(|i| far[i] = op(ElementOp::Tanh, RelArg::op(i - 5)));
        assert_eq!(independent_turns(&far, 3), None);
    }
}
