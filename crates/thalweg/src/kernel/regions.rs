//! The loops of a trace, as regions of the stream's language.
//!
//! In: a trace, and what of it follows from numbers alone. Out: for each node the loop that it is a part of, if it is
//! computed from what that loop carries; and of each loop its [`Region`] with the nodes that it reads of outside. What a
//! turn computes from nothing that changes is no part of the loop: it is recorded before it, once. Literals are part of
//! a region, and so of the plan; numbers that are operands are arguments.

use super::trace::{Kind, Node, Trace};
use std::collections::HashMap;
use thalweg_ir::{DType, First, Loop, Region, RegionNode, Scalar};
use thalweg_kernel::reference;

/// The loops of a trace.
pub(super) struct Regions {
    /// Of each node the innermost loop that it is a part of.
    pub inside: Vec<Option<u32>>,
    /// Of each loop that is over what it is, and the nodes of outside that are its arguments.
    loops: Vec<Option<(Region, Vec<usize>)>>,
    /// The dtype of floats in a turn.
    float: DType,
}

/// A mistake: what cannot be in a loop.
pub(super) enum Refused {
    /// A read at a place that a loop changes: of the read of that number.
    Read(u32),
    /// A fold or scan of a row, or an operation on a tile, that a loop changes.
    Combined,
}

impl Regions {
    /// Of a trace of which nothing has been looked at. Floats in a loop are f32 where the kernel's are narrower.
    pub fn new(trace: &Trace, float: DType) -> Regions {
        let float = if matches!(float, DType::BF16 | DType::F16) { DType::F32 } else { float };
        Regions { inside: vec![], loops: trace.loops.iter().map(|_| None).collect(), float }
    }

    /// A loop is over: what it is.
    pub fn close(&mut self, trace: &Trace, of: u32) {
        if self.loops[of as usize].is_none() {
            self.loops[of as usize] = Some(self.region(trace, of));
        }
    }

    /// Looks at the next node of the trace; whether what it is follows from numbers alone.
    pub fn push(&mut self, trace: &Trace, known: bool) -> Result<(), Refused> {
        let i = self.inside.len();
        let node = trace.nodes[i].0;
        let inside = match node {
            _ if known => None,
            Node::Carried { of } => Some(of),
            Node::Looped { of, .. } => self.around(trace, &self.of(of).1),
            _ => self.around(trace, &trace.args(i).collect::<Vec<_>>()),
        };
        match (node, inside) {
            (Node::Read(read), Some(_)) => return Err(Refused::Read(read)),
            (Node::Combined { .. } | Node::Tile(_), Some(_)) => return Err(Refused::Combined),
            _ => {}
        }
        self.inside.push(inside);
        Ok(())
    }

    /// A loop, and the nodes that are its arguments.
    pub fn of(&self, of: u32) -> &(Region, Vec<usize>) {
        self.loops[of as usize].as_ref().expect("a loop is over before its results are there")
    }

    /// The results of a loop on these numbers.
    pub fn on_numbers(&self, of: u32, args: &[Scalar]) -> Vec<Scalar> {
        let (mut region, mut args) = (self.of(of).0.clone(), args.to_vec());
        if args.is_empty() {
            // A region has an argument, if one that nothing asks for.
            region.args.push(DType::Bool);
            args.push(Scalar::Bool(false));
        }
        reference::looped(region.intern(), &args)
    }

    /// The dtype of values of a kind in a turn.
    pub fn dtype(&self, kind: Kind) -> DType {
        match kind {
            Kind::Float => self.float,
            Kind::Int => DType::I32,
            Kind::Mask => DType::Bool,
        }
    }

    /// The innermost loop that some of these are a part of.
    fn around(&self, trace: &Trace, nodes: &[usize]) -> Option<u32> {
        nodes.iter().filter_map(|&a| self.inside[a]).max_by_key(|&l| trace.loops[l as usize].depth)
    }

    fn region(&self, trace: &Trace, of: u32) -> (Region, Vec<usize>) {
        let l = &trace.loops[of as usize];
        let nothing = Region { most: l.most, args: vec![], first: vec![], nodes: vec![], go: 0, next: vec![] };
        let mut w = Writing { all: self, trace, of, region: nothing, args: vec![], place: HashMap::new() };
        w.region.first = l.first.iter().map(|&f| w.first(f as usize)).collect();
        w.region.go = w.node(l.go as usize);
        w.region.next = l.next.iter().map(|&n| w.node(n as usize)).collect();
        (w.region, w.args)
    }
}

/// A region in the making.
struct Writing<'a> {
    all: &'a Regions,
    trace: &'a Trace,
    of: u32,
    region: Region,
    args: Vec<usize>,
    /// Where nodes of the trace are in the region; of a loop in it the node of its first result.
    place: HashMap<Key, u32>,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Node(usize),
    Loop(u32),
}

impl Writing<'_> {
    fn dtype(&self, i: usize) -> DType {
        self.all.dtype(self.trace.nodes[i].1)
    }

    /// The number of an argument.
    fn argument(&mut self, i: usize) -> u16 {
        let known = self.args.iter().position(|&a| a == i);
        known.unwrap_or_else(|| {
            self.args.push(i);
            self.region.args.push(self.dtype(i));
            self.args.len() - 1
        }) as u16
    }

    /// The literal that a node is.
    fn literal(&self, i: usize) -> Option<Scalar> {
        match self.trace.nodes[i].0 {
            Node::Constant(s) => Some(s),
            _ => None,
        }
    }

    fn first(&mut self, i: usize) -> First {
        let dtype = self.dtype(i);
        match self.literal(i) {
            Some(s) => First::Const { bits: s.to_bits(dtype), dtype },
            None => First::Arg(self.argument(i)),
        }
    }

    fn push(&mut self, key: Key, node: RegionNode) -> u32 {
        self.region.nodes.push(node);
        let at = self.region.nodes.len() as u32 - 1;
        self.place.insert(key, at);
        at
    }

    /// Where a node is in the region.
    fn node(&mut self, i: usize) -> u32 {
        // What it is computed from comes first; nodes of the trace are in order, so none is looked for in depth.
        for a in self.needed(i) {
            if !self.place.contains_key(&Key::Node(a)) {
                self.write(a);
            }
        }
        self.place[&Key::Node(i)]
    }

    /// The node with all of the loop that it is computed from, in order.
    fn needed(&self, i: usize) -> Vec<usize> {
        let mut needed = vec![false; i + 1];
        needed[i] = true;
        for a in (0..=i).rev() {
            if needed[a] && !self.place.contains_key(&Key::Node(a)) && self.is_inside(a) {
                self.args_of(a).into_iter().for_each(|b| needed[b] = true);
            }
        }
        (0..=i).filter(|&a| needed[a]).collect()
    }

    /// What a node of a turn is computed from; the result of a loop from the arguments of that.
    fn args_of(&self, i: usize) -> Vec<usize> {
        match self.trace.nodes[i].0 {
            Node::Looped { of, .. } => self.all.of(of).1.clone(),
            _ => self.trace.args(i).collect(),
        }
    }

    /// Whether a node is computed from what the loop carries. (Nothing here is of loops that are over.)
    fn is_inside(&self, i: usize) -> bool {
        let depth = |l: u32| self.trace.loops[l as usize].depth;
        self.all.inside[i].is_some_and(|l| depth(l) >= depth(self.of))
    }

    fn write(&mut self, i: usize) {
        let key = Key::Node(i);
        if !self.is_inside(i) {
            match self.literal(i) {
                Some(s) => {
                    let dtype = self.dtype(i);
                    self.push(key, RegionNode::Const { bits: s.to_bits(dtype), dtype });
                }
                None => {
                    let n = self.argument(i);
                    self.push(key, RegionNode::Arg(n));
                }
            }
            return;
        }
        let node = match self.trace.nodes[i].0 {
            Node::Op { op, args, .. } => {
                let from = |a: u32| self.place[&Key::Node(a as usize)];
                let n = op.row().arity;
                RegionNode::Element { op, args: [0, 1, 2].map(|k| from(args[if k < n { k } else { 0 }])) }
            }
            Node::Cast(a) => RegionNode::Cast { dtype: self.dtype(i), arg: self.place[&Key::Node(a as usize)] },
            Node::Carried { of } => {
                let carried = &self.trace.loops[of as usize].carried;
                let number = carried.iter().position(|&c| c as usize == i).expect("it is one of the loop's");
                RegionNode::Carried(number as u16)
            }
            Node::Looped { of, number } => {
                let of = self.inner(of);
                RegionNode::Result { of, number: number as u16 }
            }
            other => unreachable!("{other:?} does not change in a loop"),
        };
        self.push(key, node);
    }

    /// A loop in the loop.
    fn inner(&mut self, of: u32) -> u32 {
        if let Some(&at) = self.place.get(&Key::Loop(of)) {
            return at;
        }
        let (region, args) = self.all.of(of).clone();
        let args = args.iter().map(|&a| self.place[&Key::Node(a)]).collect();
        let inner: Loop = region.intern();
        self.push(Key::Loop(of), RegionNode::Loop { inner, args })
    }
}
