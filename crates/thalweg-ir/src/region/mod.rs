//! Loops with data-dependent trip counts; the body is a small graph of elementwise operations.
//!
//! A [`Region`] has *carried values*, which change from iteration to iteration, and *arguments*, which do not. It
//! defines the initial carried values, the condition for another iteration, and the carried values after it:
//!
//! ```text
//! carried = first
//! for _ in 0..most { if !go(carried, args) { break } carried = next(carried, args) }
//! ```
//!
//! Elements are independent: an element whose loop has ended does not change any more, while others iterate. The result
//! of an [`Op::Loop`](crate::Op) is one carried value after the last iteration; its arguments are those of the region.
//! Always true: values are f32, f64, i32 or bool; and every operation is rounded separately, in every mode, since a
//! rounding difference could cause an extra iteration.
//!
//! Regions are interned: equal regions have one id, a [`Loop`], so operations with a loop are compared by a number. The
//! id hashes like the structure, so that plans on disk, which are found by hash, can be used by other processes.
//! Interned regions are never freed: their number is bounded by the loops in the program's kernels.

mod text;

use crate::interned::{Interned, Table, by_content};
use crate::{DType, ElementOp};
use std::fmt;

/// Number of iterations of a loop that the planner assumes: more than Newton's method needs, fewer than points at the
/// border of the Mandelbrot set take.
const EXPECTED_TURNS: u32 = 24;

/// Maximum number of arguments of an operation. Arguments of a loop are the values that it reads from outside;
/// operations that are not interned have at most three.
pub const MAX_ARGS: usize = 8;

/// Initial value of a loop-carried value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum First {
    /// Argument of the loop with this index.
    Arg(u16),
    /// A constant.
    Const {
        /// Bits of the constant, in the form of [`crate::Scalar::to_bits`].
        bits: u64,
        /// Dtype of the constant.
        dtype: DType,
    },
}

/// Node of a region: a value that an iteration computes. Other nodes refer to it by its index.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RegionNode {
    /// Carried value with this index, as it is before the iteration.
    Carried(u16),
    /// Argument of the loop with this index.
    Arg(u16),
    /// A constant.
    Const {
        /// Bits of the constant, in the form of [`crate::Scalar::to_bits`].
        bits: u64,
        /// Dtype of the constant.
        dtype: DType,
    },
    /// Elementwise operation; unused arguments repeat the first.
    Element {
        /// The operation.
        op: ElementOp,
        /// Nodes of the arguments.
        args: [u32; 3],
    },
    /// Conversion to another dtype.
    Cast {
        /// Dtype of the result.
        dtype: DType,
        /// Node of the argument.
        arg: u32,
    },
    /// Nested loop, whose results [`RegionNode::Result`] nodes read.
    Loop {
        /// The nested loop.
        inner: Loop,
        /// Nodes of the loop's arguments.
        args: Vec<u32>,
    },
    /// Carried value of a nested loop after its last iteration.
    Result {
        /// Node of the nested loop.
        of: u32,
        /// Index of the carried value.
        number: u16,
    },
}

/// Definition of a loop: initial values, and the graph of one iteration. The module describes its semantics.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// Maximum number of iterations.
    pub most: u32,
    /// Dtypes of the arguments; at least one and at most [`MAX_ARGS`].
    pub args: Vec<DType>,
    /// Initial value of each carried value.
    pub first: Vec<First>,
    /// Nodes of an iteration, each after its arguments.
    pub nodes: Vec<RegionNode>,
    /// Index of the bool node that decides whether there is another iteration.
    pub go: u32,
    /// Index of the node that gives each carried value after an iteration.
    pub next: Vec<u32>,
}

/// Id of an interned region. Equal regions have equal ids; ids are ordered and hashed by the hash of the region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Loop(u32);

static REGIONS: Table<Region, RegionInfo> = Table::new();

struct RegionInfo {
    /// Dtype of each node.
    dtypes: Vec<DType>,
    cost: u32,
}

impl Region {
    /// Interns the region; equal regions have equal ids.
    ///
    /// # Panics
    /// When the region is invalid: it has no carried value, no argument or more than [`MAX_ARGS`] arguments, a value
    /// has a dtype that loops do not support, or a reference does not exist or has a wrong dtype.
    pub fn intern(self) -> Loop {
        let dtypes = self.check().unwrap_or_else(|| panic!("no region: {self:?}"));
        Loop(REGIONS.intern(self, |region| {
            let turn = region.nodes.iter().map(node_cost).fold(1, u32::saturating_add);
            RegionInfo { dtypes, cost: turn.saturating_mul(region.most.clamp(1, EXPECTED_TURNS)).min(1 << 20) }
        }))
    }

    /// Dtypes of the region's nodes; `None` if the region is invalid.
    fn check(&self) -> Option<Vec<DType>> {
        let held = |d: &DType| matches!(d, DType::F32 | DType::F64 | DType::I32 | DType::Bool);
        let carried: Option<Vec<DType>> = self.first.iter().map(|f| f.dtype(&self.args)).collect();
        let carried = carried?;
        let count = (1..=MAX_ARGS).contains(&self.args.len()) && !carried.is_empty();
        if !count || !self.args.iter().chain(&carried).all(held) || self.next.len() != carried.len() {
            return None;
        }
        let mut dtypes: Vec<DType> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let dtype = node.dtype(&self.args, &carried, &dtypes, &self.nodes)?;
            dtypes.push(dtype);
        }
        let is = |n: u32, d: DType| {
            let value = self.nodes.get(n as usize).is_some_and(|n| !matches!(n, RegionNode::Loop { .. }));
            value && dtypes[n as usize] == d
        };
        let next = self.next.iter().zip(&carried).all(|(&n, &d)| is(n, d));
        (is(self.go, DType::Bool) && next && dtypes.iter().all(held)).then_some(dtypes)
    }
}

impl First {
    fn dtype(&self, args: &[DType]) -> Option<DType> {
        match *self {
            First::Arg(n) => args.get(n as usize).copied(),
            First::Const { dtype, .. } => Some(dtype),
        }
    }
}

impl RegionNode {
    /// Dtype of the node's value; `None` unless its arguments precede it and have the right dtypes. (For a loop, that
    /// of its first result.)
    fn dtype(&self, args: &[DType], carried: &[DType], before: &[DType], nodes: &[RegionNode]) -> Option<DType> {
        let value = |n: u32| {
            let dtype = before.get(n as usize)?;
            (!matches!(nodes[n as usize], RegionNode::Loop { .. })).then_some(*dtype)
        };
        match *self {
            RegionNode::Carried(n) => carried.get(n as usize).copied(),
            RegionNode::Arg(n) => args.get(n as usize).copied(),
            RegionNode::Const { dtype, .. } => Some(dtype),
            RegionNode::Element { op, args: ref from } => {
                let arity = op.row().arity;
                let operand = value(from[arity - 1])?;
                let condition = op == ElementOp::Where;
                let fits = (condition as usize..arity).all(|k| value(from[k]) == Some(operand))
                    && (!condition || value(from[0]) == Some(DType::Bool));
                (fits && op.row().takes.has(operand)).then(|| op.output(operand))
            }
            RegionNode::Cast { dtype, arg } => value(arg).map(|_| dtype),
            RegionNode::Loop { inner, args: ref from } => {
                let of: Option<Vec<DType>> = from.iter().map(|&n| value(n)).collect();
                (of? == inner.region().args).then(|| inner.carried(0))
            }
            RegionNode::Result { of, number } => match nodes[..before.len()].get(of as usize)? {
                RegionNode::Loop { inner, .. } if (number as usize) < inner.region().first.len() => {
                    Some(inner.carried(number as usize))
                }
                _ => None,
            },
        }
    }

    /// Indices of the nodes that the node references.
    pub fn args(&self) -> impl Iterator<Item = u32> + '_ {
        let from: &[u32] = match self {
            RegionNode::Carried(_) | RegionNode::Arg(_) | RegionNode::Const { .. } => &[],
            RegionNode::Element { op, args } => &args[..op.row().arity],
            RegionNode::Cast { arg, .. } => std::slice::from_ref(arg),
            RegionNode::Loop { args, .. } => args,
            RegionNode::Result { of, .. } => std::slice::from_ref(of),
        };
        from.iter().copied()
    }
}

fn node_cost(node: &RegionNode) -> u32 {
    match node {
        RegionNode::Element { op, .. } => op.row().cost,
        RegionNode::Cast { .. } => 1,
        RegionNode::Loop { inner, .. } => inner.cost(),
        _ => 0,
    }
}

impl Loop {
    fn interned(self) -> &'static Interned<Region, RegionInfo> {
        REGIONS.get(self.0)
    }

    /// Returns the region of the loop.
    pub fn region(self) -> &'static Region {
        &self.interned().key
    }

    /// Dtype of a node of the region. (For a loop, that of its first result.)
    pub fn dtype(self, node: u32) -> DType {
        self.interned().known.dtypes[node as usize]
    }

    /// Dtypes of all nodes of the region, as [`dtype`](Loop::dtype) gives them.
    pub fn dtypes(self) -> &'static [DType] {
        &self.interned().known.dtypes
    }

    /// Dtype of a carried value.
    pub fn carried(self, number: usize) -> DType {
        self.dtype(self.region().next[number])
    }

    /// Estimated arithmetic cost of all iterations, in additions.
    pub fn cost(self) -> u32 {
        self.interned().known.cost
    }

    /// Whether each operation of an iteration is correctly rounded on every device, so that results agree to the bit.
    pub fn is_exact(self) -> bool {
        self.region().nodes.iter().all(|node| match node {
            RegionNode::Element { op, args } => {
                let float = self.dtype(args[op.row().arity - 1]).is_float();
                let rounded = op.row().ulps == 0 && !matches!(op, ElementOp::Lerp | ElementOp::FloorDiv);
                !float || rounded
            }
            RegionNode::Loop { inner, .. } => inner.is_exact(),
            _ => true,
        })
    }

    /// Whether the loop defines a user-defined monoid: one unconditional iteration that combines the carried values
    /// (the earlier partial result) with the arguments (the later one). The initial carried values are constants, the
    /// identity. Arguments have the number and dtypes of the carried values: f32, f64 or i32.
    pub fn is_combine(self) -> bool {
        let r = self.region();
        let constant = |f: &First| matches!(f, First::Const { .. });
        let always = matches!(r.nodes[r.go as usize], RegionNode::Const { bits: 1, .. });
        let number = |d: &DType| matches!(d, DType::F32 | DType::F64 | DType::I32);
        let same = r.first.len() == r.args.len() && r.args.iter().enumerate().all(|(i, &d)| d == self.carried(i));
        r.most == 1 && always && same && r.first.iter().all(constant) && r.args.iter().all(number)
    }

    /// Identity of a user-defined monoid by component, in the form of [`crate::Scalar::to_bits`].
    pub fn identity(self) -> impl Iterator<Item = u64> {
        self.region().first.iter().map(|f| match *f {
            First::Const { bits, .. } => bits,
            First::Arg(_) => unreachable!("a combine begins with constants"),
        })
    }

    /// Recognizes the linear recurrence `(a1, b1) ∘ (a2, b2) = (a1·a2, a2·b1 + b2)` of floats of one dtype. Returns the
    /// indices of the coefficient component `a` and of the value component `b`; `None` for other loops.
    pub fn linear(self) -> Option<[usize; 2]> {
        let region = self.region();
        let node = |n: u32| &region.nodes[n as usize];
        let pair = |n: u32, op: ElementOp| match node(n) {
            RegionNode::Element { op: o, args } if *o == op => Some([args[0], args[1]]),
            _ => None,
        };
        let product = |n: u32, x: &RegionNode, y: &RegionNode| {
            let factors = pair(n, ElementOp::Mul).map(|f| f.map(node));
            factors.is_some_and(|[p, q]| p == x && q == y || p == y && q == x)
        };
        if !self.is_combine() || region.next.len() != 2 {
            return None;
        }
        let dtype = self.carried(0);
        let found = [[0, 1], [1, 0]].into_iter().find(|&[a, b]: &[usize; 2]| {
            let (before, after) = (|c: usize| RegionNode::Carried(c as u16), |c: usize| RegionNode::Arg(c as u16));
            let value = |p: u32, q: u32| product(p, &after(a), &before(b)) && *node(q) == after(b);
            let sum = pair(region.next[b], ElementOp::Add);
            product(region.next[a], &before(a), &after(a)) && sum.is_some_and(|[p, q]| value(p, q) || value(q, p))
        });
        found.filter(|_| dtype.is_float() && self.carried(1) == dtype)
    }

    /// Number of iterations that the planner assumes.
    pub fn turns(self) -> u32 {
        self.region().most.clamp(1, EXPECTED_TURNS)
    }

    /// Parses the text form of a loop, which `Display` writes; `None` if the text is malformed.
    pub fn parse(text: &str) -> Option<Loop> {
        text::parse(text)
    }
}

by_content!(Loop);

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
