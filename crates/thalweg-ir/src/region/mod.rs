//! Loops whose end depends on data: what one turn does, as a small graph of elementwise operations.
//!
//! A [`Region`] has *carried values*, which change from turn to turn, and *arguments*, which do not. It says what each
//! carried value begins as, whether there is another turn, and what the carried values are after it:
//!
//! ```text
//! carried = first
//! for _ in 0..most { if !go(carried, args) { break } carried = next(carried, args) }
//! ```
//!
//! An element whose loop is over changes no more, whatever its neighbours do. An [`Op::Loop`](crate::Op) is one carried
//! value after the last turn; its arguments are the region's. Always true: the values are f32, f64, i32 or bool, and every
//! operation is rounded by itself, in every mode: a turn more or less is not a matter of an ulp.
//!
//! Regions are interned: equal ones are one [`Loop`], so that an operation with one is compared by a number. Its hash is
//! that of the structure, so that plans on disk are found by it. What is interned stays: as many as a program's kernels
//! have loops.

mod text;

use crate::interned::{Interned, Table, by_content};
use crate::{DType, ElementOp};
use std::fmt;

/// Turns that a loop is taken to have where nothing is known, for the planner: more than Newton's method needs, fewer than
/// the border of the Mandelbrot set.
const EXPECTED_TURNS: u32 = 24;

/// The most arguments that an operation has. Those of a loop are what it reads of outside; operations that
/// are not interned have at most three.
pub const MAX_ARGS: usize = 8;

/// What a carried value begins as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum First {
    /// The argument of that number.
    Arg(u16),
    /// A constant, in the form of [`crate::Scalar::to_bits`].
    Const {
        /// The bits.
        bits: u64,
        /// Its dtype.
        dtype: DType,
    },
}

/// A value of a turn; others are named by their position.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RegionNode {
    /// A carried value, as it is before the turn.
    Carried(u16),
    /// An argument.
    Arg(u16),
    /// A constant, in the form of [`crate::Scalar::to_bits`].
    Const {
        /// The bits.
        bits: u64,
        /// Its dtype.
        dtype: DType,
    },
    /// An elementwise operation; unused arguments repeat the first.
    Element {
        /// The operation.
        op: ElementOp,
        /// The arguments.
        args: [u32; 3],
    },
    /// A conversion.
    Cast {
        /// The dtype of the result.
        dtype: DType,
        /// The argument.
        arg: u32,
    },
    /// A loop in the loop. It is read through [`RegionNode::Result`].
    Loop {
        /// The loop.
        inner: Loop,
        /// The arguments.
        args: Vec<u32>,
    },
    /// A carried value of a loop in the loop, after its last turn.
    Result {
        /// The loop's node.
        of: u32,
        /// Which one.
        number: u16,
    },
}

/// What one turn of a loop does; see the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// Turns after which the loop ends in any case.
    pub most: u32,
    /// The dtypes of the arguments, of which there are at least one and at most [`MAX_ARGS`].
    pub args: Vec<DType>,
    /// What the carried values begin as.
    pub first: Vec<First>,
    /// The values of a turn, each after its arguments.
    pub nodes: Vec<RegionNode>,
    /// Whether there is another turn.
    pub go: u32,
    /// The carried values after a turn.
    pub next: Vec<u32>,
}

/// A region that is interned: its number. Equal regions are equal loops; order and hash are those of the structure's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Loop(u32);

static REGIONS: Table<Region, Known> = Table::new();

struct Known {
    /// Of each node.
    dtypes: Vec<DType>,
    cost: u32,
}

impl Region {
    /// The one loop that all equal regions are.
    ///
    /// # Panics
    /// When it is none: what it names is not there, or of another dtype than its place takes.
    pub fn intern(self) -> Loop {
        let dtypes = self.check().unwrap_or_else(|| panic!("no region: {self:?}"));
        Loop(REGIONS.intern(self, |region| {
            let turn = region.nodes.iter().map(node_cost).fold(1, u32::saturating_add);
            Known { dtypes, cost: turn.saturating_mul(region.most.clamp(1, EXPECTED_TURNS)).min(1 << 20) }
        }))
    }

    /// The dtypes of its nodes, if it is a region.
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
    /// Its dtype, if what it names is there before it and is what it takes. (A loop's is that of its first result.)
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

    /// The nodes that it names.
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
    fn interned(self) -> &'static Interned<Region, Known> {
        REGIONS.get(self.0)
    }

    /// What a turn does.
    pub fn region(self) -> &'static Region {
        &self.interned().key
    }

    /// The dtype of a node of the region. (A loop's is that of its first result.)
    pub fn dtype(self, node: u32) -> DType {
        self.interned().known.dtypes[node as usize]
    }

    /// The dtype of a carried value.
    pub fn carried(self, number: usize) -> DType {
        self.dtype(self.region().next[number])
    }

    /// Arithmetic of all turns that are expected, in additions.
    pub fn cost(self) -> u32 {
        self.interned().known.cost
    }

    /// Whether each operation of a turn is correctly rounded on every device, so that results are the same to the bit.
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

    /// Whether it is the combine of a monoid of the user's own: one turn, which is always taken, puts the arguments (a
    /// partial result that comes after) to the carried values (one that comes before). These begin as constants, which are
    /// the identity, and are as many as the arguments and of their dtypes: f32, f64 or i32.
    pub fn is_combine(self) -> bool {
        let r = self.region();
        let constant = |f: &First| matches!(f, First::Const { .. });
        let always = matches!(r.nodes[r.go as usize], RegionNode::Const { bits: 1, .. });
        let number = |d: &DType| matches!(d, DType::F32 | DType::F64 | DType::I32);
        let same = r.first.len() == r.args.len() && r.args.iter().enumerate().all(|(i, &d)| d == self.carried(i));
        r.most == 1 && always && same && r.first.iter().all(constant) && r.args.iter().all(number)
    }

    /// The identity of a combine, by component, in the form of [`crate::Scalar::to_bits`].
    pub fn identity(self) -> impl Iterator<Item = u64> {
        self.region().first.iter().map(|f| match *f {
            First::Const { bits, .. } => bits,
            First::Arg(_) => unreachable!("a combine begins with constants"),
        })
    }

    /// Of a combine that is the linear recurrence, `(a1, b1) ∘ (a2, b2) = (a1·a2, a2·b1 + b2)` of floats of one dtype: which
    /// components are the coefficient and the value.
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

    /// Turns that are expected.
    pub fn turns(self) -> u32 {
        self.region().most.clamp(1, EXPECTED_TURNS)
    }

    /// The loop that a text says; the inverse of `Display`.
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
