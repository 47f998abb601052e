//! Rewrites: replacement of operations by cheaper ones with the same results, before a segment is planned.
//!
//! In: a segment. Out: a [`Rewrite`], which is a list of moves, and the rewritten segment ([`Rewritten`]). The moves
//! concern matrix products, where the recorded form and the best one differ most, and reductions of a few elements.
//! ../../../../docs/planner.md ("Rewrites") lists them, with a worked example.
//!
//! * `graph`: the segment being rewritten.
//! * `chains`: order of chained products.
//! * `scales`: row and column scales moved out of a product; `transposes`: products whose transpose is used.
//! * `orders`: elementwise operations in the memory order of convolutions.
//! * `short_reductions`: reductions of a few elements; `small_products`: products of matrices of a few elements.
//!
//! Always true: a move is made only if the changed operation has the same value, up to rounding, for all inputs. Every
//! live original operation still exists with its value, and originals keep their order, so sizes and scalars stay
//! valid. Nothing is rewritten in strict mode or without fusion. The moves follow from the segment alone, and any list
//! of moves gives a legal segment or none.

mod chains;
mod graph;
mod orders;
mod scales;
mod short_reductions;
mod small_products;
#[cfg(test)]
mod tests;
mod transposes;

use crate::segment::{BitSet, Segment};
use graph::Graph;
use serde::{Deserialize, Serialize};
use std::fmt;
use thalweg_ir::{Arg, ElementOp, Op, RelOp, Shape};

/// Rewriting move at one operation, given by its index: that of an operation of the segment, or beyond these, of one
/// that an earlier move added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Move {
    /// `(a·b)·c` becomes `a·(b·c)`.
    Right(u32),
    /// `a·(b·c)` becomes `(a·b)·c`.
    Left(u32),
    /// `(a·b)ᵀ` becomes `bᵀ·aᵀ`.
    Transpose(u32),
    /// `(x∘r)·w` becomes `(x·w)∘r`, where `r` has one element per row.
    Rows(u32),
    /// `x·(w∘s)` becomes `(x·w)∘s`, where `s` has one element per column.
    Columns(u32),
    /// A reduction of a few elements becomes elementwise operations on them.
    Unroll(u32),
    /// A product of small matrices becomes elementwise operations on them.
    Terms(u32),
    /// `f(permute(x))` becomes `permute(f(x))`, around convolutions with channels last.
    Order(u32),
}

impl Move {
    /// Index of the operation that the move changes.
    fn at(self) -> usize {
        match self {
            Move::Right(i) | Move::Left(i) | Move::Transpose(i) | Move::Rows(i) | Move::Columns(i) => i as usize,
            Move::Unroll(i) | Move::Terms(i) | Move::Order(i) => i as usize,
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Move::Right(_) => "(a·b)·c is computed as a·(b·c)",
            Move::Left(_) => "a·(b·c) is computed as (a·b)·c",
            Move::Transpose(_) => "a product whose transpose is used is computed transposed",
            Move::Rows(_) => "factors of rows are applied behind the sum",
            Move::Columns(_) => "factors of columns are applied behind the sum",
            Move::Unroll(_) => "a reduction of a few elements is computed element by element",
            Move::Terms(_) => "a product of small matrices is computed element by element",
            Move::Order(_) => "elements are computed in the order of a convolution's memory",
        })
    }
}

/// Rewrite: list of moves on a segment, in order; empty for most segments.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rewrite(Box<[Move]>);

/// Result of a rewrite. Its inputs and scalars are those of the original segment, and so are the sizes of operations
/// that no move added.
pub(crate) struct Rewritten {
    ops: Vec<RelOp>,
    shapes: Vec<Shape>,
    ints: Vec<i64>,
    live: BitSet,
    /// Index of each original operation in the rewritten segment.
    places: Vec<usize>,
}

impl Rewrite {
    /// Finds all moves that pay.
    pub fn of(segment: &Segment<'_>) -> Rewrite {
        if !segment.mode.fused || segment.mode.strict || !may_pay(segment) {
            return Rewrite::default();
        }
        let mut graph = Graph::new(*segment);
        orders::find(&mut graph);
        chains::find(&mut graph);
        scales::find(&mut graph);
        transposes::find(&mut graph);
        small_products::find(&mut graph);
        short_reductions::find(&mut graph);
        Rewrite(graph.moves.into())
    }

    /// Whether the rewrite has no moves.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rewritten segment; `None` if there are no moves, one of them is not legal, or the segment's mode permits none
    /// (strict, or without fusion).
    pub fn apply(&self, segment: &Segment<'_>) -> Option<Rewritten> {
        if self.is_empty() || !segment.mode.fused || segment.mode.strict {
            return None;
        }
        let mut graph = Graph::new(*segment);
        self.0.iter().try_for_each(|&m| graph.make(m))?;
        Some(graph.finish())
    }

    /// Description of each kind of move, with the original operations that it was made at.
    pub fn described(&self, operations: usize) -> Vec<(String, Vec<usize>)> {
        let mut all: Vec<(String, Vec<usize>)> = vec![];
        for m in &self.0 {
            let (words, at) = (m.to_string(), m.at());
            let said = match all.iter_mut().find(|(w, _)| *w == words) {
                Some((_, said)) => said,
                None => {
                    all.push((words, vec![]));
                    &mut all.last_mut().expect("it was put there").1
                }
            };
            if at < operations && !said.contains(&at) {
                said.push(at);
            }
        }
        all
    }
}

impl Rewritten {
    /// Segment that borrows the rewritten operations, and the rest from `of`.
    pub fn segment<'a>(&'a self, of: &Segment<'a>) -> Segment<'a> {
        Segment { ops: &self.ops, live: &self.live, shapes: &self.shapes, ints: &self.ints, ..*of }
    }

    /// Index of an original operation in the rewritten segment.
    pub fn place(&self, original: usize) -> usize {
        self.places[original]
    }

    /// Original index of the operation at `place`; `None` if a move added it.
    pub fn original(&self, place: usize) -> Option<usize> {
        self.places.binary_search(&place).ok()
    }
}

/// Whether an operation could be the subject of a move: a quick check of every new segment.
fn may_pay(segment: &Segment<'_>) -> bool {
    let op = |a: Arg| match a {
        Arg::Op(i) => Some(segment.ops[i].op),
        _ => None,
    };
    let scale = |op| matches!(op, Op::Element(ElementOp::Mul | ElementOp::Div));
    orders::may_pay(segment)
        || segment.ops.iter().zip(segment.shapes).any(|(rel, shape)| match rel.op {
            Op::Matmul => {
                small_products::may_pay(*shape)
                    || rel
                        .args()
                        .filter_map(op)
                        .any(|op| matches!(op, Op::Matmul | Op::Reshape | Op::Permute) || scale(op))
            }
            Op::Permute => rel.args().filter_map(op).any(|op| op == Op::Matmul),
            Op::Reduce(_) => short_reductions::may_pay(segment, rel),
            _ => false,
        })
}
