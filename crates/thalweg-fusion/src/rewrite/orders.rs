//! Elementwise operations in the memory order of their operands, around convolutions whose channels are last in memory.
//!
//! Such a convolution reads and writes `[samples, size…, channels]`, and the program sees permuted views of it. Stored
//! results are row-major, so `f(permute(y))` would be stored in the other order, and the next convolution would need a
//! copy. As `permute(f(y))` it is stored as it is needed. Other operands are permuted back: they are broadcast, or
//! computed where they are read.

use super::Move;
use super::graph::Graph;
use crate::segment::Segment;
use thalweg_ir::{Arg, ForeignCode, Op, RelArg, RelOp, Shape, pack_order, unpack_order};

/// Makes the moves, in segments that have such a convolution.
pub(super) fn find(graph: &mut Graph<'_>) {
    if !graph.seg.ops.iter().any(|rel| is_channels_last(rel.op)) {
        return;
    }
    for i in graph.needed() {
        let op = graph.ops[i].op;
        if op == Op::Permute || matches!(op, Op::Element(_) | Op::Cast) {
            // An illegal move changes nothing.
            let _ = graph.make(Move::Order(i as u32));
        }
    }
}

/// Whether a segment could have such moves.
pub(super) fn may_pay(segment: &Segment<'_>) -> bool {
    segment.ops.iter().any(|rel| is_channels_last(rel.op))
}

fn is_channels_last(op: Op) -> bool {
    matches!(op, Op::Foreign(of) if matches!(of.source().code, ForeignCode::Convolution(c) if c.channels_last))
}

/// [`RelOp::attr`] of the permutation from memory with channels last to a tensor whose channels are dimension 1.
fn from_memory(rank: usize) -> Option<u32> {
    (rank > 2).then(|| pack_order(&[&[0, rank - 1], &(1..rank - 1).collect::<Vec<_>>()[..]].concat()))
}

impl Graph<'_> {
    /// Rewrites `f(permute(x), …)` as `permute(f(x, …))`, or the permutation of a permutation as one.
    pub fn reorder(&mut self, i: usize) -> Option<()> {
        let rel = self.ops[i];
        if rel.op == Op::Permute {
            return self.compose(i);
        }
        let (shape, rank) = (self.shapes[i], self.shapes[i].rank());
        let attr = from_memory(rank)?;
        if self.is_live(i) || !matches!(rel.op, Op::Element(_) | Op::Cast) {
            return None;
        }
        let source = |graph: &Graph<'_>, arg: RelArg| match arg.decode() {
            Arg::Op(p) if graph.ops[p].op == Op::Permute && graph.ops[p].attr == attr => Some(graph.ops[p].args[0]),
            _ => None,
        };
        let order = unpack_order(attr, rank);
        let mut inverse = vec![0; rank];
        order.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        // Every operand is permuted memory, or follows any order.
        let mut found = false;
        for &arg in rel.args.iter().take_while(|a| a.decode() != Arg::None) {
            let is_permuted = self.shape(arg) == Some(shape) && source(self, arg).is_some();
            found |= is_permuted;
            if !is_permuted && !self.follows(arg, shape) {
                return None;
            }
        }
        if !found {
            return None;
        }
        let mut inner = shape;
        inner.dims_mut().iter_mut().zip(&inverse).for_each(|(size, &from)| *size = shape[from]);
        let (mut args, mut masks) = (rel.args, 0);
        for (n, arg) in args.iter_mut().enumerate() {
            let Some(own) = self.shape(*arg) else { continue };
            *arg = match source(self, *arg).filter(|_| own == shape) {
                Some(source) => source,
                None => self.add_in_order(i, *arg, own, &inverse)?,
            };
            let own = self.shape(*arg).expect("a tensor");
            masks |= u32::from(own.broadcast_mask(&inner)) << (8 * n);
        }
        let own_attr = if matches!(rel.op, Op::Element(_)) { masks } else { rel.attr };
        self.ops[i] = RelOp { attr: own_attr, args, ..rel };
        self.shapes[i] = inner;
        let permuted = RelOp { op: Op::Permute, attr, args: RelOp::pack(&[RelArg::op(i)]), ..rel };
        let after = self.add_after(i, permuted, shape);
        self.redirect(i, RelArg::op(after), Some(after));
        Some(())
    }

    /// Whether an operand of an operation of that shape can be read in any order at no cost: a number, a broadcast tensor,
    /// or one that is computed from no memory.
    fn follows(&self, arg: RelArg, shape: Shape) -> bool {
        match (arg.decode(), self.shape(arg)) {
            (Arg::Scalar, _) => true,
            (_, Some(own)) if own.numel() < shape.numel() => true,
            (Arg::Op(i), _) => matches!(self.ops[i].op, Op::Full | Op::Random(_) | Op::Expand),
            _ => false,
        }
    }

    /// Adds an operand's view in another order of dimensions in front of operation `before`.
    fn add_in_order(&mut self, before: usize, arg: RelArg, own: Shape, order: &[usize]) -> Option<RelArg> {
        let (rank, dtype) = (order.len(), self.dtype(arg)?);
        if own.rank() == 0 {
            return Some(arg);
        }
        let mut whole = own;
        while whole.rank() < rank {
            whole = whole.insert(0, 1);
        }
        let arg = if whole == own { arg } else { self.add_reshaped(before, arg, whole)? };
        let mut shape = whole;
        shape.dims_mut().iter_mut().zip(order).for_each(|(size, &from)| *size = whole[from]);
        let op = RelOp { op: Op::Permute, dtype, rank: rank as u8, attr: pack_order(order), args: RelOp::pack(&[arg]) };
        Some(self.add(before, op, shape))
    }

    /// Rewrites the permutation of a permutation as one, or as none.
    fn compose(&mut self, i: usize) -> Option<()> {
        let (outer, rank) = (self.ops[i], self.shapes[i].rank());
        let Arg::Op(p) = outer.args[0].decode() else { return None };
        let inner = self.ops[p];
        if inner.op != Op::Permute || Some(inner.attr) != from_memory(rank) {
            return None;
        }
        let from = unpack_order(inner.attr, rank);
        let order: Vec<usize> = unpack_order(outer.attr, rank).into_iter().map(|d| from[d]).collect();
        if !self.is_live(i) && order.iter().copied().eq(0..rank) {
            self.redirect(i, inner.args[0], None);
            return Some(());
        }
        self.ops[i] = RelOp { attr: pack_order(&order), args: inner.args, ..outer };
        Some(())
    }
}
