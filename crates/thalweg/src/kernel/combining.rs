//! Folds and scans of a row kernel, noted down, and their combines as regions.
//!
//! In: what a row kernel does with the numbers of a row. Out: for each fold and scan the nodes that its elements are made of,
//! and the combine, a [`Region`] of one turn: what comes before is carried, what comes after are its arguments.

use super::repr::Turns;
use super::trace::{Kind, Node, Trace, Traced, push_from, with_last};
use std::collections::HashMap;
use thalweg_ir::{DType, First, Loop, MAX_ARGS, Region, RegionNode, Scalar};
use thalweg_kernel::Along;

/// A fold or scan.
pub(super) struct TracedCombined {
    pub along: Along,
    /// The components of an element.
    pub elements: Vec<u32>,
    /// Those of the identity, of a fold.
    pub identity: Vec<u32>,
    /// Those of two partial results put together.
    pub next: Vec<u32>,
}

/// A fold or scan that is being traced.
pub(super) struct Combining {
    of: u32,
    stage: Stage,
    /// Components that have gone through, in this stage.
    done: u32,
}

#[derive(Clone, Copy)]
enum Stage {
    /// An element, which becomes what comes before.
    Before,
    /// An element, which becomes what comes after.
    After,
    Identity,
    Next,
    Result,
}

impl Combining {
    pub fn new(along: Along) -> Combining {
        let of = with_last(|t| {
            let (elements, identity, next) = (vec![], vec![], vec![]);
            t.combined.push(TracedCombined { along, elements, identity, next });
            t.combined.len() as u32 - 1
        });
        Combining { of, stage: Stage::Before, done: 0 }
    }

    fn through(&mut self, x: Traced, kind: Kind) -> Traced {
        let (of, number) = (self.of, self.done);
        self.done += 1;
        let note = |place: fn(&mut TracedCombined) -> &mut Vec<u32>| {
            with_last(|t| {
                let node = t.place(x) as u32;
                place(&mut t.combined[of as usize]).push(node);
            });
        };
        match self.stage {
            Stage::Before => {
                note(|c| &mut c.elements);
                push_from(&[], |_| Node::Side { of, number, after: false }, kind)
            }
            Stage::After => push_from(&[], |_| Node::Side { of, number, after: true }, kind),
            Stage::Identity => {
                note(|c| &mut c.identity);
                x
            }
            Stage::Next => {
                note(|c| &mut c.next);
                x
            }
            Stage::Result => push_from(&[], |_| Node::Combined { of, number }, kind),
        }
    }
}

impl Turns<Traced> for Combining {
    fn number(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Float)
    }
    fn int(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Int)
    }
    fn mask(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Mask)
    }
    fn go(&mut self, _: Traced) {
        unreachable!("a combine is no loop")
    }
    fn end(&mut self) {
        self.done = 0;
        self.stage = match self.stage {
            Stage::Before => Stage::After,
            Stage::After => Stage::Identity,
            Stage::Identity => Stage::Next,
            Stage::Next | Stage::Result => Stage::Result,
        };
    }
}

/// The combine of a fold or scan, `known` being what follows from numbers alone; or what is wrong with it.
pub(super) fn combine(trace: &Trace, known: &[Option<Scalar>], float: DType, of: usize) -> Result<Loop, &'static str> {
    let c = &trace.combined[of];
    let dtype = |i: usize| match trace.nodes[i].1 {
        Kind::Float => float,
        Kind::Int => DType::I32,
        Kind::Mask => DType::Bool,
    };
    if c.elements.is_empty() || c.elements.len() > MAX_ARGS {
        return Err("an element of what is folded or scanned has 1 to 8 components");
    }
    if c.elements.iter().any(|&e| trace.nodes[e as usize].1 == Kind::Mask) {
        return Err("a truth value is no component of what is folded or scanned; carry an `i32`");
    }
    let args: Vec<DType> = c.elements.iter().map(|&e| dtype(e as usize)).collect();
    let identity = |(n, &dtype): (usize, &DType)| match c.identity.get(n) {
        Some(&i) => known[i as usize]
            .map(|s| s.to_bits(dtype))
            .ok_or("the identity of a fold is a number, the same for all rows"),
        None => Ok(0),
    };
    let bits: Result<Vec<u64>, _> = args.iter().enumerate().map(identity).collect();
    let first = bits?.into_iter().zip(&args).map(|(bits, &dtype)| First::Const { bits, dtype }).collect();
    let mut nodes = vec![RegionNode::Const { bits: 1, dtype: DType::Bool }];
    let mut place: HashMap<usize, u32> = HashMap::new();
    for i in needed(trace, known, &c.next) {
        let at = |a: u32| place[&(a as usize)];
        let (node, number) = (trace.nodes[i].0, known[i]);
        let node = match (node, number) {
            (_, Some(s)) => RegionNode::Const { bits: s.to_bits(dtype(i)), dtype: dtype(i) },
            (Node::Side { of: o, number, after }, _) if o as usize == of => match after {
                true => RegionNode::Arg(number as u16),
                false => RegionNode::Carried(number as u16),
            },
            (Node::Op { op, args, .. }, _) => {
                let n = op.row().arity;
                RegionNode::Element { op, args: [0, 1, 2].map(|k| at(args[if k < n { k } else { 0 }])) }
            }
            (Node::Cast(a), _) => RegionNode::Cast { dtype: dtype(i), arg: at(a) },
            (Node::Looped { .. }, _) => return Err("a combine has no loops whose ends depend on data"),
            _ => {
                return Err(
                    "a combine takes its two sides, literals and numbers; what else it reads is to be a component of the \
                     elements",
                );
            }
        };
        place.insert(i, nodes.len() as u32);
        nodes.push(node);
    }
    let next = c.next.iter().map(|&n| place[&(n as usize)]).collect();
    Ok(Region { most: 1, args, first, nodes, go: 0, next }.intern())
}

/// The nodes that these are computed from, in order.
fn needed(trace: &Trace, known: &[Option<Scalar>], from: &[u32]) -> Vec<usize> {
    let end = from.iter().map(|&n| n as usize + 1).max().unwrap_or(0);
    let mut needed = vec![false; end];
    from.iter().for_each(|&n| needed[n as usize] = true);
    for i in (0..end).rev() {
        if needed[i] && known[i].is_none() && !matches!(trace.nodes[i].0, Node::Combined { .. } | Node::Looped { .. }) {
            trace.args(i).for_each(|a| needed[a] = true);
        }
    }
    (0..end).filter(|&i| needed[i]).collect()
}
