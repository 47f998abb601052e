//! Period detection: finds the repetition in a sequence of operations, so that a loop without reads is cut at the same
//! point every time.
//!
//! In: the waiting operations. Out: the period, and whether its iterations are independent. Independent iterations are
//! not one long computation but parallel ones, which are better planned together.

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use thalweg_ir::{Arg, RelOp};

/// Hash of operation `i` relative to its position: arguments by distance, inputs by kind only.
fn signature(ops: &[RelOp], i: usize) -> u64 {
    // Fast rather than strong: an optimiser step computes hundreds of these each time. A collision only moves a cut.
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

/// Shortest period of the last operations that repeats at least twice and covers at least half of the sequence.
///
/// Knuth-Morris-Pratt failure function over the reversed signatures: linear time.
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

/// Period of a sequence, in operations, and the number of whole iterations at its end.
pub(crate) fn turns(ops: &[RelOp]) -> Option<(usize, usize)> {
    let period = period(ops)?;
    let alike = |&i: &usize| signature(ops, i) == signature(ops, i - period);
    let repeated = (period..ops.len()).rev().take_while(alike).count();
    Some((period, repeated / period + 1))
}

/// Start of an iteration, as a number of operations before the end, if no iteration of that period reads a result of an
/// earlier one.
///
/// No argument of the last iterations may cross their boundaries. There are `period` candidate positions for a
/// boundary; each argument rules out those between it and its use.
pub fn independent_turns(ops: &[RelOp], period: usize) -> Option<usize> {
    // Number of arguments that cross each position, as differences. Position `p` is before the operation `p + 1` from
    // the end.
    let mut crossings = vec![0i32; period + 1];
    let n = ops.len();
    for (i, op) in ops.iter().enumerate().skip(n - period) {
        for a in op.args() {
            let Arg::Op(from) = a else { continue };
            let apart = i - from;
            if apart >= period {
                return None;
            }
            // Positions before operations `from + 1` to `i`; some of them may belong to the iteration before.
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
    // Prefer a position that gives whole iterations from the first operation on.
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
    fn a_loop_is_found_after_a_prologue() {
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
    fn independent_iterations_are_recognised() {
        let input = RelArg::input(0, InputKind { dtype: DType::F32, rank: 1, contiguous: true });
        // Iterations of a chain of three operations, the first of which reads an input; then two operations of the last
        // iteration.
        let turn = |i: usize, carried: bool| match i % 3 {
            0 if !carried => op(ElementOp::Exp, input),
            k => op([ElementOp::Exp, ElementOp::Neg, ElementOp::Tanh][k], RelArg::op(i.saturating_sub(1))),
        };
        let apart: Vec<RelOp> = (0..32).map(|i| turn(i, false)).collect();
        assert_eq!((period(&apart), independent_turns(&apart, 3)), (Some(3), Some(2)));
        assert_eq!(independent_turns(&apart[..30], 3), Some(0));
        let carried: Vec<RelOp> = (0..32).map(|i| turn(i, true)).collect();
        assert_eq!(independent_turns(&carried, 3), None);
        // Each iteration reads the first result of the one before.
        let mut far = apart.clone();
        (3..32).filter(|i| i % 3 == 2).for_each(|i| far[i] = op(ElementOp::Tanh, RelArg::op(i - 5)));
        assert_eq!(independent_turns(&far, 3), None);
    }
}
