//! Loops of a trace, as regions.
//!
//! In: a trace and its constants. Out: for each node the innermost loop that it belongs to, if it depends on values
//! carried by that loop; and for each loop its [`Region`] with the outside nodes that it reads. Loop-invariant nodes
//! are hoisted: they are recorded once, before the loop. Literals are part of a region, and so of the plan; number
//! operands are arguments.

use super::trace::{Kind, Node, Trace};
use std::collections::HashMap;
use thalweg_ir::{DType, First, Loop, Region, RegionNode, Scalar};
use thalweg_kernel::reference;

/// Data-dependent loops of a trace, as regions of the loop operation.
pub(super) struct Regions {
    /// For each node, the innermost loop that it belongs to.
    pub inside: Vec<Option<u32>>,
    /// For each finished loop its region, and the outside nodes that are its arguments.
    loops: Vec<Option<(Region, Vec<usize>)>>,
    /// The dtype of floats in an iteration.
    float: DType,
}

/// Construct that a loop may not contain.
pub(super) enum Refused {
    /// Read with this number, at an index that changes in the loop.
    Read(u32),
    /// A fold or scan of a row, or an operation on a tile, of values that a loop changes.
    Combined,
}

impl Regions {
    /// Creates the regions of a trace of which no node has been pushed yet. Floats in a loop are f32 where the kernel's
    /// are bf16 or f16.
    pub fn new(trace: &Trace, float: DType) -> Regions {
        let float = if matches!(float, DType::BF16 | DType::F16) { DType::F32 } else { float };
        Regions { inside: vec![], loops: trace.loops.iter().map(|_| None).collect(), float }
    }

    /// Builds the region of a loop that has ended.
    pub fn close(&mut self, trace: &Trace, of: u32) {
        if self.loops[of as usize].is_none() {
            self.loops[of as usize] = Some(self.region(trace, of));
        }
    }

    /// Assigns the next node of the trace to a loop; `known` says that it is a constant.
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

    /// The region of a loop, and the nodes that are its arguments.
    pub fn of(&self, of: u32) -> &(Region, Vec<usize>) {
        self.loops[of as usize].as_ref().expect("a loop is over before its results are there")
    }

    /// Evaluates a loop on numbers.
    pub fn on_numbers(&self, of: u32, args: &[Scalar]) -> Vec<Scalar> {
        let (mut region, mut args) = (self.of(of).0.clone(), args.to_vec());
        if args.is_empty() {
            // A region must have an argument, so an unused one is added.
            region.args.push(DType::Bool);
            args.push(Scalar::Bool(false));
        }
        reference::looped(region.intern(), &args)
    }

    /// The dtype of values of a kind in an iteration.
    pub fn dtype(&self, kind: Kind) -> DType {
        match kind {
            Kind::Float => self.float,
            Kind::Int => DType::I32,
            Kind::Mask => DType::Bool,
        }
    }

    /// The innermost loop that one of these nodes belongs to.
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

/// Region under construction.
struct Writing<'a> {
    all: &'a Regions,
    trace: &'a Trace,
    of: u32,
    region: Region,
    args: Vec<usize>,
    /// Index in the region of each written node of the trace, and of each written inner loop.
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

    /// Index of the region argument that passes the value of trace node `i`, a node outside of the loop. Adds the
    /// argument at its first use.
    fn argument(&mut self, i: usize) -> u16 {
        let known = self.args.iter().position(|&a| a == i);
        known.unwrap_or_else(|| {
            self.args.push(i);
            self.region.args.push(self.dtype(i));
            self.args.len() - 1
        }) as u16
    }

    /// The literal, if a node is one.
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

    /// Index of a node in the region; writes the node, with what it depends on in the loop, if it is new.
    fn node(&mut self, i: usize) -> u32 {
        // Its arguments are written first; nodes of the trace are in order, so no recursion is needed.
        for a in self.needed(i) {
            if !self.place.contains_key(&Key::Node(a)) {
                self.write(a);
            }
        }
        self.place[&Key::Node(i)]
    }

    /// Nodes that a node depends on, and the node itself, in order. Nodes behind a written node or behind one
    /// outside the loop are left out.
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

    /// The arguments of a node in an iteration; for a result of a loop, the arguments of the loop.
    fn args_of(&self, i: usize) -> Vec<usize> {
        match self.trace.nodes[i].0 {
            Node::Looped { of, .. } => self.all.of(of).1.clone(),
            _ => self.trace.args(i).collect(),
        }
    }

    /// Whether a node depends on values carried by the loop. (Nodes of finished loops do not get here.)
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

    /// Index in the region of inner loop `of`; writes the loop if it is new.
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
