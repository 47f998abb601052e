//! Combines of a trace's folds and scans, as regions.
//!
//! In: a trace, and its constants. Out: a [`Region`] with one iteration: the left operand is carried, the right one is
//! its arguments.

use super::trace::{Kind, Node, Trace};
use std::collections::HashMap;
use thalweg_ir::{DType, First, Loop, MAX_ARGS, Region, RegionNode, Scalar};

/// The combine of a fold or scan, where `known` has the constants of the trace; or an error message.
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

/// The nodes `from` and the nodes that they are computed from, in order; without the nodes from which known numbers and
/// the results of folds, scans and loops are computed.
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
