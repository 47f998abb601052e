//! Rewrites: other operations that give the same results and cost less, found before a segment is planned.
//!
//! In: a segment. Out: a [`Rewrite`], a list of moves, and what they make of the segment ([`Rewritten`]). All of them are
//! about matrix products, where what is written and what is best to compute lie furthest apart. ../../../../docs/planner.md
//! ("Rewrites") says which there are, and has a worked example.
//!
//! * `graph`: a segment that moves change.
//! * `chains`: the order in which products of products are taken.
//! * `scales`: factors of rows and columns that leave the sum; `transposes`: products whose transpose is computed with.
//!
//! Always true: a move is made only where the operation that it changes has the same value, up to rounding, whatever the
//! numbers; every original operation that somebody can ask for is there with its value, and originals keep their order, so
//! that sizes and scalars stay what they were. In strict mode, and without fusion, nothing is rewritten. Which moves are made
//! follows from the segment alone, and a list of moves from anywhere makes a legal segment or none.

mod chains;
mod graph;
mod scales;
#[cfg(test)]
mod tests;
mod transposes;

use crate::segment::{BitSet, Segment};
use graph::Graph;
use serde::{Deserialize, Serialize};
use std::fmt;
use thalweg_ir::{Arg, ElementOp, Op, RelOp, Shape};

/// One change of one operation. Operations are named by number: the segment's own, then those that moves before this one
/// added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Move {
    /// `(a·b)·c` becomes `a·(b·c)`.
    Right(u32),
    /// `a·(b·c)` becomes `(a·b)·c`.
    Left(u32),
    /// `(a·b)ᵀ` becomes `bᵀ·aᵀ`.
    Transpose(u32),
    /// `(x∘r)·w` becomes `(x·w)∘r`: there is one number of `r` for each row.
    Rows(u32),
    /// `x·(w∘s)` becomes `(x·w)∘s`: there is one number of `s` for each column.
    Columns(u32),
}

impl Move {
    /// The operation that it changes.
    fn at(self) -> usize {
        match self {
            Move::Right(i) | Move::Left(i) | Move::Transpose(i) | Move::Rows(i) | Move::Columns(i) => i as usize,
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
        })
    }
}

/// What is changed of a segment, in order; nothing of most.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rewrite(Box<[Move]>);

/// The operations of a segment after a rewrite. Its inputs, sizes and scalars are the segment's.
pub(crate) struct Rewritten {
    ops: Vec<RelOp>,
    shapes: Vec<Shape>,
    live: BitSet,
    /// The place of each operation of the segment.
    places: Vec<usize>,
}

impl Rewrite {
    /// The moves that pay.
    pub fn of(segment: &Segment<'_>) -> Rewrite {
        if !segment.mode.fused || segment.mode.strict || !may_pay(segment) {
            return Rewrite::default();
        }
        let mut graph = Graph::new(*segment);
        chains::find(&mut graph);
        scales::find(&mut graph);
        transposes::find(&mut graph);
        Rewrite(graph.moves.into())
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The segment after these moves; `None` where there are none, or one of them is not legal.
    pub fn apply(&self, segment: &Segment<'_>) -> Option<Rewritten> {
        if self.is_empty() || !segment.mode.fused || segment.mode.strict {
            return None;
        }
        let mut graph = Graph::new(*segment);
        self.0.iter().try_for_each(|&m| graph.make(m))?;
        Some(graph.finish())
    }

    /// Each kind of move that was made, in words, with the operations of the segment that it was made at.
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
    /// As a segment.
    pub fn segment<'a>(&'a self, of: &Segment<'a>) -> Segment<'a> {
        Segment { ops: &self.ops, live: &self.live, shapes: &self.shapes, ..*of }
    }

    /// Where an operation of the segment stands.
    pub fn place(&self, original: usize) -> usize {
        self.places[original]
    }

    /// The operation of the segment that stands there, if it was not added.
    pub fn original(&self, place: usize) -> Option<usize> {
        self.places.binary_search(&place).ok()
    }
}

/// Whether there is a product whose factor, or whose result, a move could be about: asked of every new segment.
fn may_pay(segment: &Segment<'_>) -> bool {
    let op = |a: Arg| match a {
        Arg::Op(i) => Some(segment.ops[i].op),
        _ => None,
    };
    let scale = |op| matches!(op, Op::Element(ElementOp::Mul | ElementOp::Div));
    segment.ops.iter().any(|rel| match rel.op {
        Op::Matmul => {
            rel.args().filter_map(op).any(|op| matches!(op, Op::Matmul | Op::Reshape | Op::Permute) || scale(op))
        }
        Op::Permute => rel.args().filter_map(op).any(|op| op == Op::Matmul),
        _ => false,
    })
}
