//! Finding the repetition in a stretch of operations, so that a loop that never reads is cut at the same place every time.

use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg_ir::{Arg, RelOp};

/// What operation `i` looks like from its own place: arguments by distance, inputs by kind alone.
fn signature(ops: &[RelOp], i: usize) -> u64 {
    let mut h = DefaultHasher::new();
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
pub(crate) fn period(ops: &[RelOp]) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, ElementOp, InputKind, Op, RelArg};

    fn op(e: ElementOp, arg: RelArg) -> RelOp {
        RelOp { op: Op::Element(e), dtype: DType::F32, rank: 1, attr: 0, args: [arg, RelArg::NONE, RelArg::NONE] }
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
    }
}
