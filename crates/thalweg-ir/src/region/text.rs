//! Text form of loops, a single word, which defect reports contain and from which they are replayed.
//!
//! `loop{1000;f32,f32;a0,k0:i32;c0,a1,lt:0:1,…;2;3,4}`: maximum iterations; dtypes of arguments; initial values; nodes;
//! condition for another iteration; next values. A node is `c` a carried value, `a` an argument, `k` a constant,
//! `cast:i32:0`, `lt:0:1`, a loop with its arguments, or `r5:0`, a result of the loop at 5.

use super::{First, Loop, Region, RegionNode};
use crate::{DType, ElementOp};
use std::fmt;

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.region();
        let args: Vec<&str> = r.args.iter().map(|d| d.name()).collect();
        let first = r.first.iter().map(|first| match *first {
            First::Arg(n) => format!("a{n}"),
            First::Const { bits, dtype } => constant(bits, dtype),
        });
        let (first, nodes): (Vec<String>, Vec<String>) = (first.collect(), r.nodes.iter().map(node).collect());
        let next: Vec<String> = r.next.iter().map(u32::to_string).collect();
        let [args, first, nodes, next] = [args.join(","), first.join(","), nodes.join(","), next.join(",")];
        write!(f, "loop{{{};{args};{first};{nodes};{};{next}}}", r.most, r.go)
    }
}

fn constant(bits: u64, dtype: DType) -> String {
    format!("k{bits:x}:{}", dtype.name())
}

fn node(node: &RegionNode) -> String {
    let list = || node.args().map(|a| format!(":{a}")).collect::<String>();
    match node {
        RegionNode::Carried(n) => format!("c{n}"),
        RegionNode::Arg(n) => format!("a{n}"),
        RegionNode::Const { bits, dtype } => constant(*bits, *dtype),
        RegionNode::Element { op, .. } => format!("{}{}", op.name(), list()),
        RegionNode::Cast { dtype, arg } => format!("cast:{}:{arg}", dtype.name()),
        RegionNode::Loop { inner, .. } => format!("{inner}{}", list()),
        RegionNode::Result { of, number } => format!("r{of}:{number}"),
    }
}

/// Splits a text at a separator character, except inside braces.
fn split(text: &str, at: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, vec![]);
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if c == at && depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn read_constant(text: &str) -> Option<(u64, DType)> {
    let (bits, dtype) = text.split_once(':')?;
    Some((u64::from_str_radix(bits, 16).ok()?, DType::from_name(dtype)?))
}

fn read_node(text: &str) -> Option<RegionNode> {
    let parts = split(text, ':');
    let numbers = |from: usize| parts[from..].iter().map(|p| p.parse().ok()).collect::<Option<Vec<u32>>>();
    if parts[0].starts_with("loop{") {
        return Some(RegionNode::Loop { inner: parse(parts[0])?, args: numbers(1)? });
    }
    if let Some(op) = ElementOp::from_name(parts[0]) {
        let from = numbers(1)?;
        let mut args = [*from.first()?; 3];
        args.get_mut(..from.len()).filter(|_| from.len() == op.row().arity)?.copy_from_slice(&from);
        return Some(RegionNode::Element { op, args });
    }
    if parts[0] == "cast" {
        let &[_, dtype, arg] = &parts[..] else { return None };
        return Some(RegionNode::Cast { dtype: DType::from_name(dtype)?, arg: arg.parse().ok()? });
    }
    let rest = text.get(1..)?;
    Some(match text.as_bytes()[0] {
        b'c' => RegionNode::Carried(rest.parse().ok()?),
        b'a' => RegionNode::Arg(rest.parse().ok()?),
        b'k' => {
            let (bits, dtype) = read_constant(rest)?;
            RegionNode::Const { bits, dtype }
        }
        b'r' => {
            let (of, number) = rest.split_once(':')?;
            RegionNode::Result { of: of.parse().ok()?, number: number.parse().ok()? }
        }
        _ => return None,
    })
}

pub(super) fn parse(text: &str) -> Option<Loop> {
    let inside = text.strip_prefix("loop{")?.strip_suffix('}')?;
    let &[most, args, first, nodes, go, next] = &split(inside, ';')[..] else { return None };
    let first = split(first, ',').into_iter().map(|f| match f.strip_prefix('a') {
        Some(n) => n.parse().ok().map(First::Arg),
        None => read_constant(f.strip_prefix('k')?).map(|(bits, dtype)| First::Const { bits, dtype }),
    });
    let region = Region {
        most: most.parse().ok()?,
        args: split(args, ',').into_iter().map(DType::from_name).collect::<Option<_>>()?,
        first: first.collect::<Option<_>>()?,
        nodes: split(nodes, ',').into_iter().map(read_node).collect::<Option<_>>()?,
        go: go.parse().ok()?,
        next: split(next, ',').into_iter().map(|n| n.parse().ok()).collect::<Option<_>>()?,
    };
    region.check()?;
    Some(region.intern())
}
